"""Bodies of JMS map and stream messages as the clients of Apache Qpid for AMQP 0-x write them.

Content types ``jms/map-message`` and ``jms/stream-message``: a stream is values one after the
other, each after a byte for its type; a map has a count of 32 bits, and before each value its key,
which ends in a zero byte, as texts do. A source is ``TypedBytesContentReader`` of Qpid Broker-J.
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
    "TEXT_TYPES",
    "read_map",
    "read_stream",
    "write_map",
    "write_stream",
]

#: The types that JMS knows in maps and streams; char is one of 16 bits, and null is a value, too.
JMS_TYPES: tuple[type, ...] = (bool, Byte, bytes, Short, Char, Int, int, Float, float, str)

#: The content-types of texts (AMQP JMS Mapping, 3.3.7).
TEXT_TYPES = re.compile(
    r"text/.*|application/(xml|xml-dtd|.*\+xml|json|.*\+json|javascript|ecmascript)", re.DOTALL
)

_COUNT = struct.Struct(">i")
_UINT = struct.Struct(">I")
_BYTES, _CHAR, _TEXT, _NULL = 3, 5, 10, 11
# By code: what it is in Python, and how it is packed.
_FIXED: dict[int, tuple[Any, struct.Struct]] = {
    1: (bool, struct.Struct(">b")),
    2: (Byte, struct.Struct(">b")),
    4: (Short, struct.Struct(">h")),
    6: (Int, _COUNT),
    7: (int, struct.Struct(">q")),
    8: (Float.from_bits, _UINT),
    9: (float, struct.Struct(">d")),
}
_CODES: dict[type, int] = {Float: 8, **{kind: c for c, (kind, _) in _FIXED.items() if c != 8}}


class _Reader:
    """A cursor over an encoded body.

    Attributes:
        octets: the body.
        at: the offset of the next byte to read.
    """

    def __init__(self, octets: bytes) -> None:
        self.octets = octets
        self.at = 0

    def take(self, size: int) -> bytes:
        end = self.at + size
        if size < 0 or end > len(self.octets):
            raise self.fault(f"{size} bytes expected")
        self.at = end
        return self.octets[end - size : end]

    def fault(self, text: str, at: int | None = None) -> ContentError:
        """Return an error with `text` and the offset `at`, by default that of the next byte."""
        return ContentError(f"at byte {self.at if at is None else at} of the body: {text}")

    def text(self) -> str:
        end = self.octets.find(b"\0", self.at)
        if end < 0:
            raise self.fault("a text without its end")
        octets, self.at = self.octets[self.at : end], end + 1
        try:
            return octets.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ContentError(f"a text that ends at byte {end} of the body: {error}") from None

    def value(self) -> Any:
        at = self.at
        code = self.take(1)[0]
        if code in _FIXED:
            kind, packed = _FIXED[code]
            return kind(packed.unpack(self.take(packed.size))[0])
        if code == _BYTES:
            size = _COUNT.unpack(self.take(4))[0]
            return None if size == -1 else self.take(size)
        if code == _CHAR:
            number = int.from_bytes(self.take(2))
            if 0xD800 <= number < 0xE000:
                raise self.fault("a char that is half of a surrogate pair", at)
            return Char(chr(number))
        if code == _TEXT:
            return self.text()
        if code == _NULL:
            return None
        raise self.fault(f"unknown type {code}", at)


def read_stream(octets: bytes) -> list[Any]:
    """Read the values of a stream message.

    Raises:
        ContentError: the bytes are not a valid stream message; the text has the offset.
    """
    reader = _Reader(octets)
    values = []
    while reader.at < len(octets):
        values.append(reader.value())
    return values


def read_map(octets: bytes) -> dict[str, Any]:
    """Read the entries of a map message; an empty body is an empty map.

    Raises:
        ContentError: the bytes are not a valid map message; the text has the offset.
    """
    if not octets:
        return {}
    reader = _Reader(octets)
    count = _COUNT.unpack(reader.take(4))[0]
    made: dict[str, Any] = {}
    for _ in range(count):
        key = reader.text()
        made[key] = reader.value()
    if reader.at < len(octets):
        raise ContentError(f"{len(octets) - reader.at} trailing bytes after the map")
    return made


def write_stream(values: Iterable[Any]) -> bytes:
    """Write the values of a stream message.

    Raises:
        ContentError: JMS has no such type, or a text has a zero byte.
    """
    return b"".join(map(_written, values))


def write_map(entries: Mapping[Any, Any]) -> bytes:
    """Write the entries of a map message.

    Raises:
        ContentError: as `write_stream`; a key is not text.
    """
    parts = [_COUNT.pack(len(entries))]
    for key, value in entries.items():
        if type(key) is not str:
            raise ContentError(f"a key is text, not {type(key).__name__}")
        parts += (_terminated(key), _written(value))
    return b"".join(parts)


def _terminated(text: str) -> bytes:
    if "\0" in text:
        raise ContentError("a text of JMS ends at its first zero byte, and this one has one")
    return text.encode("utf-8") + b"\0"


def _written(value: Any) -> bytes:
    kind = type(value)
    if value is None:
        return bytes([_NULL])
    if kind is str:
        return bytes([_TEXT]) + _terminated(value)
    if kind is bytes:
        return b"".join((bytes([_BYTES]), _COUNT.pack(len(value)), value))
    if kind is Char and ord(value) < 0x10000:
        return bytes([_CHAR, *divmod(ord(value), 256)])
    if kind is Float:
        return b"\x08" + _UINT.pack(value.bits)
    if kind in _CODES and (kind is not int or -(2**63) <= value < 2**63):
        code = _CODES[kind]
        return bytes([code]) + _FIXED[code][1].pack(value)
    raise ContentError(f"JMS has no type for {value!r:.80}")
