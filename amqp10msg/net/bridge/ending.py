"""Decides when a route ends, and counts the messages that remain at its source."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable

import attrs

from amqp10msg.net.bridge.context import RouteContext
from amqp10msg.net.bridge.counting import Counting, Observer
from amqp10msg.net.bridge.statistics import Statistics
from amqp10msg.net.ends.terms import Countable, Depth, LinkError
from amqp10msg.net.ends.urls import Endpoint

#: Default of `RouteOptions.idle`, in seconds, if only `until_length` is set.
_DEFAULT_IDLE = 2.0


@attrs.define
class IdleTimes:
    """For how long a source has been idle.

    Attributes:
        idle: seconds since the last message or query.
        stalled: seconds since the last message, during which all deliveries were settled.
        queries_since_message: queries of the message count since the last message.
    """

    idle: float = 0.0
    stalled: float = 0.0
    queries_since_message: int = 0


class Ending:
    """Decides when a route ends, and counts the messages that remain at its source.

    Args:
        context: the route.

    Attributes:
        max_settled: the route ends after this number of settled messages; None for no limit.
        incomplete_seconds: seconds since the source has sent the first bytes of a message, but not
            its end.
    """

    def __init__(self, context: RouteContext) -> None:
        options = context.options
        self.max_settled = options.max_messages
        self.incomplete_seconds = 0.0
        self._context = context
        self._source = context.source
        self._options = options
        self._statistics = context.statistics
        # For `until_length` of a stream: the route ends when all messages before this position are
        # settled.
        self._end_position: int | None = None
        # Whether the messages at the start were counted, or do not have to be.
        self._is_start_counted = not options.asks
        # Positions of a stream before this one were added to `Statistics.missed` if retention had
        # removed them.
        self._missed_counted_to = 0
        self._counting = Counting(
            context.source,
            options.management,
            sole=options.sole_consumer,
            pool=context.pools.counting,
            waits=options.waits,
        )
        self._idle_times = IdleTimes()

    async def prepare_source(self, source: Endpoint, next_position: int | None) -> None:
        """Called before the source is opened.

        Before the first opening, count the messages to read. Before later openings, check a stream:
        raise LinkError if it ends before the position up to which it was read.

        Args:
            source: the source.
            next_position: for a stream or file, the position after all settled messages.
        """
        if not self._is_start_counted:
            await self._count_at_start(source, next_position)
            self._is_start_counted = True
        elif self._counting.is_stream and next_position is not None:
            await self._counting.check_stream_end(next_position)
        self._count_missed(next_position)

    @property
    def oldest(self) -> int | None:
        """The position of the oldest message that a stream still has; None if unknown."""
        return self._counting.oldest

    def _count_missed(self, next_position: int | None) -> None:
        """Log and count the messages of a stream that retention removed before they were read."""
        removed_count, self._counting.removed_count = self._counting.removed_count, 0
        if not removed_count or next_position is None:
            return
        start = max(next_position, self._missed_counted_to)
        self._missed_counted_to = next_position + removed_count
        missed = self._missed_counted_to - start
        if missed > 0:
            self._statistics.missed += missed
            reason = "its retention removed them before they were read"
            fields = {"at": str(self._source), "positions": missed, "why": reason}
            self._context.log("stream-gap", logging.WARNING, **fields)

    async def _count_at_start(self, source: Endpoint, next_position: int | None) -> None:
        """Count the messages at the start. For `until_length`, they set when the route ends."""
        counting = self._counting
        if not (self._options.until_length or counting.is_stream):
            return
        depth = await counting.count_before_reading(source, next_position)
        if not self._options.until_length:
            return
        if counting.end is not None:
            self._end_position = counting.end
            ready = depth.ready if next_position is None else max(counting.end - next_position, 0)
        else:
            ready = depth.ready
            if ready is None:
                text = f"until-length: {depth.reason}; use until-empty, which needs no count"
                raise LinkError(text, sent_by_peer=True, permanent=True)
            self.max_settled = ready if self.max_settled is None else min(ready, self.max_settled)
        self._context.log("source-counted", at=str(self._source), messages=ready)
        if ready == 0:
            self._context.lifecycle.stop("length")

    def source_opened(self) -> None:
        """Record that the source was opened."""
        self._idle_times.idle = self.incomplete_seconds = 0.0

    def source_lost(self) -> None:
        """Record that the source was lost.

        Messages may be delivered again, and would count twice for `until_length`. From now on, a
        route with `until_length` ends when the source is empty.
        """
        if self._options.until_length and self.max_settled != self._options.max_messages:
            self.max_settled = self._options.max_messages
            self._context.log("length-unknown", at=str(self._source), until="empty")

    def reset_idle_times(self) -> IdleTimes:
        """Reset the idle times, because messages arrived. Return the previous idle times."""
        idle_times, self._idle_times = self._idle_times, IdleTimes()
        self.incomplete_seconds = 0.0
        self._counting.reset_zero_count()
        return idle_times

    def restore_idle_times(self, idle_times: IdleTimes) -> None:
        """Undo `reset_idle_times`, because the messages that arrived were only released."""
        self._idle_times = idle_times

    def add_incomplete_time(self, seconds: float) -> None:
        """Add seconds to the age of an incomplete message.

        Log a warning each time that the age reaches a multiple of `outcome_timeout`.
        """
        previous, every = self.incomplete_seconds, self._options.outcome_timeout
        self.incomplete_seconds += seconds
        if previous // every != self.incomplete_seconds // every:
            age = f"{self.incomplete_seconds:.0f} s"
            reason = f"a message is incomplete {age} after its first bytes"
            self._context.log("source-slow", logging.WARNING, at=str(self._source), why=reason)

    def add_idle_time(self, seconds: float, *, settled: bool) -> bool:
        """Add seconds without a message to the idle times. Return whether to query the source now.

        `settled` is whether the source can be counted and all of its deliveries are settled.
        """
        options, times = self._options, self._idle_times
        times.idle += seconds
        if not settled:
            return False
        times.stalled += seconds
        # The interval doubles with each query that found messages.
        idle = options.idle or _DEFAULT_IDLE
        max_interval = max(idle, options.waits.query_interval)
        interval = min(idle * 2 ** min(times.queries_since_message, 30), max_interval)
        return options.asks and times.idle >= interval

    def end_if_late(self) -> None:
        """End the route if its deadline has passed, or no message arrived for `stall` seconds."""
        options = self._options
        if options.deadline is not None and self._statistics.seconds >= options.deadline:
            self._context.lifecycle.stop("deadline")
        if options.asks and self._idle_times.stalled >= options.stall:
            self._context.lifecycle.stop("stalled")

    def end_if_done(self, next_position: int | None) -> None:
        """End the route if the requested number of messages is settled."""
        limit = self.max_settled
        if limit is not None and self._statistics.settled >= limit:
            max_messages = self._options.max_messages
            by_count = max_messages is not None and max_messages <= limit
            self._context.lifecycle.stop("count" if by_count else "length")
        end = self._end_position
        if end is not None and next_position is not None and next_position >= end:
            self._context.lifecycle.stop("length")

    def observer(self) -> Observer | None:
        """Return an `Observer` of the source; None if the source is not a queue of RabbitMQ."""
        return self._counting.observer()

    async def count_source(
        self, source: Countable, next_position: int | None, held_count: int
    ) -> Depth:
        """Count the messages at the source, without the `held_count` deliveries of this route."""
        depth = await self._counting.count_now(source, next_position, held_count)
        self._idle_times.idle = 0.0
        self._idle_times.queries_since_message += 1
        return depth

    def end_if_empty(self, depth: Depth, held_count: int) -> None:
        """End the route if `depth` shows that the source is empty; otherwise log the depth."""
        counts = self.store_counts(depth, held_count)
        if depth.ready == 0 and not counts.is_shared:
            self._context.lifecycle.stop("empty")
            return
        fields = {name: getattr(counts, name) for name in ("remaining", "unacknowledged", "others")}
        fields = {name: count for name, count in fields.items() if count is not None}
        if counts.uncounted:
            fields["why"] = counts.uncounted
        self._context.log("source-silent", logging.WARNING, at=str(self._source), **fields)

    def store_counts(self, depth: Depth, held_count: int) -> Statistics:
        """Store `depth` in the statistics. Add `held_count` messages that will be released."""
        counts = self._statistics
        counts.asked = True
        counts.remaining = None if depth.ready is None else depth.ready + held_count
        counts.unacknowledged, counts.others = depth.unacknowledged, depth.other_consumers
        counts.uncounted = depth.reason
        return counts

    def end_uncounted(self, reason: str) -> None:
        """Record that the route ended before its source could be counted, for `reason`."""
        counts = self._statistics
        counts.asked, counts.uncounted = self._options.asks, reason

    async def count_rest(
        self,
        source: Countable | None,
        next_position: int | None,
        wait: float,
        count_held: Callable[[], int],
    ) -> None:
        """Count the remaining messages, if the route ended before its source was empty.

        Routes that do not end when the source is empty are not counted. The source is queried until
        two consecutive counts are equal and no message arrived between them: a message that is on
        its way to this route is counted neither by the source nor by the route.

        Args:
            source: the link to query, if it is open.
            next_position: for a stream or file, the position after all settled messages.
            wait: timeout in seconds.
            count_held: returns the number of messages that will be released to the source.
        """
        counts = self._statistics
        if not self._options.asks or counts.ending in {"empty", "length", "count"}:
            return
        previous: tuple[int | None, int] | None = None  # of remaining and received messages
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait):
                while True:
                    requeued_before = counts.requeued.total()
                    depth = await self._counting.count_now(source, next_position, 0)
                    if previous is not None and depth.ready is None:
                        return
                    requeued_since = counts.requeued.total() - requeued_before  # not in the count
                    self._store_last_counts(depth, count_held() + requeued_since)
                    current = counts.remaining, counts.received
                    if (
                        source is None
                        or self._source.keeps
                        or counts.remaining is None
                        or current == previous
                    ):
                        return
                    previous = current
        if previous is None:
            self._store_last_counts(Depth(reason=f"no answer within {wait:.1f} s"), count_held())

    def _store_last_counts(self, depth: Depth, held_count: int) -> None:
        """Store `depth` in the statistics at the end of the route."""
        counts = self._statistics
        # If a stalled source gives no answer, keep the count from before the stall.
        if depth.ready is not None or counts.ending != "stalled" or not counts.asked:
            self.store_counts(depth, held_count)
