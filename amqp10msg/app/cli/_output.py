"""Output of the commands: colour, terminal width, progress, text that is safe to print."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import IO, TYPE_CHECKING, Any, Self

import click

from amqp10msg.wire.text import printable

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console
    from rich.progress import Progress, ProgressColumn
    from rich.table import Table

SEVERITY_COLORS = {"error": "red", "warning": "yellow"}
# Off a terminal lines are as long as they are: what reads them cuts by itself.
_ENDLESS = 100_000
# What is done sooner needs no bar, in s.
_PATIENCE = 1.0


def safe(text: str) -> str:
    """Escape what a terminal would act on or break the line at, and what no encoding can hold."""
    return printable(re.sub(_BYTES, lambda found: f"\\x{ord(found[0]) & 0xFF:02x}", text))


# In a file's name, bytes that are not text.
_BYTES = "[\udc80-\udcff]"
# A place in a file with the name of the case there.
_NAMED = r"(?s)([:@]\d+) \(.*\)$"


def json_text(value: Any, *, indent: int | None = None) -> str:
    """Write JSON whose strings have escapes for all characters that cannot be shown.

    JSON itself only requires them for the characters before U+0020. A terminal also acts on later
    ones, such as U+009B, and on marks that turn the direction of text.
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
    return "".join(f"\\u{octets[at : at + 2].hex()}" for at in range(0, len(octets), 2))


def complain(text: str) -> None:
    """Print one line on standard error."""
    click.echo(safe(f"amqp10msg: {text}"), err=True)


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
    """Return a console for standard output.

    By default it is as wide as the terminal or as COLUMNS says, else without end.
    """
    from rich.console import Console

    if width is None and not is_terminal(sys.stdout) and not os.environ.get("COLUMNS"):
        width = _ENDLESS
    return Console(no_color=not colored, force_terminal=colored, highlight=False, width=width)


def table(*names: str) -> Table:
    """Return a table without borders, its columns folded where they are too wide."""
    from rich import box
    from rich.table import Table

    made = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 2, 0, 0))
    for name in names:
        made.add_column(name, overflow="fold")
    return made


def without_name(source: str) -> str:
    """Return a place without the name of the case there, which a narrow screen has no room for."""
    return re.sub(_NAMED, r"\1", source)


def progress(
    color: bool | None, *columns: ProgressColumn, redirect_stdout: bool = True
) -> Progress:
    """Return a progress bar on standard error, with columns between the bar and the time."""
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
def _interrupts_held() -> Iterator[None]:
    """Delay Ctrl-C until the block ends; the block then raises KeyboardInterrupt at its end."""
    if not hasattr(signal, "pthread_sigmask"):  # on Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _started(bar: Progress) -> Iterator[Progress]:
    """Show a bar during the block.

    Ctrl-C waits while the bar starts. A half-started bar would leave its thread and the redirected
    streams behind, and end the command with a traceback.
    """
    try:
        with _interrupts_held():
            bar.start()
        yield bar
    finally:
        bar.stop()


@contextlib.contextmanager
def counting(
    color: bool | None, unit: str, total: int = 1, name: str = ""
) -> Iterator[Callable[[int, int], None] | None]:
    """Show a bar on a terminal, with a name and what is counted beside the number.

    Yields:
        What to call with how many are done and how many there are; None where there is no terminal.
    """
    if not is_terminal(sys.stderr):
        yield None
        return
    from rich.progress import TextColumn

    text = f"{{task.completed:,.0f}} of {{task.total:,.0f}} {unit}"
    with _started(progress(color, TextColumn(f"{name} {text}" if name else text))) as bar:
        task = bar.add_task("", total=total)

        def show(completed: int, total: int) -> None:
            bar.update(task, total=total, completed=completed)

        yield show


def check_report(report: Path | None, inputs: Callable[[], Iterable[Path]]) -> None:
    """Refuse a report that has no folder, or that would replace one of the files to be read.

    Raises:
        click.UsageError: it is so.
    """
    if report is None:
        return
    if not report.parent.is_dir():
        raise click.UsageError(f"--report: there is no folder {report.parent}")
    if report.is_file() and any(path.exists() and path.samefile(report) for path in inputs()):
        raise click.UsageError(
            f"--report: {report} is one of the files to be read, and would be lost: name another"
        )


class Watch:
    """A bar that shows how far a run is, once it takes longer than a second, on a terminal.

    The position is how many bytes are read, and of how many, None where that is not known.
    """

    def __init__(
        self, position: Callable[[], tuple[int, int | None]], color: bool | None = None
    ) -> None:
        self._position = position
        self._color = color
        self._next = time.monotonic() + _PATIENCE if is_terminal(sys.stderr) else float("inf")
        self._bar: Any = None
        self._task: Any = None

    def step(self, messages: int) -> None:
        """Show how many messages are done."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + 0.1
        done, total = self._position()
        if self._bar is None:
            from rich.progress import TextColumn

            self._bar = progress(
                self._color,
                TextColumn("{task.completed:,} of {task.total:,} bytes" if total else ""),
                TextColumn("{task.fields[messages]:,} messages"),
                # Lines that scroll by on the same terminal go above the bar.
                redirect_stdout=is_terminal(sys.stdout),
            )
            self._task = self._bar.add_task("", total=total, messages=messages)
            with _interrupts_held():  # as in `_started`; the caller calls `stop`
                self._bar.start()
        self._bar.update(self._task, completed=done, messages=messages)

    def stop(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
        self._next = float("inf")


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
                from amqp10msg.atomic_files import replacing

                self._file = self._open.enter_context(replacing(self._path))
            if isinstance(data, str):
                data = data.encode("utf-8", "backslashreplace")
            self._file.write(data)
        elif sys.stdout is None:  # click would write nothing, and nobody would know
            raise click.ClickException("standard output is closed: give --output FILE")
        elif isinstance(data, str):
            click.echo(data, nl=False, color=self._color)
        elif is_terminal(sys.stdout):
            raise click.ClickException(
                "this is binary, not for a terminal: give --output FILE, or pipe it"
            )
        else:
            click.echo(data, nl=False)
