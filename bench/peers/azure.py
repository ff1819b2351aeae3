"""azure-servicebus: the pure Python codec inside it, which is private to that package.

Its decoder leaves strings and symbols as undecoded bytes, which spares it the work of making text.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import Any

from bench.messages import BODY

NAME = "azure-servicebus"
VERSION = version(NAME)

# Imported by name: the modules are private and move between versions.
_decode = import_module("azure.servicebus._pyamqp._decode")
_encode = import_module("azure.servicebus._pyamqp._encode")
_message = import_module("azure.servicebus._pyamqp.message")
_types = import_module("azure.servicebus._pyamqp.types")
decode_payload, encode_payload = _decode.decode_payload, _encode.encode_payload
Message, Header, Properties = _message.Message, _message.Header, _message.Properties
AMQPTypes, TYPE, VALUE = _types.AMQPTypes, _types.TYPE, _types.VALUE


def read_reference(data: bytes) -> tuple[Any, ...]:
    """Decode the reference message and read every field."""
    message = decode_payload(memoryview(data))
    header = message.header
    properties = message.properties
    annotations = message.message_annotations
    application = message.application_properties
    return (
        header.durable,
        header.priority,
        header.ttl,
        header.first_acquirer,
        header.delivery_count,
        properties.message_id,
        properties.user_id,
        properties.to,
        properties.subject,
        properties.reply_to,
        properties.correlation_id,
        properties.content_type,
        properties.content_encoding,
        properties.absolute_expiry_time,
        properties.creation_time,
        properties.group_id,
        properties.group_sequence,
        properties.reply_to_group_id,
        message.delivery_annotations,
        annotations[b"x-opt-enqueued-time"],
        annotations[b"x-opt-sequence-number"],
        application[b"tenant"],
        application[b"attempt"],
        application[b"offset"],
        application[b"replay"],
        application[b"ratio"],
        message.data,
    )


def plain(fields: tuple[Any, ...]) -> tuple[Any, ...]:
    """Bytes to text, and the list of data sections to the body."""
    values = [value.decode() if isinstance(value, bytes) else value for value in fields[:-1]]
    return (*values, b"".join(fields[-1]))


def build_reference() -> bytearray:
    """Build the reference message from Python values and encode it."""
    output = bytearray()
    message = Message(
        header=Header(durable=True, priority=7, ttl=60_000, first_acquirer=True, delivery_count=3),
        message_annotations={
            b"x-opt-enqueued-time": {TYPE: AMQPTypes.timestamp, VALUE: 1_700_000_000_123},
            b"x-opt-sequence-number": {TYPE: AMQPTypes.long, VALUE: 8_589_934_593},
        },
        properties=Properties(
            message_id="msg-00417",
            to="orders",
            subject="created",
            correlation_id="c-000417",
            content_type="application/json",
            creation_time=1_700_000_000_000,
        ),
        application_properties={
            "tenant": "acme",
            "attempt": 70_000,
            "offset": {TYPE: AMQPTypes.long, VALUE: 5_000_000_000},
            "replay": False,
            "ratio": 0.1,
        },
        data=[BODY],
    )
    encode_payload(output, message)
    return output


def read_data(data: bytes) -> Any:
    """Decode a message and read its data sections, a list."""
    return decode_payload(memoryview(data)).data


def read_value(data: bytes) -> Any:
    """Decode a message and read its amqp-value section, whose strings stay bytes."""
    return decode_payload(memoryview(data)).value


def build_value(value: dict[str, int]) -> bytearray:
    """Encode a map from strings to longs as a message of one amqp-value section.

    A plain int is an AMQP int to this encoder, so that every long has to name its type.
    """
    output = bytearray()
    typed = {key: {TYPE: AMQPTypes.long, VALUE: number} for key, number in value.items()}
    encode_payload(output, Message(value=typed))
    return output
