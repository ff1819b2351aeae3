"""What RabbitMQ accepts and then cannot deliver: the lossless profile carries it."""

from __future__ import annotations

import math
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg import (
    AmqpValue,
    Array,
    Decimal32,
    Decimal64,
    Decimal128,
    DecodeError,
    Described,
    Float,
    Header,
    Int,
    Message,
    Properties,
    Symbol,
    ULong,
)
from amqp10msg.basic import (
    BasicMessage,
    BasicProperties,
    FieldArray,
    FieldTable,
    ScaledDecimal,
)
from amqp10msg.testing import basic_messages, messages
from amqp10msg.translate import (
    PROFILES,
    Circumstances,
    TranslationError,
    to_amqp10,
    to_basic,
)
from amqp10msg.translate.residual import RESIDUAL_NAME
from tests.lossless import MESSAGE, ODD, octets_of, sent

# What RabbitMQ accepts and then cannot deliver: consumers die of it, and the message stays.

NAN = float("nan")


POISON_HEADERS: list[tuple[str, str, Any]] = [
    ("x-retry", "V", None),
    *((name, "D", ScaledDecimal(2, 314)) for name in ("k", "x-k")),
    *((name, "d", NAN) for name in ("k", "x-k")),
    *((name, "f", Float(float("inf"))) for name in ("k", "x-k")),
    ("x-k", "A", FieldArray.of([("S", "a"), ("D", ScaledDecimal(0, 7))])),
    ("x-k", "A", FieldArray.of([("A", FieldArray([float("-inf")]))])),
    ("x-k", "F", FieldTable({"a": [{"b": NAN}]})),
    ("x-k", "F", FieldTable({"a": ScaledDecimal(1, 1)})),
    ("CC", "S", "q"),
    ("BCC", "I", 1),
    ("x-amqp-1.0-properties", "S", "text"),
    ("x-amqp-1.0-footer", "x", b"\xff"),
    ("x-stream-filter-value", "I", 5),
    ("x-stream-filter-value", "S", "k" * 4097),
    # What streams take for what they stored, and what brokers write over.
    ("x-basic-expiration", "S", "abc"),
    ("x-basic-foo", "I", 5),
    ("x-cc", "S", "q"),
    ("x-opt-deaths", "S", "never"),
    ("x-routing-key", "S", "q"),
    ("x-delivery-count", "l", 5),
    ("x-stream-offset", "I", 5),
]


POISON_MESSAGES: list[Message] = [
    *(
        Message(b"", message_annotations={"x-opt-x-k": value})
        for value in (None, NAN, Float(NAN), Decimal64.from_decimal("3.14"), [[NAN]], {"a": [NAN]})
    ),
    *(
        Message(b"", application_properties={"k": value, "a": 1})
        for value in (NAN, Float(NAN), Decimal32(0), Decimal64.from_decimal(1), Decimal128(0))
    ),
    *(
        Message(b"", application_properties={name: "text", "a": 1})
        for name in ("CC", "BCC", "x-amqp-1.0-app-properties", "x-amqp-1.0-message-annotations")
    ),
    Message(b"", application_properties={"x-k": None}),
    Message(b"", message_annotations={"x-amqp-1.0-properties": b"\xff"}),
    Message(b"", message_annotations={"x-stream-filter-value": 5}),
    Message(b"", message_annotations={"x-opt-x-stream-filter-value": b"b"}),
    *(
        Message(b"", message_annotations={name: "v"})
        for name in ("x-opt-x-basic-expiration", "x-opt-x-cc", "x-cc", "x-opt-x-delivery-count")
    ),
    *(
        Message(b"", application_properties={name: "v", "a": 1})
        for name in ("x-basic-foo", "x-cc", "x-exchange", "x-delivery-count", "x-last-death-queue")
    ),
]


def undeliverable(value: Any) -> bool:
    """Whether RabbitMQ 4.0 fails on a value, wherever it stands."""
    if isinstance(value, (FieldTable, FieldArray)):
        return any(undeliverable(entry[-1]) for entry in value.entries)
    if isinstance(value, dict):
        return any(map(undeliverable, value.values()))
    if isinstance(value, (list, tuple)):
        return any(map(undeliverable, value))
    if isinstance(value, (float, Float)):
        return not math.isfinite(value)
    return isinstance(value, (Decimal32, Decimal64, Decimal128, ScaledDecimal))


