"""Pass columns to the kernel of `encode`, and collect the messages that it writes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

# If the kernel is not compiled, `import a.b` raises ModuleNotFoundError; `from a import b` would
# raise ImportError.
import amqp10msg.columns._kernel.write as write  # noqa: PLR0402  (see above)
from amqp10msg.columns._decode import address_and_size
from amqp10msg.columns._schema import COMPOSITE_CLASSES, MAPS, field_kinds
from amqp10msg.composite import rows
from amqp10msg.message import Template
from amqp10msg.sections import BODY_KINDS, KINDS
from amqp10msg.wire.kernel import Step, codes

#: The kinds of section outside of the body, by attribute of `Message`.
_SECTION_KIND_BY_ATTRIBUTE = {kind.attribute: kind for kind in KINDS if kind.attribute != "body"}
#: The kernel's number of each Arrow type.
_CELL_KIND_BY_TYPE = {
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
#: The kernel's number for the type of each field, by name of the field.
_FIELD_KIND_BY_NAME = field_kinds(write)
# The members of the struct of a value, in the order that the kernel expects.
_VALUE_MEMBERS = ("key_type", "type", "s", "l", "d", "b", "u")
# Sizes in bytes: the initial size of the output buffer, and the maximum size of an Arrow binary
# array. When the buffer is full, it is enlarged to the total size estimated from the rows written
# so far.
_INITIAL_BUFFER_BYTES = 1 << 16
_MAX_ARRAY_BYTES = 2**31 - 1


def encode_columns(batch: pa.RecordBatch) -> tuple[pa.Array, list[int]]:
    """Encode a batch; return the messages, and the indexes of the unsupported rows.

    Unsupported rows have errors, or values that the kernel does not handle. Their messages are
    empty.

    Args:
        batch: message columns with the types of `SCHEMA`.

    Raises:
        OverflowError: the messages exceed the size of an Arrow binary array.
        ValueError: an Arrow column is malformed.
    """
    return _write_messages(_make_writer(batch), batch.num_rows)


def _write_messages(writer: write.Rows, row_count: int) -> tuple[pa.Array, list[int]]:
    """Write `row_count` rows, enlarging the output buffer when it is full."""
    offsets_buffer = pa.allocate_buffer(4 * (row_count + 1))
    memoryview(offsets_buffer).cast("B")[:4] = bytes(4)
    unsupported = pa.allocate_buffer(row_count)
    data = pa.allocate_buffer(_INITIAL_BUFFER_BYTES)
    rows_written = size = 0
    while True:
        rows_written, size = writer.write(
            rows_written,
            size,
            data.address,
            data.size,
            offsets_buffer.address + 4,
            unsupported.address,
        )
        if rows_written == row_count:
            break
        data = _grow_buffer(data, size, rows_written, row_count)
    messages = pa.Array.from_buffers(
        pa.binary(), row_count, [None, offsets_buffer, data.slice(0, size)]
    )
    return messages, list(_unsupported_indexes(unsupported.to_pybytes()))


def encode_template(batch: pa.RecordBatch, template: Template) -> tuple[pa.Array, list[int]] | None:
    """Encode a batch with a template, like `encode_columns`.

    Args:
        batch: the columns of the values, in the order of the template's paths.
        template: the template.

    Returns:
        None if the kernel cannot encode a value from the type of its column.

    Raises:
        OverflowError, ValueError: as for `encode_columns`.
    """
    steps = []
    arrays = []  # keeps the buffers alive while the kernel reads them
    for step in template.steps:
        kernel_step = _KERNEL_STEP_NUMBERS.get(step.action)
        if kernel_step is None:
            return None
        mode, code, index = write.BOOLEAN_MODE, 0x40, 0
        buffers = None
        if step.source >= 0:
            cells = _step_column(step, batch.column(step.source))
            if cells is None:
                return None
            mode, code, array = cells
            arrays.append(array)
            buffers = _column_buffers(array)
            index = BODY_KINDS[0].code if kernel_step == write.BODY_STEP else step.index
        else:
            index = step.index
        stop = step.stop if kernel_step == write.FIELDS_STEP else step.index + 1
        steps.append(
            (kernel_step, step.octets or b"", index, stop, step.default, mode, code, buffers)
        )
    messages = _write_messages(write.Filler(batch.num_rows, steps), batch.num_rows)
    del arrays
    return messages


#: The kernel's number of each step of a template.
_KERNEL_STEP_NUMBERS = {
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
# The format code for each type number. If a type has several codes, this is the code with the
# widest content of fixed width, or with a 1-byte size.
_FORMAT_CODE_BY_KIND = {
    **{kind: code for kind, code in enumerate(codes.FULL_WIDTH_CODE_OF_KIND) if code},
    codes.KIND_BOOLEAN: 0x56,
    codes.KIND_DOUBLE: 0x82,
    codes.KIND_FLOAT: 0x72,
    codes.KIND_STRING: 0xA1,
    codes.KIND_SYMBOL: 0xA3,
    codes.KIND_BINARY: 0xA0,
}
_STRING_KINDS = (codes.KIND_STRING, codes.KIND_SYMBOL, codes.KIND_ADDRESS)
_FLOAT_KINDS = (codes.KIND_DOUBLE, codes.KIND_FLOAT)


def _step_column(step: Step, array: pa.Array) -> tuple[int, int, pa.Array] | None:
    """Return how the kernel writes the column of a step: mode, format code and cells.

    The kernel must write the same bytes as `Template.encode`. If it cannot, the result is None, and
    `Template.encode` writes the rows.
    """
    type_ = array.type
    kind = codes.KIND_BINARY if step.action == codes.STEP_DATA else step.kind
    if pa.types.is_null(type_):
        return write.BOOLEAN_MODE, 0x56, None
    is_any = kind == 0
    if is_any or kind == codes.KIND_MESSAGE_ID:
        kind = _column_kind(type_, kind)
    if step.action == codes.STEP_BODY and kind != codes.KIND_BINARY:
        return None
    if pa.types.is_boolean(type_) and kind == codes.KIND_BOOLEAN:
        return write.BOOLEAN_MODE, 0x56, array
    if pa.types.is_integer(type_) and codes.INTEGER_WIDTH_OF_KIND[kind]:
        if kind == codes.KIND_ULONG:
            return _cast_cells(write.ULONG_MODE, kind, array, pa.uint64())
        return _cast_cells(write.WHOLE_MODE, kind, array, pa.int64())
    if pa.types.is_timestamp(type_) and kind == codes.KIND_TIMESTAMP:
        if type_.tz is None:
            return None
        column = _cast_cells(write.WHOLE_MODE, kind, array, pa.timestamp("ms", type_.tz))
        return column and _cast_cells(write.WHOLE_MODE, kind, column[2], pa.int64())
    if pa.types.is_floating(type_) and kind in _FLOAT_KINDS:
        mode = write.FLOAT_MODE if kind == codes.KIND_FLOAT else write.DOUBLE_MODE
        return _cast_cells(mode, kind, array, pa.float64())
    if (pa.types.is_string(type_) or pa.types.is_large_string(type_)) and kind in _STRING_KINDS:
        string_kind = codes.KIND_STRING if kind == codes.KIND_ADDRESS else kind
        return _cast_cells(write.TEXT_MODE, string_kind, array, pa.string())
    if (pa.types.is_binary(type_) or pa.types.is_large_binary(type_)) and kind == codes.KIND_BINARY:
        return _cast_cells(write.TEXT_MODE, kind, array, pa.binary())
    return None


def _column_kind(type_: pa.DataType, target_kind: int) -> int:
    """Return the AMQP type (a `codes.KIND_` number) for a column's values; 0 if not supported.

    Args:
        type_: the Arrow type of the column.
        target_kind: `codes.KIND_MESSAGE_ID`, or 0 if the template accepts any type.
    """
    if pa.types.is_string(type_) or pa.types.is_large_string(type_):
        return codes.KIND_STRING
    if pa.types.is_binary(type_) or pa.types.is_large_binary(type_):
        return codes.KIND_BINARY
    if pa.types.is_integer(type_):
        # Integers as message-ids are ulongs.
        return codes.KIND_ULONG if target_kind == codes.KIND_MESSAGE_ID else codes.KIND_LONG
    if target_kind == codes.KIND_MESSAGE_ID:
        return 0
    if pa.types.is_boolean(type_):
        return codes.KIND_BOOLEAN
    return codes.KIND_DOUBLE if pa.types.is_floating(type_) else 0


def _cast_cells(
    mode: int, kind: int, array: pa.Array, target: pa.DataType
) -> tuple[int, int, pa.Array] | None:
    try:
        return (
            mode,
            _FORMAT_CODE_BY_KIND[kind],
            array if array.type == target else array.cast(target),
        )
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None  # a value does not fit in the type


def _grow_buffer(data: pa.Buffer, size: int, rows_written: int, row_count: int) -> pa.Buffer:
    """Copy the output to a larger buffer, sized for rows like those written so far."""
    if data.size == _MAX_ARRAY_BYTES:
        raise OverflowError("the messages would exceed 2 GiB")
    estimate = (
        int(1.05 * size / rows_written * row_count) + _INITIAL_BUFFER_BYTES if rows_written else 0
    )
    new_size = min(max(estimate, 3 * data.size // 2), _MAX_ARRAY_BYTES)
    new_buffer = pa.allocate_buffer(new_size)
    memoryview(new_buffer).cast("B")[:size] = memoryview(data).cast("B")[:size]
    return new_buffer


def _unsupported_indexes(unsupported: bytes) -> Iterator[int]:
    """Yield the indexes of the rows whose byte is 1."""
    index = unsupported.find(1)
    while index >= 0:
        yield index
        index = unsupported.find(1, index + 1)


def _make_writer(batch: pa.RecordBatch) -> write.Writer:
    """Create the kernel's writer for the columns of a batch."""
    present = {
        name: column
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
        if column.null_count < len(column)
    }

    def kernel_column(name: str) -> write.Column:
        return _column_buffers(present.get(name))

    def kernel_fields(name: str) -> tuple[int, list[Any]]:
        columns = []
        for index, field in enumerate(rows(COMPOSITE_CLASSES[name])):
            second = kernel_column(f"{field.name}_type") or kernel_column(f"{field.name}_ms")
            first = kernel_column(field.name)
            if first or second:
                columns.append(
                    (_FIELD_KIND_BY_NAME[field.name], index, field.default, first, second)
                )
        return _SECTION_KIND_BY_ATTRIBUTE[name].code, columns

    return write.Writer(
        batch.num_rows,
        header=kernel_fields("header"),
        properties=kernel_fields("properties"),
        maps=[
            (
                _SECTION_KIND_BY_ATTRIBUTE[name].code,
                name == "application_properties",
                *_map_buffers(present.get(name)),
            )
            for name in MAPS
        ],
        has_properties=kernel_column("has_properties"),
        lengths=_lengths_buffers(present.get("body_lengths")),
        body=(
            BODY_KINDS[0].code,
            [kind.name.encode() for kind in BODY_KINDS],
            kernel_column("body_kind"),
            kernel_column("body"),
            kernel_column("body_json"),
        ),
    )


