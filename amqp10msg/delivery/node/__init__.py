"""The distribution node of Part 3, 3.3: it stores messages and distributes them over links.

The durable store, `amqp10msg.delivery.node.sqlite`, needs the module sqlite3 and is not imported
here.
"""

from amqp10msg.delivery.node.errors import NodeError, OutcomeError, StoreError
from amqp10msg.delivery.node.link_table import LifetimePolicy
from amqp10msg.delivery.node.links import Delivery, Filter, IncomingLink, Outcome, OutgoingLink
from amqp10msg.delivery.node.node import DistributionNode
from amqp10msg.delivery.node.queue import priority_level
from amqp10msg.delivery.node.records import Capacity, Counts, DeadLetter, Waiting
from amqp10msg.delivery.node.store import MemoryStore, Quarantined, Store, Stored

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
