"""How often a server with a file commits: changes that no peer waits for are delayed."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from amqp10msg import Header, Message
from amqp10msg.delivery.node import Stored, StoreError
from amqp10msg.delivery.node.sqlite import SqliteStore

proton = pytest.importorskip("proton", reason="needs python-qpid-proton")
reactor = pytest.importorskip("proton.reactor")
utils = pytest.importorskip("proton.utils")

from amqp10msg.interop.proton import sendable  # noqa: E402
from amqp10msg.net.serve import Server, ServerWaits  # noqa: E402  (needs proton)
from tests.net.serve_client import connected, receiver_of, settle, told  # noqa: E402

pytestmark = pytest.mark.once

#: Commits nothing that no peer waits for, until the server stops.
LATE = ServerWaits(commit=60.0)
DURABLE = Message("x", header=Header(durable=True))


@pytest.fixture
def commits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that gets the number of changes of each commit."""
    made: list[int] = []
    commit = SqliteStore.commit

    def counted(store: SqliteStore) -> None:
        changes = store.pending
        commit(store)
        if changes > store.pending:
            made.append(changes)

    monkeypatch.setattr(SqliteStore, "commit", counted)
    return made


def stored(path: Path) -> int:
    with SqliteStore(path) as store:
        return sum(len(list(store.load(name))) for name in store.names())


def test_removals_are_part_of_the_next_commit(tmp_path: Path, commits: list[int]) -> None:
    count = 20
    with Server(file=tmp_path / "s.db", waits=LATE) as server, connected(server) as connection:
        sender = connection.create_sender("q")
        receiver = connection.create_receiver("q", credit=count)
        for _ in range(count):
            sender.send(sendable(DURABLE))
            receiver.receive()
            receiver.accept()
        told(connection, lambda: server.counts("q").causes == {"accepted": count})
        # There were twice as many: one for each message, and one for each outcome.
        assert len(commits) <= count + 2
    assert 2 * count == sum(commits)
    assert 0 == stored(tmp_path / "s.db")


def test_removals_are_committed_soon(tmp_path: Path, commits: list[int]) -> None:
    with Server(file=tmp_path / "s.db") as server, connected(server) as connection:
        connection.create_sender("q").send(sendable(DURABLE))
        receiver = connection.create_receiver("q")
        receiver.receive()
        receiver.accept()
        told(connection, lambda: sum(commits) == 2)
        assert 0 == server.broker.store.pending


def test_removals_are_committed_soon_after_another_start_too(
    tmp_path: Path, commits: list[int]
) -> None:
    server = Server(file=tmp_path / "s.db")
    for seconds in (60.0, 0.05):
        server.waits = ServerWaits(commit=seconds)
        commits.clear()
        with server, connected(server) as connection:
            connection.create_sender("q").send(sendable(DURABLE))
            receiver = connection.create_receiver("q")
            receiver.receive()
            receiver.accept()
            if seconds > 1:  # it stops while a commit is due
                told(connection, lambda: server.broker.store.pending == 1)
            else:
                told(connection, lambda: sum(commits) == 2)


def test_confirmed_work_is_committed_immediately(tmp_path: Path) -> None:
    with Server(file=tmp_path / "s.db", waits=LATE) as server, connected(server) as connection:
        connection.create_sender("q").send(sendable(DURABLE))
        assert 0 == server.broker.store.pending
        receiver = receiver_of(connection, "q")
        receiver.receive()
        # It has not settled, and is told when the outcome is known.
        delivery = settle(receiver, proton.Delivery.ACCEPTED, settled=False)
        connection.wait(lambda: delivery.settled)
        assert 0 == server.broker.store.pending
        server.publish("q", DURABLE)
        assert 0 == server.broker.store.pending


def test_settled_message_is_removed_before_it_is_sent(tmp_path: Path) -> None:
    with Server(file=tmp_path / "s.db", waits=LATE) as server, connected(server) as connection:
        connection.create_sender("q").send(sendable(DURABLE))
        receiver = connection.create_receiver("q", options=reactor.AtMostOnce())
        receiver.receive()
        assert 0 == server.broker.store.pending
        assert {"accepted": 1} == server.counts("q").causes


def test_settled_message_stays_if_its_removal_cannot_be_written(
    tmp_path: Path,
) -> None:
    path, removed = tmp_path / "s.db", tmp_path / "removed.db"
    with Server(file=tmp_path / "s.db", accept_durable=True) as server:
        for text in "abc":
            server.publish("q", Message(text, header=Header(durable=True)))
        with connected(server) as connection:
            path.rename(removed)  # writes fail until it is back
            receiver = connection.create_receiver("q", options=reactor.AtMostOnce())
            with pytest.raises(utils.ConnectionClosed):
                receiver.receive()
            removed.rename(path)
        assert 3 == server.counts("q").available
    with Server(file=tmp_path / "s.db") as server, connected(server) as connection:
        receiver = receiver_of(connection, "q")
        assert ["a", "b", "c"] == sorted(receiver.receive().text() for _ in range(3))
        assert 0 == server.counts("q").available


def test_publish_raises_if_the_file_cannot_be_written(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    server = Server(file=path, accept_durable=True).start()
    kept = tmp_path / "kept"
    path.rename(kept)
    with pytest.raises(StoreError, match="was removed or replaced while it was open"):
        server.publish("q", DURABLE)
    kept.rename(path)
    server.publish("q", DURABLE)  # what waited is written with the next change
    server.stop()
    assert 2 == stored(path)


def test_stop_raises_if_the_file_was_removed(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    server = Server(file=path, accept_durable=True).start()
    server.publish("q", DURABLE)
    server.broker.store.put("q", Stored(9, 0, b"", 0))  # as something that waits for a commit
    path.unlink()

    with pytest.raises(StoreError, match="was removed or replaced while it was open"):
        server.stop()

    server.stop()  # it has stopped
    assert not [one for one in threading.enumerate() if one.name == "amqp10msg-serve"]
    with server:  # and starts again, with a file of its own
        server.publish("q", DURABLE)
    assert 1 == stored(path)
