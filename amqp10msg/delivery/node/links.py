"""The ends of links at a node, and the transfers on them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

import attrs

from amqp10msg.delivery.outcomes import Accepted, Modified, Rejected, Released
from amqp10msg.delivery.states import DeliveryState, MessageState
from amqp10msg.delivery.termini import StdDistMode
from amqp10msg.limits import UNLIMITED
from amqp10msg.message import Message

if TYPE_CHECKING:
    from amqp10msg.delivery.node.entry import Entry
    from amqp10msg.delivery.node.node import DistributionNode
    from amqp10msg.delivery.node.queue import View

__all__ = ["Delivery", "Filter", "IncomingLink", "Outcome", "OutgoingLink"]

Outcome = Accepted | Rejected | Released | Modified


def is_outcome(state: object) -> bool:
    """Tell whether that is a terminal delivery state."""
    return isinstance(state, DeliveryState) and state.is_outcome


class Filter(Protocol):
    """What decides which messages may pass a link (Part 3, 3.5.1)."""

    def matches(self, message: Message) -> bool:
        """Tell whether a message may pass; the same for the same message, always."""


@attrs.define(eq=False, weakref_slot=False)
class Delivery:
    """A message on its way over a link; unsettled until it has an outcome.

    Attributes:
        link: the link.
        number: counts the node's deliveries, 1 for the first.
        octets: the encoded message to transfer: the message at the node with the header of this
            delivery (delivery-count, first-acquirer, what is left of the ttl) and without the
            delivery annotations of the hop before. The bare message is octet for octet as it came.
        message_format: for the transfer.
        state: the last delivery state that the receiver told, terminal or not.
        outcome: the terminal state at the node, once it is settled there. It never changes again.
    """

    link: OutgoingLink
    number: int
    octets: bytes
    _entry: Entry
    state: Any = None
    outcome: Outcome | None = None

    @property
    def tag(self) -> bytes:
        """A delivery-tag of eight octets that no other delivery of the node has."""
        return self.number.to_bytes(8, "big")

    @property
    def sequence(self) -> int:
        """The message's number at the node, the same whenever it is delivered again."""
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
        """Note the delivery state at the receiver, terminal or not.

        The message stays ACQUIRED until the transfer is settled (Part 3, 3.3). Ignored where it is
        settled, or where an outcome was told before: that does not change (Part 3, 3.4).

        Args:
            state: any delivery state, such as `Received` or `Accepted`.
        """
        if self.outcome is None and not is_outcome(self.state):
            self.state = state

    def settle(self, outcome: Outcome | None = None) -> Outcome:
        """Settle it: what becomes of the message is what the outcome says (Part 3, 3.3).

        Settling what is settled changes nothing and gives the outcome that stands, for the node may
        have come first: the message expired, or the link was detached.

        Args:
            outcome: if None, the terminal state that the receiver told, else the default-outcome of
                the link.

        Returns:
            The outcome at the node.

        Raises:
            ValueError: that is no outcome, or one of an extension.
            OutcomeError: what the outcome would make of the message exceeds the limits of the
                node. The message stays as it was, the delivery unsettled.
            EncodeError: the outcome has annotations that cannot be encoded; likewise.
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
        number: counts the node's links, 1 for the first.
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

    It exists as long as its terminus does: keep it over a detach that is not closing, and nothing
    is redelivered to others meanwhile.

    Attributes:
        node: the node.
        name: the link's name.
        number: counts the node's links, 1 for the first.
        mode: move or copy (Part 3, 3.5.2).
        filter: what may pass; None for everything.
        origin: whom it belongs to, see `DistributionNode.attach`.
        default_outcome: of deliveries that have none when they are settled.
        on_ended: called with a delivery that the node settled by itself, because its message
            expired or the node was deleted: the peer is to be told. It must not use the node.
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
        """Take the next message for this link, if there is one.

        The highest priority comes first, and the oldest message within a priority. In move mode the
        message becomes ACQUIRED, in copy mode it stays as it is.

        Args:
            settled: settle it as accepted before it is sent, so that no message is ever delivered
                twice, and one may be lost.

        Raises:
            NodeError: the link is detached, or the node deleted.
            StoreError: as `Delivery.settle`.
        """
        return self.node._next(self, settled)

    def detach(self) -> None:
        """End the link: the receiver is gone and its terminus forgotten.

        Unsettled deliveries get the outcome that the receiver told, else the default-outcome
        (Part 3, 3.3); released where that is refused, see `OutcomeError`. Detaching twice does
        nothing.

        Raises:
            StoreError: as `Delivery.settle`.
            Exception: what `dead_letter` raised first. All other deliveries are settled; those stay
                unsettled and the link attached: settle them, or detach again.
        """
        if self.attached:
            self.node._detach(self)

    def _wants(self, entry: Entry) -> bool:
        """Tell whether a message that the view comes upon is for this link."""
        if self.mode is StdDistMode.MOVE:
            if entry.state is not MessageState.AVAILABLE:
                return False
        elif entry.expires is not None and entry.expires < self.node.clock():
            return False  # acquired, or it would be gone
        if entry.not_for is not None and self.number in entry.not_for:
            return False
        if self.filter is None:
            return True
        if self.origin is None:
            return self.filter.matches(entry.message())
        local: Any = self.filter
        return bool(local.matches(entry.message(), local=entry.origin == self.origin))
