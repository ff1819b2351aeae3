"""Octets in and out and the attributes of objects, in Python: `twin.pyx` says the same in C.

The compiled kernel takes that module, the pure one this; they have the same names, and the same
tests run on both.
"""

from __future__ import annotations

import struct
from operator import attrgetter
from typing import Any

from amqp10msg._core.fill import filler

__all__ = [
    "COMPILED",
    "SYMBOLS",
    "Cursor",
    "FieldOutput",
    "Layout",
    "Output",
    "Text",
    "Texts",
    "know",
]

#: Whether the kernel that runs is the compiled one.
COMPILED = False

_unpack_u32 = struct.Struct(">I").unpack_from
_unpack_i32 = struct.Struct(">i").unpack_from
_unpack_i64 = struct.Struct(">q").unpack_from
_unpack_f64 = struct.Struct(">d").unpack_from
_pack_f64 = struct.Struct(">Bd").pack
_pack_head32 = struct.Struct(">BII").pack

_MAX_TEXT = 64
_MAX_TEXTS = 4096


class Texts:
    """Short texts that were read before, by their octets: making them costs more than this.

    A full table starts anew, so a peer that invents texts makes this useless for itself and no
    larger than 0.5 MB.
    """

    def __init__(self) -> None:
        self.known: dict[bytes, Any] = {}

    def recall(self, buf: bytes, start: int, stop: int) -> Any:
        """Give the text of these octets, or None."""
        return self.known.get(buf[start:stop])

    def keep(self, buf: bytes, start: int, stop: int, text: Any) -> None:
        """Remember the text of these octets, if it is a short one."""
        if 0 < stop - start <= _MAX_TEXT:
            if len(self.known) >= _MAX_TEXTS:
                self.known.clear()
            self.known[buf[start:stop]] = text


SYMBOLS = Texts()

_Symbol: Any = str
_Timestamp: Any = int
_Int: Any = int
_UInt: Any = int


def know(
    symbol: type,
    timestamp: type,
    int_: type,
    uint: type,
    ulong: type,  # noqa: ARG001  (of the compiled one)
    ubytes: list[Any],
    uints: list[Any],
    ulongs: list[Any],
    ints: list[Any],
) -> None:
    """Tell the quick readers what to make values of, and the values of one octet.

    Raises:
        ValueError: there are not 256 values of one octet.
    """
    global _Symbol, _Timestamp, _Int, _UInt
    _Symbol, _Timestamp, _Int, _UInt = symbol, timestamp, int_, uint
    if any(len(values) != 256 for values in (ubytes, uints, ulongs, ints)):
        raise ValueError("there are 256 values of one octet")
    _OF_OCTET.update({0x50: ubytes, 0x52: uints, 0x53: ulongs, 0x54: ints})


_OF_OCTET: dict[int, list[Any]] = {}
# What quick_mapping does with the code of a value; 0 gives up.
_ENTRY_ACTIONS = bytes(
    {
        0xA1: 1,
        0x81: 2,
        0x55: 3,
        0x41: 4,
        0x42: 5,
        0x71: 6,
        0x83: 7,
        0x82: 8,
        0xA3: 9,
        0x40: 10,
        0x50: 11,
        0x52: 11,
        0x53: 11,
        0x54: 11,
        0x70: 12,
        0xA0: 13,
    }.get(code, 0)
    for code in range(256)
)
# Octets outside the input, and octets that are no text.
_FAULTS = (IndexError, struct.error, UnicodeDecodeError)


