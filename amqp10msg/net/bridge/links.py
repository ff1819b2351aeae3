"""Keeps the source, the target and the quarantine queue of a route connected.

A message that the target refuses is sent to the `QuarantineQueue` before it is settled.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

import attrs

from amqp10msg.basic import BasicProperties, FieldTable, encode_content_header
from amqp10msg.message import Message
from amqp10msg.net.bridge import files
from amqp10msg.net.bridge.terms import (
    Link,
    LinkError,
    OnPassed,
    Outcome,
    Outgoing,
    SourceDelivery,
    SourceLink,
    SourceRequest,
    TargetLink,
    TargetRequest,
)
from amqp10msg.net.bridge.urls import Endpoint
from amqp10msg.net.bridge.wire import ConnectionPool
from amqp10msg.net.options import RouteOptions
from amqp10msg.sections import Data, Header, Properties

#: The route fails after this number of consecutive connections that delivered nothing.
_MAX_DEATHS = 3
#: A connection that delivered fewer than this many windows of messages made no progress.
_MIN_WINDOWS = 4
#: After this number of connections without progress, messages are requested one at a time.
_MAX_FRUITLESS = 2
#: Outcomes of a message that is sent to a deleted queue.
_NO_QUEUE = {"returned", "released"}
#: Maximum number of messages to the quarantine queue without an outcome.
_WINDOW = 100
_CONTENT_TYPE = "application/json"
_DURABLE = 2

_Link = TypeVar("_Link", bound=Link)
_T = TypeVar("_T")
#: Called with a delivery and the outcome for which it is quarantined.
OnDecided = Callable[[SourceDelivery, Outcome], None]


async def open_source(request: SourceRequest) -> SourceLink:
    """Open a source. From then on its deliveries are passed to `request.receive`."""
    link: SourceLink = await open_first_reachable(_protocol(request.endpoint).open_source, request)
    return link


async def open_target(request: TargetRequest) -> TargetLink:
    """Open a target. Outcomes are passed to `request.on_outcomes`."""
    link: TargetLink = await open_first_reachable(_protocol(request.endpoint).open_target, request)
    return link


def _protocol(endpoint: Endpoint) -> Any:
    """Return the module with the sources and targets of the endpoint's protocol."""
    if endpoint.file is not None:
        return files
    if endpoint.protocol == "0-9-1":
        from amqp10msg.net.bridge import basic  # noqa: PLC0415  (an extra)

        return basic
    from amqp10msg.net.bridge import amqp10  # noqa: PLC0415  (an extra)

    return amqp10


def warn_unverified_tls(ends: Iterable[Endpoint | None], log: Callable[..., None]) -> None:
    """Log a warning for each address whose TLS certificate is not verified."""
    for place in (place for end in ends if end is not None for place in end.places):
        if place.tls and not place.verify:
            why = "verify=verify_none: an attacker in between can read and change all messages"
            log("certificate-not-verified", logging.WARNING, at=str(place), why=why)


async def open_first_reachable(open_: Callable[[Any], Awaitable[Any]], request: Any) -> Any:
    """Open a link at the first address of its endpoint that can be used.

    Passwords are removed from errors, also from the error that `request.on_lost` receives later.
    """

    def lost(error: LinkError) -> None:
        request.on_lost(_without(error, request.endpoint))

    async def open_at(place: Endpoint) -> Any:
        return await open_(attrs.evolve(request, endpoint=place, on_lost=lost))

    return await first_reachable(request.endpoint, open_at, request.on_passed)


async def first_reachable(
    endpoint: Endpoint, ask: Callable[[Endpoint], Awaitable[_T]], on_passed: OnPassed | None = None
) -> _T:
    """Return the result of `ask` for the first address of an endpoint for which it succeeds.

    `on_passed` is called for each earlier address.

    Raises:
        LinkError: `ask` failed for all addresses. The error has the reason of each address, and is
            permanent if it is permanent for all of them.
    """
    errors: list[LinkError] = []
    for place in endpoint.places:
        try:
            result = await ask(attrs.evolve(place, others=()))
        except LinkError as error:
            errors.append(_without(error, endpoint))
            continue
        if on_passed is not None:
            for passed, why in zip(endpoint.places, errors, strict=False):
                on_passed(passed, why)
        return result
    raise _combined(endpoint, errors) from None


