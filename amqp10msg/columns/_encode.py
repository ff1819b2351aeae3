"""Columns back to encoded messages."""

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

from amqp10msg.columns._cells import entries_of, identifier_of
from amqp10msg.columns._decode import replaced
from amqp10msg.columns._derived import check_partners, check_shown
from amqp10msg.columns._entries import entry_of, fold_entries
from amqp10msg.columns._picks import Pick
from amqp10msg.columns._schema import (
    DERIVED,
    ERRORS,
    MAPS,
    SCHEMA,
    VARIANT,
    WIRE,
    column_name,
    unknown_column,
)
from amqp10msg.composite import rows
from amqp10msg.message import Message
from amqp10msg.message.templates import Template
from amqp10msg.notation import from_typed
from amqp10msg.sections import KINDS, AmqpSequence, AmqpValue, Data, Header, Properties
from amqp10msg.wire.errors import EncodeError
from amqp10msg.wire.kernel import COMPILED
from amqp10msg.wire.primitives import Timestamp

#: Writes the usual rows with the kernel, which runs compiled only; None if none are usual.
kernel: Callable[[pa.RecordBatch], tuple[pa.Array, list[int]]] | None = None
#: Writes the rows of a template so; None also where it cannot.
filled: Callable[[pa.RecordBatch, Template], tuple[pa.Array, list[int]] | None] | None = None
if COMPILED and find_spec("amqp10msg.columns._kernel.write") is not None:
    from amqp10msg.columns import _encode_plan

    kernel = _encode_plan.written
    filled = _encode_plan.filled

_TOO_MUCH = "the messages exceed 2 GiB: encode fewer rows at once"
# Rows that are values of Python at the same time.
_AT_ONCE = 1024
# The columns that belong to a message, and those of them that it is made of. The message-format is
# known to the transfer frame, and to no message.
_TYPES = {field.name: field.type for field in (*SCHEMA, *DERIVED)}
_VALUES = set(SCHEMA.names) - {
    *("message_format", "section_offsets", "body_sections"),
    *(field.name for field in ERRORS),
}
# pandas gives the labels of its rows as columns of these names.
_ROW_LABELS = re.compile(r"__index_level_\d+__")
# A section may be there without any field.
_PRESENT = "has_properties"
_BODIES = {kind.name: kind for kind in KINDS if kind.attribute == "body"}


def encode(
    batch: pa.RecordBatch | pa.Table | Mapping[str, Any],
    template: Template | None = None,
    *,
    extra: Literal["error", "ignore"] = "error",
) -> pa.Array:
    """Encode rows of columns as messages.

    The columns are those that `decode` returns, in any order: those of `SCHEMA`, and entries of the
    map sections, such as ``application_properties.tenant``, as structs or as plain values. Missing
    columns count as null. A moment without a time zone counts as UTC. Every value is written in the
    smallest encoding of its type, and a default is left out. A section is written if a column of it
    is not null. A message from all columns is equal to the one that was decoded; without
    ``body_lengths`` several data sections become one, and without ``has_properties`` a properties
    section without any field is left out. A row without any value, such as that of a message that
    cannot be decoded, becomes the bytes of ``wire`` if the batch has that column, zero bytes if
    ``section_offsets`` is an empty list, and null otherwise.

    ``message_format``, ``section_offsets`` and the columns of errors are not part of a message, and
    are not written; ``wire`` is written for rows without other values only. ``body_sections``,
    ``body_text`` and ``body_value`` repeat what other columns hold, and must agree with them.
    The compiled kernel writes the usual rows without the GIL and without objects for them; values
    of rare types, and rows with an error, take a message of Python each, and columns of entries are
    collected row by row.

    With a template, the columns are the values of its paths, and row for row the result is that of
    `Template.encode`: ``encode({"properties.message_id": ids, "body": bodies}, template)``. A null
    is None, a number has the type that the template has for it, and a timestamp needs a time zone;
    what is finer than a millisecond is cut off towards the past. Columns of numbers, booleans,
    strings and binaries are written by the kernel, without the GIL. Batches of thousands of rows
    are quickest: a large result needs new memory.

    Args:
        batch: a pyarrow RecordBatch or Table, or anything with Arrow's C stream interface, such
            as a Polars or pandas frame; with a template also a mapping of its paths to arrays.
        template: made by `Message.template`.
        extra: ``ignore`` to leave out columns that belong to no message; by default they are an
            error, because a misspelt column would be missing in every message.

    Returns:
        An Array of binary, a message for each row.

    Raises:
        EncodeError: a value cannot be encoded, or columns of a row contradict each other; the
            error's path begins with the row's number.
        TypeError: `batch` is not a frame or has no column of a message, a column cannot be cast to
            its type in `SCHEMA`, or one that the template needs is not there.
        ValueError: a column is unknown or there twice, or `extra` is neither.
    """
    if extra not in {"error", "ignore"}:
        raise ValueError(f"extra must be 'error' or 'ignore', not {extra!r}")
    is_strict = extra == "error"
    made: list[pa.Array] = []
    begin = 0
    for part in _parts_of(batch, template, is_strict):
        if template is None:
            check_partners(part, begin)
        messages = _messages(part, begin, template)
        if template is None:
            check_shown(part, messages, begin)
        made += messages
        begin += part.num_rows
    try:
        return made[0] if len(made) == 1 else pa.concat_arrays(made or [pa.array([], WIRE.type)])
    except pa.ArrowInvalid:
        raise EncodeError(_TOO_MUCH) from None


