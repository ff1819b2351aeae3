"""The distribution node against a model of section 3.3, step by step, on both stores.

``AMQP10MSG_NODE_STEPS=100000`` runs so many steps on each store in place of a short run.
"""

from __future__ import annotations

import itertools
import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import attrs
import hypothesis
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from amqp10msg import Header, Message, Properties, scan
from amqp10msg.delivery import (
    Accepted,
    DistributionNode,
    Error,
    MessageState,
    Modified,
    Received,
    Rejected,
    Released,
)
from amqp10msg.delivery.node import MemoryStore, OutgoingLink
from amqp10msg.delivery.node.sqlite import SqliteStore
from tests.delivery.node_model import Model, ModelDelivery, ModelLink

pytestmark = pytest.mark.once

STEPS = int(os.environ.get("AMQP10MSG_NODE_STEPS", "0"))
STEPS_A_RUN = 60


@attrs.frozen
class Property:
    """Passes messages by an application property, an annotation or the delivery-count."""

    what: str
    value: int

    def matches(self, message: Message) -> bool:
        held: dict[Any, Any] | None
        match self.what:
            case "property":
                held = message.application_properties
                return held is not None and held.get("n") == self.value
            case "annotation":
                held = message.message_annotations
                return held is not None and held.get("x-opt-n") == self.value
        return (message.header or Header()).delivery_count >= self.value


# One draw gives a whole filter, outcome or message: a run of many steps stays within what
# hypothesis draws at most, and what it draws is spread evenly.
FILTER_CLASS_BY_DESCRIPTOR: list[Property | None] = [
    *[None] * 6,
    *map(Property, ["property", "annotation", "count"] * 2, [0, 0, 1, 1, 1, 2]),
]
MODIFIED = [
    Modified(failed, here, annotations)
    for failed, here in itertools.product([False, True], repeat=2)
    for annotations in (None, {"x-opt-n": 1}, {"x-opt-n": 0, "x-opt-m": 1})
]
OUTCOMES: list[Any] = [
    *[Accepted()] * 6,
    *[Released()] * 6,
    *[Rejected(), Rejected(Error("amqp:internal-error"))] * 2,
    *MODIFIED,
]


def some_messages() -> Iterator[Message]:
    random = Random(0)

    def perhaps(value: Any, chance: float = 0.5) -> Any:
        return value if random.random() < chance else None

    for _ in range(500):
        header = Header(
            durable=random.random() < 0.7,
            priority=random.choice([0, 3, 4, 5, 6, 9, 10, 255]),
            ttl=perhaps(random.randrange(20), 0.3),
            first_acquirer=random.random() < 0.5,
            delivery_count=random.randrange(3),
        )
        properties = Properties(absolute_expiry_time=perhaps(random.randrange(80), 0.3))
        yield Message(
            random.choice([b"", b"x", "text"]),
            header=perhaps(header, 0.9),
            delivery_annotations=perhaps({"x-opt-hop": 1}),
            message_annotations=perhaps({"x-opt-n": random.randrange(2)}),
            properties=perhaps(properties),
            application_properties=perhaps({"n": random.randrange(2)}, 0.8),
        )


ACTIONS = [
    *["take"] * 7,
    *["settle"] * 7,
    *["publish"] * 3,
    *["attach", "wait"] * 2,
    *["settle_as_told", "tell", "expire", "detach", "restart"],
]
messages = st.sampled_from(list(some_messages()))


