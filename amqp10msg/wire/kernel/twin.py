"""Bytes in and out and the attributes of objects, in Python: `twin.pyx` says the same in C.

The compiled kernel takes that module, the pure one this; they have the same names, and the same
tests run on both. No other module knows whether it is compiled.
"""

from __future__ import annotations

import struct
from operator import attrgetter
from typing import Any, Self

from amqp10msg.wire.kernel.codes import (
    FIRST_CODE,
    FOLLOWERS,
    IS_STRING,
    KIND_BOOLEAN,
    KIND_DOUBLE,
    KIND_SYMBOL,
    KINDS,
    MESSAGE,
    OF_OCTET,
    PLACE_BODY,
    PLACE_FOOTER,
    SECTIONS,
    SHAPE_ANNOTATIONS,
    SHAPE_BINARY,
    SHAPE_COMPOSITE,
    SHAPE_PROPERTIES,
    SHORT_SIZE,
    SIGNED,
    SMALL_CODES,
    STEPS,
    WIDE_CODES,
    WIDTHS,
    ZERO_CODES,
)
from amqp10msg.wire.kernel.fill import filler
from amqp10msg.wire.primitives import Int, Symbol, Timestamp, UInt

#: Whether the kernel that runs is the compiled one.
COMPILED = False

_unpack_u32 = struct.Struct(">I").unpack_from
_unpack_i32 = struct.Struct(">i").unpack_from
_unpack_i64 = struct.Struct(">q").unpack_from
_unpack_f64 = struct.Struct(">d").unpack_from
_pack_f64 = struct.Struct(">Bd").pack
_pack_real = struct.Struct(">d").pack
_pack_head32 = struct.Struct(">BII").pack


class Kept:
    """What was made of short encodings before, by their bytes: making it costs more than this.

    A full table starts again, so a peer that invents symbols or headers makes this useless for
    itself and no larger than 4,096 entries of some 240 and 500 bytes, 1 and 2 MB.
    """

    most = 4096
    longest = 64

    def __init__(self) -> None:
        self.known: dict[bytes, Any] = {}

    def keep(self, octets: bytes, made: Any) -> Any:
        """Remember what these bytes stand for, if they are few, and return it."""
        if 0 < len(octets) <= self.longest:
            if len(self.known) >= self.most:
                self.known.clear()
            self.known[octets] = made
        return made


SYMBOLS = Kept()
# The lists of their fields: few headers say more than a durability and a ttl.
HEADERS = Kept()


def _symbol(octets: bytes) -> Any:
    """Return the symbol of these bytes; UnicodeDecodeError where they are not ASCII."""
    return SYMBOLS.known.get(octets) or SYMBOLS.keep(
        octets, Symbol.__new__(Symbol, octets.decode("ascii"))
    )


def declare_section(*_: Any) -> None:
    """Have cursors read a kind of section the quick way: here they look at its `Spec`."""


def declare_message(_: Any) -> None:
    """Have cursors make messages: here they look at `MESSAGE`."""


def declare_decode(_: Any) -> None:
    """Have ``decode`` of a class looked up quickly by threads: here, it stays as it is."""


# Bytes outside the input, and bytes that are not text.
_FAULTS = (IndexError, struct.error, UnicodeDecodeError)


class Keys:
    """Keys that are looked for in the bytes of a map, by their content."""

    def __init__(self, places: dict[bytes, int]) -> None:
        self.places = places

    def place(self, buf: bytes, start: int, stop: int) -> int:
        """Return the place of the key that stands there, -1 where it is none of them."""
        return self.places.get(buf[start:stop], -1)


# What the quick way does with a section; a composite, application properties and annotations are
# read by their shapes, 0 to 2.
_GIVE_UP, _READ_DATA, _PASS_OVER = -1, 3, 4
# More values in compounds than this are left to the reader, who counts them.
_MOST_VALUES = 10_000
_ABSENT = object()
_ODD = object()


def _after(buf: bytes, at: int) -> int:
    """Return where a value ends that is not described, -1 where it is odd."""
    step = STEPS[buf[at]]
    if step < SHORT_SIZE:
        return at + step if step else -1
    return at + 2 + buf[at + 1] if step == SHORT_SIZE else at + 5 + _unpack_u32(buf, at + 1)[0]


