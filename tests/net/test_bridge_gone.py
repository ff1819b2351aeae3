"""Sources and targets that are deleted or refuse access while a bridge runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("pika")

from pika import spec

from amqp10msg.net.bridge import Bridge, LinkError, Route, RouteSpec, Statistics
from amqp10msg.net.bridge.process import status_of
from tests.basic_broker import BasicBroker
from tests.bridging import bodies, bridged, numbered, options, quarantined
from tests.net import odd_broker
from tests.waiting import holds, until

pytestmark = [pytest.mark.once, pytest.mark.usefixtures("in_a_folder")]

COUNT, WINDOW, BEFORE, ATTEMPTS = 200, 20, 50, 3


@pytest.fixture
def odd() -> Iterator[tuple[str, odd_broker.OddBroker]]:
    with odd_broker.running() as found:
        found[1].ending["to"] = BEFORE
        yield found


def events(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage().split()[0] for one in caplog.records if one.levelno == logging.ERROR]


def delete_after(broker: BasicBroker, count: int, then: Callable[[], object]) -> None:
    """Delete the target's queue after it received this many messages."""
    left = [count]

    def refuses(_: Any) -> str:
        left[0] -= 1
        if left[0] == 0:
            broker.queues.pop("to")
            then()
        return ""

    broker.refuses = refuses


def test_deleted_queue_is_waited_for_once(caplog: pytest.LogCaptureFixture) -> None:
    """Regression: every window waited for the deleted queue."""

    async def run() -> tuple[BasicBroker, Statistics]:
        async with BasicBroker("from", "to") as broker:
            broker.queues["from"].extend(numbered(COUNT))
            delete_after(broker, BEFORE, lambda: None)
            urls = (broker.url("queue=from"), broker.url("queue=to"))
            return broker, await bridged(*urls, attempts=ATTEMPTS)

    broker, counts = asyncio.run(run())

    assert (0, 5, "empty") == (len(broker.queues["from"]), status_of([counts]), counts.ending)
    assert COUNT == counts.accepted + len(quarantined())
    refused = counts.refused["returned"]
    assert refused <= WINDOW * ATTEMPTS + COUNT - BEFORE
    assert ATTEMPTS + COUNT - BEFORE <= refused
    assert ["target-queue-deleted", "target-given-up"] == events(caplog)


def test_message_refused_after_its_source_was_lost_is_not_sent_again() -> None:
    """The source delivers the message again: only that copy may be sent."""

    async def run() -> tuple[BasicBroker, BasicBroker, Statistics]:
        async with BasicBroker("from") as source, BasicBroker("to") as target:
            source.queues["from"].extend(numbered(1))
            target.deaf.add("to")
            urls = (source.url("queue=from"), target.url("queue=to"))
            running = asyncio.ensure_future(bridged(*urls))
            await until(lambda: len(target.queues["to"]) == 1)
            source.cut()
            await until(lambda: len(target.queues["to"]) == 2)
            (first, number), _ = target._unheard
            del target.queues["to"][0], target._unheard[0]
            first.write(spec.Basic.Nack(number, False, False))
            target.hear()
            return source, target, await running

    source, target, counts = asyncio.run(run())

    assert [b"0"] == bodies(target.queues["to"])
    assert ({"nacked": 1}, 1, 1) == (counts.refused, counts.accepted, counts.source_lost)
    assert not source.queues["from"]
    assert [] == quarantined()


def test_deleted_address_is_waited_for_once(
    odd: tuple[str, odd_broker.OddBroker], caplog: pytest.LogCaptureFixture
) -> None:
    """Regression: a bounded route whose target refused the link never ended."""

    async def run() -> tuple[BasicBroker, Statistics]:
        async with BasicBroker("from") as broker:
            broker.queues["from"].extend(numbered(COUNT))
            urls = (broker.url("queue=from"), f"{odd[0]}/to")
            return broker, await bridged(*urls, attempts=ATTEMPTS)

    broker, counts = asyncio.run(run())

    assert (0, 5, "empty") == (len(broker.queues["from"]), status_of([counts]), counts.ending)
    assert COUNT <= len(odd[1].queues["to"]) + len(quarantined()) <= COUNT + WINDOW
    assert {"released": len(quarantined())} == counts.quarantined
    assert counts.refused["released"] <= WINDOW * ATTEMPTS + COUNT - BEFORE
    assert ["target-queue-deleted", "target-given-up"] == events(caplog)


