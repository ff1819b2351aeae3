"""Chunks of RabbitMQ's streams: all messages, or an error that names the fault."""

from __future__ import annotations

import gzip
import struct
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")

from amqp10msg.net.ends.stream_chunks import (  # noqa: E402
    MAX_CHUNK,
    Chunk,
    ChunkError,
    RowsOfChunks,
    parse_chunk,
)
from tests.stored_streams import chunk, entry, sub_batch  # noqa: E402

pytestmark = pytest.mark.once

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4


def framed_snappy(octets: bytes) -> bytes:
    """Compress in Snappy's framing format, with one part uncompressed."""
    made = b"\xff\x06\x00\x00sNaPpY"
    for number, at in enumerate(range(0, len(octets), 1 << 16)):
        part = octets[at : at + (1 << 16)]
        packed = part if number % 2 else pa.Codec("snappy").compress(part).to_pybytes()
        made += bytes([number % 2]) + (len(packed) + 4).to_bytes(3, "little") + bytes(4) + packed
    return made + b"\xfe\x02\x00\x00pp"


def packed(messages: list[bytes], how: int) -> bytes:
    octets = b"".join(map(entry, messages))
    if how == GZIP:
        made = gzip.compress(octets)
    elif how == SNAPPY:
        made = framed_snappy(octets)
    elif how:
        made = pa.Codec({LZ4: "lz4", ZSTD: "zstd"}[how]).compress(octets).to_pybytes()
    else:
        made = octets
    return sub_batch(messages, how, made)


def rows_of(*octets: bytes) -> list[tuple[int, bytes, int]]:
    rows = RowsOfChunks()
    for one in map(parse_chunk, octets):
        if one.entries is not None:
            rows.add(one, one.first, one.stop)
    made = rows.take_rows()
    return list(
        zip(made.offsets.to_pylist(), made.octets.to_pylist(), made.times.to_pylist(), strict=True)
    )


MESSAGES = st.lists(st.binary(max_size=40), max_size=8)
ENTRIES = st.lists(st.one_of(st.binary(max_size=40), st.tuples(st.integers(0, 4), MESSAGES)))


@given(st.lists(st.tuples(st.integers(0, 3), ENTRIES), max_size=4), st.data())
def test_messages_of_complete_and_partial_chunks(
    drawn: list[tuple[int, list[Any]]], data: st.DataObject
) -> None:
    """Entries and batches, in adjacent chunks and chunks with gaps between them."""
    rows, wanted, first = RowsOfChunks(), [], 0
    for number, (gap, entries) in enumerate(drawn):
        first += gap
        messages = [
            one for part in entries for one in ([part] if isinstance(part, bytes) else part[1])
        ]
        built = [
            entry(one) if isinstance(one, bytes) else packed(one[1], one[0]) for one in entries
        ]
        found = parse_chunk(chunk(first, built, len(messages), timestamp=number))
        assert (first, len(messages), number) == (found.first, found.count, found.timestamp)
        start = data.draw(st.integers(first, found.stop))
        stop = data.draw(st.integers(start, found.stop))
        rows.add(found, start, stop)
        wanted += [(n, messages[n - first], number) for n in range(start, stop)]
        first = found.stop

    assert len(wanted) == len(rows)
    made = rows.take_rows()
    columns = (made.offsets.to_pylist(), made.octets.to_pylist(), made.times.to_pylist())
    assert wanted == list(zip(*columns, strict=True))
    assert (0, 0) == (len(rows), rows.size)


@given(st.binary(max_size=200), st.integers(0, 300), st.binary(min_size=1, max_size=8))
def test_any_bytes_are_rows_or_raise_chunk_error(noise: bytes, place: int, other: bytes) -> None:
    """A malformed chunk leaves no rows behind."""
    rows = RowsOfChunks()
    good = parse_chunk(chunk(5, [entry(b"a"), entry(b"b")]))
    rows.add(good, 5, 7)
    octets = bytearray(chunk(7, [packed([b"x", noise], GZIP), entry(noise)], 3))
    octets[place % len(octets) : place % len(octets) + len(other)] = other
    struct.pack_into(">I", octets, 32, zlib.crc32(octets[48:]))
    for one in (bytes(octets), noise):
        try:
            found = parse_chunk(one)
            if found.entries is not None and found.count < 10:
                rows.add(found, found.first, found.stop)
                return
        except ChunkError:
            pass
    assert [(5, b"a"), (6, b"b")] == list(
        zip((made := rows.take_rows()).offsets.to_pylist(), made.octets.to_pylist(), strict=True)
    )


