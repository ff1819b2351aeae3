"""`amqp10msg.spark.from_capture`, and files of Event Hubs Capture read without spark-avro."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark", reason="pyspark is not installed: pip install '.[spark]'")
pytest.importorskip("fastavro", reason="needs fastavro: pip install 'amqp10msg[avro]'")

from amqp10msg import spark  # noqa: E402
from amqp10msg.files.event_hubs import message_of  # noqa: E402
from tests.files.test_event_hubs import EVENT, written  # noqa: E402

pytestmark = [pytest.mark.once, pytest.mark.xdist_group("spark")]

MEMBERS = ("member0", "member1", "member2", "member3")
TYPES = (pa.int64(), pa.float64(), pa.string(), pa.binary())
UNION = pa.struct(list(zip(MEMBERS, TYPES, strict=True)))


def cell(value: Any) -> dict[str, Any]:
    """A value as Spark's reader of Avro gives a union."""
    kinds = (int, float, str, bytes)
    return {
        name: value if isinstance(value, kind) else None
        for name, kind in zip(MEMBERS, kinds, strict=True)
    }


def table(*events: dict[str, Any], unions: bool = True) -> Any:
    kind = pa.map_(pa.string(), UNION if unions else pa.string())
    columns = {
        name: pa.array([event[name] for event in events])
        for name in ("SequenceNumber", "Offset", "EnqueuedTimeUtc")
    }
    for name in ("SystemProperties", "Properties"):
        cells = [
            [(k, cell(v) if unions else None if v is None else str(v)) for k, v in e[name].items()]
            for e in events
        ]
        columns[name] = pa.array(cells, kind)
    columns["Body"] = pa.array([event["Body"] for event in events], pa.binary())
    return pa.table({"partition": ["0"] * len(events), **columns})


def test_events_become_messages(spark_session: Any) -> None:
    events = [EVENT, {**EVENT, "SequenceNumber": 8, "Body": None, "Properties": {}}]
    df = spark_session.createDataFrame(table(*events))

    made = spark.from_capture(df).toArrow().to_pylist()

    expected = [message_of(event).encode() for event in events]
    assert expected == [row["wire"] for row in made]
    assert ["partition", "wire", "encode_error"] == list(made[0])
    assert [None, None] == [row["encode_error"] for row in made]

    texts = {**EVENT, "SystemProperties": {"to": "x"}, "Properties": {"n": "5"}}
    plain = spark_session.createDataFrame(table(texts, unions=False))
    (row,) = spark.from_capture(plain, keep=[]).toArrow().to_pylist()
    assert message_of(texts).encode() == row["wire"]


def test_files_are_read_without_spark_avro(spark_session: Any, tmp_path: Path) -> None:
    (tmp_path / "0.avro").write_bytes(written(*[EVENT] * 5))

    df = spark_session.read.format("amqp10").load(str(tmp_path))

    rows = spark.decode(df, columns=["message_id", "application_properties.n bigint"], keep=[])
    assert [("m-1", 5, None)] * 5 == [tuple(row) for row in rows.collect()]
    times = {str(row["time"]) for row in df.selectExpr("cast(time as string) time").collect()}
    assert {"2017-07-25 17:22:18"} == times


def test_missing_or_mistyped_columns_are_an_error(spark_session: Any) -> None:
    df = spark_session.createDataFrame(table(EVENT))

    for wrong, text in {
        "cast(Body as string) Body": "'Body' has the type string, and must be binary",
        "Body, 'x' Properties": "'Properties' must be a map.*, got string",
        "Body, 1 Offset": "'Offset' has the type int, and must be string",
        "partition": "no column 'Body' in the DataFrame",
    }.items():
        with pytest.raises(ValueError, match=text):
            spark.from_capture(df.selectExpr(*wrong.split(", ")))
