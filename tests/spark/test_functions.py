"""`amqp10msg.spark`: what its functions make of DataFrames, held against the same without Spark."""

from __future__ import annotations

import decimal
import itertools
import warnings
from pathlib import Path
from typing import Any, cast

import attrs
import pytest

from amqp10msg import (
    AmqpSequence,
    Data,
    Header,
    Message,
    Properties,
    ULong,
    encode_value,
    load_rules,
    validate,
)
from amqp10msg.validation import PROFILES, ProfileName
from amqp10msg.wire import primitives

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark", reason="pyspark is not installed: pip install '.[spark]'")

from pyspark.sql import Observation  # noqa: E402
from pyspark.sql.pandas import functions as pandas_functions  # noqa: E402
from pyspark.sql.types import StructType, VariantType  # noqa: E402

from amqp10msg import columns, spark  # noqa: E402
from amqp10msg.jobs.job import decode_column  # noqa: E402
from amqp10msg.spark._frames import arrow_schema  # noqa: E402
from amqp10msg.spark.functions import _converter  # noqa: E402
from tests.samples import corpus_cases  # noqa: E402

pytestmark = [pytest.mark.once, pytest.mark.xdist_group("spark")]

IN_SQL = pytest.mark.skipif(
    not hasattr(pandas_functions, "arrow_udf"), reason="amqp10_decode in SQL needs PySpark 4.1"
)

# Sound and broken messages of every kind, and rows without one.
WIRES: list[bytes | None] = [
    *(case.data for case in corpus_cases() if case.kind == "message" and not case.limits),
    None,
    b"",
]
SOUND = Message(b"hello", properties=Properties(message_id="m-1")).encode()


def frame(session: Any, wires: list[bytes | None], **more: Any) -> Any:
    table = {"id": pa.array(range(len(wires))), "wire": pa.array(wires, pa.binary())}
    return session.createDataFrame(pa.table({**table, **more}))


def rows(df: Any) -> list[dict[str, Any]]:
    variants = [field.name for field in df.schema if isinstance(field.dataType, VariantType)]
    made = df.drop(*variants).toArrow().to_pylist()
    assert isinstance(made, list)
    if variants:
        # toArrow of PySpark 4.3 takes no VARIANT that is null.
        found = {row["id"]: row for row in df.select("id", *variants).collect()}
        for row in made:
            for name in variants:
                cell = found[row["id"]][name]
                row[name] = cell and {"value": bytes(cell.value), "metadata": bytes(cell.metadata)}
    return sorted(made, key=lambda row: row["id"]) if made and "id" in made[0] else made


def said(found: list[dict[str, Any]]) -> list[str]:
    """What rows say, in the order of their columns' names; a NaN equals nothing."""
    return [repr(sorted(row.items())) for row in found]


@pytest.mark.parametrize("maps", ["map", "variant"])
@pytest.mark.parametrize("names", ["all", "lean"])
def test_decode_equals_columns_decode(spark_session: Any, names: str, maps: columns.MapsAs) -> None:
    expected = decode_column(pa.array(WIRES, pa.binary()), names, maps=maps)

    made = spark.decode(frame(spark_session, WIRES).repartition(3), columns=names, maps=maps)

    assert ["id", *expected.schema.names] == made.columns
    wanted = [{"id": i, **row} for i, row in enumerate(expected.to_pylist())]
    assert said(wanted) == said(rows(made))


@pytest.mark.parametrize("profile", [None, *PROFILES])
def test_decode_selects_columns_with_profile(
    spark_session: Any, profile: ProfileName | None
) -> None:
    wanted = ["subject", "application_properties.tenant", "application_properties.a string", "wire"]
    given = pa.array(WIRES, pa.binary())
    expected = decode_column(given, [*wanted, "error"], profile)

    made = spark.decode(frame(spark_session, WIRES), columns=wanted, validate=profile, keep=[])

    assert expected.schema.names == made.columns
    assert list(map(repr, expected.to_pylist())) == list(map(repr, rows(made)))


def test_message_format_is_read_from_column(spark_session: Any) -> None:
    df = frame(spark_session, [SOUND, None], message_format=pa.array([7, None], pa.int64()))

    made = rows(spark.decode(df, message_format="message_format"))

    assert [7, None] == [row["message_format"] for row in made]


