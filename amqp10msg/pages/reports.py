"""The parts of HTML reports: tables, violated rules, and charts as SVG."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import compress
from types import MappingProxyType
from typing import Any

import attrs

from amqp10msg.pages import markup, render
from amqp10msg.validation import RULES, Rule
from amqp10msg.validation.rules import RuleCount

__all__ = ["MIN_PART_PERCENT", "Part", "rule_rows", "table"]

#: The minimum width of a part of a horizontal bar, in percent of the bar. Without a minimum, one
#: message in a million would be invisible.
MIN_PART_PERCENT = 2.0
# The default maximum number of rows of a table.
_DEFAULT_MAX_ROWS = 500


@attrs.frozen
class Part:
    """A section of a report: a heading, and optionally a note, a chart and a table.

    Attributes:
        title: the heading.
        note: a paragraph below the heading.
        charts: two versions of a chart: for a wide page, and for a narrow page.
        legend: (name, number of its colour) pairs; see `COLORS`.
        head: the column headings of the table.
        kinds: the CSS classes of the columns; ``n`` is for numbers.
        rows: the rows of the table. A cell is text, (CSS class, text), or (CSS class, text, id of a
            link target on the page).
        more: the number of rows that are left out.
    """

    title: str
    note: str = ""
    charts: Sequence[Any] = ()
    legend: Sequence[tuple[str, int]] = ()
    head: Sequence[str] = ()
    kinds: Sequence[str] = ()
    rows: Sequence[Any] = ()
    more: int = 0


def table(
    title: str,
    columns: Mapping[str, str],
    rows: Iterable[Sequence[Any]],
    note: str = "",
    *,
    drop_empty: bool = False,
    most: int | None = _DEFAULT_MAX_ROWS,
    legend: Sequence[tuple[str, int]] = (),
) -> Part:
    """Return a part with a table.

    Args:
        title: the heading.
        columns: {heading of a column: CSS class of the column}.
        rows: the rows; see `Part`.
        note: a paragraph below the heading.
        drop_empty: omit the columns that are empty in all rows.
        most: the maximum number of rows to show; None for all.
        legend: see `Part`.
    """
    listed = list(rows)
    filled = [True] * len(columns)
    if drop_empty:
        filled = [any(column) for column in zip(*listed, strict=True)]
    return Part(
        title,
        note,
        head=list(compress(columns, filled)),
        kinds=list(compress(columns.values(), filled)),
        rows=[tuple(compress(row, filled)) for row in listed[:most]],
        more=len(listed) - len(listed[:most]),
        legend=legend,
    )


def rule_rows(
    rows: Iterable[tuple[str, RuleCount]],
    total: int,
    cells: Callable[[RuleCount], list[tuple[str, str, str]]],
    examples: Mapping[str, Sequence[tuple[int, str]]],
    own_rules: Mapping[str, Rule] = MappingProxyType({}),
) -> list[dict[str, Any]]:
    """Return the rows of the table of violated rules, for the macro ``rules`` in ``parts.html``.

    Args:
        rows: (id of the rule, counts) pairs.
        total: the number of all messages; the bar of a rule shows the violating share.
        cells: returns the further cells of a rule as (column heading, CSS class, text).
        examples: {rule: (number on the page, source) of the example messages}.
        own_rules: {id: rule} of the rules that are not in `RULES`.
    """
    rules = {**RULES, **own_rules}
    return [
        {
            "id": rule,
            "text": rules[rule].text if rule in rules else "",
            "clause": row.clause,
            "severity": row.severity,
            "share": proportions(
                [(row.severity, row.messages), ("rest", total - row.messages)],
                least=MIN_PART_PERCENT,
            ),
            "cells": [("messages", "n", f"{row.messages:,}"), *cells(row)],
            "examples": examples.get(rule, ()),
        }
        for rule, row in rows
    ]


# Charts.


#: The number of colours. Colour n is the CSS class ``cn``; the last colour is for all others.
COLORS = 7
#: Widths of a chart on a wide page and on a narrow page, in units of the chart's viewBox.
WIDE, NARROW = 960, 340
# The top margin and the height of the highest bar, in units of the viewBox.
_TOP, _MAX_BAR_HEIGHT = 10, 150
# The minimum height of a bar, and the approximate width of a character, in units of the viewBox.
_MIN_BAR_HEIGHT = 1.5
_CHARACTER_WIDTH = 6.4


@attrs.frozen
class Bar:
    """A vertical bar: `count` is the value, `text` the tooltip, `tick` the label below the bar."""

    count: int
    text: str
    tick: str = ""


@attrs.frozen
class _Rect:
    """A filled rectangle; `title` is its tooltip, `kind` its CSS class."""

    x: float
    y: float
    width: float
    height: float
    title: str = ""
    kind: str = ""


@attrs.frozen
class _Text:
    """A text that starts at the point (x, y), or ends there if `anchor` is ``end``."""

    x: float
    y: float
    text: str
    anchor: str = "start"


def columns(bars: Sequence[Bar], label: str, width: int = WIDE) -> Any:
    """Return a vertical bar chart as SVG, with grid lines at round numbers.

    `label` describes the chart to screen readers. Labels below bars are omitted if they do not fit.
    """
    highest = max((bar.count for bar in bars), default=0) or 1
    margin = 12 + _CHARACTER_WIDTH * len(f"{highest:,}")
    step = (width - margin) / max(len(bars), 1)
    bottom = _TOP + _MAX_BAR_HEIGHT
    lines, texts, rects = [], [], []
    for number in _round_numbers(highest):
        y = bottom - _MAX_BAR_HEIGHT * number / highest
        lines.append((margin, width, y))
        texts.append(_Text(margin - 8, y + 4, f"{number:,}", "end"))
    next_free = margin
    for index, bar in enumerate(bars):
        x = margin + (index + 0.06) * step
        height = max(_MIN_BAR_HEIGHT, _MAX_BAR_HEIGHT * bar.count / highest) if bar.count else 0
        title = f"{bar.text}: {bar.count:,}"
        rects.append(_Rect(x, bottom - height, step * 0.88, height, title))
        end = x + _CHARACTER_WIDTH * len(bar.tick)
        if bar.tick and x >= next_free and end <= width + 8:
            texts.append(_Text(x, bottom + 17, bar.tick))
            next_free = end + 6
    box = f"-8 -4 {width + 24} {bottom + 36}"
    return markup(render("chart.svg", box=box, label=label, rects=rects, texts=texts, lines=lines))


def proportions(parts: Sequence[tuple[str, int]], least: float = 0) -> Any:
    """Return a thin horizontal bar as SVG, divided in proportion to the counts.

    The bar fills the width of its container.

    Args:
        parts: (CSS class, count) of each part, from left to right.
        least: the minimum width of a part with a nonzero count, in percent of the bar.
    """
    total = sum(count for _, count in parts) or 1
    shares = [max(least, 100 * count / total) if count else 0 for _, count in parts]
    scale = 100 / max(sum(shares), 100)
    rects = []
    x = 0.0
    for (kind, _), share in zip(parts, shares, strict=True):
        rects.append(_Rect(x, 0, share * scale, 1, kind=kind))
        x += share * scale
    return markup(render("chart.svg", box="0 0 100 1", label="", rects=rects))


def _round_numbers(highest: int) -> list[int]:
    """Return the numbers of the grid lines: at most six, from 0 to `highest`.

    The step is 1, 2 or 5 times a power of ten.
    """
    step = 1
    while highest > 5 * step:
        step = step * 5 // 2 if str(step).startswith("2") else step * 2
    return list(range(0, highest + 1, step))
