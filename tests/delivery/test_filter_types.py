"""What passes each type of filter that is no expression, and what is refused."""

from __future__ import annotations

import copy
import datetime
import math
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg import (
    AmqpMap,
    Array,
    Byte,
    Char,
    Decimal64,
    DecodeError,
    Described,
    EncodeError,
    Float,
    Int,
    Message,
    Properties,
    Symbol,
    Timestamp,
    UInt,
    ULong,
    encode_value,
)
from amqp10msg.delivery.filters import (
    ApplicationPropertiesFilter,
    DirectBinding,
    FilterWarning,
    HeadersBinding,
    PropertiesFilter,
    parse,
)
from amqp10msg.testing import simple_values, values

# Bindings.


def test_direct_binding() -> None:
    one = DirectBinding("a.b")

    assert one.matches(Message(properties=Properties(subject="a.b")))
    for subject in ("a", "A.B", "", None):
        assert not one.matches(Message(properties=Properties(subject=subject)))
    assert not one.matches(Message())
    assert ["subject = 'a.b' is false: subject is not set"] == [
        str(reason) for reason in one.explain(Message())
    ]


@pytest.mark.parametrize(
    "entries, properties, expected",
    [
        ({"a": 1, "b": "x"}, {"a": 1, "b": "x", "c": 5}, True),
        ({"a": 1, "b": "x"}, {"a": 1}, False),
        ({"x-match": "all", "a": 1, "b": "x"}, {"a": 1, "b": "y"}, False),
        ({"x-match": "any", "a": 1, "b": "x"}, {"a": 2, "b": "x"}, True),
        ({"x-match": "any", "a": 1, "b": "x"}, {"a": 2}, False),
        ({"a": None}, {"a": "anything"}, True),
        ({"a": None}, {"a": None}, True),
        ({"a": None}, {}, False),
        ({"a": UInt(1)}, {"a": 1.0}, True),
        ({"a": 1}, {"a": "1"}, False),
        ({"a": 1}, {"a": True}, False),
        ({"a": "x"}, {"a": Symbol("x")}, True),
        ({"a": "x"}, {"a": b"x"}, False),
        ({}, {"a": 1}, True),
        ({"x-match": "any"}, {"a": 1}, False),
        ({"x-match": "all", "x-other": 1}, {}, True),
        ({"x-match": "all-with-x", "x-other": 1}, {}, False),
        ({"x-match": "all-with-x", "x-other": 1}, {"x-other": 1}, True),
        ({"x-match": "any-with-x", "x-other": 1, "a": 1}, {"x-other": 1}, True),
    ],
)
def test_headers_binding(
    entries: dict[str, Any], properties: dict[str, Any], expected: bool
) -> None:
    one = HeadersBinding(entries)

    assert expected is one.matches(Message(application_properties=properties))
    assert expected is (one.explain(Message(application_properties=properties)) == ())


def test_a_map_that_no_dict_can_hold() -> None:
    """Two keys that Python calls equal come as an AmqpMap; neither is lost in silence."""
    pairs = AmqpMap([("a", 1), (Symbol("a"), 2)])
    for code in (0x468C << 32 | 2, 0x174, 0x173):
        came = encode_value(Described(ULong(code), pairs))
        with pytest.raises(DecodeError, match=r"key|symbols"):
            parse(came)
        assert came == parse(came, strict=False).encode()
    assert HeadersBinding({"a": 1}) == HeadersBinding(AmqpMap([("a", 1)]))
    with pytest.raises(EncodeError, match="duplicate key"):
        HeadersBinding(AmqpMap([("a", 1), ("a", 2)]))


def test_headers_binding_without_application_properties() -> None:
    assert HeadersBinding({}).matches(Message())
    assert not HeadersBinding({"a": None}).matches(Message())
    assert "a is present is false: a is not set" == str(
        HeadersBinding({"a": None}).explain(Message())[0]
    )


@pytest.mark.parametrize(
    "entries, problem",
    [
        ({"x-match": "some"}, "x-match is one of all"),
        ({"x-match": True}, "x-match is one of all"),
        ({1: 2}, "a key"),
        ({Symbol("a"): 2}, "a key"),
        ({"a": [1]}, "simple type"),
        ("a", "takes a map"),
    ],
)
def test_a_wrong_headers_binding_is_refused(entries: Any, problem: str) -> None:
    with pytest.raises(EncodeError, match=problem):
        HeadersBinding(entries)


