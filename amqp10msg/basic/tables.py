"""Field tables of AMQP 0-9-1 (4.2.5.5) as values: `FieldTable`, `FieldArray`, `ScaledDecimal`.

A field keeps its type letter. A table keeps the order of its fields, and several fields with the
same name. Strings are str, with lone surrogates for invalid UTF-8 (PEP 383), so that they are
encoded as the same bytes.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import ItemsView, Iterable, Iterator, Mapping, Sequence, ValuesView
from typing import Any, Literal, Self, TypeAlias

import attrs

from amqp10msg.wire.errors import EncodeError, expect
from amqp10msg.wire.primitives import Float, Timestamp, identical

#: The dialects give some type letters different meanings. In ``rabbitmq``, s is int16, U int16, l
#: and L int64, x bytes. In ``spec``, the text of 0-9-1, s is a short string, U int16, l uint64, L
#: int64; x does not exist. In ``qpid``, s is int16, l int64, x bytes, c and C strings, k one byte;
#: U and L do not exist.
Dialect: TypeAlias = Literal["rabbitmq", "spec", "qpid"]
#: One field of a table: name, letter, value.
Entry: TypeAlias = tuple[str, str, Any]

#: The letters of signed integers, with the number of bits without the sign; smallest first.
_SIGNED_INTEGER_LETTERS = (("b", 7), ("s", 15), ("I", 31), ("l", 63))


@attrs.frozen
class ScaledDecimal:
    """A decimal field (letter ``D``): `unscaled` divided by ten to the power of `scale`.

    The prose of 0-9-1 defines the number as signed, and its grammar as unsigned. Clients write it
    as signed, and RabbitMQ reads it as unsigned. `unscaled` is the signed value of the four bytes.

    Attributes:
        scale: number of digits after the point, 0 to 255.
        unscaled: -2^31 to 2^31 - 1.
    """

    scale: int
    unscaled: int

    @classmethod
    def from_decimal(cls, number: decimal.Decimal) -> ScaledDecimal:
        """Convert a Decimal exactly.

        Raises:
            EncodeError: the number has too many digits or an exponent out of range, or is a NaN or
                an infinity.
        """
        expect(number, decimal.Decimal, "ScaledDecimal.from_decimal", "a Decimal")
        sign, digits, exponent = number.as_tuple()
        if isinstance(exponent, int) and len(digits) < 400 and -700 < exponent < 400:
            unscaled = int("".join(map(str, digits)) or "0")
            if exponent > 0:
                unscaled, exponent = unscaled * 10**exponent, 0
            while exponent < -255 and unscaled % 10 == 0:
                unscaled, exponent = unscaled // 10, exponent + 1
            unscaled = -unscaled if sign else unscaled
            if exponent >= -255 and -(2**31) <= unscaled < 2**31:
                return cls(-exponent, unscaled)
        raise EncodeError(
            f"{number} does not fit a decimal field (31 bits, 0 to 255 digits after the point): "
            "use a string"
        )

    def to_decimal(self) -> decimal.Decimal:
        """Return the number as a Decimal with `scale` digits after the point."""
        digits = tuple(map(int, str(abs(self.unscaled))))
        return decimal.Decimal((int(self.unscaled < 0), digits, -self.scale))


class OddTrue(int):
    """A boolean field (letter ``t``) whose byte is neither 0 nor 1. It equals True.

    Attributes:
        octet: the byte, 2 to 255.
    """

    octet: int

    def __new__(cls, octet: int) -> Self:
        """Create the value; ValueError unless `octet` is 2 to 255."""
        if not 2 <= octet <= 255:
            raise ValueError(f"an OddTrue has a byte of 2 to 255, not {octet}: use a bool")
        self = int.__new__(cls, 1)
        self.octet = octet
        return self

    def __repr__(self) -> str:
        return f"OddTrue({self.octet})"

    def __reduce__(self) -> tuple[object, ...]:
        return (OddTrue, (self.octet,))


def letter_of(value: Any) -> str:
    """Return the type letter for a plain Python value.

    bool: t; int: the first of b, s, I, l with its range; float: d; `Float`: f; str: S; bytes: x;
    decimal.Decimal: D; aware datetime: T; mapping: F; list: A; None: V.

    Raises:
        EncodeError: 0-9-1 has no field type for the value.
    """
    if value is None:
        return "V"
    if isinstance(value, (bool, OddTrue)):
        return "t"
    if isinstance(value, int):
        for letter, bits in _SIGNED_INTEGER_LETTERS:
            if -(1 << bits) <= value < 1 << bits:
                return letter
        raise EncodeError(f"{value} does not fit 64 bits: use a string or a decimal")
    for cls, letter in _LETTER_BY_TYPE:
        if isinstance(value, cls):
            return letter
    raise EncodeError(f"0-9-1 has no field type for {type(value).__name__}: {value!r:.60}")


class FieldArray(Sequence[Any]):
    """A field array (letter ``A``): a sequence of values of any field types.

    Two arrays are equal if they have the same letters, and values with the same bits. A list equals
    the array that is created from it.

    Attributes:
        entries: the list of (letter, value) tuples.
    """

    __slots__ = ("entries",)
    entries: list[tuple[str, Any]]

    def __init__(self, values: Iterable[Any] = ()) -> None:
        """Create an array from values, with the letters that `letter_of` returns."""
        if isinstance(values, FieldArray):
            self.entries = list(values.entries)
            return
        self.entries = []
        for index, value in enumerate(values):
            try:
                self.entries.append((letter_of(value), value))
            except EncodeError as error:
                error.path = f"[{index}]"
                raise

    @classmethod
    def of(cls, entries: Iterable[tuple[str, Any]]) -> FieldArray:
        """Create an array of (letter, value) tuples."""
        self = cls()
        self.entries = list(entries)
        return self

    def __len__(self) -> int:
        return len(self.entries)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [value for _, value in self.entries[index]]
        return self.entries[index][1]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, list):
            try:
                other = FieldArray(other)
            except EncodeError:
                return False
        if not isinstance(other, FieldArray):
            return NotImplemented
        return _are_equal_compounds(self, other)

    __hash__ = None  # type: ignore[assignment]  # mutable, like list

    def __repr__(self) -> str:
        return _repr_of(self)


class FieldTable(Mapping[str, Any]):
    """A field table (0-9-1, 4.2.5.5): ordered fields with their type letters.

        FieldTable({"retries": 3, "tenant": "x"})          # letters of `letter_of`
        FieldTable.of([("retries", "I", 3)])                # explicit letters

    As a mapping, a table contains the first field with each name; `entries` contains all fields.
    Two tables are equal if they have the same names and letters in the same order, and values with
    the same bits. A dict equals the table that is created from it.

    Attributes:
        entries: the list of (name, letter, value) tuples.
    """

    __slots__ = ("entries",)
    entries: list[Entry]

    def __init__(self, fields: Mapping[str, Any] | Iterable[tuple[str, Any]] = ()) -> None:
        """Create a table from a mapping, with the letters that `letter_of` returns."""
        if isinstance(fields, FieldTable):
            self.entries = list(fields.entries)
            return
        pairs = fields.items() if isinstance(fields, Mapping) else fields
        self.entries = []
        for name, value in pairs:
            try:
                self.entries.append((name, letter_of(value), value))
            except EncodeError as error:
                error.path = f"[{name!r:.60}]"
                raise

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> FieldTable:
        """Create a table of (name, letter, value) tuples."""
        self = cls()
        self.entries = list(entries)
        return self

    def __getitem__(self, name: str) -> Any:
        for field_name, _, value in self.entries:
            if field_name == name:
                return value
        raise KeyError(name)

    def letter(self, name: str) -> str:
        """Return the letter of the first field with this name.

        Raises:
            KeyError: there is no field with this name.
        """
        for field_name, letter, _ in self.entries:
            if field_name == name:
                return letter
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(name for name, _, _ in self.entries))

    def __len__(self) -> int:
        return len({name for name, _, _ in self.entries})

    # The inherited `items` and `values` search the list of fields for each name: that takes
    # quadratic time for a hostile table with many fields.

    def items(self) -> ItemsView[str, Any]:
        """Return a view of each name with the value of its first field."""
        first: dict[str, Any] = {}
        for name, _, value in self.entries:
            first.setdefault(name, value)
        return first.items()

    def values(self) -> ValuesView[Any]:
        """Return a view of the value of the first field with each name."""
        return dict(self.items()).values()

    def __bool__(self) -> bool:
        return bool(self.entries)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, dict):
            try:
                other = FieldTable(other)
            except EncodeError:
                return False
        if not isinstance(other, FieldTable):
            return NotImplemented
        return _are_equal_compounds(self, other)

    __hash__ = None  # type: ignore[assignment]  # its values may be mutable

    def __repr__(self) -> str:
        return _repr_of(self)


def as_table(value: Any, path: str = "headers") -> FieldTable:
    """Convert a mapping or None to a FieldTable; return a FieldTable unchanged.

    `path` is the path of the table, for errors.
    """
    if isinstance(value, FieldTable):
        return value
    try:
        return FieldTable(() if value is None else value)
    except EncodeError as error:
        error.path = f"{path}{error.path}"
        raise


def seconds_of(time: Any) -> Any:
    """Convert a datetime to seconds since the Unix epoch; return any other value unchanged.

    Raises:
        EncodeError: the datetime has no time zone.
    """
    if not isinstance(time, datetime.datetime):
        return time
    try:
        return int(Timestamp.from_datetime(time)) // 1000
    except ValueError as error:
        raise EncodeError(str(error)) from None


def as_array(value: Any) -> FieldArray:
    """Convert an iterable to a FieldArray; return a FieldArray unchanged."""
    return value if isinstance(value, FieldArray) else FieldArray(value)


def _have_same_bits(a: Any, b: Any) -> bool:
    """Return whether two values with the same letter have the same bits."""
    if isinstance(a, float) and isinstance(b, float):
        return identical(a, b)
    if isinstance(a, OddTrue) or isinstance(b, OddTrue):
        return type(a) is type(b) and a.octet == b.octet
    return bool(a == b)


# The functions below are not recursive: tables may be nested deeper than Python's recursion limit.


def _are_equal_compounds(first: Any, second: Any) -> bool:
    """Return whether two tables or arrays have the same letters and bits."""
    try:
        return _have_same_entries(first, second)
    except (EncodeError, ValueError):  # a value in a table cannot be encoded
        return False


def _have_same_entries(first: Any, second: Any) -> bool:
    """Return whether two tables or arrays have the same entries, also in nested ones."""
    pairs = [(first, second)]
    compared: set[tuple[int, int]] = set()  # ids of compared pairs: a table may contain itself
    while pairs:
        a, b = pairs.pop()
        if not any(isinstance(a, cls) and isinstance(b, cls) for cls in (FieldTable, FieldArray)):
            if not _have_same_bits(a, b):
                return False
            continue
        if (id(a), id(b)) in compared:
            continue
        compared.add((id(a), id(b)))
        if len(a.entries) != len(b.entries):
            return False
        for entry, entry_of_b in zip(a.entries, b.entries, strict=True):
            *front, value = entry
            *front_of_b, value_of_b = entry_of_b
            if front != front_of_b:
                return False
            pairs.append((as_decoded(front[-1], value), as_decoded(front[-1], value_of_b)))
    return True


def as_decoded(letter: str, value: Any) -> Any:
    """Convert a value to the type that decoding returns for its letter."""
    if letter == "A" and isinstance(value, (list, tuple)):
        return FieldArray(value)
    if letter == "F" and isinstance(value, Mapping) and not isinstance(value, FieldTable):
        return FieldTable(value)
    if letter == "D" and isinstance(value, decimal.Decimal):
        return ScaledDecimal.from_decimal(value)
    if letter == "T":
        return seconds_of(value)
    if letter == "x" and isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    if letter == "S" and isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    return value


def _repr_of(value: Any) -> str:
    """Return the repr of a table or an array, with dots for a table that contains itself."""
    pieces: list[str] = []
    ancestors: set[int] = set()
    # A stack of parts to write. Each part is a text, a value, or the end of a value.
    stack: list[tuple[str, Any]] = [("value", value)]
    while stack:
        kind, item = stack.pop()
        if kind == "text":
            pieces.append(item)
        elif kind == "end":
            ancestors.discard(id(item))
            pieces.append("])")
        elif not isinstance(item, (FieldTable, FieldArray)):
            pieces.append(repr(item))
        elif id(item) in ancestors:
            pieces.append(f"{type(item).__name__}.of([...])")
        else:
            ancestors.add(id(item))
            pieces.append(f"{type(item).__name__}.of([")
            stack.append(("end", item))
            for index in range(len(item.entries) - 1, -1, -1):
                *front, last = item.entries[index]
                text = "".join(f"{part!r}, " for part in front)
                stack += [
                    ("text", ")"),
                    ("value", last),
                    ("text", f"{', ' if index else ''}({text}"),
                ]
    return "".join(pieces)


# Python types and their letters, in the order in which `letter_of` tests them after bool and int.
_LETTER_BY_TYPE: tuple[tuple[type, str], ...] = (
    (str, "S"),
    (bytes, "x"),
    (bytearray, "x"),
    (memoryview, "x"),
    (Float, "f"),
    (float, "d"),
    (decimal.Decimal, "D"),
    (ScaledDecimal, "D"),
    (datetime.datetime, "T"),
    (FieldTable, "F"),
    (Mapping, "F"),
    (FieldArray, "A"),
    (list, "A"),
    (tuple, "A"),
)
