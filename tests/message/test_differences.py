"""The differences between two messages."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from hypothesis import given

from amqp10msg import (
    AmqpSequence,
    AmqpValue,
    Data,
    Difference,
    Float,
    Header,
    Int,
    Message,
    Properties,
    Symbol,
    UInt,
    ULong,
    differences,
)
from amqp10msg.testing import messages

ADDED, REMOVED, CHANGED, REORDERED = "added", "removed", "changed", "reordered"


@given(messages(), messages())
def test_only_equal_messages_have_no_differences(before: Message, after: Message) -> None:
    assert (before == after) == (not differences(before, after))
    assert [] == differences(before, before)
    assert [] == differences(before, Message.decode(before.encode()))


@given(messages(), messages())
def test_reverse_comparison_has_the_same_paths(before: Message, after: Message) -> None:
    opposite = {ADDED: REMOVED, REMOVED: ADDED}
    found = [
        (one.path, opposite.get(one.kind, one.kind), repr(one.after), repr(one.before))
        for one in differences(before, after)
    ]
    assert sorted(found) == sorted(
        (one.path, one.kind, repr(one.before), repr(one.after))
        for one in differences(after, before)
    )


@given(messages(), messages())
def test_changed_fields_are_the_differences(message: Message, other: Message) -> None:
    source = other.properties or Properties()
    message = message.evolve(properties=message.properties or Properties())
    for field in attrs.fields(Properties):
        changed = message.evolve(**{field.name: getattr(source, field.name)})
        found = differences(message, changed)
        expected = [] if changed == message else [f"properties.{field.name.replace('_', '-')}"]
        assert expected == [one.path for one in found]


@pytest.mark.parametrize(
    "before, after, expected",
    [
        (Message(b"x"), Message(b"y"), [("body", CHANGED, b"x", b"y")]),
        (Message(b"x"), Message("x"), [("body", CHANGED, Data(b"x"), AmqpValue("x"))]),
        (Message(b"x"), Message(), [("body", REMOVED, Data(b"x"), None)]),
        (Message(b"x"), Message([Data(b"x"), Data(b"y")]), [("body[1]", ADDED, None, Data(b"y"))]),
        (Message(AmqpValue(None)), Message("x"), [("body", ADDED, None, "x")]),
        (
            Message(AmqpSequence([1, [2]])),
            Message(AmqpSequence([1, [3], 4])),
            [("body[1][0]", CHANGED, 2, 3), ("body[2]", ADDED, None, 4)],
        ),
        (
            Message({"a": {"b": [1, 2]}, 5: "x"}),
            Message({"a": {"b": [1]}, 5: "y"}),
            [("body['a']['b'][1]", REMOVED, 2, None), ("body[5]", CHANGED, "x", "y")],
        ),
        (
            Message({"a": 1, "b": 2}),
            Message({"b": 2, "a": 1}),
            [("body", REORDERED, {"a": 1, "b": 2}, {"b": 2, "a": 1})],
        ),
        (
            Message({"a": 1, "b": 2}),
            Message({"b": 2, "a": 3}),
            [("body['a']", CHANGED, 1, 3)],
        ),
        (Message(Float("nan")), Message(Float("nan")), []),
        (Message("x"), Message(Symbol("x")), [("body", CHANGED, "x", Symbol("x"))]),
        (Message({"x": 1}), Message({Symbol("x"): 1}), None),
        (
            Message("x", application_properties={"n": UInt(5)}),
            Message("x", application_properties={"n": ULong(5)}),
            [("application-properties['n']", CHANGED, UInt(5), ULong(5))],
        ),
        (
            Message("x", ttl=5, message_annotations={"x-opt-a": 1, 7: "b"}),
            Message("x", subject="s", message_annotations={"x-opt-a": 2}),
            [
                ("header", REMOVED, Header(ttl=5), None),
                ("message-annotations['x-opt-a']", CHANGED, 1, 2),
                ("message-annotations[7]", REMOVED, "b", None),
                ("properties", ADDED, None, Properties(subject="s")),
            ],
        ),
        (
            Message("x", message_format=1),
            Message("x"),
            [("message-format", CHANGED, 1, 0)],
        ),
    ],
)
def test_differences(
    before: Message, after: Message, expected: list[tuple[Any, ...]] | None
) -> None:
    found = differences(before, after)

    if expected is None:  # two keys that are written alike
        assert {"body['x']"} == {one.path for one in found}
    else:
        assert [Difference(*one) for one in expected] == found
    assert all(str(one).startswith(f"{one.path}: ") for one in found)


def test_python_values_equal_what_they_decode_to() -> None:
    """A str as the key of an annotation is encoded as a symbol, and an int of an id as a ulong."""
    message = Message(
        "x",
        message_id=5,
        message_annotations={"x-opt-a": 1, "x-opt-b": [1, "b"]},
        delivery_annotations={7: "c"},
        footer={"x-opt-crc": UInt(7)},
    )
    decoded = Message.decode(message.encode())
    assert [] == differences(message, decoded)

    changed = message.evolve(message_id=6, message_annotations={"x-opt-a": 1, "x-opt-b": [1]})
    paths = ["message-annotations['x-opt-b'][1]", "properties.message-id"]
    assert paths == [one.path for one in differences(decoded, changed)]
    assert paths == [one.path for one in differences(changed, message)]


def test_leniently_decoded_sections_are_compared() -> None:
    sections = {
        "data": "00 53 75 a0 01 78",
        "malformed header": "00 53 70 c0 03 01 a1 00",
        "unknown": "00 53 79 a0 01 78",
        "header": "00 53 70 45",
    }
    octets = {name: bytes.fromhex(text) for name, text in sections.items()}
    plain = Message.decode(octets["data"], strict=False)
    unknown = Message.decode(octets["data"] + octets["unknown"], strict=False)
    late = Message.decode(octets["data"] + octets["header"], strict=False)
    early = Message.decode(octets["header"] + octets["data"], strict=False)

    assert ["unknown"] == [one.path for one in differences(plain, unknown)]
    assert ["header"] == [one.path for one in differences(plain, early)]
    assert ["message"] == [one.path for one in differences(late, early)]
    assert [] == differences(unknown, unknown)


def test_map_with_a_repeated_key_is_compared_as_a_whole() -> None:
    wire = bytes.fromhex("00 53 77 c1 09 04 54 01 54 02 54 01 54 03")
    repeated = Message.decode(wire, strict=False)

    (found,) = differences(repeated, Message({Int(1): Int(2)}))
    assert ("body", CHANGED) == (found.path, found.kind)
    assert [] == differences(repeated, repeated)


@pytest.mark.parametrize("wrong", [b"x", None, "x"])
def test_argument_must_be_a_message(wrong: Any) -> None:
    with pytest.raises(TypeError, match="Message"):
        differences(wrong, Message())
    with pytest.raises(TypeError, match="Message"):
        differences(Message(), wrong)
