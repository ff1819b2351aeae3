# cython: boundscheck=True, wraparound=False, annotation_typing=False, infer_types=True
"""Writing the encodings of 0-9-1 (4.2.5 and 4.2.6): `write_table` and `write_rows`.

This file runs as plain Python, and also compiled by Cython with the C types of `_writer.pxd`. Both
builds must behave alike, including the text of errors.
"""

from __future__ import annotations

import datetime
import decimal
import struct
from collections.abc import Mapping
from typing import Any

from amqp10msg.basic._reader import (
    INTEGER_FORMATS,
    LETTERS_BY_DIALECT,
    SPEC_INTEGER_FORMATS,
    PropertyLayout,
)
from amqp10msg.basic.tables import FieldArray, FieldTable, OddTrue, ScaledDecimal, as_table
from amqp10msg.wire.errors import EncodeError
from amqp10msg.wire.limits import DEFAULT_LIMITS
from amqp10msg.wire.primitives import Float, Timestamp

_U8 = struct.Struct(">B")
_U32 = struct.Struct(">I")
_U64 = struct.Struct(">Q")
_DOUBLE_STRUCT = struct.Struct(">d")
_DECIMAL_STRUCT = struct.Struct(">Bi")
_2_TO_63 = 2**63
# The integer types that are the same in all dialects, by letter: byte of the letter, width in
# bytes, minimum and maximum. The fast path does not write timestamps from 2^63 on.
_INTEGER_RANGES = {
    "b": (0x62, 1, -0x80, 0x7F),
    "B": (0x42, 1, 0, 0xFF),
    "u": (0x75, 2, 0, 0xFFFF),
    "i": (0x69, 4, 0, 0xFFFF_FFFF),
    "T": (0x54, 8, 0, _2_TO_63 - 1),
}


def octets_of(text: Any, path: str) -> bytes:
    """Return text as UTF-8. Lone surrogates become the bytes that they were decoded from."""
    if isinstance(text, str):
        try:
            return text.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            raise EncodeError(f"{text!r:.60} is not valid text", path) from None
    if isinstance(text, (bytes, bytearray, memoryview)):
        return bytes(text)
    raise EncodeError(f"must be str or bytes, not {type(text).__name__}", path)


def write_shortstr(out: Any, text: Any, path: str) -> None:
    """Append a short string; EncodeError if it has more than 255 bytes."""
    if out.text(1, text):
        return
    octets = octets_of(text, path)
    if len(octets) > 255:
        raise EncodeError(f"a short string has at most 255 bytes, not {len(octets)}", path)
    out.octet(len(octets))
    out.add(octets)


def write_longstr(out: Any, octets: Any) -> None:
    """Append a long string."""
    out.add(_U32.pack(len(octets)))
    out.add(bytes(octets))


def _begin_length(out: Any, path: str, depth: int) -> int:
    """Reserve the length field of a table or array; return its position, for `_end_length`."""
    if depth >= DEFAULT_LIMITS.depth:
        raise EncodeError("values are nested too deeply, or contain themselves", path)
    start: int = out.begin_table()
    return start


def _end_length(out: Any, start: int, path: str) -> None:
    """Write the length of a table or array to the field that `_begin_length` has reserved."""
    if not out.end_table(start):
        raise EncodeError("a table or an array has 2^32 - 1 bytes at most", path)


def _checked_entry(entry: Any, count: int, path: str) -> Any:
    """Return `entry`; raise EncodeError unless it is a field with `count` parts.

    The parts are name, letter and value in a table, and letter and value in an array.
    """
    if not isinstance(entry, (tuple, list)) or len(entry) != count:
        parts = "name, letter and value" if count == 3 else "letter and value"
        raise EncodeError(f"an entry is a tuple of {parts}, not {entry!r:.60}", path)
    letter = entry[count - 2]
    if not isinstance(letter, str) or len(letter) != 1:
        raise EncodeError(f"the letter of a field is one character, not {letter!r:.60}", path)
    return entry


def write_table(out: Any, table: Any, dialect: Any, path: str = "", depth: int = 0) -> None:
    """Append a table.

    Raises:
        EncodeError: a name or value does not fit, or the dialect has no such letter.
    """
    if type(table) is not FieldTable:
        if not isinstance(table, Mapping):
            raise EncodeError(
                f"a table is a FieldTable or a dict, not {type(table).__name__}", path
            )
        table = as_table(table, path)
    start = _begin_length(out, path, depth)
    for entry in table.entries:
        name, letter, value = _checked_entry(entry, 3, path)
        if not out.text(1, name):
            # `out.text` writes only ASCII strings of up to 255 bytes. `write_shortstr` encodes any
            # other name as UTF-8, or raises an EncodeError.
            write_shortstr(out, name, f"{path}[{name!r:.60}]")
        if letter == "S" and type(value) is str:
            out.octet(0x53)
            if not out.text(4, value):
                write_longstr(out, octets_of(value, f"{path}[{name!r:.60}]"))
        else:
            write_value(out, letter, value, dialect, path, name, depth)
    _end_length(out, start, path)


def _write_array(out: Any, array: Any, dialect: Any, path: str, depth: int) -> None:
    """Append an array; errors as for `write_table`."""
    if type(array) is not FieldArray:
        if not isinstance(array, (FieldArray, list, tuple)):
            raise EncodeError(
                f"an array is a FieldArray, a list or a tuple, not {type(array).__name__}", path
            )
        try:
            array = FieldArray(array)
        except EncodeError as error:
            error.path = f"{path}{error.path}"
            raise
    start = _begin_length(out, path, depth)
    for index, entry in enumerate(array.entries):
        letter, value = _checked_entry(entry, 2, path)
        write_value(out, letter, value, dialect, path, index, depth)
    _end_length(out, start, path)


