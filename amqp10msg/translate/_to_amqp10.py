"""The lossless way from 0-9-1 to 1.0."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from amqp10msg import _wire
from amqp10msg.basic._codec import write_value
from amqp10msg.basic.message import BasicMessage
from amqp10msg.basic.properties import BasicProperties, encode_table
from amqp10msg.basic.tables import FieldTable
from amqp10msg.errors import DecodeError, EncodeError
from amqp10msg.message import Message
from amqp10msg.primitives import Int, Symbol, UInt
from amqp10msg.sections import (
    ApplicationProperties,
    Data,
    Header,
    MessageAnnotations,
    Properties,
)
from amqp10msg.translate import residual
from amqp10msg.translate._headers import annotation_of, is_name
from amqp10msg.translate._values import NOTHING, to_value
from amqp10msg.translate.report import Notes
from amqp10msg.translate.table import ROWS, shortstr

__all__ = [
    "BODY",
    "EMPTY",
    "EXCHANGE",
    "FIELDS",
    "MARKER",
    "ORDER",
    "ROUTING_KEY",
    "TABLE",
    "Natural",
    "body_of",
    "decorated",
    "is_delivered",
    "natural",
    "one_field",
]

MARKER = "amqp-1.0"
# Keys of the residual on the 1.0 side, besides the numbers of the properties.
TABLE = 3  # the whole table of headers, encoded
BODY = 15  # 1: the payload is encoded data sections
FIELDS = 16  # name -> letter and value of headers, encoded
ORDER = 17  # positions of the x- headers in the table
EMPTY = 18  # the table of headers is there, and empty
EXCHANGE = 19  # exchange and routing key, where annotations cannot hold them
ROUTING_KEY = 20

# Without the checks of what is given: everything is made here.
_fill: Any = Message.__attrs_init__
_values = attrgetter(*(row.name for row in ROWS))
_RULES = tuple(
    (row.number, row.name, row.section, row.field, row.annotation, row.forward) for row in ROWS
)
_new_int: Any = int.__new__
_NAME = Symbol(residual.NAME)
_EXCHANGE = Symbol("x-exchange")
_ROUTING_KEY = Symbol("x-routing-key")


class Natural:
    """What a 0-9-1 message becomes by the rules alone, and what these cannot say."""

    __slots__ = (
        *("annotations", "application", "body", "body_octets", "carried", "header", "is_data"),
        *("properties",),
    )

    def __init__(self) -> None:
        self.header: dict[str, Any] = {}
        self.properties: dict[str, Any] = {}
        self.annotations = MessageAnnotations()
        self.application = ApplicationProperties()
        self.carried: dict[int, Any] = {}
        self.body: Any = None
        self.body_octets: bytes | None = None
        self.is_data = True

    def message(self, basic: BasicMessage) -> Message:
        """Build the message."""
        annotations = self.annotations
        if self.carried:
            annotations[_NAME] = residual.pack(self.carried)
        delivered = is_delivered(basic)
        if delivered:
            annotations[_EXCHANGE] = basic.exchange
            annotations[_ROUTING_KEY] = basic.routing_key
        header = None
        if delivered:
            header = Header(**self.header, first_acquirer=not basic.redelivered)
        elif basic.redelivered:
            header = Header(**self.header, delivery_count=1)
        elif self.header:
            header = Header(**self.header)
        made = Message.__new__(Message)
        _fill(
            made,
            header,
            None,
            annotations or None,
            Properties(**self.properties) if self.properties else None,
            self.application or None,
            self.body,
            None,
            0,
            None,
            False,
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
        """Give the encoded body sections."""
        return Message(self.body).encode() if self.body_octets is None else self.body_octets


def is_delivered(basic: BasicMessage) -> bool:
    """Tell whether exchange and routing key stand in annotations, as RabbitMQ 4 delivers them."""
    return bool(basic.exchange or basic.routing_key) and (
        shortstr(basic.exchange) and shortstr(basic.routing_key)
    )


def decorated(header: Header) -> bytes:
    """Encode a header section with all fields, as RabbitMQ 4 writes it at delivery."""
    out = b"\x41" if header.durable else b"\x42"
    out += b"\x40" if header.priority == 4 else b"\x50" + bytes([header.priority])
    out += b"\x40" if header.ttl is None else _wire.encode_value(UInt(header.ttl))
    out += (b"\x41" if header.first_acquirer else b"\x42") + b"\x43"
    return b"\x00\x53\x70\xc0" + bytes([len(out) + 1, 5]) + out


def body_of(octets: bytes) -> Message | None:
    """Read a payload as the body sections that the marker promises; None where it is none."""
    try:
        found = Message.decode(octets)
    except DecodeError:
        return None
    alone = all(
        getattr(found, name) is None
        for name in (
            *("header", "delivery_annotations", "message_annotations", "properties"),
            *("application_properties", "footer"),
        )
    )
    return found if alone and found.body is not None else None


def one_field(letter: str, value: Any) -> bytes:
    """Encode letter and value of a header."""
    out = bytearray()
    write_value(out, letter, value, "rabbitmq", "headers", "", 0)
    return bytes(out)


def natural(basic: BasicMessage, entries: list[Any] | None, notes: Notes) -> Natural:
    """Translate by the rules, and collect what needs the residual.

    Args:
        basic: the message.
        entries: of its table of headers, None where it has none.
        notes: takes the losses.
    """
    made = Natural()
    given = basic.properties
    if given.type == MARKER:
        _marked_body(made, basic)
    if made.body is None:
        made.body = Data(basic.body)
    _properties(made, given, notes)
    if (basic.exchange or basic.routing_key) and not is_delivered(basic):
        for key, text in ((EXCHANGE, basic.exchange), (ROUTING_KEY, basic.routing_key)):
            made.carried[key] = text.encode("utf-8", "surrogateescape")
        notes.add(
            "routing-key",
            "carried",
            (basic.exchange, basic.routing_key),
            None,
            "exchange or routing key is no UTF-8 without NUL of 255 octets at most",
            recoverable=True,
        )
    if entries is not None:
        _headers(made, entries, notes)
    return made


def _marked_body(made: Natural, basic: BasicMessage) -> None:
    found = body_of(basic.body)
    if found is None:
        return
    made.body = found.body
    made.body_octets = basic.body
    first = found.body[0] if isinstance(found.body, list) else found.body
    made.is_data = isinstance(first, Data)
    if made.is_data:
        made.carried[BODY] = 1


def _properties(made: Natural, given: BasicProperties, notes: Notes) -> None:
    is_data = made.is_data
    for rule, value in zip(_RULES, _values(given), strict=True):
        if value is None:
            continue
        number, name, section, field, annotation, forward = rule
        if name == "type" and made.body_octets is not None:
            continue  # the kind of body says it
        where, item, exact, how = forward(value, is_data)
        if where == "field":
            (made.header if section == "header" else made.properties)[field] = item
        elif where == "annotation":
            made.annotations[annotation] = item
        if not exact:
            made.carried[number] = _original(name, value)
            action, reason = how
            notes.add(
                f"properties.{name.replace('_', '-')}",
                action,  # type: ignore[arg-type]
                value,
                item,
                reason,
                recoverable=True,
            )


def _original(name: str, value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    if isinstance(value, int):
        return value
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    raise EncodeError(f"{value!r:.60} does not fit", f"properties.{name}")


def _headers(made: Natural, entries: list[Any], notes: Notes) -> None:
    application = made.application
    annotations = made.annotations
    fields: dict[str, bytes] = {}
    order: list[int] = []
    whole = False
    mixed = False
    position = -1
    for name, letter, value in entries:
        position += 1
        # The usual letters without a call.
        item: Any
        exact = True
        simple = True
        if letter == "S" and type(value) is str and value.isascii():
            item = value
        elif letter == "I" and type(value) is int and -0x8000_0000 <= value <= 0x7FFF_FFFF:
            item = _new_int(Int, value)
        elif letter in "ld" or (letter == "t" and type(value) is bool):
            item = value
        else:
            simple = False
        if name[:2] == "x-":
            order.append(position)
            key = annotation_of(name)
            if key is None:
                item, exact = NOTHING, False
            elif not simple:
                item, exact = to_value(letter, value)
            if item is not NOTHING and key not in annotations:
                annotations[key] = item
            else:
                item = NOTHING
        else:
            if order:
                mixed = True
            if not simple:
                item, exact = to_value(letter, value, -1)
            if item is not NOTHING and name not in application and is_name(name):
                application[name] = item
            else:
                item = NOTHING
        if item is NOTHING:
            whole = True
            notes.add(
                f"headers[{name!r}]",
                "carried",
                value,
                None,
                "1.0 has no place for it",
                recoverable=True,
            )
        elif not exact:
            fields[name] = one_field(letter, value)
            notes.add(
                f"headers[{name!r}]",
                "retyped",
                value,
                item,
                f"1.0 has no type for {letter!r}",
                recoverable=True,
            )
    if whole:
        made.carried[TABLE] = encode_table(FieldTable.of(entries))
        return
    if fields:
        made.carried[FIELDS] = fields
    if mixed:
        made.carried[ORDER] = order
    if not entries:
        made.carried[EMPTY] = 1
