# cython: boundscheck=True, wraparound=False, annotation_typing=False, infer_types=True
"""Reads single fields and map entries of an encoded message, without decoding all of it."""

from __future__ import annotations

from typing import Any

from amqp10msg.wire.errors import DecodeError
from amqp10msg.wire.kernel.codes import (
    AMQP_SEQUENCE,
    DATA,
    FIRST_SECTION_CODE,
    FOOTER,
    FOOTER_CODE,
    KIND_OF_FORMAT_CODE,
    KIND_STRING,
    KIND_SYMBOL,
    KIND_ULONG,
    NAMES_OF_DESCRIPTOR,
    SECTION_SPECS,
    SHAPE_ANNOTATIONS,
    SHAPE_COMPOSITE,
    SHAPE_PROPERTIES,
)
from amqp10msg.wire.kernel.messages import Reader
from amqp10msg.wire.kernel.twin import Keys, QuickPicks
from amqp10msg.wire.kernel.value_reader import READ_FAULTS, octets_of
from amqp10msg.wire.kernel.writer import not_simple
from amqp10msg.wire.limits import DEFAULT_LIMITS

# A sentinel in the list of results, for a requested value that was not read yet.
_NOT_READ = object()


class SectionPlan:
    """The requested values in one section."""

    def __init__(
        self, spec: Any, whole: int, fields: Any, keys: dict[bytes, int], numbers: dict[int, int]
    ) -> None:
        """Set the attributes. An index is the index of a value in the result of `Picks`.

        Args:
            spec: the declaration of the section.
            whole: the index of the section itself; -1 if it is not requested.
            fields: for a composite, an entry for each field up to the last requested field: its
                index, or minus the number of consecutive fields to skip.
            keys: for a map, the indexes by the content of string or symbol keys.
            numbers: for a map, the indexes by ulong key.
        """
        self.spec = spec
        self.whole = whole
        self.fields = fields
        self.keys = Keys(keys)
        self.numbers = numbers


