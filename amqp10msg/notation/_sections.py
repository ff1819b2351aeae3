"""A message as what every notation writes: its sections as (kind, value) pairs, and back."""

from __future__ import annotations

from typing import Any

from amqp10msg.message import Message
from amqp10msg.sections import KIND_OF, SectionKind
from amqp10msg.sections.parts import Malformed, located, parts_of
from amqp10msg.wire import kernel
from amqp10msg.wire.errors import DecodeError
from amqp10msg.wire.limits import UNLIMITED


def sections_of(octets: bytes) -> list[tuple[SectionKind | None, Any]]:
    """List the sections of an encoded message in the order of the wire, their values as there.

    What is not a section of Part 3 is there as a whole, with its descriptor, and None as its kind;
    what is no encoding to the letter is `Malformed`.
    """
    reader = kernel.Reader(octets, 0, UNLIMITED)
    made = []
    for code, start, content, end in parts_of(octets):
        reader.pos = start if code < 0 else content
        try:
            value = reader.value()
        except kernel.READ_FAULTS as error:
            value = Malformed(octets[start:end], located(octets, start, end, reader.pos, error))
            reader.end, reader.depth = len(octets), UNLIMITED.depth
        made.append((None if code < 0 else KIND_OF[code], value))
    return made


def written(kind: SectionKind | None, value: Any) -> bytes:
    """Encode a section from its value; without a kind, the value alone.

    Raises:
        EncodeError: an array's constructor does not fit its elements.
    """
    octets = kernel.encode_value(value)
    return octets if kind is None else b"\x00\x53" + bytes((kind.code,)) + octets


def message_of(octets: bytes, *, message_format: int = 0) -> Message:
    """Decode a message strictly where that is possible, else leniently.

    Raises:
        DecodeError: the bytes are not a sequence of encoded values.
    """
    try:
        return Message.decode(octets, limits=UNLIMITED, message_format=message_format)
    except DecodeError:
        return Message.decode(octets, limits=UNLIMITED, strict=False, message_format=message_format)
