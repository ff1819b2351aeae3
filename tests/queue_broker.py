"""A broker with one queue over AMQP 1.0, made of proton, whose peers may be killed."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

import attrs
from proton.handlers import MessagingHandler
from proton.reactor import Container

from amqp10msg import DecodeError, Header, Message

__all__ = ["Broker", "Queue", "running"]


@attrs.define(eq=False)
class Queue:
    """What a broker keeps: messages, and those that are delivered and not yet accepted."""

    ready: deque[tuple[bytes, bool]]
    accepted: list[bytes] = attrs.Factory(list)


class Broker(MessagingHandler):
    """One queue; what is not accepted when a connection ends is delivered again."""

    def __init__(self, queue: Queue) -> None:
        super().__init__(auto_accept=False, auto_settle=False)
        self.queue = queue
        self.url = ""
        self.started = threading.Event()
        self.stopping = False
        self.unsettled: dict[Any, dict[str, bytes]] = {}
        self.links: list[Any] = []
        self.count = 0

    def on_start(self, event: Any) -> None:
        self.acceptor = event.container.listen("127.0.0.1:0")
        selectable = self.acceptor._selectable._delegate
        self.url = f"amqp://127.0.0.1:{selectable.getsockname()[1]}"
        self.started.set()
        event.container.schedule(0.02, self)

    def on_timer_task(self, event: Any) -> None:
        if self.stopping:
            self.acceptor.close()
            event.container.stop()
            return
        for link in self.links:
            self._send(link)  # what was published meanwhile
        event.container.schedule(0.02, self)

    def publish(self, messages: Iterable[bytes]) -> None:
        """Put messages into the queue, from any thread."""
        self.queue.ready.extend((octets, False) for octets in messages)

    def on_link_opening(self, event: Any) -> None:
        event.link.source.copy(event.link.remote_source)
        self.links.append(event.link)

    def on_sendable(self, event: Any) -> None:
        self._send(event.link)

    def _send(self, link: Any) -> None:
        while link.credit and self.queue.ready:
            octets, again = self.queue.ready.popleft()
            self.count += 1
            tag = f"t{self.count}"
            link.delivery(tag)
            sent = octets
            if again:
                sent = _redelivered(octets)
            link.stream(sent)
            link.advance()
            self.unsettled.setdefault(link.connection, {})[tag] = octets

    def on_accepted(self, event: Any) -> None:
        octets = self.unsettled[event.connection].pop(event.delivery.tag)
        self.queue.accepted.append(octets)

    def on_settled(self, event: Any) -> None:
        event.delivery.settle()

    def _back(self, connection: Any) -> None:
        self.links = [link for link in self.links if link.connection != connection]
        for octets in self.unsettled.pop(connection, {}).values():
            self.queue.ready.append((octets, True))

    def on_connection_closing(self, event: Any) -> None:
        self._back(event.connection)
        event.connection.close()

    def on_transport_closed(self, event: Any) -> None:
        self._back(event.connection)


def _redelivered(octets: bytes) -> bytes:
    """Say in the header that somebody may have had it before; what is no message stays as it is."""
    try:
        return Message.decode(octets).evolve(header=Header(first_acquirer=False)).encode()
    except DecodeError:
        return octets


@contextlib.contextmanager
def running(broker: Broker | None = None) -> Iterator[Broker]:
    """Run a broker in a thread; by default one that delivers an empty queue."""
    made = broker or Broker(Queue(deque()))
    thread = threading.Thread(target=Container(made).run)
    thread.start()
    try:
        assert made.started.wait(10)
        yield made
    finally:
        made.stopping = True
        thread.join(10)
        assert not thread.is_alive()