def _messages(part: pa.RecordBatch, begin: int, template: Template | None) -> list[pa.Array]:
    """Return the messages of a part of the rows, in pieces; `begin` is the number of its first."""
    rows = range(begin, begin + part.num_rows)
    written = None
    if part.num_rows and kernel is not None and filled is not None:
        try:
            written = kernel(part) if template is None else filled(part, template)
        except OverflowError:
            raise EncodeError(_TOO_MUCH) from None
    if written is None:
        return _one_by_one(part, rows, template)
    usual, odd = written
    if not odd:
        return [usual]
    if len(odd) == part.num_rows:
        return _one_by_one(part, rows, template)
    taken = part.take(pa.array(odd, pa.int64()))
    others = pa.concat_arrays(_one_by_one(taken, [begin + place for place in odd], template))
    batch, mended = (
        pa.RecordBatch.from_arrays([array], names=[WIRE.name]) for array in (usual, others)
    )
    return [piece.column(0) for piece in replaced(batch, odd, mended)]


def _one_by_one(
    part: pa.RecordBatch, numbers: Sequence[int], template: Template | None
) -> list[pa.Array]:
    """Return messages, each row as cells in Python; the numbers are what errors call the rows."""
    made = []
    for first in range(0, part.num_rows, _AT_ONCE):
        rows = part.slice(first, _AT_ONCE)
        if template is None:
            columns = [_values(column) for column in rows.columns]
        else:
            columns = [
                _given(column, path, numbers[first:])
                for path, column in zip(template.paths, rows.columns, strict=True)
            ]
        messages: list[bytes | None] = []
        for index in range(rows.num_rows):
            cells = [column[index] for column in columns]
            try:
                if template is None:
                    messages.append(_encoded(dict(zip(rows.schema.names, cells, strict=True))))
                else:
                    messages.append(template.encode(*cells))
            except EncodeError as error:
                path = f"row {numbers[first + index]}" + (f": {error.path}" if error.path else "")
                raise EncodeError(error.reason, path) from None
        array = pa.array(messages, WIRE.type)
        if isinstance(array, pa.ChunkedArray):
            raise EncodeError(_TOO_MUCH)
        made.append(array)
    return made


