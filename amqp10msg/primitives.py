"""The types of AMQP 1.0 Part 1 as Python types.

A value whose Python type carries the AMQP type needs no wrapper: None, bool, bytes, str, uuid.UUID,
list, dict, a plain int (long) and a plain float (double). The classes here stand for the others.
They subclass the Python type that they behave like, so ``UInt(5) == 5``.

The lower-case names at the end annotate the fields of composites: there the declaration gives the
type, and plain ints, strings and datetimes go in.
"""

from __future__ import annotations

import datetime as _datetime
import decimal as _decimal
import math
import struct
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Self

import attrs

from amqp10msg.errors import wrong_type

__all__ = [
    "FORMAT_CODES",
    "AmqpMap",
    "Array",
    "Byte",
    "Char",
    "Decimal32",
    "Decimal64",
    "Decimal128",
    "Described",
    "Float",
    "FormatCode",
    "Int",
    "Short",
    "Symbol",
    "Timestamp",
    "UByte",
    "UInt",
    "ULong",
    "UShort",
    "Wire",
    "identical",
    "plain",
]


@attrs.frozen
class FormatCode:
    """One constructor of Part 1, 1.6: the byte, the type, the encoding's name and its width.

    Attributes:
        code: the byte, 0x40 to 0xF0.
        type: the AMQP type it constructs.
        encoding: the encoding's name in the specification, empty where the type has only one.
        category: ``fixed``, ``variable``, ``compound`` or ``array``.
        width: bytes of a fixed-width value; for the others, bytes of the size (and count).
    """

    code: int
    type: str
    encoding: str
    category: str
    width: int


FORMAT_CODES: dict[int, FormatCode] = {
    row[0]: FormatCode(*row)
    for row in (
        (0x40, "null", "", "fixed", 0),
        (0x56, "boolean", "", "fixed", 1),
        (0x41, "boolean", "true", "fixed", 0),
        (0x42, "boolean", "false", "fixed", 0),
        (0x50, "ubyte", "", "fixed", 1),
        (0x60, "ushort", "", "fixed", 2),
        (0x70, "uint", "", "fixed", 4),
        (0x52, "uint", "smalluint", "fixed", 1),
        (0x43, "uint", "uint0", "fixed", 0),
        (0x80, "ulong", "", "fixed", 8),
        (0x53, "ulong", "smallulong", "fixed", 1),
        (0x44, "ulong", "ulong0", "fixed", 0),
        (0x51, "byte", "", "fixed", 1),
        (0x61, "short", "", "fixed", 2),
        (0x71, "int", "", "fixed", 4),
        (0x54, "int", "smallint", "fixed", 1),
        (0x81, "long", "", "fixed", 8),
        (0x55, "long", "smalllong", "fixed", 1),
        (0x72, "float", "ieee-754", "fixed", 4),
        (0x82, "double", "ieee-754", "fixed", 8),
        (0x74, "decimal32", "ieee-754", "fixed", 4),
        (0x84, "decimal64", "ieee-754", "fixed", 8),
        (0x94, "decimal128", "ieee-754", "fixed", 16),
        (0x73, "char", "utf32", "fixed", 4),
        (0x83, "timestamp", "ms64", "fixed", 8),
        (0x98, "uuid", "", "fixed", 16),
        (0xA0, "binary", "vbin8", "variable", 1),
        (0xB0, "binary", "vbin32", "variable", 4),
        (0xA1, "string", "str8-utf8", "variable", 1),
        (0xB1, "string", "str32-utf8", "variable", 4),
        (0xA3, "symbol", "sym8", "variable", 1),
        (0xB3, "symbol", "sym32", "variable", 4),
        (0x45, "list", "list0", "fixed", 0),
        (0xC0, "list", "list8", "compound", 1),
        (0xD0, "list", "list32", "compound", 4),
        (0xC1, "map", "map8", "compound", 1),
        (0xD1, "map", "map32", "compound", 4),
        (0xE0, "array", "array8", "array", 1),
        (0xF0, "array", "array32", "array", 4),
    )
}


