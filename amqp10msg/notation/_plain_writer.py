"""Values written as JSON for people: the part of `to_plain` below messages."""

from __future__ import annotations

import base64
import datetime
import math
import re
import struct
from collections.abc import Iterable
from typing import Any

from amqp10msg.composite import Field, composite_with, from_described
from amqp10msg.notation.type_names import DECIMALS, INTEGERS, TYPES, bits_of
from amqp10msg.wire.errors import DecodeError
from amqp10msg.wire.kernel import encode_value
from amqp10msg.wire.primitives import (
    FORMAT_CODES,
    HEAD_SIZES,
    AmqpMap,
    Array,
    Described,
    Symbol,
    ULong,
)

# The types that JSON has, and those whose values are integers or texts there.
_SAME = frozenset(("null", "boolean", "string"))
_WHOLE = frozenset(("long", *INTEGERS)) - {"timestamp"}
_TEXTS = frozenset(("symbol", "char", "uuid"))

# A form is `natural` where the type is known; one that is `marked`, ``{"$uint": 5}``, names it.


def generic(value: Any) -> Any:
    """Write a value of any type: plainly where JSON has its type, else with a marker."""
    kind = type(value)
    if kind in (type(None), bool, int, str) or (kind is float and math.isfinite(value)):
        return value
    if kind is list:
        return [generic(item) for item in value]
    if kind is dict or kind is AmqpMap:
        return entries(value, str)
    if kind is Described and (written := _composite(value)) is not None:
        return written
    return marked(value)


def marked(value: Any) -> dict[str, Any]:
    """Write a value with the marker of its type."""
    name = TYPES[type(value)]
    if name == "list":
        return {"$list": [generic(item) for item in value]}
    if name == "map":
        return {"$map": [[generic(key), generic(item)] for key, item in _pairs_of(value)]}
    if name == "described":
        return {"$described": [generic(value.descriptor), generic(value.value)]}
    if name == "array":
        return _array(value)
    content = natural(name, value)
    return content if isinstance(content, dict) else {f"${name}": content}


def natural(name: str, value: Any) -> Any:
    """Write a value where its type is known to be this one."""
    if name in _SAME:
        return value
    if name in _WHOLE:
        return int(value)
    if name in _TEXTS:
        return str(value)
    if name == "timestamp":
        return shown_time(value)
    if name == "binary":
        return shown_binary(value)
    if name == "float":
        return shown_float(bits_of(value))
    if name == "double":
        return value if math.isfinite(value) else _not_finite(value, bits_of(value))
    if name in DECIMALS:
        number = str(value)
        same = DECIMALS[name].from_decimal(number).bits == value.bits
        return number if same else f"0x{value.bits:0{2 * value.width}x}"
    return generic(value)


def shown_time(milliseconds: int) -> Any:
    """Write a timestamp in ISO 8601; as the number that it is, outside of the years 1 to 9999."""
    try:
        moment = _EPOCH + datetime.timedelta(0, 0, 0, milliseconds)
    except OverflowError:
        return int(milliseconds)
    return moment.isoformat("T", "milliseconds") + "Z"


_EPOCH = datetime.datetime(1970, 1, 1)  # noqa: DTZ001  (in UTC, whose offset is not written)


def shown_binary(octets: bytes) -> Any:
    """Write bytes as text where they are readable text, else in base64."""
    try:
        text = octets.decode("utf-8")
    except UnicodeDecodeError:
        pass
    else:
        if text.isprintable() or not _CONTROLS.search(text):
            return text
    return {"$base64": base64.b64encode(octets).decode("ascii")}


_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


def shown_float(octets: bytes) -> Any:
    """Write a float by its bits: as the shortest number that the nearest float is taken of.

    That is 0.1, not 0.10000000149011612.
    """
    value: float = _FLOAT.unpack(octets)[0]
    if not math.isfinite(value):
        return _not_finite(value, octets)
    for digits in range(6, 10):
        number = float(f"{value:.{digits}g}")
        try:
            if _FLOAT.pack(number) == octets:
                return number
        except OverflowError:
            continue
    return value


