"""Runs the routes of a bridge in one process: starts, reloads and stops them together."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import Callable, Iterable, Mapping
from typing import Self, TypeVar

import attrs

from amqp10msg.net.bridge.context import log_event
from amqp10msg.net.bridge.dry import Checked, DryRun, check_queue, dry_run
from amqp10msg.net.bridge.management import Queue
from amqp10msg.net.bridge.monitor import Monitor
from amqp10msg.net.bridge.records import rename_route
from amqp10msg.net.bridge.route import Route
from amqp10msg.net.bridge.routes import RouteSpec
from amqp10msg.net.bridge.service import Service
from amqp10msg.net.bridge.statistics import Statistics
from amqp10msg.net.bridge.urls import Endpoint
from amqp10msg.net.bridge.wire import ConnectionPools, in_thread
from amqp10msg.net.options import RouteOptions

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
        self._specs = _by_name(specs)
        self._logger = logger or logging.getLogger("amqp10msg.bridge")
        self._pools = ConnectionPools()
        self._routes: dict[str, Route] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        # The summed statistics of earlier versions of each route.
        self._earlier_counts: dict[str, Statistics] = {}
        # The sum of the statistics of routes removed long ago: reloads must not grow the memory.
        self._removed_counts: Statistics | None = None
        # The first error of a route that was removed long ago.
        self._fault: BaseException | None = None
        # The names of the routes of the latest `reload`; other routes are ending or have ended.
        self._current_names = set(self._specs)
        # Routes, by name, that start when the routes that they replace have ended.
        self._successors: dict[str, Route] = {}
        self._old_names: dict[str, str] = {}  # of routes that were only renamed, by new name
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
        if self._fault is not None:
            raise self._fault

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
        new_specs = _by_name(specs)
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
        self._old_names |= self._find_renamed(started, stopped, new_specs)
        for name in [*started, *replaced]:
            self._specs[name] = new_specs[name]
            self._successors[name] = new_routes[name]
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
            counts = self.statistics[name]
            self._removed_counts = (
                counts if self._removed_counts is None else counts.after(self._removed_counts)
            )
            error = self._tasks.pop(name).exception()
            self._fault = self._fault or error
            del self._routes[name], self._specs[name]
            self._earlier_counts.pop(name, None)

    async def _replace(self, name: str) -> None:
        """Wait until the old version of the route `name` has ended, and start its successor.

        If the route was renamed, rename it in its files before.
        """
        old = self._old_names.get(name, name)
        predecessors = [self._tasks[n] for n in (old, name) if n in self._tasks]
        await asyncio.gather(*predecessors, return_exceptions=True)
        route = self._successors.get(name)
        if route is None or self._stopping:
            self._successors.pop(name, None)
            return
        if old != name:
            try:
                await asyncio.to_thread(rename_route, self._specs[name].options, old, name)
            except OSError as error:
                event, reason = "route-not-renamed", str(error)
                log_event(self._logger, event, logging.ERROR, route=name, why=reason)
        if self._successors.get(name) is not route or self._stopping:
            return
        del self._successors[name]
        self._old_names.pop(name, None)
        if name in self._routes:
            self._earlier_counts[name] = self.statistics[name]
        self._start(route)

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
        statistics = {}
        for name, route in self._routes.items():
            earlier_counts = self._earlier_counts.get(name)
            counts = route.statistics
            statistics[name] = counts if earlier_counts is None else counts.after(earlier_counts)
        if self._removed_counts is not None:
            statistics[_OLDER_ROUTES] = self._removed_counts
        return statistics


def _by_name(specs: Iterable[RouteSpec]) -> dict[str, RouteSpec]:
    """Return specifications by name. Raises ValueError if two have the same name."""
    by_name: dict[str, RouteSpec] = {}
    for spec in specs:
        if spec.name in by_name:
            raise ValueError(f"two routes have the name {spec.name!r}: give them different names")
        by_name[spec.name] = spec
    return by_name


#: Seconds between two measurements of the lag of the routes.
_LAG_INTERVAL = 1.0
#: Seconds from the query of a source's depth until its answer is read.
_DEPTH_ANSWER_DELAY = 0.2
#: Seconds between two checks for pending signals in `call_interruptibly`.
_SIGNAL_CHECK_INTERVAL = 0.2

_T = TypeVar("_T")
#: Called with the statistics of all routes, by name, to display them.
Show = Callable[[Mapping[str, Statistics]], None]


def run_bridge(
    specs: Iterable[RouteSpec],
    *,
    logger: logging.Logger,
    show: Show | None = None,
    every: float = 0.5,
    listen: tuple[str, int] | None = None,
    on_listening: Callable[[str], None] | None = None,
    reread_routes: Callable[[], Iterable[RouteSpec]] | None = None,
    hold_signals: bool = False,
) -> tuple[list[RouteSpec], dict[str, Statistics], BaseException | None]:
    """Run routes in this thread until they end, or SIGINT or SIGTERM stops them.

    The state is reported to systemd if ``NOTIFY_SOCKET`` is set.

    Args:
        specs: the routes.
        logger: receives events, as for `Bridge`.
        show: called with the statistics every `every` seconds.
        every: seconds between two calls of `show`.
        listen: the host and port to serve metrics and health at; port 0 chooses a free port.
        on_listening: called with the URL of the metrics and health, which has the chosen port.
        reread_routes: called on SIGHUP; returns the new routes. Without it, SIGHUP is ignored.
        hold_signals: block SIGINT, SIGTERM and SIGHUP from the end of all routes until
            `drop_signals` is called, so that the caller can write a report first.

    Returns:
        The specifications of the routes, the statistics by name of the route, and the error of a
        failed route, or None.

    Raises:
        ValueError: a route is invalid.
        OSError: the metrics cannot be served at `listen`.
    """
    bridge, service = Bridge(specs, logger=logger), Service()

    async def run_until_end() -> BaseException | None:
        async with contextlib.AsyncExitStack() as stack:
            if listen is not None:
                monitor = await stack.enter_async_context(
                    Monitor(lambda: bridge.statistics, *listen)
                )
                if on_listening is not None:
                    on_listening(monitor.url)
            loop = asyncio.get_running_loop()

            def stop() -> None:
                service.stopping()
                bridge.stop()

            has_begun = asyncio.Event()
            _on_hangup(loop, _reload_handler(bridge, reread_routes, logger, service, has_begun))
            _on_signals(loop, stop)
            try:
                async with bridge:
                    has_begun.set()
                    service.started()
                    helpers = [asyncio.ensure_future(_measure_lag(bridge))]
                    if service.every is not None:
                        watchdog = _notify_watchdog(bridge, service, service.every)
                        helpers.append(asyncio.ensure_future(watchdog))
                    if show is not None:
                        helpers.append(asyncio.ensure_future(_show(bridge, show, every)))
                    try:
                        await bridge.run()
                    finally:
                        service.stopping()
                        for task in helpers:
                            task.cancel()
                        await asyncio.gather(*helpers, return_exceptions=True)
                        if hold_signals:
                            _hold_signals()
            except (OSError, ValueError) as error:
                if not has_begun.is_set():
                    raise
                return error
        return None

    fault = asyncio.run(run_until_end())
    return bridge.specs, bridge.statistics, fault


def _on_hangup(loop: asyncio.AbstractEventLoop, handler: Callable[[], None]) -> None:
    """Call `handler` on SIGHUP. By default, SIGHUP would end the process without settling messages.

    SIGHUP is unblocked: one that arrived while the command blocked it during its imports is handled
    now. If SIGHUP is ignored, as under nohup, it stays ignored.
    """
    if not hasattr(signal, "SIGHUP"):  # on Windows
        return
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        loop.add_signal_handler(signal.SIGHUP, handler)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})


def _reload_handler(
    bridge: Bridge,
    reread_routes: Callable[[], Iterable[RouteSpec]] | None,
    logger: logging.Logger,
    service: Service,
    has_begun: asyncio.Event,
) -> Callable[[], None]:
    """Return a handler of SIGHUP that reloads the bridge with the routes from `reread_routes`.

    The handler starts a task and returns. The task waits until `has_begun` is set and earlier
    reloads are done. If `reread_routes` is None, the handler only logs the signal.
    """
    if reread_routes is None:
        reason = "no --config that could be read again"
        return lambda: log_event(logger, "hangup-ignored", logging.INFO, why=reason)
    reload_lock, tasks = asyncio.Lock(), set[asyncio.Task[None]]()

    async def reload_routes() -> None:
        await has_begun.wait()
        async with reload_lock:
            service.reloading()
            try:
                # In a thread, because it may wait for the answer of a management API.
                changes = attrs.asdict(bridge.reload(await in_thread(reread_routes)))
            except (OSError, ValueError, RuntimeError) as error:
                log_event(logger, "routes-refused", logging.ERROR, why=str(error))
            else:
                fields = {change: list(names) for change, names in changes.items()}
                log_event(logger, "routes-read", logging.INFO, **fields)
            service.started()

    def start_reload() -> None:
        task = asyncio.ensure_future(reload_routes())
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    return start_reload


#: The set of SIGHUP; empty on Windows, which does not have it.
_HANGUP_SIGNALS = {signal.SIGHUP} if hasattr(signal, "SIGHUP") else set()


def _on_signals(loop: asyncio.AbstractEventLoop, stop: Callable[[], object]) -> None:
    """Call `stop` on SIGINT and SIGTERM, and unblock these signals."""
    for number in (signal.SIGINT, signal.SIGTERM):
        try:
            loop.add_signal_handler(number, stop)
        except NotImplementedError:  # on Windows
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(stop))
    release_signals()


def _hold_signals() -> None:
    """Block SIGINT, SIGTERM and SIGHUP, so that they stay pending."""
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, *_HANGUP_SIGNALS})


class Interrupted(Exception):  # noqa: N818  (as KeyboardInterrupt)
    """SIGINT or SIGTERM ended `call_interruptibly` before the call returned."""


def call_interruptibly(call: Callable[[], _T]) -> _T:
    """Run `call` in a thread, and return its result. SIGINT and SIGTERM end the wait for it.

    Raises:
        Interrupted: SIGINT or SIGTERM is blocked and arrived during the call.
    """

    async def wait_for_result() -> _T:
        calling = asyncio.ensure_future(in_thread(call))
        while not calling.done():
            await asyncio.wait([calling], timeout=_SIGNAL_CHECK_INTERVAL)
            if signals_are_held() and signal.sigpending() & {signal.SIGINT, signal.SIGTERM}:
                calling.cancel()
                raise Interrupted
        return calling.result()

    return asyncio.run(wait_for_result())


def signals_are_held() -> bool:
    """Whether SIGTERM is blocked. The command blocks SIGTERM and SIGINT together."""
    if not hasattr(signal, "pthread_sigmask"):
        return False
    return signal.SIGTERM in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def drop_signals() -> None:
    """Unblock SIGINT, SIGTERM and SIGHUP; discard signals that arrived while they were blocked."""
    for number in (signal.SIGINT, signal.SIGTERM, *_HANGUP_SIGNALS):
        handler = signal.getsignal(number)
        signal.signal(number, signal.SIG_IGN)  # discards a pending signal
        if hasattr(signal, "pthread_sigmask"):
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
        signal.signal(number, handler)


def release_signals() -> None:
    """Unblock SIGINT and SIGTERM, which the command blocks during the imports."""
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM})


#: Meanings of the exit statuses of a bridge that ended without an error, most serious first.
STATUSES: Mapping[int, str] = {
    3: "messages remain at a source",
    4: "a source could not say whether messages remain",
    5: "messages are in the quarantine",
    6: "the retention of a stream removed messages before they were read",
}


def status_of(counts: Iterable[Statistics], *, accept_quarantine: bool = False) -> int:
    """Return the exit status of routes that ended without an error: a key of `STATUSES`, or 0.

    With `accept_quarantine`, quarantined messages do not affect the status.
    """
    statuses = set()
    for statistics in counts:
        if statistics.remaining or statistics.unacknowledged or statistics.left:
            statuses.add(3)
        elif statistics.asked and not statistics.is_empty:
            statuses.add(4)
        if statistics.quarantined and not accept_quarantine:
            statuses.add(5)
        if statistics.missed:
            statuses.add(6)
    return min(statuses, default=0)


async def _show(bridge: Bridge, show: Show, every: float) -> None:
    """Call `show` with the statistics every `every` seconds, until cancelled."""
    while True:
        await asyncio.sleep(every)
        show(bridge.statistics)


async def _notify_watchdog(bridge: Bridge, service: Service, every: float) -> None:
    """Reset systemd's watchdog every `every` seconds, with a line of status, until cancelled."""
    while True:
        statistics = bridge.statistics
        states = ", ".join(f"{name}: {counts.state}" for name, counts in statistics.items())
        moved = sum(counts.accepted for counts in statistics.values())
        service.alive(f"{moved:,} messages moved; {states}")
        await asyncio.sleep(every)