def test_unbounded_route_keeps_requeuing_messages() -> None:
    """Each message is requeued after its attempts."""

    async def run() -> Statistics:
        async with BasicBroker("from", "to") as broker:
            broker.queues["from"].extend(numbered(COUNT))
            delete_after(broker, 1, lambda: None)
            how = {"returned": "requeue"}
            given = options(attempts=2, on=how, max_backoff=0.1, backoff=0.1, idle=None)
            urls = (broker.url("queue=from"), broker.url("queue=to"))
            async with asyncio.timeout(60), Bridge(*urls, given) as bridge:
                (counts,) = (one.statistics for one in bridge.routes)
                await until(lambda: counts.requeued)
                await holds(lambda: counts.requeued["returned"] <= 10 * WINDOW, 0.3)
                bridge.stop()
                await bridge.run()
            # Until the broker has put it back.
            await until(lambda: len(broker.queues["from"]) >= COUNT - counts.accepted)
            return counts

    counts = asyncio.run(run())

    assert 0 < counts.requeued["returned"] <= 10 * WINDOW
    assert [] == quarantined()


@pytest.mark.parametrize("late", [0, WINDOW])
@pytest.mark.parametrize("protocol", ["0-9-1", "1.0"])
def test_requeue_ends_a_bounded_route(
    protocol: str,
    late: int,
    odd: tuple[str, odd_broker.OddBroker],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Regression: messages were redelivered until the deadline, and late ones were not counted."""
    broker = BasicBroker("from", "to")
    broker.late = late
    target = f"{odd[0]}/to"

    async def run() -> Statistics:
        await broker.listen()
        broker.serve()
        broker.queues["from"].extend(numbered(COUNT))
        if protocol == "0-9-1":
            delete_after(broker, BEFORE, lambda: None)
        given = options(attempts=ATTEMPTS, on={"returned": "requeue", "released": "requeue"})
        ends = broker.url("queue=from"), broker.url("queue=to") if protocol == "0-9-1" else target
        bridge = Bridge(*ends, given)
        try:
            with pytest.raises(LinkError, match="refused messages would be requeued"):
                async with asyncio.timeout(60), bridge:
                    await bridge.run()
        finally:
            await broker.down()
        return bridge.routes[0].statistics

    counts = asyncio.run(run())

    assert ("failed", []) == (counts.ending, quarantined())
    left = len(broker.queues["from"])
    assert COUNT - BEFORE <= left
    assert COUNT == left + counts.accepted
    assert left == counts.remaining
    assert ["target-queue-deleted", "target-given-up", "route-failed"] == events(caplog)


@pytest.mark.parametrize("ends", [True, False])
def test_recreated_address_gets_all_messages(
    ends: bool, odd: tuple[str, odd_broker.OddBroker]
) -> None:
    """A bounded route waits as long as for any refusal, an unbounded route without limit."""
    url, odd_one = odd

    async def run() -> Statistics:
        async with BasicBroker("from") as broker:
            broker.queues["from"].extend(numbered(COUNT))
            given = options(attempts=100_000 if ends else 2, idle=0.3 if ends else None)
            async with asyncio.timeout(60):
                async with Bridge(broker.url("queue=from"), f"{url}/to", given) as bridge:
                    (counts,) = (one.statistics for one in bridge.routes)
                    await until(lambda: counts.unreachable["target"] >= 5)
                    del odd_one.ending["to"], odd_one.missing["to"]
                    await until(
                        lambda: not (broker.queues["from"] or counts.in_flight or counts.waiting)
                    )
                    if ends:
                        await bridge.run()
            return counts

    counts = asyncio.run(run())

    assert [] == quarantined()
    assert COUNT <= len(odd_one.queues["to"]) <= COUNT + WINDOW
    assert (0 if ends else None) == counts.remaining


def test_late_recreated_queue_gets_the_remaining_messages() -> None:
    """The route has stopped waiting, but tries each further message once."""

    async def run() -> tuple[BasicBroker, Statistics]:
        async with BasicBroker("from", "to") as broker:
            broker.queues["from"].extend(numbered(COUNT))
            delete_after(broker, BEFORE, lambda: None)
            urls = (broker.url("queue=from"), broker.url("queue=to"))
            async with asyncio.timeout(60), Bridge(*urls, options(attempts=2)) as bridge:
                (counts,) = (one.statistics for one in bridge.routes)
                while not counts.quarantined:
                    await asyncio.sleep(0)
                broker.queues["to"] = broker.queues["from"].__class__()
                await bridge.run()
            return broker, counts

    broker, counts = asyncio.run(run())

    assert 5 == status_of([counts])
    assert COUNT == counts.accepted + len(quarantined())
    assert bodies(broker.queues["to"])


def test_target_that_revokes_access_ends_the_route(
    odd: tuple[str, odd_broker.OddBroker],
) -> None:
    """The queue may still exist: no message is quarantined, and the source keeps the rest."""
    url, odd_one = odd

    broker = BasicBroker("from")

    async def run() -> None:
        given = options(attempts=2, connect_timeout=0.3)
        await broker.listen()
        urls = (broker.url("queue=from"), f"{url}/to")
        async with asyncio.timeout(60), Bridge(*urls, given) as bridge:
            while not broker.channels:  # the source is opened after the target
                await asyncio.sleep(0)
            odd_one.missing["to"] = "amqp:unauthorized-access"
            broker.queues["from"].extend(numbered(COUNT))
            broker.serve()
            await bridge.run()

    async def down() -> None:
        try:
            await run()
        finally:
            await broker.down()

    with pytest.raises(LinkError, match=r"to: refused for 0 s \(amqp:unauth"):
        asyncio.run(down())

    assert [] == quarantined()
    assert COUNT <= len(broker.queues["from"]) + len(odd_one.queues["to"]) <= COUNT + WINDOW


@pytest.mark.parametrize("timeout", [0.3, None])
def test_deleted_source_ends_a_bounded_route(timeout: float | None) -> None:
    """An unbounded route goes on."""

    async def run() -> Statistics:
        async with BasicBroker("from", "to") as broker:
            broker.queues["from"].extend(numbered(10))
            given = options(connect_timeout=timeout, idle=timeout)
            urls = (broker.url("queue=from"), broker.url("queue=to"))
            bridge = Bridge(*urls, given)
            async with asyncio.timeout(60), bridge:
                await until(
                    lambda: (
                        len(broker.queues["to"]) >= 10
                        and not any(one.unacked for one in broker.channels)
                    )
                )
                broker.queues.pop("from")
                broker.cut()
                if timeout is None:
                    state = bridge.routes[0].statistics
                    await holds(lambda: not state.ending, 0.5)
                else:
                    await bridge.run()
            return bridge.routes[0].statistics

    if timeout is None:
        assert "stopped" == asyncio.run(run()).ending
        return
    with pytest.raises(LinkError, match=r"from: refused for 0 s .404 NOT_FOUND - no queue 'from'"):
        asyncio.run(run())


# Without reconnecting.


def test_unreachable_end_fails_a_route_that_does_not_reconnect() -> None:
    closed = "amqp://127.0.0.1:1/q"

    with pytest.raises(LinkError, match=r"127\.0\.0\.1:1.*Connection refused"):
        asyncio.run(bridged(closed, "file:out.jsonl", reconnect=False))


@pytest.mark.parametrize("end", ["from", "to"])
def test_lost_end_fails_a_route_that_does_not_reconnect(end: str) -> None:
    sent = numbered(5)

    async def run() -> Statistics:
        async with BasicBroker("from") as source, BasicBroker("to") as target:
            source.queues["from"].extend(sent)
            urls = source.url("queue=from"), target.url("queue=to")
            spec = RouteSpec(*urls, options(idle=None, reconnect=False))
            route = Route(spec.name, spec.source, spec.target, spec.options, logging.getLogger())
            running = asyncio.ensure_future(route.run())
            await until(lambda: route.statistics.accepted == 5)
            (source if end == "from" else target).cut()
            async with asyncio.timeout(60):
                with pytest.raises(LinkError):
                    await running
            return route.statistics

    counts = asyncio.run(run())

    assert ("failed", 1) == (counts.ending, counts.source_lost + counts.target_lost)
