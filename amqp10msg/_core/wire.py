# cython: language_level=3, boundscheck=True, wraparound=False, annotation_typing=False
"""The encodings of AMQP 1.0 Part 1, both ways: `Reader` and `Writer`.

This file runs as it is, and compiled by Cython with the C types of `wire.pxd`; both must behave
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
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from amqp10msg._core.path import path_of
from amqp10msg._core.twin import SYMBOLS, Cursor, Layout, Output, know
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

# The kinds of field that a string fits.
_STRINGS = bytes(kind in {20, 27, 28} for kind in range(30))
# What Cursor.quick_fields does with each code in a field of each kind; 0 gives up.
_ACTIONS = [
    bytes(
        (
            {0x40: 1}
            | ({0xA1: 2} if _STRINGS[kind] else {})
            | {
                2: {0x41: 4, 0x42: 5},
                3: {0x50: 6},
                5: {0x52: 6, 0x43: 9, 0x70: 8},
                6: {0x53: 6, 0x44: 9},
                17: {0x83: 7},
                19: {0xA0: 10},
                21: {0xA3: 3},
                27: {0xA0: 10},
            }.get(kind, {})
        ).get(code, 0)
        for code in range(256)
    )
    for kind in range(30)
]

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

# Every value of the one-octet forms, made once: the wrappers cost more than the parsing.
_UBYTES = [UByte(i) for i in range(256)]
_UINTS = [UInt(i) for i in range(256)]
_ULONGS = [ULong(i) for i in range(256)]
_BYTES = [Byte(i - 256 if i > 127 else i) for i in range(256)]
_INTS = [Int(i - 256 if i > 127 else i) for i in range(256)]
know(Symbol, Timestamp, Int, UInt, ULong, _UBYTES, _UINTS, _ULONGS, _INTS)

# As C integers in the compiled build: a literal of this size would be a Python int there.
_WORD = 2**32
_WORD_MAX = 2**32 - 1
_INT_MAX = 2**31 - 1

# Python hashes numbers, timestamps and UUIDs without a secret, so a peer can choose such keys to
# collide and make a dict quadratic. A dict gets at most this many of them (some 5 ms at worst), a
# larger map becomes an AmqpMap. UUIDs can even be given one and the same hash, at 0.2 us a
# comparison, so that is looked for as soon as there are a few.
_MAX_GUESSABLE = 4096
_MAX_UUIDS = 32


_DEPTH = DEFAULT_LIMITS.depth
_ITEMS = DEFAULT_LIMITS.items
_ZERO_WIDTH = DEFAULT_LIMITS.zero_width
# A section found costs a tuple and its numbers, some 170 octets: as much as a few items.
_PART_ITEMS = 4

#: What reading may raise on bad input: `Reader.fault` makes one DecodeError of them.
READ_FAULTS = (DecodeError, UnicodeDecodeError, RecursionError, MemoryError)
_NO_NAMES: dict[Any, Any] = {}


class Spec:
    """How a section or composite is read and written: the row table of its declaration.

    `layout` says where its class keeps the fields, or the one value of a body section, which
    `attribute` names. The map sections are dicts and need neither.
    """

    def __init__(
        self,
        name: str,
        code: int,
        symbol: str,
        shape: int,
        cls: Any,
        attribute: str = "",
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
        self.attribute = attribute
        self.names = names
        self.layout = Layout(
            cls,
            [attribute] if attribute else [name.replace("-", "_") for name in names],
            defaults,
            b"".join(_ACTIONS[kind] for kind in kinds),
            # Few headers say more than whether a message is durable.
            code == 0x70,
        )
        self.kinds = kinds
        self.defaults = defaults
        self.mandatory = mandatory
        self.multiple = multiple
        self.blank = [*defaults]
        self.head = b"\x00\x53" + bytes([code]) if code < 256 else b"\x00\x80" + code.to_bytes(8)


# Shapes of a Spec.
COMPOSITE, ANNOTATIONS, PROPERTIES_MAP, BINARY, SEQUENCE, VALUE = range(6)


def colliding(made: Any) -> bool:
    """Tell whether a dict holds keys of equal hashes, as chance gives to no 4,096 UUIDs.

    Looks whenever the number of keys is a power of two, and so costs each key a constant.
    """
    size = len(made)
    return size & (size - 1) == 0 and len({hash(key) for key in made}) < size - _MAX_UUIDS // 2


class Reader(Cursor):
    """A bounded cursor over encoded values.

    Everything that takes a format code expects the cursor behind that code.
    """

    def __init__(self, data: Any, pos: int, limits: Any) -> None:
        self.begin(data, pos, limits)

    def begin(self, data: Any, pos: int, limits: Any) -> None:
        """Set up a bare instance, which costs less than a call of the class."""
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
            return self.symbol(pos, stop)
        if 0x60 <= code < 0xA0:
            return self.fixed(code)
        if code < 0x60:
            if code == 0x40:
                return None
            if code == 0x41:
                return True
            if code == 0x42:
                return False
            if code == 0x00:
                return self.described()
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
            return self.octets(pos, stop)
        if code == 0xC1 or code == 0xD1:
            return self.read_map(code)
        if code == 0xC0 or code == 0xD0:
            return self.read_list(code)
        if code == 0xB0 or code == 0xB1 or code == 0xB3:
            return self.long_variable(code)
        if code == 0xE0 or code == 0xF0:
            return self.read_array(code)
        raise self.unknown(code, self.pos - 1)

    def symbol(self, start: int, stop: int) -> Any:
        """Give the symbol of these octets."""
        known = SYMBOLS.recall(self.buf, start, stop)
        if known is not None:
            return known
        made = _new_str(Symbol, self.buf[start:stop].decode("ascii"))
        SYMBOLS.keep(self.buf, start, stop, made)
        return made

    def take(self, n: int) -> int:
        """Pass over n octets and tell where they begin."""
        pos = self.pos
        if n > self.end - pos:
            raise self.truncated(pos, n)
        self.pos = pos + n
        return pos

    def long_variable(self, code: int) -> Any:
        n = self.u32(self.take(4))
        pos = self.take(n)
        if code == 0xB0:
            return self.octets(pos, pos + n)
        if code == 0xB1:
            return self.buf[pos : pos + n].decode("utf-8")
        return self.symbol(pos, pos + n)

    def fixed(self, code: int) -> Any:
        """Read the fixed-width types of two octets and more."""
        if code == 0x81:
            return self.i64(self.take(8))
        if code == 0x83:
            return _Timestamp.__new__(_Timestamp, self.i64(self.take(8)))
        if code == 0x82:
            return self.f64(self.take(8))
        if code == 0x71:
            word = self.u32(self.take(4))
            return _Int.__new__(_Int, word - _WORD if word > _INT_MAX else word)
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
                return Float.from_bits(self.u32(pos))
            return single
        if code == 0x73:
            pos = self.take(4)
            n = self.u32(pos)
            if n > 0x10FFFF or 0xD800 <= n <= 0xDFFF:
                raise DecodeError(
                    f"a char is a Unicode code point that is no surrogate, not 0x{n:X}",
                    pos,
                    rule="char-not-a-unicode-scalar",
                )
            return _new_str(Char, chr(n))
        if _TYPE_OF[code] == 0:
            raise self.unknown(code, self.pos - 1)
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
            word = self.u32(self.take(4))
            return word - _WORD if code == 0x71 and word > _INT_MAX else word
        pos = self.take(8)
        if code == 0x80:
            high = self.u32(pos)
            low = self.u32(pos + 4)
            return high * _WORD + low
        return self.i64(pos)

    def described(self) -> Any:
        self.enter(self.pos - 1)
        pos = self.pos
        if pos >= self.end:
            raise self.truncated(pos, 1)
        self.pos = pos + 1
        descriptor = self.read(self.buf[pos])
        pos = self.pos
        if pos >= self.end:
            raise self.truncated(pos, 1)
        self.pos = pos + 1
        made = Described(descriptor, self.read(self.buf[pos]))
        self.depth += 1
        return made

    # Compounds.

    def open(self, code: int) -> int:
        """Read a compound's size and count; set `count` and tell where the compound ends."""
        pos = self.pos
        if code < 0xD0:
            if pos >= self.end:
                raise self.truncated(pos, 1)
            size = self.buf[pos]
            pos += 1
            stop = pos + size
            if stop > self.end:
                raise self.truncated(pos, size)
            if size < 1:
                raise self.too_small(pos - 1, size, 1)
            count = self.buf[pos]
            pos += 1
        else:
            if self.end - pos < 4:
                raise self.truncated(pos, 4)
            size = self.u32(pos)
            if size < 4:
                raise self.too_small(pos, size, 4)
            pos += 4
            stop = pos + size
            if stop > self.end:
                raise self.truncated(pos, size)
            count = self.u32(pos)
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
        guessable = 0
        while left:
            at = self.pos
            if at >= stop:
                raise self.truncated(at, 1)
            self.pos = at + 1
            key = self.read(self.buf[at])
            pos = self.pos
            if pos >= stop:
                raise self.truncated(pos, 1)
            self.pos = pos + 1
            value = self.read(self.buf[pos])
            left -= 1
            kind = type(key)
            if kind is not str and kind is not Symbol:
                if not key.__hash__ or key != key:
                    break
                guessable += 1
                if guessable > _MAX_GUESSABLE:
                    break
                if kind is _UUID and guessable > _MAX_UUIDS and colliding(made):
                    break
            made.setdefault(key, value)
            size += 1
            if len(made) != size:
                break
        else:
            self.close(stop, outer)
            return made
        return self.read_pairs(made, key, value, left, at, stop, outer)

    def read_pairs(
        self, made: Any, key: Any, value: Any, left: int, at: int, stop: int, outer: int
    ) -> Any:
        """Go on with a map whose keys a dict cannot hold, from the pair that showed it."""
        pairs = list(made.items())
        seen = {encode_key(known) for known, _ in pairs}
        while True:
            octets = encode_key(key)
            if octets in seen:
                raise DecodeError(
                    f"the key {key!r:.80} stands twice in one map", at, rule="map-duplicate-key"
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
            size = self.u32(pos)
            if size < 5:
                raise self.too_small(pos, size, 5)
            pos += 4
            if size > self.end - pos:
                raise self.truncated(pos, size)
            stop = pos + size
            count = self.u32(pos)
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
                    n = self.u32(pos)
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
        return spec.layout.build(self.fields(spec))

    def fields(self, spec: Any) -> Any:
        """Read a composite's list, from its constructor on: all of its fields."""
        start = self.pos
        first = start
        if start >= self.end:
            raise self.truncated(start, 1)
        buf = self.buf
        code = buf[start]
        self.pos = start + 1
        values = spec.blank[:]
        if code != 0x45:
            if code != 0xC0 and code != 0xD0:
                raise self.wrong_value(spec, code, "a list", start)
            stop = self.open(code)
            count = self.count
            if count > len(values):
                raise DecodeError(
                    f"{spec.name} has {len(values)} fields, not {count}",
                    start,
                    rule="too-many-fields",
                    condition=INVALID_FIELD,
                )
            self.enter(start)
            outer = self.end
            self.end = stop
            for i in range(count):
                pos = self.pos
                if pos >= stop:
                    raise self.truncated(pos, 1)
                self.pos = pos + 1
                code = buf[pos]
                if code != 0x40:
                    values[i] = self.field(spec.kinds[i], code, spec, i)
            self.close(stop, outer)
        if spec.mandatory:
            for i in spec.mandatory:
                if values[i] is None:
                    raise DecodeError(
                        f"the mandatory field {spec.names[i]} of {spec.name} is missing",
                        first,
                        rule="mandatory-field-missing",
                        condition=INVALID_FIELD,
                    )
        return values

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
        guessable = 0
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
                if have != 21:
                    if have != 6:
                        raise self.wrong_key(spec, code, "a symbol or a ulong", at)
                    guessable += 1
                    if guessable > _MAX_GUESSABLE:
                        raise DecodeError(
                            f"more than {_MAX_GUESSABLE} keys are ulongs, which a peer can "
                            "choose so that a map becomes slow: use symbols",
                            at,
                            rule="keys-limit",
                            condition=RESOURCE_LIMIT_EXCEEDED,
                        )
            elif have != 20:
                raise self.wrong_key(spec, code, "a string", at)
            key = self.read(code)
            pos = self.pos
            if pos >= stop:
                raise self.truncated(pos, 1)
            code = self.buf[pos]
            self.pos = pos + 1
            value = self.read(code)
            if (
                (code >= 0xC0 or code == 0x45 or code == 0)
                and not annotations
                and not_simple(value)
            ):
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
        return DecodeError(f"the key {key!r} stands twice in one map", at, rule="map-duplicate-key")

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
            return spec.layout.build([self.value()])
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
        return spec.layout.build([self.read(code)])

    def section_code(self) -> int:
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
            found = _CODES.get(descriptor)
            if found is not None:
                return found
        return -1

    def message(self, cls: Any, message_format: int) -> Any:
        """Read the sections of a message into an instance of this class."""
        buf = self.buf
        found: list[Any]
        found = [None, None, None, None, None, None, None, message_format, buf, False]
        last = -1
        several = False
        end = self.end
        while self.pos < end:
            start = self.pos
            if end - start > 2 and buf[start + 1] == 0x53 and buf[start] == 0:
                index = buf[start + 2] - 0x70
                self.pos = start + 3
            else:
                index = -1
            # Above the last one and no more than 8, and not the second kind of body.
            if not last < index < 9 or (last >= 5 and index != 8):
                if not 0 <= index < 9:
                    self.pos = start
                    index = self.section_code() - 0x70
                    if index < 0:
                        raise self.no_section(start)
                if (index <= last or last >= 5) and not (
                    index == last if index == 5 or index == 6 else index == 8 and last < 8
                ):
                    raise self.misplaced(index, last, found, start)
            last = index
            spec = _SECTIONS[index]
            if 0 < index < 5 and index != 3:
                section = self.quick_mapping(spec.cls, index < 3)
                found[index] = self.mapping(spec) if section is None else section
            elif index == 0 or index == 3:
                section = self.quick_fields(spec.layout)
                found[index] = self.composite(spec) if section is None else section
            elif index == 8:
                section = self.quick_mapping(spec.cls, True)
                found[6] = self.mapping(spec) if section is None else section
            elif found[5] is None:
                section = self.quick_data(spec.layout) if index == 5 else None
                found[5] = self.section(spec) if section is None else section
            elif several:
                found[5].append(self.section(spec))
            else:
                found[5] = [found[5], self.section(spec)]
                several = True
        kind = cls
        made = kind.__new__(kind)
        layout: Any = _MESSAGE[0]
        layout.fill(made, found)
        return made

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

    def misplaced(self, index: int, last: int, found: Any, start: int) -> DecodeError:
        name = _SECTIONS[index].name
        if index == last or (index < 5 and found[index] is not None):
            return DecodeError(f"{name} stands twice", start, rule="duplicate-section")
        if 5 <= index <= 7 and 5 <= last <= 7:
            return DecodeError(
                f"{name} stands beside {_SECTIONS[last].name}: a body is one kind of section",
                start,
                rule="mixed-body-sections",
            )
        if 5 <= index <= 7 and found[5] is not None:
            return DecodeError(
                f"{name} stands behind the footer", start, rule="section-out-of-order"
            )
        return DecodeError(
            f"{name} stands behind {_SECTIONS[last].name}", start, rule="section-out-of-order"
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
                self.take(self.u32(self.take(4)))
            else:
                self.take(self.buf[self.take(1)])

    def part(self) -> int:
        """Pass over one section; tell its code or -1, and set `first` to where its value begins."""
        start = self.pos
        self.items -= _PART_ITEMS
        if self.items < 0:
            raise self.exceeded("items limit: there are too many sections", start)
        code = self.section_code()
        if code < 0:
            self.pos = start
        self.first = self.pos
        self.skip()
        return code

    def scan(self) -> Any:
        """Find the sections: a list of (code or -1, start, start of the value, end)."""
        parts = []
        while self.pos < self.end:
            start = self.pos
            code = self.part()
            parts.append((code, start, self.first, self.pos))
        return parts


def not_simple(value: Any) -> bool:
    """Tell whether a value is a list, map or array, also as what a descriptor describes."""
    while True:
        if isinstance(value, Described):
            value = value.value
        elif isinstance(value, enum.Enum):
            value = value.value
        else:
            break
    return isinstance(value, (list, tuple, dict, AmqpMap, Array)) or type(value) in _SPECS


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

# Classes of composites and sections, filled by their declarations; the nine kinds of section in
# the order of their codes, their codes by descriptor, and names for the paths in errors.
_SPECS: dict[type, Spec] = {}
_SECTIONS: list[Any] = []
_CODES: dict[Any, int] = {}
_NAMES: dict[Any, Any] = {}
_BODIES: list[Any] = []
_MESSAGE: list[Any] = []
_SCAN: list[Any] = []

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

# What is written most, made once.
_NULL, _TRUE, _FALSE, _LIST0, _DESCRIBED = 0x40, 0x41, 0x42, 0x45, 0x00
_NULLS = [b"\x40" * n for n in range(32)]
_pack_float = struct.Struct(">Bf").pack
_pack_octet_u32 = struct.Struct(">BI").pack
_pack_u32 = struct.Struct(">I").pack
# The wide forms of integers, by kind: constructor, width in octets, and range. A ulong that is
# larger than a long is not written by these.
_WIDE_OCTETS = bytes(
    {3: 0x50, 4: 0x60, 5: 0x70, 6: 0x80, 7: 0x51, 8: 0x61, 9: 0x71, 10: 0x81, 17: 0x83}.get(kind, 0)
    for kind in range(18)
)
_WIDTHS = bytes(
    {3: 1, 4: 2, 5: 4, 6: 8, 7: 1, 8: 2, 9: 4, 10: 8, 17: 8}.get(kind, 0) for kind in range(18)
)
_INT64_MAX = 2**63 - 1
_UINT64_MAX = 2**64 - 1
# The kinds that a plain int is written as, in a field that is declared so.
_WIDTHS_OF = _WIDTHS + bytes(12)


class Writer(Output):
    """Collects encodings; `finish` gives the octets.

    With `lenient` set, what a declaration forbids is written as its Python type says.
    """

    def __init__(self, lenient: bool = False) -> None:
        Output.__init__(self)
        self.depth = 0
        self.lenient = lenient

    def inner(self) -> Writer:
        """Give a writer for something that has to be encoded apart, as deep as this one."""
        writer = Writer(self.lenient)
        writer.depth = self.depth
        return writer

    def enter(self) -> None:
        self.depth += 1
        if self.depth > _DEPTH:
            raise EncodeError("values are nested more than 256 deep, or contain themselves")

    def open(self) -> int:
        """Begin a compound; give the mark to close it with."""
        self.enter()
        return self.begin_compound()

    def close(self, mark: int, code: int, count: int) -> None:
        """Fill in the header of a compound; the code is that of its short form."""
        self.depth -= 1
        if not self.end_compound(mark, code, count):
            raise EncodeError("a list, map or array does not fit AMQP: 2^32 - 5 octets at most")

    # Values.

    def value(self, value: Any) -> None:
        """Write one value in the smallest encoding of its type."""
        self.put(_KINDS.get(type(value), 0), value)

    def put(self, kind: int, value: Any) -> None:
        """Write a value whose type has this number in _KINDS."""
        if kind == 20:
            self.string(value)
        elif kind == 10:
            self.integer(10, value)
        elif kind == 2:
            self.octet(_TRUE if value else _FALSE)
        elif kind == 1:
            self.octet(_NULL)
        elif kind == 21:
            self.symbol(value)
        elif kind == 19:
            self.text(value, 0xA0)
        elif 3 <= kind <= 9 or kind == 17:
            self.integer(kind, value)
        elif kind == 23:
            self.pairs(value.items(), len(value), value)
        elif kind == 22:
            self.write_list(value)
        elif kind == 12:
            self.double(value)
        elif kind == 25:
            self.enter()
            self.octet(_DESCRIBED)
            self.value(value.descriptor)
            self.value(value.value)
            self.depth -= 1
        elif kind == 40:
            self.pairs(value.pairs, len(value.pairs), None)
        elif kind == 24:
            self.write_array(value)
        elif kind:
            self.plain(kind, value)
        else:
            self.other(value)

    def string(self, text: Any) -> None:
        """Write a str as a string."""
        if not self.short_ascii(0xA1, text):
            self.text(text.encode("utf-8"), 0xA1)

    def symbol(self, text: Any) -> None:
        """Write a str as a symbol."""
        if not self.short_ascii(0xA3, text):
            if not text.isascii():
                raise EncodeError(f"a symbol is ASCII, and {text!r:.80} is not")
            self.text(text.encode("ascii"), 0xA3)

    def text(self, octets: Any, code: int) -> None:
        """Write a variable-width value; the code is that of the one-octet length."""
        if type(octets) is not bytes:
            # A memoryview may have strides, or items of more than an octet; a bytearray changes.
            octets = bytes(octets)
        n = len(octets)
        if n <= 255:
            self.pair(code, n)
        elif n <= _WORD_MAX:
            self.number(code + 0x10, 4, n)
        else:
            raise EncodeError(f"a value of {n} octets does not fit AMQP: 2^32 - 1 at most")
        self.add(octets)

    def integer(self, kind: int, value: Any) -> None:
        """Write an integer or timestamp of this kind; refuse one out of its range."""
        try:
            number = value  # a C integer of 64 bits where this is compiled
        except OverflowError:
            self.huge(kind, value)
            return
        if kind == 10:
            if -128 <= number <= 127:
                self.pair(0x55, number & 255)
                return
        elif kind == 5:
            if 0 <= number <= 255:
                if number == 0:
                    self.octet(0x43)
                else:
                    self.pair(0x52, number)
                return
        elif kind == 9:
            if -128 <= number <= 127:
                self.pair(0x54, number & 255)
                return
        elif kind == 3:
            if 0 <= number <= 255:
                self.pair(0x50, number)
                return
        elif kind == 6 and 0 <= number <= 255:
            if number == 0:
                self.octet(0x44)
            else:
                self.pair(0x53, number)
            return
        width = _WIDTHS[kind]
        first = number >> 8 * (width - 1)  # octet, and whatever has no room
        if 0 <= first <= 255 if kind < 7 else -128 <= first <= 127:
            self.number(_WIDE_OCTETS[kind], width, number)
        else:
            self.huge(kind, value)

    def huge(self, kind: int, value: Any) -> None:
        """Write an integer that 64 bits with a sign do not hold: a ulong, or out of range."""
        if kind == 6 and _INT64_MAX < value <= _UINT64_MAX:
            self.add(b"\x80" + int(value).to_bytes(8, "big"))
            return
        raise self.out_of_range(kind, value)

    def out_of_range(self, kind: int, value: Any) -> EncodeError:
        name, least, most = _INTEGER_RANGES[kind]
        number = int(value)
        shown = number if -(10**30) < number < 10**30 else f"one of {number.bit_length()} bits"
        return EncodeError(f"{name} holds {least} to {most}, not {shown}{_hint(kind, value)}")

    def plain(self, kind: int, value: Any) -> None:
        """Write the rarer types."""
        if kind == 18:
            self.add(b"\x98" + value.bytes)
        elif kind == 11:
            if value == value:
                self.add(_pack_float(0x72, value))
            else:
                self.add(_pack_octet_u32(0x72, value.bits))
        elif kind == 16:
            self.add(_pack_octet_u32(0x73, ord(value)))
        elif kind == 41:
            self.integer(17, timestamp_of(value))
        elif kind == 42:
            self.value(smallest_decimal(value))
        else:
            self.octet(0x74 if kind == 13 else 0x84 if kind == 14 else 0x94)
            self.add(value.bits.to_bytes(value.width, "big"))

    def write_list(self, values: Any) -> None:
        count = len(values)
        if count == 0:
            self.octet(_LIST0)
            return
        mark = self.open()
        for value in values:
            self.put(_KINDS.get(type(value), 0), value)
        self.close(mark, 0xC0, count)

    def pairs(self, pairs: Any, count: int, keys: Any) -> None:
        """Write a map; `keys` is what holds its keys if they are known to be different, else None.

        The keys of a dict of str and Symbol are different in AMQP too.
        """
        mark = self.open()
        if keys is not None:
            for key in keys:
                kind = type(key)
                if kind is not str and kind is not Symbol:
                    keys = None
                    break
        if keys is not None:
            for key, value in pairs:
                self.put(20 if type(key) is str else 21, key)
                self.put(_KINDS.get(type(value), 0), value)
        else:
            seen = set()
            for key, value in pairs:
                apart = self.inner()
                apart.value(key)
                octets = apart.finish()
                if octets in seen:
                    raise EncodeError(f"the key {key!r} stands twice in one map")
                seen.add(octets)
                self.add(octets)
                self.put(_KINDS.get(type(value), 0), value)
        self.close(mark, 0xC1, 2 * count)

    def other(self, value: Any) -> None:
        """Write composites, and what subclasses a type that has an encoding."""
        spec = _SPECS.get(type(value))
        if spec is not None:
            # A section may hold itself; as a section of a message it is no level of nesting.
            self.enter()
            self.section(spec, value)
            self.depth -= 1
            return
        if isinstance(value, enum.Enum):
            self.enter()
            self.value(value.value)
            self.depth -= 1
            return
        for base in type(value).__mro__[1:]:
            kind = _KINDS.get(base, 0)
            if kind == 20:
                self.text(value.encode("utf-8"), 0xA1)
                return
            if kind:
                self.put(kind, value)
                return
        if isinstance(value, tuple):
            self.write_list(value)
            return
        raise EncodeError(
            f"{type(value).__name__} has no AMQP type: use None, bool, int, float, str, bytes, "
            "uuid.UUID, datetime, Decimal, list, dict or a type of amqp10msg"
        )

    # Arrays: each element is written whole, in its smallest form, and its own constructor taken off
    # or its data widened to fit the shared one. So one set of rules chooses encodings.

    def write_array(self, array: Any) -> None:
        kind = TYPE_IDS[array.type]
        count = len(array.values)
        elements = []
        for value in array.values:
            apart = self.inner()
            apart.enter()
            if kind == 24 and type(value) is Array:
                apart.write_array(value)
            else:
                apart.typed(kind, value)
            elements.append(apart.finish())
        code = shared_code(kind, elements) if array.code is None else array.code
        body = self.inner()
        for i in range(count):
            if not body.element(code, elements[i]):
                raise EncodeError(
                    f"{array.values[i]!r:.80} does not fit an array of constructor 0x{code:02X}: "
                    "build the array from the type's name"
                )
        # An array's header is that of a compound; its size counts the constructor too.
        mark = self.open()
        for descriptor in array.descriptors:
            self.octet(_DESCRIBED)
            self.value(descriptor)
        self.octet(code)
        self.add(body.finish())
        self.close(mark, 0xE0, count)

    def element(self, code: int, octets: Any) -> bool:
        """Write an encoded value behind the shared constructor; False if it does not fit that."""
        have = octets[0]
        if have == code:
            self.add(octets[1:])
        elif code == 0x56:
            self.add(b"\x01" if have == 0x41 else b"\x00")
        elif have == 0x45:
            # An empty list behind a shared constructor has to spell its count.
            self.add(b"\x01\x00" if code == 0xC0 else b"\x00\x00\x00\x04\x00\x00\x00\x00")
        elif code >= 0xA0:
            if have + 0x10 != code:
                return False
            size = octets[1]
            if code < 0xC0:
                self.add(_pack_u32(size))
                self.add(octets[2:])
            else:
                self.add(_pack_u32(size + 3) + _pack_u32(octets[2]))
                self.add(octets[3:])
        elif have == 0x43 or have == 0x44:
            width = _LEAST[code]
            if width == 0:
                return False
            self.add(bytes(width))
        else:
            # A one-octet form in the type's full width, with the sign where there is one.
            width = _LEAST[code]
            if _LEAST[have] != 1 or width < 4:
                return False
            signed = have == 0x54 or have == 0x55
            number = int.from_bytes(octets[1:], "big", signed=signed)
            self.add(number.to_bytes(width, "big", signed=signed))
        return True

    def typed(self, kind: int, value: Any) -> None:
        """Write a value as this AMQP type; refuse one that says another."""
        have = _KINDS.get(type(value), 0)
        if have == kind:
            self.put(kind, value)
        elif have == 10 and (3 <= kind <= 9 or kind == 17):
            self.integer(kind, value)
        elif kind == 21 and have == 20:
            self.symbol(value)
        elif kind == 17 and have == 41:
            self.integer(17, timestamp_of(value))
        elif (
            (11 <= kind <= 12 and (have == 10 or have == 12))
            or (kind == 16 and have == 20)
            or (13 <= kind <= 15 and have == 42)
        ):
            try:
                if kind == 16:
                    made: Any = Char(value)
                elif kind == 12:
                    made = float(value)
                elif kind == 11:
                    made = Float(value)
                else:
                    made = (Decimal32, Decimal64, Decimal128)[kind - 13].from_decimal(value)
            except (ValueError, OverflowError) as error:
                raise EncodeError(f"{value!r:.80} is no {_TYPE_NAMES[kind]}: {error}") from None
            self.put(kind, made)
        elif kind == 23 and have == 40:
            self.put(40, value)
        elif kind == 26 or self.lenient:
            self.put(have, value)
        elif kind == 27 and have == 10:
            # A message-id: what is an int is a ulong.
            self.integer(6, value)
        elif kind == 27 and (have == 6 or have == 18 or have == 19 or have == 20):
            self.put(have, value)
        elif kind == 28 and have == 20:
            self.put(20, value)
        elif kind == 29 and isinstance(value, dict):
            self.fields(value)
        elif have == 0 and value is not None:
            self.subclassed(kind, value)
        else:
            raise EncodeError(f"{value!r:.80} is no {_WANTED[kind]}{_hint(kind, value)}")

    def subclassed(self, kind: int, value: Any) -> None:
        """Write a value whose class is not known itself, by the known type behind it."""
        if isinstance(value, enum.Enum):
            self.enter()
            self.typed(kind, value.value)
            self.depth -= 1
        elif isinstance(value, int):
            self.typed(kind, int(value))
        elif isinstance(value, str):
            self.typed(kind, str.__str__(value))
        elif isinstance(value, float):
            self.typed(kind, float(value))
        elif kind == 22 and isinstance(value, (list, tuple)):
            self.write_list(value)
        elif kind == 23 and isinstance(value, dict):
            self.pairs(value.items(), len(value), value)
        elif isinstance(value, (Described, Array, AmqpMap)) and _KINDS[_base(value)] == kind:
            self.put(kind, value)
        elif isinstance(value, datetime.datetime):
            self.typed(kind, Timestamp.from_datetime(value))
        else:
            raise EncodeError(f"{value!r:.80} is no {_WANTED[kind]}")

    # Composites and sections.

    def whole(self, spec: Any, section: Any) -> bool:
        """Write a section that is of its very class, or None; False where it is another's."""
        if section is not None:
            if type(section) is not spec.cls:
                return False
            self.section(spec, section)
        return True

    def body(self, body: Any) -> bool:
        """Write a body of sections that are of their very classes; False where one is not."""
        if type(body) is not list:
            spec = _SPECS.get(type(body))
            if spec is None or spec not in _BODIES:
                return False
            self.section(spec, body)
            return True
        if not body:
            return False
        spec = _SPECS.get(type(body[0]))
        if spec is not _SECTIONS[5] and spec is not _SECTIONS[6]:
            return False
        for part in body:
            if _SPECS.get(type(part)) is not spec:
                return False
            self.section(spec, part)
        return True

    def section(self, spec: Any, value: Any) -> None:
        """Write a section or composite with its descriptor."""
        self.add(spec.head)
        shape = spec.shape
        if shape == 0:
            self.composite(spec, value)
        elif shape == 1:
            self.annotations(value)
        elif shape == 2:
            self.properties(value)
        elif shape == 3:
            self.typed(19, getattr(value, spec.attribute))
        elif shape == 4:
            self.write_list(getattr(value, spec.attribute))
        else:
            self.value(getattr(value, spec.attribute))

    def composite(self, spec: Any, value: Any) -> None:
        defaults = spec.defaults
        kinds = spec.kinds
        items = spec.layout.values(value)
        mark = self.open()
        count = 0  # of the fields written
        i = 0
        try:
            for i in range(len(items)):
                item = items[i]
                if item is None:
                    continue
                default = defaults[i]
                if (
                    default is not None
                    and (item is default or is_default(item, default))
                    and not (spec.mandatory and i in spec.mandatory)
                ):
                    continue
                # What was left out is null, unless nothing follows it.
                if i > count:
                    self.add(_NULLS[i - count])
                count = i + 1
                kind = kinds[i]
                have = type(item)
                if self.lenient:
                    self.loosely(kind, item)
                elif spec.multiple and spec.multiple[i]:
                    self.several(kind, item)
                elif have is str and _STRINGS[kind]:
                    self.string(item)
                elif have is int and _WIDTHS_OF[kind]:
                    self.integer(kind, item)
                elif have is bool and kind == 2:
                    self.octet(_TRUE if item else _FALSE)
                elif have is str and kind == 21:
                    self.symbol(item)
                else:
                    self.typed(kind, item)
        except (EncodeError, UnicodeEncodeError) as error:
            fault = error if isinstance(error, EncodeError) else encode_fault(error)
            path = f".{fault.path}" if fault.path else ""
            raise EncodeError(fault.reason, f"{spec.name}.{spec.names[i]}{path}") from None
        for i in spec.mandatory:
            if items[i] is None:
                raise EncodeError(f"the mandatory field {spec.names[i]} is None", spec.name)
        if count == 0:
            self.depth -= 1
            self.drop_compound(mark)
            self.octet(_LIST0)
        else:
            self.close(mark, 0xC0, count)

    def loosely(self, kind: int, item: Any) -> None:
        """Write a field as it is declared or, where that cannot be, as its Python type says."""
        apart = self.inner()
        try:
            apart.typed(kind, item)
        except EncodeError:
            apart = self.inner()
            apart.value(item)
        self.add(apart.finish())

    def several(self, kind: int, values: Any) -> None:
        """Write a field that is declared multiple: null, one value or an array of them."""
        if isinstance(values, Array):
            self.write_array(values)
        elif not isinstance(values, (list, tuple)):
            self.typed(kind, values)
        elif not values:
            self.octet(_NULL)
        elif len(values) == 1:
            self.typed(kind, values[0])
        else:
            self.write_array(Array(_TYPE_NAMES[kind], values))

    def fields(self, value: Any) -> None:
        """Write a map whose keys are symbols, also where they are plain str."""
        mark = self.open()
        for key, item in value.items():
            self.typed(21, key)
            self.value(item)
        self.close(mark, 0xC1, 2 * len(value))

    def annotations(self, value: Any) -> None:
        mark = self.open()
        entries = dict(value)  # a plain one, which C passes over faster than a subclass
        for key, item in entries.items():
            kind = type(key)
            if kind is Symbol or (kind is str and not self.lenient):
                self.symbol(key)
            elif kind is ULong or (kind is int and not self.lenient):
                self.integer(6, key)
            elif self.lenient:
                self.value(key)
            elif isinstance(key, str) and kind is not Char:
                self.typed(21, str.__str__(key))
            else:
                raise EncodeError(
                    f"an annotation's key is a symbol (str) or a ulong (int), not {key!r:.80}",
                    f"[{key!r:.80}]",
                )
            kind = type(item)
            if kind is str:
                self.string(item)
            elif kind is int:
                self.integer(10, item)
            else:
                self.put(_KINDS.get(kind, 0), item)
        self.close(mark, 0xC1, 2 * len(entries))

    def properties(self, value: Any) -> None:
        mark = self.open()
        entries = dict(value)
        for key, item in entries.items():
            if type(key) is str:
                self.string(key)
            elif self.lenient:
                self.value(key)
            else:
                raise EncodeError(
                    f"the key of an application property is a str, not {key!r:.80}",
                    f"[{key!r:.80}]",
                )
            have = type(item)
            if have is str:
                self.string(item)
                continue
            kind = _KINDS.get(have, 0)
            if (
                (kind == 0 or 22 <= kind <= 25 or kind == 40)
                and not self.lenient
                and not_simple(item)
            ):
                raise EncodeError(
                    f"an application property is of a simple type, and {key!r:.80} is "
                    f"{type(item).__name__}: put lists and maps into the body",
                    f"[{key!r:.80}]",
                )
            self.put(kind, item)
        self.close(mark, 0xC1, 2 * len(entries))


def is_default(item: Any, default: Any) -> bool:
    """Tell whether an item is its field's default; 0.0 or 0 is no false."""
    return item is default or (type(item) is type(default) and bool(item == default))


def shared_code(kind: int, elements: Any) -> int:
    """Choose the smallest constructor, of one octet or more, that fits all encoded elements.

    Not one of no octets, though they exist: brokers refuse such arrays, whose count costs nothing.
    """
    if kind == 1:
        return 0x40
    if kind == 2:
        return 0x56
    if kind in _SHORT_CODES:
        short = _SHORT_CODES[kind]
        return short + 0x10 if any(e[0] == short + 0x10 for e in elements) else short
    wide = _WIDE_CODES[kind]
    if kind in _SMALL_CODES and elements and all(e[0] != wide for e in elements):
        return _SMALL_CODES[kind]
    return wide


class Scanned:
    """An encoded message whose sections were passed over once; `replace` copies it."""

    def __init__(self, data: Any, limits: Any, ordered: bool) -> None:
        self.data = data
        self.limits = limits
        self.ordered = ordered

    def replace(
        self,
        *,
        header: Any = False,
        delivery_annotations: Any = False,
        message_annotations: Any = False,
        footer: Any = False,
    ) -> bytes:
        """Give the message with other annotations around the same bare message.

        What is not named stays as it is, octet for octet. The bare message cannot be named: it is
        immutable in the network (Part 3, 3.2).

        Args:
            header: the new Header; None to leave it out, False to keep it.
            delivery_annotations: likewise, a DeliveryAnnotations or a plain dict.
            message_annotations: likewise, a MessageAnnotations or a plain dict.
            footer: likewise, a Footer or a plain dict.

        Raises:
            EncodeError: a section holds what cannot be encoded.
            DecodeError: the sections do not stand in the order of Part 3, 3.2, so that there is no
                telling where one belongs.
        """
        replaced = [
            *(header, delivery_annotations, message_annotations),
            *(False, False, False, False, False, footer),
        ]
        try:
            return splice(self.data, self.limits, replaced, self.ordered)
        except (RecursionError, UnicodeEncodeError) as error:
            raise encode_fault(error) from None


def splice(data: Any, limits: Any, replaced: Any, ordered: bool) -> Any:
    """Copy a message with some of its sections replaced, inserted or left out.

    Args:
        data: the encoded message, which was passed over once with the same limits.
        limits: those of the reader.
        replaced: for each of the nine kinds False to keep, None to leave out, or the section.
        ordered: the sections are known to stand in order.
    """
    writer = Writer(False)
    reader = Reader.__new__(Reader)
    reader.begin(data, 0, limits)
    last = -1
    keep = 0  # where the octets begin that are still to be copied
    new = 0  # the first kind whose section is still to be written
    final = 8  # the last kind that is replaced
    while final >= 0 and replaced[final] is False:
        final -= 1
    while True:
        start = reader.pos
        code = 8
        if start < reader.end:
            code = reader.part() - 0x70
            if code < last or code < 0:
                raise DecodeError(
                    "the sections are not in the order of Part 3, 3.2, so that there is no telling "
                    "where one belongs",
                    start,
                    rule="section-out-of-order",
                    data=data,
                )
            last = code
        while new <= code:
            section = replaced[new]
            if section is not False and section is not None:
                if keep < start:
                    writer.copy(data, keep, start)
                    keep = start
                spec = _SECTIONS[new]
                if type(section) is not spec.cls:
                    check_section(spec, section)
                writer.section(spec, section)
            new += 1
        if start >= reader.end or (ordered and code > final):
            break
        if replaced[code] is not False:
            if keep < start:
                writer.copy(data, keep, start)
            keep = reader.pos
    if keep < reader.end:
        writer.copy(data, keep, reader.end)
    return writer.finish()


def check_section(spec: Any, section: Any) -> None:
    """Refuse what cannot stand for this kind of section."""
    is_map = spec.shape == 1 or spec.shape == 2
    if not isinstance(section, spec.cls) and not (
        is_map and isinstance(section, Mapping) and not isinstance(section, AmqpMap)
    ):
        raise EncodeError(
            f"must be {spec.cls.__name__}{' or a dict' if is_map else ''}, "
            f"not {type(section).__name__}",
            spec.name,
        )


def scan(data: Any, *, limits: Any = None) -> Any:
    """Find the sections of an encoded message without decoding them.

    Looks at descriptors and sizes only; what is inside a section may still be malformed, and
    order and number of the sections are not judged.

    Args:
        data: the encoded message; anything but bytes is copied once.
        limits: what decoding a section on demand may cost.

    Raises:
        DecodeError: the octets are not a sequence of encoded values.
    """
    return scanned(data, DEFAULT_LIMITS if limits is None else limits)


def scanned(data: Any, limits: Any) -> Any:
    data = octets_of(data, limits)
    reader = Reader.__new__(Reader)
    reader.begin(data, 0, limits)
    ordered = True
    last = 0
    try:
        while reader.pos < reader.end:
            code = reader.part()
            if code < last:
                ordered = False
            last = code
    except READ_FAULTS as error:
        raise reader.fault(error, _NAMES) from None
    kind: Any = _SCAN[0]
    made = kind.__new__(kind)
    made.data = data
    made.limits = limits
    made.ordered = ordered
    return made


def write_message(message: Any) -> Any:
    """Encode all sections of a message anew.

    None where one is not of its very class, or cannot be encoded.
    """
    layout: Any = _MESSAGE[0]
    found = layout.values(message)
    writer = Writer(found[9])
    body = found[5]
    try:
        if (
            writer.whole(_SECTIONS[0], found[0])
            and writer.whole(_SECTIONS[1], found[1])
            and writer.whole(_SECTIONS[2], found[2])
            and writer.whole(_SECTIONS[3], found[3])
            and writer.whole(_SECTIONS[4], found[4])
            and (body is None or writer.body(body))
            and writer.whole(_SECTIONS[8], found[6])
        ):
            return writer.finish()
    except (EncodeError, RecursionError, UnicodeEncodeError):
        pass
    return None


def encode_message(message: Any) -> bytes:
    """Encode the message; what was decoded and not changed keeps its exact octets.

    Raises:
        EncodeError: a value cannot be encoded as what it must be; the error says where.
    """
    octets: Any = write_message(message)
    wire = message._wire
    if wire is None:
        return octets or message._encode_new()
    # Most senders choose the encodings that this library would choose. Otherwise section by
    # section, to see whether it was so before, or to say where a fault is.
    return octets if octets == wire else message._encode_changes(wire)


_WIDE_CODES = {
    **{3: 0x50, 4: 0x60, 5: 0x70, 6: 0x80, 7: 0x51, 8: 0x61, 9: 0x71, 10: 0x81, 11: 0x72, 12: 0x82},
    **{13: 0x74, 14: 0x84, 15: 0x94, 16: 0x73, 17: 0x83, 18: 0x98},
}
_SMALL_CODES = {5: 0x52, 6: 0x53, 9: 0x54, 10: 0x55}
_SHORT_CODES = {19: 0xA0, 20: 0xA1, 21: 0xA3, 22: 0xC0, 23: 0xC1, 24: 0xE0}


def _base(value: Any) -> type:
    """Tell which known class a value's class derives from."""
    return next(base for base in type(value).__mro__ if base in _KINDS)


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


def register_section(cls: type, spec: Spec) -> None:
    """Make readers and writers of messages know a kind of section; the kinds come in order."""
    _SPECS[cls] = spec
    _SECTIONS.append(spec)
    _BODIES[:] = _SECTIONS[5:8]
    for key in (spec.code, spec.symbol):
        _CODES[key] = spec.code
        _NAMES[key] = (spec.name, spec.names)


def register_message(cls: type, lenient: Callable[..., Any]) -> None:
    """Make `decode_message` know how messages are made.

    Args:
        cls: the class of messages, whose attributes are in the order of `Reader.message`.
        lenient: reads a message that may break the rules.
    """
    # What attrs.fields gives: the kernel does without an import of attrs.
    names = [field.name for field in cls.__attrs_attrs__]  # type: ignore[attr-defined]
    _MESSAGE[:] = Layout(cls, names), lenient


def register_scan(cls: type) -> None:
    """Make `scan` give instances of this class."""
    _SCAN[:] = (cls,)


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


def decode_message(
    cls: Any, data: Any, *, limits: Any = None, strict: bool = True, message_format: int = 0
) -> Any:
    """Decode a message that fills the input.

    Zero octets decode to a message without sections.

    Args:
        cls: Message or a subclass of it.
        data: the encoded message: bytes, bytearray or memoryview. Anything but bytes is copied
            once.
        limits: what decoding may cost; the defaults of `Limits` where None.
        strict: refuse what makes a message ambiguous. If False, every message whose encodings
            parse is read: what is out of place is kept as it came, encodes byte for byte, and
            stands in `violations`.
        message_format: the message-format of the transfer that carried it.

    Raises:
        DecodeError: malformed encodings; in strict mode also sections that are out of order,
            repeated, unknown or mixed in the body, and fields and keys of wrong types. The
            error's `data` holds the input.
    """
    if limits is None:
        limits = DEFAULT_LIMITS
    if not strict:
        return _MESSAGE[1](cls, data, limits, message_format)
    if type(data) is not bytes or limits is not DEFAULT_LIMITS:
        data = octets_of(data, limits)
    reader = Reader.__new__(Reader)
    reader.begin(data, 0, limits)
    try:
        return reader.message(cls, message_format)
    except READ_FAULTS as error:
        raise reader.fault(error, _NAMES) from None


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


def encode_key(key: Any) -> bytes:
    """Encode a key that was decoded, to tell it from others: equal octets are identical keys."""
    writer = Writer(True)
    writer.value(key)
    return writer.finish()


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
