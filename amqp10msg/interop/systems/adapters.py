"""Messages of aio-pika, FastStream and kombu as messages of AMQP 0-9-1, and back.

A `BasicMessage` goes on from there: `translate.to_amqp10` makes a message of 1.0 of it. The body
keeps its exact bytes; values of headers get the type that the library writes for them, since
none of these says which type it read.
"""

from __future__ import annotations

import importlib
import math
from types import SimpleNamespace
from typing import Any

from amqp10msg.basic import BasicMessage
from amqp10msg.basic.adapters import from_pamqp, from_pika, to_pamqp, to_pika
from amqp10msg.wire.errors import as_bytes, expect

__all__ = ["from_aio_pika", "from_kombu", "to_aio_pika", "to_kombu"]

# The properties that aio-pika takes in its constructor and kombu in publish, by their own names.
_NAMES = (
    *("content_type", "content_encoding", "delivery_mode", "priority", "correlation_id"),
    *("reply_to", "expiration", "message_id", "timestamp", "type", "user_id", "app_id"),
)


def from_aio_pika(message: Any) -> BasicMessage:
    """Convert an ``aio_pika.Message``, received or not, or a ``RabbitMessage`` of FastStream.

    aio-pika has no delivery-mode or priority that is absent: they are 1 and 0.

    Raises:
        TypeError: `message` is of another class, or a header has a value of a type that no field
            has.
        ValueError: an integer in the headers needs more than 64 bits.
    """
    message = getattr(message, "raw_message", message)
    if not hasattr(message, "properties") or not hasattr(message, "body_size"):
        raise TypeError(f"not a message of aio-pika or FastStream: {type(message).__name__}")
    properties = from_pamqp(message.properties)
    if isinstance(message.expiration, (int, float)):
        # It was read as seconds, of which aio-pika cuts what it takes for a part of a millisecond.
        properties.expiration = str(round(message.expiration * 1000))
    return BasicMessage(
        properties,
        as_bytes(message.body, "the body of a BasicMessage"),
        getattr(message, "exchange", None) or "",
        getattr(message, "routing_key", None) or "",
        bool(getattr(message, "redelivered", False)),
    )


def to_aio_pika(basic: BasicMessage) -> Any:
    """Return an ``aio_pika.Message`` to publish, also with FastStream.

    `basic.adapters.lost_in_pamqp` names what it cannot hold. An expiration is a number of
    milliseconds, and what is absent of delivery-mode and priority becomes 1 and 0.

    Raises:
        ValueError: the expiration is not a number, or the timestamp outside the years of datetime.
        ImportError: aio-pika is not installed.
    """
    expect(basic, BasicMessage, "to_aio_pika", "a BasicMessage")
    properties = to_pamqp(basic.properties)
    given = {name: getattr(properties, name) for name in _NAMES if name != "type"}
    given["type"] = properties.message_type
    if given["expiration"] is not None:
        given["expiration"] = _seconds(given["expiration"])
    return _module("aio_pika").Message(basic.body, headers=properties.headers, **given)


def from_kombu(message: Any) -> BasicMessage:
    """Convert a ``kombu.Message``, as a consumer gets it.

    A body that kombu decompressed, by its header ``compression``, is what it became.

    Raises:
        TypeError: `message` is not one of kombu, or a header has a value of a type that no field
            has.
        ValueError: an integer in the headers needs more than 64 bits.
    """
    if not hasattr(message, "delivery_info") or not hasattr(message, "properties"):
        raise TypeError(f"not a message of kombu: {type(message).__name__}")
    given = {name: message.properties.get(name) for name in _NAMES}
    given["content_type"] = message.content_type
    given["content_encoding"] = message.content_encoding
    # py-amqp writes the same types of fields as pika does.
    properties = from_pika(SimpleNamespace(**given, headers=message.headers or None))
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
    """Return the arguments of ``kombu.Producer.publish`` that send this message.

    `basic.adapters.lost_in_pika` names what its headers cannot hold, but kombu does write
    floating-point numbers; it writes a long that fits 32 bits as an int, and bytes as text. It
    writes a content-type and a content-encoding always: ``application/data`` and ``binary`` where
    there are none.

    Raises:
        ValueError: the expiration is not a number.
        ImportError: pika is not installed.
    """
    expect(basic, BasicMessage, "to_kombu", "a BasicMessage")
    properties = to_pika(basic.properties)
    given = {name: getattr(properties, name) for name in _NAMES}
    given["content_type"] = given["content_type"] or "application/data"
    given["content_encoding"] = given["content_encoding"] or "binary"
    if given["expiration"] is not None:
        given["expiration"] = _seconds(given["expiration"])  # publish takes seconds
    return {
        "body": basic.body,
        "exchange": basic.exchange,
        "routing_key": basic.routing_key,
        "headers": properties.headers or {},
        **{name: value for name, value in given.items() if value is not None},
    }


def _seconds(expiration: str) -> float:
    """Return milliseconds as seconds, which both libraries multiply by 1000 and cut."""
    try:
        number = int(expiration)
    except ValueError:
        raise ValueError(
            f"the expiration must be a number of milliseconds, not {expiration!r:.80}"
        ) from None
    seconds = number / 1000
    return seconds if int(seconds * 1000) == number else math.nextafter(seconds, math.inf)


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f"this needs {name.replace('_', '-')}: pip install it") from error
