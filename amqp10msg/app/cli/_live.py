"""The status line of a running bridge on the terminal, its event log, and the final summary."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from amqp10msg.app.cli._output import console, safe, table, use_json_lines
from amqp10msg.wire.text import plural

if TYPE_CHECKING:
    from amqp10msg.net.bridge import Statistics

#: The terminal escape sequence that returns to the start of the line and erases it.
_CLEAR_LINE = "\r\x1b[K"
#: Seconds over which the status line averages the message rate.
_RATE_SECONDS = 3.0
#: The assumed width, in characters, of a terminal that does not report its width.
_DEFAULT_WIDTH = 80


class LiveLine:
    """A status line on standard error with the totals of all routes, updated in place."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._samples: deque[tuple[float, int]] = deque([(clock(), 0)])

    def show(self, counts: Mapping[str, Statistics]) -> None:
        """Overwrite the line with the current totals."""
        # Cut the text to one terminal row, because `_CLEAR_LINE` erases only one row.
        text, width = safe(self._status_text(counts)), _width() - 1
        if len(text) > width:
            text = f"{text[: width - 1]}…"
        click.echo(f"{_CLEAR_LINE}{text}", err=True, nl=False, color=True)

    def _status_text(self, counts: Mapping[str, Statistics]) -> str:
        routes = list(counts.values())
        moved = sum(route.accepted for route in routes)
        lags = [route.lag for route in routes if route.lag is not None and route.state != "ended"]
        states = sorted({route.state for route in routes} - {"running", "ended"})
        parts = [
            f"{', '.join(states)}: {moved:,} moved" if states else f"{moved:,} moved",
            f"{self._rate(moved):,.0f}/s",
            f"{sum(route.in_flight for route in routes):,} in flight",
        ]
        if lags:
            parts.append(f"{sum(lags):,} remaining")
        parts += [
            f"{count:,} {label}"
            for count, label in (
                (sum(route.waiting for route in routes), "waiting"),
                (sum(route.quarantined.total() for route in routes), "quarantined"),
            )
            if count
        ]
        losses = sum((route.lost for route in routes), Counter[str]())
        parts += [f"{count:,} {action}" for action, count in losses.most_common()] or ["no losses"]
        return ", ".join(parts)

    def _rate(self, moved: int) -> float:
        """Return the rate in messages per second over the last `_RATE_SECONDS` seconds."""
        now, samples = self._clock(), self._samples
        samples.append((now, moved))
        while len(samples) > 2 and now - samples[1][0] >= _RATE_SECONDS:
            samples.popleft()
        start, moved_by_then = samples[0]
        return (moved - moved_by_then) / (now - start) if now > start else 0.0


