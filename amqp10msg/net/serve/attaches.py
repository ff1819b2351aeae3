"""What a peer's attach asks for: its termini and its unsettled deliveries, decoded."""

from __future__ import annotations

from typing import Any

import attrs

from amqp10msg import AmqpMap, DecodeError, Described
from amqp10msg.composite import from_described
from amqp10msg.delivery import Coordinator, Source, Target
from amqp10msg.net import transport


@attrs.frozen
class Attach:
    """The fields of a peer's attach that a node needs (Part 2, 2.7.3).

    Attributes:
        source: None if it is missing.
        target: None if it is missing.
        unsettled: the states of the peer's unsettled deliveries by delivery-tag, None for null.
        incomplete: whether there are more, which do not stand there.
        fault: why one of them cannot be decoded; None if all can.
    """

    source: Source | None
    target: Target | Coordinator | None
    unsettled: dict[bytes, Any]
    incomplete: bool = False
    fault: DecodeError | None = None

    @classmethod
    def of(cls, attach: transport.Attach) -> Attach:
        """Return what an attach asks for."""
        try:
            source, target = _decoded(attach.source), _decoded(attach.target)
            states = attach.unsettled if isinstance(attach.unsettled, dict) else {}
            unsettled = {tag: _decoded(state) for tag, state in states.items()}
        except DecodeError as error:
            return cls(None, None, {}, fault=error)
        return cls(
            source if isinstance(source, Source) else None,
            target if isinstance(target, Target | Coordinator) else None,
            unsettled,
            bool(attach.incomplete_unsettled),
        )


def _decoded(value: Any) -> Any:
    """Return the source, target or delivery state in a field; None for anything else."""
    if isinstance(value, AmqpMap) or not isinstance(value, Described):
        return None
    return from_described(value)
