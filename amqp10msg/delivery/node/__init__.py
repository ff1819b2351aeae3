"""The distribution node of Part 3, 3.3: it stores messages and distributes them over links.

The store that outlives the process needs the module sqlite3 and is imported by itself:
`amqp10msg.delivery.node.sqlite`.
"""

from amqp10msg.delivery.node.links import Delivery, Filter, IncomingLink, Outcome, OutgoingLink
from amqp10msg.delivery.node.node import DistributionNode
from amqp10msg.delivery.node.priority import priority_level
from amqp10msg.delivery.node.records import Capacity, Counts, DeadLetter, Waiting
from amqp10msg.delivery.node.refusal import NodeError, OutcomeError, StoreError
from amqp10msg.delivery.node.store import MemoryStore, Quarantined, Store, Stored
from amqp10msg.delivery.node.table import LifetimePolicy

__all__ = [
    "Capacity",
    "Counts",
    "DeadLetter",
    "Delivery",
    "DistributionNode",
    "Filter",
    "IncomingLink",
    "LifetimePolicy",
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
