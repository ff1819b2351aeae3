"""Several routes in one process: started together, stopped together, one report."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable
from typing import Self

import attrs

from amqp10msg.net.bridge.options import RouteOptions
from amqp10msg.net.bridge.route import Route
from amqp10msg.net.bridge.statistics import Statistics
from amqp10msg.net.bridge.urls import Endpoint, parse_url


def _endpoint(given: str | Endpoint) -> Endpoint:
    return given if isinstance(given, Endpoint) else parse_url(given)


@attrs.frozen
class RouteSpec:
    """A route to be run.

    Attributes:
        source: where from; as a URL, see `parse_url`.
        target: where to.
        options: how.
        name: for logs, reports and metrics; source and target where empty.
    """

    source: Endpoint = attrs.field(converter=_endpoint)
    target: Endpoint = attrs.field(converter=_endpoint)
    options: RouteOptions = attrs.Factory(RouteOptions)
    name: str = ""

    def __attrs_post_init__(self) -> None:
        if not self.name:
            object.__setattr__(self, "name", f"{self.source.name} -> {self.target.name}")
        source, target = self.source, self.target
        if source.file is not None and target.file is not None:
            raise ValueError(f"{source}: one end of a route is a broker")
        if source.protocol == "0-9-1" and not source.queue and source.file is None:
            raise ValueError(f"{source}: a source of AMQP 0-9-1 is a queue: ?queue=NAME")
        if source.protocol == "1.0" and source.address is None and source.file is None:
            raise ValueError(f"{source}: a source of AMQP 1.0 has an address, after the host")
        if self.options.state is not None and not source.keeps:
            text = "a state file is for a stream, whose URL has offset=, or for a file"
            raise ValueError(f"{source}: {text}")
        if target.offset is not None:
            raise ValueError(f"{target}: offset= belongs to a source")


class Bridge:
    """Moves messages from sources to targets, and settles each when the target has it.

    Args:
        source: where from, a URL (see `parse_url`); or routes.
        target: where to, with a URL as source.
        options: how, with a URL as source.
        logger: takes events: each record has ``event`` and ``fields``.

    Raises:
        ValueError: a URL is none, or two routes have one name.
    """

    def __init__(
        self,
        source: str | Endpoint | Iterable[RouteSpec],
        target: str | Endpoint | None = None,
        options: RouteOptions | None = None,
        *,
        logger: logging.Logger | None = None,
    ) -> None:
        if isinstance(source, (str, Endpoint)):
            if target is None:
                raise ValueError("a bridge has a source and a target")
            specs = [RouteSpec(source, target, options or RouteOptions())]
        else:
            specs = list(source)
        names = [spec.name for spec in specs]
        twice = {name for name in names if names.count(name) > 1}
        if twice:
            raise ValueError(f"two routes have the name {min(twice)!r}: give them others")
        self._specs = specs
        self._logger = logger or logging.getLogger("amqp10msg.bridge")
        self._routes: list[Route] = []
        self._running: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Start the routes."""
        self._routes = [
            Route(spec.name, spec.source, spec.target, spec.options, self._logger)
            for spec in self._specs
        ]
        self._running = asyncio.ensure_future(self._run())
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Stop the routes: wait for what is in flight, give back the rest, close.

        Raises:
            LinkError: an end cannot be used: wrong credentials, no such queue.
            OSError: the quarantine, or the file of duplicates, cannot be written.
        """
        self.stop()
        if self._running is not None:
            if kind is None:
                await self._running
            else:
                with contextlib.suppress(Exception):
                    await self._running

    async def _run(self) -> None:
        # The fault of one does not end the others.
        found = await asyncio.gather(
            *(route.run() for route in self._routes), return_exceptions=True
        )
        for error in found:
            if isinstance(error, BaseException):
                raise error

    async def run(self) -> dict[str, Statistics]:
        """Return the counts by route when all have ended: stopped, idle, or enough of them.

        Raises:
            LinkError: an end cannot be used: wrong credentials, no such queue.
            OSError: the quarantine, or the file of duplicates, cannot be written.
        """
        if self._running is None:
            raise RuntimeError("a bridge runs inside of 'async with'")
        await asyncio.shield(self._running)
        return self.statistics

    def stop(self) -> None:
        """Ask all routes to end: they wait for the outcomes of what is in flight."""
        for route in self._routes:
            route.stop()

    @property
    def routes(self) -> list[Route]:
        """The routes, while it runs and after."""
        return self._routes

    @property
    def statistics(self) -> dict[str, Statistics]:
        """What each route counted, by name."""
        return {route.name: route.statistics for route in self._routes}
