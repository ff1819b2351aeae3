"""A route: couples a source with a target, and settles at the source what the target settled.

A delivery is pending, or it is finished, to be settled at the end of this turn of the loop, when
its record is on disk.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import logging
import operator
import time
from collections import Counter
from collections.abc import Awaitable, Sequence
from typing import Any

from amqp10msg.net.bridge.counting import Observer
from amqp10msg.net.bridge.ending import Ending
from amqp10msg.net.bridge.entries import UNREADABLE
from amqp10msg.net.bridge.links import (
    Absence,
    Caution,
    KeptLink,
    QuarantineQueue,
    open_source,
    open_target,
    pause,
    warn_of_strangers,
)
from amqp10msg.net.bridge.records import Finished, Lease, Pending, Records
from amqp10msg.net.bridge.resuming import SourceReplacedError, unchecked
from amqp10msg.net.bridge.sending import message_of, sender_of
from amqp10msg.net.bridge.statistics import Statistics
from amqp10msg.net.bridge.terms import (
    Countable,
    Depth,
    Link,
    LinkError,
    Outcome,
    Outgoing,
    Oversized,
    Sent,
    Settle,
    SourceDelivery,
    SourceLink,
    SourceRequest,
    TargetLink,
    TargetRequest,
)
from amqp10msg.net.bridge.urls import Endpoint
from amqp10msg.net.bridge.wire import Sides
from amqp10msg.net.options import RouteOptions
from amqp10msg.wire.errors import AmqpError
from amqp10msg.wire.text import printable

#: Messages that are prepared together.
_BATCH = 100
#: How often a connection may end while one message alone is in flight, until it is the cause.
_DEATHS = 3
#: Reasons for which a message is tried until it is taken: the target is full, whatever it is sent.
_FULL = {"nacked", "full"}
_SETTLES = {"requeue": Settle.RELEASE, "reject": Settle.REJECT, "accept": Settle.ACCEPT}
_STANDS_BY = "another bridge runs it"
_LEFT_TO_OTHERS = "leaves the queue to its other consumers, unless messages are ready"
_SKIPPED = (
    "the broker delivers nothing for some positions: they are its own entries, or messages that it "
    "delivers only over its stream protocol, such as those in compressed batches"
)


def log_event(logger: logging.Logger, event: str, level: int, **fields: Any) -> None:
    """Log an event of a bridge: its record has ``event`` and ``fields``.

    The text of the record is printable: a peer must not write lines into a log, or act on a
    terminal. The fields are as they came.
    """
    text = printable(" ".join(f"{name}={value}" for name, value in fields.items()))
    logger.log(level, "%s %s", event, text, extra={"event": event, "fields": fields})


class Route:
    """Moves messages from one source to one target until it is stopped or has done what it was to.

    Args:
        name: for logs and reports.
        source: where from.
        target: where to.
        options: how.
        logger: takes events, with `fields`.
        sides: the connections of which it uses one at each end; None for its own.

    Attributes:
        statistics: what it counted.
    """

    def __init__(
        self,
        name: str,
        source: Endpoint,
        target: Endpoint,
        options: RouteOptions,
        logger: logging.Logger,
        sides: Sides | None = None,
    ) -> None:
        self.name = name
        self.source = source
        self.target = target
        self.options = options
        self._waits = options.waits
        self.statistics = Statistics()
        self._logger = logger
        self._sides = sides or Sides()
        overflow = options.quarantine.with_name(f"{options.quarantine.name}.large")
        self._overflow = functools.partial(Oversized, overflow, options.max_large)
        self._records: Records
        self._loop: asyncio.AbstractEventLoop
        lines = self._sides.counting
        self._ending = Ending(source, options, self.statistics, self.log, self._finish_as, lines)
        self._prepare = sender_of(source, target, options, self.statistics)
        # The ends.
        self._caution = Caution(source)
        self._from: KeptLink[SourceLink] = KeptLink(
            *("source", source, options, self.log),
            open_=self._open_source,
            on_open=self._source_opened,
            on_lost=self._lost_source,
            early=True,
        )
        self._to: KeptLink[TargetLink] = KeptLink(
            *("target", target, options, self.log),
            open_=self._open_target,
            on_open=self._target_opened,
            on_lost=self._lost_target,
            on_refused=self._target_refused,
        )
        self._queue: QuarantineQueue | None = None
        self._holding = False
        self._reopening = ""  # why the source is to be opened again, when nothing is unsettled
        self._spilling = False  # what the source delivers until then goes back
        self._joining = False  # nothing is sent, so that the target can be opened again
        self._observer: Observer | None = None  # counts the source while it is not consumed
        self._closing: dict[asyncio.Future[None], Link] = {}
        self._too_large = False  # what comes, for a connection of which others read, too
        self._absence = Absence(target, options, self.log)
        # The deliveries.
        self._pending = Pending()
        self._finished: list[Finished] = []
        self._surplus: list[SourceDelivery] = []
        self._passed: dict[SourceDelivery, None] = {}  # by the filter, until they go back
        self._bytes = 0
        self._pumping = self._due = False
        # The run.
        self._stopping = self._is_disk_full = False
        self._stop = asyncio.Event()
        self._fault: BaseException | None = None
        self._asking: asyncio.Task[None] | None = None
        self._started = self._ticked = 0.0
        self._slow = 0.0  # seconds that a message has been coming for
        self._skips = False  # whether it was logged that the stream has positions without a message
        self._unchecked: set[str] = set()  # reasons that were logged already
        self._opened = 0.0  # the source, on the loop's clock
        self._over = 0.0  # when nothing is waited for any more, on the same

    def log(self, event: str, level: int = logging.INFO, **fields: Any) -> None:
        """Log an event of this route."""
        log_event(self._logger, event, level, route=self.name, **fields)

    async def depth(self) -> int | None:
        """Ask how many messages are still to come, and return the last answer; None without one."""
        source = self._from.link
        return await source.depth() if source is not None else None

    # The run.

    def stop(self) -> None:
        """Take no more deliveries, wait for the outcomes of those in flight, and end."""
        self._finish_as("stopped")

    def _finish_as(self, ending: str) -> None:
        self._stopping = True
        if ending in {"count", "length"}:
            self.statistics.asked = False  # what it said before, when it was silent
            self.statistics.remaining = self.statistics.unacknowledged = None
        self.statistics.ending = self.statistics.ending or ending
        self._stop.set()

    async def run(self) -> None:
        """Run until `stop`, or until it has done what its options say.

        Raises:
            LinkError: an end cannot be used: wrong credentials, no such queue.
            OSError: a message could not be put into the quarantine; it was not settled.
        """
        self._loop = asyncio.get_running_loop()
        self._started = self._loop.time()
        if self.options.state is None:
            await self._run()
            return
        lease = Lease(self.options.state, self.name)
        try:
            if await self._take(lease):
                await self._run()
        except OSError as error:
            self._note_failure(error)
            raise
        finally:
            lease.release()

    def _note_failure(self, error: Exception) -> None:
        """Say that it failed before it ran, unless that was said."""
        if not self.statistics.failed:
            self.statistics.state = self.statistics.ending = "failed"
            self.log("route-failed", logging.ERROR, why=str(error))

    def _measure(self) -> None:
        """Note how long it runs."""
        self.statistics.seconds = self._loop.time() - self._started

    async def _wait(self) -> bool:
        """Wait until it is to stop, for one tick at most; return whether it is."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._waits.look):
                await self._stop.wait()
        return self._stop.is_set()

    async def _take(self, lease: Lease) -> bool:
        """Wait until no other bridge runs this route; return whether it is to run here.

        Raises:
            LinkError: it is to end, and the other one does not.
        """
        reach, counts = self.options.reach, self.statistics
        while not lease.take():
            if counts.state != _STANDS_BY:
                counts.state = _STANDS_BY
                self.log("route-stands-by", at=str(self.source), state=str(self.options.state))
            self._measure()
            self._ending.end_if_late()
            if reach is not None and counts.seconds >= reach and not self._stop.is_set():
                text = f"{self.options.state}: another bridge runs this route since {reach:g} s"
                raise LinkError(text, permanent=True)
            if await self._wait():
                self._ending.end_unasked(_STANDS_BY)
                return False
        return True

    async def _declare(self) -> bool:
        """Make at the target what the source's queue is; return whether it did before the end."""
        from amqp10msg.net.bridge.topology import declare_for  # noqa: PLC0415  (rarely used)

        self.statistics.state = "declaring"
        making = declare_for(self.source, self.target, self.options, self.log)
        declaring = asyncio.ensure_future(making)
        try:
            while not (declaring.done() or self._stop.is_set()):
                self._measure()
                self._ending.end_if_late()
                await asyncio.wait([declaring], timeout=self._waits.look)
            if declaring.done():
                declaring.result()
                return True
            self._ending.end_unasked("it ended while it declared")
            return False
        finally:
            declaring.cancel()

    async def _run(self) -> None:
        try:
            if self.options.declare and not await self._declare():
                return
            self._records = Records(self.name, self.source, self.target, self.options)
        except (OSError, ValueError) as error:
            self._note_failure(error)
            raise
        self._ticked = self._started
        warn_of_strangers((self.source, self.target, self.options.quarantine_queue), self.log)
        keeping = [self._to.keep(), self._keep_source()]
        if self.options.quarantine_queue is not None:
            self._queue = QuarantineQueue(
                self.options.quarantine_queue,
                self.options,
                self._records.names,
                self.log,
                kept=self._kept,
                left=self._left,
                lines=self._sides.targets,
            )
            keeping.append(self._queue.keep())
        tasks = [asyncio.ensure_future(one) for one in keeping]
        for task in tasks:
            task.add_done_callback(self._ended)
        try:
            while not self._stop.is_set():
                self._measure()
                if not await self._wait():
                    self._tick()
            self._over = self._loop.time() + self._waits.end
            if self._fault is None or self._is_disk_full:
                await self._drain()  # what the target takes is settled, or it would come again
            await self._count_rest()
        finally:
            try:
                if self._asking is not None:
                    self._asking.cancel()
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                await self._close()
            finally:
                self._records.close()  # also where the bridge itself is cancelled meanwhile
            counts = self.statistics
            counts.in_flight = counts.waiting = counts.held = 0
            counts.position = self._records.positions.next
            self._count_ends()
            self._measure()
            counts.state = "failed" if self._fault else "ended"
        if self._fault is not None:
            self.log("route-failed", logging.ERROR, why=str(self._fault))
            raise self._fault

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        if self._fault is None:
            self._fault = error
            self.statistics.ending = "failed"
            if self._from.link is not None:
                self._from.link.stop()  # or what goes back now would come again, and not be counted
        self._stop.set()

    def _tick(self) -> None:
        """Check what depends on the clock: overdue outcomes, messages held back, the end."""
        now = self._loop.time()
        target, in_flight = self._to.link, self._pending.in_flight
        if target is not None and in_flight:
            if target.waits:
                for delivery in in_flight:
                    delivery.sent = now
            oldest = next(iter(in_flight))
            if now - oldest.sent > self.options.outcome_timeout:
                self._to.give_up(failed=True)
        if self._queue is not None:
            self._queue.tick(now)
        self._pump()
        if self._reopening and not self._unsettled:
            self._reopen_source()
        self._rejoin(now)
        # A stall of this process is none of the source.
        passed = min(now - self._ticked, self._waits.look)
        self._ticked = now
        source = self._from.link
        if source is not None and source.incomplete and not self._holding:
            self._watch_slow(passed)
        countable = source or self._observer
        settled = countable is not None and not self._unsettled
        if self._ending.wait(passed, settled=settled) and countable is not None:
            self._ask(countable)
        self._count()
        self._ending.end_if_late()

    def _watch_slow(self, passed: float) -> None:
        """Say now and then that a message does not come to its end."""
        before, self._slow = self._slow, self._slow + passed
        every = self.options.outcome_timeout
        if before // every != self._slow // every:
            why = f"a message has been coming for {self._slow:.0f} s, and is not complete"
            self.log("source-slow", logging.WARNING, at=str(self.source), why=why)

    def _ask(self, source: Countable) -> None:
        """Ask the source whether it is empty, unless it is being asked."""
        if self._asking is None or self._asking.done():
            self._asking = asyncio.ensure_future(self._end_if_empty(source))
            self._asking.add_done_callback(self._ended)

    async def _end_if_empty(self, source: Countable) -> None:
        received = self.statistics.received
        depth = await self._ending.ask(source, self._records.positions.next, self._held)
        link, observer = self._from.link, self._observer
        if source is not (link or observer) or self.statistics.received != received:
            return
        if self._unsettled:
            return
        self._ending.end_if_empty(depth, self._held)
        if self._stop.is_set():
            return
        if link is not None:
            await self._leave_to_others(link, depth)
        elif depth.ready != 0:
            self._observer = None
            self._from.reopen()

    async def _leave_to_others(self, source: SourceLink, depth: Depth) -> None:
        """Stop consuming a queue without ready messages that has other consumers; only count it.

        Nobody says what a consumer holds, so that two bridges which both run until their common
        queue is empty would wait for each other. A route that holds messages of the source goes
        on: closing the link would return them.
        """
        shared = depth.ready == 0 and depth.others and depth.unacknowledged is None
        observer = self._ending.observer()
        if not shared or observer is None or self._held or self._reopening:
            return
        received = self.statistics.received
        source.stop()
        with contextlib.suppress(LinkError, TimeoutError):
            async with asyncio.timeout(self._waits.close):
                await source.count()  # messages in flight arrive before the answer
        if source is not self._from.link or self._stop.is_set():
            return
        if self.statistics.received != received or self._reopening:
            source.resume()  # before anything is settled: others must see that this route is there
            return
        self._observer = observer
        self._from.release(reopen=False)
        self._close_later(source)
        self.log("source-left", at=str(self.source), others=depth.others, why=_LEFT_TO_OTHERS)

    async def _count_rest(self) -> None:
        self._finish()  # what goes back is in the count
        if self._asking is not None:
            self._asking.cancel()
        wait = min(self._waits.close, self._over - self._loop.time() - self._waits.close_hastily)
        following = self._records.positions.next
        source = self._from.link or self._observer
        await self._ending.count_rest(source, following, wait, lambda: self._held)

    @property
    def _held(self) -> int:
        """Messages that are not settled, and go back to the source when the route ends."""
        return len(self._surplus) + len(self._passed) + len(self._pending) + self._leaving

    @property
    def _unsettled(self) -> int:
        return len(self._pending) + len(self._finished) + self._leaving

    @property
    def _leaving(self) -> int:
        """How many the queue of the quarantine has not answered for."""
        return 0 if self._queue is None else len(self._queue)

    @property
    def _taken(self) -> int:
        """Messages that count for `max_messages`."""
        # Those that go to the quarantine are counted when they are in it.
        counted = sum(
            outcome is None or outcome.kind == "accepted" for _, _, outcome in self._finished
        )
        return self.statistics.settled + self._unsettled - counted

    def _count(self) -> None:
        counts = self.statistics
        pending, target = self._pending, self._to.link
        counts.in_flight = len(pending.in_flight)
        counts.waiting = self._unsettled - counts.in_flight
        counts.held = pending.held + len(self._passed) + len(self._surplus)
        self._count_ends()
        if target is None:
            counts.state = "target is away"
        elif self._observer is not None:
            counts.state = _LEFT_TO_OTHERS
        elif self._from.link is None:
            counts.state = "source is away"
        elif target.waits:
            counts.state = "target takes nothing for now"
        elif pending.held and not pending.in_flight:
            counts.state = "target refuses"
        elif pending.isolating:
            counts.state = "looking for the message that ended the target's connection"
        elif self._slow >= self.options.outcome_timeout:
            counts.state = "a message of the source does not come to its end"
        else:
            counts.state = "running"

    def _count_ends(self) -> None:
        """Note which ends are connected, and how often one could not be."""
        ends: dict[str, KeptLink[Any]] = {"source": self._from, "target": self._to}
        if self._queue is not None:
            ends["quarantine"] = self._queue
        connected = {name: end.link is not None for name, end in ends.items()}
        connected["source"] |= self._observer is not None
        self.statistics.connected = connected
        self.statistics.unreachable = Counter({name: end.failures for name, end in ends.items()})

    async def _drain(self) -> None:
        self.statistics.state = "draining"
        if self._from.link is not None and self._fault is None:
            self._from.link.stop()
        now = self._loop.time()
        deadline, quiet = now + self.options.drain, now + self._waits.quiet
        unsettled = self._unsettled
        while self._pending.in_flight or self._finished or self._leaving:
            lost = self._fault is not None and not self._is_disk_full
            now = self._loop.time()
            if unsettled != self._unsettled:
                unsettled, quiet = self._unsettled, now + self._waits.quiet
                self._over = now + self._waits.end
            if lost or now >= min(deadline, quiet):
                break
            await asyncio.sleep(0.01)
            self._count_ends()

    async def _close(self) -> None:
        """Give back what was not sent, and close both ends."""
        self._finish()
        rest = [*self._pending.unsent(), *self._surplus, *self._passed, *self._records.copies]
        left = self._over - self._loop.time()
        wait = max(self._waits.close_hastily, min(self._waits.close, left))
        # A target that has said nothing of what it has will not say goodbye.
        last = self._waits.close_hastily if self._pending.in_flight else wait
        closing: list[Awaitable[None]] = [self._from.close(wait), self._to.close(last)]
        if self._queue is not None:
            rest += self._queue.deliveries
            closing.append(self._queue.close(wait))
        closing += self._closing
        self._settle(rest, Settle.RELEASE)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.gather(*closing, return_exceptions=True), wait)

    # The ends.

    def _open_target(self) -> Awaitable[TargetLink]:
        return open_target(
            TargetRequest(
                endpoint=self.target,
                on_outcomes=self._on_outcomes,
                on_room=self._pump,
                on_lost=self._to.lose,
                window=self.options.window,
                on_passed=self._to.passed,
                lines=self._sides.targets,
                alone=self._to.alone,
            )
        )

    async def _keep_source(self) -> None:
        await self._to.opened.wait()
        if self._queue is not None:
            await self._queue.opened.wait()
        await self._from.keep()

    async def _open_source(self) -> SourceLink:
        await self._ending.begin(self._source_now(), self._records.positions.next)
        await self._check_last_message()
        return await open_source(
            SourceRequest(
                endpoint=self._source_now(),
                receive=self._receive,
                on_lost=self._from.lose,
                window=self._caution.window(self._window),
                max_message=self.options.max_message,
                overflow=self._overflow,
                on_passed=self._from.passed,
                lines=self._sides.sources,
                alone=self._from.alone,
            )
        )

    async def _check_last_message(self) -> None:
        """Refuse a source that was replaced by another one since it was read.

        Raises:
            LinkError: it was replaced, or cannot be read.
        """
        try:
            why = await unchecked(
                self.source,
                self._records.positions,
                self._ending.oldest,
                self.options.max_message,
                self._sides.counting,
            )
        except SourceReplacedError as error:
            self._fail(error)  # also while it runs: trying again would not help
            raise
        if why and why not in self._unchecked:
            self._unchecked.add(why)
            self.log("source-unchecked", logging.WARNING, at=str(self.source), why=why)

    def _source_opened(self) -> None:
        self._ending.open()
        self._slow = 0.0
        self._opened = self._opened or self._loop.time()
        self._count()

    @property
    def _window(self) -> int:
        """How many deliveries of the source may be unsettled."""
        return min(self.options.window, self._ending.max_settled or self.options.window)

    def _source_now(self) -> Endpoint:
        """Return the source, to be read from where it was read to."""
        following = self._records.positions.next
        return self.source if following is None else self.source.read_from(str(following))

    def _lost_source(self, error: LinkError) -> None:
        """Forget what is not in flight: the source delivers it again."""
        self.statistics.source_lost += 1
        self._from.report(error)
        self._forget_source()
        self._ending.lose()
        if error.local:
            self._fail(error)
            return
        if error.shared and (error.said or error.failed):
            self._separate(self._from)
            return
        stuck = self._caution.end(error, self._window)
        if stuck is not None:
            self._fail(stuck)

    def _reopen_source(self) -> None:
        """Open the source again, as nothing of it is unsettled."""
        why = self._reopening
        link = self._from.release()
        if link is not None:
            self.log("source-reopened", at=str(self.source), why=why)
            self._caution.relax()
            self._forget_source()
            self._close_later(link)

    def _close_later(self, link: Link) -> None:
        closing = asyncio.ensure_future(link.close(5.0))
        self._closing[closing] = link
        closing.add_done_callback(self._closing.pop)

    # Connections that others have, too.

    def _separate(self, end: KeptLink[Any]) -> None:
        """Give an end a connection of its own: the cause may be a message of this route."""
        if not end.alone:
            end.alone = True
            self.log(f"{end.name}-apart", logging.WARNING, at=str(end.endpoint))

    def _rejoin(self, now: float) -> None:
        """Share connections again, some time after one ended that others had, too."""
        for end in (self._from, self._to):
            if not end.alone or end.link is None or now - end.since < self._waits.share_again:
                continue
            if end is self._from:
                if not (self._too_large or self._reopening or self._caution.careful):
                    end.alone = False
                    self._reopen_soon("its connection did well")
            elif not self._pending.isolating:
                self._joining = True
                if not self._pending.in_flight:
                    self._joining = False
                    end.alone = False
                    end.progress = True
                    link = end.release()
                    if link is not None:
                        self._close_later(link)

    def _reopen_soon(self, why: str) -> None:
        """Ask for nothing more, and open the source again when all is settled that came."""
        source = self._from.link
        if source is not None and not self._reopening:
            self._reopening = why
            source.stop()

    def _hold(self, source: SourceLink) -> None:
        """Read no more for now; where others have the connection, go on with one of its own."""
        self._holding = True
        if not source.hold(True):
            self._spilling = True  # what was on its way still comes, and would have no bound
            self._from.alone = self._too_large = True
            self._reopen_soon("its messages need a connection of their own")

    def _forget_source(self) -> None:
        self._holding = self._spilling = False
        self._reopening = ""
        in_flight = self._pending.lose_source()
        for delivery in self._queue.deliveries if self._queue is not None else []:
            delivery.link = None
            in_flight.append(delivery)
        self._surplus.clear()
        self._passed.clear()
        self._bytes = sum(delivery.size for delivery in in_flight)
        self._records.reset(in_flight)

    def _target_opened(self) -> None:
        self._absence.end()
        self._loop.call_soon(self._pump)

    def _target_refused(self, error: LinkError) -> bool:
        """Count for all that waits, where the target's queue is no more, that it is refused."""
        if error.missing:
            self._absence.begin(str(error))
            if self.options.ends:
                self._refuse_unsent()
        return error.missing

    def _refuse_unsent(self) -> None:
        for delivery in self._pending.take_unsent():
            self._refused(delivery, self._absence.outcome)

    def _lost_target(self, error: LinkError) -> None:
        """Send again what was in flight: one at a time where one of them may be the cause.

        So all that may come twice did so with the first end. A connection that was merely cut for
        the first time is not blamed on a message.
        """
        self.statistics.target_lost += 1
        self._joining = False
        flying, orphans = self._pending.lose_target()
        self._to.report(error, suspects=len(flying))
        for delivery in orphans:
            self._forget(delivery)  # the source is to deliver it again
        if error.local:
            self._pending.put_back(flying)  # they return to the source when the route ends
            self._fail(error)
            return
        blamed = error.said or error.failed
        if error.shared:
            # A message is blamed only for the end of a connection that no other route had.
            found = len(flying) == 1 and flying[0].suspected
            if found or (flying and blamed):
                self._separate(self._to)
        elif len(flying) == 1:
            (alone,) = flying
            alone.deaths += _DEATHS if error.said else 1
            if alone.deaths >= _DEATHS:
                self._refused(alone, Outcome("fatal", "", str(error), final=True))
                flying = []
                self._pending.throttle()
                self._to.progress = True
        self._pending.suspect(flying, isolated=blamed)

    # Deliveries.

    def _receive(self, deliveries: Sequence[SourceDelivery]) -> None:
        if self._closing:
            deliveries = self._without_closing(deliveries)
            if not deliveries:
                return
        now, before, count = self._loop.time(), self._ending.restart(), self.statistics.received
        self._slow = 0.0
        passed = [self._receive_one(delivery, now) for delivery in deliveries]
        if all(passed):
            self._ending.resume(before)  # nothing new came
        self._caution.receive(self.statistics.received - count)

    def _without_closing(self, deliveries: Sequence[SourceDelivery]) -> list[SourceDelivery]:
        """Return the deliveries that can be settled.

        The peer delivers the others again: it returns to the queue what is unsettled when their
        link closes.
        """
        closing = {id(link) for link in self._closing.values()}
        for delivery in deliveries:
            if delivery.large is not None and id(delivery.link) in closing:
                delivery.large.discard()
        return [delivery for delivery in deliveries if id(delivery.link) not in closing]

    def _receive_one(self, delivery: SourceDelivery, now: float) -> bool:
        """Take a delivery; return whether it is one that goes back, and comes again and again."""
        counts, options = self.statistics, self.options
        if self._spilling:
            if delivery.large is not None:
                delivery.large.discard()
            self._settle([delivery], Settle.RELEASE)
            return True
        counts.received += 1
        delivery.came = now
        counts.redelivered += delivery.redelivered
        most, source = self._ending.max_settled, self._from.link
        if self._stopping or (most is not None and self._taken >= most):
            if not self._surplus and source is not None:
                source.stop()
            if delivery.large is not None:
                delivery.large.discard()
            self._surplus.append(delivery)
            return False
        positions = self._records.positions
        positions.receive(delivery)
        if positions.skipped > counts.skipped:
            counts.skipped = positions.skipped
            if not self._skips:
                self._skips = True
                at = str(self.source)
                self.log("stream-skipped", logging.WARNING, at=at, why=_SKIPPED)
        if delivery.large is not None:
            self._receive_large(delivery, delivery.large)
            return False
        if delivery.fault:
            self._refused(delivery, Outcome(UNREADABLE, "", delivery.fault, final=True))
            return False
        self._bytes += delivery.size
        if self._bytes > options.max_bytes and not self._holding and source is not None:
            self._hold(source)
        if options.deduplicate is not None and not self._is_new(delivery):
            return False
        if options.predicate is not None and not self._matches(delivery):
            return delivery in self._passed
        self._pending.add(delivery)
        self._pump_soon()
        return False

    def _receive_large(self, delivery: SourceDelivery, large: Oversized) -> None:
        options = self.options
        if not large.is_whole:
            # Not settled before the end: given back now, it would come again and again.
            self.statistics.left += 1
            text = f"{large.folder} holds {options.max_large} bytes at most (max-large)"
            self.log("message-left", logging.ERROR, size=len(large), why=text)
            large.discard()
            self._surplus.append(delivery)
            return
        text = f"{len(large)} bytes, and {options.max_message} at most are sent"
        self._refused(delivery, Outcome("too-large", "", text, final=True))

    def _is_new(self, delivery: SourceDelivery) -> bool:
        """Whether the target has not this message already, and will not have it soon."""
        try:
            taken = self._records.is_taken(delivery)
        except OSError as error:  # the file is damaged; the message goes back to the source
            self._surplus.append(delivery)
            self._is_disk_full = True
            self._fail(error)
            return False
        if taken:
            self.statistics.duplicates += 1
            self._end(delivery, Settle.ACCEPT)
        return taken is False

    def _matches(self, delivery: SourceDelivery) -> bool:
        try:
            predicate = self.options.predicate
            passes = predicate is None or predicate(message_of(delivery))
        except Exception as error:  # noqa: BLE001  (of a hook: its message is set aside, not lost)
            self._refused(delivery, Outcome("untranslatable", "", f"filter: {error}", final=True))
            return False
        if not passes:
            self.statistics.unmatched += 1
            how = self.options.unmatched
            if how == "requeue" and not self.source.keeps:
                # A pause, since it may come back at once.
                self._passed[delivery] = None
                self._loop.call_later(self.options.max_backoff, self._give_back, delivery)
            else:
                self._end(delivery, Settle.ACCEPT if how == "requeue" else _SETTLES[how])
        return passes

    def _give_back(self, delivery: SourceDelivery) -> None:
        if self._passed.pop(delivery, self) is None:
            self._end(delivery, Settle.RELEASE)

    def _pump_soon(self) -> None:
        """Send at the end of this turn of the loop, so that all that came in it goes together."""
        if not self._due:
            self._due = True
            self._loop.call_soon(self._pump)

    def _pump(self) -> None:
        """Send what may be sent now."""
        self._due = False
        target = self._to.link
        if self._pumping or self._joining or self._fault is not None or self._stop.is_set():
            return
        if target is None:
            if self._absence.given_up:
                self._refuse_unsent()
            return
        self._pumping = True
        try:
            now = self._loop.time()
            while self._to.link is target and (room := min(target.room, _BATCH)) > 0:
                batch = self._pending.take(now, room)
                if not batch:
                    break
                ready: list[Sent] = []
                for delivery, made in zip(batch, self._prepare(batch), strict=True):
                    if isinstance(made, Outgoing):
                        delivery.sent = now
                        ready.append((made, delivery))
                    else:
                        self._keep_back(delivery, made)
                if self._to.link is not target:
                    self._pending.put_back([delivery for _, delivery in ready])
                elif ready:
                    self._pending.in_flight.update((delivery, None) for _, delivery in ready)
                    target.send(ready)
        finally:
            self._pumping = False

    def _keep_back(self, delivery: SourceDelivery, error: Exception | None) -> None:
        """Take what is not to be sent: the hook dropped it, or it cannot be translated."""
        if error is None:
            self.statistics.dropped += 1
            self._end(delivery, Settle.ACCEPT)
            return
        why = str(error)
        if not isinstance(error, AmqpError):
            why = f"hook: {error!r}"
            self.log("hook-failed", logging.ERROR, why=repr(error))
        self._refused(delivery, Outcome("untranslatable", "", why, final=True))

    def _on_outcomes(self, outcomes: Sequence[tuple[SourceDelivery, Outcome]]) -> None:
        in_flight, accepted = self._pending.in_flight, 0
        for delivery, outcome in outcomes:
            if in_flight.pop(delivery, self) is self:
                continue
            self._to.progress = True
            if outcome.kind != "accepted":
                if outcome.kind == "returned" and self.target.queue is not None:
                    self._absence.begin(outcome.description)
                self._refused(delivery, outcome)
                continue
            self._absence.end()
            accepted += 1
            self.statistics.octets += delivery.size
            self._end(delivery, Settle.ACCEPT, outcome)
        if accepted:
            self._pending.succeed(accepted)
            self.statistics.accepted += accepted
            self.statistics.last_success = time.time()

    def _refused(self, delivery: SourceDelivery, outcome: Outcome) -> None:
        """Try a message again later, or do with it what the options say."""
        options, counts = self.options, self.statistics
        for place in (*self.target.places, *self.source.places):
            outcome = outcome.without(place.password)
        counts.refused[outcome.kind] += 1
        if delivery.link is None:
            self._forget(delivery)  # the source was lost meanwhile, and delivers it again
            return
        action = options.on.get(outcome.kind, "quarantine")
        if action == "requeue" and self.source.keeps:
            action = "quarantine"  # a stream takes nothing back, and would go on after it
        if not self._absence.is_final(outcome):
            now = self._loop.time()
            delivery.first = delivery.first or now
            delivery.tries += 1
            delivery.attempts += outcome.kind not in _FULL
            patient = options.patience is None or now - delivery.first < options.patience
            if delivery.attempts < options.attempts and patient:
                due = now + pause(self.options, delivery.tries - 1)
                self._pending.hold(delivery, due)
                self._loop.call_at(due, self._pump)
                return
            gone = self._absence.give_up(outcome, goes_back=action == "requeue")
            if gone is not None:
                self._fail(gone)
        if action == "quarantine" and self._queue is not None and delivery.large is None:
            self._queue.add(delivery, outcome)
        elif action == "quarantine":
            self._left(delivery, outcome)
        else:
            counter: Counter[str] = counts.requeued if action == "requeue" else counts.rejected
            counter[outcome.kind] += 1
            self._log_refused(action, delivery, outcome)
            self._end(delivery, _SETTLES[action])

    def _log_refused(self, action: str, delivery: SourceDelivery, outcome: Outcome) -> None:
        fields = {"reason": outcome.kind, "why": outcome.description or outcome.condition}
        self.log(f"message-{action}", logging.WARNING, size=delivery.size, **fields)

    def _kept(self, delivery: SourceDelivery, outcome: Outcome) -> None:
        """Settle what the queue of the quarantine has."""
        if delivery.link is not None:
            self.statistics.quarantined[outcome.kind] += 1
            self._log_refused("quarantine", delivery, outcome)
            self._end(delivery, Settle.ACCEPT)
        else:
            self._forget(delivery)  # the source delivers it again

    def _left(self, delivery: SourceDelivery, outcome: Outcome) -> None:
        """Settle what goes to the file of the quarantine."""
        if delivery.link is not None:
            self._end(delivery, Settle.ACCEPT, outcome)
        else:
            self._forget(delivery)

    # The end of a delivery.

    def _end(self, delivery: SourceDelivery, how: Settle, outcome: Outcome | None = None) -> None:
        """Settle a delivery at the end of this turn, after what the disk is to know of it."""
        if not self._finished:
            self._loop.call_soon(self._finish)
        self._finished.append((delivery, how, outcome))

    def _finish(self) -> None:
        written, self._finished = self._finished, []
        finished, fault = self._records.finish(written)
        if fault is not None:
            self._is_disk_full = True
            self._fail(fault)
            done = {delivery for delivery, _, _ in finished}
            # Not settled: they go back to the source.
            self._surplus += [delivery for delivery, _, _ in written if delivery not in done]
        now, settled = self._loop.time(), self.statistics.latency
        for how, group in itertools.groupby(finished, key=operator.itemgetter(1)):
            deliveries = []
            for delivery, _, outcome in group:
                deliveries.append(delivery)
                if delivery.link is not None:
                    settled.add(now - delivery.came)
                if outcome is not None and outcome.kind != "accepted":
                    self.statistics.quarantined[outcome.kind] += 1
                    self._log_refused("quarantine", delivery, outcome)
            self._settle(deliveries, how)
            for delivery in deliveries:
                self._forget(delivery)
        if finished:
            self.statistics.busy = now - self._opened
        if not self._unsettled:
            self._ending.end_if_done(self._records.positions.next)
            if not self._stop.is_set() and self._caution.is_over(self._window):
                self._reopen_soon("no message ended its connection")

    def _settle(self, deliveries: Sequence[SourceDelivery], how: Settle) -> None:
        for link, group in itertools.groupby(deliveries, key=operator.attrgetter("link")):
            if link is not None:
                link.settle(list(group), how)

    def _forget(self, delivery: SourceDelivery) -> None:
        if delivery.large is not None:
            delivery.large.discard()  # unless it was kept
            return
        self._bytes -= delivery.size
        source = self._from.link
        room = self._bytes * 2 < self.options.max_bytes
        if self._holding and room and not self._spilling and source is not None:
            self._holding = False
            source.hold(False)
        for copy in self._records.forget(delivery):
            if self._is_new(copy):
                self._pending.add(copy)
                self._pump_soon()
