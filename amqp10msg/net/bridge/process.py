"""Runs a bridge as a process: with signals, metrics, systemd, and an exit status.

The commands use these functions. Each runs an event loop of its own until its end or a signal.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import signal
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import TypeVar

import attrs

from amqp10msg.net.bridge.bridge import Bridge
from amqp10msg.net.bridge.context import log_event
from amqp10msg.net.bridge.dry import Checked, DryRun, check_queue, dry_run
from amqp10msg.net.bridge.management import Queue
from amqp10msg.net.bridge.monitor import Monitor
from amqp10msg.net.bridge.options import RouteOptions
from amqp10msg.net.bridge.routes import RouteSpec
from amqp10msg.net.bridge.service import Service
from amqp10msg.net.bridge.statistics import Statistics
from amqp10msg.net.ends.urls import Endpoint
from amqp10msg.net.ends.wire import in_thread

#: Seconds between two measurements of the lag of the routes.
_LAG_INTERVAL = 1.0
#: Seconds from the query of a source's depth until its answer is read.
_DEPTH_ANSWER_DELAY = 0.2
#: Seconds between two checks for pending signals in `call_interruptibly`.
_SIGNAL_CHECK_INTERVAL = 0.2

_T = TypeVar("_T")
#: Called with the statistics of all routes, by name, to display them.
ShowStatistics = Callable[[Mapping[str, Statistics]], None]


def run_bridge(
    specs: Iterable[RouteSpec],
    *,
    logger: logging.Logger,
    show: ShowStatistics | None = None,
    every: float = 0.5,
    listen: tuple[str, int] | None = None,
    on_listening: Callable[[str], object] = lambda _: None,
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
    show_again = None if show is None else functools.partial(_show, bridge, show, every)

    def stop() -> None:
        log_event(logger, "stopping", logging.INFO)
        service.stopping()
        bridge.stop()

    async def run_until_end() -> BaseException | None:
        async with contextlib.AsyncExitStack() as stack:
            if listen is not None:
                monitor = Monitor(lambda: bridge.statistics, *listen)
                on_listening((await stack.enter_async_context(monitor)).url)
            loop, has_begun = asyncio.get_running_loop(), asyncio.Event()
            _on_hangup(loop, _reload_handler(bridge, reread_routes, logger, service, has_begun))
            _on_signals(loop, stop)
            try:
                async with bridge:
                    has_begun.set()
                    await _run_started(bridge, service, show_again, hold_signals)
            except (OSError, ValueError) as error:
                if not has_begun.is_set():
                    raise
                return error
        return None

    fault = asyncio.run(run_until_end())
    return bridge.specs, bridge.statistics, fault


async def _run_started(
    bridge: Bridge,
    service: Service,
    show: Callable[[], Coroutine[None, None, None]] | None,
    hold_signals: bool,
) -> None:
    """Wait until all routes of a started bridge have ended, and report its state meanwhile.

    `show` and `hold_signals` are as for `run_bridge`.
    """
    service.started()
    helpers = [asyncio.ensure_future(_measure_lag(bridge))]
    if service.every is not None:
        helpers.append(asyncio.ensure_future(_notify_watchdog(bridge, service, service.every)))
    if show is not None:
        helpers.append(asyncio.ensure_future(show()))
    try:
        await bridge.run()
    finally:
        service.stopping()
        for task in helpers:
            task.cancel()
        await asyncio.gather(*helpers, return_exceptions=True)
        if hold_signals:
            _hold_signals()


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


async def _show(bridge: Bridge, show: ShowStatistics, every: float) -> None:
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
