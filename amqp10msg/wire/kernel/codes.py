"""Constants of the kernel: kinds of values, tables by format code, shapes and order of sections.

The module also has the registries of sections and composites, which their declarations fill.

The compiled modules declare the constants as C integers (`cdef int` in their ``.pxd``).
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

# Kinds of values, which are numbers of types. The names after ``KIND_`` are type names of Part 1.
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
    KIND_DESCRIBED,
    # Kinds that only declared fields have: any type, a message-id, an address, and a map whose
    # keys are symbols.
    KIND_ANY,
    KIND_MESSAGE_ID,
    KIND_ADDRESS,
    KIND_FIELDS,
    # Kinds of values that only the writer uses: the Python types AmqpMap, datetime and Decimal.
    KIND_PAIRS,
    KIND_DATETIME,
    KIND_EXACT,
) = range(1, 33)

#: The kind of each type name, in Part 1 and in field declarations.
KIND_OF_TYPE_NAME: dict[str, int] = {
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
TYPE_NAME_OF_KIND = {number: name for name, number in KIND_OF_TYPE_NAME.items()}
#: The names of the expected types of fields, as error texts contain them, by kind.
FIELD_TYPE_TEXTS = {
    **TYPE_NAME_OF_KIND,
    KIND_MESSAGE_ID: "ulong, uuid, binary or string",
    KIND_ADDRESS: "string",
    KIND_FIELDS: "map with symbols as keys",
}
KIND_COUNT = KIND_EXACT + 1


def _min_size(code: int) -> int:
    """Return the minimum size of a value after its format code, in bytes."""
    row = FORMAT_CODES.get(code)
    if row is None:
        return 0
    if row.category == "compound":
        return row.width * 2
    return row.width * 2 + 1 if row.category == "array" else row.width


def _by_kind(numbers: dict[int, int]) -> bytes:
    """Return a table of `numbers` by kind; 0 for other kinds."""
    return bytes(numbers.get(kind, 0) for kind in range(KIND_COUNT))


#: The kind of each format code; 0 for bytes that are not format codes.
KIND_OF_FORMAT_CODE = bytes(
    KIND_OF_TYPE_NAME[FORMAT_CODES[code].type] if code in FORMAT_CODES else 0 for code in range(256)
)
#: The minimum size of a value after its format code, in bytes, by format code. It is the minimum
#: size of an array element.
MIN_SIZE_OF_FORMAT_CODE = bytes(_min_size(code) for code in range(256))
# The entries of `SKIP_LENGTH_OF_FORMAT_CODE` for values with a size field of one byte, and of four
# bytes.
ONE_BYTE_SIZE_FIELD = 32
FOUR_BYTE_SIZE_FIELD = 33


def _step(code: int) -> int:
    """Return the entry of `SKIP_LENGTH_OF_FORMAT_CODE` for a format code."""
    if code not in FORMAT_CODES:
        return 0
    if code < 0xA0:
        return 1 + MIN_SIZE_OF_FORMAT_CODE[code]
    return FOUR_BYTE_SIZE_FIELD if code & 0x10 else ONE_BYTE_SIZE_FIELD


#: By format code, the number of bytes to skip for a fixed-width value, including the format code;
#: `ONE_BYTE_SIZE_FIELD` or `FOUR_BYTE_SIZE_FIELD` for other values; 0 for bytes that are not format
#: codes.
SKIP_LENGTH_OF_FORMAT_CODE = bytes(_step(code) for code in range(256))
#: By kind, whether a field of this kind accepts a string.
KIND_ACCEPTS_STRING = _by_kind({KIND_STRING: 1, KIND_MESSAGE_ID: 1, KIND_ADDRESS: 1})

#: By kind, whether it is the type of a message-id (Part 3, 3.2.11 to 3.2.14).
KIND_IS_MESSAGE_ID = _by_kind({KIND_ULONG: 1, KIND_UUID: 1, KIND_BINARY: 1, KIND_STRING: 1})

#: By kind of integer, the format code of the encoding with the full width.
FULL_WIDTH_CODE_OF_KIND = _by_kind(
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
#: By kind of integer, the full width in bytes; 0 for other kinds.
INTEGER_WIDTH_OF_KIND = bytes(
    MIN_SIZE_OF_FORMAT_CODE[code] if code else 0 for code in FULL_WIDTH_CODE_OF_KIND
)
#: By kind of integer, the format code of the one-byte encoding; 0 if there is none.
ONE_BYTE_CODE_OF_KIND = _by_kind(
    {KIND_UINT: 0x52, KIND_ULONG: 0x53, KIND_INT: 0x54, KIND_LONG: 0x55}
)
#: By kind of integer, the format code of the encoding of zero without data; 0 if there is none.
ZERO_CODE_OF_KIND = _by_kind({KIND_UINT: 0x43, KIND_ULONG: 0x44})
#: By kind, whether it is a signed integer.
IS_SIGNED_KIND = _by_kind(
    dict.fromkeys((KIND_BYTE, KIND_SHORT, KIND_INT, KIND_LONG, KIND_TIMESTAMP), 1)
)

#: The kinds by Python type, for values whose Python type determines their AMQP type.
KIND_OF_PYTHON_TYPE: dict[type, int] = {
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

#: The values of the format codes 0x50 to 0x54, by format code minus 0x50 and by their byte of data.
#: A lookup costs less than creating the object.
VALUES_OF_ONE_BYTE: list[list[Any]] = [
    [UByte(i) for i in range(256)],
    [Byte(i - 256 if i > 127 else i) for i in range(256)],
    [UInt(i) for i in range(256)],
    [ULong(i) for i in range(256)],
    [Int(i - 256 if i > 127 else i) for i in range(256)],
]

# Maximum number of keys of a dict that are numbers, timestamps or UUIDs; a larger map becomes an
# AmqpMap. Python hashes such keys without a secret, so that a peer can choose keys with equal
# hashes, which make insertion quadratic (about 5 ms for this number of keys).
MAX_KEYS_WITH_GUESSABLE_HASH = 4096


def _usual_codes(kind: int) -> bytes:
    """Return the entry of `IS_USUAL_CODE_OF_KIND` for a kind."""
    codes = {0x40, 0xA1} if KIND_ACCEPTS_STRING[kind] else {0x40}
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


#: Whether the fast path reads a field, by the kind of the field and the format code of its value.
IS_USUAL_CODE_OF_KIND = [_usual_codes(kind) for kind in range(KIND_COUNT)]

# Shapes of sections and composites.
(
    SHAPE_COMPOSITE,
    SHAPE_ANNOTATIONS,
    SHAPE_PROPERTIES,
    SHAPE_BINARY,
    SHAPE_SEQUENCE,
    SHAPE_VALUE,
) = range(6)

# The kinds of steps in which a message template encodes a message (see `templates.Step`).
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
FIRST_SECTION_CODE = 0x70
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
#: The numeric descriptors of the sections (Part 3, 3.2).
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
) = range(FIRST_SECTION_CODE, FIRST_SECTION_CODE + SECTION_COUNT)
#: The position of each section in a message, by its number. The kinds of body share a position.
PLACE_OF_SECTION = bytes((0, 1, 2, 3, 4, 5, 5, 5, 6))
#: Whether a section may occur several times, by its number.
IS_SECTION_REPEATABLE = bytes((0, 0, 0, 0, 0, 1, 1, 0, 0))


def _followers(last: int) -> bytes:
    """Return the entry of `ALLOWED_NEXT_SECTIONS` for the previous section `last`.

    `last` is -1 at the start of the message.
    """
    sections = range(SECTION_COUNT)
    allowed = {
        FIRST_SECTION_CODE + section
        for section in sections
        if last < 0
        or PLACE_OF_SECTION[section] > PLACE_OF_SECTION[last]
        or (section == last and IS_SECTION_REPEATABLE[section])
    }
    return bytes(code in allowed for code in range(256))


#: Whether a section may follow another (Part 3, 3.2), by the number of the previous section plus 1
#: (0 for the start of the message), and by the code of the section.
ALLOWED_NEXT_SECTIONS = [_followers(last) for last in range(-1, SECTION_COUNT)]

# Indexes in the list of the attributes of a message. The indexes 0 to 6 are the values of
# `PLACE_OF_SECTION`.
PLACE_BODY = 5
PLACE_FOOTER = 6
PLACE_WIRE = 8
PLACE_LENIENT = 9


def order_rule(section: int, last: int, earlier_sections: int) -> str:
    """Return the name of the rule on the order of sections that a section violates; empty if none.

    Args:
        section: the number of the section.
        last: the number of the earlier section with the highest position; of several kinds of body,
            the first. -1 if there is no earlier section.
        earlier_sections: the earlier sections, as bits.
    """
    if ALLOWED_NEXT_SECTIONS[last + 1][FIRST_SECTION_CODE + section]:
        return ""
    if PLACE_OF_SECTION[section] == PLACE_OF_SECTION[last] == PLACE_BODY and section != last:
        return "mixed-body-sections"
    if section == last or (
        earlier_sections >> section & 1 and PLACE_OF_SECTION[section] != PLACE_BODY
    ):
        return "duplicate-section"
    return "section-out-of-order"


# Registries, which the declarations of sections and composites fill when they are imported.
#: The declarations (`writer.Spec`) by class.
SPEC_OF_CLASS: dict[type, Any] = {}
#: The declarations of the nine sections, in the order of their codes.
SECTION_SPECS: list[Any] = []
#: The declarations of the three body sections.
BODY_SECTION_SPECS: list[Any] = []
#: The codes of sections by descriptor, which is a number, or a symbol as bytes.
SECTION_CODE_OF_DESCRIPTOR: dict[Any, int] = {}
#: The names of sections and of their fields by descriptor, for the paths in errors.
NAMES_OF_DESCRIPTOR: dict[Any, Any] = {}
#: The arguments of `register_message`: the `AttributeSlots` of Message, the function that decodes
#: leniently, and the function that returns the error for the first fault.
REGISTER_MESSAGE_ARGUMENTS: list[Any] = []
#: The class of the results of `scan`.
REGISTERED_SCAN_CLASS: list[Any] = []
