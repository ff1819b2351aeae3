"""What the tests of the bridge share: messages, options, and two queues of one stand-in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from amqp10msg.basic import BasicMessage, BasicProperties, encode_content_header
from amqp10msg.net.bridge import Bridge, RouteOptions, Statistics, read_quarantine
from amqp10msg.net.bridge import options as net_options
from amqp10msg.net.bridge.options import Waits
from tests.basic_broker import BasicBroker, Stored

__all__ = [
    "Refusing",
    "between",
    "bodies",
    "bridged",
    "numbered",
    "options",
    "quarantined",
    "short_waits",
    "stored",
]


def stored(basic: BasicMessage) -> Stored:
    return Stored(encode_content_header(basic.properties, len(basic.body)), basic.body)


def numbered(count: int) -> list[Stored]:
    return [
        stored(BasicMessage(BasicProperties(message_id=f"m-{i}"), b"%d" % i)) for i in range(count)
    ]


def short_waits(monkeypatch: pytest.MonkeyPatch, **seconds: float) -> None:
    """Let routes that the test makes, also those of commands, wait for so many seconds."""
    monkeypatch.setattr(net_options, "WAITS", Waits(check_interval=0.05, **seconds))


def options(**given: Any) -> RouteOptions:
    """Return options for a route that ends soon, and looks at its clock often."""
    waits = attrs.evolve(net_options.WAITS, check_interval=0.05)
    usual = {"idle": 0.3, "window": 20, "backoff": 0.001, "max_backoff": 0.01, "waits": waits}
    return RouteOptions(**{**usual, **given})


async def bridged(source: str, target: str, **given: Any) -> Statistics:
    """Run a bridge until it ends by itself."""
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
