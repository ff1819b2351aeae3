"""Local transactions (Part 4): declare and discharge.

The messages and outcomes of a transaction are kept until it is discharged, and then applied in one
turn: with a file, in one commit. A transaction belongs to the connection that declared it, and is
rolled back when the link to its coordinator ends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from amqp10msg.composite import from_described
from amqp10msg.delivery import Declare, Discharge, Modified, TransactionError
from amqp10msg.delivery.node import Delivery, Memory, NodeError, Outcome
from amqp10msg.message import Message
from amqp10msg.net.serve.nodes import Published, all_or_none
from amqp10msg.sections import AmqpValue
from amqp10msg.wire.errors import NOT_IMPLEMENTED, RESOURCE_LIMIT_EXCEEDED, AmqpError
from amqp10msg.wire.limits import Limits
from amqp10msg.wire.primitives import Described

#: Open transactions of a connection.
_MAX_OPEN = 1_000
#: Messages and outcomes of a transaction.
_MAX_WORK = 10_000


@attrs.frozen
class Retired:
    """A delivery whose outcome depends on a transaction (Part 4, 4.4.3).

    Attributes:
        delivery: the delivery at its node.
        outcome: the provisional outcome.
        settled: whether the receiver has settled the delivery.
        settle: settles the delivery at the node and towards the receiver.
    """

    delivery: Delivery
    outcome: Outcome
    settled: bool
    settle: Callable[[Outcome], None]

    def end(self, outcome: Outcome) -> None:
        """Settle the delivery with an outcome, unless it is settled already."""
        if not self.delivery.settled:
            self.settle(outcome)


@attrs.define(eq=False)
class Transaction:
    """A transaction that is not discharged yet.

    Attributes:
        owner: the link to the coordinator.
        memory: counts the bytes of the posted messages.
        posted: functions that publish the messages (Part 4, 4.4.2).
        retired: the deliveries to settle (Part 4, 4.4.3).
        held: bytes of the posted messages.
    """

    owner: Any
    memory: Memory
    posted: list[Callable[[], Published]] = attrs.field(factory=list)
    retired: list[Retired] = attrs.field(factory=list)
    held: int = 0

    def add(self, work: Callable[[], Published] | Retired, size: int = 0) -> None:
        """Keep what is to be done when the transaction is discharged.

        The size is that of the message, where it publishes one, in bytes.
        """
        excess = self.memory.excess(size)
        if excess:
            raise NodeError(f"the transaction has no room: {excess}", RESOURCE_LIMIT_EXCEEDED)
        if len(self.posted) + len(self.retired) >= _MAX_WORK:
            raise NodeError(
                f"a transaction has at most {_MAX_WORK} messages and outcomes",
                RESOURCE_LIMIT_EXCEEDED,
            )
        if isinstance(work, Retired):
            self.retired.append(work)
        else:
            self.posted.append(work)
            self.held += size + Memory.PER_MESSAGE
            self.memory.held += size + Memory.PER_MESSAGE

    def _let_go(self) -> None:
        """Count its messages no more: the nodes do, or they are gone."""
        self.memory.held -= self.held
        self.held = 0

    def commit(self) -> None:
        """Publish and settle.

        Raises:
            NodeError: a message or an outcome is refused, or a delivery was settled meanwhile;
                nothing was done.
        """
        self._let_go()
        try:
            for one in self.retired:
                if one.delivery.settled:
                    raise NodeError(
                        "a delivery of the transaction was settled meanwhile",
                        TransactionError.TRANSACTION_ROLLBACK,
                    )
                one.delivery.check(one.outcome)
            with all_or_none() as published:
                for post in self.posted:
                    published.extend(post())
        except AmqpError as error:
            raise NodeError(str(error), TransactionError.TRANSACTION_ROLLBACK) from error
        for one in self.retired:
            one.end(one.outcome)

    def rollback(self) -> None:
        """Undo the outcomes: a settled delivery failed, and another one is as it was before."""
        self._let_go()
        for one in self.retired:
            if one.settled:
                one.end(Modified(delivery_failed=True))
            elif not one.delivery.settled:
                one.delivery.state = None


class Transactions:
    """The transactions of a connection, by transaction-id."""

    def __init__(self, limits: Limits, memory: Memory) -> None:
        self._limits = limits
        self._memory = memory
        self._open: dict[bytes, Transaction] = {}
        self._numbers = 0

    def get(self, txn_id: Any) -> Transaction:
        """Return a transaction."""
        binary = isinstance(txn_id, bytes | memoryview)
        transaction = self._open.get(bytes(txn_id)) if binary else None
        if transaction is None:
            raise NodeError(f"transaction {txn_id!r} does not exist", TransactionError.UNKNOWN_ID)
        return transaction

    def control(self, octets: bytes, owner: Any) -> bytes | None:
        """Carry out a declare or a discharge (Part 4, 4.2 and 4.3).

        Return the transaction-id after a declare; None after a discharge.
        """
        body = Message.decode(octets, limits=self._limits).body
        value = body.value if isinstance(body, AmqpValue) else None
        asked = from_described(value) if isinstance(value, Described) else value
        match asked:
            case Declare(global_id=None):
                if len(self._open) >= _MAX_OPEN:
                    raise NodeError(
                        f"a connection has at most {_MAX_OPEN} transactions at a time",
                        RESOURCE_LIMIT_EXCEEDED,
                    )
                self._numbers += 1
                txn_id = self._numbers.to_bytes(8, "big")
                self._open[txn_id] = Transaction(owner, self._memory)
                return txn_id
            case Discharge():
                transaction = self.get(asked.txn_id)
                del self._open[asked.txn_id]
                if asked.fail:
                    transaction.rollback()
                    return None
                try:
                    transaction.commit()
                except NodeError:
                    transaction.rollback()
                    raise
                return None
        raise NodeError(
            "a coordinator takes a declare without a global-id, or a discharge", NOT_IMPLEMENTED
        )

    def end_of(self, owner: Any) -> None:
        """Roll back the transactions of a link to the coordinator that ends."""
        for txn_id, transaction in list(self._open.items()):
            if transaction.owner == owner:
                del self._open[txn_id]
                transaction.rollback()
