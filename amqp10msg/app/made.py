"""When, by which command and in how long a report was made: a line at its end."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from amqp10msg import __version__

__all__ = ["by_command", "command", "facts", "line"]

_BEGUN: ContextVar[tuple[tuple[str, ...], float] | None] = ContextVar("begun", default=None)
#: A user and a password in a URL; a password may have an @ that should be escaped.
_CREDENTIALS = r"(?<=://)[^/\s]*@"


@contextmanager
def command(arguments: Iterable[str]) -> Iterator[None]:
    """Have reports say that this command made them; they leave out the credentials of its URLs."""
    token = _BEGUN.set((tuple(arguments), time.monotonic()))
    try:
        yield
    finally:
        _BEGUN.reset(token)


def by_command() -> bool:
    """Return whether a command is running that reports can name."""
    return _BEGUN.get() is not None


def facts() -> dict[str, Any]:
    """Return version, date in UTC, command and seconds, for a report in JSON.

    The last two are None where no command makes it, but a program.
    """
    import shlex  # noqa: PLC0415  (of reports alone, as are dates)
    from datetime import UTC, datetime  # noqa: PLC0415  (the same)

    arguments, start = _BEGUN.get() or (None, None)
    shown = None
    if arguments is not None:
        shown = re.sub(_CREDENTIALS, "***@", shlex.join(["amqp10msg", *arguments]))
    return {
        "version": __version__,
        "date": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "command": shown,
        "seconds": None if start is None else round(time.monotonic() - start, 3),
    }


def line() -> str:
    """Return the line that ends a report; without a command where a program makes it."""
    found = facts()
    date = found["date"].replace("T", " ").replace("Z", " UTC")
    by = (
        "" if found["command"] is None else f", after {found['seconds']:,.1f} s: {found['command']}"
    )
    return f"amqp10msg {found['version']}, {date}{by}"
