"""Messages that went through a real RabbitMQ 4.0 come back byte for byte.

Runs against the broker that AMQP10MSG_RABBITMQ names, ``127.0.0.1:26672`` for example: it speaks
1.0, knows guest, and gets a queue that is deleted again.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amqp10msg import AmqpValue, Array, Header, Message, Properties, encode_value
from amqp10msg.basic import BasicMessage, BasicProperties, FieldTable, encode_properties
from amqp10msg.basic.tables import OddTrue, as_table
from amqp10msg.sections.parts import scan
from amqp10msg.testing import basic_messages, messages
from amqp10msg.translate import Translation, residual, to_amqp10, to_basic
from amqp10msg.translate.rabbitmq.terms import reencode_body
from tests import lossless

pytest.importorskip("pika")
pytest.importorskip("proton")

from broker_clients import Basic, Broker, Outcome, Peer, queue

ROOT = Path(__file__).parents[2]
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
ODD = attrs.evolve(
    lossless.ODD,
    headers=FieldTable.of(
        [
            *as_table(lossless.ODD.headers).entries,
            ("o", "t", OddTrue(2)),
            ("s", "S", "\udcff"),
        ]
    ),
    expiration="0060000",
    message_id="m\udcff",
)


KINDS = ["classic", "quorum", "stream"]
kinds = pytest.mark.parametrize("kind", KINDS)


@contextmanager
def connected(kind: str) -> Iterator[tuple[str, Basic, Peer]]:
    """Make a queue, and a connection of each protocol."""
    broker = Broker.at(BROKER or "")
    with queue(broker, kind) as name, Basic(broker) as basic, Peer(broker) as peer:
        yield name, basic, peer


def through(given: Sequence[bytes | BasicMessage], kind: str) -> list[bytes]:
    """Send messages over 1.0, or 0-9-1, to a queue of the broker, and receive them over 1.0."""
    received: list[bytes] = []
    with connected(kind) as (name, basic, peer):
        address = f"/queues/{name}"
        sender, receiver = peer.sender(address), peer.receiver(address)
        for one in given:
            if isinstance(one, bytes):
                peer.send(sender, one)
            else:
                basic.publish(name, one)
            octets, delivery = peer.receive(receiver, 20)
            peer.settle(receiver, delivery)
            received.append(octets)
    return received


def through_basic(given: Sequence[BasicMessage], kind: str, again: bool) -> list[BasicMessage]:
    """Publish messages, and receive them over 0-9-1, again where they shall be redelivered."""
    received = []
    with connected(kind) as (name, basic, _):
        basic.consume(name)
        for one in given:
            basic.publish(name, one)
            made, tag = basic.receive(20)
            if again:
                basic.channel.basic_nack(tag, requeue=True)
                made, tag = basic.receive(20)
            basic.channel.basic_ack(tag)
            received.append(made)
    return received


@kinds
def test_messages_come_back_through_the_broker(kind: str) -> None:
    given = [BasicMessage(properties, b"hello") for properties in (PLAIN, ODD, BasicProperties())]
    came = through([to_amqp10(basic).message.encode() for basic in given], kind)

    for before, octets in zip(given, came, strict=True):
        after = to_basic(Message.decode(octets)).message
        if before.properties.delivery_mode is None:
            # RabbitMQ 4.0 and 4.1 make a message durable that does not say whether it is.
            before.properties.delivery_mode = 2
        assert encode_properties(before.properties) == encode_properties(after.properties)
        assert before.body == after.body


@kinds
def test_an_edit_behind_the_broker_wins(kind: str) -> None:
    (octets,) = through([to_amqp10(BasicMessage(ODD, b"hello")).message.encode()], kind)
    message = Message.decode(octets)
    properties = attrs.evolve(message.properties or Properties(), subject=None, message_id="new")
    after = to_basic(Message.decode(message.evolve(properties=properties).encode())).message

    expected = attrs.evolve(ODD, message_id="new")
    assert encode_properties(expected) == encode_properties(after.properties)


def deliverable(basic: BasicMessage) -> BasicMessage:
    """A message that neither expires at once nor names a user or a reply queue."""
    properties = attrs.evolve(basic.properties, expiration=None, user_id=None, reply_to=None)
    return BasicMessage(properties, basic.body)


# Short lists: long ones of large messages are more than Hypothesis draws.
some = settings(max_examples=6, suppress_health_check=list(HealthCheck))


@kinds
@some
@given(given=st.lists(basic_messages(), min_size=5, max_size=10))
def test_consumers_of_1_0_receive_whatever_0_9_1_becomes(
    kind: str, given: list[BasicMessage]
) -> None:
    octets = [to_amqp10(deliverable(basic)).message.encode() for basic in given]

    assert [body_sections(one) for one in octets] == [
        body_sections(one) for one in through(octets, kind)
    ]


def body_sections(octets: bytes) -> bytes:
    """The encoded sections, since values that hold no number equal nothing."""
    bodies = [part for part in scan(octets) if part.kind and part.kind.attribute == "body"]
    return octets[bodies[0].offset : bodies[-1].end]


@kinds
@some
@given(given=st.lists(messages(), min_size=5, max_size=10))
def test_consumers_of_1_0_receive_whatever_1_0_becomes_in_0_9_1(
    kind: str, given: list[Message]
) -> None:
    basics = [deliverable(to_basic(message).message) for message in given]

    assert len(basics) == len(through(basics, kind))


def is_quiet(made: Translation[BasicMessage]) -> bool:
    """Whether a message neither expires at once nor names a user or a reply queue."""
    return deliverable(made.message) == made.message


def told(message: Message) -> tuple[Any, ...]:
    """What a message says but for what a broker says anew at each delivery."""
    header = message.header or Header()
    annotations: Any = message.message_annotations or {}
    return (
        header.priority,
        header.ttl,
        [
            (key, encode_value(value))
            for key, value in annotations.items()
            if key not in {"x-exchange", "x-routing-key"}
        ],
        message.evolve(header=None, message_annotations=None).encode(),
    )


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("kind", ["classic", "quorum"])
@some
@given(given=st.lists(messages(), min_size=5, max_size=10))
def test_messages_of_1_0_come_back_through_consumers_of_0_9_1(
    kind: str, again: bool, given: list[Message]
) -> None:
    sent = [to_basic(message).message for message in given]
    pairs = [pair for pair in zip(given, sent, strict=True) if deliverable(pair[1]) == pair[1]]
    came = through_basic([basic for _, basic in pairs], kind, again)

    for (message, _), basic in zip(pairs, came, strict=True):
        # Without a residual the order of headers is that of their names.
        if (
            again
            and kind == "quorum"
            and residual.RESIDUAL_NAME not in (basic.properties.headers or {})
        ):
            continue
        assert told(message) == told(to_amqp10(basic).message)


@some
@given(given=st.lists(messages(), min_size=5, max_size=10))
def test_application_properties_change_in_streams_where_the_losses_say_so(
    given: list[Message],
) -> None:
    sent = [to_basic(message) for message in given]
    pairs = [(message, made) for message, made in zip(given, sent, strict=True) if is_quiet(made)]
    came = through_basic([made.message for _, made in pairs], "stream", again=False)

    for (message, made), basic in zip(pairs, came, strict=True):
        before: Any = message.application_properties or {}
        after: Any = to_amqp10(basic).message.application_properties or {}
        said = {
            loss.path
            for loss in made.losses
            if "stream" in loss.reason
            and loss.path.startswith("application-properties")
            and loss.action != "sorted"  # the order, not a value
        }
        # The residual carries a section that has keys of this form, and brings it back.
        carried = {path for path in said if path.startswith("application-properties['x-")}
        changed = {
            f"application-properties[{key!r}]"
            for key, value in before.items()
            if encode_value(value) != encode_value(after[key])
        }
        assert changed - carried == said - carried
        assert not changed & carried or residual.RESIDUAL_NAME not in (
            basic.properties.headers or {}
        )


@some
@given(given=st.lists(basic_messages(), min_size=3, max_size=4))
@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_dead_letters_of_0_9_1_come_back(kind: str, given: list[BasicMessage]) -> None:
    given = [deliverable(basic) for basic in given]
    broker = Broker.at(BROKER or "")
    with queue(broker, "classic") as letters:
        route = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": letters}
        with queue(broker, kind, route) as name, Peer(broker) as peer:
            sender, receiver = (way(f"/queues/{name}") for way in (peer.sender, peer.receiver))
            dead = peer.receiver(f"/queues/{letters}")
            for basic in given:
                peer.send(sender, to_amqp10(basic).message.encode())
                _, delivery = peer.receive(receiver, 20)
                peer.settle(receiver, delivery, Outcome.REJECTED)
                octets, delivery = peer.receive(dead, 20)
                peer.settle(dead, delivery)
                if basic.properties.delivery_mode is None:
                    basic.properties.delivery_mode = 2  # as RabbitMQ 4.0 and 4.1 make it
                back = to_basic(Message.decode(octets)).message
                assert encode_properties(basic.properties) == encode_properties(back.properties)
                assert basic.body == back.body


@kinds
@pytest.mark.parametrize("to", ["amqp10", "basic"])
def test_the_profiles_agree_with_the_broker(kind: str, to: str) -> None:
    done = subprocess.run(
        [
            *(sys.executable, str(ROOT / "tools" / "compare_broker.py"), "--broker", BROKER or ""),
            *("--to", to, "--queue", kind, "--examples", "60", "--seed", "5"),
        ],
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert (0, "") == (done.returncode, done.stderr), done.stdout
    assert "0 differ" in done.stdout


def test_stream_reencodes_bodies_as_reported() -> None:
    values: list[Any] = [
        *(Array("string", ["a", "bc"]), [Array("symbol", ["k"])], {"k": Array("uint", [1, 300])}),
        *([1, "a", None, True], [[], {}], Array("uint", [])),
    ]
    made = [to_basic(Message.decode(Message(AmqpValue(value)).encode())) for value in values]

    for translation, came in zip(
        made, through_basic([one.message for one in made], "stream", again=False), strict=True
    ):
        body = translation.message.body
        assert reencode_body(body) == came.body
        assert (body != came.body) == any(loss.path == "body" for loss in translation.losses)
