"""Read the messages of a command from files, directories, arguments or standard input.

Unreadable input becomes an `Item` with a fault, so that reading continues after one bad line.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import stat
import string
import sys
from collections.abc import Iterator, Sequence
from typing import IO, TYPE_CHECKING, Any, Self

import attrs
import click

from amqp10msg.app.cli._output import DelayedBar
from amqp10msg.app.inspector.reading import NOT_TEXT, InputReader, Item, buffered, messages_in_text
from amqp10msg.files.formats import FORMATS
from amqp10msg.files.text import OddDigitsError, parse_json
from amqp10msg.wire.limits import DEFAULT_LIMITS, UNLIMITED
from amqp10msg.wire.text import plural

if TYPE_CHECKING:
    from pathlib import Path

# Formats in which an empty file is valid and holds no messages.
_MAY_BE_EMPTY = {name for name, item in FORMATS.items() if item.may_be_empty}
# Binary formats. An argument on the command line has them in hex or base64.
_BINARY_FORMS = {"cbor", *(name for name, item in FORMATS.items() if not item.is_text)}
_RANGE_PATTERN = r"(?a)(\d+)(?:(-)(\d*))?"
# Matches FILE:NUMBER and FILE@OFFSET.
_FILE_POSITION = re.compile(r"(?P<path>.+)(?P<kind>[:@])(?P<number>\d+)", re.ASCII | re.DOTALL)

# Maximum number of characters of an argument that may be a misspelled file name.
_MAX_NAME = 40

#: The names of inputs that are not files.
STANDARD_INPUT, ARGUMENT, ARGUMENTS = "standard input", "the argument", "the arguments"


@attrs.frozen
class Selection:
    """The message numbers that ``--select`` selects, such as ``3,17-20,30-``."""

    ranges: tuple[tuple[int, int | None], ...]

    @classmethod
    def of(cls, text: str) -> Selection:
        """Parse a comma-separated list of numbers and ranges.

        Raises:
            ValueError: an entry is neither a number nor a range, a number is less than 1, or a
                range ends before its start.
        """
        ranges = []
        for part in text.split(","):
            match = re.fullmatch(_RANGE_PATTERN, part.strip())
            if match is None:
                raise ValueError(f"{part!r} is neither a number nor a range such as 17-20")
            first, dash, last = match.groups()
            begin = int(first)
            end = begin if not dash else int(last) if last else None
            if begin < 1 or (end is not None and end < begin):
                raise ValueError(f"{part!r}: numbers start at 1, and a range must not be reversed")
            ranges.append((begin, end))
        return cls(tuple(ranges))

    def __contains__(self, number: int) -> bool:
        return any(begin <= number and (end is None or number <= end) for begin, end in self.ranges)

    @property
    def last(self) -> int | None:
        """The largest selected number; None if a range is open-ended."""
        last_numbers = [end for _, end in self.ranges]
        return None if None in last_numbers else max(end or 0 for end in last_numbers)


@attrs.frozen
class _Source:
    """One input: its `content` is a file's path, an argument's text, or None for standard input.

    In a file, `number` (of a message or line) or `offset` may select a single message. `fault`
    explains why the input cannot be read.
    """

    name: str
    content: Path | str | None = None
    fault: str = ""
    number: int | None = None
    offset: int | None = None

    @property
    def is_single_message(self) -> bool:
        return self.number is not None or self.offset is not None


class Inputs:
    """Reads the messages that the arguments of a command specify, in order.

    Arguments are files, directories, ``FILE:NUMBER``, ``FILE@OFFSET``, ``-`` for standard input, or
    the messages themselves as text. The form ``written`` is JSON in the typed or plain notation.
    A progress bar appears during long runs; the context manager removes it at exit.

    Attributes:
        total: the number of bytes in all files; None if standard input or a pipe is an input.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        form: str = "auto",
        max_size: int | None = None,
        *,
        is_trusted: bool = False,
        select: Selection | None = None,
        basic: bool = False,
        color: bool | None = None,
    ) -> None:
        self.form = form
        limits = UNLIMITED if is_trusted else DEFAULT_LIMITS
        self._reader = InputReader(form, max_size, basic=basic, limits=limits)
        self.max_size = self._reader.max_size
        self.total: int | None = 0
        self._select = select
        self._bar = DelayedBar(lambda: (self.position, self.total), color)
        self._done = 0
        self._open: IO[bytes] | None = None
        self._sources: list[_Source] = []
        for argument in arguments:
            self._add_argument(argument)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    @property
    def position(self) -> int:
        """The number of bytes read so far in all files."""
        if self._open is not None and self.total is not None:
            return self._done + self._open.tell()
        return self._done

    @property
    def files(self) -> list[Path]:
        """The input files."""
        return [
            source.content
            for source in self._sources
            if source.content is not None and not isinstance(source.content, str)
        ]

    @property
    def has_only_texts(self) -> bool:
        """Whether the inputs are texts on the command line, without files and standard input."""
        return all(isinstance(source.content, str) for source in self._sources)

    def _add_argument(self, argument: str) -> None:
        """Add the inputs that an argument specifies, without opening files."""
        if argument == "-":
            self.total = None
            self._sources.append(_Source(STANDARD_INPUT))
            return
        kind = path_kind(argument)
        matched = None if kind else _FILE_POSITION.fullmatch(argument)
        if not kind and (matched is None or path_kind(matched["path"]) != "file"):
            self._add_text(argument)
            return
        from pathlib import Path

        if kind == "folder":
            for file, fault in _files_below(Path(argument)):
                self._add_file(_Source(str(file), file, fault))
        elif kind == "file":
            self._add_file(_Source(argument, Path(argument)))
        elif matched is not None:
            name, position = matched["path"], int(matched["number"])
            number, offset = (position, None) if matched["kind"] == ":" else (None, position)
            self._add_file(_Source(name, Path(name), number=number, offset=offset))

    def _add_text(self, argument: str) -> None:
        """Add the text of an argument; join hex that the shell has split at spaces."""
        joins = not self._is_json(argument) and self.form in ("auto", "hex", "base64")
        if joins and self._sources:
            previous = self._sources[-1].content
            if isinstance(previous, str) and not self._is_json(previous):
                self._sources[-1] = _Source(ARGUMENTS, f"{previous}\n{argument}")
                return
        texts = sum(isinstance(source.content, str) for source in self._sources)
        self._sources.append(_Source(f"argument {texts + 1}" if texts else ARGUMENT, argument))

    def _is_json(self, text: str) -> bool:
        """Return whether `text` looks like JSON but is not a list of bytes such as ``[0, 83]``."""
        if not text.lstrip().startswith(("{", "[")):
            return False
        from amqp10msg.files.pasted import begins_list

        return self.form not in ("auto", "hex", "base64") or not begins_list(text)

    def _add_file(self, source: _Source) -> None:
        self._sources.append(source)
        path = source.content
        if self.total is not None and path is not None and not isinstance(path, str):
            with contextlib.suppress(OSError):  # when the file is opened, the error is reported
                self.total = self.total + path.stat().st_size if path.is_file() else None

    def messages(self) -> Iterator[Item]:
        """Yield the messages that ``--select`` selects (default: all); update the progress bar.

        Raises:
            click.ClickException: the input has no messages, or --select does not match any.
        """
        selected, number = 0, 0
        last = self._select.last if self._select is not None else None
        for number, item in enumerate(self, 1):
            if self._select is None or number in self._select:
                selected += 1
                yield item
            self._bar.step(number)
            if number == last:
                break
        self._bar.stop()  # the caller now prints its result
        if not number:
            raise click.ClickException("the input contains no messages")
        if not selected:
            raise click.ClickException(f"--select matches no message: the input has {number:,}")

    def __iter__(self) -> Iterator[Item]:
        for source in self._sources:
            if source.fault:
                yield Item(source.name, fault=source.fault)
            elif isinstance(source.content, str):
                yield from self._read_argument(source.name, source.content)
            elif source.is_single_message:
                yield self._read_single(source)
            else:
                yield from self._read_source(source)

    def _read_single(self, source: _Source) -> Item:
        """Return the message that FILE:NUMBER or FILE@OFFSET selects."""
        count = 0
        for item in self._read_source(source):
            count += 1
            if source.number is not None and item.number == source.number:
                return item
            if source.offset is not None and item.offset == source.offset:
                return attrs.evolve(item, source=f"{source.name}@{source.offset}")
            if item.fault and item.number == 0:  # the whole file cannot be read
                return item
        if source.offset is not None:
            fault = f"no message begins at byte {source.offset:,}"
            return Item(f"{source.name}@{source.offset}", fault=fault)
        return Item(
            f"{source.name}:{source.number}", fault=f"no such message: the file has {count:,}"
        )

    def _read_argument(self, name: str, text: str) -> Iterator[Item]:
        """Yield the messages in the text of an argument."""
        if not all(part.strip() for part in text.split("\n")):
            raise click.UsageError("an argument is empty")
        if self.form not in _BINARY_FORMS and (
            self._is_json(text)
            or (self.form in ("written", "typed", "plain") and _is_json_value(text))
        ):
            yield from self._read_source(_Source(name), text.encode("utf-8", "surrogateescape"))
            return
        if self.form in ("jsonl", "written", "typed", "plain"):
            raise click.UsageError(_argument_error_text(text, "not JSON"))
        form = self.form if self.form in ("hex", "base64") else None
        try:
            messages = messages_in_text(text, form)
        except ValueError as error:
            raise click.UsageError(_explain_argument_error(text, form, str(error))) from None
        for number, octets in enumerate(messages, 1):
            source = name if len(messages) == 1 else f"message {number}"
            if self.form in _BINARY_FORMS:
                yield from self._read_source(_Source(source), octets)
            else:
                hint = "" if len(messages) > 1 else _missing_file_hint(text, octets)
                yield from self._reader.unwrapped(Item(source, octets, hint=hint))

    def _read_source(self, source: _Source, octets: bytes | None = None) -> Iterator[Item]:
        """Yield the messages of a source; from `octets`, or if None from its file or stdin.

        An error becomes an `Item` with a fault.
        """
        from amqp10msg.files.containers import DamagedGzipError

        try:
            if octets is not None:
                yield from self._read(io.BytesIO(octets), source)
            elif source.content is not None and not isinstance(source.content, str):
                with source.content.open("rb") as file:
                    self._open = file
                    try:
                        yield from self._read(file, source)
                    finally:
                        self._done, self._open = self.position, None
            elif sys.stdin is None:
                raise ValueError("the stream is closed")
            else:
                standard = buffered(sys.stdin.buffer)
                try:
                    if not standard.peek(1) and self.form not in _MAY_BE_EMPTY:
                        raise ValueError("the input is empty")
                    yield from self._read(standard, source)
                finally:
                    if standard is not sys.stdin.buffer:
                        standard.detach()
        except (ValueError, DamagedGzipError) as error:
            yield Item(source.name, fault=str(error), number=0)
        except OSError as error:
            yield Item(source.name, fault=error.strerror or str(error), number=0)

    def _read(self, stream: Any, source: _Source) -> Iterator[Item]:
        try:
            for item in self._reader.read(stream, source.name, source.offset or 0):
                yield (
                    attrs.evolve(item, fault=self._with_advice(item.fault)) if item.fault else item
                )
        except ImportError as error:  # the error text names the extra to install
            raise click.ClickException(str(error)) from None
        except ValueError as error:
            raise ValueError(self._with_advice(str(error))) from None

    def _with_advice(self, fault: str) -> str:
        """Return `fault`, with the command-line option that avoids it if there is one."""
        from amqp10msg.files.containers import too_large

        large = too_large(self.max_size)
        if fault == NOT_TEXT:
            return f"{fault}: use --format raw for the bytes of a message"
        return fault.replace(large, f"{large}: raise --max-size") if large in fault else fault


