"""Functions for ``bridge`` and the migrate commands: reports, dry-run output, hiding passwords."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

import click

from amqp10msg.app.cli._output import print_error, safe
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
    help="Write a report to this file at the end; the suffix .json or .html selects the format. "
    "Repeatable.",
)

accept_quarantine_option = click.option(
    "--accept-quarantine",
    is_flag=True,
    help="Exit with status 0 even if messages were quarantined.",
)


def check_extra(endpoints: Iterable[Endpoint]) -> None:
    """Raise ClickException if pika or pyarrow is not installed, and an endpoint needs it."""
    endpoints = list(endpoints)
    if any(endpoint.parquet is not None for endpoint in endpoints):
        try:
            import amqp10msg.net.ends.parquet
        except ModuleNotFoundError as error:
            raise missing_extra(error, "bridge,arrow") from None
    if any(endpoint.protocol == "0-9-1" and endpoint.file is None for endpoint in endpoints):
        try:
            import amqp10msg.net.ends.basic  # noqa: F401  (checks that it can be imported)
        except ModuleNotFoundError as error:
            raise missing_extra(error, "bridge") from None


def missing_extra(error: ModuleNotFoundError, extra: str) -> click.ClickException:
    """Return an error that names the missing package and the command that installs `extra`."""
    package = (error.name or "").partition(".")[0]
    return click.ClickException(f"this command needs {package}: pip install 'amqp10msg[{extra}]'")


def check_reports(reports: Iterable[Path]) -> None:
    """Raise UsageError unless each report is a .json or .html file in a folder that exists."""
    for path in reports:
        if path.suffix not in {".json", ".html"}:
            raise click.UsageError(f"--report: {path} must end in .json or .html")
        if not path.parent.is_dir():
            raise click.UsageError(f"--report: {path}: {path.parent} is not a folder: create it")


def show_dry_run(checked: Checked) -> None:
    """Print the dry run of one queue or route: the losses and failures, with examples."""
    run = checked.run
    if run is None:
        reason = f"not read: {checked.fault}" if checked.fault else "empty"
        click.echo(safe(f"{checked.queue.name}: {reason}"))
    else:
        unmatched = f", {run.unmatched:,} do not pass the filter" if run.unmatched else ""
        read = f"{plural(run.read, 'message')} read and returned"
        losing = f"{run.losing:,} of {run.read:,}" if run.losing else "none"
        click.echo(safe(f"{checked.queue.name}: {read}{unmatched}; {losing} would lose data"))
    for note in checked.queue.notes:
        click.echo(safe(f"  {note}"))
    if run is None:
        return
    for text in run.unmatched_check.texts():
        click.echo(safe(f"  no message passed the filter: {text}"))
    shown_indexes: set[int] = set()
    for key, count in run.losses.most_common():
        path, action, reason = key
        click.echo(safe(f"{plural(count, 'message')}: {path}: {action}: {reason}"))
        _show_example(checked, key, shown_indexes)
    for reason, count in run.failures.most_common():
        click.echo(safe(f"{plural(count, 'message')} cannot be sent: {reason}"))
        _show_example(checked, reason, shown_indexes)


def _show_example(checked: Checked, key: object, shown_indexes: set[int]) -> None:
    """Print the example message of a loss or failure unless it has been printed already.

    `shown_indexes` contains the indexes of the printed messages, and is updated.
    """
    run = checked.run
    index = run.examples.get(key) if run is not None else None
    if run is None or index is None or index in shown_indexes:
        return
    shown_indexes.add(index)
    for line in run.messages[index].words.splitlines():
        click.echo(safe(f"    {line}"))


def write_reports(
    reports: Iterable[Path], as_json: Callable[[], str], as_html: Callable[[], str]
) -> None:
    """Write each report as JSON or HTML, according to its suffix."""
    from amqp10msg.atomic_files import write_whole

    for path in reports:
        write_whole(path, as_json() if path.suffix == ".json" else as_html(), private=True)


def write_dry_run_reports(
    reports: Iterable[Path], checked: Sequence[Checked], **about: str
) -> None:
    """Write the dry-run reports. `about` is passed to `dry_report.as_html`."""
    from amqp10msg.net.bridge import dry_report

    write_reports(
        reports, lambda: dry_report.as_json(checked), lambda: dry_report.as_html(checked, **about)
    )


@contextlib.contextmanager
def report_errors() -> Iterator[None]:
    """Convert errors inside the block to click errors.

    A ValueError becomes a UsageError (exit status 2), an OSError a ClickException (1).
    """
    try:
        yield
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    except OSError as error:
        raise click.ClickException(str(error)) from None


def hide_credentials(
    command: str, endpoints: Iterable[Endpoint], apis: Iterable[Management] = ()
) -> None:
    """Hide passwords from the process list, and warn about passwords that are sent without TLS.

    Hiding needs the package setproctitle. If it is missing and the command line contains a
    password, a warning is printed.
    """
    endpoints, apis = list(endpoints), list(apis)
    for endpoint in endpoints:
        if endpoint.is_exposed:
            print_error(
                f"{endpoint}: the password is sent unencrypted: use amqps or amqp091s for TLS",
                event="password-exposed",
                warning=True,
            )
    for url in dict.fromkeys(api.url for api in apis if api.is_exposed):
        print_error(
            f"{url}: the password is sent unencrypted: use https",
            event="password-exposed",
            warning=True,
        )
    arguments = [unquote(argument, errors="surrogateescape") for argument in sys.argv]
    secrets = {*(endpoint.password for endpoint in endpoints), *(api.password for api in apis)}
    if any(secret and secret in argument for secret in secrets for argument in arguments):
        with contextlib.suppress(ModuleNotFoundError):
            import setproctitle

            urls = [*map(str, endpoints), *(api.url for api in apis)]
            setproctitle.setproctitle(" ".join(["amqp10msg", command, *urls]))
            return
        print_error(
            "all users of this machine can see the password on the command line: use ${NAME}, an "
            "environment variable, or install 'amqp10msg[bridge]', which hides it",
            event="password-exposed",
            warning=True,
        )
