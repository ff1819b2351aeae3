"""Messages to and from python-qpid-proton: every value, every field, and what it cannot hold."""

from __future__ import annotations

import gc
import struct
import subprocess
import sys
import uuid
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

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
    EncodeError,
    Float,
    Header,
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
from amqp10msg.wire.primitives import identical

proton = pytest.importorskip("proton", reason="needs python-qpid-proton")

from amqp10msg.interop.proton import (  # noqa: E402  (needs proton)
    Loss,
    from_proton,
    losses,
    to_proton,
)

pytestmark = pytest.mark.once

UUID = uuid.UUID("00010203-0405-0607-0809-0a0b0c0d0e0f")
PAIRS = [
    (True, True),
    (UByte(255), proton.ubyte(255)),
    (UShort(2), proton.ushort(2)),
    (UInt(3), proton.uint(3)),
    (ULong(2**64 - 1), proton.ulong(2**64 - 1)),
    (Byte(-1), proton.byte(-1)),
    (Short(-2), proton.short(-2)),
    (Int(-3), proton.int32(-3)),
    (-(2**63), -(2**63)),
    (Float(0.1), proton.float32(Float(0.1))),
    (0.1, 0.1),
    (Decimal32.from_decimal(Decimal("1.5")), proton.decimal32(0x3200000F)),
    (Decimal64(2**63), proton.decimal64(2**63)),
    (Decimal128(1), proton.decimal128(bytes(15) + b"\x01")),
    (Char("\U0001f600"), proton.char("\U0001f600")),
    (Timestamp(-1), proton.timestamp(-1)),
    (UUID, UUID),
    (b"\x00\xff", b"\x00\xff"),
    ("text", "text"),
    (Symbol("symbol"), proton.symbol("symbol")),
    ([1, [UInt(1), None]], [1, [proton.uint(1), None]]),
    ({"k": Symbol("v"), UInt(1): 2}, {"k": proton.symbol("v"), proton.uint(1): 2}),
    (
        Array("int", [Int(1), Int(2)]),
        proton.Array(proton.UNDESCRIBED, proton.Data.INT, proton.int32(1), proton.int32(2)),
    ),
    (
        Array("boolean", [True], descriptors=[ULong(7)]),
        proton.Array(proton.ulong(7), proton.Data.BOOL, True),
    ),
    (
        Described(Symbol("outer"), Described(ULong(1), [b"x"])),
        proton.Described(proton.symbol("outer"), proton.Described(proton.ulong(1), [b"x"])),
    ),
]


def types_of(value: Any) -> Any:
    """Show a proton value with the classes of everything in it, which == does not look at."""
    if isinstance(value, list):
        return [types_of(item) for item in value]
    if isinstance(value, dict):
        return [(types_of(key), types_of(item)) for key, item in value.items()]
    if isinstance(value, proton.Described):
        return (proton.Described, types_of(value.descriptor), types_of(value.value))
    if isinstance(value, proton.Array):
        return (proton.Array, value.type, types_of(value.descriptor), types_of([*value.elements]))
    return (type(value), value)


@pytest.mark.parametrize("ours, theirs", PAIRS, ids=lambda value: type(value).__name__)
def test_value_keeps_its_amqp_type(ours: Any, theirs: Any) -> None:
    made = to_proton(Message(AmqpValue(ours), application_properties=None))

    assert types_of(theirs) == types_of(made.body)
    back = from_proton(proton.Message(body=theirs)).body
    assert isinstance(back, AmqpValue)
    assert identical(ours, back.value)


