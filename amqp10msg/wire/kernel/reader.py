# cython: language_level=3, boundscheck=True, wraparound=False, annotation_typing=False
"""Sections in: composites, maps and whole messages, read into their classes."""

from __future__ import annotations

from typing import Any

from amqp10msg.wire.errors import (
    INVALID_FIELD,
    NOT_IMPLEMENTED,
    RESOURCE_LIMIT_EXCEEDED,
    DecodeError,
)
from amqp10msg.wire.kernel.bounded import READ_FAULTS, is_local, octets_of
from amqp10msg.wire.kernel.codes import (
    FIRST_CODE,
    FOLLOWERS,
    FOOTER_CODE,
    IS_MESSAGE_ID,
    KIND_ADDRESS,
    KIND_ANY,
    KIND_ARRAY,
    KIND_DESCRIBED,
    KIND_FIELDS,
    KIND_LONG,
    KIND_MAP,
    KIND_MESSAGE_ID,
    KIND_OF,
    KIND_STRING,
    KIND_SYMBOL,
    KIND_TIMESTAMP,
    KIND_UBYTE,
    KIND_ULONG,
    MAX_GUESSABLE,
    PLACE_BODY,
    PLACES,
    SHAPE_ANNOTATIONS,
    SHAPE_BINARY,
    SHAPE_COMPOSITE,
    SHAPE_PROPERTIES,
    SHAPE_VALUE,
    TYPE_NAMES,
    WANTED,
    order_rule,
)
from amqp10msg.wire.kernel.quick import QuickReader
from amqp10msg.wire.kernel.sections import CODES, MESSAGE, NAMES, SECTIONS
from amqp10msg.wire.kernel.writer import not_simple
from amqp10msg.wire.limits import DEFAULT_LIMITS
from amqp10msg.wire.primitives import Symbol

# A section found costs a tuple and its numbers, some 170 bytes: as much as a few items.
_PART_ITEMS = 4


