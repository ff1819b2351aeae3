"""Message-ids as text that tells their types apart."""

from __future__ import annotations

import uuid

from amqp10msg.basic import BasicProperties
from amqp10msg.sections.parts import Scan
from amqp10msg.wire.primitives import ULong

#: The types of a message-id (Part 3, 3.2.11).
_TYPES = {str: "string", bytes: "binary", uuid.UUID: "uuid", ULong: "ulong"}


def id_of_message(parts: Scan) -> str | None:
    """Return the message-id of a 1.0 message, such as ``uuid:…``; None where it has none.

    Raises:
        DecodeError: the properties cannot be read.
    """
    properties = parts.section("properties")
    if properties is None or properties.message_id is None:
        return None
    found = properties.message_id
    shown = found.hex() if isinstance(found, bytes) else str(found)
    return f"{_TYPES[type(found)]}:{shown}"


def id_of_properties(properties: BasicProperties) -> str | None:
    """Return the message-id of a 0-9-1 message; None where it has none."""
    text = properties.message_id
    if text is None:
        return None
    try:
        text.encode()
    except UnicodeEncodeError:  # bytes that are not UTF-8, as surrogates
        return f"octets:{text.encode('utf-8', 'surrogateescape').hex()}"
    return f"string:{text}"
