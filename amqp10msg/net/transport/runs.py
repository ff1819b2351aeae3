# cython: language_level=3, boundscheck=True, wraparound=False, annotation_typing=False
"""A fast path that reads several transfers at once, if each has a whole, unsettled message.

Peers send mostly such frames. `Connection` reads all other frames, including malformed frames, one
by one. This module is compiled if a C compiler is available; `runs.pxd` declares the types.
"""

from __future__ import annotations

import itertools

from amqp10msg.net.transport.frames import MAX_TAG

__all__ = ["whole_transfers"]

#: Offsets, in a frame whose performative is a list8, of the list's first field and of its count.
#: The list's size counts the bytes from the count on.
_FIELDS_OFFSET, _COUNT_OFFSET = 14, 13
#: Format codes.
_UINT0, _SMALL_UINT, _UINT, _BINARY = 0x43, 0x52, 0x70, 0xA0
_MAX_TAG = MAX_TAG
#: All encodings of the fields after the delivery-tag, for a complete, unsettled message of
#: message-format 0 without a delivery state.
_PLAIN_FIELDS = {
    bytes(fields[:count])
    for fields in itertools.product(b"@C", b"@B", b"@B", b"@", b"@", b"@B", b"@B", b"@AB")
    for count in range(9)
}


def _read_uint(buffer: bytes, offset: int) -> int:
    """Read an integer of 4 bytes."""
    number = buffer[offset]
    for index in range(offset + 1, offset + 4):
        number = (number << 8) | buffer[index]
    return number


def whole_transfers(
    buffer: bytes, start: int, max_frame: int, max_count: int
) -> tuple[int, int, int, list[tuple[int, bytes, bytes]]]:
    """Read consecutive transfers of one link from `start` on, each with a whole message.

    Args:
        buffer: the received bytes.
        start: the offset of the first frame.
        max_frame: the maximum size of a frame, in bytes.
        max_count: the maximum number of frames.

    Returns:
        The offset after the transfers that were read; their channel; their handle; and a list with
        the delivery-id, delivery-tag and message of each. The list ends before the first frame that
        is not such a transfer, and may be empty.
    """
    transfers: list[tuple[int, bytes, bytes]] = []
    length = len(buffer)
    channel = handle = 0
    while len(transfers) < max_count and length - start > _FIELDS_OFFSET:
        # The frame must be an AMQP frame without an extended header, with a transfer in a list8.
        if (
            _read_uint(buffer, start + 8) != 0x005314C0
            or buffer[start + 4] != 2
            or buffer[start + 5]
        ):
            break
        frame_channel = (buffer[start + 6] << 8) | buffer[start + 7]
        end = start + _read_uint(buffer, start)
        body = start + _COUNT_OFFSET + buffer[start + 12]
        if end > length or end - start > max_frame or body > end:
            break
        position = start + _FIELDS_OFFSET
        frame_handle = number = 0
        # Before each read, check that the value, of at most 5 bytes, ends inside the list.
        if body - position < 3:
            break
        if buffer[position] == _UINT0:
            position += 1
        elif buffer[position] == _SMALL_UINT:
            frame_handle = buffer[position + 1]
            position += 2
        else:
            break
        if transfers and (frame_channel != channel or frame_handle != handle):
            break
        if buffer[position] == _UINT0:
            position += 1
        elif buffer[position] == _SMALL_UINT and body - position > 2:
            number = buffer[position + 1]
            position += 2
        elif buffer[position] == _UINT and body - position > 5:
            number = _read_uint(buffer, position + 1)
            position += 5
        else:
            break
        if body - position < 2 or buffer[position] != _BINARY or buffer[position + 1] > _MAX_TAG:
            break
        tag = position + 2
        tag_end = tag + buffer[position + 1]
        if tag_end > body or buffer[start + _COUNT_OFFSET] != 3 + body - tag_end:
            break
        if buffer[tag_end:body] not in _PLAIN_FIELDS:
            break
        channel, handle = frame_channel, frame_handle
        transfers.append((number, buffer[tag:tag_end], buffer[body:end]))
        start = end
    return start, channel, handle, transfers
