"""The distribution node against a model of section 3.3, step by step, on both stores.

``AMQP10MSG_NODE_STEPS=100000`` runs so many steps on each store in place of a short run.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from pathlib import Path
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
    precondition,
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
from tests.node_model import Model, ModelDelivery, ModelLink

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


filters = st.none() | st.builds(
    Property, st.sampled_from(["property", "annotation", "count"]), st.integers(0, 1)
)
modified = st.builds(
    Modified,
    st.booleans(),
    st.booleans(),
    st.none() | st.dictionaries(st.sampled_from(["x-opt-n", "x-opt-m"]), st.integers(0, 1)),
)
outcomes = st.one_of(
    st.builds(Accepted),
    st.builds(Rejected, st.none() | st.just(Error("amqp:internal-error"))),
    st.builds(Released),
    modified,
)
headers = st.none() | st.builds(
    Header,
    durable=st.booleans(),
    priority=st.sampled_from([0, 3, 4, 5, 6, 9, 10, 255]),
    ttl=st.none() | st.integers(0, 8),
    first_acquirer=st.booleans(),
    delivery_count=st.integers(0, 2),
)
messages = st.builds(
    Message,
    st.sampled_from([b"", b"x", "text"]),
    header=headers,
    delivery_annotations=st.none() | st.just({"x-opt-hop": 1}),
    message_annotations=st.none() | st.builds(lambda n: {"x-opt-n": n}, st.integers(0, 1)),
    properties=st.none()
    | st.builds(Properties, absolute_expiry_time=st.none() | st.integers(0, 40)),
    application_properties=st.none() | st.builds(lambda n: {"n": n}, st.integers(0, 1)),
)


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
        queued=st.lists(messages, max_size=6),
        links=st.lists(st.tuples(st.booleans(), filters, st.none() | outcomes), max_size=4),
    )
    def start(self, levels: int, queued: list[Message], links: list[Any]) -> None:
        self.model = Model(levels, self.durable)
        self.store = self.make_store()
        self.make_node()
        for link in links:
            self.attach(*link)
        self.publish(queued, False)

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

    @rule(published=st.lists(messages, min_size=1, max_size=4), as_octets=st.booleans())
    def publish(self, published: list[Message], as_octets: bool) -> None:
        for message in published:
            made = self.model.publish(Message.decode(message.encode()))
            number = self.node.publish(message.encode() if as_octets else message)
            assert number not in self.numbers.values()
            self.numbers[made.sequence] = number

    @precondition(lambda self: len(self.links) < 5)
    @rule(copy=st.booleans(), passing=filters, default=st.none() | outcomes)
    def attach(self, copy: bool, passing: Any, default: Any) -> None:
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

    @precondition(lambda self: self.links)
    @rule(data=st.data(), times=st.integers(1, 4))
    def take(self, data: st.DataObject, times: int) -> None:
        link, theirs = data.draw(st.sampled_from(self.links))
        for _ in range(times):
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
        open_ones = [pair for pair in self.deliveries if pair[1].outcome is None]
        return data.draw(st.sampled_from(open_ones[-8:] + self.deliveries[-3:]))

    @precondition(lambda self: self.deliveries)
    @rule(data=st.data(), outcome=st.none() | outcomes)
    def settle(self, data: st.DataObject, outcome: Any) -> None:
        found, expected = self.choose(data)
        stands = self.model.settle(expected, outcome)
        assert stands == found.settle(outcome)
        assert stands == found.settle(Released())
        assert found.settled

    @precondition(lambda self: self.deliveries)
    @rule(data=st.data(), state=outcomes | st.builds(Received, st.just(0), st.just(0)))
    def tell(self, data: st.DataObject, state: Any) -> None:
        found, expected = self.choose(data)
        found.update(state)
        if expected.told is None and not isinstance(state, Received):
            expected.told = state

    @precondition(lambda self: self.links)
    @rule(data=st.data())
    def detach(self, data: st.DataObject) -> None:
        pair = data.draw(st.sampled_from(self.links))
        self.links.remove(pair)
        self.model.detach(pair[1])
        pair[0].detach()
        assert not pair[0].attached

    @rule(milliseconds=st.integers(1, 5))
    def wait(self, milliseconds: int) -> None:
        self.now += milliseconds
        self.model.now = self.now

    @rule()
    def expire(self) -> None:
        self.model.expire()
        self.node.expire()

    @precondition(lambda self: self.node.counts.archived > 3)
    @rule()
    def restart(self) -> None:
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
        run_state_machine_as_test(
            machine, settings=settings(stateful_step_count=STEPS_A_RUN, deadline=None)
        )
        return
    deep = settings(
        max_examples=200,
        stateful_step_count=200,
        deadline=None,
        derandomize=False,
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    while machine.steps < STEPS:
        run_state_machine_as_test(machine, settings=deep)
    print(f"{machine.__name__}: {machine.steps} steps")  # noqa: T201  (the figure that was asked for)