def test_every_field_is_converted_to_proton() -> None:
    made: Any = to_proton(
        Message(
            "text",
            header=Header(
                durable=True, priority=9, ttl=1_001, first_acquirer=True, delivery_count=3
            ),
            delivery_annotations={"d": UInt(1)},
            message_annotations={"m": UInt(2), ULong(5): UInt(3)},
            properties=Properties(
                message_id=7,
                user_id=b"user",
                to="to",
                subject="subject",
                reply_to="reply-to",
                correlation_id=UUID,
                content_type="text/plain",
                content_encoding="gzip",
                absolute_expiry_time=datetime(2100, 1, 1, tzinfo=UTC),
                creation_time=1_311_704_463_521,
                group_id="group",
                group_sequence=4,
                reply_to_group_id="reply-to-group",
            ),
            application_properties={"a": UInt(6)},
        )
    )

    assert (True, 9, 1.001, True, 3) == (
        *(made.durable, made.priority, made.ttl, made.first_acquirer, made.delivery_count),
    )
    assert [((proton.symbol, "d"), (proton.uint, 1))] == types_of(dict(made.instructions))
    assert [
        ((proton.symbol, "m"), (proton.uint, 2)),
        ((proton.ulong, 5), (proton.uint, 3)),
    ] == types_of(dict(made.annotations))
    assert (7, UUID, b"user") == (made.id, made.correlation_id, made.user_id)
    assert ("to", "subject", "reply-to") == (made.address, made.subject, made.reply_to)
    assert ("text/plain", "gzip") == (made.content_type, made.content_encoding)
    assert (4_102_444_800.0, 1_311_704_463.521) == (made.expiry_time, made.creation_time)
    assert ("group", 4, "reply-to-group") == (
        *(made.group_id, made.group_sequence, made.reply_to_group_id),
    )
    assert [((str, "a"), (proton.uint, 6))] == types_of(made.properties)
    assert ("text", False) == (made.body, made.inferred)


@pytest.mark.parametrize("ms", [1, 999, 1_001, 4_009, 123_456_789, 2**32 - 1])
def test_milliseconds_are_kept_where_proton_counts_float_seconds(ms: int) -> None:
    message = Message(
        "text",
        header=Header(ttl=ms),
        properties=Properties(creation_time=ms, absolute_expiry_time=-(2**62) - ms),
    )

    made = to_proton(message)

    assert ms / 1000 == made.ttl
    assert message == from_proton(made)


def test_seconds_of_proton_become_milliseconds() -> None:
    message = from_proton(proton.Message(ttl=1.5, creation_time=2, expiry_time=1311704463.25))

    assert Header(ttl=1_500) == message.header
    assert (
        Properties(creation_time=2_000, absolute_expiry_time=1_311_704_463_250)
        == message.properties
    )


@pytest.mark.parametrize(
    "body, inferred, theirs",
    [
        (None, False, None),
        (Data(b"octets"), True, b"octets"),
        (AmqpSequence([1, "a"]), True, [1, "a"]),
        (AmqpValue(b"octets"), False, b"octets"),
        (AmqpValue([1, "a"]), False, [1, "a"]),
        (AmqpValue("text"), False, "text"),
    ],
)
def test_inferred_tells_the_kind_of_body(body: Any, inferred: bool, theirs: Any) -> None:
    made = to_proton(Message(body))

    assert (inferred, theirs) == (made.inferred, made.body)
    assert body == from_proton(made).body


@pytest.mark.parametrize("value", ["text", {"a": 1}, 5, proton.Described(proton.ulong(1), b"x")])
def test_inferred_changes_only_bytes_and_lists(value: Any) -> None:
    theirs = proton.Message(body=value, inferred=True)

    assert isinstance(from_proton(theirs).body, AmqpValue)
    assert Message.decode(bytes(theirs.encode())).body == from_proton(theirs).body


def test_empty_header_and_properties_of_proton_are_absent() -> None:
    assert Message() == from_proton(proton.Message())
    assert Message("text") == from_proton(proton.Message(body="text"))


def test_empty_is_not_absent() -> None:
    message = Message(
        b"",
        delivery_annotations={},
        message_annotations={},
        properties=Properties(user_id=b"", content_type="", subject="", to=""),
        application_properties={},
    )

    assert message == from_proton(to_proton(message))


def test_absent_content_type_is_not_the_text_none() -> None:
    theirs = proton.Message(body="text")
    assert "None" == theirs.content_type, "as proton shows it"

    assert from_proton(theirs).properties is None
    theirs.content_type = "None"
    assert Properties(content_type="None") == from_proton(theirs).properties


