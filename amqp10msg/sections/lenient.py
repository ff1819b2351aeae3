"""Messages that break the rules, read as far as that goes: what ``strict=False`` does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from amqp10msg.sections import KIND_OF, SPEC_OF, SectionKind
from amqp10msg.sections.parts import FIELD_NAMES
from amqp10msg.wire import kernel
from amqp10msg.wire.errors import DecodeError, EncodeError
from amqp10msg.wire.limits import UNLIMITED, Limits
from amqp10msg.wire.primitives import AmqpMap, Described, Symbol, ULong

__all__ = [
    "Malformed",
    "check_fields",
    "is_cut",
    "located",
    "merged",
    "parts_of",
    "read_again",
    "read_message",
    "value_at",
    "with_surplus",
]

# What `Reader.scan` returns: code or -1, start, start of the value, end.
PartOf = tuple[int, int, int, int]


@attrs.frozen
class Malformed:
    """A section whose bytes are not an encoded value, though it is known where they end.

    Attributes:
        data: the section, from the constructor of its descriptor on.
        error: what is wrong; its offset counts in the message.
    """

    data: bytes
    error: DecodeError = attrs.field(eq=False)


def parts_of(octets: bytes, lenient: bool = True) -> list[PartOf]:
    """Find the sections of a message that was read; of one that was read leniently, also the rest.

    The rest is what follows the first section whose end is not known: that and all after it.
    """
    reader = kernel.Reader(octets, 0, UNLIMITED)
    reader.lenient = lenient
    parts: list[PartOf] = reader.scan()
    return parts


def _reader(data: bytes, pos: int, end: int, limits: Limits = UNLIMITED) -> Any:
    reader = kernel.Reader(data, pos, limits)
    reader.end = end
    reader.lenient = True
    return reader


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


def merged(held: Mapping[Any, Any] | None, new: Mapping[str, Any]) -> Any:
    """Return the entries of a section of symbols and new ones, which replace those of their keys.

    A dict, or an AmqpMap where the section is one, as a dict cannot hold its keys.
    """
    if not isinstance(held, AmqpMap):
        return {**(held or {}), **new}
    kept = [pair for pair in held.pairs if not (isinstance(pair[0], str) and pair[0] in new)]
    return AmqpMap([*kept, *((Symbol(name), value) for name, value in new.items())])


def with_surplus(encoded: bytes, octets: bytes, part: PartOf) -> bytes:
    """Return a section that was encoded anew, with the fields after those that are defined.

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
