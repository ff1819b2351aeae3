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

__all__ = ["BATCH_FORMAT", "Batch", "is_batch", "pack", "unwrap", "wrap"]

#: The message-format of the envelope, a uint on the transfer frame.
BATCH_FORMAT = 0x80013700
# The size in bytes of a Data section without its content: descriptor, format code and size. The
# size is one byte for less than 256 bytes of content, else four.
_SMALL_OVERHEAD, _LARGE_OVERHEAD = 5, 8


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
    return _envelope_of([Data(_encoded(message, "wrap")) for message in messages], envelope)


def _envelope_of(body: list[Data], envelope: Message | None) -> Message:
    """Return an envelope with this body; ValueError if the body is empty."""
    if not body:
        raise ValueError("a batch needs at least one message")
    if envelope is None:
        return Message(body=body, message_format=BATCH_FORMAT)
    _expect_no_body(envelope)
    return envelope.evolve(body=body, message_format=BATCH_FORMAT)


def _expect_no_body(envelope: Message) -> None:
    """Raise ValueError if `envelope` has a body."""
    if envelope.body is not None:
        raise ValueError("the batch becomes the body of the envelope: pass one without a body")


def _encoded(message: Message, caller: str) -> bytes:
    """Return the encoding of a message of the batch; TypeError if it is not a `Message`."""
    expect_message(message, caller, "messages")
    return message.encode()


class Batch:
    """Messages for one transfer, whose encoded envelope has at most `max_size` bytes.

    Without an envelope, `size` is what Azure's clients count (``size_in_bytes`` of
    ``ServiceBusMessageBatch`` and ``EventDataBatch``). They add further properties to the envelope
    later: Service Bus the message-id, the session and the partition key of the first message.

    Args:
        max_size: the maximum size in bytes, such as the max-message-size of the link. Azure Service
            Bus accepts 262,144 bytes in the tier Standard, and 1,048,576 in the tier Premium.
        envelope: as in `wrap`.

    Raises:
        TypeError: `max_size` is not an int, or `envelope` is not a `Message`.
        ValueError: the envelope has a body, or is larger than `max_size`.
    """

    def __init__(self, max_size: int, *, envelope: Message | None = None) -> None:
        expect(max_size, int, "the max_size of Batch", "an int")
        expect(envelope, (Message, NoneType), "the envelope of Batch", "a Message or None")
        self._max_size = max_size
        self._envelope = envelope
        self._body: list[Data] = []
        self._size = 0
        if envelope is not None:
            _expect_no_body(envelope)
            self._size = envelope.size
        if self._size > max_size:
            raise ValueError(f"the envelope has {self._size:,} bytes, more than {max_size:,}")

    @property
    def max_size(self) -> int:
        """The maximum size of the encoded envelope, in bytes."""
        return self._max_size

    @property
    def size(self) -> int:
        """The size of the encoded envelope with the messages so far, in bytes."""
        return self._size

    def __len__(self) -> int:
        return len(self._body)

    def __repr__(self) -> str:
        return f"Batch({len(self)} messages, {self._size:,} of {self._max_size:,} bytes)"

    def try_add(self, message: Message) -> bool:
        """Add a message if it fits; return whether it did. If not, the batch is unchanged.

        A message that does not fit an empty batch fits no batch of this size.

        Raises:
            TypeError: `message` is not a `Message`.
            EncodeError: the message cannot be encoded.
        """
        encoded = _encoded(message, "try_add")
        size = self._size + _size_in_batch(encoded)
        if size > self._max_size:
            return False
        self._body.append(Data(encoded))
        self._size = size
        return True

    def message(self) -> Message:
        """Return the envelope with the messages; set its message-format on the transfer.

        Raises:
            ValueError: the batch is empty.
        """
        return _envelope_of(list(self._body), self._envelope)


def _size_in_batch(encoded: bytes) -> int:
    """Return the size of the Data section with an encoded message, in bytes."""
    return len(encoded) + (_SMALL_OVERHEAD if len(encoded) < 256 else _LARGE_OVERHEAD)


def pack(
    messages: Iterable[Message], max_size: int, *, envelope: Message | None = None
) -> Iterator[Message]:
    """Yield envelopes of at most `max_size` bytes that contain all messages in their order.

    Each envelope contains as many messages as fit.

    Args:
        messages: the messages; they are read one by one.
        max_size: as in `Batch`.
        envelope: as in `wrap`, for every envelope.

    Raises:
        TypeError: `messages` are not messages, or as in `Batch`.
        ValueError: a message does not fit in an envelope of its own; the text has its number, from
            0. The envelopes before it have been yielded. Or as in `Batch`.
    """
    expect(messages, Iterable, "pack", "several messages", {Message: "pack([message], ...)"})
    batch = Batch(max_size, envelope=envelope)
    for number, message in enumerate(messages):
        if not isinstance(message, Message):
            raise TypeError(f"pack takes messages, and item {number} is {type(message).__name__}")
        if batch.try_add(message):
            continue
        if batch:
            yield batch.message()
            batch = Batch(max_size, envelope=envelope)
        if not batch.try_add(message):
            size = batch.size + _size_in_batch(message.encode())
            raise ValueError(
                f"message {number} needs an envelope of {size:,} bytes, more than {max_size:,}: "
                "raise max_size, or send it alone"
            )
    if batch:
        yield batch.message()


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
            if not number and envelope.message_format != BATCH_FORMAT:
                error.reason += "; the message-format is not that of a batch: see is_batch"
            raise
    if strict:
        for _, section in envelope.sections():
            if isinstance(section, Malformed):
                raise section.error  # the damaged section may contain a message
