"""Messages to and from python-qpid-proton: every value, every field, and what it cannot hold.

A message that proton decodes and encodes again without loss must be the same to both. The values
of proton are compared by proton's own encoder, not by the library's conversion, which is tested
here too.
"""

from __future__ import annotations

import gc
import gzip
import json
import os
import struct
import subprocess
import sys
import uuid
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import event, given
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
from amqp10msg.testing import encodings, messages, sections
from bench.messages import GENERAL, GENERAL_VALUE, REFERENCE
from tests.samples import recorded_octets

proton = pytest.importorskip("proton", reason="needs python-qpid-proton")

from amqp10msg.interop.proton import Loss, convert, from_proton, losses, to_proton  # noqa: E402  (needs proton)
from tests.interop.proton_comparison import (  # noqa: E402
    decoded_by_proton,
    disagreements,
    is_kept_by_proton,
    same_message,
)

UUID = uuid.UUID("00010203-0405-0607-0809-0a0b0c0d0e0f")
SIGNALLING_NAN = Float.from_bits(0x7F800001)
#: The signalling NaN as a float of this interpreter: CPython quiets it before 3.14.
AS_FLOAT = Float(struct.unpack(">f", b"\x7f\x80\x00\x01")[0])


def outcome_of(octets: bytes) -> str:
    """Check a message by what becomes of it: kept, lossless (in to_proton), lost or refused."""
    message = Message.decode(octets)
    is_kept = is_kept_by_proton(message, octets)
    if is_kept:
        theirs = decoded_by_proton(octets)
        assert [] == disagreements(message, theirs)
        assert same_message(message, from_proton(theirs))
    try:
        lost = losses(message)
    except EncodeError:
        assert not is_kept
        with pytest.raises(EncodeError):
            to_proton(message, lossy=True)
        return "refused"
    converted = to_proton(message, lossy=True)
    if lost:
        assert not is_kept
        with pytest.raises(EncodeError, match="lossy=True") as caught:
            to_proton(message)
        assert lost[0].path == caught.value.path
        # Whether proton sends the text after a NUL depends on its version.
        if not all("NUL" in loss.text for loss in lost):
            assert not same_message(message, Message.decode(bytes(converted.encode())))
        return "lost"
    assert [] == disagreements(message, converted)
    assert same_message(message, from_proton(converted))
    assert same_message(message, Message.decode(bytes(converted.encode())))
    return "kept" if is_kept else "lossless"


def check_fast_conversion(message: Message) -> bool:
    """Compare the fast conversion with the compared one; return whether the message has it."""
    fast: Any = convert._convert_fast(message)
    if fast is None:
        return False
    compared, lost = convert._convert_and_compare(Message.decode(message.encode()))
    assert [] == lost
    assert bytes(compared.encode()) == bytes(fast.encode())
    return True


single_bodies = st.one_of(st.none(), *map(sections, ("data", "amqp-sequence", "amqp-value")))


@given(st.data(), messages(footer=None, body=single_bodies) | messages())
def test_message_is_kept_or_its_losses_are_listed(data: st.DataObject, message: Message) -> None:
    octets = data.draw(encodings(message))

    event(outcome_of(octets))
    for each in (message, Message.decode(octets)):
        event(f"fast: {check_fast_conversion(each)}")


deep_value: Any = 1
for _ in range(200):
    deep_value = [deep_value]

LOSSLESS = {
    "nothing": Message(),
    "general": Message.decode(GENERAL),
    "general value": Message.decode(GENERAL_VALUE),
    "reference": Message.decode(REFERENCE),
    "every field": Message(
        "text",
        header=Header(durable=True, priority=9, ttl=1_001, first_acquirer=True, delivery_count=3),
        delivery_annotations={"d": UInt(1)},
        message_annotations={"m": UInt(2), ULong(5): UInt(3)},
        properties=Properties(
            *(7, b"user", "to", "subject", "reply-to", UUID, "text/plain", "gzip"),
            *(4_102_444_800_000, 1_311_704_463_521, "group", 4, "reply-to-group"),
        ),
        application_properties={"a": UInt(6)},
    ),
    "every type": Message(
        AmqpValue(
            [
                *(None, True, UByte(255), UShort(2), UInt(3), ULong(2**64 - 1), Byte(-1)),
                *(Short(-2), Int(-3), -(2**63), Float(0.1), 0.1, Decimal32(0x3200000F)),
                *(Decimal64(2**63), Decimal128(1), Char("\U0001f600"), Timestamp(-1), UUID),
                *(b"\x00\xff", "text", Symbol("symbol"), [1, [UInt(1), None]]),
                {"k": Symbol("v"), UInt(1): 2},
                Array("int", [Int(1), Int(2)]),
                Array("boolean", [True], descriptors=[ULong(7)]),
                Described(Symbol("outer"), [b"x"]),
            ]
        )
    ),
    "nested described": Message(Described(Symbol("outer"), Described(ULong(1), [b"x"]))),
    "empty": Message(
        b"",
        delivery_annotations={},
        message_annotations={},
        properties=Properties(user_id=b"", content_type="", subject="", to=""),
        application_properties={},
    ),
    # Proton skips sections with symbolic descriptors.
    "symbolic descriptors": Message.decode(
        b"\0\xa3\x10amqp:header:list\xc0\x02\x01\x41"
        b"\0\xa3\x14amqp:properties:list\xc0\x04\x01\xa1\x01i\0\x53\x77\xa1\x01x"
    ),
    "NaN as key": Message(AmqpMap([(float("nan"), 1)])),
    "empty list": Message(AmqpValue([])),
    "empty sequence": Message(AmqpSequence([])),
    "binary value": Message(AmqpValue(b"octets")),
    "many values": Message(list(range(2_000))),
    "deep": Message(AmqpValue(deep_value)),
    **{
        # Proton stores seconds as floats.
        f"{ms} ms": Message(
            "text",
            header=Header(ttl=ms),
            properties=Properties(creation_time=ms, absolute_expiry_time=-(2**62) - ms),
        )
        for ms in (1, 999, 1_001, 4_009, 123_456_789, 2**32 - 1)
    },
}


