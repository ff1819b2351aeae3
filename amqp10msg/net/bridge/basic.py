"""The ends of a bridge that speak AMQP 0-9-1, on asyncio: content headers go through untouched."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from typing import Any

from pika import spec

import amqp10msg
from amqp10msg.net.bridge.dialing import dial, drop
from amqp10msg.net.bridge.frames import (
    ACK,
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
)
from amqp10msg.net.bridge.terms import (
    ACCEPTED,
    Delivery,
    LinkError,
    OnLost,
    OnOutcome,
    OnRoom,
    Outcome,
    Outgoing,
    Overflow,
    Receive,
    Settle,
)
from amqp10msg.net.bridge.urls import Endpoint

__all__ = ["BasicSource", "BasicTarget", "depth_of", "open_basic_source", "open_basic_target"]

_CHANNEL = 1
_MAX_FRAME = 131_072
#: Reply codes that no other attempt makes good: wrong credentials, no such thing, not allowed.
_PERMANENT = {402, 403, 404, 530}
#: Reply codes of a broker that goes or fails, whatever was sent to it.
_AMBIGUOUS = {320, 541}
_BEAT = 8
_CAPABILITIES = (
    *("publisher_confirms", "basic.nack", "consumer_cancel_notify"),
    *("connection.blocked", "authentication_failure_close"),
)


class _Connection(asyncio.Protocol):
    """A connection with one channel: handshake, heartbeats, contents, and what ends it."""

    def __init__(self, endpoint: Endpoint, on_lost: OnLost, max_message: int) -> None:
        self.endpoint = endpoint
        self.product = ""
        self._on_lost: OnLost | None = on_lost
        self._max_message = max_message
        self._reader = FrameReader(_MAX_FRAME)
        self._stream: Any = None
        self._loop = asyncio.get_running_loop()
        self._awaited: asyncio.Future[Any] | None = None
        self._content: Content | None = None
        self._overflow: Overflow | None = None
        self._out: list[bytes] = []
        self._flushing = False
        self._heartbeat: asyncio.TimerHandle | None = None
        self._heard = self._wrote = self._loop.time()
        self._closing = False
        self.paused = False
        self.held = False
        self.blocked = False
        self.closed = self._loop.create_future()

    # Called by asyncio.

    def connection_made(self, transport: Any) -> None:
        """Begin to speak."""
        self._stream = transport
        transport.write(PREAMBLE)

    def data_received(self, data: bytes) -> None:
        """Process bytes of the peer."""
        self._heard = self._loop.time()
        try:
            for kind, channel, payload in self._reader.feed(data):
                self._frame(kind, channel, payload)
                if self._stream.is_closing():
                    return
        except FrameError as error:
            self.fail(LinkError(str(error), said=True))
        except OSError as error:
            self.fail(LinkError(f"a message that is too large cannot be put aside: {error}"))

    def connection_lost(self, exc: Exception | None) -> None:
        """End: the peer is gone."""
        self.fail(LinkError(f"the connection was cut{f' ({exc})' if exc else ''}"))
        if not self.closed.done():
            self.closed.set_result(None)

    def pause_writing(self) -> None:
        """Stop sending until the peer reads again."""
        self.paused = True

    def resume_writing(self) -> None:
        """Resume sending."""
        self.paused = False
        self.ready()

    def ready(self) -> None:
        """Called where there may be room again."""

    # Frames.

    def _frame(self, kind: int, channel: int, payload: bytes) -> None:
        if kind == _BEAT:
            return
        content = self._content
        if kind != METHOD:
            if content is None or channel != _CHANNEL:
                raise FrameError(f"a frame of type {kind} that belongs to no content")
            if content.add(kind, payload, self._max_message, self._overflow):
                self._content = None
                self.on_content(content)
            return
        if content is not None and channel == _CHANNEL:
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

    def on_content(self, content: Content) -> None:
        """Called with each content that is complete."""

    def on_confirm(self, tag: int, multiple: bool, accepted: bool) -> None:
        """Called with each publisher confirm."""

    def _method(self, found: Any) -> None:
        if isinstance(found, (spec.Channel.Close, spec.Connection.Close)):
            whole = isinstance(found, spec.Connection.Close)
            reply = method(0 if whole else _CHANNEL, found_ok(whole))
            self._stream.write(reply)
            code, text = found.reply_code, _text(found.reply_text)
            permanent = code in _PERMANENT
            self.fail(LinkError(f"{code} {text}", said=code not in _AMBIGUOUS, permanent=permanent))
        elif isinstance(found, spec.Connection.Blocked):
            self.blocked = True
        elif isinstance(found, spec.Connection.Unblocked):
            self.blocked = False
            self.ready()
        elif isinstance(found, spec.Basic.Cancel):
            self.fail(LinkError("the broker cancelled the consumer: its queue moved or is gone"))
        elif isinstance(found, spec.Channel.Flow):
            self.write(method(_CHANNEL, spec.Channel.FlowOk(found.active)))
        elif self._awaited is not None and not self._awaited.done():
            self._awaited.set_result(found)

    # What is sent.

    def write(self, octets: bytes) -> None:
        """Send bytes at the end of this turn of the loop, together with all others."""
        self._out.append(octets)
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Send what was written."""
        self._flushing = False
        if self._out and self._stream is not None and not self._stream.is_closing():
            self._stream.write(b"".join(self._out))
            self._wrote = self._loop.time()
        self._out.clear()

    def _beat(self, interval: float) -> None:
        now = self._loop.time()
        if now - self._heard > 2 * interval and not self.held:
            self.fail(LinkError(f"nothing came for {2 * interval:g} s"))
            return
        if now - self._wrote >= interval / 2:
            self.write(HEARTBEAT)
        self._heartbeat = self._loop.call_later(interval / 4, self._beat, interval)

    # Requests.

    async def ask(self, what: Any, *expected: Any, channel: int = _CHANNEL) -> Any:
        """Send a method, unless it is None, and return the answer, one of these.

        Raises:
            LinkError: the connection ended.
        """
        self._awaited = self._loop.create_future()
        if what is not None:
            self.write(method(channel, what))
        found = await self._awaited
        self._awaited = None
        if not isinstance(found, expected):
            wanted = expected[0].NAME
            raise LinkError(f"the peer sent {found.NAME} where {wanted} must come", said=True)
        return found

    async def handshake(self) -> None:
        """Open the connection and a channel.

        Raises:
            LinkError: the broker refused.
        """
        at = self.endpoint
        start = await self.ask(None, spec.Connection.Start)
        properties = start.server_properties if isinstance(start.server_properties, dict) else {}
        self.product = f"{_text(properties.get('product'))} {_text(properties.get('version'))}"
        mechanism = at.mechanism or "PLAIN"
        response = f"\0{at.user or ''}\0{at.password or ''}" if mechanism == "PLAIN" else ""
        capabilities = dict.fromkeys(_CAPABILITIES, True)
        said = spec.Connection.StartOk(
            {
                "product": "amqp10msg bridge",
                "version": amqp10msg.__version__,
                "capabilities": capabilities,
            },
            mechanism,
            response,
            "en_US",
        )
        tune = await self.ask(said, spec.Connection.Tune, channel=0)
        # What a peer does not agree to limit is limited here.
        size = min(tune.frame_max or _MAX_FRAME, _MAX_FRAME)
        self._reader.max_frame = size
        self.max_frame = size
        beat = min(at.heartbeat, tune.heartbeat or at.heartbeat)
        self.write(method(0, spec.Connection.TuneOk(tune.channel_max, size, beat)))
        opening = spec.Connection.Open(at.virtual_host or "/")
        await self.ask(opening, spec.Connection.OpenOk, channel=0)
        self._beat(float(beat))
        await self.ask(spec.Channel.Open(), spec.Channel.OpenOk)

    # The end.

    def fail(self, lost: LinkError) -> None:
        """End the connection, and say so once."""
        if self._heartbeat is not None:
            self._heartbeat.cancel()
        awaited, self._awaited = self._awaited, None
        if awaited is not None and not awaited.done():
            awaited.set_exception(lost)
        tell, self._on_lost = self._on_lost, None
        self.abort()
        if tell is not None and not self._closing:
            tell(lost)

    @property
    def alive(self) -> bool:
        """Whether it is not lost yet."""
        return self._on_lost is not None

    def abort(self) -> None:
        """Drop the connection at once; nothing is called any more."""
        self._on_lost = None
        if self._content is not None and self._content.large is not None:
            self._content.large.discard()
        if self._heartbeat is not None:
            self._heartbeat.cancel()
        drop(self._stream)

    async def close(self, wait: float) -> None:
        """Send what is pending, and close; give up after so many seconds."""
        self._closing = True
        if self._stream is None or self._stream.is_closing():
            return
        self.flush()  # what was settled comes before the close
        with contextlib.suppress(LinkError, TimeoutError):
            async with asyncio.timeout(wait):
                closing = spec.Connection.Close(200, "", 0, 0)
                await self.ask(closing, spec.Connection.CloseOk, channel=0)
        self.abort()

    def hold(self, held: bool) -> None:
        """Stop reading from the connection, or read on."""
        self.held = held
        if not self._stream.is_closing():
            self._heard = self._loop.time()
            (self._stream.pause_reading if held else self._stream.resume_reading)()


