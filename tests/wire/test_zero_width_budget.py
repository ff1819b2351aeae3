"""The budget for array elements that take no bytes: it grows with the size of the input."""

from __future__ import annotations

import struct
from collections.abc import Callable

import attrs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from amqp10msg import (
    DecodeError,
    Limits,
    Message,
    decode_value,
    decode_values,
    notation,
    translate,
    validate,
)
from amqp10msg.wire.limits import DEFAULT_LIMITS, UNLIMITED

#: null, true, false, uint0, ulong0 and list0: the format codes of values without bytes.
CODES = st.sampled_from(range(0x40, 0x46))


def array(code: int, count: int) -> bytes:
    return b"\xf0" + struct.pack(">II", 5, count) + bytes((code,))


def annotated(code: int, count: int) -> bytes:
    entry = b"\xa3\x03x-a" + array(code, count)
    return b"\x00\x53\x72\xd1" + struct.pack(">II", len(entry) + 4, 2) + entry


@given(CODES, st.integers(0, 255), st.integers(1, 60))
@example(0x45, 255, 60)
def test_any_number_of_array8_is_read(code: int, count: int, arrays: int) -> None:
    octets = (b"\xe0\x02" + bytes((count, code))) * arrays

    assert [len(array) for array in decode_values(octets)] == [count] * arrays


@given(CODES, st.integers(0, 40), st.integers(0, 400), st.integers(0, 20_000), st.integers(0, 300))
@example(0x45, 4, 0, 65_536, 0)
def test_the_lower_of_both_limits_counts(
    code: int, per_byte: int, padding: int, zero_width: int, beyond: int
) -> None:
    limits = Limits(zero_width=zero_width, zero_width_per_byte=per_byte)
    body = b"\x00\x53\x75\xb0" + struct.pack(">I", padding) + bytes(padding)
    size = len(annotated(code, 0) + body)
    allowed = min(zero_width, 255 + per_byte * size)

    assert limits.zero_width_of(size) == allowed
    Message.decode(annotated(code, allowed) + body, limits=limits)
    with pytest.raises(DecodeError) as caught:
        Message.decode(annotated(code, allowed + 1 + beyond) + body, limits=limits)
    assert (caught.value.rule, caught.value.condition, caught.value.offset) == (
        "zero-width-limit",
        "amqp:resource-limit-exceeded",
        17,
    )


# The 27 bytes that once took a second: an array of 65,536 empty lists.
BOMB = annotated(0x45, 65_536)


@pytest.mark.parametrize(
    "read",
    [
        Message.decode,
        lambda octets: Message.decode(octets, strict=False),
        translate.encoded_to_basic,
        lambda octets: translate.encoded_to_basic(octets, "rabbitmq-4.3"),
        lambda octets: notation.to_typed(Message.decode(octets)),
    ],
)
def test_bomb_is_refused_before_elements_are_created(
    read: Callable[[bytes], object],
) -> None:
    with pytest.raises(DecodeError, match="zero-width limit: an array has 65536 elements"):
        read(BOMB)


def test_validation_names_the_limit() -> None:
    assert "zero-width-limit" in [violation.rule for violation in validate(BOMB)]


@given(CODES, st.integers(0, 100_000))
@example(0x40, 33)
def test_tree_shows_the_first_elements_and_counts_the_rest(code: int, count: int) -> None:
    tree = notation.parse_tree(annotated(code, count))

    shown = [node for _, node in tree.walk()]
    assert len(shown) < 60
    elided = [node.value for node in shown if node.type == "elided"]
    assert elided == ([count - 32] if count > 32 else [])


@pytest.mark.parametrize("code", range(0x40, 0x46))
@pytest.mark.parametrize("count", [1, 64, 65, 300])
def test_arrays_of_any_length_return_from_0_9_1(code: int, count: int) -> None:
    octets = annotated(code, count) + b"\x00\x53\x75\xa0\x01x"

    basic = translate.encoded_to_basic(octets)

    back = translate.encoded_to_amqp10(basic.message)
    assert back.message == octets
    if count > 64:
        # The header of such an array would be larger than the message: the residual carries it.
        assert len(basic.message.content_header) < 200


def rule_of(octets: bytes, limits: Limits) -> str | None:
    """Return the rule that a value violates; None if it is decoded."""
    try:
        decode_value(octets, limits=limits)
    except DecodeError as error:
        return error.rule
    return None


def nested(levels: int) -> bytes:
    octets = b"\x45"
    for _ in range(levels - 1):
        octets = b"\xd0" + struct.pack(">II", len(octets) + 4, 1) + octets
    return octets


@pytest.mark.parametrize(
    "octets, default, unlimited",
    [
        (nested(257), None, None),
        (nested(258), "depth-limit", "depth-limit"),
        (array(0x40, 255 + 64 * 10), None, None),
        (array(0x40, 255 + 64 * 10 + 1), "zero-width-limit", None),
        (array(0x40, 255 + 2**20 * 10 + 1), "zero-width-limit", "zero-width-limit"),
        (b"\xd0" + struct.pack(">II", 1_000_004, 1_000_000) + b"\x40" * 1_000_000, None, None),
        (
            b"\xd0" + struct.pack(">II", 1_000_005, 1_000_001) + b"\x40" * 1_000_001,
            "items-limit",
            None,
        ),
    ],
    ids=["deep", "deeper", "nulls", "more nulls", "most nulls", "items", "more items"],
)
def test_constant_limits_are_those_of_an_equal_object(
    octets: bytes, default: str | None, unlimited: str | None
) -> None:
    """Reading treats these two objects specially, because nearly every message has them."""
    for limits, rule in ((DEFAULT_LIMITS, default), (UNLIMITED, unlimited)):
        assert rule_of(octets, limits) == rule
        assert rule_of(octets, attrs.evolve(limits)) == rule
