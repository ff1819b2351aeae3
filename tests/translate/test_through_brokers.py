"""The lossless profile through brokers: what they change, add and sort, and what comes back."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Mapping
from typing import Any
from unittest import mock

import attrs
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from amqp10msg import (
    ApplicationProperties,
    Array,
    DecodeError,
    Header,
    Message,
    Properties,
    Symbol,
    UInt,
    ULong,
    encode_value,
)
from amqp10msg.basic import (
    BasicMessage,
    BasicProperties,
    FieldArray,
    FieldTable,
)
from amqp10msg.sections.parts import parts_of
from amqp10msg.testing import basic_messages, messages
from amqp10msg.translate import as_published, to_amqp10, to_basic
from amqp10msg.wire.kernel.codes import HEADER_CODE, PROPERTIES_CODE
from tests.lossless import MESSAGE, carries, in_sequence, octets_of, with_added

pytestmark = pytest.mark.once


def rabbitmq_4_0(
    octets: bytes, added: Mapping[Any, Any] | None = None, *, count: int = 0, durable: bool = True
) -> bytes:
    """What RabbitMQ 4.0 does to a 1.0 message on the way: header and two annotations.

    Args:
        octets: the encoded message.
        added: annotations that it adds besides.
        count: of earlier deliveries, as a quorum queue has it.
        durable: a classic or quorum queue makes a message durable that does not say so.
    """
    message = Message.decode(octets)
    header = message.header or Header()
    fields = [
        b"\x41" if durable or header.durable else b"\x40",
        b"\x40" if header.priority == 4 else b"\x50" + bytes([header.priority]),
        b"\x40" if header.ttl is None else encode_value(UInt(header.ttl)),
        b"\x42" if count else b"\x41",
        encode_value(UInt(count)),
    ]
    content = b"\5" + b"".join(fields)
    front = b"\0\x53\x70\xc0" + bytes([len(content)]) + content
    annotations = {
        **(message.message_annotations or {}),
        "x-exchange": "",
        "x-routing-key": "q",
        **(added or {}),
    }
    return front + message.evolve(header=None, message_annotations=annotations).encode()


def comes_back(basic: BasicMessage, octets: bytes, *, durable: bool = True) -> bool:
    """Whether what a broker made of a message's translation is the message again."""
    made = to_basic(Message.decode(octets))
    back = attrs.evolve(made.message, redelivered=False)
    # The one thing that is lost: nothing tells a default of the broker from a delivery mode of 2.
    mode = basic.properties.delivery_mode
    wanted = 2 if mode is None and durable else mode
    properties = attrs.evolve(basic.properties, delivery_mode=wanted)
    return octets_of(attrs.evolve(basic, properties=properties, routing_key="q")) == octets_of(back)


@given(basic_messages())
def test_a_message_comes_back_through_a_broker(basic: BasicMessage) -> None:
    basic = attrs.evolve(basic, exchange="", routing_key="", redelivered=False)
    assert comes_back(basic, rabbitmq_4_0(to_amqp10(basic).message.encode()))


DEATHS: dict[Any, Any] = {
    "x-first-death-exchange": "",
    "x-first-death-queue": "work",
    "x-first-death-reason": "rejected",
    "x-last-death-exchange": "",
    "x-last-death-queue": "work",
    "x-last-death-reason": "rejected",
    "x-opt-deaths": Array("map", [{Symbol("queue"): "work", Symbol("count"): ULong(1)}]),
}


@given(basic_messages())
def test_a_message_comes_back_through_a_stream(basic: BasicMessage) -> None:
    basic = attrs.evolve(basic, exchange="", routing_key="", redelivered=False)
    octets = rabbitmq_4_0(to_amqp10(basic).message.encode(), {"x-stream-offset": 7}, durable=False)

    assert comes_back(basic, octets, durable=False)


@given(basic_messages(), st.integers(1, 300))
def test_a_message_comes_back_that_a_quorum_queue_redelivered(
    basic: BasicMessage, count: int
) -> None:
    basic = attrs.evolve(basic, exchange="", routing_key="", redelivered=False)
    octets = to_amqp10(basic).message.encode()

    assert comes_back(basic, rabbitmq_4_0(octets, {"x-delivery-count": count}, count=count))


@given(basic_messages())
def test_a_dead_lettered_message_comes_back(basic: BasicMessage) -> None:
    basic = attrs.evolve(basic, exchange="", routing_key="", redelivered=False)
    octets = to_amqp10(basic).message.encode()

    assert comes_back(basic, rabbitmq_4_0(octets, DEATHS))
    # From a quorum queue, which counts the delivery that was rejected.
    assert comes_back(basic, rabbitmq_4_0(octets, DEATHS, count=1))