def test_values_are_copied_out_of_protons_memory() -> None:
    octets = Message(
        [b"inner"],
        message_annotations={"m": b"annotation"},
        properties=Properties(message_id=b"message-id"),
        application_properties={"a": b"first", "b": b"second"},
    ).encode()
    theirs = proton.Message()
    theirs.decode(octets)

    message = from_proton(theirs)
    del theirs
    gc.collect()
    _ = [proton.Message(body=bytes(64)).encode() for _ in range(50)]

    assert octets == message.encode()


def test_changes_after_decoding_are_read_and_not_modified() -> None:
    theirs = proton.Message()
    theirs.decode(Message("x", application_properties={"a": b"1111", "b": b"2222"}).encode())
    # Encoding this with proton overwrites the bytes of a before it reads them.
    theirs.properties = {"new": b"3333", **theirs.properties}
    theirs.annotations = annotations = proton.AnnotationDict({"m": 1})
    held = (theirs.instructions, theirs.annotations, theirs.properties, theirs.body)

    for _ in range(2):
        message = from_proton(theirs)

        assert {"new": b"3333", "a": b"1111", "b": b"2222"} == message.application_properties
    now = (theirs.instructions, theirs.annotations, theirs.properties, theirs.body)
    assert all(before is after for before, after in zip(held, now, strict=True))
    assert annotations == theirs.annotations


def test_property_keys_that_are_some_kind_of_str_are_strings() -> None:
    class Key(str):
        __slots__ = ()

    message = from_proton(proton.Message(properties={Key("k"): 1}))

    assert Message(application_properties={"k": 1}) == message
    assert str is type(next(iter(message.application_properties or ())))


def test_keys_that_become_equal_in_32_bits_are_both_kept() -> None:
    theirs = proton.Message(body={proton.float32(0.1): "a", proton.float32(0.1 + 1e-12): "b"})

    body = from_proton(theirs).body

    assert AmqpValue(AmqpMap([(Float(0.1), "a"), (Float(0.1), "b")])) == body


@pytest.mark.parametrize(
    "attributes, path, reason",
    [
        ({"body": 1j}, "body", "complex"),
        ({"body": [{"a": datetime.now(UTC)}]}, "body", "datetime"),
        ({"body": proton.ubyte(256)}, "body", "255"),
        ({"body": proton.symbol("é")}, "body", "ASCII"),
        ({"body": proton.char("\ud800")}, "body", "scalar value"),
        ({"body": proton.float32(1e300)}, "body", "float"),
        ({"body": proton.Array(proton.UNDESCRIBED, proton.Data.DESCRIBED)}, "body", "array"),
        ({"body": proton.Array(None, 0)}, "body", "array"),
        ({"properties": {"k": object()}}, "application-properties['k']", "object"),
        ({"annotations": {"k": object()}}, "message-annotations[symbol('k')]", "object"),
        ({"instructions": ["k"]}, "delivery-annotations", "dict"),
    ],
)
def test_values_without_an_amqp_encoding_are_refused(
    attributes: dict[str, Any], path: str, reason: str
) -> None:
    with pytest.raises(EncodeError, match=reason) as caught:
        from_proton(proton.Message(**attributes))

    assert path == caught.value.path


#: The signalling NaN of LOSSES as a float of this interpreter: CPython quiets it before 3.14.
AS_FLOAT = Float(struct.unpack(">f", b"\x7f\x80\x00\x01")[0])

