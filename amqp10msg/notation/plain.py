# cython: boundscheck=True, wraparound=False, annotation_typing=False, infer_types=True
"""Plain JSON: a message as people read it and write it by hand.

    {
      "header": {"durable": true, "ttl": 60000},
      "properties": {"message_id": "m-1", "creation_time": "2024-02-29T12:00:00.000Z"},
      "application_properties": {"tenant": "x", "attempt": {"$int": 3}},
      "amqp_value": "hello"
    }

Sections and fields have the names that they have in Python: those of the specification with
underscores, so that no tool needs to quote them; dashes are read too. Fields that are null are left
out.

Where a field's declaration gives the type, the value is written plainly. Elsewhere null, true,
false, a string and a list mean themselves, an integer is a long, a number with a point or an
exponent is a double, and an object is a map with strings for keys (symbols in the annotations and
the footer). All else names its type:

==================================== =============================================================
``{"$uint": 5}``                     so every integer type; digits in a string are read too
``{"$float": 1.5}``                  so ``$double``; also ``"NaN"``, ``"Infinity"`` and
                                     ``"-Infinity"``, and the bits, as in ``"0x7fc00001"``
``{"$decimal64": "1.50"}``           so ``$decimal32`` and ``$decimal128``; the bits where several
                                     mean one number
``{"$timestamp": "2024-02-29T…Z"}``  ISO 8601; milliseconds outside of the years 1 to 9999
``{"$symbol": "a"}``                 so ``$string``, ``$char``, ``$uuid``
``{"$binary": "text"}``              bytes that are readable UTF-8; others are
                                     ``{"$base64": "AAEC"}``; ``{"$hex": "000102"}`` is read too
``{"$map": [[key, value], …]}``      a map that no object holds
``{"$array": "int", "values": […]}`` with ``"code": "0x71"`` where that is not the smallest
                                     constructor, with ``"descriptors": […]`` where the elements
                                     are described
``{"$described": [descriptor, …]}``  the descriptor and the value
``{"$rejected": {"error": …}}``      a composite under its name
==================================== =============================================================

``data`` is text or ``{"$base64": …}``. Instead of ``data``, ``amqp_sequence`` and ``amqp_value``,
``body`` is read as `Message` takes one: bytes are data, all else is an amqp-value.
``message_format`` is added to the sections where it is not 0.

A message with several body sections, and one that was decoded with ``strict=False`` and breaks the
specification, is ``{"sections": [[name, content], …]}``, in the order of the wire; there a section
with the wrong content has a value with a marker, what is not a section is called ``unknown``, and
``raw`` has the bytes of a section that is not exactly a value.

Reading returns an equal message.
"""

from __future__ import annotations

import base64
import datetime
import math
import re
import struct
from typing import Any

from amqp10msg.composite import COMPOSITES, Composite, decode_composite, find_composite
from amqp10msg.message import Message
from amqp10msg.notation._common import TOO_DEEP, default_code, sections_of
from amqp10msg.sections import KINDS, SectionKind
from amqp10msg.wire.errors import DecodeError, EncodeError
from amqp10msg.wire.kernel import encode_value
from amqp10msg.wire.kernel.codes import (
    KIND_ADDRESS,
    KIND_ANY,
    KIND_ARRAY,
    KIND_BINARY,
    KIND_BOOLEAN,
    KIND_CHAR,
    KIND_DOUBLE,
    KIND_FIELDS,
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
    TYPE_IDS,
    TYPE_NAMES,
)
from amqp10msg.wire.kernel.value_reader import ValueReader, decode_value
from amqp10msg.wire.limits import UNLIMITED


class Rows:
    """The fields of a composite, as the wire orders them.

    Attributes:
        marker: the composite's name after ``$``.
        names: of the fields.
        kinds: of the fields, as the kernel numbers them.
        multiple: whether a field may hold several values, by field.
        places: of the fields by their names, in both spellings.
    """

    def __init__(self, entry: Composite) -> None:
        self.marker = "$" + entry.name.replace("-", "_")
        self.names = [row.name for row in entry.fields]
        self.kinds = entry.spec.kinds
        self.multiple = bytes([row.multiple for row in entry.fields])
        self.places = {
            name: place
            for place, row in enumerate(entry.fields)
            for name in (row.name, row.wire_name)
        }


#: By the descriptors of composites that were met.
_ROWS: dict[int, Any] = {}


