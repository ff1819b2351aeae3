"""Encode columns to messages."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from importlib.util import find_spec
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from amqp10msg.columns._cells import parse_identifier, section_content
from amqp10msg.columns._decode import splice_rows
from amqp10msg.columns._derived import (
    check_companions,
    check_decoded_companions,
    check_repeated,
)
from amqp10msg.columns._entries import entry_pick, merge_entries
from amqp10msg.columns._picks import Pick
from amqp10msg.columns._schema import (
    COMPUTED_COLUMNS,
    DERIVED_COLUMNS,
    ERROR_COLUMNS,
    MAPS,
    SCHEMA,
    VARIANT,
    WIRE_COLUMN,
    column_name,
    unknown_column,
)
from amqp10msg.composite import rows
from amqp10msg.message import Message, Template
from amqp10msg.notation import from_typed
from amqp10msg.sections import KINDS, AmqpSequence, AmqpValue, Data, Header, Properties
from amqp10msg.wire.errors import EncodeError
from amqp10msg.wire.kernel import COMPILED
from amqp10msg.wire.primitives import Timestamp

#: A function that encodes rows with the compiled kernel. It returns the messages, and the indexes
#: of the unsupported rows, which Python must encode. None if the kernel is not compiled.
kernel: Callable[[pa.RecordBatch], tuple[pa.Array, list[int]]] | None = None
#: A function like `kernel` for the columns of a template. It returns None if the kernel does not
#: support the template.
template_kernel: Callable[[pa.RecordBatch, Template], tuple[pa.Array, list[int]] | None] | None = (
    None
)
if COMPILED and find_spec("amqp10msg.columns._kernel.write") is not None:
    from amqp10msg.columns import _encode_plan

    kernel = _encode_plan.encode_columns
    template_kernel = _encode_plan.encode_template

_TOO_LARGE_TEXT = "the messages would exceed 2 GiB: encode fewer rows per call"
# The number of rows that are converted to Python values at the same time.
_ROWS_PER_CHUNK = 1024
# The types of all columns of messages, and the names of the columns that are encoded. The
# message-format is not encoded, because it belongs to the transfer frame.
_TYPE_BY_COLUMN = {field.name: field.type for field in (*SCHEMA, *DERIVED_COLUMNS)}
_COLUMNS_TO_ENCODE = set(SCHEMA.names) - {
    *("message_format", "section_offsets", "body_sections"),
    *(field.name for field in ERROR_COLUMNS),
}
# pandas exports its index, the labels of rows, as columns with these names.
_PANDAS_INDEX_COLUMN_PATTERN = re.compile(r"__index_level_\d+__")
# The column that is true if there is a properties section, even without fields.
_HAS_PROPERTIES_COLUMN = "has_properties"
#: The kinds of body section, by name.
_BODY_KIND_BY_NAME = {kind.name: kind for kind in KINDS if kind.attribute == "body"}


def encode(
    batch: pa.RecordBatch | pa.Table | Mapping[str, Any],
    template: Template | None = None,
    *,
    extra: Literal["error", "ignore"] = "error",
) -> pa.Array:
    """Encode rows of columns as messages.

    The columns may be all that `decode` returns, in any order: columns of `SCHEMA`, and entries of
    map sections, such as ``application_properties.tenant``, as structs or as plain values. Missing
    columns are treated as null, and timestamps without a time zone as UTC. Every value is written
    in the smallest encoding of its type, and defaults are omitted. A section is written if any of
    its columns is not null. All columns together restore a message that is equal to the decoded
    message. Without ``body_lengths``, several data sections become one; without ``has_properties``,
    an empty properties section is omitted. A column ``message_id`` without ``message_id_type``, or
    likewise ``correlation_id``, has strings; but if its metadata says that it comes from `decode`,
    it is refused, because it may have identifiers of other types. Likewise, a decoded
    ``creation_time`` or ``absolute_expiry_time`` is refused without the column ``…_ms``, which has
    the times outside the years 1 to 9999, and that column without the former. A row without
    values, such as after a decoding error, becomes the bytes of ``wire`` if the batch has that
    column, an empty message if ``section_offsets`` is an empty list, and null otherwise.

    ``message_format``, ``section_offsets`` and the error columns are not written, because they are
    not part of a message; ``wire`` is written only for rows without other values.
    ``body_sections``, ``body_text`` and ``body_value`` repeat other columns, and must agree with
    them. The compiled kernel writes most rows without the GIL and without Python objects. Values of
    rare types and rows with an error are encoded row by row in Python, and entry columns are also
    merged row by row.

    With a template, the columns are the values of its paths, and each row gives the same result as
    `Template.encode`: ``encode({"properties.message_id": ids, "body": bodies}, template)``. A null
    is passed as None, numbers have the type that the template defines, and timestamps need a time
    zone; they are rounded down to milliseconds. The kernel writes columns of numbers, booleans,
    strings and binaries without the GIL. Batches of a few thousand rows are fastest, because a
    large result needs new memory.

    Args:
        batch: a pyarrow RecordBatch or Table, or an object with Arrow's C stream interface, such
            as a Polars or pandas frame; with a template, also a mapping of its paths to arrays.
        template: a result of `Message.template`.
        extra: ``ignore`` to ignore columns that are not part of a message. By default, such a
            column is an error, because a misspelt column would be missing in every message.

    Returns:
        A binary Array with one message per row.

    Raises:
        EncodeError: a value cannot be encoded, or columns of a row contradict each other; the
            path of the error begins with the row number.
        TypeError: `batch` is not a frame, or has no column of a message; a column cannot be cast to
            its type in `SCHEMA`; or a column of the template is missing.
        ValueError: a column is unknown or repeated; an identifier or a time comes from `decode`
            without the column of its types or of the other times; or `extra` is invalid.
    """
    if extra not in {"error", "ignore"}:
        raise ValueError(f"extra must be 'error' or 'ignore', got {extra!r}")
    is_strict = extra == "error"
    chunks: list[pa.Array] = []
    first_row = 0
    for part in _message_parts(batch, template, is_strict):
        if template is None:
            check_companions(part, first_row)
        messages = _encode_part(part, first_row, template)
        if template is None:
            check_repeated(part, messages, first_row)
        chunks += messages
        first_row += part.num_rows
    try:
        return (
            chunks[0]
            if len(chunks) == 1
            else pa.concat_arrays(chunks or [pa.array([], WIRE_COLUMN.type)])
        )
    except pa.ArrowInvalid:
        raise EncodeError(_TOO_LARGE_TEXT) from None


def _encode_part(part: pa.RecordBatch, first_row: int, template: Template | None) -> list[pa.Array]:
    """Encode the rows of a batch. `first_row` is the number of its first row, for errors."""
    row_numbers = range(first_row, first_row + part.num_rows)
    result = None
    if part.num_rows and kernel is not None and template_kernel is not None:
        try:
            result = kernel(part) if template is None else template_kernel(part, template)
        except OverflowError:
            raise EncodeError(_TOO_LARGE_TEXT) from None
    if result is None:
        return _encode_by_row(part, row_numbers, template)
    messages, unsupported = result
    if not unsupported:
        return [messages]
    if len(unsupported) == part.num_rows:
        return _encode_by_row(part, row_numbers, template)
    unsupported_rows = part.take(pa.array(unsupported, pa.int64()))
    unsupported_messages = pa.concat_arrays(
        _encode_by_row(unsupported_rows, [first_row + index for index in unsupported], template)
    )
    batch, unsupported_batch = (
        pa.RecordBatch.from_arrays([array], names=[WIRE_COLUMN.name])
        for array in (messages, unsupported_messages)
    )
    return [piece.column(0) for piece in splice_rows(batch, unsupported, unsupported_batch)]


def _encode_by_row(
    part: pa.RecordBatch, row_numbers: Sequence[int], template: Template | None
) -> list[pa.Array]:
    """Encode rows in Python. `row_numbers` contains the number of each row, for errors."""
    chunks = []
    for start in range(0, part.num_rows, _ROWS_PER_CHUNK):
        rows = part.slice(start, _ROWS_PER_CHUNK)
        if template is None:
            columns = [_python_values(column) for column in rows.columns]
        else:
            columns = [
                _template_values(column, path, row_numbers[start:])
                for path, column in zip(template.paths, rows.columns, strict=True)
            ]
        messages: list[bytes | None] = []
        for index in range(rows.num_rows):
            cells = [column[index] for column in columns]
            try:
                if template is None:
                    messages.append(_encode_row(dict(zip(rows.schema.names, cells, strict=True))))
                else:
                    messages.append(template.encode(*cells))
            except EncodeError as error:
                path = f"row {row_numbers[start + index]}" + (
                    f": {error.path}" if error.path else ""
                )
                raise EncodeError(error.reason, path) from None
        array = pa.array(messages, WIRE_COLUMN.type)
        if isinstance(array, pa.ChunkedArray):
            raise EncodeError(_TOO_LARGE_TEXT)
        chunks.append(array)
    return chunks


def _python_values(column: pa.Array) -> list[Any]:
    """Return the cells of a column as Python values.

    Timestamps become integers, because datetime has a smaller range.
    """
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    values: list[Any] = column.to_pylist()
    return values


def _template_values(column: pa.Array, path: str, row_numbers: Sequence[int]) -> list[Any]:
    """Return the cells of a template's column as Python values, with AMQP timestamps.

    `row_numbers` contains the number of each row, for errors.

    Raises:
        EncodeError: a timestamp has no time zone, or is out of range.
    """
    values = _python_values(column)
    if not pa.types.is_timestamp(column.type):
        return values
    for index, value in enumerate(values):
        if value is None:
            continue
        try:
            if column.type.tz is None:
                raise ValueError("a timestamp needs a time zone, such as UTC")
            # The unit is s or ms, because `_in_milliseconds` has converted us and ns.
            values[index] = Timestamp(value * (1000 if column.type.unit == "s" else 1))
        except ValueError as error:
            cell_path = f"row {row_numbers[index]}: {path}"
            raise EncodeError(str(error), cell_path) from None
    return values


@lru_cache(maxsize=64)
def _has_message_columns(schema: pa.Schema) -> bool:
    """Return True if all columns are message columns of the right types, without duplicates."""
    return (
        0 < len(schema) == len(set(schema.names))
        and schema.names != ["message_format"]
        and all(_TYPE_BY_COLUMN.get(field.name) == field.type for field in schema)
    )


def _message_parts(batch: Any, template: Template | None, is_strict: bool) -> list[pa.RecordBatch]:
    """Return the message columns, or the template's columns, as a list of record batches.

    If `is_strict`, other columns are an error.
    """
    if template is not None:
        return _template_parts(batch, template, is_strict)
    if not isinstance(batch, pa.RecordBatch):
        batch = _as_table(batch)
    check_decoded_companions(batch.schema)
    if isinstance(batch, pa.RecordBatch) and _has_message_columns(batch.schema):
        return [batch]
    table, entries = _message_table(batch, is_strict)
    parts: list[pa.RecordBatch] = []
    first_row = 0
    for part in table.to_batches():
        parts.append(merge_entries(part, entries, first_row))
        first_row += part.num_rows
    return parts


def _template_parts(batch: Any, template: Template, is_strict: bool) -> list[pa.RecordBatch]:
    """Return the template's columns, in the order of its paths, as a list of record batches."""
    table = pa.table(batch) if isinstance(batch, Mapping) else _as_table(batch)
    for name in table.schema.names if is_strict else ():
        if name not in template.paths and not _PANDAS_INDEX_COLUMN_PATTERN.fullmatch(name):
            matches = difflib.get_close_matches(name, template.paths, 1)
            hint = f" (did you mean {matches[0]!r}?)" if matches else ""
            raise ValueError(
                f"the template has no path {name!r}{hint}: its paths are "
                f"{', '.join(template.paths)}; extra='ignore' leaves other columns out"
            )
    for path in template.paths:
        if path not in table.schema.names:
            raise TypeError(f"the template needs a column {path!r}")
    _reject_duplicates(list(template.paths), table.schema.names)
    table = table.select(list(template.paths))
    for index, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type) and field.type.unit in {"us", "ns"}:
            table = table.set_column(index, field.name, _in_milliseconds(table.column(index)))
    parts: list[pa.RecordBatch] = table.to_batches()
    return parts


