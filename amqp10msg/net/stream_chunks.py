"""Chunks of RabbitMQ's streams, as they are stored and as the stream protocol delivers them.

Osiris, RabbitMQ's log, defines the layout: see the comment at the start of ``src/osiris_log.erl``.
A chunk has entries. An entry is a message, or a batch of messages that the publisher compressed (a
sub-entry batch).
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

#: The chunk header: magic and version, type, entries, records, timestamp, epoch, chunk id, CRC,
#: lengths of data and trailer, and 4 reserved bytes.
_HEAD = struct.Struct(">BBHIqQQIII4x")
_MAGIC = 0x50
#: Offsets are stored as signed 64-bit integers, as in RabbitMQ's clients.
_MAX_OFFSET = 1 << 63
#: Types of chunks: messages, and the broker's own tracking data.
_USER, _TRACKING = 0, (1, 2)
_SIZE = struct.Struct(">I")
#: The first bit of an entry, which is set for a batch.
_BATCH = 0x80000000
#: The header of a batch: first byte, records, uncompressed length, length.
_BATCH_HEAD = struct.Struct(">BHII")
#: Compression codes of a batch. `_CODECS` maps codes to names of Arrow's codecs.
_PLAIN_BATCH, _SNAPPY = 0, 2
_CODECS = {1: "gzip", 3: "lz4", 4: "zstd"}
#: Chunk types of Snappy's framing format: compressed, uncompressed, and from there on skippable.
_COMPRESSED, _PLAIN, _SKIPPABLE = 0, 1, 0x80
#: Maximum uncompressed size of a chunk of Snappy's framing format, in bytes.
_SNAPPY_MAX = 1 << 16
#: Size of a checksum in Snappy's framing format, in bytes.
_CHECKSUM = 4
#: Maximum size of a chunk, and of its uncompressed batches, in bytes.
MAX_CHUNK = 1 << 28
#: Length of the cached array of row numbers.
_CACHED_NUMBERS = 1 << 16
_HINT = "read the stream over AMQP 1.0 instead (amqp://)"


class ChunkError(ValueError):
    """A chunk is malformed or unsupported.

    Attributes:
        permanent: whether another attempt to read the chunk cannot succeed: it is unsupported, not
            damaged.
    """

    def __init__(self, reason: str, *, permanent: bool = False) -> None:
        super().__init__(reason)
        self.permanent = permanent


@attrs.frozen
class Chunk:
    """Messages that a stream stored together.

    Attributes:
        first: the offset of the first message.
        count: the number of messages.
        timestamp: when the broker stored them, in ms since the Unix epoch.
        entries: the number of entries; None for the broker's tracking data.
        data: the entries.
    """

    first: int
    count: int
    timestamp: int
    entries: int | None
    data: memoryview = attrs.field(repr=False)

    @property
    def stop(self) -> int:
        """The offset after the last message."""
        return self.first + self.count


def parse_chunk(octets: bytes | bytearray | memoryview) -> Chunk:
    """Parse the header of a chunk, and check the CRC-32 of its entries.

    The broker sends chunks without their filter and their trailer.

    Raises:
        ChunkError: the chunk is malformed, damaged, or of an unknown type.
    """
    if len(octets) < _HEAD.size:
        raise ChunkError(f"a chunk has {len(octets)} bytes, fewer than its header of {_HEAD.size}")
    header = _HEAD.unpack_from(octets)
    magic, kind, entries, records, timestamp, _, first, crc, size, _ = header
    if magic != _MAGIC:
        raise ChunkError(f"the first byte of a chunk must be {_MAGIC:#04x}, got {magic:#04x}")
    if first + records > _MAX_OFFSET:
        raise ChunkError(
            f"the chunk at offset {first} has {records} messages: the highest offset is "
            f"{_MAX_OFFSET - 1}"
        )
    data = memoryview(octets)[_HEAD.size :]
    if size > len(data):
        raise ChunkError(f"the chunk at offset {first} has {len(data)} of its {size} bytes")
    if kind in _TRACKING:
        return Chunk(first, records, timestamp, None, data[:0])
    if kind != _USER:
        raise ChunkError(f"the chunk at offset {first} has the unknown type {kind}")
    data = data[:size]
    if zlib.crc32(data) != crc:
        raise ChunkError(f"the chunk at offset {first} is damaged: its CRC-32 is wrong")
    return Chunk(first, records, timestamp, entries, data)


@attrs.frozen
class StoredRows:
    """Messages of a stream, in order.

    Attributes:
        offsets: the offsets, int64.
        octets: the encoded messages, binary.
        times: when the broker stored them, in ms since the Unix epoch, int64.
    """

    offsets: pa.Array = attrs.field(repr=False)
    octets: pa.Array = attrs.field(repr=False)
    times: pa.Array = attrs.field(repr=False)

    def __len__(self) -> int:
        return len(self.offsets)


class RowsOfChunks:
    """Collects the messages of chunks into Arrow arrays.

    For speed, Python code reads only the length of each message; Arrow slices the messages.
    A malformed chunk adds no messages.
    """

    def __init__(self) -> None:
        self._data = bytearray()  # the messages, each preceded by its length
        self._ends = [0]  # 0, then the end of each message in `_data`
        # For each chunk: the offset of the first row, the number of rows, and the timestamp.
        self._runs: list[tuple[int, int, int]] = []

    def __len__(self) -> int:
        return len(self._ends) - 1

    @property
    def size(self) -> int:
        """The size of the collected messages and their lengths, in bytes."""
        return len(self._data)

    def add(self, chunk: Chunk, start: int, stop: int) -> None:
        """Add the messages of a chunk with offsets from `start` to before `stop`.

        Raises:
            ChunkError: the entries of the chunk are malformed or unsupported.
        """
        end_count, data_size = len(self._ends), len(self._data)
        try:
            if not (chunk.count == chunk.entries and self._add_messages(chunk.data, chunk.count)):
                self._add_with_batches(chunk)
        except struct.error:
            self._truncate(end_count, data_size)
            text = f"the chunk at offset {chunk.first}: an entry exceeds the chunk"
            raise ChunkError(text) from None
        except ChunkError as error:
            self._truncate(end_count, data_size)
            text = f"the chunk at offset {chunk.first}: {error}"
            raise ChunkError(text, permanent=error.permanent) from None
        skipped, row_count = start - chunk.first, stop - start
        if row_count < chunk.count:
            row_ends = self._ends[end_count - 1 + skipped : end_count + skipped + row_count]
            octets = self._data[row_ends[0] : row_ends[-1]]
            self._truncate(end_count, data_size)
            self._data += octets
            self._ends += [data_size + end - row_ends[0] for end in row_ends[1:]]
        if row_count:
            self._runs.append((start, row_count, chunk.timestamp))

    def _truncate(self, end_count: int, data_size: int) -> None:
        del self._ends[end_count:], self._data[data_size:]

    def _add_messages(self, data: Any, count: int) -> bool:
        """Add entries if all are messages; otherwise return False without adding any."""
        end_count, data_size = len(self._ends), len(self._data)
        self._data += data
        position, unpack_size, append, octets = (
            data_size,
            _SIZE.unpack_from,
            self._ends.append,
            self._data,
        )
        try:
            for _ in range(count):
                position += 4 + unpack_size(octets, position)[0]
                append(position)
        except struct.error:
            position = -1
        if position == len(octets):
            return True
        self._truncate(end_count, data_size)
        return False

    def _add_with_batches(self, chunk: Chunk) -> None:
        """Add the messages of a chunk, some of whose entries may be batches."""
        data, position, budget, end_count = chunk.data, 0, MAX_CHUNK, len(self._ends)
        for _ in range(chunk.entries or 0):
            (size,) = _SIZE.unpack_from(data, position)
            if size < _BATCH:
                stop = position + _SIZE.size + size
                entry, records = data[position:stop], 1
            else:
                first, records, plain_size, size = _BATCH_HEAD.unpack_from(data, position)
                start = position + _BATCH_HEAD.size
                stop = start + size
                budget -= plain_size
                if budget < 0:
                    text = f"its uncompressed batches exceed {MAX_CHUNK} bytes"
                    raise ChunkError(f"{text}: {_HINT}", permanent=True)
                entry = _decompress(first >> 4 & 7, data[start:stop], plain_size)
            if stop > len(data):
                raise ChunkError("an entry exceeds the chunk")
            if not self._add_messages(entry, records):
                raise ChunkError(f"the {records} messages of a batch do not add up to its size")
            position = stop
        if position != len(data):
            raise ChunkError(f"the {chunk.entries} entries have {position} of {len(data)} bytes")
        count = len(self._ends) - end_count
        if count != chunk.count:
            raise ChunkError(f"the entries have {count} messages, the header states {chunk.count}")

    def take_rows(self) -> StoredRows:
        """Remove and return the collected messages."""
        runs, row_ends, data = self._runs, self._ends, self._data
        self._runs, self._ends, self._data = [], [0], bytearray()
        buffers = [None, pa.py_buffer(array("i", row_ends)), pa.py_buffer(data)]
        sized = pa.BinaryArray.from_buffers(pa.binary(), len(row_ends) - 1, buffers)
        # With no stop argument, Arrow allocates a negative size for some arrays.
        octets = pc.binary_slice(sized, _SIZE.size, MAX_CHUNK)
        times, shifts = array("q"), array("q")
        rows = 0
        for first, count, timestamp in runs:
            times += array("q", [timestamp]) * count
            shifts += array("q", [first - rows]) * count  # offset minus row number
            rows += count
        return StoredRows(pc.add(_int64(shifts), _row_numbers(rows)), octets, _int64(times))


# Arrays are built from buffers, not from lists: for a list, Arrow imports pandas, which takes a
# third of a second.


def _int64(numbers: array[int]) -> pa.Array:
    return pa.Array.from_buffers(pa.int64(), len(numbers), [None, pa.py_buffer(numbers)])


def _row_numbers(count: int) -> pa.Array:
    """Return the numbers from 0 to before `count`."""
    return (_cached_numbers() if count <= _CACHED_NUMBERS else _int64(array("q", range(count))))[
        :count
    ]


@functools.cache
def _cached_numbers() -> pa.Array:
    return _int64(array("q", range(_CACHED_NUMBERS)))


def _decompress(code: int, octets: memoryview, size: int) -> Any:
    """Decompress a batch, whose header states the uncompressed size."""
    try:
        if code == _PLAIN_BATCH:
            plain: Any = octets
        elif code == _SNAPPY:
            plain = _decompress_framed_snappy(octets, size)
        elif code in _CODECS:
            reader = pa.BufferReader(pa.py_buffer(octets))
            plain = pa.CompressedInputStream(reader, _CODECS[code]).read(size + 1)
        else:
            raise ChunkError(f"a batch has the unknown compression {code}: {_HINT}", permanent=True)
    except (OSError, pa.ArrowException) as error:
        raise ChunkError(f"a batch cannot be decompressed: {error}") from None
    if len(plain) != size:
        raise ChunkError(f"a batch does not have the {size} uncompressed bytes that it states")
    return plain


def _decompress_framed_snappy(octets: memoryview, size: int) -> bytes:
    """Decompress Snappy's framing format; its checksums are skipped: the chunk has a CRC-32."""
    codec, position = pa.Codec("snappy"), 0
    plain = bytearray()
    while position < len(octets):
        kind, length = (
            octets[position],
            int.from_bytes(octets[position + 1 : position + 4], "little"),
        )
        block = octets[position + 4 : position + 4 + length]
        position += 4 + length
        if position > len(octets):
            raise ChunkError("a batch of Snappy is truncated")
        if kind == _COMPRESSED:
            block = block[_CHECKSUM:]
            plain += codec.decompress(block, _snappy_size(block)).to_pybytes()
        elif kind == _PLAIN:
            plain += block[_CHECKSUM:]
        elif kind < _SKIPPABLE:
            raise ChunkError(f"a batch of Snappy has a chunk of the unknown type {kind}")
        if len(plain) > size:
            break
    return bytes(plain)


def _snappy_size(octets: memoryview) -> int:
    """Return the uncompressed size that a block of Snappy states, a varint of up to 3 bytes."""
    size = 0
    for position, byte in enumerate(octets[:3]):
        size |= (byte & 0x7F) << 7 * position
        if byte < 0x80:
            break
    if size > _SNAPPY_MAX:
        raise ChunkError(f"a chunk of Snappy states {size} bytes, the maximum is {_SNAPPY_MAX}")
    return size
