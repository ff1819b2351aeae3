"""The page about a job: one file with plots, which needs nothing else and runs no script."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterable
from html import escape

import attrs

from amqp10msg.jobs._plots import COLORS, Bar, columns, lying, printable, stacked
from amqp10msg.jobs._stats import Stats

__all__ = ["Run", "page"]

_STYLE = """
:root { color-scheme: light dark; --text: #1c2127; --faint: #5d6671; --rule: #dfe3e8;
  --card: #f7f8fa; --c0: #3574c4; --error: #b3261e; --page: #fff; --c1: #d9822b; --c2: #3a8f5c;
  --c3: #9355b5; --c4: #c23b6a; --c5: #1f8f9c; --c6: #8a939d; }
@media (prefers-color-scheme: dark) { :root { --text: #e4e7eb; --faint: #a3acb7; --rule: #353c45;
  --card: #1f242a; --c0: #6ca4e8; --error: #f2837b; --page: #16191d; --c1: #f0a35e; --c2: #6fc493;
  --c3: #c08fe0; --c4: #ee7fa5; --c5: #5cc5d1; --c6: #78828d; } }
body { margin: 2rem auto; max-width: 62rem; padding: 0 1rem; color: var(--text);
  background: var(--page); font: 15px/1.45 system-ui, sans-serif; }
h1 { font-size: 1.4rem; margin-bottom: 0.2rem; } h2 { font-size: 1.05rem; margin: 2.2rem 0 0.2rem; }
p { margin: 0.2rem 0 0.6rem; overflow-wrap: anywhere; }
.faint, th { color: var(--faint); } th { font-weight: 600; }
ul { display: flex; flex-wrap: wrap; gap: 0.6rem 2.4rem; padding: 0; list-style: none; }
ul.counts { padding: 1rem; background: var(--card); border: 1px solid var(--rule);
  border-radius: 10px; }
ul.counts b { display: block; font-size: 1.45rem; font-variant-numeric: tabular-nums; }
ul.legend { gap: 0.2rem 1.2rem; margin: 0.5rem 0; }
ul.legend svg { display: inline-block; width: 0.8em; height: 0.8em; border: 0; border-radius: 2px;
  margin-right: 0.4em; }
.error { color: var(--error); } td.drift { color: var(--error); font-weight: 600; }
table { border-collapse: collapse; width: 100%; margin-top: 0.6rem; }
th, td { padding: 0.3rem 1.4rem 0.3rem 0; border-bottom: 1px solid var(--rule); text-align: left;
  vertical-align: top; overflow-wrap: anywhere; }
th:last-child, td:last-child { padding-right: 0; }
td.n, th.n { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
svg { display: block; width: 100%; height: auto; background: var(--card);
  border: 1px solid var(--rule); border-radius: 10px; box-sizing: border-box; }
svg rect, svg .c0 { fill: var(--c0); } svg rect.error { fill: var(--error); }
svg text { fill: var(--faint); font: 11px system-ui, sans-serif; }
svg text.name { fill: var(--text); font-size: 12px; } svg .grid { stroke: var(--rule); }
svg .c1 { fill: var(--c1); } svg .c2 { fill: var(--c2); } svg .c3 { fill: var(--c3); }
svg .c4 { fill: var(--c4); } svg .c5 { fill: var(--c5); } svg .c6 { fill: var(--c6); }
"""
# Bars of a plot, and rows of a table, that a page can show at most.
_MAX_BARS = 120
_MAX_ROWS = 500
_MAX_LYING = 20
_TICKS = 6
_DRIFTS = "drifts"


@attrs.frozen
class Run:
    """What a job was, and how long it took.

    Attributes:
        title: the heading.
        source: what was read.
        output: where it was written to.
        seconds: by the clock on the wall.
        engine: what ran it; empty where that is not to be said.
    """

    title: str
    source: str
    output: str
    seconds: float
    engine: str = ""


def page(run: Run, stats: Stats) -> str:
    """Give the page."""
    rate = stats.rows / run.seconds if run.seconds > 0 else 0.0
    counts: list[tuple[str, str, str]] = [
        ("messages", f"{stats.rows:,}", ""),
        ("good", f"{stats.good:,}", ""),
        ("in quarantine", f"{stats.errors:,}", "error" if stats.errors else ""),
        ("of messages", _octets(stats.octets), ""),
        ("seconds", f"{run.seconds:,.1f}", ""),
        ("messages a second", f"{rate:,.0f}", ""),
        ("a second", _octets(round(stats.octets / run.seconds) if run.seconds > 0 else 0), ""),
    ]
    if stats.skipped:
        counts.append(("rows without a message", f"{stats.skipped:,}", ""))
    numbers = "".join(f'<li class="{kind}"><b>{n}</b> {name}</li>\n' for name, n, kind in counts)
    engine = f" · engine: {run.engine}" if run.engine else ""
    parts = [
        _rules(stats),
        _hours(stats),
        _sizes(stats),
        _types(stats),
        _losses(stats),
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">\n'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "style-src 'unsafe-inline'\">\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(run.title)}</title><style>{_STYLE}</style></head><body>\n"
        f"<h1>{escape(run.title)}</h1>\n"
        f'<p class="faint">{escape(run.source)} → {escape(run.output)}{escape(engine)}</p>\n'
        f'<ul class="counts">\n{numbers}</ul>\n{"".join(parts)}</body></html>\n'
    )


def _octets(count: int) -> str:
    """Write a number of octets in three digits and a unit."""
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            shown = count / size
            return f"{shown:.{2 if shown < 10 else 1 if shown < 100 else 0}f} {unit}"
    return f"{count} bytes"


def _rules(stats: Stats) -> str:
    if not stats.rules:
        return ""
    rows = sorted(stats.rules.items(), key=lambda item: (-item[1].messages, item[0]))
    bars = [(code, row.messages) for code, row in rows[:_MAX_LYING]]
    table = _table(
        ("code", "clause", "messages", "first in (file: offset)"),
        ((code, row.clause, f"{row.messages:,}", row.first) for code, row in rows),
    )
    plot = lying(bars, "messages in quarantine by the code of the error", "error")
    note = "Messages by the rule that they break first."
    return f'<h2>Why messages are in quarantine</h2>\n<p class="faint">{note}</p>\n{plot}{table}'


def _hours(stats: Stats) -> str:
    """Draw messages over time, several hours a bar where there are many."""
    if not stats.hours:
        return ""
    first, last = min(stats.hours), max(stats.hours)
    step = max(1, -(-(last - first + 1) // _MAX_BARS))
    counts = [0] * ((last - first) // step + 1)
    for hour, count in stats.hours.items():
        counts[(hour - first) // step] += count
    ticks = {index * len(counts) // _TICKS for index in range(_TICKS)}
    bars = [
        Bar(count, _moment(first + index * step), _moment(first + index * step, index in ticks))
        for index, count in enumerate(counts)
    ]
    unit = "an hour" if step == 1 else f"in {step:,} hours"
    return _plot("Messages over time", f"Messages {unit}, by UTC.", bars)


def _moment(hour: int, is_wanted: bool = True) -> str:
    """Write an hour since the Unix epoch as a date, also outside of what datetime can hold."""
    if not is_wanted:
        return ""
    try:
        moment = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(hours=hour)
    except OverflowError:
        return f"hour {hour:,}"
    return moment.strftime("%Y-%m-%d %H:00")


def _sizes(stats: Stats) -> str:
    if not stats.sizes:
        return ""
    bars = [
        Bar(
            stats.sizes.get(bits, 0),
            f"{1 << (bits - 1):,} to {(1 << bits) - 1:,} bytes",
            _power(bits - 1),
        )
        for bits in range(min(stats.sizes), max(stats.sizes) + 1)
    ]
    return _plot("Sizes of messages", "Messages by size in bytes, from each power of two up.", bars)


def _power(exponent: int) -> str:
    """Write a power of two."""
    unit = ("", " Ki", " Mi", " Gi", " Ti")[min(exponent // 10, 4)]
    return f"{1 << exponent - 10 * min(exponent // 10, 4)}{unit}"


def _types(stats: Stats) -> str:
    if not stats.types:
        return ""
    listed = [
        (section, key, types)
        for section, keys in sorted(stats.types.items())
        for key, types in sorted(keys.items(), key=lambda item: (-len(item[1]), item[0]))
    ]
    drifting = {(section, key) for section, key, _ in stats.drifting()}
    table = _table(
        ("section", "property", "messages by type", ""),
        (
            (
                section.replace("_", "-"),
                key,
                ", ".join(f"{name} {count:,}" for name, count in types.most_common()),
                _DRIFTS if (section, key) in drifting else "",
            )
            for section, key, types in listed
        ),
    )
    said = f"{len(drifting):,} of {len(listed):,} properties have more than one type."
    return (
        f'<h2>Types of properties</h2>\n<p class="faint">{said}</p>\n'
        f"{_types_plot([(key, types) for _, key, types in listed])}{table}"
    )


def _types_plot(rows: list[tuple[str, Counter[str]]]) -> str:
    """Draw how the values of each property divide by type, those with the most types first."""
    rows = sorted(rows, key=lambda row: -len(row[1]))[:_MAX_LYING]
    total: Counter[str] = Counter()
    for _, types in rows:
        total.update(types)
    names = [name for name, _ in total.most_common()]

    def color_of(name: str) -> int:
        return min(names.index(name), COLORS - 1)

    legend = "".join(
        f'<li><svg viewBox="0 0 1 1"><rect class="c{color_of(name)}" width="1" height="1"/></svg>'
        f"{escape(printable(name))}</li>\n"
        for name in names
    )
    drawn = [(key, dict(types.most_common())) for key, types in rows]
    plot = stacked(drawn, color_of, "share of the types of each property")
    return f'<ul class="legend">\n{legend}</ul>\n{plot}'


def _losses(stats: Stats) -> str:
    if not stats.losses:
        return ""
    rows = ((path, act, f"{n:,}") for (path, act), n in stats.losses.most_common())
    return f"<h2>Lost in translation</h2>\n{_table(('path', 'action', 'messages'), rows)}"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    listed = list(rows)
    cells = "".join(
        "<tr>"
        + "".join(
            f'<td class="{_kind(name, cell)}">{escape(printable(cell))}</td>'
            for name, cell in zip(head, row, strict=True)
        )
        + "</tr>\n"
        for row in listed[:_MAX_ROWS]
    )
    heads = "".join(f'<th scope="col" class="{_kind(name)}">{name}</th>' for name in head)
    more = len(listed) - _MAX_ROWS
    rest = f'<p class="faint">… and {more:,} more</p>\n' if more > 0 else ""
    return f"<table><thead><tr>{heads}</tr></thead>\n<tbody>\n{cells}</tbody></table>\n{rest}"


def _kind(name: str, cell: str = "") -> str:
    """Choose the class of a cell in the column of a name."""
    if name == "messages":
        return "n"
    return "drift" if not name and cell == _DRIFTS else ""


def _plot(title: str, note: str, bars: list[Bar]) -> str:
    return f'<h2>{title}</h2>\n<p class="faint">{note}</p>\n{columns(bars, note)}'
