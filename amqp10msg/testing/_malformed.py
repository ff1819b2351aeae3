"""Strategies for bytes that a decoder must refuse, and for bytes with random damage."""

from __future__ import annotations

import functools
from collections.abc import Callable

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from amqp10msg.sections.parts import scan
from amqp10msg.testing._encodings import encodings
from amqp10msg.testing._sections import messages
from amqp10msg.testing._values import nested_values
from amqp10msg.wire.errors import DecodeError
from amqp10msg.wire.kernel import decode_value, skip_value
from amqp10msg.wire.primitives import FORMAT_CODES

# Invalid encoded values by fault. Sizes and counts are correct unless the fault concerns them.
_BROKEN_VALUES: dict[str, bytes] = {
    "unknown-constructor": b"\x3f",
    "reserved-constructor": b"\x57\x00",
    "boolean-octet": b"\x56\x02",
    "char-surrogate": b"\x73\x00\x00\xd8\x00",
    "char-beyond-unicode": b"\x73\x00\x11\x00\x00",
    "string-not-utf8": b"\xa1\x02\xc3\x28",
    "string-with-surrogate": b"\xa1\x03\xed\xa0\x80",
    "string-overlong": b"\xa1\x02\xc0\x80",
    "symbol-not-ascii": b"\xa3\x02\xc3\xa9",
    "list-size-zero": b"\xc0\x00",
    "list32-size-too-small": b"\xd0\x00\x00\x00\x03\x00\x00\x00",
    "list-count-too-large": b"\xc0\x02\x02\x40",
    "list-count-huge": b"\xd0\x00\x00\x00\x05\xff\xff\xff\xff\x40",
    "list-octets-left-over": b"\xc0\x03\x01\x40\x40",
    "list-element-overruns": b"\xc0\x03\x01\xa1\x05",
    "map-odd-count": b"\xc1\x02\x01\x40",
    "map-duplicate-key": b"\xc1\x09\x04\xa1\x01a\x40\xa1\x01a\x40",
    "map-duplicate-null": b"\xc1\x05\x04\x40\x40\x40\x40",
    "array-size-too-small": b"\xe0\x01\x00",
    "array-count-too-large": b"\xe0\x03\x02\x50\x01",
    "array-octets-left-over": b"\xe0\x04\x01\x50\x01\x02",
    "array-zero-width-bomb": b"\xf0\x00\x00\x00\x05\xff\xff\xff\xff\x40",
    "array-unknown-constructor": b"\xe0\x02\x00\x3f",
}
# More levels of nesting than decoders allow by default.
_TOO_MANY_LEVELS = 257


def _deeply_nested_list() -> bytes:
    encoded = b"\x45"
    for _ in range(_TOO_MANY_LEVELS):
        encoded = b"\xd0" + (len(encoded) + 4).to_bytes(4, "big") + b"\x00\x00\x00\x01" + encoded
    return encoded


_BROKEN_VALUES["nested-too-deeply"] = _deeply_nested_list()

# Functions that put an encoded value into an otherwise valid list, map or described value.
_WRAPPERS: tuple[Callable[[bytes], bytes], ...] = (
    lambda inner: b"\xd0" + (len(inner) + 4).to_bytes(4, "big") + b"\x00\x00\x00\x01" + inner,
    lambda inner: (
        b"\xd0" + (len(inner) + 6).to_bytes(4, "big") + b"\0\0\0\x03\x41" + inner + b"\x42"
    ),
    lambda inner: b"\xd1" + (len(inner) + 5).to_bytes(4, "big") + b"\0\0\0\x02\x40" + inner,
    lambda inner: b"\xd1" + (len(inner) + 5).to_bytes(4, "big") + b"\0\0\0\x02" + inner + b"\x40",
    lambda inner: b"\x00\x53\x05" + inner,
    lambda inner: b"\x00" + inner + b"\x40",
)