def connect_first_reachable(endpoint: Endpoint, connect: Callable[[Endpoint], _T]) -> _T:
    """Connect to the first address of an endpoint for which it succeeds, without asyncio.

    Raises:
        LinkError: all addresses failed; see `first_reachable`.
    """
    errors: list[LinkError] = []
    for place in endpoint.places:
        try:
            return connect(attrs.evolve(place, others=()))
        except LinkError as error:
            errors.append(_without(error, endpoint))
    raise _combined(endpoint, errors) from None


def _combined(endpoint: Endpoint, errors: list[LinkError]) -> LinkError:
    """Combine the errors of all addresses of an endpoint."""
    if len(errors) == 1:
        return errors[0]
    reasons = "; ".join(
        f"{place.host}:{place.port}: {error}"
        for place, error in zip(endpoint.places, errors, strict=True)
    )
    return LinkError(
        reasons,
        said=any(error.said for error in errors),
        permanent=all(error.permanent for error in errors),
        failed=any(error.failed for error in errors),
        missing=all(error.missing for error in errors),
    )


def _without(error: LinkError, endpoint: Endpoint) -> LinkError:
    """Return `error` with the endpoint's passwords removed."""
    for place in endpoint.places:
        error = error.without(place.password)
    return error


def pause(options: RouteOptions, tries: int) -> float:
    """Return the seconds to wait before the next attempt: exponential backoff with jitter."""
    longest: float = min(options.backoff * 2.0 ** min(tries, 30), options.max_backoff)
    return longest * random.uniform(0.5, 1.0)  # noqa: S311  (jitter)


