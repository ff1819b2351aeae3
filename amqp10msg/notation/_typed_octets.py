# cython: language_level=3, boundscheck=True, wraparound=False, annotation_typing=False
"""Typed JSON from the bytes of values and to them, each value visited once.

Runs as it is, and compiled with the C types of `_typed_octets.pxd`. What is written wrongly, and
what is rare, such as arrays and remarks, is left to `typed`, which says what is wrong and where.
"""

from __future__ import annotations

from typing import Any

from amqp10msg.notation.type_names import TYPES, WIDTHS, bits_of
from amqp10msg.sections import KINDS
from amqp10msg.wire.kernel.bounded import READ_FAULTS
from amqp10msg.wire.kernel.codes import (
    KIND_BINARY,
    KIND_BOOLEAN,
    KIND_CHAR,
    KIND_DESCRIBED,
    KIND_LIST,
    KIND_LONG,
    KIND_MAP,
    KIND_NULL,
    KIND_OF,
    KIND_STRING,
    KIND_SYMBOL,
    KIND_TIMESTAMP,
    KIND_UBYTE,
    TYPE_IDS,
    TYPE_NAMES,
)
from amqp10msg.wire.kernel.value_reader import ValueReader
from amqp10msg.wire.kernel.value_writer import ValueWriter
from amqp10msg.wire.limits import UNLIMITED
from amqp10msg.wire.primitives import FORMAT_CODES, AmqpMap

_NAMES = [TYPE_NAMES.get(kind, "") for kind in KIND_OF]
_NAMES[0] = "described"
#: Of the types that are written by their bits: the octets that they take, by format code.
_BITS = bytes(WIDTHS.get(name, 0) for name in _NAMES)
_IDS = {name: TYPE_IDS[name] for name in TYPES.values()}
#: The format code of each of these types.
_CODES = {TYPE_IDS[row.type]: row.code for row in FORMAT_CODES.values() if row.type in WIDTHS}

_FIRST = KINDS[0].code
_SECTIONS = [kind.name for kind in KINDS]
_SOURCES = [kind.source for kind in KINDS]
_PLACES = {name: place for place, name in enumerate(_SECTIONS)}
_HEADS = [b"\x00\x53" + bytes((kind.code,)) for kind in KINDS]


class TypedReader(ValueReader):
    """Reads values as what they are in typed JSON."""

    def typed(self) -> Any:
        """Read one value."""
        pos = self.pos
        if pos >= self.end:
            raise self.truncated(pos, 1)
        code = self.buf[pos]
        self.pos = pos + 1
        name = _NAMES[code]
        kind = KIND_OF[code]
        if kind == KIND_STRING:
            return [name, self.read(code)]
        if KIND_UBYTE <= kind <= KIND_LONG or kind == KIND_TIMESTAMP:
            return [name, self.number(code)]
        if kind == KIND_SYMBOL:
            pos = self.span(code)
            return [name, self.buf[pos : self.pos].decode("ascii")]
        if kind == KIND_NULL:
            return [name]
        if kind == KIND_BOOLEAN:
            return [name, self.read(code)]
        width = _BITS[code]
        if width:
            pos = self.take(width)
            return [name, self.buf[pos : self.pos].hex()]
        if kind == KIND_BINARY:
            pos = self.span(code)
            return [name, self.buf[pos : self.pos].hex()]
        if kind == KIND_LIST:
            return [name, [] if code == 0x45 else self.typed_list(code)]
        if kind == KIND_MAP:
            return [name, self.typed_map(code)]
        if code == 0:
            self.enter(pos)
            made = [name, self.typed(), self.typed()]
            self.depth += 1
            return made
        if kind == KIND_CHAR:
            return [name, ord(self.read(code))]
        return typed_value(self.read(code))

    def typed_list(self, code: int) -> Any:
        """Read the values of a list."""
        outer = self.descend(code)
        values = [self.typed() for _ in range(self.count)]
        self.ascend(outer)
        return values

    def typed_map(self, code: int) -> Any:
        """Read the pairs of a map, which was found before to have every key once."""
        outer = self.descend(code)
        pairs = []
        for _ in range(self.count >> 1):
            key = self.typed()
            pairs.append([key, self.typed()])
        self.ascend(outer)
        return pairs

    def sections(self) -> Any:
        """Read the sections of a message, None where one has a descriptor of another form."""
        made = []
        while self.pos < self.end:
            place = self.descriptor() - _FIRST
            if not 0 <= place < len(_SECTIONS):
                return None
            typed: Any = self.typed()
            content = typed[1] if typed[0] == _SOURCES[place] else typed
            made.append([_SECTIONS[place], content])
        return made


def typed_message(octets: bytes) -> Any:
    """Write the bytes of a message, or None where a section is none of Part 3 in its usual form."""
    reader = TypedReader.__new__(TypedReader)
    reader.begin(octets, 0, UNLIMITED)
    try:
        return reader.sections()
    except READ_FAULTS:
        return None


def typed_octets(octets: bytes) -> Any:
    """Write the bytes of one value."""
    reader = TypedReader.__new__(TypedReader)
    reader.begin(octets, 0, UNLIMITED)
    return reader.typed()


