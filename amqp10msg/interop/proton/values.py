"""Values as proton has them, and back, by their exact type: so proton chooses the encoding, too."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import proton

from amqp10msg.wire.errors import EncodeError
from amqp10msg.wire.primitives import (
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


def _same(value: Any) -> Any:
    return value


#: What is the same class here and there.
SAME: dict[type, Callable[[Any], Any]] = dict.fromkeys(
    (type(None), bool, int, float, bytes, str, uuid.UUID), _same
)
#: By the class here, that of proton.
CLASSES: dict[type, Any] = {
    UByte: proton.ubyte,
    UShort: proton.ushort,
    UInt: proton.uint,
    ULong: proton.ulong,
    Byte: proton.byte,
    Short: proton.short,
    Int: proton.int32,
    Float: proton.float32,
    Char: proton.char,
    Timestamp: proton.timestamp,
    Symbol: proton.symbol,
}
_TO_PROTON: dict[type, Callable[[Any], Any]] = {
    **SAME,
    **CLASSES,
    Decimal32: lambda value: proton.decimal32(value.bits),
    Decimal64: lambda value: proton.decimal64(value.bits),
    Decimal128: lambda value: proton.decimal128(value.bits.to_bytes(16, "big")),
}
_FROM_PROTON: dict[type, Callable[[Any], Any]] = {
    **SAME,
    **{theirs: ours for ours, theirs in CLASSES.items()},
    # Views of memory that the proton.Message frees or overwrites: copy them while they are valid.
    bytearray: bytes,
    memoryview: bytes,
    proton.decimal32: Decimal32,
    proton.decimal64: Decimal64,
    proton.decimal128: lambda value: Decimal128(int.from_bytes(value, "big")),
}
_ARRAY_TYPES = {
    code: "boolean" if code == proton.Data.BOOL else name
    for code, name in proton.Data.type_names.items()
    if code != proton.Data.DESCRIBED
}
_ARRAY_CODES = {name: code for code, name in _ARRAY_TYPES.items()}


def to_value(value: Any) -> Any:
    """Return a value as proton takes it.

    Raises:
        EncodeError: proton has no such array, or no such key of a map.
    """
    convert = _TO_PROTON.get(type(value))
    if convert is not None:
        return convert(value)
    if isinstance(value, list):
        return [to_value(item) for item in value]
    if isinstance(value, dict):
        return {_to_key(key): to_value(item) for key, item in value.items()}
    if isinstance(value, AmqpMap):
        return {_to_key(key): to_value(item) for key, item in value.pairs}
    if isinstance(value, Array):
        if len(value.descriptors) > 1:
            raise EncodeError("an array of proton has at most one descriptor")
        descriptor: Any = proton.UNDESCRIBED
        if value.descriptors:
            descriptor = to_value(value.descriptors[0])
        return proton.Array(descriptor, _ARRAY_CODES[value.type], *map(to_value, value.values))
    return proton.Described(to_value(value.descriptor), to_value(value.value))


def _to_key(key: Any) -> Any:
    made = to_value(key)
    try:
        hash(made)
    except TypeError:
        raise EncodeError(
            f"proton holds maps as dicts, and {key!r} cannot be the key of a dict"
        ) from None
    return made


def from_value(value: Any) -> Any:
    """Return a value of proton with its exact AMQP type, copied where proton reuses its memory.

    Raises:
        EncodeError: proton does not encode it.
    """
    convert = _FROM_PROTON.get(type(value))
    if convert is not None:
        try:
            return convert(value)
        except (ValueError, OverflowError) as error:
            raise EncodeError(str(error)) from None
    if isinstance(value, (list, tuple)):
        return [from_value(item) for item in value]
    if isinstance(value, dict):
        pairs = [(from_value(key), from_value(item)) for key, item in value.items()]
        made = dict(pairs)
        return made if len(made) == len(pairs) else AmqpMap(pairs)
    if isinstance(value, proton.Array):
        if value.type not in _ARRAY_TYPES:
            raise EncodeError(
                f"{value!r} is an array without an AMQP type; for an array of described values, "
                "pass proton.Array the descriptor and the type of the values that are described"
            )
        descriptor: Any = value.descriptor
        return Array(
            _ARRAY_TYPES[value.type],
            map(from_value, value.elements),
            descriptors=[] if descriptor is proton.UNDESCRIBED else [from_value(descriptor)],
        )
    if isinstance(value, proton.Described):
        return Described(from_value(value.descriptor), from_value(value.value))
    raise EncodeError(
        f"proton does not encode {type(value).__name__}: use str, bytes, int, float, bool, "
        "uuid.UUID, list, dict or one of proton's own classes"
    )


def from_property(value: Any) -> Any:
    """Return a value of application properties, as `from_value`."""
    # Proton encodes subclasses of str as plain strings here.
    if isinstance(value, str) and type(value) not in _FROM_PROTON:
        return str(value)
    return from_value(value)
