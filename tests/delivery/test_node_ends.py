"""How messages and nodes end: expiry, refusals, dead letters, lifetimes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from amqp10msg import Data, DecodeError, Header, Message, Properties
from amqp10msg.delivery import (
    Accepted,
    DeleteOnClose,
    DeleteOnNoLinks,
    DeleteOnNoLinksOrMessages,
    DeleteOnNoMessages,
    Error,
    MessageState,
    Rejected,
    Released,
)
from amqp10msg.delivery.node import (
    Capacity,
    DeadLetter,
    Delivery,
    DistributionNode,
    Memory,
    NodeError,
)
from tests.delivery.nodes import Clock, node_of, take, taken

pytestmark = pytest.mark.once

# Expiry.


@pytest.mark.once
def test_expiry_is_spontaneous_and_ends_the_copies() -> None:
    clock, letters, ended = Clock(100), list[DeadLetter](), list[Delivery]()
    node = node_of(
        Message("ttl", header=Header(ttl=50)),
        Message("absolute", properties=Properties(absolute_expiry_time=120)),
        Message("never"),
        clock=clock,
        dead_letter=letters.append,
    )
    copies = node.attach(mode="copy", on_ended=ended.append)
    copy = [take(copies) for _ in range(3)][1]
    assert 121 == node.next_expiry

    clock.now = 120
    assert 0 == node.expire()
    clock.now = 121
    assert 1 == node.expire()
    assert [copy] == ended
    assert Accepted() == copy.outcome == copy.settle(Released())
    assert [("absolute", "expired", 100)] == [
        (Message.decode(one.octets).text(), one.cause, one.arrival) for one in letters
    ]
    clock.now = 1_000
    assert ["never"] == taken(node.attach())
    assert None is node.next_expiry


@pytest.mark.once
def test_node_where_nothing_expires() -> None:
    clock = Clock()
    node = node_of(Message("x", header=Header(ttl=5)), clock=clock, expires=False)
    clock.now = 6

    assert None is node.next_expiry
    assert Header(ttl=0, first_acquirer=True) == take(node.attach()).message().header


@pytest.mark.once
def test_clock_set_back_does_not_extend_the_ttl() -> None:
    clock = Clock(1_000)
    node = node_of(Message("x", header=Header(ttl=2**32 - 1)), clock=clock)
    clock.now = 0

    # More would not be a uint, and could not be delivered.
    assert 2**32 - 1 == take(node.attach()).message().ttl


@pytest.mark.once
@pytest.mark.parametrize("seen", [False, True])
def test_acquired_message_expires_when_it_comes_back(seen: bool) -> None:
    clock = Clock()
    node = node_of(Message("x", header=Header(ttl=5)), clock=clock)
    delivery = take(node.attach())
    clock.now = 6
    if seen:
        node.expire()
    assert MessageState.ACQUIRED == node.state_of(1)
    if seen:
        assert None is node.attach(mode="copy").next()
    delivery.settle(Released())

    assert {"expired": 1} == node.counts.causes


@pytest.mark.once
def test_list_of_what_expires_does_not_grow_with_what_is_gone() -> None:
    node = node_of()
    link = node.attach()
    for _ in range(1_000):
        node.publish(Message("x", header=Header(ttl=10_000)))
        take(link).settle(Accepted())

    assert len(node._contents._expiry) <= 66


@pytest.mark.once
def test_views_that_stand_still_do_not_grow() -> None:
    node = node_of("last")
    link, idle = node.attach(), node.attach(mode="copy")
    taken(idle)
    for _ in range(1_000):
        node.publish(Message("x", header=Header(priority=9)))
        delivery = take(link)
        take(idle).settle(Accepted())
        delivery.settle(Released())
        take(link).settle(Accepted())

    assert all(len(back._heap) < 50 for back in idle._cursor.view._offered)
    assert len(node._contents.levels[9]._segments) == 1


# Refusals.


@pytest.mark.once
def test_node_that_keeps_nothing_refuses_durable_messages() -> None:
    durable = Message("x", header=Header(durable=True))
    with pytest.raises(NodeError) as caught:
        node_of(durable)
    assert "amqp:precondition-failed" == caught.value.condition
    assert Error("amqp:precondition-failed", caught.value.reason) == caught.value.error
    assert "(amqp:precondition-failed)" in str(caught.value)

    assert 1 == len(node_of(durable, accept_durable=True))


@pytest.mark.once
@pytest.mark.parametrize(
    "capacity, text",
    [
        (Capacity(messages=2), "takes at most 2 messages"),
        (Capacity(octets=12), "takes at most 12 bytes, has 12, and this message 7 more"),
        (Capacity(message_octets=6), "takes at most 6 bytes in a message, and this one has 7"),
    ],
)
def test_capacity(capacity: Capacity, text: str) -> None:
    clock = Clock()
    short = Message(Data(b"x"), header=None)
    node = node_of(short, short, clock=clock, capacity=capacity)
    with pytest.raises(NodeError, match=text) as caught:
        node.publish(Message(Data(b"xy")))

    assert "amqp:resource-limit-exceeded" == caught.value.condition
    assert 2 == len(node)
    taken_one = take(node.attach())
    taken_one.settle(Accepted())
    node.publish(short)


@pytest.mark.once
def test_nodes_share_memory() -> None:
    """A message counts with its size and 400 bytes, and again while a delivery is unsettled."""
    memory = Memory(1_500)
    clock = Clock()
    first = DistributionNode("first", clock=clock, memory=memory)
    second = DistributionNode("second", clock=clock, memory=memory)
    octets = Message(Data(b"x" * 100)).encode()  # 105 bytes
    first.publish(octets)
    second.publish(octets)
    assert 2 * 505 == memory.message_bytes
    with pytest.raises(NodeError, match=r"'second' has no room: 1500 .* 1010 .* takes 505") as full:
        second.publish(octets)
    assert "amqp:resource-limit-exceeded" == full.value.condition

    assert 3 == len(first) + second.publish(octets, always=True)
    copies = first.attach(mode="copy")
    copy = take(copies)
    assert 3 * 505 + len(copy.octets) == memory.message_bytes
    taken = take(first.attach())
    taken.settle(Accepted())
    assert 2 * 505 + len(copy.octets) == memory.message_bytes
    first.delete()
    copy.settle()
    assert 2 * 505 == memory.message_bytes
    second.delete()
    assert 0 == memory.message_bytes


@pytest.mark.once
def test_expired_messages_free_capacity() -> None:
    clock = Clock()
    node = node_of(Message("x", header=Header(ttl=1)), clock=clock, capacity=Capacity(messages=1))
    clock.now = 2

    assert 2 == node.publish(Message("y"))


def test_what_is_no_message_is_refused() -> None:
    with pytest.raises(DecodeError):
        node_of().publish(b"\0\x53")


# Dead letters.


@pytest.mark.once
def test_dead_letter_carries_the_rejection() -> None:
    letters: list[DeadLetter] = []
    node = node_of(Message("x", message_format=3), dead_letter=letters.append)
    rejected = Rejected(Error("amqp:not-allowed"))
    take(node.attach()).settle(rejected)

    (letter,) = letters
    assert ("rejected", "n", rejected, 3) == (
        letter.cause,
        letter.node,
        letter.outcome,
        letter.message_format,
    )
    assert Header(delivery_count=1) == Message.decode(letter.octets).header


@pytest.mark.once
def test_dead_letter_that_cannot_be_handed_over_is_not_lost() -> None:
    clock = Clock()
    failing = True

    def hand_over(_: DeadLetter) -> None:
        if failing:
            raise OSError("the other side is full")

    node = node_of("a", Message("b", header=Header(ttl=1)), clock=clock, dead_letter=hand_over)
    link = node.attach(default_outcome=Rejected())
    delivery = take(link)
    clock.now = 2
    for action in (lambda: delivery.settle(Rejected()), link.detach, node.expire, node.delete):
        with pytest.raises(OSError, match="full"):
            action()
    assert (1, 1, 0) == (node.counts.available, node.counts.acquired, node.counts.archived)
    assert link.attached
    assert not node.deleted

    failing = False
    assert 1 == node.expire()
    link.detach()
    assert {"expired": 1, "rejected": 1} == node.counts.causes


# Lifetimes and the end.


@pytest.mark.once
@pytest.mark.parametrize(
    "policy, expected",
    [
        # After: nothing yet, the creator and another link, a message, the creator gone, the other
        # link gone, the message gone.
        (None, "000000"),
        (DeleteOnClose(), "000111"),
        (DeleteOnNoLinks(), "000011"),
        (DeleteOnNoMessages(), "000001"),
        (DeleteOnNoLinksOrMessages(), "000001"),
    ],
)
@pytest.mark.parametrize("incoming", [False, True])
def test_lifetime_policies(policy: Any, expected: str, incoming: bool) -> None:
    clock = Clock()
    node = node_of(clock=clock, lifetime=policy)
    due = [node.due]
    creator: Any
    if incoming:
        creator = node.attach_incoming(creates=True)
        other: Any = node.attach()
    else:
        creator = node.attach(creates=True)
        other = node.attach_incoming()
    due.append(node.due)
    node.publish(Message("x", header=Header(ttl=1)))
    due.append(node.due)
    creator.detach()
    due.append(node.due)
    other.detach()
    due.append(node.due)
    clock.now = 2
    node.expire()
    due.append(node.due)

    assert expected == "".join(str(int(one)) for one in due)


@pytest.mark.once
@pytest.mark.parametrize(
    "policy, due", [(DeleteOnNoMessages(), True), (DeleteOnNoLinksOrMessages(), False)]
)
def test_policies_differ_where_messages_go_before_the_links(policy: Any, due: bool) -> None:
    node = node_of("x", lifetime=policy)
    creator = node.attach(creates=True)
    other = node.attach()
    take(creator).settle(Accepted())
    creator.detach()

    assert due == node.due
    other.detach()
    assert node.due


@pytest.mark.once
def test_deleted_node_ends_everything() -> None:
    letters, ended = list[DeadLetter](), list[Delivery]()
    node = node_of(*"abc", dead_letter=letters.append)
    link = node.attach(on_ended=ended.append)
    incoming = node.attach_incoming("in")
    assert 4 == incoming.publish(Message("d"))
    assert [link, incoming] == list(node.links)
    delivery = take(link)
    node.delete()
    node.delete()

    assert ["deleted"] * 4 == [letter.cause for letter in letters]
    assert [delivery] == ended
    assert node.deleted
    assert not link.attached
    assert not incoming.attached
    assert [] == list(node.links)
    assert 0 == len(node)
    actions: list[Callable[[], Any]] = [
        link.next,
        node.attach,
        node.attach_incoming,
        lambda: node.publish(b""),
    ]
    for action in actions:
        with pytest.raises(NodeError) as caught:
            action()
        assert "amqp:resource-deleted" == caught.value.condition
    assert Accepted() == delivery.settle(Rejected())
    link.detach()


@pytest.mark.once
def test_delivery_that_cannot_be_settled_does_not_stop_the_others_of_its_link() -> None:
    def hand_over(letter: DeadLetter) -> None:
        if Message.decode(letter.octets).text() == "b":
            raise OSError("the other side is full")

    node = node_of(*"abc", dead_letter=hand_over)
    link = node.attach(default_outcome=Rejected())
    taken(link)
    with pytest.raises(OSError, match="full"):
        link.detach()
    assert ["b"] == [delivery.message().text() for delivery in link.unsettled.values()]
    assert (1, {"rejected": 2}) == (node.counts.acquired, node.counts.causes)
    for delivery in [*link.unsettled.values()]:
        delivery.settle(Released())
    link.detach()

    assert ((), 1, 0) == (node.links, node.counts.available, node.counts.acquired)


@pytest.mark.once
def test_all_links_hear_of_an_expiry_also_where_one_cannot() -> None:
    told: list[str] = []

    def hear(delivery: Delivery) -> None:
        told.append(delivery.link.name)
        if delivery.link.name == "a":
            raise OSError("not heard")

    clock = Clock()
    node = node_of(Message("x", header=Header(ttl=1)), clock=clock)
    for name in "abc":
        take(node.attach(name, mode="copy", on_ended=hear))
    clock.now = 2
    with pytest.raises(OSError, match="not heard"):
        node.expire()

    assert ["a", "b", "c"] == told
