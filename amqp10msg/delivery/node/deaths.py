"""Dead letters: what a node archives although nobody accepted it, and how its message tells."""

from __future__ import annotations

from typing import Any

import attrs

from amqp10msg.brokers import DEATHS
from amqp10msg.delivery.states import Rejected
from amqp10msg.sections import Header, MessageAnnotations
from amqp10msg.sections.parts import scan
from amqp10msg.wire.limits import UNLIMITED
from amqp10msg.wire.primitives import Array, Symbol, Timestamp, UInt, ULong


@attrs.frozen
class DeadLetter:
    """A message that a node archives although no receiver accepted it.

    Attributes:
        octets: the message as it is at the node, the rejection counted.
        cause: ``rejected``, ``expired`` or ``deleted``.
        node: the node's name.
        outcome: the `Rejected`, with its error; None for another cause.
        arrival: when it arrived at the node, in milliseconds of its clock.
        message_format: of the transfer that brought it.
        time: when it is archived, in milliseconds of the node's clock.
    """

    octets: bytes = attrs.field(repr=False)
    cause: str
    node: str
    outcome: Rejected | None
    arrival: int
    message_format: int = 0
    time: int = 0

    def annotated(self) -> bytes:
        """Return the message with its death in the message-annotations, as RabbitMQ 4 writes them.

        ``x-opt-deaths`` is an array of maps, the last death first: ``ttl`` (uint, ms, where the
        message had one), ``queue`` (string), ``reason`` (symbol: the cause), ``count`` (ulong: how
        often it died of this reason at this node), ``first-time``, ``last-time`` (timestamp),
        ``exchange`` (string) and ``routing-keys`` (array of strings), from the annotations
        ``x-exchange`` and ``x-routing-key``. ``x-first-death-queue``, ``-reason`` and ``-exchange``
        and ``x-last-death-…`` are strings. Deaths that are there already are kept; where they have
        another shape, they stay as they are.

        Of a rejection with an error, ``x-opt-death-condition`` (symbol) and
        ``x-opt-death-description`` (string) are the condition and the description, which RabbitMQ
        drops. The ttl is removed from the header, so that the message does not expire again.

        Raises:
            DecodeError: the sections before the bare message do not parse.
        """
        parts = scan(self.octets, limits=UNLIMITED)
        header = parts.section("header")
        ttl = header.ttl if header is not None else None
        held: dict[Any, Any] = dict(parts.section("message-annotations") or {})
        exchange, key = held.get("x-exchange"), held.get("x-routing-key")
        where = {
            "queue": self.node,
            "reason": self.cause,
            "exchange": exchange if isinstance(exchange, str) else "",
        }
        deaths = self._deaths(
            held.get(DEATHS), ttl, where["exchange"], key if isinstance(key, str) else self.node
        )
        if deaths is not None:
            held[DEATHS] = deaths
        for name, value in where.items():
            held.setdefault(f"x-first-death-{name}", value)
            held[f"x-last-death-{name}"] = value
        error = self.outcome.error if self.outcome is not None else None
        for name in ("condition", "description"):
            held.pop(f"x-opt-death-{name}", None)
        if error is not None:
            held["x-opt-death-condition"] = Symbol(error.condition)
            if error.description is not None:
                held["x-opt-death-description"] = error.description
        if header is None or ttl is None:
            return parts.replace(message_annotations=MessageAnnotations(held))
        kept = Header(
            header.durable, header.priority, None, header.first_acquirer, header.delivery_count
        )
        return parts.replace(header=kept, message_annotations=MessageAnnotations(held))

    def _deaths(self, known: Any, ttl: int | None, exchange: str, key: str) -> Array | None:
        """The history with this death, the last one first; None if it has another shape."""
        history: list[Any] = []
        if known is not None:
            if not isinstance(known, Array) or not all(map(_is_death, known.values)):
                return None
            history = list(known.values)
        now = Timestamp(self.time)
        first, count = now, 1
        for death in history:
            if (death["queue"], death["reason"]) == (self.node, self.cause):
                first, count = death["first-time"], int(death["count"]) + 1
                history.remove(death)
                break
        made: dict[str, Any] = {} if ttl is None else {Symbol("ttl"): UInt(ttl)}
        made |= {
            Symbol("queue"): self.node,
            Symbol("reason"): Symbol(self.cause),
            Symbol("count"): ULong(min(count, 2**64 - 1)),
            Symbol("first-time"): first,
            Symbol("last-time"): now,
            Symbol("exchange"): exchange,
            Symbol("routing-keys"): Array("string", [key]),
        }
        return Array("map", [made, *history])


def _is_death(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("queue"), str)
        and isinstance(value.get("reason"), str)
        and isinstance(value.get("count"), ULong)
        and isinstance(value.get("first-time"), Timestamp)
    )
