"""Values shown in a text of bounded length: what `repr` of a message and of its parts is.

A class says what it shows by ``__rich_repr__``, the protocol of the library rich, so that a
terminal and a traceback show the same.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Any, TypeVar

import attrs

from amqp10msg.primitives import (
    AmqpMap,
    Array,
    Byte,
    Char,
    Described,
    Float,
    Int,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
)

__all__ = ["Text", "cut", "short_repr", "shown"]

T = TypeVar("T")

# Of one text or run of bytes; of the whole; levels of values in one another.
_LONGEST_TEXT = 1_000
_LONGEST_BYTES = 200
_MOST = 4_000
_DEEPEST = 30
# What holds no other values.
_SIMPLE = {type(None), bool, int, float, str, bytes, uuid.UUID, Symbol, Timestamp, Float}
_SIMPLE |= {UByte, UShort, UInt, ULong, Byte, Short, Int, Char}


class Text:
    """What has this text as its repr."""

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


def short_repr(value: Any) -> str:
    """Return the repr of a value, cut off where it is long; it takes no longer than that."""
    text = ""
    for piece in _pieces(value, 0):
        text += piece
        if len(text) > _MOST:
            return f"{text[:_MOST]}..."
    return text


def shown(cls: type[T]) -> type[T]:
    """Give an attrs class a repr of bounded length, and rich the same."""

    def rich(self: Any) -> Iterator[tuple[str, Any]]:
        for field in attrs.fields(type(self)):
            yield field.name, cut(getattr(self, field.name))

    cls.__rich_repr__ = rich  # type: ignore[attr-defined]
    cls.__repr__ = short_repr  # type: ignore[method-assign]
    return cls


def _pieces(value: Any, level: int) -> Iterable[str]:
    """Return the text of a value in pieces; of nearly all values it is one."""
    if level <= _DEEPEST and type(value) in _SIMPLE:
        return (repr(cut(value)),)
    return _parts(value, level)


def _parts(value: Any, level: int) -> Iterator[str]:
    value = cut(value)
    kind = type(value)
    if level > _DEEPEST:
        yield "..."
    elif hasattr(kind, "__rich_repr__"):
        yield from _call(kind.__name__, _arguments(value, level))
    elif kind is list:
        yield from _between("[", (_pieces(item, level + 1) for item in value), "]")
    elif isinstance(value, dict):
        yield from _between("{", (_entry(*item, level + 1) for item in value.items()), "}")
    elif kind is AmqpMap:
        pairs = (
            _between("(", (_pieces(item, level + 2) for item in pair), ")") for pair in value.pairs
        )
        yield from _call("AmqpMap", [_between("[", pairs, "]")])
    elif kind is Array:
        constructor = repr(value.type) if value.code is None else f"{value.code:#04x}"
        arguments: list[Iterable[str]] = [[constructor], _pieces(value.values, level + 1)]
        if value.descriptors:
            arguments.append(_named("descriptors", value.descriptors, level))
        yield from _call("Array", arguments)
    elif kind is Described:
        names = ("descriptor", "value")
        yield from _call("Described", (_named(name, getattr(value, name), level) for name in names))
    elif kind is tuple:
        items = [_pieces(item, level + 1) for item in islice(value, _MOST)]
        yield from _between("(", items, ",)" if len(items) == 1 else ")")
    else:
        yield repr(value)


def _arguments(value: Any, level: int) -> Iterator[Iterable[str]]:
    for name, given, *default in value.__rich_repr__():
        if not default or given != default[0]:
            yield _named(name, given, level)


def _named(name: str, value: Any, level: int) -> Iterable[str]:
    if level < _DEEPEST and type(value) in _SIMPLE:
        return (f"{name}={cut(value)!r}",)
    return chain((f"{name}=",), _pieces(value, level + 1))


def _entry(key: Any, value: Any, level: int) -> Iterable[str]:
    first, second = _pieces(key, level), _pieces(value, level)
    if type(first) is tuple and type(second) is tuple:
        return (f"{first[0]}: {second[0]}",)
    return chain(first, (": ",), second)


def _call(name: str, arguments: Iterable[Iterable[str]]) -> Iterator[str]:
    return _between(f"{name}(", arguments, ")")


def _between(begin: str, items: Iterable[Iterable[str]], end: str) -> Iterator[str]:
    before = begin
    for item in items:
        if type(item) is tuple:  # of one piece
            yield before + item[0]
        else:
            yield before
            yield from item
        before = ", "
    if before == begin:
        yield begin
    yield end