class _Integer(int):
    """An integer that knows its AMQP type and refuses what is out of its range."""

    __slots__ = ()
    min: ClassVar[int]
    max: ClassVar[int]

    # In __init__ and not in __new__, which the decoder calls with what is in range already.
    def __init__(self, value: Any = 0, /) -> None:
        if not hasattr(value, "__index__"):  # which int() takes, and cuts off or parses
            name = type(self).__name__
            raise wrong_type(
                name, "an int", value, f"if it is a number, {name}(int({value!r:.40}))"
            )
        if not self.min <= self <= self.max:
            raise ValueError(
                f"{type(self).__name__} holds {self.min} to {self.max}, not {int(self)}"
            )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({int(self)})"

    def __str__(self) -> str:
        return int.__repr__(self)


class UByte(_Integer):
    """An AMQP ubyte, 0 to 255."""

    __slots__ = ()
    min, max = 0, 2**8 - 1


class UShort(_Integer):
    """An AMQP ushort, 0 to 65,535."""

    __slots__ = ()
    min, max = 0, 2**16 - 1


class UInt(_Integer):
    """An AMQP uint, 0 to 2^32 - 1."""

    __slots__ = ()
    min, max = 0, 2**32 - 1


class ULong(_Integer):
    """An AMQP ulong, 0 to 2^64 - 1."""

    __slots__ = ()
    min, max = 0, 2**64 - 1


class Byte(_Integer):
    """An AMQP byte, -128 to 127."""

    __slots__ = ()
    min, max = -(2**7), 2**7 - 1


class Short(_Integer):
    """An AMQP short, -32,768 to 32,767."""

    __slots__ = ()
    min, max = -(2**15), 2**15 - 1


class Int(_Integer):
    """An AMQP int, -2^31 to 2^31 - 1. A plain Python int is an AMQP long."""

    __slots__ = ()
    min, max = -(2**31), 2**31 - 1


_EPOCH = _datetime.datetime(1970, 1, 1, tzinfo=_datetime.UTC)
_MILLISECOND = _datetime.timedelta(milliseconds=1)


class Timestamp(_Integer):
    """An AMQP timestamp: milliseconds since the Unix epoch, the whole range of int64."""

    __slots__ = ()
    min, max = -(2**63), 2**63 - 1

    @classmethod
    def from_datetime(cls, moment: _datetime.datetime) -> Self:
        """Take an aware datetime; what is finer than a millisecond is cut off towards the past.

        Raises:
            ValueError: the datetime has no time zone.
        """
        if moment.tzinfo is None:
            raise ValueError("a datetime needs a time zone, such as datetime.UTC")
        return cls((moment - _EPOCH) // _MILLISECOND)

    def to_datetime(self) -> _datetime.datetime:
        """Return the moment as an aware datetime in UTC.

        Raises:
            ValueError: the moment is outside the years 1 to 9999 that datetime can hold.
        """
        try:
            return _EPOCH + _datetime.timedelta(milliseconds=int(self))
        except OverflowError:
            raise ValueError(
                f"{int(self)} ms is outside the years 1 to 9999 that datetime can hold: "
                "use the number of milliseconds itself"
            ) from None


_FLOAT = struct.Struct(">f")
_UINT = struct.Struct(">I")


class Float(float):
    """An AMQP float (32-bit); a plain Python float is an AMQP double (64-bit).

    Holds the nearest 32-bit value of what it is made from. NaN payloads are kept by `from_bits`.

    Raises:
        OverflowError: the number is too large for 32 bits.
    """

    __slots__ = ("_bits",)
    _bits: int

    def __new__(cls, value: Any = 0.0) -> Self:
        """Take a number and round it to 32 bits; OverflowError if it is too large."""
        if isinstance(value, Float):
            return cls.from_bits(value.bits)
        number = float(value)
        if math.isnan(number):
            return float.__new__(cls, number)
        return float.__new__(cls, _FLOAT.unpack(_FLOAT.pack(number))[0])

    @classmethod
    def from_bits(cls, bits: int) -> Self:
        """Make the float of these 32 bits (IEEE 754 binary32), 0 to 2^32 - 1."""
        self = float.__new__(cls, _FLOAT.unpack(_UINT.pack(bits))[0])
        if math.isnan(self):
            # The way through a 64-bit float makes signalling NaNs quiet.
            self._bits = bits
        return self

    @property
    def bits(self) -> int:
        """The 32 bits of IEEE 754 binary32."""
        if not math.isnan(self):
            return int(_UINT.unpack(_FLOAT.pack(self))[0])
        try:
            return self._bits
        except AttributeError:
            return int(_UINT.unpack(_FLOAT.pack(self))[0])

    def __repr__(self) -> str:
        return f"Float({float.__repr__(self)})"

    def __str__(self) -> str:
        return float.__repr__(self)

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self).from_bits, (self.bits,))


