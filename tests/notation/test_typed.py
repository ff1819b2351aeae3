"""Typed JSON: lossless over the whole type system, exact for messages, precise about errors."""

from __future__ import annotations

import copy
import json
import re
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg import (
    AmqpMap,
    AmqpSequence,
    AmqpValue,
    Array,
    Char,
    Data,
    Decimal32,
    DecodeError,
    Described,
    EncodeError,
    Float,
    Header,
    Int,
    Message,
    Properties,
    Symbol,
    Timestamp,
    UInt,
    ULong,
    decode_value,
    encode_value,
    scan,
)
from amqp10msg.composite import COMPOSITES
from amqp10msg.delivery import Accepted, Error, Rejected
from amqp10msg.notation import NotationError, from_typed, to_typed
from amqp10msg.notation._common import describe
from amqp10msg.notation.type_names import BIT_PATTERN_WIDTHS, TYPE_NAME_BY_CLASS, bits_of
from amqp10msg.sections import KIND_BY_CODE
from amqp10msg.sections.parts import parts_of
from amqp10msg.testing import composites, encodings, messages, mutated, values
from amqp10msg.wire.limits import UNLIMITED
from amqp10msg.wire.primitives import INTEGERS, identical
from bench.messages import GENERAL_VALUE


def through_json(typed: Any) -> Any:
    return json.loads(json.dumps(typed))


CLASSES = sorted({entry.cls for entry in COMPOSITES.values()}, key=lambda cls: cls.__name__)


# Values.


@given(values())
def test_values_round_trip_bit_for_bit(value: Any) -> None:
    typed = to_typed(value)
    back = from_typed(through_json(typed))
    assert identical(decode_value(encode_value(value)), back)
    assert typed == to_typed(back)
    assert encode_value(value) == encode_value(back)


@given(st.sampled_from(CLASSES).flatmap(composites))
def test_a_composite_is_its_descriptor_and_its_list(value: Any) -> None:
    typed = to_typed(value)
    assert ["described", "ulong", "list"] == [typed[0], typed[1][0], typed[2][0]]
    assert identical(decode_value(encode_value(value)), from_typed(through_json(typed)))


@pytest.mark.parametrize(
    "value, typed",
    [
        (None, ["null"]),
        (True, ["boolean", True]),
        (UInt(5), ["uint", 5]),
        (-1, ["long", -1]),
        (Timestamp(-(2**63)), ["timestamp", -(2**63)]),
        (Float(1.5), ["float", "3fc00000"]),
        (Float.from_bits(0x7FC00001), ["float", "7fc00001"]),
        (-0.0, ["double", "8000000000000000"]),
        (Decimal32(0x22500001), ["decimal32", "22500001"]),
        (Char("😀"), ["char", 128512]),
        (b"\x00\xff", ["binary", "00ff"]),
        ("é", ["string", "é"]),
        (Symbol("a"), ["symbol", "a"]),
        ([1, None], ["list", [["long", 1], ["null"]]]),
        ({"a": Int(1)}, ["map", [[["string", "a"], ["int", 1]]]]),
        (
            AmqpMap([(UInt(1), "a"), (1, "b")]),
            ["map", [[["uint", 1], ["string", "a"]], [["long", 1], ["string", "b"]]]],
        ),
        (Array(0x71, [1, 2]), ["array", "71", [["int", 1], ["int", 2]]]),
        # Built from a type's name, an array takes the constructor that it is encoded with.
        (Array("int", [1, 2]), ["array", "54", [["int", 1], ["int", 2]]]),
        (Array("int", [1, 200]), ["array", "71", [["int", 1], ["int", 200]]]),
        (Array("symbol", []), ["array", "a3", []]),
        (
            Array("string", ["x"], descriptors=[Symbol("d"), ULong(1)]),
            ["array", "a1", [["string", "x"]], [["symbol", "d"], ["ulong", 1]]],
        ),
        (Described(ULong(99), []), ["described", ["ulong", 99], ["list", []]]),
        (Header(durable=True), ["described", ["ulong", 0x70], ["list", [["boolean", True]]]]),
        (Accepted(), ["described", ["ulong", 0x24], ["list", []]]),
        (
            Rejected(error=Error("amqp:not-found")),
            [
                "described",
                ["ulong", 0x25],
                [
                    "list",
                    [
                        [
                            "described",
                            ["ulong", 0x1D],
                            ["list", [["symbol", "amqp:not-found"]]],
                        ]
                    ],
                ],
            ],
        ),
        (Data(b"a"), ["described", ["ulong", 0x75], ["binary", "61"]]),
    ],
)
def test_the_form_of_each_type(value: Any, typed: list[Any]) -> None:
    assert typed == to_typed(value)


