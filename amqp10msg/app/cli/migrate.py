"""``amqp10msg migrate`` and ``migrate-check``: move queues between RabbitMQ brokers."""

from __future__ import annotations

import fnmatch
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from amqp10msg.app.cli._bridging import (
    accept_quarantine_option,
    check_extra,
    check_reports,
    hide_credentials,
    missing_extra,
    report_errors,
    reports_option,
    show_dry_run,
    write_dry_run_reports,
    write_reports,
)
from amqp10msg.app.cli._live import LiveLine, events_logger, log_option, show_counts
from amqp10msg.app.cli._options import (
    TranslationChoice,
    declared_options,
    given_options,
    number_option,
)
from amqp10msg.app.cli._output import is_terminal, print_error, safe
from amqp10msg.net.bridge.options import RouteOptions
from amqp10msg.wire.text import plural

if TYPE_CHECKING:
    from amqp10msg.net.migrate.migration import Migration


@click.command(
    "migrate-check",
    short_help="Show which data a move to AMQP 1.0 would lose, queue by queue.",
    epilog="""
\b
Examples:
  $ amqp10msg migrate-check 'amqp091://localhost' --queue orders --queue bills
  $ amqp10msg migrate-check 'amqp091://shop:${OLD}@old' \\
      --management http://old:15672 --report meeting.html
""",
)
@click.argument("url")
@click.option(
    "--management",
    metavar="URL",
    help="The URL of RabbitMQ's management API, which lists the queues. Without user and password, "
    "those of the argument URL are used.",
)
@click.option(
    "--queue", "names", metavar="NAME", multiple=True, help="A queue to read; repeatable."
)
@click.option(
    "--profile",
    type=TranslationChoice(),
    metavar="NAME",
    show_default="rabbitmq-4.3",
    help="The translation to examine: a broker's, or lossless, the default of the bridge.",
)
@number_option("--max-messages", 100, "Read at most this many messages of each queue.", high=65535)
@number_option(
    "--idle",
    2.0,
    "Treat a queue as empty after this many seconds without a message.",
    0.01,
    metavar="SECONDS",
)
@reports_option
def migrate_check(
    url: str,
    management: str | None,
    names: tuple[str, ...],
    profile: str | None,
    max_messages: int,
    idle: float,
    reports: tuple[Path, ...],
) -> int:
    """Read messages from RabbitMQ queues, return them, and show the data that AMQP 1.0 would lose.

    URL is amqp091://USER:PASSWORD@HOST/VHOST, or amqp091s:// for TLS; write user and password as
    ${NAME} to read them from an environment variable. The command reads the queues of --queue, or
    all queues that the management API of --management lists. With --management, it also shows
    queue settings that RabbitMQ 4 handles differently: mirrored, transient, lazy, no
    delivery-limit. It lists user-ids other than USER, because the target would refuse them.

    No message is consumed, but RabbitMQ marks the messages as redelivered, and quorum queues count
    the delivery. The exit status is 1 if a queue could not be read.

    Requires the extra bridge.
    """
    check_reports(reports)
    if management is None and not names:
        raise click.UsageError("name queues with --queue, or add --management to list them")
    try:
        from amqp10msg.net.bridge import RouteOptions, parse_url
        from amqp10msg.net.bridge.management import Management, Queue, queues_of
        from amqp10msg.net.bridge.process import run_check
    except ModuleNotFoundError as error:
        raise missing_extra(error, "bridge") from None
    profile = profile or "rabbitmq-4.3"
    with report_errors():
        endpoint = parse_url(url)
        if endpoint.protocol != "0-9-1":
            raise ValueError("the URL must begin with amqp091:// or amqp091s://")
        check_extra([endpoint])
        api = None if management is None else Management(management, endpoint)
        hide_credentials("migrate-check", [endpoint], [] if api is None else [api])
        queues = [Queue(name) for name in names]
        if api is not None:
            listed = {queue.name: queue for queue in queues_of(api)}
            queues = [listed.get(queue.name, queue) for queue in queues] or list(listed.values())
        options = RouteOptions(profile=profile, keep_names=True)
        checked = run_check(endpoint, queues, options, max_messages, idle, show_dry_run)
    about = {"source": str(endpoint), "target": "AMQP 1.0", "profile": profile}
    write_dry_run_reports(reports, checked, title="What a migration would lose", **about)
    runs = [result.run for result in checked if result.run is not None]
    losing = sum(run.losing for run in runs)
    read = plural(sum(run.read for run in runs), "message")
    queue_count = plural(len(checked), "queue")
    verdict = f"; {losing or 'none'} would lose data" if any(run.read for run in runs) else ""
    click.echo(f"\n{queue_count}, {read} read{verdict}")
    unread = [result.queue.name for result in checked if result.fault]
    if unread:
        print_error(f"{plural(len(unread), 'queue')} could not be read from {endpoint}")
    return int(bool(unread))


