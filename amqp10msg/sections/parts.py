"""The map of an encoded message: where its sections are, what is in them, and what is damaged.

`scan` finds the sections and decodes none. `read_message` is what ``strict=False`` does: it reads
messages that break the rules as far as that goes. `map_of` maps a message, whatever its bytes are:
every section is read once by the kernel, which judges the encodings. Where that fails the fault is
noted, and reading goes on after the section if its size is intact. Whoever reads the map then looks
at positions and format codes, and so sees what is left of a damaged section too.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, overload

import attrs

from amqp10msg.composite import Field, rows
from amqp10msg.sections import (
    BARE_CODES,
    CODES,
    KIND_OF,
    KINDS,
    SPEC_OF,
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
from amqp10msg.wire.kernel import FOLLOWERS, key_text
from amqp10msg.wire.kernel.codes import FIRST_CODE
from amqp10msg.wire.kernel.walk import end_of, head, type_at
from amqp10msg.wire.limits import UNLIMITED, Limits
from amqp10msg.wire.primitives import AmqpMap, Described, Symbol, ULong
from amqp10msg.wire.reprs import html_table

#: Violations of one rule that are listed at most: a megabyte of nulls breaks one a million times.
LISTED = 100

# What `Reader.scan` returns: code or -1, start, start of the value, end.
PartOf = tuple[int, int, int, int]
#: Section and field names by descriptor, for the path in an error.
FIELD_NAMES: dict[int | str, tuple[str, tuple[str, ...]]] = {
    key: (spec.name, spec.names) for spec in SPECS for key in (spec.code, spec.symbol)
}
_BY_NAME = {kind.name: kind for kind in KINDS}
_BY_ATTRIBUTE = {kind.attribute: kind for kind in KINDS if kind.attribute != "body"}

# Faults after which a value can be read on.
_READ_OVER = ("map-duplicate-key", "array-without-constructor")
# A map of fewer bytes has no more keys than a dict takes from strangers.
_LARGE = 4096


@attrs.frozen
class Part:
    """One section of an encoded message, not decoded.

    Attributes:
        kind: its row in the table of sections, or None where it is not a section of Part 3.
        offset: where it begins (its descriptor), in bytes.
        content: where its value begins, after the descriptor.
        end: where it ends.
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
        """The section's numeric descriptor, also where it came with the symbolic one."""
        return self.kind.code if self.kind else None

    @property
    def length(self) -> int:
        """Bytes from the descriptor to the end."""
        return self.end - self.offset


class Scan(kernel.Scanned):
    """The sections of one encoded message: where they are, and what can be done without decoding.

    Made by `scan`. Iterating gives the parts in the order of the wire.

    Attributes:
        data: the encoded message.
        limits: what decoding a section on demand may cost.
    """

    __slots__ = ()

    @property
    def _parts(self) -> list[PartOf]:
        # Found again when asked for: that is fast, and the forwarder's way needs no list.
        parts: list[PartOf] = kernel.Reader(self.data, 0, self.limits).scan()
        return parts

    def __len__(self) -> int:
        return len(self._parts)

    def __iter__(self) -> Iterator[Part]:
        for code, start, content, end in self._parts:
            yield Part(KIND_OF[code] if code >= 0 else None, start, content, end)

    def __repr__(self) -> str:
        return f"Scan({', '.join(f'{p.name}[{p.offset}:{p.end}]' for p in self)})"

    def _repr_html_(self) -> str:
        """Return a table of the sections for notebooks."""
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
        """Decode the first section of this name; None where the message has none.

        Args:
            name: the specification's name or the attribute of Message, such as
                ``message-annotations`` or ``message_annotations``.

        Raises:
            DecodeError: the section's bytes are malformed or of the wrong types.
            ValueError: no section is called so.
        """
        kind = _BY_NAME.get(name) or _BY_ATTRIBUTE.get(name)
        if kind is None:
            raise ValueError(f"no section is called {name!r}: use one of {', '.join(_BY_NAME)}")
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
        """The bytes of the bare message, properties to body, exactly as they came."""
        return bytes(_span(self.data, self._parts, BARE_CODES))


# Where the sections are, and each one by itself.


def parts_of(octets: bytes, lenient: bool = True) -> list[PartOf]:
    """The sections of a message that was read; of one that was read leniently, also the rest.

    The rest is what follows the first section whose end is not known: that and all after it.
    """
    parts: list[PartOf] = _reader(octets, lenient=lenient).scan()
    return parts