class _Decimal:
    """IEEE 754-2008 decimal, binary integer significand; identity is the bits."""

    __slots__ = ("bits",)
    bits: int
    width: ClassVar[int]  # octets
    precision: ClassVar[int]  # digits
    bias: ClassVar[int]
    _coefficient_bits: ClassVar[int]  # of the form without the implied 100

    def __init__(self, bits: int) -> None:
        if not isinstance(bits, int):
            raise TypeError(
                f"{type(self).__name__} takes its bits as an int; "
                f"for a number use {type(self).__name__}.from_decimal()"
            )
        if not 0 <= bits < 1 << (8 * self.width):
            raise ValueError(f"{type(self).__name__} holds {8 * self.width} bits, not {bits:#x}")
        self.bits = bits

    @classmethod
    def from_decimal(cls, number: _decimal.Decimal | int | str) -> Self:
        """Encode exactly this number, its exponent kept where the format can express it.

        Raises:
            ValueError: it needs more digits or a larger exponent than the format has.
        """
        if not isinstance(number, _decimal.Decimal):
            number = _decimal.Decimal(number)
        sign, digits, power = number.as_tuple()
        top = 8 * cls.width - 1
        bits = sign << top
        if power == "F":
            return cls(bits | 0b11110 << (top - 5))
        coefficient = int("".join(map(str, digits)) or "0")
        if isinstance(power, str):
            if coefficient >= 10 ** (cls.precision - 1):
                raise ValueError(f"{number} has a payload too long for {cls.__name__}")
            return cls(bits | (0b111111 if power == "N" else 0b111110) << (top - 6) | coefficient)
        exponent = power
        limit = 10**cls.precision
        e_min = -cls.bias
        e_max = (3 << (top - 2 - cls._coefficient_bits)) - 1 - cls.bias
        while exponent > e_max and coefficient and coefficient * 10 < limit:
            coefficient, exponent = coefficient * 10, exponent - 1
        while (exponent < e_min or coefficient >= limit) and coefficient and coefficient % 10 == 0:
            coefficient, exponent = coefficient // 10, exponent + 1
        if coefficient == 0:
            exponent = min(max(exponent, e_min), e_max)
        if coefficient >= limit or not e_min <= exponent <= e_max:
            raise ValueError(f"{number} does not fit {cls.__name__} exactly")
        biased = exponent + cls.bias
        if coefficient >> cls._coefficient_bits:
            short = cls._coefficient_bits - 2
            return cls(bits | 0b11 << (top - 2) | biased << short | coefficient & (1 << short) - 1)
        return cls(bits | biased << cls._coefficient_bits | coefficient)

    def to_decimal(self) -> _decimal.Decimal:
        """Return exactly this number, with its exponent; non-canonical coefficients are zero."""
        top = 8 * self.width - 1
        bits = self.bits
        sign = bits >> top
        if bits >> (top - 4) & 0b1111 == 0b1111:
            if not bits >> (top - 5) & 1:
                return _decimal.Decimal("-Infinity" if sign else "Infinity")
            payload = bits & (1 << (self._coefficient_bits - 3)) - 1
            if payload >= 10 ** (self.precision - 1):
                payload = 0
            kind = "sNaN" if bits >> (top - 6) & 1 else "NaN"
            return _decimal.Decimal(f"{'-' * sign}{kind}{payload or ''}")
        if bits >> (top - 2) & 0b11 == 0b11:
            short = self._coefficient_bits - 2
            biased = bits >> short & (1 << (top - self._coefficient_bits)) - 1
            coefficient = 0b100 << short | bits & (1 << short) - 1
        else:
            biased = bits >> self._coefficient_bits & (1 << (top - self._coefficient_bits)) - 1
            coefficient = bits & (1 << self._coefficient_bits) - 1
        if coefficient >= 10**self.precision:
            coefficient = 0
        return _decimal.Decimal((sign, tuple(map(int, str(coefficient))), biased - self.bias))

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self.bits == other.bits

    def __hash__(self) -> int:
        return hash((type(self).__name__, self.bits.to_bytes(self.width, "big")))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.bits:#0{2 * self.width + 2}x})"

    def __str__(self) -> str:
        return str(self.to_decimal())

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.bits,))