def test_unencodable_values_are_refused() -> None:
    with pytest.raises(EncodeError, match="object has no AMQP type"):
        to_typed(object())
    with pytest.raises(EncodeError, match="not valid text"):
        to_typed("\ud800")


# Messages.


@given(st.data())
def test_messages_round_trip_with_their_sections(data: st.DataObject) -> None:
    message = data.draw(messages())
    wire = data.draw(encodings(message))
    decoded = Message.decode(wire)
    typed = to_typed(decoded)
    back = from_typed(through_json(typed))
    assert decoded.evolve(message_format=0) == back
    assert typed == to_typed(back)
    generic = [decode_value(wire[part.offset : part.end]) for part in scan(wire)]
    assert [part.name for part in scan(wire)] == [name for name, _ in typed]
    again = back.encode()
    for value, part in zip(generic, scan(again), strict=True):
        assert identical(value.value, decode_value(again[part.offset : part.end]).value)


def test_the_form_of_a_message() -> None:
    message = Message(
        [Data(b"\x01"), Data(b"")],
        header=Header(ttl=5),
        message_annotations={"x-opt-a": 1, 7: UInt(0)},
        properties=Properties(message_id=9),
        application_properties={"k": None},
        footer={},
    )
    assert [
        ["header", [["null"], ["null"], ["uint", 5]]],
        [
            "message-annotations",
            [[["symbol", "x-opt-a"], ["long", 1]], [["ulong", 7], ["uint", 0]]],
        ],
        ["properties", [["ulong", 9]]],
        ["application-properties", [[["string", "k"], ["null"]]]],
        ["data", "01"],
        ["data", ""],
        ["footer", []],
    ] == to_typed(message)
    assert [["amqp-sequence", [["long", 1]]]] == to_typed(Message(AmqpSequence([1])))
    assert [["amqp-value", ["list", []]]] == to_typed(Message(AmqpValue([])))
    assert [] == to_typed(Message())
    assert Message() == from_typed([])


def test_explicit_nulls_and_defaults_are_written_as_on_the_wire() -> None:
    decoded = Message.decode(bytes.fromhex("005370c005034250 0440"))
    assert [["header", [["boolean", False], ["ubyte", 4], ["null"]]]] == to_typed(decoded)


IRREGULAR = [
    # A map where the header's list should be, a list where data should be, and so on.
    ("005370c10100", [["header", ["map", []]]]),
    ("00537545", [["data", ["list", []]]]),
    ("00537540", [["data", ["null"]]]),
    ("005376a10161", [["amqp-sequence", ["string", "a"]]]),
    ("00537245", [["message-annotations", ["list", []]]]),
    # No section at all, with a descriptor and without one.
    ("005379c10100", [["unknown", ["described", ["ulong", 0x79], ["map", []]]]]),
    ("a10161", [["unknown", ["string", "a"]]]),
    # Out of order, and twice.
    ("005375a00000537045", [["data", ""], ["header", []]]),
    ("0053704500537045", [["header", []], ["header", []]]),
    # A field of the wrong type, and one too many.
    ("005370c00402500543", [["header", [["ubyte", 5], ["uint", 0]]]]),
    ("005370c007064040404040 41", [["header", [["null"]] * 5 + [["boolean", True]]]]),
    # An application property that is not simple, behind a key that is no string.
    ("005374c103024345", [["application-properties", [[["uint", 0], ["list", []]]]]]),
]


@pytest.mark.parametrize("wire, expected", IRREGULAR)
def test_irregular_messages_round_trip(wire: str, expected: Any) -> None:
    octets = bytes.fromhex(wire)
    message = Message.decode(octets, strict=False)
    typed = to_typed(message)
    assert expected == typed
    back = from_typed(through_json(typed))
    assert octets == back.encode()
    assert message == back
    assert back.violations != ()


def test_irregular_messages_have_violations() -> None:
    back = from_typed([["data", "00"], ["header", []]])
    assert ["section-out-of-order"] == [violation.rule for violation in back.violations]


