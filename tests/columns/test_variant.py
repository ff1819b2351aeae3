"""Lean columns, VARIANT and plain typed columns: what they say, held against others' readers."""

from __future__ import annotations

import datetime
import decimal
import math
import uuid
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqp10msg import (
    AmqpMap,
    AmqpSequence,
    Array,
    Char,
    Data,
    Decimal32,
    Decimal64,
    Decimal128,
    Described,
    Float,
    Message,
    Properties,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
)
from amqp10msg.notation.type_names import TYPE_NAME_BY_CLASS
from amqp10msg.testing import messages, simple_values, values
from amqp10msg.wire.primitives import DECIMALS

pa = pytest.importorskip("pyarrow", reason='needs pyarrow: pip install "amqp10msg[arrow]"')
columns = pytest.importorskip("amqp10msg.columns")
_variant = pytest.importorskip("amqp10msg.columns._variant")
_schema = pytest.importorskip("amqp10msg.columns._schema")

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
MOST = datetime.datetime(9999, 12, 31, 23, 59, 59, 999_999, datetime.UTC)


def read(cell: dict[str, bytes]) -> Any:
    """Read a VARIANT as PySpark does."""
    spark_types = pytest.importorskip("pyspark.sql.types", reason="pyspark is not installed")
    return spark_types.VariantVal(cell["value"], cell["metadata"]).toPython()


def plainly(value: Any) -> Any:
    """What SQL makes of a value."""
    name = TYPE_NAME_BY_CLASS[type(value)]
    if name == "timestamp":
        if not -62_135_596_800_000 <= value <= 253_402_300_799_999:
            return int(value)
        return EPOCH + datetime.timedelta(milliseconds=int(value))
    if name in ("symbol", "char", "uuid"):
        return str(value)
    if name in DECIMALS:
        return decimal_of(value)
    if name == "ulong" and value >= 2**63:
        return decimal.Decimal(int(value))
    if name == "map":
        texts = {str(key) for key in value if isinstance(key, str) and not isinstance(key, Char)}
        if len(texts) == len(value):
            return {str(key): plainly(item) for key, item in value.items()}
        return [[plainly(key), plainly(item)] for key, item in value.items()]
    if name == "described":
        return {"descriptor": plainly(value.descriptor), "value": plainly(value.value)}
    if name in ("list", "array"):
        return [plainly(item) for item in value]
    if value is None or isinstance(value, (bool, bytes)):
        return value
    return float(value) if isinstance(value, float) else int(value) if name != "string" else value


def decimal_of(value: Any) -> Any:
    number = value.to_decimal()
    if not number.is_finite():
        return str(value)
    _, digits, exponent = number.as_tuple()
    whole = len(digits) + exponent if exponent > 0 and any(digits) else len(digits)
    if max(whole, -exponent) <= 38 and exponent <= 38:
        return decimal.Decimal(number)
    return str(value)


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal, NaN among them, and of one type."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float):
        return (math.isnan(one) and math.isnan(other)) or one == other
    return bool(one == other)


@given(values())
def test_variant_reads_as_sql_value(value: Any) -> None:
    assert same(plainly(value), read(_variant.variant(value)))


@pytest.mark.parametrize(
    "value",
    [
        {"b": 1, "a": [1, 200, 70_000, 2**40, -1, -129], "c": {"b": "x" * 100}},
        {f"k{i:03}": i for i in range(300)},
        list(range(300)),
        ["x" * size for size in (63, 64, 255, 256, 70_000)],
        Decimal32.from_decimal("1.50"),
        Decimal64.from_decimal("-0.001"),
        Decimal128.from_decimal("-12345678901234567890.5"),
        Decimal128.from_decimal("1E+40"),
        Decimal64.from_decimal("NaN"),
        {1: 2, "a": 3},
        AmqpMap([("a", 1), (Symbol("a"), 2)]),
        Described(Symbol("d"), [1]),
        Array("int", [1, 2]),
        ULong(2**64 - 1),
        Timestamp(2**62),
        {"é": 1, "z": 2, "😀": 3, "\uffff": 4},
    ],
    ids=lambda value: repr(value)[:30],
)
def test_examples_of_variants(value: Any) -> None:
    assert same(plainly(value), read(_variant.variant(value)))


