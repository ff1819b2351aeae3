"""What a node is configured with, and what it reports, as plain records."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from amqp10msg.delivery.node.links import Entry
from amqp10msg.delivery.outcomes import Rejected
from amqp10msg.delivery.states import MessageState


@attrs.frozen
class Capacity:
    """The bounds of what a node holds, AVAILABLE and ACQUIRED together; None for no bound.

    Attributes:
        messages: the number of messages.
        octets: their total size.
        message_octets: the size of one message.
    """

    messages: int | None = None
    octets: int | None = None
    message_octets: int | None = None


@attrs.frozen
class Counts:
    """The number of messages at a node, by state.

    Attributes:
        available: AVAILABLE: waiting.
        acquired: ACQUIRED: unsettled on a link in move mode.
        archived: ARCHIVED since the node was made.
        octets: the total size of those that are available or acquired.
        causes: the number of archived messages by cause: accepted, rejected, expired, deleted,
            withdrawn.
    """

    available: int
    acquired: int
    archived: int
    octets: int
    causes: Mapping[str, int]


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
    """

    octets: bytes = attrs.field(repr=False)
    cause: str
    node: str
    outcome: Rejected | None
    arrival: int
    message_format: int = 0


@attrs.frozen
class Waiting:
    """A message that is AVAILABLE or ACQUIRED at a node.

    Attributes:
        sequence: its number at the node.
        arrival: when it arrived, in milliseconds of the node's clock.
        state: AVAILABLE or ACQUIRED.
        level: its priority level.
        delivery_count: the number of unsuccessful delivery attempts, from its header.
        expires: the last millisecond in which it is live; None if it never expires.
        octets: the message as it is at the node.
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
        """Return the public view of an entry."""
        return cls(
            entry.sequence,
            entry.arrival,
            entry.state,
            entry.level,
            entry.header.delivery_count,
            entry.expires,
            entry.octets,
        )
