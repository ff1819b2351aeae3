# cython: language_level=3, boundscheck=True, wraparound=False, annotation_typing=False
"""What Python values are written as where that is a choice, and the errors where there is none."""

from __future__ import annotations

import datetime
from typing import Any

from amqp10msg.wire.errors import EncodeError
from amqp10msg.wire.kernel.codes import (
    KIND_ARRAY,
    KIND_BINARY,
    KIND_BOOLEAN,
    KIND_CHAR,
    KIND_DECIMAL32,
    KIND_DECIMAL64,
    KIND_DECIMAL128,
    KIND_DOUBLE,
    KIND_FLOAT,
    KIND_INT,
    KIND_LIST,
    KIND_LONG,
    KIND_MAP,
    KIND_NULL,
    KIND_STRING,
    KIND_SYMBOL,
    KIND_UINT,
    KIND_ULONG,
    KIND_UUID,
    KINDS,
    WIDE_CODES,
)
from amqp10msg.wire.primitives import (
    Decimal32,
    Decimal64,
    Decimal128,
    Timestamp,
)

# The constructors of arrays: where every element has one width, and where the length varies.
_WIDE = {kind: code for kind, code in enumerate(WIDE_CODES) if code} | {
    KIND_FLOAT: 0x72,
    KIND_DOUBLE: 0x82,
    KIND_DECIMAL32: 0x74,
    KIND_DECIMAL64: 0x84,
    KIND_DECIMAL128: 0x94,
    KIND_CHAR: 0x73,
    KIND_UUID: 0x98,
}
_SMALL_CODES = {KIND_UINT: 0x52, KIND_ULONG: 0x53, KIND_INT: 0x54, KIND_LONG: 0x55}
_SHORT_CODES = {
    KIND_BINARY: 0xA0,
    KIND_STRING: 0xA1,
    KIND_SYMBOL: 0xA3,
    KIND_LIST: 0xC0,
    KIND_MAP: 0xC1,
    KIND_ARRAY: 0xE0,
}


def shared_code(kind: int, elements: Any) -> int:
    """Choose the smallest constructor, of one byte or more, that fits all encoded elements.

    Not one of no octets, though they exist: brokers refuse such arrays, whose count costs nothing.
    """
    if kind == KIND_NULL:
        return 0x40
    if kind == KIND_BOOLEAN:
        return 0x56
    if kind in _SHORT_CODES:
        short = _SHORT_CODES[kind]
        return short + 0x10 if any(e[0] == short + 0x10 for e in elements) else short
    wide = _WIDE[kind]
    if kind in _SMALL_CODES and elements and all(e[0] != wide for e in elements):
        return _SMALL_CODES[kind]
    return wide


def base_of(value: Any) -> type:
    """Return which known class a value's class derives from."""
    return next(base for base in type(value).__mro__ if base in KINDS)


def hint(kind: int, value: Any) -> str:
    """Return what a text may add that says that a value is of another type."""
    if kind == KIND_LONG and isinstance(value, int) and 0 <= value < 2**64:
        return ": a plain int is a long; use ULong"
    if isinstance(value, datetime.timedelta):
        return ": give a number of milliseconds, value // timedelta(milliseconds=1)"
    if kind == KIND_BINARY and isinstance(value, str):
        return ": encode it, value.encode()"
    return ""


def timestamp_of(moment: Any) -> int:
    """Return the milliseconds of a datetime."""
    try:
        return Timestamp.from_datetime(moment)
    except ValueError as error:
        raise EncodeError(str(error)) from None


def smallest_decimal(number: Any) -> Any:
    """Return the decimal of the fewest bits that holds a number exactly."""
    for kind in (Decimal32, Decimal64):
        try:
            return kind.from_decimal(number)
        except ValueError:
            pass
    try:
        return Decimal128.from_decimal(number)
    except ValueError as error:
        raise EncodeError(str(error)) from None


def encode_fault(error: BaseException) -> EncodeError:
    """Turn what a codec or the interpreter raised while writing into an EncodeError."""
    if isinstance(error, UnicodeEncodeError):
        return EncodeError(f"{error.object!r} is not valid text: {error.reason}")
    return EncodeError("values are nested too deeply, or contain themselves")
