"""AMQP values as cells of the columns, and back: which member of the struct holds which type."""

from __future__ import annotations

import decimal
import json
import math
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from amqp10msg.notation import from_typed, to_typed
from amqp10msg.notation.type_names import TYPES, WIDTHS, bits_of, of_bits
from amqp10msg.wire.errors import EncodeError
from amqp10msg.wire.primitives import DECIMALS, INTEGERS, Char, Float, Symbol, ULong

# What every consumer of Arrow's timestamps can show: the years 1 to 9999.
FIRST_MS = -62_135_596_800_000
LAST_MS = 253_402_300_799_999

# By AMQP type: the member that holds a value, and its conversions to that and from it.
_MEMBERS: dict[str, tuple[str, Callable[[Any], Any], Callable[[Any], Any]]] = {
    **{name: ("l", int, cls) for name, cls in INTEGERS.items()},
    "ulong": ("u", lambda value: decimal.Decimal(int(value)), lambda number: ULong(int(number))),
    "long": ("l", int, int),
    "boolean": ("l", int, bool),
    "double": ("d", float, float),
    "string": ("s", str, str),
    "symbol": ("s", str, Symbol),
    "char": ("s", str, Char),
    "uuid": ("s", str, uuid.UUID),
    "binary": ("b", bytes, bytes),
}
_COMPOUNDS = ("list", "map", "array", "described")


def value_cell(value: Any, key_type: str | None = None) -> dict[str, Any]:
    """Return the struct of one decoded value; members that are left out are null."""
    name = TYPES[type(value)]
    cell: dict[str, Any] = {"key_type": key_type, "type": name}
    if name in _MEMBERS:
        member, convert, _ = _MEMBERS[name]
        cell[member] = convert(value)
    elif name == "float":
        cell["d"] = float(value)
        if math.isnan(value):
            # As a double, the bits of this NaN would be lost.
            cell["d"] = math.nan
            cell["b"] = bits_of(value)
    elif name in DECIMALS:
        cell["s"] = str(value.to_decimal())
        cell["b"] = bits_of(value)
    elif value is not None:
        cell["s"] = json_text(to_typed(value))
    return cell


def value_of(cell: Mapping[str, Any]) -> Any:
    """Return the value of a struct.

    Raises:
        EncodeError: the type is unknown, or the member that holds the value is null or invalid.
    """
    name = cell.get("type")
    try:
        if name in _MEMBERS:
            member, _, convert = _MEMBERS[name]
            return convert(_member(cell, member))
        if name == "float" and cell.get("b") is None:
            return Float(_member(cell, "d"))
        if name == "float" or name in DECIMALS:
            octets = bytes(_member(cell, "b"))
            if len(octets) != WIDTHS[name]:
                raise ValueError(f"b has {len(octets)} bytes, not {WIDTHS[name]}")
            return of_bits(name, octets)
        if name == "null":
            return None
        if name in _COMPOUNDS:
            value = from_typed(json.loads(_member(cell, "s")))
            if TYPES.get(type(value)) != name:
                raise ValueError(f"s does not hold a {name}")
            return value
    except (ValueError, OverflowError, TypeError) as error:
        raise EncodeError(f"invalid {name}: {error}") from None
    raise EncodeError(f"there is no AMQP type {name!r}")


def _member(cell: Mapping[str, Any], name: str) -> Any:
    value = cell.get(name)
    if value is None:
        raise ValueError(f"the member {name} is null")
    return value


def text_keys(section: Mapping[Any, Any]) -> list[str]:
    """Return the texts of a map section's keys, all different.

    A ulong key is its decimal digits, after as many ``#`` as make it unlike the map's symbols.
    """
    if all(isinstance(key, str) for key in section):
        return [str(key) for key in section]
    taken = {str(key) for key in section if isinstance(key, str)}
    made = []
    for key in section:
        text = str(key) if isinstance(key, str) else str(int(key))
        while not isinstance(key, str) and text in taken:
            text = f"#{text}"
        made.append(text)
    return made


def entries(section: Mapping[Any, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Return the entries of a map section: the key's text and the value's struct."""
    return [
        (text, value_cell(value, None if isinstance(key, str) else "ulong"))
        for text, (key, value) in zip(text_keys(section), section.items(), strict=True)
    ]


def entries_of(
    pairs: Iterable[tuple[str, Mapping[str, Any]]], *, text_keys: bool
) -> dict[Any, Any]:
    """Return the content of a map section.

    Raises:
        EncodeError: a value's struct is invalid, or a key is a duplicate.
    """
    made: dict[Any, Any] = {}
    for text, cell in pairs:
        try:
            key: Any = text if text_keys else Symbol(text)
            if cell is None:
                raise EncodeError("the struct of a value is null: use type null for AMQP's null")
            if cell.get("key_type") == "ulong":
                key = ULong(int(text.lstrip("#")))
            elif cell.get("key_type") is not None:
                raise EncodeError(f"key_type must be null or ulong, not {cell['key_type']!r}")
            if key in made:
                raise EncodeError("duplicate map key")
            made[key] = value_of(cell)
        except ValueError as error:
            raise EncodeError(getattr(error, "reason", str(error)), f"[{text!r}]") from None
    return made


def identifier(value: Any) -> tuple[str | None, str | None]:
    """Return a message-id as text and type: digits, hex, a UUID with hyphens, or a string."""
    if value is None:
        return None, None
    name = TYPES[type(value)]
    return value.hex() if name == "binary" else str(value), name


def identifier_of(text: str | None, name: str | None) -> Any:
    """Return the message-id of a text and a type; a string if the type is null.

    Raises:
        EncodeError: the text is not one of this type.
    """
    if text is None or name is None or name == "string":
        return text
    try:
        if name == "ulong":
            return ULong(int(text))
        if name == "uuid":
            return uuid.UUID(text)
        if name == "binary":
            return bytes.fromhex(text)
    except ValueError as error:
        raise EncodeError(f"invalid {name}: {error}") from None
    raise EncodeError(f"the type must be ulong, uuid, binary or string, not {name!r}")


def json_text(typed: Any) -> str:
    """Return typed JSON as text without spaces; deep nesting takes no stack."""
    try:
        return json.dumps(typed, ensure_ascii=False, separators=(",", ":"))
    except RecursionError:
        return "".join(_pieces(typed))


def _pieces(typed: Any) -> Iterable[str]:
    stack: list[Any] = [iter((typed,))]
    first = [True]
    while stack:
        for item in stack[-1]:
            if not first[-1]:
                yield ","
            first[-1] = False
            if isinstance(item, list):
                yield "["
                stack.append(iter(item))
                first.append(True)
                break
            yield json.dumps(item, ensure_ascii=False)
        else:
            stack.pop()
            first.pop()
            if stack:
                yield "]"
