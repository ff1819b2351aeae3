"""Merge columns with single entries of a map section back into the column of the section."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from amqp10msg.columns._picks import ENTRY_METADATA_KEY, SQL_TYPES, VALUE, Pick, pick_of
from amqp10msg.columns._schema import MAPS, SCHEMA
from amqp10msg.wire.errors import EncodeError

# By Arrow type: the AMQP type of the values, and the member of `VALUE` that holds them.
_TYPE_AND_MEMBER_BY_ARROW_TYPE = {
    pa.string(): ("string", "s"),
    pa.large_string(): ("string", "s"),
    pa.string_view(): ("string", "s"),
    pa.bool_(): ("boolean", "l"),
    pa.int8(): ("byte", "l"),
    pa.int16(): ("short", "l"),
    pa.int32(): ("int", "l"),
    pa.int64(): ("long", "l"),
    pa.uint8(): ("ubyte", "l"),
    pa.uint16(): ("ushort", "l"),
    pa.uint32(): ("uint", "l"),
    pa.uint64(): ("ulong", "u"),
    pa.float32(): ("float", "d"),
    pa.float64(): ("double", "d"),
    pa.binary(): ("binary", "b"),
    pa.large_binary(): ("binary", "b"),
    pa.binary_view(): ("binary", "b"),
    pa.decimal128(20, 0): ("ulong", "u"),
}


def value_structs(array: pa.Array, *, amqp_nulls: bool = False) -> pa.StructArray:
    """Convert plain values to structs of a map section (`VALUE`), with the closest AMQP type.

    An int64 becomes a long, a timestamp an AMQP timestamp, and so on.

    Args:
        array: strings, binaries, booleans, numbers or timestamps; structs are returned unchanged.
        amqp_nulls: whether a null becomes an AMQP null; else it becomes a null struct.

    Raises:
        TypeError: no AMQP type corresponds to the array's type.
        pyarrow.ArrowInvalid: a timestamp is finer than a millisecond.
    """
    if array.type == VALUE:
        return array
    if pa.types.is_timestamp(array.type):
        name, member = "timestamp", "l"
        array = array.cast(pa.timestamp("ms", array.type.tz)).cast(pa.int64())
    elif array.type in _TYPE_AND_MEMBER_BY_ARROW_TYPE:
        name, member = _TYPE_AND_MEMBER_BY_ARROW_TYPE[array.type]
    else:
        raise TypeError(f"no AMQP type corresponds to {array.type}")
    valid = array.is_valid()
    cells = {
        "type": pc.if_else(valid, name, "null"),
        member: array.cast(VALUE.field(member).type),
    }
    members = [cells.get(field.name, pa.nulls(len(array), field.type)) for field in VALUE]
    return pa.StructArray.from_arrays(
        members, fields=list(VALUE), mask=None if amqp_nulls else pc.invert(valid)
    )


def entry_pick(field: pa.Field) -> Pick | None:
    """Return the entry of a map section that a column contains; None if it is not an entry column.

    `decode` stores the entry in the metadata of a column with plain values, such as ``tenant``. The
    metadata is ignored if the column was renamed.

    Raises:
        ValueError: the name begins with a map section, but is not the name of an entry column.
    """
    stored_name = (field.metadata or {}).get(ENTRY_METADATA_KEY)
    if stored_name is not None:
        pick = pick_of(stored_name.decode(), MAPS)
        if pick is not None and pick.name == field.name:
            return pick
    return pick_of(field.name, MAPS)


def merge_entries(
    batch: pa.RecordBatch, entries: Mapping[str, Pick], first_row: int
) -> pa.RecordBatch:
    """Return `batch` with its entry columns replaced by the columns of their map sections.

    Args:
        batch: the rows.
        entries: the entry of each entry column, by the column's name.
        first_row: the number of the first row, for errors.

    Raises:
        EncodeError: two columns have different values for the same entry.
        TypeError: a column has a type that no AMQP type corresponds to.
    """
    if not entries:
        return batch
    arrays = {name: batch.column(name) for name in batch.schema.names if name not in entries}
    for section in MAPS:
        # Merge struct columns first, because they have the exact AMQP types. A plain column then
        # adds missing entries; its value must equal that of an existing entry.
        section_columns = sorted(
            ((name, pick) for name, pick in entries.items() if pick.section == section),
            key=lambda item: batch.schema.field(item[0]).type != VALUE,
        )
        if not section_columns:
            continue
        section_column = arrays.get(section)
        maps = [None] * batch.num_rows if section_column is None else section_column.to_pylist()
        rows: list[dict[str, Any] | None] = [
            None if content is None else dict(content) for content in maps
        ]
        for index, (row, pairs) in enumerate(zip(rows, maps, strict=True)):
            if row is not None and len(row) < len(pairs or ()):
                raise EncodeError("duplicate map key", f"row {first_row + index}: {section}")
        for name, pick in section_columns:
            _add_entry(rows, name, pick, batch.column(name), first_row)
        folded = [None if row is None else list(row.items()) for row in rows]
        arrays[section] = pa.array(folded, SCHEMA.field(section).type)
    return pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))


def _add_entry(
    rows: list[dict[str, Any] | None], name: str, pick: Pick, array: pa.Array, first_row: int
) -> None:
    """Add the cells of one entry column to the rows of its section, in place."""
    structs, new_values = _to_structs(name, pick, array), array
    existing = pa.array([None if row is None else row.get(pick.key) for row in rows], VALUE)
    if array.type == VALUE:
        existing_values = existing
    else:
        # The existing values are structs, and the new ones are plain: compare the new ones with the
        # plain values that `decode` would return for the existing structs.
        sql_type = pick.type or next((n for n, t in SQL_TYPES.items() if t == array.type), None)
        plain = Pick(pick.section, pick.key, sql_type, name)
        existing_values = existing if sql_type is None else plain.plain(existing)
        new_values = structs if sql_type is None else array
    new_cells, existing_cells = _cells(new_values), _cells(existing_values)
    for index, (row, cell) in enumerate(zip(rows, structs.to_pylist(), strict=True)):
        if cell is None:
            continue
        if row is not None and pick.key in row:
            if not _is_equal(new_cells[index], existing_cells[index]):
                raise EncodeError(
                    f"the value differs from that of another column of {pick.struct_name}: "
                    "drop one of them",
                    f"row {first_row + index}: {name}",
                )
            continue
        rows[index] = {**(row or {}), pick.key: cell}


def _to_structs(name: str, pick: Pick, array: pa.Array) -> pa.StructArray:
    """Convert a column with one entry of a map section to structs of `VALUE`.

    Args:
        name: the name of the column, for errors.
        pick: the map section, the key and the type of the entry.
        array: the column.

    Raises:
        EncodeError: a cell is invalid.
        TypeError: the column has a wrong type.
    """
    try:
        if pick.type is not None:
            array = array.cast(SQL_TYPES[pick.type])
        return value_structs(array)
    except pa.ArrowInvalid as error:
        raise EncodeError(str(error), name) from None
    except (TypeError, pa.ArrowNotImplementedError) as error:
        expected = pick.type or "struct as `decode` returns it, or plain values"
        raise TypeError(f"the column {name} must be {expected}: {error}") from None


def _cells(array: pa.Array) -> list[Any]:
    """Return the cells of a column as Python values.

    Timestamps become integers, because datetime has a smaller range.
    """
    if pa.types.is_timestamp(array.type):
        array = array.cast(pa.int64())
    cells: list[Any] = array.to_pylist()
    return cells


def _is_equal(first: Any, second: Any) -> bool:
    """Return True if two cells are equal; NaN equals NaN."""
    if isinstance(first, dict) and isinstance(second, dict):
        return all(_is_equal(first[name], second[name]) for name in first)
    return bool(first == second or (first != first and second != second))  # noqa: PLR0124  (a NaN)
