"""The sources and targets of AMQP 0-9-1: connections, channels, consumers and publishers.

Each link is a channel. If a channel is closed, the other channels of its connection stay open.
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
from amqp10msg.net.ends.basic_frames import (
    ACK,
    BEAT,
    DELIVER,
    HEARTBEAT,
    METHOD,
    NACK,
    PROTOCOL_HEADER,
    RETURN,
    Content,
    FrameError,
    FrameReader,
    ack,
    decode_confirm,
    decode_method,
    method,
    nack,
    publish,
    spec,
)
from amqp10msg.net.ends.confirms import Unconfirmed
from amqp10msg.net.ends.contents import position_of
from amqp10msg.net.ends.terms import (
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
from amqp10msg.net.ends.urls import Endpoint
from amqp10msg.net.ends.wire import (
    AttachedLink,
    ConnectionPool,
    Wire,
    attach_link,
    dial,
    fail_future,
)

#: Our frame-max, in bytes.
_MAX_FRAME = 131_072
#: Maximum number of channels per connection if the broker gives no limit.
_MAX_CHANNELS = 2_047
#: Reply codes that a retry cannot fix, namely payment required (402), access refused (403), not
#: found (404) and not allowed (530).
_PERMANENT_CODES = {402, 403, 404, 530}
#: Reply codes of a broker that shuts down (320) or has failed (541).
_BROKER_FAULT_CODES = {320, 541}
#: Reply code "internal error".
_INTERNAL_ERROR = 541
#: Reply code "not found" for a queue or exchange.
_NOT_FOUND = 404
#: The client's capabilities in connection.start-ok.
_CLIENT_CAPABILITIES = (
    *("publisher_confirms", "basic.nack", "consumer_cancel_notify"),
    *("connection.blocked", "authentication_failure_close"),
)


class BasicConnection(Wire):
    """A client's connection over AMQP 0-9-1: handshake, heartbeats and channels.

    Attributes:
        max_frame: negotiated frame-max, in bytes.
        blocked: whether the broker has blocked publishing (connection.blocked).
    """

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint)
        self.max_frame = _MAX_FRAME
        self.blocked = False
        self._reader = FrameReader(_MAX_FRAME)
        self._awaited: asyncio.Future[Any] | None = None  # the answer to the pending request
        self._channels: dict[int, Channel] = {}
        self._closing_channels: set[int] = set()  # channels whose close-ok has not arrived
        self._channels_to_settle: dict[Channel, None] = {}  # channels with settlements to send
        self._unsent: list[bytes] = []
        self._last_sent_at = self._last_received_at

    # Bytes.

    def begin(self) -> None:
        """Send the protocol header."""
        self._stream.write(PROTOCOL_HEADER)

    def receive(self, data: bytes) -> None:
        """Process received bytes."""
        try:
            for frame_type, channel, payload in self._reader.feed(data):
                if channel:
                    self._process_frame(frame_type, channel, payload)
                elif frame_type == METHOD:
                    self._process_method(decode_method(payload))
                elif frame_type != BEAT:
                    raise FrameError(f"an unexpected frame of type {frame_type} on channel 0")
                if self._stream.is_closing():
                    return
        except FrameError as error:
            # A port of another protocol will not speak this one later.
            permanent = error.other_protocol and not self.is_open
            self.fail(LinkError(str(error), sent_by_peer=not permanent, permanent=permanent))

    # Frames.

    def _process_frame(self, frame_type: int, number: int, payload: bytes) -> None:
        """Process a frame of channel `number`."""
        channel = self._channels.get(number)
        if channel is None:
            if frame_type == METHOD:
                self._process_late_method(number, payload)
            return
        try:
            channel.process_frame(frame_type, payload)
        except OSError as error:
            channel.fail(no_room_for_large(error))

    def _process_late_method(self, number: int, payload: bytes) -> None:
        """Process a method of the closed channel `number`.

        Answer a channel.close, free the number on a channel.close-ok, and ignore other methods.
        """
        if number in self._closing_channels and len(payload) >= 4:
            index = int.from_bytes(payload[:4], "big")
            if index == spec.Channel.Close.INDEX:
                self.write(method(number, spec.Channel.CloseOk()))
            elif index == spec.Channel.CloseOk.INDEX:
                self._closing_channels.discard(number)

    def _process_method(self, received: Any) -> None:
        """Process a method of channel 0, which belongs to the connection."""
        if isinstance(received, spec.Connection.Close):
            self._stream.write(method(0, spec.Connection.CloseOk()))
            self.fail(_close_error(received))
        elif isinstance(received, spec.Connection.Blocked):
            self.blocked = True
        elif isinstance(received, spec.Connection.Unblocked):
            self.blocked = False
            self.let_links_send()
        elif self._awaited is not None and not self._awaited.done():
            self._awaited.set_result(received)

    # Channels.

    @property
    def joinable(self) -> bool:
        """Whether another link can open a channel."""
        in_use = len(self._channels) + len(self._closing_channels)
        return super().joinable and in_use < self.max_links

    def add_channel(self, channel: Channel) -> int:
        """Register a new channel, and return its number."""
        used = self._channels.keys() | self._closing_channels
        number = next(n for n in range(1, self.max_links + 1) if n not in used)
        self._channels[number] = channel
        return number

    def remove_channel(self, channel: Channel, *, ended: bool) -> None:
        """Remove a channel. Send channel.close, unless the channel is closed already (`ended`)."""
        del self._channels[channel.number]
        self._channels_to_settle.pop(channel, None)
        if not ended:
            self._closing_channels.add(channel.number)
            self.write(method(channel.number, spec.Channel.Close(0, "", 0, 0)))

    # Output.

    def write(self, octets: bytes) -> None:
        """Send bytes at the end of the current event-loop iteration."""
        self._unsent.append(octets)
        self.touch()

    def write_many(self, pieces: list[bytes]) -> None:
        """Send a list of byte strings at the end of the current event-loop iteration."""
        self._unsent += pieces
        self.touch()

    def settle_soon(self, channel: Channel) -> None:
        """Send a channel's settlements at the end of the current event-loop iteration."""
        self._channels_to_settle[channel] = None
        self.touch()

    def flush(self) -> None:
        """Send the bytes that were written, and the settlements of all channels."""
        self._flushing = False
        channels, self._channels_to_settle = self._channels_to_settle, {}
        for channel in channels:
            self._unsent += channel.settlements()
        if self._unsent and not self.is_closing:
            self._stream.write(b"".join(self._unsent))
            self._last_sent_at = self.loop.time()
        self._unsent.clear()
        self.end_turn()

    def _beat(self, interval: float) -> None:
        """Send heartbeats. Fail the connection if nothing is received for two intervals.

        `interval` is the negotiated heartbeat interval in seconds.
        """
        now = self.loop.time()
        if now - self._last_received_at > 2 * interval and not self.reading_paused:
            self.fail(LinkError(f"no heartbeat from the peer for {2 * interval:g} s"))
            return
        if now - self._last_sent_at >= interval / 2:
            self.write(HEARTBEAT)
        self.call_at(now + interval / 4, self._beat, interval)

    # Requests.

    async def _ask(self, request: Any, *expected: Any) -> Any:
        """Send `request`, unless it is None. Return the answer, an `expected` method."""
        self._awaited = self.loop.create_future()
        if request is not None:
            self.write(method(0, request))
        answer = await self._awaited
        self._awaited = None
        return _check_answer(answer, *expected)

    async def handshake(self) -> None:
        """Log in, negotiate the limits, and open the virtual host."""
        endpoint = self.endpoint
        start = await self._ask(None, spec.Connection.Start)
        properties = start.server_properties if isinstance(start.server_properties, dict) else {}
        self.peer_product = (
            f"{_as_text(properties.get('product'))} {_as_text(properties.get('version'))}"
        )
        mechanism = endpoint.mechanism or "PLAIN"
        response = (
            f"\0{endpoint.user or ''}\0{endpoint.password or ''}" if mechanism == "PLAIN" else ""
        )
        capabilities = dict.fromkeys(_CLIENT_CAPABILITIES, True)
        start_ok = spec.Connection.StartOk(
            {"product": "amqp10msg bridge", "version": __version__, "capabilities": capabilities},
            mechanism,
            response,
            "en_US",
        )
        tune = await self._ask(start_ok, spec.Connection.Tune)
        # 0 means that the broker sets no limit: use ours.
        frame_max = min(tune.frame_max or _MAX_FRAME, _MAX_FRAME)
        self._reader.max_frame = frame_max
        self.max_frame = frame_max
        self.max_links = min(tune.channel_max or _MAX_CHANNELS, _MAX_CHANNELS)
        heartbeat = min(endpoint.heartbeat, tune.heartbeat or endpoint.heartbeat)
        self.write(method(0, spec.Connection.TuneOk(tune.channel_max, frame_max, heartbeat)))
        await self._ask(spec.Connection.Open(endpoint.virtual_host or "/"), spec.Connection.OpenOk)
        self._beat(float(heartbeat))

    # The end.

    def fail_waiters(self, error: LinkError) -> None:
        """Fail the pending request."""
        fail_future(self._awaited, error)

    def abort(self) -> None:
        """Drop the connection without a close. No callback is called afterwards."""
        super().abort()
        for channel in self._channels.values():
            channel.discard()

    async def close_gracefully(self) -> None:
        """Send the pending settlements and connection.close, and wait for the answer."""
        self.flush()
        await self._ask(spec.Connection.Close(200, "", 0, 0), spec.Connection.CloseOk)


