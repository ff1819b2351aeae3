"""Opens links to sources and targets, and keeps the ends of a route connected."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Generic, TypeVar

import attrs

from amqp10msg.net.bridge import files
from amqp10msg.net.bridge.terms import (
    Link,
    LinkError,
    OnAddressSkipped,
    SourceDelivery,
    SourceLink,
    SourceRequest,
    TargetLink,
    TargetRequest,
)
from amqp10msg.net.bridge.urls import Endpoint
from amqp10msg.net.options import RouteOptions

#: Timeout in seconds of closing a link while the route runs.
_CLOSE_TIMEOUT = 5.0

_Link = TypeVar("_Link", bound=Link)
_T = TypeVar("_T")


async def open_source(request: SourceRequest) -> SourceLink:
    """Open a source link. It passes its deliveries to `request.receive`."""
    link: SourceLink = await open_first_reachable(
        _link_module(request.endpoint).open_source, request
    )
    return link


async def open_target(request: TargetRequest) -> TargetLink:
    """Open a target link. It passes outcomes to `request.on_outcomes`."""
    link: TargetLink = await open_first_reachable(
        _link_module(request.endpoint).open_target, request
    )
    return link


def _link_module(endpoint: Endpoint) -> Any:
    """Return the module with `open_source` and `open_target` for the endpoint."""
    if endpoint.file is not None:
        return files
    if endpoint.protocol == "0-9-1":
        from amqp10msg.net.bridge import basic  # noqa: PLC0415  (an extra)

        return basic
    from amqp10msg.net.bridge import amqp10  # noqa: PLC0415  (an extra)

    return amqp10


def warn_unverified_tls(endpoints: Iterable[Endpoint | None], log: Callable[..., None]) -> None:
    """Log a warning for each address whose TLS certificate is not verified."""
    for candidate in (
        candidate for endpoint in endpoints if endpoint is not None for candidate in endpoint.places
    ):
        if candidate.tls and not candidate.verify:
            reason = "verify=verify_none: an attacker in between can read and change all messages"
            log("certificate-not-verified", logging.WARNING, at=str(candidate), why=reason)


async def open_first_reachable(open_: Callable[[Any], Awaitable[Any]], request: Any) -> Any:
    """Call `open_` with the request for each address of its endpoint, until one can be opened.

    Passwords are removed from errors, also from the error that `request.on_lost` receives later.
    """

    def on_lost(error: LinkError) -> None:
        request.on_lost(_without_passwords(error, request.endpoint))

    async def open_candidate(candidate: Endpoint) -> Any:
        return await open_(attrs.evolve(request, endpoint=candidate, on_lost=on_lost))

    return await first_reachable(request.endpoint, open_candidate, request.on_address_skipped)


async def first_reachable(
    endpoint: Endpoint,
    attempt: Callable[[Endpoint], Awaitable[_T]],
    on_address_skipped: OnAddressSkipped | None = None,
) -> _T:
    """Return the result of `attempt` for the first address of an endpoint for which it succeeds.

    Then calls `on_address_skipped` with each earlier address and its error.

    Raises:
        LinkError: `attempt` failed for all addresses. The error has the reason of each address. It
            is permanent if the errors of all addresses are permanent.
    """
    errors: list[LinkError] = []
    for candidate in endpoint.places:
        try:
            result = await attempt(attrs.evolve(candidate, others=()))
        except LinkError as error:
            errors.append(_without_passwords(error, endpoint))
            continue
        if on_address_skipped is not None:
            for skipped, error_of_skipped in zip(endpoint.places, errors, strict=False):
                on_address_skipped(skipped, error_of_skipped)
        return result
    raise _combine_errors(endpoint, errors) from None


def connect_first_reachable(endpoint: Endpoint, connect: Callable[[Endpoint], _T]) -> _T:
    """Return the result of `connect` for the first address for which it succeeds; blocks.

    Raises:
        LinkError: all addresses failed; see `first_reachable`.
    """
    errors: list[LinkError] = []
    for candidate in endpoint.places:
        try:
            return connect(attrs.evolve(candidate, others=()))
        except LinkError as error:
            errors.append(_without_passwords(error, endpoint))
    raise _combine_errors(endpoint, errors) from None


def _combine_errors(endpoint: Endpoint, errors: list[LinkError]) -> LinkError:
    """Return one error for the errors of all addresses of an endpoint."""
    if len(errors) == 1:
        return errors[0]
    reasons = "; ".join(
        f"{candidate.host}:{candidate.port}: {error}"
        for candidate, error in zip(endpoint.places, errors, strict=True)
    )
    return LinkError(
        reasons,
        sent_by_peer=any(error.sent_by_peer for error in errors),
        permanent=all(error.permanent for error in errors),
        failed=any(error.failed for error in errors),
        missing=all(error.missing for error in errors),
    )


def _without_passwords(error: LinkError, endpoint: Endpoint) -> LinkError:
    """Return `error` with the endpoint's passwords removed."""
    for candidate in endpoint.places:
        error = error.without(candidate.password)
    return error