def test_no_local_keeps_what_clients_send() -> None:
    """By its definition a list; Qpid JMS describes text."""
    came = encode_value(Described(ULong(0x468C << 32 | 3), "NoLocalFilter{}"))

    assert came == parse(came).encode()


# Property filters.


@pytest.mark.parametrize(
    "reference, value, expected",
    [
        ("x", "x", True),
        ("x", "X", False),
        ("x", Symbol("x"), True),
        ("&p:Or", "Order", True),
        ("&p:Or", "or", False),
        ("&p:Or", Symbol("Order"), True),
        ("&p:", "", True),
        ("&p:1", 1, False),
        ("&s:er", "Order", True),
        ("&s:er", "er", True),
        ("&s:er", "e", False),
        ("&s:er", b"er", False),
        ("&&p:x", "&p:x", True),
        ("&&", "&", True),
        ("&&&", "&&", True),
        (Symbol("&p:x"), Symbol("&p:x"), True),
        (Symbol("&p:x"), "xy", False),
        (UInt(10), 10.0, True),
        (UInt(10), Byte(10), True),
        (10.5, Float(10.5), True),
        (10, 10.5, False),
        (10, "10", False),
        (1, True, False),
        (True, True, True),
        (False, 0, False),
        (Timestamp(5), Timestamp(5), True),
        (Timestamp(5), 5, False),
        (5, Timestamp(5), False),
        (b"x", b"x", True),
        (b"x", "x", False),
        (uuid.UUID(int=1), uuid.UUID(int=1), True),
        (uuid.UUID(int=1), uuid.UUID(int=2), False),
        (None, "anything", True),
        (None, None, True),
        ("x", None, False),
        (2**53 + 1, float(2**53), False),
        (Decimal64.from_decimal("2E-398"), -0.0, False),
        (-0.0, Decimal64.from_decimal("2E-398"), False),
        (0.5, Decimal64.from_decimal("0.50"), True),
    ],
)
def test_application_properties_filter(reference: Any, value: Any, expected: bool) -> None:
    one = ApplicationPropertiesFilter({"k": reference})

    assert expected is one.matches(Message(application_properties={"k": value, "other": 1}))
    assert not one.matches(Message(application_properties={"other": value}))
    assert not one.matches(Message())


@given(st.dictionaries(st.text(max_size=3), simple_values(), max_size=4))
def test_a_message_matches_a_filter_of_its_own_properties(properties: dict[str, Any]) -> None:
    escaped = {
        key: f"&{value}" if type(value) is str and value.startswith("&") else value
        for key, value in properties.items()
    }
    message = Message(application_properties=properties)

    matching = ApplicationPropertiesFilter(escaped).matches(message)

    # A NaN is not equal to itself.
    assert matching is not any(map(is_nan, properties.values()))


def is_nan(value: Any) -> bool:
    if isinstance(value, float):
        return math.isnan(value)
    return hasattr(value, "to_decimal") and value.to_decimal().is_nan()


MESSAGE = Message(
    properties=Properties(
        message_id=ULong(7),
        user_id=b"John",
        to="queue",
        subject="Order 66",
        correlation_id="c",
        content_type="a/b",
        creation_time=5,
        group_sequence=3,
    )
)


@pytest.mark.filterwarnings("ignore:RabbitMQ drops:amqp10msg.delivery.filters.FilterWarning")
@pytest.mark.parametrize(
    "entries, expected",
    [
        ({"user-id": b"John", "subject": "&p:Order"}, True),
        ({"user_id": b"John", "subject": "&s:67"}, False),
        ({"message-id": 7}, True),
        ({"message-id": ULong(7)}, True),
        ({"message-id": "7"}, False),
        ({"correlation-id": "&p:c"}, True),
        ({"correlation-id": b"c"}, False),
        ({"to": "queue", "content-type": "a/b", "group-sequence": 3}, True),
        ({"group_sequence": 4}, False),
        ({"creation-time": 5}, True),
        ({"creation-time": datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)}, False),
        ({"reply-to": "x"}, False),
        ({"reply-to": None}, True),
        ({"to": None}, True),
        ({}, True),
    ],
)
def test_properties_filter(entries: dict[str, Any], expected: bool) -> None:
    one = PropertiesFilter(entries)

    assert expected is one.matches(MESSAGE)
    assert expected is one.matches(Message.decode(MESSAGE.encode()))
    assert expected is (one.explain(MESSAGE) == ())
    assert all(value is None for value in entries.values()) is one.matches(Message())


