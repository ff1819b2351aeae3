"""`amqp10msg.files`: messages from captures, whatever the network did to their segments."""

from __future__ import annotations

import functools
import io
import itertools
import struct
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import attrs
import pytest
from click.testing import CliRunner
from hypothesis import example, given
from hypothesis import strategies as st

from amqp10msg import Array, Described, Message, Symbol, UInt, ULong, files
from amqp10msg.app.cli import main
from amqp10msg.basic import decode_content_header
from amqp10msg.files import Record, _segments, capture
from amqp10msg.files._resync import find_frame
from fuzz.files import run
from tests.captures import (
    BODIES,
    DELIVER,
    GET_OK,
    HEADER,
    OLD_HEADER,
    PUBLISH,
    RETURN,
    Piece,
    attach,
    block,
    content,
    cut,
    frame,
    of_pieces,
    old_frame,
    packet,
    pcap,
    pcapng,
    read,
    stream_of,
    transfer,
)
from tests.effort import calls

pytestmark = pytest.mark.once
CAPTURE = Path(__file__).parents[1] / "vectors" / "capture.pcap"


@pytest.mark.parametrize("pieces", [1, 3])
@given(
    sizes=st.lists(st.integers(1, 60), min_size=1, max_size=5),
    start=st.sampled_from([1, 0xFFFFFF00]),
    seed=st.integers(0, 1 << 32),
)
def test_reordered_and_repeated_segments_have_no_effect(
    pieces: int, sizes: list[int], start: int, seed: int
) -> None:
    segments = cut(stream_of(BODIES, pieces), sizes, start)
    # Some come twice, and each lands up to four places from where it was.
    order = Random(seed)
    again = order.choices(segments[1:], k=5)
    rest = [*segments[1:], *again]
    rest = [p for _, p in sorted(enumerate(rest), key=lambda x: x[0] + order.uniform(0, 4))]

    found = of_pieces([segments[0], *rest])

    assert BODIES == [record.wire for record in found]
    assert {""} == {record.fault for record in found}


@given(
    sizes=st.lists(st.integers(1, 60), min_size=1, max_size=5),
    start=st.sampled_from([1, 0xFFFFFF00]),
    again=st.lists(st.tuples(st.integers(0, 10_000), st.integers(1, 200)), max_size=6),
    order=st.randoms(use_true_random=False),
)
@example(sizes=[40], start=1, again=[(20, 40)], order=Random(0))
def test_retransmission_with_other_boundaries_has_no_effect(
    sizes: list[int], start: int, again: list[tuple[int, int]], order: Random
) -> None:
    octets = stream_of(BODIES)
    opening, *segments = cut(octets, sizes, start)
    for number, size in again:
        place = number % len(octets)
        segments.append(Piece(start + place, octets[place : place + size]))
    order.shuffle(segments)

    found = of_pieces([opening, *segments])

    assert [(body, "") for body in BODIES] == [(record.wire, record.fault) for record in found]


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_padding_of_short_ethernet_frames_is_ignored(version: int, size: int) -> None:
    """An interface pads a frame to 60 bytes, also one that only acknowledges."""
    pieces = cut(stream_of(BODIES), [size])
    pieces.insert(2, attrs.evolve(pieces[1], data=b""))
    padded = [packet(piece, version).ljust(90, b"\x53") for piece in pieces]

    found = read(pcap(padded))

    assert [(body, "") for body in BODIES] == [(record.wire, record.fault) for record in found]


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("write", [pcap, pcapng])
@pytest.mark.parametrize("order", ["<", ">"])
def test_fields_of_a_record(write: Any, order: str, version: int) -> None:
    octets = HEADER + attach(3, "q") + transfer(3, b"m", 7, message_format=0x80013700)
    packets = [packet(piece, version) for piece in cut(octets, [1000])]

    (record,) = read(write(packets, order))

    assert (b"m", "", "1.0") == (record.wire, record.fault, record.protocol)
    assert ("q", b"tag7", 0x80013700) == (
        record.address,
        record.delivery_tag,
        record.message_format,
    )
    assert 101_000_005 == record.time
    expected = "10.0.0.1:50000 > 10.0.0.2:5672"
    if version == 6:
        expected = "[fd00::1]:50000 > [fd00::2]:5672"
    assert expected == record.connection


