"""Decode batches of messages to columns; split batches that would be too large."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.util import find_spec
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from amqp10msg.columns import _prefilter
from amqp10msg.columns._picks import VALUE
from amqp10msg.columns._plain import row, text_size, validation_cells
from amqp10msg.columns._schema import (
    COMPUTED_COLUMNS,
    ERROR_COLUMNS,
    VARIANT,
    WIRE_COLUMN,
    MapsAs,
    Plan,
    plan_of,
)
from amqp10msg.message import Message
from amqp10msg.message.picks import Picker
from amqp10msg.validation import Profile, ProfileName, has_unscreened_rules, profile_of
from amqp10msg.wire.kernel import COMPILED
from amqp10msg.wire.limits import DEFAULT_LIMITS, Limits

_Result = TypeVar("_Result")

# A function that converts a `Plan` to the kernel's plan; None if the kernel is not compiled.
_to_kernel_plan: Any = None
if COMPILED and find_spec("amqp10msg.columns._kernel.scan") is not None:
    from amqp10msg.columns import _kernel_plan

    _to_kernel_plan = _kernel_plan.column_plan
# Stands for None and larger limits in the kernel, whose limits are 64-bit integers.
_KERNEL_NO_LIMIT = 2**62


def decode(
    array: Any,
    columns: str | Picker | Iterable[str] | None = None,
    validate: ProfileName | Profile | None = None,
    limits: Limits | None = None,
    *,
    message_format: Any = None,
    maps: MapsAs = "map",
    strict: bool = True,
) -> pa.RecordBatch:
    """Decode encoded messages to columns, one row per message.

    A message that cannot be decoded does not raise. Its row is null except for ``error_code`` (a
    key of `amqp10msg.validation.RULES`), ``error_clause``, ``error_offset`` (in bytes), and
    ``wire`` if it is selected. They name the first fault of the message, as `Message.decode` and
    `validate` do, which takes about as long as validating it. A null in the input becomes a row of
    nulls.

    The compiled kernel runs without the GIL, and keeps up to 32 MiB of freed memory for the next
    batch. A call costs about as much as decoding 200 messages, so batches of a few thousand are as
    fast as larger batches. The columns of a batch share their memory, which is freed with the last
    column; to keep a single column, select only that column.

    Args:
        array: the encoded messages: a pyarrow Array or ChunkedArray of binary, large_binary,
            binary_view or fixed_size_binary, or of a dictionary of such values; a pandas or Polars
            Series or anything else with Arrow's C interface; or a list of bytes. Memory is read
            in place.
        columns: names of columns, in the order of the result: columns of `SCHEMA`; ``body_text``,
            ``body_value`` and ``error``, which are derived; ``wire`` for the bytes of each
            message; and entries of the map sections: ``application_properties.tenant`` as a struct,
            ``application_properties.tenant string`` as a column ``tenant`` of strings, with
            ``as NAME`` after it under another name. Other types are ``bigint``, ``double``,
            ``boolean``, ``timestamp`` and ``binary``. A key with spaces is quoted:
            ``application_properties.'a key' string``. Spaces around a name, and double spaces
            between its parts, are ignored. ``properties.subject`` is another spelling of
            the column ``subject``. ``all`` or None for `SCHEMA`, ``lean`` for `LEAN`.
            Sections that no column needs are skipped, so errors inside them are not detected; the
            order of the sections is always checked. A selection of error columns, alone or with
            ``wire`` and ``message_format``, reads all sections. A `Picker` selects the columns of
            its paths: fields by name, such as ``message_id``, entries as structs, and ``body`` and
            ``body_json`` for the body. Its defaults are not applied, because a null may belong to a
            message that cannot be decoded.
        validate: a profile, such as ``oasis`` or a `Profile`, to validate against. A message that
            decodes but violates a rule of severity ``error`` keeps its values, and the three error
            columns name the first such rule. With the kernel, this costs about as much as decoding
            if few messages violate a rule.
        limits: bounds on the cost of decoding one message; None for the defaults of `Limits`.
        message_format: the content of the column ``message_format``, which is not part of a
            message: an int for all messages, or a sequence or array with one per message; None
            for null.
        maps: ``variant`` for map sections as `VARIANT`, whose values have SQL types only. A
            VARIANT of more than 16 MiB violates the rule ``size-limit``.
        strict: if False, a message that violates the specification is decoded as far as possible,
            as by `Message.decode`, and its row has both the readable values and the error. Left
            out are values that do not fit their column, entries of map sections whose keys are
            neither text nor a ulong, a body of different kinds of sections, and
            ``section_offsets``. The error columns name the first violation; `validate` returns all.

    Raises:
        TypeError: `array` does not hold bytes, or a column is not a str.
        ValueError: a column, a type or a profile is unknown; a path has no column; lengths differ;
            a column would exceed Arrow's limit of 2 GiB; or the JSON of the messages would exceed
            64 MiB plus 32 times their size: pass fewer messages per call.
    """
    plan = plan_of(columns, maps)
    profile = None if validate is None else profile_of(validate)
    limits = limits or DEFAULT_LIMITS
    chunks = binary_chunks(array)
    if not len(plan.result):
        # An empty selection: the result has no columns, but one row per message.
        rows: list[dict[str, Any]] = [{}] * sum(map(len, chunks))
        return pa.RecordBatch.from_struct_array(pa.array(rows, pa.struct([])))
    batches: Iterator[pa.RecordBatch] = (
        _decode_chunk(chunk, plan, limits, profile, strict=strict) for chunk in chunks
    )
    if len(chunks) > 1:
        batches = limit_text_size(batches, text_limit(*chunks), _text_size)
    decoded = list(batches)
    batch = decoded[0] if len(decoded) == 1 else concatenated(decoded, plan.schema)
    if message_format is not None and "message_format" in plan.schema.names:
        formats = message_format_column(message_format, batch.num_rows)
        index = plan.schema.get_field_index("message_format")
        batch = batch.set_column(index, plan.schema.field(index), formats)
    return batch if plan.result is plan.schema else _select_result(batch, plan)


def _select_result(batch: pa.RecordBatch, plan: Plan) -> pa.RecordBatch:
    """Build the selected columns from the columns that were read."""
    arrays = []
    for field in plan.result:
        if field.name in plan.entries:
            pick = plan.entries[field.name]
            structs = batch.column(pick.struct_name)
            arrays.append(structs if pick.type is None else pick.plain(structs))
        elif field.name in COMPUTED_COLUMNS:
            column = COMPUTED_COLUMNS[field.name]
            arrays.append(column.compute(*map(batch.column, column.inputs)))
        else:
            arrays.append(batch.column(field.name))
    return pa.RecordBatch.from_arrays(arrays, schema=plan.result)


def _text_size(batch: pa.RecordBatch) -> int:
    """Return the size of JSON and other texts in a batch, in bytes."""
    size = 0
    for field, column in zip(batch.schema, batch.columns, strict=True):
        texts = None
        if field.name == "body_json":
            texts = column
        elif pa.types.is_map(field.type):
            texts = column.items.field("s")
        elif field.type == VALUE:
            texts = column.field("s")
        elif field.type == VARIANT:
            texts = column.field("value")
        if texts is not None:
            size += pc.sum(pc.binary_length(texts)).as_py() or 0
    return size


def _decode_chunk(
    array: pa.Array, plan: Plan, limits: Limits, profile: Profile | None, *, strict: bool
) -> pa.RecordBatch:
    """Decode an array of binary or large_binary to the columns that `plan` reads."""
    if scan_kernel is None:
        messages = iterate_messages(array)
        rows = (row(octets, plan, limits, profile, strict=strict) for octets in messages)
        return rows_to_batch(limit_text_size(rows, text_limit(array), text_size), plan)
    try:
        batch, unsupported = scan_kernel(array, plan, limits)
    except OverflowError:
        raise TooMuchError(
            "a column would exceed 2 GiB, or the limit for values without content: decode fewer "
            "messages per call"
        ) from None
    if unsupported:
        batch = _fill_unsupported_rows(batch, array, unsupported, plan, limits, strict=strict)
    return batch if profile is None else _add_validation(array, batch, plan, limits, profile)


def _run_kernel(array: pa.Array, plan: Plan, limits: Limits) -> tuple[pa.RecordBatch, list[int]]:
    """Decode an array of binary or large_binary with the kernel.

    Returns:
        The columns, and the indexes of the unsupported rows, which have errors or values that the
        kernel does not handle. These rows are null in the columns.

    Raises:
        OverflowError: a column would exceed Arrow's 32-bit offsets, or the text of values would
            exceed `text_limit`.
        ValueError: the array is not valid.
    """
    valid, offsets, data = array.buffers()
    batch, unsupported = _to_kernel_plan(plan).read(
        *address_and_size(data),
        *address_and_size(offsets),
        8 if pa.types.is_large_binary(array.type) else 4,
        *address_and_size(valid),
        array.offset,
        len(array),
        min(limits.items, _KERNEL_NO_LIMIT),
        min(limits.zero_width, _KERNEL_NO_LIMIT),
        limits.zero_width_per_byte,
        _KERNEL_NO_LIMIT if limits.size is None else min(limits.size, _KERNEL_NO_LIMIT),
        limits.depth,
        text_limit(array),
    )
    wire_index = plan.schema.get_field_index("wire")
    if wire_index >= 0:
        batch = batch.add_column(wire_index, WIRE_COLUMN, array.cast(pa.binary()))
    return batch, unsupported


def address_and_size(buffer: pa.Buffer | None) -> tuple[int, int]:
    """Return the address and the size of a buffer; zeros for None."""
    return (buffer.address, buffer.size) if buffer else (0, 0)


#: A function that decodes an array with the compiled kernel. None if the kernel is not compiled:
#: then `_plain` decodes all rows.
scan_kernel: Callable[[pa.Array, Plan, Limits], tuple[pa.RecordBatch, list[int]]] | None = (
    None if _to_kernel_plan is None else _run_kernel
)


# The columns that can have a value in the row of a message that cannot be decoded.
_ERROR_ROW_COLUMNS = {"wire", *(field.name for field in ERROR_COLUMNS)}


def _fill_unsupported_rows(
    batch: pa.RecordBatch,
    array: pa.Array,
    unsupported: list[int],
    plan: Plan,
    limits: Limits,
    *,
    strict: bool,
) -> pa.RecordBatch:
    """Decode the rows with these indexes in Python, and return the batch with them.

    The kernel has left these rows null, because of errors or unsupported messages.
    """
    errors: dict[int, dict[str, Any]] = {}
    other_rows: dict[int, dict[str, Any]] = {}
    rows = (row(array[index].as_py(), plan, limits, None, strict=strict) for index in unsupported)
    limited_rows = limit_text_size(rows, text_limit(array), text_size)
    for index, cells in zip(unsupported, limited_rows, strict=True):
        (errors if cells.keys() <= _ERROR_ROW_COLUMNS else other_rows)[index] = cells
    if other_rows:
        batch = replace_rows(batch, list(other_rows), rows_to_batch(other_rows.values(), plan))
    return _set_errors(batch, errors) if errors else batch


def _set_errors(batch: pa.RecordBatch, errors: dict[int, dict[str, Any]]) -> pa.RecordBatch:
    """Set the error columns of some rows.

    `errors` contains the cells of these rows, by row index in ascending order.
    """
    flags = bytearray(batch.num_rows)
    for row_index in errors:
        flags[row_index] = 1
    buffer = pa.py_buffer(flags)
    has_error = pa.Array.from_buffers(pa.uint8(), len(flags), [None, buffer]).cast(pa.bool_())
    for field in ERROR_COLUMNS:
        index = batch.schema.get_field_index(field.name)
        if index >= 0:
            cells = pa.array([cells[field.name] for cells in errors.values()], field.type)
            replacement = pc.replace_with_mask(batch.column(index), has_error, cells)
            batch = batch.set_column(index, field, replacement)
    return batch


def replace_rows(
    batch: pa.RecordBatch, indexes: list[int], replacements: pa.RecordBatch
) -> pa.RecordBatch:
    """Replace the rows at ascending `indexes` by the rows of `replacements`."""
    return concatenated(splice_rows(batch, indexes, replacements), batch.schema)


def splice_rows(
    batch: pa.RecordBatch, indexes: list[int], replacements: pa.RecordBatch
) -> list[pa.RecordBatch]:
    """Replace rows like `replace_rows`, but return the result as slices, without copying."""
    pieces: list[pa.RecordBatch] = []
    next_row = 0
    run_start = 0  # start of a run of adjacent indexes
    for i, index in enumerate(indexes):
        if i + 1 < len(indexes) and indexes[i + 1] == index + 1:
            continue
        first = index - (i - run_start)
        pieces += (
            batch.slice(next_row, first - next_row),
            replacements.slice(run_start, i + 1 - run_start),
        )
        next_row = index + 1
        run_start = i + 1
    pieces.append(batch.slice(next_row))
    return [piece for piece in pieces if piece.num_rows]


def _add_validation(
    array: pa.Array, batch: pa.RecordBatch, plan: Plan, limits: Limits, profile: Profile
) -> pa.RecordBatch:
    """Validate the rows without an error, and set their error columns, if any are selected."""
    names = [field.name for field in ERROR_COLUMNS if field.name in plan.schema.names]
    if not names:
        return batch
    errors: dict[int, dict[str, Any]] = {}
    is_error = pc.is_valid(batch.column(names[0]))
    for index in suspects(array, limits, profile):
        message = array[index].as_py()
        if message is not None and not is_error[index].as_py():
            cells = validation_cells(message, limits, profile)
            if cells:
                errors[index] = cells
    return _set_errors(batch, errors) if errors else batch


def suspects(array: pa.Array, limits: Limits, profile: Profile) -> Sequence[int]:
    """Return the indexes of messages that may violate a rule; all other messages are valid.

    Without the kernel, these are all messages, because the test would cost as much as validation.

    Args:
        array: the encoded messages, as `binary_chunks` yields them.
        limits: bounds on the cost of decoding one message.
        profile: the validation profile.
    """
    if scan_kernel is None or has_unscreened_rules(profile):
        return range(len(array))
    try:
        # Unsupported rows are all suspects: decoding them with `_plain` for the test would be slow.
        screened, unsupported = scan_kernel(array, plan_of(_prefilter.PREFILTER_COLUMNS), limits)
    except OverflowError:
        return range(len(array))
    return sorted({*unsupported, *_prefilter.suspects(screened, profile)})


def iterate_messages(array: pa.Array) -> Iterator[bytes | None]:
    """Yield the messages one at a time, so that they are not all copied."""
    for scalar in array:
        yield scalar.as_py()


def rows_to_batch(rows: Iterable[dict[str, Any]], plan: Plan) -> pa.RecordBatch:
    """Convert rows, each a dict of cells, to a batch."""
    row_list = list(rows)
    present = {name for cells in row_list for name in cells}
    arrays = []
    for field in plan.schema:
        if field.type == VARIANT:
            column = _variant_column([cells.get(field.name) for cells in row_list])
        elif field.name not in present:
            column = pa.nulls(len(row_list), field.type)
        else:
            column = pa.array([cells.get(field.name) for cells in row_list], field.type)
        if isinstance(column, pa.ChunkedArray):
            raise TooMuchError(
                f"the column {field.name} would exceed 2 GiB: decode fewer messages per call"
            )
        arrays.append(column)
    return pa.RecordBatch.from_arrays(arrays, schema=plan.schema)


def _variant_column(cells: list[dict[str, bytes] | None]) -> pa.Array | pa.ChunkedArray:
    """Return a VARIANT column, with empty members in null rows.

    pyarrow would set null members, which are not nullable, and then fail to cast the array.
    """
    members = [
        pa.array([b"" if cell is None else cell[member.name] for cell in cells], member.type)
        for member in VARIANT
    ]
    for array in members:
        if isinstance(array, pa.ChunkedArray):
            return array
    absent = pa.array([cell is None for cell in cells], pa.bool_())
    return pa.StructArray.from_arrays(members, fields=list(VARIANT), mask=absent)


def concatenated(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """Concatenate batches with the same schema."""
    if not batches:
        return pa.RecordBatch.from_pylist([], schema=schema)
    try:
        return pa.RecordBatch.from_arrays(
            [pa.concat_arrays([batch.column(i) for batch in batches]) for i in range(len(schema))],
            schema=schema,
        )
    except pa.ArrowInvalid as error:
        raise TooMuchError(
            f"the columns would exceed 2 GiB: decode fewer messages per call ({error})"
        ) from None


def binary_chunks(array: Any) -> list[pa.Array]:
    """Convert input of `decode` to arrays of binary or large_binary, without a copy if possible.

    Raises:
        TypeError: the input does not contain bytes.
        TooMuchError: expanding a dictionary array would exceed `text_limit`.
    """
    chunks = array.chunks if isinstance(array, pa.ChunkedArray) else [_to_array(array)]
    if len(chunks) == 1 and isinstance(chunks[0], pa.ChunkedArray):
        chunks = chunks[0].chunks
    return [_to_binary(chunk) for chunk in chunks]


def _to_array(array: Any) -> Any:
    """Convert input of `decode` to a pyarrow Array or ChunkedArray; TypeError if not possible."""
    if isinstance(array, pa.Array):
        return array
    if isinstance(array, bytes | bytearray | memoryview | Message):
        raise TypeError(
            f"expected several encoded messages, got one, of type {type(array).__name__}: pass "
            + ("[message.encode()]" if isinstance(array, Message) else "[message]")
        )
    if hasattr(array, "__arrow_c_array__"):
        return pa.array(array)
    if hasattr(array, "__arrow_c_stream__"):
        return pa.chunked_array(array)
    try:
        return pa.array(array)
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError) as error:
        raise TypeError(f"expected encoded messages as binary: {error}") from None


def _to_binary(array: pa.Array) -> pa.Array:
    """Convert an array to binary or large_binary; errors as for `binary_chunks`."""
    arrow_type = array.type
    if pa.types.is_binary(arrow_type) or pa.types.is_large_binary(arrow_type):
        return array
    if pa.types.is_fixed_size_binary(arrow_type) or pa.types.is_null(arrow_type):
        return array.cast(pa.binary())
    if arrow_type == pa.binary_view():
        return array.cast(pa.large_binary())
    if pa.types.is_dictionary(arrow_type):
        values = _to_binary(array.dictionary).cast(pa.large_binary())
        size = pc.sum(pc.binary_length(values).take(array.indices)).as_py() or 0
        if size > text_limit(array):
            raise TooMuchError(
                f"the messages of this dictionary array have {size:,} bytes: decode fewer per call"
            )
        return values.take(array.indices)
    raise TypeError(f"expected encoded messages as binary, got {arrow_type}")


def message_format_column(formats: Any, count: int) -> pa.Array:
    """Return the column ``message_format`` for `count` messages.

    Raises:
        ValueError: the number of formats differs from `count`.
    """
    if formats is None or isinstance(formats, int):
        return pa.repeat(pa.scalar(formats, pa.int64()), count)
    if isinstance(formats, pa.ChunkedArray):
        formats = formats.combine_chunks()
    column = formats if isinstance(formats, pa.Array) else pa.array(formats, pa.int64())
    if len(column) != count:
        raise ValueError(
            f"message_format must have one item per message, {count}, got {len(column)}"
        )
    return column.cast(pa.int64())


# Limits on the size of a decoded batch.

# The text columns of a batch, such as JSON, are limited to 64 MiB plus 32 times the size of the
# messages. Without the limit, a batch could exhaust the memory: the elements of an array of nulls
# have no bytes, so a message of 13 bytes can have 65,536 elements, and its JSON is 80,000 times as
# large as the message. The JSON of values that do have bytes is at most 17 times as large.
_MIN_TEXT_BYTES = 64 << 20
_TEXT_BYTES_PER_MESSAGE_BYTE = 32


class TooMuchError(ValueError):
    """The columns of a batch would be too large; decode fewer messages per call."""

    __module__ = "amqp10msg.columns"  # the public module, for tracebacks


def text_limit(*arrays: pa.Array) -> int:
    """Return the maximum size of the text columns of decoded messages, in bytes."""
    return _MIN_TEXT_BYTES + _TEXT_BYTES_PER_MESSAGE_BYTE * sum(
        int(array.nbytes) for array in arrays
    )


def limit_text_size(
    rows: Iterable[_Result], remaining: int, size: Callable[[_Result], int]
) -> Iterator[_Result]:
    """Yield rows or batches until the total size of their texts exceeds a limit.

    The first row is allowed to exceed the limit.

    Args:
        rows: the rows or batches.
        remaining: the limit in bytes.
        size: returns the text size of a row or batch.

    Raises:
        TooMuchError: the total size exceeds the limit.
    """
    for count, cells in enumerate(rows):
        remaining -= size(cells)
        if remaining < 0 and count:
            raise TooMuchError(
                "the messages have so many values without content that their JSON would exhaust "
                "the memory: decode fewer messages per call, or set Limits(zero_width=...)"
            )
        yield cells


def in_pieces(
    batch: pa.RecordBatch, compute: Callable[[pa.RecordBatch], _Result]
) -> Iterator[tuple[pa.RecordBatch, _Result]]:
    """Apply `compute` to a batch; if it is too large, to halves of it, recursively.

    Yields:
        The part of the batch, and the result for it.

    Raises:
        TooMuchError: a single message is too large.
    """
    try:
        result = compute(batch)
    except TooMuchError:
        if batch.num_rows < 2:
            raise
        middle = batch.num_rows // 2
        yield from in_pieces(batch.slice(0, middle), compute)
        yield from in_pieces(batch.slice(middle), compute)
    else:
        yield batch, result
