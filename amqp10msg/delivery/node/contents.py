"""The messages of a node in memory, the interface of stores, and the errors of a node.

Messages are indexed by sequence number, by expiry, and in one queue per priority (Part 3, 3.2.1).
The cost of an operation does not depend on the length of the queue: a `View` moves past each
message once, and again only if the message is offered again.
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

#: Number of message positions in each segment of a `Level`.
_POSITIONS_PER_SEGMENT = 256
#: Maximum size of an encoded header section, in bytes.
_MAX_HEADER_SIZE = 64
#: The two encodings of the boolean false.
_FALSE_CODE, _FALSE_BYTE = b"\x42", b"\x56\x00"
#: Values of `Entry.acquirer` if no link, or more than one link, has acquired the message. Other
#: values are the positive numbers of links.
NO_ACQUIRER = 0
SEVERAL_ACQUIRERS = -1
#: The header of messages without a header section. Never modify it.
HEADER_OF_DEFAULTS = Header()


class NodeError(AmqpError):
    """Raised if a node refuses an operation.

    Attributes:
        reason: why the node refuses the operation, and what to do.
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
    """Raised if a node refuses an outcome because the changed message would exceed its limits.

    The message is unchanged and the delivery unsettled: settle it with another outcome.
    """


class StoreError(NodeError):
    """Raised if a store cannot read or write. No change since the last commit is confirmed.

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
        arrival: when the message was published, in ms of the node's clock.
        octets: the encoded message, with the changes that outcomes made.
        message_format: the message-format with which it was published, 0 to 2^32 - 1.
    """

    sequence: int
    arrival: int
    octets: bytes
    message_format: int = 0


