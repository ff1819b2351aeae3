"""Find the next AMQP frame in a byte stream after missing bytes.

A frame is recognised by its header and the beginning of its content, and then by what follows it:
another frame, or the end of the bytes.
"""

from __future__ import annotations

import re
import struct
from typing import Literal

from amqp10msg.wire.errors import DecodeError
from amqp10msg.wire.kernel import skip_value

#: Maximum size of a frame in bytes. A capture may not show the negotiated maximum size, so a header
#: with a larger size than this is not considered a frame.
MAX_FRAME_SIZE = 64 << 20
#: Header of a 1.0 frame: size, data offset in words, type and channel (Part 2, 2.3.1).
FRAME_HEADER_1_0 = struct.Struct(">IBBH")
SASL_FRAME_TYPE = 1
#: AMQP 0-9-1: frame types, and the frame-end byte (2.3.5 and 4.2.3).
METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
BASIC_FRAME_TYPES = {METHOD, HEADER, BODY, HEARTBEAT}
FRAME_END_OCTET = 0xCE
AMQP_1_0, AMQP_0_9_1 = "1.0", "0-9-1"
Protocol = Literal["1.0", "0-9-1"]

# The beginning of an AMQP 1.0 frame: an empty frame, or a frame with a performative, that is, a
# list described by a number or a symbol.
_FRAME_START_1_0 = re.compile(
    rb"\x00\x00\x00\x08\x02\x00.."
    rb"|[\x00-\x04]...\x02[\x00\x01]..\x00"
    rb"(?:(?:\x53|\x80\x00{7})[\x10-\x18\x40-\x44][\x45\xc0\xd0]|\xa3.amqp:)",
    re.DOTALL,
)
# The beginning of an AMQP 0-9-1 frame with a method of a class of the specification, or with a
# heartbeat. Reading cannot resume at a content header or a body, because the exchange and the
# routing key are in the method before it.
_FRAME_START_0_9_1 = re.compile(
    rb"\x01..[\x00-\x04]...\x00[\x0a\x14\x1e\x28\x32\x3c\x46\x55\x5a]\x00."
    rb"|\x08\x00\x00\x00\x00\x00\x00\xce",
    re.DOTALL,
)
# Maximum size of a 0-9-1 method in bytes. No broker accepts larger methods, so bytes with a larger
# size are not a method frame.
_MAX_METHOD_SIZE = 128 << 10
# Maximum number of bytes of a frame that are checked, so that many bytes that only look like frames
# do not take too long.
_MAX_CHECKED_BYTES = 4_096
#: The pattern of the beginning of a frame, by protocol.
_FRAME_START_PATTERNS = {AMQP_1_0: _FRAME_START_1_0, AMQP_0_9_1: _FRAME_START_0_9_1}
#: Length of the longest match of these patterns. This many bytes at the end of the received bytes
#: may be the incomplete beginning of a frame.
MAX_FRAME_START_LENGTH = 23


def find_frame(
    octets: bytearray, protocol: str, begin: int, *, final: bool
) -> tuple[int, bool] | None:
    """Find the first offset at which a frame begins.

    Args:
        octets: consecutive bytes of one direction of a connection.
        protocol: ``1.0`` or ``0-9-1``.
        begin: the offset at which the search begins.
        final: whether `octets` extends to the end of the stream or to a gap, so that no bytes
            follow directly.

    Returns:
        A tuple (offset, is certain). The second value is False if more bytes are needed to decide
        whether a frame begins there. None if no frame was found.
    """
    unfinished = None
    while (offset := _next_candidate(octets, protocol, begin)) >= 0:
        size = _frame_size(octets, protocol, offset)
        if size:
            if offset + size > len(octets):
                if protocol == AMQP_1_0:
                    # Do not search the content of the frame: it may contain bytes like a frame.
                    return None if final else (offset, False)
                unfinished = unfinished or (offset, False)
            elif _is_valid_frame(octets, protocol, offset, size):
                follower = bytes(octets[offset + size : offset + size + FRAME_HEADER_1_0.size])
                if len(follower) < FRAME_HEADER_1_0.size:
                    return offset, final
                if _may_begin_frame(follower, protocol):
                    return offset, True
        begin = offset + 1
    return None if final else unfinished


def _next_candidate(octets: bytearray, protocol: str, begin: int) -> int:
    """Return the next offset whose bytes look like the beginning of a frame, or -1."""
    # Do not keep the match object: while it exists, the bytearray cannot be resized.
    match = _FRAME_START_PATTERNS[protocol].search(octets, begin)
    return match.start() if match else -1


def _frame_size(octets: bytearray, protocol: str, offset: int) -> int:
    """Return the size of a frame in bytes, or 0 if the size is impossible."""
    if protocol == AMQP_1_0:
        size = int.from_bytes(octets[offset : offset + 4], "big")
        return size if FRAME_HEADER_1_0.size <= size <= MAX_FRAME_SIZE else 0
    size = int.from_bytes(octets[offset + 3 : offset + 7], "big")
    return size + 8 if size <= _MAX_METHOD_SIZE else 0


def _is_valid_frame(octets: bytearray, protocol: str, offset: int, size: int) -> bool:
    """Return whether a complete frame has valid content."""
    if protocol == AMQP_0_9_1:
        return bool(octets[offset + size - 1] == FRAME_END_OCTET)
    checked = min(size, _MAX_CHECKED_BYTES)
    body = bytes(octets[offset + FRAME_HEADER_1_0.size : offset + checked])
    try:
        return not body or bool(skip_value(body) <= len(body))
    except DecodeError:
        # If `body` was truncated to `_MAX_CHECKED_BYTES`, the error may be due to the truncation.
        return checked < size


def _may_begin_frame(head: bytes, protocol: str) -> bool:
    """Return whether a frame, or a protocol header, can begin with the bytes `head`."""
    if head.startswith(b"AMQP"):
        return True
    if protocol == AMQP_1_0:
        size, words, kind, _ = FRAME_HEADER_1_0.unpack(head)
        return bool(
            kind <= SASL_FRAME_TYPE and FRAME_HEADER_1_0.size <= 4 * words <= size <= MAX_FRAME_SIZE
        )
    return head[0] in BASIC_FRAME_TYPES and int.from_bytes(head[3:7], "big") <= MAX_FRAME_SIZE