def test_raw_bytes_are_unchanged() -> None:
    message = from_typed([["raw", "005379c10100"], ["data", "68656c6c6f"]])
    assert "005379c10100005375a00568656c6c6f" == message.encode().hex()


def test_remarks_are_ignored() -> None:
    assert False is from_typed(["boolean", False, {"code": "56"}])
    message = from_typed(
        [
            ["header", [["boolean", True]], {"descriptor": "symbol"}],
            ["data", "0102", {"descriptor": "ulong8"}],
            ["footer", [[["symbol", "a"], ["uint", 0, {"code": "70"}]]], {"code": "d1"}],
        ]
    )
    assert Message(b"\x01\x02", header=Header(durable=True), footer={"a": UInt(0)}) == message
    assert from_typed(["array", "71", [["int", 1]], {"note": "x"}]) == Array(0x71, [Int(1)])


# Errors.


MISFIT = ["array", "43", [["uint", 5]]]


@pytest.mark.parametrize(
    "typed, path, reason",
    [
        (None, "$", "not null"),
        ({}, "$", "not an object with no keys"),
        ("uint", "$", "not 'uint'"),
        ([5], "$", "a list of 1"),
        (["int5", 1], "$[0]", "the name of a type"),
        (["uint"], "$", "expected 2 items for uint, not 1"),
        (["null", 1], "$", "expected 1 items for null, not 2"),
        (["uint", 1, 2], "$", "expected 2 items"),
        (["uint", -1], "$[1]", "0 to 4294967295 for uint, not -1"),
        (["uint", True], "$[1]", "an integer for uint, not true"),
        (["uint", 1.0], "$[1]", "not 1.0"),
        (["long", 2**63], "$[1]", "for long"),
        (["timestamp", "2024"], "$[1]", "an integer for timestamp"),
        (["boolean", 1], "$[1]", "true or false, not 1"),
        (["float", "7fc0000"], "$[1]", "8 hex digits"),
        (["float", "7fc0 000"], "$[1]", "8 hex digits"),
        (["double", "7fc00000"], "$[1]", "16 hex digits"),
        (["uuid", "00"], "$[1]", "32 hex digits"),
        (["binary", "0g"], "$[1]", "expected hex"),
        (["binary", "00\n"], "$[1]", "expected hex"),
        (["char", 0xD800], "$[1]", "not a surrogate"),
        (["char", "a"], "$[1]", "an integer"),
        (["string", None], "$[1]", "the text of a string"),
        (["string", "\ud800"], "$[1]", "U\\+D800"),
        (["symbol", "é"], "$[1]", "U\\+00E9, which is not ASCII"),
        (["string", {"hex": "fffe"}], "$[1]", "use binary"),
        (["symbol", {"hex": "c3a9"}], "$[1]", "use binary"),
        (["list", {}], "$[1]", "the content of a list"),
        (["list", [["uint", 1], ["uint", "x"]]], "$[1][1][1]", "an integer"),
        (["list", [[]]], "$[1][0]", "a value such as"),
        (["map", [[["uint", 1]]]], "$[1][0]", "a \\[key, value\\] pair"),
        (
            ["map", [[["uint", 1], ["null"]], [["uint", 1], ["null"]]]],
            "$[1][1][0]",
            "duplicate map key",
        ),
        (["map", [[["uint", 1], ["list", [["x", 1]]]]]], "$[1][0][1][1][0][0]", "name of a type"),
        (["array", "zz", []], "$[1]", "2 hex digits"),
        (["array", "99", []], "$[1]", "a format code of Part 1"),
        (["array", "71", [["uint", 1]]], "$[2][0]", "int, the type of the array's constructor 71"),
        (["array", "54", [["int", 1], ["int", 300]]], "$", "does not fit an array of constructor"),
        (["list", [["array", "a0", [["binary", "00" * 256]]]]], "$[1][0]", "does not fit an array"),
        (["array", "71", [], [["nope"]]], "$[3][0][0]", "name of a type"),
        (["described", ["ulong", 1]], "$", "expected 3 items for described"),
        (["described", ["ulong", 1], ["list", [7]]], "$[2][1][0]", "a value such as"),
        ([["data", "0"]], "$[0][1]", "expected hex"),
        ([["data"]], "$[0]", "a section's name and its content"),
        ([["data", "00"], "x"], "$[1]", "a section such as"),
        ([["body", []]], "$[0][0]", "a section, one of header"),
        ([["header", [["uint", -1]]]], "$[0][1][0][1]", "0 to 4294967295"),
        ([["header", {}]], "$[0][1]", "a list of values"),
        ([["footer", [[["symbol", "a"]]]]], "$[0][1][0]", "pair"),
        ([["amqp-value", 5]], "$[0][1]", "a value such as"),
        ([["amqp-value", ["array", "54", [["int", 300]]]]], "$[0][1]", "does not fit"),
        ([["raw", 5]], "$[0][1]", "expected hex"),
        ([["raw", "3f"]], "$", "not a sequence of AMQP values: at byte 0: 0x3F is not a"),
        ([["unknown", []]], "$[0][1]", "a value such as"),
        ([["amqp-sequence", [["null"], MISFIT]]], "$[0][1][1]", "does not fit"),
        ([["footer", [[["symbol", "a"], MISFIT]]]], "$[0][1][0][1]", "does not fit"),
        ([["!decode-error", "x", 3]], "$[0]", "a section's name and its content"),
    ],
)
def test_errors_have_path_and_reason(typed: Any, path: str, reason: str) -> None:
    with pytest.raises(NotationError, match=reason) as caught:
        from_typed(typed)
    assert path == caught.value.path
    assert isinstance(caught.value, ValueError)


