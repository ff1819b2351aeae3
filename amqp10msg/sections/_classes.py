"""The classes of the sections (Part 3, 3.2), and the types that they are given."""

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
    Wire,
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
from amqp10msg.wire.reprs import shown

# By AMQP type: the Python types of which every value fits, but for its range.
_FITTING: dict[str, tuple[type, ...]] = {
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
    """Return the types that each field of a section takes as they are, by the field's name."""
    return {
        field.name: (NoneType, *_FITTING[field.requires or field.type])
        for field in composite_of(cls).fields
    }


def check_types(section: Any, cls: type) -> None:
    """Refuse a section with a value of a wrong type; ranges are looked at when it is encoded.

    Args:
        section: an instance of the class, or of one that derives from it.
        cls: the class that declares the fields.

    Raises:
        EncodeError: which field, what it takes, and what was given.
    """
    composite = composite_of(cls)
    for field, kind in zip(composite.fields, composite.spec.kinds, strict=True):
        value = getattr(section, field.name)
        if value is None or type(value) in _FITTING[field.requires or field.type]:
            continue
        writer = kernel.Writer()
        try:
            writer.typed(kind, value)
        except EncodeError as error:
            path = f"{composite.name}.{field.wire_name}"
            raise EncodeError(error.reason, path) from None


@shown
@attrs.define(weakref_slot=False, repr=False)
class Data(kernel.Record):
    """Opaque binary data (Part 3, 3.2.6). A body may have several, which belong together.

    What it holds is checked when it is encoded (`EncodeError`).
    """

    data: bytes | bytearray | memoryview = b""


@shown
@attrs.define(weakref_slot=False, repr=False)
class AmqpSequence(kernel.Record):
    """A list of values (Part 3, 3.2.7). A body may have several, which belong together.

    What it holds is checked when it is encoded (`EncodeError`).
    """

    values: list[Any] = attrs.Factory(list)


@shown
@attrs.define(weakref_slot=False, repr=False)
class AmqpValue(kernel.Record):
    """One AMQP value of any type (Part 3, 3.2.8), checked when it is encoded (`EncodeError`)."""

    value: Any = None


kernel.make_fast(Data)
kernel.make_fast(AmqpSequence, values=(list, tuple))
kernel.make_fast(AmqpValue)


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


class DeliveryAnnotations(kernel.Mapping):
    """What the sending peer tells the receiving peer, for this hop only (Part 3, 3.2.2).

    A dict. A key that is a str is a symbol, one that is an int is a ulong; the Python type of a
    value says its AMQP type. Both are checked when it is encoded (`EncodeError`).
    """

    __slots__ = ()


class MessageAnnotations(kernel.Mapping):
    """What is aimed at the infrastructure, propagated across every hop (Part 3, 3.2.3).

    A dict. A key that is a str is a symbol, one that is an int is a ulong; the Python type of a
    value says its AMQP type. Both are checked when it is encoded (`EncodeError`).
    """

    __slots__ = ()


class ApplicationProperties(kernel.Mapping):
    """Structured application data for filtering and routing (Part 3, 3.2.5).

    A dict with str keys; values are of simple types, not list, map or array. The Python type of a
    value says its AMQP type: a plain int is a long, ``UInt(5)`` a uint. Both are checked when it is
    encoded (`EncodeError`).
    """

    __slots__ = ()


class Footer(kernel.Mapping):
    """What can only be known once the bare message is complete: checksums (Part 3, 3.2.9).

    A dict. A key that is a str is a symbol, one that is an int is a ulong; the Python type of a
    value says its AMQP type. Both are checked when it is encoded (`EncodeError`).
    """

    __slots__ = ()


identifier = Annotated[int | uuid.UUID | bytes | str, Wire("*", requires="message-id")]
address = Annotated[str, Wire("*", requires="address")]


def moment_of(text: str) -> datetime.datetime:
    """Return a time of ISO 8601; in UTC where it has no zone.

    Raises:
        ValueError: the text is not a time.
    """
    moment = datetime.datetime.fromisoformat(text)
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=datetime.UTC)


def to_milliseconds(moment: int | datetime.datetime | None) -> int | None:
    """Take a datetime as the milliseconds of its timestamp; leave all else."""
    if isinstance(moment, datetime.datetime):
        return int(Timestamp.from_datetime(moment))
    return moment


def _moment_of(field: str, moment: int | datetime.datetime | None) -> int | None:
    """Convert as `to_milliseconds`, with an error that names the field."""
    try:
        return to_milliseconds(moment)
    except ValueError as error:
        raise EncodeError(str(error), f"properties.{field}") from None


def _expiry_of(moment: int | datetime.datetime | None) -> int | None:
    return _moment_of("absolute-expiry-time", moment)


def _creation_of(moment: int | datetime.datetime | None) -> int | None:
    return _moment_of("creation-time", moment)


@composite("amqp:properties:list", 0x73, provides=("section",))
# Converting in assignments too would need a __setattr__ in Python, at six times the decoding time;
# a datetime that is assigned later is converted when it is encoded.
@attrs.define(on_setattr=attrs.setters.NO_OP, weakref_slot=False)
class Properties(kernel.Record):
    """The standard properties of the bare message (Part 3, 3.2.4).

    Types are checked at once, ranges and what is assigned later when it is encoded: `EncodeError`
    says which field is wrong.

    Attributes:
        message_id: identifies the message; an int is a ulong, else UUID, bytes or str (3.2.11 to
            3.2.14).
        user_id: identity of the user who produced the message.
        to: address of the node that the message is destined for.
        subject: summary of the content and purpose.
        reply_to: address of the node to send replies to.
        correlation_id: like message_id, for the client's own use.
        content_type: RFC 2046 MIME type of the body, ASCII.
        content_encoding: what is applied to the body beyond its content type, ASCII.
        absolute_expiry_time: when the message expires, in milliseconds since the Unix epoch; a
            datetime with a time zone is taken too.
        creation_time: when the message was created, in milliseconds since the Unix epoch; a
            datetime with a time zone is taken too.
        group_id: the group that the message belongs to.
        group_sequence: its position in the group, 0 to 2^32 - 1 (RFC 1982 arithmetic).
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
    absolute_expiry_time: timestamp | None = attrs.field(default=None, converter=_expiry_of)
    creation_time: timestamp | None = attrs.field(default=None, converter=_creation_of)
    group_id: string | None = None
    group_sequence: sequence_no | None = None
    reply_to_group_id: string | None = None

    def __attrs_post_init__(self) -> None:
        check_types(self, Properties)


kernel.make_fast(Properties, **fitting_types(Properties))
