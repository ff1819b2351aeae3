"""Handles the messages that a target refuses: retries, quarantine, requeueing and rejection.

A refused message is sent again after a backoff, up to `RouteOptions.attempts` times and for
`RouteOptions.patience` seconds; a refusal by a full target does not count as an attempt. Then the
action of `RouteOptions.on` for the kind of its outcome decides: the message goes to the quarantine,
back to the source after a pause, or is rejected there. An outcome that a retry cannot change is not
retried.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable

from amqp10msg.net.bridge.context import RouteContext
from amqp10msg.net.bridge.options import RouteOptions
from amqp10msg.net.bridge.quarantine_queue import QuarantineQueue
from amqp10msg.net.bridge.reconnecting import backoff_delay
from amqp10msg.net.bridge.settlement import SETTLE_BY_ACTION, Settlement
from amqp10msg.net.ends.terms import LinkError, Outcome, Settle, SourceDelivery
from amqp10msg.net.ends.urls import Endpoint

#: Kinds of outcome that a deleted queue causes, basic.return of 0-9-1 and released of 1.0.
_DELETED_QUEUE_OUTCOMES = {"returned", "released"}
#: Kinds of outcome by which a full target refuses a message. Such a refusal does not count as an
#: attempt to send the message.
_FULL_TARGET_OUTCOMES = {"nacked", "full"}
#: Refusals by a full target after which a message is reported, because it may be too large for the
#: target. With the default backoff, they take about 25 seconds.
_STUCK_TRIES = 12
#: Minimum time between two log events about a full target, in seconds.
_FULL_LOG_INTERVAL = 60.0


class MissingTarget:
    """Handles a target queue or address that was deleted after the link was opened.

    Refused messages are normally retried. A route that ends by itself (`RouteOptions.ends`) retries
    only the first message, and sends later messages once: otherwise every window of messages would
    wait for a queue that does not exist. If the action for refused messages is ``requeue``, the
    source would deliver them forever, so the route fails instead.

    Attributes:
        given_up: whether the route has stopped waiting for the target to be declared again.
    """

    def __init__(self, endpoint: Endpoint, options: RouteOptions, log: Callable[..., None]) -> None:
        self.given_up = False
        self._endpoint = endpoint
        self._options = options
        self._log = log
        self._reason: str | None = None  # the broker's reason; None while the target exists

    def mark_missing(self, reason: str) -> None:
        """Record that the target is missing; `reason` is the broker's reason."""
        if self._reason is None:
            text = f"up to {self._options.window} of the messages that it accepted last may be lost"
            self._log("target-queue-deleted", logging.ERROR, at=str(self._endpoint), why=text)
        self._reason = reason

    def mark_present(self) -> None:
        """Record that the target exists."""
        self._reason, self.given_up = None, False

    @property
    def outcome(self) -> Outcome:
        """The outcome of a message that cannot be sent while the target is missing."""
        kind = "returned" if self._endpoint.protocol == "0-9-1" else "released"
        return Outcome(kind, "", self._reason or "")

    def is_final(self, outcome: Outcome) -> bool:
        """Whether a message with this outcome must not be retried."""
        return outcome.final or (self.given_up and outcome.kind in _DELETED_QUEUE_OUTCOMES)

    def give_up(self, outcome: Outcome, *, is_requeued: bool) -> LinkError | None:
        """Stop waiting for a missing target. Called after the last attempt to send a message.

        A no-op unless the route ends by itself and `outcome` is due to the missing target. Return
        the error that the route must fail with, or None to settle the message. The route must fail
        if the message would be requeued, because the source would deliver it forever.
        """
        if (
            self._reason is None
            or outcome.kind not in _DELETED_QUEUE_OUTCOMES
            or not self._options.ends
        ):
            return None
        self.given_up = True
        self._log("target-given-up", logging.ERROR, at=str(self._endpoint), why=self._reason)
        if not is_requeued:
            return None
        text = f"{self._endpoint}: its queue was deleted, and refused messages would be requeued"
        return LinkError(f"{text} ({self._reason})", permanent=True)