def octets_of_sections(data: bytes, codes: Container[int], lenient: bool = False) -> bytes:
    """The bytes from the first section with one of these codes to the last, as they stand.

    Args:
        data: an encoded message that was decoded without error.
        codes: numeric descriptors, such as `BODY_CODES`.
        lenient: it was decoded so.
    """
    return _span(data, parts_of(data, lenient), codes)


def _span(data: bytes, parts: list[PartOf], codes: Container[int]) -> bytes:
    found = [part for part in parts if part[0] in codes]
    if not found:
        return b""
    (_, start, _, _), (_, _, _, end) = found[0], found[-1]
    return data[start:end]


def kind_of(descriptor: object) -> SectionKind | None:
    """The kind of section that a descriptor names; a string or a long of the same value is none."""
    if type(descriptor) is ULong or type(descriptor) is Symbol:
        code = CODES.get(descriptor)
        if code is not None:
            return KIND_OF[code]
    return None


def _reader(
    data: bytes,
    pos: int = 0,
    end: int | None = None,
    limits: Limits = UNLIMITED,
    *,
    lenient: bool = True,
) -> Any:
    reader = kernel.Reader(data, pos, limits)
    if end is not None:
        reader.end = end
    reader.lenient = reader.repairs_text = lenient
    return reader


def read_section(data: bytes, kind: SectionKind, content: int, end: int, limits: Limits) -> Any:
    """Decode the value of one section that stands at data[content:end]."""
    reader = _reader(data, content, end, limits, lenient=False)
    try:
        return reader.section(SPEC_OF[kind.code])
    except kernel.READ_FAULTS as error:
        raise reader.fault(error, FIELD_NAMES) from None


# Read as far as that goes.


@attrs.frozen
class Malformed:
    """A section whose bytes are not an encoded value, though it is known where they end.

    Attributes:
        data: the section, from the constructor of its descriptor on.
        error: what is wrong; its offset counts in the message.
    """

    data: bytes
    error: DecodeError = attrs.field(eq=False)


def read_message(data: Any, limits: Limits) -> tuple[bytes, dict[str, Any]]:
    """Read every section that can be read: return the input, and the sections by their attributes.

    Raises:
        DecodeError: nothing parses, or a limit is exceeded.
    """
    octets = kernel.octets_of(data, limits)
    found: dict[str, Any] = {}
    body: list[Any] = []
    reader = _reader(octets, 0, len(octets), limits)
    try:
        parts = reader.scan()
        if all(code < 0 for code, *_ in parts[:-1]) and parts and is_cut(octets, parts[-1]):
            reader = kernel.Reader(octets, 0, limits)
            reader.scan()  # which says what is wrong
        # One other reader for all of them, so that the limits hold for the whole input.
        reader = _reader(octets, 0, len(octets), limits)
        for code, start, content, end in parts:
            # Read everything, so that what is beyond a limit is reported now and not later.
            reader.pos = content if code >= 0 else start
            reader.end = end
            reader.depth = limits.depth
            try:
                value = reader.value()
            except kernel.READ_FAULTS as error:
                if not kernel.is_local(error):
                    raise
                continue
            if code < 0:
                continue
            kind = KIND_OF[code]
            section = _section(octets, kind, content, end, value)
            if section is None:
                continue
            if kind.attribute == "body":
                body.append(section)
            else:
                found.setdefault(kind.attribute, section)
    except kernel.READ_FAULTS as error:
        raise reader.fault(error, FIELD_NAMES) from None
    found["body"] = None if not body else body[0] if len(body) == 1 else body
    return octets, found


def _section(octets: bytes, kind: SectionKind, content: int, end: int, value: Any) -> Any:
    """Make a section of its value, or None where that cannot be; values keep their types."""
    try:
        # Not `read_section`: a search for the place of what is wrong would cost more, and there
        # may be as many unreadable sections as a third of the input has bytes.
        return _reader(octets, content, end).section(SPEC_OF[kind.code])
    except kernel.READ_FAULTS:
        pass
    if kind.source == "map":
        # A key that stands twice, or keys that a dict cannot tell apart.
        if isinstance(value, AmqpMap):
            return value
        return kind.cls(value) if isinstance(value, dict) else None
    return None


def read_again(octets: bytes, part: PartOf) -> Any:
    """Read a section as `read_message` did; None where it was not readable as what it is."""
    code, _, content, end = part
    try:
        value = _reader(octets, content, end).value()
    except kernel.READ_FAULTS:
        return None
    return _section(octets, KIND_OF[code], content, end, value)


