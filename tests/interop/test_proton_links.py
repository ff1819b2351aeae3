"""Exact bytes between two endpoints of python-qpid-proton, each with its own container."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from amqp10msg import (
    AmqpMap,
    AmqpSequence,
    AmqpValue,
    Data,
    DecodeError,
    Described,
    EncodeError,
    Float,
    Header,
    Limits,
    Message,
    Properties,
    Symbol,
    UInt,
    ULong,
)

proton = pytest.importorskip("proton", reason="needs python-qpid-proton")
handlers = pytest.importorskip("proton.handlers")
reactor = pytest.importorskip("proton.reactor")
utils = pytest.importorskip("proton.utils")

from amqp10msg.interop.proton import (  # noqa: E402  (needs proton)
    MessagingHandler,
    install,
    receive,
    receive_octets,
    send,
    sendable,
)
from tests.interop.proton_nodes import TIMEOUT, Client, Node, exchange, listening  # noqa: E402

pytestmark = pytest.mark.once
# What proton itself would change or lose, and an ordinary one.
EXACT = {
    "ordinary": Message(
        "text", header=Header(durable=True), properties=Properties(message_id="m-1")
    ).encode(),
    "without sections": b"",
    "footer": Message(b"x", footer={"x-opt-crc-32": UInt(5)}).encode(),
    "several data sections": Message([Data(b"a"), Data(b""), Data(b"b")]).encode(),
    "several sequences": Message([AmqpSequence([1]), AmqpSequence([2])]).encode(),
    "widest descriptors, sizes and encodings": bytes.fromhex(
        "00 80 0000000000000070 d0 00000008 00000002 56 01 50 04"
        "00 80 0000000000000073 d0 0000000c 00000001 b1 00000003 6d2d31"
        "00 80 0000000000000075 b0 00000005 68656c6c6f"
    ),
    "symbolic descriptors": b"\0\xa3\x10amqp:data:binary\xa0\x01x",
    "null body": Message(AmqpValue(None)).encode(),
    "nested described": Message(
        {"k": Described(Symbol("a"), Described(ULong(1), b"x")), "l": 1}
    ).encode(),
    "equal keys": Message(AmqpMap([(1, "a"), (UInt(1), "b")])).encode(),
    "signalling NaN": Message(Float.from_bits(0x7F800001)).encode(),
    "one mebibyte": Message(bytes(range(256)) * 4096).encode(),
}


def test_exact_octets_go_from_proton_to_proton_and_back() -> None:
    octets = list(EXACT.values())
    messages = list(map(Message.decode, octets))
    node = Node(outgoing=octets)

    client = exchange(node, lambda address: Client(address, messages, expect=len(octets)))

    assert octets == [message.encode() for message in node.received]
    assert octets == [message.encode() for message in client.received]
    assert messages == node.received == client.received
    assert [(proton.Delivery.ACCEPTED, None)] * len(octets) == client.outcomes
    assert [proton.Delivery.ACCEPTED] * len(octets) == node.outcomes
    assert [(str(n + 1), False) for n in range(len(octets))] == node.deliveries


def test_proton_itself_would_change_them() -> None:
    """Without this, the test above could be one of messages that need no care."""
    for name in EXACT.keys() - {"ordinary"}:
        theirs = proton.Message()
        theirs.decode(EXACT[name])

        assert EXACT[name] != bytes(theirs.encode()), name


class FaultKeeper(Node):
    def on_decode_error(self, _: Any, error: DecodeError) -> None:
        self.faults.append(error)


class Judge(Node):
    """Rejects or releases a message, or closes the link, as the message's text says."""

    def on_message(self, event: Any) -> None:
        super().on_message(event)
        text = event.message.body.value
        if text in {"reject", "release"}:
            raise {"reject": handlers.Reject, "release": handlers.Release}[text]
        if text == "close":
            event.link.close()


class Hesitant(Node):
    """Keeps the first message unsettled, and settles both when the second one arrives."""

    first: Any = None

    def on_message(self, event: Any) -> None:
        super().on_message(event)
        if self.first is None:
            self.first = event.delivery
        else:
            self.reject(self.first)
            self.release(event.delivery)


class SmallWindow(Node):
    capacity = 65_536


STATES = {
    getattr(proton.Delivery, name): name
    for name in ("ACCEPTED", "REJECTED", "RELEASED", "MODIFIED")
}
REVERSED = Message("x").encode() + Message(header=Header(durable=True)).encode()
BAD, LARGE, LARGER = b"\0\x53", EXACT["one mebibyte"], Message(bytes(2**21)).encode()
A, REJECT, RELEASE, CLOSE = (Message(text).encode() for text in ("a", "reject", "release", "close"))

