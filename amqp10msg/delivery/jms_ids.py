"""The reversible text forms of message ids in JMS, for all four types of id.

The forms are from the AMQP JMS Mapping 1.0 (OASIS, working draft 10). Filters compare these texts,
and `amqp10msg.interop.jms` exports the functions.
"""

from __future__ import annotations

import uuid

from amqp10msg.wire.errors import expect
from amqp10msg.wire.primitives import ULong

_ID_PREFIX = "ID:"
# The prefixes after "ID:" in a JMSMessageID: for a message-id of each AMQP type, and for a string
# that does not begin with "ID:".
_UUID_PREFIX = "AMQP_UUID:"
_ULONG_PREFIX = "AMQP_ULONG:"
_BINARY_PREFIX = "AMQP_BINARY:"
_STRING_PREFIX = "AMQP_STRING:"
_NO_ID_PREFIX = "AMQP_NO_PREFIX:"
_ENCODING_PREFIXES = (_UUID_PREFIX, _ULONG_PREFIX, _BINARY_PREFIX, _STRING_PREFIX, _NO_ID_PREFIX)


def to_jms_message_id(message_id: int | uuid.UUID | bytes | str) -> str:
    """Return the JMSMessageID of a message-id; it always begins with ``ID:``.

    Raises:
        TypeError: the id is not an int, UUID, bytes or str.
        ValueError: an int is out of the range of ulong.
    """
    if isinstance(message_id, str) and not message_id.startswith(_ID_PREFIX):
        return _ID_PREFIX + _NO_ID_PREFIX + message_id
    return to_jms_correlation_id(message_id)


def to_jms_correlation_id(correlation_id: int | uuid.UUID | bytes | str) -> str:
    """Return the JMSCorrelationID of a correlation-id; plain text is unchanged.

    Raises:
        TypeError: the id is not an int, UUID, bytes or str.
        ValueError: an int is out of the range of ulong.
    """
    if isinstance(correlation_id, str):
        unprefixed = correlation_id.removeprefix(_ID_PREFIX)
        if unprefixed != correlation_id and unprefixed.startswith(_ENCODING_PREFIXES):
            return _ID_PREFIX + _STRING_PREFIX + correlation_id
        return str(correlation_id)
    if isinstance(correlation_id, uuid.UUID):
        return f"{_ID_PREFIX}{_UUID_PREFIX}{correlation_id}"
    if isinstance(correlation_id, bytes):
        return _ID_PREFIX + _BINARY_PREFIX + correlation_id.hex().upper()
    if type(correlation_id) is not bool and isinstance(correlation_id, int):
        return f"{_ID_PREFIX}{_ULONG_PREFIX}{ULong(correlation_id)}"
    raise TypeError(
        f"an id must be int (ulong), UUID, bytes or str, got {type(correlation_id).__name__}"
    )


def from_jms_id(text: str) -> ULong | uuid.UUID | bytes | str:
    """Return the message-id or correlation-id of a JMSMessageID or JMSCorrelationID.

    Raises:
        ValueError: the text begins with the prefix of an encoding, but the rest cannot be decoded.
    """
    expect(text, str, "from_jms_id", "a str")
    if not text.startswith(_ID_PREFIX):
        return text
    encoded_id = text[len(_ID_PREFIX) :]
    try:
        if encoded_id.startswith(_NO_ID_PREFIX):
            return encoded_id[len(_NO_ID_PREFIX) :]
        if encoded_id.startswith(_STRING_PREFIX):
            return encoded_id[len(_STRING_PREFIX) :]
        if encoded_id.startswith(_UUID_PREFIX):
            return uuid.UUID(encoded_id[len(_UUID_PREFIX) :])
        if encoded_id.startswith(_ULONG_PREFIX):
            return ULong(int(encoded_id[len(_ULONG_PREFIX) :]))
        if encoded_id.startswith(_BINARY_PREFIX):
            return bytes.fromhex(encoded_id[len(_BINARY_PREFIX) :])
    except ValueError as error:
        raise ValueError(f"{text!r} is not a JMS id: {error}") from None
    return text
