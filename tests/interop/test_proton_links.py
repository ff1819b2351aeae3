"""Exact bytes between two endpoints of python-qpid-proton, each with its own container."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
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
WIDE = bytes.fromhex(
    # Header, properties and data with the widest descriptors, sizes and encodings.
    "00 80 0000000000000070 d0 00000008 00000002 56 01 50 04"
    "00 80 0000000000000073 d0 0000000c 00000001 b1 00000003 6d2d31"
    "00 80 0000000000000075 b0 00000005 68656c6c6f"
)
# What proton itself would change or lose, and an ordinary one.
EXACT = {
    "ordinary": Message(
        "text", header=Header(durable=True), properties=Properties(message_id="m-1")
    ).encode(),
    "without sections": b"",
    "footer": Message(b"x", footer={"x-opt-crc-32": UInt(5)}).encode(),
    "several data sections": Message([Data(b"a"), Data(b""), Data(b"b")]).encode(),
    "several sequences": Message([AmqpSequence([1]), AmqpSequence([2])]).encode(),
    "wide encodings": WIDE,
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
    node = Node(outgoing=octets)

    client = exchange(
        node, lambda address: Client(address, map_messages(octets), expect=len(octets))
    )

    assert octets == [message.encode() for message in node.received]
    assert octets == [message.encode() for message in client.received]
    assert map_messages(octets) == node.received == client.received
    assert [(proton.Delivery.ACCEPTED, None)] * len(octets) == client.outcomes
    assert [proton.Delivery.ACCEPTED] * len(octets) == node.outcomes
    assert [(str(n + 1), False) for n in range(len(octets))] == node.deliveries


def map_messages(octets: list[bytes]) -> list[Message]:
    return [Message.decode(one) for one in octets]


def test_proton_itself_would_change_them() -> None:
    """Without this, the test above could be one of messages that need no care."""
    for name in EXACT.keys() - {"ordinary"}:
        octets = EXACT[name]
        theirs = proton.Message()
        theirs.decode(octets)

        assert octets != bytes(theirs.encode()), name


def test_message_that_breaks_the_rules_is_received_leniently() -> None:
    body, header = Message("x").encode(), Message(header=Header(durable=True)).encode()
    node = Node(strict=False)

    exchange(node, lambda address: Client(address, [body + header]))

    (message,) = node.received
    assert body + header == message.encode()
    assert Header(durable=True) == message.header


class FaultKeeper(Node):
    def on_decode_error(self, _: Any, error: DecodeError) -> None:
        self.faults.append(error)


def test_undecodable_delivery_is_rejected_with_the_condition(
    caplog: pytest.LogCaptureFixture,
) -> None:
    node = Node(limits=Limits(size=100))
    good = Message("x").encode()

    client = exchange(node, lambda address: Client(address, [b"\0\x53", bytes(101), good]))

    assert [
        (proton.Delivery.REJECTED, "amqp:decode-error"),
        (proton.Delivery.REJECTED, "amqp:resource-limit-exceeded"),
        (proton.Delivery.ACCEPTED, None),
    ] == client.outcomes
    assert [good] == [message.encode() for message in node.received]
    assert 2 == caplog.text.count("rejected a delivery")


def test_on_decode_error_receives_the_octets() -> None:
    node = FaultKeeper()

    client = exchange(node, lambda address: Client(address, [b"\0\x53"]))

    assert [b"\0\x53"] == [error.data for error in node.faults]
    assert [(proton.Delivery.ACCEPTED, None)] == client.outcomes
    assert [] == node.received


class Judge(Node):
    def on_message(self, event: Any) -> None:
        match event.message.text():
            case "reject":
                raise handlers.Reject
            case "release":
                raise handlers.Release
            case "close":
                event.link.close()


def test_outcomes_equal_protons_handler() -> None:
    client = exchange(
        Judge(),
        lambda address: Client(address, [Message("reject"), Message("release"), Message("")]),
    )

    assert [
        proton.Delivery.REJECTED,
        proton.Delivery.MODIFIED,
        proton.Delivery.ACCEPTED,
    ] == [state for state, _ in client.outcomes]


class Hesitant(Node):
    """Decides about both of two messages when the second is here."""

    first: Any = None

    def on_message(self, event: Any) -> None:
        if self.first is None:
            self.first = event.delivery
        else:
            self.reject(self.first)
            self.release(event.delivery)


def test_without_auto_accept_nothing_is_settled_that_the_handler_does_not_settle() -> None:
    client = exchange(
        Hesitant(auto_accept=False), lambda address: Client(address, [Message("a"), Message("b")])
    )

    assert [proton.Delivery.REJECTED, proton.Delivery.MODIFIED] == [
        state for state, _ in client.outcomes
    ]


def test_delivery_after_link_close_is_released() -> None:
    client = exchange(Judge(), lambda address: Client(address, [Message("close"), Message("late")]))

    assert proton.Delivery.ACCEPTED == client.outcomes[0][0]
    assert proton.Delivery.RELEASED == client.outcomes[1][0]


def test_message_larger_than_the_window_is_received_in_pieces() -> None:
    node = Node()
    node.capacity = 65_536
    octets = EXACT["one mebibyte"]

    client = exchange(node, lambda address: Client(address, [octets, b"", octets]))

    assert [octets, b"", octets] == [message.encode() for message in node.received]
    assert [proton.Delivery.ACCEPTED] * 3 == [state for state, _ in client.outcomes]


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

    node: Raw
    half: Any = None

    def on_sendable(self, event: Any) -> None:
        if self.half is None:
            self.half = event.sender.delivery("half")
            event.sender.stream(bytes(100_000))
            with pytest.raises(ValueError, match="not complete"):
                send(event.sender, Message("x"))
            event.container.schedule(0.01, Callback(self.abort))

    def abort(self, event: Any) -> None:
        if not self.node.incomplete:
            event.container.schedule(0.01, Callback(self.abort))
            return
        self.half.abort()
        for message in self.outgoing:
            send(self.sender, message)
        self.outgoing.clear()


@attrs.frozen
class Callback:
    """What proton's timers call."""

    on_timer_task: Callable[[Any], None]


