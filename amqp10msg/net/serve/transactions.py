"""Local transactions (Part 4): declare and discharge.

The messages and outcomes of a transaction are kept in memory until it is discharged. Then they are
applied in one turn of the server, and if it has a file, in one commit. A transaction belongs to the
connection that declared it, and is rolled back when the link to its coordinator ends.
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

#: Maximum number of open transactions of a connection.
_MAX_OPEN_TRANSACTIONS = 1_000
#: Maximum number of messages and outcomes of a transaction.
_MAX_OPERATIONS = 10_000


@attrs.frozen
class Retired:
    """A delivery that was retired in a transaction: it has a provisional outcome (Part 4, 4.4.3).

    Attributes:
        delivery: the delivery at its node.
        outcome: the provisional outcome.
        settled: whether the receiver has settled the delivery.
        settle: called with the final outcome: settles the delivery at the node, and sends the
            disposition to the receiver.
    """

    delivery: Delivery
    outcome: Outcome
    settled: bool
    settle: Callable[[Outcome], None]

    def end(self, outcome: Outcome) -> None:
        """Settle the delivery with the final outcome, unless it is already settled."""
        if not self.delivery.settled:
            self.settle(outcome)


@attrs.define(eq=False)
class Transaction:
    """A transaction that is not discharged yet.

    Attributes:
        owner: the link to the coordinator on which the transaction was declared.
        memory: counts the memory of the posted messages.
        posted: functions that each publish a posted message (Part 4, 4.4.2).
        retired: the deliveries to settle (Part 4, 4.4.3).
        posted_size: memory of the posted messages, in bytes.
    """

    owner: Any
    memory: Memory
    posted: list[Callable[[], Published]] = attrs.field(factory=list)
    retired: list[Retired] = attrs.field(factory=list)
    posted_size: int = 0

    def add(self, work: Callable[[], Published] | Retired, size: int = 0) -> None:
        """Keep a message or an outcome until the transaction is discharged.

        Args:
            work: a function that publishes the message; or the delivery with its outcome.
            size: the size of the message, in bytes; 0 for an outcome.

        Raises:
            NodeError: the transaction is too large.
        """
        excess = self.memory.excess(size)
        if excess:
            raise NodeError(f"the transaction has no room: {excess}", RESOURCE_LIMIT_EXCEEDED)
        if len(self.posted) + len(self.retired) >= _MAX_OPERATIONS:
            raise NodeError(
                f"a transaction has at most {_MAX_OPERATIONS} messages and outcomes",
                RESOURCE_LIMIT_EXCEEDED,
            )
        if isinstance(work, Retired):
            self.retired.append(work)
        else:
            self.posted.append(work)
            self.posted_size += size + Memory.PER_MESSAGE
            self.memory.message_bytes += size + Memory.PER_MESSAGE

    def _release_memory(self) -> None:
        """Stop counting the posted messages, which are now published or discarded."""
        self.memory.message_bytes -= self.posted_size
        self.posted_size = 0

    def commit(self) -> None:
        """Publish the messages, and settle the deliveries.

        Raises:
            NodeError: a node refused a message or an outcome, or a delivery has already been
                settled. No message was published, and no outcome was applied.
        """
        self._release_memory()
        try:
            for retired in self.retired:
                if retired.delivery.settled:
                    raise NodeError(
                        "a delivery of the transaction has already been settled",
                        TransactionError.TRANSACTION_ROLLBACK,
                    )
                retired.delivery.check(retired.outcome)
            with all_or_none() as published:
                for post in self.posted:
                    published.extend(post())
        except AmqpError as error:
            raise NodeError(str(error), TransactionError.TRANSACTION_ROLLBACK) from error
        for retired in self.retired:
            retired.end(retired.outcome)

    def rollback(self) -> None:
        """Discard the messages and outcomes of the transaction.

        A delivery that the receiver has settled is a failed delivery; other deliveries are
        unsettled again, without an outcome.
        """
        self._release_memory()
        for retired in self.retired:
            if retired.settled:
                retired.end(Modified(delivery_failed=True))
            elif not retired.delivery.settled:
                retired.delivery.state = None


class Transactions:
    """The open transactions of a connection, by transaction-id."""

    def __init__(self, limits: Limits, memory: Memory) -> None:
        self._limits = limits
        self._memory = memory
        self._open: dict[bytes, Transaction] = {}
        self._last_number = 0  # the last transaction-id, as an integer

    def get(self, txn_id: Any) -> Transaction:
        """Return an open transaction by its transaction-id; raise NodeError if there is none."""
        binary = isinstance(txn_id, bytes | memoryview)
        transaction = self._open.get(bytes(txn_id)) if binary else None
        if transaction is None:
            raise NodeError(f"transaction {txn_id!r} does not exist", TransactionError.UNKNOWN_ID)
        return transaction

    def control(self, octets: bytes, owner: Any) -> bytes | None:
        """Process a declare or discharge, which a peer sent to the coordinator (Part 4, 4.2, 4.3).

        Args:
            octets: the encoded message with the declare or discharge.
            owner: the link on which the message was received.

        Returns:
            The transaction-id after a declare; None after a discharge.

        Raises:
            NodeError: the request is refused, or the transaction was rolled back.
            DecodeError: the message is malformed.
        """
        body = Message.decode(octets, limits=self._limits).body
        value = body.value if isinstance(body, AmqpValue) else None
        request = from_described(value) if isinstance(value, Described) else value
        match request:
            case Declare(global_id=None):
                if len(self._open) >= _MAX_OPEN_TRANSACTIONS:
                    raise NodeError(
                        f"a connection has at most {_MAX_OPEN_TRANSACTIONS} transactions at a time",
                        RESOURCE_LIMIT_EXCEEDED,
                    )
                self._last_number += 1
                txn_id = self._last_number.to_bytes(8, "big")
                self._open[txn_id] = Transaction(owner, self._memory)
                return txn_id
            case Discharge():
                transaction = self.get(request.txn_id)
                del self._open[request.txn_id]
                if request.fail:
                    transaction.rollback()
                    return None
                try:
                    transaction.commit()
                except NodeError:
                    transaction.rollback()
                    raise
                return None
        raise NodeError(
            "the coordinator accepts only a declare without a global-id, or a discharge",
            NOT_IMPLEMENTED,
        )

    def end_of(self, owner: Any) -> None:
        """Roll back the transactions that were declared on the link `owner`, which ends."""
        for txn_id, transaction in list(self._open.items()):
            if transaction.owner == owner:
                del self._open[txn_id]
                transaction.rollback()
