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
TYPES: dict[type, str] = {
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
WIDTHS = {
    "float": 4,
    "double": 8,
    **{name: cls.width for name, cls in DECIMALS.items()},
    "uuid": 16,
}
_DOUBLE = struct.Struct(">d")


def bits_of(value: Any) -> bytes:
    """Return the encoding, without constructor, of a value whose type is in `WIDTHS`."""
    if type(value) is float:
        return _DOUBLE.pack(value)
    if isinstance(value, uuid.UUID):
        return value.bytes
    return int(value.bits).to_bytes(WIDTHS[TYPES[type(value)]], "big")


def of_bits(name: str, octets: bytes) -> Any:
    """Decode a value of the type `name`, which is in `WIDTHS`; the inverse of `bits_of`."""
    if name == "double":
        return _DOUBLE.unpack(octets)[0]
    if name == "uuid":
        return uuid.UUID(bytes=octets)
    bits = int.from_bytes(octets, "big")
    return Float.from_bits(bits) if name == "float" else DECIMALS[name](bits)


def integer_range(name: str) -> tuple[int, int, Any]:
    """Return the minimum, the maximum and the Python class of an integer type."""
    cls = INTEGERS.get(name)
    return (cls.min, cls.max, cls) if cls else (-(2**63), 2**63 - 1, int)
