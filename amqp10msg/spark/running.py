"""A whole job, from files to a folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from amqp10msg.spark._parts import MESSAGES, PARQUET, parquet_parts
from amqp10msg.spark.jobs import Job
from amqp10msg.spark.sink import write
from amqp10msg.spark.source import files_of

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
        SparkError: it failed.
    """
    given = dict(options or {})
    if form is None and _is_parquet(source):
        form = PARQUET
    if form != PARQUET:
        job.check(MESSAGES.names)
        df = _parts(session, source, given if form is None else {**given, "form": form})
        write(df, path, job, overwrite=overwrite, options=given)
        return
    names = _direct_names(source)
    if names is None:
        write(session.read.parquet(source), path, job, overwrite=overwrite)
        return
    job.check(names)
    df = _parts(session, source, {"form": PARQUET})
    write(df, path, job, overwrite=overwrite)


def _parts(session: SparkSession, source: str, options: Mapping[str, str]) -> DataFrame:
    reader = session.read.format("amqp10").options(**options)
    return reader.option("partsAlone", "true").load(source)


def _is_parquet(source: str) -> bool:
    path = Path(source)
    return source.endswith(".parquet") or (
        path.is_dir() and next(path.rglob("*.parquet"), None) is not None
    )


def _direct_names(source: str) -> list[str] | None:
    """Give the columns of Parquet that the workers can open; None where only Spark can.

    Spark knows other file systems, folders that are columns, and files of several schemas.
    """
    paths = files_of(source)
    if not paths or any("=" in path.removeprefix(source) for path in paths):
        return None
    found = parquet_parts(paths)
    return None if found is None else list(found[0].names)