class Picks:
    """Reads the requested values of a message. A call returns them in the requested order."""

    def __init__(self, plans: list[Any], defaults: tuple[Any, ...], body: int, limits: Any) -> None:
        """Set the requested values and the limits.

        Args:
            plans: for each section, by its number, a `SectionPlan`; None to skip the section.
            defaults: the results for values that the message does not have.
            body: the index of the body in the result; -1 if it is not requested.
            limits: limits on the cost of reading a message.
        """
        self.plans = plans
        self.defaults = defaults
        self.body = body
        self.limits = limits
        self.quick = QuickPicks([quick_section(plan) for plan in plans], defaults, body)

    def __call__(self, data: Any) -> Any:
        """Return the requested values of a message, in the order of the paths.

        Args:
            data: the encoded message: bytes, bytearray or memoryview.

        Raises:
            DecodeError: the part of the message that had to be read is invalid.
        """
        return self.picked(data)

    def picked(self, data: Any) -> Any:
        """Return the requested values of an encoded message; see `__call__`."""
        # The limits are not assigned to a local variable before they are needed, because threads
        # that share a picker contend when they count references to the same object.
        if type(data) is bytes and self.limits is DEFAULT_LIMITS:
            values = self.quick.pick(data)
            if values is not None:
                return values
        else:
            data = octets_of(data, self.limits)
        limits = self.limits
        reader = Reader.__new__(Reader)
        reader.begin(data, 0, limits)
        try:
            return self.read(reader)
        except READ_FAULTS as error:
            raise reader.fault(error, NAMES_OF_DESCRIPTOR) from None

    def read(self, reader: Any) -> Any:
        """Return the requested values of the message at the start of `reader`."""
        values = [_NOT_READ] * len(self.defaults)
        buf = reader.buf
        end = reader.end
        seen_sections = 0
        previous_body = -1  # the number of the previous body section that was read; -1 if none
        while reader.pos < end:
            start = reader.pos
            if (
                end - start > 2
                and buf[start + 1] == 0x53
                and FIRST_SECTION_CODE <= buf[start + 2] <= FOOTER_CODE
                and buf[start] == 0
            ):
                index = buf[start + 2] - FIRST_SECTION_CODE
                reader.pos = start + 3
            else:
                index = reader.section_code() - FIRST_SECTION_CODE
                if index < 0:
                    reader.pos = start
                    reader.skip()
                    continue
            if self.body >= 0 and DATA <= index < FOOTER:
                self.read_body(reader, values, index, previous_body, start)
                previous_body = index
                continue
            plan = self.plans[index]
            if plan is None:
                pass_over(reader, 1)
                continue
            if seen_sections >> index & 1:
                raise DecodeError(
                    f"duplicate {plan.spec.name} section", start, rule="duplicate-section"
                )
            seen_sections |= 1 << index
            if plan.whole >= 0:
                values[plan.whole] = reader.section(plan.spec)
            elif plan.spec.shape == SHAPE_COMPOSITE:
                self.read_fields(reader, values, plan)
            else:
                self.read_entries(reader, values, plan)
        if previous_body == DATA or previous_body == AMQP_SEQUENCE:
            values[self.body] = joined(values[self.body], previous_body)
        for i in range(len(values)):
            if values[i] is _NOT_READ:
                values[i] = self.defaults[i]
        return tuple(values)

    def read_fields(self, reader: Any, values: list[Any], plan: Any) -> None:
        """Read the requested fields of a composite; the fields after the last one are not read."""
        spec = plan.spec
        fields = plan.fields
        planned_count = len(fields)
        for i in range(planned_count):
            if fields[i] >= 0 and spec.defaults[i] is not None:
                values[fields[i]] = spec.defaults[i]
        outer = reader.open_list(spec)
        if outer < 0:
            return
        count = reader.count
        i = 0
        while i < count:
            if i == planned_count:
                # The remaining fields are not checked, like skipped sections.
                reader.pos = reader.end
                break
            value_index = fields[i]
            if value_index < 0:
                skip_count = -value_index if i - value_index < count else count - i
                pass_over(reader, skip_count)
                i += skip_count
                continue
            code = reader.buf[reader.advance(1)]
            if code != 0x40:
                values[value_index] = reader.field(spec.kinds[i], code, spec, i)
            i += 1
        reader.ascend(outer)

    def read_entries(self, reader: Any, values: list[Any], plan: Any) -> None:
        """Read the requested entries of a map, and skip all other entries."""
        spec = plan.spec
        outer = reader.open_map(spec)
        count = reader.count
        annotations = spec.shape == SHAPE_ANNOTATIONS
        key_kind = KIND_SYMBOL if annotations else KIND_STRING
        buf = reader.buf
        keys = plan.keys
        for _ in range(count >> 1):
            key_pos = reader.advance(1)
            code = buf[key_pos]
            kind = KIND_OF_FORMAT_CODE[code]
            if kind == key_kind:
                begin = reader.span(code)
                value_index = keys.index_of(buf, begin, reader.pos)
            elif annotations and kind == KIND_ULONG:
                value_index = plan.numbers.get(reader.number(code), -1)
            else:
                raise reader.wrong_key_error(
                    spec, code, "a symbol or a ulong" if annotations else "a string", key_pos
                )
            if value_index < 0:
                pass_over(reader, 1)
                continue
            if values[value_index] is not _NOT_READ:
                reader.pos = key_pos
                key = reader.value()
                raise DecodeError(f"duplicate map key {key!r}", key_pos, rule="map-duplicate-key")
            pos = reader.pos
            value = reader.value()
            code = buf[pos]
            if (
                (code >= 0xC0 or code == 0x45 or code == 0)
                and not annotations
                and not_simple(value)
            ):
                end = reader.pos
                reader.pos = key_pos
                key = reader.value()
                reader.pos = end
                raise reader.compound_property_error(key, pos)
            values[value_index] = value
        reader.ascend(outer)

    def read_body(
        self, reader: Any, values: list[Any], index: int, previous_body: int, start: int
    ) -> None:
        """Read a body section, and add its content to the body.

        `index` and `previous_body` are section numbers; `previous_body` is -1 for the first one.
        """
        spec = SECTION_SPECS[index]
        if previous_body >= 0 and (previous_body != index or index > AMQP_SEQUENCE):
            if previous_body == index:
                raise DecodeError(f"duplicate {spec.name} section", start, rule="duplicate-section")
            raise DecodeError(
                f"{spec.name} beside {SECTION_SPECS[previous_body].name}: "
                "a body has sections of one kind",
                start,
                rule="mixed-body-sections",
            )
        value = getattr(reader.section(spec), spec.attribute)
        if index > AMQP_SEQUENCE:
            values[self.body] = value
        elif previous_body < 0:
            values[self.body] = [value]
        else:
            values[self.body].append(value)


def quick_section(plan: Any) -> Any:
    """Return the description of a `SectionPlan` for `QuickPicks`; None to skip the section."""
    if plan is None:
        return None
    spec = plan.spec
    # The fast path reads neither ulong keys, which are rare, nor whole sections.
    shape = -1
    if plan.whole < 0 and not plan.numbers:
        shape = (SHAPE_COMPOSITE, SHAPE_PROPERTIES, SHAPE_ANNOTATIONS).index(spec.shape)
    indexes = [max(index, -1) for index in plan.fields]
    return shape, indexes, spec.usual, spec.defaults, plan.keys


def pass_over(reader: Any, count: int) -> None:
    """Skip `count` values, reading only their constructors and sizes."""
    if not reader.passed(count):
        for _ in range(count):
            reader.skip()


def joined(parts: Any, index: int) -> Any:
    """Join the contents of several body sections to the content of one section."""
    if len(parts) == 1:
        return parts[0]
    if index == DATA:
        return b"".join(parts)
    return [value for part in parts for value in part]
