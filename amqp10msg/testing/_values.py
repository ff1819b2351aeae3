"""Strategies for the values of Part 1, in the form in which they are decoded."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from amqp10msg.testing._encodings import Canonical, constructors_for
from amqp10msg.wire.kernel import decode_value
from amqp10msg.wire.primitives import (
    FORMAT_CODES,
    INTEGERS,
    AmqpMap,
    Array,
    Char,
    Decimal32,
    Decimal64,
    Decimal128,
    Described,
    Float,
    Symbol,
    UInt,
    ULong,
)

#: The types of Part 1 by name, ``described`` included.
TYPES: tuple[str, ...] = (*dict.fromkeys(row.type for row in FORMAT_CODES.values()), "described")
#: The types that are not a list, map or array and have no descriptor (Part 3, 3.2.5).
SIMPLE_TYPES: tuple[str, ...] = tuple(
    name for name in TYPES if name not in {"list", "map", "array", "described"}
)

_SHORT = 8  # elements of a compound; what nests multiplies


class Shown:
    """A strategy with a short name."""

    def __init__(self, name: str, strategy: SearchStrategy[Any]) -> None:
        self.name = name
        self.strategy = strategy

    def __repr__(self) -> str:
        return self.name


@st.composite
def _drawn_from(draw: st.DrawFn, shown: Shown) -> Any:
    return draw(shown.strategy)


def named(name: str, strategy: SearchStrategy[Any]) -> SearchStrategy[Any]:
    """Give a strategy this short name as its repr, instead of pages of what it draws from."""
    return _drawn_from(Shown(name, strategy))


def _integers(low: int, high: int) -> SearchStrategy[int]:
    """Integers; the bounds, and those of the one-byte forms, more often than others."""
    edges = {0, 1, 127, 128, 255, 256, -1, -128, -129, low, high}
    fitting = sorted((edge for edge in edges if low <= edge <= high), key=abs)
    return st.integers(low, high) | st.sampled_from(fitting)


def _integers_of(cls: Any) -> SearchStrategy[Any]:
    return _integers(cls.min, cls.max).map(cls)


# The last four are NaNs: quiet, signalling, with payloads.
_FLOAT_EDGES = [0, 1, 1 << 31, 0x3F800000, 0x7F7FFFFF, 0x7F800000, 0xFF800000]
_FLOAT_EDGES += [0x7FC00000, 0x7F800001, 0xFFC12345, 0x7FFFFFFF]


def _bits(width: int, make: Any, edges: Sequence[int] = ()) -> SearchStrategy[Any]:
    drawn = st.integers(0, (1 << width) - 1)
    return (st.sampled_from(edges) | drawn if edges else drawn).map(make)


def _double(bits: int) -> float:
    return decode_value(b"\x82" + bits.to_bytes(8, "big"))  # type: ignore[no-any-return]  # what the kernel gives is Any


def _widened(narrow: SearchStrategy[Any]) -> SearchStrategy[Any]:
    """Repeat some short texts past 255 bytes, where the one-byte size ends."""
    return narrow | st.builds(
        lambda text, times: text * times, narrow.filter(lambda text: 0 < len(text) < 9), _TIMES
    )


_TIMES = st.integers(200, 300)


def symbol_text() -> SearchStrategy[str]:
    """ASCII text as symbols hold it, most of it of the kind that symbols are made of."""
    names = st.sampled_from(["amqp:header:list", "x-opt-to", "text/plain", "", "a"])
    return names | st.text(st.characters(max_codepoint=127), max_size=20)


@st.composite
def _described(draw: st.DrawFn, value: SearchStrategy[Any]) -> Described:
    descriptor = draw(st.sampled_from(["ulong", "symbol", "*"]))
    return Described(draw(value if descriptor == "*" else strategy_of(descriptor)), draw(value))


@st.composite
def built(
    draw: st.DrawFn,
    make: Callable[..., Any],
    always: Mapping[str, SearchStrategy[Any]],
    sometimes: Mapping[str, SearchStrategy[Any]],
) -> Any:
    """Call with keywords, some of them drawn each time, each of the others in half of the cases.

    One integer says which of the others: a draw for each takes longer than all that is drawn.
    """
    chosen = draw(st.integers(0, (1 << len(sometimes)) - 1))
    drawn = {name: draw(strategy) for name, strategy in always.items()}
    for bit, (name, strategy) in enumerate(sometimes.items()):
        if chosen >> bit & 1:
            drawn[name] = draw(strategy)
    return make(**drawn)


def values_of(type_name: str) -> SearchStrategy[Any]:
    """Values of one AMQP type.

    Example:
        >>> from hypothesis import given
        >>> from amqp10msg import UInt
        >>> @given(values_of("uint"))
        ... def test_it_is_a_uint(value):
        ...     assert type(value) is UInt
        >>> test_it_is_a_uint()

    Args:
        type_name: the name in Part 1, such as ``timestamp``; one of `TYPES`, or ``*`` for any.

    Raises:
        ValueError: there is no such type.
    """
    if type_name != "*" and type_name not in TYPES:
        raise ValueError(f"unknown AMQP type {type_name!r}: use one of {TYPES}")
    return named(f"values_of({type_name!r})", strategy_of(type_name))


@functools.cache
def strategy_of(type_name: str) -> SearchStrategy[Any]:
    """Return the strategy of `values_of` without its name, which costs a draw of its own."""
    if type_name == "*":
        return nested_values(20)
    if type_name == "list":
        return st.lists(nested_values(5), max_size=_SHORT)
    if type_name == "map":
        return maps(SIMPLE, nested_values(5))
    if type_name == "array":
        return arrays()
    return _described(SIMPLE) if type_name == "described" else _SCALARS[type_name]


_SCALARS: dict[str, SearchStrategy[Any]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    **{name: _integers_of(cls) for name, cls in INTEGERS.items()},
    "long": _integers(-(2**63), 2**63 - 1),
    "float": _bits(32, Float.from_bits, _FLOAT_EDGES),
    "double": st.floats()
    | _bits(64, _double, [0, 1 << 63, 0x7FF0000000000001, 0xFFF8000000000ABC]),
    "decimal32": _bits(32, Decimal32, [0, 0x32000001, 0x78000000, 0x7C000000, 0x7E000001]),
    "decimal64": _bits(64, Decimal64, [0, 0x31A0000000000001, 0x7C00000000000001]),
    "decimal128": _bits(128, Decimal128, [0, 1 << 127, 0x7C << 120]),
    "char": st.characters(exclude_categories=["Cs"]).map(Char),
    "uuid": st.uuids(),
    "binary": _widened(st.binary(max_size=40)),
    "string": _widened(st.text(max_size=40)),
    "symbol": _widened(symbol_text()).map(Symbol),
}
SIMPLE = st.one_of([_SCALARS[name] for name in SIMPLE_TYPES])


def simple_values() -> SearchStrategy[Any]:
    """Values of every simple type: what application properties may hold (Part 3, 3.2.5).

    Example:
        >>> from hypothesis import given
        >>> from amqp10msg import Message
        >>> @given(simple_values())
        ... def test_it_fits(value):
        ...     Message("", application_properties={"key": value}).encode()
        >>> test_it_fits()
    """
    return named("simple_values()", SIMPLE)


def _held(pairs: Iterable[tuple[Any, Any]]) -> dict[Any, Any] | AmqpMap:
    """Return the pairs as they are decoded: a dict where one can hold them, else an AmqpMap."""
    listed = list(pairs)
    try:
        made = dict(listed)
    except TypeError:
        return AmqpMap(listed)
    # A NaN is in a dict only as long as it is the same object.
    if len(made) != len(listed) or any(key != key for key in made):  # noqa: PLR0124  (NaN)
        return AmqpMap(listed)
    return made


class _Identity(Canonical):
    """Encodes what tells AMQP keys apart: type and value, but not the constructor of an array."""

    def array(self, array: Array, *, any_constructor: bool = False) -> list[tuple[int, bytes]]:
        without_code = Array(array.type, array.values, descriptors=array.descriptors)
        return super().array(without_code, any_constructor=any_constructor)


def _identity(pair: tuple[Any, Any]) -> bytes:
    return _Identity().value(pair[0])


def maps(
    keys: SearchStrategy[Any], items: SearchStrategy[Any], *, max_size: int = _SHORT
) -> SearchStrategy[dict[Any, Any] | AmqpMap]:
    """Maps as they are decoded: dicts, and AmqpMaps where a dict cannot hold the keys.

    Example:
        >>> from hypothesis import given
        >>> @given(maps(values_of("uint") | values_of("long"), values_of("null")))
        ... def test_no_entry_is_lost(mapping):
        ...     assert len(mapping) <= 8
        >>> test_no_entry_is_lost()

    Args:
        keys: the keys; no two of a map have the same AMQP type and value.
        items: the values.
        max_size: entries, at most.
    """
    return st.lists(st.tuples(keys, items), max_size=max_size, unique_by=_identity).map(_held)


@st.composite
def arrays_of(draw: st.DrawFn, type_name: str, elements: SearchStrategy[Any]) -> Array:
    """Arrays of elements of one type, with each constructor that can hold what was drawn."""
    held = draw(st.lists(elements, max_size=_SHORT))
    descriptors: list[Any] = []
    if draw(st.integers(0, 7)) == 7:
        kinds = strategy_of("ulong") | strategy_of("symbol") | strategy_of("string")
        descriptors = draw(st.lists(kinds, min_size=1, max_size=3))
    constructors: list[str | int] = [type_name, *constructors_for(type_name, held)]
    constructor = draw(st.sampled_from(constructors))
    return Array(constructor, held, descriptors=descriptors)


#: Zero-width constructors: the element's type and what all elements are.
_ZERO_WIDTH: dict[int, Any] = {
    0x40: None,
    0x41: True,
    0x42: False,
    0x43: UInt(0),
    0x44: ULong(0),
    0x45: [],
}


def arrays(elements: SearchStrategy[Any] | None = None) -> SearchStrategy[Array]:
    """Arrays of every element type and constructor, described and of zero width too.

    Example:
        >>> from hypothesis import given
        >>> from amqp10msg import decode_value, encode_value
        >>> @given(arrays())
        ... def test_the_constructor_is_kept(array):
        ...     again = decode_value(encode_value(array))
        ...     assert array.code in (None, again.code)
        >>> test_the_constructor_is_kept()

    Args:
        elements: what the lists, maps and arrays among the elements contain; simple values if None.
    """
    inner = SIMPLE if elements is None else elements
    zero_width = st.builds(
        lambda code, count: Array(code, [_ZERO_WIDTH[code]] * count),
        st.sampled_from(list(_ZERO_WIDTH)),
        st.integers(0, 5) | st.integers(250, 300),
    )
    flat = st.one_of([arrays_of(name, _SCALARS[name]) for name in SIMPLE_TYPES])
    return st.one_of(
        flat,
        zero_width,
        arrays_of("list", st.lists(inner, max_size=4)),
        arrays_of("map", maps(inner, inner, max_size=3)),
        arrays_of("array", flat),
    )


def values(*, max_leaves: int = 20) -> SearchStrategy[Any]:
    """Values of every type of Part 1, nested.

    Example:
        >>> from hypothesis import given
        >>> from amqp10msg import decode_value, encode_value
        >>> from amqp10msg.wire.primitives import identical
        >>> @given(values())
        ... def test_round_trip(value):
        ...     assert identical(decode_value(encode_value(value)), value)
        >>> test_round_trip()

    Args:
        max_leaves: how large and deep values become, 1 or more: most contain no more values than
            this.

    Raises:
        ValueError: `max_leaves` is less than 1.
    """
    if max_leaves < 1:
        raise ValueError(f"max_leaves is {max_leaves}: use 1 or more")
    return named(f"values(max_leaves={max_leaves})", nested_values(max_leaves))


@functools.cache
def nested_values(max_leaves: int) -> SearchStrategy[Any]:
    """Return the strategy of `values` without its name.

    Not by `st.recursive`: it starts again when a value has too many leaves, which cost a fifth of
    all draws.
    """
    if max_leaves < 2:
        return SIMPLE
    size = min(max_leaves, _SHORT)
    children = nested_values(max_leaves // 2)
    compound = (
        st.lists(children, max_size=size),
        maps(SIMPLE, children, max_size=size),
        maps(children, children, max_size=min(size, 3)),
        arrays(children),
        _described(children),
    )
    # With a choice of its own: `one_of` would take the many kinds of arrays for as many values.
    return _either((SIMPLE,) * 4 + compound)


def _either(options: Sequence[SearchStrategy[Any]]) -> SearchStrategy[Any]:
    return _chosen(st.integers(0, len(options) - 1), options)


@st.composite
def _chosen(
    draw: st.DrawFn, index: SearchStrategy[int], options: Sequence[SearchStrategy[Any]]
) -> Any:
    return draw(options[draw(index)])
