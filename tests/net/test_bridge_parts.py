"""Parts of a route without a broker: the limit of memory, and the unsettled deliveries."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg.net.bridge import Outcome, RouteOptions, Settle, SourceDelivery, Statistics
from amqp10msg.net.bridge.context import RouteContext
from amqp10msg.net.bridge.ending import Ending
from amqp10msg.net.bridge.reconnecting import ClosingLinks
from amqp10msg.net.bridge.source_end import MemoryLimit
from amqp10msg.net.bridge.unsettled import Unsettled
from amqp10msg.net.ends.terms import Depth
from amqp10msg.net.ends.urls import parse_url

pytestmark = pytest.mark.once


@attrs.define
class Reading:
    """A source link that can be paused, or whose connection other routes share."""

    can_pause: bool
    is_paused: bool = False

    def hold(self, pause: bool) -> bool:
        assert pause != self.is_paused
        self.is_paused = pause and self.can_pause
        return self.can_pause


def deliveries(sizes: list[int]) -> list[SourceDelivery]:
    return [SourceDelivery(b"x" * size) for size in sizes]


@given(
    sizes=st.lists(st.integers(0, 60)),
    limit=st.integers(1, 100),
    can_pause=st.booleans(),
    order=st.randoms(use_true_random=False),
)
def test_memory_limit_pauses_reading_until_half_is_free(
    sizes: list[int], limit: int, can_pause: bool, order: Any
) -> None:
    memory, link = MemoryLimit(limit), Reading(can_pause)
    source: Any = link
    kept: list[SourceDelivery] = []
    refused = 0
    for delivery in deliveries(sizes):
        refused += not memory.add(delivery, source)
        kept.append(delivery)
        assert memory.size == sum(each.size for each in kept)
        if memory.size > limit:
            assert memory.is_paused
            assert memory.releases_all is not can_pause
            assert link.is_paused is can_pause
        while kept and order.random() < 0.5:
            memory.free(kept.pop(order.randrange(len(kept))), source)
            if memory.size * 2 < limit:
                assert not link.is_paused
                assert memory.is_paused is memory.releases_all

    exceeded = not can_pause and memory.was_exceeded_on_shared
    assert refused == exceeded  # the source is to be reopened once
    memory.reset(kept)
    assert memory.size == sum(each.size for each in kept)
    assert not memory.is_paused
    assert not memory.releases_all
    assert memory.was_exceeded_on_shared is exceeded


def test_memory_limit_without_a_link_only_counts() -> None:
    memory = MemoryLimit(10)
    (delivery,) = deliveries([20])

    assert memory.add(delivery, None)
    assert (20, False) == (memory.size, memory.is_paused)
    memory.free(delivery, None)
    assert (0, False) == (memory.size, memory.is_paused)


#: Where `Unsettled` keeps a delivery.
PLACES = ["waiting", "in flight", "held", "suspect", "quarantining", "delayed", "to_release"]


def place(unsettled: Unsettled, where: str, delivery: SourceDelivery) -> None:
    pending = unsettled.pending
    match where:
        case "waiting":
            pending.add(delivery)
        case "in flight":
            pending.in_flight[delivery] = None
        case "held":
            pending.hold(delivery, 1.0)
        case "suspect":
            pending.suspect([delivery], isolated=False)
        case "quarantining":
            unsettled.quarantining[delivery] = Outcome("rejected")
        case "delayed":
            unsettled.delayed[delivery] = None
        case _:
            unsettled.to_release.append(delivery)


@given(st.lists(st.sampled_from(PLACES)), st.integers(0, 3), st.integers(0, 3))
def test_every_unsettled_delivery_is_counted_once(
    places: list[str], accepted: int, quarantined: int
) -> None:
    unsettled, counts, number = Unsettled(), Statistics(), Counter(places)
    for where in places:
        place(unsettled, where, SourceDelivery(b"", link=object()))
    for kind, count in (("accepted", accepted), ("rejected", quarantined)):
        for (delivery,) in (deliveries([1]) for _ in range(count)):
            unsettled.finished.append((delivery, Settle.ACCEPT, Outcome(kind)))
    unsettled.store_counts(counts)

    pending = sum(number[where] for where in PLACES[:4])
    finished, unsent = accepted + quarantined, len(places) - number["in flight"]
    active = pending + finished + number["quarantining"]
    assert unsettled.active_count == active
    assert unsettled.returnable_count == len(places)
    assert unsettled.has_unanswered == bool(
        number["in flight"] or number["quarantining"] or finished
    )
    # The statistics count an accepted message before it is settled, and the others afterwards.
    assert unsettled.count_total(accepted) == active
    assert (counts.in_flight, counts.waiting) == (number["in flight"], active - counts.in_flight)
    assert counts.held == number["held"] + number["delayed"] + number["to_release"]
    assert unsent == len(unsettled.unsent()) == len(set(unsettled.unsent()))

    unanswered = unsettled.lose_source()
    assert len(unanswered) == number["in flight"] + number["quarantining"]
    assert {None} >= {delivery.link for delivery in unanswered}
    assert unsettled.active_count == len(unanswered) + finished
    assert unsettled.returnable_count == len(unanswered)


def test_deliveries_of_closing_links_are_dropped() -> None:
    @attrs.define
    class Closing:
        """A link that takes until `closed` to close; equal to every other one."""

        closed: asyncio.Event = attrs.field(factory=asyncio.Event, eq=False)

        async def close(self, _: float) -> None:
            await self.closed.wait()

    async def run() -> None:
        links: Any = [Closing(), Closing()]
        received = [SourceDelivery(b"%d" % number, link=links[number % 2]) for number in range(4)]
        closing = ClosingLinks()
        assert not closing
        assert received == closing.without(received)

        closing.close(links[0])
        assert closing
        assert received[1::2] == closing.without(received)

        links[0].closed.set()
        await asyncio.gather(*closing.tasks)
        await asyncio.sleep(0)
        assert not closing
        assert received == closing.without(received)

    asyncio.run(run())


def test_messages_on_their_way_are_awaited_before_the_last_count() -> None:
    """Regression: equal counts ended the wait, although messages had arrived between them."""
    endpoint = parse_url("amqp://h/q")
    logger = logging.getLogger("test_bridge_parts")
    context = RouteContext("r", endpoint, endpoint, RouteOptions(idle=1.0), logger)
    counts = context.statistics
    counts.ending = "stopped"
    # At each query: the source's count, the deliveries that the route holds, and the received ones.
    answers = iter([(110, 34, 84), (90, 54, 104), (90, 60, 110), (90, 60, 110)])
    held = 0

    class Source:
        incomplete = 0

        async def count(self) -> Depth:
            nonlocal held
            ready, held, counts.received = next(answers)
            return Depth(ready=ready, other_consumers=0)

    source: Any = Source()
    asyncio.run(Ending(context).count_rest(source, None, 60.0, lambda: held))

    assert 150 == counts.remaining
    assert [] == list(answers)