async def _measure_lag(bridge: Bridge) -> None:
    """Keep `Statistics.lag` of each route up to date, until cancelled."""
    while True:
        # `depth` sends a query and returns the answer to the previous one.
        await asyncio.gather(*(route.depth() for route in bridge.routes))
        await asyncio.sleep(_DEPTH_ANSWER_DELAY)
        for route in bridge.routes:
            route.statistics.lag = await route.depth()
        await asyncio.sleep(_LAG_INTERVAL)


def run_check(
    endpoint: Endpoint,
    queues: Iterable[Queue],
    options: RouteOptions,
    count: int,
    idle: float,
    on_result: Callable[[Checked], None],
) -> list[Checked]:
    """Do a dry run of each queue, as if it were moved over AMQP 1.0 by the endpoint's user.

    Args:
        endpoint: the broker of the queues.
        queues: the queues.
        options: the options of the routes.
        count: maximum number of messages to read of each queue, 1 to 65535.
        idle: leave a queue after this many seconds without a message.
        on_result: called with each result.
    """
    target = Endpoint("1.0", "localhost", 5672, user=endpoint.user)
    results = []
    with asyncio.Runner() as runner:
        for queue in queues:
            checked = runner.run(check_queue(endpoint, target, queue, options, count, idle))
            on_result(checked)
            results.append(checked)
    return results


def run_dry(spec: RouteSpec, count: int, idle: float) -> DryRun:
    """Run `dry_run` in a new event loop, and return its result."""
    return asyncio.run(dry_run(DryRun(spec), count, idle))


def run_dry_or_stop(spec: RouteSpec, count: int, idle: float) -> tuple[DryRun, bool]:
    """Run `dry_run` in a new event loop until it ends, or SIGINT or SIGTERM arrives.

    Return the result, and whether a signal ended the run. The messages that were read are released
    to the source in both cases. SIGINT, SIGTERM and SIGHUP are blocked on return.
    """
    result = DryRun(spec)

    async def read_until_signal() -> bool:
        reading = asyncio.ensure_future(dry_run(result, count, idle))
        _on_signals(asyncio.get_running_loop(), reading.cancel)
        try:
            await asyncio.wait([reading])
        finally:
            _hold_signals()
        if reading.cancelled():
            return True
        reading.result()
        return False

    return result, asyncio.run(read_until_signal())
