"""The ends of a bridge that speak AMQP 0-9-1: a connection, its channels, a source and a target.

A link has a channel; the channels of one connection go on where one of them ends.
"""

from __future__ import annotations

import asyncio
import hashlib
import tempfile
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs

from amqp10msg import __version__
from amqp10msg.brokers import STREAM_OFFSET
from amqp10msg.net.bridge.basic_frames import (
    ACK,
    BEAT,
    DELIVER,
    HEARTBEAT,
    METHOD,
    NACK,
    PREAMBLE,
    RETURN,
    Content,
    FrameError,
    FrameReader,
    ack,
    confirmed,
    decode_method,
    method,
    nack,
    publish,
    spec,
)
from amqp10msg.net.bridge.confirms import Unconfirmed
from amqp10msg.net.bridge.records import position_of
from amqp10msg.net.bridge.terms import (
    Depth,
    LinkError,
    OnLost,
    Outcome,
    Overflow,
    Oversized,
    Sent,
    Settle,
    SourceDelivery,
    SourceRequest,
    TargetRequest,
    no_room_for_large,
)
from amqp10msg.net.bridge.urls import Endpoint
from amqp10msg.net.bridge.wire import AttachedLink, ConnectionPool, Wire, attached, dial, refuse

_MAX_FRAME = 131_072
#: Channels that are used of a connection, where the broker names no bound.
_MAX_CHANNELS = 2_047
#: Reply codes that no other attempt makes good: wrong credentials, no such thing, not allowed.
_PERMANENT = {402, 403, 404, 530}
#: Reply codes of a broker that goes or fails, whatever was sent to it.
_AMBIGUOUS = {320, 541}
#: The reply code of a broker that failed at what it was doing.
_FAILED = 541
#: That of one that has no such queue or exchange.
_MISSING = 404
_CAPABILITIES = (
    *("publisher_confirms", "basic.nack", "consumer_cancel_notify"),
    *("connection.blocked", "authentication_failure_close"),
)


