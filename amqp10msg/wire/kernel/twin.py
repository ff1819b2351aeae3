"""Byte input, byte output and attribute access of the pure build: the counterpart of `twin.pyx`.

Both files define the same names, and the same tests run on both. The other kernel modules work with
either file. `twin.pyx` has fast paths for the usual encodings, which fall back to `Reader`,
`Writer` or `Picks`. In this file, these functions fall back immediately: the pure build runs the
same Python source as the compiled modules, and has no fast paths.
"""

from __future__ import annotations

import struct
from operator import attrgetter
from typing import Any, Self

from amqp10msg.wire.kernel.codes import (
    ALLOWED_NEXT_SECTIONS,
    FIRST_SECTION_CODE,
    FULL_WIDTH_CODE_OF_KIND,
    INTEGER_WIDTH_OF_KIND,
    IS_SIGNED_KIND,
    ONE_BYTE_CODE_OF_KIND,
    PLACE_BODY,
    PLACE_FOOTER,
    REGISTER_MESSAGE_ARGUMENTS,
    SECTION_SPECS,
    VALUES_OF_ONE_BYTE,
    ZERO_CODE_OF_KIND,
)
from amqp10msg.wire.kernel.fill import filler
from amqp10msg.wire.primitives import Symbol

#: Whether the compiled kernel is loaded.
COMPILED = False

_unpack_u32 = struct.Struct(">I").unpack_from
_unpack_i64 = struct.Struct(">q").unpack_from
_unpack_f64 = struct.Struct(">d").unpack_from
_pack_code_and_f64 = struct.Struct(">Bd").pack
_pack_f64 = struct.Struct(">d").pack
_pack_code_size_and_count32 = struct.Struct(">BII").pack


def declare_section(*_: Any) -> None:
    """Declare a section for the fast path of cursors; a no-op here."""


def declare_message(_: Any) -> None:
    """Declare the class of messages for the fast path of cursors; a no-op here."""


def declare_decode(_: Any) -> None:
    """Speed up the lookup of the class's ``decode`` from several threads; a no-op here."""


class Keys:
    """The requested keys of a map and their indexes; finds keys in the bytes of a map."""

    def __init__(self, indexes: dict[bytes, int]) -> None:
        self.indexes = indexes

    def index_of(self, buf: bytes, start: int, stop: int) -> int:
        """Return the index of the key at ``buf[start:stop]``; -1 if it is not in the set."""
        return self.indexes.get(buf[start:stop], -1)


class QuickPicks:
    """The counterpart of the fast path of `Picks`, which the pure build does not have."""

    def __init__(self, *_: Any) -> None:
        """Ignore the description of the requested sections."""

    def pick(self, _: bytes) -> Any:
        """Return None: `Picks` reads every message itself."""


