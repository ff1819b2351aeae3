"""Parquet as input of jobs: files as one table, in parts of whole row groups.

What cannot be read of them is a row that says so, and never keeps the rest from being read.
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
from amqp10msg.files.tables import AT_A_TIME, Bounded, ExpansionError, plainly
from amqp10msg.wire.limits import Limits
from amqp10msg.wire.reprs import readable

#: The form of these files, beside those of `amqp10msg.files.FORMS`.
PARQUET = "parquet"
# In a fault: how many messages are missing is not known, or which rows.
_ALL_UNREAD = "nothing of it is read"
_ROWS_UNREAD = "its rows from {:,} to {:,} are not read"
#: What matches the fault of such files.
UNREAD = rf"{_ALL_UNREAD}|its rows from [\d,]+ to [\d,]+ are not read"
#: Columns that go with the rows to the job, and no further, where the input has neither a column
#: ``source`` nor ``offset``: the file, and the number of the row in it.
SOURCE, OFFSET = "amqp10msg.source", "amqp10msg.offset"
#: The same of the one row that stands for those that could not be read.
FAULT = "amqp10msg.fault"
# A batch ends with the first of these.
_BATCH_ROWS = 8_192
_BATCH_OCTETS = 16 << 20
# From a buffer: Arrow imports pandas, which takes long, to make its first array of a list.
_COUNTED = pa.Array.from_buffers(
    pa.int64(), _BATCH_ROWS, [None, pa.py_buffer(numbers("q", range(_BATCH_ROWS)))]
)
# How Hive writes a null into the name of a folder.
_NULL = "__HIVE_DEFAULT_PARTITION__"
_PLACES = ("source", "offset")


class SchemasError(ValueError):
    """Files whose columns do not fit into one table."""


@attrs.frozen
class Rows:
    """How files are rows of one table, with columns of folders below one, ``name=value``, too."""

    schema: pa.Schema
    folder: str


@contextmanager
def _opened(path: str) -> Iterator[tuple[Any, pq.ParquetFile]]:
    """Open a Parquet file: what pyarrow opens, and that opened."""
    with ExitStack() as stack:
        # pyarrow itself is quicker with a path, which it takes if it is text.
        by_name = not stores.is_url(path) and path == readable(path)
        source = Path(path) if by_name else stack.enter_context(stores.opened_in_places(path))
        with _damage(), pq.ParquetFile(source, buffer_size=AT_A_TIME, pre_buffer=False) as file:
            yield source, file


class _UnreadError(Exception):
    """Bytes that can be read, and are not what they should be."""


@contextmanager
def _damage() -> Iterator[None]:
    try:
        yield
    except ExpansionError as error:
        raise _UnreadError(str(error)) from None
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        # The system's own has a number; memory or a store that fails says nothing of the file.
        is_others = isinstance(error, (MemoryError, stores.StoreError))
        if is_others or getattr(error, "errno", None) is not None:
            raise
        raise _UnreadError(f"damaged, or not Parquet: {_line(error)}") from error


def _line(error: Exception) -> str:
    return " ".join(str(error).split())


def table_of(paths: Sequence[str], folder: str, most: int) -> tuple[Rows, list[tuple[Range, int]]]:
    """Look at Parquet files, and divide them into ranges of whole row groups.

    Those that cannot be read are ranges, too, of which a fault is read. A range ends with the row
    group that makes it `most` bytes or more.

    Returns:
        How they are one table, and the ranges, each with its size in bytes.

    Raises:
        OSError: none of them is Parquet, or one cannot be read.
        SchemasError: they are not one table.
        ValueError: two columns of a file have one name.
    """
    ranges: list[tuple[Range, int]] = []
    schemas: dict[pa.Schema, None] = {}
    unread: list[tuple[str, str]] = []

    def look(path: str) -> tuple[pa.Schema, list[tuple[Range, int]]] | str:
        try:
            with _opened(path) as (_, file):
                return file.schema_arrow.remove_metadata(), [*_groups(path, file.metadata, most)]
        except _UnreadError as error:
            return str(error)

    for path, found in zip(paths, stores.of_each(look, paths), strict=True):
        if isinstance(found, str):
            unread.append((path, found))
            ranges.append((Range(path, PARQUET, 0, 0), 0))
        else:
            _refuse_twins(path, found[0].names)
            schemas.setdefault(found[0])
            ranges += found[1]
    if not schemas:
        path, said = unread[0]
        others = f"; and {len(unread) - 1:,} more files" if len(unread) > 1 else ""
        raise OSError(f"{path}: {said}{others}")
    try:
        schema = pa.unify_schemas([*map(_plain, schemas)], promote_options="default")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        said = f"{folder}: columns of its files differ in type: {_line(error)}"
        raise SchemasError(said) from None
    return Rows(_with_folders(schema, paths, folder), folder), ranges


def _refuse_twins(path: str, names: Sequence[str]) -> None:
    if len(set(names)) < len(names):
        twin = next(name for place, name in enumerate(names) if name in names[:place])
        raise ValueError(f"{path}: two of its columns have the name {twin!r}: rename one")


def _plain(found: pa.Schema) -> pa.Schema:
    """Return the columns of a file as `Bounded` reads them, without metadata."""
    arrays = [pa.nulls(0, field.type) for field in found]
    made = plainly(pa.RecordBatch.from_arrays(arrays, schema=found)).schema
    return pa.schema([field.remove_metadata().with_nullable(True) for field in made])


def _groups(path: str, metadata: Any, most: int) -> Iterator[tuple[Range, int]]:
    start = octets = 0
    for group in range(metadata.num_row_groups):
        octets += metadata.row_group(group).total_byte_size
        if octets >= most or group == metadata.num_row_groups - 1:
            yield Range(path, PARQUET, start, group + 1), octets
            start, octets = group + 1, 0


# Names of folders as columns.


def _folders(path: str, folder: str) -> dict[str, str]:
    """Return the columns in the names of a file's folders, ``name=value``."""
    parts = re.split(r"[/\\]", path.removeprefix(folder))[:-1]
    pairs = (part.partition("=") for part in parts)
    return {unquote(name): unquote(value) for name, equals, value in pairs if equals and name}


