"""Names, classes, ranges and widths of the AMQP types, for all notations."""

from __future__ import annotations

import struct
import uuid
from typing import Any

from amqp10msg.wire.primitives import (
    DECIMALS,
    INTEGERS,
    AmqpMap,
    Array,
    Char,
    Described,
    Float,
    Symbol,
)

#: Names of the AMQP types by the Python type of a decoded value.
TYPE_NAME_BY_CLASS: dict[type, str] = {
    type(None): "null",
    bool: "boolean",
    **{cls: name for name, cls in INTEGERS.items()},
    int: "long",
    Float: "float",
    float: "double",
    **{cls: name for name, cls in DECIMALS.items()},
    Char: "char",
    uuid.UUID: "uuid",
    bytes: "binary",
    str: "string",
    Symbol: "symbol",
    list: "list",
    dict: "map",
    AmqpMap: "map",
    Array: "array",
    Described: "described",
}
#: Widths in bytes of the types that notations write as bit patterns.
BIT_PATTERN_WIDTHS = {
    "float": 4,
    "double": 8,
    **{name: cls.width for name, cls in DECIMALS.items()},
    "uuid": 16,
}
_DOUBLE_STRUCT = struct.Struct(">d")


def bits_of(value: Any) -> bytes:
    """Return the bit pattern of a value: its encoding without constructor."""
    if type(value) is float:
        return _DOUBLE_STRUCT.pack(value)
    if isinstance(value, uuid.UUID):
        return value.bytes
    return int(value.bits).to_bytes(BIT_PATTERN_WIDTHS[TYPE_NAME_BY_CLASS[type(value)]], "big")


def of_bits(name: str, octets: bytes) -> Any:
    """Decode a value of the type `name` from its bit pattern; the inverse of `bits_of`."""
    if name == "double":
        return _DOUBLE_STRUCT.unpack(octets)[0]
    if name == "uuid":
        return uuid.UUID(bytes=octets)
    bits = int.from_bytes(octets, "big")
    return Float.from_bits(bits) if name == "float" else DECIMALS[name](bits)


def integer_range(name: str) -> tuple[int, int, Any]:
    """Return the minimum, the maximum and the Python class of an integer type."""
    cls = INTEGERS.get(name)
    return (cls.min, cls.max, cls) if cls else (-(2**63), 2**63 - 1, int)
