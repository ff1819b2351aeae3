"""Every profile against any input: a result or TranslationError; what brokers fail on; accounts."""

from __future__ import annotations

import math
import uuid
from typing import Any

import attrs
import pytest
from hypothesis import given

from amqp10msg import (
    AmqpValue,
    Array,
    Char,
    Data,
    EncodeError,
    Header,
    Message,
    Properties,
    Symbol,
    Timestamp,
    UInt,
    ULong,
)
from amqp10msg.basic import (
    BasicMessage,
    BasicProperties,
    FieldTable,
    ScaledDecimal,
    encode_properties,
)
from amqp10msg.delivery import Accepted, Modified, Rejected, Released
from amqp10msg.testing import basic_messages, messages
from amqp10msg.translate import (
    PROFILES,
    Circumstances,
    Death,
    ProfileName,
    TranslationError,
    explain,
    to_amqp10,
    to_basic,
)
from amqp10msg.translate.settlement import (
    CONDITIONS,
    REPLY_CODES,
    Settlement,
    outcome_of_return,
    outcome_of_settlement,
    settlement_of_outcome,
)

pytestmark = pytest.mark.once

RABBITMQ = [name for name in PROFILES if name.startswith("rabbitmq")]
BROKERS = ["rabbitmq-4.0", "rabbitmq-4.3"]
#: The batch engine does not support stream offsets and leaves these messages to the plain rules.
BY_PLAIN_RULES = Circumstances(stream_offset=0)


def outcome(translate: Any, message: Any, profile: str) -> Any:
    try:
        return translate(message, profile, circumstances=BY_PLAIN_RULES)
    except TranslationError as error:
        return error


@given(basic_messages())
def test_any_0_9_1_message_gives_a_result_or_a_translation_error(basic: BasicMessage) -> None:
    for profile in PROFILES:
        found = outcome(to_amqp10, basic, profile)
        if isinstance(found, TranslationError):
            assert "lossless" != profile
            assert found.reason
        else:
            Message.decode(found.message.encode(), strict=False)


@given(messages())
def test_any_1_0_message_gives_a_result_or_a_translation_error(message: Message) -> None:
    for profile in PROFILES:
        found = outcome(to_basic, message, profile)
        if isinstance(found, TranslationError):
            assert "lossless" != profile
            assert found.reason
        else:
            encode_properties(found.message.properties)


# What RabbitMQ fails on, version 4 from 0-9-1 to 1.0.


@pytest.mark.parametrize(
    "basic",
    [
        BasicMessage(BasicProperties(headers={"k": ScaledDecimal(2, 314)})),
        BasicMessage(BasicProperties(headers={"x-k": ScaledDecimal(0, 7)})),
        BasicMessage(BasicProperties(type="amqp-1.0"), b"not amqp"),
        *(
            BasicMessage(BasicProperties(expiration=text))
            for text in ("", "abc", " 5", "1.5", "-1")
        ),
        BasicMessage(BasicProperties(expiration="315360000001")),
        BasicMessage(BasicProperties(headers=FieldTable.of([("k", "U", 1)]))),
        BasicMessage(BasicProperties(headers=FieldTable.of([("k", "d", math.nan)]))),
        BasicMessage(BasicProperties(headers={"a": [{"b": math.inf}]})),
        BasicMessage(BasicProperties(headers={"CC": "no array"})),
        BasicMessage(BasicProperties(headers={"x-amqp-1.0-properties": "v"})),
        BasicMessage(BasicProperties(user_id="mallory")),
    ],
    ids=lambda basic: repr(basic.properties)[16:60],
)
@pytest.mark.parametrize("profile", BROKERS)
def test_broker_refuses_or_fails_on_0_9_1_message(
    profile: ProfileName, basic: BasicMessage
) -> None:
    with pytest.raises(TranslationError):
        to_amqp10(basic, profile)
    assert to_amqp10(basic).message.encode()


