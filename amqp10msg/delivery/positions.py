"""Places in the payload of a delivery, as bytes and as section number and offset (3.4.1)."""

from __future__ import annotations

from amqp10msg.delivery.outcomes import Received
from amqp10msg.message import Message
from amqp10msg.wire import kernel
from amqp10msg.wire.errors import INVALID_FIELD, DecodeError
from amqp10msg.wire.limits import UNLIMITED


def _octets(message: Message | bytes | bytearray | memoryview) -> bytes:
    if isinstance(message, Message):
        return message.encode()
    octets: bytes = kernel.octets_of(message, UNLIMITED)
    return octets


def position(
    message: Message | bytes | bytearray | memoryview, byte_count: int | None = None
) -> Received:
    """Return the place in the payload after a number of octets (Part 3, 3.4.1).

    With it a receiver that has the first bytes of a payload states what need not be sent again,
    and a sender from where on it can send again. Sections count from 0 in their order, and bytes
    of a section from 0 at its descriptor. The end of a section is the beginning of the next one,
    also after the last.

    Args:
        message: the payload, or the first bytes of one: at least byte_count of them. A `Message`
            is encoded; if it was decoded and not changed, those are the bytes it came from.
        byte_count: the number of bytes before the place, 0 to the length; all of them if None.

    Raises:
        ValueError: byte_count is negative, or more than there are.
        DecodeError: what is before the place is not a sequence of encoded values.
    """
    octets = _octets(message)
    count = len(octets) if byte_count is None else byte_count
    if not 0 <= count <= len(octets):
        raise ValueError(f"byte_count is {count}, and there are {len(octets)} bytes: 0 to that")
    number = start = 0
    while start < count:
        end = _end(octets, start)
        if end is None or end > count:
            return Received(number, count - start)
        number, start = number + 1, end
    return Received(number, 0)


def octets_before(message: Message | bytes | bytearray | memoryview, received: Received) -> int:
    """Return the number of bytes of the payload before a place: the inverse of `position`.

    ``Received(1, 0)`` and ``Received(0, n)``, where section 0 has n octets, are the same place.

    Args:
        message: the payload, or the first bytes of one, up to the place at least; a `Message` is
            encoded.
        received: the place, as either end states it.

    Raises:
        DecodeError: there is no such place: the section has fewer bytes or there are fewer
            sections (condition ``amqp:invalid-field``), or the payload does not parse.
    """
    octets = _octets(message)
    number = start = 0
    while number < received.section_number and start < len(octets):
        end = _end(octets, start)
        if end is None:
            break
        number, start = number + 1, end
    if number == received.section_number:
        end = (_end(octets, start) or len(octets)) if start < len(octets) else start
        if received.section_offset <= end - start:
            return start + received.section_offset
        reason = f"section {number} has {_octets_of(end - start)}"
        if end == start:
            reason = _sections_of(number)
    else:
        reason = _sections_of(number)
    raise DecodeError(
        f"{reason}, so that {received!r} is not a place in the payload",
        start,
        rule="no-such-place",
        condition=INVALID_FIELD,
        path="received",
        data=octets,
    )


def bytes_from(message: Message | bytes | bytearray | memoryview, received: Received) -> bytes:
    """Return the bytes of the payload from a place on: what a resumed delivery sends.

    Args:
        message: the whole payload, or a `Message`, which is encoded.
        received: where to begin, in either form at the end of a section.

    Raises:
        DecodeError: there is no such place, or the payload does not parse.
    """
    octets = _octets(message)
    return octets[octets_before(octets, received) :]


def _octets_of(count: int) -> str:
    return "1 octet" if count == 1 else f"{count} octets"


def _sections_of(count: int) -> str:
    return "there is 1 section" if count == 1 else f"there are {count} sections"


def _end(octets: bytes, start: int) -> int | None:
    """Return the end of a section; None if the bytes at hand end before it."""
    try:
        end: int = kernel.skip_value(octets, start)
    except DecodeError as error:
        if error.rule == "truncated":
            return None
        raise
    return end
