"""The command ``amqp10msg`` with its subcommands, its error messages and its exit status.

The exit status is 0 on success, 1 if the input is broken or a message breaks a rule, 2 if the
command line is wrong, and 130 after Ctrl-C. Some commands define further values.
"""

from __future__ import annotations

import re
import sys
from collections import UserDict
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from amqp10msg.app.cli._options import printing_option
from amqp10msg.app.cli._output import print_error, use_json_lines, uses_json_lines
from amqp10msg.app.version import version
from amqp10msg.provenance import command
from amqp10msg.wire.errors import AmqpError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

#: The commands by name, as (module and function in `amqp10msg.app.cli`, short help).
COMMANDS = {
    "bridge": ("bridge:bridge", "Move messages from one broker to another without losing any."),
    "compare": ("compare:compare", "Show which fields of messages differ."),
    "conformance": (
        "conformance:conformance",
        "Test AMQP implementations with a corpus of test cases.",
    ),
    "convert": ("convert:convert", "Convert messages to another format."),
    "demo": ("demo:demo", "Demonstrate the library on recorded messages."),
    "diff-profiles": ("translate:diff_profiles", "Compare how brokers would translate a message."),
    "encode": ("convert:encode", "Encode JSON as AMQP 1.0 messages."),
    "filter": (
        "filter:filter_messages",
        "Show which messages pass a filter, and why others do not.",
    ),
    "inspect": ("inspect:inspect", "Show what every byte of a message means."),
    "migrate": (
        "migrate:migrate",
        "Move queues from one RabbitMQ to another and account for every message.",
    ),
    "migrate-check": (
        "migrate:migrate_check",
        "Show which data a move to AMQP 1.0 would lose, queue by queue.",
    ),
    "pipeline": ("pipeline:pipeline", "Decode, validate, translate or profile many messages."),
    "rules": ("rules:rules", "Show rules, with the words of the specification."),
    "serve": ("serve:serve", "Run an AMQP 1.0 broker for tests."),
    "spool": ("spool:spool", "Consume a queue into Parquet files."),
    "translate": (
        "translate:translate",
        "Translate between AMQP 0-9-1 and 1.0, and list the losses.",
    ),
    "validate": ("validate:validate", "Validate messages against the rules of the specification."),
}


class _Commands(UserDict[str, Any]):
    """Maps command names to commands. A command's module is imported when it is looked up."""

    def __getitem__(self, name: str) -> click.Command:
        module, _, function = COMMANDS[name][0].partition(":")
        command: click.Command = getattr(import_module(f"amqp10msg.app.cli.{module}"), function)
        return command


class App(click.Group):
    """The click group of all commands.

    It lists the commands without importing them, and prints expected exceptions as one line.
    """

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  (click's signature)
        """Write the list of commands with their short help."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, about) for name, (_, about) in COMMANDS.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the completions of `incomplete`: names of commands, and options of the group."""
        from click.shell_completion import CompletionItem

        commands = [
            CompletionItem(name, help=about)
            for name, (_, about) in COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return [*commands, *click.Command.shell_complete(self, ctx, incomplete)]

    def invoke(self, ctx: click.Context) -> Any:
        """Run the subcommand. With ``--log json``, Ctrl-C raises Abort.

        For KeyboardInterrupt, click would print an empty line, which is no JSON object.
        """
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            if uses_json_lines():
                raise click.Abort from None
            raise

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run a command; in standalone mode, print expected errors and exit with the status."""
        for stream in (sys.stdout, sys.stderr):
            # Escape characters that the terminal's encoding lacks: they would raise an error.
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="backslashreplace")
        extra.setdefault("prog_name", "amqp10msg")
        use_json_lines(False)  # until --log is parsed
        standalone = extra.pop("standalone_mode", True)
        run_group: Any = super().main

        def run() -> Any:
            with command((args[0] if args else extra.get("args")) or sys.argv[1:]):
                return run_group(*args, standalone_mode=False, **extra)

        if not standalone:
            return run()
        try:
            status = run()
        except _EXPECTED_ERRORS as error:
            status = _print_failure(error)
        except ImportError as error:
            if "pip install" in str(error):  # the message names the missing extra
                print_error(str(error))
                sys.exit(1)
            if (error.name or "").partition(".")[0] != "rich":
                raise
            from amqp10msg.app.cli._missing import main_without

            status = main_without("rich")()
        sys.exit(status or 0)


# Exceptions that are printed as one line, without a traceback.
_EXPECTED_ERRORS = (
    *(click.ClickException, click.Abort, KeyboardInterrupt),
    *(AmqpError, OSError, MemoryError),
)


def _print_failure(error: BaseException) -> int:
    """Print an exception as one line. Return the exit status."""
    if isinstance(error, click.UsageError):
        context = error.ctx
        command = context.command_path if context else "amqp10msg"
        # Some error messages of click have several lines.
        message = re.sub(r"[\n\t]+", " ", error.format_message()).rstrip(". ")
        print_error(f"{message} (see {command} --help)", event="usage-error", command=command)
        return 2
    if isinstance(error, click.ClickException):
        print_error(error.format_message())
        return error.exit_code
    if isinstance(error, (click.Abort, KeyboardInterrupt)):
        print_error("interrupted", event="interrupted")
        return 130
    if isinstance(error, MemoryError):
        print_error("out of memory: the input is too large for this machine")
    elif isinstance(error, OSError):
        prefix = f"{error.filename!s}: " if error.filename is not None else ""
        print_error(f"{prefix}{error.strerror or error}")
    else:
        print_error(str(error))
    return 1


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
@printing_option("--version", version, "Show the version and whether the kernel is compiled.")
@click.pass_context
def main(context: click.Context) -> None:
    """Inspect, build, validate and convert AMQP 1.0 messages.

    Messages are read from files, directories, hex or base64 arguments, or standard input. Exit
    status: 0 on success, 1 if the input is broken or breaks a rule, 2 if the command line is wrong.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
        context.exit(2)
