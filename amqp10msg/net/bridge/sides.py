"""The ends of a route over all their connections: when the next one is opened, and how."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Any

import attrs

from amqp10msg.net.bridge.options import RouteOptions
from amqp10msg.net.bridge.terms import LinkError
from amqp10msg.net.bridge.urls import Endpoint

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
