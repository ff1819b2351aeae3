"""Properties of class basic from and to the types of pika and pamqp, which aio-pika uses.

Each says what its library cannot hold: `lost_in_pika` and `lost_in_pamqp` name it before it is
gone. Their field tables have no letters, so a value gets the letter that the library would write.
"""

from __future__ import annotations

import datetime
import decimal
from typing import Any

from amqp10msg.basic.properties import PROPERTIES, BasicProperties
from amqp10msg.basic.tables import (
    FieldArray,
    FieldTable,
    OddTrue,
    ScaledDecimal,
    as_decoded,
    as_table,
)
from amqp10msg.wire.primitives import Float

__all__ = ["from_pamqp", "from_pika", "lost_in_pamqp", "lost_in_pika", "to_pamqp", "to_pika"]


# Letters that each library writes for its Python types, so that a value keeps its letter if it can.


def _pika_letter(value: Any) -> str:
    if isinstance(value, bool):
        return "t"
    if isinstance(value, int):
        return "I" if -(2**31) <= value < 2**31 else "l"
    return _common_letter(value, "d")


def _pamqp_letter(value: Any) -> str:
    if isinstance(value, bool):
        return "t"
    if isinstance(value, int):
        for letter, low, high in (
            ("b", -(2**7), 2**7),
            ("s", -(2**15), 2**15),
            ("u", 0, 2**16),
            ("I", -(2**31), 2**31),
            ("i", 0, 2**32),
        ):
            if low <= value < high:
                return letter
        return "l"
    return _common_letter(value, "f")


def _common_letter(value: Any, real: str) -> str:
    if value is None:
        return "V"
    for cls, letter in (
        (str, "S"),
        (bytes, "x"),
        (bytearray, "x"),
        (float, real),
        (decimal.Decimal, "D"),
        (datetime.datetime, "T"),
        (dict, "F"),
        (list, "A"),
    ):
        if isinstance(value, cls):
            return letter
    raise TypeError(f"no field type can hold {type(value).__name__}")


def _table(values: Any, letter_of: Any) -> FieldTable:
    return FieldTable.of(
        [
            (name, letter, value)
            for name, item in values.items()
            for letter, value in (_field(item, letter_of),)
        ]
    )


def _field(value: Any, letter_of: Any) -> tuple[str, Any]:
    letter = letter_of(value)
    if letter == "F":
        return letter, _table(value, letter_of)
    if letter == "A":
        return letter, FieldArray.of([_field(item, letter_of) for item in value])
    if letter == "T":
        return letter, int(_aware(value).timestamp())
    if letter == "D":
        return letter, ScaledDecimal.from_decimal(value)
    if letter == "f":
        return letter, Float(value)
    return letter, value


def _aware(moment: datetime.datetime) -> datetime.datetime:
    """Take a naive datetime as UTC, as both libraries do."""
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=datetime.UTC)


def _plain(value: Any) -> Any:
    if isinstance(value, FieldTable):
        return _plain_table(value)
    if isinstance(value, FieldArray):
        return [_plain_field(letter, item) for letter, item in value.entries]
    if isinstance(value, ScaledDecimal):
        return value.to_decimal()
    if isinstance(value, OddTrue):
        return True
    return float(value) if isinstance(value, Float) else value


def _plain_table(table: Any) -> dict[str, Any] | None:
    if table is None:
        return None
    table = as_table(table)
    made: dict[str, Any] = {}
    for name, letter, value in table.entries:
        if name not in made:
            made[name] = _plain_field(letter, value)
    return made


def _plain_field(letter: str, value: Any) -> Any:
    """Return the names under which libraries hold a field; for seconds, its letter says so."""
    if letter == "T":
        return _moment(value)
    # The libraries take no tuples and no views, nor tables within plain lists.
    return _plain(as_decoded(letter, value) if letter in "AFx" else value)


def _moment(seconds: Any) -> Any:
    if not isinstance(seconds, int):
        return seconds
    try:
        return datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    except (OverflowError, ValueError, OSError):
        return seconds


def _lost(properties: BasicProperties, letter_of: Any) -> list[str]:
    """List what a table of plain Python values would not give back."""
    found: list[str] = []
    if properties.headers is not None:
        table = properties.headers
        table = as_table(table)
        _lost_in_table(table, "headers", letter_of, found)
    return found


