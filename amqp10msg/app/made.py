"""When, by which command and in how long a report was made: a line at its end."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Iterable
from contextvars import ContextVar
from datetime import UTC, datetime

from amqp10msg import __version__

__all__ = ["begin", "line"]

_BEGUN: ContextVar[tuple[str, float] | None] = ContextVar("begun", default=None)
#: A user and a password in a URL.
_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]*@")


def begin(arguments: Iterable[str]) -> None:
    """Note that a command begins now; reports leave out the credentials of its URLs."""
    command = shlex.join(["amqp10msg", *arguments])
    _BEGUN.set((_CREDENTIALS.sub("…@", command), time.monotonic()))


def line() -> str | None:
    """Return the line that ends a report; None where no command makes it."""
    begun = _BEGUN.get()
    if begun is None:
        return None
    command, start = begun
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    took = time.monotonic() - start
    return f"amqp10msg {__version__}, {now}, after {took:,.1f} s: {command}"
