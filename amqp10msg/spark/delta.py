"""Write streams to Delta Lake tables, each batch exactly once, without Spark's Delta connector."""

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
from amqp10msg.spark._frames import SPARK_METADATA_KEY, arrow_schema, spark_schema
from amqp10msg.spark._workers import freeze_imports
from amqp10msg.spark.sink import job_description
from amqp10msg.wire.later import of_extra

# Types that partition columns may have: for their values, `str` returns the text for the table log.
_IS_PARTITION_TYPE = (
    pa.types.is_string,
    pa.types.is_integer,
    pa.types.is_boolean,
    pa.types.is_date,
)


def to_delta(
    table: str | Path,
    app: str,
    *,
    quarantine: str | Path | None = None,
    partition_by: Sequence[str] = (),
    storage_options: Mapping[str, str] | None = None,
) -> Callable[[DataFrame, int], None]:
    """Return a function for ``foreachBatch`` that appends the batches to a Delta table.

    Each batch is one transaction, stored in the table with the batch number. If Spark repeats a
    batch after a failure, its number is found in the table and the batch is skipped. The workers
    write the files of both tables in one pass over the rows; the driver receives only the file
    names. New columns are added to an existing table. VARIANT columns stay VARIANT; readers then
    need Delta's feature ``variantType``. The extra ``amqp10msg[delta]`` is required, also on the
    workers if the table is in an object store.

    Args:
        table: the table, as a path on a file system that all workers share, or as a URL; created
            with the first batch.
        app: the name of the stream in the table log. It belongs to one checkpoint: with a new
            checkpoint, batch numbers restart, so use a new name. It is an error if the table has
            batches of another checkpoint under this name.
        quarantine: a second table for rows with an ``error`` or ``error_code``; None to write all
            rows to the first table.
        partition_by: string, integer, boolean or date columns to partition a new `table` by.
        storage_options: options of the object store, as in deltalake.

    Raises:
        ModuleNotFoundError: deltalake is not installed.
        ValueError: raised by the returned function: the table has other partition columns, or a
            column of another type; or the rows have a VARIANT, and deltalake is too old for it.
    """
    deltalake = of_extra("deltalake", "delta", "to_delta needs deltalake")
    options = None if storage_options is None else dict(storage_options)
    requested = [(table, list(partition_by)), *([] if quarantine is None else [(quarantine, [])])]
    # Absolute paths, because tasks have another working directory.
    tables = [
        (str(location) if "://" in str(location) else str(Path(location).absolute()), columns)
        for location, columns in requested
    ]

    def open_table(location: str, columns: list[str], schema: Any) -> Any:
        """Open a table; create it, or add the columns of the schema, as needed."""
        delta_table = deltalake.DeltaTable.create(
            location, schema, mode="ignore", partition_by=columns, storage_options=options
        )
        if columns != list(delta_table.metadata().partition_columns):
            raise ValueError(
                f"{location}: partition_by must name the partition columns of the table, "
                f"{', '.join(delta_table.metadata().partition_columns) or 'none'}, got "
                f"{', '.join(columns) or 'none'}"
            )
        existing = {field.name.lower(): field for field in delta_table.schema().fields}
        for field in schema.fields:
            current = existing.get(field.name.lower(), field)
            if (current.name, current.type) != (field.name, field.type):
                raise ValueError(
                    f"{location}: the table has a column {current.name} of type {current.type}, "
                    f"but the rows have {field.name} of type {field.type}: rename or cast it"
                )
        added = [field for field in schema.fields if field.name.lower() not in existing]
        if added:
            delta_table.alter.add_columns(added)
        return delta_table

    def write(df: DataFrame, batch: int) -> None:
        """Append a batch of a stream to the tables that do not have it yet."""
        arrow = arrow_schema(df.schema)
        _check_columns(arrow, partition_by, has_quarantine=quarantine is not None)
        schema = _delta_schema(deltalake.Schema, arrow)
        delta_tables = [open_table(location, columns, schema) for location, columns in tables]
        last_versions = [delta_table.transaction_version(app) for delta_table in delta_tables]
        query = _streaming_query_id(df)
        for (location, _), delta_table, number in zip(
            tables, delta_tables, last_versions, strict=True
        ):
            if number is not None and (
                number > batch or _is_from_other_query(delta_table, app, batch, query)
            ):
                raise ValueError(
                    f"{location}: {app!r} has already written batch {number} from another "
                    f"checkpoint, so batch {batch} would be skipped: use another app name"
                )
        needed = [number is None or number < batch for number in last_versions]
        if not any(needed):
            return
        targets = [
            _TableLocation(location, columns, options) if needs_batch else None
            for (location, columns), needs_batch in zip(tables, needed, strict=True)
        ]
        files = _TaskWriter(targets)
        with job_description(df.sparkSession, f"to_delta: batch {batch} -> {table}"):
            file_rows = _collect(
                df.mapInArrow(cast("Any", files.write), spark_schema(_WRITTEN_FILE_SCHEMA))
            )
        for number, delta_table in enumerate(delta_tables):
            if needed[number]:
                adds = [
                    deltalake.transaction.AddAction(
                        path=row["path"],
                        size=row["size"],
                        partition_values=dict(row["partition"]),
                        modification_time=row["time"],
                        data_change=True,
                        stats=row["stats"],
                    )
                    for row in file_rows
                    if row["table"] == number
                ]
                transaction = deltalake.Transaction(app_id=app, version=batch)
                delta_table.create_write_transaction(
                    adds,
                    "append",
                    delta_table.schema(),
                    partition_by=tables[number][1],
                    commit_properties=deltalake.CommitProperties(
                        app_transactions=[transaction],
                        custom_metadata={_BATCH_METADATA_KEY: json.dumps([app, batch, query])},
                    ),
                )

    return write


