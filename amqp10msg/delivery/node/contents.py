"""The messages of a node in memory, the interface of stores, and the errors of a node.

Messages are indexed by sequence number, by expiry, and in one queue per priority (Part 3, 3.2.1).
The cost of an operation does not depend on the length of the queue: a view passes each message
once, and again only after the message was offered again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from heapq import heapify, heappop, heappush
from typing import Any, ClassVar, Protocol

import attrs

from amqp10msg.composite import Error
from amqp10msg.delivery.states import MessageState
from amqp10msg.message import Message
from amqp10msg.sections import Header
from amqp10msg.sections.parts import scan
from amqp10msg.wire.errors import INTERNAL_ERROR, AmqpError
from amqp10msg.wire.kernel import decode_value
from amqp10msg.wire.limits import UNLIMITED, Limits

#: Positions in a segment of a `Level`.
_SEGMENT = 256
#: Maximum size of an encoded header section, in bytes.
_MAX_HEADER = 64
#: The two encodings of the boolean false.
_FALSE, _FALSE_BYTE = b"\x42", b"\x56\x00"
#: Values of `Entry.acquirer` besides the positive numbers of links.
NEVER_ACQUIRED = 0
SEVERAL_LINKS = -1
#: The header of a message that has no header section; never modified.
NO_HEADER = Header()


class NodeError(AmqpError):
    """A node refused an operation.

    Attributes:
        reason: why the node refused it, and what to do.
        condition: the error condition for the peer, such as ``amqp:precondition-failed``.
    """

    def __init__(self, reason: str, condition: str) -> None:
        super().__init__(reason, condition)
        self.reason = reason
        self.condition = condition

    def __str__(self) -> str:
        return f"{self.reason} ({self.condition})"

    @property
    def error(self) -> Error:
        """The error for a rejected outcome, or for the detach of a link (Part 2, 2.8.14)."""
        return Error(self.condition, description=self.reason)


class OutcomeError(NodeError):
    """A node refused an outcome because the changed message would exceed its limits.

    The message is unchanged and the delivery unsettled: settle it with another outcome.
    """


class StoreError(NodeError):
    """A store could not read or write: no change since the last commit is confirmed.

    A message that was being published is not at the node. All other changes stay pending:
    `DistributionNode.commit` writes them again.
    """

    def __init__(self, reason: str, condition: str = INTERNAL_ERROR) -> None:
        super().__init__(reason, condition)


@attrs.frozen
class Stored:
    """A message in a store.

    Attributes:
        sequence: the sequence number of the message at its node, from 1.
        arrival: when it was published, in ms of the node's clock.
        octets: the encoded message, with the changes that outcomes made.
        message_format: the message-format with which it was published, 0 to 2^32 - 1.
    """

    sequence: int
    arrival: int
    octets: bytes
    message_format: int = 0


@attrs.frozen
class Quarantined:
    """A stored message that its node could not read.

    Attributes:
        node: the node's name.
        stored: the message, with its unchanged bytes.
        reason: why the node could not read it.
    """

    node: str
    stored: Stored
    reason: str


class Store(Protocol):
    """Keeps the durable messages of one or more nodes.

    `put` and `remove` take effect when the next `commit` returns; only then does a node confirm
    them. Only one thread may use a store at a time.
    """

    @property
    def durable(self) -> bool:
        """Whether committed messages survive the end of the process, including a crash."""

    def load(self, node: str) -> Iterable[Stored]:
        """Return the messages of a node by sequence number, with pending changes applied."""

    def put(self, node: str, stored: Stored) -> None:
        """Store a message; it replaces a message with the same sequence number."""

    def remove(self, node: str, sequence: int) -> None:
        """Remove a message; a no-op if it does not exist."""

    def quarantine(self, node: str, stored: Stored, reason: str) -> None:
        """Immediately quarantine a committed, unreadable message.

        After that `quarantined` returns the message, and `load` does not.
        """

    def quarantined(self, node: str | None = None) -> Iterable[Quarantined]:
        """Return the quarantined messages of one node, or of all nodes."""

    def discard(self, node: str, sequence: int) -> None:
        """Immediately delete a quarantined message; a no-op if it does not exist."""

    def commit(self) -> None:
        """Write all changes since the last commit; a no-op within a `batch`.

        Raises:
            StoreError: no change was written; all stay pending for another commit.
        """

    def batch(self) -> AbstractContextManager[None]:
        """Return a context manager that commits at its end, including after an exception.

        Batches nest: the outermost batch commits.
        """


class MemoryStore:
    """A no-op store: messages are only in the node's memory."""

    durable = False

    def load(self, node: str) -> Iterable[Stored]:  # noqa: ARG002  (the interface)
        """Return no messages."""
        return ()

    def put(self, node: str, stored: Stored) -> None:
        """Do nothing."""

    def remove(self, node: str, sequence: int) -> None:
        """Do nothing."""

    def quarantine(self, node: str, stored: Stored, reason: str) -> None:
        """Do nothing."""

    def quarantined(self, node: str | None = None) -> Iterable[Quarantined]:  # noqa: ARG002  (one signature for all)
        """Return no messages."""
        return ()

    def discard(self, node: str, sequence: int) -> None:
        """Do nothing."""

    def commit(self) -> None:
        """Do nothing."""

    @property
    def pending(self) -> int:
        """The number of changes that wait for a commit, always 0."""
        return 0

    @contextmanager
    def batch(self, should_commit: Callable[[], bool] | None = None) -> Iterator[None]:  # noqa: ARG002  (one signature for all)
        """Return a no-op context manager."""
        yield


