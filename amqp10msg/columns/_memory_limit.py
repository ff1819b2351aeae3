"""Limit on decoded batch size, and what becomes of larger batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import pyarrow as pa

_Made = TypeVar("_Made")

# The text that rows may be written out to: 64 MiB, and 32 times the bytes of the messages. JSON
# takes up to 17 times the bytes of what has content. An array of 65,536 values without content,
# which fits a message of 13 bytes, takes 80,000 times: a batch of them would fill any memory.
_ROOM = 64 << 20
_TIMES = 32


class TooMuchError(ValueError):
    """A batch decodes to more than its columns may hold; decode fewer messages at once."""

    __module__ = "amqp10msg.columns"  # where users import it from: tracebacks show it


def room_for(*arrays: pa.Array) -> int:
    """Return how many bytes of text the messages of arrays may be written out to."""
    return _ROOM + _TIMES * sum(int(array.nbytes) for array in arrays)


def bounded(rows: Iterable[_Made], room: int, size: Callable[[_Made], int]) -> Iterator[_Made]:
    """Yield rows, or batches of them, while the sizes of their texts add up to `room` at most.

    Raises:
        TooMuchError: they add up to more, and there is more than one of them.
    """
    for count, cells in enumerate(rows):
        room -= size(cells)
        if room < 0 and count:
            raise TooMuchError(
                "the messages hold so many values without content that their JSON would fill the "
                "memory: decode fewer messages at once, or set Limits(zero_width=...)"
            )
        yield cells


def in_pieces(
    batch: pa.RecordBatch, work: Callable[[pa.RecordBatch], _Made]
) -> Iterator[tuple[pa.RecordBatch, _Made]]:
    """Run work on a batch, or on halves and so on if it is too large; yield each with its result.

    Raises:
        TooMuchError: a single message is too much.
    """
    try:
        made = work(batch)
    except TooMuchError:
        if batch.num_rows < 2:
            raise
        middle = batch.num_rows // 2
        yield from in_pieces(batch.slice(0, middle), work)
        yield from in_pieces(batch.slice(middle), work)
    else:
        yield batch, made