def test_nanoseconds_of_pcap() -> None:
    packets = [packet(piece) for piece in cut(stream_of([b"m"]), [1000])]

    (record,) = read(pcap(packets, nano=True))

    assert 101_000_005 == record.time


@pytest.mark.parametrize(
    "link, head", [(101, b""), (0, bytes(4)), (113, bytes(16)), (276, bytes(20))]
)
def test_other_link_layers(link: int, head: bytes) -> None:
    packets = [head + packet(piece)[14:] for piece in cut(stream_of([b"m"]), [1000])]

    assert [b"m"] == [record.wire for record in read(pcap(packets, link=link))]


def test_vlan_tags_are_skipped() -> None:
    tagged = [
        p[:12] + b"\x81\x00\x00\x05" + p[12:]
        for p in (packet(piece) for piece in cut(stream_of([b"m"]), [1000]))
    ]

    assert [b"m"] == [record.wire for record in read(pcap(tagged))]


def test_links_and_channels_interleave() -> None:
    octets = (
        HEADER
        + attach(0, "a")
        + attach(1, None, "b")
        + transfer(0, b"a1", 0, more=True)
        + transfer(1, b"b1", 1, more=True)
        + transfer(0, b"c1", 0, more=True, channel=4)
        + transfer(1, b"b2")
        + transfer(0, b"a2")
        + transfer(0, b"c2", channel=4)
    )

    found = of_pieces(cut(octets, [30]))

    assert [(b"b1b2", "b"), (b"a1a2", "a"), (b"c1c2", None)] == [(r.wire, r.address) for r in found]
    assert {""} == {record.fault for record in found}


@pytest.mark.parametrize(
    "octets, wire, fault",
    [
        (transfer(0, b"m", 0, more=True), b"m", "the capture ends before the message does"),
        (
            transfer(0, b"m", 0, more=True) + transfer(0, b"n", aborted=True),
            b"mn",
            "the sender aborted the delivery",
        ),
        (transfer(0, b"m"), b"m", "the beginning of the message is missing"),
        (
            transfer(0, b"m", 0, more=True) + frame(Described(0x16, [UInt(0)])),
            b"m",
            "the link was detached before the message ended",
        ),
        (
            transfer(0, b"m", 0, more=True) + frame(Described(Symbol("amqp:end:list"), [])),
            b"m",
            "the session ended before the message did",
        ),
        (frame(None, b"\x00\x53"), b"\x00\x53", "a frame that cannot be read"),
        (transfer(0, b"m", 0, more=True) + HEADER, b"m", "another protocol header follows"),
        (
            transfer(0, b"m", 0, more=True) + b"\0\0\0\x01garbage",
            b"m",
            "what follows is not a frame",
        ),
    ],
)
def test_incomplete_message_keeps_its_bytes(octets: bytes, wire: bytes, fault: str) -> None:
    (record,) = of_pieces(cut(HEADER + attach(0, "q") + octets, [1000]))

    assert wire == record.wire
    assert record.fault.startswith(fault)


def test_too_large_message_in_a_capture_is_a_fault() -> None:
    octets = (
        HEADER + transfer(0, b"m" * 20, 0, more=True) + transfer(0, b"n") + transfer(0, b"o", 1)
    )

    found = read(pcap([packet(p) for p in cut(octets, [1000])]), max_size=10)

    assert ["larger than 10 bytes"] == [r.fault for r in found][:1]
    assert (b"o", "") == (found[-1].wire, found[-1].fault)


@pytest.mark.parametrize("size, fault", [(9, ""), (10, ""), (11, "larger than 10 bytes")])
@pytest.mark.parametrize("first", [0, 5])
def test_largest_message_of_a_capture(size: int, fault: str, first: int) -> None:
    """Whether it comes in one transfer or in two."""
    message = b"m" * size
    octets = HEADER + transfer(0, message[:first], 0, more=True) + transfer(0, message[first:])
    if not first:
        octets = HEADER + transfer(0, message, 0)
    (record,) = read(pcap([packet(p) for p in cut(octets, [1000])]), max_size=10)

    assert (message, fault) == (record.wire, record.fault)


