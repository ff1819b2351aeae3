"""AMQP values as VARIANT, the encoding of values of any type that Parquet and Spark 4 share.

A VARIANT is two binaries: the ``value``, and the ``metadata`` with the keys of all objects in it.
Types are those that SQL has: all integers are one type, a symbol is a string. What says exactly
which AMQP type a value was is the map of structs (`_cells`); this is for queries.

The kernel writes the same bytes, so there is one form of each value: integers in the fewest bytes,
keys in the order in which they come first, values in the order of the wire, offsets as narrow as
they fit.
"""

from __future__ import annotations

import decimal
import struct
from array import array
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from amqp10msg.columns._cells import FIRST_MS, LAST_MS, text_keys
from amqp10msg.notation.type_names import TYPES
from amqp10msg.wire.primitives import DECIMALS, INTEGERS

# Basic types: the two lowest bits of the first byte of a value.
_SHORT_TEXT, _OBJECT, _ARRAY = 1, 2, 3
# Primitive types, in the bits above.
_NULL, _TRUE, _FALSE, _INT8, _DOUBLE = 0, 1, 2, 3, 7
_DECIMAL4, _TIMESTAMP, _FLOAT, _BINARY, _TEXT = 8, 12, 14, 15, 16
_LONGEST_SHORT_TEXT = 63
# Digits of the decimals of 4, 8 and 16 bytes.
_DIGITS = (9, 18, 38)
#: The most bytes of a VARIANT that every version of Spark takes.
MOST = (1 << 24) - 1

_TEXTS = frozenset(("string", "symbol", "char", "uuid"))
_WHOLE = frozenset(("long", *INTEGERS)) - {"timestamp"}


class VariantSizeError(ValueError):
    """A VARIANT would have more bytes than readers take."""


def variant(value: Any) -> dict[str, bytes]:
    """Return a decoded value as the two binaries of a VARIANT.

    Raises:
        VariantSizeError: they would be too large.
    """
    keys: dict[str, int] = {}
    return _cell(_value(value, keys), keys)


def section_variant(section: Mapping[Any, Any]) -> dict[str, bytes]:
    """Return a map section as the two binaries of an object.

    Raises:
        VariantSizeError: they would be too large.
    """
    keys: dict[str, int] = {}
    pairs = zip(text_keys(section), section.values(), strict=True)
    return _cell(_object(pairs, keys), keys)


def _cell(value: bytes, keys: Mapping[str, int]) -> dict[str, bytes]:
    metadata = _metadata(keys)
    if max(len(value), len(metadata)) > MOST:
        raise VariantSizeError(f"a VARIANT has at most {MOST:,} bytes")
    return {"value": value, "metadata": metadata}


def _metadata(keys: Iterable[str]) -> bytes:
    texts = [key.encode() for key in keys]
    ends = [0]
    for text in texts:
        ends.append(ends[-1] + len(text))
    width = _width(max(ends[-1], len(texts)))
    numbers = b"".join(number.to_bytes(width, "little") for number in (len(texts), *ends))
    return bytes((1 | (width - 1) << 6,)) + numbers + b"".join(texts)


