# cython: language_level=3, boundscheck=True, wraparound=False, annotation_typing=False
"""The subset of CBOR (RFC 8949) that the residual is written in, deterministic (4.2.1).

Unsigned integers, byte strings, text, arrays, maps with integers or texts as keys, and null; all
lengths definite, every head in its shortest form, keys sorted by their encodings. The reader
refuses everything else, so that one content has one encoding.

Runs as it is, and compiled with the C types of `_cbor.pxd`.
"""

from __future__ import annotations

from typing import Any

__all__ = ["CborError", "decode", "encode"]

_MAX_DEPTH = 8


class CborError(ValueError):
    """The input is not the deterministic encoding of a value of the subset."""


def encode(value: Any) -> bytes:
    """Encode a value of the subset."""
    if value is None:
        return b"\xf6"
    if isinstance(value, int):
        return _head(0, value)
    if isinstance(value, bytes):
        return _head(2, len(value)) + value
    if isinstance(value, str):
        octets = value.encode("utf-8")
        return _head(3, len(octets)) + octets
    if isinstance(value, list):
        return _head(4, len(value)) + b"".join([encode(item) for item in value])
    pairs = sorted([(encode(key), encode(item)) for key, item in value.items()])
    return _head(5, len(pairs)) + b"".join([key + item for key, item in pairs])


def _head(kind: int, number: int) -> bytes:
    kind <<= 5
    if number < 24:
        return bytes([kind | number])
    for code, width in ((24, 1), (25, 2), (26, 4), (27, 8)):
        if number < 1 << 8 * width:
            return bytes([kind | code]) + number.to_bytes(width, "big")
    raise CborError(f"{number} does not fit 64 bits")


def decode(data: bytes) -> Any:
    """Decode one value that fills the input.

    Raises:
        CborError: the bytes are not what `encode` writes.
    """
    value, pos = _read(data, 0, 0)
    if pos != len(data):
        raise CborError(f"{len(data) - pos} trailing bytes after the value")
    return value


def _read(data: bytes, pos: int, depth: int) -> tuple[Any, int]:
    if pos >= len(data):
        raise CborError("the input ends")
    kind, low = data[pos] >> 5, data[pos] & 31
    if data[pos] == 0xF6:
        return None, pos + 1
    pos += 1
    number = low
    if low > 23:
        width = {24: 1, 25: 2, 26: 4, 27: 8}.get(low)
        if width is None or pos + width > len(data):
            raise CborError(f"the head {data[pos - 1]:#04x} is not of the subset, or is cut off")
        number = int.from_bytes(data[pos : pos + width], "big")
        pos += width
        if number < 24 or (width > 1 and number < 1 << 4 * width):
            raise CborError("a head is longer than it must be")
    if kind == 0:
        return number, pos
    if kind in (2, 3):
        if number > len(data) - pos:
            raise CborError("the input ends within a string")
        octets = data[pos : pos + number]
        try:
            return (octets if kind == 2 else octets.decode("utf-8")), pos + number
        except UnicodeDecodeError:
            raise CborError("a text is no UTF-8") from None
    if kind not in (4, 5) or number > len(data) - pos or depth >= _MAX_DEPTH:
        raise CborError("a value that is not of the subset, too deep, or of more items than bytes")
    if kind == 4:
        items = []
        for _ in range(number):
            item, pos = _read(data, pos, depth + 1)
            items.append(item)
        return items, pos
    found: dict[Any, Any] = {}
    last = b""
    for _ in range(number):
        start = pos
        key, pos = _read(data, pos, depth + 1)
        if not isinstance(key, (int, str)) or data[start:pos] <= last:
            raise CborError("the keys of a map are no numbers or texts, or not in order")
        last = data[start:pos]
        found[key], pos = _read(data, pos, depth + 1)
    return found, pos
