"""Columns of values into the messages of a template, row for row what `Template.encode` gives."""

from __future__ import annotations

import datetime
import uuid
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg import (
    AmqpSequence,
    AmqpValue,
    Byte,
    Data,
    EncodeError,
    Float,
    Header,
    Int,
    Message,
    Properties,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
)
from amqp10msg.columns import _encode, encode
from bench.messages import BODY, REFERENCE

PROTOTYPE = Message(
    b"",
    header=Header(durable=True),
    properties=Properties(subject="s", content_type="text/plain"),
    application_properties={"before": 1, "after": "x"},
)
TEXTS = st.text(max_size=12) | st.sampled_from(["ü" * 130, "x" * 255, "x" * 256, "x" * 70_000])
OCTETS = st.binary(max_size=12) | st.sampled_from([b"\xff" * 255, b"\xff" * 256, b"" * 70_000])
NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.sampled_from(
    [0, 1, -1, 127, 128, -128, -129, 255, 256, 2**15, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**32]
)
REALS = st.floats(width=32) | st.floats()
#: What varies, and the columns that it may come from.
FIELDS: list[tuple[Any, list[tuple[pa.DataType, st.SearchStrategy[Any]]]]] = [
    ("header.durable", [(pa.bool_(), st.booleans())]),
    ("header.priority", [(pa.int16(), st.integers(0, 255)), (pa.uint8(), st.integers(0, 255))]),
    ("header.ttl", [(pa.int64(), st.integers(0, 2**32 - 1))]),
    ("header.delivery_count", [(pa.uint32(), st.integers(0, 2**32 - 1))]),
    (
        "properties.message_id",
        [
            (pa.string(), TEXTS),
            (pa.binary(), OCTETS),
            (pa.uint64(), st.integers(0, 2**64 - 1)),
            (pa.int32(), st.integers(0, 2**31 - 1)),
        ],
    ),
    ("properties.to", [(pa.string(), TEXTS), (pa.large_string(), TEXTS)]),
    ("properties.user_id", [(pa.binary(), OCTETS), (pa.large_binary(), OCTETS)]),
    ("properties.content_type", [(pa.string(), st.text(st.characters(max_codepoint=127)))]),
    (
        "properties.creation_time",
        [
            (pa.int64(), NUMBERS),
            (pa.timestamp("ms", "UTC"), st.datetimes(timezones=st.just(datetime.UTC))),
        ],
    ),
    ("properties.reply_to_group_id", [(pa.string(), TEXTS)]),
    (
        "application_properties.any",
        [
            (pa.int64(), NUMBERS),
            (pa.string(), TEXTS),
            (pa.float64(), REALS),
            (pa.bool_(), st.booleans()),
            (pa.binary(), OCTETS),
            (pa.null(), st.none()),
            (pa.float32(), st.floats(width=32)),
            (pa.timestamp("us", "UTC"), st.datetimes(timezones=st.just(datetime.UTC))),
        ],
    ),
    (("application_properties.int", Int), [(pa.int32(), st.integers(-(2**31), 2**31 - 1))]),
    (("application_properties.uint", UInt), [(pa.int64(), st.integers(0, 2**32 - 1))]),
    (("application_properties.ulong", ULong), [(pa.uint64(), st.integers(0, 2**64 - 1))]),
    (("application_properties.ubyte", UByte), [(pa.uint8(), st.integers(0, 255))]),
    (("application_properties.ushort", UShort), [(pa.uint16(), st.integers(0, 2**16 - 1))]),
    (("application_properties.byte", Byte), [(pa.int8(), st.integers(-128, 127))]),
    (("application_properties.short", Short), [(pa.int16(), st.integers(-(2**15), 2**15 - 1))]),
    (
        ("application_properties.double", float),
        [(pa.float64(), REALS), (pa.int8(), st.integers(-128, 127))],
    ),
    (("application_properties.float", Float), [(pa.float32(), st.floats(width=32))]),
    (("application_properties.moment", Timestamp), [(pa.int64(), NUMBERS)]),
    (
        ("message_annotations.symbol", Symbol),
        [(pa.string(), st.text(st.characters(max_codepoint=127)))],
    ),
    (("message_annotations[5]", uuid.UUID), [(pa.null(), st.none())]),
    ("footer.sum", [(pa.binary(), OCTETS)]),
    ("body", [(pa.binary(), OCTETS)]),
]