class Channel(AttachedLink):
    """A channel of a connection.

    Args:
        connection: the connection.
        on_lost: called when the channel or its connection is lost.
        max_message: maximum size in bytes of a body in memory; a larger one is written to a file.
        overflow: returns the file for a larger body; None to fail the connection instead.
    """

    def __init__(
        self,
        connection: BasicConnection,
        on_lost: OnLost,
        max_message: int,
        overflow: Overflow | None = None,
    ) -> None:
        super().__init__(connection, on_lost)
        self.number = connection.add_channel(self)
        self._connection = connection
        self._max_message = max_message
        self._overflow = overflow
        self._content: Content | None = None  # the message that has arrived in part
        self._awaited: asyncio.Future[Any] | None = None  # the answer to the pending request
        self._ended = False  # whether channel.close or close-ok was received
        self._is_removed = False  # whether the connection has removed this channel

    # Callbacks, which subclasses override.

    def on_content(self, content: Content) -> None:
        """Called with each complete method with content: a delivery or a returned message."""

    def on_confirm(self, tag: int, multiple: bool, accepted: bool) -> None:
        """Called with each publisher confirm."""

    def on_declared(self, declare_ok: Any) -> bool:  # noqa: ARG002  (used by subclasses)
        """Called with each queue.declare-ok. Return whether the subclass had asked for it."""
        return False

    def settlements(self) -> list[bytes]:
        """Return frames that settle deliveries. Called when the connection sends its bytes."""
        return []

    @property
    def incomplete(self) -> bool:
        """Whether a part of a message has arrived, but not its end."""
        return self._content is not None

    def process_frame(self, frame_type: int, payload: bytes) -> None:
        """Process a frame that arrived on this channel.

        Raises:
            FrameError: the frame violates the protocol.
            OSError: a large message could not be written to its file.
        """
        content = self._content
        if frame_type != METHOD:
            if content is None:
                raise FrameError(f"a frame of type {frame_type} without a method that has content")
            if content.add(frame_type, payload, self._max_message, self._overflow):
                self._content = None
                self.on_content(content)
            return
        if content is not None:
            raise FrameError("a method frame arrived before the end of a message")
        if len(payload) < 4:
            raise FrameError("a method frame is truncated")
        index = int.from_bytes(payload[:4], "big")
        if index in {DELIVER, RETURN}:
            self._content = Content(index, payload[4:])
        elif index in {ACK, NACK}:
            self.on_confirm(*decode_confirm(payload[4:]), index == ACK)
        else:
            self._process_method(decode_method(payload))

    def _process_method(self, received: Any) -> None:
        """Process a method without content."""
        if isinstance(received, spec.Channel.Close):
            self._ended = True
            self.write(spec.Channel.CloseOk())
            self.fail(_close_error(received))
        elif isinstance(received, spec.Basic.Cancel):
            text = "the broker cancelled the consumer: its queue was moved or deleted"
            self.fail(LinkError(text))
        elif isinstance(received, spec.Channel.Flow):
            self.write(spec.Channel.FlowOk(received.active))
        elif isinstance(received, spec.Queue.DeclareOk) and self.on_declared(received):
            pass
        elif self._awaited is not None and not self._awaited.done():
            self._awaited.set_result(received)

    # Output.

    def write(self, request: Any) -> None:
        """Send a method at the end of the current event-loop iteration."""
        self._connection.write(method(self.number, request))

    async def ask(self, request: Any, *expected: Any) -> Any:
        """Send `request`, and return the answer, which must be an `expected` method."""
        self._awaited = self._connection.loop.create_future()
        self.write(request)
        answer = await self._awaited
        self._awaited = None
        return _check_answer(answer, *expected)

    async def attach(self) -> None:
        """Open the channel."""
        await self.ask(spec.Channel.Open(), spec.Channel.OpenOk)

    # The end.

    def fail_waiters(self, error: LinkError) -> None:
        """Discard an incomplete message, and fail the pending request."""
        self.discard()
        fail_future(self._awaited, error)

    def discard(self) -> None:
        """Discard an incomplete message."""
        content, self._content = self._content, None
        if content is not None and content.large is not None:
            content.large.discard()

    def send_end(self) -> None:
        """Close the channel without waiting, unless it is closed already."""
        if not self._is_removed:
            self._is_removed = True
            self.discard()
            self._connection.remove_channel(self, ended=self._ended)

    async def end_gracefully(self) -> None:
        """Send the pending settlements, close the channel, and wait for the answer."""
        self._connection.flush()
        await self.ask(spec.Channel.Close(200, "", 0, 0), spec.Channel.CloseOk)
        self._ended = True


