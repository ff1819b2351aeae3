"""amqp10msg itself: the operations of the figures by its public interface."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

import attrs

from amqp10msg import (
    ApplicationProperties,
    Data,
    Header,
    Int,
    Message,
    MessageAnnotations,
    Picker,
    Properties,
    Timestamp,
    scan,
)
from bench.messages import BODY

NAME = "amqp10msg"
_HEADER = attrgetter(*(field.name for field in attrs.fields(Header)))
_PROPERTIES = attrgetter(*(field.name for field in attrs.fields(Properties)))


def read_reference(data: bytes) -> tuple[Any, ...]:
    """Decode the reference message and read every field."""
    # Any: a checker would want every section tested for None, which this message answers.
    message: Any = Message.decode(data)
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
        message.body.data,
    )


def read(data: bytes) -> Any:
    """Decode any message, and read every field and entry of its sections."""
    message = Message.decode(data)
    for section, fields in ((message.header, _HEADER), (message.properties, _PROPERTIES)):
        if section is not None:
            fields(section)
    for entries in (
        message.delivery_annotations,
        message.message_annotations,
        message.application_properties,
        message.footer,
    ):
        if entries is not None:
            for key in entries:
                entries[key]
    return message.body


def plain(fields: tuple[Any, ...]) -> tuple[Any, ...]:
    """The fields as they are."""
    return fields


def build_reference() -> bytes:
    """Build the reference message from Python values and encode it."""
    return Message(
        Data(BODY),
        header=Header(durable=True, priority=7, ttl=60_000, first_acquirer=True, delivery_count=3),
        message_annotations=MessageAnnotations(
            {
                "x-opt-enqueued-time": Timestamp(1_700_000_000_123),
                "x-opt-sequence-number": 8_589_934_593,
            }
        ),
        properties=Properties(
            message_id="msg-00417",
            to="orders",
            subject="created",
            correlation_id="c-000417",
            content_type="application/json",
            creation_time=1_700_000_000_000,
        ),
        application_properties=ApplicationProperties(
            {
                "tenant": "acme",
                "attempt": Int(70_000),
                "offset": 5_000_000_000,
                "replay": False,
                "ratio": 0.1,
            }
        ),
    ).encode()


def build_ordinary() -> bytes:
    """Build the ordinary message from Python values and encode it."""
    return Message(
        Data(BODY),
        header=Header(durable=True, priority=7, ttl=60_000),
        message_annotations=MessageAnnotations(
            {
                "x-opt-enqueued-time": Timestamp(1_700_000_000_123),
                "x-opt-sequence-number": 8_589_934_593,
            }
        ),
        properties=Properties(
            message_id="msg-00417",
            to="orders.eu",
            subject="created",
            correlation_id="c-000417",
            content_type="application/json",
            creation_time=1_700_000_000_000,
        ),
        application_properties=ApplicationProperties(
            {
                "tenant": "acme-corp",
                "region": "eu-west-1",
                "offset": 5_000_000_000,
                "replay": False,
                "ratio": 0.1,
            }
        ),
    ).encode()


#: The paths of the ordinary message that vary when it is written from a template.
ORDINARY_VARYING = ("properties.message_id", "application_properties.offset", "body")
ORDINARY_VALUES = ("msg-00417", 5_000_000_000, BODY)


def ordinary_template() -> Any:
    """Make the template of the ordinary message."""
    return Message.decode(build_ordinary()).template(*ORDINARY_VARYING)


#: The paths of the reference message that vary when it is written from a template.
VARYING = ("properties.message_id", "application_properties.attempt", "body")
VALUES = ("msg-00417", 70_000, BODY)


def template() -> Any:
    """Make the template of the reference message."""
    return Message.decode(build_reference()).template(*VARYING)


#: Three fields of the reference message.
THREE = Picker("properties.message_id", "application_properties.tenant", "header.ttl")


def read_three(data: bytes) -> tuple[Any, ...]:
    """Decode the reference message and read the same three fields."""
    message: Any = Message.decode(data)
    properties = message.application_properties
    return message.properties.message_id, properties["tenant"], message.header.ttl


OTHER_HEADER = Header(durable=True, priority=7, ttl=60_000, first_acquirer=True, delivery_count=4)


def relay(data: bytes) -> bytes:
    """Scan, and return another header followed by the other sections' original bytes."""
    return scan(data).replace(header=OTHER_HEADER)


def relay_counting(data: bytes) -> bytes:
    """Scan, increase the delivery-count by one, and keep the other sections' bytes."""
    scanned = scan(data)
    header: Any = scanned.section("header")
    header.delivery_count += 1
    return scanned.replace(header=header)


def read_data(data: bytes) -> bytes:
    """Decode a message and read its data section."""
    body: Any = Message.decode(data).body
    octets: bytes = body.data
    return octets


def read_value(data: bytes) -> Any:
    """Decode a message and read its amqp-value section."""
    body: Any = Message.decode(data).body
    return body.value


def build_data(body: bytes) -> bytes:
    """Encode a message of one data section."""
    return Message(body).encode()


def build_value(value: object) -> bytes:
    """Encode a message of one amqp-value section."""
    return Message(value).encode()
