"""Values shown in a text of bounded length: what `repr` of a message and of its parts is.

A class says what it shows by ``__rich_repr__``, the protocol of the library rich, so that a
terminal and a traceback show the same.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar

import attrs

from amqp10msg.wire.primitives import INTEGERS, AmqpMap, Array, Char, Described, Float, Symbol

__all__ = ["Text", "cut", "encodable", "html_table", "readable", "short_repr", "shortened", "shown"]

T = TypeVar("T")

# Of one text or run of bytes; of the whole; levels of values in one another.
_LONGEST_TEXT = 1_000
_LONGEST_BYTES = 200
_MOST = 4_000
_DEEPEST = 30
# What holds no other values; of these, what is never long.
_SHORT = {type(None), bool, int, float, uuid.UUID, Float, Char, *INTEGERS.values()}
_SIMPLE = {str, bytes, Symbol, *_SHORT}


class Text:
    """An object with this text as its repr."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def cut(value: Any) -> Any:
    """Return the value; where it is long bytes or text, its beginning and its length."""
    if isinstance(value, str) and len(value) > _LONGEST_TEXT:
        return Text(f"{str(value[:_LONGEST_TEXT])!r}... ({len(value):,} characters)")
    if isinstance(value, (bytes, bytearray, memoryview)) and len(value) > _LONGEST_BYTES:
        return Text(f"{bytes(value[:_LONGEST_BYTES])!r}... ({len(value):,} bytes)")
    return value


class _FullError(Exception):
    """The text is as long as it may be."""


class _Out:
    """A text that grows to its bound."""

    __slots__ = ("pieces", "size")

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.size = 0

    def add(self, text: str) -> None:
        """Append text; _FullError once the bound is passed."""
        self.pieces.append(text)
        self.size += len(text)
        if self.size > _MOST:
            raise _FullError


def short_repr(value: Any) -> str:
    """Return the repr of a value, cut off where it is long; it takes no longer than that."""
    out = _Out()
    try:
        _write(out, value, 0)
    except _FullError:
        return f"{''.join(out.pieces)[:_MOST]}..."
    return "".join(out.pieces)


def shown(cls: type[T]) -> type[T]:
    """Give an attrs class a repr of bounded length, and rich the same."""

    def rich(self: Any) -> Iterator[tuple[str, Any]]:
        for field in attrs.fields(type(self)):
            yield field.name, cut(getattr(self, field.name))

    cls.__rich_repr__ = rich  # type: ignore[attr-defined]  # for rich
    cls.__repr__ = short_repr  # type: ignore[method-assign]  # the same for every class
    return cls


# Notebooks align cells to the right. Long values break anywhere; no column gets too narrow.
_CELL = 'style="text-align: left; min-width: 4em; overflow-wrap: anywhere"'
_MOST_ROWS = 100
_LONGEST_CELL = 200


def html_table(title: str, names: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a small table for a notebook: a title, and rows of text, which is escaped.

    Args:
        title: what it shows; alone where there are no rows.
        names: of the columns.
        rows: their cells, each cut at 200 characters; after 100 rows their number is given.
    """
    from html import escape  # noqa: PLC0415  (its table of characters is for notebooks alone)

    written = [
        [f"{cell[:_LONGEST_CELL]}…" if len(cell) > _LONGEST_CELL else cell for cell in row]
        for row in rows
    ]
    if not written:
        return f"<p>{escape(title)}</p>"
    more = len(written) - _MOST_ROWS
    if more > 0:
        title = f"{title}; {more:,} more rows are not shown"
    lines = [f"<th {_CELL}>{escape(name)}</th>" for name in names]
    for row in written[:_MOST_ROWS]:
        lines += ["</tr><tr>", *(f"<td {_CELL}>{escape(encodable(cell))}</td>" for cell in row)]
    caption = f'<caption style="text-align: left">{escape(title)}</caption>'
    return f"<table>{caption}<tr>{''.join(lines)}</tr></table>"


def _write(out: _Out, value: Any, level: int, before: str = "") -> None:
    """Write a value after a text."""
    kind = type(value)
    if level > _DEEPEST:
        out.add(f"{before}...")
    elif kind in _SIMPLE:
        out.add(f"{before}{value!r}" if kind in _SHORT else f"{before}{cut(value)!r}")
    else:
        out.add(before)
        _write_parts(out, cut(value), level)


def _write_parts(out: _Out, value: Any, level: int) -> None:
    kind = type(value)
    if hasattr(kind, "__rich_repr__"):
        before = f"{kind.__name__}("
        for name, given, *default in value.__rich_repr__():
            if not default or given != default[0]:
                _write(out, given, level + 1, f"{before}{name}=")
                before = ", "
        out.add(f"{before})" if before != ", " else ")")
    elif kind is list:
        _write_between(out, "[", value, "]", level)
    elif isinstance(value, dict):
        before = "{"
        for key, item in value.items():
            _write(out, key, level + 1, before)
            _write(out, item, level + 1, ": ")
            before = ", "
        out.add("}" if value else "{}")
    elif kind is AmqpMap:
        before = "AmqpMap(["
        for pair in value.pairs:
            out.add(before)
            _write_between(out, "(", pair, ")", level + 1)
            before = ", "
        out.add("])" if before == ", " else f"{before}])")
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
        _write_between(out, "(", islice(value, _MOST), ",)" if len(value) == 1 else ")", level)
    else:
        out.add(repr(value))


def _write_between(out: _Out, begin: str, items: Iterable[Any], end: str, level: int) -> None:
    """Write values with commas between them."""
    before = begin
    for item in items:
        _write(out, item, level + 1, before)
        before = ", "
    out.add(end if before == ", " else f"{begin}{end}")


def readable(name: str) -> str:
    r"""Return a name with ``\xff`` for each byte that is not UTF-8, a surrogate in `name`."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def shortened(text: str, length: int) -> str:
    """Return a text of which no more characters are shown."""
    return text if len(text) <= length else text[:length] + "…"


def encodable(text: str) -> str:
    """Escape lone surrogates, which UTF-8 cannot hold."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()
