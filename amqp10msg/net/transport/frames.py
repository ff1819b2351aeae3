"""The head of a frame (Part 2, 2.3.1), which the frames of SASL have as well."""

from __future__ import annotations

import struct

#: The frame's size in bytes, the words of 4 bytes before its body, its type, and its channel.
HEAD = struct.Struct(">IBBH")
HEAD_SIZE = HEAD.size
AMQP_FRAME, SASL_FRAME = 0, 1
_WORDS = HEAD_SIZE // 4


def frame_head(body: int, kind: int, channel: int = 0) -> bytes:
    """Return the head of a frame without extended header whose body takes so many bytes."""
    return HEAD.pack(HEAD_SIZE + body, _WORDS, kind, channel)
