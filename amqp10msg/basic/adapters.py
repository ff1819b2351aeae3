"""Properties of class basic from and to the types of pika and pamqp, which aio-pika uses.

Each says what its library cannot hold or write: `lost_in_pika` and `lost_in_pamqp` name it before
it is gone. Their field tables have no letters, so a value gets the letter that the library would
write; pika has a class of its own for long integers.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from amqp10msg.basic.properties import PROPERTIES, BasicProperties
from amqp10msg.basic.tables import (
    FieldArray,
    FieldTable,
    OddTrue,
    ScaledDecimal,
    as_decoded,
    as_table,
    seconds_of,
)
from amqp10msg.wire.errors import expect, wrong_type
from amqp10msg.wire.primitives import Float

__all__ = ["from_pamqp", "from_pika", "lost_in_pamqp", "lost_in_pika", "to_pamqp", "to_pika"]


def _expect_properties(properties: object, function: str) -> None:
    expect(properties, BasicProperties, f"the properties of {function}", "BasicProperties")


def _expect_attributes(properties: object, function: str, wanted: str) -> None:
    """Raise TypeError for an object without headers: every class of properties has them.

    None stands for a message without properties.
    """
    if properties is not None and not hasattr(properties, "headers"):
        is_method = hasattr(properties, "routing_key")  # pika passes a consumer the method first
        how = "pass properties, body, method in this order" if is_method else ""
        raise wrong_type(f"the properties of {function}", wanted, properties, how)


def _expect_long(value: int) -> None:
    """Raise ValueError for an integer that is wider than the widest field, a long-long."""
    if not -(2**63) <= value < 2**63:
        raise ValueError(
            f"a header holds {value}, but an integer field has 64 bits: write it as text"
        )


# Letters that each library writes for its Python types, so that a value keeps its letter if it can.


def _pika_letter(value: Any) -> str:
    if isinstance(value, bool):
        return "t"
    if isinstance(value, int):
        _expect_long(value)
        # What pika reads as a long integer is of its class `long`.
        is_int = -(2**31) <= value < 2**31 and type(value).__name__ != "long"
        return "I" if is_int else "l"
    return _common_letter(value, "d")


def _pamqp_letter(value: Any) -> str:
    if isinstance(value, bool):
        return "t"
    if isinstance(value, int):
        _expect_long(value)
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
    return letter, value if letter == "t" or not isinstance(value, int) else int(value)


def _aware(moment: datetime.datetime) -> datetime.datetime:
    """Take a naive datetime as UTC, as both libraries do."""
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=datetime.UTC)


#: By letter, the class of which a library's values of that letter are.
_Classes: TypeAlias = Mapping[str, Callable[[Any], Any]]


def _plain(value: Any, classes: _Classes) -> Any:
    if isinstance(value, FieldTable):
        return _plain_table(value, classes)
    if isinstance(value, FieldArray):
        return [_plain_field(letter, item, classes) for letter, item in value.entries]
    if isinstance(value, ScaledDecimal):
        return value.to_decimal()
    if isinstance(value, OddTrue):
        return True
    return float(value) if isinstance(value, Float) else value


def _plain_table(table: Any, classes: _Classes) -> dict[str, Any] | None:
    if table is None:
        return None
    table = as_table(table)
    made: dict[str, Any] = {}
    for name, letter, value in table.entries:
        if name not in made:
            made[name] = _plain_field(letter, value, classes)
    return made


def _plain_field(letter: str, value: Any, classes: _Classes) -> Any:
    """Return a field as libraries hold it; of what class that is, its letter says."""
    if letter == "T":
        return _moment(seconds_of(value))
    # The libraries take no tuples and no views, nor tables within plain lists.
    value = as_decoded(letter, value) if letter in "AFx" else value
    if letter in classes and isinstance(value, (int, bytes)):
        return classes[letter](value)
    return _plain(value, classes)


def _moment(seconds: Any) -> Any:
    if not isinstance(seconds, int):
        return seconds
    try:
        return datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    except (OverflowError, ValueError, OSError):
        return seconds


def _lost(properties: BasicProperties, letter_of: Any) -> list[str]:
    """List what a table of plain Python values would not give back."""
    name = "pika" if letter_of is _pika_letter else "pamqp"
    _expect_properties(properties, f"lost_in_{name}")
    found: list[str] = []
    for row in PROPERTIES:
        value = getattr(properties, row.name)
        if row.name == "headers" and value is not None:
            _lost_in_table(as_table(value), "headers", letter_of, found)
        elif isinstance(value, str):
            _lost_text(value, row.wire_name, found)
    return found


def _lost_text(text: str, here: str, found: list[str]) -> None:
    if not text.isascii() and any("\udc80" <= c <= "\udcff" for c in text):
        found.append(f"{here}: its bytes are not UTF-8, and the library does not write it")


def _lost_in_table(table: FieldTable, path: str, letter_of: Any, found: list[str]) -> None:
    seen: set[str] = set()
    for name, letter, value in table.entries:
        here = f"{path}[{name!r}]"
        if name in seen:
            found.append(f"{here}: only the first of a name is kept")
        seen.add(name)
        _lost_text(name, here, found)
        if letter_of is _pamqp_letter and len(name.encode("utf-8", "surrogateescape")) > 128:
            found.append(f"{here}: the name is cut to 128 bytes")
        _lost_value(letter, value, here, letter_of, found)
    if letter_of is _pamqp_letter and list(table) != sorted(table):
        found.append(f"{path}: the fields are sorted by name")


def _lost_value(letter: str, value: Any, here: str, letter_of: Any, found: list[str]) -> None:
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
        plain = _plain(value, {})
        written = "l" if letter == "l" and letter_of is _pika_letter else letter_of(plain)
        if written != letter:
            found.append(f"{here}: the field type {letter!r} becomes {written!r}")
        if isinstance(plain, str):
            _lost_text(plain, here, found)
        if letter_of is _pika_letter and isinstance(plain, float):
            found.append(f"{here}: pika does not write floating-point numbers")
        if letter_of is _pika_letter and letter == "D" and value.scale and not value.unscaled % 10:
            found.append(f"{here}: pika does not write the zeros at the end of {plain}")


# pika.


def from_pika(properties: Any) -> BasicProperties:
    """Convert a ``pika.BasicProperties``.

    Raises:
        TypeError: `properties` has no headers, or a header value is of a type that no field has.
        ValueError: an integer in the headers needs more than 64 bits.
    """
    _expect_attributes(properties, "from_pika", "a pika.BasicProperties")
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
        TypeError: `properties` is not a BasicProperties.
    """
    _expect_properties(properties, "to_pika")
    import pika.compat  # noqa: PLC0415  (the one place that needs it)

    made = pika.BasicProperties()
    for row in PROPERTIES:
        value = getattr(properties, row.name)
        if row.name == "headers":
            value = _plain_table(value, {"l": pika.compat.long})
        elif row.name == "timestamp":
            value = seconds_of(value)  # pika does not write a datetime there
        if value is not None:
            setattr(made, row.name, value)
    return made


