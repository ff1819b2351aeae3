# cython: language_level=3, boundscheck=True, wraparound=False, annotation_typing=False
"""Comparison and arithmetic of AMQP values.

A value is a number, a text, a boolean, a binary, or of another kind that is only tested for
equality. Values are not converted from one kind to another. None is unknown.

Runs as it is, and compiled with the C types of `_values.pxd`.
"""

from __future__ import annotations

import decimal
import math
import operator
import uuid
from collections.abc import Callable
from typing import Any, Final

from amqp10msg.delivery.filters._base import EvaluationError
from amqp10msg.wire.primitives import (
    Byte,
    Char,
    Decimal32,
    Decimal64,
    Decimal128,
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

NUMBER, TEXT, BOOLEAN, BINARY, OTHER = "number", "text", "boolean", "binary", "other"
# Types whose values Python's own operators compare within their kind.
_TYPES: Final = {
    NUMBER: frozenset({int, float, Float, Timestamp, UByte, UShort, UInt, ULong, Byte, Short, Int}),
    TEXT: frozenset({str, Symbol, Char}),
}
_COMPARABLE: Final = _TYPES[NUMBER] | _TYPES[TEXT]
_DECIMALS: Final = (Decimal32, Decimal64, Decimal128)

OPERATORS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def kind_of(value: Any) -> str:
    """Return the kind of a value other than None."""
    if isinstance(value, bool):
        return BOOLEAN
    if isinstance(value, (int, float, decimal.Decimal)):
        return NUMBER
    if isinstance(value, str):
        return TEXT
    return BINARY if isinstance(value, (bytes, bytearray, memoryview)) else OTHER


def types_of(literal: Any) -> frozenset[type]:
    """Return the types that Python's own operators compare with a number or a text."""
    return _TYPES[kind_of(literal)]


def is_comparable(value: Any) -> bool:
    """Return whether a value is of a type that Python's own operators compare."""
    return type(value) in _COMPARABLE


def settled(value: Any, octets: bool) -> Any:
    """Convert a decimal, a buffer and, with `octets`, a UUID to a type with a kind."""
    if isinstance(value, _DECIMALS):
        number = value.to_decimal()
        return math.nan if number.is_nan() else number
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    return value.bytes if octets and isinstance(value, uuid.UUID) else value


def compare(sign: str, left: Any, right: Any, octets: bool) -> bool | None:
    """Compare two values of any types.

    Numbers compare with numbers and text with text, by code points; booleans and values without an
    order are equal or not. Values of different kinds compare as false, and with `octets` as true
    under ``<>``.

    Args:
        sign: a key of `OPERATORS`.
        left: the left operand, None if it is unknown.
        right: the right operand.
        octets: compare as RabbitMQ does, where text is its UTF-8 encoding.
    """
    if left is None or right is None:
        return None
    left, right = settled(left, octets), settled(right, octets)
    first, second = kind_of(left), kind_of(right)
    if octets and first != second and {first, second} == {TEXT, BINARY}:
        left, right = _encoded(left), _encoded(right)
        first = second = BINARY
    if first != second:
        return octets and sign == "<>"
    if sign not in ("=", "<>") and first not in (NUMBER, TEXT) and not (octets and first == BINARY):
        return False
    # As in Java, a decimal beside a float is rounded to a float: decimal 0.1 is equal to 0.1.
    if isinstance(left, decimal.Decimal) and isinstance(right, float):
        left = _rounded(left)
    elif isinstance(right, decimal.Decimal) and isinstance(left, float):
        right = _rounded(right)
    try:
        return bool(OPERATORS[sign](left, right))
    except (TypeError, ValueError, ArithmeticError):  # values of a user's own classes
        return False


def _rounded(value: decimal.Decimal) -> decimal.Decimal | float:
    """Return a decimal as a float, unless it is out of a float's range."""
    rounded = float(value)
    out_of_range = value.is_finite() and (math.isinf(rounded) or (rounded == 0) is not (value == 0))
    return value if out_of_range else rounded


def _encoded(value: Any) -> Any:
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value


def same_as(reference: Any) -> Callable[[Any], bool]:
    """Return a function that tests whether a value is the `same` as a reference."""
    if type(reference) not in _COMPARABLE or isinstance(reference, Timestamp):
        return lambda value: same(reference, value)
    like = types_of(reference) - {Timestamp}

    def test(value: Any) -> bool:
        if type(value) in like:
            return bool(value == reference)
        return same(reference, value)

    return test


def same(reference: Any, value: Any) -> bool:
    """Return whether a message's value is the one that a filter refers to.

    Numbers of different types are the same if they are equal (filtex 4.1.1); a timestamp is the
    same as a timestamp alone; strings and symbols are the same if they have the same characters.
    """
    if reference is None or value is None:
        return reference is value
    if isinstance(reference, Timestamp) is not isinstance(value, Timestamp):
        return False
    return compare("=", reference, value, False) is True


def arithmetic(sign: str, left: Any, right: Any, exact: bool, finite: bool = False) -> Any:
    """Calculate; None if an operand or the result is not a number.

    Integers stay exact, however large; with a float among the operands the result is a float.
    With `exact`, the quotient of integers is truncated, as in Java; otherwise it is a float.

    Raises:
        EvaluationError: with `finite`, the result is too large for a float.
    """
    left, right = number(left), number(right)
    if left is None or right is None:
        return None
    try:
        result = _calculated(sign, left, right, exact)
    except ZeroDivisionError:
        return None
    except OverflowError:
        result = math.inf if finite else None
    if finite and isinstance(result, float) and not math.isfinite(result):
        raise EvaluationError(
            "the result is too large for a double: RabbitMQ 4.3 ends the session of the link here"
        )
    return result


def _calculated(sign: str, left: Any, right: Any, exact: bool) -> Any:
    whole = isinstance(left, int) and isinstance(right, int)
    match sign:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "/":
            if not (exact and whole):
                return left / right
            quotient = abs(left) // abs(right)
            return quotient if (left < 0) is (right < 0) else -quotient
    if not whole:
        return None
    rest = abs(left) % abs(right)
    return -rest if left < 0 else rest


def number(value: Any) -> Any:
    """Return a value as an int or a float, None if it is not a number."""
    if value is None or type(value) is int or type(value) is float:
        return value
    value = settled(value, False)
    if kind_of(value) != NUMBER:
        return None
    # An exponent bounds what int() writes out.
    if isinstance(value, decimal.Decimal) and -40 < value.adjusted() < 40:
        whole = value.is_finite() and value == int(value)
        return int(value) if whole else float(value)
    return int(value) if isinstance(value, int) else float(value)
