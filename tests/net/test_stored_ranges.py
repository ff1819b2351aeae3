"""Ranges of streams by RabbitMQ's stream protocol: complete, or an error names missing offsets."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg import Message

pytest.importorskip("pyarrow")

from amqp10msg.net.ends.stream_chunks import MAX_CHUNK
from amqp10msg.net.ends.stream_protocol import StreamConnection
from amqp10msg.net.ends.terms import LinkError
from amqp10msg.net.ends.urls import (
    STREAM_SCHEMES,
    Endpoint,
    parse_url,
    parse_urls,
)
from amqp10msg.net.stored_ranges import StoredProbe, read_stored
from amqp10msg.net.stream_ranges import (
    Bounds,
    LateRangeError,
    RangeFilters,
    Reading,
    StreamProbe,
    StreamRange,
)
from tests.rabbitmq import BROKER, filled_stream
from tests.stored_streams import (
    CLOSE,
    CREDIT,
    HEARTBEAT,
    PARTITIONS,
    STATS,
    ChunkServer,
    Stored,
    chunk,
    entry,
    serving,
    text,
)

pytestmark = pytest.mark.once

#: What its certificate is verified with.
TRUSTED = os.environ.get("AMQP10MSG_RABBITMQ_TLS")
VALUE = "x-stream-filter-value"


def message(number: int, value: str | None = None) -> bytes:
    annotations: Any = {} if value is None else {VALUE: value}
    properties = {"k": number}
    return Message(
        b"%d" % number,
        message_annotations=annotations or None,
        application_properties=properties,
    ).encode()


@pytest.fixture
def server() -> Iterator[ChunkServer]:
    made = ChunkServer(s=Stored(), other=Stored())
    made.streams["s"].publish([message(n) for n in range(300)])
    with serving(made):
        yield made


def at(url: str) -> Endpoint:
    return parse_urls(url.split(), also=STREAM_SCHEMES)


def read(
    url: str, start: int, stop: int, stream: str = "s", **how: Any
) -> tuple[list[int], list[tuple[int, int]]]:
    """Return the offsets of the received messages, also in their bodies, and the lost ranges."""
    found, lost = [], []
    reading = Reading(**{"timeout": 10.0, "rows": 64, **how})
    for one in read_stored(at(url), StreamRange(stream, start, stop), reading):
        if isinstance(one, tuple):
            lost.append(one)
            continue
        offsets = one.offsets.to_pylist()
        assert offsets == [int(Message.decode(octets).value) for octets in one.octets.to_pylist()]
        found += offsets
    return found, lost


def frame(key: int, body: bytes) -> bytes:
    return struct.pack(">IHH", 4 + len(body), key, 1) + body


@given(st.data())
def test_range_is_complete_despite_cuts(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 120))
    stream = Stored()
    messages = [message(n) for n in range(count)]
    at_now = 0
    while at_now < count:
        size = data.draw(st.integers(1, 40))
        part = messages[at_now : at_now + size]
        stream.publish(part, len(part), at_now)
        at_now += len(part)
    stream.cuts = data.draw(st.lists(st.integers(0, 2_000), max_size=2))
    beat = frame(HEARTBEAT, b"")
    stream.frames = data.draw(st.lists(st.sampled_from([b"", beat]), max_size=3))
    start = data.draw(st.integers(0, count))
    stop = data.draw(st.integers(start, count))
    with serving(ChunkServer(s=stream)) as server:
        found = read(server.url, start, stop, rows=data.draw(st.sampled_from([1, 30, 1_000])))
    assert (list(range(start, stop)), []) == found


def test_credit_does_not_exceed_the_range(server: ChunkServer) -> None:
    """Chunks beyond the range would be sent in vain."""
    assert (list(range(25, 125)), []) == read(server.url, 25, 125)
    assert 11 <= server.sent <= 12


def test_late_range_error_has_the_missing_offsets(server: ChunkServer) -> None:
    server.streams["s"].hides = 120
    with pytest.raises(LateRangeError) as caught:
        read(server.url, 100, 200, timeout=0.3)
    said = str(caught.value)
    assert (
        "offsets 120 to 199 of the stream s were not received within 0.3 s (no message was" in said
    )
    assert "20 messages of the 100 offsets from 100 were" in said


def test_only_offsets_removed_by_retention_count_as_lost(server: ChunkServer) -> None:
    stream = server.streams["s"]
    del stream.chunks[:3]
    assert (list(range(30, 60)), [(10, 20)]) == read(server.url, 10, 60)
    assert ([], [(10, 10)]) == read(server.url, 10, 20)
    # Notes of the broker have offsets, too.
    stream.publish([message(n) for n in range(303, 310)], start=303)
    assert (list(range(290, 300)) + list(range(303, 308)), []) == read(server.url, 290, 308)
    notes = chunk(310, [b"\0\0\0\x04note"], kind=1)
    stream.add(310, 1, notes)
    stream.publish([message(311)], start=311)
    assert ([308, 309, 311], []) == read(server.url, 308, 312)
    # They stand where the rest begins.
    stream.first = 20
    assert (list(range(30, 40)), []) == read(server.url, 20, 40)


@pytest.mark.parametrize("version", ["3.10.8", "4.0.5"])
def test_query_during_a_range_loses_no_message(server: ChunkServer, version: str) -> None:
    """Before RabbitMQ 3.11, the first chunk is requested while other chunks are in flight."""
    server.version = version
    stream = server.streams["other"]
    stream.publish([message(n, "a") for n in range(200)])
    stream.publish([message(n, "a") for n in range(203, 400)], start=203)

    wanted = [n for n in range(400) if not 200 <= n < 203]
    assert (wanted, []) == read(server.url, 0, 400, "other")
    assert (wanted, []) == read(server.url, 0, 400, "other", filters=RangeFilters(("a",)))


def test_filtered_range_ends(server: ChunkServer) -> None:
    stream = server.streams["other"]
    stream.publish([message(n, "ab"[n // 10 % 2]) for n in range(400)])
    stream.skips = {first for first, *_ in stream.chunks if first // 10 % 2}
    filters = RangeFilters(("a",))

    wanted = [n for n in range(13, 390) if n // 10 % 2 == 0]
    assert (wanted, []) == read(server.url, 13, 390, "other", filters=filters)
    assert ([], []) == read(server.url, 10, 20, "other", filters=filters)
    # What the broker let through is looked at.
    assert ([25], []) == read(
        server.url, 13, 390, "other", filters=RangeFilters(("a", "b"), sql="k = 25")
    )
    assert ([25], []) == read(server.url, 13, 390, "other", filters=RangeFilters(sql="k = 25"))
    del stream.chunks[:2]
    wanted = [n for n in wanted if n >= 20]
    assert (wanted, [(13, 7)]) == read(server.url, 13, 390, "other", filters=filters)
    stream.hides = 380
    with pytest.raises(LateRangeError):
        read(server.url, 13, 390, "other", filters=filters, timeout=0.3)


def test_bounds_and_partitions(server: ChunkServer) -> None:
    server.super_streams["all"] = ["s", "other"]
    with StoredProbe(at(server.url), 5) as probe:
        assert {"s": Bounds(0, 300), "other": Bounds(0, 0)} == probe.bounds(["s", "other"])
        del server.streams["s"].chunks[:2]
        server.streams["other"].publish([message(0)])
        assert {"s": Bounds(20, 300), "other": Bounds(0, 1)} == probe.bounds(["s", "other"])
        # Of a version that has no numbers of a stream.
        assert STATS in server.heard
        server.cut()
        server.version, server.heard = "3.10.8", []
        assert {"s": Bounds(20, 300)} == probe.bounds(["s"])
        assert STATS not in server.heard
        assert ["s", "other"] == probe.partitions("all")
        assert PARTITIONS in server.heard
        with pytest.raises(LinkError, match="the super stream 'none': the stream does not exist"):
            probe.partitions("none")
        with pytest.raises(LinkError, match="the stream 'none': the stream does not exist"):
            probe.bounds(["none"])
        assert {"s": Bounds(20, 300)} == probe.bounds(["s"])
    assert CLOSE in server.heard


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(1, 30)), max_size=8),
    st.integers(0, 60),
    st.integers(0, 2),
)
def test_position_of_a_time_is_its_first_chunk(
    chunks: list[tuple[int, int]], time: int, early: int
) -> None:
    """Also if the broker begins with an earlier chunk."""
    stream = Stored(early=early)
    expected = None
    for stored_at, count in sorted(chunks):
        if stored_at >= time and expected is None:
            expected = stream.chunks[-1][1] if stream.chunks else 0
        stream.publish([message(n) for n in range(count)], 30, timestamp=stored_at)
    end = stream.chunks[-1][1] if stream.chunks else 0

    with serving(ChunkServer(s=stream)) as server, StoredProbe(at(server.url), 5) as probe:
        assert {"s": end if expected is None else expected} == probe.offsets_at(["s"], time)


def test_search_for_a_time_is_repeated_if_it_misses_stored_chunks(server: ChunkServer) -> None:
    """RabbitMQ does so while its newest segment file is empty."""
    stream = server.streams["s"]
    stream.empty_answers = 2
    with StoredProbe(at(server.url), 5) as probe:
        assert {"s": 0} == probe.offsets_at(["s"], 1_700_000_000_000)
        stream.empty_answers = 1_000
        stream.publish([message(300)], timestamp=1_800_000_000_000)
        with pytest.raises(LinkError, match="'s' has no chunk for the time 5, but newer chunks"):
            StoredProbe(at(server.url), 0.01).offsets_at(["s"], 5)


def test_stream_with_only_tracking_data_is_empty(server: ChunkServer) -> None:
    server.streams["other"].first = 0
    with StoredProbe(at(server.url), 5) as probe:
        assert {"other": Bounds(0, 0)} == probe.bounds(["other"])


def test_stream_deleted_during_a_range(server: ChunkServer) -> None:
    stream = server.streams["s"]
    stream.frames = [frame(16, struct.pack(">H", UNAVAILABLE) + text("s"))]
    # Moved: it is asked for again.
    assert (list(range(300)), []) == read(server.url, 0, 300)
    assert 2 == server.connections
    stream.missing = True
    with pytest.raises(LinkError, match="'s': the stream does not exist") as caught:
        read(server.url, 0, 300)
    assert caught.value.permanent


def test_replica_at_another_node_is_read(server: ChunkServer) -> None:
    stream = server.streams["s"]
    with serving(ChunkServer(s=stream)) as other:
        server.has_replicas = False
        server.elsewhere = [("127.0.0.1", server.port), ("127.0.0.1", other.port)]
        assert (list(range(300)), []) == read(server.url, 0, 300)
        with StoredProbe(at(server.url), 5) as probe:
            assert {"s": Bounds(0, 300)} == probe.bounds(["s"])
    said = f"not available .*; at 127.0.0.1:{other.port}, as the broker names it: .*refused"
    with pytest.raises(LateRangeError, match=said):
        read(server.url, 0, 300, timeout=0.3)


def test_unreachable_node_is_skipped(server: ChunkServer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    urls = f"rabbitmq-stream://me:secret@127.0.0.1:{port} {server.url}"
    assert (list(range(300)), []) == read(urls, 0, 300)
    with pytest.raises(LinkError, match=r"not reached within 0.3 s .*refused"):
        StoredProbe(at(urls.split(maxsplit=1)[0]), 0.3).bounds(["s"])


def test_wrong_password_is_raised_immediately_without_it(server: ChunkServer) -> None:
    with pytest.raises(LinkError, match="wrong user or password") as caught:
        read(server.url.replace("secret", "topsecret"), 0, 10, timeout=3600.0)
    assert "topsecret" not in str(caught.value)


UNAVAILABLE = 6


@pytest.mark.parametrize(
    "octets, said",
    [
        (frame(8, b"")[:8], "truncated delivery"),
        (
            struct.pack(">IHH", MAX_CHUNK + 1, 8, 1),
            f"a frame of {MAX_CHUNK + 1} bytes, .* over AMQP 1.0",
        ),
        (struct.pack(">IHH", 1 << 31, HEARTBEAT, 1), "a frame of 2147483648 bytes"),
        (struct.pack(">IHH", 3, HEARTBEAT, 1), "a frame of 3 bytes"),
        (
            struct.pack(">IHHB", 6, 8, 9, 0) + b"x",
            "truncated delivery, or its version 9 is unknown",
        ),
        (frame(16, b"\0"), "a truncated frame"),
        (frame(8, b"\0" + chunk(100, [entry(b"x")], crc=7)), "offset 100 is damaged"),
        (frame(8, b"\0" + chunk(0, [entry(b"x")], entries=2)), "offset 0: .*exceeds the chunk"),
        (
            frame(CLOSE, struct.pack(">IH", 7, 15) + text("I go")),
            "closed the connection: I go .code 15",
        ),
        (frame(CREDIT | 0x8000, struct.pack(">HB", 4, 0)), "the subscription does not exist"),
    ],
)
def test_malformed_frame_is_retried_then_raised(
    server: ChunkServer, octets: bytes, said: str
) -> None:
    # A busy machine may need longer for the first attempt, which receives the frame.
    for timeout in (0.25, 2.0, 16.0, 128.0):
        server.streams["s"].frames = [octets] * 20
        with pytest.raises((LateRangeError, LinkError)) as raised:
            read(server.url, 0, 300, timeout=timeout)
        if "no message was received" not in str(raised.value):
            break
    assert re.search(said, str(raised.value))
    # Once: it is read all the same, where another attempt is of use.
    if "AMQP 1.0" not in said:
        server.streams["s"].frames = [octets]
        assert (list(range(300)), []) == read(server.url, 0, 300)


def test_any_truncated_frame_raises_link_error(server: ChunkServer) -> None:
    """Regression: during the opening it raised `struct.error`."""
    server.super_streams["super"] = ["s", "other"]
    server.elsewhere = [("127.0.0.1", 5)]

    def ask() -> None:
        connection = StreamConnection(at(server.url))
        try:
            connection.replicas("s")
            connection.partitions("super")
            connection.stats("s")
            connection.subscribe(1, "s", 0, 1)
            connection.delivery(time.monotonic() + 5)
        finally:
            connection.abort()

    sent: list[int] = []
    cut: dict[int, int] = {}  # by the number of a frame, the bytes of it that are kept

    def changed(_: int, body: bytes) -> bytes:
        sent.append(len(body))
        return body[: cut.get(len(sent) - 1)]

    server.changed = changed
    ask()
    assert len(sent) == 10

    # The last one is a delivery, of which the chunk would be read by another.
    for number, size in enumerate(list(sent[:-1])):
        for kept in sorted({0, 2, 4, 6, size // 2, size - 1}):
            sent.clear()
            cut = {number: kept}
            with contextlib.suppress(LinkError):
                ask()


def test_deliveries_of_version_2(server: ChunkServer) -> None:
    octets = chunk(0, [entry(message(n)) for n in range(10)])
    whole = struct.pack(">IHHBQ", 13 + len(octets), 8, 2, 0, 9) + octets
    server.streams["s"].frames = [whole]
    assert (list(range(300)), []) == read(server.url, 0, 300)
    assert 1 == server.connections


def test_amqp_port_is_explained(server: ChunkServer) -> None:
    server.banner = b"AMQP\x00\x00\x09\x01"
    with pytest.raises(LinkError, match=r"this port speaks AMQP; .* 5552") as caught:
        read(server.url, 0, 10)
    assert caught.value.permanent


def test_ranges_over_tls(server: ChunkServer, tmp_path: Path) -> None:
    trustme = pytest.importorskip("trustme")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)
    with socket.create_server(("127.0.0.1", 0)) as plain:
        listener = context.wrap_socket(plain, server_side=True)
        threading.Thread(target=server.serve, args=(listener,), daemon=True).start()
        url = f"rabbitmq-stream+tls://me:secret@localhost:{listener.getsockname()[1]}/"
        whole = f"{url}?cacertfile={tmp_path / 'ca.pem'}"
        assert (list(range(300)), []) == read(whole, 0, 300)
        with pytest.raises(LinkError, match="certificate is not trusted"):
            read(url, 0, 300)
        listener.close()
    plainly = server.url.replace("stream:", "stream+tls:") + "/?connection_timeout=200"
    with pytest.raises(LateRangeError, match=r"no answer within 0.2 s"):
        read(plainly, 0, 10, timeout=0.3)


def test_urls_of_the_stream_protocol() -> None:
    made = at("rabbitmq-stream://u:p@h/a%2Fb?heartbeat=5 rabbitmq-stream+tls://h2/a%2Fb")
    assert ("stream", "h", 5552, False, "a/b", 5) == (
        *(made.protocol, made.host, made.port, made.tls),
        *(made.virtual_host, made.heartbeat),
    )
    other = made.others[0]
    assert (5551, True, "guest") == (other.port, other.tls, other.user)
    assert "rabbitmq-stream://h:5552/a/b" == str(made)
    assert "rabbitmq-stream+tls://h2:5551/a/b" == str(other)
    with pytest.raises(ValueError, match="must not name a queue"):
        at("rabbitmq-stream://h/?queue=q")
    with pytest.raises(ValueError, match=r"begin with one of amqp091://.* not 'rabbitmq-stream'"):
        parse_url("rabbitmq-stream://h")


# RabbitMQ.


@pytest.fixture
def rabbitmq() -> Iterator[tuple[str, str]]:
    """A stream of 3,000 messages at RabbitMQ, which is also read with its own protocol."""
    if BROKER is None:
        pytest.skip("AMQP10MSG_RABBITMQ names no RabbitMQ")
    host, _, port = BROKER.partition(":")
    place = host, int(port) + 10
    try:
        socket.create_connection(place, timeout=5).close()
    except OSError:
        pytest.skip(f"AMQP10MSG_RABBITMQ: its plugin rabbitmq_stream is not at port {place[1]}")
    with filled_stream() as (channel, name):
        try:
            channel.exchange_declare(f"{name}+", durable=True, arguments={"x-super-stream": True})
            order = {"x-stream-partition-order": 0}
            channel.queue_bind(name, f"{name}+", "0", arguments=order)
            yield f"rabbitmq-stream://guest:guest@{place[0]}:{place[1]}", name
        finally:
            channel.exchange_delete(f"{name}+")


def test_ranges_of_rabbitmq(rabbitmq: tuple[str, str]) -> None:
    url, name = rabbitmq
    with StoredProbe(at(url)) as probe:
        assert {name: Bounds(0, 3_000)} == probe.bounds([name])
        assert [name] == probe.partitions(f"{name}+")
        now = time.time_ns() // 10**6
        assert {name: 0} == probe.offsets_at([name], 0) == probe.offsets_at([name], now - 10**8)
        assert {name: 3_000} == probe.offsets_at([name], now + 10**8)
        with pytest.raises(LinkError, match="the super stream 'none': the stream does not exist"):
            probe.partitions("none")
    first = next(read_stored(at(url), StreamRange(name, 0, 1)))
    assert not isinstance(first, tuple)
    # Before 3.13 RabbitMQ knows no filter values, and makes no annotations of such headers.
    known = VALUE in (Message.decode(first.octets[0].as_py()).message_annotations or {})
    for begin in (0, 33):
        assert (list(range(begin, 3_000)), []) == read(url, begin, 3_000, name)
        middle = read(url, begin, begin + 60, name, filters=RangeFilters(("b",)))
        assert ([n for n in range(begin, begin + 60) if n % 2 and known], []) == middle
    assert ([], []) == read(url, 0, 3_000, name, filters=RangeFilters(("c",)))
    last = read(url, 0, 3_000, name, filters=RangeFilters(sql="k >= 2990"))
    assert (list(range(2_990, 3_000)), []) == last
    with pytest.raises(LateRangeError, match="offsets 3000 to 3009 of the stream"):
        read(url, 2_990, 3_010, name, timeout=0.3)
    with pytest.raises(LinkError, match="virtual host does not exist"):
        read(f"{url}/nowhere", 0, 10, name)
    with pytest.raises(LinkError, match="wrong user or password"):
        read(url.replace(":guest@", ":topsecret@"), 0, 10, name)
    port = int(url.rpartition(":")[2]) - 10
    with pytest.raises(LinkError, match="this port speaks AMQP"):
        read(f"rabbitmq-stream://guest:guest@127.0.0.1:{port}", 0, 10, name)


def times_at_rabbitmq(url: str, name: str) -> tuple[list[int], Callable[[int], int]]:
    """Return some times of chunks and before and after them, and the first offset of a time."""
    times: list[int] = []
    for rows in read_stored(at(url), StreamRange(name, 0, 3_000)):
        assert not isinstance(rows, tuple)
        times += rows.times.to_pylist()
    assert sorted(times) == times
    asked = [time + by for time in sorted({times[0], times[1_500], times[-1]}) for by in (-1, 0, 1)]
    return asked, lambda time: next((n for n, got_at in enumerate(times) if got_at >= time), 3_000)


def test_positions_of_times_at_rabbitmq(rabbitmq: tuple[str, str]) -> None:
    url, name = rabbitmq
    asked, first_at = times_at_rabbitmq(url, name)
    with StoredProbe(at(url)) as probe:
        for time in asked:
            assert {name: first_at(time)} == probe.offsets_at([name], time)


def test_positions_of_times_over_amqp_are_rounded_at_rabbitmq(rabbitmq: tuple[str, str]) -> None:
    url, name = rabbitmq
    asked, first_at = times_at_rabbitmq(url, name)
    with StreamProbe(parse_url(f"amqp://guest:guest@{BROKER}")) as probe:
        for time in (*asked, asked[-1] + 1_000):
            assert {name: first_at(time // 1_000 * 1_000)} == probe.offsets_at([name], time)


def test_range_of_rabbitmq_over_tls(rabbitmq: tuple[str, str]) -> None:
    if TRUSTED is None:
        pytest.skip("AMQP10MSG_RABBITMQ_TLS names no certificate that AMQP10MSG_RABBITMQ has")
    plain, name = rabbitmq
    port = int(plain.rpartition(":")[2]) + 1
    url = f"rabbitmq-stream+tls://guest:guest@127.0.0.1:{port}"
    trusting = f"{url}/?cacertfile={TRUSTED}"

    with StoredProbe(at(trusting)) as probe:
        assert {name: Bounds(0, 3_000)} == probe.bounds([name])
    assert (list(range(7, 3_000)), []) == read(trusting, 7, 3_000, name)
    with pytest.raises(LinkError, match="its certificate is not trusted"):
        read(url, 0, 10, name)
    with pytest.raises(LateRangeError, match="does it use TLS"):
        read(plain.replace(str(port - 1), str(port)), 0, 10, name, timeout=0.5)
