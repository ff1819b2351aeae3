# cython: language_level=3, boundscheck=True, wraparound=False, annotation_typing=False
"""What a 0-9-1 message becomes by the rules alone, put together as a 1.0 message.

Runs as it is, and compiled with the C types of `_natural.pxd`.
"""

from __future__ import annotations

from typing import Any

import attrs

from amqp10msg.basic.message import BasicMessage
from amqp10msg.message import Message
from amqp10msg.sections import (
    ApplicationProperties,
    Header,
    MessageAnnotations,
    Properties,
)
from amqp10msg.translate import residual
from amqp10msg.translate._delivery import decorated
from amqp10msg.translate.table import (
    ROWS,
)
from amqp10msg.wire.kernel.twin import Layout
from amqp10msg.wire.primitives import Symbol

# Without the checks of what is given: everything is made here.
_MESSAGE = Layout(Message, [field.name for field in attrs.fields(Message)])
_HEADER = Layout(Header, [field.name for field in attrs.fields(Header)])
_PROPERTIES = Layout(Properties, [field.name for field in attrs.fields(Properties)])
_NAME = Symbol(residual.NAME)
_EXCHANGE = Symbol("x-exchange")
_ROUTING_KEY = Symbol("x-routing-key")
_PLACES: dict[str, int] = {
    field.name: place
    for cls in (Header, Properties)
    for place, field in enumerate(attrs.fields(cls))
}
_SLOTS = bytes(_PLACES.get(row.field, 0) for row in ROWS)
_IN_HEADER = bytes(row.section == "header" for row in ROWS)
_FIRST_ACQUIRER, _COUNT = _PLACES["first_acquirer"], _PLACES["delivery_count"]
_BLANK_HEADER = [field.default for field in attrs.fields(Header)]
_BLANK_PROPERTIES: list[Any] = [None] * len(attrs.fields(Properties))


class Natural:
    """What a 0-9-1 message becomes by the rules alone, and what these cannot say.

    `header` and `properties` are the values of the sections' fields, in their order, and None as
    long as there is none. `unplaced` are the names of headers that have no place.
    """

    def __init__(self) -> None:
        self.header: Any = None
        self.properties: Any = None
        self.annotations: dict[Any, Any] = {}
        self.application: dict[str, Any] = {}
        self.carried: dict[int, Any] = {}
        self.body: Any = None
        self.body_octets: Any = None
        self.is_data = True
        self.is_delivered = False
        self.has_residual = False
        self.unplaced: list[str] = []

    def set(self, index: int, value: Any) -> None:
        """Set the field of a row."""
        if _IN_HEADER[index]:
            if self.header is None:
                self.header = _BLANK_HEADER.copy()
            self.header[_SLOTS[index]] = value
        else:
            if self.properties is None:
                self.properties = _BLANK_PROPERTIES.copy()
            self.properties[_SLOTS[index]] = value

    def header_section(self, basic: BasicMessage, delivered: bool) -> Header | None:
        """Build the header."""
        values = self.header
        if delivered or basic.redelivered:
            values = (values or _BLANK_HEADER).copy()
            if delivered:
                values[_FIRST_ACQUIRER] = not basic.redelivered
            else:
                values[_COUNT] = 1
        if values is None:
            return None
        header: Header = _HEADER.build(values)
        return header

    def properties_section(self) -> Properties | None:
        """Build the properties."""
        if self.properties is None:
            return None
        properties: Properties = _PROPERTIES.build(self.properties)
        return properties

    def message(self, basic: BasicMessage) -> Message:
        """Build the message."""
        annotations = self.annotations
        if self.carried:
            annotations[_NAME] = residual.pack(self.carried)
        delivered = self.is_delivered
        if delivered:
            annotations[_EXCHANGE] = basic.exchange
            annotations[_ROUTING_KEY] = basic.routing_key
        header = self.header_section(basic, delivered)
        made: Message = _MESSAGE.build(
            [
                header,
                None,
                _filled(MessageAnnotations, annotations),
                self.properties_section(),
                _filled(ApplicationProperties, self.application),
                self.body,
                None,
                0,
                None,
                False,
            ]
        )
        if delivered and header is not None:
            rest = made.evolve(header=None, body=None).encode()
            return Message.decode(decorated(header) + rest + self.octets_of_body())
        if self.body_octets is not None and not made.encode().endswith(self.body_octets):
            # Encodings that this library would not choose.
            without = Message(
                header=header,
                message_annotations=made.message_annotations,
                properties=made.properties,
                application_properties=made.application_properties,
            )
            return Message.decode(without.encode() + self.body_octets)
        return made

    def octets_of_body(self) -> bytes:
        """Return the encoded body sections."""
        return Message(self.body).encode() if self.body_octets is None else self.body_octets


def _filled(cls: Any, entries: dict[Any, Any]) -> Any:
    """Make a section of entries, None where there are none."""
    if not entries:
        return None
    made = cls.__new__(cls)
    made.update(entries)
    return made
