"""Messages as Arrow columns: what the columns say, and that nothing is lost on the way back."""

from __future__ import annotations

import datetime
import math
import struct
import uuid
from typing import Any

import pytest
from hypothesis import given

from amqp10msg import (
    AmqpMap,
    AmqpSequence,
    Array,
    Data,
    DecodeError,
    Float,
    Header,
    Int,
    Limits,
    Message,
    Properties,
    ULong,
    validate,
)
from amqp10msg.composite import rows
from amqp10msg.testing import malformed
from bench.messages import REFERENCE
from tests.columns.column_rows import BAD, ERRORS, VALUES, decode, only, said

pa = pytest.importorskip("pyarrow", reason='needs pyarrow: pip install "amqp10msg[arrow]"')
columns = pytest.importorskip("amqp10msg.columns")
_decode = pytest.importorskip("amqp10msg.columns._decode")
fuzzing = pytest.importorskip("fuzz.columns")
FIXED_NAMES = """
    durable priority ttl first_acquirer delivery_count message_id user_id to subject reply_to
    correlation_id content_type content_encoding absolute_expiry_time creation_time group_id
    group_sequence reply_to_group_id delivery_annotations message_annotations application_properties
    footer body_kind body error_code error_clause error_offset
"""


# The schema.


@pytest.mark.once
def test_schema_has_the_fixed_columns_and_each_declared_field() -> None:
    names = columns.SCHEMA.names

    assert set() == set(FIXED_NAMES.split()) - set(names)
    assert len(set(names)) == len(names)
    assert {f.name for cls in (Header, Properties) for f in rows(cls)} < set(names)
    assert "wire" not in names
    assert columns.SCHEMA.names[-3:] == list(ERRORS)


@pytest.mark.once
def test_the_schema_of_a_projection() -> None:
    asked = ["message_id", "application_properties.tenant", "wire"]

    assert asked == columns.schema_of(asked).names
    assert columns.VALUE == columns.schema_of(asked).types[1]
    assert columns.SCHEMA == columns.schema_of()
    assert columns.decode([], asked).schema == columns.schema_of(asked)
    assert columns.decode([]).schema == columns.SCHEMA


@pytest.mark.once
@pytest.mark.parametrize("names", [["nothing"], ["to", "to"], ["to", "properties.to"], ["to."]])
def test_unknown_or_duplicate_columns_are_refused(names: list[str]) -> None:
    with pytest.raises(ValueError, match=r"unknown column|duplicate columns"):
        columns.decode([], names)


# What the columns say.


def test_every_field_of_a_message() -> None:
    message = Message(
        Data(b"body"),
        header=Header(durable=True, priority=255, ttl=2**32 - 1, delivery_count=3),
        properties=Properties(
            message_id=2**64 - 1,
            user_id=b"\x00\xff",
            to="töpic",
            correlation_id=uuid.UUID(int=1),
            content_type="text/plain",
            absolute_expiry_time=253_402_300_800_000,
            creation_time=-1,
            group_sequence=2**32 - 1,
        ),
    )

    assert {
        "durable": True,
        "priority": 255,
        "ttl": 2**32 - 1,
        "first_acquirer": False,
        "delivery_count": 3,
        "has_properties": True,
        "message_id": "18446744073709551615",
        "message_id_type": "ulong",
        "user_id": b"\x00\xff",
        "to": "töpic",
        "correlation_id": "00000000-0000-0000-0000-000000000001",
        "correlation_id_type": "uuid",
        "content_type": "text/plain",
        "absolute_expiry_time_ms": 253_402_300_800_000,
        "creation_time": datetime.datetime(1969, 12, 31, 23, 59, 59, 999_000, datetime.UTC),
        "group_sequence": 2**32 - 1,
        "body_kind": "data",
        "body_sections": 1,
        "body": b"body",
    } == said(only(message.encode()))


@pytest.mark.parametrize(
    "moment, in_range",
    [
        (0, True),
        (-62_135_596_800_000, True),
        (-62_135_596_800_001, False),
        (253_402_300_799_999, True),
        (253_402_300_800_000, False),
        (2**63 - 1, False),
        (-(2**63), False),
    ],
)
def test_timestamps_in_and_out_of_the_range_of_datetime(moment: int, in_range: bool) -> None:
    octets = Message(b"", properties=Properties(creation_time=moment)).encode()
    row = only(octets)

    assert (row["creation_time"] is not None) is in_range
    assert row["creation_time_ms"] == (None if in_range else moment)
    assert [octets] == columns.encode(columns.decode([octets])).to_pylist()


@pytest.mark.parametrize("value, name, member", VALUES)
@pytest.mark.parametrize("section", ["application_properties", "message_annotations", "footer"])
def test_a_value_of_every_type(section: str, value: Any, name: str, member: Any) -> None:
    sections: Any = {section: {"k": value}}
    octets = Message(b"", **sections).encode()
    ((key, cell),) = only(octets)[section]
    (picked,) = only(octets, [f"{section}.k"]).values()

    assert "k" == key
    assert {"type": name, **member} == {k: v for k, v in cell.items() if v is not None}
    assert cell == picked
    assert [octets] == columns.encode(columns.decode([octets])).to_pylist()


