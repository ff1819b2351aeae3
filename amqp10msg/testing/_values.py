"""Strategies for AMQP values (Part 1), in the Python classes that decoding returns."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from amqp10msg.testing._encodings import CanonicalEncoder, constructors_for
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

#: The names of the types in Part 1, and ``described``.
TYPES: tuple[str, ...] = (*dict.fromkeys(row.type for row in FORMAT_CODES.values()), "described")
#: The names of the simple types, all except list, map, array and described (Part 3, 3.2.5).
SIMPLE_TYPES: tuple[str, ...] = tuple(
    name for name in TYPES if name not in {"list", "map", "array", "described"}
)

# The maximum number of items in a list, map or array. It is small, because nesting multiplies it.
_MAX_ITEMS = 8


class NamedStrategy:
    """A strategy, with a short name as its repr."""

    def __init__(self, name: str, strategy: SearchStrategy[Any]) -> None:
        self.name = name
        self.strategy = strategy

    def __repr__(self) -> str:
        return self.name


@st.composite
def _drawn_from(draw: st.DrawFn, strategy: NamedStrategy) -> Any:
    return draw(strategy.strategy)


def with_repr(name: str, strategy: SearchStrategy[Any]) -> SearchStrategy[Any]:
    """Wrap a strategy so that its repr contains `name` instead of all nested strategies."""
    return _drawn_from(NamedStrategy(name, strategy))


def _integers(low: int, high: int) -> SearchStrategy[int]:
    """Integers from `low` to `high`, often the bounds of the range and of one-byte encodings."""
    edges = {0, 1, 127, 128, 255, 256, -1, -128, -129, low, high}
    fitting = sorted((edge for edge in edges if low <= edge <= high), key=abs)
    return st.integers(low, high) | st.sampled_from(fitting)


def _integers_of_class(cls: Any) -> SearchStrategy[Any]:
    return _integers(cls.min, cls.max).map(cls)


# The bits of floats that are edge cases. The last four are NaNs: quiet, signalling, with payloads.
_FLOAT_EDGES = [0, 1, 1 << 31, 0x3F800000, 0x7F7FFFFF, 0x7F800000, 0xFF800000]
_FLOAT_EDGES += [0x7FC00000, 0x7F800001, 0xFFC12345, 0x7FFFFFFF]


def _values_from_bits(width: int, create: Any, edges: Sequence[int] = ()) -> SearchStrategy[Any]:
    """Values that `create` returns for an integer of `width` bits, often for one of `edges`."""
    drawn = st.integers(0, (1 << width) - 1)
    return (st.sampled_from(edges) | drawn if edges else drawn).map(create)


def _double(bits: int) -> float:
    return decode_value(b"\x82" + bits.to_bytes(8, "big"))  # type: ignore[no-any-return]  # what the kernel gives is Any


def _sometimes_long(narrow: SearchStrategy[Any]) -> SearchStrategy[Any]:
    """Texts of `narrow`. Some are repeated, so that they exceed 255 bytes (four-byte size)."""
    return narrow | st.builds(
        lambda text, times: text * times,
        narrow.filter(lambda text: 0 < len(text) < 9),
        _REPETITION_COUNTS,
    )


_REPETITION_COUNTS = st.integers(200, 300)


def symbol_text() -> SearchStrategy[str]:
    """ASCII text for symbols, often text that symbols typically have."""
    names = st.sampled_from(["amqp:header:list", "x-opt-to", "text/plain", "", "a"])
    return names | st.text(st.characters(max_codepoint=127), max_size=20)


@st.composite
def _described(draw: st.DrawFn, value: SearchStrategy[Any]) -> Described:
    descriptor = draw(st.sampled_from(["ulong", "symbol", "*"]))
    return Described(draw(value if descriptor == "*" else strategy_of(descriptor)), draw(value))


@st.composite
def built(
    draw: st.DrawFn,
    create: Callable[..., Any],
    always: Mapping[str, SearchStrategy[Any]],
    sometimes: Mapping[str, SearchStrategy[Any]],
) -> Any:
    """Results of `create`, called with drawn keyword arguments.

    The arguments in `always` are always passed, each argument in `sometimes` in half of the cases.
    One drawn integer, used as a bit mask, chooses them: a draw per argument would be slow.
    """
    chosen = draw(st.integers(0, (1 << len(sometimes)) - 1))
    drawn = {name: draw(strategy) for name, strategy in always.items()}
    for bit, (name, strategy) in enumerate(sometimes.items()):
        if chosen >> bit & 1:
            drawn[name] = draw(strategy)
    return create(**drawn)


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
        type_name: the type's name in Part 1, such as ``timestamp`` (one of `TYPES`); or ``*`` for
            any type.

    Raises:
        ValueError: the type is unknown.
    """
    if type_name != "*" and type_name not in TYPES:
        raise ValueError(f"unknown AMQP type {type_name!r}: use one of {TYPES}")
    return with_repr(f"values_of({type_name!r})", strategy_of(type_name))


