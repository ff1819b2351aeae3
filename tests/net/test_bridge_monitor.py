"""Monitoring of a bridge: metrics, probes, the dashboard and the alerts."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pika")
pytest.importorskip("prometheus_client")

import yaml
from prometheus_client.parser import text_string_to_metric_families as families

from amqp10msg.net.bridge import Bridge, LinkError, Statistics
from amqp10msg.net.bridge.monitor import Monitor
from amqp10msg.net.bridge.statistics import LATENCY_BUCKET_BOUNDS, Latency
from tests.basic_broker import BasicBroker
from tests.bridging import Refusing, numbered, options
from tests.waiting import until

pytestmark = [pytest.mark.once, pytest.mark.usefixtures("in_a_folder")]
MONITORING = Path(__file__).parents[2] / "docs" / "monitoring"


@given(st.lists(st.floats(0, 100) | st.sampled_from(LATENCY_BUCKET_BOUNDS)))
def test_latency_histogram_is_cumulative(seconds: list[float]) -> None:
    latency = Latency()
    for one in seconds:
        latency.add(one)

    expected = [sum(one <= bound for one in seconds) for bound in LATENCY_BUCKET_BOUNDS]
    assert [*expected, len(seconds)] == latency.cumulated()
    assert pytest.approx(sum(seconds)) == latency.total_seconds


@pytest.mark.parametrize("connected", [{}, {"source": True}, {"source": True, "target": False}])
@pytest.mark.parametrize("ending", ["", "stopped"])
@pytest.mark.parametrize("state", ["running", "target refuses", "draining", "ended", "failed"])
def test_is_ready(connected: dict[str, bool], ending: str, state: str) -> None:
    counts = Statistics(connected=connected, ending=ending, state=state)

    both = list(connected.values()) == [True]
    going = state in {"running", "target refuses"} and not ending
    assert (state == "ended" or (going and both)) == counts.is_ready


def asked(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


class Watched:
    """A bridge with its monitor's answers over HTTP."""

    def __init__(self, bridge: Bridge, monitor: Monitor) -> None:
        self.bridge, self._monitor = bridge, monitor

    async def get(self, path: str) -> tuple[int, str]:
        return await asyncio.to_thread(asked, f"{self._monitor.url}{path}")

    async def probes(self) -> tuple[int, int, int]:
        live, ready, health = [(await self.get(p))[0] for p in ("/live", "/ready", "/health")]
        return live, ready, health

    async def samples(self) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
        status, text = await self.get("/metrics")
        assert 200 == status
        return {
            (one.name, frozenset(one.labels.items())): one.value
            for family in families(text)
            for one in family.samples
        }

    async def value(self, name: str, **labels: str) -> float | None:
        key = (f"amqp10msg_bridge_{name}", frozenset({"route": "from -> to", **labels}.items()))
        return (await self.samples()).get(key)


def watched(
    made: Callable[[BasicBroker, Watched], Awaitable[Any]], *, away: bool = True, **given: Any
) -> Any:
    """Run a bridge between queues of two brokers; the target's may be unreachable at first."""

    async def run() -> Any:
        async with BasicBroker("from") as old, BasicBroker("to") as new:
            old.queues["from"].extend(numbered(40))
            bridge = Bridge(old.url("queue=from"), new.url("queue=to"), options(**given))
            async with (
                asyncio.timeout(20),
                Monitor(lambda: bridge.statistics, "127.0.0.1", 0) as monitor,
            ):
                if away:
                    await new.down()
                async with bridge:
                    return await made(new, Watched(bridge, monitor))

    return asyncio.run(run())


def test_probes_and_metrics_follow_the_target() -> None:
    async def made(new: BasicBroker, seen: Watched) -> None:
        (counts,) = seen.bridge.statistics.values()
        await until(lambda: counts.unreachable["target"] > 1)
        assert (200, 503, 503) == await seen.probes()
        assert 0 == await seen.value("connected", end="target")
        assert 1 < (await seen.value("connect_failures_total", end="target") or 0)
        assert 0 == await seen.value("connect_failures_total", end="source")
        assert await seen.value("last_success_timestamp_seconds") is None

        await new.listen()
        await until(lambda: counts.accepted == 40 and counts.state == "running")
        assert (200, 200, 200) == await seen.probes()
        assert 1 == await seen.value("connected", end="target")
        assert 1 == await seen.value("connected", end="source")
        assert 40 == await seen.value("latency_seconds_count")
        assert 40 == await seen.value("latency_seconds_bucket", le="+Inf")
        assert 0 < (await seen.value("latency_seconds_sum") or 0)
        assert 1e9 < (await seen.value("last_success_timestamp_seconds") or 0)
        assert 0 == await seen.value("failed")

        await new.down()
        await until(lambda: counts.target_lost == 1 and not counts.connected["target"])
        assert (200, 503, 503) == await seen.probes()

    watched(made, idle=None)