@pytest.mark.parametrize(
    "value, text",
    [
        ([1, "a"], '["list",[["long",1],["string","a"]]]'),
        (Array("int", [Int(1)]), '["array","54",[["int",1]]]'),
        (AmqpMap([(1, 2)]), '["map",[[["long",1],["long",2]]]]'),
    ],
)
def test_compounds_in_annotations_are_typed_json(value: Any, text: str) -> None:
    octets = Message(b"", message_annotations={"x-opt-k": value}).encode()
    ((_, cell),) = only(octets)["message_annotations"]

    assert text == cell["s"]
    assert [octets] == columns.encode(columns.decode([octets])).to_pylist()


@pytest.mark.parametrize("bits", [0x7FF8000000000000, 0x7FF0000000000001, 0xFFF8000000000123])
def test_double_nan_keeps_its_bits(bits: int) -> None:
    octets = Message(b"", footer={"k": struct.unpack(">d", bits.to_bytes(8))[0]}).encode()

    assert bits.to_bytes(8) in octets
    assert [octets] == columns.encode(columns.decode([octets])).to_pylist()


@pytest.mark.parametrize("bits", [0x7FC00000, 0x7F800001, 0xFFC00123])
def test_float_nan_keeps_its_bits(bits: int) -> None:
    octets = Message(b"", footer={"k": Float.from_bits(bits)}).encode()
    ((_, cell),) = only(octets)["footer"]

    assert bits.to_bytes(4) == cell["b"]
    assert math.isnan(cell["d"])
    assert [octets] == columns.encode(columns.decode([octets])).to_pylist()


def test_ulong_keys_and_symbols_of_the_same_text() -> None:
    annotations = {ULong(5): "ulong", "5": "symbol", "#5": "hash", ULong(6): None}
    octets = Message(b"", message_annotations=annotations).encode()
    listed = only(octets)["message_annotations"]

    assert ["##5", "5", "#5", "6"] == [key for key, _ in listed]
    assert ["ulong", None, None, "ulong"] == [cell["key_type"] for _, cell in listed]
    assert [octets] == columns.encode(columns.decode([octets])).to_pylist()


@pytest.mark.parametrize(
    "body, kind, count, text",
    [
        ("täxt", "amqp-value", 1, '["string","täxt"]'),
        (AmqpSequence([1]), "amqp-sequence", 1, '[[["long",1]]]'),
        ([AmqpSequence([]), AmqpSequence([True])], "amqp-sequence", 2, '[[],[["boolean",true]]]'),
    ],
)
def test_bodies_other_than_data(body: Any, kind: str, count: int, text: str) -> None:
    octets = Message(body).encode()

    assert {"body_kind": kind, "body_sections": count, "body_json": text} == said(only(octets))
    assert [octets] == columns.encode(columns.decode([octets])).to_pylist()


def test_data_sections_are_joined_and_their_lengths_kept() -> None:
    octets = Message([Data(b"one"), Data(b""), Data(b"two")]).encode()

    row = {"body_kind": "data", "body_sections": 3, "body": b"onetwo", "body_lengths": [3, 0, 3]}
    assert row == said(only(octets))
    batch = columns.decode([octets])
    assert [octets] == columns.encode(batch).to_pylist()
    assert [Message(b"onetwo").encode()] == columns.encode(
        batch.drop_columns(["body_lengths", "body_sections"])
    ).to_pylist()


def test_a_properties_section_without_a_field() -> None:
    octets = Message(properties=Properties()).encode()

    assert {"has_properties": True} == said(only(octets))
    assert {"has_properties": True} == only(octets, ["has_properties"])
    assert [octets] == columns.encode(columns.decode([octets])).to_pylist()


def test_the_deepest_value_that_decodes() -> None:
    deep: Any = []
    for level in range(255):
        deep = [deep] if level % 3 else {"k": deep}
    octets = Message(deep).encode()

    assert [octets] == columns.encode(columns.decode([octets])).to_pylist()


def test_no_number_of_section_offsets_is_null() -> None:
    part = columns.SCHEMA.field("section_offsets").type.value_field

    assert [False] * 5 == [field.nullable for field in (part, *part.type)]


def test_section_offsets_are_those_of_the_message() -> None:
    offsets = only(REFERENCE)["section_offsets"]

    assert [0x70, 0x72, 0x73, 0x74, 0x75] == [part["code"] for part in offsets]
    assert [part["offset"] for part in offsets[1:]] == [part["end"] for part in offsets[:-1]]
    assert REFERENCE[offsets[-1]["content"] :] == b"\xb0\0\0\x01\0" + bytes(range(256))


# What cannot be decoded.


@given(malformed())
def test_bad_message_becomes_row_with_reason(octets: bytes) -> None:
    with pytest.raises(DecodeError) as caught:
        Message.decode(octets)
    row = only(octets, [*columns.SCHEMA.names, "wire"])

    assert {*ERRORS, "wire"} == set(said(row))
    assert (caught.value.rule, caught.value.offset, octets) == (
        row["error_code"],
        row["error_offset"],
        row["wire"],
    )
    assert row["error_clause"].startswith("Part ")


