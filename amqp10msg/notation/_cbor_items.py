# cython: language_level=3, boundscheck=True, wraparound=False, annotation_typing=False
"""The bytes of values from CBOR, each item visited once.

Runs as it is, and compiled with the C types of `_cbor_items.pxd`. What is written wrongly, and what
is rare, such as arrays, is left to `cbor`, which says what is wrong and where. Keys of maps are not
compared here: that is done where the bytes are decoded.
"""

from __future__ import annotations

import math
import struct
from typing import Any

from amqp10msg.notation._cbor_tags import (
    CHAR,
    DECIMAL,
    DESCRIBED,
    DOUBLE,
    FLOAT,
    MAP,
    MESSAGE,
    SYMBOL,
    UUID,
)
from amqp10msg.notation._cbor_tags import FIRST as _FIRST_TAG
from amqp10msg.notation.cbor_heads import (
    DETAIL,
    EIGHT_BYTES,
    FOUR_BYTES,
    ITEM_DOUBLE,
    ITEM_FALSE,
    ITEM_HALF,
    ITEM_NULL,
    ITEM_SINGLE,
    ITEM_TRUE,
    MAJOR,
    MAJOR_ARRAY,
    MAJOR_BYTES,
    MAJOR_NEGATIVE,
    MAJOR_SIMPLE,
    MAJOR_TAG,
    MAJOR_TEXT,
    MAJOR_UNSIGNED,
    ONE_BYTE,
    TWO_BYTES,
)
from amqp10msg.notation.type_names import INTEGERS
from amqp10msg.sections import KINDS
from amqp10msg.wire.kernel.codes import KIND_LONG, TYPE_IDS
from amqp10msg.wire.kernel.value_reader import READ_FAULTS, ValueReader
from amqp10msg.wire.kernel.value_writer import ValueWriter
from amqp10msg.wire.limits import UNLIMITED

_KINDS = bytes(TYPE_IDS[name] for name in INTEGERS)
#: By tag: the format code for each size that a byte string may have behind it.
_BITS = {
    FLOAT: {4: 0x72},
    DOUBLE: {8: 0x82},
    DECIMAL: {4: 0x74, 8: 0x84, 16: 0x94},
    UUID: {16: 0x98},
}
_INTEGERS, _LAST_INTEGER = _FIRST_TAG, _FIRST_TAG + len(INTEGERS) - 1
_MAP, _SYMBOL, _CHAR, _DESCRIBED, _MESSAGE, _FLOAT = MAP, SYMBOL, CHAR, DESCRIBED, MESSAGE, FLOAT
_FIRST = KINDS[0].code
_HEADS = [b"\x00\x53" + bytes((kind.code,)) for kind in KINDS]
_HALF, _SINGLE = struct.Struct(">e"), struct.Struct(">f")
_NAN, _SINGLE_NAN = b"\x82\x7f\xf8" + bytes(6), b"\x7f\xc0\x00\x00"
_HALF_NAN = 0x7E00
_INT64_MAX = 2**63 - 1
_WORD = 2**32


class RareError(Exception):
    """An item that is left to `cbor`."""


