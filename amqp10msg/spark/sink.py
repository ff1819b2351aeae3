"""Spark sinks that run a job in the workers and write Parquet from there.

For rows that Spark has read, this is the fastest way to run a job: rows are sent to Python once,
and results are not sent back. The output appears with a rename after all tasks have finished.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import attrs
import pyarrow as pa
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, datasource
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from amqp10msg.atomic_files import write_whole
from amqp10msg.files.stores import is_url
from amqp10msg.jobs import Job
from amqp10msg.jobs.inputs import reject_unknown_options
from amqp10msg.jobs.manifest import BAD, GOOD, STATS_FILE
from amqp10msg.jobs.output import BATCH_STATS_FOLDER, Output, open_output
from amqp10msg.jobs.running import Mode, check_mode, refuse_existing
from amqp10msg.jobs.store_output import StoreOutput
from amqp10msg.jobs.writing import WRITING_OPTIONS, PartResult
from amqp10msg.spark._workers import freeze_imports, missing_kernel_warning, warn_once

#: Base class of streaming writers; object before PySpark 4.1, which cannot stream Arrow to a sink.
StreamWriter: Any = getattr(datasource, "DataSourceStreamArrowWriter", object)
#: Whether this version of PySpark can stream Arrow to a sink.
CAN_SINK_STREAMS = StreamWriter is not object
#: Base class of the errors that Spark raises.
SparkError = PySparkException
# File in an output folder with the id of the streaming query that owns it.
_QUERY_ID_FILE = "_query"
# Spark properties with the description of jobs and the name of stages in the UI.
_DESCRIPTION_PROPERTY, _STAGE_PROPERTY = "spark.job.description", "callSite.short"
# Option of `JobWriter`: "error" to reject an existing folder.
_IF_EXISTS_OPTION = "ifExists"
# Options of the writers; Spark itself uses checkpointLocation.
_OPTIONS = ("path", *Job.OPTIONS, *WRITING_OPTIONS, "checkpointLocation", _IF_EXISTS_OPTION)


@attrs.define
class _TaskResult(WriterCommitMessage):
    """The result of a task, its streaming query's id, and a warning if the kernel is missing."""

    part_result: PartResult
    query: str | None
    kernel_warning: str | None


def write(
    df: DataFrame,
    path: str | Path,
    job: Job,
    *,
    mode: Mode = "error",
    options: Mapping[str, str] | None = None,
) -> None:
    """Run a job on a DataFrame, and write the result to a folder; see `JobWriter`.

    The folder is locked against other jobs. With Spark Connect, it is on the server and not locked.

    Raises:
        ValueError: the job does not fit the input, or an option is invalid.
        BlockingIOError: another job is writing to the folder.
        FileExistsError: the folder exists, and `mode` is ``error``; with Spark Connect, this is a
            SparkError.
        SparkError: the job failed.

    Args:
        df: the input; the data source ``amqp10`` must be registered in its session, as `session`
            does.
        path: the output folder, as a path or the URL of an object store.
        job: the job to run.
        mode: if the folder exists, ``error`` raises FileExistsError, ``append`` adds files to it,
            and ``overwrite`` replaces it.
        options: further options of `JobWriter`.
    """
    check_mode(mode)
    settings = {**(options or {}), **job.as_options()}
    if mode == "error":  # a mode that Spark does not support for Python data sources
        settings[_IF_EXISTS_OPTION] = "error"
    writer = df.write.format("amqp10").options(**settings)
    writer = writer.mode("overwrite" if mode == "overwrite" else "append")
    description = job_description(df.sparkSession, f"{job.kind}: a DataFrame -> {path}")
    with _locked(df, path, mode), description, raise_short_errors():
        writer.save(str(path))


@contextmanager
def _locked(df: DataFrame, path: str | Path, mode: Mode) -> Iterator[None]:
    """Lock a local output folder; with the mode ``error``, raise FileExistsError if it exists."""
    session: Any = df.sparkSession
    if not isinstance(session, SparkSession):
        yield
        return
    output = open_output(absolute_path(path), {})
    with output.guarded():
        if mode == "error":
            refuse_existing(output)
        try:
            yield
        finally:
            # Remove the lock folder of a job that could not start. The output of a killed job is
            # kept.
            output.remove_if_empty()


@contextmanager
def job_description(session: Any, text: str) -> Iterator[None]:
    """Set the description of jobs and stages in Spark's UI, unless the caller has set one."""
    context = session.sparkContext if isinstance(session, SparkSession) else None
    if context is None:
        yield
        return
    current = {
        name: context.getLocalProperty(name) for name in (_DESCRIPTION_PROPERTY, _STAGE_PROPERTY)
    }
    # For a stream, Spark sets "start at" and a line of its own code: also replace that.
    replaced = {
        name: value for name, value in current.items() if not value or value.startswith("start at ")
    }
    for name in replaced:
        context.setLocalProperty(name, f"amqp10msg {text}")
    try:
        yield
    finally:
        for name, value in replaced.items():
            context.setLocalProperty(name, cast("str", value))


def absolute_path(path: str | Path) -> str:
    """Return an absolute path, because executors have another working directory."""
    return str(path) if is_url(path) else str(Path(str(path).removeprefix("file://")).absolute())


def _failure_types() -> tuple[type[Exception], ...]:
    """Return the exception types of failed jobs: PySpark's, and py4j's for writes and RDDs."""
    try:
        from py4j.protocol import Py4JError  # noqa: PLC0415  (absent with only the Spark Connect client)
    except ModuleNotFoundError:
        return (PySparkException,)
    return (PySparkException, Py4JError)


