"""Translate Arrow columns of AMQP 0-9-1 messages to 1.0 and back."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from amqp10msg.brokers import unknown_name
from amqp10msg.files.recognition import decode_whole
from amqp10msg.translate import (
    PROFILES,
    Circumstances,
    EncodedBasic,
    Translation,
    encoded_to_amqp10,
    encoded_to_basic,
    to_basic,
)
from amqp10msg.translate.batches import kernel
from amqp10msg.translate.report import BROKER_REASONS, as_json
from amqp10msg.validation import rule_of
from amqp10msg.wire.errors import AmqpError, DecodeError, EncodeError
from amqp10msg.wire.reprs import encodable

_LOSSES_TYPE = pa.list_(
    pa.struct(
        [
            ("path", pa.string()),
            ("action", pa.string()),
            ("before", pa.string()),
            ("after", pa.string()),
            ("reason", pa.string()),
            ("recoverable", pa.bool_()),
            ("owner", pa.string()),
        ]
    )
)
#: The columns with losses and errors of the translation. They follow the message columns.
REPORT_COLUMNS = [
    ("losses", _LOSSES_TYPE),
    ("error_code", pa.string()),
    ("error_clause", pa.string()),
    ("error_offset", pa.int64()),
    ("error_text", pa.string()),
]
#: The columns of a 0-9-1 message, as in `BasicMessage`. The input may lack the last three.
BASIC = pa.schema(
    [
        ("content_header", pa.binary()),
        ("payload", pa.binary()),
        ("exchange", pa.string()),
        ("routing_key", pa.string()),
        ("redelivered", pa.bool_()),
    ]
)
#: The output columns of translations to 0-9-1, and to 1.0.
TO_BASIC = pa.schema([*BASIC, *REPORT_COLUMNS])
TO_AMQP10 = pa.schema([("wire", pa.binary()), *REPORT_COLUMNS])
# A row in which all of these columns are null has no message.
_MESSAGE_COLUMNS = ("wire", "content_header", "payload")

# The clause that defines the content header, for the error if a content header is invalid.
_CONTENT_HEADER_CLAUSE = "0-9-1, 4.2.6.1"


class Translator:
    """Translates columns of messages to the protocol `to`: ``1.0`` or ``0-9-1``.

    Raises:
        ValueError: `to` is neither ``1.0`` nor ``0-9-1``, or the profile is unknown.
    """

    def __init__(
        self,
        to: str,
        profile: str,
        strict: bool = False,
        circumstances: Circumstances | None = None,
    ) -> None:
        if to not in {"1.0", "0-9-1"}:
            raise ValueError(f"the target of a translation must be '1.0' or '0-9-1', got {to!r}")
        if profile not in PROFILES:
            raise ValueError(unknown_name("profile", profile, PROFILES.names))
        self.schema = TO_BASIC if to == "0-9-1" else TO_AMQP10
        self._to = to
        self._kernel = partial(kernel, to, profile, strict, circumstances)
        options = {"profile": profile, "strict": strict, "circumstances": circumstances}
        self._translate_row = partial(_to_basic if to == "0-9-1" else _to_amqp10, options)
        self._decode_clause = "" if to == "0-9-1" else _CONTENT_HEADER_CLAUSE

    def run(self, columns: dict[str, Any]) -> dict[str, pa.Array]:
        """Translate {name: input column} to {name: output column}; see `schema` for the latter."""
        translated = self._run_by_kernel(columns)
        return self._run_by_row(columns) if translated is None else translated

    def _run_by_kernel(self, columns: dict[str, Any]) -> dict[str, pa.Array] | None:
        """Translate with the compiled kernel, and the rows that it does not support one by one.

        Return None if there is no kernel, it supports none of the rows, or it cannot read the
        columns.
        """
        translate = self._kernel()  # create a kernel for each batch: it is not thread-safe
        if translate is None:
            return None
        input_schema = BASIC if self._to == "1.0" else pa.schema([("wire", pa.binary())])
        try:
            arrays = {
                name: single_array(columns[name], input_schema.field(name).type) for name in columns
            }
            rows = len(next(iter(arrays.values())))
            rows_left, buffers = translate.run(
                rows, *(kernel_buffers(arrays.get(n)) for n in input_schema.names)
            )
        except (OverflowError, pa.ArrowException):
            return None  # too large or of the wrong type: `_run_by_row` raises the error
        if len(rows_left) == rows:
            return None
        translated = arrays_from_kernel(self.schema, rows, buffers)
        if not rows_left:
            return translated
        columns_left = {
            name: array.take(pa.array(rows_left, pa.int64())) for name, array in arrays.items()
        }
        return replace_rows(translated, rows_left, self._run_by_row(columns_left))

    def _run_by_row(self, columns: dict[str, Any]) -> dict[str, pa.Array]:
        values = [array.to_pylist() for array in columns.values()]
        rows = (dict(zip(columns, row, strict=True)) for row in zip(*values, strict=True))
        translated = [self._translate_safely(row) for row in rows]
        return {
            field.name: pa.array([row.get(field.name) for row in translated], field.type)
            for field in self.schema
        }

    def _translate_safely(self, row: dict[str, Any]) -> dict[str, Any]:
        """Translate the message in a row; return the error columns if that is impossible."""
        if all(row.get(name) is None for name in _MESSAGE_COLUMNS):
            return {}
        try:
            return self._translate_row(**row)
        except DecodeError as error:
            code, clause = rule_of(error)
            return _error_columns(code, self._decode_clause or clause, error.offset, str(error))
        except AmqpError as error:
            return _error_columns("not-translatable", "", None, str(error))


def _error_columns(code: str, clause: str, offset: int | None, text: str) -> dict[str, Any]:
    return {
        "error_code": code,
        "error_clause": clause,
        "error_offset": offset,
        "error_text": encodable(text),
    }


def _to_basic(options: dict[str, Any], wire: bytes) -> dict[str, Any]:
    """Translate a 1.0 message; return the columns of the 0-9-1 message."""
    try:
        translation: Any = encoded_to_basic(wire, **options)
        message = translation.message
    except DecodeError:
        # Decode again, leniently, because brokers accept some invalid messages.
        translation = to_basic(decode_whole(wire), **options)
        message = EncodedBasic.of(translation.message)
    return {
        "content_header": message.content_header,
        "payload": message.body,
        "exchange": _require_utf8("exchange", message.exchange),
        "routing_key": _require_utf8("routing key", message.routing_key),
        "redelivered": message.redelivered,
        "losses": _loss_rows(translation),
    }


def _to_amqp10(
    options: dict[str, Any],
    content_header: bytes | None,
    payload: bytes | None,
    exchange: str | None = None,
    routing_key: str | None = None,
    redelivered: bool | None = None,
) -> dict[str, Any]:
    content = EncodedBasic(
        content_header or b"", payload or b"", exchange or "", routing_key or "", bool(redelivered)
    )
    translation = encoded_to_amqp10(content, **options)
    return {"wire": translation.message, "losses": _loss_rows(translation)}


def _require_utf8(name: str, text: str) -> str:
    """Return `text`, or raise EncodeError if it is not valid UTF-8."""
    if encodable(text) != text:
        raw = text.encode("utf-8", "surrogateescape")
        raise EncodeError(f"must be valid UTF-8 to fit in a text column, got {raw!r}", name)
    return text


def _loss_rows(translation: Translation[Any]) -> list[dict[str, Any]]:
    return [
        {
            "path": encodable(loss.path),
            "action": loss.action,
            "before": as_json(loss.before),
            "after": as_json(loss.after),
            "reason": encodable(loss.reason),
            "recoverable": loss.recoverable,
            "owner": loss.owner,
        }
        for loss in translation.losses
    ]


# Conversion between Arrow arrays and the buffers of the kernel in `translate.batches`.

# (validity bitmap, or None if no cell is null; offsets; data).
_StringBuffers = tuple[bytes | None, bytes, bytes]
_LOSS_TEXT_FIELDS = ("path", "action", "before", "after", "reason")


def single_array(array: Any, arrow_type: pa.DataType) -> Any:
    """Return a column as one array of `arrow_type`, if possible without a copy."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
        if isinstance(array, pa.ChunkedArray):
            array = pa.concat_arrays(array.chunks)
    return array if array.type == arrow_type else array.cast(arrow_type)


