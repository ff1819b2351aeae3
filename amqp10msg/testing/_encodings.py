"""Every legal encoding of a value, section or message.

This encoder is independent of the kernel's encoder: it implements Part 1, 1.6 again, and draws a
choice wherever the specification allows several encodings. The first option of each choice is the
encoding that the library writes, so that hypothesis shrinks towards it.
"""

from __future__ import annotations

import datetime
import decimal
import struct
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Any, TypeVar

import attrs
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from amqp10msg.composite import Field, composite_of
from amqp10msg.message import Message
from amqp10msg.notation.type_names import TYPE_NAME_BY_CLASS, bits_of
from amqp10msg.sections import KINDS, AmqpSequence, AmqpValue, Data
from amqp10msg.wire.errors import EncodeError
from amqp10msg.wire.kernel import decode_value, encode_value
from amqp10msg.wire.primitives import (
    FORMAT_CODES,
    AmqpMap,
    Array,
    Described,
    Symbol,
    Timestamp,
    ULong,
)

T = TypeVar("T")

_CLASSES_BY_TYPE = {name: cls for cls, name in TYPE_NAME_BY_CLASS.items() if cls is not AmqpMap}
_INTEGER_CODES = {
    # {type: (code of the full-width form, its width in bytes, whether it is signed,
    # code of the one-byte form or 0, code of the form for zero or 0)}
    "ubyte": (0x50, 1, False, 0, 0),
    "ushort": (0x60, 2, False, 0, 0),
    "uint": (0x70, 4, False, 0x52, 0x43),
    "ulong": (0x80, 8, False, 0x53, 0x44),
    "byte": (0x51, 1, True, 0, 0),
    "short": (0x61, 2, True, 0, 0),
    "int": (0x71, 4, True, 0x54, 0),
    "long": (0x81, 8, True, 0x55, 0),
    "timestamp": (0x83, 8, True, 0, 0),
}
_VARIABLE_CODES = {"binary": 0xA0, "string": 0xA1, "symbol": 0xA3}
_COMPOUND_CODES = {"list": 0xC0, "map": 0xC1, "array": 0xE0}
_SECTIONS_BY_CLASS = {kind.cls: kind for kind in KINDS}


def forms_of(value: Any) -> list[tuple[int, bytes]]:
    """Return every encoding of a simple value, the smallest first: (format code, its payload)."""
    name = TYPE_NAME_BY_CLASS[type(value)]
    if name == "null":
        return [(0x40, b"")]
    if name == "boolean":
        return [(0x41 if value else 0x42, b""), (0x56, bytes([value]))]
    if name in _INTEGER_CODES:
        wide, size, signed, small, zero = _INTEGER_CODES[name]
        forms = [(wide, int(value).to_bytes(size, "big", signed=signed))]
        if small and (-128 if signed else 0) <= value <= (127 if signed else 255):
            forms.insert(0, (small, int(value).to_bytes(1, "big", signed=signed)))
        if zero and value == 0:
            forms.insert(0, (zero, b""))
        return forms
    if name in _VARIABLE_CODES:
        octets = value if isinstance(value, bytes) else value.encode("utf-8")
        long = (_VARIABLE_CODES[name] + 0x10, len(octets).to_bytes(4, "big") + octets)
        if len(octets) > 255:
            return [long]
        return [(_VARIABLE_CODES[name], bytes([len(octets)]) + octets), long]
    fixed = {"double": 0x82, "char": 0x73, "uuid": 0x98}
    fixed |= {"float": 0x72, "decimal32": 0x74, "decimal64": 0x84, "decimal128": 0x94}
    content = ord(value).to_bytes(4, "big") if name == "char" else bits_of(value)
    return [(fixed[name], content)]


def _sized(code: int, count: int, content: bytes) -> list[tuple[int, bytes]]:
    """Return every encoding of a list, map or array, the smallest first: (format code, payload).

    `content` is the encoded items, `count` their number, and `code` the format code of the form
    with one-byte size and count.
    """
    forms = [(code + 0x10, struct.pack(">II", len(content) + 4, count) + content)]
    if len(content) < 255 and count < 256:
        forms.insert(0, (code, bytes([len(content) + 1, count]) + content))
    if code == 0xC0 and count == 0:
        forms.insert(0, (0x45, b""))
    return forms


def constructors_for(type_name: str, values: Iterable[Any]) -> list[int]:
    """Return the format codes that can be the constructor of an array of `values`.

    Example:
        >>> from amqp10msg import UInt
        >>> [hex(code) for code in constructors_for("uint", [UInt(5), UInt(200)])]
        ['0x52', '0x70']

    Args:
        type_name: the AMQP type of the values.
        values: the values, in the Python classes of the AMQP type.
    """
    fitting = {code for code, row in FORMAT_CODES.items() if row.type == type_name}
    for value in values:
        if type_name in _COMPOUND_CODES:
            first = encode_value(value)[0]
            allowed = {_COMPOUND_CODES[type_name] + 0x10}
            if not first & 0x10:
                allowed |= {_COMPOUND_CODES[type_name], first}
        else:
            allowed = {code for code, _ in forms_of(value)}
        fitting &= allowed
    return sorted(fitting)


