"""Damaged files do not end a streaming query: each is a row, and the others are read."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark", reason="pyspark is not installed: pip install '.[spark]'")
pytest.importorskip("fastavro", reason="needs fastavro: pip install 'amqp10msg[avro]'")

from amqp10msg import spark
from amqp10msg.jobs import DAMAGED
from tests.jobs import damaged_files as damaged
from tests.jobs.job_inputs import SOUND, write

pytestmark = [pytest.mark.once, pytest.mark.xdist_group("spark")]


def test_stream_reports_damaged_files(spark_session: Any, tmp_path: Path) -> None:
    landing = tmp_path / "landing"
    landing.mkdir()
    paths = {
        str(damaged.write_damaged(landing, suffix, damage)) for suffix, damage in damaged.cases()
    }
    sound = str(write(landing / "z.bin", SOUND[: damaged.COUNT]))

    query = (
        spark_session.readStream.format("amqp10")
        .load(str(landing))
        .select("source", "fault")
        .writeStream.format("parquet")
        .option("checkpointLocation", str(tmp_path / "state"))
        .trigger(availableNow=True)
        .start(str(tmp_path / "out"))
    )
    query.awaitTermination(120)
    assert query.exception() is None

    rows = spark_session.read.parquet(str(tmp_path / "out")).collect()
    words = ("is not read", "are not read", "messages may be missing here", "are skipped")
    lost = {row.source for row in rows if row.fault and any(word in row.fault for word in words)}
    assert paths == lost
    assert damaged.COUNT == sum(row.source == sound and row.fault is None for row in rows)


def test_decode_returns_an_error_for_each_fault(spark_session: Any, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    octets = "".join(f'{{"raw": "{wire.hex()}"}}\n' for wire in SOUND[: damaged.COUNT]).encode()
    (folder / "cut.jsonl.gz").write_bytes(gzip.compress(octets)[:-20])
    (folder / "empty.pcap").write_bytes(b"")
    (folder / "text.txt").write_text("no messages, only words\n")
    (folder / "line.jsonl").write_bytes(octets + b"no JSON\n")
    read = spark_session.read.format("amqp10").load(str(folder))

    decoded = spark.decode(read, columns=["message_id"], keep=["source"])

    assert ["source", "message_id", "error"] == decoded.columns
    codes: dict[str, list[str]] = {}
    good: dict[str, int] = {}
    for row in decoded.collect():
        name = Path(row.source).name
        if row.error is None:
            assert row.message_id is not None
            good[name] = good.get(name, 0) + 1
        else:
            codes.setdefault(name, []).append(row.error.code)
    assert {
        "cut.jsonl.gz": [DAMAGED],
        "empty.pcap": [DAMAGED],
        "text.txt": [DAMAGED],
        "line.jsonl": ["unreadable-input"],
    } == codes
    assert damaged.COUNT == good.pop("line.jsonl")
    assert {"cut.jsonl.gz"} >= {*good}


def test_validate_and_translate_report_each_fault(spark_session: Any, tmp_path: Path) -> None:
    octets = "".join(f'{{"raw": "{wire.hex()}"}}\n' for wire in SOUND[:3]).encode()
    (tmp_path / "line.jsonl").write_bytes(octets + b"no JSON\n")
    (tmp_path / "text.txt").write_text("no messages, only words\n")
    read = spark_session.read.format("amqp10").load(str(tmp_path))

    checked = spark.validate(read, keep=["source"]).collect()
    assert 3 == sum(row.valid for row in checked)
    assert {"line.jsonl": "unreadable-input", "text.txt": DAMAGED} == {
        Path(row.source).name: violation.rule
        for row in checked
        for violation in row.violations
        if row.valid is False
    }

    for to in ("0-9-1", "1.0"):
        translated = spark.translate(read, to, keep=["source"]).collect()
        assert {"line.jsonl": "unreadable-input", "text.txt": DAMAGED} == {
            Path(row.source).name: row.error_code for row in translated if row.error_code
        }


def test_job_refuses_a_fault_that_is_not_text(spark_session: Any, tmp_path: Path) -> None:
    frame = spark_session.createDataFrame([(SOUND[0], 3)], "wire binary, fault int")

    with pytest.raises(spark.SparkError, match=r"the column 'fault' must be text, .* not int32"):
        spark.write(frame, tmp_path / "out", spark.Job("validate"))

    assert not (tmp_path / "out").exists()


def test_functions_ignore_a_column_fault_of_another_type(spark_session: Any) -> None:
    frame = spark_session.createDataFrame([(SOUND[0], True)], "wire binary, fault boolean")

    (row,) = spark.decode(frame, columns=["message_id"], keep=["fault"]).collect()

    assert (True, None) == (row.fault, row.error)
    assert row.message_id is not None
    assert spark.validate(frame).collect()[0].valid
    assert spark.translate(frame, "0-9-1").collect()[0].error_code is None


def test_job_reports_damaged_files(spark_session: Any, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for damage in ("empty", "garbage", "cut in the header"):
        damaged.write_damaged(folder, "pcap", damage)
        damaged.write_damaged(folder, "avro", damage)
    write(folder / "z.bin", SOUND[: damaged.COUNT])

    stats = spark.run(spark_session, str(folder), tmp_path / "out", spark.Job("decode"))

    assert (6, damaged.COUNT) == (stats.rules[DAMAGED].messages, stats.good)
