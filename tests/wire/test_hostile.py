"""Bytes that mean harm: whatever was done to them, a value or a DecodeError."""

from __future__ import annotations

import gzip
import json
import os
import random
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import amqp10msg
from amqp10msg import (
    DecodeError,
    Described,
    Header,
    Limits,
    Malformed,
    Message,
    Scan,
    decode_value,
    encode_value,
    scan,
    skip_value,
    validate,
)
from amqp10msg.testing import encodings, messages
from amqp10msg.wire.primitives import FORMAT_CODES, identical
from tests.hostile import (
    FAST,
    HAND,
    INNERMOST,
    KEYS_UNITS,
    MESSAGES,
    READS,
    UNITS,
    VALUES,
    WRAPS,
    Wrap,
    assert_quick,
    describing,
    key_of_map,
    lenient,
    list_of,
    nested,
    outcome,
    read_all,
    spelled_widely,
)
from tests.samples import some

# Each byte of each seed, as one test of so many seeds: a test a seed would only add overhead.
GROUPS = 16
# `fuzz` tries such bytes without an end, and `make soak` the other groups.
SOAK_GROUPS = (pytest.param(group, marks=pytest.mark.soak) for group in range(5, GROUPS))
GROUP = pytest.mark.parametrize("group", [*range(5), *SOAK_GROUPS])


@GROUP
def test_messages_cut_off_at_every_offset(group: int) -> None:
    for octets in some(MESSAGES)[group::GROUPS]:
        whole = outcome(scan, octets)
        ends = {0, *(part.end for part in whole)} if isinstance(whole, Scan) else None
        for cut in places(octets):
            part = octets[:cut]
            outcomes = read_all(part, (*(read for read in FAST if read is not lenient), validate))
            if ends is not None and cut not in ends:
                assert {DecodeError} == set(map(type, outcomes[:-1]))
            kept = outcome(lenient, part)
            if isinstance(kept, Message):
                assert part == kept.encode()
                sections = kept.sections()
                assert not cut or cut in (ends or ()) or isinstance(sections[-1][1], Malformed)


@GROUP
def test_every_octet_of_messages_replaced(group: int) -> None:
    for octets in some(MESSAGES)[group::GROUPS]:
        for octet in OCTETS:
            for spoilt in with_each_replaced(octets, octet):
                read_all(spoilt, FAST)


def test_values_cut_off_at_every_offset() -> None:
    for octets in VALUES:
        whole = outcome(skip_value, octets)
        for cut in places(octets):
            value, _ = read_all(octets[:cut], (decode_value, skip_value))
            # Nothing that is cut off inside is a value.
            if isinstance(whole, int) and cut < whole:
                assert isinstance(value, DecodeError)


@pytest.mark.parametrize("step", [4, pytest.param(1, marks=pytest.mark.soak)])
def test_every_octet_of_values_replaced(step: int) -> None:
    for octets in some(VALUES)[::step]:
        for octet in OCTETS:
            for spoilt in with_each_replaced(octets, octet):
                read_all(spoilt, (decode_value, skip_value))


def places(octets: bytes) -> list[int]:
    """Every offset; of two seeds of 2,300 bytes, the same again and again, fewer."""
    size = len(octets)
    return [at for at in range(size) if size < 1_000 or at < 100 or at >= size - 50 or at % 29 == 0]


OCTETS = (0x00, 0x7F, 0x80, 0xFF)


def with_each_replaced(octets: bytes, octet: int) -> Iterator[bytes]:
    for at in places(octets):
        if octet != octets[at]:
            yield octets[:at] + bytes([octet]) + octets[at + 1 :]


FORGED = (0, 1, 2, 127, 128, 255, 256, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF)


@pytest.mark.parametrize("octets", HAND, ids=range(len(HAND)))
def test_sizes_and_counts_forged(octets: bytes) -> None:
    for source in (octets, spelled_widely(octets)):
        for at in range(len(source)):
            row = FORMAT_CODES.get(source[at])
            if row is None or row.category == "fixed":
                continue  # a size follows nothing else (and what only looks like it does no harm)
            for field in range(2 if row.category != "variable" else 1):
                begin = at + 1 + field * row.width
                for forged in FORGED:
                    number = min(forged, 256**row.width - 1).to_bytes(row.width, "big")
                    read_all(source[:begin] + number + source[begin + row.width :], FAST)


@settings(max_examples=25)
@given(messages().flatmap(encodings), messages().flatmap(encodings), st.data())
def test_sections_of_two_messages_crossed(one: bytes, other: bytes, data: st.DataObject) -> None:
    cut, begin = (data.draw(st.integers(0, len(octets))) for octets in (one, other))

    read_all(one[:cut] + other[begin:])


@pytest.mark.parametrize("wrap", WRAPS)
@pytest.mark.parametrize("limit", [1, 2, 5, 40])
def test_nesting_to_the_limit_and_one_beyond(wrap: Wrap, limit: int) -> None:
    innermost = INNERMOST.get(wrap, b"\x40")
    limits = Limits(depth=limit)

    within = decode_value(nested([wrap], limit, innermost), limits=limits)
    assert identical(within, decode_value(encode_value(within), limits=limits))
    with pytest.raises(DecodeError) as caught:
        decode_value(nested([wrap], limit + 1, innermost), limits=limits)
    assert caught.value.rule == "depth-limit"
    assert caught.value.condition == "amqp:resource-limit-exceeded"


