"""Numbers of the kernel: kinds of values, shapes and order of sections, tables by format code.

And the tables of what the declarations register, of sections and composites.

The compiled modules hold the constants as C integers (`cdef int` in their ``.pxd``).
"""

from __future__ import annotations

import datetime
import decimal
import uuid
from typing import Any

from amqp10msg.wire.primitives import (
    FORMAT_CODES,
    AmqpMap,
    Array,
    Byte,
    Char,
    Decimal32,
    Decimal64,
    Decimal128,
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

# What a format code constructs. The names are those of Part 1 after ``KIND_``.
(
    KIND_NULL,
    KIND_BOOLEAN,
    KIND_UBYTE,
    KIND_USHORT,
    KIND_UINT,
    KIND_ULONG,
    KIND_BYTE,
    KIND_SHORT,
    KIND_INT,
    KIND_LONG,
    KIND_FLOAT,
    KIND_DOUBLE,
    KIND_DECIMAL32,
    KIND_DECIMAL64,
    KIND_DECIMAL128,
    KIND_CHAR,
    KIND_TIMESTAMP,
    KIND_UUID,
    KIND_BINARY,
    KIND_STRING,
    KIND_SYMBOL,
    KIND_LIST,
    KIND_MAP,
    KIND_ARRAY,
    # Only fields are declared as these: any type, the two archetypes of Part 3, 3.2, and a map
    # whose keys are symbols.
    KIND_DESCRIBED,
    KIND_ANY,
    KIND_MESSAGE_ID,
    KIND_ADDRESS,
    KIND_FIELDS,
    # Only Python types say these, to the writer.
    KIND_PAIRS,
    KIND_DATETIME,
    KIND_EXACT,
) = range(1, 33)

#: The kinds by their names in Part 1 and in the declarations of fields.
TYPE_IDS: dict[str, int] = {
    "null": KIND_NULL,
    "boolean": KIND_BOOLEAN,
    "ubyte": KIND_UBYTE,
    "ushort": KIND_USHORT,
    "uint": KIND_UINT,
    "ulong": KIND_ULONG,
    "byte": KIND_BYTE,
    "short": KIND_SHORT,
    "int": KIND_INT,
    "long": KIND_LONG,
    "float": KIND_FLOAT,
    "double": KIND_DOUBLE,
    "decimal32": KIND_DECIMAL32,
    "decimal64": KIND_DECIMAL64,
    "decimal128": KIND_DECIMAL128,
    "char": KIND_CHAR,
    "timestamp": KIND_TIMESTAMP,
    "uuid": KIND_UUID,
    "binary": KIND_BINARY,
    "string": KIND_STRING,
    "symbol": KIND_SYMBOL,
    "list": KIND_LIST,
    "map": KIND_MAP,
    "array": KIND_ARRAY,
    "described": KIND_DESCRIBED,
    "*": KIND_ANY,
    "message-id": KIND_MESSAGE_ID,
    "address": KIND_ADDRESS,
    "fields": KIND_FIELDS,
}
TYPE_NAMES = {number: name for name, number in TYPE_IDS.items()}
#: What an error says that a field wants.
WANTED = {
    **TYPE_NAMES,
    KIND_MESSAGE_ID: "ulong, uuid, binary or string",
    KIND_ADDRESS: "string",
    KIND_FIELDS: "map with symbols as keys",
}
KIND_COUNT = KIND_EXACT + 1


def _least(code: int) -> int:
    row = FORMAT_CODES.get(code)
    if row is None:
        return 0
    if row.category == "compound":
        return row.width * 2
    return row.width * 2 + 1 if row.category == "array" else row.width


def _by_kind(numbers: dict[int, int]) -> bytes:
    return bytes(numbers.get(kind, 0) for kind in range(KIND_COUNT))


#: The kind that each format code constructs, 0 for a byte that is none.
KIND_OF = bytes(
    TYPE_IDS[FORMAT_CODES[code].type] if code in FORMAT_CODES else 0 for code in range(256)
)
#: The fewest bytes that an element takes after a shared constructor.
LEAST = bytes(_least(code) for code in range(256))
# What `STEPS` says of values with a size of one byte, and of four.
SHORT_SIZE = 32
LONG_SIZE = 33


def _step(code: int) -> int:
    if code not in FORMAT_CODES:
        return 0
    if code < 0xA0:
        return 1 + LEAST[code]
    return LONG_SIZE if code & 0x10 else SHORT_SIZE


#: The bytes of a value, its format code among them, or one of the two above; 0 for what is none.
STEPS = bytes(_step(code) for code in range(256))
#: The kinds of field that a string fits.
IS_STRING = _by_kind({KIND_STRING: 1, KIND_MESSAGE_ID: 1, KIND_ADDRESS: 1})

#: The kinds of a message-id (Part 3, 3.2.11 to 3.2.14).
IS_MESSAGE_ID = _by_kind({KIND_ULONG: 1, KIND_UUID: 1, KIND_BINARY: 1, KIND_STRING: 1})

#: The wide forms of integers: constructor, and width in bytes.
WIDE_CODES = _by_kind(
    {
        KIND_UBYTE: 0x50,
        KIND_USHORT: 0x60,
        KIND_UINT: 0x70,
        KIND_ULONG: 0x80,
        KIND_BYTE: 0x51,
        KIND_SHORT: 0x61,
        KIND_INT: 0x71,
        KIND_LONG: 0x81,
        KIND_TIMESTAMP: 0x83,
    }
)
WIDTHS = bytes(LEAST[code] if code else 0 for code in WIDE_CODES)
#: Their constructors of one byte after them, of a zero alone, and whether they have a sign.
SMALL_CODES = _by_kind({KIND_UINT: 0x52, KIND_ULONG: 0x53, KIND_INT: 0x54, KIND_LONG: 0x55})
ZERO_CODES = _by_kind({KIND_UINT: 0x43, KIND_ULONG: 0x44})
SIGNED = _by_kind(dict.fromkeys((KIND_BYTE, KIND_SHORT, KIND_INT, KIND_LONG, KIND_TIMESTAMP), 1))

#: Python types that say their AMQP type, as the kinds that `put` branches on.
KINDS: dict[type, int] = {
    str: KIND_STRING,
    int: KIND_LONG,
    bool: KIND_BOOLEAN,
    type(None): KIND_NULL,
    Symbol: KIND_SYMBOL,
    bytes: KIND_BINARY,
    dict: KIND_MAP,
    list: KIND_LIST,
    float: KIND_DOUBLE,
    UInt: KIND_UINT,
    Int: KIND_INT,
    ULong: KIND_ULONG,
    UByte: KIND_UBYTE,
    UShort: KIND_USHORT,
    Byte: KIND_BYTE,
    Short: KIND_SHORT,
    Timestamp: KIND_TIMESTAMP,
    uuid.UUID: KIND_UUID,
    Float: KIND_FLOAT,
    Char: KIND_CHAR,
    Decimal32: KIND_DECIMAL32,
    Decimal64: KIND_DECIMAL64,
    Decimal128: KIND_DECIMAL128,
    Array: KIND_ARRAY,
    AmqpMap: KIND_PAIRS,
    Described: KIND_DESCRIBED,
    bytearray: KIND_BINARY,
    memoryview: KIND_BINARY,
    datetime.datetime: KIND_DATETIME,
    decimal.Decimal: KIND_EXACT,
}

#: By code less 0x50: every value of the one-byte forms, as the wrappers cost more than the parsing.
OF_OCTET: list[list[Any]] = [
    [UByte(i) for i in range(256)],
    [Byte(i - 256 if i > 127 else i) for i in range(256)],
    [UInt(i) for i in range(256)],
    [ULong(i) for i in range(256)],
    [Int(i - 256 if i > 127 else i) for i in range(256)],
]

# Python hashes numbers, timestamps and UUIDs without a secret, so a peer can choose such keys to
# collide and make a dict quadratic. A dict gets at most this many of them (some 5 ms at worst), a
# larger map becomes an AmqpMap.
MAX_GUESSABLE = 4096


def _usual(kind: int) -> bytes:
    codes = {0x40, 0xA1} if IS_STRING[kind] else {0x40}
    codes |= {
        KIND_BOOLEAN: {0x41, 0x42},
        KIND_UBYTE: {0x50},
        KIND_UINT: {0x52, 0x43, 0x70},
        KIND_ULONG: {0x53, 0x44},
        KIND_TIMESTAMP: {0x83},
        KIND_BINARY: {0xA0},
        KIND_SYMBOL: {0xA3},
        KIND_MESSAGE_ID: {0xA0},
    }.get(kind, set())
    return bytes(code in codes for code in range(256))


#: By kind of field and format code: whether the quick reader takes it.
USUAL = [_usual(kind) for kind in range(KIND_COUNT)]

# Shapes of sections and composites.
(
    SHAPE_COMPOSITE,
    SHAPE_ANNOTATIONS,
    SHAPE_PROPERTIES,
    SHAPE_BINARY,
    SHAPE_SEQUENCE,
    SHAPE_VALUE,
) = range(6)

# What a step of a template writes.
(
    STEP_COPY,  # bytes, as they are
    STEP_OPEN,  # begins a list or map
    STEP_LIST,  # ends the list of a composite
    STEP_MAP,  # ends a map
    STEP_FIELDS,  # fields of a composite that do not vary
    STEP_FIELD,  # one that does
    STEP_TYPED,  # a value of one type, or null
    STEP_VALUE,  # a value of any type
    STEP_PROPERTY,  # a value of any simple type
    STEP_SECTION,  # a section, or none
    STEP_DATA,  # the content of a data section
    STEP_SEQUENCE,  # the content of an amqp-sequence section
    STEP_BODY,  # a body of any kind, or none
) = range(13)

# Sections by their code less that of the header, which is also their order in a message but for
# the three kinds of body, of which a message has one.
FIRST_CODE = 0x70
(
    HEADER,
    DELIVERY_ANNOTATIONS,
    MESSAGE_ANNOTATIONS,
    PROPERTIES,
    APPLICATION_PROPERTIES,
    DATA,
    AMQP_SEQUENCE,
    AMQP_VALUE,
    FOOTER,
) = range(9)
SECTION_COUNT = 9
#: Their numeric descriptors (Part 3, 3.2).
(
    HEADER_CODE,
    DELIVERY_ANNOTATIONS_CODE,
    MESSAGE_ANNOTATIONS_CODE,
    PROPERTIES_CODE,
    APPLICATION_PROPERTIES_CODE,
    DATA_CODE,
    AMQP_SEQUENCE_CODE,
    AMQP_VALUE_CODE,
    FOOTER_CODE,
) = range(FIRST_CODE, FIRST_CODE + SECTION_COUNT)
#: The place of each section in a message: the kinds of body share one.
PLACES = bytes((0, 1, 2, 3, 4, 5, 5, 5, 6))
#: Whether a message may have several of each.
REPEATABLE = bytes((0, 0, 0, 0, 0, 1, 1, 0, 0))


def _followers(last: int) -> bytes:
    sections = range(SECTION_COUNT)
    allowed = {
        FIRST_CODE + section
        for section in sections
        if last < 0 or PLACES[section] > PLACES[last] or (section == last and REPEATABLE[section])
    }
    return bytes(code in allowed for code in range(256))


#: The one table of the order of sections (Part 3, 3.2): by the section before (the beginning first)
#: and by the code of a section, whether it may follow.
FOLLOWERS = [_followers(last) for last in range(-1, SECTION_COUNT)]

# Where a message's attributes stand in the list that it is made from: the places above, then these.
PLACE_BODY = 5
PLACE_FOOTER = 6
PLACE_WIRE = 8
PLACE_LENIENT = 9


def order_rule(section: int, last: int, seen: int) -> str:
    """Return the rule on the order of sections that a section breaks, or an empty text.

    Args:
        section: its number, the code less 0x70.
        last: the section of the highest place before it, of several kinds of body the first one;
            -1 for none.
        seen: the sections before it, as bits.
    """
    if FOLLOWERS[last + 1][FIRST_CODE + section]:
        return ""
    if PLACES[section] == PLACES[last] == PLACE_BODY and section != last:
        return "mixed-body-sections"
    if section == last or (seen >> section & 1 and PLACES[section] != PLACE_BODY):
        return "duplicate-section"
    return "section-out-of-order"


# Filled by the declarations, which stand to the right of the kernel.
#: Specs by class.
SPECS: dict[type, Any] = {}
#: The nine kinds of section, in the order of their codes; those of bodies also on their own.
SECTIONS: list[Any] = []
BODIES: list[Any] = []
#: The codes of sections by descriptor: its number, or its symbol as bytes.
CODES: dict[Any, int] = {}
#: Names of sections and their fields by descriptor, for the paths in errors.
NAMES: dict[Any, Any] = {}
#: The layout of Message, and what reads one that may break the rules.
MESSAGE: list[Any] = []
#: The class that `scan` returns.
SCAN: list[Any] = []
