"""Parses the chunks of RabbitMQ's streams, which the stream protocol delivers as they are stored.

RabbitMQ's library Osiris defines the layout: see the comment at the start of
``src/osiris_log.erl``. A chunk contains entries. An entry is a message, or a batch of messages that
the publisher may have compressed (a sub-entry batch).
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

#: The chunk header. Its fields are magic and version, chunk type, number of entries, number of
#: records (messages), timestamp, epoch, chunk id (the first offset), CRC, lengths of data and
#: trailer, and 4 reserved bytes.
_CHUNK_HEADER = struct.Struct(">BBHIqQQIII4x")
#: The first byte of a chunk, magic and version.
_MAGIC = 0x50
#: The exclusive maximum of an offset, which is stored as a signed 64-bit integer.
_MAX_OFFSET = 1 << 63
#: Chunk types. A user chunk contains messages, a tracking chunk the broker's own data.
_USER, _TRACKING = 0, (1, 2)
#: The length of a message, before its bytes.
_MESSAGE_SIZE_STRUCT = struct.Struct(">I")
#: The first bit of an entry, which is set for a batch.
_BATCH_FLAG = 0x80000000
#: The header of a batch. Its fields are the entry's first byte, number of messages, uncompressed
#: length and stored length, both in bytes.
_BATCH_HEADER = struct.Struct(">BHII")
#: Compression codes of a batch. `_ARROW_CODEC_BY_CODE` maps other codes to the names of Arrow's
#: codecs.
_PLAIN_BATCH, _SNAPPY = 0, 2
_ARROW_CODEC_BY_CODE = {1: "gzip", 3: "lz4", 4: "zstd"}
#: Chunk types of Snappy's framing format. The types from `_SKIPPABLE` on are ignored.
_COMPRESSED, _PLAIN, _SKIPPABLE = 0, 1, 0x80
#: Maximum uncompressed size of a chunk in Snappy's framing format, in bytes.
_MAX_SNAPPY_CHUNK_SIZE = 1 << 16
#: Size of a checksum in Snappy's framing format, in bytes.
_CHECKSUM_SIZE = 4
#: Maximum size of a stream's chunk, and maximum total size of its uncompressed batches, in bytes.
MAX_CHUNK = 1 << 28
#: Length of the cached array of row numbers.
_CACHED_ROW_NUMBERS = 1 << 16
#: The advice in the error texts for unsupported chunks.
_UNSUPPORTED_CHUNK_ADVICE = "read the stream over AMQP 1.0 instead (amqp://)"


class ChunkError(ValueError):
    """A chunk is malformed or unsupported.

    Attributes:
        permanent: True for an unsupported chunk, since reading it again cannot succeed. False for a
            malformed or damaged chunk.
    """

    def __init__(self, reason: str, *, permanent: bool = False) -> None:
        super().__init__(reason)
        self.permanent = permanent


@attrs.frozen
class Chunk:
    """A chunk: consecutive messages that the broker stored together.

    Attributes:
        first: the offset of the first message.
        count: the number of messages.
        timestamp: when the broker stored the chunk, in ms since the Unix epoch.
        entries: the number of entries; None for a chunk of the broker's tracking data.
        data: the encoded entries; empty for tracking data.
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

    `octets` has no Bloom filter and no trailer: the broker sends chunks without them.

    Raises:
        ChunkError: the chunk is malformed, damaged, or of an unknown type.
    """
    header_size = _CHUNK_HEADER.size
    if len(octets) < header_size:
        raise ChunkError(f"a chunk has {len(octets)} bytes, fewer than its header of {header_size}")
    header = _CHUNK_HEADER.unpack_from(octets)
    magic, kind, entries, records, timestamp, _, first, crc, size, _ = header
    if magic != _MAGIC:
        raise ChunkError(f"the first byte of a chunk must be {_MAGIC:#04x}, got {magic:#04x}")
    if first + records > _MAX_OFFSET:
        raise ChunkError(
            f"the chunk at offset {first} has {records} messages: the highest offset is "
            f"{_MAX_OFFSET - 1}"
        )
    data = memoryview(octets)[header_size:]
    if size > len(data):
        raise ChunkError(
            f"the chunk at offset {first} has {len(data)} bytes, but its header states {size}"
        )
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
        times: when the broker stored each message, in ms since the Unix epoch, int64.
    """

    offsets: pa.Array = attrs.field(repr=False)
    octets: pa.Array = attrs.field(repr=False)
    times: pa.Array = attrs.field(repr=False)

    def __len__(self) -> int:
        return len(self.offsets)


