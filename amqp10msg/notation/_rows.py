"""The lines of a diagnostic tree, shared by the text and HTML renderers."""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterator
from typing import Any

import attrs

from amqp10msg.message import Message
from amqp10msg.notation.tree import Node, Tree, parse_tree
from amqp10msg.validation import Violation, validate
from amqp10msg.wire.errors import as_bytes
from amqp10msg.wire.primitives import (
    Char,
    Decimal32,
    Decimal64,
    Decimal128,
    Float,
    Symbol,
    Timestamp,
)
from amqp10msg.wire.text import plural, printable


@attrs.frozen
class Problem:
    """A violation or error to show with a line.

    Attributes:
        severity: ``error`` or ``warning``.
        text: the description, as one printable line.
        clause: the violated clause of the specification; may be empty.
    """

    severity: str
    text: str
    clause: str = ""


@attrs.frozen
class Row:
    """One line: a primitive value, or the start of a compound value (constructor, size and count).

    The line of a described value whose descriptor is a ulong or symbol includes the descriptor and
    the start of the described value.

    Attributes:
        level: the nesting depth, 0 for a section.
        offset: the offset of the value, in bytes.
        line_end: the offset after the bytes shown in this line.
        end: the offset after the whole value.
        name: the name of the field; safe to print.
        type: the AMQP type and encoding; safe to print.
        value: the value as text; safe to print.
        group: the category that determines the colour: ``text``, ``number``, ``constant``,
            ``binary``, ``time``, ``shape`` or ``error``.
        problems: the violations and errors in the line.
        node: the outermost node of the line.
    """

    level: int
    offset: int
    line_end: int
    end: int
    name: str
    type: str
    value: str
    group: str
    problems: tuple[Problem, ...]
    node: Node


# The `Row.group` of each AMQP type.
_GROUP_BY_TYPE = {
    **dict.fromkeys(("string", "symbol", "char", "uuid"), "text"),
    **dict.fromkeys(("ubyte", "ushort", "uint", "ulong", "byte", "short", "int"), "number"),
    **dict.fromkeys(("long", "float", "double"), "number"),
    **dict.fromkeys(("decimal32", "decimal64", "decimal128"), "number"),
    **dict.fromkeys(("null", "boolean"), "constant"),
    "binary": "binary",
    "timestamp": "time",
    "error": "error",
}


#: The supported types of input, for error texts.
_INPUT_TYPES_TEXT = "a Message, the bytes of one or a Tree"


def problem_of(violation: Violation) -> Problem:
    """Return a violation as a `Problem`."""
    return Problem(violation.severity, _line(violation.text), violation.clause)


def tree_of(data: Tree | Message | bytes | bytearray | memoryview, limit: int) -> Tree:
    """Return `data` if it is a tree; else parse and validate it.

    `limit` is the approximate maximum number of nodes.
    """
    if isinstance(data, Tree):
        return data
    octets = (
        data.encode()
        if isinstance(data, Message)
        else as_bytes(data, "rendering", _INPUT_TYPES_TEXT)
    )
    return parse_tree(octets, violations=validate(octets), limit=limit)


def rows_of(tree: Tree, *, length: int = 200) -> Iterator[Row]:
    """Yield the lines of a tree from top to bottom.

    Args:
        tree: the tree.
        length: the maximum number of characters of a text, or bytes of a binary, to show.
    """
    stack = [(0, node) for node in reversed(tree.nodes)]
    while stack:
        level, node = stack.pop()
        merged = [node]
        inner = node
        # Show a descriptor and the start of its value, such as 00 53 70 C0 …, as one line.
        while inner.type == "described" and len(inner.children) == 2:
            descriptor, value = inner.children
            if descriptor.type not in ("ulong", "symbol") or descriptor.error:
                break
            merged += [descriptor, value]
            inner = value
        yield _make_row(level, node, inner, merged, length)
        stack.extend((level + 1, child) for child in reversed(inner.children))


