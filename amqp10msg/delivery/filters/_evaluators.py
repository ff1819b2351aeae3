# cython: language_level=3, boundscheck=True, wraparound=False, annotation_typing=False
"""Compiled expressions: a tree of evaluators, and the comparison and arithmetic of AMQP values.

The kinds of values are number, text, boolean, binary, and other. Values of the kind other are only
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

from amqp10msg.delivery.filters._base import EvaluationError, not_a_message
from amqp10msg.message import Message
from amqp10msg.sections import to_milliseconds
from amqp10msg.wire.kernel import COMPILED
from amqp10msg.wire.primitives import DECIMALS, INTEGERS, Char, Float, Symbol, Timestamp

NUMBER, TEXT, BOOLEAN, BINARY, OTHER = "number", "text", "boolean", "binary", "other"
# Fast path: Python's operators compare two values of these types and of the same kind correctly,
# without `compare`. See `is_exact` for the exception in JMS.
_TYPES: Final = {
    NUMBER: frozenset({int, float, Float, *INTEGERS.values()}),
    TEXT: frozenset({str, Symbol, Char}),
}
_COMPARABLE: Final = _TYPES[NUMBER] | _TYPES[TEXT]
_DECIMALS: Final = tuple(DECIMALS.values())

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
    """Return the types whose values need no `compare` with a number or text literal."""
    return _TYPES[kind_of(literal)]


def is_comparable(value: Any) -> bool:
    """Return whether a value needs no `compare` with comparable values of its kind."""
    return type(value) in _COMPARABLE


def normalized(value: Any, octets: bool) -> Any:
    """Convert a decimal to a number, a buffer to bytes and, with `octets`, a UUID to its bytes."""
    if isinstance(value, _DECIMALS):
        number = value.to_decimal()
        return math.nan if number.is_nan() else number
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    return value.bytes if octets and isinstance(value, uuid.UUID) else value


def is_exact(literal: Any) -> bool:
    """Return whether Python's operators compare a number or text literal as Java does.

    Java converts an integer compared with a float or double to that type, which rounds integers
    above 2**24 (float) or 2**53 (double). Python compares without rounding.
    """
    if isinstance(literal, str):
        return True
    return bool(abs(literal) < (2**53 if isinstance(literal, float) else 2**24))


def _promoted(left: Any, right: Any) -> tuple[Any, Any]:
    """Convert two numbers by Java's binary numeric promotion (JLS, 5.6)."""
    if isinstance(left, float) and isinstance(right, int):
        return left, Float(right) if type(left) is Float else float(right)
    if isinstance(right, float) and isinstance(left, int):
        return Float(left) if type(right) is Float else float(left), right
    return left, right


def compare(sign: str, left: Any, right: Any, octets: bool, promotes: bool = True) -> bool | None:
    """Compare two values of any types; return None if either is unknown.

    Numbers compare with numbers, and text with text, by code points. Booleans and values without an
    order can only be equal or not. A comparison of different kinds is false.

    With `octets`, compare as RabbitMQ does: ``<>`` of different kinds is true, text equals a binary
    with its UTF-8 encoding, and an integer compares with a float without rounding. Otherwise
    `promotes` rounds the integer as Java does.
    """
    if left is None or right is None:
        return None
    left, right = normalized(left, octets), normalized(right, octets)
    first, second = kind_of(left), kind_of(right)
    if octets and first != second and {first, second} == {TEXT, BINARY}:
        left, right = _encoded(left), _encoded(right)
        first = second = BINARY
    if first != second:
        return octets and sign == "<>"
    if sign not in ("=", "<>") and first not in (NUMBER, TEXT) and not (octets and first == BINARY):
        return False
    # As in Java, a decimal compared with a float is rounded to a float: decimal 0.1 equals 0.1.
    if isinstance(left, decimal.Decimal) and isinstance(right, float):
        left = _rounded(left)
    elif isinstance(right, decimal.Decimal) and isinstance(left, float):
        right = _rounded(right)
    try:
        if promotes and not octets and first == NUMBER:
            left, right = _promoted(left, right)
        return bool(OPERATORS[sign](left, right))
    except (TypeError, ValueError, ArithmeticError):  # raised by a user's own classes
        return False


def _rounded(value: decimal.Decimal) -> decimal.Decimal | float:
    """Return a decimal as a float, or unchanged if it is out of a float's range."""
    rounded = float(value)
    out_of_range = value.is_finite() and (math.isinf(rounded) or (rounded == 0) is not (value == 0))
    return value if out_of_range else rounded


def _encoded(value: Any) -> Any:
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value


