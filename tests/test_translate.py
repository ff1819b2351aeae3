"""The lossless profile: exactly reversible, valid on both sides, edits win, nothing raises.

What the other profiles promise stands in test_translate_recorded and test_translate_profiles.
"""

from __future__ import annotations

import base64
import json
import math
import os
from collections.abc import Mapping, Sequence
from gzip import open as gzip_open
from pathlib import Path
from typing import Any
from unittest import mock

import attrs
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from amqp10msg import (
    AmqpSequence,
    AmqpValue,
    ApplicationProperties,
    Array,
    Data,
    Decimal32,
    Decimal64,
    Decimal128,
    DecodeError,
    Described,
    Float,
    Header,
    Int,
    Message,
    Properties,
    Symbol,
    UByte,
    UInt,
    ULong,
    encode_value,
    validate,
)
from amqp10msg.basic import (
    BasicMessage,
    BasicProperties,
    FieldArray,
    FieldTable,
    ScaledDecimal,
    decode_properties,
    encode_properties,
)
from amqp10msg.basic.rules import check_properties
from amqp10msg.testing import basic_messages, encodings, messages, simple_values
from amqp10msg.translate import TranslationError, to_amqp10, to_basic
from amqp10msg.translate.correspondence import to_amqp10_rows, to_basic_rows
from amqp10msg.translate.residual import NAME, pack, pack_text, unpack, unpack_text
from amqp10msg.translate.table import ROWS, Row
from bench.messages import GENERAL, GENERAL_VALUE


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


@given(basic_messages())
def test_a_0_9_1_message_comes_back_octet_for_octet(basic: BasicMessage) -> None:
    made = to_amqp10(basic)
    received = Message.decode(made.message.encode())

    assert octets_of(basic) == octets_of(to_basic(received).message)
    assert all(loss.recoverable for loss in made.losses)


@given(basic_messages())
def test_what_it_becomes_follows_part_3(basic: BasicMessage) -> None:
    assert [] == validate(to_amqp10(basic).message, profile="oasis")


@given(messages())
def test_a_1_0_message_comes_back_octet_for_octet(message: Message) -> None:
    octets = message.encode()
    made = to_basic(message)

    assert octets == to_amqp10(sent(made.message)).message.encode()
    assert all(loss.recoverable for loss in made.losses)


@given(messages())
def test_what_it_becomes_follows_0_9_1(message: Message) -> None:
    found = check_properties(to_basic(message).message.properties)

    assert [] == [finding for finding in found if finding.severity == "error"]


ODD_TEXTS = st.sampled_from(
    ["a", "urn:b", "ID:c", "text/plain", "amqp-1.0", "é", "\0", "", "z" * 256]
)
VALUES: st.SearchStrategy[Any] = st.one_of(simple_values(), ODD_TEXTS)
KEYS = st.sampled_from(
    [
        *("x-opt-a", "x-opt-x-b", "x-b", "x-opt-priority", "x-stream-filter-value", "x-exchange"),
        *("x-death", "x-opt-deaths", "b", "x-amqp-1.0-footer", "x-opt-app-id", "x-routing-key"),
        *("x-opt-type", "x-opt-delivery-mode", "x-opt-message-id", "x-opt-content-type", NAME),
    ]
)
ANNOTATIONS = st.none() | st.dictionaries(KEYS | st.integers(0, 3).map(ULong), VALUES, max_size=4)
IDS = ODD_TEXTS | st.uuids() | st.integers(0, 2**64 - 1) | st.binary(max_size=3)


