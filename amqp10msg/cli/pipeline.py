"""``amqp10msg pipeline``: jobs on as many messages as there are, by way of Spark."""

from __future__ import annotations

import contextlib
import json
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from amqp10msg.cli._output import color_option, is_terminal, plural, safe, use_color
from amqp10msg.cli.submit import JOB_FILE
from amqp10msg.files import FORMS

__all__ = ["pipeline"]

_MAX_DRIFTS = 20


def _shared(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a job's command what all of them take."""
    for decorate in reversed(
        (
            click.argument("source", metavar="IN"),
            click.argument("output", metavar="OUT", type=click.Path(path_type=Path)),
            click.option(
                "--master",
                help="Where Spark runs: local[N], or a cluster's address; local[*] by default.",
            ),
            click.option(
                "--memory", default="1g", show_default=True, help="Memory of Spark's driver."
            ),
            click.option(
                "-f",
                "--format",
                "form",
                type=click.Choice(["auto", "parquet", *FORMS]),
                default="auto",
                show_default=True,
                help="What the input is, where it should not be guessed.",
            ),
            click.option(
                "--column",
                default="wire",
                show_default=True,
                help="The column of encoded messages in Parquet.",
            ),
            click.option("--overwrite", is_flag=True, help="Replace OUT where it exists."),
            click.option(
                "--report",
                type=click.Path(dir_okay=False, path_type=Path),
                help="Write the HTML page here; OUT/_report.html by default.",
            ),
            click.option("--json", "as_json", is_flag=True, help="Write the summary as JSON."),
            color_option,
        )
    ):
        command = decorate(command)
    return command


def _show_job_file(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        click.echo(str(JOB_FILE))
        context.exit()


@click.group(
    epilog="""
\b
Examples:
  amqp10msg pipeline decode captures/ typed/
  amqp10msg pipeline validate --profile azure archive.parquet checked/
  amqp10msg pipeline profile --master local[8] archive/ drift/
  spark-submit "$(amqp10msg pipeline --job-file)" decode IN OUT
"""
)
@click.option(
    "--job-file",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_job_file,
    help="Show the path of the file for spark-submit, which takes the same arguments.",
)
def pipeline() -> None:
    """Decode, judge, translate or profile many messages, by way of Spark.

    IN is a file, a folder or a pattern: Parquet with a column of encoded messages, or files of
    messages: each behind its size, JSON lines, CBOR sequences, pcap and pcapng.

    OUT is a folder: messages/ has the good ones, and quarantine/ those that could not be handled,
    with their exact octets and with code, clause, offset and text of what is wrong. It appears when
    all is done, whole or not at all. A page about the job stands in it, too.

    The exit status is 0 where all is well, 1 where messages are in quarantine, 2 where the command
    line is wrong. Needs the extra spark.
    """


@pipeline.command()
@click.option("--columns", help="Columns to decode, with commas between; all by default.")
@click.option("--profile", help="Also quarantine what breaks the rules of this profile.")
@_shared
def decode(columns: str | None, profile: str | None, **shared: Any) -> int:
    """Decode messages to typed columns."""
    wanted = tuple(name.strip() for name in columns.split(",")) if columns else None
    return _run("decode", {"columns": wanted, "profile": profile}, **shared)


@pipeline.command()
@click.option("--profile", default="oasis", show_default=True, help="The set of rules to judge by.")
@_shared
def validate(profile: str, **shared: Any) -> int:
    """Hold messages to the rules of the specification, or of a broker."""
    return _run("validate", {"profile": profile}, **shared)


@pipeline.command()
@click.option(
    "--to",
    type=click.Choice(["amqp10", "basic"]),
    required=True,
    help="The protocol to translate to: AMQP 1.0, or class basic of 0-9-1.",
)
@click.option(
    "--profile", default="lossless", show_default=True, help="Reversible, or as this broker does."
)
@_shared
def translate(to: str, profile: str, **shared: Any) -> int:
    """Translate messages between AMQP 0-9-1 and 1.0."""
    return _run("translate", {"to": to, "profile": profile}, **shared)


@pipeline.command()
@_shared
def profile(**shared: Any) -> int:
    """Find out which properties the messages have, of which types, and which of them drift."""
    return _run("profile", {}, **shared)


def _run(
    kind: str,
    options: dict[str, Any],
    *,
    source: str,
    output: Path,
    master: str | None,
    memory: str,
    form: str,
    column: str,
    overwrite: bool,
    report: Path | None,
    as_json: bool,
    color: bool | None,
) -> int:
    try:
        from amqp10msg import spark  # noqa: PLC0415  (an extra)
        from amqp10msg.spark.jobs import Job  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise click.ClickException(str(error)) from None
    # Of the pandas that pyspark itself brings; nothing here uses it.
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)

    if output.exists() and not overwrite:
        raise click.UsageError(f"{output} is there already: give --overwrite, or another folder")
    if report is not None and not report.parent.is_dir():
        raise click.UsageError(f"--report: there is no folder {report.parent}")
    try:
        session = spark.session(
            master, memory=memory, app_name=f"amqp10msg {kind}", config={"spark.log.level": "ERROR"}
        )
    except RuntimeError as error:  # no Java
        raise click.ClickException(str(error)) from None
    start = time.monotonic()
    try:
        job = Job(kind, column, **options)
        with _progress(session, color):
            spark.run(
                *(session, source, output, job),
                form=None if form == "auto" else form,
                overwrite=overwrite,
            )
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    except spark.SparkError as error:
        raise click.ClickException(_reason(str(error))) from None
    stats = spark.read_stats(output)
    seconds = time.monotonic() - start
    run = spark.Run(f"amqp10msg pipeline {kind}", source, str(output), seconds)
    page = report if report is not None else output / "_report.html"
    page.write_text(spark.page(run, stats), encoding="utf-8")
    if as_json:
        click.echo(json.dumps({**stats.as_json(), "seconds": round(seconds, 3)}))
    else:
        _show(stats, seconds, output, page, use_color(color))
    return int(stats.errors > 0)


def _reason(text: str) -> str:
    """Find the one line in a stack trace that says what went wrong."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for line in reversed(lines):
        name, colon, rest = line.partition(": ")
        if colon and name.endswith(("Error", "Exception")) and " " not in name:
            return rest
    return lines[0] if lines else "Spark failed"


@contextlib.contextmanager
def _progress(session: Any, color: bool | None) -> Iterator[None]:
    """Show on a terminal how many tasks are done."""
    tracker = getattr(session, "sparkContext", None) if is_terminal(sys.stderr) else None
    if tracker is None:
        yield
        return
    console = Console(stderr=True, no_color=not use_color(color, sys.stderr))
    done = threading.Event()
    with Progress(
        BarColumn(),
        TextColumn("{task.completed:,.0f} of {task.total:,.0f} tasks"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    ) as bar:
        task = bar.add_task("", total=1)

        def watch() -> None:
            status = tracker.statusTracker()
            while not done.wait(0.25):
                found = [status.getStageInfo(stage) for stage in status.getActiveStageIds()]
                stages = [info for info in found if info is not None]
                if stages:
                    bar.update(
                        task,
                        total=sum(info.numTasks for info in stages),
                        completed=sum(info.numCompletedTasks for info in stages),
                    )

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join()


def _show(stats: Any, seconds: float, output: Path, page: Path, colored: bool) -> None:
    console = Console(
        no_color=not colored, force_terminal=colored, highlight=False, soft_wrap=False
    )
    rate = stats.rows / seconds if seconds else 0
    table = _table("Messages", "Bytes", "Seconds", "Messages/s", "MB/s")
    table.add_row(
        f"{stats.rows:,}",
        f"{stats.octets:,}",
        f"{seconds:,.1f}",
        f"{rate:,.0f}",
        f"{stats.octets / seconds / 1e6 if seconds else 0:,.1f}",
    )
    console.print(table)
    if stats.rules:
        console.print()
        table = _table("Code", "Clause", "Messages", "First in", right={"Messages"})
        for code, row in sorted(stats.rules.items(), key=lambda item: -item[1].messages):
            table.add_row(code, row.clause, f"{row.messages:,}", safe(row.first))
        console.print(table)
    drifts = stats.drifting()
    if drifts:
        console.print()
        table = _table("Property", "Types", right=set())
        for section, key, types in drifts[:_MAX_DRIFTS]:
            said = ", ".join(f"{name} {count:,}" for name, count in types.most_common())
            table.add_row(safe(f"{section.replace('_', '-')}[{key!r}]"), said)
        console.print(table)
        if len(drifts) > _MAX_DRIFTS:
            console.print(f"… and {len(drifts) - _MAX_DRIFTS:,} more")
    console.print()
    words = [f"{plural(stats.rows, 'message')}: {stats.good:,} good"]
    if stats.errors:
        words.append(f"{stats.errors:,} in {safe(str(output / 'quarantine'))}")
    if stats.skipped:
        words.append(f"{plural(stats.skipped, 'row')} without one")
    style = "bold red" if stats.errors else "bold green"
    console.print(Text(", ".join(words), style=style))
    console.print(Text(f"page: {safe(str(page))}"))


def _table(*names: str, right: set[str] | None = None) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 2, 0, 0))
    for name in names:
        number = right is None or name in right
        table.add_column(
            name,
            justify="right" if number else "left",
            overflow="fold",
            no_wrap=name in {"Code", "Messages"},
        )
    return table