# Key in the metadata of a commit in the table log. The value is [app, batch, query id]; the query
# id identifies the checkpoint.
_BATCH_METADATA_KEY = "amqp10msg.batch"
# The number of commits to search for the last batch of an app.
_MAX_COMMITS_SCANNED = 1_000


def _streaming_query_id(df: DataFrame) -> str | None:
    """Return the id of the streaming query; None with Spark Connect or outside of a stream."""
    session: Any = df.sparkSession
    if not isinstance(session, SparkSession):
        return None
    return session.sparkContext.getLocalProperty("sql.streaming.queryId")


def _is_from_other_query(table: Any, app: str, batch: int, query: str | None) -> bool:
    """Return True if the app's last batch in the table is `batch`, written by another query."""
    if query is None or table.transaction_version(app) != batch:
        return False
    for commit in table.history(_MAX_COMMITS_SCANNED):
        text = commit.get(_BATCH_METADATA_KEY)
        if not text:
            continue
        try:
            name, number, other_query = load_json(text)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"{table.table_uri}: version {commit.get('version')} has damaged metadata in "
                f"{_BATCH_METADATA_KEY}, so its batches are unknown: {error}"
            ) from None
        if [name, number] == [app, batch]:
            return other_query is not None and other_query != query
    return False


def _collect(df: DataFrame) -> list[Any]:
    """Return the rows of `df`. `DataFrame.collect` would rename the stage in Spark's UI."""
    session: Any = df.sparkSession
    if not isinstance(session, SparkSession):
        return df.collect()
    return session.sparkContext.runJob(df.rdd, list)


def _delta_schema(schema_class: Any, rows: pa.Schema) -> Any:
    """Return the Delta schema for rows: nullable columns, with comments, VARIANT included.

    Args:
        schema_class: `deltalake.Schema`, which cannot convert VARIANT from Arrow.
        rows: the Arrow schema of the rows.

    Raises:
        ValueError: a column is a VARIANT, and deltalake does not support that type.
    """
    fields = []
    for field in rows:
        column_metadata = json.loads((field.metadata or {}).get(SPARK_METADATA_KEY, b"{}"))
        comment = {"comment": column_metadata["comment"]} if "comment" in column_metadata else None
        fields.append(field.with_nullable(True).with_metadata(comment))
    schema = schema_class.from_arrow(pa.schema(fields))
    plain = json.loads(schema.to_json())
    with_variants = _replace_variants(plain)
    if with_variants == plain:
        return schema
    try:
        return schema_class.from_json(json.dumps(with_variants))
    except Exception as error:
        names = [
            field["name"]
            for field, plain_field in zip(with_variants["fields"], plain["fields"], strict=True)
            if field != plain_field
        ]
        raise ValueError(
            f"the column {', '.join(names)} is a VARIANT, which this version of deltalake cannot "
            f"write: pip install --upgrade 'amqp10msg[delta]', or decode with maps='map' ({error})"
        ) from error


def _replace_variants(part: Any) -> Any:
    """Replace the structs of VARIANT columns in a JSON schema by Delta's type ``variant``."""
    if isinstance(part, list):
        return [_replace_variants(item) for item in part]
    if not isinstance(part, dict):
        return part
    if part.get("type") == "struct" and any(
        "variant" in field["metadata"] for field in part["fields"]
    ):
        return "variant"
    return {key: _replace_variants(value) for key, value in part.items()}


