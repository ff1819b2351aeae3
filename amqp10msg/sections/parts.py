"""Find and decode the sections of an encoded message, even of a damaged one.

`scan` finds the sections without decoding them. `read_message` decodes a message with
``strict=False``: it keeps every section that it can read.

`map_message` returns a `MessageMap` for the validator: the offsets of the sections, and the errors
of the encoding. It accepts any input. The kernel reads each section once; after an error, reading
continues with the next section if the size of the damaged one is valid. The validator reads format
codes at the offsets in the `MessageMap`, so it can also check the readable part of a damaged
section.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, overload

import attrs

from amqp10msg.composite import Field, rows
from amqp10msg.sections import (
    BARE_CODES,
    CODE_BY_DESCRIPTOR,
    KIND_BY_CODE,
    KINDS,
    SPEC_BY_CODE,
    SPECS,
    AmqpSequence,
    AmqpValue,
    ApplicationProperties,
    Data,
    DeliveryAnnotations,
    Footer,
    Header,
    MessageAnnotations,
    Properties,
    SectionKind,
)
from amqp10msg.wire import kernel
from amqp10msg.wire.errors import INVALID_FIELD, RESOURCE_LIMIT_EXCEEDED, DecodeError, EncodeError
from amqp10msg.wire.kernel import ALLOWED_NEXT_SECTIONS, key_text
from amqp10msg.wire.kernel.codes import FIRST_SECTION_CODE
from amqp10msg.wire.kernel.walk import elements_of, end_of, type_at
from amqp10msg.wire.limits import UNLIMITED, Limits
from amqp10msg.wire.primitives import AmqpMap, Described, Symbol, ULong
from amqp10msg.wire.reprs import html_table

#: Maximum number of violations to list for one rule, because a megabyte of nulls violates a rule a
#: million times.
MAX_LISTED_VIOLATIONS = 100

# An element of `Reader.scan`: numeric descriptor or -1, then the offsets of the section, its value
# and its end.
ScannedSection = tuple[int, int, int, int]
#: The name and the field names of each section, by numeric and symbolic descriptor, for the path in
#: an error.
FIELD_NAMES: dict[int | str, tuple[str, tuple[str, ...]]] = {
    key: (spec.name, spec.names) for spec in SPECS for key in (spec.code, spec.symbol)
}
#: The kinds of section by their names in the specification.
_KIND_BY_NAME = {kind.name: kind for kind in KINDS}
#: The kinds of section outside of the body by attribute of `Message`.
_KIND_BY_ATTRIBUTE = {kind.attribute: kind for kind in KINDS if kind.attribute != "body"}

# Ids of rules; after a violation of one of them, the rest of the section can still be read.
_RECOVERABLE_RULES = ("map-duplicate-key", "array-without-constructor")
# Only a map of more than this many bytes can exceed the kernel's limit of ulong keys (rule
# ``keys-limit``). The limit protects dicts from keys with equal hashes.
_MIN_SIZE_OF_MANY_KEYS = 4096


@attrs.frozen
class Part:
    """The position of one section in an encoded message. Offsets are in bytes.

    Attributes:
        kind: the kind of section, or None if it is not a section of Part 3.
        offset: offset of the section's first byte, which begins its descriptor.
        content: offset of the section's value, after the descriptor.
        end: offset of the first byte after the section.
    """

    kind: SectionKind | None
    offset: int
    content: int
    end: int

    @property
    def name(self) -> str:
        """The section's name in the specification, or ``unknown``."""
        return self.kind.name if self.kind else "unknown"

    @property
    def code(self) -> int | None:
        """The section's numeric descriptor, even if the message uses the symbolic one."""
        return self.kind.code if self.kind else None

    @property
    def length(self) -> int:
        """The size of the section with its descriptor, in bytes."""
        return self.end - self.offset


