"""Messages at a node, the links that take them, and their deliveries."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

import attrs

from amqp10msg.delivery.node.queue import View
from amqp10msg.delivery.outcomes import Accepted, Modified, Rejected, Released
from amqp10msg.delivery.states import DeliveryState, MessageState
from amqp10msg.delivery.termini import StdDistMode
from amqp10msg.message import Message
from amqp10msg.sections import Header
from amqp10msg.wire.limits import UNLIMITED

if TYPE_CHECKING:
    from amqp10msg.delivery.node.node import DistributionNode

Outcome = Accepted | Rejected | Released | Modified

#: For `Entry.acquirer`; a link's number is positive.
NOBODY = 0
SEVERAL = -1


def is_outcome(state: object) -> bool:
    """Whether a state is a terminal delivery state."""
    return isinstance(state, DeliveryState) and state.is_outcome


class Filter(Protocol):
    """Decides which messages pass a link (Part 3, 3.5.1)."""

    def matches(self, message: Message) -> bool:
        """Whether a message passes; always the same answer for the same message."""


@attrs.define(eq=False, weakref_slot=False)
class Entry:
    """A message at a node.

    Attributes:
        sequence: its number at the node.
        arrival: in milliseconds of the node's clock.
        octets: the message as it is at the node, with the changes that outcomes made.
        header: the one in `octets`; never changed in place.
        expires: the last millisecond in which it is live; None if it never expires.
        message_format: of the transfer that brought it.
        level: its priority level.
        position: its position in that level.
        origin: as given to `publish`; None after a restart.
        stored: whether it is in the store.
        state: as in figure 3.1 of Part 3.
        acquirer: the number of the only link that ever acquired it, NOBODY or SEVERAL.
        delivery: the delivery that acquired it.
        copies: unsettled deliveries in copy mode, by link number.
        not_for: the numbers of links that must not get it: those in copy mode that already did, and
            those where it is undeliverable.
        timed: whether it is in the node's heap of times of expiry.
        came_back: whether views may hold its position.
    """

    sequence: int
    arrival: int
    octets: bytes
    header: Header
    expires: int | None
    message_format: int
    level: int
    position: int = 0
    origin: object = None
    stored: bool = False
    state: MessageState = MessageState.AVAILABLE
    acquirer: int = NOBODY
    delivery: Delivery | None = None
    copies: dict[int, Delivery] | None = None
    not_for: set[int] | None = None
    timed: bool = False
    came_back: bool = False

    def message(self) -> Message:
        """Decode the message."""
        return Message.decode(self.octets, limits=UNLIMITED, message_format=self.message_format)


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
        self,
        message: Message | bytes,
        *,
        message_format: int | None = None,
        origin: object = None,
    ) -> int:
        """Publish to the node, as `DistributionNode.publish`."""
        return self.node.publish(message, message_format=message_format, origin=origin)

    def detach(self) -> None:
        """End the link; the node may be due for deletion then. Detaching twice does nothing."""
        if self.attached:
            self.node._table.drop(self)


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
    _view: View[Entry]
    _barred: dict[int, Entry] = attrs.field(factory=dict, repr=False)
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
        return self.node._next(self, settled)

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
            self.node._detach(self)

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
