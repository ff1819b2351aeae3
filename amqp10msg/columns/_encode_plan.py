"""A batch of columns as the kernel of `encode` takes them, and the messages that it writes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

# Where it is not compiled, this raises ModuleNotFoundError; `from` would raise ImportError.
import amqp10msg.columns._kernel.write as write  # noqa: PLR0402
from amqp10msg.columns._schema import COMPOSITES, MAPS
from amqp10msg.composite import Field, rows
from amqp10msg.sections import BODY_KINDS, KINDS

_KINDS = {kind.attribute: kind for kind in KINDS if kind.attribute != "body"}
_CELLS = {
    pa.bool_(): write.BOOL,
    pa.int16(): write.INT16,
    pa.int64(): write.INT64,
    pa.timestamp("us", tz="UTC"): write.INT64,
    pa.float64(): write.INT64,
    pa.decimal128(20, 0): write.WIDE,
    pa.string(): write.TEXT,
    pa.binary(): write.TEXT,
}
_FIELDS = {
    "boolean": write.BOOLEAN_FIELD,
    "ubyte": write.UBYTE_FIELD,
    "uint": write.UINT_FIELD,
    "timestamp": write.TIMESTAMP_FIELD,
    "binary": write.BINARY_FIELD,
    "string": write.STRING_FIELD,
    "symbol": write.SYMBOL_FIELD,
    # By what they require; an address of a message is a string.
    "address": write.STRING_FIELD,
    "message-id": write.IDENTIFIER_FIELD,
}
# Of the struct of a value, as the kernel takes them.
_MEMBERS = ("key_type", "type", "s", "l", "d", "b", "u")
# Room at first, for the rows that say how much the others want; and the most that Arrow holds.
_FIRST_ROOM = 1 << 16
_MOST_ROOM = 2**31 - 1


def written(batch: pa.RecordBatch) -> tuple[pa.Array, list[int]]:
    """Write the messages of a batch; return them and the odd rows, which are empty there.

    Args:
        batch: columns of the types of `SCHEMA`.

    Raises:
        OverflowError: the messages exceed what an array of binary holds.
        ValueError: a column is not valid.
    """
    count = batch.num_rows
    writer = _writer(batch)
    ends = pa.allocate_buffer(4 * (count + 1))
    memoryview(ends).cast("B")[:4] = bytes(4)
    odd = pa.allocate_buffer(count)
    data = pa.allocate_buffer(_FIRST_ROOM)
    done = size = 0
    while True:
        done, size = writer.write(
            done, size, data.address, data.size, ends.address + 4, odd.address
        )
        if done == count:
            break
        data = _more_room(data, size, done, count)
    messages = pa.Array.from_buffers(pa.binary(), count, [None, ends, data.slice(0, size)])
    return messages, list(_places(odd.to_pybytes()))


def _more_room(data: pa.Buffer, size: int, done: int, count: int) -> pa.Buffer:
    """Return the bytes in more room, as if the other rows were like those that are done."""
    if data.size == _MOST_ROOM:
        raise OverflowError("the messages exceed 2 GiB")
    foreseen = int(1.05 * size / done * count) + _FIRST_ROOM if done else 0
    room = min(max(foreseen, 3 * data.size // 2), _MOST_ROOM)
    made = pa.allocate_buffer(room)
    memoryview(made).cast("B")[:size] = memoryview(data).cast("B")[:size]
    return made


def _places(odd: bytes) -> Iterator[int]:
    place = odd.find(1)
    while place >= 0:
        yield place
        place = odd.find(1, place + 1)


def _writer(batch: pa.RecordBatch) -> write.Writer:
    there = {
        name: column
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
        if column.null_count < len(column)
    }

    def column(name: str) -> write.Column:
        return _column(there.get(name))

    def fields(name: str) -> tuple[int, list[Any]]:
        made = []
        for place, field in enumerate(rows(COMPOSITES[name])):
            second = column(f"{field.name}_type") or column(f"{field.name}_ms")
            first = column(field.name)
            if first or second:
                made.append((_way(field), place, field.default, first, second))
        return _KINDS[name].code, made

    return write.Writer(
        batch.num_rows,
        header=fields("header"),
        properties=fields("properties"),
        maps=[
            (_KINDS[name].code, name == "application_properties", *_map(there.get(name)))
            for name in MAPS
        ],
        has_properties=column("has_properties"),
        lengths=_lengths(there.get("body_lengths")),
        body=(
            BODY_KINDS[0].code,
            [kind.name.encode() for kind in BODY_KINDS],
            column("body_kind"),
            column("body"),
            column("body_json"),
        ),
    )


def _way(field: Field) -> int:
    return _FIELDS[field.requires if field.type == "*" else field.type]


def _column(array: Any) -> write.Column:
    """Return the kind of a column, its first cell and its buffers; None for one of nulls."""
    if array is None or array.null_count == len(array):
        return None
    _, cells, data = (*array.buffers(), None)[:3]
    return (_CELLS[array.type], array.offset, *_there(array), *_place_of(cells), *_place_of(data))


def _there(array: Any) -> tuple[int, int]:
    """Return where it says which rows are there; zeros if all are."""
    return _place_of(array.buffers()[0] if array.null_count else None)


def _place_of(buffer: pa.Buffer | None) -> tuple[int, int]:
    """Return the address and the size of a buffer, which an array may lack."""
    return (buffer.address, buffer.size) if buffer else (0, 0)


def _lengths(array: Any) -> tuple[write.Column, write.Column, int]:
    """Return the rows of lists of lengths, the lengths, and how many of these there are."""
    if array is None:
        return None, None, 0
    return _list(array), _column(array.values), len(array.values)


def _list(array: Any) -> write.Column:
    """Return the rows of lists or maps."""
    return (write.LIST, array.offset, *_there(array), *_place_of(array.buffers()[1]), 0, 0)


def _map(array: Any) -> tuple[write.Column, list[write.Column], int]:
    """Return a map section's rows, the columns of its entries, and how many entries there are."""
    if array is None:
        return None, [None] * (2 + len(_MEMBERS)), 0
    keys, items = array.keys, array.items
    valid = items.buffers()[0] if items.null_count else None
    # Of the structs only whether they are there.
    structs = (
        (write.BOOL, items.offset, *_place_of(valid), *_place_of(valid), 0, 0) if valid else None
    )
    members = [_column(items.field(name)) for name in _MEMBERS]
    return _list(array), [structs, _column(keys), *members], len(items)
