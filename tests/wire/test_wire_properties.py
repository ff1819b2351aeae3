"""The kernel, on both builds, held against a codec that was written twice: properties first."""

from __future__ import annotations

import array
import copy
import datetime
import decimal
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import amqp10msg
from amqp10msg import (
    AmqpMap,
    Array,
    Char,
    DecodeError,
    Described,
    Float,
    Limits,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
)
from amqp10msg.testing import (
    constructors_for,
    encodings,
    malformed,
    mutated,
    values,
    values_of,
)
from amqp10msg.wire.primitives import FORMAT_CODES, identical
from tests import reference_codec as reference


def spelled(value: Any) -> st.SearchStrategy[tuple[Any, bytes]]:
    return st.tuples(st.just(value), encodings(value))


# Round trips.


@given(value=values())
def test_round_trip(wire: ModuleType, value: Any) -> None:
    assert identical(value, wire.decode_value(wire.encode_value(value)))


@given(value=values())
def test_no_encoding_is_shorter(wire: ModuleType, value: Any) -> None:
    encoded = wire.encode_value(value)
    decoded = wire.decode_value(encoded)  # with the constructors that its arrays were given

    assert reference.encode(reference.neutral(decoded)) == encoded


@given(value=values())
def test_the_reference_reads_the_same_value(wire: ModuleType, value: Any) -> None:
    encoded = wire.encode_value(value)

    assert reference.decode(encoded) == reference.neutral(wire.decode_value(encoded))


@given(pair=values().flatmap(spelled))
def test_every_legal_encoding_decodes(wire: ModuleType, pair: tuple[Any, bytes]) -> None:
    value, octets = pair

    assert identical(value, wire.decode_value(octets))
    assert reference.decode(octets) == reference.neutral(wire.decode_value(octets))


@given(pair=values().flatmap(spelled))
def test_canonical_is_the_smallest(wire: ModuleType, pair: tuple[Any, bytes]) -> None:
    value, octets = pair

    assert len(wire.encode_value(value)) <= len(octets) or _free_arrays(value)
    assert wire.encode_value(wire.decode_value(wire.encode_value(value))) == wire.encode_value(
        value
    )


def _free_arrays(value: Any) -> bool:
    """Whether a value holds an array whose constructor is still to be chosen.

    The library then takes one of a byte or more, for receivers that bound arrays without bytes.
    """
    if isinstance(value, Array):
        return value.code is None or any(map(_free_arrays, [*value, *value.descriptors]))
    if isinstance(value, Described):
        return _free_arrays(value.descriptor) or _free_arrays(value.value)
    if isinstance(value, (dict, AmqpMap)):
        pairs = value.pairs if isinstance(value, AmqpMap) else value.items()
        return any(_free_arrays(part) for pair in pairs for part in pair)
    return isinstance(value, list) and any(map(_free_arrays, value))


@given(drawn=st.lists(values(max_leaves=4).flatmap(spelled), max_size=4))
def test_consecutive_values(wire: ModuleType, drawn: list[tuple[Any, bytes]]) -> None:
    octets = b"".join(part for _, part in drawn)

    decoded = list(wire.decode_values(octets))

    assert identical([value for value, _ in drawn], decoded)
    offset = 0
    for _, part in drawn:
        offset += len(part)
        assert offset == wire.skip_value(octets, offset - len(part))


@given(octets=values().flatmap(encodings), tail=st.binary(max_size=8))
def test_skipping_ends_where_decoding_ends(wire: ModuleType, octets: bytes, tail: bytes) -> None:
    assert len(octets) == wire.skip_value(octets + tail)
    assert len(octets) == reference.end_of(octets + tail)
    assert 3 + len(octets) == wire.skip_value(b"\xff" * 3 + octets + tail, 3)


