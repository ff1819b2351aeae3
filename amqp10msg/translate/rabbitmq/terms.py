"""RabbitMQ's AMQP 1.0 codec: its terms, reader, writer, and checks of incoming messages.

A term is the broker's representation of a value: None, True, False, or a tuple that begins with the
type: ("uint", 5), ("utf8", bytes), ("list", items), ("map", pairs), ("array", type, items),
("described", descriptor, value). ("as_is", code, bytes) is a value that the broker copies without
decoding, and ("unread", code, bytes) a value that it neither decodes nor can write again. Text is
bytes, because the broker does not check its encoding.
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

#: The broker's representation of a 1.0 value, which the module's description defines.
Term = Any

#: The term for a null value in a map section, which the broker decodes to Erlang's `undefined`.
UNDEFINED_TERM = ("undefined",)


class BrokerError(Exception):
    """Raised if a broker does not deliver a message.

    Attributes:
        reason: a description of the failure.
        path: the path in the message of the value that causes the failure; "" if unknown.
    """

    def __init__(self, reason: str, path: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.path = path


class RefusedError(BrokerError):
    """The broker rejects the message, or closes the publisher's link, session or connection."""


class CrashedError(BrokerError):
    """A process of the broker crashes on the message: a session, or a consumer's connection."""


#: Maximum depth of nesting, which is more than `Limits.depth` allows. Deeper recursion could
#: overflow the C stack instead of raising RecursionError.
MAX_NESTING_LEVELS = 300


def check_level(level: int) -> None:
    """Raise RecursionError if the depth of nesting `level` exceeds `MAX_NESTING_LEVELS`."""
    if level > MAX_NESTING_LEVELS:
        raise RecursionError(f"values are nested more than {MAX_NESTING_LEVELS} deep")


_SECTION_NAME_OF_CODE: dict[Any, str] = {kind.code: kind.name for kind in KINDS}
_SECTION_NAME_OF_SYMBOL: dict[Any, str] = {kind.symbol.encode(): kind.name for kind in KINDS}


#: The descriptor codes of the body sections, by the name of the section.
BODY_CODES = {kind.name: kind.code for kind in BODY_KINDS}
_FLOAT_STRUCTS = {"float": struct.Struct(">f"), "double": struct.Struct(">d")}


def kind_of(term: Term) -> str:
    """Return the type of a term; "" for null, true and false."""
    return term[0] if isinstance(term, tuple) else ""


def untyped(value: Term) -> Any:
    """Return the number or bytes that a term wraps; None for any other term."""
    if not isinstance(value, tuple) or len(value) != 2:
        return None
    if value[0] in _FLOAT_STRUCTS:
        return _FLOAT_STRUCTS[value[0]].unpack(value[1])[0]
    return value[1]


def section_name(descriptor: Term) -> str | None:
    """Return the name of the section with this descriptor; None if no section has it."""
    if isinstance(descriptor, tuple) and descriptor[0] == "ulong":
        return _SECTION_NAME_OF_CODE.get(descriptor[1])
    if isinstance(descriptor, tuple) and descriptor[0] == "symbol":
        return _SECTION_NAME_OF_SYMBOL.get(descriptor[1])
    return None


# Reading.

#: The type of each constructor, and a width in bytes, which is the width of the value if that is
#: fixed, otherwise the width of the size field.
TYPE_AND_WIDTH_BY_CODE = {
    row.code: ({"string": "utf8"}.get(row.type, row.type), row.width)
    for row in FORMAT_CODES.values()
}
_CONSTANT_TERMS: list[Term] = [
    None,
    True,
    False,
    ("uint", 0),
    ("ulong", 0),
]  # for the constructors 0x40 to 0x44
_UNSIGNED_TYPES = {"ubyte", "ushort", "uint", "ulong", "char"}
_SIGNED_TYPES = {"byte", "short", "int", "long", "timestamp"}
_SIZED_TYPES = {"utf8", "symbol", "binary"}
_COMPOUND_TYPES = {"list", "map", "array"}
# The element constructors of the arrays that RabbitMQ 3 and 4 decode.
_ARRAY_CONSTRUCTORS_3_10 = bytes.fromhex("a3b3a1b150516061707180814056f0")
_ARRAY_CONSTRUCTORS_4 = _ARRAY_CONSTRUCTORS_3_10 + bytes.fromhex("a0b07273828398d0d1")


