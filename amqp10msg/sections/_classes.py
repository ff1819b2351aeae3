"""The classes of the sections (Part 3, 3.2), with the checks of their field types."""

from __future__ import annotations

import datetime
import uuid
from types import NoneType
from typing import Annotated, Any

import attrs

from amqp10msg.composite import composite, composite_of
from amqp10msg.wire import kernel
from amqp10msg.wire.errors import EncodeError
from amqp10msg.wire.primitives import (
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    WireType,
    binary,
    boolean,
    milliseconds,
    sequence_no,
    string,
    symbol,
    timestamp,
    ubyte,
    uint,
)
from amqp10msg.wire.reprs import with_bounded_repr

# For each AMQP type, the Python types whose values need only a check of their range.
_ACCEPTED_TYPES: dict[str, tuple[type, ...]] = {
    "boolean": (bool,),
    "ubyte": (int, UByte),
    "uint": (int, UInt),
    "timestamp": (int, Timestamp),
    "string": (str,),
    "symbol": (str, Symbol),
    "binary": (bytes, bytearray, memoryview),
    "message-id": (str, int, ULong, uuid.UUID, bytes, bytearray, memoryview),
    "address": (str,),
}


def fitting_types(cls: type) -> dict[str, tuple[type, ...]]:
    """Return the Python types that each field accepts without a conversion, by field name."""
    return {
        field.name: (NoneType, *_ACCEPTED_TYPES[field.requires or field.type])
        for field in composite_of(cls).fields
    }


def check_types(section: Any, cls: type) -> None:
    """Raise EncodeError if a field of a section has a value of a wrong type.

    Encoding checks the ranges of the values.

    Args:
        section: an instance of `cls` or of a subclass.
        cls: the class that declares the fields.

    Raises:
        EncodeError: a value has a wrong type; the path names the field.
    """
    composite = composite_of(cls)
    for field, kind in zip(composite.fields, composite.spec.kinds, strict=True):
        value = getattr(section, field.name)
        if value is None or type(value) in _ACCEPTED_TYPES[field.requires or field.type]:
            continue
        writer = kernel.Writer()
        try:
            writer.typed(kind, value)
        except EncodeError as error:
            path = f"{composite.name}.{field.wire_name}"
            raise EncodeError(error.reason, path) from None


@with_bounded_repr
@attrs.define(weakref_slot=False, repr=False)
class Data(kernel.Record):
    """Opaque binary data (Part 3, 3.2.6). A body may consist of several data sections.

    Encoding checks the type of the data (`EncodeError`).
    """

    data: bytes | bytearray | memoryview = b""


@with_bounded_repr
@attrs.define(weakref_slot=False, repr=False)
class AmqpSequence(kernel.Record):
    """A list of values (Part 3, 3.2.7). A body may consist of several sequence sections.

    Encoding checks the values (`EncodeError`).
    """

    values: list[Any] = attrs.Factory(list)


@with_bounded_repr
@attrs.define(weakref_slot=False, repr=False)
class AmqpValue(kernel.Record):
    """One AMQP value of any type (Part 3, 3.2.8). Encoding checks the value (`EncodeError`)."""

    value: Any = None


kernel.make_fast(Data)
kernel.make_fast(AmqpSequence, values=(list, tuple))
kernel.make_fast(AmqpValue)


@composite("amqp:header:list", 0x70, provides=("section",))
@attrs.define(weakref_slot=False)
class Header(kernel.Record):
    """Standard delivery details about the transfer of a message (Part 3, 3.2.1).

    The constructor checks the types of the fields. Encoding checks their ranges, and values that
    were assigned later. Both raise `EncodeError` with the field as its path.

    Attributes:
        durable: whether the message must survive an unexpected restart of an intermediary.
        priority: relative priority, 0 to 255, higher first; 4 is the default.
        ttl: time to live in milliseconds, 0 to 2^32 - 1, counted from the arrival at an
            intermediary; None if the message does not expire.
        first_acquirer: True if no other link has acquired the message before.
        delivery_count: number of earlier unsuccessful delivery attempts, 0 to 2^32 - 1.
    """

    durable: boolean = False
    priority: ubyte = 4
    ttl: milliseconds | None = None
    first_acquirer: boolean = False
    delivery_count: uint = 0

    def __attrs_post_init__(self) -> None:
        check_types(self, Header)


kernel.make_fast(Header, **fitting_types(Header))


class DeliveryAnnotations(kernel.Mapping):
    """Annotations from the sending peer to the receiving peer, for one hop (Part 3, 3.2.2).

    A dict. A str key is encoded as a symbol and an int key as a ulong; the Python type of a value
    determines its AMQP type. Encoding checks keys and values (`EncodeError`).
    """

    __slots__ = ()


