"""Bodies ``amqp/map`` and ``amqp/list`` as the clients of AMQP 0-10 write them.

A map or list is its size in bytes and a count, 32 bits each. A value stands after the code of its
type, a key is a text of at most 255 bytes. Sources are the codes of AMQP 0-10 and ``BBEncoder`` and
``BBDecoder`` of Qpid's Java code, whose types have no unsigned ones: what is read is the next wider
signed type.
"""

from __future__ import annotations

import math
import struct
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from amqp10msg.interop.jms.typed import BodyReader
from amqp10msg.wire.errors import ContentError
from amqp10msg.wire.primitives import Byte, Char, Float, Int, Short

_SIZE = struct.Struct(">I")
_DEPTH = 64  # lists, maps and arrays in each other: no stack bounds it in Java
_MAP, _LIST, _ARRAY, _STRUCT = 0xA8, 0xA9, 0xAA, 0xAB
_BOOLEAN, _CHAR, _UUID, _SHORT_TEXT, _TEXT, _VOID, _BIT = 0x08, 0x04, 0x48, 0x85, 0x95, 0xF0, 0xF1
_BYTES = 0xA0
_OTHER_CHARSETS = {0x84, 0x86, 0x94, 0x96}  # Latin-1 and UTF-16, with a size of 1 or 2 bytes
# By code: how it is packed, and what it is in Python.
_NUMBERS: dict[int, tuple[struct.Struct, Callable[[Any], Any]]] = {
    **dict.fromkeys((0x00, 0x02), (struct.Struct(">B"), Short)),
    0x01: (struct.Struct(">b"), Byte),
    **dict.fromkeys((0x10, 0x12), (struct.Struct(">H"), Int)),
    0x11: (struct.Struct(">h"), Short),
    **dict.fromkeys((0x20, 0x22), (_SIZE, int)),
    **dict.fromkeys((0x21, 0x27), (struct.Struct(">i"), Int)),
    0x23: (_SIZE, Float.from_bits),
    **dict.fromkeys((0x30, 0x31, 0x32, 0x38), (struct.Struct(">q"), int)),
    0x33: (struct.Struct(">d"), float),
}
_CODES: dict[type, int] = {Byte: 0x01, Short: 0x11, Int: 0x21, int: 0x31}
# The widths of what is bytes to Java, whatever it means.
_WIDTHS = {0x40: 16, 0x50: 32, 0x60: 64, 0x70: 128, 0xC0: 5, 0xC8: 5, 0xD0: 9, 0xD8: 9, _BIT: 0}
_SIZES = {0x80: 1, 0x90: 2, _BYTES: 4}
_NAN, _FLOAT_NAN = b"\x7f\xf8" + bytes(6), b"\x7f\xc0\0\0"


def read_map(octets: bytes) -> dict[str, Any] | None:
    """Read a map, None for a size of 0. Any other size is ignored, as is what follows the map."""
    return _Reader(octets).map(0)


def read_list(octets: bytes) -> list[Any] | None:
    """Read a list, as `read_map`."""
    return _Reader(octets).list(0)


def write_map(entries: Mapping[Any, Any]) -> bytes:
    """Write a map. A char keeps its lowest byte, and each NaN becomes the same one, as there.

    Raises:
        ContentError: Java's code has no type for a value, a text is longer than 65,535 bytes, a key
            is not text or longer than 255 bytes, or values nest deeper than 64.
    """
    return _map(entries, 0)


def write_list(values: Sequence[Any]) -> bytes:
    """Write a list, as `write_map`."""
    return _list(values, 0)


