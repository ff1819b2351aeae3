"""Messages for the tests of the lossless profile, and their bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
from hypothesis import assume

from amqp10msg import (
    Header,
    Message,
    Properties,
    Symbol,
    ULong,
)
from amqp10msg.basic import (
    BasicMessage,
    BasicProperties,
    FieldTable,
    ScaledDecimal,
    decode_properties,
    encode_properties,
)
from amqp10msg.translate import to_basic
from amqp10msg.translate.residual import RESIDUAL_NAME


def octets_of(basic: BasicMessage) -> tuple[Any, ...]:
    """What a 0-9-1 message is on the wire."""
    return (
        encode_properties(basic.properties),
        basic.body,
        basic.exchange,
        basic.routing_key,
        basic.redelivered,
    )


def sent(basic: BasicMessage) -> BasicMessage:
    """The message as another process reads it."""
    return attrs.evolve(basic, properties=decode_properties(encode_properties(basic.properties)))


ODD = BasicProperties(
    content_encoding="utf-8",
    headers=FieldTable.of(
        [
            ("x-a", "L", 5),
            ("b", "S", "v"),
            ("b", "I", 2),
            ("c", "D", ScaledDecimal(2, 314)),
            ("t", "A", [1, 2]),
        ]
    ),
    delivery_mode=1,
    priority=200,
    expiration="007",
    message_id="m-1",
    cluster_id="c",
)


MESSAGE = Message(
    {"k": 1},
    header=Header(priority=100, first_acquirer=True),
    properties=Properties(message_id=b"\1", to="q", subject="s", creation_time=1_234_567),
    application_properties={"u": ULong(7), "s": "t", "x-y": 1},
    message_annotations={"x-opt-y": Symbol("z"), 5: 1},
    delivery_annotations={"x-opt-d": 1},
    footer={"x-f": 1},
)


def with_added(
    basic: BasicMessage, added: Sequence[tuple[str, str, Any]] = (), *, stream: bool = False
) -> BasicMessage:
    """What RabbitMQ 4.0 does to a 0-9-1 message when it adds headers: it sorts them.

    Args:
        basic: the message.
        added: headers that it adds.
        stream: the message comes from a stream, where each has a delivery mode.
    """
    table = basic.properties.headers
    entries = [*(table.entries if isinstance(table, FieldTable) else ()), *added]
    entries.sort(key=lambda entry: entry[0].encode())
    headers = FieldTable.of(entries) if entries else None
    mode = basic.properties.delivery_mode
    properties = attrs.evolve(
        basic.properties, headers=headers, delivery_mode=1 if stream and mode is None else mode
    )
    return sent(attrs.evolve(basic, properties=properties))


def carries(basic: BasicMessage) -> bool:
    table = basic.properties.headers
    return table is not None and RESIDUAL_NAME in table


def in_sequence(message: Message) -> BasicMessage:
    """The translation of a message, where a residual or the order of names keeps its order."""
    basic = to_basic(message).message
    table = basic.properties.headers
    names = [e[0].encode() for e in table.entries] if isinstance(table, FieldTable) else []
    assume(carries(basic) or names == sorted(names))
    return basic