# One frame of Python for each level of nesting: 256 levels must fit the interpreter's stack.
def typed_value(value: Any) -> Any:
    """Write a value that was decoded."""
    name = TYPES[type(value)]
    kind = _IDS[name]
    if kind == KIND_LIST:
        return [name, list(map(typed_value, value))]
    if kind == KIND_MAP:
        pairs = value.pairs if type(value) is AmqpMap else value.items()
        return [name, [[typed_value(key), typed_value(item)] for key, item in pairs]]
    if name == "array":
        typed = [name, f"{value.code:02x}", list(map(typed_value, value.values))]
        return [*typed, list(map(typed_value, value.descriptors))] if value.descriptors else typed
    if kind == KIND_DESCRIBED:
        return [name, typed_value(value.descriptor), typed_value(value.value)]
    if KIND_UBYTE <= kind <= KIND_LONG or kind == KIND_TIMESTAMP:
        return [name, int(value)]
    if name in WIDTHS:
        return [name, bits_of(value).hex()]
    if kind == KIND_BINARY:
        return [name, value.hex()]
    if kind == KIND_CHAR:
        return [name, ord(value)]
    if kind == KIND_SYMBOL:
        return [name, str(value)]
    return [name] if value is None else [name, value]


class TypedWriter(ValueWriter):
    """Writes the bytes of typed JSON; ValueError for all that is wrong or rare."""

    def item(self, typed: Any) -> None:
        """Write one value."""
        if type(typed) is not list or not typed or type(typed[0]) is not str:
            raise ValueError
        kind = _IDS.get(typed[0], 0)
        size = len(typed)
        if size == 2:
            held = typed[1]
            if kind == KIND_STRING and type(held) is str:
                self.string(held)
                return
            if (KIND_UBYTE <= kind <= KIND_LONG or kind == KIND_TIMESTAMP) and type(held) is int:
                self.integer(kind, held)
                return
            if kind == KIND_SYMBOL and type(held) is str:
                self.symbol(held)
                return
            if kind == KIND_BOOLEAN and type(held) is bool:
                self.octet(0x41 if held else 0x42)
                return
            if kind == KIND_BINARY:
                self.text(hexed(held), 0xA0)
                return
            if kind == KIND_LIST:
                self.items(held)
                return
            if kind == KIND_MAP:
                self.entries(held)
                return
            if kind == KIND_CHAR and type(held) is int and not 0xD800 <= held <= 0xDFFF:
                self.plain(KIND_CHAR, chr(held))
                return
            code = _CODES.get(kind, 0)
            octets = hexed(held)
            if code and len(octets) == _BITS[code]:
                self.octet(code)
                self.add(octets)
                return
        elif size == 1 and kind == KIND_NULL:
            self.octet(0x40)
            return
        elif size == 3 and kind == KIND_DESCRIBED:
            self.enter()
            self.octet(0)
            self.item(typed[1])
            self.item(typed[2])
            self.depth -= 1
            return
        raise ValueError

    def items(self, typed: Any) -> None:
        """Write a list."""
        if type(typed) is not list:
            raise ValueError
        if not typed:
            self.octet(0x45)
            return
        mark = self.open()
        for item in typed:
            self.item(item)
        self.close(mark, 0xC0, len(typed))

    def entries(self, typed: Any) -> None:
        """Write a map whose keys are all strings, or all symbols."""
        if type(typed) is not list:
            raise ValueError
        mark = self.open()
        seen = set()
        kind = None
        for pair in typed:
            if type(pair) is not list or len(pair) != 2:
                raise ValueError
            key = pair[0]
            if type(key) is not list or len(key) != 2 or type(key[1]) is not str:
                raise ValueError
            if key[0] != kind:
                if kind is not None or (key[0] != "string" and key[0] != "symbol"):
                    raise ValueError
                kind = key[0]
            seen.add(key[1])
            self.item(key)
            self.item(pair[1])
        if len(seen) != len(typed):
            raise ValueError
        self.close(mark, 0xC1, 2 * len(typed))

    def section(self, typed: Any) -> None:
        """Write a section."""
        if type(typed) is not list or len(typed) != 2 or type(typed[0]) is not str:
            raise ValueError
        place = _PLACES.get(typed[0], -1)
        if place < 0:
            raise ValueError
        content = typed[1]
        source = _SOURCES[place]
        self.add(_HEADS[place])
        if source == "binary":
            self.text(hexed(content), 0xA0)
        elif source == "*":
            self.item(content)
        elif type(content) is not list or (content and type(content[0]) is str):
            raise ValueError
        elif source == "list":
            self.items(content)
        else:
            self.entries(content)


def hexed(text: Any) -> bytes:
    """Read bytes from pairs of hex digits."""
    if type(text) is str:
        octets = bytes.fromhex(text)
        if 2 * len(octets) == len(text):  # it passes over spaces
            return octets
    raise ValueError


def octets_of_message(typed: Any) -> Any:
    """Return the bytes of a message, or None where something is wrong or rare."""
    writer = TypedWriter(False)
    try:
        for section in typed:
            writer.section(section)
        return writer.finish()
    except ValueError:
        return None


def octets_of_value(typed: Any) -> Any:
    """Return the bytes of a value, or None where something is wrong or rare."""
    writer = TypedWriter(False)
    try:
        writer.item(typed)
        return writer.finish()
    except ValueError:
        return None
