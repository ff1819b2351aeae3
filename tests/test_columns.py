"""Messages as Arrow columns: what the columns say, and that nothing is lost on the way back."""

from __future__ import annotations

import datetime
import decimal
import math
import struct
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg import (
    AmqpMap,
    AmqpSequence,
    Array,
    Byte,
    Char,
    Data,
    Decimal64,
    DecodeError,
    Described,
    EncodeError,
    Float,
    Header,
    Int,
    Limits,
    Message,
    Properties,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
    encode_value,
    validate,
)
from amqp10msg.batch import BATCH_FORMAT, wrap
from amqp10msg.composite import rows
from amqp10msg.testing import bodies, encodings, malformed, messages
from bench.messages import REFERENCE

pa = pytest.importorskip("pyarrow", reason='needs pyarrow: pip install "amqp10msg[arrow]"')
columns = pytest.importorskip("amqp10msg.columns")
_memory_limit = pytest.importorskip("amqp10msg.columns._memory_limit")
fuzzing = pytest.importorskip("fuzz.columns")

FIXED_NAMES = """
    durable priority ttl first_acquirer delivery_count message_id user_id to subject reply_to
    correlation_id content_type content_encoding absolute_expiry_time creation_time group_id
    group_sequence reply_to_group_id delivery_annotations message_annotations application_properties
    footer body_kind body error_code error_clause error_offset
"""
ERRORS = ("error_code", "error_clause", "error_offset")
BAD = REFERENCE[:300]


def decode(octets: list[bytes | None], *args: Any, **kwargs: Any) -> list[dict[str, Any]]:
    batch = columns.decode(octets, *args, **kwargs)
    batch.validate(full=True)
    found: list[dict[str, Any]] = batch.to_pylist()
    return found


def only(octets: bytes, *args: Any, **kwargs: Any) -> dict[str, Any]:
    (row,) = decode([octets], *args, **kwargs)
    return row


def said(row: dict[str, Any]) -> dict[str, Any]:
    """The cells that are not null, but for the offsets of the sections."""
    return {k: v for k, v in row.items() if v is not None and k != "section_offsets"}


def joined(message: Message) -> Message:
    """The message as columns can say it: one Data section, no properties without a field."""
    body = message.body
    if isinstance(body, list) and isinstance(body[0], Data):
        body = Data(message.body_bytes())
    properties = None if message.properties == Properties() else message.properties
    return message.evolve(body=body, properties=properties)


# The schema.


@pytest.mark.once
def test_the_fixed_names_and_one_column_for_each_declared_field() -> None:
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
@pytest.mark.parametrize("names", [["nothing"], ["to", "to"], ["properties.to"], ["to."]])
def test_columns_that_do_not_exist(names: list[str]) -> None:
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
def test_timestamps_that_a_datetime_can_hold_and_others(moment: int, in_range: bool) -> None:
    octets = Message(b"", properties=Properties(creation_time=moment)).encode()
    row = only(octets)

    assert (row["creation_time"] is not None) is in_range
    assert row["creation_time_ms"] == (None if in_range else moment)
    assert [octets] == columns.encode(columns.decode([octets])).to_pylist()