@given(
    st.lists(
        st.sampled_from(
            [transfer(0, b"m", 0), transfer(0, b"", 1), b"\0\0\0\x08\2\0\0\0", b"\xff" * 5, b"AMQP"]
        ),
        max_size=5,
    ),
    st.integers(0, 200),
)
@example([transfer(0, b"m", 0), b"\xff" * 5, b"\xff" * 5], 5)
def test_frame_that_is_certain_stays_certain(parts: list[bytes], cut_off: int) -> None:
    """Bytes that follow cannot change a decision that was made without them."""
    octets = b"".join(parts)
    size = max(len(octets) - cut_off, 0)
    early = find_frame(bytearray(octets[:size]), "1.0", 0, final=False)

    if early is not None and early[1]:
        assert early == find_frame(bytearray(octets), "1.0", 0, final=True)


def test_reading_resumes_at_a_frame_after_missing_segments() -> None:
    first = HEADER + transfer(0, b"a", 0) + transfer(0, b"b1", 1, more=True)
    missing = transfer(0, b"b2") + transfer(0, b"c", 2)
    last = transfer(0, b"d", 3)
    pieces = [
        Piece(0, b"", 0x02),
        Piece(1, first),
        Piece(1 + len(first) + len(missing), last),
    ]

    found = of_pieces(pieces)

    assert [b"a", b"b1", b"d"] == [record.wire for record in found]
    assert ["", f"{len(missing):,} bytes are missing in the capture", ""] == [
        r.fault for r in found
    ]


def test_missing_segments_between_messages_are_reported() -> None:
    first, missing, last = HEADER + transfer(0, b"a", 0), transfer(0, b"b", 1), transfer(0, b"c", 2)
    pieces = [
        Piece(0, b"", 0x02),
        Piece(1, first),
        Piece(1 + len(first) + len(missing), last),
    ]

    found = of_pieces(pieces)

    assert [
        (b"a", ""),
        (None, f"{len(missing):,} bytes are missing in the capture"),
        (b"c", ""),
    ] == [(r.wire, r.fault) for r in found]


def numbered(count: int) -> list[bytes]:
    """Messages of various sizes that all differ."""
    return [b"%d:" % n + bytes(n * 37 % 300) + b"\x00\x53\x14" * (n % 3) for n in range(count)]


def wires_of(records: list[Record]) -> list[bytes | None]:
    return [record.wire for record in records if not record.fault]


def contents_of(records: list[Record]) -> list[bytes | None]:
    return [record.payload for record in records if not record.fault]


def old_stream_of(bodies: list[bytes], pieces: int = 1) -> bytes:
    return OLD_HEADER + b"".join(content(PUBLISH, body, pieces) for body in bodies)


def intact_in(places: list[tuple[int, int]], lost: list[tuple[int, int]]) -> list[int]:
    """Return the numbers of the messages of whose places no byte is lost."""
    return [
        number
        for number, (begin, end) in enumerate(places)
        if all(stop <= begin or end <= start for start, stop in lost)
    ]


@functools.cache
def built(stream: Any, pieces: int) -> tuple[bytes, list[tuple[int, int]]]:
    """Return the stream of 120 messages, and where each message begins and ends in it."""
    bodies = numbered(120)
    begins = [len(stream(bodies[:count], pieces)) for count in range(len(bodies) + 1)]
    return stream(bodies, pieces), list(itertools.pairwise(begins))


@pytest.mark.parametrize(
    "stream, found_in",
    [(stream_of, wires_of), (old_stream_of, contents_of)],
    ids=["1.0", "0-9-1"],
)
@given(
    size=st.integers(40, 1460),
    missing=st.sets(st.integers(0, 30), max_size=6),
    pieces=st.integers(1, 3),
)
@example(size=1460, missing={3}, pieces=1)
@example(size=1460, missing=set(range(11)), pieces=1)
@example(size=200, missing={0, 1, 5}, pieces=2)
@example(size=360, missing={0, 1, 2, 3, 26}, pieces=1)  # a segment begins within a method
def test_missing_segments_cost_only_their_own_messages(
    stream: Any, found_in: Any, size: int, missing: set[int], pieces: int
) -> None:
    bodies = numbered(120)
    octets, places = built(stream, pieces)
    opening, *segments = cut(octets, [size])
    missing &= set(range(len(segments)))
    lost = [(n * size, min((n + 1) * size, len(octets))) for n in missing]

    found = of_pieces([opening, *(s for n, s in enumerate(segments) if n not in missing)])

    assert [bodies[number] for number in intact_in(places, lost)] == found_in(found)
    captured = set(range(len(segments))) - missing
    has_gap = any(number < max(captured, default=0) for number in missing)
    assert has_gap == any(record.skips for record in found)


