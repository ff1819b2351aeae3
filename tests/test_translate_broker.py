"""Messages that went through a real RabbitMQ 4.0 come back octet for octet.

Runs against the broker that AMQP10MSG_RABBITMQ names, ``127.0.0.1:26672`` for example: it speaks
1.0, knows guest, and gets a queue that is deleted again.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from functools import partial
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqp10msg import Message, Properties
from amqp10msg.basic import BasicMessage, BasicProperties, FieldTable, encode_properties
from amqp10msg.basic.tables import OddTrue, ScaledDecimal
from amqp10msg.testing import basic_messages, messages
from amqp10msg.translate import to_amqp10, to_basic

pytestmark = pytest.mark.once
BROKER = os.environ.get("AMQP10MSG_RABBITMQ")
if BROKER is None:
    pytest.skip("AMQP10MSG_RABBITMQ names no RabbitMQ 4.0", allow_module_level=True)

PLAIN = BasicProperties(
    "application/json",
    headers=FieldTable({"tenant": "acme", "n": 3, "x-delay": 5}),
    delivery_mode=2,
    message_id="urn:uuid:58b867b0-8151-1f56-1bd4-73229807fd60",
    timestamp=1_700_000_000,
    user_id="guest",
    type="order",
)
ODD = BasicProperties(
    content_encoding="utf-8",
    headers=FieldTable.of(
        [
            ("x-a", "L", 5),
            ("b", "S", "v"),
            ("b", "I", 2),
            ("c", "D", ScaledDecimal(2, 314)),
            ("t", "A", [1, 2]),
            ("o", "t", OddTrue(2)),
            ("s", "S", "\udcff"),
        ]
    ),
    delivery_mode=1,
    priority=200,
    expiration="0060000",
    message_id="m\udcff",
    cluster_id="c",
)


def through(given: Sequence[bytes | BasicMessage]) -> list[bytes]:
    """Send messages over 1.0, or 0-9-1, to a queue of the broker, and receive them over 1.0."""
    pika = pytest.importorskip("pika")
    pytest.importorskip("proton")
    from proton.utils import BlockingConnection  # noqa: PLC0415

    from amqp10msg.proton import install, sendable  # noqa: PLC0415

    host, _, port = (BROKER or "").partition(":")
    queue = f"amqp10msg-{uuid.uuid4()}"
    owner = pika.BlockingConnection(pika.ConnectionParameters(host, int(port)))
    received: list[bytes] = []
    try:
        channel = owner.channel()
        channel.queue_declare(queue)
        connection: Any = BlockingConnection(f"amqp://guest:guest@{BROKER}", timeout=20)
        try:
            sender = connection.create_sender(f"/queues/{queue}")
            receiver = connection.create_receiver(f"/queues/{queue}", credit=len(given))
            install(receiver.fetcher)
            for one in given:
                if isinstance(one, bytes):
                    sender.send(sendable(one))
                    continue
                properties = pika.BasicProperties()
                properties.encode = partial(list, [encode_properties(one.properties)])
                channel.basic_publish("", queue, one.body, properties)
            for _ in given:
                received.append(receiver.receive(timeout=20).encode())
                receiver.accept()
        finally:
            connection.close()
        channel.queue_delete(queue)
    finally:
        owner.close()
    return received


def test_messages_come_back_through_the_broker() -> None:
    given = [BasicMessage(properties, b"hello") for properties in (PLAIN, ODD, BasicProperties())]
    came = through([to_amqp10(basic).message.encode() for basic in given])

    for before, octets in zip(given, came, strict=True):
        after = to_basic(Message.decode(octets)).message
        if before.properties.delivery_mode is None:
            # RabbitMQ 4.0 and 4.1 make a message durable that does not say whether it is.
            before.properties.delivery_mode = 2
        assert encode_properties(before.properties) == encode_properties(after.properties)
        assert before.body == after.body


def test_an_edit_behind_the_broker_wins() -> None:
    (octets,) = through([to_amqp10(BasicMessage(ODD, b"hello")).message.encode()])
    message = Message.decode(octets)
    properties = attrs.evolve(message.properties or Properties(), subject=None, message_id="new")
    after = to_basic(Message.decode(message.evolve(properties=properties).encode())).message

    expected = attrs.evolve(ODD, message_id="new")
    assert encode_properties(expected) == encode_properties(after.properties)


def deliverable(basic: BasicMessage) -> BasicMessage:
    """A message that neither expires at once nor names a user or a reply queue."""
    properties = attrs.evolve(basic.properties, expiration=None, user_id=None, reply_to=None)
    return BasicMessage(properties, basic.body)


@settings(max_examples=10)
@given(st.lists(basic_messages(), min_size=10, max_size=40))
def test_consumers_of_1_0_receive_whatever_0_9_1_becomes(given: list[BasicMessage]) -> None:
    octets = [to_amqp10(deliverable(basic)).message.encode() for basic in given]

    assert [Message.decode(one).body for one in octets] == [
        Message.decode(one).body for one in through(octets)
    ]


@settings(max_examples=10)
@given(st.lists(messages(), min_size=10, max_size=40))
def test_consumers_of_1_0_receive_whatever_1_0_becomes_in_0_9_1(given: list[Message]) -> None:
    basics = [deliverable(to_basic(message).message) for message in given]

    assert len(basics) == len(through(basics))
