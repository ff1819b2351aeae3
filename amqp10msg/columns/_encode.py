"""Columns back to encoded messages."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from amqp10msg.columns._cells import entries_of, identifier_of
from amqp10msg.columns._schema import ERRORS, MAPS, SCHEMA, WIRE
from amqp10msg.composite import rows
from amqp10msg.errors import EncodeError
from amqp10msg.message import Message
from amqp10msg.notation import from_typed
from amqp10msg.sections import KINDS, AmqpSequence, AmqpValue, Data, Header, Properties

_ROW_COLUMNS = {*SCHEMA.names, WIRE.name} - {"message_format"}
# Those that a message is made of.
_VALUES = _ROW_COLUMNS - {WIRE.name, "section_offsets", *(field.name for field in ERRORS)}
_BODIES = {kind.name: kind for kind in KINDS if kind.attribute == "body"}


def encode(batch: pa.RecordBatch | pa.Table) -> pa.Array:
    """Encode rows of columns as messages.

    The columns are those of `SCHEMA`, in any order; missing columns count as null, and others are
    ignored. Every value is written in the smallest encoding of its type. A section is written
    if a column of it is not null; several data sections become one, as their bytes belong
    together, and a properties section without any field is left out. A row without any value,
    such as that of a message that cannot be decoded, becomes the bytes of ``wire`` if the batch
    has that column, zero bytes if ``section_offsets`` is an empty list, and null otherwise.

    Args:
        batch: a pyarrow RecordBatch or Table, or anything with Arrow's C stream interface, such
            as a Polars or pandas frame.

    Returns:
        An Array of binary, a message for each row.

    Raises:
        EncodeError: a value cannot be encoded; the error's path begins with the row's number.
        TypeError: `batch` is not a frame, or a column cannot be cast to its type in `SCHEMA`.
    """
    table = _table(batch)
    made: list[bytes | None] = []
    for part in table.to_batches(max_chunksize=1024):
        columns = {name: part.column(name).to_pylist() for name in part.schema.names}
        for index in range(part.num_rows):
            try:
                made.append(_encoded({name: column[index] for name, column in columns.items()}))
            except EncodeError as error:
                path = f"row {len(made)}" + (f": {error.path}" if error.path else "")
                raise EncodeError(error.reason, path) from None
    array = pa.array(made, pa.binary())
    if isinstance(array, pa.ChunkedArray):
        raise EncodeError("the messages exceed 2 GiB: encode fewer rows at once")
    return array


def _table(batch: Any) -> pa.Table:
    if isinstance(batch, pa.RecordBatch):
        batch = pa.Table.from_batches([batch])
    elif not isinstance(batch, pa.Table):
        if not hasattr(batch, "__arrow_c_stream__"):
            raise TypeError(f"expected a RecordBatch or Table, not {type(batch).__name__}")
        batch = pa.table(batch)
    columns = {}
    for name in batch.schema.names:
        if name not in _ROW_COLUMNS:
            continue
        wanted = WIRE.type if name == WIRE.name else SCHEMA.field(name).type
        try:
            column = batch.column(name).cast(wanted)
            # As numbers, which hold more moments than datetime does.
            if pa.types.is_timestamp(wanted):
                column = column.cast(pa.int64())
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            raise TypeError(f"the column {name} must be {wanted}: {error}") from None
        columns[name] = column
    if not columns:
        raise TypeError(f"no column belongs to a message: use {', '.join(SCHEMA.names)}")
    return pa.table(columns)


def _encoded(cells: Mapping[str, Any]) -> bytes | None:
    values = {name: value for name, value in cells.items() if value is not None and name in _VALUES}
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
    return Properties(**found) if found else None


def _body(values: Mapping[str, Any]) -> Any:
    name = values.get("body_kind")
    octets, text = values.get("body"), values.get("body_json")
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
        return Data(octets)
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