def _check_columns(schema: pa.Schema, partition_by: Sequence[str], *, has_quarantine: bool) -> None:
    """Raise ValueError if a required column is missing, or a partition column has a wrong type."""
    missing = [name for name in partition_by if name not in schema.names]
    if has_quarantine and _error_column(schema.names) is None:
        missing.append("error or error_code")
    if missing:
        raise ValueError(
            f"no column {', '.join(missing)} in the rows: they have {', '.join(schema.names)}"
        )
    for name in partition_by:
        arrow_type = schema.field(name).type
        if not any(is_allowed(arrow_type) for is_allowed in _IS_PARTITION_TYPE):
            raise ValueError(
                f"partition_by: the column {name} must be a string, an integer, a boolean or a "
                f"date, got {arrow_type}: cast it first"
            )


# Write the files in the workers.

# A row describes a written file: the number of its table, and the entry for the table log.
_WRITTEN_FILE_SCHEMA = pa.schema(
    [
        ("table", pa.int32()),
        ("path", pa.string()),
        ("size", pa.int64()),
        ("time", pa.int64()),
        ("partition", pa.map_(pa.string(), pa.string())),
        ("stats", pa.string()),
    ]
)
# The maximum number of open files per table in a task. With more partitions, the file that was
# opened first is closed.
_MAX_OPEN_FILES = 64
# Maximum length of a string as the minimum or maximum of a column; longer strings are cut.
_MAX_BOUND_CHARACTERS = 64
#: The largest character, with which a cut maximum ends, so that it is not less than the column's
#: values.
_LAST_CHARACTER = "\U0010ffff"


@attrs.frozen
class _TableLocation:
    """A table to write to: its folder or URL, its partition columns, and options of the store."""

    location: str
    partition_by: Sequence[str]
    options: dict[str, str] | None

    def opener(self) -> Callable[[str], contextlib.AbstractContextManager[Any]]:
        """Return a function that opens a new file of the table for writing."""
        local = self.location.removeprefix("file://")
        if "://" not in local:
            return lambda name: synced(Path(local, name))
        from deltalake.fs import DeltaStorageHandler  # noqa: PLC0415  (an extra)
        from pyarrow.fs import PyFileSystem  # noqa: PLC0415  (rarely needed)

        store = PyFileSystem(DeltaStorageHandler(self.location, self.options))
        return store.open_output_stream  # type: ignore[no-any-return]  # deltalake has no types


def _error_column(names: Sequence[str]) -> str | None:
    """Return the error column in `names`: ``error`` or ``error_code``; None without either."""
    return next((name for name in ("error", "error_code") if name in names), None)


