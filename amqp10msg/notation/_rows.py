"""The lines of a diagnostic tree, which its renderings as text and as HTML have in common."""

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
    """Something that is wrong in a line.

    Attributes:
        severity: ``error`` or ``warning``.
        text: what is wrong; one line.
        clause: the clause of the specification; may be empty.
    """

    severity: str
    text: str
    clause: str = ""


@attrs.frozen
class Row:
    """One line: a value that is simple, or the head of one that is not.

    A described value with a simple descriptor shares its line with what it describes.

    Attributes:
        level: its depth, 0 for a section.
        offset: where its bytes begin.
        stop: where the bytes end that are shown in this line.
        end: where the whole value ends.
        name: the field's name; safe to print.
        type: its AMQP type and encoding; safe to print.
        value: the value as text; safe to print.
        group: what kind of thing it is, for its colour: ``text``, ``number``, ``constant``,
            ``binary``, ``time``, ``shape`` or ``error``.
        problems: what is wrong in it.
        node: the outermost node of the line.
    """

    level: int
    offset: int
    stop: int
    end: int
    name: str
    type: str
    value: str
    group: str
    problems: tuple[Problem, ...]
    node: Node


_GROUPS = {
    **dict.fromkeys(("string", "symbol", "char", "uuid"), "text"),
    **dict.fromkeys(("ubyte", "ushort", "uint", "ulong", "byte", "short", "int"), "number"),
    **dict.fromkeys(("long", "float", "double"), "number"),
    **dict.fromkeys(("decimal32", "decimal64", "decimal128"), "number"),
    **dict.fromkeys(("null", "boolean"), "constant"),
    "binary": "binary",
    "timestamp": "time",
    "error": "error",
}


_INPUTS = "a Message, the bytes of one or a Tree"


def problem_of(violation: Violation) -> Problem:
    """Return a violation as a problem of a line or of all."""
    return Problem(violation.severity, _line(violation.text), violation.clause)


def tree_of(data: Tree | Message | bytes | bytearray | memoryview, limit: int) -> Tree:
    """Return a tree as it is; parse bytes or a message, with the violations in it."""
    if isinstance(data, Tree):
        return data
    octets = data.encode() if isinstance(data, Message) else as_bytes(data, "rendering", _INPUTS)
    return parse_tree(octets, violations=validate(octets), limit=limit)


def rows_of(tree: Tree, *, length: int = 200) -> Iterator[Row]:
    """Yield the lines of a tree from top to bottom.

    Args:
        tree: the tree.
        length: characters of text or bytes of binary that a value may show.
    """
    stack = [(0, node) for node in reversed(tree.nodes)]
    while stack:
        level, node = stack.pop()
        merged = [node]
        inner = node
        # The bytes 00 53 70 C0 … are one thing to a reader: a header.
        while inner.type == "described" and len(inner.children) == 2:
            descriptor, value = inner.children
            if descriptor.type not in ("ulong", "symbol") or descriptor.error:
                break
            merged += [descriptor, value]
            inner = value
        yield _row(level, node, inner, merged, length)
        stack.extend((level + 1, child) for child in reversed(inner.children))


def _row(level: int, node: Node, inner: Node, merged: list[Node], length: int) -> Row:
    kind = inner.type
    if inner.encoding:
        # list8 names its type; str8-utf8 and smallint do not.
        kind = inner.encoding if inner.encoding.startswith(kind) else f"{kind} {inner.encoding}"
    descriptors = [child.value for child in merged[1::2]]
    known = node.value if node.type == "described" and node.value else None
    if descriptors and not (known and level == 0):
        kind = f"{' '.join(map(_descriptor, descriptors))} {kind}"
        if known:
            kind = f"{quoted(str(known), 60)[1:-1]} {inner.type}"
    problems = [problem_of(violation) for one in merged for violation in one.violations]
    malformed = any(problem.clause.startswith("Part 1") for problem in problems)
    if not malformed:
        problems += [Problem("error", _line(one.error)) for one in merged if one.error]
    return Row(
        level,
        node.offset,
        inner.content,
        node.end,
        quoted(node.name, 80)[1:-1],
        _line(kind),
        shown_value(inner, length),
        _GROUPS.get(inner.type, "shape"),
        tuple(problems),
        node,
    )


def _descriptor(value: object) -> str:
    return quoted(str(value), 60)[1:-1] if isinstance(value, Symbol) else f"0x{value:X}"


def _line(text: str) -> str:
    """Make sure that a text is one printable line."""
    return text if text.isprintable() else quoted(text, 1000)[1:-1]


def shown_value(node: Node, length: int) -> str:
    """Write a value as one printable line."""
    value = node.value
    if node.type == "error":
        return "" if node.length == 0 else plural(node.length, "byte")
    if node.type == "elided":
        more = plural(value, "more value") if value else "more values"
        return f"… {more} in {plural(node.length, 'byte')}"
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
    """Write a value that holds no others as one printable line; nothing for one that does.

    Args:
        value: the value.
        length: characters of text or bytes of binary that are shown at most.
        size: bytes of a binary value of which this is the beginning.
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
            moment = value.to_datetime().isoformat(" ", "milliseconds").replace("+00:00", " UTC")
        except ValueError:
            return f"{int(value)} ms"
        return f"{moment} ({int(value)})"
    if isinstance(value, float):
        number = float.__repr__(value)
        bits = f" (0x{value.bits:08x})" if isinstance(value, Float) and math.isnan(value) else ""
        return number + bits
    if isinstance(value, (Decimal32, Decimal64, Decimal128, uuid.UUID, int)):
        return str(value)
    return ""


def _binary(value: bytes, length: int, size: int) -> str:
    counted = plural(size, "byte")
    if not value:
        return counted
    try:
        text = value[: 4 * length].decode("utf-8")
    except UnicodeDecodeError as error:
        # The cut may be in the middle of a character.
        if size <= 4 * length or error.start < 4 * length - 3:
            more = " …" if size > length // 2 else ""
            return f"{counted}: {value[: length // 2].hex(' ')}{more}"
        text = value[: error.start].decode("utf-8")
    return f"{counted}: {quoted(text, length, more=len(text.encode()) < size)}"


_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "\\": "\\\\"}


def quoted(text: str, length: int, *, more: bool = False) -> str:
    """Quote a text so that printing it cannot do anything but show it.

    What is not printable is escaped: control characters, line ends, marks that turn the direction
    of writing, lone surrogates.

    Args:
        text: the text.
        length: characters of it to show, at most.
        more: the text is only the beginning of a longer one.
    """
    shown = [_ESCAPES.get(char) or printable(char) for char in text[:length]]
    return f'"{"".join(shown)}{"…" if more or len(text) > length else ""}"'
