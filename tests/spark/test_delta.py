"""`amqp10msg.spark.to_delta`: the files, as workers write them, and the transactions."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqp10msg import Message, Properties

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark", reason="pyspark is not installed: pip install '.[spark]'")
deltalake = pytest.importorskip("deltalake", reason="deltalake is not installed: make setup")

from amqp10msg import columns, spark  # noqa: E402
from amqp10msg.spark import delta  # noqa: E402
from amqp10msg.spark.delta import _TableLocation, _TaskWriter  # noqa: E402

pytestmark = pytest.mark.xdist_group("spark")

WIRES = [
    Message(
        b"x", properties=Properties(message_id=f"m-{n}", group_id=f"g{n % 3}", creation_time=n)
    ).encode()
    for n in range(20)
]
COLUMNS = ["message_id", "group_id", "creation_time", "body"]


def rows_of(place: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = deltalake.DeltaTable(place).to_pyarrow_table().to_pylist()
    return rows


def frame(session: Any, wires: list[bytes]) -> Any:
    return spark.decode(session.createDataFrame(pa.table({"wire": wires})), columns=COLUMNS)


def test_messages_do_not_pass_the_driver(
    spark_session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    df = frame(spark_session, [*WIRES, WIRES[0][:-1]])

    def fail(_: object) -> None:
        raise AssertionError("the rows come to the driver")

    monkeypatch.setattr(type(df), "toArrow", fail)
    write = spark.to_delta(
        tmp_path / "good", "app", quarantine=tmp_path / "bad", partition_by=["group_id"]
    )
    for _ in range(2):  # the second time it is there
        write(df, 0)

    good, bad = rows_of(tmp_path / "good"), rows_of(tmp_path / "bad")
    assert sorted((f"m-{n}", f"g{n % 3}", b"x") for n in range(20)) == sorted(
        (row["message_id"], row["group_id"], row["body"]) for row in good
    )
    assert ["truncated"] == [row["error"]["code"] for row in bad]
    said = {
        field.name: field.metadata
        for field in deltalake.DeltaTable(tmp_path / "good").schema().fields
    }
    assert "when the message was created" in said["creation_time"]["comment"]
    table = deltalake.DeltaTable(tmp_path / "good")
    assert ["group_id"] == table.metadata().partition_columns
    assert {"g0", "g1", "g2"} == {
        *pa.table(table.get_add_actions())["partition"]
        .combine_chunks()
        .field("group_id")
        .to_pylist()
    }


def test_new_columns_are_added_and_others_are_null(spark_session: Any, tmp_path: Path) -> None:
    df = frame(spark_session, WIRES[:2])
    write = spark.to_delta(tmp_path / "t", "app")

    write(df.select("message_id"), 0)
    write(df.select("body"), 1)

    found = [(row["message_id"], row["body"]) for row in rows_of(tmp_path / "t")]
    assert {("m-0", None), ("m-1", None), (None, b"x")} == {*found}
    assert 4 == len(found)


def test_rows_of_another_schema_are_an_error(spark_session: Any, tmp_path: Path) -> None:
    df = frame(spark_session, WIRES[:2])
    spark.to_delta(tmp_path / "t", "app")(df, 0)

    with pytest.raises(ValueError, match=r"message_id of type .*string.*rows have message_id"):
        spark.to_delta(tmp_path / "t", "app")(df.selectExpr("length(message_id) message_id"), 1)
    with pytest.raises(ValueError, match="partition columns of the table, none, got group_id"):
        spark.to_delta(tmp_path / "t", "app", partition_by=["group_id"])(df, 1)
    with pytest.raises(ValueError, match=r"the column body must be a string.*, got binary"):
        spark.to_delta(tmp_path / "u", "app", partition_by=["body"])(df, 0)
    with pytest.raises(ValueError, match="no column gone in the rows"):
        spark.to_delta(tmp_path / "u", "app", partition_by=["gone"])(df, 0)
    with pytest.raises(ValueError, match="no column error or error_code in the rows"):
        spark.to_delta(tmp_path / "u", "app", quarantine="q")(df.select("body"), 0)


def test_default_columns_of_decode_can_be_encoded(spark_session: Any, tmp_path: Path) -> None:
    """Whether the lean columns go into a table as they are, with VARIANT that are null, too."""
    wires = [
        Message(
            b"x",
            properties=Properties(message_id=f"m-{n}"),
            application_properties={"tenant": f"t{n}", "n": n} if n % 2 else None,
        ).encode()
        for n in range(6)
    ]
    df = spark.decode(spark_session.createDataFrame(pa.table({"wire": [*wires, wires[0][:-1]]})))
    write = spark.to_delta(tmp_path / "t", "app", quarantine=tmp_path / "bad")

    write(df, 0)
    write(df.selectExpr("*", "named_struct('v', application_properties) nested"), 1)

    expected = columns.decode(wires, "lean", maps="variant").select(
        ["message_id", "application_properties", "body_text", "body_value"]
    )
    table = deltalake.DeltaTable(tmp_path / "t")
    types = {field.name: field.type for field in table.schema().fields}
    assert "variant" == str(json.loads(types["application_properties"].to_json()))
    assert "variant" == json.loads(types["nested"].to_json())["fields"][0]["type"]
    said = {field.name: field.metadata for field in table.schema().fields}
    assert "comment" in said["application_properties"]
    rows = rows_of(tmp_path / "t")
    for found in (
        [row for row in rows if row["nested"] is None],
        [row for row in rows if row["nested"] is not None],
    ):
        found.sort(key=lambda row: str(row["message_id"]))
        shown = [{name: row[name] for name in expected.schema.names} for row in found]
        assert expected.to_pylist() == shown
    assert 2 == len(rows_of(tmp_path / "bad"))
    # Spark itself finds a VARIANT in the files.
    files = [str(path) for path in (tmp_path / "t").glob("*.parquet")]
    read = spark_session.read.schema("message_id string, application_properties variant")
    query = (
        read.parquet(*files)
        .selectExpr("try_variant_get(application_properties, '$.n', 'int') n")
        .where("n is not null")
    )
    assert [1, 1, 3, 3, 5, 5] == sorted(row.n for row in query.collect())


def test_deltalake_without_variant_is_an_error() -> None:
    class Old:
        """As the schemas of deltalake 1.0 are."""

        @staticmethod
        def from_json(text: str) -> None:
            raise ValueError(f"unknown type in {text}")

        from_arrow = deltalake.Schema.from_arrow

    rows = columns.schema_of("lean", maps="variant")

    with pytest.raises(ValueError, match=r"body_value is a VARIANT.*upgrade.*maps='map'"):
        delta._delta_schema(Old, rows)


SCHEMA = pa.schema(
    [
        ("day", pa.date32()),
        ("flag", pa.bool_()),
        ("n", pa.int64()),
        ("text", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
        ("octets", pa.binary()),
    ]
)
ROWS = st.fixed_dictionaries(
    {
        "day": st.none() | st.sampled_from([datetime.date(2026, 1, 1), datetime.date(1, 1, 1)]),
        "flag": st.none() | st.booleans(),
        "n": st.none() | st.integers(-(2**63), 2**63 - 1),
        "text": st.none()
        | st.text(max_size=3)
        | st.sampled_from(["x" * 100, "x" * 64 + "\U0010ffff" * 2, "\U00020000"]),
        "at": st.none() | st.datetimes(timezones=st.just(datetime.UTC)),
        "octets": st.none() | st.binary(max_size=3),
    }
)


@settings(max_examples=25)  # each makes a table
@given(st.lists(st.lists(ROWS, max_size=6), max_size=3), st.sampled_from([[], ["day", "flag"]]))
def test_task_files_have_rows_and_valid_statistics(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[dict[str, Any]]], by: list[str]
) -> None:
    place = tmp_path_factory.mktemp("delta")
    files = _TaskWriter([_TableLocation(str(place), by, None)])
    given = [pa.RecordBatch.from_pylist(rows, schema=SCHEMA) for rows in batches]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delta, "_MAX_OPEN_FILES", 2)
        (made,) = files.write(iter(given))

    deltalake.transaction.create_table_with_add_actions(
        str(place),
        deltalake.Schema.from_arrow(SCHEMA),
        [
            deltalake.transaction.AddAction(
                row["path"], row["size"], dict(row["partition"]), row["time"], True, row["stats"]
            )
            for row in made.to_pylist()
        ],
        partition_by=by,
    )

    expected = [row for rows in batches for row in rows]
    table = deltalake.DeltaTable(place)
    assert len(expected) == sum(pa.table(table.get_add_actions())["num_records"].to_pylist())
    shown = sorted(table.to_pyarrow_table().select(SCHEMA.names).to_pylist(), key=repr)
    expected = [{name: row[name] for name in SCHEMA.names} for row in expected]
    assert sorted(expected, key=repr) == shown
    for row in expected:
        for name in ("n", "text", "at"):
            # A file whose bounds leave the row out would not be read.
            if row[name] is not None:
                found = table.to_pyarrow_table(filters=[(name, "=", row[name])]).to_pylist()
                assert row[name] in [one[name] for one in found]


def test_batches_of_another_checkpoint_are_written(spark_session: Any, tmp_path: Path) -> None:
    spark_session.createDataFrame(pa.table({"wire": WIRES})).write.parquet(str(tmp_path / "in"))
    rows = spark_session.readStream.schema("wire binary").parquet(str(tmp_path / "in"))
    write = spark.to_delta(tmp_path / "t", "app")

    def run(state: str) -> None:
        query = (
            spark.decode(rows, columns=COLUMNS)
            .writeStream.foreachBatch(write)
            .option("checkpointLocation", str(tmp_path / state))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    run("first")
    # As if it had been killed before the checkpoint had it.
    for name in ("0", ".0.crc"):
        (tmp_path / "first" / "commits" / name).unlink()
    run("first")
    assert len(WIRES) == len(rows_of(tmp_path / "t"))

    with pytest.raises(Exception, match="from another checkpoint, so batch 0 would be skipped"):
        run("second")

    df = frame(spark_session, WIRES)
    write(df, 2)
    with pytest.raises(ValueError, match="batch 2 from another checkpoint, so batch 1 would be"):
        write(df, 1)
    assert 2 * len(WIRES) == len(rows_of(tmp_path / "t"))


def test_delta_stage_names_its_batch(spark_session: Any, tmp_path: Path) -> None:
    spark_session.createDataFrame(pa.table({"wire": WIRES})).write.parquet(str(tmp_path / "in"))
    rows = spark_session.readStream.schema("wire binary").parquet(str(tmp_path / "in"))
    query = (
        spark.decode(rows, columns=COLUMNS)
        .writeStream.foreachBatch(spark.to_delta(tmp_path / "t", "app"))
        .option("checkpointLocation", str(tmp_path / "state"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()

    tracker = spark_session.sparkContext.statusTracker()
    stages = [
        tracker.getStageInfo(stage).name
        for number in tracker.getJobIdsForGroup(str(query.runId))
        for stage in tracker.getJobInfo(number).stageIds
    ]
    assert [f"amqp10msg to_delta: batch 0 -> {tmp_path / 't'}"] == stages
    assert len(WIRES) == len(rows_of(tmp_path / "t"))