class Scan(kernel.Scanned):
    """The positions of the sections of an encoded message, as returned by `scan`.

    Iterating yields a `Part` for each section, in wire order. Sections are decoded only when
    `section` is called.

    Attributes:
        data: the encoded message.
        limits: the limits for decoding a section.
    """

    __slots__ = ()

    @property
    def _parts(self) -> list[ScannedSection]:
        """The positions of the sections, from a new scan.

        The list is not stored: a scan is fast, and `replace`, the only method that a forwarder
        calls, does not need the list.
        """
        parts: list[ScannedSection] = kernel.Reader(self.data, 0, self.limits).scan()
        return parts

    def __len__(self) -> int:
        return len(self._parts)

    def __iter__(self) -> Iterator[Part]:
        for code, start, content, end in self._parts:
            yield Part(KIND_BY_CODE[code] if code >= 0 else None, start, content, end)

    def __repr__(self) -> str:
        return f"Scan({', '.join(f'{p.name}[{p.offset}:{p.end}]' for p in self)})"

    def _repr_html_(self) -> str:
        """Return an HTML table of the sections for notebooks."""
        rows = [(p.name, f"{p.offset:,}", f"{p.end:,}", f"{p.length:,}") for p in self]
        title = f"Scan: {len(self.data):,} bytes"
        return html_table(title, ("section", "from byte", "to", "bytes"), rows)

    @overload
    def section(self, name: Literal["header"]) -> Header | None: ...

    @overload
    def section(
        self, name: Literal["delivery-annotations", "delivery_annotations"]
    ) -> DeliveryAnnotations | None: ...

    @overload
    def section(
        self, name: Literal["message-annotations", "message_annotations"]
    ) -> MessageAnnotations | None: ...

    @overload
    def section(self, name: Literal["properties"]) -> Properties | None: ...

    @overload
    def section(
        self, name: Literal["application-properties", "application_properties"]
    ) -> ApplicationProperties | None: ...

    @overload
    def section(self, name: Literal["data"]) -> Data | None: ...

    @overload
    def section(self, name: Literal["amqp-sequence"]) -> AmqpSequence | None: ...

    @overload
    def section(self, name: Literal["amqp-value"]) -> AmqpValue | None: ...

    @overload
    def section(self, name: Literal["footer"]) -> Footer | None: ...

    def section(self, name: str) -> Any:
        """Decode the first section with this name, or return None if there is no such section.

        Args:
            name: the specification's name or the attribute of Message, such as
                ``message-annotations`` or ``message_annotations``.

        Raises:
            DecodeError: the section is malformed or has values of wrong types.
            ValueError: there is no section with this name.
        """
        kind = _KIND_BY_NAME.get(name) or _KIND_BY_ATTRIBUTE.get(name)
        if kind is None:
            raise ValueError(f"unknown section {name!r}: use one of {', '.join(_KIND_BY_NAME)}")
        for code, _, content, end in self._parts:
            if code == kind.code:
                return read_section(self.data, kind, content, end, self.limits)
        return None

    if TYPE_CHECKING:

        def replace(  # noqa: D102  (the kernel's function has the docstring)
            self,
            *,
            header: Header | Literal[False] | None = False,
            delivery_annotations: Mapping[Any, Any] | Literal[False] | None = False,
            message_annotations: Mapping[Any, Any] | Literal[False] | None = False,
            footer: Mapping[Any, Any] | Literal[False] | None = False,
        ) -> bytes: ...

    @property
    def bare(self) -> bytes:
        """The original bytes of the bare message, from the properties to the body."""
        return bytes(_span(self.data, self._parts, BARE_CODES))


# Find the positions of sections, and decode single sections.


def parts_of(octets: bytes, lenient: bool = True) -> list[ScannedSection]:
    """Return the positions of the sections of a message that has been decoded without an error.

    With `lenient`, the last section may have an unknown end: it extends to the end of the message.
    """
    parts: list[ScannedSection] = _reader(octets, lenient=lenient).scan()
    return parts


