"""Durable messages in a file: what is kept and confirmed, and what happens where that fails."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg import Header, Limits, Message, ULong, scan
from amqp10msg.delivery import (
    Accepted,
    DistributionNode,
    MessageState,
    Modified,
    Rejected,
    Released,
)
from amqp10msg.delivery.filters import FilterSet
from amqp10msg.delivery.node import DeadLetter, OutcomeError, Stored, StoreError
from amqp10msg.delivery.node.sqlite import SqliteStore

pytestmark = pytest.mark.once


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "messages.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    with SqliteStore(path) as opened:
        yield opened


def durable(text: str, **header: Any) -> Message:
    return Message(text, header=Header(durable=True, **header))


def node_on(store: SqliteStore, name: str = "n", **options: Any) -> DistributionNode:
    return DistributionNode(name, **{"clock": lambda: 0, "store": store, **options})


def texts(node: DistributionNode) -> list[str]:
    return [Message.decode(one.octets).text() for one in node.messages()]


def commits_of(store: SqliteStore) -> list[str]:
    """The commits from here on."""
    commits: list[str] = []

    def trace(statement: str) -> None:
        if statement == "COMMIT":
            commits.append(statement)

    store._database.set_trace_callback(trace)
    return commits


def fail(store: SqliteStore, operation: str) -> None:
    """Let every INSERT or DELETE fail, as a full disk does."""
    store._database.execute(
        f"CREATE TEMP TRIGGER broken BEFORE {operation} ON main.message"
        " BEGIN SELECT RAISE(ABORT, 'disk full'); END"
    )


def repair(store: SqliteStore) -> None:
    store._database.execute("DROP TRIGGER broken")


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 6)), max_size=12), st.booleans())
def test_load_includes_pending_changes(changes: list[tuple[bool, int]], committed: bool) -> None:
    with SqliteStore(":memory:") as store:
        for number in (1, 3, 5):
            store.put("q", Stored(number, 0, b"old"))
        store.put("other", Stored(2, 0, b"other"))
        store.commit()
        expected = dict.fromkeys((1, 3, 5), b"old")
        with store.batch():
            for is_put, number in changes:
                if is_put:
                    store.put("q", Stored(number, 0, b"new"))
                    expected[number] = b"new"
                else:
                    store.remove("q", number)
                    expected.pop(number, None)
            if not committed:
                loaded = [(one.sequence, one.octets) for one in store.load("q")]
        if committed:
            loaded = [(one.sequence, one.octets) for one in store.load("q")]
    assert sorted(expected.items()) == loaded


def test_node_that_is_made_again_at_once_has_nothing_of_the_one_before(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "s.db") as store:
        node = DistributionNode("q", clock=lambda: 0, store=store)
        node.publish(Message("old", header=Header(durable=True)))
        with store.batch():
            node.delete()
            again = DistributionNode("q", clock=lambda: 0, store=store)
            assert 0 == len(again)
            again.publish(Message("new", header=Header(durable=True)))
        (stored,) = store.load("q")
        assert "new" == Message.decode(stored.octets).text()


def test_durable_messages_are_there_again_and_others_are_not(path: Path) -> None:
    with SqliteStore(path) as store:
        node = node_on(store, clock=lambda: 77)
        node.publish(durable("a", ttl=1_000), message_format=5)
        node.publish(Message("not durable"))
        for text in "bcde":
            node.publish(durable(text))
        link = node.attach()
        deliveries = {}
        while (delivery := link.next()) is not None:
            deliveries[delivery.message().text()] = delivery
        deliveries["b"].settle(Accepted())
        deliveries["c"].settle(Rejected())
        deliveries["d"].settle(Released())
        deliveries["e"].settle(
            Modified(delivery_failed=True, message_annotations={"x-opt-why": "again"})
        )
    with SqliteStore(path) as store:
        assert [] == list(store.load("another node"))
        node = node_on(store, clock=lambda: 100)

        assert list("ade") == texts(node)
        assert [0, 0, 1] == [one.delivery_count for one in node.messages()]
        assert 3 == node.counts.available
        first = node.attach().next()
        assert first is not None
        assert (5, "a") == (first.message_format, first.message().text())
        # Whether a link had acquired it, nobody knows any more.
        assert Header(durable=True, ttl=977, first_acquirer=False) == first.message().header
        (*_, last) = node.messages()
        assert {"x-opt-why": "again"} == scan(last.octets).section("message-annotations")
        assert last.sequence < node.publish(durable("f"))


def test_file_is_written_and_synced_at_every_commit(store: SqliteStore) -> None:
    (mode,) = store._database.execute("PRAGMA journal_mode").fetchone()
    (synchronous,) = store._database.execute("PRAGMA synchronous").fetchone()

    assert ("wal", 2) == (mode, synchronous)


def test_each_call_is_confirmed_by_a_commit_of_its_own(store: SqliteStore) -> None:
    node = node_on(store)
    commits = commits_of(store)
    node.publish(durable("a"))
    node.publish(Message("not durable"))
    assert 1 == len(commits)
    delivery = node.attach().next()
    assert delivery is not None
    assert 1 == len(commits)
    delivery.settle(Accepted())

    assert 2 == len(commits)


def test_batch_is_confirmed_at_its_end_for_all_nodes(path: Path) -> None:
    with SqliteStore(path) as store:
        node, other = node_on(store), node_on(store, "other")
        commits = commits_of(store)

        def publish_and_fail() -> None:
            with node.batch():
                node.publish(durable("a"))
                with other.batch():
                    other.publish(durable("b"))
                assert [] == commits
                raise KeyError

        with pytest.raises(KeyError):
            publish_and_fail()
        assert 1 == len(commits)
    with SqliteStore(path) as store:
        assert ["n", "other"] == store.names()
        assert (["a"], ["b"]) == (texts(node_on(store)), texts(node_on(store, "other")))


def test_message_added_and_removed_in_a_batch_is_not_written(
    path: Path, store: SqliteStore
) -> None:
    node = node_on(store)
    link = node.attach()
    log = path.with_name("messages.db-wal")
    size = log.stat().st_size
    with node.batch():
        for _ in range(100):
            node.publish(durable("x" * 1_000))
            delivery = link.next(settled=True)
            assert delivery is not None

    assert size == log.stat().st_size


def test_dead_letter_moves_from_node_to_node_at_once(store: SqliteStore) -> None:
    dead = node_on(store, "dead")

    def hand_over(letter: DeadLetter) -> None:
        dead.publish(letter.octets)

    node = node_on(store, dead_letter=hand_over)
    node.publish(durable("a"))
    delivery = node.attach().next()
    assert delivery is not None
    commits = commits_of(store)
    delivery.settle(Rejected())

    assert 1 == len(commits)
    assert ([], ["a"]) == (texts(node), texts(dead))


def test_message_that_cannot_be_stored_is_not_at_the_node(path: Path) -> None:
    with SqliteStore(path) as store:
        node = node_on(store)
        fail(store, "INSERT")
        with pytest.raises(StoreError, match="cannot be written: disk full") as caught:
            node.publish(durable("a"))
        assert "amqp:internal-error" == caught.value.condition
        assert 0 == len(node)
        repair(store)
        assert 1 == node.publish(durable("b"))
    with SqliteStore(path) as store:
        assert ["b"] == texts(node_on(store))


def test_message_that_could_not_be_stored_is_not_written_by_a_later_commit(path: Path) -> None:
    with SqliteStore(path) as store:
        node, other = node_on(store), node_on(store, "other")
        fail(store, "INSERT")
        with pytest.raises(StoreError, match="disk full"):
            node.publish(durable("a"))
        repair(store)
        other.publish(durable("b"))
    with SqliteStore(path) as store:
        assert ([], ["b"]) == (texts(node_on(store)), texts(node_on(store, "other")))


def test_outcome_that_cannot_be_stored_stands_and_stays_pending(path: Path) -> None:
    with SqliteStore(path) as store:
        node = node_on(store)
        node.publish(durable("a"))
        delivery = node.attach().next()
        assert delivery is not None
        fail(store, "DELETE")
        with pytest.raises(StoreError, match="disk full"):
            delivery.settle(Accepted())
        assert Accepted() == delivery.outcome
        assert 1 == node.counts.archived
        with pytest.raises(StoreError, match="disk full"):
            node.commit()
        repair(store)
        node.commit()
    with SqliteStore(path) as store:
        assert [] == texts(node_on(store))


def test_link_whose_end_cannot_be_stored_can_be_detached_again(store: SqliteStore) -> None:
    node = node_on(store)
    node.publish(durable("a"))
    link = node.attach(default_outcome=Rejected())
    link.next()
    fail(store, "DELETE")
    with pytest.raises(StoreError):
        link.detach()
    assert [link] == list(node.links)
    repair(store)
    link.detach()

    assert [] == list(node.links)
    assert [] == list(store.load("n"))


OPEN_IN_ANOTHER_PROCESS = """
import sys
from amqp10msg.delivery.node import StoreError
from amqp10msg.delivery.node.sqlite import SqliteStore
try:
    SqliteStore(sys.argv[1])
