"""Reads single fields of encoded messages: header, message-id, and position in a stream."""

from __future__ import annotations

import contextlib
import functools
import uuid
from typing import Any

from amqp10msg.basic import BasicProperties, decode_content_header
from amqp10msg.brokers import STREAM_OFFSET
from amqp10msg.net.ends.terms import SourceDelivery
from amqp10msg.sections import Header
from amqp10msg.sections.parts import Scan, scan
from amqp10msg.wire.errors import AmqpError
from amqp10msg.wire.primitives import ULong

#: The usual encoding of the header's descriptor, and how the descriptor of any section begins.
_HEADER_DESCRIPTOR, _DESCRIPTOR_START = b"\x00\x53\x70", b"\x00\x53"
#: Constructors of list8 and list0.
_LIST8, _LIST0 = 0xC0, 0x45
#: Offsets of the list's constructor and size in an encoded header.
_CODE_OFFSET, _SIZE_OFFSET = len(_HEADER_DESCRIPTOR), len(_HEADER_DESCRIPTOR) + 1
#: The largest position of a message. The position after it must fit into SQLite's 64-bit signed
#: integers.
_MAX_POSITION = (1 << 63) - 2
#: Names of the AMQP types of a message-id (Part 3, 3.2.11), by Python type.
_ID_TYPES = {str: "string", bytes: "binary", uuid.UUID: "uuid", ULong: "ulong"}


def header_of(octets: bytes) -> Header | None:
    """Decode the header of an encoded message; None if there is no header or it is invalid."""
    if not octets.startswith(_HEADER_DESCRIPTOR) or len(octets) <= _SIZE_OFFSET:
        # The first section is not a header, or its descriptor has an unusual encoding.
        return None if octets.startswith(_DESCRIPTOR_START) else _decode_header.__wrapped__(octets)
    code = octets[_CODE_OFFSET]
    if code == _LIST8:
        # Cached: the messages of a queue have few different headers.
        return _decode_header(octets[: _SIZE_OFFSET + 1 + octets[_SIZE_OFFSET]])
    return (
        _decode_header(octets[:_SIZE_OFFSET])
        if code == _LIST0
        else _decode_header.__wrapped__(octets)
    )


@functools.lru_cache(256)
def _decode_header(octets: bytes) -> Header | None:
    """Decode the header of an encoded message; None if there is no valid header."""
    try:
        return scan(octets).section("header")
    except ValueError:
        return None


def position_of(delivery: SourceDelivery) -> int | None:
    """Return the position of a delivery in its stream or file, or None.

    A stream offset above `_MAX_POSITION` in the message is ignored: no stream is that long.
    """
    if delivery.position is not None:
        return delivery.position
    offset: Any = None
    with contextlib.suppress(AmqpError, AttributeError):
        if delivery.content_header is None:
            annotations: Any = scan(delivery.octets).section("message_annotations")
            offset = annotations.get(STREAM_OFFSET)
        else:
            headers = decode_content_header(delivery.content_header).properties.headers or {}
            offset = headers.get(STREAM_OFFSET)
    return int(offset) if isinstance(offset, int) and 0 <= offset <= _MAX_POSITION else None


def id_of_message(parts: Scan) -> str | None:
    """Return the message-id of a 1.0 message with its type, such as ``uuid:…``.

    Return None if the message has no message-id, or an empty one: some clients write an empty
    string or binary instead of omitting the field, so it does not identify a message.
    """
    properties = parts.section("properties")
    message_id = None if properties is None else properties.message_id
    if message_id is None or message_id in ("", b""):
        return None
    id_text = message_id.hex() if isinstance(message_id, bytes) else str(message_id)
    return f"{_ID_TYPES[type(message_id)]}:{id_text}"


def id_of_properties(properties: BasicProperties) -> str | None:
    """Return the message-id of a 0-9-1 message with its type; None if it is missing or empty."""
    text = properties.message_id
    if not text:
        return None
    try:
        text.encode()
    except UnicodeEncodeError:  # the text has surrogates for bytes that are not UTF-8
        return f"octets:{text.encode('utf-8', 'surrogateescape').hex()}"
    return f"string:{text}"