def octets_of_sections(data: bytes, codes: Container[int], lenient: bool = False) -> bytes:
    """Return the original bytes from the first to the last section whose code is in `codes`.

    Args:
        data: an encoded message that was decoded without an error.
        codes: numeric descriptors, such as `BODY_CODES`.
        lenient: whether the message was decoded leniently.
    """
    return _span(data, parts_of(data, lenient), codes)


def _span(data: bytes, parts: list[ScannedSection], codes: Container[int]) -> bytes:
    """Return the bytes from the first to the last of `parts` whose code is in `codes`."""
    matches = [part for part in parts if part[0] in codes]
    if not matches:
        return b""
    (_, start, _, _), (_, _, _, end) = matches[0], matches[-1]
    return data[start:end]


def kind_of(descriptor: object) -> SectionKind | None:
    """Return the kind of section with this descriptor (ULong or Symbol); None if there is none."""
    if type(descriptor) is ULong or type(descriptor) is Symbol:
        code = CODE_BY_DESCRIPTOR.get(descriptor)
        if code is not None:
            return KIND_BY_CODE[code]
    return None


def _reader(
    data: bytes,
    pos: int = 0,
    end: int | None = None,
    limits: Limits = UNLIMITED,
    *,
    lenient: bool = True,
) -> Any:
    """Return a kernel reader of ``data[pos:end]``."""
    reader = kernel.Reader(data, pos, limits)
    if end is not None:
        reader.end = end
    reader.lenient = reader.accepts_modified_utf8 = lenient
    return reader


def read_section(data: bytes, kind: SectionKind, content: int, end: int, limits: Limits) -> Any:
    """Decode the value of one section, ``data[content:end]``."""
    reader = _reader(data, content, end, limits, lenient=False)
    try:
        return reader.section(SPEC_BY_CODE[kind.code])
    except kernel.READ_FAULTS as error:
        raise reader.fault(error, FIELD_NAMES) from None


# The classes and functions below decode messages leniently.


@attrs.frozen
class Malformed:
    """A section that cannot be decoded, although its size is valid.

    Attributes:
        data: the bytes of the section, with its descriptor.
        error: the reason; its offset refers to the message.
    """

    data: bytes
    error: DecodeError = attrs.field(eq=False)


def read_message(data: Any, limits: Limits) -> tuple[bytes, dict[str, Any]]:
    """Decode every section that can be decoded.

    Returns:
        The encoded message as bytes, and the decoded sections by the attribute of Message that
        holds them.

    Raises:
        DecodeError: no section can be decoded, or a limit is exceeded.
    """
    octets = kernel.octets_of(data, limits)
    sections: dict[str, Any] = {}
    body: list[Any] = []
    reader = _reader(octets, 0, len(octets), limits)
    try:
        parts = reader.scan()
        if all(code < 0 for code, *_ in parts[:-1]) and parts and is_cut(octets, parts[-1]):
            reader = kernel.Reader(octets, 0, limits)
            reader.scan()  # raises the error that lenient reading ignored
        # A single reader for all sections applies the limits to the whole message.
        reader = _reader(octets, 0, len(octets), limits)
        for code, start, content, end in parts:
            # Decode every section now, so that an exceeded limit is reported here and not when the
            # caller first uses the section.
            reader.pos = content if code >= 0 else start
            reader.end = end
            reader.depth = limits.depth
            try:
                value = reader.value()
            except kernel.READ_FAULTS as error:
                if not kernel.is_limited_to_one_section(error):
                    raise
                continue
            if code < 0:
                continue
            kind = KIND_BY_CODE[code]
            section = _section_object(octets, kind, content, end, value)
            if section is None:
                continue
            if kind.attribute == "body":
                body.append(section)
            else:
                sections.setdefault(kind.attribute, section)
    except kernel.READ_FAULTS as error:
        raise reader.fault(error, FIELD_NAMES) from None
    sections["body"] = None if not body else body[0] if len(body) == 1 else body
    return octets, sections


