"""What keeps two jobs apart, and what workers say of themselves."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from amqp10msg import Message

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
pytest.importorskip("pyspark", reason="pyspark is not installed: pip install '.[spark]'")

from amqp10msg import spark  # noqa: E402
from amqp10msg.jobs.output import Output  # noqa: E402
from amqp10msg.spark import _workers, running  # noqa: E402

pytestmark = [pytest.mark.once, pytest.mark.xdist_group("spark")]

DESCRIPTION = "spark.job.description"


def test_concurrent_spark_jobs_do_not_share_a_folder(spark_session: Any, tmp_path: Path) -> None:
    df = spark_session.createDataFrame(pa.table({"wire": [Message(b"x").encode()]}))
    out = tmp_path / "out"

    with Output(out).guarded(), pytest.raises(BlockingIOError, match="another job is writing"):
        spark.write(df, out, spark.Job("validate"))
    assert not out.exists()
    with pytest.raises(spark.SparkError, match="no column 'wire'"):
        spark.write(df.withColumnRenamed("wire", "x"), out, spark.Job("validate"))
    spark.write(df, out, spark.Job("validate"))
    with pytest.raises(FileExistsError, match="the output exists already"):
        spark.write(df, out, spark.Job("validate"))
    assert 1 == len(list((out / "messages").iterdir()))
    spark.write(df, out, spark.Job("validate"), mode="append")

    assert 2 == len(list((out / "messages").iterdir()))
    assert ["out"] == [path.name for path in tmp_path.iterdir()]


def test_worker_without_kernel_warns_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_workers, "_warned", set())
    monkeypatch.delenv("AMQP10MSG_PURE", raising=False)
    monkeypatch.setattr(_workers, "COMPILED", True)
    assert _workers.missing_kernel_warning() is None

    monkeypatch.setattr(_workers, "COMPILED", False)
    place = _workers.missing_kernel_warning()
    assert place is not None
    with pytest.warns(RuntimeWarning, match="has no compiled kernel and is several times"):
        _workers.warn_once(place)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _workers.warn_once(place)
        _workers.warn_once(None)
    monkeypatch.setenv("AMQP10MSG_PURE", "1")
    assert _workers.missing_kernel_warning() is None


def test_driver_warns_of_workers_without_kernel(
    spark_session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "in.jsonl"
    source.write_text(f'{{"raw": "{Message(b"x").encode().hex()}"}}\n')
    monkeypatch.setattr(_workers, "_warned", set())
    monkeypatch.setattr(
        "amqp10msg.spark.running._run_attempt",
        lambda work, parts: [(n, work(n, part, 1), "pure on worker-7") for n, part in parts],
    )

    with pytest.warns(RuntimeWarning, match="pure on worker-7"):
        stats = spark.run(spark_session, str(source), tmp_path / "out", spark.Job("decode"))

    assert (1, 1) == (stats.rows, stats.good)


def test_worker_excludes_imports_from_garbage_collection(
    spark_session: Any, tmp_path: Path
) -> None:
    raw = spark_session.createDataFrame(pa.table({"wire": [Message(b"x").encode()]})).coalesce(1)

    def look(batches: Iterator[Any]) -> Iterator[Any]:
        for _ in batches:
            frozen, left = gc.get_freeze_count(), len(gc.get_objects())
            yield pa.record_batch({"is_settled": [frozen > max(10_000, left)]})

    def is_settled() -> bool:
        # Spark has more workers than that which ran last, and takes any of them.
        looked = raw.mapInArrow(look, "is_settled boolean")
        return any(looked.collect()[0]["is_settled"] for _ in range(20))

    spark.decode(raw).collect()
    assert is_settled()
    source = tmp_path / "in.jsonl"
    source.write_text(f'{{"raw": "{Message(b"x").encode().hex()}"}}\n')
    spark.run(spark_session, str(source), tmp_path / "out", spark.Job("decode"))
    assert is_settled()
    with pytest.raises(FileExistsError, match="the output exists already"):
        spark.run(spark_session, str(source), tmp_path / "out", spark.Job("decode"))
    stats = spark.run(
        spark_session, str(source), tmp_path / "out", spark.Job("decode"), mode="overwrite"
    )
    assert 1 == stats.rows


def test_worker_freezes_imports_once_and_keeps_no_garbage(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    monkeypatch.setattr(_workers, "_is_frozen", False)
    monkeypatch.setattr(gc, "collect", lambda: done.append("collect"))
    monkeypatch.setattr(gc, "freeze", lambda: done.append("freeze"))

    monkeypatch.delenv("SPARK_BUFFER_SIZE", raising=False)
    _workers.freeze_imports()
    assert [] == done  # the process of a user

    monkeypatch.setenv("SPARK_BUFFER_SIZE", "65536")
    _workers.freeze_imports()
    _workers.freeze_imports()
    assert ["collect", "freeze"] == done


@pytest.mark.parametrize("own", [None, "nightly"])
def test_spark_ui_describes_the_job(
    spark_session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: str | None
) -> None:
    source = tmp_path / "in.parquet"
    pq.write_table(pa.table({"wire": [Message(b"x").encode()]}), source)
    context = spark_session.sparkContext
    said: list[str] = []
    do = running._run_remaining_parts

    def heard(*given: Any) -> None:
        said.append(context.getLocalProperty(DESCRIPTION))
        do(*given)

    monkeypatch.setattr(running, "_run_remaining_parts", heard)
    context.setJobDescription(own)
    try:
        spark.run(spark_session, str(source), tmp_path / "out", spark.Job("decode"))

        assert [own or f"amqp10msg decode: {source} -> {tmp_path / 'out'}"] == said
        assert own == context.getLocalProperty(DESCRIPTION)
    finally:
        context.setJobDescription(None)


def test_stages_have_the_name_of_the_job(spark_session: Any, tmp_path: Path) -> None:
    source = tmp_path / "in.parquet"
    pq.write_table(pa.table({"wire": [Message(b"x").encode()]}), source)
    context = spark_session.sparkContext
    context.setJobGroup("stages", "")
    try:
        spark.run(spark_session, str(source), tmp_path / "out", spark.Job("decode"))
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)
        context.setJobDescription(None)

    tracker = context.statusTracker()
    stages = [
        tracker.getStageInfo(stage).name
        for number in tracker.getJobIdsForGroup("stages")
        for stage in tracker.getJobInfo(number).stageIds
    ]
    assert [f"amqp10msg decode: {source} -> {tmp_path / 'out'}"] == stages


def test_writing_a_dataframe_is_described(spark_session: Any, tmp_path: Path) -> None:
    context = spark_session.sparkContext
    seen = []
    df = spark_session.createDataFrame(pa.table({"wire": [Message(b"x").encode()]}))
    writer = type(df.write)

    def save(self: Any, *given: Any) -> None:
        seen.append(context.getLocalProperty(DESCRIPTION))
        do(self, *given)

    do = writer.save
    with mock.patch.object(writer, "save", save):
        spark.write(df, tmp_path / "out", spark.Job("decode"))

    assert [f"amqp10msg decode: a DataFrame -> {tmp_path / 'out'}"] == seen
    assert context.getLocalProperty(DESCRIPTION) is None
