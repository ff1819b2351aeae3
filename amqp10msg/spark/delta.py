"""Streams into tables of Delta Lake, each batch once; without the connector of Spark."""

from __future__ import annotations

import contextlib
import datetime
import json
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import attrs
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from amqp10msg.atomic_files import synced
from amqp10msg.columns import VARIANT
from amqp10msg.files.text import load_json
from amqp10msg.jobs.writing import ParquetFile
from amqp10msg.spark._frames import OF_SPARK, arrow_schema, for_spark
from amqp10msg.spark._workers import settle
from amqp10msg.spark.sink import described
from amqp10msg.wire.later import of_extra

# Types whose values are the same text in the log of a table and everywhere else.
_OF_PARTITIONS = (pa.types.is_string, pa.types.is_integer, pa.types.is_boolean, pa.types.is_date)


def to_delta(
    table: str | Path,
    app: str,
    *,
    quarantine: str | Path | None = None,
    partition_by: Sequence[str] = (),
    storage_options: Mapping[str, str] | None = None,
) -> Callable[[DataFrame, int], None]:
    """Return a function for ``foreachBatch`` that appends the batches to a Delta table.

    Each batch is one transaction of the table, which has its number; one that Spark repeats,
    because something was killed before the checkpoint had it, is found there and left out. The
    workers write the files, in one pass over the rows for both tables, and the driver gets their
    names alone. New columns of the rows are added to a table that is there. A VARIANT is one in the
    table, which needs a reader of Delta's feature ``variantType``. Needs the extra
    ``amqp10msg[delta]``; the workers need it, too, where the table is in an object store.

    Args:
        table: where it is, on a file system that all workers share, or a URL; made with the first
            batch.
        app: the name of the stream in the log of the table. It belongs to one checkpoint: with
            another one, whose batches are counted again, give another name. Batches that the table
            has by another checkpoint are an error.
        quarantine: a second table, for rows with an ``error`` or an ``error_code``; all go to the
            first where None.
        partition_by: columns of strings, integers, booleans or dates whose values divide the files
            of `table`, when it is made.
        storage_options: of an object store, as deltalake has them.

    Raises:
        ModuleNotFoundError: deltalake is not installed.
        ValueError: when a batch comes: the table is partitioned otherwise, or has a column of
            another type, or the rows have a VARIANT and deltalake is too old for that.
    """
    deltalake = of_extra("deltalake", "delta", "to_delta needs deltalake")
    options = None if storage_options is None else dict(storage_options)
    given = [(table, list(partition_by)), *([] if quarantine is None else [(quarantine, [])])]
    # The tasks have another current folder.
    tables = [
        (str(place) if "://" in str(place) else str(Path(place).absolute()), columns)
        for place, columns in given
    ]

    def opened(place: str, columns: list[str], schema: Any) -> Any:
        """Return a table, made where it is not there, with the columns of the schema."""
        made = deltalake.DeltaTable.create(
            place, schema, mode="ignore", partition_by=columns, storage_options=options
        )
        if columns != list(made.metadata().partition_columns):
            raise ValueError(
                f"{place}: the table is partitioned by "
                f"{', '.join(made.metadata().partition_columns) or 'nothing'}, and not by "
                f"{', '.join(columns) or 'nothing'}: name the same in partition_by"
            )
        there = {field.name.lower(): field for field in made.schema().fields}
        for field in schema.fields:
            known = there.get(field.name.lower(), field)
            if (known.name, known.type) != (field.name, field.type):
                raise ValueError(
                    f"{place}: the table has a column {known.name} of {known.type}, and the rows "
                    f"have {field.name} of {field.type}: rename or cast it"
                )
        new = [field for field in schema.fields if field.name.lower() not in there]
        if new:
            made.alter.add_columns(new)
        return made

    def write(df: DataFrame, batch: int) -> None:
        arrow = arrow_schema(df.schema)
        _check(arrow, partition_by, is_divided=quarantine is not None)
        schema = _schema(deltalake.Schema, arrow)
        found = [opened(place, columns, schema) for place, columns in tables]
        last = [one.transaction_version(app) for one in found]
        query = _query_of(df)
        for (place, _), one, number in zip(tables, found, last, strict=True):
            if number is not None and (number > batch or _is_of_another(one, app, batch, query)):
                raise ValueError(
                    f"{place}: {app} has written batch {number} there by another checkpoint, and "
                    f"batch {batch} of this one would be passed over: give another app"
                )
        missing = [number is None or number < batch for number in last]
        if not any(missing):
            return
        targets = [
            _TableFiles(place, columns, options) if is_missing else None
            for (place, columns), is_missing in zip(tables, missing, strict=True)
        ]
        files = _Files(targets)
        with described(df.sparkSession, f"to_delta: batch {batch} -> {table}"):
            made = _collected(df.mapInArrow(cast("Any", files.write), for_spark(_MADE)))
        for number, one in enumerate(found):
            if missing[number]:
                adds = [
                    deltalake.transaction.AddAction(
                        path=row["path"],
                        size=row["size"],
                        partition_values=dict(row["partition"]),
                        modification_time=row["time"],
                        data_change=True,
                        stats=row["stats"],
                    )
                    for row in made
                    if row["table"] == number
                ]
                transaction = deltalake.Transaction(app_id=app, version=batch)
                one.create_write_transaction(
                    adds,
                    "append",
                    one.schema(),
                    partition_by=tables[number][1],
                    commit_properties=deltalake.CommitProperties(
                        app_transactions=[transaction],
                        custom_metadata={_WRITTEN: json.dumps([app, batch, query])},
                    ),
                )

    return write


