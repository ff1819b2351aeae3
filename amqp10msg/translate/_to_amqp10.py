"""The lossless translation from 0-9-1 to 1.0 in Python (the plain rules), for every message."""

from __future__ import annotations

from typing import Any, TypeVar

import attrs

from amqp10msg.basic.message import BasicMessage
from amqp10msg.basic.properties import BasicProperties, encode_field, encode_table
from amqp10msg.basic.tables import FieldTable, as_table
from amqp10msg.message import Message
from amqp10msg.sections import (
    ApplicationProperties,
    Data,
    Header,
    MessageAnnotations,
    Properties,
)
from amqp10msg.translate import residual
from amqp10msg.translate._delivery import encode_full_header, without_broker_headers
from amqp10msg.translate._headers import (
    INEXPRESSIBLE,
    annotation_of,
    header_value,
    is_name,
)
from amqp10msg.translate.losses import TO_AMQP10_LOSSES as LOSSES
from amqp10msg.translate.rabbitmq.terms import reencode_body
from amqp10msg.translate.report import Notes
from amqp10msg.translate.residual import (
    EMPTY_TABLE_KEY,
    EXCHANGE_KEY,
    HEADER_FIELDS_KEY,
    HEADER_TABLE_KEY,
    INDEXES_OF_X_HEADERS_KEY,
    MARKED_SECTIONS_KEY,
    ROUTING_KEY_KEY,
)
from amqp10msg.translate.table import (
    ENCODED_SECTIONS_TYPE_PROPERTY,
    ROWS,
    Row,
    shortstr,
)
from amqp10msg.wire.errors import DecodeError, EncodeError
from amqp10msg.wire.primitives import Symbol, ULong

_RESIDUAL_KEY = Symbol(residual.RESIDUAL_NAME)
_T = TypeVar("_T")


class Amqp10Draft:
    """The parts of the 1.0 message that a 0-9-1 message is translated to.

    Attributes:
        header: the fields of the header section, by name; None for no section.
        properties: the fields of the properties section, by name; None for no section.
        annotations: the message annotations.
        application: the application properties.
        carried: the content of the residual that the 1.0 message gets.
        body: the body section, or a list of body sections.
        body_octets: the payload of the 0-9-1 message, if it is encoded body sections; else None.
        is_data: whether the body consists of data sections.
        is_delivered: whether the exchange and routing key become annotations.
        has_residual: whether the 0-9-1 message has a residual from an earlier translation.
        unplaced: the names of headers that only the residual can hold.
        pending_losses: losses that are reported later, if the message still has them.
    """

    def __init__(self) -> None:
        self.header: dict[str, Any] | None = None
        self.properties: dict[str, Any] | None = None
        self.annotations: dict[Any, Any] = {}
        self.application: dict[str, Any] = {}
        self.carried: dict[int, Any] = {}
        self.body: Any = None
        self.body_octets: Any = None
        self.is_data = True
        self.is_delivered = False
        self.has_residual = False
        self.unplaced: list[str] = []
        self.pending_losses: list[Any] = []

    def set_field(self, row: Row, value: Any) -> None:
        """Set the 1.0 field for the property of a row."""
        if row.section == "header":
            self.header = {**(self.header or {}), row.field: value}
        else:
            self.properties = {**(self.properties or {}), row.field: value}

    def header_section(self, basic: BasicMessage, delivered: bool) -> Header | None:
        """Return the header section, with the redelivered flag of `basic`; None if it is empty."""
        values = self.header
        if delivered:
            values = {**(values or {}), "first_acquirer": not basic.redelivered}
        elif basic.redelivered:
            values = {**(values or {}), "delivery_count": 1}
        return None if values is None else unchecked(Header, values)

    def properties_section(self) -> Properties | None:
        """Return the properties section; None if it is empty."""
        return None if self.properties is None else unchecked(Properties, self.properties)

    def message(self, basic: BasicMessage) -> Message:
        """Return the 1.0 message, with the exchange and routing key of `basic`."""
        annotations = self.annotations
        if self.carried:
            annotations[_RESIDUAL_KEY] = residual.pack(self.carried)
        delivered = self.is_delivered
        if delivered:
            annotations[Symbol("x-exchange")] = basic.exchange
            annotations[Symbol("x-routing-key")] = basic.routing_key
        header = self.header_section(basic, delivered)
        message = Message(
            self.body,
            header=header,
            message_annotations=filled(MessageAnnotations, annotations),
            properties=self.properties_section(),
            application_properties=filled(ApplicationProperties, self.application),
        )
        if delivered and header is not None:
            other_sections = message.evolve(header=None, body=None).encode()
            return Message.decode(
                encode_full_header(header) + other_sections + self.octets_of_body()
            )
        if self.body_octets is not None and not message.encode().endswith(self.body_octets):
            # Keep the payload: this library would encode the sections differently.
            return Message.decode(message.evolve(body=None).encode() + self.body_octets)
        return message

    def octets_of_body(self) -> bytes:
        """Return the encoded body sections."""
        return Message(self.body).encode() if self.body_octets is None else self.body_octets


