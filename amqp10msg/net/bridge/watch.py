"""Watches an idle source: counts its messages, and ends the route when there are none.

A queue that is empty, but has other consumers, is only counted: the route stops consuming it until
messages are ready.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from amqp10msg.net.bridge.context import RouteContext
from amqp10msg.net.bridge.counting import Observer
from amqp10msg.net.bridge.ending import Ending
from amqp10msg.net.bridge.reconnecting import ClosingLinks
from amqp10msg.net.bridge.records import Records
from amqp10msg.net.bridge.source_end import SourceEnd
from amqp10msg.net.ends.terms import Countable, Depth, LinkError, SourceLink

#: State of a route that only counts the messages of its empty source; see
#: `SourceWatch._leave_to_others`.
LEFT_TO_OTHERS = "leaves the queue to its other consumers, unless messages are ready"


class SourceWatch:
    """Counts the messages of an idle source.

    Args:
        context: the route.
        ending: decides when the route ends.
        records: the files of the route.
        source: the source.
        closing: the links of the route that are being closed.
        on_query_done: called when a query has ended, with its task.

    Attributes:
        observer: counts the source's queue while the route does not consume it; else None.
    """

    def __init__(
        self,
        context: RouteContext,
        ending: Ending,
        records: Records,
        source: SourceEnd,
        closing: ClosingLinks,
        *,
        on_query_done: Callable[[asyncio.Task[None]], None],
    ) -> None:
        self.observer: Observer | None = None
        self._context = context
        self._ending = ending
        self._positions = records.positions
        self._source = source
        self._closing = closing
        self._on_query_done = on_query_done
        self._query: asyncio.Task[None] | None = None

    @property
    def _countable(self) -> Countable | None:
        """The object that can count the source's messages; None while it is not connected."""
        return self._source.link or self.observer

    def tick(self, elapsed: float) -> None:
        """Add `elapsed` seconds to the idle time of the source, and query it if that is due."""
        link = self._source.link
        if link is not None and link.incomplete and not self._source.memory.is_paused:
            self._ending.add_incomplete_time(elapsed)
        countable = self._countable
        settled = countable is not None and not self._context.unsettled.active_count
        is_due = self._ending.add_idle_time(elapsed, settled=settled)
        if is_due and countable is not None and (self._query is None or self._query.done()):
            self._query = asyncio.ensure_future(self._end_if_empty(countable))
            self._query.add_done_callback(self._on_query_done)

    async def _end_if_empty(self, source: Countable) -> None:
        """Count the messages at the source, and end the route if there are none.

        If the route was only counting and messages are ready, consume the source again.
        """
        counts, unsettled = self._context.statistics, self._context.unsettled
        received, next_position = counts.received, self._positions.next
        depth = await self._ending.count_source(source, next_position, unsettled.returnable_count)
        link = self._source.link
        if source is not self._countable or counts.received != received or unsettled.active_count:
            return
        self._ending.end_if_empty(depth, unsettled.returnable_count)
        if self._context.lifecycle.is_ending:
            return
        if link is not None:
            await self._leave_to_others(link, depth)
        elif depth.ready != 0:
            self.observer = None
            self._source.reconnecting.reopen()

    async def _leave_to_others(self, source: SourceLink, depth: Depth) -> None:
        """Stop consuming an empty queue that has other consumers, and only count its messages.

        The broker reports the number of consumers, but not the messages that they hold. Two bridges
        that run until their common queue is empty would therefore wait for each other. A route that
        holds messages of the source keeps its link: closing it would requeue them.
        """
        context = self._context
        shared = depth.ready == 0 and depth.other_consumers and depth.unacknowledged is None
        observer = self._ending.observer()
        must_stay = context.unsettled.returnable_count or self._source.reopen_reason
        if not shared or observer is None or must_stay:
            return
        received = context.statistics.received
        source.stop()
        with contextlib.suppress(LinkError, TimeoutError):
            async with asyncio.timeout(context.options.waits.close_timeout):
                await source.count()  # the broker sends the deliveries in flight before the answer
        if source is not self._source.link or context.lifecycle.is_ending:
            return
        if context.statistics.received != received or self._source.reopen_reason:
            source.resume()  # before settling a delivery, so that other bridges see this consumer
            return
        self.observer = observer
        self._source.reconnecting.release(reopen=False)
        self._closing.close(source)
        endpoint, others = str(context.source), depth.other_consumers
        context.log("source-left", at=endpoint, others=others, why=LEFT_TO_OTHERS)

    def cancel(self) -> None:
        """Cancel a running query."""
        if self._query is not None:
            self._query.cancel()

    async def count_rest(self, wait: float) -> None:
        """Count the messages that remain at the source when the route ends, for `wait` seconds.

        The finished deliveries must be settled: the source then counts the released messages.
        """
        unsettled = self._context.unsettled
        await self._ending.count_rest(
            self._countable, self._positions.next, wait, lambda: unsettled.returnable_count
        )
