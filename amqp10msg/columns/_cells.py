"""Convert AMQP values to cells of Arrow columns, and back."""

from __future__ import annotations

import decimal
import json
import math
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from amqp10msg.notation import from_typed, to_typed
from amqp10msg.notation.type_names import BIT_PATTERN_WIDTHS, TYPE_NAME_BY_CLASS, bits_of, of_bits
from amqp10msg.wire.errors import EncodeError
from amqp10msg.wire.primitives import DECIMALS, INTEGERS, Char, Float, Symbol, ULong

# The range of timestamps that all consumers of Arrow support, in ms since the Unix epoch: the years
# 1 to 9999.
MIN_TIMESTAMP_MS = -62_135_596_800_000
MAX_TIMESTAMP_MS = 253_402_300_799_999

# By AMQP type: the struct member that holds the value, and the conversions to and from the member.
_CONVERSIONS_BY_TYPE: dict[str, tuple[str, Callable[[Any], Any], Callable[[Any], Any]]] = {
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
_COMPOUND_TYPES = ("list", "map", "array", "described")


def value_cell(value: Any, key_type: str | None = None) -> dict[str, Any]:
    """Return the struct of a decoded value; missing members are null."""
    name = TYPE_NAME_BY_CLASS[type(value)]
    cell: dict[str, Any] = {"key_type": key_type, "type": name}
    if name in _CONVERSIONS_BY_TYPE:
        member, convert, _ = _CONVERSIONS_BY_TYPE[name]
        cell[member] = convert(value)
    elif name == "float":
        cell["d"] = float(value)
        if math.isnan(value):
            # The conversion to double could change the payload bits of a NaN: `b` contains them.
            cell["d"] = math.nan
            cell["b"] = bits_of(value)
    elif name in DECIMALS:
        cell["s"] = str(value.to_decimal())
        cell["b"] = bits_of(value)
    elif value is not None:
        cell["s"] = json_text(to_typed(value))
    return cell


def cell_value(cell: Mapping[str, Any]) -> Any:
    """Return the AMQP value of a struct, the inverse of `value_cell`.

    Raises:
        EncodeError: the type is unknown, or the member that holds the value is null or invalid.
    """
    name = cell.get("type")
    try:
        if name in _CONVERSIONS_BY_TYPE:
            member, _, convert = _CONVERSIONS_BY_TYPE[name]
            return convert(_required_member(cell, member))
        if name == "float" and cell.get("b") is None:
            return Float(_required_member(cell, "d"))
        if name == "float" or name in DECIMALS:
            raw = bytes(_required_member(cell, "b"))
            if len(raw) != BIT_PATTERN_WIDTHS[name]:
                raise ValueError(
                    f"the member b must have {BIT_PATTERN_WIDTHS[name]} bytes, got {len(raw)}"
                )
            return of_bits(name, raw)
        if name == "null":
            return None
        if name in _COMPOUND_TYPES:
            value = from_typed(json.loads(_required_member(cell, "s")))
            if TYPE_NAME_BY_CLASS.get(type(value)) != name:
                raise ValueError(f"the member s must be typed JSON of a {name}")
            return value
    except (ValueError, OverflowError, TypeError) as error:
        raise EncodeError(f"invalid {name}: {error}") from None
    raise EncodeError(f"unknown AMQP type {name!r}")


def _required_member(cell: Mapping[str, Any], name: str) -> Any:
    """Return a member of a struct, or raise ValueError if it is null."""
    value = cell.get(name)
    if value is None:
        raise ValueError(f"the member {name} is null")
    return value


def text_keys(section: Mapping[Any, Any]) -> list[str]:
    """Return the keys of a map section as unique strings.

    A ulong key becomes its decimal digits, prefixed with ``#`` until it differs from all symbols.
    """
    if all(isinstance(key, str) for key in section):
        return [str(key) for key in section]
    symbols = {str(key) for key in section if isinstance(key, str)}
    texts = []
    for key in section:
        text = str(key) if isinstance(key, str) else str(int(key))
        while not isinstance(key, str) and text in symbols:
            text = f"#{text}"
        texts.append(text)
    return texts


def entries(section: Mapping[Any, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Return the entries of a map section as tuples: the key as a string, the value as a struct."""
    return [
        (text, value_cell(value, None if isinstance(key, str) else "ulong"))
        for text, (key, value) in zip(text_keys(section), section.items(), strict=True)
    ]


def section_content(
    pairs: Iterable[tuple[str, Mapping[str, Any]]], *, text_keys: bool
) -> dict[Any, Any]:
    """Return the dict of a map section from the cells of its entries.

    Args:
        pairs: for each entry, the key as a string, and the value as a struct.
        text_keys: whether the keys are strings; else they are symbols or ulongs.

    Raises:
        EncodeError: a value's struct is invalid, or a key is a duplicate.
    """
    content: dict[Any, Any] = {}
    for text, cell in pairs:
        try:
            key: Any = text if text_keys else Symbol(text)
            if cell is None:
                raise EncodeError(
                    "a value must not be a null struct: use the type null for an AMQP null"
                )
            if cell.get("key_type") == "ulong":
                key = ULong(int(text.lstrip("#")))
            elif cell.get("key_type") is not None:
                raise EncodeError(f"key_type must be null or ulong, got {cell['key_type']!r}")
            if key in content:
                raise EncodeError("duplicate map key")
            content[key] = cell_value(cell)
        except ValueError as error:
            path = f"[{text!r}]"
            raise EncodeError(getattr(error, "reason", str(error)), path) from None
    return content


def identifier(value: Any) -> tuple[str | None, str | None]:
    """Return the text and the AMQP type of a message-id.

    The text of a ulong is decimal digits, of a binary hex, and of a UUID its form with hyphens.
    """
    if value is None:
        return None, None
    name = TYPE_NAME_BY_CLASS[type(value)]
    return value.hex() if name == "binary" else str(value), name


def parse_identifier(text: str | None, name: str | None) -> Any:
    """Parse the text of a message-id with the AMQP type `name`; None means string.

    Raises:
        EncodeError: the text is invalid for the type, or the type is unknown.
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
    raise EncodeError(f"the type must be ulong, uuid, binary or string, got {name!r}")


def json_text(typed: Any) -> str:
    """Format typed JSON without spaces, and without recursion for deep nesting."""
    try:
        return json.dumps(typed, ensure_ascii=False, separators=(",", ":"))
    except RecursionError:
        return "".join(_json_pieces(typed))


def _json_pieces(typed: Any) -> Iterable[str]:
    """Yield the JSON text of nested lists in pieces, without recursion."""
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
