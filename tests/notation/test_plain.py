"""Plain JSON: readable, natural to write by hand, and an equal message when read back."""

from __future__ import annotations

import datetime
import json
import struct
import uuid
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from amqp10msg import (
    AmqpMap,
    AmqpSequence,
    AmqpValue,
    Array,
    Byte,
    Char,
    Data,
    Decimal32,
    Decimal64,
    Decimal128,
    Described,
    Float,
    Header,
    Int,
    Message,
    Properties,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    decode_value,
    encode_value,
)
from amqp10msg.delivery import Accepted, Error, Received, Rejected, Source
from amqp10msg.notation import from_plain, from_typed, to_plain, value_from_plain
from amqp10msg.testing import encodings, messages, values
from amqp10msg.wire.primitives import identical


def through_json(plain: Any) -> Any:
    return json.loads(json.dumps(plain, allow_nan=False))


def double(bits: str) -> float:
    return struct.unpack(">d", bytes.fromhex(bits))[0]  # type: ignore[no-any-return]


# Lists with wide sizes, in which many values take no bytes: no size says that they must be wide.
@example(decode_value(bytes.fromhex("e01401d00000000e00000001f0000000050000010041")))
@example(decode_value(bytes.fromhex("e01401d00000000e00000001f0000000050000010045")))
@given(values())
def test_values_come_back_bit_for_bit(value: Any) -> None:
    plain = to_plain(value)
    back = value_from_plain(through_json(plain))
    assert identical(decode_value(encode_value(value)), back)
    assert encode_value(value) == encode_value(back)
    assert plain == to_plain(back)


@given(st.data())
def test_messages_come_back(data: st.DataObject) -> None:
    message = data.draw(messages())
    decoded = Message.decode(
        data.draw(encodings(message)), message_format=data.draw(st.sampled_from([0, 1, 2**32 - 1]))
    )
    plain = to_plain(decoded)
    back = from_plain(through_json(plain))
    assert decoded == back
    assert plain == to_plain(back)


@given(messages())
def test_dashes_are_read_too(message: Message) -> None:
    def dashed(plain: Any) -> Any:
        return {
            name.replace("_", "-"): {key.replace("_", "-"): value for key, value in content.items()}
            if name in ("header", "properties")
            else content
            for name, content in plain.items()
        }

    assert message == from_plain(dashed(to_plain(message)))


VALUES: list[tuple[Any, Any]] = [
    (None, None),
    (True, True),
    (5, 5),
    (1.0, 1.0),
    ("é", "é"),
    ([1, [None]], [1, [None]]),
    ({"a": 1}, {"a": 1}),
    (UInt(5), {"$uint": 5}),
    (Byte(-5), {"$byte": -5}),
    (ULong(2**64 - 1), {"$ulong": 2**64 - 1}),
    (double("7ff8000000000000"), {"$double": "NaN"}),
    (double("fff8000000000001"), {"$double": "0xfff8000000000001"}),
    (float("inf"), {"$double": "Infinity"}),
    (float("-inf"), {"$double": "-Infinity"}),
    (Float(0.1), {"$float": 0.1}),
    (Float(16777216.0), {"$float": 16777216.0}),
    (Float(3.4028234663852886e38), {"$float": 3.4028235e38}),
    (Float.from_bits(0x7FC00000), {"$float": "NaN"}),
    (Float.from_bits(0x7FC00001), {"$float": "0x7fc00001"}),
    (Decimal32.from_decimal("1.50"), {"$decimal32": "1.50"}),
    (Decimal64.from_decimal("-0"), {"$decimal64": "-0"}),
    (Decimal64.from_decimal("sNaN12"), {"$decimal64": "sNaN12"}),
    # Not canonical: a significand of more than 34 digits means 0, and the bits are not those of 0.
    (Decimal128(0x6C << 120 | 1), {"$decimal128": f"0x{0x6C << 120 | 1:032x}"}),
    (Char("😀"), {"$char": "😀"}),
    (Timestamp(1709208000000), {"$timestamp": "2024-02-29T12:00:00.000Z"}),
    (Timestamp(-1), {"$timestamp": "1969-12-31T23:59:59.999Z"}),
    (Timestamp(2**63 - 1), {"$timestamp": 2**63 - 1}),
    (
        uuid.UUID("00112233-4455-6677-8899-aabbccddeeff"),
        {"$uuid": "00112233-4455-6677-8899-aabbccddeeff"},
    ),
    (b"", {"$binary": ""}),
    (b'{"a":\n1}', {"$binary": '{"a":\n1}'}),
    (b"\x00\x01\x02", {"$base64": "AAEC"}),
    (b"\xff", {"$base64": "/w=="}),
    (b"\x1b[31m", {"$base64": "G1szMW0="}),
    (Symbol("a"), {"$symbol": "a"}),
    ({Symbol("a"): 1}, {"$map": [[{"$symbol": "a"}, 1]]}),
    ({"$a": 1}, {"$map": [["$a", 1]]}),
    (
        AmqpMap([(UInt(1), "a"), (1, "b")]),
        {"$map": [[{"$uint": 1}, "a"], [1, "b"]]},
    ),
    (Array("int", [1, 2]), {"$array": "int", "values": [1, 2]}),
    (Array(0x71, [1, 2]), {"$array": "int", "code": "0x71", "values": [1, 2]}),
    (Array("symbol", ["a"]), {"$array": "symbol", "values": ["a"]}),
    (
        Array("string", ["x"], descriptors=[Symbol("d"), ULong(7)]),
        {
            "$array": "string",
            "descriptors": [{"$symbol": "d"}, {"$ulong": 7}],
            "values": ["x"],
        },
    ),
    (
        Array("array", [Array("boolean", [True])]),
        {"$array": "array", "values": [{"$array": "boolean", "values": [True]}]},
    ),
    (Described(Symbol("d"), []), {"$described": [{"$symbol": "d"}, []]}),
    (Accepted(), {"$accepted": {}}),
    (
        Rejected(error=Error("amqp:not-found", info={"k": UInt(1)})),
        {
            "$rejected": {
                "error": {"$error": {"condition": "amqp:not-found", "info": {"k": {"$uint": 1}}}}
            }
        },
    ),
    (
        Source(address="q", capabilities=("a", "b"), outcomes=("x",), default_outcome=Accepted()),
        {
            "$source": {
                "address": "q",
                "default_outcome": {"$accepted": {}},
                # One value of a field that may have several stands there without an array.
                "outcomes": "x",
                "capabilities": ["a", "b"],
            }
        },
    ),
    (Received(1, 2), {"$received": {"section_number": 1, "section_offset": 2}}),
    # No composite any more: a descriptor that is a symbol, a field too many, one of a wrong type.
    (
        Described(Symbol("amqp:accepted:list"), []),
        {"$described": [{"$symbol": "amqp:accepted:list"}, []]},
    ),
    (Described(ULong(0x24), [1]), {"$described": [{"$ulong": 0x24}, [1]]}),
    (Described(ULong(0x27), [None]), {"$described": [{"$ulong": 0x27}, [None]]}),
]


