"""The properties section (Part 3, 3.2.4)."""

from __future__ import annotations

import datetime
import uuid
from typing import Annotated

import attrs

from amqp10msg.composite import composite
from amqp10msg.sections._types import check_types, fitting_types
from amqp10msg.wire import kernel
from amqp10msg.wire.primitives import (
    Timestamp,
    Wire,
    binary,
    sequence_no,
    string,
    symbol,
    timestamp,
)

identifier = Annotated[int | uuid.UUID | bytes | str, Wire("*", requires="message-id")]
address = Annotated[str, Wire("*", requires="address")]


def to_milliseconds(moment: int | datetime.datetime | None) -> int | None:
    """Take a datetime as the milliseconds of its timestamp; leave all else."""
    if isinstance(moment, datetime.datetime):
        return int(Timestamp.from_datetime(moment))
    return moment


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
    absolute_expiry_time: timestamp | None = attrs.field(default=None, converter=to_milliseconds)
    creation_time: timestamp | None = attrs.field(default=None, converter=to_milliseconds)
    group_id: string | None = None
    group_sequence: sequence_no | None = None
    reply_to_group_id: string | None = None

    def __attrs_post_init__(self) -> None:
        check_types(self, Properties)


kernel.make_fast(Properties, **fitting_types(Properties))