def backoff_delay(options: RouteOptions, tries: int) -> float:
    """Return the seconds to wait after `tries` attempts: exponential backoff with jitter."""
    longest: float = min(options.backoff * 2.0 ** min(tries, 30), options.max_backoff)
    return longest * random.uniform(0.5, 1.0)  # noqa: S311  (jitter)


class ReconnectingLink(Generic[_Link]):
    """Keeps one end of a route connected: opens a new link whenever the link is lost.

    Args:
        name: the role of the link in logs: ``source``, ``target`` or ``quarantine``.
        endpoint: the broker or file to connect to.
        options: the options of the route.
        log: logs an event with its fields.
        open_link: opens a link; raises LinkError. The link calls `lose` when it is lost.
        on_lost: called when the link is lost.
        on_open: called when a link is open.
        on_refused: called when the peer permanently refuses a link that was open before. Returns
            whether the route can go on without the link.
        report_early_loss: also call `on_lost` for a link that was lost while it was being opened.

    Attributes:
        endpoint: as above.
        link: the open link; None while no link is open.
        made_progress: whether the current link delivered or settled a message. If so, the next
            link is opened immediately; otherwise after a backoff.
        opened: set once the first link is open.
        failed_attempts: number of failed attempts to open a link.
        needs_own_connection: whether the link must not share its connection with other routes.
        opened_at: time at which the link was opened, in seconds of the event loop's clock.
        name: as above.
    """

    def __init__(
        self,
        name: str,
        endpoint: Endpoint,
        options: RouteOptions,
        log: Callable[..., None],
        *,
        open_link: Callable[[], Awaitable[_Link]],
        on_lost: Callable[[LinkError], None],
        on_open: Callable[[], object] = lambda: None,
        on_refused: Callable[[LinkError], bool] = lambda _: False,
        report_early_loss: bool = False,
    ) -> None:
        self.endpoint = endpoint
        self.link: _Link | None = None
        self.made_progress = True
        self.opened = asyncio.Event()
        self.failed_attempts = 0
        self.needs_own_connection = False
        self.opened_at = 0.0
        self.name = name
        self._options = options
        self._log = log
        self._open_link = open_link
        self._on_open, self._on_lost, self._on_refused = on_open, on_lost, on_refused
        self._report_early_loss = report_early_loss
        self._lost = asyncio.Event()  # set when `keep` must open the next link
        self._open_failure = "no answer"  # why the latest attempt to open a link failed
        self._early_error = LinkError("it was lost as soon as it was open")

    async def keep(self) -> None:
        """Keep the link open until cancelled.

        Raises:
            LinkError: a retry cannot succeed; the first link was not open within
                `RouteOptions.reach` seconds; or the route ends by itself (`RouteOptions.ends`),
                and the endpoint refused a later link for that time.
        """
        while True:
            link = await self._open()
            if not link.alive:
                if self._report_early_loss:
                    self._on_lost(self._early_error)
                continue
            self.link = link
            self.opened_at = asyncio.get_running_loop().time()
            self._on_open()
            await self._lost.wait()

    def lose(self, error: LinkError) -> None:
        """Record that the link was lost. `keep` then opens a new link."""
        if self.link is None:
            self._early_error = error  # the link was lost while it was being opened
            return
        self.link = None
        self._on_lost(error)
        self._lost.set()

    def report(self, error: LinkError, **fields: Any) -> None:
        """Log that the link was lost."""
        endpoint = str(self.endpoint)
        self._log(f"{self.name}-lost", logging.WARNING, at=endpoint, why=str(error), **fields)

    def address_skipped(self, candidate: Endpoint, error: LinkError) -> None:
        """Log that one address of the endpoint could not be used, but a later one could."""
        self.failed_attempts += 1
        event = f"{self.name}-place-unreachable"
        self._log(event, logging.WARNING, at=str(candidate), why=str(error))

    def give_up(self, *, failed: bool = False) -> None:
        """Drop the link, because the peer reported no outcome within `outcome_timeout` seconds.

        `failed` is the attribute of the LinkError with which the link is lost.
        """
        link = self.link
        if link is not None:
            link.abort()
            text = f"no outcome within {self._options.outcome_timeout:g} s"
            self.lose(LinkError(text, failed=failed))

    def use_own_connection(self) -> None:
        """Open the next link on a separate connection.

        A message of the route may have ended the shared connection.
        """
        if not self.needs_own_connection:
            self.needs_own_connection = True
            self._log(f"{self.name}-apart", logging.WARNING, at=str(self.endpoint))

    def can_rejoin(self, now: float) -> bool:
        """Whether the link was open on its own connection for `Waits.rejoin_delay` seconds.

        It may then move back to a shared connection. `now` is the time of the event loop's clock.
        """
        is_stable = now - self.opened_at >= self._options.waits.rejoin_delay
        return self.needs_own_connection and self.link is not None and is_stable

    def release(self, *, reopen: bool = True) -> _Link | None:
        """Return the open link, which the caller must close; None if no link is open.

        The next link is opened immediately, or if `reopen` is False, when `reopen()` is called.
        """
        link, self.link = self.link, None
        if link is not None and reopen:
            self._lost.set()
        return link

    def reopen(self) -> None:
        """Let `keep` open the next link, after `release(reopen=False)`."""
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
            text = f"{self.endpoint}: not reached within {reach:g} s ({self._open_failure})"
            raise LinkError(text, permanent=True) from None

    def _warn_slow(self, endpoint: str) -> None:
        """Log that the peer has not answered within `Waits.slow_connect` seconds."""
        reason = f"no answer for {self._options.waits.slow_connect:g} s"
        self._log(f"{self.name}-silent", logging.WARNING, at=endpoint, why=reason)

    async def _open_with_retries(self) -> _Link:
        """Open a link, and retry with backoff until it is open or a retry cannot succeed."""
        tries, endpoint = 0, str(self.endpoint)
        clock = asyncio.get_running_loop().time
        refused_since: float | None = None  # when the peer began to refuse the link permanently
        while True:
            if tries or not self.made_progress:
                await asyncio.sleep(backoff_delay(self._options, tries))
            tries += 1
            slow_warning = asyncio.get_running_loop().call_later(
                self._options.waits.slow_connect, self._warn_slow, endpoint
            )
            try:
                link = await self._open_link()
            except LinkError as error:
                self.failed_attempts += 1
                self.needs_own_connection = self.needs_own_connection or error.shared
                if error.permanent and not self.opened.is_set():
                    raise LinkError(f"{endpoint}: {error}", permanent=True) from None
                level, self._open_failure = logging.WARNING, str(error)
                self._log(
                    f"{self.name}-unreachable",
                    level,
                    at=endpoint,
                    why=self._open_failure,
                    tries=tries,
                )
                if not error.permanent or self._on_refused(error):
                    refused_since = None
                elif refused_since is None:
                    refused_since = clock()
                elif self._options.ends and clock() - refused_since >= (self._options.reach or 0.0):
                    text = f"{endpoint}: refused for {clock() - refused_since:.0f} s ({error})"
                    raise LinkError(text, permanent=True) from None
                continue
            finally:
                slow_warning.cancel()
            self._log(f"{self.name}-open", at=str(link.endpoint), product=link.product.strip())
            self.made_progress = False
            self.opened.set()
            self._lost.clear()
            return link


class ClosingLinks:
    """The links of a route that are being closed, while it runs."""

    def __init__(self) -> None:
        self._links: dict[asyncio.Future[None], Link] = {}

    def __bool__(self) -> bool:
        return bool(self._links)

    def close(self, link: Link) -> None:
        """Close a link in a task."""
        closing = asyncio.ensure_future(link.close(_CLOSE_TIMEOUT))
        self._links[closing] = link
        closing.add_done_callback(self._links.pop)

    def without(self, deliveries: Iterable[SourceDelivery]) -> list[SourceDelivery]:
        """Drop the deliveries of links that are closing; return the remaining deliveries.

        Deliveries of a closing link cannot be settled. The peer requeues them when the link closes.
        """
        closing = {id(link) for link in self._links.values()}
        remaining = []
        for delivery in deliveries:
            if id(delivery.link) not in closing:
                remaining.append(delivery)
            elif delivery.large is not None:
                delivery.large.discard()
        return remaining

    @property
    def tasks(self) -> list[asyncio.Future[None]]:
        """The tasks that close the links."""
        return list(self._links)
