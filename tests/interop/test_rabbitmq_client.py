"""Messages of RabbitMQ's Python client, which carries its own copy of proton."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

pytest.importorskip("proton")
client: Any = pytest.importorskip("rabbitmq_amqp_python_client")

data: Any = pytest.importorskip("rabbitmq_amqp_python_client.qpid.proton._data")

from amqp10msg import (  # noqa: E402
    Array,
    Byte,
    Char,
    Data,
    Decimal32,
    Described,
    EncodeError,
    Float,
    Int,
    Message,
    Properties,
    Symbol,
    Timestamp,
    UByte,
    ULong,
)
from amqp10msg.interop.proton import from_proton, sendable  # noqa: E402

#: Values of the client, and what they are here.
VALUES = [
    (None, None),
    (True, True),
    ("text", "text"),
    (b"octets", b"octets"),
    (1.5, 1.5),
    (7, 7),
    (data.int32(7), Int(7)),
    (data.ubyte(7), UByte(7)),
    (data.byte(-7), Byte(-7)),
    (data.ulong(7), ULong(7)),
    (data.float32(1.5), Float(1.5)),
    (data.decimal32(5), Decimal32(5)),
    (data.char("c"), Char("c")),
    (data.symbol("s"), Symbol("s")),
    (data.timestamp(7), Timestamp(7)),
    (uuid.UUID(int=7), uuid.UUID(int=7)),
    ([1, data.symbol("s")], [1, Symbol("s")]),
    ({"a": data.ulong(1)}, {"a": ULong(1)}),
    (data.Described(data.symbol("d"), [1]), Described(Symbol("d"), [1])),
    (data.Array(data.UNDESCRIBED, data.Data.INT, 1, 2), Array("int", [1, 2])),
]


@pytest.mark.parametrize("theirs, ours", VALUES, ids=[repr(ours) for _, ours in VALUES])
def test_values_keep_their_types(theirs: object, ours: object) -> None:
    message = client.Message(body=b"x")
    message.annotations = {data.symbol("x-opt-a"): theirs}
    message.application_properties = {"k": theirs}

    converted = from_proton(message)

    assert {Symbol("x-opt-a"): ours} == converted.message_annotations
    assert {"k": ours} == converted.application_properties
    properties: dict[str, Any] = dict(converted.application_properties or {})
    assert type(ours) is type(properties["k"])


def test_message_as_a_consumer_receives_it() -> None:
    sent = Message(
        b"body",
        properties=Properties(message_id="m-1", subject="s", to="/queues/q"),
        message_annotations={"x-opt-a": ULong(5)},
        application_properties={"tenant": "x", "n": Int(5)},
    )
    event_message = client.Message()
    event_message.decode(sent.encode())

    received = from_proton(event_message)

    assert (sent.body, sent.properties) == (received.body, received.properties)
    assert sent.message_annotations == received.message_annotations
    assert sent.application_properties == received.application_properties
    assert event_message.application_properties  # unchanged by the conversion


def test_value_that_the_client_cannot_encode() -> None:
    message = client.Message(body=b"x")
    message.application_properties = {"k": object()}

    with pytest.raises(EncodeError, match=r"application-properties\['k'\]: proton does not encode"):
        from_proton(message)


class Link:
    """A sender of the client's proton, as far as `sendable` uses it."""

    remote_max_message_size = 0
    current = None
    snd_settle_mode = 0

    def __init__(self) -> None:
        self.octets = b""

    def delivery_tag(self) -> str:
        return "1"

    def delivery(self, _: str) -> object:
        return object()

    def stream(self, octets: bytes) -> None:
        self.octets += octets

    def advance(self) -> None:
        pass


class BlockingSender:
    def __init__(self) -> None:
        self.link = Link()

    def send(self, message: Any, **_: object) -> Any:
        message.send(self.link, tag="1")

        class Settled:
            remote_state = client.Disposition.ACCEPTED

        return Settled


@pytest.mark.parametrize("message", [Message(b"data"), Message("a value"), Message([1])])
def test_publisher_sends_the_exact_bytes(message: Message) -> None:
    sender = BlockingSender()
    publisher = client.Publisher.__new__(client.Publisher)
    publisher._addr = "/queues/q"
    publisher._sender = sender

    publisher.publish(sendable(message))
    publisher.publish(sendable(message.encode()))

    assert 2 * message.encode() == sender.link.octets
    assert Data(b"data") == Message(b"data").body


def test_other_objects_are_refused() -> None:
    for value in (None, 5, "text", b"octets", Message("x")):
        with pytest.raises(TypeError, match=r"from_proton takes a proton\.Message, not"):
            from_proton(value)