class ReconnectingLink(Generic[_Link]):
    """Keeps one end of a route connected: opens a new link after the present one is lost.

    Args:
        name: the name of the end in logs.
        endpoint: where to connect to.
        options: the options of the route.
        log: logs an event.
        open_: opens a link. The link calls `lose` when it is lost.
        on_lost: called when the link is lost.
        on_open: called when a link is open.
        on_refused: called when the peer permanently refuses a link that was open before. Returns
            whether the route can go on without the link.
        early: also call `on_lost` for a link that was lost right after it was opened.

    Attributes:
        endpoint: as above.
        link: the open link, or None.
        progress: whether the present link achieved something. If so, the next link is opened
            without a pause.
        opened: set once a link was open.
        failures: failed attempts to open a link.
        alone: whether the link must not share its connection with other routes.
        since: when the link was opened, in seconds of the event loop's clock.
    """

    def __init__(
        self,
        name: str,
        endpoint: Endpoint,
        options: RouteOptions,
        log: Callable[..., None],
        *,
        open_: Callable[[], Awaitable[_Link]],
        on_lost: Callable[[LinkError], None],
        on_open: Callable[[], object] = lambda: None,
        on_refused: Callable[[LinkError], bool] = lambda _: False,
        early: bool = False,
    ) -> None:
        self.endpoint = endpoint
        self.link: _Link | None = None
        self.progress = True
        self.opened = asyncio.Event()
        self.failures = 0
        self.alone = False
        self.since = 0.0
        self.name = name
        self._options = options
        self._log = log
        self._open_link = open_
        self._on_open, self._on_lost, self._on_refused = on_open, on_lost, on_refused
        self._early = early
        self._lost = asyncio.Event()
        self._why = "no answer"
        self._error = LinkError("it was lost as soon as it was open")

    async def keep(self) -> None:
        """Keep the link open until cancelled.

        Raises:
            LinkError: a retry cannot succeed; the endpoint was not reached within
                `RouteOptions.reach`; or the endpoint refused the link again for that long, and the
                route ends by itself.
        """
        while True:
            link = await self._open()
            if not link.alive:
                if self._early:
                    self._on_lost(self._error)
                continue
            self.link = link
            self.since = asyncio.get_running_loop().time()
            self._on_open()
            await self._lost.wait()

    def lose(self, error: LinkError) -> None:
        """Record that the link was lost, and open the next one."""
        if self.link is None:
            self._error = error  # lost while it was being opened
            return
        self.link = None
        self._on_lost(error)
        self._lost.set()

    def report(self, error: LinkError, **fields: Any) -> None:
        """Log that the link was lost."""
        at = str(self.endpoint)
        self._log(f"{self.name}-lost", logging.WARNING, at=at, why=str(error), **fields)

    def passed(self, place: Endpoint, error: LinkError) -> None:
        """Log that one address of the endpoint could not be used, but a later one could."""
        self.failures += 1
        event = f"{self.name}-place-unreachable"
        self._log(event, logging.WARNING, at=str(place), why=str(error))

    def give_up(self, *, failed: bool = False) -> None:
        """Drop the link, because it did not answer in time."""
        link = self.link
        if link is not None:
            link.abort()
            text = f"no outcome within {self._options.outcome_timeout:g} s"
            self.lose(LinkError(text, failed=failed))

    def release(self, *, reopen: bool = True) -> _Link | None:
        """Return the link for the caller to close; None if there is no open link.

        The next link is opened immediately, or without `reopen` once `reopen()` is called.
        """
        link, self.link = self.link, None
        if link is not None and reopen:
            self._lost.set()
        return link

    def reopen(self) -> None:
        """Open the next link, after `release(reopen=False)`."""
        self._lost.set()

    async def close(self, wait: float) -> None:
        """Close the link. Give up after `wait` seconds."""
        link, self.link = self.link, None
        if link is not None:
            await link.close(wait)

    async def _open(self) -> _Link:
        """Open a link, with retries. The returned link may have been lost already.

        Raises:
            LinkError: as for `keep`.
        """
        reach = self._options.reach
        if self.opened.is_set() or reach is None:
            return await self._open_with_retries()
        try:
            async with asyncio.timeout(reach):
                return await self._open_with_retries()
        except TimeoutError:
            text = f"{self.endpoint}: not reached within {reach:g} s ({self._why})"
            raise LinkError(text, permanent=True) from None

    def _wait_on(self, at: str) -> None:
        """Log that the peer has not answered yet."""
        why = f"no answer for {self._options.waits.slow_connect:g} s"
        self._log(f"{self.name}-silent", logging.WARNING, at=at, why=why)

    async def _open_with_retries(self) -> _Link:
        tries, at = 0, str(self.endpoint)
        clock, refused = asyncio.get_running_loop().time, None  # time of the first refusal
        while True:
            if tries or not self.progress:
                await asyncio.sleep(pause(self._options, tries))
            tries += 1
            waiting = asyncio.get_running_loop().call_later(
                self._options.waits.slow_connect, self._wait_on, at
            )
            try:
                link = await self._open_link()
            except LinkError as error:
                self.failures += 1
                self.alone = self.alone or error.shared
                if error.permanent and not self.opened.is_set():
                    raise LinkError(f"{at}: {error}", permanent=True) from None
                level, self._why = logging.WARNING, str(error)
                self._log(f"{self.name}-unreachable", level, at=at, why=self._why, tries=tries)
                if not error.permanent or self._on_refused(error):
                    refused = None
                elif refused is None:
                    refused = clock()
                elif self._options.ends and clock() - refused >= (self._options.reach or 0.0):
                    text = f"{at}: refused for {clock() - refused:.0f} s ({error})"
                    raise LinkError(text, permanent=True) from None
                continue
            finally:
                waiting.cancel()
            self._log(f"{self.name}-open", at=str(link.endpoint), product=link.product.strip())
            self.progress = False
            self.opened.set()
            self._lost.clear()
            return link


