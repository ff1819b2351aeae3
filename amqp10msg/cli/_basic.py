"""0-9-1 messages on the command line: a content header and the body behind it."""

from __future__ import annotations

import json
from typing import Any

import attrs

from amqp10msg.basic import BasicMessage, decode_content_header, encode_content_header
from amqp10msg.cli._output import safe
from amqp10msg.errors import DecodeError
from amqp10msg.limits import Limits
from amqp10msg.message import Message
from amqp10msg.translate import Loss


def read_basic(data: bytes, exchange: str, routing_key: str) -> BasicMessage:
    """Read the payload of a content header frame with the body behind it.

    Raises:
        DecodeError: there is no content header, or the body does not have the size that it says.
    """
    # The header ends where its properties end; the rest is the body.
    size = int.from_bytes(data[4:12], "big") if len(data) >= 14 else 0
    if size > len(data) - 14:
        raise DecodeError(
            f"the header says a body of {size:,} bytes, and there are {len(data):,} bytes in all",
            4,
            rule="truncated",
        )
    header = decode_content_header(data[: len(data) - size], limits=Limits())
    return BasicMessage(header.properties, data[len(data) - size :], exchange, routing_key)


def basic_octets(basic: BasicMessage) -> bytes:
    """Encode a message as `read_basic` reads it."""
    return encode_content_header(basic.properties, len(basic.body)) + basic.body


def read_message(data: bytes) -> Message:
    """Read a 1.0 message, also one that breaks rules of Part 3."""
    try:
        return Message.decode(data)
    except DecodeError:
        return Message.decode(data, strict=False)


def read_either(data: bytes, exchange: str, routing_key: str) -> BasicMessage | Message:
    """Read a message of either protocol: a 1.0 message begins with a zero octet and a descriptor.

    Raises:
        DecodeError: it is neither.
    """
    if data[:2] == b"\0\x3c":
        return read_basic(data, exchange, routing_key)
    return read_message(data)


def loss_json(loss: Loss) -> dict[str, Any]:
    """Return a loss for JSON; values without a JSON type appear as their `repr`."""
    made = attrs.asdict(loss, recurse=False)
    for name in ("before", "after"):
        try:
            json.dumps(made[name])
        except (TypeError, ValueError):
            made[name] = safe(repr(made[name]))
    return made
