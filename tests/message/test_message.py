"""Messages: building, decoding, keeping bytes, and what users ask of them."""

from __future__ import annotations

import copy
import datetime
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg import (
    AmqpSequence,
    AmqpValue,
    ApplicationProperties,
    ContentError,
    Data,
    DeliveryAnnotations,
    EncodeError,
    Float,
    Footer,
    Header,
    Int,
    Message,
    MessageAnnotations,
    Properties,
    Symbol,
    Timestamp,
    UInt,
    ULong,
    scan,
)

# A message in encodings that this library would not choose: list32 with an explicit default and a
# trailing null, a symbolic descriptor, map32, wide uint, str32, vbin32, two Data sections.
HEADER = bytes.fromhex("005370d00000000d00000004425004700000000040")
APPLICATION_PROPERTIES = b"\x00\xa3\x1famqp:application-properties:map" + bytes.fromhex(
    "d10000001300000004a1016b7000000001b1000000016c41"
)
BODY = bytes.fromhex("005375b00000000161") + bytes.fromhex("005375a00162")
FOOTER = bytes.fromhex("005378c10d02a307782d6f70742d66a10166")
WIDE = HEADER + APPLICATION_PROPERTIES + BODY + FOOTER
UTC = datetime.UTC


def test_reads_naturally() -> None:
    message = Message(body="text", properties=Properties(message_id="m-1"))

    assert message.body == AmqpValue("text")
    assert message.encode().hex() == "005373c00601a1036d2d31" + "005377a10474657874"
    assert message == Message.decode(message.encode())


@pytest.mark.parametrize(
    "given, body",
    [
        ("text", AmqpValue("text")),
        (b"octets", Data(b"octets")),
        (bytearray(b"octets"), Data(b"octets")),
        (memoryview(b"octets"), Data(b"octets")),
        ([1, 2], AmqpValue([1, 2])),
        ([], AmqpValue([])),
        ({"a": 1}, AmqpValue({"a": 1})),
        (5, AmqpValue(5)),
        (Data(b"x"), Data(b"x")),
        ([Data(b"x"), Data(b"y")], [Data(b"x"), Data(b"y")]),
        ([AmqpSequence([1]), AmqpSequence([2])], [AmqpSequence([1]), AmqpSequence([2])]),
        (None, None),
    ],
)
def test_bodies(given: Any, body: Any) -> None:
    message = Message(body=given)

    assert body == message.body
    assert body == Message.decode(message.encode()).body


def test_plain_dicts_are_accepted_as_sections() -> None:
    message = Message(
        delivery_annotations={"x-opt-d": 1},
        message_annotations={"x-opt-m": 1, 5: "ulong key"},
        application_properties={"a": UInt(1)},
        footer={"x-opt-f": 1},
    )
    decoded = Message.decode(message.encode())

    assert type(message.application_properties) is ApplicationProperties
    assert decoded.delivery_annotations == DeliveryAnnotations({"x-opt-d": 1})
    assert decoded.message_annotations == MessageAnnotations({"x-opt-m": 1, 5: "ulong key"})
    assert decoded.footer == Footer({"x-opt-f": 1})
    assert decoded.message_annotations is not None
    assert [type(key) for key in decoded.message_annotations] == [Symbol, ULong]
    assert decoded.application_properties is not None
    assert type(decoded.application_properties["a"]) is UInt


def test_assigned_plain_values_are_encoded() -> None:
    message = Message()
    message.body = "text"  # type: ignore[assignment]
    message.application_properties = {"a": 1}  # type: ignore[assignment]

    assert message == Message(body="text", application_properties={"a": 1})


def test_datetimes_become_milliseconds() -> None:
    moment = datetime.datetime(2024, 2, 3, 4, 5, 6, 789_999, tzinfo=UTC)
    properties = Properties(creation_time=moment)

    assert properties.creation_time == 1706933106789
    properties.absolute_expiry_time = moment  # type: ignore[assignment]
    decoded = Message.decode(Message(properties=properties).encode())
    assert decoded.properties == Properties(
        creation_time=1706933106789, absolute_expiry_time=1706933106789
    )
    for name in ("creation_time", "absolute_expiry_time"):
        naive: Any = datetime.datetime(2024, 2, 3)  # noqa: DTZ001
        with pytest.raises(EncodeError, match="needs a time zone") as caught:
            Properties(**{name: naive})
        assert f"properties.{name.replace('_', '-')}" == caught.value.path


# Keeping bytes.


def read_everything(message: Message) -> None:
    repr(message)
    message.sections()
    for section in (message.message_annotations, message.application_properties, message.footer):
        for key, value in (section or {}).items():
            repr((key, value))


def test_unchanged_message_keeps_its_bytes() -> None:
    for data in (WIDE, bytearray(WIDE), memoryview(WIDE)):
        message = Message.decode(data)
        read_everything(message)

        assert WIDE == message.encode()
        assert APPLICATION_PROPERTIES + BODY == message.bare


