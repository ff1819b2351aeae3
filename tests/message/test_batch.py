"""The batch envelope, message-format 0x80013700."""

from __future__ import annotations

import pytest

from amqp10msg import Data, DecodeError, Message, Properties
from amqp10msg.message.batch import BATCH_FORMAT, is_batch, unwrap, wrap

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