def rabbitmq_3_10(octets: bytes, *, first_acquirer: bool = True) -> bytes:
    """Return a 1.0 message as RabbitMQ 3.10.8 delivers it, as recorded.

    The header has five fields. A message without properties gets thirteen fields of them, with the
    routing key as subject. Data of 255 bytes is in the long form.
    """
    message = Message.decode(octets)
    header = message.header or Header()
    content = b"\5" + b"".join(
        [
            b"\x41" if header.durable else b"\x42",
            b"\x40" if header.priority == 4 else b"\x50" + bytes([header.priority]),
            b"\x40" if header.ttl is None else encode_value(UInt(header.ttl)),
            b"\x41" if first_acquirer else b"\x42",
            b"\x40",
        ]
    )
    found = b"\0\x53\x70\xc0" + bytes([len(content)]) + content
    sections = [(code, octets[start:end]) for code, start, _, end in parts_of(octets)]
    if message.properties is None:
        subject = bytes.fromhex("005373c0100d404040a10171") + b"\x40" * 9
        sections = sorted([*sections, (PROPERTIES_CODE, subject)], key=lambda one: one[0])
    for code, section in sections:
        if section.startswith(b"\0\x53\x75\xa0\xff"):
            found += b"\0\x53\x75\xb0\0\0\0" + section[4:]
        elif code != HEADER_CODE:
            found += section
    return found


@pytest.mark.parametrize("size", [None, 254, 255, 256])
@given(basic_messages(), st.booleans())
def test_basic_message_comes_back_from_rabbitmq_3_10(
    size: int | None, basic: BasicMessage, first: bool
) -> None:
    basic = attrs.evolve(basic, exchange="", routing_key="", redelivered=False)
    if size is not None and basic.properties.type != "amqp-1.0":
        basic = attrs.evolve(basic, body=b"b" * size)
    there = to_amqp10(basic).message
    assume(there.header is None or there.header.priority <= 9)  # as 0-9-1 has priorities
    octets = rabbitmq_3_10(there.encode(), first_acquirer=first)
    made = to_basic(Message.decode(octets))

    assert octets_of(basic) == octets_of(made.message)
    paths = [loss.path for loss in made.losses if not loss.recoverable and loss.owner == "broker"]
    assert "header" in paths
    assert ("properties.subject" in paths) == (there.properties is None)


@given(basic_messages(), st.permutations(["x-exchange", "x-routing-key", "others"]))
def test_position_of_route_annotations_is_no_difference(
    basic: BasicMessage, order: list[str]
) -> None:
    basic = attrs.evolve(basic, exchange="", routing_key="", redelivered=False)
    delivered = Message.decode(rabbitmq_4_0(to_amqp10(basic).message.encode()))
    annotations = dict(delivered.message_annotations or {})
    route = {key: annotations.pop(key) for key in ("x-exchange", "x-routing-key")}
    parts = {key: {key: value} for key, value in route.items()} | {"others": annotations}
    moved = {key: value for part in order for key, value in parts[part].items()}
    rest = delivered.evolve(header=None).encode()
    header = delivered.encode()[: -len(rest)]
    octets = header + Message.decode(rest).evolve(message_annotations=moved).encode()

    assert comes_back(basic, octets)


def all_headers() -> list[str]:
    """Return header sections of five fields without a delivery-count, in hex."""
    fields = [["41", "42", "40"], ["40", "5004", "5007"], ["40", "43", "5205"], ["41", "42", "40"]]
    contents = ["05" + "".join(values) + "40" for values in itertools.product(*fields)]
    return [f"005370c0{len(content) // 2:02x}{content}" for content in contents]


@pytest.mark.parametrize("header", all_headers())
def test_header_without_delivery_count_comes_back_or_is_reported(header: str) -> None:
    message = Message.decode(bytes.fromhex(header + "005375a000"))
    made = to_basic(message)

    for delivered in (made.message, as_published(attrs.evolve(made.message, routing_key="q"))):
        is_same = message.encode() == to_amqp10(delivered).message.encode()
        assert is_same or [loss for loss in made.losses if not loss.recoverable]


def test_the_time_to_live_that_a_dead_letter_lost_is_reported() -> None:
    basic = BasicMessage(BasicProperties(expiration="600000"), b"x")
    octets = to_amqp10(basic).message.evolve(header=None).encode()
    death = {Symbol("ttl"): UInt(600_000), Symbol("queue"): "work"}
    octets = rabbitmq_4_0(octets, DEATHS | {"x-opt-deaths": Array("map", [death])})
    made = to_basic(Message.decode(octets))

    assert made.message.properties.expiration is None
    assert ["header.ttl"] == [loss.path for loss in made.losses if "ttl" in loss.path]
    assert [600_000] == [loss.before for loss in made.losses if "ttl" in loss.path]


