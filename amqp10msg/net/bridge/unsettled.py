"""The unsettled deliveries of a route, by what each of them waits for.

A delivery of the source moves through these collections until it is settled:

    from            to              because
    (received)      waiting         it is to be sent
    (received)      delayed         it did not pass the filter, and is released after a pause
    (received)      duplicates      a delivery with the same message-id is unfinished: `Records`
    (received)      to_release      the route ends, or a file has no room for it
    (received)      finished        it is a duplicate, unreadable or too large
    waiting         in flight       it was sent
    waiting         finished        it cannot be sent, or the hook dropped it
    in flight       finished        the target accepted it, or refused it for good
    in flight       held            the target refused it, and it is retried later
    in flight       quarantining    the target refused it, and a queue is the quarantine
    in flight       suspects        the target was lost
    held, suspects  in flight       it was sent again
    quarantining    finished        the queue has it, or the quarantine file must have it
    in flight       delayed         the target refused it, and it is requeued after a pause
    delayed         finished        the pause is over
    duplicates      waiting         the first delivery was finished, and not accepted
    duplicates      finished        the target accepted the first delivery
    finished        (settled)       its records are on disk
    finished        to_release      its line could not be written to the quarantine file

If the source is lost, deliveries in flight and for the quarantine queue stay, without their link:
their outcomes may still arrive. All others are discarded: the source delivers them again.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import deque
from collections.abc import Iterable, Iterator

import attrs

from amqp10msg.net.bridge.statistics import Statistics
from amqp10msg.net.ends.terms import Outcome, Settle, SourceDelivery

#: After a poison message, the limit of messages in flight grows by this per accepted message.
_LIMIT_GROWTH = 0.1


class Pending:
    """The deliveries of a route that are sent, or are to be sent.

    Each delivery is in flight, held for a retry, a suspect, or waiting to be sent for the first
    time. Suspects were in flight when the target's connection ended. If a suspect may have ended
    it, the suspects are isolated: they are sent one at a time. After a poison message was found,
    the limit of messages in flight is 1, and grows with each accepted message, because more poison
    messages may follow.

    Attributes:
        in_flight: the deliveries that were sent and have no outcome, in the order of sending.
        isolating: whether messages are sent one at a time, to find a poison message.
    """

    def __init__(self) -> None:
        self.in_flight: dict[SourceDelivery, None] = {}
        self.isolating = False
        self._limit = math.inf  # of messages in flight
        self._waiting: deque[SourceDelivery] = deque()
        # A heap of deliveries by the time of their retry, then by the order of their refusals.
        self._held: list[tuple[float, int, SourceDelivery]] = []
        self._suspects: deque[SourceDelivery] = deque()
        self._order = itertools.count()

    def __len__(self) -> int:
        return self.unsent_count + len(self.in_flight)

    @property
    def unsent_count(self) -> int:
        """Number of deliveries that are not in flight."""
        return len(self._waiting) + len(self._held) + len(self._suspects)

    @property
    def held_count(self) -> int:
        """Number of deliveries that are held for a retry."""
        return len(self._held)

    def unsent(self) -> Iterator[SourceDelivery]:
        """Yield the deliveries that are not in flight, without removing them."""
        yield from self._waiting
        yield from self._suspects
        yield from (delivery for _, _, delivery in self._held)

    def take_unsent(self) -> list[SourceDelivery]:
        """Remove and return the deliveries that are not in flight."""
        unsent = list(self.unsent())
        self._discard_unsent()
        return unsent

    def _discard_unsent(self) -> None:
        """Discard the deliveries that are not in flight."""
        self._waiting.clear()
        self._suspects.clear()
        self._held.clear()

    def add(self, delivery: SourceDelivery) -> None:
        """Add a new delivery, to be sent."""
        self._waiting.append(delivery)

    def hold(self, delivery: SourceDelivery, due: float) -> None:
        """Hold a refused delivery until `due`, in seconds of the event loop's clock."""
        heapq.heappush(self._held, (due, next(self._order), delivery))

    def put_back(self, deliveries: list[SourceDelivery]) -> None:
        """Insert deliveries that `take_batch` removed at the front of the waiting deliveries."""
        self._waiting.extendleft(reversed(deliveries))

    def take_batch(self, now: float, max_count: int) -> list[SourceDelivery]:
        """Remove and return the deliveries to send next, at most `max_count`.

        `now` is the time of the event loop's clock.
        """
        batch: list[SourceDelivery] = []
        limit = 1 if self.isolating else self._limit - len(self.in_flight)
        max_count = int(min(max_count, limit))
        while len(batch) < max_count:
            delivery = self._take_next(now)
            if delivery is None:
                break
            batch.append(delivery)
        return batch

    def _take_next(self, now: float) -> SourceDelivery | None:
        """Remove the next delivery to send and return it; None if nothing can be sent now.

        Suspects, which were in flight when the target's connection ended, come first, then due
        retries, then deliveries that were not sent before.
        """
        if self.isolating:
            if self.in_flight:
                return None
            self.isolating = bool(self._suspects)
        if self._suspects:
            return self._suspects.popleft()
        if self._held and self._held[0][0] <= now:
            return heapq.heappop(self._held)[2]
        return self._waiting.popleft() if self._waiting else None

    def throttle(self) -> None:
        """Reduce the limit of messages in flight to 1, because a poison message was found."""
        self._limit = 1.0

    def count_accepted(self, count: int) -> None:
        """Raise the limit of messages in flight: the target has accepted `count` messages."""
        self._limit += count * _LIMIT_GROWTH

    def lose_source(self) -> list[SourceDelivery]:
        """Discard the unsent deliveries; return those in flight, after setting `link` to None."""
        self._discard_unsent()
        for delivery in self.in_flight:
            delivery.link = None
        return list(self.in_flight)

    def lose_target(self) -> tuple[list[SourceDelivery], list[SourceDelivery]]:
        """Remove the deliveries in flight. Return the ones to resend, and those without a link."""
        to_resend: list[SourceDelivery] = []
        orphans: list[SourceDelivery] = []
        for delivery in self.in_flight:
            (orphans if delivery.link is None else to_resend).append(delivery)
        self.in_flight.clear()
        return to_resend, orphans

    def suspect(self, deliveries: Iterable[SourceDelivery], *, isolated: bool) -> None:
        """Resend deliveries that were in flight when the target's connection ended.

        They are sent before other deliveries. They are sent one at a time if a message may have
        ended the connection (`isolated`), or if one of them was also in flight when an earlier
        connection ended.
        """
        suspects = list(deliveries)
        repeated = bool(self._suspects) or any(delivery.suspected for delivery in suspects)
        for delivery in suspects:
            delivery.suspected = True
        self._suspects.extendleft(reversed(suspects))
        self.isolating = bool(self._suspects) and (repeated or isolated)


