"""Messages from what a command is given: files, directories, text, standard input.

What cannot be read is an `Item` too, so that one bad line does not hide the others.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import stat
import sys
from collections.abc import Iterator, Sequence
from typing import IO, TYPE_CHECKING, Any, Self

import attrs
import click

from amqp10msg.app.cli._output import Watch
from amqp10msg.app.inspector.reading import NOT_TEXT, InputReader, Item, buffered, octets_of_text
from amqp10msg.files.text import OddDigitsError, parse_json
from amqp10msg.wire.limits import DEFAULT_LIMITS, UNLIMITED

if TYPE_CHECKING:
    from pathlib import Path

#: Formats whose empty file is a file of no messages, and not a damaged one.
_OF_MANY = ("jsonl", "prefixed", "cborseq")
# Formats of bytes; on the command line they are written in hex or base64.
_OCTETS = ("raw", "prefixed", "cborseq", "pcap", "parquet", "avro", "cbor")
_RANGE = r"(?a)(\d+)(?:(-)(\d*))?"
_PLACE = re.compile(r"(?P<path>.+)(?P<kind>[:@])(?P<number>\d+)", re.ASCII | re.DOTALL)


@attrs.frozen
class Selection:
    """What ``--select`` takes: numbers and ranges of them, some without an end, as ``3,17-20``."""

    ranges: tuple[tuple[int, int | None], ...]

    @classmethod
    def of(cls, text: str) -> Selection:
        """Read the text."""
        ranges = []
        for part in text.split(","):
            found = re.fullmatch(_RANGE, part.strip())
            if found is None:
                raise ValueError(f"{part!r} is neither a number nor a range such as 17-20")
            first, dash, last = found.groups()
            begin = int(first)
            end = begin if not dash else int(last) if last else None
            if begin < 1 or (end is not None and end < begin):
                raise ValueError(
                    f"{part!r}: numbers begin with 1, and a range with the smaller one"
                )
            ranges.append((begin, end))
        return cls(tuple(ranges))

    def __contains__(self, number: int) -> bool:
        return any(begin <= number and (end is None or number <= end) for begin, end in self.ranges)

    @property
    def last(self) -> int | None:
        """The largest number that is selected, None where there is none."""
        ends = [end for _, end in self.ranges]
        return None if None in ends else max(end or 0 for end in ends)


@attrs.frozen
class _Source:
    """One thing to read: text, a file, or standard input where it is None.

    Of a file, maybe the one message with this number, or of this line, or at this offset.
    """

    name: str
    what: Path | str | None = None
    fault: str = ""
    number: int | None = None
    offset: int | None = None

    @property
    def is_place(self) -> bool:
        return self.number is not None or self.offset is not None


class Inputs:
    """The messages that the arguments of a command stand for, in their order.

    As a context it shows progress. Arguments are files, directories, ``FILE:NUMBER``,
    ``FILE@OFFSET``, ``-`` and what stands on the command line itself. The form ``written`` is JSON
    in the typed or plain notation.

    Attributes:
        total: bytes in all the files, or None where standard input or a pipe is among them.
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
        self._watch = Watch(lambda: (self.position, self.total), color)
        self._done = 0
        self._open: IO[bytes] | None = None
        self._sources: list[_Source] = []
        for argument in arguments:
            self._take(argument)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._watch.stop()

    @property
    def position(self) -> int:
        """How many bytes of `total` are read."""
        if self._open is not None and self.total is not None:
            return self._done + self._open.tell()
        return self._done

    @property
    def files(self) -> list[Path]:
        """The files that are read."""
        return [
            source.what
            for source in self._sources
            if source.what is not None and not isinstance(source.what, str)
        ]

    def _take(self, argument: str) -> None:
        """Add the sources that an argument stands for; files are not opened yet."""
        if argument == "-":
            self.total = None
            self._sources.append(_Source("standard input"))
            return
        kind = _kind_of(argument)
        place = None if kind else _PLACE.fullmatch(argument)
        if not kind and (place is None or _kind_of(place["path"]) != "file"):
            self._text(argument)
            return
        from pathlib import Path

        if kind == "folder":
            for file, fault in _files_below(Path(argument)):
                self._file(_Source(str(file), file, fault))
        elif kind == "file":
            self._file(_Source(argument, Path(argument)))
        elif place is not None:
            name, wanted = place["path"], int(place["number"])
            numbered, placed = (wanted, None) if place["kind"] == ":" else (None, wanted)
            self._file(_Source(name, Path(name), number=numbered, offset=placed))

    def _text(self, argument: str) -> None:
        """Add text; hex that the shell split at its spaces is joined to one text."""
        joins = not self._is_json(argument) and self.form in ("auto", "hex", "base64")
        if joins and self._sources:
            before = self._sources[-1].what
            if isinstance(before, str) and not self._is_json(before):
                self._sources[-1] = _Source("the arguments", f"{before}\n{argument}")
                return
        texts = sum(isinstance(source.what, str) for source in self._sources)
        self._sources.append(
            _Source(f"argument {texts + 1}" if texts else "the argument", argument)
        )

    def _is_json(self, text: str) -> bool:
        """Whether text begins as JSON, and not as a list of bytes such as ``[0, 83]``."""
        if not text.lstrip().startswith(("{", "[")):
            return False
        from amqp10msg.files.pasted import begins_list

        return self.form not in ("auto", "hex", "base64") or not begins_list(text)

    def _file(self, source: _Source) -> None:
        self._sources.append(source)
        path = source.what
        if self.total is not None and path is not None and not isinstance(path, str):
            with contextlib.suppress(OSError):  # opening it will say why
                self.total = self.total + path.stat().st_size if path.is_file() else None

    def some(self) -> Iterator[Item]:
        """Read the messages, of which there must be one at least."""
        taken, number = 0, 0
        last = self._select.last if self._select is not None else None
        for number, item in enumerate(self, 1):
            if self._select is None or number in self._select:
                taken += 1
                yield item
            self._watch.step(number)
            if number == last:
                break
        self._watch.stop()  # what is shown next is the result
        if not number:
            raise click.ClickException("there are no messages in what was given")
        if not taken:
            raise click.ClickException(f"--select: the input has {number:,} and none of these")

    def __iter__(self) -> Iterator[Item]:
        for source in self._sources:
            if source.fault:
                yield Item(source.name, fault=source.fault)
            elif isinstance(source.what, str):
                yield from self._argument(source.name, source.what)
            elif source.is_place:
                yield self._one(source)
            else:
                yield from self._guarded(source)

    def _one(self, source: _Source) -> Item:
        """Read the one message that a source names by its number or by its place."""
        seen = 0
        for item in self._guarded(source):
            seen += 1
            if source.number is not None and item.number == source.number:
                return item
            if source.offset is not None and item.offset == source.offset:
                return attrs.evolve(item, source=f"{source.name}@{source.offset}")
            if item.fault and item.number == 0:  # of the file, and not of a message in it
                return item
        if source.offset is not None:
            fault = f"no message begins at byte {source.offset:,}"
            return Item(f"{source.name}@{source.offset}", fault=fault)
        return Item(
            f"{source.name}:{source.number}", fault=f"there is none: the file has {seen:,} in all"
        )

    def _argument(self, name: str, text: str) -> Iterator[Item]:
        """Read messages that stand on the command line itself."""
        if not all(part.strip() for part in text.split("\n")):
            raise click.UsageError("an argument is empty")
        if self.form not in _OCTETS and (
            self._is_json(text) or (self.form in ("written", "typed", "plain") and _is_value(text))
        ):
            yield from self._guarded(_Source(name), text.encode("utf-8", "surrogateescape"))
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
                yield from self._guarded(_Source(source), octets)
            else:
                yield from self._reader.unwrapped(Item(source, octets))

    def _guarded(self, source: _Source, given: bytes | None = None) -> Iterator[Item]:
        """Read a file, bytes or standard input; what is wrong is a fault of this one alone."""
        from amqp10msg.files.containers import DamagedGzipError

        try:
            if given is not None:
                yield from self._read(io.BytesIO(given), source)
            elif source.what is not None and not isinstance(source.what, str):
                with source.what.open("rb") as file:
                    self._open = file
                    try:
                        yield from self._read(file, source)
                    finally:
                        self._done, self._open = self.position, None
            elif sys.stdin is None:
                raise ValueError("it is closed")
            else:
                standard = buffered(sys.stdin.buffer)
                try:
                    if not standard.peek(1) and self.form not in _OF_MANY:
                        raise ValueError("it is empty")
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
                yield attrs.evolve(item, fault=self._advised(item.fault)) if item.fault else item
        except ImportError as error:  # an extra that says itself how to install it
            raise click.ClickException(str(error)) from None
        except ValueError as error:
            raise ValueError(self._advised(str(error))) from None

    def _advised(self, fault: str) -> str:
        """Add the option that helps."""
        from amqp10msg.files.containers import too_large

        large = too_large(self.max_size)
        if fault == NOT_TEXT:
            return f"{fault}: use --format raw for the bytes of a message"
        return fault.replace(large, f"{large}: raise --max-size") if large in fault else fault


