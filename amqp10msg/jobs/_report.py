"""The page about a job: one file with charts, which needs nothing else and runs no script."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import attrs

from amqp10msg import pages
from amqp10msg.jobs._stats import Stats
from amqp10msg.pages.charts import COLORS, Bar, columns, horizontal_bars, stacked_bars

# Bars of a chart, and rows of a table, that a page can show at most.
_MAX_BARS = 120
_MAX_ROWS = 500
_MAX_HORIZONTAL = 20
_TICKS = 6


@attrs.frozen
class Run:
    """What a job was, and how long it took.

    Attributes:
        title: the heading.
        source: what was read.
        output: where it was written to.
        seconds: elapsed wall-clock time, in s.
        engine: what ran it; empty where the page need not name it.
    """

    title: str
    source: str
    output: str
    seconds: float
    engine: str = ""


@attrs.frozen
class _Part:
    """A part of the page: a heading, then what there is of a note, a chart and a table."""

    title: str
    note: str = ""
    chart: Any = None
    legend: list[tuple[str, int]] = attrs.field(factory=list)
    head: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    rows: list[Any] = attrs.field(factory=list)
    more: int = 0


def page(run: Run, stats: Stats) -> str:
    """Return the page about a job. Needs ``amqp10msg[pages]``.

    Raises:
        ImportError: Jinja2 is not installed.
    """
    seconds = run.seconds if run.seconds > 0 else float("inf")
    counts = [
        ("messages", f"{stats.rows:,}", ""),
        ("good", f"{stats.good:,}", ""),
        ("in quarantine", f"{stats.errors:,}", "error" if stats.errors else ""),
        ("of messages", _size(stats.octets), ""),
        ("seconds", f"{run.seconds:,.1f}", ""),
        ("messages a second", f"{stats.rows / seconds:,.0f}", ""),
        ("a second", _size(round(stats.octets / seconds)), ""),
    ]
    if stats.skipped:
        counts.append(("rows without a message", f"{stats.skipped:,}", ""))
    return pages.render(
        "job.html",
        title=run.title,
        source=run.source,
        output=run.output,
        engine=run.engine,
        counts=counts,
        parts=list(_parts(stats)),
    )


def _size(count: int) -> str:
    """Write a number of bytes in three digits and a unit."""
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            shown = count / size
            return f"{shown:.{2 if shown < 10 else 1 if shown < 100 else 0}f} {unit}"
    return f"{count} bytes"


def _parts(stats: Stats) -> Iterator[_Part]:
    """Yield the parts for which there is something to show."""
    if stats.rules:
        yield _rules(stats)
    if stats.hours:
        yield _hours(stats)
    if stats.sizes:
        yield _sizes(stats)
    if stats.types:
        yield _types(stats)
    if stats.losses:
        losses = ((path, act, f"{n:,}") for (path, act), n in stats.losses.most_common())
        head = ("path", "action", "messages")
        yield _Part("Lost in translation", **_table(head, ("", "", "n"), losses))


def _table(
    head: tuple[str, ...], kinds: tuple[str, ...], rows: Iterable[tuple[Any, ...]]
) -> dict[str, Any]:
    listed = list(rows)
    shown = listed[:_MAX_ROWS]
    return {"head": head, "kinds": kinds, "rows": shown, "more": len(listed) - len(shown)}


def _rules(stats: Stats) -> _Part:
    rows = sorted(stats.rules.items(), key=lambda item: (-item[1].messages, item[0]))
    bars = [(code, row.messages) for code, row in rows[:_MAX_HORIZONTAL]]
    return _Part(
        "Why messages are in quarantine",
        "Messages by the rule that they break first.",
        horizontal_bars(bars, "messages in quarantine by the code of the error", "error"),
        **_table(
            ("code", "clause", "messages", "first in (file: offset)", "what is wrong there"),
            ("", "", "n", "", ""),
            ((code, row.clause, f"{row.messages:,}", row.first, row.text) for code, row in rows),
        ),
    )


def _hours(stats: Stats) -> _Part:
    """Draw messages over time, several hours a bar where there are many."""
    first, last = min(stats.hours), max(stats.hours)
    step = max(1, -(-(last - first + 1) // _MAX_BARS))
    counts = [0] * ((last - first) // step + 1)
    for hour, count in stats.hours.items():
        counts[(hour - first) // step] += count
    ticks = {index * len(counts) // _TICKS for index in range(_TICKS)}
    moments = [_moment(first + index * step) for index in range(len(counts))]
    bars = [
        Bar(count, moment, moment if index in ticks else "")
        for index, (count, moment) in enumerate(zip(counts, moments, strict=True))
    ]
    unit = "an hour" if step == 1 else f"in {step:,} hours"
    note = f"Messages {unit}, by UTC."
    return _Part("Messages over time", note, columns(bars, note))


def _moment(hour: int) -> str:
    """Write an hour since the Unix epoch as a date, also outside of what datetime can hold."""
    try:
        moment = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(hours=hour)
    except OverflowError:
        return f"hour {hour:,}"
    return moment.strftime("%Y-%m-%d %H:00")


def _sizes(stats: Stats) -> _Part:
    bars = []
    for bits in range(min(stats.sizes), max(stats.sizes) + 1):
        label = f"{1 << (bits - 1):,} to {(1 << bits) - 1:,} bytes"
        bars.append(Bar(stats.sizes.get(bits, 0), label, _power(bits - 1)))
    note = "Messages by size in bytes, from each power of two up."
    return _Part("Sizes of messages", note, columns(bars, note))


def _power(exponent: int) -> str:
    """Write a power of two with a binary prefix, as in ``16 Ki``."""
    thousands = min(exponent // 10, 4)
    return f"{1 << exponent - 10 * thousands}{('', ' Ki', ' Mi', ' Gi', ' Ti')[thousands]}"


def _types(stats: Stats) -> _Part:
    """Draw how the values of each property divide by type, those with the most types first."""
    listed = [
        (section, key, types)
        for section, keys in sorted(stats.types.items())
        for key, types in sorted(keys.items(), key=lambda item: (-len(item[1]), item[0]))
    ]
    drifting = {(section, key) for section, key, _ in stats.drifting()}
    drawn = sorted(listed, key=lambda row: -len(row[2]))[:_MAX_HORIZONTAL]
    total: Counter[str] = Counter()
    for _, _, types in drawn:
        total.update(types)
    colors = {name: min(at, COLORS - 1) for at, (name, _) in enumerate(total.most_common())}
    chart = stacked_bars(
        [(key, dict(types.most_common())) for _, key, types in drawn],
        colors.__getitem__,
        "share of the types of each property",
    )
    rows = (
        (
            section.replace("_", "-"),
            key,
            ", ".join(f"{name} {count:,}" for name, count in types.most_common()),
            ("drift", "drifts") if (section, key) in drifting else "",
        )
        for section, key, types in listed
    )
    note = f"{len(drifting):,} of {len(listed):,} properties have more than one type."
    head = ("section", "property", "messages by type", "")
    table = _table(head, ("", "", "", ""), rows)
    return _Part("Types of properties", note, chart, list(colors.items()), **table)
