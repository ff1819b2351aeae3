# cython: boundscheck=True, wraparound=False, annotation_typing=False, infer_types=True
"""Decodes values, the encodings of Part 1, and enforces limits.

- A reader is a cursor over an immutable bytes object. Its `end` is the end of the enclosing value:
  entering a compound sets `end` to the end of the compound, and leaving the compound restores it.
- Every size and count is compared with the remaining bytes before slicing or allocating.
- Invalid text raises UnicodeDecodeError from the codec. Only the outermost function converts it, by
  `fault`, to a DecodeError with the offset, so that the conversion does not slow down the hot path.
- A C function that returns an integer from the input has a return type in which the integer cannot
  be mistaken for the value that signals an exception.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterator
from typing import Any

from amqp10msg.wire.errors import RESOURCE_LIMIT_EXCEEDED, DecodeError
from amqp10msg.wire.kernel.codes import (
    KIND_OF_FORMAT_CODE,
    MAX_KEYS_WITH_GUESSABLE_HASH,
    MIN_SIZE_OF_FORMAT_CODE,
)
from amqp10msg.wire.kernel.path import path_of
from amqp10msg.wire.kernel.twin import Cursor
from amqp10msg.wire.kernel.writer import encode_key
from amqp10msg.wire.limits import DEFAULT_LIMITS, FREE_ZERO_WIDTH, UNLIMITED, Limits
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

_DEFAULT_DEPTH_LIMIT = DEFAULT_LIMITS.depth
_DEFAULT_ITEMS_LIMIT = DEFAULT_LIMITS.items
_DEFAULT_ZERO_WIDTH_LIMIT = DEFAULT_LIMITS.zero_width
_DEFAULT_ZERO_WIDTH_PER_BYTE_LIMIT = DEFAULT_LIMITS.zero_width_per_byte
_FREE_ZERO_WIDTH = FREE_ZERO_WIDTH
# `UNLIMITED` has the default depth.
_UNLIMITED_COUNT = UNLIMITED.items
_UNLIMITED_ZERO_WIDTH_PER_BYTE = UNLIMITED.zero_width_per_byte

#: The exceptions that reading invalid input raises. `ValueReader.fault` converts them.
READ_FAULTS = (DecodeError, UnicodeDecodeError, RecursionError, MemoryError)
_NO_NAMES: dict[Any, Any] = {}


def is_limited_to_one_section(error: BaseException) -> bool:
    """Return whether an exception of `READ_FAULTS` is limited to one section.

    Exceeded limits and exhausted resources affect the whole input.
    """
    if isinstance(error, DecodeError):
        return error.condition != RESOURCE_LIMIT_EXCEEDED
    return isinstance(error, UnicodeDecodeError)


def repaired_text(octets: bytes) -> str:
    """Decode UTF-8 or, if it is invalid, Java's modified UTF-8.

    ActiveMQ sends characters outside the Basic Multilingual Plane as two surrogates of three bytes
    each (CESU-8), and Java's DataOutput also writes U+0000 as two bytes.

    Raises:
        UnicodeDecodeError: the bytes are neither.
    """
    try:
        return octets.decode("utf-8")
    except UnicodeDecodeError:
        try:
            units = octets.replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
            return units.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
        except UnicodeDecodeError:
            pass
        raise


def octets_of(data: Any, limits: Any) -> bytes:
    """Return the input as bytes, and check its size. A bytearray or memoryview is copied.

    Raises:
        DecodeError: the input is larger than `limits` allows.
        TypeError: an argument has the wrong type.
    """
    if type(data) is bytes:
        if limits is DEFAULT_LIMITS or limits is UNLIMITED:
            return data
    else:
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise TypeError(f"expected bytes, bytearray or memoryview, not {type(data).__name__}")
        data = bytes(data)
    if not isinstance(limits, Limits):
        raise TypeError(f"limits must be a Limits or None, not {type(limits).__name__}")
    if limits.size is not None and len(data) > limits.size:
        raise DecodeError(
            f"the input has {len(data)} bytes, more than the limit of {limits.size}",
            limits.size,
            rule="size-limit",
            condition=RESOURCE_LIMIT_EXCEEDED,
            data=data,
        )
    return data


def number_of_bytes(count: int, which: str) -> str:
    """Format a number of bytes for an error text, such as ``2 more bytes``."""
    return f"{count} {which}byte{'' if count == 1 else 's'}"


_new_str = str.__new__
_new_object = object.__new__
# The integer classes, under names that value_reader.pxd declares as types.
_Timestamp = Timestamp
_Int = Int
_UInt = UInt
_ULong = ULong
_UShort = UShort
_Short = Short
_set_attribute = object.__setattr__
_UUID = uuid.UUID
_SAFE_UUID_UNKNOWN = uuid.SafeUUID.unknown
_FLOAT32_STRUCT = struct.Struct(">f")

# These numbers are constants, because the compiled build declares the constants as C integers,
# whereas a literal of this size would be a Python int.
_TWO_TO_32 = 2**32
_MAX_INT32 = 2**31 - 1

# Maximum number of keys in a map, without text keys, for which hash collisions are accepted. In a
# larger map, `has_hash_collisions` is called for each UUID: a peer can choose UUIDs with equal
# hashes, and each comparison costs 0.2 us.
_MAX_UNCHECKED_KEYS = 32


def has_hash_collisions(mapping: Any) -> bool:
    """Return whether many keys of a dict have equal hashes, which random UUIDs never have.

    Checks only if the number of keys is a power of two, so that the cost per key is constant.
    """
    size = len(mapping)
    return (
        size & (size - 1) == 0
        and len({hash(key) for key in mapping}) < size - _MAX_UNCHECKED_KEYS // 2
    )


class ValueReader(Cursor):
    """Reads values, and checks that each ends within its enclosing value.

    A method with a format code as its argument expects the cursor after the format code. With
    `accepts_modified_utf8`, strings may be in Java's modified UTF-8. With `lenient`, some errors
    are accepted: a map with duplicate keys, an empty array without constructor, and fields of other
    types than declared.
    """

    def __init__(self, data: Any, pos: int, limits: Any) -> None:
        self.begin(data, pos, limits)

    def begin(self, data: Any, pos: int, limits: Any) -> None:
        """Initialize an instance from `__new__`, which is cheaper than calling the class.

        `limits` is None for the default limits.
        """
        self.buf = data
        self.pos = pos
        self.end = len(data)
        self.count = 0
        self.first = 0
        # The first two branches, for nearly every message, save four attribute lookups.
        if limits is None or limits is DEFAULT_LIMITS:
            self.depth = _DEFAULT_DEPTH_LIMIT
            self.items_left = _DEFAULT_ITEMS_LIMIT
            self.zero_width_left = _DEFAULT_ZERO_WIDTH_LIMIT
            per_byte = _DEFAULT_ZERO_WIDTH_PER_BYTE_LIMIT
        elif limits is UNLIMITED:
            self.depth = _DEFAULT_DEPTH_LIMIT
            self.items_left = self.zero_width_left = _UNLIMITED_COUNT
            per_byte = _UNLIMITED_ZERO_WIDTH_PER_BYTE
        else:
            self.depth = limits.depth
            self.items_left = limits.items
            self.zero_width_left = limits.zero_width
            per_byte = limits.zero_width_per_byte
        self.zero_width_left = min(self.zero_width_left, _FREE_ZERO_WIDTH + per_byte * self.end)

    # Errors. These methods return the error, so that the `raise` is visible at its cause.

    def truncated_error(self, pos: int, needed: int) -> DecodeError:
        """Return the error for a value that needs `needed` more bytes at `pos`, but has fewer."""
        if self.end < len(self.buf):
            return DecodeError(
                f"the value needs {number_of_bytes(needed, 'more ')}, but its enclosing value has "
                f"{max(self.end - pos, 0)} left",
                pos,
                rule="element-overruns-compound",
            )
        return DecodeError(
            f"the value needs {number_of_bytes(needed, 'more ')}, but the input has "
            f"{max(self.end - pos, 0)}",
            pos,
            rule="truncated",
        )

    def unknown_code_error(self, code: int, pos: int) -> DecodeError:
        """Return the error for a byte that is not a format code."""
        return DecodeError(
            f"0x{code:02X} is not a format code of Part 1",
            pos,
            rule="unknown-constructor",
        )

    def exceeded_limit_error(self, reason: str, pos: int) -> DecodeError:
        """Return the error for an exceeded limit; `reason` begins with the limit's name."""
        return DecodeError(
            f"{reason}: pass wider Limits if the sender is trusted",
            pos,
            rule=reason.split(":", maxsplit=1)[0].replace(" ", "-"),
            condition=RESOURCE_LIMIT_EXCEEDED,
        )

    def size_too_small_error(self, pos: int, size: int, min_size: int) -> DecodeError:
        """Return the error for a size that is less than `min_size`."""
        return DecodeError(
            f"a size of {size} is less than the {min_size} bytes that it must cover",
            pos,
            rule="compound-size-too-small",
        )

    def odd_count_error(self, count: int, pos: int) -> DecodeError:
        """Return the error for a map with an odd count."""
        return DecodeError(
            f"a map with {count} elements has a key without a value", pos, rule="map-odd-count"
        )

    def trailing_bytes_error(self) -> DecodeError:
        """Return the error for bytes after the value."""
        return DecodeError(
            f"{number_of_bytes(len(self.buf) - self.pos, 'trailing ')} after the value",
            self.pos,
            rule="trailing-bytes",
        )

    def fault(self, error: BaseException, names: Any = _NO_NAMES) -> DecodeError:
        """Convert an exception raised while reading to a DecodeError with path and input."""
        fault = error if isinstance(error, DecodeError) else self.decode_error_for(error)
        fault.data = self.buf
        fault.path = path_of(self.buf, fault.offset, names)
        return fault

    def decode_error_for(self, error: BaseException) -> DecodeError:
        """Return the DecodeError for an exception of a codec or the interpreter."""
        if isinstance(error, UnicodeDecodeError):
            start = self.pos - len(error.object)
            if error.encoding == "ascii":
                return DecodeError(
                    f"a symbol holds byte 0x{error.object[error.start]:02X}, which is not ASCII",
                    start + error.start,
                    rule="symbol-not-ascii",
                )
            return DecodeError(
                f"a string is not UTF-8: {error.reason}", start + error.start, rule="invalid-utf8"
            )
        return self.exceeded_limit_error(
            "depth limit: values are nested deeper than the interpreter allows", self.pos
        )

    # The limit on depth. The methods that enter a compound, an array or a described value call it.

    def enter(self, pos: int) -> None:
        """Count a level of nesting; raise DecodeError if the limit is exceeded."""
        self.depth -= 1
        if self.depth < 0:
            raise self.exceeded_limit_error("depth limit: values are nested too deeply", pos)

    # Skipping.

    def advance(self, n: int) -> int:
        """Skip n bytes, and return the offset of the first."""
        pos = self.pos
        if n > self.end - pos:
            raise self.truncated_error(pos, n)
        self.pos = pos + n
        return pos

    def span(self, code: int) -> int:
        """Skip the size and content of a variable-width value; return the offset of the content."""
        if code & 0x10:
            return self.advance(self.u32(self.advance(4)))
        pos = self.pos
        if pos >= self.end:
            raise self.truncated_error(pos, 1)
        stop = pos + 1 + self.buf[pos]
        if stop > self.end:
            raise self.truncated_error(pos + 1, stop - pos - 1)
        self.pos = stop
        return pos + 1

    def skip(self) -> None:
        """Skip a value without reading the contents of compounds, and without recursion."""
        pending = 1
        while pending:
            pending -= 1
            pos = self.advance(1)
            code = self.buf[pos]
            if code == 0:
                # A descriptor and a value follow. The loop ends, since each iteration reads a byte.
                pending += 2
                continue
            if KIND_OF_FORMAT_CODE[code] == 0:
                raise self.unknown_code_error(code, pos)
            if code < 0xA0:
                self.advance(MIN_SIZE_OF_FORMAT_CODE[code])
            else:
                self.span(code)

    # Values.

    def value(self) -> Any:
        """Read a value, from its constructor on."""
        pos = self.pos
        if pos >= self.end:
            raise self.truncated_error(pos, 1)
        self.pos = pos + 1
        return self.read(self.buf[pos])

    def read(self, code: int) -> Any:
        """Read a value after its format code `code`."""
        if code == 0xA1 or code == 0xB1:
            pos = self.span(code)
            if self.accepts_modified_utf8:
                return repaired_text(self.buf[pos : self.pos])
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
                return self.octet_value(0x52, 0)
            if code == 0x44:
                return self.octet_value(0x53, 0)
            if code == 0x45:
                return []
            if code < 0x50:
                raise self.unknown_code_error(code, self.pos - 1)
            pos = self.pos
            if code > 0x56:
                raise self.unknown_code_error(code, pos - 1)
            if pos >= self.end:
                raise self.truncated_error(pos, 1)
            n = self.buf[pos]
            self.pos = pos + 1
            if code == 0x55:
                return n - 256 if n > 127 else n
            if code < 0x55:
                return self.octet_value(code, n)
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
        raise self.unknown_code_error(code, self.pos - 1)

    def fixed(self, code: int) -> Any:
        """Read a fixed-width value of at least two bytes, after its format code."""
        if code == 0x81:
            return self.i64(self.advance(8))
        if code == 0x83:
            return _Timestamp.__new__(_Timestamp, self.i64(self.advance(8)))
        if code == 0x82:
            return self.f64(self.advance(8))
        if code == 0x71:
            word = self.u32(self.advance(4))
            return _Int.__new__(_Int, word - _TWO_TO_32 if word > _MAX_INT32 else word)
        if code == 0x70:
            return _UInt.__new__(_UInt, self.number(code))
        if code == 0x80:
            return _ULong.__new__(_ULong, self.number(code))
        if code == 0x60:
            return _UShort.__new__(_UShort, self.number(code))
        if code == 0x61:
            return _Short.__new__(_Short, self.number(code))
        if code == 0x98:
            pos = self.advance(16)
            new_uuid = _new_object(_UUID)
            # Set the two documented attributes directly. The checks of UUID() are not needed, since
            # any 16 bytes are a valid UUID, and would make this five times slower.
            _set_attribute(new_uuid, "int", int.from_bytes(self.buf[pos : pos + 16], "big"))
            _set_attribute(new_uuid, "is_safe", _SAFE_UUID_UNKNOWN)
            return new_uuid
        if code == 0x72:
            pos = self.advance(4)
            single = Float(_FLOAT32_STRUCT.unpack_from(self.buf, pos)[0])
            if single != single:
                return Float.from_bits(self.u32(pos))
            return single
        if code == 0x73:
            pos = self.advance(4)
            n = self.u32(pos)
            if n > 0x10FFFF or 0xD800 <= n <= 0xDFFF:
                raise DecodeError(
                    f"0x{n:X} is not a Unicode scalar value, as a char must be",
                    pos,
                    rule="char-not-a-unicode-scalar",
                )
            return _new_str(Char, chr(n))
        if KIND_OF_FORMAT_CODE[code] == 0:
            raise self.unknown_code_error(code, self.pos - 1)
        width = 4 if code == 0x74 else 8 if code == 0x84 else 16
        pos = self.advance(width)
        bits = int.from_bytes(self.buf[pos : pos + width], "big")
        if code == 0x74:
            return Decimal32(bits)
        return Decimal64(bits) if code == 0x84 else Decimal128(bits)

    def number(self, code: int) -> Any:
        """Read an integer or a timestamp, in any encoding, as a plain int."""
        if code == 0x43 or code == 0x44:
            return 0
        if code < 0x60:
            small = self.buf[self.advance(1)]
            if code == 0x51 or code == 0x54 or code == 0x55:
                return small - 256 if small > 127 else small
            return small
        if code < 0x70:
            pos = self.advance(2)
            small = self.buf[pos] * 256 + self.buf[pos + 1]
            return small - 65536 if code == 0x61 and small > 32767 else small
        if code < 0x80:
            word = self.u32(self.advance(4))
            return word - _TWO_TO_32 if code == 0x71 and word > _MAX_INT32 else word
        pos = self.advance(8)
        if code == 0x80:
            high = self.u32(pos)
            low = self.u32(pos + 4)
            return high * _TWO_TO_32 + low
        return self.i64(pos)

    def described(self) -> Any:
        """Read a described value after its constructor."""
        self.enter(self.pos - 1)
        descriptor = self.value()
        described_value = Described(descriptor, self.value())
        self.depth += 1
        return described_value

    def descriptor(self) -> int:
        """Skip a descriptor encoded as smallulong, and return it; return -1 for any other."""
        pos = self.pos
        if self.end - pos < 3 or self.buf[pos] != 0 or self.buf[pos + 1] != 0x53:
            return -1
        self.pos = pos + 3
        return self.buf[pos + 2]

    # Compounds.

    def open(self, code: int) -> int:
        """Read a compound's size and count; set `count`, and return the end of the compound."""
        pos = self.pos
        # Fast path for compounds that are short and complete, without a call.
        if code < 0xD0 and self.end - pos > 1 and 0 < self.buf[pos] < self.end - pos:
            stop = pos + 1 + self.buf[pos]
            self.count = self.buf[pos + 1]
            self.pos = pos + 2
        else:
            stop = self.extent(1 if code < 0xD0 else 4, 0)
        pos = self.pos
        count = self.count
        if count > stop - pos:
            raise DecodeError(
                f"a count of {count} values does not fit in the {stop - pos} bytes after it",
                pos,
                rule="count-exceeds-size",
            )
        self.items_left -= count
        if self.items_left < 0:
            raise self.exceeded_limit_error("items limit: the input holds too many values", pos)
        return stop

    def extent(self, width: int, extra_bytes: int) -> int:
        """Read a size and a count of `width` bytes each; set `count`; return the compound's end.

        The size must be at least that of the count and `extra_bytes` more bytes.
        """
        pos = self.pos
        if width > self.end - pos:
            raise self.truncated_error(pos, width)
        size = self.buf[pos] if width == 1 else self.u32(pos)
        if size < width:
            raise self.size_too_small_error(pos, size, width + extra_bytes)
        pos += width
        if size > self.end - pos:
            raise self.truncated_error(pos, size)
        self.count = self.buf[pos] if width == 1 else self.u32(pos)
        self.pos = pos + width
        return pos + size

    def descend(self, code: int) -> int:
        """Enter a list or map after its format code; return the argument for `ascend`.

        Sets `count`, and sets `end` to the end of the compound.
        """
        start = self.pos - 1
        return self.into(start, self.open(code))

    def into(self, start: int, stop: int) -> int:
        """Set `end` to the end of the compound at `start`; return the previous `end`."""
        self.enter(start)
        outer = self.end
        self.end = stop
        return outer

    def ascend(self, outer: int) -> None:
        """Leave the current list or map."""
        self.close(self.end, outer)

    def close(self, stop: int, outer: int) -> None:
        """Leave a compound at `stop`, all of whose bytes must have been read; restore `end`."""
        if self.pos != stop:
            raise DecodeError(
                f"{number_of_bytes(stop - self.pos, 'trailing ')} after the last element",
                self.pos,
                rule="compound-trailing-bytes",
            )
        self.end = outer
        self.depth += 1

    def read_list(self, code: int) -> Any:
        """Read a list after its format code."""
        outer = self.descend(code)
        stop = self.end
        values = []
        for _ in range(self.count):
            pos = self.pos
            if pos >= stop:
                raise self.truncated_error(pos, 1)
            self.pos = pos + 1
            values.append(self.read(self.buf[pos]))
        self.close(stop, outer)
        return values

    def read_map(self, code: int) -> Any:
        """Read a map after its format code, as a dict if possible, else as an AmqpMap."""
        start = self.pos - 1
        stop = self.open(code)
        count = self.count
        if count & 1:
            raise self.odd_count_error(count, start)
        self.enter(start)
        outer = self.end
        self.end = stop
        entries: dict[Any, Any] = {}
        pairs_left = count >> 1
        size = 0
        guessable = 0
        while pairs_left:
            key_pos = self.pos
            if key_pos >= stop:
                raise self.truncated_error(key_pos, 1)
            self.pos = key_pos + 1
            key = self.read(self.buf[key_pos])
            pos = self.pos
            if pos >= stop:
                raise self.truncated_error(pos, 1)
            self.pos = pos + 1
            value = self.read(self.buf[pos])
            pairs_left -= 1
            kind = type(key)
            if kind is not str and kind is not Symbol:
                if not key.__hash__ or key != key:
                    break
                guessable += 1
                if guessable > MAX_KEYS_WITH_GUESSABLE_HASH:
                    break
                if (
                    kind is _UUID
                    and guessable > _MAX_UNCHECKED_KEYS
                    and has_hash_collisions(entries)
                ):
                    break
            entries.setdefault(key, value)
            size += 1
            if len(entries) != size:
                break
        else:
            self.close(stop, outer)
            return entries
        return self.read_pairs(entries, key, value, pairs_left, key_pos, stop, outer)

    def read_pairs(
        self,
        entries: Any,
        key: Any,
        value: Any,
        pairs_left: int,
        key_pos: int,
        stop: int,
        outer: int,
    ) -> Any:
        """Read the rest of a map as an AmqpMap, from the first pair that does not fit into a dict.

        Args:
            entries: the earlier pairs.
            key: the key of the pair.
            value: the value of the pair.
            pairs_left: the number of pairs after this pair.
            key_pos: the offset of `key`.
            stop: the end of the map.
            outer: the end of the enclosing value.
        """
        pairs = list(entries.items())
        # A single key needs no comparison, and lenient reading allows duplicate keys.
        compares_keys = not self.lenient and (pairs_left or pairs)
        key_encodings = (
            {encode_key(earlier_key) for earlier_key, _ in pairs} if compares_keys else set()
        )
        while True:
            if compares_keys:
                octets = encode_key(key)
                if octets in key_encodings:
                    key_text = f"{key!r:.80}" if key.__hash__ else f"a {type(key).__name__}"
                    raise DecodeError(
                        f"duplicate map key {key_text}", key_pos, rule="map-duplicate-key"
                    )
                key_encodings.add(octets)
            pairs.append((key, value))
            if not pairs_left:
                break
            key_pos = self.pos
            key = self.value()
            value = self.value()
            pairs_left -= 1
        self.close(stop, outer)
        return AmqpMap(pairs)

    def read_array(self, code: int) -> Any:
        """Read an array after its format code."""
        start = self.pos - 1
        stop = self.extent(1 if code == 0xE0 else 4, 1)
        count = self.count
        if self.pos == stop:
            return self.array_without_constructor(start, count, code)
        outer = self.into(start, stop)
        pos = self.advance(1)
        code = self.buf[pos]
        descriptors = []
        while code == 0:
            self.enter(pos)
            descriptors.append(self.value())
            pos = self.advance(1)
            code = self.buf[pos]
        if KIND_OF_FORMAT_CODE[code] == 0:
            raise self.unknown_code_error(code, pos)
        available = stop - self.pos
        min_size = MIN_SIZE_OF_FORMAT_CODE[code]
        if min_size == 0:
            self.zero_width_left -= count
            if self.zero_width_left < 0:
                raise self.exceeded_limit_error(
                    f"zero-width limit: an array has {count} elements that take no bytes, more "
                    "than zero_width and zero_width_per_byte allow for an input of this size",
                    start,
                )
        elif count > available // min_size:
            raise DecodeError(
                f"a count of {count} elements does not fit in the {available} bytes after it",
                pos,
                rule="count-exceeds-size",
            )
        self.items_left -= count
        if self.items_left < 0:
            raise self.exceeded_limit_error("items limit: the input holds too many values", start)
        values = []
        for _ in range(count):
            values.append(self.read(code))
        self.depth += len(descriptors)
        self.close(stop, outer)
        return Array(code, values, descriptors=descriptors)

    def array_without_constructor(self, start: int, count: int, code: int) -> Any:
        """Return an empty array for an array whose size leaves no room for a constructor.

        Raises DecodeError unless `lenient` is set and the count is 0.
        """
        if count:
            width = 1 if code == 0xE0 else 4
            raise self.size_too_small_error(start + 1, width, width + 1)
        if not self.lenient:
            raise DecodeError(
                "an empty array has no constructor of its elements, though Part 1, 1.6.24 requires "
                "one: some clients write it so, and strict=False reads it",
                start,
                rule="array-without-constructor",
            )
        return Array("null")


