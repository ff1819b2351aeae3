"""Templates: byte for byte what building the message and encoding it gives, also in errors."""

from __future__ import annotations

import copy
import datetime
import decimal
import enum
import pickle
import uuid
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import amqp10msg
from amqp10msg import (
    AmqpSequence,
    AmqpValue,
    Array,
    Data,
    Described,
    EncodeError,
    Header,
    Int,
    Message,
    Properties,
    Symbol,
    Timestamp,
    UInt,
    ULong,
)
from amqp10msg.testing import bodies, messages, values
from bench.messages import BODY, REFERENCE
from fuzz import picks, templates

ANY = messages(body=st.none() | bodies())


def with_values(message: Message, found: dict[str, Any]) -> Message:
    """Build a message by hand: one of the same sections with these values in it."""
    made: Message = templates.fresh(amqp10msg, copy.deepcopy(message))
    for path, value in found.items():
        if path == "body":
            made.body = value
        elif path.startswith(("header.", "properties.")):
            section, _, name = path.partition(".")
            if getattr(made, section) is None:
                setattr(made, section, Header() if section == "header" else Properties())
            setattr(getattr(made, section), name, value)
        else:
            section, _, rest = path.partition("[")
            if getattr(made, section) is None:
                setattr(made, section, {})
            key = rest[:-1]
            getattr(made, section)[int(key) if key.isdecimal() else eval(key)] = value
    return made


@given(ANY)
def test_prototype_values_reproduce_the_prototype(message: Message) -> None:
    templates.check(amqp10msg, Message.decode(message.encode()))


@given(ANY, ANY, st.data())
def test_template_equals_building_and_encoding(
    message: Message, other: Message, data: st.DataObject
) -> None:
    # Values of another message, whose types are declared where the prototype has others.
    held = {path: value for path, value in picks.held(other) if path != "body"}
    paths = data.draw(st.lists(st.sampled_from([*held]), unique=True)) if held else []
    found = {path: held[path] for path in paths}
    before = dict(picks.held(message))
    fields: list[Any] = [
        (path, type(value))
        if value is not None
        and path.startswith(("application", "message", "delivery", "footer"))
        and type(value) is not type(before.get(path))
        and not (path.startswith("application") and isinstance(value, Described))
        else path
        for path, value in found.items()
    ]
    # A prototype of other types, where none may be declared.
    for path, value in before.items():
        if (
            path in found
            and path in fields
            and "[" in path
            and type(found[path]) is not type(value)
        ):
            message = with_values(message, {path: None})

    expected = with_values(message, found).encode()

    assert expected == message.template(*fields).encode(*found.values())


@given(ANY, st.data())
def test_template_and_message_agree_on_any_values(message: Message, data: st.DataObject) -> None:
    found = [path for path, _ in picks.held(message)]
    paths = data.draw(st.lists(st.sampled_from(found), unique=True))
    drawn = data.draw(st.lists(values(), min_size=len(paths), max_size=len(paths)))

    templates.same(amqp10msg, message.template(*paths), drawn)


@given(st.none() | bodies(), st.none() | bodies() | values())
@example(None, [Data(b"a"), Data(b"b")])
@example(None, [AmqpValue(1), Data(b"b")])
@example(None, [Data(b"a"), 5])
@example(None, b"\x00" * 300)
@example(Data(b""), None)
@example(AmqpValue(None), None)
def test_bodies(body: Any, value: Any) -> None:
    template = Message(body, properties=Properties(to="a")).template("body", "properties.to")

    templates.same(amqp10msg, template, [value, "b"])
    if body is None:
        try:
            expected = Message(value, properties=Properties(to="b")).encode()
        except (EncodeError, TypeError) as error:
            with pytest.raises(type(error)):
                template.encode(value, "b")
        else:
            assert expected == template.encode(value, "b")


def test_a_message_with_three_values() -> None:
    template = Message.decode(REFERENCE).template(
        "properties.message_id", "application_properties.attempt", "body"
    )

    assert REFERENCE == template.encode("msg-00417", 70_000, BODY)
    made = Message.decode(template.encode("m-1", 3, b"..."))
    assert ("m-1", b"...") == (made.message_id, made.value)
    assert isinstance(made.application_property("attempt"), Int)
    assert ("ulong, uuid, binary or string", "int", "binary") == template.kinds
    assert "Template('properties.message_id', 'application_properties.attempt', 'body')" == repr(
        template
    )


