"""Renders diagnostic trees as a self-contained HTML page, and a message as an SVG picture.

Pointing at a byte in the page highlights its field.
"""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import Any

import attrs

from amqp10msg import pages
from amqp10msg.message import Message
from amqp10msg.notation._rows import Row, problem_of, rows_of, tree_of
from amqp10msg.notation.tree import Node, Tree
from amqp10msg.sections import KINDS
from amqp10msg.wire.errors import expect
from amqp10msg.wire.primitives import FORMAT_CODES
from amqp10msg.wire.text import printable

# Number of bytes per line, and maximum number of fields per message.
_BYTES_PER_LINE = 16
_MAX_ROWS_PER_MESSAGE = 5_000
# Number of bytes shown from the start and from the end of a long value, whose middle is omitted.
_START_BYTES, _END_BYTES = 512, 64
# CSS classes of the sections, of other values, and of problems by severity.
_CSS_CLASS_BY_SECTION = {kind.name: f"s{kind.order}" for kind in KINDS}
_OTHER_CSS_CLASS = "s7"
_CSS_CLASS_BY_SEVERITY = {"error": "bad", "warning": "questionable"}
# Markup of each byte in hex, and as a character.
_HEX_MARKUP = [f"<b>{octet:02x}</b>" for octet in range(256)]
_CHAR_MARKUP = [f"<b>{escape(chr(o)) if 0x20 <= o <= 0x7E else '·'}</b>" for o in range(256)]
# Markup of the gap in the middle of a line, and of a missing byte at its end.
_GAP_MARKUP = '<i class="gap"></i>'
_MISSING_BYTE_MARKUP = '<b class="none">  </b>'


def render_html(
    data: Any,
    *,
    title: str = "AMQP message",
    labels: Sequence[str] = (),
    max_messages: int = 100,
    max_octets: int = 16_384,
) -> str:
    """Return an HTML page that shows the bytes of messages next to the fields that they encode.

    Pointing at a byte highlights its field, and the reverse. A click or the arrow keys pin a byte,
    and put it into the URL: ``page.html#byte-12``, or ``page.html#message-2-byte-12`` if there are
    several messages. The page is a single file, and its content security policy forbids it to load
    other files. The content of messages is escaped, so that it cannot inject code. Requires
    ``amqp10msg[pages]``.

    Args:
        data: one message or several: bytes, `Message` objects or trees of `parse_tree`. Messages
            that are not trees are validated, and their violations are shown.
        title: the title of the page.
        labels: names of the first messages, in order; further messages are numbered.
        max_messages: the maximum number of messages; the page states how many were omitted.
        max_octets: the maximum number of bytes per message; the page states how many were omitted.

    Raises:
        EncodeError: a `Message` cannot be encoded.
        ImportError: Jinja2 is not installed.
    """
    expect(max_messages, int, "max_messages of render_html", "an int")
    expect(max_octets, int, "max_octets of render_html", "an int")
    if isinstance(data, (Tree, Message, bytes, bytearray, memoryview)):
        data = [data]
        labels = labels or ["Message"]
    expect(data, Iterable, "render_html", "a Message, the bytes of one, a Tree or several of them")
    messages = iter(data)
    page_messages = annotated(
        itertools.islice(messages, max_messages), labels, max_octets=max_octets
    )
    omitted = sum(1 for _ in messages)
    is_single = len(page_messages) == 1 and not omitted
    return pages.render(
        "messages.html",
        title=title,
        messages=page_messages,
        more=omitted,
        alone=is_single,
        script=bool(page_messages),
    )


def annotated(data: Any, labels: Sequence[str] = (), *, max_octets: int = 16_384) -> list[Any]:
    """Return the values that the template ``messages.html`` needs for each message.

    Args:
        data: bytes, `Message` objects or trees of `parse_tree`.
        labels: names of the first messages, in order; further messages are numbered.
        max_octets: the maximum number of bytes to show per message.
    """
    numbered = (f"Message {number}" for number in itertools.count(len(labels) + 1))
    names = itertools.chain(labels, numbered)
    return [
        _message_values(tree_of(message, _MAX_ROWS_PER_MESSAGE), name, number, max_octets)
        for number, (message, name) in enumerate(zip(data, names, strict=False), 1)
    ]


