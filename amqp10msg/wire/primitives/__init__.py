"""The types of AMQP 1.0 Part 1 as Python types.

A value whose Python type carries the AMQP type needs no wrapper: None, bool, bytes, str, uuid.UUID,
list, dict, a plain int (long) and a plain float (double). The classes here stand for the others.
They subclass the Python type that they behave like, so ``UInt(5) == 5``.

The lower-case names annotate the fields of composites: there the declaration gives the type,
and plain ints, strings and datetimes go in.
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
    "Wire",
    "identical",
    "plain",
]


# What annotates the fields of composites: the type of each on the wire.


@attrs.frozen
class Wire:
    """What a composite's field is on the wire; stands in the metadata of an Annotated alias.

    Attributes:
        type: the AMQP type, or ``*`` for any.
        name: the name in the specification where it is a restricted type, such as milliseconds.
        multiple: null, one value or an array of values (Part 1, 1.4).
        requires: the archetype that the value must provide, such as address.
        enum: the choices of a restricted type.
        size: bytes that a restricted type has at most, or None for no bound of its own.
    """

    type: str
    name: str = ""
    multiple: bool = False
    requires: str = ""
    enum: Any = None
    size: int | None = None


boolean = Annotated[bool, Wire("boolean")]
ubyte = Annotated[int, Wire("ubyte")]
ushort = Annotated[int, Wire("ushort")]
uint = Annotated[int, Wire("uint")]
ulong = Annotated[int, Wire("ulong")]
milliseconds = Annotated[int, Wire("uint", "milliseconds")]
seconds = Annotated[int, Wire("uint", "seconds")]
sequence_no = Annotated[int, Wire("uint", "sequence-no")]
timestamp = Annotated[int, Wire("timestamp")]
string = Annotated[str, Wire("string")]
symbol = Annotated[str, Wire("symbol")]
symbols = Annotated[tuple[str, ...], Wire("symbol", multiple=True)]
binary = Annotated[bytes, Wire("binary")]
fields = Annotated[dict[str, Any], Wire("map", "fields")]
