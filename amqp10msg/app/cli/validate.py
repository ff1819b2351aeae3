"""``amqp10msg validate``: judge messages by the rules of the specification."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import click

from amqp10msg.app.cli._options import color_option, json_option, messages_argument, profile_option
from amqp10msg.app.cli._output import SEVERITY_COLORS, console, json_text, safe, table, use_color

if TYPE_CHECKING:
    from amqp10msg.app.cli._input import Inputs
    from amqp10msg.app.cli._report import Tally
    from amqp10msg.app.inspector.items import Item
    from amqp10msg.validation import Violation

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
@messages_argument("-f", "--format")
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
    base64, a JSON object a line with a message under the key raw, hex, base64 or data_base64, one
    of the notations of convert, or many messages: after their lengths, in a CBOR sequence, in a
    capture of a network (pcap), or in Parquet, such as the quarantine of a pipeline. Each of them
    but Parquet may be compressed with gzip. FILE:LINE and FILE@OFFSET are one message of a file.
    Files of many messages are read one by one, however large they are.

    Each violation is a line with its place, the rule and its clause; then come the counts. The exit
    status is 1 where a MUST or MUST NOT is broken or a message cannot be read.
    """
    from amqp10msg.app.cli._judging import judged
    from amqp10msg.app.cli._report import Report, Tally
    from amqp10msg.files.atomic import write_whole

    if report is not None and not report.parent.is_dir():
        raise click.UsageError(f"--report: there is no folder {report.parent}")
    colored = use_color(color)
    tally = Tally(profile)
    page = Report(profile) if report is not None else None
    # What comes through a pipe is judged as it comes.
    for item, found in judged(inputs.some(), profile, at_once=inputs.total is not None):
        tally.add(item, found)
        if page is not None:
            page.add(item, found)
        if as_json:
            click.echo(_json_line(item, found))
        elif not quiet:
            for violation in found:
                click.echo(_line(item, violation, colored), color=colored)
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
    severity, rule = str(violation.severity), violation.rule
    if colored:
        severity = click.style(severity, fg=SEVERITY_COLORS.get(severity), bold=True)
        rule = click.style(rule, fg="cyan")
    if item.fault:
        return f"{safe(item.source)}: {severity}: {safe(violation.text)}"
    where = f"byte {violation.offset}" + (f" ({violation.path})" if violation.path else "")
    return (
        f"{safe(f'{item.source}: {where}')}: {severity}: {safe(violation.text)} "
        f"[{rule}, {violation.clause}]"
    )


def _json_line(item: Item, found: list[Violation]) -> str:
    return json_text(
        {
            "source": safe(item.source),
            "ok": not found,
            "bytes": len(item.data),
            "violations": [attrs.asdict(violation) for violation in found],
        }
    )


def _show_summary(tally: Tally, colored: bool) -> None:
    """Show the rules that are broken and how often, then the result."""
    from rich.text import Text

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
