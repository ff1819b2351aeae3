"""Columns that say nothing on their own: they must agree with the columns that a row is made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from amqp10msg.columns._decode import decode
from amqp10msg.columns._schema import DERIVED, SCHEMA
from amqp10msg.wire.errors import EncodeError

# Columns that a message is not made of, but that show something of it.
_SHOWN = ("body_sections", *(field.name for field in DERIVED if field.name.startswith("body_")))
_IDENTIFIERS = tuple(name[:-5] for name in SCHEMA.names if name.endswith("_id_type"))
_MOMENTS = tuple(name[:-3] for name in SCHEMA.names if name.endswith("_ms"))


def check_partners(part: pa.RecordBatch, first_row: int) -> None:
    """Refuse rows of which a column would be dropped because of its partner.

    Raises:
        EncodeError: an identifier's type has no identifier, or the two columns of a moment
            differ.
    """
    names = set(part.schema.names)
    for name in _IDENTIFIERS:
        if f"{name}_type" not in names:
            continue
        lost = pc.is_valid(part.column(f"{name}_type"))
        if name in names:
            lost = pc.and_(lost, pc.is_null(part.column(name)))
        _refuse(lost, first_row, f"{name}_type", f"there is a type, and {name} is null")
    for name in _MOMENTS:
        if {name, f"{name}_ms"} <= names:
            milliseconds = pc.divide(part.column(name).cast(pa.int64()), 1000)
            differ = pc.not_equal(milliseconds, part.column(f"{name}_ms"))
            said = f"{name} is another moment: make one of them null"
            _refuse(pc.fill_null(differ, False), first_row, f"{name}_ms", said)


def check_shown(part: pa.RecordBatch, messages: Sequence[pa.Array], first_row: int) -> None:
    """Refuse rows whose message does not show what a column of the row shows.

    Args:
        part: the rows.
        messages: the messages made of them, in pieces.
        first_row: what errors call the first row.

    Raises:
        EncodeError: such as ``body_text`` without the body that it is the text of.
    """
    suspects = [
        name for name in _SHOWN if name in part.schema.names and not _is_plain_to_see(part, name)
    ]
    if not suspects:
        return
    made = decode(pa.chunked_array(list(messages), pa.binary()), suspects)
    for name in suspects:
        cells = zip(part.column(name).to_pylist(), made.column(name).to_pylist(), strict=True)
        lost = pa.array([cell is not None and cell != back for cell, back in cells], pa.bool_())
        said = f"the other columns of the row make a message without this {name}"
        hint = "add body_lengths" if name == "body_sections" else "add body, or body_json"
        _refuse(lost, first_row, name, f"{said}: {hint} and body_kind, or drop the column")


def _is_plain_to_see(part: pa.RecordBatch, name: str) -> bool:
    """Whether the columns of the body themselves show that a column agrees with them."""
    column = part.column(name)
    if column.null_count == len(column):
        return True
    there = {
        field: part.column(field)
        for field in ("body", "body_lengths", "body_kind")
        if field in part.schema.names
    }
    agrees: Any = pa.scalar(False)
    if name == "body_text" and "body" in there:
        agrees = pc.equal(column.cast(pa.binary()), there["body"])
    elif name == "body_sections":
        counts = []
        if "body_lengths" in there:
            counts.append(pc.list_value_length(there["body_lengths"]))
        if "body" in there:
            counts.append(pc.if_else(pc.is_valid(there["body"]), 1, pa.scalar(None, pa.int32())))
        if "body_kind" in there:
            is_value = pc.equal(there["body_kind"], "amqp-value")
            counts.append(pc.if_else(is_value, 1, pa.scalar(None, pa.int32())))
        if counts:
            agrees = pc.equal(column, pc.coalesce(*counts))
    shown = pc.or_(pc.is_null(column), pc.fill_null(agrees, False))
    return bool(pc.all(shown).as_py())


def _refuse(lost: pa.Array, first_row: int, name: str, said: str) -> None:
    place = pc.index(lost, True).as_py()
    if place >= 0:
        raise EncodeError(said, f"row {first_row + place}: {name}")
