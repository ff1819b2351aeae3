# cython: language_level=3, boundscheck=True, wraparound=False, annotation_typing=False
"""Plain JSON from the bytes of values and to them, each value visited once.

Runs as it is, and compiled with the C types of `_plain_octets.pxd`. What is written wrongly, what
breaks rules, and what is rare, such as several body sections, is left to `plain`.
"""

from __future__ import annotations

import base64
import datetime
import math
import uuid
from typing import Any

from amqp10msg._core.codes import (
    IS_MESSAGE_ID,
    KIND_ADDRESS,
    KIND_ARRAY,
    KIND_BINARY,
    KIND_BOOLEAN,
    KIND_DOUBLE,
    KIND_FLOAT,
    KIND_LIST,
    KIND_LONG,
    KIND_MAP,
    KIND_MESSAGE_ID,
    KIND_NULL,
    KIND_OF,
    KIND_STRING,
    KIND_SYMBOL,
    KIND_TIMESTAMP,
    KIND_UBYTE,
    KIND_ULONG,
    KIND_UUID,
    PLACES,
    TYPE_IDS,
    TYPE_NAMES,
)
from amqp10msg._core.value_reader import READ_FAULTS, ValueReader, decode_value
from amqp10msg._core.value_writer import ValueWriter, timestamp_of
from amqp10msg.composite import COMPOSITES
from amqp10msg.limits import UNLIMITED
from amqp10msg.notation._plain_reader import PlainReader
from amqp10msg.notation._plain_writer import (
    generic,
    natural,
    shown_binary,
    shown_float,
    shown_time,
)
from amqp10msg.notation.type_names import TYPES
from amqp10msg.primitives import UInt
from amqp10msg.sections import KINDS

__all__ = ["octets_of_message", "octets_of_value", "plain_message", "plain_octets"]

#: The marker of what each format code constructs, and the kinds by marker.
_MARKERS = [f"${TYPE_NAMES[kind]}" if kind else "" for kind in KIND_OF]
_MARKED = {f"${name}": TYPE_IDS[name] for name in TYPES.values()}
_BASE64, _HEX = "$base64", "$hex"

_FIRST = KINDS[0].code
_COUNT = len(KINDS)
_SOURCES = [kind.source for kind in KINDS]
_HEADS = [b"\x00\x53" + bytes((kind.code,)) for kind in KINDS]
_SHOWN = [kind.name.replace("-", "_") for kind in KINDS]
_VALUE = _SHOWN.index("amqp_value")
_PROPERTIES = _SHOWN.index("application_properties")
#: By name, in both spellings: the place of a section, and the next one for the message-format.
_SECTIONS = {
    name: place
    for place, kind in enumerate([*_SHOWN, "message_format"])
    for name in (kind, kind.replace("_", "-"))
}
# The fields of the sections that are composites: their names, kinds, and places by name.
_ENTRIES = [COMPOSITES.get(kind.code) for kind in KINDS]
_NAMES = [[row.name for row in entry.fields] if entry else [] for entry in _ENTRIES]
_KINDS = [entry.spec.kinds if entry else b"" for entry in _ENTRIES]
_FIELDS = [
    {name: place for place, field in enumerate(names) for name in (field, field.replace("_", "-"))}
    for names in _NAMES
]
_NULLS = [b"\x40" * n for n in range(32)]
_INFINITE = math.inf
_UINT_MAX = 2**32 - 1


class RareError(Exception):
    """A value that is left to `plain`."""