class SectionForm:
    """How a section stands in plain JSON.

    Attributes:
        name: of the section.
        place: where it stands in a message.
        head: the bytes of its descriptor.
        source: the kind of what it holds, 0 for any.
        keys: the kind of its keys, where it is a map.
        rows: its fields, where it is a composite, else None.
    """

    def __init__(self, kind: SectionKind) -> None:
        self.name = kind.name.replace("-", "_")
        self.place = kind.order
        self.head = b"\x00\x53" + bytes((kind.code,))
        self.source = 0 if kind.source == "*" else TYPE_IDS[kind.source]
        self.keys = KIND_STRING if kind.name == "application-properties" else KIND_SYMBOL
        self.rows = Rows(COMPOSITES[kind.code]) if kind.code in COMPOSITES else None


#: By the descriptor's number, less that of the first one.
SECTIONS = [SectionForm(kind) for kind in KINDS]
_FIRST = KINDS[0].code
#: The marker of what each format code constructs.
_MARKERS = [f"${TYPE_NAMES[kind]}" if kind else "" for kind in KIND_OF]
_DOLLAR = ord("$")
_INFINITE = math.inf


def rows_of(entry: Composite) -> Any:
    """Return the fields of a composite."""
    rows = _ROWS.get(entry.code)
    if rows is None:
        rows = _ROWS[entry.code] = Rows(entry)
    return rows


def to_plain(value: Any) -> Any:
    """Write a message or a value in plain JSON.

    Args:
        value: a `Message`, or whatever `encode_value` takes.

    Returns:
        What `json.dumps` takes: dicts, lists, str, int, finite floats, bool and None.

    Raises:
        EncodeError: the value has no AMQP type, or is out of its range.
    """
    try:
        if isinstance(value, Message):
            return plain_of(value.encode(), value)
        return plain_of(encode_value(value), None)
    except RecursionError:
        raise EncodeError(TOO_DEEP) from None


def plain_of(octets: bytes, message: Any) -> Any:
    """Write the bytes of this message; of a value, where that is None."""
    reader = PlainReader.__new__(PlainReader)
    reader.begin(octets, 0, UNLIMITED)
    if message is None:
        return reader.item()
    message_format = int(message.message_format)
    made = {"message_format": message_format} if message_format else {}
    # What was decoded leniently may have values that are not exactly values.
    if (not message._lenient or _is_strict(octets)) and reader.sections(made):
        return made
    made = {"message_format": message_format} if message_format else {}
    sections = reader.odd_sections()
    names = {name for name, _ in sections}
    if len(names) == len(sections) and _is_strict(octets):
        made.update(sections)
    else:
        made["sections"] = sections
    return made


def _is_strict(octets: bytes) -> bool:
    try:
        Message.decode(octets, limits=UNLIMITED)
    except DecodeError:
        return False
    return True