def _make_row(level: int, node: Node, inner: Node, merged: list[Node], length: int) -> Row:
    """Return the line of a node.

    Args:
        level: the nesting depth.
        node: the node.
        inner: `node`, or the described value inside it, if the line includes its start.
        merged: the nodes from `node` to `inner` that the line includes.
        length: see `rows_of`.
    """
    kind = inner.type
    if inner.encoding:
        # Some encodings, such as list8, contain the type name; str8-utf8 and smallint do not.
        kind = inner.encoding if inner.encoding.startswith(kind) else f"{kind} {inner.encoding}"
    descriptors = [child.value for child in merged[1::2]]
    symbol = node.value if node.type == "described" and node.value else None
    if descriptors and not (symbol and level == 0):
        kind = f"{' '.join(map(_descriptor_text, descriptors))} {kind}"
        if symbol:
            kind = f"{quoted(str(symbol), 60)[1:-1]} {inner.type}"
    problems = [problem_of(violation) for part in merged for violation in part.violations]
    malformed = any(problem.clause.startswith("Part 1") for problem in problems)
    if not malformed:
        problems += [Problem("error", _line(part.error)) for part in merged if part.error]
    return Row(
        level,
        node.offset,
        inner.content,
        node.end,
        quoted(node.name, 80)[1:-1],
        _line(kind),
        node_value_text(inner, length),
        _GROUP_BY_TYPE.get(inner.type, "shape"),
        tuple(problems),
        node,
    )


def _descriptor_text(value: object) -> str:
    """Return a symbolic descriptor as text, or a numeric descriptor in hex."""
    return quoted(str(value), 60)[1:-1] if isinstance(value, Symbol) else f"0x{value:X}"


def _line(text: str) -> str:
    """Return `text` as one printable line."""
    return text if text.isprintable() else quoted(text, 1000)[1:-1]


def node_value_text(node: Node, length: int) -> str:
    """Return the value of a node as one printable line."""
    value = node.value
    if node.type == "error":
        return "" if node.length == 0 else plural(node.length, "byte")
    if node.type == "elided":
        count = plural(value, "more value") if value else "more values"
        return f"… {count} in {plural(node.length, 'byte')}"
    if node.type == "constructor":
        return f"of every element: {value}"
    if node.type == "map":
        return plural((value or 0) // 2, "entry", "entries")
    if node.type == "list":
        return plural(value if isinstance(value, int) else 0, "value")
    if node.type == "array":
        return plural(value or 0, "element")
    if node.type in ("null", "described"):
        return ""
    return scalar(value, length)


def scalar(value: Any, length: int, *, size: int | None = None) -> str:
    """Return a primitive value as one printable line; an empty string for other values.

    Args:
        value: the value.
        length: the maximum number of characters of a text, or bytes of a binary, to show.
        size: the size of the whole binary in bytes, if `value` is only its start.
    """
    if isinstance(value, bytes):
        return _binary(value, length, len(value) if size is None else size)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Char):
        return f"{quoted(value, 4)} U+{ord(value):04X}"
    if isinstance(value, str):
        return quoted(value, length)
    if isinstance(value, Timestamp):
        try:
            text = value.to_datetime().isoformat(" ", "milliseconds").replace("+00:00", " UTC")
        except ValueError:
            return f"{int(value)} ms"
        return f"{text} ({int(value)})"
    if isinstance(value, float):
        number = float.__repr__(value)
        bits = f" (0x{value.bits:08x})" if isinstance(value, Float) and math.isnan(value) else ""
        return number + bits
    if isinstance(value, (Decimal32, Decimal64, Decimal128, uuid.UUID, int)):
        return str(value)
    return ""


def _binary(value: bytes, length: int, size: int) -> str:
    """Return the size of a binary and its content, as text if it is UTF-8, else in hex."""
    size_text = plural(size, "byte")
    if not value:
        return size_text
    try:
        text = value[: 4 * length].decode("utf-8")
    except UnicodeDecodeError as error:
        # An error at the very end is not an error of the text: the cut may have split a character.
        if size <= 4 * length or error.start < 4 * length - 3:
            ellipsis = " …" if size > length // 2 else ""
            return f"{size_text}: {value[: length // 2].hex(' ')}{ellipsis}"
        text = value[: error.start].decode("utf-8")
    return f"{size_text}: {quoted(text, length, is_cut=len(text.encode()) < size)}"


_ESCAPE_PATTERN = {"\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "\\": "\\\\"}


def quoted(text: str, length: int, *, is_cut: bool = False) -> str:
    """Return `text` in double quotes, safe to print.

    Unprintable characters are escaped: control characters, line breaks, marks that change the
    direction of text, and lone surrogates.

    Args:
        text: the text.
        length: the maximum number of characters to show.
        is_cut: whether `text` is only the start of a longer text, so that an ellipsis is added.
    """
    chars = [_ESCAPE_PATTERN.get(char) or printable(char) for char in text[:length]]
    return f'"{"".join(chars)}{"…" if is_cut or len(text) > length else ""}"'
