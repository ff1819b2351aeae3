"""The kinds of AMQP 0-9-1 in typed JSON: the properties of class basic, and field tables.

    ["properties", [["content-type", "text/plain"], ["headers", [["k", ["I", 5]]]]]]
    ["F", [["k", ["I", 5]], ["t", ["T", 1700000000]]]]

A field is its letter and its value: numbers and text as such, ``f`` and ``d`` as the hex of their
bits, ``x`` as hex, ``D`` as [scale, unscaled], ``F`` and ``A`` as what is in them, ``V`` alone.
Text that is not UTF-8 is ``{"hex": …}``.
"""

from __future__ import annotations

import struct
from typing import Any

from amqp10msg.basic import (
    PROPERTIES,
    BasicProperties,
    FieldArray,
    FieldTable,
    OddTrue,
    ScaledDecimal,
    decode_properties,
    decode_table,
    encode_properties,
    encode_table,
)
from amqp10msg.wire.limits import Limits

#: The kinds whose bytes are of AMQP 0-9-1.
BASIC_KINDS = ("basic-properties", "field-table")


def decode_basic(kind: str, data: bytes, limits: Limits | None = None) -> list[Any]:
    """Decode bytes of one of these kinds to typed JSON.

    Raises:
        DecodeError: they are not a valid encoding.
    """
    if kind == "field-table":
        return ["F", _table(decode_table(data, limits=limits))]
    return typed_properties(decode_properties(data, limits=limits))


def encode_basic(kind: str, typed: Any) -> bytes:
    """Encode typed JSON of one of these kinds.

    Raises:
        EncodeError: a value does not fit.
    """
    if kind == "field-table":
        return encode_table(_table_of(typed[1]))
    return encode_properties(properties_of(typed))


def typed_properties(properties: BasicProperties) -> list[Any]:
    """Return properties in typed JSON."""
    found: list[Any] = []
    for row in PROPERTIES:
        value = getattr(properties, row.name)
        if value is not None:
            shown = _table(value) if row.domain == "table" else _text(value)
            found.append([row.wire_name, shown])
    return ["properties", found]


def properties_of(typed: Any) -> BasicProperties:
    """Return the properties of typed JSON."""
    names = {row.wire_name: row for row in PROPERTIES}
    given: dict[str, Any] = {}
    for name, value in typed[1]:
        row = names[name]
        given[row.name] = _table_of(value) if row.domain == "table" else _str(value)
    return BasicProperties(**given)


def _text(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        value.encode()
    except UnicodeEncodeError:  # PEP 383
        return {"hex": value.encode("utf-8", "surrogateescape").hex()}
    return value


def _str(value: Any) -> Any:
    if isinstance(value, dict):
        return bytes.fromhex(value["hex"]).decode("utf-8", "surrogateescape")
    return value


def _table(table: Any) -> list[Any]:
    return [[_text(name), _field(letter, value)] for name, letter, value in table.entries]


def _field(letter: str, value: Any) -> list[Any]:
    if letter == "V":
        return [letter]
    if letter == "F":
        return [letter, _table(value)]
    if letter == "A":
        return [letter, [_field(*entry) for entry in value.entries]]
    if letter == "t":
        return [letter, value.octet if isinstance(value, OddTrue) else bool(value)]
    if letter in "fd":
        return [letter, struct.pack(f">{letter}", value).hex()]
    if letter == "D":
        return [letter, [value.scale, value.unscaled]]
    if isinstance(value, bytes):
        return [letter, value.hex()]
    return [letter, _text(value) if isinstance(value, str) else int(value)]


def _table_of(entries: Any) -> FieldTable:
    return FieldTable.of([(_str(name), field[0], _value(*field)) for name, field in entries])


def _value(letter: str, value: Any = None) -> Any:
    if letter == "F":
        return _table_of(value)
    if letter == "A":
        return FieldArray.of([(field[0], _value(*field)) for field in value])
    if letter == "t":
        return value if isinstance(value, bool) else OddTrue(value)
    if letter in ("f", "d"):
        return struct.unpack(f">{letter}", bytes.fromhex(value))[0]
    if letter == "D":
        return ScaledDecimal(*value)
    if letter == "x":
        return bytes.fromhex(value)
    return _str(value)
