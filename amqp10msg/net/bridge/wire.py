"""A client's connection, which links share, and connecting: what both protocols have in common.

A `Wire` is the connection, a `Tied` one link of it: a channel of 0-9-1, a session of 1.0.
`Lines` are the connections of one side of a bridge, where links find the one of their place.
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

from amqp10msg.net.bridge.terms import LinkError, OnLost, Request
from amqp10msg.net.bridge.urls import Endpoint
from amqp10msg.net.sockets import Socket

# Of several addresses of a name, each has its own error.
_NUMBER = re.compile(r"\[Errno (\d+)\]")
#: Bytes that a link sends in its turn, where others share its connection.
_TURN = 1 << 18
_T = TypeVar("_T")
_W = TypeVar("_W", bound="Wire")
_L = TypeVar("_L", bound="Tied")


async def beside(call: Callable[..., _T], *args: Any) -> _T:
    """Return the result of a call that may wait for others, in a thread that ends with the process.

    Those of `asyncio.to_thread` would keep the process until they have their answer.
    """
    found: Future[_T] = Future()
    found.set_running_or_notify_cancel()  # it goes on, whoever waits

    def run() -> None:
        try:
            found.set_result(call(*args))
        except Exception as error:  # noqa: BLE001  (raised to who asked)
            found.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return await asyncio.wrap_future(found)


async def dial(made: _W) -> _W:
    """Connect, wait until the peer has agreed, and return the connection.

    Raises:
        LinkError: it did not succeed; for good where the certificate is not to be trusted, TLS
            cannot be agreed on, or a file of ours cannot be read.
    """
    at = made.endpoint
    context = trusted(at)
    try:
        async with asyncio.timeout(at.timeout):
            name = (at.server_name or at.host) if at.tls else None
            reached = await _reached(at)
            await asyncio.get_running_loop().create_connection(
                lambda: made, sock=reached, ssl=context, server_hostname=name
            )
            await made.handshake()
            made.is_open = True
            return made
    except (asyncio.CancelledError, LinkError):
        made.abort()
        raise
    except OSError as error:
        made.abort()
        raise dialing_error(error, at) from None


def trusted(at: Endpoint) -> ssl.SSLContext | None:
    """Return the settings of TLS, None where the connection has none."""
    try:
        return at.tls_context()
    except (OSError, ssl.SSLError) as error:
        raise LinkError(str(error), permanent=True) from None


def dialing_error(error: OSError, at: Endpoint) -> LinkError:
    """Return why a place was not reached; for good where TLS cannot be agreed on."""
    if isinstance(error, TimeoutError):
        return LinkError(_no_answer(at))
    if isinstance(error, ssl.SSLCertVerificationError):
        text = (
            f"its certificate is not to be trusted: {error.verify_message}; cacertfile= names what "
            "is, server_name_indication= the name that it is for"
        )
        return LinkError(text, permanent=True)
    if isinstance(error, ssl.SSLError):
        hint = "; it speaks no TLS" if error.reason == "WRONG_VERSION_NUMBER" else ""
        cut = isinstance(error, (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError))
        return LinkError(f"TLS: {error.reason or error}{hint}", permanent=not cut)
    return LinkError(_words_of(error))


async def _reached(at: Endpoint) -> socket.socket:
    """Return a socket that is connected to the first address of a host that answers.

    asyncio would look the name up in a thread that keeps the process until it has its answer.

    Raises:
        OSError: the name has no address, or none of them answers; why, at each.
    """
    loop, errors = asyncio.get_running_loop(), []
    family, kind = socket.AF_UNSPEC, socket.SOCK_STREAM
    for *how, _, address in await beside(socket.getaddrinfo, at.host, at.port, family, kind):
        try:
            made = socket.socket(*how)
        except OSError as error:  # a family that this machine has not
            errors.append(error)
            continue
        try:
            made.setblocking(False)
            await loop.sock_connect(made, address)
        except OSError as error:
            made.close()
            errors.append(error)
        except BaseException:
            made.close()
            raise
        else:
            return made
    if len(errors) == 1:
        raise errors[0]
    raise OSError("; ".join(map(str, errors)))


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


def refuse(awaited: asyncio.Future[Any] | None, lost: LinkError) -> None:
    """Tell whoever waits for an answer that none will come."""
    if awaited is not None and not awaited.done():
        awaited.set_exception(lost)
        awaited.exception()  # whoever waits for it sees it; nobody has to


def _no_answer(at: Endpoint) -> str:
    return f"no answer within {at.timeout:g} s"


class Tied:
    """A link of a connection: a session of 1.0 or a channel of 0-9-1, until it is lost or leaves.

    That it is lost is said once.
    """

    def __init__(self, wire: Wire, on_lost: OnLost) -> None:
        self.alive = wire.alive
        self.product = wire.product
        self._wire = wire
        self._on_lost = on_lost
        self._closing = False
        self._turn = 0  # bytes that were sent in it
        wire.links[self] = None

    # What a protocol does.

    async def attach(self) -> None:
        """Wait until the peer has agreed to the link."""
        raise NotImplementedError

    def failing(self, lost: LinkError) -> None:
        """Called when it is lost: tell those who wait for an answer."""

    def leave(self) -> None:
        """Tell the peer that this link ends, and wait for nothing."""

    async def goodbye(self) -> None:
        """Tell the peer so, after what is pending; return when it has answered."""

    def on_room(self) -> None:
        """Called where there may be room again."""

    # Losing it, and leaving.

    def fail(self, lost: LinkError) -> None:
        """End this link alone: the peer ended it, or is not to go on with it."""
        if self.alive:
            self.leave()
            self.lose(lost)
            self._wire.untie(self)

    def lose(self, lost: LinkError) -> None:
        """Take note that it ended."""
        if self.alive:
            self.alive = False
            self.failing(lost)
            if not self._closing:
                self._on_lost(lost)

    def abort(self) -> None:
        """Leave at once; nothing is called any more."""
        if self.alive:
            self.alive = False
            self.leave()
            self._wire.untie(self)

    async def close(self, wait: float) -> None:
        """Leave when what is pending is sent, and close what nobody needs; give up after a time."""
        self._closing = True
        if not self.alive:
            return
        wire = self._wire
        try:
            with contextlib.suppress(LinkError, TimeoutError):
                async with asyncio.timeout(wait):
                    if len(wire.links) > 1:
                        await self.goodbye()
                    if list(wire.links) == [self]:
                        await wire.goodbye()
        finally:
            self.abort()

    async def within(self, agree: Callable[[], Awaitable[_T]]) -> _T:
        """Wait until the peer has agreed to something; the link is dropped where it does not."""
        try:
            async with asyncio.timeout(self._wire.endpoint.timeout):
                if not self.alive:
                    raise LinkError("the connection was cut")
                return await agree()
        except TimeoutError:
            self.abort()
            raise LinkError(_no_answer(self._wire.endpoint)) from None
        except BaseException:
            self.abort()
            raise

    # Turns.

    @property
    def is_sole(self) -> bool:
        """Whether no other link has the connection."""
        return len(self._wire.links) == 1

    def hold(self, held: bool) -> bool:
        """Stop reading from the connection, or read on; return whether no other link has it."""
        if held and not self.is_sole:
            return False
        self._wire.exclusive = self._wire.exclusive or held
        self._wire.hold(held)
        return True

    def charge(self, octets: int) -> None:
        """Take note that so many bytes are sent."""
        self._turn += octets

    @property
    def has_turn(self) -> bool:
        """Whether it may send more, before the others had their turn."""
        return self._turn < _TURN or self.is_sole

    def next_turn(self) -> bool:
        """Begin another turn; return whether the last one was used up."""
        used, self._turn = self._turn >= _TURN, 0
        return used


class Wire(Socket):
    """A client's connection, from when it is made until it ends, which each of its links learns.

    It is open when the peer has agreed to all that was asked. Its `links` stand in the order of
    their turns, and are `most` at most; no other one is to join where it is `exclusive`, and
    nothing is read while it is `held`, as too much is here.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__()
        self.endpoint = endpoint
        self.product = ""
        self.closed: asyncio.Future[None] = self.loop.create_future()
        self.is_open = False
        self.links: dict[Tied, None] = {}
        self.most = 1
        self.exclusive = self.held = False
        self._closing = False
        self._failed = False
        self._spoken = False
        self._turning = False

    # Called by asyncio.

    def data_received(self, data: bytes) -> None:
        """Process bytes of the peer."""
        self._heard = self.loop.time()
        self._spoken = True
        self.receive(data)

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

    def wants_input(self) -> bool:
        """Whether more is to be read from the peer now."""
        return not self.held

    def hold(self, held: bool) -> None:
        """Stop reading from the connection, or read on."""
        self.held = held
        self._heard = self.loop.time()
        self.read_or_not()

    def on_resumed(self) -> None:
        """Resume sending."""
        self.flush()
        self.go_round()

    # What a protocol does.

    async def handshake(self) -> None:
        """Wait until the peer has agreed to the connection."""
        raise NotImplementedError

    def receive(self, data: bytes) -> None:
        """Process bytes of the peer."""
        raise NotImplementedError

    def failing(self, lost: LinkError) -> None:
        """Called before the connection is dropped: tell those who wait for an answer."""

    async def close_gracefully(self) -> None:
        """Send what is pending, and close; return when the peer has closed."""
        raise NotImplementedError

    # Turns.

    def end_turn(self) -> None:
        """Begin a turn of each link, after what was sent in the last one is on its way."""
        if len(self.links) > 1:
            used = [link for link in self.links if link.next_turn()]
            if used and not self.paused and not self._turning:
                self._turning = True
                self.loop.call_soon(self.go_round)

    def go_round(self) -> None:
        """Tell all links that there is room, each time another one first."""
        self._turning = False
        links = list(self.links)
        if len(links) > 1:
            del self.links[links[0]]
            self.links[links[0]] = None
        for link in links:
            if link.alive:
                link.on_room()

    # The end.

    @property
    def alive(self) -> bool:
        """Whether it is not lost yet."""
        return not self._failed

    @property
    def joinable(self) -> bool:
        """Whether another link may use it."""
        shut = self._failed or self._closing or self.exclusive
        return not shut and len(self.links) < self.most

    def fail(self, lost: LinkError) -> None:
        """End the connection, and say so once to each link."""
        if self._failed:
            return
        links = list(self.links)
        if len(links) > 1:
            lost = lost.of_several()
        self.failing(lost)
        self.abort()
        for link in links:
            link.lose(lost)

    def abort(self) -> None:
        """Drop the connection at once; nothing is called any more."""
        self._failed = True
        self.links.clear()
        self.cancel_timer()
        self.drop()

    def untie(self, link: Tied) -> None:
        """Go on without a link; drop the connection where it was the last one."""
        if self.links.pop(link, self) is None and not self.links:
            self.abort()

    async def goodbye(self) -> None:
        """Send what is pending, and close; return when both have closed."""
        self._closing = True
        await self.close_gracefully()
        if self._stream is not None:
            self.drop()  # both have closed
            await asyncio.shield(self.closed)


