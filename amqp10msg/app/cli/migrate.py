"""``amqp10msg migrate-check``: what a migration of a RabbitMQ would lose, queue by queue."""

from __future__ import annotations

from pathlib import Path

import click

from amqp10msg.app.cli._bridging import (
    check_reports,
    hide_credentials,
    reports_option,
    show_dry,
    write_dry,
)
from amqp10msg.app.cli._options import LateChoice, translations
from amqp10msg.app.cli._output import complain, plural


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
@click.option(
    "--max-messages",
    type=click.IntRange(1, 65535),
    default=100,
    show_default=True,
    help="Read this many messages of each queue.",
)
@click.option(
    "--idle",
    type=click.FloatRange(min=0.01),
    default=2.0,
    show_default=True,
    help="How many seconds without a message mean that a queue is empty.",
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
    """Read messages of a RabbitMQ's queues, give them back, and say what 1.0 would lose.

    URL is amqp091://USER:PASSWORD@HOST/VHOST, by TLS amqp091s://; user and password may be ${NAME},
    a variable of the environment. The queues are those of --queue, or all that the management API
    of --management lists, which also says what becomes of them in RabbitMQ 4: mirrored, transient,
    lazy, without delivery-limit. A user-id other than USER is named, as it would be refused there.

    Nothing is consumed, but RabbitMQ marks the messages as delivered before, and a quorum queue
    counts the delivery. The exit status is 1 where a queue could not be read. Needs the extra net.
    """
    check_reports(reports)
    if management is None and not names:
        raise click.UsageError("name queues with --queue, or give --management, which lists them")
    try:
        from amqp10msg.net.bridge import RouteOptions, parse_url
        from amqp10msg.net.bridge.bridge import run_check
        from amqp10msg.net.bridge.management import Management, Queue, queues_of
    except ModuleNotFoundError as error:
        raise click.ClickException(f"{error}: pip install 'amqp10msg[net]'") from None
    profile = profile or "rabbitmq-4.3"
    try:
        endpoint = parse_url(url)
        if endpoint.protocol != "0-9-1":
            raise ValueError("the URL begins with amqp091:// or amqp091s://")
        hide_credentials("migrate-check", [endpoint])
        queues = [Queue(name) for name in names]
        if management is not None:
            api = Management(management, endpoint)
            listed = {queue.name: queue for queue in queues_of(api)}
            queues = [listed.get(one.name, one) for one in queues] or list(listed.values())
        options = RouteOptions(profile=profile, keep_names=True)
        checked = run_check(endpoint, queues, options, max_messages, idle, show_dry)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    except OSError as error:
        raise click.ClickException(str(error)) from None
    about = {"source": str(endpoint), "target": "AMQP 1.0", "profile": profile}
    write_dry(reports, checked, title="What a migration would lose", **about)
    runs = [one.run for one in checked if one.run is not None]
    losing = sum(run.losing for run in runs)
    read = plural(sum(run.read for run in runs), "message")
    click.echo(f"\n{plural(len(checked), 'queue')}, {read} read; something is lost of {losing:,}")
    unread = [one.queue.name for one in checked if one.fault]
    if unread:
        complain(f"{plural(len(unread), 'queue')} could not be read")
    return int(bool(unread))
