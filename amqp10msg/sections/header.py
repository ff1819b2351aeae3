"""The header section (Part 3, 3.2.1)."""

from __future__ import annotations

import attrs

from amqp10msg.composite import composite
from amqp10msg.sections._types import check_types, fitting_types
from amqp10msg.wire import kernel
from amqp10msg.wire.primitives import boolean, milliseconds, ubyte, uint


@composite("amqp:header:list", 0x70, provides=("section",))
@attrs.define(weakref_slot=False)
class Header(kernel.Record):
    """Standard delivery details about the transfer of a message (Part 3, 3.2.1).

    Types are checked at once, ranges and what is assigned later when it is encoded: `EncodeError`
    says which field is wrong.

    Attributes:
        durable: the message must not be lost even if an intermediary is restarted unexpectedly.
        priority: relative priority, 0 to 255, higher first; 4 is normal.
        ttl: how long the message is live, in milliseconds from its arrival at an intermediary,
            0 to 2^32 - 1; None for no bound.
        first_acquirer: no other link has acquired the message before.
        delivery_count: earlier unsuccessful attempts to deliver it, 0 to 2^32 - 1.
    """

    durable: boolean = False
    priority: ubyte = 4
    ttl: milliseconds | None = None
    first_acquirer: boolean = False
    delivery_count: uint = 0

    def __attrs_post_init__(self) -> None:
        check_types(self, Header)


kernel.make_fast(Header, **fitting_types(Header))
