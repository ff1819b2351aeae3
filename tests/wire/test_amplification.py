"""Bytes that ask for more than they pay for: time and memory in proportion to the input."""

from __future__ import annotations

import functools
import gc
import random
import struct
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from amqp10msg import (
    AmqpValue,
    Array,
    DecodeError,
    Described,
    EncodeError,
    Header,
    Limits,
    Message,
    Symbol,
    UInt,
    decode_value,
    decode_values,
    encode_value,
    scan,
    skip_value,
    validate,
)
from amqp10msg.wire.primitives import identical
from tests.hostile import (
    INNERMOST,
    KEYS_UNITS,
    READS,
    SLOWER,
    UNITS,
    WRAPS,
    Read,
    Wrap,
    assert_quick,
    every_section,
    key_of_map,
    lenient,
    list_of,
    map_to,
    nested,
    outcome,
    peak,
)

# Amplification: what asks for more than it pays for.

BOMBS = {
    "list of 2^32 - 1 in 12 octets": b"\xd0\x00\x00\x00\x07\xff\xff\xff\xff\x40\x40\x40",
    "list32 of 2 GiB": b"\xd0\x7f\xff\xff\xff\x7f\xff\xff\xfb\x40",
    "map of 2^32 - 2": b"\xd1\x00\x00\x00\x07\xff\xff\xff\xfe\x40\x40\x40",
    "array of 2^32 - 1 nulls": b"\xf0\x00\x00\x00\x05\xff\xff\xff\xff\x40",
    "array of 2^31 trues": b"\xf0\x00\x00\x00\x05\x80\x00\x00\x00\x41",
    "array of 2^32 - 1 empty lists": b"\xf0\x00\x00\x00\x05\xff\xff\xff\xff\x45",
    "array of 2^32 - 1 described nulls": b"\xf0\x00\x00\x00\x08\xff\xff\xff\xff\x00\x53\x05\x40",
    "binary of 4 GiB": b"\xb0\xff\xff\xff\xff",
    "string of 2 GiB": b"\xb1\x80\x00\x00\x00" + b"a" * 10,
    "array8 of 255 arrays of 255 nulls": b"\xe0"
    + struct.pack(">BB", 1 + 1 + 3 * 80, 80)
    + b"\xe0"
    + b"\x02\xff\x40" * 80,
}


@pytest.mark.parametrize("octets", BOMBS.values(), ids=BOMBS)
def test_bombs(octets: bytes) -> None:
    for bomb in (octets, b"\x00\x53\x77" + octets, b"\x00\x53\x72\xd1" + octets[1:]):
        for read in READS:
            assert_quick(read, bomb)
            assert peak(read, bomb) < 40_000 + 3_000 * len(bomb)


def repeated(encoded: bytes, times: int) -> bytes:
    content = encoded * times
    return b"\xd0" + struct.pack(">II", len(content) + 4, times) + content


# What costs most for its bytes. An empty list is 56 bytes and its place in a list 8, for one.
DENSE = {
    "empty lists": (b"\x45", 4_000),
    "nulls": (b"\x40", 4_000),
    "empty maps": (b"\xc1\x01\x00", 2_000),
    "empty arrays": (b"\xe0\x02\x00\x40", 2_000),
    "described nulls": (b"\x00\x40\x40", 2_000),
    "maps of one": (b"\xc1\x03\x02\x40\x40", 2_000),
    "maps with a list as key": (b"\xc1\x03\x02\x45\x40", 2_000),
    "symbols": (b"\xa3\x00", 2_000),
    "chars": (b"\x73\x00\x00\x00\x41", 2_000),
    "floats": (b"\x72\x7f\x80\x00\x01", 2_000),
    "decimals": (b"\x74\x00\x00\x00\x00", 2_000),
    "uuids": (b"\x98" + bytes(16), 1_000),
    "lists of one": (b"\xc0\x02\x01\x40", 2_000),
    "longs": (b"\x81\x7f" + bytes(7), 2_000),
}
# Bytes of memory for each byte of input; twice what was measured, to say where linear ends.
FACTOR = 200


@pytest.mark.parametrize("name", DENSE)
def test_memory_is_in_proportion(name: str) -> None:
    encoded, times = DENSE[name]
    octets = repeated(encoded, times)
    assert times == len(decode_value(octets))
    for read, given in (
        (decode_value, octets),
        (Message.decode, b"\x00\x53\x77" + octets),
        (lenient, b"\x00\x53\x76" + octets),
        (validate, b"\x00\x53\x77" + octets),
    ):
        assert peak(read, given) < 100_000 + FACTOR * len(given), read


