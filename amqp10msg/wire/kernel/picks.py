# cython: boundscheck=True, wraparound=False, annotation_typing=False, infer_types=True
"""Reading of single fields and entries of an encoded message, without decoding the whole."""

from __future__ import annotations

from typing import Any

from amqp10msg.wire.errors import DecodeError
from amqp10msg.wire.kernel.codes import (
    AMQP_SEQUENCE,
    DATA,
    FIRST_CODE,
    FOOTER,
    FOOTER_CODE,
    KIND_OF,
    KIND_STRING,
    KIND_SYMBOL,
    KIND_ULONG,
    NAMES,
    SECTIONS,
    SHAPE_ANNOTATIONS,
    SHAPE_COMPOSITE,
    SHAPE_PROPERTIES,
)
from amqp10msg.wire.kernel.messages import Reader
from amqp10msg.wire.kernel.twin import Keys, QuickPicks
from amqp10msg.wire.kernel.value_reader import READ_FAULTS, octets_of
from amqp10msg.wire.kernel.writer import not_simple
from amqp10msg.wire.limits import DEFAULT_LIMITS

_ABSENT = object()


class Wanted:
    """The requested values of a section."""

    def __init__(
        self, spec: Any, whole: int, fields: Any, keys: dict[bytes, int], numbers: dict[int, int]
    ) -> None:
        """Set the requested values with their indexes in the result.

        Args:
            spec: the declaration of the section.
            whole: the index of the section itself; -1 if it is not requested.
            fields: for a composite, an entry per field up to the last requested one: the index, or
                minus the number of consecutive fields to skip.
            keys: for a map, the indexes by encoded string or symbol key.
            numbers: for a map, the indexes by ulong key.
        """
        self.spec = spec
        self.whole = whole
        self.fields = fields
        self.keys = Keys(keys)
        self.numbers = numbers