def typical() -> st.SearchStrategy[Message]:
    """Messages of which most is usual, and some is not."""
    headers = st.builds(
        Header,
        durable=st.booleans(),
        priority=st.integers(0, 11),
        ttl=st.none() | st.integers(0, 2**32 - 1),
        first_acquirer=st.booleans(),
        delivery_count=st.integers(0, 2),
    )
    times = st.none() | st.integers(0, 2**40).map(lambda s: 1000 * s) | st.integers(-5, 2**62)
    texts = st.none() | ODD_TEXTS
    properties = st.builds(
        Properties,
        message_id=st.none() | IDS,
        user_id=st.none() | st.binary(max_size=3),
        to=texts,
        subject=texts,
        reply_to=texts,
        correlation_id=st.none() | IDS,
        content_type=texts.filter(lambda text: text is None or text.isascii()),
        content_encoding=texts.filter(lambda text: text is None or text.isascii()),
        absolute_expiry_time=times,
        creation_time=times,
        group_id=texts,
    )
    names = st.sampled_from([*"abcz", "x-a", "x-b", "CC", "é", "x-opt-a", "", "k" * 256, NAME])
    bodies = st.binary(max_size=3) | VALUES.map(AmqpValue) | st.just([Data(b"a"), Data(b"b")])
    return st.builds(
        Message,
        bodies | st.none() | st.just([AmqpSequence([1])]),
        header=st.none() | headers,
        delivery_annotations=st.none() | st.just({"x-opt-d": 1}),
        message_annotations=ANNOTATIONS,
        properties=st.none() | properties,
        application_properties=st.none() | st.dictionaries(names, VALUES, max_size=4),
        footer=st.none() | st.just({"x-opt-f": 1}),
        message_format=st.sampled_from([0, 0, 1]),
    ).map(lambda made: Message.decode(made.encode(), message_format=made.message_format))


@given(typical() | messages())
def test_what_is_certain_to_come_back_is_what_a_second_translation_finds(message: Message) -> None:
    with mock.patch("amqp10msg.translate._lossless._is_certain", return_value=False):
        expected = to_basic(message)

    found = to_basic(message)
    assert octets_of(expected.message) == octets_of(found.message)
    assert repr(expected.losses) == repr(found.losses)


@given(typical())
@example(Message(b"x", message_annotations={"x-stream-filter-value": UByte(0)}))
def test_a_typical_message_comes_back_octet_for_octet(message: Message) -> None:
    made = to_amqp10(sent(to_basic(message).message)).message

    assert (message.encode(), message.message_format) == (made.encode(), made.message_format)


def test_the_general_message_is_certain_to_come_back() -> None:
    with mock.patch("amqp10msg.translate._lossless._returns", side_effect=AssertionError):
        for octets in (GENERAL, GENERAL_VALUE):
            to_basic(Message.decode(octets))


@given(messages(), st.data())
def test_a_message_of_any_encoding_comes_back_octet_for_octet(message: Message, data: Any) -> None:
    octets = data.draw(encodings(message))
    made = to_basic(Message.decode(octets))

    assert octets == to_amqp10(sent(made.message)).message.encode()


@given(st.integers(0, 60), st.integers(0, 255), st.booleans())
def test_a_message_with_any_octet_changed_comes_back(place: int, octet: int, cut: bool) -> None:
    octets = to_amqp10(BasicMessage(TYPICAL, b"{}")).message.encode()
    changed = octets[:place] + (b"" if cut else bytes([octet])) + octets[place + 1 :]
    try:
        message = Message.decode(changed)
    except DecodeError:
        return
    assert changed == to_amqp10(sent(to_basic(message).message)).message.encode()


PLAIN_VALUES: dict[str, Any] = {
    "delivery_mode": st.integers(0, 255),
    "priority": st.integers(0, 255),
    "timestamp": st.integers(0, 2**64 - 1) | st.integers(0, 2 * 10**12),
    "expiration": st.integers(0, 10**12).map(str) | st.from_regex(r"[+-]?0?[0-9]{0,11}\Z"),
}
TEXTS: Any = st.text(max_size=8) | st.sampled_from(
    ["text/plain", "gzip", "urn:uuid:x", "ID:AMQP_ULONG:7", "urn:", "\0", "utf-8", "é"]
)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
@given(st.data())
def test_the_usual_form_of_a_value_is_what_its_row_says(row: Row, data: Any) -> None:
    value = data.draw(PLAIN_VALUES.get(row.name, TEXTS))
    for _ in range(2):  # the second time as a text that was met before
        message = to_amqp10(BasicMessage(BasicProperties(**{row.name: value}))).message
        place = row.forward(value, True)
        section = getattr(message, row.section) if row.section else None
        found = {
            "field": getattr(section, row.field, None),
            "annotation": dict(message.message_annotations or {}).get(row.annotation),
            "residual": None,
        }
        assert (place.value, type(place.value)) == (found[place.where], type(found[place.where]))
        mapped, exact = row.backward(place.value) if place.where == "field" else (value, False)
        if exact and place.exact:
            assert value == mapped == getattr(to_basic(message).message.properties, row.name)