VALUES: list[tuple[Any, str, dict[str, Any]]] = [
    (None, "null", {}),
    (True, "boolean", {"l": 1}),
    (False, "boolean", {"l": 0}),
    (UByte(255), "ubyte", {"l": 255}),
    (UShort(65535), "ushort", {"l": 65535}),
    (UInt(2**32 - 1), "uint", {"l": 2**32 - 1}),
    (UInt(0), "uint", {"l": 0}),
    (ULong(0), "ulong", {"u": decimal.Decimal(0)}),
    (ULong(2**64 - 1), "ulong", {"u": decimal.Decimal(2**64 - 1)}),
    (Byte(-128), "byte", {"l": -128}),
    (Short(-32768), "short", {"l": -32768}),
    (Int(-(2**31)), "int", {"l": -(2**31)}),
    (Int(-1), "int", {"l": -1}),
    (-1, "long", {"l": -1}),
    (-(2**63), "long", {"l": -(2**63)}),
    (Timestamp(2**63 - 1), "timestamp", {"l": 2**63 - 1}),
    (0.1, "double", {"d": 0.1}),
    (-math.inf, "double", {"d": -math.inf}),
    (Float(0.1), "float", {"d": float(Float(0.1))}),
    (Char("ü"), "char", {"s": "ü"}),
    (Char("\U0001f600"), "char", {"s": "\U0001f600"}),
    (uuid.UUID(int=2**128 - 1), "uuid", {"s": "ffffffff-ffff-ffff-ffff-ffffffffffff"}),
    (b"\x00", "binary", {"b": b"\x00"}),
    ("tëxt", "string", {"s": "tëxt"}),
    ("", "string", {"s": ""}),
    (Symbol("symbol"), "symbol", {"s": "symbol"}),
    (Decimal64.from_decimal("1.50"), "decimal64", {"s": "1.50", "b": b"1\x80\0\0\0\0\0\x96"}),
    (Described(ULong(1), "x"), "described", {"s": '["described",["ulong",1],["string","x"]]'}),
]


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
def test_a_double_that_is_no_number_keeps_its_bits(bits: int) -> None:
    octets = Message(b"", footer={"k": struct.unpack(">d", bits.to_bytes(8))[0]}).encode()

    assert bits.to_bytes(8) in octets
    assert [octets] == columns.encode(columns.decode([octets])).to_pylist()


@pytest.mark.parametrize("bits", [0x7FC00000, 0x7F800001, 0xFFC00123])
def test_a_float_that_is_no_number_keeps_its_bits(bits: int) -> None:
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
def test_bodies_that_are_no_octets(body: Any, kind: str, count: int, text: str) -> None:
    octets = Message(body).encode()

    assert {"body_kind": kind, "body_sections": count, "body_json": text} == said(only(octets))
    assert [octets] == columns.encode(columns.decode([octets])).to_pylist()


def test_data_sections_are_joined() -> None:
    octets = Message([Data(b"one"), Data(b""), Data(b"two")]).encode()

    assert {"body_kind": "data", "body_sections": 3, "body": b"onetwo"} == said(only(octets))
    assert Message(b"onetwo").encode() == columns.encode(columns.decode([octets]))[0].as_py()


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


@given(messages(body=st.none() | bodies()))
def test_nothing_is_lost_on_the_way_back(message: Message) -> None:
    octets = message.encode()
    batch = columns.decode([octets, None])
    batch.validate(full=True)
    first, second = columns.encode(batch).to_pylist()

    assert batch["error_code"].to_pylist() == [None, None]
    assert joined(message) == Message.decode(first)
    assert None is second


@given(messages().flatmap(encodings))
def test_however_a_peer_spells_a_message(octets: bytes) -> None:
    message = Message.decode(octets)
    (back,) = columns.encode(columns.decode([octets])).to_pylist()

    assert joined(message) == Message.decode(back)


# What cannot be decoded.