@pytest.mark.parametrize(
    "text",
    [
        "urn:uuid:zzze8400-e29b-41d4-a716-446655440000",
        "urn:uuid:" + "-" * 36,
        "urn:uuid:550e8400e29b41d4a71644665544000-----",
        "urn:uuid:550e8400e29b41d4a716446655440000----",
    ],
)
def test_rabbitmq_4_3_keeps_ids_that_are_not_uuids_as_text(text: str) -> None:
    """RabbitMQ 4.3.6 delivers the text; 4.0 fails on it, but where there are digits enough."""
    basic = BasicMessage(BasicProperties(message_id=text, correlation_id=text))
    later = to_amqp10(basic, "rabbitmq-4.3").message.properties

    assert later is not None
    assert (text, text) == (later.message_id, later.correlation_id)
    if not text.endswith("0----"):
        with pytest.raises(TranslationError, match="uuid"):
            to_amqp10(basic, "rabbitmq-4.0")


@pytest.mark.parametrize(
    "value, user",
    [
        *(("5405", None), ("43", None), ("45", None), ("c10100", None), ("7300000061", None)),
        *(("a00161", "a"), ("a10161", "a"), ("a3026162", "ab"), ("41", ...), ("5601", ...)),
        *(("827ff8000000000000", ...), ("e00401a30161", ...)),
    ],
)
def test_a_user_id_behind_the_body_may_have_any_type(value: str, user: Any) -> None:
    """As RabbitMQ 4.0.5 delivers it, or not: nobody checks it there."""
    octets = f"005375a00162005373c0{2 + len(value) // 2:02x}0240{value}"
    message = Message.decode(bytes.fromhex(octets), strict=False)

    if user is ...:
        with pytest.raises(TranslationError):
            to_basic(message, "rabbitmq-4.0")
    else:
        assert user == to_basic(message, "rabbitmq-4.0").message.properties.user_id


def annotated(value: Any) -> Message:
    return Message(b"", message_annotations={"x-v": value})


def stated(value: Any) -> Message:
    return Message(b"", application_properties={"k": value})


@pytest.mark.parametrize(
    "message",
    [
        stated(uuid.UUID(int=5)),
        stated(Char("a")),
        annotated([ULong(1)]),
        annotated([uuid.UUID(int=5)]),
        annotated([Array("int", [1])]),
        annotated({1: "v"}),
        annotated({"k" * 300: 1}),
        Message(b"", properties=Properties(content_type="k" * 256)),
        Message(b"", message_annotations={"foo": 1}),
        Message(b"", message_annotations={5: 1}),
        Message(header=Header(durable=True)),
    ],
    ids=lambda message: repr(message)[8:60],
)
@pytest.mark.parametrize("profile", BROKERS)
def test_broker_refuses_or_fails_on_1_0_message(profile: ProfileName, message: Message) -> None:
    with pytest.raises(TranslationError):
        to_basic(message, profile)
    to_basic(message)


def test_rabbitmq_4_3_requires_x_cc_to_be_a_list() -> None:
    """RabbitMQ 4.3.6 closed the link on the first: bad value for 'x-cc' message-annotation."""
    text = Message.decode(bytes.fromhex("005372c10a02a304782d6363a10176005375a00568656c6c6f"))
    routes = text.evolve(message_annotations={Symbol("x-cc"): ["v"]})

    with pytest.raises(TranslationError, match="bad value for 'x-cc'"):
        to_basic(text, "rabbitmq-4.3")
    for message, profile in ((text, "rabbitmq-4.0"), (routes, "rabbitmq-4.3")):
        headers = to_basic(message, PROFILES[profile]).message.properties.headers
        assert headers is not None
        assert ["CC"] == list(headers)