class Refusals:
    """Retries refused messages, or settles them according to `RouteOptions.on`.

    Args:
        context: the route.
        settlement: settles deliveries at the source.
        names: the names of the route, source and target for lines of the quarantine.
        on_retry_due: called when a retry is due.

    Attributes:
        missing_target: handles a deleted queue or address of the target.
        quarantine_queue: the quarantine queue; None if the quarantine is a file.
    """

    def __init__(
        self,
        context: RouteContext,
        settlement: Settlement,
        *,
        names: dict[str, str],
        on_retry_due: Callable[[], None],
    ) -> None:
        self._context = context
        self._settlement = settlement
        self._on_retry_due = on_retry_due
        self.missing_target = MissingTarget(context.target, context.options, context.log)
        self._largest_accepted = 0  # size in bytes of the largest message that the target accepted
        self._full_logged_at: float | None = None
        self.quarantine_queue: QuarantineQueue | None = None
        if context.options.quarantine_queue is not None:
            self.quarantine_queue = QuarantineQueue(
                context.options.quarantine_queue,
                context.options,
                names,
                context.unsettled.quarantining,
                context.log,
                on_accepted=self._settle_quarantined,
                write_to_file=self._quarantine_in_file,
                pool=context.pools.targets,
            )

    def refuse(self, delivery: SourceDelivery, outcome: Outcome) -> None:
        """Schedule a retry of a message, or settle it according to `RouteOptions.on`."""
        context, counts = self._context, self._context.statistics
        for candidate in (*context.target.places, *context.source.places):
            outcome = outcome.without(candidate.password)
        counts.refused[outcome.kind] += 1
        if delivery.link is None:
            self._settlement.forget(delivery)  # the lost source delivers the message again
            return
        action = context.options.on.get(outcome.kind, "quarantine")
        if action == "requeue" and context.source.keeps:
            action = "quarantine"  # a stream cannot requeue: it would skip the message
        if not self.missing_target.is_final(outcome):
            if self._retry(delivery, outcome):
                return
            error = self.missing_target.give_up(outcome, is_requeued=action == "requeue")
            if error is not None:
                self._context.lifecycle.fail(error)
        if action == "quarantine" and self.quarantine_queue is not None and delivery.large is None:
            self.quarantine_queue.add(delivery, outcome)
        elif action == "quarantine":
            self._quarantine_in_file(delivery, outcome)
        else:
            counter: Counter[str] = counts.requeued if action == "requeue" else counts.rejected
            counter[outcome.kind] += 1
            self._settlement.log_refused(action, delivery, outcome)
            if action == "requeue":
                self._settlement.release_later(delivery)
            else:
                self._settlement.settle_soon(delivery, SETTLE_BY_ACTION[action])

    def _retry(self, delivery: SourceDelivery, outcome: Outcome) -> bool:
        """Hold a message for its next attempt. Return False if this was its last attempt."""
        options, loop = self._context.options, asyncio.get_running_loop()
        now = loop.time()
        delivery.first_refused_at = delivery.first_refused_at or now
        delivery.tries += 1
        delivery.attempts += outcome.kind not in _FULL_TARGET_OUTCOMES
        patient = options.patience is None or now - delivery.first_refused_at < options.patience
        if delivery.attempts >= options.attempts or not patient:
            return False
        if outcome.kind in _FULL_TARGET_OUTCOMES:
            self._log_full(outcome, now)
            if delivery.tries >= _STUCK_TRIES:
                self._report_stuck(delivery, outcome)
        due = now + backoff_delay(options, delivery.tries - 1)
        self._context.unsettled.pending.hold(delivery, due)
        loop.call_at(due, self._on_retry_due)
        return True

    def note_accepted(self, size: int) -> None:
        """Record that the target accepted a message of `size` bytes."""
        self._largest_accepted = max(self._largest_accepted, size)

    def _log_full(self, outcome: Outcome, now: float) -> None:
        """Log that the target is full, at most once in `_FULL_LOG_INTERVAL`."""
        if self._full_logged_at is None or now - self._full_logged_at >= _FULL_LOG_INTERVAL:
            self._full_logged_at = now
            why = outcome.description or outcome.condition or "no reason is given"
            self._context.log(
                "target-full", logging.WARNING, reason=outcome.kind, why=f"{why}; retried"
            )

    def _report_stuck(self, delivery: SourceDelivery, outcome: Outcome) -> None:
        """Log a message that a full target keeps refusing, if it may be too large for the target.

        A message that alone exceeds the capacity of a target gets the same outcome as a message
        for which there is no room now, and is retried without end. It is reported once, unless the
        target accepted a larger message. Until the target has accepted any message, it is probably
        full: only one message is reported.
        """
        counts = self._context.statistics
        is_first = not counts.stuck or self._largest_accepted > 0
        if delivery.reported_stuck or delivery.size <= self._largest_accepted or not is_first:
            return
        delivery.reported_stuck = True
        counts.stuck += 1
        accepted = (
            f"the largest message that it accepted has {self._largest_accepted:,} bytes"
            if self._largest_accepted
            else "it has accepted no message"
        )
        refusal = outcome.description or outcome.condition or outcome.kind
        patience = self._context.options.patience
        advice = (
            "give the bridge a patience, after which the message is quarantined"
            if patience is None
            else f"wait: the bridge gives up on it after its patience of {patience:g} s"
        )
        why = (
            f"the target refused the message {delivery.tries} times ({refusal}), and {accepted}: "
            f"the message may be too large for it; raise the target's limit, or {advice}"
        )
        self._context.log_message(
            "message-stuck", logging.WARNING, delivery, reason=outcome.kind, why=why
        )

    def _settle_quarantined(self, delivery: SourceDelivery, outcome: Outcome) -> None:
        """Settle a delivery that the quarantine queue has accepted."""
        if delivery.link is not None:
            self._context.statistics.quarantined[outcome.kind] += 1
            self._settlement.log_refused("quarantine", delivery, outcome)
            self._settlement.settle_soon(delivery, Settle.ACCEPT)
        else:
            self._settlement.forget(delivery)  # the lost source delivers the message again

    def _quarantine_in_file(self, delivery: SourceDelivery, outcome: Outcome) -> None:
        """Write a delivery to the quarantine file and settle it, in the next iteration."""
        if delivery.link is not None:
            self._settlement.settle_soon(delivery, Settle.ACCEPT, outcome)
        else:
            self._settlement.forget(delivery)
