"""Serves the metrics of a bridge for Prometheus, and liveness, readiness and health probes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Self

from amqp10msg.net.bridge.statistics import LATENCY_BUCKET_BOUNDS, Statistics
from amqp10msg.wire.later import of_extra

#: Name, description and attribute of `Statistics` of each counter.
_COUNTERS = (
    ("received", "Deliveries of the source.", "received"),
    ("redelivered", "Deliveries marked as possibly delivered before.", "redelivered"),
    ("accepted", "Messages that the target accepted.", "accepted"),
    ("bytes", "Bytes of messages that the target accepted.", "octets"),
    ("duplicates", "Duplicates of messages that the target had.", "duplicates"),
    ("unmatched", "Messages that the filter did not match.", "unmatched"),
    ("dropped", "Messages that the hook dropped.", "dropped"),
    ("missed", "Messages of a stream removed by its retention before they were read.", "missed"),
    ("skipped", "Positions of a stream for which the broker delivered nothing.", "skipped"),
    ("stuck", "Messages refused many times that may be too large for the target.", "stuck"),
    ("left", "Messages too large for memory and for the folder.", "left"),
    ("source_lost", "Lost connections of the source.", "source_lost"),
    ("target_lost", "Lost connections of the target.", "target_lost"),
)
#: Name and description of the counters that have the label ``reason``. The name is also the
#: attribute of `Statistics`.
_COUNTERS_BY_REASON = (
    ("refused", "Refusals of a message by the target."),
    ("quarantined", "Messages in the quarantine."),
    ("requeued", "Messages returned to the source."),
    ("rejected", "Messages rejected at the source, which dead-letters them."),
)
#: Name, description and attribute of `Statistics` of each gauge.
_GAUGES = (
    ("in_flight", "Messages sent that have no outcome yet.", "in_flight"),
    ("waiting", "Received messages not sent yet.", "waiting"),
    ("held", "Messages waiting for a retry, or to be returned.", "held"),
    ("lag", "Messages in the source's queue.", "lag"),
    ("failed", "1 if the route ended because its source, target or disk cannot be used.", "failed"),
    ("last_success_timestamp_seconds", "When the target last accepted a message.", "last_success"),
)
#: Timeout of an HTTP request, in seconds.
_REQUEST_TIMEOUT = 5.0
#: The condition that every route must meet for each probe, by the path of the probe.
_PROBES: Mapping[bytes, Callable[[Statistics], bool]] = {
    b"/live": lambda _: True,
    b"/ready": lambda counts: counts.is_ready,
    b"/health": lambda counts: counts.state in {"running", "draining", "ended"},
}


class Monitor:
    """Serves ``/metrics``, ``/live``, ``/ready`` and ``/health`` as a context manager.

    - ``/live`` is 200 as long as the process answers: a restart would help only if it does not.
    - ``/ready`` is 200 if every route is connected at both ends, or has ended without an error, and
      no route is ending; otherwise 503.
    - ``/health`` is 200 if every route is running, draining or ended; otherwise 503, for example if
      a target accepts no messages.

    The body of the last three is a JSON object with the state of each route.

    Args:
        statistics: returns the current counts of each route, by name.
        host: the address to listen on.
        port: the port to listen on; 0 for a free one.

    Attributes:
        url: the URL of the server, while it runs.
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
        try:
            self._server = await asyncio.start_server(self._answer, self._host, self._port)
        except OSError as error:  # asyncio's text does not say what the address was for
            reason = os.strerror(error.errno) if error.errno else str(error)
            text = f"metrics cannot be served at {self._host}:{self._port} (--listen): {reason}"
            raise OSError(error.errno, text) from None
        host, port = self._server.sockets[0].getsockname()[:2]
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await self._server.wait_closed()

    def collect(self) -> Iterator[Any]:
        """Yield the current metrics; the registry of prometheus_client calls this."""
        routes = self._statistics().items()
        counts: list[tuple[Any, ...]]
        for name, text, attribute in _COUNTERS:
            counts = [(route, getattr(counter, attribute)) for route, counter in routes]
            yield self._family("Counter", name, text, (), counts)
        for name, text in _COUNTERS_BY_REASON:
            counts = [
                (route, reason, count)
                for route, statistics in routes
                for reason, count in getattr(statistics, name).items()
            ]
            yield self._family("Counter", name, text, ("reason",), counts)
        text = "Values that the translation changed or dropped."
        counts = [
            (route, path.encode("utf-8", "replace").decode(), action, count)
            for route, statistics in routes
            for (path, action), count in statistics.losses.items()
        ]
        yield self._family("Counter", "losses", text, ("path", "action"), counts)
        for name, text, attribute in _GAUGES:
            counts = [(route, getattr(counter, attribute)) for route, counter in routes]
            measured = [(route, value) for route, value in counts if value is not None]
            yield self._family("Gauge", name, text, (), measured)
        connections = [
            (route, end, statistics) for route, statistics in routes for end in statistics.connected
        ]
        text = "1 if the end is connected, else 0."
        connected = [
            (route, end, statistics.connected[end]) for route, end, statistics in connections
        ]
        yield self._family("Gauge", "connected", text, ("end",), connected)
        text = "Failed attempts to connect an end."
        counts = [
            (route, end, statistics.unreachable[end]) for route, end, statistics in connections
        ]
        yield self._family("Counter", "connect_failures", text, ("end",), counts)
        text = "Seconds from receiving a message to settling it at the source."
        histogram = self._family("Histogram", "latency_seconds", text, (), ())
        for route, statistics in routes:
            bounds = [*map(str, map(float, LATENCY_BUCKET_BOUNDS)), "+Inf"]
            buckets = list(zip(bounds, statistics.latency.cumulated(), strict=True))
            histogram.add_metric([route], buckets, statistics.latency.total_seconds)
        yield histogram

    def _family(
        self, kind: str, name: str, text: str, labels: Iterable[str], samples: Iterable[Any]
    ) -> Any:
        """Return a metric family.

        Args:
            kind: ``Counter``, ``Gauge`` or ``Histogram``.
            name: the name without its prefix.
            text: the description.
            labels: the names of the labels after ``route``.
            samples: tuples of the name of the route, the values of `labels`, and the value.
        """
        make = getattr(self._client.metrics_core, f"{kind}MetricFamily")
        family = make(f"amqp10msg_bridge_{name}", text, labels=["route", *labels])
        for *label_values, value in samples:
            family.add_metric(label_values, value)
        return family

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one HTTP request, and close the connection."""
        with contextlib.suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
            try:
                async with asyncio.timeout(_REQUEST_TIMEOUT):
                    head = await reader.readuntil(b"\r\n\r\n")
                    path = head.split(b" ", 2)[1].partition(b"?")[0] if b" " in head else b""
                    writer.write(self._response(path))
                    await writer.drain()
            except asyncio.LimitOverrunError:
                pass  # not a request for this server: its header is too large
            finally:
                writer.close()

    def _response(self, path: bytes) -> bytes:
        """Return the HTTP response to a GET of `path`."""
        if path == b"/metrics":
            status, kind = "200 OK", str(self._client.CONTENT_TYPE_LATEST)
            body: bytes = self._client.generate_latest(self._registry)
        elif path in _PROBES:
            counts = self._statistics()
            passes = all(map(_PROBES[path], counts.values()))
            status = "200 OK" if passes else "503 Service Unavailable"
            states = {name: statistics.state for name, statistics in counts.items()}
            kind, body = "application/json", json.dumps(states).encode()
        else:
            status, kind = "404 Not Found", "text/plain"
            body = b"/metrics, /live, /ready or /health\n"
        head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
        return f"{head}Connection: close\r\n\r\n".encode() + body
