"""Partitions of an event hub: where they begin and end, and ranges that come whole.

Against a double, which azure-eventhub can read, too; the service itself was not asked.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from functools import partial
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg import Message, encode_value
from amqp10msg.net import stream_ranges, transport
from amqp10msg.net.ends.terms import LinkError
from amqp10msg.net.ends.urls import parse_url
from amqp10msg.net.event_hubs import ENQUEUED_TIME_ANNOTATION, Hub, Partitions
from amqp10msg.net.stream_ranges import (
    Bounds,
    LateRangeError,
    Reading,
    StreamProbe,
    StreamRange,
    StreamRows,
    read_range,
    received_time,
)
from amqp10msg.net.transport import sessions
from tests.event_hub import Namespace, Partition, enqueued
from tests.stream_broker import running

pytestmark = pytest.mark.once

HUB = Hub("orders", "lake")
MAKE = partial(Partitions, HUB)


def events(count: int) -> list[Message]:
    return [Message(b"%d" % number) for number in range(count)]


@pytest.fixture
def namespace() -> Iterator[Namespace]:
    made = Namespace(Partition(), Partition(), Partition())
    made.streams["0"].publish(*events(300))
    made.streams["1"].publish(*events(20))
    made.streams["1"].retain(20)
    with running(made):
        yield made


def read(
    namespace: Namespace, start: int, stop: int, **how: object
) -> tuple[list[int], list[tuple[int, int]]]:
    found, lost = [], []
    reading = Reading(**{"timeout": 5.0, "rows": 64, "make": MAKE, **how})  # type: ignore[arg-type]
    part = StreamRange(HUB.stream("0"), start, stop)
    for one in read_range(parse_url(namespace.url), part, reading):
        if isinstance(one, StreamRows):
            assert one.offsets == [int(Message.decode(octets).value) for octets in one.octets]
            times = [received_time(octets, ENQUEUED_TIME_ANNOTATION) for octets in one.octets]
            assert times == [enqueued(number) for number in one.offsets]
            found += one.offsets
        else:
            lost.append(one)
    return found, lost


@contextlib.contextmanager
def every_field() -> Iterator[None]:
    """Make the double send trailing fields, which Azure's clients require."""
    write = sessions.Session.write

    def written(session: sessions.Session, performative: Any) -> None:
        if hasattr(performative, "properties"):
            performative.properties = performative.properties or {"a": "b"}
        write(session, performative)

    def encoded(value: Any) -> bytes:
        if isinstance(value, transport.Transfer):
            value.batchable = True
        return encode_value(value)

    with (
        mock.patch.object(sessions.Session, "write", written),
        mock.patch.object(sessions, "encode_value", encoded),
    ):
        yield


def test_azures_client_reads_the_double(namespace: Namespace) -> None:
    """The double answers every request that Azure's client sends."""
    eventhub = pytest.importorskip("azure.eventhub", reason="azure-eventhub is not installed")
    seen: list[tuple[str, int, str]] = []
    with every_field():
        client = eventhub.EventHubConsumerClient.from_connection_string(
            f"Endpoint=sb://127.0.0.1:{namespace.port};SharedAccessKeyName=me;"
            "SharedAccessKey=secret;UseDevelopmentEmulator=true",
            "$Default",
            eventhub_name="orders",
            retry_total=0,
        )
        assert ["0", "1", "2"] == client.get_partition_ids()
        said = client.get_partition_properties("0")
        assert (0, 299) == (
            said["beginning_sequence_number"],
            said["last_enqueued_sequence_number"],
        )

        def on_event(_: Any, event: Any) -> None:
            seen.append((event.body_as_str(), event.sequence_number, event.offset))
            if len(seen) == 5:
                closing.start()

        closing = threading.Thread(target=client.close)
        client.receive(on_event, partition_id="0", starting_position=290)
        closing.join(10)

    assert [(str(n), n, str(64 * n)) for n in range(291, 296)] == seen[:5]