class Cursor:
    """A position in octets, and the quick readers.

    The quick readers take the encodings that nearly every message is made of. What they give is
    what `Reader` gives; where anything is out of the ordinary they give None and leave the cursor
    where it was, so that `Reader` reads instead and says what is wrong.

    They look only at the end whether a section came out even: what they read before is bounded by
    the input. A call costs the interpreter more than what it does, and a name more than a number.
    """

    buf: bytes
    pos: int
    end: int
    depth: int
    items: int

    def u32(self, pos: int) -> int:
        """Give the unsigned number of the four octets here."""
        number: int = _unpack_u32(self.buf, pos)[0]
        return number

    def i64(self, pos: int) -> int:
        """Give the signed number of the eight octets here."""
        number: int = _unpack_i64(self.buf, pos)[0]
        return number

    def f64(self, pos: int) -> float:
        """Give the double of the eight octets here."""
        number: float = _unpack_f64(self.buf, pos)[0]
        return number

    def octets(self, start: int, stop: int) -> bytes:
        """Copy octets out."""
        return self.buf[start:stop]

    def quick_fields(self, layout: Layout) -> Any:
        """Read the list of a composite into its class, or give None."""
        start = pos = self.pos
        buf = self.buf
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
            if stop > self.end or count > layout.count or count > self.items or self.depth < 1:
                return None
            cls = layout.cls
            if layout.memory is not None:
                values = layout.memory.get(buf[start:stop])
                if values is not None:
                    made = cls.__new__(cls)
                    layout.fill(made, values)
                    self.items -= count
                    self.pos = stop
                    return made
            values = layout.blank[:]
            actions = layout.actions
            for i in range(count):
                action = actions[i << 8 | buf[pos]]
                if action == 1:  # null
                    pos += 1
                elif action == 2:  # str8
                    at = pos + 2
                    pos = at + buf[pos + 1]
                    values[i] = buf[at:pos].decode("utf-8")
                elif action == 3:  # sym8
                    at = pos + 2
                    pos = at + buf[pos + 1]
                    values[i] = buf[at:pos].decode("ascii")
                elif action == 4:  # true
                    values[i] = True
                    pos += 1
                elif action == 5:  # false
                    values[i] = False
                    pos += 1
                elif action == 6:  # an unsigned octet
                    values[i] = buf[pos + 1]
                    pos += 2
                elif action == 7:  # timestamp
                    values[i] = _unpack_i64(buf, pos + 1)[0]
                    pos += 9
                elif action == 8:  # uint
                    values[i] = _unpack_u32(buf, pos + 1)[0]
                    pos += 5
                elif action == 9:  # uint0, ulong0
                    values[i] = 0
                    pos += 1
                elif action == 10:  # vbin8
                    at = pos + 2
                    pos = at + buf[pos + 1]
                    values[i] = buf[at:pos]
                else:
                    return None
        except _FAULTS:
            return None
        if pos != stop:
            return None
        if layout.memory is not None:
            layout.keep(buf[start:stop], values)
        made = cls.__new__(cls)
        layout.fill(made, values)
        self.items -= count
        self.pos = pos
        return made

    def quick_mapping(self, cls: Any, symbols: bool) -> Any:
        """Read the map of a section into its class, or give None."""
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
            # Every value takes an octet at least, so this bounds the count before anything is read.
            if stop > self.end or count > stop - pos or count > self.items or self.depth < 1:
                return None
            wanted = 0xA3 if symbols else 0xA1
            made = cls.__new__(cls)
            for _ in range(count >> 1):
                if buf[pos] != wanted:
                    return None
                at = pos + 2
                pos = at + buf[pos + 1]
                if symbols:
                    key = _KNOWN_SYMBOLS.get(buf[at:pos])
                    if key is None:
                        key = _symbol(buf, at, pos)
                else:
                    key = buf[at:pos].decode("utf-8")
                code = buf[pos]
                action = _ENTRY_ACTIONS[code]
                if action == 1:  # str8
                    at = pos + 2
                    pos = at + buf[pos + 1]
                    made[key] = buf[at:pos].decode("utf-8")
                elif action == 2:  # long
                    made[key] = _unpack_i64(buf, pos + 1)[0]
                    pos += 9
                elif action == 3:  # smalllong
                    small = buf[pos + 1]
                    made[key] = small - 256 if small > 127 else small
                    pos += 2
                elif action == 4:  # true
                    made[key] = True
                    pos += 1
                elif action == 5:  # false
                    made[key] = False
                    pos += 1
                elif action == 6:  # int
                    made[key] = _Int.__new__(_Int, _unpack_i32(buf, pos + 1)[0])
                    pos += 5
                elif action == 7:  # timestamp
                    made[key] = _Timestamp.__new__(_Timestamp, _unpack_i64(buf, pos + 1)[0])
                    pos += 9
                elif action == 8:  # double
                    made[key] = _unpack_f64(buf, pos + 1)[0]
                    pos += 9
                elif action == 9:  # sym8
                    at = pos + 2
                    pos = at + buf[pos + 1]
                    made[key] = _symbol(buf, at, pos)
                elif action == 10:  # null
                    made[key] = None
                    pos += 1
                elif action == 11:  # ubyte, smalluint, smallulong, smallint
                    made[key] = _OF_OCTET[code][buf[pos + 1]]
                    pos += 2
                elif action == 12:  # uint
                    made[key] = _UInt.__new__(_UInt, _unpack_u32(buf, pos + 1)[0])
                    pos += 5
                elif action == 13:  # vbin8
                    at = pos + 2
                    pos = at + buf[pos + 1]
                    made[key] = buf[at:pos]
                else:
                    return None
        except _FAULTS:
            return None
        # A count that is odd or a key that stands twice leaves the dict smaller.
        if pos != stop or len(made) << 1 != count:
            return None
        self.items -= count
        self.pos = pos
        return made

    def quick_data(self, layout: Layout) -> Any:
        """Read a binary into the class of a data section, or give None."""
        pos = self.pos
        buf = self.buf
        if self.end - pos < 5:
            return None
        code = buf[pos]
        if code == 0xA0:
            at = pos + 2
            pos = at + buf[pos + 1]
        elif code == 0xB0:
            at = pos + 5
            pos = at + _unpack_u32(buf, pos + 1)[0]
        else:
            return None
        if pos > self.end:
            return None
        self.pos = pos
        cls = layout.cls
        made = cls.__new__(cls)
        layout.fill(made, (buf[at:pos],))
        return made


