"""Transactions (Part 4) as composites."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import attrs

from amqp10msg.composite import composite
from amqp10msg.delivery.states import DeliveryState
from amqp10msg.wire.primitives import Wire, boolean, symbols


class TxnCapability(StrEnum):
    """The capabilities of a coordinator, supported or desired (Part 4, 4.5.7).

    The members are strings that `Coordinator.capabilities` takes as they are.
    """

    LOCAL_TRANSACTIONS = "amqp:local-transactions"
    DISTRIBUTED_TRANSACTIONS = "amqp:distributed-transactions"
    PROMOTABLE_TRANSACTIONS = "amqp:promotable-transactions"
    MULTI_TXNS_PER_SSN = "amqp:multi-txns-per-ssn"
    MULTI_SSNS_PER_TXN = "amqp:multi-ssns-per-txn"


class TransactionError(StrEnum):
    """The conditions of errors about transactions (Part 4, 4.5.8)."""

    UNKNOWN_ID = "amqp:transaction:unknown-id"
    TRANSACTION_ROLLBACK = "amqp:transaction:rollback"
    TRANSACTION_TIMEOUT = "amqp:transaction:timeout"


# Part 4, 4.5.4: up to 32 octets.
txn_id = Annotated[bytes, Wire("binary", "transaction-id", size=32)]
outcome = Annotated[Any, Wire("*", requires="outcome")]
global_id = Annotated[Any, Wire("*", requires="global-tx-id")]


@composite("amqp:coordinator:list", 0x30, provides=("target",))
@attrs.define
class Coordinator:
    """The target of a link that controls transactions (Part 4, 4.5.1).

    Attributes:
        capabilities: what the coordinator supports or the controller desires.
    """

    capabilities: symbols = ()


@composite("amqp:declare:list", 0x31)
@attrs.define
class Declare:
    """The message body that asks for a transaction (Part 4, 4.5.2).

    Attributes:
        global_id: identifies a global transaction.
    """

    global_id: global_id | None = None


@composite("amqp:discharge:list", 0x32)
@attrs.define
class Discharge:
    """The message body that ends a transaction (Part 4, 4.5.3).

    Attributes:
        txn_id: the transaction, at most 32 octets.
        fail: roll it back.
    """

    txn_id: txn_id
    fail: boolean = False


@composite("amqp:declared:list", 0x33, provides=("delivery-state", "outcome"))
@attrs.define
class Declared(DeliveryState):
    """The outcome of a declare (Part 4, 4.5.5).

    Attributes:
        txn_id: the transaction, at most 32 octets.
    """

    txn_id: txn_id


@composite("amqp:transactional-state:list", 0x34, provides=("delivery-state",))
@attrs.define
class TransactionalState(DeliveryState):
    """The state of a delivery within a transaction (Part 4, 4.5.6).

    It is not an outcome: its own outcome is provisional, and takes effect when the transaction is
    discharged successfully.

    Attributes:
        txn_id: the transaction, at most 32 octets.
        outcome: the outcome that holds if the transaction succeeds.
    """

    txn_id: txn_id
    outcome: outcome | None = None