def found_ok(whole: bool) -> Any:
    """Return what answers connection.close, or channel.close."""
    return spec.Connection.CloseOk() if whole else spec.Channel.CloseOk()


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return "" if value is None else str(value)


class BasicSource(_Connection):
    """A consumer of a queue; deliveries come by `receive`."""

    def __init__(
        self,
        endpoint: Endpoint,
        receive: Receive,
        on_lost: OnLost,
        max_message: int,
        overflow: Overflow,
    ) -> None:
        super().__init__(endpoint, on_lost, max_message)
        self._receive = receive
        self._overflow = overflow
        self._lowest = 1  # the first delivery-tag that is not settled
        self._settled: dict[int, Settle] = {}
        self._acked: set[int] = set()

    async def attach(self, window: int) -> None:
        """Consume the queue, with at most so many deliveries unsettled.

        Raises:
            LinkError: there is no such queue, or the broker ended the connection.
        """
        await self.ask(spec.Basic.Qos(0, min(window, 65_535), False), spec.Basic.QosOk)
        offset = self.endpoint.offset
        arguments = {} if offset is None else {"x-stream-offset": _offset(offset)}
        consume = spec.Basic.Consume(0, self.endpoint.queue, "bridge", arguments=arguments)
        await self.ask(consume, spec.Basic.ConsumeOk)

    def on_content(self, content: Content) -> None:
        """Hand over a delivery."""
        if content.index == DELIVER:
            tag, again, exchange, key = content.deliver()
            body, header, large = content.body, content.header, content.large
            self._receive(Delivery(body, header, exchange, key, again, tag, self, large))

    def settle(self, delivery: Delivery, how: Settle) -> None:
        """Settle a delivery of this link; of another one, do nothing."""
        if delivery.link is not self:
            return
        delivery.link = None
        if how is Settle.ACCEPT:
            self._acked.add(delivery.tag)
        else:
            self.write(nack(_CHANNEL, delivery.tag, requeue=how is Settle.RELEASE))
            self._settled[delivery.tag] = how
        self.write(b"")

    def flush(self) -> None:
        """Acknowledge what was accepted: in one, what follows each other."""
        lowest, acked, done = self._lowest, self._acked, self._settled
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
                self._out.append(ack(_CHANNEL, last, multiple=True))
            for tag in acked:
                self._out.append(ack(_CHANNEL, tag))
                done[tag] = Settle.ACCEPT
            acked.clear()
        super().flush()

    async def depth(self) -> int | None:
        """Return how many messages are ready in the queue.

        Raises:
            LinkError: the broker does not say.
        """
        return await depth_of(self.endpoint, self.endpoint.queue or "")

    def stop(self) -> None:
        """Ask for no more deliveries."""
        if not self._stream.is_closing():
            self.write(method(_CHANNEL, spec.Basic.Cancel("bridge", nowait=True)))


