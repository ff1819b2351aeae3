"""Read messages from Parquet: tables with a column of encoded messages, or the output of jobs."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import attrs

from amqp10msg.files._pages import Pages, PageSizes
from amqp10msg.files._record import Record
from amqp10msg.files.containers import EXPANSION_ADVICE, too_large
from amqp10msg.files.fetching import Fetched
from amqp10msg.wire.later import of_extra
from amqp10msg.wire.limits import Limits

if TYPE_CHECKING:
    import pyarrow as pa

#: Names of columns that may contain the encoded messages, in order of preference.
MESSAGE_COLUMNS = ("wire", "raw")
# The column of AMQP 0-9-1 content headers, and all columns whose names are attributes of `Record`.
_CONTENT_HEADER_COLUMN = "content_header"
_RECORD_COLUMNS = (
    *("protocol", "connection", "address", "delivery_tag", "message_format"),
    *(_CONTENT_HEADER_COLUMN, "payload", "exchange", "routing_key", "redelivered"),
)
# Columns in tables that jobs have written: faults of messages, and the input of each message.
_FAULT_COLUMNS = ("fault", "error_code", "error_text", "source", "offset")
#: Columns that may contain the time of a message, in order of preference.
TIME_COLUMNS = ("time", "received")
#: All columns, besides the message, from which records are made.
METADATA_COLUMNS = (*_RECORD_COLUMNS, *_FAULT_COLUMNS, *TIME_COLUMNS)
# Columns with text, which is read as bytes; see `_plain_metadata`.
_TEXT_COLUMNS = (
    *("protocol", "connection", "address", "exchange", "routing_key"),
    *("fault", "error_code", "error_text", "source"),
)
#: The values of the column ``protocol``.
_PROTOCOL_VALUES = ("1.0", "0-9-1")
# Error codes of quarantined messages that could not be read (`amqp10msg.jobs`).
_UNREADABLE_ERROR_CODES = {"unreadable-input", "damaged-file"}
# The Python types of the columns that are not text.
_NON_TEXT_COLUMN_TYPES: dict[str, type] = {
    "delivery_tag": bytes,
    "message_format": int,
    _CONTENT_HEADER_COLUMN: bytes,
    "payload": bytes,
    "redelivered": bool,
}
# Maximum rows and bytes of one batch.
_MAX_BATCH_ROWS = 256
_MAX_BATCH_BYTES = 4 << 20
#: Bytes that pyarrow reads at a time from a column, instead of the whole row group.
COLUMN_BUFFER_SIZE = 256 << 10
# Decompressed bytes that are always allowed for a row group, however small the file is.
_ALWAYS_ALLOWED_GROUP_BYTES = 256 << 20
# Rows and decompressed bytes that are always allowed for a file, however small the file is.
_ALWAYS_ALLOWED_FILE_ROWS = 1 << 20
_ALWAYS_ALLOWED_FILE_BYTES = 16 << 30


def read_parquet(stream: IO[bytes], max_size: int, limits: Limits) -> Iterator[Record]:
    """Read a table row by row. Rows without a message are skipped.

    A row group whose decompressed size exceeds the limit `expansion_ratio` becomes a record with a
    fault; all other row groups are read.

    Raises:
        ValueError: the file is not Parquet, or has no column with messages.
        ImportError: pyarrow is not installed.
    """
    pq = of_extra("pyarrow.parquet", "arrow", "Parquet needs pyarrow")
    import pyarrow as pa  # noqa: PLC0415  (an extra)

    if not stream.seekable():
        raise ValueError("Parquet can be read only from a file, not from a pipe or gzip")
    number = 0
    try:
        with pq.ParquetFile(stream, buffer_size=COLUMN_BUFFER_SIZE, pre_buffer=False) as file:
            names = file.schema_arrow.names
            column = next((name for name in MESSAGE_COLUMNS if name in names), None)
            if column is None and _CONTENT_HEADER_COLUMN not in names:
                raise ValueError(
                    f"no column {' or '.join(MESSAGE_COLUMNS)} with encoded messages found; "
                    f"the columns are {', '.join(names[:8])}{', …' if len(names) > 8 else ''}"
                )
            columns = [name for name in (column or "", *METADATA_COLUMNS) if name in names]
            bounded = BoundedParquetFile(stream, file, stream.seek(0, io.SEEK_END), limits, columns)
            if fault := bounded.refused():
                raise ValueError(fault)
            for group in range(file.metadata.num_row_groups):
                next_group_start = number + file.metadata.row_group(group).num_rows
                fault = bounded.refused(group)
                try:
                    for batch in (
                        () if fault else bounded.batches(group, _MAX_BATCH_ROWS, _MAX_BATCH_BYTES)
                    ):
                        for record in records_of_batch(batch, number, column, max_size):
                            number += 1
                            if record is not None:
                                yield record
                except (pa.ArrowException, OSError) as error:
                    # An error with an errno is from the operating system: the file is not damaged.
                    if getattr(error, "errno", None) is not None:
                        raise
                    fault = f"row group {group} cannot be read: {str(error).strip()}"
                if fault:
                    skipped = f"its rows from {number:,} to {next_group_start - 1:,} are skipped"
                    yield Record(number, fault=f"{fault}; {skipped}")
                number = next_group_start
    except ExpansionError as error:
        yield Record(number, fault=f"{error}; the remaining rows are not read", ends=True)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        if getattr(error, "errno", None) is not None:  # an error of the operating system
            raise
        raise ValueError(f"not a Parquet file, or damaged: {str(error).strip()}") from None


@attrs.define
class BoundedParquetFile:
    """A Parquet file that is read within the limit `Limits.expansion_ratio`.

    Attributes:
        source: the argument of `pyarrow.parquet.ParquetFile`.
        file: the open `ParquetFile`.
        file_size: size of the file in bytes.
        limits: the limits; only `expansion_ratio` is used.
        names: the columns to read; None for all.
        stop: the index of the first row group that is not read; None to read to the end.
        room: the maximum number of decompressed bytes of the remaining rows.
    """

    source: Any
    file: Any
    file_size: int
    limits: Limits
    names: Sequence[str] | None = None
    stop: int | None = None
    room: int = attrs.field(init=False)
    _rows: int = attrs.field(init=False)
    _pages: Pages | None = attrs.field(init=False, default=None)
    _sizes: dict[int, PageSizes] = attrs.field(init=False, factory=dict)

    def __attrs_post_init__(self) -> None:
        self.room = self._allowance(_ALWAYS_ALLOWED_FILE_BYTES)
        metadata = self.file.metadata
        self._rows = sum(metadata.row_group(i).num_rows for i in range(metadata.num_row_groups))
        if self.stop is None:
            self.stop = metadata.num_row_groups

    def _allowance(self, always_allowed: int) -> int:
        """Return the limit in rows or bytes: `expansion_ratio` per byte of the file.

        It is at least `always_allowed`.
        """
        return max(always_allowed, self.limits.expansion_ratio * self.file_size)

    def refused(self, group: int | None = None) -> str:
        """Return why a row group (None for the whole file) must not be read; "" if it may be read.

        A row group is refused if its pages decompress to more than 256 MiB and more than
        `expansion_ratio` times the file size. A file is refused if it has more than a million rows
        and more than `expansion_ratio` rows per byte.
        """
        # Rows are also limited, because null or repeated values need no bytes in the file.
        if self._rows > self._allowance(_ALWAYS_ALLOWED_FILE_ROWS):
            return self._describe_excess(f"the file has {self._rows:,} rows", "the size")
        if group is None:
            return ""
        # Do not read the metadata of columns: if it is damaged, pyarrow 26 crashes the process.
        max_bytes = self._allowance(_ALWAYS_ALLOWED_GROUP_BYTES)
        size = self.file.metadata.row_group(group).total_byte_size
        if size <= max_bytes:
            try:
                self._sizes[group] = self._page_sizes(group, max_bytes)
            except ValueError as error:
                return f"damaged, or not Parquet: row group {group} cannot be read: {error}"
            size = self._sizes[group].octets
        if size > max_bytes:
            return self._describe_excess(
                f"row group {group} has {size:,} bytes decompressed", "the size"
            )
        return ""

    def _page_sizes(self, group: int, max_bytes: int) -> PageSizes:
        """Return the decompressed page sizes of a row group, as its page headers declare them.

        Stops after the page that exceeds `max_bytes`.

        Raises:
            ValueError: the footer or a page header cannot be parsed.
        """
        if not self.file.metadata.row_group(group).num_rows:
            return PageSizes(0, 0)  # pyarrow reads no page of an empty row group
        with ExitStack() as stack:
            stream = self.source
            if not hasattr(stream, "read"):
                stream = stack.enter_context(Path(stream).open("rb"))
            if self._pages is None:
                self._pages = Pages(stream, self._column_indexes())
            if isinstance(stream, Fetched):
                # Cache the columns of this row group, which are read three times: for the page
                # headers, the longest values and the rows. Fetch those of the next row group ahead.
                groups = range(group, min(group + 2, self.stop or 0))
                stream.expect(*map(self._pages.spans, groups))
            return self._pages.measure(stream, group, max_bytes)

    def _column_indexes(self) -> list[int] | None:
        """Return the indexes of the columns to read; None for all."""
        if self.names is None:
            return None
        schema = self.file.metadata.schema
        paths = [schema.column(number).path for number in range(len(schema))]
        return [
            number
            for number, path in enumerate(paths)
            if any(path == name or path.startswith(f"{name}.") for name in self.names)
        ]

    def _describe_excess(self, problem: str, quantity: str) -> str:
        """Return an error text for a `problem`, such as "the file has 5,000,000 rows"."""
        return (
            f"{problem}, more than {self.limits.expansion_ratio} times {quantity} of the file, "
            f"{self.file_size:,}: {EXPANSION_ADVICE}"
        )

    def batches(self, group: int, max_rows: int, octets: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a row group, as batches that `plain_batch` has converted.

        The caller must have called `refused` for the row group.

        A batch has up to `max_rows` rows and about `octets` bytes, and at least one row.

        Raises:
            ExpansionError: the rows exceed 16 GiB and the limit `expansion_ratio`.
        """
        size = self._rows_per_batch(group, max_rows, octets)
        for batch in self.file.iter_batches(
            size, row_groups=[group], columns=self.names, use_threads=False
        ):
            converted = plain_batch(batch)
            self.room -= converted.nbytes
            if self.room < 0:
                allowed = self._allowance(_ALWAYS_ALLOWED_FILE_BYTES)
                problem = f"the rows have more than {allowed:,} bytes decompressed"
                raise ExpansionError(self._describe_excess(problem, "the size"))
            yield converted

    def _rows_per_batch(self, group: int, max_rows: int, octets: int) -> int:
        """Return the number of rows per batch, fewer if values are large.

        The mean row size is not enough: a repeated value is stored once in the file, in the
        dictionary of its column, but once per row in a batch. So the length of the longest value
        also counts.
        """
        import pyarrow.parquet as pq  # noqa: PLC0415  (an extra)

        group_metadata = self.file.metadata.row_group(group)
        row_size = max(
            group_metadata.total_byte_size // (group_metadata.num_rows or 1),
            self._sizes[group].longest,
        )
        # For nested columns, use the mean only: the number of values per row is unknown.
        texts = [
            field.name
            for field in self.file.schema_arrow
            if (self.names is None or field.name in self.names)
            and _is_text(field.type)
            and "." not in field.name
        ]
        if texts:
            # Pass the metadata, so that the footer is not read again.
            with pq.ParquetFile(
                self.source,
                metadata=self.file.metadata,
                read_dictionary=texts,
                buffer_size=COLUMN_BUFFER_SIZE,
                pre_buffer=False,
            ) as probe:
                first = next(
                    probe.iter_batches(1, row_groups=[group], columns=texts, use_threads=False),
                    None,
                )
                if first is not None:
                    row_size = max(
                        row_size, sum(_longest_value(column) for column in first.columns)
                    )
        fitting: int = octets // max(row_size, 1)
        return max(1, min(max_rows, fitting))