class Cursor:
    """A position in bytes. Reading outside the bytes raises IndexError or struct.error.

    `ValueReader` and `Reader` use the attributes from `count` on.

    Attributes:
        buf: the input.
        pos: the offset of the next byte to read.
        end: the end offset of the enclosing value.
        count: the count of the compound that was entered last.
        first: an offset that a method of a reader returns in addition to its result.
        depth: how many more levels of nesting the limits allow.
        items_left: how many more items the limits allow.
        zero_width_left: how many more elements without bytes the limits allow.
        lenient: whether to accept some violations of the specification.
        accepts_modified_utf8: whether to accept Java's modified UTF-8.
    """

    buf: bytes
    pos: int
    end: int
    count: int
    first: int
    depth: int
    items_left: int
    zero_width_left: int
    lenient: bool = False
    accepts_modified_utf8: bool = False

    def u32(self, pos: int) -> int:
        """Return the unsigned integer in the four bytes at `pos`."""
        number: int = _unpack_u32(self.buf, pos)[0]
        return number

    def i64(self, pos: int) -> int:
        """Return the signed integer in the eight bytes at `pos`."""
        number: int = _unpack_i64(self.buf, pos)[0]
        return number

    def f64(self, pos: int) -> float:
        """Return the double in the eight bytes at `pos`."""
        number: float = _unpack_f64(self.buf, pos)[0]
        return number

    def octets(self, start: int, stop: int) -> bytes:
        """Return a copy of a range of bytes."""
        return self.buf[start:stop]

    def range_equals(self, start: int, stop: int, data: bytes, offset: int) -> bool:
        """Return whether a range of bytes equals the bytes of `data` from `offset` on."""
        return self.buf[start:stop] == data[offset : offset + stop - start]

    def passed(self, _: int) -> bool:
        """Return False without skipping anything: the caller must skip each value itself."""
        return False

    def symbol(self, start: int, stop: int) -> Any:
        """Decode a symbol; raise UnicodeDecodeError if the bytes are not ASCII."""
        return Symbol.__new__(Symbol, self.buf[start:stop].decode("ascii"))

    def name(self, start: int, stop: int) -> str:
        """Decode a name of 0-9-1; bytes that are not UTF-8 become surrogates."""
        return self.buf[start:stop].decode("utf-8", "surrogateescape")

    def octet_value(self, code: int, octet: int) -> Any:
        """Return the value of a format code from 0x50 to 0x54 and its byte of data."""
        return VALUES_OF_ONE_BYTE[code - 0x50][octet]

    def read_message(self, cls: Any, message_format: int) -> Any:
        """Read the sections of a message; return an instance of the class.

        If the class is None, return the sections as a tuple; None for a missing section.
        """
        buf = self.buf
        # The attributes are the sections by position, then message-format, bytes and leniency.
        attributes: list[Any]
        attributes = [None, None, None, None, None, None, None, message_format, buf, False]
        last = -1
        followers = ALLOWED_NEXT_SECTIONS[0]
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
                index = buf[start + 2] - FIRST_SECTION_CODE
                self.pos = start + 3
            else:
                positions = sum(
                    1 << i for i in range(PLACE_FOOTER + 1) if attributes[i] is not None
                )
                index = self.skip_unusual_descriptor(last, positions, start)
            last = index
            spec = SECTION_SPECS[index]
            followers = spec.followers
            section = self.read_unusual_section(index)
            if not spec.is_body or attributes[PLACE_BODY] is None:
                attributes[spec.position] = section
            elif several:
                attributes[PLACE_BODY].append(section)
            else:
                attributes[PLACE_BODY] = [attributes[PLACE_BODY], section]
                several = True
        if cls is None:
            return tuple(attributes[: PLACE_FOOTER + 1])
        message = cls.__new__(cls)
        REGISTER_MESSAGE_ARGUMENTS[0].fill(message, attributes)
        return message

    def skip_unusual_descriptor(self, last: int, positions: int, start: int) -> int:
        """Skip a descriptor in an unusual encoding; `Reader` implements this method."""
        raise NotImplementedError

    def read_unusual_section(self, index: int) -> Any:
        """Read the value of a section; `Reader` implements this method."""
        raise NotImplementedError

    def wrapped(self, index: int, value: Any) -> Any:
        """Return a body section, whose number is `index`, with a value."""
        return SECTION_SPECS[index].layout.build([value])


class Mapping(dict[Any, Any]):
    """A dict, the base class of map sections.

    In the compiled kernel, its subclasses look up keys as fast as a dict.
    """

    __slots__ = ()


_SINGLE_OCTETS = [bytes((n,)) for n in range(256)]
_ENCODED_NULLS = [b"\x40" * n for n in range(32)]
_CODE_AND_OCTET_PAIRS = {
    code: [bytes((code, n)) for n in range(256)]
    for code in (0x50, 0x51, 0x52, 0x53, 0x54, 0x55, 0xA0, 0xA1, 0xA3, 0xC0, 0xC1, 0xE0)
}


