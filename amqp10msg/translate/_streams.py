"""Restores a 0-9-1 message with a residual after it went through a stream of RabbitMQ.

A stream converts messages of 0-9-1 to its own format, which drops some headers and changes more. To
check whether the message was also edited, we simulate publishing the message that the residual
describes to a stream: if the result is the delivered message, the residual's message is the
original.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import attrs

from amqp10msg.basic.message import BasicMessage
from amqp10msg.basic.properties import encode_properties
from amqp10msg.basic.tables import FieldTable, as_table
from amqp10msg.brokers import STREAM_OFFSET
from amqp10msg.message import Message
from amqp10msg.sections import ApplicationProperties, Properties
from amqp10msg.translate import residual
from amqp10msg.translate._delivery import in_name_order
from amqp10msg.translate._merge_message import restored_message
from amqp10msg.translate.circumstances import Circumstances
from amqp10msg.translate.rabbitmq import from_basic, to_basic
from amqp10msg.translate.rabbitmq.terms import BrokerError
from amqp10msg.translate.rabbitmq.version import RABBITMQ_4_0, RABBITMQ_4_3
from amqp10msg.translate.report import Notes
from amqp10msg.translate.residual import (
    MESSAGE_FORMAT_KEY,
    MESSAGE_IN_PAYLOAD_KEY,
    SPARSE_APPLICATION_KEY,
    SPARSE_PROPERTIES_KEY,
    WHOLE_MESSAGE_KEY,
    is_of_message,
)
from amqp10msg.translate.table import PROPERTY_FIELDS, ROWS
from amqp10msg.wire import kernel
from amqp10msg.wire.errors import AmqpError
from amqp10msg.wire.kernel.codes import (
    APPLICATION_PROPERTIES_CODE,
    HEADER_CODE,
    MESSAGE_ANNOTATIONS_CODE,
    PROPERTIES_CODE,
)
from amqp10msg.wire.limits import UNLIMITED

_BROKERS_WITH_STREAMS = [
    attrs.evolve(version, stream=True) for version in (RABBITMQ_4_0, RABBITMQ_4_3)
]
_SECTION_CODES = (
    HEADER_CODE,
    MESSAGE_ANNOTATIONS_CODE,
    PROPERTIES_CODE,
    APPLICATION_PROPERTIES_CODE,
)


def restore_from_stream(
    basic: BasicMessage, lossless_to_basic: Callable[[Message, Notes], BasicMessage]
) -> BasicMessage | None:
    """Restore a message, as it was published, from its delivery by a stream; None if impossible.

    Args:
        basic: the delivered message.
        lossless_to_basic: `to_basic` of the lossless profile.
    """
    headers: Any = basic.properties.headers
    entries = [] if headers is None else as_table(headers).entries
    texts = [
        value for name, letter, value in entries if (name, letter) == (residual.RESIDUAL_NAME, "S")
    ]
    offsets = [value for name, letter, value in entries if (name, letter) == (STREAM_OFFSET, "l")]
    content = residual.unpack_text(texts[0]) if len(texts) == len(offsets) == 1 else None
    if content is None or not is_of_message(content):
        return None
    other_entries = [
        entry for entry in entries if entry[0] not in (residual.RESIDUAL_NAME, STREAM_OFFSET)
    ]
    try:
        original = lossless_to_basic(
            _described_message(basic, other_entries, content, lossless_to_basic), Notes()
        )
        published = attrs.evolve(original, exchange=basic.exchange, routing_key=basic.routing_key)
        circumstances = Circumstances(user=None, stream_offset=offsets[0])
        if _comparable_content(basic) in map(
            _comparable_content, _deliver_by_streams(published, circumstances)
        ):
            return attrs.evolve(published, redelivered=basic.redelivered)
    except (AmqpError, ValueError, TypeError, AttributeError, KeyError, IndexError):
        pass  # the residual is from another program
    return None


def _deliver_by_streams(
    basic: BasicMessage, circumstances: Circumstances
) -> Iterator[BasicMessage]:
    """Yield the message as a stream of each version of RabbitMQ would deliver it."""
    for version in _BROKERS_WITH_STREAMS:
        with suppress(BrokerError):
            stored = from_basic.to_amqp10(version, basic, Notes(), circumstances)
            yield to_basic.to_basic(version, stored, Notes(), circumstances)
    # The profile of RabbitMQ 3.10 covers streams with a 1.0 client at one end. Here both ends are
    # 0-9-1: the stream only drops arrays, tables and the cluster-id, and adds the offset.
    published: Any = basic.properties.headers
    scalar_entries = [entry for entry in published.entries if entry[1] not in "AF"]
    headers = FieldTable.of([*scalar_entries, (STREAM_OFFSET, "l", circumstances.stream_offset)])
    properties = attrs.evolve(basic.properties, headers=headers, cluster_id=None)
    yield attrs.evolve(basic, properties=properties)


def _comparable_content(basic: BasicMessage) -> tuple[bytes, bytes]:
    """Return the encoded properties, with sorted headers, and the body, for comparisons."""
    unsorted: Any = basic.properties.headers
    headers = FieldTable.of(in_name_order(unsorted.entries))
    return encode_properties(attrs.evolve(basic.properties, headers=headers)), basic.body


def _described_message(
    basic: BasicMessage,
    entries: list[Any],
    content: dict[int, Any],
    lossless_to_basic: Callable[[Message, Notes], BasicMessage],
) -> Message:
    """Return the 1.0 message that a residual describes, completed with values from the delivery."""
    if WHOLE_MESSAGE_KEY in content or MESSAGE_IN_PAYLOAD_KEY in content:
        wire = content.get(WHOLE_MESSAGE_KEY, basic.body)
        message = Message.decode(wire, limits=UNLIMITED, strict=False)
        message.message_format = content.get(MESSAGE_FORMAT_KEY, 0)
        return message
    described_properties = lossless_to_basic(_message_of_sections(content), Notes()).properties
    described_headers: Any = described_properties.headers
    table = {entry[0]: entry for entry in entries}
    if described_headers:
        table |= {
            entry[0]: entry
            for entry in described_headers.entries
            if entry[0] != residual.RESIDUAL_NAME
        }
    properties = attrs.evolve(basic.properties, headers=None)
    if properties.delivery_mode == 1:
        properties.delivery_mode = None
    for row in ROWS:
        if (value := getattr(described_properties, row.name)) is not None:
            setattr(properties, row.name, value)
    properties.headers = FieldTable.of(in_name_order(list(table.values())))
    plain = BasicMessage(properties, basic.body)
    return restored_message(plain, properties.headers.entries, content, Notes(), lossless_to_basic)


def _message_of_sections(content: dict[int, Any]) -> Message:
    """Return a 1.0 message with the sections and values of a residual, and an empty body."""
    sections = {code: content[code] for code in _SECTION_CODES if code in content}
    fields = {
        PROPERTY_FIELDS[index]: kernel.decode_value(octets)
        for index, octets in content.get(SPARSE_PROPERTIES_KEY, {}).items()
    }
    if fields:
        sections[PROPERTIES_CODE] = kernel.encode_value(Properties(**fields))
    values = {
        name: kernel.decode_value(octets)
        for name, octets in content.get(SPARSE_APPLICATION_KEY, {}).items()
    }
    if values:
        sections[APPLICATION_PROPERTIES_CODE] = kernel.encode_value(ApplicationProperties(values))
    body = Message(b"").encode()
    octets = b"".join(sections[code] for code in sorted(sections)) + body
    return Message.decode(octets, limits=UNLIMITED)