def _message_values(tree: Tree, name: str, number: int, max_octets: int) -> dict[str, Any]:
    """Return the template's values for a message."""
    rows = list(itertools.islice(rows_of(tree, length=240), _MAX_ROWS_PER_MESSAGE))
    sections = _section_classes(rows)
    problems = [(row.offset, problem) for row in rows for problem in row.problems]
    problems += [(violation.offset, problem_of(violation)) for violation in tree.violations]
    problems.sort(key=lambda problem: problem[0])
    severities = [problem.severity for _, problem in problems]
    return {
        "number": number,
        "name": name,
        "size": len(tree.data),
        "sections": sum(node.name in _CSS_CLASS_BY_SECTION for node in tree.nodes),
        "severities": [
            (name, severities.count(name)) for name in _CSS_CLASS_BY_SEVERITY if name in severities
        ],
        "problems": problems,
        "lines": list(_byte_lines(tree.data, rows, sections, max_octets)),
        "rows": list(map(_row_values, rows, sections)),
        "left_out": len(tree.data) - rows[-1].line_end if len(rows) == _MAX_ROWS_PER_MESSAGE else 0,
    }


def _section_classes(rows: list[Row]) -> list[str]:
    """Return the CSS class of each row's section, which determines its colour."""
    classes = []
    current = _OTHER_CSS_CLASS
    for row in rows:
        if row.level == 0:
            current = _CSS_CLASS_BY_SECTION.get(row.name, _OTHER_CSS_CLASS)
        classes.append(current)
    return classes


def _row_values(row: Row, section: str) -> dict[str, Any]:
    """Return the template's values for a row; `section` is the CSS class of its section."""
    values = attrs.asdict(row, recurse=False)
    indent = pages.markup("&nbsp;" * (2 * min(row.level, 40)))
    parts = "|".join(f"{offset} {label}" for offset, label in _parts(row))
    return {**values, "section": section, "indent": indent, "parts": parts, "group": _group(row)}


def _group(row: Row) -> str:
    """Return the CSS class of the row's group."""
    return "wrong" if row.group == "error" else row.group


def _parts(row: Row) -> Iterator[tuple[int, str]]:
    """Yield (offset in the row, label) for each part of the row's bytes, such as a constructor."""
    node: Node = row.node
    while node.type == "described" and node.content < row.line_end:
        yield node.offset - row.offset, "described"
        if len(node.children) != 2 or node.children[0].end > row.line_end:
            return
        yield node.content - row.offset, "descriptor"
        node = node.children[1]
    offset = node.offset - row.offset
    if node.type in ("error", "elided", "described"):
        yield offset, "" if node.type == "elided" else "not understood"
        return
    if node.code == 0:
        yield offset, "constructor 0x00 described"
        return
    code = FORMAT_CODES.get(node.code) if node.code is not None else None
    if code is not None:
        yield offset, f"constructor 0x{code.code:02X} {code.encoding or code.type}"
        offset += 1
    if code is None or node.type == "constructor":
        return
    if code.category != "fixed":
        yield offset, f"size, {8 * code.width} bits"
        offset += code.width
    if code.category in ("compound", "array"):
        yield offset, f"count, {8 * code.width} bits"
    elif node.end - row.offset > offset:
        yield offset, "content"


def _byte_lines(
    data: bytes, rows: list[Row], sections: list[str], max_octets: int
) -> Iterator[dict[str, Any]]:
    """Yield the template's values for each line of bytes.

    The middle of long values, and the bytes after `max_octets` shown bytes, are omitted.
    """
    runs = [
        (row.offset, row.line_end, _css_classes(row, section))
        for row, section in zip(rows, sections, strict=True)
        if row.line_end > row.offset
    ]
    index = bytes_shown = bytes_hidden = 0
    for start in range(0, len(data), _BYTES_PER_LINE):
        stop = min(start + _BYTES_PER_LINE, len(data))
        while index < len(runs) and runs[index][1] <= start:
            index += 1
        if bytes_shown >= max_octets:
            yield {"left_out": len(data) - start + bytes_hidden, "word": "more"}
            return
        if index < len(runs):
            begin, end, _ = runs[index]
            if start >= begin + _START_BYTES and stop <= end - _END_BYTES:
                bytes_hidden += stop - start
                continue
        if bytes_hidden:
            yield {"left_out": bytes_hidden, "word": "…"}
            bytes_hidden = 0
        bytes_shown += stop - start
        pieces = []
        position = start
        for begin, end, kind in itertools.islice(runs, index, None):
            if begin >= stop:
                break
            pieces.append(_piece(data, start, position, min(end, stop), kind))
            position = min(end, stop)
        if position < stop:
            pieces.append(_piece(data, start, position, stop, _OTHER_CSS_CLASS))
        missing = start + _BYTES_PER_LINE - stop
        fill = _MISSING_BYTE_MARKUP * missing + (
            _GAP_MARKUP if missing >= _BYTES_PER_LINE // 2 else ""
        )
        yield {"left_out": 0, "start": start, "pieces": pieces, "fill": pages.markup(fill)}


