"""What a translation says of bodies that a stream would encode anew."""

from __future__ import annotations

from hypothesis import given

from amqp10msg import AmqpValue, Array, Message
from amqp10msg.testing import bodies, encodings, messages
from amqp10msg.translate import to_basic
from amqp10msg.translate.rabbitmq.writing import rewritten


@given(messages(body=bodies()).flatmap(encodings))
def test_a_body_that_a_stream_would_encode_anew_is_named(octets: bytes) -> None:
    made = to_basic(Message.decode(octets))
    if made.message.properties.type != "amqp-1.0":
        return

    anew = rewritten(made.message.body) != made.message.body
    assert anew == any(
        loss.path == "body" and "stream" in loss.reason and loss.recoverable for loss in made.losses
    )


def test_arrays_in_a_body_are_named_and_lists_are_not() -> None:
    texts = Message(AmqpValue([Array("string", ["a", "bc"])]))
    assert ["body"] == [loss.path for loss in to_basic(texts).losses]

    others: list[object] = [[1, "a", None], Array("uint", []), {"k": True}]
    for value in others:
        assert () == to_basic(Message(AmqpValue(value))).losses
