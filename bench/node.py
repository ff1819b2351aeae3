"""The distribution node: the cost of one message, independent of the queue's length."""

from __future__ import annotations

from collections.abc import Callable

from amqp10msg import Header, Message
from amqp10msg.delivery import Accepted, DistributionNode
from bench.harness import Contender, Effort, measure
from bench.messages import REFERENCE
from bench.report import Figure, Floor

KINDS = ("plain", "10 priorities", "10 priorities, expiry", "filter")


class Passes:
    """A filter that reads the header and accepts every message."""

    def matches(self, message: Message) -> bool:
        """Decode the sections that a filter needs."""
        return message.header is not None


def node_with(queued: int, kind: str) -> Callable[[], None]:
    """Queue messages; return a call that publishes one, and receives and accepts the next."""
    node = DistributionNode("bench", clock=lambda: 0, accept_durable=True)
    message = Message.decode(REFERENCE)
    many = [
        message.evolve(
            header=Header(
                durable=True,
                priority=number if "priorities" in kind else 4,
                ttl=10_000_000 + number if "expiry" in kind else None,
            )
        ).encode()
        for number in range(10)
    ]
    for number in range(queued):
        node.publish(many[number % 10])
    link = node.attach(filter=Passes() if kind == "filter" else None)
    accepted = Accepted()
    turn = 0

    def cycle() -> None:
        nonlocal turn
        turn += 1
        node.publish(many[turn % 10])
        delivery = link.next()
        if delivery is not None:
            delivery.settle(accepted)

    return cycle


def run(effort: Effort) -> Figure:
    """Measure a cycle with few and with many messages queued, for each kind of node."""
    few, many = min(1_000, effort.queued), effort.queued
    contenders = [
        Contender(f"{kind}, {queued:,} queued", node_with(queued, kind))
        for kind in KINDS
        for queued in (few, many)
    ]
    timings = measure(contenders, effort)
    medians = [timing.median for timing in timings.entries]
    floors = tuple(
        Floor(
            f"{kind}: at most 1.5x with {many:,} queued of what it takes with {few:,}",
            medians[2 * place + 1] / medians[2 * place],
            at_most=1.5,
        )
        for place, kind in enumerate(KINDS)
    )
    return Figure(
        key="node",
        title="Publish a 500-byte message to a node, take the next, have it accepted",
        timings=timings,
        floors=floors,
        remarks=(f"That is {1e9 / medians[0]:,.0f} messages a second with few queued.",),
    )