def _offset(text: str) -> str | int:
    return int(text) if text.isascii() and text.isdecimal() else text


class BasicTarget(_Connection):
    """A publisher with confirms; outcomes come by `on_outcome`."""

    def __init__(
        self,
        endpoint: Endpoint,
        on_outcome: OnOutcome,
        on_room: OnRoom,
        on_lost: OnLost,
        window: int,
    ) -> None:
        super().__init__(endpoint, on_lost, 1 << 30)
        self._outcome = on_outcome
        self._on_room = on_room
        self._window = window
        self._published = 0
        # By delivery-tag, in the order in which they were sent.
        self._unconfirmed: dict[int, tuple[Delivery, Outgoing]] = {}
        self._returned: dict[int, Outcome] = {}

    async def attach(self) -> None:
        """Ask for confirms, and see that what is published to exists.

        Raises:
            LinkError: it does not, or the broker ended the connection.
        """
        at = self.endpoint
        if at.queue is not None:
            declare: Any = spec.Queue.Declare(0, at.queue, passive=True)
            await self.ask(declare, spec.Queue.DeclareOk)
        elif at.exchange:
            declare = spec.Exchange.Declare(0, at.exchange, passive=True)
            await self.ask(declare, spec.Exchange.DeclareOk)
        await self.ask(spec.Confirm.Select(), spec.Confirm.SelectOk)

    @property
    def room(self) -> int:
        """How many messages may be sent now."""
        if self.paused or self.blocked:
            return 0
        return self._window - len(self._unconfirmed)

    @property
    def waits(self) -> bool:
        """Whether the broker said that it takes nothing for now."""
        return self.blocked

    def ready(self) -> None:
        """Go on sending."""
        self._on_room()

    def send(self, outgoing: Outgoing, delivery: Delivery) -> None:
        """Publish a message; what cannot be said in frames has its outcome at once."""
        try:
            frames = publish(
                _CHANNEL,
                outgoing.exchange,
                outgoing.routing_key,
                outgoing.content_header or b"",
                outgoing.octets,
                self.max_frame,
            )
        except FrameError as error:
            self._outcome(delivery, Outcome("too-large", "", str(error), final=True))
            return
        self._published += 1
        self._unconfirmed[self._published] = (delivery, outgoing)
        self.write(frames)

    def on_content(self, content: Content) -> None:
        """Note what came back: its confirm follows."""
        if content.index != RETURN:
            return
        code, text, exchange, key = content.returned()
        outcome = Outcome("returned", str(code), text)
        header, body = content.header, content.body
        # It comes without a number. Messages that are the same are one as good as the other.
        near = None
        for tag, (_, sent) in self._unconfirmed.items():
            if tag in self._returned or (exchange, key) != (sent.exchange, sent.routing_key):
                continue
            if sent.octets == body:
                if sent.content_header == header:
                    self._returned[tag] = outcome
                    return
                near = near or tag
        if near is not None:
            self._returned[near] = outcome

    def on_confirm(self, tag: int, multiple: bool, accepted: bool) -> None:
        """Report the outcomes of those that are confirmed."""
        unconfirmed = self._unconfirmed
        if multiple:
            tags = []
            for one in unconfirmed:
                if tag and one > tag:
                    break
                tags.append(one)
        else:
            tags = [tag] if tag in unconfirmed else []
        for one in tags:
            delivery, _ = unconfirmed.pop(one)
            returned = self._returned.pop(one, None)
            self._outcome(delivery, returned or (ACCEPTED if accepted else Outcome("nacked")))
        self._on_room()


