"""Arrays of messages judged by the rules of a profile; the columns of errors."""

from __future__ import annotations

from typing import Any

import attrs
import pyarrow as pa

from amqp10msg import validation
from amqp10msg.columns import binary_chunks, suspects
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
                violations = validation.validate(octets, profile)
                # A text about damaged bytes may quote what UTF-8 cannot hold.
                judgements[place] = [
                    {**attrs.asdict(one), "path": printable(one.path), "text": printable(one.text)}
                    for one in violations
                ]
        for is_message, rows in zip(chunk.is_valid().to_pylist(), judgements, strict=True):
            sound.append(all(row["severity"] != "error" for row in rows) if is_message else None)
            found.append(rows if is_message else None)
    return pa.array(sound, pa.bool_()), pa.array(found, _VIOLATIONS)
