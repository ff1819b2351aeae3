"""Convert messages of aio-pika, FastStream and kombu to AMQP 0-9-1 messages, and back.

`translate.to_amqp10` converts the resulting `BasicMessage` to AMQP 1.0. The body keeps its exact
bytes. Values in the headers get the field types with which the library would send them, because
none of these libraries exposes the types that it received.
"""

from __future__ import annotations

import importlib
import math
from types import SimpleNamespace
from typing import Any

from amqp10msg.basic import BasicMessage
from amqp10msg.basic.adapters import from_pamqp, from_py_amqp, plain_headers, to_pamqp
from amqp10msg.basic.tables import seconds_of
from amqp10msg.wire.errors import as_bytes, expect

__all__ = ["from_aio_pika", "from_kombu", "to_aio_pika", "to_kombu"]

# Properties that are arguments both of ``aio_pika.Message`` and of kombu's ``Producer.publish``.
_PROPERTY_NAMES = (
    *("content_type", "content_encoding", "delivery_mode", "priority", "correlation_id"),
    *("reply_to", "expiration", "message_id", "timestamp", "type", "user_id", "app_id"),
)


def from_aio_pika(message: Any) -> BasicMessage:
    """Convert an ``aio_pika.Message``, new or received, or a ``RabbitMessage`` of FastStream.

    aio-pika cannot represent an absent delivery-mode or priority: they become 1 and 0.

    Raises:
        TypeError: `message` is of another class, or a header value has a type that AMQP 0-9-1
            lacks.
        ValueError: an integer in the headers needs more than 64 bits.
    """
    message = getattr(message, "raw_message", message)
    if not hasattr(message, "properties") or not hasattr(message, "body_size"):
        raise TypeError(f"not a message of aio-pika or FastStream: {type(message).__name__}")
    properties = from_pamqp(message.properties)
    if isinstance(message.expiration, (int, float)):
        # aio-pika has the seconds as a float; rounding restores the exact milliseconds.
        properties.expiration = str(round(message.expiration * 1000))
    return BasicMessage(
        properties,
        as_bytes(message.body, "the body of a BasicMessage"),
        getattr(message, "exchange", None) or "",
        getattr(message, "routing_key", None) or "",
        bool(getattr(message, "redelivered", False)),
    )


def to_aio_pika(basic: BasicMessage) -> Any:
    """Convert to an ``aio_pika.Message``, which aio-pika and FastStream can publish.

    `basic.adapters.lost_in_pamqp` lists the values that an ``aio_pika.Message`` cannot hold. The
    expiration must be a number of milliseconds. An absent delivery-mode becomes 1, an absent
    priority 0.

    Raises:
        ValueError: the expiration is not a number, or the timestamp exceeds the range of datetime.
        ImportError: aio-pika is not installed.
    """
    expect(basic, BasicMessage, "to_aio_pika", "a BasicMessage")
    properties = to_pamqp(basic.properties)
    arguments = {name: getattr(properties, name) for name in _PROPERTY_NAMES if name != "type"}
    arguments["type"] = properties.message_type
    if arguments["expiration"] is not None:
        arguments["expiration"] = _to_seconds(arguments["expiration"])
    return _import_module("aio_pika").Message(basic.body, headers=properties.headers, **arguments)


def from_kombu(message: Any) -> BasicMessage:
    """Convert a ``kombu.Message`` that a consumer received.

    If kombu decompressed the body (header ``compression``), the result has the decompressed body.

    Raises:
        TypeError: `message` is not a kombu message, or a header value has a type that AMQP 0-9-1
            lacks.
        ValueError: an integer in the headers needs more than 64 bits.
    """
    if not hasattr(message, "delivery_info") or not hasattr(message, "properties"):
        raise TypeError(f"not a message of kombu: {type(message).__name__}")
    values = {name: message.properties.get(name) for name in _PROPERTY_NAMES}
    values["content_type"] = message.content_type
    values["content_encoding"] = message.content_encoding
    properties = from_py_amqp(SimpleNamespace(**values, headers=message.headers or None))
    body = message.body
    delivery = message.delivery_info
    return BasicMessage(
        properties,
        body.encode("utf-8")
        if isinstance(body, str)
        else as_bytes(b"" if body is None else body, "the body of a BasicMessage"),
        delivery.get("exchange") or "",
        delivery.get("routing_key") or "",
        bool(delivery.get("redelivered", False)),
    )


def to_kombu(basic: BasicMessage) -> dict[str, Any]:
    """Return the arguments with which ``kombu.Producer.publish`` sends a message.

    `basic.adapters.lost_in_pika` lists the values that kombu's headers cannot hold, except that
    kombu can write floating-point numbers. kombu writes a long that fits 32 bits as an int, and
    bytes as text. A content-type and a content-encoding are always set, by default
    ``application/data`` and ``binary``.

    Raises:
        ValueError: the expiration is not a number.
    """
    expect(basic, BasicMessage, "to_kombu", "a BasicMessage")
    arguments = {name: getattr(basic.properties, name) for name in _PROPERTY_NAMES}
    arguments["timestamp"] = seconds_of(arguments["timestamp"])
    arguments["content_type"] = arguments["content_type"] or "application/data"
    arguments["content_encoding"] = arguments["content_encoding"] or "binary"
    if arguments["expiration"] is not None:
        arguments["expiration"] = _to_seconds(arguments["expiration"])  # publish expects seconds
    return {
        "body": basic.body,
        "exchange": basic.exchange,
        "routing_key": basic.routing_key,
        "headers": plain_headers(basic.properties) or {},
        **{name: value for name, value in arguments.items() if value is not None},
    }


def _to_seconds(expiration: str) -> float:
    """Convert milliseconds in text to seconds, such that ``int(seconds * 1000)`` is exact."""
    try:
        number = int(expiration)
    except ValueError:
        raise ValueError(
            f"the expiration must be a number of milliseconds, not {expiration!r:.80}"
        ) from None
    seconds = number / 1000
    return seconds if int(seconds * 1000) == number else math.nextafter(seconds, math.inf)


def _import_module(name: str) -> Any:
    """Import a module; if it is missing, raise ImportError with the command that installs it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        package = name.replace("_", "-")
        raise ImportError(f"{package} is not installed: pip install {package}") from error
