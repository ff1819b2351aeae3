"""Messages of a node on their way: transferred over links, settled, archived, expired."""

from __future__ import annotations

from collections.abc import Callable

from amqp10msg.delivery.effects import apply
from amqp10msg.delivery.node.contents import Contents
from amqp10msg.delivery.node.errors import RESOURCE_DELETED, NodeError, OutcomeError
from amqp10msg.delivery.node.link_table import LinkTable
from amqp10msg.delivery.node.links import (
    NOBODY,
    SEVERAL,
    Delivery,
    Entry,
    Outcome,
    OutgoingLink,
    is_outcome,
)
from amqp10msg.delivery.node.records import DeadLetter
from amqp10msg.delivery.node.store import Store, Stored
from amqp10msg.delivery.outcomes import Accepted, Modified, Rejected, Released
from amqp10msg.delivery.states import MessageState
from amqp10msg.delivery.termini import StdDistMode
from amqp10msg.message import Message
from amqp10msg.sections import Header
from amqp10msg.sections.parts import scan
from amqp10msg.wire.errors import DecodeError, EncodeError
from amqp10msg.wire.limits import UNLIMITED, Limits

#: The header of a message without one; never changed.
NO_HEADER = Header()
# Bits of a delivery-tag for the deliveries of one millisecond of the clock.
_DELIVERIES_A_MILLISECOND = 20