# In memory.


@attrs.define(eq=False, weakref_slot=False)
class Entry:
    """A message at a node.

    Attributes:
        sequence: the sequence number at the node.
        arrival: when it was published, in ms of the node's clock.
        octets: the encoded message, with the changes that outcomes made.
        header: the header in `octets`; never modified in place.
        expires: the last ms before the message expires; None if it never expires.
        message_format: the message-format with which it was published.
        level: the priority level.
        position: the position in that level.
        origin: the `origin` of `publish`; None after a restart.
        stored: whether the store has the message.
        state: the state (Part 3, figure 3.1).
        acquirer: the number of the only link that has acquired it, NEVER_ACQUIRED or SEVERAL_LINKS.
        delivery: the `Delivery` that has acquired it, or None.
        copies: unsettled deliveries in copy mode, by number of the link.
        not_for: numbers of the links that must not get the message: links in copy mode that have
            got it, and links for which it is undeliverable.
        timed: whether it is in the heap of expiry times.
        offered_again: whether views may have its position in their `_OfferedPositions`.
    """

    sequence: int
    arrival: int
    octets: bytes
    header: Header
    expires: int | None
    message_format: int
    level: int
    position: int = 0
    origin: object = None
    stored: bool = False
    state: MessageState = MessageState.AVAILABLE
    acquirer: int = NEVER_ACQUIRED
    delivery: Any = None
    copies: dict[int, Any] | None = None
    not_for: set[int] | None = None
    timed: bool = False
    offered_again: bool = False

    @classmethod
    def of(cls, stored: Stored, levels: int, *, limits: Limits | None, expires: bool) -> Entry:
        """Return the entry of a stored message.

        Args:
            stored: the message.
            levels: the number of priorities of the node.
            limits: the limits for decoding the message.
            expires: whether messages expire at the node.

        Raises:
            DecodeError: the message is malformed.
        """
        message = Message.decode(stored.octets, limits=limits)
        header = message.header or NO_HEADER
        entry = cls(
            stored.sequence,
            stored.arrival,
            stored.octets,
            header,
            message.expires_at(stored.arrival) if expires else None,
            stored.message_format,
            priority_level(header.priority, levels),
        )
        if was_acquired_before(stored.octets):
            entry.acquirer = SEVERAL_LINKS
        return entry

    def message(self) -> Message:
        """Decode the message."""
        return Message.decode(self.octets, limits=UNLIMITED, message_format=self.message_format)


