"""The links of a connection: each joins a link of proton with a link of a node."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import attrs
import proton

from amqp10msg import Message
from amqp10msg.delivery import Accepted, Error, Modified, Received, Rejected, Released
from amqp10msg.delivery.node import (
    Delivery,
    DistributionNode,
    IncomingLink,
    NodeError,
    OutcomeError,
    OutgoingLink,
)
from amqp10msg.errors import DecodeError, EncodeError
from amqp10msg.proton import from_proton, receive_octets

if TYPE_CHECKING:
    from amqp10msg.net.serve.attaches import Attach
    from amqp10msg.net.serve.connection import Connection

__all__ = ["MESSAGE_SIZE_EXCEEDED", "Incoming", "Outgoing", "refuse", "state_of"]

MESSAGE_SIZE_EXCEEDED = "amqp:link:message-size-exceeded"
NOT_FOUND = "amqp:not-found"
# Octets that wait in a session for the socket before its links wait, too.
_MAX_WAITING = 1 << 20


def refuse(endpoint: Any, error: Error) -> None:
    """Close a link or a connection with an error."""
    endpoint.condition = proton.Condition(error.condition, error.description)
    endpoint.close()


def state_of(disposition: Any) -> Any:
    """Return the delivery state of proton's disposition; None if there is none or it is unknown."""
    match disposition.type:
        case proton.Delivery.ACCEPTED:
            return Accepted()
        case proton.Delivery.RELEASED:
            return Released()
        case proton.Delivery.RECEIVED:
            return Received(disposition.section_number, disposition.section_offset)
        case proton.Delivery.REJECTED:
            condition = disposition.condition
            if condition is None:
                return Rejected()
            info = _entries(condition.info) if condition.info else None
            return Rejected(Error(str(condition.name), condition.description or None, info))
        case proton.Delivery.MODIFIED:
            annotations = disposition.annotations
            return Modified(
                disposition.failed,
                disposition.undeliverable,
                _entries(annotations) if annotations else None,
            )
    return None


def _entries(mapping: Any) -> dict[Any, Any]:
    """Convert a map of proton's values."""
    held: dict[Any, Any] | None = from_proton(
        proton.Message(annotations=mapping)
    ).message_annotations
    return dict(held or {})


@attrs.define(eq=False)
class Outgoing:
    """A link that has a node as its source: sends messages as the peer grants credit.

    Attributes:
        connection: its connection.
        link: the link of proton.
        out: the link of the node.
        attach: the peer's attach.
        sent: the unsettled deliveries of proton, by number.
    """

    connection: Connection
    link: Any
    out: OutgoingLink
    attach: Attach
    sent: dict[int, Any] = attrs.field(factory=dict)

    @property
    def node(self) -> DistributionNode:
        """The node that is the source."""
        return self.out.node

    def pump(self) -> bool:
        """Send a message if there is one and it may be sent; return whether one was sent."""
        link = self.link
        if not link.credit or link.state & proton.Endpoint.LOCAL_CLOSED:
            return False
        if link.session.outgoing_bytes > _MAX_WAITING or self.connection.paused:
            self.connection.waiting.add(self)
            return False
        settled = link.snd_settle_mode == proton.Link.SND_SETTLED
        delivery = self.out.next(settled=settled)
        if delivery is None:
            if link.drain_mode:
                link.drained()
                self.connection.touch()
            return False
        theirs = link.delivery(delivery.tag)
        link.stream(delivery.octets)
        link.advance()
        if settled:
            theirs.settle()
        else:
            theirs.amqp10msg_delivery = delivery
            self.sent[delivery.number] = theirs
        self.connection.touch()
        return True

    def on_delivery(self, theirs: Any) -> None:
        """Apply the peer's disposition."""
        delivery: Delivery | None = getattr(theirs, "amqp10msg_delivery", None)
        if delivery is None:
            theirs.settle()
            return
        state = state_of(theirs.remote)
        if state is not None:
            delivery.update(state)
        if not theirs.settled and not getattr(state, "is_outcome", False):
            return
        told, by_peer = theirs.remote_state, theirs.settled
        refused: Error | None = None
        try:
            delivery.settle()
        except OutcomeError as error:
            refused = error.error
        except EncodeError as error:
            refused = Error("amqp:invalid-field", str(error))
        if refused is not None:
            delivery.settle(Released())
            told = proton.Delivery.RELEASED
            self.connection.log(
                "outcome-refused",
                logging.WARNING,
                link=self.link.name,
                condition=refused.condition,
                why=refused.description,
            )
        self.sent.pop(delivery.number, None)

        def confirm() -> None:
            if not by_peer:
                # The receiver settles second, after the sender.
                theirs.update(told)
            elif refused is not None:
                # It has settled, so only the link can say that the outcome was refused.
                refuse(self.link, refused)
            theirs.settle()

        self.connection.confirm(confirm)

    def ended(self, delivery: Delivery) -> None:
        """Settle a delivery towards the peer that the node settled by itself."""
        theirs = self.sent.pop(delivery.number, None)
        if theirs is not None:
            theirs.update(proton.Delivery.ACCEPTED)
            theirs.settle()
            self.connection.touch()


