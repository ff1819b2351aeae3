# cython: boundscheck=True, wraparound=False, annotation_typing=False, infer_types=True
"""Decodes, scans and encodes messages, and copies them with other annotations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from amqp10msg.wire.errors import (
    INVALID_FIELD,
    NOT_IMPLEMENTED,
    RESOURCE_LIMIT_EXCEEDED,
    DecodeError,
    EncodeError,
)
from amqp10msg.wire.kernel.codes import (
    ALLOWED_NEXT_SECTIONS,
    AMQP_VALUE,
    FIELD_TYPE_TEXTS,
    FIRST_SECTION_CODE,
    FOOTER,
    FOOTER_CODE,
    KIND_ADDRESS,
    KIND_ANY,
    KIND_ARRAY,
    KIND_DESCRIBED,
    KIND_FIELDS,
    KIND_IS_MESSAGE_ID,
    KIND_LONG,
    KIND_MAP,
    KIND_MESSAGE_ID,
    KIND_OF_FORMAT_CODE,
    KIND_STRING,
    KIND_SYMBOL,
    KIND_TIMESTAMP,
    KIND_UBYTE,
    KIND_ULONG,
    MAX_KEYS_WITH_GUESSABLE_HASH,
    NAMES_OF_DESCRIPTOR,
    PLACE_BODY,
    PLACE_FOOTER,
    PLACE_LENIENT,
    PLACE_OF_SECTION,
    PLACE_WIRE,
    REGISTER_MESSAGE_ARGUMENTS,
    REGISTERED_SCAN_CLASS,
    SECTION_CODE_OF_DESCRIPTOR,
    SECTION_SPECS,
    SHAPE_ANNOTATIONS,
    SHAPE_BINARY,
    SHAPE_COMPOSITE,
    SHAPE_PROPERTIES,
    SHAPE_VALUE,
    TYPE_NAME_OF_KIND,
    order_rule,
)
from amqp10msg.wire.kernel.value_reader import (
    READ_FAULTS,
    ValueReader,
    is_limited_to_one_section,
    octets_of,
)
from amqp10msg.wire.kernel.value_writer import encode_fault
from amqp10msg.wire.kernel.writer import Writer, not_simple
from amqp10msg.wire.limits import DEFAULT_LIMITS, UNLIMITED, Limits
from amqp10msg.wire.primitives import AmqpMap, Symbol

# Each section that `scan` returns counts as this many items of `Limits.items`: its tuple and
# numbers need about 170 bytes.
_ITEMS_PER_SCANNED_SECTION = 4


class Reader(ValueReader):
    """Reads the sections of a message.

    A method with a format code as its argument expects the cursor after the format code.
    """

    def field(self, kind: int, code: int, spec: Any, index: int) -> Any:
        """Read a field, whose declared type is `kind`, as a plain Python value.

        `spec` is the declaration of the composite, and `index` the index of the field.
        """
        wire_kind = KIND_OF_FORMAT_CODE[code]
        if wire_kind == kind:
            if KIND_UBYTE <= kind <= KIND_LONG or kind == KIND_TIMESTAMP:
                return self.number(code)
            if kind == KIND_SYMBOL:
                pos = self.span(code)
                return self.buf[pos : self.pos].decode("ascii")
            return self.read(code)
        if (
            kind == KIND_ANY
            or (kind == KIND_MESSAGE_ID and KIND_IS_MESSAGE_ID[wire_kind])
            or (kind == KIND_ADDRESS and wire_kind == KIND_STRING)
        ):
            return self.read(code)
        if kind == KIND_FIELDS and wire_kind == KIND_MAP:
            start = self.pos - 1
            fields = self.read(code)
            if self.lenient or (type(fields) is dict and {*map(type, fields)} <= {Symbol}):
                return fields
            raise DecodeError(
                f"the keys of {spec.names[index]} must be symbols",
                start,
                rule="field-key-type",
                condition=INVALID_FIELD,
            )
        if wire_kind == KIND_ARRAY and spec.multiple and spec.multiple[index]:
            return self.read(code)
        if code != 0 and wire_kind == 0:
            raise self.unknown_code_error(code, self.pos - 1)
        if self.lenient:
            return self.read(code)
        raise DecodeError(
            f"{spec.names[index]} must be {FIELD_TYPE_TEXTS[kind]}, "
            f"not {TYPE_NAME_OF_KIND[wire_kind or KIND_DESCRIBED]}",
            self.pos - 1,
            rule="field-type",
            condition=INVALID_FIELD,
        )

    def composite(self, spec: Any) -> Any:
        """Read the list of a composite, from its constructor on; return an instance."""
        return spec.layout.build(self.fields(spec))

    def fields(self, spec: Any) -> Any:
        """Read the list of a composite, from its constructor on; return its fields."""
        start = self.pos
        values = spec.blank[:]
        outer = self.open_list(spec)
        if outer >= 0:
            field_count = len(values)
            for i in range(self.count):
                code = self.buf[self.advance(1)]
                if i >= field_count:
                    self.read(code)
                elif code != 0x40:
                    values[i] = self.field(spec.kinds[i], code, spec, i)
            self.ascend(outer)
        if spec.mandatory and not self.lenient:
            for i in spec.mandatory:
                if values[i] is None:
                    raise DecodeError(
                        f"the mandatory field {spec.names[i]} of {spec.name} is missing",
                        start,
                        rule="mandatory-field-missing",
                        condition=INVALID_FIELD,
                    )
        return values

    def open_list(self, spec: Any) -> int:
        """Enter the list of a composite, like `descend`; return -1 for list0, which is empty."""
        start = self.advance(1)
        code = self.buf[start]
        if code == 0x45:
            return -1
        if code != 0xC0 and code != 0xD0:
            raise self.wrong_section_value_error(spec, code, "a list", start)
        stop = self.open(code)
        if self.count > len(spec.names) and not self.lenient:
            raise DecodeError(
                f"{spec.name} has {len(spec.names)} fields, not {self.count}",
                start,
                rule="too-many-fields",
                condition=INVALID_FIELD,
            )
        return self.into(start, stop)

    def wrong_section_value_error(
        self, spec: Any, code: int, expected: str, pos: int
    ) -> DecodeError:
        """Return the error for the value of a section or composite with a wrong type."""
        wire_kind = KIND_OF_FORMAT_CODE[code]
        if code != 0 and wire_kind == 0:
            return self.unknown_code_error(code, pos)
        return DecodeError(
            f"{spec.name} must be {expected}, not {TYPE_NAME_OF_KIND[wire_kind or KIND_DESCRIBED]}",
            pos,
            rule="section-value-type",
            condition=INVALID_FIELD,
        )

    def open_map(self, spec: Any) -> int:
        """Enter the map of an annotations or application-properties section, like `descend`."""
        start = self.advance(1)
        code = self.buf[start]
        if code != 0xC1 and code != 0xD1:
            raise self.wrong_section_value_error(spec, code, "a map", start)
        stop = self.open(code)
        if self.count & 1:
            raise self.odd_count_error(self.count, start)
        return self.into(start, stop)

    def mapping(self, spec: Any) -> Any:
        """Read the map of an annotations or application-properties section into its class."""
        outer = self.open_map(spec)
        count = self.count
        self.first = self.pos
        annotations = spec.shape == SHAPE_ANNOTATIONS
        guessable = 0
        cls = spec.cls
        entries = cls.__new__(cls)
        for _ in range(count >> 1):
            key_pos = self.advance(1)
            code = self.buf[key_pos]
            key_kind = KIND_OF_FORMAT_CODE[code]
            if annotations:
                if key_kind != KIND_SYMBOL:
                    if key_kind != KIND_ULONG:
                        raise self.wrong_key_error(spec, code, "a symbol or a ulong", key_pos)
                    guessable += 1
                    if guessable > MAX_KEYS_WITH_GUESSABLE_HASH:
                        raise DecodeError(
                            f"more than {MAX_KEYS_WITH_GUESSABLE_HASH} keys are ulongs, which a "
                            "peer could choose to make the map slow: use symbols",
                            key_pos,
                            rule="keys-limit",
                            condition=RESOURCE_LIMIT_EXCEEDED,
                        )
            elif key_kind != KIND_STRING:
                raise self.wrong_key_error(spec, code, "a string", key_pos)
            key = self.read(code)
            pos = self.advance(1)
            code = self.buf[pos]
            value = self.read(code)
            if (
                (code >= 0xC0 or code == 0x45 or code == 0)
                and not annotations
                and not_simple(value)
            ):
                raise self.compound_property_error(key, pos)
            entries[key] = value
        self.ascend(outer)
        if len(entries) != count >> 1:
            raise self.duplicate_key_error(count)
        return entries

    def duplicate_key_error(self, count: int) -> DecodeError:
        """Return the error for the duplicate key in the map of scalar keys at `first`."""
        self.pos = self.first
        earlier_keys = set()
        for _ in range(count >> 1):
            key_pos = self.pos
            key = self.value()
            self.skip()
            if key in earlier_keys:
                break
            earlier_keys.add(key)
        return DecodeError(f"duplicate map key {key!r}", key_pos, rule="map-duplicate-key")

    def compound_property_error(self, key: Any, pos: int) -> DecodeError:
        """Return the error for an application property whose value is not simple."""
        return DecodeError(
            f"application property {key!r} must have a simple type, not list, map or array",
            pos,
            rule="application-properties-value-not-simple",
            condition=INVALID_FIELD,
        )

    def wrong_key_error(self, spec: Any, code: int, expected: str, pos: int) -> DecodeError:
        """Return the error for a map key of the wrong type."""
        wire_kind = KIND_OF_FORMAT_CODE[code]
        if code != 0 and wire_kind == 0:
            return self.unknown_code_error(code, pos)
        return DecodeError(
            f"a key of {spec.name} must be {expected}, "
            f"not {TYPE_NAME_OF_KIND[wire_kind or KIND_DESCRIBED]}",
            pos,
            rule=f"{spec.name}-key-type",
            condition=INVALID_FIELD,
        )

    def section(self, spec: Any) -> Any:
        """Read the value after a section's descriptor; return an instance of its class."""
        shape = spec.shape
        if shape == SHAPE_COMPOSITE:
            return self.composite(spec)
        if shape == SHAPE_ANNOTATIONS or shape == SHAPE_PROPERTIES:
            return self.mapping(spec)
        if shape == SHAPE_VALUE:
            return spec.layout.build([self.value()])
        start = self.advance(1)
        code = self.buf[start]
        if shape == SHAPE_BINARY:
            if code != 0xA0 and code != 0xB0:
                raise self.wrong_section_value_error(spec, code, "a binary", start)
        elif code != 0xC0 and code != 0xD0 and code != 0x45:
            raise self.wrong_section_value_error(spec, code, "a list", start)
        return spec.layout.build([self.read(code)])

    def section_code(self) -> int:
        """Skip the descriptor of a section; return the section's code.

        Returns -1 if the value is not a section; its descriptor may be malformed.
        """
        pos = self.pos
        buf = self.buf
        if buf[pos] != 0:
            return -1
        if self.end - pos > 2 and buf[pos + 1] == 0x53:
            code = buf[pos + 2]
            if FIRST_SECTION_CODE <= code <= FOOTER_CODE:
                self.pos = pos + 3
                return code
        pos += 1
        code = buf[pos] if pos < self.end else 0
        kind = KIND_OF_FORMAT_CODE[code]
        known_code = None
        self.pos = pos + 1
        if kind == KIND_ULONG:
            known_code = SECTION_CODE_OF_DESCRIPTOR.get(self.number(code))
        elif kind == KIND_SYMBOL:
            pos = self.span(code)
            known_code = SECTION_CODE_OF_DESCRIPTOR.get(buf[pos : self.pos])
        return -1 if known_code is None else known_code

    def skip_unusual_descriptor(self, last: int, positions: int, start: int) -> int:
        """Skip a descriptor that the fast path does not read; return the section's number.

        Args:
            last: the number of the previous section; -1 at the start of the message.
            positions: the positions of the earlier sections, as bits.
            start: the offset of the section.

        Raises:
            DecodeError: the value is not a section, or a section that must not follow `last`.
        """
        index = self.section_code() - FIRST_SECTION_CODE
        if index < 0:
            raise self.not_a_section_error(start)
        if not ALLOWED_NEXT_SECTIONS[last + 1][FIRST_SECTION_CODE + index]:
            raise self.misplaced_section_error(index, last, positions, start)
        return index

    def read_unusual_section(self, index: int) -> Any:
        """Read a section that the fast path does not read, from the value after its descriptor."""
        if index == AMQP_VALUE:
            return self.wrapped(index, self.value())
        return self.section(SECTION_SPECS[index])

    def not_a_section_error(self, start: int) -> DecodeError:
        """Return the error for a value at `start` that is not a section."""
        # If the value is malformed, this raises another error, which is more useful.
        if self.buf[start] == 0:
            self.pos = start + 1
            self.value()
        self.pos = start
        self.skip()
        if self.buf[start] != 0:
            return DecodeError(
                "a message is a sequence of sections, but this is not a described value",
                start,
                rule="not-a-section",
            )
        return DecodeError(
            "the descriptor is not one of a section of Part 3, 3.2",
            start,
            rule="unknown-section",
            condition=NOT_IMPLEMENTED,
        )

    def misplaced_section_error(
        self, index: int, last: int, positions: int, start: int
    ) -> DecodeError:
        """Return the error for a section that must not follow the earlier sections."""
        name = SECTION_SPECS[index].name
        earlier_sections = sum(
            [1 << i for i, position in enumerate(PLACE_OF_SECTION) if positions >> position & 1]
        )
        rule = order_rule(index, last, earlier_sections)
        if rule == "duplicate-section":
            reason = f"duplicate {name} section"
        elif rule == "mixed-body-sections":
            reason = f"{name} beside {SECTION_SPECS[last].name}: a body has sections of one kind"
        else:
            reason = f"{name} must precede {SECTION_SPECS[last].name}"
        return DecodeError(reason, start, rule=rule)

    def skip_section(self) -> int:
        """Skip a section, and set `first` to the offset of its value; return the section's code.

        Returns -1 for a value that is not a section.
        """
        start = self.pos
        self.items_left -= _ITEMS_PER_SCANNED_SECTION
        if self.items_left < 0:
            raise self.exceeded_limit_error("items limit: there are too many sections", start)
        code = self.section_code()
        if code < 0:
            self.pos = start
        self.first = self.pos
        self.skip()
        return code

    def scan(self) -> Any:
        """Return the sections as a list of (code, start, start of the value, end).

        The code is -1 for a value that is not a section. With `lenient`, a section whose end is
        unknown extends to the end of the message.
        """
        parts = []
        start = self.pos
        try:
            while self.pos < self.end:
                start = self.pos
                code = self.skip_section()
                parts.append((code, start, self.first, self.pos))
        except READ_FAULTS as error:
            if not self.lenient or not is_limited_to_one_section(error):
                raise
            parts.append((self.code_at(start), start, self.pos, self.end))
            self.pos = self.end
        return parts

    def code_at(self, start: int) -> int:
        """Return the code of the section at `start`, and set `pos` to the offset of its value.

        Returns -1 for a value that is not a section, and sets `pos` to `start`.
        """
        self.pos = start
        try:
            code = self.section_code()
        except READ_FAULTS:
            code = -1
        if code < 0:
            self.pos = start
        return code