class ExpansionError(ValueError):
    """A Parquet file decompresses to more bytes than allowed."""


def plain_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Convert columns of binary_view, string_view and dictionaries of bytes to plain columns."""
    import pyarrow as pa  # noqa: PLC0415  (an extra)

    for index, field in enumerate(batch.schema):
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        if kind != field.type and (pa.types.is_binary(kind) or pa.types.is_large_binary(kind)):
            column = batch.column(index).dictionary_decode()
        elif kind == pa.binary_view() or kind == pa.string_view():
            column = batch.column(index).cast(
                pa.binary() if kind == pa.binary_view() else pa.string()
            )
        else:
            continue
        batch = batch.set_column(index, field.with_type(column.type), column)
    return batch


def capture_times(batch: pa.RecordBatch) -> pa.Array | None:
    """Return the capture time of each row, in microseconds since the Unix epoch.

    It is the first value of the columns `TIME_COLUMNS`, which may be timestamps of any unit, with
    or without a time zone. Without a time zone, they are UTC.

    Returns:
        An int64 array, with nulls for rows without a time; None if there is no such column.
    """
    import pyarrow as pa  # noqa: PLC0415  (an extra)
    import pyarrow.compute as pc  # noqa: PLC0415  (an extra)

    columns = [
        # Nanoseconds are truncated.
        batch.column(name).cast(pa.timestamp("us"), safe=False).cast(pa.int64())
        for name in TIME_COLUMNS
        if name in batch.schema.names and pa.types.is_timestamp(batch.schema.field(name).type)
    ]
    return pc.coalesce(*columns) if columns else None


def _plain_metadata(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Convert text columns to bytes, and the columns of times to one: `capture_times`, as ``time``.

    Invalid UTF-8, or a time after the year 9999, in one row would fail the batch otherwise.
    """
    import pyarrow as pa  # noqa: PLC0415  (an extra)

    times = capture_times(batch)
    batch = batch.select([name for name in batch.schema.names if name not in TIME_COLUMNS])
    if times is not None:
        batch = batch.append_column("time", times)
    for index, field in enumerate(batch.schema):
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        if field.name in _TEXT_COLUMNS and (
            pa.types.is_string(kind) or pa.types.is_large_string(kind)
        ):
            column = batch.column(index)
            column = column.dictionary_decode() if kind != field.type else column
            bytes_type = pa.binary() if pa.types.is_string(kind) else pa.large_binary()
            batch = batch.set_column(index, field.with_type(bytes_type), column.cast(bytes_type))
    return batch


