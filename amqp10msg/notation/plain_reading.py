# cython: boundscheck=True, wraparound=False, annotation_typing=False, infer_types=True
"""Reads plain JSON, which the module `plain` describes, and encodes its messages and values."""

from __future__ import annotations

import base64
import datetime
import decimal
import math
import re
import uuid
from typing import Any

from amqp10msg.composite import decode_composite, named_composite
from amqp10msg.message import Message
from amqp10msg.notation._common import (
    DEPTH_EXCEEDED_TEXT,
    MAX_DEPTH,
    STACK_EXCEEDED_TEXT,
    NotationError,
    describe,
    describe_encoded,
    item_step,
    message_of,
    misfit,
    mismatch,
)
from amqp10msg.notation.plain import SECTION_SPECS, composite_fields
from amqp10msg.notation.type_names import BIT_PATTERN_WIDTHS, TYPE_NAME_BY_CLASS, integer_range
from amqp10msg.wire.errors import DecodeError
from amqp10msg.wire.kernel.codes import (
    KIND_ADDRESS,
    KIND_ANY,
    KIND_ARRAY,
    KIND_BINARY,
    KIND_BOOLEAN,
    KIND_CHAR,
    KIND_DECIMAL32,
    KIND_DECIMAL128,
    KIND_DESCRIBED,
    KIND_DOUBLE,
    KIND_FIELDS,
    KIND_FLOAT,
    KIND_LIST,
    KIND_LONG,
    KIND_MAP,
    KIND_MESSAGE_ID,
    KIND_NULL,
    KIND_OF_TYPE_NAME,
    KIND_STRING,
    KIND_SYMBOL,
    KIND_TIMESTAMP,
    KIND_UBYTE,
    KIND_UINT,
    KIND_ULONG,
    KIND_UUID,
    PLACE_BODY,
    TYPE_NAME_OF_KIND,
)
from amqp10msg.wire.kernel.value_reader import decode_value
from amqp10msg.wire.kernel.value_writer import ValueWriter, shared_code, timestamp_of
from amqp10msg.wire.limits import UNLIMITED
from amqp10msg.wire.primitives import DECIMALS, FORMAT_CODES, Char, Float, Symbol, UInt

#: The `PlainSectionSpec` of each section, by its key in plain JSON.
_SECTION_SPECS = {spec.name: spec for spec in SECTION_SPECS}
_DATA, _VALUE = _SECTION_SPECS["data"], _SECTION_SPECS["amqp_value"]
_REPEATED_NAME_TEXT = "the name is used twice, with dashes and with underscores"
#: The keys of a message with underscores, by the keys with underscores and with dashes.
_KEY_BY_SPELLING = {
    name: key
    for key in (*_SECTION_SPECS, "message_format")
    for name in (key, key.replace("_", "-"))
}
#: The kernel's number of each AMQP type, by the type's marker in plain JSON, such as ``$uint``.
_KIND_BY_MARKER = {f"${name}": KIND_OF_TYPE_NAME[name] for name in TYPE_NAME_BY_CLASS.values()}
#: The markers of binaries, and the beginning of an error for another value.
_BINARY_MARKERS = ("$base64", "$hex", "$binary")
_BINARY_EXPECTATION = "expected text, $base64 or $hex"
#: The kernel's numbers of the compound types, by marker. An object without a marker is a map.
_COMPOUND_KIND_BY_MARKER = {"$list": KIND_LIST, "$map": KIND_MAP, "$array": KIND_ARRAY}


def from_plain(plain: Any) -> Message:
    """Read a message from plain JSON.

    Args:
        plain: a document as `to_plain` returns it for a message; it may be written by hand and
            parsed with `json.loads`.

    Raises:
        NotationError: the document is not a message in plain JSON, or the message violates the
            specification. The content of the key ``sections`` may violate the specification, but
            must be a sequence of encoded values. The error contains the path.
    """
    try:
        octets, message_format, is_listed = bytes_of_message(plain)
    except RecursionError:
        raise NotationError(STACK_EXCEEDED_TEXT) from None
    if is_listed:
        return message_of(octets, message_format=message_format)
    try:
        return Message.decode(octets, limits=UNLIMITED, message_format=message_format)
    except DecodeError as error:
        section_name, subpath = _SECTION_AND_SUBPATH.fullmatch(error.path).groups()  # type: ignore[union-attr]  # every path matches
        path = f"$.{section_name.replace('-', '_')}{subpath}"
        raise NotationError(error.reason, path) from None


_SECTION_AND_SUBPATH = re.compile(r"([^\[]*)(.*)", re.DOTALL)


