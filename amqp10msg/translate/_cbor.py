# cython: language_level=3, boundscheck=True, wraparound=False, annotation_typing=False
"""The subset of CBOR (RFC 8949) that the residual is written in, deterministic (4.2.1).

Unsigned integers, byte strings, text, arrays, maps with integers or texts as keys, and null; all
lengths definite, every head in its shortest form, keys sorted by their encodings. The reader
refuses everything else, so that one content has one encoding.

Runs as it is, and compiled with the C types of `_cbor.pxd`.
"""

from __future__ import annotations

from typing import Any

from amqp10msg.notation.cbor_heads import (
    DETAIL,
    EIGHT_BYTES,
    FOUR_BYTES,
    ITEM_NULL,
    MAJOR,
    MAJOR_ARRAY,
    MAJOR_BYTES,
    MAJOR_MAP,
    MAJOR_TEXT,
    MAJOR_UNSIGNED,
    ONE_BYTE,
    TWO_BYTES,
)
from amqp10msg.wire.kernel.twin import Output

_MAX_DEPTH = 8


class CborError(ValueError):
    """The input is not the deterministic encoding of a value of the subset."""


def encode(value: Any) -> bytes:
    """Encode a value of the subset."""
    writer = _Writer()
    writer.value(value)
    return writer.finish()


class _Writer(Output):
    """Collects encodings."""

    def value(self, value: Any) -> None:
        """Write one value."""
        if value is None:
            self.octet(ITEM_NULL)
        elif isinstance(value, int):
            self.head(MAJOR_UNSIGNED, value)
        elif isinstance(value, bytes):
            self.head(MAJOR_BYTES, len(value))
            self.add(value)
        elif isinstance(value, str):
            octets = value.encode("utf-8")
            self.head(MAJOR_TEXT, len(octets))
            self.add(octets)
        elif isinstance(value, list):
            self.head(MAJOR_ARRAY, len(value))
            for item in value:
                self.value(item)
        else:
            self.head(MAJOR_MAP, len(value))
            for key in sorted(value, key=_order):
                self.value(key)
                self.value(value[key])

    def head(self, kind: int, number: int) -> None:
        """Write a kind and its number, in the shortest form."""
        if number < ONE_BYTE:
            self.octet(kind | number)
        elif number < 0x100:
            self.octet(kind | ONE_BYTE)
            self.octet(number)
        elif number < 0x1_0000:
            self.number(kind | TWO_BYTES, 2, number)
        elif number < 0x1_0000_0000:
            self.number(kind | FOUR_BYTES, 4, number)
        elif number < 0x1_0000_0000_0000_0000:
            self.octet(kind | EIGHT_BYTES)
            self.add(number.to_bytes(8, "big"))
        else:
            raise CborError(f"{number} does not fit 64 bits")


def _order(key: Any) -> tuple[int, int, bytes]:
    """Return what sorts keys as their encodings: numbers, then texts by their lengths."""
    if isinstance(key, int):
        return 0, key, b""
    octets = key.encode("utf-8")
    return 1, len(octets), octets


def decode(data: bytes) -> Any:
    """Decode one value that fills the input.

    Raises:
        CborError: the bytes are not what `encode` writes.
    """
    reader = _Reader(data)
    value = reader.value(0)
    if reader.pos != reader.end:
        raise CborError(f"{reader.end - reader.pos} trailing bytes after the value")
    return value


class _Reader:
    """A cursor over encoded values."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.pos = 0
        self.end = len(data)

    def value(self, depth: int) -> Any:
        """Read one value."""
        data = self.data
        pos = self.pos
        if pos >= self.end:
            raise CborError("the input ends")
        head = data[pos]
        kind, number = head & MAJOR, head & DETAIL
        self.pos = pos + 1
        if head == ITEM_NULL:
            return None
        if number >= ONE_BYTE:
            number = self.wide(number)
        if kind == MAJOR_UNSIGNED:
            return number
        if kind in {MAJOR_BYTES, MAJOR_TEXT}:
            return self.string(kind, number)
        if (
            kind not in {MAJOR_ARRAY, MAJOR_MAP}
            or number > self.end - self.pos
            or depth >= _MAX_DEPTH
        ):
            raise CborError(
                "a value that is not of the subset, too deep, or of more items than bytes"
            )
        if kind == MAJOR_ARRAY:
            return [self.value(depth + 1) for _ in range(number)]
        return self.pairs(number, depth + 1)

    def wide(self, low: int) -> int:
        """Read the number behind a head that does not hold it."""
        start = self.pos
        width = 1 << low - ONE_BYTE if low <= EIGHT_BYTES else 0
        if width == 0 or width > self.end - start:
            raise CborError(
                f"the head {self.data[start - 1]:#04x} is not of the subset, or is cut off"
            )
        number = 0
        for place in range(start, start + width):
            number = number << 8 | self.data[place]
        self.pos = start + width
        if number < ONE_BYTE or (width > 1 and number >> 4 * width == 0):
            raise CborError("a head is longer than it must be")
        return number

    def string(self, kind: int, size: int) -> Any:
        """Read bytes or a text of this size."""
        if size > self.end - self.pos:
            raise CborError("the input ends within a string")
        start = self.pos
        self.pos = start + size
        octets = self.data[start : self.pos]
        if kind == MAJOR_BYTES:
            return octets
        try:
            return octets.decode("utf-8")
        except UnicodeDecodeError:
            raise CborError("a text is no UTF-8") from None

    def pairs(self, count: int, depth: int) -> dict[Any, Any]:
        """Read the pairs of a map."""
        found: dict[Any, Any] = {}
        last = b""
        for _ in range(count):
            start = self.pos
            key = self.value(depth)
            octets = self.data[start : self.pos]
            if not isinstance(key, (int, str)) or octets <= last:
                raise CborError("the keys of a map are no numbers or texts, or not in order")
            last = octets
            found[key] = self.value(depth)
        return found
