"""Classes of AMQP 0-9 that 0-9-1 removed: file (70), stream (80), tunnel (110), message (120).

Of the class message, only the method message.transfer (10) contains a message.

The package encodes and decodes their properties, and `to_basic_message` converts them to a message
of class basic, which `amqp10msg.translate` can translate to 1.0. A property that class basic lacks
becomes a header with the prefix ``amqp-0-9.``.
"""

from __future__ import annotations

import struct
from typing import Any, TypeAlias

import attrs

from amqp10msg.basic._reader import BasicReader, PropertyLayout
from amqp10msg.basic._writer import (
    write_longstr,
    write_number,
    write_rows,
    write_shortstr,
    write_table,
)
from amqp10msg.basic.message import BasicMessage
from amqp10msg.basic.properties import BasicProperties, input_octets, layout_of
from amqp10msg.basic.tables import Dialect, FieldTable
from amqp10msg.wire.errors import EncodeError, expect, wrong_type
from amqp10msg.wire.kernel.twin import FieldOutput
from amqp10msg.wire.limits import Limits

__all__ = [
    "CLASSES",
    "FileProperties",
    "StreamProperties",
    "Transfer",
    "TunnelProperties",
    "decode_class_header",
    "decode_transfer",
    "encode_class_header",
    "encode_transfer",
    "to_basic_message",
]

#: The prefix of headers for properties that class basic lacks.
_LEGACY_HEADER_PREFIX = "amqp-0-9."


@attrs.define
class FileProperties:
    """Properties of class file (70), for reliable transfer of files.

    Attributes:
        content_type: MIME type.
        content_encoding: MIME content encoding.
        headers: a field table of the application.
        priority: 0 to 9.
        reply_to: the address for replies.
        message_id: the application's identifier of the message.
        filename: the name of the file.
        timestamp: seconds since the Unix epoch.
        cluster_id: for routing within a cluster.
    """

    content_type: str | None = None
    content_encoding: str | None = None
    headers: FieldTable | None = None
    priority: int | None = None
    reply_to: str | None = None
    message_id: str | None = None
    filename: str | None = None
    timestamp: int | None = None
    cluster_id: str | None = None


@attrs.define
class StreamProperties:
    """Properties of class stream (80), for streaming.

    Attributes:
        content_type: MIME type.
        content_encoding: MIME content encoding.
        headers: a field table of the application.
        priority: 0 to 9.
        timestamp: seconds since the Unix epoch.
    """

    content_type: str | None = None
    content_encoding: str | None = None
    headers: FieldTable | None = None
    priority: int | None = None
    timestamp: int | None = None


@attrs.define
class TunnelProperties:
    """Properties of class tunnel (110), for other protocols in an AMQP connection.

    Attributes:
        headers: a field table of the application.
        proxy_name: identity of the tunnelling proxy.
        data_name: name or type of the tunnelled data.
        durable: 0 to 255; whether the content survives a restart.
        broadcast: 0 to 255; whether the content is sent to all peers.
    """

    headers: FieldTable | None = None
    proxy_name: str | None = None
    data_name: str | None = None
    durable: int | None = None
    broadcast: int | None = None


#: The properties of a message of class file, stream or tunnel.
ClassProperties: TypeAlias = FileProperties | StreamProperties | TunnelProperties

#: For each content class (70, 80 or 110), the Python class of the properties, and their wire
#: layout.
CLASSES: dict[int, tuple[type[Any], PropertyLayout]] = {
    70: (FileProperties, layout_of(FileProperties)),
    80: (StreamProperties, layout_of(StreamProperties)),
    110: (TunnelProperties, layout_of(TunnelProperties)),
}

#: The first two fields of a content header: class and weight.
_CLASS_AND_WEIGHT_FORMAT = struct.Struct(">HH")
_TICKET_FORMAT = struct.Struct(">H")


def decode_class_header(
    data: bytes | bytearray | memoryview,
    *,
    dialect: Dialect = "rabbitmq",
    limits: Limits | None = None,
) -> tuple[ClassProperties, int]:
    """Decode the payload of a content header frame of class file, stream or tunnel.

    Returns:
        The properties, and the size of the body in bytes.

    Raises:
        DecodeError: the payload is truncated, has another class or a weight other than 0, or the
            properties are invalid.
    """
    octets = input_octets(data)
    reader = BasicReader(octets, dialect, limits)
    class_id = reader.unsigned(2, "the class")
    if class_id not in CLASSES:
        raise reader.fault(f"the class must be 70, 80 or 110, not {class_id}", 0, "content-class")
    weight = reader.unsigned(2, "the weight")
    if weight:
        raise reader.fault(f"the weight must be 0, not {weight}", 2, "content-weight")
    size = reader.unsigned(8, "the body's size")
    _, layout = CLASSES[class_id]
    properties: ClassProperties = reader.properties(layout)
    reader.finish()
    return properties, size


