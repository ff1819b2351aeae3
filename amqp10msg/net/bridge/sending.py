"""What is sent for a delivery: the same bytes, or their translation."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Sequence
from typing import Any

from amqp10msg.basic import BasicMessage, decode_content_header, encode_content_header
from amqp10msg.message import Message
from amqp10msg.net.bridge.options import RouteOptions
from amqp10msg.net.bridge.statistics import Statistics
from amqp10msg.net.bridge.terms import Delivery, Outgoing
from amqp10msg.net.bridge.translating import ANYBODY, translator_of
from amqp10msg.net.bridge.urls import Endpoint
from amqp10msg.sections import Header
from amqp10msg.translate import as_published, to_amqp10, to_basic
from amqp10msg.wire.limits import UNLIMITED

#: Returns what to send, or None where the hook dropped the message.
Prepare = Callable[[Delivery], Outgoing | None]
#: Returns that of each delivery, or what its `Prepare` raised.
PrepareAll = Callable[[Sequence[Delivery]], "list[Outgoing | Exception | None]"]

#: Bytes of a message that is translated together with others.
_SMALL = 1 << 16


def message_of(delivery: Delivery) -> BasicMessage | Message:
    """Return the message of a delivery.

    Raises:
        DecodeError: its bytes are none.
    """
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


def sender_of(
    source: Endpoint, target: Endpoint, options: RouteOptions, statistics: Statistics
) -> PrepareAll:
    """Return what makes of deliveries what is sent; what goes wrong with one is in its place."""
    one = _sender_of_one(source, target, options, statistics)
    translates = source.protocol != target.protocol
    translate = None
    if translates and options.change is None and not options.keep_names:
        names = functools.partial(_names, target)
        to_1_0 = target.protocol == "1.0"
        fixed = ("", target.queue) if target.queue is not None else None
        translate = translator_of(to_1_0, options.profile, names, statistics, fixed)

    def prepare(delivery: Delivery) -> Outgoing | Exception | None:
        try:
            return one(delivery)
        except Exception as error:  # noqa: BLE001  (of a hook: its message is put aside, not lost)
            return error

    def prepare_all(deliveries: Sequence[Delivery]) -> list[Outgoing | Exception | None]:
        if translate is None or any(one.size > _SMALL for one in deliveries):
            return [prepare(delivery) for delivery in deliveries]
        made = translate(deliveries)
        return [
            prepare(delivery) if found is None else found
            for delivery, found in zip(deliveries, made, strict=True)
        ]

    return prepare_all


def _sender_of_one(
    source: Endpoint, target: Endpoint, options: RouteOptions, statistics: Statistics
) -> Prepare:
    """Return what makes of a delivery what is sent, or raises an `AmqpError`."""
    change = options.change
    to_1_0 = target.protocol == "1.0"
    translates = source.protocol != target.protocol
    if not translates and change is None:
        return _as_it_is if to_1_0 else _with_names(target)
    make: Any = to_amqp10 if to_1_0 else to_basic
    profile = options.profile

    def prepare(delivery: Delivery) -> Outgoing | None:
        message: Any = message_of(delivery)
        if translates:
            message = without_delivery(message, source, options)
            made = make(message, profile, circumstances=ANYBODY)
            message = made.message
            for loss in made.losses if delivery.is_new else ():
                statistics.lose(loss.path, loss.action)
        if change is not None:
            message = change(message, delivery)
            if message is None:
                return None
        if to_1_0:
            return Outgoing(message.encode())
        header = encode_content_header(message.properties, len(message.body))
        return Outgoing(message.body, header, *_names(target, message))

    return prepare


def without_delivery(message: Any, source: Endpoint, options: RouteOptions) -> Any:
    """Take out of a message what the source says of this delivery: it is not of the message."""
    if isinstance(message, BasicMessage):
        if not options.keep_names:
            return as_published(message, stream=source.file is None and source.keeps)
        message.redelivered = False  # the target counts its own deliveries
        return message
    header = message.header
    if header is None or not (header.first_acquirer or header.delivery_count):
        return message
    if "x-exchange" in (message.message_annotations or {}):
        return message  # the translation knows what RabbitMQ adds
    plain = copy.copy(header)
    plain.first_acquirer, plain.delivery_count = False, 0
    return message.evolve(header=None if plain == Header() else plain)


def _as_it_is(delivery: Delivery) -> Outgoing:
    return Outgoing(delivery.octets)


def _with_names(target: Endpoint) -> Prepare:
    def prepare(delivery: Delivery) -> Outgoing:
        names = _names(target, delivery)
        return Outgoing(delivery.octets, delivery.content_header, *names)

    return prepare


def _names(target: Endpoint, given: Any) -> tuple[str, str]:
    """Return exchange and routing key: the target's, and where it has none those of the message."""
    if target.queue is not None:
        return "", target.queue
    exchange = given.exchange if target.exchange is None else target.exchange
    key = given.routing_key if target.routing_key is None else target.routing_key
    return exchange, key