def _piece(data: bytes, start: int, begin: int, end: int, kind: str) -> dict[str, Any]:
    """Return the template's values for the bytes that one row has in one line.

    Args:
        data: the bytes of the message.
        start: the offset of the line.
        begin: the offset of the first byte to show.
        end: the offset after the last byte to show.
        kind: the CSS classes.
    """
    hexes = [_HEX_MARKUP[octet] for octet in data[begin:end]]
    if begin <= start + _BYTES_PER_LINE // 2 < end:
        hexes.insert(start + _BYTES_PER_LINE // 2 - begin, _GAP_MARKUP)
    chars = [_CHAR_MARKUP[octet] for octet in data[begin:end]]
    return {
        "kind": kind,
        "hexes": pages.markup("".join(hexes)),
        "chars": pages.markup("".join(chars)),
    }


def _css_classes(row: Row, section: str) -> str:
    """Return the CSS classes of a row's bytes; `section` is the class of its section."""
    worst = min((problem.severity for problem in row.problems), default="")
    return " ".join(filter(None, (section, _group(row), _CSS_CLASS_BY_SEVERITY.get(worst, ""))))


# The SVG picture of one message.

# Maximum number of bytes per line, of characters of a value, and of lines.
_MAX_PICTURE_OCTETS, _MAX_PICTURE_VALUE, _MAX_PICTURE_LINES = 6, 46, 200
# The width of a character and the height of a line, in pixels.
_CHAR_WIDTH, _LINE_HEIGHT = 7.6, 21
# The minimum width of a picture, so that the text of a problem has few lines; the position of the
# first column after the offsets; and the gap between columns. In characters.
_MIN_PICTURE_WIDTH, _FIRST_COLUMN, _COLUMN_GAP = 76, 6, 2


def render_svg(data: Any, *, title: str = "AMQP message") -> str:
    """Return an SVG picture that shows the bytes of a message next to the fields that they encode.

    The picture is a single file with a light and a dark theme, 76 to 119 characters wide. Long
    values and long messages are cut. Requires ``amqp10msg[pages]``.

    Args:
        data: bytes, a `Message` or a tree of `parse_tree`.
        title: a description of the picture, for screen readers.

    Raises:
        EncodeError: the `Message` cannot be encoded.
        ImportError: Jinja2 is not installed.
    """
    tree = tree_of(data, _MAX_PICTURE_LINES)
    (message,) = annotated([tree], [title])
    rows = message["rows"][:_MAX_PICTURE_LINES]
    cells = [_picture_cells(row, tree.data) for row in rows]
    x, width = _picture_columns(cells)
    lines: list[dict[str, Any]] = []
    for row, texts in zip(rows, cells, strict=True):
        level = min(row["level"], 5)
        lines.append(
            {
                **texts,
                "name": texts["name"].strip(),
                "at": str(row["offset"]),
                "indent": 2 * _CHAR_WIDTH * level,
                "section": row["section"],
                "group": row["group"],
                "top": row["level"] == 0,
                "problem": "",
            }
        )
        lines += [
            {"problem": line, "group": problem.severity}
            for problem in row["problems"]
            for line in textwrap.wrap(printable(problem.text), width - x["name"] - _COLUMN_GAP)
        ]
    return pages.render(
        "message.svg",
        title=title,
        lines=lines[:_MAX_PICTURE_LINES],
        height=_LINE_HEIGHT,
        width=round(_CHAR_WIDTH * width),
        x={name: round(_CHAR_WIDTH * column, 1) for name, column in x.items()},
    )


def _picture_cells(row: dict[str, Any], data: bytes) -> dict[str, str]:
    """Return the texts of one line of a picture by column; the name is indented."""
    octets = data[row["offset"] : row["line_end"]]
    cut = "…" if len(octets) > _MAX_PICTURE_OCTETS else ""
    indent = 2 * min(row["level"], 5)
    return {
        "hex": octets[:_MAX_PICTURE_OCTETS].hex(" ") + cut,
        "name": " " * indent + _shortened(row["name"] or "·", 24 - indent),
        "type": _shortened(row["type"], 17),
        "value": _shortened(row["value"], _MAX_PICTURE_VALUE),
    }


def _picture_columns(cells: list[dict[str, str]]) -> tuple[dict[str, int], int]:
    """Return the position of each column and the width of the picture, in characters."""
    x = {"at": _FIRST_COLUMN - _COLUMN_GAP}
    position = _FIRST_COLUMN
    for name in ("hex", "name", "type", "value"):
        x[name] = position
        position += max((len(texts[name]) for texts in cells), default=0) + _COLUMN_GAP
    return x, max(position, _MIN_PICTURE_WIDTH)


def _shortened(text: str, limit: int) -> str:
    """Return `text` with escapes for unprintable characters, cut to `limit` characters."""
    escaped = printable(text)
    return escaped if len(escaped) <= limit else f"{escaped[: limit - 1]}…"
