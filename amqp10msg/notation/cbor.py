# cython: boundscheck=True, wraparound=False, annotation_typing=False, infer_types=True
"""The CBOR notation (RFC 8949): lossless, deterministic, compact. Requires ``amqp10msg[cbor]``.

=========================== =====================================================================
AMQP                        CBOR
=========================== =====================================================================
null, boolean, string       null, true and false, text string
long                        integer
double                      floating-point number
binary                      byte string
list                        array
uuid                        tag 37: byte string (as registered)
ubyte ushort uint ulong     tags 41216 41217 41218 41219: integer
byte short int              tags 41220 41221 41222: integer
timestamp                   tag 41223: integer, milliseconds since the Unix epoch
float                       tag 41224: floating-point number
NaN with a payload          tag 41225 (double), tag 41224 (float): byte string of the 8 or 4 bytes
                            of the IEEE 754 bits
decimal32 64 128            tag 41226: byte string of the 4, 8 or 16 bytes of the IEEE 754 bits
char                        tag 41227: integer, the code point
symbol                      tag 41228: text string
map                         tag 41229: array of key, value, key, value …, because the entries of an
                            AMQP map are ordered, unlike the entries of a CBOR map
array                       tag 41230: array of the element constructor's format code and the
                            elements, without tags; if the elements are described, an array of the
                            descriptors precedes the code
described                   tag 41231: array of the descriptor and the described value
message                     tag 41232: array of the message-format and the sections. A section is an
                            array of the descriptor's code (112 to 120) and the value; for a value
                            that is not a section of Part 3, an array of null and the whole value;
                            for bytes that are not exactly one value, an array of the bytes
=========================== =====================================================================

The tags from 41216 on are in the first-come-first-served range (RFC 8949, 9.2). The standard tags 1
for timestamps and 4 for decimals are not used, because they cannot represent the full range, the
milliseconds, NaNs and the exact bits.

The writer uses the core deterministic encoding (RFC 8949, 4.2.1): equal values give equal bytes. As
in typed JSON, only the constructor of an array is kept of the AMQP encoding. The reader also
accepts longer forms of numbers and lengths, and rejects indefinite lengths.
"""

from __future__ import annotations

import importlib
import io
import math
import struct
import sys
from typing import Any

from amqp10msg.message import Message
from amqp10msg.notation._common import (
    STACK_EXCEEDED,
    NotationError,
    describe,
    describe_encoded,
    message_of,
    misfit,
    sections_of,
)
from amqp10msg.notation.cbor_heads import (
    DETAIL,
    EIGHT_BYTES,
    FOUR_BYTES,
    INDEFINITE,
    ITEM_DOUBLE,
    ITEM_FALSE,
    ITEM_HALF,
    ITEM_NULL,
    ITEM_SINGLE,
    ITEM_TRUE,
    MAJOR,
    MAJOR_ARRAY,
    MAJOR_BYTES,
    MAJOR_MAP,
    MAJOR_NEGATIVE,
    MAJOR_SIMPLE,
    MAJOR_TAG,
    MAJOR_TEXT,
    MAJOR_UNSIGNED,
    ONE_BYTE,
    TWO_BYTES,
)
from amqp10msg.notation.type_names import WIDTHS, integer_range
from amqp10msg.sections import KINDS
from amqp10msg.wire.errors import DecodeError, EncodeError, as_bytes
from amqp10msg.wire.kernel import encode_value
from amqp10msg.wire.kernel.codes import (
    KIND_ARRAY,
    KIND_BINARY,
    KIND_BOOLEAN,
    KIND_CHAR,
    KIND_DECIMAL32,
    KIND_DECIMAL64,
    KIND_DECIMAL128,
    KIND_DESCRIBED,
    KIND_DOUBLE,
    KIND_FLOAT,
    KIND_LIST,
    KIND_LONG,
    KIND_MAP,
    KIND_NULL,
    KIND_OF,
    KIND_STRING,
    KIND_SYMBOL,
    KIND_TIMESTAMP,
    KIND_UBYTE,
    KIND_UUID,
    TYPE_IDS,
    TYPE_NAMES,
)
from amqp10msg.wire.kernel.twin import Output
from amqp10msg.wire.kernel.value_reader import ValueReader, decode_value
from amqp10msg.wire.kernel.value_writer import ValueWriter
from amqp10msg.wire.limits import UNLIMITED
from amqp10msg.wire.primitives import INTEGERS

# The tags. Those of the integer types, from ubyte to timestamp, are first.
_FIRST_TAG, _LAST_INTEGER_TAG = 41216, 41223  # 41216 is 0xA100
_FLOAT, _DOUBLE, _DECIMAL, _CHAR, _SYMBOL, _MAP, _ARRAY, _DESCRIBED, _MESSAGE = range(41224, 41233)
_UUID = 37

