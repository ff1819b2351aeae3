"""Reads single fields of encoded messages: header, message-id, and position in a stream."""

from __future__ import annotations

import contextlib
import functools
import uuid
from typing import Any

from amqp10msg.basic import BasicProperties, decode_content_header
from amqp10msg.brokers import STREAM_OFFSET
from amqp10msg.message import Message
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
#: Size in bytes of the beginning of a large message in which its message-id is searched.
_MAX_BEGINNING = 1 << 16
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
    return None if properties is None else _id_text(properties.message_id)


def _id_text(message_id: Any) -> str | None:
    """Return a message-id with its type; None if it is missing, empty, or of an invalid type."""
    type_name = _ID_TYPES.get(type(message_id))
    if type_name is None or message_id in ("", b""):
        return None
    return f"{type_name}:{message_id.hex() if type_name == 'binary' else message_id}"


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


def identity_of(delivery: SourceDelivery) -> str | None:
    """Return the message-id of a delivery with its type, to find duplicates.

    Return None if there is no message-id or the message cannot be decoded. Equal messages without
    a message-id are not duplicates: the sender may have intended to send both.
    """
    try:
        if delivery.content_header is not None:
            return id_of_properties(decode_content_header(delivery.content_header).properties)
        return id_of_message(scan(delivery.octets))
    except AmqpError:
        return None


def id_fields(delivery: SourceDelivery) -> dict[str, str]:
    """Return the message-id of a delivery for people, as ``message_id`` and ``message_id_type``.

    Unlike `identity_of`, it is also read from a damaged message, if its properties are readable,
    and from the beginning of a message that is too large for memory. A binary is hexadecimal; the
    type ``octets`` is a text of 0-9-1 that is not UTF-8, also hexadecimal. Without a message-id,
    the result is empty.
    """
    if delivery.id_fields is None:
        identity = None if delivery.fault else identity_of(delivery)
        if identity is None and delivery.content_header is None and not delivery.fault:
            identity = _readable_id(delivery)
        type_name, _, text = (identity or "").partition(":")
        delivery.id_fields = {"message_id": text, "message_id_type": type_name} if identity else {}
    return delivery.id_fields


def _readable_id(delivery: SourceDelivery) -> str | None:
    """Return the message-id of a damaged or large 1.0 message, with its type, or None."""
    octets = delivery.octets if delivery.large is None else delivery.large.beginning(_MAX_BEGINNING)
    try:
        properties: Any = Message.decode(octets, strict=False).properties
    except AmqpError:
        return None
    return _id_text(getattr(properties, "message_id", None))
