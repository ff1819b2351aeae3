"""The properties of class basic (0-9-1, class 60): `BasicProperties` and its encoding."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from types import NoneType
from typing import Any

import attrs

from amqp10msg.basic._reader import LETTERS, BasicReader, Kept, PropertyRows
from amqp10msg.basic._writer import write_rows, write_table, write_value
from amqp10msg.basic.tables import Dialect, FieldTable
from amqp10msg.wire import kernel
from amqp10msg.wire.errors import expect
from amqp10msg.wire.kernel.twin import FieldOutput
from amqp10msg.wire.limits import DEFAULT_LIMITS, Limits


@attrs.frozen
class PropertyRow:
    """One property of a content class.

    Attributes:
        name: the attribute, such as ``content_type``.
        wire_name: the specification's name, such as ``content-type``.
        domain: its type: shortstr, table, byte or timestamp.
        bit: its bit in the property flags, 15 for the first.
    """

    name: str
    wire_name: str
    domain: str
    bit: int


#: The types of 0-9-1 by those of Python, as the properties' classes declare them.
_DOMAINS = {"str": "shortstr", "FieldTable": "table", "int": "octet"}


def layout_of(cls: type[Any]) -> PropertyRows:
    """Return how properties of the class are laid out: its fields are in the order of the flags."""
    return PropertyRows(
        cls,
        tuple(
            PropertyRow(
                field.name,
                field.name.replace("_", "-"),
                "timestamp" if field.name == "timestamp" else _DOMAINS[str(field.type).split()[0]],
                15 - i,
            )
            for i, field in enumerate(attrs.fields(cls))
        ),
    )


_MILLISECONDS = {int: "text of milliseconds, such as '5000'"}


@attrs.define(weakref_slot=False)
class BasicProperties(Kept):
    """The properties of one message of class basic; None where a property is not present.

    Text is str; bytes of a peer that are not valid UTF-8 stand in it as lone surrogates (PEP 383)
    and are encoded as they came. What was decoded keeps its bytes, and gives them back as long as
    it says the same; a copy keeps none.

    Attributes:
        content_type: MIME type of the body.
        content_encoding: MIME content encoding of the body.
        headers: the application's fields; a dict is taken too. An empty table is not None.
        delivery_mode: 1 for non-persistent, 2 for persistent; 0 to 255 on the wire.
        priority: 0 to 9; 0 to 255 on the wire.
        correlation_id: the application's correlation identifier.
        reply_to: address to reply to, usually a queue's name.
        expiration: how long the message lives, as decimal text in milliseconds where RabbitMQ
            reads it; the specification leaves it open.
        message_id: the application's message identifier.
        timestamp: when the message was made, in seconds since the Unix epoch, 0 to 2^64 - 1; an
            aware datetime is taken too.
        type: the application's name of the kind of message.
        user_id: who made it; RabbitMQ checks it against the connection's user.
        app_id: which application made it.
        cluster_id: reserved in 0-9-1 and must be empty there; the cluster id of 0-9 and 0-8.
    """

    content_type: str | None = None
    content_encoding: str | None = None
    headers: FieldTable | Mapping[str, Any] | None = None
    delivery_mode: int | None = None
    priority: int | None = None
    correlation_id: str | None = None
    reply_to: str | None = None
    expiration: str | None = None
    message_id: str | None = None
    timestamp: int | datetime.datetime | None = None
    type: str | None = None
    user_id: str | None = None
    app_id: str | None = None
    cluster_id: str | None = None

    def __attrs_post_init__(self) -> None:
        # The most frequent mistake; others are told when they are encoded or translated, as to look
        # at each property would double what making an object costs.
        if self.expiration is not None:
            expect(self.expiration, (str, bytes), "expiration", "a str", _MILLISECONDS)

    def __repr__(self) -> str:
        shown = ", ".join(
            f"{row.name}={value!r}"
            for row in PROPERTIES
            if (value := getattr(self, row.name)) is not None
        )
        return f"BasicProperties({shown})"


kernel.make_fast(BasicProperties, expiration=(NoneType, str, bytes))
#: The layout of class basic.
BASIC = layout_of(BasicProperties)
#: The 14 properties in the order of their flags (0-9-1, class basic).
PROPERTIES: tuple[PropertyRow, ...] = BASIC.rows


def input_octets(data: bytes | bytearray | memoryview) -> bytes:
    """Return the input as bytes; raise TypeError for anything but bytes-like objects."""
    if type(data) is bytes:
        return data
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeError(f"expected bytes, bytearray or memoryview, not {type(data).__name__}")
    return bytes(data)


def decode_properties(
    data: bytes | bytearray | memoryview,
    *,
    dialect: Dialect = "rabbitmq",
    limits: Limits | None = None,
) -> BasicProperties:
    """Decode the property flags and property list of class basic, which fill the input.

    What a server would refuse for its meaning is read: `check_properties` reports it.

    Args:
        data: the flags and the list, without class, weight and body size.
        dialect: how the letters of field tables are read, see `Dialect`.
        limits: what reading may cost; the defaults of `Limits` where None.

    Raises:
        DecodeError: cut off, more bytes than it says, a flag of no property, a field of no type.
    """
    reader = BasicReader(input_octets(data), dialect, limits)
    made: BasicProperties = reader.properties(BASIC)
    reader.finish()
    return made


def _expect_dialect(dialect: object) -> None:
    if dialect not in LETTERS:
        raise ValueError(f"there is no dialect {dialect!r}: use {', '.join(LETTERS)}")


def encode_properties(properties: BasicProperties, *, dialect: Dialect = "rabbitmq") -> bytes:
    """Encode property flags and property list.

    Raises:
        EncodeError: a value does not fit its property; the error's path says which.
        TypeError: `properties` is not a BasicProperties.
        ValueError: there is no such dialect.
    """
    expect(properties, BasicProperties, "the properties of encode_properties", "BasicProperties")
    _expect_dialect(dialect)
    out = FieldOutput()
    write_rows(out, BASIC, properties, dialect)
    return out.finish()


def decode_table(
    data: bytes | bytearray | memoryview,
    *,
    dialect: Dialect = "rabbitmq",
    limits: Limits | None = None,
) -> FieldTable:
    """Decode a field table that fills the input, its four bytes of length included.

    Raises:
        DecodeError: cut off, more bytes than it says, or a field of no type.
    """
    reader = BasicReader(input_octets(data), dialect, limits)
    made: FieldTable = reader.table(0)
    reader.finish()
    return made


def encode_table(table: FieldTable | Mapping[str, Any], *, dialect: Dialect = "rabbitmq") -> bytes:
    """Encode a field table with its four bytes of length.

    Raises:
        EncodeError: a name or value does not fit; the error's path says which.
        ValueError: there is no such dialect.
    """
    _expect_dialect(dialect)
    out = FieldOutput()
    write_table(out, table, dialect)
    return out.finish()


def decode_field(data: bytes, *, dialect: Dialect = "rabbitmq") -> tuple[str, Any]:
    """Decode one field that fills the input, a letter and the value after it (4.2.5.5).

    Returns:
        The letter and the value.

    Raises:
        DecodeError: empty, cut off, more bytes than it says, or no letter of the dialect.
    """
    reader = BasicReader(data, dialect, DEFAULT_LIMITS)
    letter = reader.unsigned(1, "the letter of a field")
    value = reader.value(letter, len(data), 0)
    reader.finish()
    return chr(letter), value


def encode_field(letter: str, value: Any, *, dialect: Dialect = "rabbitmq") -> bytes:
    """Encode one field: its letter and its value (4.2.5.5).

    Raises:
        EncodeError: the value does not fit, or the dialect has no such letter.
        ValueError: there is no such dialect.
    """
    _expect_dialect(dialect)
    out = FieldOutput()
    write_value(out, letter, value, dialect, "", "field", 0)
    return out.finish()
