"""The node ``$cbs``: claims-based security, with which clients of Azure authorize their links."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from amqp10msg import AmqpValue, Int, Message, Properties, Timestamp

CBS = "$cbs"


@attrs.frozen
class Token:
    """A token that a client puts.

    Attributes:
        name: the address that it is for.
        type: such as ``jwt`` or ``servicebus.windows.net:sastoken``.
        value: the token.
        expiration: when it expires, or None if that is not stated.
    """

    name: str
    type: str
    value: str = attrs.field(repr=False)
    expiration: datetime.datetime | None


def answer(request: Message, accepts: Callable[[Token], bool]) -> Message:
    """Pass the token of a put-token request to a hook, and return the response.

    Args:
        request: the request; the response has its message-id as correlation-id.
        accepts: whether a token is accepted.
    """
    asked: Mapping[str, Any] = request.application_properties or {}
    properties = request.properties or Properties()
    value = request.body.value if isinstance(request.body, AmqpValue) else None
    if asked.get("operation") != "put-token" or not isinstance(value, str):
        status, text = 400, "send a put-token with the token as amqp-value"
    else:
        token = Token(str(asked.get("name")), str(asked.get("type")), value, _time_of(asked))
        status, text = (200, "OK") if accepts(token) else (401, "the token is not accepted")
    return Message(
        AmqpValue(None),
        properties=Properties(to=properties.reply_to, correlation_id=properties.message_id),
        application_properties={"status-code": Int(status), "status-description": text},
    )


def _time_of(asked: Any) -> datetime.datetime | None:
    expiration = asked.get("expiration")
    if isinstance(expiration, bool) or not isinstance(expiration, int):
        return None
    seconds = expiration / 1_000 if isinstance(expiration, Timestamp) else expiration
    try:
        return datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    except (ValueError, OverflowError, OSError):
        return None
