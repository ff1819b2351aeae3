"""A packet or frames by themselves, as they are copied out of Wireshark."""

from __future__ import annotations

import attrs

from amqp10msg.files._packets import Packet
from amqp10msg.files._record import MAX_SIZE, Record
from amqp10msg.files._segments import Segment, segment_of
from amqp10msg.files._transfers import FRAME_HEAD, Frames

# Types of link layers: Ethernet, IP as it is, and the interface "any" of Linux.
_LINKS = (1, 101, 113, 276)
_CUT = "this is not all of the message: more packets or frames belong to it"
_FRAME_END = b"\xce"
# Of AMQP 0-9-1: method, header, body, heartbeat.
_OLD_KINDS = frozenset((1, 2, 3, 8))


def loose(data: bytes, *, max_size: int = MAX_SIZE) -> list[Record] | None:
    """Return the messages in one packet of a network, or in frames of AMQP 1.0 or 0-9-1.

    Args:
        data: all of the packet, or frames from the first byte to the last.
        max_size: bytes that one message may take.

    Returns:
        The messages, one record with a fault where there are none, or None if the bytes are
        neither.
    """
    if _are_frames(data):
        what, connection, octets = "these are frames", "", data
    elif (segment := _segment(data)) is not None:
        what, connection, octets = "this is a packet", segment.connection, segment.data
    else:
        return None
    frames = Frames(connection, max_size)
    whole = Packet(0, None, 0, data)
    found = [*frames.feed(octets, whole), *frames.finish(_CUT, whole)]
    found = found or [Record(0, fault=f"{what} without a whole message of AMQP")]
    return [attrs.evolve(one, connection=connection or None) for one in found]


def _segment(data: bytes) -> Segment | None:
    """Return the TCP segment of a packet that is all there; None if this is none."""
    for link in _LINKS:
        segment = segment_of(Packet(0, None, link, data))
        if segment is not None and data.endswith(segment.data):
            return segment
    return None


def _are_frames(data: bytes) -> bool:
    """Return whether bytes are frames of AMQP 1.0 (Part 2, 2.3) or 0-9-1 (2.3.5), all of them."""
    at = 0
    while len(data) - at >= FRAME_HEAD.size:
        size, words, kind, _ = FRAME_HEAD.unpack_from(data, at)
        if not FRAME_HEAD.size <= 4 * words <= size or kind > 1:
            break
        at += size
    if at and at == len(data):
        return True
    at = 0
    while len(data) - at - 8 >= 0 and data[at] in _OLD_KINDS:
        at += int.from_bytes(data[at + 3 : at + 7], "big") + 8
        if data[at - 1 : at] != _FRAME_END:
            break
    return bool(at) and at == len(data)
