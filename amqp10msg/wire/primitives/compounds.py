"""Described values, arrays, and maps that a dict cannot represent.

The module also has `identical`, which compares values including their AMQP types, and `plain`,
which converts values to plain Python types.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import (
    Callable,
    ItemsView,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
    ValuesView,
)
from typing import Any

import attrs

from amqp10msg.wire.primitives.format_codes import FORMAT_CODES
from amqp10msg.wire.primitives.simple import Float, Timestamp, _Decimal, _Integer


@attrs.define(eq=True, unsafe_hash=False, repr=False)
class Described:
    """A described value (Part 1, 1.2.2) for which the library has no class.

    Attributes:
        descriptor: usually a ULong or a Symbol; Part 1 allows any value.
        value: the underlying value.
    """

    descriptor: Any
    value: Any

    def __repr__(self) -> str:
        return _repr_of(self)


_ELEMENT_TYPE_NAMES = frozenset(row.type for row in FORMAT_CODES.values())


@attrs.define(init=False, eq=False, repr=False)
class Array(Sequence[Any]):
    """An AMQP array: values of one type with a common constructor.

    ``Array("int", [1, 2])`` is encoded with the smallest constructor that fits all values, except
    constructors of elements without bytes. ``Array(0x71, [1, 2])`` is encoded with the constructor
    0x71, and a decoded array with its original constructor. Plain Python values are encoded as the
    array's type. Two arrays are equal if their elements are equal and they are encoded with one
    constructor, as in messages: ``Array(0x41, [])`` differs from ``Array(0x56, [])``.

    Attributes:
        type: the AMQP type of the elements.
        code: the format code of the constructor; None for the smallest constructor.
        descriptors: the descriptors of an array of described values, outermost first. `values`
            then has the underlying values.
        values: the list of elements.
    """

    type: str
    code: int | None
    descriptors: tuple[Any, ...]
    values: list[Any]

    def __init__(
        self, constructor: str | int, values: Iterable[Any] = (), *, descriptors: Iterable[Any] = ()
    ) -> None:
        if isinstance(constructor, int):
            row = FORMAT_CODES.get(constructor)
            if row is None:
                raise ValueError(f"{constructor:#04x} is not a format code of Part 1")
            self.type, self.code = row.type, constructor
        elif not isinstance(constructor, str):
            raise TypeError(
                "the constructor of an Array must be the name of a type or a format code, not "
                f"{type(constructor).__name__}: Array('int', [1, 2])"
            )
        elif constructor in _ELEMENT_TYPE_NAMES:
            self.type, self.code = constructor, None
        else:
            raise ValueError(
                f"{constructor!r} is not an AMQP type: use one of {sorted(_ELEMENT_TYPE_NAMES)}"
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
        if (self.type, self.descriptors, self.values) != (
            other.type,
            other.descriptors,
            other.values,
        ):
            return False
        return self.code == other.code or _constructor_of(self) == _constructor_of(other)

    __hash__ = None  # type: ignore[assignment]  # mutable, like list

    def __repr__(self) -> str:
        return _repr_of(self)


# A list with one item: the function that returns the constructor with which an array is encoded.
# The kernel sets the function, because the kernel chooses the smallest constructor.
_CONSTRUCTOR_FUNCTIONS: list[Callable[[Array], int]] = []


def register_constructor_function(function: Callable[[Array], int]) -> None:
    """Set the function that returns the constructor with which an array is encoded."""
    _CONSTRUCTOR_FUNCTIONS[:] = (function,)


def _constructor_of(array: Array) -> int | None:
    """Return the constructor with which an array is encoded; None if it cannot be encoded."""
    if array.code is not None or not _CONSTRUCTOR_FUNCTIONS:
        return array.code
    try:
        return _CONSTRUCTOR_FUNCTIONS[0](array)
    except ValueError:
        return None


class _Items(ItemsView[Any, Any]):
    """A view of the pairs of an `AmqpMap`, which may have duplicate keys, as ItemsView does not."""

    __slots__ = ()
    _mapping: AmqpMap

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        return iter(self._mapping.pairs)


class _Values(ValuesView[Any]):
    __slots__ = ()
    _mapping: AmqpMap

    def __iter__(self) -> Iterator[Any]:
        return (value for _, value in self._mapping.pairs)


class AmqpMap(Mapping[Any, Any]):
    """An immutable AMQP map, for keys that a dict cannot have.

    These are keys that are equal in Python but have different AMQP types (uint 1 and long 1, symbol
    "a" and string "a"), and unhashable keys (lists, maps, arrays, described values). A lookup
    compares the AMQP types of keys, too, see `identical`.

    Attributes:
        pairs: the (key, value) tuples, in wire order.
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
                self._index.setdefault(_index_key(pair[0]), []).append(pair)
        for candidate, value in self._index.get(_index_key(key), ()):
            if identical(candidate, key):
                return value
        raise KeyError(key)

    def __iter__(self) -> Iterator[Any]:
        return (key for key, _ in self.pairs)

    def __len__(self) -> int:
        return len(self.pairs)

    def items(self) -> ItemsView[Any, Any]:
        """Return a view of the pairs, in wire order."""
        return _Items(self)

    def values(self) -> ValuesView[Any]:
        """Return a view of the values, in wire order."""
        return _Values(self)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AmqpMap):
            return NotImplemented
        return identical(self, other)

    __hash__ = None  # type: ignore[assignment]  # its values may be mutable, like those of dict

    def __repr__(self) -> str:
        return _repr_of(self)

    def __reduce__(self) -> tuple[object, ...]:
        return (AmqpMap, (self.pairs,))