@given(values(max_leaves=3).filter(lambda value: not isinstance(value, Timestamp)))
def test_what_a_lenient_decoding_leaves_as_a_moment_matches_none(value: Any) -> None:
    fields = [*(None,) * 8, value, value]
    properties = encode_value(Described(ULong(0x73), fields))
    message = Message.decode(properties + Message("x").encode(), strict=False)

    for name in ("creation-time", "absolute-expiry-time"):
        one = PropertiesFilter({name: 1})
        # Of a long, which a moment is in Python, the number counts.
        assert (value == 1 and type(value) is int) is one.matches(message)
        assert one.matches(message) is not bool(one.explain(message))


def test_a_moment_that_was_assigned_matches_too() -> None:
    properties = Properties()
    properties.creation_time = datetime.datetime(1970, 1, 2, tzinfo=datetime.UTC)  # type: ignore[assignment]

    assert PropertiesFilter({"creation-time": 86_400_000}).matches(Message(properties=properties))


@pytest.mark.parametrize(
    "cls, entries, problem",
    [
        (PropertiesFilter, {"sender": "x"}, "there is no field sender"),
        (PropertiesFilter, {"user-id": "John"}, "bytes, not str"),
        (PropertiesFilter, {"to": 5}, "str, not int"),
        (PropertiesFilter, {"to": Symbol("x")}, "str, not Symbol"),
        (PropertiesFilter, {"message-id": 1.5}, "ULong or UUID or bytes or str, not float"),
        (PropertiesFilter, {"message-id": -1}, "ULong holds"),
        (PropertiesFilter, {"message-id": True}, "not bool"),
        (PropertiesFilter, {"content-type": "ä"}, "ASCII"),
        (PropertiesFilter, {"group-sequence": 2**32}, "UInt holds"),
        (PropertiesFilter, {"creation-time": datetime.datetime(2000, 1, 1)}, "time zone"),  # noqa: DTZ001
        (PropertiesFilter, {"creation-time": "x"}, "Timestamp, not str"),
        (PropertiesFilter, {"group-id": "a", "group_id": "b"}, "duplicate"),
        (PropertiesFilter, {"subject": "&x"}, "no modifier"),
        (PropertiesFilter, {5: "x"}, "a key"),
        (PropertiesFilter, [], "takes a map"),
        (ApplicationPropertiesFilter, {"a": "&"}, "no modifier"),
        (ApplicationPropertiesFilter, {"a": "&x:y"}, "no modifier"),
        (ApplicationPropertiesFilter, {"a": [1]}, "simple type"),
        (ApplicationPropertiesFilter, {Symbol("a"): 1}, "a key"),
        (ApplicationPropertiesFilter, {5: 1}, "a key"),
        (ApplicationPropertiesFilter, "a", "takes a map"),
    ],
)
def test_a_wrong_property_filter_is_refused(cls: Any, entries: Any, problem: str) -> None:
    with pytest.raises(EncodeError, match=problem):
        cls(entries)


@pytest.mark.parametrize(
    "value, problem",
    [
        ({"subject": "x"}, "symbols as keys"),
        ({Symbol("message-id"): 7}, "int is not the type of the field"),
        ({Symbol("message-id"): UInt(7)}, "UInt is not"),
        ({Symbol("subject"): Symbol("x")}, "Symbol is not"),
        ({Symbol("content-type"): "a/b"}, "str is not"),
        ({Symbol("creation-time"): 5}, "int is not"),
        ({Symbol("group-sequence"): Int(5)}, "Int is not"),
        ({Symbol("group_sequence"): UInt(5)}, "there is no field group_sequence"),
        ("x", "describes a map, not str"),
    ],
)
def test_a_peer_has_to_send_the_types_of_the_fields(value: Any, problem: str) -> None:
    with pytest.raises(DecodeError, match=problem):
        parse(encode_value(Described(ULong(0x173), value)))


