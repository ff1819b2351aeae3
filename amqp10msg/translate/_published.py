"""`as_published`: restores a 0-9-1 message, as it was published, from its delivery."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from amqp10msg.basic.message import BasicMessage
from amqp10msg.basic.properties import BasicProperties
from amqp10msg.basic.tables import FieldTable, as_table
from amqp10msg.brokers import STREAM_OFFSET
from amqp10msg.message import Message
from amqp10msg.translate import _lossless, residual
from amqp10msg.translate._delivery import (
    ADDED_HEADER_LETTERS,
    PER_DELIVERY_HEADER_NAMES,
    without_broker_headers,
)
from amqp10msg.translate._merge_message import former_expiration
from amqp10msg.translate._streams import restore_from_stream
from amqp10msg.translate.report import Notes
from amqp10msg.translate.residual import HEADER_INDEXES_KEY, ROUTING_ANNOTATIONS_FIRST_KEY
from amqp10msg.wire import kernel
from amqp10msg.wire.errors import AmqpError, expect
from amqp10msg.wire.kernel.codes import MESSAGE_ANNOTATIONS_CODE
from amqp10msg.wire.limits import UNLIMITED

#: Annotations that RabbitMQ 4 adds to each delivery.
_ROUTE_ANNOTATIONS = {"x-exchange", "x-routing-key"}


def as_published(
    basic: BasicMessage, *, stream: bool = False, dead_letter: bool = False
) -> BasicMessage:
    """Restore a delivered message as it was published, so that it can be published again.

    This removes the exchange, the routing key, the redelivered flag, and the values that RabbitMQ
    adds at delivery: the offset and delivery mode 1 of a stream, and the counts of a quorum queue.
    Headers that RabbitMQ has sorted stay sorted, unless a residual records their order. If the
    message has a residual, values that a stream has changed or dropped are restored as well.

    A 1.0 message that was translated to 0-9-1, published and delivered is
    ``to_amqp10(as_published(delivered)).message``, except for the losses of `to_basic`.

    Args:
        basic: the message, which is not changed.
        stream: whether the message was delivered from a stream.
        dead_letter: also remove the record of the message's deaths, and restore the expiration
            that RabbitMQ has removed. By default, the record stays in the message.
    """
    expect(basic, BasicMessage, "as_published", "a BasicMessage")
    if stream:
        basic = restore_from_stream(basic, _lossless.to_basic) or basic
    basic = _drop_routing_annotations_first(basic)
    plain = attrs.evolve(basic, exchange="", routing_key="", redelivered=False)
    table = basic.properties.headers
    added_names = {STREAM_OFFSET} if stream else set()
    if basic.redelivered or dead_letter:
        added_names |= PER_DELIVERY_HEADER_NAMES - {STREAM_OFFSET}
    if dead_letter:
        added_names |= ADDED_HEADER_LETTERS.keys() - PER_DELIVERY_HEADER_NAMES
    if table is None or not added_names:
        return plain
    entries = as_table(table).entries
    if dead_letter and plain.properties.expiration is None:
        plain.properties = attrs.evolve(plain.properties, expiration=former_expiration(entries))
    return without_broker_headers(
        plain, entries, Notes(enabled=False), ADDED_HEADER_LETTERS.keys() - added_names
    )[0]


def _drop_routing_annotations_first(basic: BasicMessage) -> BasicMessage:
    """Remove `ROUTING_ANNOTATIONS_FIRST_KEY`: the broker adds those annotations at delivery."""
    table = basic.properties.headers
    if table is None or residual.RESIDUAL_NAME not in table:
        return basic
    entries = as_table(table).entries
    name, letter, value = entries[-1]
    content = (
        residual.unpack_text(value) if (name, letter) == (residual.RESIDUAL_NAME, "S") else None
    )
    if content is None or not residual.is_of_message(content):
        return basic
    if content.pop(ROUTING_ANNOTATIONS_FIRST_KEY, None) is None:
        return basic
    other_entries = entries[:-1]
    remaining_keys = content.keys() - {HEADER_INDEXES_KEY}
    if remaining_keys == {MESSAGE_ANNOTATIONS_CODE} and _are_annotations_in_headers(
        content, other_entries
    ):
        remaining_keys = set()
    if remaining_keys:
        other_entries.append((name, letter, residual.pack_text(content)))
    properties = attrs.evolve(
        basic.properties, headers=FieldTable.of(other_entries) if other_entries else None
    )
    return attrs.evolve(basic, properties=properties)


def _are_annotations_in_headers(content: dict[int, Any], entries: list[Any]) -> bool:
    """Whether the headers alone can restore the annotations that a residual contains.

    They can if each annotation was converted to a header exactly and had its smallest encoding. The
    exchange and routing key, which a delivery adds, are ignored.
    """
    octets = content[MESSAGE_ANNOTATIONS_CODE]
    try:
        annotations = Message.decode(octets, limits=UNLIMITED).message_annotations
    except AmqpError:
        return False
    if annotations is None or kernel.encode_value(annotations) != octets:
        return False
    sender_entries = [entry for entry in entries if entry[0] not in PER_DELIVERY_HEADER_NAMES]
    properties = BasicProperties(headers=FieldTable.of(sender_entries))
    restored = _lossless.to_amqp10(BasicMessage(properties), Notes(enabled=False))
    expected = {key: value for key, value in annotations.items() if key not in _ROUTE_ANNOTATIONS}
    return bool(annotations) and (
        _encoded_items(expected) == _encoded_items(restored.message_annotations or {})
    )


def _encoded_items(annotations: Mapping[Any, Any]) -> list[bytes]:
    """Return the encoded keys and values, in order."""
    return [kernel.encode_value(item) for pair in annotations.items() for item in pair]
