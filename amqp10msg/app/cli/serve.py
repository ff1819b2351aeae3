"""``amqp10msg serve``: run an AMQP 1.0 server of distribution nodes until it is stopped."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import Any

import click

from amqp10msg.app.cli._live import events_logger, log_option
from amqp10msg.app.cli._options import declared_options, given_options
from amqp10msg.net.server_options import ServerOptions

# Seconds between checks for a signal: on Windows, Ctrl-C does not interrupt a wait.
_POLL_SECONDS = 1.0
_EXISTING_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


def read_users(path: Path) -> dict[str, str]:
    """Return {name: password} from a file with one NAME:PASSWORD per line.

    Raises:
        click.UsageError: a line has a different form.
    """
    users = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        name, colon, password = line.partition(":")
        if not line.strip():
            continue
        if not colon or not name:
            raise click.UsageError(f"--users: line {number} of {path} must be NAME:PASSWORD")
        users[name] = password
    return users


@click.command(
    short_help="Run an AMQP 1.0 broker for tests.",
    epilog="""
\b
Examples:
  $ amqp10msg serve
  $ amqp10msg serve --port 0 --node orders --no-create
  $ amqp10msg serve --store messages.db --users users.txt --cert cert.pem
""",
)
@declared_options(
    ServerOptions,
    inserted_before={
        "anonymous": [
            click.option(
                "--users",
                type=_EXISTING_FILE,
                help="Accept these users by SCRAM-SHA-256 and PLAIN: a file with one "
                "NAME:PASSWORD per line.",
            )
        ],
        "file": [
            click.option(
                "--cert", type=_EXISTING_FILE, help="Use TLS with this certificate (PEM)."
            ),
            click.option(
                "--client-ca",
                type=_EXISTING_FILE,
                help="With --cert: clients may authenticate with a certificate that this authority "
                "(PEM) issued.",
            ),
            click.option(
                "--key",
                type=_EXISTING_FILE,
                help="The private key of --cert (PEM), unless the --cert file contains it.",
            ),
        ],
        "service_bus": [
            click.option(
                "--cbs",
                is_flag=True,
                help="Accept any token that a client sends to $cbs, as Azure clients do.",
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
    """Run an AMQP 1.0 broker of distribution nodes, for tests and small jobs.

    The server creates a node for each address that a client attaches to. The first line on standard
    output is the URL of the server. SIGINT and SIGTERM stop it.
    """
    # Import late, because the server imports sockets, which --help does not need.
    from amqp10msg.net.serve import Server, tls_context

    if key is not None and cert is None:
        raise click.UsageError("--key needs --cert")
    if client_ca is not None and cert is None:
        raise click.UsageError("--client-ca needs --cert")
    server = Server(
        users=read_users(users) if users is not None else {},
        tls=tls_context(cert, key, client_ca) if cert is not None else None,
        on_token=(lambda _: True) if cbs else None,
        logger=events_logger(log_format, "amqp10msg.serve"),
        **given_options(options),
    )
    stopped = threading.Event()
    with server:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stopped.set())
        click.echo(server.url)
        while not stopped.wait(_POLL_SECONDS):
            pass
