"""Read messages of AMQP 0-9-1 and 1.0 from items, and translate between the protocols."""

from __future__ import annotations

from typing import Any

from amqp10msg.app.inspector.reading import Item
from amqp10msg.basic import BasicMessage, decode_content_header, encode_content_header
from amqp10msg.files.recognition import decode_whole
from amqp10msg.files.signatures import CONTENT_HEADER_START, split_content_header
from amqp10msg.message import Message
from amqp10msg.translate import PROFILES, Circumstances, Translation, to_amqp10, to_basic
from amqp10msg.wire.errors import DecodeError
from amqp10msg.wire.limits import Limits


def is_basic(item: Item) -> bool:
    """Return whether an item is an AMQP 0-9-1 message, according to its record or first bytes."""
    if item.record is not None and item.record.content_header is not None:
        return True
    return item.data.startswith(CONTENT_HEADER_START)


def published_names(item: Item, exchange: str, routing_key: str) -> tuple[str, str]:
    """Return the exchange and the routing key of a 0-9-1 message.

    Args:
        item: the message; if its record has names, they are returned. The exchange ``""`` of a
            record is the default exchange, not a missing value.
        exchange: the exchange if the record has none.
        routing_key: the routing key if the record has none.
    """
    record = item.record
    if record is None:
        return exchange, routing_key
    return (
        exchange if record.exchange is None else record.exchange,
        routing_key if record.routing_key is None else record.routing_key,
    )


def read_basic(item: Item, exchange: str = "", routing_key: str = "") -> BasicMessage:
    """Decode a 0-9-1 message: the payload of its content header frame, followed by the body.

    Args:
        item: the bytes, and the record from their file, if any.
        exchange: the exchange, unless the record contains it.
        routing_key: the routing key, unless the record contains it.

    Raises:
        DecodeError: the content header is invalid, or its body size does not match the body.
    """
    data, record = item.data, item.record
    content_header, body = split_content_header(data)
    header = decode_content_header(content_header, limits=Limits())
    names = published_names(item, exchange, routing_key)
    return BasicMessage(header.properties, body, *names, bool(record and record.redelivered))


def read_message(item: Item) -> Message:
    """Decode an AMQP 1.0 message, leniently if it violates rules of Part 3.

    Raises:
        DecodeError: the bytes cannot be decoded even leniently.
    """
    try:
        return Message.decode(item.data)
    except DecodeError:
        try:
            return decode_whole(item.data)
        except DecodeError as error:
            if (reason := item.explained(error.reason)) == error.reason:
                raise
            raise DecodeError(reason, error.offset, rule=error.rule) from None


def translate(
    message: BasicMessage | Message,
    profile: str,
    *,
    strict: bool = False,
    user: str | None = "guest",
) -> Translation[Any]:
    """Translate a message from 0-9-1 to 1.0 or back.

    Args:
        message: the message, of either protocol.
        profile: a name of `amqp10msg.translate.PROFILES`.
        strict: refuse a message if data of its sender would be lost permanently.
        user: the name with which the sender authenticated at the broker; None to skip the check of
            the user-id.

    Raises:
        TranslationError: the profile refuses the message.
    """
    options: dict[str, Any] = {"strict": strict, "circumstances": Circumstances(user=user)}
    if isinstance(message, BasicMessage):
        return to_amqp10(message, PROFILES[profile], **options)
    return to_basic(message, PROFILES[profile], **options)


def encode_message(message: BasicMessage | Message) -> bytes:
    """Return the encoded message; for 0-9-1, the content header followed by the body."""
    if isinstance(message, Message):
        return message.encode()
    return encode_content_header(message.properties, len(message.body)) + message.body
