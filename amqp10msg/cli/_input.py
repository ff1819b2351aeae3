"""Messages from what a command is given: files, directories, text, standard input.

Every notation ends as bytes, in an `Item` that knows where it came from. What cannot be read is an
`Item` too, so that one bad line does not hide the others. Streams are read a message at a time
where their format has lines or lengths.
"""

from __future__ import annotations

import codecs
import contextlib
import functools
import io
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import attrs
import click
from click.shell_completion import CompletionItem

from amqp10msg import notation
from amqp10msg._core import encode_value
from amqp10msg.cli._output import is_terminal, safe
from amqp10msg.cli._text import octets_of_text
from amqp10msg.errors import AmqpError
from amqp10msg.files import MAX_SIZE
from amqp10msg.files.containers import (
    RECORD_KEYS,
    octets_of_record,
    read_lines,
    read_prefixed,
    too_large,
)
from amqp10msg.files.streams import DamagedGzipError, unpacked
from amqp10msg.files.text import parse_json
from amqp10msg.message import Message

#: What --format and --from take.
FORMATS = ("auto", "raw", "hex", "base64", "jsonl", "prefixed", "typed", "plain", "cbor")
# Formats of bytes; on the command line they are written in hex or base64.
_OCTETS = ("raw", "prefixed", "cbor")


@attrs.frozen
class Item:
    """One message, or what kept it from being read.

    Attributes:
        source: where it came from: a file's name, with a line's number where it has lines.
        data: its bytes.
        fault: why there are none; empty where all is well.
    """

    source: str
    data: bytes = b""
    fault: str = ""

    def octets(self) -> bytes:
        """Return the bytes, or end the command with the fault."""
        if self.fault:
            raise click.ClickException(f"{self.source}: {self.fault}")
        return self.data


def complain(item: Item, fault: str) -> None:
    """Say on standard error why an item cannot be handled."""
    click.echo(safe(f"amqp10msg: {item.source}: {fault}"), err=True)


