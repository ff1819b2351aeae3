"""The records of a route on disk: its quarantine, accepted message-ids and position.

The position is the one in a stream or file. The SQLite files survive ``kill -9``. A loss of power
may undo their last transaction. The unsettled deliveries are in memory: see
`amqp10msg.net.bridge.unsettled`.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs

from amqp10msg.atomic_files import lock
from amqp10msg.net.bridge.fingerprints import Fingerprint, fingerprint_of
from amqp10msg.net.bridge.options import RouteOptions
from amqp10msg.net.bridge.unsettled import Finished
from amqp10msg.net.ends.contents import identity_of, position_of
from amqp10msg.net.ends.files import Quarantine
from amqp10msg.net.ends.terms import SourceDelivery
from amqp10msg.net.ends.urls import Endpoint
from amqp10msg.private_files import PRIVATE, create_private

#: Errors that sqlite3 raises for a file that cannot be used. UnicodeDecodeError occurs if sqlite3
#: cannot decode the error text, because it quotes a damaged schema.
_SQLITE_ERRORS = (sqlite3.Error, UnicodeDecodeError)


def open_database(path: Path, *tables: str) -> sqlite3.Connection:
    """Open a SQLite file, and create its missing tables.

    Raises:
        OSError: the file cannot be opened, or is not a SQLite file; the message names it.
    """
    create_private(path)
    try:
        database = sqlite3.connect(path, isolation_level=None)
    except _SQLITE_ERRORS as error:
        raise OSError(f"{path}: {error}") from None
    try:
        # WAL and NORMAL: transactions survive a kill; a loss of power may undo the last one.
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA synchronous=NORMAL")
        for table in tables:
            database.execute(table)
    except _SQLITE_ERRORS as error:
        database.close()
        raise OSError(f"{path}: {error}") from None
    return database


def fetch_all(
    database: sqlite3.Connection, path: Path, query: str, *arguments: Any
) -> list[tuple[Any, ...]]:
    """Return the rows of a query.

    Raises:
        OSError: the file is damaged or has other tables; the message names it.
    """
    try:
        return database.execute(query, arguments).fetchall()
    except _SQLITE_ERRORS as error:
        raise OSError(f"{path}: {error}") from None


@contextlib.contextmanager
def transaction(database: sqlite3.Connection, path: Path) -> Iterator[sqlite3.Connection]:
    """Run the block in a transaction, which is committed when the block ends.

    Raises:
        OSError: the transaction could not be written, and was rolled back.
    """
    try:
        database.execute("BEGIN IMMEDIATE")
        yield database
        database.execute("COMMIT")
    except _SQLITE_ERRORS as error:
        if database.in_transaction:
            database.execute("ROLLBACK")
        raise OSError(f"{path}: {error}") from None


#: The message-ids that each target of each route has accepted; `number` is their order. Without the
#: target, a route back to the first source would drop all messages as duplicates.
_CREATE_ACCEPTED_IDS_TABLE = """
CREATE TABLE IF NOT EXISTS accepted (
  number INTEGER PRIMARY KEY, route TEXT NOT NULL, target TEXT NOT NULL, identity BLOB NOT NULL,
  UNIQUE (route, target, identity)
) STRICT
"""
#: Maximum size in bytes of a message-id that is stored itself; of a larger one, the hash is stored.
_MAX_STORED_ID = 64


class Ledger:
    """A file of the message-ids that the target of a route has accepted.

    After ``kill -9``, messages may be duplicated that were accepted, but whose ids were not written
    yet: at most the messages accepted in one iteration of the event loop.

    Args:
        path: the file, which several routes may share.
        route: the name of the route.
        target: the URL of the target, without credentials. Ids that another target has accepted are
            ignored.
        max_count: maximum number of message-ids of this route and target; the oldest are deleted.
    """

    def __init__(self, path: Path, route: str, target: str, max_count: int) -> None:
        self._path = path
        self._key = _storable(route), _storable(target)
        self._max_count = max_count
        self._database = open_database(path, _CREATE_ACCEPTED_IDS_TABLE)
        try:
            query = "SELECT count(*) FROM accepted WHERE route = ? AND target = ?"
            rows = fetch_all(self._database, path, query, *self._key)
        except OSError:
            self._database.close()
            raise
        self._count: int = rows[0][0]

    def __len__(self) -> int:
        return self._count

    def has(self, identity: str) -> bool:
        """Whether the target has accepted a message with this id.

        Raises:
            OSError: the file is damaged.
        """
        query = "SELECT 1 FROM accepted WHERE route = ? AND target = ? AND identity = ?"
        key = _database_key(identity)
        return bool(fetch_all(self._database, self._path, query, *self._key, key))

    def add(self, identities: Iterable[str]) -> None:
        """Write message-ids to the file, and delete the oldest ones above `max_count`."""
        with transaction(self._database, self._path) as database:
            changes_before = database.total_changes
            database.executemany(
                "INSERT OR IGNORE INTO accepted (route, target, identity) VALUES (?, ?, ?)",
                [(*self._key, _database_key(identity)) for identity in identities],
            )
            count = self._count + database.total_changes - changes_before
            if count > self._max_count:
                database.execute(
                    "DELETE FROM accepted WHERE number IN (SELECT number FROM accepted "
                    "WHERE route = ? AND target = ? ORDER BY number LIMIT ?)",
                    (*self._key, count - self._max_count),
                )
                count = self._max_count
        self._count = count

    def close(self) -> None:
        """Close the file."""
        self._database.close()


def _database_key(identity: str) -> bytes:
    """Return the key of a message-id in the file: the id, or its hash if the id is long."""
    octets = identity.encode("utf-8", "surrogatepass")
    return octets if len(octets) <= _MAX_STORED_ID else b"\0" + hashlib.sha256(octets).digest()


#: The position from which each route continues.
_CREATE_POSITION_TABLE = """
CREATE TABLE IF NOT EXISTS position (route TEXT PRIMARY KEY, next INTEGER NOT NULL) STRICT
"""
#: The fingerprint of the last message that each route settled. It is not in the position table, so
#: that earlier versions of this library can still use the file.
_CREATE_FINGERPRINT_TABLE = """
CREATE TABLE IF NOT EXISTS fingerprint (
  route TEXT PRIMARY KEY, position INTEGER NOT NULL, protocol TEXT NOT NULL, digest BLOB NOT NULL
) STRICT
"""


def _storable(route: str) -> str:
    """Escape the surrogates in the name of a route, which SQLite cannot store.

    A route may be named after a queue whose name is not UTF-8.
    """
    return route.encode("utf-8", "backslashreplace").decode()


def rename_route(options: RouteOptions, old: str, new: str) -> None:
    """Rename a route in its state file and deduplication file.

    If a file already has a row of the new name, this row is kept.
    """
    for path, schemas in (
        (
            options.state,
            {"position": _CREATE_POSITION_TABLE, "fingerprint": _CREATE_FINGERPRINT_TABLE},
        ),
        (options.deduplicate, {"accepted": _CREATE_ACCEPTED_IDS_TABLE}),
    ):
        if path is None or not path.exists():
            continue
        database = open_database(path, *schemas.values())
        try:
            with transaction(database, path):
                for table in schemas:
                    database.execute(
                        f"UPDATE OR IGNORE {table} SET route = ? WHERE route = ?",  # noqa: S608  (one of three names)
                        (_storable(new), _storable(old)),
                    )
        finally:
            database.close()


class Lease:
    """A file lock that lets only one process at a time run a route with a state file.

    The operating system releases the lock when the process ends or is killed, so that another
    process can continue. The lock file is in the folder of the state file.
    """

    def __init__(self, state: Path, route: str) -> None:
        digest = hashlib.sha256(route.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        self._state = state
        self._path = state.with_name(f"{state.name}.{digest}.lock")
        self._handle: int | None = None

    def acquire(self) -> bool:
        """Try to acquire the lock. Return False if another process holds it.

        Raises:
            OSError: the lock file cannot be opened.
        """
        try:
            handle = os.open(self._path, os.O_RDWR | os.O_CREAT, PRIVATE)
        except OSError as error:
            text = f"its lock file cannot be opened: {error.strerror or error}"
            raise OSError(f"{self._state}: {text}") from None
        try:
            lock(handle, wait=False)
        except OSError:
            os.close(handle)
            return False
        self._handle = handle
        return True

    def release(self) -> None:
        """Release the lock, if this process holds it."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


