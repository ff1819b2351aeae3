"""Reprs of limited length, for messages and their parts.

A class defines its repr by ``__rich_repr__``, the protocol of the library rich, so that `repr` and
rich show the same content.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar

import attrs

from amqp10msg.wire.primitives import INTEGERS, AmqpMap, Array, Char, Described, Float, Symbol

__all__ = [
    "Text",
    "cut",
    "encodable",
    "html_table",
    "readable",
    "short_repr",
    "shortened",
    "with_bounded_repr",
]

T = TypeVar("T")

# Limits of a repr: characters per string, bytes per binary, characters in total, levels of nesting.
_MAX_STRING_CHARACTERS = 1_000
_MAX_BINARY_BYTES = 200
_MAX_REPR_CHARACTERS = 4_000
_MAX_NESTING_LEVELS = 30
# Types whose repr is always short; and all types whose values contain no other values.
_TYPES_WITH_SHORT_REPR = {type(None), bool, int, float, uuid.UUID, Float, Char, *INTEGERS.values()}
_TYPES_WITHOUT_CONTENT = {str, bytes, Symbol, *_TYPES_WITH_SHORT_REPR}


class Text:
    """An object whose repr is the text that was passed to its constructor."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def cut(value: Any) -> Any:
    """Return `value`; for long strings and bytes, a `Text` with their start and length instead."""
    if isinstance(value, str) and len(value) > _MAX_STRING_CHARACTERS:
        return Text(f"{str(value[:_MAX_STRING_CHARACTERS])!r}... ({len(value):,} characters)")
    if isinstance(value, (bytes, bytearray, memoryview)) and len(value) > _MAX_BINARY_BYTES:
        return Text(f"{bytes(value[:_MAX_BINARY_BYTES])!r}... ({len(value):,} bytes)")
    return value


class _LimitError(Exception):
    """The repr has reached `_MAX_REPR_CHARACTERS` characters."""


class _Buffer:
    """A string buffer that stops growing at `_MAX_REPR_CHARACTERS` characters."""

    __slots__ = ("pieces", "size")

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.size = 0

    def add(self, text: str) -> None:
        """Append text; raise _LimitError if the buffer then exceeds the limit."""
        self.pieces.append(text)
        self.size += len(text)
        if self.size > _MAX_REPR_CHARACTERS:
            raise _LimitError


def short_repr(value: Any) -> str:
    """Return the repr of a value, cut at `_MAX_REPR_CHARACTERS`. The time is limited, too."""
    out = _Buffer()
    try:
        _write(out, value, 0)
    except _LimitError:
        return f"{''.join(out.pieces)[:_MAX_REPR_CHARACTERS]}..."
    return "".join(out.pieces)


def with_bounded_repr(cls: type[T]) -> type[T]:
    """Add a repr of limited length to an attrs class."""

    def rich(self: Any) -> Iterator[tuple[str, Any]]:
        for field in attrs.fields(type(self)):
            yield field.name, cut(getattr(self, field.name))

    cls.__rich_repr__ = rich  # type: ignore[attr-defined]
    cls.__repr__ = short_repr  # type: ignore[method-assign]
    return cls


# HTML attributes of table cells: left-aligned, because notebooks align cells to the right, and with
# line breaks in long values.
_HTML_CELL_ATTRIBUTES = 'style="text-align: left; min-width: 4em; overflow-wrap: anywhere"'
_MAX_TABLE_ROWS = 100
_MAX_CELL_CHARACTERS = 200


