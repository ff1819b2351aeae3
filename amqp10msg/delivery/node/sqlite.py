"""Messages in one SQLite file: what is committed there outlives the process, however that ends."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from os import PathLike, fspath
from typing import Self

from amqp10msg.delivery.node.refusal import StoreError
from amqp10msg.delivery.node.store import Quarantined, Stored

__all__ = ["SqliteStore"]

# Says whose file it is (PRAGMA application_id): "A10M".
_APPLICATION = 0x4131304D
_VERSION = 1
_TABLE = """
CREATE TABLE message (
    id INTEGER PRIMARY KEY,
    node TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    arrival INTEGER NOT NULL,
    message_format INTEGER NOT NULL,
    octets BLOB NOT NULL,
    UNIQUE (node, sequence)
)
"""
# In files of the same version: whoever does not know of it does without.
_QUARANTINE = """
CREATE TABLE IF NOT EXISTS quarantine (
    node TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    arrival INTEGER NOT NULL,
    message_format INTEGER NOT NULL,
    octets BLOB NOT NULL,
    reason TEXT NOT NULL,
    PRIMARY KEY (node, sequence)
)
"""
_PUT = """
INSERT INTO message (node, sequence, arrival, message_format, octets) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (node, sequence) DO UPDATE SET
    arrival = excluded.arrival,
    message_format = excluded.message_format,
    octets = excluded.octets