def _close_error(close: Any) -> LinkError:
    """Convert a channel.close or connection.close to a LinkError."""
    code = close.reply_code
    return LinkError(
        f"{code} {_as_text(close.reply_text)}",
        sent_by_peer=code not in _BROKER_FAULT_CODES,
        permanent=code in _PERMANENT_CODES,
        failed=code == _INTERNAL_ERROR,
        missing=code == _NOT_FOUND and isinstance(close, spec.Channel.Close),
    )


def _check_answer(answer: Any, *expected: Any) -> Any:
    """Return `answer`; raise LinkError if it is not an expected method."""
    if not isinstance(answer, expected):
        name = expected[0].NAME
        raise LinkError(f"the peer sent {answer.NAME} instead of {name}", sent_by_peer=True)
    return answer


def _as_text(value: Any) -> str:
    """Convert a field of the peer to a string: bytes are decoded, and None is empty."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return "" if value is None else str(value)


#: Disconnect a peer that delivers more unacknowledged messages than the prefetch-count times
#: `_EXCESS_FACTOR`, plus `_EXCESS_ALLOWANCE`.
_EXCESS_FACTOR, _EXCESS_ALLOWANCE = 4, 1_000
#: Maximum prefetch-count, a field of 16 bits.
_MAX_PREFETCH = 65_535
#: Maximum size in bytes of a message in memory if only its position or digest is needed.
_MAX_PEEKED_SIZE = 1 << 20
#: Timeout in seconds of closing a link that was opened for a query.
_CLOSE_TIMEOUT = 5.0


class BasicSource(Channel):
    """A consumer of a queue. It passes deliveries to `request.receive`."""

    def __init__(self, request: SourceRequest, connection: BasicConnection) -> None:
        super().__init__(connection, request.on_lost, request.max_message, request.overflow)
        self.endpoint = request.endpoint
        self._receive = request.receive
        self._window = request.window
        self._unsettled = 0
        self._lowest_unsettled_tag = 1
        # Higher delivery-tags that were settled.
        self._settled: dict[int, Settle] = {}
        # Delivery-tags of accepted deliveries whose basic.ack was not sent yet.
        self._acked: set[int] = set()
        self._ready: int | None = None  # the latest answer about ready messages
        self._own_consumers = 1  # subtracted from the queue's consumer count
        # The pending queries, oldest first. None for a query whose answer nobody awaits.
        self._queries: deque[asyncio.Future[Depth] | None] = deque()

    async def attach(self) -> None:
        """Open the channel, and consume the queue with the window as prefetch-count."""
        await super().attach()
        await self.ask(spec.Basic.Qos(0, min(self._window, _MAX_PREFETCH), False), spec.Basic.QosOk)
        start = self.endpoint.start
        arguments = {} if start is None else {STREAM_OFFSET: start}
        await self.ask(self._consume(arguments), spec.Basic.ConsumeOk)

    def _consume(self, arguments: dict[str, Any], *, nowait: bool = False) -> Any:
        """Return the method basic.consume for the queue."""
        return spec.Basic.Consume(
            0, self.endpoint.queue, "bridge", arguments=arguments, nowait=nowait
        )

    def on_content(self, content: Content) -> None:
        """Pass a delivery to `request.receive`.

        Raises:
            FrameError: the peer ignores the prefetch-count.
        """
        if content.index == DELIVER:
            tag, redelivered, exchange, key = content.decode_deliver()
            self._unsettled += 1
            if self._unsettled > _EXCESS_FACTOR * self._window + _EXCESS_ALLOWANCE:
                raise FrameError(
                    f"{self._unsettled} unacknowledged messages exceed the prefetch-count of "
                    f"{self._window}"
                )
            body, header, large = content.body, content.header, content.large
            self._receive(
                [SourceDelivery(body, header, exchange, key, redelivered, tag, self, large)]
            )

    def settle(self, deliveries: Sequence[SourceDelivery], settlement: Settle) -> None:
        """Settle the deliveries that belong to this link; ignore deliveries of other links."""
        mine = [delivery for delivery in deliveries if delivery.link is self]
        self._unsettled -= len(mine)
        for delivery in mine:
            delivery.link = None
        if not mine or not self.alive:
            return
        if settlement is Settle.ACCEPT:
            self._acked.update([delivery.tag for delivery in mine])
        else:
            requeue = settlement is Settle.RELEASE
            for delivery in mine:
                self._connection.write(nack(self.number, delivery.tag, requeue=requeue))
                self._settled[delivery.tag] = settlement
        self._connection.settle_soon(self)

    def settlements(self) -> list[bytes]:
        """Return basic.ack frames for the accepted deliveries.

        One frame acknowledges all tags up to the first unsettled tag. Each higher tag has a frame.
        """
        lowest, acked, settled = self._lowest_unsettled_tag, self._acked, self._settled
        number = self.number
        frames = []
        if acked:
            last = 0
            while lowest in acked or lowest in settled:
                if settled.pop(lowest, None) is None:
                    acked.discard(lowest)
                    last = lowest
                lowest += 1
            self._lowest_unsettled_tag = lowest
            if last:
                # `last` was not settled before: the broker would refuse the ack otherwise.
                frames.append(ack(number, last, multiple=True))
            for tag in acked:
                frames.append(ack(number, tag))
                settled[tag] = Settle.ACCEPT
            acked.clear()
        return frames

    async def depth(self) -> int | None:
        """Query the number of ready messages. Return the previous answer, or None."""
        if self.alive and not self._queries:
            self._query_queue(None)
        return self._ready

    async def count(self) -> Depth:
        """Return the number of ready messages and of other consumers.

        Raises:
            LinkError: the connection ended.
        """
        if not self.alive:
            raise LinkError("the connection ended")
        answer: asyncio.Future[Depth] = self._connection.loop.create_future()
        self._connection.flush()  # settle first: the broker then counts the released messages
        self._query_queue(answer)
        return await answer

    def _query_queue(self, answer: asyncio.Future[Depth] | None) -> None:
        """Send a passive queue.declare. Its result is stored in `answer`, unless that is None."""
        self._queries.append(answer)
        self.write(spec.Queue.Declare(0, self.endpoint.queue or "", passive=True))

    def on_declared(self, declare_ok: Any) -> bool:
        """Complete the oldest pending query with the numbers of a queue.declare-ok."""
        self._ready = declare_ok.message_count
        answer = self._queries.popleft() if self._queries else None
        if answer is not None and not answer.done():
            other_consumers = max(declare_ok.consumer_count - self._own_consumers, 0)
            answer.set_result(
                Depth(ready=declare_ok.message_count, other_consumers=other_consumers)
            )
        return True

    def fail_waiters(self, error: LinkError) -> None:
        """Discard an incomplete message, and fail the pending request and queries."""
        super().fail_waiters(error)
        for answer in self._queries:
            fail_future(answer, error)
        self._queries.clear()

    def stop(self) -> None:
        """Cancel the consumer."""
        if self.alive:
            self._own_consumers = 0
            self.write(spec.Basic.Cancel("bridge", nowait=True))

    def resume(self) -> None:
        """Consume the queue again after `stop`. A no-op for a stream: its position is lost."""
        if self.alive and self.endpoint.start is None:
            self._own_consumers = 1
            self.write(self._consume({}, nowait=True))


class BasicTarget(Channel):
    """A publisher with confirms. It passes outcomes to `request.on_outcomes`."""

    def __init__(self, request: TargetRequest, connection: BasicConnection) -> None:
        super().__init__(connection, request.on_lost, 1 << 30)
        self.endpoint = request.endpoint
        self._on_outcomes = request.on_outcomes
        self._on_room = request.on_room
        self._window = request.window
        self._unconfirmed = Unconfirmed()

    async def attach(self) -> None:
        """Open the channel, check that the queue or exchange exists, and request confirms."""
        endpoint, ask = self.endpoint, self.ask
        await super().attach()
        if endpoint.queue is not None:
            declare: Any = spec.Queue.Declare(0, endpoint.queue, passive=True)
            await ask(declare, spec.Queue.DeclareOk)
        elif endpoint.exchange:
            declare = spec.Exchange.Declare(0, endpoint.exchange, passive=True)
            await ask(declare, spec.Exchange.DeclareOk)
        await ask(spec.Confirm.Select(), spec.Confirm.SelectOk)

    @property
    def room(self) -> int:
        """The number of messages that can be sent now."""
        if self._connection.paused or self._connection.blocked or not self.has_turn:
            return 0
        return self._window - len(self._unconfirmed)

    @property
    def waits(self) -> bool:
        """Whether the broker has blocked publishing."""
        return self._connection.blocked

    def on_room(self) -> None:
        """Send waiting messages."""
        self._on_room()

    def send(self, messages: Sequence[Sent]) -> None:
        """Publish messages. Messages whose header or names are too long are refused immediately."""
        number, max_frame = self.number, self._connection.max_frame
        frames: list[Any] = []
        sent_bytes = 0
        for outgoing, delivery in messages:
            header, body = outgoing.content_header or b"", outgoing.octets
            names = outgoing.exchange, outgoing.routing_key
            try:
                frames += publish(number, *names, header, body, max_frame)
            except FrameError as error:
                self._on_outcomes([(delivery, Outcome("too-large", "", str(error), final=True))])
                continue
            self._unconfirmed.add(delivery, outgoing)
            sent_bytes += len(header) + len(body)
        self.count_sent(sent_bytes)
        self._connection.write_many(frames)

    def flush(self) -> None:
        """Do nothing: messages are sent immediately."""

    def on_content(self, content: Content) -> None:
        """Record a returned message. The broker confirms it afterwards."""
        if content.index != RETURN:
            return
        code, text, exchange, key = content.decode_returned()
        outcome = Outcome("returned", str(code), text)
        self._unconfirmed.add_returned(exchange, key, content.header, content.body, outcome)

    def on_confirm(self, tag: int, multiple: bool, accepted: bool) -> None:
        """Report the outcomes of the confirmed messages."""
        self._on_outcomes(self._unconfirmed.confirm(tag, multiple=multiple, accepted=accepted))
        self._on_room()


async def _open_connection(endpoint: Endpoint) -> BasicConnection:
    """Open a connection, and wait until the peer has opened it, too."""
    return await dial(BasicConnection(endpoint))


async def open_source(request: SourceRequest) -> BasicSource:
    """Open a consumer of a queue."""
    return await attach_link(
        request, _open_connection, lambda connection: BasicSource(request, connection)
    )


async def open_target(request: TargetRequest) -> BasicTarget:
    """Open a publisher to an exchange, or through the default exchange to a queue."""
    return await attach_link(
        request, _open_connection, lambda connection: BasicTarget(request, connection)
    )


async def depth_of(endpoint: Endpoint, queue: str, pool: ConnectionPool | None = None) -> Depth:
    """Return the number of ready messages and consumers of `queue`, at the endpoint's broker."""

    def new_channel(connection: BasicConnection) -> Channel:
        return Channel(connection, lambda _: None, 0)

    channel = await (pool or ConnectionPool()).join(endpoint, _open_connection, new_channel)

    async def declare_queue() -> Depth:
        await channel.attach()
        declare = spec.Queue.Declare(0, queue, passive=True)
        answer = await channel.ask(declare, spec.Queue.DeclareOk)
        return Depth(ready=answer.message_count, other_consumers=answer.consumer_count)

    depth = await channel.with_timeout(declare_queue)
    await channel.close(_CLOSE_TIMEOUT)
    return depth


