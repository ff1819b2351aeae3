"""The ends of a route over all their connections: when the next one is opened, and how.

`QuarantineQueue` is the third end: what the target refuses is sent there before it is settled.
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
from amqp10msg.net.bridge.wire import Lines
from amqp10msg.net.options import RouteOptions
from amqp10msg.sections import Data, Header, Properties

#: Consecutive connections that end before anything came, until the source is given up.
_DEATHS = 3
#: A source that ended before so many times the window came made no progress.
_FAR = 4
#: After so many of these it is asked for one message at a time.
_FRUITLESS = 2
#: Outcomes of what is sent to a queue that is no more.
_NOWHERE = {"returned", "released"}
#: Of the queue of a quarantine: messages without an outcome, at most.
_WINDOW = 100
_CONTENT_TYPE = "application/json"
_DURABLE = 2

_Link = TypeVar("_Link", bound=Link)
_T = TypeVar("_T")
#: Takes a delivery, and why it was not taken.
OnDecided = Callable[[SourceDelivery, Outcome], None]


async def open_source(request: SourceRequest) -> SourceLink:
    """Attach to a source, which hands over its deliveries from then on."""
    link: SourceLink = await open_at_first(_ends(request.endpoint).open_source, request)
    return link


async def open_target(request: TargetRequest) -> TargetLink:
    """Attach to a target, which tells the outcome of each message from then on."""
    link: TargetLink = await open_at_first(_ends(request.endpoint).open_target, request)
    return link


def _ends(endpoint: Endpoint) -> Any:
    """Return the module of a protocol's ends."""
    if endpoint.file is not None:
        return files
    if endpoint.protocol == "0-9-1":
        from amqp10msg.net.bridge import basic  # noqa: PLC0415  (an extra)

        return basic
    from amqp10msg.net.bridge import amqp10  # noqa: PLC0415  (an extra)

    return amqp10


def warn_of_strangers(ends: Iterable[Endpoint | None], log: Callable[..., None]) -> None:
    """Log the places whose certificates are not verified."""
    for place in (place for end in ends if end is not None for place in end.places):
        if place.tls and not place.verify:
            why = "verify=verify_none: whoever is there may read and change all"
            log("certificate-not-verified", logging.WARNING, at=str(place), why=why)


async def open_at_first(open_: Callable[[Any], Awaitable[Any]], request: Any) -> Any:
    """Open what is asked for at the first place where that succeeds.

    The passwords are removed from errors, also from that of its end.
    """

    def lost(error: LinkError) -> None:
        request.on_lost(_without(error, request.endpoint))

    async def at(place: Endpoint) -> Any:
        return await open_(attrs.evolve(request, endpoint=place, on_lost=lost))

    return await at_first(request.endpoint, at, request.on_passed)


async def at_first(
    endpoint: Endpoint, ask: Callable[[Endpoint], Awaitable[_T]], on_passed: OnPassed | None = None
) -> _T:
    """Return the answer of the first place of an end that gives one.

    Those that did not are told to `on_passed`, where a later one did. The error says why at each,
    and is permanent where it is at all of them.
    """
    errors: list[LinkError] = []
    for place in endpoint.places:
        try:
            found = await ask(attrs.evolve(place, others=()))
        except LinkError as error:
            errors.append(_without(error, endpoint))
            continue
        if on_passed is not None:
            for passed, why in zip(endpoint.places, errors, strict=False):
                on_passed(passed, why)
        return found
    raise _at_none(endpoint, errors) from None


def first_of(endpoint: Endpoint, connect: Callable[[Endpoint], _T]) -> _T:
    """Connect to the first place of an end where that succeeds, without asyncio.

    Raises:
        LinkError: it did at none; see `at_first`.
    """
    errors: list[LinkError] = []
    for place in endpoint.places:
        try:
            return connect(attrs.evolve(place, others=()))
        except LinkError as error:
            errors.append(_without(error, endpoint))
    raise _at_none(endpoint, errors) from None


def _at_none(endpoint: Endpoint, errors: list[LinkError]) -> LinkError:
    """Return the error of an end of which no place gave an answer, from that of each."""
    if len(errors) == 1:
        return errors[0]
    said = "; ".join(
        f"{place.host}:{place.port}: {error}"
        for place, error in zip(endpoint.places, errors, strict=True)
    )
    return LinkError(
        said,
        said=any(error.said for error in errors),
        permanent=all(error.permanent for error in errors),
        failed=any(error.failed for error in errors),
        missing=all(error.missing for error in errors),
    )