#: Tags by the kernel's kind number; 0 for kinds with a native CBOR type.
_TAGS = [0] * 256
#: Widths in bytes of the kinds that are written as bit patterns, by kind.
_WIDTHS = [0] * 256
for _index, _name in enumerate(INTEGERS):
    _TAGS[TYPE_IDS[_name]] = _FIRST_TAG + _index
for _name, _width in WIDTHS.items():
    _WIDTHS[TYPE_IDS[_name]] = _width
_TAGS[KIND_FLOAT] = _FLOAT
_TAGS[KIND_CHAR] = _CHAR
_TAGS[KIND_SYMBOL] = _SYMBOL
_TAGS[KIND_MAP] = _MAP
_TAGS[KIND_ARRAY] = _ARRAY
_TAGS[KIND_UUID] = _UUID
_TAGS[KIND_DECIMAL32] = _TAGS[KIND_DECIMAL64] = _TAGS[KIND_DECIMAL128] = _DECIMAL
#: Kinds by tag minus `_FIRST_TAG`; 0 for decimals, whose size determines the type.
_KINDS_BY_TAG = bytes(
    [
        *[TYPE_IDS[name] for name in INTEGERS],
        *(KIND_FLOAT, KIND_DOUBLE, 0, KIND_CHAR, KIND_SYMBOL, KIND_MAP, KIND_ARRAY),
        KIND_DESCRIBED,
    ]
)
#: Format codes of the kinds that are written as bit patterns, by kind.
_CODES = {KIND_FLOAT: 0x72, KIND_DOUBLE: 0x82, KIND_UUID: 0x98}
#: Format codes of decimals, by size in bytes.
_DECIMALS = {4: 0x74, 8: 0x84, 16: 0x94}
_CODES |= {KIND_DECIMAL32: 0x74, KIND_DECIMAL64: 0x84, KIND_DECIMAL128: 0x94}

#: The descriptor codes of the first and the last section.
_FIRST = KINDS[0].code
_LAST = _FIRST + len(KINDS) - 1
#: The encoded descriptors of the sections, by descriptor code minus `_FIRST`.
_SECTION_HEADS = [b"\x00\x53" + bytes((kind.code,)) for kind in KINDS]
#: The encodings of floating-point numbers of 16, 32 and 64 bits, and their initial bytes in CBOR.
_FORMS = [struct.Struct(f">{letter}") for letter in "efd"]
_HEADS = [b"\xf9", b"\xfa", b"\xfb"]
_HALF, _SINGLE, _REAL = _FORMS
# The quiet NaN without a payload, as CBOR item, float data, double with constructor, and half bits.
_NAN, _SINGLE_NAN = b"\xf9\x7e\x00", b"\x7f\xc0\x00\x00"
_DOUBLE_NAN = b"\x82\x7f\xf8" + bytes(6)
_HALF_NAN = 0x7E00
_INT64_MAX = 2**63 - 1
_WORD = 2**32
#: The maximum nesting of CBOR items, which is two per level of AMQP, three for a message, and a
#: margin.
MAX_DEPTH = 2 * 256 + 8
_MAX_DEPTH = MAX_DEPTH
#: The allowed initial bytes of major type 7.
_SIMPLE = bytes((ITEM_FALSE, ITEM_TRUE, ITEM_NULL, ITEM_HALF, ITEM_SINGLE, ITEM_DOUBLE))


def _cbor2() -> Any:
    """Return the module cbor2, an optional dependency that is imported on first use."""
    try:
        return sys.modules.get("cbor2") or importlib.import_module("cbor2")
    except ImportError:
        raise ImportError("CBOR needs cbor2: pip install 'amqp10msg[cbor]'") from None


# Writing.


def to_cbor(value: Any) -> bytes:
    """Return a message or a value as CBOR.

    Args:
        value: a `Message`, or a value that `encode_value` accepts.

    Raises:
        EncodeError: the value has no AMQP type, or is out of its range.
        ImportError: cbor2 is not installed.
    """
    _cbor2()
    encoded: bytes
    try:
        if isinstance(value, Message):
            encoded = cbor_of_message(value.encode(), value.message_format, value._lenient)
        else:
            encoded = cbor_of_value(encode_value(value))
    except RecursionError:
        raise EncodeError(STACK_EXCEEDED) from None
    return encoded


def cbor_of_value(octets: bytes) -> bytes:
    """Return an encoded AMQP value as CBOR."""
    reader = CborWriter.__new__(CborWriter)
    reader.begin(octets, 0, UNLIMITED)
    reader.out = Output.__new__(Output)
    reader.item()
    return reader.out.finish()  # type: ignore[no-any-return]  # the kernel returns Any


