"""What a node is told about its bounds, and what it tells."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from amqp10msg.delivery.node.entry import Entry
from amqp10msg.delivery.outcomes import Rejected
from amqp10msg.delivery.states import MessageState

__all__ = ["Capacity", "Counts", "DeadLetter", "Waiting"]


@attrs.frozen
class Capacity:
    """What a node holds at most, AVAILABLE and ACQUIRED together; None for no bound.

    Attributes:
        messages: how many.
        octets: how many of their octets.
        message_octets: how long one of them may be.
    """

    messages: int | None = None
    octets: int | None = None
    message_octets: int | None = None


@attrs.frozen
class Counts:
    """How many messages a node has, by state.

    Attributes:
        available: AVAILABLE: waiting.
        acquired: ACQUIRED: on their way over a link in move mode.
        archived: ARCHIVED since the node was made: gone from it.
        octets: of those that are available or acquired.
        causes: why messages were archived, and how many: accepted, rejected, expired, deleted.
    """

    available: int
    acquired: int
    archived: int
    octets: int
    causes: Mapping[str, int]


@attrs.frozen
class DeadLetter:
    """A message that a node archives without anybody having accepted it.

    Attributes:
        octets: the message as it stands at the node, the rejection counted.
        cause: ``rejected``, ``expired`` or ``deleted``.
        node: the node's name.
        outcome: the `Rejected`, with its error; None in other cases.
        arrival: when it arrived at the node, in milliseconds of its clock.
        message_format: of the transfer that brought it.
    """

    octets: bytes = attrs.field(repr=False)
    cause: str
    node: str
    outcome: Rejected | None
    arrival: int
    message_format: int = 0


@attrs.frozen
class Waiting:
    """What a node tells of one of its messages.

    Attributes:
        sequence: its number at the node.
        arrival: when it arrived, in milliseconds of the node's clock.
        state: AVAILABLE or ACQUIRED.
        level: its priority level.
        delivery_count: unsuccessful attempts to deliver it, as its header says.
        expires: the last millisecond in which it is live; None if it never expires.
        octets: the message as it stands at the node.
    """

    sequence: int
    arrival: int
    state: MessageState
    level: int
    delivery_count: int
    expires: int | None
    octets: bytes = attrs.field(repr=False)

    @classmethod
    def of(cls, entry: Entry) -> Waiting:
        """Take what a node tells from what it knows."""
        return cls(
            entry.sequence,
            entry.arrival,
            entry.state,
            entry.level,
            entry.header.delivery_count,
            entry.expires,
            entry.octets,
        )
