"""Sinks that do a job of the pipeline where the rows are, and write Parquet there.

The cheapest way through Spark: the rows cross to Python once, and never back. What is written
appears with a rename, after every task is done.
"""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

import attrs
import pyarrow as pa
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from amqp10msg.spark._parts import PART, Reading, part_of_row
from amqp10msg.spark._places import ParquetFile, put, sync, write_synced
from amqp10msg.spark._stats import Stats
from amqp10msg.spark.jobs import Job

__all__ = [
    "STATS",
    "JobWriter",
    "SparkError",
    "StreamJobWriter",
    "output_of",
    "read_stats",
    "write",
]

#: What Spark raises where a job fails.
SparkError = PySparkException
#: The file with the counts of a job, in its folder.
STATS = "_amqp10msg.json"
_GOOD, _BAD = "messages", "quarantine"
# The counts of the batches of a stream, and which query they are of.
_BATCHES, _QUERY = "_batches", "_query"


@attrs.define
class _Done(WriterCommitMessage):
    """What one task wrote, relative to the folder of the job, and counted; and for which query."""

    files: list[str]
    stats: Stats
    query: str | None


def output_of(path: str | Path) -> tuple[Path, Path]:
    """Give the folders of the good and of the quarantined messages below an output folder."""
    return Path(path) / _GOOD, Path(path) / _BAD


def write(
    df: DataFrame,
    path: str | Path,
    job: Job,
    *,
    overwrite: bool = False,
    options: Mapping[str, str] | None = None,
) -> None:
    """Do a job on a DataFrame, and write its result below a folder; see `JobWriter`.

    Args:
        df: the input; its session knows the data source ``amqp10``, as that of `session` does.
        path: the folder. Where it exists, it is added to, or replaced with `overwrite`.
        job: what to do.
        overwrite: replace what is there.
        options: more of the options of `JobWriter`.
    """
    mode = "overwrite" if overwrite else "append"
    writer = df.write.format("amqp10").mode(mode).options(**{**(options or {}), **job.as_options()})
    writer.save(str(path))


def read_stats(path: str | Path) -> Stats:
    """Read the counts of the last job that wrote to a folder, or of all batches of a stream.

    Raises:
        OSError: there are none.
    """
    stats = Stats()
    batches = sorted((Path(path) / _BATCHES).glob("*.json"))
    for file in batches or [Path(path) / STATS]:
        stats.add(Stats.from_json(json.loads(file.read_text(encoding="utf-8"))))
    return stats


class _JobSink:
    """What both sinks do: the job in the tasks, and on the driver the files that count."""

    def __init__(self, options: Mapping[str, str], names: list[str]) -> None:
        if not options.get("path"):
            raise ValueError("no path is given: save(path) names the folder to write")
        self._job = Job.from_options(options)
        self._reading = Reading.of(options) if names == [PART] else None
        if self._reading is None:
            self._job.check(names)
        self._path = Path(options["path"].removeprefix("file://"))
        self._compression = options.get("compression", "snappy")
        # Of one name, so that what a job left behind that was killed goes away with the next one;
        # and because Spark makes another writer for the tasks of a stream than for its commits.
        self._unfinished = self._path.with_name(f".{self._path.name}.unfinished")
        self._parts = self._unfinished / "parts"
        self._aside = self._unfinished / "before"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Do the job on the rows of one task."""
        context = cast("TaskContext", TaskContext.get())
        name = f"part-{context.partitionId():05d}-{context.taskAttemptId():08d}-{uuid.uuid4().hex}"
        stats = Stats()
        outputs = {
            folder: ParquetFile(self._parts / folder / f"{name}.parquet", self._compression)
            for folder in (_GOOD, _BAD)
        }
        try:
            for batch in self._messages(iterator):
                good, bad = self._job.run(batch, stats)
                if self._job.kind != "profile":
                    outputs[_GOOD].write(good)
                outputs[_BAD].write(bad)
        finally:
            for output in outputs.values():
                output.close()
        files = [f"{folder}/{name}.parquet" for folder, file in outputs.items() if file.rows]
        return _Done(files, stats, context.getLocalProperty("sql.streaming.queryId"))

    def _messages(self, given: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Give the rows of a task, or what is in the parts of files that they stand for."""
        if self._reading is None:
            yield from given
            return
        for batch in given:
            for text in batch.column(0).to_pylist():
                yield from self._reading.batches(part_of_row(text))

    def _gather(self, messages: list[WriterCommitMessage | None]) -> tuple[Path, list[_Done]]:
        """Put together what the tasks that count have written, and their counts beside it.

        A task that was given up may still write beside the others, and nothing of that gets in.
        """
        done = [message for message in messages if isinstance(message, _Done)]
        whole = self._unfinished / uuid.uuid4().hex
        for folder in (_GOOD, _BAD):
            (whole / folder).mkdir(parents=True)
        stats = Stats()
        for task in done:
            stats.add(task.stats)
            for file in task.files:
                (self._parts / file).rename(whole / file)
        write_synced(whole / STATS, json.dumps(stats.as_json(), indent=1))
        for place in (whole / _GOOD, whole / _BAD, whole):
            sync(place)
        return whole, done

    def _clear(self) -> None:
        shutil.rmtree(self._unfinished, ignore_errors=True)