@st.composite
def columns(draw: st.DrawFn) -> tuple[list[Any], list[pa.Array]]:
    """Fields, and an array of values for each, some of them null where that is allowed."""
    chosen = draw(st.lists(st.sampled_from(FIELDS), unique_by=lambda field: str(field[0])))
    count = draw(st.integers(0, 6))
    arrays = []
    for field, kinds in chosen:
        kind, values = draw(st.sampled_from(kinds))
        if field != "body":
            values = st.none() | values
        drawn = draw(st.lists(values, min_size=count + 1, max_size=count + 1))
        arrays.append(pa.array(drawn, kind).slice(1))
    return [field for field, _ in chosen], arrays


def by_rows(template: Any, arrays: list[pa.Array]) -> list[bytes]:
    rows = zip(*(array.to_pylist() for array in arrays), strict=True)
    return [template.encode(*row) for row in rows]


@given(columns())
def test_each_row_equals_the_encoded_template(drawn: tuple[list[Any], list[pa.Array]]) -> None:
    fields, arrays = drawn
    template = PROTOTYPE.template(*fields)
    if not fields:
        return
    expected = by_rows(template, arrays)

    assert expected == encode(dict(zip(template.paths, arrays, strict=True)), template).to_pylist()
    # And without the kernel.
    with mock.patch.object(_encode, "template_kernel", None):
        table = pa.table(arrays, names=template.paths)
        assert expected == encode(table, template).to_pylist()


def test_the_kernel_writes_the_usual_columns() -> None:
    if _encode.template_kernel is None:
        pytest.skip("the kernel is not compiled")
    for field, kinds in FIELDS:
        template = PROTOTYPE.template(field)
        kind, _ = kinds[0]
        number = 1 if pa.types.is_integer(kind) or pa.types.is_floating(kind) else "a"
        value = {"bool": True, "binary": b"a", "null": None}.get(str(kind), number)
        batch = pa.RecordBatch.from_arrays([pa.array([value], kind)], names=template.paths)

        written = _encode.template_kernel(batch, template)

        assert written is not None, field
        assert ([template.encode(value)], []) == (written[0].to_pylist(), written[1]), field


def test_many_rows() -> None:
    template = Message.decode(REFERENCE).template(
        "properties.message_id", "application_properties.attempt", "body"
    )
    count = 5_000
    ids = [f"m-{number}" for number in range(count)]
    attempts = [None if number % 7 == 0 else number for number in range(count)]
    bodies = [BODY * (number % 5) for number in range(count)]
    table = pa.table(
        {"other": ids, "body": bodies, "properties.message_id": ids}
        | {"application_properties.attempt": pa.chunked_array([attempts[:9], attempts[9:]])}
    )

    made = encode(table, template, extra="ignore")

    assert [*map(template.encode, ids, attempts, bodies)] == made.to_pylist()


@pytest.mark.parametrize(
    "field, kind, value, path",
    [
        ("header.ttl", pa.int64(), -1, "header.ttl"),
        ("header.priority", pa.int64(), 256, "header.priority"),
        ("header.priority", pa.float64(), 3.0, "header.priority"),
        ("header.priority", pa.bool_(), True, "header.priority"),
        ("properties.content_type", pa.string(), "ü", "properties.content-type"),
        ("properties.message_id", pa.int64(), -1, "properties.message-id"),
        (("application_properties.a", Int), pa.int64(), 2**31, "application-properties['a']"),
        (("application_properties.a", Float), pa.float64(), 1e300, "application-properties['a']"),
        ("application_properties.a", pa.list_(pa.int64()), [1], "application-properties['a']"),
        ("body", pa.string(), "text", "data"),
        ("body", pa.binary(), None, "data"),
    ],
)
def test_template_error_names_the_row(field: Any, kind: Any, value: Any, path: str) -> None:
    template = PROTOTYPE.template(field)
    good: Any = {"int64": 1, "string": "a", "binary": b"a", "double": 1.5}.get(str(kind), value)
    values = [good, good, value] if field != "body" or value is None else [value]
    row = 0 if isinstance(value, (bool, list)) or value in {3.0, "text"} else 2

    with pytest.raises(EncodeError) as raised:
        encode({template.paths[0]: pa.array(values, kind)}, template)

    assert f"row {row}: {path}" == raised.value.path