@pytest.mark.parametrize("is_plain", [False, True])
def test_earlier_time_to_live_is_not_reported_if_the_dead_letter_has_one(is_plain: bool) -> None:
    """A consumer of dead letters may publish them again, with a new ttl."""
    basic = BasicMessage(BasicProperties(expiration="5000"), b"x")
    death = {Symbol("ttl"): UInt(600_000), Symbol("queue"): "work"}
    deaths = DEATHS | {"x-opt-deaths": Array("map", [death])}
    octets = rabbitmq_4_0(to_amqp10(basic).message.encode(), deaths)
    engine = mock.patch("amqp10msg.translate.basic_translation", return_value=None)
    with engine if is_plain else contextlib.nullcontext():
        made = to_basic(Message.decode(octets))

    assert "5000" == made.message.properties.expiration
    assert [] == [loss for loss in made.losses if "ttl" in loss.path]


def test_what_a_broker_added_is_reported() -> None:
    octets = rabbitmq_4_0(Message(b"x").encode(), {"x-delivery-count": 2, **DEATHS}, count=2)
    made = to_basic(Message.decode(octets))

    assert made.message.properties.headers is None
    assert {"dropped"} == {loss.action for loss in made.losses}
    assert ["header.delivery-count", "message-annotations['x-delivery-count']"] == sorted(
        loss.path for loss in made.losses if "delivery-count" in loss.path
    )
    assert {"broker"} == {loss.owner for loss in made.losses}
    assert made == to_basic(Message.decode(octets), strict=True)


@given(messages())
def test_sorted_headers_are_no_edit(message: Message) -> None:
    made = to_amqp10(with_added(in_sequence(message)))

    assert message.encode() == made.message.encode()
    assert [] == [loss for loss in made.losses if loss.action == "dropped"]


@given(messages(), st.data())
def test_sorted_headers_are_no_edit_of_a_message_that_breaks_part_3(
    message: Message, data: Any
) -> None:
    sections = [encode_value(section) for _, section in message.sections()]
    octets = b"".join(data.draw(st.permutations(sections + sections[:1])))
    try:
        lenient = Message.decode(octets, strict=False)
    except DecodeError:
        return
    assert octets == to_amqp10(with_added(in_sequence(lenient))).message.encode()


def test_a_dead_letter_that_breaks_part_3_keeps_its_original_with_its_ttl() -> None:
    octets = encode_value(Header(ttl=600_000)) + b"\0\x53\x74\xc1\3\2\x40\x40"  # a key that is null
    basic = to_basic(Message.decode(octets, strict=False)).message
    death = FieldTable.of([("original-expiration", "S", "600000"), ("count", "l", 1)])
    deaths = [("x-death", "A", FieldArray.of([("F", death)])), ("x-last-death-queue", "S", "work")]
    came = with_added(basic, deaths)
    letter = attrs.evolve(came.properties, expiration=None)

    assert "600000" == basic.properties.expiration
    for came_with, expected in ((letter, True), (attrs.evolve(letter, message_id="new"), False)):
        made = to_amqp10(attrs.evolve(came, properties=came_with, routing_key="q"))
        assert expected == (octets == made.message.encode())


def test_a_message_that_breaks_part_3_keeps_its_original_when_headers_are_sorted() -> None:
    application = encode_value(ApplicationProperties({"n": 1, "a": 2, "x-a": 3}))
    octets = b"\0\x53\x75\xa0\1a" + application  # the properties behind the body
    basic = to_basic(Message.decode(octets, strict=False)).message
    came = with_added(basic, [("x-delivery-count", "l", 1)])
    made = to_amqp10(attrs.evolve(came, routing_key="q", redelivered=True))

    assert octets == made.message.encode()
    assert ["headers['x-delivery-count']"] == [loss.path for loss in made.losses]


def test_the_order_of_properties_comes_back_with_any_residual() -> None:
    message = Message(b"x", application_properties={"z": 1, "u": ULong(1), "a": 2})
    came = to_amqp10(with_added(to_basic(message).message)).message

    assert message.encode() == came.encode()


BOTH = {"x-a": "property", "n": 1, "b": 2}


@pytest.mark.parametrize("key", ["x-a", "x-opt-x-a"])
def test_an_annotation_and_a_property_of_one_name_keep_their_values(key: str) -> None:
    message = Message(
        b"x", message_annotations={key: "annotation", "x-0": 1}, application_properties=BOTH
    )
    basic = with_added(to_basic(message).message)
    assert message == to_amqp10(basic).message

    changed = attrs.evolve(basic, properties=attrs.evolve(basic.properties, priority=7))
    assert message.evolve(header=Header(priority=7)) == to_amqp10(changed).message


