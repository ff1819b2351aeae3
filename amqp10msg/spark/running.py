"""Run a job on Spark: read files, and write an output folder."""

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
    FILTER_OPTIONS,
    RANGE_BYTES,
    READING_OPTIONS,
    OnlySparkError,
    Part,
    Reading,
    find_input,
    is_parquet,
    limiting_options,
    positive_option,
    reject_unknown_options,
)
from amqp10msg.jobs.output import open_output, read_stats
from amqp10msg.jobs.parquet import PARQUET
from amqp10msg.jobs.running import Mode, Progress, Work, check_input, check_mode, run_and_publish
from amqp10msg.jobs.writing import WRITING_OPTIONS, PartResult, parse_compression
from amqp10msg.spark._workers import freeze_imports, missing_kernel_warning, warn_once
from amqp10msg.spark.sink import absolute_path, job_description, raise_short_errors, write

# Seconds between polls of Spark's progress.
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
    """Run a job on files, and write the result to a folder; see `JobWriter`.

    This is the fastest way to run a job on Spark: the workers open the files themselves, so
    messages do not pass through the JVM. Input that only Spark can read, and every input with Spark
    Connect, is read as a DataFrame and written with `write`.

    Args:
        session: the result of `session`, or another session with the data source ``amqp10``.
        source: a file, a folder (read recursively) or a pattern; a path, or the URL of an object
            store: ``s3://``, ``gs://`` or ``abfss://``. The executors open the files.
        path: the output folder, as a path or a URL.
        job: the job to run.
        form: the input format, a name in `amqp10msg.files.FORMATS`; None to recognise it.
        mode: if the folder exists, ``error`` raises FileExistsError, ``append`` adds files to it,
            and ``overwrite`` replaces it.
        options: the options of `Amqp10` for reading message files.
        progress: called periodically with the number of finished tasks and of all tasks; the last
            call reports all tasks as finished. Never called with Spark Connect.

    Returns:
        The counts, which `read_stats` reads later.

    Raises:
        ValueError: the job does not fit the input, or an option is invalid.
        BlockingIOError: another job is writing to the folder.
        FileExistsError: the folder exists, and `mode` is ``error``; with Spark Connect, Spark
            raises its own error.
        OSError: all Parquet files of the input are damaged.
        FileNotFoundError: there is no such file. For Parquet, Spark raises its own error, because
            the file may be on a file system that only Spark can read.
        pyspark.errors.PySparkException: the job failed; also known as `amqp10msg.spark.SparkError`.
    """
    check_mode(mode)
    # Option names are case-insensitive, as in a data source.
    settings = cast("Mapping[str, str]", CaseInsensitiveDict(options or {}))
    # Validate all options before any file is written.
    reject_unknown_options(settings, (*READING_OPTIONS, *WRITING_OPTIONS, "form"))
    range_bytes = positive_option(settings, "rangeBytes", RANGE_BYTES, "bytes")
    reading = Reading.from_options(settings)
    compression = parse_compression(settings)
    form = form or settings.get("form")
    if form is None and _is_parquet(source):
        form = PARQUET
    job_input = None
    # With Spark Connect, the files are on the server.
    if isinstance(session, SparkSession):
        try:
            job_input = find_input(source, form, lambda _: range_bytes)
        except (OnlySparkError, FileNotFoundError):
            if form != PARQUET:
                raise
    if job_input is None:
        if form == PARQUET:
            _reject_reading_options(settings)
            df = session.read.parquet(source)
        else:
            reader_options = {name: settings[name] for name in READING_OPTIONS if name in settings}
            reader_options |= {} if form is None else {"form": form}
            df = session.read.format("amqp10").options(**reader_options).load(source)
        job.check(df.columns)
        writer_options = {"compression": compression}
        with (
            job_description(session, f"{job.kind}: {source} -> {path}"),
            _report_progress(session, progress),
        ):
            write(df, path, job, mode=mode, options=writer_options)
        return _load_stats(session, path)
    check_input(job_input, job, reading)
    # Absolute paths, because executors have another working directory.
    parts = [
        tuple(attrs.evolve(item, path=absolute_path(item.path)) for item in part)
        for part in job_input.parts
    ]
    table = job_input.table
    if table is not None:
        table = attrs.evolve(table, folder=absolute_path(table.folder))
    work = Work(open_output(absolute_path(path), settings), job, settings, table)
    description = job_description(session, f"{job.kind}: {source} -> {path}")
    with description, _report_progress(session, progress), raise_short_errors():
        run_and_publish(work, parts, partial(_run_remaining_parts, session, work), mode=mode)
    return read_stats(path)