def lost_in_pika(properties: BasicProperties) -> list[str]:
    """List what ``pika.BasicProperties`` cannot hold or write; empty where it is all written."""
    return _lost(properties, _pika_letter)


# pamqp, and aio-pika with it.


def from_pamqp(properties: Any) -> BasicProperties:
    """Convert a ``pamqp.commands.Basic.Properties``.

    Raises:
        TypeError: `properties` has no headers, or a header value is of a type that no field has.
        ValueError: an integer in the headers needs more than 64 bits.
    """
    _expect_attributes(properties, "from_pamqp", "a pamqp.commands.Basic.Properties")
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
        TypeError: `properties` is not a BasicProperties.
        ValueError: the timestamp is outside the years that datetime can hold, or the delivery-mode
            neither 1 nor 2.
    """
    _expect_properties(properties, "to_pamqp")
    from pamqp import commands  # noqa: PLC0415  (the one place that needs it)

    given: dict[str, Any] = {}
    for row in PROPERTIES:
        value = getattr(properties, row.name)
        if value is None or row.name == "cluster_id":
            continue
        if row.name == "headers":
            value = _plain_table(value, {"x": bytearray})
        elif row.name == "timestamp":
            value = _moment(seconds_of(value))
            if isinstance(value, int):
                raise ValueError(f"{value} s is outside the years 1 to 9999 that datetime can hold")
        given["message_type" if row.name == "type" else row.name] = value
    return commands.Basic.Properties(**given)


def lost_in_pamqp(properties: BasicProperties) -> list[str]:
    """List what ``pamqp.commands.Basic.Properties`` cannot hold or write; empty if nothing."""
    found = _lost(properties, _pamqp_letter)
    if properties.cluster_id is not None:
        found.append("cluster-id: pamqp takes none")
    found += [
        f"{row.wire_name}: pamqp does not write an empty text"
        for row in PROPERTIES
        if getattr(properties, row.name) == "" and row.name != "cluster_id"
    ]
    if properties.delivery_mode not in {None, 1, 2}:
        found.append(f"delivery-mode: pamqp does not take {properties.delivery_mode}")
    if isinstance(properties.timestamp, int) and isinstance(_moment(properties.timestamp), int):
        found.append("timestamp: the moment is outside the years 1 to 9999")
    return found
