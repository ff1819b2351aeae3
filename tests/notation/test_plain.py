"""Plain JSON: readable, easy to write by hand, and equal after a round trip."""

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
    DecodeError,
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
from amqp10msg.notation import (
    from_plain,
    from_typed,
    to_plain,
    value_from_plain,
)
from amqp10msg.testing import encodings, messages, mutated, values
from amqp10msg.wire.primitives import identical


def through_json(plain: Any) -> Any:
    return json.loads(json.dumps(plain, allow_nan=False))


def double(bits: str) -> float:
    return struct.unpack(">d", bytes.fromhex(bits))[0]  # type: ignore[no-any-return]


# Lists with wide sizes, in which many values take no bytes: no size says that they must be wide.
@example(decode_value(bytes.fromhex("e01401d00000000e00000001f0000000050000010041")))
@example(decode_value(bytes.fromhex("e01401d00000000e00000001f0000000050000010045")))
@given(values())
def test_values_round_trip_bit_for_bit(value: Any) -> None:
    plain = to_plain(value)
    back = value_from_plain(through_json(plain))
    assert identical(decode_value(encode_value(value)), back)
    assert encode_value(value) == encode_value(back)
    assert plain == to_plain(back)


@given(st.data())
def test_messages_round_trip(data: st.DataObject) -> None:
    message = data.draw(messages())
    decoded = Message.decode(
        data.draw(encodings(message)), message_format=data.draw(st.sampled_from([0, 1, 2**32 - 1]))
    )
    plain = to_plain(decoded)
    back = from_plain(through_json(plain))
    assert decoded == back
    assert plain == to_plain(back)


@given(messages())
def test_names_with_dashes_are_accepted(message: Message) -> None:
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
def test_alternative_spellings_are_accepted(plain: Any, value: Any) -> None:
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


def test_encoded_defaults_are_shown() -> None:
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
def test_messages_that_need_a_list_of_sections_round_trip(typed: Any) -> None:
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


# As they come from other clients: encodings that are rare, and messages that break rules.
ODD: list[tuple[str, Any]] = [
    (
        "005377c10704540040540140",
        {"amqp_value": {"$map": [[{"$int": 0}, None], [{"$int": 1}, None]]}},
    ),
    ("005377c10502a3016141", {"amqp_value": {"$map": [[{"$symbol": "a"}, True]]}}),
    ("005377c10a04a102246141a1016241", {"amqp_value": {"$map": [["$a", True], ["b", True]]}}),
    ("005377c10902b100000002246141", {"amqp_value": {"$map": [["$a", True]]}}),
    ("005377c10a04a1016241a102246141", {"amqp_value": {"$map": [["b", True], ["$a", True]]}}),
    (
        "005377c10904a1016241a3016241",
        {"amqp_value": {"$map": [["b", True], [{"$symbol": "b"}, True]]}},
    ),
    ("005377c10502a100a100", {"amqp_value": {"": ""}}),
    ("005377c10904a1016141a1016142", {"sections": [["raw", {"$base64": "AFN3wQkEoQFhQaEBYUI="}]]}),
    (
        "005377c00a01c10704a10161414442",
        {"amqp_value": [{"$map": [["a", True], [{"$ulong": 0}, False]]}]},
    ),
    ("005377e00401a10161", {"amqp_value": {"$array": "string", "values": ["a"]}}),
    ("005377727fc00001", {"amqp_value": {"$float": "0x7fc00001"}}),
    ("005377827ff0000000000000", {"amqp_value": {"$double": "Infinity"}}),
    ("005377827ff8000000000001", {"amqp_value": {"$double": "0x7ff8000000000001"}}),
    ("005377837fffffffffffffff", {"amqp_value": {"$timestamp": 9223372036854775807}}),
    ("005377838000000000000000", {"amqp_value": {"$timestamp": -9223372036854775808}}),
    ("00537700532445", {"amqp_value": {"$accepted": {}}}),
    ("00537700a3016145", {"amqp_value": {"$described": [{"$symbol": "a"}, []]}}),
    (
        "005374c10904a1016141a3016141",
        {
            "sections": [
                ["application_properties", {"$map": [["a", True], [{"$symbol": "a"}, True]]}]
            ]
        },
    ),
    ("005374c10904a1016141a1016141", {"sections": [["raw", {"$base64": "AFN0wQkEoQFhQaEBYUE="}]]}),
    ("005374c10502a1016145", {"sections": [["application_properties", {"a": []}]]}),
    ("005374c10802a10161c0020141", {"sections": [["application_properties", {"a": [True]}]]}),
    (
        "005374c10902a1016100a3016141",
        {"application_properties": {"a": {"$described": [{"$symbol": "a"}, True]}}},
    ),
    ("005374c10602a102246141", {"application_properties": {"$map": [["$a", True]]}}),
    (
        "005372c106044441530541",
        {"message_annotations": {"$map": [[{"$ulong": 0}, True], [{"$ulong": 5}, True]]}},
    ),
    (
        "005372c10804a3016141530541",
        {"message_annotations": {"$map": [[{"$symbol": "a"}, True], [{"$ulong": 5}, True]]}},
    ),
    ("005372c10502a1016141", {"sections": [["message_annotations", {"$map": [["a", True]]}]]}),
    ("005370c003015501", {"sections": [["header", {"durable": {"$long": 1}}]]}),
    (
        "005370c00706414040404040",
        {"sections": [["header", {"$list": [True, None, None, None, None, None]}]]},
    ),
    ("005370c003024040", {"header": {}}),
    ("005373c00403404045", {"sections": [["properties", {"to": []}]]}),
    (
        "005373c01502980f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0fa00100",
        {
            "properties": {
                "message_id": {"$uuid": "0f0f0f0f-0f0f-0f0f-0f0f-0f0f0f0f0f0f"},
                "user_id": {"$base64": "AA=="},
            }
        },
    ),
    (
        "005373c01106a0016140404040800000000100000000",
        {"properties": {"message_id": {"$binary": "a"}, "correlation_id": 4294967296}},
    ),
    ("005375a30161", {"sections": [["data", {"$symbol": "a"}]]}),
    ("005375a0014100537045", {"sections": [["data", "A"], ["header", {}]]}),
    ("005375a00141005375a00141", {"sections": [["data", "A"], ["data", "A"]]}),
    ("005375a0014100537740", {"sections": [["data", "A"], ["amqp_value", None]]}),
    ("00537645005378c10100", {"amqp_sequence": [], "footer": {}}),
    (
        "00a311616d71703a6865616465723a6c6973740045",
        {"sections": [["unknown", {"$described": [{"$symbol": "amqp:header:list\x00"}, []]}]]},
    ),
    ("00a310616d71703a6865616465723a6c69737445", {"header": {}}),
    ("00537945", {"sections": [["unknown", {"$described": [{"$ulong": 121}, []]}]]}),
    ("41", {"sections": [["unknown", True]]}),
]


