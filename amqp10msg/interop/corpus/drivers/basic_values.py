"""What the Python libraries for AMQP 0-9-1 make of field tables, as typed JSON.

A driver adds its own folder to the path to import this: ``python -P`` does not.
"""

from __future__ import annotations

import datetime
import decimal
from typing import Any

#: The properties of class basic, in the order of their flags.
PROPERTIES = (
    *("content_type", "content_encoding", "headers", "delivery_mode", "priority"),
    *("correlation_id", "reply_to", "expiration", "message_id", "timestamp"),
    *("type", "user_id", "app_id", "cluster_id"),
)


def field(value: Any) -> list[Any]:
    """Return a field of a table: its letter, or a family of letters, and the value."""
    if value is None:
        return ["V"]
    if isinstance(value, bool):
        return ["t", value]
    if isinstance(value, int):
        return ["integer", value]
    if isinstance(value, float):
        return ["number", value]
    if isinstance(value, str):
        return ["S", value]
    if isinstance(value, (bytes, bytearray)):
        return ["octets", bytes(value).hex()]
    if isinstance(value, decimal.Decimal):
        sign, digits, exponent = value.as_tuple()
        number = int("".join(map(str, digits)))
        return ["D", [-int(exponent), -number if sign else number]]
    if isinstance(value, datetime.datetime):
        return ["T", seconds(value)]
    if isinstance(value, dict):
        return ["F", table(value)]
    if isinstance(value, (list, tuple)):
        return ["A", [field(item) for item in value]]
    raise NotImplementedError(f"{type(value).__name__} is not known to this driver")


def table(values: dict[Any, Any]) -> list[Any]:
    """Return the fields of a table, in order."""
    return [[key, field(value)] for key, value in values.items()]


def seconds(moment: datetime.datetime) -> int:
    """Return seconds since the epoch of a moment, which is UTC where it says nothing."""
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return int(moment.timestamp())


def properties(made: Any, names: dict[str, str], absent: dict[str, Any]) -> list[Any]:
    """Return the properties that are there, with the specification's names.

    Args:
        made: what the library read.
        names: its attributes, where they are called otherwise.
        absent: what stands for a property that is not there, where it is not None.
    """
    found: list[Any] = []
    for name in PROPERTIES:
        value = getattr(made, names.get(name, name))
        if value is None or value == absent.get(name):
            continue
        if name == "headers":
            value = table(value)
        elif isinstance(value, datetime.datetime):
            value = seconds(value)
        elif isinstance(value, bytes):
            value = {"hex": value.hex()}
        found.append([name.replace("_", "-"), value])
    return found
