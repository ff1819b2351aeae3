# cython: language_level=3, boundscheck=True, wraparound=False, annotation_typing=False
"""The encodings of AMQP 1.0 Part 1, both ways: `Reader` and `Writer`.

This file runs as it is, and compiled by Cython with the C types of `_wire.pxd`; both must behave
alike down to the offset of an error. Strategy:

- A `Reader` is a cursor over one immutable bytes object. `end` is the end of the value that
  encloses the cursor; a child narrows it, must consume it exactly, and widens it again.
- Every size and count is compared with what is left before anything is sliced or allocated.
- Octets that are no text raise UnicodeDecodeError from the codec; the one boundary, `Reader.fault`,
  turns that into a DecodeError with its offset, so that the hot path pays nothing for it.
- No C integer that comes from the wire is returned through a type with an error sentinel.
"""

from __future__ import annotations

import datetime
import decimal
import enum
import struct
import uuid
from collections.abc import Callable, Iterator
from typing import Any

from amqp10msg._path import path_of
from amqp10msg.errors import (
    INVALID_FIELD,
    NOT_IMPLEMENTED,
    RESOURCE_LIMIT_EXCEEDED,
    DecodeError,
    EncodeError,
)
from amqp10msg.limits import DEFAULT_LIMITS, Limits
from amqp10msg.primitives import (
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

COMPILED = not __file__.endswith(".py")

# What a format code constructs, and what a composite's field wants, as small numbers.
TYPE_IDS: dict[str, int] = {
    name: number
    for number, name in enumerate(
        (
            *("null", "boolean", "ubyte", "ushort", "uint", "ulong", "byte", "short", "int"),
            *("long", "float", "double", "decimal32", "decimal64", "decimal128", "char"),
            *("timestamp", "uuid", "binary", "string", "symbol", "list", "map", "array"),
            # Only fields want these: any type, the two archetypes of Part 3, 3.2, and a map whose
            # keys are symbols.
            *("described", "*", "message-id", "address", "fields"),
        ),
        start=1,
    )
}
_TYPE_NAMES = {number: name for name, number in TYPE_IDS.items()}
_WANTED = {
    **_TYPE_NAMES,
    27: "ulong, uuid, binary or string",
    28: "string",
    29: "map with symbols as keys",
}
_TYPE_OF = bytes(
    TYPE_IDS[FORMAT_CODES[code].type] if code in FORMAT_CODES else 0 for code in range(256)
)
# The fewest octets that an element takes behind a shared constructor.
_LEAST = bytes(
    0
    if code not in FORMAT_CODES
    else FORMAT_CODES[code].width * 2
    if FORMAT_CODES[code].category == "compound"
    else FORMAT_CODES[code].width * 2 + 1
    if FORMAT_CODES[code].category == "array"
    else FORMAT_CODES[code].width
    for code in range(256)
)

_new_str = str.__new__
_new_object = object.__new__
_Timestamp = Timestamp
_Int = Int
_UInt = UInt
_ULong = ULong
_UShort = UShort
_Short = Short
_set = object.__setattr__
_UUID = uuid.UUID
_UNKNOWN_SAFETY = uuid.SafeUUID.unknown
_F32 = struct.Struct(">f")
_F64 = struct.Struct(">d")
_unpack_double = _F64.unpack_from

# Every value of the one-octet forms, made once: the wrappers cost more than the parsing.
_UBYTES = [UByte(i) for i in range(256)]
_UINTS = [UInt(i) for i in range(256)]
_ULONGS = [ULong(i) for i in range(256)]
_BYTES = [Byte(i - 256 if i > 127 else i) for i in range(256)]
_INTS = [Int(i - 256 if i > 127 else i) for i in range(256)]

# Symbols come from small vocabularies (Part 1, 1.6.21), so the short ones are made once. The
# bounds keep a peer that invents symbols from growing this: 4,096 of 64 octets are 0.5 MB.
_SYMBOLS: dict[str, Symbol] = {}
_MAX_SYMBOLS = 4096
_MAX_SYMBOL = 64

# As C integers in the compiled build: a literal of this size would be a Python int there.
_WORD = 2**32
_WORD_MAX = 2**32 - 1
_INT_MAX = 2**31 - 1

# uuid.UUID hashes to its number modulo 2^61 - 1, which a peer can make collide at will and so make
# a dict quadratic. Chance never gives this many collisions.
_MAX_UUID_COLLISIONS = 16


_DEPTH = DEFAULT_LIMITS.depth
_ITEMS = DEFAULT_LIMITS.items
_ZERO_WIDTH = DEFAULT_LIMITS.zero_width

#: What reading may raise on bad input: `Reader.fault` makes one DecodeError of them.
READ_FAULTS = (DecodeError, UnicodeDecodeError, RecursionError, MemoryError)
_NO_NAMES: dict[Any, Any] = {}


def _u32(buf: Any, pos: int) -> int:
    a: int = buf[pos]
    b: int = buf[pos + 1]
    c: int = buf[pos + 2]
    d: int = buf[pos + 3]
    return a << 24 | b << 16 | c << 8 | d


class Spec:
    """How a section or composite is read and written: the row table of its declaration.

    `fill` sets the fields of a bare instance by position, without checks; `get` gives them as a
    tuple, or the one value of a body section. The map sections are dicts and need neither.
    """

    def __init__(
        self,
        name: str,
        code: int,
        symbol: str,
        shape: int,
        cls: type,
        fill: Callable[..., None] | None,
        get: Callable[[Any], tuple[Any, ...]] | None = None,
        names: tuple[str, ...] = (),
        kinds: Any = b"",
        defaults: tuple[Any, ...] = (),
        mandatory: tuple[int, ...] = (),
        multiple: Any = b"",
    ) -> None:
        self.name = name
        self.code = code
        self.symbol = symbol
        self.shape = shape
        self.cls = cls
        self.fill = fill
        self.get = get
        self.names = names
        self.kinds = kinds
        self.defaults = defaults
        self.mandatory = mandatory
        self.multiple = multiple
        self.blank = [None, *defaults]
        self.head = b"\x00\x53" + bytes([code]) if code < 256 else b"\x00\x80" + code.to_bytes(8)


    def build(self, values: Any) -> Any:
        """Make the object of the fields behind values[0]; they must be right, nothing is checked."""
        cls = self.cls
        made = cls.__new__(cls)
        values[0] = made
        self.fill(*values)
        return made

    def wrap(self, value: Any) -> Any:
        """Make the section of this one value."""
        cls = self.cls
        made = cls.__new__(cls)
        self.fill(made, value)
        return made


# Shapes of a Spec.
COMPOSITE, ANNOTATIONS, PROPERTIES_MAP, BINARY, SEQUENCE, VALUE = range(6)


class Reader:
    """A bounded cursor over encoded values.

    Everything that takes a format code expects the cursor behind that code.
    """

    def __init__(self, data: Any, pos: int, limits: Any) -> None:
        self.buf = data
        self.pos = pos
        self.end = len(data)
        self.count = 0
        self.first = 0
        if limits is DEFAULT_LIMITS:
            # Three attribute look-ups saved, on the way that nearly every message goes.
            self.depth = _DEPTH
            self.items = _ITEMS
            self.zero_width = _ZERO_WIDTH
        else:
            self.depth = limits.depth
            self.items = limits.items
            self.zero_width = limits.zero_width

    # Faults. These only build the error, so that the raise stands where a reader looks for it.

    def truncated(self, pos: int, needed: int) -> DecodeError:
        if self.end < len(self.buf):
            return DecodeError(
                f"the value needs {needed} more octets, and {max(self.end - pos, 0)} are left in "
                "what encloses it",
                pos,
                rule="element-overruns-compound",
            )
        return DecodeError(
            f"the value needs {needed} more octets, and the input has {max(self.end - pos, 0)}",
            pos,
            rule="truncated",
        )

    def unknown(self, code: int, pos: int) -> DecodeError:
        return DecodeError(
            f"0x{code:02X} is no format code of Part 1",
            pos,
            rule=f"unknown-constructor-0x{code:02x}",
        )

    def exceeded(self, what: str, pos: int) -> DecodeError:
        return DecodeError(
            f"{what}: pass wider Limits if the sender is trusted",
            pos,
            rule=what.split(":", maxsplit=1)[0].replace(" ", "-"),
            condition=RESOURCE_LIMIT_EXCEEDED,
        )

    def trailing(self) -> DecodeError:
        return DecodeError(
            f"{len(self.buf) - self.pos} octets follow the value", self.pos, rule="trailing-bytes"
        )

    def fault(self, error: BaseException, names: Any = _NO_NAMES) -> DecodeError:
        """Give the DecodeError for what was raised while reading, with the place and the input."""
        fault = error if isinstance(error, DecodeError) else self.translated(error)
        fault.data = self.buf
        fault.path = path_of(self.buf, fault.offset, names)
        return fault

    def translated(self, error: BaseException) -> DecodeError:
        """Turn what a codec or the interpreter raised into a DecodeError."""
        if isinstance(error, UnicodeDecodeError):
            start = self.pos - len(error.object)
            if error.encoding == "ascii":
                return DecodeError(
                    f"a symbol holds octet 0x{error.object[error.start]:02X}, which is not ASCII",
                    start + error.start,
                    rule="symbol-not-ascii",
                )
            return DecodeError(
                f"a string is not UTF-8: {error.reason}", start + error.start, rule="invalid-utf8"
            )
        return self.exceeded("depth limit: the interpreter has no room for this nesting", self.pos)

    # The depth gate: every value that holds values passes here.

    def enter(self, pos: int) -> None:
        self.depth -= 1
        if self.depth < 0:
            raise self.exceeded("depth limit: values are nested too deeply", pos)

    # Values.

    def value(self) -> Any:
        """Read one value: its constructor, then its data."""
        pos = self.pos
        if pos >= self.end:
            raise self.truncated(pos, 1)
        self.pos = pos + 1
        return self.read(self.buf[pos])

    def read(self, code: int) -> Any:
        """Read the data of one value behind this format code."""
        if code == 0xA1:
            pos = self.pos
            if pos >= self.end:
                raise self.truncated(pos, 1)
            n = self.buf[pos]
            pos += 1
            stop = pos + n
            if stop > self.end:
                raise self.truncated(pos, n)
            self.pos = stop
            return self.buf[pos:stop].decode("utf-8")
        if code == 0xA3:
            pos = self.pos
            if pos >= self.end:
                raise self.truncated(pos, 1)
            n = self.buf[pos]
            pos += 1
            stop = pos + n
            if stop > self.end:
                raise self.truncated(pos, n)
            self.pos = stop
            text = self.buf[pos:stop].decode("ascii")
            known = _SYMBOLS.get(text)
            if known is not None:
                return known
            return self.symbol(text)
        if code == 0x40:
            return None
        if code == 0x41:
            return True
        if code == 0x42:
            return False
        if code == 0x00:
            return self.described()
        if code < 0x60:
            if code == 0x43:
                return _UINTS[0]
            if code == 0x44:
                return _ULONGS[0]
            if code == 0x45:
                return []
            if code < 0x50:
                raise self.unknown(code, self.pos - 1)
            pos = self.pos
            if code > 0x56:
                raise self.unknown(code, pos - 1)
            if pos >= self.end:
                raise self.truncated(pos, 1)
            n = self.buf[pos]
            self.pos = pos + 1
            if code == 0x54:
                return _INTS[n]
            if code == 0x55:
                return n - 256 if n > 127 else n
            if code == 0x52:
                return _UINTS[n]
            if code == 0x53:
                return _ULONGS[n]
            if code == 0x50:
                return _UBYTES[n]
            if code == 0x51:
                return _BYTES[n]
            if n > 1:
                raise DecodeError(
                    f"a boolean octet is 0 or 1, not {n}", pos, rule="boolean-octet-not-0-or-1"
                )
            return n == 1
        if code < 0xA0:
            return self.fixed(code)
        if code == 0xA0:
            pos = self.pos
            if pos >= self.end:
                raise self.truncated(pos, 1)
            n = self.buf[pos]
            pos += 1
            stop = pos + n
            if stop > self.end:
                raise self.truncated(pos, n)
            self.pos = stop
            return self.buf[pos:stop]
        if code == 0xC1 or code == 0xD1:
            return self.read_map(code)
        if code == 0xC0 or code == 0xD0:
            return self.read_list(code)
        if code == 0xB0 or code == 0xB1 or code == 0xB3:
            return self.long_variable(code)
        if code == 0xE0 or code == 0xF0:
            return self.read_array(code)
        raise self.unknown(code, self.pos - 1)

    def symbol(self, text: Any) -> Symbol:
        made = _new_str(Symbol, text)
        if len(text) <= _MAX_SYMBOL and len(_SYMBOLS) < _MAX_SYMBOLS:
            _SYMBOLS[text] = made
        return made

    def take(self, n: int) -> int:
        """Pass over n octets and tell where they begin."""
        pos = self.pos
        if n > self.end - pos:
            raise self.truncated(pos, n)
        self.pos = pos + n
        return pos

    def long_variable(self, code: int) -> Any:
        n = _u32(self.buf, self.take(4))
        pos = self.take(n)
        if code == 0xB0:
            return self.buf[pos : pos + n]
        if code == 0xB1:
            return self.buf[pos : pos + n].decode("utf-8")
        return self.symbol(self.buf[pos : pos + n].decode("ascii"))

    def fixed(self, code: int) -> Any:
        """Read the fixed-width types of two octets and more."""
        kind = _TYPE_OF[code]
        if kind == 0:
            raise self.unknown(code, self.pos - 1)
        if code == 0x81:
            return self.number(code)
        if code == 0x83:
            return _Timestamp.__new__(_Timestamp, self.number(code))
        if code == 0x82:
            return _unpack_double(self.buf, self.take(8))[0]
        if code == 0x71:
            return _Int.__new__(_Int, self.number(code))
        if code == 0x70:
            return _UInt.__new__(_UInt, self.number(code))
        if code == 0x80:
            return _ULong.__new__(_ULong, self.number(code))
        if code == 0x60:
            return _UShort.__new__(_UShort, self.number(code))
        if code == 0x61:
            return _Short.__new__(_Short, self.number(code))
        if code == 0x98:
            pos = self.take(16)
            made = _new_object(_UUID)
            # The two documented attributes, without the checks of UUID(), which cost five times
            # as much; 16 octets are always a valid UUID.
            _set(made, "int", int.from_bytes(self.buf[pos : pos + 16], "big"))
            _set(made, "is_safe", _UNKNOWN_SAFETY)
            return made
        if code == 0x72:
            pos = self.take(4)
            single = Float(_F32.unpack_from(self.buf, pos)[0])
            if single != single:
                return Float.from_bits(_u32(self.buf, pos))
            return single
        if code == 0x73:
            pos = self.take(4)
            n = _u32(self.buf, pos)
            if n > 0x10FFFF or 0xD800 <= n <= 0xDFFF:
                raise DecodeError(
                    f"a char is a Unicode code point that is no surrogate, not 0x{n:X}",
                    pos,
                    rule="char-not-a-unicode-scalar",
                )
            return _new_str(Char, chr(n))
        width = 4 if code == 0x74 else 8 if code == 0x84 else 16
        pos = self.take(width)
        bits = int.from_bytes(self.buf[pos : pos + width], "big")
        if code == 0x74:
            return Decimal32(bits)
        return Decimal64(bits) if code == 0x84 else Decimal128(bits)

    def number(self, code: int) -> Any:
        """Read an integer or a timestamp, in any of its forms, as a plain int."""
        if code == 0x43 or code == 0x44:
            return 0
        if code < 0x60:
            small = self.buf[self.take(1)]
            if code == 0x51 or code == 0x54 or code == 0x55:
                return small - 256 if small > 127 else small
            return small
        if code < 0x70:
            pos = self.take(2)
            small = self.buf[pos] * 256 + self.buf[pos + 1]
            return small - 65536 if code == 0x61 and small > 32767 else small
        if code < 0x80:
            word = _u32(self.buf, self.take(4))
            return word - _WORD if code == 0x71 and word > _INT_MAX else word
        pos = self.take(8)
        if code == 0x80:
            high = _u32(self.buf, pos)
            low = _u32(self.buf, pos + 4)
            return high * _WORD + low
        # Two steps, so that neither build shifts a negative number or overflows 64 bits.
        word = _u32(self.buf, pos)
        if word > _INT_MAX:
            word -= _WORD
        return word * _WORD + _u32(self.buf, pos + 4)

    def described(self) -> Any:
        self.enter(self.pos - 1)
        descriptor = self.value()
        made = Described(descriptor, self.value())
        self.depth += 1
        return made

    # Compounds.

    def open(self, code: int) -> int:
        """Read a compound's size and count; set `count` and tell where the compound ends."""
        pos = self.pos
        if code < 0xD0:
            if self.end - pos < 1:
                raise self.truncated(pos, 1)
            size = self.buf[pos]
            if size < 1:
                raise self.too_small(pos, size, 1)
            pos += 1
            if size > self.end - pos:
                raise self.truncated(pos, size)
            stop = pos + size
            count = self.buf[pos]
            pos += 1
        else:
            if self.end - pos < 4:
                raise self.truncated(pos, 4)
            size = _u32(self.buf, pos)
            if size < 4:
                raise self.too_small(pos, size, 4)
            pos += 4
            if size > self.end - pos:
                raise self.truncated(pos, size)
            stop = pos + size
            count = _u32(self.buf, pos)
            pos += 4
        if count > stop - pos:
            raise DecodeError(
                f"a count of {count} values cannot fit the {stop - pos} octets behind it",
                pos,
                rule="count-exceeds-size",
            )
        self.items -= count
        if self.items < 0:
            raise self.exceeded("items limit: the input holds too many values", pos)
        self.pos = pos
        self.count = count
        return stop

    def too_small(self, pos: int, size: int, least: int) -> DecodeError:
        return DecodeError(
            f"a size of {size} does not cover the {least} octets that it must count",
            pos,
            rule="compound-size-too-small",
        )

    def close(self, stop: int, outer: int) -> None:
        """Leave a compound: all of its octets must have been read."""
        if self.pos != stop:
            raise DecodeError(
                f"{stop - self.pos} octets are left over behind the last value of a compound",
                self.pos,
                rule="compound-trailing-bytes",
            )
        self.end = outer
        self.depth += 1

    def read_list(self, code: int) -> Any:
        start = self.pos - 1
        stop = self.open(code)
        self.enter(start)
        outer = self.end
        self.end = stop
        values = []
        for _ in range(self.count):
            pos = self.pos
            if pos >= stop:
                raise self.truncated(pos, 1)
            self.pos = pos + 1
            values.append(self.read(self.buf[pos]))
        self.close(stop, outer)
        return values

    def read_map(self, code: int) -> Any:
        start = self.pos - 1
        stop = self.open(code)
        count = self.count
        if count & 1:
            raise DecodeError(
                f"a map of {count} values has a key without a value", start, rule="map-odd-count"
            )
        self.enter(start)
        outer = self.end
        self.end = stop
        made: dict[Any, Any] = {}
        left = count >> 1
        size = 0
        while left:
            at = self.pos
            key = self.value()
            value = self.value()
            left -= 1
            kind = type(key)
            if kind is not str and kind is not Symbol:
                if kind is _UUID:
                    if self.colliding(made, key):
                        break
                elif key != key or not key.__hash__:
                    break
            made.setdefault(key, value)
            size += 1
            if len(made) != size:
                break
        else:
            self.close(stop, outer)
            return made
        # From here on a dict cannot hold the keys.
        pairs = list(made.items())
        seen = {encode_value(known) for known, _ in pairs}
        while True:
            octets = encode_value(key)
            if octets in seen:
                raise DecodeError(
                    f"the key {key!r} stands twice in one map", at, rule="map-duplicate-key"
                )
            seen.add(octets)
            pairs.append((key, value))
            if not left:
                break
            at = self.pos
            key = self.value()
            value = self.value()
            left -= 1
        self.close(stop, outer)
        return AmqpMap(pairs)

    def colliding(self, made: Any, key: Any) -> bool:
        if len(made) < 2 * _MAX_UUID_COLLISIONS:
            return False
        own = hash(key)
        return sum(1 for other in made if hash(other) == own) > _MAX_UUID_COLLISIONS

    def read_array(self, code: int) -> Any:
        start = self.pos - 1
        pos = self.pos
        if code == 0xE0:
            if self.end - pos < 1:
                raise self.truncated(pos, 1)
            size = self.buf[pos]
            if size < 2:
                raise self.too_small(pos, size, 2)
            pos += 1
            if size > self.end - pos:
                raise self.truncated(pos, size)
            stop = pos + size
            count = self.buf[pos]
            pos += 1
        else:
            if self.end - pos < 4:
                raise self.truncated(pos, 4)
            size = _u32(self.buf, pos)
            if size < 5:
                raise self.too_small(pos, size, 5)
            pos += 4
            if size > self.end - pos:
                raise self.truncated(pos, size)
            stop = pos + size
            count = _u32(self.buf, pos)
            pos += 4
        self.pos = pos
        self.enter(start)
        outer = self.end
        self.end = stop
        code = self.buf[pos]
        self.pos = pos + 1
        descriptors = []
        while code == 0:
            self.enter(pos)
            descriptors.append(self.value())
            pos = self.pos
            if pos >= stop:
                raise self.truncated(pos, 1)
            code = self.buf[pos]
            self.pos = pos + 1
        if _TYPE_OF[code] == 0:
            raise self.unknown(code, pos)
        left = stop - self.pos
        least = _LEAST[code]
        if least == 0:
            self.zero_width -= count
            if self.zero_width < 0:
                raise self.exceeded(
                    f"zero-width limit: an array asks for {count} elements that take no octets",
                    start,
                )
        elif count > left // least:
            raise DecodeError(
                f"a count of {count} elements cannot fit the {left} octets behind it",
                pos,
                rule="count-exceeds-size",
            )
        self.items -= count
        if self.items < 0:
            raise self.exceeded("items limit: the input holds too many values", start)
        values = []
        for _ in range(count):
            values.append(self.read(code))
        self.depth += len(descriptors)
        self.close(stop, outer)
        return Array(code, values, descriptors=descriptors)

    # Composites and sections.

    def field(self, kind: int, code: int, spec: Any, index: int) -> Any:
        """Read one field that is declared to be of this kind, as a plain Python value."""
        have = _TYPE_OF[code]
        if have == kind:
            if code == 0xA1 or code == 0x41 or code == 0x42:
                return self.read(code)
            if 3 <= kind <= 10 or kind == 17:
                return self.number(code)
            if kind == 21:
                if code == 0xA3:
                    pos = self.take(1)
                    n = self.buf[pos]
                else:
                    pos = self.take(4)
                    n = _u32(self.buf, pos)
                pos = self.take(n)
                return self.buf[pos : pos + n].decode("ascii")
            return self.read(code)
        if kind == 26 or (
            # message-id: ulong, uuid, binary, string; address: string.
            kind == 27 and (have == 6 or have == 18 or have == 19 or have == 20)
        ):
            return self.read(code)
        if kind == 28 and have == 20:
            return self.read(code)
        if kind == 29 and have == 23:
            start = self.pos - 1
            made = self.read(code)
            if type(made) is dict and all(type(key) is Symbol for key in made):
                return made
            raise DecodeError(
                f"the keys of {spec.names[index]} are symbols",
                start,
                rule="field-key-type",
                condition=INVALID_FIELD,
            )
        if have == 24 and spec.multiple and spec.multiple[index]:
            return self.read(code)
        if code != 0 and have == 0:
            raise self.unknown(code, self.pos - 1)
        raise DecodeError(
            f"{spec.names[index]} is {_WANTED[kind]}, not {_TYPE_NAMES[have or 25]}",
            self.pos - 1,
            rule="field-type",
            condition=INVALID_FIELD,
        )

    def composite(self, spec: Any) -> Any:
        """Read a composite's list, from its constructor on, into its class."""
        start = self.pos
        if start >= self.end:
            raise self.truncated(start, 1)
        code = self.buf[start]
        self.pos = start + 1
        values = spec.blank.copy()
        if code != 0x45:
            if code != 0xC0 and code != 0xD0:
                raise self.wrong_value(spec, code, "a list", start)
            stop = self.open(code)
            count = self.count
            if count >= len(values):
                raise DecodeError(
                    f"{spec.name} has {len(values) - 1} fields, not {count}",
                    start,
                    rule="too-many-fields",
                    condition=INVALID_FIELD,
                )
            self.enter(start)
            outer = self.end
            self.end = stop
            kinds = spec.kinds
            for i in range(count):
                pos = self.pos
                if pos >= stop:
                    raise self.truncated(pos, 1)
                code = self.buf[pos]
                self.pos = pos + 1
                if code == 0x40:
                    continue
                values[i + 1] = self.field(kinds[i], code, spec, i)
            self.close(stop, outer)
        if spec.mandatory:
            for i in spec.mandatory:
                if values[i + 1] is None:
                    raise DecodeError(
                        f"the mandatory field {spec.names[i]} of {spec.name} is missing",
                        start,
                        rule="mandatory-field-missing",
                        condition=INVALID_FIELD,
                    )
        return spec.build(values)

    def wrong_value(self, spec: Any, code: int, wanted: str, pos: int) -> DecodeError:
        have = _TYPE_OF[code]
        if code != 0 and have == 0:
            return self.unknown(code, pos)
        return DecodeError(
            f"{spec.name} holds {wanted}, not {_TYPE_NAMES[have or 25]}",
            pos,
            rule="section-value-type",
            condition=INVALID_FIELD,
        )

    def mapping(self, spec: Any) -> Any:
        """Read the map of an annotations or application-properties section into its class."""
        start = self.pos
        if start >= self.end:
            raise self.truncated(start, 1)
        code = self.buf[start]
        self.pos = start + 1
        if code != 0xC1 and code != 0xD1:
            raise self.wrong_value(spec, code, "a map", start)
        stop = self.open(code)
        count = self.count
        if count & 1:
            raise DecodeError(
                f"a map of {count} values has a key without a value", start, rule="map-odd-count"
            )
        self.enter(start)
        outer = self.end
        self.end = stop
        self.first = self.pos
        annotations = spec.shape == 1
        cls = spec.cls
        made = cls.__new__(cls)
        for _ in range(count >> 1):
            at = self.pos
            if at >= stop:
                raise self.truncated(at, 1)
            code = self.buf[at]
            self.pos = at + 1
            have = _TYPE_OF[code]
            if annotations:
                if have != 21 and have != 6:
                    raise self.wrong_key(spec, code, "a symbol or a ulong", at)
            elif have != 20:
                raise self.wrong_key(spec, code, "a string", at)
            key = self.read(code)
            pos = self.pos
            if pos >= stop:
                raise self.truncated(pos, 1)
            code = self.buf[pos]
            self.pos = pos + 1
            if annotations:
                made[key] = self.read(code)
            else:
                value = self.read(code)
                if (code == 0x45 or code >= 0xC0 or code == 0) and not_simple(value):
                    raise DecodeError(
                        f"an application property is of a simple type, and {key!r} is not",
                        pos,
                        rule="application-properties-value-not-simple",
                        condition=INVALID_FIELD,
                    )
                made[key] = value
        self.close(stop, outer)
        if len(made) != count >> 1:
            raise self.duplicate(count)
        return made

    def duplicate(self, count: int) -> DecodeError:
        """Find the key that stands twice in the map of scalar keys that begins at `first`."""
        self.pos = self.first
        seen = set()
        for _ in range(count >> 1):
            at = self.pos
            key = self.value()
            self.skip()
            if key in seen:
                break
            seen.add(key)
        return DecodeError(
            f"the key {key!r} stands twice in one map", at, rule="map-duplicate-key"
        )

    def wrong_key(self, spec: Any, code: int, wanted: str, pos: int) -> DecodeError:
        have = _TYPE_OF[code]
        if code != 0 and have == 0:
            return self.unknown(code, pos)
        return DecodeError(
            f"a key of {spec.name} is {wanted}, not {_TYPE_NAMES[have or 25]}",
            pos,
            rule=f"{spec.name}-key-type",
            condition=INVALID_FIELD,
        )

    def section(self, spec: Any) -> Any:
        """Read what follows a section's descriptor into the section's class."""
        shape = spec.shape
        if shape == 0:
            return self.composite(spec)
        if shape == 1 or shape == 2:
            return self.mapping(spec)
        if shape == 5:
            return spec.wrap(self.value())
        start = self.pos
        if start >= self.end:
            raise self.truncated(start, 1)
        code = self.buf[start]
        self.pos = start + 1
        if shape == 3:
            if code != 0xA0 and code != 0xB0:
                raise self.wrong_value(spec, code, "a binary", start)
        elif code != 0xC0 and code != 0xD0 and code != 0x45:
            raise self.wrong_value(spec, code, "a list", start)
        return spec.wrap(self.read(code))

    def section_code(self, codes: Any) -> int:
        """Read a section's constructor and descriptor; tell its code, or -1 if it is none."""
        pos = self.pos
        buf = self.buf
        if buf[pos] != 0:
            return -1
        if self.end - pos > 2 and buf[pos + 1] == 0x53:
            code = buf[pos + 2]
            if 0x70 <= code <= 0x78:
                self.pos = pos + 3
                return code
        self.pos = pos + 1
        descriptor = self.value()
        kind = type(descriptor)
        if kind is ULong or kind is Symbol:
            found = codes.get(descriptor)
            if found is not None:
                return found
        return -1

    def message(self, specs: Any, codes: Any) -> Any:
        """Read the sections of a message: a list of [None, body, header … footer].

        That is the order of the attributes of Message; the first place is for the instance.
        """
        found: list[Any] = [None, None, None, None, None, None, None, None]
        last = -1
        several = False
        while self.pos < self.end:
            start = self.pos
            code = self.section_code(codes)
            if code < 0:
                raise self.no_section(start)
            index = code - 0x70
            if index <= last:
                if index != last or index > 6 or index < 5:
                    raise self.misplaced(index, last, found, specs, start)
            elif last >= 5 and index < 8:
                raise self.misplaced(index, last, found, specs, start)
            made = self.section(specs[index])
            if index < 5:
                found[index + 2] = made
            elif index == 8:
                found[7] = made
            elif index != last:
                found[1] = made
            elif several:
                found[1].append(made)
            else:
                found[1] = [found[1], made]
                several = True
            last = index
        return found

    def no_section(self, start: int) -> DecodeError:
        # Whatever stands here must still be an encoding; if it is not, that is the better report.
        self.pos = start
        self.skip()
        if self.buf[start] != 0:
            return DecodeError(
                "a message is a sequence of sections, and this is no described value",
                start,
                rule="not-a-section",
            )
        return DecodeError(
            "the descriptor is not that of a section of Part 3, 3.2",
            start,
            rule="unknown-section",
            condition=NOT_IMPLEMENTED,
        )

    def misplaced(self, index: int, last: int, found: Any, specs: Any, start: int) -> DecodeError:
        name = specs[index].name
        if index == last or (index < 5 and found[index + 2] is not None):
            return DecodeError(f"{name} stands twice", start, rule="duplicate-section")
        if 5 <= index <= 7 and 5 <= last <= 7:
            return DecodeError(
                f"{name} stands beside {specs[last].name}: a body is one kind of section",
                start,
                rule="mixed-body-sections",
            )
        if 5 <= index <= 7 and found[1] is not None:
            return DecodeError(
                f"{name} stands behind the footer", start, rule="section-out-of-order"
            )
        return DecodeError(
            f"{name} stands behind {specs[last].name}", start, rule="section-out-of-order"
        )

    # Passing over.

    def skip(self) -> None:
        """Pass over one value without looking into compounds; nesting costs no stack."""
        pending = 1
        while pending:
            pending -= 1
            pos = self.take(1)
            code = self.buf[pos]
            if code == 0:
                # A descriptor and a value. Every round consumes an octet, so this is bounded.
                pending += 2
                continue
            if _TYPE_OF[code] == 0:
                raise self.unknown(code, pos)
            if code < 0xA0:
                self.take(_LEAST[code])
            elif code & 0x10:
                self.take(_u32(self.buf, self.take(4)))
            else:
                self.take(self.buf[self.take(1)])

    def scan(self, codes: Any) -> Any:
        """Find the sections: a list of (code or -1, start, start of the value, end)."""
        parts = []
        while self.pos < self.end:
            start = self.pos
            code = self.section_code(codes)
            if code < 0:
                self.pos = start
            at = self.pos
            self.skip()
            parts.append((code, start, at, self.pos))
        return parts


def not_simple(value: Any) -> bool:
    """Tell whether a value is a list, map or array, also as what a descriptor describes."""
    while type(value) is Described:
        value = value.value
    return isinstance(value, (list, dict, AmqpMap, Array))


# Python types that say their AMQP type, as the numbers that Writer.value branches on.
_KINDS: dict[type, int] = {
    str: 20,
    int: 10,
    bool: 2,
    type(None): 1,
    Symbol: 21,
    bytes: 19,
    dict: 23,
    list: 22,
    float: 12,
    UInt: 5,
    Int: 9,
    ULong: 6,
    UByte: 3,
    UShort: 4,
    Byte: 7,
    Short: 8,
    Timestamp: 17,
    _UUID: 18,
    Float: 11,
    Char: 16,
    Decimal32: 13,
    Decimal64: 14,
    Decimal128: 15,
    Array: 24,
    AmqpMap: 40,
    Described: 25,
    bytearray: 19,
    memoryview: 19,
    datetime.datetime: 41,
    decimal.Decimal: 42,
}

# Classes of composites and sections, filled by their declarations.
_SPECS: dict[type, Spec] = {}

_INTEGER_RANGES: dict[int, tuple[str, int, int]] = {
    3: ("ubyte", 0, 2**8 - 1),
    4: ("ushort", 0, 2**16 - 1),
    5: ("uint", 0, 2**32 - 1),
    6: ("ulong", 0, 2**64 - 1),
    7: ("byte", -(2**7), 2**7 - 1),
    8: ("short", -(2**15), 2**15 - 1),
    9: ("int", -(2**31), 2**31 - 1),
    10: ("long", -(2**63), 2**63 - 1),
    17: ("timestamp", -(2**63), 2**63 - 1),
}

# Data of this size is not copied into the buffer but kept beside it until the end, and a buffer
# of this size is set aside before the next compound begins: so no octet is moved more than a few
# times, however deep and large the value.
_LARGE = 4096


class Writer:
    """Collects encodings; `finish` gives the octets.

    With `lenient` set, what a declaration forbids is written as its Python type says.
    """

    def __init__(self, lenient: bool = False) -> None:
        self.out = bytearray()
        self.parts: list[Any] = []
        self.done = 0
        self.depth = 0
        self.lenient = lenient

    def finish(self) -> bytes:
        if not self.parts:
            return bytes(self.out)
        self.parts.append(self.out)
        return b"".join(self.parts)

    def set_aside(self) -> None:
        self.parts.append(self.out)
        self.done += len(self.out)
        self.out = bytearray()

    def raw(self, octets: Any) -> None:
        """Append octets that are encoded already."""
        if len(octets) < _LARGE:
            self.out += octets
        else:
            self.set_aside()
            self.parts.append(octets)
            self.done += len(octets)

    # Compounds: the short header is written first and widened when the content turns out long.

    def open(self, code: int) -> tuple[Any, int, int]:
        self.depth += 1
        if self.depth > 256:
            raise EncodeError("values are nested more than 256 deep, or contain themselves")
        if len(self.out) >= _LARGE:
            self.set_aside()
        out = self.out
        start = len(out)
        out.append(code)
        out.append(0)
        out.append(0)
        return out, start, self.done

    def close(self, mark: tuple[Any, int, int], count: int) -> None:
        out, start, before = mark
        self.depth -= 1
        # The size counts the count's own octets: one here, four in the long form.
        size = self.done - before + len(self.out) - start - 2
        if size <= 255 and count <= 255:
            out[start + 1] = size
            out[start + 2] = count
            return
        size += 3
        if size > _WORD_MAX:
            raise EncodeError(f"a compound of {size} octets does not fit AMQP: 2^32 - 1 at most")
        out[start : start + 3] = (
            bytes((out[start] + 0x10,)) + size.to_bytes(4, "big") + count.to_bytes(4, "big")
        )
        if out is not self.out:
            self.done += 6

    # Values.

    def value(self, value: Any) -> None:
        """Write one value in the smallest encoding of its type."""
        kind = _KINDS.get(type(value), 0)
        if kind == 20:
            self.text(value.encode("utf-8"), 0xA1)
        elif kind == 10:
            self.integer(10, value)
        elif kind == 2:
            self.out.append(0x41 if value else 0x42)
        elif kind == 1:
            self.out.append(0x40)
        elif kind == 21:
            self.text(value.encode("ascii"), 0xA3)
        elif kind == 19:
            self.text(value, 0xA0)
        elif 3 <= kind <= 9 or kind == 17:
            self.integer(kind, value)
        elif kind == 23:
            self.pairs(value.items(), len(value))
        elif kind == 22:
            self.write_list(value)
        elif kind == 12:
            self.out.append(0x82)
            self.out += _F64.pack(value)
        elif kind == 25:
            self.depth += 1
            if self.depth > 256:
                raise EncodeError("values are nested more than 256 deep, or contain themselves")
            self.out.append(0)
            self.value(value.descriptor)
            self.value(value.value)
            self.depth -= 1
        elif kind == 40:
            self.pairs(value.pairs, len(value.pairs))
        elif kind == 24:
            self.write_array(value)
        elif kind:
            self.plain(kind, value)
        else:
            self.other(value)

    def text(self, octets: Any, code: int) -> None:
        """Write a variable-width value; the code is that of the one-octet length."""
        n = octets.nbytes if type(octets) is memoryview else len(octets)
        if n <= 255:
            self.out.append(code)
            self.out.append(n)
            self.out += octets
            return
        if n > _WORD_MAX:
            raise EncodeError(f"a value of {n} octets does not fit AMQP: 2^32 - 1 at most")
        self.out.append(code + 0x10)
        self.out += n.to_bytes(4, "big")
        self.raw(octets)

    def integer(self, kind: int, value: Any) -> None:
        """Write an integer or timestamp of this kind; refuse one out of its range."""
        out = self.out
        if -128 <= value <= 255:
            small = int(value)
            if kind == 10 or kind == 9:
                if small <= 127:
                    out.append(0x55 if kind == 10 else 0x54)
                    out.append(small & 255)
                    return
            elif small >= 0:
                if kind == 5 or kind == 6:
                    if small == 0:
                        out.append(0x43 if kind == 5 else 0x44)
                    else:
                        out.append(0x52 if kind == 5 else 0x53)
                        out.append(small)
                    return
                if kind == 3:
                    out.append(0x50)
                    out.append(small)
                    return
        self.wide(kind, value)

    def wide(self, kind: int, value: Any) -> None:
        name, least, most = _INTEGER_RANGES[kind]
        if not least <= value <= most:
            raise EncodeError(
                f"{name} holds {least} to {most}, not {int(value)}{_hint(kind, value)}"
            )
        out = self.out
        if kind == 10 or kind == 17 or kind == 6:
            out.append(0x81 if kind == 10 else 0x83 if kind == 17 else 0x80)
            out += int(value).to_bytes(8, "big", signed=kind != 6)
        elif kind == 5 or kind == 9:
            out.append(0x70 if kind == 5 else 0x71)
            out += int(value).to_bytes(4, "big", signed=kind == 9)
        elif kind == 4 or kind == 8:
            out.append(0x60 if kind == 4 else 0x61)
            out += int(value).to_bytes(2, "big", signed=kind == 8)
        else:
            out.append(0x50 if kind == 3 else 0x51)
            out.append(value & 255)

    def plain(self, kind: int, value: Any) -> None:
        """Write the rarer types."""
        out = self.out
        if kind == 18:
            out.append(0x98)
            out += value.bytes
        elif kind == 11:
            out.append(0x72)
            if value == value:
                out += _F32.pack(value)
            else:
                out += value.bits.to_bytes(4, "big")
        elif kind == 16:
            out.append(0x73)
            out += ord(value).to_bytes(4, "big")
        elif kind == 41:
            self.integer(17, timestamp_of(value))
        elif kind == 42:
            self.value(smallest_decimal(value))
        else:
            out.append(0x74 if kind == 13 else 0x84 if kind == 14 else 0x94)
            out += value.bits.to_bytes(value.width, "big")

    def write_list(self, values: Any) -> None:
        count = len(values)
        if count == 0:
            self.out.append(0x45)
            return
        mark = self.open(0xC0)
        for value in values:
            self.value(value)
        self.close(mark, count)

    def pairs(self, pairs: Any, count: int) -> None:
        mark = self.open(0xC1)
        plain = True
        for key, value in pairs:
            if type(key) is not str and type(key) is not Symbol:
                plain = False
            self.value(key)
            self.value(value)
        self.close(mark, 2 * count)
        if not plain:
            seen = {encode_value(key) for key, _ in pairs}
            if len(seen) != count:
                raise EncodeError("a key stands twice in one map")

    def other(self, value: Any) -> None:
        """Write composites, and what subclasses a type that has an encoding."""
        spec = _SPECS.get(type(value))
        if spec is not None:
            self.section(spec, value)
            return
        if isinstance(value, enum.Enum):
            self.value(value.value)
            return
        for base in type(value).__mro__[1:]:
            kind = _KINDS.get(base, 0)
            if kind:
                if kind == 20:
                    self.text(value.encode("utf-8"), 0xA1)
                elif kind == 21:
                    self.text(value.encode("ascii"), 0xA3)
                elif kind == 22:
                    self.write_list(value)
                elif kind == 23:
                    self.pairs(value.items(), len(value))
                elif kind == 10 or 3 <= kind <= 9 or kind == 17:
                    self.integer(kind, value)
                elif kind == 12:
                    self.value(float(value))
                elif kind == 19:
                    self.value(bytes(value))
                else:
                    self.plain(kind, value)
                return
        if isinstance(value, tuple):
            self.write_list(value)
            return
        raise EncodeError(
            f"{type(value).__name__} has no AMQP type: use None, bool, int, float, str, bytes, "
            "uuid.UUID, datetime, Decimal, list, dict or a type of amqp10msg"
        )

    # Arrays.

    def write_array(self, array: Any) -> None:
        kind = TYPE_IDS[array.type]
        values = array.values
        count = len(values)
        self.depth += 1 + len(array.descriptors)
        if self.depth > 256:
            raise EncodeError("values are nested more than 256 deep, or contain themselves")
        # Each element is written whole and its constructor compared with the shared one. That
        # costs a pass, and lets one set of rules choose encodings.
        code = array.code
        body = Writer(self.lenient)
        body.depth = self.depth
        if code is None or count == 0:
            code = self.array_code(kind, values) if code is None else code
        for value in values:
            body.element(kind, code, value)
        octets = body.finish()
        head = bytearray()
        for descriptor in array.descriptors:
            head.append(0)
            head += encode_value(descriptor)
        head.append(code)
        size = 1 + len(head) + len(octets)
        if size <= 255 and count <= 255:
            self.out.append(0xE0)
            self.out.append(size)
            self.out.append(count)
        else:
            size += 3
            if size > _WORD_MAX or count > _WORD_MAX:
                raise EncodeError(
                    "an array of this size does not fit AMQP: 2^32 - 1 octets at most"
                )
            self.out.append(0xF0)
            self.out += size.to_bytes(4, "big")
            self.out += count.to_bytes(4, "big")
        self.out += head
        self.raw(octets)
        self.depth -= 1 + len(array.descriptors)

    def array_code(self, kind: int, values: Any) -> int:
        """Choose the smallest constructor, of one octet or more, that fits all values."""
        if kind == 1:
            return 0x40
        if kind == 2:
            return 0x56
        if kind in _WIDE_CODES:
            wide = _WIDE_CODES[kind]
            if kind in _SMALL_RANGES and values:
                small, least, most = _SMALL_RANGES[kind]
                if all(isinstance(v, int) and least <= v <= most for v in values):
                    return small
            return wide
        # Variable width, compounds and arrays: the long form as soon as one value needs it.
        short = _SHORT_CODES[kind]
        for value in values:
            probe = Writer(self.lenient)
            probe.depth = self.depth
            probe.typed(kind, value)
            octets = probe.finish()
            if octets[0] != short and octets[0] != 0x45:
                return short + 0x10
        return short

    def element(self, kind: int, code: int, value: Any) -> None:
        """Write one element's data behind the shared constructor `code`."""
        least = _LEAST[code]
        if code == 0x56:
            if type(value) is not bool:
                raise EncodeError(f"an array of boolean holds {value!r}")
            self.out.append(1 if value else 0)
            return
        probe = Writer(self.lenient)
        probe.depth = self.depth
        probe.typed(kind, value)
        octets = probe.finish()
        have = octets[0]
        if have == code:
            self.raw(octets[1:])
        elif code >= 0xA0:
            if have == 0x45:
                # An empty list behind a shared constructor has to spell its count.
                self.out += b"\x01\x00" if code == 0xC0 else b"\x00\x00\x00\x04\x00\x00\x00\x00"
            elif have + 0x10 == code:
                self.widen(octets, code)
            else:
                raise self.misfit(code, value)
        elif least == 0:
            raise self.misfit(code, value)
        elif 3 <= kind <= 10:
            _, low, high = _INTEGER_RANGES[kind]
            if least == 1 and kind != 3 and kind != 7:
                low, high = (-128, 127) if kind == 9 or kind == 10 else (0, 255)
            if not low <= value <= high:
                raise self.misfit(code, value)
            self.out += int(value).to_bytes(least, "big", signed=kind >= 7)
        else:
            raise self.misfit(code, value)

    def widen(self, octets: Any, code: int) -> None:
        """Write a value that took its short form in the long form of its type."""
        size = octets[1]
        if code < 0xC0:
            self.out += size.to_bytes(4, "big")
            self.raw(octets[2:])
        else:
            self.out += (size + 3).to_bytes(4, "big")
            self.out += octets[2].to_bytes(4, "big")
            self.raw(octets[3:])

    def misfit(self, code: int, value: Any) -> EncodeError:
        return EncodeError(
            f"{value!r} does not fit an array of constructor 0x{code:02X}: "
            "build the array from the type's name"
        )

    def typed(self, kind: int, value: Any) -> None:
        """Write a value as this AMQP type; refuse one that says another."""
        have = _KINDS.get(type(value), 0)
        if have == kind:
            self.value(value)
        elif have == 10 and (3 <= kind <= 9 or kind == 17):
            self.integer(kind, value)
        elif kind == 21 and have == 20:
            if not value.isascii():
                raise EncodeError(f"a symbol is ASCII, and {value!r} is not")
            self.text(value.encode("ascii"), 0xA3)
        elif kind == 17 and have == 41:
            self.integer(17, timestamp_of(value))
        elif kind == 12 and have == 10:
            self.value(float(value))
        elif kind == 11 and (have == 12 or have == 10):
            self.value(Float(value))
        elif kind == 16 and have == 20:
            self.value(Char(value))
        elif 13 <= kind <= 15 and have == 42:
            self.value((Decimal32, Decimal64, Decimal128)[kind - 13].from_decimal(value))
        elif kind == 23 and have == 40:
            self.value(value)
        elif kind == 26 or self.lenient:
            self.value(value)
        elif kind == 27:
            # A message-id: what is an int is a ulong.
            if have == 10:
                self.integer(6, value)
            elif have == 6 or have == 18 or have == 19 or have == 20:
                self.value(value)
            else:
                raise EncodeError(
                    f"a message-id is ulong (int), uuid, binary or string, not "
                    f"{type(value).__name__}"
                )
        elif kind == 28 and have == 20:
            self.value(value)
        elif kind == 29 and isinstance(value, dict):
            self.fields(value)
        elif have == 0 and not isinstance(value, (list, tuple)) and value is not None:
            self.subclassed(kind, value)
        else:
            raise EncodeError(f"{value!r} is no {_WANTED[kind]}{_hint(kind, value)}")

    def subclassed(self, kind: int, value: Any) -> None:
        """Write a value whose class is not known itself, by the known type behind it."""
        if isinstance(value, enum.Enum):
            self.typed(kind, value.value)
        elif type(value) in _SPECS:
            raise EncodeError(f"{type(value).__name__} is no {_TYPE_NAMES[kind]}")
        elif isinstance(value, bool):
            self.typed(kind, bool(value))
        elif isinstance(value, int):
            self.typed(kind, int(value))
        elif isinstance(value, str):
            self.typed(kind, str(value))
        elif isinstance(value, float):
            self.typed(kind, float(value))
        elif isinstance(value, dict) and kind == 23:
            self.value(dict(value))
        elif isinstance(value, datetime.datetime):
            self.typed(kind, Timestamp.from_datetime(value))
        else:
            raise EncodeError(f"{value!r} is no {_TYPE_NAMES[kind]}")

    # Composites and sections.

    def section(self, spec: Any, value: Any) -> None:
        """Write a section or composite with its descriptor."""
        self.out += spec.head
        shape = spec.shape
        if shape == 0:
            self.composite(spec, value)
        elif shape == 1:
            self.annotations(value)
        elif shape == 2:
            self.properties(value)
        elif shape == 3:
            self.typed(19, spec.get(value))
        elif shape == 4:
            self.write_list(spec.get(value))
        else:
            self.value(spec.get(value))

    def composite(self, spec: Any, value: Any) -> None:
        values = spec.get(value)
        defaults = spec.defaults
        count = len(values)
        while count:
            last = values[count - 1]
            if last is None or last == defaults[count - 1]:
                count -= 1
            else:
                break
        for i in spec.mandatory:
            if values[i] is None:
                raise EncodeError(f"the mandatory field {spec.names[i]} is None", spec.name)
            if i >= count:
                count = i + 1
        if count == 0:
            self.out.append(0x45)
            return
        mark = self.open(0xC0)
        kinds = spec.kinds
        for i in range(count):
            item = values[i]
            if item is None or (item == defaults[i] and i not in spec.mandatory):
                self.out.append(0x40)
            elif kinds[i] == 20 and type(item) is str:
                self.text(item.encode("utf-8"), 0xA1)
            else:
                try:
                    if spec.multiple and spec.multiple[i]:
                        self.several(kinds[i], item)
                    else:
                        self.typed(kinds[i], item)
                except EncodeError as error:
                    path = f".{error.path}" if error.path else ""
                    raise EncodeError(error.reason, f"{spec.name}.{spec.names[i]}{path}") from None
        self.close(mark, count)

    def several(self, kind: int, values: Any) -> None:
        """Write a field that is declared multiple: null, one value or an array of them."""
        if isinstance(values, Array):
            self.write_array(values)
        elif not isinstance(values, (list, tuple)):
            self.typed(kind, values)
        elif not values:
            self.out.append(0x40)
        elif len(values) == 1:
            self.typed(kind, values[0])
        else:
            self.write_array(Array(_TYPE_NAMES[kind], values))

    def fields(self, value: Any) -> None:
        """Write a map whose keys are symbols, also where they are plain str."""
        mark = self.open(0xC1)
        for key, item in value.items():
            self.typed(21, key)
            self.value(item)
        self.close(mark, 2 * len(value))

    def annotations(self, value: Any) -> None:
        mark = self.open(0xC1)
        for key, item in value.items():
            kind = type(key)
            if kind is Symbol or (kind is str and not self.lenient):
                if not key.isascii():
                    raise EncodeError(f"an annotation's key is ASCII, and {key!r} is not")
                self.text(key.encode("ascii"), 0xA3)
            elif kind is ULong or (kind is int and not self.lenient):
                self.integer(6, key)
            elif self.lenient:
                self.value(key)
            elif isinstance(key, str) and kind is not Char:
                self.typed(21, str(key))
            else:
                raise EncodeError(f"an annotation's key is a symbol (str) or a ulong, not {key!r}")
            self.value(item)
        self.close(mark, 2 * len(value))

    def properties(self, value: Any) -> None:
        mark = self.open(0xC1)
        for key, item in value.items():
            if type(key) is str:
                self.text(key.encode("utf-8"), 0xA1)
            elif self.lenient:
                self.value(key)
            else:
                raise EncodeError(f"the key of an application property is a str, not {key!r}")
            if not self.lenient and (not_simple(item) or isinstance(item, tuple)):
                raise EncodeError(
                    f"an application property is of a simple type, and {key!r} is "
                    f"{type(item).__name__}: put lists and maps into the body"
                )
            self.value(item)
        self.close(mark, 2 * len(value))


_WIDE_CODES = {
    **{3: 0x50, 4: 0x60, 5: 0x70, 6: 0x80, 7: 0x51, 8: 0x61, 9: 0x71, 10: 0x81, 11: 0x72, 12: 0x82},
    **{13: 0x74, 14: 0x84, 15: 0x94, 16: 0x73, 17: 0x83, 18: 0x98},
}
_SMALL_RANGES = {
    5: (0x52, 0, 255),
    6: (0x53, 0, 255),
    9: (0x54, -128, 127),
    10: (0x55, -128, 127),
}
_SHORT_CODES = {19: 0xA0, 20: 0xA1, 21: 0xA3, 22: 0xC0, 23: 0xC1, 24: 0xE0}


def _hint(kind: int, value: Any) -> str:
    if kind == 10 and isinstance(value, int) and 0 <= value < 2**64:
        return ": a plain int is a long; use ULong"
    return ""


def timestamp_of(moment: Any) -> int:
    try:
        return Timestamp.from_datetime(moment)
    except ValueError as error:
        raise EncodeError(str(error)) from None


def smallest_decimal(number: Any) -> Any:
    for kind in (Decimal32, Decimal64):
        try:
            return kind.from_decimal(number)
        except ValueError:
            pass
    try:
        return Decimal128.from_decimal(number)
    except ValueError as error:
        raise EncodeError(str(error)) from None


def register(cls: type, spec: Spec) -> None:
    """Make `encode_value` write instances of this class as this spec says."""
    _SPECS[cls] = spec


# The entry points.


def octets_of(data: Any, limits: Any) -> bytes:
    """Give the input as bytes, copied only if it could change under the reader."""
    if type(data) is bytes:
        if limits is DEFAULT_LIMITS:
            return data
    else:
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise TypeError(f"expected bytes, bytearray or memoryview, not {type(data).__name__}")
        data = bytes(data)
    if limits.size is not None and len(data) > limits.size:
        raise DecodeError(
            f"the input has {len(data)} octets, and the limit is {limits.size}",
            limits.size,
            rule="size-limit",
            condition=RESOURCE_LIMIT_EXCEEDED,
            data=data,
        )
    return data


def read_message(cls: Any, data: Any, limits: Any, more: Any, plan: Any) -> Any:
    """Decode a message into an instance of this class.

    Args:
        cls: Message, or a subclass that adds no attributes.
        data: bytes, bytearray or memoryview.
        limits: or None for the defaults.
        more: the message-format.
        plan: row tables, codes by descriptor, names for errors, and what sets the attributes.
    """
    if limits is None:
        limits = DEFAULT_LIMITS
    data = octets_of(data, limits)
    specs, codes, names, fill = plan
    reader = Reader(data, 0, limits)
    try:
        found = reader.message(specs, codes)
    except READ_FAULTS as error:
        raise reader.fault(error, names) from None
    kind: Any = cls
    made = kind.__new__(kind)
    found[0] = made
    found.append(more)
    found.append(data)
    found.append(False)
    fill(*found)
    return made


def decode_value(data: Any, *, limits: Limits | None = None) -> Any:
    """Decode one value that fills the input.

    A described value becomes `Described`, whatever its descriptor.

    Args:
        data: bytes, bytearray or memoryview.
        limits: what decoding may cost; the defaults of `Limits` where None.

    Raises:
        DecodeError: the octets are no value, or more than one.
    """
    limits = limits or DEFAULT_LIMITS
    data = octets_of(data, limits)
    reader = Reader(data, 0, limits)
    try:
        value = reader.value()
        if reader.pos != len(data):
            raise reader.trailing()
    except READ_FAULTS as error:
        raise reader.fault(error) from None
    return value


def decode_values(data: Any, *, limits: Limits | None = None) -> Iterator[Any]:
    """Decode the values that stand one behind the other in the input, one at a time.

    The limits hold for all of them together.

    Raises:
        DecodeError: the octets at some point are no value; values before it were given already.
    """
    limits = limits or DEFAULT_LIMITS
    data = octets_of(data, limits)
    return _values(data, Reader(data, 0, limits))


def _values(data: Any, reader: Any) -> Iterator[Any]:
    while reader.pos < len(data):
        try:
            value = reader.value()
        except READ_FAULTS as error:
            raise reader.fault(error) from None
        yield value


def skip_value(data: Any, offset: int = 0) -> int:
    """Tell where the value that begins at `offset` ends, without decoding it.

    Looks at constructors and sizes only, not into compounds.

    Raises:
        DecodeError: no value begins there, or it is cut off.
    """
    data = octets_of(data, DEFAULT_LIMITS)
    if not 0 <= offset <= len(data):
        raise DecodeError(f"offset {offset} is outside the input", 0, rule="truncated", data=data)
    reader = Reader(data, offset, DEFAULT_LIMITS)
    try:
        reader.skip()
    except READ_FAULTS as error:
        raise reader.fault(error) from None
    return int(reader.pos)


def encode_value(value: Any) -> bytes:
    """Encode one value in the smallest encoding of its type.

    Raises:
        EncodeError: the value has no AMQP type or is out of its range.
    """
    writer = Writer()
    try:
        writer.value(value)
    except (RecursionError, UnicodeEncodeError) as error:
        raise encode_fault(error) from None
    return writer.finish()


def encode_fault(error: BaseException) -> EncodeError:
    """Turn what a codec or the interpreter raised while writing into an EncodeError."""
    if isinstance(error, UnicodeEncodeError):
        return EncodeError(f"{error.object!r} is not valid text: {error.reason}")
    return EncodeError("values are nested too deeply, or contain themselves")