@pytest.mark.parametrize(
    "change, before, after",
    [
        (lambda m: setattr(m.header, "priority", 5), b"", APPLICATION_PROPERTIES + BODY + FOOTER),
        (lambda m: setattr(m, "header", None), b"", APPLICATION_PROPERTIES + BODY + FOOTER),
        (lambda m: m.application_properties.update(k=UInt(2)), HEADER, BODY + FOOTER),
        (lambda m: m.application_properties.update(k=1), HEADER, BODY + FOOTER),
        (lambda m: m.application_properties.pop("k"), HEADER, BODY + FOOTER),
        (lambda m: m.body.pop(), HEADER + APPLICATION_PROPERTIES, FOOTER),
        (
            lambda m: setattr(m.body[0], "data", b"c"),
            HEADER + APPLICATION_PROPERTIES,
            FOOTER,
        ),
        (lambda m: setattr(m, "body", None), HEADER + APPLICATION_PROPERTIES, FOOTER),
        (
            lambda m: m.footer.update({"x-opt-f": Symbol("f")}),
            HEADER + APPLICATION_PROPERTIES + BODY,
            b"",
        ),
        (
            lambda m: setattr(m, "properties", Properties(to="q")),
            HEADER,
            APPLICATION_PROPERTIES + BODY + FOOTER,
        ),
        (
            lambda m: setattr(m, "delivery_annotations", DeliveryAnnotations({"x-opt-a": 1})),
            HEADER,
            APPLICATION_PROPERTIES + BODY + FOOTER,
        ),
    ],
)
def test_a_change_touches_its_section_alone(change: Any, before: bytes, after: bytes) -> None:
    message = Message.decode(WIDE)
    change(message)
    encoded = message.encode()

    assert encoded != WIDE
    assert encoded.startswith(before)
    assert encoded.endswith(after)
    assert message == Message.decode(encoded)


def test_reverted_change_restores_the_bytes() -> None:
    message = Message.decode(WIDE)
    assert message.application_properties is not None
    message.application_properties["k"] = 1
    message.application_properties["k"] = UInt(1)

    assert WIDE == message.encode()


def test_order_of_entries_counts() -> None:
    message = Message.decode(WIDE)
    assert message.application_properties is not None
    message.application_properties["k"] = message.application_properties.pop("k")

    assert message.encode() != WIDE


def test_added_sections_are_in_order() -> None:
    message = Message.decode(BODY)
    message.header = Header(durable=True)
    message.footer = Footer({"x-opt-f": 1})
    message.properties = Properties(subject="s")
    names = [part.name for part in scan(message.encode())]

    assert ["header", "properties", "data", "data", "footer"] == names
    bodiless = Message.decode(HEADER + FOOTER)
    bodiless.body = Data(b"x")
    assert ["header", "data", "footer"] == [part.name for part in scan(bodiless.encode())]


def test_change_in_a_large_body_is_noticed() -> None:
    message = Message.decode(Message(body=b"x" * 100_000).encode())
    message.body = Data(b"x" * 99_999 + b"y")

    assert Message.decode(message.encode()).body_bytes() == b"x" * 99_999 + b"y"


def test_body_can_be_replaced_by_another_kind() -> None:
    message = Message.decode(bytes.fromhex("005375a000"))
    message.body = AmqpValue(1)

    assert message.encode() == bytes.fromhex("0053775501")


def test_zero_octets_are_a_message_without_sections() -> None:
    message = Message.decode(b"")

    assert message == Message()
    assert message.encode() == b""
    assert message.bare == b""


# What a message can do.


def test_equality_is_of_values_and_types() -> None:
    assert Message.decode(HEADER) == Message(header=Header(priority=4, ttl=0))
    assert Message(body=1) == Message(body=1)
    assert Message(body=1) != Message(body=UInt(1))
    assert Message(body=0.0) != Message(body=-0.0)
    assert Message(body=float("nan")) == Message(body=float("nan"))
    assert Message(body=1) != Message(body=1, message_format=1)
    assert Message(body=1) != 1


def test_repr_shows_only_present_sections() -> None:
    message = Message(
        body="x", header=Header(durable=True), properties=Properties(to="q"), message_format=1
    )

    assert (
        "Message(body=AmqpValue(value='x'), header=Header(durable=True), "
        "properties=Properties(to='q'), message_format=0x1)"
    ) == repr(message)


def test_copies() -> None:
    message = Message.decode(WIDE, message_format=7)

    for other in (copy.copy(message), copy.deepcopy(message), pickle.loads(pickle.dumps(message))):
        assert message == other
        assert WIDE == other.encode()
        assert other.message_format == 7


