"""The first bytes of CBOR's items (RFC 8949, 3): major types, and what stands beside them."""

from __future__ import annotations

#: The bits of the major type, and the others.
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
#: Where the number of a head stands that is not a detail itself, and the mark of no length.
ONE_BYTE, TWO_BYTES, FOUR_BYTES, EIGHT_BYTES = range(24, 28)
INDEFINITE = 31
#: The simple values, and the heads of floating-point numbers.
ITEM_FALSE, ITEM_TRUE, ITEM_NULL = (MAJOR_SIMPLE | detail for detail in (20, 21, 22))
ITEM_HALF, ITEM_SINGLE, ITEM_DOUBLE = (
    MAJOR_SIMPLE | detail for detail in (TWO_BYTES, FOUR_BYTES, EIGHT_BYTES)
)
