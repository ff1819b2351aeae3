"""What workers of Spark say and do: about a missing kernel, callers' mistakes, and garbage."""

from __future__ import annotations

import gc
import os
import platform
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import amqp10msg
from amqp10msg.wire.kernel import COMPILED

#: How readers of streams are told how much to read, from PySpark 4.2 on.
limits: Any = None
with suppress(ImportError):
    limits = import_module("pyspark.sql.streaming.datasource")
#: What such a reader is, besides.
AvailableNow: Any = getattr(limits, "SupportsTriggerAvailableNow", object)

_TEXT = (
    "amqp10msg runs on {} without its compiled kernel, and several times slower: install a wheel "
    "in the environment of the executors ({}), which has {}"
)


def pure_place() -> str | None:
    """Return where this process runs without the compiled kernel; None where it has it.

    Who asked for that, with ``AMQP10MSG_PURE``, knows.
    """
    if COMPILED or os.environ.get("AMQP10MSG_PURE"):
        return None
    folder = Path(amqp10msg.__file__).parent
    return _TEXT.format(platform.node() or "an executor", sys.executable, folder)


_told: set[str] = set()


def tell(place: str | None) -> None:
    """Warn of a place that `pure_place` returned, once in each process."""
    if place is not None and place not in _told:
        _told.add(place)
        warnings.warn(place, RuntimeWarning, stacklevel=3)


def in_worker() -> bool:
    """Whether this process is a worker that Spark has started."""
    return "SPARK_BUFFER_SIZE" in os.environ


_is_settled = False


def settle() -> None:
    """Leave what a worker has imported out of the searches for garbage; at the end of a task.

    Spark's daemon has its workers look through all objects after each task, which took 12 to 120 ms
    with what is imported; decoding 100,000 messages takes 10. Modules are never garbage. What is
    garbage now is collected before, and what comes later is looked at as usual.
    """
    global _is_settled  # noqa: PLW0603  (of the process, as the objects are)
    if in_worker() and not _is_settled:
        _is_settled = True
        gc.collect()
        gc.freeze()


@contextmanager
def plainly() -> Iterator[None]:
    """Report a caller's mistake to the driver in one line, without the stack of this worker."""
    try:
        yield
    except (ValueError, OSError):
        # Each worker has the former; Spark looks for the latter when it sends the error.
        if in_worker():
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise
