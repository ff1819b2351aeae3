"""Decode arrays of single AMQP values, and split arrays of batch envelopes."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from amqp10msg.columns._cells import value_cell
from amqp10msg.columns._decode import (
    TooMuchError,
    binary_chunks,
    iterate_messages,
    limit_text_size,
    message_format_column,
    text_limit,
)
from amqp10msg.columns._picks import VALUE
from amqp10msg.columns._plain import error_cells
from amqp10msg.columns._schema import ERROR_COLUMNS, WIRE_COLUMN
from amqp10msg.message import Message
from amqp10msg.message.batch import BATCH_FORMAT
from amqp10msg.sections import BODY_CODES, Data
from amqp10msg.sections.parts import parts_of
from amqp10msg.wire import kernel
from amqp10msg.wire.errors import DecodeError
from amqp10msg.wire.limits import DEFAULT_LIMITS, Limits

#: The type of the result of `decode_values`.
DECODED_VALUE: pa.StructType = pa.struct(
    [*(field for field in VALUE if field.name != "key_type"), *ERROR_COLUMNS]
)
#: The schema of the result of `explode_batches`.
EXPLODED: pa.Schema = pa.schema(
    [pa.field("row", pa.int64()), pa.field("position", pa.int32()), WIRE_COLUMN, *ERROR_COLUMNS]
)
#: The values of the argument `plain` of `decode_values`.
_PLAIN_POLICIES = ("error", "encoded", "text")


def decode_values(array: Any, plain: str = "error", limits: Limits | None = None) -> pa.StructArray:
    """Decode single AMQP-encoded values, such as the headers that Event Hubs passes to Kafka.

    Args:
        array: one encoded value or null per item; in any of the forms that `decode` accepts.
        plain: the policy for bytes that may not be AMQP, such as headers of other Kafka producers:
            ``error`` treats all bytes as AMQP. ``encoded`` treats bytes that are exactly one
            encoded value as AMQP, and all other bytes as plain. ``text`` first treats UTF-8 without
            control characters as plain text, so that the text ``true`` is not mistaken for AMQP.
            An encoded string or symbol is never mistaken for such text.
        limits: bounds on the cost of decoding one value; None for the defaults of `Limits`.

    Returns:
        A StructArray with the AMQP type, the member that holds the value (as in the map columns),
        and the error columns. Plain bytes have no type: UTF-8 is in ``s``, other bytes in ``b``.
        A null stays null.

    Raises:
        TypeError: `array` does not contain bytes.
        ValueError: `plain` is unknown, or the column would be too large, as for `decode`.
    """
    if plain not in _PLAIN_POLICIES:
        raise ValueError(f"plain must be one of {', '.join(_PLAIN_POLICIES)}, got {plain!r}")
    limits = limits or DEFAULT_LIMITS
    chunks = binary_chunks(array)
    values = (
        None if octets is None else _decode_value(octets, plain, limits)
        for chunk in chunks
        for octets in iterate_messages(chunk)
    )
    cells = list(limit_text_size(values, text_limit(*chunks), _text_size))
    column = pa.array(cells, DECODED_VALUE)
    if isinstance(column, pa.ChunkedArray):
        raise TooMuchError("the values would exceed 2 GiB: decode fewer per call")
    return column


def _text_size(cell: dict[str, Any] | None) -> int:
    """Return the number of characters in the member ``s`` of a struct."""
    return len((cell or {}).get("s") or "")


def _decode_value(octets: bytes, plain: str, limits: Limits) -> dict[str, Any]:
    """Return the struct of one value, or its error cells; arguments as for `decode_values`."""
    if plain == "text":
        text = _decode_utf8(octets)
        if text is not None and not any(ord(c) < 32 and c not in "\t\n\r" for c in text):
            return {"s": text}
    try:
        return value_cell(kernel.decode_value(octets, limits=limits))
    except DecodeError as error:
        if plain == "error":
            return error_cells(error)
    text = _decode_utf8(octets)
    return {"b": octets} if text is None else {"s": text}


def _decode_utf8(octets: bytes) -> str | None:
    """Return the text of UTF-8, or None if the bytes are invalid."""
    try:
        return octets.decode()
    except UnicodeDecodeError:
        return None


def explode_batches(
    array: Any, *, message_format: Any = None, limits: Limits | None = None
) -> pa.RecordBatch:
    """Split batch envelopes (message-format 0x80013700) into their messages.

    Args:
        array: the encoded messages, as for `decode`.
        message_format: the message-format of each message, as for `decode`. Messages with another
            format than 0x80013700 are returned unchanged. None if all are envelopes.
        limits: bounds on the cost of decoding one envelope; None for the defaults of `Limits`.

    Returns:
        A RecordBatch with ``row`` (the index of the envelope in `array`), ``position`` (the index
        of the message in the envelope), ``wire`` (the encoded message, for `decode`), and the error
        columns. An envelope that cannot be split becomes one row, with the bytes of the envelope in
        ``wire``. A null also becomes one row.

    Raises:
        TypeError: `array` does not contain bytes.
        ValueError: the number of formats differs from the number of messages.
    """
    limits = limits or DEFAULT_LIMITS
    chunks = binary_chunks(array)
    formats = message_format_column(
        BATCH_FORMAT if message_format is None else message_format, sum(map(len, chunks))
    ).to_pylist()
    rows: list[dict[str, Any]] = []
    number = 0
    for chunk in chunks:
        for octets in iterate_messages(chunk):
            if octets is None or formats[number] != BATCH_FORMAT:
                rows.append({"row": number, "position": 0, "wire": octets})
            else:
                rows += ({"row": number, **message} for message in _split_envelope(octets, limits))
            number += 1
    return pa.RecordBatch.from_pylist(rows, schema=EXPLODED)


def _split_envelope(octets: bytes, limits: Limits) -> list[dict[str, Any]]:
    """Return a row for each message in an envelope, or one row with the error."""
    try:
        body = Message.decode(octets, limits=limits).body
    except DecodeError as error:
        return [{"position": 0, "wire": octets, **error_cells(error)}]
    parts = body if isinstance(body, list) else [body]
    messages = [part.data for part in parts if isinstance(part, Data)]
    if len(messages) == len(parts):
        return [{"position": i, "wire": wire} for i, wire in enumerate(messages)]
    sections = parts_of(octets, lenient=False)
    offset = next((part[1] for part in sections if part[0] in BODY_CODES), len(octets))
    return [
        {
            "position": 0,
            "wire": octets,
            "error_code": "not-a-batch",
            "error_clause": "Azure batch envelope",
            "error_offset": offset,
        }
    ]
