"""The ends of a bridge that speak AMQP 0-9-1, from frames (4.2.3) to a source and a target.

Content headers go through as the bytes that they are. A connection has one channel. Methods that
are rare are left to pika's tables.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import struct
import tempfile
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
from pika import spec
from pika.exceptions import AMQPError
from pika.frame import Method

from amqp10msg import __version__
from amqp10msg.net.bridge.confirms import Unconfirmed
from amqp10msg.net.bridge.records import position_of
from amqp10msg.net.bridge.terms import (
    Depth,
    LinkError,
    OnLost,
    Outcome,
    Outgoing,
    Overflow,
    Oversized,
    Settle,
    SourceDelivery,
    SourceRequest,
    TargetRequest,
)
from amqp10msg.net.bridge.urls import Endpoint
from amqp10msg.net.bridge.wire import Wire, dial

PREAMBLE = b"AMQP\x00\x00\x09\x01"
HEARTBEAT = b"\x08\x00\x00\x00\x00\x00\x00\xce"
METHOD, HEADER, BODY = 1, 2, 3
DELIVER, RETURN, ACK, NACK = 0x003C003C, 0x003C0032, 0x003C0050, 0x003C0078
#: Of a frame: type, channel, size of its payload; and its end.
_FRAME = struct.Struct(">BHL")
#: The end of one, and what the next one begins with.
_NEXT = struct.Struct(">BBHL")
#: The types of frames, and how a record of TLS begins.
_KINDS = (1, 2, 3, 8)
_TLS = b"\x15\3"
_END = b"\xce"
_END_OCTET = 0xCE
_CONTENT = struct.Struct(">HHQ")
_ACK = struct.Struct(">BHLHHQBB")
_PUBLISH = struct.Struct(">HHH")
_TAG = struct.Struct(">QB")
_BASIC = 60


class FrameError(ValueError):
    """What came is not AMQP 0-9-1, or more than was agreed."""


class FrameReader:
    """Cuts what comes from a peer into frames.

    Attributes:
        max_frame: the most bytes that a frame may take, with its head and its end.
    """

    def __init__(self, max_frame: int) -> None:
        self.max_frame = max_frame
        self._buffer = bytearray()
        self._needed = 0

    def feed(self, data: bytes) -> Iterator[tuple[int, int, bytes]]:
        """Yield type, channel and payload of each frame that is complete.

        Raises:
            FrameError: a frame is too large, or has not the end that it must have.
        """
        buffer = self._buffer
        buffer += data
        if len(buffer) < self._needed:
            return
        position, there = 0, len(buffer)
        self._needed = 0
        while there - position >= 8:
            kind, channel, size = _FRAME.unpack_from(buffer, position)
            if size > self.max_frame - 8:
                raise FrameError(self._too_large(bytes(buffer[position : position + 8]), size))
            end = position + 7 + size
            if end >= there:
                self._needed = end + 1 - position
                break
            if buffer[end] != _END_OCTET:
                raise FrameError(f"a frame ends with {buffer[end]:#04x}, not 0xce")
            yield kind, channel, bytes(buffer[position + 7 : end])
            position = end + 1
        del buffer[:position]

    def _too_large(self, start: bytes, size: int) -> str:
        if start.startswith(b"AMQP"):
            return f"the peer speaks another version of AMQP: {start!r}"
        if start[0] not in _KINDS:
            hint = ": this is TLS, amqp091s:// speaks it" if start.startswith(_TLS) else ""
            return f"the peer does not speak AMQP 0-9-1, it begins with {start!r}{hint}"
        return f"a frame of {size} bytes where {self.max_frame} at most were agreed"


@attrs.define
class Content:
    """A method with content, while its frames come (0-9-1, 4.2.6).

    Attributes:
        index: `DELIVER` or `RETURN`.
        arguments: of the method, its payload after class and method.
        header: the payload of the content header frame.
        large: where header and body go if they are too large for memory; None for one that is not.
    """

    index: int
    arguments: bytes
    header: bytes = b""
    large: Oversized | None = None
    _size: int = -1
    _pieces: list[bytes] = attrs.Factory(list)

    def add(
        self,
        kind: int,
        payload: bytes,
        most: int,
        overflow: Callable[[], Oversized] | None = None,
    ) -> bool:
        """Take a frame; return whether the content is complete.

        Args:
            kind: of the frame.
            payload: of the frame.
            most: bytes that the body may have in memory.
            overflow: makes what takes a larger one; None to refuse it.

        Raises:
            FrameError: the frame does not belong here, or the body is too large.
            OSError: what takes larger ones cannot.
        """
        if self._size < 0:
            if kind != HEADER or len(payload) < _CONTENT.size:
                raise FrameError(f"a frame of type {kind} where a content header must come")
            class_id, _, self._size = _CONTENT.unpack_from(payload)
            if class_id != _BASIC:
                raise FrameError(f"content of class {class_id}, where basic is 60")
            if self._size > most:
                if overflow is None:
                    text = f"a message of {self._size} bytes, and {most} at most are taken"
                    raise FrameError(text)
                self.large = overflow()
                self.large.extend(payload)
            self.header = payload
        else:
            if kind != BODY:
                raise FrameError(f"a frame of type {kind} where a body must come")
            self._size -= len(payload)
            if self.large is not None:
                self.large.extend(payload)
            else:
                self._pieces.append(payload)
            if self._size < 0 or not payload:
                raise FrameError("a body that is longer than its content header says, or empty")
        return self._size == 0

    @property
    def body(self) -> bytes:
        """The payload of all body frames."""
        return self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)

    def deliver(self) -> tuple[int, bool, str, str]:
        """Read basic.deliver: delivery-tag, redelivered, exchange, routing-key."""
        try:
            at = 1 + self.arguments[0]
            tag, again = _TAG.unpack_from(self.arguments, at)
            exchange, at = _short(self.arguments, at + _TAG.size)
            return tag, bool(again), exchange, _short(self.arguments, at)[0]
        except (struct.error, IndexError):
            raise FrameError("basic.deliver is cut off") from None

    def returned(self) -> tuple[int, str, str, str]:
        """Read basic.return: reply-code, reply-text, exchange, routing-key."""
        try:
            (code,) = struct.unpack_from(">H", self.arguments)
            text, at = _short(self.arguments, 2)
            exchange, at = _short(self.arguments, at)
            return code, text, exchange, _short(self.arguments, at)[0]
        except (struct.error, IndexError):
            raise FrameError("basic.return is cut off") from None


def _short(octets: bytes, at: int) -> tuple[str, int]:
    end = at + 1 + octets[at]
    if end > len(octets):
        raise IndexError
    return octets[at + 1 : end].decode("utf-8", "surrogateescape"), end


def confirmed(arguments: bytes) -> tuple[int, bool]:
    """Read basic.ack or basic.nack: delivery-tag, multiple."""
    try:
        tag, bits = _TAG.unpack_from(arguments)
    except struct.error:
        raise FrameError("a confirmation is cut off") from None
    return tag, bool(bits & 1)


def ack(channel: int, tag: int, *, multiple: bool = False) -> bytes:
    """Return the frame of a basic.ack."""
    return _ACK.pack(METHOD, channel, 13, _BASIC, 80, tag, multiple, _END_OCTET)


def nack(channel: int, tag: int, *, requeue: bool) -> bytes:
    """Return the frame of a basic.nack for one delivery."""
    return _ACK.pack(METHOD, channel, 13, _BASIC, 120, tag, requeue << 1, _END_OCTET)


def publish(
    channel: int, exchange: str, key: str, header: bytes, body: bytes, max_frame: int
) -> list[Any]:
    """Return the frames of a mandatory basic.publish, whose content header is these very bytes.

    They are pieces, to be joined with those of other messages: a body is copied once.

    Raises:
        FrameError: a name is too long, or the content header is.
    """
    most = max_frame - 8
    if len(header) > most:
        raise FrameError(
            f"the content header has {len(header)} bytes, and frames of this broker hold {most}"
        )
    method = _publish(channel, exchange, key)
    size = len(body)
    if 0 < size <= most:
        head, foot = (
            _FRAME.pack(HEADER, channel, len(header)),
            _NEXT.pack(_END_OCTET, BODY, channel, size),
        )
        return [method, head, header, foot, body, _END]
    pieces: list[Any] = [method, _FRAME.pack(HEADER, channel, len(header)), header, _END]
    whole = memoryview(body)
    for at in range(0, size, most):
        piece = whole[at : at + most]
        pieces += [_FRAME.pack(BODY, channel, len(piece)), piece, _END]
    return pieces


@functools.lru_cache(256)
def _publish(channel: int, exchange: str, key: str) -> bytes:
    """Return the frame of the method, which is the same for many messages."""
    names = [name.encode("utf-8", "surrogateescape") for name in (exchange, key)]
    if max(map(len, names)) > 255:
        raise FrameError("the name of an exchange and a routing key have 255 bytes at most")
    said = b"".join(bytes((len(name),)) + name for name in names)
    arguments = b"%b%b\x01" % (_PUBLISH.pack(_BASIC, 40, 0), said)
    return _FRAME.pack(METHOD, channel, len(arguments)) + arguments + _END


def method(channel: int, what: Any) -> bytes:
    """Return the frame of one of pika's methods."""
    made: bytes = Method(channel, what).marshal()
    return made