_FAULT_NAMES = st.sampled_from(sorted(_BROKEN_VALUES))
_DRAWN_WRAPPERS = st.lists(st.sampled_from(_WRAPPERS), max_size=4)


@functools.cache
def _encoded_values() -> SearchStrategy[bytes]:
    return nested_values(5).flatmap(encodings)


@st.composite
def _malformed_values(draw: st.DrawFn) -> bytes:
    if draw(st.booleans()):
        intact = draw(_encoded_values())
        if len(intact) > 1 and draw(st.booleans()):
            return intact[: draw(st.integers(1, len(intact) - 1))]
        return intact + draw(st.binary(min_size=1, max_size=8))
    broken = _BROKEN_VALUES[draw(_FAULT_NAMES)]
    for wrap in draw(_DRAWN_WRAPPERS):
        broken = wrap(broken)
    return broken


# An amqp-value section with a null.
_VALID_BODY = b"\x00\x53\x77\x40"
_MALFORMED_MESSAGES = (
    _VALID_BODY + b"\x00\x53\x70\x45",  # a header after the body
    b"\x00\x53\x73\x45\x00\x53\x72\xc1\x01\x00" + _VALID_BODY,  # annotations after properties
    b"\x00\x53\x70\x45\x00\x53\x70\x45" + _VALID_BODY,  # two headers
    _VALID_BODY + _VALID_BODY,  # two amqp-values
    b"\x00\x53\x75\xa0\x00" + _VALID_BODY,  # two kinds of body
    b"\x00\x53\x78\xc1\x01\x00" + _VALID_BODY,  # a footer before the body
    b"\x00\x53\x79\x45" + _VALID_BODY,  # a descriptor that Part 3 does not define
    b"\x00\x53\x24\x45" + _VALID_BODY,  # an outcome
    b"\x45" + _VALID_BODY,  # a list without descriptor instead of a section
    b"\x00\x53\x70\xc1\x01\x00",  # a header that is a map
    b"\x00\x53\x70\xc0\x07\x06\x40\x40\x40\x40\x40\x40",  # six fields of a header
    b"\x00\x53\x70\xc0\x03\x01\x50\x01",  # durable as ubyte
    b"\x00\x53\x73\xc0\x03\x01\x55\x05",  # message-id as long
    b"\x00\x53\x73\xc0\x05\x02\x40\xa1\x01u",  # user-id as string
    b"\x00\x53\x72\xc1\x05\x02\xa1\x01k\x40",  # an annotation's key as string
    b"\x00\x53\x74\xc1\x05\x02\xa3\x01k\x40",  # an application property's key as symbol
    b"\x00\x53\x74\xc1\x05\x02\xa1\x01k\x45",  # an application property that is a list
    b"\x00\x53\x75\xa1\x01x",  # data as string
    b"\x00\x53\x76\xc1\x01\x00",  # a sequence that is a map
)


@functools.cache
def _encoded_messages() -> SearchStrategy[bytes]:
    return messages().flatmap(encodings)


@st.composite
def _malformed_messages(draw: st.DrawFn) -> bytes:
    fault_source = draw(st.integers(0, 2))
    if fault_source == 0:
        return draw(st.sampled_from(_MALFORMED_MESSAGES))
    if fault_source == 1:
        broken = draw(_malformed_values())
        if _begins_with_complete_value(broken):
            return b"\x00\x53\x77" + broken[: skip_value(broken)] + b"\x3f"
        return b"\x00\x53\x77" + broken
    encoded = draw(_encoded_messages())
    section_ends = {0, *(part.end for part in scan(encoded))}
    inside = [cut for cut in range(len(encoded)) if cut not in section_ends]
    return encoded[: draw(st.sampled_from(inside))]


def _begins_with_complete_value(octets: bytes) -> bool:
    """Whether the bytes begin with a complete value.

    As a body, such bytes could be valid: the bytes after the value may be a valid section.
    """
    try:
        decode_value(octets)
    except DecodeError as error:
        return error.rule == "trailing-bytes"
    return True