def test_one_bad_message_in_a_thousand_is_one_explained_row(spark_session: Any) -> None:
    wires = [SOUND] * 999 + [SOUND[:-1]]

    made = spark.decode(frame(spark_session, [*wires]).repartition(4), keep=["id", "wire"])

    good = made.where("error is null")
    (bad,) = rows(made.where("error is not null").select("id", "wire", "error"))
    assert 999 == good.count()
    assert (999, SOUND[:-1], "truncated") == (bad["id"], bad["wire"], bad["error"]["code"])
    assert bad["error"]["clause"].startswith("Part 1")
    assert isinstance(bad["error"]["offset"], int)


def test_batch_over_size_limit_is_decoded_in_halves(spark_session: Any) -> None:
    # An array of 300 nulls: 13 bytes, and 2,718 of JSON. Columns may have 64 MiB of JSON.
    count = 32_000
    wires: list[bytes | None] = [bytes.fromhex("005377f0000000050000012c40")] * count
    with pytest.raises(ValueError, match="decode fewer messages per call"):
        columns.decode(wires)
    (text,) = columns.decode(wires[:1])["body_json"].to_pylist()

    df = frame(spark_session, wires).coalesce(1)
    batch_size = "spark.sql.execution.arrow.maxRecordsPerBatch"
    usual = spark_session.conf.get(batch_size)
    spark_session.conf.set(batch_size, str(count))
    try:
        made = spark.decode(df).selectExpr("length(body_json) AS size", "error")
        counted = made.groupBy("size", "error").count().collect()
        assert [(len(text), None, count)] == [tuple(row) for row in counted]
    finally:
        spark_session.conf.set(batch_size, usual)


@pytest.mark.parametrize("profile", PROFILES)
def test_validate_equals_single_message_validation(
    spark_session: Any, profile: ProfileName
) -> None:
    made = rows(spark.validate(frame(spark_session, WIRES), profile))

    for row, octets in zip(made, WIRES, strict=True):
        assert octets == row["wire"]
        if octets is None:
            assert (None, None) == (row["valid"], row["violations"])
            continue
        found = [
            {
                k: v.encode("utf-8", "backslashreplace").decode() if isinstance(v, str) else v
                for k, v in attrs.asdict(violation).items()
            }
            for violation in validate(octets, PROFILES[profile])
        ]
        assert found == row["violations"]
        assert row["valid"] == all(v["severity"] != "error" for v in found)


def test_rules_of_a_file_reach_the_workers(spark_session: Any, tmp_path: Path) -> None:
    file = tmp_path / "acme.py"
    file.write_text(
        "from amqp10msg import rule\n"
        "LONGEST = 5\n"
        "@rule('short-subject')\n"
        "def short_subject(message):\n"
        "    if len(message.subject or '') > LONGEST: yield 'too long'\n"
    )
    profile = PROFILES["oasis"].derive("acme", "Acme's messages.", rules=load_rules(file))
    messages = [Message("x", subject=subject).encode() for subject in ("short", "longer")]

    made = rows(spark.validate(frame(spark_session, [*messages, None]), profile))

    assert [True, False, None] == [row["valid"] for row in made]
    assert ["too long"] == [violation["text"] for violation in made[1]["violations"]]


def test_decoded_messages_encode_to_equal_messages(spark_session: Any) -> None:
    wires: list[bytes | None] = [
        Message(
            b"body %d" % i,
            properties=Properties(message_id=f"m-{i}", subject="s"),
            application_properties={"tenant": f"t{i % 3}"},
        ).encode()
        for i in range(50)
    ]
    # What only columns of their own say.
    wires += [
        message.encode()
        for message in (
            Message([Data(b"one"), Data(b""), Data(b"x" * 300)]),
            Message([Data(b""), Data(b"")], properties=Properties()),
            Message(properties=Properties()),
            Message("text", header=Header(), application_properties={}),
            Message([AmqpSequence([]), AmqpSequence([None])]),
        )
    ]

    decoded = spark.decode(frame(spark_session, wires), columns="all", maps="map")
    made = rows(spark.encode(decoded, "made"))

    assert [None] * 55 == [row["encode_error"] for row in made]
    assert [Message.decode(w) for w in wires if w] == [Message.decode(row["made"]) for row in made]


