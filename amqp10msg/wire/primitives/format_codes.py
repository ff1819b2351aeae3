"""The table of format codes (Part 1, 1.6)."""

from __future__ import annotations

import attrs


@attrs.frozen
class FormatCode:
    """One format code of Part 1, 1.6.

    Attributes:
        code: the byte, 0x40 to 0xF0.
        type: the AMQP type.
        encoding: the encoding's name in the specification; empty if the type has only one.
        category: ``fixed``, ``variable``, ``compound`` or ``array``.
        width: the width of a ``fixed`` value in bytes; for the other categories, the width of the
            size field, which is also the width of the count field.
    """

    code: int
    type: str
    encoding: str
    category: str
    width: int


FORMAT_CODES: dict[int, FormatCode] = {
    row[0]: FormatCode(*row)
    for row in (
        (0x40, "null", "", "fixed", 0),
        (0x56, "boolean", "", "fixed", 1),
        (0x41, "boolean", "true", "fixed", 0),
        (0x42, "boolean", "false", "fixed", 0),
        (0x50, "ubyte", "", "fixed", 1),
        (0x60, "ushort", "", "fixed", 2),
        (0x70, "uint", "", "fixed", 4),
        (0x52, "uint", "smalluint", "fixed", 1),
        (0x43, "uint", "uint0", "fixed", 0),
        (0x80, "ulong", "", "fixed", 8),
        (0x53, "ulong", "smallulong", "fixed", 1),
        (0x44, "ulong", "ulong0", "fixed", 0),
        (0x51, "byte", "", "fixed", 1),
        (0x61, "short", "", "fixed", 2),
        (0x71, "int", "", "fixed", 4),
        (0x54, "int", "smallint", "fixed", 1),
        (0x81, "long", "", "fixed", 8),
        (0x55, "long", "smalllong", "fixed", 1),
        (0x72, "float", "ieee-754", "fixed", 4),
        (0x82, "double", "ieee-754", "fixed", 8),
        (0x74, "decimal32", "ieee-754", "fixed", 4),
        (0x84, "decimal64", "ieee-754", "fixed", 8),
        (0x94, "decimal128", "ieee-754", "fixed", 16),
        (0x73, "char", "utf32", "fixed", 4),
        (0x83, "timestamp", "ms64", "fixed", 8),
        (0x98, "uuid", "", "fixed", 16),
        (0xA0, "binary", "vbin8", "variable", 1),
        (0xB0, "binary", "vbin32", "variable", 4),
        (0xA1, "string", "str8-utf8", "variable", 1),
        (0xB1, "string", "str32-utf8", "variable", 4),
        (0xA3, "symbol", "sym8", "variable", 1),
        (0xB3, "symbol", "sym32", "variable", 4),
        (0x45, "list", "list0", "fixed", 0),
        (0xC0, "list", "list8", "compound", 1),
        (0xD0, "list", "list32", "compound", 4),
        (0xC1, "map", "map8", "compound", 1),
        (0xD1, "map", "map32", "compound", 4),
        (0xE0, "array", "array8", "array", 1),
        (0xF0, "array", "array32", "array", 4),
    )
}

#: Number of size and count fields before a value's content, by category.
_NUMBER_OF_SIZE_AND_COUNT_FIELDS = {"fixed": 0, "variable": 1, "compound": 2, "array": 2}
#: Number of bytes of constructor, size and count before a value's content, by format code.
HEAD_SIZES = bytes(
    1 + _NUMBER_OF_SIZE_AND_COUNT_FIELDS[row.category] * row.width if row else 0
    for row in map(FORMAT_CODES.get, range(256))
)