LOSSES = {
    "footer": (Message("x", footer={"x-opt-crc": 1}), Message("x"), ["footer"]),
    "message-format": (Message("x", message_format=0x80013700), Message("x"), ["message-format"]),
    "data": (Message([Data(b"a"), Data(b"b")]), Message(b"ab"), ["body"]),
    "sequences": (
        Message([AmqpSequence([1]), AmqpSequence([2])]),
        Message(AmqpSequence([1, 2])),
        ["body"],
    ),
    "null body": (Message(AmqpValue(None)), Message(), ["body"]),
    "ttl 0": (Message("x", header=Header(ttl=0)), Message("x"), ["header.ttl"]),
    "times 0": (
        Message("x", properties=Properties(creation_time=0, absolute_expiry_time=0)),
        Message("x"),
        ["properties.absolute-expiry-time", "properties.creation-time"],
    ),
    "group without sequence": (
        Message("x", properties=Properties(group_id="g")),
        Message("x", properties=Properties(group_id="g", group_sequence=0)),
        ["properties.group-sequence"],
    ),
    "sequence 0 without group": (
        Message("x", properties=Properties(group_sequence=0)),
        Message("x"),
        ["properties.group-sequence"],
    ),
    "equal keys": (
        Message(AmqpMap([(UInt(1), "a"), (1, "b")])),
        Message({UInt(1): "b"}),
        ["body"],
    ),
    "signalling NaN": (
        Message("x", application_properties={"f": Float.from_bits(0x7F800001)}),
        Message("x", application_properties={"f": AS_FLOAT}),
        ["application-properties['f']"],
    ),
    "NUL": (
        Message("x", properties=Properties(subject="a\0b", content_type="a\0b")),
        None,  # proton 0.39 cuts it on the wire too
        ["properties.subject", "properties.content-type"],
    ),
    "unknown section": (
        Message.decode(Message("x").encode() + b"\0\x53\x79\x40", strict=False),
        Message("x"),
        ["unknown"],
    ),
    "twice in the body": (
        Message([AmqpSequence([Float.from_bits(0x7F800001)]), AmqpSequence([])]),
        Message(AmqpSequence([AS_FLOAT])),
        ["body"],
    ),
    "two at once": (
        Message("x", header=Header(ttl=0), footer={}),
        Message("x"),
        ["footer", "header.ttl"],
    ),
}


@pytest.mark.parametrize("message, left, paths", LOSSES.values(), ids=LOSSES.keys())
def test_loss_is_refused_or_listed(
    message: Message, left: Message | None, paths: list[str]
) -> None:
    before = message.encode()

    with pytest.raises(EncodeError, match="lossy=True") as caught:
        to_proton(message)

    assert paths[0] == caught.value.path
    assert paths == [loss.path for loss in losses(message)]
    made = from_proton(to_proton(message, lossy=True))
    assert left is None or left == made
    assert before == message.encode()


def test_error_counts_the_further_losses() -> None:
    with pytest.raises(EncodeError, match=r"and 2 more, see losses\(\)"):
        to_proton(Message("x", header=Header(ttl=0), footer={}, message_format=1))

    assert (
        Loss("footer", "proton has no footer: it is left out") == losses(Message("x", footer={}))[0]
    )


@pytest.mark.parametrize(
    "message, path",
    [
        (Message(AmqpMap([([1], 2)])), "body"),
        (Message(AmqpMap([(Described(ULong(1), 1), 2)])), "body"),
        (Message([AmqpMap([(Array("int", [1]), 2)])]), "body"),
        (Message(Array("int", [1], descriptors=[ULong(1), ULong(2)])), "body"),
        (
            Message("x", message_annotations={"k": AmqpMap([({}, 2)])}),
            "message-annotations[Symbol('k')]",
        ),
        (Message(list(range(66_000))), ""),
        (Message("x", header=Header(priority=256)), "header.priority"),
        (Message("x", application_properties={"k": [1]}), "application-properties"),
    ],
)
def test_inexpressible_values_are_refused_even_if_lossy(message: Message, path: str) -> None:
    for convert in (losses, lambda m: to_proton(m, lossy=True)):
        with pytest.raises(EncodeError) as caught:
            convert(message)

        assert caught.value.path.startswith(path)


def test_deep_nesting_converts() -> None:
    value: Any = 1
    for _ in range(200):
        value = [value]

    assert Message(AmqpValue(value)) == from_proton(to_proton(Message(AmqpValue(value))))


def test_without_proton_the_error_names_the_extra() -> None:
    program = """
import sys
sys.modules["proton"] = None
try:
    import amqp10msg.interop.proton
except ModuleNotFoundError as error:
    print(error)
"""
    output = subprocess.run(
        [sys.executable, "-c", program],
        cwd=Path(__file__).parents[2],
        check=True,
        capture_output=True,
        text=True,
    ).stdout

    assert "pip install 'amqp10msg[proton]'" in output
