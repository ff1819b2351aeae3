"""The kernel of `columns.decode` against the plain implementation: equal, whatever the bytes are.

Every cell is compared, floating-point numbers by their bits. What is compared: the corpus, the
recordings, the cases of other projects where AMQP10MSG_VECTORS names their folder, drawn messages
in every spelling, and spoilt bytes.
"""

from __future__ import annotations

import gzip
import json
import math
import os
import random
import uuid
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from amqp10msg import (
    AmqpSequence,
    AmqpValue,
    Array,
    Char,
    Data,
    Decimal32,
    Decimal64,
    Decimal128,
    Float,
    Header,
    Limits,
    Message,
    Properties,
    Symbol,
    UInt,
    ULong,
)
from amqp10msg.notation import to_typed
from amqp10msg.testing import encodings, malformed, messages, mutated
from bench.messages import REFERENCE
from tests.hostile import MESSAGES
from tests.samples import corpus_cases, recorded_octets

pa = pytest.importorskip("pyarrow", reason='needs pyarrow: pip install "amqp10msg[arrow]"')
pc = pytest.importorskip("pyarrow.compute")
columns = pytest.importorskip("amqp10msg.columns")
_decode = pytest.importorskip("amqp10msg.columns._decode")
fuzzing = pytest.importorskip("fuzz.columns")
ALL, PROJECTIONS, plainly, same = (
    fuzzing.ALL,
    fuzzing.PROJECTIONS,
    fuzzing.plainly,
    fuzzing.same,
)

if _decode.scan_kernel is None:
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
    found = fuzzing.decoded(array, names, limits)
    expected = plainly(array, names, limits)

    found.validate(full=True)
    assert same(expected, found), [
        octet
        for octet in array.to_pylist()
        if not same(plainly([octet], names, limits), fuzzing.decoded([octet], names, limits))
    ]