class OctetsReader(ValueReader):
    """Reads values as what they are in plain JSON."""

    def item(self) -> Any:
        """Read one value of any type."""
        pos = self.pos
        if pos >= self.end:
            raise self.truncated(pos, 1)
        self.pos = pos + 1
        return self.generic(self.buf[pos])

    def generic(self, code: int) -> Any:
        """Read a value behind its format code: plainly, or with the marker of its type."""
        kind = KIND_OF[code]
        if kind in {KIND_STRING, KIND_LONG, KIND_BOOLEAN, KIND_NULL}:
            return self.read(code)
        if kind == KIND_LIST:
            return [] if code == 0x45 else self.values(code)
        if kind == KIND_MAP:
            return self.mapping(code)
        if kind == KIND_DOUBLE:
            number = self.f64(self.take(8))
            return number if -_INFINITE < number < _INFINITE else generic(number)
        if kind in {0, KIND_ARRAY}:
            return generic(self.read(code))
        content = self.natural(kind, code)
        return content if type(content) is dict else {_MARKERS[code]: content}

    def natural(self, kind: int, code: int) -> Any:
        """Read a value whose type is known."""
        if kind in {KIND_STRING, KIND_BOOLEAN}:
            return self.read(code)
        if KIND_UBYTE <= kind <= KIND_LONG:
            return self.number(code)
        if kind == KIND_SYMBOL:
            pos = self.span(code)
            return self.buf[pos : self.pos].decode("ascii")
        if kind == KIND_TIMESTAMP:
            return shown_time(self.number(code))
        if kind == KIND_BINARY:
            pos = self.span(code)
            return shown_binary(self.octets(pos, self.pos))
        if kind == KIND_FLOAT:
            pos = self.take(4)
            return shown_float(self.octets(pos, self.pos))
        if kind == KIND_UUID:
            pos = self.take(16)
            digits = self.octets(pos, self.pos).hex()
            return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
        return natural(TYPE_NAMES[kind], self.read(code))

    def values(self, code: int) -> Any:
        """Read a list."""
        start = self.pos - 1
        stop = self.open(code)
        self.enter(start)
        outer = self.end
        self.end = stop
        made = [self.item() for _ in range(self.count)]
        self.close(stop, outer)
        return made

    def mapping(self, code: int) -> Any:
        """Read a map, as an object where the first key is a string, else as what it is."""
        start = self.pos
        stop = self.open(code)
        pos = self.pos
        self.pos = start
        if pos < stop:
            first = self.buf[pos]
            text = pos + 2 if first == 0xA1 else pos + 5
            # An object's keys do not begin with $, as markers do.
            if KIND_OF[first] != KIND_STRING or (text < stop and self.buf[text] == 0x24):
                return generic(self.read(code))
        return self.entries(code, KIND_STRING, False)

    def entries(self, code: int, wanted: int, simple: bool) -> Any:
        """Read a map whose keys are all of one kind; with `simple`, of values that hold none."""
        start = self.pos - 1
        stop = self.open(code)
        self.enter(start)
        outer = self.end
        self.end = stop
        count = self.count
        made: Any = {}
        for _ in range(count >> 1):
            pos = self.take(1)
            code = self.buf[pos]
            if KIND_OF[code] != wanted:
                raise RareError
            pos = self.span(code)
            if self.pos > pos and self.buf[pos] == 0x24:
                raise RareError
            if wanted == KIND_STRING:
                key = self.buf[pos : self.pos].decode("utf-8")
            else:
                key = self.buf[pos : self.pos].decode("ascii")
            pos = self.take(1)
            code = self.buf[pos]
            if simple and (code >= 0xC0 or code in {0, 0x45}):
                raise RareError
            made[key] = self.generic(code)
        self.close(stop, outer)
        if 2 * len(made) != count:
            raise RareError
        return made

    def fields(self, place: int) -> Any:
        """Read the list of a composite, the fields that are null left out."""
        start = self.pos
        code = self.buf[self.take(1)]
        made: Any = {}
        if code == 0x45:
            return made
        if code not in {0xC0, 0xD0}:
            raise RareError
        stop = self.open(code)
        self.enter(start)
        outer = self.end
        self.end = stop
        names = _NAMES[place]
        kinds = _KINDS[place]
        count = self.count
        if count > len(names):
            raise RareError
        for i in range(count):
            pos = self.take(1)
            code = self.buf[pos]
            if code == 0x40:
                continue
            have = KIND_OF[code]
            kind = kinds[i]
            if have == kind:
                made[names[i]] = self.natural(kind, code)
            elif kind == KIND_MESSAGE_ID and IS_MESSAGE_ID[have]:
                if have in {KIND_STRING, KIND_ULONG}:
                    made[names[i]] = self.natural(have, code)
                else:
                    made[names[i]] = self.generic(code)
            elif kind == KIND_ADDRESS and have == KIND_STRING:
                made[names[i]] = self.read(code)
            else:
                raise RareError
        self.close(stop, outer)
        return made

    def sections(self, made: Any) -> None:
        """Read the sections of a message that breaks no rule, each kind once."""
        last = -1
        while self.pos < self.end:
            pos = self.pos
            if self.end - pos < 4 or self.buf[pos] != 0 or self.buf[pos + 1] != 0x53:
                raise RareError
            place = self.buf[pos + 2] - _FIRST
            if not 0 <= place < _COUNT or PLACES[place] <= last:
                raise RareError
            last = PLACES[place]
            self.pos = pos + 3
            code = self.buf[pos + 3]
            kind = KIND_OF[code]
            name = _SHOWN[place]
            source = _SOURCES[place]
            if place == _VALUE:
                made[name] = self.item()
            elif len(_NAMES[place]):
                made[name] = self.fields(place)
            else:
                self.pos = pos + 4
                if source == "binary" and kind == KIND_BINARY:
                    made[name] = self.natural(kind, code)
                elif source == "list" and kind == KIND_LIST:
                    made[name] = self.generic(code)
                elif source == "map" and kind == KIND_MAP:
                    if place == _PROPERTIES:
                        made[name] = self.entries(code, KIND_STRING, True)
                    else:
                        made[name] = self.entries(code, KIND_SYMBOL, False)
                else:
                    raise RareError


