# cython: language_level=3, boundscheck=True, wraparound=False, annotation_typing=False
"""Plain JSON from the bytes of values, each value visited once.

Runs as it is, and compiled with the C types of `_plain_octets.pxd`. What breaks rules, and what is
rare, such as several body sections, is left to `plain`.
"""

from __future__ import annotations

import math
from typing import Any

from amqp10msg.notation._plain_tables import (
    FIELD_KINDS,
    FIELD_NAMES,
    FIRST,
    PROPERTIES,
    SHOWN,
    SOURCES,
    VALUE,
)
from amqp10msg.notation._plain_writer import (
    generic,
    natural,
    shown_binary,
    shown_float,
    shown_time,
)
from amqp10msg.wire.kernel.codes import (
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
    TYPE_NAMES,
)
from amqp10msg.wire.kernel.value_reader import READ_FAULTS, ValueReader, decode_value
from amqp10msg.wire.limits import UNLIMITED

#: The marker of what each format code constructs.
_MARKERS = [f"${TYPE_NAMES[kind]}" if kind else "" for kind in KIND_OF]
_SHOWN, _SOURCES, _NAMES, _KINDS = SHOWN, SOURCES, FIELD_NAMES, FIELD_KINDS
_FIRST, _COUNT, _VALUE, _PROPERTIES = FIRST, len(SHOWN), VALUE, PROPERTIES
_INFINITE = math.inf
_DOLLAR = ord("$")


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
        outer = self.descend(code)
        made = [self.item() for _ in range(self.count)]
        self.ascend(outer)
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
            if KIND_OF[first] != KIND_STRING or (text < stop and self.buf[text] == _DOLLAR):
                return generic(self.read(code))
        return self.entries(code, KIND_STRING, False)

    def entries(self, code: int, wanted: int, simple: bool) -> Any:
        """Read a map whose keys are all of one kind; with `simple`, of values that hold none."""
        outer = self.descend(code)
        count = self.count
        made: Any = {}
        for _ in range(count >> 1):
            pos = self.take(1)
            code = self.buf[pos]
            if KIND_OF[code] != wanted:
                raise RareError
            pos = self.span(code)
            if self.pos > pos and self.buf[pos] == _DOLLAR:
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
        self.ascend(outer)
        if 2 * len(made) != count:
            raise RareError
        return made

    def fields(self, place: int) -> Any:
        """Read the list of a composite, the fields that are null left out."""
        code = self.buf[self.take(1)]
        made: Any = {}
        if code == 0x45:
            return made
        if code not in {0xC0, 0xD0}:
            raise RareError
        outer = self.descend(code)
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
        self.ascend(outer)
        return made

    def sections(self, made: Any) -> None:
        """Read the sections of a message that breaks no rule, each kind once."""
        last = -1
        while self.pos < self.end:
            place = self.descriptor() - _FIRST
            if not 0 <= place < _COUNT or PLACES[place] <= last:
                raise RareError
            last = PLACES[place]
            name = _SHOWN[place]
            source = _SOURCES[place]
            if place == _VALUE:
                made[name] = self.item()
            elif len(_NAMES[place]):
                made[name] = self.fields(place)
            else:
                code = self.buf[self.take(1)]
                kind = KIND_OF[code]
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
