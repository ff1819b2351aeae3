"""The diagnostic tree as text: a line for every field, its bytes beside it."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator

from amqp10msg.message import Message
from amqp10msg.notation._rows import Problem, Row, problem_of, rows_of, tree_of
from amqp10msg.notation.tree import Tree

_PER_LINE = 8
_MAX_NODES = 100_000
_MAX_LINES = 4
_MAX_NAME = 40
_LEAST_ROOM = 30
_NAMELESS = "·"
# Of the sixteen colours that every terminal has, those that are readable on black and on white.
_COLORS = {
    "offset": "2",
    "type": "2",
    "section": "1;34",
    "name": "1",
    "text": "32",
    "number": "36",
    "constant": "35",
    "binary": "33",
    "time": "36",
    "shape": "2",
    "error": "1;31",
    "warning": "33",
}


def render_text(
    data: Tree | Message | bytes | bytearray | memoryview,
    *,
    color: bool = False,
    width: int | None = None,
) -> str:
    """Write what every byte means: offset, bytes, field, type and value, a line for each field.

    Nothing in a message reaches a terminal unescaped. Below a field is what is wrong with it,
    marked ``!`` for an error and ``?`` for a warning.

    Args:
        data: an encoded message or encoded values, a `Message`, or a tree of `parse_tree`. Unless
            it is a tree already, the violations that `validate` finds are shown too.
        color: colour it with escape sequences for a terminal.
        width: columns that a line may take, 70 or more; None for no bound.

    Raises:
        EncodeError: the `Message` cannot be encoded.
    """
    tree = tree_of(data, _MAX_NODES)
    rows = list(rows_of(tree))
    places = max(len(str(len(tree.data))), 2)
    names = min(
        max((2 * row.level + _width(row.name or _NAMELESS) for row in rows), default=0), _MAX_NAME
    )
    types = max((len(row.type) for row in rows), default=0)
    octets = max((min(row.stop - row.offset, _PER_LINE) for row in rows), default=1) * 3 - 1
    paint = _paint if color else _plain
    values: int | None = None
    if width is not None:
        room = max(width - places - octets - 8, _LEAST_ROOM)
        names = min(names, room * 2 // 5)
        types = min(types, room - names - 10)
        values = room - names - types
    lines = []
    for row in rows:
        hexes = _octets(tree.data, row, octets)
        group = "name" if row.level else "section"
        name = _fit("  " * row.level + (row.name or _NAMELESS), names)
        indent = len(name) - len(name.lstrip(" "))
        line = "  ".join(
            (
                paint("offset", f"{row.offset:>{places}}"),
                paint(row.group, next(hexes)),
                name[:indent] + paint(group, name[indent:]),
                paint("type", _fit(row.type, types)),
                paint(row.group, _clip(row.value, values)),
            )
        )
        lines.append(line.rstrip())
        lines.extend(" " * places + "  " + paint(row.group, more) for more in hexes)
        margin = places + octets + 4 + 2 * row.level
        if width is not None:
            margin = min(margin, width // 2)
        for problem in row.problems:
            lines += _problem(problem, margin, width, paint)
    for violation in tree.violations:
        lines += _problem(problem_of(violation), 0, width, paint)
    return "".join(f"{line}\n" for line in lines)


def _octets(data: bytes, row: Row, width: int) -> Iterator[str]:
    """Yield the bytes of a line in hex, eight at a time; of many only the first."""
    room = _PER_LINE * _MAX_LINES
    stop = row.stop if row.stop - row.offset <= room else row.offset + room - _PER_LINE
    yield f"{data[row.offset : min(row.offset + _PER_LINE, stop)].hex(' '):<{width}}"
    for at in range(row.offset + _PER_LINE, stop, _PER_LINE):
        yield data[at : min(at + _PER_LINE, stop)].hex(" ")
    if stop < row.stop:
        yield f"… {row.stop - stop:,} more"


def _problem(
    problem: Problem, margin: int, width: int | None, paint: Callable[[str, str], str]
) -> list[str]:
    mark = "! " if problem.severity == "error" else "? "
    text = f"{problem.text} ({problem.clause})" if problem.clause else problem.text
    room = 10**6 if width is None else max(width - margin - 2, 20)
    import textwrap  # noqa: PLC0415  (most messages have no problem)

    lines = textwrap.wrap(text, room) or [""]
    return [
        " " * margin + paint(problem.severity, ("  " if index else mark) + line)
        for index, line in enumerate(lines)
    ]


def _plain(_: str, text: str) -> str:
    return text


def _paint(group: str, text: str) -> str:
    return f"\x1b[{_COLORS[group]}m{text}\x1b[0m" if text.strip() else text


def _width(text: str) -> int:
    """Count the columns of a text: wide characters take two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(
        0
        if unicodedata.combining(char)
        else 2
        if unicodedata.east_asian_width(char) in ("W", "F")
        else 1
        for char in text
    )


def _clip(text: str, width: int | None) -> str:
    """Cut a text to this many columns."""
    if width is None or _width(text) <= width:
        return text
    while text and _width(text) > width - 1:
        text = text[: max(len(text) - max((_width(text) - width + 1) // 2, 1), 0)]
    return text + "…"


def _fit(text: str, width: int) -> str:
    """Cut or fill a text to exactly this many columns."""
    text = _clip(text, width)
    return text + " " * (width - _width(text))