def _reject_duplicates(names: list[str], present: list[str]) -> None:
    """Raise ValueError if one of `names` occurs several times in `present`."""
    repeated = sorted({name for name in names if present.count(name) > 1})
    if repeated:
        raise ValueError(f"duplicate columns: {', '.join(repeated)}")


def _in_milliseconds(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Round timestamps down to ms, like `Timestamp`."""
    numbers = column.cast(pa.int64())
    units_per_ms = 1000 if column.type.unit == "us" else 1_000_000
    truncated = pc.divide(numbers, units_per_ms)
    # The division rounds towards 0: subtract 1 from the results that were rounded up.
    is_above = pc.greater(pc.multiply(truncated, units_per_ms), numbers)
    return pc.subtract(truncated, is_above.cast(pa.int64())).cast(
        pa.timestamp("ms", column.type.tz)
    )


def _as_table(batch: Any) -> pa.Table:
    """Convert an argument of `encode` to a Table; TypeError if it is not a frame."""
    if isinstance(batch, pa.RecordBatch):
        return pa.Table.from_batches([batch])
    if isinstance(batch, pa.Table):
        return batch
    if not hasattr(batch, "__arrow_c_stream__"):
        raise TypeError(f"expected a RecordBatch or Table, got {type(batch).__name__}")
    return pa.table(batch)


def _message_table(batch: Any, is_strict: bool) -> tuple[pa.Table, dict[str, Pick]]:
    """Return the message columns of a batch, and the `Pick` of each entry column by its name.

    If `is_strict`, other columns are an error.
    """
    batch = _as_table(batch)
    columns: dict[str, pa.ChunkedArray] = {}
    entries: dict[str, Pick] = {}
    unknown: list[str] = []
    names = [column_name(name) for name in batch.schema.names]
    for index, (name, field) in enumerate(zip(names, batch.schema, strict=True)):
        pick = entry_pick(field)
        if pick is not None:
            entries[name] = pick
            columns[name] = batch.column(index)
        elif name in _TYPE_BY_COLUMN:
            columns[name] = _cast_column(name, batch.column(index))
        elif not _PANDAS_INDEX_COLUMN_PATTERN.fullmatch(name):
            unknown.append(name)
    _reject_duplicates([*columns], names)
    if not columns.keys() - {"message_format"}:
        advice = (
            unknown_column(unknown[0], _TYPE_BY_COLUMN)
            if unknown
            else f"use {', '.join(_TYPE_BY_COLUMN)}"
        )
        raise TypeError(f"no column is part of a message: {advice}")
    if unknown and is_strict:
        raise ValueError(
            f"{unknown_column(unknown[0], _TYPE_BY_COLUMN)}; extra='ignore' skips unknown columns"
        )
    return pa.table(columns), entries


def _cast_column(name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Cast a column to its type in `SCHEMA`.

    Raises:
        TypeError: the column cannot be cast.
    """
    target = _TYPE_BY_COLUMN[name]
    if target == VARIANT or name in COMPUTED_COLUMNS:
        return column  # these columns are compared with the message, or ignored
    try:
        if pa.types.is_dictionary(column.type):
            # Arrow cannot cast dictionaries of views, such as those of Polars, to plain columns.
            column = column.cast(pa.dictionary(column.type.index_type, target))
        if pa.types.is_timestamp(target) and pa.types.is_integer(column.type):
            # Arrow would interpret the numbers as microseconds.
            raise pa.ArrowTypeError(f"integers in ms belong in the column {name}_ms")
        if pa.types.is_map(target) and pa.types.is_large_list(column.type):
            column = column.cast(pa.list_(column.type.value_field))
        if pa.types.is_map(target) and pa.types.is_list(column.type):
            maps = [_list_to_map(chunk, target) for chunk in column.chunks]
            column = pa.chunked_array(maps, target)
        return column if column.type == target else column.cast(target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise TypeError(f"the column {name} must be {target}: {error}") from None


def _list_to_map(array: pa.ListArray, target: pa.MapType) -> pa.MapArray:
    """Convert lists of key-value structs to maps, which Arrow cannot cast."""
    content = array.flatten()  # without hidden items of null lists
    keys, items = (
        pc.struct_field(content, name).cast(member_type)
        for name, member_type in (("key", target.key_type), ("value", target.item_type))
    )
    row_ends = pc.cumulative_sum(pc.fill_null(pc.list_value_length(array), 0))
    offsets = pa.concat_arrays([pa.array([0], row_ends.type), row_ends])
    # The start offset of a null map is null. The last offset is only the end of the last map.
    absent = pa.concat_arrays([array.is_null(), pa.array([False])])
    return pa.MapArray.from_arrays(pc.if_else(absent, None, offsets), keys, items)


def _encode_row(cells: Mapping[str, Any]) -> bytes | None:
    """Encode one row in Python; `cells` contains its values by column."""
    values = {
        name: value
        for name, value in cells.items()
        if value is not None and name in _COLUMNS_TO_ENCODE
    }
    if values.get(_HAS_PROPERTIES_COLUMN) is False:
        del values[_HAS_PROPERTIES_COLUMN]
    if not values:
        if "wire" in cells:
            wire: bytes | None = cells["wire"]
            return wire
        return None if cells.get("section_offsets") is None else b""
    message = Message()
    header = {f.name: values[f.name] for f in rows(Header) if f.name in values}
    if header:
        message.header = Header(**header)
    message.properties = _build_properties(values)
    for name in MAPS:
        if name in values:
            try:
                content = section_content(values[name], text_keys=name == "application_properties")
            except EncodeError as error:
                raise EncodeError(error.reason, name + error.path) from None
            kind = next(kind for kind in KINDS if kind.attribute == name)
            setattr(message, name, kind.cls(content))
    message.body = _build_body(values)
    return message.encode()


def _build_properties(values: Mapping[str, Any]) -> Properties | None:
    """Return the properties section of a row, or None."""
    fields: dict[str, Any] = {}
    for field in rows(Properties):
        value = values.get(field.name)
        if field.requires == "message-id":
            try:
                value = parse_identifier(value, values.get(f"{field.name}_type"))
            except EncodeError as error:
                raise EncodeError(error.reason, field.name) from None
        elif field.type == "timestamp":
            if value is None:
                value = values.get(f"{field.name}_ms")
            elif value % 1000:
                raise EncodeError("an AMQP timestamp has no microseconds", field.name)
            else:
                value //= 1000
        if value is not None:
            fields[field.name] = value
    return Properties(**fields) if fields or _HAS_PROPERTIES_COLUMN in values else None


def _split_data(content: bytes, lengths: Sequence[int | None]) -> list[Data]:
    """Split the bytes of a body into data sections."""
    sections: list[Data] = []
    start = 0
    for length in lengths:
        if length is None or length < 0:
            raise EncodeError(f"a length must be 0 or more, got {length}", "body_lengths")
        sections.append(Data(content[start : start + length]))
        start += length
    if start != len(content) or not sections:
        raise EncodeError(
            f"the lengths must add up to the size of the body, {len(content)} bytes, got {start}: "
            "set body_lengths to null for a single data section",
            "body_lengths",
        )
    return sections


def _build_body(values: Mapping[str, Any]) -> Any:
    """Return the body of a row as one or more body sections, or None."""
    name = values.get("body_kind")
    data, text = values.get("body"), values.get("body_json")
    lengths = values.get("body_lengths")
    if lengths is not None and (data is None or text is not None or name not in {None, "data"}):
        raise EncodeError("body_lengths must be null unless the body is data", "body_lengths")
    if name is None:
        if data is None and text is None:
            return None
        if data is None:
            raise EncodeError("body_json needs body_kind amqp-value or amqp-sequence", "body_kind")
        name = "data"
    if name not in _BODY_KIND_BY_NAME:
        raise EncodeError(
            f"body_kind must be one of {', '.join(_BODY_KIND_BY_NAME)}, got {name!r}", "body_kind"
        )
    if name == "data":
        if data is None or text is not None:
            raise EncodeError(
                "body_kind data needs a value in the column body, and null in body_json", "body"
            )
        return Data(data) if lengths is None else _split_data(data, lengths)
    if text is None or data is not None:
        raise EncodeError(
            f"body_kind {name} needs a value in the column body_json, and null in body", "body_json"
        )
    try:
        typed = json.loads(text)
        if name == "amqp-value":
            return AmqpValue(from_typed(typed))
        if not isinstance(typed, list) or not typed:
            raise ValueError("expected a list of sections, each a list of values")
        return [AmqpSequence(from_typed(["list", section])) for section in typed]
    except (ValueError, RecursionError) as error:
        raise EncodeError(str(error), "body_json") from None