def kernel_buffers(array: Any) -> tuple[Any, ...] | None:
    """Return the buffers of an array, the validity bitmap first, and the array's offset.

    Return None if `array` is None.
    """
    return None if array is None else (*array.buffers(), array.offset)


def _string_array(
    arrow_type: pa.DataType, rows: int, buffers: _StringBuffers, row_validity: Any = None
) -> Any:
    validity, offsets, data = (
        None if buffer is None else pa.py_buffer(buffer) for buffer in buffers
    )
    return pa.Array.from_buffers(
        arrow_type, rows, [row_validity if validity is None else validity, offsets, data]
    )


def _losses_array(field: pa.Field, rows: int, kernel_losses: Any, validity: Any) -> Any:
    offsets, *texts, recoverable = kernel_losses
    count = len(texts[0][1]) // 4 - 1
    members = field.type.value_type
    children = [
        _string_array(members.field(name).type, count, buffers)
        for name, buffers in zip(_LOSS_TEXT_FIELDS, texts, strict=True)
    ]
    children.append(pa.Array.from_buffers(pa.bool_(), count, [None, pa.py_buffer(recoverable)]))
    is_of_broker = pc.is_in(children[_LOSS_TEXT_FIELDS.index("reason")], _broker_reasons())
    children.append(pc.if_else(is_of_broker, "broker", "sender"))
    losses = pa.StructArray.from_arrays(children, fields=list(members))
    buffers = [validity, pa.py_buffer(offsets)]
    return pa.Array.from_buffers(field.type, rows, buffers, children=[losses])


