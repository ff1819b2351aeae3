"""Settles the deliveries of a route at the source, after their records are written.

A finished delivery waits until the next iteration of the event loop. Then the quarantine lines,
message-ids and positions of all finished deliveries are written together, and the deliveries are
settled together: after a crash, a message may be delivered again, but none is lost.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import operator
from collections.abc import Callable, Sequence

from amqp10msg.net.bridge.context import RouteContext
from amqp10msg.net.bridge.records import Records
from amqp10msg.net.bridge.unsettled import Finished
from amqp10msg.net.ends.terms import Outcome, Settle, SourceDelivery

#: The settlement at the source for each action of `RouteOptions.on` and `.unmatched`, except
#: requeue: `Settlement.release_later` releases these messages after a pause.
SETTLE_BY_ACTION = {"reject": Settle.REJECT, "accept": Settle.ACCEPT}


class Settlement:
    """Writes the records of finished deliveries, and settles the deliveries at the source.

    Args:
        context: the route.
        records: the files of the route.
        on_forgotten: called with each delivery that is settled, or whose source was lost.
        on_settled: called after finished deliveries were settled, with whether there were any.
    """

    def __init__(
        self,
        context: RouteContext,
        records: Records,
        *,
        on_forgotten: Callable[[SourceDelivery], None],
        on_settled: Callable[[bool], None],
    ) -> None:
        self._context = context
        self._records = records
        self._on_forgotten = on_forgotten
        self._on_settled = on_settled

    def settle_soon(
        self, delivery: SourceDelivery, settlement: Settle, outcome: Outcome | None = None
    ) -> None:
        """Settle a delivery in the next iteration of the loop, after its records are written.

        Args:
            delivery: the delivery.
            settlement: how to settle it at the source.
            outcome: as in `Finished`.
        """
        if not self._context.unsettled.finished:
            asyncio.get_running_loop().call_soon(self.settle_finished)
        self._context.unsettled.finished.append((delivery, settlement, outcome))

    def release_later(self, delivery: SourceDelivery) -> None:
        """Release a delivery after `RouteOptions.max_backoff`, or when the route ends.

        The source may deliver a released message again immediately, and it would be refused again.
        A route with `RouteOptions.idle` waits for at least twice that time before the release:
        otherwise, the redelivered messages would keep the route from ending.
        """
        options = self._context.options
        self._context.unsettled.delayed[delivery] = None
        pause = max(options.max_backoff, 2 * (options.idle or 0))
        asyncio.get_running_loop().call_later(pause, self._release_delayed, delivery)

    def _release_delayed(self, delivery: SourceDelivery) -> None:
        """Release a delayed delivery, unless its link was lost or the route has released it.

        A route that ends counts its deliveries, and then releases them together.
        """
        if self._context.lifecycle.is_ending:
            return
        if self._context.unsettled.delayed.pop(delivery, self) is None:
            self.settle_soon(delivery, Settle.RELEASE)

    def settle_finished(self) -> None:
        """Write the records of the finished deliveries, and settle them."""
        unsettled = self._context.unsettled
        to_record, unsettled.finished = unsettled.finished, []
        recorded, fault = self._records.finish(to_record)
        if fault is not None:
            self._context.lifecycle.fail(fault, of_record=True)
            recorded_deliveries = {delivery for delivery, _, _ in recorded}
            # Deliveries that are not in the quarantine stay unsettled, and are released at the end.
            unsettled.to_release += [
                delivery for delivery, _, _ in to_record if delivery not in recorded_deliveries
            ]
        for settlement, group in itertools.groupby(recorded, key=operator.itemgetter(1)):
            self._settle_recorded(settlement, list(group))
        self._on_settled(bool(recorded))

    def _settle_recorded(self, settlement: Settle, finished: Sequence[Finished]) -> None:
        """Settle deliveries whose records are written, all in the same way, and count them."""
        counts, now = self._context.statistics, asyncio.get_running_loop().time()
        for delivery, _, outcome in finished:
            if delivery.link is not None:
                counts.latency.add(now - delivery.received_at)
            if outcome is not None and outcome.kind != "accepted":
                counts.quarantined[outcome.kind] += 1
                self.log_refused("quarantine", delivery, outcome)
        deliveries = [delivery for delivery, _, _ in finished]
        self.settle(deliveries, settlement)
        for delivery in deliveries:
            self.forget(delivery)

    def settle(self, deliveries: Sequence[SourceDelivery], settlement: Settle) -> None:
        """Settle each delivery at the link that delivered it; skip deliveries of lost links.

        The caller has written their records, or releases them.
        """
        for link, group in itertools.groupby(deliveries, key=operator.attrgetter("link")):
            if link is not None:
                link.settle(list(group), settlement)

    def forget(self, delivery: SourceDelivery) -> None:
        """Free the memory or the file of a delivery that is settled, or whose source was lost."""
        if delivery.large is not None:
            delivery.large.discard()  # does not remove a file that the quarantine keeps
        else:
            self._on_forgotten(delivery)

    def log_refused(self, action: str, delivery: SourceDelivery, outcome: Outcome) -> None:
        """Log the action for a refused message, and the reason of the refusal."""
        fields = {"reason": outcome.kind, "why": outcome.description or outcome.condition}
        self._context.log_message(f"message-{action}", logging.WARNING, delivery, **fields)
