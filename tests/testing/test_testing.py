"""The strategies that users build their tests on."""

from __future__ import annotations

import inspect
import math
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Callable
from types import ModuleType
from typing import Any

import attrs
import pytest
from hypothesis import HealthCheck, find, given, seed, settings
from hypothesis import strategies as st

import amqp10msg.testing
from amqp10msg import (
    AmqpMap,
    AmqpSequence,
    AmqpValue,
    Array,
    Data,
    Described,
    EncodeError,
    Header,
    Message,
    Properties,
    Symbol,
    UInt,
    ULong,
    decode_value,
    encode_value,
    validate,
)
from amqp10msg.composite import COMPOSITES, decode_composite, encode_composite, rows
from amqp10msg.sections import KINDS
from amqp10msg.testing import (
    SIMPLE_TYPES,
    TYPES,
    annotation_maps,
    application_property_maps,
    arrays,
    bodies,
    composites,
    constructors_for,
    encodings,
    malformed,
    maps,
    messages,
    sections,
    simple_values,
    values,
    values_of,
)
from amqp10msg.testing._values import arrays_of
from amqp10msg.wire.primitives import FORMAT_CODES, identical
from tests import reference_codec as reference
from tests.testing.drawing import can_draw, missing

# Those of Part 2 are registered with the transport, which another test may have imported.
COMPOSITE_CLASSES = [
    entry.cls
    for key, entry in COMPOSITES.items()
    if isinstance(key, int) and not entry.cls.__module__.startswith("amqp10msg.net.")
]


def documented() -> list[str]:
    return [name for name in amqp10msg.testing.__all__ if name.islower()]


@pytest.mark.parametrize("name", documented())
def test_strategies_have_examples(name: str) -> None:
    doc = inspect.getdoc(getattr(amqp10msg.testing, name)) or ""

    assert "Example:\n    >>> " in doc or name == "constructors_for"


def test_without_hypothesis_the_error_names_the_extra() -> None:
    program = """
        import sys
        sys.modules["hypothesis"] = None
        try:
            import amqp10msg.testing
        except ModuleNotFoundError as error:
            print(error.name, error)
    """

    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        check=True,
    )

    expected = 'hypothesis amqp10msg.testing needs hypothesis: pip install "amqp10msg[testing]"\n'
    assert expected == done.stdout


# Values.


@pytest.mark.parametrize("name", TYPES)
def test_drawn_values_have_the_requested_type(name: str) -> None:
    @settings(max_examples=30)
    @given(values_of(name))
    def check(value: Any) -> None:
        assert name == reference.neutral(decode_value(encode_value(value)))[0]

    check()


CORNERS: dict[str, Callable[[Any], bool]] = {
    "a map that is no dict": lambda value: isinstance(value, AmqpMap),
    "a described list": lambda value: isinstance(value, Described) and type(value.value) is list,
    "a map in a list": lambda value: isinstance(value, list) and dict in map(type, value),
}


def test_drawn_values_cover_all_types_and_boundaries() -> None:
    def traits_of(value: Any) -> set[str]:
        return _types(value) | {name for name, reached in CORNERS.items() if reached(value)}

    assert [] == missing(values(), [*TYPES, *CORNERS], traits_of)


def test_drawn_values_contain_a_leaf() -> None:
    with pytest.raises(ValueError, match="max_leaves must be 1 or more, not 0"):
        values(max_leaves=0)


def test_drawn_values_are_scalars_lists_maps_and_arrays() -> None:
    """Arrays have many constructors, and are still one kind of value among others."""
    drawn: Counter[str] = Counter()

    @settings(max_examples=300)
    @given(values())
    def draw(value: Any) -> None:
        kind = reference.neutral(value)[0]
        drawn[kind if kind in {"list", "map", "array", "described"} else "simple"] += 1

    draw()

    assert 5 == len(drawn)
    assert drawn["simple"] > 30
    assert max(drawn.values()) < 0.8 * drawn.total()


