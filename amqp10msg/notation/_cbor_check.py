# cython: language_level=3, boundscheck=True, wraparound=False, annotation_typing=False
"""Whether bytes are CBOR that this library may hand to cbor2.

Runs as it is, and compiled with the C types of `_cbor_check.pxd`.
"""

from __future__ import annotations

from amqp10msg.notation._cbor_tags import FIRST, MAP, MESSAGE, UUID
from amqp10msg.notation._error import NotationError

__all__ = ["MAX_DEPTH", "check"]

#: Every level of AMQP takes two of CBOR, and a message three more.
MAX_DEPTH = 2 * 256 + 8
_MAX_DEPTH = MAX_DEPTH
_FIRST = FIRST
_LAST = MESSAGE
_UUID = UUID


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
        major = data[pos] >> 5
        detail = data[pos] & 31
        pos += 1
        number = detail
        if detail >= 24:
            if detail == 31:
                raise _wrong(start, "indefinite lengths are not part of this form")
            if detail > 27:
                raise _wrong(start, f"no item begins with 0x{data[start]:02X}")
            width = 1 << (detail - 24)
            if width > end - pos:
                raise _wrong(start, "the input ends in the middle of an item")
            number = 0
            for i in range(width):
                number = number << 8 | data[pos + i]
            pos += width
        if major < 2:
            continue
        if major < 4:
            if number > end - pos:
                raise _wrong(start, f"a string of {number} bytes does not fit the input")
            pos += number
        elif major in {4, 6}:
            if major == 6 and number != _UUID and not _FIRST <= number <= _LAST:
                raise _wrong(start, f"tag {number} is not part of this form")
            if major == 4 and number > end - pos:
                raise _wrong(start, f"an array of {number} items does not fit the input")
            if len(outer) >= _MAX_DEPTH:
                raise _wrong(start, "items are nested too deeply")
            outer.append(left)
            left = 1 if major == 6 else number
        elif major == 5:
            raise _wrong(start, f"a CBOR map is not part of this form: AMQP maps have tag {MAP}")
        elif detail not in (20, 21, 22, 25, 26, 27):
            raise _wrong(start, f"simple value {number} is not part of this form")
    if pos != end:
        raise _wrong(pos, f"{end - pos} bytes follow the item")


def _wrong(at: int, reason: str) -> NotationError:
    return NotationError(f"at byte {at}: {reason}")
