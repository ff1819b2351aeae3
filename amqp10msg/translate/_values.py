# cython: language_level=3, boundscheck=True, wraparound=True, annotation_typing=False
"""Values of field tables as 1.0 values and back, for the lossless profile.

Each direction gives the value, and whether the other direction gives the same one back. A value
that a broker accepts and then cannot deliver has no counterpart: its consumers' connections would
die one after the other while the message stays in the queue. Of RabbitMQ 4.0 these are decimals,
NaN and infinities anywhere, and null as the value of an annotation.
"""

from __future__ import annotations

import datetime
import math
import uuid
from collections.abc import Mapping
from typing import Any

from amqp10msg.basic.tables import FieldArray, FieldTable, as_array, as_table
from amqp10msg.wire.primitives import (
    Array,
    Byte,
    Char,
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


class _Nothing:
    """No value of the other protocol stands for it."""

    def __repr__(self) -> str:
        return "NOTHING"


NOTHING = _Nothing()
_NO_FIELD: tuple[str, Any, bool] = ("", None, False)
_MAX_MS = 2**63 - 1
# What nests deeper is carried: the other side counts its levels differently.
_MAX_DEPTH = 64
_CLASSES: dict[str, Any] = {"b": Byte, "B": UByte, "s": Short, "u": UShort, "I": Int, "i": UInt}
#: The same with their bounds: what is within needs no second look.
_BOUNDS: dict[str, Any] = {letter: (cls, cls.min, cls.max) for letter, cls in _CLASSES.items()}
_new_int: Any = int.__new__
_Timestamp = Timestamp
_MAX_SECONDS = (2**63 - 1) // 1000
#: Letters of the 1.0 types that a field holds exactly.
LETTERS: dict[type, str] = {
    **{cls: letter for letter, cls in _CLASSES.items()},
    bool: "t",
    int: "l",
    str: "S",
    bytes: "x",
}
_LETTERS = LETTERS


def to_value(letter: str, value: Any, depth: int = 0) -> tuple[Any, bool]:
    """Return the 1.0 value of a field, NOTHING where there is none, and whether it is exact.

    Args:
        letter: of the field.
        value: of the field.
        depth: tables and arrays around it, 0 for the value of an annotation; -1 for an application
            property, which is neither.
    """
    if letter == "S" and type(value) is str:
        if value.isascii():
            return value, True
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            return value.encode("utf-8", "surrogateescape"), False
        return value, True
    bounds = _BOUNDS.get(letter)
    if bounds is not None:
        if type(value) is int and bounds[1] <= value <= bounds[2]:
            return _new_int(bounds[0], value), True
        return bounds[0](value), True
    if letter == "t":
        return bool(value), type(value) is bool
    if letter == "l":
        return value, True
    if letter == "V":
        return (NOTHING, False) if depth == 0 else (None, True)
    if letter in "LU":
        return (Short(value) if letter == "U" else value), False
    if letter in "fd":
        if not math.isfinite(value):
            return NOTHING, False
        return (Float(value) if letter == "f" and type(value) is not Float else value), True
    if letter in "Sx":
        octets = value.encode("utf-8") if isinstance(value, str) else bytes(value)
        return octets, letter == "x"
    if letter == "T":
        if isinstance(value, datetime.datetime):
            value = int(Timestamp.from_datetime(value)) // 1000
        if type(value) is int:
            if 0 <= value <= _MAX_SECONDS:
                return _new_int(_Timestamp, value * 1000), True
            return NOTHING, False
        if not 0 <= value * 1000 <= _MAX_MS:
            return NOTHING, False
        return Timestamp(value * 1000), True
    if not 0 <= depth < _MAX_DEPTH:
        return NOTHING, False
    if letter == "A":
        return _list_of(value, depth + 1)
    if letter == "F":
        return _map_of(value, depth + 1)
    return NOTHING, False


def _list_of(array: Any, depth: int) -> tuple[Any, bool]:
    array = as_array(array)
    exact = True
    items = []
    for letter, value in array.entries:
        item, same = to_value(letter, value, depth)
        if item is NOTHING:
            return NOTHING, False
        items.append(item)
        exact = exact and same
    return items, exact


def _map_of(table: Any, depth: int) -> tuple[Any, bool]:
    table = as_table(table)
    exact = True
    found: dict[str, Any] = {}
    for name, letter, value in table.entries:
        item, same = to_value(letter, value, depth)
        if item is NOTHING:
            return NOTHING, False
        exact = exact and same
        try:
            name.encode("utf-8")
        except UnicodeEncodeError:
            return NOTHING, False
        if name in found:
            exact = False
        else:
            found[name] = item
    return found, exact


def to_field(value: Any, depth: int = 0) -> tuple[str, Any, bool]:
    """Return letter and value of a field, "" where there is none, and whether it is exact."""
    kind = type(value)
    letter = _LETTERS.get(kind)
    if letter is not None:
        return letter, (int(value) if letter in "bBsuIi" else value), True
    if kind is float or kind is Float:
        return ("d" if kind is float else "f", value, True) if math.isfinite(value) else _NO_FIELD
    if value is None:
        return "V", None, True
    if kind is _Timestamp:
        if value < 0:
            return _NO_FIELD
        return "T", int(value) // 1000, value % 1000 == 0
    if depth < _MAX_DEPTH:
        if kind is list:
            return _array_field(value, depth + 1)
        if kind is dict:
            return _table_field(value, depth + 1)
        if kind is Array and not value.descriptors:
            letter, made, _ = _array_field(value.values, depth + 1)
            return letter, made, False
    if kind is ULong:
        return ("l", int(value), False) if value < 2**63 else ("S", str(int(value)), False)
    if kind is Symbol or kind is Char:
        return "S", str(value), False
    if kind is uuid.UUID:
        return "S", f"urn:uuid:{value}", False
    return _NO_FIELD


def _array_field(values: list[Any], depth: int) -> tuple[str, Any, bool]:
    exact = True
    entries = []
    for item in values:
        letter, value, same = to_field(item, depth)
        if not letter:
            return _NO_FIELD
        entries.append((letter, value))
        exact = exact and same
    return "A", FieldArray.of(entries), exact


def _table_field(found: Mapping[Any, Any], depth: int) -> tuple[str, Any, bool]:
    exact = True
    entries = []
    for key, item in found.items():
        letter, value, same = to_field(item, depth)
        if not letter or type(key) not in (str, Symbol) or len(key.encode("utf-8")) > 255:
            return _NO_FIELD
        entries.append((str(key), letter, value))
        exact = exact and same and type(key) is str
    return "F", FieldTable.of(entries), exact