_FLOAT = struct.Struct(">f")


def _not_finite(value: float, octets: bytes) -> str:
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    quiet = b"\x7f\xc0" if len(octets) == _FLOAT.size else b"\x7f\xf8"
    return "NaN" if octets.rstrip(b"\x00") == quiet else f"0x{octets.hex()}"


def _pairs_of(mapping: Any) -> Iterable[tuple[Any, Any]]:
    """Return the entries of a dict or an AmqpMap."""
    return mapping.pairs if type(mapping) is AmqpMap else mapping.items()


def entries(mapping: Any, key_type: type[str]) -> Any:
    """Write a map as an object where the type of its keys allows that, else as pairs."""
    made: dict[str, Any] = {}
    for key, value in _pairs_of(mapping):
        if type(key) is not key_type or key[:1] == "$":
            return marked(mapping)
        made[str(key)] = generic(value)
    return made


def _array(value: Array) -> dict[str, Any]:
    written: dict[str, Any] = {"$array": value.type}
    if value.code != _default_code(value):
        written["code"] = f"0x{value.code:02x}"
    if value.descriptors:
        written["descriptors"] = [generic(descriptor) for descriptor in value.descriptors]
    written["values"] = [natural(value.type, item) for item in value.values]
    return written


def _default_code(value: Array) -> int:
    """Return the constructor that the array would be encoded with if it had none of its own."""
    # Arrays in arrays would otherwise be encoded once for each array around them.
    if value.code in _SHORT or (value.code in _LONG and any(map(_is_long, value.values))):
        return value.code
    octets = encode_value(Array(value.type, value.values))
    return octets[HEAD_SIZES[octets[0]]]


# Constructors of elements that have a size, in both forms.
_SHORT = (0xA0, 0xA1, 0xA3, 0xC0, 0xC1, 0xE0)
_LONG = tuple(code + 0x10 for code in _SHORT)
_WITHOUT_CONTENT = tuple(code for code, row in FORMAT_CODES.items() if row.width == 0)
_MOST_SHORT = 255


def _is_long(value: Any) -> bool:
    """Return whether a value takes more than 255 bytes; False also where that takes a long look."""
    pending = [value]
    size = 0
    while pending and size <= _MOST_SHORT:
        one = pending.pop()
        if isinstance(one, (str, bytes)):
            size += len(one)
        elif isinstance(one, Described):
            pending += (one.descriptor, one.value)
        elif isinstance(one, (list, Array, dict, AmqpMap)):
            if isinstance(one, Array) and one.code in _WITHOUT_CONTENT:
                continue  # its elements take no bytes
            if len(one) > _MOST_SHORT:
                return True
            pending += one.values if isinstance(one, Array) else one
        else:
            size += 1
    return size > _MOST_SHORT


def _composite(value: Described) -> Any:
    """Write a composite under its name; None if that would lose a part of it."""
    if type(value.descriptor) is not ULong or type(value.value) is not list:
        return None
    entry = composite_with(value.descriptor)
    if entry is None or (value.value and value.value[-1] is None):
        return None
    try:
        from_described(value)
    except DecodeError:
        return None
    return {"$" + entry.name.replace("-", "_"): fields_of(entry.fields, value.value)}


def fields_of(rows: tuple[Field, ...], values: list[Any]) -> dict[str, Any]:
    """Write the fields of a composite by name, those that are null left out."""
    return {
        row.name: _field(row, value)
        for row, value in zip(rows, values, strict=False)
        if value is not None
    }


def _field(row: Field, value: Any) -> Any:
    name = TYPES[type(value)]
    if row.multiple and name == "array" and value.type == row.type and not value.descriptors:
        return (
            [natural(row.type, v) for v in value] if "code" not in _array(value) else marked(value)
        )
    if row.requires == "message-id":
        return natural(name, value) if name in ("string", "ulong") else marked(value)
    if row.type == "*":
        return generic(value)
    if name != row.type:
        return marked(value)
    return entries(value, Symbol) if name == "map" else natural(name, value)
