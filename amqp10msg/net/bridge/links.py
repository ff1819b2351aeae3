"""The ends of a route over all their connections: when the next one is opened, and how.

`QuarantineQueue` is the third end: what the target refuses is sent there before it is settled.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import attrs

from amqp10msg.basic import BasicProperties, FieldTable, encode_content_header
from amqp10msg.message import Message
from amqp10msg.net.bridge.files import line_of, open_file_source, open_file_target
from amqp10msg.net.bridge.options import RouteOptions
from amqp10msg.net.bridge.terms import (
    Delivery,
    LinkError,
    Outcome,
    Outgoing,
    SourceLink,
    SourceRequest,
    TargetLink,
    TargetRequest,
)
from amqp10msg.net.bridge.urls import Endpoint
from amqp10msg.sections import Data, Header, Properties

#: How often a source may end without having given anything out, until it is taken at its word.
_DEATHS = 3
#: A source that ended before so many times the window came has not got on.
_FAR = 4
#: After so many of these it is asked for one message at a time.
_FRUITLESS = 2


def pause(options: RouteOptions, tries: int) -> float:
    """Return seconds until another attempt: they double, and are drawn from the upper half."""
    longest: float = min(options.backoff * 2.0 ** min(tries, 30), options.max_backoff)
    return longest * random.uniform(0.5, 1.0)  # noqa: S311  (jitter)


@attrs.define
class Side:
    """One end of a route.

    Attributes:
        name: ``source`` or ``target``.
        endpoint: where it is.
        log: takes events.
        progress: the last connection brought something about, so the next one is opened at once.
        opened: set once a connection succeeded.
        lost: set where the last one ended.
    """

    name: str
    endpoint: Endpoint
    log: Callable[..., None]
    progress: bool = True
    opened: asyncio.Event = attrs.Factory(asyncio.Event)
    lost: asyncio.Event = attrs.Factory(asyncio.Event)
    _why: str = "no answer"

    async def open(self, options: RouteOptions, open_: Callable[[], Awaitable[Any]]) -> Any:
        """Open it; again, with growing pauses, where it did not succeed.

        What is returned may be lost again before anybody looks.

        Raises:
            LinkError: trying again is pointless, or it was not reached once in time.
        """
        if self.opened.is_set() or options.reach is None:
            return await self._open(options, open_)
        try:
            async with asyncio.timeout(options.reach):
                return await self._open(options, open_)
        except TimeoutError:
            text = f"{self.endpoint}: not reached within {options.reach:g} s ({self._why})"
            raise LinkError(text, permanent=True) from None

    async def _open(self, options: RouteOptions, open_: Callable[[], Awaitable[Any]]) -> Any:
        tries = 0
        while True:
            if tries or not self.progress:
                await asyncio.sleep(pause(options, tries))
            tries += 1
            at = str(self.endpoint)
            try:
                link = await open_()
            except LinkError as error:
                if error.permanent and not self.opened.is_set():
                    raise LinkError(f"{at}: {error}", permanent=True) from None
                level, self._why = logging.WARNING, str(error)
                self.log(f"{self.name}-unreachable", level, at=at, why=self._why, tries=tries)
                continue
            self.log(f"{self.name}-open", at=at, product=link.product.strip())
            self.progress = False
            self.opened.set()
            self.lost.clear()
            return link


@attrs.define
class SourceSide(Side):
    """The source of a route, which may end connections on a message that it delivers.

    What was delivered on such a connection comes again, and would end the next one too. So after
    two connections that achieved nothing, messages are asked for one at a time, each settled before
    the next: that clears what precedes the cause, and a connection that ends before anything came
    then ended on the next message.

    Attributes:
        careful: whether it is asked for one message at a time.
    """

    careful: bool = False
    _received: int = 0
    _fruitless: int = 0
    _deaths: int = 0

    def window(self, usual: int) -> int:
        """Return how many messages may be unsettled on the next connection."""
        self._received = 0
        return 1 if self.careful else usual

    def receive(self) -> None:
        """Note that a message came."""
        self._received += 1

    def is_over_it(self, usual: int) -> bool:
        """Whether enough came one at a time that the source may deliver many at once again."""
        return self.careful and self._received >= usual

    def relax(self) -> None:
        """Ask for many messages at a time again, as no message ended the connection."""
        self.careful = False
        self._fruitless = self._deaths = 0

    def end(self, error: LinkError, usual: int) -> LinkError | None:
        """Note the end of a connection; return what to stop with, None to go on.

        Args:
            error: why it ended. A cut connection, or a broker that shuts down, says nothing about
                a message.
            usual: the window, where it is not careful.
        """
        if not (error.said or error.failed):
            return None
        if not self.careful:
            self._fruitless = self._fruitless + 1 if self._received <= _FAR * usual else 0
            self.careful = self._fruitless >= _FRUITLESS
            return None
        self._deaths = 0 if self._received else self._deaths + 1
        if self._deaths < _DEATHS:
            return None
        return LinkError(
            f"{self.endpoint} ended the connection {self._deaths} times in a row instead of "
            f"delivering its next message ({str(error).splitlines()[0]}). That message cannot be "
            f"read over {self.endpoint.protocol}: remove it from the queue, for example over the "
            "other protocol, and start again",
            said=True,
            permanent=True,
        )


_Request = TypeVar("_Request", SourceRequest, TargetRequest)


async def open_source(request: SourceRequest) -> SourceLink:
    """Attach to a source, which hands over its deliveries from then on.

    Raises:
        LinkError: it did not succeed.
        ModuleNotFoundError: the extra ``net`` is not installed.
    """
    try:
        return await _open_source(_discreet(request))
    except LinkError as error:
        raise error.without(request.endpoint.password) from None


async def _open_source(request: SourceRequest) -> SourceLink:
    if request.endpoint.file is not None:
        return await open_file_source(request)
    if request.endpoint.protocol == "0-9-1":
        from amqp10msg.net.bridge.basic import open_basic_source  # noqa: PLC0415  (an extra)

        return await open_basic_source(request)
    from amqp10msg.net.bridge.amqp10 import open_amqp10_source  # noqa: PLC0415  (an extra)

    return await open_amqp10_source(request)


async def open_target(request: TargetRequest) -> TargetLink:
    """Attach to a target, which tells the outcome of each message from then on.

    Raises:
        LinkError: it did not succeed.
        ModuleNotFoundError: the extra ``net`` is not installed.
    """
    try:
        return await _open_target(_discreet(request))
    except LinkError as error:
        raise error.without(request.endpoint.password) from None


async def _open_target(request: TargetRequest) -> TargetLink:
    if request.endpoint.file is not None:
        return await open_file_target(request)
    if request.endpoint.protocol == "0-9-1":
        from amqp10msg.net.bridge.basic import open_basic_target  # noqa: PLC0415  (an extra)

        return await open_basic_target(request)
    from amqp10msg.net.bridge.amqp10 import open_amqp10_target  # noqa: PLC0415  (an extra)

    return await open_amqp10_target(request)


def _discreet(request: _Request) -> _Request:
    """Return a request whose `on_lost` hears of no password."""

    def lost(error: LinkError) -> None:
        request.on_lost(error.without(request.endpoint.password))

    return attrs.evolve(request, on_lost=lost)


_CONTENT_TYPE = "application/json"
_DURABLE = 2
_WINDOW = 100

#: Takes a delivery, and why it was not taken.
Told = Callable[[Delivery, Outcome], None]


class Aside:
    """Sends deliveries to the queue, each as the line that a file of the quarantine would have.

    What it does not take, or what may not have reached it, is for the file: so nothing waits for a
    quarantine. It may then be in both.

    Args:
        endpoint: the queue.
        options: of the route.
        names: of the route, its source and its target, as lines have them.
        log: takes events.
        kept: is told what the queue has taken.
        left: is told what is for the file.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        options: RouteOptions,
        names: dict[str, str],
        log: Callable[..., None],
        *,
        kept: Told,
        left: Told,
    ) -> None:
        self._endpoint = endpoint
        self._options = options
        self._names = names
        self._log = log
        self._kept, self._left = kept, left
        self._side = Side("quarantine", endpoint, log)
        self._link: TargetLink | None = None
        self._reasons: dict[Delivery, Outcome] = {}
        self._waiting: deque[Delivery] = deque()

    @property
    def opened(self) -> asyncio.Event:
        """Set once it was reached."""
        return self._side.opened

    @property
    def deliveries(self) -> list[Delivery]:
        """Those that it has not answered for."""
        return list(self._reasons)

    def __len__(self) -> int:
        return len(self._reasons)

    async def keep(self) -> None:
        """Keep the queue open.

        Raises:
            LinkError: it cannot be used: wrong credentials, no such queue.
        """
        request = TargetRequest(
            endpoint=self._endpoint,
            on_outcome=self._on_outcome,
            on_room=self._pump,
            on_lost=self._lost,
            window=_WINDOW,
        )
        while True:
            link = await self._side.open(self._options, lambda: open_target(request))
            if not link.alive:
                continue
            self._link = link
            await self._side.lost.wait()

    def add(self, delivery: Delivery, outcome: Outcome) -> None:
        """Send a delivery; it is kept or left, if not at once then later."""
        if self._link is None:
            self._left(delivery, outcome)
            return
        delivery.sent = asyncio.get_running_loop().time()
        self._reasons[delivery] = outcome
        self._waiting.append(delivery)
        self._pump()

    def tick(self, now: float) -> None:
        """Give a queue up that does not answer in time."""
        oldest = next(iter(self._reasons), None)
        link = self._link
        if oldest is None or link is None or now - oldest.sent <= self._options.outcome_timeout:
            return
        link.abort()
        self._lost(LinkError(f"no outcome within {self._options.outcome_timeout:g} s"))

    async def close(self, wait: float) -> None:
        """Close it; give up after so many seconds."""
        link, self._link = self._link, None
        if link is not None:
            await link.close(wait)

    def _pump(self) -> None:
        while self._waiting and (link := self._link) is not None and link.room > 0:
            delivery = self._waiting.popleft()
            link.send(self._outgoing(delivery, self._reasons[delivery]), delivery)

    def _on_outcome(self, delivery: Delivery, outcome: Outcome) -> None:
        reason = self._reasons.pop(delivery, None)
        if reason is None:
            return
        self._side.progress = True
        if outcome.kind == "accepted":
            self._kept(delivery, reason)
            return
        outcome = outcome.without(self._endpoint.password)
        why = outcome.description or outcome.condition or outcome.kind
        self._log("quarantine-refused", logging.WARNING, at=str(self._endpoint), why=why)
        self._left(delivery, reason)

    def _lost(self, error: LinkError) -> None:
        if self._link is None:
            return  # while it was opened, which fails
        self._link = None
        level = logging.WARNING
        self._log("quarantine-lost", level, at=str(self._endpoint), why=str(error))
        rest, self._reasons = self._reasons, {}
        self._waiting.clear()
        for delivery, outcome in rest.items():
            self._left(delivery, outcome)
        self._side.lost.set()

    def _outgoing(self, delivery: Delivery, outcome: Outcome) -> Outgoing:
        at = self._endpoint
        body = line_of(delivery, outcome, self._names).encode()
        said: Any = {"route": self._names["route"], "reason": outcome.kind}
        if at.protocol == "1.0":
            message = Message(
                Data(body),
                header=Header(durable=True),
                properties=Properties(content_type=_CONTENT_TYPE),
                application_properties=said,
            )
            return Outgoing(message.encode())
        properties = BasicProperties(
            content_type=_CONTENT_TYPE,
            delivery_mode=_DURABLE,
            headers=FieldTable.of([(name, "S", text) for name, text in said.items()]),
        )
        header = encode_content_header(properties, len(body))
        if at.queue is not None:
            return Outgoing(body, header, "", at.queue)
        return Outgoing(body, header, at.exchange or "", at.routing_key or "")
