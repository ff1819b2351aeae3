"""Helpers for Spark workers: kernel warnings, short errors and garbage collection."""

from __future__ import annotations

import functools
import gc
import os
import platform
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

import amqp10msg
from amqp10msg.wire.kernel import COMPILED

#: The module with the read limits of streaming readers; None before PySpark 4.2.
streaming_datasource: Any = None
with suppress(ImportError):
    streaming_datasource = import_module("pyspark.sql.streaming.datasource")
#: Base class of readers for ``trigger(availableNow=True)``; object before PySpark 4.2.
SupportsAvailableNow: Any = getattr(streaming_datasource, "SupportsTriggerAvailableNow", object)

# Filled in with the host, the Python executable and the folder of the installed package.
_MISSING_KERNEL_WARNING = (
    "amqp10msg on {} has no compiled kernel and is several times slower: install a wheel in the "
    "environment of the executors ({}), in place of {}"
)


def missing_kernel_warning() -> str | None:
    """Return a warning that names this host, if amqp10msg has no compiled kernel here.

    Return None if it has a compiled kernel, or if ``AMQP10MSG_PURE`` requests the pure build.
    """
    if COMPILED or os.environ.get("AMQP10MSG_PURE"):
        return None
    folder = Path(amqp10msg.__file__).parent
    return _MISSING_KERNEL_WARNING.format(platform.node() or "an executor", sys.executable, folder)


# The warnings that this process has already issued.
_warned: set[str] = set()


def warn_once(warning: str | None) -> None:
    """Issue a warning of `missing_kernel_warning`, but only once per process."""
    if warning is not None and warning not in _warned:
        _warned.add(warning)
        warnings.warn(warning, RuntimeWarning, stacklevel=3)


def in_worker() -> bool:
    """Return True in a Python worker that Spark started."""
    return "SPARK_BUFFER_SIZE" in os.environ


#: Whether `freeze_imports` has been called in this process.
_is_frozen = False


def freeze_imports() -> None:
    """Exclude the objects of imported modules from garbage collection; call after each task.

    Spark's workers run a full garbage collection after each task. Traversing all imported modules
    took 12 to 120 ms, while decoding 100,000 messages takes 10 ms. Modules are never garbage. The
    first call collects existing garbage and then excludes all remaining objects; later objects are
    collected as usual.
    """
    global _is_frozen  # noqa: PLW0603  (state of the process)
    if in_worker() and not _is_frozen:
        _is_frozen = True
        gc.collect()
        gc.freeze()


@contextmanager
def hide_worker_traceback() -> Iterator[None]:
    """Report ValueError and OSError to the driver without this worker's stack trace."""
    try:
        yield
    except (ValueError, OSError):
        # With this variable, Spark sends the error to the driver without a stack trace.
        if in_worker():
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise


class _RefusedReader(DataSourceStreamReader):
    """A reader of a streaming query with an invalid option: the query fails with the error.

    Before the first batch, Spark calls one of these methods.
    """

    def __init__(self, error: ValueError) -> None:
        self._error = error

    @hide_worker_traceback()
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  (Spark's names)
        raise self._error

    @hide_worker_traceback()
    def latestOffset(self, *_: Any) -> dict[str, Any]:  # noqa: N802  (Spark's names)
        raise self._error

    @hide_worker_traceback()
    def partitions(self, *_: Any) -> list[InputPartition]:
        raise self._error

    def read(self, _partition: InputPartition) -> Iterator[Any]:
        raise self._error


def with_option_errors(make_reader: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a `streamReader` so that Spark shows its ValueError.

    PySpark 4.3 calls `stop` of a reader that was not made, whose error hides the first one.
    """

    @functools.wraps(make_reader)
    def make(source: Any, schema: Any) -> Any:
        try:
            return make_reader(source, schema)
        except ValueError as error:
            return _RefusedReader(error)

    return make
