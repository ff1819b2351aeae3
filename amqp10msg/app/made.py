"""When, by which command and in how long a report was made: a line at its end."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime

from amqp10msg import __version__

__all__ = ["command", "line"]

_BEGUN: ContextVar[tuple[str, float] | None] = ContextVar("begun", default=None)
#: A user and a password in a URL; a password may have an @ that should be escaped.
_CREDENTIALS = re.compile(r"(?<=://)[^/\s]*@")


@contextmanager
def command(arguments: Iterable[str]) -> Iterator[None]:
    """Have reports say that this command made them; they leave out the credentials of its URLs."""
    shown = _CREDENTIALS.sub("…@", shlex.join(["amqp10msg", *arguments]))
    token = _BEGUN.set((shown, time.monotonic()))
    try:
        yield
    finally:
        _BEGUN.reset(token)


def line() -> str | None:
    """Return the line that ends a report; None where no command makes it."""
    begun = _BEGUN.get()
    if begun is None:
        return None
    shown, start = begun
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    took = time.monotonic() - start
    return f"amqp10msg {__version__}, {now}, after {took:,.1f} s: {shown}"