# The node, the messages sent to it, and their outcomes, with the condition.
OUTCOMES: list[tuple[Callable[[], Node], dict[bytes, str]]] = [
    (Node, {REVERSED: "REJECTED amqp:decode-error"}),
    (lambda: Node(strict=False), {REVERSED: "ACCEPTED"}),
    (
        lambda: Node(limits=Limits(size=100)),
        {
            BAD: "REJECTED amqp:decode-error",
            bytes(101): "REJECTED amqp:resource-limit-exceeded",
            A: "ACCEPTED",
        },
    ),
    (FaultKeeper, {BAD: "ACCEPTED", A: "ACCEPTED"}),
    # As with proton's handler.
    (Judge, {REJECT: "REJECTED", RELEASE: "MODIFIED", A: "ACCEPTED"}),
    (Judge, {CLOSE: "ACCEPTED", A: "RELEASED"}),
    (lambda: Hesitant(auto_accept=False), {A: "REJECTED", REJECT: "MODIFIED"}),
    (SmallWindow, {LARGE: "ACCEPTED", b"": "ACCEPTED", LARGER: "ACCEPTED"}),
]


@pytest.mark.parametrize("make_node, outcomes", OUTCOMES)
def test_outcomes_of_deliveries(
    make_node: Callable[[], Node], outcomes: dict[bytes, str], caplog: pytest.LogCaptureFixture
) -> None:
    node = make_node()

    client = exchange(node, lambda address: Client(address, [*outcomes]))

    assert [*outcomes.values()] == [
        " ".join(filter(None, (STATES[state], condition))) for state, condition in client.outcomes
    ]
    received = [
        octets
        for octets, outcome in outcomes.items()
        if octets != BAD and "amqp:" not in outcome and outcome != "RELEASED"
    ]
    assert received == [message.encode() for message in node.received]
    assert [BAD] * isinstance(node, FaultKeeper) == [error.data for error in node.faults]
    assert str(outcomes).count("amqp:") == caplog.text.count("rejected a delivery")


class Raw(Node):
    """Takes deliveries itself, without a handler for messages."""

    def __init__(self) -> None:
        super().__init__()
        self.handlers: list[Any] = [
            child
            for child in self.handlers
            if not isinstance(child, handlers.IncomingMessageHandler)
        ]
        self.incomplete = 0
        self.aborted: list[str] = []

    def on_delivery(self, event: Any) -> None:
        delivery = event.delivery
        if delivery.link.is_sender:
            return
        if delivery.aborted:
            assert receive_octets(delivery) is None
            assert not hasattr(delivery, "amqp10msg_taken"), "it would be kept for ever"
            self.aborted.append(delivery.tag)
            delivery.settle()
            return
        message = receive(delivery, message_format=5)
        if message is None:
            self.incomplete += delivery.partial
            return
        assert receive(delivery) is None, "it was taken"
        assert not hasattr(delivery, "amqp10msg_taken"), "it would be kept for ever"
        self.received.append(message)
        delivery.update(proton.Delivery.ACCEPTED)
        delivery.settle()


class Aborter(Client):
    """Streams half a message, aborts it once part of it arrived, and sends what it has."""

    half: Any = None

    def __init__(self, address: str, outgoing: list[Any], node: Raw) -> None:
        super().__init__(address, outgoing)
        self.node = node

    def on_sendable(self, event: Any) -> None:
        if self.half is None:
            self.half = event.sender.delivery("half")
            event.sender.stream(bytes(100_000))
            with pytest.raises(ValueError, match="not complete"):
                send(event.sender, Message("x"))
            event.container.schedule(0.01, SimpleNamespace(on_timer_task=self.abort))

    def abort(self, event: Any) -> None:
        if not self.node.incomplete:
            event.container.schedule(0.01, SimpleNamespace(on_timer_task=self.abort))
            return
        self.half.abort()
        for message in self.outgoing:
            send(self.sender, message)
        self.outgoing.clear()


def test_receive_waits_for_all_of_a_delivery() -> None:
    node = Raw()

    exchange(node, lambda address: Aborter(address, [LARGE, A], node=node))

    assert ["half"] == node.aborted
    assert node.incomplete > 1
    assert [LARGE, A] == [message.encode() for message in node.received]
    assert [5, 5] == [message.message_format for message in node.received]


class Small(Node):
    longest = 1_024


