"""``amqp10msg pipeline``: jobs on any number of messages, on this machine or by Spark."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import time
import warnings
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import click

from amqp10msg.app.cli._options import (
    LateChoice,
    color_option,
    declared_options,
    given_of,
    number_option,
    showing_option,
    target_option,
    trust_option,
)
from amqp10msg.app.cli._output import check_report, console, counting, safe, table, use_color
from amqp10msg.app.cli.submit import JOB_FILE
from amqp10msg.options import JobOptions, options_of
from amqp10msg.wire.text import plural

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_MAX_ROWS = 20


def _checked_bound(context: click.Context, _option: click.Parameter, text: str | None) -> str:
    if text is None:
        # As the command validate, which fails where one message breaks a rule.
        return "0" if context.info_name == "validate" else "1%"
    if not re.fullmatch(r"\d+|(100|\d{1,2})(\.\d+)?%", text):
        raise click.BadParameter(f"{text!r} is not a share such as 0.5%, nor a number such as 100.")
    return text


def _is_within(errors: int, messages: int, bound: str) -> bool:
    """Return whether this many messages may be in quarantine."""
    share = bound.removesuffix("%")
    # Not rounded: 0.1 % of 1,000 is 1.
    return errors <= (int(bound) if share == bound else messages * Fraction(share) / 100)


#: The options of a job that reads files however much they make.
_TRUSTED = {"expansion": str(1 << 62), "zeroWidth": str(1 << 62)}


def _forms() -> Iterable[str]:
    from amqp10msg.files import FORMS

    return ("auto", *FORMS)


class _Target(click.Path):
    """A folder of this machine, or the URL of one in an object store."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return a path, or a URL as it is."""
        from amqp10msg.files.stores import is_url

        found = str(super().convert(value, param, ctx))
        return found if is_url(found) else Path(found)


