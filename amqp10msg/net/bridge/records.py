"""What a route remembers of its deliveries: those that are pending, and what the disk knows.

The SQLite files outlive ``kill -9``, and a loss of power but for the last transaction.
"""

from __future__ import annotations

import contextlib
import hashlib
import heapq
import itertools
import math
import os
import sqlite3
import uuid
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs

from amqp10msg.atomic_files import lock
from amqp10msg.basic import BasicProperties, decode_content_header
from amqp10msg.brokers import STREAM_OFFSET
from amqp10msg.net.bridge.files import Quarantine
from amqp10msg.net.bridge.fingerprints import Fingerprint, fingerprint_of
from amqp10msg.net.bridge.terms import Outcome, Settle, SourceDelivery
from amqp10msg.net.bridge.urls import Endpoint
from amqp10msg.net.options import RouteOptions
from amqp10msg.private_files import PRIVATE, create_private
from amqp10msg.sections.parts import Scan, scan
from amqp10msg.wire.errors import AmqpError
from amqp10msg.wire.primitives import ULong

#: The types of a message-id (Part 3, 3.2.11).
_TYPES = {str: "string", bytes: "binary", uuid.UUID: "uuid", ULong: "ulong"}


def id_of_message(parts: Scan) -> str | None:
    """Return the message-id of a 1.0 message with its type, such as ``uuid:…``.

    None if the message has no message-id, or an empty one: clients write an empty string or binary
    instead of leaving the field out, so it does not identify a message.
    """
    properties = parts.section("properties")
    message_id = None if properties is None else properties.message_id
    if message_id is None or message_id in ("", b""):
        return None
    shown = message_id.hex() if isinstance(message_id, bytes) else str(message_id)
    return f"{_TYPES[type(message_id)]}:{shown}"


def id_of_properties(properties: BasicProperties) -> str | None:
    """Return the message-id of a 0-9-1 message; None if it has none, or an empty one."""
    text = properties.message_id
    if not text:
        return None
    try:
        text.encode()
    except UnicodeEncodeError:  # bytes that are not UTF-8, as surrogates
        return f"octets:{text.encode('utf-8', 'surrogateescape').hex()}"
    return f"string:{text}"


#: Errors of SQLite about a file. A damaged schema may also put bytes into an error text that are
#: not UTF-8, so that sqlite3 raises UnicodeDecodeError instead of its own error.
_FAULTS = (sqlite3.Error, UnicodeDecodeError)


def opened(path: Path, *tables: str) -> sqlite3.Connection:
    """Open a SQLite file, and create the tables that it does not have.

    Raises:
        OSError: the file cannot be opened, or is not a SQLite file; the message names it.
    """
    create_private(path)
    try:
        base = sqlite3.connect(path, isolation_level=None)
    except _FAULTS as error:
        raise OSError(f"{path}: {error}") from None
    try:
        # WAL and NORMAL: a transaction outlives the process; a loss of power may undo the last.
        base.execute("PRAGMA journal_mode=WAL")
        base.execute("PRAGMA synchronous=NORMAL")
        for table in tables:
            base.execute(table)
    except _FAULTS as error:
        base.close()
        raise OSError(f"{path}: {error}") from None
    return base


def fetched(
    base: sqlite3.Connection, path: Path, query: str, *arguments: Any
) -> list[tuple[Any, ...]]:
    """Return the rows of a query.

    Raises:
        OSError: the file is damaged or has other tables; the message names it.
    """
    try:
        return base.execute(query, arguments).fetchall()
    except _FAULTS as error:
        raise OSError(f"{path}: {error}") from None


@contextlib.contextmanager
def written(base: sqlite3.Connection, path: Path) -> Iterator[sqlite3.Connection]:
    """Hold a transaction; it is in the file when the block ends.

    Raises:
        OSError: it could not be written; nothing of it is.
    """
    try:
        base.execute("BEGIN IMMEDIATE")
        yield base
        base.execute("COMMIT")
    except _FAULTS as error:
        if base.in_transaction:
            base.execute("ROLLBACK")
        raise OSError(f"{path}: {error}") from None


_TAKEN = """
CREATE TABLE IF NOT EXISTS taken (
  number INTEGER PRIMARY KEY, route TEXT NOT NULL, identity BLOB NOT NULL, UNIQUE (route, identity)
) STRICT
"""
_LONGEST = 64


def identity_of(delivery: SourceDelivery) -> str | None:
    """Return the message-id of a delivery with its type; None where it has none, or is unreadable.

    What has no id has no identity: two messages may be the same and meant to be two.
    """
    try:
        if delivery.content_header is not None:
            return id_of_properties(decode_content_header(delivery.content_header).properties)
        return id_of_message(scan(delivery.octets))
    except AmqpError:
        return None


