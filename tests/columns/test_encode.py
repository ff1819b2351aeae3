"""The kernel of `columns.encode` against the plain implementation: the same bytes and errors."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from amqp10msg import AmqpValue, EncodeError, Message, Properties, UInt
from amqp10msg.notation import type_names
from amqp10msg.testing import encodings, messages
from bench.messages import GENERAL, GENERAL_VALUE, REFERENCE
from tests.hostile import MESSAGES

pa = pytest.importorskip("pyarrow", reason='needs pyarrow: pip install "amqp10msg[arrow]"')
columns = pytest.importorskip("amqp10msg.columns")
_encode = pytest.importorskip("amqp10msg.columns._encode")

if _encode.kernel is None:
    pytest.skip(
        "the kernel of columns is not compiled: it needs a C compiler and make setup",
        allow_module_level=True,
    )

kernel = _encode.kernel
SCHEMA = pa.schema([*columns.SCHEMA, ("wire", pa.binary())])


@contextmanager
def without_kernel() -> Iterator[None]:
    _encode.kernel = None
    try:
        yield
    finally:
        _encode.kernel = kernel


def said(batch: Any) -> Any:
    """Return what `encode` returns, or the error that it raises."""
    try:
        made = columns.encode(batch)
    except EncodeError as error:
        return error.path, error.reason
    except UnicodeDecodeError as error:
        return error.reason
    made.validate(full=True)
    return made.to_pylist()


def assert_same(batch: Any) -> None:
    found = said(batch)
    with without_kernel():
        expected = said(batch)
    assert expected == found


TYPES = st.sampled_from(sorted({*type_names.TYPE_NAME_BY_CLASS.values(), "nothing"}))
TEXTS = st.one_of(
    st.text(max_size=6),
    st.sampled_from(
        [
            *("a", "é", "x" * 255, "é" * 130, "y" * 300, "0", "01", "+1", "18446744073709551615"),
            *("9223372036854775808", "00ff", "00FF", "0f ", "00f", "data", "amqp-value"),
            *("01234567-89ab-cdef-0123-456789abcdef", "0123456789abcdef0123456789abcdef"),
            *("[]", "[[]]", '[["uint",1]]', '[[["uint",1]],[]]', '["list",[]]', '["map",[]]'),
            *('["list",[["string","q"],["null"]]]', '["list", []]', '["list",[["null"]]] '),
            '["map",[[["symbol","k"],["boolean",true]],[["symbol","k"],["boolean",false]]]]',
            '["map",[[["string","k"],["map",[]]],[["symbol","k"],["ulong",18446744073709551615]]]]',
            '["array","71",[["int",1]]]',
            '["described",["ulong",1],["list",[]]]',
        ]
    ),
)
LONGS = st.one_of(
    st.sampled_from(
        [0, 1, 4, -1, 127, 128, -128, -129, 255, 256, 2**31, 2**32, 2**63 - 1, -(2**63)]
    ),
    st.integers(-(2**63), 2**63 - 1),
)
CELLS = {
    pa.bool_(): st.booleans(),
    pa.int16(): st.sampled_from([0, 4, 9, 255, 256, -1]),
    pa.int32(): st.just(1),
    pa.int64(): LONGS,
    pa.string(): TEXTS,
    pa.binary(): st.one_of(
        st.binary(max_size=5), st.sampled_from([bytes(4), bytes(8), bytes(16), b"x" * 300])
    ),
    pa.timestamp("us", tz="UTC"): st.sampled_from([0, 1, -1000, 1_700_000_000_123_000]),
}
VALUES = st.fixed_dictionaries(
    {"type": TYPES},
    optional={
        "key_type": st.sampled_from([None, None, "ulong", "uint"]),
        "s": TEXTS,
        "l": LONGS,
        "d": st.floats(),
        "b": CELLS[pa.binary()],
        "u": st.integers(0, 10**20 - 1),
    },
)
KEYS = st.one_of(st.sampled_from(["a", "b", "x-opt-k", "é", "1", "##2", ""]), st.text(max_size=3))


def cells(field: Any) -> Any:
    """Return a strategy for the cells of a column that are not null."""
    if pa.types.is_map(field.type):
        return st.lists(st.tuples(KEYS, st.none() | VALUES), max_size=4)
    if field.name == "section_offsets":
        return st.just([])
    if field.name == "body_lengths":
        return st.lists(st.sampled_from([0, 1, 3, 4, 16, 300, -1, 2**40]), max_size=3)
    if field.name == "body_kind":
        return st.sampled_from(["data", "amqp-value", "amqp-sequence", "amqp", ""])
    if field.name.endswith("_type"):
        return st.sampled_from(["string", "ulong", "uuid", "binary", "int"])
    return CELLS[field.type]


ROWS = st.fixed_dictionaries({}, optional={field.name: cells(field) for field in SCHEMA})


@given(st.lists(st.one_of(messages(), messages().flatmap(encodings)), max_size=5), st.data())
def test_decoded_messages(drawn: list[Any], data: Any) -> None:
    octets = [one.encode() if isinstance(one, Message) else one for one in drawn]
    names = data.draw(st.sampled_from(["all", (*columns.SCHEMA.names, "wire")]))
    batch = columns.decode([*octets, None, b"", REFERENCE], names)

    assert_same(batch)
    assert_same(batch.slice(1))


@given(st.lists(ROWS, min_size=1, max_size=3))
@example([{"footer": [("k", {"type": "float", "d": 1e300})]}])
@example([{"footer": [("k", {"type": "float", "d": 3.4e38})]}])
@example([{"body_kind": "amqp-value", "body_json": '["string","\\u0041\\ud800\\n"]'}])
@example([{"message_id": "9" * 20, "message_id_type": "ulong"}])
def test_rows_of_any_kind(drawn: list[dict[str, Any]]) -> None:
    # Without metadata, because rows that are not decoded may have identifiers without types.
    fields = [field.remove_metadata() for field in SCHEMA]
    there = [field for field in fields if any(field.name in row for row in (*drawn, ("to",)))]
    for row in drawn:
        alone = pa.schema([field for field in there if field.name in (*row, "to")])
        assert_same(pa.RecordBatch.from_pylist([row], schema=alone))
    rows = [{}, *drawn, {"to": "q"}]
    assert_same(pa.RecordBatch.from_pylist(rows, schema=pa.schema(there)).slice(1))


SPELLINGS = st.recursive(
    st.one_of(
        TYPES.flatmap(
            lambda name: st.tuples(st.just(name), st.one_of(LONGS, TEXTS, st.booleans()))
        ),
        st.just(("null",)),
    ),
    lambda inner: st.one_of(
        st.tuples(st.just("list"), st.lists(inner, max_size=4)),
        st.tuples(st.just("map"), st.lists(st.tuples(inner, inner), max_size=4)),
    ),
    max_leaves=8,
)


@given(SPELLINGS, st.booleans())
def test_typed_json_of_any_kind(typed: Any, as_sections: bool) -> None:
    text = _encode.json.dumps([[typed]] if as_sections else typed, ensure_ascii=False)
    for spelling in (text, text.replace(", ", ","), _encode.json.dumps(typed)):
        kind = "amqp-sequence" if as_sections else "amqp-value"
        assert_same(pa.table({"body_kind": [kind], "body_json": [spelling]}))


def test_hostile_messages() -> None:
    assert_same(columns.decode(list(MESSAGES), (*columns.SCHEMA.names, "wire")))


def test_usual_rows_stay_in_the_kernel() -> None:
    """The plain implementation gives the right bytes as well, so nothing else would tell."""
    batch = columns.decode([REFERENCE, GENERAL, GENERAL_VALUE] * 50)
    _, odd = kernel(_encode._message_parts(batch, None, True)[0])

    assert [] == odd


@pytest.mark.parametrize("count", [1, 64, 65, 128, 129])
def test_nested_maps_with_more_entries_than_kernel_buffers(count: int) -> None:
    batch = columns.decode([Message(AmqpValue({f"k{i}": i for i in range(count)})).encode()])
    _, odd = kernel(_encode._message_parts(batch, None, True)[0])

    assert ([] if count <= 128 else [0]) == odd
    assert_same(batch)


def test_text_limit_grows_with_the_messages() -> None:
    draw = random.Random(1)
    sizes = [*(draw.randrange(40) for _ in range(300)), 500_000, *(7_000 for _ in range(80)), 3]
    octets = [Message(draw.randbytes(size)).encode() for size in sizes]

    assert octets == columns.encode(columns.decode(octets)).to_pylist()


def test_numbers_of_rows_in_errors_count_all_parts() -> None:
    part = pa.table({"to": ["q"] * 3, "priority": pa.array([None, 5, 4], pa.int16())})
    wrong = pa.table({"to": ["q"] * 2, "priority": pa.array([None, 256], pa.int16())})
    with pytest.raises(EncodeError, match=r"row 4: header\.priority"):
        columns.encode(pa.concat_tables([part, wrong]))


def test_invalid_utf8_at_the_end_of_a_column() -> None:
    for octets in (b"\xff", b"\xff" * 40, b"x" * 16 + b"\xe9"):
        ends = pa.py_buffer(struct.pack("=2i", 0, len(octets)))
        text = pa.Array.from_buffers(pa.string(), 1, [None, ends, pa.py_buffer(octets)])
        batch = pa.RecordBatch.from_arrays([text], names=["to"])

        assert_same(batch)


def test_invalid_string_offsets_are_refused() -> None:
    # What Arrow itself looks at is the first and the last of them.
    for middle in (9, -1):
        ends = struct.pack("=3i", 0, middle, 3)
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"abc")]
        wrong = pa.Array.from_buffers(pa.string(), 2, buffers)
        with pytest.raises(ValueError, match="point outside of its bytes"):
            columns.encode(pa.RecordBatch.from_arrays([wrong], names=["to"]))


@given(st.lists(st.lists(st.binary(max_size=300), min_size=1, max_size=4), max_size=5), st.data())
def test_data_sections_of_any_lengths(drawn: list[list[bytes]], data: Any) -> None:
    """The lengths are right, or nearly so."""
    lengths = [[len(octets) for octets in sections] for sections in drawn]
    if lengths and data.draw(st.booleans()):
        row = data.draw(st.sampled_from(lengths))
        row[data.draw(st.integers(0, len(row) - 1))] += data.draw(st.sampled_from([0, 1, -1]))
    batch = pa.RecordBatch.from_pylist(
        [
            {"body": b"".join(sections), "body_lengths": row}
            for sections, row in zip(drawn, lengths, strict=True)
        ],
        schema=pa.schema([SCHEMA.field(name) for name in ("body", "body_lengths")]),
    )

    assert_same(batch)
    assert_same(batch.slice(1))


def test_invalid_body_lengths_are_refused() -> None:
    kind = SCHEMA.field("body_lengths").type
    inner = pa.array([1, 2, 0], pa.int64())
    ends = pa.py_buffer(struct.pack("=3i", 0, 9, 3))
    wrong = pa.Array.from_buffers(kind, 2, [None, ends], children=[inner])
    body = pa.array([b"abc"] * 2, pa.binary())
    with pytest.raises(ValueError, match="point outside of its bytes"):
        columns.encode(pa.RecordBatch.from_arrays([body, wrong], names=["body", "body_lengths"]))


def test_sliced_columns() -> None:
    properties = [
        Properties(message_id=f"m{i}", to="é" * i, group_sequence=UInt(i)) for i in range(9)
    ]
    octets = [
        Message(b"x" * i, properties=one, application_properties={f"k{i}": i, "s": str(i)}).encode()
        for i, one in enumerate(properties)
    ]
    batch = columns.decode(octets)

    assert octets[3:7] == columns.encode(batch.slice(3, 4)).to_pylist()
    table = pa.concat_tables([pa.table(batch.slice(1, 2)), pa.table(batch.slice(8))])
    assert [*octets[1:3], octets[8]] == columns.encode(table).to_pylist()