@pytest.mark.parametrize("message", LOSSLESS.values(), ids=LOSSLESS.keys())
def test_conversion_is_lossless(message: Message) -> None:
    octets = message.encode()

    assert outcome_of(octets) in {"kept", "lossless"}
    check_fast_conversion(message)
    assert same_message(Message.decode(octets), from_proton(to_proton(message)))


def test_common_messages_use_the_fast_conversion() -> None:
    assert all(check_fast_conversion(LOSSLESS[name]) for name in ("general", "reference", "empty"))


def octets_of_other_projects() -> list[bytes]:
    if "AMQP10MSG_VECTORS" not in os.environ:
        pytest.skip("AMQP10MSG_VECTORS is not set")
    path = Path(os.environ["AMQP10MSG_VECTORS"]) / "cases.jsonl.gz"
    heads = {"message": b"", "value": b"\0\x53\x77"}
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        cases = [json.loads(line) for line in lines]
    return [
        heads[case["kind"]] + bytes.fromhex(case["hex"]) for case in cases if case["kind"] in heads
    ]


@pytest.mark.parametrize(
    "read, min_kept", [(recorded_octets, 1_000), (octets_of_other_projects, 500)]
)
def test_recorded_messages_are_kept_or_their_losses_are_listed(
    read: Callable[[], Iterable[bytes]], min_kept: int
) -> None:
    outcomes: Counter[str] = Counter()
    for octets in read():
        try:
            Message.decode(octets)
        except DecodeError:
            continue
        outcomes[outcome_of(octets)] += 1

    assert outcomes["kept"] > min_kept, outcomes


class Key(str):
    __slots__ = ()


# The attributes of a proton.Message, and the message of this library.
FROM_PROTON: list[tuple[dict[str, Any], Message]] = [
    ({}, Message()),
    ({"body": "text", "content_type": "None"}, Message("text", content_type="None")),
    (
        {"ttl": 1.5, "creation_time": 2, "expiry_time": 1311704463.25},
        Message(ttl=1_500, creation_time=2_000, absolute_expiry_time=1_311_704_463_250),
    ),
    ({"body": None, "inferred": True}, Message()),
    ({"body": b"x", "inferred": True}, Message(Data(b"x"))),
    ({"body": b"x", "inferred": False}, Message(AmqpValue(b"x"))),
    ({"body": [1, "a"], "inferred": True}, Message(AmqpSequence([1, "a"]))),
    ({"body": [1, "a"], "inferred": False}, Message(AmqpValue([1, "a"]))),
    ({"body": "text", "inferred": True}, Message("text")),
    ({"body": {"a": 1}, "inferred": True}, Message({"a": 1})),
    ({"body": 5, "inferred": True}, Message(5)),
    (
        {"body": proton.Described(proton.ulong(1), b"x"), "inferred": True},
        Message(Described(ULong(1), b"x")),
    ),
    ({"properties": {Key("k"): "v"}}, Message(application_properties={"k": "v"})),
    (
        {"body": proton.Described(proton.ulong(1), proton.Described(proton.symbol("a"), b"x"))},
        Message(Described(ULong(1), Described(Symbol("a"), b"x"))),
    ),
    (
        {"body": proton.Array(proton.ulong(7), proton.Data.BOOL, True)},
        Message(Array("boolean", [True], descriptors=[ULong(7)])),
    ),
    ({"body": (1, bytearray(b"x"))}, Message(AmqpValue([1, b"x"]))),
]


@pytest.mark.parametrize("attributes, message", FROM_PROTON)
def test_message_of_proton_converts(attributes: dict[str, Any], message: Message) -> None:
    theirs = proton.Message(**attributes)

    converted = from_proton(theirs)

    assert message == converted
    assert same_message(message, converted)
    assert all(type(key) is str for key in converted.application_properties or ())
    assert same_message(message, Message.decode(bytes(theirs.encode())))