#: A finished delivery, how to settle it at the source, and an outcome. The outcome is ``accepted``
#: if the target accepted the message, the reason of a message for the quarantine file, or None.
Finished = tuple[SourceDelivery, Settle, "Outcome | None"]


@attrs.define(eq=False)
class Unsettled:
    """All unsettled deliveries of a route, except duplicates of unfinished deliveries.

    Attributes:
        pending: the deliveries that are sent, or are to be sent.
        finished: the deliveries that are settled in the next iteration of the event loop, after
            their records are written.
        quarantining: the deliveries that the quarantine queue has not accepted or refused yet, and
            the outcomes at the target for which they are quarantined.
        delayed: the deliveries that are released after a pause: they did not pass the filter, or
            the target refused them and they are requeued.
        to_release: the deliveries that are released when the route ends.
    """

    pending: Pending = attrs.Factory(Pending)
    finished: list[Finished] = attrs.Factory(list)
    quarantining: dict[SourceDelivery, Outcome] = attrs.Factory(dict)
    delayed: dict[SourceDelivery, None] = attrs.Factory(dict)
    to_release: list[SourceDelivery] = attrs.Factory(list)

    @property
    def active_count(self) -> int:
        """Number of deliveries that are pending, finished, or sent to the quarantine queue."""
        return len(self.pending) + len(self.finished) + len(self.quarantining)

    @property
    def returnable_count(self) -> int:
        """Number of deliveries that are released to the source when the route ends."""
        return len(self.to_release) + len(self.delayed) + len(self.pending) + len(self.quarantining)

    @property
    def has_unanswered(self) -> bool:
        """Whether an outcome or a settlement of a delivery is outstanding."""
        return bool(self.pending.in_flight or self.finished or self.quarantining)

    def count_total(self, settled: int) -> int:
        """Return the number of messages that count towards `max_messages`.

        These are the `settled` messages, a number of the statistics, and those to be settled.
        """
        # The statistics already include the finished messages, except those for the quarantine
        # file.
        counted = sum(
            outcome is None or outcome.kind == "accepted" for _, _, outcome in self.finished
        )
        return settled + self.active_count - counted

    def store_counts(self, statistics: Statistics) -> None:
        """Store the numbers of deliveries in the statistics."""
        statistics.in_flight = len(self.pending.in_flight)
        statistics.waiting = self.active_count - statistics.in_flight
        statistics.held = self.pending.held_count + len(self.delayed) + len(self.to_release)

    def lose_source(self) -> list[SourceDelivery]:
        """Discard the deliveries that the source delivers again.

        Return the other deliveries, which have lost their link: those without an outcome.
        """
        unanswered = self.pending.lose_source()
        for delivery in self.quarantining:
            delivery.link = None
            unanswered.append(delivery)
        self.to_release.clear()
        self.delayed.clear()
        return unanswered

    def unsent(self) -> list[SourceDelivery]:
        """Return the deliveries to release when the route ends: all that are not in flight."""
        return [
            *self.pending.unsent(),
            *self.to_release,
            *self.delayed,
            *self.quarantining,
        ]