class Reader(QuickReader):
    """A cursor over sections. What takes a format code expects the cursor after it."""

    def field(self, kind: int, code: int, spec: Any, index: int) -> Any:
        """Read one field that is declared to be of this kind, as a plain Python value."""
        have = KIND_OF[code]
        if have == kind:
            if KIND_UBYTE <= kind <= KIND_LONG or kind == KIND_TIMESTAMP:
                return self.number(code)
            if kind == KIND_SYMBOL:
                pos = self.span(code)
                return self.buf[pos : self.pos].decode("ascii")
            return self.read(code)
        if (
            kind == KIND_ANY
            or (kind == KIND_MESSAGE_ID and IS_MESSAGE_ID[have])
            or (kind == KIND_ADDRESS and have == KIND_STRING)
        ):
            return self.read(code)
        if kind == KIND_FIELDS and have == KIND_MAP:
            start = self.pos - 1
            made = self.read(code)
            if self.lenient or (type(made) is dict and all(type(key) is Symbol for key in made)):
                return made
            raise DecodeError(
                f"the keys of {spec.names[index]} must be symbols",
                start,
                rule="field-key-type",
                condition=INVALID_FIELD,
            )
        if have == KIND_ARRAY and spec.multiple and spec.multiple[index]:
            return self.read(code)
        if code != 0 and have == 0:
            raise self.unknown(code, self.pos - 1)
        if self.lenient:
            return self.read(code)
        raise DecodeError(
            f"{spec.names[index]} must be {WANTED[kind]}, not {TYPE_NAMES[have or KIND_DESCRIBED]}",
            self.pos - 1,
            rule="field-type",
            condition=INVALID_FIELD,
        )

    def composite(self, spec: Any) -> Any:
        """Read a composite's list, from its constructor on, into its class."""
        return spec.layout.build(self.fields(spec))

    def fields(self, spec: Any) -> Any:
        """Read a composite's list, from its constructor on: all of its fields."""
        start = self.pos
        if start >= self.end:
            raise self.truncated(start, 1)
        buf = self.buf
        code = buf[start]
        self.pos = start + 1
        values = spec.blank[:]
        if code != 0x45:
            if code != 0xC0 and code != 0xD0:
                raise self.wrong_value(spec, code, "a list", start)
            stop = self.open(code)
            count = self.count
            known = len(values)
            if count > known and not self.lenient:
                raise DecodeError(
                    f"{spec.name} has {known} fields, not {count}",
                    start,
                    rule="too-many-fields",
                    condition=INVALID_FIELD,
                )
            self.enter(start)
            outer = self.end
            self.end = stop
            for i in range(count):
                pos = self.pos
                if pos >= stop:
                    raise self.truncated(pos, 1)
                self.pos = pos + 1
                code = buf[pos]
                if i >= known:
                    self.read(code)
                elif code != 0x40:
                    values[i] = self.field(spec.kinds[i], code, spec, i)
            self.close(stop, outer)
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

    def wrong_value(self, spec: Any, code: int, wanted: str, pos: int) -> DecodeError:
        have = KIND_OF[code]
        if code != 0 and have == 0:
            return self.unknown(code, pos)
        return DecodeError(
            f"{spec.name} must be {wanted}, not {TYPE_NAMES[have or KIND_DESCRIBED]}",
            pos,
            rule="section-value-type",
            condition=INVALID_FIELD,
        )

    def mapping(self, spec: Any) -> Any:
        """Read the map of an annotations or application-properties section into its class."""
        start = self.pos
        if start >= self.end:
            raise self.truncated(start, 1)
        code = self.buf[start]
        self.pos = start + 1
        if code != 0xC1 and code != 0xD1:
            raise self.wrong_value(spec, code, "a map", start)
        stop = self.open(code)
        count = self.count
        if count & 1:
            raise DecodeError(
                f"a map with {count} elements has a key without a value",
                start,
                rule="map-odd-count",
            )
        self.enter(start)
        outer = self.end
        self.end = stop
        self.first = self.pos
        annotations = spec.shape == SHAPE_ANNOTATIONS
        guessable = 0
        cls = spec.cls
        made = cls.__new__(cls)
        for _ in range(count >> 1):
            at = self.pos
            if at >= stop:
                raise self.truncated(at, 1)
            code = self.buf[at]
            self.pos = at + 1
            have = KIND_OF[code]
            if annotations:
                if have != KIND_SYMBOL:
                    if have != KIND_ULONG:
                        raise self.wrong_key(spec, code, "a symbol or a ulong", at)
                    guessable += 1
                    if guessable > MAX_GUESSABLE:
                        raise DecodeError(
                            f"more than {MAX_GUESSABLE} keys are ulongs, which a peer could "
                            "choose to make the map slow: use symbols",
                            at,
                            rule="keys-limit",
                            condition=RESOURCE_LIMIT_EXCEEDED,
                        )
            elif have != KIND_STRING:
                raise self.wrong_key(spec, code, "a string", at)
            key = self.read(code)
            pos = self.pos
            if pos >= stop:
                raise self.truncated(pos, 1)
            code = self.buf[pos]
            self.pos = pos + 1
            value = self.read(code)
            if (
                (code >= 0xC0 or code == 0x45 or code == 0)
                and not annotations
                and not_simple(value)
            ):
                raise DecodeError(
                    f"application property {key!r} must have a simple type, not list, map or array",
                    pos,
                    rule="application-properties-value-not-simple",
                    condition=INVALID_FIELD,
                )
            made[key] = value
        self.close(stop, outer)
        if len(made) != count >> 1:
            raise self.duplicate(count)
        return made

    def duplicate(self, count: int) -> DecodeError:
        """Find the key that stands twice in the map of scalar keys that begins at `first`."""
        self.pos = self.first
        seen = set()
        for _ in range(count >> 1):
            at = self.pos
            key = self.value()
            self.skip()
            if key in seen:
                break
            seen.add(key)
        return DecodeError(f"duplicate map key {key!r}", at, rule="map-duplicate-key")

    def wrong_key(self, spec: Any, code: int, wanted: str, pos: int) -> DecodeError:
        have = KIND_OF[code]
        if code != 0 and have == 0:
            return self.unknown(code, pos)
        return DecodeError(
            f"a key of {spec.name} must be {wanted}, not {TYPE_NAMES[have or KIND_DESCRIBED]}",
            pos,
            rule=f"{spec.name}-key-type",
            condition=INVALID_FIELD,
        )

    def section(self, spec: Any) -> Any:
        """Read what follows a section's descriptor into the section's class."""
        shape = spec.shape
        if shape == SHAPE_COMPOSITE:
            return self.composite(spec)
        if shape == SHAPE_ANNOTATIONS or shape == SHAPE_PROPERTIES:
            return self.mapping(spec)
        if shape == SHAPE_VALUE:
            return spec.layout.build([self.value()])
        start = self.pos
        if start >= self.end:
            raise self.truncated(start, 1)
        code = self.buf[start]
        self.pos = start + 1
        if shape == SHAPE_BINARY:
            if code != 0xA0 and code != 0xB0:
                raise self.wrong_value(spec, code, "a binary", start)
        elif code != 0xC0 and code != 0xD0 and code != 0x45:
            raise self.wrong_value(spec, code, "a list", start)
        return spec.layout.build([self.read(code)])

    def section_code(self) -> int:
        """Pass over a section's constructor and descriptor; return its code, or -1 if it is none.

        A descriptor that is no section's is not read, so that it may be malformed.
        """
        pos = self.pos
        buf = self.buf
        if buf[pos] != 0:
            return -1
        if self.end - pos > 2 and buf[pos + 1] == 0x53:
            code = buf[pos + 2]
            if FIRST_CODE <= code <= FOOTER_CODE:
                self.pos = pos + 3
                return code
        pos += 1
        code = buf[pos] if pos < self.end else 0
        kind = KIND_OF[code]
        found = None
        self.pos = pos + 1
        if kind == KIND_ULONG:
            found = CODES.get(self.number(code))
        elif kind == KIND_SYMBOL:
            pos = self.span(code)
            found = CODES.get(buf[pos : self.pos])
        return -1 if found is None else found

    def message(self, cls: Any, message_format: int) -> Any:
        """Read the sections of a message into an instance of this class."""
        buf = self.buf
        # In the order of the attributes: by place, then format, bytes and leniency.
        found: list[Any]
        found = [None, None, None, None, None, None, None, message_format, buf, False]
        last = -1
        followers = FOLLOWERS[0]
        several = False
        end = self.end
        while self.pos < end:
            start = self.pos
            if (
                end - start > 2
                and buf[start + 1] == 0x53
                and followers[buf[start + 2]]
                and buf[start] == 0
            ):
                index = buf[start + 2] - FIRST_CODE
                self.pos = start + 3
            else:
                index = self.section_code() - FIRST_CODE
                if index < 0:
                    raise self.no_section(start)
                if not followers[FIRST_CODE + index]:
                    raise self.misplaced(index, last, found, start)
            last = index
            spec = SECTIONS[index]
            followers = spec.followers
            shape = spec.shape
            if shape == SHAPE_COMPOSITE:
                section = self.quick_fields(spec)
            elif shape == SHAPE_PROPERTIES:
                section = self.quick_mapping(spec.cls, 0xA1)
            elif shape == SHAPE_ANNOTATIONS:
                section = self.quick_mapping(spec.cls, 0xA3)
            elif shape == SHAPE_BINARY:
                section = self.quick_data(spec.layout)
            else:
                section = None
            if section is None:
                section = self.section(spec)
            if not spec.is_body or found[PLACE_BODY] is None:
                found[spec.place] = section
            elif several:
                found[PLACE_BODY].append(section)
            else:
                found[PLACE_BODY] = [found[PLACE_BODY], section]
                several = True
        kind = cls
        made = kind.__new__(kind)
        layout: Any = MESSAGE[0]
        layout.fill(made, found)
        return made

    def no_section(self, start: int) -> DecodeError:
        # Whatever stands here must still be an encoding; if it is not, that is the better report.
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

    def misplaced(self, index: int, last: int, found: Any, start: int) -> DecodeError:
        name = SECTIONS[index].name
        seen = sum(1 << i for i, place in enumerate(PLACES) if found[place] is not None)
        rule = order_rule(index, last, seen)
        if rule == "duplicate-section":
            reason = f"duplicate {name} section"
        elif rule == "mixed-body-sections":
            reason = f"{name} beside {SECTIONS[last].name}: a body has sections of one kind"
        else:
            reason = f"{name} must precede {SECTIONS[last].name}"
        return DecodeError(reason, start, rule=rule)

    def part(self) -> int:
        """Pass over one section, set `first` to where its value begins; return its code or -1."""
        start = self.pos
        self.items -= _PART_ITEMS
        if self.items < 0:
            raise self.exceeded("items limit: there are too many sections", start)
        code = self.section_code()
        if code < 0:
            self.pos = start
        self.first = self.pos
        self.skip()
        return code

    def scan(self) -> Any:
        """Find the sections: a list of (code or -1, start, start of the value, end).

        Where a lenient reader cannot say where one ends, that is all the rest.
        """
        parts = []
        start = self.pos
        try:
            while self.pos < self.end:
                start = self.pos
                code = self.part()
                parts.append((code, start, self.first, self.pos))
        except READ_FAULTS as error:
            if not self.lenient or not is_local(error):
                raise
            parts.append((self.code_at(start), start, self.pos, self.end))
            self.pos = self.end
        return parts

    def code_at(self, start: int) -> int:
        """Return the code of the section that begins here, or -1; leave `pos` at its value."""
        self.pos = start
        try:
            code = self.section_code()
        except READ_FAULTS:
            code = -1
        if code < 0:
            self.pos = start
        return code