def cbor_of_message(octets: bytes, message_format: int, is_lenient: bool) -> bytes:
    """Return an encoded message as CBOR; `is_lenient` states whether it was decoded leniently."""
    reader = CborWriter.__new__(CborWriter)
    reader.begin(octets, 0, UNLIMITED)
    reader.out = Output.__new__(Output)
    # Sections of a leniently decoded message may contain bytes that are not exactly one value.
    count = -1 if is_lenient else reader.sections()
    if count < 0:
        reader.out.finish()
        count = reader.lenient_sections()
    sections = reader.out.finish()
    reader.head(MAJOR_TAG, _MESSAGE)
    reader.head(MAJOR_ARRAY, 1 + count)
    reader.head(MAJOR_UNSIGNED, message_format)
    return reader.out.finish() + sections  # type: ignore[no-any-return]  # the kernel returns Any


class CborWriter(ValueReader):
    """Converts encoded AMQP values, which were decoded before, to CBOR in `out`."""

    out: Any
    """An `Output`."""

    def item(self) -> None:
        """Convert one value, including the tag for its type."""
        pos = self.pos
        if pos >= self.end:
            raise self.truncated(pos, 1)
        code = self.buf[pos]
        kind = KIND_OF[code]
        self.pos = pos + 1
        if kind == KIND_STRING:
            self.text(code, MAJOR_TEXT)
        elif kind == KIND_SYMBOL:
            self.head(MAJOR_TAG, _SYMBOL)
            self.text(code, MAJOR_TEXT)
        elif KIND_UBYTE <= kind <= KIND_LONG or kind == KIND_TIMESTAMP:
            if _TAGS[kind]:
                self.head(MAJOR_TAG, _TAGS[kind])
            self.integer(int(self.number(code)))
        elif kind == KIND_NULL:
            self.out.octet(ITEM_NULL)
        elif kind == KIND_DOUBLE:
            self.real(kind, True)
        elif code == 0:
            self.enter(pos)
            self.head(MAJOR_TAG, _DESCRIBED)
            self.out.octet(MAJOR_ARRAY | 2)
            self.item()
            self.item()
            self.depth += 1
        else:
            if _TAGS[kind]:
                self.head(MAJOR_TAG, _TAGS[kind])
            self.content(kind, code)

    def content(self, kind: int, code: int) -> None:
        """Convert a value whose format code was read, without the tag for its type."""
        if KIND_UBYTE <= kind <= KIND_LONG or kind == KIND_TIMESTAMP:
            self.integer(int(self.number(code)))
        elif kind in {KIND_STRING, KIND_SYMBOL}:
            self.text(code, MAJOR_TEXT)
        elif kind == KIND_NULL:
            self.out.octet(ITEM_NULL)
        elif kind == KIND_BOOLEAN:
            self.out.octet(ITEM_TRUE if self.read(code) else ITEM_FALSE)
        elif kind == KIND_BINARY:
            self.text(code, MAJOR_BYTES)
        elif kind == KIND_LIST and code == 0x45:
            self.out.octet(MAJOR_ARRAY)
        elif kind in {KIND_LIST, KIND_MAP}:
            self.compound(code)
        elif kind in {KIND_FLOAT, KIND_DOUBLE}:
            self.real(kind, False)
        elif kind == KIND_CHAR:
            self.integer(ord(self.read(code)))
        elif kind == KIND_ARRAY:
            self.array(code)
        else:
            self.head(MAJOR_BYTES, _WIDTHS[kind])
            pos = self.advance(_WIDTHS[kind])
            self.out.copy(self.buf, pos, self.pos)

    def head(self, major: int, number: int) -> None:
        """Write the head of an item: the major type (in the upper three bits), and the argument."""
        out = self.out
        if number < ONE_BYTE:
            out.octet(major | number)
        elif number < 0x100:
            out.number(major | ONE_BYTE, 1, number)
        elif number < 0x10000:
            out.number(major | TWO_BYTES, 2, number)
        elif number < 0x100000000:
            out.number(major | FOUR_BYTES, 4, number)
        else:
            out.number(major | EIGHT_BYTES, 8, number)

    def integer(self, number: Any) -> None:
        """Write an integer."""
        if number >= 0:
            self.head(MAJOR_UNSIGNED, number)
        else:
            self.head(MAJOR_NEGATIVE, -1 - number)

    def text(self, code: int, major: int) -> None:
        """Convert a binary, string or symbol to a byte or text string, of the type `major`."""
        pos = self.span(code)
        self.head(major, self.pos - pos)
        self.out.copy(self.buf, pos, self.pos)

    def real(self, kind: int, tagged: bool) -> None:
        """Convert a float or double to the shortest CBOR float with the same value.

        A NaN with a payload is converted to a byte string with its bits. With `tagged`, a tag marks
        this byte string as a double, to distinguish it from an AMQP binary.
        """
        form = 1 if kind == KIND_FLOAT else 2
        size = _WIDTHS[kind]
        pos = self.advance(size)
        octets = self.buf[pos : self.pos]
        number = _FORMS[form].unpack(octets)[0]
        if not math.isnan(number):
            self.out.add(_shortest(number, form, octets))
        # The canonical CBOR NaN represents only the quiet NaN without a payload.
        elif octets.rstrip(b"\x00") == (b"\x7f\xc0" if form == 1 else b"\x7f\xf8"):
            self.out.add(_NAN)
        else:
            if tagged:
                self.head(MAJOR_TAG, _DOUBLE)
            self.head(MAJOR_BYTES, size)
            self.out.add(octets)

    def compound(self, code: int) -> None:
        """Convert a list, or a map as a list of alternating keys and values."""
        outer = self.descend(code)
        count = self.count
        self.head(MAJOR_ARRAY, count)
        for _ in range(count):
            self.item()
        self.ascend(outer)

    def array(self, code: int) -> None:
        """Convert an array to the descriptors of its elements, the format code and the elements."""
        self.enter(self.pos)
        pos = self.span(code)
        stop = self.pos
        count = self.buf[pos] if code == 0xE0 else self.u32(pos)
        self.pos = start = pos + (1 if code == 0xE0 else 4)
        descriptors = 0
        while self.buf[self.advance(1)] == 0:
            descriptors += 1
            self.skip()
        self.head(MAJOR_ARRAY, count + (2 if descriptors else 1))
        if descriptors:
            self.pos = start
            self.head(MAJOR_ARRAY, descriptors)
            for _ in range(descriptors):
                self.advance(1)
                self.item()
            self.advance(1)
        code = self.buf[self.pos - 1]
        self.head(MAJOR_UNSIGNED, code)
        for _ in range(count):
            self.content(KIND_OF[code], code)
        self.pos = stop
        self.depth += 1

    def sections(self) -> int:
        """Convert the sections of a message; return their number.

        Returns -1 if a descriptor is not the code of a section.
        """
        count = 0
        while self.pos < self.end:
            code = self.descriptor()
            if not _FIRST <= code <= _LAST:
                return -1
            self.out.octet(MAJOR_ARRAY | 2)
            self.head(MAJOR_UNSIGNED, code)
            self.item()
            count += 1
        return count

    def lenient_sections(self) -> int:
        """Convert the sections of a possibly invalid message; return their number."""
        count = 0
        for section in sections_of(self.buf):
            count += 1
            if section.is_raw:
                self.out.octet(MAJOR_ARRAY | 1)
                self.head(MAJOR_BYTES, section.end - section.start)
                self.out.copy(self.buf, section.start, section.end)
                continue
            self.out.octet(MAJOR_ARRAY | 2)
            if section.kind is None:
                self.out.octet(ITEM_NULL)
            else:
                self.head(MAJOR_UNSIGNED, section.kind.code)
            self.pos = section.value_start
            self.item()
        return count