def nested(levels: int, wrap: Any, inner: Any = None) -> Any:
    made = inner or ["null"]
    for _ in range(levels):
        made = wrap(made)
    return made


WRAPS = [
    pytest.param(lambda inner: ["list", [inner]], id="list"),
    pytest.param(lambda inner: ["map", [[["null"], inner]]], id="map"),
    pytest.param(lambda inner: ["map", [[inner, ["null"]]]], id="key"),
    pytest.param(lambda inner: ["described", ["ulong", 1], inner], id="described"),
    pytest.param(lambda inner: ["described", inner, ["ulong", 1]], id="descriptor"),
]


@pytest.mark.parametrize("wrap", WRAPS)
def test_nesting_up_to_the_kernel_limit(wrap: Any) -> None:
    typed = nested(200, wrap)
    assert typed == to_typed(from_typed(typed))


@pytest.mark.parametrize("wrap", [*WRAPS, lambda inner: ["array", "e0", [inner]]])
def test_deeper_nesting_is_refused(wrap: Any) -> None:
    inner = ["array", "40", []]
    for levels in (300, 100_000):
        with pytest.raises(NotationError, match="nested"):
            from_typed(nested(levels, wrap, inner))


def test_errors_shorten_the_actual_value() -> None:
    large: list[Any] = ["x" * 10**6, 10**5000, ["y" * 10**6], [[]] * 10**5, {"k" * 10**5: 1}]
    for found in large:
        with pytest.raises(NotationError) as caught:
            from_typed(["uint", found])
        assert len(str(caught.value)) < 200


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["uint", "list", "map", "array", "described", "data", "header", "a3", "raw"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner),
)


@given(JSON)
def test_any_json_is_read_or_refused(typed: Any) -> None:
    try:
        read = from_typed(typed)
    except ValueError:
        return
    to_typed(read)


# What is written, and read, against the decoded values.

ODD: st.SearchStrategy[Any] = st.sampled_from(
    [
        *(None, True, 0, -1, 256, 2**31, 2**32, 2**63, 2**64, 0xD800, 0x110000, 1.5),
        *("", "0", "00", "0 0", "a b0", "A0", "é", "\ud800", "list", "uint", "null", "header"),
        *([], ["null"], ["null", None], ["uint", 5], ["string", "k"], ["symbol", "k"], {}),
        *(["long", 5, {"code": "55"}], ["array", "71", [["int", 1]]], ["array", "zz", []]),
        *(["described", ["ulong", 5], ["null"]], ["char", 0xDFFF], ["map", [[["null"], ["null"]]]]),
        *(["list", ["uint", 5]], ["map", [[["string", "k"], ["null"]]] * 2], ["raw", "40"]),
    ]
).map(copy.deepcopy)


def places_of(typed: Any, place: tuple[int, ...] = ()) -> list[tuple[int, ...]]:
    inner = enumerate(typed) if isinstance(typed, list) else ()
    return [place, *(found for i, item in inner for found in places_of(item, (*place, i)))]


