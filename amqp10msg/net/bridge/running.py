"""Runs a bridge until it has ended or a signal stops it, and shows how it does meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import Callable, Iterable, Mapping

from amqp10msg.net.bridge.bridge import Bridge, RouteSpec
from amqp10msg.net.bridge.dry import DryRun, dry_run
from amqp10msg.net.bridge.migration import Checked, Queue, check_queues
from amqp10msg.net.bridge.monitoring import Monitor
from amqp10msg.net.bridge.options import RouteOptions
from amqp10msg.net.bridge.route import Route
from amqp10msg.net.bridge.statistics import Statistics
from amqp10msg.net.bridge.urls import Endpoint

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
                monitor = await stack.enter_async_context(Monitor(bridge, *listen))
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
