"""The input of a job: list its files, split them into parts, and read a part as Arrow batches.

The main process sends descriptions of parts to the workers, not messages: each worker opens the
files of its parts. This module also parses the options for reading.
"""

from __future__ import annotations

import datetime
import errno
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from difflib import get_close_matches
from operator import attrgetter
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from amqp10msg import files
from amqp10msg.delivery.filters import Selector
from amqp10msg.files import Record, stores
from amqp10msg.files.containers import too_large
from amqp10msg.files.recognition import decode_whole
from amqp10msg.files.signatures import PARQUET_MAGIC
from amqp10msg.files.stores import State, UnknownStoreError
from amqp10msg.files.tables import METADATA_COLUMNS, TIME_COLUMNS, records_of_batch
from amqp10msg.jobs import parquet
from amqp10msg.jobs.manifest import list_committed_files
from amqp10msg.jobs.parquet import PARQUET, ParquetTable, SchemasError
from amqp10msg.sections import moment_of
from amqp10msg.wire.errors import DecodeError
from amqp10msg.wire.limits import DEFAULT_LIMITS, UNLIMITED, Limits
from amqp10msg.wire.reprs import readable

#: The columns of messages from files; see `amqp10msg.files.Record`.
MESSAGE_SCHEMA = pa.schema(
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
# Returns the values of a record for the columns between `source` and `fault`.
_record_values = attrgetter(*MESSAGE_SCHEMA.names[1:-1])
# A batch is complete when it reaches either limit.
_BATCH_ROWS = 8_192
_BATCH_BYTES = 16 << 20
#: Appended to a fault after which the file is unreadable, so that all later messages are missing.
REST_UNREAD_SUFFIX = "what follows is not read"
#: Appended to a fault that the reader skipped, so that messages may be missing at its offset only.
SKIPPED_SUFFIX = "messages may be missing here"
_PROTOCOLS = ("1.0", "0-9-1")
#: The columns with the parts of a 0-9-1 message.
BASIC_COLUMNS = ("content_header", "payload")
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
#: The default size of a range of a message file, in bytes.
RANGE_BYTES = 128 << 20
# The maximum size of a Parquet part, in uncompressed bytes. It is read in a second or less.
_PARQUET_PART_BYTES = 64 << 20


class OnlySparkError(ValueError):
    """Only Spark can read the input; the local engine cannot."""


def list_files(source: str) -> list[str]:
    """List the input files recursively, in order, without hidden and unfinished files.

    If `source` is the output folder of a job in an object store, list only committed files.

    Raises:
        OnlySparkError: the URL has a scheme that only Spark can read, such as ``hdfs``.
    """
    with _only_spark_errors(source):
        listed = list_committed_files(source)
        return stores.files_of(source) if listed is None else listed


def list_states(source: str) -> dict[str, State]:
    """List the input files as `list_files` does, with their states, in the order of names.

    In a store, the states are those of the listing, without identities.

    Raises:
        OnlySparkError: as for `list_files`.
    """
    with _only_spark_errors(source):
        committed = list_committed_files(source)
        states = stores.listed_states(source)
    if committed is None:
        return states
    return {url: states.get(url) or stores.state_of(url) for url in committed}


@contextmanager
def _only_spark_errors(source: str) -> Iterator[None]:
    """Raise OnlySparkError for a URL that no installed library can open."""
    try:
        yield
    except UnknownStoreError as error:
        message = f"{error}: only Spark reads file systems other than this machine's"
        raise OnlySparkError(f"{source}: {message}") from None


def is_parquet(source: str) -> bool:
    """Return True for a Parquet file, or for a folder with at least one Parquet file."""
    if source.endswith(".parquet"):
        return True
    if stores.is_url(source):
        return any(stores.name_of(path).suffix == ".parquet" for path in list_files(source))
    local = source.removeprefix("file://")
    path = Path(local)
    if path.is_file():
        with path.open("rb") as file:
            return file.read(len(PARQUET_MAGIC)) == PARQUET_MAGIC
    is_folder = path.is_dir()
    return any(
        name.endswith(".parquet")
        for file in map(Path, stores.iterate_local_files(local))
        for name in (file.relative_to(path) if is_folder else file).parts
    )


#: A part of the input, which consists of the ranges of files that one task reads.
Part = tuple[files.Range, ...]
# The cost of opening a file, expressed as the number of bytes that are read in the same time.
_OPEN_COST_BYTES = 64 << 10


def pack_ranges(ranges: Iterable[tuple[files.Range, int]], max_bytes: int) -> list[Part]:
    """Group consecutive ranges, given as (range, size), into parts of at most `max_bytes`.

    The order of the ranges is kept. A range larger than `max_bytes` becomes its own part.
    """
    parts: list[Part] = []
    current: list[files.Range] = []
    remaining = max_bytes
    for item, size in ranges:
        cost = size + _OPEN_COST_BYTES
        if current and cost > remaining:
            parts.append(tuple(current))
            current, remaining = [], max_bytes
        current.append(item)
        remaining -= cost
    if current:
        parts.append(tuple(current))
    return parts


def split_files(
    states: Mapping[str, State], form: str | None, range_bytes: int
) -> Iterator[tuple[files.Range, int]]:
    """Split message files into ranges of about `range_bytes`; yield (range, size in bytes).

    A file that is not in the format `form` becomes one range; reading this range yields a row with
    the fault.
    """

    def divide(path: str) -> list[files.Range]:
        return files.ranges(path, form, octets=range_bytes, keep_unusable=True)

    for state, ranges in zip(states.values(), stores.map_files(divide, [*states]), strict=True):
        for item in ranges:
            # Add the file's identity to the range if the file is opened several times, because it
            # could be replaced in between. A local file or a small object with a single range is
            # opened only once.
            can_stay_open = (
                not stores.is_url(item.path) or state.size <= stores.MAX_SINGLE_REQUEST_SIZE
            )
            size = min(item.stop, state.size) - item.start
            if len(ranges) > 1 or not can_stay_open:
                yield attrs.evolve(item, identity=state.identity, size=state.size), size
            else:
                yield item, size


@attrs.frozen
class Input:
    """The input of a job, split into parts that processes can read in parallel.

    Attributes:
        names: the names of the columns.
        parts: groups of ranges; small files share a part.
        octets: the size of all files, in bytes.
        table: the common schema of Parquet input; None for message files.
    """

    names: list[str]
    parts: list[Part]
    octets: int
    table: ParquetTable | None = None


def find_input(
    source: str, form: str | None, size_of_part: Callable[[int], int] | None = None
) -> Input:
    """List the files of `source` and split them into parts.

    Args:
        source: a file, a folder or a pattern.
        form: the file format; None to recognise it.
        size_of_part: returns the size of a part for the size of all files, both in bytes; None for
            `RANGE_BYTES`, which suits Spark.

    Raises:
        OnlySparkError: only Spark can read the file system, or the columns of the files differ in
            type.
        FileNotFoundError: there is no such file.
        ValueError: a file is not in the format `form`, or its format is not recognised.
        OSError: a file cannot be read, or no Parquet file is intact.
    """
    wants_parquet = form == PARQUET or (form is None and is_parquet(source))
    paths = list_files(source)
    if not paths:
        message = "no such file, or the folder is empty"
        raise FileNotFoundError(errno.ENOENT, message, source)
    states = stores.states_of(paths)
    total_bytes = sum(state.size for state in states.values())
    size = RANGE_BYTES if size_of_part is None else size_of_part(total_bytes)
    if not wants_parquet:
        return Input(
            MESSAGE_SCHEMA.names, pack_ranges(split_files(states, form, size), size), total_bytes
        )
    part_bytes, folder = min(size, _PARQUET_PART_BYTES), stores.folder_of(source)
    try:
        table, sized_ranges = parquet.inspect_files(paths, folder, part_bytes)
    except SchemasError as error:
        raise OnlySparkError(f"{error}: only Spark reads them") from None
    ranges = ((_with_identity(item, states[item.path]), size) for item, size in sized_ranges)
    return Input(list(table.schema.names), pack_ranges(ranges, part_bytes), total_bytes, table)


def _with_identity(row_groups: files.Range, state: State) -> files.Range:
    """Add the file's identity to a range, so that reading the range detects a replaced file."""
    changed = 0 if stores.is_url(row_groups.path) else state.changed
    return attrs.evolve(row_groups, identity=state.identity, size=state.size, changed=changed)


#: `input_columns` checks the input before a job only if it has at most this many files.
_MAX_FILES_FOR_EARLY_CHECK = 100


def input_columns(source: str, form: str | None) -> list[str] | None:
    """Return the column names of the input, to reject an impossible job before it starts.

    Return None if they cannot be determined here: only Spark can read the input, it is unreadable,
    or it has more than `_MAX_FILES_FOR_EARLY_CHECK` files.
    """
    try:
        if form != PARQUET and not (form is None and is_parquet(source)):
            return list(MESSAGE_SCHEMA.names)
        paths = list_files(source)
        if not 0 < len(paths) <= _MAX_FILES_FOR_EARLY_CHECK:
            return None
        table, _ = parquet.inspect_files(paths, stores.folder_of(source), _PARQUET_PART_BYTES)
    except (OnlySparkError, SchemasError, OSError, ValueError):
        return None
    return list(table.schema.names)


@attrs.frozen
class Filters:
    """Conditions on records: only those that meet all conditions become rows of the input.

    An attribute that is None is no condition. Records that could not be read always become rows.

    Attributes:
        protocol: ``1.0`` or ``0-9-1``.
        address: the address of the link or queue.
        since: the earliest capture time, in microseconds since the Unix epoch.
        until: the time before which a message must be captured, in microseconds since the Unix
            epoch.
        selector: a JMS selector that the message must match.
    """

    protocol: str | None = None
    address: str | None = None
    since: int | None = None
    until: int | None = None
    selector: Selector | None = None

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> Filters:
        """Create the filters from the options of a job or a Spark data source."""
        protocol, selector = options.get("protocol"), options.get("selector")
        if protocol not in {None, *_PROTOCOLS}:
            raise ValueError(f"{protocol!r} is not a protocol: use {' or '.join(_PROTOCOLS)}")
        return cls(
            protocol,
            options.get("address"),
            _parse_time(options, "since"),
            _parse_time(options, "until"),
            None if selector is None else Selector(selector),
        )

    def check_schema(self, schema: pa.Schema) -> None:
        """Raise ValueError if Parquet input has no column for one of the conditions."""
        requirements = (
            ("address", self.address, ("address",), _is_text, "of strings"),
            ("since", self.since, TIME_COLUMNS, pa.types.is_timestamp, "of timestamps"),
            ("until", self.until, TIME_COLUMNS, pa.types.is_timestamp, "of timestamps"),
        )
        for option, value, names, is_suitable, content in requirements:
            suitable = (n for n in names if n in schema.names and is_suitable(schema.field(n).type))
            if value is not None and not any(suitable):
                raise ValueError(
                    f"{option} does not apply to this Parquet input, which has no column "
                    f"{' or '.join(names)} {content}: it has {', '.join(schema.names)}; "
                    f"remove the option {option}"
                )

    def admits(self, record: Record) -> bool:
        """Return True if a record meets all conditions, or could not be read."""
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
            return True  # keep the record, because the job will quarantine it


def is_binary(kind: pa.DataType) -> bool:
    """Return whether a column has bytes, as the columns of messages must."""
    predicates = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)
    return any(accepts(kind) for accepts in predicates)