def _values(column: pa.Array) -> list[Any]:
    """Return the cells of a column; moments as numbers, which hold more of them than datetime."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    values: list[Any] = column.to_pylist()
    return values


def _given(column: pa.Array, path: str, numbers: Sequence[int]) -> list[Any]:
    """Return the cells of a column of a template's values, moments as timestamps.

    Raises:
        EncodeError: a moment is none of AMQP's; the numbers are what it calls the rows.
    """
    values = _values(column)
    if not pa.types.is_timestamp(column.type):
        return values
    for place, value in enumerate(values):
        if value is None:
            continue
        try:
            if column.type.tz is None:
                raise ValueError("a timestamp needs a time zone, such as UTC")
            # Finer ones than seconds are in ms: `_in_milliseconds`.
            values[place] = Timestamp(value * (1000 if column.type.unit == "s" else 1))
        except ValueError as error:
            raise EncodeError(str(error), f"row {numbers[place]}: {path}") from None
    return values


@lru_cache(maxsize=64)
def _fits(schema: pa.Schema) -> bool:
    """Whether all columns belong to a message, each once, and have their types."""
    return (
        0 < len(schema) == len(set(schema.names))
        and schema.names != ["message_format"]
        and all(_TYPES.get(field.name) == field.type for field in schema)
    )


def _parts_of(batch: Any, template: Template | None, is_strict: bool) -> list[pa.RecordBatch]:
    """Return the columns of a message, or of a template's values, in parts.

    If `is_strict`, other columns are an error.
    """
    if template is not None:
        return _parts_for(batch, template, is_strict)
    if isinstance(batch, pa.RecordBatch) and _fits(batch.schema):
        return [batch]
    table, entries = _table(batch, is_strict)
    parts: list[pa.RecordBatch] = []
    begin = 0
    for part in table.to_batches():
        parts.append(fold_entries(part, entries, begin))
        begin += part.num_rows
    return parts


def _parts_for(batch: Any, template: Template, is_strict: bool) -> list[pa.RecordBatch]:
    """Return the columns of a template's values, in the order of its paths, in parts."""
    table = pa.table(batch) if isinstance(batch, Mapping) else _frame(batch)
    for name in table.schema.names if is_strict else ():
        if name not in template.paths and not _ROW_LABELS.fullmatch(name):
            near = difflib.get_close_matches(name, template.paths, 1)
            meant = f" (did you mean {near[0]!r}?)" if near else ""
            raise ValueError(
                f"the template has no value {name!r}{meant}: its paths are "
                f"{', '.join(template.paths)}; extra='ignore' leaves other columns out"
            )
    for path in template.paths:
        if path not in table.schema.names:
            raise TypeError(f"the template needs a column {path!r}")
    _refuse_twice(list(template.paths), table.schema.names)
    table = table.select(list(template.paths))
    for place, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type) and field.type.unit in {"us", "ns"}:
            table = table.set_column(place, field.name, _in_milliseconds(table.column(place)))
    parts: list[pa.RecordBatch] = table.to_batches()
    return parts


def _refuse_twice(names: list[str], there: list[str]) -> None:
    twice = sorted({name for name in names if there.count(name) > 1})
    if twice:
        raise ValueError(f"duplicate columns: {', '.join(twice)}")


