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


def check_level(level: int) -> None:
    """Raise RecursionError for a value within more others than a message can have."""
    if level > MOST_LEVELS:
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

#: By constructor: the type of its values, and the width of the value or of its size.
CODES = {
    row.code: ({"string": "utf8"}.get(row.type, row.type), row.width)
    for row in FORMAT_CODES.values()
}
_CONSTANTS: list[Term] = [None, True, False, ("uint", 0), ("ulong", 0)]  # from 0x40 on
_UNSIGNED = {"ubyte", "ushort", "uint", "ulong", "char"}
_SIGNED = {"byte", "short", "int", "long", "timestamp"}
_TEXTS = {"utf8", "symbol", "binary"}
_COMPOUNDS = {"list", "map", "array"}
# The constructors of elements of arrays that versions read.
_ARRAYS_3 = bytes.fromhex("a3b3a1b150516061707180814056f0")
_ARRAYS_4 = _ARRAYS_3 + bytes.fromhex("a0b07273828398d0d1")


@attrs.frozen
class Codec:
    """How a version of RabbitMQ reads 1.0 values.

    Attributes:
        arrays: the element constructors that it knows.
        opaque_zero_width: arrays of elements without bytes are carried unread; else refused.
        wide_boolean: 0x56 gives ("boolean", value), which is not true or false there.
        writes_unread: what it carries unread it can write again.
    """

    arrays: bytes
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
        self.arrays = codec.arrays
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
        kind, width = CODES.get(code, ("", 0))
        if kind in _TEXTS:
            size = self.octets(width, end)
            return (kind, self.octets(size[0] if width == 1 else int.from_bytes(size, "big"), end))
        if kind in _COMPOUNDS:
            return self.compound(code, end, level)
        if 0x40 <= code <= 0x44:
            return _CONSTANTS[code - 0x40]
        if not kind:
            raise CrashedError(f"unknown constructor {code:#04x}")
        octets = self.octets(width, end)
        if kind in _UNSIGNED or kind in _SIGNED:
            return (kind, int.from_bytes(octets, "big", signed=kind in _SIGNED))
        if kind == "boolean":
            if octets[0] > 1:
                raise CrashedError(f"a boolean of {octets[0]:#04x}")
            flag = octets == b"\1"
            return ("boolean", flag) if self.wide_boolean else flag
        # Erlang has no NaN and no infinities: they are carried as they came, like decimals.
        if kind.startswith("decimal") or (
            kind != "uuid"
            and octets[0] & 0x7F == 0x7F
            and octets[1] >= (0x80 if width == 4 else 0xF0)
        ):
            return (self.unread, code, octets)
        return (kind, octets)

    def octets(self, size: int, end: int) -> bytes:
        """Read so many bytes."""
        start = self.pos
        if size > end - start:
            raise CrashedError("the bytes end within a value")
        self.pos = start + size
        return self.buf[start : self.pos]

    def compound(self, code: int, end: int, level: int) -> Term:
        """Read a list, a map or an array."""
        check_level(level)
        kind, width = CODES[code]
        if width == 0:
            # A message may have as many of them as it has bytes. Nobody changes what is in values;
            # the lists of sections, further out, become longer.
            return _NO_ITEMS if level > 1 else ("list", [])
        size = int.from_bytes(self.octets(width, end), "big")
        stop = self.pos + size
        if stop > end:
            raise CrashedError("the bytes end within a value")
        count = int.from_bytes(self.octets(width, stop), "big")
        if kind == "array":
            return self.array(code, count, stop, level + 1)
        items: list[Any] = []
        while self.pos < stop:
            items.append(self.value(stop, level + 1))
        if kind == "list":
            return ("list", items)
        if len(items) % 2:
            raise CrashedError("a map with an odd number of items")
        return ("map", list(zip(items[::2], items[1::2], strict=True)))

    def array(self, whole: int, count: int, stop: int, level: int) -> Term:
        """Read the elements of an array, from their constructor on."""
        check_level(level)
        code = self.octets(1, stop)[0]
        if code == 0:
            descriptor = self.value(stop, level)
            inner = self.array(whole, count, stop, level + 1)
            if inner[0] == "as_is":
                raise CrashedError("an array of described elements without bytes")
            kind = ("described", descriptor, inner[1])
            return ("array", kind, [("described", descriptor, item) for item in inner[2]])
        if 0x40 <= code <= 0x45:
            if self.opaque_zero_width and self.pos == stop:
                width = CODES[whole][1]
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
        return ("array", CODES[code][0], items)


CODEC_3 = Codec(_ARRAYS_3, wide_boolean=True)
CODEC_40 = Codec(_ARRAYS_4)
CODEC_43 = Codec(_ARRAYS_4, opaque_zero_width=True, writes_unread=True)