def encode_class_header(
    properties: ClassProperties, body_size: int = 0, *, dialect: Dialect = "rabbitmq"
) -> bytes:
    """Encode the payload of a content header frame of class file, stream or tunnel.

    Args:
        properties: the properties; their class determines the content class.
        body_size: the body's size in bytes, 0 to 2^64 - 1.
        dialect: the dialect of field tables.

    Raises:
        EncodeError: a value cannot be encoded; the error's path names it. Or `properties` has
            another class.
    """
    for class_id, (cls, layout) in CLASSES.items():
        if type(properties) is cls:
            out = FieldOutput()
            write_number(out, body_size, 8, "body-size")
            write_rows(out, layout, properties, dialect)
            return _CLASS_AND_WEIGHT_FORMAT.pack(class_id, 0) + out.finish()
    raise EncodeError(
        f"expected properties of class file, stream or tunnel, not {properties!r:.60}"
    )


@attrs.define
class Transfer:
    """The arguments of message.transfer (class 120, method 10) of AMQP 0-9.

    Attributes:
        ticket: access ticket, 0 to 65,535.
        destination: the exchange or consumer that receives the message.
        redelivered: whether the message may have been delivered before.
        immediate: whether to reject the message if no consumer is ready.
        ttl: time to live in ms; 0 for no limit.
        priority: 0 to 9.
        timestamp: arrival time in seconds since the Unix epoch.
        delivery_mode: 1 for non-persistent, 2 for persistent.
        expiration: expiration time in seconds since the Unix epoch.
        exchange: the exchange that the message was published to.
        routing_key: the routing key that the message was published with.
        message_id: the application's identifier of the message.
        correlation_id: the application's correlation identifier.
        reply_to: the address for replies.
        content_type: MIME type.
        content_encoding: MIME content encoding.
        user_id: the user who created the message.
        app_id: the application that created the message.
        transaction_id: identifies a distributed transaction.
        security_token: a token for authentication and similar uses.
        application_headers: a field table of the application.
        body: the body, or the name of the reference that contains the body.
        by_reference: whether `body` is the name of a reference.
    """

    ticket: int = 0
    destination: str = ""
    redelivered: bool = False
    immediate: bool = False
    ttl: int = 0
    priority: int = 0
    timestamp: int = 0
    delivery_mode: int = 0
    expiration: int = 0
    exchange: str = ""
    routing_key: str = ""
    message_id: str = ""
    correlation_id: str = ""
    reply_to: str = ""
    content_type: str = ""
    content_encoding: str = ""
    user_id: str = ""
    app_id: str = ""
    transaction_id: str = ""
    security_token: bytes = b""
    application_headers: FieldTable = attrs.Factory(FieldTable)
    body: bytes = b""
    by_reference: bool = False


#: The short strings among the arguments of a transfer, in wire order.
_TRANSFER_SHORT_STRINGS = (
    "exchange",
    "routing_key",
    "message_id",
    "correlation_id",
    "reply_to",
    "content_type",
    "content_encoding",
    "user_id",
    "app_id",
    "transaction_id",
)
#: The integers among the arguments of a transfer, in wire order, with their width in bytes.
_TRANSFER_INTEGER_WIDTHS = (
    ("ttl", 8),
    ("priority", 1),
    ("timestamp", 8),
    ("delivery_mode", 1),
    ("expiration", 8),
)


def decode_transfer(
    data: bytes | bytearray | memoryview,
    *,
    dialect: Dialect = "rabbitmq",
    limits: Limits | None = None,
) -> Transfer:
    """Decode the 22 arguments of message.transfer, without the class and method numbers.

    The specification does not define the encoding of the last argument, the body (domain
    ``content``). This function expects a byte (0 for the body, 1 for a reference), and then a long
    string with the body or the name of the reference.

    Raises:
        DecodeError: the input is truncated, more bytes follow, or an argument is invalid.
    """
    reader = BasicReader(input_octets(data), dialect, limits)
    transfer = Transfer(ticket=reader.unsigned(2, "the ticket"), destination=reader.shortstr())
    start = reader.pos
    bits = reader.unsigned(1, "redelivered and immediate")
    if bits > 3:
        raise reader.fault(f"the bits {bits:#04x} are undefined", start, "bits")
    transfer.redelivered, transfer.immediate = bool(bits & 1), bool(bits & 2)
    for name, width in _TRANSFER_INTEGER_WIDTHS:
        setattr(transfer, name, reader.unsigned(width, name.replace("_", "-")))
    for name in _TRANSFER_SHORT_STRINGS:
        setattr(transfer, name, reader.shortstr())
    transfer.security_token = reader.longstr()
    transfer.application_headers = reader.table(0)
    start = reader.pos
    kind = reader.unsigned(1, "the kind of body")
    if kind > 1:
        raise reader.fault(f"the kind of body must be 0 or 1, not {kind}", start, "content-kind")
    transfer.by_reference = kind == 1
    transfer.body = reader.longstr()
    reader.finish()
    return transfer


