"""Charts as SVG, which take their colours from the page around them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from amqp10msg.app.pages import render

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
    """One upright bar.

    Attributes:
        count: how high it is.
        text: what it is, for the pointer.
        tick: what stands below its left edge; nothing where empty.
    """

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

    Args:
        bars: the bars, from left to right.
        label: what the chart shows, for readers that do not see it.
        width: of the drawing; what stands below a bar is left out where it would not fit.
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
    return _markup(render("chart.svg", box=box, label=label, rects=rects, texts=texts, lines=lines))


def proportions(parts: Sequence[tuple[str, int]], least: float = 0) -> Any:
    """Draw one thin bar, as wide as what it is in, divided by counts.

    Args:
        parts: kinds, such as ``error`` or ``c0``, and counts; their order is that of the bar.
        least: percent that a part has at least, so that one in a million is seen.
    """
    whole = sum(count for _, count in parts) or 1
    shares = [max(least, 100 * count / whole) if count else 0 for _, count in parts]
    scale = 100 / max(sum(shares), 100)
    rects = []
    x = 0.0
    for (kind, _), share in zip(parts, shares, strict=True):
        rects.append(_Rect(x, 0, share * scale, 1, kind=kind))
        x += share * scale
    return _markup(render("chart.svg", box="0 0 100 1", label="", rects=rects))


def _markup(text: str) -> Any:
    from markupsafe import Markup  # noqa: PLC0415  (comes with Jinja2)

    return Markup(text)  # noqa: S704  (the template escaped what it was given)


def _round_numbers(highest: int) -> list[int]:
    """Return up to six numbers from 0 up, by steps of 1, 2 or 5 and zeros."""
    step = 1
    while highest > 5 * step:
        step = step * 5 // 2 if str(step).startswith("2") else step * 2
    return list(range(0, highest + 1, step))
