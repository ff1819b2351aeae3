"""Two endpoints of proton, each with its own container, on the loopback interface."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from amqp10msg import DecodeError, Message

proton = pytest.importorskip("proton", reason="needs python-qpid-proton")
handlers = pytest.importorskip("proton.handlers")
reactor = pytest.importorskip("proton.reactor")
utils = pytest.importorskip("proton.utils")

from amqp10msg.interop.proton import MessagingHandler, send  # noqa: E402  (needs proton)

TIMEOUT = 20.0  # seconds; nothing here takes one


class Node(MessagingHandler):
    """The listening end: keeps what it receives and sends what it is given, one link each way."""

    #: The session's window and the link's max-message-size in bytes; 0 for none.
    capacity = 0
    longest = 0

    def __init__(self, outgoing: Sequence[Any] = (), **options: Any) -> None:
        super().__init__(**options)
        self.outgoing = list(outgoing)
        self.received: list[Message] = []
        self.deliveries: list[tuple[str, bool]] = []
        self.faults: list[DecodeError] = []
        self.outcomes: list[Any] = []
        self.address: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.connection: Any = None
        self.timed_out = False

    def on_start(self, event: Any) -> None:
        self.acceptor = event.container.listen("127.0.0.1:0")
        # Proton tells the port of a listener nowhere else.
        port = self.acceptor._selectable._delegate.getsockname()[1]
        self.timer = event.container.schedule(TIMEOUT, self)
        self.address.put(f"amqp://127.0.0.1:{port}")

    def on_timer_task(self, _: Any) -> None:
        # Closed and not dropped, so that the other end does not wait for ever.
        self.timed_out = True
        self.acceptor.close()
        if self.connection is not None:
            self.connection.close()

    def on_connection_opening(self, event: Any) -> None:
        self.connection = event.connection

    def on_session_opening(self, event: Any) -> None:
        if self.capacity:
            event.session.incoming_capacity = self.capacity

    def on_link_opening(self, event: Any) -> None:
        event.link.source.address = event.link.remote_source.address
        event.link.target.address = event.link.remote_target.address
        event.link.max_message_size = self.longest

    def on_sendable(self, event: Any) -> None:
        while self.outgoing and event.sender.credit:
            send(event.sender, self.outgoing.pop(0))

    def on_message(self, event: Any) -> None:
        self.received.append(event.message)
        self.deliveries.append((event.delivery.tag, event.delivery.settled))

    def on_settled(self, event: Any) -> None:
        self.outcomes.append(event.delivery.remote_state)

    def on_connection_closed(self, _: Any) -> None:
        self.timer.cancel()
        self.acceptor.close()


@contextmanager
def listening(node: Node) -> Iterator[str]:
    """Run a node in a thread until its one connection is closed; give its address."""
    container = reactor.Container(node)
    thread = threading.Thread(target=container.run, daemon=True)
    thread.start()
    try:
        yield node.address.get(timeout=TIMEOUT)
    finally:
        thread.join(TIMEOUT)
        assert not thread.is_alive(), "the listening end did not stop"
        assert not node.timed_out, "the connecting end did not close its connection"


class Client(MessagingHandler):
    """The connecting end: a sender and a receiver, closed when `done` says so."""

    def __init__(
        self,
        address: str,
        outgoing: list[Any],
        expect: int = 0,
        link_option: Any = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.address = address
        self.outgoing = list(outgoing)
        self.settlements = len(outgoing)
        self.expect = expect
        self.link_option = link_option
        self.received: list[Message] = []
        self.outcomes: list[tuple[Any, Any]] = []

    def on_start(self, event: Any) -> None:
        self.connection = event.container.connect(self.address, reconnect=False)
        self.sender = event.container.create_sender(
            self.connection, "queue", options=self.link_option
        )
        if self.expect:
            event.container.create_receiver(self.connection, "queue")
        self.timer = event.container.schedule(TIMEOUT, self)

    def on_timer_task(self, event: Any) -> None:
        event.container.stop()
        raise TimeoutError("the messages did not all arrive")

    def on_sendable(self, event: Any) -> None:
        while self.outgoing and event.sender.credit:
            self.send(event.sender, self.outgoing.pop(0))

    def send(self, sender: Any, message: Any) -> None:
        send(sender, message)

    def on_message(self, event: Any) -> None:
        self.received.append(event.message)
        self.close_when_done()

    def on_settled(self, event: Any) -> None:
        if event.delivery.link.is_sender:
            condition = event.delivery.remote.condition
            self.outcomes.append((event.delivery.remote_state, condition and condition.name))
            self.close_when_done()

    def close_when_done(self) -> None:
        if len(self.outcomes) >= self.settlements and len(self.received) >= self.expect:
            self.timer.cancel()
            self.connection.close()


def exchange(node: Node, make: Callable[[str], Client]) -> Client:
    """Run both ends until the client is done."""
    with listening(node) as address:
        client = make(address)
        reactor.Container(client).run()
    return client