@attrs.define(eq=False)
class Incoming:
    """A link that has a node as its target, or the anonymous terminus.

    Attributes:
        connection: its connection.
        link: the link of proton.
        target: the link of the node; None for the anonymous terminus.
        rejects: whether the peer's source supports the outcome rejected.
        window: the credit that the sender is kept at.
    """

    connection: Connection
    link: Any
    target: IncomingLink | None
    rejects: bool
    window: int

    def grant(self) -> None:
        """Grant credit, half a window or more at a time."""
        missing = self.window - self.link.credit
        if missing * 2 >= self.window:
            self.link.flow(missing)
            self.connection.touch()

    def on_delivery(self, theirs: Any) -> None:
        """Receive a message, or part of one."""
        if self.link.state & proton.Endpoint.LOCAL_CLOSED:
            return
        if getattr(theirs, "amqp10msg_answered", False):
            # The outcome was sent before, and now the sender settles.
            if theirs.settled:
                theirs.settle()
            return
        if theirs.aborted:
            receive_octets(theirs)
            theirs.settle()
            self.grant()
            return
        longest = self.connection.server.max_message_size
        held = len(getattr(theirs, "amqp10msg_taken", b""))
        if longest and held + theirs.pending > longest:
            self.connection.log(
                "message-size-exceeded", link=self.link.name, octets=held + theirs.pending
            )
            refuse(
                self.link,
                Error(MESSAGE_SIZE_EXCEEDED, f"messages have {longest} octets at most here"),
            )
            return
        octets = receive_octets(theirs)
        if octets is None:
            return
        error = self._publish(octets)
        settled = theirs.settled

        def confirm() -> None:
            if error is None:
                theirs.update(proton.Delivery.ACCEPTED)
            elif settled or not self.rejects:
                # The sender cannot get a rejection (Part 3, 3.2.1, on durable messages).
                refuse(self.link, error)
                return
            else:
                theirs.local.condition = proton.Condition(error.condition, error.description)
                theirs.update(proton.Delivery.REJECTED)
            if settled or self.link.rcv_settle_mode == proton.Link.RCV_FIRST:
                theirs.settle()
            else:
                theirs.amqp10msg_answered = True
            self.grant()

        if error is not None:
            self.connection.log(
                "refused", link=self.link.name, condition=error.condition, why=error.description
            )
        self.connection.confirm(confirm)

    def _publish(self, octets: bytes) -> Error | None:
        """Publish a message to its node; return why it was refused, if it was."""
        try:
            if self.target is not None:
                self.target.publish(octets, origin=self.connection.origin)
                return None
            properties = Message.decode(octets).properties
            to = properties.to if properties is not None else None
            node = self.connection.server.nodes.find(to) if to else None
            if node is None:
                return Error(NOT_FOUND, f"there is no node {to!r} to send this message to")
            node.publish(octets, origin=self.connection.origin)
        except DecodeError as error:
            return Error(error.condition, str(error))
        except NodeError as error:
            return error.error
        return None
