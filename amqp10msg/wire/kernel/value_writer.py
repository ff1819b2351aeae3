# cython: boundscheck=True, wraparound=False, annotation_typing=False, infer_types=True
"""Encodes values (Part 1), each in the smallest encoding of its type."""

from __future__ import annotations

import datetime
import enum
import struct
from typing import Any

from amqp10msg.wire.errors import EncodeError
from amqp10msg.wire.kernel.codes import (
    FIELD_TYPE_TEXTS,
    FULL_WIDTH_CODE_OF_KIND,
    KIND_ADDRESS,
    KIND_ANY,
    KIND_ARRAY,
    KIND_BINARY,
    KIND_BOOLEAN,
    KIND_BYTE,
    KIND_CHAR,
    KIND_DATETIME,
    KIND_DECIMAL32,
    KIND_DECIMAL64,
    KIND_DECIMAL128,
    KIND_DESCRIBED,
    KIND_DOUBLE,
    KIND_EXACT,
    KIND_FIELDS,
    KIND_FLOAT,
    KIND_INT,
    KIND_IS_MESSAGE_ID,
    KIND_LIST,
    KIND_LONG,
    KIND_MAP,
    KIND_MESSAGE_ID,
    KIND_NULL,
    KIND_OF_PYTHON_TYPE,
    KIND_OF_TYPE_NAME,
    KIND_PAIRS,
    KIND_SHORT,
    KIND_STRING,
    KIND_SYMBOL,
    KIND_TIMESTAMP,
    KIND_UBYTE,
    KIND_UINT,
    KIND_ULONG,
    KIND_USHORT,
    KIND_UUID,
    MIN_SIZE_OF_FORMAT_CODE,
    ONE_BYTE_CODE_OF_KIND,
    TYPE_NAME_OF_KIND,
)
from amqp10msg.wire.kernel.twin import Output
from amqp10msg.wire.limits import DEFAULT_LIMITS
from amqp10msg.wire.primitives import (
    AmqpMap,
    Array,
    Char,
    Decimal32,
    Decimal64,
    Decimal128,
    Described,
    Float,
    Symbol,
    Timestamp,
)

_INTEGER_RANGES: dict[int, tuple[str, int, int]] = {
    KIND_UBYTE: ("ubyte", 0, 2**8 - 1),
    KIND_USHORT: ("ushort", 0, 2**16 - 1),
    KIND_UINT: ("uint", 0, 2**32 - 1),
    KIND_ULONG: ("ulong", 0, 2**64 - 1),
    KIND_BYTE: ("byte", -(2**7), 2**7 - 1),
    KIND_SHORT: ("short", -(2**15), 2**15 - 1),
    KIND_INT: ("int", -(2**31), 2**31 - 1),
    KIND_LONG: ("long", -(2**63), 2**63 - 1),
    KIND_TIMESTAMP: ("timestamp", -(2**63), 2**63 - 1),
}

# Format codes that are used often.
_NULL, _TRUE, _FALSE, _LIST0, _DESCRIBED = 0x40, 0x41, 0x42, 0x45, 0x00
_pack_float = struct.Struct(">Bf").pack
_pack_octet_u32 = struct.Struct(">BI").pack
_pack_u32 = struct.Struct(">I").pack
_MAX_UINT32 = 2**32 - 1
_MAX_INT64 = 2**63 - 1
_MAX_UINT64 = 2**64 - 1
_MAX_WRITER_DEPTH = DEFAULT_LIMITS.depth

# The constructors of array elements by kind: of fixed-width elements, and of elements with a size
# field of one byte.
_FIXED_WIDTH_ELEMENT_CODES = {
    kind: code for kind, code in enumerate(FULL_WIDTH_CODE_OF_KIND) if code
} | {
    KIND_FLOAT: 0x72,
    KIND_DOUBLE: 0x82,
    KIND_DECIMAL32: 0x74,
    KIND_DECIMAL64: 0x84,
    KIND_DECIMAL128: 0x94,
    KIND_CHAR: 0x73,
    KIND_UUID: 0x98,
}
_ONE_BYTE_SIZE_ELEMENT_CODES = {
    KIND_BINARY: 0xA0,
    KIND_STRING: 0xA1,
    KIND_SYMBOL: 0xA3,
    KIND_LIST: 0xC0,
    KIND_MAP: 0xC1,
    KIND_ARRAY: 0xE0,
}