@pytest.mark.parametrize("count", [0, 1, 2, 200])
@pytest.mark.parametrize("size", [0, 200, 247, 248, 249, 250, 251, 252, 300, 70_000])
def test_sizes_and_counts_at_their_limits(count: int, size: int) -> None:
    entries = {f"k{number}": number for number in range(count)}
    message = Message(application_properties={**entries, "v": ""})
    template = message.template("application_properties.v", "properties.to", "header.ttl")
    text = "x" * size

    expected = Message(
        application_properties={**entries, "v": text},
        properties=Properties(to=text),
        header=Header(ttl=size),
    ).encode()

    assert expected == template.encode(text, text, size)


@pytest.mark.parametrize(
    "ttl, priority, count", [(None, None, None), (None, 4, 0), (5, 4, 0), (None, 9, 0), (1, 2, 3)]
)
def test_template_omits_null_and_default_fields(ttl: Any, priority: Any, count: Any) -> None:
    template = Message(header=Header(durable=True, first_acquirer=True)).template(
        "header.ttl", "header.priority", "header.delivery_count"
    )
    expected = Message(
        header=Header(
            durable=True, first_acquirer=True, ttl=ttl, priority=priority, delivery_count=count
        )
    ).encode()

    assert expected == template.encode(ttl, priority, count)
    templates.same(amqp10msg, template, [ttl, priority, count])
    # A section that is there for its fields alone.
    alone = Message().template("header.ttl", "header.priority", "header.delivery_count")
    header = Header(ttl=ttl, priority=priority, delivery_count=count)
    assert Message(header=header).encode() == alone.encode(ttl, priority, count)


class Color(enum.Enum):
    RED = "red"


MOMENT = datetime.datetime(2024, 1, 2, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    "declared, value, built",
    [
        (Int, 3, Int(3)),
        (Int, None, None),
        (UInt, UInt(3), UInt(3)),
        (int, 3, 3),
        (float, 3, 3.0),
        (amqp10msg.Float, 0.5, amqp10msg.Float(0.5)),
        (Symbol, "a", Symbol("a")),
        (str, "a", "a"),
        (str, Color.RED, Color.RED),
        (amqp10msg.Char, "a", amqp10msg.Char("a")),
        (Timestamp, MOMENT, MOMENT),
        (Timestamp, 5, Timestamp(5)),
        (datetime.datetime, MOMENT, MOMENT),
        (uuid.UUID, uuid.UUID(int=7), uuid.UUID(int=7)),
        (decimal.Decimal, decimal.Decimal("1.5"), decimal.Decimal("1.5")),
        (
            amqp10msg.Decimal64,
            decimal.Decimal("1.5"),
            amqp10msg.Decimal64.from_decimal(decimal.Decimal("1.5")),
        ),
        (bytes, bytearray(b"a"), b"a"),
        (bool, True, True),
    ],
)
def test_declared_types(declared: type, value: Any, built: Any) -> None:
    expected = Message(application_properties={"a": built}).encode()

    for message, field in (
        (Message(), ("application_properties.a", declared)),
        (Message(application_properties={"a": "other"}), ("application_properties.a", declared)),
    ):
        assert expected == message.template(field).encode(value)
    if built is not None and type(built) is declared:
        # The prototype's type.
        template = Message(application_properties={"a": built}).template("application_properties.a")
        assert expected == template.encode(value)


@pytest.mark.parametrize(
    "declared, value, body",
    [
        (Data, b"a", Data(b"a")),
        (bytes, b"a", Data(b"a")),
        (AmqpSequence, [1], AmqpSequence([1])),
        (AmqpValue, [1], AmqpValue([1])),
        (Int, 1, AmqpValue(Int(1))),
        (dict, {"a": 1}, AmqpValue({"a": 1})),
        (Array, Array("int", [1]), AmqpValue(Array("int", [1]))),
    ],
)
def test_declared_bodies(declared: type, value: Any, body: Any) -> None:
    assert Message(body).encode() == Message("x").template(("body", declared)).encode(value)


def test_declared_fields() -> None:
    template = Message().template(("properties.message_id", uuid.UUID), ("properties.to", str))

    expected = Message(properties=Properties(message_id=uuid.UUID(int=1), to="a")).encode()
    assert expected == template.encode(uuid.UUID(int=1), "a")
    with pytest.raises(EncodeError, match=r"^properties\.message-id: must be uuid, not 'm-1'"):
        template.encode("m-1", "a")


