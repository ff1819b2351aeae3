"""The distribution node: examples of what it does, and what its model does not say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest
from hypothesis import given

from amqp10msg import Header, Message, scan
from amqp10msg.delivery import (
    Accepted,
    Declared,
    MessageState,
    Modified,
    Received,
    Rejected,
    Released,
)
from amqp10msg.delivery.filters import FilterSet, NoLocal
from amqp10msg.delivery.node import (
    DeadLetter,
    MemoryStore,
    NodeError,
    priority_level,
)
from amqp10msg.testing import encodings, messages
from tests.delivery.node_model import folded
from tests.delivery.nodes import Clock, node_of, take, taken

pytestmark = pytest.mark.once

# Priorities.


@pytest.mark.once
def test_priorities_fold_as_the_specification_says() -> None:
    for levels in range(1, 257):
        effective = [folded(priority, levels) for priority in range(256)]
        ranks = {value: rank for rank, value in enumerate(sorted(set(effective)))}

        assert levels == len(ranks)
        assert [ranks[value] for value in effective] == [
            priority_level(priority, levels) for priority in range(256)
        ], levels


@pytest.mark.once
@pytest.mark.parametrize("levels", [0, 257])
def test_number_of_priorities_is_bounded(levels: int) -> None:
    with pytest.raises(ValueError, match="1 to 256"):
        node_of(priorities=levels)


@pytest.mark.parametrize(
    "levels, expected",
    [(1, "012345678"), (2, "567801234"), (3, "567840123"), (10, "876543210")],
)
def test_higher_priorities_come_first_and_older_messages_among_equals(
    levels: int, expected: str
) -> None:
    node = node_of(
        *(Message(str(n), header=Header(priority=n)) for n in range(9)), priorities=levels
    )

    assert list(expected) == taken(node.attach())


# What is delivered.


def footer_of(octets: bytes) -> list[bytes]:
    return [octets[part.offset : part.end] for part in scan(octets) if part.name == "footer"]


@given(messages().flatmap(encodings))
def test_bare_message_is_delivered_octet_for_octet(octets: bytes) -> None:
    node = node_of(accept_durable=True)
    node.publish(octets)
    link = node.attach()
    for outcome in (Modified(delivery_failed=True, message_annotations={"x-opt-a": 1}), Released()):
        delivery = link.next()
        if delivery is None:  # it has expired
            return
        assert scan(octets).bare == scan(delivery.octets).bare
        assert footer_of(octets) == footer_of(delivery.octets)
        delivery.settle(outcome)

    (held,) = node.messages()
    assert scan(octets).bare == scan(held.octets).bare


def test_header_of_a_delivery() -> None:
    clock = Clock(1_000)
    node = node_of(
        Message(
            "x",
            header=Header(priority=7, ttl=500, delivery_count=3, first_acquirer=False),
            delivery_annotations={"x-opt-hop": 1},
            message_annotations={"x-opt-keep": 1},
        ),
        clock=clock,
    )
    first, second = node.attach(), node.attach()

    clock.now = 1_200
    delivery = take(first)
    assert Header(priority=7, ttl=300, delivery_count=3, first_acquirer=True) == (
        delivery.message().header
    )
    assert None is delivery.message().delivery_annotations
    assert {"x-opt-keep": 1} == delivery.message().message_annotations

    delivery.settle(Modified(delivery_failed=True))
    clock.now = 1_500
    delivery = take(second)
    assert Header(priority=7, ttl=0, delivery_count=4, first_acquirer=False) == (
        delivery.message().header
    )
    delivery.settle(Released())
    header = take(first).message().header
    assert header is not None
    assert not header.first_acquirer, "the other link had it meanwhile"


def test_message_format_goes_with_the_message() -> None:
    node = node_of(Message(b"x", message_format=0x80013700))
    node.publish(b"", message_format=7)
    link = node.attach()

    assert [0x80013700, 7] == [take(link).message_format, take(link).message().message_format]


@pytest.mark.once
def test_deliveries_have_their_own_tags_and_messages_their_own_numbers() -> None:
    node = node_of("a", "b")
    link = node.attach()
    first, second = take(link), take(link)
    first.settle(Released())
    again = take(link)

    assert 3 == len({first.tag, second.tag, again.tag})
    assert (1, 2, 1) == (first.sequence, second.sequence, again.sequence)


# States and outcomes.


@pytest.mark.once
def test_every_transition_of_figure_3_1() -> None:
    node = node_of("x")
    link = node.attach()
    states = [node.state_of(1)]
    for outcome in (Released(), Modified(), Accepted()):
        delivery = take(link)
        states.append(node.state_of(1))
        delivery.settle(outcome)
        states.append(node.state_of(1))
    node.publish(Message("y"))
    take(link).settle(Rejected())

    available, acquired, archived = MessageState
    assert [available, acquired, available, acquired, available, acquired, archived] == states
    assert archived == node.state_of(2)
    assert (None, None) == (node.state_of(0), node.state_of(3))
    assert (0, 0, 2) == (node.counts.available, node.counts.acquired, node.counts.archived)
    assert {"accepted": 1, "rejected": 1} == node.counts.causes


@pytest.mark.once
def test_returned_message_keeps_its_position() -> None:
    node = node_of(*"abcd")
    link = node.attach()
    a, b = take(link), take(link)
    b.settle(Released())
    a.settle(Modified())

    assert list("abcd") == taken(link)


@pytest.mark.once
def test_first_outcome_is_final() -> None:
    node = node_of("x")
    delivery = take(node.attach())

    assert Released() == delivery.settle(Released())
    assert Released() == delivery.settle(Accepted())
    assert MessageState.AVAILABLE == node.state_of(1)


@pytest.mark.once
def test_message_stays_acquired_until_the_transfer_is_settled() -> None:
    node = node_of("x")
    delivery = take(node.attach())
    delivery.update(Received(0, 0))
    delivery.update(Accepted())
    delivery.update(Rejected())  # too late: a terminal state does not change

    assert MessageState.ACQUIRED == node.state_of(1)
    assert Accepted() == delivery.settle()
    assert MessageState.ARCHIVED == node.state_of(1)


@pytest.mark.once
@pytest.mark.parametrize("outcome", [Received(0, 0), Declared(b"x"), None, "accepted"])
def test_only_an_outcome_settles(outcome: Any) -> None:
    node = node_of("x")
    if outcome is not None:
        with pytest.raises(ValueError, match=r"with an outcome|unknown effect"):
            take(node.attach()).settle(outcome)
        with pytest.raises(ValueError, match="must be an outcome"):
            node.attach(default_outcome=outcome)
    with pytest.raises(ValueError, match="sideways"):
        node.attach(mode="sideways")


@pytest.mark.once
@pytest.mark.parametrize(
    "default, state, count",
    [
        (None, MessageState.AVAILABLE, 0),
        (Modified(delivery_failed=True), MessageState.AVAILABLE, 1),
        (Rejected(), MessageState.ARCHIVED, 1),
        (Accepted(), MessageState.ARCHIVED, 0),
    ],
)
def test_default_outcome_where_a_link_dies_unsettled(
    default: Any, state: MessageState, count: int
) -> None:
    letters: list[DeadLetter] = []
    node = node_of("x", "y", "z", dead_letter=letters.append)
    link = node.attach(default_outcome=default)
    first, told = take(link), take(link)
    told.update(Accepted())
    link.detach()
    link.detach()

    assert [state, MessageState.ARCHIVED, MessageState.AVAILABLE] == [
        node.state_of(number) for number in (1, 2, 3)
    ]
    assert (default or Released(), Accepted()) == (first.outcome, told.outcome)
    counts = [one.delivery_count for one in node.messages() if one.sequence == 1]
    counts += [Message.decode(one.octets).header.delivery_count for one in letters]  # type: ignore[union-attr]
    assert counts in ([count], [])
    with pytest.raises(NodeError, match="detached"):
        link.next()


@pytest.mark.once
def test_undeliverable_here_only_excludes_this_link() -> None:
    node = node_of(*"abc")
    one, other = node.attach(), node.attach()
    a, b = take(one), take(one)
    a.settle(Modified(undeliverable_here=True))
    b.settle(Released())

    assert list("bc") == taken(one)
    assert list("a") == taken(other)


@pytest.mark.once
def test_taking_settled_is_at_most_once() -> None:
    node = node_of("x")
    delivery = node.attach().next(settled=True)

    assert delivery is not None
    assert Accepted() == delivery.outcome
    assert 0 == len(node)


# Copy mode.


@pytest.mark.once
def test_copy_links_get_every_message_once_and_leave_it() -> None:
    node = node_of(*"abc")
    one, other = node.attach(mode="copy"), node.attach(mode="copy")
    first = [take(one) for _ in "abc"]
    assert list("abc") == taken(other)
    first[0].settle(Accepted())
    first[1].settle(Rejected())
    first[2].settle(Released())

    assert ["c"] == taken(one), "it was not transferred successfully"
    assert [0, 1, 0] == [waiting.delivery_count for waiting in node.messages()]
    assert 3 == node.counts.available
    move = node.attach()
    assert list("abc") == taken(move)
    assert list("abc") == taken(node.attach(mode="copy")), "acquired ones can still be copied"


@pytest.mark.once
def test_copy_of_a_message_that_is_gone_settles_without_effect() -> None:
    node = node_of("x")
    copy = take(node.attach(mode="copy"))
    take(node.attach()).settle(Accepted())

    assert Modified(delivery_failed=True) == copy.settle(Modified(delivery_failed=True))
    assert 1 == node.counts.archived


@pytest.mark.once
def test_browsers_that_come_and_go_leave_nothing_at_the_messages() -> None:
    node = node_of(*"abc")
    for _ in range(3):
        browser = node.attach(mode="copy")
        assert list("abc") == taken(browser)
        take(node.attach(filter=Counting(lambda message: message.text() == "c"))).settle(
            Modified(undeliverable_here=True)
        )
        browser.detach()
    for link in node.links:
        link.detach()

    assert [set()] * 3 == [entry.barred_links for entry in node._contents.entries.values()]
    assert [node._cursors._shared] == node._cursors._views


@pytest.mark.once
def test_long_browser_does_not_grow_with_what_is_gone() -> None:
    node = node_of()
    browser, link = node.attach(mode="copy"), node.attach()
    for _ in range(100):
        node.publish(Message("x"))
        take(browser).settle(Accepted())
        take(link).settle(Accepted())

    assert {} == browser._cursor.barred
    assert {} == browser.unsettled


# Filters.


@attrs.define
class Counting:
    passing: Callable[[Message], Any]
    asked: int = 0

    def matches(self, message: Message) -> bool:
        self.asked += 1
        return bool(self.passing(message))


@pytest.mark.once
def test_filter_looks_at_each_message_once() -> None:
    node = node_of(*(str(n) for n in range(1_000)))
    counting = Counting(lambda message: message.text().endswith("7"))
    link = node.attach(filter=counting)
    delivery = take(link)
    assert (8, "7") == (counting.asked, delivery.message().text())
    assert 99 == len(taken(link))
    assert [] == taken(link)
    assert 1_000 == counting.asked

    delivery.settle(Released())
    node.publish(Message("17"))
    assert ["7", "17"] == taken(link)
    assert 1_002 == counting.asked


@pytest.mark.once
def test_filter_is_asked_again_where_an_outcome_changed_the_message() -> None:
    node = node_of("x")
    marked = Counting(lambda message: bool(message.message_annotations))
    link = node.attach(filter=marked)
    assert [] == taken(link)
    take(node.attach()).settle(Modified(message_annotations={"x-opt-a": 1}))

    assert ["x"] == taken(link)


@pytest.mark.once
def test_filter_receives_the_local_flag() -> None:
    node = node_of()
    node.publish(Message("mine"), origin="me")
    node.attach_incoming().publish(Message("yours"), origin="you")
    filters = FilterSet({"no-local": NoLocal()})

    assert ["yours"] == taken(node.attach(filter=filters, origin="me"))


@pytest.mark.once
def test_filter_that_fails_loses_nothing() -> None:
    node = node_of("x")
    answers = iter([ZeroDivisionError(), True])

    def judge(_: Message) -> object:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    link = node.attach(filter=Counting(judge))
    with pytest.raises(ZeroDivisionError):
        link.next()

    assert ["x"] == taken(link)


# Looking at it.


@pytest.mark.once
def test_oldest_and_the_list() -> None:
    clock = Clock(5)
    node = node_of(clock=clock)
    assert None is node_of().oldest
    node.publish(Message("low", header=Header(priority=1)))
    clock.now = 6
    node.publish(Message("high", header=Header(priority=9, ttl=10)))
    take(node.attach())

    oldest = node.oldest
    assert oldest is not None
    assert (1, 5, MessageState.AVAILABLE, 1) == (
        oldest.sequence,
        oldest.arrival,
        oldest.state,
        oldest.level,
    )
    assert [(1, "available", None), (2, "acquired", 16)] == [
        (one.sequence, one.state, one.expires) for one in node.messages()
    ]
    assert "<DistributionNode 'n': 1 available, 1 acquired>" == repr(node)


@pytest.mark.once
def test_waiting_is_told_what_becomes_available() -> None:
    told: list[int] = []
    node = node_of(on_available=lambda: told.append(1))
    node.publish(Message("x"))
    delivery = take(node.attach())
    assert 1 == len(told)
    delivery.settle(Released())

    assert 2 == len(told)


@pytest.mark.once
def test_memory_store_does_nothing() -> None:
    store = MemoryStore()
    node = node_of("x", store=store)
    with node.batch():
        take(node.attach()).settle(Accepted())
    node.commit()

    assert [] == list(store.load("n"))
