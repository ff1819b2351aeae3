"""Arrays of messages decoded, judged by the rules of a profile, and of types that Spark takes."""

from __future__ import annotations

from array import array as numbers
from typing import Any, cast

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from amqp10msg import validation
from amqp10msg.columns import MapsAs, binary_chunks, suspects
from amqp10msg.columns import decode as columns_decode
from amqp10msg.files.recognition import advice
from amqp10msg.message import Message
from amqp10msg.wire.errors import DecodeError
from amqp10msg.wire.limits import DEFAULT_LIMITS
from amqp10msg.wire.reprs import printable

#: The columns that say why a message could not be decoded.
ERRORS = ("error_code", "error_clause", "error_offset")

_VIOLATIONS = pa.list_(
    pa.struct(
        [
            ("rule", pa.string()),
            ("clause", pa.string()),
            ("severity", pa.string()),
            ("path", pa.string()),
            ("offset", pa.int64()),
            ("text", pa.string()),
        ]
    )
)
#: What `validate` says of a message.
VALIDATED = pa.schema([("valid", pa.bool_()), ("violations", _VIOLATIONS)])


def decoded(
    array: Any,
    columns: str | list[str] | None,
    validate: str | None = None,
    message_format: Any = None,
    maps: MapsAs = "map",
) -> pa.RecordBatch:
    """Decode an array of messages as `amqp10msg.columns.decode` does; no bytes are an error."""
    made = columns_decode(
        array, columns, cast("Any", validate), message_format=message_format, maps=maps
    )
    empty = pc.equal(pc.binary_length(array), 0)
    if not pc.any(empty).as_py():
        return made
    rule = validation.RULES["body-missing"]
    values: dict[str, Any] = dict(zip(ERRORS, (rule.id, rule.clause, 0), strict=True))
    values["error"] = {"code": rule.id, "clause": rule.clause, "offset": 0}
    for name, value in values.items():
        place = made.schema.get_field_index(name)
        if place >= 0:
            field = made.schema.field(place)
            said = pa.scalar(value, field.type)
            column = pc.if_else(pc.fill_null(empty, False), said, made.column(place))
            made = made.set_column(place, field, column)
    return made


def judged(array: Any, profile: str) -> tuple[pa.Array, pa.Array]:
    """Judge an array of messages by a profile; return the arrays of `VALIDATED`."""
    chunks = binary_chunks(array) or [pa.array([], pa.binary())]
    made = [_judged(chunk, profile) for chunk in chunks]
    if len(made) == 1:
        return made[0]
    sound, found = (pa.concat_arrays(arrays) for arrays in zip(*made, strict=True))
    return sound, found


def _judged(chunk: pa.Array, profile: str) -> tuple[pa.Array, pa.Array]:
    """Validate messages: a prefilter clears nearly all of them, many at once."""
    rows = len(chunk)
    broken: dict[int, list[dict[str, Any]]] = {}
    for place in suspects(chunk, DEFAULT_LIMITS, profile):
        octets = chunk[place].as_py()
        violations = (
            [] if octets is None else validation.validate(octets, validation.PROFILES[profile])
        )
        if violations:
            # A text about damaged bytes may quote what UTF-8 cannot hold.
            broken[place] = [
                {**attrs.asdict(one), "path": printable(one.path), "text": printable(one.text)}
                for one in violations
            ]
    is_message = chunk.is_valid()
    refused = bytearray(rows)
    offsets = numbers("i")
    count = 0
    for place, found in broken.items():
        refused[place] = any(row["severity"] == "error" for row in found)
        offsets += numbers("i", [count]) * (place + 1 - len(offsets))
        count += len(found)
    offsets += numbers("i", [count]) * (rows + 1 - len(offsets))
    members = pa.array([row for found in broken.values() for row in found], _VIOLATIONS.value_type)
    is_refused = pa.Array.from_buffers(pa.uint8(), rows, [None, pa.py_buffer(refused)])
    sound = pc.if_else(is_message, pc.equal(is_refused, 0), pa.scalar(None, pa.bool_()))
    ends = pa.Array.from_buffers(pa.int32(), rows + 1, [None, pa.py_buffer(offsets)])
    mask = pc.invert(is_message) if chunk.null_count else None
    return sound, pa.ListArray.from_arrays(ends, members, type=_VIOLATIONS, mask=mask)