PLAIN = [
    ("map<string,string>", ["a", None, ""]),
    ("map<string,boolean>", [True, None]),
    ("map<string,tinyint>", [primitives.Byte(-1)]),
    ("map<string,smallint>", [primitives.Short(300)]),
    ("map<string,int>", [primitives.Int(5)]),
    ("map<string,bigint>", [1 << 40, None]),
    ("map<string,float>", [primitives.Float(1.5)]),
    ("map<string,double>", [0.1]),
    ("map<string,binary>", [b"\xff"]),
    ("map<string,decimal(20,0)>", [primitives.ULong(2**64 - 1)]),
    ("map<string,timestamp>", [primitives.Timestamp(1_700_000_000_123)]),
]


@pytest.mark.parametrize("kind, values", PLAIN, ids=[kind for kind, _ in PLAIN])
def test_encode_accepts_maps_of_plain_values(kind: str, values: list[Any]) -> None:
    """In Arrow alone, as workers get them, slices included."""
    field = pa.field("application_properties", arrow_schema(_schema(kind)).field(0).type)
    found = {f"k{i}": value for i, value in enumerate(values)}
    cells = [None, [(k, _plain(v, field.type.item_type)) for k, v in found.items()], [], None]
    array = pa.array([*cells, *cells], field.type).slice(1, 5)

    made = _converter(field, columns.SCHEMA.field(field.name).type)(array)

    wires = columns.encode(pa.record_batch({field.name: made})).to_pylist()
    decoded: list[Any] = [None if wire is None else Message.decode(wire) for wire in wires]
    assert [found, {}, None, None, found] == [
        None if one is None else dict(one.application_properties or {}) for one in decoded
    ]
    types = {type(value) for value in values} - {type(None)}
    assert types == {type(v) for v in dict(decoded[0].application_properties).values()} - {
        type(None)
    }


def _schema(kind: str) -> Any:
    return StructType.fromDDL(f"m {kind}")


def _plain(value: Any, kind: Any) -> Any:
    if value is not None and pa.types.is_timestamp(kind):
        return value * 1000
    if value is not None and pa.types.is_decimal(kind):
        return decimal.Decimal(int(value))
    return value


def test_encode_accepts_map_entries(spark_session: Any) -> None:
    df = frame(spark_session, [Message(b"x", application_properties={"a b": 1, "t": "u"}).encode()])
    names = ["application_properties.'a b'", "application_properties.t", "properties.to", "body"]
    decoded = spark.decode(df, columns=names, maps="map", keep=[])
    assert [*names[:2], "to", "body", "error"] == decoded.columns
    plain = spark_session.sql("select 'v' `footer.k`, 5L `footer.n`, 'x' other")

    (made,), (row,) = rows(spark.encode(decoded, keep=[])), rows(spark.encode(plain))

    message: Any = Message.decode(made["wire"])
    assert {"a b": 1, "t": "u"} == dict(message.application_properties)
    assert {"k": "v", "n": 5} == dict(cast("Any", Message.decode(row["wire"]).footer))
    assert "x" == row["other"]


def test_decoded_identifiers_keep_their_types(spark_session: Any) -> None:
    octets = Message(properties=Properties(message_id=ULong(1))).encode()
    df = spark.decode(
        frame(spark_session, [octets]), columns=["message_id", "message_id_type"], keep=[]
    )

    (typed,) = rows(spark.encode(df))
    (text,) = rows(spark.encode(spark_session.sql("select '1' message_id")))

    assert octets == typed["wire"]
    assert Message(properties=Properties(message_id="1")).encode() == text["wire"]


def test_row_that_cannot_be_encoded_has_reason(spark_session: Any) -> None:
    df = spark_session.sql(
        "select id, if(id = 1, 'no number', '7') ttl, map('tenant', 'x') application_properties, "
        "'hello' body from range(3)"
    )

    made = rows(spark.encode(df))

    assert [True, False, True] == [row["encode_error"] is None for row in made]
    assert "no number" in made[1]["encode_error"]
    message: Any = Message.decode(made[2]["wire"])
    assert (7, {"tenant": "x"}, b"hello") == (
        message.header.ttl,
        dict(message.application_properties),
        message.body.data,
    )


