"""Constants for the initial bytes of CBOR items (RFC 8949, 3): major types and additional info."""

from __future__ import annotations

#: Bit masks for the major type and the additional information in an initial byte.
MAJOR, DETAIL = 0xE0, 0x1F
(
    MAJOR_UNSIGNED,
    MAJOR_NEGATIVE,
    MAJOR_BYTES,
    MAJOR_TEXT,
    MAJOR_ARRAY,
    MAJOR_MAP,
    MAJOR_TAG,
    MAJOR_SIMPLE,
) = range(0, 256, 32)
#: Additional information. The argument follows in 1, 2, 4 or 8 bytes, or the length is indefinite.
ONE_BYTE, TWO_BYTES, FOUR_BYTES, EIGHT_BYTES = range(24, 28)
INDEFINITE_LENGTH = 31
#: Initial bytes of simple values and of floating-point numbers.
ITEM_FALSE, ITEM_TRUE, ITEM_NULL = (MAJOR_SIMPLE | detail for detail in (20, 21, 22))
ITEM_HALF, ITEM_SINGLE, ITEM_DOUBLE = (
    MAJOR_SIMPLE | detail for detail in (TWO_BYTES, FOUR_BYTES, EIGHT_BYTES)
)
