"""Syntax trees compiled to closures.

A closure takes a message and the time (ms since the Unix epoch, or None) and returns a value, or
None for unknown. Conditions follow SQL's three-valued logic; an operand of a condition that is not
a boolean counts as unknown.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, Final, TypeAlias, TypeGuard

from amqp10msg.delivery.filters._base import EvaluationError
from amqp10msg.delivery.filters._syntax import (
    Arithmetic,
    Between,
    Call,
    Compare,
    Getter,
    Identifier,
    In,
    IsNull,
    Like,
    Literal,
    Logical,
    Node,
    Not,
    Sign,
)
from amqp10msg.delivery.filters._values import (
    NUMBER,
    OPERATORS,
    TEXT,
    arithmetic,
    compare,
    is_comparable,
    kind_of,
    number,
    settled,
    types_of,
)
from amqp10msg.primitives import Timestamp

__all__ = ["Evaluate", "compile_expression"]

Evaluate: TypeAlias = Getter

_NOTHING: Final[dict[str, Any]] = {}
_MIRRORED: Final = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def compile_expression(
    node: Node, longest: int, octets: bool, concatenate: bool = False, broker: bool = False
) -> Evaluate:
    """Return the closure of a tree.

    Args:
        node: the tree.
        longest: characters of a text up to which ``LIKE`` and functions are evaluated.
        octets: evaluate as RabbitMQ does: text is its UTF-8 encoding, the quotient of integers is a
            float. Otherwise as JMS does.
        concatenate: ``+`` joins texts.
        broker: evaluate exactly as RabbitMQ 4.3 does.
    """
    return _Compiler(longest, octets, concatenate, broker).compiled(node)


class _Compiler:
    def __init__(self, longest: int, octets: bool, concatenate: bool, broker: bool) -> None:
        self.longest = longest
        self.broker = broker
        self.octets = octets
        self.concatenate = concatenate

    def compiled(self, node: Node) -> Evaluate:
        match node:
            case Literal(value=value):
                return lambda message, now: value  # noqa: ARG005
            case Identifier(get=get):
                return get
            case Logical(operator="AND"):
                return self.conjunction(node.operands)
            case Logical():
                return _disjunction([self.compiled(part) for part in node.operands])
            case Not():
                return _negation(self.compiled(node.operand), node.negated)
            case Compare():
                return self.comparison(node)
            case Between():
                return self.between(node)
            case In():
                return self.in_list(node)
            case Like():
                return self.like(node)
            case IsNull():
                return self.is_null(node)
            case Sign():
                return _sign(node.operator == "-", self.compiled(node.operand))
            case Arithmetic():
                return self.arithmetic(node)
            case Call():
                arguments = [self.compiled(argument) for argument in node.arguments]
                if arguments:
                    arguments[0] = _bounded(arguments[0], self.longest)
                return _FUNCTIONS[node.function](*arguments)
        raise AssertionError(f"no such node: {node!r}")

    def conjunction(self, operands: Sequence[Node]) -> Evaluate:
        """Compile ``a AND b``; what stands side by side and is ``name = literal`` as one."""
        parts: list[Evaluate] = []
        for is_equality, group in groupby(operands, lambda node: _equality(node) is not None):
            nodes = list(group)
            if is_equality and len(nodes) > 1:
                parts.append(self.properties_equal([_equality(node) for node in nodes]))
            else:
                parts += [self.compiled(node) for node in nodes]
        return parts[0] if len(parts) == 1 else _conjunction(parts)

    def properties_equal(self, wanted: Sequence[Any]) -> Evaluate:
        octets = self.octets
        tests = [(key, literal, types_of(literal)) for key, literal in wanted]

        def evaluate(message: Any, _now: int | None) -> bool | None:
            section = message.application_properties
            if section is None:
                section = _NOTHING
            result: bool | None = True
            for key, literal, like in tests:
                value = section.get(key)
                if type(value) in like:
                    if value != literal:
                        return False
                    continue
                same = compare("=", value, literal, octets)
                if same is False:
                    return False
                if same is None:
                    result = None
            return result

        return evaluate

    def comparison(self, node: Compare) -> Evaluate:
        equality = _equality(node)
        if equality is not None:
            return self.property_equals(*equality)
        left, right, sign = _with_literal_last(node)
        if _is_plain(right):
            return self.with_literal(sign, self.compiled(left), right.value)
        first, second, octets = self.compiled(left), self.compiled(right), self.octets
        return lambda message, now: compare(sign, first(message, now), second(message, now), octets)

    def property_equals(self, key: str, literal: Any) -> Evaluate:
        """Compile ``name = literal``, the most common condition, to one function."""
        octets, like = self.octets, types_of(literal)

        def evaluate(message: Any, _now: int | None) -> bool | None:
            section = message.application_properties
            value = None if section is None else section.get(key)
            if type(value) in like:
                return bool(value == literal)
            return compare("=", value, literal, octets)

        return evaluate

    def with_literal(self, sign: str, left: Evaluate, literal: Any) -> Evaluate:
        octets, test, like = self.octets, OPERATORS[sign], types_of(literal)

        def evaluate(message: Any, now: int | None) -> bool | None:
            value = left(message, now)
            if type(value) in like:
                return bool(test(value, literal))
            return compare(sign, value, literal, octets)

        return evaluate

    def between(self, node: Between) -> Evaluate:
        """As JMS defines it: ``a >= low AND a <= high``, negated ``a < low OR a > high``."""
        signs = ("<", ">") if node.negated else (">=", "<=")
        sides = [
            self.comparison(Compare(node.start, node.end, sign, node.operand, bound))
            for sign, bound in zip(signs, (node.low, node.high), strict=True)
        ]
        return _disjunction(sides) if node.negated else _conjunction(sides)

    def in_list(self, node: In) -> Evaluate:
        """True if an item is equal, false if none is, unknown if the operand is unknown.

        In JMS, ``NOT IN`` is like ``<>`` of each item: false if one is of another kind.
        """
        operand, octets = self.compiled(node.operand), self.octets
        found, missed = not node.negated, node.negated
        plain = frozenset(item.value for item in node.items if _is_plain(item))
        items = [self.compiled(item) for item in node.items]
        others = [self.compiled(item) for item in node.items if not _is_plain(item)]
        literals = [item.value for item in node.items if isinstance(item, Literal)]
        kinds = set() if octets else {kind_of(literal) for literal in literals}

        def evaluate(message: Any, now: int | None) -> bool | None:
            value = operand(message, now)
            if value is None:
                return None
            rest = items
            if is_comparable(value):
                if value in plain:
                    return found
                rest = others
            for item in rest:
                if compare("=", value, item(message, now), octets):
                    return found
            return missed and (not kinds or kinds == {kind_of(settled(value, octets))})

        return evaluate

    def like(self, node: Like) -> Evaluate:
        operand = _bounded(self.compiled(node.operand), self.longest)
        matches, octets = node.match, self.octets
        negated, errors = node.negated, "surrogateescape" if self.broker else "strict"

        def evaluate(message: Any, now: int | None) -> bool | None:
            value = operand(message, now)
            if not isinstance(value, str):
                if not (octets and isinstance(value, bytes)):
                    return None
                try:
                    value = value.decode(errors=errors)
                except UnicodeDecodeError:
                    return None
            found = matches(value)
            return None if found is None else found is not negated

        return evaluate

    def is_null(self, node: IsNull) -> Evaluate:
        operand, negated = self.compiled(node.operand), node.negated
        return lambda message, now: (operand(message, now) is None) is not negated

    def arithmetic(self, node: Arithmetic) -> Evaluate:
        first = self.compiled(node.first)
        rest = [(sign, self.compiled(operand)) for sign, operand in node.rest]
        exact, concatenate, finite = not self.octets, self.concatenate, self.broker

        def evaluate(message: Any, now: int | None) -> Any:
            value = first(message, now)
            for sign, operand in rest:
                other = operand(message, now)
                if (
                    concatenate
                    and sign == "+"
                    and isinstance(value, str)
                    and isinstance(other, str)
                ):
                    value = str(value) + str(other)
                else:
                    value = arithmetic(sign, value, other, exact, finite)
            return value

        return evaluate


def _bounded(operand: Evaluate, longest: int) -> Evaluate:
    """Refuse to evaluate a text that is too long for the steps that an expression may take."""

    def evaluate(message: Any, now: int | None) -> Any:
        value = operand(message, now)
        if isinstance(value, (str, bytes)) and len(value) > longest:
            raise EvaluationError(
                f"a text of {len(value):,} characters is too long for this expression, which may "
                f"take at most {longest:,}: raise FilterLimits.steps"
            )
        return value

    return evaluate


def _with_literal_last(node: Compare) -> tuple[Node, Node, str]:
    left, right, sign = node.left, node.right, node.operator
    if isinstance(left, Literal) and not isinstance(right, Literal):
        return right, left, _MIRRORED[sign]
    return left, right, sign


def _equality(node: Node) -> tuple[str, Any] | None:
    """Return the application property and the literal of ``name = literal``, else None."""
    if not isinstance(node, Compare):
        return None
    left, right, sign = _with_literal_last(node)
    if sign == "=" and _is_plain(right) and isinstance(left, Identifier) and left.key is not None:
        return left.key, right.value
    return None


def _is_plain(node: Node) -> TypeGuard[Literal]:
    return isinstance(node, Literal) and kind_of(node.value) in (NUMBER, TEXT)


def _conjunction(parts: list[Evaluate]) -> Evaluate:
    def all_of(message: Any, now: int | None) -> bool | None:
        result: bool | None = True
        for part in parts:
            value = part(message, now)
            if value is False:
                return False
            if value is not True:
                result = None
        return result

    return all_of


def _disjunction(parts: list[Evaluate]) -> Evaluate:
    def any_of(message: Any, now: int | None) -> bool | None:
        result: bool | None = False
        for part in parts:
            value = part(message, now)
            if value is True:
                return True
            if value is not False:
                result = None
        return result

    return any_of


def _negation(operand: Evaluate, negated: bool) -> Evaluate:
    def evaluate(message: Any, now: int | None) -> bool | None:
        value = operand(message, now)
        return value is not negated if isinstance(value, bool) else None

    return evaluate


def _sign(minus: bool, operand: Evaluate) -> Evaluate:
    def evaluate(message: Any, now: int | None) -> Any:
        value = number(operand(message, now))
        return -value if minus and value is not None else value

    return evaluate


# The functions of SQL filter expressions.


def _utc() -> Evaluate:
    def evaluate(_: Any, now: int | None) -> int:
        if now is None:
            raise EvaluationError("UTC() needs the time: pass now, in ms since the Unix epoch")
        return now

    return evaluate


def _of_text(function: Callable[[str], Any]) -> Callable[[Evaluate], Evaluate]:
    def make(argument: Evaluate) -> Evaluate:
        def evaluate(message: Any, now: int | None) -> Any:
            value = argument(message, now)
            return function(str(value)) if isinstance(value, str) else None

        return evaluate

    return make


def _milliseconds(text: str) -> int | None:
    """Parse an ISO 8601 date, by default in UTC, to ms since the Unix epoch."""
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return int(Timestamp.from_datetime(moment))


def _part(cut: Callable[..., str]) -> Callable[..., Evaluate]:
    """Make a function of a text and of counts of characters, which are not negative."""

    def make(text: Evaluate, *counts: Evaluate) -> Evaluate:
        def evaluate(message: Any, now: int | None) -> str | None:
            value = text(message, now)
            sizes = [number(count(message, now)) for count in counts]
            if not isinstance(value, str) or not all(
                isinstance(size, int) and size >= 0 for size in sizes
            ):
                return None
            return cut(str(value), *sizes)

        return evaluate

    return make


def _substring(text: str, start: int, count: int) -> str:
    """Return a substring as SQL-92 defines it: the first character is number 1."""
    return text[max(start - 1, 0) : max(start - 1 + count, 0)]


_FUNCTIONS: Final[dict[str, Callable[..., Evaluate]]] = {
    "UTC": _utc,
    "LOWER": _of_text(str.lower),
    "UPPER": _of_text(str.upper),
    "DATE": _of_text(_milliseconds),
    "LEFT": _part(lambda text, count: text[:count]),
    "RIGHT": _part(lambda text, count: text[-count:] if count else ""),
    "SUBSTRING": _part(_substring),
}
