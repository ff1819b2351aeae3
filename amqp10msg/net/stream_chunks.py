"""Chunks of RabbitMQ's streams, as they are on disk and as the stream protocol delivers them.

The layout is that of Osiris, RabbitMQ's log (the head of ``src/osiris_log.erl``). A chunk has
entries; an entry is a message, or a batch of messages that its publisher compressed.
"""

from __future__ import annotations

import functools
import struct
import zlib
from array import array
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.compute as pc

#: Magic and version, type, entries, records, timestamp, epoch, chunk id, CRC, and the lengths of
#: data and trailer; then 4 bytes that are reserved.
_HEAD = struct.Struct(">BBHIqQQIII4x")
_MAGIC = 0x50
#: Offsets are signed 64-bit integers here, as in Arrow's columns and in RabbitMQ's clients.
_MAX_OFFSET = 1 << 63
#: Types of chunks: of messages, and of what the broker notes for itself.
_USER, _TRACKING = 0, (1, 2)
_SIZE = struct.Struct(">I")
#: The first bit of an entry: it is a batch.
_BATCH = 0x80000000
#: Of a batch: its first byte, records, length when uncompressed, and length.
_BATCH_HEAD = struct.Struct(">BHII")
#: How a batch is compressed.
_PLAIN_BATCH, _SNAPPY = 0, 2
_CODECS = {1: "gzip", 3: "lz4", 4: "zstd"}
#: Of Snappy's framing format: the types of its chunks, and the most that one has.
_COMPRESSED, _PLAIN, _SKIPPABLE = 0, 1, 0x80
_SNAPPY_MOST = 1 << 16
_CHECKSUM = 4
#: Bytes of a chunk, and of what is compressed in it, at most.
MOST = 1 << 28
#: Numbers that are kept for offsets.
_NUMBERS = 1 << 16
_OTHERWISE = "read the stream over AMQP 1.0 instead (amqp://)"


class ChunkError(ValueError):
    """A chunk breaks the rules of its layout, or cannot be read here.

    One that is permanent is whole, and will not be read another time either.
    """

    def __init__(self, reason: str, *, permanent: bool = False) -> None:
        super().__init__(reason)
        self.permanent = permanent


@attrs.frozen
class Chunk:
    """Messages that a stream stored together.

    The timestamp is when the broker stored them, in ms since the Unix epoch; notes of the broker
    have no entries.
    """

    first: int
    count: int
    timestamp: int
    entries: int | None
    data: memoryview = attrs.field(repr=False)

    @property
    def stop(self) -> int:
        """The offset after that of the last message."""
        return self.first + self.count


def parse_chunk(octets: bytes | bytearray | memoryview) -> Chunk:
    """Read the head of a chunk, and see that the CRC-32 of its entries fits.

    Neither its filter nor its trailer are there, as the broker sends it.
    """
    if len(octets) < _HEAD.size:
        raise ChunkError(f"a chunk of {len(octets)} bytes has no head, which has {_HEAD.size}")
    head = _HEAD.unpack_from(octets)
    magic, kind, entries, records, timestamp, _, first, crc, size, _ = head
    if magic != _MAGIC:
        raise ChunkError(f"a chunk begins with {magic:#04x}, not with {_MAGIC:#04x}")
    if first + records > _MAX_OFFSET:
        raise ChunkError(
            f"the chunk at offset {first} has {records} messages: offsets end at {_MAX_OFFSET - 1}"
        )
    data = memoryview(octets)[_HEAD.size :]
    if size > len(data):
        raise ChunkError(f"the chunk at offset {first} has {len(data)} of its {size} bytes")
    if kind in _TRACKING:
        return Chunk(first, records, timestamp, None, data[:0])
    if kind != _USER:
        raise ChunkError(f"the chunk at offset {first} has the type {kind}, which is not known")
    data = data[:size]
    if zlib.crc32(data) != crc:
        raise ChunkError(f"the chunk at offset {first} is damaged: its CRC-32 does not fit")
    return Chunk(first, records, timestamp, entries, data)


@attrs.frozen
class StoredRows:
    """Messages of a stream, in their order.

    The times are when the broker stored them, in ms since the Unix epoch.
    """

    offsets: pa.Array = attrs.field(repr=False)
    octets: pa.Array = attrs.field(repr=False)
    times: pa.Array = attrs.field(repr=False)

    def __len__(self) -> int:
        return len(self.offsets)


