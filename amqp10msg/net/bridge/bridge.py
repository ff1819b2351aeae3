"""Several routes in one process: started together, stopped together or by a signal, one report."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import Callable, Iterable, Mapping
from typing import Self, TypeVar

import attrs

from amqp10msg.net.bridge.dry import Checked, DryRun, check_queue, dry_run
from amqp10msg.net.bridge.management import Queue
from amqp10msg.net.bridge.monitor import Monitor
from amqp10msg.net.bridge.records import rename
from amqp10msg.net.bridge.route import Route, log_event
from amqp10msg.net.bridge.routes import RouteSpec
from amqp10msg.net.bridge.service import Service
from amqp10msg.net.bridge.statistics import Statistics
from amqp10msg.net.bridge.urls import Endpoint
from amqp10msg.net.bridge.wire import Sides, beside
from amqp10msg.net.options import RouteOptions

#: How many routes that are no more are told apart.
_GONE = 100
#: The name that the others have together.
_OLDER = "…"


@attrs.frozen
class Changes:
    """What became of the routes of a bridge that was given others: names, in the order given.

    Attributes:
        started: new ones, and those that had failed.
        replaced: changed ones, of which the old one drains before the new one starts.
        stopped: those that are no more, which drain.
        kept: those that go on as they are.
    """

    started: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
    stopped: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()


class Bridge:
    """Moves messages from sources to targets, and settles each when the target has it.

    Args:
        source: where from, a URL (see `parse_url`); or routes.
        target: where to, with a URL as source.
        options: how, with a URL as source.
        logger: takes events: each record has ``event`` and ``fields``.

    Attributes:
        specs: the routes, also those that `reload` ended.

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
        self._specs = _by_name(specs)
        self._logger = logger or logging.getLogger("amqp10msg.bridge")
        self._sides = Sides()
        self._routes: dict[str, Route] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        # What earlier routes of a name counted, which names are to run now, and what comes next.
        self._before: dict[str, Statistics] = {}
        # Those that ended long ago, in one: names must not grow without bound over reloads.
        self._older: Statistics | None = None
        self._fault: BaseException | None = None
        self._wanted = set(self._specs)
        self._next: dict[str, Route] = {}
        self._follows: dict[str, str] = {}  # the old names of routes that are renamed
        self._stopping = False
        self._replacing: set[asyncio.Task[None]] = set()
        self._running: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Start the routes."""
        self._changed = asyncio.Event()
        made = {name: self._route(spec) for name, spec in self._specs.items()}
        for route in made.values():
            self._start(route)
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

    def _route(self, spec: RouteSpec) -> Route:
        ends = spec.source, spec.target
        return Route(spec.name, *ends, spec.options, self._logger, self._sides)

    def _start(self, route: Route) -> None:
        self._routes[route.name] = route
        self._tasks[route.name] = asyncio.ensure_future(route.run())
        self._changed.set()

    async def _run(self) -> None:
        """Wait for all routes: the fault of one does not end the others."""
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
        self._stopping = True
        for route in self._routes.values():
            route.stop()

    def reload(self, specs: Iterable[RouteSpec]) -> Changes:
        """Go on with these routes, told apart by their names; return what changes, at once.

        A route that is as it was goes on, or stays ended; one that failed starts again. Where it
        changed, the old one drains, and then the new one starts; so where its name alone changed,
        and then it goes on with the position and the message-ids of the old one.

        Raises:
            ValueError: two routes have one name, or one makes no sense; nothing is changed then.
            RuntimeError: the bridge does not run.
        """
        if self._running is None or self._running.done() or self._stopping:
            raise RuntimeError("a bridge that does not run takes no routes")
        wanted = _by_name(specs)
        made = {name: self._route(spec) for name, spec in wanted.items()}
        stopped = [name for name in self._specs if name in self._wanted - wanted.keys()]
        started, replaced, kept = [], [], []
        for name, spec in wanted.items():
            failed = name in self._routes and self._routes[name].statistics.failed
            if name not in self._wanted or (failed and name not in self._next):
                started.append(name)
            elif spec != self._specs[name]:
                replaced.append(name)
            else:
                kept.append(name)
        self._wanted = set(wanted)
        for name in stopped:
            self._next.pop(name, None)
            if (before := self._routes.get(name)) is not None:
                before.stop()
        self._follows |= self._renamed(started, stopped, wanted)
        for name in [*started, *replaced]:
            self._specs[name] = wanted[name]
            self._next[name] = made[name]
            if (before := self._routes.get(name)) is not None:
                before.stop()
            task = asyncio.ensure_future(self._replace(name))
            self._replacing.add(task)
            task.add_done_callback(self._replacing.discard)
        self._forget_old()
        self._changed.set()
        return Changes(*map(tuple, (started, replaced, stopped, kept)))

    def _renamed(
        self, started: list[str], stopped: list[str], wanted: Mapping[str, RouteSpec]
    ) -> dict[str, str]:
        """Return the old names of routes that have a new one, and are otherwise as they were."""
        found: dict[str, str] = {}
        for name in started:
            for old in stopped:
                same = attrs.evolve(wanted[name], name=old) == self._specs[old]
                if same and old in self._routes and old not in found.values():
                    found[name] = old
                    break
        return found

    def _forget_old(self) -> None:
        """Count the routes that are no more, but for the latest, as one."""
        gone = [name for name in self._routes if name not in self._wanted]
        ended = [name for name in gone if self._tasks[name].done() and name not in self._next]
        for name in ended[: max(len(gone) - _GONE, 0)]:
            counts = self.statistics[name]
            self._older = counts if self._older is None else counts.after(self._older)
            error = self._tasks.pop(name).exception()
            self._fault = self._fault or error
            del self._routes[name], self._specs[name]
            self._before.pop(name, None)

    async def _replace(self, name: str) -> None:
        """Start the next route of a name when the one before it has ended, whatever its name."""
        old = self._follows.get(name, name)
        before = [self._tasks[one] for one in (old, name) if one in self._tasks]
        await asyncio.gather(*before, return_exceptions=True)
        route = self._next.get(name)
        if route is None or self._stopping:
            self._next.pop(name, None)
            return
        if old != name:
            try:
                await asyncio.to_thread(rename, self._specs[name].options, old, name)
            except OSError as error:
                event, why = "route-not-renamed", str(error)
                log_event(self._logger, event, logging.ERROR, route=name, why=why)
        if self._next.get(name) is not route or self._stopping:
            return
        del self._next[name]
        self._follows.pop(name, None)
        if name in self._routes:
            self._before[name] = self.statistics[name]
        self._start(route)

    @property
    def specs(self) -> list[RouteSpec]:
        """The routes, as they ran last."""
        return [spec for name, spec in self._specs.items() if name in self._routes]

    @property
    def routes(self) -> list[Route]:
        """The routes, while it runs and after."""
        return list(self._routes.values())

    @property
    def statistics(self) -> dict[str, Statistics]:
        """What each route counted, by name, with those of its name that it replaced.

        Routes that `reload` ended are there, the latest 100 of them by name, older ones in one that
        is called ``…``.
        """
        found = {}
        for name, route in self._routes.items():
            before = self._before.get(name)
            counts = route.statistics
            found[name] = counts if before is None else counts.after(before)
        if self._older is not None:
            found[_OLDER] = self._older
        return found


def _by_name(specs: Iterable[RouteSpec]) -> dict[str, RouteSpec]:
    """Return routes by name."""
    found: dict[str, RouteSpec] = {}
    for spec in specs:
        if spec.name in found:
            raise ValueError(f"two routes have the name {spec.name!r}: give them others")
        found[spec.name] = spec
    return found


_LAG_SECONDS = 1.0
#: Seconds that a source has to answer.
_ANSWER_SECONDS = 0.2

_T = TypeVar("_T")
Show = Callable[[Mapping[str, Statistics]], None]


def run_bridge(
    specs: Iterable[RouteSpec],
    *,
    logger: logging.Logger,
    show: Show | None = None,
    every: float = 0.5,
    listen: tuple[str, int] | None = None,
    listening: Callable[[str], None] | None = None,
    again: Callable[[], Iterable[RouteSpec]] | None = None,
    hold: bool = False,
) -> tuple[list[RouteSpec], dict[str, Statistics], BaseException | None]:
    """Run routes in this thread, which SIGINT and SIGTERM stop: what is in flight is waited for.

    systemd is told how it is, where it asks (``NOTIFY_SOCKET``).

    The counts are shown every so many seconds. `listen` is the host and port where metrics and
    health are served, and `listening` is called with the URL of that, whose port may be one that
    was free. SIGHUP replaces the routes by those that `again` returns; without it, SIGHUP is
    ignored. With `hold`, SIGINT, SIGTERM and SIGHUP are blocked once all routes have ended, until
    `drop_signals`: a report is still to be written. Return the routes as they ran last, the counts
    by route, and what ended a route against its will.

    Raises:
        ValueError: a route makes no sense.
        OSError: the metrics cannot be served there.
    """
    bridge, service = Bridge(specs, logger=logger), Service()

    async def run() -> BaseException | None:
        async with contextlib.AsyncExitStack() as stack:
            if listen is not None:
                monitor = await stack.enter_async_context(
                    Monitor(lambda: bridge.statistics, *listen)
                )
                if listening is not None:
                    listening(monitor.url)
            loop = asyncio.get_running_loop()

            def stop() -> None:
                service.stopping()
                bridge.stop()

            begun = asyncio.Event()
            _on_hangup(loop, _reading(bridge, again, logger, service, begun))
            _on_signals(loop, stop)
            try:
                async with bridge:
                    begun.set()
                    service.started()
                    others = [asyncio.ensure_future(_measure(bridge))]
                    if service.every is not None:
                        others.append(asyncio.ensure_future(_live(bridge, service, service.every)))
                    if show is not None:
                        others.append(asyncio.ensure_future(_show(bridge, show, every)))
                    try:
                        await bridge.run()
                    finally:
                        service.stopping()
                        for task in others:
                            task.cancel()
                        await asyncio.gather(*others, return_exceptions=True)
                        if hold:
                            _hold_signals()
            except (OSError, ValueError) as error:
                if not begun.is_set():
                    raise
                return error
        return None

    fault = asyncio.run(run())
    return bridge.specs, bridge.statistics, fault


def _on_hangup(loop: asyncio.AbstractEventLoop, act: Callable[[], None]) -> None:
    """Call `act` on SIGHUP, whose default action would end the process without settling anything.

    A SIGHUP that came during the imports is delivered now. nohup's choice to ignore it stays.
    """
    if not hasattr(signal, "SIGHUP"):  # on Windows
        return
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        loop.add_signal_handler(signal.SIGHUP, act)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})


def _reading(
    bridge: Bridge,
    again: Callable[[], Iterable[RouteSpec]] | None,
    logger: logging.Logger,
    service: Service,
    begun: asyncio.Event,
) -> Callable[[], None]:
    """Return the handler of SIGHUP: it replaces a bridge's routes by those that `again` returns.

    The handler returns immediately. It waits until the bridge has `begun`, and reads the routes
    once at a time. Without `again`, the signal is logged and ignored.
    """
    if again is None:
        why = "there is no --config to read again"
        return lambda: log_event(logger, "hangup-ignored", logging.INFO, why=why)
    turn, tasks = asyncio.Lock(), set[asyncio.Task[None]]()

    async def read() -> None:
        await begun.wait()
        async with turn:
            service.reloading()
            try:
                # A management API may be asked for its queues.
                changes = attrs.asdict(bridge.reload(await beside(again)))
            except (OSError, ValueError, RuntimeError) as error:
                log_event(logger, "routes-refused", logging.ERROR, why=str(error))
            else:
                fields = {name: list(found) for name, found in changes.items()}
                log_event(logger, "routes-read", logging.INFO, **fields)
            service.started()

    def begin() -> None:
        task = asyncio.ensure_future(read())
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    return begin


#: SIGHUP where the system has it: Windows does not.
_HANGUP = {signal.SIGHUP} if hasattr(signal, "SIGHUP") else set()


def _on_signals(loop: asyncio.AbstractEventLoop, stop: Callable[[], object]) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        try:
            loop.add_signal_handler(number, stop)
        except NotImplementedError:  # the loops of Windows
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(stop))
    release_signals()


def _hold_signals() -> None:
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, *_HANGUP})


class Interrupted(Exception):  # noqa: N818  (as KeyboardInterrupt)
    """SIGINT or SIGTERM came, which are held back, before there was an answer."""


def ask(call: Callable[[], _T]) -> _T:
    """Return the result of a call that may wait for an API, unless a signal that is held comes."""

    async def run() -> _T:
        asking = asyncio.ensure_future(beside(call))
        while not asking.done():
            await asyncio.wait([asking], timeout=_ANSWER_SECONDS)
            if signals_are_held() and signal.sigpending() & {signal.SIGINT, signal.SIGTERM}:
                asking.cancel()
                raise Interrupted
        return asking.result()

    return asyncio.run(run())


def signals_are_held() -> bool:
    """Whether SIGINT and SIGTERM are held back, as in the command's own process."""
    if not hasattr(signal, "pthread_sigmask"):
        return False
    return signal.SIGTERM in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def drop_signals() -> None:
    """Unblock SIGINT, SIGTERM and SIGHUP, and discard those that came while they were blocked."""
    for number in (signal.SIGINT, signal.SIGTERM, *_HANGUP):
        handler = signal.getsignal(number)
        signal.signal(number, signal.SIG_IGN)  # which discards the one that waits
        if hasattr(signal, "pthread_sigmask"):
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
        signal.signal(number, handler)