def _reject_reading_options(settings: Mapping[str, str]) -> None:
    """Raise ValueError if an option selects or limits messages: Spark reads the input itself."""
    names = [name for name in FILTER_OPTIONS if name in settings]
    names += limiting_options(settings, ("maxSize", "expansionRatio", "zeroWidth"))
    if names:
        raise ValueError(
            f"{', '.join(names)}: these options do not apply to Parquet that Spark reads itself: "
            "remove them, filter the DataFrame, and pass it to spark.write"
        )


def _is_parquet(source: str) -> bool:
    """Return whether the input is Parquet; for file systems of Spark, according to its suffix."""
    try:
        return is_parquet(source)
    except OnlySparkError:
        return Path(source).suffix == ".parquet"


def _load_stats(session: Any, path: str | Path) -> Stats:
    """Return the counts of a job; with Spark Connect, read them on the server."""
    if isinstance(session, SparkSession):
        return read_stats(path)

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            counts = json.dumps(read_stats(path).as_json())
            yield pa.RecordBatch.from_pydict({"counts": [counts]})

    (row,) = session.range(1).mapInArrow(read, "counts string").collect()
    return Stats.from_json(json.loads(row["counts"]))


@contextmanager
def _report_progress(session: Any, progress: Progress | None) -> Iterator[None]:
    """Poll the number of finished tasks during a job, and call `progress`."""
    if progress is None or not isinstance(session, SparkSession):
        yield
        return
    tracker = session.sparkContext.statusTracker()
    is_finished = threading.Event()
    total = 0

    def poll_tasks() -> None:
        while not is_finished.wait(_POLL_SECONDS):
            stage_infos = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            stages = [info for info in stage_infos if info is not None]
            if stages:
                nonlocal total
                completed = sum(info.numCompletedTasks for info in stages)
                total = sum(info.numTasks for info in stages)
                progress(completed, total)

    poller = threading.Thread(target=poll_tasks, daemon=True)
    poller.start()
    try:
        yield
    finally:
        is_finished.set()
        poller.join()
    progress(max(total, 1), max(total, 1))


def _run_remaining_parts(
    session: SparkSession, work: Work, parts: Sequence[Part], results: dict[int, PartResult]
) -> None:
    """Run each part without a result in a Spark task, and add the results to `results`.

    The tasks are an RDD, because no rows are exchanged: it starts seconds faster than a DataFrame.
    """
    remaining = [(number, part) for number, part in enumerate(parts) if number not in results]
    if not remaining:
        return
    context = session.sparkContext
    numbered = context.parallelize(remaining, len(remaining))
    # `collect` would rename the stage in Spark's UI to this line of code.
    for number, result, kernel_warning in context.runJob(numbered, partial(_run_attempt, work)):
        results[number] = result
        warn_once(kernel_warning)


def _run_attempt(
    work: Work, parts: Iterable[tuple[int, Part]]
) -> Iterator[tuple[int, PartResult, str | None]]:
    """Run parts in a worker; yield their number, their result and a warning without a kernel.

    Spark may run a part twice: each attempt writes its own files, and one attempt is published.
    """
    attempt = cast("TaskContext", TaskContext.get()).taskAttemptId()
    for number, part in parts:
        result = work(number, part, attempt)
        freeze_imports()
        yield number, result, missing_kernel_warning()
