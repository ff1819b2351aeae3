"""Delivery states, termini and transactions (Part 3, 3.4 and 3.5; Part 4)."""

from typing import TYPE_CHECKING

from amqp10msg.composite import Error
from amqp10msg.delivery.resume import (
    Plan,
    ResumeAction,
    Step,
    bytes_from,
    octets_before,
    position,
    resume,
)
from amqp10msg.delivery.rules import (
    TERMINUS_NOT_VISIBLE,
    TERMINUS_RULES,
    TerminusRule,
    check_declare,
    check_source,
    check_target,
)
from amqp10msg.delivery.states import (
    Accepted,
    Coordinator,
    Declare,
    Declared,
    DeliveryState,
    Discharge,
    MessageState,
    Modified,
    Received,
    Rejected,
    Released,
    TransactionalState,
    TransactionError,
    TxnCapability,
    apply,
    decode,
    encode,
)
from amqp10msg.delivery.termini import (
    DeleteOnClose,
    DeleteOnNoLinks,
    DeleteOnNoLinksOrMessages,
    DeleteOnNoMessages,
    NodeProperties,
    Source,
    StdDistMode,
    Target,
    TerminusDurability,
    TerminusExpiryPolicy,
)
from amqp10msg.wire.later import later

if TYPE_CHECKING:
    from amqp10msg.delivery.node import DistributionNode

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


if not TYPE_CHECKING:  # type checkers must report unknown names, which __getattr__ would hide
    # Import the node on first use: states and termini do not need it.
    __getattr__ = later(__name__, {"node": ["DistributionNode"]})
