"""``amqp10msg serve``: a server of distribution nodes that runs until it is stopped."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import Any

import click

from amqp10msg.app.cli._live import events_logger, log_option
from amqp10msg.app.cli._options import declared_options, given_of
from amqp10msg.net.server_options import ServerOptions

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
@declared_options(
    ServerOptions,
    before={
        "anonymous": [
            click.option(
                "--users",
                type=_FILE,
                help="Names and passwords for SCRAM-SHA-256 and PLAIN: a file with a line "
                "NAME:PASSWORD each.",
            )
        ],
        "file": [
            click.option("--cert", type=_FILE, help="Speak TLS, with this certificate (PEM)."),
            click.option(
                "--client-ca",
                type=_FILE,
                help="With --cert: clients may prove who they are, with a certificate of this "
                "authority (PEM).",
            ),
            click.option(
                "--key", type=_FILE, help="The key of --cert (PEM), where it is not in that file."
            ),
        ],
        "service_bus": [
            click.option(
                "--cbs",
                is_flag=True,
                help="Accept any token that a client puts to $cbs, as Azure's do.",
            )
        ],
    },
)
@log_option
def serve(
    users: Path | None,
    cert: Path | None,
    key: Path | None,
    client_ca: Path | None,
    cbs: bool,
    log_format: str,
    **options: Any,
) -> None:
    """Serve distribution nodes over AMQP 1.0.

    A node is created for every address that a client asks for. The first line on standard output
    says where the server listens; SIGINT and SIGTERM stop it. It is meant for tests and small
    jobs.
    """
    # Here, so that the other commands need not load sockets.
    from amqp10msg.net.serve import Server, tls_context

    if key is not None and cert is None:
        raise click.UsageError("--key needs --cert")
    if client_ca is not None and cert is None:
        raise click.UsageError("--client-ca needs --cert")
    server = Server(
        users=users_of(users) if users is not None else {},
        tls=tls_context(cert, key, client_ca) if cert is not None else None,
        on_token=(lambda _: True) if cbs else None,
        logger=events_logger(log_format, "amqp10msg.serve"),
        **given_of(options),
    )
    stopped = threading.Event()
    with server:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stopped.set())
        click.echo(server.url)
        while not stopped.wait(_LOOK):
            pass
