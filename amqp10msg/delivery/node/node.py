"""The distribution node (Part 3, 3.3), its links and their deliveries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, suppress
from typing import Any, ClassVar, Literal, Protocol

import attrs

from amqp10msg.delivery.node.contents import (
    NO_HEADER,
    NOBODY,
    SEVERAL,
    Capacity,
    Contents,
    Counts,
    Cursor,
    Cursors,
    Entry,
    Memory,
    MemoryStore,
    NodeError,
    OutcomeError,
    Quarantined,
    Store,
    Stored,
    Waiting,
    priority_level,
)
from amqp10msg.delivery.node.deaths import DeadLetter
from amqp10msg.delivery.states import (
    Accepted,
    DeliveryState,
    MessageState,
    Modified,
    Rejected,
    Released,
    apply,
)
from amqp10msg.delivery.termini import (
    DeleteOnClose,
    DeleteOnNoLinks,
    DeleteOnNoLinksOrMessages,
    DeleteOnNoMessages,
    StdDistMode,
)
from amqp10msg.message import Message
from amqp10msg.sections import Header
from amqp10msg.sections.parts import scan
from amqp10msg.wire.errors import (
    PRECONDITION_FAILED,
    RESOURCE_DELETED,
    RESOURCE_LIMIT_EXCEEDED,
    DecodeError,
    EncodeError,
    expect,
    wrong_type,
)
from amqp10msg.wire.limits import UNLIMITED, Limits

Outcome = Accepted | Rejected | Released | Modified
LifetimePolicy = DeleteOnClose | DeleteOnNoLinks | DeleteOnNoMessages | DeleteOnNoLinksOrMessages

#: Bits of a delivery-tag for the deliveries of one millisecond of the clock.
_DELIVERIES_A_MILLISECOND = 20


def is_outcome(state: object) -> bool:
    """Whether a state is a terminal delivery state."""
    # The most frequent one need not be asked.
    return isinstance(state, Accepted) or (isinstance(state, DeliveryState) and state.is_outcome)


def _each(deliveries: Iterable[Delivery], do: Callable[[Delivery], object]) -> None:
    """Do something with each delivery, and raise the first fault after the others."""
    faults: list[Exception] = []
    for delivery in deliveries:
        try:
            do(delivery)
        except Exception as fault:  # noqa: BLE001  (raised below)
            faults.append(fault)
    if faults:
        raise faults[0]


class Filter(Protocol):
    """Decides which messages pass a link (Part 3, 3.5.1)."""

    def matches(self, message: Message) -> bool:
        """Whether a message passes; always the same answer for the same message."""


@attrs.define(eq=False, weakref_slot=False)
class Delivery:
    """The transfer of a message over a link; unsettled until it has an outcome.

    Attributes:
        link: the link.
        number: counts the node's deliveries from 1.
        tag: a delivery-tag of eight bytes that no other delivery of the node has, nor one before a
            restart, as long as the clock does not go back.
        octets: the encoded message to transfer: the message at the node with the header of this
            delivery (delivery-count, first-acquirer, remaining ttl) and without the delivery
            annotations of the previous hop. The bare message is byte for byte as it came.
        message_format: of the transfer that brought the message.
        state: the last delivery state at the receiver, terminal or not.
        outcome: the terminal state at the node, once it is settled there. It never changes again.
    """

    link: OutgoingLink
    number: int
    tag: bytes
    octets: bytes
    _entry: Entry
    state: Any = None
    outcome: Outcome | None = None

    @property
    def sequence(self) -> int:
        """The message's number at the node, the same for all its deliveries."""
        return self._entry.sequence

    @property
    def message_format(self) -> int:
        """The message-format of the transfer that brought the message."""
        return self._entry.message_format

    @property
    def settled(self) -> bool:
        """Whether the node has settled it."""
        return self.outcome is not None

    def message(self) -> Message:
        """Decode the message to transfer."""
        return Message.decode(self.octets, limits=UNLIMITED, message_format=self.message_format)

    def update(self, state: Any) -> None:
        """Record the delivery state at the receiver, terminal or not.

        The message stays ACQUIRED until the delivery is settled (Part 3, 3.3). Ignored if it is
        settled, or if the recorded state is an outcome, which never changes (Part 3, 3.4).

        Args:
            state: any delivery state, such as `Received` or `Accepted`.
        """
        if self.outcome is None and not is_outcome(self.state):
            self.state = state

    def settle(self, outcome: Outcome | None = None) -> Outcome:
        """Settle it: the outcome decides what happens to the message (Part 3, 3.3).

        A delivery may be settled already, because the message expired or the link was detached.
        Then nothing changes, and the existing outcome is returned.

        Args:
            outcome: if None, the terminal state at the receiver, else the default-outcome of the
                link.

        Returns:
            The outcome at the node.

        Raises:
            ValueError: that is not an outcome, or one of an extension.
            OutcomeError: the outcome would make the message exceed the limits of the node. The
                message is left as it was and the delivery unsettled.
            EncodeError: the annotations of the outcome cannot be encoded; likewise.
            StoreError: the store failed. The outcome stands and is not confirmed: see
                `DistributionNode.commit`.
        """
        return self.link.node._settle(self, outcome)

    def check(self, outcome: Outcome) -> None:
        """Raise what `settle` would raise for an outcome, apart from a StoreError.

        For several deliveries of which all are settled, or none.
        """
        if not self.settled and self._entry.state is not MessageState.ARCHIVED:
            self.link.node._applied(outcome, self._entry, self.link)