@given(malformed())
def test_a_bad_message_is_a_row_that_says_why(octets: bytes) -> None:
    with pytest.raises(DecodeError) as caught:
        Message.decode(octets)
    row = only(octets, [*columns.SCHEMA.names, "wire"])
    rule = caught.value.rule
    code = "unknown-constructor" if rule.startswith("unknown-constructor") else rule

    assert {*ERRORS, "wire"} == set(said(row))
    assert (code, caught.value.offset, octets) == (
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


#: An array of a thousand nulls: 13 octets, and 9,018 of JSON.
NULLS = bytes.fromhex("005377f000000005000003e840")


@pytest.fixture
def little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("amqp10msg.columns._memory_limit._ROOM", 20_000)


@pytest.mark.usefixtures("little_room")
@pytest.mark.parametrize(
    "made", [decode, lambda octets: columns.decode_values([o[3:] for o in octets])]
)
def test_values_without_octets_fill_no_memory(made: Any) -> None:
    # What is one message alone always fits.
    assert 1 == len(made([NULLS]))
    assert 2 == len(made([NULLS, NULLS]))
    with pytest.raises(ValueError, match="decode fewer messages at once"):
        made([NULLS] * 3)
    with pytest.raises(ValueError, match="decode fewer messages at once"):
        columns.decode(pa.chunked_array([pa.array([NULLS], pa.binary())] * 20))


@pytest.mark.usefixtures("little_room")
def test_what_is_too_much_is_done_in_pieces() -> None:
    sound = Message(b"body").encode()
    batch = pa.record_batch({"wire": pa.array([NULLS] * 5 + [sound] + [NULLS] * 6, pa.binary())})

    done = list(_memory_limit.in_pieces(batch, lambda piece: columns.decode(piece.column("wire"))))

    # Two of these have room: halves of twelve, of six and of three are tried for that.
    assert [1, 2, 3, 1, 2, 1, 2] == [piece.num_rows for piece, _ in done]
    assert batch.column("wire").to_pylist() == [
        wire for piece, _ in done for wire in piece.column("wire").to_pylist()
    ]
    assert [decode([wire])[0] for wire in batch.column("wire").to_pylist()] == [
        row for _, found in done for row in found.to_pylist()
    ]


@pytest.mark.usefixtures("little_room")
def test_chunks_share_their_room_and_only_texts_take_it() -> None:
    picks = [f"application_properties.k{number}" for number in range(100)]
    sound = Message(b"", application_properties={"k1": "v"}).encode()
    chunks = [pa.array([sound] * 50, pa.binary())] * 20

    # Structs of nulls take far more than the messages.
    batch = columns.decode(pa.chunked_array(chunks), picks)
    assert 1_000 == batch.num_rows
    assert batch.nbytes > 2 * (20_000 + 32 * sum(chunk.nbytes for chunk in chunks))

    mapped = b"\0\x53\x72\xc1\x0e\2\xa3\1k" + NULLS[3:] + b"\0\x53\x77\x40"
    for name in ("message_annotations", "message_annotations.k"):
        with pytest.raises(ValueError, match="decode fewer messages at once"):
            columns.decode(pa.chunked_array([pa.array([mapped], pa.binary())] * 20), [name])


def test_one_message_that_is_too_much_alone_is_no_reason_to_go_on() -> None:
    def work(piece: Any) -> None:
        raise _memory_limit.TooMuchError(str(piece.num_rows))

    batch = pa.record_batch({"wire": pa.array([b"a", b"b"])})
    with pytest.raises(_memory_limit.TooMuchError, match=r"^1$"):
        list(_memory_limit.in_pieces(batch, work))


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


# Projections.


NAMES = st.sampled_from([*columns.SCHEMA.names, "wire"])


@given(st.lists(messages().flatmap(encodings), max_size=2), st.lists(NAMES, unique=True))
def test_a_projection_gives_the_same_cells(octets: list[bytes], names: list[str]) -> None:
    whole = columns.decode(octets, [*columns.SCHEMA.names, "wire"])
    some = columns.decode(octets, names)

    assert names == some.schema.names
    assert len(octets) == some.num_rows
    assert fuzzing.same(whole.select(names), some)


def test_entries_are_picked_from_maps() -> None:
    octets = Message(
        b"", application_properties={"a.b": 1}, message_annotations={ULong(5): "u"}
    ).encode()
    row = only(octets, ["application_properties.a.b", "message_annotations.5", "footer.x"])

    assert [("long", 1), ("ulong", "u")] == [
        (row["application_properties.a.b"]["type"], row["application_properties.a.b"]["l"]),
        (row["message_annotations.5"]["key_type"], row["message_annotations.5"]["s"]),
    ]
    assert None is row["footer.x"]


def test_what_no_column_needs_is_passed_over() -> None:
    # A property that is no UTF-8: nobody looks.
    octets = (
        Message(b"x", application_properties={"key": "abc"}).encode().replace(b"abc", b"\xff**")
    )

    assert "invalid-utf8" == only(octets)["error_code"]
    assert {"body": b"x"} == said(only(octets, ["body", *ERRORS]))
    assert (
        "invalid-utf8"
        == only(octets, ["footer.x", "application_properties.k", *ERRORS])["error_code"]
    )


@pytest.mark.parametrize(
    "octets, rule",
    [
        (Message(b"").encode() + Message(b"", header=Header()).encode(), "section-out-of-order"),
        (Message(b"", header=Header()).encode()[:4] * 2, "duplicate-section"),
        (Message(b"").encode() + Message("").encode(), "mixed-body-sections"),
        (Message("").encode() * 2, "duplicate-section"),
        (Message(footer={}).encode() * 2, "duplicate-section"),
        (Message(footer={}).encode() + Message(b"").encode(), "section-out-of-order"),
        (Message(b"").encode() + b"\0\x53\x90\x40", "unknown-section"),
        (Message(b"").encode() + b"\x40", "not-a-section"),
        (Message(b"xy").encode()[:-1], "truncated"),
        (Message(b"").encode() + b"\0\xa3\x02\xff\xff\x40", "symbol-not-ascii"),
        (b"\0\x80\0\0\0\0\0\0\0\x75\xa0\0\0\xa3\x10amqp:data:binary\xa0\0\x57", "not-a-section"),
    ],
)
def test_the_outline_is_judged_in_every_projection(octets: bytes, rule: str) -> None:
    whole = only(octets)
    if rule == "not-a-section" and whole["error_code"] == "unknown-constructor":
        rule = "unknown-constructor"

    assert rule == whole["error_code"]
    for name in (["to"], ["body_kind"], ["body"], ["body_json"], ["footer.x"], []):
        assert {k: whole[k] for k in ERRORS} == said(only(octets, [*name, *ERRORS]))


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
def test_other_arrays() -> None:
    two = pa.array([b"\0\x53\x75\xa0\0"] * 2, pa.binary(5))

    assert [b"", b""] == columns.decode(two)["body"].to_pylist()
    assert [None] == columns.decode(pa.nulls(1))["body"].to_pylist()
    assert 0 == columns.decode(pa.chunked_array([], pa.binary())).num_rows
    for wrong in (pa.array([1]), [1], ["text"], pa.array(["text"]), 5):
        with pytest.raises(TypeError, match="expected encoded messages as binary"):
            columns.decode(wrong)


def test_message_formats_come_from_outside() -> None:
    octets = [REFERENCE, REFERENCE]

    assert [None, None] == columns.decode(octets)["message_format"].to_pylist()
    for formats in (5, [5, None], pa.array([5, None], pa.uint32()), pa.chunked_array([[5], [6]])):
        found = columns.decode(octets, message_format=formats)["message_format"].to_pylist()
        assert ([5, 5] if formats == 5 else pa.array(formats).to_pylist()) == found
    with pytest.raises(ValueError, match="2 messages and 1 message formats"):
        columns.decode(octets, message_format=[5])


# What goes back.


@pytest.mark.parametrize(
    "cells, path",
    [
        ({"priority": 256}, "header.priority"),
        ({"message_id": "x", "message_id_type": "ulong"}, "message_id"),
        ({"message_id": "x", "message_id_type": "int"}, "message_id"),
        ({"body_kind": "nothing"}, "body_kind"),
        ({"body_kind": "amqp-value"}, "body_json"),
        ({"body_kind": "amqp-value", "body_json": "[1"}, "body_json"),
        ({"body_kind": "amqp-value", "body_json": '["uint",-1]'}, "body_json"),
        ({"body_json": "[]"}, "body_kind"),
        ({"body_kind": "data", "body_json": "[]"}, "body"),
        ({"footer": [("k", {"type": "uint", "l": -1})]}, "footer['k']"),
        ({"footer": [("k", {"type": "uint"})]}, "footer['k']"),
        ({"footer": [("k", {"type": "nothing"})]}, "footer['k']"),
        ({"footer": [("k", None)]}, "footer['k']"),
        ({"footer": [("k", {"type": "float", "b": b"123"})]}, "footer['k']"),
        ({"footer": [("k", {"type": "list", "s": '["uint",1]'})]}, "footer['k']"),
        ({"footer": [("k", {"type": "null"})] * 2}, "footer['k']"),
        ({"footer": [("k", {"type": "null", "key_type": "ulong"})]}, "footer['k']"),
        ({"footer": [("1", {"type": "null", "key_type": "uint"})]}, "footer['1']"),
    ],
)
def test_rows_that_cannot_be_encoded(cells: dict[str, Any], path: str) -> None:
    schema = pa.schema([columns.SCHEMA.field(name) for name in cells])
    batch = pa.RecordBatch.from_pylist([{}, cells], schema=schema)
    with pytest.raises(EncodeError) as caught:
        columns.encode(batch)

    assert f"row 1: {path}" == caught.value.path


@pytest.mark.once
def test_a_moment_between_milliseconds_cannot_be_encoded() -> None:
    moment = pa.array([1], pa.timestamp("us", "UTC"))
    with pytest.raises(EncodeError, match="microseconds"):
        columns.encode(pa.table({"creation_time": moment}))


@pytest.mark.once
def test_frames_that_are_none() -> None:
    for wrong in (5, pa.table({"other": [1]}), pa.table({"to": [b"\xff"], "ttl": ["x"]})):
        with pytest.raises(TypeError):
            columns.encode(wrong)


def test_a_few_columns_are_enough_to_encode() -> None:
    table = pa.table({"to": ["queue", None, None], "body": [b"1", b"2", None], "other": [1, 2, 3]})

    assert [
        Message(b"1", properties=Properties(to="queue")).encode(),
        Message(b"2").encode(),
        None,
    ] == columns.encode(table).to_pylist()


# Values.


def test_single_values() -> None:
    values = [value for value, *_ in VALUES]
    found = columns.decode_values([encode_value(value) for value in values]).to_pylist()

    assert [{"type": name, **member} for _, name, member in VALUES] == [
        {k: v for k, v in cell.items() if v is not None} for cell in found
    ]


def test_mixed_plain_and_encoded_values() -> None:
    mixed = [b"\xa1\x01a", b"true", b"A", None, b"\xff", b"a\x00", b"\x55\x05"]

    def cells(policy: str) -> list[Any]:
        found = columns.decode_values(mixed, policy).to_pylist()
        names = ("type", "s", "l", "b", "error_code")
        return [c and tuple(c[n] for n in names if c[n] is not None) for c in found]

    assert [
        ("string", "a"),
        ("truncated",),
        ("boolean", 1),
        None,
        ("unknown-constructor",),
        ("truncated",),
        ("long", 5),
    ] == cells("error")
    assert [
        ("string", "a"),
        ("true",),
        ("boolean", 1),
        None,
        (b"\xff",),
        ("a\x00",),
        ("long", 5),
    ] == cells("encoded")
    assert [
        ("string", "a"),
        ("true",),
        ("A",),
        None,
        (b"\xff",),
        ("a\x00",),
        ("long", 5),
    ] == cells("text")
    with pytest.raises(ValueError, match="plain is one of"):
        columns.decode_values([], "nothing")


def test_batch_envelopes_are_taken_apart() -> None:
    inner = [Message(f"m{i}").encode() for i in range(3)]
    envelope = wrap([Message.decode(octets) for octets in inner]).encode()
    single = Message("x").encode()
    found = columns.explode_batches([envelope, None, single, BAD]).to_pylist()
    kept = columns.explode_batches([envelope, single], message_format=[BATCH_FORMAT, 0])

    assert [(0, 0), (0, 1), (0, 2), (1, 0), (2, 0), (3, 0)] == [
        (row["row"], row["position"]) for row in found
    ]
    assert [*inner, None, single, BAD] == [row["wire"] for row in found]
    assert [None] * 4 + ["not-a-batch", "truncated"] == [row["error_code"] for row in found]
    assert [*inner, single] == kept["wire"].to_pylist()
    assert [None] * 4 == kept["error_code"].to_pylist()
