"""Couples the source and the target of a route: runs, checks, drains and closes its parts."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Awaitable, Sequence
from typing import Any

from amqp10msg.net.bridge.context import RouteContext
from amqp10msg.net.bridge.ending import Ending
from amqp10msg.net.bridge.intake import Intake
from amqp10msg.net.bridge.lifecycle import Event
from amqp10msg.net.bridge.reconnecting import ClosingLinks, ReconnectingLink
from amqp10msg.net.bridge.records import Records
from amqp10msg.net.bridge.refusals import Refusals
from amqp10msg.net.bridge.settlement import Settlement
from amqp10msg.net.bridge.source_end import SourceEnd
from amqp10msg.net.bridge.target_end import TargetEnd
from amqp10msg.net.bridge.watch import LEFT_TO_OTHERS, SourceWatch
from amqp10msg.net.ends.links import warn_unverified_tls
from amqp10msg.net.ends.terms import Settle, SourceDelivery
from amqp10msg.wire.text import plural

#: Seconds between two checks whether all outcomes have arrived, when a route ends.
_DRAIN_CHECK_INTERVAL = 0.01


class Coupling:
    """Moves messages from a source to a target, after the files of the route were opened.

    Args:
        context: the route.
        ending: decides when the route ends.
        records: the files of the route, which `run` closes.
    """

    def __init__(self, context: RouteContext, ending: Ending, records: Records) -> None:
        self._context = context
        self._ending = ending
        self._records = records
        self._closing = ClosingLinks()
        self._resumed_at = records.positions.next  # the position by the state file
        self._stop_waiting_at = 0.0  # when the ending route stops waiting, on the loop's clock
        self._source = SourceEnd(
            context,
            ending,
            records,
            self._closing,
            receive=self._receive,
            on_opened=self._update_counts,
        )
        self._settlement = Settlement(
            context,
            records,
            on_forgotten=self._on_forgotten,
            on_settled=self._source.on_settled,
        )
        self._refusals = Refusals(
            context, self._settlement, names=records.names, on_retry_due=self._on_retry_due
        )
        self._target = TargetEnd(context, self._settlement, self._refusals, self._closing)
        self._intake = Intake(
            context,
            ending,
            records,
            self._source,
            self._target,
            self._settlement,
            self._refusals,
            self._closing,
        )
        self._watch = SourceWatch(
            context,
            ending,
            records,
            self._source,
            self._closing,
            on_query_done=self._on_task_done,
        )
        # Stop first: the source must count the released messages, not deliver them again.
        context.lifecycle.on_fail = self._source.stop

    # A part calls only parts that were built before it, except for these calls.

    def _receive(self, deliveries: Sequence[SourceDelivery]) -> None:
        self._intake.receive(deliveries)

    def _on_forgotten(self, delivery: SourceDelivery) -> None:
        self._intake.on_forgotten(delivery)

    def _on_retry_due(self) -> None:
        self._target.send_waiting()

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        """Fail the route if a background task has failed."""
        if not task.cancelled() and (error := task.exception()) is not None:
            self._context.lifecycle.fail(error)

    @property
    def source_product(self) -> str:
        """Name and version of the connected source; empty if unknown."""
        source = self._source.link
        return source.peer_product if source is not None else ""

    async def depth(self) -> int | None:
        """Query the number of messages at the source. Return the previous answer, or None."""
        source = self._source.link
        return await source.depth() if source is not None else None

    # The run.

    async def run(self) -> None:
        """Move messages until the route is stopped or fails. Then drain it, and close its parts.

        Raises:
            LinkError: the source or target cannot be used: wrong credentials, no such queue.
            OSError: a record could not be written; the message was not settled.
        """
        context, lifecycle = self._context, self._context.lifecycle
        lifecycle.advance(Event.OPEN)
        endpoints = (context.source, context.target, context.options.quarantine_queue)
        warn_unverified_tls(endpoints, context.log)
        tasks = self._keep_links()
        try:
            await self._check_until_stopped()
            self._extend_stop()
            if lifecycle.fault is None or lifecycle.has_record_fault:
                # Wait for outcomes: the source delivers a message without an outcome again.
                await self._drain()
            await self._count_rest()
        finally:
            try:
                self._watch.cancel()
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                await self._close()
            finally:
                self._records.close()  # even if this task is cancelled during the closing
            counts = context.statistics
            counts.in_flight = counts.waiting = counts.held = 0
            counts.position = self._records.positions.next
            self._update_connections()
            lifecycle.update_duration()
            lifecycle.advance(Event.END)
            self._intake.report_unset_names()
            self._report_nothing_new()
            context.log(
                "route-ended",
                ending=counts.ending,
                received=counts.received,
                moved=counts.accepted,
                returned=counts.returned,
            )
        if lifecycle.fault is not None:
            context.log("route-failed", logging.ERROR, why=str(lifecycle.fault))
            raise lifecycle.fault

    def _report_nothing_new(self) -> None:
        """Report a file whose messages earlier runs have all settled, by the state file."""
        source, counts = self._context.source, self._context.statistics
        has_read_all = counts.ending in {"empty", "length"} and not counts.received
        if source.file is None or not self._resumed_at or not has_read_all:
            return
        # With ?route=, later lines may belong to other routes.
        lines = plural(self._resumed_at, "message")
        settled = f"all {lines}" if source.route is None else f"the first {lines}"
        counts.nothing_new = (
            f"{self._context.options.state} says that earlier runs settled {settled} of "
            f"{source.file}; to send them again, give another --state"
        )
        self._context.log("nothing-new", why=counts.nothing_new)

    def _keep_links(self) -> list[asyncio.Task[None]]:
        """Start the tasks that keep the source, the target and the quarantine queue connected."""
        keeping = [self._target.reconnecting.keep(), self._keep_source()]
        if self._refusals.quarantine_queue is not None:
            keeping.append(self._refusals.quarantine_queue.reconnecting.keep())
        tasks = [asyncio.ensure_future(coroutine) for coroutine in keeping]
        for task in tasks:
            task.add_done_callback(self._on_task_done)
        return tasks

    async def _keep_source(self) -> None:
        """Keep the source open, after the target and the quarantine queue were opened."""
        await self._target.reconnecting.opener.opened.wait()
        if self._refusals.quarantine_queue is not None:
            await self._refusals.quarantine_queue.reconnecting.opener.opened.wait()
        await self._source.reconnecting.keep()

    async def _check_until_stopped(self) -> None:
        """Check everything that depends on time, every `Waits.check_interval` seconds."""
        lifecycle, interval = self._context.lifecycle, self._context.options.waits.check_interval
        clock = asyncio.get_running_loop().time
        checked_at = lifecycle.started_at
        while not lifecycle.is_ending:
            lifecycle.update_duration()
            if not await lifecycle.wait_for_stop(interval):
                previous, checked_at = checked_at, clock()
                # If this process was suspended meanwhile, the source was not idle for that time:
                # count at most one interval.
                self._check_timers(checked_at, min(checked_at - previous, interval))

    def _check_timers(self, now: float, elapsed: float) -> None:
        """Check for overdue outcomes, retries, an idle source, and the end of the route.

        Args:
            now: the time of the event loop's clock.
            elapsed: seconds since the last check.
        """
        self._target.check_overdue(now)
        if self._refusals.quarantine_queue is not None:
            self._refusals.quarantine_queue.tick(now)
        self._target.send_waiting()
        self._source.reopen_if_settled()
        self._source.rejoin_shared_connection(now)
        self._target.rejoin_shared_connection(now)
        self._watch.tick(elapsed)
        self._update_counts()
        self._ending.end_if_late()

    # The state for people.

    def _update_counts(self) -> None:
        """Update the statistics that describe the current state of the route."""
        self._context.unsettled.store_counts(self._context.statistics)
        self._update_connections()
        self._context.lifecycle.report_activity(self._describe_activity())

    def _describe_activity(self) -> str:
        """Return what the running route does, for `Statistics.state`."""
        pending, target = self._context.unsettled.pending, self._target.link
        if target is None:
            return "target is not connected"
        if self._watch.observer is not None:
            return LEFT_TO_OTHERS
        if self._source.link is None:
            return "source is not connected"
        if target.waits:
            return "target has blocked publishing"
        if pending.held_count and not pending.in_flight:
            return "target refuses messages"
        if pending.isolating:
            return "searching the message that ended the target's connection"
        if self._ending.incomplete_seconds >= self._context.options.outcome_timeout:
            return "the source stopped partway through a message"
        return "running"

    def _update_connections(self) -> None:
        """Update which ends are connected, and the number of failed attempts."""
        links: dict[str, ReconnectingLink[Any]] = {
            "source": self._source.reconnecting,
            "target": self._target.reconnecting,
        }
        if self._refusals.quarantine_queue is not None:
            links["quarantine"] = self._refusals.quarantine_queue.reconnecting
        connected = {name: link.link is not None for name, link in links.items()}
        connected["source"] |= self._watch.observer is not None
        counts = self._context.statistics
        counts.connected = connected
        counts.unreachable = Counter(
            {name: link.opener.failed_attempts for name, link in links.items()}
        )

    # The end.

    def _extend_stop(self) -> None:
        """Wait for anything for at most `Waits.shutdown_timeout` seconds from now on."""
        now = asyncio.get_running_loop().time()
        self._stop_waiting_at = now + self._context.options.waits.shutdown_timeout

    @property
    def _seconds_left(self) -> float:
        """Seconds until the ending route stops waiting."""
        return self._stop_waiting_at - asyncio.get_running_loop().time()

    async def _drain(self) -> None:
        """Stop the source, and wait for the outcomes of the messages in flight.

        Give up after `RouteOptions.drain` seconds, or `Waits.drain_idle` seconds without an
        outcome.
        """
        lifecycle, unsettled = self._context.lifecycle, self._context.unsettled
        options, clock = self._context.options, asyncio.get_running_loop().time
        lifecycle.report_draining()
        if lifecycle.fault is None:
            self._source.stop()
        if self._target.link is not None:
            self._target.link.flush()
        deadline, idle_deadline = clock() + options.drain, clock() + options.waits.drain_idle
        count = unsettled.active_count
        while unsettled.has_unanswered:
            now = clock()
            if count != unsettled.active_count:
                count, idle_deadline = unsettled.active_count, now + options.waits.drain_idle
                self._extend_stop()
            has_failed = lifecycle.fault is not None and not lifecycle.has_record_fault
            if has_failed or now >= min(deadline, idle_deadline):
                break
            await asyncio.sleep(_DRAIN_CHECK_INTERVAL)
            self._update_connections()

    async def _count_rest(self) -> None:
        """Count the messages that remain at the source."""
        self._settlement.settle_finished()  # the source then counts the released messages
        self._watch.cancel()
        waits = self._context.options.waits
        wait = min(waits.close_timeout, self._seconds_left - waits.min_close_timeout)
        await self._watch.count_rest(wait)
        self._explain_uncounted()

    def _explain_uncounted(self) -> None:
        """Add to the reason for a missing count why the source could not be opened.

        The source is opened after the target.
        """
        counts = self._context.statistics
        if not counts.uncounted or self._source.link is not None:
            return
        ends: tuple[ReconnectingLink[Any], ...]
        ends = self._target.reconnecting, self._source.reconnecting
        for end in ends:
            if end.link is None and end.opener.failed_attempts:
                opener = end.opener
                counts.uncounted += f" ({opener.endpoint}: {opener.last_failure})"

    async def _close(self) -> None:
        """Release the unsent messages, and close the links."""
        self._settlement.settle_finished()
        unsettled, waits = self._context.unsettled, self._context.options.waits
        unsent = [*unsettled.unsent(), *self._records.duplicates]
        wait = max(waits.min_close_timeout, min(waits.close_timeout, self._seconds_left))
        # A target that has not answered so far will not answer the close either.
        target_wait = waits.min_close_timeout if unsettled.pending.in_flight else wait
        closing: list[Awaitable[None]] = [
            self._source.reconnecting.close(wait),
            self._target.reconnecting.close(target_wait),
        ]
        if self._refusals.quarantine_queue is not None:
            closing.append(self._refusals.quarantine_queue.reconnecting.close(wait))
        closing += self._closing.tasks
        self._settlement.settle(unsent, Settle.RELEASE)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.gather(*closing, return_exceptions=True), wait)
