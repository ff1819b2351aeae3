# cython: language_level=3, boundscheck=True, wraparound=False, annotation_typing=False
"""Values in: the encodings of Part 1, read behind their format codes."""

from __future__ import annotations

import struct
import uuid
from typing import Any

from amqp10msg.wire.errors import DecodeError
from amqp10msg.wire.kernel.bounded import Bounded, number_of_bytes
from amqp10msg.wire.kernel.codes import (
    KIND_OF,
    LEAST,
    MAX_GUESSABLE,
    OF_OCTET,
)
from amqp10msg.wire.kernel.writer import encode_key
from amqp10msg.wire.primitives import (
    AmqpMap,
    Array,
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
    UInt,
    ULong,
    UShort,
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

_UINT0 = OF_OCTET[0x52 - 0x50][0]
_ULONG0 = OF_OCTET[0x53 - 0x50][0]

# As C integers in the compiled build: a literal of this size would be a Python int there.
_WORD = 2**32
_INT_MAX = 2**31 - 1

# UUIDs can be chosen to have one and the same hash, at 0.2 us a comparison, so that is looked for
# as soon as there are a few.
_MAX_UUIDS = 32


def colliding(made: Any) -> bool:
    """Return whether a dict holds keys of equal hashes, as never happens to UUIDs by chance.

    Looks whenever the number of keys is a power of two, and so costs each key a constant.
    """
    size = len(made)
    return size & (size - 1) == 0 and len({hash(key) for key in made}) < size - _MAX_UUIDS // 2


class ValueReader(Bounded):
    """Reads values. What takes a format code expects the cursor after it."""

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
        if code == 0xA1 or code == 0xB1:
            pos = self.span(code)
            return self.buf[pos : self.pos].decode("utf-8")
        if code == 0xA3 or code == 0xB3:
            pos = self.span(code)
            return self.symbol(pos, self.pos)
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
                return _UINT0
            if code == 0x44:
                return _ULONG0
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
            if code == 0x55:
                return n - 256 if n > 127 else n
            if code < 0x55:
                return OF_OCTET[code - 0x50][n]
            if n > 1:
                raise DecodeError(
                    f"a boolean byte must be 0 or 1, not {n}", pos, rule="boolean-octet-not-0-or-1"
                )
            return n == 1
        if code == 0xA0 or code == 0xB0:
            pos = self.span(code)
            return self.octets(pos, self.pos)
        if code == 0xC1 or code == 0xD1:
            return self.read_map(code)
        if code == 0xC0 or code == 0xD0:
            return self.read_list(code)
        if code == 0xE0 or code == 0xF0:
            return self.read_array(code)
        raise self.unknown(code, self.pos - 1)

    def fixed(self, code: int) -> Any:
        """Read the fixed-width types of two bytes and more."""
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
                    f"0x{n:X} is not a Unicode scalar value, as a char must be",
                    pos,
                    rule="char-not-a-unicode-scalar",
                )
            return _new_str(Char, chr(n))
        if KIND_OF[code] == 0:
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

    def descriptor(self) -> int:
        """Pass over a descriptor that is a number of one byte, as usual; return it, else -1."""
        pos = self.pos
        if self.end - pos < 3 or self.buf[pos] != 0 or self.buf[pos + 1] != 0x53:
            return -1
        self.pos = pos + 3
        return self.buf[pos + 2]

    # Compounds.

    def open(self, code: int) -> int:
        """Read a compound's size and count; set `count` and return where the compound ends."""
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
                f"a count of {count} values does not fit in the {stop - pos} bytes after it",
                pos,
                rule="count-exceeds-size",
            )
        self.items -= count
        if self.items < 0:
            raise self.exceeded("items limit: the input holds too many values", pos)
        self.pos = pos
        self.count = count
        return stop

    def descend(self, code: int) -> int:
        """Enter a list or a map behind its format code; return what `ascend` wants.

        Sets `count`, and makes the compound's end that of the reader.
        """
        start = self.pos - 1
        stop = self.open(code)
        self.enter(start)
        outer = self.end
        self.end = stop
        return outer

    def ascend(self, outer: int) -> None:
        """Leave the list or map that was entered last."""
        self.close(self.end, outer)

    def close(self, stop: int, outer: int) -> None:
        """Leave a compound: all of its bytes must have been read."""
        if self.pos != stop:
            raise DecodeError(
                f"{number_of_bytes(stop - self.pos, 'trailing ')} after the last element",
                self.pos,
                rule="compound-trailing-bytes",
            )
        self.end = outer
        self.depth += 1

    def read_list(self, code: int) -> Any:
        outer = self.descend(code)
        stop = self.end
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
                f"a map with {count} elements has a key without a value",
                start,
                rule="map-odd-count",
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
                if guessable > MAX_GUESSABLE:
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
        # A single key is compared with none, and lenient reading takes what stands twice.
        compared = not self.lenient and (left or pairs)
        seen = {encode_key(known) for known, _ in pairs} if compared else set()
        while True:
            if compared:
                octets = encode_key(key)
                if octets in seen:
                    shown = f"{key!r:.80}" if key.__hash__ else f"a {type(key).__name__}"
                    raise DecodeError(f"duplicate map key {shown}", at, rule="map-duplicate-key")
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
                return self.no_constructor(pos, size, 1)
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
                return self.no_constructor(pos, size, 4)
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
        if KIND_OF[code] == 0:
            raise self.unknown(code, pos)
        left = stop - self.pos
        least = LEAST[code]
        if least == 0:
            self.zero_width -= count
            if self.zero_width < 0:
                raise self.exceeded(
                    f"zero-width limit: an array has {count} elements that take no bytes",
                    start,
                )
        elif count > left // least:
            raise DecodeError(
                f"a count of {count} elements does not fit in the {left} bytes after it",
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

    def no_constructor(self, pos: int, size: int, width: int) -> Any:
        """Read an array whose size has no room for a constructor: lenient, where it is empty.

        Args:
            pos: where its size is.
            size: what that says.
            width: the bytes of the size, and of the count.
        """
        if size < width:
            raise self.too_small(pos, size, width + 1)
        if size > self.end - pos - width:
            raise self.truncated(pos + width, size)
        if any(self.buf[pos + width : pos + 2 * width]):
            raise self.too_small(pos, size, width + 1)
        if not self.lenient:
            raise DecodeError(
                "an empty array has no constructor of its elements, though Part 1, 1.6.24 requires "
                "one: some clients write it so, and strict=False reads it",
                pos - 1,
                rule="array-without-constructor",
            )
        self.pos = pos + 2 * width
        return Array("null")
