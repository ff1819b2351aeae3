"""What a node holds: its messages in memory, what a store keeps of them, and a node's errors.

The messages stand by number, in a queue for each priority (Part 3, 3.2.1), and by expiry. The cost
of an operation does not grow with the queue: a view looks at each message once, and again only when
the message is offered again.
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

_SEGMENT = 256
#: More bytes than a header has, and what false is in them.
_HEADER = 64
_FALSE, _FALSE_BYTE = b"\x42", b"\x56\x00"
#: For `Entry.acquirer`; a link's number is positive.
NOBODY = 0
SEVERAL = -1
#: The header of a message without one; never changed.
NO_HEADER = Header()


class NodeError(AmqpError):
    """A node refuses an operation.

    Attributes:
        reason: why, and what would help.
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
    """An outcome is refused because the changed message could not be read any more.

    The message is left as it was and the delivery unsettled: settle it with another outcome.
    """


class StoreError(NodeError):
    """A store could not read or write: nothing since the last commit is confirmed.

    A message that was being published is not at the node. Everything else stays pending, and
    `DistributionNode.commit` tries again.
    """

    def __init__(self, reason: str, condition: str = INTERNAL_ERROR) -> None:
        super().__init__(reason, condition)


@attrs.frozen
class Stored:
    """A message as a store keeps it.

    Attributes:
        sequence: its number at the node, 1 for the first.
        arrival: when it arrived, in milliseconds of the node's clock.
        octets: the encoded message, as it stands at the node.
        message_format: of the transfer that brought it, 0 to 2^32 - 1.
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
        stored: the message, its bytes as they are.
        reason: why it could not be read.
    """

    node: str
    stored: Stored
    reason: str


class Store(Protocol):
    """Keeps the durable messages of one or more nodes.

    `put` and `remove` take effect when the following `commit` returns, and not before: then a node
    confirms them. A store is used by one thread at a time.
    """

    @property
    def durable(self) -> bool:
        """Whether what is committed outlives the process, however that ends."""

    def load(self, node: str) -> Iterable[Stored]:
        """Return the messages of a node, by sequence: those committed, with what is pending."""

    def put(self, node: str, stored: Stored) -> None:
        """Keep a message; it replaces the one with the same sequence."""

    def remove(self, node: str, sequence: int) -> None:
        """Remove a message; a missing one is not an error."""

    def quarantine(self, node: str, stored: Stored, reason: str) -> None:
        """Move a committed message that cannot be read from `load` to `quarantined`, at once."""

    def quarantined(self, node: str | None = None) -> Iterable[Quarantined]:
        """Return the quarantined messages of one node, or of all nodes."""

    def discard(self, node: str, sequence: int) -> None:
        """Delete a quarantined message, at once; a missing one is not an error."""

    def commit(self) -> None:
        """Write everything since the last commit. Does nothing within a `batch`.

        Raises:
            StoreError: nothing was written, and everything is still pending: commit again.
        """

    def batch(self) -> AbstractContextManager[None]:
        """Return a context manager that commits once, at its end, also after an exception.

        Batches nest, and the outermost one commits.
        """


class MemoryStore:
    """Keeps nothing: the messages live in the node's memory and end with the process."""

    durable = False

    def load(self, node: str) -> Iterable[Stored]:  # noqa: ARG002  (the interface)
        """Return nothing."""
        return ()

    def put(self, node: str, stored: Stored) -> None:
        """Do nothing."""

    def remove(self, node: str, sequence: int) -> None:
        """Do nothing."""

    def quarantine(self, node: str, stored: Stored, reason: str) -> None:
        """Do nothing."""

    def quarantined(self, node: str | None = None) -> Iterable[Quarantined]:  # noqa: ARG002  (one signature for all)
        """Return nothing."""
        return ()

    def discard(self, node: str, sequence: int) -> None:
        """Do nothing."""

    def commit(self) -> None:
        """Do nothing."""

    @property
    def pending(self) -> int:
        """How many changes wait for a commit, which is none."""
        return 0

    @contextmanager
    def batch(self, wanted: Callable[[], bool] | None = None) -> Iterator[None]:  # noqa: ARG002  (one signature for all)
        """Do nothing around what happens."""
        yield


# In memory.


