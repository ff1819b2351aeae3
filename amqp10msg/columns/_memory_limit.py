"""How much a batch may decode to, and what becomes of one that is more."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import pyarrow as pa

__all__ = ["TooMuchError", "bounded", "in_pieces", "room_for"]

_Made = TypeVar("_Made")

#: What rows may be written out to as text: so many octets, and so many times those of the messages.
#: JSON of what has octets takes up to 17 times as many. An array of 65,536 values without octets,
#: which a message of 13 octets may hold, takes 80,000 times: a batch of them would fill any memory.
_ROOM = 64 << 20
_TIMES = 32


class TooMuchError(ValueError):
    """A batch decodes to more than its columns hold; fewer of its messages do not."""


def room_for(*arrays: pa.Array) -> int:
    """Tell how many octets of text the messages of arrays may be written out to."""
    return _ROOM + _TIMES * sum(int(array.nbytes) for array in arrays)


def bounded(rows: Iterable[_Made], room: int, size: Callable[[_Made], int]) -> Iterator[_Made]:
    """Give rows, or batches of them, while their texts, of so many octets each, have room.

    Raises:
        TooMuchError: they have not, and there is more than one of them.
    """
    for count, cells in enumerate(rows):
        room -= size(cells)
        if room < 0 and count:
            raise TooMuchError(
                "the messages hold so many values without octets that their JSON would fill the "
                "memory: decode fewer messages at once, or set Limits(zero_width=...)"
            )
        yield cells


def in_pieces(
    batch: pa.RecordBatch, work: Callable[[pa.RecordBatch], _Made]
) -> Iterator[tuple[pa.RecordBatch, _Made]]:
    """Do some work on a batch, and give both; on halves of it, and so on, where that is too much.

    Raises:
        TooMuchError: one message alone is too much.
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