@given(messages(), st.data())
def test_a_message_that_breaks_part_3_comes_back(message: Message, data: Any) -> None:
    sections = [encode_value(section) for _, section in message.sections()]
    octets = b"".join(data.draw(st.permutations(sections + sections[:1])))
    try:
        lenient = Message.decode(octets, strict=False)
    except DecodeError:
        return
    assert octets == to_amqp10(sent(to_basic(lenient).message)).message.encode()


TYPICAL = BasicProperties(
    content_type="application/json",
    headers={"tenant": "acme", "retries": 3, "x-delay": 5000},
    delivery_mode=2,
    correlation_id="c-1",
    reply_to="replies",
    expiration="60000",
    message_id="urn:uuid:58b867b0-8151-1f56-1bd4-73229807fd60",
    timestamp=1_700_000_000,
    type="order",
    user_id="guest",
    app_id="shop",
)


def test_a_typical_message_needs_no_residual() -> None:
    made = to_amqp10(BasicMessage(TYPICAL, b"{}"))

    assert NAME not in (made.message.message_annotations or {})
    assert () == made.losses
    back = to_basic(made.message)
    assert NAME not in (back.message.properties.headers or {})
    # Of the order alone, which a stream would change.
    assert ["reordered"] == [loss.action for loss in back.losses]


def test_fields_stand_where_they_are_looked_for() -> None:
    message = to_amqp10(BasicMessage(TYPICAL, b"{}")).message

    assert message.header == Header(durable=True, ttl=60_000)
    assert message.properties is not None
    assert "58b867b0-8151-1f56-1bd4-73229807fd60" == str(message.properties.message_id)
    assert ("c-1", "replies", b"guest", 1_700_000_000_000) == (
        message.properties.correlation_id,
        message.properties.reply_to,
        message.properties.user_id,
        message.properties.creation_time,
    )
    assert {"tenant": "acme", "retries": 3} == message.application_properties
    assert {
        "x-opt-basic-type": "order",
        "x-opt-basic-app-id": "shop",
        "x-opt-x-delay": 5000,
    } == message.message_annotations
    assert Data(b"{}") == message.body


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


def edited(message: Message) -> Message:
    assert message.properties is not None
    properties = attrs.evolve(message.properties, message_id="edited")
    application = {**(message.application_properties or {}), "b": "new", "added": True}
    return message.evolve(properties=properties, application_properties=application)


def test_an_edit_in_1_0_wins_and_the_rest_is_restored() -> None:
    received = Message.decode(to_amqp10(BasicMessage(ODD, b"{}")).message.encode())
    back = to_basic(Message.decode(edited(received).encode()))

    expected = [("x-a", "L", 5), ("b", "S", "new"), *ODD.headers.entries[2:]]  # type: ignore[union-attr]
    expected.append(("added", "t", True))
    properties = attrs.evolve(ODD, message_id="edited", headers=FieldTable.of(expected))
    assert encode_properties(properties) == encode_properties(back.message.properties)


def test_a_stale_original_is_reported() -> None:
    received = to_amqp10(BasicMessage(ODD)).message
    later = received.evolve(header=Header(ttl=8))
    back = to_basic(later)

    assert ("8", None) == (back.message.properties.expiration, back.message.properties.priority)
    assert {"properties.expiration", "properties.priority"} == {loss.path for loss in back.losses}


MESSAGE = Message(
    {"k": 1},
    header=Header(priority=100, first_acquirer=True),
    properties=Properties(message_id=b"\1", to="q", subject="s", creation_time=1_234_567),
    application_properties={"u": ULong(7), "s": "t", "x-y": 1},
    message_annotations={"x-opt-y": Symbol("z"), 5: 1},
    delivery_annotations={"x-opt-d": 1},
    footer={"x-f": 1},
)