class RowsOfChunks:
    """Gathers the messages of chunks, and makes arrays of them.

    In Python there is the reading of a length and an addition for each message; Arrow does the
    rest. A chunk that breaks the rules leaves nothing behind.
    """

    def __init__(self) -> None:
        self._data = bytearray()  # messages, each after its length
        self._ends = [0]
        self._runs: list[tuple[int, int, int]] = []  # first offset, how many, timestamp

    def __len__(self) -> int:
        return len(self._ends) - 1

    @property
    def size(self) -> int:
        """Bytes so far."""
        return len(self._data)

    def add(self, chunk: Chunk, start: int, stop: int) -> None:
        """Add the messages of a chunk from an offset of it up to another one."""
        before, base = len(self._ends), len(self._data)
        try:
            if not (chunk.count == chunk.entries and self._add(chunk.data, chunk.count)):
                self._add_expanded(chunk)
        except struct.error:
            self._cut(before, base)
            raise ChunkError(f"the chunk at offset {chunk.first}: an entry ends after it") from None
        except ChunkError as error:
            self._cut(before, base)
            text = f"the chunk at offset {chunk.first}: {error}"
            raise ChunkError(text, permanent=error.permanent) from None
        skipped, kept = start - chunk.first, stop - start
        if kept < chunk.count:
            wanted = self._ends[before - 1 + skipped : before + skipped + kept]
            octets = self._data[wanted[0] : wanted[-1]]
            self._cut(before, base)
            self._data += octets
            self._ends += [base + one - wanted[0] for one in wanted[1:]]
        if kept:
            self._runs.append((start, kept, chunk.timestamp))

    def _cut(self, before: int, base: int) -> None:
        del self._ends[before:], self._data[base:]

    def _add(self, data: Any, count: int) -> bool:
        """Add entries; return whether they are messages that end with the data."""
        before, base = len(self._ends), len(self._data)
        self._data += data
        place, size_at, append, octets = base, _SIZE.unpack_from, self._ends.append, self._data
        try:
            for _ in range(count):
                place += 4 + size_at(octets, place)[0]
                append(place)
        except struct.error:
            place = -1
        if place == len(octets):
            return True
        self._cut(before, base)
        return False

    def _add_expanded(self, chunk: Chunk) -> None:
        """Add entries of which some are batches."""
        data, place, left, before = chunk.data, 0, MOST, len(self._ends)
        for _ in range(chunk.entries or 0):
            (size,) = _SIZE.unpack_from(data, place)
            if size < _BATCH:
                stop = place + _SIZE.size + size
                inner, records = data[place:stop], 1
            else:
                first, records, plain, size = _BATCH_HEAD.unpack_from(data, place)
                start = place + _BATCH_HEAD.size
                stop = start + size
                left -= plain
                if left < 0:
                    text = f"its batches have more than {MOST} bytes when uncompressed"
                    raise ChunkError(f"{text}: {_OTHERWISE}", permanent=True)
                inner = _uncompressed(first >> 4 & 7, data[start:stop], plain)
            if stop > len(data):
                raise ChunkError("an entry ends after it")
            if not self._add(inner, records):
                raise ChunkError(f"the {records} messages of a batch do not end with it")
            place = stop
        if place != len(data):
            raise ChunkError(f"{chunk.entries} entries have {place} bytes, not {len(data)}")
        if len(self._ends) - before != chunk.count:
            found = len(self._ends) - before
            raise ChunkError(f"it has {found} messages, and says {chunk.count}")

    def take(self) -> StoredRows:
        """Return the messages so far, and begin with none again."""
        runs, ends, data = self._runs, self._ends, self._data
        self._runs, self._ends, self._data = [], [0], bytearray()
        buffers = [None, pa.py_buffer(array("i", ends)), pa.py_buffer(data)]
        sized = pa.BinaryArray.from_buffers(pa.binary(), len(ends) - 1, buffers)
        # Without an end, Arrow asks for a negative size of some arrays.
        octets = pc.binary_slice(sized, _SIZE.size, MOST)
        times, shifts = array("q"), array("q")
        there = 0
        for first, count, timestamp in runs:
            times += array("q", [timestamp]) * count
            # To which the number of a row in the arrays is added.
            shifts += array("q", [first - there]) * count
            there += count
        return StoredRows(pc.add(_int64(shifts), _up(there)), octets, _int64(times))


# Without a list: Arrow imports pandas, a third of a second of work, to make its first array of one.


def _int64(numbers: array[int]) -> pa.Array:
    return pa.Array.from_buffers(pa.int64(), len(numbers), [None, pa.py_buffer(numbers)])


def _up(count: int) -> pa.Array:
    """Return the numbers from 0 on."""
    return (_numbers() if count <= _NUMBERS else _int64(array("q", range(count))))[:count]


@functools.cache
def _numbers() -> pa.Array:
    return _int64(array("q", range(_NUMBERS)))


def _uncompressed(how: int, octets: memoryview, size: int) -> Any:
    """Uncompress a batch, whose size is known."""
    try:
        if how == _PLAIN_BATCH:
            found: Any = octets
        elif how == _SNAPPY:
            found = _framed_snappy(octets, size)
        elif how in _CODECS:
            reader = pa.BufferReader(pa.py_buffer(octets))
            found = pa.CompressedInputStream(reader, _CODECS[how]).read(size + 1)
        else:
            text = f"a batch is compressed in the way {how}, which is not known: {_OTHERWISE}"
            raise ChunkError(text, permanent=True)
    except (OSError, pa.ArrowException) as error:
        raise ChunkError(f"a batch does not uncompress: {error}") from None
    if len(found) != size:
        raise ChunkError(f"a batch has not the {size} bytes when uncompressed that it says")
    return found


def _framed_snappy(octets: memoryview, size: int) -> bytes:
    """Uncompress Snappy's framing format; the chunk's CRC-32 has been looked at already."""
    codec, place = pa.Codec("snappy"), 0
    made = bytearray()
    while place < len(octets):
        kind, length = octets[place], int.from_bytes(octets[place + 1 : place + 4], "little")
        part = octets[place + 4 : place + 4 + length]
        place += 4 + length
        if place > len(octets):
            raise ChunkError("a batch of Snappy ends too early")
        if kind == _COMPRESSED:
            made += codec.decompress(part[_CHECKSUM:], _snappy_size(part[_CHECKSUM:])).to_pybytes()
        elif kind == _PLAIN:
            made += part[_CHECKSUM:]
        elif kind < _SKIPPABLE:
            raise ChunkError(f"a batch of Snappy has a part of the type {kind}, not known")
        if len(made) > size:
            break
    return bytes(made)


def _snappy_size(octets: memoryview) -> int:
    """Return how many bytes a block of Snappy has when uncompressed, as it says."""
    size = 0
    for place, one in enumerate(octets[:3]):
        size |= (one & 0x7F) << 7 * place
        if one < 0x80:
            break
    if size > _SNAPPY_MOST:
        raise ChunkError(f"a part of a batch of Snappy has {size} bytes, more than {_SNAPPY_MOST}")
    return size
