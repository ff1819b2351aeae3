"""A broker of AMQP 1.0 with streams as RabbitMQ has them, which does wrong what it is told to."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import unquote

import attrs

from amqp10msg import Message
from amqp10msg.composite import Error, from_described
from amqp10msg.delivery import Source
from amqp10msg.delivery.filters import StreamFilter
from amqp10msg.net import transport
from amqp10msg.net.transport import SaslServer
from amqp10msg.wire.primitives import Symbol

__all__ = ["Stream", "StreamBroker", "StreamPeer", "StreamReader", "running"]

SPEC, VALUES = "rabbitmq:stream-offset-spec", "rabbitmq:stream-filter"
UNFILTERED = "rabbitmq:stream-match-unfiltered"


@attrs.define
class Stream:
    """Messages by their offsets, which may have holes.

    Attributes:
        messages: encoded, without what the broker adds.
        chunk: messages of a chunk: ``last`` begins with one, and filter values are looked for in
            whole ones.
        stalls: from this offset on nothing is delivered.
        cuts: the connection is cut after so many messages, once for each number.
        excess: messages that are sent beyond the credit.
    """

    messages: dict[int, bytes] = attrs.Factory(dict)
    chunk: int = 50
    stalls: int | None = None
    cuts: list[int] = attrs.Factory(list)
    excess: int = 0

    def publish(self, *messages: Message, at: int | None = None) -> None:
        for message in messages:
            offset = max(self.messages, default=-1) + 1 if at is None else at
            self.messages[offset] = message.encode()

    def retain(self, first: int) -> None:
        """Remove what is before an offset."""
        for offset in [one for one in self.messages if one < first]:
            del self.messages[offset]

    def delivered(self, offset: int) -> bytes:
        message = Message.decode(self.messages[offset])
        said = {**(message.message_annotations or {}), "x-stream-offset": offset}
        return message.evolve(message_annotations=said).encode()

    def start(self, spec: Any) -> int:
        there = sorted(self.messages)
        if spec == "first":
            return 0
        if spec == "next":
            return there[-1] + 1 if there else 0
        if spec == "last":
            return there[-self.chunk :][0] if there else 0
        return int(spec)

    def chunk_has(self, offset: int, values: tuple[str, ...], *, unfiltered: bool) -> bool:
        begin = offset - offset % self.chunk
        wanted = StreamFilter(values)
        octets = (self.messages.get(one) for one in range(begin, begin + self.chunk))
        chunk = [Message.decode(one) for one in octets if one is not None]
        return any(
            wanted.matches(one) or (unfiltered and wanted.is_unfiltered(one)) for one in chunk
        )


class StreamBroker:
    """Streams by their names.

    Attributes:
        agrees: whether it says that it reads by the filters that it is asked for.
        connections: how many there have been.
    """

    #: What a connection is served by.
    peer: Callable[[Any], asyncio.Protocol]

    def __init__(self, **streams: Stream) -> None:
        self.peer = StreamPeer
        self.streams = streams
        self.agrees = True
        self.connections = 0
        self.port = 0
        self.peers: set[StreamPeer] = set()
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


class StreamReader:
    def __init__(
        self, stream: Stream, start: int, values: tuple[str, ...], *, unfiltered: bool
    ) -> None:
        self.stream = stream
        self.next = start
        self.values = values
        self.unfiltered = unfiltered
        self.excess = stream.excess

    def take(self) -> int | None:
        for offset in sorted(one for one in self.stream.messages if one >= self.next):
            if self.stream.stalls is not None and offset >= self.stream.stalls:
                return None
            self.next = offset + 1
            if not self.values or self.stream.chunk_has(
                offset, self.values, unfiltered=self.unfiltered
            ):
                return offset
        return None


class StreamPeer(asyncio.Protocol, transport.Handler):
    def __init__(self, broker: StreamBroker) -> None:
        self.broker = broker
        self.readers: dict[transport.Link, StreamReader] = {}
        self.sent = 0
        opens = transport.Open(
            container_id="streams",
            max_frame_size=1 << 16,
            properties={"product": "RabbitMQ", "version": "4.0.0"},
        )
        sasl = SaslServer(anonymous=True, users={"me": "secret", "reader": "secret"})
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
        self.broker.peers.discard(self)
        self._stream.close()

    def on_refused(self, _: transport.SaslError) -> None:
        self.flush()
        self._stream.close()

    def on_open(self) -> None:
        self._engine.open()

    def on_close(self, error: Error | None, *, fault: bool) -> None:  # noqa: ARG002
        self._engine.close()

    def on_begin(self, session: transport.Session) -> None:
        session.begin()

    def on_detach(self, link: transport.Link, error: Error | None, **_: bool) -> None:  # noqa: ARG002
        self.readers.pop(link, None)
        link.detach()

    def on_attach(self, link: transport.Link) -> None:
        assert link.remote is not None
        source: Any = link.remote.source
        asked: Any = from_described(source)
        name = unquote(str(asked.address)).removeprefix("/queues/")
        stream = self.broker.streams.get(name)
        if stream is None:
            link.session.end(Error("amqp:not-found", f"no queue '{name}' in vhost '/'"))
            return
        filters = asked.filter or {}
        if not self.broker.agrees:
            source = Source(address=asked.address)
        link.attach(source=source, target=link.remote.target)
        spec = filters[Symbol(SPEC)].value
        values = filters.get(Symbol(VALUES))
        wanted = () if values is None else values.value
        wanted = (wanted,) if isinstance(wanted, str) else tuple(wanted)
        self.readers[link] = StreamReader(
            stream, stream.start(spec), wanted, unfiltered=Symbol(UNFILTERED) in filters
        )

    def on_flow(self, link: transport.Link) -> None:
        reader = self.readers.get(link)
        if reader is None:
            return
        while link.credit + reader.excess > 0 and (offset := reader.take()) is not None:
            self.sent += 1
            if link.credit <= 0:
                reader.excess -= 1
            link.send(b"%d" % self.sent, reader.stream.delivered(offset), settled=True)
            link.credit = max(link.credit, 0)
            cuts = reader.stream.cuts
            if cuts and self.sent >= cuts[0]:
                cuts.pop(0)
                self.flush()
                self.cut()
                return
        stalled = reader.stream.stalls is not None
        if link.drain and not (stalled and link.credit):
            link.drained()


@contextlib.contextmanager
def running(broker: StreamBroker, port: int = 0) -> Iterator[StreamBroker]:
    """Run a broker in a thread, at a port that is free where it is 0."""
    started = threading.Event()
    stopping: list[Callable[[], object]] = []

    async def serve() -> None:
        loop = broker.loop = asyncio.get_running_loop()
        stop = asyncio.Event()
        stopping.append(lambda: loop.call_soon_threadsafe(stop.set))
        server = await loop.create_server(lambda: broker.peer(broker), "127.0.0.1", port)
        broker.port = server.sockets[0].getsockname()[1]
        started.set()
        await stop.wait()
        for peer in list(broker.peers):
            peer.cut()
        server.close()
        await server.wait_closed()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert started.wait(5)
    try:
        yield broker
    finally:
        stopping[0]()
        thread.join(5)
