"""``amqp10msg pipeline``: jobs on large numbers of messages, in local processes or on Spark."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import time
import warnings
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import click

from amqp10msg.app.cli._options import (
    color_option,
    declared_options,
    file_formats,
    format_option,
    given_options,
    number_option,
    printing_option,
    rules_error,
    target_option,
    trust_option,
)
from amqp10msg.app.cli._output import (
    check_report,
    console,
    print_error,
    progress_counter,
    safe,
    table,
    use_color,
)
from amqp10msg.app.cli.submit import JOB_FILE
from amqp10msg.options import JobOptions, options_of
from amqp10msg.wire.text import plural

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from amqp10msg.jobs.job import Kind

# The maximum number of rows that a table of losses or property types has on the terminal.
_MAX_TABLE_ROWS = 20


def _parse_max_quarantine(
    context: click.Context, _option: click.Parameter, text: str | None
) -> str:
    """Check the value of --max-quarantine; return it, or the default."""
    if text is None:
        # Like `amqp10msg validate`, `pipeline validate` fails if any message violates a rule.
        return "0" if context.info_name == "validate" else "1%"
    if not re.fullmatch(r"\d+|(100|\d{1,2})(\.\d+)?%", text):
        raise click.BadParameter(f"{text!r} must be a share such as 0.5%, or a number such as 100.")
    return text


def _is_within(errors: int, messages: int, max_errors: str) -> bool:
    """Return whether `errors` is at most `max_errors`: a number, or a percentage of `messages`."""
    share = max_errors.removesuffix("%")
    # Use exact arithmetic, so that 0.1 % of 1,000 is 1.
    return errors <= (int(max_errors) if share == max_errors else messages * Fraction(share) / 100)


#: The options of a job for --trust-files, with limits on expansion that are never reached.
_UNLIMITED_EXPANSION = {"expansionRatio": str(1 << 62), "zeroWidth": str(1 << 62)}


class _OutputFolder(click.Path):
    """The click type of OUT: a local folder, or the URL of a folder in an object store."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return a Path, or a URL as a string."""
        from amqp10msg.files.stores import is_url

        text = str(super().convert(value, param, ctx))
        return text if is_url(text) else Path(text)


# The options that select messages. Their names are those of the options of `jobs.run`.
_FILTER_OPTIONS = (
    click.option(
        "--protocol",
        type=click.Choice(["1.0", "0-9-1"]),
        help="Read only messages of this protocol. These options are applied before the job; the "
        "report counts all other messages as left out. Unreadable messages are never left out.",
    ),
    click.option("--address", help="Read only messages of links with this address."),
    click.option(
        "--since",
        metavar="TIME",
        help="Read only messages captured at this time or later, such as 2026-01-31T12:00:00Z.",
    ),
    click.option("--until", metavar="TIME", help="Read only messages captured before this time."),
    click.option(
        "--selector",
        help="Read only messages of AMQP 1.0 that pass this JMS message selector, and all of "
        "0-9-1: tenant = 'acme'.",
    ),
)
_FILTER_NAMES = ("protocol", "address", "since", "until", "selector")


