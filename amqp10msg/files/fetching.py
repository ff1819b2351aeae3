"""A file of an object store, read in few large requests, some of them ahead: `Fetched`."""

from __future__ import annotations

import io
from bisect import bisect_right
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

#: Where something stands in a file: its first byte, and the one behind it.
Span = tuple[int, int]
# What is fetched at once of what is expected, and how much at a time: a request takes tens of
# milliseconds, and then some tens of megabytes a second, whatever others do.
_PIECE = 8 << 20
_AT_A_TIME = 4
# The least that is fetched where nothing was expected: as much as pyarrow reads of a footer.
_LEAST = 64 << 10
# Holes up to this size are fetched with what stands around them.
_HOLE = 64 << 10
#: Bytes of a row group that stay, to be read more than once.
MOST = 512 << 20


class Fetched(io.RawIOBase):
    """A file that is fetched in pieces, each once as long as there is room.

    But for `readinto`, reads return less than they are asked for at the end of the file alone.

    Args:
        fetch: returns the bytes from one place to another; several threads call it.
        size: of the file, in bytes.
        close: called at the end.
        most: bytes of what is expected that are kept, and 32 MiB more that are fetched ahead.

    Attributes:
        size: of the file, in bytes.
    """

    def __init__(
        self,
        fetch: Callable[[int, int], bytes],
        size: int,
        close: Callable[[], None],
        most: int = MOST,
    ) -> None:
        self.size = size
        self._fetch = fetch
        self._end = close
        self._most = most
        self._at = 0
        # Those that are expected, in order, and where they begin.
        self._plan: list[Span] = []
        self._starts: list[int] = []
        # Those of them that are there or on their way, the one that was read last at the end.
        self._kept: OrderedDict[Span, Future[memoryview]] = OrderedDict()
        # Such as the footer of Parquet: where they begin, and their bytes.
        self._others: deque[tuple[int, memoryview]] = deque(maxlen=2)
        self._threads = ThreadPoolExecutor(_AT_A_TIME)

    def expect(self, *groups: Iterable[Span]) -> None:
        """Say what is read next, so that it is fetched ahead; all else is given up.

        Places of one group are read together. One that is expected again is cut as it was.
        """
        self._plan = sorted(
            piece
            for group in groups
            for span in _joined(group, self.size)
            for piece in _pieces(*span)
            if not any(at <= piece[0] and piece[1] <= at + len(data) for at, data in self._others)
        )
        self._starts = [start for start, _ in self._plan]
        for piece in self._kept.keys() - set(self._plan):
            self._kept.pop(piece).cancel()

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the place that is read next."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a place, and return it."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self.size}[whence]
        self._at = max(0, start + offset)
        return self._at

    def peek(self, size: int = 1) -> bytes:
        """Return up to this many bytes without reading them."""
        at = self._at
        found = self.read(size)
        self._at = at
        return found

    def read(self, size: int | None = -1) -> bytes:
        """Read this many bytes, or to the end."""
        return bytes(self.read_buffer(size))

    def readall(self) -> bytes:
        """Read to the end."""
        return self.read()

    def read_buffer(self, size: int | None = -1) -> bytes | memoryview:
        """Read as `read` does, uncopied where it can be: pyarrow prefers this."""
        rest = max(self.size - self._at, 0)
        views = [*self._views(rest if size is None or size < 0 else min(size, rest))]
        return views[0] if len(views) == 1 else b"".join(views)

    def readinto(self, buffer: Any) -> int:
        """Read into a buffer what stands in the piece that is next, and return how many bytes."""
        room = memoryview(buffer).cast("B")
        view = next(self._views(min(len(room), max(self.size - self._at, 0))), b"")
        room[: len(view)] = view
        return len(view)

    def _views(self, size: int) -> Iterator[memoryview]:
        while size:
            start, data = self._piece(size)
            view = data[self._at - start :][:size]
            self._at += len(view)
            size -= len(view)
            yield view

    def _piece(self, size: int) -> tuple[int, memoryview]:
        """Return where the piece begins that the place stands in, and its bytes."""
        at = self._at
        place = bisect_right(self._starts, at) - 1
        if place >= 0 and at < self._plan[place][1]:
            return self._starts[place], self._expected(place)
        for start, data in self._others:
            if start <= at < start + len(data):
                return start, data
        stop = min(at + max(size, _LEAST), self.size, *self._starts[place + 1 :][:1])
        self._others.append((at, memoryview(self._fetch(at, stop))))
        return self._others[-1]

    def _expected(self, place: int) -> memoryview:
        for piece in self._plan[place : place + _AT_A_TIME]:
            if piece not in self._kept:
                self._kept[piece] = self._threads.submit(self._fetched, *piece)
        found = self._kept[self._plan[place]]
        self._kept.move_to_end(self._plan[place])
        # What is fetched ahead may be the oldest, and is read next.
        ahead = set(self._plan[place : place + _AT_A_TIME])
        held = sum(stop - start for start, stop in self._kept)
        for piece in [*self._kept]:
            if held <= self._most:
                break
            if piece not in ahead:
                self._kept.pop(piece).cancel()
                held -= piece[1] - piece[0]
        return found.result()

    def _fetched(self, start: int, stop: int) -> memoryview:
        return memoryview(self._fetch(start, stop))

    def close(self) -> None:
        """Close the file; what is on its way is waited for."""
        if not self.closed:
            self._threads.shutdown(cancel_futures=True)
            self._kept.clear()
            self._others.clear()
            self._end()
        super().close()


def _joined(spans: Iterable[Span], size: int) -> Iterator[Span]:
    """Yield spans in order, those of them as one that are near each other."""
    begin = end = -1
    for start, stop in sorted(spans):
        if start > end + _HOLE or end < 0:
            if end > begin:
                yield begin, end
            begin, end = max(start, 0), -1
        end = max(end, min(stop, size))
    if end > begin:
        yield begin, end


def _pieces(start: int, stop: int) -> Iterator[Span]:
    for at in range(start, stop, _PIECE):
        yield at, min(at + _PIECE, stop)