def is_cut(octets: bytes, part: PartOf) -> bool:
    """Return whether it is not known where a section ends, so that it is all the rest."""
    _, start, _, end = part
    try:
        return kernel.skip_value(octets, start) != end
    except DecodeError:
        return True


def value_at(octets: bytes, start: int, end: int) -> Any:
    """Read what stands there as a value, or give it as `Malformed`."""
    reader = _reader(octets, start, end)
    try:
        return reader.value()
    except kernel.READ_FAULTS as error:
        return Malformed(octets[start:end], located(octets, start, end, reader.pos, error))


def located(data: bytes, start: int, end: int, pos: int, error: BaseException) -> DecodeError:
    """Make the DecodeError of what was raised while reading data[start:end].

    The section's own bytes are enough to find the path, and not looking at the others keeps a
    message of many damaged sections from costing the square of its size.
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
    """Refuse header and properties with values of other types, as a lenient decoding leaves them.

    Likewise application properties whose keys are not text.

    Raises:
        EncodeError: there is one; the path says where.
    """
    if not message._lenient:
        return
    for section in (message.header, message.properties):
        if section is not None:
            type(section)(**attrs.asdict(section, recurse=False))  # which checks them
    for key in message.application_properties or ():
        if not isinstance(key, str):
            raise EncodeError(f"the key {key!r:.80} is not a str", "application-properties")


def entry_of(section: Mapping[Any, Any] | None, key: str | int, default: Any = None) -> Any:
    """Return an entry of a section by a plain key; the default where it, or the section, is absent.

    Where a lenient decoding left an AmqpMap, whose keys have types, it is the first such entry.
    """
    if section is None:
        return default
    kind = type(key)
    if kind not in (str, int) or not isinstance(section, AmqpMap):
        return section.get(key, default)
    for held, value in section.pairs:
        if isinstance(held, kind) and not isinstance(held, bool) and held == key:
            return value
    return default


def merged(
    held: Mapping[Any, Any] | None, new: Mapping[Any, Any], key_type: type[str] = Symbol
) -> Any:
    """Return the entries of a section and new ones, which replace those of their keys.

    A dict, or an AmqpMap where the section is one, as a dict cannot hold its keys.

    Args:
        held: the section, or None.
        new: the new entries.
        key_type: of the section's keys that are text, where it is an AmqpMap.
    """
    if not isinstance(held, AmqpMap):
        return {**(held or {}), **new}
    kept = [pair for pair in held.pairs if not (isinstance(pair[0], (str, int)) and pair[0] in new)]
    typed = {
        ULong(key) if isinstance(key, int) else key_type(key): value for key, value in new.items()
    }
    return AmqpMap([*kept, *typed.items()])


def with_surplus(encoded: bytes, octets: bytes, part: PartOf) -> bytes:
    """Return a section that was encoded again, with the fields after those that are defined.

    Args:
        encoded: the section as it is now.
        octets: the message as it came.
        part: where the section stands in that.
    """
    code, start, _, end = part
    known = len(SPEC_OF[code].names)
    came = value_at(octets, start, end)
    if not known or not isinstance(came, Described) or not isinstance(came.value, list):
        return encoded
    surplus = came.value[known:]
    if not surplus:
        return encoded
    fields = value_at(encoded, 0, len(encoded)).value
    fields += [None] * (known - len(fields)) + surplus
    writer = kernel.Writer(True)
    writer.value(Described(ULong(code), fields))
    made: bytes = writer.finish()
    return made


# Mapped, whatever the bytes are.


class Child(NamedTuple):
    """A field of a section's list, or an entry of its map.

    Attributes:
        path: where it is, such as ``properties.to`` or ``footer['x-opt-hash']``.
        key: where the key's constructor is; in a list the same as `value`.
        value: where the value's constructor is.
        end: where the value ends.
    """

    path: str
    key: int
    value: int
    end: int


@attrs.frozen
class Section(Part):
    """One section of a message, and what is in it.

    Attributes:
        kind: its row in the table of sections.
        offset: where it begins, at its descriptor's constructor.
        content: where its value's constructor is; the end of the message if that is missing.
        end: where it ends; the end of the message if that cannot be told.
        data: the whole message.
        type: the AMQP type of its value; empty if there is none.
    """

    kind: SectionKind
    data: bytes = attrs.field(repr=False)

    @cached_property
    def type(self) -> str:
        """The AMQP type of its value; empty if there is none."""
        return type_at(self.data, self.content)

    @cached_property
    def _opened(self) -> tuple[int, int, int]:
        """The count of the list or map, where its first child is and where it ends."""
        value = head(self.data, self.content, self.end)
        broken = not value.holds or value.stop > self.end
        if broken or value.count > value.end - value.content:
            return 0, self.content, self.content
        return value.count, value.content, value.end

    @property
    def count(self) -> int:
        """The count of the section's list or map."""
        return self._opened[0]

    @cached_property
    def _children(self) -> tuple[list[int], bool]:
        """Where the children begin and the last one ends, and whether that is damaged in size.

        Such a child is the last one, and taken to fill what is left.
        """
        count, first, stop = self._opened
        starts = [first]
        is_torn = False
        while len(starts) <= count and starts[-1] < stop:
            end = end_of(self.data, starts[-1], stop)
            is_torn = end < 0
            starts.append(stop if is_torn else end)
        return starts, is_torn

    @cached_property
    def fields(self) -> dict[str, tuple[Field, int, int]]:
        """The fields that are set by their names: row, place and end."""
        starts, _ = self._children
        return {
            row.wire_name: (row, start, end)
            for row, start, end in zip(rows(self.kind.cls), starts, starts[1:], strict=False)
            if self.data[start] != 0x40
        }

    def path(self, row: Field) -> str:
        """The path of a field."""
        return f"{self.kind.name}.{row.wire_name}"

    def field(self, name: str) -> Child | None:
        """A field, or None if it is not set or damaged in size."""
        found = self.fields.get(name)
        if found is None:
            return None
        row, start, end = found
        starts, is_torn = self._children
        if is_torn and start == starts[-2]:
            return None
        return Child(self.path(row), start, start, end)

    def key_places(self) -> Iterator[tuple[int, int]]:
        """Yield the places of a map's keys, with or without values, and where they end."""
        starts, _ = self._children
        return zip(starts[0:-1:2], starts[1::2], strict=True)

    def entries(self) -> Iterator[tuple[int, int, int]]:
        """Yield the places of key, value and end of a map's entries of intact size."""
        starts, is_torn = self._children
        if is_torn:
            starts = starts[:-1]
        return zip(starts[0::2], starts[1::2], starts[2::2], strict=False)

    def entry(self, place: tuple[int, int, int]) -> Child:
        """Name the entry at a place that `entries` gave."""
        key, value, end = place
        name = key_text(self.data, key, value)
        return Child(f"{self.kind.name}[{name}]", key, value, end)


