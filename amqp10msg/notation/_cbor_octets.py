# cython: language_level=3, boundscheck=True, wraparound=False, annotation_typing=False
"""CBOR from the bytes of values, each value visited once.

Runs as it is, and compiled with the C types of `_cbor_octets.pxd`. What is rare, such as arrays and
what breaks rules, is left to `cbor`.
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
    EIGHT_BYTES,
    FOUR_BYTES,
    ITEM_FALSE,
    ITEM_NULL,
    ITEM_TRUE,
    MAJOR_ARRAY,
    MAJOR_BYTES,
    MAJOR_NEGATIVE,
    MAJOR_TAG,
    MAJOR_TEXT,
    MAJOR_UNSIGNED,
    ONE_BYTE,
    TWO_BYTES,
)
from amqp10msg.notation.type_names import INTEGERS, WIDTHS
from amqp10msg.sections import KINDS
from amqp10msg.wire.kernel.codes import (
    KIND_BINARY,
    KIND_BOOLEAN,
    KIND_CHAR,
    KIND_DECIMAL32,
    KIND_DECIMAL64,
    KIND_DECIMAL128,
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
)
from amqp10msg.wire.kernel.twin import Output
from amqp10msg.wire.kernel.value_reader import READ_FAULTS, ValueReader
from amqp10msg.wire.limits import UNLIMITED

#: By kind: the tag, 0 for what is CBOR's own; and of what is written by its bits, their size.
_TAGS = [0] * 256
_WIDTHS = [0] * 256
for _place, _name in enumerate(INTEGERS):
    _TAGS[TYPE_IDS[_name]] = _FIRST_TAG + _place
for _name, _width in WIDTHS.items():
    _WIDTHS[TYPE_IDS[_name]] = _width
_TAGS[KIND_UUID] = UUID
_TAGS[KIND_DECIMAL32] = _TAGS[KIND_DECIMAL64] = _TAGS[KIND_DECIMAL128] = DECIMAL

_MAP, _SYMBOL, _CHAR, _DESCRIBED, _MESSAGE = MAP, SYMBOL, CHAR, DESCRIBED, MESSAGE
_FLOAT, _DOUBLE = FLOAT, DOUBLE
_FIRST = KINDS[0].code
_LAST = _FIRST + len(KINDS) - 1
_FORMS = [struct.Struct(f">{letter}") for letter in "efd"]
_HEADS = [b"\xf9", b"\xfa", b"\xfb"]
_NAN = b"\xf9\x7e\x00"


class RareError(Exception):
    """A value that is left to `cbor`."""


class CborReader(ValueReader):
    """Reads values, and writes them as CBOR to `out`."""

    out: Any
    """An `Output`."""

    def item(self) -> None:
        """Write one value."""
        pos = self.pos
        if pos >= self.end:
            raise self.truncated(pos, 1)
        code = self.buf[pos]
        kind = KIND_OF[code]
        self.pos = pos + 1
        if kind == KIND_STRING:
            self.text(code, MAJOR_TEXT)
        elif KIND_UBYTE <= kind <= KIND_LONG or kind == KIND_TIMESTAMP:
            if _TAGS[kind]:
                self.head(MAJOR_TAG, _TAGS[kind])
            self.integer(int(self.number(code)))
        elif kind == KIND_SYMBOL:
            self.head(MAJOR_TAG, _SYMBOL)
            self.text(code, MAJOR_TEXT)
        elif kind == KIND_NULL:
            self.out.octet(ITEM_NULL)
        elif kind == KIND_BOOLEAN:
            self.out.octet(ITEM_TRUE if self.read(code) else ITEM_FALSE)
        elif kind == KIND_BINARY:
            self.text(code, MAJOR_BYTES)
        elif kind == KIND_MAP:
            self.head(MAJOR_TAG, _MAP)
            self.compound(code)
        elif kind == KIND_LIST and code == 0x45:
            self.out.octet(MAJOR_ARRAY)
        elif kind == KIND_LIST:
            self.compound(code)
        elif kind in {KIND_FLOAT, KIND_DOUBLE}:
            self.real(kind)
        elif code == 0:
            self.enter(pos)
            self.head(MAJOR_TAG, _DESCRIBED)
            self.out.octet(MAJOR_ARRAY | 2)
            self.item()
            self.item()
            self.depth += 1
        elif kind == KIND_CHAR:
            self.head(MAJOR_TAG, _CHAR)
            self.integer(ord(self.read(code)))
        elif _WIDTHS[kind]:
            self.head(MAJOR_TAG, _TAGS[kind])
            self.head(MAJOR_BYTES, _WIDTHS[kind])
            pos = self.take(_WIDTHS[kind])
            self.out.copy(self.buf, pos, self.pos)
        else:
            raise RareError

    def head(self, major: int, number: int) -> None:
        """Write the head of an item: its major type, in the upper bits, and a number."""
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
        """Write the bytes of a binary, string or symbol."""
        pos = self.span(code)
        self.head(major, self.pos - pos)
        self.out.copy(self.buf, pos, self.pos)

    def real(self, kind: int) -> None:
        """Write a float or a double: the shortest form that holds it, or bits of a NaN."""
        form = 1 if kind == KIND_FLOAT else 2
        size = _WIDTHS[kind]
        pos = self.take(size)
        octets = self.buf[pos : self.pos]
        number = _FORMS[form].unpack(octets)[0]
        if kind == KIND_FLOAT:
            self.head(MAJOR_TAG, _FLOAT)
        if not math.isnan(number):
            self.out.add(shortest(number, form, octets))
        # CBOR's one NaN is the one without a payload.
        elif octets.rstrip(b"\x00") == (b"\x7f\xc0" if form == 1 else b"\x7f\xf8"):
            self.out.add(_NAN)
        else:
            if kind == KIND_DOUBLE:
                self.head(MAJOR_TAG, _DOUBLE)
            self.head(MAJOR_BYTES, size)
            self.out.add(octets)

    def compound(self, code: int) -> None:
        """Write the values of a list, or keys and values of a map in turn."""
        outer = self.descend(code)
        count = self.count
        self.head(MAJOR_ARRAY, count)
        for _ in range(count):
            self.item()
        self.ascend(outer)

    def sections(self) -> int:
        """Write the sections of a message; return how many there are."""
        count = 0
        while self.pos < self.end:
            code = self.descriptor()
            if not _FIRST <= code <= _LAST:
                raise RareError
            self.out.octet(MAJOR_ARRAY | 2)
            self.head(MAJOR_UNSIGNED, code)
            self.item()
            count += 1
        return count


def shortest(number: Any, form: int, octets: bytes) -> bytes:
    """Return the shortest item that holds a number, of the form of its octets at most."""
    for i in range(form):
        try:
            short: bytes = _FORMS[i].pack(number)
        except OverflowError:
            continue
        if _FORMS[i].unpack(short)[0] == number:
            return _HEADS[i] + short
    return _HEADS[form] + octets


def cbor_message(octets: bytes, message_format: int) -> Any:
    """Write the bytes of a message, or None where `cbor` has to."""
    reader = CborReader.__new__(CborReader)
    reader.begin(octets, 0, UNLIMITED)
    reader.out = Output.__new__(Output)
    try:
        count = reader.sections()
        sections = reader.out.finish()
        reader.head(MAJOR_TAG, _MESSAGE)
        reader.head(MAJOR_ARRAY, 1 + count)
        reader.head(MAJOR_UNSIGNED, message_format)
    except READ_FAULTS:
        return None
    except RareError:
        return None
    return reader.out.finish() + sections


def cbor_octets(octets: bytes) -> Any:
    """Write the bytes of one value, or None where `cbor` has to."""
    reader = CborReader.__new__(CborReader)
    reader.begin(octets, 0, UNLIMITED)
    reader.out = Output.__new__(Output)
    try:
        reader.item()
    except READ_FAULTS:
        return None
    except RareError:
        return None
    return reader.out.finish()