def _shared(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the arguments and options that all jobs take."""
    for decorate in reversed(
        (
            click.argument("source", metavar="IN"),
            click.argument("output", metavar="OUT", type=_Target()),
            click.option(
                "--engine",
                type=click.Choice(["auto", "spark", "local"]),
                default="auto",
                show_default=True,
                help="What runs the job: processes of this machine, or Spark. auto takes Spark "
                "if --master or --memory is given, under spark-submit, and for input that only "
                "Spark can read.",
            ),
            number_option(
                "--workers", None, "Processes of the engine local; by default one for each core."
            ),
            click.option(
                "--master",
                help="Where Spark runs: local[N], or a cluster's address; local[*] by default.",
            ),
            click.option("--memory", help="Memory of Spark's driver; 1g by default."),
            click.option(
                "-f",
                "--format",
                "form",
                type=LateChoice(_forms),
                metavar="FORMAT",
                show_default="auto",
                help="The format of the input, if it should not be guessed: raw, prefixed, "
                "jsonl, cborseq, pcap, parquet or avro.",
            ),
            declared_options(JobOptions, only=("column",)),
            click.option(
                "--max-quarantine",
                show_default="1%, and 0 for validate",
                metavar="SHARE|COUNT",
                callback=_checked_bound,
                help="How many messages may be in quarantine: a share such as 0.5%, or a number. "
                "With more, the exit status is 1; the output is complete either way. With a "
                "damaged file, the exit status is 1 in any case.",
            ),
            click.option("--overwrite", is_flag=True, help="Replace OUT if it exists."),
            trust_option,
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


def _show_archives(context: click.Context, _: click.Parameter, folder: str | None) -> None:
    if folder is None or context.resilient_parsing:
        return
    from amqp10msg.spark import archives

    click.echo(",".join(archives(folder)))
    context.exit()


@click.group(
    epilog="""
\b
Examples:
  amqp10msg pipeline decode captures/ typed/
  amqp10msg pipeline validate --profile azure archive.parquet checked/
  amqp10msg pipeline profile --workers 8 archive/ drift/
  amqp10msg pipeline profile --master yarn hdfs:///archive drift/
  spark-submit "$(amqp10msg pipeline --job-file)" decode IN OUT
"""
)
@showing_option(
    "--job-file",
    lambda: str(JOB_FILE),
    "Show the path of the file for spark-submit, which takes the same arguments.",
)
@click.option(
    "--archives",
    type=click.Path(file_okay=False),
    metavar="FOLDER",
    is_eager=True,
    expose_value=False,
    callback=_show_archives,
    help="Write what executors need of this library, with its kernel, to FOLDER, and show it as "
    "--archives of spark-submit takes it.",
)
def pipeline() -> None:
    """Decode, validate, translate or profile many messages.

    IN is a file, a folder or a pattern: Parquet with a column of encoded messages, or files of
    messages: one each, length-prefixed, JSON lines, CBOR sequences, pcap and pcapng, Avro of Event
    Hubs Capture.

    IN and OUT may be URLs of object stores: s3://, gs:// or abfss://.

    OUT is a folder: messages/ has the good ones, and quarantine/ those that could not be handled,
    with their exact bytes and with code, clause, offset and text of what is wrong. It appears when
    all is done, whole or not at all, with a page about the job in it.

    Processes on this machine do the work, or Spark, with the same result. The exit status is 0 if
    all is well; 1 if more messages are in quarantine than --max-quarantine, if a file is damaged
    so that messages are missing, if there are no messages at all, or if the job failed; 2 if the
    command line is wrong. Needs the extra arrow, and for Spark the extra spark.
    """


@pipeline.command()
@declared_options(JobOptions, only=("columns",))
@click.option("--profile", help="Also quarantine messages that break the rules of this profile.")
@_shared
def decode(**given: Any) -> int:
    """Decode messages to typed columns."""
    return _run("decode", **given)


@pipeline.command(short_help="Validate messages by a set of rules.")
@click.option("--profile", default="oasis", show_default=True, help="The rules to check against.")
@_shared
def validate(**given: Any) -> int:
    """Validate messages by the rules of the specification, or of a broker."""
    return _run("validate", **given)


@pipeline.command()
@target_option
@click.option(
    "--profile",
    default="lossless",
    show_default=True,
    help="lossless is reversible; the others do as a broker does.",
)
@declared_options(JobOptions, only=("user", "stream_offset"))
@_shared
def translate(target: str, **given: Any) -> int:
    """Translate messages between AMQP 0-9-1 and 1.0."""
    return _run("translate", to=target, **given)


@pipeline.command(short_help="Count properties and their types.")
@_shared
def profile(**given: Any) -> int:
    """Count the properties of the messages and their types, and find those of several types."""
    return _run("profile", **given)


def _run(
    kind: str,
    *,
    source: str,
    output: Path | str,
    report: Path | None,
    as_json: bool,
    color: bool | None,
    overwrite: bool,
    max_quarantine: str,
    **given: Any,
) -> int:
    from amqp10msg.atomic_files import write_whole
    from amqp10msg.files.stores import Place, files_of, is_url

    try:
        from amqp10msg import jobs  # an extra
    except ModuleNotFoundError as error:
        raise click.ClickException(str(error)) from None
    if not overwrite and _is_there(output):
        raise click.UsageError(f"{output} exists already: use --overwrite, or another folder")
    if not source:
        raise click.UsageError("IN is empty: name a file or a folder, . for this one")
    check_report(report, lambda: map(Path, [] if is_url(source) else files_of(source)))
    names = {field.name for field, _ in options_of(JobOptions)}
    options = given_of({name: given.pop(name) for name in names & given.keys()})
    job = jobs.Job.of(kind, JobOptions(**options))
    task = _Task(source, output, job, overwrite, color)
    run, stats = _run_on(task, **given)
    damaged = jobs.DAMAGED in stats.rules
    is_empty = not stats.rows
    failed = damaged or is_empty or not _is_within(stats.errors, stats.rows, max_quarantine)
    page: Path | str
    if report is not None or isinstance(output, Path):
        page = report or Path(output, "_report.html")
        write_whole(page, page_of(run, stats, page), private=True)
    else:
        place = Place.of(output) / "_report.html"
        page = place.url
        place.write(page_of(run, stats, None).encode())
    if as_json:
        said = {"seconds": round(run.seconds, 3), "engine": run.engine}
        click.echo(json.dumps({**stats.as_json(), **said}))
    else:
        show_summary(console(use_color(color)), run, stats, page, failed=failed)
    return int(failed)


def _is_there(output: Path | str) -> bool:
    """Return whether there is such a folder; of a store, whether a job is done there."""
    from amqp10msg.files.stores import Place, UnknownStoreError
    from amqp10msg.jobs.manifest import STATS

    if isinstance(output, Path):
        return output.exists()
    try:
        return (Place.of(output) / STATS).state() is not None
    except (ValueError, UnknownStoreError) as error:
        raise click.UsageError(str(error)) from None


def page_of(run: Any, stats: Any, page: Path | None) -> str:
    """Return the page about a job, with examples and a link to its quarantine.

    A page of None stands beside the quarantine, in a store.
    """
    from amqp10msg import jobs

    folder = "quarantine"
    if page is not None:
        folder = os.path.relpath(Path(run.output) / folder, page.parent)
    return jobs.page(
        run,
        stats,
        examples=jobs.examples_of(run.output, stats, jobs.EXAMPLES) if stats.errors else (),
        quarantine=folder if stats.errors else "",
    )


def show_summary(
    screen: Console, run: Any, stats: Any, page: Path | str, *, failed: bool = False
) -> None:
    """Show what a job did; it failed where more messages are in quarantine than may be."""
    from rich.text import Text

    from amqp10msg.jobs import DAMAGED

    seconds = run.seconds
    rate = stats.rows / seconds if seconds else 0
    speed = stats.octets / seconds / 1e6 if seconds else 0
    made = _table("Messages", "Bytes", "Seconds", "Messages/s", "MB/s")
    counts = f"{stats.rows:,}", f"{stats.octets:,}"
    made.add_row(*counts, f"{seconds:,.1f}", f"{rate:,.0f}", f"{speed:,.1f}")
    screen.print(made)
    if stats.rules:
        beside = f"{Path(run.source).parent}/"
        screen.print()
        made = _table("Code", "Clause", "Messages", "First in", right={"Messages"})
        rules = stats.rules_by_frequency()
        places = [safe(row.first.removeprefix(beside)) for _, row in rules]
        # Where there is room for a word of a clause, that is what is folded: between its words.
        others = max(map(len, stats.rules)) + max(map(len, places)) + len("Messages") + 3 * 2
        made.columns[-1].no_wrap = screen.width - others >= len("Part 3, 3.2.1,")
        for (code, row), place in zip(rules, places, strict=True):
            made.add_row(code, row.clause, f"{row.messages:,}", Text(place))
        screen.print(made)
        screen.print()
        for code, row in rules:
            if row.text:
                screen.print(Text(f"{code}: {safe(row.text)}"))
    if stats.losses:
        screen.print()
        made = _table("Lost", "Action", "Messages", "Why", right={"Messages"})
        losses = [*stats.lost()]
        for path, action, count, reason in losses[:_MAX_ROWS]:
            made.add_row(Text(safe(path)), action, f"{count:,}", reason)
        screen.print(made)
        if len(losses) > _MAX_ROWS:
            screen.print(f"… and {len(losses) - _MAX_ROWS:,} more")
    drifts = stats.drifting()
    if drifts:
        screen.print()
        made = _table("Property", "Types", right=set())
        for section, key, types in drifts[:_MAX_ROWS]:
            said = ", ".join(f"{name} {count:,}" for name, count in types.most_common())
            made.add_row(Text(safe(f"{section.replace('_', '-')}[{key!r}]")), said)
        screen.print(made)
        if len(drifts) > _MAX_ROWS:
            screen.print(f"… and {len(drifts) - _MAX_ROWS:,} more")
    screen.print()
    words = [f"{plural(stats.rows, 'message')}: {stats.good:,} good"]
    if stats.errors:
        words.append(f"{stats.errors:,} in {safe(f'{run.output}/quarantine')}")
    if stats.skipped:
        words.append(f"{plural(stats.skipped, 'row')} without one")
    if not stats.rows:
        words.append("there are no messages in what was given")
    if stats.lost_for_good:
        words.append(f"{plural(stats.lost_for_good, 'value')} lost for good")
    is_less = stats.errors or stats.lost_for_good
    style = "bold red" if failed else "bold yellow" if is_less else "bold green"
    screen.print(Text(", ".join(words), style=style))
    if stats.rules.get(DAMAGED):
        count = plural(stats.rules[DAMAGED].messages, "damaged file")
        text = f"{count}: what follows the damage is missing, however much that is"
        screen.print(Text(text, style="bold red"))
    screen.print(Text(f"engine: {run.engine}"))
    screen.print(Text(f"page: {safe(str(page))}"))


def _table(*names: str, right: set[str] | None = None) -> Table:
    """Return a table whose columns, or those in `right`, are flush right."""
    made = table(*names)
    for column in made.columns:
        name = str(column.header)
        column.justify = "right" if right is None or name in right else "left"
        column.no_wrap = name in {"Code", "Messages"}
    return made


# Engines: processes of this machine, or Spark.


@attrs.frozen
class _Task:
    """A job with its input and output, whatever engine does it."""

    source: str
    output: Path | str
    job: Any  # a jobs.Job, which is of an extra
    overwrite: bool
    color: bool | None


# The `jobs.Run`, and the `jobs.Stats` that were counted.
_Done = tuple[Any, Any]


def _run_on(
    task: _Task,
    *,
    engine: str,
    form: str | None,
    workers: int | None,
    master: str | None,
    memory: str | None,
    is_trusted: bool,
) -> _Done:
    """Run a job on the engine that is asked for, or on the one that fits."""
    from amqp10msg.jobs import OnlySparkError  # an extra

    is_spark_meant = master is not None or memory is not None
    if engine == "local" and is_spark_meant:
        raise click.UsageError("--master and --memory are Spark's: leave them out, or --engine")
    if workers is not None and (engine == "spark" or is_spark_meant):
        raise click.UsageError("--workers is for the engine local: for Spark say --master local[N]")
    known_form = None if form == "auto" else form
    options = _TRUSTED if is_trusted else None
    # Of spark-submit: there is a JVM already.
    is_spark_there = "PYSPARK_GATEWAY_PORT" in os.environ
    if engine == "spark" or (engine == "auto" and (is_spark_meant or is_spark_there)):
        return _spark(task, known_form, master, memory, options)
    try:
        return _local(task, known_form, workers, options)
    except OnlySparkError as error:
        if engine == "local":
            raise click.UsageError(f"{error}: leave out --engine local") from None
        if importlib.util.find_spec("pyspark") is None:
            raise click.ClickException(f"{error}: pip install 'amqp10msg[spark]'") from None
    return _spark(task, known_form, None, None, options)


def _local(
    task: _Task, form: str | None, workers: int | None, options: dict[str, str] | None
) -> _Done:
    from amqp10msg import jobs  # an extra

    do = partial(jobs.run, form=form, workers=workers, options=options)
    return _done(task, do, jobs.JobError, "local", "parts")


def _spark(
    task: _Task,
    form: str | None,
    master: str | None,
    memory: str | None,
    options: dict[str, str] | None,
) -> _Done:
    try:
        from amqp10msg import spark  # an extra
    except ModuleNotFoundError as error:
        raise click.ClickException(str(error)) from None
    from amqp10msg.jobs.inputs import input_columns

    # Before Spark starts, which takes seconds.
    names = input_columns(task.source, form)
    if names is not None:
        try:
            task.job.check(names)
        except ValueError as error:
            raise click.UsageError(str(error)) from None
    # Of the pandas that pyspark itself brings; nothing here uses it.
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)

    name, config = f"amqp10msg {task.job.kind}", {"spark.log.level": "ERROR"}
    try:
        session = spark.session(master, memory=memory or "1g", app_name=name, config=config)
    except RuntimeError as error:  # no Java
        raise click.ClickException(str(error)) from None
    do = partial(spark.run, session, form=form, options=options)
    return _done(task, do, spark.SparkError, f"Spark {session.version}", "tasks")


def _done(
    task: _Task, do: Callable[..., Any], failure: type[Exception], engine: str, unit: str
) -> _Done:
    """Do a job with a bar on a terminal, or end the command with what is wrong."""
    from amqp10msg.jobs import OnlySparkError, Run  # an extra

    start = time.monotonic()
    try:
        with counting(task.color, unit) as show:
            mode = "overwrite" if task.overwrite else "error"
            stats = do(task.source, task.output, task.job, mode=mode, progress=show)
    except OnlySparkError:
        raise
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    except failure as error:
        raise click.ClickException(str(error)) from None
    seconds, job = time.monotonic() - start, task.job
    title = f"amqp10msg pipeline {job.kind}"
    run = Run(title, task.source, str(task.output), seconds, engine, job.profile_used)
    return run, stats
