"""Deliveries that are translated together become what each becomes by itself."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from amqp10msg import Header, Message, ULong
from amqp10msg.basic import (
    BasicMessage,
    BasicProperties,
    FieldArray,
    FieldTable,
    encode_content_header,
)
from amqp10msg.net.bridge import RouteOptions, Statistics, parse_url
from amqp10msg.net.bridge.sending import preparer_of
from amqp10msg.net.ends.contents import header_of
from amqp10msg.net.ends.terms import SourceDelivery
from amqp10msg.testing import basic_messages, encodings, messages, mutated
from amqp10msg.translate import to_basic
from tests.lossless import in_sequence, with_added

QUEUE, ADDRESS = parse_url("amqp091://h/?queue=q"), parse_url("amqp://h/q")
EXCHANGE = parse_url("amqp091://h/")


def of_basic(basic: BasicMessage) -> SourceDelivery:
    header = encode_content_header(basic.properties, len(basic.body))
    return SourceDelivery(basic.body, header, basic.exchange, basic.routing_key, basic.redelivered)


WIRES = st.one_of(
    messages().map(Message.encode),
    messages().flatmap(encodings),
    st.builds(
        lambda message, header: message.evolve(header=header).encode(),
        messages(),
        st.builds(Header, first_acquirer=st.booleans(), delivery_count=st.integers(0, 2)),
    ),
    messages().map(Message.encode).flatmap(mutated),
)


def prepared(ends: tuple[Any, Any], deliveries: list[SourceDelivery], **given: Any) -> Any:
    statistics = Statistics()
    made = preparer_of(*ends, RouteOptions(**given), statistics)(deliveries)
    shown = [str(one) if isinstance(one, Exception) else one for one in made]
    return [one if one is None or isinstance(one, str) else attrs.astuple(one) for one in shown], (
        statistics.losses
    )


@pytest.mark.once
@given(st.lists(WIRES, max_size=8), st.sampled_from([QUEUE, EXCHANGE]))
def test_batch_translation_of_1_0_equals_single_translation(
    wires: list[bytes], target: Any
) -> None:
    """A hook, which sees each message, has them translated one by one."""
    ends, deliveries = (ADDRESS, target), [SourceDelivery(wire) for wire in wires]

    alone = prepared(ends, deliveries, change=lambda message, _: message)

    assert alone == prepared(ends, deliveries)


@pytest.mark.once
@given(st.lists(basic_messages(), max_size=8), st.booleans())
def test_batch_translation_of_0_9_1_equals_single_translation(
    found: list[BasicMessage], keep_names: bool
) -> None:
    ends, deliveries = (QUEUE, ADDRESS), [of_basic(basic) for basic in found]

    alone = prepared(ends, deliveries, change=lambda message, _: message, keep_names=keep_names)

    assert alone == prepared(ends, deliveries, keep_names=keep_names)


STREAM = parse_url("amqp091://h/?queue=q&offset=first")
STREAMED = ("x-stream-offset", "l", 7)
COUNTED = ("x-delivery-count", "l", 1), ("x-acquired-count", "l", 2)


@pytest.mark.once
@pytest.mark.parametrize("stream", [True, False])
@given(messages())
def test_fields_added_by_rabbitmq_are_removed(stream: bool, message: Message) -> None:
    """From a stream, or a quorum queue again: the same bytes as without the broker between."""
    added = (STREAMED,) if stream else COUNTED
    came = with_added(in_sequence(message), added, stream=stream)
    came = attrs.evolve(came, routing_key="q", redelivered=not stream)

    ends = (STREAM if stream else QUEUE), ADDRESS
    ((wire, *_),), losses = prepared(ends, [of_basic(came)])

    found = Message.decode(wire)
    assert message.evolve(header=None).encode() == found.evolve(header=None).encode()
    kept, header = (one.header or Header() for one in (message, found))
    # A count of 1 alone is what redelivered says, which a broker says anew.
    assert (
        header in ([kept, attrs.evolve(kept, delivery_count=0)][: 1 + (kept.delivery_count == 1)])
    )
    assert not losses


@pytest.mark.parametrize("entry", [STREAMED, *COUNTED])
def test_senders_headers_with_rabbitmqs_names_are_kept(entry: Any) -> None:
    """A queue adds none of them to the first delivery of a message."""
    given = BasicMessage(BasicProperties(headers=FieldTable.of([entry])), b"x")

    ((wire, *_),), _ = prepared((QUEUE, ADDRESS), [of_basic(attrs.evolve(given, routing_key="q"))])

    assert given == to_basic(Message.decode(wire)).message


def test_a_dead_letter_keeps_the_order_of_its_properties() -> None:
    message = Message(b"x", application_properties={"z": 1, "u": ULong(1), "a": 2})
    history = [
        ("x-death", "A", FieldArray.of([("F", FieldTable({"queue": "work"}))])),
        ("x-first-death-queue", "S", "work"),
    ]
    came = attrs.evolve(with_added(to_basic(message).message, history), routing_key="dead")

    ((wire, *_),), _ = prepared((QUEUE, ADDRESS), [of_basic(came)])

    found = Message.decode(wire)
    assert message.bare == found.bare
    assert found.message_annotations is not None
    assert "work" == found.message_annotations["x-opt-x-first-death-queue"]


@example(bytes.fromhex("0080000000000000007045 00537740"))  # a descriptor in eight bytes
@example(bytes.fromhex("00a310616d71703a6865616465723a6c69737445 00537740"))
@given(st.one_of(WIRES, st.binary(max_size=12)))
def test_header_of_equals_a_full_decoding(wire: bytes) -> None:
    try:
        expected = Message.decode(wire).header
    except ValueError:
        return

    assert expected == header_of(wire)
