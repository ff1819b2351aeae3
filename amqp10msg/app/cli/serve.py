"""``amqp10msg serve``: a server of distribution nodes that runs until it is stopped."""

from __future__ import annotations

import logging
import signal
import threading
from pathlib import Path
from typing import Any

import click

_LOOK = 1.0  # seconds; on Windows nothing else ends a wait at Ctrl-C
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


def users_of(path: Path) -> dict[str, str]:
    """Read names and passwords, a pair a line, with a colon in between."""
    users = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        name, colon, password = line.partition(":")
        if not line.strip():
            continue
        if not colon or not name:
            raise click.UsageError(f"--users: line {number} of {path} is not NAME:PASSWORD")
        users[name] = password
    return users


@click.command(
    epilog="""
\b
Examples:
  $ amqp10msg serve
  $ amqp10msg serve --port 0 --node orders --no-create
  $ amqp10msg serve --store messages.db --users users.txt --cert cert.pem
"""
)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=5672,
    show_default=True,
    help="The port; 0 for a free one.",
)
@click.option(
    "--node",
    "nodes",
    metavar="ADDRESS",
    multiple=True,
    help="A node to create at the start; repeatable.",
)
@click.option(
    "--topic",
    "topics",
    metavar="ADDRESS",
    multiple=True,
    help="A topic, where every receiver gets every message; repeatable.",
)
@click.option("--no-create", is_flag=True, help="Refuse addresses that no --node or --topic names.")
@click.option(
    "--users",
    type=_FILE,
    help="Names and passwords for SCRAM-SHA-256 and PLAIN: a file with a line NAME:PASSWORD each.",
)
@click.option("--anonymous", is_flag=True, help="With --users: also let clients in without a name.")
@click.option("--cert", type=_FILE, help="Speak TLS, with this certificate (PEM).")
@click.option(
    "--client-ca",
    type=_FILE,
    help="With --cert: clients may prove who they are, with a certificate of this authority (PEM).",
)
@click.option("--key", type=_FILE, help="The key of --cert (PEM), where it is not in that file.")
@click.option(
    "--cbs", is_flag=True, help="Accept any token that a client puts to $cbs, as Azure's do."
)
@click.option(
    "--service-bus",
    is_flag=True,
    help="Be a double of Azure Service Bus, for its clients; with --cbs.",
)
@click.option(
    "--store",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Keep durable messages in this file; without it they are rejected.",
)
@click.option(
    "--accept-durable", is_flag=True, help="Accept durable messages, though they are not kept."
)
@click.option("--dead-letter", metavar="ADDRESS", help="Where rejected and expired messages go.")
@click.option(
    "--priorities",
    type=click.IntRange(1, 256),
    default=10,
    show_default=True,
    help="How many priorities the nodes distinguish.",
)
@click.option(
    "--memory",
    type=click.IntRange(min=0),
    default=512 << 20,
    show_default=True,
    help="What all messages may take up, in bytes; more are rejected. 0 for no limit.",
)
@click.option(
    "--max-message-size",
    type=click.IntRange(min=0),
    default=16 << 20,
    show_default=True,
    help="The largest message, in bytes; 0 for no limit.",
)
@click.option(
    "--log",
    "log_format",
    type=click.Choice(["text", "json", "none"]),
    default="text",
    show_default=True,
    help="How events are written on standard error.",
)
def serve(
    users: Path | None,
    anonymous: bool,
    cert: Path | None,
    key: Path | None,
    client_ca: Path | None,
    store: Path | None,
    no_create: bool,
    cbs: bool,
    log_format: str,
    **options: Any,
) -> None:
    """Serve distribution nodes over AMQP 1.0.

    A node is created for every address that a client asks for. The first line on standard output is
    where the server listens; SIGINT and SIGTERM stop it. It is meant for tests and small jobs.
    """
    # Here, so that the other commands need not load sockets.
    from amqp10msg.net.serve import JsonFormatter, Server, tls_context

    if key is not None and cert is None:
        raise click.UsageError("--key needs --cert")
    if client_ca is not None and cert is None:
        raise click.UsageError("--client-ca needs --cert")
    logger = logging.Logger("amqp10msg.serve", logging.INFO)  # noqa: LOG001  (no global state)
    if log_format != "none":
        text = logging.Formatter("%(asctime)s %(levelname)s %(message)s")
        handler = logging.StreamHandler()
        handler.setFormatter(JsonFormatter() if log_format == "json" else text)
        logger.addHandler(handler)
    names = users_of(users) if users is not None else {}
    server = Server(
        users=names,
        anonymous=anonymous or None,
        tls=tls_context(cert, key, client_ca) if cert is not None else None,
        file=store,
        create=not no_create,
        on_token=(lambda _: True) if cbs else None,
        logger=logger,
        **options,
    )
    stopped = threading.Event()
    with server:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stopped.set())
        click.echo(server.url)
        while not stopped.wait(_LOOK):
            pass