@attrs.frozen
class Codec:
    """How a version of RabbitMQ decodes AMQP 1.0.

    Attributes:
        array_constructors: the element constructors of the arrays that RabbitMQ decodes.
        copies_zero_width: whether RabbitMQ copies arrays of zero-width elements without decoding
            them; if False, it crashes on them.
        keeps_wide_boolean: whether RabbitMQ decodes 0x56 to ("boolean", value), which it does not
            treat as true or false.
        writes_undecoded: whether RabbitMQ can write values that it did not decode.
    """

    array_constructors: bytes
    copies_zero_width: bool = False
    keeps_wide_boolean: bool = False
    writes_undecoded: bool = False

    def parse_all(self, data: bytes) -> list[Term]:
        """Decode a sequence of values.

        Raises:
            CrashedError: the broker cannot decode the bytes.
        """
        reader = TermReader(self, data, 0)
        terms = []
        while reader.pos < reader.end:
            terms.append(reader.term())
        return terms


_EMPTY_LIST: Term = ("list", [])


class TermReader:
    """Decodes terms from encoded values, one after the other."""

    def __init__(self, codec: Codec, data: bytes, pos: int) -> None:
        self.buf = data
        self.pos = pos
        self.end = len(data)
        self.array_constructors = codec.array_constructors
        self.copies_zero_width = codec.copies_zero_width
        self.keeps_wide_boolean = codec.keeps_wide_boolean
        self.unread = "as_is" if codec.writes_undecoded else "unread"

    def term(self) -> Term:
        """Decode the next value.

        Raises:
            CrashedError: the broker cannot decode the bytes.
            RecursionError: the value is nested more than `MAX_NESTING_LEVELS` deep.
        """
        return self.value(self.end, 0)

    def value(self, end: int, level: int) -> Term:
        """Decode the next value, which ends at or before `end`; `level` is its depth of nesting."""
        pos = self.pos
        if pos >= end:
            raise CrashedError("the bytes end before a value")
        self.pos = pos + 1
        code = self.buf[pos]
        if code == 0:
            check_level(level)
            descriptor = self.value(end, level + 1)
            return ("described", descriptor, self.value(end, level + 1))
        return self.primitive(code, end, level)

    def primitive(self, code: int, end: int, level: int) -> Term:
        """Decode a primitive value whose constructor `code` was read already."""
        kind, width = TYPE_AND_WIDTH_BY_CODE.get(code, ("", 0))
        if kind in _SIZED_TYPES:
            size = self.octets(width, end)
            return (kind, self.octets(size[0] if width == 1 else int.from_bytes(size, "big"), end))
        if kind in _COMPOUND_TYPES:
            return self.compound(code, end, level)
        if 0x40 <= code <= 0x44:
            return _CONSTANT_TERMS[code - 0x40]
        if not kind:
            raise CrashedError(f"unknown constructor {code:#04x}")
        octets = self.octets(width, end)
        if kind in _UNSIGNED_TYPES or kind in _SIGNED_TYPES:
            return (kind, int.from_bytes(octets, "big", signed=kind in _SIGNED_TYPES))
        if kind == "boolean":
            if octets[0] > 1:
                raise CrashedError(f"invalid boolean {octets[0]:#04x}")
            flag = octets == b"\1"
            return ("boolean", flag) if self.keeps_wide_boolean else flag
        # Erlang has no NaN and no infinities: the broker copies them undecoded, like decimals.
        if kind.startswith("decimal") or (
            kind != "uuid"
            and octets[0] & 0x7F == 0x7F
            and octets[1] >= (0x80 if width == 4 else 0xF0)
        ):
            return (self.unread, code, octets)
        return (kind, octets)

    def octets(self, size: int, end: int) -> bytes:
        """Read `size` bytes."""
        start = self.pos
        if size > end - start:
            raise CrashedError("the bytes end within a value")
        self.pos = start + size
        return self.buf[start : self.pos]

    def compound(self, code: int, end: int, level: int) -> Term:
        """Decode a list, map or array whose constructor `code` was read already."""
        check_level(level)
        kind, width = TYPE_AND_WIDTH_BY_CODE[code]
        if width == 0:
            # An empty list has one byte, so a message can contain millions of empty lists. To save
            # memory, all empty lists are one object, except at levels 0 and 1: those lists belong
            # to sections, which callers modify.
            return _EMPTY_LIST if level > 1 else ("list", [])
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

    def array(self, array_code: int, count: int, stop: int, level: int) -> Term:
        """Decode the rest of an array, after its constructor `array_code`, size and count."""
        check_level(level)
        code = self.octets(1, stop)[0]
        if code == 0:
            descriptor = self.value(stop, level)
            inner = self.array(array_code, count, stop, level + 1)
            if inner[0] == "as_is":
                raise CrashedError("an array of described elements that have no bytes")
            kind = ("described", descriptor, inner[1])
            return ("array", kind, [("described", descriptor, item) for item in inner[2]])
        if 0x40 <= code <= 0x45:
            if self.copies_zero_width and self.pos == stop:
                width = TYPE_AND_WIDTH_BY_CODE[array_code][1]
                size = (width + 1).to_bytes(width, "big")
                return ("as_is", array_code, size + count.to_bytes(width, "big") + bytes([code]))
            if count or self.pos != stop or code not in self.array_constructors:
                raise CrashedError("an array whose elements have no bytes")
        if count > stop - self.pos:
            raise CrashedError("an array with fewer elements than its count")
        items = [self.primitive(code, stop, level) for _ in range(count)]
        if self.pos != stop:
            raise CrashedError("bytes after the elements of an array")
        if code not in self.array_constructors:
            raise CrashedError(f"unsupported constructor {code:#04x} of an array's elements")
        return ("array", TYPE_AND_WIDTH_BY_CODE[code][0], items)


