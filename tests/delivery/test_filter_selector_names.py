"""Names in selectors: the fields, headers and properties that they read."""

from __future__ import annotations

import datetime
import decimal
import enum
import operator
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg import Described, Header, Message, Properties, Symbol, Timestamp, ULong
from amqp10msg.delivery.filters import Selector

pytestmark = pytest.mark.once
EVERYTHING = Message(
    header=Header(durable=True, priority=7, ttl=5000, first_acquirer=True, delivery_count=2),
    message_annotations={"x-opt-offset": "100", "x-opt-delivery-time": Timestamp(9)},
    properties=Properties(
        message_id=ULong(7),
        user_id=b"guest",
        to="orders",
        subject="kind",
        reply_to="answers",
        correlation_id="c-1",
        content_type="text/plain",
        content_encoding="gzip",
        absolute_expiry_time=2000,
        creation_time=1000,
        group_id="g",
        group_sequence=3,
        reply_to_group_id="h",
    ),
    application_properties={"kind": "x"},
)
NAMES: dict[str, Any] = {
    "JMSDeliveryMode": "PERSISTENT",
    "JMSPriority": 7,
    "JMSMessageID": "ID:AMQP_ULONG:7",
    "JMSTimestamp": 1000,
    "JMSCorrelationID": "c-1",
    "JMSType": "kind",
    "JMSDestination": "orders",
    "JMSReplyTo": "answers",
    "JMSExpiration": 2000,
    "JMSRedelivered": True,
    "JMSDeliveryTime": 9,
    "JMSXDeliveryCount": 3,
    "JMSXGroupID": "g",
    "JMSXGroupSeq": 3,
    "JMSXUserID": "guest",
    "amqp.durable": True,
    "amqp.priority": 7,
    "amqp.ttl": 5000,
    "amqp.first_acquirer": True,
    "amqp.delivery_count": 2,
    "amqp.message_id": 7,
    "amqp.user_id": "guest",
    "amqp.to": "orders",
    "amqp.subject": "kind",
    "amqp.reply_to": "answers",
    "amqp.correlation_id": "c-1",
    "amqp.content_type": "text/plain",
    "amqp.content_encoding": "gzip",
    "amqp.absolute_expiry_time": 2000,
    "amqp.creation_time": 1000,
    "amqp.group_id": "g",
    "amqp.group_sequence": 3,
    "amqp.reply_to_group_id": "h",
    "amqp.delivery_mode": "PERSISTENT",
    "amqp.redelivered": True,
    "amqp.annotation.x-opt-offset": "100",
    "kind": "x",
}
# Without a header its fields have their defaults (Part 3, 3.2.1).
DEFAULTS: dict[str, Any] = {
    "JMSDeliveryMode": "NON_PERSISTENT",
    "JMSExpiration": 0,
    "JMSPriority": 4,
    "JMSRedelivered": False,
    "JMSXDeliveryCount": 1,
    "amqp.durable": False,
    "amqp.priority": 4,
    "amqp.first_acquirer": False,
    "amqp.delivery_count": 0,
    "amqp.delivery_mode": "NON_PERSISTENT",
    "amqp.redelivered": False,
}


@pytest.mark.parametrize("name", NAMES)
def test_a_name_reads_its_field(name: str) -> None:
    selector = Selector(name)

    for message in (EVERYTHING, Message.decode(EVERYTHING.encode())):
        found = selector.result(message)
        assert NAMES[name] == found
        assert type(NAMES[name]) is bool or type(found) is not bool
    for empty in (Message(), Message(header=Header(), properties=Properties())):
        assert DEFAULTS.get(name) == selector.result(empty)


@pytest.mark.parametrize(
    "properties, name, expected",
    [
        (Properties(message_id="ID:x"), "JMSMessageID", "ID:x"),
        (Properties(message_id="x"), "JMSMessageID", "ID:AMQP_NO_PREFIX:x"),
        (Properties(message_id=b"\x0a"), "JMSMessageID", "ID:AMQP_BINARY:0A"),
        (
            Properties(correlation_id=uuid.UUID(int=1)),
            "JMSCorrelationID",
            "ID:AMQP_UUID:00000000-0000-0000-0000-000000000001",
        ),
        (Properties(user_id=b"\xff"), "JMSXUserID", b"\xff"),
    ],
)
def test_identifiers_are_what_jms_shows(properties: Properties, name: str, expected: Any) -> None:
    assert expected == Selector(name).result(Message(properties=properties))


def test_a_moment_that_was_assigned_compares_too() -> None:
    properties = Properties()
    properties.creation_time = datetime.datetime(1970, 1, 2, tzinfo=datetime.UTC)  # type: ignore[assignment]

    assert Selector("JMSTimestamp = 86400000").matches(Message(properties=properties))


class Color(enum.IntEnum):
    RED = 1


class Name(str):
    __slots__ = ()


