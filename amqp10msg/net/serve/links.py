"""The links of a connection: each joins a link of the transport with a link of a node."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import attrs

from amqp10msg import Message, ULong
from amqp10msg.delivery import (
    Accepted,
    Declared,
    DeliveryState,
    Error,
    Modified,
    Received,
    Rejected,
    Released,
    StdDistMode,
    Step,
    TransactionalState,
    bytes_from,
)
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
from amqp10msg.net import transport
from amqp10msg.net.serve.exchanges import UnroutableError
from amqp10msg.net.serve.transactions import Published, Retired
from amqp10msg.wire.errors import DecodeError, EncodeError

if TYPE_CHECKING:
    from amqp10msg.net.serve.attaches import Attach
    from amqp10msg.net.serve.connection import Connection
    from amqp10msg.net.serve.server import Server

# Bytes that wait in a connection for the socket before its links wait, too.
_MAX_WAITING = 1 << 20
#: The outcomes that settle a delivery at a node.
OUTCOMES = (Accepted, Rejected, Released, Modified)
#: Publishes the bytes of a message with their message-format.
Publish = Callable[[bytes, int], Published]


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
        if not self.fresh and self.server.turns.is_over:
            raise TurnOverError
        self.fresh = False
        return self.filters.matches(message, now=self.server.clock(), local=local)


@attrs.define(eq=False)
class Outgoing:
    """A link that has a node as its source: sends messages as the peer grants credit.

    Attributes:
        connection: its connection.
        link: the link of the transport.
        out: the link of the node.
        attach: the peer's attach.
        sent: the unsettled deliveries of the transport, by number at the node.
        resuming: deliveries of a link that was lost which this one goes on with, before new ones.
    """

    connection: Connection
    link: transport.Link
    out: OutgoingLink
    attach: Attach
    sent: dict[int, transport.Delivery] = attrs.field(factory=dict)
    resuming: deque[tuple[Delivery, Step]] = attrs.field(factory=deque)

    @property
    def node(self) -> DistributionNode:
        """The node that is the source."""
        return self.out.node

    def tell_counts(self) -> None:
        """Have the link's flows say what is available, and how much other links hold."""
        counts = self.node.counts
        ours = len(self.out.unsettled) if self.out.mode is StdDistMode.MOVE else 0
        self.link.available = counts.available
        self.link.properties = {transport.ACQUIRED_BY_OTHERS: ULong(max(counts.acquired - ours, 0))}

    def pump(self) -> bool:
        """Send a message if there is one and it may be sent; return whether one was sent."""
        link = self.link
        if not link.credit or not link.is_open:
            return False
        connection = self.connection
        if connection.paused or link.session.blocked or connection.engine.pending > _MAX_WAITING:
            connection.waiting.add(self)
            return False
        if self.resuming:
            self._resume(*self.resuming.popleft())
            return True
        if self.attach.incomplete:
            # What is new would be taken for what the map left out (Part 2, 2.7.3).
            if link.drain:
                link.drained()
                connection.touch()
            return False
        settled = link.snd_settle_mode is transport.SenderSettleMode.SETTLED
        if isinstance(self.out.filter, PassingFilter):
            self.out.filter.fresh = True
        delivery = self.out.next(settled=settled)
        if delivery is None:
            if link.drain:
                link.drained()
                connection.touch()
            return False
        theirs = link.send(
            delivery.tag,
            delivery.octets,
            settled=settled,
            message_format=delivery.message_format,
        )
        if not settled:
            theirs.context = delivery
            self.sent[delivery.number] = theirs
        connection.touch()
        return True

    def _resume(self, delivery: Delivery, step: Step) -> None:
        octets = b"" if step.start is None else bytes_from(delivery.octets, step.start)
        theirs = self.link.send(
            delivery.tag,
            octets,
            message_format=delivery.message_format,
            state=step.state,
            resume=True,
        )
        theirs.context = delivery
        self.sent[delivery.number] = theirs
        self.connection.touch()

    def on_disposition(self, theirs: transport.Delivery) -> None:
        """Apply the peer's disposition."""
        delivery: Delivery = theirs.context
        state = theirs.state
        if isinstance(state, TransactionalState) and not delivery.settled:
            self._retire_in_transaction(delivery, theirs, state)
            return
        terminal = isinstance(state, OUTCOMES)
        if terminal or isinstance(state, Received):
            delivery.update(state)
        if theirs.settled or terminal:
            self._settle(delivery, theirs, None)

    def _retire_in_transaction(
        self, delivery: Delivery, theirs: transport.Delivery, state: TransactionalState
    ) -> None:
        """Keep an outcome until its transaction is discharged (Part 4, 4.4.3)."""
        outcome = state.outcome
        try:
            transaction = self.connection.transactions.get(state.txn_id)
            if not isinstance(outcome, OUTCOMES):
                raise NodeError(
                    "a transactional state needs an outcome here", "amqp:not-implemented"
                )
            transaction.add(Retired(self, delivery, theirs, outcome, theirs.settled))
        except NodeError as error:
            self.connection.end_link(self.link, error.error)

    def retire(self, delivery: Delivery, theirs: transport.Delivery, outcome: Outcome) -> None:
        """Settle a delivery whose transaction was discharged."""
        if not delivery.settled:
            self._settle(delivery, theirs, outcome)

    def _settle(
        self, delivery: Delivery, theirs: transport.Delivery, outcome: Outcome | None
    ) -> None:
        told = theirs.state
        refused: Error | None = None
        try:
            delivery.settle(outcome)
        except OutcomeError as error:
            refused = error.error
        except EncodeError as error:
            refused = Error("amqp:invalid-field", str(error))
        if refused is not None:
            delivery.settle(Released())
            told = Released()
            self.connection.log(
                "outcome-refused",
                logging.WARNING,
                link=self.link.name,
                condition=refused.condition,
                why=refused.description,
            )
        self.sent.pop(delivery.number, None)
        if theirs.settled and refused is None:
            theirs.update(told)  # there is nothing to say
            return

        def confirm() -> None:
            if theirs.settled and refused is not None:
                # It has settled, so only the link can say that the outcome was refused.
                self.connection.end_link(self.link, refused)
            # Otherwise the receiver settles second, after the sender.
            theirs.update(told)

        self.connection.confirm(confirm)

    def ended(self, delivery: Delivery) -> None:
        """Settle a delivery towards the peer that the node settled by itself."""
        theirs = self.sent.pop(delivery.number, None)
        if theirs is not None:
            theirs.update(Accepted())
            self.connection.touch()


