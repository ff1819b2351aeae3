"""Read a file of an object store with few large requests and read-ahead: `Fetched`."""

from __future__ import annotations

import io
from bisect import bisect_right
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

#: A range of bytes in a file: the offset of its first byte, and of the first byte after it.
Span = tuple[int, int]
# Size of a read-ahead request in bytes, and maximum number of concurrent requests: each request has
# a latency of tens of milliseconds and a rate of tens of megabytes per second.
_READ_AHEAD_PIECE_SIZE = 8 << 20
_MAX_CONCURRENT_REQUESTS = 4
# Minimum size in bytes of a request for bytes that `expect` did not announce. It is the size that
# pyarrow first reads of a footer.
_MIN_UNPLANNED_REQUEST_SIZE = 64 << 10
# Maximum gap in bytes between two spans that are fetched together, with a single request.
_MAX_MERGED_GAP = 64 << 10
#: Default size of the cache in bytes: a row group stays in the cache, since it is read several
#: times.
DEFAULT_CACHE_SIZE = 512 << 20


class Fetched(io.RawIOBase):
    """A file that is fetched in pieces, which are cached.

    Reads return fewer bytes than requested only at the end of the file; `readinto` may return fewer
    anywhere.

    Args:
        fetch: returns the bytes between two offsets. Several threads call it.
        size: the size of the file in bytes.
        close: called by `close`.
        cache_size: maximum size of the cache in bytes, in addition to 32 MiB of read-ahead.

    Attributes:
        size: the size of the file in bytes.
    """

    def __init__(
        self,
        fetch: Callable[[int, int], bytes],
        size: int,
        close: Callable[[], None],
        cache_size: int = DEFAULT_CACHE_SIZE,
    ) -> None:
        self.size = size
        self._fetch = fetch
        self._close_source = close
        self._cache_size = cache_size
        self._position = 0
        # The pieces for the spans that `expect` announced, sorted, and the offsets of these pieces.
        self._plan: list[Span] = []
        self._starts: list[int] = []
        # The cached and requested pieces of the plan, in order of their last use.
        self._cache: OrderedDict[Span, Future[memoryview]] = OrderedDict()
        # The last two pieces that were read although `expect` did not announce them, such as the
        # footer of a Parquet file, with their offsets.
        self._unplanned: deque[tuple[int, memoryview]] = deque(maxlen=2)
        self._threads = ThreadPoolExecutor(_MAX_CONCURRENT_REQUESTS)

    def expect(self, *groups: Iterable[Span]) -> None:
        """Announce the spans that will be read next, for read-ahead. Other pieces leave the cache.

        The caller reads the spans of a group together, so spans with small gaps are fetched with
        one request. The same groups are always divided into the same pieces, so pieces that are in
        the cache are reused.
        """
        self._plan = sorted(
            piece
            for group in groups
            for span in _join_spans(group, self.size)
            for piece in _split_span(*span)
            if not any(
                offset <= piece[0] and piece[1] <= offset + len(data)
                for offset, data in self._unplanned
            )
        )
        self._starts = [start for start, _ in self._plan]
        for piece in self._cache.keys() - set(self._plan):
            self._cache.pop(piece).cancel()

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the position in bytes."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Set the position, and return it."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self.size}[whence]
        self._position = max(0, start + offset)
        return self._position

    def peek(self, size: int = 1) -> bytes:
        """Return up to `size` bytes without advancing."""
        position = self._position
        octets = self.read(size)
        self._position = position
        return octets

    def read(self, size: int | None = -1) -> bytes:
        """Read `size` bytes, or to the end."""
        return bytes(self.read_buffer(size))

    def readall(self) -> bytes:
        """Read to the end."""
        return self.read()

    def read_buffer(self, size: int | None = -1) -> bytes | memoryview:
        """Read like `read`, without a copy if possible. pyarrow calls this method."""
        remaining = max(self.size - self._position, 0)
        views = [*self._read_views(remaining if size is None or size < 0 else min(size, remaining))]
        return views[0] if len(views) == 1 else b"".join(views)

    def readinto(self, buffer: Any) -> int:
        """Read bytes of the current piece into a buffer, and return their number."""
        room = memoryview(buffer).cast("B")
        view = next(self._read_views(min(len(room), max(self.size - self._position, 0))), b"")
        room[: len(view)] = view
        return len(view)

    def _read_views(self, size: int) -> Iterator[memoryview]:
        """Yield the next `size` bytes of the file, piece by piece, and advance."""
        while size:
            start, data = self._piece(size)
            view = data[self._position - start :][:size]
            self._position += len(view)
            size -= len(view)
            yield view

    def _piece(self, size: int) -> tuple[int, memoryview]:
        """Return the offset and the bytes of the piece at the current position."""
        position = self._position
        index = bisect_right(self._starts, position) - 1
        if index >= 0 and position < self._plan[index][1]:
            return self._starts[index], self._expected_piece(index)
        for start, data in self._unplanned:
            if start <= position < start + len(data):
                return start, data
        stop = min(
            position + max(size, _MIN_UNPLANNED_REQUEST_SIZE),
            self.size,
            *self._starts[index + 1 :][:1],
        )
        self._unplanned.append((position, memoryview(self._fetch(position, stop))))
        return self._unplanned[-1]

    def _expected_piece(self, index: int) -> memoryview:
        """Return the piece with this index in `_plan`.

        Request this piece and the pieces after it, unless they are requested already.
        """
        for piece in self._plan[index : index + _MAX_CONCURRENT_REQUESTS]:
            if piece not in self._cache:
                self._cache[piece] = self._threads.submit(self._fetch_view, *piece)
        requested = self._cache[self._plan[index]]
        self._cache.move_to_end(self._plan[index])
        # Evict the least recently used pieces, but keep the pieces that will be read next.
        ahead = set(self._plan[index : index + _MAX_CONCURRENT_REQUESTS])
        cached = sum(stop - start for start, stop in self._cache)
        for piece in [*self._cache]:
            if cached <= self._cache_size:
                break
            if piece not in ahead:
                self._cache.pop(piece).cancel()
                cached -= piece[1] - piece[0]
        return requested.result()

    def _fetch_view(self, start: int, stop: int) -> memoryview:
        """Fetch the bytes between two offsets."""
        return memoryview(self._fetch(start, stop))

    def close(self) -> None:
        """Wait for the requests in flight, and close the file."""
        if not self.closed:
            self._threads.shutdown(cancel_futures=True)
            self._cache.clear()
            self._unplanned.clear()
            self._close_source()
        super().close()


def _join_spans(spans: Iterable[Span], size: int) -> Iterator[Span]:
    """Yield the sorted spans, clipped to the file; merge spans with small gaps between them."""
    begin = end = -1
    for start, stop in sorted(spans):
        if start > end + _MAX_MERGED_GAP or end < 0:
            if end > begin:
                yield begin, end
            begin, end = max(start, 0), -1
        end = max(end, min(stop, size))
    if end > begin:
        yield begin, end


def _split_span(start: int, stop: int) -> Iterator[Span]:
    """Yield the pieces, of at most `_READ_AHEAD_PIECE_SIZE` bytes, into which a span is divided."""
    for offset in range(start, stop, _READ_AHEAD_PIECE_SIZE):
        yield offset, min(offset + _READ_AHEAD_PIECE_SIZE, stop)