class Node(RuleBasedStateMachine):
    """One node, its model, and links that come and go."""

    durable = False
    steps = 0

    def __init__(self) -> None:
        super().__init__()
        self.now = 0
        self.links: list[tuple[OutgoingLink, ModelLink]] = []
        self.deliveries: list[tuple[Any, ModelDelivery]] = []
        self.ended: list[Any] = []
        self.numbers: dict[int, int] = {}  # of the model's messages, since the last restart

    def make_store(self) -> Any:
        return MemoryStore()

    @initialize(
        levels=st.sampled_from([1, 2, 3, 5, 9, 10, 11]),
        data=st.data(),
    )
    def start(self, levels: int, data: st.DataObject) -> None:
        self.model = Model(levels, self.durable)
        self.store = self.make_store()
        self.make_node()
        self.attach(data)
        self.publish(data)

    # One rule for all, so that hypothesis does not leave some of them out of a run: a run without
    # taking or settling tries little.
    @rule(action=st.sampled_from(ACTIONS), data=st.data())
    def act(self, action: str, data: st.DataObject) -> None:
        getattr(self, action)(data)

    def make_node(self) -> None:
        self.letters: list[Any] = []
        self.told: Counter[str] = Counter()
        self.node = DistributionNode(
            "n",
            clock=lambda: self.now,
            store=self.store,
            priorities=self.model.levels,
            accept_durable=True,
            dead_letter=self.letters.append,
        )

    def ours(self, theirs: ModelDelivery) -> int:
        return self.numbers[theirs.message.sequence]

    def publish(self, data: st.DataObject) -> None:
        for message in data.draw(st.lists(messages, min_size=1, max_size=4)):
            made = self.model.publish(Message.decode(message.encode()))
            number = self.node.publish(message if made.sequence % 2 else message.encode())
            assert number not in self.numbers.values()
            self.numbers[made.sequence] = number

    def attach(self, data: st.DataObject) -> None:
        copy = data.draw(st.sampled_from([False, False, True]))
        passing = data.draw(st.sampled_from(FILTER_CLASS_BY_DESCRIPTOR))
        default = data.draw(st.sampled_from([None, *OUTCOMES]))
        link = self.node.attach(
            "link",
            mode="copy" if copy else "move",
            filter=passing,
            default_outcome=default,
            on_ended=self.ended.append,
        )
        theirs = ModelLink(copy, passing, default or Released())
        self.model.links.append(theirs)
        self.links.append((link, theirs))

    def take(self, data: st.DataObject) -> None:
        if not self.links:
            self.attach(data)
        link, theirs = data.draw(st.sampled_from(self.links))
        for _ in range(data.draw(st.integers(1, 3))):
            expected = self.model.take(theirs)
            found = link.next()
            if expected is None:
                assert found is None
                return
            assert found is not None
            self.compare(expected, found)
            self.deliveries.append((found, expected))

    def compare(self, expected: ModelDelivery, found: Any) -> None:
        message = expected.message
        assert self.ours(expected) == found.sequence
        sent = found.message()
        ttl = message.header.ttl
        assert (
            Header(
                message.header.durable,
                message.header.priority,
                None if ttl is None else max(0, message.arrival + ttl - self.now),
                not message.several and message.first in {None, expected.link},
                message.header.delivery_count,
            )
            == sent.header
        )
        assert message.message.bare == scan(found.octets).bare
        assert None is sent.delivery_annotations
        assert message.message.message_annotations == sent.message_annotations

    def choose(self, data: st.DataObject) -> Any:
        """Choose a delivery, rather one that is not settled."""
        unsettled = [pair for pair in self.deliveries if pair[1].outcome is None]
        return data.draw(st.sampled_from(unsettled[-8:] + self.deliveries[-2:]))

    def settle(self, data: st.DataObject) -> None:
        if self.deliveries:
            self.settle_one(data, data.draw(st.sampled_from(OUTCOMES)))

    def settle_as_told(self, data: st.DataObject) -> None:
        if self.deliveries:
            self.settle_one(data, None)

    def settle_one(self, data: st.DataObject, outcome: Any) -> None:
        found, expected = self.choose(data)
        stands = self.model.settle(expected, outcome)
        assert stands == found.settle(outcome)
        assert stands == found.settle(Released())
        assert found.settled

    def tell(self, data: st.DataObject) -> None:
        if not self.deliveries:
            return
        state = data.draw(st.sampled_from([Received(0, 0), *OUTCOMES]))
        found, expected = self.choose(data)
        found.update(state)
        if expected.told is None and not isinstance(state, Received):
            expected.told = state

    def detach(self, data: st.DataObject) -> None:
        if not self.links:
            return
        pair = data.draw(st.sampled_from(self.links))
        self.links.remove(pair)
        self.model.detach(pair[1])
        pair[0].detach()
        assert not pair[0].attached

    def wait(self, data: st.DataObject) -> None:
        self.now += data.draw(st.integers(1, 5))
        self.model.now = self.now

    def expire(self, _: st.DataObject) -> None:
        self.model.expire()
        self.node.expire()

    def restart(self, _: st.DataObject) -> None:
        """End without a word, as a process does that is killed; come again with what is stored."""
        self.check_letters()
        self.stop_store()
        self.model.restart()
        self.links.clear()
        self.deliveries.clear()
        self.numbers.clear()
        self.ended.clear()
        self.store = self.make_store()
        self.make_node()
        held = [waiting.sequence for waiting in self.node.messages()]
        left = [message.sequence for message in self.model.here()]
        assert len(left) == len(held)
        self.numbers.update(zip(left, held, strict=True))

    def stop_store(self) -> None:
        pass

    def check_letters(self) -> None:
        causes = Counter(letter.cause for letter in self.letters)
        assert self.node.counts.causes.get("rejected", 0) == causes["rejected"]
        assert self.node.counts.causes.get("expired", 0) == causes["expired"]
        assert causes.total() == causes["rejected"] + causes["expired"]

    @invariant()
    def nothing_is_lost_and_nothing_is_in_two_states(self) -> None:
        type(self).steps += 1
        if not hasattr(self, "node"):
            return
        here = self.model.here()
        counts = self.node.counts
        states = Counter(message.state for message in here)
        assert states[MessageState.AVAILABLE] == counts.available
        assert states[MessageState.ACQUIRED] == counts.acquired
        assert len(here) == len(self.node)
        deliveries = [
            len(delivery.octets) for link, _ in self.links for delivery in link.unsettled.values()
        ]
        assert (
            counts.octets + 400 * len(here) + sum(deliveries)
            == self.node._contents.memory.message_bytes
        )
        for message in self.model.messages:
            number = self.numbers.get(message.sequence)
            if number is not None:
                assert message.state == self.node.state_of(number)
        waiting = list(self.node.messages())
        assert [self.numbers[message.sequence] for message in here] == [
            one.sequence for one in waiting
        ]
        for message, one in zip(here, waiting, strict=True):
            assert message.message == Message.decode(one.octets)
            assert message.message.bare == scan(one.octets).bare
            assert message.header.delivery_count == one.delivery_count
            assert (message.arrival, message.expires) == (one.arrival, one.expires)
        assert sum(len(one.octets) for one in waiting) == counts.octets
        oldest = self.node.oldest
        assert (waiting[0] if waiting else None) == oldest
        due = [one.expires for one in here if one.state == "available" and one.expires is not None]
        if due:
            assert self.node.next_expiry is not None
            assert self.node.next_expiry <= min(due) + 1
        for found, expected in self.deliveries:
            assert expected.outcome == found.outcome
        self.check_letters()

    @invariant()
    def unsettled_deliveries_are_on_their_links(self) -> None:
        for link, theirs in self.links:
            unsettled = [one for one in theirs.deliveries if one.outcome is None]
            assert [self.ours(one) for one in unsettled] == [
                one.sequence for one in link.unsettled.values()
            ]


class DurableNode(Node):
    """The same on a file, which a restart opens again."""

    durable = True

    def make_store(self) -> SqliteStore:
        if not hasattr(self, "folder"):
            self.folder = tempfile.TemporaryDirectory()
        return SqliteStore(Path(self.folder.name) / "messages.db")

    def stop_store(self) -> None:
        # Not close(): that would commit what is pending.
        assert not self.store._pending
        self.store._database.close()

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            self.stop_store()
            self.folder.cleanup()


@pytest.mark.parametrize("machine", [Node, DurableNode])
def test_node_does_what_the_model_does(machine: type[Node]) -> None:
    machine.steps = 0
    if not STEPS:
        # Each step on the file waits for the disk.
        examples = settings().max_examples // (2 if machine.durable else 1)
        few = settings(max_examples=examples, stateful_step_count=STEPS_A_RUN, deadline=None)
        run_state_machine_as_test(machine, settings=few)
        return
    deep = settings(
        max_examples=200,
        stateful_step_count=200,
        deadline=None,
        derandomize=False,
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    while machine.steps < STEPS:  # each run takes steps
        run_state_machine_as_test(machine, settings=deep)
    print(f"{machine.__name__}: {machine.steps} steps")  # noqa: T201  (the figure that was asked for)