class MessageAnnotations(kernel.Mapping):
    """Annotations for the infrastructure, which every hop propagates (Part 3, 3.2.3).

    A dict. A str key is encoded as a symbol and an int key as a ulong; the Python type of a value
    determines its AMQP type. Encoding checks keys and values (`EncodeError`).
    """

    __slots__ = ()


class ApplicationProperties(kernel.Mapping):
    """Structured application data for filtering and routing (Part 3, 3.2.5).

    A dict with str keys and values of simple types: no list, map or array. The Python type of a
    value determines its AMQP type: a plain int is a long, ``UInt(5)`` is a uint. Encoding checks
    keys and values (`EncodeError`).
    """

    __slots__ = ()


class Footer(kernel.Mapping):
    """Data that is computed from the complete bare message, such as a checksum (Part 3, 3.2.9).

    A dict. A str key is encoded as a symbol and an int key as a ulong; the Python type of a value
    determines its AMQP type. Encoding checks keys and values (`EncodeError`).
    """

    __slots__ = ()


#: The type of message-id and correlation-id (3.2.11 to 3.2.14).
identifier = Annotated[int | uuid.UUID | bytes | str, WireType("*", requires="message-id")]
#: The type of addresses of nodes (3.2.15).
address = Annotated[str, WireType("*", requires="address")]


def moment_of(text: str) -> datetime.datetime:
    """Parse an ISO 8601 time. A time without a zone is in UTC.

    Raises:
        ValueError: `text` is not an ISO 8601 time.
    """
    time = datetime.datetime.fromisoformat(text)
    return time if time.tzinfo is not None else time.replace(tzinfo=datetime.UTC)


def to_milliseconds(time: int | datetime.datetime | None) -> int | None:
    """Return a datetime in milliseconds since the Unix epoch, and any other value unchanged."""
    if isinstance(time, datetime.datetime):
        return int(Timestamp.from_datetime(time))
    return time


def _field_milliseconds(field: str, time: int | datetime.datetime | None) -> int | None:
    """Call `to_milliseconds`; replace its ValueError by an EncodeError with the field's path."""
    try:
        return to_milliseconds(time)
    except ValueError as error:
        raise EncodeError(str(error), f"properties.{field}") from None


def _expiry_milliseconds(time: int | datetime.datetime | None) -> int | None:
    """Convert an absolute-expiry-time; an attrs converter."""
    return _field_milliseconds("absolute-expiry-time", time)


def _creation_milliseconds(time: int | datetime.datetime | None) -> int | None:
    """Convert a creation-time; an attrs converter."""
    return _field_milliseconds("creation-time", time)


@composite("amqp:properties:list", 0x73, provides=("section",))
# Only the constructor converts datetimes. Converting assigned values would need a __setattr__ in
# Python, which makes decoding six times as slow, so encoding converts them.
@attrs.define(on_setattr=attrs.setters.NO_OP, weakref_slot=False)
class Properties(kernel.Record):
    """The standard properties of the bare message (Part 3, 3.2.4).

    The constructor checks the types of the fields. Encoding checks their ranges, and values that
    were assigned later. Both raise `EncodeError` with the field as its path.

    Attributes:
        message_id: identifies the message: int (encoded as ulong), UUID, bytes or str (3.2.11 to
            3.2.14).
        user_id: identity of the user who produced the message.
        to: address of the node that the message is sent to.
        subject: summary of the content and purpose.
        reply_to: address of the node to send replies to.
        correlation_id: identifies related messages for the client; types as of message_id.
        content_type: RFC 2046 MIME type of the body, ASCII.
        content_encoding: encodings applied to the body, such as ``gzip``, ASCII.
        absolute_expiry_time: when the message expires, in milliseconds since the Unix epoch, or a
            datetime with a time zone.
        creation_time: when the message was created, in milliseconds since the Unix epoch, or a
            datetime with a time zone.
        group_id: the group that the message belongs to.
        group_sequence: the message's position in its group, 0 to 2^32 - 1 (RFC 1982 arithmetic).
        reply_to_group_id: the group that the reply belongs to.
    """

    message_id: identifier | None = None
    user_id: binary | None = None
    to: address | None = None
    subject: string | None = None
    reply_to: address | None = None
    correlation_id: identifier | None = None
    content_type: symbol | None = None
    content_encoding: symbol | None = None
    absolute_expiry_time: timestamp | None = attrs.field(
        default=None, converter=_expiry_milliseconds
    )
    creation_time: timestamp | None = attrs.field(default=None, converter=_creation_milliseconds)
    group_id: string | None = None
    group_sequence: sequence_no | None = None
    reply_to_group_id: string | None = None

    def __attrs_post_init__(self) -> None:
        check_types(self, Properties)


kernel.make_fast(Properties, **fitting_types(Properties))
