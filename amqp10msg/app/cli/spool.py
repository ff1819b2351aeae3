"""``amqp10msg spool``: a queue into Parquet files, on disk before it is acknowledged."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click

from amqp10msg.app.cli._bridging import lacking
from amqp10msg.app.cli._options import number_option
from amqp10msg.app.cli._output import complain, safe
from amqp10msg.wire.errors import AmqpError
from amqp10msg.wire.text import plural


@click.command(
    short_help="Write what comes from a broker into Parquet files.",
    epilog="""
\b
Examples:
  amqp10msg spool amqp://guest:guest@localhost:5672 /queues/orders landing/
  amqp10msg spool --protocol 0-9-1 amqp://localhost/%2f orders landing/
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
    help="AMQP 1.0 from an address, or 0-9-1 from a queue.",
)
@number_option("--rows", 10_000, "How many messages a file holds at most.")
@number_option(
    "--seconds",
    1.0,
    "How many seconds a message may wait until it is on disk and acknowledged.",
    0.01,
)
@number_option(
    "--idle",
    None,
    "End after this many seconds without a message; by default run until stopped.",
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

    Over 0-9-1, ADDRESS is the name of a queue.

    Messages are on disk before they are acknowledged: none is lost when this process or the machine
    is killed. One that was on disk and not yet acknowledged is delivered again; the column identity
    shows duplicates. Spark can read the folder as a stream. Needs the extras net and arrow.

    A quorum queue of RabbitMQ 4 drops or dead-letters a message after 20 redeliveries, unless its
    delivery-limit says otherwise; a warning at the start says so.
    """
    try:
        from amqp10msg.net.landing import Landing
        from amqp10msg.net.spool import Batches
        from amqp10msg.net.spool import spool as consume

        with Landing(folder) as landing:
            batches = Batches(rows, seconds=seconds, idle=idle)
            total = consume(url, address, landing, batches, protocol=protocol, warn=complain)
    except ModuleNotFoundError as error:
        raise lacking(error, "net,arrow") from None
    except AmqpError:
        raise
    except ValueError as error:  # of the URL
        raise click.UsageError(str(error)) from None
    click.echo(safe(f"{plural(total, 'message')} in {folder}"))
    return 0