def decode_message(
    cls: Any,
    data: bytes | bytearray | memoryview,
    *,
    limits: Limits | None = None,
    strict: bool = True,
    message_format: int = 0,
) -> Any:
    """Decode a message, which must be the whole input.

    Empty input is a message without sections.

    Args:
        cls: Message or a subclass.
        data: the encoded message: bytes, bytearray or memoryview. A bytearray or memoryview is
            copied once.
        limits: limits on the cost of decoding; None for the defaults of `Limits`.
        strict: raise an error for a message that violates the specification. If False, decode as
            much as possible: sections that are misplaced or truncated are kept, encode to the same
            bytes, and are listed in `violations`.
        message_format: the message-format of the transfer that carried the message.

    Raises:
        DecodeError: malformed encodings; if `strict`, also sections that are out of order,
            repeated, unknown or mixed in the body, and fields and keys of wrong types. If not
            `strict`, only if no section can be decoded. The error names the first fault, as
            `validate` does; its `data` is the input.
    """
    if not strict:
        limits = DEFAULT_LIMITS if limits is None else limits
        return REGISTER_MESSAGE_ARGUMENTS[1](cls, data, limits, message_format)
    # Use None for the default limits, because threads contend when they count references to the
    # same object.
    if limits is not None and limits is not DEFAULT_LIMITS:
        data = octets_of(data, limits)
    elif type(data) is not bytes:
        data = octets_of(data, DEFAULT_LIMITS)
    reader = Reader.__new__(Reader)
    reader.begin(data, 0, limits)
    try:
        return reader.read_message(cls, message_format)
    except READ_FAULTS as error:
        raise REGISTER_MESSAGE_ARGUMENTS[2](
            reader.fault(error, NAMES_OF_DESCRIPTOR), limits
        ) from None


