"""An encoded message as the rules see it: where its sections and their children are.

Strategy: every section is read once by the kernel, which judges the encodings. Where that fails the
fault is noted, and reading goes on after the section if its size is intact. The rules of Part 3
then look at positions and format codes, so that they see what is left of a damaged section too, and
offsets need no second bookkeeping.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import NamedTuple

import attrs

from amqp10msg.composite import Field, rows
from amqp10msg.sections import CODES, KIND_OF, KINDS, SPEC_OF, SectionKind
from amqp10msg.sections.lenient import located
from amqp10msg.wire import kernel
from amqp10msg.wire.errors import INVALID_FIELD, RESOURCE_LIMIT_EXCEEDED, DecodeError
from amqp10msg.wire.kernel import FOLLOWERS, key_text
from amqp10msg.wire.kernel.codes import FIRST_CODE
from amqp10msg.wire.kernel.walk import end_of, head, type_at
from amqp10msg.wire.limits import UNLIMITED, Limits
from amqp10msg.wire.primitives import Symbol, ULong

#: Violations of one rule that are listed at most: a megabyte of nulls breaks one a million times.
LISTED = 100

# Faults behind which a value can be read on.
_READ_OVER = ("map-duplicate-key", "array-without-constructor")
# A map of fewer octets has no more keys than a dict takes from strangers.
_LARGE = 4096


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


@attrs.define
class Section:
    """One section of a message.

    Attributes:
        kind: its row in the table of sections.
        data: the whole message.
        offset: where it begins, at its descriptor's constructor.
        content: where its value's constructor is; the end of the message if that is missing.
        end: where it ends; the end of the message if that cannot be told.
        type: the AMQP type of its value; empty if there is none.
    """

    kind: SectionKind
    data: bytes = attrs.field(repr=False)
    offset: int
    content: int
    end: int
    type: str = attrs.field(init=False)
    _opened: tuple[int, int, int] | None = attrs.field(default=None, init=False, repr=False)
    _starts: list[int] | None = attrs.field(default=None, init=False, repr=False)
    _fields: dict[str, tuple[Field, int, int]] | None = attrs.field(
        default=None, init=False, repr=False
    )
    _torn: bool = attrs.field(default=False, init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        self.type = type_at(self.data, self.content)

    def _open(self) -> tuple[int, int, int]:
        """Return the count of the list or map, where its first child is and where it ends."""
        if self._opened is None:
            value = head(self.data, self.content, self.end)
            broken = not value.holds or value.stop > self.end
            if broken or value.count > value.end - value.content:
                self._opened = (0, self.content, self.content)
            else:
                self._opened = (value.count, value.content, value.end)
        return self._opened

    @property
    def count(self) -> int:
        """The count of the section's list or map."""
        return self._open()[0]

    def starts(self) -> list[int]:
        """Return where the children begin, and then where the last one ends.

        A child that is damaged in size is the last one, and taken to fill what is left.
        """
        if self._starts is None:
            count, first, stop = self._open()
            starts = [first]
            while len(starts) <= count and starts[-1] < stop:
                end = end_of(self.data, starts[-1], stop)
                self._torn = end < 0
                starts.append(stop if self._torn else end)
            self._starts = starts
        return self._starts

    def fields(self) -> dict[str, tuple[Field, int, int]]:
        """Return the fields that are set by their names: row, place and end."""
        if self._fields is None:
            starts = self.starts()
            self._fields = {
                row.wire_name: (row, start, end)
                for row, start, end in zip(rows(self.kind.cls), starts, starts[1:], strict=False)
                if self.data[start] != 0x40
            }
        return self._fields

    def path(self, row: Field) -> str:
        """Return the path of a field."""
        return f"{self.kind.name}.{row.wire_name}"

    def field(self, name: str) -> Child | None:
        """Return a field, or None if it is not set or damaged in size."""
        found = self.fields().get(name)
        if found is None:
            return None
        row, start, end = found
        # A child that is damaged in size is the last one.
        if self._torn and start == self.starts()[-2]:
            return None
        return Child(self.path(row), start, start, end)

    def key_places(self) -> Iterator[tuple[int, int]]:
        """Yield the places of a map's keys, with or without values, and where they end."""
        starts = self.starts()
        return zip(starts[0:-1:2], starts[1::2], strict=True)

    def entries(self) -> Iterator[tuple[int, int, int]]:
        """Yield the places of key, value and end of a map's entries of intact size."""
        starts = self.starts()
        if self._torn:
            starts = starts[:-1]
        return zip(starts[0::2], starts[1::2], starts[2::2], strict=False)

    def entry(self, place: tuple[int, int, int]) -> Child:
        """Name the entry at a place that `entries` gave."""
        key, value, end = place
        name = key_text(self.data, key, value)
        return Child(f"{self.kind.name}[{name}]", key, value, end)


@attrs.define
class View:
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


def sound(data: bytes, limits: Limits) -> View:
    """Take a message apart that decodes: nothing is wrong with its encodings and its sections."""
    parts = kernel.Reader(data, 0, UNLIMITED).scan()
    return View(data, limits, [Section(KIND_OF[part[0]], data, *part[1:]) for part in parts])


def read(data: bytes, limits: Limits) -> View:
    """Take a message apart. Whatever the bytes are, this raises nothing."""
    view = View(data, limits)
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
                kind = _kind_of(reader.value())
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
                found = _typed(Section(kind, data, start, content, end), limits)
                if found is not None and found.rule == "keys-limit":
                    view.faults.append(found)
        except kernel.READ_FAULTS as error:
            end = end_of(data, start, len(data))
            view.complete = end >= 0
            end = end if view.complete else len(data)
            # One sort of fault is counted under one name, also where it is no DecodeError yet.
            sort = getattr(error, "rule", "") or getattr(error, "encoding", "")
            faults[sort] = faults.get(sort, 0) + 1
            if faults[sort] <= LISTED:
                fault = located(data, start, end, reader.pos, error)
                # A new reader has a new budget for what no octet pays for. Each has half the last
                # one, so that damage does not buy more than twice the whole; what is then beyond
                # it is not the message's fault.
                if limits is whole or fault.condition != RESOURCE_LIMIT_EXCEEDED:
                    # The frames that it was raised in would hold the view, and it them.
                    view.faults.append(fault.with_traceback(None))
                if fault.rule in _READ_OVER and view.complete:
                    first = content if kind is not None else start
                    section = Section(kind or KINDS[0], data, start, first, end)
                    for other in _further(section, limits, fault.rule, known=kind is not None):
                        if limits is whole or other.rule != "zero-width-limit":
                            view.faults.append(other)
            if limits is whole or limits.zero_width:
                limits = attrs.evolve(limits, zero_width=limits.zero_width // 2)
            reader = kernel.Reader(data, end, limits)
        if kind is not None:
            view.sections.append(Section(kind, data, start, content, end))
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
    reader = kernel.Reader(section.data, section.content, limits)
    reader.end = section.end
    reader.lenient = lenient
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


def _kind_of(descriptor: object) -> SectionKind | None:
    if type(descriptor) is ULong or type(descriptor) is Symbol:
        code = CODES.get(descriptor)
        if code is not None:
            return KIND_OF[code]
    return None
