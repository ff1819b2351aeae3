"""Client connections that several links share, for AMQP 0-9-1 and 1.0.

A `Wire` is a connection. An `AttachedLink` is a channel (0-9-1) or a session (1.0) on a `Wire`. A
`ConnectionPool` has the connections to all sources, or to all targets, of a bridge.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import re
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Any, TypeVar

import attrs

from amqp10msg.net.ends.terms import LinkError, OnLost, Request, SharedConnections
from amqp10msg.net.ends.urls import Endpoint
from amqp10msg.net.sockets import Socket
from amqp10msg.net.transport.greetings import (
    explain_protocol as explain_protocol,  # noqa: PLC0414  (the bridge imports it from here)
)

# If several addresses were tried, asyncio's error has the error number of each only in its text.
_ERRNO = re.compile(r"\[Errno (\d+)\]")
#: Number of bytes that a link may send before the other links of its connection may send.
_MAX_BYTES_PER_TURN = 1 << 18
_T = TypeVar("_T")
_W = TypeVar("_W", bound="Wire")
_L = TypeVar("_L", bound="AttachedLink")


async def in_thread(call: Callable[..., _T], *args: Any) -> _T:
    """Run a blocking call in a daemon thread, and return its result.

    The process can exit during the call. With `asyncio.to_thread`, it would wait for the call.
    """
    result: Future[_T] = Future()
    # Mark it as running: cancelling the await must not cancel `result`, which the thread sets.
    result.set_running_or_notify_cancel()

    def run() -> None:
        try:
            result.set_result(call(*args))
        except Exception as error:  # noqa: BLE001  (raised by the await below)
            result.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return await asyncio.wrap_future(result)


async def dial(wire: _W) -> _W:
    """Connect `wire`, complete the handshake, and return it.

    Raises:
        LinkError: the connection failed. The error is permanent if the certificate is not trusted,
            the TLS handshake failed, or a certificate file cannot be read.
    """
    endpoint = wire.endpoint
    context = tls_context(endpoint)
    try:
        async with asyncio.timeout(endpoint.timeout):
            name = (endpoint.server_name or endpoint.host) if endpoint.tls else None
            connected = await _connect(endpoint)
            await asyncio.get_running_loop().create_connection(
                lambda: wire, sock=connected, ssl=context, server_hostname=name
            )
            await wire.handshake()
            wire.is_open = True
            return wire
    except (asyncio.CancelledError, LinkError):
        wire.abort()
        raise
    except OSError as error:
        wire.abort()
        raise dialing_error(error, endpoint) from None


def tls_context(endpoint: Endpoint) -> ssl.SSLContext | None:
    """Return the TLS settings, or None for a connection without TLS.

    Raises:
        LinkError: a certificate file cannot be read.
    """
    try:
        return endpoint.tls_context()
    except (OSError, ssl.SSLError) as error:
        raise LinkError(str(error), permanent=True) from None


def dialing_error(error: OSError, endpoint: Endpoint) -> LinkError:
    """Convert an error of connecting to a LinkError.

    It is permanent if the TLS handshake failed, unless the peer cut the connection.
    """
    if isinstance(error, TimeoutError):
        return LinkError(_no_answer_text(endpoint))
    if isinstance(error, ssl.SSLCertVerificationError):
        text = (
            f"its certificate is not trusted: {error.verify_message}; give the trusted "
            "certificates in cacertfile=, and the certificate's name in server_name_indication="
        )
        return LinkError(text, permanent=True)
    if isinstance(error, ssl.SSLError):
        hint = "; the peer does not use TLS" if error.reason == "WRONG_VERSION_NUMBER" else ""
        cut = isinstance(error, (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError))
        return LinkError(f"TLS: {error.reason or error}{hint}", permanent=not cut)
    return LinkError(_describe_os_error(error))


async def _connect(endpoint: Endpoint) -> socket.socket:
    """Return a socket that is connected to the first reachable IP address of the host.

    The name is looked up by `in_thread`, because asyncio's lookup would delay the process's exit.

    Raises:
        OSError: the name has no address, or no address can be reached.
    """
    loop, errors = asyncio.get_running_loop(), []
    family, kind = socket.AF_UNSPEC, socket.SOCK_STREAM
    for *parameters, _, address in await in_thread(
        socket.getaddrinfo, endpoint.host, endpoint.port, family, kind
    ):
        try:
            opened = socket.socket(*parameters)
        except OSError as error:  # this machine does not support the address family
            errors.append(error)
            continue
        try:
            opened.setblocking(False)
            await loop.sock_connect(opened, address)
        except OSError as error:
            opened.close()
            errors.append(error)
        except BaseException:
            opened.close()
            raise
        else:
            return opened
    if len(errors) == 1:
        raise errors[0]
    raise OSError("; ".join(map(str, errors)))


def _describe_os_error(error: OSError) -> str:
    """Return the operating system's description of an error, without asyncio's additions."""
    numbers = {int(number) for number in _ERRNO.findall(str(error))}
    if not numbers and error.errno is not None:
        numbers = {error.errno}
    if isinstance(error, socket.gaierror) or not numbers:
        return error.strerror or str(error)
    descriptions = {os.strerror(number) for number in numbers}
    refused = numbers == {errno.ECONNREFUSED}
    return "; ".join(sorted(descriptions)) + (": nothing listens on that port" if refused else "")


def fail_future(awaited: asyncio.Future[Any] | None, error: LinkError) -> None:
    """Set the exception of a future that waits for an answer of the peer; None is ignored."""
    if awaited is not None and not awaited.done():
        awaited.set_exception(error)
        awaited.exception()  # marks it as retrieved, so that asyncio logs no warning


def _no_answer_text(endpoint: Endpoint) -> str:
    """Return the text of the error for an expired `Endpoint.timeout`."""
    return f"no answer within {endpoint.timeout:g} s"


class AttachedLink:
    """A link of a connection: a channel (0-9-1) or a session (1.0).

    Args:
        wire: the connection.
        on_lost: called once when the link is lost.

    Attributes:
        alive: whether the link is open.
        peer_product: name and version of the peer.
    """

    def __init__(self, wire: Wire, on_lost: OnLost) -> None:
        self.alive = wire.alive
        self.peer_product = wire.peer_product
        self._wire = wire
        self._on_lost = on_lost
        self._closing = False
        self._sent_in_turn = 0  # bytes
        wire.links[self] = None

    # Implemented per protocol.

    async def attach(self) -> None:
        """Open the link, and wait until the peer has opened it."""
        raise NotImplementedError

    def fail_waiters(self, error: LinkError) -> None:
        """Called when the link is lost: fail the futures that wait for an answer."""

    def send_end(self) -> None:
        """Send the end of the link, without waiting for an answer."""

    async def end_gracefully(self) -> None:
        """Send the pending messages and the end of the link, and wait for the answer."""

    def on_room(self) -> None:
        """Called when the link may be able to send messages again."""

    # Ending the link.

    def fail(self, error: LinkError) -> None:
        """End this link, but not its connection: the peer ended it or violated the protocol."""
        if self.alive:
            self.send_end()
            self.lose(error)
            self._wire.remove_link(self)

    def lose(self, error: LinkError) -> None:
        """Record that the link was lost, and call `on_lost`."""
        if self.alive:
            self.alive = False
            self.fail_waiters(error)
            if not self._closing:
                self._on_lost(error)

    def abort(self) -> None:
        """End the link without waiting. No callback is called afterwards."""
        if self.alive:
            self.alive = False
            self.send_end()
            self._wire.remove_link(self)

    async def close(self, wait: float) -> None:
        """Send the pending messages, and end the link. Give up after `wait` seconds.

        The connection is closed if it has no other link.
        """
        self._closing = True
        if not self.alive:
            return
        wire = self._wire
        try:
            with contextlib.suppress(LinkError, TimeoutError):
                async with asyncio.timeout(wait):
                    if len(wire.links) > 1:
                        await self.end_gracefully()
                    if list(wire.links) == [self]:
                        await wire.end_gracefully()
        finally:
            self.abort()

    async def with_timeout(self, request: Callable[[], Awaitable[_T]]) -> _T:
        """Return the result of `request`, which waits for the peer. On an error, end the link.

        Raises:
            LinkError: the peer did not answer within `Endpoint.timeout`, or the link was lost.
        """
        try:
            async with asyncio.timeout(self._wire.endpoint.timeout):
                if not self.alive:
                    raise LinkError("the connection was cut")
                return await request()
        except TimeoutError:
            self.abort()
            raise LinkError(_no_answer_text(self._wire.endpoint)) from None
        except BaseException:
            self.abort()
            raise

    # Turns. Links that share a connection send in turn, `_MAX_BYTES_PER_TURN` each.

    @property
    def is_sole(self) -> bool:
        """Whether the connection has no other link."""
        return len(self._wire.links) == 1

    def hold(self, pause: bool) -> bool:
        """Pause (`pause`) or resume reading from the connection.

        Return False if reading was not paused, because other links use the connection.
        """
        if pause and not self.is_sole:
            return False
        self._wire.exclusive = self._wire.exclusive or pause
        self._wire.hold(pause)
        return True

    def count_sent(self, octets: int) -> None:
        """Add to the number of bytes that the link sent in this turn."""
        self._sent_in_turn += octets

    @property
    def has_turn(self) -> bool:
        """Whether the link may send more in this turn."""
        return self._sent_in_turn < _MAX_BYTES_PER_TURN or self.is_sole

    def next_turn(self) -> bool:
        """Begin the next turn. Return whether the link sent its maximum in the last turn."""
        reached_maximum, self._sent_in_turn = self._sent_in_turn >= _MAX_BYTES_PER_TURN, 0
        return reached_maximum


class Wire(Socket):
    """A client's connection to a broker, which its links share.

    Attributes:
        endpoint: the broker to connect to.
        peer_product: name and version of the peer.
        closed: done when the connection has ended.
        is_open: whether the handshake is complete.
        links: the links of the connection, in the order in which they send.
        max_links: maximum number of links.
        exclusive: whether no further link may share the connection; True when it is being closed.
        reading_paused: whether reading is paused, to limit the bytes in memory.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__()
        self.endpoint = endpoint
        self.peer_product = ""
        self.closed: asyncio.Future[None] = self.loop.create_future()
        self.is_open = False
        self.links: dict[AttachedLink, None] = {}
        self.max_links = 1
        self.exclusive = self.reading_paused = False
        self._failed = False
        self._has_received = False
        self._turn_scheduled = False

    # Called by asyncio.

    def data_received(self, data: bytes) -> None:
        """Record the time, and pass the bytes of the peer to `receive`."""
        self._last_received_at = self.loop.time()
        self._has_received = True
        self.receive(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the connection, because the peer has closed it."""
        self.fail(
            LinkError(f"the connection was cut{f' ({exc})' if exc else ''}{self._cut_hint()}")
        )
        if not self.closed.done():
            self.closed.set_result(None)

    def _cut_hint(self) -> str:
        """Return a hint for the error of a cut connection; empty after the handshake."""
        if self.is_open:
            return ""
        if self._has_received:
            return " before it was open; does the virtual host exist?"
        return " before the peer sent anything" + (
            "" if self.endpoint.tls else "; does it use TLS?"
        )

    def wants_input(self) -> bool:
        """Whether to read from the peer now."""
        return not self.reading_paused

    def hold(self, pause: bool) -> None:
        """Pause (`pause`) or resume reading from the connection."""
        self.reading_paused = pause
        self._last_received_at = self.loop.time()
        self.update_reading()

    def on_resumed(self) -> None:
        """Resume sending: the socket can be written again."""
        self.flush()
        self.let_links_send()

    # Implemented per protocol.

    async def handshake(self) -> None:
        """Open the connection, and wait until the peer has opened it."""
        raise NotImplementedError

    def receive(self, data: bytes) -> None:
        """Parse bytes of the peer, and handle the frames in them."""
        raise NotImplementedError

    def fail_waiters(self, error: LinkError) -> None:
        """Called before the connection is dropped: fail the futures that wait for an answer."""

    async def close_gracefully(self) -> None:
        """Send the pending bytes and the protocol's close, and wait for the peer's answer."""
        raise NotImplementedError

    # Turns.

    def end_turn(self) -> None:
        """Begin the next turn of each link. Called when the bytes of the last turn are flushed."""
        if len(self.links) > 1:
            links_at_maximum = [link for link in self.links if link.next_turn()]
            if links_at_maximum and not self.paused and not self._turn_scheduled:
                self._turn_scheduled = True
                self.loop.call_soon(self.let_links_send)

    def let_links_send(self) -> None:
        """Let all links send, in an order that begins with another link each time."""
        self._turn_scheduled = False
        links = list(self.links)
        if len(links) > 1:
            del self.links[links[0]]
            self.links[links[0]] = None
        for link in links:
            if link.alive:
                link.on_room()

    # Ending the connection.

    @property
    def alive(self) -> bool:
        """Whether the connection has not ended."""
        return not self._failed

    @property
    def joinable(self) -> bool:
        """Whether another link may share the connection."""
        return not (self._failed or self.exclusive) and len(self.links) < self.max_links

    def fail(self, error: LinkError) -> None:
        """End the connection, and all of its links."""
        if self._failed:
            return
        links = list(self.links)
        if len(links) > 1:
            error = error.as_shared()
        self.fail_waiters(error)
        self.abort()
        for link in links:
            link.lose(error)

    def abort(self) -> None:
        """Drop the connection without a close. No callback is called afterwards."""
        self._failed = True
        self.links.clear()
        self.cancel_timer()
        self.drop()

    def remove_link(self, link: AttachedLink) -> None:
        """Remove a link. Drop the connection if it was the last one."""
        if self.links.pop(link, self) is None and not self.links:
            self.abort()

    async def end_gracefully(self) -> None:
        """Close the connection with `close_gracefully`, then close the socket and wait for that."""
        self.exclusive = True
        await self.close_gracefully()
        if self._stream is not None:
            self.drop()  # both peers have closed
            await asyncio.shield(self.closed)


@attrs.define
class _Dialing:
    """A connection that is being opened, and the number of callers that wait for it."""

    task: asyncio.Task[Wire]
    waiting_count: int = 0


class ConnectionPool:
    """The connections of one side of a bridge. Links to the same address share a connection."""

    def __init__(self) -> None:
        self._wires: dict[Endpoint, list[Wire]] = {}
        self._dialing: dict[Endpoint, _Dialing] = {}

    async def join(
        self,
        endpoint: Endpoint,
        open_connection: Callable[[Endpoint], Awaitable[Any]],
        make_link: Callable[[Any], _T],
        *,
        alone: bool = False,
    ) -> _T:
        """Return a new link on the connection to `endpoint`; open the connection if necessary.

        Args:
            endpoint: the address.
            open_connection: opens a connection.
            make_link: makes a link on the connection that it is called with.
            alone: whether to open a connection that no other link shares.

        Raises:
            LinkError: the connection could not be opened. All callers that wait for it get the
                error.
        """
        connection_key = attrs.evolve(
            endpoint,
            address=None,
            queue=None,
            exchange=None,
            routing_key=None,
            offset=None,
            others=(),
        )
        if alone:
            wire = await open_connection(connection_key)
            wire.exclusive = True
            return make_link(wire)
        while True:
            for wire in self._wires.get(connection_key, ()):
                if wire.joinable:
                    return make_link(wire)
            dialing = self._dialing.get(connection_key)
            if dialing is None:
                task = asyncio.ensure_future(
                    self._open_and_register(connection_key, open_connection)
                )
                dialing = self._dialing[connection_key] = _Dialing(task)
            await self._wait_until_open(connection_key, dialing)

    async def _open_and_register(
        self, endpoint: Endpoint, open_connection: Callable[[Endpoint], Awaitable[Any]]
    ) -> Wire:
        """Open a connection, and add it to the pool."""
        try:
            wire: Wire = await open_connection(endpoint)
        finally:
            dialing = self._dialing.get(endpoint)
            if dialing is not None and dialing.task is asyncio.current_task():
                del self._dialing[endpoint]
        alive = [open_wire for open_wire in self._wires.get(endpoint, ()) if open_wire.alive]
        self._wires[endpoint] = [*alive, wire]
        return wire

    async def _wait_until_open(self, endpoint: Endpoint, dialing: _Dialing) -> None:
        """Wait until the connection is open. If all callers are cancelled, stop opening it."""
        task = dialing.task
        dialing.waiting_count += 1
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            if dialing.waiting_count == 1:
                if self._dialing.get(endpoint) is dialing:
                    del self._dialing[endpoint]
                if not task.cancel() and task.exception() is None and not task.result().links:
                    task.result().abort()
            raise
        finally:
            dialing.waiting_count -= 1


async def attach_link(
    request: Request,
    open_connection: Callable[[Endpoint], Awaitable[Any]],
    make_link: Callable[[Any], _L],
) -> _L:
    """Return the requested link, once the peer has opened it. The arguments are as for `join`."""
    pool: SharedConnections = request.pool or ConnectionPool()
    link = await pool.join(request.endpoint, open_connection, make_link, alone=request.alone)
    await link.with_timeout(link.attach)
    return link


@attrs.frozen
class ConnectionPools:
    """The connections of a bridge.

    Sources and targets have separate connections: a broker may block a connection that publishes,
    and the sources must still receive. Messages are counted over separate connections, because the
    sources' connections may be stuck.
    """

    sources: ConnectionPool = attrs.Factory(ConnectionPool)
    targets: SharedConnections = attrs.Factory(ConnectionPool)
    counting: ConnectionPool = attrs.Factory(ConnectionPool)
