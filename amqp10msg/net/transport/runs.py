# cython: language_level=3, boundscheck=True, wraparound=False, annotation_typing=False
"""The fast path for runs of transfers: frames that each carry a whole, unsettled message.

Compiled if a C compiler is available; `runs.pxd` declares the types. Peers send mostly such frames.
`Connection` reads all other frames, and malformed ones, one by one.
"""

from __future__ import annotations

import itertools

from amqp10msg.net.transport.frames import MAX_TAG

__all__ = ["whole_transfers"]

#: Offsets in a frame whose performative is a described list8: of the first field, and of the first
#: byte that the list's size counts (its count).
_FIELDS, _COUNTED = 14, 13
_UINT0, _SMALL_UINT, _UINT, _BINARY = 0x43, 0x52, 0x70, 0xA0
_TAG = MAX_TAG
#: All encodings of the fields after the tag that stand for a complete, unsettled message of
#: message-format 0 without a state.
_REST = {
    bytes(fields[:count])
    for fields in itertools.product(b"@C", b"@B", b"@B", b"@", b"@", b"@B", b"@B", b"@AB")
    for count in range(9)
}


def _uint(buffer: bytes, at: int) -> int:
    number = buffer[at]
    for place in range(at + 1, at + 4):
        number = (number << 8) | buffer[place]
    return number


def whole_transfers(
    buffer: bytes, start: int, max_frame: int, most: int
) -> tuple[int, int, int, list[tuple[int, bytes, bytes]]]:
    """Read consecutive transfers of one link, each with a whole message, from `start` on.

    Args:
        buffer: the received bytes.
        start: the offset of the first frame.
        max_frame: the maximum size of a frame, in bytes.
        most: the maximum number of frames.

    Returns:
        The offset after the frames that were read, their channel and handle, and the delivery-id,
        delivery-tag and message of each. A frame of another kind ends the run and is not read.
    """
    found: list[tuple[int, bytes, bytes]] = []
    there = len(buffer)
    channel = handle = 0
    while len(found) < most and there - start > _FIELDS:
        # A frame of AMQP without an extended header, whose performative is a transfer as list8.
        if _uint(buffer, start + 8) != 0x005314C0 or buffer[start + 4] != 2 or buffer[start + 5]:
            break
        on = (buffer[start + 6] << 8) | buffer[start + 7]
        end = start + _uint(buffer, start)
        body = start + _COUNTED + buffer[start + 12]
        if end > there or end - start > max_frame or body > end:
            break
        at = start + _FIELDS
        of = number = 0
        # Check before each read that the value, of at most 5 bytes, ends inside of the list.
        if body - at < 3:
            break
        if buffer[at] == _UINT0:
            at += 1
        elif buffer[at] == _SMALL_UINT:
            of = buffer[at + 1]
            at += 2
        else:
            break
        if found and (on != channel or of != handle):
            break
        if buffer[at] == _UINT0:
            at += 1
        elif buffer[at] == _SMALL_UINT and body - at > 2:
            number = buffer[at + 1]
            at += 2
        elif buffer[at] == _UINT and body - at > 5:
            number = _uint(buffer, at + 1)
            at += 5
        else:
            break
        if body - at < 2 or buffer[at] != _BINARY or buffer[at + 1] > _TAG:
            break
        tag = at + 2
        rest = tag + buffer[at + 1]
        if rest > body or buffer[start + _COUNTED] != 3 + body - rest:
            break
        if buffer[rest:body] not in _REST:
            break
        channel, handle = on, of
        found.append((number, buffer[tag:rest], buffer[body:end]))
        start = end
    return start, channel, handle, found
