"""Converts headers of 0-9-1 to annotations and application properties of 1.0, and back.

Each conversion returns the value, and whether it is exact: whether the reverse conversion restores
the original. Values that a broker accepts but cannot deliver are not converted: the message would
stay in the queue and end the connection of every consumer that reads it. In RabbitMQ 4.0 these
values are decimals, NaN and infinities, and null as the value of an annotation.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Mapping
from typing import Any

from amqp10msg.basic.tables import FieldArray, FieldTable, as_array, as_table, seconds_of
from amqp10msg.brokers import DEATHS, RECEIVED_TIME, STREAM_FILTER_VALUE
from amqp10msg.translate._delivery import ADDED_HEADER_LETTERS, PER_DELIVERY_HEADER_NAMES
from amqp10msg.translate.rabbitmq.sections import HEADER_BY_SAVED_SECTION
from amqp10msg.translate.residual import RESIDUAL_NAME
from amqp10msg.translate.table import INTEGER_TYPE_BY_LETTER, ROWS, Row, is_text
from amqp10msg.wire.kernel.codes import MIN_SIZE_OF_FORMAT_CODE
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


class _Inexpressible:
    """The sentinel for a value that the target protocol cannot express."""

    def __repr__(self) -> str:
        return "INEXPRESSIBLE"


INEXPRESSIBLE = _Inexpressible()
# The result of `to_field` for a value that no field can hold.
_NO_FIELD_RESULT: tuple[str, Any, bool] = ("", None, False)
_MAX_TIMESTAMP_MS = 2**63 - 1  # highest timestamp in 1.0
# Maximum number of zero-width elements in a 1.0 array that is converted to a header.
_MAX_ZERO_WIDTH_ELEMENTS = 64
# Maximum depth of nesting. The residual carries deeper values, because the two protocols count
# levels of nesting differently.
_MAX_NESTING_DEPTH = 64
# The type letter for each 1.0 type that a field can express exactly.
_EXACT_LETTERS: dict[type, str] = {
    **{cls: letter for letter, cls in INTEGER_TYPE_BY_LETTER.items()},
    bool: "t",
    int: "l",
    str: "S",
    bytes: "x",
}


def to_value(letter: str, value: Any, depth: int = 0) -> tuple[Any, bool]:
    """Convert a 0-9-1 field to a 1.0 value, or INEXPRESSIBLE; return it and whether it is exact.

    Args:
        letter: the type letter of the field.
        value: the value of the field.
        depth: the number of tables and arrays around the field: 0 for an annotation, -1 for an
            application property, which must not be a table or an array.
    """
    if letter == "S" and type(value) is str:
        is_same = is_text(value)
        return value if is_same else value.encode("utf-8", "surrogateescape"), is_same
    if letter in INTEGER_TYPE_BY_LETTER:
        return INTEGER_TYPE_BY_LETTER[letter](value), True
    if letter == "t":
        return bool(value), type(value) is bool
    if letter == "l":
        return value, True
    if letter == "V":
        return (INEXPRESSIBLE, False) if depth == 0 else (None, True)
    if letter in "LU":
        return (Short(value) if letter == "U" else value), False
    if letter in "fd":
        if not math.isfinite(value):
            return INEXPRESSIBLE, False
        return (Float(value) if letter == "f" and type(value) is not Float else value), True
    if letter in "Sx":
        octets = value.encode("utf-8") if isinstance(value, str) else bytes(value)
        return octets, letter == "x"
    if letter == "T":
        value = seconds_of(value)
        if not 0 <= value * 1000 <= _MAX_TIMESTAMP_MS:
            return INEXPRESSIBLE, False
        return Timestamp(value * 1000), True
    if not 0 <= depth < _MAX_NESTING_DEPTH:
        return INEXPRESSIBLE, False
    if letter == "A":
        return _array_to_list(value, depth + 1)
    if letter == "F":
        return _table_to_map(value, depth + 1)
    return INEXPRESSIBLE, False


def _array_to_list(array: Any, depth: int) -> tuple[Any, bool]:
    """Convert an array to a 1.0 list, like `to_value`."""
    array = as_array(array)
    exact = True
    items = []
    for letter, value in array.entries:
        item, same = to_value(letter, value, depth)
        if item is INEXPRESSIBLE:
            return INEXPRESSIBLE, False
        items.append(item)
        exact = exact and same
    return items, exact


def _table_to_map(table: Any, depth: int) -> tuple[Any, bool]:
    """Convert a table to a 1.0 map, like `to_value`."""
    table = as_table(table)
    exact = True
    entries: dict[str, Any] = {}
    for name, letter, value in table.entries:
        item, same = to_value(letter, value, depth)
        if item is INEXPRESSIBLE:
            return INEXPRESSIBLE, False
        exact = exact and same
        if not is_text(name):
            return INEXPRESSIBLE, False
        if name in entries:
            exact = False
        else:
            entries[name] = item
    return entries, exact


def to_field(value: Any, depth: int = 0) -> tuple[str, Any, bool]:
    """Convert a 1.0 value to a 0-9-1 field: its type letter, its value, and whether it is exact.

    The letter is "" if no field can hold the value. `depth` is the number of lists, maps and arrays
    around the value.
    """
    cls = type(value)
    letter = _EXACT_LETTERS.get(cls)
    if letter is not None:
        return letter, (int(value) if letter in "bBsuIi" else value), True
    if cls is float or cls is Float:
        return (
            ("d" if cls is float else "f", value, True)
            if math.isfinite(value)
            else _NO_FIELD_RESULT
        )
    if value is None:
        return "V", None, True
    if cls is Timestamp:
        if value < 0:
            return _NO_FIELD_RESULT
        return "T", int(value) // 1000, value % 1000 == 0
    if depth < _MAX_NESTING_DEPTH:
        if cls is list:
            return _list_to_array(value, depth + 1)
        if cls is dict:
            return _map_to_table(value, depth + 1)
        if cls is Array and not value.descriptors and not _is_amplified(value):
            letter, array, _ = _list_to_array(value.values, depth + 1)
            return letter, array, False
    if cls is ULong:
        return ("l", int(value), False) if value < 2**63 else ("S", str(int(value)), False)
    if cls is Symbol or cls is Char:
        return "S", str(value), False
    if cls is uuid.UUID:
        return "S", f"urn:uuid:{value}", False
    return _NO_FIELD_RESULT


def _is_amplified(array: Array) -> bool:
    """Whether an array has so many zero-width elements that a header would be far larger.

    A header needs one to five bytes per element. The residual carries such an array instead.
    """
    code = array.code
    return (
        code is not None
        and MIN_SIZE_OF_FORMAT_CODE[code] == 0
        and len(array.values) > _MAX_ZERO_WIDTH_ELEMENTS
    )


def _list_to_array(values: list[Any], depth: int) -> tuple[str, Any, bool]:
    """Convert a 1.0 list to an array, like `to_field`."""
    exact = True
    entries = []
    for item in values:
        letter, value, same = to_field(item, depth)
        if not letter:
            return _NO_FIELD_RESULT
        entries.append((letter, value))
        exact = exact and same
    return "A", FieldArray.of(entries), exact


def _map_to_table(mapping: Mapping[Any, Any], depth: int) -> tuple[str, Any, bool]:
    """Convert a 1.0 map to a table, like `to_field`."""
    exact = True
    entries = []
    for key, item in mapping.items():
        letter, value, same = to_field(item, depth)
        if not letter or type(key) not in (str, Symbol) or len(key.encode("utf-8")) > 255:
            return _NO_FIELD_RESULT
        entries.append((str(key), letter, value))
        exact = exact and same and type(key) is str
    return "F", FieldTable.of(entries), exact


# Names of headers, and keys of annotations and application properties.

#: The rows of the correspondence, by the key of the annotation for the property.
ROW_BY_ANNOTATION: dict[str, Row] = {row.annotation: row for row in ROWS}
# Keys of annotations that hold the residual or a property, instead of a header.
_RESERVED_ANNOTATION_KEYS = {RESIDUAL_NAME, *ROW_BY_ANNOTATION}
#: Headers that RabbitMQ refuses unless they are arrays; an application property cannot be one.
ROUTE_HEADERS = {"CC", "BCC"}
#: Headers that RabbitMQ 3.10 and 4 interpret as encoded sections of a 1.0 message. If a section is
#: invalid, the consumers' connections end.
SAVED_SECTION_HEADERS = set(HEADER_BY_SAVED_SECTION.values())
#: Maximum size in bytes of a stream's filter value.
_MAX_FILTER_VALUE_SIZE = 4096
#: A stream of RabbitMQ 4 stores CC routes in this annotation, and 0-9-1 properties in annotations
#: with the prefix `_STORED_PROPERTY_PREFIX`. It does not deliver a sender's headers with such
#: names, and some of them end the consumer's connection.
STORED_CC_ROUTES_KEY = "x-cc"
_STORED_PROPERTY_PREFIX = "x-basic-"
#: Headers whose values must have a certain type. A stream ends the publisher's connection if the
#: filter value is not text, and does not deliver a record of deaths that is not an array.
TYPE_RESTRICTED_HEADERS = {STREAM_FILTER_VALUE, "x-death"}
#: Names of headers and annotations that RabbitMQ overwrites, or does not deliver to consumers.
BROKER_RESERVED_NAMES = {
    *PER_DELIVERY_HEADER_NAMES,
    STORED_CC_ROUTES_KEY,
    DEATHS,
    RECEIVED_TIME,
    "x-exchange",
    "x-routing-key",
}
#: Keys of annotations that RabbitMQ 4 does not deliver to 0-9-1 consumers as headers.
UNDELIVERED_ANNOTATIONS = {*BROKER_RESERVED_NAMES, "x-death"}


def _is_of_broker(name: str) -> bool:
    """Whether RabbitMQ reserves a name of headers and annotations for itself."""
    return name in BROKER_RESERVED_NAMES or name.startswith(_STORED_PROPERTY_PREFIX)


def annotation_of(name: str) -> Symbol | None:
    """Return the annotation key for a header ``x-…``; None if it cannot be an annotation.

    A name ``x-opt-…`` is unchanged; other names get the prefix ``x-opt-``.
    """
    if not name.isascii() or "\0" in name or name in SAVED_SECTION_HEADERS or _is_of_broker(name):
        return None
    if not name.startswith("x-opt-"):
        return Symbol("x-opt-" + name)
    if name.startswith("x-opt-x-") or name in _RESERVED_ANNOTATION_KEYS:
        return None
    return Symbol(name)


def header_of(key: Any) -> tuple[str, bool] | None:
    """Return the name of the header for an annotation, and whether `annotation_of` returns `key`.

    Return None if the annotation cannot be a header.
    """
    if not isinstance(key, str):
        return None
    if not key.startswith("x-") or "\0" in key:
        return None
    if (
        key in _RESERVED_ANNOTATION_KEYS
        or key in UNDELIVERED_ANNOTATIONS
        or key.startswith(_STORED_PROPERTY_PREFIX)
    ):
        return None
    name = key[6:] if key.startswith("x-opt-x-") else str(key)
    if name in SAVED_SECTION_HEADERS or len(name) > 255 or _is_of_broker(name):
        return None
    return name, annotation_of(name) == key


def property_name(key: Any) -> tuple[str, bool] | None:
    """Return the header's name for an application property, and whether the key is restored.

    The key is not restored if the reverse translation makes the header an annotation. Return None
    if the property cannot be a header.
    """
    if (
        type(key) is not str
        or "\0" in key
        or key == RESIDUAL_NAME
        or key in ROUTE_HEADERS
        or key in SAVED_SECTION_HEADERS
    ):
        return None
    # After a delivery, headers with these names would look like headers that the broker added.
    if key in ADDED_HEADER_LETTERS or _is_of_broker(key):
        return None
    if len(key) > 255 or (not key.isascii() and len(key.encode("utf-8")) > 255):
        return None
    return key, not key.startswith("x-")


def is_name(name: str) -> bool:
    """Whether the name of a header can be the key of an application property."""
    return "\0" not in name and name not in ROUTE_HEADERS and is_text(name)


def section_and_key(name: str) -> tuple[str, str] | None:
    """Return the section for a header and the key in it; None if 1.0 cannot hold the header.

    The section is ``a`` (message annotations) or ``p`` (application properties).
    """
    if name.startswith("x-"):
        key = annotation_of(name)
        return ("a", key) if key is not None else None
    return ("p", name) if is_name(name) else None


def _is_deliverable(name: str, item: Any) -> bool:
    """Whether brokers deliver a header of `TYPE_RESTRICTED_HEADERS` with the 1.0 value `item`."""
    if name == STREAM_FILTER_VALUE:
        return (
            type(item) is str
            and "\0" not in item
            and len(item.encode("utf-8")) <= _MAX_FILTER_VALUE_SIZE
        )
    return type(item) is list


def header_value(name: str, letter: str, value: Any) -> tuple[Any, bool]:
    """Convert a header to a 1.0 value; return the value and whether it is exact.

    The value is INEXPRESSIBLE if 1.0 cannot hold it, or brokers would not deliver it.
    """
    item, exact = to_value(letter, value, 0 if name.startswith("x-") else -1)
    if name in TYPE_RESTRICTED_HEADERS and not _is_deliverable(name, item):
        return INEXPRESSIBLE, False
    return item, exact


def header_field(name: str, item: Any) -> tuple[str, Any, bool]:
    """Convert a 1.0 value to a field for the header `name`; return the same as `to_field`."""
    if (item is None and name.startswith("x-")) or (
        name in TYPE_RESTRICTED_HEADERS and not _is_deliverable(name, item)
    ):
        return "", None, False
    return to_field(item)