def test_the_bytes_of_a_variant() -> None:
    """By hand, from the specification of Parquet's Variant."""
    cell = _variant.variant({"b": 1, "a": True, "c": None})

    assert bytes.fromhex("01 03 00 01 02 03") + b"bac" == cell["metadata"]
    # An object: 3 values; ids of a, b, c; where they begin, and the end; 1, true, null.
    assert bytes.fromhex("02 03 01 00 02 02 00 03 04 0c01 04 00") == cell["value"]


def test_variant_over_size_limit_violates_a_rule() -> None:
    octets = Message(b"", application_properties={"a": b"x" * (1 << 24)}).encode()
    fits = Message(b"", application_properties={"a": b"x" * 1000}).encode()
    wanted = ["application_properties", "error_code"]

    found = columns.decode([octets, fits], wanted, maps="variant").to_pylist()

    assert (None, "size-limit") == tuple(found[0].values())
    assert b"x" * 1000 == read(found[1]["application_properties"])["a"]


@settings(max_examples=15)
@given(st.lists(messages(), max_size=2))
def test_lean_columns_agree_with_exact_columns(drawn: list[Message]) -> None:
    octets = [message.encode() for message in drawn]

    lean = columns.decode(octets, "lean", maps="variant")
    exact = columns.decode(octets)

    assert list(columns.LEAN) == lean.schema.names
    maps = {"message_annotations", "application_properties"}
    for name in {*columns.LEAN} - {"body_text", "body_value", "error"} - maps:
        assert repr(exact.column(name).to_pylist()) == repr(lean.column(name).to_pylist())
    for message, text, value in zip(
        drawn, lean["body_text"].to_pylist(), lean["body_value"].to_pylist(), strict=True
    ):
        assert text_of(message) == text
        assert (value is None) == (message.body is None or text_is_data(message))


def text_is_data(message: Message) -> bool:
    body = message.body[0] if isinstance(message.body, list) else message.body
    return isinstance(body, Data)


def text_of(message: Message) -> str | None:
    if message.body is None:
        return None
    if text_is_data(message):
        try:
            return message.body_bytes().decode()
        except UnicodeDecodeError:
            return None
    value = getattr(message.body, "value", None)
    return value if type(value) is str else None


@pytest.mark.once
def test_sequences_are_a_list_of_lists() -> None:
    wires = [
        Message([AmqpSequence([1, "two"])]).encode(),
        Message([AmqpSequence([1]), AmqpSequence([])]).encode(),
    ]

    found = columns.decode(wires, ["body_value"])["body_value"].to_pylist()

    assert [[[1, "two"]], [[1], []]] == [read(cell) for cell in found]


@pytest.mark.once
def test_error_struct_is_null_without_an_error() -> None:
    sound = Message(b"", properties=Properties(message_id="m")).encode()
    flat = ["error_code", "error_clause", "error_offset"]

    found = columns.decode([sound, sound[:-1], None], ["error", *flat]).to_pylist()

    assert [None, None] == [found[0]["error"], found[2]["error"]]
    assert list(found[1]["error"].values()) == [found[1][name] for name in flat]
    alone = columns.decode([sound, sound[:-1], None], ["error"]).to_pylist()
    assert [row["error"] for row in found] == [row["error"] for row in alone]


def test_validation_is_in_the_struct_of_errors() -> None:
    wire = Message(b"x", message_annotations={ULong(1): 1}).encode()

    (row,) = columns.decode([wire], ["error"], validate="rabbitmq-4").to_pylist()

    (flat,) = columns.decode([wire], ["error_code"], validate="rabbitmq-4").to_pylist()
    assert flat["error_code"] is not None
    assert flat["error_code"] == row["error"]["code"]