def plain_message(octets: bytes, message_format: int) -> Any:
    """Write the bytes of a message, or None where `plain` has to."""
    reader = OctetsReader.__new__(OctetsReader)
    reader.begin(octets, 0, UNLIMITED)
    made = {"message_format": message_format} if message_format else {}
    try:
        reader.sections(made)
    except READ_FAULTS:
        return None
    except RareError:
        return None
    return made


def plain_octets(octets: bytes) -> Any:
    """Write the bytes of one value.

    Raises:
        DecodeError: the bytes are no value.
    """
    reader = OctetsReader.__new__(OctetsReader)
    reader.begin(octets, 0, UNLIMITED)
    try:
        return reader.item()
    except READ_FAULTS:
        pass
    except RareError:
        pass
    return generic(decode_value(octets, limits=UNLIMITED))


class OctetsWriter(ValueWriter):
    """Writes the bytes of plain JSON; ValueError for all that is wrong or rare."""

    def item(self, plain: Any) -> None:
        """Write a value of any type."""
        kind = type(plain)
        if kind is str:
            self.string(plain)
        elif kind is int:
            self.integer(KIND_LONG, plain)
        elif kind is dict:
            self.mapping(plain)
        elif kind is list:
            self.items(plain)
        elif kind is float:
            self.double(plain)
        elif plain is None:
            self.octet(0x40)
        elif kind is bool:
            self.octet(0x41 if plain else 0x42)
        else:
            raise ValueError

    def items(self, plain: Any) -> None:
        """Write a list."""
        mark = self.open()
        for item in plain:
            self.item(item)
        if plain:
            self.close(mark, 0xC0, len(plain))
        else:
            self.depth -= 1
            self.drop_compound(mark)
            self.octet(0x45)

    def mapping(self, plain: Any) -> None:
        """Write an object: a map whose keys are strings, or a value with the marker of its type."""
        if len(plain) == 1:
            for name in plain:
                if type(name) is str and name.startswith("$"):
                    self.marker(plain, name, plain[name])
                    return
        self.entries(plain, KIND_STRING)

    def entries(self, plain: Any, wanted: int) -> None:
        """Write a map from an object, with keys of this kind."""
        mark = self.open()
        for key, item in plain.items():
            if type(key) is not str or key.startswith("$"):
                raise ValueError
            if wanted == KIND_STRING:
                self.string(key)
            else:
                self.symbol(key)
            self.item(item)
        self.close(mark, 0xC1, 2 * len(plain))

    def marker(self, plain: Any, name: str, content: Any) -> None:
        """Write a value that names its type."""
        kind = _MARKED.get(name, 0)
        have = type(content)
        self.enter()
        if (
            kind == KIND_TIMESTAMP
            or (have is int and KIND_UBYTE <= kind <= KIND_LONG)
            or (have is str and kind in {KIND_SYMBOL, KIND_BINARY})
        ):
            self.natural(kind, content)
        elif have is str and name == _BASE64:
            self.text(base64.b64decode(content, validate=True), 0xA0)
        elif have is str and name == _HEX:
            self.text(bytes.fromhex(content), 0xA0)
        elif have is float and kind == KIND_DOUBLE:
            self.double(content)
        elif have is float and kind == KIND_FLOAT and not math.isnan(content):
            self.plain(kind, content)
        elif have is str and kind == KIND_UUID:
            self.plain(kind, uuid.UUID(content))
        else:
            reader = PlainReader()
            reader.depth = self.depth - 1
            self.value(reader.generic(plain))
        self.depth -= 1

    def natural(self, kind: int, plain: Any) -> None:
        """Write a value whose type is known."""
        have = type(plain)
        if have is str and kind in {KIND_STRING, KIND_ADDRESS, KIND_MESSAGE_ID}:
            self.string(plain)
        elif have is int and KIND_UBYTE <= kind <= KIND_LONG:
            self.integer(kind, plain)
        elif have is str and kind == KIND_SYMBOL:
            self.symbol(plain)
        elif have is bool and kind == KIND_BOOLEAN:
            self.octet(0x41 if plain else 0x42)
        elif kind == KIND_TIMESTAMP and have is str:
            self.integer(kind, timestamp_of(datetime.datetime.fromisoformat(plain)))
        elif kind == KIND_TIMESTAMP and have is int:
            self.integer(kind, plain)
        elif have is str and kind == KIND_BINARY:
            self.text(plain.encode("utf-8"), 0xA0)
        elif have is int and kind == KIND_MESSAGE_ID:
            self.integer(KIND_ULONG, plain)
        else:
            raise ValueError

    def composite(self, place: int, plain: Any) -> None:
        """Write the list of a composite from an object of its fields."""
        places = _FIELDS[place]
        kinds = _KINDS[place]
        held: Any = [None] * len(kinds)
        for key, item in plain.items():
            i = places.get(key, -1)
            if i < 0 or held[i] is not None:
                raise ValueError
            held[i] = item
        mark = self.open()
        count = 0  # of the fields written
        for i in range(len(kinds)):
            item = held[i]
            if item is None:
                continue
            if i > count:
                self.add(_NULLS[i - count])
            count = i + 1
            if type(item) is dict:
                if "$null" in item:
                    raise ValueError
                self.mapping(item)
            else:
                self.natural(kinds[i], item)
        if count:
            self.close(mark, 0xC0, count)
        else:
            self.depth -= 1
            self.drop_compound(mark)
            self.octet(0x45)

    def section(self, place: int, plain: Any) -> None:
        """Write a section."""
        self.add(_HEADS[place])
        source = _SOURCES[place]
        kind = type(plain)
        if place == _VALUE:
            self.item(plain)
        elif kind is dict and len(_NAMES[place]):
            self.composite(place, plain)
        elif kind is dict and source == "map":
            if len(plain) == 1 and "$map" in plain:
                self.mapping(plain)
            else:
                self.entries(plain, KIND_STRING if place == _PROPERTIES else KIND_SYMBOL)
        elif source == "binary":
            if kind is dict:
                self.mapping(plain)
            else:
                self.natural(KIND_BINARY, plain)
        elif kind is list and source == "list" and not len(_NAMES[place]):
            self.items(plain)
        else:
            raise ValueError

    def message(self, plain: Any) -> int:
        """Write the sections of a message in their order; return its message-format."""
        if type(plain) is not dict:
            raise ValueError
        given: Any = [None] * (_COUNT + 1)
        has_value = False
        for name, item in plain.items():
            place = _SECTIONS.get(name, -1)
            if place < 0 or given[place] is not None:
                raise ValueError
            given[place] = item
            # Any other section that is null is none.
            if place == _VALUE:
                has_value = True
        message_format = given[_COUNT]
        if message_format is None:
            message_format = 0
        if type(message_format) is not int or not 0 <= message_format <= _UINT_MAX:
            raise ValueError
        bodies = 0
        for place in range(_COUNT):
            item = given[place]
            if item is None and not (place == _VALUE and has_value):
                continue
            if PLACES[place] == 5:
                bodies += 1
                if bodies > 1:
                    raise ValueError
            self.section(place, item)
        return message_format


def octets_of_message(plain: Any) -> Any:
    """Return the bytes of a message and its message-format, or None where `plain` has to."""
    writer = OctetsWriter(False)
    try:
        message_format = writer.message(plain)
    except (ValueError, OverflowError, RecursionError):
        return None
    return writer.finish(), UInt(message_format)


def octets_of_value(plain: Any) -> Any:
    """Return the bytes of a value, or None where `plain` has to."""
    writer = OctetsWriter(False)
    try:
        writer.item(plain)
    except (ValueError, OverflowError, RecursionError):
        return None
    return writer.finish()
