"""A whole job, from files to a folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from amqp10msg.jobs import Job
from amqp10msg.jobs._parts import MESSAGES, PARQUET, OnlySparkError, input_of, is_parquet
from amqp10msg.spark.sink import write

__all__ = ["run"]


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

    Args:
        session: of `session`, or another one that knows the data source ``amqp10``.
        source: a file, a folder with what is below it, or a pattern.
        path: the folder. Where it exists, it is added to, or replaced with `overwrite`.
        job: what to do.
        form: ``parquet``, or one of `amqp10msg.files.FORMS`; found out where None.
        overwrite: replace what is there.
        options: of reading files of messages, as `Amqp10` has them.

    Raises:
        ValueError: the job cannot be done on this input; there is no such file.
        pyspark.errors.PySparkException: it failed; `amqp10msg.spark.SparkError` is another name.
    """
    given = dict(options or {})
    if form is None and is_parquet(source):
        form = PARQUET
    if form != PARQUET:
        job.check(MESSAGES.names)
        df = _parts(session, source, given if form is None else {**given, "form": form})
    else:
        try:
            job.check(input_of(source, PARQUET).names)
            df = _parts(session, source, {"form": PARQUET})
        except (OnlySparkError, FileNotFoundError):
            df = session.read.parquet(source)
    write(df, path, job, overwrite=overwrite, options=given)


def _parts(session: SparkSession, source: str, options: Mapping[str, str]) -> DataFrame:
    reader = session.read.format("amqp10").options(**options)
    return reader.option("partsAlone", "true").load(source)