def same_as(reference: Any) -> Callable[[Any], bool]:
    """Return a function that applies `same` to a reference and its argument."""
    if type(reference) not in _COMPARABLE or isinstance(reference, Timestamp):
        return lambda value: same(reference, value)
    like = types_of(reference) - {Timestamp}

    def test(value: Any) -> bool:
        if type(value) in like:
            return bool(value == reference)
        return same(reference, value)

    return test


def same(reference: Any, value: Any) -> bool:
    """Return whether a message's value matches the reference value of a filter.

    Numbers of different types match if they are equal (filtex 4.1.1); a timestamp only matches a
    timestamp; a string and a symbol match if they have the same characters.
    """
    if reference is None or value is None:
        return reference is value
    if isinstance(reference, Timestamp) is not isinstance(value, Timestamp):
        return False
    return compare("=", reference, value, False, False) is True


def arithmetic(sign: str, left: Any, right: Any, exact: bool, finite: bool = False) -> Any:
    """Apply an arithmetic operator; return None if an operand or the result is not a number.

    Integers stay exact, however large; if an operand is a float, so is the result. With `exact`,
    the quotient of integers is truncated, as in Java; otherwise it is a float.

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
    remainder = abs(left) % abs(right)
    return -remainder if left < 0 else remainder


def number(value: Any) -> Any:
    """Return a value as an int or float; None if it is not a number."""
    if value is None or type(value) is int or type(value) is float:
        return value
    value = normalized(value, False)
    if kind_of(value) != NUMBER:
        return None
    # int() of a decimal with a large exponent would build a number with as many digits.
    if isinstance(value, decimal.Decimal) and -40 < value.adjusted() < 40:
        whole = value.is_finite() and value == int(value)
        return int(value) if whole else float(value)
    return int(value) if isinstance(value, int) else float(value)


_Message = Message
_PROPERTIES = "application_properties"


class Evaluator:
    """A node of the tree that an expression is compiled to."""

    def value(self, message: Any, now: Any) -> Any:
        """Return the node's value for a message, or None if it is unknown.

        `now` is in ms since the Unix epoch, or None.
        """
        raise NotImplementedError


class Constant(Evaluator):
    """A literal."""

    def __init__(self, constant: Any) -> None:
        self.constant = constant

    def value(self, message: Any, now: Any) -> Any:  # noqa: ARG002  (one signature for all)
        return self.constant


ALWAYS = Constant(True)

# Names: values read from a message.


class Entry(Evaluator):
    """An entry of a section that is a map."""

    def __init__(self, section: str, key: str) -> None:
        self.section = section
        self.key = key

    def value(self, message: Any, now: Any) -> Any:  # noqa: ARG002  (one signature for all)
        entries = getattr(message, self.section)
        return None if entries is None else entries.get(self.key)


class HeaderField(Evaluator):
    """A field of the header; its default if there is no header (Part 3, 3.2.1)."""

    def __init__(self, name: str, default: Any) -> None:
        self.name = name
        self.default = default

    def value(self, message: Any, now: Any) -> Any:  # noqa: ARG002  (one signature for all)
        header = message.header
        return self.default if header is None else getattr(header, self.name)


class PropertyField(Evaluator):
    """A field of the properties, or its default if it is not set; times are in ms."""

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


class Changed(Evaluator):
    """Applies a function to the operand's value, unless the value is None."""

    def __init__(self, operand: Evaluator, change: Callable[[Any], Any]) -> None:
        self.operand = operand
        self.change = change

    def value(self, message: Any, now: Any) -> Any:
        value = self.operand.value(message, now)
        return None if value is None else self.change(value)


# Comparisons.


class Equal(Evaluator):
    """``name = literal`` for an application property, the most common condition."""

    def __init__(self, key: str, literal: Any, octets: bool) -> None:
        self.key = key
        self.literal = literal
        self.octets = octets
        self.like = types_of(literal) if octets or is_exact(literal) else frozenset()

    def value(self, message: Any, now: Any) -> Any:  # noqa: ARG002  (one signature for all)
        entries = message.application_properties
        value = None if entries is None else entries.get(self.key)
        if type(value) in self.like:
            return value == self.literal
        return compare("=", value, self.literal, self.octets)


class AllEqual(Evaluator):
    """Several `Equal` conditions joined by ``AND``: reads the section once."""

    def __init__(self, tests: Sequence[Equal]) -> None:
        self.octets = tests[0].octets
        self.rows = [(test.key, test.like, test.literal) for test in tests]

    def value(self, message: Any, now: Any) -> Any:  # noqa: ARG002  (one signature for all)
        entries = message.application_properties
        result: bool | None = True
        for key, like, literal in self.rows:
            value = None if entries is None else entries.get(key)
            if type(value) in like:
                if value != literal:
                    return False
                continue
            same = compare("=", value, literal, self.octets)
            if same is False:
                return False
            if same is not True:
                result = None
        return result


