"""The residual: what the other protocol cannot express, in a few bytes.

An array of three, deterministic CBOR: the version 1, the content (a map), and the CRC-32 (ISO-HDLC)
of the encoded content. On the 1.0 side it is the message annotation `NAME`, a binary; on the 0-9-1
side the header `NAME`, a long string that is the base64 text of the same octets.
"""

from __future__ import annotations

import binascii
import zlib
from typing import Any

from amqp10msg.translate import _cbor

#: The annotation and header that holds the residual.
NAME = "x-opt-amqp10msg-residual"
_VERSION = 1


def pack(content: dict[int, Any]) -> bytes:
    """Encode a residual."""
    inner = _cbor.encode(content)
    return b"\x83\x01" + inner + _cbor.encode(zlib.crc32(inner))


def pack_text(content: dict[int, Any]) -> str:
    """Encode a residual as the text of a header."""
    return binascii.b2a_base64(pack(content), newline=False).decode("ascii")


def unpack(data: bytes) -> dict[int, Any] | None:
    """Decode a residual; return None where the bytes are not one, or are damaged."""
    try:
        found = _cbor.decode(data)
    except _cbor.CborError:
        return None
    if not (isinstance(found, list) and len(found) == 3 and found[0] == _VERSION):
        return None
    content = found[1]
    # The content stands between the head and the checksum; no value has two encodings.
    inner = data[2 : len(data) - len(_cbor.encode(found[2]))]
    if not isinstance(content, dict) or found[2] != zlib.crc32(inner):
        return None
    return content


def unpack_text(text: str) -> dict[int, Any] | None:
    """Decode a residual from a header's value; return None where it is not one, or is damaged."""
    try:
        data = binascii.a2b_base64(text.encode("ascii"), strict_mode=True)
    except (UnicodeEncodeError, binascii.Error):
        return None
    # One content has one text.
    return (
        unpack(data) if binascii.b2a_base64(data, newline=False).decode("ascii") == text else None
    )