class BasicConnection(Wire):
    """A connection: handshake, heartbeats, and the channels that frames belong to.

    `blocked` says that the broker takes nothing for now.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint)
        self.max_frame = _MAX_FRAME
        self.blocked = False
        self._reader = FrameReader(_MAX_FRAME)
        self._awaited: asyncio.Future[Any] | None = None
        self._channels: dict[int, Channel] = {}
        self._left: set[int] = set()  # numbers of channels whose end the peer has not answered
        self._due: dict[Channel, None] = {}  # those that have something to settle
        self._out: list[bytes] = []
        self._wrote = self._heard

    # Bytes.

    def begin(self) -> None:
        """Begin to speak."""
        self._stream.write(PREAMBLE)

    def receive(self, data: bytes) -> None:
        """Process bytes of the peer."""
        try:
            for kind, channel, payload in self._reader.feed(data):
                if channel:
                    self._frame(kind, channel, payload)
                elif kind == METHOD:
                    self._method(decode_method(payload))
                elif kind != BEAT:
                    raise FrameError(f"a frame of type {kind} that belongs to no content")
                if self._stream.is_closing():
                    return
        except FrameError as error:
            self.fail(LinkError(str(error), said=True))

    # Frames.

    def _frame(self, kind: int, number: int, payload: bytes) -> None:
        channel = self._channels.get(number)
        if channel is None:
            if kind == METHOD:
                self._late(number, payload)
            return
        try:
            channel.frame(kind, payload)
        except OSError as error:
            channel.fail(no_room_for_large(error))

    def _late(self, number: int, payload: bytes) -> None:
        """Take what came for a channel that was left, which is of no interest."""
        if number in self._left and len(payload) >= 4:
            index = int.from_bytes(payload[:4], "big")
            if index == spec.Channel.Close.INDEX:
                self.write(method(number, spec.Channel.CloseOk()))
            elif index == spec.Channel.CloseOk.INDEX:
                self._left.discard(number)

    def _method(self, found: Any) -> None:
        if isinstance(found, spec.Connection.Close):
            self._stream.write(method(0, spec.Connection.CloseOk()))
            self.fail(_ended(found))
        elif isinstance(found, spec.Connection.Blocked):
            self.blocked = True
        elif isinstance(found, spec.Connection.Unblocked):
            self.blocked = False
            self.go_round()
        elif self._awaited is not None and not self._awaited.done():
            self._awaited.set_result(found)

    # Channels.

    @property
    def joinable(self) -> bool:
        """Whether another channel may be opened."""
        return super().joinable and len(self._channels) + len(self._left) < self.max_links

    def enter(self, channel: Channel) -> int:
        """Return the number of a channel that is to be opened."""
        used = self._channels.keys() | self._left
        number = next(one for one in range(1, self.max_links + 1) if one not in used)
        self._channels[number] = channel
        return number

    def leave(self, channel: Channel, *, ended: bool) -> None:
        """Go on without a channel.

        It has `ended` where both sides know that.
        """
        del self._channels[channel.number]
        self._due.pop(channel, None)
        if not ended:
            self._left.add(channel.number)
            self.write(method(channel.number, spec.Channel.Close(0, "", 0, 0)))

    # What is sent.

    def write(self, octets: bytes) -> None:
        """Send bytes at the end of this turn of the loop, together with all others."""
        self._out.append(octets)
        self.touch()

    def extend(self, pieces: list[bytes]) -> None:
        """Send many of them."""
        self._out += pieces
        self.touch()

    def settle_soon(self, channel: Channel) -> None:
        """Ask a channel at the end of this turn of the loop for what is to be settled."""
        self._due[channel] = None
        self.touch()

    def flush(self) -> None:
        """Send what was written."""
        self._flushing = False
        due, self._due = self._due, {}
        for channel in due:
            self._out += channel.settlements()
        if self._out and not self.is_closing:
            self._stream.write(b"".join(self._out))
            self._wrote = self.loop.time()
        self._out.clear()
        self.end_turn()

    def _beat(self, interval: float) -> None:
        now = self.loop.time()
        if now - self._heard > 2 * interval and not self.held:
            self.fail(LinkError(f"nothing came for {2 * interval:g} s"))
            return
        if now - self._wrote >= interval / 2:
            self.write(HEARTBEAT)
        self.call_at(now + interval / 4, self._beat, interval)

    # Requests.

    async def _ask(self, what: Any, *expected: Any) -> Any:
        """Send a method, unless it is None, and return the answer, one of these."""
        self._awaited = self.loop.create_future()
        if what is not None:
            self.write(method(0, what))
        found = await self._awaited
        self._awaited = None
        return _expected(found, *expected)

    async def handshake(self) -> None:
        """Open the connection."""
        at = self.endpoint
        start = await self._ask(None, spec.Connection.Start)
        properties = start.server_properties if isinstance(start.server_properties, dict) else {}
        self.product = f"{_text(properties.get('product'))} {_text(properties.get('version'))}"
        mechanism = at.mechanism or "PLAIN"
        response = f"\0{at.user or ''}\0{at.password or ''}" if mechanism == "PLAIN" else ""
        capabilities = dict.fromkeys(_CAPABILITIES, True)
        said = spec.Connection.StartOk(
            {"product": "amqp10msg bridge", "version": __version__, "capabilities": capabilities},
            mechanism,
            response,
            "en_US",
        )
        tune = await self._ask(said, spec.Connection.Tune)
        # What a peer does not agree to limit is limited here.
        size = min(tune.frame_max or _MAX_FRAME, _MAX_FRAME)
        self._reader.max_frame = size
        self.max_frame = size
        self.max_links = min(tune.channel_max or _MAX_CHANNELS, _MAX_CHANNELS)
        beat = min(at.heartbeat, tune.heartbeat or at.heartbeat)
        self.write(method(0, spec.Connection.TuneOk(tune.channel_max, size, beat)))
        await self._ask(spec.Connection.Open(at.virtual_host or "/"), spec.Connection.OpenOk)
        self._beat(float(beat))

    # The end.

    def failing(self, lost: LinkError) -> None:
        """Notify whoever waits for an answer."""
        refuse(self._awaited, lost)

    def abort(self) -> None:
        """Drop the connection at once; nothing is called any more."""
        super().abort()
        for channel in self._channels.values():
            channel.discard()

    async def close_gracefully(self) -> None:
        """Send what is pending, and close."""
        self.flush()  # what was settled comes before the close
        await self._ask(spec.Connection.Close(200, "", 0, 0), spec.Connection.CloseOk)


class Channel(AttachedLink):
    """One channel of a connection: contents, and what ends it.

    A body of more than `max_message` bytes goes to what `overflow` makes; None refuses it.
    """

    def __init__(
        self,
        connection: BasicConnection,
        on_lost: OnLost,
        max_message: int,
        overflow: Overflow | None = None,
    ) -> None:
        super().__init__(connection, on_lost)
        self.number = connection.enter(self)
        self._connection = connection
        self._max_message = max_message
        self._overflow = overflow
        self._content: Content | None = None
        self._awaited: asyncio.Future[Any] | None = None
        self._ended = self._left = False

    # What comes; override what is of interest.

    def on_content(self, content: Content) -> None:
        """Called with each content that is complete."""

    def on_confirm(self, tag: int, multiple: bool, accepted: bool) -> None:
        """Called with each publisher confirm."""

    def on_declared(self, found: Any) -> bool:  # noqa: ARG002  (of those that ask)
        """Called with each queue.declare-ok; return whether it was waited for here."""
        return False

    def settlements(self) -> list[bytes]:
        """Return the frames that settle what is to be settled."""
        return []

    @property
    def incomplete(self) -> bool:
        """Whether a content has begun to come, and the rest of it has not."""
        return self._content is not None

    def frame(self, kind: int, payload: bytes) -> None:
        """Take a frame."""
        content = self._content
        if kind != METHOD:
            if content is None:
                raise FrameError(f"a frame of type {kind} that belongs to no content")
            if content.add(kind, payload, self._max_message, self._overflow):
                self._content = None
                self.on_content(content)
            return
        if content is not None:
            raise FrameError("a method where the rest of a content must come")
        if len(payload) < 4:
            raise FrameError("a method is cut off")
        index = int.from_bytes(payload[:4], "big")
        if index in {DELIVER, RETURN}:
            self._content = Content(index, payload[4:])
        elif index in {ACK, NACK}:
            self.on_confirm(*confirmed(payload[4:]), index == ACK)
        else:
            self._method(decode_method(payload))

    def _method(self, found: Any) -> None:
        if isinstance(found, spec.Channel.Close):
            self._ended = True
            self.write(spec.Channel.CloseOk())
            self.fail(_ended(found))
        elif isinstance(found, spec.Basic.Cancel):
            text = "the broker cancelled the consumer: its queue moved or is gone"
            self.fail(LinkError(text))
        elif isinstance(found, spec.Channel.Flow):
            self.write(spec.Channel.FlowOk(found.active))
        elif isinstance(found, spec.Queue.DeclareOk) and self.on_declared(found):
            pass
        elif self._awaited is not None and not self._awaited.done():
            self._awaited.set_result(found)

    # What is sent.

    def write(self, what: Any) -> None:
        """Send a method at the end of this turn of the loop."""
        self._connection.write(method(self.number, what))

    async def ask(self, what: Any, *expected: Any) -> Any:
        """Send a method, and return the answer, one of these."""
        self._awaited = self._connection.loop.create_future()
        self.write(what)
        found = await self._awaited
        self._awaited = None
        return _expected(found, *expected)

    async def attach(self) -> None:
        """Open the channel."""
        await self.ask(spec.Channel.Open(), spec.Channel.OpenOk)

    # The end.

    def failing(self, lost: LinkError) -> None:
        """Notify whoever waits for an answer."""
        self.discard()
        refuse(self._awaited, lost)

    def discard(self) -> None:
        """Forget a content that is not complete."""
        content, self._content = self._content, None
        if content is not None and content.large is not None:
            content.large.discard()

    def leave(self) -> None:
        """Close the channel, unless that is done; wait for nothing."""
        if not self._left:
            self._left = True
            self.discard()
            self._connection.leave(self, ended=self._ended)

    async def goodbye(self) -> None:
        """Send what is pending, and close the channel."""
        self._connection.flush()  # what was settled comes before the close
        await self.ask(spec.Channel.Close(200, "", 0, 0), spec.Channel.CloseOk)
        self._ended = True


def _ended(found: Any) -> LinkError:
    """Return the error of a channel.close or a connection.close."""
    code = found.reply_code
    return LinkError(
        f"{code} {_text(found.reply_text)}",
        said=code not in _AMBIGUOUS,
        permanent=code in _PERMANENT,
        failed=code == _FAILED,
        missing=code == _MISSING and isinstance(found, spec.Channel.Close),
    )


def _expected(found: Any, *expected: Any) -> Any:
    if not isinstance(found, expected):
        wanted = expected[0].NAME
        raise LinkError(f"the peer sent {found.NAME} where {wanted} must come", said=True)
    return found


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return "" if value is None else str(value)


#: Times the prefetch-count that may be unsettled, and some messages more: a peer that sends more
#: than that does not keep to it.
_EXCESS, _SPARE = 4, 1_000
#: A prefetch-count has 16 bits.
_MAX_PREFETCH = 65_535
#: Bytes of a message of which only the position is of interest.
_GLANCE = 1 << 20
#: Seconds for closing a connection that only asked.
_GOODBYE = 5.0


class BasicSource(Channel):
    """A consumer of a queue; deliveries come by `receive`."""

    def __init__(self, request: SourceRequest, connection: BasicConnection) -> None:
        super().__init__(connection, request.on_lost, request.max_message, request.overflow)
        self.endpoint = request.endpoint
        self._receive = request.receive
        self._window = request.window
        self._unsettled = 0
        self._lowest = 1  # the first delivery-tag that is not settled
        self._settled: dict[int, Settle] = {}
        self._acked: set[int] = set()
        self._ready: int | None = None
        self._consumers = 1  # of the queue, that are this one
        self._asking: deque[asyncio.Future[Depth] | None] = deque()

    async def attach(self) -> None:
        """Consume the queue, with at most a window of deliveries unsettled."""
        await super().attach()
        await self.ask(spec.Basic.Qos(0, min(self._window, _MAX_PREFETCH), False), spec.Basic.QosOk)
        start = self.endpoint.start
        arguments = {} if start is None else {STREAM_OFFSET: start}
        await self.ask(self._consume(arguments), spec.Basic.ConsumeOk)

    def _consume(self, arguments: dict[str, Any], *, nowait: bool = False) -> Any:
        return spec.Basic.Consume(
            0, self.endpoint.queue, "bridge", arguments=arguments, nowait=nowait
        )

    def on_content(self, content: Content) -> None:
        """Hand over a delivery."""
        if content.index == DELIVER:
            tag, again, exchange, key = content.deliver()
            self._unsettled += 1
            if self._unsettled > _EXCESS * self._window + _SPARE:
                raise FrameError(
                    f"{self._unsettled} messages without an acknowledgement, where the "
                    f"prefetch-count is {self._window}"
                )
            body, header, large = content.body, content.header, content.large
            self._receive([SourceDelivery(body, header, exchange, key, again, tag, self, large)])

    def settle(self, deliveries: Sequence[SourceDelivery], how: Settle) -> None:
        """Settle deliveries of this link; those of another one stay as they are."""
        mine = [delivery for delivery in deliveries if delivery.link is self]
        self._unsettled -= len(mine)
        for delivery in mine:
            delivery.link = None
        if not mine or not self.alive:
            return
        if how is Settle.ACCEPT:
            self._acked.update([delivery.tag for delivery in mine])
        else:
            requeue = how is Settle.RELEASE
            for delivery in mine:
                self._connection.write(nack(self.number, delivery.tag, requeue=requeue))
                self._settled[delivery.tag] = how
        self._connection.settle_soon(self)

    def settlements(self) -> list[bytes]:
        """Acknowledge what was accepted: in one, what follows each other."""
        lowest, acked, done = self._lowest, self._acked, self._settled
        number = self.number
        made = []
        if acked:
            last = 0
            while lowest in acked or lowest in done:
                if done.pop(lowest, None) is None:
                    acked.discard(lowest)
                    last = lowest
                lowest += 1
            self._lowest = lowest
            if last:
                # Not one that was settled before: the broker knows it no more.
                made.append(ack(number, last, multiple=True))
            for tag in acked:
                made.append(ack(number, tag))
                done[tag] = Settle.ACCEPT
            acked.clear()
        return made

    async def depth(self) -> int | None:
        """Ask how many messages are ready in the queue; the last answer is returned."""
        if self.alive and not self._asking:
            self._declare(None)
        return self._ready

    async def count(self) -> Depth:
        """Ask how many messages are ready in the queue, and who else consumes it."""
        if not self.alive:
            raise LinkError("the connection ended")
        answer: asyncio.Future[Depth] = self._connection.loop.create_future()
        self._connection.flush()  # what goes back is to be counted
        self._declare(answer)
        return await answer

    def _declare(self, answer: asyncio.Future[Depth] | None) -> None:
        self._asking.append(answer)
        self.write(spec.Queue.Declare(0, self.endpoint.queue or "", passive=True))

    def on_declared(self, found: Any) -> bool:
        """Take the answer to what was asked."""
        self._ready = found.message_count
        answer = self._asking.popleft() if self._asking else None
        if answer is not None and not answer.done():
            others = max(found.consumer_count - self._consumers, 0)
            answer.set_result(Depth(ready=found.message_count, others=others))
        return True

    def failing(self, lost: LinkError) -> None:
        """Notify those who wait for an answer."""
        super().failing(lost)
        for answer in self._asking:
            refuse(answer, lost)
        self._asking.clear()

    def stop(self) -> None:
        """Ask for no more deliveries."""
        if self.alive:
            self._consumers = 0
            self.write(spec.Basic.Cancel("bridge", nowait=True))

    def resume(self) -> None:
        """Consume the queue again, after `stop`. A stream cannot: its position would be lost."""
        if self.alive and self.endpoint.start is None:
            self._consumers = 1
            self.write(self._consume({}, nowait=True))


class BasicTarget(Channel):
    """A publisher with confirms; outcomes come by `on_outcomes`."""

    def __init__(self, request: TargetRequest, connection: BasicConnection) -> None:
        super().__init__(connection, request.on_lost, 1 << 30)
        self.endpoint = request.endpoint
        self._outcomes = request.on_outcomes
        self._on_room = request.on_room
        self._window = request.window
        self._unconfirmed = Unconfirmed()

    async def attach(self) -> None:
        """Ask for confirms, and see that what is published to exists."""
        at, ask = self.endpoint, self.ask
        await super().attach()
        if at.queue is not None:
            declare: Any = spec.Queue.Declare(0, at.queue, passive=True)
            await ask(declare, spec.Queue.DeclareOk)
        elif at.exchange:
            declare = spec.Exchange.Declare(0, at.exchange, passive=True)
            await ask(declare, spec.Exchange.DeclareOk)
        await ask(spec.Confirm.Select(), spec.Confirm.SelectOk)

    @property
    def room(self) -> int:
        """How many messages may be sent now."""
        if self._connection.paused or self._connection.blocked or not self.has_turn:
            return 0
        return self._window - len(self._unconfirmed)

    @property
    def waits(self) -> bool:
        """Whether the broker said that it takes nothing for now."""
        return self._connection.blocked

    def on_room(self) -> None:
        """Go on sending."""
        self._on_room()

    def send(self, messages: Sequence[Sent]) -> None:
        """Publish messages; what cannot be said in frames has its outcome at once."""
        number, most = self.number, self._connection.max_frame
        frames: list[Any] = []
        charged = 0
        for outgoing, delivery in messages:
            header, body = outgoing.content_header or b"", outgoing.octets
            names = outgoing.exchange, outgoing.routing_key
            try:
                frames += publish(number, *names, header, body, most)
            except FrameError as error:
                self._outcomes([(delivery, Outcome("too-large", "", str(error), final=True))])
                continue
            self._unconfirmed.add(delivery, outgoing)
            charged += len(header) + len(body)
        self.charge(charged)
        self._connection.extend(frames)

    def on_content(self, content: Content) -> None:
        """Note what came back: its confirm follows."""
        if content.index != RETURN:
            return
        code, text, exchange, key = content.returned()
        outcome = Outcome("returned", str(code), text)
        self._unconfirmed.add_returned(exchange, key, content.header, content.body, outcome)

    def on_confirm(self, tag: int, multiple: bool, accepted: bool) -> None:
        """Report the outcomes of those that are confirmed."""
        self._outcomes(self._unconfirmed.confirm(tag, multiple=multiple, accepted=accepted))
        self._on_room()


async def _call(at: Endpoint) -> BasicConnection:
    return await dial(BasicConnection(at))


async def open_source(request: SourceRequest) -> BasicSource:
    """Consume a queue."""
    return await attached(request, _call, lambda at: BasicSource(request, at))


async def open_target(request: TargetRequest) -> BasicTarget:
    """Publish to an exchange, or to a queue by the default one."""
    return await attached(request, _call, lambda at: BasicTarget(request, at))


async def depth_of(endpoint: Endpoint, queue: str, pool: ConnectionPool | None = None) -> Depth:
    """Return how many messages are ready in a queue, and how many consumers it has."""

    def make(connection: BasicConnection) -> Channel:
        return Channel(connection, lambda _: None, 0)

    channel = await (pool or ConnectionPool()).join(endpoint, _call, make)

    async def ask() -> Depth:
        await channel.attach()
        declare = spec.Queue.Declare(0, queue, passive=True)
        said = await channel.ask(declare, spec.Queue.DeclareOk)
        return Depth(ready=said.message_count, others=said.consumer_count)

    found = await channel.within(ask)
    await channel.close(_GOODBYE)
    return found


async def positions_of(
    endpoint: Endpoint, offset: str, pool: ConnectionPool | None = None
) -> tuple[int, int] | None:
    """Return where a stream is read from an offset on: its first message, and the last one here.

    With ``last``, these are the last messages of the stream, of which RabbitMQ has given out all
    before it answers what it is asked next; with another offset, some that follow it. None where
    there is none.
    """
    found = await _read(endpoint, offset, pool)
    return (min(found), max(found)) if found else None


async def last_of(
    endpoint: Endpoint, pool: ConnectionPool | None = None
) -> tuple[int, bytes] | None:
    """Return the position of the last message of a stream, and a digest of it; None without one."""
    found = await _read(endpoint, "last", pool)
    return max(found.items()) if found else None


async def _read(endpoint: Endpoint, offset: str, pool: ConnectionPool | None) -> dict[int, bytes]:
    """Return digests of some messages of a stream from an offset on, by their positions."""
    found: dict[int, bytes] = {}

    def receive(deliveries: Sequence[SourceDelivery]) -> None:
        for delivery in deliveries:
            position = position_of(delivery)
            if delivery.large is not None:
                delivery.large.discard()
            if position is not None:
                found[position] = hashlib.sha256(delivery.raw).digest()

    with tempfile.TemporaryDirectory() as folder:
        request = SourceRequest(
            endpoint=attrs.evolve(endpoint, offset=offset),
            receive=receive,
            on_lost=lambda _: None,
            window=_MAX_PREFETCH if offset == "last" else 1,
            max_message=_GLANCE,
            overflow=lambda: Oversized(Path(folder), 0),
            pool=pool,
        )
        made = await open_source(request)
        # Answered after what there is.
        await made.within(lambda: made.ask(spec.Basic.Qos(0, 1, False), spec.Basic.QosOk))
        await made.close(_GOODBYE)
    return found
