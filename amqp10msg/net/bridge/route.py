"""A route: moves the messages of one source to one target.

A delivery is pending until the target reports its outcome. Then it is finished: in the next
iteration of the event loop, its quarantine line, message-id or position is written to disk, and it
is settled at the source.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
from collections import Counter
from collections.abc import Awaitable, Sequence
from typing import Any

from amqp10msg.net.bridge.counting import Observer
from amqp10msg.net.bridge.ending import Ending
from amqp10msg.net.bridge.entries import UNREADABLE
from amqp10msg.net.bridge.lifecycle import Event, Lifecycle, RouteContext, State
from amqp10msg.net.bridge.links import (
    ClosingLinks,
    PoisonGuard,
    ReconnectingLink,
    open_source,
    warn_unverified_tls,
)
from amqp10msg.net.bridge.records import Lease, Records
from amqp10msg.net.bridge.refusals import Refusals
from amqp10msg.net.bridge.resuming import SourceReplacedError, check_not_replaced
from amqp10msg.net.bridge.sending import message_of
from amqp10msg.net.bridge.settlement import SETTLE_BY_ACTION, Settlement
from amqp10msg.net.bridge.statistics import Statistics
from amqp10msg.net.bridge.target_end import TargetEnd
from amqp10msg.net.bridge.terms import (
    Countable,
    Depth,
    LinkError,
    Outcome,
    Oversized,
    Settle,
    SourceDelivery,
    SourceLink,
    SourceRequest,
)
from amqp10msg.net.bridge.unsettled import Unsettled
from amqp10msg.net.bridge.urls import Endpoint
from amqp10msg.net.bridge.wire import ConnectionPools
from amqp10msg.net.options import RouteOptions

#: State of a route that only counts the messages of its empty source; see `_leave_to_others`.
_LEFT_TO_OTHERS = "leaves the queue to its other consumers, unless messages are ready"
#: Why positions of a stream are skipped, for the log.
_SKIPPED_REASON = (
    "the broker delivers nothing for some positions: they are its own entries, or messages that it "
    "delivers only over its stream protocol, such as those in compressed batches"
)


class Route:
    """Moves messages from one source to one target until it is stopped or ends by its options.

    Args:
        name: the name of the route in logs and reports.
        source: the endpoint to receive from.
        target: the endpoint to send to.
        options: the options.
        logger: receives events; see `log_event`.
        pools: connections to share with other routes; None to open connections for this route.
    """

    def __init__(
        self,
        name: str,
        source: Endpoint,
        target: Endpoint,
        options: RouteOptions,
        logger: logging.Logger,
        pools: ConnectionPools | None = None,
    ) -> None:
        self._context = RouteContext(
            name, source, target, options, logger, pools or ConnectionPools()
        )
        self._lifecycle = Lifecycle(self._context)
        self._lifecycle.on_fail = self._stop_source
        self._pools = self._context.pools
        overflow = options.quarantine.with_name(f"{options.quarantine.name}.large")
        self._overflow = functools.partial(Oversized, overflow, options.max_large)
        self._records: Records
        self._settlement: Settlement
        self._refusals: Refusals
        self._target: TargetEnd
        self._loop: asyncio.AbstractEventLoop
        pool = self._pools.counting
        stop = self._lifecycle.stop
        self._ending = Ending(source, options, self.statistics, self.log, stop, pool)
        # Source, target and quarantine queue.
        self._poison_guard = PoisonGuard(source)
        self._source_link: ReconnectingLink[SourceLink] = ReconnectingLink(
            "source",
            source,
            options,
            self.log,
            open_link=self._open_source,
            on_open=self._on_source_opened,
            on_lost=self._on_source_lost,
            report_early_loss=True,
        )
        self._reading_paused = False
        self._reopen_reason = ""  # why the source will be reopened once all deliveries are settled
        self._releasing_all = False  # release all further deliveries until the source is reopened
        self._observer: Observer | None = None  # counts the queue while it is not consumed
        self._closing = ClosingLinks()
        self._exceeded_max_bytes = False  # deliveries exceeded max_bytes: use a separate connection
        self._unsettled = Unsettled()
        self._bytes = 0  # total size of the unsettled deliveries that are in memory
        # The run.
        self._depth_query: asyncio.Task[None] | None = None
        self._ticked_at = 0.0
        self._incomplete_seconds = 0.0  # since the first bytes of an incomplete message
        self._skipped_logged = False  # whether skipped positions of the stream were logged
        self._logged_reasons: set[str] = set()  # logged reasons why the source could not be checked
        self._first_opened_at = 0.0  # when the source was first open, on the loop's clock
        self._stop_waiting_at = 0.0  # when the route stops waiting for anything, on the same clock

    @property
    def name(self) -> str:
        """The name of the route in logs and reports."""
        return self._context.name

    @property
    def source(self) -> Endpoint:
        """The endpoint to receive from."""
        return self._context.source

    @property
    def target(self) -> Endpoint:
        """The endpoint to send to."""
        return self._context.target

    @property
    def options(self) -> RouteOptions:
        """The options of the route."""
        return self._context.options

    @property
    def statistics(self) -> Statistics:
        """The counts of the route."""
        return self._context.statistics

    def log(self, event: str, level: int = logging.INFO, **fields: Any) -> None:
        """Log an event with the name of the route."""
        self._context.log(event, level, **fields)

    async def depth(self) -> int | None:
        """Query the number of messages at the source. Return the previous answer, or None."""
        source = self._source_link.link
        return await source.depth() if source is not None else None

    # The run.

    def stop(self) -> None:
        """Start to end the route: it accepts no more deliveries, and waits for outcomes."""
        self._lifecycle.stop("stopped")

    async def run(self) -> None:
        """Run until `stop` is called or the route ends by its options.

        Raises:
            LinkError: the source or target cannot be used: wrong credentials, no such queue.
            OSError: a message could not be written to the quarantine; it was not settled.
        """
        self._loop = asyncio.get_running_loop()
        self._lifecycle.begin()
        if self.options.state is None:
            await self._run()
            return
        lease = Lease(self.options.state, self.name)
        try:
            if await self._acquire(lease):
                await self._run()
        except OSError as error:
            self._report_failure(error)
            raise
        finally:
            lease.release()

    def _report_failure(self, error: Exception) -> None:
        """Record and log that the route failed before it ran, unless this was done before."""
        if not self.statistics.failed:
            self._lifecycle.fail(error)
            self._lifecycle.advance(Event.END)
            self.log("route-failed", logging.ERROR, why=str(error))

    async def _acquire(self, lease: Lease) -> bool:
        """Acquire `lease`: wait until no other bridge runs this route.

        Return False if the route was stopped during the wait.

        Raises:
            LinkError: the other bridge did not end within `RouteOptions.reach`.
        """
        reach, lifecycle = self.options.reach, self._lifecycle
        is_logged = False
        while not lease.acquire():
            lifecycle.advance(Event.WAIT)
            if not is_logged:
                is_logged = True
                self.log("route-stands-by", at=str(self.source), state=str(self.options.state))
            lifecycle.update_duration()
            self._ending.end_if_late()
            if reach is not None and self.statistics.seconds >= reach and not lifecycle.is_ending:
                text = f"{self.options.state}: another bridge runs this route since {reach:g} s"
                raise LinkError(text, permanent=True)
            if await lifecycle.wait_for_stop(self.options.waits.check_interval):
                self._ending.end_uncounted(State.STANDBY.value)
                lifecycle.advance(Event.END)
                return False
        return True

    async def _declare_queue(self) -> bool:
        """Declare the source's queue at the target. Return False if the route was stopped first."""
        from amqp10msg.net.bridge.topology import declare_for  # noqa: PLC0415  (rarely used)

        self._lifecycle.advance(Event.DECLARE)
        declaring = asyncio.ensure_future(
            declare_for(self.source, self.target, self.options, self.log)
        )
        try:
            while not (declaring.done() or self._lifecycle.is_ending):
                self._lifecycle.update_duration()
                self._ending.end_if_late()
                await asyncio.wait([declaring], timeout=self.options.waits.check_interval)
            if declaring.done():
                declaring.result()
                return True
            self._ending.end_uncounted("it ended while it declared the queue")
            self._lifecycle.advance(Event.END)
            return False
        finally:
            declaring.cancel()

    async def _run(self) -> None:
        """Run the route. The caller holds its lease if it has a state file."""
        try:
            if self.options.declare and not await self._declare_queue():
                return
            self._records = Records(self.name, self.source, self.target, self.options)
        except (OSError, ValueError) as error:
            self._report_failure(error)
            raise
        self._settlement = Settlement(
            self._context,
            self._lifecycle,
            self._unsettled,
            self._records,
            on_forgotten=self._on_forgotten,
            on_settled=self._on_settled,
        )
        self._refusals = Refusals(
            self._context,
            self._lifecycle,
            self._unsettled,
            self._settlement,
            names=self._records.names,
            on_retry_due=self._send_waiting,
        )
        self._target = TargetEnd(
            self._context,
            self._lifecycle,
            self._unsettled,
            self._settlement,
            self._refusals,
            self._closing,
        )
        self._ticked_at = self._lifecycle.started_at
        self._lifecycle.advance(Event.OPEN)
        warn_unverified_tls((self.source, self.target, self.options.quarantine_queue), self.log)
        keeping = [self._target.reconnecting.keep(), self._keep_source()]
        if self._refusals.quarantine_queue is not None:
            keeping.append(self._refusals.quarantine_queue.reconnecting.keep())
        tasks = [asyncio.ensure_future(coroutine) for coroutine in keeping]
        for task in tasks:
            task.add_done_callback(self._on_task_done)
        try:
            while not self._lifecycle.is_ending:
                self._lifecycle.update_duration()
                if not await self._lifecycle.wait_for_stop(self.options.waits.check_interval):
                    self._check_timers()
            self._stop_waiting_at = self._loop.time() + self.options.waits.shutdown_timeout
            if self._lifecycle.fault is None or self._lifecycle.has_record_fault:
                # Wait for outcomes: the source delivers a message without an outcome again.
                await self._drain()
            await self._count_remaining()
        finally:
            try:
                if self._depth_query is not None:
                    self._depth_query.cancel()
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                await self._close()
            finally:
                self._records.close()  # even if this task is cancelled during the closing
            counts = self.statistics
            counts.in_flight = counts.waiting = counts.held = 0
            counts.position = self._records.positions.next
            self._update_connections()
            self._lifecycle.update_duration()
            self._lifecycle.advance(Event.END)
        if self._lifecycle.fault is not None:
            self.log("route-failed", logging.ERROR, why=str(self._lifecycle.fault))
            raise self._lifecycle.fault

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        """Fail the route if a background task has failed."""
        if not task.cancelled() and (error := task.exception()) is not None:
            self._lifecycle.fail(error)

    def _stop_source(self) -> None:
        """Stop the source first: it must count the released messages, not deliver them again."""
        if self._source_link.link is not None:
            self._source_link.link.stop()

    def _check_timers(self) -> None:
        """Check everything that depends on time: overdue outcomes, retries, the route's end."""
        now = self._loop.time()
        self._target.check_overdue(now)
        if self._refusals.quarantine_queue is not None:
            self._refusals.quarantine_queue.tick(now)
        self._target.send_waiting()
        if self._reopen_reason and not self._unsettled.active_count:
            self._reopen_source()
        self._rejoin_shared_connection(now)
        self._target.rejoin_shared_connection(now)
        # The pause of a process that was suspended does not count as idle time of the source.
        elapsed = min(now - self._ticked_at, self.options.waits.check_interval)
        self._ticked_at = now
        source = self._source_link.link
        if source is not None and source.incomplete and not self._reading_paused:
            self._warn_incomplete(elapsed)
        countable = source or self._observer
        settled = countable is not None and not self._unsettled.active_count
        if self._ending.add_idle_time(elapsed, settled=settled) and countable is not None:
            self._query_count(countable)
        self._update_counts()
        self._ending.end_if_late()

    def _warn_incomplete(self, elapsed: float) -> None:
        """Add `elapsed` seconds to the age of an incomplete message.

        Log a warning each time that the age reaches a multiple of `outcome_timeout`.
        """
        previous, self._incomplete_seconds = (
            self._incomplete_seconds,
            self._incomplete_seconds + elapsed,
        )
        every = self.options.outcome_timeout
        if previous // every != self._incomplete_seconds // every:
            reason = (
                f"a message is incomplete {self._incomplete_seconds:.0f} s after its first bytes"
            )
            self.log("source-slow", logging.WARNING, at=str(self.source), why=reason)

    def _query_count(self, source: Countable) -> None:
        """Start a query of the messages at the source, unless a query is running."""
        if self._depth_query is None or self._depth_query.done():
            self._depth_query = asyncio.ensure_future(self._end_if_empty(source))
            self._depth_query.add_done_callback(self._on_task_done)

    async def _end_if_empty(self, source: Countable) -> None:
        """Count the messages at the source, and end the route if there are none.

        If the route was only counting and messages are ready, consume the source again.
        """
        received = self.statistics.received
        next_position = self._records.positions.next
        depth = await self._ending.count_source(
            source, next_position, self._unsettled.returnable_count
        )
        link, observer = self._source_link.link, self._observer
        if source is not (link or observer) or self.statistics.received != received:
            return
        if self._unsettled.active_count:
            return
        self._ending.end_if_empty(depth, self._unsettled.returnable_count)
        if self._lifecycle.is_ending:
            return
        if link is not None:
            await self._leave_to_others(link, depth)
        elif depth.ready != 0:
            self._observer = None
            self._source_link.reopen()

    async def _leave_to_others(self, source: SourceLink, depth: Depth) -> None:
        """Stop consuming an empty queue that has other consumers, and only count its messages.

        The broker reports the number of consumers, but not the messages that they hold. Two bridges
        that run until their common queue is empty would therefore wait for each other. A route that
        holds messages of the source keeps its link: closing it would requeue them.
        """
        shared = depth.ready == 0 and depth.other_consumers and depth.unacknowledged is None
        observer = self._ending.observer()
        if (
            not shared
            or observer is None
            or self._unsettled.returnable_count
            or self._reopen_reason
        ):
            return
        received = self.statistics.received
        source.stop()
        with contextlib.suppress(LinkError, TimeoutError):
            async with asyncio.timeout(self.options.waits.close_timeout):
                await source.count()  # the broker sends the deliveries in flight before the answer
        if source is not self._source_link.link or self._lifecycle.is_ending:
            return
        if self.statistics.received != received or self._reopen_reason:
            source.resume()  # before settling a delivery, so that other bridges see this consumer
            return
        self._observer = observer
        self._source_link.release(reopen=False)
        self._closing.close(source)
        self.log(
            "source-left", at=str(self.source), others=depth.other_consumers, why=_LEFT_TO_OTHERS
        )

    async def _count_remaining(self) -> None:
        """Count the messages that remain at the source when the route ends."""
        # Settle first: the source then counts the released messages.
        self._settlement.settle_finished()
        if self._depth_query is not None:
            self._depth_query.cancel()
        wait = min(
            self.options.waits.close_timeout,
            self._stop_waiting_at - self._loop.time() - self.options.waits.min_close_timeout,
        )
        next_position = self._records.positions.next
        source = self._source_link.link or self._observer
        await self._ending.count_rest(
            source, next_position, wait, lambda: self._unsettled.returnable_count
        )

    def _update_counts(self) -> None:
        """Update the statistics that describe the current state of the route."""
        self._unsettled.store_counts(self.statistics)
        self._update_connections()
        self._lifecycle.report_activity(self._describe_activity())

    def _describe_activity(self) -> str:
        """Return what the running route does, for `Statistics.state`."""
        pending, target = self._unsettled.pending, self._target.link
        if target is None:
            return "target is not connected"
        if self._observer is not None:
            return _LEFT_TO_OTHERS
        if self._source_link.link is None:
            return "source is not connected"
        if target.waits:
            return "target has blocked publishing"
        if pending.held_count and not pending.in_flight:
            return "target refuses messages"
        if pending.isolating:
            return "searching the message that ended the target's connection"
        if self._incomplete_seconds >= self.options.outcome_timeout:
            return "the source stopped partway through a message"
        return "running"

    def _update_connections(self) -> None:
        """Update which ends are connected, and the number of failed attempts."""
        links: dict[str, ReconnectingLink[Any]] = {
            "source": self._source_link,
            "target": self._target.reconnecting,
        }
        if self._refusals.quarantine_queue is not None:
            links["quarantine"] = self._refusals.quarantine_queue.reconnecting
        connected = {name: link.link is not None for name, link in links.items()}
        connected["source"] |= self._observer is not None
        self.statistics.connected = connected
        self.statistics.unreachable = Counter(
            {name: link.failed_attempts for name, link in links.items()}
        )

    async def _drain(self) -> None:
        """Stop the source, and wait for the outcomes of the messages in flight.

        Give up after `RouteOptions.drain` seconds, or `Waits.drain_idle` seconds without an
        outcome.
        """
        self._lifecycle.report_draining()
        if self._source_link.link is not None and self._lifecycle.fault is None:
            self._source_link.link.stop()
        now, waits = self._loop.time(), self.options.waits
        deadline, idle_deadline = now + self.options.drain, now + waits.drain_idle
        unsettled = self._unsettled.active_count
        while self._unsettled.has_unanswered:
            has_failed = self._lifecycle.fault is not None and not self._lifecycle.has_record_fault
            now = self._loop.time()
            if unsettled != self._unsettled.active_count:
                unsettled, idle_deadline = (
                    self._unsettled.active_count,
                    now + self.options.waits.drain_idle,
                )
                self._stop_waiting_at = now + waits.shutdown_timeout
            if has_failed or now >= min(deadline, idle_deadline):
                break
            await asyncio.sleep(0.01)
            self._update_connections()

    async def _close(self) -> None:
        """Release the unsent messages, and close the links."""
        self._settlement.settle_finished()
        unsent = [*self._unsettled.unsent(), *self._records.duplicates]
        seconds_left, waits = self._stop_waiting_at - self._loop.time(), self.options.waits
        wait = max(waits.min_close_timeout, min(waits.close_timeout, seconds_left))
        # A target that has not answered so far will not answer the close either.
        target_wait = waits.min_close_timeout if self._unsettled.pending.in_flight else wait
        closing: list[Awaitable[None]] = [
            self._source_link.close(wait),
            self._target.reconnecting.close(target_wait),
        ]
        if self._refusals.quarantine_queue is not None:
            closing.append(self._refusals.quarantine_queue.reconnecting.close(wait))
        closing += self._closing.tasks
        self._settlement.settle(unsent, Settle.RELEASE)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.gather(*closing, return_exceptions=True), wait)

    # Source and target.

    async def _keep_source(self) -> None:
        """Keep the source open, after the target and the quarantine queue were opened."""
        await self._target.reconnecting.opened.wait()
        if self._refusals.quarantine_queue is not None:
            await self._refusals.quarantine_queue.reconnecting.opened.wait()
        await self._source_link.keep()

    async def _open_source(self) -> SourceLink:
        await self._ending.prepare_source(self._source_to_resume(), self._records.positions.next)
        await self._check_last_message()
        return await open_source(
            SourceRequest(
                endpoint=self._source_to_resume(),
                receive=self._receive,
                on_lost=self._source_link.lose,
                window=self._poison_guard.start_connection(self._window),
                max_message=self.options.max_message,
                overflow=self._overflow,
                on_address_skipped=self._source_link.address_skipped,
                pool=self._pools.sources,
                alone=self._source_link.needs_own_connection,
            )
        )

    async def _check_last_message(self) -> None:
        """Check that the source was not replaced since the last run.

        Raises:
            LinkError: the source was replaced, or cannot be read.
        """
        try:
            reason = await check_not_replaced(
                self.source,
                self._records.positions,
                self._ending.oldest,
                self.options.max_message,
                self._pools.counting,
            )
        except SourceReplacedError as error:
            self._lifecycle.fail(error)  # fails a running route, too: a retry cannot succeed
            raise
        if reason and reason not in self._logged_reasons:
            self._logged_reasons.add(reason)
            self.log("source-unchecked", logging.WARNING, at=str(self.source), why=reason)

    def _on_source_opened(self) -> None:
        self._ending.source_opened()
        self._incomplete_seconds = 0.0
        self._first_opened_at = self._first_opened_at or self._loop.time()
        self._update_counts()

    @property
    def _window(self) -> int:
        """Maximum number of unsettled deliveries of the source."""
        return min(self.options.window, self._ending.max_settled or self.options.window)

    def _source_to_resume(self) -> Endpoint:
        """Return the source; a stream or file is read from the first unsettled position."""
        next_position = self._records.positions.next
        return self.source if next_position is None else self.source.read_from(str(next_position))

    def _on_source_lost(self, error: LinkError) -> None:
        """Discard the deliveries that are not in flight: the source delivers them again."""
        self.statistics.source_lost += 1
        self._source_link.report(error)
        self._forget_source()
        self._ending.source_lost()
        if error.local:
            self._lifecycle.fail(error)
            return
        if error.shared and (error.sent_by_peer or error.failed):
            self._source_link.use_own_connection()
            return
        poison_error = self._poison_guard.connection_lost(error, self._window)
        if poison_error is not None:
            self._lifecycle.fail(poison_error)

    def _reopen_source(self) -> None:
        """Close the source's link, and open a new one. All of its deliveries must be settled."""
        reason = self._reopen_reason
        link = self._source_link.release()
        if link is not None:
            self.log("source-reopened", at=str(self.source), why=reason)
            self._poison_guard.resume_window()
            self._forget_source()
            self._closing.close(link)

    # Shared connections.

    def _rejoin_shared_connection(self, now: float) -> None:
        """Move the source back to a shared connection if `ReconnectingLink.can_rejoin` allows.

        It is reopened when its deliveries are settled.
        """
        if self._source_link.can_rejoin(now) and not (
            self._exceeded_max_bytes
            or self._reopen_reason
            or self._poison_guard.single_message_mode
        ):
            self._source_link.needs_own_connection = False
            self._reopen_soon("its separate connection was stable")

    def _reopen_soon(self, reason: str) -> None:
        """Stop requesting deliveries, and reopen the source when all deliveries are settled."""
        source = self._source_link.link
        if source is not None and not self._reopen_reason:
            self._reopen_reason = reason
            source.stop()

    def _pause_reading(self, source: SourceLink) -> None:
        """Pause reading. If other routes share the connection, move to a separate one instead."""
        self._reading_paused = True
        if not source.hold(True):
            self._releasing_all = True  # release further deliveries: their size has no limit
            self._source_link.needs_own_connection = self._exceeded_max_bytes = True
            self._reopen_soon("its messages need a separate connection")

    def _forget_source(self) -> None:
        """Discard the state of the source's link, which was lost or is being closed.

        Deliveries in flight are kept, without a link: their outcomes may still arrive.
        """
        self._reading_paused = self._releasing_all = False
        self._reopen_reason = ""
        unanswered = self._unsettled.lose_source()
        self._bytes = sum(delivery.size for delivery in unanswered)
        self._records.reset(unanswered)

    # Deliveries.

    def _receive(self, deliveries: Sequence[SourceDelivery]) -> None:
        """Process deliveries of the source."""
        if self._closing:
            deliveries = self._closing.without(deliveries)
            if not deliveries:
                return
        now, count = self._loop.time(), self.statistics.received
        idle_times = self._ending.reset_idle_times()
        self._incomplete_seconds = 0.0
        are_released = [self._receive_delivery(delivery, now) for delivery in deliveries]
        if all(are_released):
            self._ending.restore_idle_times(idle_times)  # the source still counts as idle
        self._poison_guard.count_delivered(self.statistics.received - count)

    def _receive_delivery(self, delivery: SourceDelivery, now: float) -> bool:
        """Process a delivery. Return whether the route releases it while it runs."""
        counts, options = self.statistics, self.options
        if self._releasing_all:
            if delivery.large is not None:
                delivery.large.discard()
            self._settlement.settle([delivery], Settle.RELEASE)
            return True
        counts.received += 1
        delivery.received_at = now
        counts.redelivered += delivery.redelivered
        limit, source = self._ending.max_settled, self._source_link.link
        if self._lifecycle.is_ending or (
            limit is not None and self._unsettled.count_total(counts.settled) >= limit
        ):
            if not self._unsettled.to_release and source is not None:
                source.stop()
            if delivery.large is not None:
                delivery.large.discard()
            self._unsettled.to_release.append(delivery)
            return False
        positions = self._records.positions
        positions.receive(delivery)
        if positions.skipped > counts.skipped:
            counts.skipped = positions.skipped
            if not self._skipped_logged:
                self._skipped_logged = True
                endpoint = str(self.source)
                self.log("stream-skipped", logging.WARNING, at=endpoint, why=_SKIPPED_REASON)
        if delivery.large is not None:
            self._receive_large(delivery, delivery.large)
            return False
        if delivery.fault:
            self._refusals.refuse(delivery, Outcome(UNREADABLE, "", delivery.fault, final=True))
            return False
        self._bytes += delivery.size
        if self._bytes > options.max_bytes and not self._reading_paused and source is not None:
            self._pause_reading(source)
        if options.deduplicate is not None and not self._is_new(delivery):
            return False
        if options.predicate is not None and not self._passes_filter(delivery):
            return delivery in self._unsettled.unmatched
        self._unsettled.pending.add(delivery)
        self._target.send_soon()
        return False

    def _receive_large(self, delivery: SourceDelivery, large: Oversized) -> None:
        """Refuse a message that is too large for memory, or leave it if its file is not whole."""
        options = self.options
        if not large.is_whole:
            # The message stays unsettled until the route ends: if it were released now, the source
            # would deliver it again.
            self.statistics.left += 1
            text = f"{large.folder} holds {options.max_large} bytes at most (max-large)"
            self.log("message-left", logging.ERROR, size=len(large), why=text)
            large.discard()
            self._unsettled.to_release.append(delivery)
            return
        text = f"{len(large)} bytes exceed max-message, {options.max_message}"
        self._refusals.refuse(delivery, Outcome("too-large", "", text, final=True))

    def _is_new(self, delivery: SourceDelivery) -> bool:
        """Whether to send a delivery: its message-id was neither accepted before nor is unfinished.

        A duplicate of an accepted message is settled. A duplicate of an unfinished message waits
        until that message is finished.
        """
        try:
            accepted = self._records.was_accepted(delivery)
        except OSError as error:  # the file is damaged: release the message at the end
            self._unsettled.to_release.append(delivery)
            self._lifecycle.fail(error, of_record=True)
            return False
        if accepted:
            self.statistics.duplicates += 1
            self._settlement.settle_soon(delivery, Settle.ACCEPT)
        return accepted is False

    def _passes_filter(self, delivery: SourceDelivery) -> bool:
        """Whether a message passes the filter. If not, apply `RouteOptions.unmatched`."""
        try:
            predicate = self.options.predicate
            passes = predicate is None or predicate(message_of(delivery))
        except Exception as error:  # noqa: BLE001  (a hook's error quarantines the message)
            self._refusals.refuse(
                delivery, Outcome("untranslatable", "", f"filter: {error}", final=True)
            )
            return False
        if not passes:
            self.statistics.unmatched += 1
            action = self.options.unmatched
            if action == "requeue" and not self.source.keeps:
                # Release it after a pause: the source may deliver it again immediately.
                self._unsettled.unmatched[delivery] = None
                self._loop.call_later(self.options.max_backoff, self._release_unmatched, delivery)
            else:
                self._settlement.settle_soon(
                    delivery, Settle.ACCEPT if action == "requeue" else SETTLE_BY_ACTION[action]
                )
        return passes

    def _release_unmatched(self, delivery: SourceDelivery) -> None:
        """Release a delivery that did not pass the filter, unless its link was lost."""
        if self._unsettled.unmatched.pop(delivery, self) is None:
            self._settlement.settle_soon(delivery, Settle.RELEASE)

    # Settling.

    def _send_waiting(self) -> None:
        self._target.send_waiting()

    def _on_settled(self, has_settled: bool) -> None:
        """Check for the end of the route, after finished deliveries were settled."""
        if has_settled:
            self.statistics.busy = self._loop.time() - self._first_opened_at
        if not self._unsettled.active_count:
            self._ending.end_if_done(self._records.positions.next)
            if not self._lifecycle.is_ending and self._poison_guard.can_resume_window(self._window):
                self._reopen_soon("no message ended its connection")

    def _on_forgotten(self, delivery: SourceDelivery) -> None:
        """Free the memory of a finished delivery, and check its duplicates again.

        Reading is resumed if it was paused and the unsettled deliveries are below half of
        `max_bytes`.
        """
        self._bytes -= delivery.size
        source = self._source_link.link
        has_room = self._bytes * 2 < self.options.max_bytes
        if self._reading_paused and has_room and not self._releasing_all and source is not None:
            self._reading_paused = False
            source.hold(False)
        for duplicate in self._records.forget(delivery):
            if self._is_new(duplicate):
                self._unsettled.pending.add(duplicate)
                self._target.send_soon()
