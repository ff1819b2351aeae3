"""The encodings of 0-9-1 (4.2.5): `TableReader` and `write_table`.

Written like the kernel of the 1.0 side: one cursor over one bytes object, flat branches on letters
in the order of their frequency, every size compared with what is left before anything is sliced.
"""

from __future__ import annotations

import datetime
import decimal
import struct
from collections.abc import Mapping
from typing import Any

from amqp10msg.basic.tables import (
    Dialect,
    FieldArray,
    FieldTable,
    OddTrue,
    ScaledDecimal,
)
from amqp10msg.errors import RESOURCE_LIMIT_EXCEEDED, DecodeError, EncodeError
from amqp10msg.limits import DEFAULT_LIMITS, Limits
from amqp10msg.primitives import Float, Timestamp

__all__ = ["Reader", "write_longstr", "write_shortstr", "write_table", "write_value"]

_U16 = struct.Struct(">H")
_U32 = struct.Struct(">I")
_U64 = struct.Struct(">Q")
_I8 = struct.Struct(">b")
_I16 = struct.Struct(">h")
_I32 = struct.Struct(">i")
_I64 = struct.Struct(">q")
_F64 = struct.Struct(">d")
_DECIMAL = struct.Struct(">Bi")
_LONGSTR = struct.Struct(">BI")
_INT = struct.Struct(">Bi")
_u32_at = _U32.unpack_from
_i32_at = _I32.unpack_from
_i64_at = _I64.unpack_from
_f64_at = _F64.unpack_from

#: Letters with values of a fixed width: (format, lowest, highest); what the dialects agree on.
_FIXED: dict[str, struct.Struct] = {
    "b": _I8,
    "B": struct.Struct(">B"),
    "s": _I16,
    "u": _U16,
    "I": _I32,
    "i": _U32,
    "l": _I64,
    "T": _U64,
    "U": _I16,
    "L": _I64,
    "k": struct.Struct(">B"),
}
#: Which letters a dialect has; what they are where dialects differ stands in the code below.
LETTERS: dict[str, frozenset[str]] = {
    "rabbitmq": frozenset("tbBsuUIilLfdDSATFVx"),
    "spec": frozenset("tbBUuIiLlfdDsSATFV"),
    "qpid": frozenset("tbBsuIilfdDSATFVxcCk"),
}
_SPEC_FIXED = {**_FIXED, "l": _U64}
_LETTER_OF = [chr(octet) for octet in range(256)]


