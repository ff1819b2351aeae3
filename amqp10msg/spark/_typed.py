"""Columns as people have them, made into those that `amqp10msg.columns.encode` reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from amqp10msg.columns import VALUE, VARIANT

# By the Arrow type of plain values: their AMQP type, and the member of the struct that holds them.
_PLAIN = {
    pa.string(): ("string", "s"),
    pa.bool_(): ("boolean", "l"),
    pa.int8(): ("byte", "l"),
    pa.int16(): ("short", "l"),
    pa.int32(): ("int", "l"),
    pa.int64(): ("long", "l"),
    pa.float32(): ("float", "d"),
    pa.float64(): ("double", "d"),
    pa.binary(): ("binary", "b"),
    pa.decimal128(20, 0): ("ulong", "u"),
    pa.timestamp("us", "UTC"): ("timestamp", "l"),
}


def converter(field: pa.Field, wanted: pa.DataType) -> Callable[[Any], Any]:
    """Return what makes arrays of a field's type into arrays of the type that is wanted.

    Raises:
        ValueError: nothing can; the message says what would be taken.
    """
    kind = field.type
    if kind == VARIANT:
        raise ValueError(
            f"the column {field.name!r} is a VARIANT, which does not say AMQP's types: decode with "
            "columns='all' and maps='map', or drop it"
        )
    has_texts = pa.types.is_map(kind) and pa.types.is_string(kind.key_type)
    if pa.types.is_map(wanted) and has_texts and kind.item_type in _PLAIN:
        plain = _PLAIN[kind.item_type]
        return lambda array: _map_of_structs(array, *plain).cast(wanted)
    try:
        if pa.types.is_map(wanted) and not (has_texts and pa.types.is_struct(kind.item_type)):
            raise pa.ArrowInvalid  # an empty map of anything can be cast
        pa.array([], kind).cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
        others = ", or a map of strings or numbers" if pa.types.is_map(wanted) else ""
        raise ValueError(
            f"the column {field.name!r} is {kind} and must be {wanted}{others}: cast it, or drop it"
        ) from None
    return lambda array: array.cast(wanted)


def _map_of_structs(array: Any, name: str, member: str) -> Any:
    """Give plain values of a map their AMQP types; a null becomes AMQP's."""
    size = len(array)
    if not size:
        return pa.array([], pa.map_(pa.string(), VALUE))
    # The array may be a slice.
    start, stop = array.offsets[0].as_py(), array.offsets[size].as_py()
    offsets = pa.array(array.offsets.to_numpy()[: size + 1] - start, pa.int32())
    values = array.items.slice(start, stop - start)
    if name == "timestamp":
        values = values.cast(pa.timestamp("ms", values.type.tz)).cast(pa.int64())
    cells = {
        "type": pc.if_else(values.is_valid(), name, "null"),
        member: values.cast(VALUE.field(member).type),
    }
    members = [cells.get(field.name, pa.nulls(len(values), field.type)) for field in VALUE]
    return pa.MapArray.from_arrays(
        offsets,
        array.keys.slice(start, stop - start),
        pa.StructArray.from_arrays(members, fields=list(VALUE)),
        mask=array.is_null() if array.null_count else None,
    )
