"""What the commands bridge and migrate-check share: passwords kept secret, dry runs shown."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

import click

from amqp10msg.app.cli._output import complain, safe
from amqp10msg.wire.text import plural

if TYPE_CHECKING:
    from amqp10msg.net.bridge import Endpoint
    from amqp10msg.net.bridge.dry import Checked
    from amqp10msg.net.bridge.management import Management

reports_option = click.option(
    "--report",
    "reports",
    type=click.Path(dir_okay=False, path_type=Path),
    multiple=True,
    help="Write the report here at the end, .json or .html; repeatable.",
)

accept_quarantine_option = click.option(
    "--accept-quarantine",
    is_flag=True,
    help="Exit with status 0 also if messages are in the quarantine.",
)


def check_extra(ends: Iterable[Endpoint]) -> None:
    """Refuse ends of 0-9-1 where pika is missing, before anything is connected to."""
    if any(end.protocol == "0-9-1" and end.file is None for end in ends):
        try:
            import amqp10msg.net.bridge.basic  # noqa: F401  (whether it can be imported)
        except ModuleNotFoundError as error:
            raise lacking(error, "bridge") from None


def lacking(error: ModuleNotFoundError, extra: str) -> click.ClickException:
    """Return the error of a command whose extra is not installed."""
    needed = (error.name or "").partition(".")[0]
    return click.ClickException(f"this needs {needed}: pip install 'amqp10msg[{extra}]'")


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
        read = f"{plural(run.read, 'message')} read and returned"
        lose = f"{run.losing:,} of {run.read:,}" if run.losing else "none"
        click.echo(safe(f"{one.queue.name}: {read}{aside}; {lose} would lose data"))
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


def write_reports(
    reports: Iterable[Path], as_json: Callable[[], str], as_html: Callable[[], str]
) -> None:
    """Write each report in the format that its name says."""
    from amqp10msg.atomic_files import write_whole

    for path in reports:
        write_whole(path, as_json() if path.suffix == ".json" else as_html(), private=True)


def write_dry(reports: Iterable[Path], checked: Sequence[Checked], **about: str) -> None:
    """Write the reports; `about` is what `dry_report.as_html` takes."""
    from amqp10msg.net.bridge import dry_report

    write_reports(
        reports, lambda: dry_report.as_json(checked), lambda: dry_report.as_html(checked, **about)
    )


@contextlib.contextmanager
def told() -> Iterator[None]:
    """End the command with what is wrong: with its line, or with an end or a file."""
    try:
        yield
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    except OSError as error:
        raise click.ClickException(str(error)) from None


def hide_credentials(
    command: str, ends: Iterable[Endpoint], apis: Iterable[Management] = ()
) -> None:
    """Take passwords out of the list of processes, and say where they go in the clear."""
    ends, apis = list(ends), list(apis)
    for end in ends:
        if end.is_exposed:
            complain(f"{end}: the password goes there in the clear: amqps and amqp091s are by TLS")
    for place in dict.fromkeys(api.place for api in apis if api.is_exposed):
        complain(f"{place}: the password goes there in the clear: https is by TLS")
    given = [unquote(argument, errors="surrogateescape") for argument in sys.argv]
    secrets = {*(end.password for end in ends), *(api.password for api in apis)}
    if any(word and word in argument for word in secrets for argument in given):
        with contextlib.suppress(ModuleNotFoundError):
            import setproctitle

            places = [*map(str, ends), *(api.place for api in apis)]
            setproctitle.setproctitle(" ".join(["amqp10msg", command, *places]))
            return
        complain(
            "a password on the command line is seen by all users of this machine: write ${NAME}, "
            "a variable of the environment, or install 'amqp10msg[bridge]'"
        )