SECTIONS_IN_A_ROW = {
    "data": b"\x00\x53\x75\xa0\x00",
    "sequences": b"\x00\x53\x76\x45",
    "values": b"\x00\x53\x77\x40",
    "headers": b"\x00\x53\x70\x45",
    "footers": b"\x00\x53\x78\xc1\x01\x00",
    "unknown": b"\x00\x53\x10\x45",
    "nulls": b"\x40",
    "symbolic": b"\x00\xa3\x10amqp:header:list\x45",
    "zero width": b"\x00\x53\x77\xf0\x00\x00\x00\x05\x00\x00\xff\x00\x40",
    "unreadable data": b"\x00\x53\x75\x45",
}


@pytest.mark.parametrize("name", SECTIONS_IN_A_ROW)
def test_many_sections(name: str) -> None:
    octets = SECTIONS_IN_A_ROW[name] * 1_000
    for read in READS:
        found = outcome(read, octets)
        if isinstance(found, Message):
            assert octets == found.encode()
        del found
        assert peak(read, octets) < 2_000_000 + FACTOR * len(octets), read
        assert_quick(read, octets, 3 * SLOWER * UNITS)


@pytest.mark.parametrize("section", [b"\x00\x53\x75\xa0\x00", b"\x00\x53\x76\x45"])
@pytest.mark.parametrize("strict", [True, False])
def test_change_next_to_many_body_sections_is_linear(section: bytes, strict: bool) -> None:
    """What is encoded anew takes time linear in the sections that stay as they are."""
    octets = section * 10_000
    message = Message.decode(octets, strict=strict)
    header = b"\x00\x53\x70\xc0\x04\x02\x40\x50\x01"
    changed = message.evolve(header=Header(priority=1))
    parts: Any = message.body
    for made, expected in (
        (changed.encode, header + octets),
        (changed.for_next_hop(0, 0).encode, header + octets),
        (message.evolve(body=parts[1:]).encode, octets[len(section) :]),
    ):
        assert expected == made()
        assert_quick(without_octets(made), octets, SLOWER * UNITS * 4)


def test_the_budget_of_zero_width_is_for_the_whole_input() -> None:
    array = b"\xf0\x00\x00\x00\x05\x00\x00\x80\x01\x40"  # 32,769 nulls in 10 bytes
    for octets in (
        repeated(array, 2),
        (b"\x00\x53\x76" + list_of(array)) * 2,
        b"\x00\x53\x72" + map_to(array)[:9] + b"\xa3\x01k" + array,
    ):
        for read in READS:
            if read not in (skip_value, scan):
                outcome(read, octets)
    two = (b"\x00\x53\x76" + list_of(array)) * 2
    for read in (Message.decode, lenient):
        found = outcome(read, two)
        assert isinstance(found, DecodeError)
        assert found.rule == "zero-width-limit"


def test_the_budget_of_items_is_for_the_whole_input() -> None:
    sequence = b"\x00\x53\x76" + repeated(b"\x40", 600)
    for strict in (True, False):
        Message.decode(sequence, limits=Limits(items=600), strict=strict)
        with pytest.raises(DecodeError) as caught:
            Message.decode(sequence * 2, limits=Limits(items=1_000), strict=strict)
        assert caught.value.rule == "items-limit"


# Keys that collide.

MODULUS = (1 << 61) - 1


def map_of(keys: list[bytes]) -> bytes:
    content = b"".join(key + b"\x40" for key in keys)
    return b"\xd1" + struct.pack(">II", len(content) + 4, 2 * len(keys)) + content


