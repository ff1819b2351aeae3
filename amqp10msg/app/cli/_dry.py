"""What dry runs found: on the terminal, and as reports."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from amqp10msg.app.cli._output import plural, safe

if TYPE_CHECKING:
    from amqp10msg.net.bridge.dry import Checked

reports_option = click.option(
    "--report",
    "reports",
    type=click.Path(dir_okay=False, path_type=Path),
    multiple=True,
    help="Write the report here at the end, .json or .html; repeatable.",
)


def check_reports(reports: Iterable[Path]) -> None:
    """Refuse reports of other formats."""
    for path in reports:
        if path.suffix not in {".json", ".html"}:
            raise click.UsageError(f"--report: {path} is neither .json nor .html")


def show_dry(one: Checked) -> None:
    """Print what was found of one queue or route, with an example of each loss."""
    run = one.run
    if run is None:
        why = f"not read: {one.fault}" if one.fault else "empty"
        click.echo(safe(f"{one.queue.name}: {why}"))
    else:
        aside = f", {run.unmatched:,} do not pass the filter" if run.unmatched else ""
        read = f"{plural(run.read, 'message')} read and given back"
        click.echo(safe(f"{one.queue.name}: {read}, {run.exact:,} lose nothing{aside}"))
    for note in one.queue.notes:
        click.echo(safe(f"  {note}"))
    if run is None:
        return
    told: set[int] = set()
    for key, count in run.losses.most_common():
        path, action, reason = key
        click.echo(safe(f"{plural(count, 'message')}: {path}: {action}: {reason}"))
        _example(one, key, told)
    for why, count in run.failures.most_common():
        click.echo(safe(f"{plural(count, 'message')} cannot be sent: {why}"))
        _example(one, why, told)


def _example(one: Checked, key: object, told: set[int]) -> None:
    """Print the example of a loss, once for all that it is an example of."""
    run = one.run
    index = run.examples.get(key) if run is not None else None
    if run is None or index is None or index in told:
        return
    told.add(index)
    for line in run.messages[index].words.splitlines():
        click.echo(safe(f"    {line}"))


def write_dry(reports: Iterable[Path], checked: Sequence[Checked], **about: str) -> None:
    """Write the reports; `about` is what `dry_report.as_html` takes."""
    from amqp10msg.files.atomic import write_whole
    from amqp10msg.net.bridge import dry_report

    for path in reports:
        if path.suffix == ".json":
            write_whole(path, dry_report.as_json(checked))
        else:
            write_whole(path, dry_report.as_html(checked, **about))