TYPED: list[tuple[Any, dict[str, Any]]] = [
    ("x", {"string": "x"}),
    (Symbol("x"), {"string": "x"}),
    (Char("x"), {"string": "x"}),
    (uuid.UUID(int=1), {"string": str(uuid.UUID(int=1))}),
    (True, {"string": "true", "boolean": True}),
    (False, {"string": "false", "boolean": False}),
    (5, {"string": "5", "bigint": 5, "double": 5.0}),
    (UByte(5), {"string": "5", "bigint": 5, "double": 5.0}),
    (2**63 - 1, {"string": str(2**63 - 1), "bigint": 2**63 - 1, "double": 2.0**63}),
    (ULong(5), {"string": "5", "bigint": 5, "double": 5.0}),
    (ULong(2**64 - 1), {"string": str(2**64 - 1), "double": 2.0**64}),
    (0.5, {"string": "0.5", "double": 0.5}),
    (Float(0.5), {"string": "0.5", "double": 0.5}),
    (Decimal32.from_decimal("1.5"), {"string": "1.5", "double": 1.5}),
    (Timestamp(1_000), {"timestamp": EPOCH + datetime.timedelta(seconds=1)}),
    (Timestamp(2**62), {}),
    (b"x", {"binary": b"x"}),
    (None, {}),
]
KINDS = ("string", "bigint", "double", "boolean", "timestamp", "binary")


@pytest.mark.parametrize("value, expected", TYPED, ids=[repr(value) for value, _ in TYPED])
def test_an_entry_as_a_plain_column(value: Any, expected: dict[str, Any]) -> None:
    wires = [
        Message(b"", application_properties={"k": value}).encode(),
        Message(b"", application_properties={"other": 1}).encode(),
        Message(b"").encode(),
        b"\xff",
    ]
    asked = [f"application_properties.k {kind} as {kind}" for kind in KINDS]

    found = columns.decode(wires, asked)

    assert found.schema == columns.schema_of(asked)
    rows = found.to_pylist()
    assert [dict.fromkeys(KINDS, None)] * 3 == rows[1:]
    assert {**dict.fromkeys(KINDS), **expected} == rows[0]


@given(st.lists(simple_values(), max_size=6), st.sampled_from(KINDS))
def test_column_of_mixed_types_equals_single_decodes(drawn: list[Any], kind: str) -> None:
    wires = [Message(b"", application_properties={"k": value}).encode() for value in drawn]
    asked = [f"application_properties.k {kind}"]

    together = columns.decode(wires, asked)["k"].to_pylist()

    alone = [columns.decode([wire], asked)["k"].to_pylist()[0] for wire in wires]
    assert repr(alone) == repr(together)


@pytest.mark.once
def test_entry_column_has_the_requested_name() -> None:
    wire = Message(b"", application_properties={"a b": UInt(1), "subject": "s", "x string": 2})
    asked = [
        "application_properties.'a b' bigint",
        "application_properties.subject string as topic",
        "application_properties['x string'] bigint",
        "application_properties.'a b'",
    ]

    batch = columns.decode([wire.encode()], asked)

    assert ["a b", "topic", "x string", asked[3]] == batch.schema.names
    assert [1, "s", 2] == list(batch.to_pylist()[0].values())[:3]
    with pytest.raises(ValueError, match="duplicate columns: subject"):
        columns.decode([], ["subject", "application_properties.subject string"])


@pytest.mark.once
def test_every_column_has_a_comment() -> None:
    exact, lean = columns.schema_of(), columns.schema_of("lean", maps="variant")
    named = columns.schema_of(["wire", "application_properties.k string", "error"])

    assert {*exact.names, *lean.names, "wire"} - {*_schema.COMPUTED_COLUMNS} == {
        *_schema.COLUMN_COMMENTS
    }
    computed = columns.schema_of([*_schema.COMPUTED_COLUMNS])
    for field in (*exact, *lean, *named, *computed):
        assert field.metadata[b"comment"]
    assert b"in ms" in exact.field("ttl").metadata[b"comment"]
    assert columns.VARIANT == lean.field("application_properties").type


@pytest.mark.once
@pytest.mark.parametrize("maps", ["MAP", "", None])
def test_maps_must_be_map_or_variant(maps: Any) -> None:
    with pytest.raises(ValueError, match="must be map or variant"):
        columns.decode([], maps=maps)


@given(st.lists(messages() | st.just(Message(b"no value")), max_size=6))
def test_members_of_null_variant_are_not_null(drawn: list[Message]) -> None:
    """Casts and consumers in C++ look there, and the type says that none is."""
    wires = [*(message.encode() for message in drawn), b"damaged"]
    for column in columns.decode(wires, "lean", maps="variant").columns:
        if column.type == columns.VARIANT:
            assert [0, 0] == [column.field(name).null_count for name in ("value", "metadata")]
            assert column.cast(pa.struct(list(column.type))).equals(column)