class PlainReader(ValueReader):
    """Reads encoded values, which were accepted before, as what they are in plain JSON."""

    def item(self) -> Any:
        """Read one value of any type."""
        return self.generic(self.buf[self.take(1)])

    def generic(self, code: int) -> Any:
        """Read a value after its format code: plainly, or with the marker of its type."""
        kind = KIND_OF[code]
        if kind in {KIND_STRING, KIND_LONG, KIND_BOOLEAN, KIND_NULL}:
            return self.read(code)
        if kind == KIND_LIST:
            return self.values(code)
        if kind == KIND_MAP:
            return self.entries(code, KIND_STRING)
        if kind == KIND_DOUBLE:
            number = self.f64(self.pos)
            if -_INFINITE < number < _INFINITE:
                self.take(8)
                return number
        if code == 0:
            return self.described_value(True)
        return self.marked(code)

    def marked(self, code: int) -> Any:
        """Read a value after its format code with the marker of its type."""
        kind = KIND_OF[code]
        if kind == KIND_LIST:
            return {"$list": self.values(code)}
        if kind == KIND_MAP:
            outer = self.descend(code)
            return self.pairs([], self.count >> 1, outer)
        if kind == KIND_ARRAY:
            return self.array(code)
        if code == 0:
            return self.described_value(False)
        content = self.natural(kind, code)
        return content if type(content) is dict else {_MARKERS[code]: content}

    def natural(self, kind: int, code: int) -> Any:
        """Read a value whose type is known after its format code."""
        if kind in {KIND_STRING, KIND_BOOLEAN, KIND_NULL}:
            return self.read(code)
        if KIND_UBYTE <= kind <= KIND_LONG:
            return self.number(code)
        if kind == KIND_SYMBOL:
            pos = self.span(code)
            return self.buf[pos : self.pos].decode("ascii")
        if kind == KIND_TIMESTAMP:
            return _shown_time(self.number(code))
        if kind == KIND_BINARY:
            pos = self.span(code)
            return _shown_binary(self.octets(pos, self.pos))
        if kind == KIND_UUID:
            pos = self.take(16)
            digits = self.octets(pos, self.pos).hex()
            return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
        if kind == KIND_FLOAT:
            pos = self.take(4)
            return _shown_float(self.octets(pos, self.pos))
        if kind == KIND_DOUBLE:
            pos = self.take(8)
            number = self.f64(pos)
            if -_INFINITE < number < _INFINITE:
                return number
            return _not_finite(number, self.octets(pos, self.pos))
        if KIND_LIST <= kind <= KIND_ARRAY:
            return self.generic(code)
        value = self.read(code)
        return str(value) if kind == KIND_CHAR else _shown_decimal(value)

    def values(self, code: int) -> Any:
        """Read the values of a list."""
        made: Any = []
        if code == 0x45:
            return made
        outer = self.descend(code)
        for _ in range(self.count):
            made.append(self.generic(self.buf[self.take(1)]))
        self.ascend(outer)
        return made

    def entries(self, code: int, wanted: int) -> Any:
        """Read a map: as an object if all keys are of one kind, and none would be a marker."""
        outer = self.descend(code)
        count = self.count >> 1
        made: Any = {}
        for i in range(count):
            start = self.take(1)
            code = self.buf[start]
            pos = self.span(code) if KIND_OF[code] == wanted else -1
            if pos < 0 or (self.pos > pos and self.buf[pos] == _DOLLAR):
                self.pos = start
                is_text = wanted == KIND_STRING
                pairs = [[k if is_text else {"$symbol": k}, made[k]] for k in made]
                return self.pairs(pairs, count - i, outer)
            if wanted == KIND_STRING:
                key = self.buf[pos : self.pos].decode("utf-8")
            else:
                key = self.buf[pos : self.pos].decode("ascii")
            made[key] = self.generic(self.buf[self.take(1)])
        self.ascend(outer)
        return made

    def pairs(self, made: Any, left: int, outer: int) -> Any:
        """Read the pairs that are left of a map, which was entered, after those that were read."""
        for _ in range(left):
            key = self.generic(self.buf[self.take(1)])
            made.append([key, self.generic(self.buf[self.take(1)])])
        self.ascend(outer)
        return {"$map": made}

    def array(self, code: int) -> Any:
        """Read an array."""
        start = self.pos
        self.enter(start)
        pos = self.span(code)
        stop = self.pos
        head = b"\xe0" if code == 0xE0 else b"\xf0"
        count = self.buf[pos] if code == 0xE0 else self.u32(pos)
        self.pos = pos + (1 if code == 0xE0 else 4)
        descriptors = []
        code = self.buf[self.take(1)]
        while code == 0:
            descriptors.append(self.item())
            code = self.buf[self.take(1)]
        # Short elements keep the short constructor. No value is nine times as long as it must be,
        # so an element of this size needs the long one; that is seen without encoding it, once
        # for each array around it.
        is_default = code in _SHORT
        is_long = code > _SHORT[0] and code & 0x10
        kind = KIND_OF[code]
        values = []
        for _ in range(count):
            if is_long and self.u32(self.pos) > _SURELY_LONG:
                is_default = True
            values.append(self.natural(kind, code))
        self.pos = stop
        self.depth += 1
        made: Any = {"$array": TYPE_NAMES[kind]}
        if not is_default:
            octets = head + self.buf[start:stop]
            if default_code(decode_value(octets, limits=UNLIMITED)) != code:
                made["code"] = f"0x{code:02x}"
        if descriptors:
            made["descriptors"] = descriptors
        made["values"] = values
        return made

    def described_value(self, is_generic: bool) -> Any:
        """Read a described value, a generic one as a composite where it is one."""
        start = self.pos - 1
        self.enter(start)
        code = self.buf[self.take(1)]
        if is_generic and KIND_OF[code] == KIND_ULONG:
            pos = self.pos
            entry = find_composite(self.number(code))
            inner = self.buf[self.take(1)]
            if entry is not None and KIND_OF[inner] == KIND_LIST:
                at = self.pos
                self.pos = start
                self.skip()
                if _is_composite(self.buf[start : self.pos]):
                    rows = rows_of(entry)
                    self.pos = at
                    made = {rows.marker: self.fields(rows, inner)}
                    self.depth += 1
                    return made
            self.pos = pos
        pair = [self.generic(code), self.item()]
        self.depth += 1
        return {"$described": pair}

    def fields(self, rows: Any, code: int) -> Any:
        """Read the list of a composite, fields that are null left out; one too long as a list."""
        made: Any = {}
        if code == 0x45:
            return made
        start = self.pos
        outer = self.descend(code)
        names = rows.names
        kinds = rows.kinds
        count = self.count
        if count > len(names):
            self.pos = start
            self.end = outer
            self.depth += 1
            return self.marked(code)
        for i in range(count):
            code = self.buf[self.take(1)]
            if code == 0x40:
                continue
            have = KIND_OF[code]
            kind = kinds[i]
            if have == kind or (kind == KIND_MESSAGE_ID and have in {KIND_STRING, KIND_ULONG}):
                made[names[i]] = self.natural(have, code)
            elif kind in {KIND_ADDRESS, KIND_ANY}:
                made[names[i]] = self.generic(code)
            elif kind == KIND_FIELDS and have == KIND_MAP:
                made[names[i]] = self.entries(code, KIND_SYMBOL)
            else:
                content = self.marked(code)
                # An array that says no more than what the field declares.
                is_bare = (
                    rows.multiple[i] and have == KIND_ARRAY and [*content] == ["$array", "values"]
                )
                if is_bare and content["$array"] == TYPE_NAMES[kind]:
                    content = content["values"]
                made[names[i]] = content
        self.ascend(outer)
        return made

    def section(self, form: Any) -> Any:
        """Read the value of a section: as its content, or as what it is."""
        code = self.buf[self.take(1)]
        kind = KIND_OF[code]
        if form.source == 0:
            return self.generic(code)
        if kind != form.source:
            return self.marked(code)
        if kind == KIND_MAP:
            return self.entries(code, form.keys)
        if kind == KIND_BINARY:
            return self.natural(kind, code)
        return self.values(code) if form.rows is None else self.fields(form.rows, code)

    def sections(self, made: Any) -> bool:
        """Read the sections of a message into an object of them.

        False where they may be more than that holds: there are several of one kind, a descriptor
        has another form, or the keys of a map may be more than what a strict decoding takes.
        """
        last = -1
        while self.pos < self.end:
            number = self.descriptor() - _FIRST
            if not 0 <= number < len(SECTIONS):
                return False
            form = SECTIONS[number]
            if form.place <= last:
                return False
            last = form.place
            content = self.section(form)
            if form.source == KIND_MAP and "$map" in content:
                return False
            made[form.name] = content
        return True

    def odd_sections(self) -> Any:
        """Read the sections of a message that may break rules, as pairs of name and content."""
        made = []
        for section in sections_of(self.buf):
            if section.is_raw:
                made.append(["raw", _shown_binary(self.buf[section.start : section.end])])
                continue
            self.pos = section.value
            if section.kind is None:
                made.append(["unknown", self.item()])
            else:
                form = SECTIONS[section.kind.code - _FIRST]
                made.append([form.name, self.section(form)])
        return made