def decode_method(payload: bytes) -> Any:
    """Read a method by pika's tables.

    Raises:
        FrameError: it is none, or cannot be read.
    """
    made = spec.methods.get(int.from_bytes(payload[:4], "big"))
    if made is None:
        raise FrameError(f"{payload[:4].hex()} is not a method of 0-9-1")
    try:
        return made().decode(payload, 4)
    except (AMQPError, struct.error, IndexError, ValueError, KeyError, TypeError) as error:
        raise FrameError(f"{made.NAME} cannot be read: {error!r}") from None


#: The one that is used.
CHANNEL = 1
_MAX_FRAME = 131_072
#: Reply codes that no other attempt makes good: wrong credentials, no such thing, not allowed.
_PERMANENT = {402, 403, 404, 530}
#: Reply codes of a broker that goes or fails, whatever was sent to it.
_AMBIGUOUS = {320, 541}
#: The reply code of a broker that failed at what it was doing.
_FAILED = 541
_BEAT = 8
_CAPABILITIES = (
    *("publisher_confirms", "basic.nack", "consumer_cancel_notify"),
    *("connection.blocked", "authentication_failure_close"),
)


class BasicPeer(Wire):
    """A connection with one channel: handshake, heartbeats, contents, and what ends it."""

    def __init__(self, endpoint: Endpoint, on_lost: OnLost, max_message: int) -> None:
        super().__init__(endpoint, on_lost)
        self._max_message = max_message
        self._reader = FrameReader(_MAX_FRAME)
        self._awaited: asyncio.Future[Any] | None = None
        self._content: Content | None = None
        self._overflow: Overflow | None = None
        self._out: list[bytes] = []
        self._wrote = self._heard
        self.held = False
        self.blocked = False

    # Bytes.

    def begin(self) -> None:
        """Begin to speak."""
        self._stream.write(PREAMBLE)

    def receive(self, data: bytes) -> None:
        """Process bytes of the peer."""
        try:
            for kind, channel, payload in self._reader.feed(data):
                self._frame(kind, channel, payload)
                if self._stream.is_closing():
                    return
        except FrameError as error:
            self.fail(LinkError(str(error), said=True))

    # Frames.

    def _frame(self, kind: int, channel: int, payload: bytes) -> None:
        if kind == _BEAT:
            return
        content = self._content
        if kind != METHOD:
            if content is None or channel != CHANNEL:
                raise FrameError(f"a frame of type {kind} that belongs to no content")
            if content.add(kind, payload, self._max_message, self._overflow):
                self._content = None
                self.on_content(content)
            return
        if content is not None and channel == CHANNEL:
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
            reply = method(0 if whole else CHANNEL, found_ok(whole))
            self._stream.write(reply)
            code, text = found.reply_code, _text(found.reply_text)
            permanent = code in _PERMANENT
            said, failed = code not in _AMBIGUOUS, code == _FAILED
            reason = f"{code} {text}"
            self.fail(LinkError(reason, said=said, permanent=permanent, failed=failed))
        elif isinstance(found, spec.Connection.Blocked):
            self.blocked = True
        elif isinstance(found, spec.Connection.Unblocked):
            self.blocked = False
            self.ready()
        elif isinstance(found, spec.Basic.Cancel):
            self.fail(LinkError("the broker cancelled the consumer: its queue moved or is gone"))
        elif isinstance(found, spec.Channel.Flow):
            self.write(method(CHANNEL, spec.Channel.FlowOk(found.active)))
        elif self._awaited is not None and not self._awaited.done():
            self._awaited.set_result(found)

    # What is sent.

    def write(self, octets: bytes) -> None:
        """Send bytes at the end of this turn of the loop, together with all others."""
        self._out.append(octets)
        self.touch()

    def flush(self) -> None:
        """Send what was written."""
        self._flushing = False
        if self._out and not self.is_closing:
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
        self.call_at(now + interval / 4, self._beat, interval)

    # Requests.

    async def ask(self, what: Any, *expected: Any, channel: int = CHANNEL) -> Any:
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
                "version": __version__,
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

    def failing(self, lost: LinkError) -> None:
        """Notify those who wait for an answer."""
        awaited, self._awaited = self._awaited, None
        if awaited is not None and not awaited.done():
            awaited.set_exception(lost)

    def abort(self) -> None:
        """Drop the connection at once; nothing is called any more."""
        super().abort()
        if self._content is not None and self._content.large is not None:
            self._content.large.discard()

    async def close_gracefully(self) -> None:
        """Send what is pending, and close."""
        self.flush()  # what was settled comes before the close
        await self.ask(spec.Connection.Close(200, "", 0, 0), spec.Connection.CloseOk, channel=0)

    def hold(self, held: bool) -> None:
        """Stop reading from the connection, or read on."""
        self.held = held
        self._heard = self._loop.time()
        self.read_or_not()

    def wants_input(self) -> bool:
        """Whether more is to be read from the peer now."""
        return not self.held