def _shortest(number: Any, form: int, octets: bytes) -> bytes:
    """Return the shortest CBOR floating-point item that represents a number exactly.

    `octets` is the number in AMQP, with the encoding `_FORMS[form]`.
    """
    for i in range(form):
        try:
            short: bytes = _FORMS[i].pack(number)
        except OverflowError:
            continue
        if _FORMS[i].unpack(short)[0] == number:
            return _HEADS[i] + short
    return _HEADS[form] + octets


# Reading.


def from_cbor(data: bytes | bytearray | memoryview) -> Any:
    """Read CBOR as written by `to_cbor`: a `Message`, or a value as `decode_value` returns it.

    A message that `Message.decode` rejects is decoded with ``strict=False``. Untrusted input is
    safe: cbor2 never gets tags that `to_cbor` does not write, such as shared references.

    Raises:
        NotationError: the bytes are not CBOR as `to_cbor` writes it. The error contains the byte
            offset, or the path in the value.
        ImportError: cbor2 is not installed.
    """
    cbor2 = _cbor2()
    octets = as_bytes(data, "from_cbor")
    try:
        try:
            encoded, message_format = bytes_of_cbor(octets, False)
        except (ValueError, RecursionError):
            check(octets)
            try:
                _decode_with_cbor2(octets)
            except (cbor2.CBORError, UnicodeDecodeError) as error:
                raise NotationError(f"the bytes are not CBOR: {error}") from None
            encoded, message_format = bytes_of_cbor(octets, True)
        else:
            try:
                if message_format is None:
                    return decode_value(encoded, limits=UNLIMITED)
                return Message.decode(encoded, limits=UNLIMITED, message_format=message_format)
            except DecodeError:
                encoded, message_format = bytes_of_cbor(octets, True)
    except RecursionError:
        raise NotationError(STACK_EXCEEDED) from None
    if message_format is None:
        return decode_value(encoded, limits=UNLIMITED)
    return message_of(encoded, message_format=message_format)