def was_acquired_before(octets: bytes) -> bool:
    """Whether the header of a message has an explicit first-acquirer of false.

    The specification gives an absent first-acquirer the same meaning (Part 3, 3.2.1). But most
    senders leave it out without knowing whether other links have acquired the message.
    """
    start = octets[:_MAX_HEADER]
    if _FALSE not in start and _FALSE_BYTE not in start:
        return False
    first = next(iter(scan(octets, limits=UNLIMITED)))
    if first.name != "header":
        return False
    fields: list[Any] = decode_value(octets[first.content : first.end])
    _durable, _priority, _ttl, first_acquirer, *_ = (*fields, None, None, None, None)
    return first_acquirer is False


@attrs.frozen
class Capacity:
    """Limits for the AVAILABLE and ACQUIRED messages of a node; None for no limit.

    Attributes:
        messages: the number of messages.
        octets: the total size of the messages, in bytes.
        message_octets: the size of a message, in bytes.
    """

    messages: int | None = None
    octets: int | None = None
    message_octets: int | None = None


@attrs.define(eq=False)
class Memory:
    """Counts the memory of the messages of one or more nodes.

    A message counts its size plus `PER_MESSAGE` bytes, and its size again for each unsettled
    delivery.

    Attributes:
        most: the limit in bytes; None for no limit.
        held: the memory in use, in bytes.
    """

    #: Memory overhead of a message at a node, in bytes, in addition to the encoded message.
    PER_MESSAGE: ClassVar[int] = 400

    most: int | None = None
    held: int = 0

    def excess(self, size: int) -> str:
        """Describe the limit that a message of `size` bytes would exceed; empty if it fits."""
        size += self.PER_MESSAGE
        if self.most is None or self.held + size <= self.most:
            return ""
        return (
            f"{self.most} bytes are allowed for all messages, {self.held} are in use, and this "
            f"message takes {size}"
        )


@attrs.frozen
class Counts:
    """The number of messages at a node, by state.

    Attributes:
        available: messages in the state AVAILABLE.
        acquired: messages in the state ACQUIRED: unsettled on a link in move mode.
        archived: messages that were archived since the node was created.
        octets: total size of the available and acquired messages, in bytes.
        causes: the number of archived messages by cause: accepted, rejected, expired, deleted,
            withdrawn.
    """

    available: int
    acquired: int
    archived: int
    octets: int
    causes: Mapping[str, int]


@attrs.frozen
class Waiting:
    """A message that is AVAILABLE or ACQUIRED at a node.

    Attributes:
        sequence: the sequence number at the node.
        arrival: when it was published, in ms of the node's clock.
        state: AVAILABLE or ACQUIRED.
        level: the priority level.
        delivery_count: the number of unsuccessful delivery attempts, from the header.
        expires: the last ms before the message expires; None if it never expires.
        octets: the encoded message, with the changes that outcomes made.
    """

    sequence: int
    arrival: int
    state: MessageState
    level: int
    delivery_count: int
    expires: int | None
    octets: bytes = attrs.field(repr=False)

    @classmethod
    def of(cls, entry: Entry) -> Waiting:
        """Return the record of an entry."""
        return cls(
            entry.sequence,
            entry.arrival,
            entry.state,
            entry.level,
            entry.header.delivery_count,
            entry.expires,
            entry.octets,
        )


def priority_level(priority: int, levels: int) -> int:
    """Return the level of a priority at a node with this many distinct priorities.

    Part 3, 3.2.1: with n < 10 levels, the priorities from 5 - ceiling(n/2) to 4 + floor(n/2) are
    distinct, and a priority outside this range is equivalent to the nearest distinct priority. With
    n >= 10, the priorities from 0 to n - 1 are distinct, and every higher priority is equivalent to
    n - 1.

    Args:
        priority: the priority of a message, 0 to 255.
        levels: the number of distinct priorities, 1 to 256.

    Returns:
        The level, 0 (lowest) to levels - 1.

    Raises:
        ValueError: `levels` is out of range.
    """
    if not 1 <= levels <= 256:
        raise ValueError(f"a node distinguishes 1 to 256 priorities, not {levels}")
    lowest = 5 - (levels + 1) // 2 if levels < 10 else 0
    return min(max(priority - lowest, 0), levels - 1)