CODEC_3_10 = Codec(_ARRAY_CONSTRUCTORS_3_10, keeps_wide_boolean=True)
CODEC_4_0 = Codec(_ARRAY_CONSTRUCTORS_4)
CODEC_4_3 = Codec(_ARRAY_CONSTRUCTORS_4, copies_zero_width=True, writes_undecoded=True)


# Writing.

# By type: the widest constructor; for integers also the constructor of one-byte values, with the
# minimum and maximum, and the constructor of zero.
_WIDEST_CONSTRUCTORS = {
    TYPE_AND_WIDTH_BY_CODE[code][0]: code for code in sorted(_ARRAY_CONSTRUCTORS_4)
}
_ONE_BYTE_INTEGER_CONSTRUCTORS = {
    "uint": (0x52, 0, 255),
    "ulong": (0x53, 0, 255),
    "int": (0x54, -128, 127),
    "long": (0x55, -128, 127),
}
_ZERO_CONSTRUCTORS = {"uint": 0x43, "ulong": 0x44}


def reencode_body(sections: bytes) -> bytes | None:
    """Return body sections as RabbitMQ 4.0 encodes them after decoding, for example in a stream.

    Return None if RabbitMQ cannot: it does not decode arrays of some types or of zero-width or
    compact constructors, cannot write values that it did not decode (decimals, NaN and infinities),
    and treats described values as sections.
    """
    encoded = []
    try:
        terms = CODEC_4_0.parse_all(sections)
        for term in terms:
            name = section_name(term[1]) if kind_of(term) == "described" else None
            if name in BODY_CODES:
                encoded.append(section(BODY_CODES[name], term[2]))
            else:
                encoded.append(generate(term))
    except CrashedError:
        return None
    pending: list[Any] = [term[2] for term in terms]
    while pending:
        term = pending.pop()
        if isinstance(term, tuple):
            if term[0] == "described":
                return None
            pending += term  # also adds the name of the term's type, which the loop ignores
        elif isinstance(term, list):
            pending += term
    return b"".join(encoded)


