"""Bytes in and out and the attributes of objects, in Python: `twin.pyx` says the same in C.

The compiled kernel takes that module, the pure one this; they have the same names, and the same
tests run on both. No other module knows whether it is compiled.
"""

from __future__ import annotations

import struct
from operator import attrgetter
from typing import Any, Self

from amqp10msg.wire.kernel.fill import filler
from amqp10msg.wire.primitives import Symbol

#: Whether the kernel that runs is the compiled one.
COMPILED = False

_unpack_u32 = struct.Struct(">I").unpack_from
_unpack_i64 = struct.Struct(">q").unpack_from
_unpack_f64 = struct.Struct(">d").unpack_from
_pack_f64 = struct.Struct(">Bd").pack
_pack_real = struct.Struct(">d").pack
_pack_head32 = struct.Struct(">BII").pack


class Symbols:
    """Short symbols that were read before, by their bytes: making them costs more than this.

    A full table starts anew, so a peer that invents symbols makes this useless for itself and no
    larger than 4,096 entries of some 240 bytes, 1 MB.
    """

    most = 4096
    longest = 64

    def __init__(self) -> None:
        self.known: dict[bytes, Symbol] = {}

    def keep(self, octets: bytes) -> Symbol:
        """Make the symbol of these bytes, and remember it if it is a short one."""
        made = Symbol.__new__(Symbol, octets.decode("ascii"))
        if 0 < len(octets) <= self.longest:
            if len(self.known) >= self.most:
                self.known.clear()
            self.known[octets] = made
        return made


SYMBOLS = Symbols()


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

    def symbol(self, start: int, stop: int) -> Symbol:
        """Return the symbol of these bytes; UnicodeDecodeError where they are not ASCII."""
        octets = self.buf[start:stop]
        return SYMBOLS.known.get(octets) or SYMBOLS.keep(octets)


class Mapping(dict):  # type: ignore[type-arg]
    """A dict to derive from; its subclasses look keys up as fast as a dict does."""

    __slots__ = ()


_OCTETS = [bytes((n,)) for n in range(256)]
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
        """Append octets."""
        self.parts.append(octets)
        self.size += len(octets)

    def copy(self, buf: bytes, start: int, stop: int) -> None:
        """Append a part of other octets."""
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
        """Append a constructor and a number of this many octets, in two's complement."""
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
        # The size counts the count's own octets: one here, four in the long form.
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


class Layout:
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

    def build(self, values: list[Any]) -> Any:
        """Make an instance with these attributes, without its converters."""
        cls = self.cls
        made = cls.__new__(cls)
        self.fill(made, values)
        return made


class FieldOutput(Output):
    """Output of AMQP 0-9-1: texts and tables stand behind their lengths."""

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


class Text:
    """Questions about texts."""

    @staticmethod
    def is_plain(text: Any, most: int) -> bool:
        """Whether this is a str of ASCII without NUL, of so many characters at most."""
        return type(text) is str and len(text) <= most and text.isascii() and "\0" not in text
