"""Convert properties of class basic from and to the classes of pika and pamqp (used by aio-pika).

`lost_in_pika` and `lost_in_pamqp` list the values that a conversion would lose. Field tables of
these libraries have no type letters, so each value gets the letter that the library writes for its
Python type.
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

__all__ = [
    "from_pamqp",
    "from_pika",
    "from_py_amqp",
    "lost_in_pamqp",
    "lost_in_pika",
    "plain_headers",
    "to_pamqp",
    "to_pika",
]


def _expect_properties(properties: object, function: str) -> None:
    """Raise TypeError if the argument of `function` is not a BasicProperties."""
    expect(properties, BasicProperties, f"the argument properties of {function}", "BasicProperties")


def _expect_attributes(properties: object, function: str, expected: str) -> None:
    """Raise TypeError unless `properties` is None or has the attribute `headers`."""
    if properties is not None and not hasattr(properties, "headers"):
        # pika calls a consumer's callback with the method before the properties.
        is_method = hasattr(properties, "routing_key")
        hint = "pass properties, body, method in this order" if is_method else ""
        subject = f"the argument properties of {function}"
        raise wrong_type(subject, expected, properties, hint)


def _expect_long(value: int) -> None:
    """Raise ValueError for an integer that does not fit 64 bits, the widest field type."""
    if not -(2**63) <= value < 2**63:
        raise ValueError(f"the header value {value} needs more than 64 bits: write it as a string")


# The type letters that each library writes for Python types.


def _pika_letter(value: Any) -> str:
    """Return the type letter that pika writes for a value."""
    if isinstance(value, bool):
        return "t"
    if isinstance(value, int):
        _expect_long(value)
        # pika's class `long` is for integers that were decoded from 64 bits.
        is_int = -(2**31) <= value < 2**31 and type(value).__name__ != "long"
        return "I" if is_int else "l"
    return _common_letter(value, "d")


def _pamqp_letter(value: Any) -> str:
    """Return the type letter that pamqp writes for a value."""
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


def _py_amqp_letter(value: Any) -> str:
    """Return the type letter that py-amqp, kombu's transport for AMQP, writes for a value."""
    if isinstance(value, bool):
        return "t"
    if isinstance(value, int):
        _expect_long(value)
        return "I" if abs(value) < 2**31 else "L"
    return "S" if isinstance(value, bytes) else _common_letter(value, "d")


def _common_letter(value: Any, float_letter: str) -> str:
    """Return the type letter for a value that is neither bool nor int.

    pika and pamqp differ only in the letter for floats.
    """
    if value is None:
        return "V"
    for cls, letter in (
        (str, "S"),
        (bytes, "x"),
        (bytearray, "x"),
        (float, float_letter),
        (decimal.Decimal, "D"),
        (datetime.datetime, "T"),
        (dict, "F"),
        (list, "A"),
    ):
        if isinstance(value, cls):
            return letter
    raise TypeError(f"0-9-1 has no field type for {type(value).__name__}")


def _to_field_table(values: Any, letter_of: Any) -> FieldTable:
    """Convert a library's dict; `letter_of` returns the type letter for a value."""
    return FieldTable.of(
        [
            (name, letter, value)
            for name, item in values.items()
            for letter, value in (_to_field(item, letter_of),)
        ]
    )


def _to_field(value: Any, letter_of: Any) -> tuple[str, Any]:
    """Return the type letter for a library's value, and the value for a `FieldTable`."""
    letter = letter_of(value)
    if letter == "F":
        return letter, _to_field_table(value, letter_of)
    if letter == "A":
        return letter, FieldArray.of([_to_field(item, letter_of) for item in value])
    if letter == "T":
        return letter, int(_aware(value).timestamp())
    if letter == "D":
        return letter, ScaledDecimal.from_decimal(value)
    if letter == "f":
        return letter, Float(value)
    if letter == "S" and letter_of is _py_amqp_letter:
        octets = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else bytes(value)
        return letter, octets.decode("utf-8", "surrogateescape")
    return letter, value if letter == "t" or not isinstance(value, int) else int(value)


def _aware(time: datetime.datetime) -> datetime.datetime:
    """Return an aware datetime. In both libraries, a naive datetime is in UTC."""
    return time if time.tzinfo is not None else time.replace(tzinfo=datetime.UTC)


#: The classes that a library uses for integers and bytes, by type letter; int or bytes for other
#: letters.
_ClassByLetter: TypeAlias = Mapping[str, Callable[[Any], Any]]


def _plain(value: Any, classes: _ClassByLetter) -> Any:
    """Convert the value of a field to a plain Python value; `classes` are the library's classes."""
    if isinstance(value, FieldTable):
        return _plain_table(value, classes)
    if isinstance(value, FieldArray):
        return [_plain_field(letter, item, classes) for letter, item in value.entries]
    if isinstance(value, ScaledDecimal):
        return value.to_decimal()
    if isinstance(value, OddTrue):
        return True
    return float(value) if isinstance(value, Float) else value


