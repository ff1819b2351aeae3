"""Read Parquet input: several files as one table, split at row groups.

An unreadable file or row group becomes a row with a fault, and reading continues after it.
"""

from __future__ import annotations

import datetime
import re
from array import array as numbers
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import attrs
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from amqp10msg.files import Range, stores
from amqp10msg.files.tables import (
    COLUMN_BUFFER_SIZE,
    BoundedParquetFile,
    ExpansionError,
    plain_batch,
)
from amqp10msg.wire.limits import Limits
from amqp10msg.wire.reprs import readable

#: The name of the format, as in `amqp10msg.files.FORMATS`.
PARQUET = "parquet"
# Endings of faults: no row of the file is read, or some rows of a row group are not read.
_FILE_UNREAD = "nothing of it is read"
_ROWS_UNREAD = "its rows from {:,} to {:,} are not read"
#: A regular expression that matches a fault with the ending `_FILE_UNREAD` or `_ROWS_UNREAD`.
UNREAD_PATTERN = rf"{_FILE_UNREAD}|its rows from [\d,]+ to [\d,]+ are not read"
#: The names of internal columns with the file and the row number, for input without the columns
#: ``source`` and ``offset``. Good rows in the output do not have these columns.
SOURCE, OFFSET = "amqp10msg.source", "amqp10msg.offset"
#: The name of an internal column with a fault, in a row that replaces unreadable rows.
FAULT_COLUMN = "amqp10msg.fault"
# A batch is complete when it reaches either limit.
_BATCH_ROWS = 8_192
_BATCH_BYTES = 16 << 20
# The numbers from 0 to `_BATCH_ROWS` - 1. They are created from a buffer, because the conversion of
# a list would make Arrow import pandas, which is slow.
_ROW_NUMBERS = pa.Array.from_buffers(
    pa.int64(), _BATCH_ROWS, [None, pa.py_buffer(numbers("q", range(_BATCH_ROWS)))]
)
# The value in a Hive folder name that means null.
_NULL_PARTITION_VALUE = "__HIVE_DEFAULT_PARTITION__"
_LOCATION_COLUMNS = ("source", "offset")


class SchemasError(ValueError):
    """The columns of the files cannot be combined into one table."""


@attrs.frozen
class ParquetTable:
    """The common table of Parquet files.

    Attributes:
        schema: the columns, including those from folder names such as ``date=2026-01-31``.
        folder: the input folder. Names of its subfolders in the form ``name=value`` become columns.
    """

    schema: pa.Schema
    folder: str


@contextmanager
def _open_parquet(path: str) -> Iterator[tuple[Any, pq.ParquetFile]]:
    """Open a Parquet file. Yield the path or stream that pyarrow reads, and pyarrow's reader."""
    with ExitStack() as stack:
        # pyarrow reads faster from a path than from a stream, but accepts only valid Unicode paths.
        by_name = not stores.is_url(path) and path == readable(path)
        source = (
            Path(path) if by_name else stack.enter_context(stores.opened_for_random_access(path))
        )
        with (
            _as_unread_error(),
            pq.ParquetFile(source, buffer_size=COLUMN_BUFFER_SIZE, pre_buffer=False) as file,
        ):
            yield source, file


class _UnreadError(Exception):
    """The file is damaged, or not a Parquet file."""