def unchecked(cls: type[_T], values: dict[str, Any]) -> _T:
    """Create a section without checking its fields: they are checked when it is encoded."""
    section = cls.__new__(cls)
    for field in attrs.fields(cls):  # type: ignore[arg-type]  # an attrs class
        setattr(section, field.name, values.get(field.name, field.default))
    return section


def filled(cls: Any, entries: dict[Any, Any]) -> Any:
    """Create a map section without checking its entries; None if `entries` is empty."""
    if not entries:
        return None
    section = cls.__new__(cls)
    section.update(entries)
    return section


def is_delivered(basic: BasicMessage) -> bool:
    """Whether exchange and routing key can become annotations, as in deliveries of RabbitMQ 4."""
    return bool(basic.exchange or basic.routing_key) and (
        shortstr(basic.exchange) and shortstr(basic.routing_key)
    )


def body_of(octets: bytes) -> Message | None:
    """Decode a payload of encoded body sections; None for any other payload."""
    try:
        message = Message.decode(octets)
    except DecodeError:
        return None
    has_only_body = all(
        getattr(message, name) is None
        for name in (
            "header",
            "delivery_annotations",
            "message_annotations",
            "properties",
            "application_properties",
            "footer",
        )
    )
    return message if has_only_body and message.body is not None else None


def translate_by_rules(basic: Any, notes: Any) -> Any:
    """Translate a 0-9-1 message by the plain rules; None if one of its headers is a residual."""
    table = basic.properties.headers
    entries = None
    if table is not None:
        entries = as_table(table).entries
        if entries and (basic.exchange or basic.routing_key):
            basic, entries = without_broker_headers(basic, entries, notes)
    draft = draft_of(basic, entries, notes)
    if draft.has_residual:
        notes.losses.clear()
        return None
    return draft.message(basic)


def draft_of(basic: Any, entries: Any, notes: Any) -> Amqp10Draft:
    """Translate a 0-9-1 message to the parts of a 1.0 message, including its residual.

    Args:
        basic: the message.
        entries: the entries of its table of headers; None if it has no table.
        notes: receives the losses.
    """
    draft = Amqp10Draft()
    is_routed = bool(basic.exchange or basic.routing_key)
    draft.is_delivered = is_routed and is_delivered(basic)
    if basic.properties.type == ENCODED_SECTIONS_TYPE_PROPERTY:
        _use_payload_as_sections(draft, basic)
    if draft.body is None:
        draft.body = Data(basic.body)
    _translate_properties(draft, basic.properties, notes)
    if basic.redelivered and not draft.is_delivered:
        notes.add_defined(LOSSES["redelivered"], "redelivered", True, 1)
    if is_routed and not draft.is_delivered:
        for key, text in ((EXCHANGE_KEY, basic.exchange), (ROUTING_KEY_KEY, basic.routing_key)):
            draft.carried[key] = text.encode("utf-8", "surrogateescape")
        notes.add_carried(
            "routing-key",
            (basic.exchange, basic.routing_key),
            "exchange or routing key is not valid UTF-8 without NUL of at most 255 bytes",
        )
    if entries is not None:
        _translate_headers(draft, entries, notes)
    return draft


