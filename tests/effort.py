"""What work costs, in units of a fixed piece of work that the same thread does beside it.

A bound in seconds says as much about the machine as about the code. `cost` measures processor time
too, but in units: how many times as long as `one_unit` a call takes, which is about a millisecond
of plain Python. `calls` counts instead of measuring, and is exact; it sees what the interpreter
calls, and nothing inside of the compiled kernel.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

Work = Callable[[], object]


def one_unit() -> int:
    """Do some plain Python: arithmetic, a dict and a list, a few thousand times."""
    counts: dict[int, int] = {}
    found: list[int] = []
    for number in range(_TURNS):
        key = number * 7919 & 1023
        counts[key] = counts.get(key, 0) + 1
        if counts[key] == 2:
            found.append(key)
    return len(found)


_TURNS = 7_700


def processor_time(work: Work) -> float:
    """Seconds of this thread's processor time that a call takes."""
    begin = time.thread_time()
    work()
    return time.thread_time() - begin


def cost(work: Work, enough: float = 0.0, runs: int = 10) -> float:
    """How many units a call takes: the best of some runs, as soon as it is at most `enough`.

    A busy machine slows single runs down, of both kinds alike; what the garbage collector does
    concerns other objects.
    """
    unit = least = float("inf")
    collecting = gc.isenabled()
    gc.disable()
    try:
        for _ in range(runs):
            unit = min(unit, *(processor_time(one_unit) for _ in range(3)))
            least = min(least, processor_time(work))
            if least <= enough * unit:
                break
    finally:
        if collecting:
            gc.enable()
    return least / unit


def calls(work: Work) -> int:
    """How many functions a call calls, those written in C included, before it returns."""
    count = 0

    def counting(_frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    before = sys.getprofile()
    sys.setprofile(counting)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count