def test_an_edit_in_0_9_1_wins_and_the_rest_is_restored() -> None:
    basic = sent(to_basic(MESSAGE).message)
    headers = basic.properties.headers
    assert isinstance(headers, FieldTable)
    entries = [("s", "S", "edited") if e[0] == "s" else e for e in headers.entries]
    properties = attrs.evolve(
        basic.properties, priority=3, timestamp=5, headers=FieldTable.of(entries)
    )
    back = to_amqp10(sent(attrs.evolve(basic, properties=properties))).message

    expected = MESSAGE.evolve(
        header=Header(priority=3, first_acquirer=True),
        properties=Properties(message_id=b"\1", to="q", subject="s", creation_time=5000),
        application_properties={"u": ULong(7), "s": "edited", "x-y": 1},
    )
    assert expected == back


def test_data_sections_keep_their_boundaries_while_the_body_has_its_length() -> None:
    message = Message([Data(b"ab"), Data(b""), Data(b"c")])
    basic = to_basic(message).message

    assert b"abc" == basic.body
    assert message == to_amqp10(basic).message
    assert Data(b"longer") == to_amqp10(attrs.evolve(basic, body=b"longer")).message.body


def test_an_edit_of_a_message_that_breaks_part_3_wins() -> None:
    octets = b"\0\x53\x75\xa0\1a\0\x53\x70\x45"  # the header behind the body
    basic = to_basic(Message.decode(octets, strict=False)).message
    changed = attrs.evolve(basic, properties=attrs.evolve(basic.properties, app_id="new"))
    made = to_amqp10(changed)

    assert made.message.message_annotations is not None
    assert "new" == made.message.message_annotations["x-opt-basic-app-id"]
    assert [""] == [loss.path for loss in made.losses]


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


def test_what_a_broker_added_is_reported() -> None:
    octets = rabbitmq_4_0(Message(b"x").encode(), {"x-delivery-count": 2, **DEATHS}, count=2)
    made = to_basic(Message.decode(octets))

    assert made.message.properties.headers is None
    assert {"dropped"} == {loss.action for loss in made.losses}
    assert ["header.delivery-count", "message-annotations['x-delivery-count']"] == sorted(
        loss.path for loss in made.losses if "delivery-count" in loss.path
    )
    with pytest.raises(TranslationError, match="would be lost"):
        to_basic(Message.decode(octets), strict=True)


