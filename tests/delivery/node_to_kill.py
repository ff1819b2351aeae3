"""A process that publishes to a node on a file and settles, and says what it does, until killed.

    python -m tests.delivery.node_to_kill FILE SEED FIRST

Each line on standard output says one thing about one message: in the infinitive before it is done,
in the past tense once the node has confirmed it.
"""

from __future__ import annotations

import os
import sys
from random import Random

from amqp10msg import Header, Message, Properties
from amqp10msg.delivery import Accepted, DistributionNode, Modified, Rejected, Released
from amqp10msg.delivery.node import Delivery, OutgoingLink
from amqp10msg.delivery.node.sqlite import SqliteStore

BACKLOG = 40


def message_of(number: int) -> Message:
    """The message with a number: all of its content follows from that."""
    return Message(
        bytes([number % 256]) * (number * 37 % 3000),
        header=Header(durable=True, priority=number % 10),
        properties=Properties(message_id=number),
    )


def number_of(octets: bytes) -> int:
    properties = Message.decode(octets).properties
    assert properties is not None
    assert isinstance(properties.message_id, int)
    return properties.message_id


def say(what: str, number: int = 0) -> None:
    # One write a line, which a pipe takes whole or not at all.
    os.write(1, f"{what} {number}\n".encode())


class Doomed:
    """The node, and what is done to it at random."""

    def __init__(self, store: SqliteStore, random: Random, first: int) -> None:
        self.random = random
        self.next = first
        dead = DistributionNode("dead", clock=lambda: 0, store=store)
        self.node = DistributionNode(
            "node", clock=lambda: 0, store=store, dead_letter=lambda one: dead.publish(one.octets)
        )
        self.link: OutgoingLink = self.node.attach()
        self.confirm: list[tuple[str, int]] = []

    def step(self) -> None:
        if self.random.random() < 0.3:
            with self.node.batch():
                for _ in range(self.random.randrange(1, 8)):
                    self.do_one()
        else:
            self.do_one()
        # Only now is what happened in the batch confirmed.
        for what, number in self.confirm:
            say(what, number)
        self.confirm.clear()

    def do_one(self) -> None:
        if len(self.node) < BACKLOG and self.random.random() < 0.6:
            self.publish()
            return
        delivery = self.link.next()
        if delivery is not None:
            self.settle(delivery)

    def publish(self) -> None:
        number, self.next = self.next, self.next + 1
        say("publish", number)
        self.node.publish(message_of(number))
        self.confirm.append(("published", number))

    def settle(self, delivery: Delivery) -> None:
        number = number_of(delivery.octets)
        chance = self.random.random()
        if chance < 0.6:
            say("accept", number)
            delivery.settle(Accepted())
            self.confirm.append(("accepted", number))
        elif chance < 0.7:
            say("reject", number)
            delivery.settle(Rejected())
            self.confirm.append(("rejected", number))
        elif chance < 0.9:
            say("modify", number)
            delivery.settle(Modified(delivery_failed=True))
            self.confirm.append(("modified", number))
        else:
            delivery.settle(Released())


def main() -> None:
    path, seed, first = sys.argv[1:]
    say("open")
    with SqliteStore(path) as store:
        doomed = Doomed(store, Random(int(seed)), int(first))
        say("opened")
        while True:
            doomed.step()


if __name__ == "__main__":
    main()
