# cython: language_level=3, boundscheck=True, wraparound=False, annotation_typing=False
"""What expressions are compiled to: objects that return a value of a message.

Conditions follow SQL's three-valued logic: True, False, or None for unknown; an operand of a
condition that is not a boolean counts as unknown.

Runs as it is, and compiled with the C types of `_evaluators.pxd`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from amqp10msg.delivery.filters._base import EvaluationError, not_a_message
from amqp10msg.delivery.filters._values import (
    OPERATORS,
    arithmetic,
    compare,
    is_comparable,
    kind_of,
    number,
    settled,
    types_of,
)
from amqp10msg.message import Message
from amqp10msg.sections.properties import to_milliseconds

_Message = Message
_PROPERTIES = "application_properties"


class Evaluator:
    """A part of an expression."""

    def value(self, message: Any, now: Any) -> Any:
        """Return its value, None if it is unknown.

        Args:
            message: the message.
            now: the time in ms since the Unix epoch, or None.
        """
        raise NotImplementedError


class Constant(Evaluator):
    """A literal."""

    def __init__(self, constant: Any) -> None:
        self.constant = constant

    def value(self, message: Any, now: Any) -> Any:  # noqa: ARG002
        return self.constant


ALWAYS = Constant(True)

# The names of messages' values.


class Entry(Evaluator):
    """The entry of a section that is a map."""

    def __init__(self, section: str, key: str) -> None:
        self.section = section
        self.key = key

    def value(self, message: Any, now: Any) -> Any:  # noqa: ARG002
        entries = getattr(message, self.section)
        return None if entries is None else entries.get(self.key)


class HeaderField(Evaluator):
    """A field of the header; its default if there is no header (Part 3, 3.2.1)."""

    def __init__(self, name: str, default: Any) -> None:
        self.name = name
        self.default = default

    def value(self, message: Any, now: Any) -> Any:  # noqa: ARG002
        header = message.header
        return self.default if header is None else getattr(header, self.name)


class PropertyField(Evaluator):
    """A field of the properties; a time is ms since the Unix epoch."""

    def __init__(self, name: str, is_time: bool) -> None:
        self.name = name
        self.is_time = is_time

    def value(self, message: Any, now: Any) -> Any:  # noqa: ARG002
        properties = message.properties
        if properties is None:
            return None
        found = getattr(properties, self.name)
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
        self.like = types_of(literal)

    def value(self, message: Any, now: Any) -> Any:  # noqa: ARG002
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

    def value(self, message: Any, now: Any) -> Any:  # noqa: ARG002
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
        self.like = types_of(literal)

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

    In JMS, ``NOT IN`` is like ``<>`` of each item: false if one is of another kind.

    Args:
        operand: what is looked for.
        items: the items of the list.
        plain: those of them that Python's own operators compare, as values.
        others: those that are none of these.
        kinds: the kinds of all literals in JMS; empty otherwise.
        negated: for ``NOT IN``.
        octets: compare as RabbitMQ does.
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


class AllOf(Evaluator):
    """Conditions joined by ``AND``."""

    def __init__(self, parts: Sequence[Evaluator]) -> None:
        self.parts = list(parts)

    def value(self, message: Any, now: Any) -> Any:
        result: bool | None = True
        for part in self.parts:
            found = part.value(message, now)
            if found is False:
                return False
            if found is not True:
                result = None
        return result


class AnyOf(Evaluator):
    """Conditions joined by ``OR``."""

    def __init__(self, parts: Sequence[Evaluator]) -> None:
        self.parts = list(parts)

    def value(self, message: Any, now: Any) -> Any:
        result: bool | None = False
        for part in self.parts:
            found = part.value(message, now)
            if found is True:
                return True
            if found is not False:
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
    """Operators of one precedence, from left to right.

    Args:
        first: the first operand.
        rest: each further operand with the operator before it.
        exact: integers divide to an integer, as in Java.
        concatenate: ``+`` joins texts.
        finite: a result that is too large is an error.
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


class Bounded(Evaluator):
    """A value that is refused if it is a text longer than the steps of the expression allow."""

    def __init__(self, operand: Evaluator, longest: int) -> None:
        self.operand = operand
        self.longest = longest

    def value(self, message: Any, now: Any) -> Any:
        found = self.operand.value(message, now)
        if isinstance(found, (str, bytes)) and len(found) > self.longest:
            raise EvaluationError(
                f"a text of {len(found):,} characters is too long for this expression, which may "
                f"take at most {self.longest:,}: raise FilterLimits.steps"
            )
        return found


class Time(Evaluator):
    """``UTC()``."""

    def value(self, message: Any, now: Any) -> Any:  # noqa: ARG002
        if now is None:
            raise EvaluationError("UTC() needs the time: pass now, in ms since the Unix epoch")
        return now


class Applied(Evaluator):
    """A function of any value, also of one that is not set."""

    def __init__(self, operand: Evaluator, function: Callable[[Any], Any]) -> None:
        self.operand = operand
        self.function = function

    def value(self, message: Any, now: Any) -> Any:
        return self.function(self.operand.value(message, now))


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
    local: bool | None = None,  # noqa: ARG001
) -> bool:
    """Return whether a message passes: `Filter.matches` of an expression.

    Args:
        self: the filter.
        message: the message.
        now: the time in ms since the Unix epoch, for expressions with ``UTC()``.
        local: not used.

    Raises:
        EvaluationError: the expression cannot be evaluated on the message, or needs `now`.
        TypeError: it is not a `Message`.
    """
    if type(message) is not _Message and not isinstance(message, Message):
        raise not_a_message(message)
    evaluator = self._evaluate
    return evaluator.value(message, now) is True