def backwards(count: int) -> list[Piece]:
    """The bytes of a message, one a segment and the last first."""
    pieces = cut(HEADER + transfer(0, bytes(count), 0), [1])
    return [pieces[0], *pieces[:0:-1]]


def with_gaps(count: int) -> list[Piece]:
    """Of every two bytes the second one."""
    pieces = cut(HEADER + transfer(0, bytes(2 * count), 0), [1])
    return [pieces[0], *pieces[2::2]]


@pytest.mark.parametrize("order", [backwards, with_gaps])
def test_segments_out_of_order_are_not_searched(order: Any) -> None:
    """Whether each costs the same, however many wait."""
    small, large = (pcap([packet(piece) for piece in order(count)]) for count in (1_000, 4_000))
    one, other = calls(lambda: read(small)), calls(lambda: read(large))

    assert other < 5 * one


@pytest.mark.parametrize(
    "name, bound, reason",
    [
        ("_MAX_BUFFERED_BYTES_PER_FLOW", 20, "more than 20 bytes waited after them"),
        ("_MAX_BUFFERED_SEGMENTS_PER_FLOW", 2, "more than 2 segments waited after them"),
        ("_MAX_BUFFERED_BYTES", 20, "more than 20 bytes of all connections waited after them"),
        ("_MAX_BUFFERED_SEGMENTS", 2, "more than 2 segments of all connections waited after them"),
    ],
)
def test_buffered_segments_are_bounded(
    monkeypatch: pytest.MonkeyPatch, name: str, bound: int, reason: str
) -> None:
    """What a gap is given up for is reported; what is behind it is read."""
    monkeypatch.setattr(_segments, name, bound)
    first, missing = HEADER + transfer(0, b"a", 0), transfer(0, b"b", 1)
    start = 1 + len(first) + len(missing)
    last = [transfer(0, b"c%d" % n, 2 + n) for n in range(3)]
    size = len(last[0])
    pieces = [Piece(0, b"", 0x02), Piece(1, first)]
    pieces += [Piece(start + n * size, octets) for n, octets in enumerate(last)]

    # What was missing comes too late.
    found = of_pieces([*pieces, Piece(1 + len(first), missing)])

    assert [
        (b"a", ""),
        (None, f"{len(missing):,} bytes were given up, as {reason}"),
        *((b"c%d" % n, "") for n in range(3)),
    ] == [(r.wire, r.fault) for r in found]


def test_closed_connections_free_their_buffers() -> None:
    together = _segments.BufferCounter()
    flows = [_segments.Flow(together) for _ in range(3)]
    for flow in flows:
        for sequence, data in ((1, b"a"), (5, b"longer"), (5, b"long"), (7, b"over"), (5, b"5")):
            assert [b"a"] * (sequence == 1) == [
                octets
                for _, octets in flow.feed(
                    _segments.Segment(b"", b"", sequence, data, syn=False, reset=False)
                )
            ]
    assert (6, 30) == (together.segments, together.octets)

    found = [octets for flow in flows for _, octets in flow.finish()]

    assert [b"longer"] * 3 == found
    assert (0, 0) == (together.segments, together.octets)


def test_more_connections_than_are_followed() -> None:
    pieces = cut(HEADER + transfer(0, b"a", 0, more=True), [1000])
    back = [attrs.evolve(p, back=True) for p in cut(stream_of([b"b"]), [1000], 9)]

    octets = pcap([packet(piece) for piece in [*pieces, *back]])
    found = capture.read_capture(io.BytesIO(octets), max_flows=1)

    assert [(b"a", "given up: more than 1 connections"), (b"b", "")] == [
        (r.wire, r.fault) for r in found
    ]


def test_capture_that_begins_in_the_middle_of_a_frame() -> None:
    tail = transfer(0, b"x" * 30, 0)[11:]
    pieces = [Piece(500, tail), Piece(500 + len(tail), transfer(0, b"m", 1))]

    skipped, record = of_pieces(pieces)

    assert (f"{len(tail):,} bytes were skipped", True) == (
        skipped.fault.partition(":")[0],
        skipped.skips,
    )
    assert (b"m", "") == (record.wire, record.fault)