@pytest.mark.parametrize(
    "octets, said",
    [
        (b"\x50", "has 1 bytes, fewer than its header"),
        (chunk(7, [], magic=0x51), "must be 0x50, got 0x51"),
        (chunk(7, [], kind=3), "offset 7 has the unknown type 3"),
        (chunk(7, [entry(b"x")], size=1 << 31), "5 bytes, but its header states 2147483648"),
        (chunk(7, [entry(b"x")], crc=1), "offset 7 is damaged"),
        *(
            (
                chunk(first, [entry(b"x"), entry(b"y")]),
                f"offset {first} has 2 messages: the highest offset",
            )
            for first in (2**63 - 1, 2**63, 2**64 - 1)
        ),
        (chunk(7, [b"\0\0\0\x09x"]), "offset 7: an entry exceeds the chunk"),
        (chunk(7, [entry(b"x")], entries=2, records=2), "offset 7: an entry exceeds the chunk"),
        (chunk(7, [entry(b"x"), b"y"], entries=1, records=1), "the 1 entries have 5 of 6 bytes"),
        (chunk(7, [packed([b"x"], 0)], 2), "have 1 messages, the header states 2"),
        (chunk(7, [sub_batch([b"x"], 0, b"")], 1), "does not have the 5 uncompressed bytes"),
        (chunk(7, [sub_batch([b"x"], GZIP, b"no")], 1), "a batch cannot be decompressed"),
        (chunk(7, [sub_batch([b"x"], LZ4, b"no")], 1), "a batch cannot be decompressed"),
        (chunk(7, [sub_batch([b"x"], SNAPPY, b"\0\xff\0\0no")], 1), "batch is truncated"),
        (
            chunk(7, [sub_batch([b"x"], SNAPPY, b"\0\x08\0\0crc.\xff\xff\xff\x7f")], 1),
            "2097151 bytes, the maximum is 65536",
        ),
        (chunk(7, [sub_batch([b"x"], SNAPPY, b"\x02\0\0\0")], 1), "a chunk of the unknown type 2"),
        (
            chunk(7, [sub_batch([b"x"], 5, b"")], 1),
            "unknown compression 5: .* over AMQP 1.0 instead",
        ),
        (
            chunk(7, [struct.pack(">BHII", 0x80, 1, 1 << 31, 0)], 1),
            f"exceed {MAX_CHUNK} bytes: read the stream over AMQP 1.0",
        ),
        (
            chunk(7, [packed([packed([b"x"], 0)[4:]], 0)[:11] + packed([b"x"], 0)], 1),
            "messages of a batch do not add up to its size|exceeds the chunk|bytes",
        ),
    ],
)
def test_malformed_chunks(octets: bytes, said: str) -> None:
    with pytest.raises(ChunkError, match=said):
        rows_of(octets)


def test_batch_with_a_wrong_uncompressed_size() -> None:
    """Smaller and larger than stated: the stated size bounds the memory."""
    octets = b"".join(map(entry, [b"x" * 100] * 10))
    for how, made in ((GZIP, gzip.compress(octets)), (SNAPPY, framed_snappy(octets))):
        for size in (len(octets) - 1, len(octets) + 1, 0):
            wrong = struct.pack(">BHII", 0x80 | how << 4, 10, size, len(made)) + made
            with pytest.raises(ChunkError, match=f"does not have the {size} uncompressed bytes"):
                rows_of(chunk(0, [wrong], 10))


def test_tracking_chunk_has_no_messages() -> None:
    for kind in (1, 2):
        found = parse_chunk(chunk(9, [b"\x01\x03refoffset.."], kind=kind))
        assert Chunk(9, 1, 1_700_000_000_000, None, found.data) == found
        assert 10 == found.stop


def test_many_messages() -> None:
    """More than the cached row numbers, and a Snappy batch of several blocks."""
    messages = [b"%d" % n for n in range(70_000)]
    built = [packed(messages[:35_000], SNAPPY), packed(messages[35_000:], ZSTD)]
    found = rows_of(chunk(0, built, 70_000))
    assert [(n, one, 1_700_000_000_000) for n, one in enumerate(messages)] == found
