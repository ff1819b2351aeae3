"""Keeps the ends of a route connected: opens, reopens and closes their links.

`LinkOpener` opens a link, with retries. `ReconnectingLink` has the open link of one end, and opens
the next one when it is lost. `ClosingLinks` has the links that were replaced.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Generic, TypeVar

from amqp10msg.net.bridge.options import RouteOptions
from amqp10msg.net.ends.terms import Link, LinkError, SourceDelivery
from amqp10msg.net.ends.urls import Endpoint

#: Timeout in seconds of closing a link while the route runs.
_CLOSE_TIMEOUT = 5.0

_Link = TypeVar("_Link", bound=Link)


def backoff_delay(options: RouteOptions, tries: int) -> float:
    """Return the seconds to wait after `tries` attempts: exponential backoff with jitter."""
    longest: float = min(options.backoff * 2.0 ** min(tries, 30), options.max_backoff)
    return longest * random.uniform(0.5, 1.0)  # noqa: S311  (jitter)


class LinkOpener(Generic[_Link]):
    """Opens the links of one end of a route, with retries and backoff.

    Args:
        name: the role of the end in logs: ``source``, ``target`` or ``quarantine``.
        endpoint: the broker or file to connect to.
        options: the options of the route.
        log: logs an event with its fields.
        open_link: opens a link; raises LinkError.
        on_refused: called when the peer permanently refuses a link after an earlier one was open.
            Returns whether the route can go on without the link.

    Attributes:
        endpoint: as above.
        opened: set once the first link is open.
        failed_attempts: number of failed attempts to open a link.
        last_failure: why the latest attempt to open a link failed.
        needs_own_connection: whether the link must not share its connection with other routes.
    """

    def __init__(
        self,
        name: str,
        endpoint: Endpoint,
        options: RouteOptions,
        log: Callable[..., None],
        open_link: Callable[[], Awaitable[_Link]],
        on_refused: Callable[[LinkError], bool],
    ) -> None:
        self.endpoint = endpoint
        self.opened = asyncio.Event()
        self.failed_attempts = 0
        self.needs_own_connection = False
        self._name = name
        self._options = options
        self._log = log
        self._open_link = open_link
        self._on_refused = on_refused
        self.last_failure = "no answer"

    def log(self, event: str, level: int = logging.WARNING, **fields: Any) -> None:
        """Log an event of this end, such as ``lost``."""
        self._log(f"{self._name}-{event}", level, **{"at": str(self.endpoint), **fields})

    def address_skipped(self, candidate: Endpoint, error: LinkError) -> None:
        """Log that one address of the endpoint could not be used, but a later one could."""
        self.failed_attempts += 1
        self.log("place-unreachable", at=str(candidate), why=str(error))

    def use_own_connection(self) -> None:
        """Open the next link on a separate connection.

        A message of the route may have ended the shared connection.
        """
        if not self.needs_own_connection:
            self.needs_own_connection = True
            self.log("apart")

    async def open(self, *, delayed: bool) -> _Link:
        """Open a link, with retries. The returned link may have been lost already.

        Args:
            delayed: whether to wait for a backoff before the first attempt.

        Raises:
            LinkError: as for `ReconnectingLink.keep`.
        """
        reach = self._options.reach
        if self.opened.is_set() or reach is None:
            return await self._open_with_retries(delayed)
        try:
            async with asyncio.timeout(reach):
                return await self._open_with_retries(delayed)
        except TimeoutError:
            text = f"{self.endpoint}: not reached within {reach:g} s ({self.last_failure})"
            raise LinkError(text, permanent=True) from None

    async def _open_with_retries(self, delayed: bool) -> _Link:
        """Open a link, and retry with backoff until it is open or a retry cannot succeed."""
        tries, loop = 0, asyncio.get_running_loop()
        refused_since: float | None = None  # when the peer began to refuse the link permanently
        while True:
            if tries or delayed:
                await asyncio.sleep(backoff_delay(self._options, tries))
            tries += 1
            slow_warning = loop.call_later(self._options.waits.slow_connect, self._warn_slow)
            try:
                link = await self._open_link()
            except LinkError as error:
                if not self._record_failure(error, tries):
                    refused_since = None
                elif refused_since is None:
                    refused_since = loop.time()
                else:
                    self._check_refusal(error, loop.time() - refused_since)
                continue
            finally:
                slow_warning.cancel()
            self.log("open", logging.INFO, at=str(link.endpoint), product=link.peer_product.strip())
            self.opened.set()
            return link

    def _warn_slow(self) -> None:
        """Log that the peer has not answered within `Waits.slow_connect` seconds."""
        self.log("silent", why=f"no answer for {self._options.waits.slow_connect:g} s")

    def _record_failure(self, error: LinkError, tries: int) -> bool:
        """Record and log a failed attempt. Return whether the route cannot go on after it.

        Raises:
            LinkError: the error is permanent, and no link was open before; or the route does not
                reconnect.
        """
        self.failed_attempts += 1
        self.needs_own_connection = self.needs_own_connection or error.shared
        if (error.permanent and not self.opened.is_set()) or not self._options.reconnect:
            raise LinkError(f"{self.endpoint}: {error}", **vars(error)) from None
        self.last_failure = str(error)
        self.log("unreachable", why=self.last_failure, tries=tries)
        return error.permanent and not self._on_refused(error)

    def _check_refusal(self, error: LinkError, seconds: float) -> None:
        """Raise LinkError if a route that ends by itself was refused a link for too long.

        `seconds` is the time since the first of consecutive refusals.
        """
        if self._options.ends and seconds >= (self._options.reach or 0.0):
            text = f"{self.endpoint}: refused for {seconds:.0f} s ({error})"
            raise LinkError(text, permanent=True) from None


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
        opener: opens the links.
        link: the open link; None while no link is open.
        made_progress: whether the current link delivered or settled a message. If so, the next
            link is opened immediately; otherwise after a backoff.
        opened_at: time at which the link was opened, in seconds of the event loop's clock.
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
        self.opener = LinkOpener(name, endpoint, options, log, open_link, on_refused)
        self.link: _Link | None = None
        self.made_progress = True
        self.opened_at = 0.0
        self._options = options
        self._on_open, self._on_lost = on_open, on_lost
        self._report_early_loss = report_early_loss
        self._lost = asyncio.Event()  # set when `keep` must open the next link
        self._early_error = LinkError("it was lost as soon as it was open")

    async def keep(self) -> None:
        """Keep the link open until cancelled.

        Raises:
            LinkError: a retry cannot succeed; the first link was not open within
                `RouteOptions.reach` seconds; or the route ends by itself (`RouteOptions.ends`),
                and the endpoint refused a later link for that time.
        """
        while True:
            link = await self.opener.open(delayed=not self.made_progress)
            self.made_progress = False
            self._lost.clear()
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
        self.opener.log("lost", why=str(error), **fields)

    def give_up(self, *, failed: bool = False) -> None:
        """Drop the link, because the peer reported no outcome within `outcome_timeout` seconds.

        `failed` is the attribute of the LinkError with which the link is lost.
        """
        link = self.link
        if link is not None:
            link.abort()
            text = f"no outcome within {self._options.outcome_timeout:g} s"
            self.lose(LinkError(text, failed=failed))

    def can_rejoin(self, now: float) -> bool:
        """Whether the link was open on its own connection for `Waits.rejoin_delay` seconds.

        It may then move back to a shared connection. `now` is the time of the event loop's clock.
        """
        is_stable = now - self.opened_at >= self._options.waits.rejoin_delay
        return self.opener.needs_own_connection and self.link is not None and is_stable

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
