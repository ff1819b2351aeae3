"""The kernel of `columns.decode` against the plain implementation: equal, whatever the octets are.

Every cell is compared, floating-point numbers by their bits. What is compared: the corpus, the
recordings, the cases of other projects where AMQP10MSG_VECTORS names their folder, drawn messages
in every spelling, and spoilt octets.
"""

from __future__ import annotations

import gc
import gzip
import json
import os
import random
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg import (
    Data,
    Float,
    Header,
    Limits,
    Message,
    Properties,
    Symbol,
    UInt,
    ULong,
    corpus,
)
from amqp10msg.testing import encodings, malformed, messages, mutated
from bench.messages import REFERENCE
from tests.hostile import MESSAGES

pa = pytest.importorskip("pyarrow", reason='needs pyarrow: pip install "amqp10msg[arrow]"')
columns = pytest.importorskip("amqp10msg.columns")
_decode = pytest.importorskip("amqp10msg.columns._decode")

fuzzing = pytest.importorskip("fuzz.columns")
ALL, PROJECTIONS, plainly, same = (
    fuzzing.ALL,
    fuzzing.PROJECTIONS,
    fuzzing.plainly,
    fuzzing.same,
)

if _decode.scanned is None:
    pytest.skip(
        "the kernel of columns is not compiled: it needs a C compiler and make setup",
        allow_module_level=True,
    )

SPOILABLE = [octets for octets in MESSAGES if octets]


def assert_same(
    octets: Iterable[bytes | None],
    names: Sequence[str] = ALL,
    limits: Limits | None = None,
    kind: Any = None,
) -> None:
    array = pa.array(list(octets), kind or pa.binary())
    found = columns.decode(array, names, limits=limits)
    expected = plainly(array, names, limits)

    found.validate(full=True)
    assert same(expected, found), [
        octet
        for octet in array.to_pylist()
        if not same(plainly([octet], names, limits), columns.decode([octet], names, limits=limits))
    ]


def recorded() -> list[bytes]:
    path = Path(__file__).parent / "vectors" / "recorded.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [bytes.fromhex(json.loads(line)["raw"]) for line in lines]


