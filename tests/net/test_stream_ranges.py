"""Ranges of streams over AMQP 1.0: complete, or an error names missing offsets."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg import Message, Properties
from amqp10msg.net import stream_ranges
from amqp10msg.net.ends.amqp10 import open_connection
from amqp10msg.net.ends.terms import LinkError
from amqp10msg.net.ends.urls import Endpoint, parse_url
from amqp10msg.net.stream_ranges import (
    Bounds,
    LateRangeError,
    RangeFilters,
    Reading,
    StreamProbe,
    StreamRange,
    StreamRows,
    offset_of,
    read_range,
    received_time,
)
from amqp10msg.wire.primitives import Timestamp
from tests.rabbitmq import BROKER, filled_stream
from tests.stream_broker import Stream, StreamBroker, running
from tests.waiting import TIMEOUT, wait_until

pytestmark = pytest.mark.once

VALUE = "x-stream-filter-value"


def message(number: int, value: str | None = None) -> Message:
    annotations: Any = {} if value is None else {VALUE: value}
    return Message(
        b"%d" % number,
        properties=Properties(message_id=str(number)),
        message_annotations=annotations or None,
        application_properties={"k": number},
    )


def values_of(count: int) -> list[Message]:
    return [message(n, ("a", "b", None)[n // 7 % 3]) for n in range(count)]


@pytest.fixture
def broker() -> Iterator[StreamBroker]:
    made = StreamBroker(s=Stream(), other=Stream())
    made.streams["s"].publish(*(message(n) for n in range(300)))
    with running(made):
        yield made


def read(
    url: str, start: int, stop: int, stream: str = "s", **how: Any
) -> tuple[list[int], list[tuple[int, int]]]:
    """Return the offsets of the received messages, also in their bodies, and the lost ranges."""
    found, lost = [], []
    reading = Reading(**{"timeout": 10.0, "rows": 64, **how})
    for one in read_range(parse_url(url), StreamRange(stream, start, stop), reading):
        if isinstance(one, StreamRows):
            bodies = [int(Message.decode(octets).value) for octets in one.octets]
            assert one.offsets == bodies
            found += one.offsets
        else:
            lost.append(one)
    return found, lost


@pytest.mark.parametrize("version", ["3.13.7", "4.0.0"])
@pytest.mark.parametrize("name", ["a b", "a/b", "a%20b", "a+b"])
def test_stream_with_any_name(version: str, name: str) -> None:
    broker = StreamBroker(**{name: Stream()})
    broker.version = version
    broker.streams[name].publish(*(message(n) for n in range(3)))
    with running(broker):
        assert ([0, 1, 2], []) == read(broker.url, 0, 3, name)


@pytest.mark.parametrize("name", ["größe", "a%2Fb"])
def test_stream_name_that_rabbitmq_3_cannot_address(name: str) -> None:
    broker = StreamBroker(**{name: Stream()})
    broker.version = "3.13.7"
    with running(broker), pytest.raises(ValueError, match="cannot express"):
        read(broker.url, 0, 3, name)


@given(st.data())
def test_range_is_complete_despite_cuts_and_gaps(data: st.DataObject) -> None:
    """Also with messages beyond the credit."""
    holes = data.draw(st.sets(st.integers(1, 119), max_size=20))
    cuts = data.draw(st.lists(st.integers(1, 60), max_size=2))
    values = data.draw(st.sampled_from([(), ("a",), ("a", "b"), ("none",)]))
    stream = Stream(cuts=cuts, excess=data.draw(st.integers(0, 3)), chunk=10)
    sent = {n: one for n, one in enumerate(values_of(120)) if n not in holes}
    for offset, one in sent.items():
        stream.publish(one, at=offset)
    start = data.draw(st.integers(0, 119))
    stop = data.draw(st.integers(start, max(sent) + 1))

    with (
        mock.patch.object(stream_ranges, "_FIRST_BACKOFF", 0.001),
        running(StreamBroker(s=stream)) as broker,
    ):
        found = read(
            broker.url,
            start,
            stop,
            window=data.draw(st.sampled_from([1, 2, 30, 4_000])),
            filters=RangeFilters(values),
        )

    wanted = [
        n
        for n, one in sent.items()
        if start <= n < stop and (not values or one.message_annotation(VALUE) in values)
    ]
    assert (wanted, []) == found


def test_late_range_error_has_the_missing_offsets(broker: StreamBroker) -> None:
    broker.streams["s"].stalls = 120

    with pytest.raises(LateRangeError) as caught:
        read(broker.url, 100, 200, timeout=0.2)

    place = broker.url.replace("me:secret@", "")
    assert str(caught.value) == (
        f"{place}/: offsets 120 to 199 of the stream s were not received within 0.2 s "
        "(no message was received); 20 messages of the 100 offsets from 100 were"
    )


def test_filtered_range_at_a_lagging_node_is_late(broker: StreamBroker) -> None:
    """A lagging node has fewer messages, so an empty drain does not prove the end."""
    broker.streams["s"].stalls = 120

    with pytest.raises(
        LateRangeError, match="offsets 100 to 199 of the stream s were not received within"
    ):
        read(broker.url, 100, 200, timeout=0.2, filters=RangeFilters(("a",), unfiltered=True))


def test_only_offsets_removed_by_retention_count_as_lost(broker: StreamBroker) -> None:
    stream = broker.streams["s"]
    del stream.messages[150]
    assert ([*range(140, 150), *range(151, 160)], []) == read(broker.url, 140, 160)

    stream.retain(152)

    assert (list(range(152, 160)), [(140, 12)]) == read(broker.url, 140, 160)
    assert ([], [(10, 20)]) == read(broker.url, 10, 30)
    filters = RangeFilters(("a",), unfiltered=True)
    assert (list(range(152, 160)), [(140, 12)]) == read(broker.url, 140, 160, filters=filters)


def test_bounds_and_partitions(broker: StreamBroker) -> None:
    stream = broker.streams["s"]
    stream.retain(7)
    with StreamProbe(parse_url(broker.url)) as probe:
        assert {"s": Bounds(7, 300), "other": Bounds(0, 0)} == probe.bounds(["s", "other"])
        broker.cut()
        stream.publish(message(300))
        assert {"s": Bounds(7, 301)} == probe.bounds(["s"])
        for number in range(3):
            broker.streams[f"parts-{number}"] = Stream()
        assert ["parts-0", "parts-1", "parts-2"] == probe.partitions("parts")
        with pytest.raises(LinkError, match="no queue 'nothing-0'"):
            probe.partitions("nothing")
    assert 7 >= broker.connections  # kept, but where it was cut, or ended by an answer


@given(
    st.lists(st.integers(0, 5_000), max_size=150),
    st.integers(0, 6_000),
    st.booleans(),
)
def test_position_of_a_time_is_its_first_message(
    times: list[int], moment: int, has_times: bool
) -> None:
    """If messages have no arrival times, it is the first chunk stored in the same second."""
    stream = Stream(times=dict(enumerate(sorted(times))), has_times=has_times)
    stream.publish(*(message(number) for number in stream.times))
    late = [
        n
        for n, got_at in stream.times.items()
        if got_at >= (moment if has_times else moment // 1000 * 1000)
    ]
    expected = late[0] if late else len(times)
    if late and not has_times:
        expected -= expected % stream.chunk

    with running(StreamBroker(s=stream)) as broker, StreamProbe(parse_url(broker.url), 5) as probe:
        assert {"s": expected} == probe.offsets_at(["s"], moment)


def test_query_is_retried_while_the_broker_restarts(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Stream()
    stream.publish(*(message(n) for n in range(10)))
    refused: list[LinkError] = []

    async def counted(endpoint: Endpoint) -> Any:
        try:
            return await open_connection(endpoint)
        except LinkError as error:
            refused.append(error)
            raise

    monkeypatch.setattr(stream_ranges, "open_connection", counted)
    # Connections are refused until `running` listens on this socket.
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        endpoint = parse_url(f"amqp://me:secret@127.0.0.1:{listener.getsockname()[1]}")
        said = r"not reached within 0\.3 s \(Connection refused"
        with StreamProbe(endpoint, timeout=0.3) as probe, pytest.raises(LinkError, match=said):
            probe.bounds(["s"])
        refused.clear()
        with StreamProbe(endpoint, timeout=TIMEOUT) as probe, ThreadPoolExecutor() as pool:
            asked = pool.submit(probe.bounds, ["s"])
            wait_until(lambda: refused)
            with running(StreamBroker(s=stream), listener):
                assert {"s": Bounds(0, 10)} == asked.result(TIMEOUT)
                (found,) = read_range(endpoint, StreamRange("s", 0, 10))
                assert isinstance(found, StreamRows)


def test_queue_that_is_not_a_stream_is_refused(broker: StreamBroker) -> None:
    broker.agrees = False

    refusal = r"s is not a stream: RabbitMQ 4\.0\.0 does not start reading at an offset"
    with pytest.raises(LinkError, match=refusal):
        read(broker.url, 0, 10)


def test_stream_that_rabbitmq_3_10_does_not_deliver_is_refused(broker: StreamBroker) -> None:
    """It would look empty: the broker attaches the link, and ends a drain at once."""
    broker.version = "3.10.8"
    endpoint = parse_url(broker.url)

    with StreamProbe(endpoint) as probe:
        for query in (lambda: probe.bounds(["s"]), lambda: probe.offsets_at(["s"], 0)):
            with pytest.raises(LinkError, match=r"RabbitMQ 3\.10 delivers nothing .* amqp091"):
                query()
    with pytest.raises(LinkError, match=r"RabbitMQ 3\.10 delivers nothing .* amqp091"):
        read(broker.url, 0, 10)


def test_wrong_password_is_raised_immediately_without_it(broker: StreamBroker) -> None:
    with pytest.raises(LinkError) as caught:
        read(broker.url.replace("secret", "wrong-one"), 0, 10)

    assert "wrong-one" not in str(caught.value)
    assert caught.value.permanent


def test_offset_is_read_from_the_annotation_only() -> None:
    fake = b"\xa3\x0fx-stream-offset\x53\x09"
    forged = Message(fake, message_annotations={"x-opt": fake, "x-stream-offset": 7}).encode()
    assert [7, 7, 7] == [offset_of(forged, one) for one in (None, 7, 8)]
    with pytest.raises(LinkError, match="has no offset"):
        offset_of(Message(fake).encode(), 10)
    for offset in (0, 1, 255, 256, 2**31, 2**53):
        octets = Message(b"", message_annotations={"x-stream-offset": offset}).encode()
        assert [offset, offset] == [offset_of(octets, offset), offset_of(octets, None)]


def test_malformed_message_passes_every_filter() -> None:
    """Its row reports the error, which would otherwise stay unnoticed."""
    for one in (RangeFilters(sql="subject = 'a'"), RangeFilters(values=("a",))):
        assert one.admit(b"\x00\x53")
        assert not one.admit(Message(b"x").encode())


def test_received_time() -> None:
    moment = Timestamp(1_700_000_000_123)
    said = {"x-opt-rabbitmq-received-time": moment}
    assert moment == received_time(Message(b"", message_annotations=said).encode())
    assert None is received_time(Message(b"x-opt-rabbitmq-received-time").encode())


# RabbitMQ.


@pytest.fixture
def rabbitmq() -> Iterator[tuple[Endpoint, str]]:
    """A stream of 3,000 messages at RabbitMQ."""
    with filled_stream() as (_, name):
        yield parse_url(f"amqp://guest:guest@{BROKER}"), name


@pytest.mark.parametrize("window", [1, 50, 4_000])
def test_ranges_of_rabbitmq(rabbitmq: tuple[Endpoint, str], window: int) -> None:
    endpoint, name = rabbitmq
    url = f"amqp://guest:guest@{BROKER}"
    with StreamProbe(endpoint) as probe:
        try:
            assert {name: Bounds(0, 3_000)} == probe.bounds([name])
        except LinkError as error:
            assert "RabbitMQ 3.10 delivers nothing from a stream over 1.0" in str(error)  # noqa: PT017
            return
        now = time.time_ns() // 10**6
        assert {name: 0} == probe.offsets_at([name], 0) == probe.offsets_at([name], now - 10**8)
        assert {name: 3_000} == probe.offsets_at([name], now + 10**8)
    start = 2_900 if window == 1 else 0
    for begin in (start, start + 33):
        whole = read(url, begin, 3_000, name, window=window)
        assert (list(range(begin, 3_000)), []) == whole
        middle = read(url, begin, begin + 60, name, window=window, filters=RangeFilters(("b",)))
        assert ([n for n in range(begin, begin + 60) if n % 2], []) == middle
    last = read(url, start, 3_000, name, window=window, filters=RangeFilters(sql="k >= 2990"))
    assert (list(range(2_990, 3_000)), []) == last
    with pytest.raises(LateRangeError, match="offsets 3000 to 3009 of the stream"):
        read(url, 2_990, 3_010, name, timeout=0.3)


def test_stream_reader_imports_neither_bridge_nor_pika() -> None:
    program = (
        "import sys\n"
        "import amqp10msg.net.stream_ranges\n"
        "unwanted = ('pika', 'amqp10msg.net.bridge.bridge', 'amqp10msg.net.bridge.route')\n"
        "print([name for name in unwanted if name in sys.modules])"
    )

    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)

    assert b"[]" == done.stdout.strip()