class Ledger:
    """Remembers the messages that a route's target took.

    It outlives ``kill -9``. What the target took and the file does not say yet, at most what is
    under way in one turn of the loop, may come twice after that: no file can know it.

    Routes of other names in the same file are told apart; of each, the latest `most` are
    remembered.
    """

    def __init__(self, path: Path, route: str, most: int) -> None:
        self._path = path
        self._route = _storable(route)
        self._most = most
        self._base = opened(path, _TAKEN)
        try:
            query = "SELECT count(*) FROM taken WHERE route = ?"
            rows = fetched(self._base, path, query, self._route)
        except OSError:
            self._base.close()
            raise
        self._count: int = rows[0][0]

    def __len__(self) -> int:
        return self._count

    def has(self, identity: str) -> bool:
        """Whether the target took this message.

        Raises:
            OSError: the file is damaged.
        """
        query = "SELECT 1 FROM taken WHERE route = ? AND identity = ?"
        return bool(fetched(self._base, self._path, query, self._route, _key(identity)))

    def add(self, identities: Iterable[str]) -> None:
        """Remember messages; it is in the file when this returns."""
        with written(self._base, self._path) as base:
            before = base.total_changes
            base.executemany(
                "INSERT OR IGNORE INTO taken (route, identity) VALUES (?, ?)",
                [(self._route, _key(identity)) for identity in identities],
            )
            count = self._count + base.total_changes - before
            if count > self._most:
                base.execute(
                    "DELETE FROM taken WHERE number IN "
                    "(SELECT number FROM taken WHERE route = ? ORDER BY number LIMIT ?)",
                    (self._route, count - self._most),
                )
                count = self._most
        self._count = count

    def close(self) -> None:
        """Close the file."""
        self._base.close()


def _key(identity: str) -> bytes:
    """Return the key of an id: itself, or a hash of what is long."""
    octets = identity.encode("utf-8", "surrogatepass")
    return octets if len(octets) <= _LONGEST else b"\0" + hashlib.sha256(octets).digest()


_POSITION = """
CREATE TABLE IF NOT EXISTS position (route TEXT PRIMARY KEY, next INTEGER NOT NULL) STRICT
"""
# A table of its own, so that earlier versions can still use the file.
_FINGERPRINT = """
CREATE TABLE IF NOT EXISTS fingerprint (
  route TEXT PRIMARY KEY, position INTEGER NOT NULL, protocol TEXT NOT NULL, digest BLOB NOT NULL
) STRICT
"""


#: The last position that a file of positions can hold, with the position after it: SQLite's
#: integers have 63 bits and a sign.
_MAX_POSITION = (1 << 63) - 2


def _storable(route: str) -> str:
    """Return the name of a route as SQLite stores it: without halves of surrogate pairs.

    The name is that of a queue, whose bytes may not be UTF-8.
    """
    return route.encode("utf-8", "backslashreplace").decode()


def position_of(delivery: SourceDelivery) -> int | None:
    """Return the position of a delivery in its stream or file, or None if it has none.

    A position that is too large for a file of positions is none: no stream is that long.
    """
    if delivery.position is not None:
        return delivery.position
    found: Any = None
    with contextlib.suppress(AmqpError, AttributeError):
        if delivery.content_header is None:
            annotations: Any = scan(delivery.octets).section("message_annotations")
            found = annotations.get(STREAM_OFFSET)
        else:
            headers = decode_content_header(delivery.content_header).properties.headers or {}
            found = headers.get(STREAM_OFFSET)
    return int(found) if isinstance(found, int) and 0 <= found <= _MAX_POSITION else None


def rename(options: RouteOptions, old: str, new: str) -> None:
    """Have a route go on with what one of another name has in its files, unless it has its own."""
    for path, schemas in (
        (options.state, {"position": _POSITION, "fingerprint": _FINGERPRINT}),
        (options.deduplicate, {"taken": _TAKEN}),
    ):
        if path is None or not path.exists():
            continue
        base = opened(path, *schemas.values())
        try:
            with written(base, path):
                for table in schemas:
                    base.execute(
                        f"UPDATE OR IGNORE {table} SET route = ? WHERE route = ?",  # noqa: S608  (one of three names)
                        (_storable(new), _storable(old)),
                    )
        finally:
            base.close()