def foreign() -> list[bytes]:
    folder = os.environ.get("AMQP10MSG_VECTORS")
    if not folder:
        return []
    with gzip.open(Path(folder) / "cases.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [bytes.fromhex(json.loads(line)["hex"]) for line in lines]


def odd_rows(octets: Iterable[bytes]) -> int:
    """How many messages the kernel leaves to the plain implementation."""
    plan = _decode.plan_of(None)
    _, odd = _decode.scanned(pa.array(list(octets), pa.binary()), plan, Limits())
    return len(odd)


@pytest.mark.parametrize("names", [ALL, *PROJECTIONS], ids=str)
def test_the_corpus_the_recordings_and_other_cases(names: list[str]) -> None:
    octets: list[bytes | None] = [case.data for case in corpus.load()]
    octets += [*recorded(), *foreign(), *MESSAGES, REFERENCE, b"", None]

    assert len(octets) > 500
    assert_same(octets, names)
    assert_same(octets[::-1], names, kind=pa.large_binary())


def test_what_is_common_needs_no_help() -> None:
    common = Message(
        [Data(b"one"), Data(b"two")],
        header=Header(durable=True, ttl=5, delivery_count=7),
        properties=Properties(message_id=5, user_id=b"u", to="tö", creation_time=2**62),
        message_annotations={"x-opt-a": 1, "x-opt-b": Float(0.5)},
        application_properties={"a": None, "b": True, "c": ULong(7), "d": "text", "e": 0.5},
        footer={"x-opt-crc": UInt(1)},
    ).encode()
    plain_annotation = Message(b"", message_annotations={ULong(1): Symbol("x")}).encode()

    assert 0 == odd_rows([REFERENCE, common, b""])
    assert 2 == odd_rows([REFERENCE[:-1], plain_annotation, common])


@given(st.lists(messages().flatmap(encodings), max_size=4))
def test_drawn_messages_in_every_spelling(octets: list[bytes]) -> None:
    assert_same(octets)


@given(st.lists(malformed() | messages().map(Message.encode).flatmap(mutated), max_size=4))
def test_bad_and_spoilt_messages(octets: list[bytes]) -> None:
    assert_same(octets)


@given(st.sampled_from(PROJECTIONS), st.lists(messages().flatmap(encodings), max_size=3))
def test_projections_of_drawn_messages(names: list[str], octets: list[bytes]) -> None:
    assert_same(octets, names)


@pytest.mark.parametrize("names", [ALL, PROJECTIONS[0], PROJECTIONS[1]], ids=str)
def test_a_message_cut_off_at_every_offset(names: list[str]) -> None:
    for message in (REFERENCE, MESSAGES[-1]):
        assert_same([message[:cut] for cut in range(len(message))], names)


def test_every_octet_of_a_message_replaced() -> None:
    for value in (0x00, 0x01, 0x40, 0x56, 0x71, 0x80, 0xA1, 0xB0, 0xC1, 0xD1, 0xED, 0xFF):
        assert_same(
            REFERENCE[:place] + bytes([value]) + REFERENCE[place + 1 :] for place in range(240)
        )


@pytest.mark.parametrize(
    "text",
    [
        *(b"\x7f", b"\xc2\x80", b"\xc1\x80", b"\xe0\xa0\x80", b"\xe0\x9f\x80", b"\xed\x9f\xbf"),
        *(b"\xed\xa0\x80", b"\xef\xbf\xbf", b"\xf0\x90\x80\x80", b"\xf0\x8f\x80\x80", b"\xc2"),
        *(b"\xf4\x8f\xbf\xbf", b"\xf4\x90\x80\x80", b"\xf5\x80\x80\x80", b"\xe1\x80", b"\x80"),
        *(b"\xf1\x80\x80", b"\xc2\x41", b"\xe1\x80\x41", b"\xf1\x80\x80\x41", b"\xff"),
    ],
)
def test_utf8_wherever_it_stands(text: bytes) -> None:
    octets = []
    for before in range(18):
        for after in (0, 1, 7, 8, 9):
            string = b"a" * before + text + b"b" * after
            value = b"\xa1" + bytes([len(string)]) + string
            content = b"\x02\xa1\x01k" + value
            octets.append(b"\0\x53\x74\xc1" + bytes([len(content)]) + content)
            symbol = b"\x02\xa3\x01k\xa3" + value[1:]
            octets.append(b"\0\x53\x78\xc1" + bytes([len(symbol)]) + symbol)

    assert_same(octets)
    valid = True
    try:
        text.decode()
    except UnicodeDecodeError:
        valid = False
    assert [valid] * 90 == [
        code is None for code in columns.decode(octets[::2])["error_code"].to_pylist()
    ]


def test_limits_and_batches_that_grow() -> None:
    small = Message(b"", application_properties={"a": 1}).encode()
    large = Message(
        [Data(b"x" * 5000)] * 3,
        application_properties={f"key-{i}": f"value-{i}" * 20 for i in range(40)},
        footer={"k2": "v" * 300, "k": b"v" * 300},
    ).encode()
    many = [small] * 100 + [large, None] * 200 + [small, b"\0"] * 50

    for limits in (None, Limits(items=50), Limits(size=100), Limits(depth=1)):
        assert_same(many, ALL, limits)
        assert_same(many, PROJECTIONS[3], limits)


def test_entries_and_sections_beyond_what_the_kernel_holds() -> None:
    octets = [
        Message([Data(b"x")] * count, application_properties={f"{i}": i for i in range(count)})
        for count in (1, 63, 64, 65, 127, 128, 129, 300)
    ]

    assert_same(message.encode() for message in octets)


def test_memory_is_given_back_and_never_shared() -> None:
    first = columns.decode([REFERENCE] * 2000)
    expected = plainly([REFERENCE] * 2000, columns.SCHEMA.names)
    kept = [first["message_id"], first["application_properties"]]
    for _ in range(5):
        columns.decode([Message("other").encode()] * 2000)
        columns.decode([b"\xff" * 500] * 20)
        gc.collect()

    assert expected.equals(first)
    del first
    gc.collect()
    columns.decode([Message(b"other" * 100).encode()] * 2000)
    assert kept[0].equals(expected["message_id"])
    assert kept[1].equals(expected["application_properties"])


def test_offsets_that_point_outside() -> None:
    scan = pytest.importorskip("amqp10msg.columns._scan")
    data = pa.py_buffer(REFERENCE)
    for size in (4, 8):
        for offsets in ([0, 501], [-1, 5], [400, 300], [0, 2**31 - 1], [0, 500]):
            ends = pa.py_buffer(
                b"".join(o.to_bytes(size, sys.byteorder, signed=True) for o in offsets)
            )
            scanner = scan.Scanner([False] * 9, [], [], [], [-1] * 4, False, [4], {}, (), 5, 500)
            arguments = (data.address, data.size, ends.address, ends.size, size, 0, 0, 0, 1)
            if offsets == [0, 500]:
                assert [] == scanner.scan(*arguments)
            else:
                with pytest.raises(ValueError, match="point outside"):
                    scanner.scan(*arguments)


def test_a_scanner_is_set_up_and_used_once() -> None:
    scan = pytest.importorskip("amqp10msg.columns._scan")
    arguments: list[Any] = [[False] * 9, [], [], [], [-1] * 4, False, [4], {}, (), 5, 5]
    scanner = scan.Scanner(*arguments)
    with pytest.raises(TypeError):
        scanner.__init__(*arguments)

    assert [] == scanner.scan(0, 0, 0, 0, 4, 0, 0, 0, 0)
    with pytest.raises(IndexError):
        scanner.column(1)
    with pytest.raises(IndexError):
        scanner.map_column(0)
    with pytest.raises(IndexError):
        scanner.pick_column(0)
    with pytest.raises(ValueError, match="shorter"):
        scan.Scanner(*arguments).scan(0, 0, 0, 0, 4, 0, 0, 0, 1)


def test_random_faults_in_whole_batches() -> None:
    """A short run of what `fuzz` does for long."""
    chance = random.Random(1)
    for _ in range(20):
        octets = []
        for _ in range(100):
            spoilt = bytearray(chance.choice(SPOILABLE))
            for _ in range(chance.randrange(3)):
                spoilt[chance.randrange(len(spoilt))] = chance.randrange(256)
            octets.append(bytes(spoilt))
        assert_same(octets, chance.choice((ALL, *PROJECTIONS)))
