"""Send and receive exact bytes on proton's links; handlers that decode with this library."""

from __future__ import annotations

import logging
from typing import Any, ClassVar

import attrs
import proton
import proton.handlers
from proton.handlers import Reject, Release

from amqp10msg.message import Message
from amqp10msg.wire.errors import DecodeError, EncodeError, as_bytes
from amqp10msg.wire.limits import Limits

_log = logging.getLogger("amqp10msg.interop.proton")

# Any, so that type checking gives the same results with and without proton installed.
_IncomingMessageHandler: Any = proton.handlers.IncomingMessageHandler
_MessagingHandler: Any = proton.handlers.MessagingHandler


def send(
    sender: proton.Sender,
    message: Message | bytes,
    *,
    tag: str | bytes | None = None,
    settled: bool = False,
) -> proton.Delivery:
    """Send a message through a proton sender, byte for byte as it encodes.

    Like proton's ``send``, this only queues the message; without credit it stays on the link.

    Args:
        sender: an open proton.Sender.
        message: a message, or its bytes.
        tag: the delivery-tag, at most 32 bytes, unique on the link; None for the next number.
        settled: send the delivery settled, without an outcome. Always so on a link that was opened
            to send settled.

    Returns:
        The delivery, which will show the outcome.

    Raises:
        EncodeError: the message cannot be encoded, is longer than the peer's max-message-size, or
            has a message-format, which proton cannot send.
        TypeError: `message` is neither a Message nor bytes-like.
        ValueError: another delivery on this link is not complete, or the link sends unsettled only.
    """
    if isinstance(message, Message):
        if message.message_format:
            raise EncodeError(
                f"proton sends 0 instead of {message.message_format:#x}; if the receiver does not "
                "need the message-format, send message.encode()",
                "message-format",
            )
        octets = message.encode()
    else:
        octets = as_bytes(message, "sending", "a Message or the bytes of one")
    link: Any = sender
    max_size = link.remote_max_message_size
    if max_size and len(octets) > max_size:
        raise EncodeError(f"{len(octets)} bytes exceed the peer's max-message-size of {max_size}")
    if link.current is not None:
        raise ValueError("another delivery on this link is not complete: advance() the link first")
    if settled and link.snd_settle_mode == proton.Link.SND_UNSETTLED:
        raise ValueError("this link was opened to send unsettled (proton.Link.SND_UNSETTLED)")
    delivery: proton.Delivery = link.delivery(link.delivery_tag() if tag is None else tag)
    link.stream(octets)
    link.advance()
    if settled or link.snd_settle_mode == proton.Link.SND_SETTLED:
        delivery.settle()
    return delivery


@attrs.frozen
class _Sendable:
    message: Message | bytes

    # Checked by the publisher of RabbitMQ's client, which sends data bodies only.
    body: ClassVar[bytes] = b""
    inferred: ClassVar[bool] = True

    @property
    def address(self) -> str | None:
        message = self.message
        if not isinstance(message, Message):
            message = Message.decode(message, strict=False)
        return message.to

    def send(self, sender: proton.Sender, tag: str | None = None) -> proton.Delivery:
        return send(sender, self.message, tag=tag)


def sendable(message: Message | bytes) -> Any:
    """Wrap a message for proton's own send methods, which then send its exact bytes.

        blocking_sender.send(sendable(message), timeout=5)
        publisher.publish(sendable(message))  # of RabbitMQ's client

    RabbitMQ's client refuses some messages before it sends them; this object passes its checks with
    any body. As with the client's own messages, `to` is required if the publisher has no address,
    and forbidden if it has one.

    Args:
        message: a message, or its bytes. Proton's send method raises the exceptions of `send`.
    """
    return _Sendable(message)


# Name of the attribute for the bytes received so far, stored in proton's delivery.
_RECEIVED_ATTRIBUTE = "amqp10msg_taken"


def receive_octets(delivery: proton.Delivery) -> bytes | None:
    """Return the exact bytes of a delivery once it is complete; None until then.

    If the delivery is incomplete, the bytes received so far are read from the link and kept, so
    that a message may be larger than the session's window. Call this function again at the next
    delivery event. It returns None for an aborted delivery. The delivery is not settled.

    Args:
        delivery: a delivery of a receiver, as in ``on_delivery``.
    """
    if delivery.aborted:
        if hasattr(delivery, _RECEIVED_ATTRIBUTE):
            delattr(delivery, _RECEIVED_ATTRIBUTE)
        return None
    if not delivery.readable:
        return None
    link: Any = delivery.link
    received: bytearray | None = getattr(delivery, _RECEIVED_ATTRIBUTE, None)
    octets = link.recv(delivery.pending) or b""
    if delivery.partial:
        if received is None:
            setattr(delivery, _RECEIVED_ATTRIBUTE, bytearray(octets))
        else:
            received += octets
        return None
    link.advance()
    if received is None:
        return bytes(octets)
    delattr(delivery, _RECEIVED_ATTRIBUTE)
    return bytes(received + octets)


