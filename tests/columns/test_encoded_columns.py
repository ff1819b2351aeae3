"""`columns.encode` writes everything that its columns show, or raises: it drops no column."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from amqp10msg import (
    Char,
    Data,
    Decimal128,
    EncodeError,
    Message,
    Properties,
    Symbol,
    Timestamp,
    UInt,
    ULong,
)
from amqp10msg.testing import encodings, messages

pa = pytest.importorskip("pyarrow", reason='needs pyarrow: pip install "amqp10msg[arrow]"')
columns = pytest.importorskip("amqp10msg.columns")
column_comparison = pytest.importorskip("fuzz.columns")

ORDER = Message(
    b"x",
    properties=Properties(to="q", subject="s"),
    application_properties={"tenant": "acme", "a key": UInt(5), "it's": Symbol("y")},
    message_annotations={"x-opt-hop": 1, ULong(7): "seven"},
).encode()
# What a message does not hold: the transfer's format, the places of sections, errors.
NOT_WRITTEN = {"message_format", "section_offsets", "wire", "error", "error_code"}
NOT_WRITTEN |= {"error_clause", "error_offset"}
KEYS = ["tenant", "'a key'", '"it\'s"', "x-opt-hop", "7", "no-such-key"]
TYPES = ["", " string", " bigint as n", " double as d", " binary as b", " boolean as c"]
ENTRIES = [
    f"{section}.{key}{kind}"
    for section in ("application_properties", "message_annotations", "footer")
    for key in KEYS
    for kind in TYPES
]
IDENTIFIERS = ("message_id", "correlation_id")


TIMES = ("creation_time", "absolute_expiry_time")
COMPANIONS = {name: f"{name}_type" for name in IDENTIFIERS}
COMPANIONS |= {name: f"{name}_ms" for name in TIMES} | {f"{name}_ms": name for name in TIMES}


def columns_without_companions(names: list[str]) -> list[str]:
    return [name for name in COMPANIONS if name in names and COMPANIONS[name] not in names]


def identifiers_without_types(names: list[str]) -> list[str]:
    return [name for name in IDENTIFIERS if name in names and f"{name}_type" not in names]


NAMES = st.one_of(
    st.sampled_from([*columns.SCHEMA.names, "body_text", "body_value", "error"]),
    st.sampled_from(ENTRIES),
)


@given(
    st.lists(st.one_of(messages().flatmap(encodings), st.just(ORDER)), min_size=1, max_size=3),
    st.lists(NAMES, min_size=1, max_size=5, unique=True),
)
@example([ORDER], ["application_properties.tenant", "body"])
@example([ORDER], ["application_properties.tenant string", "application_properties.tenant"])
@example([ORDER], ["application_properties", "application_properties.tenant string"])
@example([ORDER], ["message_annotations.7", "message_annotations.x-opt-hop bigint as n"])
@example([Message([Data(b"a"), Data(b"b")]).encode()], ["body", "body_sections"])
@example([Message("text").encode()], ["body_text"])
@example([Message(properties=Properties(message_id=ULong(1))).encode()], ["message_id_type"])
def test_any_columns_are_kept_or_refused(octets: list[bytes], names: list[str]) -> None:
    shown = [columns.schema_of([name]).names[0] for name in names]
    assume(len(shown) == len({*shown}))
    batch = columns.decode(octets, names)
    if columns_without_companions(batch.schema.names):
        with pytest.raises(ValueError, match="was decoded without"):
            columns.encode(batch)
        return
    try:
        made = columns.encode(batch)
    except (EncodeError, TypeError):
        return
    kept = [
        (name, field.name)
        for name, field in zip(names, batch.schema, strict=True)
        if field.name not in NOT_WRITTEN
    ]
    again = columns.decode(made, [name for name, _ in kept])

    assert column_comparison.same(batch.select([field for _, field in kept]), again)


@pytest.mark.parametrize(
    "names",
    [
        ["application_properties.tenant", "body"],
        ["application_properties.'a key'", 'application_properties["it\'s"]'],
        ["application_properties.tenant string", "application_properties.'a key' bigint as n"],
        ["message_annotations.7", "message_annotations.x-opt-hop"],
        ["application_properties", "application_properties.tenant", "to"],
        ["application_properties.tenant", "application_properties.tenant string as t"],
        ["properties.to", "properties.subject"],
        ["body", "body_text", "body_sections", "body_kind"],
        "lean",
        "all",
    ],
)
def test_encodable_columns_round_trip(names: Any) -> None:
    batch = columns.decode([ORDER, None], names)

    again = columns.decode(columns.encode(batch), names)

    kept = [name for name in batch.schema.names if name not in NOT_WRITTEN]
    assert batch.select(kept).to_pylist() == again.select(kept).to_pylist()


BEYOND_9999 = Timestamp(253_402_300_800_000)


@given(
    st.lists(messages(), min_size=1, max_size=3),
    st.sampled_from(["lean", "all"])
    | st.lists(
        st.sampled_from([*TIMES, *(f"{name}_ms" for name in TIMES), "to"]), min_size=1, unique=True
    ),
)
@example([Message(properties=Properties(creation_time=BEYOND_9999))], "lean")
@example([Message(properties=Properties(creation_time=BEYOND_9999))], ["creation_time"])
@example([Message(properties=Properties(creation_time=Timestamp(1)))], ["creation_time_ms"])
def test_encode_never_loses_a_decoded_time(drawn: list[Message], names: Any) -> None:
    batch = columns.decode([message.encode() for message in drawn], names)
    present = [name for name in TIMES if name in batch.schema.names]
    lonely = columns_without_companions(batch.schema.names)
    wanted = [name for name in batch.schema.names if name.startswith(TIMES)]
    assume(wanted)
    batch = batch.select(wanted)

    if lonely:
        with pytest.raises(ValueError, match=f"({'|'.join(lonely)}) was decoded without"):
            columns.encode(batch)
        return
    for message, octets in zip(drawn, columns.encode(batch).to_pylist(), strict=True):
        again = Message.decode(octets).properties if octets else None
        for name in present:
            assert getattr(message.properties, name, None) == getattr(again, name, None)


@pytest.mark.parametrize("name", [*COMPANIONS])
def test_companion_of_own_values_lifts_the_refusal(name: str) -> None:
    batch = columns.decode([ORDER], [name])
    companion = columns.SCHEMA.field(COMPANIONS[name])

    columns.encode(batch.append_column(companion, pa.nulls(1, companion.type)))
    columns.encode(batch.replace_schema_metadata(None).cast(pa.schema([(name, batch[0].type)])))


DECODED_IDENTIFIERS = st.sampled_from(
    ["lean", "all", *IDENTIFIERS, ["properties.message-id"], ["message_id", "correlation_id_type"]]
) | st.lists(
    st.sampled_from([*IDENTIFIERS, "message_id_type", "correlation_id_type", "body", "to"]),
    min_size=1,
    unique=True,
)


@given(st.lists(messages(), min_size=1, max_size=3), DECODED_IDENTIFIERS)
@example([Message(properties=Properties(message_id=ULong(1)))], "lean")
@example([Message(properties=Properties(message_id=ULong(1)))], ["message_id"])
@example([Message(properties=Properties(correlation_id=b"\x01\x03"))], ["correlation_id"])
def test_encode_never_changes_the_type_of_a_decoded_identifier(
    drawn: list[Message], names: Any
) -> None:
    batch = columns.decode([message.encode() for message in drawn], names)
    present = [name for name in IDENTIFIERS if name in batch.schema.names]
    untyped = identifiers_without_types(batch.schema.names)
    wanted = {*present, *(f"{name}_type" for name in present)}
    batch = batch.select([name for name in batch.schema.names if name in wanted])
    assume(present)

    if untyped:
        with pytest.raises(ValueError, match=rf"({'|'.join(untyped)}) was decoded without \1_type"):
            columns.encode(batch)
        return
    encoded = columns.encode(batch).to_pylist()
    for message, octets in zip(drawn, encoded, strict=True):
        again = Message() if octets is None else Message.decode(octets)
        for name in present:
            expected = getattr(message.properties or Properties(), name)
            value = getattr(again.properties or Properties(), name)
            assert (type(expected), expected) == (type(value), value)


def test_text_ids_of_other_sources_are_strings() -> None:
    decoded = columns.decode(
        [Message(properties=Properties(message_id=ULong(1))).encode()], ["message_id"]
    )
    text = decoded["message_id"]
    string = Message(properties=Properties(message_id="1")).encode()

    assert [string] == columns.encode(pa.table({"message_id": ["1"]})).to_pylist()
    assert [string] == columns.encode(pa.table({"message_id": text})).to_pylist()
    assert [string] == columns.encode(
        decoded.append_column("message_id_type", pa.array(["string"]))
    ).to_pylist()


@pytest.mark.parametrize("change", ["table", "renamed", "file", "typeless"])
def test_identifiers_without_types_are_refused_after_conversions(
    change: str, tmp_path: Path
) -> None:
    octets = Message(properties=Properties(message_id=ULong(1))).encode()
    table = pa.table(columns.decode([octets], ["message_id", "body"]))
    if change == "renamed":
        table = table.rename_columns(["correlation_id", "body"])
    elif change == "file":
        parquet = pytest.importorskip("pyarrow.parquet")
        parquet.write_table(table, tmp_path / "ids.parquet")
        table = parquet.read_table(tmp_path / "ids.parquet")
    elif change == "typeless":
        table = pa.table(columns.decode([octets])).drop_columns(["message_id_type"])

    with pytest.raises(ValueError, match="was decoded without") as refusal:
        columns.encode(table)

    assert "add it with the value 'string'" in str(refusal.value)


def test_plain_values_are_entries_of_the_closest_type() -> None:
    table = pa.table(
        {
            "application_properties.s": ["a", None],
            "application_properties.n": pa.array([1, 2], pa.int32()),
            "application_properties.t": pa.array([5, None], pa.timestamp("ms", "UTC")),
            "footer.u": pa.array([7, None], pa.uint64()),
        }
    )
    first, second = (Message.decode(octets) for octets in columns.encode(table).to_pylist())

    properties = {
        key: type(value).__name__ for key, value in (first.application_properties or {}).items()
    }
    assert {"s": "str", "n": "Int", "t": "Timestamp"} == properties
    assert {"n": 2} == dict(second.application_properties or {})
    assert {"u": ULong(7)} == dict(first.footer or {})
    assert None is second.footer


@pytest.mark.parametrize(
    "names, nearest",
    [
        (["too", "subject"], "to"),
        (["mesage_id", "to"], "message_id"),
        (["to", "TTL"], None),
        (["application_propertie", "to"], "application_properties"),
        (["to", "properties.sujbect"], "subject"),
    ],
)
def test_an_unknown_column_is_refused(names: list[str], nearest: str | None) -> None:
    table = pa.table({name: ["1"] for name in names})
    with pytest.raises(ValueError, match="unknown column") as caught:
        columns.encode(table)

    assert nearest is None or f"did you mean {nearest!r}" in str(caught.value)
    (made,) = columns.encode(table, extra="ignore").to_pylist()
    known = [name for name in names if name in columns.SCHEMA.names]
    assert {"1"} == {getattr(Message.decode(made).properties, name) for name in known}


def test_an_unknown_column_of_a_template_is_refused() -> None:
    template = Message(b"").template("properties.to", "application_properties.tenant")
    given = {
        "properties.to": ["q"],
        "application_properties.tenant": ["t"],
        "properties.two": ["r"],
    }
    with pytest.raises(ValueError, match=r"'properties.two' \(did you mean 'properties.to'\?\)"):
        columns.encode(given, template)

    (made,) = columns.encode(given, template, extra="ignore").to_pylist()
    assert "q" == Message.decode(made).to


@given(st.lists(messages().flatmap(encodings), min_size=1, max_size=3), st.data())
@example([Message("text").encode()], None)
@example([Message(b"text").encode()], None)
def test_changed_body_text_is_refused(octets: list[bytes], data: Any) -> None:
    batch = columns.decode(octets, [*columns.SCHEMA.names, "body_text"])
    row = data.draw(st.integers(0, len(octets) - 1)) if data else 0
    texts = batch.column("body_text").to_pylist()
    texts[row] = f"{texts[row]}, changed"
    changed = batch.set_column(batch.num_columns - 1, "body_text", pa.array(texts, pa.string()))
    with pytest.raises(EncodeError) as caught:
        columns.encode(changed)

    assert f"row {row}: body_text" == caught.value.path


#: The columns of an amqp-value section with a string.
_TEXT_VALUE = {"body_kind": "amqp-value", "body_json": '["string","text"]'}


@pytest.mark.parametrize(
    "cells, path",
    [
        ({"message_id_type": "ulong"}, "message_id_type"),
        ({"creation_time": 1000, "creation_time_ms": 2}, "creation_time_ms"),
        ({"body_sections": 2, "body": b"ab"}, "body_sections"),
        ({"body_sections": 2}, "body_sections"),
        ({"body_text": "text"}, "body_text"),
        ({"body_text": "other", "body": b"text"}, "body_text"),
        ({"body_text": "other", "body": None} | _TEXT_VALUE, "body_text"),
        ({"body_sections": 2, "body_lengths": None} | _TEXT_VALUE, "body_sections"),
        (
            {"application_properties.k": "a", "application_properties": [("k", {"type": "null"})]},
            "application_properties.k",
        ),
    ],
)
def test_contradicting_columns_are_refused(cells: dict[str, Any], path: str) -> None:
    types = {**{f.name: f.type for f in columns.SCHEMA}, "body_text": pa.string()}
    schema = pa.schema([(name, types.get(name, pa.string())) for name in cells])
    with pytest.raises(EncodeError) as caught:
        columns.encode(pa.RecordBatch.from_pylist([{}, cells], schema=schema))

    assert f"row 1: {path}" == caught.value.path


def test_columns_of_one_name_are_refused() -> None:
    twice = pa.RecordBatch.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["to", "to"])
    with pytest.raises(ValueError, match="duplicate columns: to"):
        columns.encode(twice)
    other = pa.table({"to": ["a"], "properties.to": ["b"]})
    with pytest.raises(ValueError, match="duplicate columns: to"):
        columns.encode(other)


@pytest.mark.once
def test_pandas_row_labels_are_ignored() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"to": ["a", "b", "c"]})

    made = columns.encode(frame[frame["to"] != "a"]).to_pylist()

    assert ["b", "c"] == [Message.decode(octets).to for octets in made]


@pytest.mark.parametrize(
    "name, words",
    [
        ("application_properties.tenant str", "'string'"),
        ("application_properties.tenant int", "'bigint'"),
        ("application_properties.tenant strnig", "'string'"),
        ("application_properties.tenant varchar as t", "'string'"),
        ("application_properties.tenant STRING", "'string'"),
        ("application_properties.tenant as t", "string, bigint, double"),
        ("application_properties.tenant string as", "string, bigint, double"),
        ("application_properties.a key", "application_properties.'a key'"),
        ("application_properties.'a key' str", "application_properties.'a key str'"),
        ("footer.tenant\tstring", "not a type"),
        ("footer.", "expected a key"),
        ("footer.'a", "expected a key"),
        ("footer[5]", "expected a key"),
    ],
)
def test_a_wrong_type_of_an_entry_is_refused(name: str, words: str) -> None:
    for use in (columns.schema_of, lambda names: columns.decode([ORDER], names)):
        with pytest.raises(ValueError, match=r"^['\"]") as caught:
            use([name])
        assert words in str(caught.value)
        assert repr(name) in str(caught.value)


@pytest.mark.parametrize("wrong", [5, None, b"subject", ["subject"]], ids=repr)
def test_a_column_that_is_no_text_is_refused(wrong: Any) -> None:
    for use in (columns.schema_of, lambda names: columns.decode([ORDER], names)):
        with pytest.raises(TypeError, match=f"a column is a str, not {type(wrong).__name__}"):
            use(["subject", wrong])


@given(
    st.sampled_from(
        [
            ("subject",),
            ("properties.subject",),
            ("application_properties.k",),
            ("application_properties.k", "string"),
            ("application_properties.'a  key'", "string", "as", "my  name"),
            ('footer["k"]', "bigint", "as", "n"),
        ]
    ),
    st.lists(st.integers(0, 3), min_size=5, max_size=5),
)
def test_extra_spaces_in_a_column_are_ignored(parts: tuple[str, ...], spaces: list[int]) -> None:
    """Those in a quoted key, or in a name, are not."""
    between = (part + " " * (1 + extra) for part, extra in zip(parts[:-1], spaces, strict=False))
    spaced = f"{' ' * spaces[3]}{''.join(between)}{parts[-1]}{' ' * spaces[4]}"

    assert columns.schema_of([" ".join(parts)]).equals(columns.schema_of([spaced]), True)


@pytest.mark.parametrize("key", [" k", "k ", " ", "a  b"])
def test_spaces_of_a_key_survive_encoding(key: str) -> None:
    octets = Message(b"", application_properties={key: "x"}).encode()

    batch = columns.decode([octets], [f"application_properties.{key!r} string", "body"])

    assert [key, "body"] == batch.schema.names
    assert [octets] == columns.encode(batch).to_pylist()


@pytest.mark.parametrize(
    "name, suggestion",
    [
        ("application_propertys.k string", "application_properties.k string"),
        ("message-annotation.x-opt-hop", "message_annotations.x-opt-hop"),
        ("aplication_properties['a key']", "application_properties['a key']"),
        ("propertis.subject", "properties.subject"),
        ("properties.subjct", "subject"),
        ("subjct", "subject"),
    ],
)
def test_a_misspelt_section_has_a_suggestion(name: str, suggestion: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"(did you mean {suggestion!r}?)")):
        columns.schema_of([name])


#: A value of each type, by the types of plain columns that accept it.
ACCEPTED: list[tuple[Any, str]] = [
    ("text", "string"),
    (Symbol("s"), "string"),
    (5, "string bigint double"),
    (UInt(5), "string bigint double"),
    (ULong(1 << 63), "string double"),
    (0.5, "string double"),
    (Decimal128.from_decimal(Decimal("1.5")), "string double"),
    (True, "string boolean"),
    (Char("c"), "string"),
    (UUID(int=5), "string"),
    (Timestamp(5), "timestamp"),
    (b"b", "binary"),
]


@pytest.mark.parametrize("value, types", ACCEPTED, ids=lambda item: repr(item)[:30])
def test_plain_columns_accept_the_types_that_their_comments_name(value: Any, types: str) -> None:
    octets = Message(b"", application_properties={"k": value}).encode()
    kinds = ("string", "bigint", "double", "boolean", "timestamp", "binary")
    names = [f"application_properties.k {kind} as {kind}" for kind in kinds]

    batch = columns.decode([octets], names)

    (row,) = batch.to_pylist()
    assert {*types.split()} == {kind for kind, cell in row.items() if cell is not None}
    comments = {field.name: field.metadata[b"comment"].decode() for field in batch.schema}
    assert "numbers, booleans, symbols" in comments["string"]
    assert "integers and decimals as doubles" in comments["double"]


def test_entry_keys_in_quotes() -> None:
    names = ["application_properties.'a key' bigint", 'application_properties["it\'s"] string as i']

    assert [{"a key": 5, "i": "y"}] == columns.decode([ORDER], names).to_pylist()