@contextmanager
def _as_unread_error() -> Iterator[None]:
    """Convert errors that mean a damaged file to `_UnreadError`; raise other errors unchanged."""
    try:
        yield
    except ExpansionError as error:
        raise _UnreadError(str(error)) from None
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        # An error with an errno comes from the operating system. Such errors, lack of memory and
        # errors of an object store do not mean that the file is damaged.
        is_other_cause = isinstance(error, (MemoryError, stores.StoreError))
        if is_other_cause or getattr(error, "errno", None) is not None:
            raise
        raise _UnreadError(f"damaged, or not Parquet: {_one_line(error)}") from error


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def inspect_files(
    paths: Sequence[str], folder: str, max_bytes: int
) -> tuple[ParquetTable, list[tuple[Range, int]]]:
    """Read the footers of Parquet files, and split the files into ranges of whole row groups.

    A range ends with the row group with which it reaches `max_bytes`. A damaged file becomes an
    empty range; reading this range yields a row with the fault.

    Returns:
        The common table, and (range, size in bytes) for each range.

    Raises:
        OSError: no file is Parquet, or a file cannot be opened.
        SchemasError: the columns cannot be combined into one table.
        ValueError: two columns of a file have the same name.
    """
    ranges: list[tuple[Range, int]] = []
    schemas: dict[pa.Schema, None] = {}
    unread: list[tuple[str, str]] = []

    def inspect_file(path: str) -> tuple[pa.Schema, list[tuple[Range, int]]] | str:
        try:
            with _open_parquet(path) as (_, file):
                return file.schema_arrow.remove_metadata(), [
                    *_split_row_groups(path, file.metadata, max_bytes)
                ]
        except _UnreadError as error:
            return str(error)

    for path, inspected in zip(paths, stores.map_files(inspect_file, paths), strict=True):
        if isinstance(inspected, str):
            unread.append((path, inspected))
            ranges.append((Range(path, PARQUET, 0, 0), 0))
        else:
            _reject_duplicate_names(path, inspected[0].names)
            schemas.setdefault(inspected[0])
            ranges += inspected[1]
    if not schemas:
        path, reason = unread[0]
        suffix = f"; and {len(unread) - 1:,} more files" if len(unread) > 1 else ""
        raise OSError(f"{path}: {reason}{suffix}")
    try:
        schema = pa.unify_schemas([*map(_readable_schema, schemas)], promote_options="default")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        reason = f"{folder}: columns of its files differ in type: {_one_line(error)}"
        raise SchemasError(reason) from None
    return ParquetTable(_add_partition_columns(schema, paths, folder), folder), ranges


def _reject_duplicate_names(path: str, names: Sequence[str]) -> None:
    if len(set(names)) < len(names):
        duplicate = next(name for index, name in enumerate(names) if name in names[:index])
        raise ValueError(f"{path}: two columns have the name {duplicate!r}: rename one of them")


def _readable_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema, without metadata, of the batches of a `BoundedParquetFile`.

    `schema` is the schema of the file.
    """
    arrays = [pa.nulls(0, field.type) for field in schema]
    converted = plain_batch(pa.RecordBatch.from_arrays(arrays, schema=schema)).schema
    return pa.schema([field.remove_metadata().with_nullable(True) for field in converted])


def _split_row_groups(path: str, metadata: Any, max_bytes: int) -> Iterator[tuple[Range, int]]:
    start = size = 0
    for group in range(metadata.num_row_groups):
        size += metadata.row_group(group).total_byte_size
        if size >= max_bytes or group == metadata.num_row_groups - 1:
            yield Range(path, PARQUET, start, group + 1), size
            start, size = group + 1, 0


# Partition columns from folder names.


def _partition_values(path: str, folder: str) -> dict[str, str]:
    """Return {name: value} for the folder names ``name=value`` in a path below `folder`."""
    parts = re.split(r"[/\\]", path.removeprefix(folder))[:-1]
    pairs = (part.partition("=") for part in parts)
    return {unquote(name): unquote(value) for name, equals, value in pairs if equals and name}


def _add_partition_columns(schema: pa.Schema, paths: Sequence[str], folder: str) -> pa.Schema:
    texts: dict[str, list[str]] = {}
    for path in paths:
        for name, value in _partition_values(path, folder).items():
            texts.setdefault(name, []).append(value)
    for name, values in texts.items():
        if name in schema.names:
            raise SchemasError(
                f"{folder}: {name} is both a column of files and part of folder names"
            )
        schema = schema.append(pa.field(name, _partition_type(values)))
    return schema


def _partition_type(values: list[str]) -> pa.DataType:
    """Return the type that Spark infers for partition values: integer, date or string."""
    texts = [value for value in values if value != _NULL_PARTITION_VALUE]
    if texts and all(re.fullmatch(r"-?\d{1,18}", value) for value in texts):
        fits = all(-(1 << 31) <= int(value) < 1 << 31 for value in texts)
        return pa.int32() if fits else pa.int64()
    if texts and all(_parse_date(value) for value in texts):
        return pa.date32()
    return pa.string()


def _parse_date(value: str) -> datetime.date | None:
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", value):
        return None
    try:
        return datetime.date.fromisoformat(value)
    except ValueError:
        return None


def _partition_value(text: str | None, arrow_type: pa.DataType) -> Any:
    """Convert the value in a folder name to the type of its column."""
    if text is None or text == _NULL_PARTITION_VALUE:
        return None
    if pa.types.is_integer(arrow_type):
        return int(text)
    return _parse_date(text) if pa.types.is_date(arrow_type) else text


# Reading.


def batches(part: Range, table: ParquetTable, limits: Limits) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a range, with the columns of the table and the location columns.

    If a row group is damaged, one row with a `FAULT_COLUMN` replaces the rows from the damage on.
    """
    file_rows = _FileRows(part.path, table)
    try:
        with _open_parquet(part.path) as (source, file):
            file_size = source.size if stores.is_url(part.path) else Path(part.path).stat().st_size
            bounded = BoundedParquetFile(source, file, file_size, limits, stop=part.stop)
            if fault := bounded.refused():
                raise ExpansionError(fault)
            row_counts = [file.metadata.row_group(i).num_rows for i in range(part.stop)]
            for group in range(part.start, part.stop):
                yield from _read_row_group(
                    bounded, group, sum(row_counts[:group]), row_counts[group], file_rows
                )
            if part.start == part.stop:
                # The range is empty because the file was unreadable when the job began. The table
                # does not have the columns of the file.
                raise _UnreadError("the file was damaged when the job began")
    except _UnreadError as error:
        yield file_rows.fault_row(f"{error}; {_FILE_UNREAD}", 0)