def poison(message: Message) -> list[Any]:
    """What a 1.0 message has that RabbitMQ cannot deliver to consumers of 1.0 or of 0-9-1."""
    annotations: dict[Any, Any] = message.message_annotations or {}
    application: dict[str, Any] = message.application_properties or {}
    found = [
        key
        for section in (annotations, application)
        for key, value in section.items()
        if undeliverable(value)
    ]
    found += [key for key, value in annotations.items() if value is None]
    return found + [key for key in application if key in {"CC", "BCC"}]


def basic_poison(basic: BasicMessage) -> list[str]:
    """The headers of a 0-9-1 message that RabbitMQ refuses or cannot deliver."""
    table = basic.properties.headers
    assert table is None or isinstance(table, FieldTable)
    return [
        name
        for name, letter, value in (table.entries if table is not None else ())
        if undeliverable(value)
        or (letter == "V" and name.startswith("x-"))
        or name.startswith(("x-amqp-1.0-", "x-basic-"))
        or name in {"CC", "BCC", "x-cc", "x-opt-deaths", "x-exchange", "x-routing-key"}
        or (name == "x-stream-filter-value" and not isinstance(value, str))
    ]


@given(basic_messages())
def test_a_broker_can_deliver_what_0_9_1_becomes(basic: BasicMessage) -> None:
    assert [] == poison(to_amqp10(basic).message)


@given(messages())
def test_a_broker_can_deliver_what_1_0_becomes(message: Message) -> None:
    assert [] == basic_poison(to_basic(message).message)


@pytest.mark.parametrize("name, letter, value", POISON_HEADERS)
def test_an_undeliverable_header_is_carried(name: str, letter: str, value: Any) -> None:
    table = FieldTable.of([("a", "I", 1), (name, letter, value), ("z", "S", "z")])
    basic = BasicMessage(BasicProperties(headers=table), b"x")
    made = to_amqp10(basic)
    annotations: dict[Any, Any] = made.message.message_annotations or {}

    assert [] == poison(made.message)
    assert {RESIDUAL_NAME} == set(annotations)
    assert {"a": 1, "z": "z"} == made.message.application_properties
    assert [(f"headers[{name!r}]", "carried")] == [(loss.path, loss.action) for loss in made.losses]
    back = to_basic(Message.decode(made.message.encode())).message
    assert octets_of(basic) == octets_of(back)


@pytest.mark.parametrize("message", POISON_MESSAGES, ids=lambda message: repr(message)[8:70])
def test_an_undeliverable_value_is_carried(message: Message) -> None:
    made = to_basic(message)

    assert [] == basic_poison(made.message)
    assert ["carried"] == [loss.action for loss in made.losses]
    assert message.encode() == to_amqp10(sent(made.message)).message.encode()


@pytest.mark.parametrize(
    "body",
    [
        [Array("int", [Int(1)])],
        Array(0x54, [1]),
        Array("decimal64", [Decimal64.from_decimal(1)]),
        Array("null", [None]),
        {"k": NAN},
        [Decimal32(0)],
        {Decimal32(0): None},
        Described(Symbol("d"), [1]),
        [Described(ULong(7), "v")],
    ],
    ids=repr,
)
def test_an_undeliverable_body_is_not_marked_as_sections(body: Any) -> None:
    message = Message(AmqpValue(body), properties=Properties(message_id="m"))
    basic = sent(to_basic(message).message)

    assert basic.properties.type is None
    assert message.encode().endswith(basic.body)
    assert message.encode() == to_amqp10(basic).message.encode()
    changed = attrs.evolve(basic, properties=attrs.evolve(basic.properties, message_id="new"))
    assert message.evolve(properties=Properties(message_id="new")) == to_amqp10(changed).message


def test_an_undeliverable_property_that_is_added_in_1_0_is_carried_too() -> None:
    received = Message.decode(to_amqp10(BasicMessage(ODD, b"{}")).message.encode())
    application = {**(received.application_properties or {}), "n": Decimal64.from_decimal("1.5")}
    changed = Message.decode(received.evolve(application_properties=application).encode())
    basic = sent(to_basic(changed).message)

    assert [] == [name for name in basic_poison(basic) if name != "c"]
    again = to_amqp10(basic).message.application_properties
    assert again is not None
    assert application["n"] == again["n"]


