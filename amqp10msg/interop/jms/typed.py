"""Read and write JMS map and stream bodies in the format of Apache Qpid's AMQP 0-x clients.

The content types are ``jms/map-message`` and ``jms/stream-message``. A stream is a sequence of
values, each preceded by a byte for its type. A map is a 32-bit count, followed by pairs of a key
and a value. Keys and text values end with a zero byte. ``TypedBytesContentReader`` of Qpid Broker-J
reads the same format.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Mapping
from typing import Any

from amqp10msg.wire.errors import ContentError
from amqp10msg.wire.primitives import Byte, Char, Float, Int, Short

__all__ = [
    "JMS_TYPES",
    "TEXT_CONTENT_TYPE_PATTERN",
    "read_map",
    "read_stream",
    "write_map",
    "write_stream",
]

#: The types of values in JMS maps and streams, besides None. An `int` has 64 bits, a char 16.
JMS_TYPES: tuple[type, ...] = (bool, Byte, bytes, Short, Char, Int, int, Float, float, str)

#: Matches the content-types of text messages (AMQP JMS Mapping, 3.3.7).
TEXT_CONTENT_TYPE_PATTERN = re.compile(
    r"text/.*|application/(xml|xml-dtd|.*\+xml|json|.*\+json|javascript|ecmascript)", re.DOTALL
)

_INT32 = struct.Struct(">i")
_UINT32 = struct.Struct(">I")
# Type codes in an encoded body.
_BYTES, _CHAR, _TEXT, _NULL = 3, 5, 10, 11
# (Python type or conversion, format) of each type with a fixed size, by its code.
_FIXED_SIZE_TYPE_BY_CODE: dict[int, tuple[Any, struct.Struct]] = {
    1: (bool, struct.Struct(">b")),
    2: (Byte, struct.Struct(">b")),
    4: (Short, struct.Struct(">h")),
    6: (Int, _INT32),
    7: (int, struct.Struct(">q")),
    8: (Float.from_bits, _UINT32),
    9: (float, struct.Struct(">d")),
}
_FIXED_SIZE_CODES: dict[type, int] = {
    Float: 8,
    **{kind: c for c, (kind, _) in _FIXED_SIZE_TYPE_BY_CODE.items() if c != 8},
}


class _Reader:
    """A cursor over an encoded body.

    Attributes:
        octets: the body.
        offset: the offset of the next byte to read.
    """

    def __init__(self, octets: bytes) -> None:
        self.octets = octets
        self.offset = 0

    def read_bytes(self, size: int) -> bytes:
        end = self.offset + size
        if size < 0 or end > len(self.octets):
            raise self.fault(f"{size} bytes expected")
        self.offset = end
        return self.octets[end - size : end]

    def fault(self, text: str, offset: int | None = None) -> ContentError:
        """Return an error with `text` and an offset, by default the offset of the next byte."""
        return ContentError(
            f"at byte {self.offset if offset is None else offset} of the body: {text}"
        )

    def read_text(self) -> str:
        """Read text up to its zero byte."""
        end = self.octets.find(b"\0", self.offset)
        if end < 0:
            raise self.fault("text without a terminating zero byte")
        octets, self.offset = self.octets[self.offset : end], end + 1
        try:
            return octets.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ContentError(f"invalid text before byte {end} of the body: {error}") from None

    def read_value(self) -> Any:
        """Read the byte for a type, and a value of that type."""
        start = self.offset
        code = self.read_bytes(1)[0]
        if code in _FIXED_SIZE_TYPE_BY_CODE:
            kind, packed = _FIXED_SIZE_TYPE_BY_CODE[code]
            return kind(packed.unpack(self.read_bytes(packed.size))[0])
        if code == _BYTES:
            size = _INT32.unpack(self.read_bytes(4))[0]
            return None if size == -1 else self.read_bytes(size)
        if code == _CHAR:
            number = int.from_bytes(self.read_bytes(2))
            if 0xD800 <= number < 0xE000:
                raise self.fault("char is half of a surrogate pair", start)
            return Char(chr(number))
        if code == _TEXT:
            return self.read_text()
        if code == _NULL:
            return None
        raise self.fault(f"unknown type {code}", start)


def read_stream(octets: bytes) -> list[Any]:
    """Read the values of a stream message.

    Raises:
        ContentError: the bytes are not a valid stream message; the error contains the offset.
    """
    reader = _Reader(octets)
    values = []
    while reader.offset < len(octets):
        values.append(reader.read_value())
    return values


def read_map(octets: bytes) -> dict[str, Any]:
    """Read the entries of a map message; an empty body is an empty map.

    Raises:
        ContentError: the bytes are not a valid map message; the error contains the offset.
    """
    if not octets:
        return {}
    reader = _Reader(octets)
    count = _INT32.unpack(reader.read_bytes(4))[0]
    entries: dict[str, Any] = {}
    for _ in range(count):
        key = reader.read_text()
        entries[key] = reader.read_value()
    if reader.offset < len(octets):
        raise ContentError(f"{len(octets) - reader.offset} trailing bytes after the map")
    return entries


def write_stream(values: Iterable[Any]) -> bytes:
    """Write the values of a stream message.

    Raises:
        ContentError: a value has a type that JMS lacks, or a text contains a zero byte.
    """
    return b"".join(map(_encode_value, values))


def write_map(entries: Mapping[Any, Any]) -> bytes:
    """Write the entries of a map message.

    Raises:
        ContentError: a key is not text, a value has a type that JMS lacks, or a text contains a
            zero byte.
    """
    parts = [_INT32.pack(len(entries))]
    for key, value in entries.items():
        if type(key) is not str:
            raise ContentError(f"keys must be text, not {type(key).__name__}")
        parts += (_encode_text(key), _encode_value(value))
    return b"".join(parts)


def _encode_text(text: str) -> bytes:
    if "\0" in text:
        raise ContentError("text must not contain a zero byte, which ends it")
    return text.encode("utf-8") + b"\0"


def _encode_value(value: Any) -> bytes:
    kind = type(value)
    if value is None:
        return bytes([_NULL])
    if kind is str:
        return bytes([_TEXT]) + _encode_text(value)
    if kind is bytes:
        return b"".join((bytes([_BYTES]), _INT32.pack(len(value)), value))
    if kind is Char and ord(value) < 0x10000:
        return bytes([_CHAR, *divmod(ord(value), 256)])
    if kind is Float:
        return b"\x08" + _UINT32.pack(value.bits)
    if kind in _FIXED_SIZE_CODES and (kind is not int or -(2**63) <= value < 2**63):
        code = _FIXED_SIZE_CODES[kind]
        return bytes([code]) + _FIXED_SIZE_TYPE_BY_CODE[code][1].pack(value)
    raise ContentError(f"JMS has no type for {value!r:.80}")