def rabbitmq_0_9_1(
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
    return table is not None and NAME in table


def in_sequence(message: Message) -> BasicMessage:
    """The translation of a message, where a residual or the order of names keeps its order."""
    basic = to_basic(message).message
    table = basic.properties.headers
    names = [e[0].encode() for e in table.entries] if isinstance(table, FieldTable) else []
    assume(carries(basic) or names == sorted(names))
    return basic


@given(messages())
def test_sorted_headers_are_no_edit(message: Message) -> None:
    made = to_amqp10(rabbitmq_0_9_1(in_sequence(message)))

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
    assert octets == to_amqp10(rabbitmq_0_9_1(in_sequence(lenient))).message.encode()


def test_a_message_that_breaks_part_3_keeps_its_original_when_headers_are_sorted() -> None:
    application = encode_value(ApplicationProperties({"n": 1, "a": 2, "x-a": 3}))
    octets = b"\0\x53\x75\xa0\1a" + application  # the properties behind the body
    basic = to_basic(Message.decode(octets, strict=False)).message
    came = rabbitmq_0_9_1(basic, [("x-delivery-count", "l", 1)])
    made = to_amqp10(attrs.evolve(came, routing_key="q", redelivered=True))

    assert octets == made.message.encode()
    assert ["headers['x-delivery-count']"] == [loss.path for loss in made.losses]


def test_the_order_of_properties_comes_back_with_any_residual() -> None:
    message = Message(b"x", application_properties={"z": 1, "u": ULong(1), "a": 2})
    came = to_amqp10(rabbitmq_0_9_1(to_basic(message).message)).message

    assert message.encode() == came.encode()


BOTH = {"x-a": "property", "n": 1, "b": 2}


@pytest.mark.parametrize("key", ["x-a", "x-opt-x-a"])
def test_an_annotation_and_a_property_of_one_name_keep_their_values(key: str) -> None:
    message = Message(
        b"x", message_annotations={key: "annotation", "x-0": 1}, application_properties=BOTH
    )
    basic = rabbitmq_0_9_1(to_basic(message).message)
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
    expected, came = delivered(message, rabbitmq_0_9_1(basic, added, stream=stream))

    assert expected == came
    assert (message.header or Header()).durable == (
        to_amqp10(rabbitmq_0_9_1(basic, added)).message.header or Header()
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
    expected, came = delivered(message, rabbitmq_0_9_1(to_basic(message).message))

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


# What RabbitMQ accepts and then cannot deliver: consumers die of it, and the message stays.

NAN = float("nan")
POISON_HEADERS: list[tuple[str, str, Any]] = [
    ("x-retry", "V", None),
    *((name, "D", ScaledDecimal(2, 314)) for name in ("k", "x-k")),
    *((name, "d", NAN) for name in ("k", "x-k")),
    *((name, "f", Float(float("inf"))) for name in ("k", "x-k")),
    ("x-k", "A", FieldArray.of([("S", "a"), ("D", ScaledDecimal(0, 7))])),
    ("x-k", "A", FieldArray.of([("A", FieldArray([float("-inf")]))])),
    ("x-k", "F", FieldTable({"a": [{"b": NAN}]})),
    ("x-k", "F", FieldTable({"a": ScaledDecimal(1, 1)})),
    ("CC", "S", "q"),
    ("BCC", "I", 1),
    ("x-amqp-1.0-properties", "S", "text"),
    ("x-amqp-1.0-footer", "x", b"\xff"),
    ("x-stream-filter-value", "I", 5),
    ("x-stream-filter-value", "S", "k" * 4097),
]
POISON_MESSAGES: list[Message] = [
    *(
        Message(b"", message_annotations={"x-opt-x-k": value})
        for value in (None, NAN, Float(NAN), Decimal64.from_decimal("3.14"), [[NAN]], {"a": [NAN]})
    ),
    *(
        Message(b"", application_properties={"k": value, "a": 1})
        for value in (NAN, Float(NAN), Decimal32(0), Decimal64.from_decimal(1), Decimal128(0))
    ),
    *(
        Message(b"", application_properties={name: "text", "a": 1})
        for name in ("CC", "BCC", "x-amqp-1.0-app-properties", "x-amqp-1.0-message-annotations")
    ),
    Message(b"", application_properties={"x-k": None}),
    Message(b"", message_annotations={"x-amqp-1.0-properties": b"\xff"}),
    Message(b"", message_annotations={"x-stream-filter-value": 5}),
    Message(b"", message_annotations={"x-opt-x-stream-filter-value": b"b"}),
]


def undeliverable(value: Any) -> bool:
    """Whether RabbitMQ 4.0 fails on a value, wherever it stands."""
    if isinstance(value, (FieldTable, FieldArray)):
        return any(undeliverable(entry[-1]) for entry in value.entries)
    if isinstance(value, dict):
        return any(map(undeliverable, value.values()))
    if isinstance(value, (list, tuple)):
        return any(map(undeliverable, value))
    if isinstance(value, (float, Float)):
        return not math.isfinite(value)
    return isinstance(value, (Decimal32, Decimal64, Decimal128, ScaledDecimal))


def poison(message: Message) -> list[Any]:
    """What a 1.0 message has that RabbitMQ cannot deliver to consumers of 1.0 or of 0-9-1."""
    annotations: dict[Any, Any] = message.message_annotations or {}
    application: dict[str, Any] = message.application_properties or {}
    found = [
        key
        for section in (annotations, application)
        for key, value in section.items()
        if undeliverable(value)
    ]
    found += [key for key, value in annotations.items() if value is None]
    return found + [key for key in application if key in {"CC", "BCC"}]


def basic_poison(basic: BasicMessage) -> list[str]:
    """The headers of a 0-9-1 message that RabbitMQ refuses or cannot deliver."""
    table = basic.properties.headers
    assert table is None or isinstance(table, FieldTable)
    return [
        name
        for name, letter, value in (table.entries if table is not None else ())
        if undeliverable(value)
        or (letter == "V" and name.startswith("x-"))
        or name.startswith("x-amqp-1.0-")
        or name in {"CC", "BCC"}
        or (name == "x-stream-filter-value" and not isinstance(value, str))
    ]


@given(basic_messages())
def test_a_broker_can_deliver_what_0_9_1_becomes(basic: BasicMessage) -> None:
    assert [] == poison(to_amqp10(basic).message)


@given(messages())
def test_a_broker_can_deliver_what_1_0_becomes(message: Message) -> None:
    assert [] == basic_poison(to_basic(message).message)


@pytest.mark.parametrize("name, letter, value", POISON_HEADERS)
def test_an_undeliverable_header_is_carried(name: str, letter: str, value: Any) -> None:
    table = FieldTable.of([("a", "I", 1), (name, letter, value), ("z", "S", "z")])
    basic = BasicMessage(BasicProperties(headers=table), b"x")
    made = to_amqp10(basic)
    annotations: dict[Any, Any] = made.message.message_annotations or {}

    assert [] == poison(made.message)
    assert {NAME} == set(annotations)
    assert {"a": 1, "z": "z"} == made.message.application_properties
    assert [(f"headers[{name!r}]", "carried")] == [(loss.path, loss.action) for loss in made.losses]
    back = to_basic(Message.decode(made.message.encode())).message
    assert octets_of(basic) == octets_of(back)


@pytest.mark.parametrize("message", POISON_MESSAGES, ids=lambda message: repr(message)[8:70])
def test_an_undeliverable_value_is_carried(message: Message) -> None:
    made = to_basic(message)

    assert [] == basic_poison(made.message)
    assert ["carried"] == [loss.action for loss in made.losses]
    assert message.encode() == to_amqp10(sent(made.message)).message.encode()


@pytest.mark.parametrize(
    "body",
    [
        [Array("int", [Int(1)])],
        Array(0x54, [1]),
        Array("decimal64", [Decimal64.from_decimal(1)]),
        Array("null", [None]),
        {"k": NAN},
        [Decimal32(0)],
        {Decimal32(0): None},
        Described(Symbol("d"), [1]),
        [Described(ULong(7), "v")],
    ],
    ids=repr,
)
def test_an_undeliverable_body_is_not_marked_as_sections(body: Any) -> None:
    message = Message(AmqpValue(body), properties=Properties(message_id="m"))
    basic = sent(to_basic(message).message)

    assert basic.properties.type is None
    assert message.encode().endswith(basic.body)
    assert message.encode() == to_amqp10(basic).message.encode()
    changed = attrs.evolve(basic, properties=attrs.evolve(basic.properties, message_id="new"))
    assert message.evolve(properties=Properties(message_id="new")) == to_amqp10(changed).message


def test_an_undeliverable_property_that_is_added_in_1_0_is_carried_too() -> None:
    received = Message.decode(to_amqp10(BasicMessage(ODD, b"{}")).message.encode())
    application = {**(received.application_properties or {}), "n": Decimal64.from_decimal("1.5")}
    changed = Message.decode(received.evolve(application_properties=application).encode())
    basic = sent(to_basic(changed).message)

    assert [] == [name for name in basic_poison(basic) if name != "c"]
    again = to_amqp10(basic).message.application_properties
    assert again is not None
    assert application["n"] == again["n"]


@pytest.mark.parametrize("message", [MESSAGE, Message(b"", properties=Properties(to="q"))])
def test_an_undeliverable_header_that_is_added_in_0_9_1_is_carried_too(message: Message) -> None:
    basic = sent(to_basic(message).message)
    headers = basic.properties.headers
    assert isinstance(headers, FieldTable)
    entries = [("n", "D", ScaledDecimal(2, 314)), *headers.entries]
    properties = attrs.evolve(basic.properties, headers=FieldTable.of(entries))
    made = to_amqp10(sent(attrs.evolve(basic, properties=properties)))

    assert [] == poison(made.message)
    assert ["headers['n']"] == [loss.path for loss in made.losses]
    again = to_basic(Message.decode(made.message.encode())).message.properties.headers
    assert isinstance(again, FieldTable)
    assert ("n", "D", ScaledDecimal(2, 314)) in again.entries


# The residual.


def damaged() -> list[Any]:
    good = pack({14: b"x"})
    return [
        b"",
        b"\x83",
        good[:-1],
        good + b"\0",
        good[:3] + b"\xff" + good[4:],
        b"\x83\x02" + good[2:],
        pack({14: b"x"}).replace(b"x", b"y"),
        "text",
        5,
    ]


@pytest.mark.parametrize("value", damaged())
def test_a_damaged_residual_in_1_0_is_reported_and_kept(value: Any) -> None:
    message = Message(b"", message_annotations={NAME: value})
    made = to_basic(message)

    assert f"message-annotations[{NAME!r}]" in {loss.path for loss in made.losses}
    assert message.encode() == to_amqp10(sent(made.message)).message.encode()


@pytest.mark.parametrize(
    "letter, value",
    [
        ("S", ""),
        ("S", "!!!!"),
        ("S", "é"),
        ("S", pack_text({0x78: b"\0\x53\x78\xc1\1\0"})[:-4]),
        ("S", pack_text({0x79: b""})),
        ("S", pack_text({0x70: 5})),
        ("S", pack_text({0x73: b"\0\x53\x73\xff"})),
        ("S", pack_text({0: b"\xff"})),
        ("S", pack_text({0x75: [b"junk"]})),
        ("x", b"\x83\1\xa0\0"),
        ("I", 5),
    ],
)
def test_a_damaged_residual_in_0_9_1_is_reported_and_kept(letter: str, value: Any) -> None:
    properties = BasicProperties(headers=FieldTable.of([("a", "I", 1), (NAME, letter, value)]))
    basic = BasicMessage(properties, b"x")
    made = to_amqp10(basic)

    assert f"headers[{NAME!r}]" in {loss.path for loss in made.losses}
    assert [] == validate(made.message)
    assert octets_of(basic) == octets_of(to_basic(Message.decode(made.message.encode())).message)


@given(st.binary(max_size=40))
def test_any_octets_as_a_residual(octets: bytes) -> None:
    text = base64.b64encode(octets).decode()
    to_basic(Message(b"", message_annotations={NAME: octets}))
    to_amqp10(BasicMessage(BasicProperties(headers={NAME: text})))


_RESIDUALS = st.dictionaries(
    st.integers(0, 30) | st.sampled_from([0x70, 0x72, 0x73, 0x74, 0x75, 0x78, 0x173, 0x174]),
    st.recursive(
        st.binary(max_size=8) | st.integers(0, 2**64 - 1) | st.text(max_size=3) | st.none(),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.integers(0, 15) | st.text(max_size=3), inner, max_size=3)
        ),
        max_leaves=4,
    ),
    max_size=4,
)


