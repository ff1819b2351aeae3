"""The target of a route: sends the pending deliveries, and receives their outcomes.

Deliveries that arrive in one iteration of the event loop are prepared and sent together, as far as
the target has room for them. When the target's connection ends, the messages in flight are sent
again. A message that ends the connections on which it is the only one is refused as ``fatal``.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Sequence

from amqp10msg.net.bridge.context import RouteContext
from amqp10msg.net.bridge.reconnecting import ClosingLinks, ReconnectingLink
from amqp10msg.net.bridge.refusals import Refusals
from amqp10msg.net.bridge.sending import preparer_of
from amqp10msg.net.bridge.settlement import Settlement
from amqp10msg.net.ends.links import open_target
from amqp10msg.net.ends.terms import (
    LinkError,
    Outcome,
    Outgoing,
    Sent,
    Settle,
    SourceDelivery,
    TargetLink,
    TargetRequest,
)
from amqp10msg.wire.errors import AmqpError

#: Maximum number of messages that are translated and sent together.
_MAX_BATCH = 100
#: After this many disconnects during which a message was the only one in flight, it is refused with
#: the outcome `fatal`.
_MAX_DISCONNECTS_BY_ONE_MESSAGE = 3


class TargetEnd:
    """Keeps the target connected, sends pending deliveries to it, and receives their outcomes.

    Args:
        context: the route.
        settlement: settles deliveries at the source.
        refusals: handles refused messages.
        closing: the links of the route that are being closed.

    Attributes:
        reconnecting: keeps the link to the target open.
    """

    def __init__(
        self,
        context: RouteContext,
        settlement: Settlement,
        refusals: Refusals,
        closing: ClosingLinks,
    ) -> None:
        self._context = context
        self._pending = context.unsettled.pending
        self._settlement = settlement
        self._refusals = refusals
        self._closing = closing
        self._prepare = preparer_of(
            context.source, context.target, context.options, context.statistics
        )
        self._is_sending = self._is_send_scheduled = False
        # Set until no message is in flight, so that the target can then be reopened.
        self._is_paused = False
        self.reconnecting: ReconnectingLink[TargetLink] = ReconnectingLink(
            "target",
            context.target,
            context.options,
            context.log,
            open_link=self._open,
            on_open=self._on_opened,
            on_lost=self._on_lost,
            on_refused=self._on_refused,
        )

    @property
    def link(self) -> TargetLink | None:
        """The open link; None while the target is not connected."""
        return self.reconnecting.link

    def _open(self) -> Awaitable[TargetLink]:
        return open_target(
            TargetRequest(
                endpoint=self._context.target,
                on_outcomes=self._on_outcomes,
                on_room=self.send_waiting,
                on_lost=self.reconnecting.lose,
                window=self._context.options.window,
                on_address_skipped=self.reconnecting.opener.address_skipped,
                pool=self._context.pools.targets,
                alone=self.reconnecting.opener.needs_own_connection,
            )
        )

    # Sending.

    def send_soon(self) -> None:
        """Send in the next iteration of the loop, so that deliveries are sent together."""
        if not self._is_send_scheduled:
            self._is_send_scheduled = True
            asyncio.get_running_loop().call_soon(self.send_waiting)

    def send_waiting(self) -> None:
        """Send the waiting messages that the target has room for."""
        self._is_send_scheduled = False
        target = self.link
        if self._is_sending or self._is_paused or self._context.lifecycle.is_ending:
            return
        if target is None:
            if self._refusals.missing_target.given_up:
                self._refuse_unsent()
            return
        self._is_sending = True
        try:
            now = asyncio.get_running_loop().time()
            while self.link is target and (room := min(target.room, _MAX_BATCH)) > 0:
                batch = self._pending.take_batch(now, room)
                if not batch:
                    break
                self._send_batch(target, batch, now)
        finally:
            self._is_sending = False

    def _send_batch(self, target: TargetLink, batch: Sequence[SourceDelivery], now: float) -> None:
        """Prepare and send deliveries. Those that cannot be sent are settled or refused."""
        ready: list[Sent] = []
        for delivery, prepared in zip(batch, self._prepare(batch), strict=True):
            if isinstance(prepared, Outgoing):
                delivery.sent_at = now
                ready.append((prepared, delivery))
            else:
                self._settle_unsendable(delivery, prepared)
        if self.link is not target:
            self._pending.put_back([delivery for _, delivery in ready])
        elif ready:
            self._pending.in_flight.update((delivery, None) for _, delivery in ready)
            target.send(ready)

    def _settle_unsendable(self, delivery: SourceDelivery, error: Exception | None) -> None:
        """Settle a message that cannot be sent.

        A message that the hook dropped (`error` is None) is accepted at the source. Any other is
        refused with the outcome ``untranslatable``.
        """
        if error is None:
            self._context.statistics.dropped += 1
            self._settlement.settle_soon(delivery, Settle.ACCEPT)
            return
        reason = str(error)
        if not isinstance(error, AmqpError):
            reason = f"hook: {error!r}"
            self._context.log("hook-failed", logging.ERROR, why=repr(error))
        self._refusals.refuse(delivery, Outcome("untranslatable", "", reason, final=True))

    def _refuse_unsent(self) -> None:
        """Refuse the messages that are not in flight, because the target's queue was deleted."""
        for delivery in self._pending.take_unsent():
            self._refusals.refuse(delivery, self._refusals.missing_target.outcome)

    # Outcomes.

    def _on_outcomes(self, outcomes: Sequence[tuple[SourceDelivery, Outcome]]) -> None:
        """Finish accepted messages, and process refusals."""
        in_flight, missing_target = self._pending.in_flight, self._refusals.missing_target
        counts, accepted = self._context.statistics, 0
        for delivery, outcome in outcomes:
            if in_flight.pop(delivery, self) is self:
                continue
            self.reconnecting.made_progress = True
            if outcome.kind != "accepted":
                if outcome.kind == "returned" and self._context.target.queue is not None:
                    missing_target.mark_missing(outcome.description)
                self._refusals.refuse(delivery, outcome)
                continue
            missing_target.mark_present()
            accepted += 1
            counts.octets += delivery.size
            self._refusals.note_accepted(delivery.size)
            self._settlement.settle_soon(delivery, Settle.ACCEPT, outcome)
        if accepted:
            self._pending.count_accepted(accepted)
            counts.accepted += accepted
            counts.last_success = time.time()

    def check_overdue(self, now: float) -> None:
        """Drop the link if the oldest message has no outcome after `outcome_timeout` seconds.

        `now` is the time of the event loop's clock. The time while the target blocks publishing
        does not count.
        """
        target, in_flight = self.link, self._pending.in_flight
        if target is None or not in_flight:
            return
        if target.waits:
            for delivery in in_flight:
                delivery.sent_at = now
        oldest = next(iter(in_flight))
        if now - oldest.sent_at > self._context.options.outcome_timeout:
            self.reconnecting.give_up(failed=True)

    # Connecting.

    def _on_opened(self) -> None:
        self._refusals.missing_target.mark_present()
        asyncio.get_running_loop().call_soon(self.send_waiting)

    def _on_refused(self, error: LinkError) -> bool:
        """Return whether the target's queue was deleted, and record that.

        A route that ends by itself also refuses the waiting messages.
        """
        if error.missing:
            self._refusals.missing_target.mark_missing(str(error))
            if self._context.options.ends:
                self._refuse_unsent()
        return error.missing

    def _on_lost(self, error: LinkError) -> None:
        """Resend the messages that were in flight when the target's connection ended.

        The messages are sent one at a time if one of them may have ended the connection: each
        further disconnect can then duplicate only one message. If the network or a shutdown cut
        the connection, no message is suspected the first time.
        """
        self._context.statistics.target_lost += 1
        self._is_paused = False
        in_flight, orphans = self._pending.lose_target()
        self.reconnecting.report(error, suspects=len(in_flight))
        for delivery in orphans:
            self._settlement.forget(delivery)  # not settled: the source delivers the message again
        if error.local or not self._context.options.reconnect:
            self._pending.put_back(in_flight)  # the route releases them when it ends
            self._context.lifecycle.fail(error)
            return
        blamed = error.sent_by_peer or error.failed
        if error.shared:
            # A message is blamed only if no other route shared the connection.
            is_suspect = len(in_flight) == 1 and in_flight[0].suspected
            if is_suspect or (in_flight and blamed):
                self.reconnecting.opener.use_own_connection()
        elif len(in_flight) == 1 and self._is_fatal(in_flight[0], error):
            in_flight = []
        self._pending.suspect(in_flight, isolated=blamed)

    def _is_fatal(self, suspect: SourceDelivery, error: LinkError) -> bool:
        """Count a disconnect for the only message in flight. If it had enough, refuse it."""
        suspect.deaths += _MAX_DISCONNECTS_BY_ONE_MESSAGE if error.sent_by_peer else 1
        if suspect.deaths < _MAX_DISCONNECTS_BY_ONE_MESSAGE:
            return False
        self._refusals.refuse(suspect, Outcome("fatal", "", str(error), final=True))
        self._pending.throttle()
        self.reconnecting.made_progress = True
        return True

    def rejoin_shared_connection(self, now: float) -> None:
        """Move the link back to a shared connection if `ReconnectingLink.can_rejoin()`.

        Sending pauses until no message is in flight, and the link is reopened then.
        """
        if not self.reconnecting.can_rejoin(now) or self._pending.isolating:
            return
        self._is_paused = True
        if not self._pending.in_flight:
            self._is_paused = False
            self.reconnecting.opener.needs_own_connection = False
            self.reconnecting.made_progress = True
            link = self.reconnecting.release()
            if link is not None:
                self._closing.close(link)