class ValueWriter(Output):
    """Encodes values; `finish` returns the bytes.

    With `lenient`, a value of another type than declared is encoded according to its Python type.
    """

    def __init__(self, lenient: bool = False) -> None:
        self.lenient = lenient

    def inner(self) -> ValueWriter:
        """Return a new, empty writer with the same depth of nesting and the same `lenient`."""
        writer = ValueWriter.__new__(ValueWriter)
        writer.lenient = self.lenient
        writer.depth = self.depth
        return writer

    def enter(self) -> None:
        """Count a level of nesting; raise EncodeError if there are too many."""
        self.depth += 1
        if self.depth > _MAX_WRITER_DEPTH:
            raise EncodeError("values are nested more than 256 deep, or contain themselves")

    def open(self) -> int:
        """Begin a compound; return the mark for `close`."""
        self.enter()
        return self.begin_compound()

    def close(self, mark: int, code: int, count: int) -> None:
        """End a compound: fill in its header. `code` is the format code for a one-byte size."""
        self.depth -= 1
        if not self.end_compound(mark, code, count):
            raise EncodeError("a list, map or array is too large for AMQP: 2^32 - 5 bytes at most")

    # Values.

    def value(self, value: Any) -> None:
        """Write a value in the smallest encoding of its type."""
        self.put(KIND_OF_PYTHON_TYPE.get(type(value), 0), value)

    def put(self, kind: int, value: Any) -> None:
        """Write a value.

        `kind` is the kind of its Python type in `KIND_OF_PYTHON_TYPE`; 0 for another Python type.
        """
        if kind == KIND_STRING:
            self.string(value)
        elif kind == KIND_LONG:
            self.integer(KIND_LONG, value)
        elif kind == KIND_BOOLEAN:
            self.octet(_TRUE if value else _FALSE)
        elif kind == KIND_NULL:
            self.octet(_NULL)
        elif kind == KIND_SYMBOL:
            self.symbol(value)
        elif kind == KIND_BINARY:
            self.text(value, 0xA0)
        elif KIND_UBYTE <= kind <= KIND_INT or kind == KIND_TIMESTAMP:
            self.integer(kind, value)
        elif kind == KIND_MAP:
            self.pairs(value.items(), len(value), value)
        elif kind == KIND_LIST:
            self.write_list(value)
        elif kind == KIND_DOUBLE:
            self.double(value)
        elif kind == KIND_DESCRIBED:
            self.enter()
            self.octet(_DESCRIBED)
            self.value(value.descriptor)
            self.value(value.value)
            self.depth -= 1
        elif kind == KIND_PAIRS:
            self.pairs(value.pairs, len(value.pairs), None)
        elif kind == KIND_ARRAY:
            self.write_array(value)
        elif kind:
            self.write_rare(kind, value)
        else:
            self.composite_or_subclass(value)

    def string(self, text: Any) -> None:
        """Write a str as a string."""
        if not self.short_ascii(0xA1, text):
            self.text(text.encode("utf-8"), 0xA1)

    def symbol(self, text: Any) -> None:
        """Write a str as a symbol."""
        if not self.short_ascii(0xA3, text):
            if not text.isascii():
                raise EncodeError(f"a symbol must be ASCII, not {text!r:.80}")
            self.text(text.encode("ascii"), 0xA3)

    def text(self, octets: Any, code: int) -> None:
        """Write a variable-width value; `code` is the format code for a one-byte size."""
        if type(octets) is not bytes:
            # A memoryview may have strides or larger items, and a bytearray is mutable.
            octets = bytes(octets)
        n = len(octets)
        if n <= 255:
            self.pair(code, n)
        elif n <= _MAX_UINT32:
            self.number(code + 0x10, 4, n)
        else:
            raise EncodeError(f"a value of {n} bytes is too long for AMQP: 2^32 - 1 bytes at most")
        self.add(octets)

    def integer(self, kind: int, value: Any) -> None:
        """Write an integer or timestamp; raise EncodeError if it is out of range for `kind`."""
        try:
            number = value  # a 64-bit C integer in the compiled build
        except OverflowError:
            self.large_ulong(kind, value)
            return
        if not self.integer_of(kind, number):
            self.large_ulong(kind, value)

    def large_ulong(self, kind: int, value: Any) -> None:
        """Write a ulong of 2^63 or more; raise EncodeError for any other integer."""
        if kind == KIND_ULONG and _MAX_INT64 < value <= _MAX_UINT64:
            self.add(b"\x80" + int(value).to_bytes(8, "big"))
            return
        raise self.out_of_range_error(kind, value)

    def out_of_range_error(self, kind: int, value: Any) -> EncodeError:
        """Return the error for an integer that is out of range for `kind`."""
        name, minimum, maximum = _INTEGER_RANGES[kind]
        number = int(value)
        number_text = (
            number if -(10**30) < number < 10**30 else f"one of {number.bit_length()} bits"
        )
        return EncodeError(
            f"{name} holds {minimum} to {maximum}, not {number_text}{hint(kind, value)}"
        )

    def write_rare(self, kind: int, value: Any) -> None:
        """Write a uuid, float, char, datetime or decimal: types that messages rarely use."""
        if kind == KIND_UUID:
            self.add(b"\x98" + value.bytes)
        elif kind == KIND_FLOAT:
            if value == value:
                self.add(_pack_float(0x72, value))
            else:
                self.add(_pack_octet_u32(0x72, value.bits))
        elif kind == KIND_CHAR:
            self.add(_pack_octet_u32(0x73, ord(value)))
        elif kind == KIND_DATETIME:
            self.integer(KIND_TIMESTAMP, timestamp_of(value))
        elif kind == KIND_EXACT:
            self.value(smallest_decimal(value))
        else:
            self.octet(0x74 if kind == KIND_DECIMAL32 else 0x84 if kind == KIND_DECIMAL64 else 0x94)
            self.add(value.bits.to_bytes(value.width, "big"))

    def write_list(self, values: Any) -> None:
        """Write a list or tuple as a list."""
        count = len(values)
        if count == 0:
            self.octet(_LIST0)
            return
        mark = self.open()
        for value in values:
            self.put(KIND_OF_PYTHON_TYPE.get(type(value), 0), value)
        self.close(mark, 0xC0, count)

    def pairs(self, pairs: Any, count: int, keys: Any) -> None:
        """Write a map.

        Args:
            pairs: the (key, value) pairs.
            count: the number of pairs.
            keys: a dict with the keys of the map; None if keys may be duplicates. If all keys of a
                dict are str or Symbol, they are unique in AMQP, too.
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
                self.put(KIND_STRING if type(key) is str else KIND_SYMBOL, key)
                self.put(KIND_OF_PYTHON_TYPE.get(type(value), 0), value)
        elif self.lenient or count < 2:
            # A single key cannot be a duplicate. It is not encoded separately, because that would
            # copy the bytes of a nested key once more at each level.
            for key, value in pairs:
                self.value(key)
                self.value(value)
        else:
            key_encodings = set()
            for key, value in pairs:
                key_writer = self.inner()
                key_writer.value(key)
                octets = key_writer.finish()
                if octets in key_encodings:
                    raise EncodeError(f"duplicate map key {key!r:.80}")
                key_encodings.add(octets)
                self.add(octets)
                self.put(KIND_OF_PYTHON_TYPE.get(type(value), 0), value)
        self.close(mark, 0xC1, 2 * count)

    def composite_or_subclass(self, value: Any) -> None:
        """Write a value whose class is not in `KIND_OF_PYTHON_TYPE`, as its base class is written.

        The base class is the first one that is in `KIND_OF_PYTHON_TYPE`.
        """
        if isinstance(value, enum.Enum):
            self.enter()
            self.value(value.value)
            self.depth -= 1
            return
        for base in type(value).__mro__[1:]:
            kind = KIND_OF_PYTHON_TYPE.get(base, 0)
            if kind == KIND_STRING:
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

    # Arrays. Each element is encoded in its smallest encoding. Then its constructor is removed, and
    # its data is widened if the shared constructor has a larger width.

    def write_array(self, array: Any) -> None:
        """Write an array."""
        kind = KIND_OF_TYPE_NAME[array.type]
        count = len(array.values)
        elements = []
        for value in array.values:
            element_writer = self.inner()
            element_writer.enter()
            if kind == KIND_ARRAY and type(value) is Array:
                element_writer.write_array(value)
            else:
                element_writer.typed(kind, value)
            elements.append(element_writer.finish())
        code = shared_code(kind, elements) if array.code is None else array.code
        body = self.inner()
        for i in range(count):
            if not body.element(code, elements[i]):
                raise EncodeError(
                    f"{array.values[i]!r:.80} does not fit an array of constructor 0x{code:02X}: "
                    "build the array from the type's name"
                )
        # An array has the same header as a compound. Its size includes the shared constructor.
        mark = self.open()
        for descriptor in array.descriptors:
            self.octet(_DESCRIBED)
            self.value(descriptor)
        self.octet(code)
        self.add(body.finish())
        self.close(mark, 0xE0, count)

    def element(self, code: int, octets: Any) -> bool:
        """Write an array element with the constructor `code`; return False if it does not fit.

        `octets` is the element's own smallest encoding.
        """
        element_code = octets[0]
        if element_code == code:
            self.add(octets[1:])
        elif code == 0x56:
            self.add(b"\x01" if element_code == 0x41 else b"\x00")
        elif element_code == 0x45:
            # With a shared constructor, an empty list needs an explicit count.
            self.add(b"\x01\x00" if code == 0xC0 else b"\x00\x00\x00\x04\x00\x00\x00\x00")
        elif code >= 0xA0:
            if element_code + 0x10 != code:
                return False
            size = octets[1]
            if code < 0xC0:
                self.add(_pack_u32(size))
                self.add(octets[2:])
            else:
                self.add(_pack_u32(size + 3) + _pack_u32(octets[2]))
                self.add(octets[3:])
        elif element_code == 0x43 or element_code == 0x44:
            width = MIN_SIZE_OF_FORMAT_CODE[code]
            if width == 0:
                return False
            self.add(bytes(width))
        else:
            # Widen a one-byte encoding to the full width of the type, and keep the sign.
            width = MIN_SIZE_OF_FORMAT_CODE[code]
            if MIN_SIZE_OF_FORMAT_CODE[element_code] != 1 or width < 4:
                return False
            signed = element_code == 0x54 or element_code == 0x55
            number = int.from_bytes(octets[1:], "big", signed=signed)
            self.add(number.to_bytes(width, "big", signed=signed))
        return True

    def typed(self, kind: int, value: Any) -> None:
        """Write a value as the AMQP type `kind`; raise EncodeError if that is not possible."""
        value_kind = KIND_OF_PYTHON_TYPE.get(type(value), 0)
        if value_kind == kind:
            self.put(kind, value)
        elif value_kind == KIND_LONG and (KIND_UBYTE <= kind <= KIND_INT or kind == KIND_TIMESTAMP):
            self.integer(kind, value)
        elif kind == KIND_SYMBOL and value_kind == KIND_STRING:
            self.symbol(value)
        elif kind == KIND_TIMESTAMP and value_kind == KIND_DATETIME:
            self.integer(KIND_TIMESTAMP, timestamp_of(value))
        elif (
            (
                KIND_FLOAT <= kind <= KIND_DOUBLE
                and (value_kind == KIND_LONG or value_kind == KIND_DOUBLE)
            )
            or (kind == KIND_CHAR and value_kind == KIND_STRING)
            or (KIND_DECIMAL32 <= kind <= KIND_DECIMAL128 and value_kind == KIND_EXACT)
        ):
            try:
                if kind == KIND_CHAR:
                    converted: Any = Char(value)
                elif kind == KIND_DOUBLE:
                    converted = float(value)
                elif kind == KIND_FLOAT:
                    converted = Float(value)
                else:
                    converted = (Decimal32, Decimal64, Decimal128)[
                        kind - KIND_DECIMAL32
                    ].from_decimal(value)
            except (ValueError, OverflowError) as error:
                raise EncodeError(
                    f"must be {TYPE_NAME_OF_KIND[kind]}, not {value!r:.80}: {error}"
                ) from None
            self.put(kind, converted)
        elif kind == KIND_MAP and value_kind == KIND_PAIRS:
            self.put(KIND_PAIRS, value)
        elif kind == KIND_ANY or self.lenient:
            self.put(value_kind, value)
        elif kind == KIND_MESSAGE_ID and value_kind == KIND_LONG:
            # An int as a message-id is a ulong.
            self.integer(KIND_ULONG, value)
        elif kind == KIND_MESSAGE_ID and KIND_IS_MESSAGE_ID[value_kind]:
            self.put(value_kind, value)
        elif kind == KIND_ADDRESS and value_kind == KIND_STRING:
            self.put(KIND_STRING, value)
        elif kind == KIND_FIELDS and isinstance(value, dict):
            self.fields(value)
        elif value_kind == 0 and value is not None:
            self.subclass_instance(kind, value)
        else:
            raise EncodeError(
                f"must be {FIELD_TYPE_TEXTS[kind]}, not {value!r:.80}{hint(kind, value)}"
            )

    def subclass_instance(self, kind: int, value: Any) -> None:
        """Write an instance of a subclass as the AMQP type `kind`, by its base class."""
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
        elif kind == KIND_LIST and isinstance(value, (list, tuple)):
            self.write_list(value)
        elif kind == KIND_MAP and isinstance(value, dict):
            self.pairs(value.items(), len(value), value)
        elif (
            isinstance(value, (Described, Array, AmqpMap))
            and KIND_OF_PYTHON_TYPE[base_of(value)] == kind
        ):
            self.put(kind, value)
        elif isinstance(value, datetime.datetime):
            self.typed(kind, timestamp_of(value))
        else:
            raise EncodeError(
                f"must be {FIELD_TYPE_TEXTS[kind]}, not {value!r:.80}{hint(kind, value)}"
            )

    def fields(self, value: Any) -> None:
        """Write a dict as a map whose keys are symbols; its keys are Symbol or str."""
        mark = self.open()
        for key, item in value.items():
            self.typed(KIND_SYMBOL, key)
            self.value(item)
        self.close(mark, 0xC1, 2 * len(value))


# Choices of encodings, and errors.


def shared_code(kind: int, elements: Any) -> int:
    """Return the constructor with the smallest width of at least 1 that fits all `elements`.

    Zero-width constructors are avoided, because brokers refuse such arrays: a large count would
    cost the sender only a few bytes.

    Args:
        kind: the kind of the elements.
        elements: the elements, each in its own smallest encoding.
    """
    if kind == KIND_NULL:
        return 0x40
    if kind == KIND_BOOLEAN:
        return 0x56
    if kind in _ONE_BYTE_SIZE_ELEMENT_CODES:
        short = _ONE_BYTE_SIZE_ELEMENT_CODES[kind]
        return short + 0x10 if short + 0x10 in [e[0] for e in elements] else short
    wide = _FIXED_WIDTH_ELEMENT_CODES[kind]
    if ONE_BYTE_CODE_OF_KIND[kind] and elements and wide not in [e[0] for e in elements]:
        return ONE_BYTE_CODE_OF_KIND[kind]
    return wide


def base_of(value: Any) -> type:
    """Return the base class of a value's class that has an AMQP type."""
    base, *_ = [base for base in type(value).__mro__ if base in KIND_OF_PYTHON_TYPE]
    return base