def test_whole_sections() -> None:
    template = Message("x", header=Header(priority=1)).template(
        "header", "application_properties", "message_annotations"
    )
    header = Header(ttl=5)

    assert Message(
        "x", header=header, application_properties={"a": 1}, message_annotations={5: "five"}
    ).encode() == template.encode(header, {"a": 1}, {5: "five"})
    assert Message("x").encode() == template.encode(None, None, None)
    wrong: list[tuple[Any, ...]] = [(5, None, None), (None, {"a": []}, None), (None, 5, None)]
    for values_ in wrong:
        with pytest.raises(EncodeError):
            template.encode(*values_)


@pytest.mark.parametrize(
    "path, value",
    [
        ("header.ttl", -1),
        ("header.ttl", "5"),
        ("header.priority", 256),
        ("properties.message_id", 2**64),
        ("properties.content_type", "ü"),
        ("properties.to", "\ud800"),
        ("application_properties['n']", [1]),
        ("application_properties['n']", Described(1, [1])),
        ("application_properties['n']", object()),
        ("message_annotations['n']", {"a": [object()]}),
        ("message_annotations[5]", 2**70),
        ("body", object()),
        ("body", ["a", object()]),
    ],
)
def test_wrong_values_raise_as_encoding_does(path: str, value: Any) -> None:
    message = Message()
    with pytest.raises(EncodeError) as expected:
        with_values(message, {path: AmqpValue(value) if path == "body" else value}).encode()

    with pytest.raises(EncodeError) as raised:
        message.template(path).encode(value)

    assert (expected.value.path, expected.value.reason) == (raised.value.path, raised.value.reason)


def test_a_value_that_contains_itself() -> None:
    endless: list[Any] = []
    endless.append(endless)

    with pytest.raises(EncodeError, match="contain themselves"):
        Message().template("body").encode(endless)


@pytest.mark.parametrize(
    "fields, text",
    [
        (["header.tll"], "did you mean 'header.ttl'"),
        (["body", "body"], "overlap"),
        ([("header.ttl", str)], "header.ttl is uint"),
        ([("properties.message_id", Int)], "is ulong, uuid"),
        ([("properties.to", bytes)], "is string"),
        ([("application_properties.a", list)], "simple type, not list"),
        ([("application_properties.a", "int")], "not the class of an AMQP type"),
        ([("application_properties.a", object)], "not the class of an AMQP type"),
        ([("application_properties.a", type(None))], "not the class of an AMQP type"),
        ([("body", Header)], "not the class of an AMQP type"),
        ([("header", Properties)], "header is a section of class Header"),
    ],
)
def test_wrong_fields(fields: list[Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        Message().template(*fields)


def test_template_checks_constant_values_immediately() -> None:
    with pytest.raises(EncodeError, match=r"^application-properties\['b'\]"):
        Message(application_properties={"a": 1, "b": []}).template("application_properties.a")
    with pytest.raises(EncodeError, match=r"^header\.ttl: "):
        Message(header=Header(ttl=-1)).template("header.priority")
    # What varies may be anything.
    Message(header=Header(ttl=-1)).template("header.ttl")


def test_a_wrong_number_of_values() -> None:
    template = Message().template("body")

    for values_ in ((), (1, 2)):
        with pytest.raises(TypeError, match=f"takes 1 values, not {len(values_)}"):
            template.encode(*values_)
        with pytest.raises(TypeError, match=f"takes 1 values, not {len(values_)}"):
            template.message(*values_)


def test_later_changes_of_the_prototype_have_no_effect() -> None:
    message = Message("x", header=Header(ttl=5), application_properties={"a": 1, "b": 2})
    template = message.template("application_properties.a")
    expected = template.encode(7)

    assert message.header is not None
    assert message.application_properties is not None
    message.header.ttl = 9
    message.application_properties["b"] = 9
    message.body = Data(b"")

    assert expected == template.encode(7) == template.message(7).encode()


def test_template_ignores_original_bytes_of_the_prototype() -> None:
    # A ttl of four bytes where one does.
    octets = bytes.fromhex("005370c0080340407000000005005377a10178")
    message = Message.decode(octets)

    assert octets == message.encode()
    assert Message("x", header=Header(ttl=5)).encode() == message.template("body").encode("x")


def test_copies() -> None:
    template = Message("x", properties=Properties(message_id=ULong(1))).template(
        "properties.message_id", ("application_properties.a", Int)
    )

    for made in (
        copy.copy(template),
        copy.deepcopy(template),
        pickle.loads(pickle.dumps(template)),
    ):
        assert template.encode(7, 5) == made.encode(7, 5)
        assert (template.paths, template.kinds) == (made.paths, made.kinds)


def test_uninitialised_object_raises() -> None:
    with pytest.raises((AttributeError, TypeError)):
        amqp10msg.Template.__new__(amqp10msg.Template).encode()