@pytest.mark.parametrize("wrap", WRAPS)
@pytest.mark.parametrize("depth", [100, 255, 256, 257, 300, 1000, 10_000])
def test_deep_nesting(wrap: Wrap, depth: int) -> None:
    octets = nested([wrap], depth, INNERMOST.get(wrap, b"\x40"))
    for given_ in (octets, b"\x00\x53\x77" + octets):
        for read in READS:
            found = outcome(read, given_)
            if depth > 256 and read in (decode_value, Message.decode, lenient):
                assert isinstance(found, DecodeError)
            bound = KEYS_UNITS if wrap is key_of_map else UNITS
            assert_quick(read, given_, bound * (1 + len(given_) / 20_000))


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("wrap", WRAPS)
@pytest.mark.parametrize("depth", [254, 255, 256])
def test_decoded_nesting_encodes_to_the_same_bytes(wrap: Wrap, depth: int, strict: bool) -> None:
    octets = b"\x00\x53\x77" + nested([wrap], depth, INNERMOST.get(wrap, b"\x40"))
    message = Message.decode(octets, strict=strict)
    assert octets == message.encode()
    assert message.evolve(header=Header()).encode().endswith(octets)


@settings(max_examples=25)
@given(st.lists(st.sampled_from(WRAPS[:5]), min_size=1, max_size=5), st.integers(1, 300))
def test_mixed_nesting(wraps: list[Wrap], depth: int) -> None:
    octets = b"\x00\x53\x77" + nested(wraps, depth)
    for read in READS:
        assert_quick(read, octets, KEYS_UNITS if key_of_map in wraps else UNITS)


@pytest.mark.parametrize("kibibytes", [128, 256, 512])
def test_small_stacks(kibibytes: int) -> None:
    """A thread with a small stack reads the deepest value; 128 KiB is what musl gives one."""
    if not amqp10msg.COMPILED and kibibytes < 256:
        pytest.skip("the interpreter itself needs more for its frames")
    values = [nested([wrap], 256, INNERMOST.get(wrap, b"\x40")) for wrap in WRAPS]
    values.append(nested(WRAPS[:5], 256))
    results: list[Any] = []

    def run() -> None:
        for octets in values:
            for read in (decode_value, lambda one: Message.decode(b"\x00\x53\x77" + one).encode()):
                try:
                    results.append(read(octets))
                except amqp10msg.AmqpError as error:
                    results.append(error)

    old = threading.stack_size(kibibytes * 1024)
    try:
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(old)
    assert len(results) == 2 * len(values)


def test_deep_in_the_interpreters_own_stack() -> None:
    """Wherever it is called from: a value or a DecodeError, while there is room for the call."""
    octets = nested([list_of, describing], 200)
    message = b"\x00\x53\x77" + octets
    results: list[Any] = []

    def dive(levels: int) -> None:
        if levels:
            dive(levels - 1)
            return
        for read in READS[:6]:
            found = outcome(read, octets if read is decode_value else message)
            results.append(type(found))

    base = len(_frames())
    limit = sys.getrecursionlimit()
    for room in (60, 100, 150, 200, 300, 500, 800):
        if limit - base - room > 0:
            dive(limit - base - room)
    assert results
    assert set(results) <= {DecodeError, list, int, Message, Scan, Described}


def _frames() -> list[Any]:
    found = []
    frame: Any = sys._getframe()
    while frame:
        found.append(frame)
        frame = frame.f_back
    return found


@pytest.mark.parametrize("seed", range(2))
def test_noise(seed: int) -> None:
    """Random bytes, and random choices among constructors, which go deeper."""
    draw = random.Random(seed)
    codes = bytes([0, *FORMAT_CODES])
    for _ in range(1_000):
        size = draw.randrange(60)
        read_all(draw.randbytes(size))
        chosen = bytes(
            draw.choice(codes) if draw.random() < 0.6 else draw.randrange(8) for _ in range(size)
        )
        read_all(chosen)
        read_all(b"\x00\x53" + bytes([draw.randrange(0x70, 0x79)]) + chosen)


@pytest.mark.skipif("AMQP10MSG_VECTORS" not in os.environ, reason="AMQP10MSG_VECTORS is not set")
def test_damaged_foreign_vectors() -> None:
    path = Path(os.environ["AMQP10MSG_VECTORS"]) / "cases.jsonl.gz"
    draw = random.Random(1)
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            octets = bytearray(bytes.fromhex(json.loads(line)["hex"]))
            if not 0 < len(octets) < 500:
                continue
            read_all(bytes(octets), FAST)
            for _ in range(3):
                octets[draw.randrange(len(octets))] = draw.choice((0, 1, 0x7F, 0x80, 0xFF))
                read_all(bytes(octets), FAST)
