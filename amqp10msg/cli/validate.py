"""``amqp10msg validate``: judge messages by the rules of the specification."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs
import click
from rich.progress import TextColumn
from rich.text import Text

from amqp10msg.cli._input import Inputs, Item, messages_argument
from amqp10msg.cli._output import (
    SEVERITY_COLORS,
    color_option,
    console,
    is_terminal,
    json_option,
    profile_option,
    progress,
    safe,
    table,
    use_color,
)
from amqp10msg.cli._report import UNREADABLE, Report, Tally, judge
from amqp10msg.files.atomic import write_whole
from amqp10msg.validation import Violation

# Below this a bar would only flicker.
_WORTH_A_BAR = 1 << 18
# From this width of the terminal there is room for where a rule was broken first.
_WIDE = 110


@click.command(
    epilog="""
\b
Examples:
  amqp10msg validate captured/
  amqp10msg validate --quiet --report report.html recorded.jsonl.gz
  amqp10msg validate --json messages.jsonl | jq -r 'select(.ok == false)'
"""
)
@profile_option
@click.option("--strict-warnings", is_flag=True, help="Also fail on warnings.")
@click.option("-q", "--quiet", is_flag=True, help="Show the summary alone.")
@json_option
@click.option(
    "--report",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also write an HTML page with the summary and annotated examples of each rule.",
)
@messages_argument
@color_option
def validate(
    inputs: Inputs,
    profile: str,
    strict_warnings: bool,
    quiet: bool,
    as_json: bool,
    report: Path | None,
    color: bool | None,
) -> int:
    """Judge messages by the rules of the specification.

    SOURCES are files, directories with everything below them, hex, base64, or - for standard
    input, which is also read where none are given. Files hold the bytes of one message, hex or
    base64, a JSON object a line with a message under the key raw, hex, base64 or data_base64, or
    one of the notations of convert; each of them may be compressed with gzip. Files of lines are
    read line by line, however large they are.

    Each violation is a line with its place, the rule and its clause; then come the counts. The exit
    status is 1 where a MUST or MUST NOT is broken or a message cannot be read.
    """
    if report is not None and not report.parent.is_dir():
        raise click.UsageError(f"--report: there is no folder {report.parent}")
    colored = use_color(color)
    tally = Tally(profile)
    page = Report(profile) if report is not None else None
    with _progress(inputs, color) as advance:
        for item in inputs.some():
            found = judge(item, profile)
            tally.add(item, found)
            if page is not None:
                page.add(item, found)
            if as_json:
                click.echo(_json_line(item, found))
            elif not quiet:
                for violation in found:
                    click.echo(_line(item, violation, colored), color=colored)
            advance()
    if page is not None and report is not None:
        write_whole(report, page.html(tally))
    if as_json:
        click.echo(json.dumps({"summary": tally.as_json()}))
    else:
        if tally.rules and not quiet:
            click.echo()
        _show_summary(tally, colored)
    return int(tally.failed > 0 or (strict_warnings and tally.warned > 0))


def _line(item: Item, violation: Violation, colored: bool) -> str:
    severity, rule = violation.severity, violation.rule
    if colored:
        severity = click.style(severity, fg=SEVERITY_COLORS.get(severity), bold=True)
        rule = click.style(rule, fg="cyan")
    if violation.rule == UNREADABLE:
        return f"{safe(item.source)}: {severity}: {safe(violation.text)}"
    where = f"byte {violation.offset}" + (f" ({violation.path})" if violation.path else "")
    return (
        f"{safe(f'{item.source}: {where}')}: {severity}: {safe(violation.text)} "
        f"[{rule}, {violation.clause}]"
    )


def _json_line(item: Item, found: list[Violation]) -> str:
    return json.dumps(
        {
            "source": safe(item.source),
            "ok": not found,
            "bytes": len(item.data),
            "violations": [attrs.asdict(violation) for violation in found],
        },
        ensure_ascii=False,
    )


def _show_summary(tally: Tally, colored: bool) -> None:
    """Show the rules that are broken and how often, then the result."""
    screen = console(colored)
    wide = screen.width >= _WIDE
    if tally.rules:
        made = table()
        made.add_column("Rule", style="cyan", no_wrap=True)
        made.add_column("Clause", overflow="fold")
        made.add_column("Severity")
        made.add_column("Messages", justify="right")
        if wide:
            made.add_column("Places", justify="right")
            made.add_column("First in", overflow="fold")
        for rule, row in tally.rows():
            severity = Text(row.severity, style=SEVERITY_COLORS[row.severity])
            more = [f"{row.violations:,}", safe(row.first)] if wide else []
            made.add_row(
                rule, row.clause, severity, f"{row.messages:,}", *(Text(cell) for cell in more)
            )
        screen.print(made)
        screen.print()
    style = "red" if tally.failed else "yellow" if tally.warned else "green"
    screen.print(Text(f"{tally.sentence()} (profile {tally.profile})", style=f"bold {style}"))


@contextmanager
def _progress(inputs: Inputs, color: bool | None) -> Iterator[Callable[[], None]]:
    """Show progress on a terminal; yield what to call after each message."""
    worth = inputs.total is None or inputs.total >= _WORTH_A_BAR
    if not (worth and is_terminal(sys.stderr)):
        yield lambda: None
        return
    with progress(
        color,
        TextColumn("{task.completed:,} of {task.total:,} bytes" if inputs.total else ""),
        TextColumn("{task.fields[messages]:,} messages"),
        # Violations that scroll by on the same terminal go above the bar.
        redirect_stdout=is_terminal(sys.stdout),
    ) as bar:
        task = bar.add_task("", total=inputs.total, messages=0)
        seen = 0

        def advance() -> None:
            nonlocal seen
            seen += 1
            if seen % 64 == 0:
                bar.update(task, completed=inputs.position, messages=seen)

        yield advance
