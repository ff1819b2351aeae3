"""Several routes in one process: started together, stopped together or by a signal, one report."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import Callable, Iterable, Mapping
from typing import Self

from amqp10msg.net.bridge.dry import Checked, DryRun, Queue, check_queues, dry_run
from amqp10msg.net.bridge.monitor import Monitor
from amqp10msg.net.bridge.route import Route
from amqp10msg.net.bridge.routes import RouteSpec
from amqp10msg.net.bridge.statistics import Statistics
from amqp10msg.net.bridge.urls import Endpoint
from amqp10msg.net.options import RouteOptions


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


_LAG_SECONDS = 1.0
#: Seconds that a source has to answer.
_ANSWER_SECONDS = 0.2

Show = Callable[[Mapping[str, Statistics]], None]


def run_bridge(
    specs: Iterable[RouteSpec],
    *,
    logger: logging.Logger,
    show: Show | None = None,
    every: float = 0.5,
    listen: tuple[str, int] | None = None,
    listening: Callable[[str], None] | None = None,
) -> tuple[dict[str, Statistics], BaseException | None]:
    """Run routes in this thread, which SIGINT and SIGTERM stop: what is in flight is waited for.

    Args:
        specs: the routes.
        logger: takes events.
        show: called with the counts now and then.
        every: seconds between these calls.
        listen: where metrics and health are served, a host and a port.
        listening: called with the URL of that, whose port may be one that was free.

    Returns:
        The counts by route, and what ended a route against its will.

    Raises:
        ValueError: two routes have one name.
        OSError: the metrics cannot be served there.
        ModuleNotFoundError: they need an extra.
    """
    bridge = Bridge(specs, logger=logger)

    async def run() -> BaseException | None:
        async with contextlib.AsyncExitStack() as stack:
            if listen is not None:
                monitor = await stack.enter_async_context(
                    Monitor(lambda: bridge.statistics, *listen)
                )
                if listening is not None:
                    listening(monitor.url)
            loop = asyncio.get_running_loop()
            _on_signals(loop, bridge.stop)
            fault: BaseException | None = None
            async with bridge:
                others = [asyncio.ensure_future(_measure(route)) for route in bridge.routes]
                if show is not None:
                    others.append(asyncio.ensure_future(_show(bridge, show, every)))
                try:
                    await bridge.run()
                except (OSError, ValueError) as error:
                    fault = error
                finally:
                    for task in others:
                        task.cancel()
                    await asyncio.gather(*others, return_exceptions=True)
                if fault is not None:
                    # Said once: leaving the bridge would say it again.
                    raise _Ended(fault)
        return None

    try:
        fault = asyncio.run(run())
    except _Ended as ended:
        fault = ended.fault
    return bridge.statistics, fault


def _on_signals(loop: asyncio.AbstractEventLoop, stop: Callable[[], None]) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        try:
            loop.add_signal_handler(number, stop)
        except NotImplementedError:  # the loops of Windows
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(stop))
    release_signals()


def release_signals() -> None:
    """Let SIGINT and SIGTERM through, which the command holds back while it is imported."""
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM})


#: What the exit status of a bridge means that ended without a fault, the gravest first.
STATUSES: Mapping[int, str] = {
    3: "messages remain at a source",
    4: "a source could not say whether messages remain",
    5: "messages are in the quarantine",
}


def status_of(counts: Iterable[Statistics], *, accept_quarantine: bool = False) -> int:
    """Return the exit status of routes that ended without a fault: a key of `STATUSES`, or 0.

    Args:
        counts: of the routes.
        accept_quarantine: whether messages in the quarantine are 0, too.
    """
    found = {0}
    for one in counts:
        if one.remaining or one.unacknowledged or one.left:
            found.add(3)
        elif one.asked and not one.is_empty:
            found.add(4)
        if one.quarantined and not accept_quarantine:
            found.add(5)
    return min(found - {0}, default=0)


class _Ended(Exception):  # noqa: N818  (it never leaves this module)
    def __init__(self, fault: BaseException) -> None:
        super().__init__(fault)
        self.fault = fault


async def _show(bridge: Bridge, show: Show, every: float) -> None:
    while True:
        await asyncio.sleep(every)
        show(bridge.statistics)


async def _measure(route: Route) -> None:
    """Ask now and then how many messages are still to come."""
    while True:
        await route.depth()
        await asyncio.sleep(_ANSWER_SECONDS)
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
    """Run `check_queues` in this thread, towards AMQP 1.0, as the same user there."""
    target = Endpoint("1.0", "localhost", 5672, user=endpoint.user)
    return asyncio.run(check_queues(endpoint, target, queues, options, count, idle, tell=tell))


def run_dry(spec: RouteSpec, count: int, idle: float) -> DryRun:
    """Run `dry_run` in this thread."""
    return asyncio.run(dry_run(spec, count, idle))
