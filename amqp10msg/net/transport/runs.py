# cython: language_level=3, boundscheck=True, wraparound=False, annotation_typing=False
"""Runs of transfers, read at once: frames that each carry a whole message, and say no more.

Compiled where there is a compiler: `runs.pxd` has the types. Nearly all that peers send is read
here; what is rare, or wrong, is left to `Connection`, which reads it frame by frame.
"""

from __future__ import annotations

import itertools

from amqp10msg.net.transport.frames import MAX_TAG

__all__ = ["whole_transfers"]

#: Bytes of a frame before the fields of its performative, a described list8: the frame's head,
#: descriptor and code, and the list's size and count. The size counts from after itself.
_FIELDS, _COUNTED = 14, 13
_UINT0, _SMALL_UINT, _UINT, _BINARY = 0x43, 0x52, 0x70, 0xA0
_TAG = MAX_TAG
#: The fields after the tag, where they say no more than that it is unsettled and whole, has no
#: state, and is of message-format 0.
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
    """Read transfers of one link, each with a whole message, until something else comes.

    At most `most` frames are read, of `max_frame` bytes at most, from `start` on. Return the offset
    of what follows them, their channel and handle, and of each its delivery-id, delivery-tag and
    message.
    """
    found: list[tuple[int, bytes, bytes]] = []
    there = len(buffer)
    channel = handle = 0
    while len(found) < most and there - start > _FIELDS:
        # Type, channel, descriptor and code of a frame without an extended header.
        if _uint(buffer, start + 8) != 0x005314C0 or buffer[start + 4] != 2 or buffer[start + 5]:
            break
        on = (buffer[start + 6] << 8) | buffer[start + 7]
        end = start + _uint(buffer, start)
        body = start + _COUNTED + buffer[start + 12]
        if end > there or end - start > max_frame or body > end:
            break
        at = start + _FIELDS
        of = number = 0
        # No value here is longer than 5 bytes, and each is read only where it ends before the list.
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