class Output:
    """A growing sequence of bytes.

    The parts are collected in a list and joined at the end: in Python that is faster than growing
    a buffer, and copies large data only once.

    Attributes:
        parts: the bytes; for an open compound or table, also the size of the output before it.
        size: the number of bytes.
        depth: the number of values that enclose the current value.
        lenient: whether to encode values of other types than declared.
        count: in the compiled build, the number of fields of a list that were written.
    """

    parts: list[Any]
    size: int
    depth: int = 0
    lenient: bool = False
    count: int = 0

    def __new__(cls, *_: Any) -> Self:
        """Create an empty output here, since the kernel does not call ``__init__`` of writers."""
        output = super().__new__(cls)
        output.parts = []
        output.size = 0
        return output

    def finish(self) -> bytes:
        """Return the bytes, and clear the output."""
        octets = b"".join(self.parts)
        self.parts = []
        self.size = 0
        return octets

    def add(self, octets: bytes) -> None:
        """Append bytes."""
        self.parts.append(octets)
        self.size += len(octets)

    def copy(self, buf: bytes, start: int, stop: int) -> None:
        """Append a range of `buf`."""
        self.parts.append(buf[start:stop])
        self.size += stop - start

    def octet(self, octet: int) -> None:
        """Append one byte."""
        self.parts.append(_SINGLE_OCTETS[octet])
        self.size += 1

    def pair(self, code: int, octet: int) -> None:
        """Append a constructor and a value or length of one byte."""
        self.parts.append(_CODE_AND_OCTET_PAIRS[code][octet])
        self.size += 2

    def short_ascii(self, code: int, text: str) -> bool:
        """Append a constructor, a length and a text; return False if it is long or not ASCII."""
        n = len(text)
        if n > 255 or not text.isascii():
            return False
        self.parts.append(_CODE_AND_OCTET_PAIRS[code][n])
        self.parts.append(text.encode("ascii"))
        self.size += n + 2
        return True

    def number(self, code: int, width: int, number: int) -> None:
        """Append a constructor and a number of `width` bytes, in two's complement."""
        self.parts.append(
            _SINGLE_OCTETS[code] + (number & (1 << 8 * width) - 1).to_bytes(width, "big")
        )
        self.size += width + 1

    def double(self, number: float) -> None:
        """Append a double."""
        self.parts.append(_pack_code_and_f64(0x82, number))
        self.size += 9

    # While a compound is open, its header in `parts` is the size of the output before the compound.

    def begin_compound(self) -> int:
        """Reserve the header of a compound; return the mark for `end_compound`."""
        self.parts.append(self.size)
        self.parts.append(b"")
        return len(self.parts) - 2

    def end_compound(self, mark: int, code: int, count: int) -> bool:
        """Write the header of a compound; `code` is the format code for a one-byte size.

        Returns False if the compound is too large for AMQP.
        """
        size = self.size - self.parts[mark]
        # The size field includes the count field, which has one byte here, and four below.
        if size < 255 and count <= 255:
            self.parts[mark] = _CODE_AND_OCTET_PAIRS[code][size + 1]
            self.parts[mark + 1] = _SINGLE_OCTETS[count]
            self.size += 3
            return True
        if size > 2**32 - 5:
            return False
        self.parts[mark] = _pack_code_size_and_count32(code + 0x10, size + 4, count)
        self.size += 9
        return True

    def drop_compound(self, mark: int) -> None:
        """Remove an open compound and its content."""
        self.size = self.parts[mark]
        del self.parts[mark:]

    def integer_of(self, kind: int, number: int) -> bool:
        """Append an integer in its smallest encoding; return False if it is out of range.

        Raises:
            ValueError: the kind is not an integer type.
        """
        width = INTEGER_WIDTH_OF_KIND[kind]
        if width == 0:
            raise ValueError(f"kind {kind} is not an integer type")
        small = ONE_BYTE_CODE_OF_KIND[kind]
        signed = IS_SIGNED_KIND[kind]
        if small and (-128 <= number <= 127 if signed else 0 <= number <= 255):
            if number == 0 and ZERO_CODE_OF_KIND[kind]:
                self.parts.append(_SINGLE_OCTETS[ZERO_CODE_OF_KIND[kind]])
                self.size += 1
            else:
                self.parts.append(_CODE_AND_OCTET_PAIRS[small][number & 255])
                self.size += 2
            return True
        first = number >> 8 * (width - 1)  # the first byte, if the number fits
        if not (-128 <= first <= 127 if signed else 0 <= first <= 255):
            return False
        self.number(FULL_WIDTH_CODE_OF_KIND[kind], width, number)
        return True

    def usual(self, _: Any) -> bool:
        """Return False without writing: the caller must write the value itself."""
        return False

    def usual_fields(
        self, _layout: Any, _value: Any, _kinds: bytes, _defaults: tuple[Any, ...], start: int
    ) -> int:
        """Return `start` without writing: the caller must write each field itself."""
        return start