def hint(kind: int, value: Any) -> str:
    """Return a hint for the error about a value that does not fit the type `kind`; may be empty."""
    if kind == KIND_LONG and isinstance(value, int) and 0 <= value < 2**64:
        return ": a plain int is a long; use ULong"
    if isinstance(value, datetime.timedelta):
        return ": give a number of milliseconds, value // timedelta(milliseconds=1)"
    if kind == KIND_BINARY and isinstance(value, str):
        return ": encode it, value.encode()"
    return ""


def timestamp_of(value: Any) -> Timestamp:
    """Convert a datetime to a timestamp; raise EncodeError if it has no time zone."""
    try:
        return Timestamp.from_datetime(value)
    except ValueError as error:
        raise EncodeError(str(error)) from None


def smallest_decimal(number: Any) -> Any:
    """Return a number as the smallest AMQP decimal that represents it exactly."""
    for kind in (Decimal32, Decimal64):
        try:
            return kind.from_decimal(number)
        except ValueError:
            pass
    try:
        return Decimal128.from_decimal(number)
    except ValueError as error:
        raise EncodeError(str(error)) from None


def encode_fault(error: BaseException) -> EncodeError:
    """Convert an exception of a codec or the interpreter to an EncodeError."""
    if isinstance(error, UnicodeEncodeError):
        return EncodeError(f"{error.object!r} is not valid text: {error.reason}")
    return EncodeError("values are nested too deeply, or contain themselves")
