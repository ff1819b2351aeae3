"""``amqp10msg spool``: consume a queue into Parquet files, synced before acknowledgement."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click

from amqp10msg.app.cli._bridging import hide_credentials, missing_extra
from amqp10msg.app.cli._options import number_option
from amqp10msg.app.cli._output import print_error, safe
from amqp10msg.wire.errors import AmqpError
from amqp10msg.wire.text import plural


@click.command(
    short_help="Consume a queue into Parquet files.",
    epilog="""
\b
Examples:
  amqp10msg spool amqp://guest:guest@localhost:5672 /queues/orders landing/
  amqp10msg spool --protocol 0-9-1 amqp://localhost/%2f orders landing/
  amqp10msg spool 'amqps://${USER}:${PASSWORD}@host' /queues/orders landing/
""",
)
@click.argument("url", metavar="URL")
@click.argument("address", metavar="ADDRESS")
@click.argument("folder", metavar="FOLDER", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--protocol",
    type=click.Choice(["1.0", "0-9-1"]),
    default="1.0",
    show_default=True,
    help="The protocol of the broker: for 1.0, ADDRESS is a node address; for 0-9-1, a queue name.",
)
@number_option("--rows", 10_000, "The maximum number of messages per file.")
@number_option(
    "--seconds",
    1.0,
    "The maximum time in seconds before a message is on disk and acknowledged.",
    0.01,
)
@number_option(
    "--idle",
    None,
    "End after this many seconds without a message. By default, run until stopped.",
    0.01,
    metavar="SECONDS",
)
def spool(
    url: str,
    address: str,
    folder: Path,
    protocol: Literal["1.0", "0-9-1"],
    rows: int,
    seconds: float,
    idle: float | None,
) -> int:
    """Consume ADDRESS of the broker at URL into Parquet files in FOLDER.

    The URL ends after the host, or over 0-9-1 after the virtual host, and may have parameters as
    for bridge. Over 0-9-1, ADDRESS is the name of a queue. Write USER and PASSWORD in the URL as
    ${NAME} to read them from an environment variable, so that the process list does not show them.

    Messages are synced to disk before they are acknowledged, so none is lost if this process or the
    machine is killed. A message that was on disk but not yet acknowledged is delivered again; the
    column identity identifies such duplicates. The command ends with status 1 when the connection
    is lost. Spark can read the folder as a stream. Requires the extras net and arrow.

    Unless its delivery-limit is changed, a quorum queue of RabbitMQ 4 drops or dead-letters a
    message after 20 redeliveries; the command warns about that at the start.
    """
    try:
        from amqp10msg.net.ends.parquet import Landing
        from amqp10msg.net.spool import Batches, endpoint_of
        from amqp10msg.net.spool import spool as consume

        hide_credentials("spool", [endpoint_of(url, address, protocol)])
        with Landing(folder) as landing:
            batches = Batches(rows, seconds=seconds, idle=idle)
            total = consume(url, address, landing, batches, protocol=protocol, warn=print_error)
    except ModuleNotFoundError as error:
        raise missing_extra(error, "net,arrow") from None
    except AmqpError:
        raise
    except ValueError as error:  # an invalid URL
        raise click.UsageError(str(error)) from None
    click.echo(safe(f"{plural(total, 'message')} in {folder}"))
    return 0