@attrs.define
class MessageMap:
    """A message, taken apart as far as that goes.

    Attributes:
        data: the encoded message.
        limits: what reading it again may cost.
        sections: what is a section of Part 3, 3.2, in the order of the wire.
        strangers: where something else is between them, and whether that has a descriptor;
            the first ones of each sort.
        faults: what is wrong with the encodings, one for each damaged section.
        complete: the message could be taken apart to its end.
        known_keys: reserved annotation keys that are understood, by section; ``*`` ends a prefix.
        doubtful: the sections whose contents may break rules; None for all.
    """

    data: bytes
    limits: Limits
    sections: list[Section] = attrs.Factory(list)
    strangers: list[tuple[int, bool]] = attrs.Factory(list)
    faults: list[DecodeError] = attrs.Factory(list)
    complete: bool = True
    known_keys: dict[str, tuple[str, ...]] = attrs.Factory(dict)
    doubtful: list[Section] | None = None
    _by_name: dict[str, list[Section]] | None = attrs.field(default=None, init=False, repr=False)

    @cached_property
    def in_order(self) -> bool:
        """Whether every section may stand where it does."""
        codes = [section.kind.code for section in self.sections]
        before = [-1, *(code - FIRST_CODE for code in codes)]
        return all(FOLLOWERS[last + 1][code] for last, code in zip(before, codes, strict=False))

    def of(self, *names: str) -> Iterable[Section]:
        """Return the doubtful sections of these names whose value is of the required type."""
        if self._by_name is None:
            self._by_name = {}
            for section in self.sections if self.doubtful is None else self.doubtful:
                if section.type == section.kind.source:
                    self._by_name.setdefault(section.kind.name, []).append(section)
        if len(names) == 1:
            return self._by_name.get(names[0], ())
        return [section for name in names for section in self._by_name.get(name, ())]


def sound_map(data: bytes, limits: Limits) -> MessageMap:
    """Map a message that decodes: nothing is wrong with its encodings and its sections."""
    sections = [
        Section(offset, content, end, KIND_OF[code], data)
        for code, offset, content, end in parts_of(data, lenient=False)
    ]
    return MessageMap(data, limits, sections)