class AttributeSlots:
    """Reads and sets several attributes of a class at once.

    Args:
        cls: the class.
        names: the names of the attributes, in the order of their values.
    """

    def __init__(self, cls: Any, names: Any) -> None:
        self.cls = cls
        self.names = tuple(names)
        self.fill = filler(self.names)
        self.get_all = attrgetter(*self.names) if len(self.names) > 1 else None

    def values(self, instance: Any) -> tuple[Any, ...]:
        """Return the attributes in order; raise AttributeError if one was deleted."""
        if self.get_all is None:
            return tuple(getattr(instance, name) for name in self.names)
        attributes: tuple[Any, ...] = self.get_all(instance)
        return attributes

    def first(self, instance: Any) -> Any:
        """Return the first attribute."""
        return getattr(instance, self.names[0])

    def build(self, values: list[Any]) -> Any:
        """Create an instance with these attributes, without calling converters."""
        cls = self.cls
        instance = cls.__new__(cls)
        self.fill(instance, values)
        return instance


class Slot:
    """Access to a slot of a subclass of `Record`; the slot may be empty."""

    def __init__(self, cls: Any, name: str) -> None:
        self.cls = cls
        self.name = name

    def get(self, instance: Any) -> Any:
        """Return the slot's value in an instance; None if it is empty or missing."""
        return getattr(instance, self.name, None)

    def put(self, instance: Any, value: Any) -> None:
        """Set the slot's value in an instance."""
        setattr(instance, self.name, value)


class FieldOutput(Output):
    """Output in the encodings of AMQP 0-9-1, in which a length precedes texts and tables."""

    def text(self, width: int, text: Any) -> bool:
        """Append a length of 1 or 4 bytes and an ASCII str; return False for any other value."""
        if type(text) is not str or not text.isascii() or (width == 1 and len(text) > 255):
            return False
        self.add(len(text).to_bytes(width, "big") + text.encode("ascii"))
        return True

    def begin_table(self) -> int:
        """Reserve a length of four bytes; return the mark for `end_table`."""
        self.parts.append(self.size)
        return len(self.parts) - 1

    def end_table(self, start: int) -> bool:
        """Write the length of the bytes since the mark; return False if it is too large."""
        size = self.size - self.parts[start]
        if size > 0xFFFF_FFFF:
            return False
        self.parts[start] = size.to_bytes(4, "big")
        self.size += 4
        return True

    def real(self, number: float) -> None:
        """Append the eight bytes of a double."""
        self.add(_pack_f64(number))


class Entries:
    """Holds the function `of`, which is a C function in the compiled kernel."""

    @staticmethod
    def of(mapping: Any) -> dict[Any, Any]:
        """Return the entries as a dict in the same order; callers must not modify the dict."""
        return dict(mapping)


class Record:
    """The base class of the classes that `make_fast` speeds up."""

    __slots__ = ()


def make_fast(cls: type, **plain: tuple[type, ...]) -> None:
    """Replace the ``__init__`` of a class by a function in C; a no-op here.

    Args:
        cls: a subclass of `Record` with slots. Each parameter of its ``__init__`` has the name of
            the attribute that it sets.
        plain: for parameters that ``__init__`` converts or checks, the types that it would store
            unchanged. For an argument of another type, the class's own ``__init__`` is called.
    """
