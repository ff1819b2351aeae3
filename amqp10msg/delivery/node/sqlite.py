"""A durable store of messages in an SQLite file."""

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

# The application_id of the files (a PRAGMA), "A10M" in ASCII.
_APPLICATION_ID = 0x4131304D
_FORMAT_VERSION = 1
_CREATE_MESSAGES_SQL = """
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
# The statement has IF NOT EXISTS, because older files of this format version lack the table.
_CREATE_QUARANTINE_SQL = """
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
_CREATE_DEFINITIONS_SQL = """
CREATE TABLE IF NOT EXISTS definition (
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    content BLOB NOT NULL,
    PRIMARY KEY (kind, name)
)
"""
_PUT_MESSAGE_SQL = """
INSERT INTO message (node, sequence, arrival, message_format, octets) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (node, sequence) DO UPDATE SET
    arrival = excluded.arrival,
    message_format = excluded.message_format,
    octets = excluded.octets
"""
_REMOVE_MESSAGE_SQL = "DELETE FROM message WHERE node = ? AND sequence = ?"
_LOAD_MESSAGES_SQL = """
SELECT sequence, arrival, octets, message_format FROM message WHERE node = ? ORDER BY sequence
"""
_PUT_QUARANTINED_SQL = """
INSERT INTO quarantine (node, sequence, arrival, message_format, octets, reason)
VALUES (?, ?, ?, ?, ?, ?)
"""
_LOAD_QUARANTINED_SQL = """
SELECT node, sequence, arrival, octets, message_format, reason FROM quarantine
WHERE node = ifnull(?, node) ORDER BY node, sequence
"""
_DISCARD_QUARANTINED_SQL = "DELETE FROM quarantine WHERE node = ? AND sequence = ?"
_PUT_DEFINITION_SQL = "INSERT OR REPLACE INTO definition (kind, name, content) VALUES (?, ?, ?)"
_REMOVE_DEFINITION_SQL = "DELETE FROM definition WHERE kind = ? AND name = ?"
_LOAD_DEFINITIONS_SQL = "SELECT name, content FROM definition WHERE kind = ? ORDER BY name"

# Exceptions of SQLite, and exceptions that the module sqlite3 raises for a damaged file.
_SQLITE_ERRORS = (sqlite3.Error, UnicodeDecodeError, OverflowError)