# Writing.

# By type: the widest constructor; of numbers a short one with its bounds, and that of zero.
_CONSTRUCTORS = {CODES[code][0]: code for code in sorted(_ARRAYS_4)}
_SHORT = {
    "uint": (0x52, 0, 255),
    "ulong": (0x53, 0, 255),
    "int": (0x54, -128, 127),
    "long": (0x55, -128, 127),
}
_ZERO = {"uint": 0x43, "ulong": 0x44}


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


def generate(term: Term, level: int = 0, is_old: bool = False) -> bytes:
    """Write a term as RabbitMQ 4 does, or 3.10, whose short forms end one byte earlier.

    Args:
        term: what is written.
        level: of nesting.
        is_old: as RabbitMQ 3.10 does.

    Raises:
        CrashedError: the broker's generator has no clause for it.
        RecursionError: it nests deeper than any message.
    """
    if term is None:
        return b"\x40"
    if term is True or term is False:
        return b"\x41" if term else b"\x42"
    kind = term[0]
    if kind in _TEXTS:
        return _octets(kind, bytes(term[1]), is_old)
    if kind in _UNSIGNED or kind in _SIGNED:
        return _number(kind, term[1])
    if kind in _FLOAT_FORMS:
        return bytes([_CONSTRUCTORS[kind]]) + bytes(term[1])
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
        return _sized(kind, len(elements), _constructor(term[1], level) + b"".join(elements))
    if kind not in ("list", "map"):
        raise CrashedError(f"the generator has no clause for {kind}")
    items = _items(term)
    if kind == "list" and not items:
        return b"\x45"
    # One after the other: to join many parts takes 80 bytes for each, and a frame for each level.
    content = bytearray()
    for item in items:
        content += generate(item, level, is_old)
    return _sized(kind, len(items), bytes(content), is_old)


def _items(term: Term) -> list[Any]:
    """Return the items of a list, or the keys and values of a map."""
    return term[1] if term[0] == "list" else [one for pair in term[1] for one in pair]


def _octets(kind: str, octets: bytes, is_old: bool) -> bytes:
    """Write a text or bytes."""
    code, size = _CONSTRUCTORS[kind], len(octets)
    if is_old and kind == "symbol":  # its size is cut to one byte: longer ones come out damaged
        return bytes([code - 0x10, size % 256]) + octets
    if size < (255 if is_old else 256):
        return bytes([code - 0x10, size]) + octets
    return bytes([code]) + size.to_bytes(4, "big") + octets


def _number(kind: str, value: int) -> bytes:
    """Write a whole number, wrapped where it does not fit."""
    if value == 0 and kind in _ZERO:
        return bytes([_ZERO[kind]])
    short = _SHORT.get(kind)
    if short is not None and short[1] <= value <= short[2]:
        return bytes([short[0], value & 0xFF])
    return bytes([_CONSTRUCTORS[kind]]) + _wrapped(kind, value)


def _wrapped(kind: str, value: int) -> bytes:
    """Return the low bytes, as Erlang's bit syntax does."""
    width = CODES[_CONSTRUCTORS[kind]][1]
    return (value & ((1 << 8 * width) - 1)).to_bytes(width, "big")


def _sized(kind: str, count: int, content: bytes, is_old: bool = False) -> bytes:
    """Put the head of a compound before its content; each item has a byte at least."""
    code, size = _CONSTRUCTORS[kind], len(content)
    if size < 255 and count < (255 if is_old else 256):
        return bytes([code - 0x10, size + 1, count]) + content
    return bytes([code]) + _wide(count, content)


def _wide(count: int, content: bytes) -> bytes:
    """Put size and count, four bytes each, before the content of a compound."""
    return (len(content) + 4).to_bytes(4, "big") + count.to_bytes(4, "big") + content


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
    if kind in _UNSIGNED or kind in _SIGNED:
        return _wrapped(kind, item[1])
    if kind in _TEXTS:
        return len(item[1]).to_bytes(4, "big") + bytes(item[1])
    if kind in ("float", "double", "uuid"):
        if item[0] in ("unread", "as_is"):
            raise CrashedError("an array with NaN or an infinity")
        return bytes(item[-1])
    if kind in ("list", "map"):
        items = _items(item)
        check_level(level)
        return _wide(len(items), b"".join([generate(one, level + 1) for one in items]))
    if item[0] == "as_is":
        raise CrashedError("an array of arrays whose elements have no bytes")
    check_level(level)
    elements = [_element(item[1], one, level + 1) for one in item[2]]
    content = _constructor(item[1], level + 1) + b"".join(elements)
    return _wide(len(item[2]), content)


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