def test_one_bad_message_in_a_thousand() -> None:
    octets = [REFERENCE] * 700 + [BAD] + [REFERENCE] * 299
    batch = columns.decode(octets, [*columns.SCHEMA.names, "wire"])
    found = batch.to_pylist()
    good = only(REFERENCE, [*columns.SCHEMA.names, "wire"])

    assert [good] * 700 == found[:700]
    assert [good] * 299 == found[701:]
    assert {
        "error_code": "truncated",
        "error_clause": "Part 1, 1.2",
        "error_offset": 244,
        "wire": BAD,
    } == said(found[700])
    assert octets == columns.encode(batch).to_pylist()


def test_nulls_are_rows_of_nulls() -> None:
    names = [*columns.SCHEMA.names, "wire", "footer.k"]

    assert [{}, {}] == [said(row) for row in decode([None, None], names)]


def test_an_empty_message_has_no_sections() -> None:
    row = only(b"")

    assert {} == said(row)
    assert [] == row["section_offsets"]
    assert [b"", None] == columns.encode(columns.decode([b"", None])).to_pylist()


def test_limits_hold_for_each_message() -> None:
    octets = Message(b"", application_properties={"a": 1, "b": 2}).encode()
    assert "items-limit" == only(octets, limits=Limits(items=3))["error_code"]
    assert None is only(octets, limits=Limits(items=4))["error_code"]
    assert [None, None] == columns.decode([octets] * 2, limits=Limits(items=4))[
        "error_code"
    ].to_pylist()
    assert "size-limit" == only(octets, limits=Limits(size=len(octets) - 1))["error_code"]


def test_validation_names_the_first_error_and_keeps_the_values() -> None:
    bad = Message("x", properties=Properties(to="q", content_encoding="identity")).encode()
    first = next(v for v in validate(bad) if v.severity == "error")
    rows = decode([REFERENCE, bad, BAD], validate="oasis")

    assert [None, first.rule, "truncated"] == [row["error_code"] for row in rows]
    assert (first.clause, first.offset) == (rows[1]["error_clause"], rows[1]["error_offset"])
    assert "q" == rows[1]["to"]
    assert bad == columns.encode(columns.decode([bad], validate="oasis"))[0].as_py()
    with pytest.raises(ValueError, match="unknown profile"):
        columns.decode([], validate="nothing")


# What goes in.


ARRAYS = [
    pa.binary(),
    pa.large_binary(),
    pa.binary_view(),
]


@pytest.mark.parametrize("kind", ARRAYS, ids=str)
def test_every_binary_type_sliced_and_chunked(kind: Any) -> None:
    octets = [BAD, REFERENCE, None, b"", REFERENCE, Message("x" * 5).encode(), None]
    expected = columns.decode(octets, [*columns.SCHEMA.names, "wire"])
    array = pa.array(octets, kind)
    chunked = pa.chunked_array([array[:3], array[3:3], array[3:]])

    for given_ in (array, chunked):
        assert expected.equals(columns.decode(given_, expected.schema.names))
    for start in range(len(octets)):
        for stop in range(start, len(octets)):
            some = columns.decode(array[start:stop], expected.schema.names)
            assert expected.slice(start, stop - start).equals(some)


@pytest.mark.once
def test_other_array_types() -> None:
    two = pa.array([b"\0\x53\x75\xa0\0"] * 2, pa.binary(5))

    assert [b"", b""] == columns.decode(two)["body"].to_pylist()
    assert [None] == columns.decode(pa.nulls(1))["body"].to_pylist()
    assert 0 == columns.decode(pa.chunked_array([], pa.binary())).num_rows
    for wrong in (pa.array([1]), [1], ["text"], pa.array(["text"]), 5):
        with pytest.raises(TypeError, match="expected encoded messages as binary"):
            columns.decode(wrong)


def test_message_formats_are_an_argument() -> None:
    octets = [REFERENCE, REFERENCE]

    assert [None, None] == columns.decode(octets)["message_format"].to_pylist()
    for formats in (5, [5, None], pa.array([5, None], pa.uint32()), pa.chunked_array([[5], [6]])):
        found = columns.decode(octets, message_format=formats)["message_format"].to_pylist()
        assert ([5, 5] if formats == 5 else pa.array(formats).to_pylist()) == found
    with pytest.raises(ValueError, match="one item per message, 2, got 1"):
        columns.decode(octets, message_format=[5])


@pytest.mark.parametrize(
    "message, advice",
    [
        (Message(b"x").encode(), r"bytes: pass \[message\]"),
        (b"", r"bytes: pass \[message\]"),
        (bytearray(Message(b"x").encode()), r"bytearray: pass \[message\]"),
        (memoryview(Message(b"x").encode()), r"memoryview: pass \[message\]"),
        (Message(b"x"), r"Message: pass \[message\.encode\(\)\]"),
    ],
)
def test_one_message_instead_of_several_is_refused(message: Any, advice: str) -> None:
    with pytest.raises(TypeError, match=f"several encoded messages, got one, of type {advice}"):
        columns.decode(message)
