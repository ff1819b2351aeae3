"""A whole job, from files to a folder."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import attrs
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.datasource import CaseInsensitiveDict

from amqp10msg.jobs import Job, Stats
from amqp10msg.jobs.inputs import (
    RANGE_OCTETS,
    READING,
    OnlySparkError,
    Part,
    Reading,
    input_of,
    is_parquet,
    number_of,
    refuse_unknown,
)
from amqp10msg.jobs.output import output_at, read_stats
from amqp10msg.jobs.parquet import PARQUET
from amqp10msg.jobs.running import Mode, Progress, Work, carry_out, check_mode
from amqp10msg.jobs.writing import WRITING, Done, compression_of
from amqp10msg.spark._workers import pure_place, settle, tell
from amqp10msg.spark.sink import described, reasoned, seen, write

# How often Spark is asked for its progress.
_POLL_SECONDS = 0.25


def run(
    session: SparkSession,
    source: str,
    path: str | Path,
    job: Job,
    *,
    form: str | None = None,
    mode: Mode = "error",
    options: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> Stats:
    """Run a job on files, and write its result below a folder; see `JobWriter`.

    The cheapest way to do one: the workers open the files, and no message passes through the JVM.
    What only Spark can read, and with Spark Connect all, goes by way of a DataFrame and `write`.

    Args:
        session: of `session`, or another one that knows the data source ``amqp10``.
        source: a file, a folder with what is below it, or a pattern; a path, or a URL of an object
            store, ``s3://``, ``gs://`` or ``abfss://``, which the executors open by themselves.
        path: the folder, or a URL.
        job: what to do.
        form: ``parquet``, or one of `amqp10msg.files.FORMS`; found out where None.
        mode: what to do if the folder exists: ``error`` to raise FileExistsError, ``append`` to
            add to it, ``overwrite`` to replace it.
        options: of reading files of messages, as `Amqp10` has them.
        progress: called now and then with how many tasks are done, and how many there are, at last
            with all of them; never with Spark Connect, whose client does not know.

    Returns:
        The counts, as `read_stats` reads them.

    Raises:
        ValueError: the job cannot be done on this input, or an option is wrong.
        BlockingIOError: another job writes to the folder.
        FileExistsError: the folder exists, and `mode` is ``error``; with Spark Connect, one of
            Spark's errors.
        OSError: of files of Parquet, none is whole.
        FileNotFoundError: there is no such file. Of Parquet, which may be where only Spark looks,
            that is one of Spark's errors.
        pyspark.errors.PySparkException: it failed; `amqp10msg.spark.SparkError` is another name.
    """
    # As the options of a data source are.
    check_mode(mode)
    given = cast("Mapping[str, str]", CaseInsensitiveDict(options or {}))
    # These raise where one is wrong, before anything is made.
    refuse_unknown(given, (*READING, *WRITING, "form"))
    octets = number_of(given, "rangeBytes", RANGE_OCTETS, "bytes")
    Reading.of(given)
    compression = compression_of(given)
    form = form or given.get("form")
    if form is None and _is_parquet(source):
        form = PARQUET
    found = None
    # Of a session of Spark Connect, the files are the server's.
    if isinstance(session, SparkSession):
        try:
            found = input_of(source, form, lambda _: octets)
        except (OnlySparkError, FileNotFoundError):
            if form != PARQUET:
                raise
    if found is None:
        if form == PARQUET:
            df = session.read.parquet(source)
        else:
            chosen = {name: given[name] for name in READING if name in given}
            chosen |= {} if form is None else {"form": form}
            df = session.read.format("amqp10").options(**chosen).load(source)
        job.check(df.columns)
        how = {"compression": compression}
        with described(session, f"{job.kind}: {source} -> {path}"), _watched(session, progress):
            write(df, path, job, mode=mode, options=how)
        return _stats_of(session, path)
    job.check(found.names)
    if found.rows is not None:
        job.check_types(found.rows.schema)
    # As the output's path.
    parts = [tuple(attrs.evolve(one, path=seen(one.path)) for one in part) for part in found.parts]
    rows = found.rows
    if rows is not None:
        rows = attrs.evolve(rows, folder=seen(rows.folder))
    work = Work(output_at(seen(path), given), job, given, rows)
    told = described(session, f"{job.kind}: {source} -> {path}")
    with told, _watched(session, progress), reasoned():
        carry_out(work, parts, partial(_do, session, work), mode=mode)
    return read_stats(path)


def _is_parquet(source: str) -> bool:
    try:
        return is_parquet(source)
    except OnlySparkError:
        return Path(source).suffix == ".parquet"


def _stats_of(session: Any, path: str | Path) -> Stats:
    """Return the counts of a job; with Spark Connect, its folder is the server's."""
    if isinstance(session, SparkSession):
        return read_stats(path)

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            counts = json.dumps(read_stats(path).as_json())
            yield pa.RecordBatch.from_pydict({"counts": [counts]})

    (row,) = session.range(1).mapInArrow(read, "counts string").collect()
    return Stats.from_json(json.loads(row["counts"]))


@contextmanager
def _watched(session: Any, progress: Progress | None) -> Iterator[None]:
    """Ask Spark now and then how many tasks are done, in the middle of a job."""
    if progress is None or not isinstance(session, SparkSession):
        yield
        return
    tracker = session.sparkContext.statusTracker()
    done = threading.Event()
    most = 0

    def watch() -> None:
        while not done.wait(_POLL_SECONDS):
            found = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            stages = [info for info in found if info is not None]
            if stages:
                nonlocal most
                completed = sum(info.numCompletedTasks for info in stages)
                most = sum(info.numTasks for info in stages)
                progress(completed, most)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
    progress(max(most, 1), max(most, 1))


def _do(session: SparkSession, work: Work, parts: Sequence[Part], done: dict[int, Done]) -> None:
    """Run each part that is left in a task.

    An RDD, because no rows come or go: it starts seconds sooner than a DataFrame.
    """
    left = [(number, part) for number, part in enumerate(parts) if number not in done]
    if not left:
        return
    context = session.sparkContext
    numbered = context.parallelize(left, len(left))
    # Not `collect`, which names the stage after a line of this file.
    for number, made, pure in context.runJob(numbered, partial(_attempt, work)):
        done[number] = made
        tell(pure)


def _attempt(
    work: Work, parts: Iterable[tuple[int, Part]]
) -> Iterator[tuple[int, Done, str | None]]:
    # Two attempts at a part write files of different names, and one of them counts.
    attempt = cast("TaskContext", TaskContext.get()).taskAttemptId()
    for number, part in parts:
        done = work(number, part, attempt)
        settle()
        yield number, done, pure_place()