class Reader:
    """A cursor over encoded 0-9-1 values; one for each call, so that the limits hold for all of it.

    Every method reads at `pos` and leaves `pos` behind what it read, or raises DecodeError.
    """

    __slots__ = ("_fixed", "_left", "_letters", "data", "dialect", "end", "limits", "pos")

    def __init__(self, data: bytes, dialect: Dialect, limits: Limits | None) -> None:
        if dialect not in LETTERS:
            raise ValueError(f"no dialect is called {dialect!r}: use {', '.join(LETTERS)}")
        self.limits = limits or DEFAULT_LIMITS
        if self.limits.size is not None and len(data) > self.limits.size:
            raise DecodeError(
                f"the input has {len(data)} octets, and the limit is {self.limits.size}",
                self.limits.size,
                rule="size-limit",
                condition=RESOURCE_LIMIT_EXCEEDED,
                data=data,
            )
        self.data = data
        self.dialect = dialect
        self.pos = 0
        self.end = len(data)
        self._left = self.limits.items
        self._letters = LETTERS[dialect]
        self._fixed = _SPEC_FIXED if dialect == "spec" else _FIXED

    def fault(self, reason: str, offset: int, rule: str, path: str = "") -> DecodeError:
        """Make the error of a fault in the input."""
        condition = RESOURCE_LIMIT_EXCEEDED if rule.endswith("-limit") else "amqp:decode-error"
        return DecodeError(
            reason, offset, rule=rule, condition=condition, path=path, data=self.data
        )

    def _cut(self, what: str, offset: int, needs: int, end: int) -> DecodeError:
        return self.fault(
            f"{what} needs {needs} octets, and {max(end - offset, 0)} are left", offset, "truncated"
        )

    def fixed(self, form: struct.Struct, what: str) -> Any:
        """Read one value of a fixed width."""
        pos = self.pos
        size = form.size
        if pos + size > self.end:
            raise self._cut(what, pos, size, self.end)
        self.pos = pos + size
        return form.unpack_from(self.data, pos)[0]

    def shortstr(self) -> str:
        """Read a short string: one octet of length, then the octets."""
        pos = self.pos
        if pos >= self.end:
            raise self._cut("a short string", pos, 1, self.end)
        stop = pos + 1 + self.data[pos]
        if stop > self.end:
            raise self._cut("a short string", pos, stop - pos, self.end)
        self.pos = stop
        return self.data[pos + 1 : stop].decode("utf-8", "surrogateescape")

    def longstr(self) -> bytes:
        """Read a long string: four octets of length, then the octets."""
        pos = self.pos
        if pos + 4 > self.end:
            raise self._cut("a long string", pos, 4, self.end)
        (size,) = _u32_at(self.data, pos)
        if size > self.end - pos - 4:
            raise self._cut("a long string", pos, size + 4, self.end)
        self.pos = pos + 4 + size
        return self.data[pos + 4 : self.pos]

    def table(self, depth: int = 0) -> FieldTable:
        """Read a table: four octets of length, then name, letter and value of each field."""
        data = self.data
        pos, stop = self._enter("a table", depth)
        entries: list[tuple[str, str, Any]] = []
        made = FieldTable.__new__(FieldTable)
        made.entries = entries
        add = entries.append
        name = ""
        at = pos
        common = self.dialect != "spec"
        left = self._left
        try:
            while pos < stop:
                at = pos
                name = ""
                left -= 1
                if left < 0:
                    raise self._too_many(at)
                after = pos + 1 + data[pos]
                if after >= stop:
                    raise self._cut("a name and a letter", pos, after - pos + 1, stop)
                name = data[pos + 1 : after].decode("utf-8", "surrogateescape")
                code = data[after]
                at = after
                pos = after + 1
                if code == 0x53:  # S
                    if pos + 4 > stop:
                        raise self._cut("a long string", after, 5, stop)
                    (size,) = _u32_at(data, pos)
                    pos += 4
                    if size > stop - pos:
                        raise self._cut("a long string", after, size + 5, stop)
                    add((name, "S", data[pos : pos + size].decode("utf-8", "surrogateescape")))
                    pos += size
                elif code == 0x49 and pos + 4 <= stop:  # I
                    add((name, "I", _i32_at(data, pos)[0]))
                    pos += 4
                elif code == 0x74 and pos < stop:  # t
                    flag = data[pos]
                    add((name, "t", flag == 1 if flag < 2 else OddTrue(flag)))
                    pos += 1
                elif code == 0x6C and common and pos + 8 <= stop:  # l
                    add((name, "l", _i64_at(data, pos)[0]))
                    pos += 8
                elif code == 0x64 and pos + 8 <= stop:  # d
                    add((name, "d", _f64_at(data, pos)[0]))
                    pos += 8
                else:
                    self.pos = pos
                    self._left = left
                    value = self.value(code, stop, depth + 1)
                    add((name, _LETTER_OF[code], value))
                    pos = self.pos
                    left = self._left
        except DecodeError as error:
            inner = error.path
            error.path = f"[{name!r}]{inner}" if name else inner
            raise
        self._left = left
        self.pos = pos
        return made

    def array(self, depth: int) -> FieldArray:
        """Read an array: four octets of length, then letter and value of each element."""
        data = self.data
        pos, stop = self._enter("an array", depth)
        entries: list[tuple[str, Any]] = []
        made = FieldArray.__new__(FieldArray)
        made.entries = entries
        try:
            while pos < stop:
                self._left -= 1
                if self._left < 0:
                    raise self._too_many(pos)
                self.pos = pos + 1
                code = data[pos]
                value = self.value(code, stop, depth + 1)
                entries.append((_LETTER_OF[code], value))
                pos = self.pos
        except DecodeError as error:
            error.path = f"[{len(entries)}]{error.path}"
            raise
        self.pos = pos
        return made

    def _enter(self, what: str, depth: int) -> tuple[int, int]:
        """Check the four octets of length at `pos`; give where the content begins and ends."""
        pos = self.pos
        if pos + 4 > self.end:
            raise self._cut(what, pos, 4, self.end)
        (size,) = _u32_at(self.data, pos)
        if size > self.end - pos - 4:
            raise self._cut(what, pos, size + 4, self.end)
        if depth >= self.limits.depth:
            raise self.fault(f"nested deeper than {self.limits.depth} levels", pos, "depth-limit")
        return pos + 4, pos + 4 + size

    def _too_many(self, at: int) -> DecodeError:
        return self.fault(f"more than {self.limits.items} fields", at, "items-limit")

    def value(self, code: int, stop: int, depth: int) -> Any:
        """Read the value behind a letter; `pos` stands behind the letter."""
        letter = _LETTER_OF[code]
        data = self.data
        pos = self.pos
        if letter not in self._letters:
            raise self.fault(
                f"{letter!r} (0x{code:02x}) is no field type of the dialect {self.dialect}",
                pos - 1,
                "field-letter",
            )
        form = self._fixed.get(letter)
        if letter == "s" and self.dialect == "spec":
            if pos >= stop or pos + 1 + data[pos] > stop:
                raise self._cut("a short string", pos - 1, 2 + data[pos] if pos < stop else 2, stop)
            self.pos = pos + 1 + data[pos]
            return data[pos + 1 : self.pos].decode("utf-8", "surrogateescape")
        if form is not None:
            if pos + form.size > stop:
                raise self._cut(f"the value of {letter!r}", pos, form.size, stop)
            self.pos = pos + form.size
            return form.unpack_from(data, pos)[0]
        if letter == "V":
            return None
        if letter in "SxcC":
            if pos + 4 > stop:
                raise self._cut(f"the value of {letter!r}", pos, 4, stop)
            (size,) = _u32_at(data, pos)
            if size > stop - pos - 4:
                raise self._cut(f"the value of {letter!r}", pos, size + 4, stop)
            self.pos = pos + 4 + size
            octets = data[pos + 4 : self.pos]
            return octets if letter == "x" else octets.decode("utf-8", "surrogateescape")
        if letter in "FA":
            # The child reads inside its parent.
            outer, self.end = self.end, stop
            made: Any = self.table(depth) if letter == "F" else self.array(depth)
            self.end = outer
            return made
        return self._wider(letter, pos, stop)

    def _wider(self, letter: str, pos: int, stop: int) -> Any:
        size = {"t": 1, "f": 4, "d": 8, "D": 5}.get(letter, 8)
        if pos + size > stop:
            raise self._cut(f"the value of {letter!r}", pos, size, stop)
        self.pos = pos + size
        if letter == "t":
            flag = self.data[pos]
            return flag == 1 if flag < 2 else OddTrue(flag)
        if letter == "f":
            return Float.from_bits(_u32_at(self.data, pos)[0])
        if letter == "d":
            return _f64_at(self.data, pos)[0]
        if letter == "D":
            return ScaledDecimal(*_DECIMAL.unpack_from(self.data, pos))
        return _i64_at(self.data, pos)[0]


