"""Converts headers of 0-9-1 to annotations and application properties of 1.0, and back.

Each conversion returns the value, and whether the reverse conversion restores the original. Values
that a broker accepts but cannot deliver are not converted: the message would stay in the queue and
end the connection of every consumer that reads it. For RabbitMQ 4.0 these values are decimals, NaN
and infinities, and null as the value of an annotation.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Mapping
from typing import Any

from amqp10msg.basic.tables import FieldArray, FieldTable, as_array, as_table, seconds_of
from amqp10msg.brokers import DEATHS, RECEIVED_TIME, STREAM_FILTER_VALUE
from amqp10msg.translate._delivery import COUNTS, HEADERS
from amqp10msg.translate.rabbitmq.sections import SAVED_SECTIONS
from amqp10msg.translate.residual import NAME
from amqp10msg.translate.table import INTEGERS, ROWS, Row, is_text
from amqp10msg.wire.kernel.codes import MIN_SIZES
from amqp10msg.wire.primitives import (
    Array,
    Char,
    Float,
    Short,
    Symbol,
    Timestamp,
    ULong,
)

# Values.


class _Nothing:
    """The sentinel for a value that the target protocol cannot express."""

    def __repr__(self) -> str:
        return "NOTHING"


NOTHING = _Nothing()
_NO_FIELD: tuple[str, Any, bool] = ("", None, False)
_MAX_MS = 2**63 - 1
# Maximum number of zero-width elements of an array that is converted to a header.
_MAX_ZERO_WIDTH = 64
# Deeper values are carried in the residual: the two protocols count levels of nesting differently.
_MAX_DEPTH = 64
# Type letters of the 1.0 types that fields can express exactly.
_LETTERS: dict[type, str] = {
    **{cls: letter for letter, cls in INTEGERS.items()},
    bool: "t",
    int: "l",
    str: "S",
    bytes: "x",
}


def to_value(letter: str, value: Any, depth: int = 0) -> tuple[Any, bool]:
    """Convert a field to 1.0; return the value, or NOTHING, and whether it is exact.

    Args:
        letter: the type letter of the field.
        value: the value of the field.
        depth: number of enclosing tables and arrays: 0 for the value of an annotation, -1 for an
            application property, which must not be a table or an array.
    """
    if letter == "S" and type(value) is str:
        is_same = is_text(value)
        return value if is_same else value.encode("utf-8", "surrogateescape"), is_same
    if letter in INTEGERS:
        return INTEGERS[letter](value), True
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
        value = seconds_of(value)
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
    entries: dict[str, Any] = {}
    for name, letter, value in table.entries:
        item, same = to_value(letter, value, depth)
        if item is NOTHING:
            return NOTHING, False
        exact = exact and same
        if not is_text(name):
            return NOTHING, False
        if name in entries:
            exact = False
        else:
            entries[name] = item
    return entries, exact


def to_field(value: Any, depth: int = 0) -> tuple[str, Any, bool]:
    """Convert a 1.0 value to a field: type letter ("" if impossible), value, and exactness."""
    kind = type(value)
    letter = _LETTERS.get(kind)
    if letter is not None:
        return letter, (int(value) if letter in "bBsuIi" else value), True
    if kind is float or kind is Float:
        return ("d" if kind is float else "f", value, True) if math.isfinite(value) else _NO_FIELD
    if value is None:
        return "V", None, True
    if kind is Timestamp:
        if value < 0:
            return _NO_FIELD
        return "T", int(value) // 1000, value % 1000 == 0
    if depth < _MAX_DEPTH:
        if kind is list:
            return _array_field(value, depth + 1)
        if kind is dict:
            return _table_field(value, depth + 1)
        if kind is Array and not value.descriptors and not _is_amplified(value):
            letter, array, _ = _array_field(value.values, depth + 1)
            return letter, array, False
    if kind is ULong:
        return ("l", int(value), False) if value < 2**63 else ("S", str(int(value)), False)
    if kind is Symbol or kind is Char:
        return "S", str(value), False
    if kind is uuid.UUID:
        return "S", f"urn:uuid:{value}", False
    return _NO_FIELD


def _is_amplified(array: Array) -> bool:
    """Whether an array has so many zero-width elements that its header would be far larger.

    A header has one to five bytes per element. The residual carries the encoded array instead.
    """
    code = array.code
    return code is not None and MIN_SIZES[code] == 0 and len(array.values) > _MAX_ZERO_WIDTH


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


def _table_field(mapping: Mapping[Any, Any], depth: int) -> tuple[str, Any, bool]:
    exact = True
    entries = []
    for key, item in mapping.items():
        letter, value, same = to_field(item, depth)
        if not letter or type(key) not in (str, Symbol) or len(key.encode("utf-8")) > 255:
            return _NO_FIELD
        entries.append((str(key), letter, value))
        exact = exact and same and type(key) is str
    return "F", FieldTable.of(entries), exact


# Names.

BY_ANNOTATION: dict[str, Row] = {row.annotation: row for row in ROWS}
_RESERVED = {NAME, *BY_ANNOTATION}
#: Headers that RabbitMQ refuses unless they are arrays, which application properties cannot be.
ROUTES = {"CC", "BCC"}
#: Headers that RabbitMQ 3.10 and 4 interpret as encoded sections of a 1.0 message. Invalid sections
#: end the connections of the consumers.
SECTIONS = set(SAVED_SECTIONS.values())
#: Maximum size in bytes of text in the filter value of a stream.
_MAX_FILTER = 4096
#: A stream of RabbitMQ 4 stores routes under this name, and properties of 0-9-1 under names with
#: the prefix `_STORED_BASIC`. It does not deliver a sender's headers with such names; some such
#: headers end the consumer's connection.
STORED_ROUTES = "x-cc"
_STORED_BASIC = "x-basic-"
#: Headers that need a certain type: a stream ends the publisher's connection if the filter value is
#: not text, and does not deliver a record of deaths that is not an array.
RESTRICTED = {STREAM_FILTER_VALUE, "x-death"}
#: Headers and annotations that RabbitMQ overwrites, or does not deliver to consumers.
OF_BROKER = {*COUNTS, STORED_ROUTES, DEATHS, RECEIVED_TIME, "x-exchange", "x-routing-key"}
#: Annotations that RabbitMQ 4 does not deliver to consumers of 0-9-1 as headers.
INTERNAL = {*OF_BROKER, "x-death"}


def _is_of_broker(name: str) -> bool:
    """Whether RabbitMQ reserves this name of a header or annotation for itself."""
    return name in OF_BROKER or name.startswith(_STORED_BASIC)


def annotation_of(name: str) -> Symbol | None:
    """Return the key of the annotation for a header ``x-…``; None if it cannot be an annotation.

    A name ``x-opt-…`` is kept; other names get the prefix ``x-opt-``.
    """
    if not name.isascii() or "\0" in name or name in SECTIONS or _is_of_broker(name):
        return None
    if not name.startswith("x-opt-"):
        return Symbol("x-opt-" + name)
    if name.startswith("x-opt-x-") or name in _RESERVED:
        return None
    return Symbol(name)


def header_of(key: Any) -> tuple[str, bool] | None:
    """Return the name of the header for an annotation, and whether the reverse gives the same key.

    Return None if the annotation cannot be a header.
    """
    if not isinstance(key, str):
        return None
    if not key.startswith("x-") or "\0" in key:
        return None
    if key in _RESERVED or key in INTERNAL or key.startswith(_STORED_BASIC):
        return None
    name = key[6:] if key.startswith("x-opt-x-") else str(key)
    if name in SECTIONS or len(name) > 255 or _is_of_broker(name):
        return None
    return name, annotation_of(name) == key


def property_name(key: Any) -> tuple[str, bool] | None:
    """Return the name of the header for an application property, like `header_of`."""
    if type(key) is not str or "\0" in key or key == NAME or key in ROUTES or key in SECTIONS:
        return None
    # After a delivery, the header would look like a header that the broker added.
    if key in HEADERS or _is_of_broker(key):
        return None
    if len(key) > 255 or (not key.isascii() and len(key.encode("utf-8")) > 255):
        return None
    return key, not key.startswith("x-")


def is_name(name: str) -> bool:
    """Whether a header's name can be the key of an application property."""
    return "\0" not in name and name not in ROUTES and is_text(name)


