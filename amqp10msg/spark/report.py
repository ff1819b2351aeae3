"""The page about a job: one file with plots, which needs nothing else and runs no script."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from html import escape

import attrs

from amqp10msg.spark._stats import Stats

__all__ = ["Run", "page"]

_STYLE = """
:root { color-scheme: light dark; --text: #1c2127; --faint: #69727d; --rule: #dfe3e8;
  --card: #f7f8fa; --bar: #3574c4; --error: #b3261e; --page: #fff; }
@media (prefers-color-scheme: dark) { :root { --text: #e4e7eb; --faint: #97a1ad; --rule: #353c45;
  --card: #1f242a; --bar: #6ca4e8; --error: #f2837b; --page: #16191d; } }
body { margin: 2rem auto; max-width: 62rem; padding: 0 1rem; color: var(--text);
  background: var(--page); font: 15px/1.45 system-ui, sans-serif; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.05rem; margin: 2rem 0 0.6rem; }
.faint, th { color: var(--faint); }
ul.counts { display: flex; flex-wrap: wrap; gap: 0.6rem 2.4rem; padding: 1rem; list-style: none;
  background: var(--card); border: 1px solid var(--rule); border-radius: 10px; }
ul.counts b { display: block; font-size: 1.45rem; font-variant-numeric: tabular-nums; }
.error { color: var(--error); }
table { border-collapse: collapse; width: 100%; }
th, td { padding: 0.3rem 1rem 0.3rem 0; border-bottom: 1px solid var(--rule); text-align: left;
  vertical-align: top; overflow-wrap: anywhere; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
code { font: 0.92em ui-monospace, monospace; }
svg { display: block; width: 100%; height: auto; background: var(--card);
  border: 1px solid var(--rule); border-radius: 10px; }
svg rect { fill: var(--bar); } svg text { fill: var(--faint); font: 11px system-ui, sans-serif; }
svg rect.error { fill: var(--error); }
"""
# Bars of a plot, and rows of a table, that a page can show at most.
_MAX_BARS = 120
_MAX_ROWS = 500


@attrs.frozen
class Run:
    """What a job was, and how long it took.

    Attributes:
        title: the heading.
        source: what was read.
        output: where it was written to.
        seconds: by the clock on the wall.
    """

    title: str
    source: str
    output: str
    seconds: float


def page(run: Run, stats: Stats) -> str:
    """Give the page."""
    rate = stats.rows / run.seconds if run.seconds > 0 else 0.0
    counts: list[tuple[str, str, str]] = [
        ("messages", f"{stats.rows:,}", ""),
        ("good", f"{stats.good:,}", ""),
        ("in quarantine", f"{stats.errors:,}", "error" if stats.errors else ""),
        ("bytes", f"{stats.octets:,}", ""),
        ("seconds", f"{run.seconds:,.1f}", ""),
        ("messages a second", f"{rate:,.0f}", ""),
    ]
    if stats.skipped:
        counts.append(("rows without a message", f"{stats.skipped:,}", ""))
    numbers = "".join(f'<li class="{kind}"><b>{n}</b> {name}</li>\n' for name, n, kind in counts)
    parts = [
        _rules(stats),
        _plot("Messages over time", "one bar an hour or more, UTC", _hours(stats)),
        _plot("Sizes of messages", "in bytes, a bar for each power of two", _sizes(stats)),
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
        f'<p class="faint">{escape(run.source)} → {escape(run.output)}</p>\n'
        f'<ul class="counts">\n{numbers}</ul>\n{"".join(parts)}</body></html>\n'
    )


def _rules(stats: Stats) -> str:
    if not stats.rules:
        return ""
    rows = sorted(stats.rules.items(), key=lambda item: (-item[1].messages, item[0]))
    bars = _bars([(code, row.messages) for code, row in rows], "error")
    table = _table(
        ("code", "clause", "messages", "first in"),
        ((code, row.clause, f"{row.messages:,}", row.first) for code, row in rows),
    )
    return f"<h2>Why messages are in quarantine</h2>\n{bars}{table}"


def _hours(stats: Stats) -> list[tuple[str, int]]:
    """Give messages over time, several hours a bar where there are many."""
    if not stats.hours:
        return []
    first, last = min(stats.hours), max(stats.hours)
    step = max(1, -(-(last - first + 1) // _MAX_BARS))
    bars = [0] * ((last - first) // step + 1)
    for hour, count in stats.hours.items():
        bars[(hour - first) // step] += count
    return [(_moment(first + index * step), count) for index, count in enumerate(bars)]


def _moment(hour: int) -> str:
    """Write an hour since the Unix epoch as a date, also outside of what datetime can hold."""
    try:
        moment = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(hours=hour)
    except OverflowError:
        return f"hour {hour:,}"
    return moment.strftime("%Y-%m-%d %H:00")


def _sizes(stats: Stats) -> list[tuple[str, int]]:
    if not stats.sizes:
        return []
    bits = range(min(stats.sizes), max(stats.sizes) + 1)
    return [(f"{1 << (b - 1):,}-{(1 << b) - 1:,}", stats.sizes.get(b, 0)) for b in bits]


def _types(stats: Stats) -> str:
    if not stats.types:
        return ""
    drifting = {(section, key) for section, key, _ in stats.drifting()}
    rows = [
        (
            section.replace("_", "-"),
            key,
            ", ".join(f"{name} {count:,}" for name, count in types.most_common()),
            "drifts" if (section, key) in drifting else "",
        )
        for section, keys in sorted(stats.types.items())
        for key, types in sorted(keys.items(), key=lambda item: (-len(item[1]), item[0]))
    ]
    said = f"{len(drifting):,} of {len(rows):,} properties have more than one type."
    table = _table(("section", "property", "messages by type", ""), rows)
    return f'<h2>Types of properties</h2>\n<p class="faint">{said}</p>\n{table}'


def _losses(stats: Stats) -> str:
    if not stats.losses:
        return ""
    rows = ((path, act, f"{n:,}") for (path, act), n in stats.losses.most_common())
    return f"<h2>Lost in translation</h2>\n{_table(('path', 'action', 'messages'), rows)}"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    listed = list(rows)
    numeric = {"messages"}
    cells = "".join(
        "<tr>"
        + "".join(
            f'<td class="{"n" if name in numeric else ""}">{escape(_safe(cell))}</td>'
            for name, cell in zip(head, row, strict=True)
        )
        + "</tr>\n"
        for row in listed[:_MAX_ROWS]
    )
    heads = "".join(
        f'<th scope="col" class="{"n" if name in numeric else ""}">{name}</th>' for name in head
    )
    more = len(listed) - _MAX_ROWS
    rest = f'<p class="faint">… and {more:,} more</p>\n' if more > 0 else ""
    return f"<table><thead><tr>{heads}</tr></thead>\n<tbody>\n{cells}</tbody></table>\n{rest}"


def _safe(text: str) -> str:
    """Escape what a page cannot hold or show."""
    return "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in text)


def _plot(title: str, note: str, bars: list[tuple[str, int]]) -> str:
    if not bars:
        return ""
    return f'<h2>{title}</h2>\n<p class="faint">{note}</p>\n{_columns(bars)}'


def _columns(bars: list[tuple[str, int]]) -> str:
    """Draw upright bars, with the first and the last label and the highest number."""
    width, height, top = 960, 150, 18
    highest = max(count for _, count in bars) or 1
    step = width / len(bars)
    drawn = "".join(
        f'<rect x="{index * step + step * 0.06:.2f}" width="{step * 0.88:.2f}" '
        f'y="{top + height - height * count / highest:.2f}" '
        f'height="{height * count / highest:.2f}"><title>{escape(label)}: {count:,}</title></rect>'
        for index, (label, count) in enumerate(bars)
    )
    first, last = escape(bars[0][0]), escape(bars[-1][0])
    return (
        f'<svg viewBox="-12 0 {width + 24} {top + height + 24}" role="img">{drawn}'
        f'<text x="0" y="12">{highest:,}</text>'
        f'<text x="0" y="{top + height + 16}">{first}</text>'
        f'<text x="{width}" y="{top + height + 16}" text-anchor="end">{last}</text></svg>\n'
    )


def _bars(bars: list[tuple[str, int]], kind: str) -> str:
    """Draw lying bars with their labels."""
    bars = bars[:20]
    highest = max(count for _, count in bars) or 1
    drawn = "".join(
        f'<text x="250" y="{index * 22 + 19}" text-anchor="end">{escape(_safe(label))}</text>'
        f'<rect class="{kind}" x="260" y="{index * 22 + 8}" height="14" '
        f'width="{max(2.0, 600 * count / highest):.2f}"></rect>'
        f'<text x="{max(2.0, 600 * count / highest) + 266:.2f}" y="{index * 22 + 19}">'
        f"{count:,}</text>"
        for index, (label, count) in enumerate(bars)
    )
    return f'<svg viewBox="0 0 960 {len(bars) * 22 + 16}" role="img">{drawn}</svg>\n'