def _field_at(buf: bytes, at: int, end: int, code: int) -> Any:
    """Return the value of a field of a usual encoding."""
    if code == 0xA1 or code == 0xA3:
        return buf[at + 2 : end].decode("utf-8" if code == 0xA1 else "ascii")
    if code == 0x41 or code == 0x42:
        return code == 0x41
    if 0x50 <= code <= 0x53:
        return buf[at + 1]
    if code == 0x83:
        return _unpack_i64(buf, at + 1)[0]
    if code == 0xA0:
        return buf[at + 2 : end]
    return _unpack_u32(buf, at + 1)[0] if code == 0x70 else 0  # uint0, ulong0


def _entry_at(buf: bytes, at: int, end: int, code: int) -> Any:
    """Return the value of an entry, where `quick_mapping` takes it."""
    if code == 0xA1:
        return buf[at + 2 : end].decode("utf-8")
    if code == 0xA3:
        return _symbol(buf[at + 2 : end])
    if code == 0x41 or code == 0x42:
        return code == 0x41
    if code == 0x40:
        return None
    if 0x50 <= code <= 0x54:
        return OF_OCTET[code - 0x50][buf[at + 1]]
    if code == 0x55:
        return buf[at + 1] - 256 if buf[at + 1] > 127 else buf[at + 1]
    if code == 0x71:
        return Int.__new__(Int, _unpack_i32(buf, at + 1)[0])
    if code == 0x81:
        return _unpack_i64(buf, at + 1)[0]
    if code == 0x83:
        return Timestamp.__new__(Timestamp, _unpack_i64(buf, at + 1)[0])
    if code == 0x82:
        return _unpack_f64(buf, at + 1)[0]
    if code == 0xA0:
        return buf[at + 2 : end]
    return UInt.__new__(UInt, _unpack_u32(buf, at + 1)[0]) if code == 0x70 else _ODD


class QuickPicks:
    """Reads what is wanted of messages as nearly all are encoded, or leaves them to the reader."""

    def __init__(self, sections: list[Any], defaults: tuple[Any, ...], body: int) -> None:
        """Take what is wanted.

        Args:
            sections: for each kind None or its shape (composite, properties, annotations, or -1
                for what is not read here), the places of its fields (of those that are not wanted
                -1), their usual codes, their defaults, and the keys.
            defaults: what stands for absent values.
            body: the place of the body, or -1.
        """
        self.sections = sections
        self.defaults = defaults
        self.body = body
        self.ways = [_PASS_OVER if section is None else section[0] for section in sections]
        if body >= 0:
            self.ways[5:8] = [_READ_DATA, _GIVE_UP, _GIVE_UP]

    def pick(self, data: bytes) -> Any:
        """Return the values, or None."""
        try:
            return self.read(data)
        except _FAULTS:
            return None

    def read(self, buf: bytes) -> Any:
        """Return the values, or None."""
        found = [_ABSENT] * len(self.defaults)
        at, stop, left, seen = 0, len(buf), _MOST_VALUES, 0
        while at < stop:
            index = buf[at + 2] - 0x70
            if buf[at] != 0 or buf[at + 1] != 0x53 or not 0 <= index <= 8:
                return None
            at += 3
            close = _after(buf, at)
            if not at < close <= stop:
                return None
            way = self.ways[index]
            if way == _PASS_OVER:
                at = close
                continue
            if way == _GIVE_UP or seen >> index & 1:
                return None
            seen |= 1 << index
            code = buf[at]
            if way == _READ_DATA:
                if code != 0xA0 and code != 0xB0:
                    return None
                found[self.body] = buf[at + (2 if code == 0xA0 else 5) : close]
                at = close
                continue
            short = 0xC1 if way else 0xC0
            if code == short and close - at >= 3:
                count = buf[at + 2]
                pos = at + 3
            elif code == short + 0x10 and close - at >= 9:
                count = _unpack_u32(buf, at + 5)[0]
                pos = at + 9
            else:
                return None
            left -= count
            if left < 0 or count > close - pos:
                return None
            if way:
                at = self.read_entries(buf, pos, close, count, index, found)
            else:
                at = self.read_fields(buf, pos, close, count, index, found)
            if at != close:
                return None
        return tuple(
            [
                default if value is _ABSENT else value
                for value, default in zip(found, self.defaults, strict=True)
            ]
        )

    def read_fields(
        self, buf: bytes, pos: int, close: int, count: int, index: int, found: list[Any]
    ) -> int:
        """Read the fields of a composite; return where they end, -1 where one is odd."""
        _, places, usual, own, _ = self.sections[index]
        if count > len(own):
            return -1
        for i, place in enumerate(places):
            if i < count:
                code = buf[pos]
                end = _after(buf, pos)
                if not pos < end <= close:
                    return -1
                if place >= 0 and code != 0x40:
                    if not usual[i << 8 | code]:
                        return -1
                    found[place] = _field_at(buf, pos, end, code)
                pos = end
            if place >= 0 and found[place] is _ABSENT and own[i] is not None:
                found[place] = own[i]
        return pos if count <= len(places) else close

    def read_entries(
        self, buf: bytes, pos: int, close: int, count: int, index: int, found: list[Any]
    ) -> int:
        """Read the entries of a map; return where they end, -1 where one is odd."""
        way, _, _, _, keys = self.sections[index]
        if count & 1:
            return -1
        key_code = 0xA1 if way == 1 else 0xA3
        wanted = keys.places
        for _ in range(count >> 1):
            begin = pos + 2
            pos = begin + buf[pos + 1]
            if buf[begin - 2] != key_code or pos >= close:
                return -1
            place = wanted.get(buf[begin:pos], -1)
            end = _after(buf, pos)
            if not pos < end <= close:
                return -1
            if place >= 0:
                if found[place] is not _ABSENT:
                    return -1
                found[place] = _entry_at(buf, pos, end, buf[pos])
                if found[place] is _ODD:
                    return -1
            pos = end
        return pos


