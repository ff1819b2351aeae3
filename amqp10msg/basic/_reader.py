# cython: boundscheck=True, wraparound=False, annotation_typing=False, infer_types=True
"""Reading the encodings of 0-9-1 (4.2.5 and 4.2.6): `BasicReader`, and `PropertyLayout`.

The file runs as Python, or compiled by Cython with the C types of `_reader.pxd`. Both builds must
raise the same errors with the same offsets. Like the kernel of AMQP 1.0, `BasicReader` is one
cursor over one bytes object. It tests for the most frequent type letters first, and compares every
size with the remaining bytes before it slices.
"""

from __future__ import annotations

import struct
from typing import Any

from amqp10msg.basic.tables import Dialect, FieldArray, FieldTable, OddTrue, ScaledDecimal
from amqp10msg.wire.errors import DECODE_ERROR, RESOURCE_LIMIT_EXCEEDED, DecodeError
from amqp10msg.wire.kernel.twin import AttributeSlots, Cursor, Record, Slot
from amqp10msg.wire.limits import DEFAULT_LIMITS, Limits
from amqp10msg.wire.primitives import Float

_U8 = struct.Struct(">B")
_U32 = struct.Struct(">I")
_U64 = struct.Struct(">Q")
_DECIMAL_STRUCT = struct.Struct(">Bi")

#: The struct format of integers, by type letter, except in the dialect ``spec``.
INTEGER_FORMATS: dict[str, struct.Struct] = {
    "b": struct.Struct(">b"),
    "B": _U8,
    "s": struct.Struct(">h"),
    "u": struct.Struct(">H"),
    "I": struct.Struct(">i"),
    "i": _U32,
    "l": struct.Struct(">q"),
    "T": _U64,
    "U": struct.Struct(">h"),
    "L": struct.Struct(">q"),
    "k": _U8,
}
#: The type letters of each dialect. Some letters have different meanings in the dialects.
LETTERS_BY_DIALECT: dict[str, frozenset[str]] = {
    "rabbitmq": frozenset("tbBsuUIilLfdDSATFVx"),
    "spec": frozenset("tbBUuIiLlfdDsSATFV"),
    "qpid": frozenset("tbBsuIilfdDSATFVxcCk"),
}
# By dialect and byte: whether the byte is a type letter.
_IS_LETTER_BY_DIALECT = {
    dialect: bytes([chr(octet) in letters for octet in range(256)])
    for dialect, letters in LETTERS_BY_DIALECT.items()
}
# By byte: the width of the integers with this type letter, 0 for other types.
_INTEGER_WIDTH_BY_BYTE = bytes(
    [
        INTEGER_FORMATS[chr(octet)].size if chr(octet) in INTEGER_FORMATS else 0
        for octet in range(256)
    ]
)
# By byte: whether the integers with this type letter are signed.
_IS_SIGNED_BY_BYTE = bytes([chr(octet) in "bsIlUL" for octet in range(256)])
#: `INTEGER_FORMATS` for the dialect ``spec``, in which ``l`` is unsigned.
SPEC_INTEGER_FORMATS = {**INTEGER_FORMATS, "l": _U64}
# The type letters that `BasicReader` tests for. Only Qpid has `_STR8` and `_STR16`.
_LONG_STRING, _INT, _BOOLEAN, _LONG, _DOUBLE, _SHORT, _VOID, _BYTES, _FLOAT, _TABLE, _ARRAY = (
    b"SItldsVxfFA"
)
_STR8, _STR16 = b"cC"
_TWO_TO_64 = 2**64
#: The type letter as a str, by byte.
_LETTER_BY_BYTE = [chr(octet) for octet in range(256)]

# Descriptions of truncated values, for the error text of `BasicReader.cut`.
_SHORT_STRING_DESCRIPTION = "a short string"
_LONG_STRING_DESCRIPTION = "a long string"
_NAME_AND_LETTER_DESCRIPTION = "a name and a letter"


