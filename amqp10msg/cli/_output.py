"""Output of the commands: colour, terminal width, text that is safe to print."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, Self

import click
from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TimeElapsedColumn
from rich.table import Table

from amqp10msg.files.atomic import replacing
from amqp10msg.validation import PROFILES

SEVERITY_COLORS = {"error": "red", "warning": "yellow"}


def safe(text: str) -> str:
    """Escape what a terminal would act on or break the line at, and what no encoding can hold."""
    if text.isprintable():
        return text
    return "".join(
        char
        if char.isprintable()
        else f"\\x{ord(char) & 0xFF:02x}"
        if ord(char) < 0x100 or 0xDC80 <= ord(char) <= 0xDCFF  # bytes of a file's name
        else f"\\u{ord(char):04x}"
        if ord(char) < 0x10000
        else f"\\U{ord(char):08x}"
        for char in text
    )


def plural(number: int, noun: str) -> str:
    """Count things: ``1 message``, ``2,000 messages``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def is_terminal(stream: Any) -> bool:
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):  # closed, or none at all
        return False


def use_color(wanted: bool | None, stream: Any = None) -> bool:
    """Return whether to colour: as asked for, else by the terminal and https://no-color.org."""
    if wanted is not None:
        return wanted
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return is_terminal(stream or sys.stdout) and os.environ.get("TERM") != "dumb"


def console(colored: bool, width: int | None = None) -> Console:
    """Return a console for standard output, as wide as the terminal where no width is given."""
    return Console(no_color=not colored, force_terminal=colored, highlight=False, width=width)


def table(*names: str) -> Table:
    """Return a table without borders, its columns folded where they are too wide."""
    made = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 2, 0, 0))
    for name in names:
        made.add_column(name, overflow="fold")
    return made


def progress(
    color: bool | None, *columns: ProgressColumn, redirect_stdout: bool = True
) -> Progress:
    """Return a progress bar on standard error, with columns between the bar and the time."""
    return Progress(
        BarColumn(),
        *columns,
        TimeElapsedColumn(),
        console=Console(stderr=True, no_color=not use_color(color, sys.stderr)),
        transient=True,
        redirect_stdout=redirect_stdout,
    )


color_option = click.option(
    "--color/--no-color",
    "color",
    default=None,
    help="Colour the output, or do not; by default as the terminal and NO_COLOR ask for.",
)

output_option = click.option(
    "-o",
    "--output",
    "output",
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    help="Write to this file instead of standard output.",
)


profile_option = click.option(
    "--profile",
    type=click.Choice(list(PROFILES)),
    default="oasis",
    show_default=True,
    help="The set of rules to judge by.",
)

json_option = click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Write a JSON object a line: one for each message, then one with the summary.",
)


def showing_option(flag: str, text: Callable[[], str], help_text: str) -> Callable[..., Any]:
    """Return an option that shows a text and ends the command."""

    def show(context: click.Context, _: click.Parameter, wanted: bool) -> None:
        if wanted and not context.resilient_parsing:
            click.echo(text())
            context.exit()

    return click.option(
        flag, is_flag=True, is_eager=True, expose_value=False, callback=show, help=help_text
    )


class Sink:
    """Where a command's result goes: standard output or a file.

    The file is begun with the first piece, and appears when the command ends without an error.

    Args:
        output: the file, or None or ``-`` for standard output.
        color: keep escape sequences in text; None for what the terminal takes.
    """

    def __init__(self, output: Path | None, color: bool | None = None) -> None:
        self._path = None if output is None or str(output) == "-" else output
        self._color = color
        self._file: IO[bytes] | None = None
        self._open = contextlib.ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:  # noqa: PYI036  (as ExitStack has them)
        self._open.__exit__(*error)

    def write(self, data: str | bytes) -> None:
        """Write text, ended by a line break, or bytes as they are, but these to no terminal."""
        if self._path is not None:
            if self._file is None:
                self._file = self._open.enter_context(replacing(self._path))
            if isinstance(data, str):
                data = data.encode("utf-8", "backslashreplace")
            self._file.write(data)
        elif isinstance(data, str):
            click.echo(data, nl=False, color=self._color)
        elif is_terminal(sys.stdout):
            raise click.ClickException(
                "this is binary, not for a terminal: give --output FILE, or pipe it"
            )
        else:
            click.echo(data, nl=False)
