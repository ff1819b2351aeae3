"""When a route has done what it was to, and what is left then."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable

from amqp10msg.net.bridge.counting import Counting, Observer
from amqp10msg.net.bridge.statistics import Statistics
from amqp10msg.net.bridge.terms import Countable, Depth, LinkError
from amqp10msg.net.bridge.urls import Endpoint
from amqp10msg.net.bridge.wire import Lines
from amqp10msg.net.options import RouteOptions

#: Seconds without a message after which the source is asked, where `idle` does not say.
_IDLE = 2.0


class Ending:
    """When a route has done what it was to, and what its source has left then.

    It ends after `most` messages; None where their number is not known.
    """

    def __init__(
        self,
        source: Endpoint,
        options: RouteOptions,
        statistics: Statistics,
        log: Callable[..., None],
        finish: Callable[[str], None],
        lines: Lines | None = None,
    ) -> None:
        self.most = options.max_messages
        self._source = source
        self._options = options
        self._statistics = statistics
        self._log = log
        self._finish = finish
        self._until: int | None = None  # the position in a stream that it is read up to
        self._begun = not options.asks
        self._counted_to = 0  # positions of a stream before this one are counted as missed or read
        self._counting = Counting(
            source,
            options.management,
            sole=options.sole_consumer,
            lines=lines,
            waits=options.waits,
        )
        # Seconds without a message; the same with nothing unsettled; times asked since.
        self._idle, self._stalled, self._asked = 0.0, 0.0, 0

    async def begin(self, source: Endpoint, following: int | None) -> None:
        """Count what is to be done, before the source is opened for the first time.

        Before each time, a stream is refused that ends before what was read of it.

        Of a stream or file, `following` is the position after all that is finished.
        """
        if not self._begun:
            await self._begin(source, following)
            self._begun = True
        elif self._counting.is_stream and following is not None:
            await self._counting.check(following)
        self._count_gone(following)

    @property
    def oldest(self) -> int | None:
        """The position of the first message of a stream; None if it is not known."""
        return self._counting.oldest

    def _count_gone(self, following: int | None) -> None:
        """Log and count the messages that retention removed before they were read, once each."""
        gone, self._counting.gone = self._counting.gone, 0
        if not gone or following is None:
            return
        start = max(following, self._counted_to)
        self._counted_to = following + gone
        missed = self._counted_to - start
        if missed > 0:
            self._statistics.missed += missed
            why = "its retention removed them before they were read"
            fields = {"at": str(self._source), "positions": missed, "why": why}
            self._log("stream-gap", logging.WARNING, **fields)

    async def _begin(self, source: Endpoint, following: int | None) -> None:
        counting = self._counting
        if not (self._options.until_length or counting.is_stream):
            return
        depth = await counting.begin(source, following)
        if not self._options.until_length:
            return
        if counting.end is not None:
            self._until = counting.end
            ready = depth.ready if following is None else max(counting.end - following, 0)
        else:
            ready = depth.ready
            if ready is None:
                text = f"until-length: {depth.why}; until-empty needs no number"
                raise LinkError(text, said=True, permanent=True)
            self.most = ready if self.most is None else min(ready, self.most)
        self._log("source-counted", at=str(self._source), messages=ready)
        if ready == 0:
            self._finish("length")

    def open(self) -> None:
        """Note that the source is open again."""
        self._idle = 0.0

    def lose(self) -> None:
        """Note that the source was lost: what was settled may come again, and be counted twice."""
        if self._options.until_length and self.most != self._options.max_messages:
            self.most = self._options.max_messages  # so all is to be taken
            self._log("length-unknown", at=str(self._source), until="empty")

    def restart(self) -> tuple[float, float, int]:
        """Note that a message came; return the silence that it ended."""
        silence = self._idle, self._stalled, self._asked
        self._idle, self._stalled, self._asked = 0.0, 0.0, 0
        self._counting.restart()
        return silence

    def resume(self, silence: tuple[float, float, int]) -> None:
        """Take a silence for one that was not ended."""
        self._idle, self._stalled, self._asked = silence

    def wait(self, passed: float, *, settled: bool) -> bool:
        """Note that so many seconds passed; return whether the source is to be asked.

        It is `settled` where the source is there, and nothing of it is unsettled.
        """
        options = self._options
        self._idle += passed
        if not settled:
            return False
        self._stalled += passed
        # More seldom where it was asked in vain.
        idle = options.idle or _IDLE
        quiet = idle * 2 ** min(self._asked, 30)
        return options.asks and self._idle >= min(quiet, max(idle, options.waits.ask_again))

    def end_if_late(self) -> None:
        """End where the time is over, or nothing came for too long."""
        options = self._options
        if options.deadline is not None and self._statistics.seconds >= options.deadline:
            self._finish("deadline")
        if options.asks and self._stalled >= options.stall:
            self._finish("stalled")

    def end_if_done(self, following: int | None) -> None:
        """End where as much is settled as was wanted."""
        most = self.most
        if most is not None and self._statistics.settled >= most:
            wanted = self._options.max_messages
            self._finish("count" if wanted is not None and wanted <= most else "length")
        if self._until is not None and following is not None and following >= self._until:
            self._finish("length")

    def observer(self) -> Observer | None:
        """Return a way to count the source without consuming it; None if there is no such way."""
        return self._counting.observer()

    async def ask(self, source: Countable, following: int | None, held: int) -> Depth:
        """Ask the source what it has."""
        depth = await self._counting.ask(source, following, held)
        self._idle = 0.0
        self._asked += 1
        return depth

    def end_if_empty(self, depth: Depth, held: int) -> None:
        """End where the source has nothing, by its answer."""
        counts = self.note(depth, held)
        if depth.ready == 0 and not counts.is_shared:
            self._finish("empty")
            return
        known = {name: getattr(counts, name) for name in ("remaining", "unacknowledged", "others")}
        known = {name: count for name, count in known.items() if count is not None}
        if counts.uncounted:
            known["why"] = counts.uncounted
        self._log("source-silent", logging.WARNING, at=str(self._source), **known)

    def note(self, depth: Depth, held: int) -> Statistics:
        """Note what the source has, with what is held here and goes back to it."""
        counts = self._statistics
        counts.asked = True
        counts.remaining = None if depth.ready is None else depth.ready + held
        counts.unacknowledged, counts.others = depth.unacknowledged, depth.others
        counts.uncounted = depth.why
        return counts

    def end_unasked(self, why: str) -> None:
        """Note that the route ended before its source was asked: it is not known to be empty."""
        counts = self._statistics
        counts.state = "ended"
        counts.asked, counts.uncounted = self._options.asks, why

    async def count_rest(
        self, source: Countable | None, following: int | None, wait: float, held: Callable[[], int]
    ) -> None:
        """Count what is left, where the route was to empty the source and ended before that.

        The source is asked until two counts are the same: it may answer while messages are on their
        way that it delivered before it was stopped. No count has them then, and the next one does.

        It has `wait` seconds to answer; `held` returns how many messages are held here, and go back
        to it.
        """
        counts = self._statistics
        if not self._options.asks or counts.ending in {"empty", "length", "count"}:
            return
        last = None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait):
                while True:
                    before = counts.requeued.total()
                    depth = await self._counting.ask(source, following, 0)
                    if last is not None and depth.ready is None:
                        return
                    since = counts.requeued.total() - before  # which it did not count
                    self._note_last(depth, held() + since)
                    if source is None or self._source.keeps or counts.remaining in {None, last}:
                        return
                    last = counts.remaining
        if last is None:
            self._note_last(Depth(why=f"no answer within {wait:.1f} s"), held())

    def _note_last(self, depth: Depth, held: int) -> None:
        counts = self._statistics
        # What it said before it stalled says more than that it is silent.
        if depth.ready is not None or counts.ending != "stalled" or not counts.asked:
            self.note(depth, held)