def _section_object(octets: bytes, kind: SectionKind, content: int, end: int, value: Any) -> Any:
    """Return the section object for a decoded value, or None if the value has a wrong type."""
    try:
        # `read_section` would also search for the path of an error. That is too slow here, because
        # a hostile message may consist of many damaged sections of a few bytes.
        return _reader(octets, content, end).section(SPEC_BY_CODE[kind.code])
    except kernel.READ_FAULTS:
        pass
    if kind.source == "map":
        # An AmqpMap has duplicate keys, or keys of different types that are equal in Python.
        if isinstance(value, AmqpMap):
            return value
        return kind.cls(value) if isinstance(value, dict) else None
    return None


def read_again(octets: bytes, part: ScannedSection) -> Any:
    """Decode one section leniently, as `read_message` does; return None if that fails."""
    code, _, content, end = part
    try:
        value = _reader(octets, content, end).value()
    except kernel.READ_FAULTS:
        return None
    return _section_object(octets, KIND_BY_CODE[code], content, end, value)


def is_cut(octets: bytes, part: ScannedSection) -> bool:
    """Return whether a section has no valid size, so that it extends to the message's end."""
    _, start, _, end = part
    try:
        return kernel.skip_value(octets, start) != end
    except DecodeError:
        return True


def value_at(octets: bytes, start: int, end: int) -> Any:
    """Decode ``octets[start:end]`` as one value, or return it as `Malformed`."""
    reader = _reader(octets, start, end)
    try:
        return reader.value()
    except kernel.READ_FAULTS as error:
        return Malformed(octets[start:end], located(octets, start, end, reader.pos, error))


def located(data: bytes, start: int, end: int, pos: int, error: BaseException) -> DecodeError:
    """Return the DecodeError for an exception that was raised while reading ``data[start:end]``.

    Only these bytes are read again to find the path of the error: reading the whole message again
    for each of many damaged sections would take quadratic time.
    """
    reader = _reader(data[start:end], 0, end - start)
    reader.pos = pos - start
    if isinstance(error, DecodeError):
        error.offset -= start
    fault: DecodeError = reader.fault(error, FIELD_NAMES)
    fault.offset += start
    fault.data = data
    return fault


def check_fields(message: Any) -> None:
    """Raise EncodeError if lenient decoding left values of wrong types in a message.

    Checks the fields of header and properties, and the keys of the application properties.

    Raises:
        EncodeError: a value or a key has a wrong type; the error contains its path.
    """
    if not message._lenient:
        return
    for section in (message.header, message.properties):
        if section is not None:
            type(section)(**attrs.asdict(section, recurse=False))  # the constructor checks types
    for key in message.application_properties or ():
        if not isinstance(key, str):
            raise EncodeError(f"the key {key!r:.80} is not a str", "application-properties")


def entry_of(section: Mapping[Any, Any] | None, key: str | int, default: Any = None) -> Any:
    """Return the value of `key` in a section, or `default` if the section or the key is missing.

    Lenient decoding creates an AmqpMap for keys that a dict cannot distinguish; in an AmqpMap, the
    first key that equals `key` counts.
    """
    if section is None:
        return default
    kind = type(key)
    if kind not in (str, int) or not isinstance(section, AmqpMap):
        return section.get(key, default)
    for present, value in section.pairs:
        if isinstance(present, kind) and not isinstance(present, bool) and present == key:
            return value
    return default


def merged(
    section: Mapping[Any, Any] | None, new: Mapping[Any, Any], key_type: type[str] = Symbol
) -> Any:
    """Return the entries of a map section updated with `new`.

    Args:
        section: the section, or None.
        new: the new entries, which replace entries with the same keys.
        key_type: the type of the section's string keys; only needed for an AmqpMap.

    Returns:
        A dict; an AmqpMap if `section` is an AmqpMap.
    """
    if not isinstance(section, AmqpMap):
        return {**(section or {}), **new}
    unreplaced = [
        pair for pair in section.pairs if not (isinstance(pair[0], (str, int)) and pair[0] in new)
    ]
    typed = {
        ULong(key) if isinstance(key, int) else key_type(key): value for key, value in new.items()
    }
    return AmqpMap([*unreplaced, *typed.items()])