@attrs.define
class _Dialing:
    """A connection that is being made, and how many wait for it."""

    task: asyncio.Task[Wire]
    waiting: int = 0


class Lines:
    """The connections of one side of a bridge: links to one place find the same one."""

    def __init__(self) -> None:
        self._wires: dict[Endpoint, list[Wire]] = {}
        self._dialing: dict[Endpoint, _Dialing] = {}

    async def join(
        self,
        place: Endpoint,
        call: Callable[[Endpoint], Awaitable[Any]],
        make: Callable[[Any], _T],
        *,
        alone: bool = False,
    ) -> _T:
        """Return a link on the connection to a place, which is made where there is none.

        With `alone`, it has one of its own. Where making it did not succeed, all who wait for it
        learn so.
        """
        at = attrs.evolve(
            place, address=None, queue=None, exchange=None, routing_key=None, offset=None, others=()
        )
        if alone:
            wire = await call(at)
            wire.exclusive = True
            return make(wire)
        while True:
            for wire in self._wires.get(at, ()):
                if wire.joinable:
                    return make(wire)
            dialing = self._dialing.get(at)
            if dialing is None:
                task = asyncio.ensure_future(self._call(at, call))
                dialing = self._dialing[at] = _Dialing(task)
            await self._wait(at, dialing)

    async def _call(self, at: Endpoint, call: Callable[[Endpoint], Awaitable[Any]]) -> Wire:
        try:
            wire: Wire = await call(at)
        finally:
            dialing = self._dialing.get(at)
            if dialing is not None and dialing.task is asyncio.current_task():
                del self._dialing[at]
        alive = [one for one in self._wires.get(at, ()) if one.alive]
        self._wires[at] = [*alive, wire]
        return wire

    async def _wait(self, at: Endpoint, dialing: _Dialing) -> None:
        """Wait for a connection; one that nobody waits for any more is not made."""
        task = dialing.task
        dialing.waiting += 1
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            if dialing.waiting == 1:
                if self._dialing.get(at) is dialing:
                    del self._dialing[at]
                if not task.cancel() and task.exception() is None and not task.result().links:
                    task.result().abort()
            raise
        finally:
            dialing.waiting -= 1


async def attached(
    request: Request, call: Callable[[Endpoint], Awaitable[Any]], make: Callable[[Any], _L]
) -> _L:
    """Return the link that is asked for, once the peer has agreed to it."""
    lines = request.lines or Lines()
    made = await lines.join(request.endpoint, call, make, alone=request.alone)
    await made.within(made.attach)
    return made


@attrs.frozen
class Sides:
    """The connections of a bridge: a broker that blocks who publishes goes on delivering.

    Sources are asked by those for `counting` what they have, as the first ones may be stuck.
    """

    sources: Lines = attrs.Factory(Lines)
    targets: Lines = attrs.Factory(Lines)
    counting: Lines = attrs.Factory(Lines)