class Decimal32(_Decimal):
    """An AMQP decimal32: 7 digits, exponents -101 to 90; `bits` holds its 32 bits."""

    __slots__ = ()
    width, precision, bias, _coefficient_bits = 4, 7, 101, 23


class Decimal64(_Decimal):
    """An AMQP decimal64: 16 digits, exponents -398 to 369; `bits` holds its 64 bits."""

    __slots__ = ()
    width, precision, bias, _coefficient_bits = 8, 16, 398, 53


class Decimal128(_Decimal):
    """An AMQP decimal128: 34 digits, exponents -6176 to 6111; `bits` holds its 128 bits."""

    __slots__ = ()
    width, precision, bias, _coefficient_bits = 16, 34, 6176, 113


class Char(str):
    """An AMQP char: one Unicode code point that is not a surrogate."""

    __slots__ = ()

    def __new__(cls, value: str) -> Self:
        """Take one code point; ValueError for more, none or a surrogate, TypeError for no str."""
        if not isinstance(value, str):
            raise wrong_type("Char", "a str", value)
        self = str.__new__(cls, value)
        if len(self) != 1 or "\ud800" <= self <= "\udfff":
            raise ValueError(f"a char must be one Unicode scalar value, not {value!r}")
        return self

    def __repr__(self) -> str:
        return f"Char({str.__repr__(self)})"


class Symbol(str):
    """An AMQP symbol: a name from a constrained domain, in ASCII. Equal to the str of its text."""

    __slots__ = ()

    def __new__(cls, value: str = "") -> Self:
        """Take ASCII text; ValueError for any other, TypeError for what is no str."""
        if not isinstance(value, str):
            raise wrong_type("Symbol", "a str", value)
        self = str.__new__(cls, value)
        if not self.isascii():
            raise ValueError(f"a symbol must be ASCII, not {value!r}")
        return self

    def __repr__(self) -> str:
        return f"Symbol({str.__repr__(self)})"


@attrs.define(eq=True, unsafe_hash=False, repr=False)
class Described:
    """A value with a descriptor, as it came: what the library has no class for, or need not have.

    Attributes:
        descriptor: usually a ULong or a Symbol; Part 1 permits any value.
        value: the underlying value.
    """

    descriptor: Any
    value: Any

    def __repr__(self) -> str:
        return _text_of(self)


_ARRAY_TYPES = frozenset(row.type for row in FORMAT_CODES.values())


@attrs.define(init=False, eq=False, repr=False)
class Array(Sequence[Any]):
    """An AMQP array: values of one type behind one constructor.

    ``Array("int", [1, 2])`` takes the smallest constructor of one byte or more that fits all
    values when it is encoded; ``Array(0x71, [1, 2])`` keeps that very constructor, and so does an
    array that was read. Plain Python values are taken as the array's type.

    Attributes:
        type: the AMQP type of the elements.
        code: the format code of the constructor, or None to take the smallest.
        descriptors: descriptors in front of the format code, outermost first; the elements of
            such an array are described values, and `values` holds what is described.
        values: the elements, a list.
    """

    type: str
    code: int | None
    descriptors: tuple[Any, ...]
    values: list[Any]

    def __init__(
        self,
        constructor: str | int,
        values: Iterable[Any] = (),
        *,
        descriptors: Iterable[Any] = (),
    ) -> None:
        if isinstance(constructor, int):
            row = FORMAT_CODES.get(constructor)
            if row is None:
                raise ValueError(f"{constructor:#04x} is not a format code of Part 1")
            self.type, self.code = row.type, constructor
        elif constructor in _ARRAY_TYPES:
            self.type, self.code = constructor, None
        else:
            raise ValueError(
                f"{constructor!r} is not an AMQP type: use one of {sorted(_ARRAY_TYPES)}"
            )
        self.descriptors = tuple(descriptors)
        self.values = list(values)

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, index: Any) -> Any:
        return self.values[index]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Array):
            return NotImplemented
        return (self.type, self.descriptors, self.values) == (
            other.type,
            other.descriptors,
            other.values,
        )

    __hash__ = None  # type: ignore[assignment]  # mutable, like list

    def __repr__(self) -> str:
        return _text_of(self)