def _without(error: LinkError, endpoint: Endpoint) -> LinkError:
    """Return it without the passwords of an end."""
    for place in endpoint.places:
        error = error.without(place.password)
    return error


def pause(options: RouteOptions, tries: int) -> float:
    """Return seconds until another attempt: they double, and are drawn from the upper half."""
    longest: float = min(options.backoff * 2.0 ** min(tries, 30), options.max_backoff)
    return longest * random.uniform(0.5, 1.0)  # noqa: S311  (jitter)


class KeptLink(Generic[_Link]):
    """One end of a route over all its connections.

    What `open_` opens calls `lose` at its end. `on_refused` returns whether it is dealt with that
    the peer does not let it in again, so that a route that is to end goes on. With `early`, a link
    that was lost as soon as it was open counts as lost, too. `progress` says that the last
    connection brought something about, so that the next one is opened at once, `alone` that it has
    a connection of its own, and `since` when it was opened, in seconds of the loop's clock.
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
        self._error = LinkError("it was lost at once")

    async def keep(self) -> None:
        """Keep it open.

        Raises:
            LinkError: trying again is pointless; or it was not reached once in time, or refused
                for so long later on, where the route is to end.
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
        """Take note that the link ended, and open the next one."""
        if self.link is None:
            self._error = error  # while it was opened, which fails unless that was just done
            return
        self.link = None
        self._on_lost(error)
        self._lost.set()

    def report(self, error: LinkError, **fields: Any) -> None:
        """Log that it was lost."""
        at = str(self.endpoint)
        self._log(f"{self.name}-lost", logging.WARNING, at=at, why=str(error), **fields)

    def passed(self, place: Endpoint, error: LinkError) -> None:
        """Log that a place of it could not be used, though a later one can."""
        self.failures += 1
        why = {"at": str(place), "why": str(error)}
        self._log(f"{self.name}-place-unreachable", logging.WARNING, **why)

    def give_up(self, *, failed: bool = False) -> None:
        """Drop the link, which has not answered for too long."""
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
        """Close the link; give up after so many seconds."""
        link, self.link = self.link, None
        if link is not None:
            await link.close(wait)

    async def _open(self) -> _Link:
        """Open a link; again, with growing pauses, where it did not succeed.

        What is returned may be lost again before anybody looks.
        """
        reach = self._options.reach
        if self.opened.is_set() or reach is None:
            return await self._open_at_last()
        try:
            async with asyncio.timeout(reach):
                return await self._open_at_last()
        except TimeoutError:
            text = f"{self.endpoint}: not reached within {reach:g} s ({self._why})"
            raise LinkError(text, permanent=True) from None

    def _wait_on(self, at: str) -> None:
        """Log that the peer does not answer, but may still."""
        why = f"no answer for {self._options.waits.silent:g} s"
        self._log(f"{self.name}-silent", logging.WARNING, at=at, why=why)

    async def _open_at_last(self) -> _Link:
        tries, at = 0, str(self.endpoint)
        clock, refused = asyncio.get_running_loop().time, None  # since when it is refused
        while True:
            if tries or not self.progress:
                await asyncio.sleep(pause(self._options, tries))
            tries += 1
            waiting = asyncio.get_running_loop().call_later(
                self._options.waits.silent, self._wait_on, at
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


class Caution:
    """How many messages a source is asked for, which may end connections on one that it delivers.

    What was delivered on such a connection comes again, and would end the next one too. So after
    two connections that achieved nothing, messages are asked for one at a time, each settled before
    the next: that clears what precedes the cause, and a connection that ends before anything came
    then ended on the next message.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self.careful = False
        self._endpoint = endpoint
        self._received = 0
        self._fruitless = 0
        self._deaths = 0

    def window(self, usual: int) -> int:
        """Return how many messages may be unsettled on the next connection."""
        self._received = 0
        return 1 if self.careful else usual

    def receive(self, count: int) -> None:
        """Note that messages came."""
        self._received += count

    def is_over(self, usual: int) -> bool:
        """Whether enough came one at a time that the source may deliver many at once again."""
        return self.careful and self._received >= usual

    def relax(self) -> None:
        """Ask for many messages at a time again, as no message ended the connection."""
        self.careful = False
        self._fruitless = self._deaths = 0

    def end(self, error: LinkError, usual: int) -> LinkError | None:
        """Note the end of a connection; return what to stop with, None to go on.

        A cut connection, or a broker that shuts down, says nothing about a message.
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
            f"{self._endpoint} ended the connection {self._deaths} times in a row instead of "
            f"delivering its next message ({str(error).splitlines()[0]}). That message cannot be "
            f"read over {self._endpoint.protocol}: remove it from the queue, for example over the "
            "other protocol, and start again",
            said=True,
            permanent=True,
        )


