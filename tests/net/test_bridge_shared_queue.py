"""Bridges that empty one queue together, or beside another consumer of it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pika")

from amqp10msg.net.bridge import (
    Bridge,
    RouteSpec,
    Statistics,
    parse_url,
)
from amqp10msg.net.bridge.process import status_of
from amqp10msg.net.ends import basic
from amqp10msg.net.ends.terms import SourceDelivery, SourceRequest
from tests.basic_broker import BasicBroker
from tests.bridging import bodies, numbered, options, short_waits
from tests.waiting import until

pytestmark = pytest.mark.once


@pytest.fixture(autouse=True)
def _quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    short_waits(monkeypatch, query_interval=0.1, recount_delay=0.05)


def until_empty(broker: BasicBroker, number: int = 0, **given: Any) -> Bridge:
    """Return a bridge that only ends when the source is empty, or after the time of the test."""
    urls = (broker.url("queue=from"), broker.url("queue=to"))
    usual = {"idle": 0.1, "stall": 600.0, "quarantine": Path(f"quarantine-{number}.jsonl")}
    return Bridge(*urls, options(**{**usual, **given}))


async def run(bridge: Bridge) -> Statistics:
    async with asyncio.timeout(60), bridge:
        (counts,) = (await bridge.run()).values()
    return counts


async def other_consumer(broker: BasicBroker, window: int) -> tuple[Any, list[SourceDelivery]]:
    """Consume the queue, and settle nothing."""
    held: list[SourceDelivery] = []
    link = await basic.open_source(
        SourceRequest(
            endpoint=parse_url(broker.url("queue=from")),
            receive=held.extend,
            on_lost=lambda _: None,
            window=window,
            max_message=1_000,
            overflow=lambda: None,  # type: ignore[arg-type,return-value]
        )
    )
    return link, held


@pytest.mark.parametrize("bridges", [2, 3])
@pytest.mark.parametrize("messages", [0, 1, 300])
def test_bridges_on_one_queue_all_end_when_it_is_empty(bridges: int, messages: int) -> None:
    async def made() -> tuple[BasicBroker, list[Statistics]]:
        async with BasicBroker("from", "to") as broker:
            broker.queues["from"].extend(numbered(messages))
            runs = [run(until_empty(broker, number)) for number in range(bridges)]
            return broker, await asyncio.gather(*runs)

    broker, found = asyncio.run(made())

    assert {"empty": bridges} == Counter(counts.ending for counts in found)
    assert 0 == status_of(found)
    assert {one.body: 1 for one in numbered(messages)} == Counter(bodies(broker.queues["to"]))
    assert messages == sum(counts.accepted for counts in found)
    assert 0 == sum(counts.redelivered for counts in found)


def test_routes_of_one_bridge_that_share_a_queue_all_end() -> None:
    async def made() -> Iterable[Statistics]:
        async with BasicBroker("from", "to") as broker:
            broker.queues["from"].extend(numbered(50))
            urls = (broker.url("queue=from"), broker.url("queue=to"))
            given = options(idle=0.1, stall=600.0)
            bridge = Bridge([RouteSpec(*urls, given, name=name) for name in ("one", "two")])
            async with asyncio.timeout(60), bridge:
                return (await bridge.run()).values()

    assert ["empty", "empty"] == [counts.ending for counts in asyncio.run(made())]


@pytest.mark.parametrize("late", [0, 1])
def test_a_message_that_arrives_while_a_bridge_stops_consuming_is_moved(
    late: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes before the cancel reaches the broker, or after the answer to the next question."""
    stop = basic.BasicSource.stop
    added: list[None] = []

    async def made() -> tuple[BasicBroker, list[Statistics]]:
        async with BasicBroker("from", "to") as broker:
            broker.late = late

            def stopping(self: basic.BasicSource) -> None:
                if not added:
                    added.append(None)
                    broker.queues["from"].extend(numbered(1))
                    if not late:
                        broker.serve()
                stop(self)

            monkeypatch.setattr(basic.BasicSource, "stop", stopping)
            runs = [run(until_empty(broker, number)) for number in range(2)]
            return broker, await asyncio.gather(*runs)

    broker, found = asyncio.run(made())

    assert [None] == added
    assert [b"0"] == bodies(broker.queues["to"])
    assert ["empty", "empty"] == [counts.ending for counts in found]
    assert 0 == status_of(found)


def test_a_bridge_consumes_again_when_messages_are_ready() -> None:
    """Another consumer holds three messages all along, and then leaves."""

    async def made() -> tuple[list[str], BasicBroker, Statistics]:
        async with BasicBroker("from", "to") as broker:
            broker.queues["from"].extend(numbered(3))
            other, held = await other_consumer(broker, window=3)
            await until(lambda: len(held) == 3)
            bridge = until_empty(broker)
            running = asyncio.ensure_future(run(bridge))
            states = []
            for count in (1, 2):
                await until(
                    lambda: bridge.routes and "other consumers" in bridge.routes[0].statistics.state
                )
                states.append(bridge.routes[0].statistics.state)
                assert bridge.routes[0].statistics.connected["source"]
                broker.queues["from"].append(numbered(5)[-count])
                await until(lambda: len(broker.queues["to"]) == len(states))
            other.abort()
            return states, broker, await running

    states, broker, counts = asyncio.run(made())

    assert 2 == len(states)
    assert {one.body: 1 for one in numbered(5)} == Counter(bodies(broker.queues["to"]))
    assert ("empty", 0, 0) == (counts.ending, counts.others, status_of([counts]))


def test_remaining_consumer_is_reported() -> None:
    async def made() -> Statistics:
        async with BasicBroker("from", "to") as broker:
            broker.queues["from"].extend(numbered(3))
            other, held = await other_consumer(broker, window=3)
            await until(lambda: len(held) == 3)
            counts = await run(until_empty(broker, stall=0.6))
            other.abort()
            return counts

    counts = asyncio.run(made())

    assert ("stalled", 0, 1, 4) == (
        *(counts.ending, counts.remaining, counts.others),
        status_of([counts]),
    )


def test_bridge_can_be_stopped_while_it_only_counts() -> None:
    async def made() -> Statistics:
        async with BasicBroker("from", "to") as broker:
            other, _ = await other_consumer(broker, window=3)
            bridge = until_empty(broker)
            running = asyncio.ensure_future(run(bridge))
            await until(
                lambda: bridge.routes and "other consumers" in bridge.routes[0].statistics.state
            )
            bridge.stop()
            counts = await running
            other.abort()
            return counts

    counts = asyncio.run(made())

    assert ("stopped", 0, 4) == (counts.ending, counts.remaining, status_of([counts]))