def _decode_with_cbor2(octets: bytes) -> Any:
    """Return the first item, decoded by cbor2."""
    cbor2 = _cbor2()
    stream = io.BytesIO(octets)
    try:
        decoder = cbor2.CBORDecoder(stream, max_depth=MAX_DEPTH)
    except TypeError:  # cbor2 before 6 has no max_depth: only the interpreter's stack limits it
        decoder = cbor2.CBORDecoder(stream)
    return decoder.decode()


def bytes_of_cbor(data: bytes, explains_errors: bool) -> Any:
    """Convert the CBOR of a message or value to the AMQP encoding.

    Args:
        data: the CBOR. With `explains_errors`, it must have passed `check`.
        explains_errors: whether to explain errors and report duplicate map keys, which is slower.

    Returns:
        The encoding, and the message-format, which is None for a value.

    Raises:
        ValueError: the data does not follow the notation. With `explains_errors`, a
            `NotationError` that explains the error.
    """
    reader = CborReader.__new__(CborReader)
    reader.begin(data, 0, UNLIMITED)
    reader.out = ValueWriter.__new__(ValueWriter)
    reader.explains_errors = explains_errors
    reader.first_encoding_error = None
    message_format = None
    if reader.head() == MAJOR_TAG and reader.argument == _MESSAGE:
        message_format = reader.message()
    else:
        reader.pos = 0
        reader.whole("")
    if reader.pos != len(data):
        raise ValueError
    return reader.out.finish(), message_format