def test_held_messages_are_counted() -> None:
    """The route is ready although the target refuses messages: a restart would not help."""

    async def made(new: BasicBroker, seen: Watched) -> None:
        new.refuses = Refusing("nack", lambda _: True)
        (counts,) = seen.bridge.statistics.values()
        await until(lambda: counts.held == 20 and counts.in_flight == 0)
        assert 20 == await seen.value("held")
        assert 20 <= (await seen.value("refused_total", reason="nacked") or 0)
        assert (200, 200) == (await seen.probes())[:2]
        seen.bridge.stop()
        await seen.bridge.run()
        assert 0 == await seen.value("held")
        assert 0 == await seen.value("connected", end="source")
        assert (200, 200, 200) == await seen.probes()

    watched(made, away=False, idle=None, backoff=30, max_backoff=30, drain=0)


def test_a_route_that_failed_is_live_and_not_ready() -> None:
    async def made(new: BasicBroker, seen: Watched) -> None:
        del new.queues["to"]
        await new.listen()
        with pytest.raises(LinkError, match="no queue 'to'"):
            await seen.bridge.run()
        assert (200, 503, 503) == await seen.probes()
        assert 1 == await seen.value("failed")
        assert '{"from -> to": "failed"}' == (await seen.get("/ready"))[1]
        assert 404 == (await seen.get("/"))[0]
        raise LookupError

    with pytest.raises(LookupError):
        watched(made, idle=None)


# The files beside the documentation.


def exposed() -> tuple[set[str], set[str]]:
    """Return the metric names of a route that has counted every event, and their labels."""
    counts = Statistics(lag=1, last_success=1.0, connected={"source": True})
    counts.quarantined["full"] = counts.requeued["full"] = counts.rejected["full"] = 1
    counts.refused["full"] = 1
    counts.lose("p", "dropped")
    monitor = Monitor(lambda: {"r": counts}, "127.0.0.1", 0)
    text = monitor._response(b"/metrics").decode().partition("\r\n\r\n")[2]
    samples = [one for family in families(text) for one in family.samples]
    return {one.name for one in samples}, {name for one in samples for name in one.labels}


def expressions() -> Iterator[tuple[str, str]]:
    rules = yaml.safe_load((MONITORING / "bridge-alerts.yml").read_text())
    for group in rules["groups"]:
        for rule in group["rules"]:
            yield rule["alert"], rule["expr"]
    board = json.loads((MONITORING / "bridge-dashboard.json").read_text())
    for panel in board["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["name"], variable["query"]


@pytest.mark.parametrize("title, expression", list(expressions()))
def test_dashboard_and_alerts_use_existing_metrics(title: str, expression: str) -> None:
    names, labels = exposed()

    asked = set(re.findall(r"\b(?:amqp10msg|process)_\w+", expression))
    assert asked
    assert set() == asked - names, title
    by = " ".join(re.findall(r"\b(?:by|on) \(([^)]*)\)", expression)).replace(",", " ").split()
    by += re.findall(r"(\w+)=~", expression)
    assert set() == set(by) - labels - {"job", "instance"}, title


def test_alert_annotations_use_existing_labels() -> None:
    _, labels = exposed()
    text = (MONITORING / "bridge-alerts.yml").read_text()

    assert set() == set(re.findall(r"\$labels\.(\w+)", text)) - labels


def test_metrics_have_help_and_include_the_process() -> None:
    text = Monitor(dict, "127.0.0.1", 0)._response(b"/metrics").decode()

    found = {family.name: family for family in families(text.partition("\r\n\r\n")[2])}
    assert all(family.documentation for family in found.values())
    assert {"process_resident_memory_bytes", "python_info"} <= found.keys()


def test_error_of_a_used_port_says_what_the_port_is_for() -> None:
    async def listen() -> None:
        with socket.create_server(("127.0.0.1", 0)) as used:
            async with Monitor(dict, "127.0.0.1", used.getsockname()[1]):
                pass

    with pytest.raises(OSError, match=r"metrics cannot be served at 127\.0\.0\.1:\d+ \(--listen\)"):
        asyncio.run(listen())