def section(code: int, content: Term) -> bytes:
    """Encode a section with this descriptor code."""
    return b"\x00\x53" + bytes([code]) + generate(content)


def generate(term: Term, level: int = 0, is_old: bool = False) -> bytes:
    """Encode a term as RabbitMQ 4 or, with `is_old`, as RabbitMQ 3.10 does.

    RabbitMQ 3.10 uses the compact forms up to a size of 254 instead of 255 bytes.

    Args:
        term: the term.
        level: the term's depth of nesting.
        is_old: whether to encode as RabbitMQ 3.10 does.

    Raises:
        CrashedError: the broker's generator has no clause for the term.
        RecursionError: the term is nested more than `MAX_NESTING_LEVELS` deep.
    """
    if term is None:
        return b"\x40"
    if term is True or term is False:
        return b"\x41" if term else b"\x42"
    kind = term[0]
    if kind in _SIZED_TYPES:
        return _encode_octets(kind, bytes(term[1]), is_old)
    if kind in _UNSIGNED_TYPES or kind in _SIGNED_TYPES:
        return _encode_integer(kind, term[1])
    if kind in _FLOAT_STRUCTS:
        return bytes([_WIDEST_CONSTRUCTORS[kind]]) + bytes(term[1])
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
        elements = [_encode_element(term[1], item, level) for item in term[2]]
        return _encode_compound(
            kind, len(elements), _element_constructor(term[1], level) + b"".join(elements)
        )
    if kind not in ("list", "map"):
        raise CrashedError(f"the generator has no clause for {kind}")
    items = _items(term)
    if kind == "list" and not items:
        return b"\x45"
    # Appending needs less memory than joining, which uses 80 bytes per part.
    content = bytearray()
    for item in items:
        content += generate(item, level, is_old)
    return _encode_compound(kind, len(items), bytes(content), is_old)


def _items(term: Term) -> list[Any]:
    """Return the items of a list, or the keys and values of a map."""
    return term[1] if term[0] == "list" else [item for pair in term[1] for item in pair]


def _encode_octets(kind: str, octets: bytes, is_old: bool) -> bytes:
    """Encode a string, symbol or binary."""
    code, size = _WIDEST_CONSTRUCTORS[kind], len(octets)
    if is_old and kind == "symbol":
        # RabbitMQ 3.10 truncates the size to one byte, which corrupts longer symbols.
        return bytes([code - 0x10, size % 256]) + octets
    if size < (255 if is_old else 256):
        return bytes([code - 0x10, size]) + octets
    return bytes([code]) + size.to_bytes(4, "big") + octets


def _encode_integer(kind: str, value: int) -> bytes:
    """Encode an integer, modulo the width of its type."""
    if value == 0 and kind in _ZERO_CONSTRUCTORS:
        return bytes([_ZERO_CONSTRUCTORS[kind]])
    one_byte = _ONE_BYTE_INTEGER_CONSTRUCTORS.get(kind)
    if one_byte is not None and one_byte[1] <= value <= one_byte[2]:
        return bytes([one_byte[0], value & 0xFF])
    return bytes([_WIDEST_CONSTRUCTORS[kind]]) + _low_bytes(kind, value)


def _low_bytes(kind: str, value: int) -> bytes:
    """Return an integer's lowest bytes, as many as its type has, as Erlang's bit syntax does."""
    width = TYPE_AND_WIDTH_BY_CODE[_WIDEST_CONSTRUCTORS[kind]][1]
    return (value & ((1 << 8 * width) - 1)).to_bytes(width, "big")


def _encode_compound(kind: str, count: int, content: bytes, is_old: bool = False) -> bytes:
    """Return an encoded list, map or array, given its encoded items."""
    code, size = _WIDEST_CONSTRUCTORS[kind], len(content)
    if size < 255 and count < (255 if is_old else 256):
        return bytes([code - 0x10, size + 1, count]) + content
    return bytes([code]) + _wide_size_and_count(count, content)


