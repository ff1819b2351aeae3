"""Streams into tables of Delta Lake, each batch once; without the connector of Spark."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema

from amqp10msg.spark._delta_files import MADE, Files, TableFiles, error_column

# Where Spark keeps the metadata of a column in Arrow's.
_OF_SPARK = b"SPARK::metadata::json"
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
    """Return what ``foreachBatch`` calls to append the batches of a stream to a Delta table.

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
            another one, whose batches are counted anew, give another name.
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
    try:
        import deltalake  # noqa: PLC0415  (an extra)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "to_delta needs deltalake: pip install 'amqp10msg[delta]'", name=error.name
        ) from None
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
        arrow = to_arrow_schema(df.schema, timezone="UTC")
        _check(arrow, partition_by, is_divided=quarantine is not None)
        schema = _schema(deltalake.Schema, arrow)
        found = [opened(place, columns, schema) for place, columns in tables]
        last = [one.transaction_version(app) for one in found]
        missing = [number is None or number < batch for number in last]
        if not any(missing):
            return
        targets = [
            TableFiles(place, columns, options) if is_missing else None
            for (place, columns), is_missing in zip(tables, missing, strict=True)
        ]
        files = Files(targets)
        made = df.mapInArrow(cast("Any", files.write), MADE).collect()
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
                    commit_properties=deltalake.CommitProperties(app_transactions=[transaction]),
                )

    return write


def _schema(kind: Any, rows: pa.Schema) -> Any:
    """Return the schema of a table for rows, whose columns later batches may leave out.

    Of what Spark keeps with a column, a table has the comment.

    Args:
        kind: deltalake's class of schemas, which knows no VARIANT in Arrow.
        rows: the columns.

    Raises:
        ValueError: there is a VARIANT, and deltalake has no such type.
    """
    fields = []
    for field in rows:
        said = json.loads((field.metadata or {}).get(_OF_SPARK, b"{}"))
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
    """Return a part of a schema in JSON with Delta's type in place of the structs of VARIANT."""
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
    if is_divided and error_column(schema.names) is None:
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
