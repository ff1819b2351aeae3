"""Messages that a target refuses, and that `on` returns to the source."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from amqp10msg import Message
from amqp10msg.net.bridge import Bridge, RouteOptions
from amqp10msg.net.bridge.statistics import Statistics
from amqp10msg.net.serve import Server


@pytest.mark.parametrize("kind", ["too-large", "rejected"])
def test_requeued_message_is_not_read_again_and_again(kind: str) -> None:
    """The source delivers a released message again immediately: it stays with the route."""
    options: dict[str, Any] = {"max_message_size": 200} if kind == "too-large" else {}
    hook: dict[str, Any] = {} if kind == "too-large" else {"change": _refuse_large}

    async def move(source: str, target: str) -> Statistics:
        # With a shorter pause than the idle time, the messages would keep the route from ending.
        route = RouteOptions(
            on={kind: "requeue", "untranslatable": "requeue"}, idle=0.5, max_backoff=0.1, **hook
        )
        async with asyncio.timeout(60), Bridge(source, target, route) as bridge:
            (counts,) = (await bridge.run()).values()
        return counts

    with Server() as old, Server(**options) as new:
        for size in (500, 10, 500, 20, 500):
            old.publish("q", Message(bytes(size)))
        counts = asyncio.run(move(f"{old.url}/q", f"{new.url}/q"))

        assert (5, 2, 3) == (counts.received, counts.accepted, counts.requeued.total())
        assert 3 == old.counts("q").available
        assert 2 == new.counts("q").available


def _refuse_large(message: Any, _: Any) -> Any:
    if message.size > 200:
        raise ValueError("too large for this test")
    return message