@st.composite
def spoilt(draw: st.DrawFn) -> Any:
    """Typed JSON with other things in some places, and more or less in others."""
    strategy = messages() | values() | st.just(GENERAL)
    typed: Any = copy.deepcopy(to_typed(draw(strategy)))
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.sampled_from(places_of(typed)))
        if not place:
            return draw(ODD)
        at = typed
        for index in place[:-1]:
            at = at[index]
        change = draw(st.sampled_from(["set", "insert", "delete", "double"]))
        if change == "set":
            at[place[-1]] = draw(ODD)
        elif change == "insert":
            at.insert(place[-1], draw(ODD))
        elif change == "delete":
            del at[place[-1]]
        else:
            at.append(copy.deepcopy(at[place[-1]]))
    return typed


GENERAL = Message.decode(GENERAL_VALUE)


def leniently(octets: bytes) -> Message | None:
    try:
        return Message.decode(octets, strict=False)
    except DecodeError:
        return None


def by_values(value: Any) -> list[Any]:
    """Typed JSON of a decoded value, as the table of the forms has it."""
    name = TYPE_NAME_BY_CLASS[type(value)]
    if name == "list":
        return [name, list(map(by_values, value))]
    if name == "map":
        return [name, [[by_values(key), by_values(item)] for key, item in value.items()]]
    if name == "array":
        typed = [name, f"{value.code:02x}", list(map(by_values, value.values))]
        return [*typed, list(map(by_values, value.descriptors))] if value.descriptors else typed
    if name == "described":
        return [name, by_values(value.descriptor), by_values(value.value)]
    if name in BIT_PATTERN_WIDTHS:
        return [name, bits_of(value).hex()]
    if name in INTEGERS or name == "long":
        return [name, int(value)]
    if name == "null":
        return [name]
    if name == "binary":
        return [name, value.hex()]
    if name == "char":
        return [name, ord(value)]
    return [name, str(value) if name == "symbol" else value]


def sections_by_values(message: Message) -> list[Any]:
    octets = message.encode()
    made: list[Any] = []
    for code, start, content, end in parts_of(octets):
        value = value_strictly(octets[start if code < 0 else content : end])
        if value is None:
            made.append(["raw", octets[start:end].hex()])
        elif code < 0:
            made.append(["unknown", by_values(value[0])])
        else:
            typed = by_values(value[0])
            kind = KIND_BY_CODE[code]
            made.append([kind.name, typed[1] if typed[0] == kind.source else typed])
    return made


def value_strictly(octets: bytes) -> tuple[Any] | None:
    """Return a tuple of the value, or None if the bytes are not exactly one valid value."""
    try:
        return (decode_value(octets, limits=UNLIMITED),)
    except DecodeError:
        return None


@given(
    messages()
    | messages().flatmap(encodings).map(partial(Message.decode, strict=False))
    | messages().flatmap(encodings).flatmap(mutated).map(leniently).filter(bool)
)
def test_messages_are_written_as_their_values_are(message: Message) -> None:
    assert sections_by_values(message) == to_typed(message)


@given(values())
def test_values_are_written_as_they_are_decoded(value: Any) -> None:
    assert by_values(decode_value(encode_value(value))) == to_typed(value)


def without_remarks(typed: Any) -> Any:
    """What is read of typed JSON: no remarks, and lower-case digits."""
    if not isinstance(typed, list):
        return typed
    if len(typed) > 1 and isinstance(typed[-1], dict) and isinstance(typed[0], str):
        typed = typed[:-1]
    if typed[:1] and typed[0] in ("data", "raw", "array", "binary", *BIT_PATTERN_WIDTHS):
        typed = [one.lower() if isinstance(one, str) else one for one in typed]
    return list(map(without_remarks, typed))


def check_the_place(typed: Any, error: NotationError) -> None:
    """Check that the value at the error's path is the value in its reason."""
    at = typed
    for index in re.findall(r"\[(\d+)\]", error.path):
        at = at[int(index)]
    assert error.args == (error.reason, error.path)
    wanted = re.fullmatch(r"expected (?!\d items).*, not .*", error.reason, re.DOTALL)
    if wanted:
        assert error.reason.endswith(f", not {describe(at)}")


@given(spoilt())
def test_reading_and_writing_restores_the_document(typed: Any) -> None:
    try:
        made = from_typed(typed)
    except NotationError as error:
        check_the_place(typed, error)
        return
    except DecodeError:
        made = None
    raw = [one for one in typed if isinstance(one, list) and one[:1] == ["raw"]]
    if not raw:
        assert without_remarks(typed) == to_typed(made)
