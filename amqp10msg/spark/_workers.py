"""What workers of Spark say: that they run without the compiled kernel; what a caller did wrong."""

from __future__ import annotations

import os
import platform
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import amqp10msg
from amqp10msg import COMPILED

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


@contextmanager
def plainly() -> Iterator[None]:
    """Report a caller's mistake to the driver in one line, without the stack of this worker.

    Raises:
        ValueError: as it comes from within.
        OSError: likewise.
    """
    try:
        yield
    except (ValueError, OSError):
        # Each worker has the former; Spark looks for the latter when it sends the error.
        if "SPARK_BUFFER_SIZE" in os.environ:
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise
