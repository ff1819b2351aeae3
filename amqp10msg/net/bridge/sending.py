"""What is sent for a delivery: the same bytes, or their translation.

The deliveries of a turn of the loop are translated at once, by the kernel that does batches. What
it leaves, and all where there is no such kernel or where somebody wants to see each message, is
translated one by one.
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
from amqp10msg.net.bridge.statistics import Statistics
from amqp10msg.net.bridge.terms import Outgoing, SourceDelivery
from amqp10msg.net.bridge.urls import Endpoint
from amqp10msg.net.options import RouteOptions
from amqp10msg.sections import Header
from amqp10msg.sections.parts import scan
from amqp10msg.translate import Circumstances, Loss, as_published, to_amqp10, to_basic
from amqp10msg.translate.batches import kernel, tells_of_delivery
from amqp10msg.wire.errors import AmqpError
from amqp10msg.wire.limits import UNLIMITED

_SECTION, _USUAL = b"\x00\x53\x70", b"\x00\x53"
_LIST8, _EMPTY = 0xC0, 0x45
_CODE_AT, _SIZE_AT = len(_SECTION), len(_SECTION) + 1


def header_of(octets: bytes) -> Header | None:
    """Return the header of an encoded message; None where it has none, or none that can be read."""
    if not octets.startswith(_SECTION) or len(octets) <= _SIZE_AT:
        # A descriptor may be written in other ways; another section stands after the header.
        return None if octets.startswith(_USUAL) else _read.__wrapped__(octets)
    code = octets[_CODE_AT]
    if code == _LIST8:
        # Messages of a queue have few different ones.
        return _read(octets[: _SIZE_AT + 1 + octets[_SIZE_AT]])
    return _read(octets[:_SIZE_AT]) if code == _EMPTY else _read.__wrapped__(octets)


@functools.lru_cache(256)
def _read(octets: bytes) -> Header | None:
    try:
        return scan(octets).section("header")
    except ValueError:
        return None


#: Whose messages a user may send, the target decides.
ANY_USER = Circumstances(user=None)

#: Makes what is sent of some deliveries, None for each that is to be translated by itself.
Translate = Callable[[Sequence[SourceDelivery]], list[Outgoing | None]]


def translator_of(
    to_1_0: bool,
    profile: str,
    names: Callable[[Any], tuple[str, str]],
    statistics: Statistics,
    fixed: tuple[str, str] | None = None,
) -> Translate | None:
    """Return the translator of batches, without what is of deliveries; None where there is none.

    `names` returns exchange and routing key to publish with, of what has those two attributes;
    `fixed` is what it returns, where it is the same for all.
    """
    found = kernel("1.0" if to_1_0 else "0-9-1", profile, circumstances=ANY_USER)
    if found is None:
        return None

    def to_message(deliveries: Sequence[SourceDelivery]) -> list[Outgoing | None]:
        headers = _column([one.content_header or b"" for one in deliveries])
        bodies = _column([one.octets for one in deliveries])
        rows = len(deliveries)
        odd, (_, wires, losses) = found.run(rows, headers, bodies, None, None, None)
        # What a header says of one delivery is to be taken out first.
        made: list[Outgoing | None] = [
            None if tells_of_delivery(one.content_header or b"") else Outgoing(wire)
            for one, wire in zip(deliveries, _cells(wires), strict=True)
        ]
        for row in odd:
            made[row] = None
        _count(deliveries, made, losses, statistics)
        return made

    def to_basic(deliveries: Sequence[SourceDelivery]) -> list[Outgoing | None]:
        rows = len(deliveries)
        wires = [one.octets for one in deliveries]
        odd, (_, *texts, _, losses) = found.run(rows, _column(wires))
        made: list[Outgoing | None] = []
        for wire, header, body, exchange, key in zip(wires, *map(_cells, texts), strict=True):
            if exchange or key or not _was_under_way(wire):
                at, by = fixed or names(_Names(exchange, key))
                made.append(Outgoing(body, header, at, by))
            else:
                made.append(None)
        for row in odd:
            made[row] = None
        _count(deliveries, made, losses, statistics)
        return made

    return to_message if to_1_0 else to_basic


class _Names:
    """Exchange and routing key of a message, as RabbitMQ says them at delivery."""

    __slots__ = ("_exchange", "_key")

    def __init__(self, exchange: bytes, key: bytes) -> None:
        self._exchange, self._key = exchange, key

    @property
    def exchange(self) -> str:
        return self._exchange.decode("utf-8", "surrogateescape")

    @property
    def routing_key(self) -> str:
        return self._key.decode("utf-8", "surrogateescape")


def _was_under_way(octets: bytes) -> bool:
    """Whether the header tells of this delivery, or of earlier ones, which are not passed on."""
    header = header_of(octets)
    return header is not None and (header.first_acquirer or header.delivery_count > 0)


def _column(cells: list[bytes]) -> tuple[None, Any, bytes, int]:
    """Return cells as a column of the kernel's."""
    return None, array("i", [0, *accumulate(map(len, cells))]), b"".join(cells), 0


def _ends(octets: bytes) -> array[int]:
    ends = array("i")
    ends.frombytes(octets)
    return ends


