"""The RabbitMQ that AMQP10MSG_RABBITMQ names, ``127.0.0.1:26672`` for example, over 0-9-1."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from amqp10msg.basic import FieldTable, ScaledDecimal

__all__ = ["BROKER", "HEADERS", "channels", "filled_stream"]

BROKER = os.environ.get("AMQP10MSG_RABBITMQ")

#: Headers of most types. RabbitMQ gives them back in the order of their names.
HEADERS = FieldTable.of(
    [
        ("byte", "b", -3),
        ("decimal", "D", ScaledDecimal(2, -314)),
        ("double", "d", 12.75),
        ("float", "f", 1.5),
        ("moment", "T", 1_700_000_000),
        ("octets", "x", b"\xff\x00"),
        ("short", "s", -2),
        ("table", "F", FieldTable.of([("l", "l", -(2**63))])),
        ("text", "S", "\udcff"),
        ("void", "V", None),
    ]
)


@contextlib.contextmanager
def channels() -> Iterator[Any]:
    """Give a channel of pika, whose connection is closed afterwards."""
    if BROKER is None:
        pytest.skip("AMQP10MSG_RABBITMQ names no RabbitMQ")
    pika = pytest.importorskip("pika")
    host, _, port = BROKER.partition(":")
    connection = pika.BlockingConnection(pika.ConnectionParameters(host, int(port)))
    try:
        yield connection.channel()
    finally:
        connection.close()


@contextlib.contextmanager
def filled_stream() -> Iterator[tuple[Any, str]]:
    """Give a channel, and the name of a stream of 3,000 messages."""
    with channels() as channel:
        import pika  # noqa: PLC0415  (an extra)

        # Over AMQP 1.0, RabbitMQ 3 cannot address a queue whose name is not ASCII.
        version = str(channel.connection._impl.server_properties["version"])
        name = f"amqp10msg,{uuid.uuid4()}/{'o' if version.startswith('3.') else 'ö'}"
        channel.queue_declare(name, durable=True, arguments={"x-queue-type": "stream"})
        try:
            for number in range(3_000):
                if number == 2_999:
                    channel.confirm_delivery()  # of the last one, which says so of all before
                headers = {"x-stream-filter-value": "ab"[number % 2], "k": number}
                properties = pika.BasicProperties(headers=headers)
                channel.basic_publish("", name, b"%d" % number, properties)
            yield channel, name
        finally:
            channel.queue_delete(name)
