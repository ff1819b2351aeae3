"""What the disk knows of the deliveries of a route before they are settled at the source."""

from __future__ import annotations

from collections.abc import Sequence

from amqp10msg.net.bridge.ledger import Ledger, identity_of
from amqp10msg.net.bridge.options import RouteOptions
from amqp10msg.net.bridge.positions import Positions
from amqp10msg.net.bridge.quarantine import Quarantine
from amqp10msg.net.bridge.terms import Delivery, Outcome, Settle
from amqp10msg.net.bridge.urls import Endpoint

#: A delivery whose fate is settled, how it is settled at the source, and the target's outcome.
Finished = tuple[Delivery, Settle, "Outcome | None"]


class Records:
    """The quarantine, the message-ids that the target took, and how far a stream was read.

    Where duplicates are looked for, it also knows what is under way, and its copies that came
    meanwhile.

    Args:
        route: its name.
        source: where from.
        target: where to.
        options: which files there are.

    Attributes:
        names: those of the route, its source and its target, as the quarantine has them.

    Raises:
        OSError: one cannot be used.
    """

    def __init__(
        self, route: str, source: Endpoint, target: Endpoint, options: RouteOptions
    ) -> None:
        self.names = {"route": route, "source": str(source), "target": str(target)}
        self._quarantine = Quarantine(options.quarantine)
        self._positions = Positions(options.state, route, active=source.keeps)
        self._ledger: Ledger | None = None
        if options.deduplicate is not None:
            self._ledger = Ledger(options.deduplicate, route, options.remember)
        self._under_way: dict[str, Delivery] = {}
        self._copies: dict[str, list[Delivery]] = {}

    @property
    def offset(self) -> str | None:
        """Where a stream is to be read from; None for where it was to begin."""
        following = self._positions.next
        return None if following is None else str(following)

    @property
    def following(self) -> int | None:
        """Of a stream or file, the position after all that is finished; None where none is."""
        return self._positions.next

    @property
    def copies(self) -> list[Delivery]:
        """What waits for the outcome of another one with its message-id."""
        return [copy for copies in self._copies.values() for copy in copies]

    def receive(self, delivery: Delivery) -> None:
        """Note where in its stream a delivery stands."""
        self._positions.receive(delivery)

    def is_taken(self, delivery: Delivery) -> bool | None:
        """Whether the target has a message already; None where that is not known yet.

        Then it is kept with the other one, and comes out of `forget`.
        """
        if self._ledger is None:
            return False
        identity = delivery.identity = identity_of(delivery)
        if identity is None:
            return False
        if identity in self._under_way:
            self._copies.setdefault(identity, []).append(delivery)
            return None
        if self._ledger.has(identity):
            delivery.identity = None
            return True
        self._under_way[identity] = delivery
        return False

    def forget(self, delivery: Delivery) -> list[Delivery]:
        """Forget that a delivery is under way; return its copies, to be looked at anew."""
        identity = delivery.identity
        if identity is None or self._under_way.pop(identity, None) is None:
            return []
        return self._copies.pop(identity, [])

    def reset(self, in_flight: Sequence[Delivery]) -> None:
        """Forget all that the source is to deliver again: what is not in flight."""
        self._positions.reset()
        self._copies.clear()
        self._under_way = {one.identity: one for one in in_flight if one.identity is not None}

    def finish(self, finished: Sequence[Finished]) -> tuple[Sequence[Finished], OSError | None]:
        """Write to disk what must be there before deliveries are settled.

        Returns:
            Those that may be settled, and what failed. What the target has taken may be settled
            though its message-id is not in the file: else it would come again for certain.
        """
        fault = None
        aside = [
            (delivery, outcome)
            for delivery, _, outcome in finished
            if outcome is not None and outcome.kind != "accepted"
        ]
        try:
            if aside:
                self._quarantine.add(aside, **self.names)
        except OSError as error:
            fault = error
            kept = {delivery for delivery, _ in aside}
            finished = [one for one in finished if one[0] not in kept]
        try:
            self._remember(finished)
        except OSError as error:
            fault = fault or error
        return finished, fault

    def _remember(self, finished: Sequence[Finished]) -> None:
        """Remember what the target took, and how far a stream was read."""
        for delivery, _, _ in finished:
            self._positions.finish(delivery)
        if self._ledger is not None:
            taken = [
                delivery.identity
                for delivery, _, outcome in finished
                if delivery.identity is not None and outcome is not None
            ]
            if taken:
                self._ledger.add(taken)
        self._positions.save()

    def close(self) -> None:
        """Close the files."""
        if self._ledger is not None:
            self._ledger.close()
        self._positions.close()
