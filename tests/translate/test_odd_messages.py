"""Messages that were read leniently, in the hands of what reads their fields: errors as said."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from typing import Any

import pytest

from amqp10msg import (
    AmqpError,
    AmqpMap,
    ContentError,
    DecodeError,
    EncodeError,
    Header,
    Message,
    Properties,
    Symbol,
)
from amqp10msg.delivery import filters
from amqp10msg.interop import jms
from amqp10msg.interop.systems import azure
from amqp10msg.message import checksums
from fuzz.shapes import EDGES

pytestmark = pytest.mark.once

_NESTED = (b"\x00\x53\x01\x40", b"\xd0\0\0\0\x05\0\0\0\x01\x41", b"\xe0\x01\x00")
VALUES = (
    *EDGES,
    *_NESTED,
    b"\xa1\x05abc:d",
    b"\xa1\x10application/json",
    b"\x83\x7f" + b"\xff" * 7,
)
KEYS = (
    *(b"\xa3" + bytes([len(name)]) + name for name in (b"x-opt-crc-32", b"x-opt-jms-msg-type")),
    *(b"\xa3" + bytes([len(name)]) + name for name in (b"x-opt-sequence-number", b"x-opt-offset")),
)


def compound(code: int, values: list[bytes]) -> bytes:
    body = b"".join(values)
    return bytes([code]) + (4 + len(body)).to_bytes(4) + len(values).to_bytes(4) + body


def odd(draw: random.Random) -> bytes:
    """A message whose sections hold anything."""

    def fields(most: int) -> bytes:
        return compound(
            0xD0,
            [
                draw.choice(VALUES) if draw.random() < 0.5 else b"\x40"
                for _ in range(draw.randrange(most))
            ],
        )

    def entries() -> bytes:
        return compound(
            0xD1,
            [value for _ in range(draw.randrange(4)) for value in draw.choices(VALUES + KEYS, k=2)],
        )

    sections = [(0x70, fields(7)), (0x71, entries()), (0x72, entries()), (0x73, fields(15))]
    sections += [(0x74, entries()), (draw.choice((0x75, 0x76, 0x77)), draw.choice(VALUES))]
    sections += [(0x77, draw.choice(VALUES)), (0x78, entries())]
    return b"".join(
        b"\0\x53" + bytes([code]) + octets for code, octets in sections if draw.random() < 0.6
    )


READERS: dict[str, Callable[[Message], Any]] = {
    "to_jms": lambda message: jms.to_jms(message, arrival=5),
    "Selector": filters.Selector(
        "JMSMessageID = 'x' OR JMSCorrelationID LIKE 'a%' OR JMSXUserID = 'x' OR JMSRedelivered "
        "OR JMSXDeliveryCount > 2 OR JMSTimestamp > 5 OR JMSExpiration = 0 OR JMSPriority > 3"
    ).matches,
    "SqlFilter": filters.SqlFilter("properties.message_id = 'x' OR header.priority > 3").matches,
    "sign": lambda message: checksums.sign(message, b"key"),
    "verify": lambda message: checksums.verify(message, b"key"),
    "with_checksum": checksums.with_checksum,
    "expires_at": lambda message: message.expires_at(5),
    "for_next_hop": lambda message: message.for_next_hop(0, 0),
    "text": lambda message: message.text(),
    "json": lambda message: message.json(),
    "broker_fields": azure.broker_fields,
    "scheduled": lambda message: azure.scheduled(message, 5),
}


@pytest.mark.parametrize("name", READERS)
def test_only_errors_of_the_library_are_raised(name: str) -> None:
    draw, count = random.Random(1), 0
    for _ in range(1_500):
        with contextlib.suppress(DecodeError):
            message = Message.decode(odd(draw), strict=False)
            count += 1
            with contextlib.suppress(AmqpError, UnicodeDecodeError):
                READERS[name](message)
    assert count > 1_000


ODD_ID = bytes.fromhex("005373c0020141005377a10178")


def test_an_id_of_another_type_is_null_to_a_selector() -> None:
    message = Message.decode(ODD_ID, strict=False)

    assert not filters.Selector("JMSMessageID = 'x'").matches(message)
    assert filters.Selector("JMSMessageID IS NULL").matches(message)
    with pytest.raises(EncodeError, match=r"properties.message-id"):
        jms.to_jms(message)


def test_a_number_as_user_id_allocates_nothing() -> None:
    """bytes(2 ** 40) would be that many."""
    octets = bytes.fromhex("005373c00b0240800000010000000000" + "005377a10178")
    message = Message.decode(octets, strict=False)

    assert not filters.Selector("JMSXUserID = 'x'").matches(message)
    with pytest.raises(EncodeError, match=r"user-id"):
        jms.to_jms(message)


def test_maps_with_other_keys_are_refused_by_jms_alone() -> None:
    message = Message(AmqpMap([([1], 2)]), message_annotations={"x-opt-jms-msg-type": 2})

    with pytest.raises(ContentError, match="the keys of a JMS map must be text"):
        jms.to_jms(Message.decode(message.encode()))


def test_annotations_that_no_dict_holds_are_kept() -> None:
    message = Message.decode(Message("x", header=Header()).encode(), strict=False)
    message.message_annotations = AmqpMap([([1], 2), (Symbol("a"), 3)])  # type: ignore[assignment]

    changed = Message.decode(azure.with_partition_key(message, "k").encode(), strict=False)

    assert [[1], "a", "x-opt-partition-key"] == list(changed.message_annotations or ())


@pytest.mark.parametrize("ttl", [b"\x41", b"\xa1\x01x"])
def test_ttl_that_is_not_a_number_never_expires(ttl: bytes) -> None:
    octets = b"\0\x53\x70" + compound(0xD0, [b"\x40", b"\x40", ttl]) + b"\0\x53\x77\x40"
    message = Message.decode(octets, strict=False)

    for ask in (
        lambda: message.expires_at(5),
        lambda: message.remaining_ttl(5, 6),
        lambda: message.for_next_hop(5, 6),
    ):
        with pytest.raises(EncodeError, match=r"header.ttl: must be a number, not \w+"):
            ask()


class TestClients:
    """The objects of Azure's clients, and events."""

    @pytest.mark.parametrize(
        "octets",
        [
            "00a310616d71703a646174613a62696e617279a00178",  # symbols as descriptors
            "005377e00100",  # an array without elements
        ],
    )
    @pytest.mark.parametrize("make", ["to_event_data", "to_received"])
    def test_what_a_client_cannot_read(self, octets: str, make: str) -> None:
        pytest.importorskip("azure.eventhub")
        pytest.importorskip("azure.servicebus")
        message = Message.decode(bytes.fromhex(octets), strict=False)

        with contextlib.suppress(ValueError):
            getattr(azure, make)(message)

    def test_bodies_of_several_kinds(self) -> None:
        pytest.importorskip("azure.servicebus")
        octets = bytes.fromhex("005375a00178005377a10178")

        with pytest.raises(ValueError, match="a body with several kinds of sections"):
            azure.to_annotated(Message.decode(octets, strict=False))

    @pytest.mark.parametrize("body", [b"5", b"[" * 3_000, b"[]", b'"x"', b"null", b"{}", b"\xff"])
    def test_bodies_that_are_not_events(self, body: bytes) -> None:
        pytest.importorskip("cloudevents.core")
        from amqp10msg.interop.systems import cloudevents  # noqa: PLC0415

        message = Message(body, properties=Properties(content_type="application/cloudevents+json"))
        exceptions: Any = pytest.importorskip("cloudevents.core.exceptions")

        with pytest.raises((ValueError, exceptions.CloudEventValidationError)):
            cloudevents.from_message(message)

    @pytest.mark.parametrize("value", VALUES, ids=bytes.hex)
    @pytest.mark.parametrize("name", ["id", "source", "specversion", "type", "time", "x"])
    def test_attributes_of_any_type(self, name: str, value: bytes) -> None:
        pytest.importorskip("cloudevents.core")
        from amqp10msg.interop.systems import cloudevents  # noqa: PLC0415

        exceptions: Any = pytest.importorskip("cloudevents.core.exceptions")
        given = dict.fromkeys(("id", "source", "type"), b"\xa1\x01x")
        given |= {"specversion": b"\xa1\x031.0", name: value}
        pairs = []
        for key, held in given.items():
            pairs += [b"\xa1" + bytes([12 + len(key)]) + f"cloudEvents:{key}".encode(), held]
        octets = b"\0\x53\x74" + compound(0xD1, pairs) + b"\0\x53\x75\xa0\x01x"
        with contextlib.suppress(DecodeError):
            message = Message.decode(octets, strict=False)
            cloudevents.mode_of(message)
            with contextlib.suppress(ValueError, exceptions.CloudEventValidationError):
                cloudevents.from_message(message)
