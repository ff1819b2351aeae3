"""Sinks that do a job of the pipeline where the rows are, and write Parquet there.

The cheapest way through Spark: the rows cross to Python once, and never back. What is written
appears with a rename, after every task is done.
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
from amqp10msg.jobs.inputs import refuse_unknown
from amqp10msg.jobs.manifest import BAD, GOOD, STATS
from amqp10msg.jobs.output import BATCHES, Output, output_at
from amqp10msg.jobs.running import Mode, check_mode, refuse_existing
from amqp10msg.jobs.store_output import StoreOutput
from amqp10msg.jobs.writing import WRITING, Done
from amqp10msg.spark._workers import pure_place, settle, tell

#: Sinks of streams take Arrow from PySpark 4.1 on.
StreamWriter: Any = getattr(datasource, "DataSourceStreamArrowWriter", object)
CAN_SINK_STREAMS = StreamWriter is not object
#: What Spark raises where a job fails.
SparkError = PySparkException
# Which query the batches of a stream are of.
_QUERY = "_query"
# What Spark's pages say of a job, and the name of its stages.
_DESCRIPTION, _STAGE = "spark.job.description", "callSite.short"
# What the writers take; the last one is for Spark itself.
# The option of `JobWriter` that refuses a folder that exists.
_IF_EXISTS = "ifExists"
_OPTIONS = ("path", *Job.OPTIONS, *WRITING, "checkpointLocation", _IF_EXISTS)


@attrs.define
class _Task(WriterCommitMessage):
    """What one task did, for which query, and where that was without the compiled kernel."""

    done: Done
    query: str | None
    pure: str | None


def write(
    df: DataFrame,
    path: str | Path,
    job: Job,
    *,
    mode: Mode = "error",
    options: Mapping[str, str] | None = None,
) -> None:
    """Run a job on a DataFrame, and write its result below a folder; see `JobWriter`.

    Another job on this folder is refused while it lasts; with Spark Connect, where the folder is
    the server's, nobody looks.

    Raises:
        ValueError: the job cannot be done on this input, or an option is wrong.
        BlockingIOError: another job writes to the folder.
        FileExistsError: the folder exists, and `mode` is ``error``; with Spark Connect, a
            SparkError says so.
        SparkError: it failed.

    Args:
        df: the input; its session knows the data source ``amqp10``, as that of `session` does.
        path: the folder, or a URL of an object store.
        job: what to do.
        mode: what to do if the folder exists: ``error`` to raise FileExistsError, ``append`` to
            add to it, ``overwrite`` to replace it.
        options: more of the options of `JobWriter`.
    """
    check_mode(mode)
    given = {**(options or {}), **job.as_options()}
    if mode == "error":  # which Spark does not have for data sources in Python
        given[_IF_EXISTS] = "error"
    writer = df.write.format("amqp10").options(**given)
    writer = writer.mode("overwrite" if mode == "overwrite" else "append")
    told = described(df.sparkSession, f"{job.kind}: a DataFrame -> {path}")
    with _held(df, path, mode), told, reasoned():
        writer.save(str(path))


@contextmanager
def _held(df: DataFrame, path: str | Path, mode: Mode) -> Iterator[None]:
    """Keep other jobs out of a folder, where it is this machine's; refuse one that exists."""
    session: Any = df.sparkSession
    if not isinstance(session, SparkSession):
        yield
        return
    output = output_at(seen(path), {})
    with output.held():
        if mode == "error":
            refuse_existing(output)
        try:
            yield
        finally:
            # A job that could not begin leaves nothing, and one that was killed what it wrote.
            output.leave()


@contextmanager
def described(session: Any, what: str) -> Iterator[None]:
    """Have Spark's pages say what its jobs and stages are for, where the caller has not said it."""
    context = session.sparkContext if isinstance(session, SparkSession) else None
    if context is None:
        yield
        return
    said = {name: context.getLocalProperty(name) for name in (_DESCRIPTION, _STAGE)}
    # What a stream starts has the place of its start in Spark's own code.
    unsaid = {name: one for name, one in said.items() if not one or one.startswith("start at ")}
    for name in unsaid:
        context.setLocalProperty(name, f"amqp10msg {what}")
    try:
        yield
    finally:
        for name, one in unsaid.items():
            context.setLocalProperty(name, cast("str", one))


def seen(path: str | Path) -> str:
    """Return a path as the driver sees it: executors have another current folder."""
    return str(path) if is_url(path) else str(Path(str(path).removeprefix("file://")).absolute())


def _failures() -> tuple[type[Exception], ...]:
    """What PySpark raises where a job fails: of a write or an RDD, sometimes what py4j raises."""
    try:
        from py4j.protocol import Py4JError  # noqa: PLC0415  (not where Connect's client is alone)
    except ModuleNotFoundError:
        return (PySparkException,)
    return (PySparkException, Py4JError)


@contextmanager
def reasoned() -> Iterator[None]:
    """Raise what Spark raises with the reason alone, in a line; the rest is its cause."""
    try:
        yield
    except _failures() as error:
        # None where the JVM itself is gone.
        thrown = getattr(error, "java_exception", None)
        said = None if thrown is None else thrown.getMessage()
        raise SparkError(_reason(said or str(error))) from error