def test_a_properties_filter_with_none_warns_whoever_builds_it() -> None:
    """RabbitMQ would filter nothing."""
    with pytest.warns(FilterWarning, match="leave such entries out") as caught:
        one = PropertiesFilter({"subject": "x", "to": None})
    assert [__file__] == [warning.filename for warning in caught]
    # Neither a source that reads it nor a copy is the one to tell.
    assert one == parse(one.encode()) == copy.deepcopy(one)
    with pytest.raises(EncodeError, match="RabbitMQ drops"):
        PropertiesFilter({"to": None}, dialect="rabbitmq-4.3")
    refused = parse({"p": one.to_described()}, strict=False, dialect="rabbitmq-4.3")
    assert ["p"] == list(refused.unsupported)


@pytest.mark.parametrize(
    "reference, value, expected",
    [
        ("x", "x", True),
        ("x", Symbol("x"), True),
        ("x", b"x", True),
        (b"x", "x", True),
        (Symbol("x"), b"x", True),
        (uuid.UUID(bytes=b"0123456789abcdef"), "0123456789abcdef", True),
        ("&p:0123", uuid.UUID(bytes=b"0123456789abcdef"), True),
        ("&s:\u00e9", "caf\u00e9".encode(), True),
        ("&s:x", 5, False),
        ("&&x", b"&x", True),
        (Timestamp(5), 5, True),
        (5, Timestamp(5), True),
        (5, 5.0, True),
        (97, Char("a"), True),
        ("a", Char("a"), False),
        (1, True, False),
        (True, True, True),
        (None, "x", True),
        (None, None, True),
        ("", None, False),
        (None, math.nan, False),
        ([], None, False),
        (["a"], "a", False),
        ({"a": 1}, 1, False),
        (Array("int", [5]), 5, False),
        (Described(Symbol("x"), 5), 5, False),
        (math.inf, math.inf, False),
        (Decimal64.from_decimal("1"), Decimal64.from_decimal("1"), False),
        (1, Decimal64.from_decimal("1"), False),
    ],
)
def test_an_application_properties_filter_as_rabbitmq_has_it(
    reference: Any, value: Any, expected: bool
) -> None:
    one = ApplicationPropertiesFilter({"k": reference}, dialect="rabbitmq-4.3")

    for message in (
        Message(application_properties={"k": value}),
        Message.decode(Message(application_properties={"k": value}).encode()),
    ):
        assert expected is one.matches(message)
        assert expected is (one.explain(message) == ())
    assert not one.matches(Message())


@pytest.mark.parametrize(
    "entries, expected",
    [
        ({"message-id": "0123456789abcdef"}, True),
        ({"message-id": b"0123456789abcdef"}, True),
        ({"message-id": "&p:0123"}, True),
        ({"message-id": 5}, False),
        ({"correlation-id": b"c"}, True),
        ({"creation-time": 5}, True),
        ({"reply-to": ""}, False),
    ],
)
def test_a_properties_filter_as_rabbitmq_has_it(entries: dict[str, Any], expected: bool) -> None:
    properties = Properties(
        message_id=uuid.UUID(bytes=b"0123456789abcdef"), correlation_id="c", creation_time=5
    )

    one = PropertiesFilter(entries, dialect="rabbitmq-4.3")

    assert expected is one.matches(Message(properties=properties))
    assert not one.matches(Message())


def test_why_properties_do_not_match() -> None:
    reasons = PropertiesFilter({"subject": "&p:x", "to": "&s:y", "user-id": b"Eve"}).explain(
        MESSAGE
    ) + ApplicationPropertiesFilter({"a": None, "b": "&&c", "c": 1}).explain(MESSAGE)

    assert [
        "subject begins with 'x' is false: subject is 'Order 66'",
        "to ends with 'y' is false: to is 'queue'",
        "user-id = b'Eve' is false: user-id is 0x4A6F686E",
        "a is present is false: a is not set",
        "b = '&c' is false: b is not set",
        "c = 1 is false: c is not set",
    ] == [str(reason) for reason in reasons]