def receive(
    delivery: proton.Delivery,
    *,
    strict: bool = True,
    limits: Limits | None = None,
    message_format: int = 0,
) -> Message | None:
    """Return the message of a complete delivery, decoded by this library and not by proton.

    The message keeps its exact bytes: ``encode()`` returns the received bytes. The delivery is not
    settled.

    Args:
        delivery: a delivery of a receiver, as in ``on_delivery``.
        strict: as in `Message.decode`.
        limits: as in `Message.decode`.
        message_format: the transfer's message-format, which proton does not report.

    Returns:
        None if the delivery is not complete, as in `receive_octets`.

    Raises:
        DecodeError: the bytes, in the error's `data`, are not a message.
    """
    octets = receive_octets(delivery)
    if octets is None:
        return None
    return Message.decode(octets, strict=strict, limits=limits, message_format=message_format)


class _DecodeHandler(_IncomingMessageHandler):  # type: ignore[misc]  # proton's handler, see above
    """Proton's handler of incoming deliveries, with decoding by this library."""

    def __init__(self, replaced: Any, strict: bool, limits: Limits | None) -> None:
        super().__init__(replaced.auto_accept, replaced.delegate)
        self.strict = strict
        self.limits = limits

    def on_delivery(self, event: Any) -> None:
        delivery = event.delivery
        if not delivery.link.is_receiver:
            return
        octets = receive_octets(delivery)
        if octets is None:
            super().on_delivery(event)  # incomplete, aborted or settled by the sender
        elif event.link.state & proton.Endpoint.LOCAL_CLOSED:
            if self.auto_accept:
                self.release(delivery, delivered=False)
        else:
            try:
                self._hand_over(event, octets)
            except Reject:
                self.reject(delivery)
            except Release:
                self.release(delivery)
            else:
                if self.auto_accept:
                    self.accept(delivery)

    def _hand_over(self, event: Any, octets: bytes) -> None:
        try:
            event.message = Message.decode(octets, strict=self.strict, limits=self.limits)
        except DecodeError as error:
            event.delivery.local.condition = proton.Condition(error.condition, str(error))
            decide = getattr(self.delegate, "on_decode_error", None)
            if decide is None:
                self.reject(event.delivery)
                raise
            decide(event, error)
        else:
            self.on_message(event)


class MessagingHandler(_MessagingHandler):  # type: ignore[misc]  # proton's handler, see above
    """A drop-in replacement for proton's MessagingHandler that decodes with this library.

    In ``on_message``, ``event.message`` is a `Message` of this library with its exact bytes. To use
    it with another handler of proton, list this class first:
    ``class Client(MessagingHandler, TransactionalClientHandler)``.

    Args:
        args: arguments of proton's MessagingHandler: prefetch, auto_accept, auto_settle,
            peer_close_is_error.
        strict: as in `Message.decode`.
        limits: as in `Message.decode`.
        kwargs: the same arguments by name.
    """

    def __init__(
        self, *args: Any, strict: bool = True, limits: Limits | None = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        install(self, strict=strict, limits=limits)

    def on_decode_error(self, event: Any, error: DecodeError) -> None:
        """Called instead of ``on_message`` when a delivery cannot be decoded.

        This logs a warning and rejects the delivery with the error's condition. An override that
        returns accepts it, like ``on_message``; the bytes are in ``error.data``.

        Raises:
            proton.handlers.Reject: always.
        """
        _log.warning("rejected a delivery on link %r: %s", event.link.name, error)
        raise Reject(str(error))


def install(
    handler: proton.handlers.MessagingHandler | None,
    *,
    strict: bool = True,
    limits: Limits | None = None,
) -> None:
    """Make an existing handler decode with this library, like `MessagingHandler`.

    For example, for the handler inside proton's blocking receiver:

        receiver = connection.create_receiver("queue")
        install(receiver.fetcher)
        message = receiver.receive()

    Args:
        handler: a MessagingHandler of proton. If a delivery cannot be decoded, its method
            ``on_decode_error(event, error)`` is called. Without this method, the delivery is
            rejected, and the container or the blocking ``receive`` raises the DecodeError.
        strict: as in `Message.decode`.
        limits: as in `Message.decode`.

    Raises:
        ValueError: the handler does not handle incoming messages. Or it is None, like the fetcher
            of a blocking receiver that was created with a handler.
    """
    children: Any = handler.handlers if handler is not None else []
    for index, child in enumerate(children):
        if isinstance(child, _IncomingMessageHandler):
            children[index] = _DecodeHandler(child, strict, limits)
            return
    raise ValueError(f"{type(handler).__name__} has no IncomingMessageHandler to replace")