@IN_SQL
def test_messages_decode_in_sql(spark_session: Any) -> None:
    df = frame(spark_session, WIRES)
    df.createOrReplaceTempView("raw")
    found = decode_column(pa.array(WIRES, pa.binary()), "lean", maps="variant").to_pylist()

    made = rows(
        spark_session.sql("select id, m.* from (select id, amqp10_decode(wire) m from raw)")
    )

    assert said([{"id": i, **row} for i, row in enumerate(found)]) == said(made)
    spark.register(spark_session, "ids", columns="message_id", validate="oasis")
    (row,) = spark_session.sql(f"select ids(x'{SOUND.hex()}') m").collect()
    assert {"message_id": "m-1", "error": None} == row["m"].asDict()


@IN_SQL
def test_filters_and_columns_reach_the_scan(spark_session: Any, tmp_path: Path) -> None:
    df = frame(spark_session, [SOUND, SOUND], other=["x", "x"])
    df.withColumnRenamed("id", "day").write.partitionBy("day").parquet(str(tmp_path / "in"))
    days = spark_session.read.parquet(str(tmp_path / "in"))
    days.createOrReplaceTempView("days")

    in_sql = spark_session.sql(
        "select m.message_id from (select day, amqp10_decode(wire) m from days) where day = 1"
    )
    before = spark.decode(days.where("day = 1"), columns="message_id", keep=["day"])

    assert ["day", "message_id", "error"] == before.columns
    for found in (in_sql, before):
        assert ["m-1"] == [row["message_id"] for row in found.collect()]
        plan = found._jdf.queryExecution().executedPlan().toString()
        assert "day#" in plan.partition("PartitionFilters: [")[2].partition("]")[0]
        assert "ReadSchema: struct<wire:binary>" in plan


def test_empty_message_is_an_error_and_null_is_not(spark_session: Any) -> None:
    made = rows(spark.decode(frame(spark_session, [b"", None, SOUND]), columns="message_id"))

    error = {"code": "body-missing", "clause": "Part 3, 3.2", "offset": 0}
    assert [(error, None), (None, None), (None, "m-1")] == [
        (row["error"], row["message_id"]) for row in made
    ]


MIXED = Message(
    {"n": 1, "list": [1.5, "x"]},
    properties=Properties(message_id="m-1"),
    message_annotations={"x-opt-at": primitives.Timestamp(1_700_000_000_123)},
    application_properties={
        "tenant": "acme",
        "n": primitives.UInt(7),
        "big": primitives.ULong(2**64 - 1),
        "half": 0.5,
        "yes": True,
        "none": None,
    },
).encode()


@IN_SQL
def test_sql_finds_values_in_a_variant(spark_session: Any) -> None:
    df = spark.decode(frame(spark_session, [MIXED, SOUND[:-1]])).where("error is null")

    (row,) = df.selectExpr(
        "application_properties:tenant::string tenant",
        "application_properties:n::int + 1 as next",
        "application_properties:big::decimal(20, 0) big",
        "application_properties:half::double half",
        "application_properties:yes::boolean yes",
        "application_properties:none::string none",
        "application_properties:gone::string gone",
        "cast(message_annotations:`x-opt-at`::timestamp as string) at",
        "body_value:list[1]::string item",
        "to_json(body_value) body",
    ).collect()

    assert {
        "tenant": "acme",
        "next": 8,
        "big": decimal.Decimal(2**64 - 1),
        "half": 0.5,
        "yes": True,
        "none": None,
        "gone": None,
        "at": "2023-11-14 22:13:20.123",
        "item": "x",
        "body": '{"list":[1.5,"x"],"n":1}',
    } == row.asDict()


