"""The messages of a node, with their counts and times of expiry."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from heapq import heapify, heappop, heappush

from amqp10msg.delivery.node.links import Entry
from amqp10msg.delivery.node.queue import Level
from amqp10msg.delivery.node.records import Counts, Waiting
from amqp10msg.delivery.states import MessageState


class Contents:
    """Messages by number, by priority and by time of expiry."""

    def __init__(self, priorities: int) -> None:
        self._levels: list[Level[Entry]] = [Level() for _ in range(priorities)]
        self._entries: dict[int, Entry] = {}
        self._sequence = 0
        self._acquired = 0
        self._octets = 0
        self._causes: Counter[str] = Counter()
        # A heap of times of expiry and message numbers; those of removed messages stay in it.
        self._expiry: list[tuple[int, int]] = []
        self._timed = 0  # how many of its messages are still here

    def __len__(self) -> int:
        """Return the number of messages that are AVAILABLE or ACQUIRED."""
        return len(self._entries)

    @property
    def counts(self) -> Counts:
        """The number of messages, by state."""
        return Counts(
            len(self._entries) - self._acquired,
            self._acquired,
            self._causes.total(),
            self._octets,
            dict(self._causes),
        )

    @property
    def oldest(self) -> Waiting | None:
        """The message that arrived first of those that are still here; None if there are none."""
        firsts = [
            entry
            for level in self._levels
            if level.live and (entry := level.at(level.seek(0))) is not None
        ]
        return Waiting.of(min(firsts, key=lambda entry: entry.sequence)) if firsts else None

    def state_of(self, sequence: int) -> MessageState | None:
        """Return the state of a message by its number; None if no message has had it yet."""
        entry = self._entries.get(sequence)
        if entry is not None:
            return entry.state
        return MessageState.ARCHIVED if 1 <= sequence <= self._sequence else None

    def messages(self) -> Iterator[Waiting]:
        """Yield the messages that are AVAILABLE or ACQUIRED, by number.

        For inspection: the cost grows with the number of messages.
        """
        for sequence in sorted(self._entries):
            yield Waiting.of(self._entries[sequence])

    def _insert(self, entry: Entry) -> None:
        self._sequence = max(self._sequence, entry.sequence)
        entry.position = self._levels[entry.level].append(entry)
        self._entries[entry.sequence] = entry
        self._octets += len(entry.octets)
        if entry.expires is not None:
            self._time(entry, entry.expires)

    def _remove(self, entry: Entry, cause: str) -> None:
        """Archive a message in memory, whatever its state."""
        self._acquired -= entry.state is MessageState.ACQUIRED
        entry.state = MessageState.ARCHIVED
        self._causes[cause] += 1
        self._octets -= len(entry.octets)
        del self._entries[entry.sequence]
        self._levels[entry.level].remove(entry.position)
        if entry.timed:
            entry.timed = False
            self._timed -= 1

    def _pop_due(self, now: int) -> Entry | None:
        """Remove the next AVAILABLE message that has expired from the heap, and return it."""
        while self._expiry and self._expiry[0][0] < now:
            entry = self._entries.get(heappop(self._expiry)[1])
            if entry is not None:
                entry.timed = False
                self._timed -= 1
                if entry.state is MessageState.AVAILABLE:
                    return entry
        return None

    def _time(self, entry: Entry, expires: int) -> None:
        entry.timed = True
        self._timed += 1
        if len(self._expiry) > 2 * self._timed + 64:
            # Most of its messages were removed since.
            self._expiry = [item for item in self._expiry if item[1] in self._entries]
            heapify(self._expiry)
        heappush(self._expiry, (expires, entry.sequence))

    @property
    def next_expiry(self) -> int | None:
        """When `expire` is due, in milliseconds of the clock; None for never.

        It may be too early, because the message was archived since, but never too late.
        """
        return self._expiry[0][0] + 1 if self._expiry else None
