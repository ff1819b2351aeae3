"""Dead letters: what their message-annotations say of how the message died."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg import (
    Array,
    Described,
    Header,
    Message,
    Symbol,
    Timestamp,
    UInt,
    ULong,
    encode_value,
    scan,
)
from amqp10msg.delivery import Accepted, Error, Rejected, Released
from amqp10msg.delivery.node import DeadLetter, DistributionNode
from amqp10msg.testing import messages
from tests.delivery.nodes import Clock, node_of, take

pytestmark = pytest.mark.once


def letter_of(message: Message | bytes, outcome: Rejected | None = None, **given: Any) -> Message:
    octets = message if isinstance(message, bytes) else message.encode()
    fields: dict[str, Any] = {"cause": "rejected", "node": "orders", "arrival": 1, "time": 5}
    letter = DeadLetter(octets, outcome=outcome, **{**fields, **given})
    return Message.decode(letter.annotated())


@given(messages(), st.sampled_from(["rejected", "expired", "deleted"]))
def test_only_the_annotations_and_the_ttl_change(message: Message, cause: str) -> None:
    octets = message.encode()
    made = DeadLetter(octets, cause, "q", None, 1, 0, 2).annotated()
    decoded, before = Message.decode(made), Message.decode(octets)

    assert scan(octets).bare == scan(made).bare
    added = set(decoded.message_annotations or {}) - set(before.message_annotations or {})
    assert added <= {"x-opt-deaths"} | {
        f"x-{which}-death-{what}"
        for which in ("first", "last")
        for what in ("queue", "reason", "exchange")
    }
    if before.header is not None:
        before.header.ttl = None
    assert before.header == decoded.header


@pytest.mark.once
def test_deaths_are_those_of_rabbitmq() -> None:
    """Recorded at RabbitMQ 4.0.5: the types, the names and their order."""
    message = Message(
        "x",
        header=Header(ttl=50),
        message_annotations={"x-exchange": "work", "x-routing-key": "key"},
    )
    annotations: Any = letter_of(message, cause="expired").message_annotations
    death = {
        Symbol("ttl"): UInt(50),
        Symbol("queue"): "orders",
        Symbol("reason"): Symbol("expired"),
        Symbol("count"): ULong(1),
        Symbol("first-time"): Timestamp(5),
        Symbol("last-time"): Timestamp(5),
        Symbol("exchange"): "work",
        Symbol("routing-keys"): Array("string", ["key"]),
    }

    assert encode_value(Array("map", [death])) == encode_value(annotations["x-opt-deaths"])
    assert {
        f"x-{which}-death-{what}": value
        for which in ("first", "last")
        for what, value in (("queue", "orders"), ("reason", "expired"), ("exchange", "work"))
    } == {name: value for name, value in annotations.items() if "-death-" in name}


@pytest.mark.once
def test_deaths_are_counted_by_queue_and_reason() -> None:
    message = letter_of(Message("x"), time=5)
    message = letter_of(message, time=6, cause="expired", node="other")
    annotations: Any = letter_of(message, time=7).message_annotations

    assert [("orders", "rejected", 2, 5, 7), ("other", "expired", 1, 6, 6)] == [
        tuple(death[key] for key in ("queue", "reason", "count", "first-time", "last-time"))
        for death in annotations["x-opt-deaths"].values
    ]
    assert "orders" == annotations["x-first-death-queue"] == annotations["x-last-death-queue"]


@pytest.mark.once
@pytest.mark.parametrize("known", ["text", Array("map", [{}]), Array("uint", [UInt(1)]), None])
def test_history_of_another_shape_is_left_alone(known: Any) -> None:
    message = Message("x", message_annotations={"x-opt-deaths": known})
    annotations: Any = letter_of(message).message_annotations

    assert (known if known is not None else 1) == (
        annotations["x-opt-deaths"]
        if known is not None
        else len(annotations["x-opt-deaths"].values)
    )
    assert "rejected" == annotations["x-last-death-reason"]


@pytest.mark.once
def test_error_of_the_client_is_kept() -> None:
    rejected = Rejected(Error("app:bad", description="no good"))
    message = letter_of(Message("x"), rejected)
    annotations: Any = message.message_annotations
    assert (Symbol("app:bad"), "no good") == (
        annotations["x-opt-death-condition"],
        annotations["x-opt-death-description"],
    )

    # That of an earlier death does not stay with one that has none.
    again: Any = letter_of(message, Rejected()).message_annotations
    assert not {"x-opt-death-condition", "x-opt-death-description"} & set(again)


@pytest.mark.once
def test_node_hands_over_what_is_known() -> None:
    clock, letters = Clock(), list[DeadLetter]()
    node = DistributionNode("orders", clock=clock, dead_letter=letters.append)
    node.publish(Message("x", header=Header(ttl=3)))
    clock.now += 10
    node.expire()

    assert [("expired", "orders", clock.now)] == [
        (letter.cause, letter.node, letter.time) for letter in letters
    ]


# First-acquirer.


def _with_header(*fields: Any, symbolic: bool = False) -> bytes:
    descriptor = Symbol("amqp:header:list") if symbolic else ULong(0x70)
    return encode_value(Described(descriptor, list(fields))) + Message("x").encode()


@pytest.mark.once
@pytest.mark.parametrize(
    "octets, first",
    [
        (Message("x").encode(), True),
        (_with_header(), True),
        (_with_header(False, None, None, None), True),
        (_with_header(True, None, None, True), True),
        (_with_header(None, None, None, False), False),
        (_with_header(False, None, None, False, UInt(3)), False),
        (_with_header(None, None, UInt(1 << 30), False, symbolic=True), False),
        # False in its longer form, and what looks like it elsewhere.
        (bytes.fromhex("005370c00604404040 5600") + Message("x").encode(), False),
        (_with_header(None, None, UInt(0x42)), True),
        (Message("BBBB").encode(), True),
    ],
)
def test_sender_that_says_it_is_not_the_first_acquirer_is_believed(
    octets: bytes, first: bool
) -> None:
    node = node_of(accept_durable=True)
    node.publish(octets)
    link = node.attach()
    for _ in range(2):
        delivery = take(link)
        header = delivery.message().header
        assert header is not None
        assert first is header.first_acquirer
        delivery.settle(Released())
    take(link).settle(Accepted())
