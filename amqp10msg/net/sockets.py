"""The half of a connection that asyncio calls: reading and writing in turns, and waiting for peers.

Servers and clients of both protocols are built on it: each says what is to be sent, and how what
came is processed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from amqp10msg.net import transport


class Socket(asyncio.Protocol):
    """One end of a connection on asyncio.

    The engine reads and writes the frames of 1.0; an end that speaks 0-9-1 has none, and a `flush`
    of its own. While `paused`, the peer does not read, and nothing may be sent.
    """

    engine: transport.Connection

    def __init__(self) -> None:
        self.paused = False
        self.loop = asyncio.get_running_loop()
        self._stream: Any = None
        self._timer: asyncio.TimerHandle | None = None
        self._flushing = False
        self._reading = True
        self._behind = False  # frames that came wait for another turn
        self._heard = self.loop.time()  # when something came last, or reading began

    # Called by asyncio.

    def connection_made(self, transport: Any) -> None:
        """Begin to speak."""
        self._stream = transport
        self.begin()

    def pause_writing(self) -> None:
        """Stop sending until the peer reads again."""
        self.paused = True

    def resume_writing(self) -> None:
        """Resume sending."""
        self.paused = False
        self.on_resumed()

    # What a connection does.

    def begin(self) -> None:
        """Called when the connection is made."""

    def on_resumed(self) -> None:
        """Called when the peer reads again, after `paused`."""

    def turn_is_over(self) -> bool:
        """Whether others have their turn before the next frame."""
        raise NotImplementedError

    def go_on(self) -> None:
        """Process what came before, in a turn of its own."""
        self.process()

    def wants_input(self) -> bool:
        """Whether more is to be read from the peer now."""
        return not self._behind

    # Reading and writing.

    @property
    def is_closing(self) -> bool:
        """Whether nothing can be sent any more."""
        return self._stream is None or bool(self._stream.is_closing())

    def process(self) -> None:
        """Process frames that came, one at least, as many as the turn allows."""
        self._behind = False
        while self.engine.step():
            if self.turn_is_over():
                self._behind = True
                self.loop.call_soon(self.go_on)
                break
        self.read_or_not()

    def read_or_not(self) -> None:
        """Read from the peer, or stop reading."""
        wanted = self.wants_input()
        if wanted != self._reading and not self.is_closing:
            self._reading = wanted
            self._heard = self.loop.time()
            (self._stream.resume_reading if wanted else self._stream.pause_reading)()

    def touch(self) -> None:
        """Send what is pending at the end of this turn of the loop, all of it together."""
        if not self._flushing:
            self._flushing = True
            self.loop.call_soon(self.flush)

    def flush(self) -> object:
        """Send what is pending, if the peer reads."""
        self._flushing = False
        if not self.is_closing:
            if not self.paused:
                data = self.engine.take()
                if data:
                    self._stream.write(data)
            self.read_or_not()
        return None

    def drop(self) -> None:
        """Close without waiting for the peer, as TLS does, or one that does not read."""
        stream = self._stream
        if stream is None:
            return
        if stream.get_write_buffer_size() or stream.get_extra_info("ssl_object") is not None:
            stream.abort()
        else:
            stream.close()

    # Time.

    def call_at(self, when: float | None, call: Callable[..., object], *arguments: Any) -> None:
        """Set the timer of this connection, instead of the last; None for no call."""
        self.cancel_timer()
        if when is not None and not self.is_closing:
            self._timer = self.loop.call_at(when, call, *arguments)

    def cancel_timer(self) -> None:
        """Call nothing at its time."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
