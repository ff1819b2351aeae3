"""Takes in the deliveries of a source: decides which of them are sent to the target.

The checks, in this order: a source that must be reopened gets its deliveries back; a route that
ends keeps its deliveries, to release them at its end; messages that are too large for memory or
unreadable are refused; duplicates are settled; and messages that do not pass the filter are
settled or released.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from amqp10msg.net.bridge.context import RouteContext
from amqp10msg.net.bridge.ending import Ending
from amqp10msg.net.bridge.filtering import UnmatchedCheck, evaluate_filter
from amqp10msg.net.bridge.reconnecting import ClosingLinks
from amqp10msg.net.bridge.records import Records
from amqp10msg.net.bridge.refusals import Refusals
from amqp10msg.net.bridge.settlement import SETTLE_BY_ACTION, Settlement
from amqp10msg.net.bridge.source_end import SourceEnd
from amqp10msg.net.bridge.target_end import TargetEnd
from amqp10msg.net.ends.entries import UNREADABLE
from amqp10msg.net.ends.terms import Outcome, Oversized, Settle, SourceDelivery

#: Why positions of a stream are skipped, for the log.
_SKIPPED_POSITIONS_REASON = (
    "the broker delivers nothing for some positions: they are its own entries, or messages that it "
    "delivers only over its stream protocol, such as those in compressed batches"
)


class Intake:
    """Receives the deliveries of a source, and passes those to send to the target.

    Args:
        context: the route.
        ending: decides when the route ends.
        records: the files of the route.
        source: the source.
        target: the target.
        settlement: settles deliveries at the source.
        refusals: handles messages that cannot be sent.
        closing: the links of the route that are being closed.
    """

    def __init__(
        self,
        context: RouteContext,
        ending: Ending,
        records: Records,
        source: SourceEnd,
        target: TargetEnd,
        settlement: Settlement,
        refusals: Refusals,
        closing: ClosingLinks,
    ) -> None:
        self._context = context
        self._ending = ending
        self._records = records
        self._source = source
        self._target = target
        self._settlement = settlement
        self._refusals = refusals
        self._closing = closing
        self._skipped_logged = False  # whether skipped positions of the stream were logged
        self._unmatched_check = UnmatchedCheck(context.options.predicate)

    def receive(self, deliveries: Sequence[SourceDelivery]) -> None:
        """Process deliveries of the source."""
        if self._closing:
            deliveries = self._closing.without(deliveries)
            if not deliveries:
                return
        counts, now = self._context.statistics, asyncio.get_running_loop().time()
        count = counts.received
        idle_times = self._ending.reset_idle_times()
        are_released = [self._receive(delivery, now) for delivery in deliveries]
        if all(are_released):
            self._ending.restore_idle_times(idle_times)  # the source still counts as idle
        self._source.poison_guard.count_delivered(counts.received - count)

    def _receive(self, delivery: SourceDelivery, now: float) -> bool:
        """Process a delivery. Return whether the route releases it while it runs."""
        counts, unsettled = self._context.statistics, self._context.unsettled
        if self._source.memory.releases_all:
            if delivery.large is not None:
                delivery.large.discard()
            self._settlement.settle([delivery], Settle.RELEASE)
            return True
        counts.received += 1
        delivery.received_at = now
        counts.redelivered += delivery.redelivered
        if self._is_surplus():
            self._keep_surplus(delivery)
            return False
        self._record_position(delivery)
        if delivery.large is not None:
            self._receive_large(delivery, delivery.large)
            return False
        if delivery.fault:
            self._refusals.refuse(delivery, Outcome(UNREADABLE, "", delivery.fault, final=True))
            return False
        self._source.add_to_memory(delivery)
        options = self._context.options
        if options.deduplicate is not None and not self._is_new(delivery):
            return False
        if options.predicate is not None and not self._passes_filter(delivery):
            return delivery in unsettled.delayed
        unsettled.pending.add(delivery)
        self._target.send_soon()
        return False

    def _is_surplus(self) -> bool:
        """Whether the route accepts no more deliveries: it ends, or has enough messages."""
        if self._context.lifecycle.is_ending:
            return True
        limit = self._ending.max_settled
        if limit is None:
            return False
        return self._context.unsettled.count_total(self._context.statistics.settled) >= limit

    def _keep_surplus(self, delivery: SourceDelivery) -> None:
        """Keep a delivery until the route ends; then it is released. Stop the source."""
        to_release = self._context.unsettled.to_release
        if not to_release:
            self._source.stop()
        if delivery.large is not None:
            delivery.large.discard()
        to_release.append(delivery)

    def _record_position(self, delivery: SourceDelivery) -> None:
        """Record the position of a delivery in its stream or file. Count skipped positions."""
        counts, positions = self._context.statistics, self._records.positions
        positions.receive(delivery)
        if positions.skipped <= counts.skipped:
            return
        counts.skipped = positions.skipped
        if not self._skipped_logged:
            self._skipped_logged = True
            endpoint = str(self._context.source)
            why = _SKIPPED_POSITIONS_REASON
            self._context.log("stream-skipped", logging.WARNING, at=endpoint, why=why)

    def _receive_large(self, delivery: SourceDelivery, large: Oversized) -> None:
        """Refuse a message that is too large for memory, or leave it if its file is not whole."""
        options = self._context.options
        if not large.is_whole:
            # The message stays unsettled until the route ends: if it were released now, the source
            # would deliver it again.
            self._context.statistics.left += 1
            text = f"{large.folder} holds {options.max_large} bytes at most (max-large)"
            self._context.log_message("message-left", logging.ERROR, delivery, why=text)
            large.discard()
            self._context.unsettled.to_release.append(delivery)
            return
        text = f"{len(large)} bytes exceed max-message, {options.max_message}"
        self._refusals.refuse(delivery, Outcome("too-large", "", text, final=True))

    # Duplicates.

    def _is_new(self, delivery: SourceDelivery) -> bool:
        """Whether to send a delivery: its message-id was neither accepted before nor is unfinished.

        A duplicate of an accepted message is settled. A duplicate of an unfinished message waits
        until that message is finished.
        """
        try:
            accepted = self._records.was_accepted(delivery)
        except OSError as error:  # the file is damaged: release the message at the end
            self._context.unsettled.to_release.append(delivery)
            self._context.lifecycle.fail(error, of_record=True)
            return False
        if accepted:
            self._context.statistics.duplicates += 1
            self._settlement.settle_soon(delivery, Settle.ACCEPT)
        return accepted is False

    def on_forgotten(self, delivery: SourceDelivery) -> None:
        """Free the memory of a finished delivery, and check its duplicates again."""
        self._source.memory.free(delivery, self._source.link)
        for duplicate in self._records.forget(delivery):
            if self._is_new(duplicate):
                self._context.unsettled.pending.add(duplicate)
                self._target.send_soon()

    # The filter.

    def _passes_filter(self, delivery: SourceDelivery) -> bool:
        """Whether a message passes the filter. If not, apply `RouteOptions.unmatched`."""
        counts = self._context.statistics
        result = evaluate_filter(self._context.options.predicate, delivery)
        self._unmatched_check.add(result)
        if result.fault:
            outcome = Outcome("untranslatable", "", result.fault, final=True)
            self._refusals.refuse(delivery, outcome)
        elif not result.passes:
            counts.unmatched += 1
            self._settle_unmatched(delivery)
        return result.passes

    def report_unset_names(self) -> None:
        """If no message passed the filter, report the names in it that are set in no message."""
        self._context.statistics.unset_names = self._unmatched_check.texts()
        for text in self._context.statistics.unset_names:
            self._context.log("filter-name-unset", logging.WARNING, why=text)

    def _settle_unmatched(self, delivery: SourceDelivery) -> None:
        """Settle a delivery that did not pass the filter, or release it after a pause."""
        options = self._context.options
        if options.unmatched != "requeue":
            self._settlement.settle_soon(delivery, SETTLE_BY_ACTION[options.unmatched])
        elif self._context.source.keeps:
            self._settlement.settle_soon(delivery, Settle.ACCEPT)
        else:
            self._settlement.release_later(delivery)
