"""A message as what every notation writes: its sections as (kind, value) pairs, and back."""

from __future__ import annotations

from typing import Any

from amqp10msg import _core
from amqp10msg.errors import DecodeError
from amqp10msg.limits import UNLIMITED
from amqp10msg.message import Message
from amqp10msg.parts import scan
from amqp10msg.sections import SectionKind


def exact(value: Any) -> Any:
    """Return a value as it would be decoded, so that its Python type is its AMQP type exactly.

    Composites and sections become `Described`, and every array has its format code.

    Raises:
        EncodeError: the value has no AMQP type, or is out of its range.
    """
    return _core.decode_value(_core.encode_value(value), limits=UNLIMITED)


def sections_of(message: Message) -> list[tuple[SectionKind | None, Any]]:
    """List the sections of a message in the order of the wire, their values as on the wire.

    What is not a section of Part 3 is there as a whole, with its descriptor, and None as its kind.

    Raises:
        EncodeError: the message holds what cannot be encoded.
    """
    encoded = message.encode()
    made = []
    for part in scan(encoded, limits=UNLIMITED):
        octets = encoded[part.content if part.kind else part.offset : part.end]
        made.append((part.kind, _core.decode_value(octets, limits=UNLIMITED)))
    return made


def written(kind: SectionKind | None, value: Any) -> bytes:
    """Encode a section from its value; without a kind, the value alone.

    Raises:
        EncodeError: an array's constructor does not fit its elements.
    """
    octets = _core.encode_value(value)
    return octets if kind is None else b"\x00\x53" + bytes((kind.code,)) + octets


def message_of(octets: bytes, *, message_format: int = 0) -> Message:
    """Decode a message strictly where that is possible, else leniently.

    Raises:
        DecodeError: the octets are not a sequence of encoded values.
    """
    try:
        return Message.decode(octets, limits=UNLIMITED, message_format=message_format)
    except DecodeError:
        return Message.decode(octets, limits=UNLIMITED, strict=False, message_format=message_format)