def found_ok(whole: bool) -> Any:
    """Return the answer to connection.close, or to channel.close."""
    return spec.Connection.CloseOk() if whole else spec.Channel.CloseOk()


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return "" if value is None else str(value)


#: A prefetch-count has 16 bits.
_MAX_PREFETCH = 65_535
#: Bytes of a message of which only the position is of interest.
_GLANCE = 1 << 20
#: Seconds for closing a connection that only asked.
_GOODBYE = 5.0


class BasicSource(BasicPeer):
    """A consumer of a queue; deliveries come by `receive`."""

    def __init__(self, request: SourceRequest) -> None:
        super().__init__(request.endpoint, request.on_lost, request.max_message)
        self._receive = request.receive
        self._overflow = request.overflow
        self._window = request.window
        self._lowest = 1  # the first delivery-tag that is not settled
        self._settled: dict[int, Settle] = {}
        self._acked: set[int] = set()
        self._ready: int | None = None
        self._consumers = 1  # of the queue, that are this one
        self._asking: deque[asyncio.Future[Depth] | None] = deque()

    async def attach(self) -> None:
        """Consume the queue, with at most a window of deliveries unsettled.

        Raises:
            LinkError: there is no such queue, or the broker ended the connection.
        """
        await self.ask(spec.Basic.Qos(0, min(self._window, _MAX_PREFETCH), False), spec.Basic.QosOk)
        offset = self.endpoint.offset
        arguments = {} if offset is None else {"x-stream-offset": _offset(offset)}
        consume = spec.Basic.Consume(0, self.endpoint.queue, "bridge", arguments=arguments)
        await self.ask(consume, spec.Basic.ConsumeOk)

    @property
    def incomplete(self) -> bool:
        """Whether a message has begun to come, and the rest of it has not."""
        return self._content is not None

    def on_content(self, content: Content) -> None:
        """Hand over a delivery."""
        if content.index == DELIVER:
            tag, again, exchange, key = content.deliver()
            body, header, large = content.body, content.header, content.large
            self._receive(SourceDelivery(body, header, exchange, key, again, tag, self, large))

    def settle(self, delivery: SourceDelivery, how: Settle) -> None:
        """Settle a delivery of this link; of another one, do nothing."""
        if delivery.link is not self:
            return
        delivery.link = None
        if how is Settle.ACCEPT:
            self._acked.add(delivery.tag)
        else:
            self.write(nack(CHANNEL, delivery.tag, requeue=how is Settle.RELEASE))
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
                self._out.append(ack(CHANNEL, last, multiple=True))
            for tag in acked:
                self._out.append(ack(CHANNEL, tag))
                done[tag] = Settle.ACCEPT
            acked.clear()
        super().flush()

    async def depth(self) -> int | None:
        """Ask how many messages are ready in the queue; the last answer is returned."""
        if not (self._asking or self._failed or self._closing):
            self._declare(None)
        return self._ready

    async def count(self) -> Depth:
        """Ask how many messages are ready in the queue, and who else consumes it.

        Raises:
            LinkError: the link ended before the answer.
        """
        if self._failed or self._closing:
            raise LinkError("the connection ended")
        answer: asyncio.Future[Depth] = self._loop.create_future()
        self._declare(answer)
        return await answer

    def _declare(self, answer: asyncio.Future[Depth] | None) -> None:
        self._asking.append(answer)
        declare = spec.Queue.Declare(0, self.endpoint.queue or "", passive=True)
        self.write(method(CHANNEL, declare))

    def _method(self, found: Any) -> None:
        if not isinstance(found, spec.Queue.DeclareOk):
            super()._method(found)
            return
        self._ready = found.message_count
        answer = self._asking.popleft() if self._asking else None
        if answer is not None and not answer.done():
            others = max(found.consumer_count - self._consumers, 0)
            answer.set_result(Depth(ready=found.message_count, others=others))

    def failing(self, lost: LinkError) -> None:
        """Notify those who wait for an answer."""
        super().failing(lost)
        for answer in self._asking:
            if answer is not None and not answer.done():
                answer.set_exception(lost)
                answer.exception()  # whoever waits for it sees it; nobody has to
        self._asking.clear()

    def stop(self) -> None:
        """Ask for no more deliveries."""
        if not self._stream.is_closing():
            self._consumers = 0
            self.write(method(CHANNEL, spec.Basic.Cancel("bridge", nowait=True)))