def write_value(
    out: Any, letter: str, value: Any, dialect: Any, path: str, name: Any, depth: int
) -> None:
    """Append the letter and the value of a field; EncodeError if the letter cannot represent it.

    Args:
        out: the output.
        letter: the type letter.
        value: the value.
        dialect: the dialect of field tables.
        path: the path of the enclosing table or array, for errors.
        name: the name in a table, or the index in an array, for errors.
        depth: the number of tables and arrays that contain the enclosing one.
    """
    # Fast path for the usual types, without the lookups in the tables of letters and formats.
    if letter == "I" and type(value) is int and -0x8000_0000 <= value <= 0x7FFF_FFFF:
        out.number(0x49, 4, value)
        return
    if letter == "t" and type(value) is bool:
        out.octet(0x74)
        out.octet(1 if value else 0)
        return
    if letter == "l" and type(value) is int and -_2_TO_63 <= value < _2_TO_63 and dialect != "spec":
        out.number(0x6C, 8, value)
        return
    if letter == "d" and type(value) is float:
        out.octet(0x64)
        out.real(value)
        return
    if letter in _INTEGER_RANGES and type(value) is int:
        code, width, minimum, maximum = _INTEGER_RANGES[letter]
        if minimum <= value <= maximum:
            out.number(code, width, value)
            return
    here = f"{path}[{name!r:.60}]"
    if letter not in LETTERS_BY_DIALECT[dialect]:
        raise EncodeError(f"{letter!r} is not a field type of the dialect {dialect}", here)
    out.octet(ord(letter))
    form = (SPEC_INTEGER_FORMATS if dialect == "spec" else INTEGER_FORMATS).get(letter)
    try:
        if letter == "s" and dialect == "spec":
            write_shortstr(out, value, here)
        elif letter == "T" and isinstance(value, datetime.datetime):
            out.add(_U64.pack(Timestamp.from_datetime(value) // 1000))
        elif form is not None:
            out.add(form.pack(value))
        elif letter == "t":
            # Accepts bool, 0, 1 and OddTrue: an int equal to 1 with a byte of 2 to 255.
            if not isinstance(value, int) or value not in (0, 1):
                raise EncodeError(f"a boolean field is True or False, not {value!r:.60}", here)
            out.octet(value.octet if isinstance(value, OddTrue) else bool(value))
        elif letter == "V":
            if value is not None:
                raise EncodeError("a void field has no value: use None", here)
        elif letter == "d":
            out.add(_DOUBLE_STRUCT.pack(value))
        elif letter == "f":
            if not isinstance(value, (float, int)):
                raise EncodeError(f"a float field is a number, not {value!r:.60}", here)
            out.add(_U32.pack(Float(value).bits))
        elif letter == "D":
            if isinstance(value, decimal.Decimal):
                value = ScaledDecimal.from_decimal(value)
            out.add(_DECIMAL_STRUCT.pack(value.scale, value.unscaled))
        elif letter in "SxcC":
            write_longstr(out, octets_of(value, here))
        elif letter == "F":
            write_table(out, value, dialect, here, depth + 1)
        else:
            _write_array(out, value, dialect, here, depth + 1)
    except EncodeError as error:
        error.path = error.path or here
        raise
    except (struct.error, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise EncodeError(
            f"{value!r:.60} is not a value of field type {letter!r}: {error}", here
        ) from None


def write_number(out: Any, value: Any, width: int, path: str) -> None:
    """Append an octet (width 1) or a timestamp (width 8); EncodeError if it is out of range."""
    if type(value) is int and 0 <= value < _2_TO_63:
        if width == 8:
            # `number` writes a one-byte code, then a number. A timestamp has no code: write its
            # first byte as the code, and the other seven bytes as the number.
            out.number(value >> 56, 7, value)
            return
        if value < 256:
            out.octet(value)
            return
    if isinstance(value, datetime.datetime):
        try:
            value = int(Timestamp.from_datetime(value)) // 1000
        except ValueError as error:
            raise EncodeError(str(error), path) from None
    try:
        out.add((_U8 if width == 1 else _U64).pack(value))
    except struct.error:
        maximum = "255" if width == 1 else "2^64 - 1"
        raise EncodeError(f"must be an int from 0 to {maximum}, not {value!r:.60}", path) from None


def is_unchanged(layout: PropertyLayout, source: Any, dialect: Any) -> bool:
    """Return whether the properties `source` were decoded, and have not been changed since."""
    return layout.unchanged(source, layout.attributes.values(source), dialect) is not None


def write_rows(out: Any, layout: PropertyLayout, source: Any, dialect: Any) -> None:
    """Append the property flags and the property list of `source`, an object of the layout's class.

    If `source` has not been changed since decoding, its original bytes are copied.
    """
    flags = 0
    values = layout.attributes.values(source)
    original = layout.unchanged(source, values, dialect)
    if original is not None:
        out.copy(original.octets, original.start, original.stop)
        return
    domains = layout.domains
    for index in range(len(domains)):
        if values[index] is not None:
            flags |= 1 << (15 - index)
    out.octet(flags >> 8)
    out.octet(flags & 255)
    for index in range(len(domains)):
        value = values[index]
        if value is None:
            continue
        domain = domains[index]
        if domain == 0:
            write_shortstr(out, value, layout.names[index])
        elif domain == 1:
            write_table(out, value, dialect, layout.names[index], 0)
        else:
            write_number(out, value, 1 if domain == 2 else 8, layout.names[index])
