"""A delivered 0-9-1 message as it was published: `as_published`."""

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
    COUNTS,
    HEADERS,
    without_facts,
)
from amqp10msg.translate._merge_message import former_expiration
from amqp10msg.translate._streams import as_sent
from amqp10msg.translate.report import Notes
from amqp10msg.translate.residual import FORM, PLACES
from amqp10msg.wire import kernel
from amqp10msg.wire.errors import AmqpError, expect
from amqp10msg.wire.kernel.codes import MESSAGE_ANNOTATIONS_CODE
from amqp10msg.wire.limits import UNLIMITED

#: Annotations of one delivery.
_ROUTE = {"x-exchange", "x-routing-key"}


def as_published(
    basic: BasicMessage, *, stream: bool = False, dead_letter: bool = False
) -> BasicMessage:
    """Return a delivered message as it was published, so that it can be published again.

    Exchange, routing key and whether it was redelivered are left out, and so is what RabbitMQ adds
    to the headers for one delivery: to a message of a stream the offset, with a delivery mode of 1
    where there was none; to one that was redelivered the counts of a quorum queue. Headers that
    RabbitMQ sorted stay sorted, but a residual knows their order; where a message of a stream has
    one, all that the stream changed or dropped is there again.

    So the 1.0 message that became a 0-9-1 message is
    ``to_amqp10(as_published(delivered)).message``, but for what the losses of `to_basic` name.

    Args:
        basic: the message, which is not changed.
        stream: it comes from a stream.
        dead_letter: leave out the history of its deaths, too, and give it the expiration back that
            RabbitMQ took from it; else the history stays: it is of the message.
    """
    expect(basic, BasicMessage, "as_published", "a BasicMessage")
    if stream:
        basic = as_sent(basic, _lossless.to_basic) or basic
    basic = _of_any_delivery(basic)
    plain = attrs.evolve(basic, exchange="", routing_key="", redelivered=False)
    table = basic.properties.headers
    facts = {STREAM_OFFSET} if stream else set()
    if basic.redelivered or dead_letter:
        facts |= COUNTS - {STREAM_OFFSET}
    if dead_letter:
        facts |= HEADERS.keys() - COUNTS
    if table is None or not facts:
        return plain
    entries = as_table(table).entries
    if dead_letter and plain.properties.expiration is None:
        plain.properties = attrs.evolve(plain.properties, expiration=former_expiration(entries))
    return without_facts(plain, entries, Notes(enabled=False), HEADERS.keys() - facts)[0]


def _of_any_delivery(basic: BasicMessage) -> BasicMessage:
    """Return a message without what its residual says of the form of one delivery."""
    table = basic.properties.headers
    if table is None or residual.NAME not in table:
        return basic
    entries = as_table(table).entries
    name, letter, value = entries[-1]
    content = residual.unpack_text(value) if (name, letter) == (residual.NAME, "S") else None
    if content is None or not residual.is_of_message(content):
        return basic
    if content.pop(FORM, None) is None:
        return basic
    rest = entries[:-1]
    left = content.keys() - {PLACES}
    if left == {MESSAGE_ANNOTATIONS_CODE} and _is_said_by_headers(content, rest):
        left = set()
    if left:
        rest.append((name, letter, residual.pack_text(content)))
    properties = attrs.evolve(basic.properties, headers=FieldTable.of(rest) if rest else None)
    return attrs.evolve(basic, properties=properties)


def _is_said_by_headers(content: dict[int, Any], entries: list[Any]) -> bool:
    """Whether the annotations in a residual say nothing that headers do not.

    Each of them became a header that says the same; where they were those of a delivery, exchange
    and routing key stand among them. They are kept where RabbitMQ gives such a header to dead
    letters, too; or for their encoding, if that is not the usual one.
    """
    octets = content[MESSAGE_ANNOTATIONS_CODE]
    try:
        annotations = Message.decode(octets, limits=UNLIMITED).message_annotations
    except AmqpError:
        return False
    if annotations is None or kernel.encode_value(annotations) != octets:
        return False
    own = [entry for entry in entries if entry[0] not in COUNTS]
    properties = BasicProperties(headers=FieldTable.of(own))
    said = _lossless.to_amqp10(BasicMessage(properties), Notes(enabled=False)).message_annotations
    held = {key: value for key, value in annotations.items() if key not in _ROUTE}
    return bool(annotations) and _encoded(held) == _encoded(said or {})


def _encoded(annotations: Mapping[Any, Any]) -> list[bytes]:
    return [kernel.encode_value(one) for pair in annotations.items() for one in pair]
