"""The older content of AMQP 0-9, and the adapters to pika and pamqp."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from amqp10msg import DecodeError, EncodeError, Message
from amqp10msg.basic import (
    BasicMessage,
    BasicProperties,
    FieldArray,
    FieldTable,
    ScaledDecimal,
    encode_properties,
)
from amqp10msg.basic.adapters import lost_in_pamqp, lost_in_pika
from amqp10msg.basic.classes import (
    CLASSES,
    FileProperties,
    StreamProperties,
    Transfer,
    TunnelProperties,
    decode_class_header,
    decode_transfer,
    encode_class_header,
    encode_transfer,
    to_basic_message,
)
from amqp10msg.testing import basic_properties, field_tables
from amqp10msg.translate import to_amqp10, to_basic

_VALUES: dict[str, Any] = {
    "shortstr": st.text(max_size=60),
    "table": field_tables(),
    "octet": st.integers(0, 255),
    "timestamp": st.integers(0, 2**64 - 1),
}


def contents() -> st.SearchStrategy[Any]:
    kinds = [
        st.builds(cls, **{row.name: st.none() | _VALUES[row.domain] for row in layout.rows})
        for cls, layout in CLASSES.values()
    ]
    return st.one_of(*kinds)


def transfers() -> st.SearchStrategy[Transfer]:
    texts = st.text(max_size=20)
    names = ("destination", "exchange", "routing_key", "message_id", "reply_to", "transaction_id")
    return st.builds(
        Transfer,
        ticket=st.integers(0, 2**16 - 1),
        redelivered=st.booleans(),
        immediate=st.booleans(),
        ttl=st.integers(0, 2**64 - 1),
        priority=st.integers(0, 255),
        timestamp=st.integers(0, 2**64 - 1),
        delivery_mode=st.integers(0, 255),
        expiration=st.integers(0, 2**64 - 1),
        security_token=st.binary(max_size=20),
        application_headers=field_tables(),
        body=st.binary(max_size=20),
        by_reference=st.booleans(),
        **dict.fromkeys(names, texts),
    )


@given(contents(), st.integers(0, 2**64 - 1))
def test_properties_of_older_classes_round_trip(content: Any, size: int) -> None:
    assert (content, size) == decode_class_header(encode_class_header(content, size))


@given(transfers())
def test_transfer_round_trips(transfer: Transfer) -> None:
    assert transfer == decode_transfer(encode_transfer(transfer))


def test_undefined_bits_and_kinds_of_body_are_refused() -> None:
    octets = encode_transfer(Transfer())
    bits_offset, kind_offset = 3, len(octets) - 5
    for octet in range(256):
        bits = octets[:bits_offset] + bytes([octet]) + octets[bits_offset + 1 :]
        kind = octets[:kind_offset] + bytes([octet]) + octets[kind_offset + 1 :]
        if octet <= 3:
            transfer = decode_transfer(bits)
            assert octet == transfer.redelivered + 2 * transfer.immediate
        else:
            with pytest.raises(DecodeError) as caught:
                decode_transfer(bits)
            assert ("bits", bits_offset) == (caught.value.rule, caught.value.offset)
        if octet <= 1:
            assert bool(octet) == decode_transfer(kind).by_reference
        else:
            with pytest.raises(DecodeError) as caught:
                decode_transfer(kind)
            assert ("content-kind", kind_offset) == (caught.value.rule, caught.value.offset)


@given(st.one_of(contents(), transfers()), st.data())
def test_truncated_older_content_is_refused(content: Any, data: Any) -> None:
    is_transfer = isinstance(content, Transfer)
    octets = encode_transfer(content) if is_transfer else encode_class_header(content)
    decode = decode_transfer if is_transfer else decode_class_header
    cut = octets[: data.draw(st.integers(0, len(octets) - 1))]
    with pytest.raises(DecodeError):
        decode(cut)
    with pytest.raises(DecodeError):
        decode(octets + b"\0")


@given(st.one_of(contents(), transfers()))
def test_older_content_round_trips_through_1_0(content: Any) -> None:
    basic = to_basic_message(content, b"x")
    received = Message.decode(to_amqp10(basic).message.encode())
    back = to_basic(received).message

    assert encode_properties(basic.properties) == encode_properties(back.properties)
    assert basic.body == back.body


def test_every_field_is_mapped_or_carried() -> None:
    filled = FileProperties("a/b", "gzip", FieldTable({"k": 1}), 5, "r", "m", "f.txt", 7, "c")
    made = to_basic_message(filled).properties
    assert FieldTable.of([("k", "b", 1), ("amqp-0-9.filename", "S", "f.txt")]) == made.headers
    assert ("a/b", "gzip", 5, "r", "m", 7, "c") == (
        *(made.content_type, made.content_encoding, made.priority, made.reply_to),
        *(made.message_id, made.timestamp, made.cluster_id),
    )
    tunnel = to_basic_message(TunnelProperties(None, "p", "d", 1, 1)).properties
    assert 2 == tunnel.delivery_mode
    assert ["amqp-0-9.proxy-name", "amqp-0-9.data-name", "amqp-0-9.broadcast"] == list(
        tunnel.headers or {}
    )
    assert 5 == to_basic_message(StreamProperties(priority=5)).properties.priority
    transfer = Transfer(ticket=1, destination="d", immediate=True, ttl=9, expiration=8, body=b"b")
    basic = to_basic_message(transfer)
    assert ("9", b"b") == (basic.properties.expiration, basic.body)
    assert {
        "amqp-0-9.ticket": 1,
        "amqp-0-9.destination": "d",
        "amqp-0-9.immediate": True,
        "amqp-0-9.expiration": 8,
    } == dict(basic.properties.headers or {})


@pytest.mark.parametrize(
    "octets, rule",
    [
        ("003c0000" + "00" * 10, "content-class"),
        ("00460001" + "00" * 10, "content-weight"),
        ("00460000" + "00" * 8 + "0001", "property-flags"),
    ],
)
def test_headers_of_other_classes(octets: str, rule: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode_class_header(bytes.fromhex(octets))

    assert rule == caught.value.rule


def test_wrong_older_content() -> None:
    with pytest.raises(EncodeError):
        encode_class_header(BasicProperties())  # type: ignore[arg-type]
    with pytest.raises(EncodeError, match="ticket"):
        encode_transfer(Transfer(ticket=2**16))
    with pytest.raises(TypeError):
        to_basic_message(BasicProperties())  # type: ignore[arg-type]


# Adapters.


def test_pika_properties_round_trip() -> None:
    pika = pytest.importorskip("pika")
    given_properties = pika.BasicProperties(
        content_type="a/b",
        headers={
            "i": 5,
            "big": 2**40,
            "s": "t",
            "b": b"x",
            "d": 1.5,
            "n": None,
            "l": [1],
            "f": {"k": 1},
        },
        delivery_mode=2,
        timestamp=7,
        type="t",
        app_id="a",
    )
    basic = BasicMessage.from_pika(given_properties, b"body")

    assert isinstance(basic.properties.headers, FieldTable)
    assert "IlSxdVAF" == "".join(letter for _, letter, _ in basic.properties.headers.entries)
    assert ["headers['d']: pika cannot write floating-point numbers"] == lost_in_pika(
        basic.properties
    )
    assert given_properties == basic.to_pika()


# Moments inside of arrays and tables, where their letters alone tell them from numbers.
MOMENTS = BasicProperties(
    headers=FieldTable.of(
        [
            ("array", "A", FieldArray.of([("T", 0), ("I", 0)])),
            ("table", "F", FieldTable.of([("moment", "T", 1), ("number", "I", 1)])),
            ("deep", "A", FieldArray.of([("F", FieldTable.of([("moment", "T", 2)]))])),
        ]
    )
)


@given(basic_properties())
@example(MOMENTS)
@example(BasicProperties(headers={"d": 1.5}))
@example(BasicProperties(headers=FieldTable.of([("l", "l", 5), ("a", "A", [5, 2**40])])))
@example(BasicProperties(headers=FieldTable.of([("a", "D", ScaledDecimal(2, 100))])))
@example(BasicProperties(reply_to="\udcff"))
def test_pika_writes_all_properties_without_a_reported_loss(properties: BasicProperties) -> None:
    pytest.importorskip("pika")
    if not lost_in_pika(properties):
        octets = b"".join(BasicMessage(properties).to_pika().encode())
        assert encode_properties(properties) == octets


@given(basic_properties())
@example(MOMENTS)
@example(BasicProperties(headers=FieldTable.of([("a", "x", b"\xff")]), content_type=""))
@example(BasicProperties(headers=FieldTable.of([("b", "V", None), ("a", "V", None)])))
@example(BasicProperties(headers=FieldTable.of([("n" * 129, "V", None)]), cluster_id=""))
@example(BasicProperties(headers=FieldTable.of([("\udcff", "S", "\udcff")]), delivery_mode=3))
def test_pamqp_writes_all_properties_without_a_reported_loss(properties: BasicProperties) -> None:
    pytest.importorskip("pamqp.commands")
    if not lost_in_pamqp(properties):
        assert encode_properties(properties) == BasicMessage(properties).to_pamqp().marshal()


def test_text_in_a_field_of_bytes_stays_text_for_pamqp() -> None:
    """Where `lost_in_pamqp` says that it becomes "S"."""
    pytest.importorskip("pamqp.commands")
    properties = BasicProperties(headers=FieldTable.of([("a", "x", "text")]))

    assert {"a": "text"} == BasicMessage(properties).to_pamqp().headers


def test_a_long_integer_stays_one_through_pika() -> None:
    """Those of RabbitMQ's own headers are, such as the counts of x-death."""
    pika = pytest.importorskip("pika")
    properties = BasicProperties(headers=FieldTable.of([("count", "l", 1)]))
    read = pika.BasicProperties()
    read.decode(encode_properties(properties))

    assert properties == BasicMessage.from_pika(read).properties
    assert "[('count', 'l', 1)]" in repr(BasicMessage.from_pika(read).properties)
    assert [] == lost_in_pika(properties)


