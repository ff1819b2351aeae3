"""The batch envelope of Azure Service Bus and Event Hubs: message-format 0x80013700.

One transfer carries many messages: each Data section of the envelope is a whole encoded message.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import NoneType

from amqp10msg.message import Message, expect_message
from amqp10msg.sections import Data
from amqp10msg.sections.parts import Malformed
from amqp10msg.wire.errors import DecodeError, expect
from amqp10msg.wire.limits import Limits

__all__ = ["BATCH_FORMAT", "is_batch", "unwrap", "wrap"]

#: The message-format of the envelope, a uint on the transfer frame.
BATCH_FORMAT = 0x80013700


def wrap(messages: Iterable[Message], *, envelope: Message | None = None) -> Message:
    """Put messages into one envelope.

    Args:
        messages: at least one; each is encoded as it is.
        envelope: a message without body whose sections the envelope gets, such as message
            annotations with the partition key; None for none.

    Raises:
        ValueError: no messages, or an envelope with a body.
        TypeError: what is given is not a Message.
    """
    expect(envelope, (Message, NoneType), "the envelope of wrap", "a Message or None")
    expect(messages, Iterable, "wrap", "several messages", {Message: "wrap([message])"})
    body = [Data(_encoded(message)) for message in messages]
    if not body:
        raise ValueError("a batch holds at least one message")
    if envelope is None:
        return Message(body=body, message_format=BATCH_FORMAT)
    if envelope.body is not None:
        raise ValueError("the body of the envelope is the batch: give one without a body")
    return envelope.evolve(body=body, message_format=BATCH_FORMAT)


def _encoded(message: Message) -> bytes:
    expect_message(message, "wrap", "messages")
    return message.encode()


def is_batch(message: Message) -> bool:
    """Return whether the message-format says that this is an envelope."""
    expect_message(message, "is_batch")
    return message.message_format == BATCH_FORMAT


def unwrap(
    envelope: Message, *, limits: Limits | None = None, strict: bool = True
) -> Iterator[Message]:
    """Return the messages of an envelope, one at a time.

    The body's form alone decides, because many interfaces lose the message-format; `is_batch`
    asks for that.

    Raises:
        ValueError: the body is not made of Data sections.
        TypeError: that is not a Message.
        DecodeError: one of them holds no message; the error's path names the section. Or strict is
            True, and the envelope was read leniently and has a part that is damaged: this comes
            after the messages that are whole.
    """
    expect_message(envelope, "unwrap")
    made = Message(envelope.body).body  # also where any value was assigned
    body = made if isinstance(made, list) else [made]
    for number, part in enumerate(body):
        if not isinstance(part, Data):
            raise ValueError(  # noqa: TRY004  (the message's fault, not the caller's)
                "a batch is a body of Data sections, each a whole message"
            )
        try:
            yield Message.decode(part.data, limits=limits, strict=strict)
        except DecodeError as error:
            error.path = f"data[{number}]" + (f".{error.path}" if error.path else "")
            raise
    if strict:
        for _, section in envelope.sections():
            if isinstance(section, Malformed):
                raise section.error  # messages may be missing