class Absence:
    """That the queue or address of a target is no more, which was there when the link was opened.

    What is to be sent there is tried again, as anything that is refused. Where a route is to end,
    that is done in full for one message: others that it refuses then are tried once, or each
    window would wait as long for a queue that does not come back. Where they go back to the source
    and would come again, the route ends with an error instead.

    It is not waited for any more where it is `given_up`.
    """

    def __init__(self, endpoint: Endpoint, options: RouteOptions, log: Callable[..., None]) -> None:
        self.given_up = False
        self._endpoint = endpoint
        self._options = options
        self._log = log
        self._why: str | None = None

    def begin(self, why: str) -> None:
        """Note that it is no more, as the target says."""
        if self._why is None:
            text = f"of what it took last, up to {self._options.window} messages may be lost"
            self._log("target-queue-deleted", logging.ERROR, at=str(self._endpoint), why=text)
        self._why = why

    def end(self) -> None:
        """Note that it is there."""
        self._why, self.given_up = None, False

    @property
    def outcome(self) -> Outcome:
        """That of a message which cannot be sent as long as it is not there."""
        kind = "returned" if self._endpoint.protocol == "0-9-1" else "released"
        return Outcome(kind, "", self._why or "")

    def is_final(self, outcome: Outcome) -> bool:
        """Whether a message with an outcome is not tried again."""
        return outcome.final or (self.given_up and outcome.kind in _NOWHERE)

    def give_up(self, outcome: Outcome, *, goes_back: bool) -> LinkError | None:
        """Note that a message was tried for long enough, last with this outcome.

        It `goes_back` to the source, from where it would come again at once. What is returned is
        what the route is to stop with; None to go on.
        """
        if self._why is None or outcome.kind not in _NOWHERE or not self._options.ends:
            return None
        self.given_up = True
        self._log("target-given-up", logging.ERROR, at=str(self._endpoint), why=self._why)
        if not goes_back:
            return None
        text = (
            f"{self._endpoint}: its queue is no more, and what it refuses goes back to the source"
        )
        return LinkError(f"{text} ({self._why})", permanent=True)


class QuarantineQueue(KeptLink[TargetLink]):
    """Sends deliveries to a queue, each as the line that a file of the quarantine would have.

    What it does not take, or what may not have reached it, is for the file: so nothing waits for a
    quarantine. It may then be in both.

    What the queue has taken is told to `kept`, what is for the file to `left`.
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
        lines: Lines,
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
                    lines=lines,
                    alone=self.alone,
                )
            )

        super().__init__(
            *("quarantine", endpoint, options, log),
            open_=open_,
            on_lost=self._leave_all,
            on_refused=lambda _: True,  # what it does not take goes to the file
        )

    @property
    def deliveries(self) -> list[SourceDelivery]:
        """Those that it has not answered for."""
        return list(self._reasons)

    def __len__(self) -> int:
        return len(self._reasons)

    def add(self, delivery: SourceDelivery, outcome: Outcome) -> None:
        """Send a delivery; it is kept or left, if not at once then later."""
        if self.link is None:
            self._left(delivery, outcome)
            return
        delivery.sent = asyncio.get_running_loop().time()
        self._reasons[delivery] = outcome
        self._waiting.append(delivery)
        self._pump()

    def tick(self, now: float) -> None:
        """Give a queue up that does not answer in time."""
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
            said = outcome.without(self.endpoint.password)
            why = said.description or said.condition or said.kind
            self._log("quarantine-refused", logging.WARNING, at=str(self.endpoint), why=why)
            self._left(delivery, reason)

    def _leave_all(self, error: LinkError) -> None:
        self.report(error)
        rest, self._reasons = self._reasons, {}
        self._waiting.clear()
        for delivery, outcome in rest.items():
            self._left(delivery, outcome)

    def _outgoing(self, delivery: SourceDelivery, outcome: Outcome) -> Outgoing:
        at = self.endpoint
        body = files.line_of(delivery, outcome, self.names).encode()
        said: Any = {"route": self.names["route"], "reason": outcome.kind}
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