@IN_SQL
def test_lean_table_has_column_comments(spark_session: Any, tmp_path: Path) -> None:
    wanted = ["message_id", "creation_time", "application_properties", "body_text"]
    wanted += ["application_properties.tenant string", "error"]
    df = spark.decode(frame(spark_session, [MIXED, SOUND]), columns=wanted, keep=[])
    df.write.mode("overwrite").option("path", str(tmp_path / "t")).saveAsTable("lean")
    try:
        described = spark_session.sql("describe lean").collect()
        read = spark_session.table("lean").selectExpr(
            "tenant", "application_properties:n::int n", "body_text"
        )
        found = {tuple(row) for row in read.collect()}
    finally:
        spark_session.sql("drop table lean")

    assert [df.schema[row["col_name"]].metadata["comment"] for row in described] == [
        row["comment"] for row in described
    ]
    comment = "when the message was created, UTC; null outside the years 1 to 9999"
    assert comment == {row["col_name"]: row["comment"] for row in described}["creation_time"]
    assert {("acme", 7, None), (None, None, "hello")} == found


HEADERS: list[list[tuple[str, bytes | None]] | None] = [
    [("k", encode_value("v")), ("n", encode_value(1))],
    None,
    [],
    [("null", None), ("t", encode_value(value=True))],
]


def test_map_values_are_extracted(spark_session: Any) -> None:
    values = [v for row in HEADERS for _, v in row or ()]
    decoded = iter(columns.decode_values(pa.array(values, pa.binary())).to_pylist())
    expected = [None if row is None else [(k, next(decoded)) for k, _ in row] for row in HEADERS]
    table = pa.table(
        {"h": pa.array(HEADERS, pa.map_(pa.string(), pa.binary())), "id": range(len(HEADERS))}
    )

    made = spark.decode_values(spark_session.createDataFrame(table), "h")

    assert ["h", "id"] == made.columns
    assert expected == [row["h"] for row in rows(made)]


def test_kafka_headers_keep_duplicate_names(spark_session: Any) -> None:
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    given = [
        None if row is None else [{"key": k, "value": v} for k, v in (*row, ("k", b"\xa1\x01z"))]
        for row in HEADERS
    ]
    values = [entry["value"] for row in given for entry in row or ()]
    decoded = iter(columns.decode_values(pa.array(values, pa.binary())).to_pylist())
    expected = [
        None if row is None else [{"key": e["key"], "value": next(decoded)} for e in row]
        for row in given
    ]
    table = pa.table({"id": range(len(given)), "headers": pa.array(given, kind)})

    made = spark.decode_values(spark_session.createDataFrame(table), "headers", to="typed")

    assert ["id", "headers", "typed"] == made.columns
    assert expected == [row["typed"] for row in rows(made)]


def test_plain_column_values_are_extracted(spark_session: Any) -> None:
    values = [encode_value("v"), None, encode_value(1.5)]
    df = frame(spark_session, values)

    made = spark.decode_values(df, "wire")

    expected = columns.decode_values(pa.array(values, pa.binary())).to_pylist()
    assert expected == [row["wire"] for row in rows(made)]


def test_metrics_count_each_row_once(spark_session: Any) -> None:
    seen = Observation()
    df = frame(spark_session, [SOUND, SOUND[:-1], None, SOUND]).repartition(2)

    counted = spark.metrics(spark.decode(df, keep=["wire"]), seen, column="wire")
    counted.collect()

    assert {"rows": 4, "errors": 1, "octets": 3 * len(SOUND) - 1} == seen.get
    encoded = Observation()
    bad = spark_session.sql("select 'x' ttl, 'q' `to` from range(3)")
    spark.metrics(spark.encode(bad), encoded).collect()
    assert {"rows": 3, "errors": 3} == encoded.get