def path_kind(name: str) -> str:
    """Return ``file``, ``folder``, or an empty string if the path does not exist."""
    try:
        # Remove trailing slashes, as Path does.
        path = name.rstrip(f"{os.sep}{os.altsep or ''}") or name
        status = os.stat(path)  # noqa: PTH116  (pathlib is slow to import)
    except PermissionError:
        return "file"  # when the file is opened, the error is reported
    except (OSError, ValueError):  # not found, or a text (such as hex) that is too long for a path
        return ""
    return "folder" if stat.S_ISDIR(status.st_mode) else "file"


def _is_json_value(text: str) -> bool:
    """Return whether `text` is valid JSON, such as a number."""
    try:
        parse_json(text.encode("utf-8", "surrogateescape"))
    except ValueError:
        return False
    return True


def _argument_error_text(text: str, reason: str) -> str:
    """Return the error text for an argument that is neither an existing path nor a message."""
    excerpt = text if len(text) <= 40 else f"{text[:40]}…"
    return f"no such file, and {reason}: '{excerpt}'"


def _missing_file_hint(text: str, octets: bytes) -> str:
    """Return a hint for an argument of hex or base64 that may be a misspelled file name.

    Empty if the bytes begin like a message, or the text is too long for a name or consists of hex
    digits with spaces.
    """
    from amqp10msg.files.signatures import SECTION_START

    name = text.strip()
    is_hex = len(name.split()) > 1 and all(char in f"{string.hexdigits} \n\t" for char in name)
    if SECTION_START.match(octets) or len(name) > _MAX_NAME or is_hex:
        return ""
    size = plural(len(octets), "byte")
    return (
        f"{name!r} was read as {size} of hex, base64 or a string literal, because no such file "
        "exists"
    )