@given(_RESIDUALS)
def test_a_forged_residual_raises_nothing(content: dict[int, Any]) -> None:
    message = Message(b"abc", message_annotations={NAME: pack(content)})
    to_basic(message)
    basic = BasicMessage(BasicProperties(headers={NAME: pack_text(content)}), b"abc")
    validated = to_amqp10(basic).message

    Message.decode(validated.encode(), strict=False)


@given(_RESIDUALS)
def test_a_residual_comes_back(content: dict[int, Any]) -> None:
    assert content == unpack(pack(content))
    assert content == unpack_text(pack_text(content))


@given(_RESIDUALS)
def test_the_residual_is_deterministic_cbor(content: dict[int, Any]) -> None:
    cbor2 = pytest.importorskip("cbor2")
    octets = pack(content)

    assert octets == cbor2.dumps(cbor2.loads(octets), canonical=True) or _unsorted(content)
    assert content == cbor2.loads(octets)[1]


def _unsorted(content: Any) -> bool:
    """Whether RFC 7049's order, which cbor2 calls canonical, is another: shorter keys first."""
    if isinstance(content, dict):
        return True
    return isinstance(content, list) and any(map(_unsorted, content))


# Depth, and the tables of the documentation.


@pytest.mark.parametrize("depth", [64, 65, 254])
@pytest.mark.parametrize("name", ["k", "x-k"])
def test_deep_tables_come_back(depth: int, name: str) -> None:
    table = FieldTable({"a": 1})
    for _ in range(depth - 2):
        table = FieldTable.of([("t", "F", table)])
    basic = sent(BasicMessage(BasicProperties(headers=FieldTable.of([(name, "F", table)]))))
    received = Message.decode(to_amqp10(basic).message.encode())

    assert octets_of(basic) == octets_of(to_basic(received).message)