def _is_text(kind: Any) -> bool:
    """Return whether a column contains bytes or text, which Parquet may store in a dictionary."""
    import pyarrow as pa  # noqa: PLC0415  (an extra)

    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    is_text: bool = kind in {
        *(pa.binary(), pa.large_binary(), pa.binary_view()),
        *(pa.string(), pa.large_string(), pa.string_view()),
    }
    return is_text


def _longest_value(column: Any) -> int:
    """Return the length of the longest value in a dictionary column; 0 for other columns."""
    import pyarrow as pa  # noqa: PLC0415  (an extra)
    import pyarrow.compute as pc  # noqa: PLC0415  (an extra)

    if not pa.types.is_dictionary(column.type):
        return 0
    return int(pc.max(pc.binary_length(column.dictionary)).as_py() or 0)


def records_of_batch(
    batch: pa.RecordBatch, start: int, column: str | None, max_size: int
) -> Iterator[Record | None]:
    """Yield the record of each row; None for a row without a message and without a fault.

    Args:
        batch: rows with the column of messages and any of `METADATA_COLUMNS`.
        start: the index of the first row in the file.
        column: the column with encoded AMQP 1.0 messages, or None.
        max_size: maximum size of a message in bytes.

    Raises:
        ValueError: a column of messages contains no bytes.
    """
    for number, row in enumerate(_plain_metadata(batch).to_pylist(), start):
        yield _record_of_row(number, row, column, max_size)


