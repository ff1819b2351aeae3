"""The properties of class basic (0-9-1, class 60): `BasicProperties` and their encoding."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from types import NoneType
from typing import Any

import attrs

from amqp10msg.basic._reader import LETTERS_BY_DIALECT, BasicReader, KeepsOriginal, PropertyLayout
from amqp10msg.basic._writer import write_rows, write_table, write_value
from amqp10msg.basic.tables import Dialect, FieldTable
from amqp10msg.wire import kernel
from amqp10msg.wire.errors import expect
from amqp10msg.wire.kernel.twin import FieldOutput
from amqp10msg.wire.limits import DEFAULT_LIMITS, Limits


@attrs.frozen
class PropertyRow:
    """The declaration of one property of a content class.

    Attributes:
        name: the Python attribute, such as ``content_type``.
        wire_name: the specification's name, such as ``content-type``.
        domain: the property's type: ``shortstr``, ``table``, ``octet`` or ``timestamp``.
        bit: the property's bit in the property flags, 15 for the first property.
    """

    name: str
    wire_name: str
    domain: str
    bit: int


#: The 0-9-1 types of properties, by the Python type in the declaration.
_DOMAIN_BY_TYPE = {"str": "shortstr", "FieldTable": "table", "int": "octet"}


def layout_of(cls: type[Any]) -> PropertyLayout:
    """Return the wire layout of a class of properties.

    The fields of `cls` must be in the order of the property flags.
    """
    return PropertyLayout(
        cls,
        tuple(
            PropertyRow(
                field.name,
                field.name.replace("_", "-"),
                "timestamp"
                if field.name == "timestamp"
                else _DOMAIN_BY_TYPE[str(field.type).split()[0]],
                15 - i,
            )
            for i, field in enumerate(attrs.fields(cls))
        ),
    )


#: The hint in the error for an int as expiration.
_EXPIRATION_HINT_BY_TYPE = {int: "text of milliseconds, such as '5000'"}


@attrs.define(weakref_slot=False)
class BasicProperties(KeepsOriginal):
    """The properties of a message of class basic. A missing property is None.

    Strings are str. Invalid UTF-8 from a peer becomes lone surrogates (PEP 383), which are encoded
    as the same bytes. Decoded properties keep their original bytes: encoding returns these bytes
    unless the properties were changed. A copy does not keep them.

    Attributes:
        content_type: MIME type of the body.
        content_encoding: MIME content encoding of the body.
        headers: the field table of the application; a dict is accepted. An empty table differs from
            None.
        delivery_mode: 1 for non-persistent, 2 for persistent; 0 to 255 on the wire.
        priority: 0 to 9; 0 to 255 on the wire.
        correlation_id: the application's correlation identifier.
        reply_to: the address for replies, usually the name of a queue.
        expiration: the specification does not define it. RabbitMQ reads it as the time to live in
            milliseconds, in decimal digits.
        message_id: the application's message identifier.
        timestamp: when the message was created, in seconds since the Unix epoch, 0 to 2^64 - 1, or
            an aware datetime.
        type: the application's name for the type of the message.
        user_id: the user who created the message; RabbitMQ requires the connection's user.
        app_id: the application that created the message.
        cluster_id: the cluster id in 0-9 and 0-8. In 0-9-1, it is reserved and must be empty.
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
        # Only the expiration is checked here, because an int is the most frequent mistake. Encoding
        # and translating check the other properties: checking all of them here would double the
        # time to create an object.
        if self.expiration is not None:
            expect(self.expiration, (str, bytes), "expiration", "a str", _EXPIRATION_HINT_BY_TYPE)

    def __repr__(self) -> str:
        arguments = ", ".join(
            f"{row.name}={value!r}"
            for row in PROPERTIES
            if (value := getattr(self, row.name)) is not None
        )
        return f"BasicProperties({arguments})"