@pytest.mark.parametrize("depth", [64, 65, 254])
def test_deep_values_come_back(depth: int) -> None:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    for message in (Message(value), Message(b"", message_annotations={"x-opt-k": value})):
        octets = message.encode()
        assert octets == to_amqp10(sent(to_basic(message).message)).message.encode()


def test_the_lossless_tables_lose_and_refuse_nothing() -> None:
    rows = to_amqp10_rows("lossless") + to_basic_rows("lossless")

    assert len(rows) > 60
    assert {"-", "refused"} & {row.becomes for row in rows} == set()


def test_the_tables_say_what_brokers_do() -> None:
    rows = {row.place: row.becomes for row in to_amqp10_rows("rabbitmq-4.3")}

    assert "`properties.group-id` `'a'`" == rows["app-id `a`"]
    assert ("-", "refused") == (rows["cluster-id `c`"], rows["header `D`"])


# Arguments.


def test_strict_refuses_what_is_lost_for_good() -> None:
    basic = BasicMessage(BasicProperties(cluster_id="c"))
    assert to_amqp10(basic, strict=True).message.encode()
    with pytest.raises(TranslationError, match="would be lost"):
        to_amqp10(basic, "rabbitmq-4.3", strict=True)
    with pytest.raises(TranslationError) as caught:
        to_basic(Message(b"", properties=Properties(subject="s")), "rabbitmq-4.3", strict=True)
    assert "properties.subject" == caught.value.path


