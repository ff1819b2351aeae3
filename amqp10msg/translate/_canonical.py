# cython: language_level=3, boundscheck=True, wraparound=False, annotation_typing=False
"""Whether a decoded message stands on the wire as this library writes it: `is_canonical`.

Runs as it is, and compiled with the C types of `_canonical.pxd`. It compares the octets with the
values in place, at a third of the time that writing the message takes. What it does not know is
written, so that there is one place where encodings are chosen.
"""

from __future__ import annotations

import struct
from typing import Any

import attrs

from amqp10msg import _core
from amqp10msg._core.twin import Layout
from amqp10msg.message import Message
from amqp10msg.primitives import Int, Symbol, UInt
from amqp10msg.sections import (
    ApplicationProperties,
    Data,
    Header,
    MessageAnnotations,
    Properties,
)

__all__ = ["is_canonical"]

_COMPILED = not __file__.endswith(".py")

_MESSAGE = (
    "header",
    "message_annotations",
    "properties",
    "application_properties",
    "body",
    "delivery_annotations",
    "footer",
)
_SECTIONS = Layout(Message, _MESSAGE)
_HEADER = Layout(Header, [field.name for field in attrs.fields(Header)])
_PROPERTIES = Layout(Properties, [field.name for field in attrs.fields(Properties)])
_HEADER_KINDS = b"bBibi"
_HEADER_DEFAULTS = (False, 4, None, False, 0)
#: How a plain value of each field is written: s string, o binary, y symbol, t timestamp, i uint.
_PROPERTY_KINDS = b"sossssyyttsis"
_NO_DEFAULTS = (None,) * len(_PROPERTY_KINDS)
_MOST = 2**63
_pack_f64 = struct.Struct(">d").pack
_Symbol = Symbol
_Int = Int
_UInt = UInt


