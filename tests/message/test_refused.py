"""Messages that are refused, with what and where, and what lenient decoding keeps of them."""

from __future__ import annotations

import gzip
import pickle
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from amqp10msg import (
    AmqpSequence,
    AmqpValue,
    Data,
    DecodeError,
    Described,
    EncodeError,
    Header,
    Limits,
    Message,
    Symbol,
    UInt,
    ULong,
)
from amqp10msg.testing import messages

MALFORMED = [
    ("0053", "truncated", 2),
    ("005375a0050000", "truncated", 5),
    ("005377a10180", "invalid-utf8", 5),
    ("005377a30180", "symbol-not-ascii", 5),
    ("00537743" + "43", "not-a-section", 4),
    ("00532445", "unknown-section", 0),
    ("00a30161" + "45", "unknown-section", 0),
    ("005377" + "43" + "005377" + "43", "duplicate-section", 4),
    ("00537045" + "00537045", "duplicate-section", 4),
    ("005375a000" + "00537743", "mixed-body-sections", 5),
    ("00537645" + "005375a000", "mixed-body-sections", 4),
    ("005375a000" + "00537045", "section-out-of-order", 5),
    ("005378c10100" + "005375a000", "section-out-of-order", 6),
    ("005370c00302" + "4104", "unknown-constructor", 7),
    ("005370c00402" + "415204", "field-type", 7),
    ("005370c0070641414141" + "4141", "too-many-fields", 3),
    ("005373c0030152" + "01", "field-type", 6),
    ("005372c10502a10161" + "40", "message-annotations-key-type", 6),
    ("005374c10502a30161" + "40", "application-properties-key-type", 6),
    ("005374c10502a10161" + "45", "application-properties-value-not-simple", 9),
    ("005374c10902a1016100a3016145", "application-properties-value-not-simple", 9),
    ("005374c10904a1016140a1016140", "map-duplicate-key", 10),
    ("005374c10401a10161", "map-odd-count", 3),
    ("005375a10161", "section-value-type", 3),
    ("00537643", "section-value-type", 3),
    ("00537345" + "ff", "unknown-constructor", 4),
    ("005377" + "5602", "boolean-octet-not-0-or-1", 4),
]


@pytest.mark.parametrize("octets, rule, offset", MALFORMED)
def test_strict_errors_have_rule_and_offset(octets: str, rule: str, offset: int) -> None:
    data = bytes.fromhex(octets)
    with pytest.raises(DecodeError) as caught:
        Message.decode(data)

    assert (rule, offset) == (caught.value.rule, caught.value.offset)
    assert caught.value.data == data
    assert f"at byte {offset}" in str(caught.value)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@pytest.mark.parametrize(
    "octets, path",
    [
        ("005373c0030152" + "01", "properties.message-id"),
        ("005370c00402" + "415204", "header.priority"),
        ("005374c10702a10161" + "a10180", "application-properties['a']"),
        ("005377c00402" + "4342" + "ff", "amqp-value[2]"),
        # A value that should still come: it is named, and not the one before it.
        ("005370c00a05" + "415005700000ea60" + "41", "header.delivery-count"),
        ("005373c00402" + "a10161", "properties.user-id"),
        ("005377c00402" + "a10161", "amqp-value[1]"),
        ("00a312" + b"amqp:amqp-value:*!".hex(), ""),
    ],
)
def test_decode_error_path(octets: str, path: str) -> None:
    with pytest.raises(DecodeError) as caught:
        Message.decode(bytes.fromhex(octets))

    assert path == caught.value.path


def test_limits() -> None:
    data = Message(body=[[["x"]]]).encode()

    assert Message.decode(data, limits=Limits(depth=3)) == Message.decode(data)
    for limits, rule in (
        (Limits(depth=2), "depth-limit"),
        (Limits(items=2), "items-limit"),
        (Limits(size=5), "size-limit"),
    ):
        with pytest.raises(DecodeError) as caught:
            Message.decode(data, limits=limits)
        assert rule == caught.value.rule
        assert caught.value.condition == "amqp:resource-limit-exceeded"


@pytest.mark.parametrize(
    "data, expected",
    [
        (b'{"a": 1}', "JSON"),
        (b"\n  [1]", "JSON"),
        (b"AMQP\x00\x01\x00\x00", "the protocol header"),
        (gzip.compress(b"x", mtime=0), "gzip"),
        (bytes.fromhex("28b52ffd200161"), "zstd"),
        (b"00 53 75 a0 01 61\n", "hex text"),
        (b"AFN1oAFh", "base64 text"),
        (bytes.fromhex("0000000d02000000 005314c0010043"), "a frame of a 1.0 connection"),
        (bytes.fromhex("0300010000000568656c6c6fce"), "a frame of a 0-9-1 connection"),
    ],
)
def test_error_names_the_likely_format_of_foreign_data(data: bytes, expected: str) -> None:
    with pytest.raises(DecodeError, match=f"at byte .*; this looks like {expected}"):
        Message.decode(data)


@given(messages(), st.integers(0), st.integers(0, 255))
def test_faulty_message_gets_no_format_hint(message: Message, place: int, octet: int) -> None:
    data = bytearray(message.encode() or b"\0")
    data[place % (len(data) - 1) + 1 if len(data) > 1 else 0] = octet
    assume(data[0] == 0)
    told = ""
    try:
        Message.decode(data)
    except DecodeError as error:
        told = str(error)

    assert "looks like" not in told