def _record_of_row(
    number: int, row: dict[str, Any], column: str | None, max_size: int
) -> Record | None:
    """Return the record of a row; None for a row without a message and without a fault.

    Args:
        number: the index of the row in the file.
        row: the values by column.
        column: the column with encoded AMQP 1.0 messages, or None.
        max_size: maximum size of a message in bytes.
    """
    wire = row.get(column) if column else None
    for name in _TEXT_COLUMNS:
        if isinstance(row.get(name), bytes):
            row[name] = row[name].decode("utf-8", "backslashreplace")
    fault = row.get("fault") or (
        row.get("error_text") if row.get("error_code") in _UNREADABLE_ERROR_CODES else None
    )
    if wire is None and row.get(_CONTENT_HEADER_COLUMN) is None and not fault:
        return None
    for name in (column or "", _CONTENT_HEADER_COLUMN, "payload"):
        value = row.get(name, b"")
        if not isinstance(value, (bytes, type(None))):
            raise ValueError(f"the column {name} must contain bytes")  # noqa: TRY004  (an error in the file)
        if len(value or b"") > max_size:
            return Record(number, (value or b"")[:1024], too_large(max_size))
    fields = {name: row[name] for name in _RECORD_COLUMNS if row.get(name) is not None}
    for column_name, value in fields.items():
        if not isinstance(value, _NON_TEXT_COLUMN_TYPES.get(column_name, str)):
            return Record(number, wire, f"the column {column_name} contains {value!r:.80}")
    if fields.get("protocol", _PROTOCOL_VALUES[0]) not in _PROTOCOL_VALUES:
        return Record(number, wire, f"unknown protocol {fields['protocol']!r:.80}")
    if not 0 <= fields.get("message_format", 0) < 1 << 32:
        return Record(number, wire, f"{fields['message_format']} is not a message format")
    if wire is None and "protocol" not in fields:
        fields["protocol"] = "0-9-1"
    fields["time"] = row.get("time")
    source, offset = row.get("source"), row.get("offset")
    origin = None if source is None else f"{source}@{offset or 0}"
    return Record(number, wire, fault or "", origin=origin, **fields)
