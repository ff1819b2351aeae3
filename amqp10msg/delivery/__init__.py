"""Delivery states, termini and transactions (Part 3, 3.4 and 3.5; Part 4)."""

from amqp10msg.composite import Error
from amqp10msg.delivery.checking import check_declare, check_source, check_target
from amqp10msg.delivery.codec import decode, encode
from amqp10msg.delivery.effects import apply
from amqp10msg.delivery.lifetime import (
    DeleteOnClose,
    DeleteOnNoLinks,
    DeleteOnNoLinksOrMessages,
    DeleteOnNoMessages,
)
from amqp10msg.delivery.node import DistributionNode
from amqp10msg.delivery.node_properties import NodeProperties
from amqp10msg.delivery.outcomes import Accepted, Modified, Received, Rejected, Released
from amqp10msg.delivery.positions import bytes_from, octets_before, position
from amqp10msg.delivery.resume import Plan, ResumeAction, Step, resume
from amqp10msg.delivery.states import DeliveryState, MessageState
from amqp10msg.delivery.termini import (
    Source,
    StdDistMode,
    Target,
    TerminusDurability,
    TerminusExpiryPolicy,
)
from amqp10msg.delivery.terminus_rules import (
    TERMINUS_NOT_VISIBLE,
    TERMINUS_RULES,
    TerminusRule,
)
from amqp10msg.delivery.transactions import (
    Coordinator,
    Declare,
    Declared,
    Discharge,
    TransactionalState,
    TransactionError,
    TxnCapability,
)

__all__ = [
    "TERMINUS_NOT_VISIBLE",
    "TERMINUS_RULES",
    "Accepted",
    "Coordinator",
    "Declare",
    "Declared",
    "DeleteOnClose",
    "DeleteOnNoLinks",
    "DeleteOnNoLinksOrMessages",
    "DeleteOnNoMessages",
    "DeliveryState",
    "Discharge",
    "DistributionNode",
    "Error",
    "MessageState",
    "Modified",
    "NodeProperties",
    "Plan",
    "Received",
    "Rejected",
    "Released",
    "ResumeAction",
    "Source",
    "StdDistMode",
    "Step",
    "Target",
    "TerminusDurability",
    "TerminusExpiryPolicy",
    "TerminusRule",
    "TransactionError",
    "TransactionalState",
    "TxnCapability",
    "apply",
    "bytes_from",
    "check_declare",
    "check_source",
    "check_target",
    "decode",
    "encode",
    "octets_before",
    "position",
    "resume",
]