def _wide_size_and_count(count: int, content: bytes) -> bytes:
    """Prefix encoded items with their size and count, four bytes each."""
    return (len(content) + 4).to_bytes(4, "big") + count.to_bytes(4, "big") + content


def _element_constructor(kind: Term, level: int) -> bytes:
    """Return the constructor for array elements of a type, which may be described."""
    if isinstance(kind, tuple):
        check_level(level)
        return b"\x00" + generate(kind[1]) + _element_constructor(kind[2], level + 1)
    return bytes([_WIDEST_CONSTRUCTORS[kind]])


def _encode_element(kind: Term, item: Term, level: int) -> bytes:
    """Encode an element of an array, without its constructor."""
    if isinstance(kind, tuple):
        check_level(level)
        return _encode_element(kind[2], item[2], level + 1)
    if kind == "boolean":
        return b"\x01" if item in (True, ("boolean", True)) else b"\x00"
    if kind == "null":
        return b""
    if kind in _UNSIGNED_TYPES or kind in _SIGNED_TYPES:
        return _low_bytes(kind, item[1])
    if kind in _SIZED_TYPES:
        return len(item[1]).to_bytes(4, "big") + bytes(item[1])
    if kind in ("float", "double", "uuid"):
        if item[0] in ("unread", "as_is"):
            raise CrashedError("an array with NaN or an infinity")
        return bytes(item[-1])
    if kind in ("list", "map"):
        items = _items(item)
        check_level(level)
        return _wide_size_and_count(
            len(items), b"".join([generate(nested, level + 1) for nested in items])
        )
    if item[0] == "as_is":
        raise CrashedError("an array of arrays whose elements have no bytes")
    check_level(level)
    elements = [_encode_element(item[1], nested, level + 1) for nested in item[2]]
    content = _element_constructor(item[1], level + 1) + b"".join(elements)
    return _wide_size_and_count(len(item[2]), content)


# Checking an incoming message without decoding its values.

# The constructors that each section may have (any for amqp-value), in the order of the sections.
_ALLOWED_CONSTRUCTORS_BY_SECTION = {
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


# The bytes that may precede the descriptor of a section.
_DESCRIPTOR_PREFIXES = (b"\x00\x53", b"\x00\x80", b"\x00\xa3", b"\x00\xb3")
_RANK_BY_SECTION = {name: rank for rank, name in enumerate(_ALLOWED_CONSTRUCTORS_BY_SECTION)}


def check_sections(data: bytes) -> None:
    """Check the order, number and types of the sections, as later versions of RabbitMQ 4 do.

    Raises:
        RefusedError: the broker closes the link.
    """
    last = -1
    pos = 0
    count = 0
    while pos < len(data):
        count += 1
        if count > 10_000:
            raise RefusedError("refused: more than 10,000 sections")
        if not data.startswith(_DESCRIPTOR_PREFIXES, pos):
            raise RefusedError("refused: a value is not a section of a message")
        reader = TermReader(CODEC_4_3, data, pos + 1)
        name = section_name(reader.term())
        pos = reader.pos
        if name is None:
            raise RefusedError("refused: an unexpected section")
        rank = _RANK_BY_SECTION[name]
        repeats = name in ("data", "amqp-sequence") and rank == last
        # A footer must follow a body, and no other section may follow a body.
        if (
            (rank <= last and not repeats)
            or (last >= DATA and rank < FOOTER and not repeats)
            or (name == "footer" and last < DATA)
        ):
            raise RefusedError("refused: an unexpected section", name)
        last = rank
        shape = _ALLOWED_CONSTRUCTORS_BY_SECTION[name]
        if pos >= len(data) or (shape and data[pos] not in shape):
            raise RefusedError(f"refused: {name} of the wrong type", name)
        try:
            pos = skip_value(data, pos)
        except DecodeError as error:
            raise RefusedError(f"refused: {name} cannot be read: {error.reason}", name) from None
