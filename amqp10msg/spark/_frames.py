"""Functions of Arrow batches as functions of DataFrames, with schemas checked."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from inspect import signature
from typing import Any, cast

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  (so everybody calls it)
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import BinaryType, DataType, StructField, StructType

from amqp10msg.columns import SETS, MapsAs, in_pieces, schema_of
from amqp10msg.jobs.inputs import shared
from amqp10msg.jobs.job import ERRORS, as_type, schema_for_spark
from amqp10msg.spark._workers import pure_place, settle, tell

#: What makes the new columns of a batch, in the order of their schema.
Work = Callable[[pa.RecordBatch], Sequence[pa.Array]]


#: The key of what Spark keeps with a column, JSON, among an Arrow field's metadata.
OF_SPARK = b"SPARK::metadata::json"


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow types of a DataFrame's columns; timestamps are in UTC."""
    if "timezone" in signature(to_arrow_schema).parameters:
        return to_arrow_schema(schema, timezone="UTC")
    # Before PySpark 4.2 that is so without being asked for, and what Spark keeps is left out.
    kept = [json.dumps(field.metadata) for field in schema.fields]
    return pa.schema(
        field.with_metadata({OF_SPARK: said})
        for field, said in zip(to_arrow_schema(schema), kept, strict=True)
    )


def quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def required(df: DataFrame, column: str, *types: DataType) -> StructField:
    """Return the field of a column."""
    for field in df.schema.fields:
        if field.name == column:
            if types and field.dataType not in types:
                wanted = " or ".join(kind.simpleString() for kind in types)
                raise ValueError(
                    f"the column {column!r} is {field.dataType.simpleString()} and must be "
                    f"{wanted}: cast it first"
                )
            return field
    raise ValueError(f"there is no column {column!r}: there are {', '.join(df.columns)}")


def with_errors(columns: str | Sequence[str], maps: MapsAs) -> list[str]:
    """Return the names of the columns that are wanted, ``error`` among them."""
    if isinstance(columns, str):
        named = schema_of(columns, maps=maps).names if columns in SETS else [columns]
    else:
        named = list(columns)
    return named if {"error", *ERRORS} & {*named} else [*named, "error"]


def kept_names(
    df: DataFrame, keep: Sequence[str] | None, without: Sequence[str], new: Sequence[str]
) -> list[str]:
    """Choose the columns that are carried through: those named, or all but `without`."""
    if keep is None:
        names = [name for name in df.columns if name not in without]
    else:
        names = [keep] if isinstance(keep, str) else list(keep)
    for name in names:
        required(df, name)
    both = sorted(shared(names, new))
    if both:
        raise ValueError(
            f"{', '.join(both)}: a column of the DataFrame and a new one: rename it, or name "
            "others in keep"
        )
    twice = [name for at, name in enumerate(new) if shared([name], new[:at])]
    if twice:
        raise ValueError(f"{', '.join(twice)}: SQL does not tell it from a column of other case")
    return names


def for_spark(schema: pa.Schema) -> StructType:
    """Return the columns of a schema of types that Spark takes, with their comments."""
    made = from_arrow_schema(schema)
    for field, column in zip(schema, made.fields, strict=True):
        comment = (field.metadata or {}).get(b"comment")
        if comment:
            column.metadata = {"comment": comment.decode()}
    return made


def widened(
    batches: Iterator[pa.RecordBatch], work: Work, new: pa.Schema, names: Sequence[str], count: int
) -> Iterator[pa.RecordBatch]:
    """Yield the first columns of batches and the new ones, as `mapped` says.

    Nothing of a batch is held while the next one comes, so that its memory is used again.
    """
    for given in batches:
        pieces = in_pieces(given.rename_columns(names), work)
        del given
        for batch, found in pieces:
            arrays = list(map(as_type, found, new.types))
            schema = pa.schema([*(batch.schema.field(index) for index in range(count)), *new])
            made = pa.RecordBatch.from_arrays([*batch.columns[:count], *arrays], schema=schema)
            del batch, found, arrays
            yield made
            del made


def mapped(
    df: DataFrame,
    work: Work,
    new: pa.Schema,
    *,
    keep: Sequence[str],
    read: Sequence[str],
) -> DataFrame:
    """Return the `keep` columns of `df`, followed by the `new` columns that `work` computes.

    `work` gets batches with the columns `keep` and `read`. It runs in the workers, so it must be
    picklable, and it must not raise, except for the errors that `in_pieces` handles. If Spark does
    not support a type of `new`, the column gets the nearest supported type that holds all values.
    """
    new = schema_for_spark(new)
    kept = StructType([required(df, name) for name in keep])
    made = StructType([*kept.fields, *for_spark(new).fields])
    names = list(dict.fromkeys([*keep, *read]))
    count = len(keep)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        tell(pure_place())
        yield from widened(batches, work, new, names, count)
        settle()

    # Renamed, because mapInArrow of PySpark 4.3 reads a dot in a name as a path into a struct.
    narrow = df.select(*(F.col(quoted(name)).alias(f"c{i}") for i, name in enumerate(names)))
    result: DataFrame = narrow.mapInArrow(cast("Any", run), made)
    return result


BINARY = BinaryType()