@cache
def _broker_reasons() -> pa.Array:
    """Return the reasons of losses that concern annotations of brokers.

    Not at import, because pyarrow imports pandas to convert a list.
    """
    return pa.array(sorted(BROKER_REASONS))


def arrays_from_kernel(schema: pa.Schema, rows: int, kernel_result: Any) -> dict[str, Any]:
    """Convert the result of the kernel to {name: array} for the columns of `schema`.

    Args:
        schema: the output columns. Columns for which the kernel returns no buffers are null.
        rows: the number of rows.
        kernel_result: the validity bitmap of the rows, or None if all rows are valid; followed by
            the buffers of the columns.
    """
    validity_bytes, *columns = kernel_result
    validity = None if validity_bytes is None else pa.py_buffer(validity_bytes)
    arrays = {}
    for field, buffers in zip(schema, columns, strict=False):
        if field.name == "losses":
            arrays[field.name] = _losses_array(field, rows, buffers, validity)
        elif pa.types.is_boolean(field.type):
            arrays[field.name] = pa.Array.from_buffers(
                field.type, rows, [validity, pa.py_buffer(buffers)]
            )
        else:
            arrays[field.name] = _string_array(field.type, rows, buffers, validity)
    for field in schema:
        if field.name not in arrays:
            arrays[field.name] = pa.nulls(rows, field.type)
    return arrays


def replace_rows(
    columns: dict[str, Any], rows_replaced: list[int], replacements: dict[str, Any]
) -> dict[str, Any]:
    """Return columns in which some rows are replaced by the rows of `replacements`, in order.

    `rows_replaced` are the numbers of the replaced rows, in ascending order.
    """
    count = len(next(iter(columns.values())))
    order = list(range(count))
    for number, row in enumerate(rows_replaced):
        order[row] = count + number
    indices = pa.array(order, pa.int64())
    return {
        name: pa.concat_arrays([array, replacements[name]]).take(indices)
        for name, array in columns.items()
    }