async def positions_of(
    endpoint: Endpoint, offset: str, pool: ConnectionPool | None = None
) -> tuple[int, int] | None:
    """Return the first and last position of the messages that are read from `offset` on.

    Return None for an empty stream. With ``last``, these messages are the last chunk of the stream:
    RabbitMQ delivers it before it answers the next request. With another offset, only a few
    messages are read, and the last position is not the end of the stream.
    """
    digests = await _read_digests(endpoint, offset, pool)
    return (min(digests), max(digests)) if digests else None


async def last_message_of(
    endpoint: Endpoint, pool: ConnectionPool | None = None
) -> tuple[int, bytes] | None:
    """Return the position and the SHA-256 of a stream's last message; None for an empty stream."""
    digests = await _read_digests(endpoint, "last", pool)
    return max(digests.items()) if digests else None


async def _read_digests(
    endpoint: Endpoint, offset: str, pool: ConnectionPool | None
) -> dict[int, bytes]:
    """Read some messages of a stream from `offset` on. Return their SHA-256 digests by position."""
    digests: dict[int, bytes] = {}

    def receive(deliveries: Sequence[SourceDelivery]) -> None:
        for delivery in deliveries:
            position = position_of(delivery)
            if delivery.large is not None:
                delivery.large.discard()
            if position is not None:
                digests[position] = hashlib.sha256(delivery.raw).digest()

    with tempfile.TemporaryDirectory() as folder:
        request = SourceRequest(
            endpoint=attrs.evolve(endpoint, offset=offset),
            receive=receive,
            on_lost=lambda _: None,
            window=_MAX_PREFETCH if offset == "last" else 1,
            max_message=_MAX_PEEKED_SIZE,
            overflow=lambda: Oversized(Path(folder), 0),
            pool=pool,
        )
        source = await open_source(request)
        # Wait for the deliveries: the broker sends them before its answer to basic.qos.
        await source.with_timeout(lambda: source.ask(spec.Basic.Qos(0, 1, False), spec.Basic.QosOk))
        await source.close(_CLOSE_TIMEOUT)
    return digests
