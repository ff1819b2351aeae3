"""The types of AMQP 1.0 Part 1 as Python types.

A value whose Python type carries the AMQP type needs no wrapper: None, bool, bytes, str, uuid.UUID,
list, dict, a plain int (long) and a plain float (double). The classes here stand for the others.
They subclass the Python type that they behave like, so ``UInt(5) == 5``.

The lower-case names annotate the fields of composites: there the declaration gives the type,
and plain ints, strings and datetimes go in.
"""

from amqp10msg.wire.primitives.annotations import Wire
from amqp10msg.wire.primitives.annotations import (
    binary as binary,
)
from amqp10msg.wire.primitives.annotations import (
    boolean as boolean,
)
from amqp10msg.wire.primitives.annotations import (
    fields as fields,
)
from amqp10msg.wire.primitives.annotations import (
    milliseconds as milliseconds,
)
from amqp10msg.wire.primitives.annotations import (
    seconds as seconds,
)
from amqp10msg.wire.primitives.annotations import (
    sequence_no as sequence_no,
)
from amqp10msg.wire.primitives.annotations import (
    string as string,
)
from amqp10msg.wire.primitives.annotations import (
    symbol as symbol,
)
from amqp10msg.wire.primitives.annotations import (
    symbols as symbols,
)
from amqp10msg.wire.primitives.annotations import (
    timestamp as timestamp,
)
from amqp10msg.wire.primitives.annotations import (
    ubyte as ubyte,
)
from amqp10msg.wire.primitives.annotations import (
    uint as uint,
)
from amqp10msg.wire.primitives.annotations import (
    ulong as ulong,
)
from amqp10msg.wire.primitives.annotations import (
    ushort as ushort,
)
from amqp10msg.wire.primitives.compounds import AmqpMap, Array, Described, identical, plain
from amqp10msg.wire.primitives.format_codes import FORMAT_CODES, HEAD_SIZES, FormatCode
from amqp10msg.wire.primitives.simple import (
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
    "FORMAT_CODES",
    "HEAD_SIZES",
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