def test_evolve() -> None:
    message = Message.decode(WIDE)
    evolved = message.evolve(header=None, body="new")

    assert evolved.header is None
    assert evolved.body == AmqpValue("new")
    assert WIDE == message.encode()
    assert evolved.encode().startswith(APPLICATION_PROPERTIES)
    with pytest.raises(TypeError, match="colour"):
        message.evolve(colour=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="_wire"):
        message.evolve(_wire=b"")  # type: ignore[call-arg]


def test_subclasses_decode_to_themselves() -> None:
    class Order(Message):
        __slots__ = ()

    assert type(Order.decode(WIDE)) is Order
    assert type(Order.decode(b"\x43", strict=False)) is Order


@pytest.mark.parametrize(
    "body, text",
    [
        ("text", "text"),
        (b"text", "text"),
        ([Data(b"te"), Data(b"xt")], "text"),
        (AmqpValue(b"text"), "text"),
        (AmqpValue(Symbol("text")), "text"),
        (None, ""),
    ],
)
def test_text_of_any_body(body: Any, text: str) -> None:
    message = Message(body=body)

    assert text == message.text()
    assert text.encode() == message.body_bytes()


def test_text_in_another_encoding() -> None:
    assert Message(body="ü".encode("latin-1")).text("latin-1") == "ü"
    with pytest.raises(ValueError, match="neither bytes nor text"):
        Message(body=[1]).text()
    with pytest.raises(ContentError, match="byte 0 of the body is not valid utf-8: pass enc"):
        Message(body=b"\xff").text()


@pytest.mark.parametrize("charset", ["undefined", "idna", "punycode", "a\0b", "no-such", "hex"])
def test_unknown_charset_of_a_peer_is_a_content_error(charset: str) -> None:
    properties = Properties(content_type=f"text/plain; charset={charset}")
    with pytest.raises(ContentError, match="pass encoding="):
        Message(b"xn--a-ecp.ru-\\.", properties=properties).text()


def test_unreadable_json_is_a_content_error() -> None:
    for body in (b"1" * 5000, b"[1,", b"\xff", b"[" * 100_000):
        with pytest.raises(ContentError):
            Message(body).json()


def test_plain_application_properties() -> None:
    message = Message(
        application_properties={
            "u": UInt(1),
            "f": Float(0.5),
            "s": Symbol("s"),
            "t": Timestamp(1000),
            "far": Timestamp(2**62),
        }
    )
    plain = message.plain_application_properties()

    assert {
        "u": 1,
        "f": 0.5,
        "s": "s",
        "t": datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
        "far": 2**62,
    } == plain
    assert [int, float, str, datetime.datetime, int] == [type(value) for value in plain.values()]
    assert type(plain) is dict
    assert Message().plain_application_properties() == {}


def test_expiry() -> None:
    arrival = datetime.datetime(2024, 1, 1, tzinfo=UTC)
    ttl = Message(header=Header(ttl=1500))
    both = Message(header=Header(ttl=1500), properties=Properties(absolute_expiry_time=1_000))

    assert arrival + datetime.timedelta(milliseconds=1500) == ttl.expires_at(arrival)
    assert ttl.expires_at(500) == 2_000
    assert both.expires_at(500) == 1_000
    assert Message().expires_at(500) is None
    assert ttl.remaining_ttl(500, 700) == 1_300
    assert ttl.remaining_ttl(500, 5_000) == 0
    assert ttl.remaining_ttl(500, 400) == 1_500  # the clock was set back
    assert Message().remaining_ttl(0, 1) is None


def test_next_hop() -> None:
    message = Message.decode(
        Message(
            body="x",
            header=Header(ttl=1000, durable=True),
            delivery_annotations={"x-opt-d": 1},
            message_annotations={"x-opt-m": Int(1)},
        ).encode()
    )
    sent = message.for_next_hop(arrival=0, now=400)

    assert sent.header == Header(ttl=600, durable=True)
    assert sent.delivery_annotations is None
    assert sent.message_annotations == message.message_annotations
    assert sent.bare == message.bare
    assert message.header == Header(ttl=1000, durable=True)


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
@given(st.text(min_size=1), st.integers(1, 9))
def test_compressed_bytes_without_content_encoding_are_hinted_at(
    coding: Any, text: str, level: int
) -> None:
    octets = Message(text=text).compressed(coding, level=level).body_bytes()
    message = Message(octets, properties=Properties())
    # Other levels than 1, 6 and 9 of deflate have first bytes that may be text.
    try:
        octets.decode()
    except UnicodeDecodeError:
        with pytest.raises(ContentError) as caught:
            message.text()
        is_hinted = f"it looks like {coding}: decompress content()" in str(caught.value)
        assert is_hinted or octets[:2] == b"\x78\x5e"
    assert message.properties is not None
    message.properties.content_encoding = Symbol(coding)
    assert text == message.decompressed().text()