def _is_text(kind: pa.DataType) -> bool:
    """Return whether a column has strings, which may be stored in a dictionary."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return kind in {pa.string(), pa.large_string(), pa.string_view()}


def _parse_time(options: Mapping[str, str], name: str) -> int | None:
    """Parse an option that is a time. Return microseconds since the Unix epoch, or None."""
    text = options.get(name)
    if text is None:
        return None
    try:
        return (moment_of(text) - _EPOCH) // datetime.timedelta(microseconds=1)
    except ValueError:
        raise ValueError(
            f"{name} must be an ISO 8601 time such as 2026-01-31T12:00:00Z, got {text!r}"
        ) from None


@attrs.frozen
class Reading:
    """Reads parts of the input as Arrow batches.

    Attributes:
        max_size: the maximum size of a message, in bytes.
        filters: the conditions on records.
        limits: the limits on decompression and on empty records.
        table: the common schema of Parquet input; None for message files.
        column: the column of the encoded messages in Parquet input.
        limits_empty: whether an option sets the limit on empty records.
    """

    max_size: int
    filters: Filters
    limits: Limits = DEFAULT_LIMITS
    table: ParquetTable | None = None
    column: str = "wire"
    limits_empty: bool = False

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> Reading:
        """Create a reader from the options of a job or a Spark data source."""
        default = DEFAULT_LIMITS
        return cls(
            positive_option(options, "maxSize", files.MAX_SIZE, "bytes"),
            Filters.from_options(options),
            Limits(
                expansion_ratio=positive_option(
                    options, "expansionRatio", default.expansion_ratio, "times"
                ),
                zero_width=positive_option(options, "zeroWidth", default.zero_width, "records"),
            ),
            limits_empty=bool(limiting_options(options, ["zeroWidth"])),
        )

    def check_schema(self, schema: pa.Schema) -> None:
        """Raise ValueError if an option does not apply to Parquet input with these columns."""
        self.filters.check_schema(schema)
        if self.limits_empty:
            raise ValueError(
                "zeroWidth does not apply to Parquet input, whose number of rows is limited by "
                "expansionRatio: remove the option zeroWidth"
            )

    def batches(
        self,
        part: Part,
        guard: Callable[[Part], AbstractContextManager[Any]] = nullcontext,
        on_left_out: Callable[[int], None] = lambda _count: None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a part: the columns of `MESSAGE_SCHEMA`, or of `table` for Parquet.

        Each range is read inside the context manager that `guard` returns, which can add the path
        to errors. `on_left_out` is called with numbers of messages that do not pass the filters.

        Raises:
            ReplacedError: a file was replaced after it was split into ranges. The batches that were
                already yielded may mix rows of the old and the new file.
        """
        for item in part:
            with guard((item,)):
                is_local_whole_file = not item.identity and not stores.is_url(item.path)
                state_before = stores.state_of(item.path) if is_local_whole_file else None
                if self.table is None:
                    yield from self._range_batches(item, on_left_out)
                else:
                    batches = self._within_max_size(parquet.batches(item, self.table, self.limits))
                    if self.filters != Filters():
                        batches = self._admitted(batches, on_left_out)
                    yield from batches
                if item.identity:
                    # Raise an error if the file was replaced: the output would mix rows of the old
                    # and the new file.
                    stores.check_unchanged(item.path, item.identity, item.size, item.changed)
                elif state_before is not None:
                    stores.check_not_truncated(item.path, state_before)

    def _within_max_size(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of Parquet input. Rows with a larger message than allowed get a fault."""
        for batch in batches:
            is_large = (
                None if parquet.FAULT_COLUMN in batch.schema.names else self._is_too_large(batch)
            )
            if is_large is None or not pc.any(is_large, min_count=0).as_py():
                yield batch
                continue
            rest, large = batch.filter(pc.invert(is_large)), batch.filter(is_large)
            if rest.num_rows:
                yield rest
            faults = pa.repeat(too_large(self.max_size), large.num_rows)
            yield large.append_column(parquet.FAULT_COLUMN, faults)

    def _is_too_large(self, batch: pa.RecordBatch) -> pa.Array | None:
        """Return whether the message of each row exceeds `max_size`; None without a message."""
        is_large = None
        for name in (self.column, *BASIC_COLUMNS):
            if name in batch.schema.names and is_binary(batch.schema.field(name).type):
                exceeds = pc.greater(pc.binary_length(batch.column(name)), self.max_size)
                exceeds = pc.fill_null(exceeds, False)
                is_large = exceeds if is_large is None else pc.or_(is_large, exceeds)
        return is_large

    def _admitted(
        self, batches: Iterable[pa.RecordBatch], on_left_out: Callable[[int], None]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of Parquet input that pass the filters, as batches."""
        for batch in batches:
            if parquet.FAULT_COLUMN in batch.schema.names:
                yield batch
                continue
            used = [n for n in (self.column, *METADATA_COLUMNS) if n in batch.schema.names]
            records = records_of_batch(batch.select(used), 0, self.column, self.max_size)
            # The job itself decides about rows without a message.
            mask = [record is None or self.filters.admits(record) for record in records]
            on_left_out(mask.count(False))
            if any(mask):
                yield batch.filter(pa.array(mask, pa.bool_()))

    def _range_batches(
        self, part: files.Range, on_left_out: Callable[[int], None]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the records in a range of a message file that pass the filters, as batches."""
        rows: list[tuple[Any, ...]] = []
        size = 0
        source = readable(part.path)
        records = self._read_records(part)
        has_filters, left_out = self.filters != Filters(), 0
        for record in records:
            if has_filters and not self.filters.admits(record):
                left_out += 1
                continue
            rows.append((source, *_record_values(record), _marked_fault(record)))
            size += len(record.wire or b"") + len(record.payload or b"")
            if len(rows) >= _BATCH_ROWS or size >= _BATCH_BYTES:
                yield _batch_of_rows(rows)
                rows, size = [], 0
        on_left_out(left_out)
        if rows:
            yield _batch_of_rows(rows)

    def _read_records(self, part: files.Range) -> Iterator[Record]:
        """Yield the records of a range. If the file becomes unreadable, the last has the fault."""
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


def _marked_fault(record: Record) -> str | None:
    """Return a record's fault, with a suffix if messages are or may be missing."""
    suffix = REST_UNREAD_SUFFIX if record.ends else SKIPPED_SUFFIX if record.skips else ""
    if not suffix or suffix in record.fault:
        return record.fault or None
    return f"{record.fault}; {suffix}"


def _batch_of_rows(rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    return pa.RecordBatch.from_arrays(
        [
            pa.array(column, field.type)
            for column, field in zip(columns, MESSAGE_SCHEMA, strict=True)
        ],
        schema=MESSAGE_SCHEMA,
    )


# Options of jobs and of Spark data sources.

#: The names of the options that select messages.
FILTER_OPTIONS = ("protocol", "address", "since", "until", "selector")
#: The names of the options for reading files.
READING_OPTIONS = ("rangeBytes", "maxSize", "expansionRatio", "zeroWidth", *FILTER_OPTIONS)


def reject_unknown_options(options: Mapping[str, str], allowed: Iterable[str]) -> None:
    """Raise ValueError if an option is not in `allowed`. The case of names is ignored."""
    allowed = list(allowed)
    names = {name.lower() for name in allowed}
    for name in options:
        if name.lower() not in names:
            similar = get_close_matches(name, allowed, 1)
            hint = f" (did you mean {similar[0]}?)" if similar else ""
            raise ValueError(f"unknown option {name!r}{hint}: use {', '.join(allowed)}")


def known_options(options: Mapping[str, str] | None, allowed: Iterable[str]) -> dict[str, str]:
    """Return the options under their names in `allowed`, whatever their case.

    Raises:
        ValueError: an option is not in `allowed`.
    """
    options = options or {}
    reject_unknown_options(options, allowed)
    names = {name.lower(): name for name in allowed}
    return {names[name.lower()]: value for name, value in options.items()}


def positive_option(options: Mapping[str, str], name: str, default: int, unit: str) -> int:
    """Parse an option that must be an integer of 1 or more; the error names `unit`."""
    text = str(options.get(name, default))
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"{name} must be a number of {unit}, 1 or more, got {text!r}")
    return int(text)


def limiting_options(options: Mapping[str, str], names: Iterable[str]) -> list[str]:
    """Return the given options of `names` that set a limit: 2^62, the highest value, is none."""
    return [name for name in names if name in options and int(options[name]) < UNLIMITED.zero_width]


def bool_option(options: Mapping[str, str], name: str, *, default: bool) -> bool:
    """Parse an option that must be ``true`` or ``false``."""
    text = options.get(name, str(default)).lower()
    if text not in {"true", "false"}:
        raise ValueError(f"{name} must be true or false, got {text!r}")
    return text == "true"


def common_names(names: Iterable[str], other_names: Iterable[str]) -> list[str]:
    """Return the `names` that are also in `other_names`. As in SQL, the case is ignored."""
    lowered = {name.lower() for name in other_names}
    return [name for name in names if name.lower() in lowered]
