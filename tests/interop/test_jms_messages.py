"""JMS messages: the mapping of OASIS both ways, and the bodies of Qpid's older clients."""

from __future__ import annotations

import contextlib
import datetime
import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg import (
    AmqpSequence,
    AmqpValue,
    Byte,
    Char,
    ContentError,
    Data,
    EncodeError,
    Float,
    Header,
    Int,
    Message,
    Properties,
    Short,
    UByte,
    UInt,
    ULong,
    validate,
)
from amqp10msg.interop.jms import Destination, JmsMessage, from_jms, message_type, to_jms
from amqp10msg.interop.jms.typed import read_map, read_stream, write_map, write_stream
from amqp10msg.testing import messages
from amqp10msg.wire.primitives import identical

UTC = datetime.UTC
VECTORS = Path(__file__).parents[1] / "vectors"
SERIALIZED = "application/x-java-serialized-object"
texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"))
names = st.text("abcXYZ_$1", min_size=1)
values: st.SearchStrategy[Any] = (
    st.none()
    | st.booleans()
    | texts
    | st.binary()
    | st.integers(-(2**63), 2**63 - 1)
    | st.integers(-128, 127).map(Byte)
    | st.integers(-(2**15), 2**15 - 1).map(Short)
    | st.integers(-(2**31), 2**31 - 1).map(Int)
    | st.floats(allow_nan=False)
    | st.integers(0, 2**32 - 1).map(Float.from_bits).filter(lambda number: not math.isnan(number))
    | st.characters(codec="utf-8", max_codepoint=0xFFFF).map(Char)
)
maps = st.dictionaries(names, values, max_size=4)
streams = st.lists(values, max_size=4)
destinations = st.none() | st.builds(
    Destination,
    names,
    st.sampled_from(["queue", "topic", "temporary-queue", "temporary-topic"]),
)


@st.composite
def jms_messages(draw: st.DrawFn) -> JmsMessage:
    kind, body = draw(
        st.sampled_from(
            [
                ("message", st.none()),
                ("object", st.binary()),
                ("object", st.integers(-5, 5).map(Int) | maps),
                ("map", maps),
                ("bytes", st.binary()),
                ("stream", streams),
                ("text", st.none() | st.text(st.characters(codec="utf-8"))),
            ]
        )
    )
    maybe = st.none() | names
    return JmsMessage(
        type=kind,
        body=draw(body),
        message_id=draw(st.none() | names.map("ID:".__add__)),
        correlation_id=draw(maybe),
        destination=draw(destinations),
        reply_to=draw(destinations),
        persistent=draw(st.booleans()),
        priority=draw(st.integers(0, 9)),
        expiration=draw(st.integers(0, 2**40)),
        timestamp=draw(st.integers(0, 2**40)),
        jms_type=draw(maybe),
        delivery_count=draw(st.integers(1, 9)),
        user_id=draw(maybe),
        group_id=draw(maybe),
        group_sequence=draw(st.none() | st.integers(-(2**31), 2**31 - 1)),
        reply_to_group_id=draw(maybe),
        properties=draw(st.dictionaries(names, values.filter(lambda v: v is not None), max_size=3)),
    )


@given(jms_messages())
def test_jms_message_round_trips(jms: JmsMessage) -> None:
    received = Message.decode(from_jms(jms).encode())

    assert [] == validate(received)
    assert jms.type == message_type(received)
    found = to_jms(received)
    assert jms == found
    assert identical(jms.body, found.body)


@given(messages())
def test_any_message_is_shown_as_jms(message: Message) -> None:
    with contextlib.suppress(ContentError, UnicodeDecodeError):
        jms = to_jms(message)
        assert jms.type == message_type(message)
        assert 0 <= jms.priority <= 9


def marked(body: Any, number: int, **given_: Any) -> Message:
    return Message(body, message_annotations={"x-opt-jms-msg-type": Byte(number)}, **given_)


@pytest.mark.parametrize(
    "message, kind",
    [
        (marked(None, 0), "message"),
        (marked(AmqpValue({"a": 1}), 2), "map"),
        (marked(AmqpSequence([1]), 4), "stream"),
        (marked(Data(b"x"), 5), "text"),
        (marked(Data(b"x"), 1), "object"),
        # Senders that know no JMS.
        (Message("x"), "text"),
        (Message(AmqpValue(None)), "text"),
        (Message(AmqpValue(b"x")), "bytes"),
        (Message({"a": 1}), "object"),
        (Message(AmqpSequence([1])), "object"),
        (Message(b"x"), "bytes"),
        (Message(b"x", properties=Properties(content_type="application/json")), "text"),
        (Message(b"x", properties=Properties(content_type="image/png")), "bytes"),
        (
            Message(
                b"x", properties=Properties(content_type="application/x-java-serialized-object")
            ),
            "object",
        ),
        # Without a body: AmqpCodec of Qpid JMS.
        (Message(), "bytes"),
        (Message(properties=Properties(content_type="application/octet-stream")), "bytes"),
        (Message(properties=Properties(content_type="text/plain")), "text"),
        (Message(properties=Properties(content_type="application/json")), "text"),
        (Message(properties=Properties(content_type="image/png")), "message"),
        (Message(properties=Properties(content_type=SERIALIZED)), "object"),
    ],
)
def test_types(message: Message, kind: str) -> None:
    assert kind == message_type(message)


