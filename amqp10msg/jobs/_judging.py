"""Arrays of messages held to the rules of a profile; the columns that say what is wrong."""

from __future__ import annotations

from typing import Any

import attrs
import pyarrow as pa

from amqp10msg import validation

__all__ = ["ERRORS", "VALIDATED", "judged"]

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
    """Hold an array of messages to a profile: give the arrays of `VALIDATED`."""
    sound: list[bool | None] = []
    found: list[list[dict[str, Any]] | None] = []
    for octets in array:
        data = octets.as_py()
        if data is None:
            sound.append(None)
            found.append(None)
            continue
        violations = validation.validate(data, profile)
        sound.append(all(violation.severity != "error" for violation in violations))
        found.append([_printable(attrs.asdict(violation)) for violation in violations])
    return pa.array(sound, pa.bool_()), pa.array(found, _VIOLATIONS)


def _printable(row: dict[str, Any]) -> dict[str, Any]:
    """Escape what no UTF-8 can hold, which a text about damaged octets may quote."""
    return {
        key: value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value
        for key, value in row.items()
    }