@click.command(
    short_help="Move queues from one RabbitMQ to another and account for every message.",
    epilog="""
\b
Examples:
  $ amqp10msg migrate 'amqp091://u:${OLD}@old' 'amqp091://u:${NEW}@new' \\
      --management http://old:15672 --target-management http://new:15672 \\
      --dry-run
  $ amqp10msg migrate 'amqp091://u:${OLD}@old' 'amqp091://u:${NEW}@new' \\
      --management http://old:15672 --target-management http://new:15672 \\
      --all-queues 'orders.*' --report cut-over.html
""",
)
@click.argument("source")
@click.argument("target")
@click.option(
    "--all-queues",
    "pattern",
    metavar="PATTERN",
    default="*",
    show_default=True,
    help="Move the queues whose names match this pattern, such as 'orders.*'.",
)
@number_option(
    "--sample",
    100,
    "Compare the content of this many messages of each queue after the move.",
    high=30_000,
)
@declared_options(
    RouteOptions,
    only=(
        *("window", "max_message", "idle", "stall", "management", "target_management"),
        *("deadline", "quarantine", "deduplicate", "state", "attempts", "patience"),
    ),
    helps={
        "idle": "After this many seconds without a message, check whether the source is empty.",
        "stall": "Give up a queue after this long without a message while messages remain.",
        "target_management": "The URL of the management API of the target.",
        "management": "The URL of the management API of the source.",
    },
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Read and return messages, show the losses and declarations, and change nothing.",
)
@reports_option
@accept_quarantine_option
@log_option
def migrate(
    source: str,
    target: str,
    pattern: str,
    sample: int,
    idle: float,
    dry_run: bool,
    reports: tuple[Path, ...],
    accept_quarantine: bool,
    log_format: str,
    **route_values: Any,
) -> int:
    """Move queues from one RabbitMQ to another: check, declare, move, compare, report.

    SOURCE and TARGET are amqp091://USER:PASSWORD@HOST/VHOST, or amqp091s:// for TLS; write user and
    password as ${NAME} to read them from an environment variable. --management and
    --target-management are the URLs of the two management APIs. Queues, exchanges and bindings that
    the target lacks are declared there, as by --declare of bridge. Streams are read and keep their
    messages; with --state, the next run continues where the last one stopped.

    The command prints "done" only if the counts of both brokers agree, no message remains at the
    source or is held by its consumers, no queue was declared there during the move, and the sampled
    messages at the target equal the originals. During the move, no client may consume from the
    target or publish to it, because the counts would then be meaningless. RabbitMQ marks the
    sampled messages as redelivered. Requires the extra bridge.

    Exit status: 0 if done; 1 if a queue could not be read or written; 2 if the command line is
    wrong; 3 if messages or new queues remain at the source, or its messages could not be counted; 6
    if counts or contents differ; 5 if messages were quarantined. If several apply, the first of 1,
    3, 6, 5 is returned.
    """
    check_reports(reports)
    if not route_values["management"] or not route_values["target_management"]:
        raise click.UsageError("add --management and --target-management, which list the queues")
    try:
        from amqp10msg.net.bridge import parse_url
        from amqp10msg.net.bridge.management import EXCLUSIVE_NOTE, Management, queues_of
        from amqp10msg.net.bridge.routes import matching, routes_of_queues
        from amqp10msg.net.migrate import report
        from amqp10msg.net.migrate.migration import NEW_QUEUE_REPORT, Migration, status_of
    except ModuleNotFoundError as error:
        raise missing_extra(error, "bridge") from None
    options_given = given_options(route_values)
    with report_errors():
        endpoints = [parse_url(source), parse_url(target)]
        if any(end.protocol != "0-9-1" or end.file for end in endpoints):
            raise ValueError("SOURCE and TARGET must begin with amqp091:// or amqp091s://")
        check_extra(endpoints)
        if len({(end.host, end.port, end.virtual_host) for end in endpoints}) == 1:
            raise ValueError("source and target are the same virtual host of one broker")
        apis = [
            Management(route_values[name], end)
            for name, end in zip(("management", "target_management"), endpoints, strict=True)
        ]
        hide_credentials("migrate", endpoints, apis)
        options = RouteOptions(**{"state": Path("migrate.db"), **options_given, "idle": idle})
        listed = queues_of(apis[0])
        specs = routes_of_queues(endpoints[0], endpoints[1], options, pattern, listed)
        queues = {queue.name: queue for queue in listed}
        for queue in listed:
            if queue.exclusive and fnmatch.fnmatchcase(queue.name, pattern):
                text = f"{queue.name}: not moved: {EXCLUSIVE_NOTE}"
                print_error(text, event="queue-excluded", warning=True)
        live_line = LiveLine() if is_terminal(sys.stderr) and log_format == "text" else None
        migration = Migration([queues[spec.name] for spec in specs], specs, sample)
        migration.check()
        if dry_run:
            _show_check(migration)
            return int(any(queue.fault for queue in migration.moved))
        migration.declare()
        logger = events_logger(log_format, live=live_line is not None, alone=False)
        migration.move(logger, live_line.show if live_line is not None else None)
        migration.compare()
        # Skip empty auto-delete queues: clients create and delete them all the time.
        try:
            migration.new_queues = {
                queue.name: NEW_QUEUE_REPORT
                for queue in matching(queues_of(apis[0]), pattern)
                if queue.name not in queues and (queue.messages or not queue.auto_delete)
            }
        except (OSError, ValueError) as error:  # continue, to report the moved queues
            migration.new_queues = {"other queues": f"could not be listed at the end: {error}"}
    if live_line is not None:
        click.echo(err=True)
    write_reports(reports, lambda: report.as_json(migration), lambda: report.as_html(migration))
    show_counts({moved.queue.name: moved.counts for moved in migration.moved}, remains=False)
    for name, problems in migration.open_issues().items():
        for text in problems:
            click.echo(safe(f"{name}: {text}"))
    unresolved = len(migration.open_issues())
    total = plural(len(migration.moved) + len(migration.new_queues), "queue")
    click.echo(f"not done: {unresolved:,} of {total} open" if unresolved else f"done: {total}")
    return status_of(migration.moved, migration.new_queues, accept_quarantine=accept_quarantine)


def _show_check(migration: Migration) -> None:
    """Print the dry run: the declarations at the target, and the losses of each queue."""
    from amqp10msg.net.bridge.dry import Checked

    lines: dict[str, None] = {}
    for moved in migration.moved:
        lines |= dict.fromkeys(line for step in moved.steps for line in str(step).splitlines())
    for text in lines:
        click.echo(safe(text))
    for moved in migration.moved:
        show_dry_run(Checked(moved.queue, moved.check, moved.fault))
