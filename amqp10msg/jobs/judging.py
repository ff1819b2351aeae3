"""Arrays of messages judged by the rules of a profile; the columns of errors."""

from __future__ import annotations

from typing import Any, cast

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from amqp10msg import validation
from amqp10msg.columns import MapsAs, binary_chunks, suspects
from amqp10msg.columns import decode as columns_decode
from amqp10msg.files.text import printable
from amqp10msg.limits import DEFAULT_LIMITS

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
    sound: list[bool | None] = []
    found: list[list[dict[str, Any]] | None] = []
    for chunk in binary_chunks(array):
        # Nearly all messages break nothing, which is found out of many at once.
        judgements: list[list[dict[str, Any]]] = [[]] * len(chunk)
        for place in suspects(chunk, DEFAULT_LIMITS, profile):
            octets = chunk[place].as_py()
            if octets is not None:
                violations = validation.validate(octets, validation.PROFILES[profile])
                # A text about damaged bytes may quote what UTF-8 cannot hold.
                judgements[place] = [
                    {**attrs.asdict(one), "path": printable(one.path), "text": printable(one.text)}
                    for one in violations
                ]
        for is_message, rows in zip(chunk.is_valid().to_pylist(), judgements, strict=True):
            sound.append(all(row["severity"] != "error" for row in rows) if is_message else None)
            found.append(rows if is_message else None)
    return pa.array(sound, pa.bool_()), pa.array(found, _VIOLATIONS)
