"""Bodies as Qpid Broker-J converts them: maps and lists of 0-10, the hint of JMS, empty bodies."""

from __future__ import annotations

import contextlib
import datetime
import math
import uuid
from typing import Any, Final

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
    Decimal32,
    Float,
    Int,
    Message,
    Properties,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
)
from amqp10msg.basic import (
    BasicMessage,
    BasicProperties,
    FieldTable,
    decode_properties,
    encode_properties,
)
from amqp10msg.interop.jms.coded import read_list, read_map, write_list, write_map
from amqp10msg.interop.jms.typed import write_stream
from amqp10msg.translate import TranslationError, to_amqp10, to_basic
from amqp10msg.wire.primitives import identical

pytestmark = pytest.mark.once

QPID: Final = "qpid-broker-j"
OBJECT, JAVA = "application/x-java-serialized-object", "application/java-object-stream"
OCTETS = "application/octet-stream"
ID = uuid.UUID(int=1)
SERIALIZED_NULL = bytes.fromhex("aced000570")

scalars: st.SearchStrategy[Any] = (
    st.none()
    | st.booleans()
    | st.text(max_size=9)
    | st.binary(max_size=9)
    | st.uuids()
    | st.integers(-(2**63), 2**63 - 1)
    | st.integers(-128, 127).map(Byte)
    | st.integers(-(2**15), 2**15 - 1).map(Short)
    | st.integers(-(2**31), 2**31 - 1).map(Int)
    | st.floats(allow_nan=False)
    | st.integers(0, 2**32 - 1).map(Float.from_bits).filter(lambda number: not math.isnan(number))
    | st.characters(max_codepoint=0x7F).map(Char)
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
maps = st.dictionaries(st.text(max_size=20), values, max_size=4)
lists = st.lists(values, max_size=4)


def as_basic(octets: bytes, content_type: str | None, **more: Any) -> BasicMessage:
    return BasicMessage(BasicProperties(content_type=content_type, **more), octets)


def hint_of(message: Message) -> Any:
    annotations: dict[Any, Any] = message.message_annotations or {}
    return annotations.get(Symbol("x-opt-jms-msg-type"))


# The maps and lists of 0-10.


@given(maps, lists)
def test_maps_and_lists_come_back(mapping: dict[str, Any], listed: list[Any]) -> None:
    assert identical(mapping, read_map(write_map(mapping)))
    assert identical(listed, read_list(write_list(listed)))


@given(st.binary() | lists.map(write_list) | maps.map(write_map))
def test_any_bytes_are_read_or_refused(octets: bytes) -> None:
    for read in (read_map, read_list):
        with contextlib.suppress(ContentError):
            read(octets)


@given(st.data(), maps)
def test_a_map_that_is_cut_off_is_refused(data: st.DataObject, mapping: dict[str, Any]) -> None:
    octets = write_map(mapping)
    with pytest.raises(ContentError, match="expected"):
        read_map(octets[: data.draw(st.integers(0, len(octets) - 1))])


def test_they_are_written_as_the_encoder_of_qpid_writes_them() -> None:
    mapping = {"k": Int(1), "n": None, "m": {"t": True}, "l": [Char("a"), b"\xff"]}
    octets = "00000001 0174 08 01"
    listed = "00000002 04 61 a0 00000001 ff"
    content = (
        f"00000004 016b 21 00000001 016e f0016d a8 00000008 {octets} 016c a9 0000000c {listed}"
    )
    expected = bytes.fromhex(content)

    assert len(expected).to_bytes(4) + expected == write_map(mapping)


@pytest.mark.parametrize(
    "octets, expected",
    [
        ("00 ff", Short(255)),
        ("02 ff", Short(255)),
        ("01 ff", Byte(-1)),
        ("12 ffff", Int(65_535)),
        ("22 ffffffff", 2**32 - 1),
        ("27 00000041", Int(0x41)),
        ("32 ffffffffffffffff", -1),
        ("38 0000000000000007", 7),
        ("04 ff", Char("\uffff")),
        ("08 01", True),
        ("08 80", False),
        ("85 02 c3a4", "ä"),
        ("95 0001 ff", "\ufffd"),
        ("80 01 aa", b"\xaa"),
        ("90 0001 aa", b"\xaa"),
        ("c8 0102030405", b"\1\2\3\4\5"),
        ("f1", b""),
        ("a8 00000000", None),
        ("aa 00000000", None),
        ("aa 00000009 11 00000002 0001 0002", [Short(1), Short(2)]),
        ("48" + "00" * 15 + "05", uuid.UUID(int=5)),
    ],
)
def test_the_types_that_only_others_write(octets: str, expected: Any) -> None:
    found = read_list(bytes.fromhex("000000ff 00000001" + octets))

    assert identical([expected], found)


@pytest.mark.parametrize(
    "octets, text",
    [
        ("0d", "at byte 9 of the body: unknown type 0x0d"),
        ("ab 00000000", "a struct of AMQP 0-10"),
        ("84 01 61", "charset"),
        ("aa 00000005 f0 7fffffff", "2147483647 values without a byte"),
        ("a9 00000004 7fffffff", "2147483647 values expected"),
    ],
)
def test_what_is_refused_says_where(octets: str, text: str) -> None:
    with pytest.raises(ContentError, match=text):
        read_list(bytes.fromhex("000000ff 00000001" + octets))


def test_nesting_has_a_bound() -> None:
    with pytest.raises(ContentError, match="nests deeper than"):
        read_list(bytes.fromhex("000000ff 00000001 a9") * 10_000)
    deepest: list[Any] = []
    for _ in range(64):
        deepest = [deepest]
    assert deepest == read_list(write_list(deepest))
    with pytest.raises(ContentError, match="nest deeper than 64"):
        write_list([deepest])


def test_what_has_no_type_or_no_room_is_refused() -> None:
    wrong: list[Any] = [{"k" * 256: 1}, {1: 2}, {"k": "x" * 65_536}, {"k": UInt(1)}, {"k": 2**63}]
    for mapping in wrong:
        with pytest.raises(ContentError):
            write_map(mapping)


# The profile.


@given(maps, lists)
def test_bodies_of_0_10_come_through_1_0(mapping: dict[str, Any], listed: list[Any]) -> None:
    cases: list[tuple[str, Any, bytes]] = [
        ("amqp/map", whole := {**mapping, "nested": {}}, write_map(whole)),
        ("amqp/list", several := [*listed, []], write_list(several)),
    ]
    for kind, value, octets in cases:
        made = to_amqp10(as_basic(octets, kind), QPID).message
        body = AmqpValue(value) if isinstance(value, dict) else AmqpSequence(value)
        assert identical(body, made.body) or body == made.body
        assert None is hint_of(made)
        again = to_basic(made, QPID)
        assert (kind, octets) == (again.message.properties.content_type, again.message.body)
        assert [] == [loss for loss in again.losses if loss.path.startswith("body")]


@pytest.mark.parametrize(
    "content_type, octets, body, hint, expected_type",
    [
        (None, b"", AmqpValue(None), 0, None),
        (None, b"x", Data(b"x"), None, None),
        ("text/xml", b"", AmqpValue(""), 5, "text/xml"),
        ("jms/map-message", b"", AmqpValue({}), 2, None),
        ("amqp/map", b"", AmqpValue({}), 2, None),
        ("jms/stream-message", b"", AmqpSequence([]), 4, None),
        ("amqp/list", b"", AmqpSequence([]), 4, None),
        (JAVA, b"", Data(SERIALIZED_NULL), 1, OBJECT),
        (OBJECT, b"x", Data(b"x"), 1, OBJECT),
        (OCTETS, b"", Data(b""), 3, OCTETS),
        ("foo/bar", b"", Data(b""), None, "foo/bar"),
        ("amqp/map", write_map({"k": 1}), AmqpValue({"k": 1}), 2, None),
        (
            "amqp/map",
            write_map({"k": uuid.UUID(int=1)}),
            AmqpValue({"k": uuid.UUID(int=1)}),
            *(None,) * 2,
        ),
        ("amqp/list", b"\0\0\0\0", Data(b"\0\0\0\0"), None, None),
    ],
)
def test_towards_1_0_by_content_type(
    content_type: str | None, octets: bytes, body: Any, hint: int | None, expected_type: str | None
) -> None:
    made = to_amqp10(as_basic(octets, content_type), QPID).message

    assert body == made.body
    assert hint == hint_of(made)
    assert expected_type == (made.properties or Properties()).content_type


def test_a_body_of_0_10_that_is_none_fails_the_conversion() -> None:
    with pytest.raises(TranslationError, match="the conversion fails: at byte 4 of the body"):
        to_amqp10(as_basic(b"\0\0\0\1", "amqp/map"), QPID)


@pytest.mark.parametrize(
    "body, hint, content_type, expected",
    [
        # A null, as Broker-J's own tests state it.
        (AmqpValue(None), None, None, (b"", None)),
        (AmqpValue(None), 0, None, (b"", None)),
        (AmqpValue(None), 1, None, (SERIALIZED_NULL, JAVA)),
        (AmqpValue(None), 2, None, (b"\0\0\0\0", "jms/map-message")),
        (AmqpValue(None), 3, None, (b"", OCTETS)),
        (AmqpValue(None), 4, None, (b"", "jms/stream-message")),
        (AmqpValue(None), 5, None, (b"", "text/plain")),
        (AmqpValue(None), 11, None, (b"", None)),
        (AmqpValue(None), None, OCTETS, (b"", OCTETS)),
        (AmqpValue(None), None, OBJECT, (SERIALIZED_NULL, JAVA)),
        (AmqpValue(None), None, "jms/map-message", (b"\0\0\0\0", "jms/map-message")),
        (None, 5, None, (b"", "text/plain")),
        # Data.
        (Data(b"x"), None, None, (b"x", OCTETS)),
        (Data(b"x"), 0, None, (b"x", OCTETS)),
        (Data(b"x"), 1, None, (b"x", JAVA)),
        (Data(b"x"), 2, None, (b"x", OCTETS)),
        (Data(b"x"), 2, "jms/map-message", (b"x", "jms/map-message")),
        (Data(b"x"), 2, "amqp/map", (b"x", "amqp/map")),
        (Data(b"x"), None, "amqp/list", (b"x", "amqp/list")),
        (Data(b"x"), 2, "amqp/list", (b"x", OCTETS)),
        (Data(b"x"), 4, "jms/stream-message", (b"x", "jms/stream-message")),
        (Data(b"x"), 5, None, (b"x", "text/plain")),
        (Data(b"x"), 3, "text/plain", (b"x", OCTETS)),
        (Data(b"x"), 11, None, (b"x", OCTETS)),
        (Data(b"x"), None, "application/json", (b"x", "text/plain")),
        (Data(b"x"), None, "application/bin", (b"x", OCTETS)),
        (AmqpValue(b"x"), 5, None, (b"x", "text/plain")),
        # Other values have a type of their own, whatever the hint.
        (AmqpValue("x"), 1, OCTETS, (b"x", "text/plain")),
        (AmqpValue(Symbol("x")), None, None, (b"x", "text/plain")),
        (AmqpValue([1]), 5, None, (write_stream([1]), "jms/stream-message")),
        (AmqpValue({"k": {}}), None, None, (write_map({"k": {}}), "amqp/map")),
        (AmqpSequence([["x"]]), None, None, (write_list([["x"]]), "amqp/list")),
    ],
)
def test_towards_0_9_1_by_hint_and_content_type(
    body: Any, hint: int | None, content_type: str | None, expected: tuple[bytes, str | None]
) -> None:
    message = Message(
        body,
        properties=Properties(content_type=content_type),
        message_annotations=None if hint is None else {"x-opt-jms-msg-type": Byte(hint)},
    )

    made = to_basic(message, QPID).message

    assert expected == (made.body, made.properties.content_type)


def test_a_hint_of_another_type_is_none() -> None:
    message = Message(AmqpValue(None), message_annotations={"x-opt-jms-msg-type": 5})

    assert None is to_basic(message, QPID).message.properties.content_type


def test_types_that_java_has_not_are_the_next_wider_ones() -> None:
    body = {Symbol("s"): UByte(255), "u": [UShort(1), UInt(2**32 - 1)], "l": ULong(2**64 - 1)}
    found = to_basic(Message(body), QPID)
    expected = {"s": Short(255), "u": [Int(1), 2**32 - 1], "l": -1}

    assert write_map(expected) == found.message.body
    assert {
        ("body['s']", "retyped"),
        ("body['u'][0]", "retyped"),
        ("body['u'][1]", "retyped"),
        ("body['l']", "wrapped"),
    } == {(loss.path, loss.action) for loss in found.losses if loss.path.startswith("body")}


def test_what_a_body_of_0_10_cuts_off_is_a_loss() -> None:
    body = {"m": {}, "c": Char("ä"), "n": [Float.from_bits(0x7FC12345)]}
    losses = to_basic(Message(body), QPID).losses

    assert [("body['c']", "truncated"), ("body['n'][0]", "truncated")] == [
        (loss.path, loss.action) for loss in losses if loss.path.startswith("body")
    ]


@pytest.mark.parametrize(
    "body, hint, text",
    [
        (True, None, "serialized object"),
        (uuid.UUID(int=1), None, "serialized object"),
        (Int(42), 1, "serialized object"),
        (Int(42), None, "the conversion fails"),
        ({1: 2}, None, "a key of int"),
        ([Decimal32(0)], None, "a value of Decimal32"),
        ([[Timestamp(0)]], None, "a value of Timestamp"),
        (["x" * 65_536, []], None, "65535 is the most"),
    ],
)
def test_bodies_that_are_refused(body: Any, hint: int | None, text: str) -> None:
    annotations = None if hint is None else {"x-opt-jms-msg-type": Byte(hint)}
    with pytest.raises(TranslationError, match=text) as caught:
        to_basic(Message(AmqpValue(body), message_annotations=annotations), QPID)

    assert caught.value.path.startswith("body")


@pytest.mark.parametrize("depth", [64, 65, 200])
def test_values_that_nest_deep_are_written_or_refused(depth: int) -> None:
    body: Any = []
    for _ in range(depth):
        body = [body]
    if depth == 64:
        assert body == read_list(to_basic(Message(AmqpValue(body)), QPID).message.body)
        return
    with pytest.raises(TranslationError, match="nest deeper than 64"):
        to_basic(Message(AmqpValue(body)), QPID)


def test_a_moment_is_the_number_that_0_9_1_has_of_it() -> None:
    moment = datetime.datetime(2024, 1, 1, 0, 0, 0, 500_000, datetime.UTC)
    headers = FieldTable.of([("t", "T", moment)])
    basic = BasicMessage(BasicProperties(timestamp=moment, headers=headers), b"x")
    read = BasicMessage(decode_properties(encode_properties(basic.properties)), b"x")

    assert to_amqp10(read, QPID).message == to_amqp10(basic, QPID).message


SILENT = [
    ({"headers": FieldTable.of([("a", "I", 1), ("a", "I", 2)])}, "headers['a']"),
    ({"headers": FieldTable.of([("a", "S", "\udcff")])}, "headers['a']"),
    ({"headers": FieldTable.of([("\udcff", "I", 1)])}, "headers['\\udcff']"),
    ({"headers": {"qpid.subject": "s"}, "type": "t"}, "properties.type"),
    ({"message_id": "\udcff"}, "properties.message-id"),
    ({"reply_to": "\udcff"}, "properties.reply-to"),
    ({"expiration": "soon"}, "properties.expiration"),
    ({"expiration": "0"}, "properties.expiration"),
]


@pytest.mark.parametrize("values, path", SILENT)
def test_values_that_the_converter_changes_are_reported(values: Any, path: str) -> None:
    made = to_amqp10(BasicMessage(BasicProperties(**values)), "qpid-broker-j")

    assert [path] == [loss.path for loss in made.losses if loss.is_permanent]