@pytest.mark.parametrize("name", ["properties.creation_time", "application_properties.moment"])
@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize(
    "unit, number, expected",
    [
        ("s", 2**50, 2**50 * 1000),  # beyond the years of datetime
        ("ms", -(2**63), -(2**63)),
        ("us", 2**63 - 1, (2**63 - 1) // 1000),
        ("us", -1, -1),
        ("us", -1000, -1),
        ("us", -(2**63), -(2**63) // 1000),
        ("ns", -1_000_001, -2),
        ("ns", 1_999_999, 1),
    ],
)
def test_timestamps_of_any_unit(
    name: str, plain: bool, unit: str, number: int, expected: int
) -> None:
    template = Message(b"").template((name, Timestamp))
    column = pa.array([None, number], pa.int64()).cast(pa.timestamp(unit, "Europe/Berlin"))
    with mock.patch.object(_encode, "template_kernel", None if plain else _encode.template_kernel):
        made = encode({name: column}, template).to_pylist()
    assert [template.encode(None), template.encode(Timestamp(expected))] == made


@pytest.mark.parametrize(
    "kind, number, match",
    [
        (pa.timestamp("ns"), 1, "needs a time zone"),
        (pa.timestamp("us"), 2**62, "needs a time zone"),
        (pa.timestamp("s", "UTC"), 2**62, "Timestamp holds"),
    ],
)
@pytest.mark.parametrize("row", [1, _encode._ROWS_PER_CHUNK + 1])
def test_timestamps_out_of_amqp_range(kind: Any, number: int, match: str, row: int) -> None:
    template = Message(b"").template("application_properties.moment", ("body", Symbol))
    column = pa.array([*[None] * row, number], pa.int64()).cast(kind)
    with pytest.raises(EncodeError, match=match) as caught:
        encode({"application_properties.moment": column, "body": pa.nulls(row + 1)}, template)
    assert f"row {row}: application_properties.moment" == caught.value.path


@pytest.mark.parametrize(
    "body, declared, kind, value",
    [
        (None, None, pa.binary(), b"a"),
        (None, None, pa.string(), "a"),
        (None, None, pa.int64(), 5),
        (None, None, pa.null(), None),
        (None, AmqpSequence, pa.list_(pa.int64()), [1, 2]),
        (AmqpValue("a"), None, pa.string(), "b"),
        (AmqpValue(None), None, pa.int64(), None),
        (None, dict, pa.null(), None),
        (Data(b""), None, pa.binary(16), b"0123456789abcdef"),
    ],
)
def test_bodies(body: Any, declared: Any, kind: Any, value: Any) -> None:
    template = Message(body).template("body" if declared is None else ("body", declared))
    values = [value] if declared is AmqpSequence or isinstance(body, Data) else [None, value]

    made = encode({"body": pa.array(values, kind)}, template)

    assert [template.encode(one) for one in values] == made.to_pylist()


def test_invalid_frames_are_errors() -> None:
    template = Message().template("body", "header.ttl")

    with pytest.raises(TypeError, match=r"needs a column 'header\.ttl'"):
        encode({"body": pa.array([b"a"])}, template)
    wrong: Any = 5
    with pytest.raises(TypeError, match="expected a RecordBatch or Table, got int"):
        encode(wrong, template)


def test_a_template_without_values() -> None:
    template = Message("x").template()

    made = encode(pa.table({"a": [1, 2, 3]}), template, extra="ignore")

    assert [template.encode()] * 3 == made.to_pylist()