def _reason(text: str) -> str:
    """Find the one line in a stack trace that says what went wrong."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for line in reversed(lines):
        name, colon, rest = line.partition(": ")
        if colon and name.endswith(("Error", "Exception")) and " " not in name:
            return rest
    return lines[0] if lines else "Spark failed"


class _JobSink:
    """What both sinks do: the job in the tasks, and on the driver the files that count."""

    def __init__(self, options: Mapping[str, str], names: list[str]) -> None:
        if not options.get("path"):
            raise ValueError("no path is given: save(path) names the folder to write")
        refuse_unknown(options, _OPTIONS)
        self._job = Job.from_options(options)
        self._job.check(names)
        self._output: Output | StoreOutput
        # Spark makes another writer for the tasks of a stream than for its commits.
        self._output = output_at(seen(options["path"]), options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = cast("TaskContext", TaskContext.get())
        number, attempt = context.partitionId(), context.taskAttemptId()
        done = self._output.write(number, attempt, iterator, self._job)
        settle()
        return _Task(done, context.getLocalProperty("sql.streaming.queryId"), pure_place())


def _tasks(messages: list[WriterCommitMessage | None]) -> list[_Task]:
    tasks = [message for message in messages if isinstance(message, _Task)]
    for task in tasks:
        tell(task.pure)
    return tasks


class JobWriter(_JobSink, DataSourceArrowWriter):
    """Does a job, and writes ``messages/`` and ``quarantine/`` below a folder.

    The folder is made elsewhere and renamed when all is done: it is there whole or not at all. With
    the mode ``overwrite`` and a folder that is there, the two are exchanged. With ``append`` the
    files are moved into it one by one, so that a crash in this instant leaves some of them
    until the next job takes them back. In an object store, ``_amqp10msg.json`` lists what counts,
    as `amqp10msg.jobs.run` says.

    Options:
        path: the folder, on a file system that all executors share, or a URL of an object store.
        job: ``decode`` where it is not given, ``validate``, ``translate`` or ``profile``.
        column, columns (names separated by commas), profile, to, user, streamOffset: see
            `amqp10msg.spark.Job`.
        compression: of the Parquet files; ``snappy`` where it is not given.
        ifExists: ``error`` to refuse a folder that exists, in the mode ``append``; ``append``
            where it is not given.
    """

    def __init__(self, options: Mapping[str, str], names: list[str], overwrite: bool) -> None:
        super().__init__(options, names)
        self._overwrite = overwrite
        self._output.check(overwrite=overwrite)
        if options.get(_IF_EXISTS, "append") == "error" and not overwrite:
            refuse_existing(self._output)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Keep what the tasks that count have written, and make it appear."""
        parts = [task.done for task in _tasks(messages)]
        self._output.commit(parts, overwrite=self._overwrite)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:  # noqa: ARG002  (Spark's signature)
        """Remove what was written."""
        self._output.abort()


class StreamJobWriter(_JobSink, StreamWriter):  # type: ignore[misc]  # Any where Spark has no types
    """Does a job on each batch of a stream, and writes a folder a batch.

    They are ``messages/batch=N`` and ``quarantine/batch=N``, and each appears whole. A batch that
    Spark repeats, because something was killed before the checkpoint had it, takes the place of
    itself: each row of the stream is in the output once.

    The options are those of `JobWriter`; the folder is on a file system that can rename, and no URL
    of an object store. It belongs to the query that wrote to it first,
    with its checkpoint: another one, whose batches have the same numbers, is refused.
    """

    _output: Output

    def __init__(self, options: Mapping[str, str], names: list[str]) -> None:
        if is_url(options.get("path", "")):
            raise ValueError(
                f"{options['path']}: a stream is written to a file system that can rename: use "
                "to_delta for an object store"
            )
        super().__init__(options, names)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  (Spark's names)
        """Make a batch appear."""
        tasks = _tasks(messages)
        whole = self._output.gather(task.done for task in tasks)
        for query in {task.query for task in tasks if task.query is not None}:
            self._claim(query)
        name = f"batch={batchId:09d}"
        for made, target in (
            (STATS, f"{BATCHES}/{name}.json"),
            (BAD, f"{BAD}/{name}"),
            (GOOD, f"{GOOD}/{name}"),
        ):
            self._output.put(whole / made, target)
        self._output.clear()

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803  (Spark's names)
        """Remove what was written of a batch."""
        self._output.clear()

    def _claim(self, query: str) -> None:
        path = self._output.path
        place = path / _QUERY
        if place.exists() and place.read_text(encoding="utf-8") == query:
            return
        if path.exists() and any(path.iterdir()):
            raise ValueError(
                f"{path}: the output of a job or of another query, which this one, {query}, "
                "would overwrite: give each query, with its checkpoint, a folder of its own"
            )
        made = self._output.unfinished / _QUERY
        write_whole(made, query)
        self._output.put(made, _QUERY)