kernel.make_fast(BasicProperties, expiration=(NoneType, str, bytes))
#: The wire layout of the properties of class basic.
BASIC_LAYOUT = layout_of(BasicProperties)
#: The 14 properties in the order of their flags (0-9-1, class basic).
PROPERTIES: tuple[PropertyRow, ...] = BASIC_LAYOUT.rows


def input_octets(data: bytes | bytearray | memoryview) -> bytes:
    """Return bytes-like input as bytes, or raise TypeError."""
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
    """Decode the property flags and the property list of class basic.

    Values that violate a rule of 0-9-1, such as priority 10, are accepted; `check_properties`
    reports them.

    Args:
        data: the flags and the list, without class, weight and body size.
        dialect: the dialect of field tables.
        limits: the limits of decoding; None for the defaults of `Limits`.

    Raises:
        DecodeError: the input is truncated, more bytes follow, or it has an undefined flag or an
            unknown field type.
    """
    reader = BasicReader(input_octets(data), dialect, limits)
    properties: BasicProperties = reader.properties(BASIC_LAYOUT)
    reader.finish()
    return properties


def _expect_dialect(dialect: object) -> None:
    """Raise ValueError for an unknown dialect."""
    if dialect not in LETTERS_BY_DIALECT:
        raise ValueError(f"unknown dialect {dialect!r}: use one of {', '.join(LETTERS_BY_DIALECT)}")


def encode_properties(properties: BasicProperties, *, dialect: Dialect = "rabbitmq") -> bytes:
    """Encode the property flags and the property list.

    Args:
        properties: the properties.
        dialect: the dialect of field tables.

    Raises:
        EncodeError: a value cannot be encoded; the error's path names it.
        TypeError: `properties` is not a BasicProperties.
        ValueError: the dialect is unknown.
    """
    expect(
        properties,
        BasicProperties,
        "the argument properties of encode_properties",
        "BasicProperties",
    )
    _expect_dialect(dialect)
    out = FieldOutput()
    write_rows(out, BASIC_LAYOUT, properties, dialect)
    return out.finish()


def decode_table(
    data: bytes | bytearray | memoryview,
    *,
    dialect: Dialect = "rabbitmq",
    limits: Limits | None = None,
) -> FieldTable:
    """Decode a field table.

    Args:
        data: the table with its four bytes of length.
        dialect: the dialect of field tables.
        limits: the limits of decoding; None for the defaults of `Limits`.

    Raises:
        DecodeError: the input is truncated, more bytes follow, or it has an unknown field type.
    """
    reader = BasicReader(input_octets(data), dialect, limits)
    table: FieldTable = reader.table(0)
    reader.finish()
    return table


def encode_table(table: FieldTable | Mapping[str, Any], *, dialect: Dialect = "rabbitmq") -> bytes:
    """Encode a field table with its four bytes of length.

    Raises:
        EncodeError: a name or value cannot be encoded; the error's path names it.
        ValueError: the dialect is unknown.
    """
    _expect_dialect(dialect)
    out = FieldOutput()
    write_table(out, table, dialect)
    return out.finish()


def decode_field(data: bytes, *, dialect: Dialect = "rabbitmq") -> tuple[str, Any]:
    """Decode one field value: a type letter and the value (4.2.5.5).

    Returns:
        The letter and the value.

    Raises:
        DecodeError: the input is empty or truncated, more bytes follow, or the dialect does not
            have the letter.
    """
    reader = BasicReader(data, dialect, DEFAULT_LIMITS)
    letter = reader.unsigned(1, "the letter of a field")
    value = reader.value(letter, len(data), 0)
    reader.finish()
    return chr(letter), value


def encode_field(letter: str, value: Any, *, dialect: Dialect = "rabbitmq") -> bytes:
    """Encode one field value: a type letter and the value (4.2.5.5).

    Raises:
        EncodeError: the value does not fit the letter, or the dialect does not have the letter.
        ValueError: the dialect is unknown.
    """
    _expect_dialect(dialect)
    out = FieldOutput()
    write_value(out, letter, value, dialect, "", "field", 0)
    return out.finish()
