# cython: language_level=3, boundscheck=True, wraparound=False, annotation_typing=False
"""CBOR from the bytes of values, each value visited once.

Runs as it is, and compiled with the C types of `_cbor_octets.pxd`. What is rare, such as arrays and
what breaks rules, is left to `cbor`.
"""

from __future__ import annotations

import math
import struct
from typing import Any

from amqp10msg._core.codes import (
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
from amqp10msg._core.twin import Output
from amqp10msg._core.value_reader import READ_FAULTS, ValueReader
from amqp10msg.limits import UNLIMITED
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
from amqp10msg.notation.type_names import INTEGERS, WIDTHS
from amqp10msg.sections import KINDS

__all__ = ["cbor_message", "cbor_octets"]

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
            self.text(code, 0x60)
        elif KIND_UBYTE <= kind <= KIND_LONG or kind == KIND_TIMESTAMP:
            if _TAGS[kind]:
                self.head(0xC0, _TAGS[kind])
            self.integer(int(self.number(code)))
        elif kind == KIND_SYMBOL:
            self.head(0xC0, _SYMBOL)
            self.text(code, 0x60)
        elif kind == KIND_NULL:
            self.out.octet(0xF6)
        elif kind == KIND_BOOLEAN:
            self.out.octet(0xF5 if self.read(code) else 0xF4)
        elif kind == KIND_BINARY:
            self.text(code, 0x40)
        elif kind == KIND_MAP:
            self.head(0xC0, _MAP)
            self.compound(code)
        elif kind == KIND_LIST and code == 0x45:
            self.out.octet(0x80)
        elif kind == KIND_LIST:
            self.compound(code)
        elif kind in {KIND_FLOAT, KIND_DOUBLE}:
            self.real(kind)
        elif code == 0:
            self.enter(pos)
            self.head(0xC0, _DESCRIBED)
            self.out.octet(0x82)
            self.item()
            self.item()
            self.depth += 1
        elif kind == KIND_CHAR:
            self.head(0xC0, _CHAR)
            self.integer(ord(self.read(code)))
        elif _WIDTHS[kind]:
            self.head(0xC0, _TAGS[kind])
            self.head(0x40, _WIDTHS[kind])
            pos = self.take(_WIDTHS[kind])
            self.out.copy(self.buf, pos, self.pos)
        else:
            raise RareError

    def head(self, major: int, number: int) -> None:
        """Write the head of an item: its major type, in the upper bits, and a number."""
        out = self.out
        if number < 24:
            out.octet(major | number)
        elif number < 0x100:
            out.number(major | 24, 1, number)
        elif number < 0x10000:
            out.number(major | 25, 2, number)
        elif number < 0x100000000:
            out.number(major | 26, 4, number)
        else:
            out.number(major | 27, 8, number)

    def integer(self, number: Any) -> None:
        """Write an integer."""
        if number >= 0:
            self.head(0, number)
        else:
            self.head(0x20, -1 - number)

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
            self.head(0xC0, _FLOAT)
        if not math.isnan(number):
            self.out.add(shortest(number, form, octets))
        # CBOR's one NaN is the one without a payload.
        elif octets.rstrip(b"\x00") == (b"\x7f\xc0" if form == 1 else b"\x7f\xf8"):
            self.out.add(_NAN)
        else:
            if kind == KIND_DOUBLE:
                self.head(0xC0, _DOUBLE)
            self.head(0x40, size)
            self.out.add(octets)

    def compound(self, code: int) -> None:
        """Write the values of a list, or keys and values of a map in turn."""
        start = self.pos - 1
        stop = self.open(code)
        self.enter(start)
        outer = self.end
        self.end = stop
        count = self.count
        self.head(0x80, count)
        for _ in range(count):
            self.item()
        self.close(stop, outer)

    def sections(self) -> int:
        """Write the sections of a message; return how many there are."""
        count = 0
        while self.pos < self.end:
            pos = self.pos
            if self.end - pos < 3 or self.buf[pos] != 0 or self.buf[pos + 1] != 0x53:
                raise RareError
            code = self.buf[pos + 2]
            if not _FIRST <= code <= _LAST:
                raise RareError
            self.pos = pos + 3
            self.out.octet(0x82)
            self.head(0, code)
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
        reader.head(0xC0, _MESSAGE)
        reader.head(0x80, 1 + count)
        reader.head(0, message_format)
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