"""
_REMOVE = "DELETE FROM message WHERE node = ? AND sequence = ?"
_PUT_ASIDE = """
INSERT OR REPLACE INTO quarantine (node, sequence, arrival, message_format, octets, reason)
VALUES (?, ?, ?, ?, ?, ?)
"""
_LOAD_ASIDE = """
SELECT node, sequence, arrival, octets, message_format, reason FROM quarantine
WHERE ?1 IS NULL OR node = ?1 ORDER BY node, sequence
"""
_DISCARD = "DELETE FROM quarantine WHERE node = ? AND sequence = ?"
_LOAD = """
SELECT sequence, arrival, octets, message_format FROM message WHERE node = ? ORDER BY sequence
"""


class SqliteStore:
    """Keeps the durable messages of any number of nodes in one file, for one process at a time.

    When a commit returns, SQLite has written and synced it (write-ahead log, ``synchronous=FULL``):
    it is there after `kill -9` at any instant, and after a power failure as far as disk and file
    system keep what they confirm. Until then nothing of it is: a commit is all or nothing, over all
    nodes.

    What a batch puts and removes again never reaches the disk. The file does not shrink; its room
    is used again. While it is open, and after a crash, a file ``-wal`` beside it belongs to it.

    Use it as a context manager, or `close` it.

    Args:
        path: the file; it is made where it is missing. Its folder must be on a local file system.

    Raises:
        StoreError: it cannot be opened, is no such file, or another process has it open.
    """

    durable = True

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = fspath(path)
        self._pending: dict[tuple[str, int], Stored | None] = {}
        # What is put aside, and None for what is discarded.
        self._aside: dict[tuple[str, int], Quarantined | None] = {}
        self._depth = 0
        try:
            # Nodes are used by one thread at a time, and it need not be the same one.
            self._database = sqlite3.connect(
                self.path, timeout=0, isolation_level=None, check_same_thread=False
            )
        except sqlite3.Error as error:
            raise self._fault("cannot be opened", error) from error
        try:
            self._prepare()
        except sqlite3.Error as error:
            self._database.close()
            raise self._fault("cannot be opened", error) from error
        except StoreError:
            self._database.close()
            raise

    def _prepare(self) -> None:
        run = self._database.execute
        # The lock is taken at the first access and kept, so that no second process delivers the
        # same messages; the system drops it with the process.
        run("PRAGMA locking_mode = EXCLUSIVE")
        run("PRAGMA journal_mode = WAL")
        run("PRAGMA synchronous = FULL")
        run("BEGIN IMMEDIATE")
        try:
            (application,) = run("PRAGMA application_id").fetchone()
            (version,) = run("PRAGMA user_version").fetchone()
            (tables,) = run("SELECT count(*) FROM sqlite_master").fetchone()
            if not application and not tables:
                run(_TABLE)
                run(f"PRAGMA application_id = {_APPLICATION}")
                run(f"PRAGMA user_version = {_VERSION}")
            elif application != _APPLICATION:
                raise StoreError(f"{self.path} is an SQLite file of something else")
            elif version != _VERSION:
                raise StoreError(
                    f"{self.path} has version {version} of the store, and this library reads "
                    f"version {_VERSION}"
                )
            run(_QUARANTINE)
            run("COMMIT")
        except BaseException:
            self._database.rollback()
            raise

    def _fault(self, what: str, error: sqlite3.Error) -> StoreError:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY:
            return StoreError(f"{self.path} {what}: another process has it open")
        return StoreError(f"{self.path} {what}: {error}")

    # The interface of a store.

    def load(self, node: str) -> Iterable[Stored]:
        """Give the messages that are committed for a node, by sequence.

        Raises:
            StoreError: they cannot be read.
        """
        try:
            for row in self._database.execute(_LOAD, (node,)):
                yield Stored(*row)
        except sqlite3.Error as error:
            raise self._fault("cannot be read", error) from error

    def names(self) -> list[str]:
        """Name the nodes that have messages here.

        Raises:
            StoreError: they cannot be read.
        """
        try:
            rows = self._database.execute("SELECT DISTINCT node FROM message ORDER BY node")
            return [name for (name,) in rows]
        except sqlite3.Error as error:
            raise self._fault("cannot be read", error) from error

    def put(self, node: str, stored: Stored) -> None:
        """Keep a message, in place of the one with the same sequence, from the next commit on."""
        self._pending[node, stored.sequence] = stored

    def remove(self, node: str, sequence: int) -> None:
        """Keep a message no longer, from the next commit on."""
        self._pending[node, sequence] = None

    def quarantine(self, node: str, stored: Stored, reason: str) -> None:
        """Put a message aside, with its octets and why, from the next commit on."""
        self._pending[node, stored.sequence] = None
        self._aside[node, stored.sequence] = Quarantined(node, stored, reason)

    def quarantined(self, node: str | None = None) -> Iterable[Quarantined]:
        """List the messages that were put aside and committed, of one node or of all.

        Raises:
            StoreError: they cannot be read.
        """
        try:
            for name, *stored, reason in self._database.execute(_LOAD_ASIDE, (node,)):
                yield Quarantined(name, Stored(*stored), reason)
        except sqlite3.Error as error:
            raise self._fault("cannot be read", error) from error

    def discard(self, node: str, sequence: int) -> None:
        """Delete a message that was put aside, from the next commit on."""
        self._aside[node, sequence] = None

    def commit(self) -> None:
        """Write and sync everything since the last commit; nothing within a `batch`.

        Raises:
            StoreError: that was not possible. Nothing of it is in the file, and all of it is still
                pending: commit again.
        """
        if self._depth or not (self._pending or self._aside):
            return
        puts = [
            (node, stored.sequence, stored.arrival, stored.message_format, stored.octets)
            for (node, _), stored in self._pending.items()
            if stored is not None
        ]
        removes = [key for key, stored in self._pending.items() if stored is None]
        try:
            self._database.execute("BEGIN IMMEDIATE")
            self._database.executemany(_PUT, puts)
            self._database.executemany(_REMOVE, removes)
            for key, aside in self._aside.items():
                if aside is None:
                    self._database.execute(_DISCARD, key)
                else:
                    one = aside.stored
                    values = (one.arrival, one.message_format, one.octets, aside.reason)
                    self._database.execute(_PUT_ASIDE, (*key, *values))
            self._database.execute("COMMIT")
        except sqlite3.Error as error:
            if self._database.in_transaction:
                self._database.rollback()
            raise self._fault("cannot be written", error) from error
        self._pending.clear()
        self._aside.clear()

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Commit what happens within at the end, at once; also when an exception ends it.

        Raises:
            StoreError: as `commit`.
        """
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            self.commit()

    def close(self) -> None:
        """Commit what is pending and close the file.

        Raises:
            StoreError: as `commit`; the file stays open.
        """
        self.commit()
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