_FINGERPRINT_COLUMNS = ("position", "protocol", "digest")


def _check_column(path: Path, table: str, column: str, value: object, expected_type: type) -> None:
    """Raise OSError unless `value` has the expected type; a number must also be 0 or more.

    Another program may have created a table with the same names of columns, but other types.
    """
    if type(value) is not expected_type or (isinstance(value, int) and value < 0):
        raise OSError(
            f"{path}: column {column} of table {table} holds {value!r:.40}: this is not a file "
            "that a bridge wrote, or it is damaged; give another file"
        )


class Positions:
    """Tracks up to which position of a stream or file the messages are settled.

    Args:
        path: the state file, which several routes may share; None to not store the position.
        route: the name of the route.
        active: whether the source is a stream or file; if not, positions are not tracked. The
            messages do not show this: a message of a queue may have the offset of a stream.
        stream: whether the source is a stream: its broker adds headers to the messages.

    Attributes:
        active: as above.
        next: the position to continue from: all messages before it are settled. None if no message
            is settled.
        skipped: number of positions for which the broker delivered no message.

    Raises:
        OSError: the file cannot be used; the message names it.
    """

    def __init__(
        self, path: Path | None, route: str, *, active: bool, stream: bool = False
    ) -> None:
        self.active = active
        self.next: int | None = None
        self.skipped = 0
        # The position after the last delivery of the current connection.
        self._expected: int | None = None
        # All positions before this one were delivered or counted as skipped.
        self._counted_to = 0
        self._route = _storable(route)
        self._stream = stream
        # The positions that were delivered and not saved yet, and whether each is finished.
        self._pending: dict[int, bool] = {}
        self._finished_since_save: list[SourceDelivery] = []
        # The last settled delivery, if `_fingerprint` is not its fingerprint yet.
        self._last_settled: SourceDelivery | None = None
        self._fingerprint: Fingerprint | None = None
        self._file: tuple[sqlite3.Connection, Path] | None = None
        if path is not None:
            self._load(path)

    def _load(self, path: Path) -> None:
        """Open the state file, and read the position and fingerprint of the route."""
        database = open_database(path, _CREATE_POSITION_TABLE, _CREATE_FINGERPRINT_TABLE)
        try:
            query = "SELECT next FROM position WHERE route = ?"
            for (position,) in fetch_all(database, path, query, self._route):
                _check_column(path, "position", "next", position, int)
                self.next = position
            query = "SELECT position, protocol, digest FROM fingerprint WHERE route = ?"
            for row in fetch_all(database, path, query, self._route):
                for name, value, expected_type in zip(
                    _FINGERPRINT_COLUMNS, row, (int, str, bytes), strict=True
                ):
                    _check_column(path, "fingerprint", name, value, expected_type)
                self._fingerprint = Fingerprint(*row)
        except OSError:
            database.close()
            raise
        self._file = database, path

    @property
    def fingerprint(self) -> Fingerprint | None:
        """The fingerprint of the last settled message that was not too large for memory."""
        if self._last_settled is not None:
            self._fingerprint = fingerprint_of(self._last_settled, stream=self._stream)
            self._last_settled = None
        return self._fingerprint

    def reset(self) -> None:
        """Forget unfinished deliveries: the next connection delivers them again."""
        self._pending.clear()
        self._expected = None

    def receive(self, delivery: SourceDelivery) -> None:
        """Record a delivery, and set its `position`."""
        if self.active:
            delivery.position = position_of(delivery)
            if delivery.position is not None:
                self._pending[delivery.position] = False
                if self._stream:
                    self._count_skipped(delivery.position)

    def _count_skipped(self, position: int) -> None:
        """Count the positions that the broker skipped before this one, each position once."""
        if self._expected is not None:
            self.skipped += max(position - max(self._expected, self._counted_to), 0)
        self._expected = position + 1
        self._counted_to = max(self._counted_to, position + 1)

    def finish(self, delivery: SourceDelivery) -> None:
        """Record that a delivery is finished. The next `save` can advance past it."""
        if self.active and delivery.position in self._pending:
            self._pending[delivery.position] = True
            if delivery.large is None:
                self._finished_since_save.append(delivery)

    def save(self) -> None:
        """Advance `next` to the first unfinished delivery, and write it to the file.

        Raises:
            OSError: the file cannot be written.
        """
        if not self.active:
            return
        previous_next, pending = self.next, self._pending
        while pending:
            first = next(iter(pending))
            if not pending[first]:
                break
            del pending[first]
            self.next = first + 1
        finished, self._finished_since_save = self._finished_since_save, []
        if self.next is None or self.next == previous_next:
            return
        next_position = self.next
        settled = [
            each for each in finished if each.position is not None and each.position < next_position
        ]
        self._last_settled = max(
            settled, key=lambda each: each.position or 0, default=self._last_settled
        )
        if self._file is not None:
            with transaction(*self._file) as database:
                database.execute(
                    "INSERT OR REPLACE INTO position VALUES (?, ?)", (self._route, next_position)
                )
                if self.fingerprint is not None:
                    row = (self._route, *attrs.astuple(self.fingerprint))
                    database.execute("INSERT OR REPLACE INTO fingerprint VALUES (?, ?, ?, ?)", row)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file[0].close()


