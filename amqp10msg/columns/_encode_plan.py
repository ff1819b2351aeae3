"""A batch of columns as the kernel of `encode` takes them, and the messages that it writes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

# Where it is not compiled, this raises ModuleNotFoundError; `from` would raise ImportError.
import amqp10msg.columns._kernel.write as write  # noqa: PLR0402  (see above)
from amqp10msg.columns._decode import place_of
from amqp10msg.columns._schema import COMPOSITES, MAPS, ways_of
from amqp10msg.composite import rows
from amqp10msg.message.templates import Template
from amqp10msg.sections import BODY_KINDS, KINDS
from amqp10msg.wire.kernel import Step, codes

_KINDS = {kind.attribute: kind for kind in KINDS if kind.attribute != "body"}
_CELLS = {
    pa.bool_(): write.BOOL,
    pa.int16(): write.INT16,
    pa.int64(): write.INT64,
    pa.timestamp("us", tz="UTC"): write.INT64,
    pa.float64(): write.INT64,
    pa.uint64(): write.INT64,
    pa.decimal128(20, 0): write.WIDE,
    pa.string(): write.TEXT,
    pa.binary(): write.TEXT,
}
_WAYS = ways_of(write)
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
    return _messages(_writer(batch), batch.num_rows)


def _messages(writer: write.Rows, count: int) -> tuple[pa.Array, list[int]]:
    """Write so many rows, in as much room as they take."""
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


def filled(batch: pa.RecordBatch, template: Template) -> tuple[pa.Array, list[int]] | None:
    """Write the messages of a template; return them and the odd rows, as `written`.

    Args:
        batch: the columns of the values, in the order of the template's paths.
        template: the template.

    Returns:
        None where a value has no way to be written from its column.

    Raises:
        OverflowError, ValueError: as `written`.
    """
    steps = []
    kept = []  # the arrays whose buffers are read
    for step in template.steps:
        does = _STEPS.get(step.way)
        if does is None:
            return None
        way, code, index = write.BOOLEAN_WAY, 0x40, 0
        given = None
        if step.source >= 0:
            cells = _cells_of(step, batch.column(step.source))
            if cells is None:
                return None
            way, code, array = cells
            kept.append(array)
            given = _column(array)
            index = BODY_KINDS[0].code if does == write.BODY_STEP else step.index
        else:
            index = step.index
        stop = step.stop if does == write.FIELDS_STEP else step.index + 1
        steps.append((does, step.octets or b"", index, stop, step.default, way, code, given))
    made = _messages(write.Filler(batch.num_rows, steps), batch.num_rows)
    del kept
    return made


_STEPS = {
    codes.STEP_COPY: write.COPY_STEP,
    codes.STEP_OPEN: write.OPEN_STEP,
    codes.STEP_LIST: write.LIST_STEP,
    codes.STEP_MAP: write.MAP_STEP,
    codes.STEP_FIELDS: write.FIELDS_STEP,
    codes.STEP_FIELD: write.FIELD_STEP,
    codes.STEP_TYPED: write.ENTRY_STEP,
    codes.STEP_VALUE: write.ENTRY_STEP,
    codes.STEP_PROPERTY: write.ENTRY_STEP,
    codes.STEP_DATA: write.DATA_STEP,
    codes.STEP_BODY: write.BODY_STEP,
}
# By the number of a type: its format code, of several the widest with a short head.
_CODES = {
    **{kind: code for kind, code in enumerate(codes.WIDE_CODES) if code},
    codes.KIND_BOOLEAN: 0x56,
    codes.KIND_DOUBLE: 0x82,
    codes.KIND_FLOAT: 0x72,
    codes.KIND_STRING: 0xA1,
    codes.KIND_SYMBOL: 0xA3,
    codes.KIND_BINARY: 0xA0,
}
_TEXTS = (codes.KIND_STRING, codes.KIND_SYMBOL, codes.KIND_ADDRESS)
_REALS = (codes.KIND_DOUBLE, codes.KIND_FLOAT)


def _cells_of(step: Step, array: pa.Array) -> tuple[int, int, pa.Array] | None:
    """Return how a column is written, as which format code, and its cells; None if it is not.

    What a value of Python is written as, its column is, too: `Template.encode` writes the others.
    """
    type_ = array.type
    kind = codes.KIND_BINARY if step.way == codes.STEP_DATA else step.kind
    if pa.types.is_null(type_):
        return write.BOOLEAN_WAY, 0x56, None
    is_any = kind == 0
    if is_any or kind == codes.KIND_MESSAGE_ID:
        kind = _kind_of(type_, kind)
    if step.way == codes.STEP_BODY and kind != codes.KIND_BINARY:
        return None
    if pa.types.is_boolean(type_) and kind == codes.KIND_BOOLEAN:
        return write.BOOLEAN_WAY, 0x56, array
    if pa.types.is_integer(type_) and codes.WIDTHS[kind]:
        if kind == codes.KIND_ULONG:
            return _cast(write.ULONG_WAY, kind, array, pa.uint64())
        return _cast(write.WHOLE_WAY, kind, array, pa.int64())
    if pa.types.is_timestamp(type_) and kind == codes.KIND_TIMESTAMP:
        if type_.tz is None:
            return None
        cells = _cast(write.WHOLE_WAY, kind, array, pa.timestamp("ms", type_.tz))
        return cells and _cast(write.WHOLE_WAY, kind, cells[2], pa.int64())
    if pa.types.is_floating(type_) and kind in _REALS:
        way = write.FLOAT_WAY if kind == codes.KIND_FLOAT else write.DOUBLE_WAY
        return _cast(way, kind, array, pa.float64())
    if (pa.types.is_string(type_) or pa.types.is_large_string(type_)) and kind in _TEXTS:
        own = codes.KIND_STRING if kind == codes.KIND_ADDRESS else kind
        return _cast(write.TEXT_WAY, own, array, pa.string())
    if (pa.types.is_binary(type_) or pa.types.is_large_binary(type_)) and kind == codes.KIND_BINARY:
        return _cast(write.TEXT_WAY, kind, array, pa.binary())
    return None


def _kind_of(type_: pa.DataType, wanted: int) -> int:
    """Return the number of the type that the values of a column have in Python; 0 for others."""
    if pa.types.is_string(type_) or pa.types.is_large_string(type_):
        return codes.KIND_STRING
    if pa.types.is_binary(type_) or pa.types.is_large_binary(type_):
        return codes.KIND_BINARY
    if pa.types.is_integer(type_):
        # A message-id that is a number is a ulong.
        return codes.KIND_ULONG if wanted == codes.KIND_MESSAGE_ID else codes.KIND_LONG
    if wanted == codes.KIND_MESSAGE_ID:
        return 0
    if pa.types.is_boolean(type_):
        return codes.KIND_BOOLEAN
    return codes.KIND_DOUBLE if pa.types.is_floating(type_) else 0


def _cast(
    way: int, kind: int, array: pa.Array, wanted: pa.DataType
) -> tuple[int, int, pa.Array] | None:
    try:
        return way, _CODES[kind], array if array.type == wanted else array.cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None  # there are some of its values that do not fit


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
                made.append((_WAYS[field.name], place, field.default, first, second))
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


def _column(array: Any) -> write.Column:
    """Return the kind of a column, its first cell and its buffers; None for one of nulls."""
    if array is None or array.null_count == len(array):
        return None
    _, cells, data = (*array.buffers(), None)[:3]
    return (_CELLS[array.type], array.offset, *_there(array), *place_of(cells), *place_of(data))


def _there(array: Any) -> tuple[int, int]:
    """Return where it says which rows are there; zeros if all are."""
    return place_of(array.buffers()[0] if array.null_count else None)


def _lengths(array: Any) -> tuple[write.Column, write.Column, int]:
    """Return the rows of lists of lengths, the lengths, and how many of these there are."""
    if array is None:
        return None, None, 0
    return _list(array), _column(array.values), len(array.values)


def _list(array: Any) -> write.Column:
    """Return the rows of lists or maps."""
    return (write.LIST, array.offset, *_there(array), *place_of(array.buffers()[1]), 0, 0)


def _map(array: Any) -> tuple[write.Column, list[write.Column], int]:
    """Return a map section's rows, the columns of its entries, and how many entries there are."""
    if array is None:
        return None, [None] * (2 + len(_MEMBERS)), 0
    keys, items = array.keys, array.items
    valid = items.buffers()[0] if items.null_count else None
    # Of the structs only whether they are there.
    structs = (
        (write.BOOL, items.offset, *place_of(valid), *place_of(valid), 0, 0) if valid else None
    )
    members = [_column(items.field(name)) for name in _MEMBERS]
    return _list(array), [structs, _column(keys), *members], len(items)
