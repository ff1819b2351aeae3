"""Arrow's buffers as the kernel of `translate.batches` takes and gives them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

__all__ = ["arrays_of", "column_of", "mended", "whole"]

# Validity, None where all cells are there, and what is after it.
_Texts = tuple[bytes | None, bytes, bytes]
_LOSS = ("path", "action", "before", "after", "reason")


def whole(array: Any, kind: pa.DataType) -> Any:
    """Return a column as one array of this type, uncopied where it is one.

    Raises:
        ArrowException: it is of another type, or too large.
    """
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
        if isinstance(array, pa.ChunkedArray):
            array = pa.concat_arrays(array.chunks)
    return array if array.type == kind else array.cast(kind)


def column_of(array: Any) -> tuple[Any, ...] | None:
    """Return the validity and the other buffers of an array, and its first cell; None for none."""
    return None if array is None else (*array.buffers(), array.offset)


def _texts(kind: pa.DataType, rows: int, buffers: _Texts, valid: Any = None) -> Any:
    there, offsets, data = (None if one is None else pa.py_buffer(one) for one in buffers)
    return pa.Array.from_buffers(kind, rows, [valid if there is None else there, offsets, data])


def _list_of_losses(field: pa.Field, rows: int, found: Any, valid: Any) -> Any:
    offsets, *texts, recoverable = found
    count = len(texts[0][1]) // 4 - 1
    members = field.type.value_type
    children = [
        _texts(members.field(name).type, count, buffers)
        for name, buffers in zip(_LOSS, texts, strict=True)
    ]
    children.append(pa.Array.from_buffers(pa.bool_(), count, [None, pa.py_buffer(recoverable)]))
    losses = pa.StructArray.from_arrays(children, fields=list(members))
    buffers = [valid, pa.py_buffer(offsets)]
    return pa.Array.from_buffers(field.type, rows, buffers, children=[losses])


def arrays_of(schema: pa.Schema, rows: int, found: Any) -> dict[str, Any]:
    """Return the columns that the kernel filled, by name; what it did not is null.

    Args:
        schema: of what is returned.
        rows: how many.
        found: the validity of the rows, None where there are all, and the columns' buffers.
    """
    there, *columns = found
    valid = None if there is None else pa.py_buffer(there)
    made = {}
    for field, buffers in zip(schema, columns, strict=False):
        if field.name == "losses":
            made[field.name] = _list_of_losses(field, rows, buffers, valid)
        elif pa.types.is_boolean(field.type):
            made[field.name] = pa.Array.from_buffers(
                field.type, rows, [valid, pa.py_buffer(buffers)]
            )
        else:
            made[field.name] = _texts(field.type, rows, buffers, valid)
    for field in schema:
        if field.name not in made:
            made[field.name] = pa.nulls(rows, field.type)
    return made


def mended(made: dict[str, Any], places: list[int], others: dict[str, Any]) -> dict[str, Any]:
    """Return columns with some of their rows replaced.

    Args:
        made: the columns.
        places: the rows, in order.
        others: what stands there, as many rows as there are places.
    """
    rows = len(next(iter(made.values())))
    order = list(range(rows))
    for number, place in enumerate(places):
        order[place] = rows + number
    taken = pa.array(order, pa.int64())
    return {
        name: pa.concat_arrays([array, others[name]]).take(taken) for name, array in made.items()
    }
