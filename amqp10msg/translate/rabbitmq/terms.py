"""1.0 values as RabbitMQ's codec holds, reads, writes and checks them.

A term is None, True, False, or a tuple that begins with the type: ("uint", 5), ("utf8", bytes),
("list", items), ("map", pairs), ("array", type, items), ("described", descriptor, value) and
("as_is", code, bytes) for what the broker carries without reading it; ("unread", code, bytes)
where it cannot write that again. Text is bytes: the broker does not look whether it is text.
"""

from __future__ import annotations

import struct
from typing import Any

import attrs

from amqp10msg.sections import BODY_KINDS, KINDS
from amqp10msg.wire.errors import DecodeError
from amqp10msg.wire.kernel import skip_value
from amqp10msg.wire.kernel.codes import DATA, FOOTER
from amqp10msg.wire.primitives import FORMAT_CODES

Term = Any

#: Null as the value of a map that is a section: the broker reads it as no value at all.
UNDEFINED = ("undefined",)


class BrokerError(Exception):
    """A broker does not deliver a message.

    Attributes:
        reason: what happens, in words.
        path: the place in the message, as far as it is known.
    """

    def __init__(self, reason: str, path: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.path = path


class RefusedError(BrokerError):
    """The broker takes no such message: publishing it fails, or the publisher is cut off."""


class CrashedError(BrokerError):
    """A process of the broker dies on the message: a session, or a consumer's connection."""


#: More levels of nesting than any message has that this library reads: beyond, C would fail where
#: Python raises.
MOST_LEVELS = 300
_MOST_LEVELS = MOST_LEVELS


def check_level(level: int) -> None:
    """Raise RecursionError for a value within more others than a message can have."""
    if level > _MOST_LEVELS:
        raise RecursionError(f"values are nested in more than {MOST_LEVELS} others")


_SECTIONS: dict[Any, str] = {kind.code: kind.name for kind in KINDS}
_SYMBOLS: dict[Any, str] = {kind.symbol.encode(): kind.name for kind in KINDS}


#: The descriptors of the body sections.
BODY_CODES = {kind.name: kind.code for kind in BODY_KINDS}
_FLOAT_FORMS = {"float": struct.Struct(">f"), "double": struct.Struct(">d")}


def kind_of(term: Term) -> str:
    """Return the type of a term, "" of null, true and false."""
    return term[0] if isinstance(term, tuple) else ""


def untyped(value: Term) -> Any:
    """Return the number or bytes of a value without its type; None of values with none."""
    if not isinstance(value, tuple) or len(value) != 2:
        return None
    if value[0] in _FLOAT_FORMS:
        return _FLOAT_FORMS[value[0]].unpack(value[1])[0]
    return value[1]


def section_name(descriptor: Term) -> str | None:
    """Return the name of the section that a descriptor stands for."""
    if isinstance(descriptor, tuple) and descriptor[0] == "ulong":
        return _SECTIONS.get(descriptor[1])
    if isinstance(descriptor, tuple) and descriptor[0] == "symbol":
        return _SYMBOLS.get(descriptor[1])
    return None


# Reading.

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
        """Read one value that ends at `end` at the latest, withat a level of nesting."""
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
        """Read what stands after a constructor."""
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
            raise CrashedError("bytes after the elements of an array")
        if code not in self.arrays:
            raise CrashedError(f"an array of the constructor {code:#04x}")
        return ("array", self.arrays[code], items)


CODEC_3 = Codec(_ARRAYS_3, wide_boolean=True)
CODEC_40 = Codec(_ARRAYS_4)
CODEC_43 = Codec(_ARRAYS_4, opaque_zero_width=True, writes_unread=True)


# Writing.

# By type: the constructor and the bytes of a number, and its short form with its bounds.
_NUMBERS = {
    "ubyte": (0x50, 1),
    "ushort": (0x60, 2),
    "uint": (0x70, 4),
    "ulong": (0x80, 8),
    "byte": (0x51, 1),
    "short": (0x61, 2),
    "int": (0x71, 4),
    "long": (0x81, 8),
    "char": (0x73, 4),
    "timestamp": (0x83, 8),
}
_SHORT = {
    "uint": (0x52, 0, 255),
    "ulong": (0x53, 0, 255),
    "int": (0x54, -128, 127),
    "long": (0x55, -128, 127),
}
_REALS = {"double": b"\x82", "float": b"\x72"}
_ZERO = {"uint": 0x43, "ulong": 0x44}
_SHORT_CODES = {"utf8": 0xA1, "symbol": 0xA3, "binary": 0xA0}
_CONSTRUCTORS = {
    **{name: code for name, (code, _) in _NUMBERS.items()},
    "symbol": 0xB3,
    "utf8": 0xB1,
    "binary": 0xB0,
    "float": 0x72,
    "double": 0x82,
    "uuid": 0x98,
    "null": 0x40,
    "boolean": 0x56,
    "array": 0xF0,
    "list": 0xD0,
    "map": 0xD1,
}


def rewritten(sections: bytes) -> bytes | None:
    """Return encoded body sections as RabbitMQ 4.0 writes them again, in a stream for example.

    None where it cannot: it reads no arrays of constructors without bytes, of compact ones and of
    some types, and cannot write what it carries unread: decimals, NaN and infinities. It takes
    described values for sections.
    """
    written = []
    try:
        terms = CODEC_40.parse_all(sections)
        for term in terms:
            name = section_name(term[1]) if kind_of(term) == "described" else None
            if name in BODY_CODES:
                written.append(section(BODY_CODES[name], term[2]))
            else:
                written.append(generate(term))
    except CrashedError:
        return None
    pending: list[Any] = [term[2] for term in terms]
    while pending:
        term = pending.pop()
        if isinstance(term, tuple):
            if term[0] == "described":
                return None
            pending += term  # all of it, since the key of a map's entry comes first
        elif isinstance(term, list):
            pending += term
    return b"".join(written)


def section(code: int, content: Term) -> bytes:
    """Write a section."""
    return b"\x00\x53" + bytes([code]) + generate(content)


def generate(term: Term, level: int = 0) -> bytes:
    """Write a term as RabbitMQ 4 does, at a level of nesting.

    Raises:
        CrashedError: the broker's generator has no clause for it.
        RecursionError: it nests deeper than any message.
    """
    if term is None:
        return b"\x40"
    if term is True or term is False:
        return b"\x41" if term else b"\x42"
    kind = term[0]
    if kind in _SHORT_CODES:
        return _octets(_SHORT_CODES[kind], term[1])
    if kind in _NUMBERS:
        return _number(kind, term[1])
    if kind in _REALS:
        return _REALS[kind] + bytes(term[1])
    if kind == "boolean":
        return b"\x56\x01" if term[1] else b"\x56\x00"
    if kind == "uuid":
        if len(term[1]) < 16:
            raise CrashedError("a uuid of fewer than 16 bytes")
        return b"\x98" + bytes(term[1][:16])
    if kind == "as_is":
        return bytes([term[1]]) + bytes(term[2])
    check_level(level)
    level += 1
    if kind == "described":
        return b"\x00" + generate(term[1], level) + generate(term[2], level)
    if kind == "array":
        elements = [_element(term[1], item, level) for item in term[2]]
        return _sized(0xE0, len(elements), _constructor(term[1], level) + b"".join(elements))
    if kind not in ("list", "map"):
        raise CrashedError(f"the generator has no clause for {kind}")
    items = term[1] if kind == "list" else [one for pair in term[1] for one in pair]
    if kind == "list" and not items:
        return b"\x45"
    # One after the other: to join many parts takes 80 bytes for each, and a frame for each level.
    content = bytearray()
    for item in items:
        content += generate(item, level)
    return _sized(0xC0 if kind == "list" else 0xC1, len(items), bytes(content))


def _octets(code: int, octets: bytes) -> bytes:
    """Write a text or bytes."""
    size = len(octets)
    if size < 256:
        return bytes([code, size]) + octets
    return bytes([code + 0x10]) + size.to_bytes(4, "big") + octets


def _number(kind: str, value: int) -> bytes:
    """Write a whole number, wrapped where it does not fit."""
    if value == 0 and kind in _ZERO:
        return bytes([_ZERO[kind]])
    short = _SHORT.get(kind)
    if short is not None and short[1] <= value <= short[2]:
        return bytes([short[0], value & 0xFF])
    code, width = _NUMBERS[kind]
    return bytes([code]) + _wrapped(value, width)


def _wrapped(value: int, width: int) -> bytes:
    """Return the low bytes, as Erlang's bit syntax does."""
    return (value & ((1 << 8 * width) - 1)).to_bytes(width, "big")


def _sized(code: int, count: int, content: bytes) -> bytes:
    """Put the head of a compound before its content; each item has a byte at least."""
    size = len(content)
    if size < 255 and count < 256:
        return bytes([code, size + 1, count]) + content
    return bytes([code + 0x10]) + (size + 4).to_bytes(4, "big") + count.to_bytes(4, "big") + content


def _constructor(kind: Term, level: int) -> bytes:
    if isinstance(kind, tuple):
        check_level(level)
        return b"\x00" + generate(kind[1]) + _constructor(kind[2], level + 1)
    return bytes([_CONSTRUCTORS[kind]])


def _element(kind: Term, item: Term, level: int) -> bytes:
    if isinstance(kind, tuple):
        check_level(level)
        return _element(kind[2], item[2], level + 1)
    if kind == "boolean":
        return b"\x01" if item in (True, ("boolean", True)) else b"\x00"
    if kind == "null":
        return b""
    if kind in _NUMBERS:
        return _wrapped(item[1], _NUMBERS[kind][1])
    if kind in ("utf8", "symbol", "binary"):
        return len(item[1]).to_bytes(4, "big") + bytes(item[1])
    if kind in ("float", "double", "uuid"):
        if item[0] in ("unread", "as_is"):
            raise CrashedError("an array with NaN or an infinity")
        return bytes(item[-1])
    if kind in ("list", "map"):
        items = item[1] if kind == "list" else [one for pair in item[1] for one in pair]
        check_level(level)
        content = b"".join([generate(one, level + 1) for one in items])
        return (len(content) + 4).to_bytes(4, "big") + len(items).to_bytes(4, "big") + content
    if item[0] == "as_is":
        raise CrashedError("an array of arrays whose elements have no bytes")
    check_level(level)
    elements = [_element(item[1], one, level + 1) for one in item[2]]
    content = _constructor(item[1], level + 1) + b"".join(elements)
    return (len(content) + 4).to_bytes(4, "big") + len(item[2]).to_bytes(4, "big") + content


# Checking a message when it comes in, without reading its values.

_SHAPES = {
    "header": b"\x45\xc0\xd0",
    "delivery-annotations": b"\xc1\xd1",
    "message-annotations": b"\xc1\xd1",
    "properties": b"\x45\xc0\xd0",
    "application-properties": b"\xc1\xd1",
    "data": b"\xa0\xb0",
    "amqp-sequence": b"\x45\xc0\xd0",
    "amqp-value": b"",
    "footer": b"\xc1\xd1",
}


_DESCRIPTORS = (b"\x00\x53", b"\x00\x80", b"\x00\xa3", b"\x00\xb3")
_RANKS = {name: rank for rank, name in enumerate(_SHAPES)}


def check(data: bytes) -> None:
    """Raise for sections of another order, number or shape.

    Raises:
        RefusedError: the link is closed.
    """
    last = -1
    pos = 0
    count = 0
    while pos < len(data):
        count += 1
        if count > 10_000:
            raise RefusedError("refused: more than 10,000 sections")
        if not data.startswith(_DESCRIPTORS, pos):
            raise RefusedError("refused: no section of a message")
        reader = TermReader(CODEC_43, data, pos + 1)
        name = section_name(reader.term())
        pos = reader.pos
        if name is None:
            raise RefusedError("refused: an unexpected section")
        rank = _RANKS[name]
        again = name in ("data", "amqp-sequence") and rank == last
        # After one kind of body only the footer may follow, and that only after a body.
        if (
            (rank <= last and not again)
            or (last >= DATA and rank < FOOTER and not again)
            or (name == "footer" and last < DATA)
        ):
            raise RefusedError("refused: an unexpected section", name)
        last = rank
        shape = _SHAPES[name]
        if pos >= len(data) or (shape and data[pos] not in shape):
            raise RefusedError(f"refused: {name} of the wrong type", name)
        try:
            pos = skip_value(data, pos)
        except DecodeError as error:
            raise RefusedError(f"refused: {name} cannot be read: {error.reason}", name) from None
