"""The same work by one thread and by two: what runs beside other threads, and what waits for them.

Each call does the same work twice, one after the other in a thread or side by side in two. The
clock is that on the wall, as processor time does not tell who waits. So whatever else has a
processor counts, too: what is compared is the round of each that was disturbed least, and work that
shares nothing stands beside it.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.util import find_spec
from time import perf_counter_ns
from typing import Any

from amqp10msg import Message
from bench.harness import SMOKE, Contender, Effort, Timings, measure
from bench.messages import REFERENCE
from bench.report import Figure, Floor

DECODE = "Message.decode"
COLUMNS = "columns.decode"
COLUMNS_BACK = "columns.encode"
#: What needs neither the GIL nor memory: as much as two threads can gain on this machine now.
YARDSTICK = "hashlib.sha256"
#: Messages in a batch of columns, and batches for each of the two pieces of work.
COUNT, BATCHES = 5_000, 8
#: Messages that are decoded one by one in each of the two pieces of work.
SINGLE = 8_000


def has_gil() -> bool:
    """Whether one thread at a time runs Python."""
    enabled: Callable[[], bool] = getattr(sys, "_is_gil_enabled", lambda: True)
    return enabled()


def _each(call: Callable[[Any], Any], of: Any, count: int) -> None:
    for _ in range(count):
        call(of)


def _decode(count: int) -> None:
    # Of its own: threads that count references to one object wait for each other.
    octets = bytes(bytearray(REFERENCE))
    for _ in range(count):
        Message.decode(octets)


def _twice(pool: ThreadPoolExecutor, piece: Callable[[], None]) -> None:
    """Do a piece of work twice, by the threads of a pool."""
    for done in [pool.submit(piece), pool.submit(piece)]:
        done.result()


def _pieces(smoke: bool) -> dict[str, Callable[[], None]]:
    """Give the pieces of work by their names."""
    pieces: dict[str, Callable[[], None]] = {
        DECODE: partial(_decode, 10 if smoke else SINGLE),
        YARDSTICK: partial(_each, hashlib.sha256, bytes(1 << 20), 1 if smoke else 8),
    }
    if find_spec("pyarrow") is not None:
        import pyarrow as pa  # noqa: PLC0415 - this figure has a part that does without

        from amqp10msg import columns  # noqa: PLC0415 - the same

        array = pa.array([REFERENCE] * (10 if smoke else COUNT))
        batches = 1 if smoke else BATCHES
        pieces[COLUMNS] = partial(_each, columns.decode, array, batches)
        pieces[COLUMNS_BACK] = partial(_each, columns.encode, columns.decode(array), batches)
    return pieces


def _gain(timings: Timings, name: str) -> float:
    """How many times as much two threads do as one in the same time."""
    best = {entry.name: entry.best for entry in timings.entries}
    return best[f"{name}, one thread"] / best[f"{name}, two threads"]


def run(effort: Effort) -> Figure:
    """Measure how much more two threads do than one."""
    pieces = _pieces(effort is SMOKE)
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(2) as two:
        timings = measure(
            [
                Contender(f"{name}, {said}", partial(_twice, pool, piece))
                for name, piece in pieces.items()
                for said, pool in (("one thread", one), ("two threads", two))
            ],
            effort,
            perf_counter_ns,
        )
    floors = []
    if COLUMNS in pieces:
        floors = [
            Floor(
                f"two threads do at least 1.8x as much {name} as one",
                _gain(timings, name),
                at_least=1.8,
            )
            for name in (COLUMNS, COLUMNS_BACK)
        ]
    free = _gain(timings, YARDSTICK)
    remarks = [
        "Every call does the same work twice, by the clock on the wall; best rounds are compared.",
        f"What shares nothing, {YARDSTICK}: two threads do {free:.2f}x as much as one here now.",
    ]
    if has_gil():
        gain = _gain(timings, DECODE)
        remarks.append(
            f"This interpreter has the GIL, which {DECODE} keeps: two threads do {gain:.2f}x as "
            "much as one."
        )
    else:
        text = f"without the GIL, two threads do at least 1.7x as much {DECODE} as one"
        floors.append(Floor(text, _gain(timings, DECODE), at_least=1.7, compiled_only=False))
    return Figure(
        key="threads",
        title="The same work by one thread and by two",
        timings=timings,
        floors=tuple(floors),
        remarks=tuple(remarks),
    )