def with_surplus(encoded: bytes, octets: bytes, part: ScannedSection) -> bytes:
    """Return the new encoding of a section, with the surplus fields of the original appended.

    Surplus fields follow the last field that Part 3 defines for the section.

    Args:
        encoded: the new encoding of the section.
        octets: the original message.
        part: the position of the section in `octets`.
    """
    code, start, _, end = part
    defined = len(SPEC_BY_CODE[code].names)
    original = value_at(octets, start, end)
    if not defined or not isinstance(original, Described) or not isinstance(original.value, list):
        return encoded
    surplus = original.value[defined:]
    if not surplus:
        return encoded
    fields = value_at(encoded, 0, len(encoded)).value
    fields += [None] * (defined - len(fields)) + surplus
    writer = kernel.Writer(True)
    writer.value(Described(ULong(code), fields))
    section: bytes = writer.finish()
    return section


# The positions of sections, fields and entries, which the validator reads.


class Child(NamedTuple):
    """The position of a field in a section's list, or of an entry in its map.

    Attributes:
        path: the path, such as ``properties.to`` or ``footer['x-opt-hash']``.
        key: offset of the key's constructor; for a field, the same as `value`.
        value: offset of the value's constructor.
        end: offset of the first byte after the value.
    """

    path: str
    key: int
    value: int
    end: int


@attrs.define(eq=False)
class Section:
    """One section of a message, with the positions of its fields or entries.

    Attributes:
        offset: offset of the constructor of the section's descriptor.
        content: offset of the constructor of the section's value; the message's length if the
            section has no value.
        end: offset of the first byte after the section; the message's length if the end is unknown.
        kind: the kind of section.
        data: the whole message.
    """

    offset: int
    content: int
    end: int
    kind: SectionKind
    data: bytes = attrs.field(repr=False)
    #: The result of `elements_of`, once it is needed.
    _elements: tuple[int, list[int], bool] | None = attrs.field(
        default=None, init=False, repr=False
    )

    @property
    def type(self) -> str:
        """The AMQP type of the section's value; an empty string if the section has no value."""
        return type_at(self.data, self.content)

    def elements(self) -> tuple[int, list[int], bool]:
        """Return the positions of the elements of the section's list or map; see `elements_of`."""
        if self._elements is None:
            self._elements = elements_of(self.data, self.content, self.end)
        return self._elements

    @property
    def count(self) -> int:
        """The element count of the section's list or map; a map entry counts as two elements."""
        return self.elements()[0]

    @property
    def fields(self) -> Iterator[tuple[Field, int, int]]:
        """The declaration, offset and end of each field that is not null."""
        _, starts, _ = self.elements()
        for row, start, end in zip(rows(self.kind.cls), starts, starts[1:], strict=False):
            if self.data[start] != 0x40:
                yield row, start, end

    def path(self, row: Field) -> str:
        """Return the path of a field, such as ``properties.to``."""
        return f"{self.kind.name}.{row.wire_name}"

    def field(self, name: str) -> Child | None:
        """Return the position of a field; None if it is null, missing, or has an invalid size."""
        names = SPEC_BY_CODE[self.kind.code].names
        _, starts, is_last_invalid = self.elements()
        index = names.index(name) if name in names else len(starts)
        valid = len(starts) - 1 - is_last_invalid
        if index >= valid or self.data[starts[index]] == 0x40:
            return None
        start = starts[index]
        return Child(f"{self.kind.name}.{name}", start, start, starts[index + 1])

    def key_ranges(self) -> Iterator[tuple[int, int]]:
        """Yield the offset and the end of each key of the map, even of a key without a value."""
        _, starts, _ = self.elements()
        return zip(starts[0:-1:2], starts[1::2], strict=True)

    def entries(self) -> Iterator[tuple[int, int, int]]:
        """Yield the offsets of the key, value and end of each map entry whose size is valid."""
        _, starts, is_last_invalid = self.elements()
        if is_last_invalid:
            starts = starts[:-1]
        return zip(starts[0::2], starts[1::2], starts[2::2], strict=False)

    def entry(self, offsets: tuple[int, int, int]) -> Child:
        """Return the entry with these offsets (of the key, the value and the end)."""
        key, value, end = offsets
        name = key_text(self.data, key, value)
        return Child(f"{self.kind.name}[{name}]", key, value, end)