def release_signals() -> None:
    """Let SIGINT and SIGTERM through, which the command holds back while it is imported."""
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM})


#: What the exit status of a bridge means that ended without a fault, the gravest first.
STATUSES: Mapping[int, str] = {
    3: "messages remain at a source",
    4: "a source could not say whether messages remain",
    5: "messages are in the quarantine",
    6: "the retention of a stream removed messages before they were read",
}


def status_of(counts: Iterable[Statistics], *, accept_quarantine: bool = False) -> int:
    """Return the exit status of routes that ended without a fault: a key of `STATUSES`, or 0.

    With `accept_quarantine`, messages in the quarantine are 0, too.
    """
    found = {0}
    for one in counts:
        if one.remaining or one.unacknowledged or one.left:
            found.add(3)
        elif one.asked and not one.is_empty:
            found.add(4)
        if one.quarantined and not accept_quarantine:
            found.add(5)
        if one.missed:
            found.add(6)
    return min(found - {0}, default=0)


async def _show(bridge: Bridge, show: Show, every: float) -> None:
    while True:
        await asyncio.sleep(every)
        show(bridge.statistics)


async def _live(bridge: Bridge, service: Service, every: float) -> None:
    """Give signs of life, as long as this loop turns."""
    while True:
        counts = bridge.statistics
        states = ", ".join(f"{name}: {found.state}" for name, found in counts.items())
        service.alive(f"{sum(one.accepted for one in counts.values()):,} taken; {states}")
        await asyncio.sleep(every)


