"""Every profile against any input: a result or TranslationError; what brokers fail on; accounts."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import attrs
import pytest
from hypothesis import given

from amqp10msg import (
    AmqpValue,
    Array,
    Data,
    EncodeError,
    Header,
    Message,
    Properties,
    Timestamp,
    UInt,
    ULong,
)
from amqp10msg.basic import (
    BasicMessage,
    BasicProperties,
    FieldTable,
    encode_properties,
)
from amqp10msg.delivery import Accepted, Modified, Rejected, Released
from amqp10msg.testing import basic_messages, messages
from amqp10msg.translate import (
    PROFILES,
    Circumstances,
    Death,
    ForeignUserError,
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


def test_faults_of_brokers_are_reported() -> None:
    losses = to_amqp10(
        BasicMessage(BasicProperties(expiration="4294967296", cluster_id="c")), "rabbitmq-4.3"
    ).losses

    assert [("properties.expiration", "wrapped"), ("properties.cluster-id", "dropped")] == [
        (loss.path, loss.action) for loss in losses
    ]
    assert "ttl wrapped modulo 2^32" == losses[0].reason


@pytest.mark.parametrize("profile", RABBITMQ)
def test_the_user_is_checked(profile: ProfileName) -> None:
    basic = BasicMessage(BasicProperties(user_id="alice"))
    message = Message(b"", properties=Properties(user_id=b"alice"))
    calls: list[Callable[[], object]]
    calls = [lambda: to_amqp10(basic, profile), lambda: to_basic(message, profile)]
    for call in calls:
        with pytest.raises(ForeignUserError, match="not the connection's user") as caught:
            call()
        copied = pickle.loads(pickle.dumps(caught.value))
        assert (ForeignUserError, vars(caught.value)) == (type(copied), vars(copied))
    for user in ("alice", None):
        given = Circumstances(user=user)
        to_amqp10(basic, profile, circumstances=given)
        to_basic(message, profile, circumstances=given)


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
