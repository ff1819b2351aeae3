"""What a translation without a residual says of the brokers that would change it."""

from __future__ import annotations

import attrs
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg import AmqpValue, Array, Int, Message
from amqp10msg.basic import BasicMessage, FieldTable
from amqp10msg.testing import bodies, encodings, messages
from amqp10msg.translate import residual, to_amqp10, to_basic
from amqp10msg.translate.rabbitmq.writing import rewritten

names = st.text("abcxyzA-é", min_size=1, max_size=4)
SECTIONS = ("application-properties", "message-annotations")


def through_sorting(basic: BasicMessage) -> BasicMessage:
    """The message behind a broker that sorted its headers by the bytes of their names."""
    headers = basic.properties.headers
    entries = headers.entries if isinstance(headers, FieldTable) else []
    ordered = FieldTable.of(sorted(entries, key=lambda entry: entry[0].encode()))
    return attrs.evolve(basic, properties=attrs.evolve(basic.properties, headers=ordered))


@given(
    st.dictionaries(names, st.integers(0, 9).map(Int), max_size=5),
    st.dictionaries(
        names.filter(str.isascii).map(lambda name: f"x-opt-{name}"), st.text(max_size=3), max_size=5
    ),
)
def test_an_order_that_a_broker_would_change_is_named(
    application: dict[str, Int], annotations: dict[str, str]
) -> None:
    message = Message(b"x", application_properties=application, message_annotations=annotations)
    made = to_basic(Message.decode(message.encode()))
    if residual.NAME in (made.message.properties.headers or {}):
        assert not [loss for loss in made.losses if loss.action == "reordered"]
        return

    behind = to_amqp10(through_sorting(made.message)).message
    # Of both kinds in turn, headers have an order that a residual keeps.
    annotated = [key for key in behind.message_annotations or {} if key != residual.NAME]
    came = {SECTIONS[0]: list(behind.application_properties or {}), SECTIONS[1]: annotated}
    went = {SECTIONS[0]: list(application), SECTIONS[1]: list(annotations)}
    changed = [section for section in SECTIONS if went[section] != came[section]]
    named = [(loss.path, loss.recoverable) for loss in made.losses if loss.action == "reordered"]
    assert [(section, True) for section in changed] == named


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
