"""Connections: read and write frames for the sessions on their channels (Part 2, 2.2 to 2.4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from amqp10msg.composite import Error, read_composite
from amqp10msg.net.transport.frames import (
    AMQP_FRAME,
    AMQP_HEADER,
    HEAD,
    HEAD_SIZE,
    HEAD_WORDS,
    MIN_FRAME,
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Flow,
    Open,
    Transfer,
)
from amqp10msg.net.transport.runs import whole_transfers
from amqp10msg.net.transport.sasl import SaslEnd, SaslError
from amqp10msg.net.transport.sessions import FaultError, Handler, Session, SessionFaultError
from amqp10msg.wire.errors import FRAMING_ERROR, INVALID_FIELD, NOT_ALLOWED, DecodeError
from amqp10msg.wire.kernel import encode_value
from amqp10msg.wire.limits import Limits

#: The performatives, except begin and end, that belong to a session.
_SESSION_FRAMES = (Transfer, Disposition, Flow, Attach, Detach)
#: Limits on decoding performatives; termini with filters are less deeply nested.
_LIMITS = Limits(depth=32)
#: The first bytes of an end and of a close whose descriptor is a code.
_END_OR_CLOSE = {b"\0\x53\x17", b"\0\x53\x18"}
#: Minimum interval between the empty frames for a peer with an idle-time-out, in seconds.
_MIN_HEARTBEAT = 0.01


class ConnectionFaultError(FaultError):
    """The peer violated the protocol, so that the connection ends."""


def _check_error(performative: Detach | End | Close) -> None:
    """Raise ConnectionFaultError if the field ``error`` is not an `Error`."""
    error: Any = performative.error  # the decoder accepts a composite of any type
    if error is not None and not isinstance(error, Error):
        name = type(performative).__name__.lower()
        raise ConnectionFaultError(
            INVALID_FIELD, f"the error of a {name} must be of the type error, got {error!r:.80}"
        )


class Connection:
    """One end of a connection, from the protocol header on.

        connection = Connection(handler, Open(container_id="me"))
        connection.open()
        while True:
            socket.sendall(connection.take())
            connection.feed(socket.recv(65536))
            while connection.step():
                pass

    Args:
        handler: its methods are called with the events of the connection.
        opens: the open frame of this end. A received frame that exceeds its max-frame-size or its
            channel-max closes the connection.
        sasl: runs the SASL exchange first; None for a connection without SASL.
        run: maximum number of messages in one call of `Handler.on_transfers`.

    Attributes:
        handler: the argument `handler`.
        local: the argument `opens`.
        remote: the peer's open frame; None until it is received.
        opened: whether this end has written its open frame.
        over: whether both ends have closed, or the connection has failed. The caller must close the
            socket when `take` returns no more bytes.
        closed: whether this end has written its close frame. No frames are written after it.
        sessions: the sessions that the peer has begun, by the peer's channel.
        room: maximum size of the body of a frame to send, in bytes.
        pending: number of bytes that `take` would return, without the delayed dispositions.
        flush_by_channel: functions that write delayed dispositions, by channel. They are called
            before bytes are taken.
    """

    def __init__(
        self, handler: Handler, opens: Open, sasl: SaslEnd | None = None, *, run: int = 1
    ) -> None:
        self.handler = handler
        self.local = opens
        self.remote: Open | None = None
        self.opened = self.closed = self.over = False
        self.sessions: dict[int, Session] = {}
        self.room = MIN_FRAME - HEAD_SIZE
        self.pending = 0
        self.flush_by_channel: dict[int, Callable[[], None]] = {}
        self._own_sessions: dict[int, Session] = {}
        self._ended_channels: set[int] = set()  # channels on which the peer's session has ended
        self._frames: list[bytes] = []  # written, but not taken
        self._committed_count = 0  # number of items in `_frames` that `close` does not discard
        self._header_written = False
        self._sent_since_tick = False  # whether bytes were taken since the last `tick`
        self._last_sent_at = 0.0  # time of the last `tick` after bytes were taken
        self._sasl = sasl
        self._max_run = run
        self._sasl_bytes = b"" if sasl is None else sasl.start()  # to be sent
        self._buffer = b""  # received bytes; those before `_position` are processed
        self._position = 0
        self._chunks: list[bytes] = []  # received bytes after `_buffer`
        self._unprocessed_size = 0  # number of bytes received and not processed yet
        self._received_size = 0  # number of bytes received in total
        # The value of `_received_size` when `take` returned the open frame of this end.
        self._received_before_open: int | None = None
        self._needed_size = HEAD_SIZE  # number of unprocessed bytes that the next step needs
        self._header_received = False

    @property
    def authenticated(self) -> bool:
        """Whether SASL has succeeded, or the connection has no SASL."""
        return self._sasl is None

    # Actions of the local end.

    def open(self) -> None:
        """Write the open frame."""
        self.opened = True
        self.write(0, self.local)
        self._committed_count = len(self._frames)  # `close` must not discard the open

    def begin(self, handler: Handler | None = None) -> Session:
        """Begin a session.

        Args:
            handler: receives the events of the session; None for the handler of the connection.

        Raises:
            ValueError: all channels up to the lower channel-max of both ends are in use.
        """
        session = self._new_session()
        if session is None:
            raise ValueError("the connection has no channel left for another session")
        session.handler = handler or self.handler
        session.begin()
        return session

    def close(self, error: Error | None = None, *, discard: bool = False) -> None:
        """Write the close frame; a no-op after the first call.

        Args:
            error: the error of the close frame.
            discard: discard the frames written since `keep` or `take`.
        """
        if self.closed:
            return
        if not self.opened:
            self.open()
        if discard:
            self._discard()
        else:
            self.keep()
        self.write(0, Close(error))
        self.closed = True
        self._clear()

    def abandon(self) -> None:
        """Stop writing, without a close frame. The caller must close the socket."""
        self.closed = self.over = True
        self._clear()

    def _new_session(self) -> Session | None:
        """Return a session on a free channel; None if all channels are in use."""
        channel = len(self._own_sessions)
        while channel in self._own_sessions:
            channel -= 1
        if channel > self._channel_max:
            return None
        session = self._own_sessions[channel] = Session(self, self.handler, channel)
        return session

    @property
    def _channel_max(self) -> int:
        """The lower channel-max of both ends."""
        theirs = self.remote.channel_max if self.remote is not None else 0xFFFF
        return min(self.local.channel_max, theirs)

    def _clear(self) -> None:
        """End and remove all sessions."""
        for session in self._own_sessions.values():
            session.ended = True
            session.clear()
        self._own_sessions.clear()
        self.sessions.clear()
        self.flush_by_channel.clear()

    # Bytes.

    def greet(self) -> None:
        """Write the protocol header, once."""
        if not self._header_written:
            self._header_written = True
            self._frames.append(AMQP_HEADER)

    def write(self, channel: int, performative: Any) -> None:
        """Write a frame."""
        self.write_body(channel, encode_value(performative))

    def write_body(self, channel: int, body: bytes) -> None:
        """Write a frame with an encoded body."""
        if self.closed:
            return
        self.greet()
        self._frames.append(HEAD.pack(HEAD_SIZE + len(body), HEAD_WORDS, AMQP_FRAME, channel))
        self._frames.append(body)
        self.pending += HEAD_SIZE + len(body)

    def take(self) -> bytes:
        """Remove and return the bytes to send to the peer."""
        sasl_bytes, self._sasl_bytes = self._sasl_bytes, b""
        if self._sasl is not None:
            return sasl_bytes
        self.keep()
        octets = b"".join(self._frames)
        self._frames.clear()
        if self.opened and self._received_before_open is None:
            self._received_before_open = self._received_size
        self.pending = self._committed_count = 0
        self._sent_since_tick = self._sent_since_tick or bool(octets)
        return sasl_bytes + octets

    def keep(self) -> None:
        """Mark the written frames as committed: `close` with `discard` does not discard them."""
        for flush in self.flush_by_channel.values():
            flush()
        self.flush_by_channel.clear()
        self._committed_count = len(self._frames)

    def _discard(self) -> None:
        """Remove the frames that were written since the last `keep`."""
        del self._frames[self._committed_count :]
        self.flush_by_channel.clear()
        self.pending = sum(map(len, self._frames))

    def tick(self, now: float) -> float | None:
        """Write an empty frame if the peer's idle-time-out requires one (Part 2, 2.4.5).

        Args:
            now: the time of a monotonic clock, in seconds.

        Returns:
            When to call again, in seconds of the same clock; None if the peer has no idle-time-out.
        """
        timeout = self.remote.idle_time_out if self.remote is not None else None
        if not timeout or self.closed:
            return None
        interval = max(timeout / 2_000, _MIN_HEARTBEAT)  # half of the timeout, in seconds
        if self._sent_since_tick or self._frames:
            self._sent_since_tick = False
            self._last_sent_at = now
        elif now >= self._last_sent_at + interval:
            self.write_body(0, b"")
            self._last_sent_at = now
        return self._last_sent_at + interval

    def feed(self, data: bytes) -> None:
        """Append received bytes, which `step` processes; they are ignored if `over` is True."""
        if self.over:
            return
        if self._sasl is not None:
            data = self._authenticate(self._sasl, data)
            if self._sasl is not None:
                return
        self._chunks.append(data)
        self._unprocessed_size += len(data)
        self._received_size += len(data)

    def _authenticate(self, sasl: SaslEnd, data: bytes) -> bytes:
        """Process the received bytes that belong to SASL; return the bytes after SASL."""
        try:
            reply, remaining = sasl.receive(data)
        except SaslError as error:
            self.handler.on_refused(error)
            return b""
        self._sasl_bytes += reply
        if sasl.failed:
            self.handler.on_refused(SaslError(sasl.failed))
        elif sasl.done:
            self._sasl = None
            self.handler.on_authenticated(sasl.user)
        return remaining

    def step(self) -> bool:
        """Process the next received frame, or a run of transfers.

        Returns False if no complete frame is left, or the connection has failed.
        """
        if self._unprocessed_size < self._needed_size or self.over:
            return False
        if self._chunks:
            if unread := self._buffer[self._position :]:
                self._chunks.insert(0, unread)
            self._buffer = b"".join(self._chunks)  # a single chunk is not copied
            self._position = 0
            self._chunks.clear()
        try:
            return self._step()
        except ConnectionFaultError as fault:
            self._fail(fault.error)
        except DecodeError as error:
            self._fail(Error(error.condition, str(error)))
        return False

    def _step(self) -> bool:
        """Process the protocol header, a run of transfers or a frame; see `step`."""
        buffer, start = self._buffer, self._position
        if not self._header_received:
            self._header_received = True
            # Write the header also as an answer to an unsupported header (Part 2, 2.2).
            self.greet()
            if not buffer.startswith(AMQP_HEADER, start):
                self.closed = self.over = True
                self.handler.on_close(
                    Error(FRAMING_ERROR, "the protocol header is not that of AMQP 1.0"), fault=True
                )
                return False
            self._position += len(AMQP_HEADER)
            self._unprocessed_size -= len(AMQP_HEADER)
            return True
        if self._max_run > 1 and self._process_run():
            return True
        size, words, kind, channel = HEAD.unpack_from(buffer, start)
        if not HEAD_SIZE <= size <= self.local.max_frame_size:
            raise ConnectionFaultError(
                FRAMING_ERROR,
                f"a frame must have {HEAD_SIZE} to {self.local.max_frame_size} bytes, got {size}",
            )
        if self._unprocessed_size < size:
            self._needed_size = size
            return False
        self._needed_size = HEAD_SIZE
        self._unprocessed_size -= size
        self._position = start + size
        body = start + 4 * words
        if not start + HEAD_SIZE <= body <= start + size or kind != AMQP_FRAME:
            raise ConnectionFaultError(
                FRAMING_ERROR, f"a frame has the invalid type {kind} or data offset {words}"
            )
        if body < start + size:
            self._process_frame(channel, buffer[body : start + size])
        return True

    def _process_run(self) -> bool:
        """Process several complete messages of one link together, see `whole_transfers`.

        Returns False if that is not possible for the next frame.
        """
        start = self._position
        end, channel, handle, transfers = whole_transfers(
            self._buffer, start, self.local.max_frame_size, self._max_run
        )
        if not transfers or self.closed:
            return False
        session = self.sessions.get(channel)
        if session is None or session.ended:
            return False
        link = session.link_for_run(handle, transfers)
        if link is None:
            return False
        self._position = end
        self._unprocessed_size -= end - start
        self._needed_size = HEAD_SIZE
        session.on_run(link, transfers)
        return True

    def _process_frame(self, channel: int, body: bytes) -> None:
        """Process a frame with a non-empty body."""
        session = self.sessions.get(channel)
        ended = self.closed or (session is not None and session.ended)
        if ended and body[:3] not in _END_OR_CLOSE and body[:2] != b"\0\xa3":
            # Ignore all frames, even malformed ones, until the peer answers the end or close.
            return
        highest = self.local.channel_max
        if channel > highest and self.remote is not None:
            raise ConnectionFaultError(
                FRAMING_ERROR,
                f"a frame was sent on channel {channel}: the channel-max is {highest}",
            )
        performative, end = read_composite(body, limits=_LIMITS)
        if isinstance(performative, (Detach, End, Close)):
            _check_error(performative)
        if type(performative) is Transfer and session is not None and not ended:
            self._on_session_frame(session, performative, body[end:])
        elif isinstance(performative, Close):
            if channel and self._is_sent_before_open():
                raise ConnectionFaultError(
                    NOT_ALLOWED,
                    f"a close sent together with the open must be on channel 0, not {channel}",
                )
            self._on_close(performative)
        elif self.closed:
            pass
        elif self.remote is None:
            if not isinstance(performative, Open):
                raise ConnectionFaultError(
                    NOT_ALLOWED, "the first frame of a connection must be an open"
                )
            if channel:
                raise ConnectionFaultError(
                    NOT_ALLOWED, f"an open must be sent on channel 0, not {channel}"
                )
            self._on_open(performative)
        elif isinstance(performative, Begin):
            self._on_begin(channel, performative)
        elif isinstance(performative, (*_SESSION_FRAMES, End)):
            if (
                session is None
                and isinstance(performative, Detach)
                and channel in self._ended_channels
            ):
                return  # redundant, since the end of the session has detached all links
            if session is None:
                raise ConnectionFaultError(NOT_ALLOWED, f"channel {channel} has no session")
            if isinstance(performative, End):
                self._on_end(channel, session, performative)
            elif not session.ended:
                self._on_session_frame(session, performative, body[end:])
        else:
            name = type(performative).__name__.lower()
            raise ConnectionFaultError(NOT_ALLOWED, f"unexpected frame {name}")

    def _is_sent_before_open(self) -> bool:
        """Whether the peer sent the current frame before it could have read our open frame.

        A close may be on any channel up to our channel-max (Part 2, 2.4.3), which the peer does not
        know before.
        """
        received = self._received_before_open
        return received is None or self._received_size - self._unprocessed_size <= received

    def _on_session_frame(self, session: Session, performative: Any, payload: bytes) -> None:
        """Pass a frame to its session; end the session if the frame violates the protocol."""
        try:
            session.on_frame(performative, payload)
        except SessionFaultError as fault:
            session.handler.on_end(session, fault.error)
            session.end(fault.error)

    # Frames of the peer.

    def _on_open(self, remote: Open) -> None:
        if remote.max_frame_size < MIN_FRAME:
            raise ConnectionFaultError(
                INVALID_FIELD,
                f"max-frame-size must be at least {MIN_FRAME}, got {remote.max_frame_size}",
            )
        self.remote = remote
        self.room = min(remote.max_frame_size, self.local.max_frame_size) - HEAD_SIZE
        self.handler.on_open()

    def _on_begin(self, channel: int, begin: Begin) -> None:
        if channel in self.sessions:
            raise ConnectionFaultError(
                NOT_ALLOWED, f"a begin was sent on channel {channel}, which already has a session"
            )
        if begin.remote_channel is None:
            session = self._new_session()
        else:
            session = self._own_sessions.get(begin.remote_channel)
            if session is not None and session.remote_channel is not None:
                session = None
        if session is None:
            raise ConnectionFaultError(
                NOT_ALLOWED,
                f"no channel is free, or the remote-channel {begin.remote_channel} of a begin is "
                "not that of an unanswered begin",
            )
        self.sessions[channel] = session
        self._ended_channels.discard(channel)
        session.on_begin(channel, begin)
        session.handler.on_begin(session)

    def _on_end(self, channel: int, session: Session, end: End) -> None:
        """Remove a session that the peer has ended."""
        if not session.ended:
            session.handler.on_end(session, end.error)
            session.end()
        self.sessions.pop(channel, None)
        self._ended_channels.add(channel)
        self._own_sessions.pop(session.channel, None)
        self.flush_by_channel.pop(session.channel, None)

    def _on_close(self, close: Close) -> None:
        if not self.closed:
            self.handler.on_close(close.error, fault=False)
            self.close()
        self.over = True

    def _fail(self, error: Error) -> None:
        """Close the connection with an error, and ignore all further received bytes."""
        if not self.closed:
            self.handler.on_close(error, fault=True)
            self.close(error)
        self.over = True
