"""Columns that each show one entry of a map section, put back into the column of the section."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from amqp10msg.columns._picks import ENTRY, SQL_TYPES, VALUE, Pick, pick_of
from amqp10msg.columns._schema import MAPS, SCHEMA
from amqp10msg.wire.errors import EncodeError

# By Arrow type: the AMQP type of its values, and the member of `VALUE` that holds them.
_PLAIN = {
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
    """Return plain values as the structs of a map section (`VALUE`), of the closest AMQP type.

    An int64 becomes a long, a timestamp an AMQP timestamp, and so on.

    Args:
        array: strings, binaries, booleans, numbers or timestamps; structs are returned unchanged.
        amqp_nulls: whether a null becomes AMQP's null value instead of a null struct.

    Raises:
        TypeError: no AMQP type corresponds to the array's type.
        pyarrow.ArrowInvalid: a timestamp is finer than a millisecond.
    """
    if array.type == VALUE:
        return array
    if pa.types.is_timestamp(array.type):
        name, member = "timestamp", "l"
        array = array.cast(pa.timestamp("ms", array.type.tz)).cast(pa.int64())
    elif array.type in _PLAIN:
        name, member = _PLAIN[array.type]
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


def entry_of(field: pa.Field) -> Pick | None:
    """Return the entry that a column shows; None if it shows something else.

    A plain column, such as ``tenant``, says in its metadata which entry `decode` took it from. That
    counts as long as the column keeps its name.

    Raises:
        ValueError: the name begins with a map section, but is not the name of an entry column.
    """
    kept = (field.metadata or {}).get(ENTRY)
    if kept is not None:
        pick = pick_of(kept.decode(), MAPS)
        if pick is not None and pick.name == field.name:
            return pick
    return pick_of(field.name, MAPS)


def fold_entries(
    batch: pa.RecordBatch, entries: Mapping[str, Pick], first_row: int
) -> pa.RecordBatch:
    """Return `batch` with its entry columns replaced by the columns of their map sections.

    Args:
        batch: the rows.
        entries: by the name of a column of `batch`, the entry that it shows.
        first_row: what errors call the first row.

    Raises:
        EncodeError: two columns show different values of one entry.
        TypeError: a column has a type that no AMQP type corresponds to.
    """
    if not entries:
        return batch
    arrays = {name: batch.column(name) for name in batch.schema.names if name not in entries}
    for section in MAPS:
        # Structs are exact: plain columns are compared with them, and only fill gaps.
        own = sorted(
            ((name, pick) for name, pick in entries.items() if pick.section == section),
            key=lambda item: batch.schema.field(item[0]).type != VALUE,
        )
        if not own:
            continue
        whole = arrays.get(section)
        maps = [None] * batch.num_rows if whole is None else whole.to_pylist()
        rows: list[dict[str, Any] | None] = [None if one is None else dict(one) for one in maps]
        for place, (row, pairs) in enumerate(zip(rows, maps, strict=True)):
            if row is not None and len(row) < len(pairs or ()):
                raise EncodeError("duplicate map key", f"row {first_row + place}: {section}")
        for name, pick in own:
            _add_entry(rows, name, pick, batch.column(name), first_row)
        folded = [None if row is None else list(row.items()) for row in rows]
        arrays[section] = pa.array(folded, SCHEMA.field(section).type)
    return pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))


def _add_entry(
    rows: list[dict[str, Any] | None], name: str, pick: Pick, array: pa.Array, first_row: int
) -> None:
    """Add the cells of one entry column to the rows of its section, in place."""
    structs, shown = _structs_of(name, pick, array), array
    known = pa.array([None if row is None else row.get(pick.key) for row in rows], VALUE)
    if array.type == VALUE:
        known_shown = known
    else:
        # A plain column shows what `decode` would show of the value that is already there.
        kind = pick.type or next((n for n, t in SQL_TYPES.items() if t == array.type), None)
        plain = Pick(pick.section, pick.key, kind, name)
        known_shown = known if kind is None else plain.plain(known)
        shown = structs if kind is None else array
    given, before = _cells(shown), _cells(known_shown)
    for place, (row, cell) in enumerate(zip(rows, structs.to_pylist(), strict=True)):
        if cell is None:
            continue
        if row is not None and pick.key in row:
            if not _same(given[place], before[place]):
                raise EncodeError(
                    f"the value differs from that of another column of {pick.struct_name}: "
                    "drop one of them",
                    f"row {first_row + place}: {name}",
                )
            continue
        rows[place] = {**(row or {}), pick.key: cell}


def _structs_of(name: str, pick: Pick, array: pa.Array) -> pa.StructArray:
    try:
        if pick.type is not None:
            array = array.cast(SQL_TYPES[pick.type])
        return value_structs(array)
    except pa.ArrowInvalid as error:
        raise EncodeError(str(error), name) from None
    except (TypeError, pa.ArrowNotImplementedError) as error:
        wanted = pick.type or "struct as `decode` returns it, or plain values"
        raise TypeError(f"the column {name} must be {wanted}: {error}") from None


def _cells(array: pa.Array) -> list[Any]:
    """Return the cells of a column; moments as numbers, which hold more of them than datetime."""
    if pa.types.is_timestamp(array.type):
        array = array.cast(pa.int64())
    cells: list[Any] = array.to_pylist()
    return cells


def _same(one: Any, other: Any) -> bool:
    """Whether two cells are equal; a NaN equals a NaN."""
    if isinstance(one, dict) and isinstance(other, dict):
        return all(_same(one[name], other[name]) for name in one)
    return bool(one == other or (one != one and other != other))  # noqa: PLR0124  (a NaN)
