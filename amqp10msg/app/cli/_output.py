"""The output of commands: colour, terminal width, progress bars, escaped text."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from typing import IO, TYPE_CHECKING, Any, Self

import click

from amqp10msg.wire.text import plural, printable

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console
    from rich.progress import Progress, ProgressColumn
    from rich.table import Table

# The colours of violations.
SEVERITY_COLORS = {"error": "red", "warning": "yellow"}
# Columns of the output if it is not a terminal: wide enough that no line is wrapped.
_UNWRAPPED_WIDTH = 100_000
# Seconds before a progress bar appears, so that short runs do not show a bar.
_BAR_DELAY = 1.0


def safe(text: str) -> str:
    """Return `text` with control characters, line breaks and lone surrogates escaped.

    The result is safe to print: it cannot control the terminal.
    """
    return printable(re.sub(_SURROGATES, lambda match: f"\\x{ord(match[0]) & 0xFF:02x}", text))


# Matches the surrogates to which Python decodes the bytes of a file name that are not UTF-8
# (PEP 383).
_SURROGATES = "[\udc80-\udcff]"
# Matches the end of `Item.source`, such as ``:3 (order)``: a line number or offset, and the name of
# the message.
_SOURCE_END = r"(?s)([:@]\d+) \(.*\)$"


def json_text(value: Any, *, indent: int | None = None) -> str:
    """Return `value` as JSON with all unprintable characters in strings escaped.

    JSON requires escapes only below U+0020. But a terminal also interprets other control
    characters, such as U+009B, and marks that change the direction of text.
    """
    import json

    text = json.dumps(value, indent=indent, ensure_ascii=False)
    return "\n".join(
        line if line.isprintable() else "".join(map(_json_escape, line))
        for line in text.split("\n")
    )


def _json_escape(char: str) -> str:
    if char.isprintable():
        return char
    octets = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{octets[i : i + 2].hex()}" for i in range(0, len(octets), 2))


# Whether each line on standard error is a JSON object (--log json). This is not stored in click's
# context, because that context has ended when the error of a command is printed.
_JSON_LINES: ContextVar[bool] = ContextVar("json_lines", default=False)


def use_json_lines(enabled: bool) -> None:
    """Write the lines on standard error as JSON objects from now on, or as text."""
    _JSON_LINES.set(enabled)


def uses_json_lines() -> bool:
    """Whether the lines on standard error are JSON objects."""
    return _JSON_LINES.get()


def print_error(
    text: str, *, event: str = "command-failed", command: str = "amqp10msg", warning: bool = False
) -> None:
    """Print an error or a warning on standard error, as one line.

    Args:
        text: the error or warning.
        event: for ``--log json``, the name of the event; `text` is its field ``why``.
        command: the words before `text`, unless the line is JSON.
        warning: for ``--log json``, whether the level is ``warning`` instead of ``error``.
    """
    level = "warning" if warning else "error"
    print_event(f"{command}: {text}", event, level, why=text)


def print_event(text: str, event: str, level: str = "info", **fields: str) -> None:
    """Print a line on standard error: `text`, or with ``--log json`` the event and its fields."""
    if not uses_json_lines():
        click.echo(safe(text), err=True)
        return
    import logging

    from amqp10msg.net.serve import JsonFormatter

    record = logging.makeLogRecord({"levelname": level, "event": event, "fields": fields})
    click.echo(JsonFormatter().format(record), err=True)


def is_terminal(stream: Any) -> bool:
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):  # the stream is closed, or None
        return False


def use_color(color: bool | None, stream: Any = None) -> bool:
    """Return whether to colour the output to `stream`, by default standard output.

    If the option `color` is None, this depends on the terminal and the environment
    (https://no-color.org).
    """
    if color is not None:
        return color
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return is_terminal(stream or sys.stdout) and os.environ.get("TERM") != "dumb"


def console(colored: bool, width: int | None = None) -> Console:
    """Return a rich console for standard output.

    The console's width is `width`, or else the terminal's width, or COLUMNS. If all are unknown,
    lines are not wrapped.
    """
    from rich.console import Console

    if width is None and not is_terminal(sys.stdout) and not os.environ.get("COLUMNS"):
        width = _UNWRAPPED_WIDTH
    return Console(no_color=not colored, force_terminal=colored, highlight=False, width=width)


def table(*names: str) -> Table:
    """Return a rich table with the columns `names`, without borders, that wraps long text."""
    from rich import box
    from rich.table import Table

    columns = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 2, 0, 0))
    for name in names:
        columns.add_column(name, overflow="fold")
    return columns


def other_protocol_note(count: int, verb: str) -> str:
    """Return the note that messages of AMQP 0-9-1 were left out, and which command reads them.

    Args:
        count: the number of these messages.
        verb: what the command does with the other messages, such as ``checked``.
    """
    return (
        f"{plural(count, 'message')} of AMQP 0-9-1 not {verb}: amqp10msg translate --to 1.0 reads "
        f"{'it' if count == 1 else 'them'}"
    )


def without_message_name(source: str) -> str:
    """Return an item's source without the name of the message, for narrow screens."""
    return re.sub(_SOURCE_END, r"\1", source)


def progress(
    color: bool | None, *columns: ProgressColumn, redirect_stdout: bool = True
) -> Progress:
    """Return a progress bar on standard error, with `columns` between the bar and the time."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TimeElapsedColumn

    return Progress(
        BarColumn(),
        *columns,
        TimeElapsedColumn(),
        console=Console(stderr=True, no_color=not use_color(color, sys.stderr)),
        transient=True,
        redirect_stdout=redirect_stdout,
    )


@contextlib.contextmanager
def _interrupts_delayed() -> Iterator[None]:
    """Delay Ctrl-C until the end of the block, which then raises KeyboardInterrupt."""
    if not hasattr(signal, "pthread_sigmask"):  # on Windows
        yield
        return
    old_mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, old_mask)


@contextlib.contextmanager
def _running_bar(bar: Progress) -> Iterator[Progress]:
    """Show a progress bar during the block.

    Ctrl-C is delayed while the bar starts. If it interrupted the start, the bar's thread would keep
    running, the streams would stay redirected, and the command would end with a traceback.
    """
    try:
        with _interrupts_delayed():
            bar.start()
        yield bar
    finally:
        bar.stop()


@contextlib.contextmanager
def progress_counter(
    color: bool | None, unit: str, total: int = 1, name: str = ""
) -> Iterator[Callable[[int, int], None] | None]:
    """Show a progress bar on a terminal during the block.

    Args:
        color: whether to colour the bar; if None, see `use_color`.
        unit: what the bar counts, in the plural, such as messages.
        total: the number of units.
        name: a label before the numbers.

    Yields:
        A function to call with the number of completed units and the number of all units. None if
        standard error is not a terminal.
    """
    if not is_terminal(sys.stderr):
        yield None
        return
    from rich.progress import TextColumn

    text = f"{{task.completed:,.0f}} of {{task.total:,.0f}} {unit}"
    with _running_bar(progress(color, TextColumn(f"{name} {text}" if name else text))) as bar:
        task = bar.add_task("", total=total)

        def show(completed: int, total: int) -> None:
            bar.update(task, total=total, completed=completed)

        yield show


def check_report(report: Path | None, inputs: Callable[[], Iterable[Path]]) -> None:
    """Check that a report can be written and does not overwrite an input file.

    Raises:
        click.UsageError: the report's folder does not exist, or the report is an input file.
    """
    if report is None:
        return
    if not report.parent.is_dir():
        raise click.UsageError(f"--report: the folder {report.parent} does not exist")
    if report.is_file() and any(path.exists() and path.samefile(report) for path in inputs()):
        raise click.UsageError(
            f"--report: {report} is an input file and would be overwritten: choose another name"
        )


class DelayedBar:
    """A progress bar on a terminal that appears one second after the start of a run.

    `position` returns the number of bytes read so far, and the number of all bytes or None.
    """

    def __init__(
        self, position: Callable[[], tuple[int, int | None]], color: bool | None = None
    ) -> None:
        self._position = position
        self._color = color
        self._next = time.monotonic() + _BAR_DELAY if is_terminal(sys.stderr) else float("inf")
        self._bar: Any = None
        self._task: Any = None

    def step(self, messages: int) -> None:
        """Update the bar: `messages` is the number of messages read so far."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + 0.1
        position, total = self._position()
        if self._bar is None:
            from rich.progress import TextColumn

            self._bar = progress(
                self._color,
                TextColumn("{task.completed:,} of {task.total:,} bytes" if total else ""),
                TextColumn("{task.fields[messages]:,} messages"),
                # Keep the bar below the output if both are on the terminal.
                redirect_stdout=is_terminal(sys.stdout),
            )
            self._task = self._bar.add_task("", total=total, messages=messages)
            # Delay Ctrl-C for the reason in `_running_bar`. The caller must call `stop` at the end.
            with _interrupts_delayed():
                self._bar.start()
        self._bar.update(self._task, completed=position, messages=messages)

    def stop(self) -> None:
        """Remove the bar, and do not show it again."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
        self._next = float("inf")


class Sink:
    """Writes a command's result to standard output or to a file.

    The first `write` opens a temporary file. It replaces the file `output` at the end of the
    context manager if there was no error.

    Args:
        output: the file; None or ``-`` for standard output.
        color: whether to keep escape sequences in text; if None, only if it is printed on a
            terminal.
    """

    def __init__(self, output: Path | None, color: bool | None = None) -> None:
        self._path = None if output is None or str(output) == "-" else output
        self._color = color
        self._file: IO[bytes] | None = None
        self._open = contextlib.ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:  # noqa: PYI036  (passed to ExitStack)
        self._open.__exit__(*error)

    def write(self, data: str | bytes) -> None:
        """Write text that ends with a line break, or bytes.

        Raises:
            click.ClickException: standard output is closed, or is a terminal and `data` is bytes.
        """
        if self._path is not None:
            if self._file is None:
                from amqp10msg.atomic_files import replacing

                self._file = self._open.enter_context(replacing(self._path))
            if isinstance(data, str):
                data = data.encode("utf-8", "backslashreplace")
            self._file.write(data)
        elif sys.stdout is None:  # click would discard the data silently
            raise click.ClickException("standard output is closed: use --output FILE")
        elif isinstance(data, str):
            click.echo(data, nl=False, color=self._color)
        elif is_terminal(sys.stdout):
            raise click.ClickException(
                "the output is binary and is not written to a terminal: use --output FILE or a pipe"
            )
        else:
            click.echo(data, nl=False)