def _in_milliseconds(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return moments in ms; what is finer is cut off towards the past, as `Timestamp` does."""
    numbers = column.cast(pa.int64())
    per = 1000 if column.type.unit == "us" else 1_000_000
    cut = pc.divide(numbers, per)
    later = pc.greater(pc.multiply(cut, per), numbers)  # as division cuts towards 0
    return pc.subtract(cut, later.cast(pa.int64())).cast(pa.timestamp("ms", column.type.tz))


def _frame(batch: Any) -> pa.Table:
    if isinstance(batch, pa.RecordBatch):
        return pa.Table.from_batches([batch])
    if isinstance(batch, pa.Table):
        return batch
    if not hasattr(batch, "__arrow_c_stream__"):
        raise TypeError(f"expected a RecordBatch or Table, not {type(batch).__name__}")
    return pa.table(batch)


def _table(batch: Any, is_strict: bool) -> tuple[pa.Table, dict[str, Pick]]:
    """Return the columns that belong to a message, and which of them show entries."""
    batch = _frame(batch)
    columns: dict[str, pa.ChunkedArray] = {}
    entries: dict[str, Pick] = {}
    unknown: list[str] = []
    names = [column_name(name) for name in batch.schema.names]
    for place, (name, field) in enumerate(zip(names, batch.schema, strict=True)):
        pick = entry_of(field)
        if pick is not None:
            entries[name] = pick
            columns[name] = batch.column(place)
        elif name in _TYPES:
            columns[name] = _typed(name, batch.column(place))
        elif not _ROW_LABELS.fullmatch(name):
            unknown.append(name)
    _refuse_twice([*columns], names)
    if not columns.keys() - {"message_format"}:
        said = unknown_column(unknown[0], _TYPES) if unknown else f"use {', '.join(_TYPES)}"
        raise TypeError(f"no column belongs to a message: {said}")
    if unknown and is_strict:
        raise ValueError(
            f"{unknown_column(unknown[0], _TYPES)}; extra='ignore' leaves unknown columns out"
        )
    return pa.table(columns), entries


def _typed(name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column as its type in `SCHEMA`.

    Raises:
        TypeError: it cannot be cast.
    """
    wanted = _TYPES[name]
    if wanted == VARIANT or name == "error":
        return column  # compared, or not looked at
    try:
        if pa.types.is_dictionary(column.type):  # of views, as Polars has them, none is cast
            column = column.cast(pa.dictionary(column.type.index_type, wanted))
        if pa.types.is_timestamp(wanted) and pa.types.is_integer(column.type):
            # Arrow would take them for microseconds.
            raise pa.ArrowTypeError(f"numbers of ms belong in the column {name}_ms")
        if pa.types.is_map(wanted) and pa.types.is_large_list(column.type):
            column = column.cast(pa.list_(column.type.value_field))
        if pa.types.is_map(wanted) and pa.types.is_list(column.type):
            maps = [_map_of(chunk, wanted) for chunk in column.chunks]
            column = pa.chunked_array(maps, wanted)
        return column if column.type == wanted else column.cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise TypeError(f"the column {name} must be {wanted}: {error}") from None


def _map_of(array: pa.ListArray, wanted: pa.MapType) -> pa.MapArray:
    """Return lists of structs of key and value as maps, as Arrow does not."""
    content = array.flatten()  # without what a null may have beneath it
    keys, items = (
        pc.struct_field(content, name).cast(kind)
        for name, kind in (("key", wanted.key_type), ("value", wanted.item_type))
    )
    ends = pc.cumulative_sum(pc.fill_null(pc.list_value_length(array), 0))
    offsets = pa.concat_arrays([pa.array([0], ends.type), ends])
    # A map is null where its offset is; there is one offset more than there are maps.
    absent = pa.concat_arrays([array.is_null(), pa.array([False])])
    return pa.MapArray.from_arrays(pc.if_else(absent, None, offsets), keys, items)


def _encoded(cells: Mapping[str, Any]) -> bytes | None:
    values = {name: value for name, value in cells.items() if value is not None and name in _VALUES}
    if values.get(_PRESENT) is False:
        del values[_PRESENT]
    if not values:
        if "wire" in cells:
            wire: bytes | None = cells["wire"]
            return wire
        return None if cells.get("section_offsets") is None else b""
    message = Message()
    header = {f.name: values[f.name] for f in rows(Header) if f.name in values}
    if header:
        message.header = Header(**header)
    message.properties = _properties(values)
    for name in MAPS:
        if name in values:
            try:
                content = entries_of(values[name], text_keys=name == "application_properties")
            except EncodeError as error:
                raise EncodeError(error.reason, f"{name}{error.path}") from None
            kind = next(kind for kind in KINDS if kind.attribute == name)
            setattr(message, name, kind.cls(content))
    message.body = _body(values)
    return message.encode()


def _properties(values: Mapping[str, Any]) -> Properties | None:
    found: dict[str, Any] = {}
    for field in rows(Properties):
        value = values.get(field.name)
        if field.requires == "message-id":
            try:
                value = identifier_of(value, values.get(f"{field.name}_type"))
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
            found[field.name] = value
    return Properties(**found) if found or _PRESENT in values else None


def _data_sections(octets: bytes, lengths: Sequence[int | None]) -> list[Data]:
    """Divide the bytes of a body."""
    made: list[Data] = []
    begin = 0
    for length in lengths:
        if length is None or length < 0:
            raise EncodeError(f"a length is 0 or more, not {length}", "body_lengths")
        made.append(Data(octets[begin : begin + length]))
        begin += length
    if begin != len(octets) or not made:
        raise EncodeError(
            f"the lengths add up to {begin} bytes, and the body has {len(octets)}: "
            "make them null for one data section",
            "body_lengths",
        )
    return made


def _body(values: Mapping[str, Any]) -> Any:
    name = values.get("body_kind")
    octets, text = values.get("body"), values.get("body_json")
    lengths = values.get("body_lengths")
    if lengths is not None and (octets is None or text is not None or name not in {None, "data"}):
        raise EncodeError("body_lengths are those of a body of data", "body_lengths")
    if name is None:
        if octets is None and text is None:
            return None
        if octets is None:
            raise EncodeError("body_json needs body_kind amqp-value or amqp-sequence", "body_kind")
        name = "data"
    if name not in _BODIES:
        raise EncodeError(f"a body is one of {', '.join(_BODIES)}, not {name!r}", "body_kind")
    if name == "data":
        if octets is None or text is not None:
            raise EncodeError("a body of data belongs in the column body", "body")
        return Data(octets) if lengths is None else _data_sections(octets, lengths)
    if text is None or octets is not None:
        raise EncodeError(f"a body of {name} belongs in the column body_json", "body_json")
    try:
        typed = json.loads(text)
        if name == "amqp-value":
            return AmqpValue(from_typed(typed))
        if not isinstance(typed, list) or not typed:
            raise ValueError("expected a list of sections, each a list of values")
        return [AmqpSequence(from_typed(["list", section])) for section in typed]
    except (ValueError, RecursionError) as error:
        raise EncodeError(str(error), "body_json") from None