class _Reader(BodyReader):
    def unsigned(self, width: int) -> int:
        return int.from_bytes(self.take(width))

    def count(self, depth: int, least: int) -> int:
        """Return how many values follow, each of which takes `least` bytes and more."""
        if depth > _DEPTH:
            raise self.fault(f"nests deeper than {_DEPTH}")
        count = self.unsigned(4)
        if count * least > len(self.octets) - self.at:
            raise self.fault(f"{count} values expected")
        return count

    def text(self, width: int) -> str:
        return self.take(self.unsigned(width)).decode("utf-8", "replace")

    def map(self, depth: int) -> dict[str, Any] | None:
        if not self.unsigned(4):
            return None
        count = self.count(depth, 2)
        return {self.text(1): self.value(depth) for _ in range(count)}

    def list(self, depth: int) -> list[Any] | None:
        if not self.unsigned(4):
            return None
        return [self.value(depth) for _ in range(self.count(depth, 1))]

    def array(self, depth: int) -> Any:
        if not self.unsigned(4):
            return None
        code = self.unsigned(1)
        count = self.count(depth, 0)
        if count and code in (_VOID, _BIT):
            raise self.fault(f"{count} values without a byte")
        return [self.of(code, depth) for _ in range(count)]

    def value(self, depth: int) -> Any:
        return self.of(self.unsigned(1), depth)

    def of(self, code: int, depth: int) -> Any:
        at = self.at
        if code in _NUMBERS:
            packed, kind = _NUMBERS[code]
            return kind(packed.unpack(self.take(packed.size))[0])
        if code in (_SHORT_TEXT, _TEXT):
            return self.text(1 if code == _SHORT_TEXT else 2)
        if code in (_MAP, _LIST, _ARRAY):
            read = {_MAP: self.map, _LIST: self.list, _ARRAY: self.array}[code]
            return read(depth + 1)
        if code in (_BOOLEAN, _CHAR):
            byte = self.unsigned(1)  # signed to Java, and a char is the lowest half of that
            if code == _BOOLEAN:
                return 0 < byte < 0x80
            return Char(chr(byte if byte < 0x80 else 0xFF00 | byte))
        if code == _VOID:
            return None
        if code == _UUID:
            return uuid.UUID(bytes=self.take(16))
        if code in _WIDTHS:
            return self.take(_WIDTHS[code])
        if code in _SIZES:
            return self.take(self.unsigned(_SIZES[code]))
        what = f"unknown type 0x{code:02x}"
        if code == _STRUCT:
            what = "a struct of AMQP 0-10, which is not read"
        elif code in _OTHER_CHARSETS:
            what = "a text in the charset of the broker's machine, which is not read"
        raise self.fault(what, at)


def _sized(parts: list[bytes]) -> bytes:
    content = b"".join(parts)
    return _SIZE.pack(len(content)) + content


def _map(entries: Mapping[Any, Any], depth: int) -> bytes:
    parts = [_SIZE.pack(len(entries))]
    for key, value in entries.items():
        if type(key) is not str:
            raise ContentError(f"a key is text, not {type(key).__name__}")
        parts += (_text(key, 1), _written(value, depth))
    return _sized(parts)


def _list(values: Sequence[Any], depth: int) -> bytes:
    return _sized([_SIZE.pack(len(values)), *(_written(value, depth) for value in values)])


def _text(text: str, width: int) -> bytes:
    octets = text.encode("utf-8")
    if len(octets) >= 256**width:
        raise ContentError(f"a text of {len(octets)} bytes, and {256**width - 1} is the most")
    return len(octets).to_bytes(width) + octets


def _written(value: Any, depth: int) -> bytes:
    kind = type(value)
    if value is None:
        return bytes([_VOID])
    if kind is str:
        return bytes([_TEXT]) + _text(value, 2)
    if kind is bool:
        return bytes([_BOOLEAN, value])
    if kind in _CODES and (kind is not int or -(2**63) <= value < 2**63):
        return bytes([_CODES[kind]]) + _NUMBERS[_CODES[kind]][0].pack(value)
    if kind is Float:
        return b"\x23" + (_FLOAT_NAN if math.isnan(value) else _SIZE.pack(value.bits))
    if kind is float:
        return b"\x33" + (_NAN if math.isnan(value) else struct.pack(">d", value))
    if kind is Char and ord(value) < 0x10000:
        return bytes([_CHAR, ord(value) & 0xFF])
    if kind is bytes:
        return b"".join((bytes([_BYTES]), _SIZE.pack(len(value)), value))
    if kind is uuid.UUID:
        return b"".join((bytes([_UUID]), value.bytes))
    if kind in (dict, list):
        if depth == _DEPTH:
            raise ContentError(f"values nest deeper than {_DEPTH}")
        if kind is dict:
            return bytes([_MAP]) + _map(value, depth + 1)
        return bytes([_LIST]) + _list(value, depth + 1)
    raise ContentError(f"the code of AMQP 0-10 has no type for {value!r:.80}")
