"""A broker of AMQP 0-9-1 in the loop of a test, which can be told to misbehave.

It has queues and the default exchange, prefetch, confirms, mandatory and dead letters, as much as a
bridge needs; the tests with RabbitMQ hold it to the real one.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Self

import attrs
from pika import spec

from amqp10msg.basic import FieldTable, decode_content_header, encode_content_header
from amqp10msg.net.ends.basic_frames import (
    ACK,
    HEADER,
    NACK,
    Content,
    FrameReader,
    decode_confirm,
    decode_method,
    method,
)

__all__ = ["BasicBroker", "Stored", "running"]

PUBLISH, REJECT = 0x003C0028, 0x003C005A


@attrs.frozen
class Stored:
    """A message: content header, body, whether it was delivered before, where it was published to.

    Without a routing key it is delivered with the name of the queue.
    """

    header: bytes
    body: bytes
    redelivered: bool = False
    exchange: str = ""
    routing_key: str | None = None


def short(text: str) -> bytes:
    octets = text.encode("utf-8", "surrogateescape")
    return bytes((len(octets),)) + octets


def frame(kind: int, payload: bytes, channel: int = 1) -> bytes:
    head = kind.to_bytes(1, "big") + channel.to_bytes(2, "big") + len(payload).to_bytes(4, "big")
    return head + payload + b"\xce"


class BasicBroker:
    """Queues behind a socket of 127.0.0.1.

    Attributes:
        queues: what is ready, by name.
        streams: queues that keep what they deliver, by name; None is what retention removed.
        refuses: says of a message what to do with it: ``nack``, ``close`` (the channel, 406),
            ``fail`` (the connection, 501), ``cut`` (the connection), ``silent``, or nothing.
        silent: whether it delivers nothing, though it answers.
        chokes: whether it fails (541) instead of delivering a message.
        dead: what was rejected without requeue.
        connections: those that are open.
        channels: theirs.
        opened: how many connections were made.
        deaf: names of queues to which nothing is confirmed, until `hear`.
        moved: how many messages were delivered or published.
        late: how many messages are on their way when a consumer is cancelled, and come after the
            next answer to queue.declare, as with RabbitMQ 3.10.
    """

    def __init__(self, *names: str) -> None:
        self.queues: dict[str, deque[Stored]] = {name: deque() for name in names}
        self.streams: dict[str, list[Any]] = {}
        self.refuses: Callable[[Stored], str] = lambda _: ""
        self.chokes: Callable[[Stored], bool] = lambda _: False
        self.silent = False
        self.late = 0
        self.dead: list[Stored] = []
        self.connections: set[_Connection] = set()
        self.channels: set[_Peer] = set()
        self.deaf: set[str] = set()
        self._unheard: list[tuple[_Peer, int]] = []
        self.frame_max = 4096
        self.channel_max = 100
        self.tls: ssl.SSLContext | None = None
        self.mechanisms: list[str] = []
        self.refusal = "ACCESS_REFUSED"
        self.credentials = "guest:guest"
        self.port = 0
        self.opened = 0
        self.moved = 0
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    async def __aenter__(self) -> Self:
        await self.listen()
        return self

    async def listen(self) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: _Connection(self), "127.0.0.1", self.port, ssl=self.tls
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def __aexit__(self, *_: object) -> None:
        await self.down()

    async def down(self) -> None:
        """Stop, as if killed: what was not acknowledged is ready again."""
        self._server.close()
        self.cut()
        await asyncio.sleep(0)

    def cut(self) -> None:
        """Cut all connections."""
        for connection in list(self.connections):
            connection.stream.abort()
            connection.back()

    async def after(self, count: int) -> None:
        """Wait until `count` more messages were delivered or published."""
        reached = asyncio.get_running_loop().create_future()
        self._waiting.append((self.moved + count, reached))
        await reached

    def count_moved(self) -> None:
        """Count a message that was delivered or published, and wake the tasks in `after`."""
        self.moved += 1
        for waiting in [one for one in self._waiting if one[0] <= self.moved]:
            self._waiting.remove(waiting)
            if not waiting[1].done():
                waiting[1].set_result(None)

    def confirm(self, peer: _Peer, name: str) -> None:
        if name in self.deaf:
            self._unheard.append((peer, peer.published))
        else:
            peer.write(spec.Basic.Ack(peer.published, False))

    def hear(self) -> None:
        """Confirm what was not, and from now on all."""
        self.deaf.clear()
        for peer, tag in self._unheard:
            peer.write(spec.Basic.Ack(tag, False))
        self._unheard.clear()

    def url(self, query: str, user: str = "guest:guest") -> str:
        scheme = "amqp091" if self.tls is None else "amqp091s"
        return f"{scheme}://{user}@127.0.0.1:{self.port}/?{query}"

    def serve(self) -> None:
        for peer in list(self.channels):
            peer.deliver()

    @property
    def unacked(self) -> int:
        """Messages that would be delivered again after a cut."""
        return sum(len(peer.unacked) for peer in self.channels)


@contextlib.contextmanager
def running(broker: BasicBroker) -> Iterator[BasicBroker]:
    """Run a broker in the loop of another thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(broker.listen(), loop).result(10)
        yield broker
        asyncio.run_coroutine_threadsafe(broker.down(), loop).result(10)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