def decode_message(
    cls: Any, data: Any, *, limits: Any = None, strict: bool = True, message_format: int = 0
) -> Any:
    """Decode a message that fills the input.

    No bytes at all decode to a message without sections.

    Args:
        cls: Message or a subclass of it.
        data: the encoded message: bytes, bytearray or memoryview. Anything but bytes is copied
            once.
        limits: what decoding may cost; the defaults of `Limits` where None.
        strict: refuse what makes a message ambiguous. If False, all that parses is read: what is
            out of place, or cut off, is kept as it came, encodes byte for byte, and stands in
            `violations`.
        message_format: the message-format of the transfer that carried it.

    Raises:
        DecodeError: malformed encodings; in strict mode also sections that are out of order,
            repeated, unknown or mixed in the body, and fields and keys of wrong types; otherwise
            only where not one section parses. The error's `data` holds the input.
    """
    if limits is None:
        limits = DEFAULT_LIMITS
    if not strict:
        return MESSAGE[1](cls, data, limits, message_format)
    if type(data) is not bytes or limits is not DEFAULT_LIMITS:
        data = octets_of(data, limits)
    reader = Reader.__new__(Reader)
    reader.begin(data, 0, limits)
    try:
        return reader.message(cls, message_format)
    except READ_FAULTS as error:
        raise reader.fault(error, NAMES) from None
