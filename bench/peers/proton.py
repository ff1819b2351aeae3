"""python-qpid-proton: its Message object, which keeps the fields in C and reads them one by one.

A binary body is a memoryview of memory that goes away with its Message: to read it is to copy it.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import Any

from bench.messages import BODY

NAME = "python-qpid-proton"
VERSION = version(NAME)

# Imported by name: the package carries no type information that a checker could rely on.
_proton = import_module("proton")
Message = _proton.Message
symbol, timestamp, int32 = _proton.symbol, _proton.timestamp, _proton.int32
ubyte, uint, short, float32 = _proton.ubyte, _proton.uint, _proton.short, _proton.float32


def read_reference(data: bytes) -> tuple[Any, ...]:
    """Decode the reference message and read every field."""
    message = Message()
    message.decode(data)
    annotations = message.annotations
    application = message.properties
    return (
        message.durable,
        message.priority,
        message.ttl,
        message.first_acquirer,
        message.delivery_count,
        message.id,
        message.user_id,
        message.address,
        message.subject,
        message.reply_to,
        message.correlation_id,
        message.content_type,
        message.content_encoding,
        message.expiry_time,
        message.creation_time,
        message.group_id,
        message.group_sequence,
        message.reply_to_group_id,
        message.instructions,
        annotations["x-opt-enqueued-time"],
        annotations["x-opt-sequence-number"],
        application["tenant"],
        application["attempt"],
        application["offset"],
        application["replay"],
        application["ratio"],
        bytes(message.body),
    )


def read_three(data: bytes) -> tuple[Any, ...]:
    """Decode the reference message and read three fields."""
    message = Message()
    message.decode(data)
    return message.id, message.properties["tenant"], message.ttl


def plain(fields: tuple[Any, ...]) -> tuple[Any, ...]:
    """Seconds to milliseconds, and the empty values that stand for absent fields to None."""
    values = list(fields)
    values[2] = round(values[2] * 1000)
    for place in (6, 16):  # user-id, group-sequence
        values[place] = values[place] or None
    values[12] = None if values[12] == "None" else values[12]  # content-encoding
    for place in (13, 14):  # absolute-expiry-time, creation-time
        values[place] = round(values[place] * 1000) or None
    return tuple(values)


def build_reference() -> bytearray:
    """Build the reference message from Python values and encode it."""
    encoded: bytearray = Message(
        body=BODY,
        inferred=True,
        durable=True,
        priority=7,
        ttl=60.0,
        first_acquirer=True,
        delivery_count=3,
        id="msg-00417",
        address="orders",
        subject="created",
        correlation_id="c-000417",
        content_type="application/json",
        creation_time=1_700_000_000.0,
        annotations={
            symbol("x-opt-enqueued-time"): timestamp(1_700_000_000_123),
            symbol("x-opt-sequence-number"): 8_589_934_593,
        },
        properties={
            "tenant": "acme",
            "attempt": int32(70_000),
            "offset": 5_000_000_000,
            "replay": False,
            "ratio": 0.1,
        },
    ).encode()
    return encoded


def build_general() -> Any:
    """Fill a message with the values of the general message, each of its type."""
    return Message(
        body=BODY,
        inferred=True,
        durable=True,
        priority=5,
        ttl=60.0,
        id="msg-00417",
        user_id=b"guest",
        address="orders",
        subject="created",
        reply_to="replies",
        correlation_id="c-000417",
        content_type="application/json",
        content_encoding="gzip",
        creation_time=1_700_000_000.0,
        group_id="g-1",
        group_sequence=3,
        annotations={
            symbol("x-opt-enqueued-time"): timestamp(1_700_000_000_123),
            symbol("x-opt-sequence-number"): 8_589_934_593,
            symbol("x-opt-partition-key"): "p-7",
        },
        properties={
            "tenant": "acme",
            "attempt": int32(70_000),
            "size": uint(70_000),
            "lane": ubyte(3),
            "delta": short(-3),
            "offset": 5_000_000_000,
            "replay": False,
            "ratio": 0.1,
            "weight": float32(1.5),
            "at": timestamp(1_700_000_000_000),
            "region": symbol("eu-west-1"),
            "signature": b"\x00\x01\x02\xff",
        },
    )


def relay(data: bytes) -> bytearray:
    """Decode, set the delivery-count to 4, encode."""
    message = Message()
    message.decode(data)
    message.delivery_count = 4
    encoded: bytearray = message.encode()
    return encoded


def read_data(data: bytes) -> bytes:
    """Decode a message and read its body, one data section."""
    message = Message()
    message.decode(data)
    return bytes(message.body)


def read_value(data: bytes) -> Any:
    """Decode a message and read its body, one amqp-value section."""
    message = Message()
    message.decode(data)
    return message.body


def build_data(body: bytes) -> bytearray:
    """Encode a message of one data section."""
    encoded: bytearray = Message(body=body, inferred=True).encode()
    return encoded


def build_value(value: object) -> bytearray:
    """Encode a message of one amqp-value section."""
    encoded: bytearray = Message(body=value).encode()
    return encoded