def value_from_plain(plain: Any) -> Any:
    """Read a value from plain JSON, as `decode_value` returns it.

    Raises:
        NotationError: the document is not a value in plain JSON. The error contains the path.
    """
    try:
        return decode_value(bytes_of_value(plain), limits=UNLIMITED)
    except RecursionError:
        raise NotationError(STACK_EXCEEDED_TEXT) from None


def bytes_of_value(plain: Any) -> bytes:
    """Return the AMQP encoding of a value in plain JSON."""
    writer = _writer(0, _INITIAL_WRITER_DEPTH)
    try:
        writer.item(plain)
    except ValueError as error:
        raise _fault(error, "", 0, plain) from None
    if writer.first_encoding_error is not None:
        raise NotationError(writer.first_encoding_error)
    return writer.finish()  # type: ignore[no-any-return]  # the kernel returns Any


def bytes_of_message(plain: Any) -> Any:
    """Encode a message in plain JSON.

    Returns:
        The encoded message, its message-format, and whether the document has the key ``sections``.
    """
    if not isinstance(plain, dict):
        raise mismatch('expected an object such as {"amqp_value": "hello"}', plain)
    sections: Any = {}
    for key, item in plain.items():
        name = _KEY_BY_SPELLING.get(key) or str(key).replace("-", "_")
        if name in sections:
            raise NotationError(_REPEATED_NAME_TEXT, "$" + _field_step(key))
        sections[name] = item
    message_format = sections.pop("message_format", None)
    number = 0 if message_format is None else _parse_digits(message_format)
    if type(number) is not int or not 0 <= number <= UInt.max:
        raise _kind_error(KIND_UINT, message_format).within(_field_step("message_format"))
    writer = _writer(0, _INITIAL_WRITER_DEPTH)
    if sections.get("sections") is None:
        octets = writer.message(sections, True)
        if octets is None:
            ordered = {name: sections[name] for name in sorted(sections, key=_position_of)}
            try:
                octets = _writer(0, _INITIAL_WRITER_DEPTH).message(ordered, True)
            except NotationError:
                # If there are several errors, report the first one in the document.
                _writer(0, _INITIAL_WRITER_DEPTH).message(sections, False)
                raise
        return octets, UInt(number), False
    for key in sections:
        # A null section is omitted, except an amqp-value, which can be null.
        if key != "sections" and (sections[key] is not None or key == _VALUE.name):
            raise NotationError("sections must be the only key: it lists all sections")
    writer.listed_sections(sections["sections"])
    return writer.finish(), UInt(number), True


def _writer(level: int, depth: int) -> Any:
    """Return a new `PlainWriter` that starts at this nesting of JSON and of AMQP."""
    writer = PlainWriter.__new__(PlainWriter)
    writer.level = level
    writer.depth = writer.greatest_depth = depth
    writer.first_encoding_error = None
    return writer


#: The initial AMQP depth of a writer, which is so low that the kernel's limit is never reached,
#: since this module checks the depth itself. A level of JSON adds up to three levels of AMQP.
_INITIAL_WRITER_DEPTH = -4 * MAX_DEPTH
#: The maximum AMQP depth of a writer, counted from `_INITIAL_WRITER_DEPTH`.
_MAX_WRITER_DEPTH = _INITIAL_WRITER_DEPTH + MAX_DEPTH
#: The maximum number of nested lists and objects.
_MAX_JSON_LEVELS = MAX_DEPTH
_TOO_DEEP_TEXT = "values are nested more than 256 deep, or contain themselves"


