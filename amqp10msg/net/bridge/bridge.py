"""Starts, reloads and stops the routes of a bridge together."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable, Mapping
from typing import Self

import attrs

from amqp10msg.net.bridge.context import log_event
from amqp10msg.net.bridge.options import RouteOptions
from amqp10msg.net.bridge.records import rename_route
from amqp10msg.net.bridge.route import Route
from amqp10msg.net.bridge.routes import RouteSpec, routes_by_name
from amqp10msg.net.bridge.statistics import Statistics
from amqp10msg.net.ends.urls import Endpoint
from amqp10msg.net.ends.wire import ConnectionPools

#: Maximum number of removed routes whose statistics are kept under their own names.
_MAX_REMOVED_ROUTES = 100
#: The key of the summed statistics of all routes that were removed earlier.
_OLDER_ROUTES = "…"


@attrs.frozen
class Changes:
    """The names of the routes that `Bridge.reload` starts, replaces, stops and keeps.

    Attributes:
        started: new routes, and failed routes that start again.
        replaced: routes whose specification has changed. The new version of a route starts after
            the old version has drained and ended.
        stopped: routes that are not in the new list. They drain and end.
        kept: unchanged routes.
    """

    started: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
    stopped: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()


@attrs.frozen(eq=False)
class Successor:
    """A route that starts when the route that it replaces has ended.

    Attributes:
        route: the route, which was not started yet.
        old_name: the name of the replaced route: another one if the route was only renamed.
    """

    route: Route
    old_name: str


class History:
    """The statistics of routes that `Bridge.reload` has replaced or removed.

    Attributes:
        removed_counts: the sum of the statistics of the routes that were removed long ago: reloads
            must not grow the memory. None if there are none.
        fault: the first error of such a route; None if there is none.
    """

    def __init__(self) -> None:
        self.removed_counts: Statistics | None = None
        self.fault: BaseException | None = None
        # The summed statistics of earlier versions of each route.
        self._earlier_counts: dict[str, Statistics] = {}

    def total(self, name: str, counts: Statistics) -> Statistics:
        """Return `counts` of the route `name`, including those of its earlier versions."""
        earlier_counts = self._earlier_counts.get(name)
        return counts if earlier_counts is None else counts.after(earlier_counts)

    def replace(self, name: str, counts: Statistics) -> None:
        """Add the statistics of a version of the route `name` that is replaced."""
        self._earlier_counts[name] = self.total(name, counts)

    def remove(self, name: str, counts: Statistics, error: BaseException | None) -> None:
        """Add the statistics and the error of a removed route to those of all removed routes."""
        total = self.total(name, counts)
        self._earlier_counts.pop(name, None)
        self.removed_counts = (
            total if self.removed_counts is None else total.after(self.removed_counts)
        )
        self.fault = self.fault or error


class Bridge:
    """Moves messages from sources to targets.

    A message is settled at its source after the target has accepted it.

    Args:
        source: the URL of a source (see `parse_url`), or the specifications of several routes.
        target: the URL of the target, if `source` is a URL.
        options: the options of the route, if `source` is a URL.
        logger: receives events: log records with the attributes ``event`` and ``fields``.

    Raises:
        ValueError: a URL is invalid, or two routes have the same name.
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
                raise ValueError("target is missing: a bridge needs a source and a target")
            specs = [RouteSpec(source, target, options or RouteOptions())]
        else:
            specs = list(source)
        self._specs = routes_by_name(specs)
        self._logger = logger or logging.getLogger("amqp10msg.bridge")
        self._pools = ConnectionPools()
        self._routes: dict[str, Route] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._history = History()
        # The names of the routes of the latest `reload`; other routes are ending or have ended.
        self._current_names = set(self._specs)
        self._successors: dict[str, Successor] = {}
        self._stopping = False
        self._replacing: set[asyncio.Task[None]] = set()  # the running calls of `_replace`
        self._running: asyncio.Task[None] | None = None  # ends with all routes

    async def __aenter__(self) -> Self:
        """Start the routes."""
        self._changed = asyncio.Event()  # set when `_tasks` or `_replacing` has a new task
        # Create all before starting any: a specification may be invalid.
        routes = [self._new_route(spec) for spec in self._specs.values()]
        for route in routes:
            self._start(route)
        self._running = asyncio.ensure_future(self._run())
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Stop the routes: wait for outcomes, release the unsent messages, close the connections.

        Raises:
            LinkError: a source or target cannot be used: wrong credentials, no such queue.
            OSError: the quarantine or the deduplication file cannot be written.
        """
        self.stop()
        if self._running is not None:
            if kind is None:
                await self._running
            else:
                with contextlib.suppress(Exception):
                    await self._running

    def _new_route(self, spec: RouteSpec) -> Route:
        """Return a route for a specification, without starting it."""
        endpoints = spec.source, spec.target
        return Route(spec.name, *endpoints, spec.options, self._logger, self._pools)

    def _start(self, route: Route) -> None:
        """Start a route as a task."""
        self._routes[route.name] = route
        self._tasks[route.name] = asyncio.ensure_future(route.run())
        self._changed.set()

    async def _run(self) -> None:
        """Wait until all routes have ended. Then raise the error of a failed route."""
        while pending := {*(t for t in self._tasks.values() if not t.done()), *self._replacing}:
            self._changed.clear()
            changed = asyncio.ensure_future(self._changed.wait())
            await asyncio.wait([*pending, changed], return_when=asyncio.FIRST_COMPLETED)
            changed.cancel()
        for task in [*self._tasks.values()]:
            if (error := task.exception()) is not None:
                raise error
        if self._history.fault is not None:
            raise self._history.fault

    async def run(self) -> dict[str, Statistics]:
        """Wait until all routes have ended, and return their statistics by name.

        Raises:
            LinkError: a source or target cannot be used: wrong credentials, no such queue.
            OSError: the quarantine or the deduplication file cannot be written.
            RuntimeError: the bridge was not entered with ``async with``.
        """
        if self._running is None:
            raise RuntimeError("the bridge was not started: enter it with 'async with'")
        await asyncio.shield(self._running)
        return self.statistics

    def stop(self) -> None:
        """Stop all routes. They end after the outcomes of the messages in flight have arrived."""
        self._stopping = True
        for route in self._routes.values():
            route.stop()

    def reload(self, specs: Iterable[RouteSpec]) -> Changes:
        """Replace the routes by the routes of `specs`, matched by name. Does not wait.

        An unchanged route continues, or stays ended; a failed route starts again. The old version
        of a changed route drains before the new version starts. A route that was only renamed keeps
        its position in the state file and its message-ids in the deduplication file.

        Raises:
            ValueError: two routes have the same name, or a route is invalid; no route is changed.
            RuntimeError: the bridge is not running.
        """
        if self._running is None or self._running.done() or self._stopping:
            raise RuntimeError("the bridge is not running: routes cannot be replaced")
        new_specs = routes_by_name(specs)
        new_routes = {name: self._new_route(spec) for name, spec in new_specs.items()}
        stopped = [name for name in self._specs if name in self._current_names - new_specs.keys()]
        started, replaced, unchanged = [], [], []
        for name, spec in new_specs.items():
            failed = name in self._routes and self._routes[name].statistics.failed
            if name not in self._current_names or (failed and name not in self._successors):
                started.append(name)
            elif spec != self._specs[name]:
                replaced.append(name)
            else:
                unchanged.append(name)
        self._current_names = set(new_specs)
        for name in stopped:
            self._successors.pop(name, None)
            if (predecessor := self._routes.get(name)) is not None:
                predecessor.stop()
        old_names = self._find_renamed(started, stopped, new_specs)
        for name in [*started, *replaced]:
            self._specs[name] = new_specs[name]
            # A route that was renamed by an earlier call may not have started yet.
            waiting = self._successors.get(name)
            old_name = old_names.get(name, waiting.old_name if waiting else name)
            self._successors[name] = Successor(new_routes[name], old_name)
            if (predecessor := self._routes.get(name)) is not None:
                predecessor.stop()
            task = asyncio.ensure_future(self._replace(name))
            self._replacing.add(task)
            task.add_done_callback(self._replacing.discard)
        self._merge_old_statistics()
        self._changed.set()
        return Changes(*map(tuple, (started, replaced, stopped, unchanged)))

    def _find_renamed(
        self, started: list[str], stopped: list[str], new_specs: Mapping[str, RouteSpec]
    ) -> dict[str, str]:
        """Return the old names of routes that were only renamed, by new name."""
        old_names: dict[str, str] = {}
        for name in started:
            for old in stopped:
                same = attrs.evolve(new_specs[name], name=old) == self._specs[old]
                if same and old in self._routes and old not in old_names.values():
                    old_names[name] = old
                    break
        return old_names

    def _merge_old_statistics(self) -> None:
        """Keep the latest removed routes, and only the sum of the statistics of earlier ones."""
        removed = [name for name in self._routes if name not in self._current_names]
        ended = [
            name for name in removed if self._tasks[name].done() and name not in self._successors
        ]
        for name in ended[: max(len(removed) - _MAX_REMOVED_ROUTES, 0)]:
            counts, error = self._routes[name].statistics, self._tasks.pop(name).exception()
            self._history.remove(name, counts, error)
            del self._routes[name], self._specs[name]

    async def _replace(self, name: str) -> None:
        """Wait until the old version of the route `name` has ended, and start its successor.

        If the route was renamed, rename it in its files before.
        """
        successor = self._successors.get(name)
        if successor is None:  # the route was removed before this task began
            return
        old_name = successor.old_name
        predecessors = [self._tasks[n] for n in (old_name, name) if n in self._tasks]
        await asyncio.gather(*predecessors, return_exceptions=True)
        # A later `reload` may have removed the successor, or put another in its place.
        if self._successors.get(name) is not successor or self._stopping:
            return
        if old_name != name:
            try:
                await asyncio.to_thread(rename_route, self._specs[name].options, old_name, name)
            except OSError as error:
                event, reason = "route-not-renamed", str(error)
                log_event(self._logger, event, logging.ERROR, route=name, why=reason)
        if self._successors.get(name) is not successor or self._stopping:
            return
        del self._successors[name]
        if name in self._routes:
            self._history.replace(name, self._routes[name].statistics)
        self._start(successor.route)

    @property
    def specs(self) -> list[RouteSpec]:
        """The specifications of the started routes, including removed routes that are kept."""
        return [spec for name, spec in self._specs.items() if name in self._routes]

    @property
    def routes(self) -> list[Route]:
        """The started routes, including ended and removed routes that are kept."""
        return list(self._routes.values())

    @property
    def statistics(self) -> dict[str, Statistics]:
        """The statistics of each route, by name. They include earlier versions of the route.

        The latest 100 routes that `reload` removed have their own entries. The entry ``…`` is the
        sum of the routes that were removed earlier.
        """
        statistics = {
            name: self._history.total(name, route.statistics)
            for name, route in self._routes.items()
        }
        if self._history.removed_counts is not None:
            statistics[_OLDER_ROUTES] = self._history.removed_counts
        return statistics