def _with_folders(schema: pa.Schema, paths: Sequence[str], folder: str) -> pa.Schema:
    texts: dict[str, list[str]] = {}
    for path in paths:
        for name, value in _folders(path, folder).items():
            texts.setdefault(name, []).append(value)
    for name, values in texts.items():
        if name in schema.names:
            raise SchemasError(f"{folder}: the column {name} is in files and in names of folders")
        schema = schema.append(pa.field(name, _type_of(values)))
    return schema


def _type_of(values: list[str]) -> pa.DataType:
    """Return the type that Spark finds for such values: integers, dates or texts."""
    there = [value for value in values if value != _NULL]
    if there and all(re.fullmatch(r"-?\d{1,18}", value) for value in there):
        return pa.int32() if all(abs(int(value)) < 1 << 31 for value in there) else pa.int64()
    if there and all(_date(value) for value in there):
        return pa.date32()
    return pa.string()


def _date(value: str) -> datetime.date | None:
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", value):
        return None
    try:
        return datetime.date.fromisoformat(value)
    except ValueError:
        return None


def _value_of(text: str | None, kind: pa.DataType) -> Any:
    if text is None or text == _NULL:
        return None
    if pa.types.is_integer(kind):
        return int(text)
    return _date(text) if pa.types.is_date(kind) else text


# Reading.


def batches(part: Range, rows: Rows, limits: Limits) -> Iterator[pa.RecordBatch]:
    """Read a range of a file as rows of a table, and `SOURCE` with `OFFSET`.

    What is damaged costs the rest of its row group, and a row with a `FAULT` says so.
    """
    place = _Place(part.path, rows)
    try:
        with _opened(part.path) as (source, file):
            octets = source.size if stores.is_url(part.path) else Path(part.path).stat().st_size
            bounded = Bounded(source, file, octets, limits, stop=part.stop)
            if fault := bounded.refused():
                raise ExpansionError(fault)
            numbers = [file.metadata.row_group(i).num_rows for i in range(part.stop)]
            for group in range(part.start, part.stop):
                yield from _group(bounded, group, sum(numbers[:group]), numbers[group], place)
            if part.start == part.stop:
                # It could not be read when the job began: nobody knows what that changed.
                raise _UnreadError("it was not whole when the job began")
    except _UnreadError as error:
        yield place.fault(f"{error}; {_ALL_UNREAD}", 0)


def _group(
    bounded: Bounded, group: int, start: int, count: int, place: _Place
) -> Iterator[pa.RecordBatch]:
    """Read a row group, whose first row has the number `start`, and which has `count` of them."""
    row = start
    try:
        with _damage():
            if fault := bounded.refused(group):
                raise ExpansionError(fault)
            for batch in bounded.batches(group, _BATCH_ROWS, _BATCH_OCTETS):
                yield place.rows(batch, row)
                row += batch.num_rows
    except _UnreadError as error:
        said = _ROWS_UNREAD.format(row, start + count - 1)
        yield place.fault(f"row group {group}: {error}; {said}", row)


class _Place:
    """Where rows come from: a file of a table."""

    def __init__(self, path: str, rows: Rows) -> None:
        self._path = readable(path)
        self._schema = rows.schema
        self._said = _folders(self._path, readable(rows.folder))
        self._is_placed = any(name.lower() in _PLACES for name in rows.schema.names)

    def rows(self, batch: pa.RecordBatch, start: int) -> pa.RecordBatch:
        """Return rows with all columns of the table; the first has the number `start`."""
        count = batch.num_rows
        names = [*self._schema.names]
        arrays = [self._column(batch, field) for field in self._schema]
        if not self._is_placed:
            names += [SOURCE, OFFSET]
            number = pa.repeat(pa.scalar(0, pa.int32()), count)
            arrays.append(pa.DictionaryArray.from_arrays(number, [self._path]))
            arrays.append(pc.add(_COUNTED.slice(0, count), start))
        return pa.RecordBatch.from_arrays(arrays, names)

    def _column(self, batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
        if field.name in self._said:
            value = pa.scalar(_value_of(self._said[field.name], field.type), field.type)
            return pa.repeat(value, batch.num_rows)
        at = batch.schema.get_field_index(field.name)
        if at < 0:
            return pa.nulls(batch.num_rows, field.type)
        column = batch.column(at)
        return column if column.type == field.type else column.cast(field.type)

    def fault(self, said: str, row: int) -> pa.RecordBatch:
        """Return the one row that stands for those from a row on that could not be read."""
        empty = pa.RecordBatch.from_arrays([pa.nulls(1)], [""])
        arrays = {field.name: self._column(empty, field) for field in self._schema}
        for field in self._schema:
            if field.name.lower() == "source" and pa.types.is_string(field.type):
                arrays[field.name] = pa.array([self._path])
            elif field.name.lower() == "offset" and field.type == pa.int64():
                arrays[field.name] = pa.array([row], pa.int64())
        if not self._is_placed:
            arrays[SOURCE] = pa.DictionaryArray.from_arrays(pa.array([0], pa.int32()), [self._path])
            arrays[OFFSET] = pa.array([row], pa.int64())
        arrays[FAULT] = pa.array([f"{self._path}: {said}"])
        return pa.RecordBatch.from_arrays(list(arrays.values()), list(arrays))
