# cython: language_level=3, boundscheck=True, wraparound=False, annotation_typing=False
"""Messages as a whole: encoded at once, passed over, and copied with other annotations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from amqp10msg.wire.errors import DecodeError, EncodeError
from amqp10msg.wire.kernel.bounded import READ_FAULTS, octets_of
from amqp10msg.wire.kernel.codes import (
    FIRST_CODE,
    FOOTER,
    PLACE_BODY,
    PLACE_FOOTER,
    PLACE_LENIENT,
    SHAPE_ANNOTATIONS,
    SHAPE_PROPERTIES,
)
from amqp10msg.wire.kernel.conversions import encode_fault
from amqp10msg.wire.kernel.reader import Reader
from amqp10msg.wire.kernel.sections import MESSAGE, NAMES, SCAN, SECTIONS
from amqp10msg.wire.kernel.writer import Writer
from amqp10msg.wire.limits import DEFAULT_LIMITS, UNLIMITED
from amqp10msg.wire.primitives import AmqpMap

# Of larger messages, what was not changed is compared in its place.
_SMALL = 65_536


class Scanned:
    """An encoded message whose sections were passed over once; `replace` copies it."""

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
        """Return the message with other annotations around the same bare message.

        What is not named stays as it is, byte for byte. The bare message cannot be named: it is
        immutable in the network (Part 3, 3.2).

        Args:
            header: the new Header; None to leave it out, False to keep it.
            delivery_annotations: likewise, a DeliveryAnnotations or a plain dict.
            message_annotations: likewise, a MessageAnnotations or a plain dict.
            footer: likewise, a Footer or a plain dict.

        Raises:
            EncodeError: a section holds what cannot be encoded.
            DecodeError: the sections do not stand in the order of Part 3, 3.2, so the place of
                a section is not known.
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
    """Copy a message with some of its sections replaced, inserted or left out.

    Args:
        data: the encoded message, which was passed over once with the same limits.
        limits: those of the reader.
        replaced: for each of the nine kinds False to keep, None to leave out, or the section.
        ordered: the sections are known to stand in order.
    """
    writer = Writer.__new__(Writer)
    reader = Reader.__new__(Reader)
    reader.begin(data, 0, limits)
    last = -1
    keep = 0  # where the octets begin that are still to be copied
    new = 0  # the first kind whose section is still to be written
    final = FOOTER  # the last kind that is replaced
    while final >= 0 and replaced[final] is False:
        final -= 1
    while True:
        start = reader.pos
        code = FOOTER
        if start < reader.end:
            code = reader.part() - FIRST_CODE
            if code < last or code < 0:
                raise DecodeError(
                    "the sections are not in the order of Part 3, 3.2, so the place of a section "
                    "is not known",
                    start,
                    rule="section-out-of-order",
                    data=data,
                )
            last = code
        while new <= code:
            section = replaced[new]
            if section is not False and section is not None:
                if keep < start:
                    writer.copy(data, keep, start)
                    keep = start
                spec = SECTIONS[new]
                if type(section) is not spec.cls:
                    check_section(spec, section)
                writer.section(spec, section)
            new += 1
        if start >= reader.end or (ordered and code > final):
            break
        if replaced[code] is not False:
            if keep < start:
                writer.copy(data, keep, start)
            keep = reader.pos
    if keep < reader.end:
        writer.copy(data, keep, reader.end)
    return writer.finish()


def check_section(spec: Any, section: Any) -> None:
    """Refuse what cannot stand for this kind of section."""
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
    """Find the sections of an encoded message without decoding them.

    Looks at descriptors and sizes only; what is inside a section may still be malformed, and
    order and number of the sections are not judged.

    Args:
        data: the encoded message; anything but bytes is copied once.
        limits: what decoding a section on demand may cost.

    Raises:
        DecodeError: the bytes are not a sequence of encoded values.
    """
    return scanned(data, DEFAULT_LIMITS if limits is None else limits)


def scanned(data: Any, limits: Any) -> Any:
    data = octets_of(data, limits)
    reader = Reader.__new__(Reader)
    reader.begin(data, 0, limits)
    ordered = True
    last = 0
    try:
        while reader.pos < reader.end:
            code = reader.part()
            if code < last:
                ordered = False
            last = code
    except READ_FAULTS as error:
        raise reader.fault(error, NAMES) from None
    kind: Any = SCAN[0]
    made = kind.__new__(kind)
    made.data = data
    made.limits = limits
    made.ordered = ordered
    return made


def write_message(message: Any) -> Any:
    """Encode all sections of a message anew.

    None where one is not of its very class, or cannot be encoded.
    """
    layout: Any = MESSAGE[0]
    found = layout.values(message)
    writer = Writer.__new__(Writer)
    writer.lenient = found[PLACE_LENIENT]
    body = found[PLACE_BODY]
    try:
        for index in range(PLACE_BODY):
            if not writer.whole(SECTIONS[index], found[index]):
                return None
        if (body is None or writer.body(body)) and writer.whole(
            SECTIONS[FOOTER], found[PLACE_FOOTER]
        ):
            return writer.finish()
    except (EncodeError, RecursionError, UnicodeEncodeError):
        pass
    return None


def encode_message(message: Any) -> bytes:
    """Encode the message; what was decoded and not changed keeps its exact octets.

    Raises:
        EncodeError: a value cannot be encoded as what it must be; the error says where.
    """
    octets: Any = write_message(message)
    wire = message._wire
    if wire is None:
        return octets or message._encode_new()
    # Most senders choose the encodings that this library would choose. Otherwise section by
    # section, to see whether it was so before, or to say where a fault is.
    # What came is returned itself where it is the same, so that nobody holds the bytes twice.
    if octets == wire:
        return wire
    if octets is not None and not message._lenient and len(wire) <= _SMALL:
        merged = merge(wire, octets)
        if merged is not None:
            return wire if merged == wire else merged
    return message._encode_changes(wire)


def merge(wire: Any, anew: Any) -> Any:
    """Return what was written anew, with the bytes that it came as for what says the same.

    Only a section whose bytes differ is read again. None where sections are not one of each kind.
    """
    before = Reader.__new__(Reader)
    before.begin(wire, 0, UNLIMITED)
    reader = Reader.__new__(Reader)
    reader.begin(anew, 0, UNLIMITED)
    writer = Writer.__new__(Writer)
    begin = 0
    held = last = -1
    while reader.pos < reader.end:
        start = reader.pos
        code = reader.part()
        if code <= last:
            return None
        last = code
        while held < code and before.pos < before.end:
            begin = before.pos
            found = before.part()
            if found <= held:
                return None
            held = found
        spec = SECTIONS[code - FIRST_CODE]
        if held == code and not says_anew(before, begin, spec, reader, start):
            writer.copy(wire, begin, before.pos)
        else:
            writer.copy(anew, start, reader.pos)
    while before.pos < before.end:
        found = before.part()
        if found <= held:
            return None
        held = found
    return writer.finish()


def says_anew(before: Any, begin: int, spec: Any, reader: Any, start: int) -> bool:
    """Return whether two sections that were just passed over say different things.

    Args:
        before: behind the one that came.
        begin: where that begins.
        spec: how both are read.
        reader: behind the one that was written anew.
        start: where that begins.
    """
    end = before.pos
    size = reader.pos - start
    if size == end - begin and before.holds(begin, end, reader.buf, start):
        return False
    last = before.end
    before.pos = before.first
    before.end = end
    writer = Writer.__new__(Writer)
    writer.section(spec, before.section(spec))
    before.end = last
    return bool(writer.size != size or not reader.holds(start, reader.pos, writer.finish(), 0))
