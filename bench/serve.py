"""Messages through a server and back, with a client of python-qpid-proton at both ends.

RabbitMQ 4 stands beside it where AMQP10MSG_RABBITMQ names one, such as ``localhost:5672``.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter_ns
from typing import Any

from bench import ours, peers
from bench.harness import Contender, Effort, measure
from bench.messages import REFERENCE
from bench.report import Figure, Floor

ROOT = Path(__file__).resolve().parent.parent
BROKER = peers.PROTON.install
OURS = "-m", "amqp10msg", "serve", "--port", "0", "--log", "none", "--accept-durable"
THEIRS = "-m", "bench.peers.broker"
STORED = f"{ours.NAME}, on disk"
RABBITMQ = "RabbitMQ, a classic queue"


@contextmanager
def server(*arguments: str) -> Iterator[int]:
    """Run a server in a process of its own; give its port."""
    process = subprocess.Popen(
        [sys.executable, *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        with process.stdout as output:
            yield int(output.readline().rpartition(":")[2])
    finally:
        process.terminate()
        process.wait()


@contextmanager
def queue(broker: str) -> Iterator[str]:
    """Have a queue at a RabbitMQ; give its address."""
    import pika  # noqa: PLC0415  (measured where there is a broker)

    host, _, port = broker.partition(":")
    with pika.BlockingConnection(pika.ConnectionParameters(host, int(port or 5672))) as connection:
        channel = connection.channel()
        name = f"amqp10msg-bench-{os.getpid()}"
        channel.queue_declare(name, durable=True)
        try:
            yield f"/queues/{name}"
        finally:
            connection.process_data_events()  # whose heartbeats nobody answered meanwhile
            channel.queue_delete(name)


def transfer(at: str, address: str, count: int) -> None:
    """Send messages to a node, receive and accept them all, on one connection.

    Raises:
        RuntimeError: not all of them came back and were accepted.
    """
    import proton.handlers  # noqa: PLC0415  (measured where it is installed)
    import proton.reactor  # noqa: PLC0415

    from amqp10msg.interop.proton import receive_octets, send  # noqa: PLC0415

    handler: Any = proton.handlers.MessagingHandler  # the same with and without proton's types

    class Client(handler):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(prefetch=0, auto_accept=False)
            # Nothing is decoded at this end: that would be measured, too.
            self.handlers: list[Any] = []
            self.sent = self.confirmed = self.received = 0

        def on_reactor_init(self, event: Any) -> None:
            self.connection = event.container.connect(at, reconnect=False)
            event.container.create_receiver(self.connection, address)
            event.container.create_sender(self.connection, address)

        def on_link_remote_open(self, event: Any) -> None:
            if event.link.is_receiver:
                event.link.flow(200)

        def on_link_flow(self, event: Any) -> None:
            while event.link.is_sender and self.sent < count and event.link.credit:
                send(event.link, REFERENCE)
                self.sent += 1

        def on_delivery(self, event: Any) -> None:
            delivery = event.delivery
            if event.link.is_sender:
                self.confirmed += delivery.settled
                delivery.settle()
            elif receive_octets(delivery) is not None:
                delivery.update(proton.Delivery.ACCEPTED)
                delivery.settle()
                self.received += 1
                if event.link.credit < 100:
                    event.link.flow(100)
            if self.confirmed == self.received == count:
                self.connection.close()

    client = Client()
    proton.reactor.Container(client).run()
    if not client.sent == client.confirmed == client.received == count:
        raise RuntimeError(f"of {count} messages {client.received} came back")


def run(effort: Effort) -> Figure:
    """Measure the time that it takes, which is that of three processes on the cores there are."""
    count = effort.transfers
    with ExitStack() as stack:
        folder = stack.enter_context(TemporaryDirectory())
        stored = *OURS, "--store", str(Path(folder, "messages.db"))
        places = {
            name: (f"127.0.0.1:{stack.enter_context(server(*arguments))}", "bench")
            for name, arguments in ((ours.NAME, OURS), (BROKER, THEIRS), (STORED, stored))
        }
        broker = os.environ.get("AMQP10MSG_RABBITMQ")
        if broker:
            places[RABBITMQ] = broker, stack.enter_context(queue(broker))
        contenders = [
            Contender(name, partial(transfer, *place, count)) for name, place in places.items()
        ]
        timings = measure(contenders, effort, perf_counter_ns)
    median = timings.entries[0].median
    floors = [
        Floor(
            "not slower than a broker of python-qpid-proton alone",
            timings.times(BROKER),
            at_least=1,
        )
    ]
    if broker:
        floors.append(Floor("not slower than RabbitMQ", timings.times(RABBITMQ), at_least=1))
    return Figure(
        key="serve",
        title=f"{count:,} messages of 500 bytes through a server: sent, received, accepted",
        timings=timings,
        floors=tuple(floors),
        remarks=(
            "python-qpid-proton: a broker in the style of its examples, in bench/peers/broker.py.",
            f"{STORED}: the messages are durable, and each is synced before it is accepted.",
            f"That is {count * 1e9 / median:,.0f} messages a second, the client included.",
        ),
    )