def _offset(text: str) -> str | int:
    return int(text) if text.isascii() and text.isdecimal() else text


class BasicTarget(BasicPeer):
    """A publisher with confirms; outcomes come by `on_outcome`."""

    def __init__(self, request: TargetRequest) -> None:
        super().__init__(request.endpoint, request.on_lost, 1 << 30)
        self._outcome = request.on_outcome
        self._on_room = request.on_room
        self._window = request.window
        self._unconfirmed = Unconfirmed()

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

    def send(self, outgoing: Outgoing, delivery: SourceDelivery) -> None:
        """Publish a message; what cannot be said in frames has its outcome at once."""
        try:
            frames = publish(
                CHANNEL,
                outgoing.exchange,
                outgoing.routing_key,
                outgoing.content_header or b"",
                outgoing.octets,
                self.max_frame,
            )
        except FrameError as error:
            self._outcome(delivery, Outcome("too-large", "", str(error), final=True))
            return
        self._unconfirmed.add(delivery, outgoing)
        self._out += frames
        self.touch()

    def on_content(self, content: Content) -> None:
        """Note what came back: its confirm follows."""
        if content.index != RETURN:
            return
        code, text, exchange, key = content.returned()
        outcome = Outcome("returned", str(code), text)
        self._unconfirmed.give_back(exchange, key, content.header, content.body, outcome)

    def on_confirm(self, tag: int, multiple: bool, accepted: bool) -> None:
        """Report the outcomes of those that are confirmed."""
        for found in self._unconfirmed.confirm(tag, multiple=multiple, accepted=accepted):
            self._outcome(*found)
        self._on_room()


