"""The batch format of Azure Service Bus and Event Hubs: message-format 0x80013700.

One transfer carries an envelope with many messages: each of its Data sections is an encoded
message.
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
    """Return an envelope with encoded messages.

    Args:
        messages: one or more messages.
        envelope: a message without a body; its sections, such as message annotations with the
            partition key, become sections of the result. None for an envelope with only a body.

    Raises:
        ValueError: there are no messages, or `envelope` has a body.
        TypeError: a message or the envelope is not a `Message`.
    """
    expect(envelope, (Message, NoneType), "the envelope of wrap", "a Message or None")
    expect(messages, Iterable, "wrap", "several messages", {Message: "wrap([message])"})
    body = [Data(_encoded(message)) for message in messages]
    if not body:
        raise ValueError("a batch needs at least one message")
    if envelope is None:
        return Message(body=body, message_format=BATCH_FORMAT)
    if envelope.body is not None:
        raise ValueError("the batch becomes the body of the envelope: pass one without a body")
    return envelope.evolve(body=body, message_format=BATCH_FORMAT)


def _encoded(message: Message) -> bytes:
    """Return the encoding of a message of the batch; TypeError if it is not a `Message`."""
    expect_message(message, "wrap", "messages")
    return message.encode()


def is_batch(message: Message) -> bool:
    """Return whether `message` is a batch, according to its message-format."""
    expect_message(message, "is_batch")
    return message.message_format == BATCH_FORMAT


def unwrap(
    envelope: Message, *, limits: Limits | None = None, strict: bool = True
) -> Iterator[Message]:
    """Yield the messages in an envelope.

    The message-format is not checked, because many interfaces lose it: see `is_batch`.

    Args:
        envelope: the envelope.
        limits: the limits of decoding each message; None for the defaults of `Limits`.
        strict: whether to decode the messages strictly.

    Raises:
        ValueError: the body does not consist of Data sections.
        TypeError: `envelope` is not a `Message`.
        DecodeError: a section is not a message; the error's path names the section. If `strict`,
            also raised after the last message if the envelope was decoded leniently and has a
            damaged section.
    """
    expect_message(envelope, "unwrap")
    converted = Message(envelope.body).body  # a plain value may have been assigned to `body`
    body = converted if isinstance(converted, list) else [converted]
    for number, part in enumerate(body):
        if not isinstance(part, Data):
            raise ValueError(  # noqa: TRY004  (the sender's mistake, not the caller's)
                "the body of a batch consists of Data sections, each an encoded message"
            )
        try:
            yield Message.decode(part.data, limits=limits, strict=strict)
        except DecodeError as error:
            error.path = f"data[{number}]" + (f".{error.path}" if error.path else "")
            raise
    if strict:
        for _, section in envelope.sections():
            if isinstance(section, Malformed):
                raise section.error  # the damaged section may contain a message