# In the log of a table: the app, the batch and its query, which is that of a checkpoint.
_WRITTEN = "amqp10msg.batch"
# Commits of a table that are looked through for the last batch of an app.
_LOOKED_AT = 1_000


def _query_of(df: DataFrame) -> str | None:
    """Return the id of the query that has a batch written; None where it is not known."""
    session: Any = df.sparkSession
    if not isinstance(session, SparkSession):
        return None
    return session.sparkContext.getLocalProperty("sql.streaming.queryId")


def _is_of_another(table: Any, app: str, batch: int, query: str | None) -> bool:
    """Return whether the last batch of an app has this number, and is that of another query."""
    if query is None or table.transaction_version(app) != batch:
        return False
    for commit in table.history(_LOOKED_AT):
        text = commit.get(_WRITTEN)
        if not text:
            continue
        try:
            name, number, other = load_json(text)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"{table.table_uri}: version {commit.get('version')} has damaged metadata in "
                f"{_WRITTEN}, so that nobody knows which batches the table has: {error}"
            ) from None
        if [name, number] == [app, batch]:
            return other is not None and other != query
    return False


def _collected(df: DataFrame) -> list[Any]:
    """Return the rows; `DataFrame.collect` would name the stage after a line of this file."""
    session: Any = df.sparkSession
    if not isinstance(session, SparkSession):
        return df.collect()
    return session.sparkContext.runJob(df.rdd, list)


def _schema(kind: Any, rows: pa.Schema) -> Any:
    """Return the schema of a table for rows, whose columns later batches may leave out.

    Of what Spark keeps with a column, a table has the comment. The kind is deltalake's class of
    schemas, which knows no VARIANT in Arrow.

    Raises:
        ValueError: there is a VARIANT, and deltalake has no such type.
    """
    fields = []
    for field in rows:
        said = json.loads((field.metadata or {}).get(OF_SPARK, b"{}"))
        comment = {"comment": said["comment"]} if "comment" in said else None
        fields.append(field.with_nullable(True).with_metadata(comment))
    made = kind.from_arrow(pa.schema(fields))
    given = json.loads(made.to_json())
    found = _with_variants(given)
    if found == given:
        return made
    try:
        return kind.from_json(json.dumps(found))
    except Exception as error:
        names = [
            one["name"]
            for one, old in zip(found["fields"], given["fields"], strict=True)
            if one != old
        ]
        raise ValueError(
            f"the column {', '.join(names)} is a VARIANT, which this version of deltalake does not "
            f"know: pip install --upgrade 'amqp10msg[delta]', or decode with maps='map' ({error})"
        ) from error


