"""Azure Service Bus and Event Hubs: their annotations, and the objects of their clients."""

from __future__ import annotations

import datetime
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg import (
    AmqpSequence,
    AmqpValue,
    Array,
    Byte,
    Char,
    Data,
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
    validate,
)
from amqp10msg.interop.systems import azure
from amqp10msg.message import batch
from amqp10msg.testing import messages
from tests.interop.azure_clients import sent

MOMENT = datetime.datetime(2026, 7, 1, 12, tzinfo=datetime.UTC)
MS = int(Timestamp.from_datetime(MOMENT))
TOKEN = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")
RECEIVED = Message(
    b"hello",
    header=Header(ttl=60_000, delivery_count=2),
    delivery_annotations={"x-opt-lock-token": TOKEN},
    message_annotations={
        "x-opt-sequence-number": 7,
        "x-opt-enqueue-sequence-number": 5,
        "x-opt-enqueued-time": Timestamp(MS),
        "x-opt-locked-until": Timestamp(MS + 30_000),
        "x-opt-scheduled-enqueue-time": Timestamp(MS - 1),
        "x-opt-partition-key": "p",
        "x-opt-via-partition-key": "v",
        "x-opt-partition-id": Short(3),
        "x-opt-deadletter-source": "q",
        "x-opt-message-state": Int(1),
        "x-opt-offset": "4096",
        "x-opt-publisher": "me",
    },
    properties=Properties(message_id="m", group_id="s"),
    application_properties={"DeadLetterReason": "old", "DeadLetterErrorDescription": "too old"},
)


# Fields.


def test_fields_of_a_received_message() -> None:
    expected = azure.BrokerFields(
        sequence_number=7,
        enqueued_sequence_number=5,
        enqueued_time=MS,
        offset="4096",
        locked_until=MS + 30_000,
        lock_token=TOKEN,
        scheduled_enqueue_time=MS - 1,
        partition_key="p",
        via_partition_key="v",
        partition_id=3,
        publisher="me",
        state="deferred",
        dead_letter_source="q",
        dead_letter_reason="old",
        dead_letter_error_description="too old",
        session_id="s",
        delivery_count=2,
        expires_at=MS + 60_000,
    )
    assert expected == azure.broker_fields(Message.decode(RECEIVED.encode()))
    assert azure.BrokerFields() == azure.broker_fields(Message("x"))


@given(messages())
def test_any_message_has_fields(message: Message) -> None:
    assert isinstance(azure.broker_fields(message), azure.BrokerFields)


def test_fields_of_other_types_are_passed_over() -> None:
    odd = {"x-opt-sequence-number": "1:2", "x-opt-partition-key": [5], "x-opt-message-state": 9}
    message = Message("x", message_annotations=odd)
    assert azure.BrokerFields() == azure.broker_fields(message)


def test_broker_fields_of_a_sender() -> None:
    message = Message(b"x", message_annotations={"x-opt-a": 1})
    made = azure.with_partition_key(azure.scheduled(message, MOMENT), "p", via="v")

    fields = azure.broker_fields(Message.decode(made.encode()))
    assert (MS, "p", "v") == (
        *(fields.scheduled_enqueue_time, fields.partition_key),
        fields.via_partition_key,
    )
    assert made.message_annotations is not None
    assert 1 == made.message_annotations["x-opt-a"]
    assert [] == validate(made, "azure")
    assert azure.scheduled(message, MS) == azure.scheduled(message, MOMENT)
    with pytest.raises(ValueError, match="128 characters, not 129"):
        azure.with_partition_key(message, "x" * 129)
    with pytest.raises(ValueError, match="time zone"):
        azure.scheduled(message, MOMENT.replace(tzinfo=None))


# The clients.