async def _connect(made: BasicPeer, attach: Callable[[], Any]) -> None:
    async def ready() -> None:
        await made.handshake()
        await attach()

    await dial(made, made.endpoint, ready)


async def open_source(request: SourceRequest) -> BasicSource:
    """Consume a queue.

    Raises:
        LinkError: it did not succeed.
    """
    made = BasicSource(request)
    await _connect(made, made.attach)
    return made


async def open_target(request: TargetRequest) -> BasicTarget:
    """Publish to an exchange, or to a queue by the default one.

    Raises:
        LinkError: it did not succeed.
    """
    made = BasicTarget(request)
    await _connect(made, made.attach)
    return made


async def depth_of(endpoint: Endpoint, queue: str) -> Depth:
    """Return how many messages are ready in a queue, and how many consumers it has.

    Raises:
        LinkError: it did not succeed.
    """
    made = BasicPeer(endpoint, lambda _: None, 0)
    found: deque[Depth] = deque()

    async def ask() -> None:
        declare = spec.Queue.Declare(0, queue, passive=True)
        said = await made.ask(declare, spec.Queue.DeclareOk)
        found.append(Depth(ready=said.message_count, others=said.consumer_count))

    await _connect(made, ask)
    await made.close(_GOODBYE)
    return found[0]


