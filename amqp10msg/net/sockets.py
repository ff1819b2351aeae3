"""The asyncio protocol class of all connections: servers and clients, AMQP 1.0 and 0-9-1.

It processes received frames in short turns, so that connections in one event loop do not block each
other, and can pause reading (backpressure).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from amqp10msg.net import transport


class Socket(asyncio.Protocol):
    """One end of a connection.

    Attributes:
        engine: the AMQP 1.0 protocol engine. A subclass for 0-9-1 has no engine, and overrides
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
        """Called when the socket is connected."""

    def on_resumed(self) -> None:
        """Called when the peer reads again."""

    def turn_is_over(self) -> bool:
        """Whether to pause processing now, so that other connections get their turn."""
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
        """Process received frames, at least one, until none is left or the turn is over."""
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
        """Schedule `flush` for the next iteration of the event loop."""
        if not self._flushing:
            self._flushing = True
            self.loop.call_soon(self.flush)

    def flush(self) -> object:
        """Send the pending bytes, unless the connection is paused or closing."""
        self._flushing = False
        if not self.is_closing:
            if not self.paused:
                data = self.engine.take()
                if data:
                    self._stream.write(data)
            self.update_reading()
        return None

    def drop(self) -> None:
        """Close the socket without waiting for the peer.

        Abort if there are unsent bytes or TLS is used: a normal close would wait until the peer
        reads the bytes, or sends its TLS close_notify.
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
        """Set the connection's only timer, replacing the previous timer.

        Args:
            when: the event-loop time of the call, in seconds; None to only cancel the timer.
            call: the function to call.
            arguments: arguments of `call`.
        """
        self.cancel_timer()
        if when is not None and not self.is_closing:
            self._timer = self.loop.call_at(when, call, *arguments)

    def cancel_timer(self) -> None:
        """Cancel the timer of `call_at`."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