class Inputs:
    """The messages that the arguments of a command stand for, in their order.

    Args:
        arguments: files, directories, ``-`` and what stands on the command line itself.
        form: one of `FORMATS`, or ``written``: JSON in the typed or plain notation.
        max_size: bytes that one message may take in its input.

    Attributes:
        total: bytes in all the files, or None where standard input or a pipe is among them.
    """

    def __init__(self, arguments: Sequence[str], form: str, max_size: int) -> None:
        self.form = form
        self.max_size = min(max_size, sys.maxsize - 1)
        self.total: int | None = 0
        self._done = 0
        self._open: IO[bytes] | None = None
        self._sources: list[tuple[str, Path | str | None, str]] = []
        for argument in arguments:
            self._take(argument)

    @property
    def position(self) -> int:
        """How many bytes of `total` are read."""
        if self._open is not None and self.total is not None:
            return self._done + self._open.tell()
        return self._done

    def _take(self, argument: str) -> None:
        """Add the sources that an argument stands for; files are not opened yet."""
        if argument == "-":
            self.total = None
            self._sources.append(("standard input", None, ""))
            return
        path = Path(argument)
        try:
            is_there = argument != "" and path.exists()
            is_folder = is_there and path.is_dir()
        except PermissionError:
            is_there, is_folder = True, False  # opening it will say so
        except OSError:  # too long for a name, as hex may well be
            is_there = is_folder = False
        if is_folder:
            for file, fault in _files_below(path):
                self._file(file, fault)
        elif is_there:
            self._file(path)
        else:
            self._text(argument)

    def _text(self, argument: str) -> None:
        """Add text; hex that the shell split at its spaces is joined to one text."""
        joins = not _is_json(argument) and self.form in ("auto", "hex", "base64")
        if joins and self._sources:
            _, before, _ = self._sources[-1]
            if isinstance(before, str) and not _is_json(before):
                self._sources[-1] = ("the arguments", f"{before}\n{argument}", "")
                return
        texts = sum(isinstance(source, str) for _, source, _ in self._sources)
        self._sources.append((f"argument {texts + 1}" if texts else "the argument", argument, ""))

    def _file(self, path: Path, fault: str = "") -> None:
        self._sources.append((str(path), path, fault))
        if self.total is not None:
            with contextlib.suppress(OSError):  # opening it will say why
                self.total = self.total + path.stat().st_size if path.is_file() else None

    def some(self) -> Iterator[Item]:
        """Read the messages, of which there must be one at least.

        Raises:
            click.ClickException: there are none.
        """
        none = True
        for item in self:
            none = False
            yield item
        if none:
            raise click.ClickException("there are no messages in what was given")

    def __iter__(self) -> Iterator[Item]:
        for name, source, fault in self._sources:
            if fault:
                yield Item(name, fault=fault)
            elif isinstance(source, str):
                yield from self._argument(name, source)
            else:
                yield from self._guarded(name, source)

    def _argument(self, name: str, text: str) -> Iterator[Item]:
        """Read messages that stand on the command line itself."""
        if not all(part.strip() for part in text.split("\n")):
            raise click.UsageError("an argument is empty")
        if _is_json(text) and self.form not in _OCTETS:
            yield from self._guarded(name, text.encode("utf-8", "surrogateescape"))
            return
        if self.form in ("jsonl", "written", "typed", "plain"):
            raise click.UsageError(_nothing(text, "not JSON"))
        form = self.form if self.form in ("hex", "base64") else None
        try:
            found = octets_of_text(text, form)
        except ValueError as error:
            raise click.UsageError(_blame(text, form, str(error))) from None
        for number, octets in enumerate(found, 1):
            source = name if len(found) == 1 else f"message {number}"
            if self.form in _OCTETS:
                yield from self._guarded(source, octets)
            else:
                yield Item(source, octets)

    def _guarded(self, name: str, path: Path | bytes | None) -> Iterator[Item]:
        """Read a file, bytes or standard input; what is wrong is a fault of this one alone."""
        try:
            if isinstance(path, bytes):
                yield from self._read(io.BytesIO(path), name)
                return
            if path is None:
                if sys.stdin is None:
                    raise ValueError("it is closed")
                standard = _buffered(sys.stdin.buffer)
                try:
                    if not standard.peek(1):
                        raise ValueError("it is empty")
                    yield from self._read(standard, name)
                finally:
                    if standard is not sys.stdin.buffer:
                        standard.detach()
                return
            with path.open("rb") as file:
                self._open = file
                try:
                    yield from self._read(file, name)
                finally:
                    self._done, self._open = self.position, None
        except (ValueError, DamagedGzipError) as error:
            yield Item(name, fault=str(error))
        except OSError as error:
            yield Item(name, fault=error.strerror or str(error))

    def _read(self, stream: Any, name: str) -> Iterator[Item]:
        stream = _buffered(stream)
        form = self.form
        if form != "raw":
            stream = unpacked(stream)
        if form == "auto":
            form = _sniff(stream.peek(4096)[:4096])
        match form:
            case "jsonl" | "json" | "written" | "typed" | "plain":
                yield from self._json(stream, name, form)
            case "prefixed":
                records = read_prefixed(stream, max_size=self.max_size)
                for number, record in enumerate(records, 1):
                    if record.fault:
                        raise ValueError(f"message {number}: {self._advised(record.fault)}")
                    yield Item(f"{name}:{number}", record.wire or b"")
            case "text" | "hex" | "base64":
                try:
                    text = self._all(stream).decode("utf-8-sig")
                except UnicodeDecodeError:
                    said = "this is not text: use --format raw for the bytes of a message"
                    raise ValueError(said) from None
                found = octets_of_text(text, None if form == "text" else form)
                if not found:
                    raise ValueError("it holds no message")
                for index, octets in enumerate(found, 1):
                    yield Item(name if len(found) == 1 else f"{name}:{index}", octets)
            case "cbor":
                yield _item(name, form, self._all(stream))
            case _:
                yield Item(name, self._all(stream))

    def _all(self, stream: IO[bytes]) -> bytes:
        octets = stream.read(self.max_size + 1)
        if len(octets) > self.max_size:
            raise ValueError(self._advised(too_large(self.max_size)))
        return octets

    def _advised(self, fault: str) -> str:
        return f"{fault}: raise --max-size" if fault == too_large(self.max_size) else fault

    def _json(self, stream: Any, name: str, form: str, before: int = 0) -> Iterator[Item]:
        """Read JSON, a document a line or one document over many lines.

        Args:
            stream: at the beginning of a line.
            name: of the file.
            form: one of `FORMATS`, or ``json``.
            before: how many lines were read before.
        """
        only = not before
        lines = read_lines(stream, self.max_size)
        for number, (_, line, fault) in enumerate(lines, before + 1):
            if fault:  # what follows may have no end
                raise ValueError(f"line {number}: {self._advised(fault)}")
            if not line.strip():
                continue
            more = not only or bool(stream.peek(1))
            source = f"{name}:{number}" if more else name
            try:
                yield _item_of_document(source, form, parse_json(line))
            except ValueError as error:
                if not (only and more and form != "jsonl"):
                    yield Item(source, fault=str(error))
                    continue
                rest = self._all(stream)
                try:
                    yield _item_of_document(name, form, parse_json(line + rest))
                except ValueError:
                    if not _has_lines(rest):
                        raise
                    yield Item(source, fault=str(error))
                    yield from self._json(_buffered(io.BytesIO(rest)), name, form, number)
            only = False