# Maximum size in bytes of the messages for which `encode_message` calls
# `with_original_sections`.
_MAX_SIZE_WITH_ORIGINAL_SECTIONS = 65_536


class Scanned:
    """An encoded message whose sections `scan` located; `replace` returns a modified copy."""

    def __init__(self, data: Any, limits: Any, ordered: bool) -> None:
        self.data = data
        self.limits = limits
        self.ordered = ordered

    def replace(
        self,
        *,
        header: Any = False,
        delivery_annotations: Any = False,
        message_annotations: Any = False,
        footer: Any = False,
    ) -> bytes:
        """Return the encoded message with other annotations, and the same bare message.

        Sections that are not replaced keep their exact bytes. The bare message cannot be replaced,
        because it is immutable in the network (Part 3, 3.2).

        Args:
            header: the new Header; None to remove the section, False to keep it.
            delivery_annotations: a DeliveryAnnotations, a plain dict, None or False.
            message_annotations: a MessageAnnotations, a plain dict, None or False.
            footer: a Footer, a plain dict, None or False.

        Raises:
            EncodeError: a value cannot be encoded.
            DecodeError: the sections are not in the order of Part 3, 3.2, so the position of a new
                section is undefined.
        """
        replaced = [
            header,
            delivery_annotations,
            message_annotations,
            False,
            False,
            False,
            False,
            False,
            footer,
        ]
        try:
            return splice(self.data, self.limits, replaced, self.ordered)
        except (RecursionError, UnicodeEncodeError) as error:
            raise encode_fault(error) from None