def test_keys_that_become_equal_in_32_bits_are_both_kept() -> None:
    theirs = proton.Message(body={proton.float32(0.1): "a", proton.float32(0.1 + 1e-12): "b"})

    body = from_proton(theirs).body

    assert AmqpValue(AmqpMap([(Float(0.1), "a"), (Float(0.1), "b")])) == body


def test_values_are_copied_out_of_protons_memory() -> None:
    octets = Message(
        [b"inner"],
        message_annotations={"m": b"annotation"},
        properties=Properties(message_id=b"message-id"),
        application_properties={"a": b"first", "b": b"second"},
    ).encode()
    theirs = decoded_by_proton(octets)

    message = from_proton(theirs)
    del theirs
    gc.collect()
    _ = [proton.Message(body=bytes(64)).encode() for _ in range(50)]

    assert octets == message.encode()


def test_changes_after_decoding_are_read_and_not_modified() -> None:
    theirs = decoded_by_proton(
        Message("x", application_properties={"a": b"1111", "b": b"2222"}).encode()
    )
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


def x(**attributes: Any) -> Message:
    return Message("x", **attributes)


def lenient(octets: bytes) -> Message:
    return Message.decode(octets + x().encode(), strict=False)


# The message, the message that remains of it, and the paths of the losses.
LOSSES: list[tuple[Message, Message | None, str]] = [
    (x(footer={"x-opt-crc": 1}), x(), "footer"),
    (x(message_format=0x80013700), x(), "message-format"),
    (Message([Data(b"a"), Data(b"b")]), Message(b"ab"), "body"),
    (
        *(Message([AmqpSequence([1]), AmqpSequence([2])]), Message(AmqpSequence([1, 2]))),
        "body",
    ),
    (Message(AmqpValue(None)), Message(), "body"),
    (x(ttl=0), x(), "header.ttl"),
    (
        *(x(creation_time=0, absolute_expiry_time=0), x()),
        "properties.absolute-expiry-time properties.creation-time",
    ),
    (x(group_id="g"), x(group_id="g", group_sequence=0), "properties.group-sequence"),
    (x(group_sequence=0), x(), "properties.group-sequence"),
    # Equal keys.
    (Message(AmqpMap([(UInt(1), "a"), (1, "b")])), Message({UInt(1): "b"}), "body"),
    (
        x(application_properties={"f": SIGNALLING_NAN}),
        *(x(application_properties={"f": AS_FLOAT}), "application-properties['f']"),
    ),
    # NUL: proton 0.39 cuts the text on the wire too.
    (
        *(x(subject="a\0b", content_type="a\0b"), None),
        "properties.subject properties.content-type",
    ),
    # A section that is unknown, and a header with six fields.
    (lenient(b"\0\x53\x79\x40"), x(), "unknown"),
    (lenient(b"\0\x53\x70\xc0\x07\x06\x41" + b"\x40" * 5), x(durable=True), "header"),
    # Several losses in the body, and in different sections.
    (
        *(Message([AmqpSequence([SIGNALLING_NAN]), AmqpSequence([])]),),
        *(Message(AmqpSequence([AS_FLOAT])), "body"),
    ),
    (x(ttl=0, footer={}), x(), "footer header.ttl"),
]


@pytest.mark.parametrize("message, left, paths", LOSSES)
def test_loss_is_refused_or_listed(message: Message, left: Message | None, paths: str) -> None:
    before = message.encode()

    with pytest.raises(EncodeError, match="lossy=True") as caught:
        to_proton(message)

    assert paths.split(maxsplit=1)[0] == caught.value.path
    assert paths.split() == [loss.path for loss in losses(message)]
    converted = from_proton(to_proton(message, lossy=True))
    assert left is None or left == converted
    assert before == message.encode()


def test_error_counts_further_losses_and_describes_each() -> None:
    with pytest.raises(EncodeError, match=r"and 2 more, see losses\(\)"):
        to_proton(x(ttl=0, footer={}, message_format=1))

    for message, loss in (
        (x(footer={}), Loss("footer", "proton has no footer: it is left out")),
        (Message(AmqpValue(None)), Loss("body", "a null value becomes no body at all")),
    ):
        assert (loss,) == losses(message)


@pytest.mark.parametrize(
    "message, path",
    [
        (Message(AmqpMap([([1], 2)])), "body"),
        (Message(AmqpMap([(Described(ULong(1), 1), 2)])), "body"),
        (Message([AmqpMap([(Array("int", [1]), 2)])]), "body"),
        (Message(Array("int", [1], descriptors=[ULong(1), ULong(2)])), "body"),
        (x(message_annotations={"k": AmqpMap([({}, 2)])}), "message-annotations[Symbol('k')]"),
        (Message(list(range(66_000))), ""),
        (x(priority=256), "header.priority"),
        (x(application_properties={"k": [1]}), "application-properties"),
    ],
)
def test_inexpressible_values_are_refused_even_if_lossy(message: Message, path: str) -> None:
    for convert_anyway in (losses, lambda m: to_proton(m, lossy=True)):
        with pytest.raises(EncodeError) as caught:
            convert_anyway(message)

        assert caught.value.path.startswith(path)


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
