"""AMQP values as cells of the columns, and back: which member of the struct holds which type."""

from __future__ import annotations

import decimal
import json
import math
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from amqp10msg.errors import EncodeError
from amqp10msg.notation import from_typed, to_typed
from amqp10msg.primitives import (
    AmqpMap,
    Array,
    Byte,
    Char,
    Decimal32,
    Decimal64,
    Decimal128,
    Described,
    Float,
    Int,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
)

# What every consumer of Arrow's timestamps can show: the years 1 to 9999.
FIRST_MS = -62_135_596_800_000
LAST_MS = 253_402_300_799_999

_INTEGERS: dict[type, str] = {
    **{cls: cls.__name__.lower() for cls in (UByte, UShort, UInt, Byte, Short, Int, Timestamp)},
    int: "long",
    bool: "boolean",
}
_TEXTS: dict[type, str] = {str: "string", Symbol: "symbol", Char: "char"}
_DECIMALS: dict[type, str] = {Decimal32: "decimal32", Decimal64: "decimal64"}
_DECIMALS[Decimal128] = "decimal128"
_COMPOUNDS: dict[type, str] = {
    list: "list",
    dict: "map",
    AmqpMap: "map",
    Array: "array",
    Described: "described",
}


def value_cell(value: Any, key_type: str | None = None) -> dict[str, Any]:
    """Return the struct of one decoded value; members that are left out are null."""
    cls = type(value)
    cell: dict[str, Any] = {"key_type": key_type}
    if cls in _TEXTS:
        cell["type"] = _TEXTS[cls]
        cell["s"] = str(value)
    elif cls in _INTEGERS:
        cell["type"] = _INTEGERS[cls]
        cell["l"] = int(value)
    elif cls is ULong:
        cell["type"] = "ulong"
        cell["u"] = decimal.Decimal(int(value))
    elif cls is float:
        cell["type"] = "double"
        cell["d"] = value
    elif cls is Float:
        cell["type"] = "float"
        cell["d"] = float(value)
        if math.isnan(value):
            # As a double, the bits of this NaN would be lost.
            cell["d"] = math.nan
            cell["b"] = value.bits.to_bytes(4)
    elif cls is bytes:
        cell["type"] = "binary"
        cell["b"] = value
    elif cls is uuid.UUID:
        cell["type"] = "uuid"
        cell["s"] = str(value)
    elif value is None:
        cell["type"] = "null"
    elif cls in _DECIMALS:
        cell["type"] = _DECIMALS[cls]
        cell["s"] = str(value.to_decimal())
        cell["b"] = value.bits.to_bytes(cls.width)
    else:
        cell["type"] = _COMPOUNDS[cls]
        cell["s"] = json_text(to_typed(value))
    return cell


_FROM_L: dict[str, Callable[[int], Any]] = {name: cls for cls, name in _INTEGERS.items()}
_FROM_S: dict[str, Callable[[str], Any]] = {name: cls for cls, name in _TEXTS.items()}
_FROM_B: dict[str, Any] = {name: cls for cls, name in _DECIMALS.items()}


def value_of(cell: Mapping[str, Any]) -> Any:
    """Return the value of a struct.

    Raises:
        EncodeError: the type is unknown, or the member that holds the value is null or invalid.
    """
    name = cell.get("type")
    try:
        if name in _FROM_S:
            return _FROM_S[name](_member(cell, "s"))
        if name in _FROM_L:
            return _FROM_L[name](_member(cell, "l"))
        if name == "ulong":
            return ULong(int(_member(cell, "u")))
        if name == "double":
            return float(_member(cell, "d"))
        if name == "float":
            if cell.get("b") is not None:
                return Float.from_bits(int.from_bytes(_octets(cell, 4)))
            return Float(_member(cell, "d"))
        if name == "binary":
            return bytes(_member(cell, "b"))
        if name == "uuid":
            return uuid.UUID(_member(cell, "s"))
        if name == "null":
            return None
        if name in _FROM_B:
            cls = _FROM_B[name]
            return cls(int.from_bytes(_octets(cell, cls.width)))
        if name in _COMPOUNDS.values():
            value = from_typed(json.loads(_member(cell, "s")))
            if _COMPOUNDS.get(type(value)) != name:
                raise ValueError(f"s does not hold a {name}")
            return value
    except (ValueError, OverflowError, TypeError) as error:
        raise EncodeError(f"invalid {name}: {error}") from None
    raise EncodeError(f"no AMQP type is called {name!r}")


def _member(cell: Mapping[str, Any], name: str) -> Any:
    value = cell.get(name)
    if value is None:
        raise ValueError(f"the member {name} is null")
    return value


def _octets(cell: Mapping[str, Any], width: int) -> bytes:
    octets = bytes(_member(cell, "b"))
    if len(octets) != width:
        raise ValueError(f"b has {len(octets)} bytes, not {width}")
    return octets


def entries(section: Mapping[Any, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Return the entries of a map section: the key's text and the value's struct.

    A ulong key is its decimal digits, after as many ``#`` as make it unlike the map's symbols.
    """
    made = []
    taken: set[str] | None = None
    for key, value in section.items():
        if isinstance(key, str):
            made.append((str(key), value_cell(value)))
            continue
        if taken is None:
            taken = {str(key) for key in section if isinstance(key, str)}
        text = str(int(key))
        while text in taken:
            text = f"#{text}"
        made.append((text, value_cell(value, "ulong")))
    return made


def entries_of(
    pairs: Iterable[tuple[str, Mapping[str, Any]]], *, text_keys: bool
) -> dict[Any, Any]:
    """Return the content of a map section.

    Raises:
        EncodeError: a value's struct is invalid, or a key is a duplicate.
    """
    made: dict[Any, Any] = {}
    for text, cell in pairs:
        key: Any = text if text_keys else Symbol(text)
        try:
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
    if isinstance(value, str):
        return value, "string"
    if isinstance(value, bytes):
        return value.hex(), "binary"
    if isinstance(value, uuid.UUID):
        return str(value), "uuid"
    return str(int(value)), "ulong"


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