class AmqpMap(Mapping[Any, Any]):
    """An AMQP map as ordered pairs, for keys that a dict cannot hold side by side.

    Keys that Python calls equal but AMQP does not (uint 1 and long 1, symbol "a" and string "a"),
    and keys that Python cannot hash (lists, maps, arrays, described values) stand in `pairs` in
    the order of the wire. Looking a key up compares its AMQP type too: see `identical`. It does
    not change; make a new one from other pairs.
    """

    __slots__ = ("_index", "pairs")
    pairs: tuple[tuple[Any, Any], ...]
    _index: dict[Any, list[tuple[Any, Any]]] | None

    def __init__(self, pairs: Iterable[tuple[Any, Any]] | Mapping[Any, Any] = ()) -> None:
        if isinstance(pairs, AmqpMap):
            pairs = pairs.pairs
        elif isinstance(pairs, Mapping):
            pairs = pairs.items()
        self.pairs = tuple((key, value) for key, value in pairs)
        self._index = None

    def __getitem__(self, key: Any) -> Any:
        if self._index is None:
            self._index = {}
            for pair in self.pairs:
                self._index.setdefault(_bucket(pair[0]), []).append(pair)
        for candidate, value in self._index.get(_bucket(key), ()):
            if identical(candidate, key):
                return value
        raise KeyError(key)

    def __iter__(self) -> Iterator[Any]:
        return (key for key, _ in self.pairs)

    def __len__(self) -> int:
        return len(self.pairs)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AmqpMap):
            return NotImplemented
        return identical(self, other)

    __hash__ = None  # type: ignore[assignment]  # its values may be mutable, like those of dict

    def __repr__(self) -> str:
        return _text_of(self)

    def __reduce__(self) -> tuple[object, ...]:
        return (AmqpMap, (self.pairs,))


def _text_of(value: Any) -> str:
    """Return the repr of a value without calling itself, so that values may nest however deep."""
    text: list[str] = []
    within: set[int] = set()  # those around a value, of which none may be in itself
    pending: list[tuple[Any, bool]] = [(value, True)]
    while pending:
        item, is_value = pending.pop()
        if not is_value:
            if isinstance(item, int):
                within.discard(item)
            else:
                text.append(item)
            continue
        parts = _texts_within(item)
        if parts is None:
            text.append(repr(item))
        elif id(item) in within:
            text.append("...")
        else:
            within.add(id(item))
            pending += [(id(item), False), *reversed(parts)]
    return "".join(text)


def _texts_within(value: Any) -> list[tuple[Any, bool]] | None:
    """Return what the repr of a value is made of: texts, and values with True; None of a scalar."""
    kind = type(value)
    if kind is list or kind is tuple:
        begin, end = "[]" if kind is list else ("(", ",)" if len(value) == 1 else ")")
        parts = _separated([[(one, True)] for one in value])
        return [(begin, False), *parts, (end, False)]
    if kind is dict:
        parts = _separated(
            [[(key, True), (": ", False), (one, True)] for key, one in value.items()]
        )
        return [("{", False), *parts, ("}", False)]
    if kind is AmqpMap:
        parts = _separated([[(pair, True)] for pair in value.pairs])
        return [("AmqpMap([", False), *parts, ("])", False)]
    if kind is Described:
        first, second = (value.descriptor, True), (value.value, True)
        return [("Described(descriptor=", False), first, (", value=", False), second, (")", False)]
    if kind is Array:
        constructor = repr(value.type) if value.code is None else f"{value.code:#04x}"
        found: list[tuple[Any, bool]] = [(f"Array({constructor}, ", False), (value.values, True)]
        if value.descriptors:
            found += [(", descriptors=", False), (value.descriptors, True)]
        return [*found, (")", False)]
    return None


def _separated(parts: list[list[tuple[Any, bool]]]) -> list[tuple[Any, bool]]:
    """Join parts by commas."""
    return [one for part in parts for one in [(", ", False), *part]][1:]


