# cython: language_level=3, boundscheck=True, wraparound=False, annotation_typing=False
"""Compiled expressions: a tree of evaluators, and the comparison and arithmetic of AMQP values.

A value is of the kind number, text, boolean, binary or other. Values of the kind other are only
compared for equality. Values are never converted to another kind. None means unknown. Conditions
follow SQL's three-valued logic: True, False, or None for unknown; an operand of a condition that is
not a boolean counts as unknown.

The module runs as Python, or compiled with the C types of `_evaluators.pxd`.
"""

from __future__ import annotations

import decimal
import math
import operator
import uuid
from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from amqp10msg.delivery.filters._base import EvaluationError, not_a_message_error
from amqp10msg.message import Message
from amqp10msg.sections import to_milliseconds
from amqp10msg.wire.kernel import COMPILED
from amqp10msg.wire.primitives import DECIMALS, INTEGERS, Char, Float, Symbol, Timestamp

NUMBER, TEXT, BOOLEAN, BINARY, OTHER = "number", "text", "boolean", "binary", "other"
# For each kind, the types of values for the fast path. Two values of these types and of the same
# kind need not be compared with `compare`, because Python's operators compare them correctly. See
# `compares_as_java` for the exception in JMS.
_FAST_TYPES_BY_KIND: Final = {
    NUMBER: frozenset({int, float, Float, *INTEGERS.values()}),
    TEXT: frozenset({str, Symbol, Char}),
}
_ALL_FAST_TYPES: Final = _FAST_TYPES_BY_KIND[NUMBER] | _FAST_TYPES_BY_KIND[TEXT]
_DECIMAL_CLASSES: Final = tuple(DECIMALS.values())