def _use_payload_as_sections(draft: Amqp10Draft, basic: BasicMessage) -> None:
    """Set the body to the sections encoded in a payload of `ENCODED_SECTIONS_TYPE_PROPERTY`."""
    message = body_of(basic.body)
    if message is None:
        return
    draft.body = message.body
    draft.body_octets = basic.body
    first = message.body[0] if isinstance(message.body, list) else message.body
    draft.is_data = isinstance(first, Data)
    if draft.is_data or reencode_body(basic.body) is None:
        # This key tells the reverse translation to use the encoded sections as the payload, and to
        # set the property type. Otherwise, it would use the content of data sections, and would not
        # set the type for sections that RabbitMQ cannot deliver.
        draft.carried[MARKED_SECTIONS_KEY] = 1


def _translate_properties(draft: Amqp10Draft, properties: BasicProperties, notes: Notes) -> None:
    for row in ROWS:
        value = getattr(properties, row.name)
        # If the payload became body sections, they imply the type `ENCODED_SECTIONS_TYPE_PROPERTY`.
        if value is not None and not (
            row.name == "type"
            and value == ENCODED_SECTIONS_TYPE_PROPERTY
            and draft.body_octets is not None
        ):
            _translate_property(draft, row, value, notes)


def _translate_property(draft: Amqp10Draft, row: Row, value: Any, notes: Notes) -> None:
    """Translate a property by its row; the residual carries a value without an exact result."""
    target, translated_value, exact, (action, reason) = row.forward(value, draft.is_data)
    if target == "field":
        draft.set_field(row, translated_value)
    elif target == "annotation":
        draft.annotations[row.annotation] = translated_value
    path = f"properties.{row.name.replace('_', '-')}"
    if not exact:
        draft.carried[row.number] = _residual_value(row.name, value)
        notes.add(path, action, value, translated_value, reason, recoverable=True)
    elif type(translated_value) is ULong:
        reason = "a ulong id crashes 0-9-1 consumers of RabbitMQ 3.10"
        notes.add(path, "retyped", value, translated_value, reason, recoverable=True)


def _residual_value(name: str, value: Any) -> Any:
    """Convert the value of a property to a value that a residual can hold."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    if isinstance(value, int):
        return value
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    raise EncodeError(f"{value!r:.60} cannot be encoded", f"properties.{name}")


def _translate_headers(draft: Amqp10Draft, entries: list[Any], notes: Notes) -> None:
    fields: dict[str, bytes] = {}
    order: list[int] = []
    whole = False
    mixed = False
    for position, (name, letter, value) in enumerate(entries):
        item, exact = INEXPRESSIBLE, False
        section: dict[Any, Any] = draft.application
        key: str | None = name if is_name(name) else None
        if name[:2] == "x-":
            order.append(position)
            section, key = draft.annotations, annotation_of(name)
            draft.has_residual = draft.has_residual or name == residual.RESIDUAL_NAME
        else:
            mixed = mixed or bool(order)
        if key is not None and key not in section:
            item, exact = header_value(name, letter, value)
            if item is not INEXPRESSIBLE:
                section[key] = item
        if item is INEXPRESSIBLE:
            whole = True
            draft.unplaced.append(name)
            notes.add_defined(LOSSES["unplaced"], f"headers[{name!r}]", value)
        elif not exact:
            fields[name] = encode_field(letter, value)
            notes.add(
                f"headers[{name!r}]",
                "retyped",
                value,
                item,
                f"1.0 has no type for {letter!r}",
                recoverable=True,
            )
    if whole:
        draft.carried[HEADER_TABLE_KEY] = encode_table(FieldTable.of(entries))
        return
    if fields:
        draft.carried[HEADER_FIELDS_KEY] = fields
    if mixed:
        draft.carried[INDEXES_OF_X_HEADERS_KEY] = order
    if not entries:
        draft.carried[EMPTY_TABLE_KEY] = 1
