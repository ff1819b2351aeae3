"""Where frames of AMQP begin in bytes of which those before are missing.

A frame is recognised by its header and the beginning of its content, and, once all of it is there,
by what follows it: another frame, or the end of the bytes.
"""

from __future__ import annotations

import re
import struct
from typing import Literal

from amqp10msg.wire.errors import DecodeError
from amqp10msg.wire.kernel import skip_value

#: The largest frame where the negotiated size is not known; more is not a frame.
MAX_FRAME = 64 << 20
#: How a frame of 1.0 begins: size, words before the body, type and channel (Part 2, 2.3.1).
FRAME_HEAD = struct.Struct(">IBBH")
SASL_FRAME = 1
#: AMQP 0-9-1: types of frames, and the end of each (2.3.5 and 4.2.3).
METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
OLD_FRAMES = {METHOD, HEADER, BODY, HEARTBEAT}
FRAME_END = 0xCE
ONE, OLD = "1.0", "0-9-1"
Protocol = Literal["1.0", "0-9-1"]

# An empty frame, or one whose performative is described by a number or a symbol, and is a list.
_BEGINS_ONE = re.compile(
    rb"\x00\x00\x00\x08\x02\x00.."
    rb"|[\x00-\x04]...\x02[\x00\x01]..\x00"
    rb"(?:(?:\x53|\x80\x00{7})[\x10-\x18\x40-\x44][\x45\xc0\xd0]|\xa3.amqp:)",
    re.DOTALL,
)
# A method of a known class, or a heartbeat. Reading does not begin at a header or a body: their
# method is missing, so nobody knows exchange and routing key of that content.
_BEGINS_OLD = re.compile(
    rb"\x01..[\x00-\x04]...\x00[\x0a\x14\x1e\x28\x32\x3c\x46\x55\x5a]\x00."
    rb"|\x08\x00\x00\x00\x00\x00\x00\xce",
    re.DOTALL,
)
# Bytes of the method of a frame of 0-9-1: of more, which no broker takes, nobody waits for the end.
_MAX_METHOD = 128 << 10
# Bytes of a frame that are judged: more of each would take long where many look like a frame.
_MAX_LOOKED_AT = 4_096
_PATTERNS = {ONE: _BEGINS_ONE, OLD: _BEGINS_OLD}
#: Bytes that a pattern needs at most: as many at the end may be the beginning of a frame.
LOOK_BEHIND = 23


def find_frame(
    octets: bytearray, protocol: str, begin: int, *, is_all: bool
) -> tuple[int, bool] | None:
    """Find the first place where a frame begins.

    Args:
        octets: consecutive bytes of one direction of a connection.
        protocol: ``1.0`` or ``0-9-1``.
        begin: where to begin.
        is_all: no byte follows.

    Returns:
        The place, and whether that is certain: False if more bytes are needed to judge it. None if
        no frame begins here.
    """
    unfinished = None
    while (at := _candidate(octets, protocol, begin)) >= 0:
        size = _size_at(octets, protocol, at)
        if size:
            if at + size > len(octets):
                if protocol == ONE:  # its content may look like frames, too
                    return None if is_all else (at, False)
                unfinished = unfinished or (at, False)
            elif _is_whole(octets, protocol, at, size):
                follower = bytes(octets[at + size : at + size + FRAME_HEAD.size])
                if len(follower) < FRAME_HEAD.size:
                    return at, is_all
                if _may_follow(follower, protocol):
                    return at, True
        begin = at + 1
    return None if is_all else unfinished


def _candidate(octets: bytearray, protocol: str, begin: int) -> int:
    # The match is not kept: while it is there, the bytearray cannot change its size.
    found = _PATTERNS[protocol].search(octets, begin)
    return found.start() if found else -1


def _size_at(octets: bytearray, protocol: str, at: int) -> int:
    """Return how many bytes a frame has; 0 if that cannot be."""
    if protocol == ONE:
        size = int.from_bytes(octets[at : at + 4], "big")
        return size if FRAME_HEAD.size <= size <= MAX_FRAME else 0
    size = int.from_bytes(octets[at + 3 : at + 7], "big")
    return size + 8 if size <= _MAX_METHOD else 0


def _is_whole(octets: bytearray, protocol: str, at: int, size: int) -> bool:
    """Whether the content of a frame that is all there can be one."""
    if protocol == OLD:
        return bool(octets[at + size - 1] == FRAME_END)
    looked_at = min(size, _MAX_LOOKED_AT)
    body = bytes(octets[at + FRAME_HEAD.size : at + looked_at])
    try:
        return not body or bool(skip_value(body) <= len(body))
    except DecodeError:
        return looked_at < size  # of a longer performative, only the beginning is judged


def _may_follow(head: bytes, protocol: str) -> bool:
    """Whether a frame, or a protocol header, can begin with these bytes."""
    if head.startswith(b"AMQP"):
        return True
    if protocol == ONE:
        size, words, kind, _ = FRAME_HEAD.unpack(head)
        return bool(kind <= SASL_FRAME and FRAME_HEAD.size <= 4 * words <= size <= MAX_FRAME)
    return head[0] in OLD_FRAMES and int.from_bytes(head[3:7], "big") <= MAX_FRAME