def _plain_table(table: Any, classes: _ClassByLetter) -> dict[str, Any] | None:
    """Convert a table to a dict; of several fields with one name, the first is kept."""
    if table is None:
        return None
    table = as_table(table)
    fields: dict[str, Any] = {}
    for name, letter, value in table.entries:
        if name not in fields:
            fields[name] = _plain_field(letter, value, classes)
    return fields


def plain_headers(properties: BasicProperties) -> dict[str, Any] | None:
    """Return the headers as a dict of plain Python values; None if there are none.

    Times become datetimes if they are in their range, and of several fields with one name, the
    first is kept.

    Raises:
        TypeError: `properties` is not a BasicProperties.
    """
    _expect_properties(properties, "plain_headers")
    return _plain_table(properties.headers, {})


def _plain_field(letter: str, value: Any, classes: _ClassByLetter) -> Any:
    """Convert a field to the type that the library uses for its letter."""
    if letter == "T":
        return _datetime_or_seconds(seconds_of(value))
    # The libraries cannot write a tuple, a memoryview, or a FieldTable in a plain list.
    value = as_decoded(letter, value) if letter in "AFx" else value
    if letter in classes and isinstance(value, (int, bytes)):
        return classes[letter](value)
    return _plain(value, classes)


def _datetime_or_seconds(seconds: Any) -> Any:
    """Convert seconds since the Unix epoch to a datetime, if they are in its range."""
    if not isinstance(seconds, int):
        return seconds
    try:
        return datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    except (OverflowError, ValueError, OSError):
        return seconds


def _list_losses(properties: BasicProperties, letter_of: Any) -> list[str]:
    """Return what a conversion to a library's classes and back would change, as sentences."""
    name = "pika" if letter_of is _pika_letter else "pamqp"
    _expect_properties(properties, f"lost_in_{name}")
    losses: list[str] = []
    for row in PROPERTIES:
        value = getattr(properties, row.name)
        if row.name == "headers" and value is not None:
            _add_losses_of_table(as_table(value), "headers", letter_of, losses)
        elif isinstance(value, str):
            _add_losses_of_text(value, row.wire_name, losses)
    return losses


def _add_losses_of_text(text: str, path: str, losses: list[str]) -> None:
    """Add a sentence to `losses` if the library cannot write a text."""
    if not text.isascii() and any("\udc80" <= c <= "\udcff" for c in text):
        losses.append(f"{path}: its bytes are not UTF-8, and the library cannot write them")


def _add_losses_of_table(table: FieldTable, path: str, letter_of: Any, losses: list[str]) -> None:
    """Add a sentence to `losses` for each loss in a table."""
    earlier_names: set[str] = set()
    for name, letter, value in table.entries:
        field_path = f"{path}[{name!r}]"
        if name in earlier_names:
            losses.append(f"{field_path}: only the first field with this name is kept")
        earlier_names.add(name)
        _add_losses_of_text(name, field_path, losses)
        if letter_of is _pamqp_letter and len(name.encode("utf-8", "surrogateescape")) > 128:
            losses.append(f"{field_path}: the name is cut to 128 bytes")
        _add_losses_of_value(letter, value, field_path, letter_of, losses)
    if letter_of is _pamqp_letter and list(table) != sorted(table):
        losses.append(f"{path}: the fields are sorted by name")


def _add_losses_of_value(
    letter: str, value: Any, path: str, letter_of: Any, losses: list[str]
) -> None:
    """Add a sentence to `losses` for each loss in the value of a field."""
    value = as_decoded(letter, value)
    if isinstance(value, FieldTable):
        _add_losses_of_table(value, path, letter_of, losses)
    elif isinstance(value, FieldArray):
        for index, (inner, item) in enumerate(value.entries):
            _add_losses_of_value(inner, item, f"{path}[{index}]", letter_of, losses)
    elif isinstance(value, OddTrue):
        losses.append(f"{path}: the byte {value.octet} becomes 1")
    elif letter == "T":
        if not isinstance(_datetime_or_seconds(value), datetime.datetime):
            losses.append(f"{path}: the time is outside the years 1 to 9999")
    else:
        plain = _plain(value, {})
        new_letter = "l" if letter == "l" and letter_of is _pika_letter else letter_of(plain)
        if letter_of is _pika_letter and isinstance(plain, float):
            losses.append(f"{path}: pika cannot write floating-point numbers")
        elif new_letter != letter:
            losses.append(f"{path}: the field type {letter!r} becomes {new_letter!r}")
        if isinstance(plain, str):
            _add_losses_of_text(plain, path, losses)
        if letter_of is _pika_letter and letter == "D" and value.scale and not value.unscaled % 10:
            losses.append(f"{path}: pika does not write the trailing zeros of {plain}")


# pika.


def from_pika(properties: Any) -> BasicProperties:
    """Convert a ``pika.BasicProperties`` to `BasicProperties`.

    Raises:
        TypeError: `properties` has no attribute ``headers``, or a header value has a type without a
            field type in 0-9-1.
        ValueError: an integer in the headers needs more than 64 bits.
    """
    _expect_attributes(properties, "from_pika", "a pika.BasicProperties")
    return _from_attributes(properties, _pika_letter)


