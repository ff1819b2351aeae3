"""Input files: which there are, their parts, and reading them; options of that by name.

Whole jobs have the workers open their input: what is distributed are the parts, not the messages.
"""

from __future__ import annotations

import datetime
import errno
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from operator import attrgetter
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa

from amqp10msg import files
from amqp10msg.delivery.filters import Selector
from amqp10msg.files import Record, recognition, stores
from amqp10msg.files.recognition import decode_whole
from amqp10msg.files.stores import State, UnknownStoreError
from amqp10msg.jobs import parquet
from amqp10msg.jobs.manifest import listed_below
from amqp10msg.jobs.parquet import PARQUET, Rows, SchemasError
from amqp10msg.sections import moment_of
from amqp10msg.wire.errors import DecodeError
from amqp10msg.wire.limits import DEFAULT_LIMITS, Limits
from amqp10msg.wire.reprs import readable

#: The columns of messages from files; see `amqp10msg.files.Record`.
MESSAGES = pa.schema(
    [
        ("source", pa.string()),
        ("offset", pa.int64()),
        ("time", pa.timestamp("us", "UTC")),
        ("protocol", pa.string()),
        ("connection", pa.string()),
        ("address", pa.string()),
        ("delivery_tag", pa.binary()),
        ("message_format", pa.int64()),
        ("wire", pa.binary()),
        ("content_header", pa.binary()),
        ("payload", pa.binary()),
        ("exchange", pa.string()),
        ("routing_key", pa.string()),
        ("redelivered", pa.bool_()),
        ("fault", pa.string()),
    ]
)
# A record has what is between the source and the fault under the same names.
_OF_RECORD = attrgetter(*MESSAGES.names[1:-1])
# A batch ends with the first of these.
_BATCH_ROWS = 8_192
_BATCH_OCTETS = 16 << 20
#: In a fault: the file is damaged there, and messages after that place are missing.
REST_UNREAD = "what follows is not read"
#: In a fault: the file is damaged there, and messages may be missing, but reading went on.
SKIPPED = "messages may be missing here"
_PROTOCOLS = ("1.0", "0-9-1")
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
#: Bytes of a part of a file of messages.
RANGE_OCTETS = 128 << 20
# Bytes of a part of Parquet, as they are in memory: a task of a second or less.
_PART_OCTETS = 64 << 20


class OnlySparkError(ValueError):
    """Input that Spark alone can read."""


def files_of(source: str) -> list[str]:
    """List files: those below folders, without hidden and unfinished ones, in order.

    Of a folder of a store that a job has made, those that the job lists.

    Raises:
        OnlySparkError: it is a URL of a file system of Spark.
    """
    try:
        listed = listed_below(source)
        return stores.files_of(source) if listed is None else listed
    except UnknownStoreError as error:
        said = f"{error}: only Spark reads other file systems than this machine's"
        raise OnlySparkError(f"{source}: {said}") from None


def is_parquet(source: str) -> bool:
    """Return whether a file is, or a folder holds, Parquet."""
    if source.endswith(".parquet"):
        return True
    if stores.is_url(source):
        return any(stores.name_of(path).suffix == ".parquet" for path in files_of(source))
    given = source.removeprefix("file://")
    path = Path(given)
    if path.is_file():
        with path.open("rb") as file:
            return file.read(len(recognition.PARQUET)) == recognition.PARQUET
    is_folder = path.is_dir()
    return any(
        part.endswith(".parquet")
        for one in map(Path, stores.found_files(given))
        for part in (one.relative_to(path) if is_folder else one).parts
    )


#: What one task reads.
Part = tuple[files.Range, ...]
# What opening a file costs, in bytes that could be read in the meantime.
_OPENING = 64 << 10


def packed(ranges: Iterable[tuple[files.Range, int]], most: int) -> list[Part]:
    """Put ranges, given with their sizes, together to parts that have up to `most` bytes.

    Their order stays, and a larger range is a part of its own.
    """
    parts: list[Part] = []
    held: list[files.Range] = []
    room = most
    for found, octets in ranges:
        cost = octets + _OPENING
        if held and cost > room:
            parts.append(tuple(held))
            held, room = [], most
        held.append(found)
        room -= cost
    if held:
        parts.append(tuple(held))
    return parts