@functools.cache
def strategy_of(type_name: str) -> SearchStrategy[Any]:
    """Return the strategy of `values_of` without `with_repr`, which costs an additional draw."""
    if type_name == "*":
        return nested_values(20)
    if type_name == "list":
        return st.lists(nested_values(5), max_size=_MAX_ITEMS)
    if type_name == "map":
        return maps(SIMPLE, nested_values(5))
    if type_name == "array":
        return arrays()
    return _described(SIMPLE) if type_name == "described" else _SIMPLE_STRATEGIES[type_name]


# Strategies for the values of each simple type.
_SIMPLE_STRATEGIES: dict[str, SearchStrategy[Any]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    **{name: _integers_of_class(cls) for name, cls in INTEGERS.items()},
    "long": _integers(-(2**63), 2**63 - 1),
    "float": _values_from_bits(32, Float.from_bits, _FLOAT_EDGES),
    "double": st.floats()
    | _values_from_bits(64, _double, [0, 1 << 63, 0x7FF0000000000001, 0xFFF8000000000ABC]),
    "decimal32": _values_from_bits(
        32, Decimal32, [0, 0x32000001, 0x78000000, 0x7C000000, 0x7E000001]
    ),
    "decimal64": _values_from_bits(64, Decimal64, [0, 0x31A0000000000001, 0x7C00000000000001]),
    "decimal128": _values_from_bits(128, Decimal128, [0, 1 << 127, 0x7C << 120]),
    "char": st.characters(exclude_categories=["Cs"]).map(Char),
    "uuid": st.uuids(),
    "binary": _sometimes_long(st.binary(max_size=40)),
    "string": _sometimes_long(st.text(max_size=40)),
    "symbol": _sometimes_long(symbol_text()).map(Symbol),
}
#: Values of every simple type.
SIMPLE = st.one_of([_SIMPLE_STRATEGIES[name] for name in SIMPLE_TYPES])


def simple_values() -> SearchStrategy[Any]:
    """Values of every simple type, as application properties can have (Part 3, 3.2.5).

    Example:
        >>> from hypothesis import given
        >>> from amqp10msg import Message
        >>> @given(simple_values())
        ... def test_it_fits(value):
        ...     Message("", application_properties={"key": value}).encode()
        >>> test_it_fits()
    """
    return with_repr("simple_values()", SIMPLE)


def _to_map(pairs: Iterable[tuple[Any, Any]]) -> dict[Any, Any] | AmqpMap:
    """Return a map as decoding does: a dict, or an AmqpMap if a dict cannot hold the keys."""
    pair_list = list(pairs)
    try:
        result = dict(pair_list)
    except TypeError:
        return AmqpMap(pair_list)
    # A dict cannot look up a NaN key, except by object identity.
    if len(result) != len(pair_list) or any(key != key for key in result):  # noqa: PLR0124  (NaN)
        return AmqpMap(pair_list)
    return result


class _KeyIdentityEncoder(CanonicalEncoder):
    """Encodes map keys such that equal keys have equal bytes: ignores constructors of arrays."""

    def array(self, array: Array, *, any_constructor: bool = False) -> list[tuple[int, bytes]]:
        without_code = Array(array.type, array.values, descriptors=array.descriptors)
        return super().array(without_code, any_constructor=any_constructor)


def _key_identity(pair: tuple[Any, Any]) -> bytes:
    """Return bytes that are equal for the keys that AMQP regards as equal."""
    return _KeyIdentityEncoder().value(pair[0])


