"""Messages of aio-pika, FastStream and kombu, and the messages of 0-9-1 that they stand for."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg.basic import BasicMessage, BasicProperties
from amqp10msg.interop.systems import adapters
from amqp10msg.translate import to_amqp10

texts = st.text("abcxyz", min_size=1)
headers = st.none() | st.dictionaries(
    texts, st.booleans() | texts | st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=3
)


@st.composite
def basics(draw: st.DrawFn) -> BasicMessage:
    maybe = st.none() | texts
    properties = BasicProperties(
        content_type=draw(texts),
        content_encoding=draw(texts),
        delivery_mode=draw(st.sampled_from([1, 2])),
        priority=draw(st.integers(0, 9)),
        correlation_id=draw(maybe),
        reply_to=draw(maybe),
        expiration=draw(st.none() | st.integers(0, 10**7).map(str)),
        message_id=draw(maybe),
        type=draw(maybe),
        user_id=draw(maybe),
        app_id=draw(maybe),
        headers=draw(headers),
    )
    return BasicMessage(properties, draw(st.binary()), draw(texts), draw(texts))


def fields(basic: BasicMessage) -> list[Any]:
    """What of a message all the libraries keep: its headers without the letters of their types."""
    table = basic.properties.headers or {}
    names = ("content_type", "content_encoding", "delivery_mode", "priority", "correlation_id")
    more = ("reply_to", "expiration", "message_id", "type", "user_id", "app_id")
    values = [getattr(basic.properties, name) for name in (*names, *more)]
    return [dict(table), values, basic.body]


def delivered(basic: BasicMessage) -> Any:
    """The message as aio-pika hands it to a consumer."""
    aio_pika = pytest.importorskip("aio_pika", reason="aio-pika is not installed")
    aiormq = pytest.importorskip("aiormq.abc")
    commands = pytest.importorskip("pamqp.commands")
    header = pytest.importorskip("pamqp.header")
    message = adapters.to_aio_pika(basic)
    deliver = commands.Basic.Deliver("c", 1, True, basic.exchange, basic.routing_key)
    content = header.ContentHeader(0, len(basic.body), message.properties)
    return aio_pika.IncomingMessage(
        aiormq.DeliveredMessage(delivery=deliver, header=content, body=basic.body, channel=None)
    )


@given(basics())
def test_a_message_goes_through_aio_pika(basic: BasicMessage) -> None:
    pytest.importorskip("aio_pika", reason="aio-pika is not installed")
    assert fields(basic) == fields(adapters.from_aio_pika(adapters.to_aio_pika(basic)))

    received = adapters.from_aio_pika(delivered(basic))
    assert fields(basic) == fields(received)
    assert (basic.exchange, basic.routing_key, True) == (
        *(received.exchange, received.routing_key),
        received.redelivered,
    )
    assert basic.body == to_amqp10(received).message.body_bytes()


def test_a_message_of_faststream() -> None:
    rabbit = pytest.importorskip("faststream.rabbit", reason="faststream[rabbit] is not installed")
    basic = BasicMessage(BasicProperties(message_id="m", headers={"a": 1}), b"x", "e", "k")
    raw = delivered(basic)
    message = rabbit.RabbitMessage(raw_message=raw, body=raw.body)

    assert adapters.from_aio_pika(raw) == adapters.from_aio_pika(message)
    assert "m" == adapters.from_aio_pika(message).properties.message_id


@pytest.mark.parametrize("expiration", ["0", "1", "1001", "8027", "9999999", "4294967295"])
def test_an_expiration_keeps_its_milliseconds(expiration: str) -> None:
    """8.027 s times 1000 is a little less than 8027, and both libraries cut it."""
    basic = BasicMessage(BasicProperties(expiration=expiration), b"")
    pytest.importorskip("aio_pika", reason="aio-pika is not installed")

    assert expiration == adapters.to_aio_pika(basic).properties.expiration
    assert expiration == adapters.from_aio_pika(delivered(basic)).properties.expiration
    assert expiration == str(int(adapters.to_kombu(basic)["expiration"] * 1000))


@given(basics())
def test_a_message_goes_through_kombu(basic: BasicMessage) -> None:
    kombu = pytest.importorskip("kombu", reason="kombu is not installed")
    with kombu.Connection("memory://") as connection:
        queue = connection.SimpleQueue("q")
        queue.clear()
        arguments = adapters.to_kombu(basic)
        kombu.Producer(connection).publish(**{**arguments, "exchange": "", "routing_key": "q"})
        message = queue.get(block=False)
        received = adapters.from_kombu(message)
        queue.close()

    expected, found = fields(basic), fields(received)
    assert expected[2] == found[2]
    assert expected[0] == found[0]
    kept = ("content_type", "content_encoding", "delivery_mode", "priority", "correlation_id")
    for name in (*kept, "reply_to", "message_id", "type", "user_id", "app_id"):
        assert getattr(basic.properties, name) == getattr(received.properties, name), name


def test_adapters_refuse_other_types() -> None:
    for read in (adapters.from_aio_pika, adapters.from_kombu):
        with pytest.raises(TypeError, match="not a message of"):
            read(5)


def test_non_numeric_expiration() -> None:
    pytest.importorskip("aio_pika", reason="aio-pika is not installed")
    with pytest.raises(ValueError, match="soon"):
        adapters.to_aio_pika(BasicMessage(BasicProperties(expiration="soon")))
