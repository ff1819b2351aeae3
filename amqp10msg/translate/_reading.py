# cython: language_level=3, boundscheck=True, wraparound=False, annotation_typing=False
"""What a 1.0 message becomes by the rules alone, put together as a 0-9-1 message.

Runs as it is, and compiled with the C types of `_reading.pxd`.
"""

from __future__ import annotations

from typing import Any

import attrs

from amqp10msg.basic.message import BasicMessage
from amqp10msg.basic.properties import BasicProperties
from amqp10msg.basic.tables import FieldTable
from amqp10msg.message import Message
from amqp10msg.wire.kernel.twin import Layout

# Within this no limit of decoding matters on the way back.
_CERTAIN = 65_536
# Without the checks of what is given: everything is made here.
_GIVEN = Layout(BasicProperties, [field.name for field in attrs.fields(BasicProperties)])
_BASIC = Layout(BasicMessage, [field.name for field in attrs.fields(BasicMessage)])
_BLANK: list[Any] = [None] * len(attrs.fields(BasicProperties))
_PLACES = {name: place for place, name in enumerate(_GIVEN.names)}
_HEADERS, DELIVERY_MODE, PRIORITY_AT, EXPIRATION, TYPE = (
    _PLACES[name] for name in ("headers", "delivery_mode", "priority", "expiration", "type")
)


class Reading:
    """What a 1.0 message becomes by the rules alone, and what these cannot say.

    `given` are the values of the properties in their order, of which `read` makes `basic`. With
    `certain`, all of it is a matter of single rows and entries, each of which is exact or carried,
    so that the way back gives the same bytes.
    """

    def __init__(self, message: Message, wire: bytes) -> None:
        self.message = message
        self.body = message.body
        self.raw = wire
        self.basic: BasicMessage = None  # type: ignore[assignment]
        self.given = _BLANK.copy()
        self.payload: Any = b""
        self.exchange = ""
        self.routing_key = ""
        self.redelivered = False
        self.entries: list[Any] = []
        self.carried: dict[int, Any] = {}
        self.saved: Any = None
        self.restored: Any = None
        self.split = 0
        self.certain = len(wire) <= _CERTAIN

    def build(self) -> None:
        """Make `basic` of what was read."""
        if self.entries:
            table = FieldTable.__new__(FieldTable)
            table.entries = self.entries
            self.given[_HEADERS] = table
        self.basic = _BASIC.build(
            [
                _GIVEN.build(self.given),
                self.payload,
                self.exchange,
                self.routing_key,
                self.redelivered,
            ]
        )


def with_headers(basic: Any, table: Any) -> Any:
    """Return a copy of a 0-9-1 message with other headers."""
    values = list(_GIVEN.values(basic.properties))
    values[_HEADERS] = table
    return _BASIC.build(
        [
            _GIVEN.build(values),
            basic.body,
            basic.exchange,
            basic.routing_key,
            basic.redelivered,
        ]
    )
