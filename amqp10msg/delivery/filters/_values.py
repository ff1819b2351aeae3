"""What comparisons and arithmetic make of AMQP values.

A value is a number, text, a truth value, octets, or something that is only equal to its like. There
is no conversion between these. None is unknown.
"""

from __future__ import annotations

import decimal
import math
import operator
import uuid
from collections.abc import Callable
from typing import Any, Final

from amqp10msg.primitives import (
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

__all__ = [
    "BINARY",
    "NUMBER",
    "OPERATORS",
    "TEXT",
    "arithmetic",
    "compare",
    "is_comparable",
    "kind_of",
    "number",
    "same",
    "same_as",
    "settled",
    "types_of",
]

NUMBER, TEXT, BOOLEAN, BINARY, OTHER = "number", "text", "boolean", "binary", "other"
# By the exact type: a look-up is faster than isinstance, and true is no number.
_KINDS: Final[dict[type, str]] = {
    **dict.fromkeys((int, float, decimal.Decimal, Float, Timestamp), NUMBER),
    **dict.fromkeys((UByte, UShort, UInt, ULong, Byte, Short, Int), NUMBER),
    **dict.fromkeys((str, Symbol, Char), TEXT),
    bool: BOOLEAN,
    bytes: BINARY,
}
_TYPES: Final = {
    kind: frozenset(type_ for type_, its in _KINDS.items() if its == kind)
    for kind in (NUMBER, TEXT)
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
    """Tell the kind of a value that is set."""
    kind = _KINDS.get(type(value))
    if kind is not None:
        return kind
    # Subclasses that a user brings along, such as an IntEnum, and values of other types.
    if isinstance(value, (int, float)):
        return NUMBER
    if isinstance(value, str):
        return TEXT
    return BINARY if isinstance(value, (bytearray, memoryview)) else OTHER


def types_of(literal: Any) -> frozenset[type]:
    """Give the types whose values compare with a number or a text by Python's own operators."""
    return _TYPES[kind_of(literal)]


def is_comparable(value: Any) -> bool:
    """Tell a number or a text that Python's own operators compare, by its type."""
    return type(value) in _COMPARABLE


def settled(value: Any, octets: bool) -> Any:
    """Turn a value of a type without a kind of its own into one that has one.

    With `octets` a UUID is its 16 octets, as RabbitMQ has it.
    """
    if isinstance(value, _DECIMALS):
        number = value.to_decimal()
        return math.nan if number.is_nan() else number
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    if octets and isinstance(value, uuid.UUID):
        return value.bytes
    return value


def compare(sign: str, left: Any, right: Any, octets: bool) -> bool | None:
    """Compare two values of whatever types.

    Numbers compare with numbers and text with text, by code points; truth values and values
    without an order are equal or not. Values of different kinds compare as false, and as true
    under ``<>`` with `octets`.

    Args:
        sign: a key of `OPERATORS`.
        left: the one value, None where it is unknown.
        right: the other.
        octets: compare as RabbitMQ does, where text is its UTF-8 octets.
    """
    if left is None or right is None:
        return None
    left, right = settled(left, octets), settled(right, octets)
    first, second = kind_of(left), kind_of(right)
    if octets and first != second and {first, second} == {TEXT, BINARY}:
        left, right = _octets(left), _octets(right)
        first = second = BINARY
    if first != second:
        return octets and sign == "<>"
    if sign not in ("=", "<>") and first not in (NUMBER, TEXT, *([BINARY] if octets else [])):
        return False
    # As in Java, what meets a float becomes one: decimal 0.1 is equal to 0.1.
    if isinstance(left, decimal.Decimal) and isinstance(right, float):
        left = float(left)
    elif isinstance(right, decimal.Decimal) and isinstance(left, float):
        right = float(right)
    try:
        return bool(OPERATORS[sign](left, right))
    except (TypeError, ValueError, ArithmeticError):  # values of a user's own classes
        return False


def _octets(value: Any) -> Any:
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value


def same_as(reference: Any) -> Callable[[Any], bool]:
    """Give what tells whether a value is the `same` as a reference."""
    kind = kind_of(reference)
    if kind not in (NUMBER, TEXT) or isinstance(reference, (Timestamp, decimal.Decimal)):
        return lambda value: same(reference, value)
    like = types_of(reference) - {Timestamp}

    def test(value: Any) -> bool:
        if type(value) in like:
            return bool(value == reference)
        return same(reference, value)

    return test


def same(reference: Any, value: Any) -> bool:
    """Tell whether a message has the value that a filter refers to.

    Numbers of different types are the same where they are equal (filtex 4.1.1); a timestamp is no
    number; text, be it a string or a symbol, is the same by its characters.
    """
    if reference is None or value is None:
        return reference is value
    if isinstance(reference, Timestamp) is not isinstance(value, Timestamp):
        return False
    return compare("=", reference, value, False) is True


def arithmetic(sign: str, left: Any, right: Any, exact: bool) -> Any:
    """Calculate; None where an operand is no number, or the result is none.

    Integers stay exact, however large; with a float among the operands the result is a float.
    With `exact`, dividing integers cuts off the fraction, as Java does; else it gives a float.
    """
    left, right = number(left), number(right)
    if left is None or right is None:
        return None
    try:
        match sign:
            case "+":
                return left + right
            case "-":
                return left - right
            case "*":
                return left * right
            case "/":
                if exact and isinstance(left, int) and isinstance(right, int):
                    quotient = abs(left) // abs(right)
                    return quotient if (left < 0) is (right < 0) else -quotient
                return left / right
        if isinstance(left, int) and isinstance(right, int):
            rest = abs(left) % abs(right)
            return -rest if left < 0 else rest
        return None
    except (ZeroDivisionError, OverflowError):
        return None


def number(value: Any) -> Any:
    """Give a value as an int or a float, or None where it is no number."""
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
