"""The messages of one priority in the order of their arrival, and a view's way through them.

Nothing here takes longer where more is queued: no message is looked at twice by the same view,
except when it comes back.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Generic, Protocol, TypeVar

__all__ = ["Level", "View"]

_SEGMENT = 256


class _Placed(Protocol):
    """What stands in a level: it knows where."""

    level: int
    position: int


T = TypeVar("T", bound=_Placed)


class Level(Generic[T]):
    """Messages of one priority, by position: appended at the end, removed anywhere, walked over.

    Positions are given once and never again. They lie in segments; a segment without messages is
    dropped, so that what was removed is not kept and costs a walker next to nothing.

    Attributes:
        end: the position that the next message gets.
        live: how many messages there are.
    """

    __slots__ = ("_head", "_lives", "_segments", "end", "live")

    def __init__(self) -> None:
        self._segments: dict[int, list[T | None]] = {}
        self._lives: dict[int, int] = {}
        self._head = 0
        self.end = 0
        self.live = 0

    def append(self, item: T) -> int:
        """Put a message at the end; give its position."""
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
        """Take the message at a position out; there must be one."""
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
        """Give the message at a position; None where it was removed."""
        segment = self._segments.get(position // _SEGMENT)
        return segment[position % _SEGMENT] if segment is not None else None

    def seek(self, position: int) -> int:
        """Give the first position from here on that holds a message, `end` if none does."""
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
    """Positions behind a cursor that are to be looked at again, each once, lowest first."""

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
        """Give the lowest position; there must be one."""
        while self._heap[0] not in self._held:
            heappop(self._heap)
        return self._heap[0]

    def copy(self) -> _Back:
        twin = _Back()
        twin._heap = self._heap.copy()
        twin._held = self._held.copy()
        return twin


class View(Generic[T]):
    """How far a link, or several that see the same, has come in each level."""

    __slots__ = ("_backs", "_cursors", "_levels")

    def __init__(self, levels: list[Level[T]]) -> None:
        self._levels = levels
        self._cursors = [0] * len(levels)
        self._backs = [_Back() for _ in levels]

    def copy(self) -> View[T]:
        """Give a view that has come as far as this one."""
        twin = View(self._levels)
        twin._cursors = self._cursors.copy()
        twin._backs = [back.copy() for back in self._backs]
        return twin

    def next(self, wants: Callable[[T], bool]) -> T | None:
        """Find the next message that is wanted, highest level first, and pass it.

        What is not wanted is passed, too, and comes again only after `offer_again`. If `wants`
        raises, the message that it looked at is still to come.
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
        """Let a message that was passed come again, before those of its level that are ahead."""
        if item.position < self._cursors[item.level]:
            self._backs[item.level].add(item.position)

    def forget(self, item: T) -> None:
        """Let go of a message that is removed."""
        self._backs[item.level].discard(item.position)