@attrs.define(eq=False, weakref_slot=False)
class Entry:
    """A message at a node.

    Attributes:
        sequence: its number at the node.
        arrival: in milliseconds of the node's clock.
        octets: the message as it is at the node, with the changes that outcomes made.
        header: the one in `octets`; never changed in place.
        expires: the last millisecond in which it is live; None if it never expires.
        message_format: of the transfer that brought it.
        level: its priority level.
        position: its position in that level.
        origin: as given to `publish`; None after a restart.
        stored: whether it is in the store.
        state: as in figure 3.1 of Part 3.
        acquirer: the number of the only link that ever acquired it, NOBODY or SEVERAL.
        delivery: the `Delivery` that acquired it, or None.
        copies: unsettled deliveries in copy mode, by link number.
        not_for: the numbers of links that must not get it: those in copy mode that already did, and
            those where it is undeliverable.
        timed: whether it is in the node's heap of times of expiry.
        came_back: whether views may hold its position.
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
    acquirer: int = NOBODY
    delivery: Any = None
    copies: dict[int, Any] | None = None
    not_for: set[int] | None = None
    timed: bool = False
    came_back: bool = False

    @classmethod
    def of(cls, stored: Stored, levels: int, *, limits: Limits | None, expires: bool) -> Entry:
        """Decode a message for a node with this many priority levels."""
        message = Message.decode(stored.octets, limits=limits)
        header = message.header or NO_HEADER
        made = cls(
            stored.sequence,
            stored.arrival,
            stored.octets,
            header,
            message.expires_at(stored.arrival) if expires else None,
            stored.message_format,
            priority_level(header.priority, levels),
        )
        if says_it_was_acquired(stored.octets):
            made.acquirer = SEVERAL
        return made

    def message(self) -> Message:
        """Decode the message."""
        return Message.decode(self.octets, limits=UNLIMITED, message_format=self.message_format)


def says_it_was_acquired(octets: bytes) -> bool:
    """Whether the first-acquirer of a message's header is false, and not just not set.

    Both mean the same (Part 3, 3.2.1), but few senders say what other links did.
    """
    start = octets[:_HEADER]
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
    """The bounds of what a node holds, AVAILABLE and ACQUIRED together; None for no bound.

    Attributes:
        messages: the number of messages.
        octets: their total size.
        message_octets: the size of one message.
    """

    messages: int | None = None
    octets: int | None = None
    message_octets: int | None = None


@attrs.define(eq=False)
class Memory:
    """What messages take up in memory, for several nodes together.

    A message counts with its size and `PER_MESSAGE` bytes for what a node keeps with it, and with
    its size once more for each unsettled delivery.

    Attributes:
        most: bytes, at most; None for no bound.
        held: bytes, now.
    """

    #: Bytes that a node needs for a message besides its own.
    PER_MESSAGE: ClassVar[int] = 400

    most: int | None = None
    held: int = 0

    def excess(self, size: int) -> str:
        """Say what a message of this size would exceed; nothing if it has room."""
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
        available: AVAILABLE: waiting.
        acquired: ACQUIRED: unsettled on a link in move mode.
        archived: ARCHIVED since the node was made.
        octets: the total size of those that are available or acquired.
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
        sequence: its number at the node.
        arrival: when it arrived, in milliseconds of the node's clock.
        state: AVAILABLE or ACQUIRED.
        level: its priority level.
        delivery_count: the number of unsuccessful delivery attempts, from its header.
        expires: the last millisecond in which it is live; None if it never expires.
        octets: the message as it is at the node.
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
        """Make the record of an entry."""
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
    """Fold a message's priority into the levels that a node distinguishes.

    Part 3, 3.2.1: with n < 10 levels the priorities from 5 - ceiling(n/2) to 4 + floor(n/2) are
    distinct, and what lies outside is equivalent to the nearest of them; with n >= 10 the
    priorities from 0 to n - 1 are distinct, and what lies above is equivalent to n - 1.

    Args:
        priority: of the message, 0 to 255.
        levels: how many distinct priorities there are, 1 to 256.

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

    A position is never used twice. Positions lie in segments, and a segment without messages is
    dropped, so that removed messages cost neither memory nor time.

    Attributes:
        end: the position of the next message to be appended.
        live: the number of messages.
    """

    __slots__ = ("_head", "_lives", "_segments", "end", "live")

    def __init__(self) -> None:
        self._segments: dict[int, list[Entry | None]] = {}
        self._lives: dict[int, int] = {}
        self._head = 0
        self.end = 0
        self.live = 0

    def append(self, entry: Entry) -> int:
        """Append a message and return its position."""
        position = self.end
        segment = position // _SEGMENT
        if position % _SEGMENT == 0:
            self._segments[segment] = [entry]
            self._lives[segment] = 1
        else:
            self._segments[segment].append(entry)
            self._lives[segment] += 1
        self.end += 1
        self.live += 1
        return position

    def remove(self, position: int) -> None:
        """Remove the message at a position; there must be one."""
        segment, place = divmod(position, _SEGMENT)
        self._segments[segment][place] = None
        self._lives[segment] -= 1
        self.live -= 1
        # The last segment stays as long as it can still be appended to.
        if not self._lives[segment] and (segment + 1) * _SEGMENT <= self.end:
            del self._segments[segment], self._lives[segment]
            last = self.end // _SEGMENT
            while self._head < last and self._head not in self._segments:
                self._head += 1

    def at(self, position: int) -> Entry | None:
        """Return the message at a position; None if it was removed."""
        segment = self._segments.get(position // _SEGMENT)
        return segment[position % _SEGMENT] if segment is not None else None

    def seek(self, position: int) -> int:
        """Return the first position from here on that holds a message; `end` if none does."""
        if not self.live:
            return self.end
        position = max(position, self._head * _SEGMENT)
        while position < self.end:
            number, place = divmod(position, _SEGMENT)
            segment = self._segments.get(number)
            if segment is not None:
                for found in range(place, len(segment)):
                    if segment[found] is not None:
                        return number * _SEGMENT + found
            position = (number + 1) * _SEGMENT
        return self.end


class _Back:
    """The positions after a cursor that are offered again, each once, lowest first."""

    __slots__ = ("_heap", "_held")

    def __init__(self) -> None:
        self._heap: list[int] = []
        self._held: set[int] = set()

    def __bool__(self) -> bool:
        return bool(self._held)

    def add(self, position: int) -> None:
        if position not in self._held:
            self._held.add(position)
            heappush(self._heap, position)

    def discard(self, position: int) -> None:
        if position in self._held:
            self._held.remove(position)
            if len(self._heap) > 2 * len(self._held) + 16:
                self._heap = list(self._held)
                heapify(self._heap)

    def first(self) -> int:
        """Return the lowest position; there must be one."""
        while self._heap[0] not in self._held:
            heappop(self._heap)
        return self._heap[0]

    def copy(self) -> _Back:
        twin = _Back()
        twin._heap = self._heap.copy()
        twin._held = self._held.copy()
        return twin


class View:
    """The cursors of a link in all levels, or of several links that see the same messages."""

    __slots__ = ("_backs", "_cursors", "_levels")

    def __init__(self, levels: list[Level]) -> None:
        self._levels = levels
        self._cursors = [0] * len(levels)
        self._backs = [_Back() for _ in levels]

    def copy(self) -> View:
        """Return an independent view with the same cursors."""
        twin = View(self._levels)
        twin._cursors = self._cursors.copy()
        twin._backs = [back.copy() for back in self._backs]
        return twin

    def next(self, wants: Callable[[Entry], bool]) -> Entry | None:
        """Return the next message that is wanted, highest level first, and move past it.

        Messages that are not wanted are passed, and looked at again only after `offer_again`. If
        `wants` raises, the cursor stays at the message.
        """
        for number in range(len(self._levels) - 1, -1, -1):
            level = self._levels[number]
            if not level.live:
                continue
            back = self._backs[number]
            while back:
                position = back.first()
                entry = level.at(position)
                wanted = entry is not None and wants(entry)
                back.discard(position)
                if wanted:
                    return entry
            position = level.seek(self._cursors[number])
            while position < level.end:
                entry = level.at(position)
                wanted = entry is not None and wants(entry)
                self._cursors[number] = position + 1
                if wanted:
                    return entry
                position = level.seek(position + 1)
        return None

    def offer_again(self, entry: Entry) -> None:
        """Offer a message that was passed over again, before the others of its level."""
        if entry.position < self._cursors[entry.level]:
            self._backs[entry.level].add(entry.position)

    def forget(self, entry: Entry) -> None:
        """Drop a message that was removed."""
        self._backs[entry.level].discard(entry.position)


@attrs.define(eq=False)
class Cursor:
    """What a link has seen of the messages, and by number those that it must not get: `barred`."""

    number: int
    view: View
    barred: dict[int, Entry] = attrs.field(factory=dict)


class Cursors:
    """The cursors of all links.

    Links that see the same messages share a view, so that each message is passed once for all of
    them: those in move mode without a filter to which every message is deliverable.
    """

    def __init__(self, levels: list[Level]) -> None:
        self._levels = levels
        self._shared = View(levels)
        self._views = [self._shared]
        self._cursors: dict[int, Cursor] = {}

    def add(self, number: int, *, private: bool) -> Cursor:
        """Return the cursor of a new link, in the shared view or in one from the first message."""
        view = self._shared
        if private:
            view = View(self._levels)
            self._views.append(view)
        cursor = self._cursors[number] = Cursor(number, view)
        return cursor

    def drop(self, cursor: Cursor) -> None:
        """Remove a cursor, and what was kept because of it."""
        self._cursors.pop(cursor.number, None)
        if cursor.view is not self._shared:
            self._views.remove(cursor.view)
        for entry in cursor.barred.values():
            if entry.not_for is not None:
                entry.not_for.discard(cursor.number)
        cursor.barred.clear()

    def bar(self, cursor: Cursor, entry: Entry) -> None:
        """Keep a message from a link that already got it, or where it is undeliverable."""
        cursor.barred[entry.sequence] = entry
        if entry.not_for is None:
            entry.not_for = {cursor.number}
        else:
            entry.not_for.add(cursor.number)
        if cursor.view is self._shared:
            # From now on it sees other messages than the rest.
            cursor.view = self._shared.copy()
            self._views.append(cursor.view)

    def unbar(self, cursor: Cursor, entry: Entry) -> None:
        """Let a link get a message again."""
        if cursor.barred.pop(entry.sequence, None) is not None and entry.not_for is not None:
            entry.not_for.discard(cursor.number)

    def offer_again(self, entry: Entry, cursor: Cursor | None = None) -> None:
        """Let one link, or all of them, look again at a message that was passed over."""
        entry.came_back = True
        for view in self._views if cursor is None else (cursor.view,):
            view.offer_again(entry)

    def forget(self, entry: Entry) -> None:
        """Drop a message that is archived."""
        if entry.came_back:
            for view in self._views:
                view.forget(entry)
        for number in entry.not_for or ():
            cursor = self._cursors.get(number)
            if cursor is not None:
                cursor.barred.pop(entry.sequence, None)


class Contents:
    """The messages that are AVAILABLE or ACQUIRED, and the times at which they expire.

    Attributes:
        entries: the messages by number.
        levels: the same messages by priority.
        last: the number of the last message that there was.
        acquired: how many are ACQUIRED.
        octets: their total size in bytes.
        memory: where they are counted, too.
        causes: how many were archived, by cause.
    """

    def __init__(self, priorities: int, memory: Memory) -> None:
        self.memory = memory
        self.levels = [Level() for _ in range(priorities)]
        self.entries: dict[int, Entry] = {}
        self.last = 0
        self.acquired = 0
        self.octets = 0
        self.causes: Counter[str] = Counter()
        # A heap of times of expiry and message numbers; those of removed messages stay in it.
        self._expiry: list[tuple[int, int]] = []
        self._timed = 0  # how many of its messages are still here

    @property
    def counts(self) -> Counts:
        """The number of messages, by state."""
        there, causes = len(self.entries) - self.acquired, self.causes
        return Counts(there, self.acquired, causes.total(), self.octets, dict(causes))

    def excess(self, most: Capacity, size: int) -> str:
        """Say what a message of this size would exceed; nothing if it has room."""
        if most.message_octets is not None and size > most.message_octets:
            return (
                f"takes at most {most.message_octets} bytes in a message, and this one has {size}"
            )
        if most.messages is not None and len(self.entries) >= most.messages:
            return f"takes at most {most.messages} messages"
        if most.octets is not None and self.octets + size > most.octets:
            return (
                f"takes at most {most.octets} bytes, has {self.octets}, and this message {size} "
                "more"
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
        """Archive a message, whatever its state."""
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
        """Put other bytes in the place of a message's."""
        more = len(octets) - len(entry.octets)
        self.octets += more
        self.memory.held += more
        entry.octets = octets

    def time(self, entry: Entry, expires: int) -> None:
        """Note when a message expires."""
        entry.timed = True
        self._timed += 1
        if len(self._expiry) > 2 * self._timed + 64:
            # Most of its messages were removed since.
            self._expiry = [item for item in self._expiry if item[1] in self.entries]
            heapify(self._expiry)
        heappush(self._expiry, (expires, entry.sequence))

    def pop_due(self, now: int) -> Entry | None:
        """Remove the next AVAILABLE message that has expired from the heap, and return it."""
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
        """The last millisecond of the first message to expire, maybe removed since; or None."""
        return self._expiry[0][0] if self._expiry else None

    @property
    def oldest(self) -> Entry | None:
        """The message that arrived first; None if there are none."""
        firsts = [
            entry
            for level in self.levels
            if level.live and (entry := level.at(level.seek(0))) is not None
        ]
        return min(firsts, key=lambda entry: entry.sequence, default=None)
