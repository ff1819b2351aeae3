"""Arithmetic on the offsets of several streams.

An offset of Spark contains the offset of the next message of each stream.
"""

from __future__ import annotations

#: The offset of the next message, by stream name.
Offsets = dict[str, int]


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
