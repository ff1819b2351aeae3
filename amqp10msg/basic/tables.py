"""Field tables of AMQP 0-9-1 (4.2.5.5) as values: `FieldTable`, `FieldArray`, `ScaledDecimal`.

A field keeps its letter, a table the order of its fields and those that share a name. Text is str
in which bytes that are not valid UTF-8 stand as lone surrogates (PEP 383), so every byte string has
exactly one str and comes back as it was.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import ItemsView, Iterable, Iterator, Mapping, Sequence, ValuesView
from typing import Any, Literal, Self, TypeAlias

import attrs

from amqp10msg.wire.errors import EncodeError, expect
from amqp10msg.wire.primitives import Float, Timestamp, identical

#: How letters are read. ``rabbitmq``: s int16, U int16, l and L int64, x bytes. ``spec``, as the
#: text of 0-9-1 says: s short string, U int16, l uint64, L int64, no x. ``qpid``: s int16, l int64,
#: x bytes, c and C text, k one byte, no U and L.
Dialect: TypeAlias = Literal["rabbitmq", "spec", "qpid"]
#: One field of a table: name, letter, value.
Entry: TypeAlias = tuple[str, str, Any]

_INT_LETTERS = (("b", 7), ("s", 15), ("I", 31), ("l", 63))


@attrs.frozen
class ScaledDecimal:
    """A decimal field (letter ``D``): `unscaled` divided by ten to the power of `scale`.

    The prose of 0-9-1 calls the number signed and its grammar unsigned; clients write it signed,
    RabbitMQ reads it unsigned. `unscaled` is the signed reading of the same four bytes.

    Attributes:
        scale: digits after the point, 0 to 255.
        unscaled: -2^31 to 2^31 - 1.
    """

    scale: int
    unscaled: int

    @classmethod
    def from_decimal(cls, number: decimal.Decimal) -> ScaledDecimal:
        """Convert a number without rounding it.

        Raises:
            EncodeError: it does not fit: too many digits, an exponent out of range, or no number.
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
            f"{number} does not fit a decimal field, which has 31 bits and 0 to 255 digits after "
            "the point: use a string"
        )

    def to_decimal(self) -> decimal.Decimal:
        """Return the number with all digits after the point."""
        digits = tuple(map(int, str(abs(self.unscaled))))
        return decimal.Decimal((int(self.unscaled < 0), digits, -self.scale))


class OddTrue(int):
    """A boolean field (letter ``t``) whose byte is neither 0 nor 1; equal to True.

    Attributes:
        octet: the byte, 2 to 255, as it came.
    """

    octet: int

    def __new__(cls, octet: int) -> Self:
        """Make one of its byte."""
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
    """Choose the letter of a plain Python value.

    bool t, int the smallest of b s I l that holds it, float d, `Float` f, str S, bytes x,
    decimal.Decimal D, an aware datetime T, a mapping F, a list A, None V.

    Raises:
        EncodeError: no letter stands for such a value.
    """
    if value is None:
        return "V"
    if isinstance(value, (bool, OddTrue)):
        return "t"
    if isinstance(value, int):
        for letter, bits in _INT_LETTERS:
            if -(1 << bits) <= value < 1 << bits:
                return letter
        raise EncodeError(f"{value} does not fit 64 bits: use a string or a decimal")
    for cls, letter in _LETTERS:
        if isinstance(value, cls):
            return letter
    raise EncodeError(f"no field type can hold {type(value).__name__}: {value!r:.60}")


class FieldArray(Sequence[Any]):
    """A field array (letter ``A``): values of any types, in order.

    As a sequence it gives the values; `entries` has the letters with them. Two arrays are equal if
    they have the same values with the same letters and bits; a list counts as the array that is
    made of it.

    Attributes:
        entries: a list of (letter, value).
    """

    __slots__ = ("entries",)
    entries: list[tuple[str, Any]]

    def __init__(self, values: Iterable[Any] = ()) -> None:
        """Take values, each with the letter that `letter_of` chooses, or those of an array."""
        if isinstance(values, FieldArray):
            self.entries = list(values.entries)
            return
        self.entries = [(letter_of(value), value) for value in values]

    @classmethod
    def of(cls, entries: Iterable[tuple[str, Any]]) -> FieldArray:
        """Make an array of pairs of letter and value."""
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
        return _are_same(self, other)

    __hash__ = None  # type: ignore[assignment]  # mutable, like list

    def __repr__(self) -> str:
        return _shown(self)