FACTS_0_9_1: list[tuple[tuple[str, str, Any], ...]] = [
    (("x-stream-offset", "l", 7),),
    (("x-delivery-count", "l", 2),),
    (
        ("x-death", "A", FieldArray([{"count": 1, "reason": "rejected", "queue": "work"}])),
        ("x-first-death-exchange", "S", ""),
        ("x-first-death-queue", "S", "work"),
        ("x-last-death-reason", "S", "rejected"),
    ),
]


def delivered(message: Message, basic: BasicMessage) -> tuple[Message, Message]:
    """A message as its translation says, and what came of it, both without delivery details."""
    came = to_amqp10(attrs.evolve(basic, routing_key="q")).message
    rest = {
        key: value
        for key, value in (came.message_annotations or {}).items()
        if key not in ("x-exchange", "x-routing-key")
    }
    return message.evolve(header=None, message_annotations=message.message_annotations or None), (
        came.evolve(header=None, message_annotations=rest or None)
    )


@pytest.mark.parametrize("added", FACTS_0_9_1, ids=lambda added: added[0][0])
@given(messages())
def test_what_a_broker_adds_to_headers_does_not_come_back(
    added: tuple[tuple[str, str, Any], ...], message: Message
) -> None:
    basic = in_sequence(message)
    assume(carries(basic) or added[0][0] != "x-death")
    stream = added[0][0] == "x-stream-offset"
    expected, came = delivered(message, with_added(basic, added, stream=stream))

    assert expected == came
    assert (message.header or Header()).durable == (
        to_amqp10(with_added(basic, added)).message.header or Header()
    ).durable


@pytest.mark.parametrize("value", [b"", b"abc", "\0é".encode()])
def test_the_losses_say_what_a_stream_makes_text_of(value: bytes) -> None:
    message = Message(
        b"x",
        message_annotations={"x-opt-a": value, "x-opt-l": [1, {"k": value}], "x-opt-b": b"\xff"},
        application_properties={"p": value, "x-p": value, "q": b"\xff", "t": "text"},
    )
    made = to_basic(message, strict=True)

    assert {
        "application-properties['p']",
        "application-properties['x-p']",
        "message-annotations['x-opt-a']",
        "message-annotations['x-opt-l']",
    } == {loss.path for loss in made.losses if "stream" in loss.reason}
    assert message == to_amqp10(made.message).message


def test_headers_of_those_names_that_were_there_before_come_back() -> None:
    message = Message(
        b"x",
        message_annotations={"x-opt-x-first-death-queue": "mine", "x-opt-x-delivery-count": 9},
        properties=Properties(to="q"),
    )
    expected, came = delivered(message, with_added(to_basic(message).message))

    assert expected == came


def test_how_a_conformant_message_was_read_does_not_matter() -> None:
    octets = MESSAGE.encode()
    strict, lenient = Message.decode(octets), Message.decode(octets, strict=False)

    assert to_basic(strict) == to_basic(lenient)
    assert to_basic(Message.decode(Message(b"x").encode(), strict=False)).losses == ()


@given(messages())
def test_how_any_conformant_message_was_read_does_not_matter(message: Message) -> None:
    octets = message.encode()
    read = to_basic(Message.decode(octets, strict=False)).message

    assert octets_of(to_basic(Message.decode(octets)).message) == octets_of(read)


@pytest.mark.parametrize("count", [2, 3, 2**32 - 1])
def test_the_delivery_count_comes_back_through_a_broker(count: int) -> None:
    message = Message(b"x", header=Header(durable=True, delivery_count=count))
    made = to_basic(message)

    assert ["header"] == [loss.path for loss in made.losses]
    assert message == to_amqp10(made.message).message
    for redelivered in (False, True):
        came = attrs.evolve(made.message, routing_key="q", redelivered=redelivered)
        assert message.header == to_amqp10(came).message.header


def test_a_delivery_count_of_one_is_what_redelivered_says_and_no_more() -> None:
    """A redelivered 0-9-1 message becomes the same 1.0 message, so there is no residual."""
    message = Message(b"x", header=Header(durable=True, delivery_count=1))
    made = to_basic(message)

    assert [("header.delivery-count", "retyped")] == [
        (loss.path, loss.action) for loss in made.losses
    ]
    assert made.message.redelivered
    assert made.message.properties.headers is None
    assert message == to_amqp10(made.message).message


def test_a_redelivered_message_says_that_a_broker_sets_it_anew() -> None:
    made = to_amqp10(BasicMessage(redelivered=True))

    assert [("redelivered", "retyped")] == [(loss.path, loss.action) for loss in made.losses]
    assert to_basic(made.message).message.redelivered
