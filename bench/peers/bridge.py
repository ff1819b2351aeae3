"""A bridge as one writes it with pika and python-qpid-proton: ``python -m bench.peers.bridge``.

    python -m bench.peers.bridge to-1.0 127.0.0.1:5672 orders 127.0.0.1:5673 /queues/orders
    python -m bench.peers.bridge to-0-9-1 127.0.0.1:5673 /queues/orders 127.0.0.1:5672 orders

A number behind these is the prefetch, or the credit.

This library translates the messages, the clients do the rest as their documentation shows, each in
a thread of its own. A message is settled at the source when the target has taken it. Nothing else
of a bridge is here: it ends with the first connection that does, and runs until it is killed.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from functools import partial
from typing import Any

import pika
import proton
from proton.handlers import MessagingHandler
from proton.reactor import ApplicationEvent, Container, EventInjector

from amqp10msg import Message
from amqp10msg.basic import BasicMessage
from amqp10msg.basic.adapters import from_pika, to_pika
from amqp10msg.translate import to_amqp10, to_basic

_WINDOW = "500"


class Sender(MessagingHandler):
    """Sends what is injected, and tells of each outcome."""

    def __init__(self, url: str, address: str, settled: Any, ready: threading.Event) -> None:
        super().__init__(auto_settle=False)
        self.url, self.address, self.settled, self.ready = url, address, settled, ready
        self.waiting: deque[tuple[int, bytes]] = deque()
        self.tags: dict[Any, int] = {}
        self.sender: Any = None

    def on_start(self, event: Any) -> None:
        """Connect."""
        connection = event.container.connect(self.url, allowed_mechs="PLAIN")
        self.sender = event.container.create_sender(connection, self.address)

    def on_link_opened(self, _: Any) -> None:
        """Let the other thread begin."""
        self.ready.set()

    def on_octets(self, event: Any) -> None:
        """Take a message of the other thread."""
        self.waiting.append(event.subject)
        self.send()

    def on_sendable(self, _: Any) -> None:
        """Send what there is credit for."""
        self.send()

    def send(self) -> None:
        """Send what there is credit for."""
        while self.waiting and self.sender.credit:
            tag, octets = self.waiting.popleft()
            delivery = self.sender.delivery(str(tag))
            self.sender.stream(octets)
            self.sender.advance()
            self.tags[delivery] = tag

    def on_accepted(self, event: Any) -> None:
        """Tell of an outcome."""
        self.settled(self.tags.pop(event.delivery), True)
        event.delivery.settle()

    def on_released(self, event: Any) -> None:
        """Tell of an outcome."""
        self.settled(self.tags.pop(event.delivery), False)
        event.delivery.settle()

    on_rejected = on_released


def to_1_0(source: str, queue: str, target: str, address: str, window: str = _WINDOW) -> None:
    """Move messages from 0-9-1 to 1.0."""
    host, _, port = source.partition(":")
    connection = pika.BlockingConnection(pika.ConnectionParameters(host, int(port)))
    channel = connection.channel()
    channel.basic_qos(prefetch_count=int(window))

    def settled(tag: int, accepted: bool) -> None:
        done = channel.basic_ack if accepted else channel.basic_nack
        connection.add_callback_threadsafe(partial(done, tag))

    ready = threading.Event()
    events = EventInjector()
    container = Container(Sender(f"amqp://guest:guest@{target}", address, settled, ready))
    container.selectable(events)
    threading.Thread(target=container.run, daemon=True).start()
    ready.wait()

    def received(_: Any, method: Any, properties: Any, body: bytes) -> None:
        made = to_amqp10(BasicMessage(from_pika(properties), body)).message.encode()
        events.trigger(ApplicationEvent("octets", subject=(method.delivery_tag, made)))

    channel.basic_consume(queue, received)
    channel.start_consuming()


class Receiver(MessagingHandler):
    """Hands over what it receives, and accepts what is injected."""

    def __init__(self, url: str, address: str, window: int, receive: Any) -> None:
        super().__init__(prefetch=window, auto_accept=False)
        self.url, self.address, self.receive = url, address, receive

    def on_start(self, event: Any) -> None:
        """Connect."""
        connection = event.container.connect(self.url, allowed_mechs="PLAIN")
        event.container.create_receiver(connection, self.address)

    def on_message(self, event: Any) -> None:
        """Hand over a message, as proton decoded it."""
        self.receive(event.delivery, event.message.encode())

    def on_done(self, event: Any) -> None:
        """Accept a message that the target has."""
        event.subject.update(proton.Delivery.ACCEPTED)
        event.subject.settle()


def to_0_9_1(source: str, address: str, target: str, queue: str, window: str = _WINDOW) -> None:
    """Move messages from 1.0 to 0-9-1."""
    host, _, port = target.partition(":")
    connection = pika.SelectConnection(pika.ConnectionParameters(host, int(port)))
    events = EventInjector()
    unconfirmed: dict[int, Any] = {}
    published = 0
    channel: Any = None

    def publish(delivery: Any, octets: bytes) -> None:
        nonlocal published
        basic = to_basic(Message.decode(octets)).message
        published += 1
        unconfirmed[published] = delivery
        channel.basic_publish("", queue, basic.body, to_pika(basic.properties))

    def confirmed(frame: Any) -> None:
        last = frame.method.delivery_tag
        tags = [tag for tag in unconfirmed if tag <= last] if frame.method.multiple else [last]
        for tag in tags:
            events.trigger(ApplicationEvent("done", subject=unconfirmed.pop(tag)))

    def opened(made: Any) -> None:
        nonlocal channel
        channel = made
        made.confirm_delivery(confirmed)
        take: Any = connection.ioloop.add_callback_threadsafe
        receive = lambda *given: take(partial(publish, *given))  # noqa: E731
        container = Container(
            Receiver(f"amqp://guest:guest@{source}", address, int(window), receive)
        )
        container.selectable(events)
        threading.Thread(target=container.run, daemon=True).start()

    connection.add_on_open_callback(lambda one: one.channel(on_open_callback=opened))
    connection.ioloop.start()


if __name__ == "__main__":
    {"to-1.0": to_1_0, "to-0-9-1": to_0_9_1}[sys.argv[1]](*sys.argv[2:])