class Cursor:
    """A position in bytes. What takes positions checks them: IndexError or struct.error."""

    buf: bytes
    pos: int
    end: int
    count: int
    first: int
    depth: int
    items: int
    zero_width: int
    lenient: bool = False
    repairs_text: bool = False

    def u32(self, pos: int) -> int:
        """Return the unsigned number of the four bytes here."""
        number: int = _unpack_u32(self.buf, pos)[0]
        return number

    def i64(self, pos: int) -> int:
        """Return the signed number of the eight bytes here."""
        number: int = _unpack_i64(self.buf, pos)[0]
        return number

    def f64(self, pos: int) -> float:
        """Return the double of the eight bytes here."""
        number: float = _unpack_f64(self.buf, pos)[0]
        return number

    def octets(self, start: int, stop: int) -> bytes:
        """Copy bytes out."""
        return self.buf[start:stop]

    def holds(self, start: int, stop: int, other: bytes, at: int) -> bool:
        """Return whether the bytes here are those of others from `at` on."""
        return self.buf[start:stop] == other[at : at + stop - start]

    def passed(self, count: int) -> bool:
        """Pass over some values, none of them described; False, and nothing, where one is odd."""
        buf = self.buf
        pos = self.pos
        try:
            for _ in range(count):
                step = STEPS[buf[pos]]
                if step < SHORT_SIZE:
                    if step == 0:
                        return False
                    pos += step
                elif step == SHORT_SIZE:
                    pos += 2 + buf[pos + 1]
                else:
                    pos += 5 + _unpack_u32(buf, pos + 1)[0]
        except (IndexError, struct.error):
            return False
        if pos > self.end:
            return False
        self.pos = pos
        return True

    def symbol(self, start: int, stop: int) -> Any:
        """Return the symbol of these bytes; UnicodeDecodeError where they are not ASCII."""
        return _symbol(self.buf[start:stop])

    def octet_value(self, code: int, octet: int) -> Any:
        """Return the value of a format code from 0x50 to 0x54 and the byte after it."""
        return OF_OCTET[code - 0x50][octet]

    def read_message(self, cls: Any, message_format: int) -> Any:
        """Read the sections of a message into an instance of this class."""
        buf = self.buf
        # In the order of the attributes: by place, then format, bytes and leniency.
        found: list[Any]
        found = [None, None, None, None, None, None, None, message_format, buf, False]
        last = -1
        followers = FOLLOWERS[0]
        several = False
        end = self.end
        while self.pos < end:
            start = self.pos
            if (
                end - start > 2
                and buf[start + 1] == 0x53
                and followers[buf[start + 2]]
                and buf[start] == 0
            ):
                index = buf[start + 2] - FIRST_CODE
                self.pos = start + 3
            else:
                places = sum(1 << i for i in range(PLACE_FOOTER + 1) if found[i] is not None)
                index = self.odd_section(last, places, start)
            last = index
            spec = SECTIONS[index]
            followers = spec.followers
            shape = spec.shape
            if shape == SHAPE_COMPOSITE:
                section = self.quick_fields(spec.layout, spec.usual, spec.defaults, index == 0)
            elif shape == SHAPE_PROPERTIES:
                section = self.quick_mapping(spec.cls, 0xA1)
            elif shape == SHAPE_ANNOTATIONS:
                section = self.quick_mapping(spec.cls, 0xA3)
            elif shape == SHAPE_BINARY:
                section = self.quick_data(spec.layout)
            else:
                section = None
            if section is None:
                section = self.other_section(index)
            if not spec.is_body or found[PLACE_BODY] is None:
                found[spec.place] = section
            elif several:
                found[PLACE_BODY].append(section)
            else:
                found[PLACE_BODY] = [found[PLACE_BODY], section]
                several = True
        made = cls.__new__(cls)
        MESSAGE[0].fill(made, found)
        return made

    def odd_section(self, last: int, places: int, start: int) -> int:
        raise NotImplementedError

    def other_section(self, index: int) -> Any:
        raise NotImplementedError

    def wrapped(self, index: int, value: Any) -> Any:
        """Return the body section that holds a value."""
        return SECTIONS[index].layout.build([value])

    # Sections in, the quick way: these take the encodings that nearly every message is made of.
    # They return what `Reader` returns; where anything is out of the ordinary they return None and
    # leave the cursor where it was, so that `Reader` reads instead and says what is wrong. Here,
    # they look only at the end whether a section came out even: what they read before is bounded by
    # the input.

    def quick_fields(self, layout: Any, usual: bytes, defaults: Any, is_header: bool) -> Any:
        """Read the list of a composite into its class, or return None."""
        start = pos = self.pos
        buf = self.buf
        values = [*defaults]
        try:
            code = buf[pos]
            if code == 0xC0:
                stop = pos + 2 + buf[pos + 1]
                count = buf[pos + 2]
                pos += 3
            elif code == 0xD0:
                stop = pos + 5 + _unpack_u32(buf, pos + 1)[0]
                count = _unpack_u32(buf, pos + 5)[0]
                pos += 9
            else:
                return None
            if stop > self.end or count > len(values) or count > self.items or self.depth < 1:
                return None
            if is_header:
                known = HEADERS.known.get(buf[start:stop])
                if known is not None:
                    self.items -= count
                    self.pos = stop
                    return layout.build(known)
            for i in range(count):
                code = buf[pos]
                if not usual[i << 8 | code]:
                    return None
                if code == 0x40:
                    pos += 1
                elif code == 0xA1:
                    at = pos + 2
                    pos = at + buf[pos + 1]
                    values[i] = buf[at:pos].decode("utf-8")
                elif code == 0xA3:
                    at = pos + 2
                    pos = at + buf[pos + 1]
                    values[i] = buf[at:pos].decode("ascii")
                elif code == 0x41:
                    values[i] = True
                    pos += 1
                elif code == 0x42:
                    values[i] = False
                    pos += 1
                elif code == 0x83:
                    values[i] = _unpack_i64(buf, pos + 1)[0]
                    pos += 9
                else:
                    at = pos
                    pos = _after(buf, at)
                    values[i] = _field_at(buf, at, pos, code)
        except _FAULTS:
            return None
        if pos != stop:
            return None
        if is_header:
            HEADERS.keep(buf[start:stop], values)
        self.items -= count
        self.pos = pos
        return layout.build(values)

    def quick_mapping(self, cls: Any, key_code: int) -> Any:
        """Read the map of a section into its class, or return None.

        Args:
            cls: the section's class, a dict.
            key_code: the constructor of its usual keys, sym8 or str8.
        """
        pos = self.pos
        buf = self.buf
        try:
            code = buf[pos]
            if code == 0xC1:
                stop = pos + 2 + buf[pos + 1]
                count = buf[pos + 2]
                pos += 3
            elif code == 0xD1:
                stop = pos + 5 + _unpack_u32(buf, pos + 1)[0]
                count = _unpack_u32(buf, pos + 5)[0]
                pos += 9
            else:
                return None
            # Every value takes a byte at least, so this bounds the count before anything is read.
            if stop > self.end or count > stop - pos or count > self.items or self.depth < 1:
                return None
            made = cls.__new__(cls)
            known = SYMBOLS.known
            for _ in range(count >> 1):
                if buf[pos] != key_code:
                    return None
                at = pos + 2
                pos = at + buf[pos + 1]
                if key_code == 0xA1:
                    key = buf[at:pos].decode("utf-8")
                else:
                    key = known.get(buf[at:pos]) or _symbol(buf[at:pos])
                code = buf[pos]
                if code == 0xA1:
                    at = pos + 2
                    pos = at + buf[pos + 1]
                    made[key] = buf[at:pos].decode("utf-8")
                elif code == 0x81:
                    made[key] = _unpack_i64(buf, pos + 1)[0]
                    pos += 9
                elif code == 0x55:
                    small = buf[pos + 1]
                    made[key] = small - 256 if small > 127 else small
                    pos += 2
                elif code == 0x41:
                    made[key] = True
                    pos += 1
                elif code == 0x42:
                    made[key] = False
                    pos += 1
                else:
                    at = pos
                    pos = _after(buf, at)
                    value = _entry_at(buf, at, pos, code)
                    if value is _ODD:
                        return None
                    made[key] = value
        except _FAULTS:
            return None
        # A count that is odd or a key that stands twice leaves the dict smaller.
        if pos != stop or len(made) << 1 != count:
            return None
        self.items -= count
        self.pos = pos
        return made

    def quick_data(self, layout: Any) -> Any:
        """Read a binary into the class of a data section, or return None."""
        pos = self.pos
        buf = self.buf
        if self.end - pos < 5:
            return None
        if buf[pos] == 0xA0:
            at = pos + 2
            pos = at + buf[pos + 1]
        elif buf[pos] == 0xB0:
            at = pos + 5
            pos = at + _unpack_u32(buf, pos + 1)[0]
        else:
            return None
        if pos > self.end:
            return None
        self.pos = pos
        return layout.build([buf[at:pos]])