def html_table(title: str, names: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a small HTML table for a notebook. All texts are escaped.

    Args:
        title: the caption. Without rows, the result is only the title.
        names: the names of the columns.
        rows: the cells of each row, which are cut at 200 characters. Rows after the first 100 are
            omitted, and counted in the title.
    """
    from html import escape  # noqa: PLC0415  (only notebooks need it)

    cells_of_rows = [
        [
            f"{cell[:_MAX_CELL_CHARACTERS]}…" if len(cell) > _MAX_CELL_CHARACTERS else cell
            for cell in row
        ]
        for row in rows
    ]
    if not cells_of_rows:
        return f"<p>{escape(title)}</p>"
    omitted = len(cells_of_rows) - _MAX_TABLE_ROWS
    if omitted > 0:
        title = f"{title}; {omitted:,} more rows are not shown"
    lines = [f"<th {_HTML_CELL_ATTRIBUTES}>{escape(name)}</th>" for name in names]
    for row in cells_of_rows[:_MAX_TABLE_ROWS]:
        lines += [
            "</tr><tr>",
            *(f"<td {_HTML_CELL_ATTRIBUTES}>{escape(encodable(cell))}</td>" for cell in row),
        ]
    caption = f'<caption style="text-align: left">{escape(title)}</caption>'
    return f"<table>{caption}<tr>{''.join(lines)}</tr></table>"


def _write(out: _Buffer, value: Any, level: int, prefix: str = "") -> None:
    """Write `prefix` and the repr of a value."""
    cls = type(value)
    if level > _MAX_NESTING_LEVELS:
        out.add(f"{prefix}...")
    elif cls in _TYPES_WITHOUT_CONTENT:
        out.add(
            f"{prefix}{value!r}" if cls in _TYPES_WITH_SHORT_REPR else f"{prefix}{cut(value)!r}"
        )
    else:
        out.add(prefix)
        _write_parts(out, cut(value), level)


def _write_parts(out: _Buffer, value: Any, level: int) -> None:
    """Write the repr of a value that may contain other values."""
    kind = type(value)
    if hasattr(kind, "__rich_repr__"):
        prefix = f"{kind.__name__}("
        for name, field, *default in value.__rich_repr__():
            if not default or field != default[0]:
                _write(out, field, level + 1, f"{prefix}{name}=")
                prefix = ", "
        out.add(f"{prefix})" if prefix != ", " else ")")
    elif kind is list:
        _write_between(out, "[", value, "]", level)
    elif isinstance(value, dict):
        prefix = "{"
        for key, item in value.items():
            _write(out, key, level + 1, prefix)
            _write(out, item, level + 1, ": ")
            prefix = ", "
        out.add("}" if value else "{}")
    elif kind is AmqpMap:
        prefix = "AmqpMap(["
        for pair in value.pairs:
            out.add(prefix)
            _write_between(out, "(", pair, ")", level + 1)
            prefix = ", "
        out.add("])" if prefix == ", " else f"{prefix}])")
    elif kind is Array:
        out.add(f"Array({value.type!r}" if value.code is None else f"Array({value.code:#04x}")
        _write(out, value.values, level + 1, ", ")
        if value.descriptors:
            _write(out, value.descriptors, level + 1, ", descriptors=")
        out.add(")")
    elif kind is Described:
        _write(out, value.descriptor, level + 1, "Described(descriptor=")
        _write(out, value.value, level + 1, ", value=")
        out.add(")")
    elif kind is tuple:
        _write_between(
            out, "(", islice(value, _MAX_REPR_CHARACTERS), ",)" if len(value) == 1 else ")", level
        )
    else:
        out.add(repr(value))


def _write_between(out: _Buffer, begin: str, items: Iterable[Any], end: str, level: int) -> None:
    """Write the reprs of values, separated by commas, between `begin` and `end`."""
    prefix = begin
    for item in items:
        _write(out, item, level + 1, prefix)
        prefix = ", "
    out.add(end if prefix == ", " else f"{begin}{end}")


def readable(name: str) -> str:
    r"""Return a name with an escape, such as ``\xff``, for each byte that is not valid UTF-8.

    `name` was decoded with the error handler surrogateescape.
    """
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def shortened(text: str, length: int) -> str:
    """Return `text`, or its first `length` characters and an ellipsis."""
    return text if len(text) <= length else text[:length] + "…"


def encodable(text: str) -> str:
    """Return `text` with escapes for lone surrogates, which UTF-8 cannot encode."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()