class SqliteStore:
    """Stores the durable messages of one or more nodes in a file, for one process at a time.

    A commit returns when SQLite has written and synced it (write-ahead log, ``synchronous=FULL``).
    Committed data survives `kill -9` at any time, and a power failure if the disk and the file
    system keep the data that they confirm. A commit is atomic over all nodes.

    A message that is put and removed in the same batch is not written. The file does not shrink;
    its free space is reused. While the store is open, and after a crash, the file with the suffix
    ``-wal`` belongs to the store: keep both files together.

    Use the store as a context manager, or call `close`.

    Args:
        path: the file, created if it does not exist. Its folder must be on a local file system.

    Raises:
        StoreError: the file cannot be opened, is of another kind, or another process has it open.
    """

    durable = True

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = fspath(path)
        self._pending: dict[tuple[str, int], Stored | None] = {}
        self._undefined: dict[tuple[str, str], None] = {}
        self._depth = 0
        try:
            create_private(self.path)
            # Several threads may use a store, one at a time: disable the thread check of sqlite3.
            self._database = sqlite3.connect(
                self.path, timeout=0, isolation_level=None, check_same_thread=False
            )
        except _SQLITE_ERRORS as error:
            raise self._store_error("cannot be opened", error) from error
        try:
            # Lock the file while it is open: a second process would deliver the same messages.
            self._database.execute("PRAGMA locking_mode = EXCLUSIVE")
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = FULL")
            with self._transaction():
                self._prepare_file()
            self._identity = self._file_identity()
        except _SQLITE_ERRORS as error:
            self._database.close()
            raise self._store_error("cannot be opened", error) from error
        except StoreError:
            self._database.close()
            raise

    def _prepare_file(self) -> None:
        """Create the tables in a new file; check that an existing file is a store."""
        run = self._database.execute
        (application,) = run("PRAGMA application_id").fetchone()
        (version,) = run("PRAGMA user_version").fetchone()
        (tables,) = run("SELECT count(*) FROM sqlite_master").fetchone()
        if not application and not tables:
            run(_CREATE_MESSAGES_SQL)
            run(f"PRAGMA application_id = {_APPLICATION_ID}")
            run(f"PRAGMA user_version = {_FORMAT_VERSION}")
        elif application != _APPLICATION_ID:
            raise StoreError(f"{self.path} is an SQLite file of another application")
        elif version != _FORMAT_VERSION:
            raise StoreError(
                f"{self.path} has version {version} of the format; this library supports "
                f"version {_FORMAT_VERSION}"
            )
        run(_CREATE_QUARANTINE_SQL)
        run(_CREATE_DEFINITIONS_SQL)

    def _file_identity(self) -> tuple[int, int] | None:
        """Return the device and inode of the file at the path; None if there is no file."""
        try:
            status = os.stat(self.path)  # noqa: PTH116  (the path may be bytes)
        except OSError:
            return None
        return status.st_dev, status.st_ino

    def _store_error(self, problem: str, error: Exception) -> StoreError:
        """Return the StoreError for an exception of SQLite; `problem` says what cannot be done."""
        if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY:
            return StoreError(f"{self.path} {problem}: another process has it open")
        return StoreError(f"{self.path} {problem}: {error}")

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
        except _SQLITE_ERRORS as error:
            raise self._store_error("cannot be read", error) from error

    def _write(self, *statements: tuple[str, list[Any]]) -> None:
        # Do not write to a removed file: it exists only until this process closes it.
        if self._file_identity() != self._identity:
            raise StoreError(
                f"{self.path} cannot be written: the file was removed or replaced while it was "
                "open; stop this process, and restore the file from a backup"
            )
        try:
            with self._transaction():
                for statement, rows in statements:
                    self._database.executemany(statement, rows)
        except _SQLITE_ERRORS as error:
            raise self._store_error("cannot be written", error) from error

    def load(self, node: str) -> Iterable[Stored]:
        """Yield the messages of a node by sequence number, with pending changes applied.

        Raises:
            StoreError: the file cannot be read, or is damaged.
        """
        pending = {
            sequence: stored for (name, sequence), stored in self._pending.items() if name == node
        }
        committed = (
            stored
            for stored in map(self._message_of_row, self._rows(_LOAD_MESSAGES_SQL, node))
            if stored.sequence not in pending
        )
        put = (stored for _, stored in sorted(pending.items()) if stored is not None)
        yield from merge(committed, put, key=attrgetter("sequence"))

    def _message_of_row(self, row: Sequence[Any]) -> Stored:
        """Return the message in a row. Check the types, which may be wrong in a damaged file."""
        sequence, arrival, octets, message_format = row
        if not all(isinstance(number, int) for number in (sequence, arrival, message_format)):
            raise StoreError(f"{self.path} cannot be read: the row of a message is damaged")
        return Stored(sequence, arrival, octets, message_format)

    def names(self) -> list[str]:
        """Return the names of the nodes that have messages in the file.

        Raises:
            StoreError: the file cannot be read.
        """
        return [name for (name,) in self._rows("SELECT DISTINCT node FROM message ORDER BY node")]

    def put(self, node: str, stored: Stored) -> None:
        """Store a message with the next commit, or replace one with the same sequence number."""
        self._pending[node, stored.sequence] = stored

    def remove(self, node: str, sequence: int) -> None:
        """Remove a message with the next commit."""
        self._pending[node, sequence] = None

    def quarantine(self, node: str, stored: Stored, reason: str) -> None:
        """Move a committed message to the quarantine, without waiting for a commit.

        Raises:
            StoreError: the file cannot be written.
        """
        values = (stored.arrival, stored.message_format, stored.octets, reason)
        key = (node, stored.sequence)
        self._write((_PUT_QUARANTINED_SQL, [(*key, *values)]), (_REMOVE_MESSAGE_SQL, [key]))

    def quarantined(self, node: str | None = None) -> Iterable[Quarantined]:
        """Yield the quarantined messages of one node, or of all nodes.

        Raises:
            StoreError: the file cannot be read, or is damaged.
        """
        for name, *stored, reason in self._rows(_LOAD_QUARANTINED_SQL, node):
            yield Quarantined(name, self._message_of_row(stored), reason)

    def discard(self, node: str, sequence: int) -> None:
        """Delete a quarantined message, without waiting for a commit.

        Raises:
            StoreError: the file cannot be written.
        """
        self._write((_DISCARD_QUARANTINED_SQL, [(node, sequence)]))

    def define(self, kind: str, name: str, octets: bytes) -> None:
        """Write or replace a definition, without waiting for a commit.

        A server stores here how queues and exchanges were declared.

        Args:
            kind: the kind of the definition, such as ``queue``.
            name: the name of the definition, unique within the kind.
            octets: the encoded definition, which the store does not interpret.

        Raises:
            StoreError: the file cannot be written.
        """
        self._write((_PUT_DEFINITION_SQL, [(kind, name, octets)]))
        self._undefined.pop((kind, name), None)

    def undefine(self, kind: str, name: str) -> None:
        """Delete a definition with the next commit, which also removes messages."""
        self._undefined[kind, name] = None

    def definitions(self, kind: str) -> dict[str, bytes]:
        """Return the encoded definitions of a kind, by name.

        Raises:
            StoreError: the file cannot be read, or is damaged.
        """
        definitions = dict(self._rows(_LOAD_DEFINITIONS_SQL, kind))
        if not all(isinstance(octets, bytes) for octets in definitions.values()):
            raise StoreError(f"{self.path} cannot be read: the definition of a {kind} is damaged")
        return definitions

    def commit(self) -> None:
        """Write and sync all changes since the last commit; a no-op within a `batch`.

        Raises:
            StoreError: no change was written; all stay pending for another commit.
        """
        if self._depth or not self.pending:
            return
        puts = [
            (node, stored.sequence, stored.arrival, stored.message_format, stored.octets)
            for (node, _), stored in self._pending.items()
            if stored is not None
        ]
        removes = [key for key, stored in self._pending.items() if stored is None]
        self._write(
            (_PUT_MESSAGE_SQL, puts),
            (_REMOVE_MESSAGE_SQL, removes),
            (_REMOVE_DEFINITION_SQL, [*self._undefined]),
        )
        self._pending.clear()
        self._undefined.clear()

    @property
    def pending(self) -> int:
        """The number of changes that wait for a commit."""
        return len(self._pending) + len(self._undefined)

    @contextmanager
    def batch(self, should_commit: Callable[[], bool] | None = None) -> Iterator[None]:
        """Return a context manager that commits at its end, including after an exception.

        Args:
            should_commit: called at the end; if it returns False, the changes stay `pending` for a
                later commit. None to commit always.

        Raises:
            StoreError: see `commit`.
        """
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            if should_commit is None or should_commit():
                self.commit()

    def close(self) -> None:
        """Commit and close the file.

        Raises:
            StoreError: see `commit`; the file stays open.
        """
        self.commit()
        self._database.close()

    def abandon(self) -> None:
        """Close the file without writing the pending changes."""
        self._pending.clear()
        self._undefined.clear()
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
