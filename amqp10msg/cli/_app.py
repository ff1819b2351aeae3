"""The group of commands, and the one place where errors become a line on stderr and a status.

Status 0: all is well. 1: the input is broken, or a message breaks a rule. 2: the command line
itself is wrong.
"""

from __future__ import annotations

import platform
import sys
from typing import Any

import click

import amqp10msg
from amqp10msg.cli._output import safe, showing_option
from amqp10msg.cli.convert import convert, encode
from amqp10msg.cli.demo import demo
from amqp10msg.cli.filter import filter_messages
from amqp10msg.cli.inspect import inspect
from amqp10msg.cli.pipeline import pipeline
from amqp10msg.cli.serve import serve
from amqp10msg.cli.spool import spool
from amqp10msg.cli.translate import diff_profiles, translate
from amqp10msg.cli.validate import validate
from amqp10msg.errors import AmqpError


def version() -> str:
    """Return the version of the library, and whether its kernel is compiled."""
    kernel = "compiled kernel" if amqp10msg.COMPILED else "pure Python kernel"
    return (
        f"amqp10msg {amqp10msg.__version__} ({kernel}, "
        f"{platform.python_implementation()} {platform.python_version()})"
    )


class App(click.Group):
    """The group; errors of all commands become one line here."""

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run a command; in standalone mode leave the process with its status."""
        for stream in (sys.stdout, sys.stderr):
            # What the terminal's encoding has no character for is escaped, not an error.
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="backslashreplace")
        extra.setdefault("prog_name", "amqp10msg")
        standalone = extra.pop("standalone_mode", True)
        run: Any = super().main
        if not standalone:
            return run(*args, standalone_mode=False, **extra)
        try:
            status = run(*args, standalone_mode=False, **extra)
        except (click.ClickException, click.Abort, AmqpError, OSError, MemoryError) as error:
            line, status = _line_of(error)
            click.echo(safe(line), err=True)
        sys.exit(status or 0)


def _line_of(error: BaseException) -> tuple[str, int]:
    if isinstance(error, click.UsageError):
        context = error.ctx
        command = context.command_path if context else "amqp10msg"
        return f"{command}: {error.format_message().rstrip('.')} (see {command} --help)", 2
    if isinstance(error, click.ClickException):
        return f"amqp10msg: {error.format_message()}", error.exit_code
    if isinstance(error, click.Abort):
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
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="""
\b
Completion by the shell, for ~/.bashrc, ~/.zshrc and config.fish:
  eval "$(_AMQP10MSG_COMPLETE=bash_source amqp10msg)"
  eval "$(_AMQP10MSG_COMPLETE=zsh_source amqp10msg)"
  _AMQP10MSG_COMPLETE=fish_source amqp10msg | source
""",
)
@showing_option("--version", version, "Show the version and whether the kernel is compiled.")
@click.pass_context
def main(context: click.Context) -> None:
    """Look at, build, judge and convert AMQP 1.0 messages.

    Messages are given as files, directories, hex, base64, or on standard input. Exit status: 0
    where all is well, 1 where the input is broken or breaks a rule, 2 where the command line is
    wrong.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
        context.exit(2)


COMMANDS = (
    inspect,
    encode,
    validate,
    filter_messages,
    convert,
    translate,
    diff_profiles,
    serve,
    pipeline,
    spool,
    demo,
)
for command in COMMANDS:
    main.add_command(command)