class PlainWriter(ValueWriter):
    """Encodes plain JSON.

    An error in the document is raised as a ValueError without text, which `_fault` replaces by a
    `NotationError` that explains it. An error of the AMQP encoding, such as a duplicate key, has
    the lowest priority: it is kept in `first_encoding_error`, and raised after the section, array
    or composite has been encoded without another error.
    """

    level: int
    """The number of lists and objects that enclose the current value."""
    greatest_depth: int
    """The greatest AMQP depth so far."""
    first_encoding_error: Any
    """The text of the first error of the AMQP encoding, or None."""

    def record_depth(self, depth: int) -> None:
        """Record the AMQP depth of a value; set `first_encoding_error` if it is too deep."""
        if depth > self.greatest_depth:
            self.greatest_depth = depth
            if depth > _MAX_WRITER_DEPTH and self.first_encoding_error is None:
                self.first_encoding_error = _TOO_DEEP_TEXT

    def begin(self) -> int:
        """Start a compound, and return the mark for `close`."""
        mark = self.open()
        self.record_depth(self.depth)
        return mark

    def finish_part(self, writer: Any) -> bytes:
        """Return the bytes of another writer, and take over its depth and its encoding error.

        `writer` must have started at the current depth.
        """
        if self.first_encoding_error is None:
            self.first_encoding_error = writer.first_encoding_error
        self.record_depth(writer.greatest_depth)
        return writer.finish()  # type: ignore[no-any-return]  # the kernel returns Any

    def finish_whole(self, writer: Any) -> bytes:
        """Return the bytes of another writer, and take over its depth.

        `writer` must have started at `_INITIAL_WRITER_DEPTH`.

        Raises:
            NotationError: `writer` has an encoding error.
        """
        if writer.first_encoding_error is not None:
            raise NotationError(writer.first_encoding_error)
        self.record_depth(self.depth + writer.greatest_depth - _INITIAL_WRITER_DEPTH)
        return writer.finish()  # type: ignore[no-any-return]  # the kernel returns Any

    def item(self, plain: Any) -> None:
        """Encode a value of any type."""
        kind = type(plain)
        if kind is str:
            self.string(plain)
        elif kind is int:
            self.integer(KIND_LONG, plain)
        elif kind is dict or kind is list:
            self.level += 1
            if self.level > _MAX_JSON_LEVELS:
                raise NotationError(DEPTH_EXCEEDED_TEXT)
            if kind is list:
                self.items(plain)
            else:
                name = _marker_of(plain)
                if name is None:
                    self.entries(plain, KIND_STRING)
                else:
                    self.marker(plain, name)
            self.level -= 1
        elif kind is float:
            self.double(plain)
        elif plain is None:
            self.octet(0x40)
        elif kind is bool:
            self.octet(0x41 if plain else 0x42)
        else:
            raise ValueError

    def items(self, plain: Any) -> None:
        """Encode a list."""
        if not isinstance(plain, list):
            raise mismatch("expected a list", plain)
        if not plain:
            self.octet(0x45)
            return
        mark = self.begin()
        self.values(plain, "", False)
        self.close(mark, 0xC0, len(plain))

    def values(self, plain: Any, step: str, described: bool) -> None:
        """Encode the values of a list one after the other.

        Args:
            plain: the list.
            step: the path of the list, for errors.
            described: whether the values are descriptors, each of which needs 0x00 before it.
        """
        if not isinstance(plain, list):
            raise mismatch("expected a list", plain, step)
        index = 0
        try:
            for index in range(len(plain)):
                if described:
                    self.octet(0)
                self.item(plain[index])
        except ValueError as error:
            raise _fault(error, step + item_step(index), 0, plain[index]) from None

    def entries(self, plain: Any, key_kind: int) -> None:
        """Encode an object as a map with keys of the kind `key_kind`."""
        mark = self.begin()
        key = item = None
        is_key = True
        try:
            for key, item in plain.items():
                is_key = True
                self.unmarked(key_kind, key)
                is_key = False
                self.item(item)
        except ValueError as error:
            kind = key_kind if is_key else 0
            raise _fault(error, "[" + describe(key) + "]", kind, key if is_key else item) from None
        self.close(mark, 0xC1, 2 * len(plain))

    def marker(self, plain: Any, name: str) -> None:
        """Encode an object with the marker `name`."""
        kind = _KIND_BY_MARKER.get(name, 0)
        if kind == KIND_ARRAY:
            self.array(plain)
            return
        if len(plain) > 1:
            raise NotationError(f"{describe(name)} must be the only key: write such a map as $map")
        content = plain[name]
        if 0 < kind < KIND_LIST and type(content) is not dict:
            self.unmarked(kind, content)
            return
        if kind == 0 and name in _BINARY_MARKERS:
            self.text(_octets_of(name, content), 0xA0)
            return
        try:
            if kind == KIND_LIST:
                self.items(content)
            elif kind == KIND_MAP:
                self.map_of_pairs(content)
            elif kind == KIND_DESCRIBED:
                self.described(content)
            elif kind:
                self.unmarked(kind, content)
            else:
                self.composite(name, content)
        except ValueError as error:
            raise _fault(error, "." + name, kind, content) from None

    def described(self, content: Any) -> None:
        """Encode a described value."""
        if not isinstance(content, list) or len(content) != 2:
            raise mismatch("expected a list of the descriptor and the value", content)
        self.enter()
        self.record_depth(self.depth)
        self.octet(0)
        self.values(content, "", False)
        self.depth -= 1

    def map_of_pairs(self, content: Any) -> None:
        """Encode a map from a list of pairs, or from an object with any keys."""
        if isinstance(content, dict):
            self.entries(content, KIND_STRING)
            return
        if not isinstance(content, list):
            raise mismatch("expected a list of [key, value] pairs", content)
        mark = self.begin()
        earlier_keys: Any = set()
        index = side = 0  # side: -1 for the pair, 0 for its key, 1 for its value
        try:
            for index in range(len(content)):
                pair = content[index]
                side = -1
                if not isinstance(pair, list) or len(pair) != 2:
                    raise mismatch("expected a [key, value] pair", pair)
                side = 0
                # Skip the comparison for a single key: it would copy nested keys at each level.
                if len(content) > 1:
                    self.key(pair[0], earlier_keys)
                else:
                    self.item(pair[0])
                side = 1
                self.item(pair[1])
        except ValueError as error:
            if side < 0:
                raise _fault(error, item_step(index), 0, None) from None
            raise _fault(
                error, item_step(index) + item_step(side), 0, content[index][side]
            ) from None
        self.close(mark, 0xC1, 2 * len(content))

    def key(self, plain: Any, earlier_keys: Any) -> None:
        """Encode a map key, and check that its encoding is not in `earlier_keys`."""
        writer = _writer(self.level, self.depth)
        writer.item(plain)
        octets = self.finish_part(writer)
        if octets in earlier_keys and self.first_encoding_error is None:
            self.first_encoding_error = (
                f"duplicate map key {describe_encoded(octets, with_type_name=True)}"
            )
        earlier_keys.add(octets)
        self.add(octets)

    def array(self, plain: Any) -> None:
        """Encode an array."""
        unknown_keys = plain.keys() - {"$array", "values", "code", "descriptors"}
        if unknown_keys:
            raise NotationError(
                f"an array has no {describe(min(unknown_keys))}: it has values, code, descriptors"
            )
        name = plain["$array"]
        kind = _KIND_BY_MARKER.get(f"${name}", 0) if isinstance(name, str) else 0
        if kind in {0, KIND_DESCRIBED}:
            raise mismatch("expected the name of the elements' type", name)
        code = _code_of(name, plain["code"]) if "code" in plain else 0
        whole = _writer(self.level, _INITIAL_WRITER_DEPTH)
        mark = whole.begin()
        descriptors = _writer(self.level, whole.depth)
        descriptors.values(plain.get("descriptors", []), ".descriptors", True)
        elements = whole.elements(kind, plain.get("values", []), ".values")
        if code == 0:
            code = shared_code(kind, elements)
        body = _writer(self.level, whole.depth)
        for index in range(len(elements)):
            if not body.element(code, elements[index]):
                if whole.first_encoding_error is None:
                    whole.first_encoding_error = misfit(elements[index], code, with_type_name=True)
                break
        whole.add(whole.finish_part(descriptors))
        whole.octet(code)
        whole.add(body.finish())
        whole.close(mark, 0xE0, len(elements))
        self.add(self.finish_whole(whole))

    def elements(self, kind: int, plain: Any, step: str) -> Any:
        """Return the elements of an array, each encoded with its own constructor."""
        if not isinstance(plain, list):
            raise mismatch("expected a list", plain, step)
        encoded_elements = []
        index = 0
        try:
            for index in range(len(plain)):
                writer = _writer(self.level, self.depth)
                writer.unmarked(kind, plain[index])
                encoded_elements.append(self.finish_part(writer))
        except ValueError as error:
            raise _fault(error, step + item_step(index), kind, plain[index]) from None
        return encoded_elements

    def composite(self, name: str, content: Any) -> None:
        """Encode a composite with the marker `name`, and check it against its declaration."""
        entry = named_composite(name[1:].replace("_", "-"))
        if entry is None:
            raise NotationError(
                f"there is no marker {name}: use $ and the name of a type or composite, or "
                "write a map with such keys as $map"
            )
        if isinstance(content, dict) and _marker_of(content) is not None:
            raise mismatch("expected an object of fields", content)
        writer = _writer(self.level, _INITIAL_WRITER_DEPTH)
        writer.enter()
        writer.record_depth(writer.depth)
        writer.octet(0)
        writer.integer(KIND_ULONG, entry.code)
        writer.list_of_fields(composite_fields(entry), content)
        octets = self.finish_whole(writer)
        try:
            decode_composite(octets)
        except DecodeError as error:
            raise NotationError(error.reason) from None
        self.add(octets)

    def list_of_fields(self, declared_fields: Any, content: Any) -> None:
        """Encode an object with the fields of a composite as a list."""
        if not isinstance(content, dict):
            raise mismatch("expected an object of fields", content)
        indexes = declared_fields.indexes
        count = 0
        last = -1
        for key, item in content.items():
            i = indexes.get(key, -1)
            if i <= last:
                self.unordered_fields(declared_fields, content)
                return
            last = i
            if item is not None and (
                type(item) is not dict or item != _MARKED_NULL or self.level >= _MAX_JSON_LEVELS
            ):
                count = i + 1
        if count == 0:
            self.octet(0x45)
            return
        mark = self.begin()
        last = 0
        key = item = None
        try:
            for key, item in content.items():
                i = indexes[key]
                if i >= count:
                    break  # this field and all later fields are null
                while last < i:
                    self.octet(0x40)
                    last += 1
                last += 1
                self.field(declared_fields, i, item)
        except ValueError as error:
            raise _field_fault(error, declared_fields, key, item) from None
        self.close(mark, 0xC0, count)

    def unordered_fields(self, declared_fields: Any, content: Any) -> None:
        """Encode the fields of a composite in any order and spelling; report an unknown field."""
        written: Any = [None] * len(declared_fields.names)
        for key, item in content.items():
            i = declared_fields.indexes.get(str(key).replace("-", "_"), -1)
            if i < 0:
                raise NotationError(
                    f"there is no such field: use one of {', '.join(declared_fields.names)}",
                    "$" + _field_step(key),
                )
            if written[i] is not None:
                raise NotationError(_REPEATED_NAME_TEXT, "$" + _field_step(key))
            writer = _writer(self.level, self.depth + 1)
            try:
                writer.field(declared_fields, i, item)
            except ValueError as error:
                raise _field_fault(error, declared_fields, key, item) from None
            written[i] = writer
        encoded = [b"\x40" if writer is None else self.finish_part(writer) for writer in written]
        count = len(encoded)
        while count and encoded[count - 1] == b"\x40":
            count -= 1
        if count == 0:
            self.octet(0x45)
            return
        mark = self.begin()
        self.add(b"".join(encoded[:count]))
        self.close(mark, 0xC0, count)

    def field(self, declared_fields: Any, i: int, plain: Any) -> None:
        """Encode the value of the field with the index `i`."""
        kind = declared_fields.kinds[i]
        value_type = type(plain)
        if value_type is str or value_type is int or value_type is bool:
            self.unmarked(kind, plain)
        elif plain is None or (isinstance(plain, dict) and _marker_of(plain) is not None):
            self.item(plain)
        elif isinstance(plain, list) and declared_fields.multiple[i]:
            mark = self.begin()
            elements = self.elements(kind, plain, "")
            code = shared_code(kind, elements)
            self.octet(code)
            for octets in elements:
                self.element(code, octets)
            self.close(mark, 0xE0, len(elements))
        elif kind == KIND_FIELDS and isinstance(plain, dict):
            self.entries(plain, KIND_SYMBOL)
        else:
            self.unmarked(kind, plain)

    def unmarked(self, kind: int, plain: Any) -> None:
        """Encode a value without a marker.

        `kind` is its kind, which a declaration or an enclosing marker determines; 0 for any kind.
        """
        value_type = type(plain)
        if value_type is str and kind in {KIND_STRING, KIND_ADDRESS, KIND_MESSAGE_ID}:
            self.string(plain)
        elif KIND_UBYTE <= kind <= KIND_LONG:
            number = plain if value_type is int else _parse_digits(plain)
            if type(number) is not int:
                raise ValueError
            self.integer(kind, number)
        elif value_type is str and kind == KIND_SYMBOL:
            self.symbol(plain)
        elif kind == KIND_BOOLEAN and value_type is bool:
            self.octet(0x41 if plain else 0x42)
        elif kind == KIND_TIMESTAMP and value_type is int:
            self.integer(kind, plain)
        elif kind == KIND_NULL and plain is None:
            self.octet(0x40)
        elif KIND_FLOAT <= kind <= KIND_DECIMAL128:
            self.floating(kind, plain)
        elif KIND_LIST <= kind <= KIND_ARRAY:
            self.item(plain)
            if _compound_kind(plain) != kind:
                raise mismatch(f"expected a {TYPE_NAME_OF_KIND[kind]}", plain)
        elif kind == KIND_BINARY and isinstance(plain, dict):
            name = _marker_of(plain)
            if name is None:
                raise ValueError
            self.item(plain)
            if name not in _BINARY_MARKERS:
                raise mismatch(_BINARY_EXPECTATION, plain)
        elif _encoded_kind(kind, plain) != kind:
            self.unmarked(_encoded_kind(kind, plain), plain)
        elif kind == 0:
            self.item(plain)
        elif isinstance(plain, str):
            self.text_value(kind, plain)
        else:
            raise ValueError

    def text_value(self, kind: int, text: str) -> None:
        """Encode a value that plain JSON represents as a string, such as a timestamp."""
        if kind == KIND_TIMESTAMP:
            self.integer(kind, timestamp_of(datetime.datetime.fromisoformat(text)))
        elif kind == KIND_BINARY:
            self.text(text.encode("utf-8"), 0xA0)
        elif kind == KIND_SYMBOL:
            self.symbol(text)
        elif kind == KIND_UUID:
            self.write_rare(kind, uuid.UUID(text))
        elif kind == KIND_CHAR:
            self.write_rare(kind, Char(text))
        elif kind == KIND_STRING:
            self.value(text)
        else:
            raise ValueError

    def floating(self, kind: int, plain: Any) -> None:
        """Encode a float, a double or a decimal from a number or from its bits."""
        match = _HEX_PATTERN.fullmatch(plain) if isinstance(plain, str) else None
        if match is not None:
            if len(match[1]) != 2 * BIT_PATTERN_WIDTHS[TYPE_NAME_OF_KIND[kind]]:
                raise ValueError
            self.octet(_BITS_CODE_BY_KIND[kind])
            self.add(bytes.fromhex(match[1]))
        elif KIND_DECIMAL32 <= kind <= KIND_DECIMAL128:
            if isinstance(plain, bool) or not isinstance(plain, (str, int)) or _is_lengthy(plain):
                raise ValueError
            try:
                self.write_rare(
                    kind, DECIMALS[TYPE_NAME_OF_KIND[kind]].from_decimal(decimal.Decimal(plain))
                )
            except decimal.InvalidOperation:
                raise ValueError from None
        else:
            number = _NON_FINITE_BY_NAME.get(plain, plain) if isinstance(plain, str) else plain
            if isinstance(number, bool) or not isinstance(number, (int, float)):
                raise ValueError
            try:
                number = float(number)
                if kind == KIND_DOUBLE:
                    self.double(number)
                else:
                    self.write_rare(kind, _QUIET_NAN if math.isnan(number) else number)
            except OverflowError:
                raise ValueError from None

    def section(self, spec: Any, plain: Any) -> None:
        """Encode a section."""
        self.add(spec.head)
        if spec.source == 0 or (isinstance(plain, dict) and _marker_of(plain) is not None):
            self.item(plain)
        elif spec.source == KIND_BINARY:
            self.unmarked(KIND_BINARY, plain)
        elif spec.source == KIND_MAP:
            if not isinstance(plain, dict):
                raise mismatch("expected an object", plain)
            self.entries(plain, spec.keys)
        elif spec.declared_fields is None:
            self.items(plain)
        else:
            self.list_of_fields(spec.declared_fields, plain)

    def message(self, sections: Any, in_order: bool) -> Any:
        """Encode a message from an object of its sections, whose names have underscores.

        Returns the encoded message. With `in_order`, returns None if the sections are not in the
        order of the specification.
        """
        last = -1
        bodies = 0
        for name in sections:
            item = sections[name]
            spec = _SECTION_SPECS.get(name)
            # A null section is omitted, except an amqp-value, which can be null.
            if item is None and spec is not _VALUE:
                continue
            if spec is None:
                if name != "body":
                    raise NotationError(
                        f"there is no such section: use one of {', '.join(_SECTION_SPECS)}, body, "
                        "message_format, sections",
                        "$" + _step_of(name),
                    )
                is_data = isinstance(item, dict) and _marker_of(item) in _BINARY_MARKERS
                spec = _DATA if is_data else _VALUE
            if in_order and spec.position < last:
                return None
            last = spec.position
            if last == PLACE_BODY:
                bodies += 1
            try:
                self.section(spec, item)
            except ValueError as error:
                raise _fault(error, _step_of(name), spec.source, item) from None
            if self.first_encoding_error is not None:
                raise NotationError(self.first_encoding_error, "$" + _step_of(name))
        if bodies > 1:
            raise NotationError(
                "a body has sections of one kind: write several of them under sections"
            )
        return self.finish()

    def listed_sections(self, plain: Any) -> None:
        """Encode sections from a list of [name, content] pairs."""
        if not isinstance(plain, list):
            raise mismatch("expected a list of [name, content] pairs", plain, ".sections")
        for index, pair in enumerate(plain):
            path = f".sections[{index}]"
            if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[0], str):
                raise mismatch("expected a [name, content] pair", pair, path)
            name, content = pair
            spec = _SECTION_SPECS.get(name.replace("-", "_"))
            kind = 0
            if spec is not None:
                kind = spec.source
            elif name == "raw":
                kind = KIND_BINARY
            elif name != "unknown":
                raise mismatch(
                    f"expected a section, one of {', '.join(_SECTION_SPECS)}, unknown, raw",
                    name,
                    path,
                )
            try:
                if spec is not None:
                    self.section(spec, content)
                elif kind == 0:
                    self.item(content)
                else:
                    writer = _writer(0, _INITIAL_WRITER_DEPTH)
                    writer.unmarked(kind, content)
                    octets = writer.finish()
                    self.add(octets[2:] if octets[0] == 0xA0 else octets[5:])
            except ValueError as error:
                raise _fault(error, path + "[1]", kind, content) from None
            if self.first_encoding_error is not None:
                raise NotationError(self.first_encoding_error, "$" + path + "[1]")