# Writing.


def octets_of(text: str | bytes, path: str) -> bytes:
    """Give the octets of a text, those that were no UTF-8 included."""
    if isinstance(text, str):
        try:
            return text.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            raise EncodeError(f"{text!r:.60} is not valid text", path) from None
    if isinstance(text, (bytes, bytearray, memoryview)):
        return bytes(text)
    raise EncodeError(f"must be str or bytes, not {type(text).__name__}", path)


def write_shortstr(out: bytearray, text: str | bytes, path: str) -> None:
    """Append a short string; EncodeError if it has more than 255 octets."""
    octets = octets_of(text, path)
    if len(octets) > 255:
        raise EncodeError(
            f"a short string has 255 octets at most, and this has {len(octets)}", path
        )
    out.append(len(octets))
    out += octets


def write_longstr(out: bytearray, octets: bytes) -> None:
    """Append a long string."""
    out += _U32.pack(len(octets))
    out += octets


def write_table(
    out: bytearray, table: Any, dialect: Dialect, path: str = "", depth: int = 0
) -> None:
    """Append a table.

    Raises:
        EncodeError: a name or value does not fit, or the dialect has no such letter.
    """
    if type(table) is not FieldTable:
        if not isinstance(table, Mapping):
            raise EncodeError(
                f"a table is a FieldTable or a dict, not {type(table).__name__}", path
            )
        table = FieldTable(table)
    if depth >= DEFAULT_LIMITS.depth:
        raise EncodeError("values are nested too deeply, or contain themselves", path)
    start = len(out)
    out += b"\0\0\0\0"
    for name, letter, value in table.entries:
        try:
            octets = name.encode("utf-8", "surrogateescape")
            out.append(len(octets))
        except (AttributeError, UnicodeEncodeError, ValueError):
            write_shortstr(out, name, f"{path}[{name!r:.60}]")  # says what is wrong, or takes bytes
        else:
            out += octets
        if letter == "S" and type(value) is str:
            try:
                octets = value.encode("utf-8", "surrogateescape")
            except UnicodeEncodeError:
                octets = octets_of(value, f"{path}[{name!r:.60}]")
            out += _LONGSTR.pack(0x53, len(octets))
            out += octets
        elif letter == "I" and type(value) is int and -0x8000_0000 <= value <= 0x7FFF_FFFF:
            out += _INT.pack(0x49, value)
        elif letter == "t" and type(value) is bool:
            out += b"t\x01" if value else b"t\x00"
        else:
            write_value(out, letter, value, dialect, path, name, depth)
    out[start : start + 4] = _U32.pack(len(out) - start - 4)