class WithLiteral(Evaluator):
    """A comparison of a value with a number or text literal."""

    def __init__(self, sign: str, operand: Evaluator, literal: Any, octets: bool) -> None:
        self.sign = sign
        self.operand = operand
        self.literal = literal
        self.octets = octets
        self.test = OPERATORS[sign]
        self.like = types_of(literal) if octets or is_exact(literal) else frozenset()

    def value(self, message: Any, now: Any) -> Any:
        value = self.operand.value(message, now)
        if type(value) in self.like:
            return self.test(value, self.literal)
        return compare(self.sign, value, self.literal, self.octets)


class Comparison(Evaluator):
    """A comparison of two values."""

    def __init__(self, sign: str, left: Evaluator, right: Evaluator, octets: bool) -> None:
        self.sign = sign
        self.left = left
        self.right = right
        self.octets = octets

    def value(self, message: Any, now: Any) -> Any:
        value = self.left.value(message, now)
        return compare(self.sign, value, self.right.value(message, now), self.octets)


class InList(Evaluator):
    """``IN``: true if an item is equal, else false; unknown if the operand is unknown.

    In JMS, ``NOT IN`` equals ``<>`` applied to every item: false if an item is of another kind.

    Args:
        operand: the value to look for.
        items: all items of the list.
        plain: the literals among the items that Python's operators can compare, without `compare`.
        others: the items not in `plain`.
        kinds: the kinds of the literals in JMS; empty in other languages.
        negated: whether the operator is ``NOT IN``.
        octets: see `compare`.
    """

    def __init__(
        self,
        operand: Evaluator,
        items: Sequence[Evaluator],
        plain: Iterable[Any],
        complex_items: Sequence[Evaluator],
        kinds: set[str],
        negated: bool,
        octets: bool,
    ) -> None:
        self.operand = operand
        self.plain = frozenset(plain)
        self.complex_items = list(complex_items)
        self.items = list(items)
        self.kinds = kinds
        self.negated = negated
        self.octets = octets

    def value(self, message: Any, now: Any) -> Any:
        value = self.operand.value(message, now)
        if value is None:
            return None
        items_to_compare = self.items
        if is_comparable(value):
            if value in self.plain:
                return not self.negated
            items_to_compare = self.complex_items
        for item in items_to_compare:
            if compare("=", value, item.value(message, now), self.octets):
                return not self.negated
        if not self.negated:
            return False
        return not self.kinds or self.kinds == {kind_of(normalized(value, self.octets))}


class LikeText(Evaluator):
    """``LIKE`` on a text; with `octets` also on a binary, decoded as UTF-8."""

    def __init__(
        self,
        operand: Evaluator,
        match: Callable[[str], bool | None],
        negated: bool,
        octets: bool,
        errors: str,
    ) -> None:
        self.operand = operand
        self.match = match
        self.negated = negated
        self.octets = octets
        self.errors = errors

    def value(self, message: Any, now: Any) -> Any:
        text = self.operand.value(message, now)
        if not isinstance(text, str):
            if not (self.octets and isinstance(text, bytes)):
                return None
            try:
                text = text.decode(errors=self.errors)
            except UnicodeDecodeError:
                return None
        matched = self.match(text)
        return None if matched is None else matched is not self.negated


class Null(Evaluator):
    """``IS NULL``, or ``IS NOT NULL`` if negated."""

    def __init__(self, operand: Evaluator, negated: bool) -> None:
        self.operand = operand
        self.negated = negated

    def value(self, message: Any, now: Any) -> Any:
        return (self.operand.value(message, now) is None) != self.negated


# Conditions.


class Joined(Evaluator):
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


class Negated(Evaluator):
    """A condition after one or more ``NOT``: negated if their number is odd."""

    def __init__(self, operand: Evaluator, negated: bool) -> None:
        self.operand = operand
        self.negated = negated

    def value(self, message: Any, now: Any) -> Any:
        value = self.operand.value(message, now)
        return value is not self.negated if isinstance(value, bool) else None


# Calculation.


class Signed(Evaluator):
    """A number with a sign."""

    def __init__(self, operand: Evaluator, minus: bool) -> None:
        self.operand = operand
        self.minus = minus

    def value(self, message: Any, now: Any) -> Any:
        value = number(self.operand.value(message, now))
        return -value if self.minus and value is not None else value