# A message that is refused, the error, its text and its path, and a message that is sent.
REFUSED: list[tuple[Message, type[Exception], str, str, Message]] = [
    # Proton sends the message-format 0.
    (Message(b"x", message_format=5), EncodeError, "0 instead of 0x5", "message-format", Message()),
    (Message(bytes(1021)), EncodeError, "1029 bytes exceed .* 1024", "", Message(bytes(1016))),
    (Message("settled"), ValueError, "SND_UNSETTLED", "", Message()),
]


@pytest.mark.parametrize("refused, error, text, path, message", REFUSED)
def test_message_that_cannot_be_sent_is_refused(
    refused: Message, error: type[Exception], text: str, path: str, message: Message
) -> None:
    frames: list[str] = []

    class Refusing(Client):
        def on_connection_opened(self, event: Any) -> None:
            event.transport.trace(proton.Transport.TRACE_FRM)
            event.transport.tracer = lambda _, text: frames.append(text)

        def send(self, sender: Any, message: Any) -> None:
            with pytest.raises(error, match=text) as caught:
                send(sender, refused, settled=refused.body == AmqpValue("settled"))
            assert path == getattr(caught.value, "path", "")
            send(sender, message)

    node = Small()

    client = exchange(
        node, lambda address: Refusing(address, [message], link_option=reactor.AtLeastOnce())
    )

    assert [message] == node.received
    assert [(proton.Delivery.ACCEPTED, None)] == client.outcomes
    assert ["message-format=0x0"] == re.findall(r"message-format=\w+", "".join(frames))


@pytest.mark.parametrize("settled, option", [(True, None), (False, reactor.AtMostOnce())])
def test_settled_deliveries_have_no_outcome(settled: bool, option: Any) -> None:
    class Settling(Client):
        def send(self, sender: Any, message: Any) -> None:
            send(sender, message, tag=b"settled", settled=settled)
            self.timer.cancel()
            self.sender.close()

        def on_link_closed(self, _: Any) -> None:
            self.connection.close()

    node = Node()

    client = exchange(node, lambda address: Settling(address, [Message("x")], link_option=option))

    assert [("settled", True)] == node.deliveries
    assert [] == client.outcomes


@contextmanager
def blocking(node: Node) -> Iterator[Any]:
    with listening(node) as address:
        connection = utils.BlockingConnection(address, timeout=TIMEOUT)
        try:
            yield connection
        finally:
            connection.close()


def test_blocking_connection_sends_and_receives_exact_octets() -> None:
    octets = [EXACT["footer"], EXACT["several data sections"]]
    node = FaultKeeper(outgoing=[b"not a message", *octets])

    with blocking(node) as connection:
        sender = connection.create_sender("queue")
        sender.send(sendable(octets[0]))
        sender.send(sendable(Message.decode(octets[1])))
        receiver = connection.create_receiver("queue", credit=0)
        install(receiver.fetcher)
        with pytest.raises(DecodeError):
            receiver.receive()
        received = [receiver.receive() for _ in octets]
        receiver.accept()
        receiver.accept()

    assert octets == [message.encode() for message in node.received]
    assert octets == [message.encode() for message in received]
    assert proton.Delivery.REJECTED == node.outcomes[0]


@pytest.mark.parametrize("credit", [1, 10])
def test_install_refuses_a_receiver_with_messages_that_proton_has_decoded(credit: int) -> None:
    """The first message would be one of proton's, without its footer."""
    with blocking(Node(outgoing=[EXACT["footer"]] * 20)) as connection:
        receiver = connection.create_receiver("queue", credit=credit)
        connection.wait(lambda: receiver.fetcher.has_message)
        with pytest.raises(ValueError, match="create the receiver with credit=0"):
            install(receiver.fetcher)


def test_blocking_send_tells_a_rejection() -> None:
    with blocking(Node()) as connection, pytest.raises(utils.SendException):
        connection.create_sender("queue").send(sendable(BAD))


def test_handler_precedes_other_handlers_of_proton() -> None:
    plain = handlers.TransactionalClientHandler(3)
    mixed: Any = type("Mixed", (MessagingHandler, handlers.TransactionalClientHandler), {})
    ours = mixed(3, strict=False)

    assert len(plain.handlers) == len(ours.handlers)
    for theirs, child in zip(plain.handlers, ours.handlers, strict=True):
        assert isinstance(child, type(theirs))
    incoming = ours.handlers[2]
    assert (False, False) == (incoming.auto_accept, incoming.strict)


def test_install_needs_a_handler_of_incoming_messages() -> None:
    handler = handlers.MessagingHandler()
    handler.handlers.clear()

    for empty in (handler, None):
        with pytest.raises(ValueError, match="IncomingMessageHandler"):
            install(empty)
