"""msgspec: the same content from MessagePack into structs; the limit of what a decoder can reach.

Structs travel as arrays, the way AMQP sends a composite as a list, not as maps of field names.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from operator import attrgetter
from typing import Any

from bench.messages import BODY

NAME = "msgspec"
VERSION = version(NAME)

# Imported by name: the peer is optional, and a checker must not need it.
_msgspec = import_module("msgspec")
encode, decode = _msgspec.msgpack.encode, _msgspec.msgpack.decode

_map = dict[str, str | int | float | bool]

Header = _msgspec.defstruct(
    "Header",
    [
        ("durable", bool, False),
        ("priority", int, 4),
        ("ttl", int | None, None),
        ("first_acquirer", bool, False),
        ("delivery_count", int, 0),
    ],
    array_like=True,
)
Properties = _msgspec.defstruct(
    "Properties",
    [
        ("message_id", str | None, None),
        ("user_id", bytes | None, None),
        ("to", str | None, None),
        ("subject", str | None, None),
        ("reply_to", str | None, None),
        ("correlation_id", str | None, None),
        ("content_type", str | None, None),
        ("content_encoding", str | None, None),
        ("absolute_expiry_time", int | None, None),
        ("creation_time", int | None, None),
        ("group_id", str | None, None),
        ("group_sequence", int | None, None),
        ("reply_to_group_id", str | None, None),
    ],
    array_like=True,
)
Message = _msgspec.defstruct(
    "Message",
    [
        ("header", Header),
        ("delivery_annotations", _map | None),
        ("message_annotations", _map),
        ("properties", Properties),
        ("application_properties", _map),
        ("body", bytes),
    ],
    array_like=True,
)

_HEADER = attrgetter(*Header.__struct_fields__)
_PROPERTIES = attrgetter(*Properties.__struct_fields__)
_decoder = _msgspec.msgpack.Decoder(Message)
_map_decoder = _msgspec.msgpack.Decoder(dict[str, int])


def build_reference() -> bytes:
    """Build the reference content from Python values and encode it as MessagePack."""
    message = Message(
        header=Header(durable=True, priority=7, ttl=60_000, first_acquirer=True, delivery_count=3),
        delivery_annotations=None,
        message_annotations={
            "x-opt-enqueued-time": 1_700_000_000_123,
            "x-opt-sequence-number": 8_589_934_593,
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
            "offset": 5_000_000_000,
            "replay": False,
            "ratio": 0.1,
        },
        body=BODY,
    )
    encoded: bytes = encode(message)
    return encoded


def build_ordinary() -> bytes:
    """Build the content of the ordinary message and encode it as MessagePack."""
    message = Message(
        header=Header(durable=True, priority=7, ttl=60_000),
        delivery_annotations=None,
        message_annotations={
            "x-opt-enqueued-time": 1_700_000_000_123,
            "x-opt-sequence-number": 8_589_934_593,
        },
        properties=Properties(
            message_id="msg-00417",
            to="orders.eu",
            subject="created",
            correlation_id="c-000417",
            content_type="application/json",
            creation_time=1_700_000_000_000,
        ),
        application_properties={
            "tenant": "acme-corp",
            "region": "eu-west-1",
            "offset": 5_000_000_000,
            "replay": False,
            "ratio": 0.1,
        },
        body=BODY,
    )
    encoded: bytes = encode(message)
    return encoded


def read(data: bytes) -> Any:
    """Decode the MessagePack of any message, and read every field and entry of its sections."""
    message = _decoder.decode(data)
    for section, fields in ((message.header, _HEADER), (message.properties, _PROPERTIES)):
        if section is not None:
            fields(section)
    for entries in (message.message_annotations, message.application_properties):
        if entries is not None:
            for key in entries:
                entries[key]
    return message.body


def template() -> Any:
    """Build the reference content, of which three values are to be set."""
    return _decoder.decode(build_reference())


def fill(message: Any, message_id: str, attempt: int, body: bytes) -> bytes:
    """Set these values, and encode the reference content as MessagePack."""
    message.properties.message_id = message_id
    message.application_properties["attempt"] = attempt
    message.body = body
    encoded: bytes = encode(message)
    return encoded


def read_reference(data: bytes) -> tuple[Any, ...]:
    """Decode the MessagePack of the reference content and read every field."""
    message = _decoder.decode(data)
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
        annotations["x-opt-enqueued-time"],
        annotations["x-opt-sequence-number"],
        application["tenant"],
        application["attempt"],
        application["offset"],
        application["replay"],
        application["ratio"],
        message.body,
    )


def plain(fields: tuple[Any, ...]) -> tuple[Any, ...]:
    """The fields as they are."""
    return fields


def read_map(data: bytes) -> Any:
    """Decode the MessagePack of a map from strings to integers."""
    return _map_decoder.decode(data)
