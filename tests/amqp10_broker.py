"""What the brokers of AMQP 1.0 are made of that do wrong: connections, and a thread for them."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from amqp10msg.composite import Error
from amqp10msg.net import transport
from amqp10msg.net.transport import SaslServer

__all__ = ["Broker", "Peer", "running"]


class Broker:
    """A broker whose connections may be cut.

    Attributes:
        peer: makes what serves a connection.
        peers: what serves those that are open.
        connections: how many there have been.
        port: where it runs.
    """

    def __init__(self, peer: Callable[[Any], asyncio.Protocol]) -> None:
        self.peer = peer
        self.peers: set[Any] = set()
        self.connections = 0
        self.port = 0
        self.loop: Any = None

    @property
    def url(self) -> str:
        return f"amqp://me:secret@127.0.0.1:{self.port}"

    def cut(self) -> None:
        """Cut all connections."""
        done = threading.Event()

        def all_of_them() -> None:
            for peer in list(self.peers):
                peer.cut()
            done.set()

        self.loop.call_soon_threadsafe(all_of_them)
        done.wait(5)


class Peer(asyncio.Protocol, transport.Handler):
    """One connection, which agrees to what the other end opens, begins and closes."""

    broker: Any

    def __init__(self, broker: Any, opens: transport.Open, users: Mapping[str, str]) -> None:
        self.broker = broker
        self.sent = 0
        sasl = SaslServer(anonymous=True, users=users)
        self._engine = transport.Connection(self, opens, sasl)

    def connection_made(self, stream: Any) -> None:
        self._stream = stream
        self.broker.peers.add(self)
        self.broker.connections += 1

    def connection_lost(self, _: Exception | None) -> None:
        self.broker.peers.discard(self)

    def data_received(self, data: bytes) -> None:
        self._engine.feed(data)
        while self._engine.step():
            pass
        self.flush()

    def flush(self) -> None:
        if not self._stream.is_closing():
            self._stream.write(self._engine.take())
            if self._engine.over:
                self._stream.close()

    def cut(self) -> None:
        """End the connection without a word."""
        self.broker.peers.discard(self)
        self._stream.close()

    def on_open(self) -> None:
        self._engine.open()

    def on_close(self, error: Error | None, *, fault: bool) -> None:  # noqa: ARG002
        self._engine.close()

    def on_begin(self, session: transport.Session) -> None:
        session.begin()

    def on_detach(self, link: transport.Link, error: Error | None, **_: bool) -> None:  # noqa: ARG002
        link.detach()


B = TypeVar("B", bound=Broker)


@contextlib.contextmanager
def running(broker: B, listener: socket.socket | None = None) -> Iterator[B]:
    """Run a broker in a thread, on a free port or on the bound socket `listener`."""
    where: dict[str, Any] = {"sock": listener} if listener else {"host": "127.0.0.1", "port": 0}
    started = threading.Event()
    stopping: list[Callable[[], object]] = []

    async def serve() -> None:
        loop = broker.loop = asyncio.get_running_loop()
        stop = asyncio.Event()
        stopping.append(lambda: loop.call_soon_threadsafe(stop.set))
        server = await loop.create_server(lambda: broker.peer(broker), **where)
        broker.port = server.sockets[0].getsockname()[1]
        started.set()
        await stop.wait()
        for _ in range(5):  # what was accepted has its peer some turns later, or asyncio forgets it
            await asyncio.sleep(0)
        for peer in list(broker.peers):
            peer.cut()
        server.close()
        await server.wait_closed()
        await asyncio.sleep(0)  # sockets are closed in the next turn

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert started.wait(10)
    try:
        yield broker
    finally:
        stopping[0]()
        thread.join(10)
        assert not thread.is_alive()