#: A null value that is written with a marker.
_MARKED_NULL = {"$null": None}
_DIGITS_PATTERN = re.compile(r"-?[0-9]{1,20}")
_HEX_PATTERN = re.compile(r"0[xX]([0-9a-fA-F]+)")
_QUIET_NAN = Float.from_bits(0x7FC00000)
_NON_FINITE_BY_NAME = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
#: Format codes of the types that can be written as bits, by kind.
_BITS_CODE_BY_KIND = {
    KIND_OF_TYPE_NAME[row.type]: row.code
    for row in FORMAT_CODES.values()
    if row.type in BIT_PATTERN_WIDTHS
}
#: Classes that check the text of a value, by kind. Other texts must be valid UTF-8.
_TEXT_CHECK_BY_KIND: dict[int, Any] = {KIND_UUID: uuid.UUID, KIND_CHAR: Char, KIND_SYMBOL: Symbol}
#: Kinds of JSON values without a marker, by Python type.
_KIND_BY_SCALAR_CLASS = {int: KIND_LONG, float: KIND_DOUBLE, str: KIND_STRING}


def _marker_of(plain: Any) -> Any:
    """Return the marker of an object, the first key that starts with ``$``; None without one."""
    for key in plain.keys():  # noqa: SIM118  (faster when compiled)
        text = key if type(key) is str else str(key)
        if text.startswith("$"):
            return text
    return None