_CHOICE_SEEDS = st.binary(min_size=16, max_size=16)


class DrawnEncoder:
    """Encodes values; hypothesis draws which of the possible encodings is used."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.seed = 0
        # Choices are taken from `seed`, a random number below `bound`. Each choice between n
        # options divides both by n.
        self.bound = 1

    def choose(self, options: Sequence[T]) -> T:
        """Let hypothesis choose from `options`."""
        count = len(options)
        if count == 1:
            return options[0]
        if self.bound < count << 16:
            # Draw a seed for many choices: a draw for each choice would be ten times slower.
            self.seed, self.bound = int.from_bytes(self.draw(_CHOICE_SEEDS), "big"), 1 << 128
        self.seed, index = divmod(self.seed, count)
        self.bound //= count
        return options[index]

    def value(self, value: Any) -> bytes:
        """Encode any value, composite or section."""
        if isinstance(value, Described):
            return b"\x00" + self.value(value.descriptor) + self.value(value.value)
        if type(value) in _SECTIONS_BY_CLASS or (
            attrs.has(type(value)) and not isinstance(value, Array)
        ):
            return self.section(value)
        code, octets = self.choose(self.forms(value))
        return bytes([code]) + octets

    def forms(self, value: Any) -> list[tuple[int, bytes]]:
        """Return the possible encodings of a value without descriptor: (format code, payload).

        The items of a list, map or array are encoded once: the returned encodings differ only in
        format code, size and count.
        """
        if isinstance(value, (list, tuple)):
            return _sized(0xC0, len(value), b"".join(map(self.value, value)))
        if isinstance(value, (dict, AmqpMap)):
            pairs = value.pairs if isinstance(value, AmqpMap) else value.items()
            content = b"".join(self.value(part) for pair in pairs for part in pair)
            return _sized(0xC1, 2 * len(value), content)
        if isinstance(value, Array):
            return self.array(value)
        if type(value) not in TYPE_NAME_BY_CLASS:
            # Have the kernel convert datetime, Decimal and subclasses to AMQP values.
            value = decode_value(encode_value(value))
        return forms_of(value)

    def array_value(self, array: Array) -> bytes:
        """Encode an array. If it has no constructor, choose one that fits its values."""
        code, octets = self.choose(self.array(array, any_constructor=True))
        return bytes([code]) + octets

    def array(self, array: Array, *, any_constructor: bool = False) -> list[tuple[int, bytes]]:
        """Return the possible encodings of an array: (format code, payload).

        An array without a constructor gets the one that `encode_value` would choose, because
        decoded arrays with different constructors are not equal. If `any_constructor` is true, any
        fitting constructor may be chosen.
        """
        values = [_as_amqp_type(array.type, value) for value in array.values]
        fitting = constructors_for(array.type, values)
        if array.code is not None and array.code not in fitting:
            raise EncodeError(f"not all of the array's values fit its constructor {array.code:#x}")
        if array.code is not None:
            code = array.code
        elif any_constructor:
            code = self.choose(fitting)
        else:
            code = decode_value(encode_value(array)).code
        head = b"".join(b"\x00" + self.value(descriptor) for descriptor in array.descriptors)
        content = head + bytes([code]) + b"".join(self.element(code, value) for value in values)
        return _sized(0xE0, len(values), content)

    def element(self, code: int, value: Any) -> bytes:
        """Encode one element of an array: the payload for the array's constructor `code`."""
        if FORMAT_CODES[code].category not in {"compound", "array"} and code != 0x45:
            return next(octets for form_code, octets in forms_of(value) if form_code == code)
        matching = [octets for form_code, octets in self.forms(value) if form_code == code]
        if not matching:
            # The drawn encodings of the items are too large for the constructor: use the smallest.
            matching = [
                octets for form_code, octets in CanonicalEncoder().forms(value) if form_code == code
            ]
        return matching[0]

    # Composites, sections, messages.

    def descriptor(self, code: int, symbol: str) -> bytes:
        """Encode a descriptor as a ulong of one or eight bytes, or as a symbol."""
        forms = forms_of(ULong(code)) + forms_of(Symbol(symbol))
        form, octets = self.choose(forms)
        return bytes([0, form]) + octets

    def section(self, section: Any) -> bytes:
        """Encode a section or composite with its descriptor."""
        kind = _SECTIONS_BY_CLASS.get(type(section))
        if kind is None or (kind.source == "list" and not isinstance(section, AmqpSequence)):
            entry = composite_of(type(section))
            return self.descriptor(entry.code, entry.symbol) + self.fields(entry.fields, section)
        head = self.descriptor(kind.code, kind.symbol)
        if isinstance(section, Data):
            return head + self.value(bytes(section.data))
        if isinstance(section, AmqpSequence):
            return head + self.value(section.values)
        if isinstance(section, AmqpValue):
            return head + self.value(section.value)
        keys = str if kind.name == "application-properties" else _annotation_key
        pairs = AmqpMap((keys(key), value) for key, value in section.items())
        return head + self.value(pairs)

    def fields(self, rows: Sequence[Field], value: Any) -> bytes:
        """Encode the list of a composite's fields, with or without trailing nulls."""
        encoded_fields = [self.field(row, getattr(value, row.name)) for row in rows]
        min_count = len(encoded_fields)
        while min_count and encoded_fields[min_count - 1] == b"\x40":
            min_count -= 1
        count = self.choose(range(min_count, len(encoded_fields) + 1))
        code, octets = self.choose(_sized(0xC0, count, b"".join(encoded_fields[:count])))
        return bytes([code]) + octets

    def field(self, row: Field, value: Any) -> bytes:
        """Encode one field of a composite.

        If the field is absent, choose null, the default value or, in a field with `multiple`, an
        empty array: they are equivalent.
        """
        if value is None or (value == row.default and not row.mandatory):
            absent = [b"\x40"]
            if row.multiple:
                kind = "symbol" if row.type == "*" else row.type
                absent.append(self.array_value(Array(kind)))
            elif value is not None:
                absent.append(self.value(_field_value(row, value)))
            return self.choose(absent)
        if not row.multiple:
            return self.value(_field_value(row, value))
        items = [_field_value(row, item) for item in value]
        together = self.array_value(Array(row.type, items))
        return self.choose([self.value(items[0]), together]) if len(items) == 1 else together

    def message(self, message: Message) -> bytes:
        """Encode every section of a message, in order."""
        return b"".join(self.section(section) for _, section in message.sections())