def splice(data: Any, limits: Any, replaced: Any, ordered: bool) -> Any:
    """Copy an encoded message, with some of its sections replaced, inserted or removed.

    Args:
        data: the encoded message, which was scanned with the same limits.
        limits: limits on the cost of reading.
        replaced: for each of the nine sections, False to keep it, None to remove it, or the new
            section.
        ordered: whether the sections are in order, according to `scan`.
    """
    writer = Writer.__new__(Writer)
    reader = Reader.__new__(Reader)
    reader.begin(data, 0, limits)
    last = -1
    copied_end = 0  # offset of the first byte that is not copied yet
    next_index = 0  # number of the next section to write
    last_replaced = FOOTER  # number of the last section to replace
    while last_replaced >= 0 and replaced[last_replaced] is False:
        last_replaced -= 1
    while True:
        start = reader.pos
        code = FOOTER
        if start < reader.end:
            code = reader.skip_section() - FIRST_SECTION_CODE
            if code < last or code < 0:
                raise DecodeError(
                    "the sections are not in the order of Part 3, 3.2, so the place of a section "
                    "is not known",
                    start,
                    rule="section-out-of-order",
                    data=data,
                )
            last = code
        while next_index <= code:
            section = replaced[next_index]
            if section is not False and section is not None:
                if copied_end < start:
                    writer.copy(data, copied_end, start)
                    copied_end = start
                spec = SECTION_SPECS[next_index]
                if type(section) is not spec.cls:
                    check_section(spec, section)
                writer.section(spec, section)
            next_index += 1
        if start >= reader.end or (ordered and code > last_replaced):
            break
        if replaced[code] is not False:
            if copied_end < start:
                writer.copy(data, copied_end, start)
            copied_end = reader.pos
    if copied_end < reader.end:
        writer.copy(data, copied_end, reader.end)
    return writer.finish()