@attrs.define(eq=False, weakref_slot=False)
class IncomingLink:
    """A link that has the node as its target.

    Attributes:
        node: the node.
        name: the link's name.
        number: counts the node's links from 1.
        attached: whether it exists; `detach` ends it.
    """

    outgoing: ClassVar[Literal[False]] = False

    node: DistributionNode
    name: str
    number: int
    attached: bool = True

    def publish(
        self, message: Message | bytes, *, message_format: int | None = None, origin: object = None
    ) -> int:
        """Publish to the node, as `DistributionNode.publish`."""
        return self.node.publish(message, message_format=message_format, origin=origin)

    def detach(self) -> None:
        """End the link; the node may be due for deletion then. Detaching twice does nothing."""
        if self.attached:
            self.node._drop(self)


@attrs.define(eq=False, weakref_slot=False)
class OutgoingLink:
    """A link that has the node as its source.

    It exists as long as its terminus: keep it over a detach that does not close the link, and its
    messages are not delivered to others meanwhile.

    Attributes:
        node: the node.
        name: the link's name.
        number: counts the node's links from 1.
        mode: move or copy (Part 3, 3.5.2).
        filter: which messages pass; None for all.
        origin: the owner of the link, see `DistributionNode.attach`.
        default_outcome: of deliveries that have none when they are settled.
        on_ended: called with a delivery that the node settled by itself, because its message
            expired or the node was deleted, so that the peer can be told. It must not use the node.
        unsettled: the unsettled deliveries by number, oldest first.
        attached: whether it exists; `detach` ends it.
    """

    outgoing: ClassVar[Literal[True]] = True

    node: DistributionNode
    name: str
    number: int
    mode: StdDistMode
    filter: Filter | None
    origin: object
    default_outcome: Outcome
    on_ended: Callable[[Delivery], None] | None
    _cursor: Cursor = attrs.field(repr=False)
    unsettled: dict[int, Delivery] = attrs.field(factory=dict, repr=False)
    attached: bool = True

    def next(self, *, settled: bool = False) -> Delivery | None:
        """Take the next message for this link; None if there is none.

        The highest priority comes first, and the oldest message within a priority. In move mode the
        message becomes ACQUIRED, in copy mode its state does not change.

        Args:
            settled: settle it as accepted before it is sent, so that no message is ever delivered
                twice, and one may be lost.

        Raises:
            NodeError: the link is detached, or the node deleted.
            StoreError: as `Delivery.settle`.
        """
        node = self.node
        if node.deleted:
            raise node._gone()
        if not self.attached:
            raise NodeError(f"the link {self.name!r} is detached", RESOURCE_DELETED)
        if node._contents.first_expiry is not None:
            node.expire()
        entry = self._cursor.view.next(self._wants)
        if entry is None:
            return None
        delivery = node._deliver(self, entry)
        if settled:
            node._settle(delivery, Accepted())
        return delivery

    def detach(self) -> None:
        """End the link and its terminus.

        Unsettled deliveries get the outcome at the receiver, else the default-outcome (Part 3,
        3.3); released if that is refused, see `OutcomeError`. Detaching twice does nothing.

        Raises:
            StoreError: as `Delivery.settle`.
            Exception: the first one that `dead_letter` raised. Its deliveries stay unsettled and
                the link attached, and all others are settled: detach again.
        """
        if self.attached:
            with self.node.batch():
                _each(list(self.unsettled.values()), self.node._settle_at_the_end)
            self.node._drop(self)

    def _wants(self, entry: Entry) -> bool:
        """Whether a message that the view comes upon is for this link."""
        if self.mode is StdDistMode.MOVE:
            if entry.state is not MessageState.AVAILABLE:
                return False
        elif entry.expires is not None and entry.expires < self.node.clock():
            return False  # acquired, since otherwise it would be archived
        if entry.not_for is not None and self.number in entry.not_for:
            return False
        if self.filter is None:
            return True
        if self.origin is None:
            return self.filter.matches(entry.message())
        local: Any = self.filter
        return bool(local.matches(entry.message(), local=entry.origin == self.origin))