class ItemReader(ValueReader):
    """Reads items of CBOR, and writes the values that they are to `out`."""

    out: Any
    """A `ValueWriter`."""
    argument: int
    """The number in the head that was read last."""

    def head(self) -> int:
        """Read the head of an item; set `argument` and return the major type."""
        pos = self.take(1)
        first = self.buf[pos]
        detail = first & DETAIL
        if detail < ONE_BYTE:
            self.argument = detail
        elif detail == ONE_BYTE:
            self.argument = self.buf[self.take(1)]
        elif detail == TWO_BYTES:
            pos = self.take(2)
            self.argument = self.buf[pos] << 8 | self.buf[pos + 1]
        elif detail == FOUR_BYTES:
            self.argument = self.u32(self.take(4))
        elif detail == EIGHT_BYTES:
            pos = self.take(8)
            high = self.u32(pos)
            low = self.u32(pos + 4)
            self.argument = high * _WORD + low
        else:
            raise RareError
        return first & MAJOR

    def content(self) -> int:
        """Pass over the bytes of a string, or nothing; return where they begin."""
        if self.argument > self.end - self.pos:
            raise RareError
        return self.take(self.argument)

    def item(self) -> None:
        """Read one item."""
        pos = self.pos
        major = self.head()
        if major == MAJOR_TEXT:
            self.text(0xA1)
        elif major in {MAJOR_UNSIGNED, MAJOR_NEGATIVE}:
            self.integer(KIND_LONG, major)
        elif major == MAJOR_BYTES:
            self.text(0xA0)
        elif major == MAJOR_ARRAY:
            self.values(0xC0)
        elif major == MAJOR_TAG:
            self.tagged()
        elif major == MAJOR_SIMPLE:
            self.simple(pos)
        else:
            raise RareError

    def integer(self, kind: int, major: int) -> None:
        """Write an integer of this kind."""
        if major == MAJOR_UNSIGNED:
            self.out.integer(kind, self.argument)
        elif major == MAJOR_NEGATIVE and self.argument <= _INT64_MAX:
            number = self.argument
            self.out.integer(kind, -1 - number)
        else:
            raise RareError

    def text(self, code: int) -> None:
        """Write a binary, string or symbol; the code is that of its short form."""
        pos = self.content()
        size = self.pos - pos
        if code != 0xA0:
            octets = self.buf[pos : self.pos]
            if not octets.isascii():
                if code == 0xA3:
                    raise RareError
                octets.decode("utf-8")
        if size < 256:
            self.out.pair(code, size)
        elif size < _WORD:
            self.out.number(code + 0x10, 4, size)
        else:
            raise RareError
        self.out.copy(self.buf, pos, self.pos)

    def values(self, code: int) -> None:
        """Write a list, or a map of keys and values in turn; the code is that of its short form."""
        if self.argument > self.end - self.pos:
            raise RareError
        count = self.argument
        if code == 0xC0 and count == 0:
            self.out.octet(0x45)
        else:
            mark = self.out.open()
            for _ in range(count):
                self.item()
            self.out.close(mark, code, count)

    def tagged(self) -> None:
        """Write what a tag tells the type of."""
        tag = self.argument
        pos = self.pos
        major = self.head()
        if _INTEGERS <= tag <= _LAST_INTEGER:
            self.integer(_KINDS[tag - _INTEGERS], major)
        elif tag == _SYMBOL and major == MAJOR_TEXT:
            self.text(0xA3)
        elif tag == _MAP and major == MAJOR_ARRAY and self.argument & 1 == 0:
            self.values(0xC1)
        elif tag == _DESCRIBED and major == MAJOR_ARRAY and self.argument == 2:
            self.out.enter()
            self.out.octet(0)
            self.item()
            self.item()
            self.out.depth -= 1
        elif major == MAJOR_BYTES and tag in _BITS:
            code = _BITS[tag].get(self.argument, 0)
            if code == 0:
                raise RareError
            self.out.octet(code)
            pos = self.content()
            self.out.copy(self.buf, pos, self.pos)
        elif tag == _FLOAT and major == MAJOR_SIMPLE:
            self.single(pos)
        elif tag == _CHAR and major == MAJOR_UNSIGNED:
            number = self.argument
            if number > 0x10FFFF or number >> 11 == 0x1B:
                raise RareError
            self.out.number(0x73, 4, number)
        else:
            raise RareError

    def simple(self, pos: int) -> None:
        """Write null, a boolean, or the double whose head was here."""
        first = self.buf[pos]
        if first == ITEM_NULL:
            self.out.octet(0x40)
        elif first == ITEM_TRUE:
            self.out.octet(0x41)
        elif first == ITEM_FALSE:
            self.out.octet(0x42)
        else:
            number = self.real(pos)
            if not math.isnan(number):
                self.out.double(number)
            elif first == ITEM_HALF and self.argument == _HALF_NAN:
                self.out.add(_NAN)
            else:
                raise RareError

    def single(self, pos: int) -> None:
        """Write the float whose head was here, if 32 bits hold it."""
        number = self.real(pos)
        octets = _SINGLE_NAN
        if not math.isnan(number):
            try:
                octets = _SINGLE.pack(number)
            except OverflowError:
                raise RareError from None
            if _SINGLE.unpack(octets)[0] != number:
                raise RareError
        self.out.octet(0x72)
        self.out.add(octets)

    def real(self, pos: int) -> float:
        """Return the number whose head was here."""
        first = self.buf[pos]
        if first == ITEM_DOUBLE:
            return self.f64(pos + 1)
        if first == ITEM_SINGLE:
            return float(_SINGLE.unpack_from(self.buf, pos + 1)[0])
        if first == ITEM_HALF:
            return float(_HALF.unpack_from(self.buf, pos + 1)[0])
        raise RareError

    def message(self) -> int:
        """Write the sections of a message; return its message-format."""
        self.head()  # the tag
        if self.head() != MAJOR_ARRAY or self.argument == 0:
            raise RareError
        count = self.argument
        if self.head() != MAJOR_UNSIGNED or self.argument >= _WORD:
            raise RareError
        message_format = self.argument
        for _ in range(count - 1):
            if self.head() != MAJOR_ARRAY or self.argument != 2 or self.head() != MAJOR_UNSIGNED:
                raise RareError
            if not _FIRST <= self.argument < _FIRST + len(_HEADS):
                raise RareError
            self.out.add(_HEADS[self.argument - _FIRST])
            self.item()
        return message_format


def octets_of_cbor(data: bytes) -> Any:
    """Return the bytes of the message or value that CBOR holds, or None where `cbor` has to.

    Returns:
        The bytes, and the message-format of a message, None of a value.
    """
    reader = ItemReader.__new__(ItemReader)
    reader.begin(data, 0, UNLIMITED)
    reader.out = ValueWriter.__new__(ValueWriter)
    message_format: Any = None
    try:
        if reader.head() == MAJOR_TAG and reader.argument == _MESSAGE:
            reader.pos = 0
            message_format = reader.message()
        else:
            reader.pos = 0
            reader.item()
    except READ_FAULTS:
        return None
    except (RareError, ValueError):
        return None
    if reader.pos != len(data):
        return None
    return reader.out.finish(), message_format
