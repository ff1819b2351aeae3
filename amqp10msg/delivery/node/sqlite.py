"""A store of messages in one SQLite file: a committed message outlives the process."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from heapq import merge
from operator import attrgetter
from os import PathLike, fspath
from typing import Any, Self

from amqp10msg.delivery.node.contents import Quarantined, Stored, StoreError
from amqp10msg.private_files import create_private

# PRAGMA application_id of the files: "A10M".
_APPLICATION = 0x4131304D
_VERSION = 1
_MESSAGE = """
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
# Also made in files of the same version that do not have it yet.
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
_DEFINITION = """
CREATE TABLE IF NOT EXISTS definition (
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    content BLOB NOT NULL,
    PRIMARY KEY (kind, name)
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
_LOAD = """
SELECT sequence, arrival, octets, message_format FROM message WHERE node = ? ORDER BY sequence
"""
_PUT_QUARANTINED = """
INSERT INTO quarantine (node, sequence, arrival, message_format, octets, reason)
VALUES (?, ?, ?, ?, ?, ?)
"""
_LOAD_QUARANTINED = """
SELECT node, sequence, arrival, octets, message_format, reason FROM quarantine
WHERE node = ifnull(?, node) ORDER BY node, sequence
"""
_DISCARD = "DELETE FROM quarantine WHERE node = ? AND sequence = ?"
_DEFINE = "INSERT OR REPLACE INTO definition (kind, name, content) VALUES (?, ?, ?)"
_UNDEFINE = "DELETE FROM definition WHERE kind = ? AND name = ?"
_LOAD_DEFINITIONS = "SELECT name, content FROM definition WHERE kind = ? ORDER BY name"

# What SQLite raises, and its module where the text in a damaged file is not UTF-8.
_FAULTS = (sqlite3.Error, UnicodeDecodeError, OverflowError)


class SqliteStore:
    """Keeps the durable messages of any number of nodes in one file, for one process at a time.

    A commit returns when SQLite has written and synced it (write-ahead log, ``synchronous=FULL``):
    it survives `kill -9` at any instant, and a power failure as far as disk and file system keep
    what they confirm. A commit is all or nothing, over all nodes.

    What a batch puts and removes again is never written. The file does not shrink, but its space is
    used again. While it is open, and after a crash, a file ``-wal`` beside it belongs to it.

    Use it as a context manager, or `close` it.

    Args:
        path: the file, created if it does not exist. Its folder must be on a local file system.

    Raises:
        StoreError: it cannot be opened, is another kind of file, or another process has it open.
    """

    durable = True

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = fspath(path)
        self._pending: dict[tuple[str, int], Stored | None] = {}
        self._undefined: dict[tuple[str, str], None] = {}
        self._depth = 0
        try:
            create_private(self.path)
            # Nodes are used by one thread at a time, not always the same one.
            self._database = sqlite3.connect(
                self.path, timeout=0, isolation_level=None, check_same_thread=False
            )
        except _FAULTS as error:
            raise self._fault("cannot be opened", error) from error
        try:
            # The lock is taken at the first access and kept, so that no second process delivers the
            # same messages; the system drops it with the process.
            self._database.execute("PRAGMA locking_mode = EXCLUSIVE")
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = FULL")
            with self._transaction():
                self._prepare()
            self._place = self._place_now()
        except _FAULTS as error:
            self._database.close()
            raise self._fault("cannot be opened", error) from error
        except StoreError:
            self._database.close()
            raise

    def _prepare(self) -> None:
        run = self._database.execute
        (application,) = run("PRAGMA application_id").fetchone()
        (version,) = run("PRAGMA user_version").fetchone()
        (tables,) = run("SELECT count(*) FROM sqlite_master").fetchone()
        if not application and not tables:
            run(_MESSAGE)
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
        run(_DEFINITION)

    def _place_now(self) -> tuple[int, int] | None:
        """The device and the inode of the file; None where there is none of this name."""
        try:
            found = os.stat(self.path)  # noqa: PTH116  (the path may be bytes)
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def _fault(self, what: str, error: Exception) -> StoreError:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY:
            return StoreError(f"{self.path} {what}: another process has it open")
        return StoreError(f"{self.path} {what}: {error}")

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._database.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._database.execute("COMMIT")
        except BaseException:
            self._database.rollback()
            raise

    def _rows(self, query: str, *parameters: Any) -> Iterator[Any]:
        try:
            yield from self._database.execute(query, parameters)
        except _FAULTS as error:
            raise self._fault("cannot be read", error) from error

    def _write(self, *statements: tuple[str, list[Any]]) -> None:
        # What is written to a file without its name is gone with this process.
        if self._place_now() != self._place:
            raise StoreError(
                f"{self.path} cannot be written: the file was removed or replaced while it was "
                "open; stop what uses it, and put it back from a backup"
            )
        try:
            with self._transaction():
                for statement, rows in statements:
                    self._database.executemany(statement, rows)
        except _FAULTS as error:
            raise self._fault("cannot be written", error) from error

    def load(self, node: str) -> Iterable[Stored]:
        """Yield the messages of a node, by sequence: those committed, with what is pending.

        Raises:
            StoreError: they cannot be read.
        """
        pending = {number: one for (name, number), one in self._pending.items() if name == node}
        committed = (
            one for one in map(self._stored, self._rows(_LOAD, node)) if one.sequence not in pending
        )
        put = (one for _, one in sorted(pending.items()) if one is not None)
        yield from merge(committed, put, key=attrgetter("sequence"))

    def _stored(self, row: Sequence[Any]) -> Stored:
        """Check the row of a message, as a damaged file may hold anything, and make it one."""
        sequence, arrival, octets, message_format = row
        if not all(isinstance(number, int) for number in (sequence, arrival, message_format)):
            raise StoreError(f"{self.path} cannot be read: the row of a message is damaged")
        return Stored(sequence, arrival, octets, message_format)

    def names(self) -> list[str]:
        """Return the names of the nodes that have messages here.

        Raises:
            StoreError: they cannot be read.
        """
        return [name for (name,) in self._rows("SELECT DISTINCT node FROM message ORDER BY node")]

    def put(self, node: str, stored: Stored) -> None:
        """Keep a message, instead of the one with the same sequence, from the next commit on."""
        self._pending[node, stored.sequence] = stored

    def remove(self, node: str, sequence: int) -> None:
        """Remove a message, from the next commit on."""
        self._pending[node, sequence] = None

    def quarantine(self, node: str, stored: Stored, reason: str) -> None:
        """Move a committed message to the quarantine, at once.

        Raises:
            StoreError: it cannot be written.
        """
        values = (stored.arrival, stored.message_format, stored.octets, reason)
        key = (node, stored.sequence)
        self._write((_PUT_QUARANTINED, [(*key, *values)]), (_REMOVE, [key]))

    def quarantined(self, node: str | None = None) -> Iterable[Quarantined]:
        """Yield the quarantined messages of one node, or of all nodes.

        Raises:
            StoreError: they cannot be read.
        """
        for name, *stored, reason in self._rows(_LOAD_QUARANTINED, node):
            yield Quarantined(name, self._stored(stored), reason)

    def discard(self, node: str, sequence: int) -> None:
        """Delete a quarantined message, at once.

        Raises:
            StoreError: it cannot be written.
        """
        self._write((_DISCARD, [(node, sequence)]))

    def define(self, kind: str, name: str, octets: bytes) -> None:
        """Write what the user of the store knows about a name, at once; replace what it had.

        The store does not read it. A server keeps here how queues and exchanges were declared.

        Args:
            kind: what is defined, such as ``queue``.
            name: its name, unique within the kind.
            octets: its encoded definition.

        Raises:
            StoreError: it cannot be written.
        """
        self._write((_DEFINE, [(kind, name, octets)]))
        self._undefined.pop((kind, name), None)

    def undefine(self, kind: str, name: str) -> None:
        """Delete a definition from the next commit on, together with what is removed with it."""
        self._undefined[kind, name] = None

    def definitions(self, kind: str) -> dict[str, bytes]:
        """Return the encoded definitions of a kind, by name.

        Raises:
            StoreError: they cannot be read.
        """
        found = dict(self._rows(_LOAD_DEFINITIONS, kind))
        if not all(isinstance(octets, bytes) for octets in found.values()):
            raise StoreError(f"{self.path} cannot be read: the definition of a {kind} is damaged")
        return found

    def commit(self) -> None:
        """Write and sync everything since the last commit; nothing within a `batch`.

        Raises:
            StoreError: nothing was written, and everything is still pending: commit again.
        """
        if self._depth or not self.pending:
            return
        puts = [
            (node, stored.sequence, stored.arrival, stored.message_format, stored.octets)
            for (node, _), stored in self._pending.items()
            if stored is not None
        ]
        removes = [key for key, stored in self._pending.items() if stored is None]
        self._write((_PUT, puts), (_REMOVE, removes), (_UNDEFINE, [*self._undefined]))
        self._pending.clear()
        self._undefined.clear()

    @property
    def pending(self) -> int:
        """How many changes wait for a commit."""
        return len(self._pending) + len(self._undefined)

    @contextmanager
    def batch(self, wanted: Callable[[], bool] | None = None) -> Iterator[None]:
        """Return a context manager that commits once, at its end, also after an exception.

        Args:
            wanted: asked at the end whether to commit; what is not stays `pending`, and is part of
                a later commit. None to commit in any case.

        Raises:
            StoreError: as `commit`.
        """
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            if wanted is None or wanted():
                self.commit()

    def close(self) -> None:
        """Commit and close the file.

        Raises:
            StoreError: as `commit`; the file stays open.
        """
        self.commit()
        self._database.close()

    def abandon(self) -> None:
        """Close the file without what is pending."""
        self._pending.clear()
        self._undefined.clear()
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