def test_ports_are_used_again() -> None:
    first, second = cut(stream_of([b"a"]), [1000]), cut(stream_of([b"b"]), [1000], 70_000)

    assert [b"a", b"b"] == [record.wire for record in of_pieces([*first, *second])]


def test_both_directions_are_read() -> None:
    pieces = cut(stream_of([b"a"]), [1000])
    back = [attrs.evolve(p, back=True) for p in cut(stream_of([b"b"]), [1000], 9)]

    assert {b"a", b"b"} == {record.wire for record in of_pieces([*pieces, *back])}


def test_tls_connection_is_a_fault() -> None:
    (record,) = of_pieces(cut(b"\x16\x03\x01\x00\x05hello" + bytes(100), [50]))

    assert record.fault == "the connection is encrypted with TLS: decrypt it first"


def test_other_protocols_are_ignored() -> None:
    assert [] == of_pieces(cut(b"GET / HTTP/1.1\r\n\r\n" * 10, [40]))


@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.parametrize("peer", [stream_of([b"a"]), OLD_HEADER + content(PUBLISH, b"a")])
def test_direction_without_a_frame_is_reported_if_its_peer_is_amqp(
    peer: bytes, reset: bool
) -> None:
    unknown = [Piece(9, b"\xff" * 100), Piece(209, b"\xff" * 50)]
    ends = [Piece(1 + len(peer), b"", 0x04)] if reset else []

    found = of_pieces([*(attrs.evolve(p, back=True) for p in unknown), *cut(peer, [1000]), *ends])

    assert {"", "100 bytes are missing in the capture"} < {record.fault for record in found}
    skipped = [record for record in found if "bytes were skipped" in record.fault]
    assert 150 == sum(int(record.fault.split()[0]) for record in skipped)
    assert all(record.skips for record in found if record.fault)
    assert [] == of_pieces(unknown)


# AMQP 0-9-1.


@pytest.mark.parametrize("method", [PUBLISH, DELIVER, GET_OK, RETURN])
@given(sizes=st.lists(st.integers(1, 40), min_size=1, max_size=4), count=st.integers(1, 3))
def test_content_of_0_9_1(method: bytes, sizes: list[int], count: int) -> None:
    bodies = [b"hello" * 10, b"", b"x"]
    octets = OLD_HEADER + b"".join(content(method, body, count) for body in bodies)

    found = of_pieces(cut(octets, sizes))

    assert bodies == [record.payload for record in found]
    assert {("", "0-9-1", "ex", "key", None)} == {
        (r.fault, r.protocol, r.exchange, r.routing_key, r.wire) for r in found
    }
    assert {14} == {len(r.content_header or b"") for r in found}
    # Only who delivers says it.
    assert {False if method in {DELIVER, GET_OK} else None} == {r.redelivered for r in found}


@pytest.mark.parametrize("method, bit", [(DELIVER, 16), (GET_OK, 12)])
def test_redelivered_flag_of_0_9_1(method: bytes, bit: int) -> None:
    again = method[:bit] + b"\x01" + method[bit + 1 :]

    (record,) = of_pieces(cut(OLD_HEADER + content(again, b"m"), [1000]))

    assert (True, "ex", "key") == (record.redelivered, record.exchange, record.routing_key)


def test_a_server_of_0_9_1_sends_no_header() -> None:
    start = old_frame(1, struct.pack(">HH", 10, 10) + bytes(20), 0)

    (record,) = of_pieces(cut(start + content(DELIVER, b"m"), [1000]))

    assert (b"m", "") == (record.payload, record.fault)


def test_interrupted_content_of_0_9_1() -> None:
    header = struct.pack(">HHQH", 60, 0, 10, 0)
    octets = OLD_HEADER + old_frame(1, PUBLISH) + old_frame(2, header) + old_frame(3, b"part")

    (record,) = of_pieces(cut(octets + old_frame(1, PUBLISH), [1000]))[:1]

    assert (b"part", header, "the rest of the message is missing") == (
        record.payload,
        record.content_header,
        record.fault,
    )


# Whatever the bytes.