class JobWriter(_JobSink, DataSourceArrowWriter):
    """Does a job, and writes ``messages/`` and ``quarantine/`` below a folder.

    The folder is made elsewhere and renamed when all is done: it is there whole or not at all. With
    the mode ``overwrite`` and a folder that is there, the two are exchanged. With ``append`` the
    files are moved into it one by one, so that a crash in this instant leaves some of them.

    Options:
        path: the folder, on a file system that all executors share.
        job: ``decode`` where it is not given, ``validate``, ``translate`` or ``profile``.
        column, columns (names with commas between), profile, to, user, streamOffset, arrivalTime:
            see `amqp10msg.spark.Job`.
        compression: of the Parquet files; ``snappy`` where it is not given.
    """

    def __init__(self, options: Mapping[str, str], names: list[str], overwrite: bool) -> None:
        super().__init__(options, names)
        self._overwrite = overwrite

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Keep what the tasks that count have written, and make it appear."""
        whole, done = self._gather(messages)
        if self._path.exists() and not self._overwrite:
            self._append(whole, [file for task in done for file in task.files])
        else:
            put(whole, self._path, self._aside)
        self._clear()

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:  # noqa: ARG002
        """Remove what was written."""
        if self._aside.exists() and not self._path.exists():
            self._aside.rename(self._path)  # of a job that was killed between two renames
        self._clear()

    def _append(self, whole: Path, files: list[str]) -> None:
        for file in files:
            target = self._path / file
            target.parent.mkdir(parents=True, exist_ok=True)
            (whole / file).rename(target)
        (whole / STATS).replace(self._path / STATS)
        for folder in (self._path / _GOOD, self._path / _BAD, self._path):
            if folder.exists():
                sync(folder)


class StreamJobWriter(_JobSink, DataSourceStreamArrowWriter):
    """Does a job on each batch of a stream, and writes a folder a batch.

    They are ``messages/batch=N`` and ``quarantine/batch=N``, and each appears whole. A batch that
    Spark repeats, because something was killed before the checkpoint had it, takes the place of
    itself: each row of the stream is in the output once.

    The options are those of `JobWriter`. The folder belongs to the query that wrote to it first,
    with its checkpoint: another one, whose batches have the same numbers, is refused.
    """

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Make a batch appear.

        Raises:
            ValueError: the folder is another query's.
        """
        whole, done = self._gather(messages)
        for query in {task.query for task in done if task.query is not None}:
            self._claim(query)
        name = f"batch={batchId:09d}"
        for made, target in (
            (STATS, f"{_BATCHES}/{name}.json"),
            (_BAD, f"{_BAD}/{name}"),
            (_GOOD, f"{_GOOD}/{name}"),
        ):
            put(whole / made, self._path / target, self._aside)
        self._clear()

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        """Remove what was written of a batch."""
        self._clear()

    def _claim(self, query: str) -> None:
        place = self._path / _QUERY
        if place.exists() and place.read_text(encoding="utf-8") == query:
            return
        if self._path.exists() and any(self._path.iterdir()):
            raise ValueError(
                f"{self._path}: the output of a job or of another query, which this one, {query}, "
                "would overwrite: give each query, with its checkpoint, a folder of its own"
            )
        write_synced(self._unfinished / _QUERY, query)
        put(self._unfinished / _QUERY, place, self._aside)