def ranges_of(
    states: Mapping[str, State], form: str | None, octets: int
) -> Iterator[tuple[files.Range, int]]:
    """Divide files of messages into ranges of this many bytes; yield each with its size.

    A file that is not of its form is a range, too: reading it gives a row that says so.
    """

    def look(path: str) -> list[files.Range]:
        return files.ranges(path, form, octets=octets, keep_unusable=True)

    for state, ranges in zip(states.values(), stores.of_each(look, [*states]), strict=True):
        for found in ranges:
            # What is open is one file to its end; of a store, each request finds what is there.
            at_once = not stores.is_url(found.path) or state.size <= stores.AT_ONCE
            size = min(found.stop, state.size) - found.start
            if len(ranges) > 1 or not at_once:
                yield attrs.evolve(found, identity=state.identity, size=state.size), size
            else:
                yield found, size


@attrs.frozen
class Input:
    """Input of a job that any process can open.

    Its parts, of several ranges where files are small, can be read side by side.
    """

    names: list[str]
    parts: list[Part]
    octets: int
    rows: Rows | None = None


def input_of(
    source: str, form: str | None, size_of_part: Callable[[int], int] | None = None
) -> Input:
    """Find the input of a job.

    `size_of_part` gives how many bytes a part should have, for as many as there are in all; where
    None it is as is best for Spark.

    Raises:
        OnlySparkError: it is not for one machine, or its columns differ in type.
        FileNotFoundError: there is no such file.
        ValueError: a file is not of its form, or the form cannot be recognised.
        OSError: a file cannot be read; of Parquet, none is whole.
    """
    wants_parquet = form == PARQUET or (form is None and is_parquet(source))
    paths = files_of(source)
    if not paths:
        said = "there is no such file, or the folder is empty"
        raise FileNotFoundError(errno.ENOENT, said, source)
    states = stores.states_of(paths)
    octets = sum(state.size for state in states.values())
    size = RANGE_OCTETS if size_of_part is None else size_of_part(octets)
    if not wants_parquet:
        return Input(MESSAGES.names, packed(ranges_of(states, form, size), size), octets)
    most, folder = min(size, _PART_OCTETS), stores.folder_of(source)
    try:
        rows, found = parquet.table_of(paths, folder, most)
    except SchemasError as error:
        raise OnlySparkError(f"{error}: only Spark reads them") from None
    ranges = ((_of_parquet(one, states[one.path]), size) for one, size in found)
    return Input(list(rows.schema.names), packed(ranges, most), octets, rows)


def _of_parquet(found: files.Range, state: State) -> files.Range:
    """Return a range with what tells its file, which does not grow, from others."""
    changed = 0 if stores.is_url(found.path) else state.changed
    return attrs.evolve(found, identity=state.identity, size=state.size, changed=changed)


#: Files whose columns are looked at before a job begins, at most.
_LOOKED_AT = 100


def columns_of(source: str, form: str | None) -> list[str] | None:
    """Return the columns of the input of a job, to refuse one that cannot be done before it begins.

    None where only Spark, or the job itself, can tell.
    """
    try:
        if form != PARQUET and not (form is None and is_parquet(source)):
            return list(MESSAGES.names)
        paths = files_of(source)
        if not 0 < len(paths) <= _LOOKED_AT:
            return None
        rows, _ = parquet.table_of(paths, stores.folder_of(source), _PART_OCTETS)
    except (OnlySparkError, SchemasError, OSError, ValueError):
        return None
    return list(rows.schema.names)


@attrs.frozen
class Filters:
    """Which records of a file become rows; what could not be read always does.

    The times are in microseconds since the Unix epoch; None stands for all.
    """

    protocol: str | None = None
    address: str | None = None
    since: int | None = None
    until: int | None = None
    selector: Selector | None = None

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Filters:
        """Read the options of a data source."""
        protocol, selector = options.get("protocol"), options.get("selector")
        if protocol not in {None, *_PROTOCOLS}:
            raise ValueError(f"{protocol!r} is not a protocol: use {' or '.join(_PROTOCOLS)}")
        return cls(
            protocol,
            options.get("address"),
            _time(options, "since"),
            _time(options, "until"),
            None if selector is None else Selector(selector),
        )

    def admits(self, record: Record) -> bool:
        """Return whether a record is selected."""
        if record.fault:
            return True
        if self.protocol not in {None, record.protocol}:
            return False
        if self.address not in {None, record.address}:
            return False
        if self.since is not None and (record.time is None or record.time < self.since):
            return False
        if self.until is not None and (record.time is None or record.time >= self.until):
            return False
        if self.selector is None or record.wire is None:
            return True
        try:
            return self.selector.matches(decode_whole(record.wire))
        except DecodeError:
            return True  # it cannot be read, and is reported later


