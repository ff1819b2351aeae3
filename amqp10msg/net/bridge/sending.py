"""Makes the messages to send from deliveries: the same bytes, or their translation.

The deliveries of one iteration of the event loop are translated together, by the batch kernel.
Messages that the kernel does not handle are translated one by one. If there is no kernel for the
profile, or a hook must see each message, all messages are translated one by one.
"""

from __future__ import annotations

import copy
import functools
from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import Any

from amqp10msg.basic import BasicMessage, decode_content_header, encode_content_header
from amqp10msg.message import Message
from amqp10msg.net.bridge.options import RouteOptions
from amqp10msg.net.bridge.statistics import Statistics
from amqp10msg.net.ends.contents import header_of
from amqp10msg.net.ends.terms import Outgoing, SourceDelivery
from amqp10msg.net.ends.urls import Endpoint
from amqp10msg.sections import Header
from amqp10msg.translate import Circumstances, Loss, as_published, to_amqp10, to_basic
from amqp10msg.translate.batches import kernel, may_have_delivery_headers
from amqp10msg.wire.errors import AmqpError
from amqp10msg.wire.limits import UNLIMITED

#: The bridge does not check user-ids, because the target decides whose messages a user may send.
ANY_USER = Circumstances(user=None)

#: Translates deliveries together. The result has None for a delivery to be translated separately.
Translate = Callable[[Sequence[SourceDelivery]], list[Outgoing | None]]


def translator_of(
    to_1_0: bool,
    profile: str,
    names: Callable[[Any], tuple[str, str]],
    statistics: Statistics,
    fixed_names: tuple[str, str] | None = None,
) -> Translate | None:
    """Return a translator of batches, or None if there is no kernel for the profile.

    Args:
        to_1_0: translate to 1.0; False for 0-9-1.
        profile: the name of the translation profile.
        names: returns the exchange and routing key to publish with, from an object that has the
            attributes `exchange` and `routing_key`.
        statistics: receives the losses.
        fixed_names: the result of `names`, if it is the same for all messages.
    """
    batches = kernel("1.0" if to_1_0 else "0-9-1", profile, circumstances=ANY_USER)
    if batches is None:
        return None

    def to_message(deliveries: Sequence[SourceDelivery]) -> list[Outgoing | None]:
        headers = _make_column([delivery.content_header or b"" for delivery in deliveries])
        bodies = _make_column([delivery.octets for delivery in deliveries])
        rows = len(deliveries)
        unhandled, (_, wires, losses) = batches.run(rows, headers, bodies, None, None, None)
        # Headers that describe the delivery (such as x-delivery-count) must be removed first.
        outgoing: list[Outgoing | None] = [
            None if may_have_delivery_headers(delivery.content_header or b"") else Outgoing(wire)
            for delivery, wire in zip(deliveries, _split_column(wires), strict=True)
        ]
        for row in unhandled:
            outgoing[row] = None
        _count_new_losses(deliveries, outgoing, losses, statistics)
        return outgoing

    def to_basic(deliveries: Sequence[SourceDelivery]) -> list[Outgoing | None]:
        rows = len(deliveries)
        wires = [delivery.octets for delivery in deliveries]
        unhandled, (_, *columns, _, losses) = batches.run(rows, _make_column(wires))
        outgoing: list[Outgoing | None] = []
        for wire, header, body, exchange, key in zip(
            wires, *map(_split_column, columns), strict=True
        ):
            if exchange or key or not _describes_delivery(wire):
                target_exchange, target_key = fixed_names or names(_LazyNames(exchange, key))
                outgoing.append(Outgoing(body, header, target_exchange, target_key))
            else:
                outgoing.append(None)
        for row in unhandled:
            outgoing[row] = None
        _count_new_losses(deliveries, outgoing, losses, statistics)
        return outgoing

    return to_message if to_1_0 else to_basic


class _LazyNames:
    """The exchange and routing key of a message, decoded when they are read."""

    __slots__ = ("_exchange", "_key")

    def __init__(self, exchange: bytes, key: bytes) -> None:
        self._exchange, self._key = exchange, key

    @property
    def exchange(self) -> str:
        return self._exchange.decode("utf-8", "surrogateescape")

    @property
    def routing_key(self) -> str:
        return self._key.decode("utf-8", "surrogateescape")