@given(st.data())
def test_range_is_complete_despite_cuts_and_gaps(data: st.DataObject) -> None:
    """A compacted hub has gaps; cut connections lose no event."""
    holes = data.draw(st.sets(st.integers(1, 79), max_size=20))
    partition = Partition(cuts=data.draw(st.lists(st.integers(1, 60), max_size=2)))
    for number, one in enumerate(events(80)):
        if number not in holes:
            partition.publish(one, at=number)
    start = data.draw(st.integers(0, 79))
    stop = data.draw(st.integers(start, partition.next))

    with (
        mock.patch.object(stream_ranges, "_FIRST_BACKOFF", 0.001),
        running(Namespace(partition)) as namespace,
    ):
        window = data.draw(st.sampled_from([1, 2, 30, 4_000]))
        found = read(namespace, start, stop, window=window)

    assert ([n for n in range(start, stop) if n not in holes], []) == found


def test_partitions_and_their_bounds(namespace: Namespace) -> None:
    namespace.streams["0"].retain(12)
    with StreamProbe(parse_url(namespace.url), 5, MAKE) as probe:
        names = probe.query(Partitions.partitions)
        bounds = probe.bounds(names)
        namespace.cut()
        assert bounds == probe.bounds(names)

    assert [f"orders/Partitions/{number}" for number in range(3)] == names
    # Retention has removed all of the second one, and the third never had any.
    assert [Bounds(12, 300), Bounds(20, 20), Bounds(0, 0)] == [*bounds.values()]


@pytest.mark.parametrize(
    "partition, moment, found",
    [
        (0, 0, 0),
        (0, enqueued(7), 7),
        (0, enqueued(7) + 1, 8),
        (0, enqueued(299), 299),
        (0, enqueued(299) + 1, 300),
        (1, 0, 20),
        (2, 0, 0),
    ],
)
def test_first_event_at_or_after_a_time(
    namespace: Namespace, partition: int, moment: int, found: int
) -> None:
    name = HUB.stream(str(partition))
    with StreamProbe(parse_url(namespace.url), 5, MAKE) as probe:
        assert {name: found} == probe.offsets_at([name], moment)


def test_events_removed_by_retention_are_reported(namespace: Namespace) -> None:
    namespace.streams["0"].retain(40)

    assert ([*range(40, 60)], [(30, 10)]) == read(namespace, 30, 60)


def test_missing_events_raise_late_range_error(namespace: Namespace) -> None:
    namespace.streams["0"].stalls = 40

    with pytest.raises(
        LateRangeError, match="offsets 40 to 59 of the stream orders/Partitions/0 were not received"
    ):
        read(namespace, 30, 60, timeout=0.3)


def test_reader_limit_is_retried(namespace: Namespace) -> None:
    namespace.most = 0

    with pytest.raises(LateRangeError, match="Exceeded the maximum number of allowed receivers"):
        read(namespace, 0, 60, timeout=0.5)


@pytest.mark.parametrize(
    "hub, status, said",
    [
        (
            Hub("other"),
            200,
            r"\$management: status 404 for the event hub other: The messaging entity",
        ),
        (HUB, 401, r"\$management: status 401 for the event hub orders: refused"),
        (HUB, 503, r"not reached within 0\.5 s \(\$management: status 503"),
    ],
)
def test_refused_request_raises_link_error(
    namespace: Namespace, hub: Hub, status: int, said: str
) -> None:
    namespace.refuses = status
    make = partial(Partitions, hub)
    with (
        StreamProbe(parse_url(namespace.url), 0.5, make) as probe,
        pytest.raises(LinkError, match=said),
    ):
        probe.query(Partitions.partitions)


def test_missing_consumer_group(namespace: Namespace) -> None:
    make = partial(Partitions, Hub("orders", "none"))

    with pytest.raises(LinkError, match="amqp:not-found"):
        read(namespace, 0, 60, make=make)
