"""Metrics for Prometheus and the health of a bridge, over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterator
from typing import Any, Self

from amqp10msg.net.bridge.bridge import Bridge

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
