"""Messages through a server and back, with a client of python-qpid-proton at both ends."""

from __future__ import annotations

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


def transfer(port: int, count: int) -> None:
    """Send messages to a node, receive and accept them all, on one connection.

    Raises:
        RuntimeError: not all of them came back and were accepted.
    """
    import proton.handlers  # noqa: PLC0415  (measured where it is installed)
    import proton.reactor  # noqa: PLC0415

    from amqp10msg.proton import receive_octets, send  # noqa: PLC0415

    handler: Any = proton.handlers.MessagingHandler  # the same with and without proton's types

    class Client(handler):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(prefetch=0, auto_accept=False)
            # Nothing is decoded at this end: that would be measured, too.
            self.handlers: list[Any] = []
            self.sent = self.confirmed = self.received = 0

        def on_reactor_init(self, event: Any) -> None:
            self.connection = event.container.connect(f"127.0.0.1:{port}", reconnect=False)
            event.container.create_receiver(self.connection, "bench")
            event.container.create_sender(self.connection, "bench")

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
        contenders = [
            Contender(name, partial(transfer, stack.enter_context(server(*arguments)), count))
            for name, arguments in ((ours.NAME, OURS), (BROKER, THEIRS), (STORED, stored))
        ]
        timings = measure(contenders, effort, perf_counter_ns)
    median = timings.entries[0].median
    return Figure(
        key="serve",
        title=f"{count:,} messages of 500 octets through a server: sent, received, accepted",
        timings=timings,
        floors=(
            Floor(
                "not slower than a broker of python-qpid-proton alone",
                timings.times(BROKER),
                at_least=1,
            ),
        ),
        remarks=(
            "python-qpid-proton: a broker in the style of its examples, in bench/peers/broker.py.",
            f"{STORED}: the messages are durable, and each is synced before it is accepted.",
            f"That is {count * 1e9 / median:,.0f} messages a second, the client included.",
        ),
    )