def _cells(buffers: tuple[Any, bytes, bytes]) -> list[bytes]:
    _, ends, data = buffers
    if not data:
        return [b""] * (len(_ends(ends)) - 1)
    return [data[start:end] for start, end in pairwise(_ends(ends))]


def _count(
    deliveries: Sequence[SourceDelivery],
    made: list[Outgoing | None],
    losses: Any,
    statistics: Statistics,
) -> None:
    """Count the losses of the messages that were made, once for each."""
    ends, paths, actions, *_ = losses
    of_rows = _ends(ends)
    if not of_rows[-1]:
        return
    found = list(zip(_cells(paths), _cells(actions), strict=True))
    counted: Counter[tuple[bytes, bytes]] = Counter()
    for delivery, one, (start, end) in zip(deliveries, made, pairwise(of_rows), strict=True):
        if start < end and one is not None and delivery.is_new:
            counted.update(found[start:end])
    for (path, action), count in counted.items():
        statistics.lose(path.decode("utf-8", "surrogateescape"), action.decode(), count)


def losses_of_names(
    source: Endpoint, target: Endpoint, options: RouteOptions, given: Any
) -> list[Loss]:
    """Return the losses of exchange and routing key of a 0-9-1 message or delivery.

    The sender chose them. They are lost on the way to 1.0 unless `keep_names` puts them into
    annotations, and on the way to 0-9-1 where the URL of the target names other ones.
    A message that was sent directly to the queue that the route reads loses nothing: exchange and
    routing key only name that queue.
    """
    own = given.exchange, given.routing_key
    queue = None if source.file is not None else source.queue
    if source.protocol != "0-9-1" or own in (("", ""), ("", queue)):
        return []
    if target.protocol == "1.0":
        if options.keep_names:
            return []
        sent, reason = ("", ""), "1.0 has no such field; --keep-names puts it into an annotation"
    else:
        sent, reason = _names(target, given), "the URL of the target names another one"
    return [
        Loss(path, "dropped", before, after or None, reason, recoverable=False)
        for path, before, after in zip(("exchange", "routing-key"), own, sent, strict=True)
        if before and before != after
    ]


#: Returns what to send, or None where the hook dropped the message.
Prepare = Callable[[SourceDelivery], Outgoing | None]
#: Returns that of each delivery, or what its `Prepare` raised.
PrepareAll = Callable[[Sequence[SourceDelivery]], "list[Outgoing | Exception | None]"]

#: Bytes of a message that is translated together with others.
_SMALL = 1 << 16


def message_of(delivery: SourceDelivery) -> BasicMessage | Message:
    """Return the message of a delivery."""
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
    """Return the preparation of deliveries; what goes wrong with one is in its place."""
    one = _sender_of_one(source, target, options, statistics)

    def count_names(given: Any) -> None:
        for loss in losses_of_names(source, target, options, given):
            statistics.lose(loss.path, loss.action)

    translates = source.protocol != target.protocol
    translate = None
    if translates and options.change is None and not options.keep_names:
        names = functools.partial(_names, target)
        to_1_0 = target.protocol == "1.0"
        fixed = ("", target.queue) if target.queue is not None else None
        translate = translator_of(to_1_0, options.profile, names, statistics, fixed)

    def prepare(delivery: SourceDelivery) -> Outgoing | Exception | None:
        if delivery.message_format and (translates or options.change is not None):
            return AmqpError(
                f"it has message-format {delivery.message_format}, and only messages of format 0 "
                "are translated or changed: move it to a target of 1.0, without a hook"
            )
        try:
            made = one(delivery)
        except Exception as error:  # noqa: BLE001  (of a hook: its message is set aside, not lost)
            return error
        if made is not None and delivery.is_new:
            count_names(delivery)
        return made

    def prepare_all(deliveries: Sequence[SourceDelivery]) -> list[Outgoing | Exception | None]:
        if translate is None or any(one.size > _SMALL or one.message_format for one in deliveries):
            return [prepare(delivery) for delivery in deliveries]
        made: list[Outgoing | Exception | None] = []
        for delivery, found in zip(deliveries, translate(deliveries), strict=True):
            if found is None:
                made.append(prepare(delivery))
                continue
            made.append(found)
            if delivery.is_new:
                count_names(delivery)
        return made

    return prepare_all


def _sender_of_one(
    source: Endpoint, target: Endpoint, options: RouteOptions, statistics: Statistics
) -> Prepare:
    """Return the preparation of one delivery, which may raise an `AmqpError`."""
    change = options.change
    to_1_0 = target.protocol == "1.0"
    translates = source.protocol != target.protocol
    if not translates and change is None:
        return _as_it_is if to_1_0 else _with_names(target)
    make: Any = to_amqp10 if to_1_0 else to_basic
    profile = options.profile

    def prepare(delivery: SourceDelivery) -> Outgoing | None:
        message: Any = message_of(delivery)
        if translates:
            message = without_delivery(message, source, options)
            made = make(message, profile, circumstances=ANY_USER)
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


def _as_it_is(delivery: SourceDelivery) -> Outgoing:
    return Outgoing(delivery.octets, message_format=delivery.message_format)


def _with_names(target: Endpoint) -> Prepare:
    def prepare(delivery: SourceDelivery) -> Outgoing:
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