def _width(number: int) -> int:
    """Return in how many bytes a number is written."""
    return max(1, (number.bit_length() + 7) // 8)


def _head(kind: int) -> bytes:
    """Return the first byte of a value of a primitive type."""
    return bytes((kind << 2,))


def _value(value: Any, keys: dict[str, int]) -> bytes:
    name = TYPES[type(value)]
    if value is None:
        return _head(_NULL)
    if name == "boolean":
        return _head(_TRUE if value else _FALSE)
    if name in _WHOLE:
        return _whole(int(value))
    if name == "timestamp":
        if not FIRST_MS <= value <= LAST_MS:
            return _whole(int(value))
        return _head(_TIMESTAMP) + struct.pack("<q", value * 1000)
    if name == "float":
        return _head(_FLOAT) + struct.pack("<I", value.bits)
    if name == "double":
        return _head(_DOUBLE) + struct.pack("<d", value)
    if name in _TEXTS:
        return _text(str(value))
    if name == "binary":
        return _head(_BINARY) + struct.pack("<I", len(value)) + bytes(value)
    if name in DECIMALS:
        return _decimal(value.to_decimal(), str(value))
    if name == "map":
        return _map(value, keys)
    if name == "described":
        pairs = (("descriptor", value.descriptor), ("value", value.value))
        return _object(pairs, keys)
    return _array(_value(item, keys) for item in value)


def _whole(number: int) -> bytes:
    """Return an integer in the fewest of 1, 2, 4 and 8 bytes, or as a decimal of 16."""
    for i in range(4):
        if -(1 << (8 << i) - 1) <= number < 1 << (8 << i) - 1:
            return _head(_INT8 + i) + number.to_bytes(1 << i, "little", signed=True)
    return _digits(number, 0, 2)


def _digits(number: int, scale: int, step: int) -> bytes:
    return (
        _head(_DECIMAL4 + step)
        + bytes((scale,))
        + number.to_bytes(4 << step, "little", signed=True)
    )


def _decimal(number: decimal.Decimal, text: str) -> bytes:
    """Return a decimal floating-point number, as text where SQL's decimals do not hold it."""
    sign, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int):
        return _text(text)  # a NaN or an infinity
    whole = int("".join(map(str, digits))) * 10 ** max(exponent, 0) if exponent <= _DIGITS[2] else 0
    scale = max(-exponent, 0)
    size = max(len(str(whole)), scale)
    if size > _DIGITS[2] or exponent > _DIGITS[2]:
        return _text(text)
    step = next(i for i, most in enumerate(_DIGITS) if size <= most)
    return _digits(-whole if sign else whole, scale, step)


def _text(text: str) -> bytes:
    octets = text.encode()
    if len(octets) <= _LONGEST_SHORT_TEXT:
        return bytes((len(octets) << 2 | _SHORT_TEXT,)) + octets
    return _head(_TEXT) + struct.pack("<I", len(octets)) + octets


def _map(value: Mapping[Any, Any], keys: dict[str, int]) -> bytes:
    """Return an object where all keys are texts that differ, else an array of pairs."""
    texts = {str(key) for key in value if TYPES[type(key)] in {"string", "symbol"}}
    if len(texts) == len(value):
        return _object(((str(key), item) for key, item in value.items()), keys)
    return _array(_array(_value(one, keys) for one in pair) for pair in value.items())


def _array(items: Iterable[bytes]) -> bytes:
    ends = array("Q")
    content = _joined(items, ends)
    return _compound(content, ends, _ARRAY, 0, b"", range(len(ends)))


def _object(pairs: Iterable[tuple[str, Any]], keys: dict[str, int]) -> bytes:
    texts: list[str] = []
    ends = array("Q")
    content = _joined(_members(pairs, texts, keys), ends)
    # UTF-8 sorts as the code points do.
    order = sorted(range(len(texts)), key=texts.__getitem__)
    ids = [keys[texts[place]] for place in order]
    width = _width(max(ids, default=0))
    written = b"".join(number.to_bytes(width, "little") for number in ids)
    return _compound(content, ends, _OBJECT, width - 1, written, order)


def _members(
    pairs: Iterable[tuple[str, Any]], texts: list[str], keys: dict[str, int]
) -> Iterator[bytes]:
    for text, item in pairs:
        keys.setdefault(text, len(keys))
        texts.append(text)
        yield _value(item, keys)


def _joined(items: Iterable[bytes], ends: array[int]) -> bytearray:
    """Return values in a row, and add where each ends: a list of them would fill the memory."""
    content = bytearray()
    for item in items:
        content += item
        ends.append(len(content))
    return content


def _compound(
    content: bytearray, ends: array[int], kind: int, id_width: int, ids: bytes, order: Iterable[int]
) -> bytes:
    """Return an object or an array: how many values, their ids, where they begin, and they."""
    width = _width(len(content))
    is_large = len(ends) > 0xFF
    # The bit of many values stands above the widths, of which an array has one.
    shape = width - 1 | (id_width << 2 | is_large << 4 if kind == _OBJECT else is_large << 2)
    made = bytearray((shape << 2 | kind,))
    made += len(ends).to_bytes(4 if is_large else 1, "little")
    made += ids
    for place in order:
        made += (ends[place - 1] if place else 0).to_bytes(width, "little")
    made += len(content).to_bytes(width, "little")
    made += content
    return bytes(made)
