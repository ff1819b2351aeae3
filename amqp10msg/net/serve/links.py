"""The links of a connection: each joins a link of proton with a link of a node."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import attrs
import proton

from amqp10msg import AmqpValue, Described, Message
from amqp10msg.composite import from_described
from amqp10msg.delivery import Accepted, Error, Modified, Received, Rejected, Released
from amqp10msg.delivery.filters import FilterSet
from amqp10msg.delivery.node import (
    Delivery,
    DistributionNode,
    IncomingLink,
    NodeError,
    Outcome,
    OutcomeError,
    OutgoingLink,
)
from amqp10msg.errors import DecodeError, EncodeError
from amqp10msg.net.serve.exchanges import UnroutableError
from amqp10msg.net.serve.transactions import Published, Retired
from amqp10msg.proton import from_proton, receive_octets

if TYPE_CHECKING:
    from amqp10msg.net.serve.attaches import Attach
    from amqp10msg.net.serve.connection import Connection
    from amqp10msg.net.serve.server import Server

__all__ = ["MESSAGE_SIZE_EXCEEDED", "Incoming", "Outgoing", "TurnOverError", "refuse", "state_of"]

#: Delivery states that proton has no names for.
DECLARED, TRANSACTIONAL = 0x33, 0x34
MESSAGE_SIZE_EXCEEDED = "amqp:link:message-size-exceeded"
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


def outcome_of(described: Any) -> Outcome:
    """Return the outcome in a transactional state, from proton's value.

    Raises:
        NodeError: there is none.
        DecodeError: it is malformed.
    """
    value = from_proton(proton.Message(body=described)).body
    outcome = value.value if isinstance(value, AmqpValue) else None
    if isinstance(outcome, Described):
        outcome = from_described(outcome)
    if not isinstance(outcome, Accepted | Rejected | Released | Modified):
        raise NodeError("a transactional state needs an outcome here", "amqp:not-implemented")
    return outcome


def _entries(mapping: Any) -> dict[Any, Any]:
    """Convert a map of proton's values."""
    held: dict[Any, Any] | None = from_proton(
        proton.Message(annotations=mapping)
    ).message_annotations
    return dict(held or {})


class TurnOverError(Exception):
    """The time of a turn is over: a link goes on in another one."""


@attrs.define(eq=False)
class PassingFilter:
    """A filter-set that uses the clock of the server, and ends when the turn of its link is over.

    Attributes:
        filters: the filter-set.
        server: the server.
        fresh: whether no message was evaluated in this turn: one always is.
    """

    filters: FilterSet
    server: Server
    fresh: bool = True

    def matches(self, message: Any, *, local: bool | None = None) -> bool:
        """Whether a message passes.

        Raises:
            TurnOverError: the time is over; the message is to be asked for again.
        """
        if not self.fresh and self.server.is_over:
            raise TurnOverError
        self.fresh = False
        return self.filters.matches(message, now=self.server.clock(), local=local)


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
        if isinstance(self.out.filter, PassingFilter):
            self.out.filter.fresh = True
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
        if theirs.remote_state == TRANSACTIONAL and not delivery.settled:
            self._retire_in_transaction(delivery, theirs)
            return
        state = state_of(theirs.remote)
        if state is not None:
            delivery.update(state)
        if not theirs.settled and not getattr(state, "is_outcome", False):
            return
        self._settle(delivery, theirs, None, theirs.remote_state)

    def _retire_in_transaction(self, delivery: Delivery, theirs: Any) -> None:
        """Keep an outcome until its transaction is discharged (Part 4, 4.4.3)."""
        txn_id, described = (*(theirs.remote.data or []), None, None)[:2]
        try:
            transaction = self.connection.transactions.get(txn_id)
            outcome = outcome_of(described)
            transaction.add(Retired(self, delivery, theirs, outcome, theirs.settled))
        except (NodeError, DecodeError) as error:
            refuse(self.link, Error(error.condition, str(error)))
            self.connection.touch()

    def retire(self, delivery: Delivery, theirs: Any, outcome: Outcome) -> None:
        """Settle a delivery whose transaction was discharged."""
        if not delivery.settled:
            self._settle(delivery, theirs, outcome, theirs.remote_state)

    def _settle(self, delivery: Delivery, theirs: Any, outcome: Outcome | None, told: Any) -> None:
        by_peer = theirs.settled
        refused: Error | None = None
        try:
            delivery.settle(outcome)
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
                if told == TRANSACTIONAL:
                    theirs.local.data = theirs.remote.data
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
        publish: publishes the octets of a message; None for the coordinator.
        target: the link of the node, if that is a single one.
        rejects: whether the peer's source supports the outcome rejected.
        window: the credit that the sender is kept at.
    """

    connection: Connection
    link: Any
    publish: Callable[[bytes], Published] | None
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
        state, error, data = self._publish(octets, theirs)
        settled = theirs.settled

        def confirm() -> None:
            if state == proton.Delivery.REJECTED and error is not None:
                if settled or not self.rejects:
                    # The sender cannot get a rejection (Part 3, 3.2.1, on durable messages).
                    refuse(self.link, error)
                    return
                theirs.local.condition = proton.Condition(error.condition, error.description)
            theirs.local.data = data
            theirs.update(state)
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

    def _publish(self, octets: bytes, theirs: Any) -> tuple[Any, Error | None, Any]:
        """Publish a message, or keep it for its transaction.

        Returns:
            The delivery state, why it was refused, if it was, and the fields of a state that proton
            does not know.
        """
        transactions = self.connection.transactions
        try:
            if self.publish is None:
                txn_id = transactions.control(octets, self.link)
                if txn_id is not None:
                    return DECLARED, None, [txn_id]
            elif theirs.remote_state == TRANSACTIONAL:
                txn_id = (theirs.remote.data or [None])[0]
                transaction = transactions.get(txn_id)
                Message.decode(octets, limits=self.connection.server.limits)
                transaction.add(partial(self.publish, octets))
                accepted: Any = proton.Described(proton.ulong(0x24), [])
                return TRANSACTIONAL, None, [bytes(txn_id), accepted]
            else:
                self.publish(octets)
        except UnroutableError as error:
            return proton.Delivery.RELEASED, error.error, None
        except NodeError as error:
            return proton.Delivery.REJECTED, error.error, None
        except DecodeError as error:
            return proton.Delivery.REJECTED, Error(error.condition, str(error)), None
        return proton.Delivery.ACCEPTED, None, None