def maps(
    keys: SearchStrategy[Any], items: SearchStrategy[Any], *, max_size: int = _MAX_ITEMS
) -> SearchStrategy[dict[Any, Any] | AmqpMap]:
    """Maps as decoding returns them: dicts, or AmqpMaps if a dict cannot hold the keys.

    Example:
        >>> from hypothesis import given
        >>> @given(maps(values_of("uint") | values_of("long"), values_of("null")))
        ... def test_no_entry_is_lost(mapping):
        ...     assert len(mapping) <= 8
        >>> test_no_entry_is_lost()

    Args:
        keys: a strategy for the keys. A map has no two keys with equal AMQP type and value.
        items: a strategy for the values.
        max_size: the maximum number of entries.
    """
    return st.lists(st.tuples(keys, items), max_size=max_size, unique_by=_key_identity).map(_to_map)


@st.composite
def arrays_of(draw: st.DrawFn, type_name: str, elements: SearchStrategy[Any]) -> Array:
    """Arrays of elements of one type, with any constructor that can encode the elements."""
    values = draw(st.lists(elements, max_size=_MAX_ITEMS))
    descriptors: list[Any] = []
    if draw(st.integers(0, 7)) == 7:
        kinds = strategy_of("ulong") | strategy_of("symbol") | strategy_of("string")
        descriptors = draw(st.lists(kinds, min_size=1, max_size=3))
    constructors: list[str | int] = [type_name, *constructors_for(type_name, values)]
    constructor = draw(st.sampled_from(constructors))
    return Array(constructor, values, descriptors=descriptors)


#: The value of every element, by zero-width constructor.
_VALUE_BY_ZERO_WIDTH_CODE: dict[int, Any] = {
    0x40: None,
    0x41: True,
    0x42: False,
    0x43: UInt(0),
    0x44: ULong(0),
    0x45: [],
}


def arrays(elements: SearchStrategy[Any] | None = None) -> SearchStrategy[Array]:
    """Arrays of every element type and constructor, including described and zero-width elements.

    Example:
        >>> from hypothesis import given
        >>> from amqp10msg import decode_value, encode_value
        >>> @given(arrays())
        ... def test_the_constructor_is_kept(array):
        ...     again = decode_value(encode_value(array))
        ...     assert array.code in (None, again.code)
        >>> test_the_constructor_is_kept()

    Args:
        elements: a strategy for the items of elements that are lists or maps; None for simple
            values.
    """
    inner = SIMPLE if elements is None else elements
    zero_width = st.builds(
        lambda code, count: Array(code, [_VALUE_BY_ZERO_WIDTH_CODE[code]] * count),
        st.sampled_from(list(_VALUE_BY_ZERO_WIDTH_CODE)),
        st.integers(0, 5) | st.integers(250, 300),
    )
    flat = st.one_of([arrays_of(name, _SIMPLE_STRATEGIES[name]) for name in SIMPLE_TYPES])
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
        max_leaves: a limit of 1 or more on size and depth. Most values contain at most this many
            simple values.

    Raises:
        ValueError: `max_leaves` is less than 1.
    """
    if max_leaves < 1:
        raise ValueError(f"max_leaves must be 1 or more, not {max_leaves}")
    return with_repr(f"values(max_leaves={max_leaves})", nested_values(max_leaves))


@functools.cache
def nested_values(max_leaves: int) -> SearchStrategy[Any]:
    """Return the strategy of `values` without `with_repr`.

    It does not use `st.recursive`, which starts again if a value has too many leaves: that wasted a
    fifth of all draws.
    """
    if max_leaves < 2:
        return SIMPLE
    size = min(max_leaves, _MAX_ITEMS)
    children = nested_values(max_leaves // 2)
    compound = (
        st.lists(children, max_size=size),
        maps(SIMPLE, children, max_size=size),
        maps(children, children, max_size=min(size, 3)),
        arrays(children),
        _described(children),
    )
    # Do not use `one_of`, which would flatten `arrays` and therefore choose arrays too often.
    return _choose_option((SIMPLE,) * 4 + compound)


def _choose_option(options: Sequence[SearchStrategy[Any]]) -> SearchStrategy[Any]:
    return _drawn_option(st.integers(0, len(options) - 1), options)


@st.composite
def _drawn_option(
    draw: st.DrawFn, index: SearchStrategy[int], options: Sequence[SearchStrategy[Any]]
) -> Any:
    return draw(options[draw(index)])
