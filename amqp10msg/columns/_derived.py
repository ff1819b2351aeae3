"""Check columns that repeat the contents of other columns: their values must agree in each row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from amqp10msg.columns._decode import decode
from amqp10msg.columns._schema import (
    COMPANION_METADATA_KEY,
    COMPUTED_COLUMNS,
    SCHEMA,
    column_name,
)
from amqp10msg.wire.errors import EncodeError

# Columns that repeat the contents of other columns, and are not written to messages; and the
# columns that determine them.
_REDUNDANT_COLUMNS: dict[str, tuple[str, ...]] = {
    "body_sections": ("body", "body_kind", "body_lengths"),
    "body_text": ("body", "body_kind", "body_json"),
    "body_value": ("body_kind", "body_json"),
    **{name: column.inputs for name, column in COMPUTED_COLUMNS.items() if column.repeats_content},
}
#: Message-id and correlation-id, whose types are in columns ``…_type``.
_IDENTIFIER_COLUMNS = tuple(name[:-5] for name in SCHEMA.names if name.endswith("_id_type"))
#: The column without which `encode` refuses a decoded column, by its name.
_COMPANION_BY_COLUMN = {
    field.name: field.metadata[COMPANION_METADATA_KEY].decode()
    for field in SCHEMA
    if COMPANION_METADATA_KEY in (field.metadata or {})
}
#: The timestamps, which also have columns ``…_ms``.
_TIME_COLUMNS = tuple(name[:-3] for name in SCHEMA.names if name.endswith("_ms"))


def check_decoded_companions(schema: pa.Schema) -> None:
    """Reject decoded columns without the column that has the other part of their values.

    Without its type, the message-id ulong 1 would become the string ``1``. A time outside the years
    1 to 9999 is null in one column, and any other time is null in the other column.

    Raises:
        ValueError: a column comes from `decode`, and its companion is missing.
    """
    fields = {column_name(field.name): field for field in schema}
    for name, field in fields.items():
        # Decoded columns may have been renamed: the present name determines the companion.
        companion = _COMPANION_BY_COLUMN.get(name)
        if companion is None or companion in fields:
            continue
        if COMPANION_METADATA_KEY not in (field.metadata or {}):
            continue
        if name in _IDENTIFIER_COLUMNS:
            problem = "a ulong, UUID or binary would become a string"
            remedy = "for text only, add it with the value 'string'"
        else:
            inside = "inside" if name.endswith("_ms") else "outside"
            problem = f"a time {inside} the years 1 to 9999 would be lost"
            remedy = "without such times, add it with nulls"
        raise ValueError(
            f"the column {name} was decoded without {companion}, so {problem}: add {companion}, as "
            f"from decode(..., columns=[{name!r}, {companion!r}]); {remedy}"
        )


def check_companions(part: pa.RecordBatch, first_row: int) -> None:
    """Reject rows in which `encode` would ignore a column because of its companion column.

    Raises:
        EncodeError: a row has the type of a message-id without the message-id, or the two columns
            of a timestamp differ.
    """
    names = set(part.schema.names)
    for name in _IDENTIFIER_COLUMNS:
        if f"{name}_type" not in names:
            continue
        is_bad = pc.is_valid(part.column(f"{name}_type"))
        if name in names:
            is_bad = pc.and_(is_bad, pc.is_null(part.column(name)))
        _reject_first(is_bad, first_row, f"{name}_type", f"the type is set, but {name} is null")
    for name in _TIME_COLUMNS:
        if {name, f"{name}_ms"} <= names:
            milliseconds = pc.divide(part.column(name).cast(pa.int64()), 1000)
            differ = pc.not_equal(milliseconds, part.column(f"{name}_ms"))
            problem = f"{name} is a different time: set one of the columns to null"
            _reject_first(pc.fill_null(differ, False), first_row, f"{name}_ms", problem)


def check_repeated(part: pa.RecordBatch, messages: Sequence[pa.Array], first_row: int) -> None:
    """Reject rows with a repeated column, such as ``body_text``, that differs from the message.

    Args:
        part: the rows.
        messages: the encoded messages of the rows, in chunks.
        first_row: the number of the first row, for errors.

    Raises:
        EncodeError: a column differs, such as a ``body_text`` without a ``body``.
    """
    suspects = [
        name
        for name in _REDUNDANT_COLUMNS
        if name in part.schema.names and not _agrees_with_body(part, name)
    ]
    if not suspects:
        return
    decoded = decode(pa.chunked_array(list(messages), pa.binary()), suspects)
    for name in suspects:
        cells = zip(part.column(name).to_pylist(), decoded.column(name).to_pylist(), strict=True)
        is_bad = pa.array(
            [cell is not None and cell != actual for cell, actual in cells], pa.bool_()
        )
        problem = f"the other columns of the row encode to a message with another {name}"
        _reject_first(is_bad, first_row, name, f"{problem}: {_advice(name, part.schema.names)}")


def _advice(name: str, present: Sequence[str]) -> str:
    """Return what to do about a repeated column that differs from the message.

    Args:
        name: the column.
        present: the names of all columns of the rows.
    """
    inputs = _REDUNDANT_COLUMNS[name]
    missing = [column for column in inputs if column not in present]
    if missing:
        return f"add {' and '.join(missing)}, from which it is computed, or drop the column"
    return f"it is computed from {' and '.join(inputs)}: correct one of them, or drop the column"


def _agrees_with_body(part: pa.RecordBatch, name: str) -> bool:
    """Return whether a repeated column agrees with the body columns, without decoding messages.

    False if that cannot be determined.
    """
    column = part.column(name)
    if column.null_count == len(column):
        return True
    columns = {
        field: part.column(field)
        for field in ("body", "body_lengths", "body_kind")
        if field in part.schema.names
    }
    agrees: Any = pa.scalar(False)
    if name == "body_text" and "body" in columns:
        agrees = pc.equal(column.cast(pa.binary()), columns["body"])
    elif name == "body_sections":
        counts = []
        if "body_lengths" in columns:
            counts.append(pc.list_value_length(columns["body_lengths"]))
        if "body" in columns:
            counts.append(pc.if_else(pc.is_valid(columns["body"]), 1, pa.scalar(None, pa.int32())))
        if "body_kind" in columns:
            is_value = pc.equal(columns["body_kind"], "amqp-value")
            counts.append(pc.if_else(is_value, 1, pa.scalar(None, pa.int32())))
        if counts:
            agrees = pc.equal(column, pc.coalesce(*counts))
    agrees_or_null = pc.or_(pc.is_null(column), pc.fill_null(agrees, False))
    return bool(pc.all(agrees_or_null).as_py())


def _reject_first(is_bad: pa.Array, first_row: int, name: str, problem: str) -> None:
    """Raise EncodeError for the first row in which `is_bad` is true, with its number."""
    index = pc.index(is_bad, True).as_py()
    if index >= 0:
        path = f"row {first_row + index}: {name}"
        raise EncodeError(problem, path)