def captures() -> Iterator[bytes]:
    pieces = cut(stream_of(BODIES, 2), [50])
    old = cut(OLD_HEADER + content(PUBLISH, b"hello", 2), [30])
    for some in (pieces, old):
        packets = [packet(piece) for piece in some]
        yield pcap(packets)
        yield pcapng(packets)


@given(data=st.data())
def test_damaged_captures_never_raise(data: st.DataObject) -> None:
    octets = bytearray(data.draw(st.sampled_from(list(captures()))))
    for _ in range(data.draw(st.integers(1, 8))):
        at = data.draw(st.integers(0, len(octets) - 1))
        octets[at] = data.draw(st.integers(0, 255))
    end = data.draw(st.integers(0, len(octets)))

    for record in read(bytes(octets[:end])):
        assert isinstance(record, Record)


@pytest.mark.parametrize(
    "octets, fault",
    [
        (b"nothing", "this is neither pcap nor pcapng"),
        (b"", "this is neither pcap nor pcapng"),
        (pcap([])[:-1], "the header of the capture is cut off"),
        (pcap([bytes(60)])[:-1], "the capture is cut off in a packet"),
        (pcap([bytes(60)])[:30], "the capture is cut off in the header of a packet"),
        (pcapng([bytes(60)])[:-1], "the capture is cut off in a block"),
        (pcapng([bytes(60)]) + b"\0", "the capture is cut off in the header of a block"),
        (pcapng([]) + struct.pack("<II", 6, 3), "a block of 3 bytes: the capture is damaged"),
        (pcap([]) + struct.pack("<4I", 0, 0, 1 << 30, 0), "a packet of 1073741824 bytes"),
    ],
)
def test_damaged_capture_is_reported(octets: bytes, fault: str) -> None:
    assert [True] == [record.fault.startswith(fault) for record in read(octets)]


# What tcpdump wrote.


def test_a_capture_of_a_broker() -> None:
    records = list(files.read(CAPTURE))

    over_amqp10 = [record for record in records if record.protocol == "1.0"]
    decoded = [Message.decode(record.wire or b"") for record in over_amqp10]
    sent, received = decoded[::2], decoded[1::2]
    assert [""] * 12 == [record.fault for record in records]
    assert ["m-0", "m-1", "m-2", "large"] == [
        message.properties and message.properties.message_id for message in sent
    ]
    assert Message(b"0123456789" * 300).body == sent[-1].body
    assert [message.bare for message in sent] == [message.bare for message in received]
    assert {("/queues/orders", 0)} == {(one.address, one.message_format) for one in over_amqp10}
    assert [b"1", b"2", b"3", b"4"] == [record.delivery_tag for record in over_amqp10[::2]]
    over_basic = [record for record in records if record.protocol == "0-9-1"]
    headers = [decode_content_header(record.content_header or b"") for record in over_basic]
    assert ["b-0", "b-1"] * 2 == [header.properties.message_id for header in headers]
    assert [b'{"order": 0}', b'{"order": 1}'] * 2 == [record.payload for record in over_basic]
    assert {("", "orders")} == {(one.exchange, one.routing_key) for one in over_basic}


ODD_VALUES = [[1], {"a": 1}, Array("int", [1]), Described(UInt(1), 2), "0", 1.0, b"0", True, -1]


@pytest.mark.parametrize("value", ODD_VALUES, ids=repr)
@pytest.mark.parametrize(
    "performative",
    [
        lambda value: Described(value, []),
        lambda value: Described(ULong(0x12), ["link", value]),
        lambda value: Described(ULong(0x14), [value, UInt(0), b"tag"]),
        lambda value: Described(ULong(0x14), [UInt(0), value, b"tag"]),
        lambda value: Described(Symbol("amqp:transfer:list"), [value]),
        lambda value: Described(ULong(0x16), [value]),
    ],
    ids=["descriptor", "attach", "transfer", "delivery-id", "symbol", "detach"],
)
def test_frame_with_an_invalid_value_costs_only_that_frame(performative: Any, value: Any) -> None:
    """Whether the messages around it are read, also one of which a part came before it."""
    odd = frame(performative(value), b"odd")
    octets = HEADER + attach(0, "q") + transfer(0, b"a", 0, more=True)
    octets += odd + transfer(0, b"b", 0) + transfer(0, b"c", 1)

    found = of_pieces(cut(octets, [1000]))

    assert [b"ab", b"c"] == [record.wire for record in found if not record.fault]
    for record in found:
        if record.fault:
            assert record.fault.startswith("a frame that cannot be read: its ")
            assert odd[8:] == record.wire


