"""Renders the diagnostic tree as text, with a line for each field and its bytes."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator

from amqp10msg.message import Message
from amqp10msg.notation._rows import Problem, Row, problem_of, rows_of, tree_of
from amqp10msg.notation.tree import Tree

# Number of bytes per line.
_BYTES_PER_LINE = 8
# Maximum number of lines of bytes per field.
_MAX_HEX_LINES_PER_FIELD = 4
# Maximum width of a name, in columns.
_MAX_NAME_WIDTH = 40
# Minimum width of name, type and value together, in columns.
_MIN_TEXT_WIDTH = 30
# Approximate maximum number of nodes of the tree.
_MAX_NODES = 100_000
# Shown instead of a missing name.
_MISSING_NAME = "·"
# Terminal colours that are readable on black and on white.
_COLOR_BY_GROUP = {
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
    """Return text that explains every byte. Each line has offset, bytes, field, type and value.

    Control characters in the message are escaped. The lines below a field describe its violations,
    marked ``!`` for an error and ``?`` for a warning.

    Args:
        data: an encoded message or encoded values, a `Message`, or a tree of `parse_tree`. Data
            that is not a tree is validated, and its violations are shown.
        color: whether to colour the text with terminal escape sequences.
        width: the maximum width of a line in columns, at least 70; None for no limit.

    Raises:
        EncodeError: the `Message` cannot be encoded.
    """
    tree = tree_of(data, _MAX_NODES)
    rows = list(rows_of(tree))
    offset_width = max(len(str(len(tree.data))), 2)
    name_width = min(
        max((2 * row.level + _text_width(row.name or _MISSING_NAME) for row in rows), default=0),
        _MAX_NAME_WIDTH,
    )
    type_width = max((len(row.type) for row in rows), default=0)
    byte_count = max((min(row.line_end - row.offset, _BYTES_PER_LINE) for row in rows), default=1)
    hex_width = byte_count * 3 - 1
    paint = _colored if color else _no_color
    value_width: int | None = None
    if width is not None:
        room = max(width - offset_width - hex_width - 8, _MIN_TEXT_WIDTH)
        name_width = min(name_width, room * 2 // 5)
        type_width = min(type_width, room - name_width - 10)
        value_width = room - name_width - type_width
    lines = []
    for row in rows:
        hexes = _hex_lines(tree.data, row, hex_width)
        group = "name" if row.level else "section"
        name = _fit("  " * row.level + (row.name or _MISSING_NAME), name_width)
        indent = len(name) - len(name.lstrip(" "))
        line = "  ".join(
            (
                paint("offset", f"{row.offset:>{offset_width}}"),
                paint(row.group, next(hexes)),
                name[:indent] + paint(group, name[indent:]),
                paint("type", _fit(row.type, type_width)),
                paint(row.group, _cut(row.value, value_width)),
            )
        )
        lines.append(line.rstrip())
        lines.extend(
            " " * offset_width + "  " + paint(row.group, line_of_hex) for line_of_hex in hexes
        )
        margin = offset_width + hex_width + 4 + 2 * row.level
        if width is not None:
            margin = min(margin, width // 2)
        for problem in row.problems:
            lines += _problem_lines(problem, margin, width, paint)
    for violation in tree.violations:
        lines += _problem_lines(problem_of(violation), 0, width, paint)
    return "".join(f"{line}\n" for line in lines)


def _hex_lines(data: bytes, row: Row, width: int) -> Iterator[str]:
    """Yield the lines of a row's bytes in hex; the first line is padded to `width` columns.

    A long row is cut to `_MAX_HEX_LINES_PER_FIELD` lines.
    """
    room = _BYTES_PER_LINE * _MAX_HEX_LINES_PER_FIELD
    stop = row.line_end
    if stop - row.offset > room:
        stop = row.offset + room - _BYTES_PER_LINE
    yield f"{data[row.offset : min(row.offset + _BYTES_PER_LINE, stop)].hex(' '):<{width}}"
    for start in range(row.offset + _BYTES_PER_LINE, stop, _BYTES_PER_LINE):
        yield data[start : min(start + _BYTES_PER_LINE, stop)].hex(" ")
    if stop < row.line_end:
        yield f"… {row.line_end - stop:,} more"


def _problem_lines(
    problem: Problem, margin: int, width: int | None, paint: Callable[[str, str], str]
) -> list[str]:
    """Return the lines that describe a problem, wrapped at `width` and indented by `margin`."""
    mark = "! " if problem.severity == "error" else "? "
    text = f"{problem.text} ({problem.clause})" if problem.clause else problem.text
    room = 10**6 if width is None else max(width - margin - 2, 20)
    import textwrap  # noqa: PLC0415  (rarely needed)

    lines = textwrap.wrap(text, room) or [""]
    return [
        " " * margin + paint(problem.severity, ("  " if index else mark) + line)
        for index, line in enumerate(lines)
    ]


def _no_color(_: str, text: str) -> str:
    return text


def _colored(group: str, text: str) -> str:
    """Return `text` with the terminal colour of a group."""
    return f"\x1b[{_COLOR_BY_GROUP[group]}m{text}\x1b[0m" if text.strip() else text


def _text_width(text: str) -> int:
    """Return the width of a text in columns: 2 for a wide character, 0 for a combining one."""
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


def _cut(text: str, width: int | None) -> str:
    """Return `text`, cut to `width` columns if it is longer."""
    if width is None or _text_width(text) <= width:
        return text
    while text and _text_width(text) > width - 1:
        text = text[: max(len(text) - max((_text_width(text) - width + 1) // 2, 1), 0)]
    return text + "…"


def _fit(text: str, width: int) -> str:
    """Return `text`, cut or padded to exactly `width` columns."""
    text = _cut(text, width)
    return text + " " * (width - _text_width(text))