def from_py_amqp(properties: Any) -> BasicProperties:
    """Convert the properties of a message of py-amqp, which kombu uses, to `BasicProperties`.

    The headers get the types that py-amqp writes: bytes are text, and an integer that needs more
    than 32 bits has the letter ``L``.

    Args:
        properties: an object with the properties of 0-9-1 as attributes, and None for missing ones.

    Raises:
        TypeError: `properties` has no attribute ``headers``, or a header value has a type without a
            field type in 0-9-1.
        ValueError: an integer in the headers needs more than 64 bits.
    """
    _expect_attributes(properties, "from_py_amqp", "the properties of py-amqp")
    return _from_attributes(properties, _py_amqp_letter)


def _from_attributes(properties: Any, letter_of: Callable[[Any], str]) -> BasicProperties:
    """Convert a library's properties; `letter_of` returns the type letter of a header's value."""
    converted = BasicProperties()
    for row in PROPERTIES:
        value = getattr(properties, row.name, None)
        if row.name == "headers" and value is not None:
            value = _to_field_table(value, letter_of)
        if value is not None:
            setattr(converted, row.name, value)
    return converted


def to_pika(properties: BasicProperties) -> Any:
    """Convert properties to ``pika.BasicProperties``, with the losses that `lost_in_pika` lists.

    Raises:
        ModuleNotFoundError: pika is not installed.
        TypeError: `properties` is not a BasicProperties.
    """
    _expect_properties(properties, "to_pika")
    import pika.compat  # noqa: PLC0415  (only this function needs it)

    converted = pika.BasicProperties()
    for row in PROPERTIES:
        value = getattr(properties, row.name)
        if row.name == "headers":
            value = _plain_table(value, {"l": pika.compat.long})
        elif row.name == "timestamp":
            value = seconds_of(value)  # pika cannot write a datetime as the timestamp
        if value is not None:
            setattr(converted, row.name, value)
    return converted


def lost_in_pika(properties: BasicProperties) -> list[str]:
    """Return the values that ``pika.BasicProperties`` cannot represent or write, as sentences."""
    return _list_losses(properties, _pika_letter)


# Conversions for pamqp, which aio-pika uses.


def from_pamqp(properties: Any) -> BasicProperties:
    """Convert a ``pamqp.commands.Basic.Properties`` to `BasicProperties`.

    Raises:
        TypeError: `properties` has no attribute ``headers``, or a header value has a type without a
            field type in 0-9-1.
        ValueError: an integer in the headers needs more than 64 bits.
    """
    _expect_attributes(properties, "from_pamqp", "a pamqp.commands.Basic.Properties")
    converted = BasicProperties()
    for row in PROPERTIES:
        name = "message_type" if row.name == "type" else row.name
        value = getattr(properties, name, None)
        if value is None or (row.name == "cluster_id" and value == ""):
            continue
        if row.name == "headers":
            value = _to_field_table(value, _pamqp_letter)
        elif row.name == "timestamp":
            value = int(_aware(value).timestamp())
        setattr(converted, row.name, value)
    return converted


def to_pamqp(properties: BasicProperties) -> Any:
    """Convert to ``pamqp.commands.Basic.Properties``, with the losses that `lost_in_pamqp` lists.

    Raises:
        ModuleNotFoundError: pamqp is not installed.
        TypeError: `properties` is not a BasicProperties.
        ValueError: the timestamp is outside the range of datetime, or the delivery-mode is neither
            1 nor 2.
    """
    _expect_properties(properties, "to_pamqp")
    from pamqp import commands  # noqa: PLC0415  (only this function needs it)

    arguments: dict[str, Any] = {}
    for row in PROPERTIES:
        value = getattr(properties, row.name)
        if value is None or row.name == "cluster_id":
            continue
        if row.name == "headers":
            value = _plain_table(value, {"x": bytearray})
        elif row.name == "timestamp":
            value = _datetime_or_seconds(seconds_of(value))
            if isinstance(value, int):
                raise ValueError(f"{value} s is outside the years 1 to 9999, the range of datetime")
        arguments["message_type" if row.name == "type" else row.name] = value
    return commands.Basic.Properties(**arguments)


def lost_in_pamqp(properties: BasicProperties) -> list[str]:
    """Return the values that pamqp's properties cannot represent or write, as sentences."""
    losses = _list_losses(properties, _pamqp_letter)
    if properties.cluster_id is not None:
        losses.append("cluster-id: pamqp does not support it")
    losses += [
        f"{row.wire_name}: pamqp does not write an empty string"
        for row in PROPERTIES
        if getattr(properties, row.name) == "" and row.name != "cluster_id"
    ]
    if properties.delivery_mode not in {None, 1, 2}:
        losses.append(f"delivery-mode: pamqp refuses {properties.delivery_mode}")
    if isinstance(properties.timestamp, int) and isinstance(
        _datetime_or_seconds(properties.timestamp), int
    ):
        losses.append("timestamp: the time is outside the years 1 to 9999")
    return losses
