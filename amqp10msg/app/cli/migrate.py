"""``amqp10msg migrate`` and ``migrate-check``: from one RabbitMQ to another, queue by queue."""

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
    lacking,
    reports_option,
    show_dry,
    told,
    write_dry,
    write_reports,
)
from amqp10msg.app.cli._live import LiveLine, events_logger, log_option, show_counts
from amqp10msg.app.cli._options import (
    LateChoice,
    declared_options,
    given_of,
    number_option,
    translations,
)
from amqp10msg.app.cli._output import complain, is_terminal, safe
from amqp10msg.net.options import RouteOptions
from amqp10msg.wire.text import plural

if TYPE_CHECKING:
    from amqp10msg.net.bridge.migration import Migration


@click.command(
    "migrate-check",
    short_help="Show what moving the messages of queues would lose.",
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
    help="RabbitMQ's management API, which lists the queues; user and password are those of URL "
    "where it has none.",
)
@click.option("--queue", "names", metavar="NAME", multiple=True, help="A queue; repeatable.")
@click.option(
    "--profile",
    type=LateChoice(translations),
    metavar="NAME",
    show_default="rabbitmq-4.3",
    help="The translation to examine: that of a broker, or lossless, that of the bridge.",
)
@number_option("--max-messages", 100, "Read this many messages of each queue.", high=65535)
@number_option(
    "--idle",
    2.0,
    "A queue counts as empty after this many seconds without a message.",
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
    """Read messages of a RabbitMQ's queues, return them, and say what 1.0 would lose.

    URL is amqp091://USER:PASSWORD@HOST/VHOST, by TLS amqp091s://; user and password may be ${NAME},
    a variable of the environment. The queues are those of --queue, or all that the management API
    of --management lists; this also says what becomes of them in RabbitMQ 4: mirrored, transient,
    lazy, without delivery-limit. User-ids other than USER are named, as they would be refused
    there.

    Nothing is consumed, but RabbitMQ marks the messages as redelivered, and a quorum queue counts
    the delivery. The exit status is 1 if a queue could not be read.

    Needs the extra bridge.
    """
    check_reports(reports)
    if management is None and not names:
        raise click.UsageError("name queues with --queue, or give --management, which lists them")
    try:
        from amqp10msg.net.bridge import RouteOptions, parse_url
        from amqp10msg.net.bridge.bridge import run_check
        from amqp10msg.net.bridge.management import Management, Queue, queues_of
    except ModuleNotFoundError as error:
        raise lacking(error, "bridge") from None
    profile = profile or "rabbitmq-4.3"
    with told():
        endpoint = parse_url(url)
        if endpoint.protocol != "0-9-1":
            raise ValueError("the URL begins with amqp091:// or amqp091s://")
        check_extra([endpoint])
        api = None if management is None else Management(management, endpoint)
        hide_credentials("migrate-check", [endpoint], [] if api is None else [api])
        queues = [Queue(name) for name in names]
        if api is not None:
            listed = {queue.name: queue for queue in queues_of(api)}
            queues = [listed.get(one.name, one) for one in queues] or list(listed.values())
        options = RouteOptions(profile=profile, keep_names=True)
        checked = run_check(endpoint, queues, options, max_messages, idle, show_dry)
    about = {"source": str(endpoint), "target": "AMQP 1.0", "profile": profile}
    write_dry(reports, checked, title="What a migration would lose", **about)
    runs = [one.run for one in checked if one.run is not None]
    losing = sum(run.losing for run in runs)
    read = plural(sum(run.read for run in runs), "message")
    looked_at = plural(len(checked), "queue")
    click.echo(f"\n{looked_at}, {read} read; {losing or 'none'} would lose data")
    unread = [one.queue.name for one in checked if one.fault]
    if unread:
        complain(f"{plural(len(unread), 'queue')} could not be read")
    return int(bool(unread))


@click.command(
    short_help="Move queues from one RabbitMQ to another, and account for each message.",
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
    help="The queues, by name, such as 'orders.*'.",
)
@number_option(
    "--sample", 100, "Compare the contents of this many messages of each queue.", high=30_000
)
@declared_options(
    RouteOptions,
    only=(
        *("window", "max_message", "idle", "stall", "management", "target_management"),
        *("deadline", "quarantine", "deduplicate", "state", "attempts", "patience"),
    ),
    helps={
        "idle": "Ask the source whether it is empty after this many seconds without a message.",
        "stall": "Give up a queue after so long without a message, though some remain.",
        "target_management": "RabbitMQ's management API of the target.",
        "management": "RabbitMQ's management API of the source.",
    },
)
@click.option(
    "--dry-run", is_flag=True, help="Look at messages, say what would be made, and change nothing."
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
    **given: Any,
) -> int:
    """Move the queues of a RabbitMQ to another one: check, declare, move, compare, report.

    SOURCE and TARGET are amqp091://USER:PASSWORD@HOST/VHOST, by TLS amqp091s://; user and password
    may be ${NAME}, a variable of the environment. --management and --target-management name the
    management API of each. What the target does not have is declared there, as by --declare of
    bridge. Streams are read, and keep their messages; --state continues where the last run stopped.

    It says "done" only if both brokers' counts agree, nothing is left at the source or held there,
    no queue was declared there meanwhile, and the messages of the sample are at the target as they
    were. Nobody may consume from the target or publish to it meanwhile, or nobody could tell which
    messages came from where.
    The messages of the sample are marked as redelivered. Needs the extra bridge.

    Exit status: 0 if it is done; 1 if a queue could not be read or written; 2 if the command line
    is wrong; 3 if messages or new queues are left at the source, or it could not say; 6 if counts
    or contents do not agree; 5 if messages were set aside. If several apply, the first of 1, 3, 6,
    5.
    """
    check_reports(reports)
    if not given["management"] or not given["target_management"]:
        raise click.UsageError("give --management and --target-management, which list queues")
    try:
        from amqp10msg.net.bridge import parse_url, report
        from amqp10msg.net.bridge.management import EXCLUSIVE, Management, queues_of
        from amqp10msg.net.bridge.migration import CAME, Migration, status_of
        from amqp10msg.net.bridge.routes import matching, routes_of_queues
    except ModuleNotFoundError as error:
        raise lacking(error, "bridge") from None
    wanted = given_of(given)
    with told():
        ends = [parse_url(source), parse_url(target)]
        if any(end.protocol != "0-9-1" or end.file for end in ends):
            raise ValueError("a URL begins with amqp091:// or amqp091s://")
        check_extra(ends)
        if len({(end.host, end.port, end.virtual_host) for end in ends}) == 1:
            raise ValueError("source and target are the same virtual host of one broker")
        apis = [
            Management(given[name], end)
            for name, end in zip(("management", "target_management"), ends, strict=True)
        ]
        hide_credentials("migrate", ends, apis)
        options = RouteOptions(**{"state": Path("migrate.db"), **wanted, "idle": idle})
        listed = queues_of(apis[0])
        specs = routes_of_queues(ends[0], ends[1], options, pattern, listed)
        queues = {queue.name: queue for queue in listed}
        for queue in listed:
            if queue.exclusive and fnmatch.fnmatchcase(queue.name, pattern):
                complain(f"{queue.name}: not moved: {EXCLUSIVE}")
        line = LiveLine() if is_terminal(sys.stderr) and log_format == "text" else None
        made = Migration([queues[spec.name] for spec in specs], specs, sample)
        made.check()
        if dry_run:
            _show_check(made)
            return int(any(one.fault for one in made.moved))
        made.declare()
        logger = events_logger(log_format, live=line is not None, alone=False)
        made.move(logger, line.show if line is not None else None)
        made.compare()
        # One that goes with its consumers may come and go all the time.
        try:
            made.came = {
                queue.name: CAME
                for queue in matching(queues_of(apis[0]), pattern)
                if queue.name not in queues and (queue.messages or not queue.auto_delete)
            }
        except (OSError, ValueError) as error:  # what was moved is reported all the same
            made.came = {"other queues": f"could not be listed at the end: {error}"}
    if line is not None:
        click.echo(err=True)
    write_reports(reports, lambda: report.migration_json(made), lambda: report.migration_html(made))
    show_counts({one.queue.name: one.counts for one in made.moved}, remains=False)
    for name, said in made.open().items():
        for text in said:
            click.echo(safe(f"{name}: {text}"))
    left = len(made.open())
    whole = plural(len(made.moved) + len(made.came), "queue")
    click.echo(f"not done: {left:,} of {whole} open" if left else f"done: {whole}")
    return status_of(made.moved, made.came, accept_quarantine=accept_quarantine)


def _show_check(made: Migration) -> None:
    """Print what the target would get, and what its messages would lose."""
    from amqp10msg.net.bridge.dry import Checked

    shown: dict[str, None] = {}
    for one in made.moved:
        shown |= dict.fromkeys(line for step in one.steps for line in str(step).splitlines())
    for text in shown:
        click.echo(safe(text))
    for one in made.moved:
        show_dry(Checked(one.queue, one.check, one.fault))