class Records:
    """The quarantine file, the deduplication file and the state file of a route.

    With deduplication, the unfinished deliveries are tracked, too. A duplicate that arrives before
    the first delivery is finished is kept until then.

    Attributes:
        names: the names of the route, its source and its target, for lines of the quarantine.
        positions: the position in a stream or file.
    """

    def __init__(
        self, route: str, source: Endpoint, target: Endpoint, options: RouteOptions
    ) -> None:
        self.names = {"route": route, "source": str(source), "target": str(target)}
        self._quarantine = Quarantine(options.quarantine)
        stream = source.file is None and source.keeps
        self.positions = Positions(options.state, route, active=source.keeps, stream=stream)
        self._ledger: Ledger | None = None
        if options.deduplicate is not None:
            try:
                self._ledger = Ledger(options.deduplicate, route, str(target), options.remember)
            except OSError:
                self.positions.close()
                raise
        # By message-id: the first unfinished delivery, and its duplicates.
        self._unfinished: dict[str, SourceDelivery] = {}
        self._duplicates: dict[str, list[SourceDelivery]] = {}

    @property
    def duplicates(self) -> list[SourceDelivery]:
        """The deliveries that wait until a delivery with the same message-id is finished."""
        return [duplicate for duplicates in self._duplicates.values() for duplicate in duplicates]

    def was_accepted(self, delivery: SourceDelivery) -> bool | None:
        """Whether the target has accepted a message with this message-id before.

        Return None if another delivery with this message-id is unfinished. Then `delivery` is kept
        until `forget` returns it, when that other delivery is finished.
        """
        if self._ledger is None:
            return False
        identity = delivery.identity = identity_of(delivery)
        if identity is None:
            return False
        if identity in self._unfinished:
            self._duplicates.setdefault(identity, []).append(delivery)
            return None
        if self._ledger.has(identity):
            delivery.identity = None
            return True
        self._unfinished[identity] = delivery
        return False

    def forget(self, delivery: SourceDelivery) -> list[SourceDelivery]:
        """Forget a finished delivery. Return its duplicates: call `was_accepted` for each again."""
        identity = delivery.identity
        if identity is None or self._unfinished.pop(identity, None) is None:
            return []
        return self._duplicates.pop(identity, [])

    def reset(self, in_flight: Sequence[SourceDelivery]) -> None:
        """Forget all deliveries except those in flight: the source will deliver them again."""
        self.positions.reset()
        self._duplicates.clear()
        self._unfinished = {each.identity: each for each in in_flight if each.identity is not None}

    def finish(self, finished: Sequence[Finished]) -> tuple[Sequence[Finished], OSError | None]:
        """Write the records of finished deliveries. The caller settles the deliveries afterwards.

        Return the deliveries that can be settled, and the error if a file could not be written. An
        accepted delivery can be settled even if its message-id could not be written: if it were
        not settled, it would certainly be duplicated.
        """
        fault = None
        to_quarantine = [
            (delivery, outcome)
            for delivery, _, outcome in finished
            if outcome is not None and outcome.kind != "accepted"
        ]
        try:
            if to_quarantine:
                self._quarantine.add(to_quarantine, **self.names)
        except OSError as error:
            fault = error
            unwritten = {delivery for delivery, _ in to_quarantine}
            finished = [each for each in finished if each[0] not in unwritten]
        try:
            self._write_ids_and_position(finished)
        except OSError as error:
            fault = fault or error
        return finished, fault

    def _write_ids_and_position(self, finished: Sequence[Finished]) -> None:
        """Write the message-ids of accepted messages, and the next position of a stream or file."""
        if self.positions.active:
            for delivery, _, _ in finished:
                self.positions.finish(delivery)
        if self._ledger is not None:
            accepted = [
                delivery.identity
                for delivery, _, outcome in finished
                if delivery.identity is not None
                and outcome is not None
                and outcome.kind == "accepted"
            ]
            if accepted:
                self._ledger.add(accepted)
        self.positions.save()

    def close(self) -> None:
        """Close the files."""
        if self._ledger is not None:
            self._ledger.close()
        self.positions.close()