class Mapping(dict[Any, Any]):
    """A dict to derive from; its subclasses look keys up as fast as a dict does."""

    __slots__ = ()


_OCTETS = [bytes((n,)) for n in range(256)]
_NULLS = [b"\x40" * n for n in range(32)]
_PAIRS = {
    code: [bytes((code, n)) for n in range(256)]
    for code in (0x50, 0x51, 0x52, 0x53, 0x54, 0x55, 0xA0, 0xA1, 0xA3, 0xC0, 0xC1, 0xE0)
}


class Output:
    """A run of bytes that grows.

    Each part is one bytes object in a list, joined at the end: in Python that is faster than
    growing a buffer, and copies large data once.
    """

    parts: list[Any]
    size: int
    depth: int = 0
    lenient: bool = False
    count: int = 0

    def __new__(cls, *_: Any) -> Self:
        """Make one that is empty; the kernel makes writers without calling their classes."""
        made = super().__new__(cls)
        made.parts = []
        made.size = 0
        return made

    def finish(self) -> bytes:
        """Return the bytes; the output is empty then."""
        made = b"".join(self.parts)
        self.parts = []
        self.size = 0
        return made

    def add(self, octets: bytes) -> None:
        """Append bytes."""
        self.parts.append(octets)
        self.size += len(octets)

    def copy(self, buf: bytes, start: int, stop: int) -> None:
        """Append a part of other bytes."""
        self.parts.append(buf[start:stop])
        self.size += stop - start

    def octet(self, octet: int) -> None:
        """Append one byte."""
        self.parts.append(_OCTETS[octet])
        self.size += 1

    def pair(self, code: int, octet: int) -> None:
        """Append a constructor and a value or length of one byte."""
        self.parts.append(_PAIRS[code][octet])
        self.size += 2

    def short_ascii(self, code: int, text: str) -> bool:
        """Append a constructor, a length and a text; False if it is long or not ASCII."""
        n = len(text)
        if n > 255 or not text.isascii():
            return False
        self.parts.append(_PAIRS[code][n])
        self.parts.append(text.encode("ascii"))
        self.size += n + 2
        return True

    def number(self, code: int, width: int, number: int) -> None:
        """Append a constructor and a number of this many bytes, in two's complement."""
        self.parts.append(_OCTETS[code] + (number & (1 << 8 * width) - 1).to_bytes(width, "big"))
        self.size += width + 1

    def double(self, number: float) -> None:
        """Append a double."""
        self.parts.append(_pack_f64(0x82, number))
        self.size += 9

    # Until the header of a compound is known, the size before it stands in its place.

    def begin_compound(self) -> int:
        """Leave room for the header of a compound; return the mark to end it with."""
        self.parts.append(self.size)
        self.parts.append(b"")
        return len(self.parts) - 2

    def end_compound(self, mark: int, code: int, count: int) -> bool:
        """Write the header of a compound; the code is that of its short form.

        False if the compound is too large for AMQP.
        """
        size = self.size - self.parts[mark]
        # The size counts the count's own bytes: one here, four in the long form.
        if size < 255 and count <= 255:
            self.parts[mark] = _PAIRS[code][size + 1]
            self.parts[mark + 1] = _OCTETS[count]
            self.size += 3
            return True
        if size > 2**32 - 5:
            return False
        self.parts[mark] = _pack_head32(code + 0x10, size + 4, count)
        self.size += 9
        return True

    def drop_compound(self, mark: int) -> None:
        """Take back a compound and what it holds."""
        self.size = self.parts[mark]
        del self.parts[mark:]

    def integer_of(self, kind: int, number: int) -> bool:
        """Append an integer in the smallest form of its kind; False where it does not fit.

        Raises:
            ValueError: there are no integers of this kind.
        """
        width = WIDTHS[kind]
        if width == 0:
            raise ValueError("no kind of integer")
        small = SMALL_CODES[kind]
        signed = SIGNED[kind]
        if small and (-128 <= number <= 127 if signed else 0 <= number <= 255):
            if number == 0 and ZERO_CODES[kind]:
                self.parts.append(_OCTETS[ZERO_CODES[kind]])
                self.size += 1
            else:
                self.parts.append(_PAIRS[small][number & 255])
                self.size += 2
            return True
        first = number >> 8 * (width - 1)  # a byte, and whatever has no room
        if not (-128 <= first <= 127 if signed else 0 <= first <= 255):
            return False
        self.number(WIDE_CODES[kind], width, number)
        return True

    def usual(self, value: Any) -> bool:
        """Append a value of a usual type and size; False, and nothing, where it is another."""
        have = type(value)
        if have is str:
            return self.short_ascii(0xA1, value)
        kind = KINDS.get(have, 0)
        if WIDTHS[kind]:
            return self.integer_of(kind, value)
        if kind == KIND_BOOLEAN:
            self.octet(0x41 if value else 0x42)
        elif kind == KIND_DOUBLE:
            self.double(value)
        elif have is bytes and len(value) <= 255:
            self.pair(0xA0, len(value))
            self.add(value)
        elif kind == KIND_SYMBOL:
            return bool(self.short_ascii(0xA3, value))
        elif value is None:
            self.octet(0x40)
        else:
            return False
        return True

    def usual_fields(
        self, layout: Any, made: Any, kinds: bytes, defaults: tuple[Any, ...], start: int
    ) -> int:
        """Append fields of a list from the start-th on; return the place of the first unusual one.

        `self.count` is the number of fields that were written, and those of null before the last of
        them: what is None or its default is left out, unless another one follows.
        """
        parts = self.parts
        count = self.count
        items = layout.values(made)
        for i in range(start, len(items)):
            item = items[i]
            default = defaults[i]
            if item is None or item is default:
                continue
            have = type(item)
            if have is type(default) and item == default:
                continue
            kind = kinds[i]
            n = i - count
            if n:
                parts.append(_NULLS[n])
                self.size += n
            if have is str and (IS_STRING[kind] or kind == KIND_SYMBOL):
                n = len(item)
                is_written = n <= 255 and item.isascii()
                if is_written:
                    parts += (_PAIRS[0xA1 if IS_STRING[kind] else 0xA3][n], item.encode("ascii"))
                    self.size += n + 2
            elif have is int and WIDTHS[kind]:
                is_written = self.integer_of(kind, item)
            elif have is bool and kind == KIND_BOOLEAN:
                is_written = True
                parts.append(_OCTETS[0x41 if item else 0x42])
                self.size += 1
            else:
                is_written = False
            if not is_written:
                if i > count:
                    self.size -= i - count
                    parts.pop()
                return i
            self.count = count = i + 1
        return len(items)