def _lost_in_table(table: FieldTable, path: str, letter_of: Any, found: list[str]) -> None:
    seen: set[str] = set()
    for name, letter, value in table.entries:
        here = f"{path}[{name!r}]"
        if name in seen:
            found.append(f"{here}: only the first of a name is kept")
        seen.add(name)
        _lost_value(letter, value, here, letter_of, found)


def _lost_value(letter: str, value: Any, here: str, letter_of: Any, found: list[str]) -> None:
    if letter in "AFx":
        value = as_decoded(letter, value)
    if isinstance(value, FieldTable):
        _lost_in_table(value, here, letter_of, found)
    elif isinstance(value, FieldArray):
        for index, (inner, item) in enumerate(value.entries):
            _lost_value(inner, item, f"{here}[{index}]", letter_of, found)
    elif isinstance(value, OddTrue):
        found.append(f"{here}: the byte {value.octet} becomes 1")
    elif letter == "T":
        if not isinstance(_moment(value), datetime.datetime):
            found.append(f"{here}: the moment is outside the years 1 to 9999")
    else:
        written = letter_of(_plain(value))
        if written != letter:
            found.append(f"{here}: the field type {letter!r} becomes {written!r}")


# pika.


def from_pika(properties: Any) -> BasicProperties:
    """Convert a ``pika.BasicProperties``.

    Raises:
        TypeError: a header holds what no field can.
    """
    made = BasicProperties()
    for row in PROPERTIES:
        value = getattr(properties, row.name, None)
        if value is not None:
            setattr(made, row.name, _table(value, _pika_letter) if row.name == "headers" else value)
    return made


def to_pika(properties: BasicProperties) -> Any:
    """Return a ``pika.BasicProperties``; see `lost_in_pika`.

    Raises:
        ModuleNotFoundError: pika is not installed.
    """
    import pika  # noqa: PLC0415  (the one place that needs it)

    made = pika.BasicProperties()
    for row in PROPERTIES:
        value = getattr(properties, row.name)
        if row.name == "headers":
            value = _plain_table(value)
        elif isinstance(value, datetime.datetime):  # which pika does not write there
            value = int(value.timestamp())
        if value is not None:
            setattr(made, row.name, value)
    return made


def lost_in_pika(properties: BasicProperties) -> list[str]:
    """List what ``pika.BasicProperties`` cannot hold; empty where it holds all of it."""
    return _lost(properties, _pika_letter)


# pamqp, and aio-pika with it.


def from_pamqp(properties: Any) -> BasicProperties:
    """Convert a ``pamqp.commands.Basic.Properties``.

    Raises:
        TypeError: a header holds what no field can.
    """
    made = BasicProperties()
    for row in PROPERTIES:
        # pamqp calls the type message_type.
        name = "message_type" if row.name == "type" else row.name
        value = getattr(properties, name, None)
        if value is None or (row.name == "cluster_id" and value == ""):
            continue
        if row.name == "headers":
            value = _table(value, _pamqp_letter)
        elif row.name == "timestamp":
            value = int(_aware(value).timestamp())
        setattr(made, row.name, value)
    return made


def to_pamqp(properties: BasicProperties) -> Any:
    """Return a ``pamqp.commands.Basic.Properties``; see `lost_in_pamqp`.

    Raises:
        ModuleNotFoundError: pamqp is not installed.
        ValueError: the timestamp is outside the years that datetime can hold.
    """
    from pamqp import commands  # noqa: PLC0415  (the one place that needs it)

    given: dict[str, Any] = {}
    for row in PROPERTIES:
        value = getattr(properties, row.name)
        if value is None or row.name == "cluster_id":
            continue
        if row.name == "headers":
            value = _plain_table(value)
        elif row.name == "timestamp":
            value = _moment(value)
            if isinstance(value, int):
                raise ValueError(f"{value} s is outside the years 1 to 9999 that datetime can hold")
        given["message_type" if row.name == "type" else row.name] = value
    return commands.Basic.Properties(**given)


def lost_in_pamqp(properties: BasicProperties) -> list[str]:
    """List what ``pamqp.commands.Basic.Properties`` cannot hold; empty where it holds all of it."""
    found = _lost(properties, _pamqp_letter)
    if properties.cluster_id:
        found.append("cluster-id: pamqp takes none")
    if isinstance(properties.timestamp, int) and isinstance(_moment(properties.timestamp), int):
        found.append("timestamp: the moment is outside the years 1 to 9999")
    return found