def _types(value: Any) -> set[str]:
    def walk(neutral: Any) -> set[str]:
        name, *rest = neutral
        below = {name}
        if name == "list":
            parts = rest[0]
        elif name == "map":
            parts = [part for pair in rest[0] for part in pair]
        elif name == "array":
            parts = [*rest[1], *rest[2]]
        else:
            parts = rest if name == "described" else []
        return below.union(*map(walk, parts))

    return walk(reference.neutral(value))


@given(values())
def test_drawn_values_equal_decoded_values(value: Any) -> None:
    assert identical(value, decode_value(encode_value(value)))


@pytest.mark.parametrize(
    "strategy, wanted",
    [
        (values_of("double"), math.isnan),
        (values_of("float"), lambda value: value.bits == 0x7F800001),
        (values_of("string"), lambda value: len(value) > 255),
        (values_of("binary"), lambda value: len(value) > 255),
        (values_of("symbol"), lambda value: len(value) > 255),
    ],
)
def test_drawn_values_include_boundaries_of_the_type(
    strategy: st.SearchStrategy[Any], wanted: Callable[[Any], bool]
) -> None:
    assert can_draw(strategy, wanted)


@pytest.mark.parametrize("name", [*SIMPLE_TYPES, "list", "map", "array"])
def test_drawn_arrays_use_all_constructors(name: str) -> None:
    codes = [code for code, entry in FORMAT_CODES.items() if entry.type == name]
    elements = st.lists(st.none(), max_size=2) if name == "list" else values_of(name)

    def code_of(array: Array) -> list[str | int | None]:
        return [array.code] if len(array) else []

    assert [] == missing(arrays_of(name, elements), codes, code_of)


def test_drawn_arrays_can_have_two_descriptors() -> None:
    assert can_draw(arrays_of("int", values_of("int")), lambda array: len(array.descriptors) == 2)


def test_drawn_arrays_cover_all_types() -> None:
    wanted = [*SIMPLE_TYPES, "list", "map", "array"]
    assert [] == missing(arrays(), wanted, lambda array: [array.type] if len(array) else [])


@given(simple_values())
def test_simple_values_are_simple(value: Any) -> None:
    assert reference.neutral(value)[0] in SIMPLE_TYPES


@given(maps(values_of("long") | values_of("uint"), st.none(), max_size=3))
def test_maps_have_no_key_twice(mapping: Any) -> None:
    keys = [key for key, _ in mapping.pairs] if isinstance(mapping, AmqpMap) else list(mapping)

    assert len(keys) <= 3
    assert len({(type(key), key) for key in keys}) == len(keys)


def test_unknown_names_are_an_error() -> None:
    with pytest.raises(ValueError, match="unknown AMQP type 'integer'"):
        values_of("integer")
    with pytest.raises(ValueError, match="unknown section 'body'"):
        sections("body")
    with pytest.raises(TypeError, match="is not a composite"):
        composites(Data)
    with pytest.raises(TypeError, match="a message has no 'subject'"):
        messages(subject=st.text())
    with pytest.raises(ValueError, match="'message' or a 'value'"):
        malformed("frame")


# Sections, composites, messages.


@pytest.mark.parametrize("cls", COMPOSITE_CLASSES)
def test_composites_round_trip(cls: type) -> None:
    @settings(max_examples=20, suppress_health_check=list(HealthCheck))
    @given(composites(cls))
    def check(drawn: Any) -> None:
        encoded = encode_composite(drawn)
        assert type(drawn) is cls
        assert encoded == encode_composite(decode_composite(encoded))

    check()


@pytest.mark.parametrize("cls", COMPOSITE_CLASSES)
def test_composites_are_drawn_in_all_encodings(cls: type) -> None:
    @settings(max_examples=20, suppress_health_check=list(HealthCheck))
    @given(composites(cls).flatmap(lambda drawn: st.tuples(st.just(drawn), encodings(drawn))))
    def check(pair: tuple[Any, bytes]) -> None:
        drawn, octets = pair
        assert same(drawn, decode_composite(octets))

    check()


