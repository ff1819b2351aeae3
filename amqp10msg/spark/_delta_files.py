"""The files of Delta tables, as the workers write them."""

from __future__ import annotations

import contextlib
import datetime
import json
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from amqp10msg.columns import VARIANT
from amqp10msg.files.atomic import synced
from amqp10msg.jobs.output import ParquetFile
from amqp10msg.spark._workers import settle

#: What is said of a file: of which table it is, and what the log of the table says of it.
MADE = "table int, path string, size long, time long, partition map<string, string>, stats string"
_MADE = pa.schema(
    [
        ("table", pa.int32()),
        ("path", pa.string()),
        ("size", pa.int64()),
        ("time", pa.int64()),
        ("partition", pa.map_(pa.string(), pa.string())),
        ("stats", pa.string()),
    ]
)
# Files that a task writes at once: with more partitions, the oldest is ended.
_MOST_OPEN = 64
# Longer texts are not worth their room in the log of a table.
_LONGEST = 64
_LAST = "\U0010ffff"


@attrs.frozen
class TableFiles:
    """Where the files of one table go.

    Attributes:
        place: its folder, or a URL.
        partition_by: the columns that divide them.
        options: of an object store.
    """

    place: str
    partition_by: Sequence[str]
    options: dict[str, str] | None

    def opener(self) -> Callable[[str], contextlib.AbstractContextManager[Any]]:
        """Return what opens a new file of the table for writing."""
        local = self.place.removeprefix("file://")
        if "://" not in local:
            return lambda name: synced(Path(local, name))
        from deltalake.fs import DeltaStorageHandler  # noqa: PLC0415  (an extra)
        from pyarrow.fs import PyFileSystem  # noqa: PLC0415  (few tables are in a store)

        store = PyFileSystem(DeltaStorageHandler(self.place, self.options))
        return store.open_output_stream  # type: ignore[no-any-return]


def error_column(names: Sequence[str]) -> str | None:
    """Return the column that says why a message is bad; None where there is none."""
    return next((name for name in ("error", "error_code") if name in names), None)


@attrs.frozen
class Files:
    """Writes the rows of a task to the files of the tables, and says which these are.

    Attributes:
        targets: the table of all rows, or that of the good and that of the bad ones; None for one
            whose rows are there already.
    """

    targets: Sequence[TableFiles | None]

    def write(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write batches; yield a row of `MADE` for each file."""
        writers = [
            None if target is None else _Writer(number, target)
            for number, target in enumerate(self.targets)
        ]
        for given in batches:
            batch = pa.RecordBatch.from_arrays(
                [_filled(column) for column in given.columns], schema=given.schema
            )
            parts = [batch]
            if len(writers) > 1:
                bad = pc.is_valid(batch.column(error_column(batch.schema.names) or ""))
                parts = [batch.filter(pc.invert(bad)), batch.filter(bad)]
            for writer, part in zip(writers, parts, strict=True):
                if writer is not None and part.num_rows:
                    writer.write(part)
        rows = [row for writer in writers if writer is not None for row in writer.finish()]
        yield pa.RecordBatch.from_pylist(rows, schema=_MADE)
        settle()


class _Writer:
    """Writes the files of one table."""

    def __init__(self, number: int, target: TableFiles) -> None:
        self._number = number
        self._columns = list(target.partition_by)
        self._opened = target.opener()
        self._open: dict[tuple[Any, ...], tuple[str, ParquetFile]] = {}
        self._made: list[dict[str, Any]] = []

    def write(self, batch: pa.RecordBatch) -> None:
        if not self._columns:
            self._file_of(()).write(batch)
            return
        # Of the rows of each partition, as numbers in the batch.
        numbered = pa.Table.from_batches([batch]).select(self._columns)
        numbered = numbered.append_column("", pa.array(range(batch.num_rows)))
        groups = numbered.group_by(self._columns).aggregate([("", "list")]).to_pydict()
        rest = batch.drop_columns(self._columns)
        values = zip(*(groups[name] for name in self._columns), strict=True)
        for value, rows in zip(values, groups["_list"], strict=True):
            self._file_of(value).write(rest.take(pa.array(rows)))

    def _file_of(self, values: tuple[Any, ...]) -> ParquetFile:
        if values not in self._open:
            if len(self._open) >= _MOST_OPEN:
                self._end(next(iter(self._open)))
            name = f"part-{uuid.uuid4().hex}.snappy.parquet"
            self._open[values] = name, ParquetFile(partial(self._opened, name), "snappy")
        return self._open[values][1]

    def _end(self, values: tuple[Any, ...]) -> None:
        name, file = self._open.pop(values)
        file.close()
        self._made.append(
            {
                "table": self._number,
                "path": name,
                "size": file.size,
                "time": int(time.time() * 1000),
                "partition": [*zip(self._columns, map(_text, values), strict=True)],
                # Not escaped: deltalake 1.6 does not read a pair of surrogates.
                "stats": json.dumps(_stats(file.metadata), ensure_ascii=False),
            }
        )

    def finish(self) -> list[dict[str, Any]]:
        while self._open:
            self._end(next(iter(self._open)))
        return self._made


def _filled(array: Any) -> Any:
    """Return an array where the members of a VARIANT that is null are no bytes.

    Spark has nulls there, although the members are declared without, which Parquet refuses.
    """
    kind = array.type
    if not pa.types.is_struct(kind) or not _has_variant(kind):
        return array
    members = [_filled(array.field(place)) for place in range(kind.num_fields)]
    if kind == VARIANT:
        members = [pc.fill_null(member, b"") for member in members]
    return pa.StructArray.from_arrays(members, fields=list(kind), mask=array.is_null())


def _has_variant(kind: pa.DataType) -> bool:
    return kind == VARIANT or (
        pa.types.is_struct(kind) and any(_has_variant(field.type) for field in kind)
    )


def _text(value: Any) -> str | None:
    """Return the value of a partition as the log of a table has it."""
    if value is None:
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)


def _stats(metadata: Any) -> dict[str, Any]:
    """Return the counts and bounds of a Parquet file's columns, as the log of a table has them."""
    lows: dict[str, Any] = {}
    highs: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for index in range(metadata.num_columns):
        groups = [metadata.row_group(i).column(index) for i in range(metadata.num_row_groups)]
        name, found = groups[0].path_in_schema, [group.statistics for group in groups]
        if "." in name or any(one is None or not one.has_null_count for one in found):
            continue
        there = [one for one in found if one.num_values]
        if there:
            if not all(one.has_min_max for one in there):
                continue
            low, high = min(one.min for one in there), max(one.max for one in there)
            # Readers differ in what a count of nulls without bounds says to them.
            if not isinstance(low, str | int | datetime.date):
                continue
            if not isinstance(low, bool):
                lows[name], highs[name] = _bound(low), _bound(high, _LAST)
        nulls[name] = sum(one.null_count for one in found)
    counts = {"numRecords": metadata.num_rows, "nullCount": nulls}
    return {**counts, "minValues": lows, "maxValues": highs}


def _bound(value: Any, behind: str = "") -> Any:
    """Return a bound as the log of a table has it; `behind` is put behind a text that is cut."""
    if isinstance(value, datetime.datetime):
        return value.isoformat(timespec="microseconds").replace("+00:00", "Z")
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, str):
        is_short = len(value) <= _LONGEST or value[_LONGEST] == _LAST
        return value if is_short else value[:_LONGEST] + behind
    return value