def _describes_delivery(octets: bytes) -> bool:
    """Whether the header has fields about deliveries of the source, which are not passed on."""
    header = header_of(octets)
    return header is not None and (header.first_acquirer or header.delivery_count > 0)


def _make_column(cells: list[bytes]) -> tuple[None, Any, bytes, int]:
    """Return byte strings as a column in the batch kernel's format: offsets and data."""
    return None, array("i", [0, *accumulate(map(len, cells))]), b"".join(cells), 0


def _decode_offsets(octets: bytes) -> array[int]:
    """Decode the offsets of a column that the kernel returned."""
    offsets = array("i")
    offsets.frombytes(octets)
    return offsets


def _split_column(buffers: tuple[Any, bytes, bytes]) -> list[bytes]:
    """Return the byte strings of a column that the kernel returned."""
    _, offsets, data = buffers
    if not data:
        return [b""] * (len(_decode_offsets(offsets)) - 1)
    return [data[start:end] for start, end in pairwise(_decode_offsets(offsets))]


def _count_new_losses(
    deliveries: Sequence[SourceDelivery],
    outgoing: list[Outgoing | None],
    losses: Any,
    statistics: Statistics,
) -> None:
    """Count the losses of the translated messages, except for messages that are sent again."""
    row_ends, paths, actions, *_ = losses
    row_offsets = _decode_offsets(row_ends)
    if not row_offsets[-1]:
        return
    all_losses = list(zip(_split_column(paths), _split_column(actions), strict=True))
    counted: Counter[tuple[bytes, bytes]] = Counter()
    for delivery, message, (start, end) in zip(
        deliveries, outgoing, pairwise(row_offsets), strict=True
    ):
        if start < end and message is not None and delivery.is_new:
            counted.update(all_losses[start:end])
    for (path, action), count in counted.items():
        statistics.lose(path.decode("utf-8", "surrogateescape"), action.decode(), count)


def losses_of_names(
    source: Endpoint, target: Endpoint, options: RouteOptions, message: Any
) -> list[Loss]:
    """Return the losses of the exchange and routing key of a 0-9-1 message or delivery.

    The sender chose these names. They are lost in a 1.0 target unless `keep_names` stores them in
    annotations, and in a 0-9-1 target whose URL names another exchange or routing key. They do not
    count as lost if the sender published directly to the queue that the route reads.
    """
    original_names = message.exchange, message.routing_key
    queue = None if source.file is not None else source.queue
    if source.protocol != "0-9-1" or original_names in (("", ""), ("", queue)):
        return []
    if target.protocol == "1.0":
        if options.keep_names:
            return []
        published_names, reason = (
            ("", ""),
            "1.0 has no such field; --keep-names puts it into an annotation",
        )
    else:
        published_names, reason = (
            _publish_names(target, message),
            "the URL of the target names another one",
        )
    return [
        Loss(path, "dropped", original, published or None, reason, recoverable=False)
        for path, original, published in zip(
            ("exchange", "routing-key"), original_names, published_names, strict=True
        )
        if original and original != published
    ]


#: Returns the message to send for a delivery, or None if the hook dropped the message.
Prepare = Callable[[SourceDelivery], Outgoing | None]
#: Returns the result of `Prepare` for each delivery, or the exception that it raised.
PrepareAll = Callable[[Sequence[SourceDelivery]], "list[Outgoing | Exception | None]"]

#: Maximum size in bytes of a message that is translated together with others.
_MAX_SIZE_IN_BATCH = 1 << 16


def message_of(delivery: SourceDelivery) -> BasicMessage | Message:
    """Decode the message of a delivery."""
    header = delivery.content_header
    if header is None:
        return Message.decode(delivery.octets, limits=UNLIMITED)
    return BasicMessage(
        decode_content_header(header, limits=UNLIMITED).properties,
        delivery.octets,
        delivery.exchange,
        delivery.routing_key,
        delivery.redelivered,
    )