@pytest.mark.parametrize("message", [MESSAGE, Message(b"", properties=Properties(to="q"))])
def test_an_undeliverable_header_that_is_added_in_0_9_1_is_carried_too(message: Message) -> None:
    basic = sent(to_basic(message).message)
    headers = basic.properties.headers
    assert isinstance(headers, FieldTable)
    entries = [("n", "D", ScaledDecimal(2, 314)), *headers.entries]
    properties = attrs.evolve(basic.properties, headers=FieldTable.of(entries))
    made = to_amqp10(sent(attrs.evolve(basic, properties=properties)))

    assert [] == poison(made.message)
    assert ["headers['n']"] == [loss.path for loss in made.losses]
    again = to_basic(Message.decode(made.message.encode())).message.properties.headers
    assert isinstance(again, FieldTable)
    assert ("n", "D", ScaledDecimal(2, 314)) in again.entries


#: Headers of RabbitMQ 4 whose translation strict receivers refuse, and the path of the loss.
DUPLICATES = [
    ([("x-a", "S", "1"), ("x-a", "I", 2)], "headers['x-a']"),
    ([("a", "S", "1"), ("a", "S", "1")], "headers['a']"),
    ([("x-t", "F", FieldTable.of([("k", "S", "1"), ("k", "S", "2")]))], "headers['x-t']['k']"),
    ([("CC", "A", ["q"]), ("x-cc", "S", "v")], "headers['x-cc']"),
]


@pytest.mark.parametrize("profile", ["rabbitmq-4.0", "rabbitmq-4.3"])
@pytest.mark.parametrize("entries, path", DUPLICATES)
def test_duplicate_headers_are_reported(profile: Any, entries: list[Any], path: str) -> None:
    basic = BasicMessage(BasicProperties(headers=FieldTable.of(entries)), b"x", "e", "q")
    made = to_amqp10(basic, profile)

    with pytest.raises(DecodeError, match="duplicate"):
        Message.decode(made.message.encode())
    assert path in [loss.path for loss in made.losses if not loss.recoverable]
    with pytest.raises(TranslationError, match="duplicate"):
        to_amqp10(basic, profile, strict=True)


@given(basic_messages(), st.sampled_from(["rabbitmq-4.0", "rabbitmq-4.3", "rabbitmq-3.10"]))
def test_message_that_strict_receivers_refuse_has_a_loss(basic: BasicMessage, profile: Any) -> None:
    try:
        made = to_amqp10(basic, profile, circumstances=Circumstances(user=None))
    except TranslationError:
        return
    try:
        Message.decode(made.message.encode())
    except DecodeError:
        assert [loss for loss in made.losses if not loss.recoverable]


@pytest.mark.parametrize("name", ["x-exchange", "x-routing-key"])
@pytest.mark.parametrize("profile", ["rabbitmq-4.0", "rabbitmq-4.3"])
def test_header_that_the_broker_replaces_is_reported(profile: Any, name: str) -> None:
    basic = BasicMessage(BasicProperties(headers={name: "mine"}), b"x", "e", "q")

    assert [(f"headers[{name!r}]", "dropped", "mine")] == [
        (loss.path, loss.action, loss.before) for loss in to_amqp10(basic, profile).losses
    ]


@pytest.mark.parametrize("profile", [name for name in PROFILES if name != "lossless"])
def test_delivery_count_is_reported(profile: Any) -> None:
    message = Message(b"x", header=Header(durable=True, delivery_count=3))
    losses = to_basic(message, profile).losses

    assert [("header.delivery-count", 3, "broker")] == [
        (loss.path, loss.before, loss.owner) for loss in losses if "delivery" in loss.path
    ]
    assert () == to_basic(message.evolve(header=Header(durable=True)), profile).losses


@pytest.mark.parametrize("letter, value", [("A", []), ("F", {})])
def test_section_that_a_stream_of_3_10_does_not_store_is_reported(letter: str, value: Any) -> None:
    headers = FieldTable.of([("x-amqp-1.0-footer", letter, value)])
    made = to_amqp10(BasicMessage(BasicProperties(headers=headers)), "rabbitmq-3.10-stream")

    assert ["headers['x-amqp-1.0-footer']"] == [loss.path for loss in made.losses]