async def _measure(bridge: Bridge) -> None:
    """Ask now and then how many messages are still to come."""
    while True:
        await asyncio.gather(*(route.depth() for route in bridge.routes))
        await asyncio.sleep(_ANSWER_SECONDS)
        for route in bridge.routes:
            route.statistics.lag = await route.depth()
        await asyncio.sleep(_LAG_SECONDS)


def run_check(
    endpoint: Endpoint,
    queues: Iterable[Queue],
    options: RouteOptions,
    count: int,
    idle: float,
    tell: Callable[[Checked], None],
) -> list[Checked]:
    """Run `check_queue` for each in this thread, towards AMQP 1.0, as the same user there."""
    target = Endpoint("1.0", "localhost", 5672, user=endpoint.user)
    found = []
    with asyncio.Runner() as runner:
        for queue in queues:
            one = runner.run(check_queue(endpoint, target, queue, options, count, idle))
            tell(one)
            found.append(one)
    return found


def run_dry(spec: RouteSpec, count: int, idle: float) -> DryRun:
    """Run `dry_run` in this thread."""
    return asyncio.run(dry_run(DryRun(spec), count, idle))


def run_dry_or_stop(spec: RouteSpec, count: int, idle: float) -> tuple[DryRun, bool]:
    """Run `dry_run` in this thread until SIGINT or SIGTERM, which are held back when it ends.

    Return also whether a signal ended it; what was read is given back all the same.
    """
    found = DryRun(spec)

    async def run() -> bool:
        reading = asyncio.ensure_future(dry_run(found, count, idle))
        _on_signals(asyncio.get_running_loop(), reading.cancel)
        try:
            await asyncio.wait([reading])
        finally:
            _hold_signals()
        if reading.cancelled():
            return True
        reading.result()
        return False

    return found, asyncio.run(run())
