"""The model of a report: counts, the rules that messages break, and parts of tables and charts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import compress
from typing import Any

import attrs

from amqp10msg.app.pages.charts import proportions
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

    Attributes:
        charts: the same chart for a wide page and for a narrow one.
        legend: names, and the numbers of their colours.
        head: the names of the columns.
        kinds: their classes: ``n`` for numbers.
        rows: a cell is a text, or one of the other forms that ``parts.html`` takes.
        more: how many rows are left out.
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
    """Return a part with a table.

    Args:
        title: the heading.
        columns: the names of the columns, and their classes.
        rows: the cells of each row.
        note: what stands between heading and table.
        drop_empty: leave out the columns in which no row has anything.
        most: rows that are shown; all where None.
        legend: of colours.
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

    Args:
        rows: the rules, and their counts.
        whole: how many messages the bar of each is a share of.
        cells: the names, classes and texts of the columns after the count of messages.
        examples: by rule, the numbers and sources of messages that are shown.
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