class Level:
    """The messages of one priority, by position.

    Positions are not reused. They are stored in segments, and an empty segment is dropped, so that
    removed messages cost neither memory nor time.

    Attributes:
        end: the position of the next message to be appended.
        live: the number of messages.
    """

    __slots__ = ("_counts", "_head", "_segments", "end", "live")

    def __init__(self) -> None:
        self._segments: dict[int, list[Entry | None]] = {}
        self._counts: dict[int, int] = {}  # number of messages by segment
        self._head = 0  # the first segment that may have messages
        self.end = 0
        self.live = 0

    def append(self, entry: Entry) -> int:
        """Append a message and return its position."""
        position = self.end
        segment = position // _SEGMENT
        if position % _SEGMENT == 0:
            self._segments[segment] = [entry]
            self._counts[segment] = 1
        else:
            self._segments[segment].append(entry)
            self._counts[segment] += 1
        self.end += 1
        self.live += 1
        return position

    def remove(self, position: int) -> None:
        """Remove the message at a position, which must have one."""
        segment, index = divmod(position, _SEGMENT)
        self._segments[segment][index] = None
        self._counts[segment] -= 1
        self.live -= 1
        # Keep the last segment while messages can be appended to it.
        if not self._counts[segment] and (segment + 1) * _SEGMENT <= self.end:
            del self._segments[segment], self._counts[segment]
            last = self.end // _SEGMENT
            while self._head < last and self._head not in self._segments:
                self._head += 1

    def get(self, position: int) -> Entry | None:
        """Return the message at a position; None if it was removed."""
        segment = self._segments.get(position // _SEGMENT)
        return segment[position % _SEGMENT] if segment is not None else None

    def seek(self, position: int) -> int:
        """Return the first position from `position` on that has a message, or `end`."""
        if not self.live:
            return self.end
        position = max(position, self._head * _SEGMENT)
        while position < self.end:
            number, start = divmod(position, _SEGMENT)
            segment = self._segments.get(number)
            if segment is not None:
                for index in range(start, len(segment)):
                    if segment[index] is not None:
                        return number * _SEGMENT + index
            position = (number + 1) * _SEGMENT
        return self.end


class _OfferedPositions:
    """A priority queue of the positions before a cursor that are offered again."""

    __slots__ = ("_heap", "_positions")

    def __init__(self) -> None:
        self._heap: list[int] = []  # may contain discarded positions, which `first` drops
        self._positions: set[int] = set()

    def __bool__(self) -> bool:
        return bool(self._positions)

    def add(self, position: int) -> None:
        if position not in self._positions:
            self._positions.add(position)
            heappush(self._heap, position)

    def discard(self, position: int) -> None:
        if position in self._positions:
            self._positions.remove(position)
            if len(self._heap) > 2 * len(self._positions) + 16:
                self._heap = list(self._positions)
                heapify(self._heap)

    def first(self) -> int:
        """Return the lowest position; the queue must not be empty."""
        while self._heap[0] not in self._positions:
            heappop(self._heap)
        return self._heap[0]

    def copy(self) -> _OfferedPositions:
        copied = _OfferedPositions()
        copied._heap = self._heap.copy()
        copied._positions = self._positions.copy()
        return copied


class View:
    """The next position in each level, for one link or for links that see the same messages."""

    __slots__ = ("_cursors", "_levels", "_offered")

    def __init__(self, levels: list[Level]) -> None:
        self._levels = levels
        self._cursors = [0] * len(levels)
        self._offered = [_OfferedPositions() for _ in levels]

    def copy(self) -> View:
        """Return an independent view with the same positions."""
        copied = View(self._levels)
        copied._cursors = self._cursors.copy()
        copied._offered = [positions.copy() for positions in self._offered]
        return copied

    def next(self, matches: Callable[[Entry], bool]) -> Entry | None:
        """Return the next message that matches, highest level first, and move past it.

        Messages that do not match are passed, and tested again only after `offer_again`. If
        `matches` raises, the cursor stays at the message.
        """
        for number in range(len(self._levels) - 1, -1, -1):
            level = self._levels[number]
            if not level.live:
                continue
            offered = self._offered[number]
            while offered:
                position = offered.first()
                entry = level.get(position)
                is_match = entry is not None and matches(entry)
                offered.discard(position)
                if is_match:
                    return entry
            position = level.seek(self._cursors[number])
            while position < level.end:
                entry = level.get(position)
                is_match = entry is not None and matches(entry)
                self._cursors[number] = position + 1
                if is_match:
                    return entry
                position = level.seek(position + 1)
        return None

    def offer_again(self, entry: Entry) -> None:
        """Let `next` test a passed message again, before untested messages of its level."""
        if entry.position < self._cursors[entry.level]:
            self._offered[entry.level].add(entry.position)

    def forget(self, entry: Entry) -> None:
        """Forget a removed message."""
        self._offered[entry.level].discard(entry.position)


@attrs.define(eq=False)
class Cursor:
    """The view of a link, and the messages that the link must not get.

    Attributes:
        number: the number of the link.
        view: the view, which other links may share.
        barred: the messages that the link must not get, by sequence number.
    """

    number: int
    view: View
    barred: dict[int, Entry] = attrs.field(factory=dict)


class Cursors:
    """The cursors of all links.

    All links in move mode without a filter and without barred messages see the same messages. They
    share a view, which passes each message once for all these links.
    """

    def __init__(self, levels: list[Level]) -> None:
        self._levels = levels
        self._shared = View(levels)
        self._views = [self._shared]
        self._cursors: dict[int, Cursor] = {}

    def add(self, number: int, *, private: bool) -> Cursor:
        """Return the cursor of a new link, with its own view if `private`, else the shared one."""
        view = self._shared
        if private:
            view = View(self._levels)
            self._views.append(view)
        cursor = self._cursors[number] = Cursor(number, view)
        return cursor

    def drop(self, cursor: Cursor) -> None:
        """Remove a cursor, its own view, and its barred messages."""
        self._cursors.pop(cursor.number, None)
        if cursor.view is not self._shared:
            self._views.remove(cursor.view)
        for entry in cursor.barred.values():
            if entry.not_for is not None:
                entry.not_for.discard(cursor.number)
        cursor.barred.clear()

    def bar(self, cursor: Cursor, entry: Entry) -> None:
        """Exclude a message from a link that already got it, or on which it is undeliverable."""
        cursor.barred[entry.sequence] = entry
        if entry.not_for is None:
            entry.not_for = {cursor.number}
        else:
            entry.not_for.add(cursor.number)
        if cursor.view is self._shared:
            # This link no longer sees the same messages as the other links.
            cursor.view = self._shared.copy()
            self._views.append(cursor.view)

    def unbar(self, cursor: Cursor, entry: Entry) -> None:
        """Undo `bar`."""
        if cursor.barred.pop(entry.sequence, None) is not None and entry.not_for is not None:
            entry.not_for.discard(cursor.number)

    def offer_again(self, entry: Entry, cursor: Cursor | None = None) -> None:
        """Let one link, or all links, test a passed message again."""
        entry.offered_again = True
        for view in self._views if cursor is None else (cursor.view,):
            view.offer_again(entry)

    def forget(self, entry: Entry) -> None:
        """Forget an archived message."""
        if entry.offered_again:
            for view in self._views:
                view.forget(entry)
        for number in entry.not_for or ():
            cursor = self._cursors.get(number)
            if cursor is not None:
                cursor.barred.pop(entry.sequence, None)


class Contents:
    """The AVAILABLE and ACQUIRED messages of a node, with indexes.

    Attributes:
        entries: the messages by sequence number.
        levels: the messages by priority level.
        last: the sequence number of the last published message.
        acquired: the number of ACQUIRED messages.
        octets: the total size of the messages, in bytes.
        memory: counts the memory of the messages.
        causes: the number of archived messages by cause.
    """

    def __init__(self, priorities: int, memory: Memory) -> None:
        self.memory = memory
        self.levels = [Level() for _ in range(priorities)]
        self.entries: dict[int, Entry] = {}
        self.last = 0
        self.acquired = 0
        self.octets = 0
        self.causes: Counter[str] = Counter()
        # A heap of (expiry time, sequence number); items of removed messages stay for a while.
        self._expiry: list[tuple[int, int]] = []
        self._timed = 0  # number of messages at the node that are in the heap

    @property
    def counts(self) -> Counts:
        """The number of messages, by state."""
        available, causes = len(self.entries) - self.acquired, self.causes
        return Counts(available, self.acquired, causes.total(), self.octets, dict(causes))

    def excess(self, capacity: Capacity, size: int) -> str:
        """Describe the limit that a message of `size` bytes would exceed; empty if it fits."""
        if capacity.message_octets is not None and size > capacity.message_octets:
            return (
                f"takes at most {capacity.message_octets} bytes in a message, and this one has "
                f"{size}"
            )
        if capacity.messages is not None and len(self.entries) >= capacity.messages:
            return f"takes at most {capacity.messages} messages"
        if capacity.octets is not None and self.octets + size > capacity.octets:
            return (
                f"takes at most {capacity.octets} bytes, has {self.octets}, and this message "
                f"{size} more"
            )
        excess = self.memory.excess(size)
        return f"has no room: {excess}" if excess else ""

    def insert(self, entry: Entry) -> None:
        """Append a message to the queue of its level."""
        self.last = max(self.last, entry.sequence)
        entry.position = self.levels[entry.level].append(entry)
        self.entries[entry.sequence] = entry
        self.octets += len(entry.octets)
        self.memory.held += len(entry.octets) + Memory.PER_MESSAGE
        if entry.expires is not None:
            self.time(entry, entry.expires)

    def remove(self, entry: Entry, cause: str) -> None:
        """Remove a message from the node, and set its state to ARCHIVED."""
        self.acquired -= entry.state is MessageState.ACQUIRED
        entry.state = MessageState.ARCHIVED
        self.causes[cause] += 1
        self.octets -= len(entry.octets)
        self.memory.held -= len(entry.octets) + Memory.PER_MESSAGE
        del self.entries[entry.sequence]
        self.levels[entry.level].remove(entry.position)
        if entry.timed:
            entry.timed = False
            self._timed -= 1

    def change(self, entry: Entry, octets: bytes) -> None:
        """Replace the bytes of a message."""
        growth = len(octets) - len(entry.octets)
        self.octets += growth
        self.memory.held += growth
        entry.octets = octets

    def time(self, entry: Entry, expires: int) -> None:
        """Add a message to the heap of expiry times."""
        entry.timed = True
        self._timed += 1
        if len(self._expiry) > 2 * self._timed + 64:
            # More than half of the heap belongs to removed messages: drop them.
            self._expiry = [item for item in self._expiry if item[1] in self.entries]
            heapify(self._expiry)
        heappush(self._expiry, (expires, entry.sequence))

    def pop_due(self, now: int) -> Entry | None:
        """Return the next expired AVAILABLE message, or None, and drop it from the expiry heap."""
        while self._expiry and self._expiry[0][0] < now:
            entry = self.entries.get(heappop(self._expiry)[1])
            if entry is not None:
                entry.timed = False
                self._timed -= 1
                if entry.state is MessageState.AVAILABLE:
                    return entry
        return None

    @property
    def first_expiry(self) -> int | None:
        """The earliest expiry in the heap, perhaps of a removed message; None for an empty heap."""
        return self._expiry[0][0] if self._expiry else None

    @property
    def oldest(self) -> Entry | None:
        """The message that was published first; None if there are no messages."""
        firsts = [
            entry
            for level in self.levels
            if level.live and (entry := level.get(level.seek(0))) is not None
        ]
        return min(firsts, key=lambda entry: entry.sequence, default=None)
