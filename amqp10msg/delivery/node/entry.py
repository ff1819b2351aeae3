"""A message at a node, and what is known of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from amqp10msg.delivery.states import MessageState
from amqp10msg.limits import UNLIMITED
from amqp10msg.message import Message
from amqp10msg.sections import Header

if TYPE_CHECKING:
    from amqp10msg.delivery.node.links import Delivery

__all__ = ["NOBODY", "NO_HEADER", "SEVERAL", "Entry"]

#: For `Entry.acquirer`; a link's number is positive.
NOBODY = 0
SEVERAL = -1
#: What a message without a header says in it; never changed.
NO_HEADER = Header()


@attrs.define(eq=False, weakref_slot=False)
class Entry:
    """A message at a node.

    Attributes:
        sequence: its number at the node.
        arrival: in milliseconds of the node's clock.
        octets: the message as it stands at the node, with what outcomes changed.
        header: what is in `octets`; never changed in place.
        expires: the last millisecond in which it is live; None if it never expires.
        message_format: of the transfer that brought it.
        origin: whom it came from, as `publish` was told; None after a restart.
        level: its priority level.
        position: its place in that level.
        stored: it is in the store.
        state: as in figure 3.1 of Part 3.
        acquirer: the number of the only link that ever acquired it, NOBODY or SEVERAL.
        delivery: the transfer that acquired it.
        copies: unsettled transfers in copy mode, by link number.
        not_for: the numbers of links that must not get it: those in copy mode that have, and those
            where it is undeliverable.
        timed: it stands in the node's list of what expires.
        came_back: views may hold its position.
    """

    sequence: int
    arrival: int
    octets: bytes
    header: Header
    expires: int | None
    message_format: int
    level: int
    position: int = 0
    origin: object = None
    stored: bool = False
    state: MessageState = MessageState.AVAILABLE
    acquirer: int = NOBODY
    delivery: Delivery | None = None
    copies: dict[int, Delivery] | None = None
    not_for: set[int] | None = None
    timed: bool = False
    came_back: bool = False

    def message(self) -> Message:
        """Decode it as it stands at the node."""
        return Message.decode(self.octets, limits=UNLIMITED, message_format=self.message_format)

    def ttl_at(self, now: int) -> int | None:
        """Give the ttl to send on with (Part 3, 3.2.1); None if it came without one."""
        ttl = self.header.ttl
        return None if ttl is None else max(self.arrival + ttl - now, 0)