def malformed(of: str = "message") -> SearchStrategy[bytes]:
    """Bytes that must be refused: truncated, or with a wrong size, type, order or depth.

    Example:
        >>> from hypothesis import given
        >>> import pytest
        >>> from amqp10msg import DecodeError, Message
        >>> @given(malformed())
        ... def test_it_is_refused(octets):
        ...     with pytest.raises(DecodeError):
        ...         Message.decode(octets)
        >>> test_it_is_refused()

    Args:
        of: ``message`` for bytes that strict `Message.decode` must refuse, ``value`` for bytes that
            `decode_value` must refuse.

    Raises:
        ValueError: `of` is neither ``message`` nor ``value``.
    """
    if of == "message":
        return _malformed_messages()
    if of == "value":
        return _malformed_values()
    raise ValueError(f"malformed() makes a 'message' or a 'value', not {of!r}")


# Bytes that often cause faults: format codes and limits of sizes.
_SPECIAL_BYTES = bytes(sorted({0x00, 0x01, 0x7F, 0x80, 0xFE, 0xFF, *FORMAT_CODES}))
_SIZES = tuple(
    size.to_bytes(4, "big")
    for size in (0, 1, 3, 4, 5, 255, 256, 2**16, 2**31 - 1, 2**31, 2**32 - 1)
)
# Create each strategy only once, because hypothesis inspects a new strategy before the first draw.
_FAULT_COUNTS = st.integers(1, 3)
_FAULT_KINDS = st.integers(0, 6)
_DRAWN_SPECIAL_BYTES = st.sampled_from(_SPECIAL_BYTES)
_DRAWN_BYTES = st.integers(0, 255)
_FORGED_SIZES = st.sampled_from(_SIZES)
_REMOVED_BYTE_COUNTS = st.integers(1, 8)
_INSERTED_BYTES = st.binary(min_size=1, max_size=8)
_REPEATED_BYTE_COUNTS = st.integers(1, 16)


@st.composite
def _mutated(draw: st.DrawFn, data: bytes) -> bytes:
    octets = bytearray(data)
    for _ in range(draw(_FAULT_COUNTS)):
        offset = draw(st.integers(0, max(len(octets) - 1, 0)))
        fault_kind = draw(_FAULT_KINDS)
        if fault_kind == 0:
            octets[offset : offset + 1] = bytes([draw(_DRAWN_SPECIAL_BYTES)])
        elif fault_kind == 1:
            octets[offset : offset + 1] = bytes([draw(_DRAWN_BYTES)])
        elif fault_kind == 2:
            octets[offset : offset + 4] = draw(_FORGED_SIZES)
        elif fault_kind == 3:
            del octets[offset:]
        elif fault_kind == 4:
            del octets[offset : offset + draw(_REMOVED_BYTE_COUNTS)]
        elif fault_kind == 5:
            octets[offset:offset] = draw(_INSERTED_BYTES)
        else:
            octets[offset:offset] = octets[offset : offset + draw(_REPEATED_BYTE_COUNTS)]
    return bytes(octets)


def mutated(data: bytes) -> SearchStrategy[bytes]:
    """`data` with one to three random faults; the result may still be valid by chance.

    A fault replaces, inserts, repeats or removes bytes, overwrites four bytes with a size or count,
    or cuts off the end.

    Example:
        >>> from hypothesis import given
        >>> from amqp10msg import DecodeError, Message
        >>> @given(mutated(Message("text").encode()))
        ... def test_a_value_or_a_decode_error(octets):
        ...     try:
        ...         Message.decode(octets)
        ...     except DecodeError:
        ...         pass
        >>> test_a_value_or_a_decode_error()

    Args:
        data: the bytes to damage, such as an encoded message.
    """
    return _mutated(data)