texts = st.text(st.characters(codec="utf-8"))
simple: st.SearchStrategy[Any] = (
    st.none()
    | st.booleans()
    | texts
    | st.binary()
    | st.uuids()
    | st.floats(allow_nan=False)
    | st.integers(-(2**63), 2**63 - 1)
    | st.integers(-(2**63), 2**63 - 1).map(Timestamp)
    | st.integers(0, 255).map(UByte)
    | st.integers(0, 2**16 - 1).map(UShort)
    | st.integers(0, 2**32 - 1).map(UInt)
    | st.integers(0, 2**64 - 1).map(ULong)
    | st.integers(-128, 127).map(Byte)
    | st.integers(-(2**31), 2**31 - 1).map(Int)
    | st.floats(width=32, allow_nan=False).map(Float)
    | st.text("abc-").map(Symbol)
)
nested = st.recursive(
    simple, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3)
)
#: What the clients write as it is where it is a whole body; they leave out what is empty.
valuable: st.SearchStrategy[Any] = (
    texts.filter(bool)
    | st.binary(min_size=1)
    | st.uuids()
    | st.just(True)
    | st.floats(allow_nan=False).filter(bool)
    | st.integers(-(2**31), 2**31 - 1).filter(bool).map(Int)
    | st.lists(nested, min_size=1)
    | st.dictionaries(texts, nested, min_size=1)
)
named = st.dictionaries(st.text("abcxyz", min_size=1), simple, min_size=1, max_size=3)


def bodies() -> st.SearchStrategy[Any]:
    return st.one_of(
        valuable.map(AmqpValue),
        st.binary(min_size=1).map(Data),
        st.lists(st.binary(min_size=1).map(Data), min_size=2, max_size=3),
        st.lists(nested, min_size=1, max_size=3).map(AmqpSequence),
    )


sendable = st.builds(
    Message,
    bodies(),
    properties=st.none()
    | st.builds(
        Properties,
        message_id=texts | st.uuids(),
        subject=st.none() | texts,
        creation_time=st.none() | st.integers(1, 2**40),
        group_sequence=st.none() | st.integers(0, 2**32 - 1),
        user_id=st.none() | st.binary(min_size=1),
    ),
    application_properties=st.none() | named,
    message_annotations=st.none()
    | named.map(lambda found: {Symbol(f"x-opt-{key}"): value for key, value in found.items()}),
)


@pytest.mark.parametrize("service", ["servicebus", "eventhub"])
@given(message=sendable)
def test_client_sends_the_same_message(service: Any, message: Message) -> None:
    pytest.importorskip(f"azure.{service}", reason=f"azure-{service} is not installed")
    annotated = azure.to_annotated(message, service)

    received = Message.decode(sent(annotated, service))
    assert message == received
    assert message == azure.from_client(annotated)


def test_values_that_azure_clients_cannot_write() -> None:
    pytest.importorskip("azure.servicebus", reason="azure-servicebus is not installed")
    others: list[Any] = [Array("int", [1]), Char("a"), [Char("a")], None, [], UInt(1), {1: 1}]
    for value in others:
        with pytest.raises(ValueError, match="clients of Azure cannot write"):
            azure.to_annotated(Message(AmqpValue(value)))
    with pytest.raises(TypeError, match="not a message of Azure's clients: int"):
        azure.from_client(5)


def test_a_received_message_of_service_bus() -> None:
    pytest.importorskip("azure.servicebus", reason="azure-servicebus is not installed")
    made = azure.to_received(RECEIVED)
    fields = azure.broker_fields(RECEIVED)

    assert fields.sequence_number == made.sequence_number
    assert fields.enqueued_sequence_number == made.enqueued_sequence_number
    assert fields.lock_token == made.lock_token
    assert fields.dead_letter_reason == made.dead_letter_reason
    assert fields.dead_letter_error_description == made.dead_letter_error_description
    assert fields.dead_letter_source == made.dead_letter_source
    assert fields.partition_key == made.partition_key
    assert fields.session_id == made.session_id
    assert fields.state == made.state.name.lower()
    assert fields.delivery_count == made.delivery_count
    assert MOMENT == made.enqueued_time_utc
    assert MOMENT + datetime.timedelta(seconds=30) == made.locked_until_utc
    assert MOMENT + datetime.timedelta(seconds=60) == made.expires_at_utc
    back = azure.from_client(made)
    assert fields == azure.broker_fields(back)
    assert RECEIVED.body == Data(back.body_bytes())