def foreign() -> list[bytes]:
    folder = os.environ.get("AMQP10MSG_VECTORS")
    if not folder:
        return []
    with gzip.open(Path(folder) / "cases.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [bytes.fromhex(json.loads(line)["hex"]) for line in lines]


def odd_rows(octets: Iterable[bytes], names: Sequence[str] | None = None) -> int:
    """How many messages the kernel leaves to the plain implementation."""
    plan = _decode.plan_of(names)
    _, odd = _decode.scan_kernel(pa.array(list(octets), pa.binary()), plan, Limits())
    return len(odd)


@pytest.mark.parametrize("names", [ALL, *PROJECTIONS], ids=str)
def test_the_corpus_the_recordings_and_other_cases(names: list[str]) -> None:
    octets: list[bytes | None] = [case.data for case in corpus_cases()]
    octets += [*recorded_octets(), *foreign(), *MESSAGES, REFERENCE, b"", None]
    octets = [*dict.fromkeys(octets)]

    assert len(octets) > 500
    assert_same(octets, names)
    assert_same(octets[::-1], names, kind=pa.large_binary())


def test_common_messages_stay_in_the_kernel() -> None:
    common = Message(
        [Data(b"one"), Data(b"two")],
        header=Header(durable=True, ttl=5, delivery_count=7),
        properties=Properties(message_id=5, user_id=b"u", to="tö", creation_time=2**62),
        message_annotations={"x-opt-a": 1, "x-opt-b": Float(0.5)},
        application_properties={"a": None, "b": True, "c": ULong(7), "d": "text", "e": 0.5},
        footer={"x-opt-crc": UInt(1)},
    ).encode()
    nested = Message(
        AmqpValue({"a": [1, None, {"b": 0.5}], Symbol("c"): Array("map", [{}, {"d": b"e"}])}),
        message_annotations={"x-opt-a": [], "x-opt-b": {"k": [True]}, "x-opt-c": Array("int", [5])},
        application_properties={"a": uuid.UUID(int=5), "b": Float(float("nan"))},
    ).encode()
    sequences = Message([AmqpSequence([1, "two"]), AmqpSequence([])]).encode()
    plain_annotation = Message(b"", message_annotations={ULong(1): Symbol("x")}).encode()

    assert 0 == odd_rows([REFERENCE, common, nested, sequences, b""])
    assert 2 == odd_rows([REFERENCE[:-1], plain_annotation, common])


def test_common_messages_stay_in_the_kernel_as_variant() -> None:
    values = {"a": None, "b": True, "c": ULong(7), "d": "text" * 30, "e": 0.5, "f": b"x" * 300}
    message = Message(
        AmqpValue({"z": [1, None, {"b": 0.5}], "a": list(range(300)), Symbol("c"): {}}),
        message_annotations={"x-opt-a": [], "x-opt-b": {"k": [True]}, "x-opt-c": Float(0.5)},
        application_properties=values,
    ).encode()
    sequence = Message(AmqpSequence([1, "two"])).encode()

    plan = _decode.plan_of("lean", "variant")
    _, odd = _decode.scan_kernel(pa.array([REFERENCE, message, sequence, b""]), plan, Limits())

    assert [] == odd
    assert_same([REFERENCE, message, sequence, b""], PROJECTIONS[-4])


@pytest.mark.parametrize(
    "array",
    [
        "e0 02 00 53",  # no uint
        "e0 03 01 71 00 00 00 05",
        "f0 00000005 00010000 40",  # 65,536 nulls
        "f0 00000005 0000ffff 45",  # as many empty lists
        "e0 02 05 41",
        "e0 04 02 56 00 01",
        "e0 04 02 56 00 02",  # no boolean
        "e0 08 02 a1 01 61 02 6262",
        "e0 0a 02 c0 03 01 50 01 01 00",  # two lists
        "e0 0a 02 e0 03 01 50 01 02 00 41",
        "e0 0a 01 c1 07 02 a1 01 61 a1 00",
        "e0 05 02 00 53 01 40",  # of described values
        "e0 01 00",  # no constructor
        "e0 04 01 50 01 01",  # a byte too many
        "f0 00000005 ffffffff 40",
        "f0 00000006 000f0000 50 01",  # fewer bytes than values
    ],
)
def test_arrays_as_variants(array: str) -> None:
    octets = bytes.fromhex(array)
    value = b"\x00\x53\x77" + octets
    listed = b"\x00\x53\x77\xd0" + (len(octets) + 5).to_bytes(4) + b"\0\0\0\2" + octets + b"\x40"
    sequence = b"\x00\x53\x76" + octets
    entry = b"\xa3\x03x-a" + octets
    annotated = b"\x00\x53\x72\xd1" + (len(entry) + 4).to_bytes(4) + b"\0\0\0\2" + entry

    for wire in (value, listed, sequence, annotated + b"\x00\x53\x75\xa0\x00"):
        assert_same([wire], PROJECTIONS[-4])
        assert_same([wire, value, REFERENCE], PROJECTIONS[-4])


def test_values_without_content_count_towards_variant_limit() -> None:
    nulls = bytes.fromhex("005377f0000000050001000040")
    limits = Limits(zero_width_per_byte=5_042)

    with pytest.raises(columns.TooMuchError):
        columns.decode([nulls] * 300, ["body_value"], maps="variant", limits=limits)
    found = columns.decode([nulls] * 200, ["body_value"], maps="variant", limits=limits)
    # A null in a byte, and three for where it begins.
    assert {4 * 65_536 + 8} == set(pc.binary_length(pc.struct_field(found[0], "value")).to_pylist())


@pytest.mark.parametrize("names", [("error_code",), ("footer.other", "error_code")])
def test_values_that_are_only_checked_do_not_count_towards_text_limit(names: list[str]) -> None:
    nulls = bytes.fromhex("f0 00000005 00010000 40")
    body = b"\x00\x53\x77" + nulls
    footer = b"\x00\x53\x78\xc1\x0e\x02\xa3\x01k" + nulls
    limits = Limits(zero_width=200_000, zero_width_per_byte=10_000)

    found = columns.decode([body + footer] * 300, names, limits=limits)
    assert [None] * 300 == found["error_code"].to_pylist()
    with pytest.raises(columns.TooMuchError):
        columns.decode([body] * 300, ["body_json"], limits=limits)


def test_rare_values_use_the_fallback() -> None:
    decimal = Message(b"", application_properties={"a": Decimal32.from_decimal("1.5")}).encode()
    char = Message(b"", application_properties={"a": Char("ü")}).encode()
    nested = Message(AmqpValue([Char("ü")])).encode()

    assert 3 == odd_rows([REFERENCE, decimal, REFERENCE, char, nested])
    assert_same([REFERENCE, decimal, REFERENCE, char, nested])


@given(st.lists(messages().flatmap(encodings), max_size=4))
def test_drawn_messages_in_every_encoding(octets: list[bytes]) -> None:
    assert_same(octets)


@given(st.lists(malformed() | messages().map(Message.encode).flatmap(mutated), max_size=4))
def test_invalid_and_truncated_messages(octets: list[bytes]) -> None:
    assert_same(octets)


@given(st.lists(st.text() | st.text(st.sampled_from('"\\/\b\f\n\r\t\0\x1f\x7f aä€😀'))))
def test_bodies_of_text_are_escaped_as_json_does(texts: list[str]) -> None:
    octets = [Message(AmqpValue(text)).encode() for text in texts]

    assert 0 == odd_rows(octets)
    assert [["string", text] for text in texts] == [
        json.loads(found) for found in columns.decode(octets)["body_json"].to_pylist()
    ]
    assert_same(octets)


@pytest.mark.parametrize("offset", range(18))
def test_characters_are_escaped_as_json_does_at_every_offset(offset: int) -> None:
    characters = [*map(chr, range(0x100)), "€", "😀"]
    texts = ["x" * offset + character + "y" * (17 - offset) for character in characters]
    octets = [Message(AmqpValue(text)).encode() for text in texts]

    assert 0 == odd_rows(octets)
    expected = [to_typed(text) for text in texts]
    assert expected == list(map(json.loads, columns.decode(octets)["body_json"].to_pylist()))
    assert_same(octets)


@given(st.data(), st.sampled_from([Decimal32, Decimal64, Decimal128]))
def test_every_decimal_is_written_as_python_does(data: st.DataObject, cls: Any) -> None:
    bits = st.integers(0, 2 ** (8 * cls.width) - 1).map(cls)
    # Few digits and small exponents are rare among all bits.
    plain = st.decimals(-9999, 9999, places=3).map(cls.from_decimal)
    values = data.draw(st.lists(bits | plain, max_size=9))
    octets = [Message(b"", application_properties={"k": value}).encode() for value in values]

    assert len(octets) == odd_rows(octets)
    assert_same(octets)
    assert_same(octets, PROJECTIONS[0])


def zero_width(code: int, count: int) -> bytes:
    """Encode an array whose elements take no bytes."""
    return b"\xf0\x00\x00\x00\x05" + count.to_bytes(4) + bytes([code])


@given(
    st.lists(
        st.tuples(st.integers(0x40, 0x46), st.sampled_from([0, 1, 2, 3, 20, 40])),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from([0, 1, 19, 20, 41, 60, 1_000]),
    st.sampled_from([3, 4, 21, 45, 1_000]),
    st.sampled_from([1, 2, 3, 4, 5, 256]),
)
def test_arrays_of_values_without_content(
    drawn: list[tuple[int, int]], zero: int, items: int, depth: int
) -> None:
    arrays = [zero_width(*one) for one in drawn]
    content = b"".join(arrays)
    listed = b"\xd0" + (len(content) + 4).to_bytes(4) + len(arrays).to_bytes(4) + content
    keyed = b"".join(b"\xa3\x02k%d" % i + array for i, array in enumerate(arrays))
    mapped = b"\xd1" + (len(keyed) + 4).to_bytes(4) + (2 * len(arrays)).to_bytes(4) + keyed
    octets = [
        b"\x00\x53\x77" + arrays[0],
        b"\x00\x53\x77" + listed,
        b"\x00\x53\x76" + listed,
        b"\x00\x53\x76" + listed + b"\x00\x53\x76" + listed,
        b"\x00\x53\x72" + mapped + b"\x00\x53\x77\x40",
        b"\x00\x53\x77" + arrays[0][:-1],
        b"\x00\x53\x77" + arrays[0] + b"\x40",
    ]
    limits = Limits(zero_width=zero, items=items, depth=depth)

    for names in (ALL, *PROJECTIONS, ("message_annotations", "message_annotations.k0")):
        assert_same(octets, names, limits)


def test_values_without_content_stay_in_the_kernel() -> None:
    octets = [b"\x00\x53\x77" + zero_width(code, 300) for code in range(0x40, 0x46)]

    assert 0 == odd_rows(octets)
    assert_same(octets)


@pytest.mark.parametrize("depth", [1, 2, 3, 15, 16, 17, 18, 30])
def test_values_nested_deeper_than_the_kernel_limit(depth: int) -> None:
    value: Any = "end"
    for _ in range(depth):
        value = [value]
    octets = [
        Message(AmqpValue(value)).encode(),
        Message(b"", message_annotations={"x-opt-a": value}).encode(),
    ]

    assert (0 if depth <= 16 else 2) == odd_rows(octets)
    for limit in (1, 2, 3, depth, depth + 1, depth + 2, depth + 3, depth + 4):
        assert_same(octets, ALL, Limits(depth=limit))
        assert_same(octets, ALL, Limits(items=limit))


def test_the_values_of_a_body_and_of_a_footer_share_a_limit() -> None:
    octets = [Message(AmqpValue([1] * 20), footer={"x": [2] * 20}).encode()]

    for names in (("body_value", "footer"), ("body_value", "body_json", "footer"), ("footer",)):
        for limit in range(15, 50):
            assert_same(octets, names, Limits(items=limit))


def test_an_error_changes_its_own_row_only() -> None:
    octets = [REFERENCE, REFERENCE[:-1], b"", REFERENCE, b"\0", REFERENCE] * 50

    assert_same(octets)
    found = columns.decode(octets, ["error_code", "message_id", "error_offset", "wire"])
    assert ["msg-00417", None, None, "msg-00417", None, "msg-00417"] * 50 == found[
        "message_id"
    ].to_pylist()
    assert [None, "truncated", None, None, "truncated", None] * 50 == found[
        "error_code"
    ].to_pylist()
    assert octets == found["wire"].to_pylist()


# A NaN, which equals none, behind a row that is null: what stands below that is not compared.
NAN_BEHIND_A_NULL = [
    Message(Data(b"")).encode(),
    Message(None, application_properties={"tenant": math.nan}).encode(),
]


@given(st.sampled_from(PROJECTIONS), st.lists(messages().flatmap(encodings), max_size=3))
@example(["message_id", "application_properties.tenant"], NAN_BEHIND_A_NULL)
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
def test_utf8_in_every_column(text: bytes) -> None:
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


def test_limits_with_growing_batches() -> None:
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


def test_more_entries_and_sections_than_kernel_buffers() -> None:
    octets = [
        Message([Data(b"x")] * count, application_properties={f"{i}": i for i in range(count)})
        for count in (1, 63, 64, 65, 127, 128, 129, 300)
    ]

    assert_same(message.encode() for message in octets)


@pytest.mark.parametrize(
    "names",
    [("body_json",), ("error_code",), ("body_kind", "message_annotations.x-opt-b")],
    ids=str,
)
@pytest.mark.parametrize("count", [1, 63, 64, 65, 127, 128, 129, 300])
def test_nested_maps_with_more_entries_than_kernel_buffers(count: int, names: list[str]) -> None:
    value = {f"k{i}": {f"k{i}": i} for i in range(count)}
    octets = [Message(AmqpValue(value), message_annotations={"x-opt-a": value}).encode()]

    assert (0 if count <= 128 else 1) == odd_rows(octets, names)
    assert_same(octets, names)
    assert_same(octets, PROJECTIONS[-4])


def test_nested_entries_that_are_not_selected_stay_in_the_kernel() -> None:
    values = [[1, "two"], {"k": [True, None]}, Array("int", [5, 6]), Array("list", [[], [[]]])]
    annotations = {f"x-opt-{i}": value for i, value in enumerate(values)}
    octets = [Message(b"", message_annotations=annotations).encode()]
    names = ("message_annotations.x-opt-1", "error_code")

    assert 0 == odd_rows(octets, names)
    assert 1 == odd_rows([octets[0].replace(b"\xa1\x03two", b"\xa1\x03t\xffo")], names)
    assert_same(octets, names)


def a_map(pairs: Sequence[bytes], section: int = 0x74) -> bytes:
    """A map section, each pair given as its bytes."""
    content = b"".join(pairs)
    return (
        b"\0\x53" + bytes([section]) + b"\xc1" + bytes([len(content) + 1, 2 * len(pairs)]) + content
    )


#: Pairs whose keys are equal, or nearly so, or spelled in two ways.
PAIRS = (
    *(b"\xa1\x00\x43", b"\xa1\x00\xa1\x01x", b"\xb1\0\0\0\0\x41", b"\xa1\x01a\x54\x01"),
    *(b"\xb1\0\0\0\x01a\x54\x02", b"\xa1\x02ab\x40", b"\xa1\x02\xc3\xa4\x44", b"\xa1\x01b\x42"),
    *(b"\xa1\x10" + b"k" * 16 + b"\x50\x07", b"\xa1\x11" + b"k" * 17 + b"\xa1\x01v"),
    *(b"\xa1\x06tenant\xa1\x04acme", b"\xa1\x06tenanu\x56\x01", b"\xa1\x02\xc3\x28\x43"),
)


def test_empty_keys_are_keys() -> None:
    octets = [a_map([one, other]) for one in PAIRS[:3] for other in PAIRS[:3]]

    assert_same(octets)
    assert ["map-duplicate-key"] * 9 == columns.decode(octets)["error_code"].to_pylist()


@given(
    st.lists(
        st.tuples(
            st.lists(st.sampled_from(PAIRS), max_size=4).map(a_map),
            st.sampled_from([b"", b"", b"\0\x53\x75\xa0\x00", b"\0\x53\x75"]),
        ).map(b"".join),
        max_size=12,
    )
)
def test_maps_with_the_same_and_with_other_keys_than_before(octets: list[bytes]) -> None:
    """Whatever is known of the keys before, and whether their row was kept or taken back."""
    for kept in (octets, octets * 40):
        assert_same(kept)
        assert_same(kept, ["application_properties.tenant", "error_code"])
        assert_same(
            kept,
            ["application_properties.''", "application_properties", "application_properties.a"],
        )


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
