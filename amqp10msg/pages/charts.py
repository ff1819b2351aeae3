"""Charts as SVG, which take their colours from the page around them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from amqp10msg.pages import printable, render

#: How many colours the page has, ``c0`` and so on; the last is for the rest.
COLORS = 7
# In units of the drawing, which is as wide as the page, whatever that is.
_WIDTH = 960
_LEFT = 64
_TOP, _HEIGHT = 10, 150
_ROW = 24
_LABEL = 260
_SMALLEST = 1.5
_MAX_LABEL = 38


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
    kind: str = ""
    title: str = ""


def columns(bars: Sequence[Bar], label: str) -> Any:
    """Draw upright bars over an axis, with lines at round numbers.

    Args:
        bars: the bars, from left to right.
        label: what the chart shows, for readers that do not see it.
    """
    highest = max((bar.count for bar in bars), default=0) or 1
    step = (_WIDTH - _LEFT) / max(len(bars), 1)
    bottom = _TOP + _HEIGHT
    lines, texts, rects = [], [], []
    for number in _round_numbers(highest):
        y = bottom - _HEIGHT * number / highest
        lines.append(y)
        texts.append(_Text(_LEFT - 8, y + 4, f"{number:,}", "end"))
    for index, bar in enumerate(bars):
        x = _LEFT + (index + 0.06) * step
        high = max(_SMALLEST, _HEIGHT * bar.count / highest) if bar.count else 0
        title = f"{bar.text}: {bar.count:,}"
        rects.append(_Rect(x, bottom - high, step * 0.88, high, title))
        if bar.tick:
            texts.append(_Text(x, bottom + 17, bar.tick))
    return _svg(label, bottom + 28, rects, texts, lines)


def horizontal_bars(bars: Sequence[tuple[str, int]], label: str, kind: str = "") -> Any:
    """Draw horizontal bars with a name before and a number behind each.

    Args:
        bars: names and counts, from top to bottom.
        label: what the chart shows, for readers that do not see it.
        kind: ``error`` for bars in the colour of errors.
    """
    highest = max((count for _, count in bars), default=0) or 1
    room = _WIDTH - _LABEL - 90
    rects, texts = [], []
    for index, (name, count) in enumerate(bars):
        y = index * _ROW
        wide = max(_SMALLEST, room * count / highest)
        rects.append(_Rect(_LABEL, y + 10, wide, 14, kind=kind))
        texts += [_name(name, y), _Text(_LABEL + wide + 8, y + 21, f"{count:,}")]
    return _svg(label, len(bars) * _ROW + 12, rects, texts)


def stacked_bars(
    rows: Sequence[tuple[str, Mapping[str, int]]], color_of: Callable[[str], int], label: str
) -> Any:
    """Draw a horizontal bar for each row, all equally wide, divided as what is in it.

    Args:
        rows: names and the counts of their parts, from top to bottom.
        color_of: chooses the colour of a part, 0 to `COLORS` - 1, by its name.
        label: what the chart shows, for readers that do not see it.
    """
    room = _WIDTH - _LABEL - 16
    rects, texts = [], []
    for index, (name, parts) in enumerate(rows):
        y = index * _ROW
        texts.append(_name(name, y))
        whole = sum(parts.values()) or 1
        # A part that is one in a million is what this is about: each is wide enough to be seen.
        widths = [max(4.0, room * count / whole) for count in parts.values()]
        scale = room / (sum(widths) or 1)
        x = float(_LABEL)
        for (part, count), width in zip(parts.items(), widths, strict=True):
            wide = width * scale
            title = f"{part}: {count:,}"
            rects.append(_Rect(x, y + 9, wide - 1, 16, title, f"c{color_of(part)}"))
            x += wide
    return _svg(label, len(rows) * _ROW + 12, rects, texts)


def proportions(parts: Sequence[tuple[str, int]]) -> Any:
    """Draw one thin bar, as wide as the page, divided by counts.

    Args:
        parts: kinds, such as ``error``, and counts; their order is that of the bar.
    """
    whole = sum(count for _, count in parts) or 1
    rects = []
    x = 0.0
    for kind, count in parts:
        rects.append(_Rect(x, 0, 100 * count / whole, 1, kind=kind))
        x += 100 * count / whole
    return _markup(render("chart.svg", box="0 0 100 1", label="", rects=rects))


def _name(text: str, y: int) -> _Text:
    shown = printable(text)
    if len(shown) > _MAX_LABEL:
        shown = f"{shown[: _MAX_LABEL - 1]}…"
    return _Text(_LABEL - 10, y + 21, shown, "end", "name", text)


def _svg(
    label: str,
    height: int,
    rects: list[_Rect],
    texts: list[_Text],
    lines: Sequence[float] = (),
) -> Any:
    grid = [(_LEFT, _WIDTH, y) for y in lines]
    box = f"-8 -4 {_WIDTH + 24} {height + 8}"
    return _markup(render("chart.svg", box=box, label=label, rects=rects, texts=texts, lines=grid))


def _markup(text: str) -> Any:
    from markupsafe import Markup  # noqa: PLC0415  (comes with Jinja2)

    return Markup(text)  # noqa: S704  (the template escaped what it was given)


def _round_numbers(highest: int) -> list[int]:
    """Return up to six numbers from 0 up, by steps of 1, 2 or 5 and zeros."""
    step = 1
    while highest > 5 * step:
        step = step * 5 // 2 if str(step).startswith("2") else step * 2
    return list(range(0, highest + 1, step))