def test_losses_in_azure_clients() -> None:
    pytest.importorskip("azure.servicebus", reason="azure-servicebus is not installed")
    message = Message(
        [Data(b"a"), Data(b"b")],
        properties=Properties(message_id="m", subject="s"),
        application_properties={"n": UInt(5), "f": Float(1.5), "s": "text", "b": b"abc"},
        message_annotations={"x-opt-a": "text"},
        message_format=0x80013700,
    )

    assert [
        "application-properties['n']: uint 5 becomes long 5",
        "application-properties['f']: float 1.5 becomes double 1.5",
        "application-properties['b']: binary '616263' becomes string 'abc'",
        "message-format: uint 2147563264 becomes nothing",
    ] == azure.lost_in_client(message)


@given(message=messages())
def test_unlisted_values_survive_azure_clients(message: Message) -> None:
    pytest.importorskip("azure.servicebus", reason="azure-servicebus is not installed")
    try:
        lost = azure.lost_in_client(message)
    except ValueError:
        return  # the client cannot read it
    if not lost:
        assert message == azure.from_client(azure.to_received(message))


# Values that no section of a message may be, or have as a key.
_ODD = [
    *("40", "41", "43", "45", "c10100", "a10161", "a0", "a001ff", "5405", "5305", "727fc00000"),
    *("98" + "01" * 16, "c003015401", "e00402a10163", "0053704101", "837fffffffffffffff"),
]


@st.composite
def odd_messages(draw: st.DrawFn) -> bytes:
    """Draw the bytes of a message whose sections are other values, and its keys."""
    octets = b""
    for code in sorted(draw(st.sets(st.sampled_from(range(0x70, 0x79)), min_size=1))):
        value = bytes.fromhex(draw(st.sampled_from(_ODD)))
        if draw(st.booleans()):
            pair = value + bytes.fromhex(draw(st.sampled_from(_ODD)))
            value = bytes((0xC1, len(pair) + 1, 2)) + pair
        octets += bytes((0, 0x53, code)) + value
    return octets


@pytest.mark.parametrize("service", ["servicebus", "eventhub"])
@given(octets=odd_messages())
def test_messages_that_are_read_leniently(service: azure.Service, octets: bytes) -> None:
    pytest.importorskip(f"azure.{service}", reason="the client is not installed")
    try:
        message = Message.decode(octets, strict=False)
        azure.lost_in_client(message, service)
    except ValueError:
        pass  # nothing of it can be read, or the client cannot


def test_data_that_is_not_binary_is_refused() -> None:
    # A number as the value of a data section, of which bytes() makes so many zeros.
    pytest.importorskip("azure.servicebus", reason="azure-servicebus is not installed")
    message = Message.decode(bytes.fromhex("0053755405"), strict=False)

    with pytest.raises(EncodeError, match="must be binary, not 5"):
        azure.from_client(azure.to_received(message)).encode()


def test_a_received_event() -> None:
    pytest.importorskip("azure.eventhub", reason="azure-eventhub is not installed")
    made = azure.to_event_data(RECEIVED)

    assert (7, "4096", b"p") == (made.sequence_number, made.offset, made.partition_key)
    assert MOMENT == made.enqueued_time
    assert "hello" == made.body_as_str()
    assert azure.broker_fields(RECEIVED) == azure.broker_fields(azure.from_client(made))


