"""Metrics of a bridge for Prometheus, and what an orchestrator asks: is it live, is it ready."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Self

from amqp10msg.net.bridge.statistics import LATENCIES, Statistics
from amqp10msg.wire.later import of_extra

#: Names, what they count, and the attribute of `Statistics`.
_COUNTERS = (
    ("received", "Deliveries of the source.", "received"),
    ("redelivered", "Deliveries that may have come before.", "redelivered"),
    ("accepted", "Messages that the target took.", "accepted"),
    ("bytes", "Bytes of messages that the target took.", "octets"),
    ("duplicates", "Deliveries that the target had before.", "duplicates"),
    ("unmatched", "Messages that the filter passed over.", "unmatched"),
    ("dropped", "Messages that the hook dropped.", "dropped"),
    ("missed", "Messages of a stream removed by its retention before they were read.", "missed"),
    ("skipped", "Positions of a stream for which the broker delivered nothing.", "skipped"),
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
    ("held", "Messages that are kept back: they are tried again or go back later.", "held"),
    ("lag", "Messages in the source's queue.", "lag"),
    ("failed", "1 if the route ended because its source, target or disk cannot be used.", "failed"),
    ("last_success_timestamp_seconds", "When the target took a message last.", "last_success"),
)
_SECONDS = 5.0
#: What is asked of each route, by path.
_PROBES: Mapping[bytes, Callable[[Statistics], bool]] = {
    b"/live": lambda _: True,
    b"/ready": lambda found: found.is_ready,
    b"/health": lambda found: found.state in {"running", "draining", "ended"},
}


class Monitor:
    """Serves ``/metrics``, ``/live``, ``/ready`` and ``/health`` while it is entered.

    ``/live`` is 200 as long as the process answers: a new one would do better only where it does
    not. ``/ready`` is 200 where every route is connected at each of its ends, or has ended without
    a fault, and none is about to end; 503 otherwise. ``/health`` is 200 where all routes run, 503
    where one does not, as where a target takes nothing. All three say the state of each route.

    It returns what each route counted until now, by name, and listens on a port that is free where
    it is 0.
    """

    def __init__(
        self, statistics: Callable[[], Mapping[str, Statistics]], host: str, port: int
    ) -> None:
        client = of_extra("prometheus_client", "bridge", "metrics need prometheus-client")
        self._client = client
        self._statistics = statistics
        self._host, self._port = host, port
        self._registry = client.CollectorRegistry(auto_describe=False)
        self._registry.register(self)
        for collector in ("ProcessCollector", "PlatformCollector", "GCCollector"):
            getattr(client, collector)(registry=self._registry)
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
        routes = self._statistics().items()
        counts: list[tuple[Any, ...]]
        for name, text, attribute in _COUNTERS:
            counts = [(route, getattr(found, attribute)) for route, found in routes]
            yield self._family("Counter", name, text, (), counts)
        for name, text in _BY_REASON:
            counts = [
                (route, reason, count)
                for route, found in routes
                for reason, count in getattr(found, name).items()
            ]
            yield self._family("Counter", name, text, ("reason",), counts)
        text = "Values that the translation changed or dropped."
        counts = [
            (route, path.encode("utf-8", "replace").decode(), action, count)
            for route, found in routes
            for (path, action), count in found.losses.items()
        ]
        yield self._family("Counter", "losses", text, ("path", "action"), counts)
        for name, text, attribute in _GAUGES:
            counts = [(route, getattr(found, attribute)) for route, found in routes]
            known = [(route, value) for route, value in counts if value is not None]
            yield self._family("Gauge", name, text, (), known)
        ends = [(route, end, found) for route, found in routes for end in found.connected]
        text = "1 where the end is connected, else 0."
        connected = [(route, end, found.connected[end]) for route, end, found in ends]
        yield self._family("Gauge", "connected", text, ("end",), connected)
        text = "Times that an end could not be reached."
        counts = [(route, end, found.unreachable[end]) for route, end, found in ends]
        yield self._family("Counter", "connect_failures", text, ("end",), counts)
        text = "Seconds from when a message was taken until it was settled at the source."
        histogram = self._family("Histogram", "latency_seconds", text, (), ())
        for route, found in routes:
            bounds = [*map(str, map(float, LATENCIES)), "+Inf"]
            buckets = list(zip(bounds, found.latency.cumulated(), strict=True))
            histogram.add_metric([route], buckets, found.latency.seconds)
        yield histogram

    def _family(
        self, kind: str, name: str, text: str, labels: Iterable[str], samples: Iterable[Any]
    ) -> Any:
        """Return a metric of the routes: of each sample the labels, and the value at its end."""
        make = getattr(self._client.metrics_core, f"{kind}MetricFamily")
        made = make(f"amqp10msg_bridge_{name}", text, labels=["route", *labels])
        for *said, value in samples:
            made.add_metric(said, value)
        return made

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
        elif path in _PROBES:
            counts = self._statistics()
            well = all(map(_PROBES[path], counts.values()))
            status = "200 OK" if well else "503 Service Unavailable"
            states = {name: found.state for name, found in counts.items()}
            kind, body = "application/json", json.dumps(states).encode()
        else:
            status, kind = "404 Not Found", "text/plain"
            body = b"/metrics, /live, /ready or /health\n"
        head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
        return f"{head}Connection: close\r\n\r\n".encode() + body
