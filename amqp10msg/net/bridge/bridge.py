"""Several routes in one process: started together, stopped together or by a signal, one report.

`Monitor` serves their metrics and health over HTTP meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Self

from amqp10msg.net.bridge.dry import Checked, DryRun, Queue, check_queues, dry_run
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


#: Names, what they count, and the attribute of `Statistics`.
_COUNTERS = (
    ("received", "Deliveries of the source.", "received"),
    ("redelivered", "Deliveries that may have come before.", "redelivered"),
    ("accepted", "Messages that the target took.", "accepted"),
    ("bytes", "Bytes of messages that the target took.", "octets"),
    ("duplicates", "Deliveries that the target had before.", "duplicates"),
    ("unmatched", "Messages that the filter passed over.", "unmatched"),
    ("dropped", "Messages that the hook dropped.", "dropped"),
    ("left", "Messages too large for memory and for the folder.", "left"),
    ("source_lost", "Times that the source's connection ended.", "source_lost"),
    ("target_lost", "Times that the target's connection ended.", "target_lost"),
)
_BY_REASON = (
    ("refused", "Times that the target did not take a message."),
    ("quarantined", "Messages in the quarantine."),
    ("requeued", "Messages that went back to the source for good."),
    ("rejected", "Messages that the source was told to dead-letter."),
)
_GAUGES = (
    ("in_flight", "Messages that wait for an outcome.", "in_flight"),
    ("waiting", "Deliveries that wait to be sent.", "waiting"),
    ("lag", "Messages in the source's queue.", "lag"),
)
_SECONDS = 5.0


class Monitor:
    """Serves ``/metrics`` and ``/health`` while it is entered.

    ``/health`` is 200 where all routes run, 503 where one does not, with the state of each.

    Args:
        bridge: whose.
        host: to listen on.
        port: to listen on; 0 for one that is free.

    Raises:
        ModuleNotFoundError: prometheus-client is not installed.
    """

    def __init__(self, bridge: Bridge, host: str, port: int) -> None:
        try:
            import prometheus_client  # noqa: PLC0415  (an extra)
        except ModuleNotFoundError:
            raise ModuleNotFoundError(
                "metrics need prometheus-client: pip install 'amqp10msg[bridge]'",
                name="prometheus_client",
            ) from None
        self._client: Any = prometheus_client
        self._bridge = bridge
        self._host, self._port = host, port
        self._registry = prometheus_client.CollectorRegistry(auto_describe=False)
        self._registry.register(self)
        self.url = ""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._answer, self._host, self._port)
        host, port = self._server.sockets[0].getsockname()[:2]
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await self._server.wait_closed()

    def collect(self) -> Iterator[Any]:
        """Yield the metrics as they are now, as Prometheus' client asks for them."""
        core = self._client.metrics_core
        counts = self._bridge.statistics
        for name, text, attribute in _COUNTERS:
            family = core.CounterMetricFamily(f"amqp10msg_bridge_{name}", text, labels=["route"])
            for route, found in counts.items():
                family.add_metric([route], getattr(found, attribute))
            yield family
        for name, text in _BY_REASON:
            labels = ["route", "reason"]
            family = core.CounterMetricFamily(f"amqp10msg_bridge_{name}", text, labels=labels)
            for route, found in counts.items():
                for reason, count in getattr(found, name).items():
                    family.add_metric([route, reason], count)
            yield family
        labels = ["route", "path", "action"]
        text = "Values that the translation changed or dropped."
        family = core.CounterMetricFamily("amqp10msg_bridge_losses", text, labels=labels)
        for route, found in counts.items():
            for (path, action), count in found.losses.items():
                family.add_metric([route, path.encode("utf-8", "replace").decode(), action], count)
        yield family
        for name, text, attribute in _GAUGES:
            family = core.GaugeMetricFamily(f"amqp10msg_bridge_{name}", text, labels=["route"])
            for route, found in counts.items():
                value = getattr(found, attribute)
                if value is not None:
                    family.add_metric([route], value)
            yield family

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
            try:
                async with asyncio.timeout(_SECONDS):
                    head = await reader.readuntil(b"\r\n\r\n")
                    path = head.split(b" ", 2)[1].partition(b"?")[0] if b" " in head else b""
                    writer.write(self._response(path))
                    await writer.drain()
            except asyncio.LimitOverrunError:
                pass  # no request has a head of that size
            finally:
                writer.close()

    def _response(self, path: bytes) -> bytes:
        if path == b"/metrics":
            status, kind = "200 OK", str(self._client.CONTENT_TYPE_LATEST)
            body: bytes = self._client.generate_latest(self._registry)
        elif path == b"/health":
            states = {name: found.state for name, found in self._bridge.statistics.items()}
            well = all(state in {"running", "draining", "ended"} for state in states.values())
            status = "200 OK" if well else "503 Service Unavailable"
            kind, body = "application/json", json.dumps(states).encode()
        else:
            status, kind, body = "404 Not Found", "text/plain", b"/metrics or /health\n"
        head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
        return f"{head}Connection: close\r\n\r\n".encode() + body


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
