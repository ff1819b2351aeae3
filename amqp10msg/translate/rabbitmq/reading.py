"""1.0 values in, as the codec of a version of RabbitMQ reads them."""

from __future__ import annotations

from typing import Any

import attrs

from amqp10msg.translate.rabbitmq.terms import CrashedError, Term, check_level
from amqp10msg.wire.primitives import FORMAT_CODES

# How values are written, by their constructors.
_CONSTANT, _UNSIGNED, _SIGNED, _VARIABLE, _BOOLEAN = 1, 2, 3, 4, 5
_FLOAT, _DECIMAL, _UUID, _LIST, _MAP, _ARRAY = 6, 7, 8, 9, 10, 11
_ROWS = (
    (0x40, _CONSTANT, "null", 0),
    (0x41, _CONSTANT, "boolean", 0),
    (0x42, _CONSTANT, "boolean", 0),
    (0x43, _CONSTANT, "uint", 0),
    (0x44, _CONSTANT, "ulong", 0),
    (0x45, _LIST, "list", 0),
    (0x50, _UNSIGNED, "ubyte", 1),
    (0x60, _UNSIGNED, "ushort", 2),
    (0x70, _UNSIGNED, "uint", 4),
    (0x80, _UNSIGNED, "ulong", 8),
    (0x52, _UNSIGNED, "uint", 1),
    (0x53, _UNSIGNED, "ulong", 1),
    (0x51, _SIGNED, "byte", 1),
    (0x61, _SIGNED, "short", 2),
    (0x71, _SIGNED, "int", 4),
    (0x81, _SIGNED, "long", 8),
    (0x54, _SIGNED, "int", 1),
    (0x55, _SIGNED, "long", 1),
    (0x73, _UNSIGNED, "char", 4),
    (0x83, _SIGNED, "timestamp", 8),
    (0x56, _BOOLEAN, "boolean", 1),
    (0xA0, _VARIABLE, "binary", 1),
    (0xB0, _VARIABLE, "binary", 4),
    (0xA1, _VARIABLE, "utf8", 1),
    (0xB1, _VARIABLE, "utf8", 4),
    (0xA3, _VARIABLE, "symbol", 1),
    (0xB3, _VARIABLE, "symbol", 4),
    (0x72, _FLOAT, "float", 4),
    (0x82, _FLOAT, "double", 8),
    (0x74, _DECIMAL, "", 4),
    (0x84, _DECIMAL, "", 8),
    (0x94, _DECIMAL, "", 16),
    (0x98, _UUID, "uuid", 16),
    (0xC0, _LIST, "list", 1),
    (0xD0, _LIST, "list", 4),
    (0xC1, _MAP, "map", 1),
    (0xD1, _MAP, "map", 4),
    (0xE0, _ARRAY, "array", 1),
    (0xF0, _ARRAY, "array", 4),
)
_BY_CODE = {code: (form, name, width) for code, form, name, width in _ROWS}
_NOTHING = (0, "", 0)
_FORMS = bytes(_BY_CODE.get(code, _NOTHING)[0] for code in range(256))
_NAMES = [_BY_CODE.get(code, _NOTHING)[1] for code in range(256)]
_WIDTHS = bytes(_BY_CODE.get(code, _NOTHING)[2] for code in range(256))
_CONSTANTS: list[Term] = [None, True, False, ("uint", 0), ("ulong", 0)]
_ARRAYS_3 = {
    0xA3: "symbol",
    0xB3: "symbol",
    0xA1: "utf8",
    0xB1: "utf8",
    0x50: "ubyte",
    0x51: "byte",
    0x60: "ushort",
    0x61: "short",
    0x70: "uint",
    0x71: "int",
    0x80: "ulong",
    0x81: "long",
    0x40: "null",
    0x56: "boolean",
    0xF0: "array",
}
_ARRAYS_4 = {
    **_ARRAYS_3,
    0xA0: "binary",
    0xB0: "binary",
    0x72: "float",
    0x73: "char",
    0x82: "double",
    0x83: "timestamp",
    0x98: "uuid",
    0xD0: "list",
    0xD1: "map",
}


@attrs.frozen
class Codec:
    """How a version of RabbitMQ reads 1.0 values.

    Attributes:
        arrays: the element constructors that it knows, with their types.
        opaque_zero_width: arrays of elements without bytes are carried unread; else refused.
        wide_boolean: 0x56 gives ("boolean", value), which is not true or false there.
        writes_unread: what it carries unread it can write again.
    """

    arrays: dict[int, str]
    opaque_zero_width: bool = False
    wide_boolean: bool = False
    writes_unread: bool = False

    def parse_all(self, data: bytes) -> list[Term]:
        """Read all values of the input.

        Raises:
            CrashedError: the broker does not read it.
        """
        reader = TermReader(self, data, 0)
        found = []
        while reader.pos < reader.end:
            found.append(reader.term())
        return found


_NO_ITEMS: Term = ("list", [])