async def positions_of(endpoint: Endpoint, offset: str) -> tuple[int, int] | None:
    """Return where a stream is read from an offset on: its first message, and the last one here.

    With ``last``, these are the last messages of the stream, of which RabbitMQ has given out all
    before it answers what it is asked next; with another offset, some that follow it. None where
    there is none.

    Raises:
        LinkError: it did not succeed.
    """
    found = await _read(endpoint, offset)
    return (min(found), max(found)) if found else None


async def last_of(endpoint: Endpoint) -> tuple[int, bytes] | None:
    """Return the position of the last message of a stream, and a digest of it; None without one.

    Raises:
        LinkError: it did not succeed.
    """
    found = await _read(endpoint, "last")
    return max(found.items()) if found else None


async def _read(endpoint: Endpoint, offset: str) -> dict[int, bytes]:
    """Return digests of some messages of a stream from an offset on, by their positions."""
    found: dict[int, bytes] = {}

    def receive(delivery: SourceDelivery) -> None:
        position = position_of(delivery)
        if delivery.large is not None:
            delivery.large.discard()
        if position is not None:
            found[position] = hashlib.sha256(delivery.raw).digest()

    with tempfile.TemporaryDirectory() as folder:
        made = BasicSource(
            SourceRequest(
                endpoint=attrs.evolve(endpoint, offset=offset),
                receive=receive,
                on_lost=lambda _: None,
                window=_MAX_PREFETCH if offset == "last" else 1,
                max_message=_GLANCE,
                overflow=lambda: Oversized(Path(folder), 0),
            )
        )

        async def ask() -> None:
            await made.attach()
            await made.ask(spec.Basic.Qos(0, 1, False), spec.Basic.QosOk)

        await _connect(made, ask)
        await made.close(_GOODBYE)
    return found