def _signed32(number: int) -> int:
    """Convert an unsigned 32-bit number to the signed number with the same bits."""
    return number - 0x1_0000_0000 if number > 0x7FFF_FFFF else number


class KeepsOriginal(Record):
    """The base class of objects that keep the bytes that they were decoded from, as `Original`.

    The slot ``_original`` is empty in objects that were not decoded, and in copies.
    """

    __slots__ = ("_original",)


#: Reads and sets the `Original` of a `KeepsOriginal` object.
ORIGINAL_SLOT = Slot(KeepsOriginal, "_original")


class Original:
    """The bytes that properties were decoded from, and the decoded values.

    Encoding copies the bytes of properties that are unchanged: they still hold the same value
    objects, and each of their tables and arrays still holds the same entry tuples. Properties that
    contain an `OddTrue` have no `Original`: its byte could be changed without changing the object.

    Attributes:
        octets: the input.
        start: the offset of the property flags in the input.
        stop: the offset after the property list in the input.
        dialect: the dialect in which the letters were read.
        values: the decoded values of the properties.
        tables: each decoded table and array with its entries.
    """

    def __init__(
        self,
        octets: bytes,
        start: int,
        stop: int,
        dialect: Dialect,
        values: list[Any],
        tables: list[tuple[Any, tuple[Any, ...]]],
    ) -> None:
        self.octets = octets
        self.start = start
        self.stop = stop
        self.dialect = dialect
        self.values = values
        self.tables = tables

    def has_values(self, values: tuple[Any, ...], dialect: Dialect) -> bool:
        """Return whether `values` are the unchanged decoded values, and `dialect` is the same."""
        if dialect != self.dialect or not 0 <= self.start <= self.stop <= len(self.octets):
            return False
        for index in range(len(values)):
            if values[index] is not self.values[index]:
                return False
        for table, decoded_entries in self.tables:
            entries = table.entries
            if type(entries) is not list or len(entries) != len(decoded_entries):
                return False
            for index in range(len(decoded_entries)):
                if entries[index] is not decoded_entries[index]:
                    return False
        return True


class PropertyLayout:
    """The wire layout of the properties of one content class, for the reader and the writer.

    Attributes:
        rows: the declarations of the properties, in the order of their flags.
        known_flags: a bit mask of the flags of all properties.
        names: the wire names of the properties.
        domains: the domain of each property as a number: 0 for shortstr, 1 for table, 2 for octet,
            3 for timestamp.
        blank: a list with None for each property.
        attributes: reads and sets the attributes of the properties' class.
        keeps: whether decoded objects keep their original bytes.
    """

    def __init__(self, cls: Any, rows: Any) -> None:
        self.rows = rows
        self.known_flags = sum([1 << row.bit for row in rows])
        self.names = tuple([row.wire_name for row in rows])
        self.domains = bytes(
            [("shortstr", "table", "octet", "timestamp").index(row.domain) for row in rows]
        )
        self.blank: list[Any] = [None] * len(rows)
        self.attributes = AttributeSlots(cls, [row.name for row in rows])
        self.keeps = issubclass(cls, KeepsOriginal)

    def unchanged(self, source: Any, values: tuple[Any, ...], dialect: Dialect) -> Original | None:
        """Return the `Original` of `source`; None if it was changed or not decoded."""
        if not self.keeps or type(source) is not self.attributes.cls:
            return None
        original: Original | None = ORIGINAL_SLOT.get(source)
        if original is None or not original.has_values(values, dialect):
            return None
        return original


