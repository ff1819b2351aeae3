"""A whole job, from files to a folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import cast

import attrs
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import CaseInsensitiveDict

from amqp10msg.files import Range
from amqp10msg.jobs import Job
from amqp10msg.jobs.inputs import (
    PARQUET,
    RANGE_OCTETS,
    OnlySparkError,
    Reading,
    input_of,
    is_parquet,
)
from amqp10msg.jobs.output import Done
from amqp10msg.jobs.running import Work, carry_out
from amqp10msg.spark.sink import output_at, write


def run(
    session: SparkSession,
    source: str,
    path: str | Path,
    job: Job,
    *,
    form: str | None = None,
    overwrite: bool = False,
    options: Mapping[str, str] | None = None,
) -> None:
    """Do a job on files, and write its result below a folder; see `JobWriter`.

    The cheapest way to do one: the workers open the files, and no message passes through the JVM.
    What only Spark can read, and with Spark Connect all, goes by way of a DataFrame and `write`.

    Args:
        session: of `session`, or another one that knows the data source ``amqp10``.
        source: a file, a folder with what is below it, or a pattern.
        path: the folder. Where it exists, it is added to, or replaced with `overwrite`.
        job: what to do.
        form: ``parquet``, or one of `amqp10msg.files.FORMS`; found out where None.
        overwrite: replace what is there.
        options: of reading files of messages, as `Amqp10` has them.

    Raises:
        ValueError: the job cannot be done on this input, or an option is wrong.
        FileNotFoundError: there is no such file. Of Parquet, which may be where only Spark looks,
            that is one of Spark's errors.
        pyspark.errors.PySparkException: it failed; `amqp10msg.spark.SparkError` is another name.
    """
    # As the options of a data source are.
    given = cast("Mapping[str, str]", CaseInsensitiveDict(options or {}))
    Reading.of(given)  # raises where one is wrong, before anything is made
    form = form or given.get("form")
    if form is None and is_parquet(source):
        form = PARQUET
    found = None
    # Of a session of Spark Connect, the files are the server's.
    if isinstance(session, SparkSession):
        try:
            found = input_of(source, form, lambda _: int(given.get("rangeBytes", RANGE_OCTETS)))
        except (OnlySparkError, FileNotFoundError):
            if form != PARQUET:
                raise
    if found is None:
        if form == PARQUET:
            df = session.read.parquet(source)
        else:
            chosen = given if form is None else {**given, "form": form}
            df = session.read.format("amqp10").options(**chosen).load(source)
        job.check(df.columns)
        write(df, path, job, overwrite=overwrite, options=given)
        return
    job.check(found.names)
    # As the output's path.
    parts = [attrs.evolve(part, path=str(Path(part.path).absolute())) for part in found.parts]
    work = Work(output_at(path, given), job, given)
    carry_out(work.output, lambda: _do(session, work, parts), overwrite=overwrite)


def _do(session: SparkSession, work: Work, parts: Sequence[Range]) -> list[Done]:
    """Do each part in a task; return what they made.

    An RDD, because no rows come or go: it starts seconds sooner than a DataFrame.
    """
    # Where Spark Connect's client is installed alone, there is none.
    from py4j.protocol import Py4JError  # noqa: PLC0415

    if not parts:
        return []
    numbered = session.sparkContext.parallelize(list(enumerate(parts)), len(parts))
    try:
        return numbered.map(partial(_attempt, work)).collect()
    except Py4JError as error:
        # Spark does this itself for a DataFrame. None where the JVM itself is gone.
        thrown = getattr(error, "java_exception", None)
        reason = str(error) if thrown is None else str(thrown.getMessage())
        raise PySparkException(reason) from error


def _attempt(work: Work, numbered: tuple[int, Range]) -> Done:
    # Of two attempts at a part, the files have different names, and one is heard of.
    attempt = cast("TaskContext", TaskContext.get()).taskAttemptId()
    return work(*numbered, attempt)
