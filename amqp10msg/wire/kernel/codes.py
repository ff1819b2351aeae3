"""Constants of the kernel: kinds of values, tables by format code, shapes and order of sections.

Also the registries of sections and composites, which the declarations fill.

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

# Kinds of values. The names after ``KIND_`` are the type names of Part 1.
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
    # Kinds of declared fields only: any type, the two archetypes of Part 3, 3.2, and a map with
    # symbols as keys.
    KIND_DESCRIBED,
    KIND_ANY,
    KIND_MESSAGE_ID,
    KIND_ADDRESS,
    KIND_FIELDS,
    # Kinds of Python types, for the writer only.
    KIND_PAIRS,
    KIND_DATETIME,
    KIND_EXACT,
) = range(1, 33)

#: The kinds by the type names of Part 1, which declarations of fields use.
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
#: The expected type of a field, as named in errors.
FIELD_TYPES = {
    **TYPE_NAMES,
    KIND_MESSAGE_ID: "ulong, uuid, binary or string",
    KIND_ADDRESS: "string",
    KIND_FIELDS: "map with symbols as keys",
}
KIND_COUNT = KIND_EXACT + 1


def _min_size(code: int) -> int:
    row = FORMAT_CODES.get(code)
    if row is None:
        return 0
    if row.category == "compound":
        return row.width * 2
    return row.width * 2 + 1 if row.category == "array" else row.width


def _by_kind(numbers: dict[int, int]) -> bytes:
    return bytes(numbers.get(kind, 0) for kind in range(KIND_COUNT))


#: The kind of each format code; 0 for bytes that are not format codes.
KIND_OF = bytes(
    TYPE_IDS[FORMAT_CODES[code].type] if code in FORMAT_CODES else 0 for code in range(256)
)
#: The minimum size in bytes of an array element, by its constructor.
MIN_SIZES = bytes(_min_size(code) for code in range(256))
# Entries of `STEPS` for values with a size field of one byte, and of four.
SHORT_SIZE = 32
LONG_SIZE = 33


def _step(code: int) -> int:
    if code not in FORMAT_CODES:
        return 0
    if code < 0xA0:
        return 1 + MIN_SIZES[code]
    return LONG_SIZE if code & 0x10 else SHORT_SIZE


#: The size in bytes of a fixed-width value with its format code, or `SHORT_SIZE` or `LONG_SIZE`; 0
#: for bytes that are not format codes.
STEPS = bytes(_step(code) for code in range(256))
#: The kinds of fields that accept a string.
IS_STRING = _by_kind({KIND_STRING: 1, KIND_MESSAGE_ID: 1, KIND_ADDRESS: 1})

#: The kinds of a message-id (Part 3, 3.2.11 to 3.2.14).
IS_MESSAGE_ID = _by_kind({KIND_ULONG: 1, KIND_UUID: 1, KIND_BINARY: 1, KIND_STRING: 1})

#: The constructor of the wide form of each integer kind.
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
WIDTHS = bytes(MIN_SIZES[code] if code else 0 for code in WIDE_CODES)
#: The constructors of the one-byte forms of integers, and of the forms for zero, which have no
#: data; and whether a kind is signed.
SMALL_CODES = _by_kind({KIND_UINT: 0x52, KIND_ULONG: 0x53, KIND_INT: 0x54, KIND_LONG: 0x55})
ZERO_CODES = _by_kind({KIND_UINT: 0x43, KIND_ULONG: 0x44})
SIGNED = _by_kind(dict.fromkeys((KIND_BYTE, KIND_SHORT, KIND_INT, KIND_LONG, KIND_TIMESTAMP), 1))

#: The kinds of the Python types that determine the AMQP type, for `put`.
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

#: All values with one byte of data, by format code minus 0x50 and byte. A lookup costs less than
#: creating the object.
OF_OCTET: list[list[Any]] = [
    [UByte(i) for i in range(256)],
    [Byte(i - 256 if i > 127 else i) for i in range(256)],
    [UInt(i) for i in range(256)],
    [ULong(i) for i in range(256)],
    [Int(i - 256 if i > 127 else i) for i in range(256)],
]

# Python hashes numbers, timestamps and UUIDs without a secret, so a peer can choose keys that
# collide and make insertion quadratic. A dict gets at most this many such keys (about 5 ms in the
# worst case); a larger map becomes an AmqpMap.
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


#: Whether the quick reader handles a value, by the kind of the field and the format code.
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

# The kinds of steps of a template.
(
    STEP_COPY,  # copies bytes
    STEP_OPEN,  # begins a list or map
    STEP_LIST,  # ends the list of a composite
    STEP_MAP,  # ends a map
    STEP_FIELDS,  # constant fields of a composite
    STEP_FIELD,  # a variable field of a composite
    STEP_TYPED,  # a value of one type, or null
    STEP_VALUE,  # a value of any type
    STEP_PROPERTY,  # a value of any simple type
    STEP_SECTION,  # a section, or no section
    STEP_DATA,  # the content of a data section
    STEP_SEQUENCE,  # the content of an amqp-sequence section
    STEP_BODY,  # a body of any kind, or no body
) = range(13)

# The number of a section is its code minus the code of the header. Sections are ordered by number,
# but a message has only one of the three kinds of body.
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
#: The position of each section in a message: the kinds of body share a position.
PLACES = bytes((0, 1, 2, 3, 4, 5, 5, 5, 6))
#: Whether a section may occur several times.
REPEATABLE = bytes((0, 0, 0, 0, 0, 1, 1, 0, 0))


def _followers(last: int) -> bytes:
    sections = range(SECTION_COUNT)
    allowed = {
        FIRST_CODE + section
        for section in sections
        if last < 0 or PLACES[section] > PLACES[last] or (section == last and REPEATABLE[section])
    }
    return bytes(code in allowed for code in range(256))


#: The order of sections (Part 3, 3.2): whether a section may follow, by the number of the previous
#: section plus 1 (0 at the beginning of the message) and the code of the section.
FOLLOWERS = [_followers(last) for last in range(-1, SECTION_COUNT)]

# Indexes of the list of attributes that a message is built from: the positions above, then these.
PLACE_BODY = 5
PLACE_FOOTER = 6
PLACE_WIRE = 8
PLACE_LENIENT = 9


def order_rule(section: int, last: int, earlier_sections: int) -> str:
    """Return the rule on the order of sections that a section violates, or an empty text.

    Args:
        section: its number.
        last: the number of the earlier section with the highest position, for several kinds of body
            the first; -1 for the first section.
        earlier_sections: the earlier sections, as bits.
    """
    if FOLLOWERS[last + 1][FIRST_CODE + section]:
        return ""
    if PLACES[section] == PLACES[last] == PLACE_BODY and section != last:
        return "mixed-body-sections"
    if section == last or (earlier_sections >> section & 1 and PLACES[section] != PLACE_BODY):
        return "duplicate-section"
    return "section-out-of-order"


# Filled by the declarations, which import the kernel.
#: Specs by class.
SPECS: dict[type, Any] = {}
#: The specs of the nine sections in the order of their codes.
SECTIONS: list[Any] = []
#: The specs of the three body sections.
BODIES: list[Any] = []
#: The codes of sections by descriptor: its number, or its symbol as bytes.
CODES: dict[Any, int] = {}
#: Names of sections and their fields by descriptor, for the paths in errors.
NAMES: dict[Any, Any] = {}
#: The layout of Message, and the function that decodes leniently.
MESSAGE: list[Any] = []
#: The class of the results of `scan`.
SCAN: list[Any] = []