def same(drawn: Any, decoded: Any) -> bool:
    """Whether two composites are identical but for the constructors that their arrays keep."""
    if not attrs.has(type(drawn)):
        return identical(drawn, decoded)
    return type(drawn) is type(decoded) and all(
        same(getattr(drawn, field.name), getattr(decoded, field.name))
        for field in attrs.fields(type(drawn))
    )


@pytest.mark.parametrize("cls", COMPOSITE_CLASSES)
def test_all_composite_fields_are_drawn(cls: type) -> None:
    names = [row.name for row in rows(cls)]

    def set_in(drawn: Any) -> set[str]:
        return {name for name in names if getattr(drawn, name) not in (None, (), 0)}

    assert [] == missing(composites(cls), names, set_in)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_sections_are_drawn_by_class_name_and_code(kind: Any) -> None:
    names = [kind.name, kind.cls, kind] + ([kind.attribute] if kind.attribute != "body" else [])
    for name in names:

        @settings(max_examples=5)
        @given(sections(name))
        def check(section: Any) -> None:
            assert type(section) is kind.cls

        check()


@given(annotation_maps(), application_property_maps())
def test_section_maps_are_drawn(annotations: Any, properties: Any) -> None:
    assert {Symbol, ULong} >= {type(key) for key in annotations}
    assert {str} >= {type(key) for key in properties}
    Message("", message_annotations=annotations, application_properties=properties).encode()


@given(bodies())
def test_bodies_are_drawn(body: Any) -> None:
    kinds = {type(part) for part in (body if isinstance(body, list) else [body])}

    assert len(kinds) == 1
    assert kinds <= {Data, AmqpSequence, AmqpValue}
    assert not isinstance(body, list) or len(body) > 1


@given(messages())
def test_messages_are_valid(message: Message) -> None:
    errors = [found for found in validate(message) if found.severity == "error"]

    assert errors == []
    assert message == Message.decode(message.encode())


def test_drawn_messages_have_and_lack_each_section() -> None:
    def has(message: Message, kind: Any) -> bool:
        part: Any = getattr(message, kind.attribute)
        return isinstance(part[0] if isinstance(part, list) and part else part, kind.cls)

    def sections_of(message: Message) -> set[tuple[str, bool]]:
        return {(kind.name, has(message, kind)) for kind in KINDS}

    both = [(kind.name, there) for kind in KINDS for there in (True, False)]
    assert [] == missing(messages(), both, sections_of)


@given(messages(header=st.just(Header(ttl=1)), body=None, footer=st.just({"x": 1})))
def test_message_strategy_accepts_sections(message: Message) -> None:
    assert message.header == Header(ttl=1)
    assert message.body is None
    assert message.footer == {"x": 1}


# Encodings.


@given(values().flatmap(lambda value: st.tuples(st.just(value), encodings(value))))
def test_drawn_encodings_decode_to_the_value(pair: tuple[Any, bytes]) -> None:
    value, octets = pair

    assert identical(value, decode_value(octets))


# Arrays without a constructor, on their own and inside of other values.
ARRAYS = (
    Array("int", [1, 2]),
    Array("boolean", []),
    Array("uint", [UInt(0)]),
    Array("array", [Array("int", [1, 2]), Array("string", ["a"])]),
    Array("array", [Array("array", [Array("ulong", [0])]), Array("array", [])]),
    Array("list", [[Array("long", [1])], []]),
    Array("map", [{"k": Array("boolean", [True])}]),
    Array("array", [Array("string", ["x" * 120, "y" * 120])]),
)
NESTED: tuple[Any, ...] = (*([array] for array in ARRAYS), *({"k": array} for array in ARRAYS))


