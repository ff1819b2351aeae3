"""How a bridge does: a line on the terminal that is written over, and the table at the end."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from amqp10msg.app.cli._output import console, safe, table
from amqp10msg.wire.text import plural

if TYPE_CHECKING:
    from amqp10msg.net.bridge import Statistics

#: To the beginning of the line, which is then empty.
_CLEAR = "\r\x1b[K"
#: Seconds that the rate on the line is of.
_RECENT = 3.0
_USUAL_WIDTH = 80


class LiveLine:
    """Shows on standard error how all routes do, in one line of the terminal."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: deque[tuple[float, int]] = deque([(clock(), 0)])

    def show(self, counts: Mapping[str, Statistics]) -> None:
        """Write the line again."""
        # A line that the terminal broke would not be written over.
        text, width = safe(self._text(counts)), _width() - 1
        if len(text) > width:
            text = f"{text[: width - 1]}…"
        click.echo(f"{_CLEAR}{text}", err=True, nl=False, color=True)

    def _text(self, counts: Mapping[str, Statistics]) -> str:
        every = list(counts.values())
        taken = sum(one.accepted for one in every)
        lags = [one.lag for one in every if one.lag is not None and one.state != "ended"]
        states = sorted({one.state for one in every} - {"running", "ended"})
        parts = [
            f"{', '.join(states)}: {taken:,} taken" if states else f"{taken:,} taken",
            f"{self._rate(taken):,.0f}/s",
            f"{sum(one.in_flight for one in every):,} in flight",
        ]
        if lags:
            parts.append(f"{sum(lags):,} to come")
        parts += [
            f"{count:,} {what}"
            for count, what in (
                (sum(one.waiting for one in every), "waiting"),
                (sum(one.quarantined.total() for one in every), "aside"),
            )
            if count
        ]
        lost = sum((one.lost for one in every), Counter[str]())
        parts += [f"{count:,} {action}" for action, count in lost.most_common()] or ["no losses"]
        return ", ".join(parts)

    def _rate(self, taken: int) -> float:
        """Return messages a second of late."""
        now, seen = self._clock(), self._seen
        seen.append((now, taken))
        while len(seen) > 2 and now - seen[1][0] >= _RECENT:
            seen.popleft()
        since, before = seen[0]
        return (taken - before) / (now - since) if now > since else 0.0


def _width() -> int:
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or _USUAL_WIDTH
    except (OSError, ValueError):
        return _USUAL_WIDTH


class _EventLines(logging.Formatter):
    """Formats events as text, in which a terminal finds nothing to act on.

    Names, descriptions and errors of peers are in it.

    Args:
        live: clear the line that `LiveLine` writes over.
    """

    def __init__(self, *, live: bool) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")
        self._start = _CLEAR if live else ""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  (of logging)
        """Return the line of a record."""
        return self._start + safe(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802  (of logging)
        """Return the lines of a traceback."""
        return "\n".join(map(safe, super().formatException(ei).split("\n")))


def log_lines(*, live: bool) -> logging.Formatter:
    """Return how events are written, beside a line that is written over where there is one."""
    return _EventLines(live=live)


log_option = click.option(
    "--log",
    "log_format",
    type=click.Choice(["text", "json", "none"]),
    default="text",
    show_default=True,
    help="How events are written on standard error.",
)


def events_logger(
    form: str, name: str = "amqp10msg.bridge", *, live: bool = False, alone: bool = False
) -> logging.Logger:
    """Return the logger that writes events in a form of ``--log``.

    With `live`, beside a line that is written over; with `alone`, there is one route, whose fault
    the command's last line says.
    """
    from amqp10msg.net.serve import JsonFormatter

    logger = logging.Logger(name, logging.INFO)  # noqa: LOG001  (no global state)
    if form == "none":
        logger.addHandler(logging.NullHandler())  # else warnings would be shown all the same
    else:
        handler = logging.StreamHandler()
        handler.setFormatter(JsonFormatter() if form == "json" else log_lines(live=live))
        if form == "text" and alone:
            handler.addFilter(lambda record: getattr(record, "event", "") != "route-failed")
        logger.addHandler(handler)
    return logger


def show_counts(counts: Mapping[str, Statistics], *, remains: bool = True) -> None:
    """Print a table of what was done, and what became of the messages that were not taken."""
    made = table("route", "received", "taken", "a second", "duplicates", "aside", "losses")
    for name, one in counts.items():
        numbers = (
            *(one.received, one.accepted, round(one.rate), one.duplicates),
            *(one.quarantined.total(), one.lost.total()),
        )
        made.add_row(safe(name), *(f"{number:,}" for number in numbers))
    console(colored=False).print(made)
    for name, one in counts.items():
        if one.skipped:
            positions = plural(one.skipped, "position")
            click.echo(safe(f"{name}: {positions} of the stream without a message over AMQP"))
        for text in _remains(one) if remains else ():
            click.echo(safe(f"{name}: {text}"))
        for count, what in _fates(one):
            click.echo(safe(f"{name}: {plural(count, 'message')} {what}"))
        for (path, action), count in one.losses.most_common(10):
            if action != "carried":
                click.echo(safe(f"{name}: {path}: {action} {count:,} times"))


def _remains(one: Statistics) -> list[str]:
    """Describe the rest at the source, where it was asked."""
    if not one.asked or one.is_empty:
        return []
    said = []
    if one.remaining is None:
        said.append(f"what remains at the source could not be counted: {one.uncounted}")
    elif one.remaining:
        said.append(f"{plural(one.remaining, 'message')} left at the source")
    if one.unacknowledged:
        said.append(
            f"{plural(one.unacknowledged, 'message')} held by other consumers of the source"
        )
    elif one.others and one.unacknowledged is None:
        others = plural(one.others, "other consumer")
        said.append(f"{others} of the source may hold messages; --management counts them")
    elif one.remaining is not None and one.is_shared:
        said.append(f"the source: {one.uncounted}; --sole-consumer says that there are none")
    return said


def _fates(one: Statistics) -> list[tuple[int, str]]:
    """Return counts and fates of the messages that the target did not take."""
    by_reason = (
        (one.quarantined, "in quarantine"),
        (one.requeued, "back at the source"),
        (one.rejected, "rejected at the source"),
    )
    found = [
        (count, f"{fate}: {reason}")
        for counts, fate in by_reason
        for reason, count in counts.most_common()
    ]
    found += [
        (one.unmatched, "passed over by the filter"),
        (one.dropped, "dropped by the hook"),
        (one.left, "left at the source: too-large"),
        (one.missed, "removed by the retention of the stream before they were read"),
    ]
    return [(count, fate) for count, fate in found if count]
