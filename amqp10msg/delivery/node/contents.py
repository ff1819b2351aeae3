"""The messages of a node, and what there is to tell of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from heapq import heapify, heappop, heappush

from amqp10msg.delivery.node.entry import Entry
from amqp10msg.delivery.node.queue import Level
from amqp10msg.delivery.node.records import Counts, Waiting
from amqp10msg.delivery.states import MessageState

__all__ = ["Contents"]


class Contents:
    """Messages by number, by priority and by time of expiry. Nothing takes longer with more."""

    def __init__(self, priorities: int) -> None:
        self._levels: list[Level[Entry]] = [Level() for _ in range(priorities)]
        self._entries: dict[int, Entry] = {}
        self._sequence = 0
        self._acquired = 0
        self._octets = 0
        self._causes: Counter[str] = Counter()
        # Times of expiry and numbers of messages; those that are gone are left standing.
        self._expiry: list[tuple[int, int]] = []
        self._timed = 0  # how many of those are still here

    def __len__(self) -> int:
        """Count the messages that are AVAILABLE or ACQUIRED."""
        return len(self._entries)

    @property
    def counts(self) -> Counts:
        """How many messages there are, by state."""
        return Counts(
            len(self._entries) - self._acquired,
            self._acquired,
            self._causes.total(),
            self._octets,
            dict(self._causes),
        )

    @property
    def oldest(self) -> Waiting | None:
        """The message that arrived first, of those that are still here."""
        firsts = [
            entry
            for level in self._levels
            if level.live and (entry := level.at(level.seek(0))) is not None
        ]
        return Waiting.of(min(firsts, key=lambda entry: entry.sequence)) if firsts else None

    def state_of(self, sequence: int) -> MessageState | None:
        """Tell the state of a message by its number; None where no message had it yet."""
        entry = self._entries.get(sequence)
        if entry is not None:
            return entry.state
        return MessageState.ARCHIVED if 1 <= sequence <= self._sequence else None

    def messages(self) -> Iterator[Waiting]:
        """List the messages that are AVAILABLE or ACQUIRED, by number. For people: it scans."""
        for sequence in sorted(self._entries):
            yield Waiting.of(self._entries[sequence])

    def _insert(self, entry: Entry) -> None:
        """Put a message at the end of its level."""
        self._sequence = max(self._sequence, entry.sequence)
        entry.position = self._levels[entry.level].append(entry)
        self._entries[entry.sequence] = entry
        self._octets += len(entry.octets)
        if entry.expires is not None:
            self._time(entry, entry.expires)

    def _remove(self, entry: Entry, cause: str) -> None:
        """Let a message be gone."""
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
        """Give the next AVAILABLE message that has expired, no longer in the list."""
        while self._expiry and self._expiry[0][0] < now:
            entry = self._entries.get(heappop(self._expiry)[1])
            if entry is not None:
                entry.timed = False
                self._timed -= 1
                if entry.state is MessageState.AVAILABLE:
                    return entry
        return None

    def _time(self, entry: Entry, expires: int) -> None:
        """Put a message into the list of what expires."""
        entry.timed = True
        self._timed += 1
        if len(self._expiry) > 2 * self._timed + 64:
            # Most of it is gone since.
            self._expiry = [item for item in self._expiry if item[1] in self._entries]
            heapify(self._expiry)
        heappush(self._expiry, (expires, entry.sequence))

    @property
    def next_expiry(self) -> int | None:
        """When `expire` will have something to do, in milliseconds of the clock; None for never.

        It may be too early, because the message was archived since, and never is too late.
        """
        return self._expiry[0][0] + 1 if self._expiry else None