class Picks:
    """Reads the requested values of messages: a call returns them in order."""

    def __init__(
        self, wanted: list[Any], defaults: tuple[Any, ...], body: int, limits: Any
    ) -> None:
        """Set the requested values.

        Args:
            wanted: a `Wanted` or None for each section, by its number.
            defaults: the results for absent values.
            body: the index of the body in the result; -1 if it is not requested.
            limits: limits on the cost of reading a message.
        """
        self.wanted = wanted
        self.defaults = defaults
        self.body = body
        self.limits = limits
        self.quick = QuickPicks([quick_section(one) for one in wanted], defaults, body)

    def __call__(self, data: Any) -> Any:
        """Return the requested values, in the order of the paths.

        Args:
            data: the encoded message: bytes, bytearray or memoryview.

        Raises:
            DecodeError: the bytes that must be read for the values are invalid.
        """
        return self.picked(data)

    def picked(self, data: Any) -> Any:
        """Read an encoded message."""
        # The limits are not assigned to a local before they are needed: threads that share a picker
        # contend when they count references to the same object.
        if type(data) is bytes and self.limits is DEFAULT_LIMITS:
            found = self.quick.pick(data)
            if found is not None:
                return found
        else:
            data = octets_of(data, self.limits)
        limits = self.limits
        reader = Reader.__new__(Reader)
        reader.begin(data, 0, limits)
        try:
            return self.read(reader)
        except READ_FAULTS as error:
            raise reader.fault(error, NAMES) from None

    def read(self, reader: Any) -> Any:
        """Read a message from its beginning."""
        found = [_ABSENT] * len(self.defaults)
        buf = reader.buf
        end = reader.end
        seen = 0
        last = -1  # the kind of the body, if the body is requested
        while reader.pos < end:
            start = reader.pos
            if (
                end - start > 2
                and buf[start + 1] == 0x53
                and FIRST_CODE <= buf[start + 2] <= FOOTER_CODE
                and buf[start] == 0
            ):
                index = buf[start + 2] - FIRST_CODE
                reader.pos = start + 3
            else:
                index = reader.section_code() - FIRST_CODE
                if index < 0:
                    reader.pos = start
                    reader.skip()
                    continue
            if self.body >= 0 and DATA <= index < FOOTER:
                self.read_body(reader, found, index, last, start)
                last = index
                continue
            wanted = self.wanted[index]
            if wanted is None:
                pass_over(reader, 1)
                continue
            if seen >> index & 1:
                raise DecodeError(
                    f"duplicate {wanted.spec.name} section", start, rule="duplicate-section"
                )
            seen |= 1 << index
            if wanted.whole >= 0:
                found[wanted.whole] = reader.section(wanted.spec)
            elif wanted.spec.shape == SHAPE_COMPOSITE:
                self.read_fields(reader, found, wanted)
            else:
                self.read_entries(reader, found, wanted)
        if last == DATA or last == AMQP_SEQUENCE:
            found[self.body] = joined(found[self.body], last)
        for i in range(len(found)):
            if found[i] is _ABSENT:
                found[i] = self.defaults[i]
        return tuple(found)

    def read_fields(self, reader: Any, found: list[Any], wanted: Any) -> None:
        """Read the requested fields of a composite, and skip the fields after the last of them."""
        spec = wanted.spec
        fields = wanted.fields
        wide = len(fields)
        for i in range(wide):
            if fields[i] >= 0 and spec.defaults[i] is not None:
                found[fields[i]] = spec.defaults[i]
        outer = reader.open_list(spec)
        if outer < 0:
            return
        count = reader.count
        i = 0
        while i < count:
            if i == wide:
                # The remaining fields are not checked, just as skipped sections are not.
                reader.pos = reader.end
                break
            place = fields[i]
            if place < 0:
                place = -place if i - place < count else count - i
                pass_over(reader, place)
                i += place
                continue
            code = reader.buf[reader.take(1)]
            if code != 0x40:
                found[place] = reader.field(spec.kinds[i], code, spec, i)
            i += 1
        reader.ascend(outer)

    def read_entries(self, reader: Any, found: list[Any], wanted: Any) -> None:
        """Read the requested entries of a map, and skip the others."""
        spec = wanted.spec
        outer = reader.open_map(spec)
        count = reader.count
        annotations = spec.shape == SHAPE_ANNOTATIONS
        wanted_kind = KIND_SYMBOL if annotations else KIND_STRING
        buf = reader.buf
        keys = wanted.keys
        for _ in range(count >> 1):
            at = reader.take(1)
            code = buf[at]
            kind = KIND_OF[code]
            if kind == wanted_kind:
                begin = reader.span(code)
                place = keys.place(buf, begin, reader.pos)
            elif annotations and kind == KIND_ULONG:
                place = wanted.numbers.get(reader.number(code), -1)
            else:
                raise reader.wrong_key(
                    spec, code, "a symbol or a ulong" if annotations else "a string", at
                )
            if place < 0:
                pass_over(reader, 1)
                continue
            if found[place] is not _ABSENT:
                reader.pos = at
                key = reader.value()
                raise DecodeError(f"duplicate map key {key!r}", at, rule="map-duplicate-key")
            pos = reader.pos
            value = reader.value()
            code = buf[pos]
            if (
                (code >= 0xC0 or code == 0x45 or code == 0)
                and not annotations
                and not_simple(value)
            ):
                end = reader.pos
                reader.pos = at
                key = reader.value()
                reader.pos = end
                raise reader.compound_property(key, pos)
            found[place] = value
        reader.ascend(outer)

    def read_body(self, reader: Any, found: list[Any], index: int, last: int, start: int) -> None:
        """Read one section of the body."""
        spec = SECTIONS[index]
        if last >= 0 and (last != index or index > AMQP_SEQUENCE):
            if last == index:
                raise DecodeError(f"duplicate {spec.name} section", start, rule="duplicate-section")
            raise DecodeError(
                f"{spec.name} beside {SECTIONS[last].name}: a body has sections of one kind",
                start,
                rule="mixed-body-sections",
            )
        value = getattr(reader.section(spec), spec.attribute)
        if index > AMQP_SEQUENCE:
            found[self.body] = value
        elif last < 0:
            found[self.body] = [value]
        else:
            found[self.body].append(value)


def quick_section(wanted: Any) -> Any:
    """Return the description of a section for the fast path."""
    if wanted is None:
        return None
    spec = wanted.spec
    # The fast path handles neither ulong keys, which are rare, nor whole sections.
    shape = -1
    if wanted.whole < 0 and not wanted.numbers:
        shape = (SHAPE_COMPOSITE, SHAPE_PROPERTIES, SHAPE_ANNOTATIONS).index(spec.shape)
    places = [max(place, -1) for place in wanted.fields]
    return shape, places, spec.usual, spec.defaults, wanted.keys


def pass_over(reader: Any, count: int) -> None:
    """Skip values by their constructors and sizes."""
    if not reader.passed(count):
        for _ in range(count):
            reader.skip()


def joined(parts: Any, index: int) -> Any:
    """Return the content of several body sections as that of a single section."""
    if len(parts) == 1:
        return parts[0]
    if index == DATA:
        return b"".join(parts)
    return [value for part in parts for value in part]