def _width() -> int:
    """Return the width of the terminal in characters."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or _DEFAULT_WIDTH
    except (OSError, ValueError):
        return _DEFAULT_WIDTH


class _EventLines(logging.Formatter):
    """Formats log records as text with control characters escaped.

    Records contain names and error texts from peers, whose control characters could otherwise
    manipulate the terminal.

    Args:
        live: whether a `LiveLine` is on the terminal, which must be erased before each record.
    """

    def __init__(self, *, live: bool) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")
        self._start = _CLEAR_LINE if live else ""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  (overrides logging)
        """Return the record as one line."""
        return self._start + safe(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802  (overrides logging)
        """Return the traceback, each line escaped."""
        return "\n".join(map(safe, super().formatException(ei).split("\n")))


def log_lines(*, live: bool) -> logging.Formatter:
    """Return the formatter of ``--log text``; `live`: whether a `LiveLine` is on the terminal."""
    return _EventLines(live=live)


def _set_line_format(_context: click.Context, _option: click.Parameter, form: str) -> str:
    """Make errors JSON lines, like the log, if `form` is ``json``; return `form`."""
    use_json_lines(form == "json")
    return form


log_option = click.option(
    "--log",
    "log_format",
    type=click.Choice(["text", "json", "none"]),
    default="text",
    show_default=True,
    is_eager=True,  # so that errors in other options have the format, too
    callback=_set_line_format,
    help="The format in which events and errors are written to standard error; none turns events "
    "off.",
)


def events_logger(
    form: str, name: str = "amqp10msg.bridge", *, live: bool = False, alone: bool = False
) -> logging.Logger:
    """Return a logger that writes events to standard error.

    Args:
        form: the value of ``--log``: ``text``, ``json`` or ``none``.
        name: the name of the logger.
        live: whether a `LiveLine` is on the terminal.
        alone: whether there is only one route. The format ``text`` then omits the event of the
            route's failure, because the command prints the error at the end.
    """
    from amqp10msg.net.serve import JsonFormatter

    logger = logging.Logger(name, logging.INFO)  # noqa: LOG001  (no global state)
    if form == "none":
        # A logger without any handler prints warnings on stderr.
        logger.addHandler(logging.NullHandler())
    else:
        handler = logging.StreamHandler()
        handler.setFormatter(JsonFormatter() if form == "json" else log_lines(live=live))
        if form == "text" and alone:
            handler.addFilter(lambda record: getattr(record, "event", "") != "route-failed")
        logger.addHandler(handler)
    return logger


def show_counts(counts: Mapping[str, Statistics], *, remains: bool = True) -> None:
    """Print the summary table, and the outcomes of messages that the target did not accept.

    If `remains` is true, also print how many messages remain at each source.
    """
    names = ["route", "received", "moved", "per s", "duplicates", "quarantined", "losses"]
    rows = table(*names)
    # Rates differ by orders of magnitude between runs: keep the positions of the other columns.
    rows.columns[names.index("per s")].min_width = len("9,999,999")
    for name, route in counts.items():
        numbers = (
            *(route.received, route.accepted, round(route.rate), route.duplicates),
            *(route.quarantined.total(), route.lost.total()),
        )
        rows.add_row(safe(name), *(f"{number:,}" for number in numbers))
    console(colored=False).print(rows)
    for name, route in counts.items():
        if route.skipped:
            positions = plural(route.skipped, "position")
            click.echo(safe(f"{name}: {positions} of the stream held no AMQP message"))
        if route.nothing_new:
            click.echo(safe(f"{name}: {route.nothing_new}"))
        for text in route.unset_names:
            click.echo(safe(f"{name}: no message passed the filter: {text}"))
        for text in _remaining_lines(route) if remains else ():
            click.echo(safe(f"{name}: {text}"))
        for count, outcome in _unaccepted_counts(route):
            click.echo(safe(f"{name}: {plural(count, 'message')} {outcome}"))
        for (path, action), count in route.losses.most_common(10):
            if action != "carried":
                click.echo(safe(f"{name}: {path}: {action} {count:,} times"))


def _remaining_lines(counts: Statistics) -> list[str]:
    """Describe the messages that remain at the source; return [] if the broker was not asked."""
    if not counts.asked or counts.is_empty:
        return []
    lines = []
    if counts.remaining is None:
        lines.append(f"messages left at the source could not be counted: {counts.uncounted}")
    elif counts.remaining:
        lines.append(f"{plural(counts.remaining, 'message')} left at the source")
    if counts.unacknowledged:
        lines.append(
            f"{plural(counts.unacknowledged, 'message')} held by other consumers of the source"
        )
    elif counts.others and counts.unacknowledged is None:
        consumers = plural(counts.others, "other consumer")
        lines.append(f"{consumers} of the source may hold messages; add --management to count them")
    elif counts.remaining is not None and counts.is_shared:
        lines.append(
            f"the source: {counts.uncounted}; add --sole-consumer if it has no other consumers"
        )
    return lines


def _unaccepted_counts(counts: Statistics) -> list[tuple[int, str]]:
    """Return (number of messages, outcome) for the messages that the target did not accept."""
    by_reason = (
        (counts.quarantined, "in quarantine"),
        (counts.requeued, "back at the source"),
        (counts.rejected, "rejected at the source"),
    )
    outcomes = [
        (count, f"{outcome}: {reason}")
        for reasons, outcome in by_reason
        for reason, count in reasons.most_common()
    ]
    outcomes += [
        (counts.unmatched, "skipped by the filter"),
        (counts.dropped, "dropped by the hook"),
        (counts.left, "left at the source: too-large"),
        # A route that ends after a number of messages always returns those that it read ahead.
        (counts.returned * (counts.ending not in {"count", "length"}), "returned to the source"),
        (counts.missed, "removed by the retention of the stream before they were read"),
    ]
    return [(count, outcome) for count, outcome in outcomes if count]