@pytest.mark.parametrize("value, plain", VALUES)
def test_the_form_of_each_type(value: Any, plain: Any) -> None:
    written = to_plain(value)
    assert plain == written
    assert json.dumps(plain) == json.dumps(written)
    assert encode_value(value) == encode_value(value_from_plain(through_json(plain)))


@pytest.mark.parametrize(
    "plain, value",
    [
        ({"$long": "9223372036854775807"}, 2**63 - 1),
        ({"$string": "x"}, "x"),
        ({"$boolean": True}, True),
        ({"$null": None}, None),
        ({"$double": 1}, 1.0),
        ({"$float": 0.1}, Float(0.1)),
        ({"$float": "-Infinity"}, Float(float("-inf"))),
        ({"$float": "0x3fc00000"}, Float(1.5)),
        ({"$double": "0x3ff8000000000000"}, 1.5),
        ({"$decimal64": 5}, Decimal64.from_decimal(5)),
        ({"$decimal32": "0x32000001"}, Decimal32(0x32000001)),
        ({"$timestamp": 0}, Timestamp(0)),
        ({"$timestamp": "2024-02-29T13:00+01:00"}, Timestamp(1709208000000)),
        ({"$hex": "00 ff"}, b"\x00\xff"),
        ({"$binary": {"$base64": "AA=="}}, b"\x00"),
        ({"$list": [1]}, [1]),
        ({"$map": {"a": 1}}, {"a": 1}),
        ({"$array": "ubyte"}, Array("ubyte", [])),
        ({"$array": "binary", "values": ["a", {"$hex": "ff"}]}, Array("binary", [b"a", b"\xff"])),
        ({"$array": "null", "values": [None]}, Array(0x40, [None])),
        ({"$delete-on-close": {}}, Described(ULong(0x2B), [])),
    ],
)
def test_what_is_read_beside_what_is_written(plain: Any, value: Any) -> None:
    assert encode_value(value) == encode_value(value_from_plain(plain))