def _explain_argument_error(text: str, form: str | None, reason: str) -> str:
    """Return the error text for joined arguments that cannot be read.

    The error names the first argument that is invalid alone. If each is valid alone, it contains
    `reason`, the error for the joined arguments.

    Args:
        text: the arguments, one per line.
        form: ``hex``, ``base64``, or None for either.
        reason: the error for the joined arguments.
    """
    for part in text.split("\n"):
        try:
            messages_in_text(part, form)
        except OddDigitsError:
            continue  # the shell may have split the two digits of a byte
        except ValueError as error:
            return _argument_error_text(part, str(error))
    return _argument_error_text(text, reason)


def _files_below(folder: Path) -> Iterator[tuple[Path, str]]:
    """Yield (path, fault) for the files in a folder and its subfolders, sorted by name.

    The fault is empty for a file that can be read. Hidden files and folders are skipped, and links
    to folders are not followed. Unreadable folders come last, with the error as fault.
    """
    from pathlib import Path

    errors: list[OSError] = []
    for parent, folders, names in os.walk(folder, onerror=errors.append):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(parent, name)
            if name.startswith("."):
                continue
            if path.is_file():
                yield path, ""
            elif path.is_symlink() and not path.exists():
                yield path, f"it is a link to {path.readlink()}, which does not exist"
    for error in errors:
        yield Path(error.filename), error.strerror or str(error)
