"""Frames: the frame header (Part 2, 2.3.1) and the performatives (Part 2, 2.7)."""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Annotated, Any

import attrs

from amqp10msg.composite import Error, composite
from amqp10msg.delivery.states import error
from amqp10msg.wire.primitives import (
    WireType,
    boolean,
    fields,
    milliseconds,
    sequence_no,
    string,
    symbols,
    uint,
    ulong,
    ushort,
)

#: The protocol header of AMQP 1.0 (Part 2, 2.2).
AMQP_HEADER = b"AMQP\x00\x01\x00\x00"
#: The frame header. Its fields are size in bytes, data offset (DOFF) in words of 4 bytes, type and
#: channel.
HEAD = struct.Struct(">IBBH")
#: Size of the frame header in bytes.
HEAD_SIZE = HEAD.size
#: Frame types.
AMQP_FRAME, SASL_FRAME = 0, 1
#: The data offset of a frame without an extended header, in words of 4 bytes.
HEAD_WORDS = HEAD_SIZE // 4
#: The smallest allowed max-frame-size, in bytes (Part 2, 2.7.1).
MIN_FRAME = 512
#: The maximum size of a delivery-tag, in bytes (Part 2, 2.8.7).
MAX_TAG = 32


class SenderSettleMode(IntEnum):
    """Whether a sender sends its deliveries settled (Part 2, 2.8.2)."""

    UNSETTLED = 0
    SETTLED = 1
    MIXED = 2


class ReceiverSettleMode(IntEnum):
    """Whether the receiver settles first, or second, after the sender (Part 2, 2.8.3)."""

    FIRST = 0
    SECOND = 1


snd_settle_mode = Annotated[
    SenderSettleMode, WireType("ubyte", "sender-settle-mode", enum=SenderSettleMode)
]
rcv_settle_mode = Annotated[
    ReceiverSettleMode, WireType("ubyte", "receiver-settle-mode", enum=ReceiverSettleMode)
]
handle = Annotated[int, WireType("uint", "handle")]
delivery_number = Annotated[int, WireType("uint", "delivery-number")]
delivery_tag = Annotated[bytes, WireType("binary", "delivery-tag", max_size=MAX_TAG)]
message_format = Annotated[int, WireType("uint", "message-format")]
languages = Annotated[tuple[str, ...], WireType("symbol", "ietf-language-tag", multiple=True)]
# Delivery states and termini remain `Described` values: the users of the performatives decode them.
described = Annotated[Any, WireType("*")]


@composite("amqp:open:list", 0x10)
@attrs.define(kw_only=True)
class Open:
    """Opens a connection, and states its limits (Part 2, 2.7.1). ``idle_time_out`` is in ms."""

    container_id: string
    hostname: string | None = None
    max_frame_size: uint = 0xFFFFFFFF
    channel_max: ushort = 0xFFFF
    idle_time_out: milliseconds | None = None
    outgoing_locales: languages = ()
    incoming_locales: languages = ()
    offered_capabilities: symbols = ()
    desired_capabilities: symbols = ()
    properties: fields | None = None


@composite("amqp:begin:list", 0x11)
@attrs.define(kw_only=True)
class Begin:
    """Begins a session on a channel (Part 2, 2.7.2)."""

    remote_channel: ushort | None = None
    next_outgoing_id: sequence_no
    incoming_window: uint
    outgoing_window: uint
    handle_max: handle = 0xFFFFFFFF
    offered_capabilities: symbols = ()
    desired_capabilities: symbols = ()
    properties: fields | None = None


@composite("amqp:attach:list", 0x12)
@attrs.define(kw_only=True)
class Attach:
    """Attaches a link to a session (Part 2, 2.7.3).

    In a received attach, ``source``, ``target`` and the states in ``unsettled`` are not decoded:
    they are usually `Described` values, which the user of the link decodes.
    """

    name: string
    handle: handle
    role: boolean
    snd_settle_mode: snd_settle_mode = SenderSettleMode.MIXED
    rcv_settle_mode: rcv_settle_mode = ReceiverSettleMode.FIRST
    source: described | None = None
    target: described | None = None
    unsettled: described | None = None
    incomplete_unsettled: boolean = False
    initial_delivery_count: sequence_no | None = None
    max_message_size: ulong | None = None
    offered_capabilities: symbols = ()
    desired_capabilities: symbols = ()
    properties: fields | None = None


@composite("amqp:flow:list", 0x13)
@attrs.define(kw_only=True)
class Flow:
    """Updates the state of a session and, with a handle, of a link (Part 2, 2.7.4)."""

    next_incoming_id: sequence_no | None = None
    incoming_window: uint
    next_outgoing_id: sequence_no
    outgoing_window: uint
    handle: handle | None = None
    delivery_count: sequence_no | None = None
    link_credit: uint | None = None
    available: uint | None = None
    drain: boolean = False
    echo: boolean = False
    properties: fields | None = None


@composite("amqp:transfer:list", 0x14)
@attrs.define
class Transfer:
    """Transfers a message, or a part of one, which follows it in the frame (Part 2, 2.7.5)."""

    handle: handle
    delivery_id: delivery_number | None = None
    delivery_tag: delivery_tag | None = None
    message_format: message_format | None = None
    settled: boolean | None = None
    more: boolean = False
    rcv_settle_mode: rcv_settle_mode | None = None
    state: described | None = None
    resume: boolean = False
    aborted: boolean = False
    batchable: boolean = False


@composite("amqp:disposition:list", 0x15)
@attrs.define
class Disposition:
    """Reports the delivery state of a range of deliveries (Part 2, 2.7.6)."""

    role: boolean
    first: delivery_number
    last: delivery_number | None = None
    settled: boolean = False
    state: described | None = None
    batchable: boolean = False


@composite("amqp:detach:list", 0x16)
@attrs.define(kw_only=True)
class Detach:
    """Detaches a link, or closes it (Part 2, 2.7.7)."""

    handle: handle
    closed: boolean = False
    error: error | None = None


@composite("amqp:end:list", 0x17)
@attrs.define
class End:
    """Ends a session (Part 2, 2.7.8)."""

    error: error | None = None


@composite("amqp:close:list", 0x18)
@attrs.define
class Close:
    """Closes a connection (Part 2, 2.7.9)."""

    error: error | None = None


def describe_error(error: Error) -> str:
    """Return the condition and the description of a peer's error, for people to read."""
    return f"{error.condition}: {error.description or 'the peer gave no description'}"