@functools.cache
def probing_keys(bits: int) -> list[int]:
    """Integers that make a dict of 2^bits places walk through half of them for each new key.

    A dict probes i, then 5 i + 1 + (what is left of the hash), and an int is its own hash. The
    first third of the keys lie on the orbit i -> 5 i + 1; each other one is chosen so that its
    probes hit taken places until nothing is left of its hash, and follows the orbit to its end.
    """
    mask = (1 << bits) - 1
    orbit = [1]
    while len(orbit) <= mask:
        orbit.append((5 * orbit[-1] + 1) & mask)
    head = (1 << bits) // 3 + 1
    keys = orbit[:head]
    known, taken = set(keys), set(keys)
    draw = random.Random(1)
    while len(keys) < (2 << bits) // 3 - 2:
        # Few bits, so that few probes have to hit, and the search is short.
        key = draw.getrandbits(20)
        if key in known:
            continue
        place, rest = key & mask, key
        while rest and place in taken:
            rest >>= 5
            place = (5 * place + rest + 1) & mask
        if not rest and place in taken:
            keys.append(key)
            known.add(key)
            taken.add(orbit[head])
            head += 1
    return keys


def colliding_uuids(count: int) -> list[bytes]:
    return [b"\x98" + (5 + i * MODULUS).to_bytes(16, "big") for i in range(count)]


# Functions of keys: made where a test needs them, since collecting tests reads this file, too.
COLLIDING: dict[str, Callable[[], list[bytes]]] = {
    "uuids": lambda: colliding_uuids(5_000),
    "ulongs": lambda: [b"\x80" + struct.pack(">Q", key) for key in probing_keys(13)],
    "longs": lambda: [b"\x81" + struct.pack(">q", key) for key in probing_keys(13)],
    "timestamps": lambda: [b"\x83" + struct.pack(">q", key) for key in probing_keys(13)],
    "doubles": lambda: [b"\x82" + struct.pack(">d", float(i << 62)) for i in range(1, 1_000)],
    "uuids of chance": lambda: [b"\x98" + random.Random(i).randbytes(16) for i in range(5_000)],
    "lists": lambda: [b"\xc0\x0a\x01\x81" + struct.pack(">q", i) for i in range(3_000)],
    "nans": lambda: [b"\x82\x7f\xf8" + i.to_bytes(6, "big") for i in range(3_000)],
    "described": lambda: [b"\x00\x40\x81" + struct.pack(">q", i) for i in range(3_000)],
    "maps": lambda: [b"\xc1\x0b\x02\x40\x81" + struct.pack(">q", i) for i in range(3_000)],
}


@pytest.mark.parametrize("name", COLLIDING)
def test_colliding_keys_take_linear_time(name: str) -> None:
    keys = COLLIDING[name]()
    octets = map_of(keys)
    whole = b"\x00\x53\x77" + octets
    annotations = b"\x00\x53\x72" + octets
    # Linear, with a generous constant: an honest map of this size takes a tenth.
    bound = UNITS * SLOWER * (1 + len(keys) / 500)
    for read, given_ in (
        (decode_value, octets),
        (Message.decode, whole),
        (lenient, whole),
        (Message.decode, annotations),
        (lenient, annotations),
        (every_section, annotations),
        (lambda octets: Message.decode(octets).encode(), whole),
    ):
        assert_quick(read, given_, bound)
    found = decode_value(octets)
    assert len(found) == len(keys)
    assert identical(found, decode_value(encode_value(found)))


@pytest.mark.parametrize("name", COLLIDING)
def test_duplicate_among_colliding_keys_is_found(name: str) -> None:
    keys = COLLIDING[name]()
    with pytest.raises(DecodeError) as caught:
        decode_value(map_of([*keys, keys[7]]))

    assert caught.value.rule == "map-duplicate-key"
    assert caught.value.offset == 9 + sum(len(key) + 1 for key in keys)


@pytest.mark.parametrize("levels", [5, 20, 60, 200])
def test_maps_as_keys_of_maps(levels: int) -> None:
    octets = nested([key_of_map], levels)
    whole = b"\x00\x53\x77" + octets
    for read, given_ in (
        (decode_value, octets),
        (Message.decode, whole),
        (lenient, whole),
        (validate, whole),
        (lambda octets: encode_value(decode_value(octets)), octets),
        (lambda octets: repr(Message.decode(octets).sections()), whole),
    ):
        assert_quick(read, given_, KEYS_UNITS)
    assert identical(decode_value(octets), decode_value(octets))