@attrs.define
class MessageMap:
    """The positions of a message's sections, and the errors of its encoding, for the validator.

    Attributes:
        data: the encoded message.
        limits: the limits for decoding parts of the message again.
        sections: the sections of Part 3, 3.2, in wire order.
        unknown: the offset of each value that is not a section, and whether it is described; at
            most `MAX_LISTED_VIOLATIONS` of each kind.
        faults: the errors of the encoding, usually one for each damaged section.
        complete: whether the message could be read to its end.
        known_annotation_keys: the reserved annotation keys that the profile defines, by section
            name; a key that ends with ``*`` is a prefix.
        doubtful: the sections that may violate rules; None if every section must be checked.
        decoded: the decoded message, which the checks that need it share; None if none did.
    """

    data: bytes
    limits: Limits
    sections: list[Section] = attrs.Factory(list)
    unknown: list[tuple[int, bool]] = attrs.Factory(list)
    faults: list[DecodeError] = attrs.Factory(list)
    complete: bool = True
    known_annotation_keys: Mapping[str, tuple[str, ...]] = attrs.Factory(dict)
    doubtful: list[Section] | None = None
    decoded: Any = None
    _by_name: dict[str, list[Section]] | None = attrs.field(default=None, init=False, repr=False)

    @cached_property
    def in_order(self) -> bool:
        """Whether the order of the sections is valid."""
        codes = [section.kind.code for section in self.sections]
        previous = [-1, *(code - FIRST_SECTION_CODE for code in codes)]
        return all(
            ALLOWED_NEXT_SECTIONS[last + 1][code]
            for last, code in zip(previous, codes, strict=False)
        )

    def of(self, *names: str) -> Iterable[Section]:
        """Return the sections with these names, except those whose value has a wrong AMQP type.

        If `doubtful` is not None, only its sections are returned.
        """
        if self._by_name is None:
            self._by_name = {}
            for section in self.sections if self.doubtful is None else self.doubtful:
                kind = section.kind
                if type_at(section.data, section.content) == kind.source:
                    if kind.name in self._by_name:
                        self._by_name[kind.name].append(section)
                    else:
                        self._by_name[kind.name] = [section]
        if len(names) == 1:
            return self._by_name.get(names[0], ())
        return [section for name in names for section in self._by_name.get(name, ())]


def map_valid_message(data: bytes, limits: Limits) -> MessageMap:
    """Return the `MessageMap` of a message that was decoded without an error before."""
    parts = kernel.Reader(data, 0, UNLIMITED).scan()
    sections = [
        Section(start, content, end, KIND_BY_CODE[code], data)
        for code, start, content, end in parts
    ]
    return MessageMap(data, limits, sections)


