"""Describe how a report was made: library version, date, command line and duration."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from amqp10msg import __version__

__all__ = ["by_command", "command", "facts", "line"]

# The running command: its arguments, and its start as `time.monotonic`, in seconds.
_RUNNING: ContextVar[tuple[tuple[str, ...], float] | None] = ContextVar("running", default=None)
#: Matches user and password in a URL, up to the last @. A password may contain an unescaped @.
_CREDENTIALS = r"(?<=://)[^/\s]*@"


@contextmanager
def command(arguments: Iterable[str]) -> Iterator[None]:
    """Set the command line that reports show if they are written inside the block.

    `arguments` are the arguments of ``amqp10msg``. Reports mask the credentials in URLs.
    """
    token = _RUNNING.set((tuple(arguments), time.monotonic()))
    try:
        yield
    finally:
        _RUNNING.reset(token)


def by_command() -> bool:
    """Return whether the code runs inside a block of `command`: on the command line."""
    return _RUNNING.get() is not None


def facts() -> dict[str, Any]:
    """Return how a report was made, for JSON: version, date (UTC), command and seconds.

    Command and seconds are None outside of a block of `command`.
    """
    import shlex  # noqa: PLC0415  (only reports need it)
    from datetime import UTC, datetime  # noqa: PLC0415  (only reports need it)

    arguments, start = _RUNNING.get() or (None, None)
    command_line = None
    if arguments is not None:
        command_line = re.sub(_CREDENTIALS, "***@", shlex.join(["amqp10msg", *arguments]))
    return {
        "version": __version__,
        "date": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "command": command_line,
        "seconds": None if start is None else round(time.monotonic() - start, 3),
    }


def line() -> str:
    """Return how a report was made, as its last line: version, date, and the command, if any."""
    origin = facts()
    date = origin["date"].replace("T", " ").replace("Z", " UTC")
    suffix = (
        ""
        if origin["command"] is None
        else f", after {origin['seconds']:,.1f} s: {origin['command']}"
    )
    return f"amqp10msg {origin['version']}, {date}{suffix}"
