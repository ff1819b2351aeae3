"""The distribution node (Part 3, 3.3)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from amqp10msg.delivery.node.errors import (
    PRECONDITION_FAILED,
    NodeError,
)
from amqp10msg.delivery.node.link_table import LifetimePolicy
from amqp10msg.delivery.node.links import (
    SEVERAL,
    Delivery,
    Entry,
    Filter,
    IncomingLink,
    Outcome,
    OutgoingLink,
    is_outcome,
)
from amqp10msg.delivery.node.queue import priority_level
from amqp10msg.delivery.node.records import Capacity, DeadLetter
from amqp10msg.delivery.node.store import MemoryStore, Quarantined, Store, Stored
from amqp10msg.delivery.node.transfers import NO_HEADER, Transfers
from amqp10msg.delivery.outcomes import Released
from amqp10msg.delivery.states import MessageState
from amqp10msg.delivery.termini import StdDistMode
from amqp10msg.message import Message
from amqp10msg.wire.errors import RESOURCE_LIMIT_EXCEEDED, expect, wrong_type
from amqp10msg.wire.limits import Limits


class DistributionNode(Transfers):
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
            read are put aside, see `quarantined`.
        priorities: the number of distinct priorities, 1 to 256 (Part 3, 3.2.1).
        capacity: bounds on what it holds.
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
        default_outcome: Outcome | None = None,
        expires: bool = True,
        lifetime: LifetimePolicy | None = None,
        accept_durable: bool = False,
        dead_letter: Callable[[DeadLetter], object] | None = None,
        on_available: Callable[[], object] | None = None,
        limits: Limits | None = None,
    ) -> None:
        priority_level(0, priorities)  # refuses what is out of range
        super().__init__(
            name,
            clock=clock,
            store=MemoryStore() if store is None else store,
            priorities=priorities,
            dead_letter=dead_letter,
            on_available=on_available,
            limits=limits,
        )
        self.priorities = priorities
        self.capacity = capacity if capacity is not None else Capacity()
        self.default_outcome: Outcome = default_outcome or Released()
        self.expires = expires
        self.lifetime = lifetime
        self._takes_durable = self._store.durable or accept_durable
        self._load()

    def __repr__(self) -> str:
        return (
            f"<DistributionNode {self.name!r}: {len(self) - self._acquired} available, "
            f"{self._acquired} acquired>"
        )

    @property
    def links(self) -> tuple[OutgoingLink | IncomingLink, ...]:
        """The links that have this node as source or target."""
        return self._table.all

    @property
    def deleted(self) -> bool:
        """Whether `delete` was called."""
        return self._deleted

    # Publishing.

    def publish(
        self,
        message: Message | bytes,
        *,
        message_format: int | None = None,
        origin: object = None,
    ) -> int:
        """Accept a message. When this returns outside of a `batch`, a durable one is in the store.

        Args:
            message: a Message or the bytes of one; the bare message is kept as it is.
            message_format: of the transfer that brought it, 0 to 2^32 - 1; if None, the Message's
                own, and 0 for octets.
            origin: where it comes from, such as a connection; see `attach`.

        Returns:
            The message's number at this node, counted from 1; after a restart, from the highest one
            that is in the store.

        Raises:
            NodeError: ``amqp:resource-limit-exceeded``: it exceeds the capacity;
                ``amqp:precondition-failed``: it is durable and the store is not;
                ``amqp:resource-deleted``: the node was deleted. Its `error` is for the sender.
            DecodeError: the bytes are not a message.
            EncodeError: the Message cannot be encoded.
            TypeError: that is neither a Message nor bytes.
            StoreError: it could not be stored, and is not at the node.
        """
        if self._deleted:
            raise self._gone()
        if isinstance(message, Message):
            octets = message.encode()
            if message_format is None:
                message_format = message.message_format
        else:
            how = {str: "make one, Message('text')"}
            kinds = (bytes, bytearray, memoryview)
            expect(message, kinds, "publish", "a Message or the bytes of one", how)
            octets = bytes(message)
        self.expire()
        self._admit(octets)
        stored = Stored(self._sequence + 1, self.clock(), octets, message_format or 0)
        entry = self._entry_of(stored)
        entry.origin = origin
        if entry.header.durable:
            if not self._takes_durable:
                raise NodeError(
                    f"the node {self.name!r} has no durable store, and the message is durable",
                    PRECONDITION_FAILED,
                )
            if self._store.durable:
                self._store_new(stored)
                entry.stored = True
        self._insert(entry)
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
        entry = self._entries.get(sequence)
        if entry is None or entry.state is not MessageState.AVAILABLE or entry.copies:
            return False
        self._archive(entry, "withdrawn")
        return True

    def _admit(self, octets: bytes) -> None:
        """Refuse a message that exceeds the capacity."""
        most = self.capacity
        what = ""
        if most.message_octets is not None and len(octets) > most.message_octets:
            what = f"{most.message_octets} bytes in a message, and this one has {len(octets)}"
        elif most.messages is not None and len(self._entries) >= most.messages:
            what = f"{most.messages} messages"
        elif most.octets is not None and self._octets + len(octets) > most.octets:
            what = f"{most.octets} bytes, has {self._octets}, and this message {len(octets)} more"
        if what:
            raise NodeError(f"the node {self.name!r} takes at most {what}", RESOURCE_LIMIT_EXCEEDED)

    def _entry_of(self, stored: Stored) -> Entry:
        message = Message.decode(stored.octets, limits=self.limits)
        header = message.header or NO_HEADER
        return Entry(
            stored.sequence,
            stored.arrival,
            stored.octets,
            header,
            message.expires_at(stored.arrival) if self.expires else None,
            stored.message_format,
            priority_level(header.priority, self.priorities),
        )

    def _store_new(self, stored: Stored) -> None:
        self._store.put(self.name, stored)
        try:
            self._store.commit()
        except BaseException:
            self._store.remove(self.name, stored.sequence)
            raise

    def _load(self) -> None:
        unreadable = []
        for stored in self._store.load(self.name):
            try:
                entry = self._entry_of(stored)
            except (ValueError, TypeError) as error:  # such as DecodeError
                unreadable.append((stored, str(error)))
                continue
            entry.stored = True
            entry.acquirer = SEVERAL  # it may have been acquired before the restart
            self._insert(entry)
        for stored, reason in unreadable:
            self._store.quarantine(self.name, stored, reason)
        for quarantined in self.quarantined:
            self._sequence = max(self._sequence, quarantined.stored.sequence)

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
        if self._deleted:
            raise self._gone()
        if default_outcome is not None and not is_outcome(default_outcome):
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
        table = self._table
        view = table.view(private=filter is not None or mode is StdDistMode.COPY)
        link = OutgoingLink(
            node=self,
            name=name,
            number=table.number(),
            mode=mode,
            filter=filter,
            origin=origin,
            default_outcome=default_outcome or self.default_outcome,
            on_ended=on_ended,
            view=view,
        )
        table.add(link, creates=creates)
        return link

    def attach_incoming(self, name: str = "", *, creates: bool = False) -> IncomingLink:
        """Attach a link that has this node as its target: it counts for the lifetime of the node.

        Args:
            name: the link's name.
            creates: whether the node was created for this link (Part 3, 3.5.9).

        Raises:
            NodeError: the node was deleted.
        """
        if self._deleted:
            raise self._gone()
        link = IncomingLink(self, name, self._table.number())
        self._table.add(link, creates=creates)
        return link

    # Its end, and the store.

    @property
    def due(self) -> bool:
        """Whether the lifetime policy asks for `delete` now (Part 3, 3.5.10 to 3.5.13).

        A policy that looks at the links waits for the first one, and one that looks at the link
        that caused the creation for that one.
        """
        return self._table.lifetime_is_over(self.lifetime, empty=not self._entries)

    def delete(self) -> None:
        """Delete the node: archive its messages, detach its links, and refuse all later calls.

        Unsettled deliveries are settled, see `OutgoingLink.on_ended`. Deleting twice does nothing.

        Raises:
            StoreError: as `Delivery.settle`.
        """
        with self._store.batch():
            for entry in list(self._entries.values()):
                self._archive_spontaneously(entry, "deleted")
        self._deleted = True
        for link in self.links:
            self._table.drop(link)

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
