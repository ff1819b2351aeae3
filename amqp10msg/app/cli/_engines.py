"""Pipeline engines: local processes or Spark."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import click

from amqp10msg.app.cli._output import is_terminal, progress

ENGINES = ("auto", "spark", "local")


@attrs.frozen
class Task:
    """A job with its input and output, whatever engine does it."""

    source: str
    output: Path
    job: Any  # a jobs.Job, which is of an extra
    overwrite: bool
    color: bool | None


@attrs.frozen
class Done:
    """The engine that did a job, how long it took, and what it counted."""

    engine: str
    seconds: float
    stats: Any  # a jobs.Stats, likewise


def run(
    task: Task,
    *,
    engine: str,
    form: str | None,
    workers: int | None,
    master: str | None,
    memory: str | None,
) -> Done:
    """Run a job on the engine that is asked for, or on the one that fits."""
    from amqp10msg.jobs import OnlySparkError  # an extra

    is_spark_meant = master is not None or memory is not None
    if engine == "local" and is_spark_meant:
        raise click.UsageError("--master and --memory are Spark's: leave them out, or --engine")
    if workers is not None and (engine == "spark" or is_spark_meant):
        raise click.UsageError("--workers is for the engine local: for Spark say --master local[N]")
    known_form = None if form == "auto" else form
    # Of spark-submit: there is a JVM already.
    is_spark_there = "PYSPARK_GATEWAY_PORT" in os.environ
    if engine == "spark" or (engine == "auto" and (is_spark_meant or is_spark_there)):
        return _spark(task, known_form, master, memory)
    try:
        return _local(task, known_form, workers)
    except OnlySparkError as error:
        if engine == "local":
            raise click.UsageError(f"{error}: leave out --engine local") from None
        if importlib.util.find_spec("pyspark") is None:
            raise click.ClickException(f"{error}: pip install 'amqp10msg[spark]'") from None
    return _spark(task, known_form, None, None)


def _local(task: Task, form: str | None, workers: int | None) -> Done:
    from amqp10msg import jobs  # an extra

    start = time.monotonic()
    try:
        with _bar(task.color, "parts") as show:
            stats = jobs.run(
                task.source,
                task.output,
                task.job,
                form=form,
                overwrite=task.overwrite,
                workers=workers,
                progress=show,
            )
    except jobs.OnlySparkError:
        raise
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    except jobs.JobError as error:
        raise click.ClickException(str(error)) from None
    return Done("local", time.monotonic() - start, stats)


def _spark(task: Task, form: str | None, master: str | None, memory: str | None) -> Done:
    try:
        from amqp10msg import spark  # an extra
    except ModuleNotFoundError as error:
        raise click.ClickException(str(error)) from None
    # Of the pandas that pyspark itself brings; nothing here uses it.
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)

    name, config = f"amqp10msg {task.job.kind}", {"spark.log.level": "ERROR"}
    try:
        session = spark.session(master, memory=memory or "1g", app_name=name, config=config)
    except RuntimeError as error:  # no Java
        raise click.ClickException(str(error)) from None
    start = time.monotonic()
    try:
        with _bar(task.color, "tasks") as show:
            stats = spark.run(
                session,
                task.source,
                task.output,
                task.job,
                form=form,
                overwrite=task.overwrite,
                progress=show,
            )
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    except spark.SparkError as error:
        raise click.ClickException(str(error)) from None
    return Done(f"Spark {session.version}", time.monotonic() - start, stats)


@contextlib.contextmanager
def _bar(color: bool | None, unit: str) -> Iterator[Any]:
    """Show progress on a terminal; yield what to call with it, None where there is no terminal."""
    if not is_terminal(sys.stderr):
        yield None
        return
    from rich.progress import TextColumn

    columns = TextColumn(f"{{task.completed:,.0f}} of {{task.total:,.0f}} {unit}")
    with progress(color, columns) as bar:
        task = bar.add_task("", total=1)

        def show(completed: int, total: int) -> None:
            bar.update(task, total=total, completed=completed)

        yield show