class CborReader(ValueReader):
    """Converts CBOR items to encoded AMQP values in `out`.

    An error of the AMQP encoding, such as a duplicate key, has the lowest priority: it is kept in
    `first_encoding_error`, and raised after the section has been read without another error.
    """

    out: Any
    """A `ValueWriter`."""
    argument: int
    """The argument of the last head."""
    explains_errors: bool
    """Whether to explain errors, and to check maps for duplicate keys."""
    first_encoding_error: Any
    """The text of the first error of the AMQP encoding, or None."""

    def head(self) -> int:
        """Read the head of an item: set `argument`, and return the major type."""
        pos = self.advance(1)
        first = self.buf[pos]
        detail = first & DETAIL
        if detail < ONE_BYTE:
            self.argument = detail
        elif detail == ONE_BYTE:
            self.argument = self.buf[self.advance(1)]
        elif detail == TWO_BYTES:
            pos = self.advance(2)
            self.argument = self.buf[pos] << 8 | self.buf[pos + 1]
        elif detail == FOUR_BYTES:
            self.argument = self.u32(self.advance(4))
        elif detail == EIGHT_BYTES:
            pos = self.advance(8)
            high = self.u32(pos)
            low = self.u32(pos + 4)
            self.argument = high * _WORD + low
        else:
            raise ValueError
        return first & MAJOR

    def mismatch(self, expected: str, pos: int) -> ValueError:
        """Return the error for the item at `pos`, with `expected` as the valid content."""
        if not self.explains_errors:
            return ValueError()
        actual = _decode_with_cbor2(self.buf[pos:])
        text = f"tag {actual.tag}" if type(actual) is _cbor2().CBORTag else describe(actual)
        return NotationError(f"expected {expected}, not {text}")

    def whole(self, step: str) -> None:
        """Convert the item at the path `step`, and raise `first_encoding_error` if it is set."""
        try:
            self.item()
        except EncodeError as error:
            raise NotationError(error.reason, f"${step}") from None
        except NotationError as error:
            raise error.within(step) from None
        if self.first_encoding_error is not None:
            raise NotationError(self.first_encoding_error, f"${step}")

    def item(self) -> None:
        """Convert one item, tagged or untagged."""
        pos = self.pos
        major = self.head()
        if major == MAJOR_TEXT:
            self.text(0xA1)
        elif major in {MAJOR_UNSIGNED, MAJOR_NEGATIVE}:
            self.integer(KIND_LONG, pos, major)
        elif major == MAJOR_BYTES:
            self.text(0xA0)
        elif major == MAJOR_ARRAY:
            self.compound(KIND_LIST, pos)
        elif major == MAJOR_TAG:
            self.tagged(pos)
        elif major == MAJOR_SIMPLE:
            first = self.buf[pos]
            if first == ITEM_NULL:
                self.out.octet(0x40)
            elif first in {ITEM_FALSE, ITEM_TRUE}:
                self.content(KIND_BOOLEAN, pos, major)
            else:
                self.content(KIND_DOUBLE, pos, major)
        else:
            raise ValueError

    def tagged(self, start: int) -> None:
        """Convert an item whose tag was read; the tag starts at `start`."""
        tag = self.argument
        pos = self.pos
        major = self.head()
        if _FIRST_TAG <= tag <= _LAST_INTEGER_TAG:
            self.integer(_KINDS_BY_TAG[tag - _FIRST_TAG], pos, major)
        elif tag == _SYMBOL and major == MAJOR_TEXT:
            if not self.text(0xA3):
                raise self.kind_mismatch(KIND_SYMBOL, pos)
        elif _MAP <= tag <= _DESCRIBED and major == MAJOR_ARRAY:
            # Call `compound` directly, to need fewer calls per level of nesting.
            self.compound(_KINDS_BY_TAG[tag - _FIRST_TAG], pos)
        elif tag == _UUID:
            self.content(KIND_UUID, pos, major)
        elif tag == _DECIMAL:
            code = _DECIMALS.get(self.argument, 0) if major == MAJOR_BYTES else 0
            if code == 0:
                raise self.mismatch("a byte string of 4, 8 or 16 bytes", pos)
            self.bits(code)
        elif _FIRST_TAG <= tag < _MESSAGE:
            self.content(_KINDS_BY_TAG[tag - _FIRST_TAG], pos, major)
        else:
            raise self.mismatch("a value", start)

    def content(self, kind: int, pos: int, major: int) -> None:
        """Convert an item, whose head at `pos` was read, to a value of `kind`."""
        if kind == KIND_STRING and major == MAJOR_TEXT:
            self.text(0xA1)
        elif KIND_UBYTE <= kind <= KIND_LONG or kind == KIND_TIMESTAMP:
            self.integer(kind, pos, major)
        elif kind == KIND_SYMBOL and major == MAJOR_TEXT:
            if not self.text(0xA3):
                raise self.kind_mismatch(kind, pos)
        elif kind == KIND_BINARY and major == MAJOR_BYTES:
            self.text(0xA0)
        elif kind in {KIND_LIST, KIND_MAP, KIND_DESCRIBED, KIND_ARRAY} and major == MAJOR_ARRAY:
            self.compound(kind, pos)
        elif kind in {KIND_FLOAT, KIND_DOUBLE} and major == MAJOR_SIMPLE:
            self.real(kind, pos)
        elif kind in _CODES and major == MAJOR_BYTES and self.argument == _WIDTHS[kind]:
            self.bits(_CODES[kind])
        elif kind == KIND_BOOLEAN and self.buf[pos] in {ITEM_FALSE, ITEM_TRUE}:
            self.out.octet(0x41 if self.buf[pos] == ITEM_TRUE else 0x42)
        elif kind == KIND_NULL and self.buf[pos] == ITEM_NULL:
            self.out.octet(0x40)
        elif kind == KIND_CHAR and major == MAJOR_UNSIGNED:
            number = self.argument
            if number > 0x10FFFF or number >> 11 == 0x1B:
                raise self.kind_mismatch(kind, pos)
            self.out.number(0x73, 4, number)
        else:
            raise self.kind_mismatch(kind, pos)

    def kind_mismatch(self, kind: int, pos: int) -> ValueError:
        """Return the error for an item at `pos` that does not represent a value of `kind`."""
        name = TYPE_NAMES[kind]
        expected = f"a {name}"
        if name in INTEGERS or name == "long":
            low, high, _ = integer_range(name)
            expected = f"an integer from {low} to {high}, for {name}"
        elif kind in {KIND_FLOAT, KIND_DOUBLE}:
            expected = f"a number or a byte string of {_WIDTHS[kind]} bytes, for {name}"
        elif kind == KIND_CHAR:
            expected = "a Unicode code point that is not a surrogate"
        elif kind == KIND_SYMBOL:
            expected = "a text string in ASCII, for a symbol"
        elif name in WIDTHS:
            expected = f"a byte string of {_WIDTHS[kind]} bytes, for {name}"
        elif kind in {KIND_LIST, KIND_MAP, KIND_DESCRIBED, KIND_ARRAY}:
            expected = f"an array, for a {name}"
        return self.mismatch(expected, pos)

    def span_of_string(self) -> int:
        """Skip the bytes of a string, and return their offset."""
        if self.argument > self.end - self.pos:
            raise ValueError
        return self.advance(self.argument)

    def text(self, code: int) -> bool:
        """Convert a string to a binary, string or symbol; return False if a symbol is not ASCII.

        `code` is the format code for values of at most 255 bytes.
        """
        pos = self.span_of_string()
        size = self.pos - pos
        if code != 0xA0:
            octets = self.buf[pos : self.pos]
            if not octets.isascii():
                if code == 0xA3:
                    return False
                octets.decode("utf-8")
        if size < 256:
            self.out.pair(code, size)
        elif size < _WORD:
            self.out.number(code + 0x10, 4, size)
        else:
            raise ValueError
        self.out.copy(self.buf, pos, self.pos)
        return True

    def bits(self, code: int) -> None:
        """Write a format code, and after it the content of a byte string."""
        self.out.octet(code)
        pos = self.span_of_string()
        self.out.copy(self.buf, pos, self.pos)

    def integer(self, kind: int, pos: int, major: int) -> None:
        """Convert an integer, whose head at `pos` was read, to a value of `kind`."""
        try:
            if major == MAJOR_UNSIGNED:
                self.out.integer(kind, self.argument)
            elif major == MAJOR_NEGATIVE and self.argument <= _INT64_MAX:
                number = self.argument
                self.out.integer(kind, -1 - number)
            else:
                raise self.kind_mismatch(kind, pos)
        except EncodeError:
            raise self.kind_mismatch(kind, pos) from None

    def real(self, kind: int, pos: int) -> None:
        """Convert a floating-point number, whose head is at `pos`, to a float or double."""
        first = self.buf[pos]
        if first == ITEM_DOUBLE:
            number = self.f64(pos + 1)
        elif first == ITEM_SINGLE:
            number = float(_SINGLE.unpack_from(self.buf, pos + 1)[0])
        elif first == ITEM_HALF:
            number = float(_HALF.unpack_from(self.buf, pos + 1)[0])
        else:
            raise self.kind_mismatch(kind, pos)
        if kind == KIND_FLOAT:
            octets = _SINGLE_NAN
            if not math.isnan(number):
                try:
                    octets = _SINGLE.pack(number)
                except OverflowError:
                    octets = b""
                if not octets or _SINGLE.unpack(octets)[0] != number:
                    raise self.mismatch("a number that 32 bits can represent exactly", pos)
            self.out.octet(0x72)
            self.out.add(octets)
        elif not math.isnan(number):
            self.out.double(number)
        elif first == ITEM_HALF and self.argument == _HALF_NAN:
            self.out.add(_DOUBLE_NAN)
        else:
            # For other NaNs, use the bits that cbor2 returns.
            self.out.octet(0x82)
            self.out.add(_REAL.pack(_decode_with_cbor2(self.buf[pos:])))

    def compound(self, kind: int, pos: int) -> None:
        """Convert a CBOR array, whose head was read, to a list, map, array or described value."""
        if self.argument > self.end - self.pos:
            raise ValueError
        count = self.argument
        out = self.out
        mark = 0
        if kind == KIND_ARRAY:
            self.array(pos, count)
            count = 0
        elif kind == KIND_DESCRIBED:
            out.enter()
            out.octet(0)
        elif kind == KIND_MAP or count:
            mark = out.open()
        else:
            out.octet(0x45)
        compares_keys = self.explains_errors and kind == KIND_MAP and count > 2
        keys: Any = set() if compares_keys else None
        i = 0
        try:
            while i < count:
                if compares_keys and not i & 1:
                    self.key(keys)
                else:
                    self.item()
                i += 1
        except NotationError as error:
            raise error.within(f"[{i}]") from None
        if kind == KIND_DESCRIBED:
            if count != 2:
                raise self.mismatch("an array of a descriptor and a value", pos)
            out.depth -= 1
        elif kind == KIND_MAP:
            if count & 1:
                raise self.mismatch("an array of keys and values in turn", pos)
            out.close(mark, 0xC1, count)
        elif count:
            out.close(mark, 0xC0, count)

    def key(self, earlier_keys: Any) -> None:
        """Convert a map key, and check that it is not in `earlier_keys`."""
        out = self.out
        self.out = out.inner()
        self.item()
        octets = self.out.finish()
        self.out = out
        if octets in earlier_keys and self.first_encoding_error is None:
            self.first_encoding_error = f"duplicate map key {describe_encoded(octets)}"
        earlier_keys.add(octets)
        out.add(octets)

    def array(self, pos: int, count: int) -> None:
        """Convert a CBOR array of descriptors (optional), format code and elements to an array."""
        out = self.out
        first = self.pos
        major = self.head() if count else MAJOR_SIMPLE
        described = 1 if major == MAJOR_ARRAY else 0
        descriptors = 0
        if described:
            descriptors = self.argument
            self.pos = first
            self.skip_item()
            major = self.head() if count > 1 else MAJOR_SIMPLE
        if major != MAJOR_UNSIGNED or self.argument > 255 or KIND_OF[self.argument] == 0:
            raise self.mismatch("an array that begins with a format code of Part 1, 1.6", pos)
        code = self.argument
        kind = KIND_OF[code]
        start = self.pos
        mark = out.open()
        i = 0
        if described:
            self.pos = first
            self.head()
            try:
                while i < descriptors:
                    out.octet(0)
                    self.item()
                    i += 1
            except NotationError as error:
                raise error.within(f"[0][{i}]") from None
        self.pos = start
        out.octet(code)
        i = 1 + described
        try:
            while i < count:
                pos = self.pos
                major = self.head()
                self.out = out.inner()
                self.content(kind, pos, major)
                octets = self.out.finish()
                self.out = out
                if not out.element(code, octets) and self.first_encoding_error is None:
                    self.first_encoding_error = misfit(octets, code)
                i += 1
        except NotationError as error:
            raise error.within(f"[{i}]") from None
        out.close(mark, 0xE0, count - 1 - described)

    def skip_item(self) -> None:
        """Skip one item, including all items inside it."""
        pending = 1
        while pending:
            pending -= 1
            major = self.head()
            if major in {MAJOR_BYTES, MAJOR_TEXT}:
                self.span_of_string()
            elif major == MAJOR_TAG:
                pending += 1
            elif major == MAJOR_ARRAY:
                if self.argument > self.end - self.pos:
                    raise ValueError
                pending += self.argument

    def message(self) -> int:
        """Convert the sections of a message, whose tag was read; return the message-format."""
        start = self.pos
        if self.head() != MAJOR_ARRAY or self.argument == 0:
            raise self.mismatch("an array of the message-format and the sections", start)
        count = self.argument
        start = self.pos
        try:
            if self.head() != MAJOR_UNSIGNED or self.argument >= _WORD:
                raise self.mismatch("a message-format, 0 to 2^32 - 1", start)
            message_format = self.argument
        except NotationError as error:
            raise error.within("[0]") from None
        i = 1
        try:
            while i < count:
                self.section()
                i += 1
        except NotationError as error:
            raise error.within(f"[{i}]") from None
        return message_format

    def section(self) -> None:
        """Convert one section."""
        start = self.pos
        major = self.head()
        count = self.argument if major == MAJOR_ARRAY else 0
        if count == 1 and self.head() == MAJOR_BYTES:
            pos = self.span_of_string()
            self.out.copy(self.buf, pos, self.pos)
        elif count == 2:
            self.section_code()
            self.whole("[1]")
        else:
            raise self.mismatch("a section: an array of its code and its value", start)

    def section_code(self) -> None:
        """Convert the code of a section to the encoded descriptor; null to nothing."""
        pos = self.pos
        if self.head() == MAJOR_UNSIGNED and _FIRST <= self.argument <= _LAST:
            self.out.add(_SECTION_HEADS[self.argument - _FIRST])
        elif self.buf[pos] != ITEM_NULL:
            error: Any = self.mismatch("a section's code, 112 to 120, or null", pos)
            raise error.within("[0]") if self.explains_errors else error


