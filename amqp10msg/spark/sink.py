"""A sink that does a job of the pipeline where the rows are, and writes Parquet there.

The cheapest way through Spark: the rows cross to Python once, and never back. All output appears
with one rename, after every task is done.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from amqp10msg.spark._stats import Stats
from amqp10msg.spark.jobs import Job

__all__ = ["STATS", "JobWriter", "SparkError", "output_of", "read_stats", "write"]

#: What Spark raises where a job fails.
SparkError = PySparkException
#: The file with the counts of a job, in its folder.
STATS = "_amqp10msg.json"
_GOOD, _BAD = "messages", "quarantine"
_ROWS = 65_536


@attrs.define
class _Done(WriterCommitMessage):
    """What one task wrote, relative to the folder of the job, and counted."""

    files: list[str]
    stats: Stats


def output_of(path: str | Path) -> tuple[Path, Path]:
    """Give the folders of the good and of the quarantined messages below an output folder."""
    return Path(path) / _GOOD, Path(path) / _BAD


def write(df: DataFrame, path: str | Path, job: Job, *, overwrite: bool = False) -> None:
    """Do a job on a DataFrame, and write its result below a folder; see `JobWriter`.

    Args:
        df: the input; its session knows the data source ``amqp10``, as that of `session` does.
        path: the folder. Where it exists, it is added to, or replaced with `overwrite`.
        job: what to do.
        overwrite: replace what is there.
    """
    options = {"job": job.kind, "column": job.column, "to": job.to}
    if job.columns is not None:
        options["columns"] = ",".join(job.columns)
    if job.profile is not None:
        options["profile"] = job.profile
    mode = "overwrite" if overwrite else "append"
    df.write.format("amqp10").mode(mode).options(**options).save(str(path))


def read_stats(path: str | Path) -> Stats:
    """Read the counts of the last job that wrote to a folder.

    Raises:
        OSError: there are none.
    """
    return Stats.from_json(json.loads((Path(path) / STATS).read_text(encoding="utf-8")))


class JobWriter(DataSourceArrowWriter):
    """Does a job, and writes ``messages/`` and ``quarantine/`` below a folder.

    The folder is made elsewhere and renamed when all is done: it is there whole or not at all. With
    the mode ``append`` and a folder that is there, the files are moved into it one by one instead.

    Options:
        path: the folder, on a file system that all executors share.
        job: ``decode`` where it is not given, ``validate``, ``translate`` or ``profile``.
        column, columns (names with commas between), profile, to: see `amqp10msg.spark.jobs.Job`.
        compression: of the Parquet files; ``snappy`` where it is not given.
    """

    def __init__(self, options: dict[str, Any], names: list[str], overwrite: bool) -> None:
        if not options.get("path"):
            raise ValueError("no path is given: save(path) names the folder to write")
        columns = options.get("columns")
        self._job = Job(
            options.get("job", "decode"),
            options.get("column", "wire"),
            tuple(name.strip() for name in columns.split(",")) if columns else None,
            options.get("profile"),
            options.get("to", "amqp10"),
        )
        self._job.check(names)
        self._path = Path(options["path"].removeprefix("file://"))
        self._overwrite = overwrite
        self._compression = options.get("compression", "snappy")
        # Of one name, so that what a job left behind that was killed goes away with the next one.
        self._unfinished = self._path.with_name(f".{self._path.name}.unfinished")
        self._staging = self._unfinished / uuid.uuid4().hex

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Do the job on the rows of one task."""
        context = cast("TaskContext", TaskContext.get())
        name = f"part-{context.partitionId():05d}-{context.taskAttemptId():08d}-{uuid.uuid4().hex}"
        stats = Stats()
        outputs = {
            _GOOD: _File(self._staging / _GOOD / f"{name}.parquet", self._compression),
            _BAD: _File(self._staging / _BAD / f"{name}.parquet", self._compression),
        }
        try:
            for batch in iterator:
                good, bad = self._job.run(batch, stats)
                if self._job.kind != "profile":
                    outputs[_GOOD].write(good)
                outputs[_BAD].write(bad)
        finally:
            for output in outputs.values():
                output.close()
        files = [f"{folder}/{name}.parquet" for folder, file in outputs.items() if file.rows]
        return _Done(files, stats)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Keep what the tasks that count have written, and make it appear."""
        stats = Stats()
        files: set[str] = set()
        for message in messages:
            if isinstance(message, _Done):
                stats.add(message.stats)
                files |= set(message.files)
        for folder in (_GOOD, _BAD):
            (self._staging / folder).mkdir(parents=True, exist_ok=True)
            for file in (self._staging / folder).iterdir():
                if f"{folder}/{file.name}" not in files:
                    file.unlink()  # of an attempt that was repeated
        _write_synced(self._staging / STATS, json.dumps(stats.as_json(), indent=1))
        for place in (self._staging / _GOOD, self._staging / _BAD, self._staging):
            _sync(place)
        if self._path.exists() and not self._overwrite:
            self._append(files)
        else:
            self._replace()
        shutil.rmtree(self._unfinished, ignore_errors=True)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:  # noqa: ARG002
        """Remove what was written."""
        shutil.rmtree(self._unfinished, ignore_errors=True)

    def _replace(self) -> None:
        before = self._unfinished / "before"
        if self._path.exists():
            shutil.rmtree(before, ignore_errors=True)
            self._path.rename(before)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._staging.rename(self._path)
        _sync(self._path.parent)

    def _append(self, files: set[str]) -> None:
        for file in sorted(files):
            target = self._path / file
            target.parent.mkdir(parents=True, exist_ok=True)
            (self._staging / file).rename(target)
        (self._staging / STATS).replace(self._path / STATS)
        for folder in (self._path / _GOOD, self._path / _BAD, self._path):
            if folder.exists():
                _sync(folder)


class _File:
    """A Parquet file that is made with the first row."""

    def __init__(self, path: Path, compression: str) -> None:
        self._path = path
        self._compression = compression
        self._writer: Any = None
        self._file: Any = None
        self.rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        if self._writer is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("wb")
            self._writer = pq.ParquetWriter(self._file, batch.schema, compression=self._compression)
        self._writer.write_batch(batch, row_group_size=_ROWS)
        self.rows += batch.num_rows

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            self._writer = None


def _write_synced(path: Path, text: str) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _sync(folder: Path) -> None:
    """Make sure that the names in a folder are on disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
