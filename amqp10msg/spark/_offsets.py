"""Arithmetic on the offsets of several streams.

An offset of Spark contains the offset of the next message of each stream. The offset after the
first batch of a query also contains the start of the batch: Spark stores only the ends of batches,
so that a first batch that is repeated could start elsewhere, and leave out messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from amqp10msg.net.stream_ranges import StreamRange

#: The offset of the next message, by stream name.
Offsets = dict[str, int]
#: An offset of Spark: `Offsets`, and after the first batch, its start with the key
#: `_BATCH_START_KEY`.
SparkOffset = dict[str, Any]
#: The key of the start of the first batch. No stream has this name.
_BATCH_START_KEY = ""


def with_start(end: Offsets, start: Offsets) -> SparkOffset:
    """Return the offset of Spark after the first batch of a query."""
    return {**end, _BATCH_START_KEY: start}


def start_in(offset: SparkOffset) -> Offsets | None:
    """Return the start of the first batch; None if `offset` is not the end of the first batch."""
    start: Offsets | None = offset.get(_BATCH_START_KEY)
    return start


def without_start(offset: SparkOffset) -> Offsets:
    """Return the offset of the next message of each stream."""
    return {name: number for name, number in offset.items() if name != _BATCH_START_KEY}


def limit_batch(start: Offsets, end: Offsets, max_offsets: int) -> Offsets:
    """Limit `end` to `max_offsets` offsets after `start`, divided evenly among the streams."""
    offsets = {name: start.get(name, 0) for name in end}
    remaining = max_offsets
    while remaining > 0:
        unfinished = [name for name in end if offsets[name] < end[name]]
        if not unfinished:
            break
        share = max(remaining // len(unfinished), 1)
        for name in unfinished:
            count = min(share, end[name] - offsets[name], remaining)
            offsets[name] += count
            remaining -= count
    return offsets


def split_ranges(
    ranges: Sequence[StreamRange], max_offsets: int, min_count: int = 1
) -> list[StreamRange]:
    """Divide ranges into parts; the parts of a range differ by at most one offset.

    Args:
        ranges: the ranges; empty ranges have no part.
        max_offsets: the maximum number of offsets in a part.
        min_count: the minimum number of parts, if there are as many offsets.
    """
    sizes = [part.stop - part.start for part in ranges]
    counts = [-(-size // max_offsets) for size in sizes]
    total = sum(sizes)
    min_count = min(min_count, total)
    if sum(counts) < min_count:
        # Rounding up makes at least `min_count` parts in total, but no empty part.
        shares = [-(-size * min_count // total) for size in sizes]
        counts = list(map(max, counts, shares))
    parts: list[StreamRange] = []
    for part, size, count in zip(ranges, sizes, counts, strict=True):
        if count:
            borders = [part.start + size * number // count for number in range(count + 1)]
            parts += [StreamRange(part.stream, start, stop) for start, stop in pairwise(borders)]
    return parts