def _bucket(key: Any) -> Any:
    """Return what identical keys have in common, hashed with a secret (numbers are not)."""
    if isinstance(key, (int, float, uuid.UUID)):
        return repr(key)
    try:
        hash(key)
    except TypeError:
        return type(key)
    return (type(key), key)


_DOUBLE = struct.Struct(">d")


def identical(a: Any, b: Any) -> bool:
    """Return whether two values have the same AMQP type and the same value, bit for bit.

    Unlike ``==``, this tells uint 1 from long 1, 0.0 from -0.0, true from 1, and calls a NaN the
    same as a NaN with its bits. The order of a map's entries counts, as it does on the wire.
    """
    if type(a) is not type(b):
        return False
    if isinstance(a, Float):
        return a.bits == b.bits  # type: ignore[no-any-return]
    if isinstance(a, float):
        return _DOUBLE.pack(a) == _DOUBLE.pack(b)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(identical, a, b))
    if isinstance(a, (dict, AmqpMap)):
        return len(a) == len(b) and all(
            identical(k, other_k) and identical(v, other_v)
            for (k, v), (other_k, other_v) in zip(_pairs(a), _pairs(b), strict=True)
        )
    if isinstance(a, Array):
        return (
            a.type == b.type
            and identical(list(a.descriptors), list(b.descriptors))
            and identical(a.values, b.values)
        )
    if isinstance(a, Described):
        return identical(a.descriptor, b.descriptor) and identical(a.value, b.value)
    return bool(a == b)


def _pairs(mapping: Any) -> Iterable[tuple[Any, Any]]:
    return mapping.pairs if isinstance(mapping, AmqpMap) else mapping.items()


def plain(value: Any) -> Any:
    """Return a value without its wire type, as the nearest natural Python value.

    Integers become int, a float or double float, a char, string or symbol str, a decimal
    decimal.Decimal, a timestamp an aware datetime (or an int of milliseconds outside the years
    that datetime can hold), arrays and lists list, maps dict where dict can hold them, and of a
    described value what is described.
    """
    if isinstance(value, Timestamp):
        try:
            return value.to_datetime()
        except ValueError:
            return int(value)
    if isinstance(value, _Integer):
        return int(value)
    if isinstance(value, Float):
        return float(value)
    if isinstance(value, str):
        return str(value)
    if isinstance(value, _Decimal):
        return value.to_decimal()
    if isinstance(value, (list, Array)):
        return [plain(item) for item in value]
    if isinstance(value, Described):
        return plain(value.value)
    if isinstance(value, (dict, AmqpMap)):
        pairs = [(plain(key), plain(item)) for key, item in _pairs(value)]
        try:
            made = dict(pairs)
        except TypeError:
            return pairs
        return made if len(made) == len(pairs) else pairs
    return value


@attrs.frozen
class Wire:
    """What a composite's field is on the wire; stands in the metadata of an Annotated alias.

    Attributes:
        type: the AMQP type, or ``*`` for any.
        name: the name in the specification where it is a restricted type, such as milliseconds.
        multiple: null, one value or an array of values (Part 1, 1.4).
        requires: the archetype that the value must provide, such as address.
        enum: the choices of a restricted type.
        size: bytes that a restricted type has at most, or None for no bound of its own.
    """

    type: str
    name: str = ""
    multiple: bool = False
    requires: str = ""
    enum: Any = None
    size: int | None = None


boolean = Annotated[bool, Wire("boolean")]
ubyte = Annotated[int, Wire("ubyte")]
ushort = Annotated[int, Wire("ushort")]
uint = Annotated[int, Wire("uint")]
ulong = Annotated[int, Wire("ulong")]
milliseconds = Annotated[int, Wire("uint", "milliseconds")]
seconds = Annotated[int, Wire("uint", "seconds")]
sequence_no = Annotated[int, Wire("uint", "sequence-no")]
timestamp = Annotated[int, Wire("timestamp")]
string = Annotated[str, Wire("string")]
symbol = Annotated[str, Wire("symbol")]
symbols = Annotated[tuple[str, ...], Wire("symbol", multiple=True)]
binary = Annotated[bytes, Wire("binary")]
fields = Annotated[dict[str, Any], Wire("map", "fields")]
