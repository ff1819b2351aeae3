"""Apply functions that take Arrow batches to DataFrames, after checking the schemas."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from inspect import signature
from typing import Any, cast

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  (the usual alias)
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import BinaryType, DataType, StringType, StructField, StructType

from amqp10msg.columns import SETS, MapsAs, in_pieces, schema_of
from amqp10msg.jobs.inputs import common_names
from amqp10msg.jobs.job import ERROR_COLUMN_NAMES, cast_array, schema_for_spark
from amqp10msg.spark._workers import freeze_imports, missing_kernel_warning, warn_once

#: Computes the new columns of a batch, in the order of their schema.
ComputeColumns = Callable[[pa.RecordBatch], Sequence[pa.Array]]


#: Key in the metadata of an Arrow field; its value is the metadata of the Spark column, as JSON.
SPARK_METADATA_KEY = b"SPARK::metadata::json"


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow types of a DataFrame's columns; timestamps are in UTC."""
    if "timezone" in signature(to_arrow_schema).parameters:
        return to_arrow_schema(schema, timezone="UTC")
    # Before PySpark 4.2, `to_arrow_schema` always uses UTC, and drops the metadata of columns.
    metadata = [json.dumps(field.metadata) for field in schema.fields]
    return pa.schema(
        field.with_metadata({SPARK_METADATA_KEY: text})
        for field, text in zip(to_arrow_schema(schema), metadata, strict=True)
    )


def quote_name(name: str) -> str:
    """Return a column name in backticks, for Spark's functions that parse names."""
    return f"`{name.replace('`', '``')}`"


def require_column(df: DataFrame, column: str, *types: DataType) -> StructField:
    """Return the field of a column; raise ValueError if it is missing or of another type."""
    for field in df.schema.fields:
        if field.name == column:
            if types and field.dataType not in types:
                expected = " or ".join(data_type.simpleString() for data_type in types)
                raise ValueError(
                    f"the column {column!r} has the type {field.dataType.simpleString()}, and "
                    f"must be {expected}: cast it first"
                )
            return field
    raise ValueError(f"no column {column!r} in the DataFrame: it has {', '.join(df.columns)}")


def has_faults(df: DataFrame) -> bool:
    """Return whether the DataFrame has the text column ``fault`` of the data source ``amqp10``.

    A column ``fault`` of another type is a column of the user.
    """
    return any(
        field.name == "fault" and isinstance(field.dataType, StringType)
        for field in df.schema.fields
    )


def add_error_column(columns: str | Sequence[str], maps: MapsAs) -> list[str]:
    """Return the names of the output columns; add ``error`` if none of them is an error column."""
    if isinstance(columns, str):
        names = schema_of(columns, maps=maps).names if columns in SETS else [columns]
    else:
        names = list(columns)
    return names if {"error", *ERROR_COLUMN_NAMES} & {*names} else [*names, "error"]


def columns_to_keep(
    df: DataFrame, keep: Sequence[str] | None, without: Sequence[str], new: Sequence[str]
) -> list[str]:
    """Return the columns to pass through: `keep`, or all except `without` if `keep` is None.

    Raises:
        ValueError: a column is missing, or names clash with each other or with `new`.
    """
    if keep is None:
        names = [name for name in df.columns if name not in without]
    else:
        names = [keep] if isinstance(keep, str) else list(keep)
    for name in names:
        require_column(df, name)
    clashes = sorted(common_names(names, new))
    if clashes:
        raise ValueError(
            f"{', '.join(clashes)}: the DataFrame has a column with the name of a new column: "
            "rename it, or leave it out of keep"
        )
    duplicates = [name for index, name in enumerate(new) if common_names([name], new[:index])]
    if duplicates:
        raise ValueError(
            f"{', '.join(duplicates)}: another column differs only in case, which SQL ignores: "
            "leave one of them out"
        )
    return names


def spark_schema(schema: pa.Schema) -> StructType:
    """Convert an Arrow schema to a Spark schema, with the metadata of the columns."""
    struct = from_arrow_schema(schema)
    for field, column in zip(schema, struct.fields, strict=True):
        column.metadata = {
            key.decode(): value.decode() for key, value in (field.metadata or {}).items()
        }
    return struct


def append_columns(
    batches: Iterator[pa.RecordBatch],
    compute: ComputeColumns,
    new: pa.Schema,
    names: Sequence[str],
    count: int,
) -> Iterator[pa.RecordBatch]:
    """Yield the first `count` columns of each batch, followed by the computed columns.

    References to a batch are dropped before the next batch is read, so that memory is reused.
    """
    for source in batches:
        pieces = in_pieces(source.rename_columns(names), compute)
        del source
        for batch, computed in pieces:
            arrays = list(map(cast_array, computed, new.types))
            schema = pa.schema([*(batch.schema.field(index) for index in range(count)), *new])
            result = pa.RecordBatch.from_arrays([*batch.columns[:count], *arrays], schema=schema)
            del batch, computed, arrays
            yield result
            del result


def map_columns(
    df: DataFrame,
    compute: ComputeColumns,
    new: pa.Schema,
    *,
    keep: Sequence[str],
    read: Sequence[str],
) -> DataFrame:
    """Return the `keep` columns of `df`, followed by the `new` columns that `compute` returns.

    `compute` is called with batches that have the columns `keep` and `read`. It runs in the
    workers, so it must be picklable, and may raise only the errors that `in_pieces` handles. If
    Spark does not support a type of `new`, the column gets the nearest supported type that can
    represent all values.
    """
    new = schema_for_spark(new)
    kept_fields = StructType([require_column(df, name) for name in keep])
    result_type = StructType([*kept_fields.fields, *spark_schema(new).fields])
    names = list(dict.fromkeys([*keep, *read]))
    count = len(keep)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        warn_once(missing_kernel_warning())
        yield from append_columns(batches, compute, new, names, count)
        freeze_imports()

    # Renamed, because mapInArrow of PySpark 4.3 reads a dot in a name as a path into a struct.
    narrow = df.select(*(F.col(quote_name(name)).alias(f"c{i}") for i, name in enumerate(names)))
    result: DataFrame = narrow.mapInArrow(cast("Any", run), result_type)
    return result


BINARY = BinaryType()