def _symbol(buf: bytes, start: int, stop: int) -> Any:
    known = SYMBOLS.recall(buf, start, stop)
    if known is None:
        known = _Symbol.__new__(_Symbol, buf[start:stop].decode("ascii"))
        SYMBOLS.keep(buf, start, stop, known)
    return known


_KNOWN_SYMBOLS = SYMBOLS.known


_OCTETS = [bytes((n,)) for n in range(256)]
_PAIRS = {
    code: [bytes((code, n)) for n in range(256)]
    for code in (0x50, 0x51, 0x52, 0x53, 0x54, 0x55, 0xA0, 0xA1, 0xA3, 0xC0, 0xC1, 0xE0)
}


class Output:
    """A run of octets that grows.

    Each part is one bytes object in a list, joined at the end: in Python that is faster than
    growing a buffer, and copies large data once.
    """

    size: int

    def __init__(self, *_: Any) -> None:
        self.parts: list[Any] = []
        self.size = 0

    def finish(self) -> bytes:
        """Give the octets; the output is empty then."""
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
        """Append one octet."""
        self.parts.append(_OCTETS[octet])
        self.size += 1

    def pair(self, code: int, octet: int) -> None:
        """Append a constructor and a value or length of one octet."""
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
        """Leave room for the header of a compound; give the mark to end it with."""
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
    """Where a class with slots keeps its attributes.

    Args:
        cls: the class.
        names: of the attributes.
        blank: the value of each that is not given.
        actions: for each, what the quick readers do with each of the 256 codes.
        few: instances are often alike, so that encodings which were read before are looked up.
    """

    def __init__(
        self, cls: Any, names: Any, blank: Any = (), actions: bytes = b"", few: bool = False
    ) -> None:
        self.cls = cls
        self.names = tuple(names)
        self.fill = filler(self.names)
        self.get_all = attrgetter(*self.names) if len(self.names) > 1 else None
        self.blank = [*blank]
        # No fields where they could not be read.
        fits = len(self.blank) == len(self.names) and len(actions) == len(self.names) << 8
        self.count = len(self.names) if fits else -1
        self.actions = actions
        # As many and as short as the texts above.
        self.memory: dict[bytes, Any] | None = {} if few else None

    def keep(self, octets: bytes, values: Any) -> None:
        """Remember the values that an encoding stands for."""
        if self.memory is not None and len(octets) <= _MAX_TEXT:
            if len(self.memory) >= _MAX_TEXTS:
                self.memory.clear()
            self.memory[octets] = values

    def values(self, made: Any) -> tuple[Any, ...]:
        """Give the attributes in order; AttributeError where one was deleted."""
        if self.get_all is None:
            return tuple(getattr(made, name) for name in self.names)
        found: tuple[Any, ...] = self.get_all(made)
        return found

    def build(self, values: list[Any]) -> Any:
        """Make an instance with these attributes."""
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


class Text:
    """Questions about texts."""

    @staticmethod
    def is_plain(text: Any, most: int) -> bool:
        """Whether this is a str of ASCII without NUL, of so many characters at most."""
        return type(text) is str and len(text) <= most and text.isascii() and "\0" not in text