class PoisonGuard:
    """Chooses the window for a source that may end the connection because of a poison message.

    The messages of the connection are delivered again, and the poison message would end the next
    connection, too. So after two connections without progress, messages are requested one at a
    time, and each is settled before the next. This removes the messages before the poison message.
    A connection that then ends without a delivery must have ended on the next message.

    Attributes:
        careful: whether messages are requested one at a time.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self.careful = False
        self._endpoint = endpoint
        self._received = 0
        self._fruitless = 0
        self._deaths = 0

    def window(self, usual: int) -> int:
        """Return the window for the next connection; `usual` is that of the options."""
        self._received = 0
        return 1 if self.careful else usual

    def receive(self, count: int) -> None:
        """Record the delivery of `count` messages."""
        self._received += count

    def is_over(self, usual: int) -> bool:
        """Whether a whole window was delivered one at a time, so that `relax` can be called."""
        return self.careful and self._received >= usual

    def relax(self) -> None:
        """Request many messages at a time again, because no message ended the connection."""
        self.careful = False
        self._fruitless = self._deaths = 0

    def end(self, error: LinkError, usual: int) -> LinkError | None:
        """Record the end of a connection. Return the error to fail with, or None to go on.

        A connection that was cut, or whose broker shut down, did not end because of a message.
        """
        if not (error.said or error.failed):
            return None
        if not self.careful:
            self._fruitless = self._fruitless + 1 if self._received <= _MIN_WINDOWS * usual else 0
            self.careful = self._fruitless >= _MAX_FRUITLESS
            return None
        self._deaths = 0 if self._received else self._deaths + 1
        if self._deaths < _MAX_DEATHS:
            return None
        return LinkError(
            f"{self._endpoint} ended the connection {self._deaths} times in a row instead of "
            f"delivering its next message ({str(error).splitlines()[0]}). That message cannot be "
            f"read over {self._endpoint.protocol}: remove it from the queue, for example over the "
            "other protocol, and start again",
            said=True,
            permanent=True,
        )


class MissingTarget:
    """Handles a target queue or address that was deleted after the link was opened.

    Messages to it are retried like other refused messages. A route that ends by itself does so for
    the first message only: later messages are tried once, because otherwise every window would
    wait for a queue that is gone. If refused messages are requeued at the source, and so would be
    delivered again, the route fails instead.

    Attributes:
        given_up: whether the route has stopped waiting for the target to return.
    """

    def __init__(self, endpoint: Endpoint, options: RouteOptions, log: Callable[..., None]) -> None:
        self.given_up = False
        self._endpoint = endpoint
        self._options = options
        self._log = log
        self._why: str | None = None

    def begin(self, why: str) -> None:
        """Record that the target is missing; `why` is the broker's reason."""
        if self._why is None:
            text = f"up to {self._options.window} of the messages that it accepted last may be lost"
            self._log("target-queue-deleted", logging.ERROR, at=str(self._endpoint), why=text)
        self._why = why

    def end(self) -> None:
        """Record that the target exists."""
        self._why, self.given_up = None, False

    @property
    def outcome(self) -> Outcome:
        """The outcome of a message that cannot be sent while the target is missing."""
        kind = "returned" if self._endpoint.protocol == "0-9-1" else "released"
        return Outcome(kind, "", self._why or "")

    def is_final(self, outcome: Outcome) -> bool:
        """Whether a message with this outcome is not retried."""
        return outcome.final or (self.given_up and outcome.kind in _NO_QUEUE)

    def give_up(self, outcome: Outcome, *, goes_back: bool) -> LinkError | None:
        """Record that all attempts to send a message have failed, the last one with this outcome.

        Return the error that the route must fail with: one is needed if the message is requeued
        (`goes_back`), because the source would deliver it again and again. Otherwise return None.
        """
        if self._why is None or outcome.kind not in _NO_QUEUE or not self._options.ends:
            return None
        self.given_up = True
        self._log("target-given-up", logging.ERROR, at=str(self._endpoint), why=self._why)
        if not goes_back:
            return None
        text = f"{self._endpoint}: its queue was deleted, and refused messages would be requeued"
        return LinkError(f"{text} ({self._why})", permanent=True)