@attrs.define(eq=False)
class Incoming:
    """A link that has a node as its target, or the anonymous terminus.

    Attributes:
        connection: its connection.
        link: the link of the transport.
        publish: publishes a message; None for the coordinator.
        target: the link of the node, if that is a single one.
        rejects: whether the peer's source supports the outcome rejected.
        window: the credit that the sender is kept at.
    """

    connection: Connection
    link: transport.Link
    publish: Publish | None
    target: IncomingLink | None
    rejects: bool
    window: int

    def grant(self) -> None:
        """Grant credit, half a window or more at a time."""
        missing = self.window - self.link.credit
        if missing * 2 >= self.window:
            self.link.grant(missing)
            self.connection.touch()

    def on_transfer(self, theirs: transport.Delivery) -> None:
        """Receive a message, or hear that it was aborted."""
        octets = theirs.payload
        if theirs.resumed:
            # This end keeps no deliveries of a link that is lost, so it knows none of them: what it
            # does not know it ignores (Part 2, 2.7.5).
            self.link.session.forget(theirs)
            self.grant()
            return
        if octets is None:
            self.grant()
            return
        state, error = self._publish(octets, theirs)
        if error is not None:
            self.connection.log(
                "refused", link=self.link.name, condition=error.condition, why=error.description
            )
        self.connection.confirm(partial(self._confirm, theirs, state, error))

    def _confirm(
        self, theirs: transport.Delivery, state: DeliveryState, error: Error | None
    ) -> None:
        if isinstance(state, Rejected) and (theirs.settled or not self.rejects):
            # The sender cannot get a rejection (Part 3, 3.2.1, on durable messages).
            self.connection.end_link(self.link, error)
            return
        first = self.link.rcv_settle_mode is transport.ReceiverSettleMode.FIRST
        theirs.update(state, settled=first or theirs.settled)
        self.grant()

    def _publish(
        self, octets: bytes, theirs: transport.Delivery
    ) -> tuple[DeliveryState, Error | None]:
        """Publish a message, or keep it for its transaction.

        Returns:
            The delivery state, and why the message was refused, if it was.
        """
        transactions = self.connection.transactions
        state = theirs.state
        try:
            if self.publish is None:
                txn_id = transactions.control(octets, self.link)
                if txn_id is not None:
                    return Declared(txn_id), None
            elif isinstance(state, TransactionalState):
                transaction = transactions.get(state.txn_id)
                Message.decode(octets, limits=self.connection.server.limits)
                transaction.add(partial(self.publish, octets, theirs.message_format))
                return TransactionalState(state.txn_id, Accepted()), None
            else:
                self.publish(octets, theirs.message_format)
        except UnroutableError as error:
            return Released(), error.error
        except NodeError as error:
            return Rejected(error.error), error.error
        except DecodeError as error:
            fault = Error(error.condition, str(error))
            return Rejected(fault), fault
        return Accepted(), None
