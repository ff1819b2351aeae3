"""The group of commands, and the one place where errors become a line on stderr and a status.

Status 0: all is well. 1: the input is broken, or a message breaks a rule. 2: the command line
itself is wrong. 130: Ctrl-C.
"""

from __future__ import annotations

import re
import sys
from collections import UserDict
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from amqp10msg.app.cli._options import showing_option
from amqp10msg.app.cli._output import safe
from amqp10msg.app.made import command
from amqp10msg.app.version import version
from amqp10msg.wire.errors import AmqpError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

#: Where each command is, and what it does: its help in short.
COMMANDS = {
    "bridge": ("bridge:bridge", "Move messages from one broker to another, and lose none."),
    "conformance": (
        "conformance:conformance",
        "Test implementations of AMQP with a corpus of cases.",
    ),
    "convert": ("convert:convert", "Write messages in another notation."),
    "demo": ("demo:demo", "Show the library at work on real messages."),
    "diff-profiles": ("translate:diff_profiles", "Show what each bridge would make of a message."),
    "encode": ("convert:encode", "Encode messages from JSON."),
    "filter": (
        "filter:filter_messages",
        "Show which messages pass a filter, and why the others do not.",
    ),
    "inspect": ("inspect:inspect", "Show what every byte of a message means."),
    "migrate": (
        "migrate:migrate",
        "Move queues from one RabbitMQ to another, and account for each message.",
    ),
    "migrate-check": (
        "migrate:migrate_check",
        "Show what moving the messages of queues would lose.",
    ),
    "pipeline": ("pipeline:pipeline", "Decode, validate, translate or profile many messages."),
    "serve": ("serve:serve", "Serve distribution nodes over AMQP 1.0."),
    "spool": ("spool:spool", "Write what comes from a broker into Parquet files."),
    "translate": (
        "translate:translate",
        "Translate between AMQP 0-9-1 and 1.0, and say what is lost.",
    ),
    "validate": ("validate:validate", "Validate messages by the rules of the specification."),
}


class _Commands(UserDict[str, Any]):
    """The commands by name; one is imported when it is asked for."""

    def __getitem__(self, name: str) -> click.Command:
        module, _, function = COMMANDS[name][0].partition(":")
        found: click.Command = getattr(import_module(f"amqp10msg.app.cli.{module}"), function)
        return found


class App(click.Group):
    """The group; it names its commands without importing them, and their errors become one line."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  (click's signature)
        """List the commands."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, about) for name, (_, about) in COMMANDS.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the name of a command, or an option of all."""
        from click.shell_completion import CompletionItem

        named = [
            CompletionItem(name, help=about)
            for name, (_, about) in COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return [*named, *click.Command.shell_complete(self, ctx, incomplete)]

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run a command; in standalone mode leave the process with its status."""
        for stream in (sys.stdout, sys.stderr):
            # What the terminal's encoding has no character for is escaped, not an error.
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="backslashreplace")
        extra.setdefault("prog_name", "amqp10msg")
        standalone = extra.pop("standalone_mode", True)
        plain: Any = super().main

        def run() -> Any:
            with command((args[0] if args else extra.get("args")) or sys.argv[1:]):
                return plain(*args, standalone_mode=False, **extra)

        if not standalone:
            return run()
        try:
            status = run()
        except _EXPECTED as error:
            line, status = _line_of(error)
            click.echo(safe(line), err=True)
        except ImportError as error:
            if "pip install" in str(error):  # it says which extra is missing
                click.echo(safe(f"amqp10msg: {error}"), err=True)
                sys.exit(1)
            if (error.name or "").partition(".")[0] != "rich":
                raise
            from amqp10msg.app.cli._missing import without

            status = without("rich")()
        sys.exit(status or 0)


_EXPECTED = (
    *(click.ClickException, click.Abort, KeyboardInterrupt),
    *(AmqpError, OSError, MemoryError),
)


def _line_of(error: BaseException) -> tuple[str, int]:
    if isinstance(error, click.UsageError):
        context = error.ctx
        command = context.command_path if context else "amqp10msg"
        # Some of click's messages are a list, a line each.
        said = re.sub(r"[\n\t]+", " ", error.format_message()).rstrip(". ")
        return f"{command}: {said} (see {command} --help)", 2
    if isinstance(error, click.ClickException):
        return f"amqp10msg: {error.format_message()}", error.exit_code
    if isinstance(error, (click.Abort, KeyboardInterrupt)):
        return "amqp10msg: interrupted", 130
    if isinstance(error, MemoryError):
        return "amqp10msg: out of memory: the input is too large for this machine", 1
    if isinstance(error, OSError):
        place = f"{error.filename!s}: " if error.filename is not None else ""
        return f"amqp10msg: {place}{error.strerror or error}", 1
    return f"amqp10msg: {error}", 1


@click.group(
    "amqp10msg",
    cls=App,
    commands=_Commands(COMMANDS),
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="""
\b
Shell completion, for ~/.bashrc, ~/.zshrc and config.fish:
  eval "$(_AMQP10MSG_COMPLETE=bash_source amqp10msg)"
  eval "$(_AMQP10MSG_COMPLETE=zsh_source amqp10msg)"
  _AMQP10MSG_COMPLETE=fish_source amqp10msg | source
""",
)
@showing_option("--version", version, "Show the version and whether the kernel is compiled.")
@click.pass_context
def main(context: click.Context) -> None:
    """Inspect, build, validate and convert AMQP 1.0 messages.

    Messages are given as files, directories, hex, base64, or on standard input. Exit status: 0 if
    all is well, 1 if the input is broken or breaks a rule, 2 if the command line is wrong.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
        context.exit(2)