class Slots:
    """The attributes of a class, read and set in one go.

    Args:
        cls: the class.
        names: of the attributes, in the order of their values.
    """

    def __init__(self, cls: Any, names: Any) -> None:
        self.cls = cls
        self.names = tuple(names)
        self.fill = filler(self.names)
        self.get_all = attrgetter(*self.names) if len(self.names) > 1 else None

    def values(self, made: Any) -> tuple[Any, ...]:
        """Return the attributes in order; AttributeError where one was deleted."""
        if self.get_all is None:
            return tuple(getattr(made, name) for name in self.names)
        found: tuple[Any, ...] = self.get_all(made)
        return found

    def first(self, made: Any) -> Any:
        """Return the first attribute."""
        return getattr(made, self.names[0])

    def build(self, values: list[Any]) -> Any:
        """Make an instance with these attributes, without its converters."""
        cls = self.cls
        made = cls.__new__(cls)
        self.fill(made, values)
        return made


class Slot:
    """A slot of a class that derives from `Record`, which may be empty."""

    def __init__(self, cls: Any, name: str) -> None:
        self.cls = cls
        self.name = name

    def get(self, made: Any) -> Any:
        """Return the slot's value in an instance, None where it is empty or there is none."""
        return getattr(made, self.name, None)

    def put(self, made: Any, value: Any) -> None:
        """Set what an instance holds there."""
        setattr(made, self.name, value)


