"""Messages of either protocol from the bytes of an item, translated to the other one."""

from __future__ import annotations

from typing import Any

from amqp10msg.app.inspector.reading import Item
from amqp10msg.basic import BasicMessage, decode_content_header, encode_content_header
from amqp10msg.files.recognition import decode_whole
from amqp10msg.message import Message
from amqp10msg.translate import PROFILES, Circumstances, Translation, to_amqp10, to_basic
from amqp10msg.wire.errors import DecodeError
from amqp10msg.wire.limits import Limits


def is_basic(item: Item) -> bool:
    """Whether a message is of AMQP 0-9-1: its file says so, or it begins as a content header."""
    if item.record is not None and item.record.content_header is not None:
        return True
    return item.data[:2] == b"\0\x3c"


def read_basic(item: Item, exchange: str = "", routing_key: str = "") -> BasicMessage:
    """Read the payload of a content header frame with the body after it.

    Raises:
        DecodeError: there is no content header, or the body does not have the size that it says.
    """
    data, record = item.data, item.record
    # The header ends where its properties end; the rest is the body.
    size = int.from_bytes(data[4:12], "big") if len(data) >= 14 else 0
    if size > len(data) - 14:
        raise DecodeError(
            f"the header says a body of {size:,} bytes, and there are {len(data):,} bytes in all",
            4,
            rule="truncated",
        )
    header = decode_content_header(data[: len(data) - size], limits=Limits())
    exchange = (record.exchange if record else None) or exchange
    routing_key = (record.routing_key if record else None) or routing_key
    redelivered = bool(record and record.redelivered)
    body = data[len(data) - size :]
    return BasicMessage(header.properties, body, exchange, routing_key, redelivered)


def read_message(item: Item) -> Message:
    """Read a 1.0 message, also one that breaks rules of Part 3.

    Raises:
        DecodeError: the bytes do not parse.
    """
    try:
        return Message.decode(item.data)
    except DecodeError:
        try:
            return decode_whole(item.data)
        except DecodeError as error:
            if not (hint := item.explained("")):
                raise
            raise DecodeError(f"{error.reason}{hint}", error.offset, rule=error.rule) from None


def translate(
    message: BasicMessage | Message, profile: str, *, strict: bool = False, user: str = "guest"
) -> Translation[Any]:
    """Translate a message to the other protocol.

    Args:
        message: of either protocol.
        profile: a name of `amqp10msg.translate.PROFILES`.
        strict: refuse what loses data of the sender for good.
        user: the user that the broker knows as sender.

    Raises:
        TranslationError: the profile refuses it.
    """
    how: dict[str, Any] = {"strict": strict, "circumstances": Circumstances(user=user)}
    if isinstance(message, BasicMessage):
        return to_amqp10(message, PROFILES[profile], **how)
    return to_basic(message, PROFILES[profile], **how)


def octets_of(message: BasicMessage | Message) -> bytes:
    """Return the bytes of a message; of 0-9-1, the content header with the body after it."""
    if isinstance(message, Message):
        return message.encode()
    return encode_content_header(message.properties, len(message.body)) + message.body