class Transfers(Contents):
    """The messages of a node, and what happens to them once they are there."""

    def __init__(
        self,
        name: str,
        *,
        clock: Callable[[], int],
        store: Store,
        priorities: int,
        dead_letter: Callable[[DeadLetter], object] | None,
        on_available: Callable[[], object] | None,
        limits: Limits | None,
    ) -> None:
        super().__init__(priorities)
        self.name = name
        self.clock = clock
        self.dead_letter = dead_letter
        self.on_available = on_available
        self.limits = limits
        self._store = store
        self._table = LinkTable(self._levels)
        self._deleted = False
        self._delivery_number = 0
        self._first_tag = clock() << _DELIVERIES_A_MILLISECOND

    def _next(self, link: OutgoingLink, settled: bool) -> Delivery | None:
        if self._deleted:
            raise self._gone()
        if not link.attached:
            raise NodeError(f"the link {link.name!r} is detached", RESOURCE_DELETED)
        if self._expiry:
            self.expire()
        entry = link._view.next(link._wants)
        if entry is None:
            return None
        delivery = self._deliver(link, entry)
        if settled:
            self._settle(delivery, Accepted())
        return delivery

    def _deliver(self, link: OutgoingLink, entry: Entry) -> Delivery:
        held = entry.header
        ttl = None if held.ttl is None else max(entry.arrival + held.ttl - self.clock(), 0)
        header = Header(
            held.durable,
            held.priority,
            ttl,  # what remains of it (Part 3, 3.2.1)
            entry.acquirer in {NOBODY, link.number},
            held.delivery_count,
        )
        octets = scan(entry.octets, limits=UNLIMITED).replace(
            header=header, delivery_annotations=None
        )
        self._delivery_number += 1
        number = self._delivery_number
        tag = ((self._first_tag + number) % (1 << 64)).to_bytes(8, "big")
        delivery = Delivery(link, number, tag, octets, entry)
        link.unsettled[delivery.number] = delivery
        if link.mode is StdDistMode.MOVE:
            entry.state = MessageState.ACQUIRED
            entry.acquirer = link.number if header.first_acquirer else SEVERAL
            entry.delivery = delivery
            self._acquired += 1
        else:
            self._table.bar(link, entry)
            if entry.copies is None:
                entry.copies = {}
            entry.copies[link.number] = delivery
        return delivery

    def _settle(self, delivery: Delivery, outcome: Outcome | None) -> Outcome:
        if delivery.outcome is not None:
            return delivery.outcome
        link, entry = delivery.link, delivery._entry
        if outcome is None:
            outcome = delivery.state if is_outcome(delivery.state) else link.default_outcome
        elif not is_outcome(outcome):
            raise ValueError(f"a delivery is settled with an outcome, which {outcome!r} is not")
        if entry.state is MessageState.ARCHIVED:
            self._end(delivery, outcome)  # a copy of what is gone
            return outcome
        state, octets = self._applied(outcome, entry, link)
        if isinstance(outcome, Accepted):
            # The most frequent outcome, which needs no batch.
            self._end(delivery, outcome)
            if link.mode is StdDistMode.MOVE:
                self._archive(entry, "accepted")
        else:
            with self._store.batch():
                self._apply(delivery, outcome, state, octets)
        return outcome

    def _applied(
        self, outcome: Outcome, entry: Entry, link: OutgoingLink
    ) -> tuple[MessageState, bytes]:
        """Apply an outcome to the bytes of a message, and check that they are readable."""
        state, octets = apply(outcome, entry.octets, limits=UNLIMITED)
        ends = state is MessageState.ARCHIVED
        if octets is entry.octets or (
            ends and self.dead_letter is None and link.mode is StdDistMode.MOVE
        ):
            return state, octets
        try:
            Message.decode(octets, limits=self.limits)
        except DecodeError as error:
            if ends:
                return state, entry.octets  # rejected without counting it
            raise OutcomeError(
                f"the node {self.name!r} refuses the outcome {type(outcome).__name__.lower()}, "
                f"which makes the message unreadable: {error}",
                error.condition,
            ) from error
        return state, octets

    def _apply(
        self, delivery: Delivery, outcome: Outcome, state: MessageState, octets: bytes
    ) -> None:
        link, entry = delivery.link, delivery._entry
        move = link.mode is StdDistMode.MOVE
        if move and state is MessageState.ARCHIVED:
            if self.dead_letter is not None:
                rejected = outcome if isinstance(outcome, Rejected) else None
                self._hand_over(entry, octets, "rejected", rejected)
            self._end(delivery, outcome)
            self._archive(entry, "rejected")
            return
        changed = octets is not entry.octets
        if changed:
            self._change(entry, octets)
        self._end(delivery, outcome)
        if state is MessageState.AVAILABLE:
            if isinstance(outcome, Modified) and outcome.undeliverable_here:
                self._table.bar(link, entry)
            elif not move:
                self._table.unbar(link, entry)
        if move:
            self._acquired -= 1
            entry.state = MessageState.AVAILABLE
            if entry.expires is not None:
                if not entry.timed:
                    self._time(entry, entry.expires)  # it expired while it was acquired
                if entry.expires < self.clock():
                    self.expire()
                    return
        self._table.offer_again(entry, None if move or changed else link)
        if self.on_available is not None:
            self.on_available()

    def _detach(self, link: OutgoingLink) -> None:
        faults: list[Exception] = []
        with self._store.batch():
            for delivery in list(link.unsettled.values()):
                try:
                    self._settle_at_the_end(delivery)
                except Exception as fault:  # noqa: BLE001  (raised below, after the others)
                    faults.append(fault)
        if faults:
            raise faults[0]
        self._table.drop(link)

    def _settle_at_the_end(self, delivery: Delivery) -> None:
        """Settle a delivery whose link ends, as released if other outcomes are refused."""
        for outcome in (None, delivery.link.default_outcome):
            try:
                self._settle(delivery, outcome)
            except (OutcomeError, EncodeError):
                continue
            return
        self._settle(delivery, Released())

    def _end(self, delivery: Delivery, outcome: Outcome) -> None:
        delivery.outcome = outcome
        link, entry = delivery.link, delivery._entry
        link.unsettled.pop(delivery.number, None)
        if entry.delivery is delivery:
            entry.delivery = None
        elif entry.copies is not None:
            entry.copies.pop(link.number, None)

    def _change(self, entry: Entry, octets: bytes) -> None:
        self._octets += len(octets) - len(entry.octets)
        entry.octets = octets
        entry.header = scan(octets, limits=UNLIMITED).section("header") or NO_HEADER
        if entry.stored:
            self._store.put(
                self.name,
                Stored(entry.sequence, entry.arrival, entry.octets, entry.message_format),
            )

    def _archive(self, entry: Entry, cause: str) -> None:
        # The store comes last: if it fails, the memory is right.
        self._remove(entry, cause)
        self._table.forget(entry)
        if entry.stored:
            self._store.remove(self.name, entry.sequence)
            self._store.commit()

    def _archive_spontaneously(self, entry: Entry, cause: str) -> None:
        """Archive a message without an outcome of the receiver (Part 3, 3.3).

        Its deliveries, if any, are settled as accepted: the other outcome that leads to ARCHIVED is
        rejected, and a delivery should not become that spontaneously (Part 3, 3.4.3).
        """
        if self.dead_letter is not None:
            self._hand_over(entry, entry.octets, cause, None)
        ended = [*(entry.copies or {}).values()]
        if entry.delivery is not None:
            ended.append(entry.delivery)
        for delivery in ended:
            self._end(delivery, Accepted())
        self._archive(entry, cause)
        faults: list[Exception] = []
        for delivery in ended:
            if delivery.link.on_ended is not None:
                try:
                    delivery.link.on_ended(delivery)
                except Exception as fault:  # noqa: BLE001  (raised below, after the others)
                    faults.append(fault)
        if faults:
            raise faults[0]

    def _hand_over(self, entry: Entry, octets: bytes, cause: str, outcome: Rejected | None) -> None:
        if self.dead_letter is not None:
            self.dead_letter(
                DeadLetter(octets, cause, self.name, outcome, entry.arrival, entry.message_format)
            )

    def expire(self) -> int:
        """Archive every AVAILABLE message that has expired (Part 3, 3.2.1 and 3.3).

        An ACQUIRED message expires when it becomes available again. Publishing and taking call
        this first; call it if nothing else happens, see `next_expiry`.

        Returns:
            The number of messages that expired.

        Raises:
            StoreError: as `Delivery.settle`.
        """
        now = self.clock()
        if not self._expiry or self._expiry[0][0] >= now:
            return 0
        expired = 0
        with self._store.batch():
            while (entry := self._pop_due(now)) is not None:
                try:
                    self._archive_spontaneously(entry, "expired")
                except BaseException:
                    if entry.state is MessageState.AVAILABLE and entry.expires is not None:
                        self._time(entry, entry.expires)
                    raise
                expired += 1
        return expired

    def _gone(self) -> NodeError:
        return NodeError(f"the node {self.name!r} was deleted", RESOURCE_DELETED)