except StoreError as error:
    print(error.reason)
"""


def test_file_is_open_in_one_process_at_a_time(path: Path, store: SqliteStore) -> None:
    assert [] == list(store.load("n"))
    found = subprocess.run(
        [sys.executable, "-c", OPEN_IN_ANOTHER_PROCESS, str(path)],
        cwd=Path(__file__).parents[2],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert found.endswith("cannot be opened: another process has it open\n")
    with pytest.raises(StoreError, match="has it open"):
        SqliteStore(path)


def test_files_of_others_are_refused_and_left_alone(path: Path) -> None:
    path.write_bytes(b"no database at all" * 100)
    with pytest.raises(StoreError, match="not a database"):
        SqliteStore(path)
    path.unlink()
    with pytest.raises(StoreError, match="unable to open"):
        SqliteStore(path.parent / "missing" / "messages.db")
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE somebody (elses)")
    database.commit()
    database.close()
    with pytest.raises(StoreError, match="another application"):
        SqliteStore(path)
    path.unlink()
    SqliteStore(path).close()
    database = sqlite3.connect(path)
    database.execute("PRAGMA user_version = 2")
    database.commit()
    database.close()
    with pytest.raises(StoreError, match=r"version 2 .* supports version 1"):
        SqliteStore(path)


def test_store_that_cannot_be_read_says_so(path: Path) -> None:
    store = SqliteStore(path)
    store._database.close()
    with pytest.raises(StoreError, match="cannot be read"):
        node_on(store)


def test_delivery_tags_are_not_given_again_after_a_restart(path: Path) -> None:
    tags = set()
    for now in (0, 1, 1_700_000_000_000):
        with SqliteStore(path) as store:
            node = node_on(store, clock=lambda now=now: now)
            for text in "abc":
                assert node.publish(durable(text)) in {1, 2, 3}
            link = node.attach()
            while (delivery := link.next()) is not None:
                assert 8 == len(delivery.tag)
                tags.add(delivery.tag)
                delivery.settle(Accepted())

    assert 9 == len(tags)


# What cannot be read, or could not be.


def many_keys(count: int) -> Message:
    """A message with as many ulong keys as a map may have, or more."""
    annotations: Any = {ULong(key): None for key in range(count)}
    return Message("x", header=Header(durable=True), message_annotations=annotations)


ONE_KEY_MORE = Modified(message_annotations={ULong(5_000): None})  # type: ignore[dict-item]


@pytest.mark.parametrize(
    "message, outcome",
    [
        (many_keys(4_096), ONE_KEY_MORE),
        (
            Message([None] * 999_998, header=Header(durable=True)),
            Modified(message_annotations={"x-opt-a": 1}),
        ),
    ],
)
def test_outcome_that_makes_a_message_unreadable_is_refused(
    path: Path, message: Message, outcome: Modified
) -> None:
    octets = message.encode()
    with SqliteStore(path) as store:
        node = node_on(store)
        node.publish(octets)
        link = node.attach(default_outcome=outcome)
        delivery = link.next()
        assert delivery is not None
        with pytest.raises(OutcomeError, match="refuses the outcome modified"):
            delivery.settle(outcome)
        assert (False, 1) == (delivery.settled, node.counts.acquired)
        assert Released() == delivery.settle(Released())
        assert octets == next(node.messages()).octets
        # Neither what the receiver told nor the default-outcome can be applied.
        delivery = link.next()
        assert delivery is not None
        delivery.update(outcome)
        link.detach()
        assert (1, 0) == (node.counts.available, node.counts.acquired)
        assert () == node.links
    with SqliteStore(path) as store:
        node = node_on(store)
        assert [octets] == [one.octets for one in node.messages()]
        assert [] == node.quarantined


def test_message_at_the_limit_of_items_cannot_be_counted_and_can_be_rejected() -> None:
    octets = Message([None] * 999_998).encode()
    letters: list[DeadLetter] = []
    node = DistributionNode("n", clock=lambda: 0, dead_letter=letters.append)
    node.publish(octets)
    delivery = node.attach().next()
    assert delivery is not None
    with pytest.raises(OutcomeError) as caught:
        delivery.settle(Modified(delivery_failed=True))
    assert "amqp:resource-limit-exceeded" == caught.value.error.condition
    assert Rejected() == delivery.settle(Rejected())

    assert [octets] == [letter.octets for letter in letters]


def test_node_with_wider_limits_reads_again_what_it_took() -> None:
    node = DistributionNode("n", clock=lambda: 0, limits=Limits(items=2_000_000))
    node.publish(Message([None] * 1_500_000))
    delivery = node.attach(filter=FilterSet({})).next()
    assert delivery is not None
    assert 1_500_000 == len(delivery.message().body.value)  # type: ignore[union-attr]
    delivery.settle(Modified(delivery_failed=True))

    assert [1] == [one.delivery_count for one in node.messages()]


@given(
    st.integers(0, 6),
    st.lists(st.sampled_from(["a", "b", "c", ULong(1), ULong(2)]), max_size=3, unique=True),
    st.booleans(),
)
def test_what_an_outcome_leaves_is_readable_or_as_it_was(
    items: int, keys: list[Any], failed: bool
) -> None:
    limits = Limits(items=12, size=48)
    node = DistributionNode("n", clock=lambda: 0, limits=limits)
    octets = Message([None] * items, message_annotations={"x-opt-a": 1}).encode()
    node.publish(octets)
    delivery = node.attach().next()
    assert delivery is not None
    try:
        delivery.settle(Modified(failed, message_annotations=dict.fromkeys(keys, "xyz") or None))
    except OutcomeError:
        delivery.settle(Released())
        assert octets == next(node.messages()).octets

    (held,) = node.messages()
    assert MessageState.AVAILABLE is held.state
    Message.decode(held.octets, limits=limits)


@pytest.mark.parametrize("default", [Accepted(), Rejected(), Released()])
def test_refused_outcome_of_a_detached_link_is_replaced_by_its_default(default: Any) -> None:
    node = DistributionNode("n", clock=lambda: 0, limits=Limits(size=48))
    node.publish(Message(b"a"))
    link = node.attach(default_outcome=default)
    delivery = link.next()
    assert delivery is not None
    delivery.state = Modified(message_annotations={"x-opt-a": "a" * 48})
    link.detach()

    assert default == delivery.outcome
    assert (isinstance(default, Released), not isinstance(default, Released)) == (
        bool(node.counts.available),
        bool(node.counts.archived),
    )


def spoil(path: Path, sequence: int, octets: Any) -> None:
    database = sqlite3.connect(path)
    database.execute("UPDATE message SET octets = ? WHERE sequence = ?", (octets, sequence))
    database.commit()
    database.close()


@pytest.mark.parametrize("octets", [b"\0\x53", many_keys(4_097).encode(), "text"])
def test_message_that_cannot_be_read_is_put_aside(path: Path, octets: Any) -> None:
    with SqliteStore(path) as store:
        node = node_on(store, clock=lambda: 77)
        for text in "abc":
            node.publish(durable(text), message_format=5)
    spoil(path, 2, octets)
    spoil(path, 3, octets)
    for _ in range(2):
        with SqliteStore(path) as store:
            node = node_on(store)
            assert ["a"] == texts(node)
            assert [("n", Stored(2, 77, octets, 5)), ("n", Stored(3, 77, octets, 5))] == [
                (one.node, one.stored) for one in node.quarantined
            ]
            assert all(one.reason for one in node.quarantined)
    with SqliteStore(path) as store:
        node = node_on(store)
        assert 4 == node.publish(durable("d"))
        assert [2, 3] == [one.stored.sequence for one in store.quarantined()]
        assert [] == list(store.quarantined("another"))
        store.discard("n", 2)
        store.commit()
        assert [3] == [one.stored.sequence for one in node.quarantined]
        store._database.close()
        with pytest.raises(StoreError, match="cannot be read"):
            assert node.quarantined


def test_file_of_before_there_was_a_quarantine_is_read(path: Path) -> None:
    with SqliteStore(path) as store:
        node_on(store).publish(durable("a"))
        store._database.execute("DROP TABLE quarantine")
    spoil(path, 1, b"\0")
    with SqliteStore(path) as store:
        node = node_on(store)

        assert (0, 1) == (len(node), len(node.quarantined))


@pytest.mark.parametrize("replaced", [False, True])
def test_a_file_that_was_removed_while_it_was_open_takes_nothing(
    path: Path, replaced: bool
) -> None:
    """What is written to it would be gone with the process, and was confirmed."""
    store = SqliteStore(path)
    node = node_on(store)
    node.publish(durable("kept"))
    path.unlink()
    if replaced:
        SqliteStore(path.with_name("other.db")).close()
        path.with_name("other.db").rename(path)

    with pytest.raises(StoreError, match="removed or replaced while it was open"):
        node.publish(durable("lost"))
    store._database.close()  # what is not confirmed stays pending, and keeps `close` from closing


def test_a_damaged_file_is_a_store_error(path: Path) -> None:
    with SqliteStore(path) as store:
        for name in ("n", "m"):
            node = node_on(store, name)
            for number in range(20):
                node.publish(durable(f"{number}" * 40))
    whole = path.read_bytes()
    draw, faults = Random(1), 0
    for _ in range(400):
        octets = bytearray(whole)
        for _ in range(draw.randint(1, 6)):
            at = draw.choice((draw.randrange(len(octets)), draw.randrange(600)))
            octets[at : at + 4] = draw.randbytes(draw.randint(1, 4))
        path.write_bytes(octets)
        for beside in ("-wal", "-shm"):
            path.with_name(path.name + beside).unlink(missing_ok=True)
        try:
            with SqliteStore(path) as store:
                for name in store.names():
                    for stored in store.load(name):
                        assert isinstance(stored.sequence, int)
                assert isinstance(list(store.quarantined()), list)
        except StoreError:
            faults += 1
    assert faults > 50


def test_text_that_is_not_utf8_is_a_store_error(path: Path) -> None:
    with SqliteStore(path) as store:
        node_on(store).publish(durable("x"))
    octets = path.read_bytes()
    path.write_bytes(octets.replace(b"CREATE TABLE message", b"CREATE TABLE \xff\xfe\xfdsage"))

    with pytest.raises(StoreError, match="cannot be"), SqliteStore(path) as store:
        list(store.load("n"))