@pytest.mark.parametrize("beside", [b"", b"\x43\x40"], ids=["alone", "beside another"])
def test_a_large_key_in_keys_of_maps(beside: bytes) -> None:
    """It is looked at once for each map around it, and not once for each pair of them."""
    octets = b"\xb0" + struct.pack(">I", 50_000) + bytes(50_000)
    for _ in range(250):
        content = octets + b"\x40" + beside
        octets = b"\xd1" + struct.pack(">II", len(content) + 4, 2 + len(beside)) + content
    whole = b"\x00\x53\x77" + octets
    for read, given_ in (
        (decode_value, octets),
        (Message.decode, whole),
        (lenient, whole),
        (lambda octets: encode_value(decode_value(octets)), octets),
    ):
        assert_quick(read, given_, KEYS_UNITS)


# Vocabularies.


def test_symbol_cache_is_bounded() -> None:
    def vocabulary(round_: int) -> bytes:
        return b"".join(b"\xa3\x20" + f"{round_:08d}-{i:023d}".encode() for i in range(6_000))

    for word in decode_values(vocabulary(0)):
        assert type(word) is Symbol
    gc.collect()
    tracemalloc.start()
    try:
        for round_ in range(1, 3):
            for _ in decode_values(vocabulary(round_)):
                pass
        gc.collect()
        kept = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert kept < 1_000_000


def test_long_symbols_are_not_cached() -> None:
    octets = b"".join(
        b"\xb3" + struct.pack(">I", 10_000) + f"{i:010000d}".encode() for i in range(100)
    )
    tracemalloc.start()
    try:
        assert len([None for _ in decode_values(octets)]) == 100
        gc.collect()
        kept = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert kept < 100_000


# Errors cost no more than values.


@pytest.mark.parametrize("last", [b"\x3f", b"\xa1\x02\xc3\x28", b"\xa1\x05a", b"\x56\x02"])
def test_a_fault_at_the_end_of_a_long_value(last: bytes) -> None:
    count = 20_000
    content = b"\x40" * (count - 1) + last
    octets = b"\xd0" + struct.pack(">II", len(content) + 4, count) + content
    whole = b"\x00\x53\x77" + octets

    for read, given_ in ((decode_value, octets), (Message.decode, whole), (lenient, whole)):
        # Read leniently, the section is kept as bytes.
        assert isinstance(outcome(read, given_), DecodeError) == (read is not lenient)
        assert_quick(read, given_, SLOWER * UNITS)


def test_errors_stay_small() -> None:
    """An error names the place in words of bounded length, however long keys and values are."""
    key = b"\xb1" + struct.pack(">I", 100_000) + b"k" * 100_000
    content = key + b"\x3f"
    octets = b"\xd1" + struct.pack(">II", len(content) + 4, 2) + content
    duplicate = map_of([key, key])
    for bad in (octets, duplicate, nested([map_to], 100, octets)):
        found = outcome(decode_value, bad)
        assert isinstance(found, DecodeError)
        assert len(str(found)) < 2_000
        assert len(repr(found)) < 4_000


# Encoding: what a value holds more than once, or at the bottom of many levels.


@pytest.mark.parametrize("wrap", WRAPS)
def test_nested_keys_and_elements_are_encoded_once(wrap: Wrap) -> None:
    """Keys and elements are encoded apart, and each of them once."""
    octets = nested([wrap], 250, INNERMOST.get(wrap, b"\x40"))
    value = decode_value(octets)
    messages = [
        Message.decode(b"\x00\x53\x77" + octets, strict=strict).evolve(body=AmqpValue(value))
        for strict in (True, False)
    ]
    assert identical(value, decode_value(encode_value(value)))
    writes: list[Callable[[], bytes]] = [partial(encode_value, value)]
    for write in writes + [message.encode for message in messages]:
        assert_quick(without_octets(write), octets, KEYS_UNITS)


def test_self_containing_value_is_refused_in_little_time() -> None:
    held: list[Any] = []
    as_list: list[Any] = [1]
    as_list.append(as_list)
    as_dict: dict[str, Any] = {}
    as_dict["k"] = [as_dict, as_dict]
    as_array = Array("list", [held])
    held.append(as_array)
    as_body = AmqpValue(None)
    as_body.value = as_body
    described = Described(UInt(1), held)
    for value in (as_list, as_dict, as_array, as_body, described):
        for write in (partial(encode_value, value), Message(AmqpValue(value)).encode):
            with pytest.raises(EncodeError):
                write()
            assert_quick(without_octets(write), b"", KEYS_UNITS)


def without_octets(write: Callable[[], bytes]) -> Read:
    def run(_: bytes) -> None:
        with suppress(EncodeError):
            write()

    return run
