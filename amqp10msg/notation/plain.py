# cython: boundscheck=True, wraparound=False, annotation_typing=False, infer_types=True
"""The plain JSON notation: messages in a form that is easy to read and to write by hand.

    {
      "header": {"durable": true, "ttl": 60000},
      "properties": {"message_id": "m-1", "creation_time": "2024-02-29T12:00:00.000Z"},
      "application_properties": {"tenant": "x", "attempt": {"$int": 3}},
      "amqp_value": "hello"
    }

The names of sections and fields are those of the specification, with underscores instead of dashes,
so that tools need not quote them. The reader also accepts dashes. Null fields are omitted.

If the declaration of a field determines the type of its value, the value is written without a type.
In other places, null, true, false, strings and lists are written as in JSON; an integer is a long;
a number with a point or an exponent is a double; an object is a map with string keys (symbols in
the annotations and the footer). Other values are written with a marker, which names their type:

==================================== =============================================================
``{"$uint": 5}``                     and all other integer types; the reader also accepts digits in
                                     a string
``{"$float": 1.5}``                  and ``$double``; also ``"NaN"``, ``"Infinity"`` and
                                     ``"-Infinity"``, or the bits, as in ``"0x7fc00001"``
``{"$decimal64": "1.50"}``           and ``$decimal32`` and ``$decimal128``; the bits, if the number
                                     has several encodings
``{"$timestamp": "2024-02-29T…Z"}``  ISO 8601; milliseconds outside of the years 1 to 9999
``{"$symbol": "a"}``                 and ``$string``, ``$char``, ``$uuid``
``{"$binary": "text"}``              bytes that are readable UTF-8; other bytes are
                                     ``{"$base64": "AAEC"}``; the reader also accepts
                                     ``{"$hex": "000102"}``
``{"$map": [[key, value], …]}``      a map that an object cannot represent
``{"$array": "int", "values": […]}`` with ``"code": "0x71"`` if that is not the smallest
                                     constructor, and ``"descriptors": […]`` if the elements are
                                     described
``{"$described": [descriptor, …]}``  the descriptor and the value
``{"$rejected": {"error": …}}``      a composite, with its name as the marker
==================================== =============================================================

``data`` is text or ``{"$base64": …}``. The reader also accepts ``body`` instead of ``data``,
``amqp_sequence`` and ``amqp_value``, with the rules of `Message`: bytes are data, other values are
an amqp-value. ``message_format`` is added to the sections if it is not 0.

A message with several body sections, or a message that was decoded with ``strict=False`` and
violates the specification, is written as ``{"sections": [[name, content], …]}``, in wire order. In
this form, a value of the wrong type for its section is written with a marker. A value that is not a
section has the name ``unknown``, and a section whose bytes are not exactly one value has the name
``raw``, and its bytes as content.

The reader returns a message that is equal to the message that was written.
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
from amqp10msg.notation._common import STACK_EXCEEDED_TEXT, default_code, sections_of
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
    KIND_OF_FORMAT_CODE,
    KIND_OF_TYPE_NAME,
    KIND_STRING,
    KIND_SYMBOL,
    KIND_TIMESTAMP,
    KIND_UBYTE,
    KIND_ULONG,
    KIND_UUID,
    TYPE_NAME_OF_KIND,
)
from amqp10msg.wire.kernel.value_reader import ValueReader, decode_value
from amqp10msg.wire.limits import UNLIMITED


class CompositeFields:
    """The declared fields of a composite, in wire order.

    Attributes:
        marker: ``$`` and the name of the composite.
        names: the names of the fields, with underscores.
        kinds: the kernel's kind numbers of the fields' types.
        multiple: for each field, 1 if it may hold several values, else 0.
        indexes: the index of each field by its name, with underscores and with dashes.
    """

    def __init__(self, entry: Composite) -> None:
        self.marker = "$" + entry.name.replace("-", "_")
        self.names = [row.name for row in entry.fields]
        self.kinds = entry.spec.kinds
        self.multiple = bytes([row.multiple for row in entry.fields])
        self.indexes = {
            name: index
            for index, row in enumerate(entry.fields)
            for name in (row.name, row.wire_name)
        }


#: The `CompositeFields` of each composite that was used before, by its numeric descriptor.
_FIELDS_BY_COMPOSITE_CODE: dict[int, Any] = {}


class PlainSectionSpec:
    """The representation of a section in plain JSON.

    Attributes:
        name: the name of the section, with underscores.
        position: the position of the section in the order of a message.
        head: the encoded descriptor.
        source: the kernel's kind number of the section's value; 0 for any kind.
        keys: the kernel's kind number of the keys, if the value is a map.
        declared_fields: the fields, if the section is a composite; else None.
    """

    def __init__(self, kind: SectionKind) -> None:
        self.name = kind.name.replace("-", "_")
        self.position = kind.order
        self.head = b"\x00\x53" + bytes((kind.code,))
        self.source = 0 if kind.source == "*" else KIND_OF_TYPE_NAME[kind.source]
        self.keys = KIND_STRING if kind.name == "application-properties" else KIND_SYMBOL
        self.declared_fields = (
            CompositeFields(COMPOSITES[kind.code]) if kind.code in COMPOSITES else None
        )


#: The specification of each section, by descriptor code minus `_FIRST_SECTION_CODE`.
SECTION_SPECS = [PlainSectionSpec(kind) for kind in KINDS]
#: The descriptor code of the first section.
_FIRST_SECTION_CODE = KINDS[0].code
#: The markers of the types, by format code.
_MARKER_BY_CODE = [f"${TYPE_NAME_OF_KIND[kind]}" if kind else "" for kind in KIND_OF_FORMAT_CODE]
_DOLLAR_BYTE = ord("$")
_INFINITY = math.inf


def composite_fields(entry: Composite) -> Any:
    """Return the cached `CompositeFields` of a composite."""
    declared_fields = _FIELDS_BY_COMPOSITE_CODE.get(entry.code)
    if declared_fields is None:
        declared_fields = _FIELDS_BY_COMPOSITE_CODE[entry.code] = CompositeFields(entry)
    return declared_fields


def to_plain(value: Any) -> Any:
    """Return a message or a value as plain JSON.

    Args:
        value: a `Message`, or a value that `encode_value` accepts.

    Returns:
        A document for `json.dumps`: dicts, lists, str, int, finite floats, bool and None.

    Raises:
        EncodeError: the value has no AMQP type, or is out of its range.
    """
    try:
        if isinstance(value, Message):
            return plain_of(value.encode(), value)
        return plain_of(encode_value(value), None)
    except RecursionError:
        raise EncodeError(STACK_EXCEEDED_TEXT) from None


def plain_of(octets: bytes, message: Any) -> Any:
    """Return the plain JSON of an encoded message or value.

    `message` is the decoded message; None if `octets` is a value.
    """
    reader = PlainReader.__new__(PlainReader)
    reader.begin(octets, 0, UNLIMITED)
    if message is None:
        return reader.item()
    message_format = int(message.message_format)
    document = {"message_format": message_format} if message_format else {}
    # Sections of a leniently decoded message may contain bytes that are not exactly one value.
    if (not message._lenient or _is_strict(octets)) and reader.sections(document):
        return document
    document = {"message_format": message_format} if message_format else {}
    sections = reader.lenient_sections()
    names = {name for name, _ in sections}
    if len(names) == len(sections) and _is_strict(octets):
        document.update(sections)
    else:
        document["sections"] = sections
    return document


def _is_strict(octets: bytes) -> bool:
    """Return whether strict decoding accepts a message."""
    try:
        Message.decode(octets, limits=UNLIMITED)
    except DecodeError:
        return False
    return True


class PlainReader(ValueReader):
    """Converts encoded AMQP values, which were decoded before, to plain JSON."""

    def item(self) -> Any:
        """Convert one value of any type."""
        return self.generic(self.buf[self.advance(1)])

    def generic(self, code: int) -> Any:
        """Convert a value of any type, whose format code was read, with a marker if needed."""
        kind = KIND_OF_FORMAT_CODE[code]
        if kind in {KIND_STRING, KIND_LONG, KIND_BOOLEAN, KIND_NULL}:
            return self.read(code)
        if kind == KIND_LIST:
            return self.values(code)
        if kind == KIND_MAP:
            return self.entries(code, KIND_STRING)
        if kind == KIND_DOUBLE:
            number = self.f64(self.pos)
            if -_INFINITY < number < _INFINITY:
                self.advance(8)
                return number
        if code == 0:
            return self.described_value(True)
        return self.marked(code)

    def marked(self, code: int) -> Any:
        """Convert a value whose format code was read, always with the marker of its type."""
        kind = KIND_OF_FORMAT_CODE[code]
        if kind == KIND_LIST:
            return {"$list": self.values(code)}
        if kind == KIND_MAP:
            outer = self.descend(code)
            return self.pairs([], self.count >> 1, outer)
        if kind == KIND_ARRAY:
            return self.array(code)
        if code == 0:
            return self.described_value(False)
        content = self.unmarked(kind, code)
        return content if type(content) is dict else {_MARKER_BY_CODE[code]: content}

    def unmarked(self, kind: int, code: int) -> Any:
        """Convert a value whose format code was read, without a marker.

        The caller writes the type elsewhere, or a declaration determines it.
        """
        if kind in {KIND_STRING, KIND_BOOLEAN, KIND_NULL}:
            return self.read(code)
        if KIND_UBYTE <= kind <= KIND_LONG:
            return self.number(code)
        if kind == KIND_SYMBOL:
            pos = self.span(code)
            return self.buf[pos : self.pos].decode("ascii")
        if kind == KIND_TIMESTAMP:
            return _plain_time(self.number(code))
        if kind == KIND_BINARY:
            pos = self.span(code)
            return _plain_binary(self.octets(pos, self.pos))
        if kind == KIND_UUID:
            pos = self.advance(16)
            digits = self.octets(pos, self.pos).hex()
            return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
        if kind == KIND_FLOAT:
            pos = self.advance(4)
            return _plain_float(self.octets(pos, self.pos))
        if kind == KIND_DOUBLE:
            pos = self.advance(8)
            number = self.f64(pos)
            if -_INFINITY < number < _INFINITY:
                return number
            return _plain_non_finite(number, self.octets(pos, self.pos))
        if KIND_LIST <= kind <= KIND_ARRAY:
            return self.generic(code)
        value = self.read(code)
        return str(value) if kind == KIND_CHAR else _plain_decimal(value)

    def values(self, code: int) -> Any:
        """Convert a list."""
        items: Any = []
        if code == 0x45:
            return items
        outer = self.descend(code)
        for _ in range(self.count):
            items.append(self.generic(self.buf[self.advance(1)]))
        self.ascend(outer)
        return items

    def entries(self, code: int, key_kind: int) -> Any:
        """Convert a map.

        The result is an object if all keys are of the kind `key_kind` and do not start with ``$``.
        Otherwise the result has the marker ``$map``.
        """
        outer = self.descend(code)
        count = self.count >> 1
        converted: Any = {}
        for i in range(count):
            start = self.advance(1)
            code = self.buf[start]
            pos = self.span(code) if KIND_OF_FORMAT_CODE[code] == key_kind else -1
            if pos < 0 or (self.pos > pos and self.buf[pos] == _DOLLAR_BYTE):
                self.pos = start
                is_text = key_kind == KIND_STRING
                pairs = [[k if is_text else {"$symbol": k}, converted[k]] for k in converted]
                return self.pairs(pairs, count - i, outer)
            if key_kind == KIND_STRING:
                key = self.buf[pos : self.pos].decode("utf-8")
            else:
                key = self.buf[pos : self.pos].decode("ascii")
            converted[key] = self.generic(self.buf[self.advance(1)])
        self.ascend(outer)
        return converted

    def pairs(self, converted_pairs: Any, pair_count: int, outer: int) -> Any:
        """Convert the last `pair_count` pairs of a map; return the map with the marker ``$map``.

        `converted_pairs` has the pairs that were already converted. `outer` is the result of
        `descend`.
        """
        for _ in range(pair_count):
            key = self.generic(self.buf[self.advance(1)])
            converted_pairs.append([key, self.generic(self.buf[self.advance(1)])])
        self.ascend(outer)
        return {"$map": converted_pairs}

    def array(self, code: int) -> Any:
        """Convert an array."""
        start = self.pos
        self.enter(start)
        pos = self.span(code)
        stop = self.pos
        head = b"\xe0" if code == 0xE0 else b"\xf0"
        count = self.buf[pos] if code == 0xE0 else self.u32(pos)
        self.pos = pos + (1 if code == 0xE0 else 4)
        descriptors = []
        code = self.buf[self.advance(1)]
        while code == 0:
            descriptors.append(self.item())
            code = self.buf[self.advance(1)]
        # Omit the constructor if it is the encoder's default. That is certain if it has a one-byte
        # size, or if it has a four-byte size and an element exceeds `_FOUR_BYTE_SIZE_THRESHOLD`,
        # because no encoding of a value has nine times the minimum size. In other cases,
        # `default_code` encodes the elements again, which is slow for nested arrays.
        is_default = code in _ONE_BYTE_SIZE_CODES
        is_long = code > _ONE_BYTE_SIZE_CODES[0] and code & 0x10
        kind = KIND_OF_FORMAT_CODE[code]
        values = []
        for _ in range(count):
            if is_long and self.u32(self.pos) > _FOUR_BYTE_SIZE_THRESHOLD:
                is_default = True
            values.append(self.unmarked(kind, code))
        self.pos = stop
        self.depth += 1
        marked_array: Any = {"$array": TYPE_NAME_OF_KIND[kind]}
        if not is_default:
            octets = head + self.buf[start:stop]
            if default_code(decode_value(octets, limits=UNLIMITED)) != code:
                marked_array["code"] = f"0x{code:02x}"
        if descriptors:
            marked_array["descriptors"] = descriptors
        marked_array["values"] = values
        return marked_array

    def described_value(self, is_generic: bool) -> Any:
        """Convert a described value.

        With `is_generic`, a known composite is converted to an object of its fields, if possible.
        """
        start = self.pos - 1
        self.enter(start)
        code = self.buf[self.advance(1)]
        if is_generic and KIND_OF_FORMAT_CODE[code] == KIND_ULONG:
            pos = self.pos
            entry = find_composite(self.number(code))
            inner = self.buf[self.advance(1)]
            if entry is not None and KIND_OF_FORMAT_CODE[inner] == KIND_LIST:
                list_pos = self.pos
                self.pos = start
                self.skip()
                if _is_composite(self.buf[start : self.pos]):
                    declared_fields = composite_fields(entry)
                    self.pos = list_pos
                    composite = {declared_fields.marker: self.fields(declared_fields, inner)}
                    self.depth += 1
                    return composite
            self.pos = pos
        pair = [self.generic(code), self.item()]
        self.depth += 1
        return {"$described": pair}

    def fields(self, declared_fields: Any, code: int) -> Any:
        """Convert the list of a composite to an object without null fields.

        A list with more values than declared fields is converted as a list.
        """
        converted: Any = {}
        if code == 0x45:
            return converted
        start = self.pos
        outer = self.descend(code)
        names = declared_fields.names
        kinds = declared_fields.kinds
        count = self.count
        if count > len(names):
            self.pos = start
            self.end = outer
            self.depth += 1
            return self.marked(code)
        for i in range(count):
            code = self.buf[self.advance(1)]
            if code == 0x40:
                continue
            wire_kind = KIND_OF_FORMAT_CODE[code]
            kind = kinds[i]
            if wire_kind == kind or (
                kind == KIND_MESSAGE_ID and wire_kind in {KIND_STRING, KIND_ULONG}
            ):
                converted[names[i]] = self.unmarked(wire_kind, code)
            elif kind in {KIND_ADDRESS, KIND_ANY}:
                converted[names[i]] = self.generic(code)
            elif kind == KIND_FIELDS and wire_kind == KIND_MAP:
                converted[names[i]] = self.entries(code, KIND_SYMBOL)
            else:
                content = self.marked(code)
                # Write only the list of elements, if the field's declaration implies their type.
                is_bare = (
                    declared_fields.multiple[i]
                    and wire_kind == KIND_ARRAY
                    and [*content] == ["$array", "values"]
                )
                if is_bare and content["$array"] == TYPE_NAME_OF_KIND[kind]:
                    content = content["values"]
                converted[names[i]] = content
        self.ascend(outer)
        return converted

    def section(self, spec: Any) -> Any:
        """Convert the value of a section, with a marker if it is of the wrong type."""
        code = self.buf[self.advance(1)]
        kind = KIND_OF_FORMAT_CODE[code]
        if spec.source == 0:
            return self.generic(code)
        if kind != spec.source:
            return self.marked(code)
        if kind == KIND_MAP:
            return self.entries(code, spec.keys)
        if kind == KIND_BINARY:
            return self.unmarked(kind, code)
        return (
            self.values(code)
            if spec.declared_fields is None
            else self.fields(spec.declared_fields, code)
        )

    def sections(self, document: Any) -> bool:
        """Convert the sections of a message, and add them to the object `document`.

        Returns False if an object might not represent the message: sections are repeated or not in
        order, a descriptor is not the code of a section, or a map has keys that strict decoding
        might reject.
        """
        last = -1
        while self.pos < self.end:
            number = self.descriptor() - _FIRST_SECTION_CODE
            if not 0 <= number < len(SECTION_SPECS):
                return False
            spec = SECTION_SPECS[number]
            if spec.position <= last:
                return False
            last = spec.position
            content = self.section(spec)
            if spec.source == KIND_MAP and "$map" in content:
                return False
            document[spec.name] = content
        return True

    def lenient_sections(self) -> Any:
        """Convert the sections of a message to [name, content] pairs.

        The message may violate the specification.
        """
        pairs = []
        for section in sections_of(self.buf):
            if section.is_raw:
                pairs.append(["raw", _plain_binary(self.buf[section.start : section.end])])
                continue
            self.pos = section.value_start
            if section.kind is None:
                pairs.append(["unknown", self.item()])
            else:
                spec = SECTION_SPECS[section.kind.code - _FIRST_SECTION_CODE]
                pairs.append([spec.name, self.section(spec)])
        return pairs


#: The format codes with a one-byte size. Those with a four-byte size are higher by 0x10.
_ONE_BYTE_SIZE_CODES = b"\xa0\xa1\xa3\xc0\xc1\xe0"
#: An array element of more bytes than this cannot be encoded with a one-byte size; see
#: `PlainReader.array`.
_FOUR_BYTE_SIZE_THRESHOLD = 9 * 257


def _is_composite(octets: bytes) -> bool:
    """Return whether a described list can be written as a composite without loss."""
    values = decode_value(octets, limits=UNLIMITED).value
    if values and values[len(values) - 1] is None:
        return False
    try:
        decode_composite(octets)
    except DecodeError:
        return False
    return True


def _plain_time(milliseconds: int) -> Any:
    """Return a timestamp in ISO 8601, or the milliseconds outside of the years 1 to 9999."""
    try:
        time = _EPOCH + datetime.timedelta(0, 0, 0, milliseconds)
    except OverflowError:
        return milliseconds
    return time.isoformat("T", "milliseconds") + "Z"


_EPOCH = datetime.datetime(1970, 1, 1)  # noqa: DTZ001  (UTC, written as Z)


def _plain_binary(octets: bytes) -> Any:
    """Return bytes as text if they are readable UTF-8, else in base64."""
    try:
        text = octets.decode("utf-8")
    except UnicodeDecodeError:
        pass
    else:
        if text.isprintable() or not _CONTROL_PATTERN.search(text):
            return text
    return {"$base64": base64.b64encode(octets).decode("ascii")}


_CONTROL_PATTERN = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


def _plain_float(octets: bytes) -> Any:
    """Return an encoded float as the shortest decimal number that rounds to it.

    For example 0.1, not 0.10000000149011612.
    """
    value: float = _FLOAT_STRUCT.unpack(octets)[0]
    if not math.isfinite(value):
        return _plain_non_finite(value, octets)
    for digits in range(6, 10):
        number = float(f"{value:.{digits}g}")
        try:
            if _FLOAT_STRUCT.pack(number) == octets:
                return number
        except OverflowError:
            continue
    return value


_FLOAT_STRUCT = struct.Struct(">f")


def _plain_non_finite(value: float, octets: bytes) -> str:
    """Return an infinity or NaN as a name, or as its bits if it is a NaN with a payload or sign."""
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    quiet = b"\x7f\xc0" if len(octets) == _FLOAT_STRUCT.size else b"\x7f\xf8"
    return "NaN" if octets.rstrip(b"\x00") == quiet else f"0x{octets.hex()}"


def _plain_decimal(value: Any) -> str:
    """Return a decimal as a number; or as its bits, if the encoder would choose other bits."""
    number = str(value)
    same: bool = type(value).from_decimal(number).bits == value.bits
    return number if same else f"0x{value.bits:0{2 * value.width}x}"