@pytest.mark.parametrize("octets, plain", ODD)
def test_the_form_of_an_odd_message(octets: str, plain: Any) -> None:
    message = Message.decode(bytes.fromhex(octets), strict=False)
    written = to_plain(message)
    assert plain == written
    assert json.dumps(plain) == json.dumps(written)
    assert message == from_plain(through_json(written))


@given(messages().flatmap(encodings).flatmap(mutated))
def test_messages_that_violate_rules_round_trip(octets: bytes) -> None:
    try:
        message = Message.decode(octets, strict=False)
    except DecodeError:
        return
    plain = to_plain(message)
    back = from_plain(through_json(plain))
    assert message == back
    assert plain == to_plain(back)


@given(st.data())
def test_the_order_of_keys_does_not_matter(data: st.DataObject) -> None:
    message = data.draw(messages())
    plain = to_plain(message)
    for name in ("header", "properties"):
        if name in plain:
            plain[name] = dict(data.draw(st.permutations([*plain[name].items()])))
    assert message == from_plain(dict(data.draw(st.permutations([*plain.items()]))))


@pytest.mark.parametrize("size", [251, 252, 253, 255, 256, 257, 2310, 2400, 70000])
@pytest.mark.parametrize("name", ["string", "list", "map"])
def test_necessary_long_constructor_is_not_written(size: int, name: str) -> None:
    text = "x" * size
    element: Any = {"string": text, "list": [text], "map": {"k": text}}[name]
    for value in (Array(name, [element]), Array(name, [element, element]), Array(name, [])):
        plain = to_plain(value)
        assert {"$array", "values"} == plain.keys()
        assert encode_value(value) == encode_value(value_from_plain(through_json(plain)))


def test_unnecessary_long_constructor_is_written() -> None:
    octets = bytes.fromhex("f0 00000011 00000001 d0 00000008 00000001 a1026f6b")
    assert {"$array": "list", "code": "0xd0", "values": [["ok"]]} == to_plain(decode_value(octets))