def _kind_of(name: str) -> str:
    """Return ``file``, ``folder``, or nothing where there is none of this name."""
    try:
        # As Path has it, which passes over a slash at the end.
        bare = name.rstrip(f"{os.sep}{os.altsep or ''}") or name
        found = os.stat(bare)  # noqa: PTH116  (pathlib takes long to import)
    except PermissionError:
        return "file"  # opening it will say so
    except (OSError, ValueError):  # there is none, or it is too long for a name, as hex may well be
        return ""
    return "folder" if stat.S_ISDIR(found.st_mode) else "file"


def _is_value(text: str) -> bool:
    """Return whether a text is JSON of another kind: a text, a number, a constant."""
    try:
        parse_json(text.encode("utf-8", "surrogateescape"))
    except ValueError:
        return False
    return True


def _nothing(text: str, reason: str) -> str:
    shown = text if len(text) <= 40 else f"{text[:40]}…"
    return f"no such file, and {reason}: '{shown}'"


def _blame(text: str, form: str | None, reason: str) -> str:
    """Return which of the joined arguments is wrong, and why."""
    for part in text.split("\n"):
        try:
            octets_of_text(part, form)
        except OddDigitsError:
            continue  # the next argument may have the other half of a byte
        except ValueError as error:
            return _nothing(part, str(error))
    return _nothing(text, reason)


def _files_below(folder: Path) -> Iterator[tuple[Path, str]]:
    """List the files in a folder and below, in order, and the folders that cannot be read.

    Hidden files and folders are left out, and links to folders are not followed.
    """
    from pathlib import Path

    refused: list[OSError] = []
    for place, folders, names in os.walk(folder, onerror=refused.append):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(place, name)
            if name.startswith("."):
                continue
            if path.is_file():
                yield path, ""
            elif path.is_symlink() and not path.exists():
                yield path, f"it is a link to {path.readlink()}, which does not exist"
    for error in refused:
        yield Path(error.filename), error.strerror or str(error)
