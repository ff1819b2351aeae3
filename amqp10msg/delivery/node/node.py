"""The distribution node (Part 3, 3.3), its links and their deliveries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, suppress
from typing import Any, ClassVar, Literal, Protocol

import attrs

from amqp10msg.delivery.node.contents import (
    HEADER_OF_DEFAULTS,
    NO_ACQUIRER,
    SEVERAL_ACQUIRERS,
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

#: Number of low bits of a delivery-tag that count deliveries. The higher bits are the time in ms at
#: which the node was created. After a restart, tags are unique if the node had created fewer than
#: 2^20 deliveries per ms.
_DELIVERY_COUNTER_BITS = 20


def is_outcome(state: object) -> bool:
    """Whether an object is an outcome: a terminal delivery state."""
    # Fast path for the most frequent outcome.
    return isinstance(state, Accepted) or (isinstance(state, DeliveryState) and state.is_outcome)


def _call_for_each(deliveries: Iterable[Delivery], function: Callable[[Delivery], object]) -> None:
    """Call a function with every delivery; then raise the first exception, if any."""
    errors: list[Exception] = []
    for delivery in deliveries:
        try:
            function(delivery)
        except Exception as error:  # noqa: BLE001  (raised below)
            errors.append(error)
    if errors:
        raise errors[0]


class Filter(Protocol):
    """Decides which messages a link delivers (Part 3, 3.5.1)."""

    def matches(self, message: Message) -> bool:
        """Whether a message passes. The result for the same message must not change."""


@attrs.define(eq=False, weakref_slot=False)
class Delivery:
    """The delivery of a message on a link, which is unsettled until it has an outcome.

    Attributes:
        link: the link.
        number: the number of the delivery at the node, from 1.
        tag: the delivery-tag of eight bytes. It is unique at the node, also after a restart as long
            as the clock does not go back.
        octets: the encoded message to transfer: the message at the node with the header of this
            delivery (delivery-count, first-acquirer, remaining ttl) and without the delivery
            annotations of the previous hop. The bytes of the bare message are unchanged.
        message_format: the message-format with which the message was published.
        state: the last delivery state at the receiver, terminal or not.
        outcome: the final outcome at the node; None until the delivery is settled.
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
        """The sequence number of the message at the node, the same for all its deliveries."""
        return self._entry.sequence

    @property
    def message_format(self) -> int:
        """The message-format with which the message was published."""
        return self._entry.message_format

    @property
    def settled(self) -> bool:
        """Whether the node has settled the delivery."""
        return self.outcome is not None

    def message(self) -> Message:
        """Decode `octets`, the message to transfer."""
        return Message.decode(self.octets, limits=UNLIMITED, message_format=self.message_format)

    def update(self, state: Any) -> None:
        """Record the delivery state at the receiver, terminal or not.

        The message stays ACQUIRED until the delivery is settled (Part 3, 3.3). A no-op if the
        delivery is settled, or if the recorded state is an outcome, which is final (Part 3, 3.4).

        Args:
            state: any delivery state, such as `Received` or `Accepted`.
        """
        if self.outcome is None and not is_outcome(self.state):
            self.state = state

    def settle(self, outcome: Outcome | None = None) -> Outcome:
        """Settle the delivery; the outcome decides the message's next state (Part 3, 3.3).

        If the delivery is settled already, because the message expired or the link was detached,
        this is a no-op that returns the existing outcome.

        Args:
            outcome: the outcome; None for the receiver's outcome or, if the receiver has not
                chosen an outcome, the default-outcome of the link.

        Returns:
            The outcome at the node.

        Raises:
            ValueError: `outcome` is not an outcome, or an extension defines it.
            OutcomeError: the outcome would make the message exceed the limits of the node. The
                message is unchanged and the delivery unsettled.
            EncodeError: the annotations of the outcome cannot be encoded. The message is unchanged
                and the delivery unsettled.
            StoreError: the store failed. The outcome is applied but not confirmed: see
                `DistributionNode.commit`.
        """
        return self.link.node._settle(self, outcome)

    def check(self, outcome: Outcome) -> None:
        """Raise the exception that `settle` would raise for an outcome, except a StoreError.

        Use it before settling several deliveries, so that either all are settled or none is.
        """
        if not self.settled and self._entry.state is not MessageState.ARCHIVED:
            self.link.node._effect_of(outcome, self._entry, self.link)