class Comparison:
    """A cursor over the octets of a message.

    The methods go on behind what they compare, and give False where something differs or is of
    another form than the usual ones.
    """

    def __init__(self, wire: bytes) -> None:
        self.wire = wire
        self.pos = 0

    def octet(self, octet: int) -> bool:
        """Compare one octet."""
        if self.pos >= len(self.wire) or self.wire[self.pos] != octet:
            return False
        self.pos += 1
        return True

    def octets(self, octets: bytes) -> bool:
        """Compare octets as such."""
        if not self.wire.startswith(octets, self.pos):
            return False
        self.pos += len(octets)
        return True

    def text(self, code: int, text: Any) -> bool:
        """Compare ASCII text of 255 characters at most, a str or a Symbol."""
        if not _COMPILED:
            return (
                text.isascii()
                and len(text) < 256
                and self.octets(bytes((code, len(text))) + text.encode("ascii"))
            )
        # The octets of ASCII text are those that the str itself holds.
        size = text_size(text)  # type: ignore[name-defined]  # noqa: F821
        if not 0 <= size <= 255 or size + 2 > len(self.wire) - self.pos:
            return False
        known: Any = self.wire
        place = known + self.pos
        if (place[0] & 255) != code or (place[1] & 255) != size:
            return False
        chars = PyUnicode_AsUTF8(text)  # type: ignore[name-defined]  # noqa: F821
        if memcmp(place + 2, chars, size):  # type: ignore[name-defined]  # noqa: F821
            return False
        self.pos += size + 2
        return True

    def binary(self, octets: bytes) -> bool:
        """Compare a binary."""
        size = len(octets)
        if size < 256:
            return self.octet(0xA0) and self.octet(size) and self.octets(octets)
        return self.octet(0xB0) and self.number(4, size) and self.octets(octets)

    def number(self, width: int, number: int) -> bool:
        """Compare a number of this many octets."""
        if width > len(self.wire) - self.pos:
            return False
        if not _COMPILED:
            return self.octets((number & (1 << 8 * width) - 1).to_bytes(width, "big"))
        known: Any = self.wire
        if not same_number(known + self.pos, width, number):  # type: ignore[name-defined]  # noqa: F821
            return False
        self.pos += width
        return True

    def integer(self, small: int, wide: int, width: int, value: Any) -> bool:
        """Compare an int that has a short form from -128, or from 0 where the wide one is 0x70."""
        try:
            number = value  # a C integer of 64 bits where this is compiled
        except OverflowError:
            return False
        if wide == 0x70:
            if number == 0:
                return self.octet(0x43)
            if not 0 < number <= 0xFFFF_FFFF:
                return False
            if number < 256:
                return self.octet(small) and self.octet(number)
        elif -128 <= number < 128:
            return self.octet(small) and self.octet(number & 255)
        return self.octet(wide) and self.number(width, number)

    def value(self, value: Any) -> bool:
        """Compare a value of a map."""
        kind = type(value)
        if kind is str:
            return self.text(0xA1, value)
        if kind is bool:
            return self.octet(0x41 if value else 0x42)
        if kind is int:
            return self.integer(0x55, 0x81, 8, value)
        if kind is _Int:
            return self.integer(0x54, 0x71, 4, value)
        if kind is float:
            return self.octet(0x82) and self.float(value)
        if kind is bytes:
            return self.binary(value)
        if kind is _UInt:
            return self.integer(0x52, 0x70, 4, value)
        if kind is _Symbol:
            return self.text(0xA3, value)
        return False

    def float(self, number: float) -> bool:
        """Compare a double."""
        if not _COMPILED:
            return self.octets(_pack_f64(number))
        octets: Any  # of C, eight of them
        PyFloat_Pack8(number, octets, 0)  # type: ignore[name-defined]  # noqa: F821
        if len(self.wire) - self.pos < 8:
            return False
        known: Any = self.wire
        if memcmp(known + self.pos, octets, 8):  # type: ignore[name-defined]  # noqa: F821
            return False
        self.pos += 8
        return True

    def head(self, code: int, symbol: int) -> int:
        """Go beyond descriptor and head of a compound; give where its size stands, or -1."""
        if not (self.octet(0) and self.octet(0x53) and self.octet(code)):
            return -1
        place = self.pos
        if self.octet(symbol):
            self.pos = place + 3
        elif self.octet(symbol + 0x10):
            self.pos = place + 9
        else:
            return -1
        return place

    def tail(self, place: int, count: int) -> bool:
        """Compare size and count of a compound that has been compared, and the choice of form."""
        end = self.pos
        self.pos = place + 1
        if self.wire[place] < 0xD0:
            size = end - place - 3
            if not (size < 255 and count < 256 and self.octet(size + 1) and self.octet(count)):
                return False
        else:
            size = end - place - 9
            if size < 255 and count < 256:
                return False
            if not (self.number(4, size + 4) and self.number(4, count)):
                return False
        self.pos = end
        return True

    def fields(self, code: int, kinds: bytes, values: Any, defaults: Any) -> bool:
        """Compare a section that is a list."""
        place = self.head(code, 0xC0)
        if place < 0:
            return False
        count = 0
        for index in range(len(kinds)):
            value = values[index]
            if value is None:
                continue
            kind = type(value)
            default = defaults[index]
            # A default of another type is written.
            if default is not None and kind is type(default) and value == default:
                continue
            while count < index:
                if not self.octet(0x40):
                    return False
                count += 1
            count += 1
            if not self.field(kinds[index], kind, value):
                return False
        return count > 0 and self.tail(place, count)

    def field(self, form: int, kind: Any, value: Any) -> bool:
        """Compare the value of a field, of the type that its declaration says, or plain."""
        if form == 0x73:  # s
            return kind is str and self.text(0xA1, value)
        if form == 0x79:  # y
            return (kind is _Symbol or kind is str) and self.text(0xA3, value)
        if form == 0x6F:  # o
            return kind is bytes and self.binary(value)
        if form == 0x62:  # b
            return kind is bool and self.octet(0x41 if value else 0x42)
        if kind is not int or value < 0:
            return False
        if form == 0x69:  # i
            return self.integer(0x52, 0x70, 4, value)
        if form == 0x42:  # B
            return value < 256 and self.octet(0x50) and self.octet(value)
        return value < _MOST and self.octet(0x83) and self.number(8, value)

    def mapping(self, code: int, symbol: int, section: Any) -> bool:
        """Compare a section that is a map; `symbol` is the code of its keys."""
        place = self.head(code, 0xC1)
        if place < 0:
            return False
        plain = as_dict(section) if _COMPILED else section  # type: ignore[name-defined]  # noqa: F821
        for key, value in plain.items():
            kind = type(key)
            if not (kind is str or (kind is _Symbol and symbol == 0xA3)):
                return False
            if not (self.text(symbol, key) and self.value(value)):
                return False
        return self.tail(place, 2 * len(plain))

    def message(self, message: Any) -> bool:
        """Compare a message with all octets."""
        header, annotations, properties, application, body, delivery, footer = _SECTIONS.values(
            message
        )
        if delivery is not None or footer is not None or type(body) is not Data:
            return False
        if header is not None and not (
            type(header) is Header
            and self.fields(0x70, _HEADER_KINDS, _HEADER.values(header), _HEADER_DEFAULTS)
        ):
            return False
        if annotations is not None and not (
            type(annotations) is MessageAnnotations and self.mapping(0x72, 0xA3, annotations)
        ):
            return False
        if properties is not None and not (
            type(properties) is Properties
            and self.fields(0x73, _PROPERTY_KINDS, _PROPERTIES.values(properties), _NO_DEFAULTS)
        ):
            return False
        if application is not None and not (
            type(application) is ApplicationProperties and self.mapping(0x74, 0xA1, application)
        ):
            return False
        octets = body.data
        return (
            type(octets) is bytes
            and self.octets(b"\x00\x53\x75")
            and self.binary(octets)
            and self.pos == len(self.wire)
        )


def is_canonical(message: Message, wire: Any) -> bool:
    """Tell whether `wire` is what the message would be encoded to were it built anew."""
    # In the interpreter writing is quicker.
    if _COMPILED and Comparison(wire).message(message):
        return True
    return bool(_core.write_message(message) == wire)
