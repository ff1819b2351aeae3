# cython: language_level=3, boundscheck=True, wraparound=False, annotation_typing=False
"""Values of AMQP, compared and calculated with, and what expressions are compiled to.

A value is a number, a text, a boolean, a binary, or of another kind that is only tested for
equality. Values are not converted from one kind to another. None is unknown. Conditions follow
SQL's three-valued logic: True, False, or None for unknown; an operand of a condition that is not a
boolean counts as unknown.

Runs as it is, and compiled with the C types of `_evaluators.pxd`.
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
# Types whose values Python's own operators compare within their kind.
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


def is_exact(literal: Any) -> bool:
    """Whether Python's own operators compare a number or a text with others as Java does.

    Java rounds an integer beside a double or a float to one of these: above 2**24 that of a float
    may be another number, above 2**53 that of a double.
    """
    if isinstance(literal, str):
        return True
    return bool(abs(literal) < (2**53 if isinstance(literal, float) else 2**24))


def _promoted(left: Any, right: Any) -> tuple[Any, Any]:
    """Return two numbers as Java's binary numeric promotion has them (JLS, 5.6)."""
    if isinstance(left, float) and isinstance(right, int):
        return left, Float(right) if type(left) is Float else float(right)
    if isinstance(right, float) and isinstance(left, int):
        return Float(left) if type(right) is Float else float(left), right
    return left, right