def _compound_kind(plain: Any) -> int:
    """Return the kind of the compound that a document represents; 0 if it is not a compound."""
    if isinstance(plain, list):
        return KIND_LIST
    if not isinstance(plain, dict):
        return 0
    name = _marker_of(plain)
    return KIND_MAP if name is None else _COMPOUND_KIND_BY_MARKER.get(name, 0)


def _encoded_kind(kind: int, plain: Any) -> int:
    """Return the kind with which to encode a value of the declared kind `kind`.

    0 if the document determines the kind.
    """
    if kind == KIND_MESSAGE_ID:
        return KIND_ULONG if type(plain) is int else 0
    if kind in {KIND_ADDRESS, KIND_ANY}:
        return 0
    return KIND_MAP if kind == KIND_FIELDS else kind


def _parse_digits(plain: Any) -> Any:
    """Return a string of digits as an int, and any other document unchanged."""
    return int(plain) if isinstance(plain, str) and _DIGITS_PATTERN.fullmatch(plain) else plain


def _is_lengthy(number: Any) -> bool:
    """Return whether a number has more digits than any decimal type can represent."""
    return len(describe(number)) > _MAX_DECIMAL_DIGITS


_MAX_DECIMAL_DIGITS = 60


def _octets_of(name: str, plain: Any) -> bytes:
    """Decode the text of the marker ``$base64`` or ``$hex``."""
    try:
        if isinstance(plain, str):
            if name == "$hex":
                return bytes.fromhex(plain)
            return base64.b64decode(plain, validate=True)
    except ValueError:
        pass
    raise mismatch(f"expected {name[1:]} digits", plain, "." + name)


