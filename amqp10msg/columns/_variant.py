"""Encode AMQP values as VARIANT, the encoding for values of any type in Parquet and Spark 4.

A VARIANT consists of two binaries: the ``value``, and the ``metadata`` with the keys of all
objects. It is meant for queries and has SQL types: all integers are one type, and a symbol is a
string. The map of structs (`_cells`) keeps the exact AMQP type.

The kernel writes the same bytes as this module, so each value has exactly one encoding: integers
and offsets have as few bytes as possible, keys are in the order of their first occurrence, and
values are in the order of the message.
"""

from __future__ import annotations

import decimal
import struct
from array import array
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from amqp10msg.columns._cells import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS, text_keys
from amqp10msg.notation.type_names import TYPE_NAME_BY_CLASS
from amqp10msg.wire.primitives import DECIMALS, INTEGERS

# Basic types: the two lowest bits of the first byte of a value.
_SHORT_TEXT, _OBJECT, _ARRAY = 1, 2, 3
# Primitive types: the upper six bits.
_NULL, _TRUE, _FALSE, _INT8, _DOUBLE = 0, 1, 2, 3, 7
_DECIMAL4, _TIMESTAMP, _FLOAT, _BINARY, _TEXT = 8, 12, 14, 15, 16
#: Maximum size of a text whose size is in its first byte.
_MAX_SHORT_TEXT_BYTES = 63
# The precision of decimals of 4, 8 and 16 bytes, in digits.
_DECIMAL_DIGITS = (9, 18, 38)
#: The largest VARIANT that every version of Spark supports, in bytes.
MAX_VARIANT_BYTES = (1 << 24) - 1

# AMQP types whose values become strings or integers in a VARIANT.
_TYPES_STORED_AS_STRINGS = frozenset(("string", "symbol", "char", "uuid"))
_TYPES_STORED_AS_INTEGERS = frozenset(("long", *INTEGERS)) - {"timestamp"}


class VariantSizeError(ValueError):
    """A VARIANT would be larger than readers support."""


def variant(value: Any) -> dict[str, bytes]:
    """Return a decoded value as the two binaries of a VARIANT.

    Raises:
        VariantSizeError: a binary would be larger than `MAX_VARIANT_BYTES` bytes.
    """
    keys: dict[str, int] = {}
    return _to_cell(_encode_value(value, keys), keys)


def section_variant(section: Mapping[Any, Any]) -> dict[str, bytes]:
    """Return a map section as the two binaries of an object.

    Raises:
        VariantSizeError: a binary would be larger than `MAX_VARIANT_BYTES` bytes.
    """
    keys: dict[str, int] = {}
    pairs = zip(text_keys(section), section.values(), strict=True)
    return _to_cell(_encode_object(pairs, keys), keys)


def _to_cell(value: bytes, keys: Mapping[str, int]) -> dict[str, bytes]:
    """Return a VARIANT from its encoded value and the dictionary of its keys."""
    metadata = _encode_metadata(keys)
    if max(len(value), len(metadata)) > MAX_VARIANT_BYTES:
        raise VariantSizeError(f"a VARIANT must have at most {MAX_VARIANT_BYTES:,} bytes")
    return {"value": value, "metadata": metadata}


def _encode_metadata(keys: Iterable[str]) -> bytes:
    """Encode the dictionary of keys."""
    texts = [key.encode() for key in keys]
    text_ends = [0]
    for text in texts:
        text_ends.append(text_ends[-1] + len(text))
    width = _byte_width(max(text_ends[-1], len(texts)))
    numbers = b"".join(number.to_bytes(width, "little") for number in (len(texts), *text_ends))
    return bytes((1 | (width - 1) << 6,)) + numbers + b"".join(texts)