class BasicReader(Cursor):
    """A cursor over encoded 0-9-1 values. The limits apply to all values that it reads together.

    Each reading method reads at `pos` and moves `pos` after the bytes that it has read, or raises
    DecodeError. `end` is the end of the input, or of the enclosing table or array.
    """

    def __init__(self, data: bytes, dialect: Dialect, limits: Limits | None) -> None:
        known_letters = _IS_LETTER_BY_DIALECT.get(dialect)
        if known_letters is None:
            raise ValueError(
                f"unknown dialect {dialect!r}: use one of {', '.join(LETTERS_BY_DIALECT)}"
            )
        limits = limits or DEFAULT_LIMITS
        if not isinstance(limits, Limits):
            raise TypeError(f"limits must be a Limits or None, not {type(limits).__name__}")
        if limits.size is not None and len(data) > limits.size:
            raise DecodeError(
                f"the input has {len(data)} bytes, and the limit is {limits.size}",
                limits.size,
                rule="size-limit",
                condition=RESOURCE_LIMIT_EXCEEDED,
                data=data,
            )
        self.buf = data
        self.dialect = dialect
        self.limits = limits
        self.pos = 0
        self.end = len(data)
        self.items_left = limits.items
        self.depth = limits.depth
        self.known_letters = known_letters
        self.spec = dialect == "spec"
        self.tables: list[tuple[Any, tuple[Any, ...]]] = []
        self.has_odd_true = False

    def fault(self, reason: str, offset: int, rule: str) -> DecodeError:
        """Return the error for a fault in the input."""
        condition = RESOURCE_LIMIT_EXCEEDED if rule.endswith("-limit") else DECODE_ERROR
        return DecodeError(reason, offset, rule=rule, condition=condition, data=self.buf)

    def cut(self, subject: str, offset: int, needs: int, end: int) -> DecodeError:
        """Return the error for a value of `needs` bytes at `offset` that exceeds `end`."""
        return self.fault(
            f"{subject} needs {needs} bytes, and {max(end - offset, 0)} are left",
            offset,
            "truncated",
        )

    def cut_value(self, code: int, offset: int, needs: int, end: int) -> DecodeError:
        """Return the error of `cut` for the value of a field; `code` is the byte of its letter."""
        return self.cut(f"the value of {chr(code)!r}", offset, needs, end)

    def finish(self) -> None:
        """Raise DecodeError if bytes follow the last value."""
        if self.pos != self.end:
            raise self.fault(
                f"{self.end - self.pos} trailing bytes after the last value", self.pos, "trailing"
            )

    def unsigned(self, width: int, subject: str) -> Any:
        """Read an unsigned integer of 1 to 8 bytes."""
        pos = self.pos
        if width > self.end - pos:
            raise self.cut(subject, pos, width, self.end)
        self.pos = pos + width
        data = self.buf
        if width == 1:
            return data[pos]
        if width == 2:
            return data[pos] << 8 | data[pos + 1]
        if width == 8:
            return self.long(pos, False)
        return int.from_bytes(data[pos : self.pos], "big")

    def long(self, pos: int, signed: bool) -> int:
        """Return the integer in the eight bytes at `pos`."""
        number = self.i64(pos)
        return number if signed or number >= 0 else number + _TWO_TO_64

    def shortstr(self) -> str:
        """Read a short string: one byte of length, then the bytes."""
        pos = self.pos
        data = self.buf
        if pos >= self.end:
            raise self.cut(_SHORT_STRING_DESCRIPTION, pos, 1, self.end)
        stop = pos + 1 + data[pos]
        if stop > self.end:
            raise self.cut(_SHORT_STRING_DESCRIPTION, pos, stop - pos, self.end)
        self.pos = stop
        return data[pos + 1 : stop].decode("utf-8", "surrogateescape")

    def longstr(self) -> bytes:
        """Read a long string: four bytes of length, then the bytes."""
        pos = self.pos
        if pos + 4 > self.end:
            raise self.cut(_LONG_STRING_DESCRIPTION, pos, 4, self.end)
        size = self.u32(pos)
        if size > self.end - pos - 4:
            raise self.cut(_LONG_STRING_DESCRIPTION, pos, size + 4, self.end)
        self.pos = pos + 4 + size
        return self.buf[pos + 4 : self.pos]

    def properties(self, layout: PropertyLayout) -> Any:
        """Read property flags and the property list into an object of the layout's class.

        Raises:
            DecodeError: the input is truncated, has an unknown flag, or an invalid value.
        """
        start = self.pos
        flags = self.unsigned(2, "the property flags")
        if flags & ~layout.known_flags:
            reason = (
                "the property flags continue, and the class has no more properties"
                if flags & 1
                else f"unknown property flag: of {flags:04x} the class has {layout.known_flags:04x}"
            )
            error = self.fault(reason, start, "property-flags")
            error.path = "property-flags"
            raise error
        values = layout.blank.copy()
        domains = layout.domains
        index = 0
        try:
            for index in range(len(domains)):
                if not flags >> (15 - index) & 1:
                    continue
                domain = domains[index]
                if domain == 0:
                    values[index] = self.shortstr()
                elif domain == 1:
                    values[index] = self.table(0)
                elif domain == 2:
                    values[index] = self.unsigned(1, "a byte")
                else:
                    values[index] = self.unsigned(8, "a timestamp")
        except DecodeError as error:
            error.path = layout.names[index] + error.path
            raise
        decoded = layout.attributes.build(values)
        if layout.keeps and not self.has_odd_true:
            ORIGINAL_SLOT.put(
                decoded, Original(self.buf, start, self.pos, self.dialect, values, self.tables)
            )
        return decoded

    def into(self, layout: AttributeSlots, values: list[Any]) -> Any:
        """Create an object from decoded values, without the checks of its constructor."""
        return layout.build(values)

    def table(self, depth: int) -> FieldTable:
        """Read a table: four bytes of length, then name, letter and value of each field.

        `depth` is the number of tables and arrays that contain the table.
        """
        data = self.buf
        stop = self.enter("a table", depth)
        pos = self.pos
        entries: list[tuple[str, str, Any]] = []
        new_table = FieldTable.__new__(FieldTable)
        new_table.entries = entries
        name = ""
        try:
            while pos < stop:
                name = ""
                self.items_left -= 1
                if self.items_left < 0:
                    raise self.too_many(pos)
                after = pos + 1 + data[pos]
                if after >= stop:
                    raise self.cut(_NAME_AND_LETTER_DESCRIPTION, pos, after - pos + 1, stop)
                name = self.name(pos + 1, after)
                code = data[after]
                pos = after + 1
                if code == _LONG_STRING:
                    if pos + 4 > stop:
                        raise self.cut(_LONG_STRING_DESCRIPTION, after, 5, stop)
                    size = self.u32(pos)
                    pos += 4
                    if size > stop - pos:
                        raise self.cut(_LONG_STRING_DESCRIPTION, after, size + 5, stop)
                    text = data[pos : pos + size].decode("utf-8", "surrogateescape")
                    entries.append((name, "S", text))
                    pos += size
                elif code == _INT and pos + 4 <= stop:
                    entries.append((name, "I", _signed32(self.u32(pos))))
                    pos += 4
                elif code == _BOOLEAN and pos < stop and data[pos] < 2:
                    entries.append((name, "t", data[pos] == 1))
                    pos += 1
                elif code == _LONG and not self.spec and pos + 8 <= stop:
                    entries.append((name, "l", self.i64(pos)))
                    pos += 8
                elif code == _DOUBLE and pos + 8 <= stop:
                    entries.append((name, "d", self.f64(pos)))
                    pos += 8
                else:
                    self.pos = pos
                    value = self.value(code, stop, depth + 1)
                    entries.append((name, _LETTER_BY_BYTE[code], value))
                    pos = self.pos
        except DecodeError as error:
            inner = error.path
            error.path = f"[{name!r}]{inner}" if name else inner
            raise
        self.pos = pos
        self.tables.append((new_table, tuple(entries)))
        return new_table

    def array(self, depth: int) -> FieldArray:
        """Read an array: four bytes of length, then letter and value of each element.

        `depth` is the number of tables and arrays that contain the array.
        """
        data = self.buf
        stop = self.enter("an array", depth)
        entries: list[tuple[str, Any]] = []
        new_array = FieldArray.__new__(FieldArray)
        new_array.entries = entries
        try:
            while self.pos < stop:
                self.items_left -= 1
                if self.items_left < 0:
                    raise self.too_many(self.pos)
                code = data[self.pos]
                self.pos += 1
                value = self.value(code, stop, depth + 1)
                entries.append((_LETTER_BY_BYTE[code], value))
        except DecodeError as error:
            error.path = f"[{len(entries)}]{error.path}"
            raise
        self.tables.append((new_array, tuple(entries)))
        return new_array

    def enter(self, subject: str, depth: int) -> int:
        """Read the length of a table or array; return the offset of its end."""
        pos = self.pos
        if pos + 4 > self.end:
            raise self.cut(subject, pos, 4, self.end)
        size = self.u32(pos)
        if size > self.end - pos - 4:
            raise self.cut(subject, pos, size + 4, self.end)
        if depth >= self.depth:
            raise self.fault(f"nested deeper than {self.depth} levels", pos, "depth-limit")
        self.pos = pos + 4
        return pos + 4 + size

    def too_many(self, offset: int) -> DecodeError:
        """Return the error for more fields than the limit."""
        return self.fault(f"more than {self.limits.items} fields", offset, "items-limit")

    def value(self, code: int, stop: int, depth: int) -> Any:
        """Read the value of a field, after its type letter.

        Args:
            code: the byte of the letter.
            stop: the offset that the value must not exceed.
            depth: the number of tables and arrays that contain the value.
        """
        data = self.buf
        pos = self.pos
        if not self.known_letters[code]:
            raise self.fault(
                f"{chr(code)!r} (0x{code:02x}) is not a field type of the dialect {self.dialect}",
                pos - 1,
                "field-letter",
            )
        if code == _SHORT and self.spec:  # in the dialect spec, s is a short string
            if pos >= stop or pos + 1 + data[pos] > stop:
                needs = 2 + data[pos] if pos < stop else 2
                raise self.cut(_SHORT_STRING_DESCRIPTION, pos - 1, needs, stop)
            self.pos = pos + 1 + data[pos]
            return data[pos + 1 : self.pos].decode("utf-8", "surrogateescape")
        width = _INTEGER_WIDTH_BY_BYTE[code]
        if width:
            self.advance(code, width, stop)
            signed = _IS_SIGNED_BY_BYTE[code] == 1 and not (self.spec and code == _LONG)
            if width == 8:
                return self.long(pos, signed)
            return int.from_bytes(data[pos : pos + width], "big", signed=signed)
        if code == _VOID:
            return None
        if code in (_LONG_STRING, _BYTES, _STR8, _STR16):
            start = self.advance(code, 4, stop)
            size = self.u32(pos)
            if size > stop - start:
                raise self.cut_value(code, pos, size + 4, stop)
            self.pos = start + size
            if code == _BYTES:
                return data[start : self.pos]
            return data[start : self.pos].decode("utf-8", "surrogateescape")
        if code in (_TABLE, _ARRAY):
            # A nested table or array must not exceed the table or array that contains it.
            outer = self.end
            self.end = stop
            nested: Any = self.table(depth) if code == _TABLE else self.array(depth)
            self.end = outer
            return nested
        if code == _BOOLEAN:
            self.advance(code, 1, stop)
            if data[pos] < 2:
                return data[pos] == 1
            self.has_odd_true = True  # the properties then get no `Original`
            return OddTrue(data[pos])
        if code == _DOUBLE:
            self.advance(code, 8, stop)
            return self.f64(pos)
        if code == _FLOAT:
            self.advance(code, 4, stop)
            return Float.from_bits(self.u32(pos))
        self.advance(code, 5, stop)  # a decimal: scale and number
        return ScaledDecimal(*_DECIMAL_STRUCT.unpack_from(data, pos))

    def advance(self, code: int, size: int, stop: int) -> int:
        """Skip `size` bytes of a value; return the offset after them."""
        pos = self.pos
        if pos + size > stop:
            raise self.cut_value(code, pos, size, stop)
        self.pos = pos + size
        return self.pos