def first_errors(valid: pa.Array, violations: pa.Array) -> list[pa.Array]:
    """Return rule, clause, offset and text of the first error of each message; null without one.

    Args:
        valid: whether each is valid.
        violations: what each violates.
    """
    refused = pc.indices_nonzero(pc.invert(valid))
    firsts: dict[int, dict[str, Any]] = {
        place: next(row for row in found if row["severity"] == "error")
        for place, found in zip(
            refused.to_pylist(), violations.take(refused).to_pylist(), strict=True
        )
    }
    members = _VIOLATIONS.value_type
    columns = []
    for name in ("rule", "clause", "offset", "text"):
        kind = members.field(name).type
        if firsts:
            cells = [firsts.get(row, {}).get(name) for row in range(len(valid))]
            columns.append(pa.array(cells, kind))
        else:
            columns.append(pa.nulls(len(valid), kind))
    return columns


def with_texts(array: Any, made: pa.RecordBatch, profile: str | None) -> list[pa.Array]:
    """Return the columns `ERRORS` of decoded messages, and what is wrong in words.

    Args:
        array: the messages.
        made: what was decoded of them.
        profile: the rules that they were judged by.
    """
    errors = [made.column(name) for name in ERRORS]
    texts: list[str | None] = [None] * len(array)
    if errors[0].null_count < len(array):
        for row in pc.indices_nonzero(pc.is_valid(errors[0])).to_pylist():
            texts[row] = _text(array[row].as_py(), profile)
    return [*errors, pa.array(texts, pa.string())]


def _text(octets: bytes, profile: str | None) -> str | None:
    """Explain the code that `columns.decode` gave a message."""
    try:
        Message.decode(octets)
    except DecodeError as error:
        hint = advice(octets, "raw")
        return printable(f"{error}; {hint}" if hint else str(error))
    for violation in validation.validate(octets, validation.PROFILES[profile or "oasis"]):
        if violation.severity == "error":
            return printable(violation.text)
    return None


# Types.

_TAKEN = {
    pa.uint64(): pa.decimal128(20, 0),
    pa.uint32(): pa.int64(),
    pa.uint16(): pa.int32(),
    pa.uint8(): pa.int16(),
    pa.binary_view(): pa.binary(),
    pa.string_view(): pa.string(),
}


def type_for_spark(given: pa.DataType) -> pa.DataType:
    """Return the Arrow type that Spark takes instead of one that it refuses, without loss."""
    if given in _TAKEN:
        return _TAKEN[given]
    if pa.types.is_timestamp(given):
        return pa.timestamp("us", given.tz)
    if pa.types.is_dictionary(given):
        return type_for_spark(given.value_type)
    if pa.types.is_fixed_size_binary(given):
        return pa.binary()
    if pa.types.is_struct(given):
        return pa.struct([_field_for_spark(field) for field in given])
    if pa.types.is_map(given):
        return pa.map_(type_for_spark(given.key_type), _field_for_spark(given.item_field))
    if pa.types.is_list(given):
        return pa.list_(_field_for_spark(given.value_field))
    return given


def _field_for_spark(field: pa.Field) -> pa.Field:
    return pa.field(field.name, type_for_spark(field.type), field.nullable, field.metadata)


def schema_for_spark(schema: pa.Schema) -> pa.Schema:
    """Return the schema with the types that Spark takes."""
    return pa.schema([_field_for_spark(field) for field in schema])