def _byte_width(number: int) -> int:
    """Return the number of bytes that an unsigned integer needs, at least 1."""
    return max(1, (number.bit_length() + 7) // 8)


def _primitive_head(kind: int) -> bytes:
    """Return the first byte of a value of a primitive type."""
    return bytes((kind << 2,))


def _encode_value(value: Any, keys: dict[str, int]) -> bytes:
    """Encode a value; new keys are added to the dictionary `keys`, which maps keys to ids."""
    name = TYPE_NAME_BY_CLASS[type(value)]
    if value is None:
        return _primitive_head(_NULL)
    if name == "boolean":
        return _primitive_head(_TRUE if value else _FALSE)
    if name in _TYPES_STORED_AS_INTEGERS:
        return _encode_integer(int(value))
    if name == "timestamp":
        if not MIN_TIMESTAMP_MS <= value <= MAX_TIMESTAMP_MS:
            return _encode_integer(int(value))
        return _primitive_head(_TIMESTAMP) + struct.pack("<q", value * 1000)
    if name == "float":
        return _primitive_head(_FLOAT) + struct.pack("<I", value.bits)
    if name == "double":
        return _primitive_head(_DOUBLE) + struct.pack("<d", value)
    if name in _TYPES_STORED_AS_STRINGS:
        return _encode_text(str(value))
    if name == "binary":
        return _primitive_head(_BINARY) + struct.pack("<I", len(value)) + bytes(value)
    if name in DECIMALS:
        return _encode_amqp_decimal(value.to_decimal(), str(value))
    if name == "map":
        return _encode_map(value, keys)
    if name == "described":
        pairs = (("descriptor", value.descriptor), ("value", value.value))
        return _encode_object(pairs, keys)
    return _encode_array(_encode_value(item, keys) for item in value)


def _encode_integer(number: int) -> bytes:
    """Encode an integer in 1, 2, 4 or 8 bytes, or as a decimal of 16 bytes."""
    for i in range(4):
        if -(1 << (8 << i) - 1) <= number < 1 << (8 << i) - 1:
            return _primitive_head(_INT8 + i) + number.to_bytes(1 << i, "little", signed=True)
    return _encode_decimal(number, 0, 2)


def _encode_decimal(number: int, scale: int, size_index: int) -> bytes:
    """Encode a decimal of 4, 8 or 16 bytes (`size_index` 0, 1 or 2)."""
    return (
        _primitive_head(_DECIMAL4 + size_index)
        + bytes((scale,))
        + number.to_bytes(4 << size_index, "little", signed=True)
    )


def _encode_amqp_decimal(number: decimal.Decimal, text: str) -> bytes:
    """Encode a decimal floating-point number; as text if SQL's decimals cannot represent it."""
    sign, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int):
        return _encode_text(text)  # a NaN or an infinity
    unscaled = (
        int("".join(map(str, digits))) * 10 ** max(exponent, 0)
        if exponent <= _DECIMAL_DIGITS[2]
        else 0
    )
    scale = max(-exponent, 0)
    size = max(len(str(unscaled)), scale)
    if size > _DECIMAL_DIGITS[2] or exponent > _DECIMAL_DIGITS[2]:
        return _encode_text(text)
    step = next(i for i, max_digits in enumerate(_DECIMAL_DIGITS) if size <= max_digits)
    return _encode_decimal(-unscaled if sign else unscaled, scale, step)


def _encode_text(text: str) -> bytes:
    """Encode a string."""
    encoded = text.encode()
    if len(encoded) <= _MAX_SHORT_TEXT_BYTES:
        return bytes((len(encoded) << 2 | _SHORT_TEXT,)) + encoded
    return _primitive_head(_TEXT) + struct.pack("<I", len(encoded)) + encoded


def _encode_map(value: Mapping[Any, Any], keys: dict[str, int]) -> bytes:
    """Encode a map as an object if all keys are distinct strings, else as an array of pairs."""
    string_keys = {
        str(key) for key in value if TYPE_NAME_BY_CLASS[type(key)] in {"string", "symbol"}
    }
    if len(string_keys) == len(value):
        return _encode_object(((str(key), item) for key, item in value.items()), keys)
    return _encode_array(
        _encode_array(_encode_value(item, keys) for item in pair) for pair in value.items()
    )


def _encode_array(items: Iterable[bytes]) -> bytes:
    """Encode an array from its encoded values."""
    item_ends = array("Q")
    content = _concatenate(items, item_ends)
    return _encode_compound(content, item_ends, _ARRAY, 0, b"", range(len(item_ends)))


def _encode_object(pairs: Iterable[tuple[str, Any]], keys: dict[str, int]) -> bytes:
    """Encode an object from pairs of key and value."""
    texts: list[str] = []
    item_ends = array("Q")
    content = _concatenate(_encode_members(pairs, texts, keys), item_ends)
    # The format sorts keys by UTF-8 bytes, which is the order of code points.
    order = sorted(range(len(texts)), key=texts.__getitem__)
    ids = [keys[texts[index]] for index in order]
    width = _byte_width(max(ids, default=0))
    encoded_ids = b"".join(number.to_bytes(width, "little") for number in ids)
    return _encode_compound(content, item_ends, _OBJECT, width - 1, encoded_ids, order)


def _encode_members(
    pairs: Iterable[tuple[str, Any]], texts: list[str], keys: dict[str, int]
) -> Iterator[bytes]:
    """Yield the encoded values of an object.

    Its keys are appended to `texts`, and new keys are added to the dictionary `keys`.
    """
    for text, item in pairs:
        keys.setdefault(text, len(keys))
        texts.append(text)
        yield _encode_value(item, keys)


def _concatenate(items: Iterable[bytes], item_ends: array[int]) -> bytearray:
    """Concatenate encoded values, and append their end offsets to `item_ends`.

    `items` is an iterator, so that the values are not all in memory twice.
    """
    content = bytearray()
    for item in items:
        content += item
        item_ends.append(len(content))
    return content


def _encode_compound(
    content: bytearray,
    item_ends: array[int],
    kind: int,
    id_width: int,
    ids: bytes,
    order: Iterable[int],
) -> bytes:
    """Encode an object or array: head, count, key ids, offsets, and values."""
    width = _byte_width(len(content))
    is_large = len(item_ends) > 0xFF
    # The flag for a 4-byte count follows the width fields; an array has a single width field.
    shape = width - 1 | (id_width << 2 | is_large << 4 if kind == _OBJECT else is_large << 2)
    encoded = bytearray((shape << 2 | kind,))
    encoded += len(item_ends).to_bytes(4 if is_large else 1, "little")
    encoded += ids
    for index in order:
        encoded += (item_ends[index - 1] if index else 0).to_bytes(width, "little")
    encoded += len(content).to_bytes(width, "little")
    encoded += content
    return bytes(encoded)