def map_of(data: bytes, limits: Limits) -> MessageMap:
    """Take a message apart. Whatever the bytes are, this raises nothing."""
    view = MessageMap(data, limits)
    strangers = {True: 0, False: 0}
    faults: dict[str, int] = {}
    whole = limits
    reader = kernel.Reader(data, 0, limits)
    start = 0
    while start < len(data):
        described = data[start] == 0
        kind = None
        named = not described
        content = start
        try:
            if described:
                reader.pos = start + 1
                kind = kind_of(reader.value())
                named = True
                content = reader.pos
            if kind is None:
                # Strict decoding looks at no more than the size of what is not a section.
                reader.pos = start
                reader.skip()
                reader.pos = content
            reader.value()
            end = reader.pos
            if kind is not None and kind.source == "map" and end - content > _LARGE:
                found = _typed(Section(start, content, end, kind, data), limits)
                if found is not None and found.rule == "keys-limit":
                    view.faults.append(found)
        except kernel.READ_FAULTS as error:
            end = end_of(data, start, len(data))
            view.complete = end >= 0
            end = end if view.complete else len(data)
            # One sort of fault is counted under one name, also where it is not a DecodeError yet.
            sort = getattr(error, "rule", "") or getattr(error, "encoding", "")
            faults[sort] = faults.get(sort, 0) + 1
            if faults[sort] <= LISTED:
                fault = located(data, start, end, reader.pos, error)
                # A new reader has a new budget for what no byte pays for. Each has half the last
                # one, so that damage does not buy more than twice the whole; what is then beyond
                # it is not the message's fault.
                if limits is whole or fault.condition != RESOURCE_LIMIT_EXCEEDED:
                    # The frames that it was raised in would hold the view, and it them.
                    view.faults.append(fault.with_traceback(None))
                if fault.rule in _READ_OVER and view.complete:
                    first = content if kind is not None else start
                    section = Section(start, first, end, kind or KINDS[0], data)
                    for other in _further(section, limits, fault.rule, known=kind is not None):
                        if limits is whole or other.rule != "zero-width-limit":
                            view.faults.append(other)
            if limits is whole or limits.zero_width:
                limits = attrs.evolve(limits, zero_width=limits.zero_width_of(len(data)) // 2)
            reader = kernel.Reader(data, end, limits)
        if kind is not None:
            view.sections.append(Section(start, content, end, kind, data))
        elif named and view.complete:
            strangers[described] += 1
            if strangers[described] <= LISTED:
                view.strangers.append((start, described))
        start = end
    return view


def _further(section: Section, limits: Limits, rule: str, *, known: bool) -> Iterator[DecodeError]:
    """Yield what else is wrong with a section that breaks a rule which can be read over.

    Strict decoding finds that first where it looks for duplicate keys only when all has been read,
    and lenient decoding finds nothing else.
    """
    strict = _typed(section, limits) if known else None
    if strict is not None and strict.rule != rule and not _of_model(strict):
        yield strict
    lenient = _typed(section, limits, lenient=True)
    if lenient is not None and (strict is None or lenient.offset != strict.offset):
        yield lenient


def _typed(section: Section, limits: Limits, *, lenient: bool = False) -> DecodeError | None:
    """Read a section as its own class, for a fault that it does not have as a plain value.

    That refuses maps that a dict cannot safely hold, and it looks for duplicate keys when all has
    been read, so that it may find something else before. Leniently it is read as a plain value.
    """
    reader = _reader(section.data, section.content, section.end, limits, lenient=lenient)
    reader.repairs_text = False  # text that is not UTF-8 is a fault, also where it can be read
    try:
        if lenient:
            reader.value()
            return None
        reader.section(SPEC_OF[section.kind.code])
    except kernel.READ_FAULTS as error:
        return located(section.data, section.offset, section.end, reader.pos, error)
    return None


def _of_model(fault: DecodeError) -> bool:
    """Return whether a rule of Part 3 finds this, so that it need not be noted."""
    return fault.condition == INVALID_FIELD


kernel.register_scan(Scan)

if TYPE_CHECKING:

    def scan(  # noqa: D103  (the kernel's function has the docstring)
        data: bytes | bytearray | memoryview, *, limits: Limits | None = None
    ) -> Scan: ...

else:
    # The kernel's own function, since one around it would cost every message a call.
    scan = kernel.scan