def check_section(spec: Any, section: Any) -> None:
    """Raise EncodeError unless `section` is an instance of the section's class.

    For the map sections, it may also be another mapping.
    """
    is_map = spec.shape == SHAPE_ANNOTATIONS or spec.shape == SHAPE_PROPERTIES
    if not isinstance(section, spec.cls) and not (
        is_map and isinstance(section, Mapping) and not isinstance(section, AmqpMap)
    ):
        raise EncodeError(
            f"must be {spec.cls.__name__}{' or a dict' if is_map else ''}, "
            f"not {type(section).__name__}",
            spec.name,
        )


def scan(data: Any, *, limits: Any = None) -> Any:
    """Locate the sections of an encoded message without decoding them.

    Reads descriptors and sizes only: the contents of sections may be malformed, and the order and
    number of the sections are not checked.

    Args:
        data: the encoded message: bytes, or a bytearray or memoryview, which is copied once.
        limits: limits on the cost of decoding a section later, when it is requested.

    Raises:
        DecodeError: the bytes are not a sequence of encoded values.
    """
    if limits is None:
        limits = DEFAULT_LIMITS
    data = octets_of(data, limits)
    reader = Reader.__new__(Reader)
    reader.begin(data, 0, limits)
    ordered = True
    last = 0
    try:
        while reader.pos < reader.end:
            code = reader.skip_section()
            if code < last:
                ordered = False
            last = code
    except READ_FAULTS as error:
        raise reader.fault(error, NAMES_OF_DESCRIPTOR) from None
    kind: Any = REGISTERED_SCAN_CLASS[0]
    scanned = kind.__new__(kind)
    scanned.data = data
    scanned.limits = limits
    scanned.ordered = ordered
    return scanned