@pytest.mark.parametrize("value", [True, -1, 1 << 32, "0"])
def test_invalid_message_format_is_none(value: Any) -> None:
    odd = frame(Described(ULong(0x14), [UInt(0), UInt(0), b"tag", value]), b"m")

    (record,) = of_pieces(cut(HEADER + odd, [1000]))

    assert (b"m", "", None) == (record.wire, record.fault, record.message_format)


def timed(ticks: int, resolution: int, *names: bytes) -> bytes:
    """A capture in pcapng of one message, at a time in ticks of 10^-resolution seconds.

    The interface has options with these names before its resolution.
    """
    (_, piece) = cut(stream_of([b"m"]), [1000])
    data = packet(piece)
    options = b"".join(
        struct.pack("<HH", 2, len(name)) + name + bytes(-len(name) % 4) for name in names
    ) + struct.pack("<HHB3xHH", 9, 1, resolution, 0, 0)
    head = struct.pack("<IIIII", 0, ticks >> 32, ticks & 0xFFFFFFFF, len(data), len(data))
    begin = block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
    return begin + block(1, struct.pack("<HHI", 1, 0, 0) + options) + block(6, head + data)


@pytest.mark.parametrize(
    "ticks, resolution, time",
    [
        (2**64 - 1, 9, (2**64 - 1) // 1000),
        (2**64 - 1, 6, None),
        (2**64 - 1, 0, None),
        (253_402_300_799_999_999, 6, 253_402_300_799_999_999),
        (253_402_300_800_000_000, 6, None),
    ],
)
def test_a_time_after_the_year_9999_is_unknown(
    ticks: int, resolution: int, time: int | None
) -> None:
    (record,) = read(timed(ticks, resolution))

    assert (b"m", "", time) == (record.wire, record.fault, record.time)


@pytest.mark.parametrize(
    "ticks, exponent, time",
    [(7, 0, 7_000_000), (11 << 19, 20, 5_500_000), (3 << 40, 40, 3_000_000)],
)
def test_time_in_ticks_of_a_power_of_two(ticks: int, exponent: int, time: int) -> None:
    (record,) = read(timed(ticks, 0x80 | exponent))

    assert (b"m", "", time) == (record.wire, record.fault, record.time)


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("kind", [2, 6])
@pytest.mark.parametrize(
    "ticks, offset, time",
    [
        (7_000, 0, 7_000_000),
        (7_000, 1_700_000_000, 1_700_000_007_000_000),
        (7_000, -8, -1_000_000),
        (0, 253_402_300_799, 253_402_300_799_000_000),
        (0, 253_402_300_800, None),
        (0, -62_135_596_800, -62_135_596_800_000_000),
        (0, -62_135_596_801, None),
        (0, 2**63 - 1, None),
    ],
)
def test_time_of_every_packet_block_has_the_offset_of_its_interface(
    order: str, kind: int, ticks: int, offset: int, time: int | None
) -> None:
    """Block 2 is the packet block of the first versions of pcapng."""
    (_, piece) = cut(stream_of([b"m"]), [1000])
    data = packet(piece)
    options = struct.pack(f"{order}HHqHHB3xHH", 14, 8, offset, 9, 1, 3, 0, 0)
    number = struct.pack(f"{order}I", 1) if kind == 6 else struct.pack(f"{order}HH", 1, 9)
    head = number + struct.pack(f"{order}IIII", 0, ticks, len(data), len(data))
    octets = b"".join(
        (
            block(0x0A0D0D0A, struct.pack(f"{order}IHHq", 0x1A2B3C4D, 1, 0, -1), order),
            block(1, struct.pack(f"{order}HHI", 1, 0, 0), order),
            block(1, struct.pack(f"{order}HHI", 1, 0, 0) + options, order),
            block(kind, head + data, order),
        )
    )

    (record,) = read(octets)

    assert (b"m", "", time) == (record.wire, record.fault, record.time)


@given(st.lists(st.binary(max_size=9), max_size=3))
@example([b"eth0:"])
def test_resolution_is_found_after_options_of_any_size(names: list[bytes]) -> None:
    (record,) = read(timed(7, 3, *names))

    assert (b"m", "", 7_000) == (record.wire, record.fault, record.time)


@pytest.mark.parametrize("command", ["inspect", "validate", "pipeline"])
def test_commands_read_messages_next_to_an_invalid_frame(tmp_path: Path, command: str) -> None:
    path, out = tmp_path / "c.pcapng", tmp_path / "out"
    octets = HEADER + frame(Described([1], []), b"odd") + transfer(0, Message(b"m").encode(), 0)
    path.write_bytes(pcapng([packet(piece) for piece in cut(octets, [1000])]))
    arguments = ["pipeline", "validate", str(path), str(out)]

    result = CliRunner().invoke(main, arguments if command == "pipeline" else [command, str(path)])

    assert result.exception is None or isinstance(result.exception, SystemExit), result.output
    if command == "pipeline":
        assert [b"\x00\x53\x75\xa0\x01m"] == columns(out / "messages")["wire"]
        assert ["a frame that cannot be read: its descriptor is of the type list"] == columns(
            out / "quarantine"
        )["error_text"]
    else:
        assert ('binary vbin8  1 byte: "m"' if command == "inspect" else "1 sound") in result.output
        assert "its descriptor is of the type list" in result.output


def columns(folder: Path) -> dict[str, list[Any]]:
    dataset: Any = pytest.importorskip("pyarrow.dataset")
    found: dict[str, list[Any]] = dataset.dataset(folder).to_table().to_pydict()
    return found


def test_many_damaged_captures() -> None:
    """Whether each gives records; `python -m fuzz.files` reads more."""
    assert [] == run(2_000, 1, ["pcap"], kept=None)


def test_a_gap_in_the_middle_of_messages_of_several_frames() -> None:
    """Peers may repeat the id of a delivery; what follows a gap is then no message of its own."""
    first = transfer(0, b"a1", 0, more=True)
    again = transfer(0, b"a2", 0, more=True) + transfer(0, b"a3", 0)
    pieces = [
        Piece(0, b"", 0x02),
        Piece(1, HEADER + first),
        Piece(1 + len(HEADER + first) + 10, again[10:] + transfer(0, b"b", 1)),
    ]

    found = of_pieces(pieces)

    assert [b"b"] == wires_of(found)
    assert [True, True] == [record.skips for record in found if record.fault][:2]


def test_content_of_0_9_1_without_its_method_is_a_fault() -> None:
    method = old_frame(1, PUBLISH, 2)
    rest = content(PUBLISH, b"body")[len(old_frame(1, PUBLISH)) :]
    other = content(PUBLISH, b"other")
    rest_of_two = rest.replace(b"\x00\x01", b"\x00\x02", 1)
    pieces = [
        Piece(0, b"", 0x02),
        Piece(1, OLD_HEADER),
        Piece(1 + len(OLD_HEADER) + len(method), other + rest_of_two + other),
    ]

    found = of_pieces(pieces)

    assert [b"other", b"other"] == contents_of(found)


def test_truncated_last_frame_is_reported() -> None:
    (record,) = of_pieces(cut((HEADER + transfer(0, bytes(5000), 0))[:3000], [1460]))

    assert record.fault.startswith("the capture ends before the message does: 2,992 bytes of")


def test_packets_of_unknown_link_layers_are_counted() -> None:
    packets = [packet(piece) for piece in cut(stream_of([b"m"]), [1000])]

    (record,) = read(pcap(packets, link=250))

    assert ("2 packets of the link layer 250", True) == (record.fault[:31], record.skips)


def test_missing_segments_are_damage_in_a_job(tmp_path: Path) -> None:
    bodies = [Message(b"%d" % n, properties=None).encode() for n in range(200)]
    pieces = cut(stream_of(bodies), [1460])
    (tmp_path / "in.pcap").write_bytes(pcap([packet(p) for p in pieces if p is not pieces[2]]))
    arguments = ["pipeline", "decode", "--engine", "local", "--workers", "1", "--json"]

    result = CliRunner().invoke(main, [*arguments, str(tmp_path / "in.pcap"), str(tmp_path / "o")])

    assert (1, True) == (result.exit_code, "damaged-file" in result.stdout)
