"""The AMQP types of Part 1 as Python types.

None, bool, bytes, str, uuid.UUID, list, dict, int (long) and float (double) need no wrapper. The
classes in this package represent all other AMQP types. If possible, they are subclasses of the
similar Python type, so that ``UInt(5) == 5``.

The lower-case names are annotations for the fields of composites. An annotation determines the
AMQP type of the field, which therefore accepts plain ints, strings and datetimes.
"""

from __future__ import annotations

from typing import Annotated, Any

import attrs

from amqp10msg.wire.primitives.compounds import AmqpMap, Array, Described, identical, plain
from amqp10msg.wire.primitives.format_codes import FORMAT_CODES, HEAD_SIZES, FormatCode
from amqp10msg.wire.primitives.simple import (
    DECIMALS,
    INTEGERS,
    Byte,
    Char,
    Decimal32,
    Decimal64,
    Decimal128,
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

__all__ = [
    "DECIMALS",
    "FORMAT_CODES",
    "HEAD_SIZES",
    "INTEGERS",
    "AmqpMap",
    "Array",
    "Byte",
    "Char",
    "Decimal32",
    "Decimal64",
    "Decimal128",
    "Described",
    "Float",
    "FormatCode",
    "Int",
    "Short",
    "Symbol",
    "Timestamp",
    "UByte",
    "UInt",
    "ULong",
    "UShort",
    "WireType",
    "identical",
    "plain",
]


# Annotations of the fields of composites.


@attrs.frozen
class WireType:
    """The wire type of a composite's field, in the metadata of an Annotated alias.

    Attributes:
        type: the AMQP type, or ``*`` for any type.
        name: the name of a restricted type, such as ``milliseconds``; else empty.
        multiple: whether the field holds null, one value or an array of values (Part 1, 1.4).
        requires: the archetype that the value must provide, such as ``address``.
        enum: the enum class with the choices of a restricted type, or None.
        max_size: the maximum size of a restricted type in bytes, or None.
    """

    type: str
    name: str = ""
    multiple: bool = False
    requires: str = ""
    enum: Any = None
    max_size: int | None = None


boolean = Annotated[bool, WireType("boolean")]
ubyte = Annotated[int, WireType("ubyte")]
ushort = Annotated[int, WireType("ushort")]
uint = Annotated[int, WireType("uint")]
ulong = Annotated[int, WireType("ulong")]
milliseconds = Annotated[int, WireType("uint", "milliseconds")]
seconds = Annotated[int, WireType("uint", "seconds")]
sequence_no = Annotated[int, WireType("uint", "sequence-no")]
timestamp = Annotated[int, WireType("timestamp")]
string = Annotated[str, WireType("string")]
symbol = Annotated[str, WireType("symbol")]
symbols = Annotated[tuple[str, ...], WireType("symbol", multiple=True)]
binary = Annotated[bytes, WireType("binary")]
fields = Annotated[dict[str, Any], WireType("map", "fields")]
