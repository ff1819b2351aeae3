"""Read Avro files block by block, with limits: fastavro's own reader has no limits.

The format is "Object Container Files" in the specification of Avro 1.11.
"""

from __future__ import annotations

import bz2
import io
import json
import lzma
import sys
import zlib
from collections.abc import Callable, Iterator
from typing import IO, Any

import attrs

from amqp10msg.files.containers import (
    ALWAYS_ALLOWED_BYTES,
    EXPANSION_ADVICE,
    read_up_to,
    too_many_empty,
)
from amqp10msg.wire.later import of_extra
from amqp10msg.wire.limits import Limits

#: The schema of the file header.
_FILE_HEADER_SCHEMA = {
    "type": "record",
    "name": "Header",
    "fields": [
        {"name": "magic", "type": {"type": "fixed", "name": "Magic", "size": 4}},
        {"name": "meta", "type": {"type": "map", "values": "bytes"}},
        {"name": "sync", "type": {"type": "fixed", "name": "Sync", "size": 16}},
    ],
}
#: The primitive types of Avro.
_AVRO_PRIMITIVE_TYPES = frozenset(
    ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
)
# Maximum size in bytes to which a block may be decompressed. Decompressors get a limit that is one
# byte larger, which must not exceed sys.maxsize.
_MAX_DECOMPRESSED_BLOCK_SIZE = sys.maxsize - 1
# Decompressors with a size limit, by codec.
_DECOMPRESSOR_BY_CODEC: dict[str, Callable[[], Any] | None] = {
    "null": None,
    "deflate": lambda: zlib.decompressobj(-15),
    "bzip2": bz2.BZ2Decompressor,
    "xz": lzma.LZMADecompressor,
}


class AvroError(ValueError):
    """An Avro file is damaged or exceeds a limit, so the rest of it cannot be read."""


@attrs.frozen
class Avro:
    """The header of an Avro file.

    Attributes:
        field_types: the Avro types of the record's fields, by name.
    """

    field_types: dict[str, Any]
    _schema: Any
    _codec: str
    _sync: bytes

    @classmethod
    def of(cls, stream: IO[bytes]) -> Avro:
        """Read the header of a file.

        Raises:
            ValueError: the header is invalid, or its codec is unknown.
            ImportError: fastavro is not installed.
        """
        fastavro = of_extra("fastavro", "avro", "Avro needs fastavro")
        try:
            header: Any = fastavro.schemaless_reader(stream, _FILE_HEADER_SCHEMA, None)
            meta = header["meta"]
            schema = fastavro.parse_schema(json.loads(meta["avro.schema"]))
            field_types = {field["name"]: field["type"] for field in schema["fields"]}
            codec = meta.get("avro.codec", b"null").decode()
        except Exception as error:  # noqa: BLE001  (fastavro has no exception class)
            raise ValueError(f"this is not Avro, or damaged: {error}") from None
        if codec not in _DECOMPRESSOR_BY_CODEC:
            codecs = ", ".join(_DECOMPRESSOR_BY_CODEC)
            raise ValueError(f"unsupported codec {codec!r}: rewrite the file with one of {codecs}")
        return cls(field_types, schema, codec, header["sync"])

    def records(self, stream: IO[bytes], limits: Limits) -> Iterator[Any]:
        """Read the records after the header.

        Args:
            stream: the file, positioned after the header.
            limits: `expansion_ratio` limits the decompressed size of the blocks. `zero_width` and
                `zero_width_per_byte` limit the number of records that have no bytes: a block of a
                few bytes may claim any number of such records.

        Raises:
            AvroError: the file is damaged or exceeds a limit. The records before are valid.
        """
        fastavro = of_extra("fastavro", "avro", "Avro needs fastavro")
        room, bytes_read, empty = ALWAYS_ALLOWED_BYTES, 0, 0
        while (count := _read_long(stream, may_end=True)) is not None:
            size = _read_long(stream) or 0
            packed = read_up_to(stream, max(size, 0))
            if count < 0 or size < 0 or len(packed) < size:
                raise AvroError("a block is truncated")
            bytes_read += size + len(self._sync)
            allowed = limits.zero_width_of(bytes_read)
            room = min(room + size * limits.expansion_ratio, _MAX_DECOMPRESSED_BLOCK_SIZE)
            block = io.BytesIO(self._decompress_block(packed, room))
            room -= len(block.getbuffer())
            for _ in range(count):
                start = block.tell()
                try:
                    record = fastavro.schemaless_reader(block, self._schema, None)
                except Exception as error:  # noqa: BLE001  (as above)
                    raise AvroError(str(error)) from None
                empty += block.tell() == start
                if empty > allowed:
                    raise AvroError(too_many_empty(limits, allowed))
                yield record
            if block.read(1):
                raise AvroError("a block has more bytes than its records")
            # The records of the block are valid even if its sync marker is wrong.
            if stream.read(16) != self._sync:
                raise AvroError("a block does not end with the sync marker")

    def _decompress_block(self, packed: bytes, room: int) -> bytes:
        """Return the decompressed block; AvroError if it has more than `room` bytes."""
        make = _DECOMPRESSOR_BY_CODEC[self._codec]
        if make is None:
            return packed
        try:
            content: bytes = make().decompress(packed, room + 1)
        except (zlib.error, OSError, EOFError, lzma.LZMAError) as error:
            raise AvroError(str(error)) from None
        if len(content) > room:
            raise AvroError(f"a block expands beyond the limit: {EXPANSION_ADVICE}")
        return content


def is_simple(kind: Any) -> bool:
    """Return whether an Avro type is a simple type, or a map or union of simple types.

    Each value of a simple type takes at least one byte, so it cannot exhaust the memory. Arrays and
    records could contain any number of values without a byte.
    """
    if isinstance(kind, list):
        return all(map(is_simple, kind))
    if isinstance(kind, dict):
        if kind.get("type") in {"enum", "fixed"}:
            return kind.get("size") != 0
        return is_simple(kind.get("values") if kind.get("type") == "map" else kind.get("type"))
    return kind in _AVRO_PRIMITIVE_TYPES


def _read_long(stream: IO[bytes], *, may_end: bool = False) -> int | None:
    """Read a varint (Avro type long). Return None at the end of the stream, if `may_end`."""
    number = 0
    for shift in range(0, 70, 7):
        octet = stream.read(1)
        if not octet:
            if may_end and not shift:
                return None
            break
        number |= (octet[0] & 0x7F) << shift
        if octet[0] < 0x80:
            return (number >> 1) ^ -(number & 1)
    raise AvroError("the size of a block is truncated or too long")