def _repr_of(value: Any) -> str:
    """Return the repr of a value, without recursion, so that values may be nested to any depth."""
    text: list[str] = []
    ancestors: set[int] = set()  # ids of the values that enclose `item`, to detect cycles
    pending: list[tuple[Any, bool]] = [(value, True)]
    while pending:
        item, is_value = pending.pop()
        if not is_value:
            if isinstance(item, int):
                ancestors.discard(item)
            else:
                text.append(item)
            continue
        parts = _repr_parts(item)
        if parts is None:
            text.append(repr(item))
        elif id(item) in ancestors:
            text.append("...")
        else:
            ancestors.add(id(item))
            pending += [(id(item), False), *reversed(parts)]
    return "".join(text)


def _repr_parts(value: Any) -> list[tuple[Any, bool]] | None:
    """Return the parts of a value's repr; None for a value that does not contain values.

    A part is (text, False) for text, or (value, True) for a contained value.
    """
    kind = type(value)
    if kind is list or kind is tuple:
        begin, end = "[]" if kind is list else ("(", ",)" if len(value) == 1 else ")")
        parts = _with_commas([[(item, True)] for item in value])
        return [(begin, False), *parts, (end, False)]
    if kind is dict:
        parts = _with_commas(
            [[(key, True), (": ", False), (item, True)] for key, item in value.items()]
        )
        return [("{", False), *parts, ("}", False)]
    if kind is AmqpMap:
        parts = _with_commas([[(pair, True)] for pair in value.pairs])
        return [("AmqpMap([", False), *parts, ("])", False)]
    if kind is Described:
        first, second = (value.descriptor, True), (value.value, True)
        return [("Described(descriptor=", False), first, (", value=", False), second, (")", False)]
    if kind is Array:
        constructor = repr(value.type) if value.code is None else f"{value.code:#04x}"
        parts = [(f"Array({constructor}, ", False), (value.values, True)]
        if value.descriptors:
            parts += [(", descriptors=", False), (value.descriptors, True)]
        return [*parts, (")", False)]
    return None


def _with_commas(parts: list[list[tuple[Any, bool]]]) -> list[tuple[Any, bool]]:
    """Join groups of parts of a repr, with commas between the groups."""
    return [text for part in parts for text in [(", ", False), *part]][1:]


def _index_key(key: Any) -> Any:
    """Return a hashable value for a map key; it is equal for identical AMQP keys.

    Numbers are indexed by their repr, because Python hashes strings with a random seed, but numbers
    without one: an attacker could choose numbers with equal hashes.
    """
    if isinstance(key, (int, float, uuid.UUID)):
        return repr(key)
    try:
        hash(key)
    except TypeError:
        return type(key)
    return (type(key), key)


_DOUBLE_STRUCT = struct.Struct(">d")


def identical(a: Any, b: Any) -> bool:
    """Return whether two values have the same AMQP type and the same value, bit for bit.

    Unlike ``==``, this function distinguishes uint 1 from long 1, 0.0 from -0.0, and true from 1. A
    NaN is identical to a NaN with the same bits. Maps with a different order of entries differ.
    """
    if type(a) is not type(b):
        return False
    if isinstance(a, Float):
        return a.bits == b.bits  # type: ignore[no-any-return]
    if isinstance(a, float):
        return _DOUBLE_STRUCT.pack(a) == _DOUBLE_STRUCT.pack(b)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(identical, a, b))
    if isinstance(a, (dict, AmqpMap)):
        return len(a) == len(b) and all(
            identical(k, other_k) and identical(v, other_v)
            for (k, v), (other_k, other_v) in zip(pairs_of(a), pairs_of(b), strict=True)
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


def pairs_of(mapping: Any) -> Iterable[tuple[Any, Any]]:
    """Return the (key, value) pairs of a dict or an AmqpMap."""
    return mapping.pairs if isinstance(mapping, AmqpMap) else mapping.items()


def plain(value: Any) -> Any:
    """Convert a value to plain Python types, without AMQP types.

    Integers become int; float and double become float; char, string and symbol become str; decimals
    become decimal.Decimal. A timestamp becomes an aware datetime, or an int of milliseconds if it
    is out of range for datetime. Arrays and lists become list. A map becomes a dict, or a list of
    pairs if a dict cannot hold its keys. A described value becomes its underlying value.
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
        pairs = [(plain(key), plain(item)) for key, item in pairs_of(value)]
        try:
            converted = dict(pairs)
        except TypeError:
            return pairs
        return converted if len(converted) == len(pairs) else pairs
    return value
