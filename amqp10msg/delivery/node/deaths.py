"""Dead letters (messages that are archived without being accepted) and their annotations."""

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
    """A message that a node archives although it was not accepted.

    Attributes:
        octets: the encoded message, with the rejection counted in its delivery-count.
        cause: ``rejected``, ``expired`` or ``deleted``.
        node: the name of the node.
        outcome: the `Rejected` outcome with its error; None for another cause.
        arrival: when the message was published, in ms of the node's clock.
        message_format: the message-format with which it was published.
        time: when the message is archived, in ms of the node's clock.
    """

    octets: bytes = attrs.field(repr=False)
    cause: str
    node: str
    outcome: Rejected | None
    arrival: int
    message_format: int = 0
    time: int = 0

    def annotated(self) -> bytes:
        """Return the message with RabbitMQ 4's message-annotations for a dead letter.

        ``x-opt-deaths`` is an array of maps, the last death first, with the keys:

        - ``ttl`` (uint, ms), if the message had one;
        - ``queue`` (string) and ``reason`` (symbol): the node and the cause;
        - ``count`` (ulong): the number of deaths with this cause at this node;
        - ``first-time``, ``last-time`` (timestamp);
        - ``exchange`` (string) and ``routing-keys`` (array of strings), from the annotations
          ``x-exchange`` and ``x-routing-key``.

        ``x-first-death-queue``, ``-reason``, ``-exchange`` and ``x-last-death-…`` are strings.
        Earlier deaths are kept. An ``x-opt-deaths`` of another shape is left unchanged.

        If the rejection has an error, ``x-opt-death-condition`` (symbol) and
        ``x-opt-death-description`` (string) are its condition and description; RabbitMQ has no such
        annotations. The ttl is removed from the header: the message must not expire again.

        Raises:
            DecodeError: a section before the bare message is malformed.
        """
        parts = scan(self.octets, limits=UNLIMITED)
        header = parts.section("header")
        ttl = header.ttl if header is not None else None
        annotations: dict[Any, Any] = dict(parts.section("message-annotations") or {})
        exchange, key = annotations.get("x-exchange"), annotations.get("x-routing-key")
        death = {
            "queue": self.node,
            "reason": self.cause,
            "exchange": exchange if isinstance(exchange, str) else "",
        }
        deaths = self._deaths(
            annotations.get(DEATHS),
            ttl,
            death["exchange"],
            key if isinstance(key, str) else self.node,
        )
        if deaths is not None:
            annotations[DEATHS] = deaths
        for name, value in death.items():
            annotations.setdefault(f"x-first-death-{name}", value)
            annotations[f"x-last-death-{name}"] = value
        error = self.outcome.error if self.outcome is not None else None
        for name in ("condition", "description"):
            annotations.pop(f"x-opt-death-{name}", None)
        if error is not None:
            annotations["x-opt-death-condition"] = Symbol(error.condition)
            if error.description is not None:
                annotations["x-opt-death-description"] = error.description
        if header is None or ttl is None:
            return parts.replace(message_annotations=MessageAnnotations(annotations))
        without_ttl = Header(
            header.durable, header.priority, None, header.first_acquirer, header.delivery_count
        )
        return parts.replace(
            header=without_ttl, message_annotations=MessageAnnotations(annotations)
        )

    def _deaths(self, earlier: Any, ttl: int | None, exchange: str, key: str) -> Array | None:
        """Return the earlier deaths and this death, last first; None if `earlier` is malformed."""
        history: list[Any] = []
        if earlier is not None:
            if not isinstance(earlier, Array) or not all(map(_is_death, earlier.values)):
                return None
            history = list(earlier.values)
        now = Timestamp(self.time)
        first, count = now, 1
        for previous in history:
            if (previous["queue"], previous["reason"]) == (self.node, self.cause):
                first, count = previous["first-time"], int(previous["count"]) + 1
                history.remove(previous)
                break
        death: dict[str, Any] = {} if ttl is None else {Symbol("ttl"): UInt(ttl)}
        death |= {
            Symbol("queue"): self.node,
            Symbol("reason"): Symbol(self.cause),
            Symbol("count"): ULong(min(count, 2**64 - 1)),
            Symbol("first-time"): first,
            Symbol("last-time"): now,
            Symbol("exchange"): exchange,
            Symbol("routing-keys"): Array("string", [key]),
        }
        return Array("map", [death, *history])


def _is_death(value: Any) -> bool:
    """Whether a value has the shape of a death in ``x-opt-deaths``."""
    return (
        isinstance(value, dict)
        and isinstance(value.get("queue"), str)
        and isinstance(value.get("reason"), str)
        and isinstance(value.get("count"), ULong)
        and isinstance(value.get("first-time"), Timestamp)
    )