def test_a_body_of_several_kinds_is_not_encoded() -> None:
    with pytest.raises(EncodeError, match="one or more Data"):
        Message(body=[Data(b""), AmqpValue(1)]).encode()
    with pytest.raises(EncodeError, match="one AmqpValue"):
        Message(body=[AmqpValue(1), AmqpValue(1)]).encode()


@pytest.mark.parametrize(
    "message, path",
    [
        (Message(header=Header(priority=300)), "header.priority"),
        (Message(application_properties={"a": [1]}), "application-properties['a']"),
        (Message(application_properties={"a": object()}), "application-properties['a']"),
        (
            Message(application_properties={1: 1}),  # type: ignore[dict-item]
            "application-properties[1]",
        ),
        (Message(message_annotations={"ü": 1}), "message-annotations"),
        (Message(message_annotations={1.5: 1}), "message-annotations[1.5]"),
        (Message(message_annotations={"x-a": {"k": object()}}), "message-annotations['x-a']['k']"),
        (Message(body={"a": object()}), "amqp-value['a']"),
        (Message(body={"k": [0, object()]}), "amqp-value['k'][1]"),
        (Message(body=Described(Symbol("d"), {"k": object()})), "amqp-value['k']"),
        (Message(body=object()), "amqp-value"),
        (Message(body=AmqpSequence([1, 2**70])), "amqp-sequence[1]"),
        (Message(body=Data("text")), "data"),  # type: ignore[arg-type]
        (Message(body="\ud800"), "amqp-value"),
    ],
)
def test_encode_error_path(message: Message, path: str) -> None:
    with pytest.raises(EncodeError) as caught:
        message.encode()

    assert path == caught.value.path


def test_a_value_that_contains_itself() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(EncodeError, match="contain themselves"):
        Message(body=loop).encode()


# Lenient decoding.

SLOPPY = [
    "005375a000" + "00537045",
    "00537045" + "00537045",
    "005375a000" + "00537743",
    "00532445",
    "43",
    "005370c00402" + "415204",
    "005370c0070641414141" + "4141",
    "005372c10502a10161" + "40",
    "005374c10502a30161" + "45",
    "005375a10161",
    "00537643" + "00537645",
    "005373c10100",
    "005370c00503404055ff" + "005375a00178",
    "00537445" + "005374c10702a1016ba10176" + "005375a00178",
    "005373c00804" + "524043" + "a10161" + "40",
]


@pytest.mark.parametrize("octets", SLOPPY)
def test_lenient_decoding_keeps_everything(octets: str) -> None:
    data = bytes.fromhex(octets)
    with pytest.raises(DecodeError):
        Message.decode(data)
    message = Message.decode(data, strict=False)

    assert data == message.encode()
    assert message.violations
    assert message == pickle.loads(pickle.dumps(message))
    message.header = Header(durable=True, ttl=77)
    again = Message.decode(message.encode(), strict=False)
    assert Header(durable=True, ttl=77) == again.header


def test_lenient_values_keep_their_types() -> None:
    data = bytes.fromhex("005373c00b07" + "5205" + "4040404040" + "a10174")
    message = Message.decode(data, strict=False)

    assert message.properties is not None
    assert type(message.properties.message_id) is UInt
    assert message.properties.message_id == 5
    assert message.properties.content_type == "t"


def test_lenient_message_lists_sections_without_attribute() -> None:
    message = Message.decode(bytes.fromhex("00537045" + "00537045" + "00532445"), strict=False)

    assert [
        ("header", Header()),
        ("header", Described(ULong(0x70), [])),
        ("unknown", Described(ULong(0x24), [])),
    ] == message.sections()


@pytest.mark.parametrize("octets", ["0053", "005375a0050000", "005377a10580", "005377ff"])
def test_lenient_decoding_refuses_unparsable_bytes(octets: str) -> None:
    with pytest.raises(DecodeError):
        Message.decode(bytes.fromhex(octets), strict=False)


def documented_bound() -> int:
    """Return the number of ulong keys that the page about limits allows."""
    page = Path(__file__).parents[2] / "docs" / "explanation" / "limits.md"
    found = re.search(
        r"annotations with more than ([\d,]+)\s+ulong\s+keys", page.read_text("utf-8")
    )
    assert found is not None
    return int(found[1].replace(",", ""))


@pytest.mark.parametrize("section", ["message_annotations", "delivery_annotations", "footer"])
def test_annotations_have_as_many_ulong_keys_as_documented(section: str) -> None:
    bound = documented_bound()
    keys: Any = {ULong(key): None for key in range(bound)}
    made = Message("x", **{section: keys}).encode()

    assert bound == len(getattr(Message.decode(made), section))
    more: Any = {**keys, ULong(bound): None}
    too_many = Message("x", **{section: more}).encode()
    for limits in (None, Limits(items=10**7)):
        with pytest.raises(DecodeError) as caught:
            Message.decode(too_many, limits=limits)
        assert "amqp:resource-limit-exceeded" == caught.value.condition
