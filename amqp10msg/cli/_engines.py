"""Pipeline engines: local processes or Spark."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import click
from rich.progress import TextColumn

from amqp10msg.cli._output import is_terminal, progress

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
    """The engine that did a job, and how long it took."""

    engine: str
    seconds: float


def run(
    task: Task,
    *,
    engine: str,
    form: str,
    workers: int | None,
    master: str | None,
    memory: str | None,
) -> Done:
    """Do a job on the engine that is asked for, or on the one that fits."""
    from amqp10msg.jobs import OnlySparkError  # noqa: PLC0415  (an extra)

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
    from amqp10msg import jobs  # noqa: PLC0415  (an extra)

    start = time.monotonic()
    try:
        with _bar(task.color, "parts") as show:
            jobs.run(
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
    return Done("local", time.monotonic() - start)


def _spark(task: Task, form: str | None, master: str | None, memory: str | None) -> Done:
    try:
        from amqp10msg import spark  # noqa: PLC0415  (an extra)
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
        with _bar(task.color, "tasks") as show, _watched(session, show):
            spark.run(
                session,
                task.source,
                task.output,
                task.job,
                form=form,
                overwrite=task.overwrite,
            )
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    except spark.SparkError as error:
        raise click.ClickException(_reason(str(error))) from None
    return Done(f"Spark {session.version}", time.monotonic() - start)


def _reason(text: str) -> str:
    """Find the one line in a stack trace that says what went wrong."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for line in reversed(lines):
        name, colon, rest = line.partition(": ")
        if colon and name.endswith(("Error", "Exception")) and " " not in name:
            return rest
    return lines[0] if lines else "Spark failed"


@contextlib.contextmanager
def _bar(color: bool | None, unit: str) -> Iterator[Any]:
    """Show progress on a terminal; yield what to call with it, None where there is no terminal."""
    if not is_terminal(sys.stderr):
        yield None
        return
    columns = TextColumn(f"{{task.completed:,.0f}} of {{task.total:,.0f}} {unit}")
    with progress(color, columns) as bar:
        task = bar.add_task("", total=1)

        def show(completed: int, total: int) -> None:
            bar.update(task, total=total, completed=completed)

        yield show


@contextlib.contextmanager
def _watched(session: Any, show: Any) -> Iterator[None]:
    """Poll Spark for the number of tasks that are done."""
    tracker = getattr(session, "sparkContext", None) if show is not None else None
    if tracker is None:
        yield
        return
    done = threading.Event()

    def watch() -> None:
        status = tracker.statusTracker()
        while not done.wait(0.25):
            found = [status.getStageInfo(stage) for stage in status.getActiveStageIds()]
            stages = [info for info in found if info is not None]
            if stages:
                completed = sum(info.numCompletedTasks for info in stages)
                show(completed, sum(info.numTasks for info in stages))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
