"""The asyncio protocol that servers and clients of both AMQP versions are built on.

It reads and writes in turns, so that connections of one event loop do not block each other, and
stops reading while a peer does not read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from amqp10msg.net import transport


class Socket(asyncio.Protocol):
    """One end of a connection.

    Attributes:
        engine: the protocol state of AMQP 1.0. An end of 0-9-1 has no engine, and overrides
            `flush`.
        paused: whether sending must stop, because the peer does not read.
        loop: the event loop.
    """

    engine: transport.Connection

    def __init__(self) -> None:
        self.paused = False
        self.loop = asyncio.get_running_loop()
        self._stream: Any = None
        self._timer: asyncio.TimerHandle | None = None
        self._flushing = False
        self._reading = True
        self._frames_waiting = False  # received frames wait for the next turn
        self._last_received_at = (
            self.loop.time()
        )  # time of the last received bytes, or when reading began

    # Called by asyncio.

    def connection_made(self, transport: Any) -> None:
        """Store the transport, and call `begin`."""
        self._stream = transport
        self.begin()

    def pause_writing(self) -> None:
        """Stop sending until the peer reads again."""
        self.paused = True

    def resume_writing(self) -> None:
        """Resume sending."""
        self.paused = False
        self.on_resumed()

    # Overridden by subclasses.

    def begin(self) -> None:
        """Called when the connection is made."""

    def on_resumed(self) -> None:
        """Called when the peer reads again."""

    def turn_is_over(self) -> bool:
        """Whether to interrupt processing, so that other connections have their turn."""
        raise NotImplementedError

    def go_on(self) -> None:
        """Process the waiting frames in a new turn."""
        self.process()

    def wants_input(self) -> bool:
        """Whether to read from the peer now."""
        return not self._frames_waiting

    # Reading and writing.

    @property
    def is_closing(self) -> bool:
        """Whether the connection is closing or closed."""
        return self._stream is None or bool(self._stream.is_closing())

    def process(self) -> None:
        """Process received frames, at least one, until the turn is over."""
        self._frames_waiting = False
        while self.engine.step():
            if self.turn_is_over():
                self._frames_waiting = True
                self.loop.call_soon(self.go_on)
                break
        self.update_reading()

    def update_reading(self) -> None:
        """Resume or pause reading, according to `wants_input`."""
        reading = self.wants_input()
        if reading != self._reading and not self.is_closing:
            self._reading = reading
            self._last_received_at = self.loop.time()
            (self._stream.resume_reading if reading else self._stream.pause_reading)()

    def touch(self) -> None:
        """Send the pending bytes at the end of the current event-loop iteration."""
        if not self._flushing:
            self._flushing = True
            self.loop.call_soon(self.flush)

    def flush(self) -> object:
        """Send the pending bytes, unless the peer does not read."""
        self._flushing = False
        if not self.is_closing:
            if not self.paused:
                data = self.engine.take()
                if data:
                    self._stream.write(data)
            self.update_reading()
        return None

    def drop(self) -> None:
        """Close without waiting for the peer.

        TLS would wait for its close_notify, and unsent bytes for the peer to read them.
        """
        stream = self._stream
        if stream is None:
            return
        if stream.get_write_buffer_size() or stream.get_extra_info("ssl_object") is not None:
            stream.abort()
        else:
            stream.close()

    # Time.

    def call_at(self, when: float | None, call: Callable[..., object], *arguments: Any) -> None:
        """Replace the timer of the connection; with None as `when`, only cancel it."""
        self.cancel_timer()
        if when is not None and not self.is_closing:
            self._timer = self.loop.call_at(when, call, *arguments)

    def cancel_timer(self) -> None:
        """Cancel the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