def _time(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name)
    if text is None:
        return None
    try:
        return (moment_of(text) - _EPOCH) // datetime.timedelta(microseconds=1)
    except ValueError:
        raise ValueError(
            f"{name} is {text!r}, and must be a time of ISO 8601, such as 2026-01-31T12:00:00Z"
        ) from None


@attrs.frozen
class Reading:
    """How parts are read: of Parquet, as rows of these columns."""

    max_size: int
    filters: Filters
    limits: Limits = DEFAULT_LIMITS
    rows: Rows | None = None

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Reading:
        """Read the options of a data source."""
        most = DEFAULT_LIMITS
        return cls(
            number_of(options, "maxSize", files.MAX_SIZE, "bytes"),
            Filters.of(options),
            Limits(
                expansion=number_of(options, "expansion", most.expansion, "times"),
                zero_width=number_of(options, "zeroWidth", most.zero_width, "records"),
            ),
        )

    def batches(
        self, part: Part, guard: Callable[[Part], AbstractContextManager[Any]] = nullcontext
    ) -> Iterator[pa.RecordBatch]:
        """Read a part: rows of `MESSAGES`, or of `rows` where it is Parquet.

        Each range is read within `guard`, to name the file that could not be read.

        Raises:
            ReplacedError: a file was replaced after it was divided; rows of both were given.
        """
        for one in part:
            with guard((one,)):
                is_free = not one.identity and not stores.is_url(one.path)
                before = stores.state_of(one.path) if is_free else None
                if self.rows is None:
                    yield from self._range(one)
                else:
                    yield from parquet.batches(one, self.rows, self.limits)
                if one.identity:
                    # Of a file that was replaced, parts of both would be in the output.
                    stores.check_same(one.path, one.identity, one.size, one.changed)
                elif before is not None:
                    stores.check_whole(one.path, before)

    def _range(self, part: files.Range) -> Iterator[pa.RecordBatch]:
        rows: list[tuple[Any, ...]] = []
        octets = 0
        source = readable(part.path)
        records = self._records(part)
        if self.filters != Filters():
            records = filter(self.filters.admits, records)
        for record in records:
            rows.append((source, *_OF_RECORD(record), _fault_of(record)))
            octets += len(record.wire or b"") + len(record.payload or b"")
            if len(rows) >= _BATCH_ROWS or octets >= _BATCH_OCTETS:
                yield _batch(rows)
                rows, octets = [], 0
        if rows:
            yield _batch(rows)

    def _records(self, part: files.Range) -> Iterator[Record]:
        """Read a range; a file of which nothing (more) can be read ends with a fault."""
        try:
            yield from files.read(
                part.path,
                part.form or None,
                start=part.start,
                stop=part.stop,
                max_size=self.max_size,
                limits=self.limits,
            )
        except files.UnusableFileError as error:
            fault = str(error).removeprefix(f"{part.path}: ")
            yield Record(part.start, fault=fault, ends=True)


def _fault_of(record: Record) -> str | None:
    """Return the fault, with the words by which a job knows that messages are missing."""
    words = REST_UNREAD if record.ends else SKIPPED if record.skips else ""
    if not words or words in record.fault:
        return record.fault or None
    return f"{record.fault}; {words}"


def _batch(rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    return pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, MESSAGES, strict=True)],
        schema=MESSAGES,
    )


# Options by name, as data sources have them.

#: How files of messages are read.
READING = (
    *("rangeBytes", "maxSize", "expansion", "zeroWidth"),
    *("protocol", "address", "since", "until", "selector"),
)


def refuse_unknown(options: Mapping[str, str], known: Iterable[str]) -> None:
    """Refuse options that nothing would read, whatever their case."""
    names = {name.lower() for name in known}
    for name in options:
        if name.lower() not in names:
            raise ValueError(f"unknown option {name!r}: use {', '.join(known)}")


def number_of(options: Mapping[str, str], name: str, default: int, unit: str) -> int:
    """Return an option that is a number of at least 1."""
    text = str(options.get(name, default))
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"{name} is {text!r}, and must be a number of {unit}, 1 or more")
    return int(text)


def flag_of(options: Mapping[str, str], name: str, *, default: bool) -> bool:
    """Return an option that is true or false."""
    text = options.get(name, str(default)).lower()
    if text not in {"true", "false"}:
        raise ValueError(f"{name} is true or false, not {text!r}")
    return text == "true"


def shared(names: Iterable[str], others: Iterable[str]) -> list[str]:
    """Return the names that are among the others, too; SQL does not tell cases apart."""
    known = {name.lower() for name in others}
    return [name for name in names if name.lower() in known]