def test_an_unknown_profile() -> None:
    with pytest.raises(ValueError, match="rabbitmq-9"):
        to_amqp10(BasicMessage(), "rabbitmq-9")  # type: ignore[arg-type]


# What other projects test with.

FOLDER = os.environ.get("AMQP10MSG_VECTORS")


@pytest.mark.skipif(
    FOLDER is None, reason="AMQP10MSG_VECTORS names no folder with cases of other projects"
)
def test_messages_of_other_projects_come_back() -> None:
    seen = 0
    with gzip_open(Path(FOLDER or "") / "cases.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            case = json.loads(line)
            octets = bytes.fromhex(case["hex"])
            if case["kind"] in {"message", "fuzz"} or "10-to" in case.get("sub", ""):
                try:
                    message = Message.decode(octets, strict=False)
                except DecodeError:
                    continue
                back = to_amqp10(sent(to_basic(message).message)).message.encode()
                assert octets == back, case["id"]
            elif case["kind"] in {"basic-properties", "field-table"}:
                raw = b"\x20\0" + octets if case["kind"] == "field-table" else octets
                try:
                    basic = BasicMessage(decode_properties(raw), b"x")
                except DecodeError:
                    continue
                received = Message.decode(to_amqp10(basic).message.encode())
                assert raw == encode_properties(to_basic(received).message.properties), case["id"]
            else:
                continue
            seen += 1
    assert seen > 300


def test_a_ulong_id_is_reported() -> None:
    """RabbitMQ 3.10 takes it, and the consumer of 0-9-1 dies of it."""
    basic = BasicMessage(BasicProperties(message_id="ID:AMQP_ULONG:5"))
    made = to_amqp10(basic)

    assert [("properties.message-id", "retyped", True)] == [
        (loss.path, loss.action, loss.recoverable) for loss in made.losses
    ]
    assert basic == to_basic(made.message).message


@pytest.mark.parametrize("key", ["x-basic-priority", "x-basic-foo", "x-death", "x-exchange"])
def test_annotations_that_rabbitmq_keeps_from_consumers_are_carried(key: str) -> None:
    """A header of such a name does not come out of a stream."""
    message = Message(b"", message_annotations={Symbol(key): "v"})
    basic = to_basic(message).message

    assert basic.properties.headers is not None
    assert [NAME] == list(basic.properties.headers)
    assert message.encode() == to_amqp10(basic).message.encode()