class FieldOutput(Output):
    """Output of AMQP 0-9-1: texts and tables stand after their lengths."""

    def text(self, width: int, text: Any) -> bool:
        """Append a length of 1 or 4 bytes and a str of ASCII; False, and nothing, for all else."""
        if type(text) is not str or not text.isascii() or (width == 1 and len(text) > 255):
            return False
        self.add(len(text).to_bytes(width, "big") + text.encode("ascii"))
        return True

    def begin_table(self) -> int:
        """Leave room for a length of four bytes; return the mark to end the table with."""
        self.parts.append(self.size)
        return len(self.parts) - 1

    def end_table(self, start: int) -> bool:
        """Write the length of what was appended since; False if it is too large."""
        size = self.size - self.parts[start]
        if size > 0xFFFF_FFFF:
            return False
        self.parts[start] = size.to_bytes(4, "big")
        self.size += 4
        return True

    def real(self, number: float) -> None:
        """Append the eight bytes of a double."""
        self.add(_pack_real(number))


class Entries:
    """What a mapping holds."""

    @staticmethod
    def of(mapping: Any) -> dict[Any, Any]:
        """Return a dict of the same entries in their order, which must not be changed."""
        return dict(mapping)


class Record:
    """What a class derives from whose calls are parsed in C, where the kernel is compiled."""

    __slots__ = ()


def make_fast(cls: type, **plain: tuple[type, ...]) -> None:
    """Have the calls of a class parsed in C; here, its own ``__init__`` does it.

    Args:
        cls: a class with slots that derives from `Record`. Each parameter of its ``__init__`` has
            the name of the attribute that it sets.
        plain: for parameters that are not always taken as they are, the types of which they are;
            where one is of another, the class's own ``__init__`` is called.
    """