@pytest.mark.parametrize(
    "make, text",
    [
        (lambda df: spark.decode(df, "nothing"), "no column 'nothing' in the DataFrame"),
        (lambda df: spark.decode(df, "id"), "'id' has the type bigint, and must be binary"),
        (
            lambda df: spark.decode(df, columns=["wire"], keep=["wire"]),
            "wire: the DataFrame has a column",
        ),
        (lambda df: spark.decode(df, keep=["gone"]), "no column 'gone' in the DataFrame"),
        (lambda df: spark.decode(df, columns="gone"), "unknown column 'gone'"),
        (
            lambda df: spark.decode(df.withColumnRenamed("id", "Subject")),
            "Subject: the DataFrame has a column with the name of a new",
        ),
        (
            lambda df: spark.decode(
                df, columns=["application_properties.a", "application_properties.A"]
            ),
            "application_properties.A: another column differs only in case",
        ),
        (
            lambda df: spark.encode(df.selectExpr("array(1) body")),
            "'body' must be binary.*, got list<",
        ),
        (
            lambda df: spark.encode(df.selectExpr("map(1, 'x') footer")),
            "'footer' must be .*or a map of strings or numbers, got map<",
        ),
        (
            lambda df: spark.encode(df.select("id")),
            "no column of the DataFrame is a field of messages",
        ),
        (
            lambda df: spark.encode(spark.decode(df, columns=["message_id"])),
            "message_id was decoded without message_id_type",
        ),
        (
            lambda df: spark.encode(
                spark.decode(df, columns=["message_id"]).selectExpr("message_id correlation_id")
            ),
            "correlation_id was decoded without correlation_id_type",
        ),
        (
            lambda df: spark.encode(spark.decode(df)),
            "is a VARIANT, which has no AMQP types",
        ),
        (lambda df: spark.decode(df, maps=cast("Any", "json")), "must be map or variant"),
        (
            lambda df: spark.decode(df, columns="application_properties.id bigint"),
            "id: the DataFrame has a column with the name of a new",
        ),
        (lambda df: spark.validate(df, cast("Any", "nobody")), "unknown profile 'nobody'"),
        (lambda df: spark.decode_values(df, "id"), "must be binary, map<string,binary>"),
    ],
)
def test_invalid_call_fails_before_reading(spark_session: Any, make: Any, text: str) -> None:
    df = frame(spark_session, [SOUND])

    with pytest.raises(ValueError, match=text):
        make(df)


def test_columns_with_odd_names_are_carried_through(spark_session: Any) -> None:
    df = frame(spark_session, [SOUND])
    df = df.withColumnRenamed("wire", "a.b").withColumnRenamed("id", "c d, e")

    (row,) = spark.decode(df, "a.b", columns=["message_id"]).collect()

    assert (0, "m-1") == (row["c d, e"], row["message_id"])


def test_session_uses_utc_and_validates_schemas(spark_session: Any) -> None:
    assert "UTC" == spark_session.conf.get("spark.sql.session.timeZone")
    name = "spark.sql.execution.arrow.pyspark.validateSchema.enabled"
    assert "true" == spark_session.conf.get(name)


def test_shared_rows_cover_many_cases() -> None:
    """Else the comparisons above would compare little."""
    found = columns.decode(pa.array(WIRES, pa.binary())).to_pylist()

    assert 100 < len(WIRES)
    assert 10 < len({row["error_code"] for row in found})
    assert 3 <= len(list(itertools.groupby(sorted(str(row["body_kind"]) for row in found))))


def test_lenient_decoding_returns_the_rows_of_columns_decode(spark_session: Any) -> None:
    names = ["message_id", "subject", "application_properties", "error"]
    lenient = spark.decode(
        frame(spark_session, WIRES), columns=names, maps="map", keep=["id"], strict=False
    )

    expected = decode_column(pa.array(WIRES, pa.binary()), names, strict=False)

    rows = lenient.orderBy("id").toArrow().drop(["id"]).to_pylist()
    assert repr(expected.to_pylist()) == repr(rows)
    assert any(row["error"] and row["message_id"] for row in rows)


def test_null_variant_reaches_python_as_documented(spark_session: Any) -> None:
    """Whether the page about Spark says what `toArrow` does with a VARIANT that is null."""
    lean = spark.decode(frame(spark_session, [SOUND, SOUND[:-1]])).drop("id")
    variants = [name for name, kind in lean.dtypes if kind == "variant"]
    as_json = [f"to_json({c}) as {c}" if c in variants else c for c in lean.columns]

    assert variants == ["message_annotations", "application_properties", "body_value"]
    assert 2 == lean.drop(*variants).toArrow().num_rows
    assert 2 == lean.selectExpr(as_json).toArrow().num_rows
    assert 2 == spark.decode(frame(spark_session, [SOUND, b""]), maps="map").toArrow().num_rows
    if spark_session.version.startswith("4.3."):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PySpark calls what pandas 3 deprecates
            assert 2 == len(lean.toPandas())
        with pytest.raises(pa.ArrowInvalid, match="nulls in input cannot be viewed"):
            lean.toArrow()
