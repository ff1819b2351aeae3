"""The queue of each priority level (Part 3, 3.2.1), and the cursors that links move through it.

The cost of an operation does not grow with the queue: a view looks at each message once, and again
only when the message is offered again.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Generic, Protocol, TypeVar

_SEGMENT = 256


class _Placed(Protocol):
    """An item that knows its place in the queue."""

    level: int
    position: int


T = TypeVar("T", bound=_Placed)


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


class Level(Generic[T]):
    """The messages of one priority, by position.

    A position is never used twice. Positions lie in segments, and a segment without messages is
    dropped, so that removed messages cost neither memory nor time.

    Attributes:
        end: the position of the next message to be appended.
        live: the number of messages.
    """

    __slots__ = ("_head", "_lives", "_segments", "end", "live")

    def __init__(self) -> None:
        self._segments: dict[int, list[T | None]] = {}
        self._lives: dict[int, int] = {}
        self._head = 0
        self.end = 0
        self.live = 0

    def append(self, item: T) -> int:
        """Append a message and return its position."""
        position = self.end
        segment = position // _SEGMENT
        if position % _SEGMENT == 0:
            self._segments[segment] = [item]
            self._lives[segment] = 1
        else:
            self._segments[segment].append(item)
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

    def at(self, position: int) -> T | None:
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


class View(Generic[T]):
    """The cursors of a link in all levels, or of several links that see the same messages."""

    __slots__ = ("_backs", "_cursors", "_levels")

    def __init__(self, levels: list[Level[T]]) -> None:
        self._levels = levels
        self._cursors = [0] * len(levels)
        self._backs = [_Back() for _ in levels]

    def copy(self) -> View[T]:
        """Return an independent view with the same cursors."""
        twin = View(self._levels)
        twin._cursors = self._cursors.copy()
        twin._backs = [back.copy() for back in self._backs]
        return twin

    def next(self, wants: Callable[[T], bool]) -> T | None:
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
                item = level.at(position)
                wanted = item is not None and wants(item)
                back.discard(position)
                if wanted:
                    return item
            position = level.seek(self._cursors[number])
            while position < level.end:
                item = level.at(position)
                wanted = item is not None and wants(item)
                self._cursors[number] = position + 1
                if wanted:
                    return item
                position = level.seek(position + 1)
        return None

    def offer_again(self, item: T) -> None:
        """Offer a message that was passed over again, before the others of its level."""
        if item.position < self._cursors[item.level]:
            self._backs[item.level].add(item.position)

    def forget(self, item: T) -> None:
        """Drop a message that was removed."""
        self._backs[item.level].discard(item.position)