class _Connection(asyncio.Protocol):
    def __init__(self, broker: BasicBroker) -> None:
        self.broker = broker
        self.reader = FrameReader(131_072)
        self.stream: Any = None
        self.started = self.dead = False
        self.channels: dict[int, _Peer] = {}

    def connection_made(self, transport: Any) -> None:
        self.stream = transport
        self.broker.connections.add(self)
        self.broker.opened += 1

    def connection_lost(self, _: Exception | None) -> None:
        self.back()

    def back(self) -> None:
        """Make ready again what was not acknowledged on any channel."""
        self.broker.connections.discard(self)
        for peer in list(self.channels.values()):
            peer.back()

    def end(self, code: int, text: str) -> None:
        """Close, and take no notice of what comes."""
        self.dead = True
        self.stream.write(method(0, spec.Connection.Close(code, text, 0, 0)))

    def data_received(self, data: bytes) -> None:
        if not self.started:
            self.started = True
            data = data[8:]
            properties = {"product": "stand-in", "capabilities": {"publisher_confirms": True}}
            start = spec.Connection.Start(0, 9, properties, "PLAIN", "en_US")
            self.stream.write(method(0, start))
        for kind, channel, payload in self.reader.feed(data):
            if kind == 8 or self.dead or self not in self.broker.connections:
                continue
            if not channel:
                self.answer(decode_method(payload))
                continue
            index = int.from_bytes(payload[:4], "big") if kind == 1 else 0
            if index == spec.Channel.Open.INDEX:
                assert channel not in self.channels, f"channel {channel} is open already"
                self.channels[channel] = _Peer(self.broker, self, channel)
            self.channels[channel].take(kind, index, payload)

    def answer(self, found: Any) -> None:
        broker = self.broker
        made: Any = None
        if isinstance(found, spec.Connection.StartOk):
            made = spec.Connection.Tune(broker.channel_max, broker.frame_max, 60)
            broker.mechanisms.append(found.mechanism)
            known = "\0" + broker.credentials.replace(":", "\0")
            said = found.response
            said = said.decode() if isinstance(said, bytes) else said
            if found.mechanism != "EXTERNAL" and said != known:  # else TLS knows it
                made = spec.Connection.Close(403, broker.refusal, 0, 0)
        elif isinstance(found, spec.Connection.Open):
            made = spec.Connection.OpenOk()
        elif isinstance(found, spec.Connection.Close):
            self.stream.write(method(0, spec.Connection.CloseOk()))
            self.stream.close()
            self.back()
        if made is not None:
            self.stream.write(method(0, made))


