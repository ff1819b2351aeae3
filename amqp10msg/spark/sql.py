"""The functions of this package by name, for SQL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.pandas.types import from_arrow_schema

from amqp10msg import validation
from amqp10msg.columns import MapsAs, binary_chunks, in_pieces
from amqp10msg.jobs.judging import decoded
from amqp10msg.jobs.spark_types import schema_for_spark
from amqp10msg.spark._frames import with_errors
from amqp10msg.spark._workers import pure_place, settle, tell
from amqp10msg.spark.source import Amqp10


def register(
    session: SparkSession,
    name: str = "amqp10_decode",
    *,
    columns: str | Sequence[str] = "lean",
    maps: MapsAs = "variant",
    validate: validation.ProfileName | None = None,
) -> None:
    """Make the data source ``amqp10`` and a function that decodes known to a session.

    `amqp10msg.spark.session` does this. The function takes a column of encoded messages and gives a
    struct, for SQL and for ``selectExpr``: ``select m.subject from (select amqp10_decode(wire) m
    from raw)``. Unlike `decode`, it is an expression: filters on other columns reach the scan.

    Args:
        session: where; with Spark Connect, too.
        name: of the function, so that there can be several.
        columns: the fields of the struct, as for `decode`; ``error`` comes after them. A function
            decodes all of them, whichever are selected: name the few that are needed.
        maps: as for `decode`.
        validate: a profile of `amqp10msg.validate`; None for none.

    Raises:
        ValueError: a column or a profile is unknown.
    """
    session.dataSource.register(Amqp10)
    wanted = with_errors(columns, maps)
    schema = schema_for_spark(
        decoded(pa.array([], pa.binary()), wanted, validate, maps=maps).schema
    )
    function: Any = arrow_udf  # its overloads know no types of structs
    decode = _decoding(wanted, maps, validate, schema)
    # Without comments: Spark compares the type that is declared with that of each batch.
    session.udf.register(name, function(decode, from_arrow_schema(schema)))


def _decoding(
    wanted: list[str],
    maps: MapsAs,
    validate: validation.ProfileName | None,
    schema: pa.Schema,
) -> Callable[[pa.Array], pa.Array]:
    def decode(messages: pa.Array) -> pa.Array:
        tell(pure_place())
        found = [
            made
            for chunk in binary_chunks(messages)
            for _, made in in_pieces(
                pa.record_batch({"wire": chunk}),
                lambda batch: decoded(batch.column(0), wanted, validate, maps=maps),
            )
        ]
        arrays = [
            pa.concat_arrays([made.column(field.name) for made in found]).cast(field.type)
            for field in schema
        ]
        settle()
        return pa.StructArray.from_arrays(arrays, fields=list(schema))

    return decode