@attrs.frozen
class _TaskWriter:
    """Writes the rows of a task to files of the tables; picklable.

    Attributes:
        targets: the table for all rows, or the tables for good and for bad rows. None stands for a
            table that already has the batch; its rows are skipped.
    """

    targets: Sequence[_TableLocation | None]

    def write(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write batches; yield a row of `_WRITTEN_FILE_SCHEMA` for each file."""
        writers = [
            None if target is None else _TableWriter(number, target)
            for number, target in enumerate(self.targets)
        ]
        for source in batches:
            batch = pa.RecordBatch.from_arrays(
                [_fill_null_variants(column) for column in source.columns], schema=source.schema
            )
            parts = [batch]
            if len(writers) > 1:
                bad = pc.is_valid(batch.column(_error_column(batch.schema.names) or ""))
                parts = [batch.filter(pc.invert(bad)), batch.filter(bad)]
            for writer, part in zip(writers, parts, strict=True):
                if writer is not None and part.num_rows:
                    writer.write(part)
        rows = [row for writer in writers if writer is not None for row in writer.finish()]
        yield pa.RecordBatch.from_pylist(rows, schema=_WRITTEN_FILE_SCHEMA)
        freeze_imports()


class _TableWriter:
    """Writes the rows of a task to files of one table: an open file for each partition."""

    def __init__(self, number: int, target: _TableLocation) -> None:
        self._number = number
        self._columns = list(target.partition_by)
        self._open_file = target.opener()
        self._open_files: dict[tuple[Any, ...], tuple[str, ParquetFile]] = {}
        self._finished: list[dict[str, Any]] = []

    def write(self, batch: pa.RecordBatch) -> None:
        """Write the rows of a batch to the files of their partitions."""
        if not self._columns:
            self._partition_file(()).write(batch)
            return
        # Group the row numbers of the batch by partition.
        row_table = pa.Table.from_batches([batch]).select(self._columns)
        row_table = row_table.append_column("", pa.array(range(batch.num_rows)))
        groups = row_table.group_by(self._columns).aggregate([("", "list")]).to_pydict()
        data = batch.drop_columns(self._columns)
        values = zip(*(groups[name] for name in self._columns), strict=True)
        for value, rows in zip(values, groups["_list"], strict=True):
            self._partition_file(value).write(data.take(pa.array(rows)))

    def _partition_file(self, values: tuple[Any, ...]) -> ParquetFile:
        """Return the open file of the partition with these values; open it if necessary."""
        if values not in self._open_files:
            if len(self._open_files) >= _MAX_OPEN_FILES:
                self._finish_file(next(iter(self._open_files)))
            name = f"part-{uuid.uuid4().hex}.snappy.parquet"
            self._open_files[values] = name, ParquetFile(partial(self._open_file, name), "snappy")
        return self._open_files[values][1]

    def _finish_file(self, values: tuple[Any, ...]) -> None:
        """Close the file of a partition, and record its entry for the table log."""
        name, file = self._open_files.pop(values)
        file.close()
        self._finished.append(
            {
                "table": self._number,
                "path": name,
                "size": file.size,
                "time": int(time.time() * 1000),
                "partition": [*zip(self._columns, map(_partition_text, values), strict=True)],
                # Characters are not escaped: deltalake 1.6 cannot read escaped surrogate pairs.
                "stats": json.dumps(_file_statistics(file.metadata), ensure_ascii=False),
            }
        )

    def finish(self) -> list[dict[str, Any]]:
        """Close all files; return a row of `_WRITTEN_FILE_SCHEMA` for each file."""
        while self._open_files:
            self._finish_file(next(iter(self._open_files)))
        return self._finished


def _fill_null_variants(array: Any) -> Any:
    """Replace null members of null VARIANT values by empty bytes.

    Spark sets these members to null although they are not nullable, and the Parquet writer rejects
    that.
    """
    arrow_type = array.type
    if not pa.types.is_struct(arrow_type) or not _has_variant(arrow_type):
        return array
    members = [_fill_null_variants(array.field(index)) for index in range(arrow_type.num_fields)]
    if arrow_type == VARIANT:
        members = [pc.fill_null(member, b"") for member in members]
    return pa.StructArray.from_arrays(members, fields=list(arrow_type), mask=array.is_null())


def _has_variant(arrow_type: pa.DataType) -> bool:
    """Return whether a type is a VARIANT, or a struct that contains one."""
    return arrow_type == VARIANT or (
        pa.types.is_struct(arrow_type) and any(_has_variant(field.type) for field in arrow_type)
    )


def _partition_text(value: Any) -> str | None:
    """Format a partition value for the table log."""
    if value is None:
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)


def _file_statistics(metadata: Any) -> dict[str, Any]:
    """Return row count, null counts, minimums and maximums of a file, for the table log."""
    lows: dict[str, Any] = {}
    highs: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for index in range(metadata.num_columns):
        groups = [metadata.row_group(i).column(index) for i in range(metadata.num_row_groups)]
        name, statistics = groups[0].path_in_schema, [group.statistics for group in groups]
        if "." in name or any(item is None or not item.has_null_count for item in statistics):
            continue
        nonempty = [item for item in statistics if item.num_values]
        if nonempty:
            if not all(item.has_min_max for item in nonempty):
                continue
            low, high = min(item.min for item in nonempty), max(item.max for item in nonempty)
            # Columns of other types get no minimum and maximum. They also get no nullCount, because
            # readers disagree on its meaning without minimum and maximum.
            if not isinstance(low, str | int | datetime.date):
                continue
            if not isinstance(low, bool):
                lows[name], highs[name] = _format_bound(low), _format_bound(high, _LAST_CHARACTER)
        nulls[name] = sum(item.null_count for item in statistics)
    counts = {"numRecords": metadata.num_rows, "nullCount": nulls}
    return {**counts, "minValues": lows, "maxValues": highs}


def _format_bound(value: Any, suffix: str = "") -> Any:
    """Format a minimum or maximum for the table log; `suffix` is added to a string that is cut."""
    if isinstance(value, datetime.datetime):
        return value.isoformat(timespec="microseconds").replace("+00:00", "Z")
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, str):
        is_short = (
            len(value) <= _MAX_BOUND_CHARACTERS or value[_MAX_BOUND_CHARACTERS] == _LAST_CHARACTER
        )
        return value if is_short else value[:_MAX_BOUND_CHARACTERS] + suffix
    return value
