"""Single AMQP values and batch envelopes, array by array."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from amqp10msg.columns._cells import value_cell
from amqp10msg.columns._decode import (
    TooMuchError,
    binary_chunks,
    bounded,
    formats_of,
    octets_in,
    room_for,
)
from amqp10msg.columns._picks import VALUE
from amqp10msg.columns._plain import error_cells
from amqp10msg.columns._schema import ERRORS, WIRE
from amqp10msg.message import Message
from amqp10msg.message.batch import BATCH_FORMAT
from amqp10msg.sections import BODY_CODES, Data
from amqp10msg.sections.parts import parts_of
from amqp10msg.wire import kernel
from amqp10msg.wire.errors import DecodeError
from amqp10msg.wire.limits import DEFAULT_LIMITS, Limits

#: What `decode_values` returns for each value.
DECODED_VALUE: pa.StructType = pa.struct(
    [*(field for field in VALUE if field.name != "key_type"), *ERRORS]
)
#: What `explode_batches` returns for each message.
EXPLODED: pa.Schema = pa.schema(
    [pa.field("row", pa.int64()), pa.field("position", pa.int32()), WIRE, *ERRORS]
)
_POLICIES = ("error", "encoded", "text")


def decode_values(array: Any, plain: str = "error", limits: Limits | None = None) -> pa.StructArray:
    """Decode single AMQP-encoded values, such as the headers that Event Hubs passes to Kafka.

    Args:
        array: one value each, or null; in any of the forms that `decode` accepts.
        plain: how to treat bytes that may not be AMQP, as a Kafka producer writes plain bytes:
            ``error`` takes everything as encoded; ``encoded`` takes what is exactly one encoded
            value as that, and all else as plain; ``text`` first takes UTF-8 without control
            characters as plain text, so that the text ``true`` is never taken as encoded. An
            encoded string or symbol is never such text.
        limits: what decoding one value may cost; the defaults of `Limits` if None.

    Returns:
        A StructArray of the AMQP type, the member that holds the value (as in the map columns),
        and the columns of errors. Plain bytes have no type: UTF-8 goes to ``s``, all else to
        ``b``. A null remains null.

    Raises:
        TypeError: `array` does not hold bytes.
        ValueError: `plain` is unknown, or the values would be too much for one column, as for
            `decode`.
    """
    if plain not in _POLICIES:
        raise ValueError(f"plain is one of {', '.join(_POLICIES)}, not {plain!r}")
    limits = limits or DEFAULT_LIMITS
    chunks = binary_chunks(array)
    values = (
        None if octets is None else _value(octets, plain, limits)
        for chunk in chunks
        for octets in octets_in(chunk)
    )
    made = list(bounded(values, room_for(*chunks), _text_size))
    column = pa.array(made, DECODED_VALUE)
    if isinstance(column, pa.ChunkedArray):
        raise TooMuchError("the values would exceed 2 GiB: decode fewer at once")
    return column


def _text_size(cell: dict[str, Any] | None) -> int:
    return len((cell or {}).get("s") or "")


def _value(octets: bytes, plain: str, limits: Limits) -> dict[str, Any]:
    if plain == "text":
        text = _text(octets)
        if text is not None and not any(ord(c) < 32 and c not in "\t\n\r" for c in text):
            return {"s": text}
    try:
        return value_cell(kernel.decode_value(octets, limits=limits))
    except DecodeError as error:
        if plain == "error":
            return error_cells(error)
    text = _text(octets)
    return {"b": octets} if text is None else {"s": text}


def _text(octets: bytes) -> str | None:
    try:
        return octets.decode()
    except UnicodeDecodeError:
        return None


def explode_batches(
    array: Any, *, message_format: Any = None, limits: Limits | None = None
) -> pa.RecordBatch:
    """Split batch envelopes (message-format 0x80013700) into the messages they hold.

    Args:
        array: the encoded messages, as for `decode`.
        message_format: the message-format of each, as for `decode`; a message of another format
            than the envelope's is returned as it is. If None, all are envelopes.
        limits: what decoding one envelope may cost; the defaults of `Limits` if None.

    Returns:
        A RecordBatch of ``row`` (the place of the envelope in `array`), ``position`` (of the
        message in it), ``wire`` (the encoded message, for `decode`), and the columns of errors: an
        envelope that cannot be split becomes one row, with its own bytes in ``wire``. A null
        becomes one row, too.

    Raises:
        TypeError: `array` does not hold bytes.
        ValueError: the number of formats is not that of the messages.
    """
    limits = limits or DEFAULT_LIMITS
    chunks = binary_chunks(array)
    formats = formats_of(
        BATCH_FORMAT if message_format is None else message_format, sum(map(len, chunks))
    ).to_pylist()
    rows: list[dict[str, Any]] = []
    number = 0
    for chunk in chunks:
        for octets in octets_in(chunk):
            if octets is None or formats[number] != BATCH_FORMAT:
                rows.append({"row": number, "position": 0, "wire": octets})
            else:
                rows += ({"row": number, **made} for made in _messages(octets, limits))
            number += 1
    return pa.RecordBatch.from_pylist(rows, schema=EXPLODED)


def _messages(octets: bytes, limits: Limits) -> list[dict[str, Any]]:
    try:
        body = Message.decode(octets, limits=limits).body
    except DecodeError as error:
        return [{"position": 0, "wire": octets, **error_cells(error)}]
    parts = body if isinstance(body, list) else [body]
    messages = [part.data for part in parts if isinstance(part, Data)]
    if len(messages) == len(parts):
        return [{"position": i, "wire": wire} for i, wire in enumerate(messages)]
    sections = parts_of(octets, lenient=False)
    at = next((part[1] for part in sections if part[0] in BODY_CODES), len(octets))
    return [
        {
            "position": 0,
            "wire": octets,
            "error_code": "not-a-batch",
            "error_clause": "Azure batch envelope",
            "error_offset": at,
        }
    ]