def _read_row_group(
    bounded: BoundedParquetFile, group: int, start: int, count: int, file_rows: _FileRows
) -> Iterator[pa.RecordBatch]:
    """Yield the `count` rows of a row group; `start` is the first row's number in the file."""
    row = start
    try:
        with _as_unread_error():
            if fault := bounded.refused(group):
                raise ExpansionError(fault)
            for batch in bounded.batches(group, _BATCH_ROWS, _BATCH_BYTES):
                yield file_rows.rows(batch, row)
                row += batch.num_rows
    except _UnreadError as error:
        consequence = _ROWS_UNREAD.format(row, start + count - 1)
        yield file_rows.fault_row(f"row group {group}: {error}; {consequence}", row)


class _FileRows:
    """Gives the rows of one file all columns of the table, and the location columns."""

    def __init__(self, path: str, table: ParquetTable) -> None:
        self._path = readable(path)
        self._schema = table.schema
        self._partition = _partition_values(self._path, readable(table.folder))
        self._has_location = any(name.lower() in _LOCATION_COLUMNS for name in table.schema.names)

    def rows(self, batch: pa.RecordBatch, start: int) -> pa.RecordBatch:
        """Return a batch with all columns of the table; `start` is its first row's number."""
        count = batch.num_rows
        names = [*self._schema.names]
        arrays = [self._column(batch, field) for field in self._schema]
        if not self._has_location:
            names += [SOURCE, OFFSET]
            number = pa.repeat(pa.scalar(0, pa.int32()), count)
            arrays.append(pa.DictionaryArray.from_arrays(number, [self._path]))
            arrays.append(pc.add(_ROW_NUMBERS.slice(0, count), start))
        return pa.RecordBatch.from_arrays(arrays, names)

    def _column(self, batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
        """Return a column of the table: from the batch, from a folder name, or nulls."""
        if field.name in self._partition:
            value = pa.scalar(_partition_value(self._partition[field.name], field.type), field.type)
            return pa.repeat(value, batch.num_rows)
        index = batch.schema.get_field_index(field.name)
        if index < 0:
            return pa.nulls(batch.num_rows, field.type)
        column = batch.column(index)
        return column if column.type == field.type else column.cast(field.type)

    def fault_row(self, text: str, row: int) -> pa.RecordBatch:
        """Return a row with a fault. It replaces the unreadable rows from row number `row` on."""
        empty = pa.RecordBatch.from_arrays([pa.nulls(1)], [""])
        arrays = {field.name: self._column(empty, field) for field in self._schema}
        for field in self._schema:
            if field.name.lower() == "source" and pa.types.is_string(field.type):
                arrays[field.name] = pa.array([self._path])
            elif field.name.lower() == "offset" and field.type == pa.int64():
                arrays[field.name] = pa.array([row], pa.int64())
        if not self._has_location:
            arrays[SOURCE] = pa.DictionaryArray.from_arrays(pa.array([0], pa.int32()), [self._path])
            arrays[OFFSET] = pa.array([row], pa.int64())
        arrays[FAULT_COLUMN] = pa.array([f"{self._path}: {text}"])
        return pa.RecordBatch.from_arrays(list(arrays.values()), list(arrays))