@attrs.frozen
class Quarantined:
    """A stored message that its node cannot decode.

    Attributes:
        node: the node's name.
        stored: the message, with its unchanged bytes.
        reason: why the node cannot decode the message.
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
        """Store a message, or replace the message with the same sequence number."""

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
        position: the position in the priority level.
        origin: the argument `origin` of `publish`; None after a restart.
        stored: whether the message is in the store.
        state: the state (Part 3, figure 3.1).
        acquirer: the number of the only link that has ever acquired the message; or NO_ACQUIRER,
            or SEVERAL_ACQUIRERS.
        delivery: the unsettled `Delivery` in move mode, or None.
        copies: the unsettled deliveries in copy mode, by number of the link.
        barred_links: the numbers of the links that must not get the message: links in copy mode
            that already got the message, and links on which it is undeliverable.
        in_expiry_heap: whether the message is in the heap of expiry times.
        offered_again: whether the message was ever offered again to views, see
            `_OfferedPositions`.
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
    acquirer: int = NO_ACQUIRER
    delivery: Any = None
    copies: dict[int, Any] | None = None
    barred_links: set[int] | None = None
    in_expiry_heap: bool = False
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
        header = message.header or HEADER_OF_DEFAULTS
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
            entry.acquirer = SEVERAL_ACQUIRERS
        return entry

    def message(self) -> Message:
        """Decode the message."""
        return Message.decode(self.octets, limits=UNLIMITED, message_format=self.message_format)


def was_acquired_before(octets: bytes) -> bool:
    """Whether the header of a message sets first-acquirer to false.

    According to the specification, an unset first-acquirer means false as well (Part 3, 3.2.1). But
    most senders do not set it, without knowing whether other links have acquired the message.
    """
    start = octets[:_MAX_HEADER_SIZE]
    if _FALSE_CODE not in start and _FALSE_BYTE not in start:
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
    """Counts the memory that the messages of one or more nodes use, and limits it.

    A message counts as its size plus `PER_MESSAGE` bytes, plus the size of each unsettled delivery.

    Attributes:
        limit: the limit in bytes; None for no limit.
        message_bytes: the memory in use, in bytes.
    """

    #: Memory in bytes that a message at a node needs in addition to the encoded message.
    PER_MESSAGE: ClassVar[int] = 400

    limit: int | None = None
    message_bytes: int = 0

    def excess(self, size: int) -> str:
        """Describe the limit that a message of `size` bytes would exceed; empty if it fits."""
        size += self.PER_MESSAGE
        if self.limit is None or self.message_bytes + size <= self.limit:
            return ""
        return (
            f"{self.limit} bytes are allowed for all messages, {self.message_bytes} are in use, "
            f"and this message takes {size}"
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
        arrival: when the message was published, in ms of the node's clock.
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
        """Return the `Waiting` for an entry."""
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
    """Return the priority level for a priority, at a node with `levels` distinct priorities.

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
    """The messages of one priority level, by position.

    Positions are never reused. They are stored in segments. Empty segments are deleted, so that
    removed messages cost neither memory nor time.

    Attributes:
        end: the position of the next message to be appended.
        message_count: the number of messages in the level.
    """

    __slots__ = ("_first_segment", "_segment_counts", "_segments", "end", "message_count")

    def __init__(self) -> None:
        self._segments: dict[int, list[Entry | None]] = {}
        self._segment_counts: dict[int, int] = {}  # the number of messages in each segment
        self._first_segment = 0  # the first segment that may have messages
        self.end = 0
        self.message_count = 0

    def append(self, entry: Entry) -> int:
        """Append a message; return its position."""
        position = self.end
        segment = position // _POSITIONS_PER_SEGMENT
        if position % _POSITIONS_PER_SEGMENT == 0:
            self._segments[segment] = [entry]
            self._segment_counts[segment] = 1
        else:
            self._segments[segment].append(entry)
            self._segment_counts[segment] += 1
        self.end += 1
        self.message_count += 1
        return position

    def remove(self, position: int) -> None:
        """Remove the message at a position. There must be a message."""
        segment, index = divmod(position, _POSITIONS_PER_SEGMENT)
        self._segments[segment][index] = None
        self._segment_counts[segment] -= 1
        self.message_count -= 1
        # Keep the last segment, to which messages can be appended.
        if not self._segment_counts[segment] and (segment + 1) * _POSITIONS_PER_SEGMENT <= self.end:
            del self._segments[segment], self._segment_counts[segment]
            last = self.end // _POSITIONS_PER_SEGMENT
            while self._first_segment < last and self._first_segment not in self._segments:
                self._first_segment += 1

    def get(self, position: int) -> Entry | None:
        """Return the message at a position; None if it was removed."""
        segment = self._segments.get(position // _POSITIONS_PER_SEGMENT)
        return segment[position % _POSITIONS_PER_SEGMENT] if segment is not None else None

    def seek(self, position: int) -> int:
        """Return the first position, from `position` on, that has a message; else `end`."""
        if not self.message_count:
            return self.end
        position = max(position, self._first_segment * _POSITIONS_PER_SEGMENT)
        while position < self.end:
            number, start = divmod(position, _POSITIONS_PER_SEGMENT)
            segment = self._segments.get(number)
            if segment is not None:
                for index in range(start, len(segment)):
                    if segment[index] is not None:
                        return number * _POSITIONS_PER_SEGMENT + index
            position = (number + 1) * _POSITIONS_PER_SEGMENT
        return self.end


class _OfferedPositions:
    """Positions that a view has passed, whose messages are offered again, lowest first."""

    __slots__ = ("_heap", "_positions")

    def __init__(self) -> None:
        self._heap: list[int] = []  # may contain discarded positions, which `first` removes
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
    """The next position to read in each priority level.

    A view belongs to one link, or to all links that get the same messages.
    """

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

        The view also moves past messages that do not match. They are tested again only after
        `offer_again`. If `matches` raises, the view stays at the message.
        """
        for number in range(len(self._levels) - 1, -1, -1):
            level = self._levels[number]
            if not level.message_count:
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
        """Let `next` test a message again, before the untested messages of its level."""
        if entry.position < self._cursors[entry.level]:
            self._offered[entry.level].add(entry.position)

    def forget(self, entry: Entry) -> None:
        """Stop offering a message that was removed."""
        self._offered[entry.level].discard(entry.position)


@attrs.define(eq=False)
class Cursor:
    """The position of a link, and the messages that the link must not get.

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

    All links in move mode without a filter and without barred messages get the same messages. They
    share a view, which moves past each message once for all these links.
    """

    def __init__(self, levels: list[Level]) -> None:
        self._levels = levels
        self._shared = View(levels)
        self._views = [self._shared]
        self._cursors: dict[int, Cursor] = {}

    def add(self, number: int, *, private: bool) -> Cursor:
        """Return the cursor of a new link, with its own view if `private`, else the shared view."""
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
            if entry.barred_links is not None:
                entry.barred_links.discard(cursor.number)
        cursor.barred.clear()

    def bar(self, cursor: Cursor, entry: Entry) -> None:
        """Bar a link from a message that it already got, or that is undeliverable on the link."""
        cursor.barred[entry.sequence] = entry
        if entry.barred_links is None:
            entry.barred_links = {cursor.number}
        else:
            entry.barred_links.add(cursor.number)
        if cursor.view is self._shared:
            # This link no longer gets the same messages as other links, so it needs its own view.
            cursor.view = self._shared.copy()
            self._views.append(cursor.view)

    def unbar(self, cursor: Cursor, entry: Entry) -> None:
        """Let a link get a message again: undo `bar`."""
        if cursor.barred.pop(entry.sequence, None) is not None and entry.barred_links is not None:
            entry.barred_links.discard(cursor.number)

    def offer_again(self, entry: Entry, cursor: Cursor | None = None) -> None:
        """Let one link, or all links, test a message again that they have moved past."""
        entry.offered_again = True
        for view in self._views if cursor is None else (cursor.view,):
            view.offer_again(entry)

    def forget(self, entry: Entry) -> None:
        """Remove an archived message from all views and cursors."""
        if entry.offered_again:
            for view in self._views:
                view.forget(entry)
        for number in entry.barred_links or ():
            cursor = self._cursors.get(number)
            if cursor is not None:
                cursor.barred.pop(entry.sequence, None)


class Contents:
    """The AVAILABLE and ACQUIRED messages of a node, with indexes.

    Attributes:
        entries: the messages by sequence number.
        levels: the messages by priority level.
        last_sequence: the sequence number of the last published message.
        acquired: the number of ACQUIRED messages.
        octets: the total size of the messages, in bytes.
        memory: counts the memory of the messages.
        causes: the number of archived messages by cause.
    """

    def __init__(self, priorities: int, memory: Memory) -> None:
        self.memory = memory
        self.levels = [Level() for _ in range(priorities)]
        self.entries: dict[int, Entry] = {}
        self.last_sequence = 0
        self.acquired = 0
        self.octets = 0
        self.causes: Counter[str] = Counter()
        # A heap of (expiry time, sequence number). Items of removed messages are removed later.
        self._expiry: list[tuple[int, int]] = []
        self._heap_count = 0  # number of messages at the node whose `in_expiry_heap` is True

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
        self.last_sequence = max(self.last_sequence, entry.sequence)
        entry.position = self.levels[entry.level].append(entry)
        self.entries[entry.sequence] = entry
        self.octets += len(entry.octets)
        self.memory.message_bytes += len(entry.octets) + Memory.PER_MESSAGE
        if entry.expires is not None:
            self.add_expiry(entry, entry.expires)

    def remove(self, entry: Entry, cause: str) -> None:
        """Remove a message from the node, and set its state to ARCHIVED."""
        self.acquired -= entry.state is MessageState.ACQUIRED
        entry.state = MessageState.ARCHIVED
        self.causes[cause] += 1
        self.octets -= len(entry.octets)
        self.memory.message_bytes -= len(entry.octets) + Memory.PER_MESSAGE
        del self.entries[entry.sequence]
        self.levels[entry.level].remove(entry.position)
        if entry.in_expiry_heap:
            entry.in_expiry_heap = False
            self._heap_count -= 1

    def replace_octets(self, entry: Entry, octets: bytes) -> None:
        """Replace the bytes of a message."""
        growth = len(octets) - len(entry.octets)
        self.octets += growth
        self.memory.message_bytes += growth
        entry.octets = octets

    def add_expiry(self, entry: Entry, expires: int) -> None:
        """Add a message to the heap of expiry times, with its expiry time `expires`."""
        entry.in_expiry_heap = True
        self._heap_count += 1
        if len(self._expiry) > 2 * self._heap_count + 64:
            # More than half of the heap belongs to removed messages: remove them.
            self._expiry = [item for item in self._expiry if item[1] in self.entries]
            heapify(self._expiry)
        heappush(self._expiry, (expires, entry.sequence))

    def pop_due(self, now: int) -> Entry | None:
        """Remove an expired AVAILABLE message from the expiry heap and return it, or None."""
        while self._expiry and self._expiry[0][0] < now:
            entry = self.entries.get(heappop(self._expiry)[1])
            if entry is not None:
                entry.in_expiry_heap = False
                self._heap_count -= 1
                if entry.state is MessageState.AVAILABLE:
                    return entry
        return None

    @property
    def first_expiry(self) -> int | None:
        """The earliest expiry time, which may be of a removed message; None if nothing expires."""
        return self._expiry[0][0] if self._expiry else None

    @property
    def oldest(self) -> Entry | None:
        """The message that was published first; None if there are no messages."""
        firsts = [
            entry
            for level in self.levels
            if level.message_count and (entry := level.get(level.seek(0))) is not None
        ]
        return min(firsts, key=lambda entry: entry.sequence, default=None)