def _write_array(
    out: bytearray, array: Any, dialect: Dialect, path: str, name: Any, depth: int
) -> None:
    if type(array) is not FieldArray:
        array = FieldArray(array)
    if depth >= DEFAULT_LIMITS.depth:
        raise EncodeError("values are nested too deeply, or contain themselves", path)
    start = len(out)
    out += b"\0\0\0\0"
    inner = f"{path}[{name!r:.60}]"
    for index, (letter, value) in enumerate(array.entries):
        write_value(out, letter, value, dialect, inner, index, depth)
    out[start : start + 4] = _U32.pack(len(out) - start - 4)


def write_value(
    out: bytearray, letter: str, value: Any, dialect: Dialect, path: str, name: Any, depth: int
) -> None:
    """Append letter and value of a field; EncodeError if the value does not fit."""
    if letter not in LETTERS[dialect]:
        raise EncodeError(
            f"{letter!r} is no field type of the dialect {dialect}", f"{path}[{name!r:.60}]"
        )
    out += letter.encode("latin-1")
    form = (_SPEC_FIXED if dialect == "spec" else _FIXED).get(letter)
    if form is not None and type(value) is int and not (letter == "s" and dialect == "spec"):
        try:
            out += form.pack(value)
            return
        except struct.error:
            pass  # said below
    if letter == "d" and type(value) is float:
        out += _F64.pack(value)
        return
    here = f"{path}[{name!r:.60}]"
    try:
        if letter == "s" and dialect == "spec":
            write_shortstr(out, value, here)
        elif letter == "T" and isinstance(value, datetime.datetime):
            out += _U64.pack(Timestamp.from_datetime(value) // 1000)
        elif form is not None:
            out += form.pack(value)
        elif letter == "t":
            out.append(value.octet if isinstance(value, OddTrue) else bool(value))
        elif letter == "V":
            if value is not None:
                raise EncodeError("a void field has no value: use None", here)
        elif letter == "d":
            out += _F64.pack(value)
        elif letter == "f":
            out += _U32.pack(Float(value).bits)
        elif letter == "D":
            if isinstance(value, decimal.Decimal):
                value = ScaledDecimal.from_decimal(value)
            out += _DECIMAL.pack(value.scale, value.unscaled)
        elif letter in "SxcC":
            write_longstr(out, octets_of(value, here))
        elif letter == "F":
            write_table(out, value, dialect, here, depth + 1)
        else:
            _write_array(out, value, dialect, path, name, depth + 1)
    except EncodeError as error:
        error.path = error.path or here
        raise
    except (struct.error, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise EncodeError(
            f"{value!r:.60} is no value of field type {letter!r}: {error}", here
        ) from None