def section_and_key(name: str) -> tuple[str, str] | None:
    """Return the section for a header (``a``: annotations, ``p``: properties) and its key."""
    if name.startswith("x-"):
        key = annotation_of(name)
        return ("a", key) if key is not None else None
    return ("p", name) if is_name(name) else None


def _is_deliverable(name: str, item: Any) -> bool:
    """Whether brokers deliver this value of a header in `RESTRICTED`."""
    if name == STREAM_FILTER_VALUE:
        return type(item) is str and "\0" not in item and len(item.encode("utf-8")) <= _MAX_FILTER
    return type(item) is list


def header_value(name: str, letter: str, value: Any) -> tuple[Any, bool]:
    """Convert the value of a header to 1.0; return it, or NOTHING, and whether it is exact."""
    item, exact = to_value(letter, value, 0 if name.startswith("x-") else -1)
    if name in RESTRICTED and not _is_deliverable(name, item):
        return NOTHING, False
    return item, exact


def header_field(name: str, item: Any) -> tuple[str, Any, bool]:
    """Convert a 1.0 value to the header `name`; the result is like `to_field`'s."""
    if (item is None and name.startswith("x-")) or (
        name in RESTRICTED and not _is_deliverable(name, item)
    ):
        return "", None, False
    return to_field(item)