def test_broker_accepts_unusual_values() -> None:
    def one(properties: BasicProperties, profile: ProfileName = "rabbitmq-4.3") -> Message:
        return to_amqp10(BasicMessage(properties), profile).message

    text = "urn:uuid:550e8400e29b41d4a716446655440000----"
    loose = one(BasicProperties(message_id=text), "rabbitmq-4.0")
    assert loose.properties is not None
    assert uuid.UUID("550e8400-e29b-41d4-a716-446655440000") == loose.properties.message_id
    wrapped = one(BasicProperties(expiration="4294967296", timestamp=2**64 - 1))
    assert wrapped.header is not None
    assert wrapped.properties is not None
    assert (0, -1000) == (wrapped.header.ttl, wrapped.properties.creation_time)
    assert one(BasicProperties(type="amqp-1.0")).body is None


def test_faults_of_brokers_are_reported() -> None:
    losses = to_amqp10(
        BasicMessage(BasicProperties(expiration="4294967296", cluster_id="c")), "rabbitmq-4.3"
    ).losses

    assert [("properties.expiration", "wrapped"), ("properties.cluster-id", "dropped")] == [
        (loss.path, loss.action) for loss in losses
    ]
    assert "ttl wrapped modulo 2^32" == losses[0].reason


def test_error_contains_delivered_bytes_that_are_not_a_message() -> None:
    basic = BasicMessage(BasicProperties(content_type="text/plain; name=ü"))
    with pytest.raises(TranslationError) as caught:
        to_amqp10(basic, "rabbitmq-4.3")

    assert caught.value.delivered is not None
    assert "ü".encode() in caught.value.delivered


@pytest.mark.parametrize("profile", RABBITMQ)
def test_the_user_is_checked(profile: ProfileName) -> None:
    basic = BasicMessage(BasicProperties(user_id="alice"))
    message = Message(b"", properties=Properties(user_id=b"alice"))
    with pytest.raises(TranslationError, match="user-id"):
        to_amqp10(basic, profile)
    with pytest.raises(TranslationError, match="user-id"):
        to_basic(message, profile)
    for user in ("alice", None):
        given = Circumstances(user=user)
        to_amqp10(basic, profile, circumstances=given)
        to_basic(message, profile, circumstances=given)


@pytest.mark.parametrize("offset, octet", [(-1, "ff"), (-256, "00"), (-(2**63), "00")])
def test_a_negative_offset_is_cut_to_its_last_byte(offset: int, octet: str) -> None:
    """As observed on RabbitMQ 3.10.8: also where that byte is zero, in the form with one byte."""
    headers = FieldTable.of([("x-stream-offset", "l", offset)])
    made = to_amqp10(BasicMessage(BasicProperties(headers=headers)), "rabbitmq-3.10").message

    expected = bytes.fromhex(f"005372c11402a10f{b'x-stream-offset'.hex()}53{octet}")
    assert expected in made.encode()


def test_deaths_become_a_header() -> None:
    death = {
        Symbol("ttl"): UInt(5),
        Symbol("queue"): "q",
        Symbol("reason"): Symbol("expired"),
        Symbol("count"): ULong(2),
        Symbol("first-time"): Timestamp(1999),
        Symbol("last-time"): Timestamp(2999),
        Symbol("exchange"): "e",
        Symbol("routing-keys"): Array("string", ["a", "b"]),
    }
    message = annotated(None).evolve(message_annotations={"x-opt-deaths": Array("map", [death])})
    # A map is not written with the small constructor in RabbitMQ's arrays.
    message = message.evolve(message_annotations={"x-opt-deaths": Array(0xD1, [death])})
    headers = to_basic(message, "rabbitmq-4.3").message.properties.headers

    assert headers is not None
    (made,) = headers["x-death"]
    assert {
        "original-expiration": "5",
        "count": 2,
        "reason": "expired",
        "queue": "q",
        "time": 1,
    } == {name: value for name, value in made.items() if name not in {"exchange", "routing-keys"}}
    with pytest.raises(TranslationError):
        to_basic(
            annotated(None).evolve(message_annotations={"x-opt-deaths": Array(0xD1, [{}])}),
            "rabbitmq-4.3",
        )