def test_receive_waits_for_all_of_a_delivery() -> None:
    node = Raw()

    def make(address: str) -> Client:
        client = Aborter(address, [EXACT["one mebibyte"], Message("x")])
        client.node = node
        return client

    exchange(node, make)

    assert ["half"] == node.aborted
    assert node.incomplete > 1
    assert [EXACT["one mebibyte"], Message("x").encode()] == [m.encode() for m in node.received]
    assert [5, 5] == [message.message_format for message in node.received]


def test_message_format_is_refused_because_proton_sends_0() -> None:
    frames: list[str] = []

    class Traced(Client):
        def on_connection_opened(self, event: Any) -> None:
            event.transport.trace(proton.Transport.TRACE_FRM)
            event.transport.tracer = lambda _, text: frames.append(text)

        def send(self, sender: Any, message: Any) -> None:
            with pytest.raises(EncodeError, match="0x80013700") as caught:
                send(sender, message)
            assert "message-format" == caught.value.path
            send(sender, message.encode())

    batch = Message(b"x", message_format=0x80013700)
    node = Node()

    exchange(node, lambda address: Traced(address, [batch]))

    assert 0 == node.received[0].message_format
    assert ["message-format=0x0"] == [
        field.strip(",]")
        for frame in frames
        for field in frame.split()
        if field.startswith("message-format=")
    ]


@pytest.mark.parametrize("settled, option", [(True, None), (False, reactor.AtMostOnce())])
def test_settled_deliveries_have_no_outcome(settled: bool, option: Any) -> None:
    class Settling(Client):
        def send(self, sender: Any, message: Any) -> None:
            send(sender, message, tag=b"settled", settled=settled)
            self.outcomes.append((None, None))
            self.on_sent()

        def on_sent(self) -> None:
            self.timer.cancel()
            self.sender.close()

        def on_link_closed(self, _: Any) -> None:
            self.connection.close()

    node = Node()

    exchange(node, lambda address: Settling(address, [Message("x")], link_option=option))

    assert [("settled", True)] == node.deliveries


def test_settled_is_refused_on_a_link_that_sends_unsettled() -> None:
    class Settling(Client):
        def send(self, sender: Any, message: Any) -> None:
            with pytest.raises(ValueError, match="SND_UNSETTLED"):
                send(sender, message, settled=True)
            send(sender, message)

    node = Node()

    client = exchange(
        node, lambda address: Settling(address, [Message("x")], link_option=reactor.AtLeastOnce())
    )

    assert [(proton.Delivery.ACCEPTED, None)] == client.outcomes


def test_message_larger_than_the_peers_limit_is_refused() -> None:
    class Careful(Client):
        def send(self, sender: Any, message: Any) -> None:
            with pytest.raises(EncodeError, match=r"1029 bytes exceed .* 1024"):
                send(sender, Message(bytes(1021)))
            send(sender, message)

    node = Node()
    node.longest = 1024
    fits = Message(bytes(1016))

    exchange(node, lambda address: Careful(address, [fits]))

    assert 1024 == len(fits.encode())
    assert [fits] == node.received


def test_blocking_connection_sends_and_receives_exact_octets() -> None:
    octets = [EXACT["footer"], EXACT["several data sections"]]
    node = FaultKeeper(outgoing=[b"not a message", *octets])

    with listening(node) as address:
        connection = utils.BlockingConnection(address, timeout=TIMEOUT)
        try:
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
        finally:
            connection.close()

    assert octets == [message.encode() for message in node.received]
    assert octets == [message.encode() for message in received]
    assert proton.Delivery.REJECTED == node.outcomes[0]


@pytest.mark.parametrize("credit", [1, 10])
def test_install_refuses_a_receiver_with_messages_that_proton_has_decoded(credit: int) -> None:
    """The first message would be one of proton's, without its footer."""
    with listening(Node(outgoing=[EXACT["footer"]] * 20)) as address:
        connection = utils.BlockingConnection(address, timeout=TIMEOUT)
        try:
            receiver = connection.create_receiver("queue", credit=credit)
            connection.wait(lambda: receiver.fetcher.has_message)
            with pytest.raises(ValueError, match="create the receiver with credit=0"):
                install(receiver.fetcher)
        finally:
            connection.close()


def test_blocking_send_tells_a_rejection() -> None:
    with listening(Node()) as address:
        connection = utils.BlockingConnection(address, timeout=TIMEOUT)
        try:
            with pytest.raises(utils.SendException):
                connection.create_sender("queue").send(sendable(b"\0\x53"))
        finally:
            connection.close()


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
