"""A connection of AMQP 0-9-1 on asyncio with one channel: what both ends share."""

from __future__ import annotations

import asyncio
from typing import Any

from pika import spec

from amqp10msg import __version__
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
    confirmed,
    decode_method,
    method,
)
from amqp10msg.net.bridge.terms import LinkError, OnLost, Overflow
from amqp10msg.net.bridge.urls import Endpoint
from amqp10msg.net.bridge.wire import Wire

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
        self._timer = self._loop.call_later(interval / 4, self._beat, interval)

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

    async def say_goodbye(self) -> None:
        """Send what is pending, and close."""
        self.flush()  # what was settled comes before the close
        await self.ask(spec.Connection.Close(200, "", 0, 0), spec.Connection.CloseOk, channel=0)

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