@pytest.mark.parametrize(
    "properties",
    [
        BasicProperties(headers=FieldTable.of([("b", "V", None), ("a", "V", None)])),
        BasicProperties(headers=FieldTable.of([("n" * 129, "V", None)])),
        BasicProperties(headers=FieldTable.of([("a", "S", "\udcff")])),
        BasicProperties(headers=FieldTable.of([("\udcff", "V", None)])),
        BasicProperties(user_id="\udcff"),
        BasicProperties(content_type=""),
        BasicProperties(cluster_id=""),
        BasicProperties(delivery_mode=0),
    ],
)
def test_loss_in_pamqp_is_reported(properties: BasicProperties) -> None:
    assert 1 == len(lost_in_pamqp(properties))


def test_pamqp_properties_round_trip() -> None:
    commands = pytest.importorskip("pamqp.commands")
    moment = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    given_properties = commands.Basic.Properties(
        content_type="a/b", headers={"i": 5, "t": moment}, timestamp=moment, message_type="t"
    )
    basic = BasicMessage.from_pamqp(given_properties, b"body")

    assert ("t", int(moment.timestamp())) == (basic.properties.type, basic.properties.timestamp)
    assert [] == lost_in_pamqp(basic.properties)
    assert given_properties.marshal() == basic.to_pamqp().marshal()
    again = BasicMessage.from_pamqp(BasicMessage(MOMENTS).to_pamqp(), b"")
    headers = again.properties.headers
    assert isinstance(headers, FieldTable)
    assert ("T", 0) == headers["array"].entries[0]
    assert ("moment", "T", 1) == headers["table"].entries[0]
    assert ("moment", "T", 2) == headers["deep"][0].entries[0]


def test_losses_in_libraries_are_reported() -> None:
    properties = BasicProperties(
        headers=FieldTable.of([("k", "L", 5), ("k", "I", 5), ("b", "b", 1)]),
        timestamp=2**60,
        cluster_id="c",
    )

    assert 3 == len(lost_in_pika(properties))
    assert [*3 * ["headers['k']"], "headers", "cluster-id", "timestamp"] == [
        line.partition(":")[0] for line in lost_in_pamqp(properties)
    ]