class Odd:
    """Comparing with it fails."""

    def __eq__(self, other: object) -> bool:
        raise TypeError

    __hash__ = object.__hash__


@pytest.mark.parametrize(
    "text, value, expected",
    [
        ("a = 1 AND a + 1 = 2 AND a IN (1)", Color.RED, True),
        ("a = 'x' AND a LIKE '_' AND a IN ('x')", Name("x"), True),
        ("a = b", bytearray(b"x"), True),
        ("a = 0.5 AND 0.5 = a", decimal.Decimal("0.5"), True),
        ("0.25 + 0.25 = a", decimal.Decimal("0.5"), True),
        ("a = c", Odd(), False),
        ("a = c", [1], True),
        ("a < c", [1], False),
    ],
)
def test_values_that_a_user_put_into_a_message(text: str, value: Any, expected: bool) -> None:
    message = Message(application_properties={"a": value, "b": b"x", "c": value})

    assert expected is Selector(text).matches(message)


def test_a_header_wins_over_an_application_property_of_its_name() -> None:
    message = Message(application_properties={"JMSPriority": 9, "amqp.priority": 9})

    assert Selector("JMSPriority = 4 AND amqp.priority = 4").matches(message)


def test_the_offset_of_event_hubs() -> None:
    text = "amqp.annotation.x-opt-offset > '099' AND amqp.annotation.x-opt-sequence-number IS NULL"

    assert Selector(text).matches(EVERYTHING)
    (reason,) = Selector("amqp.annotation.x-opt-offset > '100'").explain(EVERYTHING)
    assert (
        "amqp.annotation.x-opt-offset > '100' is false: amqp.annotation.x-opt-offset is '100'"
        == str(reason)
    )


def test_why_a_message_does_not_pass() -> None:
    selector = Selector("color = 'red' AND (weight > 2500 OR urgent) AND NOT sold AND n < 'b'")
    message = Message(
        application_properties={"color": "blue", "weight": 5, "sold": True, "n": "z" * 100}
    )

    assert [
        "color = 'red' is false: color is 'blue'",
        "weight > 2500 is false: weight is 5",
        "urgent is unknown: urgent is not set",
        "NOT sold is false: sold is true",
        f"n < 'b' is false: n is '{'z' * 60}…'",
    ] == [str(reason) for reason in selector.explain(message)]
    assert False is selector.explain(message)[0].result
    assert None is selector.explain(message)[2].result


def annotated(key: str, value: object) -> Message:
    return Message(b"x", message_annotations={Symbol(key): value})


NUMERIC = ("x-opt-offset", "x-opt-sequence-number", "x-opt-enqueued-time")


@pytest.mark.parametrize("key", NUMERIC)
@pytest.mark.parametrize("sign", ["=", "<>", "<", "<=", ">", ">="])
@given(value=st.integers(-(2**63), 2**63 - 1), literal=st.integers(-(10**18), 10**18))
def test_numeric_annotations_of_azure_compare_as_numbers(
    key: str, sign: str, value: int, literal: int
) -> None:
    compare = {
        "=": operator.eq, "<>": operator.ne, "<": operator.lt,
        "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    }[sign]  # fmt: skip
    for number in (value, literal):
        expected = compare(number, literal)
        for written in (number, str(number)):
            for quoted in (f"'{literal}'", str(literal)):
                selector = Selector(f"amqp.annotation.{key} {sign} {quoted}")
                assert expected is selector.matches(annotated(key, written)), selector.text


def test_numeric_annotations_of_azure_in_lists_and_as_moments() -> None:
    ticks = Described(Symbol("com.microsoft:datetime-offset"), 621_355_968_000_000_000 + 50_000)
    assert Selector("amqp.annotation.x-opt-offset IN ('7', '8')").matches(
        annotated("x-opt-offset", 8)
    )
    assert Selector("amqp.annotation.x-opt-offset NOT IN ('7', '8')").matches(
        annotated("x-opt-offset", "9")
    )
    assert Selector("amqp.annotation.x-opt-enqueued-time = '5'").matches(
        annotated("x-opt-enqueued-time", ticks)
    )
    assert Selector("'4' < amqp.annotation.x-opt-enqueued-time").matches(
        annotated("x-opt-enqueued-time", ticks)
    )


@pytest.mark.parametrize("text", ["'abc'", "'5x'", "''", "'@latest'"])
def test_annotations_of_azure_compare_as_text_with_other_text(text: str) -> None:
    selector = Selector(f"amqp.annotation.x-opt-offset = {text}")

    assert selector.matches(annotated("x-opt-offset", text.strip("'")))
    assert not selector.matches(annotated("x-opt-offset", "5"))


def test_other_annotations_keep_the_type_of_the_literal() -> None:
    assert not Selector("amqp.annotation.x-opt-other >= '5'").matches(annotated("x-opt-other", 7))