DURABLE = Header(durable=True)  # RabbitMQ makes other messages durable, which is a loss, too


@pytest.mark.parametrize("given", [Circumstances(), BY_PLAIN_RULES], ids=["engine", "plain rules"])
@pytest.mark.parametrize("profile", BROKERS)
@pytest.mark.parametrize(
    "message, expected, losses",
    [
        (Message([Data(b"a"), Data(b"b")]), {"body": b"ab"}, [("body", "retyped", 2, 1)]),
        (Message(b"a"), {"body": b"a"}, []),
        (
            Message(properties=Properties(creation_time=Timestamp(-1000)), body=b""),
            {"timestamp": 2**64 - 1},
            [("properties.creation-time", "wrapped", -1000, 2**64 - 1)],
        ),
        (
            Message(properties=Properties(creation_time=Timestamp(1000)), body=b""),
            {"timestamp": 1},
            [],
        ),
        (
            Message(message_annotations={"x-" + "n" * 253: "v"}, body=b""),
            {"headers": {"x-" + "n" * 253: "v"}},
            [],
        ),
        (
            Message(message_annotations={"x-" + "n" * 254: "v"}, body=b""),
            {"headers": None},
            [(f"message-annotations['x-{'n' * 254}']", "dropped", "v", None)],
        ),
        (
            Message(application_properties={"n" * 255: "v"}, body=b""),
            {"headers": {"n" * 255: "v"}},
            [],
        ),
        (
            Message(application_properties={"n" * 256: "v"}, body=b""),
            {"headers": None},
            [(f"application-properties[{'n' * 256}]", "dropped", "v", None)],
        ),
        (
            Message(properties=Properties(message_id="i" * 255), body=b""),
            {"message_id": "i" * 255, "headers": None},
            [],
        ),
        (
            Message(properties=Properties(message_id="i" * 256), body=b""),
            {"message_id": None, "headers": {"x-message-id": "i" * 256}},
            [("properties.message-id", "renamed", "i" * 256, None)],
        ),
        (
            Message(application_properties={"u": ULong(2**63 - 1)}, body=b""),
            {"headers": {"u": 2**63 - 1}},
            [],
        ),
        (
            Message(application_properties={"u": ULong(2**63)}, body=b""),
            {"headers": {"u": -(2**63)}},
            [("application-properties[u]", "wrapped", 2**63, -(2**63))],
        ),
    ],
    ids=[
        *("two data sections", "one data section", "before 1970", "after 1970"),
        *("annotation's name of 255 bytes", "annotation's name of 256 bytes"),
        *("property's name of 255 bytes", "property's name of 256 bytes"),
        *("id of 255 bytes", "id of 256 bytes"),
        *("largest long", "one more than the largest long"),
    ],
)
def test_losses_begin_at_the_bound(
    message: Message,
    expected: dict[str, Any],
    losses: list[Any],
    profile: ProfileName,
    given: Circumstances,
) -> None:
    made = to_basic(message.evolve(header=DURABLE), profile, circumstances=given)

    found = {"body": made.message.body, **attrs.asdict(made.message.properties, recurse=False)}
    assert expected == {name: found[name] for name in expected}
    assert losses == [(loss.path, loss.action, loss.before, loss.after) for loss in made.losses]


@pytest.mark.parametrize("profile", BROKERS)
def test_dead_letters_have_no_expiration(profile: ProfileName) -> None:
    message = Message(b"x", header=Header(durable=True, ttl=UInt(1000)))
    dead = Circumstances(deaths=[Death("q", "rejected", 0, ttl=1000)])

    alive = to_basic(message, profile).message.properties
    died = to_basic(message, profile, circumstances=dead).message.properties

    assert ("1000", None) == (alive.expiration, died.expiration)


# Settlement and accounts.


