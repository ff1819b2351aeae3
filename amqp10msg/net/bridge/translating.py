"""Translation of the deliveries of a turn of the loop at once, by the kernel that does batches.

It does the usual messages. The others, and all where there is no such kernel or where somebody
wants to see each message, are translated one by one.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import Any

from amqp10msg.net.bridge.headers import header_of
from amqp10msg.net.bridge.statistics import Statistics
from amqp10msg.net.bridge.terms import Delivery, Outgoing
from amqp10msg.translate import Circumstances
from amqp10msg.translate.batches import kernel, tells_of_delivery

#: Whose messages a user may send, the target decides.
ANYBODY = Circumstances(user=None)

#: Makes what is sent of some deliveries, None for each that is to be translated by itself.
Translate = Callable[[Sequence[Delivery]], list[Outgoing | None]]


def translator_of(
    to_1_0: bool,
    profile: str,
    names: Callable[[Any], tuple[str, str]],
    statistics: Statistics,
    fixed: tuple[str, str] | None = None,
) -> Translate | None:
    """Return what translates deliveries without their delivery's own facts; None where nothing can.

    Args:
        to_1_0: to which of the two protocols.
        profile: the translation.
        names: returns exchange and routing key to publish with, of what has those two attributes.
        statistics: takes the losses.
        fixed: what `names` returns, where it is the same for all.
    """
    found = kernel("amqp10" if to_1_0 else "basic", profile, circumstances=ANYBODY)
    if found is None:
        return None

    def to_message(deliveries: Sequence[Delivery]) -> list[Outgoing | None]:
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

    def to_basic(deliveries: Sequence[Delivery]) -> list[Outgoing | None]:
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
    return [data[start:end] for start, end in pairwise(_ends(ends))]


def _count(
    deliveries: Sequence[Delivery],
    made: list[Outgoing | None],
    losses: Any,
    statistics: Statistics,
) -> None:
    """Count the losses of the messages that were made, once for each."""
    ends, paths, actions, *_ = losses
    of_rows = _ends(ends)
    if not of_rows[-1]:
        return
    named = [
        (path.decode("utf-8", "surrogateescape"), action.decode())
        for path, action in zip(_cells(paths), _cells(actions), strict=True)
    ]
    for delivery, one, (start, end) in zip(deliveries, made, pairwise(of_rows), strict=True):
        if one is not None and delivery.is_new:
            for path, action in named[start:end]:
                statistics.lose(path, action)