def encode_transfer(transfer: Transfer, *, dialect: Dialect = "rabbitmq") -> bytes:
    """Encode the 22 arguments of message.transfer, without the class and method numbers.

    Raises:
        EncodeError: a value cannot be encoded; the error's path names it.
        TypeError: `transfer` is not a Transfer.
    """
    expect(transfer, Transfer, "encode_transfer", "a Transfer")
    out = FieldOutput()
    try:
        ticket = _TICKET_FORMAT.pack(transfer.ticket)
    except struct.error:
        raise EncodeError(
            f"must be an int from 0 to 65,535, not {transfer.ticket!r:.60}", "ticket"
        ) from None
    write_shortstr(out, transfer.destination, "destination")
    write_number(out, bool(transfer.redelivered) | bool(transfer.immediate) << 1, 1, "bits")
    for name, width in _TRANSFER_INTEGER_WIDTHS:
        write_number(out, getattr(transfer, name), width, name.replace("_", "-"))
    for name in _TRANSFER_SHORT_STRINGS:
        write_shortstr(out, getattr(transfer, name), name.replace("_", "-"))
    write_longstr(out, _binary(transfer.security_token, "security-token"))
    write_table(out, transfer.application_headers, dialect, "application-headers")
    write_number(out, int(bool(transfer.by_reference)), 1, "body")
    write_longstr(out, _binary(transfer.body, "body"))
    return ticket + out.finish()


def _binary(value: Any, path: str) -> bytes:
    """Return a bytes-like value as bytes, or raise EncodeError."""
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise EncodeError(f"must be bytes, not {value!r:.60}", path)
    return bytes(value)


def to_basic_message(content: ClassProperties | Transfer, body: bytes = b"") -> BasicMessage:
    """Convert content of AMQP 0-9 to a message of class basic.

    Args:
        content: properties of class file, stream or tunnel, or a `Transfer`.
        body: the payload; ignored for a `Transfer`, which contains its own body.

    Returns:
        The message. A property that class basic lacks becomes the header ``amqp-0-9.NAME``, where
        NAME is the name in the specification.

    Raises:
        TypeError: `content` has another class, or `body` is not bytes.
    """
    if isinstance(content, Transfer):
        return _basic_of_transfer(content)
    if not isinstance(content, (FileProperties, StreamProperties, TunnelProperties)):
        raise wrong_type("to_basic_message", "class properties or a Transfer", content)
    properties = BasicProperties()
    extra_headers: list[tuple[str, str, Any]] = []
    for field in attrs.fields(type(content)):
        value = getattr(content, field.name)
        if value is None or field.name == "headers":
            continue
        if field.name == "durable":
            properties.delivery_mode = 2 if value else 1
            if value > 1:
                extra_headers.append((f"{_LEGACY_HEADER_PREFIX}durable", "B", value))
        elif hasattr(properties, field.name):
            setattr(properties, field.name, value)
        else:
            letter = "S" if isinstance(value, str) else "B"
            extra_headers.append(
                (_LEGACY_HEADER_PREFIX + field.name.replace("_", "-"), letter, value)
            )
    _set_headers(properties, content.headers, extra_headers)
    return BasicMessage(properties, body)


def _set_headers(
    properties: BasicProperties,
    headers: FieldTable | None,
    extra_headers: list[tuple[str, str, Any]],
) -> None:
    """Set the headers of `properties` to `headers` followed by `extra_headers`, if any."""
    if headers is not None or extra_headers:
        entries = headers.entries if headers is not None else []
        properties.headers = FieldTable.of([*entries, *extra_headers])


def _basic_of_transfer(content: Transfer) -> BasicMessage:
    """Convert a transfer to a message of class basic."""
    properties = BasicProperties()
    for name in _TRANSFER_SHORT_STRINGS:
        value = getattr(content, name)
        if value and hasattr(properties, name):
            setattr(properties, name, value)
    for name in ("priority", "delivery_mode", "timestamp"):
        value = getattr(content, name)
        if value:
            setattr(properties, name, value)
    if content.ttl:
        properties.expiration = str(content.ttl)
    extra_headers: list[tuple[str, str, Any]] = []
    for name, letter in (
        ("ticket", "u"),
        ("destination", "S"),
        ("immediate", "t"),
        ("expiration", "T"),
        ("transaction_id", "S"),
        ("security_token", "x"),
    ):
        value = getattr(content, name)
        if value:
            extra_headers.append((_LEGACY_HEADER_PREFIX + name.replace("_", "-"), letter, value))
    if content.by_reference:
        extra_headers.append((f"{_LEGACY_HEADER_PREFIX}reference", "x", content.body))
    _set_headers(properties, content.application_headers or None, extra_headers)
    return BasicMessage(
        properties,
        b"" if content.by_reference else content.body,
        content.exchange,
        content.routing_key,
        content.redelivered,
    )