def _code_of(name: str, plain: Any) -> int:
    """Parse the constructor of an array, a format code of the type `name` in hex."""
    match = _HEX_PATTERN.fullmatch(plain) if isinstance(plain, str) else None
    row = FORMAT_CODES.get(int(match[1], 16)) if match else None
    if row is None or row.type != name:
        raise mismatch(f"expected a format code of {name}, such as 0x71 of int", plain)
    return row.code


def _position_of(name: str) -> int:
    """Return the position of the section `name` in the order of a message."""
    spec = _SECTION_SPECS.get(name)
    return PLACE_BODY if spec is None else spec.position


def _step_of(name: str) -> str:
    """Return the path step of the section `name`."""
    return f".{name}" if name.isidentifier() else f"[{name!r:.40}]"


def _field_step(key: Any) -> str:
    """Return the path step of the field `key`."""
    return f".{key}" if str(key).isidentifier() else f"[{describe(key)}]"


def _field_fault(error: Any, declared_fields: Any, key: Any, plain: Any) -> NotationError:
    """Return the NotationError for the field `key`, whose value `plain` could not be encoded."""
    is_marker = isinstance(plain, dict) and _marker_of(plain) is not None
    kind = (
        0
        if is_marker
        else declared_fields.kinds[declared_fields.indexes[str(key).replace("-", "_")]]
    )
    return _fault(error, _field_step(key), kind, plain)