class TermReader:
    """A cursor over encoded values."""

    def __init__(self, codec: Codec, data: bytes, pos: int) -> None:
        self.buf = data
        self.pos = pos
        self.end = len(data)
        self.arrays: dict[int, str] = codec.arrays
        self.opaque_zero_width = codec.opaque_zero_width
        self.wide_boolean = codec.wide_boolean
        self.unread = "as_is" if codec.writes_unread else "unread"

    def term(self) -> Term:
        """Read one value.

        Raises:
            CrashedError: the broker does not read it.
            RecursionError: it nests deeper than any message.
        """
        return self.value(self.end, 0)

    def value(self, end: int, level: int) -> Term:
        """Read one value that ends at `end` at the latest, within so many others."""
        pos = self.pos
        if pos >= end:
            raise CrashedError("the bytes end where a value must stand")
        self.pos = pos + 1
        code = self.buf[pos]
        if code == 0:
            check_level(level)
            descriptor = self.value(end, level + 1)
            return ("described", descriptor, self.value(end, level + 1))
        return self.primitive(code, end, level)

    def primitive(self, code: int, end: int, level: int) -> Term:
        """Read what stands behind a constructor."""
        form = _FORMS[code]
        width = _WIDTHS[code]
        pos = self.pos
        if form == _VARIABLE:
            start = self.take(width, end)
            self.take(self.number(pos, width), end)
            return (_NAMES[code], self.buf[start : self.pos])
        if form == _UNSIGNED:
            self.take(width, end)
            return (_NAMES[code], self.number(pos, width))
        if form == _SIGNED:
            self.take(width, end)
            octets = self.buf[pos : pos + width]
            return (_NAMES[code], int.from_bytes(octets, "big", signed=True))
        if _LIST <= form <= _ARRAY:
            return self.compound(code, end, level)
        if form == _CONSTANT:
            return _CONSTANTS[code - 0x40]
        if form == _BOOLEAN:
            self.take(1, end)
            if self.buf[pos] > 1:
                raise CrashedError(f"a boolean of {self.buf[pos]:#04x}")
            flag = bool(self.buf[pos] == 1)
            return ("boolean", flag) if self.wide_boolean else flag
        if form == 0:
            raise CrashedError(f"unknown constructor {code:#04x}")
        self.take(width, end)
        octets = self.buf[pos : pos + width]
        if form == _UUID:
            return ("uuid", octets)
        # Erlang has no NaN and no infinities: they are carried as they came, like decimals.
        if form == _DECIMAL or (
            octets[0] & 0x7F == 0x7F and octets[1] >= (0x80 if width == 4 else 0xF0)
        ):
            return (self.unread, code, octets)
        return (_NAMES[code], octets)

    def number(self, pos: int, width: int) -> int:
        """Return an unsigned number that was passed over."""
        return int.from_bytes(self.buf[pos : pos + width], "big")

    def take(self, size: int, end: int) -> int:
        """Pass over so many bytes; return where they end."""
        if size > end - self.pos:
            raise CrashedError("the bytes end within a value")
        self.pos += size
        return self.pos

    def compound(self, code: int, end: int, level: int) -> Term:
        """Read a list, a map or an array."""
        check_level(level)
        width = _WIDTHS[code]
        if width == 0:
            # A message may have as many of them as it has bytes. Nobody changes what is in values;
            # the lists of sections, further out, become longer.
            return _NO_ITEMS if level > 1 else ("list", [])
        pos = self.pos
        start = self.take(width, end)
        stop = self.take(
            self.buf[pos] if width == 1 else int.from_bytes(self.buf[pos : pos + 4], "big"), end
        )
        self.pos = start
        at = self.take(width, stop)
        form = _FORMS[code]
        if form == _ARRAY:
            count = (
                self.buf[start]
                if width == 1
                else int.from_bytes(self.buf[start : start + 4], "big")
            )
            return self.array(code, count, stop, level + 1)
        self.pos = at
        items: list[Any] = []
        if form == _LIST:
            while self.pos < stop:
                items.append(self.value(stop, level + 1))
            return ("list", items)
        while self.pos < stop:
            key = self.value(stop, level + 1)
            if self.pos >= stop:
                raise CrashedError("a map with an odd number of items")
            items.append((key, self.value(stop, level + 1)))
        return ("map", items)

    def array(self, whole: int, count: int, stop: int, level: int) -> Term:
        """Read the elements of an array, from their constructor on."""
        check_level(level)
        self.take(1, stop)
        code = self.buf[self.pos - 1]
        if code == 0:
            descriptor = self.value(stop, level)
            inner = self.array(whole, count, stop, level + 1)
            if inner[0] == "as_is":
                raise CrashedError("an array of described elements without bytes")
            kind = ("described", descriptor, inner[1])
            return ("array", kind, [("described", descriptor, item) for item in inner[2]])
        if 0x40 <= code <= 0x45:
            if self.opaque_zero_width and self.pos == stop:
                width = FORMAT_CODES[whole].width
                size = (width + 1).to_bytes(width, "big")
                return ("as_is", whole, size + count.to_bytes(width, "big") + bytes([code]))
            if count or self.pos != stop or code not in self.arrays:
                raise CrashedError("an array whose elements have no bytes")
        if count > stop - self.pos:
            raise CrashedError("an array of fewer elements than it says")
        items = [self.primitive(code, stop, level) for _ in range(count)]
        if self.pos != stop:
            raise CrashedError("bytes behind the elements of an array")
        if code not in self.arrays:
            raise CrashedError(f"an array of the constructor {code:#04x}")
        return ("array", self.arrays[code], items)


CODEC_3 = Codec(_ARRAYS_3, wide_boolean=True)
CODEC_40 = Codec(_ARRAYS_4)
CODEC_43 = Codec(_ARRAYS_4, opaque_zero_width=True, writes_unread=True)