@given(octets=values().flatmap(encodings), kind=st.sampled_from([bytearray, memoryview]))
def test_any_buffer_of_octets_decodes(wire: ModuleType, octets: bytes, kind: Any) -> None:
    assert identical(wire.decode_value(octets), wire.decode_value(kind(octets)))
    strided = memoryview(
        bytes(octet for pair in zip(octets, octets, strict=True) for octet in pair)
    )
    assert identical(wire.decode_value(octets), wire.decode_value(strided[::2]))


@given(value=values())
def test_encoding_leaves_the_value_alone(wire: ModuleType, value: Any) -> None:
    before = copy.deepcopy(value)

    wire.encode_value(value)

    assert identical(before, value)


# Each format code by itself.

FIXED = sorted(code for code, row in FORMAT_CODES.items() if row.category == "fixed")
SIZED = sorted(code for code, row in FORMAT_CODES.items() if row.category != "fixed")


def octets_of_width(width: int) -> list[bytes]:
    """Bytes at the edges of every type, and all there are of one byte."""
    if width < 2:
        return [bytes([octet])[:width] for octet in range(256)]
    edges = [bytes(width), b"\xff" * width, b"\x7f" + b"\xff" * (width - 1)]
    edges += [(1 << bit).to_bytes(width, "big") for bit in range(8 * width)]
    edges += [
        ((1 << 8 * width) - 1 - (1 << bit)).to_bytes(width, "big") for bit in range(8 * width)
    ]
    # Around the surrogates and the end of Unicode.
    points = [0xD7FF, 0xD800, 0xDFFF, 0xE000, 0x10FFFF, 0x110000]
    return edges + [point.to_bytes(width, "big") for point in points if width > 2]


@pytest.mark.parametrize("code", FIXED, ids=hex)
def test_every_fixed_encoding(wire: ModuleType, code: int) -> None:
    for content in octets_of_width(FORMAT_CODES[code].width):
        octets = bytes([code]) + content
        try:
            expected = reference.decode(octets)
        except reference.Refused:
            with pytest.raises(DecodeError):
                wire.decode_value(octets)
        else:
            decoded = wire.decode_value(octets)
            assert expected == reference.neutral(decoded)
            assert reference.encode(expected) == wire.encode_value(decoded)


@pytest.mark.parametrize("code", SIZED, ids=hex)
@settings(max_examples=20)
@given(data=st.data())
def test_every_sized_encoding(wire: ModuleType, code: int, data: st.DataObject) -> None:
    value = data.draw(values_of(FORMAT_CODES[code].type))
    if code not in constructors_for(FORMAT_CODES[code].type, [value]):
        code |= 0x10  # it is too long for the one-byte size
    octets = data.draw(encodings(value).filter(lambda octets: octets[0] == code))

    assert identical(value, wire.decode_value(octets))


#: The shortest data of an element, by the constructor of its array.
SHORTEST = {
    0x50: b"x",
    0x61: b"xx",
    0x71: bytes(4),
    0x81: bytes(8),
    0x98: bytes(16),
    0xA1: b"\0",
    0xB1: bytes(4),
    0xC1: b"\1\0",
    0xD0: b"\0\0\0\4" + bytes(4),
    0xE0: b"\2\0\x40",
}


@pytest.mark.parametrize("elements", [0, 1, 2, 20])
@pytest.mark.parametrize("code", SHORTEST, ids=hex)
def test_array_counts_are_compared_with_the_bytes(
    wire: ModuleType, code: int, elements: int
) -> None:
    """Before anything is read: the error is about the count, and not about an element."""
    data = SHORTEST[code] * elements

    def octets(count: int) -> bytes:
        return (
            b"\xf0"
            + (5 + len(data)).to_bytes(4, "big")
            + count.to_bytes(4, "big")
            + bytes([code])
            + data
        )

    assert elements == len(wire.decode_value(octets(elements)).values)
    for count in (elements + 1, elements + 2, 2**32 - 1):
        with pytest.raises(DecodeError) as caught:
            wire.decode_value(octets(count))
        assert ("count-exceeds-size", 9) == (caught.value.rule, caught.value.offset)


