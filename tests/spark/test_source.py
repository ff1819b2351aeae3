"""The data source ``amqp10``: files in, and jobs in the sink, whole or not at all."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from amqp10msg import Message, Properties, files

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark", reason="pyspark is not installed: pip install '.[spark]'")

import pyarrow.parquet as pq  # noqa: E402
from pyspark.errors import PySparkException  # noqa: E402
from pyspark.sql.types import StructType  # noqa: E402

from amqp10msg import columns, jobs, spark  # noqa: E402
from amqp10msg.jobs import MESSAGE_SCHEMA, Job  # noqa: E402
from amqp10msg.jobs.manifest import STATS_FILE  # noqa: E402
from amqp10msg.jobs.output import output_of  # noqa: E402
from amqp10msg.spark.source import Amqp10  # noqa: E402
from tests.jobs.job_inputs import SOUND as ALL  # noqa: E402
from tests.jobs.job_inputs import write  # noqa: E402
from tests.samples import corpus_cases  # noqa: E402

pytestmark = [pytest.mark.once, pytest.mark.xdist_group("spark")]

IS_LIMITED = find_spec("pyspark.sql.streaming.datasource") is not None
LIMITED = pytest.mark.skipif(not IS_LIMITED, reason="maxFilesPerTrigger needs PySpark 4.2")

WIRES = [case.data for case in corpus_cases() if case.kind == "message" and not case.limits]
SOUND = ALL[:40]


def stats_of(path: Path) -> dict[str, Any]:
    found = json.loads((path / STATS_FILE).read_text())
    assert isinstance(found, dict)
    return found


def read(folder: Path) -> list[dict[str, Any]]:
    if not any(folder.iterdir()):
        return []
    found = pq.ParquetDataset(folder).read().to_pylist()
    assert isinstance(found, list)
    return found


def test_file_ranges_are_read_exactly_once(spark_session: Any, tmp_path: Path) -> None:
    write(tmp_path / "a.bin", SOUND[:30])
    (tmp_path / "b.jsonl").write_text("".join(f'{{"raw": "{w.hex()}"}}\n' for w in SOUND[30:]))
    (tmp_path / "_unfinished.jsonl").write_text("no")

    df = spark_session.read.format("amqp10").option("rangeBytes", 300).load(str(tmp_path))
    found = df.collect()

    assert spark.MESSAGE_SCHEMA.names == df.columns
    assert sorted(SOUND) == sorted(bytes(row.wire) for row in found)
    assert df.rdd.getNumPartitions() > 5
    one = next(row for row in found if row.wire == SOUND[1])
    assert (str(tmp_path / "a.bin"), 4 + len(SOUND[0])) == (row_source(one), one.offset)


def row_source(row: Any) -> str:
    return str(row.source)


def test_filter_applies_to_one_use_of_a_dataframe(spark_session: Any, tmp_path: Path) -> None:
    """What the push-down of filters of PySpark 4.3 gets wrong."""
    write(tmp_path / "a.bin", SOUND)
    df = spark_session.read.format("amqp10").load(str(tmp_path / "a.bin"))

    assert 41 == df.where("offset = 0").union(df).count()


def test_empty_input_is_an_error(spark_session: Any, tmp_path: Path) -> None:
    df = spark_session.read.format("amqp10").load(str(tmp_path / "none*"))

    with pytest.raises(Exception, match="no such file"):
        df.count()


@pytest.fixture
def captured(monkeypatch: pytest.MonkeyPatch) -> list[files.Record]:
    """Records as they come from a capture, which no form of plain file has all of."""
    made = [
        files.Record(0, SOUND[0], time=1_000_000, address="orders"),
        files.Record(1, SOUND[1], time=2_000_000, address="bills"),
        files.Record(2, SOUND[2], time=None, address=None),
        files.Record(
            3, None, "", "0-9-1", time=2_000_000, content_header=b"", payload=b"", address="x"
        ),
        files.Record(4, b"?", "cut off"),
        files.Record(5, SOUND[3][:-1], time=3_000_000, address="orders"),
    ]
    monkeypatch.setattr(files, "read", lambda *_, **__: iter(made))
    return made


FILTERED = pytest.mark.parametrize(
    "options, offsets",
    [
        ({}, [0, 1, 2, 3, 4, 5]),
        ({"protocol": "1.0"}, [0, 1, 2, 4, 5]),
        ({"protocol": "0-9-1"}, [3, 4]),
        ({"address": "orders"}, [0, 4, 5]),
        ({"since": "1970-01-01T00:00:02Z"}, [1, 3, 4, 5]),
        ({"until": "1970-01-01T00:00:02"}, [0, 4]),
        ({"since": "1970-01-01T01:00:01+01:00", "until": "1970-01-01T00:00:02.5Z"}, [0, 1, 3, 4]),
        ({"selector": "JMSMessageID = 'ID:AMQP_NO_PREFIX:m-1' OR n = '0'"}, [0, 1, 3, 4, 5]),
        ({"selector": "n = 1 AND TRUE", "protocol": "1.0"}, [1, 4, 5]),
        ({"selector": "tenant = 'zzz'"}, [3, 4, 5]),
    ],
)


@FILTERED
def test_filter_options_select_messages(
    captured: list[files.Record], tmp_path: Path, options: dict[str, str], offsets: list[int]
) -> None:
    write(tmp_path / "a.bin", SOUND)
    reader = spark.Amqp10({"path": str(tmp_path), **options}).reader(StructType())

    (part,) = reader.partitions()
    batches: Any = reader.read(part)
    found = [batch.to_pylist() for batch in batches]

    assert offsets == [row["offset"] for rows in found for row in rows]
    assert [captured[offset].wire for offset in offsets] == [r["wire"] for b in found for r in b]


@FILTERED
def test_filter_options_select_the_same_rows_of_parquet(
    captured: list[files.Record],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    options: dict[str, str],
    offsets: list[int],
) -> None:
    records = [*captured]
    monkeypatch.undo()
    path = tmp_path / "a.parquet"
    fields = [field for field in MESSAGE_SCHEMA if field.name not in {"source", "offset"}]
    cells = [[getattr(r, field.name) for r in records] for field in fields]
    pq.write_table(
        pa.table([*map(pa.array, cells, (f.type for f in fields))], pa.schema(fields)), path
    )
    reader = spark.Amqp10({"path": str(path), **options}).reader(StructType())
    profile = Job("profile")

    (part,) = reader.partitions()
    batches: Any = reader.read(part)
    spark_offsets = [row["offset"] for batch in batches for row in batch.to_pylist()]
    # The job names columns for the messages, and its quarantine has those that it cannot process.
    rows = jobs.read(path, profile, options=options).read_all().to_pylist()
    stats = jobs.run(path, tmp_path / "out", profile, options=options, workers=1)

    assert offsets == spark_offsets
    wires = [records[offset].wire for offset in offsets]
    assert sorted(map(repr, wires)) == sorted(repr(row["wire"]) for row in rows)
    assert len(offsets) == stats.rows


def test_filter_option_selects_messages(spark_session: Any, tmp_path: Path) -> None:
    write(tmp_path / "a.bin", [*SOUND, b"no message"])
    reader = spark_session.read.format("amqp10").option("rangeBytes", 300)

    found = reader.option("selector", "n IN ('0', '4')").load(str(tmp_path)).collect()

    expected = [*(wire for i, wire in enumerate(SOUND) if i in {0, 4}), b"no message"]
    assert sorted(expected) == sorted(bytes(row.wire) for row in found)


@pytest.mark.parametrize(
    "option, value, text",
    [
        ("protocol", "http", "'http' is not a protocol"),
        ("since", "yesterday", "since must be an ISO 8601 time"),
        ("selector", "a >", "expected a value"),
    ],
)
def test_invalid_filter_is_an_error(tmp_path: Path, option: str, value: str, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        spark.Amqp10({"path": str(tmp_path), option: value}).reader(StructType())


@pytest.mark.parametrize("name", ["maxSize", "expansionRatio", "zeroWidth", "selector"])
def test_reading_option_is_refused_for_parquet_that_spark_reads(tmp_path: Path, name: str) -> None:
    value = "a = 1" if name == "selector" else "5"
    arguments = ("hdfs://host/a.parquet", str(tmp_path / "out"), Job("decode"))

    with pytest.raises(ValueError, match=f"{name}: these options do not apply to Parquet"):
        spark.run(None, *arguments, options={name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "options, text",
    [
        ({"form": "nope"}, "unknown form 'nope': use one of "),
        ({"prefixx": "1"}, "unknown option 'prefixx': use "),
        ({"path": "none/*"}, "none/*: no such file"),
    ],
)
def test_errors_have_one_line(spark_session: Any, options: dict[str, str], text: str) -> None:
    reader = spark_session.read.format("amqp10").options(**{"path": __file__, **options})

    with pytest.raises(PySparkException) as caught:
        reader.load().collect()

    said = str(caught.value)
    assert text in said.splitlines()[0]
    assert "Traceback" not in said


def job(df: Any, out: Path, mode: str = "append", **options: str) -> None:
    df.write.format("amqp10").mode(mode).options(**options).save(str(out))


def test_decode_separates_valid_and_invalid_messages(spark_session: Any, tmp_path: Path) -> None:
    write(tmp_path / "in.bin", WIRES)
    df = spark_session.read.format("amqp10").option("rangeBytes", 4_000).load(str(tmp_path))
    out = tmp_path / "out"

    job(df, out)

    expected = columns.decode(pa.array(WIRES, pa.binary()), [*columns.SCHEMA.names, "wire"])
    by_error: dict[bool, list[dict[str, Any]]] = {True: [], False: []}
    for row in expected.to_pylist():
        if not row["wire"]:  # to a job no bytes are an error
            row |= {"error_code": "body-missing", "error_clause": "Part 3, 3.2", "error_offset": 0}
        by_error[row["error_code"] is not None].append(row)
    assert b"" in [row["wire"] for row in by_error[True]]
    good, bad = (read(folder) for folder in output_of(out))
    left_out = {"message_format", "section_offsets", *spark.ERROR_COLUMN_NAMES}
    names = [name for name in columns.SCHEMA.names if name not in left_out]
    assert sorted(repr([r[n] for n in names]) for r in by_error[False]) == sorted(
        repr([r[n] for n in names]) for r in good
    )
    names = ["wire", *spark.ERROR_COLUMN_NAMES]
    assert sorted(repr([r[n] for n in names]) for r in by_error[True]) == sorted(
        repr([r[n] for n in names]) for r in bad
    )
    assert all(row["error_text"] and row["source"] for row in bad)
    stats = stats_of(out)
    assert (len(WIRES), len(bad)) == (stats["messages"], stats["quarantined"])
    assert sum(map(len, WIRES)) == stats["bytes"]
    assert len(bad) == sum(rule["messages"] for rule in stats["rules"].values())
    assert len(WIRES) == sum(stats["sizes"].values())
    assert ["in.bin", "out"] == sorted(path.name for path in tmp_path.iterdir())


def test_unreadable_message_is_quarantined_with_its_bytes(
    spark_session: Any, tmp_path: Path
) -> None:
    (tmp_path / "in.jsonl").write_text(f'{{"raw": "{SOUND[0].hex()}"}}\nnonsense\n')
    df = spark_session.read.format("amqp10").load(str(tmp_path))

    job(df, tmp_path / "out", columns="message_id")

    good, bad = (read(folder) for folder in output_of(tmp_path / "out"))
    assert ["m-0"] == [row["message_id"] for row in good]
    (row,) = bad
    assert ("unreadable-input", b"nonsense") == (row["error_code"], row["wire"])
    assert row["error_text"].startswith("not a record: ")
    assert 1 == stats_of(tmp_path / "out")["rules"]["unreadable-input"]["messages"]


def test_validate_keeps_valid_messages(spark_session: Any, tmp_path: Path) -> None:
    wrong = Message("x", properties=Properties(content_encoding="gzip")).encode()
    df = spark_session.createDataFrame(pa.table({"wire": [*SOUND, wrong, None]}))

    job(df, tmp_path / "out", job="validate", profile="oasis")

    good, bad = (read(folder) for folder in output_of(tmp_path / "out"))
    assert sorted(SOUND) == sorted(row["wire"] for row in good)
    assert {True} == {row["valid"] for row in good}
    assert [(wrong, "content-encoding-without-data", "Part 3, 3.2.4")] == [
        (row["wire"], row["error_code"], row["error_clause"]) for row in bad
    ]
    assert 1 == stats_of(tmp_path / "out")["skipped"]


def test_profile_counts_property_types(spark_session: Any, tmp_path: Path) -> None:
    df = spark_session.createDataFrame(pa.table({"wire": SOUND})).repartition(3)

    job(df, tmp_path / "out", job="profile")

    types = stats_of(tmp_path / "out")["types"]
    assert {"application_properties": {"n": {"string": 10, "long": 30}}} == types
    assert [] == read(output_of(tmp_path / "out")[0])


def test_append_mode_keeps_existing_files(spark_session: Any, tmp_path: Path) -> None:
    df = spark_session.createDataFrame(pa.table({"wire": SOUND}))
    for _ in range(2):
        job(df, tmp_path / "out", columns="message_id")

    assert 80 == len(read(output_of(tmp_path / "out")[0]))

    job(df, tmp_path / "out", "overwrite", columns="message_id")

    assert 40 == len(read(output_of(tmp_path / "out")[0]))
    assert ["out"] == [path.name for path in tmp_path.iterdir()]


def test_old_output_is_restored_after_a_kill(tmp_path: Path) -> None:
    aside = tmp_path / ".out.unfinished" / "before"
    aside.mkdir(parents=True)
    (aside / "old").write_text("")
    writer = spark.Amqp10({"path": str(tmp_path / "out")}).writer(
        StructType().add("wire", "binary"), overwrite=True
    )

    writer.abort([])

    assert ["old"] == [path.name for path in (tmp_path / "out").iterdir()]
    assert ["out"] == [path.name for path in tmp_path.iterdir()]


def test_failed_job_keeps_existing_output(spark_session: Any, tmp_path: Path) -> None:
    df = spark_session.createDataFrame(pa.table({"wire": SOUND}))
    job(df, tmp_path / "out")
    before = sorted(str(path) for path in tmp_path.rglob("*"))

    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        job(
            df.selectExpr("wire", "1 / (length(wire) - length(wire)) as x"),
            tmp_path / "out",
            "overwrite",
        )

    assert before == sorted(str(path) for path in tmp_path.rglob("*"))


@pytest.mark.parametrize(
    "options, text",
    [
        ({"job": "guess"}, "unknown job 'guess'"),
        ({"column": "body"}, "no column 'body'"),
        ({"columns": "nothing"}, "unknown column 'nothing'"),
        ({"job": "validate", "profile": "nobody"}, "unknown profile 'nobody'"),
    ],
)
def test_invalid_job_is_an_error(
    spark_session: Any, tmp_path: Path, options: dict[str, str], text: str
) -> None:
    df = spark_session.createDataFrame(pa.table({"wire": SOUND}))

    with pytest.raises(Exception, match=text):
        job(df, tmp_path / "out", **options)

    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "limits",
    [
        {},
        pytest.param({"maxFilesPerTrigger": 2}, marks=LIMITED),
        pytest.param({"maxBytesPerTrigger": 1_000, "cleanSource": "delete"}, marks=LIMITED),
    ],
)
def test_stream_resumes_from_checkpoint(
    spark_session: Any, tmp_path: Path, limits: dict[str, Any]
) -> None:
    landing, out, state = tmp_path / "landing", tmp_path / "out", tmp_path / "state"
    landing.mkdir()

    def run() -> None:
        query = (
            spark_session.readStream.format("amqp10")
            .options(**limits)
            .load(str(landing))
            .select("source", "wire")
            .writeStream.format("parquet")
            .option("checkpointLocation", str(state))
            .trigger(availableNow=True)
            .start(str(out))
        )
        query.awaitTermination(60)
        assert query.exception() is None

    for number in range(5):
        write(landing / f"{9 - number}.bin", SOUND[number * 4 : number * 4 + 4])
    run()
    assert sorted(SOUND[:20]) == wires_in(spark_session, out)
    write(landing / "0.bin", SOUND[20:])
    run()

    assert sorted(SOUND) == wires_in(spark_session, out)
    if "cleanSource" in limits:
        assert [] == [*landing.iterdir()]


def wires_in(session: Any, out: Path) -> list[bytes]:
    return sorted(bytes(row.wire) for row in session.read.parquet(str(out)).collect())


def test_other_file_systems_are_an_error() -> None:
    with pytest.raises(ValueError, match=r"hdfs://.*s3://, gs:// or abfss://"):
        Amqp10({"path": "hdfs://node/landing"}).reader(StructType()).partitions()


def test_source_formats_equal_file_formats() -> None:
    forms = {"raw", "prefixed", "jsonl", "cborseq", "pcap", "parquet", "avro"}
    assert forms == set(files.FORMS)
