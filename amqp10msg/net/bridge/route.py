"""A route: moves the messages of one source to one target.

A delivery is pending until its outcome is known. Then it is finished: it is settled at the source
in the next iteration of the event loop, after its record is on disk.
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
    MissingTarget,
    PoisonGuard,
    QuarantineQueue,
    ReconnectingLink,
    open_source,
    open_target,
    pause,
    warn_unverified_tls,
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
from amqp10msg.net.bridge.wire import ConnectionPools
from amqp10msg.net.options import RouteOptions
from amqp10msg.wire.errors import AmqpError
from amqp10msg.wire.text import printable

#: Maximum number of messages that are translated together.
_BATCH = 100
#: Disconnects with a single message in flight before that message is blamed.
_MAX_DEATHS = 3
#: Outcomes of a full target. They do not count as attempts to send a message.
_FULL = {"nacked", "full"}
_SETTLE_BY_ACTION = {"requeue": Settle.RELEASE, "reject": Settle.REJECT, "accept": Settle.ACCEPT}
_STANDBY = "another bridge runs it"
_LEFT_TO_OTHERS = "leaves the queue to its other consumers, unless messages are ready"
_SKIPPED = (
    "the broker delivers nothing for some positions: they are its own entries, or messages that it "
    "delivers only over its stream protocol, such as those in compressed batches"
)


def log_event(logger: logging.Logger, event: str, level: int, **fields: Any) -> None:
    """Log an event of a bridge. The log record has the attributes ``event`` and ``fields``.

    In the text of the record, characters that are not printable are escaped: a peer must not add
    lines to a log, or control a terminal. The fields are unchanged.
    """
    text = printable(" ".join(f"{name}={value}" for name, value in fields.items()))
    logger.log(level, "%s %s", event, text, extra={"event": event, "fields": fields})


class Route:
    """Moves messages from one source to one target until it is stopped or ends by its options.

    Args:
        name: the name of the route in logs and reports.
        source: the source.
        target: the target.
        options: the options.
        logger: receives events; see `log_event`.
        sides: the connections that it can share with other routes; None for its own connections.

    Attributes:
        statistics: the counts of the route.
    """

    def __init__(
        self,
        name: str,
        source: Endpoint,
        target: Endpoint,
        options: RouteOptions,
        logger: logging.Logger,
        sides: ConnectionPools | None = None,
    ) -> None:
        self.name = name
        self.source = source
        self.target = target
        self.options = options
        self._waits = options.waits
        self.statistics = Statistics()
        self._logger = logger
        self._sides = sides or ConnectionPools()
        overflow = options.quarantine.with_name(f"{options.quarantine.name}.large")
        self._overflow = functools.partial(Oversized, overflow, options.max_large)
        self._records: Records
        self._loop: asyncio.AbstractEventLoop
        pool = self._sides.counting
        self._ending = Ending(source, options, self.statistics, self.log, self._finish_as, pool)
        self._prepare = sender_of(source, target, options, self.statistics)
        # Source, target and quarantine queue.
        self._guard = PoisonGuard(source)
        self._from: ReconnectingLink[SourceLink] = ReconnectingLink(
            "source",
            source,
            options,
            self.log,
            open_=self._open_source,
            on_open=self._source_opened,
            on_lost=self._lost_source,
            early=True,
        )
        self._to: ReconnectingLink[TargetLink] = ReconnectingLink(
            "target",
            target,
            options,
            self.log,
            open_=self._open_target,
            on_open=self._target_opened,
            on_lost=self._lost_target,
            on_refused=self._target_refused,
        )
        self._queue: QuarantineQueue | None = None
        self._holding = False
        self._reopening = ""  # why the source will be reopened once all deliveries are settled
        self._spilling = False  # release all further deliveries until the source is reopened
        self._joining = False  # send nothing, so that the target can be reopened
        self._observer: Observer | None = None  # counts the source while it is not consumed
        self._closing: dict[asyncio.Future[None], Link] = {}
        self._too_large = False  # the deliveries exceed max_bytes: needs its own connection
        self._missing = MissingTarget(target, options, self.log)
        # The deliveries.
        self._pending = Pending()
        self._finished: list[Finished] = []
        self._surplus: list[SourceDelivery] = []
        self._unmatched: dict[SourceDelivery, None] = {}  # did not pass the filter, until released
        self._bytes = 0
        self._pumping = self._due = False
        # The run.
        self._stopping = self._is_disk_full = False
        self._stop = asyncio.Event()
        self._fault: BaseException | None = None
        self._asking: asyncio.Task[None] | None = None
        self._started = self._ticked = 0.0
        self._slow = 0.0  # seconds since the beginning of a message that is not complete yet
        self._skips = False  # whether skipped positions of the stream were logged
        self._unchecked: set[str] = set()  # logged reasons why the source could not be checked
        self._opened = 0.0  # when the source was first open, on the loop's clock
        self._over = 0.0  # when the route stops waiting for anything, on the same clock

    def log(self, event: str, level: int = logging.INFO, **fields: Any) -> None:
        """Log an event of this route."""
        log_event(self._logger, event, level, route=self.name, **fields)

    async def depth(self) -> int | None:
        """Query the number of remaining messages. Return the previous answer, or None at first."""
        source = self._from.link
        return await source.depth() if source is not None else None

    # The run.

    def stop(self) -> None:
        """End the route after the outcomes of the messages in flight; accept no more deliveries."""
        self._finish_as("stopped")

    def _finish_as(self, ending: str) -> None:
        self._stopping = True
        if ending in {"count", "length"}:
            self.statistics.asked = False  # discard the count of an earlier query
            self.statistics.remaining = self.statistics.unacknowledged = None
        self.statistics.ending = self.statistics.ending or ending
        self._stop.set()

    async def run(self) -> None:
        """Run until `stop` is called or the route ends by its options.

        Raises:
            LinkError: the source or target cannot be used: wrong credentials, no such queue.
            OSError: a message could not be written to the quarantine; it was not settled.
        """
        self._loop = asyncio.get_running_loop()
        self._started = self._loop.time()
        if self.options.state is None:
            await self._run()
            return
        lease = Lease(self.options.state, self.name)
        try:
            if await self._acquire(lease):
                await self._run()
        except OSError as error:
            self._note_failure(error)
            raise
        finally:
            lease.release()

    def _note_failure(self, error: Exception) -> None:
        """Log that the route failed before it ran, once."""
        if not self.statistics.failed:
            self.statistics.state = self.statistics.ending = "failed"
            self.log("route-failed", logging.ERROR, why=str(error))

    def _measure(self) -> None:
        """Update the duration of the run."""
        self.statistics.seconds = self._loop.time() - self._started

    async def _wait(self) -> bool:
        """Wait for the stop of the route, for one tick at most. Return whether it is stopping."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._waits.check_interval):
                await self._stop.wait()
        return self._stop.is_set()

    async def _acquire(self, lease: Lease) -> bool:
        """Wait until no other bridge runs this route. Return False if it was stopped meanwhile.

        Raises:
            LinkError: the route ends by itself, and the other bridge did not end in time.
        """
        reach, counts = self.options.reach, self.statistics
        while not lease.take():
            if counts.state != _STANDBY:
                counts.state = _STANDBY
                self.log("route-stands-by", at=str(self.source), state=str(self.options.state))
            self._measure()
            self._ending.end_if_late()
            if reach is not None and counts.seconds >= reach and not self._stop.is_set():
                text = f"{self.options.state}: another bridge runs this route since {reach:g} s"
                raise LinkError(text, permanent=True)
            if await self._wait():
                self._ending.end_unasked(_STANDBY)
                return False
        return True

    async def _declare(self) -> bool:
        """Declare the source's queue at the target. Return False if the route ended before that."""
        from amqp10msg.net.bridge.topology import declare_for  # noqa: PLC0415  (rarely used)

        self.statistics.state = "declaring"
        declaring = asyncio.ensure_future(
            declare_for(self.source, self.target, self.options, self.log)
        )
        try:
            while not (declaring.done() or self._stop.is_set()):
                self._measure()
                self._ending.end_if_late()
                await asyncio.wait([declaring], timeout=self._waits.check_interval)
            if declaring.done():
                declaring.result()
                return True
            self._ending.end_unasked("it ended while it declared the queue")
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
        warn_unverified_tls((self.source, self.target, self.options.quarantine_queue), self.log)
        keeping = [self._to.keep(), self._keep_source()]
        if self.options.quarantine_queue is not None:
            self._queue = QuarantineQueue(
                self.options.quarantine_queue,
                self.options,
                self._records.names,
                self.log,
                kept=self._settle_queued,
                left=self._write_to_file,
                pool=self._sides.targets,
            )
            keeping.append(self._queue.keep())
        tasks = [asyncio.ensure_future(coroutine) for coroutine in keeping]
        for task in tasks:
            task.add_done_callback(self._fail_with_task)
        try:
            while not self._stop.is_set():
                self._measure()
                if not await self._wait():
                    self._tick()
            self._over = self._loop.time() + self._waits.shutdown_timeout
            if self._fault is None or self._is_disk_full:
                await (
                    self._drain()
                )  # settle what the target accepts; otherwise it is delivered again
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
                self._records.close()  # also if this task is cancelled meanwhile
            counts = self.statistics
            counts.in_flight = counts.waiting = counts.held = 0
            counts.position = self._records.positions.next
            self._count_ends()
            self._measure()
            counts.state = "failed" if self._fault else "ended"
        if self._fault is not None:
            self.log("route-failed", logging.ERROR, why=str(self._fault))
            raise self._fault

    def _fail_with_task(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        if self._fault is None:
            self._fault = error
            self.statistics.ending = "failed"
            if self._from.link is not None:
                self._from.link.stop()  # so that released messages are counted, not delivered again
        self._stop.set()

    def _tick(self) -> None:
        """Check everything that depends on time: overdue outcomes, retries, the route's end."""
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
        # The pause of a process that was suspended does not count as idle time of the source.
        passed = min(now - self._ticked, self._waits.check_interval)
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
        """Log repeatedly that the rest of a message does not arrive."""
        before, self._slow = self._slow, self._slow + passed
        every = self.options.outcome_timeout
        if before // every != self._slow // every:
            why = f"a message is incomplete {self._slow:.0f} s after its first bytes"
            self.log("source-slow", logging.WARNING, at=str(self.source), why=why)

    def _ask(self, source: Countable) -> None:
        """Query the number of messages at the source, unless a query is running."""
        if self._asking is None or self._asking.done():
            self._asking = asyncio.ensure_future(self._end_if_empty(source))
            self._asking.add_done_callback(self._fail_with_task)

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
        """Stop consuming an empty queue that has other consumers, and only count its messages.

        The broker does not report the messages that a consumer holds, so two bridges that run until
        their common queue is empty would wait for each other. A route that holds messages of the
        source keeps its link: closing it would requeue them.
        """
        shared = depth.ready == 0 and depth.others and depth.unacknowledged is None
        observer = self._ending.observer()
        if not shared or observer is None or self._held or self._reopening:
            return
        received = self.statistics.received
        source.stop()
        with contextlib.suppress(LinkError, TimeoutError):
            async with asyncio.timeout(self._waits.close_timeout):
                await source.count()  # deliveries in flight arrive before the answer
        if source is not self._from.link or self._stop.is_set():
            return
        if self.statistics.received != received or self._reopening:
            source.resume()  # before settling anything: other bridges must see this consumer
            return
        self._observer = observer
        self._from.release(reopen=False)
        self._close_later(source)
        self.log("source-left", at=str(self.source), others=depth.others, why=_LEFT_TO_OTHERS)

    async def _count_rest(self) -> None:
        self._finish()  # so that released messages are counted
        if self._asking is not None:
            self._asking.cancel()
        wait = min(
            self._waits.close_timeout,
            self._over - self._loop.time() - self._waits.min_close_timeout,
        )
        following = self._records.positions.next
        source = self._from.link or self._observer
        await self._ending.count_rest(source, following, wait, lambda: self._held)

    @property
    def _held(self) -> int:
        """Number of unsettled messages that are released to the source when the route ends."""
        return len(self._surplus) + len(self._unmatched) + len(self._pending) + self._quarantining

    @property
    def _unsettled(self) -> int:
        return len(self._pending) + len(self._finished) + self._quarantining

    @property
    def _quarantining(self) -> int:
        """Number of messages that the quarantine queue has not answered yet."""
        return 0 if self._queue is None else len(self._queue)

    @property
    def _counted(self) -> int:
        """Number of messages that count for `max_messages`."""
        # Finished messages are counted already, except those for the quarantine file.
        counted = sum(
            outcome is None or outcome.kind == "accepted" for _, _, outcome in self._finished
        )
        return self.statistics.settled + self._unsettled - counted

    def _count(self) -> None:
        counts = self.statistics
        pending, target = self._pending, self._to.link
        counts.in_flight = len(pending.in_flight)
        counts.waiting = self._unsettled - counts.in_flight
        counts.held = pending.held + len(self._unmatched) + len(self._surplus)
        self._count_ends()
        if target is None:
            counts.state = "target is not connected"
        elif self._observer is not None:
            counts.state = _LEFT_TO_OTHERS
        elif self._from.link is None:
            counts.state = "source is not connected"
        elif target.waits:
            counts.state = "target has blocked publishing"
        elif pending.held and not pending.in_flight:
            counts.state = "target refuses messages"
        elif pending.isolating:
            counts.state = "searching the message that ended the target's connection"
        elif self._slow >= self.options.outcome_timeout:
            counts.state = "the source stopped partway through a message"
        else:
            counts.state = "running"

    def _count_ends(self) -> None:
        """Update which ends are connected, and the number of failed attempts."""
        ends: dict[str, ReconnectingLink[Any]] = {"source": self._from, "target": self._to}
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
        deadline, quiet = now + self.options.drain, now + self._waits.drain_idle
        unsettled = self._unsettled
        while self._pending.in_flight or self._finished or self._quarantining:
            lost = self._fault is not None and not self._is_disk_full
            now = self._loop.time()
            if unsettled != self._unsettled:
                unsettled, quiet = self._unsettled, now + self._waits.drain_idle
                self._over = now + self._waits.shutdown_timeout
            if lost or now >= min(deadline, quiet):
                break
            await asyncio.sleep(0.01)
            self._count_ends()

    async def _close(self) -> None:
        """Release the unsent messages, and close the links."""
        self._finish()
        unsent = [*self._pending.unsent(), *self._surplus, *self._unmatched, *self._records.copies]
        left = self._over - self._loop.time()
        wait = max(self._waits.min_close_timeout, min(self._waits.close_timeout, left))
        # A target that has not answered so far will not answer the close either.
        target_wait = self._waits.min_close_timeout if self._pending.in_flight else wait
        closing: list[Awaitable[None]] = [self._from.close(wait), self._to.close(target_wait)]
        if self._queue is not None:
            unsent += self._queue.deliveries
            closing.append(self._queue.close(wait))
        closing += self._closing
        self._settle(unsent, Settle.RELEASE)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.gather(*closing, return_exceptions=True), wait)

    # Source and target.

    def _open_target(self) -> Awaitable[TargetLink]:
        return open_target(
            TargetRequest(
                endpoint=self.target,
                on_outcomes=self._on_outcomes,
                on_room=self._pump,
                on_lost=self._to.lose,
                window=self.options.window,
                on_passed=self._to.passed,
                pool=self._sides.targets,
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
                window=self._guard.window(self._window),
                max_message=self.options.max_message,
                overflow=self._overflow,
                on_passed=self._from.passed,
                pool=self._sides.sources,
                alone=self._from.alone,
            )
        )

    async def _check_last_message(self) -> None:
        """Check that the source was not replaced by another one since the last run.

        Raises:
            LinkError: the source was replaced, or cannot be read.
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
            self._fail(error)  # also in a running route: a retry cannot succeed
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
        """Maximum number of unsettled deliveries of the source."""
        return min(self.options.window, self._ending.max_settled or self.options.window)

    def _source_now(self) -> Endpoint:
        """Return the source with the offset up to which it was read."""
        following = self._records.positions.next
        return self.source if following is None else self.source.read_from(str(following))

    def _lost_source(self, error: LinkError) -> None:
        """Discard the deliveries that are not in flight: the source delivers them again."""
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
        stuck = self._guard.end(error, self._window)
        if stuck is not None:
            self._fail(stuck)

    def _reopen_source(self) -> None:
        """Reopen the source; all of its deliveries are settled."""
        why = self._reopening
        link = self._from.release()
        if link is not None:
            self.log("source-reopened", at=str(self.source), why=why)
            self._guard.relax()
            self._forget_source()
            self._close_later(link)

    def _close_later(self, link: Link) -> None:
        closing = asyncio.ensure_future(link.close(5.0))
        self._closing[closing] = link
        closing.add_done_callback(self._closing.pop)

    # Shared connections.

    def _separate(self, end: ReconnectingLink[Any]) -> None:
        """Use a separate connection: a message of this route may have ended the shared one."""
        if not end.alone:
            end.alone = True
            self.log(f"{end.name}-apart", logging.WARNING, at=str(end.endpoint))

    def _rejoin(self, now: float) -> None:
        """Share connections again, some time after a shared connection ended."""
        for end in (self._from, self._to):
            if not end.alone or end.link is None or now - end.since < self._waits.rejoin_delay:
                continue
            if end is self._from:
                if not (self._too_large or self._reopening or self._guard.careful):
                    end.alone = False
                    self._reopen_soon("its separate connection was stable")
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
        """Request no more deliveries, and reopen the source when all of them are settled."""
        source = self._from.link
        if source is not None and not self._reopening:
            self._reopening = why
            source.stop()

    def _hold(self, source: SourceLink) -> None:
        """Pause reading. If other routes share the connection, move to a separate one instead."""
        self._holding = True
        if not source.hold(True):
            self._spilling = True  # deliveries in flight still arrive, without a bound
            self._from.alone = self._too_large = True
            self._reopen_soon("its messages need a separate connection")

    def _forget_source(self) -> None:
        self._holding = self._spilling = False
        self._reopening = ""
        in_flight = self._pending.lose_source()
        for delivery in self._queue.deliveries if self._queue is not None else []:
            delivery.link = None
            in_flight.append(delivery)
        self._surplus.clear()
        self._unmatched.clear()
        self._bytes = sum(delivery.size for delivery in in_flight)
        self._records.reset(in_flight)

    def _target_opened(self) -> None:
        self._missing.end()
        self._loop.call_soon(self._pump)

    def _target_refused(self, error: LinkError) -> bool:
        """Refuse the waiting messages if the target's queue was deleted. Return whether it was."""
        if error.missing:
            self._missing.begin(str(error))
            if self.options.ends:
                self._refuse_unsent()
        return error.missing

    def _refuse_unsent(self) -> None:
        for delivery in self._pending.take_unsent():
            self._refused(delivery, self._missing.outcome)

    def _lost_target(self, error: LinkError) -> None:
        """Resend the messages in flight: one at a time if one may have ended the connection.

        So a message is duplicated only by the first loss. If a connection was only cut, no message
        is blamed the first time.
        """
        self.statistics.target_lost += 1
        self._joining = False
        flying, orphans = self._pending.lose_target()
        self._to.report(error, suspects=len(flying))
        for delivery in orphans:
            self._forget(delivery)  # the source delivers it again
        if error.local:
            self._pending.put_back(flying)  # released when the route ends
            self._fail(error)
            return
        blamed = error.said or error.failed
        if error.shared:
            # A message is blamed only if no other route shared the connection.
            is_suspect = len(flying) == 1 and flying[0].suspected
            if is_suspect or (flying and blamed):
                self._separate(self._to)
        elif len(flying) == 1:
            (alone,) = flying
            alone.deaths += _MAX_DEATHS if error.said else 1
            if alone.deaths >= _MAX_DEATHS:
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
        now, idle, count = self._loop.time(), self._ending.restart(), self.statistics.received
        self._slow = 0.0
        returning = [self._receive_one(delivery, now) for delivery in deliveries]
        if all(returning):
            self._ending.resume(idle)  # no new message arrived
        self._guard.receive(self.statistics.received - count)

    def _without_closing(self, deliveries: Sequence[SourceDelivery]) -> list[SourceDelivery]:
        """Return the deliveries of links that are not closing.

        The others cannot be settled. The peer requeues them when their link closes.
        """
        closing = {id(link) for link in self._closing.values()}
        for delivery in deliveries:
            if delivery.large is not None and id(delivery.link) in closing:
                delivery.large.discard()
        return [delivery for delivery in deliveries if id(delivery.link) not in closing]

    def _receive_one(self, delivery: SourceDelivery, now: float) -> bool:
        """Process a delivery. Return whether it will be released, and so delivered again."""
        counts, options = self.statistics, self.options
        if self._spilling:
            if delivery.large is not None:
                delivery.large.discard()
            self._settle([delivery], Settle.RELEASE)
            return True
        counts.received += 1
        delivery.came = now
        counts.redelivered += delivery.redelivered
        limit, source = self._ending.max_settled, self._from.link
        if self._stopping or (limit is not None and self._counted >= limit):
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
            return delivery in self._unmatched
        self._pending.add(delivery)
        self._pump_soon()
        return False

    def _receive_large(self, delivery: SourceDelivery, large: Oversized) -> None:
        options = self.options
        if not large.is_whole:
            # Kept until the end of the route: if released now, it would be delivered again.
            self.statistics.left += 1
            text = f"{large.folder} holds {options.max_large} bytes at most (max-large)"
            self.log("message-left", logging.ERROR, size=len(large), why=text)
            large.discard()
            self._surplus.append(delivery)
            return
        text = f"{len(large)} bytes exceed max-message, {options.max_message}"
        self._refused(delivery, Outcome("too-large", "", text, final=True))

    def _is_new(self, delivery: SourceDelivery) -> bool:
        """Whether the target did not accept this message before, and it is not in flight."""
        try:
            accepted = self._records.is_taken(delivery)
        except OSError as error:  # the file is damaged; release the message
            self._surplus.append(delivery)
            self._is_disk_full = True
            self._fail(error)
            return False
        if accepted:
            self.statistics.duplicates += 1
            self._end(delivery, Settle.ACCEPT)
        return accepted is False

    def _matches(self, delivery: SourceDelivery) -> bool:
        try:
            predicate = self.options.predicate
            passes = predicate is None or predicate(message_of(delivery))
        except Exception as error:  # noqa: BLE001  (a hook's error quarantines the message)
            self._refused(delivery, Outcome("untranslatable", "", f"filter: {error}", final=True))
            return False
        if not passes:
            self.statistics.unmatched += 1
            how = self.options.unmatched
            if how == "requeue" and not self.source.keeps:
                # After a pause, because the source may deliver it again immediately.
                self._unmatched[delivery] = None
                self._loop.call_later(self.options.max_backoff, self._release, delivery)
            else:
                self._end(delivery, Settle.ACCEPT if how == "requeue" else _SETTLE_BY_ACTION[how])
        return passes

    def _release(self, delivery: SourceDelivery) -> None:
        if self._unmatched.pop(delivery, self) is None:
            self._end(delivery, Settle.RELEASE)

    def _pump_soon(self) -> None:
        """Send in the next iteration of the loop, so that deliveries are sent together."""
        if not self._due:
            self._due = True
            self._loop.call_soon(self._pump)

    def _pump(self) -> None:
        """Send the waiting messages that the target has room for."""
        self._due = False
        target = self._to.link
        if self._pumping or self._joining or self._fault is not None or self._stop.is_set():
            return
        if target is None:
            if self._missing.given_up:
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
                for delivery, prepared in zip(batch, self._prepare(batch), strict=True):
                    if isinstance(prepared, Outgoing):
                        delivery.sent = now
                        ready.append((prepared, delivery))
                    else:
                        self._settle_unsendable(delivery, prepared)
                if self._to.link is not target:
                    self._pending.put_back([delivery for _, delivery in ready])
                elif ready:
                    self._pending.in_flight.update((delivery, None) for _, delivery in ready)
                    target.send(ready)
        finally:
            self._pumping = False

    def _settle_unsendable(self, delivery: SourceDelivery, error: Exception | None) -> None:
        """Handle a message that the hook dropped (None) or that cannot be translated."""
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
                    self._missing.begin(outcome.description)
                self._refused(delivery, outcome)
                continue
            self._missing.end()
            accepted += 1
            self.statistics.octets += delivery.size
            self._end(delivery, Settle.ACCEPT, outcome)
        if accepted:
            self._pending.succeed(accepted)
            self.statistics.accepted += accepted
            self.statistics.last_success = time.time()

    def _refused(self, delivery: SourceDelivery, outcome: Outcome) -> None:
        """Schedule a retry of a message, or settle it as the options say."""
        options, counts = self.options, self.statistics
        for place in (*self.target.places, *self.source.places):
            outcome = outcome.without(place.password)
        counts.refused[outcome.kind] += 1
        if delivery.link is None:
            self._forget(delivery)  # the source was lost, and delivers it again
            return
        action = options.on.get(outcome.kind, "quarantine")
        if action == "requeue" and self.source.keeps:
            action = "quarantine"  # a stream cannot requeue: the message would be skipped
        if not self._missing.is_final(outcome):
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
            error = self._missing.give_up(outcome, goes_back=action == "requeue")
            if error is not None:
                self._fail(error)
        if action == "quarantine" and self._queue is not None and delivery.large is None:
            self._queue.add(delivery, outcome)
        elif action == "quarantine":
            self._write_to_file(delivery, outcome)
        else:
            counter: Counter[str] = counts.requeued if action == "requeue" else counts.rejected
            counter[outcome.kind] += 1
            self._log_refused(action, delivery, outcome)
            self._end(delivery, _SETTLE_BY_ACTION[action])

    def _log_refused(self, action: str, delivery: SourceDelivery, outcome: Outcome) -> None:
        fields = {"reason": outcome.kind, "why": outcome.description or outcome.condition}
        self.log(f"message-{action}", logging.WARNING, size=delivery.size, **fields)

    def _settle_queued(self, delivery: SourceDelivery, outcome: Outcome) -> None:
        """Settle a delivery that the quarantine queue has accepted."""
        if delivery.link is not None:
            self.statistics.quarantined[outcome.kind] += 1
            self._log_refused("quarantine", delivery, outcome)
            self._end(delivery, Settle.ACCEPT)
        else:
            self._forget(delivery)  # the source delivers it again

    def _write_to_file(self, delivery: SourceDelivery, outcome: Outcome) -> None:
        """Write a delivery to the quarantine file, and settle it."""
        if delivery.link is not None:
            self._end(delivery, Settle.ACCEPT, outcome)
        else:
            self._forget(delivery)

    # Settling.

    def _end(self, delivery: SourceDelivery, how: Settle, outcome: Outcome | None = None) -> None:
        """Settle a delivery in the next iteration of the loop, after its record is written."""
        if not self._finished:
            self._loop.call_soon(self._finish)
        self._finished.append((delivery, how, outcome))

    def _finish(self) -> None:
        """Write the records of the finished deliveries, and settle them."""
        to_record, self._finished = self._finished, []
        finished, fault = self._records.finish(to_record)
        if fault is not None:
            self._is_disk_full = True
            self._fail(fault)
            done = {delivery for delivery, _, _ in finished}
            # The others stay unsettled, and are released.
            self._surplus += [delivery for delivery, _, _ in to_record if delivery not in done]
        now, latency = self._loop.time(), self.statistics.latency
        for how, group in itertools.groupby(finished, key=operator.itemgetter(1)):
            deliveries = []
            for delivery, _, outcome in group:
                deliveries.append(delivery)
                if delivery.link is not None:
                    latency.add(now - delivery.came)
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
            if not self._stop.is_set() and self._guard.is_over(self._window):
                self._reopen_soon("no message ended its connection")

    def _settle(self, deliveries: Sequence[SourceDelivery], how: Settle) -> None:
        for link, group in itertools.groupby(deliveries, key=operator.attrgetter("link")):
            if link is not None:
                link.settle(list(group), how)

    def _forget(self, delivery: SourceDelivery) -> None:
        if delivery.large is not None:
            delivery.large.discard()  # does not remove a file that was kept
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
