"""Plots as SVG, which take their colours from the page around them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape

import attrs

__all__ = ["COLORS", "Bar", "columns", "lying", "printable", "stacked"]

#: How many colours the page has, ``--c0`` and so on; the last is for the rest.
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


def columns(bars: Sequence[Bar], label: str) -> str:
    """Draw upright bars over an axis, with lines at round numbers."""
    highest = max((bar.count for bar in bars), default=0) or 1
    lines = _round_numbers(highest)
    step = (_WIDTH - _LEFT) / len(bars)

    def y(count: float) -> float:
        return _TOP + _HEIGHT - _HEIGHT * count / highest

    grid = "".join(
        f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH}" y1="{y(line):.1f}" y2="{y(line):.1f}"/>'
        f'<text x="{_LEFT - 8}" y="{y(line) + 4:.1f}" text-anchor="end">{line:,}</text>'
        for line in lines
    )
    drawn = ""
    for index, bar in enumerate(bars):
        x = _LEFT + index * step
        high = max(_SMALLEST, _HEIGHT * bar.count / highest) if bar.count else 0
        drawn += (
            f'<rect x="{x + step * 0.06:.2f}" width="{step * 0.88:.2f}" '
            f'y="{_TOP + _HEIGHT - high:.2f}" height="{high:.2f}">'
            f"<title>{escape(printable(bar.text))}: {bar.count:,}</title></rect>"
        )
        if bar.tick:
            drawn += (
                f'<text x="{x + step * 0.06:.1f}" y="{_TOP + _HEIGHT + 17}">'
                f"{escape(printable(bar.tick))}</text>"
            )
    return _svg(grid + drawn, _TOP + _HEIGHT + 28, label)


def lying(bars: Sequence[tuple[str, int]], label: str, kind: str = "") -> str:
    """Draw lying bars with a name before and a number behind each."""
    highest = max((count for _, count in bars), default=0) or 1
    room = _WIDTH - _LABEL - 90

    def row(index: int, name: str, count: int) -> str:
        wide = max(_SMALLEST, room * count / highest)
        y = index * _ROW
        return (
            _name(name, y)
            + f'<rect class="{kind}" x="{_LABEL}" y="{y + 10}" height="14" width="{wide:.2f}"/>'
            + f'<text x="{_LABEL + wide + 8:.2f}" y="{y + 21}">{count:,}</text>'
        )

    drawn = "".join(row(index, name, count) for index, (name, count) in enumerate(bars))
    return _svg(drawn, len(bars) * _ROW + 12, label)


def stacked(
    rows: Sequence[tuple[str, Mapping[str, int]]], color_of: Callable[[str], int], label: str
) -> str:
    """Draw a lying bar for each row, divided as what is in it, all of them equally wide."""
    room = _WIDTH - _LABEL - 16
    drawn = ""
    for index, (name, parts) in enumerate(rows):
        y = index * _ROW
        drawn += _name(name, y)
        whole = sum(parts.values()) or 1
        # A part that is one in a million is what this is about: each is wide enough to be seen.
        widths = {part: max(4.0, room * count / whole) for part, count in parts.items()}
        scale = room / sum(widths.values())
        x = float(_LABEL)
        for part, count in parts.items():
            wide = widths[part] * scale
            drawn += (
                f'<rect class="c{color_of(part)}" x="{x:.2f}" y="{y + 9}" height="16" '
                f'width="{wide - 1:.2f}"><title>{escape(printable(part))}: {count:,}</title></rect>'
            )
            x += wide
    return _svg(drawn, len(rows) * _ROW + 12, label)


def _name(text: str, y: int) -> str:
    shown = printable(text)
    if len(shown) > _MAX_LABEL:
        shown = f"{shown[: _MAX_LABEL - 1]}…"
    return (
        f'<text class="name" x="{_LABEL - 10}" y="{y + 21}" text-anchor="end">{escape(shown)}'
        f"<title>{escape(printable(text))}</title></text>"
    )


def _svg(drawn: str, height: int, label: str) -> str:
    return (
        f'<svg viewBox="-8 -4 {_WIDTH + 24} {height + 8}" role="img" '
        f'aria-label="{escape(label)}">{drawn}</svg>\n'
    )


def _round_numbers(highest: int) -> list[int]:
    """Choose up to six numbers from 0 up, by steps of 1, 2 or 5 and zeros."""
    step = 1
    while highest > 5 * step:
        step = step * 5 // 2 if str(step).startswith("2") else step * 2
    return list(range(0, highest + 1, step))


def printable(text: str) -> str:
    """Escape what a page cannot hold or show."""
    return "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in text)