@attrs.define(eq=False, weakref_slot=False)
class IncomingLink:
    """A link whose target is the node.

    Attributes:
        node: the node.
        name: the name of the link.
        number: the number of the link at the node, from 1.
        attached: True until `detach`.
    """

    outgoing: ClassVar[Literal[False]] = False

    node: DistributionNode
    name: str
    number: int
    attached: bool = True

    def publish(
        self, message: Message | bytes, *, message_format: int | None = None, origin: object = None
    ) -> int:
        """Publish a message to the node; see `DistributionNode.publish`."""
        return self.node.publish(message, message_format=message_format, origin=origin)

    def detach(self) -> None:
        """End the link. The node may be `due` afterwards. A no-op after the first call."""
        if self.attached:
            self.node._remove_link(self)


@attrs.define(eq=False, weakref_slot=False)
class OutgoingLink:
    """A link whose source is the node.

    The object represents the terminus. If the peer detaches without closing the link, keep the
    object, and do not call `detach`: messages that it acquired are then not delivered to other
    links.

    Attributes:
        node: the node.
        name: the name of the link.
        number: the number of the link at the node, from 1.
        mode: move or copy (Part 3, 3.5.2).
        filter: decides which messages the link delivers; None for all messages.
        origin: the owner of the link; see `DistributionNode.attach`.
        default_outcome: the outcome of deliveries that are settled without an outcome.
        on_ended: called with a delivery that the node has settled because the message expired or
            the node was deleted, to inform the peer. It must not use the node.
        unsettled: the unsettled deliveries by number, oldest first.
        attached: True until `detach`.
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
        """Return a delivery of the next message for this link; None if no message is available.

        The order is the highest priority first, and the oldest message first within a priority. In
        move mode the message becomes ACQUIRED; in copy mode its state does not change.

        Args:
            settled: whether to settle the delivery as accepted before it is sent (at most once).

        Raises:
            NodeError: the link is detached, or the node deleted.
            StoreError: see `Delivery.settle`.
        """
        node = self.node
        if node.deleted:
            raise node._deleted_error()
        if not self.attached:
            raise NodeError(f"the link {self.name!r} is detached", RESOURCE_DELETED)
        if node._contents.first_expiry is not None:
            node.expire()
        entry = self._cursor.view.next(self._matches)
        if entry is None:
            return None
        delivery = node._deliver(self, entry)
        if settled:
            node._settle(delivery, Accepted())
        return delivery

    def detach(self) -> None:
        """End the link and its terminus; a no-op after the first call.

        Unsettled deliveries are settled with the receiver's outcome or, if it has none, the
        default-outcome (Part 3, 3.3). If the node refuses these (`OutcomeError`), the deliveries
        are released.

        Raises:
            StoreError: see `Delivery.settle`.
            Exception: the first exception of `dead_letter`. The deliveries for which it raised stay
                unsettled, and the link attached: detach again. All other deliveries are settled.
        """
        if self.attached:
            with self.node.batch():
                _call_for_each(list(self.unsettled.values()), self.node._settle_at_detach)
            self.node._remove_link(self)

    def _matches(self, entry: Entry) -> bool:
        """Whether to deliver a message on this link."""
        if self.mode is StdDistMode.MOVE:
            if entry.state is not MessageState.AVAILABLE:
                return False
        elif entry.expires is not None and entry.expires < self.node.clock():
            return False  # expired, but not archived because another link has acquired it
        if entry.barred_links is not None and self.number in entry.barred_links:
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

    A published message is AVAILABLE. A link in move mode acquires it. When the delivery is settled,
    the outcomes accepted and rejected archive the message; released and modified make it available
    again, at its old position. A link in copy mode gets every message once, also an acquired one,
    and does not change its state. Modified and rejected change the content of the message in both
    modes.

    Only calls of the store can block. A node is idle between calls, and the same calls at the same
    times have the same results. A node is not thread-safe: several threads must share one lock for
    the node, its links and their deliveries; asyncio needs no lock. The cost of publishing,
    delivering and settling does not depend on the number of queued messages.

    Args:
        name: the name of the node, for the store and error messages.
        clock: returns ms since the Unix epoch; `Properties.absolute_expiry_time` is compared with
            it.
        store: stores durable messages. The node loads its messages from the store, and moves
            unreadable messages to `quarantined`.
        priorities: the number of distinct priorities, 1 to 256 (Part 3, 3.2.1).
        capacity: limits of the node.
        memory: a limit that several nodes share.
        default_outcome: the default-outcome of links that do not set one; None for released.
        expires: whether ttl and absolute-expiry-time expire messages; False for dead letters.
        lifetime: when the node is `due` for deletion; None for never.
        accept_durable: whether to accept durable messages although the store does not keep them.
            This violates Part 3, 3.2.1, and is meant for tests.
        dead_letter: called with each message before it is archived without having been accepted. If
            it raises, the message is not archived. If it publishes to a node with the same store,
            both changes are one commit.
        on_available: called when a message becomes available. It must not use the node.
        limits: the limits for decoding a published message. The node refuses an outcome that would
            make a message exceed them.

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
        priority_level(0, priorities)  # raises ValueError if `priorities` is out of range
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
        self._accepts_durable = self._store.durable or accept_durable
        self._contents = Contents(priorities, memory or Memory())
        self._cursors = Cursors(self._contents.levels)
        self._outgoing: dict[int, OutgoingLink] = {}
        self._incoming: dict[int, IncomingLink] = {}
        self._creating_link: OutgoingLink | IncomingLink | None = None
        self._link_number = 0
        self.deleted = False
        self._delivery_number = 0
        self._tag_base = clock() << _DELIVERY_COUNTER_BITS
        self._load_stored_messages()

    def __repr__(self) -> str:
        return (
            f"<DistributionNode {self.name!r}: {self.counts.available} available, "
            f"{self.counts.acquired} acquired>"
        )

    @property
    def links(self) -> tuple[OutgoingLink | IncomingLink, ...]:
        """The links that have this node as source or target."""
        return (*self._outgoing.values(), *self._incoming.values())

    # Inspection.

    def __len__(self) -> int:
        """Return the number of messages that are AVAILABLE or ACQUIRED."""
        return len(self._contents.entries)

    @property
    def counts(self) -> Counts:
        """The number of messages, by state."""
        return self._contents.counts

    @property
    def oldest(self) -> Waiting | None:
        """The AVAILABLE or ACQUIRED message that was published first; None for an empty node."""
        entry = self._contents.oldest
        return Waiting.of(entry) if entry is not None else None

    def state_of(self, sequence: int) -> MessageState | None:
        """Return the state of a message by sequence number; None for an unused number."""
        entry = self._contents.entries.get(sequence)
        if entry is not None:
            return entry.state
        return MessageState.ARCHIVED if 1 <= sequence <= self._contents.last_sequence else None

    def messages(self) -> Iterator[Waiting]:
        """Yield the AVAILABLE and ACQUIRED messages by sequence number.

        The cost grows with the number of messages.
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
        """Publish a message. A durable message is in the store on return, except in a `batch`.

        Args:
            message: a Message, or an encoded one; the bytes of the bare message are kept.
            message_format: the message-format of the transfer, 0 to 2^32 - 1. None for the
                message-format of the Message, and 0 for bytes.
            origin: the publisher, such as a connection; see `attach`.
            always: whether to ignore the limits, for a dead letter that would be lost otherwise.

        Returns:
            The sequence number of the message at this node, from 1. After a restart, numbers
            continue after the highest one in the store.

        Raises:
            NodeError: ``amqp:resource-limit-exceeded``: the message exceeds the capacity or the
                memory; ``amqp:precondition-failed``: it is durable and the store is not;
                ``amqp:resource-deleted``: the node was deleted. `NodeError.error` is the error for
                the sender.
            DecodeError: the bytes are not a valid message.
            EncodeError: the Message cannot be encoded.
            TypeError: `message` is neither a Message nor bytes.
            StoreError: the message could not be stored, and was not published.
        """
        if self.deleted:
            raise self._deleted_error()
        untyped: object = message
        if isinstance(untyped, Message):
            octets = untyped.encode()
            if message_format is None:
                message_format = untyped.message_format
        elif isinstance(untyped, (bytes, bytearray, memoryview)):
            octets = bytes(untyped)
        else:
            hint = "make one, Message('text')" if isinstance(untyped, str) else ""
            raise wrong_type("publish", "a Message or the bytes of one", untyped, hint)
        self.expire()
        if not always:
            excess = self._contents.excess(self.capacity, len(octets))
            if excess:
                raise NodeError(f"the node {self.name!r} {excess}", RESOURCE_LIMIT_EXCEEDED)
        stored = Stored(self._contents.last_sequence + 1, self.clock(), octets, message_format or 0)
        entry = Entry.of(stored, self.priorities, limits=self.limits, expires=self.expires)
        entry.origin = origin
        if entry.header.durable:
            if not self._accepts_durable:
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
        """Remove an undelivered message, as if it had not been published.

        Args:
            sequence: the sequence number that `publish` returned.

        Returns:
            True if the message was removed; False if it was delivered or is archived.

        Raises:
            StoreError: see `Delivery.settle`.
        """
        entry = self._contents.entries.get(sequence)
        if entry is None or entry.state is not MessageState.AVAILABLE or entry.copies:
            return False
        self._archive(entry, "withdrawn")
        return True

    def _load_stored_messages(self) -> None:
        """Load the messages from the store, and quarantine unreadable messages."""
        unreadable = []
        for stored in self._store.load(self.name):
            try:
                entry = Entry.of(stored, self.priorities, limits=self.limits, expires=self.expires)
            except (ValueError, TypeError) as error:  # DecodeError is a ValueError
                unreadable.append((stored, str(error)))
                continue
            entry.stored = True
            entry.acquirer = SEVERAL_ACQUIRERS  # links may have acquired it before the restart
            self._contents.insert(entry)
        for stored, reason in unreadable:
            self._store.quarantine(self.name, stored, reason)
        for quarantined in self.quarantined:
            self._contents.last_sequence = max(
                self._contents.last_sequence, quarantined.stored.sequence
            )

    @property
    def quarantined(self) -> list[Quarantined]:
        """The unreadable stored messages of this node, each with the reason.

        They are not delivered, and stay in the store until `Store.discard`.

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
        """Attach a link whose source is this node.

        Args:
            name: the name of the link.
            mode: ``move`` or ``copy`` (Part 3, 3.5.2).
            filter: decides which messages pass, such as a filter set; None for all messages.
            origin: the owner of the link. If it is not None, the filter's ``matches`` gets the
                keyword ``local``, for no-local filters: whether the message was published with an
                equal origin.
            default_outcome: the outcome of deliveries that are settled without one, including at
                the detach of the link; None for the node's default-outcome.
            on_ended: see `OutgoingLink`.
            creates: whether the node was created for this link (Part 3, 3.5.9).

        Raises:
            NodeError: the node was deleted.
            ValueError: the mode or the default-outcome is invalid.
            TypeError: the filter has no method ``matches``, or the name is not a str.
        """
        if self.deleted:
            raise self._deleted_error()
        if default_outcome is not None and not isinstance(default_outcome, Outcome):
            raise ValueError(f"the default-outcome must be an outcome, got {default_outcome!r}")
        if filter is not None and not callable(getattr(filter, "matches", None)):
            is_text = isinstance(filter, str)
            hint = "FilterSet"
            if is_text:
                hint = f"Selector({filter!r:.40}) of amqp10msg.delivery.filters"
            raise wrong_type("filter", "an object with a method matches", filter, hint)
        expect(name, str, "the name of a link", "a str")
        try:
            mode = StdDistMode(mode)
        except ValueError:
            modes = " or ".join(repr(str(member)) for member in StdDistMode)
            raise ValueError(f"a distribution mode must be {modes}, got {mode!r}") from None
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
            self._creating_link = link
        return link

    def attach_incoming(self, name: str = "", *, creates: bool = False) -> IncomingLink:
        """Attach a link whose target is this node, so that lifetime policies count it (see `due`).

        Args:
            name: the name of the link.
            creates: whether the node was created for this link (Part 3, 3.5.9).

        Raises:
            NodeError: the node was deleted.
        """
        if self.deleted:
            raise self._deleted_error()
        self._link_number = number = self._link_number + 1
        link = self._incoming[number] = IncomingLink(self, name, number)
        if creates:
            self._creating_link = link
        return link

    def _remove_link(self, link: OutgoingLink | IncomingLink) -> None:
        """Remove a link, its cursor, and the memory of its unsettled deliveries."""
        link.attached = False
        if isinstance(link, OutgoingLink):
            # After `delete`, there may be unsettled copies of messages that were archived earlier.
            unsettled = link.unsettled.values()
            self._contents.memory.message_bytes -= sum(
                len(delivery.octets) for delivery in unsettled
            )
            self._outgoing.pop(link.number, None)
            self._cursors.drop(link._cursor)
        else:
            self._incoming.pop(link.number, None)

    # Deliveries.

    def _deliver(self, link: OutgoingLink, entry: Entry) -> Delivery:
        """Create a delivery of a message on a link; in move mode, acquire the message."""
        stored = entry.header
        ttl = stored.ttl
        if ttl is not None:
            # The remaining ttl (Part 3, 3.2.1). `max`: the clock may have been set back.
            ttl = max(ttl - max(self.clock() - entry.arrival, 0), 0)
        header = Header(
            stored.durable,
            stored.priority,
            ttl,
            entry.acquirer in {NO_ACQUIRER, link.number},
            stored.delivery_count,
        )
        octets = scan(entry.octets, limits=UNLIMITED).replace(
            header=header, delivery_annotations=None
        )
        self._delivery_number = number = self._delivery_number + 1
        tag = ((self._tag_base + number) % (1 << 64)).to_bytes(8, "big")
        delivery = Delivery(link, number, tag, octets, entry)
        link.unsettled[delivery.number] = delivery
        self._contents.memory.message_bytes += len(octets)
        if link.mode is StdDistMode.MOVE:
            entry.state = MessageState.ACQUIRED
            entry.acquirer = link.number if header.first_acquirer else SEVERAL_ACQUIRERS
            entry.delivery = delivery
            self._contents.acquired += 1
        else:
            self._cursors.bar(link._cursor, entry)
            if entry.copies is None:
                entry.copies = {}
            entry.copies[link.number] = delivery
        return delivery

    def _settle(self, delivery: Delivery, outcome: Outcome | None) -> Outcome:
        """Settle a delivery; return its outcome. See `Delivery.settle`."""
        if delivery.outcome is not None:
            return delivery.outcome
        link, entry = delivery.link, delivery._entry
        if outcome is None:
            outcome = delivery.state if is_outcome(delivery.state) else link.default_outcome
        if isinstance(outcome, Accepted):
            # Fast path: this outcome does not change the message, and needs no batch.
            self._mark_settled(delivery, outcome)
            if link.mode is StdDistMode.MOVE and entry.state is not MessageState.ARCHIVED:
                self._archive(entry, "accepted")
        elif not is_outcome(outcome):
            raise ValueError(f"a delivery must be settled with an outcome, got {outcome!r}")
        elif entry.state is MessageState.ARCHIVED:
            self._mark_settled(delivery, outcome)  # a copy of a message that is already archived
        else:
            state, octets = self._effect_of(outcome, entry, link)
            with self._store.batch():
                self._apply_effect(delivery, outcome, state, octets)
        return outcome

    def _effect_of(
        self, outcome: Outcome, entry: Entry, link: OutgoingLink
    ) -> tuple[MessageState, bytes]:
        """Return the state and bytes of a message after an outcome; OutcomeError above a limit."""
        state, octets = apply(outcome, entry.octets, limits=UNLIMITED)
        archives = state is MessageState.ARCHIVED
        if octets is entry.octets or (
            archives and self.dead_letter is None and link.mode is StdDistMode.MOVE
        ):
            return state, octets
        try:
            Message.decode(octets, limits=self.limits)
        except DecodeError as error:
            if archives:
                return state, entry.octets  # archive the message without counting the rejection
            raise OutcomeError(
                f"the node {self.name!r} refuses the outcome {type(outcome).__name__.lower()}, "
                f"which would make the message unreadable: {error}",
                error.condition,
            ) from error
        return state, octets

    def _apply_effect(
        self, delivery: Delivery, outcome: Outcome, state: MessageState, octets: bytes
    ) -> None:
        """Settle a delivery, and set the state and bytes of its message."""
        link, entry = delivery.link, delivery._entry
        move = link.mode is StdDistMode.MOVE
        if move and state is MessageState.ARCHIVED:
            rejected = outcome if isinstance(outcome, Rejected) else None
            self._call_dead_letter(entry, octets, "rejected", rejected)
            self._mark_settled(delivery, outcome)
            self._archive(entry, "rejected")
            return
        changed = octets is not entry.octets
        if changed:
            self._replace_bytes(entry, octets)
        self._mark_settled(delivery, outcome)
        if state is MessageState.AVAILABLE:
            if isinstance(outcome, Modified) and outcome.undeliverable_here:
                self._cursors.bar(link._cursor, entry)
            elif not move:
                self._cursors.unbar(link._cursor, entry)
        if move:
            self._contents.acquired -= 1
            entry.state = MessageState.AVAILABLE
            if entry.expires is not None:
                if not entry.in_expiry_heap:
                    self._contents.add_expiry(entry, entry.expires)  # `expire` removed it
                if entry.expires < self.clock():
                    self.expire()
                    return
        self._cursors.offer_again(entry, None if move or changed else link._cursor)
        if self.on_available is not None:
            self.on_available()

    def _settle_at_detach(self, delivery: Delivery) -> None:
        """Settle a delivery when its link is detached: see `OutgoingLink.detach`."""
        for outcome in (None, delivery.link.default_outcome):
            with suppress(OutcomeError, EncodeError):
                self._settle(delivery, outcome)
                return
        self._settle(delivery, Released())

    def _mark_settled(self, delivery: Delivery, outcome: Outcome) -> None:
        """Set the outcome of a delivery, and remove it from its link and message."""
        delivery.outcome = outcome
        link, entry = delivery.link, delivery._entry
        if link.unsettled.pop(delivery.number, None) is not None and link.attached:
            self._contents.memory.message_bytes -= len(delivery.octets)
        if entry.delivery is delivery:
            entry.delivery = None
        elif entry.copies is not None:
            entry.copies.pop(link.number, None)

    def _replace_bytes(self, entry: Entry, octets: bytes) -> None:
        """Replace the bytes of a message, also in the store."""
        self._contents.replace_octets(entry, octets)
        entry.header = scan(octets, limits=UNLIMITED).section("header") or HEADER_OF_DEFAULTS
        if entry.stored:
            self._store.put(
                self.name, Stored(entry.sequence, entry.arrival, entry.octets, entry.message_format)
            )

    def _archive(self, entry: Entry, cause: str) -> None:
        """Remove a message from the node and from the store."""
        # Change the store last: if this fails, the state in memory is already correct.
        self._contents.remove(entry, cause)
        self._cursors.forget(entry)
        if entry.stored:
            self._store.remove(self.name, entry.sequence)
            self._store.commit()

    def _archive_without_outcome(self, entry: Entry, cause: str) -> None:
        """Archive a message that expired or whose node is deleted (Part 3, 3.3).

        Its deliveries are settled as accepted. The only other outcome that archives a message is
        rejected, to which a delivery should not change spontaneously (Part 3, 3.4.3).
        """
        self._call_dead_letter(entry, entry.octets, cause, None)
        deliveries = [*(entry.copies or {}).values()]
        if entry.delivery is not None:
            deliveries.append(entry.delivery)
        for delivery in deliveries:
            self._mark_settled(delivery, Accepted())
        self._archive(entry, cause)
        _call_for_each(
            deliveries, lambda delivery: delivery.link.on_ended and delivery.link.on_ended(delivery)
        )

    def _call_dead_letter(
        self, entry: Entry, octets: bytes, cause: str, outcome: Rejected | None
    ) -> None:
        """Pass a message that will be archived to `dead_letter`, if that is set."""
        if self.dead_letter is None:
            return
        self.dead_letter(
            DeadLetter(
                octets=octets,
                cause=cause,
                node=self.name,
                outcome=outcome,
                arrival=entry.arrival,
                message_format=entry.message_format,
                time=self.clock(),
            )
        )

    # Expiry.

    @property
    def next_expiry(self) -> int | None:
        """When to call `expire`, in ms of the clock; None for never.

        The time may be earlier than necessary if the message was archived in the meantime.
        """
        first = self._contents.first_expiry
        return first + 1 if first is not None else None

    def expire(self) -> int:
        """Archive every AVAILABLE message that has expired (Part 3, 3.2.1 and 3.3).

        An ACQUIRED message expires when it becomes available again. `publish` and
        `OutgoingLink.next` call this method; call it yourself at `next_expiry` on an idle node.

        Returns:
            The number of messages that expired.

        Raises:
            StoreError: see `Delivery.settle`.
        """
        now = self.clock()
        first = self._contents.first_expiry
        if first is None or first >= now:
            return 0
        expired = 0
        with self._store.batch():
            while (entry := self._contents.pop_due(now)) is not None:
                try:
                    self._archive_without_outcome(entry, "expired")
                except BaseException:
                    if entry.state is MessageState.AVAILABLE and entry.expires is not None:
                        self._contents.add_expiry(entry, entry.expires)
                    raise
                expired += 1
        return expired

    # Deletion, and the store.

    @property
    def due(self) -> bool:
        """Whether the lifetime policy requires `delete` now (Part 3, 3.5.10 to 3.5.13).

        A policy about links applies after the first link was attached; a policy about the creating
        link applies after that link was attached.
        """
        empty = not self._contents.entries
        closed = self._creating_link is not None and not self._creating_link.attached
        unlinked = self._link_number > 0 and not self._outgoing and not self._incoming
        due: dict[type, bool] = {
            DeleteOnClose: closed,
            DeleteOnNoLinks: unlinked,
            DeleteOnNoMessages: closed and empty,
            DeleteOnNoLinksOrMessages: unlinked and empty,
        }
        return due.get(type(self.lifetime), False)

    def delete(self) -> None:
        """Delete the node: archive its messages, detach its links, and refuse all later calls.

        Unsettled deliveries are settled: see `OutgoingLink.on_ended`. A no-op after the first call.

        Raises:
            StoreError: see `Delivery.settle`.
        """
        with self._store.batch():
            for entry in list(self._contents.entries.values()):
                self._archive_without_outcome(entry, "deleted")
        self.deleted = True
        for link in self.links:
            self._remove_link(link)

    def batch(self) -> AbstractContextManager[None]:
        """Return a context manager that commits to the store once, at its end.

        Messages published and deliveries settled in it are confirmed when it ends without a
        StoreError, for this node and other nodes with the same store. Batches nest.
        """
        return self._store.batch()

    def commit(self) -> None:
        """Commit the changes that are pending after a StoreError.

        Raises:
            StoreError: the changes are still pending.
        """
        self._store.commit()

    def _deleted_error(self) -> NodeError:
        """Return the error for a call of a deleted node."""
        return NodeError(f"the node {self.name!r} was deleted", RESOURCE_DELETED)