class DistributionNode:
    """A node that stores messages for distribution: AVAILABLE, ACQUIRED, ARCHIVED (Part 3, 3.3).

        node = DistributionNode("orders", clock=lambda: time.time_ns() // 1_000_000)
        node.publish(Message("an order"))
        link = node.attach("worker")
        delivery = link.next()
        delivery.settle(Accepted())

    A message is published AVAILABLE. A link in move mode acquires it; when its transfer is settled,
    accepted and rejected archive it, released and modified make it available again, in its old
    place. A link in copy mode gets every message once and leaves its state as it is, also where
    another link has acquired it. What modified and rejected change of the message they change in
    both modes.

    No call blocks, except on the store. Nothing happens without a call, and the same calls at the
    same times have the same results. A node is used by one thread at a time; several threads share
    it under one lock, which covers its links and deliveries. Asyncio needs none. The cost of
    publishing, taking and settling does not depend on the number of messages queued.

    Args:
        name: the node's name in the store and in errors.
        clock: returns milliseconds since the Unix epoch; `Properties.absolute_expiry_time` is
            compared with it.
        store: keeps durable messages. Its messages for this name are loaded; those that cannot be
            read are set aside, see `quarantined`.
        priorities: the number of distinct priorities, 1 to 256 (Part 3, 3.2.1).
        capacity: bounds on what it holds.
        memory: a bound on what this node and others hold together.
        default_outcome: of links that have none; released if None.
        expires: whether ttl and absolute-expiry-time end messages here; False for dead letters.
        lifetime: when the node is due for deletion, see `due`; None for never.
        accept_durable: accept durable messages although the store does not keep them. That breaks
            Part 3, 3.2.1, and is meant for tests.
        dead_letter: called with each message before it is archived without having been accepted. If
            it raises, the message is not archived. It may publish to a node that uses the same
            store: both changes are one commit.
        on_available: called when a message became available. It must not use the node.
        limits: what decoding a published message may cost. An outcome that would make a message
            exceed them is refused.

    Attributes:
        deleted: whether `delete` was called.

    Raises:
        StoreError: the store cannot be read.
        ValueError: `priorities` is out of range.
    """

    def __init__(
        self,
        name: str = "",
        *,
        clock: Callable[[], int],
        store: Store | None = None,
        priorities: int = 10,
        capacity: Capacity | None = None,
        memory: Memory | None = None,
        default_outcome: Outcome | None = None,
        expires: bool = True,
        lifetime: LifetimePolicy | None = None,
        accept_durable: bool = False,
        dead_letter: Callable[[DeadLetter], object] | None = None,
        on_available: Callable[[], object] | None = None,
        limits: Limits | None = None,
    ) -> None:
        priority_level(0, priorities)  # refuses what is out of range
        self.name = name
        self.clock = clock
        self.priorities = priorities
        self.capacity = capacity if capacity is not None else Capacity()
        self.default_outcome: Outcome = default_outcome or Released()
        self.expires = expires
        self.lifetime = lifetime
        self.dead_letter = dead_letter
        self.on_available = on_available
        self.limits = limits
        self._store = MemoryStore() if store is None else store
        self._takes_durable = self._store.durable or accept_durable
        self._contents = Contents(priorities, memory or Memory())
        self._cursors = Cursors(self._contents.levels)
        self._outgoing: dict[int, OutgoingLink] = {}
        self._incoming: dict[int, IncomingLink] = {}
        self._creator: OutgoingLink | IncomingLink | None = None
        self._link_number = 0
        self.deleted = False
        self._delivery_number = 0
        self._first_tag = clock() << _DELIVERIES_A_MILLISECOND
        self._load()

    def __repr__(self) -> str:
        return (
            f"<DistributionNode {self.name!r}: {self.counts.available} available, "
            f"{self.counts.acquired} acquired>"
        )

    @property
    def links(self) -> tuple[OutgoingLink | IncomingLink, ...]:
        """The links that have this node as source or target."""
        return (*self._outgoing.values(), *self._incoming.values())

    # What is there.

    def __len__(self) -> int:
        """Return the number of messages that are AVAILABLE or ACQUIRED."""
        return len(self._contents.entries)

    @property
    def counts(self) -> Counts:
        """The number of messages, by state."""
        return self._contents.counts

    @property
    def oldest(self) -> Waiting | None:
        """The message that arrived first of those that are still here; None if there are none."""
        entry = self._contents.oldest
        return Waiting.of(entry) if entry is not None else None

    def state_of(self, sequence: int) -> MessageState | None:
        """The state of a message by its number; None if no message has had it yet."""
        entry = self._contents.entries.get(sequence)
        if entry is not None:
            return entry.state
        return MessageState.ARCHIVED if 1 <= sequence <= self._contents.last else None

    def messages(self) -> Iterator[Waiting]:
        """Yield the messages that are AVAILABLE or ACQUIRED, by number.

        For inspection: the cost grows with the number of messages.
        """
        for sequence in sorted(self._contents.entries):
            yield Waiting.of(self._contents.entries[sequence])

    # Publishing.

    def publish(
        self,
        message: Message | bytes,
        *,
        message_format: int | None = None,
        origin: object = None,
        always: bool = False,
    ) -> int:
        """Accept a message. When this returns outside of a `batch`, a durable one is in the store.

        Args:
            message: a Message or the bytes of one; the bare message is kept as it is.
            message_format: of the transfer that brought it, 0 to 2^32 - 1; if None, the Message's
                own, and 0 for bytes.
            origin: where it comes from, such as a connection; see `attach`.
            always: whatever it exceeds. For a dead letter, which is lost if it is refused.

        Returns:
            The message's number at this node, counted from 1; after a restart, from the highest one
            that is in the store.

        Raises:
            NodeError: ``amqp:resource-limit-exceeded``: it exceeds the capacity or the memory;
                ``amqp:precondition-failed``: it is durable and the store is not;
                ``amqp:resource-deleted``: the node was deleted. Its `error` is for the sender.
            DecodeError: the bytes are not a message.
            EncodeError: the Message cannot be encoded.
            TypeError: that is neither a Message nor bytes.
            StoreError: it could not be stored, and is not at the node.
        """
        if self.deleted:
            raise self._gone()
        given: object = message
        if isinstance(given, Message):
            octets = given.encode()
            if message_format is None:
                message_format = given.message_format
        elif isinstance(given, (bytes, bytearray, memoryview)):
            octets = bytes(given)
        else:
            how = "make one, Message('text')" if isinstance(given, str) else ""
            raise wrong_type("publish", "a Message or the bytes of one", given, how)
        self.expire()
        if not always:
            excess = self._contents.excess(self.capacity, len(octets))
            if excess:
                raise NodeError(f"the node {self.name!r} {excess}", RESOURCE_LIMIT_EXCEEDED)
        stored = Stored(self._contents.last + 1, self.clock(), octets, message_format or 0)
        entry = Entry.of(stored, self.priorities, limits=self.limits, expires=self.expires)
        entry.origin = origin
        if entry.header.durable:
            if not self._takes_durable:
                raise NodeError(
                    f"the node {self.name!r} has no durable store, and the message is durable",
                    PRECONDITION_FAILED,
                )
            if self._store.durable:
                self._store.put(self.name, stored)
                try:
                    self._store.commit()
                except BaseException:
                    self._store.remove(self.name, stored.sequence)
                    raise
                entry.stored = True
        self._contents.insert(entry)
        if self.on_available is not None:
            self.on_available()
        return entry.sequence

    def withdraw(self, sequence: int) -> bool:
        """Remove a message that no link has taken yet, as if it had not been published.

        Args:
            sequence: its number, as `publish` returned it.

        Returns:
            True if it was removed, False if it was delivered before or is gone.

        Raises:
            StoreError: as `Delivery.settle`.
        """
        entry = self._contents.entries.get(sequence)
        if entry is None or entry.state is not MessageState.AVAILABLE or entry.copies:
            return False
        self._archive(entry, "withdrawn")
        return True

    def _load(self) -> None:
        unreadable = []
        for stored in self._store.load(self.name):
            try:
                entry = Entry.of(stored, self.priorities, limits=self.limits, expires=self.expires)
            except (ValueError, TypeError) as error:  # such as DecodeError
                unreadable.append((stored, str(error)))
                continue
            entry.stored = True
            entry.acquirer = SEVERAL  # it may have been acquired before the restart
            self._contents.insert(entry)
        for stored, reason in unreadable:
            self._store.quarantine(self.name, stored, reason)
        for quarantined in self.quarantined:
            self._contents.last = max(self._contents.last, quarantined.stored.sequence)

    @property
    def quarantined(self) -> list[Quarantined]:
        """The stored messages of this node that could not be read, each with the reason.

        They are not delivered. Their bytes stay in the store until `Store.discard`.

        Raises:
            StoreError: the store cannot be read.
        """
        return list(self._store.quarantined(self.name))

    # Links.

    def attach(
        self,
        name: str = "",
        *,
        mode: StdDistMode | str = StdDistMode.MOVE,
        filter: Filter | None = None,
        origin: object = None,
        default_outcome: Outcome | None = None,
        on_ended: Callable[[Delivery], None] | None = None,
        creates: bool = False,
    ) -> OutgoingLink:
        """Attach a link that has this node as its source.

        Args:
            name: the link's name.
            mode: ``move`` or ``copy`` (Part 3, 3.5.2).
            filter: which messages pass, such as a filter set; None for all.
            origin: the owner of the link. If it is given, the filter's ``matches`` is called with
                ``local=``, whether the message was published with the same origin: for no-local
                filters.
            default_outcome: of deliveries that have none when they are settled, also because the
                link is detached; the node's own if None.
            on_ended: see `OutgoingLink`.
            creates: whether the node was created for this link (Part 3, 3.5.9).

        Raises:
            NodeError: the node was deleted.
            ValueError: that is not a mode, or not an outcome.
            TypeError: the filter has no method ``matches``, or the name is not text.
        """
        if self.deleted:
            raise self._gone()
        if default_outcome is not None and not isinstance(default_outcome, Outcome):
            raise ValueError(f"the default-outcome must be an outcome, not {default_outcome!r}")
        if filter is not None and not callable(getattr(filter, "matches", None)):
            text = isinstance(filter, str)
            how = f"Selector({filter!r:.40}) of amqp10msg.delivery.filters" if text else "FilterSet"
            raise wrong_type("filter", "an object with a method matches", filter, how)
        expect(name, str, "the name of a link", "a str")
        try:
            mode = StdDistMode(mode)
        except ValueError:
            modes = " or ".join(repr(str(one)) for one in StdDistMode)
            raise ValueError(f"a distribution mode is {modes}, not {mode!r}") from None
        self._link_number = number = self._link_number + 1
        private = filter is not None or mode is StdDistMode.COPY
        link = self._outgoing[number] = OutgoingLink(
            node=self,
            name=name,
            number=number,
            mode=mode,
            filter=filter,
            origin=origin,
            default_outcome=default_outcome or self.default_outcome,
            on_ended=on_ended,
            cursor=self._cursors.add(number, private=private),
        )
        if creates:
            self._creator = link
        return link

    def attach_incoming(self, name: str = "", *, creates: bool = False) -> IncomingLink:
        """Attach a link that has this node as its target: it counts for the lifetime of the node.

        Args:
            name: the link's name.
            creates: whether the node was created for this link (Part 3, 3.5.9).

        Raises:
            NodeError: the node was deleted.
        """
        if self.deleted:
            raise self._gone()
        self._link_number = number = self._link_number + 1
        link = self._incoming[number] = IncomingLink(self, name, number)
        if creates:
            self._creator = link
        return link

    def _drop(self, link: OutgoingLink | IncomingLink) -> None:
        """Remove a link, and what was kept because of it."""
        link.attached = False
        if isinstance(link, OutgoingLink):
            # Of messages that are gone, where the node is deleted.
            self._contents.memory.held -= sum(len(one.octets) for one in link.unsettled.values())
            self._outgoing.pop(link.number, None)
            self._cursors.drop(link._cursor)
        else:
            self._incoming.pop(link.number, None)

    # Deliveries.

    def _deliver(self, link: OutgoingLink, entry: Entry) -> Delivery:
        held = entry.header
        ttl = held.ttl
        if ttl is not None:  # a clock that was set back leaves all of it
            ttl = max(ttl - max(self.clock() - entry.arrival, 0), 0)
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
        self._delivery_number = number = self._delivery_number + 1
        tag = ((self._first_tag + number) % (1 << 64)).to_bytes(8, "big")
        delivery = Delivery(link, number, tag, octets, entry)
        link.unsettled[delivery.number] = delivery
        self._contents.memory.held += len(octets)
        if link.mode is StdDistMode.MOVE:
            entry.state = MessageState.ACQUIRED
            entry.acquirer = link.number if header.first_acquirer else SEVERAL
            entry.delivery = delivery
            self._contents.acquired += 1
        else:
            self._cursors.bar(link._cursor, entry)
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
        if isinstance(outcome, Accepted):
            # The most frequent outcome, which leaves the message as it is and needs no batch.
            self._end(delivery, outcome)
            if link.mode is StdDistMode.MOVE and entry.state is not MessageState.ARCHIVED:
                self._archive(entry, "accepted")
        elif not is_outcome(outcome):
            raise ValueError(f"a delivery is settled with an outcome, which {outcome!r} is not")
        elif entry.state is MessageState.ARCHIVED:
            self._end(delivery, outcome)  # a copy of what is gone
        else:
            state, octets = self._applied(outcome, entry, link)
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
                self._cursors.bar(link._cursor, entry)
            elif not move:
                self._cursors.unbar(link._cursor, entry)
        if move:
            self._contents.acquired -= 1
            entry.state = MessageState.AVAILABLE
            if entry.expires is not None:
                if not entry.timed:
                    self._contents.time(entry, entry.expires)  # it expired while it was acquired
                if entry.expires < self.clock():
                    self.expire()
                    return
        self._cursors.offer_again(entry, None if move or changed else link._cursor)
        if self.on_available is not None:
            self.on_available()

    def _settle_at_the_end(self, delivery: Delivery) -> None:
        """Settle a delivery whose link ends, as released if other outcomes are refused."""
        for outcome in (None, delivery.link.default_outcome):
            with suppress(OutcomeError, EncodeError):
                self._settle(delivery, outcome)
                return
        self._settle(delivery, Released())

    def _end(self, delivery: Delivery, outcome: Outcome) -> None:
        delivery.outcome = outcome
        link, entry = delivery.link, delivery._entry
        if link.unsettled.pop(delivery.number, None) is not None and link.attached:
            self._contents.memory.held -= len(delivery.octets)
        if entry.delivery is delivery:
            entry.delivery = None
        elif entry.copies is not None:
            entry.copies.pop(link.number, None)

    def _change(self, entry: Entry, octets: bytes) -> None:
        self._contents.change(entry, octets)
        entry.header = scan(octets, limits=UNLIMITED).section("header") or NO_HEADER
        if entry.stored:
            self._store.put(
                self.name, Stored(entry.sequence, entry.arrival, entry.octets, entry.message_format)
            )

    def _archive(self, entry: Entry, cause: str) -> None:
        # The store comes last: if it fails, the memory is right.
        self._contents.remove(entry, cause)
        self._cursors.forget(entry)
        if entry.stored:
            self._store.remove(self.name, entry.sequence)
            self._store.commit()

    def _archive_spontaneously(self, entry: Entry, cause: str) -> None:
        """Archive a message without an outcome of the receiver (Part 3, 3.3).

        Its deliveries, if any, are settled as accepted: the other outcome that leads to ARCHIVED is
        rejected, and a delivery should not become that spontaneously (Part 3, 3.4.3).
        """
        self._hand_over(entry, entry.octets, cause, None)
        held = (*(entry.copies or {}).values(), entry.delivery)
        ended = [delivery for delivery in held if delivery is not None]
        for delivery in ended:
            self._end(delivery, Accepted())
        self._archive(entry, cause)
        _each(ended, lambda one: one.link.on_ended and one.link.on_ended(one))

    def _hand_over(self, entry: Entry, octets: bytes, cause: str, outcome: Rejected | None) -> None:
        if self.dead_letter is None:
            return
        told = (octets, cause, self.name, outcome, entry.arrival, entry.message_format)
        self.dead_letter(DeadLetter(*told, self.clock()))

    # Expiry.

    @property
    def next_expiry(self) -> int | None:
        """When `expire` is due, in milliseconds of the clock; None for never.

        It may be too early, because the message was archived since, but never too late.
        """
        first = self._contents.first_expiry
        return first + 1 if first is not None else None

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
        first = self._contents.first_expiry
        if first is None or first >= now:
            return 0
        expired = 0
        with self._store.batch():
            while (entry := self._contents.pop_due(now)) is not None:
                try:
                    self._archive_spontaneously(entry, "expired")
                except BaseException:
                    if entry.state is MessageState.AVAILABLE and entry.expires is not None:
                        self._contents.time(entry, entry.expires)
                    raise
                expired += 1
        return expired

    # Its end, and the store.

    @property
    def due(self) -> bool:
        """Whether the lifetime policy asks for `delete` now (Part 3, 3.5.10 to 3.5.13).

        A policy that looks at the links waits for the first one, and one that looks at the link
        that caused the creation for that one.
        """
        empty = not self._contents.entries
        closed = self._creator is not None and not self._creator.attached
        unlinked = self._link_number > 0 and not self._outgoing and not self._incoming
        over: dict[type, bool] = {
            DeleteOnClose: closed,
            DeleteOnNoLinks: unlinked,
            DeleteOnNoMessages: closed and empty,
            DeleteOnNoLinksOrMessages: unlinked and empty,
        }
        return over.get(type(self.lifetime), False)

    def delete(self) -> None:
        """Delete the node: archive its messages, detach its links, and refuse all later calls.

        Unsettled deliveries are settled, see `OutgoingLink.on_ended`. Deleting twice does nothing.

        Raises:
            StoreError: as `Delivery.settle`.
        """
        with self._store.batch():
            for entry in list(self._contents.entries.values()):
                self._archive_spontaneously(entry, "deleted")
        self.deleted = True
        for link in self.links:
            self._drop(link)

    def batch(self) -> AbstractContextManager[None]:
        """Return a context manager that commits to the store once, at its end.

        What was published and settled in it is confirmed when it ends without a StoreError, for
        this node and for others on the same store. Batches nest.
        """
        return self._store.batch()

    def commit(self) -> None:
        """Commit what is pending after a StoreError.

        Raises:
            StoreError: it is still pending.
        """
        self._store.commit()

    def _gone(self) -> NodeError:
        return NodeError(f"the node {self.name!r} was deleted", RESOURCE_DELETED)