def test_the_form_of_a_message() -> None:
    message = Message(
        "hello",
        header=Header(durable=True, priority=9, ttl=60000),
        delivery_annotations={"x-opt-a": UByte(1)},
        message_annotations={7: "v"},
        properties=Properties(
            message_id=5,
            user_id=b"guest",
            to="q",
            correlation_id=uuid.UUID(int=0),
            content_type="text/plain",
            absolute_expiry_time=2**62,
            creation_time=datetime.datetime(2024, 2, 29, 12, tzinfo=datetime.UTC),
            group_sequence=1,
        ),
        application_properties={"tenant": "x", "attempt": Int(3)},
        footer={},
        message_format=1,
    )
    plain = {
        "message_format": 1,
        "header": {"durable": True, "priority": 9, "ttl": 60000},
        "delivery_annotations": {"x-opt-a": {"$ubyte": 1}},
        "message_annotations": {"$map": [[{"$ulong": 7}, "v"]]},
        "properties": {
            "message_id": 5,
            "user_id": "guest",
            "to": "q",
            "correlation_id": {"$uuid": "00000000-0000-0000-0000-000000000000"},
            "content_type": "text/plain",
            "absolute_expiry_time": 2**62,
            "creation_time": "2024-02-29T12:00:00.000Z",
            "group_sequence": 1,
        },
        "application_properties": {"tenant": "x", "attempt": {"$int": 3}},
        "amqp_value": "hello",
        "footer": {},
    }
    assert list(plain.items()) == list(to_plain(message).items())
    assert message == from_plain(plain)
    assert {"data": "hello"} == to_plain(Message(b"hello"))
    assert {"data": {"$base64": "AA=="}} == to_plain(Message(b"\x00"))
    assert {"amqp_sequence": [1, "a"]} == to_plain(Message(AmqpSequence([1, "a"])))
    assert {} == to_plain(Message())
    assert Message() == from_plain({})


def test_what_is_on_the_wire_is_shown_defaults_too() -> None:
    decoded = Message.decode(bytes.fromhex("005370c005034250 0440"))
    assert {"header": {"durable": False, "priority": 4}} == to_plain(decoded)


@pytest.mark.parametrize(
    "plain, message",
    [
        ({"body": "hello"}, Message("hello")),
        ({"body": {"$binary": "hello"}}, Message(b"hello")),
        ({"body": {"$hex": "00"}}, Message(b"\x00")),
        ({"body": [1, {"$uint": 2}]}, Message(AmqpValue([1, UInt(2)]))),
        ({"body": {"a": 1}}, Message({"a": 1})),
        ({"body": None}, Message()),
        ({"amqp_value": None}, Message(AmqpValue(None))),
        ({"header": None, "data": ""}, Message(b"")),
        (
            {"footer": {"a": 1}, "data": "", "header": {}},
            Message(b"", header=Header(), footer={"a": 1}),
        ),
        ({"properties": {"message_id": {"$ulong": 5}}}, Message(properties=Properties(5))),
        (
            {"properties": {"user_id": {"$base64": "/w=="}, "creation_time": 5}},
            Message(properties=Properties(user_id=b"\xff", creation_time=5)),
        ),
        (
            {"message-annotations": {"x-opt-a": None}, "message-format": 3},
            Message(message_annotations={"x-opt-a": None}, message_format=3),
        ),
    ],
)
def test_messages_written_by_hand(plain: Any, message: Message) -> None:
    assert message == from_plain(plain)


IRREGULAR = [
    [["data", "00"], ["data", "6162"]],
    [["amqp-sequence", [["long", 1]]], ["amqp-sequence", []]],
    [["header", ["map", []]], ["data", ["null"]]],
    [["data", ["string", "x"]], ["amqp-sequence", ["binary", "61"]]],
    [["amqp-value", ["described", ["ulong", 0x24], ["list", []]]], ["header", []]],
    [["unknown", ["described", ["ulong", 0x79], ["map", []]]], ["unknown", ["string", "a"]]],
    [["header", [["null"]] * 5 + [["boolean", True]]]],
    [["header", [["ubyte", 5], ["uint", 0], ["long", 7], ["string", "x"], ["list", []]]]],
    [["properties", [["long", 1], ["string", "x"], ["symbol", "a"], ["map", []]]]],
    [["application-properties", [[["symbol", "a"], ["list", [["uint", 1]]]]]]],
    [["message-annotations", [[["string", "a"], ["long", 1]]]], ["footer", ["list", []]]],
]


@pytest.mark.parametrize("typed", IRREGULAR)
def test_messages_that_no_object_holds_come_back(typed: Any) -> None:
    message = from_typed(typed)
    plain = to_plain(message)
    assert ["sections"] == list(plain)
    back = from_plain(through_json(plain))
    assert message == back
    assert message.encode() == back.encode()
    assert message.violations == back.violations


def test_the_form_of_a_message_with_several_body_sections() -> None:
    message = Message([Data(b"\x00"), Data(b"ab")], header=Header(ttl=5))
    assert {
        "sections": [["header", {"ttl": 5}], ["data", {"$base64": "AA=="}], ["data", "ab"]]
    } == to_plain(message)