class QuarantineQueue(ReconnectingLink[TargetLink]):
    """Sends deliveries to a queue, each as a line in the format of the quarantine file.

    A delivery that the queue does not accept, or that may not have reached it, is written to the
    file instead, so that no delivery waits for the queue. It may then be in both.

    Args:
        endpoint: the queue.
        options: the options of the route.
        names: the names of the route, source and target for the lines.
        log: logs an event.
        kept: called with each delivery that the queue accepted.
        left: called with each delivery that must be written to the file.
        pool: the connections that can be shared.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        options: RouteOptions,
        names: dict[str, str],
        log: Callable[..., None],
        *,
        kept: OnDecided,
        left: OnDecided,
        pool: ConnectionPool,
    ) -> None:
        self.names = names
        self._on_kept, self._left = kept, left
        self._reasons: dict[SourceDelivery, Outcome] = {}
        self._waiting: deque[SourceDelivery] = deque()

        def open_() -> Awaitable[TargetLink]:
            return open_target(
                TargetRequest(
                    endpoint=endpoint,
                    on_outcomes=self._on_outcomes,
                    on_room=self._pump,
                    on_lost=self.lose,
                    window=_WINDOW,
                    on_passed=self.passed,
                    pool=pool,
                    alone=self.alone,
                )
            )

        super().__init__(
            *("quarantine", endpoint, options, log),
            open_=open_,
            on_lost=self._leave_all,
            on_refused=lambda _: True,  # deliveries go to the file meanwhile
        )

    @property
    def deliveries(self) -> list[SourceDelivery]:
        """The deliveries without an outcome."""
        return list(self._reasons)

    def __len__(self) -> int:
        return len(self._reasons)

    def add(self, delivery: SourceDelivery, outcome: Outcome) -> None:
        """Send a delivery. `kept` or `left` is called for it, now or later."""
        if self.link is None:
            self._left(delivery, outcome)
            return
        delivery.sent = asyncio.get_running_loop().time()
        self._reasons[delivery] = outcome
        self._waiting.append(delivery)
        self._pump()

    def tick(self, now: float) -> None:
        """Drop the link if the queue did not answer in time."""
        oldest = next(iter(self._reasons), None)
        if oldest is not None and now - oldest.sent > self._options.outcome_timeout:
            self.give_up()

    def _pump(self) -> None:
        while self._waiting and (link := self.link) is not None and link.room > 0:
            delivery = self._waiting.popleft()
            link.send([(self._outgoing(delivery, self._reasons[delivery]), delivery)])

    def _on_outcomes(self, outcomes: Sequence[tuple[SourceDelivery, Outcome]]) -> None:
        for delivery, outcome in outcomes:
            reason = self._reasons.pop(delivery, None)
            if reason is None:
                continue
            self.progress = True
            if outcome.kind == "accepted":
                self._on_kept(delivery, reason)
                continue
            refusal = outcome.without(self.endpoint.password)
            why = refusal.description or refusal.condition or refusal.kind
            self._log("quarantine-refused", logging.WARNING, at=str(self.endpoint), why=why)
            self._left(delivery, reason)

    def _leave_all(self, error: LinkError) -> None:
        self.report(error)
        unanswered, self._reasons = self._reasons, {}
        self._waiting.clear()
        for delivery, outcome in unanswered.items():
            self._left(delivery, outcome)

    def _outgoing(self, delivery: SourceDelivery, outcome: Outcome) -> Outgoing:
        """Return the message with the line of a delivery."""
        queue = self.endpoint
        body = files.line_of(delivery, outcome, self.names).encode()
        headers: Any = {"route": self.names["route"], "reason": outcome.kind}
        if queue.protocol == "1.0":
            message = Message(
                Data(body),
                header=Header(durable=True),
                properties=Properties(content_type=_CONTENT_TYPE),
                application_properties=headers,
            )
            return Outgoing(message.encode())
        properties = BasicProperties(
            content_type=_CONTENT_TYPE,
            delivery_mode=_DURABLE,
            headers=FieldTable.of([(name, "S", text) for name, text in headers.items()]),
        )
        header = encode_content_header(properties, len(body))
        if queue.queue is not None:
            return Outgoing(body, header, "", queue.queue)
        return Outgoing(body, header, queue.exchange or "", queue.routing_key or "")
