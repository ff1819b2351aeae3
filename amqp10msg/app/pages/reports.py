"""The model of a report: counts, the rules that messages break, tables, and charts as SVG."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import compress
from typing import Any

import attrs

from amqp10msg.app.pages import markup, render
from amqp10msg.validation import RULES
from amqp10msg.validation.rules import RuleCount

__all__ = ["LEAST", "Part", "rule_rows", "table"]

#: Percent that a part of a bar has at least, so that one message in a million is seen.
LEAST = 2.0
# Rows of a table that a page shows at most.
_MAX_ROWS = 500


@attrs.frozen
class Part:
    """A part of a report: a heading, then what there is of a note, charts, and a table.

    The charts are the same one for a wide page and for a narrow one; the legend has names and the
    numbers of their colours; kinds are the classes of the columns, ``n`` for numbers; a cell is a
    text, or one of the other forms that ``parts.html`` takes; `more` rows are left out.
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
    most: int | None = _MAX_ROWS,
    legend: Sequence[tuple[str, int]] = (),
) -> Part:
    """Return a part with a table of columns, by their names with their classes.

    With `drop_empty`, the columns in which no row has anything are left out.
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
    whole: int,
    cells: Callable[[RuleCount], list[tuple[str, str, str]]],
    examples: Mapping[str, Sequence[tuple[int, str]]],
) -> list[dict[str, Any]]:
    """Return the rules that messages break as ``parts.html`` shows them.

    The bar of each is a share of the `whole`; `cells` are the names, classes and texts of the
    columns after the count of messages, `examples` the numbers and sources of messages.
    """
    return [
        {
            "id": rule,
            "text": RULES[rule].text if rule in RULES else "",
            "clause": row.clause,
            "severity": row.severity,
            "share": proportions(
                [(row.severity, row.messages), ("rest", whole - row.messages)], least=LEAST
            ),
            "cells": [("messages", "n", f"{row.messages:,}"), *cells(row)],
            "examples": examples.get(rule, ()),
        }
        for rule, row in rows
    ]


# Charts.


#: How many colours the page has, ``c0`` and so on; the last is for the rest.
COLORS = 7
#: Widths of a drawing, for a page that is wide and for one that is narrow.
WIDE, SLIM = 960, 340
_TOP, _HEIGHT = 10, 150
_SMALLEST = 1.5
# About as wide as a character of a text is.
_CHARACTER = 6.4


@attrs.frozen
class Bar:
    """One upright bar: its height, its text for the pointer, and what stands below on the left."""

    count: int
    text: str
    tick: str = ""


@attrs.frozen
class _Rect:
    """A filled rectangle; `title` shows where the pointer is on it."""

    x: float
    y: float
    width: float
    height: float
    title: str = ""
    kind: str = ""


@attrs.frozen
class _Text:
    """A text that begins, or with the anchor ``end`` ends, at a point."""

    x: float
    y: float
    text: str
    anchor: str = "start"


def columns(bars: Sequence[Bar], label: str, width: int = WIDE) -> Any:
    """Draw upright bars over an axis, with lines at round numbers.

    Readers that do not see it get the label; what does not fit below a bar is left out.
    """
    highest = max((bar.count for bar in bars), default=0) or 1
    left = 12 + _CHARACTER * len(f"{highest:,}")
    step = (width - left) / max(len(bars), 1)
    bottom = _TOP + _HEIGHT
    lines, texts, rects = [], [], []
    for number in _round_numbers(highest):
        y = bottom - _HEIGHT * number / highest
        lines.append((left, width, y))
        texts.append(_Text(left - 8, y + 4, f"{number:,}", "end"))
    free = left
    for index, bar in enumerate(bars):
        x = left + (index + 0.06) * step
        high = max(_SMALLEST, _HEIGHT * bar.count / highest) if bar.count else 0
        title = f"{bar.text}: {bar.count:,}"
        rects.append(_Rect(x, bottom - high, step * 0.88, high, title))
        end = x + _CHARACTER * len(bar.tick)
        if bar.tick and x >= free and end <= width + 8:
            texts.append(_Text(x, bottom + 17, bar.tick))
            free = end + 6
    box = f"-8 -4 {width + 24} {bottom + 36}"
    return markup(render("chart.svg", box=box, label=label, rects=rects, texts=texts, lines=lines))


def proportions(parts: Sequence[tuple[str, int]], least: float = 0) -> Any:
    """Draw one thin bar, as wide as what it is in, divided by the counts of kinds, in order.

    Each has `least` percent, so that one in a million is seen.
    """
    whole = sum(count for _, count in parts) or 1
    shares = [max(least, 100 * count / whole) if count else 0 for _, count in parts]
    scale = 100 / max(sum(shares), 100)
    rects = []
    x = 0.0
    for (kind, _), share in zip(parts, shares, strict=True):
        rects.append(_Rect(x, 0, share * scale, 1, kind=kind))
        x += share * scale
    return markup(render("chart.svg", box="0 0 100 1", label="", rects=rects))


def _round_numbers(highest: int) -> list[int]:
    """Return up to six numbers from 0 up, by steps of 1, 2 or 5 and zeros."""
    step = 1
    while highest > 5 * step:
        step = step * 5 // 2 if str(step).startswith("2") else step * 2
    return list(range(0, highest + 1, step))
