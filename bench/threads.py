"""The speedup by a second thread: which operations run in parallel, and which wait for the GIL.

Each call does the same work twice: sequentially in one thread, or concurrently in two. The times
are wall-clock times, because processor time does not include waiting. Other processes disturb
them, so the fastest rounds are compared, next to work without any shared resource.
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
#: Work that needs neither the GIL nor memory: the upper limit of the gain on this machine.
YARDSTICK = "hashlib.sha256"
#: Messages in a batch of columns, and batches for each of the two pieces of work.
COUNT, BATCHES = 5_000, 8
#: Messages that are decoded one by one in each of the two pieces of work.
SINGLE = 8_000


def has_gil() -> bool:
    """Whether this interpreter has a GIL."""
    enabled: Callable[[], bool] = getattr(sys, "_is_gil_enabled", lambda: True)
    return enabled()


def _each(call: Callable[[Any], Any], of: Any, count: int) -> None:
    for _ in range(count):
        call(of)


def _decode(count: int) -> None:
    # Separate objects: threads that count references to the same object wait for each other.
    octets = bytes(bytearray(REFERENCE))
    for _ in range(count):
        Message.decode(octets)


def _twice(pool: ThreadPoolExecutor, piece: Callable[[], None]) -> None:
    """Do the work twice, by the threads of a pool."""
    for done in [pool.submit(piece), pool.submit(piece)]:
        done.result()


def _pieces(smoke: bool) -> dict[str, Callable[[], None]]:
    """Return the pieces of work by name."""
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
    """Return the ratio of the throughput of two threads to that of one."""
    best = {entry.name: entry.best for entry in timings.entries}
    return best[f"{name}, one thread"] / best[f"{name}, two threads"]


def run(effort: Effort) -> Figure:
    """Measure the speedup by a second thread."""
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
