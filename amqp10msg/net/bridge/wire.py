"""A client's connection, and connecting: what both protocols share."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import re
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

from amqp10msg.net.bridge.terms import LinkError, OnLost
from amqp10msg.net.bridge.urls import Endpoint
from amqp10msg.net.sockets import Socket

# Of several addresses of a name, each has its own error.
_NUMBER = re.compile(r"\[Errno (\d+)\]")


async def dial(made: Any, at: Endpoint, ready: Callable[[], Awaitable[Any]]) -> None:
    """Connect, and wait until the peer has agreed.

    Args:
        made: the protocol of asyncio; its ``abort`` is called where it did not succeed.
        at: where.
        ready: waits until the peer has agreed.

    Raises:
        LinkError: it did not succeed; for good where the certificate is not to be trusted, TLS
            cannot be agreed on, or a file of ours cannot be read.
    """
    try:
        context = at.tls_context()
    except (OSError, ssl.SSLError) as error:
        raise LinkError(str(error), permanent=True) from None
    try:
        async with asyncio.timeout(at.timeout):
            name = (at.server_name or at.host) if at.tls else None
            await asyncio.get_running_loop().create_connection(
                lambda: made, at.host, at.port, ssl=context, server_hostname=name
            )
            await ready()
            made.is_open = True
    except asyncio.CancelledError:
        made.abort()
        raise
    except TimeoutError:
        made.abort()
        raise LinkError(f"no answer within {at.timeout:g} s") from None
    except LinkError:
        made.abort()
        raise
    except ssl.SSLCertVerificationError as error:
        made.abort()
        text = (
            f"its certificate is not to be trusted: {error.verify_message}; cacertfile= names what "
            "is, server_name_indication= the name that it is for"
        )
        raise LinkError(text, permanent=True) from None
    except ssl.SSLError as error:
        made.abort()
        hint = "; it speaks no TLS" if error.reason == "WRONG_VERSION_NUMBER" else ""
        cut = isinstance(error, (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError))
        raise LinkError(f"TLS: {error.reason or error}{hint}", permanent=not cut) from None
    except OSError as error:
        made.abort()
        raise LinkError(_words_of(error)) from None


def _words_of(error: OSError) -> str:
    """Return the system's words for an error: asyncio names the call that failed."""
    numbers = {int(number) for number in _NUMBER.findall(str(error))}
    if not numbers and error.errno is not None:
        numbers = {error.errno}
    if isinstance(error, socket.gaierror) or not numbers:
        return error.strerror or str(error)
    words = {os.strerror(number) for number in numbers}
    refused = numbers == {errno.ECONNREFUSED}
    return "; ".join(sorted(words)) + (": nothing listens on that port" if refused else "")


class Wire(Socket):
    """A client's connection, from when it is made until it ends, which is said once.

    Attributes:
        endpoint: where it is.
        product: what the peer says that it is.
        closed: done once the socket is closed.
        is_open: whether the peer has agreed to all that was asked.
    """

    def __init__(self, endpoint: Endpoint, on_lost: OnLost) -> None:
        super().__init__()
        self.endpoint = endpoint
        self.product = ""
        self._on_lost: OnLost | None = on_lost
        self.closed: asyncio.Future[None] = self._loop.create_future()
        self._closing = False
        self._failed = False
        self._spoken = False
        self.is_open = False

    # Called by asyncio.

    def data_received(self, data: bytes) -> None:
        """Process bytes of the peer."""
        self._heard = self._loop.time()
        self._spoken = True
        try:
            self.receive(data)
        except OSError as error:
            self.fail(LinkError(f"a message that is too large cannot be set aside: {error}"))

    def connection_lost(self, exc: Exception | None) -> None:
        """End: the peer is gone."""
        self.fail(LinkError(f"the connection was cut{f' ({exc})' if exc else ''}{self._hint()}"))
        if not self.closed.done():
            self.closed.set_result(None)

    def _hint(self) -> str:
        """Say what a peer may mean that silently ends a connection."""
        if self.is_open:
            return ""
        if self._spoken:
            return " before it was open; is there such a virtual host?"
        return " before the peer said anything" + ("" if self.endpoint.tls else "; by TLS?")

    def on_resumed(self) -> None:
        """Resume sending."""
        self.flush()
        self.ready()

    # What a protocol does.

    def receive(self, data: bytes) -> None:
        """Process bytes of the peer."""
        raise NotImplementedError

    def ready(self) -> None:
        """Called where there may be room again."""

    def failing(self, lost: LinkError) -> None:
        """Called before the connection is dropped: tell those who wait for an answer."""

    async def close_gracefully(self) -> None:
        """Send what is pending, and close; return when the peer has closed."""
        raise NotImplementedError

    # The end.

    def fail(self, lost: LinkError) -> None:
        """End the connection, and say so once."""
        if self._failed:
            return
        self.failing(lost)
        tell, self._on_lost = self._on_lost, None
        self.abort()
        if tell is not None and not self._closing:
            tell(lost)

    @property
    def alive(self) -> bool:
        """Whether it is not lost yet."""
        return not self._failed

    def abort(self) -> None:
        """Drop the connection at once; nothing is called any more."""
        self._failed = True
        self._on_lost = None
        self.cancel_timer()
        self.drop()

    async def close(self, wait: float) -> None:
        """Send what is pending, and close; give up after this many seconds."""
        self._closing = True
        if self._failed:
            return
        with contextlib.suppress(LinkError, TimeoutError):
            async with asyncio.timeout(wait):
                await self.close_gracefully()
                if self._stream is not None:
                    self.drop()  # both have closed
                    await asyncio.shield(self.closed)
        self.abort()