def _job_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the arguments and options that all jobs share."""
    for decorate in reversed(
        (
            click.argument("source", metavar="IN"),
            click.argument("output", metavar="OUT", type=_OutputFolder()),
            click.option(
                "--engine",
                type=click.Choice(["auto", "spark", "local"]),
                default="auto",
                show_default=True,
                help="Run the job in local processes or on Spark. auto selects Spark if --master "
                "or --memory is given, under spark-submit, and for input that only Spark can read.",
            ),
            number_option(
                "--workers", None, "The number of local processes; by default, one for each core."
            ),
            click.option(
                "--master",
                help="The Spark master: local[N], or a cluster's address; local[*] by default.",
            ),
            click.option("--memory", help="The memory of the Spark driver; 1g by default."),
            format_option("-f", "--format", formats=file_formats, show_default="auto"),
            declared_options(JobOptions, only=("column",)),
            *_FILTER_OPTIONS,
            click.option(
                "--max-quarantine",
                show_default="1%, and 0 for validate",
                metavar="SHARE|COUNT",
                callback=_parse_max_quarantine,
                help="Exit with status 1 if more messages than this are quarantined: a share such "
                "as 0.5%, or a number. The output is complete either way. If a file is damaged, "
                "the exit status is always 1.",
            ),
            click.option("--overwrite", is_flag=True, help="Replace OUT if it exists."),
            trust_option,
            click.option(
                "--report",
                type=click.Path(dir_okay=False, path_type=Path),
                help="Write the HTML report to this file, by default OUT/_report.html.",
            ),
            click.option(
                "--json",
                "as_json",
                is_flag=True,
                help="Print the summary as JSON, with the reason of exit status 1 as failure.",
            ),
            color_option,
        )
    ):
        command = decorate(command)
    return command


def _show_archives(context: click.Context, _: click.Parameter, folder: str | None) -> None:
    """Write the archives of this library to a folder, and print the value for spark-submit."""
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
@printing_option(
    "--job-file",
    lambda: str(JOB_FILE),
    "Print the path of the script for spark-submit; it takes the arguments of this command.",
)
@click.option(
    "--archives",
    type=click.Path(file_okay=False),
    metavar="FOLDER",
    is_eager=True,
    expose_value=False,
    callback=_show_archives,
    help="Write this library and its kernel to FOLDER, and print the value for --archives of "
    "spark-submit, which distributes it to the executors.",
)
def pipeline() -> None:
    """Decode, validate, translate or profile many messages.

    IN is a file, a folder or a pattern. The files are Parquet with a column of encoded messages, or
    hold one message each, length-prefixed messages, JSON lines, a CBOR sequence, a network capture
    (pcap, pcapng) or Avro of Event Hubs Capture.

    IN and OUT may be URLs of object stores: s3://, gs:// or abfss://.

    OUT is a folder. OUT/messages holds the good messages. OUT/quarantine holds the messages that
    could not be processed: their exact bytes, and the code, clause, offset and text of the error.
    OUT appears only when the job is complete, together with a report.

    Local processes and Spark produce the same result. The exit status is 0 on success; 1 if more
    messages are quarantined than --max-quarantine allows, if messages are missing because a file is
    damaged, if a translation lost data of senders permanently, if the input holds no messages, or
    if the job failed; 2 if the command line is wrong.
    Requires the extra arrow, and for Spark the extra spark.
    """


@pipeline.command()
@declared_options(JobOptions, only=("columns", "lenient"))
@click.option("--profile", help="Also quarantine messages that violate the rules of this profile.")
@declared_options(JobOptions, only=("rules",))
@_job_options
def decode(**values: Any) -> int:
    """Decode messages into typed columns."""
    return _run("decode", **values)


@pipeline.command(short_help="Validate messages against a set of rules.")
@click.option("--profile", default="oasis", show_default=True, help="The set of rules to check.")
@declared_options(JobOptions, only=("rules",))
@_job_options
def validate(**values: Any) -> int:
    """Validate messages against the rules of the specification or of a broker."""
    return _run("validate", **values)


@pipeline.command(short_help="Translate messages between AMQP 0-9-1 and 1.0.")
@target_option
@click.option(
    "--profile",
    default="lossless",
    show_default=True,
    help="The translation: lossless, which is reversible, or a broker's.",
)
@declared_options(JobOptions, only=("user", "stream_offset"))
@_job_options
def translate(target: str, **values: Any) -> int:
    """Translate messages between AMQP 0-9-1 and 1.0.

    The exit status is also 1 if data of a sender was lost permanently, as with amqp10msg translate.
    The loss of annotations that a broker adds on delivery is listed, but does not affect the
    status.
    """
    return _run("translate", to=target, **values)


@pipeline.command(short_help="Count properties and their types.")
@_job_options
def profile(**values: Any) -> int:
    """Count the properties of the messages by type, and list properties with several types."""
    return _run("profile", **values)


def _run(
    kind: Kind,
    *,
    source: str,
    output: Path | str,
    report: Path | None,
    as_json: bool,
    color: bool | None,
    overwrite: bool,
    max_quarantine: str,
    **values: Any,
) -> int:
    """Run a job, write its report, print the summary, and return the exit status."""
    from amqp10msg.atomic_files import write_whole
    from amqp10msg.files.stores import StoreLocation, files_of, is_url

    try:
        from amqp10msg import jobs  # needs the extra arrow
    except ModuleNotFoundError as error:
        raise click.ClickException(str(error)) from None
    if not overwrite and _output_exists(output):
        raise click.UsageError(
            f"{output} exists already: add --overwrite, or choose another folder"
        )
    if not source:
        raise click.UsageError(
            "IN is empty: name a file or a folder, such as . for the current one"
        )
    check_report(report, lambda: map(Path, [] if is_url(source) else files_of(source)))
    names = {field.name for field, _ in options_of(JobOptions)}
    options = given_options({name: values.pop(name) for name in names & values.keys()})
    try:
        job = jobs.Job.of(kind, JobOptions(**options))
    except (OSError, UnicodeError) as error:
        raise rules_error(error) from None
    filters = {name: values.pop(name) for name in _FILTER_NAMES}
    filters = {name: value for name, value in filters.items() if value is not None}
    task = _JobArguments(source, output, job, overwrite, color, filters)
    run, stats = _run_on_engine(task, **values)
    reason = _failure(stats, str(output), max_quarantine)
    failed = bool(reason)
    page: Path | str
    if report is not None or isinstance(output, Path):
        page = report or Path(output, "_report.html")
        write_whole(page, report_page(run, stats, page), private=True)
    else:
        report_place = StoreLocation.of(output) / "_report.html"
        page = report_place.url
        report_place.write(report_page(run, stats, None).encode())
    if as_json:
        timing = {"seconds": round(run.seconds, 3), "engine": run.engine}
        # Not on stderr: spark-submit would write it into the JSON on stdout.
        failure = {"failure": reason.removeprefix(_STATUS_1)} if failed else {}
        skipped = {"not_read": list(run.skipped_sections)} if run.skipped_sections else {}
        click.echo(json.dumps({**stats.as_json(), **timing, **skipped, **failure}))
    else:
        show_summary(console(use_color(color)), run, stats, page, failed=failed)
        if failed:
            print_error(reason)
    return int(failed)


#: How the text on stderr begins if the command ends with status 1.
_STATUS_1 = "exit status 1: "


def _failure(stats: Any, output: str, max_quarantine: str) -> str:
    """Return why the command exits with status 1 after a complete job; empty if it does not."""
    from amqp10msg.jobs import DAMAGED

    if not stats.rows:
        return f"{_STATUS_1}{_no_messages_text(stats)}"
    reasons = []
    if DAMAGED in stats.rules:
        count = plural(stats.rules[DAMAGED].messages, "damaged file")
        reasons.append(f"{count}: all messages after the damage are missing")
    if not _is_within(stats.errors, stats.rows, max_quarantine):
        reasons.append(
            f"{stats.errors:,} of {plural(stats.rows, 'message')} in {output}/quarantine, more "
            f"than --max-quarantine {max_quarantine}"
        )
    if stats.lost_for_good:
        reasons.append(f"{plural(stats.lost_for_good, 'value')} of senders lost for good")
    return f"{_STATUS_1}{'; '.join(reasons)}" if reasons else ""


def _no_messages_text(stats: Any) -> str:
    """Return why a job has processed no messages."""
    if stats.left_out:
        return "the filters select no message of the input"
    return "the input contains no messages"


def _output_exists(output: Path | str) -> bool:
    """Return whether `output` exists: a local folder, or a result of a job in an object store."""
    from amqp10msg.files.stores import StoreLocation, UnknownStoreError
    from amqp10msg.jobs.manifest import STATS_FILE

    if isinstance(output, Path):
        return output.exists()
    try:
        return (StoreLocation.of(output) / STATS_FILE).state() is not None
    except (ValueError, UnknownStoreError) as error:
        raise click.UsageError(str(error)) from None


def report_page(run: Any, stats: Any, page: Path | None) -> str:
    """Return the HTML report of a job, with example messages and a link to the quarantine folder.

    `page` is the local path of the report, or None if the report is in an object store. There, the
    report and the quarantine are in the same folder.
    """
    from amqp10msg import jobs

    folder = "quarantine"
    if page is not None:
        folder = os.path.relpath(Path(run.output) / folder, page.parent)
    return jobs.page(
        run,
        stats,
        examples=jobs.examples_of(run.output, stats, jobs.EXAMPLES_PER_ERROR_CODE)
        if stats.errors
        else (),
        quarantine=folder if stats.errors else "",
    )


def show_summary(
    screen: Console, run: Any, stats: Any, page: Path | str, *, failed: bool = False
) -> None:
    """Print the summary of a job, in red if `failed`: the command exits with status 1."""
    from rich.text import Text

    from amqp10msg.jobs import DAMAGED

    seconds = run.seconds
    rate = stats.rows / seconds if seconds else 0
    speed = stats.octets / seconds / 1e6 if seconds else 0
    rows = _aligned_table("Messages", "Bytes", "Seconds", "Messages/s", "MB/s")
    counts = f"{stats.rows:,}", f"{stats.octets:,}"
    rows.add_row(*counts, f"{seconds:,.1f}", f"{rate:,.0f}", f"{speed:,.1f}")
    screen.print(rows)
    if stats.rules:
        parent = f"{Path(run.source).parent}/"
        screen.print()
        rows = _aligned_table("Code", "Clause", "Messages", "First in", right={"Messages"})
        rules = stats.rules_by_frequency()
        examples = [safe(row.first.removeprefix(parent)) for _, row in rules]
        # Do not wrap the column First in if there is enough room for the column Clause. It needs
        # the width of "Part 3, 3.2.1,", because longer clauses can be wrapped at spaces.
        other_width = max(map(len, stats.rules)) + max(map(len, examples)) + len("Messages") + 3 * 2
        rows.columns[-1].no_wrap = screen.width - other_width >= len("Part 3, 3.2.1,")
        for (code, row), example in zip(rules, examples, strict=True):
            rows.add_row(code, row.clause, f"{row.messages:,}", Text(example))
        screen.print(rows)
        screen.print()
        for code, row in rules:
            if row.text:
                screen.print(Text(f"{code}: {safe(row.text)}"))
    if stats.losses:
        screen.print()
        rows = _aligned_table(run.loss_heading, "Action", "Messages", "Reason", right={"Messages"})
        losses = [*stats.lost()]
        for path, action, count, reason in losses[:_MAX_TABLE_ROWS]:
            rows.add_row(Text(safe(path)), action, f"{count:,}", reason)
        screen.print(rows)
        if len(losses) > _MAX_TABLE_ROWS:
            screen.print(f"… and {len(losses) - _MAX_TABLE_ROWS:,} more")
    drifts = stats.drifting()
    if drifts:
        screen.print()
        rows = _aligned_table("Property", "Types", right=set())
        for section, key, types in drifts[:_MAX_TABLE_ROWS]:
            type_counts = ", ".join(f"{name} {count:,}" for name, count in types.most_common())
            rows.add_row(Text(safe(f"{section.replace('_', '-')}[{key!r}]")), type_counts)
        screen.print(rows)
        if len(drifts) > _MAX_TABLE_ROWS:
            screen.print(f"… and {len(drifts) - _MAX_TABLE_ROWS:,} more")
    screen.print()
    words = [f"{plural(stats.rows, 'message')}: {stats.good:,} good"]
    if stats.repaired:
        words.append(f"{stats.repaired:,} of them invalid, decoded leniently")
    if stats.errors:
        words.append(f"{stats.errors:,} in {safe(f'{run.output}/quarantine')}")
    if stats.skipped:
        words.append(f"{plural(stats.skipped, 'row')} without a message")
    if stats.left_out:
        words.append(f"{stats.left_out:,} left out")
    if not stats.rows:
        words.append(_no_messages_text(stats))
    if stats.lost_for_good:
        words.append(f"{plural(stats.lost_for_good, 'value')} lost for good")
    has_losses = stats.errors or stats.lost_for_good
    style = "bold red" if failed else "bold yellow" if has_losses else "bold green"
    screen.print(Text(", ".join(words), style=style))
    if stats.rules.get(DAMAGED):
        count = plural(stats.rules[DAMAGED].messages, "damaged file")
        text = f"{count}: all messages after the damage are missing"
        screen.print(Text(text, style="bold red"))
    if run.warning:
        screen.print(Text(run.warning, style="yellow"))
    screen.print(Text(f"engine: {run.engine}"))
    screen.print(Text(f"page: {safe(str(page))}"))


def _aligned_table(*names: str, right: set[str] | None = None) -> Table:
    """Return a table in which the columns `right` (all if None) are aligned to the right."""
    columns = table(*names)
    for column in columns.columns:
        name = str(column.header)
        column.justify = "right" if right is None or name in right else "left"
        column.no_wrap = name in {"Code", "Messages"}
    return columns


# Engines: local processes, or Spark.


@attrs.frozen
class _JobArguments:
    """The arguments for running one job that are the same for all engines."""

    source: str
    output: Path | str
    job: Any  # a `jobs.Job`, whose import needs the extra arrow
    overwrite: bool
    color: bool | None
    filters: dict[str, str]


# (the `jobs.Run` that describes a run, the `jobs.Stats` with its counts).
_RunAndStats = tuple[Any, Any]


def _run_on_engine(
    task: _JobArguments,
    *,
    engine: str,
    form: str | None,
    workers: int | None,
    master: str | None,
    memory: str | None,
    is_trusted: bool,
) -> _RunAndStats:
    """Run a job on the engine that --engine requests, or that ``auto`` selects."""
    from amqp10msg.jobs import OnlySparkError  # needs the extra arrow

    has_spark_options = master is not None or memory is not None
    if engine == "local" and has_spark_options:
        raise click.UsageError(
            "--master and --memory apply to Spark: omit them, or omit --engine local"
        )
    if workers is not None and (engine == "spark" or has_spark_options):
        raise click.UsageError(
            "--workers applies to local processes: for Spark, use --master local[N]"
        )
    known_form = None if form == "auto" else form
    options = {**task.filters, **(_UNLIMITED_EXPANSION if is_trusted else {})}
    # spark-submit sets this variable.
    is_under_spark_submit = "PYSPARK_GATEWAY_PORT" in os.environ
    if engine == "spark" or (engine == "auto" and (has_spark_options or is_under_spark_submit)):
        return _run_on_spark(task, known_form, master, memory, options)
    try:
        return _run_locally(task, known_form, workers, options)
    except OnlySparkError as error:
        if engine == "local":
            raise click.UsageError(f"{error}: omit --engine local") from None
        if importlib.util.find_spec("pyspark") is None:
            raise click.ClickException(f"{error}: pip install 'amqp10msg[spark]'") from None
    return _run_on_spark(task, known_form, None, None, options)


def _run_locally(
    task: _JobArguments, form: str | None, workers: int | None, options: dict[str, str]
) -> _RunAndStats:
    from amqp10msg import jobs  # needs the extra arrow

    run_job = partial(jobs.run, form=form, workers=workers, options=options)
    return _run_timed(task, run_job, jobs.JobError, "local", "parts")


def _run_on_spark(
    task: _JobArguments,
    form: str | None,
    master: str | None,
    memory: str | None,
    options: dict[str, str],
) -> _RunAndStats:
    try:
        from amqp10msg import spark  # needs the extra spark
    except ModuleNotFoundError as error:
        raise click.ClickException(str(error)) from None
    from amqp10msg.jobs.inputs import input_columns

    # Check the input's columns before Spark is started, because that takes seconds.
    names = input_columns(task.source, form)
    if names is not None:
        try:
            task.job.check(names)
        except ValueError as error:
            raise click.UsageError(str(error)) from None
    # PySpark warns about its own pandas support, which amqp10msg does not use.
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)

    name, config = f"amqp10msg {task.job.kind}", {"spark.log.level": "ERROR"}
    try:
        session = spark.session(master, memory=memory or "1g", app_name=name, config=config)
    except RuntimeError as error:  # Java is missing
        raise click.ClickException(str(error)) from None
    run_job = partial(spark.run, session, form=form, options=options)
    return _run_timed(task, run_job, spark.SparkError, f"Spark {session.version}", "tasks")


def _run_timed(
    task: _JobArguments,
    run_job: Callable[..., Any],
    failure: type[Exception],
    engine: str,
    unit: str,
) -> _RunAndStats:
    """Run a job with a progress bar, measure its time, and convert its errors to click errors.

    `failure` is the exception that the engine raises for a failed job. `unit` is what the progress
    bar counts, such as tasks.
    """
    from amqp10msg.jobs import OnlySparkError, Run  # needs the extra arrow

    start = time.monotonic()
    try:
        with progress_counter(task.color, unit) as show:
            mode = "overwrite" if task.overwrite else "error"
            stats = run_job(task.source, task.output, task.job, mode=mode, progress=show)
    except OnlySparkError:
        raise
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    except failure as error:
        raise click.ClickException(str(error)) from None
    seconds, job = time.monotonic() - start, task.job
    title = f"amqp10msg pipeline {job.kind}"
    description = (title, task.source, str(task.output), seconds, engine, job.profile_title)
    run = Run(*description, job.skipped_sections)
    return run, stats