def test_messages_that_an_application_builds() -> None:
    servicebus = pytest.importorskip("azure.servicebus", reason="azure-servicebus is not installed")
    given_ = servicebus.ServiceBusMessage(
        "hello",
        application_properties={"a": "b", "n": 5},
        session_id="s",
        message_id="m",
        partition_key="s",
        scheduled_enqueue_time_utc=MOMENT,
    )
    made = azure.from_client(given_)

    assert ("hello", {"a": "b", "n": 5}) == (made.text(), made.application_properties)
    assert "m" == (made.properties or Properties()).message_id
    fields = azure.broker_fields(made)
    assert (MS, "s", "s") == (
        *(fields.scheduled_enqueue_time, fields.partition_key),
        fields.session_id,
    )


def test_a_batch_of_a_client_is_the_batch_envelope() -> None:
    servicebus = pytest.importorskip("azure.servicebus", reason="azure-servicebus is not installed")
    encode = pytest.importorskip("azure.servicebus._pyamqp._encode")
    given_ = servicebus.ServiceBusMessageBatch(max_size_in_bytes=10_000)
    for text in ("one", "two"):
        given_.add_message(servicebus.ServiceBusMessage(text))
    output = bytearray()
    encode.encode_payload(output, given_._message)

    envelope = Message.decode(bytes(output), message_format=batch.BATCH_FORMAT)
    assert ["one", "two"] == [message.text() for message in batch.unwrap(envelope)]


# Ticks of 100 ns since year 1, and the same moment in ms since 1970: 2025-02-06T18:25:37.858Z.
TICKS, TICKS_AS_MS = 0x08DD46DBA7821220, 1_738_866_337_858
DATETIME_OFFSET = Symbol("com.microsoft:datetime-offset")


@pytest.mark.parametrize(
    "key, value, field, expected",
    [
        ("x-opt-enqueued-time", Described(DATETIME_OFFSET, TICKS), "enqueued_time", TICKS_AS_MS),
        ("x-opt-locked-until", Described(DATETIME_OFFSET, TICKS), "locked_until", TICKS_AS_MS),
        ("x-opt-enqueued-time", Timestamp(TICKS_AS_MS), "enqueued_time", TICKS_AS_MS),
        ("x-opt-enqueued-time", Described(DATETIME_OFFSET, "soon"), "enqueued_time", None),
        ("x-opt-enqueued-time", Described(Symbol("other"), TICKS), "enqueued_time", None),
        ("x-opt-offset", 0, "offset", "0"),
        ("x-opt-offset", ULong(4096), "offset", "4096"),
        ("x-opt-offset", "4096", "offset", "4096"),
        ("x-opt-offset", True, "offset", None),
        ("x-opt-partition-key", 5, "partition_key", "5"),
        ("x-opt-partition-key", b"key", "partition_key", "key"),
        ("x-opt-partition-key", b"\xff", "partition_key", None),
        ("x-opt-via-partition-key", 7, "via_partition_key", "7"),
    ],
)
def test_every_form_of_an_annotation_is_read(
    key: str, value: object, field: str, expected: object
) -> None:
    message = Message.decode(Message(b"x", message_annotations={Symbol(key): value}).encode())

    assert expected == getattr(azure.broker_fields(message), field)


def test_event_with_datetime_offset_and_numeric_offset() -> None:
    """As an Event Hubs emulator sends it: moments in ticks, and offsets as numbers."""
    pytest.importorskip("azure.eventhub")
    annotations = {
        Symbol("x-opt-sequence-number"): 3,
        Symbol("x-opt-offset"): 0,
        Symbol("x-opt-enqueued-time"): Described(DATETIME_OFFSET, TICKS),
    }

    event = azure.to_event_data(Message(b"reading", message_annotations=annotations))

    assert (3, "0") == (event.sequence_number, event.offset)
    assert TICKS_AS_MS == Timestamp.from_datetime(event.enqueued_time)
    assert "reading" == event.body_as_str()
