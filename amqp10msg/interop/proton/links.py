"""Send and receive the exact bytes of messages on proton's links, also with proton's handlers."""

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

# Annotated as Any, so that mypy gives the same results with and without proton installed.
_IncomingMessageHandler: Any = proton.handlers.IncomingMessageHandler
_MessagingHandler: Any = proton.handlers.MessagingHandler


def send(
    sender: proton.Sender,
    message: Message | bytes,
    *,
    tag: str | bytes | None = None,
    settled: bool = False,
) -> proton.Delivery:
    """Send a message through a proton sender, with exactly the bytes of ``message.encode()``.

    Like proton's ``send``, this only queues the message: without credit, it waits on the link.

    Args:
        sender: an open proton.Sender.
        message: a message, or its bytes.
        tag: the delivery-tag, at most 32 bytes, unique on the link; None for the next number.
        settled: send the delivery settled, so that it gets no outcome. Deliveries on a link that
            was opened to send settled are always sent settled.

    Returns:
        The delivery. Its outcome is known when the peer settles it.

    Raises:
        EncodeError: the message cannot be encoded, is longer than the peer's max-message-size, or
            has a message-format, which proton cannot send.
        TypeError: `message` is neither a Message nor bytes-like.
        ValueError: another delivery on the link is not complete, or `settled` is true and the link
            was opened to send unsettled.
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
    """A message with the methods and attributes that proton's senders use."""

    message: Message | bytes

    # The publisher of RabbitMQ's client sends data bodies only: these attributes pass its checks.
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
    """Wrap a message, so that proton's own send methods send its exact bytes.

        blocking_sender.send(sendable(message), timeout=5)
        publisher.publish(sendable(message))  # of RabbitMQ's client

    RabbitMQ's client refuses messages without a data body; it accepts the wrapper with any body. As
    with the client's own messages, the message needs a `to` if the publisher has no address, and
    must not have a `to` otherwise.

    Args:
        message: a message, or its bytes. Proton's send method raises the exceptions of `send`.
    """
    return _Sendable(message)


# The attribute of proton's delivery in which `receive_octets` stores the bytes received so far.
_RECEIVED_ATTRIBUTE = "amqp10msg_taken"


def receive_octets(delivery: proton.Delivery) -> bytes | None:
    """Return the exact bytes of a complete delivery; None if it is incomplete or aborted.

    The bytes of an incomplete delivery are read from the link and stored, so that a message may be
    larger than the session's window. Call this function at each event of the delivery. It does not
    settle the delivery.

    Args:
        delivery: a delivery of a receiver, for example ``event.delivery`` in ``on_delivery``.
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

    ``encode()`` of the message returns the received bytes. The delivery is not settled.

    Args:
        delivery: a delivery of a receiver, for example ``event.delivery`` in ``on_delivery``.
        strict: as in `Message.decode`.
        limits: as in `Message.decode`.
        message_format: the transfer's message-format, which proton does not report.

    Returns:
        The message, or None if the delivery is incomplete or aborted; see `receive_octets`.

    Raises:
        DecodeError: the bytes are not a valid message; the error's `data` contains them.
    """
    octets = receive_octets(delivery)
    if octets is None:
        return None
    return Message.decode(octets, strict=strict, limits=limits, message_format=message_format)


class _DecodeHandler(_IncomingMessageHandler):  # type: ignore[misc]  # proton's handler, see above
    """Proton's handler of incoming deliveries, changed to decode with this library."""

    def __init__(self, original: Any, strict: bool, limits: Limits | None) -> None:
        super().__init__(original.auto_accept, original.delegate)
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
                self._decode_and_dispatch(event, octets)
            except Reject:
                self.reject(delivery)
            except Release:
                self.release(delivery)
            else:
                if self.auto_accept:
                    self.accept(delivery)

    def _decode_and_dispatch(self, event: Any, octets: bytes) -> None:
        """Decode a message, then call ``on_message`` or ``on_decode_error``."""
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

    In ``on_message``, ``event.message`` is a `Message` of this library with its exact bytes. To
    combine this class with another handler of proton, list this class first:
    ``class Client(MessagingHandler, TransactionalClientHandler)``.

    Args:
        args: the arguments of proton's MessagingHandler: prefetch, auto_accept, auto_settle,
            peer_close_is_error.
        strict: as in `Message.decode`.
        limits: as in `Message.decode`.
        kwargs: arguments of proton's MessagingHandler by name.
    """

    def __init__(
        self, *args: Any, strict: bool = True, limits: Limits | None = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        install(self, strict=strict, limits=limits)

    def on_decode_error(self, event: Any, error: DecodeError) -> None:
        """Handle a delivery that cannot be decoded: called instead of ``on_message``.

        This method logs a warning and rejects the delivery with the error's condition. A subclass
        may override it; the bytes are in ``error.data``. If the override returns, the delivery is
        accepted, as after ``on_message`` (with ``auto_accept``).

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
    """Make an existing handler of proton decode with this library, like `MessagingHandler`.

    For example, for the handler that proton's blocking receiver uses:

        receiver = connection.create_receiver("queue", credit=0)
        install(receiver.fetcher)
        message = receiver.receive()

    Args:
        handler: a MessagingHandler of proton. If a delivery cannot be decoded, its method
            ``on_decode_error(event, error)`` is called. Without this method, the delivery is
            rejected, and the container or the blocking ``receive`` raises the DecodeError.
        strict: as in `Message.decode`.
        limits: as in `Message.decode`.

    Raises:
        ValueError: the handler does not handle incoming messages, or is None. The fetcher of a
            blocking receiver is None if the receiver was created with a handler. Or proton has
            decoded messages of the receiver already: create it with credit=0. By default, a
            blocking receiver requests a message when it is created.
    """
    fetched = len(getattr(handler, "incoming", ()))
    if fetched:
        raise ValueError(
            f"proton has decoded {fetched} message{'s' * (fetched > 1)} of this receiver already: "
            "create the receiver with credit=0, then install"
        )
    children: Any = handler.handlers if handler is not None else []
    for index, child in enumerate(children):
        if isinstance(child, _IncomingMessageHandler):
            children[index] = _DecodeHandler(child, strict, limits)
            return
    raise ValueError(f"{type(handler).__name__} has no IncomingMessageHandler to replace")
