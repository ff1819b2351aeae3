"""Nodes, and what the tests of them take from their links."""

from __future__ import annotations

from typing import Any

import attrs

from amqp10msg import Message
from amqp10msg.delivery import (
    DistributionNode,
)
from amqp10msg.delivery.node import (
    Delivery,
    OutgoingLink,
)


@attrs.define
class Clock:
    now: int = 0

    def __call__(self) -> int:
        return self.now


def node_of(*bodies: Any, **options: Any) -> DistributionNode:
    node = DistributionNode("n", **{"clock": Clock(), **options})
    for body in bodies:
        node.publish(body if isinstance(body, Message) else Message(body))
    return node


def taken(link: OutgoingLink) -> list[Any]:
    """Everything that a link can take now, by its text."""
    texts = []
    while (delivery := link.next()) is not None:
        texts.append(delivery.message().text())
    return texts


def take(link: OutgoingLink) -> Delivery:
    delivery = link.next()
    assert delivery is not None
    return delivery