def _with_variants(part: Any) -> Any:
    """Return a part of a schema in JSON with Delta's type instead of the structs of VARIANT."""
    if isinstance(part, list):
        return [_with_variants(one) for one in part]
    if not isinstance(part, dict):
        return part
    if part.get("type") == "struct" and any(
        "variant" in field["metadata"] for field in part["fields"]
    ):
        return "variant"
    return {key: _with_variants(value) for key, value in part.items()}


def _check(schema: pa.Schema, partition_by: Sequence[str], *, is_divided: bool) -> None:
    """Raise ValueError where the rows cannot be written as they are to be."""
    missing = [name for name in partition_by if name not in schema.names]
    if is_divided and _error_column(schema.names) is None:
        missing.append("error or error_code")
    if missing:
        raise ValueError(
            f"there is no column {', '.join(missing)}: there are {', '.join(schema.names)}"
        )
    for name in partition_by:
        kind = schema.field(name).type
        if not any(is_one(kind) for is_one in _OF_PARTITIONS):
            raise ValueError(
                f"partition_by: the column {name} is {kind}, and must be a string, an integer, a "
                "boolean or a date: cast it first"
            )


# The files, as the workers write them.

# What is said of a file: of which table it is, and what the log of the table says of it.
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
class _TableFiles:
    """Where the files of one table go: a folder or a URL, and the options of a store."""

    place: str
    partition_by: Sequence[str]
    options: dict[str, str] | None

    def opener(self) -> Callable[[str], contextlib.AbstractContextManager[Any]]:
        """Return a function that opens a new file of the table for writing."""
        local = self.place.removeprefix("file://")
        if "://" not in local:
            return lambda name: synced(Path(local, name))
        from deltalake.fs import DeltaStorageHandler  # noqa: PLC0415  (an extra)
        from pyarrow.fs import PyFileSystem  # noqa: PLC0415  (few tables are in a store)

        store = PyFileSystem(DeltaStorageHandler(self.place, self.options))
        return store.open_output_stream  # type: ignore[no-any-return]  # the other package has no types


def _error_column(names: Sequence[str]) -> str | None:
    """Return the column that says why a message is bad; None where there is none."""
    return next((name for name in ("error", "error_code") if name in names), None)


@attrs.frozen
class _Files:
    """Writes the rows of a task to the files of the tables, and says which these are.

    They are the table of all rows, or that of the good and that of the bad ones; None stands for
    one whose rows are there already.
    """

    targets: Sequence[_TableFiles | None]

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
                bad = pc.is_valid(batch.column(_error_column(batch.schema.names) or ""))
                parts = [batch.filter(pc.invert(bad)), batch.filter(bad)]
            for writer, part in zip(writers, parts, strict=True):
                if writer is not None and part.num_rows:
                    writer.write(part)
        rows = [row for writer in writers if writer is not None for row in writer.finish()]
        yield pa.RecordBatch.from_pylist(rows, schema=_MADE)
        settle()


class _Writer:
    """Writes the files of one table."""

    def __init__(self, number: int, target: _TableFiles) -> None:
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
    """Return an array where the members of a VARIANT that is null are not bytes.

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


def _bound(value: Any, after: str = "") -> Any:
    """Return a bound as the log of a table has it; `after` follows a text that is cut."""
    if isinstance(value, datetime.datetime):
        return value.isoformat(timespec="microseconds").replace("+00:00", "Z")
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, str):
        is_short = len(value) <= _LONGEST or value[_LONGEST] == _LAST
        return value if is_short else value[:_LONGEST] + after
    return value