class Calculation(Evaluator):
    """Operators of the same precedence, applied from left to right.

    Args:
        first: the leftmost operand.
        rest: each operator with its right operand.
        exact: truncate the quotient of integers, as Java does.
        concatenate: let ``+`` join texts.
        finite: raise `EvaluationError` for a result that is too large for a float.
    """

    def __init__(
        self,
        first: Evaluator,
        operations: Sequence[tuple[str, Evaluator]],
        exact: bool,
        concatenate: bool,
        finite: bool,
    ) -> None:
        self.first = first
        self.operations = list(operations)
        self.exact = exact
        self.concatenate = concatenate
        self.finite = finite

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
                result = arithmetic(sign, result, right, self.exact, self.finite)
        return result


class Work:
    """The work limit of an expression, and the work done so far.

    Attributes:
        longest: characters of the longest text that ``LIKE`` and functions accept.
        steps: upper bound of the steps used so far; see `FilterLimits.steps`.
    """

    def __init__(self) -> None:
        self.longest = 0
        self.steps = 0


class Bounded(Evaluator):
    """An operand of ``LIKE`` or a function: raises an error for a text that is too long.

    Each character counts as `weight` steps.
    """

    def __init__(self, operand: Evaluator, weight: int, work: Work) -> None:
        self.operand = operand
        self.weight = weight
        self.work = work

    def value(self, message: Any, now: Any) -> Any:
        value = self.operand.value(message, now)
        if isinstance(value, (str, bytes)):
            if len(value) > self.work.longest:
                raise EvaluationError(
                    f"a text of {len(value):,} characters is too long for this expression, which "
                    f"may take at most {self.work.longest:,}: raise FilterLimits.steps"
                )
            self.work.steps += len(value) * self.weight
        return value


class Time(Evaluator):
    """The function ``UTC()``: the current time, which the caller passes as `now`."""

    def value(self, message: Any, now: Any) -> Any:  # noqa: ARG002  (one signature for all)
        if now is None:
            raise EvaluationError("UTC() needs the time: pass now, in ms since the Unix epoch")
        return now


class TextFunction(Evaluator):
    """A function of a text and of non-negative counts of characters."""

    def __init__(
        self, function: Callable[..., Any], text: Evaluator, counts: Sequence[Evaluator]
    ) -> None:
        self.function = function
        self.text = text
        self.counts = list(counts)

    def value(self, message: Any, now: Any) -> Any:
        text = self.text.value(message, now)
        sizes = [number(count.value(message, now)) for count in self.counts]
        for size in sizes:
            if not isinstance(size, int) or size < 0:
                return None
        return self.function(str(text), *sizes) if isinstance(text, str) else None


# Methods of the filter classes.


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
    """Return whether a message passes: a faster `Filter.matches` for expressions."""
    if type(message) is not _Message and not isinstance(message, Message):
        raise not_a_message(message)
    evaluator = self._evaluate
    return evaluator.value(message, now) is True


# Search for text with wildcards by Shift-And (Baeza-Yates and Gonnet, 1992). Bit i of the state is
# set if the last i + 1 characters match the first i + 1 elements of the pattern, so each character
# costs a few operations per word of the state, whatever the text. In C a word has 64 bits; in
# Python one integer holds the whole state.

#: Bits of the state in one integer.
WORD: Final = 64 if COMPILED else 1 << 20


class ShiftAnd:
    """A search for a pattern: characters, and None for any character; at least one element."""

    def __init__(self, pattern: Sequence[str | None], width: int = WORD) -> None:
        self.size = size = len(pattern)
        self.width = width = min(width, size)
        self.words = words = -(-size // width)
        self.last = 1 << (size - 1) % width
        # A row of words for each character of the pattern; row 0 is for all other characters.
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
        self.plain = array("l", [numbers.get(chr(code), 0) for code in range(128)])
        self.non_ascii_rows = {
            char: number for char, number in numbers.items() if not char.isascii()
        }

    def find(self, text: str, start: int, end: int) -> int:
        """Return the end of the leftmost match in ``text[start:end]``, or -1."""
        words, rows, plain, last = self.words, self.rows, self.plain, self.last
        if words > 1:
            return self.find_long(text, start, end)
        state = 0
        for index in range(start, end):
            char = text[index]
            if char < "\x80":
                row = plain[ord(char)]
            else:
                row = self.non_ascii_rows.get(char, 0) if self.non_ascii_rows else 0
            state = (state << 1 | 1) & rows[row]
            if state & last:
                return index + 1
        return -1

    def find_long(self, text: str, start: int, end: int) -> int:
        """`find` for a pattern longer than `width`, whose state is spread over several integers."""
        words, rows, plain, last = self.words, self.rows, self.plain, self.last
        top = self.width - 1
        states = array("Q", [0] * words)
        for index in range(start, end):
            char = text[index]
            if char < "\x80":
                row = plain[ord(char)]
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
