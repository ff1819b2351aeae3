"""Poison messages, which end connections of the target or source, are found without a loop."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pika")

from amqp10msg import Message, Symbol
from amqp10msg.net.bridge import Bridge, LinkError, Statistics
from amqp10msg.net.serve import Server
from tests.basic_broker import BasicBroker, Stored
from tests.bridging import Refusing, between, bodies, bridged, numbered, options, quarantined
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("in_a_folder")


# Of the target.


@pytest.mark.parametrize("how", ["cut", "close"])
def test_only_poison_messages_are_quarantined(how: str) -> None:
    sent = numbered(200)

    broker, counts = between(sent, Refusing(how, lambda number: number % 50 == 49))

    poison = [b"49", b"99", b"149", b"199"]
    assert poison == sorted(quarantined(), key=int)
    assert {one.body for one in sent} - set(poison) == set(bodies(broker.queues["to"]))
    assert ({"fatal": 4}, 196, 0) == (counts.quarantined, counts.accepted, counts.source_lost)
    assert [] == list(broker.queues["from"])


def test_bridge_reconnects_to_a_silent_target() -> None:
    sent = numbered(30)

    broker, counts = between(
        sent, Refusing("silent", lambda number: number == 11), outcome_timeout=0.05
    )

    assert [b"11"] == quarantined()
    assert {b"%d" % i for i in range(30) if i != 11} == set(bodies(broker.queues["to"]))
    assert counts.target_lost >= 3


@pytest.mark.parametrize("action", ["requeue", "reject"])
def test_action_for_a_poison_message(action: str) -> None:
    poison = Refusing("close", lambda number: number == 3, 1)

    broker, counts = between(numbered(4), poison, on={"fatal": action}, window=1)

    assert [] == quarantined()
    if action == "reject":
        assert [b"3"] == bodies(broker.dead)
        assert {"fatal": 1} == counts.rejected
    else:
        assert ([b"3"], {"fatal": 1}) == (bodies(broker.queues["from"]), counts.requeued)


def test_unwritable_quarantine_settles_no_message() -> None:
    poison = Refusing("close", lambda number: number == 3)

    async def run() -> BasicBroker:
        async with BasicBroker("from", "to") as broker:
            broker.queues["from"].extend(numbered(10))
            broker.refuses = poison
            urls = (broker.url("queue=from"), broker.url("queue=to"))
            with pytest.raises(OSError, match="No such file"):
                await bridged(*urls, quarantine=Path("no/such/folder.jsonl"))
        return broker

    broker = asyncio.run(run())

    assert b"3" in bodies(broker.queues["from"])


@pytest.mark.parametrize("window", [20, 100])
def test_only_messages_in_flight_at_the_first_disconnect_are_duplicated(window: int) -> None:
    """Suspects are sent one at a time, so the search duplicates no further message."""
    sent = numbered(300)
    ends = 0

    def refuses(one: Stored) -> str:
        nonlocal ends
        if int(one.body) % 50 == 49:
            ends += 1
            return "close"
        return ""

    broker, counts = between(sent, refuses, window=window)

    came = Counter(bodies(broker.queues["to"]))
    assert {int(one) for one in came} == {n for n in range(300) if n % 50 != 49}
    assert {"fatal": 6} == counts.quarantined
    # Each poison ends the connection once among others, and once alone.
    assert counts.target_lost == ends <= 12
    assert max(came.values()) <= 2


@pytest.mark.parametrize("hook", [None, lambda message, _: message])
def test_losses_are_counted_once_for_each_message(hook: Any) -> None:
    async def run(source: str) -> Statistics:
        async with BasicBroker("to") as broker:
            broker.refuses = Refusing("nack", lambda _: True, times=2)
            given = {"profile": "rabbitmq-4.3", "change": hook}
            return await bridged(source, broker.url("queue=to"), max_messages=9, **given)

    with Server(accept_durable=True) as server:
        for number in range(9):
            server.publish("q", Message(b"%d" % number, footer={Symbol("x-opt-a"): 1}))
        counts = asyncio.run(run(f"{server.url}/q"))

    assert (9, 18) == (counts.accepted, counts.refused["nacked"])
    assert {9} == set(counts.losses.values())


# Of the source.


def test_source_that_cannot_deliver_a_message_ends_the_route() -> None:
    async def run() -> tuple[BasicBroker, LinkError]:
        async with BasicBroker("from", "to") as broker:
            broker.queues["from"].extend(numbered(60))
            broker.chokes = lambda one: one.body == b"37"
            with pytest.raises(LinkError) as raised:
                await bridged(broker.url("queue=from"), broker.url("queue=to"), idle=None)
        return broker, raised.value

    broker, error = asyncio.run(run())

    assert error.permanent
    assert "3 times in a row instead of delivering its next message (541 INTERNAL)" in str(error)
    assert "from" in str(error)
    assert b"37" == broker.queues["from"][0].body
    came = Counter(bodies(broker.queues["to"]))
    assert {b"%d" % n for n in range(37)} == set(came)
    # Twice it was asked for many, then for one at a time.
    assert max(came.values()) <= 3
    assert [] == quarantined()


@settings(max_examples=10)
@given(st.sets(st.integers(0, 79), max_size=4), st.integers(1, 30))
def test_intermittently_failing_source_is_emptied(bad: set[int], window: int) -> None:
    """Each bad message ends the connection three times, and then passes."""
    left = dict.fromkeys((b"%d" % number for number in bad), 3)

    def chokes(one: Stored) -> bool:
        if left.get(one.body, 0):
            left[one.body] -= 1
            return True
        return False

    async def run() -> tuple[BasicBroker, Statistics]:
        async with BasicBroker("from", "to") as broker:
            broker.queues["from"].extend(numbered(80))
            broker.chokes = chokes
            urls = (broker.url("queue=from"), broker.url("queue=to"))
            async with (
                asyncio.timeout(60),
                Bridge(*urls, options(window=window, idle=None)) as bridge,
            ):
                running = asyncio.ensure_future(bridge.run())
                await until(
                    lambda: (
                        not (broker.queues["from"] or any(one.unacked for one in broker.channels))
                    )
                )
                await until(lambda: len(set(bodies(broker.queues["to"]))) >= 80)
                bridge.stop()
                (counts,) = (await running).values()
        return broker, counts

    broker, counts = asyncio.run(run())

    assert {b"%d" % number for number in range(80)} == set(bodies(broker.queues["to"]))
    assert [] == list(broker.queues["from"])
    assert 3 * len(bad) == counts.source_lost


def test_cut_source_does_not_end_the_route() -> None:
    """A cut may happen any number of times: the queue may be empty, and its broker restarted."""

    async def run() -> Statistics:
        async with BasicBroker("from", "to") as broker:

            async def cut() -> None:
                for _ in range(8):
                    await until(lambda: any(peer.queue for peer in broker.channels))
                    broker.cut()
                broker.queues["from"].extend(numbered(5))
                broker.serve()

            cutting = asyncio.ensure_future(cut())
            urls = (broker.url("queue=from"), broker.url("queue=to"))
            counts = await bridged(*urls, max_messages=5, idle=None)
            await cutting
        return counts

    counts = asyncio.run(run())

    assert 5 <= counts.accepted
    assert counts.source_lost >= 5
