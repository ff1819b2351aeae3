# cython: language_level=3, boundscheck=True, wraparound=False, annotation_typing=False
"""Whether bytes are CBOR that this library may hand to cbor2.

Runs as it is, and compiled with the C types of `_cbor_check.pxd`.
"""

from __future__ import annotations

from amqp10msg.notation._cbor_tags import FIRST, MAP, MESSAGE, UUID
from amqp10msg.notation._common import NotationError
from amqp10msg.notation.cbor_heads import (
    DETAIL,
    EIGHT_BYTES,
    INDEFINITE,
    ITEM_DOUBLE,
    ITEM_FALSE,
    ITEM_HALF,
    ITEM_NULL,
    ITEM_SINGLE,
    ITEM_TRUE,
    MAJOR,
    MAJOR_ARRAY,
    MAJOR_BYTES,
    MAJOR_MAP,
    MAJOR_NEGATIVE,
    MAJOR_TAG,
    MAJOR_TEXT,
    MAJOR_UNSIGNED,
    ONE_BYTE,
)

#: Every level of AMQP takes two of CBOR, and a message three more.
MAX_DEPTH = 2 * 256 + 8
_MAX_DEPTH = MAX_DEPTH
_FIRST = FIRST
_LAST = MESSAGE
_UUID = UUID
#: The items of the last major type that this form has.
_SIMPLE = bytes((ITEM_FALSE, ITEM_TRUE, ITEM_NULL, ITEM_HALF, ITEM_SINGLE, ITEM_DOUBLE))


def check(data: bytes) -> None:
    """Check that the bytes are one well-formed item that this form can hold.

    Leaves to cbor2 only what it makes plain values of: shared references, regular expressions,
    big fractions and the other things that tags can ask for never reach it.

    Raises:
        NotationError: they are not.
    """
    end = len(data)
    pos = start = 0
    left = 1  # items still to come in this one
    outer: list[int] = []  # and in those around it
    while True:
        if left == 0:
            if not outer:
                break
            left = outer.pop()
            continue
        left -= 1
        start = pos
        if pos >= end:
            raise _wrong(start, "the input ends in the middle of an item")
        major = data[pos] & MAJOR
        detail = data[pos] & DETAIL
        pos += 1
        number = detail
        if detail >= ONE_BYTE:
            if detail == INDEFINITE:
                raise _wrong(start, "indefinite lengths are not part of this form")
            if detail > EIGHT_BYTES:
                raise _wrong(start, f"no item begins with 0x{data[start]:02X}")
            width = 1 << (detail - ONE_BYTE)
            if width > end - pos:
                raise _wrong(start, "the input ends in the middle of an item")
            number = 0
            for i in range(width):
                number = number << 8 | data[pos + i]
            pos += width
        if major in {MAJOR_UNSIGNED, MAJOR_NEGATIVE}:
            continue
        if major in {MAJOR_BYTES, MAJOR_TEXT}:
            if number > end - pos:
                raise _wrong(start, f"a string of {number} bytes does not fit the input")
            pos += number
        elif major in {MAJOR_ARRAY, MAJOR_TAG}:
            if major == MAJOR_TAG and number != _UUID and not _FIRST <= number <= _LAST:
                raise _wrong(start, f"tag {number} is not part of this form")
            if major == MAJOR_ARRAY and number > end - pos:
                raise _wrong(start, f"an array of {number} items does not fit the input")
            if len(outer) >= _MAX_DEPTH:
                raise _wrong(start, "items are nested too deeply")
            outer.append(left)
            left = 1 if major == MAJOR_TAG else number
        elif major == MAJOR_MAP:
            raise _wrong(start, f"a CBOR map is not part of this form: AMQP maps have tag {MAP}")
        elif data[start] not in _SIMPLE:
            raise _wrong(start, f"simple value {number} is not part of this form")
    if pos != end:
        raise _wrong(pos, f"{end - pos} bytes follow the item")


def _wrong(at: int, reason: str) -> NotationError:
    return NotationError(f"at byte {at}: {reason}")
