# cython: language_level=3, boundscheck=True, wraparound=False, annotation_typing=False
"""The bytes of values from plain JSON, each value visited once.

Runs as it is, and compiled with the C types of `_plain_items.pxd`. What is written wrongly, and
what is rare, such as several body sections, is left to `plain`, which says what is wrong and where.
"""

from __future__ import annotations

import base64
import datetime
import math
import uuid
from typing import Any

from amqp10msg.notation._plain_reader import PlainReader
from amqp10msg.notation._plain_tables import (
    FIELD_KINDS,
    FIELD_NAMES,
    FIRST,
    PROPERTIES,
    SHOWN,
    SOURCES,
    VALUE,
)
from amqp10msg.notation.type_names import TYPES
from amqp10msg.wire.kernel.codes import (
    KIND_ADDRESS,
    KIND_BINARY,
    KIND_BOOLEAN,
    KIND_DOUBLE,
    KIND_FLOAT,
    KIND_LONG,
    KIND_MESSAGE_ID,
    KIND_STRING,
    KIND_SYMBOL,
    KIND_TIMESTAMP,
    KIND_UBYTE,
    KIND_ULONG,
    KIND_UUID,
    PLACE_BODY,
    PLACES,
    TYPE_IDS,
)
from amqp10msg.wire.kernel.value_writer import ValueWriter, timestamp_of
from amqp10msg.wire.primitives import UInt

#: The kinds by marker.
_MARKED = {f"${name}": TYPE_IDS[name] for name in TYPES.values()}
_BASE64, _HEX = "$base64", "$hex"

_SOURCES, _NAMES, _KINDS = SOURCES, FIELD_NAMES, FIELD_KINDS
_COUNT, _VALUE, _PROPERTIES = len(SHOWN), VALUE, PROPERTIES
_HEADS = [b"\x00\x53" + bytes((FIRST + place,)) for place in range(_COUNT)]
#: By name, in both spellings: the place of a section, and the next one for the message-format.
_SECTIONS = {
    name: place
    for place, kind in enumerate([*SHOWN, "message_format"])
    for name in (kind, kind.replace("_", "-"))
}
#: The places of fields by their names, in both spellings.
_FIELDS = [
    {name: place for place, field in enumerate(names) for name in (field, field.replace("_", "-"))}
    for names in FIELD_NAMES
]
_NULLS = [b"\x40" * n for n in range(32)]
_UINT_MAX = 2**32 - 1


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
            if PLACES[place] == PLACE_BODY:
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