class Lease:
    """Lets one process at a time run a route with a file of positions: the file has one reader.

    The system takes it back when the process ends or is killed, so that another one goes on.

    The lease is a file beside that one.
    """

    def __init__(self, state: Path, route: str) -> None:
        digest = hashlib.sha256(route.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        self._state = state
        self._path = state.with_name(f"{state.name}.{digest}.lock")
        self._handle: int | None = None

    def take(self) -> bool:
        """Return whether nobody else has it; then it is ours until `release`."""
        try:
            handle = os.open(self._path, os.O_RDWR | os.O_CREAT, PRIVATE)
        except OSError as error:
            text = f"no file beside it can be opened: {error.strerror or error}"
            raise OSError(f"{self._state}: {text}") from None
        try:
            lock(handle, wait=False)
        except OSError:
            os.close(handle)
            return False
        self._handle = handle
        return True

    def release(self) -> None:
        """Let others have it; nothing where it is not ours."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


_COLUMNS = ("position", "protocol", "digest")


def _check_column(path: Path, table: str, column: str, value: object, kind: type) -> None:
    """Raise OSError unless a value is of a type; a position must be 0 or more.

    Another program's table may have columns of the same names, with other types.
    """
    if type(value) is not kind or (isinstance(value, int) and value < 0):
        raise OSError(
            f"{path}: column {column} of table {table} holds {value!r:.40}: this is not a file "
            "that a bridge wrote, or it is damaged; give another file"
        )


class Positions:
    """How far a route has read a stream or a file, and from where the next run continues.

    A file of positions may be shared by routes of different names.

    Args:
        path: the file; None to forget the position when the route ends.
        route: the name of the route.
        active: the source keeps its messages, so its deliveries have positions. The message itself
            does not show that: a message of a queue may have been in a stream before.
        stream: the source is a stream, whose broker adds headers to its messages.

    Attributes:
        next: every position before this one is finished; None if nothing is finished.
        skipped: positions between two messages that the broker did not deliver.

    Raises:
        OSError: the file cannot be used; the message names it.
    """

    def __init__(
        self, path: Path | None, route: str, *, active: bool, stream: bool = False
    ) -> None:
        self.active = active
        self.next: int | None = None
        self.skipped = 0
        self._expected: int | None = None  # the position after the last delivery of this connection
        self._seen = 0  # positions before this one were delivered, or counted as skipped
        self._route = _storable(route)
        self._stream = stream
        self._pending: dict[int, bool] = {}
        self._turn: list[SourceDelivery] = []  # finished since the last `save`
        self._last: SourceDelivery | None = None  # finished, and not in `_fingerprint` yet
        self._fingerprint: Fingerprint | None = None
        self._file: tuple[sqlite3.Connection, Path] | None = None
        if path is not None:
            self._load(path)

    def _load(self, path: Path) -> None:
        base = opened(path, _POSITION, _FINGERPRINT)
        try:
            query = "SELECT next FROM position WHERE route = ?"
            for (position,) in fetched(base, path, query, self._route):
                _check_column(path, "position", "next", position, int)
                self.next = position
            query = "SELECT position, protocol, digest FROM fingerprint WHERE route = ?"
            for row in fetched(base, path, query, self._route):
                for name, value, kind in zip(_COLUMNS, row, (int, str, bytes), strict=True):
                    _check_column(path, "fingerprint", name, value, kind)
                self._fingerprint = Fingerprint(*row)
        except OSError:
            base.close()
            raise
        self._file = base, path

    @property
    def fingerprint(self) -> Fingerprint | None:
        """The fingerprint of the last finished message whose bytes were in memory."""
        if self._last is not None:
            self._fingerprint = fingerprint_of(self._last, stream=self._stream)
            self._last = None
        return self._fingerprint

    def reset(self) -> None:
        """Forget unfinished deliveries: the next connection delivers them again."""
        self._pending.clear()
        self._expected = None

    def receive(self, delivery: SourceDelivery) -> None:
        """Add a delivery, and set its position."""
        if self.active:
            delivery.position = position_of(delivery)
            if delivery.position is not None:
                self._pending[delivery.position] = False
                if self._stream:
                    self._count_skipped(delivery.position)

    def _count_skipped(self, position: int) -> None:
        if self._expected is not None:
            self.skipped += max(position - max(self._expected, self._seen), 0)
        self._expected = position + 1
        self._seen = max(self._seen, position + 1)

    def finish(self, delivery: SourceDelivery) -> None:
        """Mark a delivery as finished: accepted, set aside, rejected or dropped."""
        if self.active and delivery.position in self._pending:
            self._pending[delivery.position] = True
            if delivery.large is None:
                self._turn.append(delivery)

    def save(self) -> None:
        """Advance `next` past the finished deliveries, and write it to the file.

        Raises:
            OSError: the file cannot be written.
        """
        if not self.active:
            return
        before, pending = self.next, self._pending
        while pending:
            first = next(iter(pending))
            if not pending[first]:
                break
            del pending[first]
            self.next = first + 1
        turn, self._turn = self._turn, []
        if self.next is None or self.next == before:
            return
        following = self.next
        passed = [one for one in turn if one.position is not None and one.position < following]
        self._last = max(passed, key=lambda one: one.position or 0, default=self._last)
        if self._file is not None:
            with written(*self._file) as base:
                base.execute(
                    "INSERT OR REPLACE INTO position VALUES (?, ?)", (self._route, following)
                )
                if self.fingerprint is not None:
                    row = (self._route, *attrs.astuple(self.fingerprint))
                    base.execute("INSERT OR REPLACE INTO fingerprint VALUES (?, ?, ?, ?)", row)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file[0].close()


#: More may be in flight for each that is taken, after poison.
_TRUST = 0.1


class Pending:
    """A delivery waits, is in flight, is held until it is tried again, or is a suspect.

    Suspects were in flight when the target's connection ended. Where one of them may be the cause,
    they are isolated: one message at a time is in flight until all of them were. Where there is
    poison, more may follow, so that then few are in flight at first, and more with each that is
    taken.

    What is in flight stands in the order in which it was sent.
    """

    def __init__(self) -> None:
        self.in_flight: dict[SourceDelivery, None] = {}
        self.isolating = False
        self._limit = math.inf
        self._waiting: deque[SourceDelivery] = deque()
        self._held: list[tuple[float, int, SourceDelivery]] = []
        self._suspects: deque[SourceDelivery] = deque()
        self._order = itertools.count()

    def __len__(self) -> int:
        return self.waiting + len(self.in_flight)

    @property
    def waiting(self) -> int:
        """How many are not in flight."""
        return len(self._waiting) + len(self._held) + len(self._suspects)

    @property
    def held(self) -> int:
        """How many are tried again later."""
        return len(self._held)

    def unsent(self) -> Iterator[SourceDelivery]:
        """Yield those that are not in flight."""
        yield from self._waiting
        yield from self._suspects
        yield from (delivery for _, _, delivery in self._held)

    def take_unsent(self) -> list[SourceDelivery]:
        """Take those that are not in flight."""
        taken = list(self.unsent())
        self._clear()
        return taken

    def _clear(self) -> None:
        self._waiting.clear()
        self._suspects.clear()
        self._held.clear()

    def add(self, delivery: SourceDelivery) -> None:
        """Add a delivery that waits to be sent."""
        self._waiting.append(delivery)

    def hold(self, delivery: SourceDelivery, due: float) -> None:
        """Hold one until a time of the loop's clock."""
        heapq.heappush(self._held, (due, next(self._order), delivery))

    def put_back(self, deliveries: list[SourceDelivery]) -> None:
        """Put back those that were taken and not sent, before all others."""
        self._waiting.extendleft(reversed(deliveries))

    def take(self, now: float, most: int) -> list[SourceDelivery]:
        """Take those that are to be sent next.

        The time is that of the loop's clock.
        """
        taken: list[SourceDelivery] = []
        most = 1 if self.isolating else int(min(most, self._limit - len(self.in_flight)))
        while len(taken) < most:
            delivery = self._next(now)
            if delivery is None:
                break
            taken.append(delivery)
        return taken

    def _next(self, now: float) -> SourceDelivery | None:
        if self.isolating:
            if self.in_flight:
                return None
            self.isolating = bool(self._suspects)
        if self._suspects:
            return self._suspects.popleft()
        if self._held and self._held[0][0] <= now:
            return heapq.heappop(self._held)[2]
        return self._waiting.popleft() if self._waiting else None

    def throttle(self) -> None:
        """Send one at a time, and more with each that is accepted: one was found to be poison."""
        self._limit = 1.0

    def succeed(self, count: int) -> None:
        """Note that so many were taken."""
        self._limit += count * _TRUST

    def lose_source(self) -> list[SourceDelivery]:
        """Forget all that are not in flight; return those that are, which nobody can settle now."""
        self._clear()
        for delivery in self.in_flight:
            delivery.link = None
        return list(self.in_flight)

    def lose_target(self) -> tuple[list[SourceDelivery], list[SourceDelivery]]:
        """Take all in flight: those to be sent again, and those that nobody can settle."""
        flying: list[SourceDelivery] = []
        orphans: list[SourceDelivery] = []
        for delivery in self.in_flight:
            (orphans if delivery.link is None else flying).append(delivery)
        self.in_flight.clear()
        return flying, orphans

    def suspect(self, deliveries: Iterable[SourceDelivery], *, isolated: bool) -> None:
        """Send these again, before all others.

        They are `isolated` where one of them may be the cause; it may, too, where one of them was
        in flight at such an end before.
        """
        found = list(deliveries)
        again = bool(self._suspects) or any(delivery.suspected for delivery in found)
        for delivery in found:
            delivery.suspected = True
        self._suspects.extendleft(reversed(found))
        self.isolating = bool(self._suspects) and (again or isolated)


#: A delivery whose fate is settled, how it is settled at the source, and the target's outcome.
Finished = tuple[SourceDelivery, Settle, "Outcome | None"]


class Records:
    """The quarantine, the message-ids that the target took, and how far a stream was read.

    Where duplicates are looked for, it also knows what is under way, and its copies that came
    meanwhile.

    `names` are those of the route, its source and its target, as the quarantine has them.
    """

    def __init__(
        self, route: str, source: Endpoint, target: Endpoint, options: RouteOptions
    ) -> None:
        self.names = {"route": route, "source": str(source), "target": str(target)}
        self._quarantine = Quarantine(options.quarantine)
        self._reads_quarantine = source.file is not None and (
            Path(source.file).resolve() == options.quarantine.resolve()
        )
        stream = source.file is None and source.keeps
        self.positions = Positions(options.state, route, active=source.keeps, stream=stream)
        self._ledger: Ledger | None = None
        if options.deduplicate is not None:
            try:
                self._ledger = Ledger(options.deduplicate, route, options.remember)
            except OSError:
                self.positions.close()
                raise
        self._under_way: dict[str, SourceDelivery] = {}
        self._copies: dict[str, list[SourceDelivery]] = {}

    @property
    def copies(self) -> list[SourceDelivery]:
        """What waits for the outcome of another one with its message-id."""
        return [copy for copies in self._copies.values() for copy in copies]

    def is_taken(self, delivery: SourceDelivery) -> bool | None:
        """Whether the target has a message already; None where that is not known yet.

        Then it is kept with the other one, and comes out of `forget`.
        """
        if self._ledger is None:
            return False
        identity = delivery.identity = identity_of(delivery)
        if identity is None:
            return False
        if identity in self._under_way:
            self._copies.setdefault(identity, []).append(delivery)
            return None
        if self._ledger.has(identity):
            delivery.identity = None
            return True
        self._under_way[identity] = delivery
        return False

    def forget(self, delivery: SourceDelivery) -> list[SourceDelivery]:
        """Forget that a delivery is under way; return its copies, to be looked at again."""
        identity = delivery.identity
        if identity is None or self._under_way.pop(identity, None) is None:
            return []
        return self._copies.pop(identity, [])

    def reset(self, in_flight: Sequence[SourceDelivery]) -> None:
        """Forget all that the source is to deliver again: what is not in flight."""
        self.positions.reset()
        self._copies.clear()
        self._under_way = {one.identity: one for one in in_flight if one.identity is not None}

    def finish(self, finished: Sequence[Finished]) -> tuple[Sequence[Finished], OSError | None]:
        """Write to disk what must be there before deliveries are settled.

        Return those that may be settled, and what failed. What the target has taken may be settled
        though its message-id is not in the file: else it would come again for certain.
        """
        fault = None
        aside = [
            (delivery, outcome)
            for delivery, _, outcome in finished
            if outcome is not None
            and outcome.kind != "accepted"
            # A line of the quarantine itself stays there.
            and not (delivery.fault and self._reads_quarantine)
        ]
        try:
            if aside:
                self._quarantine.add(aside, **self.names)
        except OSError as error:
            fault = error
            kept = {delivery for delivery, _ in aside}
            finished = [one for one in finished if one[0] not in kept]
        try:
            self._remember(finished)
        except OSError as error:
            fault = fault or error
        return finished, fault

    def _remember(self, finished: Sequence[Finished]) -> None:
        """Remember what the target took, and how far a stream was read."""
        if self.positions.active:
            for delivery, _, _ in finished:
                self.positions.finish(delivery)
        if self._ledger is not None:
            taken = [
                delivery.identity
                for delivery, _, outcome in finished
                if delivery.identity is not None
                and outcome is not None
                and outcome.kind == "accepted"
            ]
            if taken:
                self._ledger.add(taken)
        self.positions.save()

    def close(self) -> None:
        """Close the files."""
        if self._ledger is not None:
            self._ledger.close()
        self.positions.close()