@contextmanager
def raise_short_errors() -> Iterator[None]:
    """Replace Spark's errors by a SparkError with the root cause in one line."""
    try:
        yield
    except _failure_types() as error:
        # None if Java has exited.
        java_error = getattr(error, "java_exception", None)
        message = None if java_error is None else java_error.getMessage()
        raise SparkError(_root_cause(message or str(error))) from error


def _root_cause(text: str) -> str:
    """Return the message of the innermost exception in a stack trace."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for line in reversed(lines):
        name, colon, message = line.partition(": ")
        if colon and name.endswith(("Error", "Exception")) and " " not in name:
            return message
    return lines[0] if lines else "Spark failed"


class _JobSink:
    """Base class of both writers: runs the job in the tasks; the driver publishes the files."""

    def __init__(self, options: Mapping[str, str], schema: pa.Schema) -> None:
        if not options.get("path"):
            raise ValueError("a path is required: save(path) with the output folder")
        reject_unknown_options(options, _OPTIONS)
        self._job = Job.from_options(options)
        self._job.check(schema.names)
        self._job.check_types(schema)
        self._output: Output | StoreOutput
        # For streams, Spark creates separate writers for the tasks and for the commits.
        self._output = open_output(absolute_path(options["path"]), options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = cast("TaskContext", TaskContext.get())
        number, attempt = context.partitionId(), context.taskAttemptId()
        part_result = self._output.write(number, attempt, iterator, self._job)
        freeze_imports()
        return _TaskResult(
            part_result, context.getLocalProperty("sql.streaming.queryId"), missing_kernel_warning()
        )


def _finished_tasks(messages: list[WriterCommitMessage | None]) -> list[_TaskResult]:
    """Return the results of the successful tasks, and issue their warnings."""
    tasks = [message for message in messages if isinstance(message, _TaskResult)]
    for task in tasks:
        warn_once(task.kernel_warning)
    return tasks


class JobWriter(_JobSink, DataSourceArrowWriter):
    """Runs a job, and writes ``messages/`` and ``quarantine/`` to a folder.

    The folder is written under a temporary name and renamed when the job is complete, so it is
    never partial. The mode ``overwrite`` swaps it with an existing folder. The mode ``append``
    moves each file into it; if the process is killed before all files were moved, the next job
    moves them back. In an object store, ``_amqp10msg.json`` lists the valid files, see
    `amqp10msg.jobs.run`.

    Options:
        path: the folder, on a file system that all executors share, or the URL of an object store.
        job: ``decode`` (default), ``validate``, ``translate`` or ``profile``.
        column, columns (names separated by commas), profile, to, user, streamOffset, lenient: see
            `amqp10msg.spark.Job`.
        compression: the compression of the Parquet files; default ``snappy``.
        ifExists: ``append`` (default), or ``error`` to reject an existing folder in the mode
            ``append``.
    """

    def __init__(self, options: Mapping[str, str], schema: pa.Schema, overwrite: bool) -> None:
        super().__init__(options, schema)
        self._overwrite = overwrite
        self._output.reject_foreign_files(overwrite=overwrite)
        if options.get(_IF_EXISTS_OPTION, "append") == "error" and not overwrite:
            refuse_existing(self._output)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publish the files of the successful tasks."""
        parts = [task.part_result for task in _finished_tasks(messages)]
        self._output.commit(parts, overwrite=self._overwrite)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:  # noqa: ARG002  (Spark's signature)
        """Delete the unfinished output."""
        self._output.abort()


class StreamJobWriter(_JobSink, StreamWriter):  # type: ignore[misc]  # the base is Any if PySpark has no types
    """Runs a job on each batch of a stream, and writes one folder per batch.

    The folders ``messages/batch=N`` and ``quarantine/batch=N`` appear complete. If Spark repeats a
    batch after a failure, the batch replaces itself, so each row is in the output once.

    The options are the same as for `JobWriter`. The folder must be on a file system with renames,
    not in an object store. It belongs to the first query that writes to it, with its checkpoint:
    another query would reuse the batch numbers, so it is rejected.
    """

    _output: Output

    def __init__(self, options: Mapping[str, str], schema: pa.Schema) -> None:
        if is_url(options.get("path", "")):
            raise ValueError(
                f"{options['path']}: a stream cannot be written to an object store, which has no "
                "renames: use to_delta"
            )
        super().__init__(options, schema)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  (Spark's names)
        """Publish the files of a batch."""
        tasks = _finished_tasks(messages)
        gathered = self._output.gather_parts(task.part_result for task in tasks)
        for query in {task.query for task in tasks if task.query is not None}:
            self._claim_folder(query)
        name = f"batch={batchId:09d}"
        for name_in_gathered, target in (
            (STATS_FILE, f"{BATCH_STATS_FOLDER}/{name}.json"),
            (BAD, f"{BAD}/{name}"),
            (GOOD, f"{GOOD}/{name}"),
        ):
            self._output.replace(gathered / name_in_gathered, target)
        self._output.delete_unfinished()

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803  (Spark's names)
        """Delete the unfinished files of a batch."""
        self._output.delete_unfinished()

    def _claim_folder(self, query: str) -> None:
        """Record in the folder that `query` owns it; ValueError if it contains other output."""
        path = self._output.path
        file = path / _QUERY_ID_FILE
        if file.exists() and file.read_text(encoding="utf-8") == query:
            return
        if path.exists() and any(path.iterdir()):
            raise ValueError(
                f"{path}: the folder has the output of a job or of another query, and query "
                f"{query} would overwrite it: use a separate folder for each query"
            )
        new_file = self._output.unfinished / _QUERY_ID_FILE
        write_whole(new_file, query)
        self._output.replace(new_file, _QUERY_ID_FILE)