COMPARISON_OPERATORS: Final[dict[str, Callable[[Any, Any], Any]]] = {
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


def fast_types_of(literal: Any) -> frozenset[type]:
    """Return the types of values for which Python's operators replace `compare` with a literal.

    If a value has one of these types, a Python operator with the literal returns the same result as
    `compare`.
    """
    return _FAST_TYPES_BY_KIND[kind_of(literal)]


def is_fast_type(value: Any) -> bool:
    """Whether the type of a value is in `_FAST_TYPES_BY_KIND`."""
    return type(value) in _ALL_FAST_TYPES


def normalized(value: Any, as_rabbitmq: bool) -> Any:
    """Convert a value to a type that Python's operators compare.

    A decimal becomes a Python number, a buffer becomes bytes and, if `as_rabbitmq`, a UUID becomes
    its bytes. Other values are returned unchanged.
    """
    if isinstance(value, _DECIMAL_CLASSES):
        number = value.to_decimal()
        return math.nan if number.is_nan() else number
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    return value.bytes if as_rabbitmq and isinstance(value, uuid.UUID) else value


def compares_as_java(literal: Any) -> bool:
    """Whether Python's operators compare any value with `literal` in the same way as Java.

    Java converts an integer compared with a float or double to that type, which rounds integers
    above 2**24 (float) or 2**53 (double). Python compares without rounding.
    """
    if isinstance(literal, str):
        return True
    return bool(abs(literal) < (2**53 if isinstance(literal, float) else 2**24))


def _promote_numbers(left: Any, right: Any) -> tuple[Any, Any]:
    """Convert two numbers by Java's binary numeric promotion (JLS, 5.6)."""
    if isinstance(left, float) and isinstance(right, int):
        return left, Float(right) if type(left) is Float else float(right)
    if isinstance(right, float) and isinstance(left, int):
        return Float(left) if type(right) is Float else float(left), right
    return left, right


def compare(
    sign: str, left: Any, right: Any, as_rabbitmq: bool, promotes: bool = True
) -> bool | None:
    """Compare two values of any types; return None if either is unknown.

    Numbers compare with numbers, and text with text, by code points. Booleans and values without an
    order can only be equal or not. A comparison of different kinds is false.

    If `as_rabbitmq`, compare like RabbitMQ: ``<>`` of different kinds is true, text equals a binary
    with its UTF-8 encoding, and an integer compares with a float without rounding. Otherwise, if
    `promotes`, the integer is rounded like in Java.
    """
    if left is None or right is None:
        return None
    left, right = normalized(left, as_rabbitmq), normalized(right, as_rabbitmq)
    first, second = kind_of(left), kind_of(right)
    if as_rabbitmq and first != second and {first, second} == {TEXT, BINARY}:
        left, right = _encode_text(left), _encode_text(right)
        first = second = BINARY
    if first != second:
        return as_rabbitmq and sign == "<>"
    if (
        sign not in ("=", "<>")
        and first not in (NUMBER, TEXT)
        and not (as_rabbitmq and first == BINARY)
    ):
        return False
    # A decimal compared with a float is rounded to a float, like in Java: decimal 0.1 equals 0.1.
    if isinstance(left, decimal.Decimal) and isinstance(right, float):
        left = _decimal_to_float(left)
    elif isinstance(right, decimal.Decimal) and isinstance(left, float):
        right = _decimal_to_float(right)
    try:
        if promotes and not as_rabbitmq and first == NUMBER:
            left, right = _promote_numbers(left, right)
        return bool(COMPARISON_OPERATORS[sign](left, right))
    except (
        TypeError,
        ValueError,
        ArithmeticError,
    ):  # raised by comparisons of user-defined classes
        return False


def _decimal_to_float(value: decimal.Decimal) -> decimal.Decimal | float:
    """Convert a decimal to a float; return it unchanged if it is out of a float's range."""
    rounded = float(value)
    out_of_range = value.is_finite() and (math.isinf(rounded) or (rounded == 0) is not (value == 0))
    return value if out_of_range else rounded


def _encode_text(value: Any) -> Any:
    """Encode text as UTF-8; return other values unchanged."""
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value


def reference_test(reference: Any) -> Callable[[Any], bool]:
    """Return a function that tests whether its argument matches a reference value of a filter."""
    if type(reference) not in _ALL_FAST_TYPES or isinstance(reference, Timestamp):
        return lambda value: matches_reference(reference, value)
    fast_types = fast_types_of(reference) - {Timestamp}

    def test(value: Any) -> bool:
        if type(value) in fast_types:
            return bool(value == reference)
        return matches_reference(reference, value)

    return test


def matches_reference(reference: Any, value: Any) -> bool:
    """Whether a message's value matches the reference value of a filter.

    Numbers of different types match if they are equal (filtex 4.1.1); a timestamp only matches a
    timestamp; a string and a symbol match if they have the same characters.
    """
    if reference is None or value is None:
        return reference is value
    if isinstance(reference, Timestamp) is not isinstance(value, Timestamp):
        return False
    return compare("=", reference, value, False, False) is True


def arithmetic(
    sign: str, left: Any, right: Any, truncates: bool, raises_overflow: bool = False
) -> Any:
    """Apply an arithmetic operator; return None if an operand or the result is not a number.

    Results of integers are exact, however large; if an operand is a float, so is the result. The
    quotient of integers is truncated like in Java if `truncates`, otherwise it is a float.

    Raises:
        EvaluationError: the result is too large for a float, and `raises_overflow` is True.
    """
    left, right = to_number(left), to_number(right)
    if left is None or right is None:
        return None
    try:
        result = _calculate(sign, left, right, truncates)
    except ZeroDivisionError:
        return None
    except OverflowError:
        result = math.inf if raises_overflow else None
    if raises_overflow and isinstance(result, float) and not math.isfinite(result):
        raise EvaluationError(
            "the result is too large for a double: RabbitMQ 4.3 ends the session of the link here"
        )
    return result


def _calculate(sign: str, left: Any, right: Any, truncates: bool) -> Any:
    """Apply an arithmetic operator to two ints or floats; return None for a remainder of floats."""
    whole = isinstance(left, int) and isinstance(right, int)
    match sign:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "/":
            if not (truncates and whole):
                return left / right
            quotient = abs(left) // abs(right)
            return quotient if (left < 0) is (right < 0) else -quotient
    if not whole:
        return None
    remainder = abs(left) % abs(right)
    return -remainder if left < 0 else remainder


def to_number(value: Any) -> Any:
    """Convert a value to an int or float; return None if it is not a number."""
    if value is None or type(value) is int or type(value) is float:
        return value
    value = normalized(value, False)
    if kind_of(value) != NUMBER:
        return None
    # int() of a decimal with a large exponent would create a huge number.
    if isinstance(value, decimal.Decimal) and -40 < value.adjusted() < 40:
        whole = value.is_finite() and value == int(value)
        return int(value) if whole else float(value)
    return int(value) if isinstance(value, int) else float(value)


_Message = Message


class Evaluator:
    """Base class of the nodes of a compiled expression, which is a tree."""

    def value(self, message: Any, now: Any) -> Any:
        """Return the value of this part of the expression for a message; None if it is unknown.

        `now` is in ms since the Unix epoch, or None.
        """
        raise NotImplementedError


class Constant(Evaluator):
    """A literal: always the same value."""

    def __init__(self, constant: Any) -> None:
        self.constant = constant

    def value(self, message: Any, now: Any) -> Any:  # noqa: ARG002  (one signature for all)
        return self.constant


#: The evaluator of an empty expression, which every message passes.
ALWAYS_TRUE = Constant(True)

# Evaluators of names, which read values from a message.


class MapEntry(Evaluator):
    """Reads an entry of a map section, such as an application property."""

    def __init__(self, section: str, key: str) -> None:
        self.section = section
        self.key = key

    def value(self, message: Any, now: Any) -> Any:  # noqa: ARG002  (one signature for all)
        entries = getattr(message, self.section)
        return None if entries is None else entries.get(self.key)


class HeaderField(Evaluator):
    """Reads a field of the header; without a header, its default (Part 3, 3.2.1)."""

    def __init__(self, name: str, default: Any) -> None:
        self.name = name
        self.default = default

    def value(self, message: Any, now: Any) -> Any:  # noqa: ARG002  (one signature for all)
        header = message.header
        return self.default if header is None else getattr(header, self.name)


class PropertyField(Evaluator):
    """Reads a field of the properties section; the value is `default` if the field is unset.

    A timestamp is read as an int, in ms since the Unix epoch.
    """

    def __init__(self, name: str, is_time: bool, default: Any = None) -> None:
        self.name = name
        self.is_time = is_time
        self.default = default

    def value(self, message: Any, now: Any) -> Any:  # noqa: ARG002  (one signature for all)
        properties = message.properties
        value = None if properties is None else getattr(properties, self.name)
        if value is None:
            return self.default
        return to_milliseconds(value) if self.is_time else value


class Converted(Evaluator):
    """Converts the operand's value by a function, unless the value is None."""

    def __init__(self, operand: Evaluator, change: Callable[[Any], Any]) -> None:
        self.operand = operand
        self.change = change

    def value(self, message: Any, now: Any) -> Any:
        value = self.operand.value(message, now)
        return None if value is None else self.change(value)


# Comparisons.


class PropertyEquals(Evaluator):
    """The most common condition: ``name = literal`` for an application property."""

    def __init__(self, key: str, literal: Any, as_rabbitmq: bool) -> None:
        self.key = key
        self.literal = literal
        self.as_rabbitmq = as_rabbitmq
        self.fast_types = (
            fast_types_of(literal) if as_rabbitmq or compares_as_java(literal) else frozenset()
        )

    def value(self, message: Any, now: Any) -> Any:  # noqa: ARG002  (one signature for all)
        entries = message.application_properties
        value = None if entries is None else entries.get(self.key)
        if type(value) in self.fast_types:
            return value == self.literal
        return compare("=", value, self.literal, self.as_rabbitmq)


class PropertiesEqual(Evaluator):
    """Several `PropertyEquals` conditions, joined by ``AND``. Reads the section only once."""

    def __init__(self, tests: Sequence[PropertyEquals]) -> None:
        self.as_rabbitmq = tests[0].as_rabbitmq
        self.rows = [(test.key, test.fast_types, test.literal) for test in tests]

    def value(self, message: Any, now: Any) -> Any:  # noqa: ARG002  (one signature for all)
        entries = message.application_properties
        result: bool | None = True
        for key, fast_types, literal in self.rows:
            value = None if entries is None else entries.get(key)
            if type(value) in fast_types:
                if value != literal:
                    return False
                continue
            same = compare("=", value, literal, self.as_rabbitmq)
            if same is False:
                return False
            if same is not True:
                result = None
        return result


class LiteralComparison(Evaluator):
    """Compares a value with a literal that is a number or text."""

    def __init__(self, sign: str, operand: Evaluator, literal: Any, as_rabbitmq: bool) -> None:
        self.sign = sign
        self.operand = operand
        self.literal = literal
        self.as_rabbitmq = as_rabbitmq
        self.test = COMPARISON_OPERATORS[sign]
        self.fast_types = (
            fast_types_of(literal) if as_rabbitmq or compares_as_java(literal) else frozenset()
        )

    def value(self, message: Any, now: Any) -> Any:
        value = self.operand.value(message, now)
        if type(value) in self.fast_types:
            return self.test(value, self.literal)
        return compare(self.sign, value, self.literal, self.as_rabbitmq)


class Comparison(Evaluator):
    """Compares two values."""

    def __init__(self, sign: str, left: Evaluator, right: Evaluator, as_rabbitmq: bool) -> None:
        self.sign = sign
        self.left = left
        self.right = right
        self.as_rabbitmq = as_rabbitmq

    def value(self, message: Any, now: Any) -> Any:
        value = self.left.value(message, now)
        return compare(self.sign, value, self.right.value(message, now), self.as_rabbitmq)


class InList(Evaluator):
    """``IN``: true if an item is equal, else false; unknown if the operand is unknown.

    In JMS, ``NOT IN`` equals ``<>`` applied to every item: false if an item is of another kind.

    Args:
        operand: the value to look for in the list.
        items: all items of the list.
        simple_values: the values of the items that are literals and do not need `compare`.
        complex_items: the items that are not in `simple_values`.
        kinds: in JMS, the kinds of the literals; empty in other languages.
        negated: whether the operator is ``NOT IN``.
        as_rabbitmq: see `compare`.
    """

    def __init__(
        self,
        operand: Evaluator,
        items: Sequence[Evaluator],
        simple_values: Iterable[Any],
        complex_items: Sequence[Evaluator],
        kinds: set[str],
        negated: bool,
        as_rabbitmq: bool,
    ) -> None:
        self.operand = operand
        self.simple_values = frozenset(simple_values)
        self.complex_items = list(complex_items)
        self.items = list(items)
        self.kinds = kinds
        self.negated = negated
        self.as_rabbitmq = as_rabbitmq

    def value(self, message: Any, now: Any) -> Any:
        value = self.operand.value(message, now)
        if value is None:
            return None
        items_to_compare = self.items
        if is_fast_type(value):
            if value in self.simple_values:
                return not self.negated
            items_to_compare = self.complex_items
        for item in items_to_compare:
            if compare("=", value, item.value(message, now), self.as_rabbitmq):
                return not self.negated
        if not self.negated:
            return False
        return not self.kinds or self.kinds == {kind_of(normalized(value, self.as_rabbitmq))}


class Like(Evaluator):
    """``LIKE`` on a text. If `as_rabbitmq`, also on a binary, decoded as UTF-8."""

    def __init__(
        self,
        operand: Evaluator,
        match: Callable[[str], bool | None],
        negated: bool,
        as_rabbitmq: bool,
        errors: str,
    ) -> None:
        self.operand = operand
        self.match = match
        self.negated = negated
        self.as_rabbitmq = as_rabbitmq
        self.errors = errors

    def value(self, message: Any, now: Any) -> Any:
        text = self.operand.value(message, now)
        if not isinstance(text, str):
            if not (self.as_rabbitmq and isinstance(text, bytes)):
                return None
            try:
                text = text.decode(errors=self.errors)
            except UnicodeDecodeError:
                return None
        matched = self.match(text)
        return None if matched is None else matched is not self.negated


class IsNull(Evaluator):
    """``IS NULL``, or ``IS NOT NULL`` if negated."""

    def __init__(self, operand: Evaluator, negated: bool) -> None:
        self.operand = operand
        self.negated = negated

    def value(self, message: Any, now: Any) -> Any:
        return (self.operand.value(message, now) is None) != self.negated


# Conditions.


class AndOr(Evaluator):
    """Conditions joined by ``AND`` (`decisive` is False) or ``OR`` (`decisive` is True)."""

    def __init__(self, parts: Sequence[Evaluator], decisive: bool) -> None:
        self.parts = list(parts)
        self.decisive = decisive
        self.neutral = not decisive

    def value(self, message: Any, now: Any) -> Any:
        combined: bool | None = self.neutral
        for part in self.parts:
            value = part.value(message, now)
            if value is self.decisive:
                return value
            if value is not self.neutral:
                combined = None
        return combined


class Not(Evaluator):
    """A condition after one or more ``NOT``. `negated` is True if their number is odd."""

    def __init__(self, operand: Evaluator, negated: bool) -> None:
        self.operand = operand
        self.negated = negated

    def value(self, message: Any, now: Any) -> Any:
        value = self.operand.value(message, now)
        return value is not self.negated if isinstance(value, bool) else None


# Calculation.


class Signed(Evaluator):
    """A number after a sign, ``+`` or ``-``."""

    def __init__(self, operand: Evaluator, minus: bool) -> None:
        self.operand = operand
        self.minus = minus

    def value(self, message: Any, now: Any) -> Any:
        value = to_number(self.operand.value(message, now))
        return -value if self.minus and value is not None else value


class Calculation(Evaluator):
    """Operators of the same precedence, applied from left to right.

    Args:
        first: the leftmost operand.
        operations: pairs of an operator and its right operand.
        truncates: whether to truncate the quotient of integers, like Java.
        concatenate: whether ``+`` joins texts.
        raises_overflow: whether to raise `EvaluationError` if a result is too large for a float.
    """

    def __init__(
        self,
        first: Evaluator,
        operations: Sequence[tuple[str, Evaluator]],
        truncates: bool,
        concatenate: bool,
        raises_overflow: bool,
    ) -> None:
        self.first = first
        self.operations = list(operations)
        self.truncates = truncates
        self.concatenate = concatenate
        self.raises_overflow = raises_overflow

    def value(self, message: Any, now: Any) -> Any:
        result = self.first.value(message, now)
        for sign, operand in self.operations:
            right = operand.value(message, now)
            if (
                self.concatenate
                and sign == "+"
                and isinstance(result, str)
                and isinstance(right, str)
            ):
                result = str(result) + str(right)
            else:
                result = arithmetic(sign, result, right, self.truncates, self.raises_overflow)
        return result


class StepCounter:
    """Limits and counts the steps of ``LIKE`` and functions in an expression.

    Attributes:
        max_text_length: the maximum length in characters of a text for ``LIKE`` or a function.
        steps: an upper bound of the steps used so far, on all messages; see `FilterLimits.steps`.
    """

    def __init__(self) -> None:
        self.max_text_length = 0
        self.steps = 0


class LengthLimited(Evaluator):
    """An operand of ``LIKE`` or a function. Raises EvaluationError for a text that is too long.

    Each character of the text counts as `weight` steps.
    """

    def __init__(self, operand: Evaluator, weight: int, work: StepCounter) -> None:
        self.operand = operand
        self.weight = weight
        self.work = work

    def value(self, message: Any, now: Any) -> Any:
        value = self.operand.value(message, now)
        if isinstance(value, (str, bytes)):
            if len(value) > self.work.max_text_length:
                raise EvaluationError(
                    f"a text of {len(value):,} characters is too long for this expression, which "
                    f"may take at most {self.work.max_text_length:,}: raise FilterLimits.steps"
                )
            self.work.steps += len(value) * self.weight
        return value


class CurrentTime(Evaluator):
    """The function ``UTC()``: the current time, which the caller passes as `now`."""

    def value(self, message: Any, now: Any) -> Any:  # noqa: ARG002  (one signature for all)
        if now is None:
            raise EvaluationError("UTC() needs the time: pass now, in ms since the Unix epoch")
        return now


class TextFunction(Evaluator):
    """Calls a function with a text and with counts of characters; unknown for other arguments.

    A count is an integer from 0.
    """

    def __init__(
        self, function: Callable[..., Any], text: Evaluator, counts: Sequence[Evaluator]
    ) -> None:
        self.function = function
        self.text = text
        self.counts = list(counts)

    def value(self, message: Any, now: Any) -> Any:
        text = self.text.value(message, now)
        sizes = [to_number(count.value(message, now)) for count in self.counts]
        for size in sizes:
            if not isinstance(size, int) or size < 0:
                return None
        return self.function(str(text), *sizes) if isinstance(text, str) else None


# Functions that the filter classes use.


def value_of(evaluator: Evaluator, message: Any, now: int | None) -> Any:
    """Return the value of an evaluator for a message, or None if it is unknown."""
    return evaluator.value(message, now)


def matches(
    self: Any,
    message: Message,
    *,
    now: int | None = None,
    local: bool | None = None,  # noqa: ARG001  (one signature for all)
) -> bool:
    """Whether a message passes the filter `self`.

    Filters by expressions have this faster function instead of `Filter.matches`.
    """
    if type(message) is not _Message and not isinstance(message, Message):
        raise not_a_message_error(message)
    evaluator = self._evaluate
    return evaluator.value(message, now) is True


# Search for text with wildcards by the Shift-And algorithm (Baeza-Yates and Gonnet, 1992). Bit i of
# the state is set if the last i + 1 characters match the first i + 1 elements of the pattern, so
# each character costs a few operations per word of the state. In C a word has 64 bits; in Python
# one integer holds the whole state.

#: Number of bits of the state in one integer.
STATE_BITS_PER_INTEGER: Final = 64 if COMPILED else 1 << 20


class ShiftAnd:
    """Searches for a pattern of one or more elements: characters, or None for any character."""

    def __init__(self, pattern: Sequence[str | None], width: int = STATE_BITS_PER_INTEGER) -> None:
        self.size = size = len(pattern)
        self.width = width = min(width, size)
        self.words = words = -(-size // width)
        self.last = 1 << (size - 1) % width
        # `rows` contains bit masks of `words` integers each: first the bit mask for all characters
        # that are not in the pattern, then one for each different character of the pattern.
        numbers: dict[str, int] = {}
        for char in pattern:
            if char is not None:
                numbers.setdefault(char, len(numbers) + 1)
        rows: Any = [0] * ((len(numbers) + 1) * words)
        for index, char in enumerate(pattern):
            bit = 1 << index % width
            if char is not None:
                rows[numbers[char] * words + index // width] |= bit
                continue
            for number in range(len(numbers) + 1):
                rows[number * words + index // width] |= bit
        self.rows = array("Q", rows) if width <= 64 else rows
        self.ascii_rows = array("l", [numbers.get(chr(code), 0) for code in range(128)])
        self.non_ascii_rows = {
            char: number for char, number in numbers.items() if not char.isascii()
        }

    def find(self, text: str, start: int, end: int) -> int:
        """Return the end of the leftmost match in ``text[start:end]``, or -1."""
        words, rows, ascii_rows, last = self.words, self.rows, self.ascii_rows, self.last
        if words > 1:
            return self.find_long(text, start, end)
        state = 0
        for index in range(start, end):
            char = text[index]
            if char < "\x80":
                row = ascii_rows[ord(char)]
            else:
                row = self.non_ascii_rows.get(char, 0) if self.non_ascii_rows else 0
            state = (state << 1 | 1) & rows[row]
            if state & last:
                return index + 1
        return -1

    def find_long(self, text: str, start: int, end: int) -> int:
        """Like `find`, for a pattern longer than `width`, whose state needs several integers."""
        words, rows, ascii_rows, last = self.words, self.rows, self.ascii_rows, self.last
        top = self.width - 1
        states = array("Q", [0] * words)
        for index in range(start, end):
            char = text[index]
            if char < "\x80":
                row = ascii_rows[ord(char)]
            else:
                row = self.non_ascii_rows.get(char, 0) if self.non_ascii_rows else 0
            row *= words
            carry = 1
            for word in range(words):
                state = states[word]
                states[word] = (state << 1 | carry) & rows[row + word]
                carry = state >> top
            if states[words - 1] & last:
                return index + 1
        return -1