class RowsOfChunks:
    """Collects the messages of several chunks in Arrow arrays.

    For speed, Python code reads only the length of each message, and Arrow copies the messages.
    A malformed chunk adds no messages.
    """

    def __init__(self) -> None:
        self._data = bytearray()  # the messages, each preceded by its length
        self._ends = [0]  # 0, then the end of each message in `_data`
        # For each added chunk, the offset of its first row, its number of rows, and its timestamp.
        self._chunks: list[tuple[int, int, int]] = []

    def __len__(self) -> int:
        return len(self._ends) - 1

    @property
    def size(self) -> int:
        """The size of the collected messages, with 4 bytes for the length of each, in bytes."""
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
            self._chunks.append((start, row_count, chunk.timestamp))

    def _truncate(self, end_count: int, data_size: int) -> None:
        """Shorten `_ends` to `end_count` items and `_data` to `data_size` bytes."""
        del self._ends[end_count:], self._data[data_size:]

    def _add_messages(self, data: Any, count: int) -> bool:
        """Add `count` messages, and return True.

        Returns False without adding a message if `data` does not have `count` messages exactly, for
        example because it contains a batch.
        """
        end_count, data_size = len(self._ends), len(self._data)
        self._data += data
        position, unpack_size, append, octets = (
            data_size,
            _MESSAGE_SIZE_STRUCT.unpack_from,
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
        """Add the messages of a chunk, including the messages in its batches."""
        data, position, budget, end_count = chunk.data, 0, MAX_CHUNK, len(self._ends)
        for _ in range(chunk.entries or 0):
            (size,) = _MESSAGE_SIZE_STRUCT.unpack_from(data, position)
            if size < _BATCH_FLAG:
                stop = position + _MESSAGE_SIZE_STRUCT.size + size
                entry, records = data[position:stop], 1
            else:
                first, records, plain_size, size = _BATCH_HEADER.unpack_from(data, position)
                start = position + _BATCH_HEADER.size
                stop = start + size
                budget -= plain_size
                if budget < 0:
                    text = f"its uncompressed batches exceed {MAX_CHUNK} bytes"
                    raise ChunkError(f"{text}: {_UNSUPPORTED_CHUNK_ADVICE}", permanent=True)
                entry = _decompress(first >> 4 & 7, data[start:stop], plain_size)
            if stop > len(data):
                raise ChunkError("an entry exceeds the chunk")
            if not self._add_messages(entry, records):
                raise ChunkError(f"the {records} messages of a batch do not add up to its size")
            position = stop
        if position != len(data):
            raise ChunkError(
                f"the {chunk.entries} entries have {position} of {len(data)} bytes of the chunk"
            )
        count = len(self._ends) - end_count
        if count != chunk.count:
            raise ChunkError(f"the entries have {count} messages, the header states {chunk.count}")

    def take_rows(self) -> StoredRows:
        """Remove and return the collected messages."""
        chunks, row_ends, data = self._chunks, self._ends, self._data
        self._chunks, self._ends, self._data = [], [0], bytearray()
        buffers = [None, pa.py_buffer(array("i", row_ends)), pa.py_buffer(data)]
        sized = pa.BinaryArray.from_buffers(pa.binary(), len(row_ends) - 1, buffers)
        # The explicit stop avoids a bug of Arrow: without it, Arrow may allocate a negative size.
        octets = pc.binary_slice(sized, _MESSAGE_SIZE_STRUCT.size, MAX_CHUNK)
        times, differences = array("q"), array("q")
        rows = 0
        for first, count, timestamp in chunks:
            times += array("q", [timestamp]) * count
            differences += array("q", [first - rows]) * count  # offset minus row number
            rows += count
        offsets = pc.add(_int64_array(differences), _row_numbers(rows))
        return StoredRows(offsets, octets, _int64_array(times))


# Arrays are built from buffers, not from lists: for a list, Arrow imports pandas, which takes about
# 0.3 s.


def _int64_array(numbers: array[int]) -> pa.Array:
    return pa.Array.from_buffers(pa.int64(), len(numbers), [None, pa.py_buffer(numbers)])


def _row_numbers(count: int) -> pa.Array:
    """Return the numbers from 0 to before `count`."""
    if count <= _CACHED_ROW_NUMBERS:
        return _cached_row_numbers()[:count]
    return _int64_array(array("q", range(count)))


@functools.cache
def _cached_row_numbers() -> pa.Array:
    return _int64_array(array("q", range(_CACHED_ROW_NUMBERS)))


def _decompress(code: int, octets: memoryview, size: int) -> Any:
    """Decompress a batch.

    Args:
        code: the compression code in the batch's header.
        octets: the compressed messages.
        size: the uncompressed size in the batch's header, in bytes.

    Raises:
        ChunkError: the code is unknown, the data is malformed, or its uncompressed size differs.
    """
    try:
        if code == _PLAIN_BATCH:
            plain: Any = octets
        elif code == _SNAPPY:
            plain = _decompress_framed_snappy(octets, size)
        elif code in _ARROW_CODEC_BY_CODE:
            reader = pa.BufferReader(pa.py_buffer(octets))
            plain = pa.CompressedInputStream(reader, _ARROW_CODEC_BY_CODE[code]).read(size + 1)
        else:
            raise ChunkError(
                f"a batch has the unknown compression {code}: {_UNSUPPORTED_CHUNK_ADVICE}",
                permanent=True,
            )
    except (OSError, pa.ArrowException) as error:
        raise ChunkError(f"a batch cannot be decompressed: {error}") from None
    if len(plain) != size:
        raise ChunkError(f"a batch does not have the {size} uncompressed bytes that it states")
    return plain


def _decompress_framed_snappy(octets: memoryview, size: int) -> bytes:
    """Decompress Snappy's framing format, to little more than `size` bytes.

    Snappy's checksums are not checked, because the CRC-32 of the stream's chunk was checked.
    """
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
            raise ChunkError("a Snappy batch is truncated")
        if kind == _COMPRESSED:
            block = block[_CHECKSUM_SIZE:]
            plain += codec.decompress(block, _snappy_size(block)).to_pybytes()
        elif kind == _PLAIN:
            plain += block[_CHECKSUM_SIZE:]
        elif kind < _SKIPPABLE:
            raise ChunkError(f"a Snappy batch has a chunk of the unknown type {kind}")
        if len(plain) > size:
            break
    return bytes(plain)


def _snappy_size(octets: memoryview) -> int:
    """Return the uncompressed size that a Snappy block states, a varint of up to 3 bytes."""
    size = 0
    for position, byte in enumerate(octets[:3]):
        size |= (byte & 0x7F) << 7 * position
        if byte < 0x80:
            break
    if size > _MAX_SNAPPY_CHUNK_SIZE:
        raise ChunkError(
            f"a Snappy chunk states {size} bytes, the maximum is {_MAX_SNAPPY_CHUNK_SIZE}"
        )
    return size