# Functions for the rest of the library.


def decode_value(data: Any, *, limits: Limits | None = None) -> Any:
    """Decode one value, which must be the whole input.

    A described value becomes `Described`, even if its descriptor is that of a composite.

    Args:
        data: bytes, bytearray or memoryview.
        limits: limits on the cost of decoding; None for the defaults of `Limits`.

    Raises:
        DecodeError: the input is not exactly one value.
    """
    if type(data) is not bytes or limits is not None:
        data = octets_of(data, DEFAULT_LIMITS if limits is None else limits)
    reader = ValueReader.__new__(ValueReader)
    reader.begin(data, 0, limits)
    try:
        value = reader.value()
        if reader.pos != len(data):
            raise reader.trailing_bytes_error()
    except READ_FAULTS as error:
        raise reader.fault(error) from None
    return value


def decode_values(data: Any, *, limits: Limits | None = None) -> Iterator[Any]:
    """Yield the decoded values of a sequence of encoded values.

    The limits apply to all values together.

    Raises:
        DecodeError: a value is malformed. The values before it have been yielded.
    """
    limits = limits or DEFAULT_LIMITS
    data = octets_of(data, limits)
    return _values(data, ValueReader(data, 0, limits))


def _values(data: Any, reader: Any) -> Iterator[Any]:
    while reader.pos < len(data):
        try:
            value = reader.value()
        except READ_FAULTS as error:
            raise reader.fault(error) from None
        yield value


def skip_value(data: Any, offset: int = 0) -> int:
    """Return the end offset of the value at `offset`, without decoding the value.

    Reads only constructors and sizes, not the contents of compounds.

    Raises:
        DecodeError: the bytes at `offset` are not a complete value.
    """
    data = octets_of(data, DEFAULT_LIMITS)
    if not 0 <= offset <= len(data):
        raise DecodeError(f"offset {offset} is outside the input", 0, rule="truncated", data=data)
    reader = ValueReader(data, offset, DEFAULT_LIMITS)
    try:
        reader.skip()
    except READ_FAULTS as error:
        raise reader.fault(error) from None
    return int(reader.pos)