async def _connect(made: _Connection, attach: Callable[[], Any]) -> None:
    async def ready() -> None:
        await made.handshake()
        await attach()

    await dial(made, made.endpoint, ready)


async def open_basic_source(
    endpoint: Endpoint,
    receive: Receive,
    on_lost: OnLost,
    *,
    window: int,
    max_message: int,
    overflow: Overflow,
) -> BasicSource:
    """Consume a queue.

    Raises:
        LinkError: it did not succeed.
    """
    made = BasicSource(endpoint, receive, on_lost, max_message, overflow)
    await _connect(made, lambda: made.attach(window))
    return made


async def open_basic_target(
    endpoint: Endpoint, on_outcome: OnOutcome, on_room: OnRoom, on_lost: OnLost, *, window: int
) -> BasicTarget:
    """Publish to an exchange, or to a queue by the default one.

    Raises:
        LinkError: it did not succeed.
    """
    made = BasicTarget(endpoint, on_outcome, on_room, on_lost, window)
    await _connect(made, made.attach)
    return made


async def depth_of(endpoint: Endpoint, queue: str) -> int:
    """Return how many messages are ready in a queue.

    Raises:
        LinkError: it did not succeed.
    """
    made = _Connection(endpoint, lambda _: None, 0)
    found: deque[int] = deque()

    async def ask() -> None:
        declare = spec.Queue.Declare(0, queue, passive=True)
        found.append((await made.ask(declare, spec.Queue.DeclareOk)).message_count)

    await _connect(made, ask)
    await made.close(5.0)
    return found[0]
