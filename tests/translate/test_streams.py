"""Bodies and headers that a stream encodes anew: what a translation says, and what comes back."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from hypothesis import given

from amqp10msg import AmqpValue, Array, Message, Timestamp
from amqp10msg.basic import BasicMessage, BasicProperties, FieldArray, FieldTable
from amqp10msg.sections import BODY_CODES
from amqp10msg.sections.parts import octets_of_sections
from amqp10msg.testing import bodies, encodings, messages
from amqp10msg.translate import Circumstances, as_published, to_amqp10, to_basic
from amqp10msg.translate.rabbitmq.terms import reencode_body
from amqp10msg.wire.kernel.codes import DATA_CODE
from tests.lossless import sent

pytestmark = pytest.mark.once


@given(messages(body=bodies()).flatmap(encodings))
def test_reencoding_of_a_body_by_a_stream_is_reported(octets: bytes) -> None:
    made = to_basic(Message.decode(octets))
    if made.message.properties.type != "amqp-1.0":
        return

    anew = reencode_body(made.message.body) != made.message.body
    assert anew == any(
        loss.path == "body" and "stream" in loss.reason and loss.recoverable for loss in made.losses
    )


@given(messages(body=bodies()).flatmap(encodings))
def test_a_body_of_sections_is_delivered_as_the_broker_encodes_it(octets: bytes) -> None:
    body = octets_of_sections(octets, BODY_CODES, False)
    delivered = reencode_body(body)
    if delivered is None or not body or body[2] == DATA_CODE or body[1] != 0x53:
        return
    basic = BasicMessage(BasicProperties(type="amqp-1.0"), body)

    for profile in ("rabbitmq-4.0", "rabbitmq-4.3"):
        assert to_amqp10(basic, profile).message.encode().endswith(delivered)
    assert to_amqp10(basic).message.encode().endswith(body)


def test_arrays_and_symbolic_descriptors_in_a_body_are_named_and_lists_are_not() -> None:
    texts = Message(AmqpValue([Array("string", ["a", "bc"])]))
    assert ["body"] == [loss.path for loss in to_basic(texts).losses]

    symbolic = Message.decode(
        bytes.fromhex("00a317616d71703a616d71702d73657175656e63653a6c69737445")
    )
    assert ["body"] == [loss.path for loss in to_basic(symbolic).losses]

    others: list[object] = [[1, "a", None], Array("uint", []), {"k": True}]
    for value in others:
        assert () == to_basic(Message(AmqpValue(value))).losses


def from_stream(basic: BasicMessage) -> BasicMessage:
    """What a consumer of 0-9-1 gets from a stream of RabbitMQ 4.0."""

    def stored(letter: str, value: Any) -> tuple[str, Any]:
        if letter == "x":
            return "S", value.decode("utf-8", "surrogateescape")
        if letter == "A":
            return letter, FieldArray.of([stored(*entry) for entry in value.entries])
        return letter, value

    table = basic.properties.headers
    entries = table.entries if isinstance(table, FieldTable) else []
    headers = [(name, *stored(letter, value)) for name, letter, value in entries]
    headers.append(("x-stream-offset", "l", 7))
    headers.sort(key=lambda entry: entry[0].encode())
    properties = attrs.evolve(basic.properties, headers=FieldTable.of(headers), delivery_mode=1)
    body = basic.body
    if properties.type == "amqp-1.0":
        anew = reencode_body(body)
        assert anew is not None
        body = anew
    return sent(attrs.evolve(basic, properties=properties, body=body, routing_key="q"))


@pytest.mark.parametrize(
    "octets",
    [
        "0080000000000000007041005374c1010000a311616d71703a616d71702d76616c75653a2a40",
        "005373c006034040a0016b00a317616d71703a616d71702d73657175656e63653a6c69737445",
    ],
)
def test_a_message_that_breaks_rules_keeps_its_original_through_a_stream(octets: str) -> None:
    message = Message.decode(bytes.fromhex(octets), strict=False)
    back = to_amqp10(from_stream(to_basic(message).message))

    assert octets == back.message.encode().hex()


def test_octets_within_a_header_come_back_from_a_stream() -> None:
    message = Message(b"x", message_annotations={"x-opt-a": [b"\xc3", "v", [b"\xff"]]})
    back = to_amqp10(from_stream(to_basic(message).message)).message.message_annotations

    assert {"x-exchange": "", "x-routing-key": "q", **(message.message_annotations or {})} == back


@pytest.mark.parametrize("profile", ["rabbitmq-4.0-stream", "rabbitmq-4.3-stream"])
@pytest.mark.parametrize("section", ["message_annotations", "application_properties"])
@pytest.mark.parametrize("value", [Timestamp(7_000), Timestamp(7_001), 5, "text"])
def test_time_of_receipt_comes_back_from_a_stream(profile: Any, section: str, value: Any) -> None:
    """A stream would deliver such a header as `timestamp_in_ms`."""
    sections: Any = {section: {"x-opt-rabbitmq-received-time": value, "x-opt-a": 1}}
    message = Message(b"x", **sections)
    published = attrs.evolve(to_basic(message).message, routing_key="q")
    given = Circumstances(user=None, stream_offset=7)
    stored = to_amqp10(published, profile, circumstances=given).message
    delivered = to_basic(stored, profile, circumstances=given).message

    assert message == to_amqp10(as_published(delivered, stream=True)).message


def test_header_with_the_time_of_receipt_comes_back() -> None:
    entries = [("x-opt-rabbitmq-received-time", "T", 7), ("a", "I", 1)]
    basic = BasicMessage(BasicProperties(headers=FieldTable.of(entries)), b"x")
    there = to_amqp10(basic)

    assert ["x-opt-amqp10msg-residual"] == list(there.message.message_annotations or ())
    assert basic == to_basic(there.message).message
