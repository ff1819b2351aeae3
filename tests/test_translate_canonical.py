"""What tells whether a message stands on the wire as it would be written: right or not sure."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg import (
    AmqpValue,
    Data,
    Float,
    Header,
    Int,
    Message,
    Properties,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    _core,
)
from amqp10msg.testing import encodings, messages
from amqp10msg.translate._canonical import Comparison, is_canonical

USUAL = Message(
    Data(b"hello"),
    header=Header(durable=True, ttl=60_000, delivery_count=3),
    message_annotations={"x-opt-a": "text", "x-opt-b": Int(5000), "x-opt-c": Symbol("s")},
    properties=Properties(
        message_id="m-1",
        user_id=b"guest",
        reply_to="q",
        correlation_id="c",
        content_type="application/json",
        creation_time=1_700_000_000_000,
        group_sequence=7,
    ),
    application_properties={
        "text": "acme",
        "int": Int(3),
        "flag": True,
        "off": False,
        "double": 12.5,
        "nan": float("nan"),
        "long": 2**40,
        "small": -128,
        "uint": UInt(256),
        "zero": UInt(0),
        "one": UInt(1),
        "negative": Int(-2_000_000),
        "octets": b"\xff",
    },
)


def decoded(message: Message) -> Message:
    return Message.decode(message.encode())


def test_a_usual_message_is_known() -> None:
    wire = USUAL.encode()

    assert Comparison(wire).message(decoded(USUAL))
    assert is_canonical(decoded(USUAL), wire)


@pytest.mark.parametrize(
    "message",
    [
        Message(b""),
        Message(b"x" * 255),
        Message(b"x" * 256),
        Message(b"", header=Header(priority=9, first_acquirer=True)),
        Message(b"", application_properties={}),
        Message(b"", application_properties={f"k{n}": "v" * 40 for n in range(6)}),
        Message(b"", application_properties={f"k{n:03}": True for n in range(128)}),
        Message(b"", properties=Properties(reply_to_group_id="g" * 255)),
    ],
)
def test_other_usual_messages(message: Message) -> None:
    assert Comparison(message.encode()).message(decoded(message))


@given(st.integers(0, len(USUAL.encode()) - 1), st.integers(0, 255), st.booleans())
def test_other_octets_are_not_the_message(place: int, octet: int, cut: bool) -> None:
    wire = USUAL.encode()
    changed = wire[:place] if cut else wire[:place] + bytes([octet]) + wire[place + 1 :]

    assert (changed == wire) is Comparison(changed).message(decoded(USUAL))
    assert (changed == wire) is is_canonical(decoded(USUAL), changed)


@given(messages(), st.data())
def test_what_is_said_to_be_written_so_is(message: Message, data: Any) -> None:
    wire = data.draw(encodings(message)) if data.draw(st.booleans()) else message.encode()
    found = Message.decode(wire)

    if Comparison(wire).message(found):
        assert wire == _core.write_message(found)
    assert (wire == _core.write_message(found)) is is_canonical(found, wire)


@pytest.mark.parametrize(
    "changes",
    [
        {"header": Header(durable=True, ttl=60_001, delivery_count=3)},
        {"header": Header(durable=True, ttl=60_000, delivery_count=3, priority=UByte(4))},
        {"header": None},
        {"footer": {"x-opt-k": 1}},
        {"delivery_annotations": {}},
        {"body": AmqpValue("hello")},
        {"body": Data(bytearray(b"hello"))},
        {"body": b"hellp"},
        {"application_properties": {"text": "acme"}},
        {"message_annotations": {"x-opt-a": "text", "x-opt-b": 5000, "x-opt-c": Symbol("s")}},
        {"application_properties": {**(USUAL.application_properties or {}), "double": Float(12.5)}},
        {"properties": Properties(message_id="m-2")},
        {"properties": Properties(creation_time=Timestamp(1))},
    ],
)
def test_an_edited_message_is_another(changes: dict[str, Any]) -> None:
    edited = decoded(USUAL).evolve(**changes)
    wire = USUAL.encode()

    # Octets in a bytearray are the same octets, but of a kind that only writing knows.
    assert not Comparison(wire).message(edited)
    assert (_core.write_message(edited) == wire) is is_canonical(edited, wire)