def preparer_of(
    source: Endpoint, target: Endpoint, options: RouteOptions, statistics: Statistics
) -> PrepareAll:
    """Return the function that makes the messages to send from deliveries, and counts losses."""
    prepare_one = _preparer_of_one(source, target, options, statistics)

    def count_name_losses(delivery: SourceDelivery) -> None:
        for loss in losses_of_names(source, target, options, delivery):
            statistics.lose(loss.path, loss.action)

    translates = source.protocol != target.protocol
    translate = None
    if translates and options.change is None and not options.keep_names:
        names = functools.partial(_publish_names, target)
        to_1_0 = target.protocol == "1.0"
        fixed_names = ("", target.queue) if target.queue is not None else None
        translate = translator_of(to_1_0, options.profile, names, statistics, fixed_names)

    def prepare(delivery: SourceDelivery) -> Outgoing | Exception | None:
        if delivery.message_format and (translates or options.change is not None):
            return AmqpError(
                f"only messages of message-format 0 can be translated or changed, and this one has "
                f"{delivery.message_format}: move it to a target of 1.0, without a hook"
            )
        try:
            outgoing = prepare_one(delivery)
        except Exception as error:  # noqa: BLE001  (a hook's error quarantines the message)
            return error
        if outgoing is not None and delivery.is_new:
            count_name_losses(delivery)
        return outgoing

    def prepare_all(deliveries: Sequence[SourceDelivery]) -> list[Outgoing | Exception | None]:
        if translate is None or any(
            delivery.size > _MAX_SIZE_IN_BATCH or delivery.message_format for delivery in deliveries
        ):
            return [prepare(delivery) for delivery in deliveries]
        prepared: list[Outgoing | Exception | None] = []
        for delivery, outgoing in zip(deliveries, translate(deliveries), strict=True):
            if outgoing is None:
                prepared.append(prepare(delivery))
                continue
            prepared.append(outgoing)
            if delivery.is_new:
                count_name_losses(delivery)
        return prepared

    return prepare_all


def _preparer_of_one(
    source: Endpoint, target: Endpoint, options: RouteOptions, statistics: Statistics
) -> Prepare:
    """Return the function that makes the message to send from one delivery, or raises AmqpError."""
    change = options.change
    to_1_0 = target.protocol == "1.0"
    translates = source.protocol != target.protocol
    if not translates and change is None:
        return _prepare_unchanged if to_1_0 else _preparer_with_names(target)
    translate: Any = to_amqp10 if to_1_0 else to_basic
    profile = options.profile

    def prepare(delivery: SourceDelivery) -> Outgoing | None:
        message: Any = message_of(delivery)
        if translates:
            message = without_delivery(message, source, options)
            translation = translate(message, profile, circumstances=ANY_USER)
            message = translation.message
            for loss in translation.losses if delivery.is_new else ():
                statistics.lose(loss.path, loss.action)
        if change is not None:
            message = change(message, delivery)
            if message is None:
                return None
        if to_1_0:
            return Outgoing(message.encode())
        header = encode_content_header(message.properties, len(message.body))
        return Outgoing(message.body, header, *_publish_names(target, message))

    return prepare


def without_delivery(message: Any, source: Endpoint, options: RouteOptions) -> Any:
    """Return a message without the fields that describe only its delivery by the source."""
    if isinstance(message, BasicMessage):
        if not options.keep_names:
            return as_published(message, stream=source.file is None and source.keeps)
        message.redelivered = False  # the target counts its own deliveries
        return message
    header = message.header
    if header is None or not (header.first_acquirer or header.delivery_count):
        return message
    if "x-exchange" in (message.message_annotations or {}):
        return message  # the translation handles the fields that RabbitMQ adds
    plain = copy.copy(header)
    plain.first_acquirer, plain.delivery_count = False, 0
    return message.evolve(header=None if plain == Header() else plain)


def _prepare_unchanged(delivery: SourceDelivery) -> Outgoing:
    """Return the message to send from 1.0 to 1.0: the same bytes."""
    return Outgoing(delivery.octets, message_format=delivery.message_format)


def _preparer_with_names(target: Endpoint) -> Prepare:
    """Return the function that makes messages to send from 0-9-1 to 0-9-1: the same bytes."""

    def prepare(delivery: SourceDelivery) -> Outgoing:
        names = _publish_names(target, delivery)
        return Outgoing(delivery.octets, delivery.content_header, *names)

    return prepare


def _publish_names(target: Endpoint, message: Any) -> tuple[str, str]:
    """Return the exchange and routing key to publish with, from the target's URL or the message."""
    if target.queue is not None:
        return "", target.queue
    exchange = message.exchange if target.exchange is None else target.exchange
    key = message.routing_key if target.routing_key is None else target.routing_key
    return exchange, key