@pytest.mark.parametrize(
    "message, problem",
    [
        (marked(AmqpValue("x"), 2), "is 2, a map message, but the body is AmqpValue of str"),
        (marked(Data(b"x"), 4), "is 4, a stream message, but the body is Data"),
        (marked(AmqpValue(5), 5), "is 5, a text message, but the body is AmqpValue of int"),
        (
            marked(Data(b"x"), 6),
            "must be a byte from 0 to 5 (message, object, map, ",
        ),
        (marked(None, -1), "stream, text), not Byte(-1)"),
        (Message(message_annotations={"x-opt-jms-msg-type": "2"}), "stream, text), not '2'"),
        (Message(message_annotations={"x-opt-jms-msg-type": True}), "stream, text), not True"),
    ],
)
def test_invalid_type_annotation_is_reported(message: Message, problem: str) -> None:
    for read in (message_type, to_jms):
        with pytest.raises(ContentError, match=re.escape(problem)):
            read(message)


def test_types_of_messages_that_activemq_converts_from_openwire() -> None:
    """ActiveMQ annotates the destination of such messages, and not their type."""
    lines = (VECTORS / "activemq_jms.jsonl").read_text(encoding="utf-8").splitlines()
    recorded = [json.loads(line) for line in lines]
    assert {"bytes", "map", "message", "object", "stream", "text"} == {r["type"] for r in recorded}

    for row in recorded:
        message = Message.decode(bytes.fromhex(row["raw"]))
        assert row["type"] == to_jms(message).type


def test_the_fields_of_a_foreign_message() -> None:
    message = Message(
        "x",
        header=Header(priority=200, ttl=1_000, delivery_count=2),
        properties=Properties(
            message_id=ULong(7), to="t", reply_to="r", user_id=b"u", group_sequence=2**32 - 1
        ),
        message_annotations={"x-opt-to-type": "topic,temporary", "x-opt-jms-reply-to": UByte(1)},
    )
    jms = to_jms(message, arrival=5_000)

    assert ("ID:AMQP_ULONG:7", 9, 6_000) == (jms.message_id, jms.priority, jms.expiration)
    assert Destination("t", "temporary-topic") == jms.destination
    assert Destination("r", "topic") == jms.reply_to
    assert (-1, 3, "u", False) == (
        *(jms.group_sequence, jms.delivery_count, jms.user_id),
        jms.persistent,
    )
    assert 0 == to_jms(message).expiration


@pytest.mark.parametrize(
    "jms, path",
    [
        (JmsMessage(type="map", body={"a": [1]}), "body['a']"),
        (JmsMessage(type="map", body={"": 1}), "body"),
        (JmsMessage(type="stream", body=[1, UInt(1)]), "body[1]"),
        (JmsMessage(type="stream", body=[Char("\U0001f600")]), "body[0]"),
        (JmsMessage(type="text", body=b"x"), "body"),
        (JmsMessage(type="bytes", body="x"), "body"),
        (JmsMessage(type="message", body="x"), "body"),
    ],
)
def test_values_without_a_jms_type(jms: JmsMessage, path: str) -> None:
    with pytest.raises(EncodeError) as caught:
        from_jms(jms)
    assert path == caught.value.path


# Bodies of Qpid's older clients.


@given(streams, maps)
def test_typed_bodies_round_trip(stream: list[Any], mapping: dict[str, Any]) -> None:
    assert identical(stream, read_stream(write_stream(stream)))
    assert identical(mapping, read_map(write_map(mapping)))


def test_typed_bodies_are_written_as_qpid_writes_them() -> None:
    assert bytes.fromhex("0a6100 06 0000002b 0b 03 00000001ff 01 01 05 0061") == write_stream(
        ["a", Int(43), None, b"\xff", True, Char("a")]
    )
    assert bytes.fromhex("00000001 6b00 07 0000000000000001") == write_map({"k": 1})
    assert [None] == read_stream(bytes.fromhex("03 ffffffff"))
    assert {} == read_map(b"")


@given(st.binary())
def test_any_bytes_are_read_or_refused(octets: bytes) -> None:
    for read in (read_map, read_stream):
        with contextlib.suppress(ContentError):
            read(octets)


@pytest.mark.parametrize(
    "octets, text",
    [
        ("0a61", "without a terminating zero byte"),
        ("06 0000", "4 bytes expected"),
        ("03 fffffff0", "bytes expected"),
        ("0c", "unknown type 12"),
        ("05 d800", "half of a surrogate pair"),
        ("0a ff00", "utf-8"),
    ],
)
def test_invalid_jms_stream(octets: str, text: str) -> None:
    with pytest.raises(ContentError, match=text):
        read_stream(bytes.fromhex(octets))
    with pytest.raises(ContentError, match="3 trailing bytes"):
        read_map(b"\0\0\0\0abc")


def test_content_type_that_is_not_a_symbol_is_ignored() -> None:
    """As a lenient decoding leaves it."""
    for body, kind in ((Data(b"{}"), "bytes"), (None, "message")):
        octets = bytes.fromhex("005373c009074040404040405205") + Message(body).encode()
        assert kind == message_type(Message.decode(octets, strict=False))


@given(messages(), values | st.dictionaries(names, values), st.datetimes(timezones=st.just(UTC)))
def test_what_was_assigned_is_shown_as_it_is_encoded(
    message: Message, body: Any, moment: datetime.datetime
) -> None:
    built = message.evolve(
        body=body, properties=Properties(creation_time=moment, absolute_expiry_time=moment)
    )
    message.body = body
    message.properties = Properties()
    message.properties.creation_time = moment  # type: ignore[assignment]
    message.properties.absolute_expiry_time = moment  # type: ignore[assignment]

    assert message_type(built) == message_type(message)
    with contextlib.suppress(ContentError):
        expected = to_jms(built)
        made = to_jms(message)
        assert repr(expected) == repr(made)
