"""The distribution node of Part 3, 3.3: it stores messages and distributes them over links.

The durable store, `amqp10msg.delivery.node.sqlite`, needs the module sqlite3 and is not imported
here.
"""

from amqp10msg.delivery.node.contents import (
    Capacity,
    Counts,
    Memory,
    MemoryStore,
    NodeError,
    OutcomeError,
    Quarantined,
    Store,
    Stored,
    StoreError,
    Waiting,
    priority_level,
)
from amqp10msg.delivery.node.deaths import DeadLetter
from amqp10msg.delivery.node.node import (
    Delivery,
    DistributionNode,
    Filter,
    IncomingLink,
    LifetimePolicy,
    Outcome,
    OutgoingLink,
)

__all__ = [
    "Capacity",
    "Counts",
    "DeadLetter",
    "Delivery",
    "DistributionNode",
    "Filter",
    "IncomingLink",
    "LifetimePolicy",
    "Memory",
    "MemoryStore",
    "NodeError",
    "Outcome",
    "OutcomeError",
    "OutgoingLink",
    "Quarantined",
    "Store",
    "StoreError",
    "Stored",
    "Waiting",
    "priority_level",
]
