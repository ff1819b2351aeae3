"""Delivery states and outcomes (Part 3, 3.4)."""

from __future__ import annotations

from typing import Annotated

import attrs

from amqp10msg.composite import Error, composite
from amqp10msg.delivery.states import DeliveryState, Shared
from amqp10msg.wire.primitives import Wire, boolean, fields, uint, ulong

error = Annotated[Error, Wire("*", "error", requires="error")]
_OUTCOME = ("delivery-state", "outcome")


@composite("amqp:received:list", 0x23, provides=("delivery-state",))
@attrs.define
class Received(DeliveryState):
    """The point up to which a message was received, to resume its transfer (Part 3, 3.4.1).

    Attributes:
        section_number: the section, from 0, at most 2^32 - 1.
        section_offset: the byte in that section, from 0 at its descriptor, at most 2^64 - 1.
    """

    section_number: uint
    section_offset: ulong


@composite("amqp:accepted:list", 0x24, provides=_OUTCOME)
@attrs.frozen
class Accepted(Shared, DeliveryState):
    """The receiver processed the message successfully (Part 3, 3.4.2)."""


@composite("amqp:rejected:list", 0x25, provides=_OUTCOME)
@attrs.define
class Rejected(DeliveryState):
    """The message is invalid and cannot be processed (Part 3, 3.4.3).

    Attributes:
        error: the reason.
    """

    error: error | None = None


@composite("amqp:released:list", 0x26, provides=_OUTCOME)
@attrs.frozen
class Released(Shared, DeliveryState):
    """The message was not, and will not be, processed (Part 3, 3.4.4)."""


@composite("amqp:modified:list", 0x27, provides=_OUTCOME)
@attrs.define
class Modified(DeliveryState):
    """The message was modified, but not processed (Part 3, 3.4.5).

    Attributes:
        delivery_failed: whether the transfer counts as an unsuccessful delivery attempt.
        undeliverable_here: whether not to deliver it on this link again.
        message_annotations: annotations to add to the message or to replace in it.
    """

    delivery_failed: boolean = False
    undeliverable_here: boolean = False
    message_annotations: fields | None = None


# Made at import, before two threads can make two.
for _outcome in (Accepted, Released):
    _outcome()