class FieldTable(Mapping[str, Any]):
    """A field table (0-9-1, 4.2.5.5): fields in order, each with its letter.

        FieldTable({"retries": 3, "tenant": "x"})          # letters as `letter_of` chooses
        FieldTable.of([("retries", "I", 3)])                # letters as given

    As a mapping it gives the value of the first field of a name. `entries` has them all. Two
    tables are equal if they have the same fields with the same letters and bits in the same order;
    a dict counts as the table that is made of it.

    Attributes:
        entries: a list of (name, letter, value).
    """

    __slots__ = ("entries",)
    entries: list[Entry]

    def __init__(self, fields: Mapping[str, Any] | Iterable[tuple[str, Any]] = ()) -> None:
        """Take names and values, each with the letter that `letter_of` chooses."""
        if isinstance(fields, FieldTable):
            self.entries = list(fields.entries)
            return
        pairs = fields.items() if isinstance(fields, Mapping) else fields
        self.entries = [(name, letter_of(value), value) for name, value in pairs]

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> FieldTable:
        """Make a table of triples of name, letter and value."""
        self = cls()
        self.entries = list(entries)
        return self

    def __getitem__(self, name: str) -> Any:
        for own, _, value in self.entries:
            if own == name:
                return value
        raise KeyError(name)

    def letter(self, name: str) -> str:
        """Return the letter of the first field of this name.

        Raises:
            KeyError: there is no field of this name.
        """
        for own, letter, _ in self.entries:
            if own == name:
                return letter
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(name for name, _, _ in self.entries))

    def __len__(self) -> int:
        return len({name for name, _, _ in self.entries})

    # Those of Mapping would look each name up, among thousands of them in a hostile table.

    def items(self) -> ItemsView[str, Any]:
        """Return the names and the values of the first fields of them."""
        made: dict[str, Any] = {}
        for name, _, value in self.entries:
            made.setdefault(name, value)
        return made.items()

    def values(self) -> ValuesView[Any]:
        """Return the values of the first fields of each name."""
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
        return _are_same(self, other)

    __hash__ = None  # type: ignore[assignment]  # its values may be mutable

    def __repr__(self) -> str:
        return _shown(self)


def as_table(value: Any) -> FieldTable:
    """Return a table as it is, and one of what can be made one, such as a dict; None has none."""
    return value if isinstance(value, FieldTable) else FieldTable(() if value is None else value)


def seconds_of(moment: Any) -> Any:
    """Return a moment as 0-9-1 has it, in seconds since the Unix epoch; a number as it is.

    Raises:
        EncodeError: a datetime has no time zone.
    """
    if not isinstance(moment, datetime.datetime):
        return moment
    try:
        return int(Timestamp.from_datetime(moment)) // 1000
    except ValueError as error:
        raise EncodeError(str(error)) from None


def as_array(value: Any) -> FieldArray:
    """Return an array as it is, and one of what can be made one, such as a list."""
    return value if isinstance(value, FieldArray) else FieldArray(value)


def _same(a: Any, b: Any) -> bool:
    """Whether two values under the same letter have the same bits."""
    if isinstance(a, float) and isinstance(b, float):
        return identical(a, b)
    if isinstance(a, OddTrue) or isinstance(b, OddTrue):
        return type(a) is type(b) and a.octet == b.octet
    return bool(a == b)


# Tables nest as deeply as decoding allows, which is more than calls within calls may.


def _are_same(one: Any, other: Any) -> bool:
    """Whether two tables or arrays hold the same, to the bit."""
    try:
        return _hold_same(one, other)
    except (EncodeError, ValueError):  # of a value that no field can hold
        return False


def _hold_same(one: Any, other: Any) -> bool:
    pairs = [(one, other)]
    compared: set[tuple[int, int]] = set()  # as one may hold itself
    while pairs:
        a, b = pairs.pop()
        if not any(isinstance(a, one) and isinstance(b, one) for one in (FieldTable, FieldArray)):
            if not _same(a, b):
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
    """Return a value that was given as it is when it is decoded, so that both compare."""
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


def _shown(value: Any) -> str:
    """Return the repr of a table or an array, with dots where it holds itself."""
    pieces: list[str] = []
    around: set[int] = set()
    # What is still to be written, the next one last: a text, a value, or a value that ends.
    rest: list[tuple[str, Any]] = [("value", value)]
    while rest:
        what, item = rest.pop()
        if what == "text":
            pieces.append(item)
        elif what == "end":
            around.discard(id(item))
            pieces.append("])")
        elif not isinstance(item, (FieldTable, FieldArray)):
            pieces.append(repr(item))
        elif id(item) in around:
            pieces.append(f"{type(item).__name__}.of([...])")
        else:
            around.add(id(item))
            pieces.append(f"{type(item).__name__}.of([")
            rest.append(("end", item))
            for place in range(len(item.entries) - 1, -1, -1):
                *front, last = item.entries[place]
                text = "".join(f"{one!r}, " for one in front)
                rest += [
                    ("text", ")"),
                    ("value", last),
                    ("text", f"{', ' if place else ''}({text}"),
                ]
    return "".join(pieces)


# In the order in which they are tried; bool and int are told apart before.
_LETTERS: tuple[tuple[type, str], ...] = (
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