def write_message(message: Any) -> Any:
    """Encode all sections of a message.

    Returns None if a section is an instance of a subclass, or cannot be encoded.
    """
    return write_sections(attributes_of(message))


def attributes_of(message: Any) -> Any:
    """Return the attributes of a message, in the order of `Cursor.read_message`."""
    layout: Any = REGISTER_MESSAGE_ARGUMENTS[0]
    return layout.values(message)


def write_sections(attributes: Any) -> Any:
    """Encode the sections in the attributes of a message; return None like `write_message`."""
    writer = Writer.__new__(Writer)
    writer.lenient = attributes[PLACE_LENIENT]
    body = attributes[PLACE_BODY]
    try:
        for index in range(PLACE_BODY):
            if not writer.whole(SECTION_SPECS[index], attributes[index]):
                return None
        if (body is None or writer.body(body)) and writer.whole(
            SECTION_SPECS[FOOTER], attributes[PLACE_FOOTER]
        ):
            return writer.finish()
    except (EncodeError, RecursionError, UnicodeEncodeError):
        pass
    return None


def encode_message(message: Any) -> bytes:
    """Encode a message; decoded sections that were not changed keep their exact bytes.

    Raises:
        EncodeError: a value cannot be encoded as its declared type; the error has the path.
    """
    attributes = attributes_of(message)
    octets: Any = write_sections(attributes)
    original = attributes[PLACE_WIRE]
    if original is None:
        return message._encode_new() if octets is None else octets
    # Usually the bytes are equal, because most senders choose the same encodings as this library.
    # Then return the original object, so that only one copy stays in memory. Otherwise compare
    # section by section, to keep the original bytes or to find the path of an error.
    if octets == original:
        return original
    if (
        octets is not None
        and not attributes[PLACE_LENIENT]
        and len(original) <= _MAX_SIZE_WITH_ORIGINAL_SECTIONS
    ):
        merged = with_original_sections(original, octets)
        if merged is not None:
            return original if merged == original else merged
    return message._encode_changes(original)


def with_original_sections(original: Any, encoded: Any) -> Any:
    """Return the newly encoded message, in which unchanged sections have their original bytes.

    Only sections whose bytes differ are decoded again, to compare their content. Returns None if
    the sections are repeated or not in order.
    """
    old_reader = Reader.__new__(Reader)
    old_reader.begin(original, 0, UNLIMITED)
    new_reader = Reader.__new__(Reader)
    new_reader.begin(encoded, 0, UNLIMITED)
    writer = Writer.__new__(Writer)
    old_start = 0
    old_code = last = -1
    while new_reader.pos < new_reader.end:
        new_start = new_reader.pos
        code = new_reader.skip_section()
        if code <= last:
            return None
        last = code
        while old_code < code and old_reader.pos < old_reader.end:
            old_start = old_reader.pos
            next_code = old_reader.skip_section()
            if next_code <= old_code:
                return None
            old_code = next_code
        spec = SECTION_SPECS[code - FIRST_SECTION_CODE]
        if old_code == code and not sections_differ(
            old_reader, old_start, spec, new_reader, new_start
        ):
            writer.copy(original, old_start, old_reader.pos)
        else:
            writer.copy(encoded, new_start, new_reader.pos)
    while old_reader.pos < old_reader.end:
        next_code = old_reader.skip_section()
        if next_code <= old_code:
            return None
        old_code = next_code
    return writer.finish()


def sections_differ(
    old_reader: Any, old_start: int, spec: Any, new_reader: Any, new_start: int
) -> bool:
    """Return whether a section differs in content between two encodings of a message.

    Args:
        old_reader: the reader of the original message, which has just skipped the section.
        old_start: the offset of the section in the original message.
        spec: the declaration of the section.
        new_reader: the reader of the newly encoded message, which has just skipped the section.
        new_start: the offset of the section in the newly encoded message.
    """
    end = old_reader.pos
    size = new_reader.pos - new_start
    if size == end - old_start and old_reader.range_equals(
        old_start, end, new_reader.buf, new_start
    ):
        return False
    last = old_reader.end
    old_reader.pos = old_reader.first
    old_reader.end = end
    writer = Writer.__new__(Writer)
    writer.section(spec, old_reader.section(spec))
    old_reader.end = last
    return bool(
        writer.size != size
        or not new_reader.range_equals(new_start, new_reader.pos, writer.finish(), 0)
    )