def compare(sign: str, left: Any, right: Any, octets: bool, promotes: bool = True) -> bool | None:
    """Compare two values of any types; None if one is unknown.

    Numbers compare with numbers and text with text, by code points; booleans and values without an
    order are equal or not. Values of different kinds compare as false, and with `octets` as true
    under ``<>``: then text is its UTF-8 encoding, and an integer and a float are exact, as in
    RabbitMQ. Otherwise `promotes` rounds an integer beside a float as Java does.
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
        if promotes and not octets and first == NUMBER:
            left, right = _promoted(left, right)
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
    return compare("=", reference, value, False, False) is True


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


_Message = Message
_PROPERTIES = "application_properties"


class Evaluator:
    """A part of an expression."""

    def value(self, message: Any, now: Any) -> Any:
        """Return its value, None if it is unknown; `now` is in ms since the Unix epoch, or None."""
        raise NotImplementedError


class Constant(Evaluator):
    """A literal."""

    def __init__(self, constant: Any) -> None:
        self.constant = constant

    def value(self, message: Any, now: Any) -> Any:  # noqa: ARG002  (one signature for all)
        return self.constant


ALWAYS = Constant(True)

# The names of messages' values.


class Entry(Evaluator):
    """The entry of a section that is a map."""

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
    """A field of the properties, or what stands for one that is not set; a time is in ms."""

    def __init__(self, name: str, is_time: bool, default: Any = None) -> None:
        self.name = name
        self.is_time = is_time
        self.default = default

    def value(self, message: Any, now: Any) -> Any:  # noqa: ARG002  (one signature for all)
        properties = message.properties
        found = None if properties is None else getattr(properties, self.name)
        if found is None:
            return self.default
        return to_milliseconds(found) if self.is_time else found


class Changed(Evaluator):
    """What a function makes of a value that is set."""

    def __init__(self, operand: Evaluator, change: Callable[[Any], Any]) -> None:
        self.operand = operand
        self.change = change

    def value(self, message: Any, now: Any) -> Any:
        found = self.operand.value(message, now)
        return None if found is None else self.change(found)


# Comparisons.


class Equal(Evaluator):
    """``name = literal`` of an application property, the most common condition."""

    def __init__(self, key: str, literal: Any, octets: bool) -> None:
        self.key = key
        self.literal = literal
        self.octets = octets
        self.like = types_of(literal) if octets or is_exact(literal) else frozenset()

    def value(self, message: Any, now: Any) -> Any:  # noqa: ARG002  (one signature for all)
        entries = message.application_properties
        found = None if entries is None else entries.get(self.key)
        if type(found) in self.like:
            return found == self.literal
        return compare("=", found, self.literal, self.octets)


class AllEqual(Evaluator):
    """Several of them, joined by ``AND``: the section is read once."""

    def __init__(self, tests: Sequence[Equal]) -> None:
        self.octets = tests[0].octets
        self.rows = [(test.key, test.like, test.literal) for test in tests]

    def value(self, message: Any, now: Any) -> Any:  # noqa: ARG002  (one signature for all)
        entries = message.application_properties
        result: bool | None = True
        for key, like, literal in self.rows:
            found = None if entries is None else entries.get(key)
            if type(found) in like:
                if found != literal:
                    return False
                continue
            same = compare("=", found, literal, self.octets)
            if same is False:
                return False
            if same is not True:
                result = None
        return result


class WithLiteral(Evaluator):
    """A value compared with a number or a text."""

    def __init__(self, sign: str, operand: Evaluator, literal: Any, octets: bool) -> None:
        self.sign = sign
        self.operand = operand
        self.literal = literal
        self.octets = octets
        self.test = OPERATORS[sign]
        self.like = types_of(literal) if octets or is_exact(literal) else frozenset()

    def value(self, message: Any, now: Any) -> Any:
        found = self.operand.value(message, now)
        if type(found) in self.like:
            return self.test(found, self.literal)
        return compare(self.sign, found, self.literal, self.octets)


class Comparison(Evaluator):
    """Two values compared."""

    def __init__(self, sign: str, left: Evaluator, right: Evaluator, octets: bool) -> None:
        self.sign = sign
        self.left = left
        self.right = right
        self.octets = octets

    def value(self, message: Any, now: Any) -> Any:
        found = self.left.value(message, now)
        return compare(self.sign, found, self.right.value(message, now), self.octets)


class InList(Evaluator):
    """True if an item is equal, false if none is, unknown if the operand is unknown.

    In JMS, ``NOT IN`` is like ``<>`` of each item: false if one is of another kind. Of the items,
    Python's own operators compare the `plain` ones, which are values, and not the `others`; `kinds`
    are those of all literals in JMS, and empty otherwise.
    """

    def __init__(
        self,
        operand: Evaluator,
        items: Sequence[Evaluator],
        plain: Iterable[Any],
        others: Sequence[Evaluator],
        kinds: set[str],
        negated: bool,
        octets: bool,
    ) -> None:
        self.operand = operand
        self.plain = frozenset(plain)
        self.others = list(others)
        self.items = list(items)
        self.kinds = kinds
        self.negated = negated
        self.octets = octets

    def value(self, message: Any, now: Any) -> Any:
        found = self.operand.value(message, now)
        if found is None:
            return None
        rest = self.items
        if is_comparable(found):
            if found in self.plain:
                return not self.negated
            rest = self.others
        for item in rest:
            if compare("=", found, item.value(message, now), self.octets):
                return not self.negated
        if not self.negated:
            return False
        return not self.kinds or self.kinds == {kind_of(settled(found, self.octets))}


class LikeText(Evaluator):
    """A text held to a pattern; with `octets` also a binary, decoded by UTF-8."""

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
        found = self.match(text)
        return None if found is None else found is not self.negated


class Null(Evaluator):
    """Whether a value is not set; negated, whether it is."""

    def __init__(self, operand: Evaluator, negated: bool) -> None:
        self.operand = operand
        self.negated = negated

    def value(self, message: Any, now: Any) -> Any:
        return (self.operand.value(message, now) is None) != self.negated


# Conditions.


class Joined(Evaluator):
    """Conditions joined by ``AND``, which False decides, or by ``OR``, which True decides."""

    def __init__(self, parts: Sequence[Evaluator], decisive: bool) -> None:
        self.parts = list(parts)
        self.decisive = decisive
        self.other = not decisive

    def value(self, message: Any, now: Any) -> Any:
        result: bool | None = self.other
        for part in self.parts:
            found = part.value(message, now)
            if found is self.decisive:
                return found
            if found is not self.other:
                result = None
        return result


class Negated(Evaluator):
    """``NOT`` of a condition, or with an even number of them the condition."""

    def __init__(self, operand: Evaluator, negated: bool) -> None:
        self.operand = operand
        self.negated = negated

    def value(self, message: Any, now: Any) -> Any:
        found = self.operand.value(message, now)
        return found is not self.negated if isinstance(found, bool) else None


# Calculation.


class Signed(Evaluator):
    """A number with a sign before it."""

    def __init__(self, operand: Evaluator, minus: bool) -> None:
        self.operand = operand
        self.minus = minus

    def value(self, message: Any, now: Any) -> Any:
        found = number(self.operand.value(message, now))
        return -found if self.minus and found is not None else found


class Calculation(Evaluator):
    """Operators of one precedence, from left to right, each with the operand after it.

    With `exact`, integers divide to an integer, as in Java; with `concatenate`, ``+`` joins texts;
    with `finite`, a result that is too large is an error.
    """

    def __init__(
        self,
        first: Evaluator,
        rest: Sequence[tuple[str, Evaluator]],
        exact: bool,
        concatenate: bool,
        finite: bool,
    ) -> None:
        self.first = first
        self.rest = list(rest)
        self.exact = exact
        self.concatenate = concatenate
        self.finite = finite

    def value(self, message: Any, now: Any) -> Any:
        result = self.first.value(message, now)
        for sign, operand in self.rest:
            other = operand.value(message, now)
            if (
                self.concatenate
                and sign == "+"
                and isinstance(result, str)
                and isinstance(other, str)
            ):
                result = str(result) + str(other)
            else:
                result = arithmetic(sign, result, other, self.exact, self.finite)
        return result


class Work:
    """What an expression may do, and has done so far.

    Attributes:
        longest: characters of a text, at most, up to which ``LIKE`` and functions are evaluated.
        steps: how many these took, at most; see `FilterLimits`.
    """

    def __init__(self) -> None:
        self.longest = 0
        self.steps = 0


class Bounded(Evaluator):
    """A value that is refused if it is a text longer than the steps of the expression allow.

    Each of its characters takes `weight` of them.
    """

    def __init__(self, operand: Evaluator, weight: int, work: Work) -> None:
        self.operand = operand
        self.weight = weight
        self.work = work

    def value(self, message: Any, now: Any) -> Any:
        found = self.operand.value(message, now)
        if isinstance(found, (str, bytes)):
            if len(found) > self.work.longest:
                raise EvaluationError(
                    f"a text of {len(found):,} characters is too long for this expression, which "
                    f"may take at most {self.work.longest:,}: raise FilterLimits.steps"
                )
            self.work.steps += len(found) * self.weight
        return found


class Time(Evaluator):
    """``UTC()``."""

    def value(self, message: Any, now: Any) -> Any:  # noqa: ARG002  (one signature for all)
        if now is None:
            raise EvaluationError("UTC() needs the time: pass now, in ms since the Unix epoch")
        return now


class TextFunction(Evaluator):
    """A function of a text and of counts of characters, which are not negative."""

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


# The methods of filters that evaluate.


def value_of(evaluator: Evaluator, message: Any, now: int | None) -> Any:
    """Return the value of a part of an expression on a message, None if it is unknown."""
    return evaluator.value(message, now)


def matches(
    self: Any,
    message: Message,
    *,
    now: int | None = None,
    local: bool | None = None,  # noqa: ARG001  (one signature for all)
) -> bool:
    """Return whether a message passes: `Filter.matches` of an expression, without another call."""
    if type(message) is not _Message and not isinstance(message, Message):
        raise not_a_message(message)
    evaluator = self._evaluate
    return evaluator.value(message, now) is True


# Texts with wildcards, by Shift-And (Baeza-Yates and Gonnet, 1992). Bit i of the state is set while
# the last i + 1 characters match the first i + 1 wanted ones, so a character costs a few operations
# for every word of the state, whatever stands there. A word has as many bits as are wanted in
# Python, and 64 in C.

#: Bits of a word of the state.
WORD: Final = 64 if COMPILED else 1 << 20


class ShiftAnd:
    """The search for characters, of which None stands for any one; at least one is wanted."""

    def __init__(self, wanted: Sequence[str | None], width: int = WORD) -> None:
        self.size = size = len(wanted)
        self.width = width = min(width, size)
        self.words = words = -(-size // width)
        self.last = 1 << (size - 1) % width
        # A row of words for each character that is wanted somewhere, the first for all others.
        numbers: dict[str, int] = {}
        for char in wanted:
            if char is not None:
                numbers.setdefault(char, len(numbers) + 1)
        rows: Any = [0] * ((len(numbers) + 1) * words)
        for at, char in enumerate(wanted):
            bit = 1 << at % width
            if char is not None:
                rows[numbers[char] * words + at // width] |= bit
                continue
            for number in range(len(numbers) + 1):
                rows[number * words + at // width] |= bit
        self.rows = array("Q", rows) if width <= 64 else rows
        self.plain = array("l", [numbers.get(chr(code), 0) for code in range(128)])
        self.others = {char: number for char, number in numbers.items() if not char.isascii()}

    def find(self, text: str, start: int, end: int) -> int:
        """Return the end of the leftmost match in ``text[start:end]``, or -1."""
        words, rows, plain, last = self.words, self.rows, self.plain, self.last
        if words > 1:
            return self.find_long(text, start, end)
        state = 0
        for at in range(start, end):
            char = text[at]
            if char < "\x80":
                row = plain[ord(char)]
            else:
                row = self.others.get(char, 0) if self.others else 0
            state = (state << 1 | 1) & rows[row]
            if state & last:
                return at + 1
        return -1

    def find_long(self, text: str, start: int, end: int) -> int:
        """`find` where the state is several words."""
        words, rows, plain, last = self.words, self.rows, self.plain, self.last
        top = self.width - 1
        states = array("Q", [0] * words)
        for at in range(start, end):
            char = text[at]
            if char < "\x80":
                row = plain[ord(char)]
            else:
                row = self.others.get(char, 0) if self.others else 0
            row *= words
            carry = 1
            for word in range(words):
                state = states[word]
                states[word] = (state << 1 | carry) & rows[row + word]
                carry = state >> top
            if states[words - 1] & last:
                return at + 1
        return -1
