"""Deliveries that are not settled yet, each in one place."""

from __future__ import annotations

import heapq
import itertools
import math
from collections import deque
from collections.abc import Iterable, Iterator

from amqp10msg.net.bridge.terms import Delivery

#: More may be in flight for each that is taken, after poison.
_TRUST = 0.1


class Pending:
    """A delivery waits, is in flight, is held until it is tried again, or is a suspect.

    Suspects were in flight when the target's connection ended. Where one of them may be the cause,
    they are isolated: one message at a time is in flight until all of them were. Where there is
    poison, more may follow, so that then few are in flight at first, and more with each that is
    taken.

    Attributes:
        in_flight: what waits for an outcome, in the order in which it was sent.
        isolating: whether suspects are isolated.
    """

    def __init__(self) -> None:
        self.in_flight: dict[Delivery, None] = {}
        self.isolating = False
        self._limit = math.inf
        self._waiting: deque[Delivery] = deque()
        self._held: list[tuple[float, int, Delivery]] = []
        self._suspects: deque[Delivery] = deque()
        self._order = itertools.count()

    def __len__(self) -> int:
        return self.waiting + len(self.in_flight)

    @property
    def waiting(self) -> int:
        """How many are not in flight."""
        return len(self._waiting) + len(self._held) + len(self._suspects)

    @property
    def holds(self) -> bool:
        """Whether some are tried again later."""
        return bool(self._held)

    def unsent(self) -> Iterator[Delivery]:
        """Yield those that are not in flight."""
        yield from self._waiting
        yield from self._suspects
        yield from (delivery for _, _, delivery in self._held)

    def add(self, delivery: Delivery) -> None:
        """Add a delivery that waits to be sent."""
        self._waiting.append(delivery)

    def hold(self, delivery: Delivery, due: float) -> None:
        """Hold one until a time of the loop's clock."""
        heapq.heappush(self._held, (due, next(self._order), delivery))

    def put_back(self, deliveries: list[Delivery]) -> None:
        """Put back those that were taken and not sent, in front of all others."""
        self._waiting.extendleft(reversed(deliveries))

    def take(self, now: float, most: int) -> list[Delivery]:
        """Take those that are to be sent next.

        Args:
            now: the time, on the loop's clock.
            most: how many.
        """
        taken: list[Delivery] = []
        most = 1 if self.isolating else int(min(most, self._limit - len(self.in_flight)))
        while len(taken) < most:
            delivery = self._next(now)
            if delivery is None:
                break
            taken.append(delivery)
        return taken

    def _next(self, now: float) -> Delivery | None:
        if self.isolating:
            if self.in_flight:
                return None
            self.isolating = bool(self._suspects)
        if self._suspects:
            return self._suspects.popleft()
        if self._held and self._held[0][0] <= now:
            return heapq.heappop(self._held)[2]
        return self._waiting.popleft() if self._waiting else None

    def be_wary(self) -> None:
        """Send one at a time, and more with each that is accepted: one was found to be poison."""
        self._limit = 1.0

    def succeed(self) -> None:
        """Note that one was taken."""
        self._limit += _TRUST

    def lose_source(self) -> list[Delivery]:
        """Forget all that are not in flight; return those that are, which nobody can settle now."""
        self._waiting.clear()
        self._suspects.clear()
        self._held.clear()
        for delivery in self.in_flight:
            delivery.link = None
        return list(self.in_flight)

    def lose_target(self) -> tuple[list[Delivery], list[Delivery]]:
        """Take all that were in flight: those to be sent anew, and those that nobody can settle."""
        flying: list[Delivery] = []
        orphans: list[Delivery] = []
        for delivery in self.in_flight:
            (orphans if delivery.link is None else flying).append(delivery)
        self.in_flight.clear()
        return flying, orphans

    def suspect(self, deliveries: Iterable[Delivery], *, isolated: bool) -> None:
        """Send these anew, before all others.

        Args:
            deliveries: what was in flight when the connection ended.
            isolated: whether one of them may be the cause; it may, too, where one of them was in
                flight at such an end before.
        """
        found = list(deliveries)
        again = bool(self._suspects) or any(delivery.suspected for delivery in found)
        for delivery in found:
            delivery.suspected = True
        self._suspects.extendleft(reversed(found))
        self.isolating = bool(self._suspects) and (again or isolated)