def _is_json(text: str) -> bool:
    return text.lstrip().startswith(("{", "["))


def _nothing(text: str, reason: str) -> str:
    shown = text if len(text) <= 40 else f"{text[:40]}…"
    return f"no such file, and {reason}: '{shown}'"


def _blame(text: str, form: str | None, reason: str) -> str:
    """Return which of the joined arguments is wrong, and why."""
    for part in text.split("\n"):
        try:
            octets_of_text(part, form)
        except ValueError as error:
            # Half a byte is not a fault of an argument that another one follows.
            if "half a byte" not in str(error):
                return _nothing(part, str(error))
    return _nothing(text, reason)


def _files_below(folder: Path) -> Iterator[tuple[Path, str]]:
    """List the files in a folder and below, in order, and the folders that cannot be read.

    Hidden files and folders are left out, and links to folders are not followed.
    """
    refused: list[OSError] = []
    for place, folders, files in os.walk(folder, onerror=refused.append):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            path = Path(place, name)
            if not name.startswith(".") and path.is_file():
                yield path, ""
    for error in refused:
        yield Path(error.filename), error.strerror or str(error)


def _buffered(stream: Any) -> Any:
    return stream if hasattr(stream, "peek") else io.BufferedReader(stream)


def _sniff(head: bytes) -> str:
    """Return the format of a file, guessed from its beginning.

    Every message begins with the byte 00, which text never does.
    """
    if not head or head[0] == 0:
        return "raw"
    try:
        text = codecs.getincrementaldecoder("utf-8-sig")().decode(head)
    except UnicodeDecodeError:
        return "raw"
    if any(char < " " and char not in "\t\n\r\f\v" for char in text):
        return "raw"
    return "json" if text.lstrip()[:1] in ("{", "[") else "text"


def _has_lines(octets: bytes) -> bool:
    """Return whether a line after a bad first one is a document, so that this is JSON lines."""
    for line in octets.splitlines()[:10]:
        with contextlib.suppress(ValueError):
            if isinstance(parse_json(line), (dict, list)):
                return True
    return False


def _item_of_document(name: str, form: str, document: Any) -> Item:
    if form in ("jsonl", "json") and isinstance(document, dict):
        label = document.get("id", document.get("name"))
        if isinstance(label, str) and label:
            name = f"{name} ({label})"
        try:
            octets = octets_of_record(document)
        except ValueError as error:
            return Item(name, fault=str(error))
        if octets is not None:
            return Item(name, octets)
    if form == "jsonl":
        return Item(name, fault=f"no object with one of the keys {', '.join(RECORD_KEYS)}")
    if form in ("json", "written"):
        form = "typed" if isinstance(document, list) else "plain"
    return _item(name, form, document)


def _item(name: str, form: str, document: Any) -> Item:
    """Encode what a notation says: a message, or a value."""
    made: Any
    try:
        match form:
            case "typed":
                made = notation.from_typed(document)
            case "plain":
                is_value = not isinstance(document, dict) or any(key[:1] == "$" for key in document)
                made = (notation.value_from_plain if is_value else notation.from_plain)(document)
            case _:
                made = notation.from_cbor(document)
        return Item(name, made.encode() if isinstance(made, Message) else encode_value(made))
    except ImportError as error:  # an extra that says itself how to install it
        raise click.ClickException(str(error)) from None
    except (AmqpError, ValueError) as error:
        return Item(name, fault=str(error))


def _or_stdin(
    context: click.Context, _: click.Parameter, value: tuple[str, ...]
) -> tuple[str, ...]:
    if value or context.resilient_parsing:
        return value
    if is_terminal(sys.stdin):
        raise click.UsageError("no messages are given: name files or hex, or pipe them in")
    return ("-",)


def _completions(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Let the shell complete names of files, which most sources are."""
    return [CompletionItem(incomplete, type="file")]


sources_argument = click.argument(
    "sources", nargs=-1, callback=_or_stdin, shell_complete=_completions
)

_format_option = click.option(
    "-f",
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default="auto",
    show_default=True,
    help="The format of the input, where it should not be guessed.",
)

max_size_option = click.option(
    "--max-size",
    type=click.IntRange(min=1),
    default=MAX_SIZE,
    show_default="256 MiB",
    metavar="BYTES",
    help="The most that one message may take in its input.",
)


def messages_argument(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add SOURCES, --format and --max-size to a command, which gets them as `inputs`."""

    @sources_argument
    @_format_option
    @max_size_option
    @functools.wraps(command)
    def run(sources: tuple[str, ...], form: str, max_size: int, **others: Any) -> Any:
        return command(inputs=Inputs(sources, form, max_size), **others)

    return run
