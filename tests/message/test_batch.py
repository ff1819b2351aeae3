"""The batch envelope, message-format 0x80013700."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg import Data, DecodeError, Message, Properties
from amqp10msg.message.batch import BATCH_FORMAT, Batch, is_batch, pack, unwrap, wrap
from amqp10msg.testing import messages

MESSAGES = [Message(body=f"m{i}", properties=Properties(message_id=i)) for i in range(3)]


def test_wrapped_and_unwrapped() -> None:
    envelope = wrap(MESSAGES)
    received = Message.decode(envelope.encode(), message_format=BATCH_FORMAT)

    assert is_batch(received)
    assert envelope.message_format == 0x80013700
    assert MESSAGES == list(unwrap(received))


def test_one_message_and_annotations_of_the_envelope() -> None:
    around = Message(message_annotations={"x-opt-partition-key": "p"})
    envelope = wrap(MESSAGES[:1], envelope=around)

    assert envelope.message_annotations == {"x-opt-partition-key": "p"}
    assert MESSAGES[:1] == list(unwrap(Message.decode(envelope.encode())))


def test_encoded_messages_are_no_envelope() -> None:
    with pytest.raises(TypeError, match=r"unwrap takes a Message, not bytes: decode it"):
        list(unwrap(wrap(MESSAGES).encode()))  # type: ignore[arg-type]


def test_an_envelope_whose_body_was_assigned() -> None:
    envelope = Message(message_format=BATCH_FORMAT)
    envelope.body = MESSAGES[0].encode()  # type: ignore[assignment]

    assert MESSAGES[:1] == list(unwrap(envelope))
    envelope.body = []
    with pytest.raises(ValueError, match="the body of a batch consists of Data sections"):
        list(unwrap(envelope))


def test_invalid_batches_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        wrap([])
    with pytest.raises(ValueError, match="without a body"):
        wrap(MESSAGES, envelope=Message(body="x"))


def test_invalid_envelopes_are_refused() -> None:
    with pytest.raises(ValueError, match="the body of a batch consists of Data sections"):
        list(unwrap(Message(body="x")))
    broken = Message(body=[Data(MESSAGES[0].encode()), Data(b"\x00\x53\x75\xa0\x09")])
    messages = unwrap(broken)
    assert MESSAGES[0] == next(messages)
    with pytest.raises(DecodeError) as caught:
        next(messages)
    assert caught.value.path == "data[1].data"


def test_truncated_envelope_yields_the_complete_messages_first() -> None:
    octets = wrap([Message("one"), Message("two"), Message("three")]).encode()
    envelope = Message.decode(octets[:-3], strict=False)

    messages = unwrap(envelope)
    assert ["one", "two"] == [next(messages).text(), next(messages).text()]
    with pytest.raises(DecodeError, match="more bytes, but the input has"):
        next(messages)
    assert 2 == len([*unwrap(envelope, strict=False)])


SIZED_MESSAGES = st.integers(0, 600).map(lambda size: Message(bytes(size)))
ENVELOPES = st.none() | st.builds(
    Message, message_annotations=st.just({"x-opt-partition-key": "p"})
)


@given(messages())
def test_size_is_the_length_of_the_encoding(message: Message) -> None:
    assert len(message.encode()) == message.size


@given(st.lists(SIZED_MESSAGES | messages(), max_size=8), ENVELOPES)
def test_size_of_a_batch_is_that_of_its_envelope(
    added: list[Message], envelope: Message | None
) -> None:
    batch = Batch(1 << 30, envelope=envelope)
    assert (0 if envelope is None else envelope.size) == batch.size

    for count, message in enumerate(added, 1):
        assert batch.try_add(message)
        assert wrap(added[:count], envelope=envelope).size == batch.size == batch.message().size
        assert count == len(batch)


@given(st.lists(SIZED_MESSAGES, max_size=12), st.integers(30, 1_500), ENVELOPES)
def test_batch_accepts_a_message_if_and_only_if_it_fits(
    offered: list[Message], max_size: int, envelope: Message | None
) -> None:
    batch = Batch(max_size, envelope=envelope)
    accepted: list[Message] = []

    for message in offered:
        fits = wrap([*accepted, message], envelope=envelope).size <= max_size
        before = batch.size
        assert fits == batch.try_add(message)
        accepted += [message] if fits else []
        assert fits or before == batch.size

    assert len(accepted) == len(batch)
    if accepted:
        assert wrap(accepted, envelope=envelope) == batch.message()


@given(st.lists(SIZED_MESSAGES, max_size=12), st.integers(700, 1_500), ENVELOPES)
def test_packed_envelopes_contain_all_messages_in_order(
    given_messages: list[Message], max_size: int, envelope: Message | None
) -> None:
    envelopes = list(pack(iter(given_messages), max_size, envelope=envelope))
    unpacked = [list(unwrap(packed)) for packed in envelopes]

    assert given_messages == [message for group in unpacked for message in group]
    assert all(packed.size <= max_size and is_batch(packed) for packed in envelopes)
    for group, following in itertools.pairwise(unpacked):
        assert wrap([*group, following[0]], envelope=envelope).size > max_size


def test_message_that_fits_no_envelope_is_named_after_the_others_are_yielded() -> None:
    envelopes = pack([Message(b"a"), Message(b"b"), Message(bytes(300))], 100)

    assert [Message(b"a"), Message(b"b")] == list(unwrap(next(envelopes)))
    with pytest.raises(ValueError, match="message 2 needs an envelope of 316 bytes, more than 100"):
        next(envelopes)


@pytest.mark.parametrize("client", ["servicebus", "eventhub"])
@pytest.mark.parametrize("bodies", [[], [0], [100, 300, 70_000], [*range(180, 260)]])
def test_size_equals_that_of_azure_clients(client: str, bodies: list[int]) -> None:
    azure: Any = pytest.importorskip(f"azure.{client}")
    encode: Any = pytest.importorskip(f"azure.{client}._pyamqp._encode").encode_payload
    kind, batch_kind, add = {
        "servicebus": ("ServiceBusMessage", "ServiceBusMessageBatch", "add_message"),
        "eventhub": ("EventData", "EventDataBatch", "add"),
    }[client]
    theirs = getattr(azure, batch_kind)()
    ours = Batch(1 << 20)

    for size in bodies:
        getattr(theirs, add)(getattr(azure, kind)(bytes(size)))
    for part in theirs._message[5]:
        assert ours.try_add(Message.decode(bytes(part)))

    assert len(bodies) == len(ours)
    assert theirs.size_in_bytes == ours.size
    if not bodies:
        return
    envelope = Message.decode(bytes(encode(bytearray(), theirs._message)))
    assert list(unwrap(envelope)) == list(unwrap(ours.message()))


def test_wrong_item_of_pack_is_named_by_its_number() -> None:
    with pytest.raises(TypeError, match="pack takes messages, and item 1 is str"):
        list(pack([Message(b"a"), "b"], 100))  # type: ignore[list-item]


def test_message_that_is_no_batch_is_named() -> None:
    with pytest.raises(DecodeError, match="the message-format is not that of a batch"):
        list(unwrap(Message(b"{}")))
    with pytest.raises(DecodeError) as raised:
        list(unwrap(Message([Data(b"{}")], message_format=BATCH_FORMAT)))
    assert "is_batch" not in str(raised.value)