def check(data: bytes) -> None:
    """Check that the bytes are one well-formed CBOR item with only features that the notation uses.

    After this check, cbor2 can safely decode the bytes, since it can only create plain values. Tags
    for shared references, regular expressions and the like are rejected.

    Raises:
        NotationError: the bytes are malformed, or use a feature that the notation does not use.
    """
    end = len(data)
    pos = start = 0
    remaining = 1  # items remaining in the current array or tag
    outer_remaining: list[int] = []  # items remaining in each enclosing array or tag
    while True:
        if remaining == 0:
            if not outer_remaining:
                break
            remaining = outer_remaining.pop()
            continue
        remaining -= 1
        start = pos
        if pos >= end:
            raise _malformed(start, "the input ends in the middle of an item")
        major = data[pos] & MAJOR
        detail = data[pos] & DETAIL
        pos += 1
        number = detail
        if detail >= ONE_BYTE:
            if detail == INDEFINITE:
                raise _malformed(start, "indefinite lengths are not part of this notation")
            if detail > EIGHT_BYTES:
                raise _malformed(start, f"no item begins with 0x{data[start]:02X}")
            width = 1 << (detail - ONE_BYTE)
            if width > end - pos:
                raise _malformed(start, "the input ends in the middle of an item")
            number = 0
            for i in range(width):
                number = number << 8 | data[pos + i]
            pos += width
        if major in {MAJOR_UNSIGNED, MAJOR_NEGATIVE}:
            continue
        if major in {MAJOR_BYTES, MAJOR_TEXT}:
            if number > end - pos:
                raise _malformed(start, f"a string of {number} bytes does not fit the input")
            pos += number
        elif major in {MAJOR_ARRAY, MAJOR_TAG}:
            if major == MAJOR_TAG and number != _UUID and not _FIRST_TAG <= number <= _MESSAGE:
                raise _malformed(start, f"tag {number} is not part of this notation")
            if major == MAJOR_ARRAY and number > end - pos:
                raise _malformed(start, f"an array of {number} items does not fit the input")
            if len(outer_remaining) >= _MAX_DEPTH:
                raise _malformed(start, "items are nested too deeply")
            outer_remaining.append(remaining)
            remaining = 1 if major == MAJOR_TAG else number
        elif major == MAJOR_MAP:
            raise _malformed(
                start, f"a CBOR map is not part of this notation: AMQP maps have tag {_MAP}"
            )
        elif data[start] not in _SIMPLE:
            raise _malformed(start, f"simple value {number} is not part of this notation")
    if pos != end:
        raise _malformed(pos, f"{end - pos} bytes follow the item")


def _malformed(offset: int, reason: str) -> NotationError:
    """Return the error for the bytes at an offset."""
    return NotationError(f"at byte {offset}: {reason}")