def _column_buffers(array: Any) -> write.Column:
    """Return a column for the kernel: cell type, offset and buffers. None if all cells are null."""
    if array is None or array.null_count == len(array):
        return None
    _, cells, data = (*array.buffers(), None)[:3]
    return (
        _CELL_KIND_BY_TYPE[array.type],
        array.offset,
        *_validity(array),
        *address_and_size(cells),
        *address_and_size(data),
    )


def _validity(array: Any) -> tuple[int, int]:
    """Return the address and size of an array's validity buffer; zeros without nulls."""
    return address_and_size(array.buffers()[0] if array.null_count else None)


def _lengths_buffers(array: Any) -> tuple[write.Column, write.Column, int]:
    """Return ``body_lengths`` for the kernel: lists, items of the lists, and number of items."""
    if array is None:
        return None, None, 0
    return _list_buffers(array), _column_buffers(array.values), len(array.values)


def _list_buffers(array: Any) -> write.Column:
    """Return an array of lists or maps for the kernel: cell type, offset and buffers."""
    return (
        write.LIST,
        array.offset,
        *_validity(array),
        *address_and_size(array.buffers()[1]),
        0,
        0,
    )


def _map_buffers(array: Any) -> tuple[write.Column, list[write.Column], int]:
    """Return a map column for the kernel: lists, columns of the entries, and number of entries."""
    if array is None:
        return None, [None] * (2 + len(_VALUE_MEMBERS)), 0
    keys, items = array.keys, array.items
    valid = items.buffers()[0] if items.null_count else None
    # The kernel needs only the validity of the structs.
    structs = (
        (write.BOOL, items.offset, *address_and_size(valid), *address_and_size(valid), 0, 0)
        if valid
        else None
    )
    members = [_column_buffers(items.field(name)) for name in _VALUE_MEMBERS]
    return _list_buffers(array), [structs, _column_buffers(keys), *members], len(items)