def _fault(error: Any, step: str, kind: int, plain: Any) -> NotationError:
    """Return the NotationError for an error in the value `plain`, whose relative path is `step`.

    An `error` that is another ValueError is replaced by a NotationError that explains it. `kind` is
    the expected kind of the value; 0 for any kind.
    """
    if not isinstance(error, NotationError):
        error = _kind_error(kind, plain)
    return error.within(step)  # type: ignore[no-any-return]  # the kernel returns Any


def _kind_error(kind: int, plain: Any) -> NotationError:
    """Return the error for a value that is not a valid value of `kind`; 0 for any kind."""
    kind = _encoded_kind(kind, plain)
    if kind in {0, KIND_BINARY} or KIND_LIST <= kind <= KIND_ARRAY:
        marker = _marker_of(plain) if type(plain) is dict else None
        if marker is not None:
            return _kind_error(_KIND_BY_MARKER[marker], plain[marker]).within(f".{marker}")
    if kind == 0 or KIND_LIST <= kind <= KIND_ARRAY:
        kind = _KIND_BY_SCALAR_CLASS.get(type(plain), 0)
        if kind == 0:
            return mismatch("expected a value", plain)
    name = TYPE_NAME_OF_KIND[kind]
    if KIND_UBYTE <= kind <= KIND_LONG:
        if type(_parse_digits(plain)) is not int:
            return mismatch(f"expected an integer, for {name}", plain)
        low, high, _ = integer_range(name)
        return mismatch(f"expected {low} to {high}, for {name}", plain)
    if kind == KIND_TIMESTAMP:
        if type(plain) is int:
            return mismatch("expected milliseconds in 64 bits", plain)
        return mismatch(
            "expected milliseconds, or a time with its zone such as 2024-02-29T12:00:00.000Z", plain
        )
    if KIND_FLOAT <= kind <= KIND_DECIMAL128:
        return _number_error(kind, plain)
    if kind == KIND_BOOLEAN:
        return mismatch("expected true or false", plain)
    if kind == KIND_NULL:
        return mismatch("expected null", plain)
    if not isinstance(plain, str):
        is_binary = kind == KIND_BINARY
        return mismatch(_BINARY_EXPECTATION if is_binary else f"expected text, for a {name}", plain)
    reason = "it is too long"
    try:
        _TEXT_CHECK_BY_KIND.get(kind, str.encode)(plain)
    except ValueError as error:
        reason = str(error)
    return NotationError(f"{describe(plain)} is not a valid {name}: {reason}")


def _number_error(kind: int, plain: Any) -> NotationError:
    """Return the error for an invalid float, double or decimal."""
    name = TYPE_NAME_OF_KIND[kind]
    if isinstance(plain, str) and _HEX_PATTERN.fullmatch(plain):
        return mismatch(
            f"expected {2 * BIT_PATTERN_WIDTHS[name]} hex digits, for the bits of a {name}", plain
        )
    if kind in {KIND_FLOAT, KIND_DOUBLE}:
        if isinstance(plain, bool) or not isinstance(plain, (int, float)):
            return mismatch('expected a number, "NaN", "Infinity" or "-Infinity"', plain)
        return NotationError(f"{describe(plain)} is too large for a {name}")
    if isinstance(plain, bool) or not isinstance(plain, (str, int)) or _is_lengthy(plain):
        return mismatch('expected a number in quotes, such as "1.50"', plain)
    return mismatch(f'expected a number that a {name} can represent, such as "1.50"', plain)
