"""What the tests of the bridge share: messages, options, and two queues of one stand-in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

from amqp10msg.basic import BasicMessage, BasicProperties, encode_content_header
from amqp10msg.net.bridge import Bridge, RouteOptions, Statistics, read_quarantine, route
from tests.basic_broker import BasicBroker, Stored

__all__ = [
    "Refusing",
    "between",
    "bodies",
    "bridged",
    "numbered",
    "options",
    "quarantined",
    "stored",
]


def stored(basic: BasicMessage) -> Stored:
    return Stored(encode_content_header(basic.properties, len(basic.body)), basic.body)


def numbered(count: int) -> list[Stored]:
    return [
        stored(BasicMessage(BasicProperties(message_id=f"m-{i}"), b"%d" % i)) for i in range(count)
    ]


def options(**given: Any) -> RouteOptions:
    usual = {"idle": 0.3, "window": 20, "backoff": 0.001, "max_backoff": 0.01}
    return RouteOptions(**{**usual, **given})


async def bridged(source: str, target: str, **given: Any) -> Statistics:
    """Run a bridge, which looks at its clock more often than usual, so that it ends when idle."""
    with mock.patch.object(route, "_TICK", 0.05):
        async with asyncio.timeout(60), Bridge(source, target, options(**given)) as bridge:
            (counts,) = (await bridge.run()).values()
    return counts


def between(
    sent: list[Stored], refuses: Callable[[Stored], str] = lambda _: "", **given: Any
) -> tuple[BasicBroker, Statistics]:
    """Bridge two queues of one stand-in."""

    async def run() -> tuple[BasicBroker, Statistics]:
        async with BasicBroker("from", "to") as broker:
            broker.queues["from"].extend(sent)
            broker.refuses = refuses
            counts = await bridged(broker.url("queue=from"), broker.url("queue=to"), **given)
        return broker, counts

    return asyncio.run(run())


def bodies(found: Any) -> list[bytes]:
    return [one.body for one in found]


def quarantined() -> list[bytes]:
    path = Path("quarantine.jsonl")
    return [one.octets for one in read_quarantine(path)] if path.exists() else []


class Refusing:
    """Refuses some messages, by what they hold, so many times each."""

    def __init__(self, how: str, bad: Callable[[int], bool], times: int = 1_000_000) -> None:
        self.how = how
        self.bad = bad
        self.times = times
        self.seen: dict[bytes, int] = {}

    def __call__(self, one: Stored) -> str:
        if not self.bad(int(one.body)):
            return ""
        self.seen[one.body] = self.seen.get(one.body, 0) + 1
        return self.how if self.seen[one.body] <= self.times else ""