def test_depth_is_restored_after_each_value(wire: ModuleType) -> None:
    """Whatever holds values gives its level back, once for each descriptor of an array."""
    one = UInt(1)
    deep: list[Any] = [
        Array("uint", [one], descriptors=[Symbol("a"), Symbol("b")]),
        Described(Symbol("a"), Described(Symbol("b"), one)),
        [[one]],
        {"a": {"b": one}},
        Array("list", [[one]]),
    ]
    value = deep * 200

    assert identical(value, wire.decode_value(wire.encode_value(value), limits=Limits(depth=4)))
    with pytest.raises(DecodeError, match="depth limit"):
        wire.decode_value(wire.encode_value(value), limits=Limits(depth=2))


@pytest.mark.parametrize("code", sorted({*range(256)} - {*FORMAT_CODES, 0}), ids=hex)
def test_unknown_format_codes_are_refused(wire: ModuleType, code: int) -> None:
    junk = bytes([code]) + bytes(20)
    for read, octets, offset in (
        (wire.decode_value, junk, 0),
        (wire.decode_value, b"\xc0\x16\x01" + junk, 3),
        (wire.decode_value, b"\xe0\x16\x01" + junk, 3),
        (wire.skip_value, junk, 0),
    ):
        with pytest.raises(DecodeError) as caught:
            read(octets)
        assert "unknown-constructor" == caught.value.rule
        assert offset == caught.value.offset
        assert caught.value.condition == "amqp:decode-error"


@pytest.mark.parametrize(
    "value, expected",
    [
        (None, "40"),
        (True, "41"),
        (False, "42"),
        (UInt(0), "43"),
        (ULong(0), "44"),
        ([], "45"),
        (UInt(255), "52ff"),
        (UInt(256), "7000000100"),
        (ULong(255), "53ff"),
        (ULong(2**64 - 1), "80ffffffffffffffff"),
        (-128, "5580"),
        (-129, "81ffffffffffffff7f"),
        (-(2**63), "818000000000000000"),
        (2**63 - 1, "817fffffffffffffff"),
        (Timestamp(-1), "83ffffffffffffffff"),
        (-0.0, "828000000000000000"),
        (Float.from_bits(0x7F800001), "727f800001"),
        (Char("\U0001f41f"), "730001f41f"),
        ("ü", "a102c3bc"),
        (b"x" * 256, "b000000100" + "78" * 256),
        ({}, "c10100"),
        ([None] * 255, "d000000103000000ff" + "40" * 255),
        ([None] * 254, "c0fffe" + "40" * 254),
        (Array("boolean", [True, False]), "e00402560100"),
        (Array("uint", [0, 1]), "e00402520001"),
        (Array("null", [None] * 300), "f0000000050000012c40"),
        (Array("list", [[], []]), "e00602c001000100"),
        (Described(ULong(0x70), []), "00537045"),
        # What is more natural in Python than the exact type.
        ((1, 2), "c0050255015502"),
        (bytearray(b"ab"), "a0026162"),
        (memoryview(b"ab"), "a0026162"),
        (memoryview(b"a-b-")[::2], "a0026162"),
        (memoryview(array.array("H", [0])), "a0020000"),
        (datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=datetime.UTC), "8300000000000003e8"),
        (decimal.Decimal(1), "7432800001"),
        (decimal.Decimal(12345678), "8431c0000000bc614e"),
        (decimal.Decimal("1E+6111"), "945ffe" + "00" * 13 + "01"),
    ],
)
def test_known_encodings(wire: ModuleType, value: Any, expected: str) -> None:
    assert expected == wire.encode_value(value).hex()