#: The constructors of elements that have a size, in the short form; the long ones are 0x10 more.
_SHORT = b"\xa0\xa1\xa3\xc0\xc1\xe0"
_SURELY_LONG = 9 * 257


def _is_composite(octets: bytes) -> bool:
    """Return whether a described list is exactly its composite, so that no part is lost."""
    values = decode_value(octets, limits=UNLIMITED).value
    if values and values[len(values) - 1] is None:
        return False
    try:
        decode_composite(octets)
    except DecodeError:
        return False
    return True


def _shown_time(milliseconds: int) -> Any:
    """Write a timestamp in ISO 8601; as the number that it is, outside of the years 1 to 9999."""
    try:
        moment = _EPOCH + datetime.timedelta(0, 0, 0, milliseconds)
    except OverflowError:
        return milliseconds
    return moment.isoformat("T", "milliseconds") + "Z"


_EPOCH = datetime.datetime(1970, 1, 1)  # noqa: DTZ001  (in UTC, whose offset is not written)


def _shown_binary(octets: bytes) -> Any:
    """Write bytes as text where they are readable text, else in base64."""
    try:
        text = octets.decode("utf-8")
    except UnicodeDecodeError:
        pass
    else:
        if text.isprintable() or not _CONTROLS.search(text):
            return text
    return {"$base64": base64.b64encode(octets).decode("ascii")}


_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


def _shown_float(octets: bytes) -> Any:
    """Write a float by its bits: as the shortest number that the nearest float is taken of.

    That is 0.1, not 0.10000000149011612.
    """
    value: float = _SINGLE.unpack(octets)[0]
    if not math.isfinite(value):
        return _not_finite(value, octets)
    for digits in range(6, 10):
        number = float(f"{value:.{digits}g}")
        try:
            if _SINGLE.pack(number) == octets:
                return number
        except OverflowError:
            continue
    return value


_SINGLE = struct.Struct(">f")


def _not_finite(value: float, octets: bytes) -> str:
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    quiet = b"\x7f\xc0" if len(octets) == _SINGLE.size else b"\x7f\xf8"
    return "NaN" if octets.rstrip(b"\x00") == quiet else f"0x{octets.hex()}"


def _shown_decimal(value: Any) -> str:
    """Write a decimal as the number that it is, by its bits where others mean the same number."""
    number = str(value)
    same: bool = type(value).from_decimal(number).bits == value.bits
    return number if same else f"0x{value.bits:0{2 * value.width}x}"