@pytest.mark.parametrize(
    "settlement, outcome",
    [
        (Settlement("basic.ack"), Accepted()),
        (Settlement("basic.reject", requeue=True), Released()),
        (Settlement("basic.nack", requeue=True), Released()),
        (Settlement("basic.nack"), Rejected()),
    ],
)
def test_settlement(settlement: Settlement, outcome: Any) -> None:
    assert outcome == outcome_of_settlement(settlement)
    back, losses = settlement_of_outcome(outcome)
    assert (settlement.requeue, ()) == (back.requeue, losses)
    assert outcome == outcome_of_settlement(back)


def test_losses_of_a_modified_outcome_are_reported() -> None:
    outcome = Modified(delivery_failed=True, message_annotations={"x-opt-a": 1})
    settlement, losses = settlement_of_outcome(outcome)

    assert Settlement("basic.reject", requeue=True) == settlement
    assert ["modified.delivery-failed", "modified.message-annotations"] == [
        loss.path for loss in losses
    ]
    assert not settlement_of_outcome(Modified(undeliverable_here=True))[0].requeue


def test_returns_and_reply_codes() -> None:
    for code, condition in ((312, "amqp:not-found"), (313, "amqp:precondition-failed")):
        error = outcome_of_return(code, "why").error
        assert error is not None
        assert (condition, "why") == (error.condition, error.description)
    assert all(code in REPLY_CODES for code in CONDITIONS.values())
    assert {row.condition for row in REPLY_CODES.values()} <= set(CONDITIONS)
    assert (404, 406) == (CONDITIONS["amqp:not-found"], CONDITIONS["amqp:precondition-failed"])
    with pytest.raises(ValueError, match="999"):
        outcome_of_return(999)
    with pytest.raises(ValueError, match=r"basic\.get"):
        outcome_of_settlement(Settlement("basic.get"))


def test_an_account_tells_what_is_made_and_lost() -> None:
    message = Message(b"hi", properties=Properties(message_id=ULong(5), subject="s"))
    text = explain(message, "rabbitmq-4.3")

    assert 'message-id: "5"' in text
    assert 'properties.subject: dropped: "s"' in text
    assert "Nothing is lost." in explain(BasicMessage(BasicProperties(app_id="a"), b"x"))
    refused = explain(BasicMessage(BasicProperties(expiration="x")), "rabbitmq-4.0")
    assert "no translation to AMQP 1.0" in refused


@pytest.mark.parametrize("depth", [1, 60, 120])
@pytest.mark.parametrize("kind", ["list", "map", "array"])
def test_messages_nest_as_deep_as_they_may(kind: str, depth: int) -> None:
    value: Any = 7
    for _ in range(depth):
        value = {"list": [value], "map": {"k": value}, "array": Array("list", [[value]])}[kind]
    message = Message.decode(Message(body=AmqpValue(value)).encode())
    for profile in PROFILES:
        found = outcome(to_basic, message, profile)
        assert isinstance(found, TranslationError) or b"\x07" in found.message.body


@pytest.mark.parametrize(
    "head",
    [b"\x00\x53\x77", b"\xd0\xff\xff\xff\xff\x00\x00\x00\x01", b"\xf0\x00\x00\x00\x01\x00"],
    ids=["described", "list", "array"],
)
def test_payloads_that_nest_too_deeply_are_refused(head: bytes) -> None:
    payload = b"\x00\x53\x77" + head * 2_000
    basic = BasicMessage(BasicProperties(type="amqp-1.0"), payload)
    for profile in RABBITMQ:
        found = outcome(to_amqp10, basic, profile)
        assert isinstance(found, TranslationError) or payload in found.message.encode()


def test_tables_that_nest_too_deeply_are_refused() -> None:
    table = FieldTable.of([])
    for _ in range(2_000):
        table = FieldTable.of([("k", "F", table)])
    basic = BasicMessage(BasicProperties(headers=FieldTable.of([("x-k", "F", table)])))
    for profile in RABBITMQ:
        with pytest.raises(EncodeError, match="nested too deeply"):
            to_amqp10(basic, PROFILES[profile])