def map_message(data: bytes, limits: Limits) -> MessageMap:
    """Return the `MessageMap` of a message. Never raises: `faults` lists errors of the encoding."""
    view = MessageMap(data, limits)
    unknown_counts = {True: 0, False: 0}  # values that are not sections, by whether described
    fault_counts: dict[str, int] = {}
    full_limits = limits
    reader = kernel.Reader(data, 0, limits)
    start = 0
    while start < len(data):
        described = data[start] == 0
        kind = None
        is_readable = not described
        content = start
        try:
            if described:
                reader.pos = start + 1
                kind = kind_of(reader.value())
                is_readable = True
                content = reader.pos
            if kind is None:
                # Strict decoding checks only the size of a value that is not a section.
                reader.pos = start
                reader.skip()
                reader.pos = content
            reader.value()
            end = reader.pos
            if kind is not None and kind.source == "map" and end - content > _MIN_SIZE_OF_MANY_KEYS:
                fault = _section_fault(Section(start, content, end, kind, data), limits)
                if fault is not None and fault.rule == "keys-limit":
                    view.faults.append(fault)
        except kernel.READ_FAULTS as error:
            end = end_of(data, start, len(data))
            view.complete = end >= 0
            end = end if view.complete else len(data)
            # At most `MAX_LISTED_VIOLATIONS` errors per rule are listed. A UnicodeDecodeError has
            # no rule before `located` converts it, so it is counted by its encoding.
            rule = getattr(error, "rule", "") or getattr(error, "encoding", "")
            fault_counts[rule] = fault_counts.get(rule, 0) + 1
            if fault_counts[rule] <= MAX_LISTED_VIOLATIONS:
                fault = located(data, start, end, reader.pos, error)
                # Each error halves the maximum number of zero-width elements for the rest of the
                # message, so all readers together accept less than twice the limit. After the first
                # error, ignore exceeded limits: the full limit may not be exceeded.
                if limits is full_limits or fault.condition != RESOURCE_LIMIT_EXCEEDED:
                    # Remove the traceback: its frames refer to `view`, a reference cycle.
                    view.faults.append(fault.with_traceback(None))
                if fault.rule in _RECOVERABLE_RULES and view.complete:
                    first = content if kind is not None else start
                    section = Section(start, first, end, kind or KINDS[0], data)
                    for later_fault in _more_faults(
                        section, limits, fault.rule, is_section=kind is not None
                    ):
                        if limits is full_limits or later_fault.rule != "zero-width-limit":
                            view.faults.append(later_fault)
            if limits is full_limits or limits.zero_width:
                limits = attrs.evolve(limits, zero_width=limits.zero_width_of(len(data)) // 2)
            reader = kernel.Reader(data, end, limits)
        if kind is not None:
            view.sections.append(Section(start, content, end, kind, data))
        elif is_readable and view.complete:
            unknown_counts[described] += 1
            if unknown_counts[described] <= MAX_LISTED_VIOLATIONS:
                view.unknown.append((start, described))
        start = end
    return view


def _more_faults(
    section: Section, limits: Limits, rule: str, *, is_section: bool
) -> Iterator[DecodeError]:
    """Yield further errors of a section that violates `rule`, one of `_RECOVERABLE_RULES`.

    Reading the section strictly as its class may report another error first, because it checks for
    duplicate keys last. Reading it leniently ignores the recoverable rules, and so reports errors
    that come later in the section.
    """
    strict = _section_fault(section, limits) if is_section else None
    if strict is not None and strict.rule != rule and not _is_reported_by_rule(strict):
        yield strict
    lenient = _section_fault(section, limits, lenient=True)
    if lenient is not None and (strict is None or lenient.offset != strict.offset):
        yield lenient


def _section_fault(
    section: Section, limits: Limits, *, lenient: bool = False
) -> DecodeError | None:
    """Return the error of reading a section as its class, or None.

    Unlike reading a plain value, this refuses maps with too many ulong keys, and it checks for
    duplicate keys after everything else. With `lenient`, the section is read as a plain value.
    """
    reader = _reader(section.data, section.content, section.end, limits, lenient=lenient)
    reader.accepts_modified_utf8 = False  # report invalid UTF-8 even in lenient reading
    try:
        if lenient:
            reader.value()
            return None
        reader.section(SPEC_BY_CODE[section.kind.code])
    except kernel.READ_FAULTS as error:
        return located(section.data, section.offset, section.end, reader.pos, error)
    return None


def _is_reported_by_rule(fault: DecodeError) -> bool:
    """Return whether a validation rule of Part 3 also reports this error."""
    return fault.condition == INVALID_FIELD


kernel.register_scan(Scan)

if TYPE_CHECKING:

    def scan(  # noqa: D103  (the kernel's function has the docstring)
        data: bytes | bytearray | memoryview, *, limits: Limits | None = None
    ) -> Scan: ...

else:
    # Not wrapped in a Python function: that would add a call for each message.
    scan = kernel.scan