class _Peer:
    """A channel."""

    def __init__(self, broker: BasicBroker, connection: _Connection, number: int) -> None:
        self.broker = broker
        self.connection = connection
        self.number = number
        self.stream = connection.stream
        self.queue = ""
        self.stream_name = ""
        self.at = 0
        self.prefetch = self.allowed = 1
        self.tag = 0
        self.published = 0
        self.confirms = False
        self.unacked: dict[int, Stored] = {}
        self.content: Content | None = None
        self.dead = self.cancelled = False
        self.late: list[Stored] = []
        broker.channels.add(self)

    def write(self, what: Any) -> None:
        self.stream.write(method(self.number, what))

    def back(self) -> None:
        """Make ready again what was not acknowledged: the channel is closed."""
        if self in self.broker.channels:
            self.broker.channels.discard(self)
            del self.connection.channels[self.number]
            again = [attrs.evolve(one, redelivered=True) for one in self.unacked.values()]
            if again and self.queue:
                self.broker.queues[self.queue].extendleft(reversed(again))
            self.broker.serve()

    def take(self, kind: int, index: int, payload: bytes) -> None:
        if index == spec.Channel.CloseOk.INDEX:
            self.back()
        elif self.dead:
            return
        elif kind != 1:
            assert self.content is not None
            if self.content.add(kind, payload, 1 << 30):
                content, self.content = self.content, None
                self.publish(content)
        elif index == PUBLISH:
            self.content = Content(index, payload[4:])
            if payload[-1:] != b"\1":
                raise AssertionError("every message is mandatory")
        elif index in {ACK, NACK, REJECT}:
            self.settle(index, payload[4:])
        else:
            self.answer(decode_method(payload))

    def answer(self, found: Any) -> None:
        broker = self.broker
        made: Any = None
        if isinstance(found, spec.Channel.Open):
            made = spec.Channel.OpenOk()
        elif isinstance(found, spec.Basic.Qos):
            self.prefetch = self.allowed = found.prefetch_count
            made = spec.Basic.QosOk()
        elif isinstance(found, spec.Confirm.Select):
            self.confirms = True
            made = spec.Confirm.SelectOk()
        elif isinstance(found, (spec.Queue.Declare, spec.Basic.Consume)):
            if found.queue in broker.streams and isinstance(found, spec.Basic.Consume):
                self.stream_name = found.queue
                offset = found.arguments["x-stream-offset"]
                last = max(len(broker.streams[found.queue]) - 1, 0)
                places = {"first": 0, "last": last, "next": last + 1}
                self.at = places.get(offset, offset)
                made = spec.Basic.ConsumeOk(found.consumer_tag)
                self.write(made)  # and then its last chunk, in one
                self.deliver()
                return
            if found.queue in broker.streams:
                made = spec.Queue.DeclareOk(found.queue, len(broker.streams[found.queue]), 0)
            elif found.queue not in broker.queues:
                made = spec.Channel.Close(404, f"NOT_FOUND - no queue '{found.queue}'", 0, 0)
            elif isinstance(found, spec.Queue.Declare):
                consumers = sum(
                    peer.queue == found.queue and not peer.cancelled for peer in broker.channels
                )
                made = spec.Queue.DeclareOk(found.queue, len(broker.queues[found.queue]), consumers)
            else:
                self.queue = found.queue
                self.cancelled, self.prefetch = False, self.allowed
                made = None if found.nowait else spec.Basic.ConsumeOk(found.consumer_tag)
                asyncio.get_running_loop().call_soon(self.deliver)
        elif isinstance(found, spec.Basic.Cancel):
            self.prefetch = 0
            self.cancelled = True
            queue = broker.queues.get(self.queue, deque())
            self.late = [queue.popleft() for _ in range(min(broker.late, len(queue)))]
        elif isinstance(found, spec.Channel.Close):
            made = spec.Channel.CloseOk()
        if made is not None:
            self.write(made)
            if isinstance(made, spec.Channel.CloseOk):
                self.back()
            if isinstance(made, spec.Queue.DeclareOk):
                late, self.late = self.late, []
                for one in late:
                    self.deliver_one(one, self.queue)

    def send(self, arguments: bytes, header: bytes, body: bytes) -> None:
        most = self.broker.frame_max - 8
        at = self.number
        pieces = [frame(1, arguments, at), frame(HEADER, header, at)]
        pieces += [frame(3, body[n : n + most], at) for n in range(0, len(body), most)]
        self.stream.write(b"".join(pieces))

    def deliver(self) -> None:
        if self.broker.silent or self.connection.dead:
            return
        stream = self.broker.streams.get(self.stream_name, [])
        while len(self.unacked) < self.prefetch and self.at < len(stream):
            one = stream[self.at]
            if one is None:
                self.at += 1
                continue
            properties = decode_content_header(one.header).properties
            properties.headers = FieldTable.of([("x-stream-offset", "l", self.at)])
            self.at += 1
            header = encode_content_header(properties, len(one.body))
            self.deliver_one(attrs.evolve(one, header=header), self.stream_name)
        queue = self.broker.queues.get(self.queue)
        while queue and len(self.unacked) < self.prefetch and not self.stream.is_closing():
            if self.dead or self.broker.chokes(queue[0]):
                if not self.dead:
                    self.dead = True
                    self.connection.end(541, "INTERNAL")
                break
            self.deliver_one(queue.popleft(), self.queue)

    def deliver_one(self, one: Stored, name: str) -> None:
        self.tag += 1
        self.unacked[self.tag] = one
        self.broker.count_moved()
        arguments = b"\0\x3c\0\x3c" + short("bridge") + self.tag.to_bytes(8, "big")
        key = name if one.routing_key is None else one.routing_key
        arguments += bytes((one.redelivered,)) + short(one.exchange) + short(key)
        self.send(arguments, one.header, one.body)

    def settle(self, index: int, arguments: bytes) -> None:
        tag, multiple = decode_confirm(arguments)
        requeue = index != ACK and bool(arguments[8] & (2 if index == NACK else 1))
        assert tag in self.unacked, f"delivery-tag {tag} is not known"  # RabbitMQ closes with 406
        tags = [one for one in self.unacked if one <= tag] if multiple else [tag]
        for one in tags:
            stored = self.unacked.pop(one)
            if requeue and self.queue:
                again = attrs.evolve(stored, redelivered=True)
                self.broker.queues[self.queue].appendleft(again)
            elif index != ACK:
                self.broker.dead.append(stored)
        self.deliver()

    def publish(self, content: Content) -> None:
        broker = self.broker
        arguments = content.arguments[2:]
        at = 1 + arguments[0]
        name = arguments[at + 1 : at + 1 + arguments[at]].decode()
        stored = Stored(content.header, content.body)
        self.published += 1
        broker.count_moved()
        refused = broker.refuses(stored)
        if refused == "cut":
            self.connection.dead = True
            self.stream.abort()
        elif refused == "close":
            self.dead = True
            self.write(spec.Channel.Close(406, "PRECONDITION_FAILED", 60, 40))
        elif refused == "fail":
            self.connection.end(501, "FRAME_ERROR")
        elif refused == "silent":
            self.dead = True
        elif refused == "nack":
            self.write(spec.Basic.Nack(self.published, False, False))
        else:
            if name in broker.streams:
                broker.streams[name].append(stored)
            elif name in broker.queues:
                broker.queues[name].append(stored)
            else:
                code = b"\0\x3c\0\x32" + (312).to_bytes(2, "big") + short("NO_ROUTE")
                self.send(code + short("") + short(name), content.header, content.body)
            broker.confirm(self, name)
            broker.serve()