class CanonicalEncoder(DrawnEncoder):
    """Encodes values in the smallest form, without drawing."""

    def __init__(self) -> None:
        pass

    def choose(self, options: Sequence[T]) -> T:
        return options[0]


def _annotation_key(key: Any) -> Any:
    """Convert an annotation key to its AMQP type: symbol or ulong."""
    return Symbol(key) if isinstance(key, str) else ULong(key)


def _as_amqp_type(type_name: str, value: Any) -> Any:
    """Convert a plain Python value to an AMQP type, unless it already has this type."""
    if isinstance(value, Enum):
        value = value.value
    if TYPE_NAME_BY_CLASS.get(type(value)) == type_name or type_name in {
        "*",
        "list",
        "map",
        "array",
    }:
        return value
    if type_name == "timestamp" and isinstance(value, datetime.datetime):
        return Timestamp.from_datetime(value)
    cls: Any = _CLASSES_BY_TYPE[type_name]
    return cls.from_decimal(value) if isinstance(value, decimal.Decimal) else cls(value)


def _field_value(row: Field, value: Any) -> Any:
    """Convert the value of a composite's attribute to the AMQP type of the field."""
    if row.requires == "message-id":
        return ULong(value) if type(value) is int else value
    return _as_amqp_type(row.type, value)


def encodings(value: Any) -> SearchStrategy[bytes]:
    """Every legal encoding of a value, composite, section or message, the smallest first.

    The encodings differ in wide and small forms, booleans with and without a byte, descriptors
    (ulong of one or eight bytes, or symbol), list0, list8 and list32, default values (null or
    explicit) and trailing nulls. All encodings decode to an equal value or message.

    An `Array` with a constructor is encoded with it. An array without a constructor, inside a
    message or another value, gets the constructor that `encode_value` chooses. If `value` itself is
    an array without a constructor, every fitting constructor is used: the decoded arrays are equal
    to `value`, but each keeps its constructor when it is encoded again.

    Example:
        >>> from hypothesis import given
        >>> from amqp10msg import Header, Message
        >>> @given(encodings(Message("text", header=Header(ttl=5))))
        ... def test_a_peer_may_spell_it_any_way(encoded):
        ...     assert Message.decode(encoded).header.ttl == 5
        >>> test_a_peer_may_spell_it_any_way()

    Args:
        value: a value that `encode_value` accepts, or a `Message`.

    Raises:
        EncodeError: the value cannot be encoded.
    """
    if isinstance(value, Message):
        value.encode()
    else:
        encode_value(value)
    return _drawn_encoding(value)


@st.composite
def _drawn_encoding(draw: st.DrawFn, value: Any) -> bytes:
    speller = DrawnEncoder(draw)
    if isinstance(value, Message):
        return speller.message(value)
    return speller.array_value(value) if isinstance(value, Array) else speller.value(value)