@pytest.mark.parametrize("number", range(20))
def test_messages_with_arrays_decode_to_an_equal_message(number: int) -> None:
    @seed(number)
    @settings(max_examples=15, database=None, deadline=None)
    @given(st.sampled_from(ARRAYS), st.data())
    def check(array: Array, data: st.DataObject) -> None:
        message = Message(array, message_annotations={"x-opt-a": array}, footer={"x-b": [array]})
        first, second = (Message.decode(data.draw(encodings(message))) for _ in range(2))
        assert message == first == second

    check()


@pytest.mark.parametrize("number", range(10))
def test_drawn_messages_decode_to_an_equal_message(number: int) -> None:
    @seed(number)
    @settings(
        max_examples=20, database=None, deadline=None, suppress_health_check=list(HealthCheck)
    )
    @given(messages().flatmap(lambda message: st.tuples(st.just(message), encodings(message))))
    def check(pair: tuple[Message, bytes]) -> None:
        assert pair[0] == Message.decode(pair[1])

    check()


@given(st.sampled_from(NESTED).flatmap(lambda held: st.tuples(st.just(held), encodings(held))))
def test_nested_arrays_reencode_identically(pair: tuple[Any, bytes]) -> None:
    value, octets = pair
    assert value == decode_value(octets)
    assert encode_value(value) == encode_value(decode_value(octets))


@pytest.mark.parametrize(
    "value, spellings",
    [
        (None, {"40"}),
        (True, {"41", "5601"}),
        (UInt(0), {"43", "5200", "7000000000"}),
        (5, {"5505", "810000000000000005"}),
        (300, {"81000000000000012c"}),
        ("a", {"a10161", "b10000000161"}),
        ([], {"45", "c00100", "d00000000400000000"}),
        ({}, {"c10100", "d10000000400000000"}),
        (Array(0x54, []), {"e0020054", "f0000000050000000054"}),
        (Array("int", [1]), {"e003015401", "f000000006000000015401", "e0060171" + "00000001"}),
        (
            Described(ULong(0x70), None),
            {"00537040", "0080000000000000007040"},
        ),
        (
            Header(),
            {
                *("00537045", "005370c0020140", "005370c0020142", "005370d00000000400000000"),
                "00a310" + b"amqp:header:list".hex() + "45",
            },
        ),
        (Properties(message_id=7), {"005373c003015307", "005373c00a01800000000000000007"}),
    ],
)
def test_encodings_of(value: Any, spellings: set[str]) -> None:
    assert [] == missing(encodings(value), spellings, lambda octets: [octets.hex()])
    # The simplest example is the canonical one.
    shortest = find(encodings(value), lambda _: True, settings=settings(database=None))
    assert isinstance(value, Array) or encode_value(value) == shortest


def test_unencodable_value_has_no_encodings() -> None:
    for wrong in (object(), Message(body=object()), "\ud800", Header(priority=256)):
        with pytest.raises(EncodeError):
            encodings(wrong)


@pytest.mark.parametrize(
    "name, values_, expected",
    [
        ("uint", [UInt(0)], [0x43, 0x52, 0x70]),
        ("uint", [UInt(0), UInt(1)], [0x52, 0x70]),
        ("uint", [UInt(256)], [0x70]),
        ("boolean", [True], [0x41, 0x56]),
        ("boolean", [True, False], [0x56]),
        ("list", [[]], [0x45, 0xC0, 0xD0]),
        ("list", [[1]], [0xC0, 0xD0]),
        ("list", [[None] * 255], [0xD0]),
        ("array", [Array("null", [None] * 256)], [0xF0]),
        ("string", ["a" * 256], [0xB1]),
        ("long", [], [0x55, 0x81]),
    ],
)
def test_constructors_for(name: str, values_: list[Any], expected: list[int]) -> None:
    assert expected == constructors_for(name, values_)
    for code in expected:
        assert code == decode_value(encode_value(Array(code, values_))).code


def test_module_exports_only_documented_names() -> None:
    public = {
        name
        for name, value in vars(amqp10msg.testing).items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    }

    assert public - {"annotations"} == set(amqp10msg.testing.__all__)