@pytest.mark.parametrize("size", [0, 1, 254, 255, 256, 257, 4095, 4096, 4097, 65_536])
@pytest.mark.parametrize("wrap", [0, 1, 3])
def test_sizes_around_the_edges_of_the_writer(wire: ModuleType, size: int, wrap: int) -> None:
    values: list[Any] = [b"\x01" * size, "s" * size, Symbol("y" * size), [None] * size]
    values.append(Array("ubyte", [UByte(7)] * size))
    values.append(dict.fromkeys(map(str, range(size))))
    for value in values:
        nested = value
        for _ in range(wrap):
            nested = [None, nested, {"k": nested} if size < 300 else None]

        encoded = wire.encode_value(nested)

        assert identical(nested, wire.decode_value(encoded))
        assert reference.encode(reference.neutral(wire.decode_value(encoded))) == encoded


# Both builds and the reference, on bytes that anything may have happened to.


def outcome(build: ModuleType, octets: bytes) -> tuple[Any, ...]:
    """What decoding gives: a value, or all that an error says."""
    try:
        return ("value", build.decode_value(octets))
    except DecodeError as error:
        fault = error
    assert octets == fault.data
    assert 0 <= fault.offset <= len(octets)
    return ("error", fault.rule, fault.offset, fault.condition, fault.path, str(fault))


def both_builds(request: pytest.FixtureRequest) -> tuple[ModuleType, ModuleType]:
    if not amqp10msg.COMPILED:
        pytest.skip("only one build runs")
    conftest = next(
        plugin
        for plugin in request.config.pluginmanager.get_plugins()
        if hasattr(plugin, "load_pure_kernel")
    )
    return conftest.load_pure_kernel(), amqp10msg.wire.kernel


@pytest.fixture(scope="session", name="builds")
def builds_fixture(request: pytest.FixtureRequest) -> tuple[ModuleType, ModuleType]:
    return both_builds(request)


octets_of_all_kinds = st.one_of(
    values().flatmap(encodings),
    values().flatmap(encodings).flatmap(mutated),
    malformed("value"),
    st.binary(max_size=40),
)


@given(octets=octets_of_all_kinds)
def test_the_builds_agree(builds: tuple[ModuleType, ModuleType], octets: bytes) -> None:
    pure, compiled = (outcome(build, octets) for build in builds)

    if pure[0] == compiled[0] == "value":
        assert identical(pure[1], compiled[1])
    else:
        assert pure == compiled


@given(octets=octets_of_all_kinds)
def test_the_reference_agrees(wire: ModuleType, octets: bytes) -> None:
    have = outcome(wire, octets)

    try:
        expected = reference.decode(octets)
    except reference.Refused:
        assert have[0] == "error"
    else:
        assert have[0] == "value"
        assert expected == reference.neutral(have[1])
        assert wire.encode_value(have[1]) == reference.encode(expected)


@given(octets=malformed("value"))
def test_malformed_values_are_refused(wire: ModuleType, octets: bytes) -> None:
    assert outcome(wire, octets)[0] == "error"


@given(octets=octets_of_all_kinds, limit=st.integers(0, 20))
def test_the_limits_hold(wire: ModuleType, octets: bytes, limit: int) -> None:
    limits = Limits(depth=limit + 1, items=limit, zero_width=limit, size=2 * limit)
    try:
        value = wire.decode_value(octets, limits=limits)
    except DecodeError:
        return

    assert len(octets) <= 2 * limit
    assert _items(reference.neutral(value)) <= limit
    assert identical(value, wire.decode_value(octets))


def _items(neutral: Any) -> int:
    if neutral[0] == "list":
        return len(neutral[1]) + sum(map(_items, neutral[1]))
    if neutral[0] == "map":
        return 2 * len(neutral[1]) + sum(_items(part) for pair in neutral[1] for part in pair)
    if neutral[0] == "array":
        return len(neutral[3]) + sum(map(_items, [*neutral[2], *neutral[3]]))
    if neutral[0] == "described":
        return _items(neutral[1]) + _items(neutral[2])
    return 0
