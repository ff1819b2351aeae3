"""Syntax trees compiled to evaluators."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, Final, TypeGuard

from amqp10msg.delivery.filters._evaluators import (
    AllEqual,
    AllOf,
    AnyOf,
    Bounded,
    Calculation,
    Comparison,
    Constant,
    Equal,
    Evaluator,
    InList,
    LikeText,
    Negated,
    Null,
    Signed,
    TextFunction,
    Time,
    WithLiteral,
)
from amqp10msg.delivery.filters._syntax import (
    Arithmetic,
    Between,
    Call,
    Compare,
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
from amqp10msg.delivery.filters._values import NUMBER, TEXT, kind_of
from amqp10msg.wire.primitives import Timestamp

_MIRRORED: Final = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def compile_expression(
    node: Node, longest: int, octets: bool, concatenate: bool = False, broker: bool = False
) -> Evaluator:
    """Return what evaluates a tree.

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

    def compiled(self, node: Node) -> Evaluator:
        match node:
            case Literal(value=value):
                return Constant(value)
            case Identifier(read=read):
                return read
            case Logical(operator="AND"):
                return self.conjunction(node.operands)
            case Logical():
                return AnyOf([self.compiled(part) for part in node.operands])
            case Not():
                return Negated(self.compiled(node.operand), node.negated)
            case Compare():
                return self.comparison(node)
            case Between():
                return self.between(node)
            case In():
                return self.in_list(node)
            case Like():
                return self.like(node)
            case IsNull():
                return Null(self.compiled(node.operand), node.negated)
            case Sign():
                return Signed(self.compiled(node.operand), node.operator == "-")
            case Arithmetic():
                rest = [(sign, self.compiled(operand)) for sign, operand in node.rest]
                exact, finite = not self.octets, self.broker
                first = self.compiled(node.first)
                return Calculation(first, rest, exact, self.concatenate, finite)
            case Call(function="UTC"):
                return Time()
            case Call():
                text, *counts = map(self.compiled, node.arguments)
                bounded = Bounded(text, self.longest)
                return TextFunction(_FUNCTIONS[node.function], bounded, counts)
        raise AssertionError(f"no such node: {node!r}")

    def conjunction(self, operands: Sequence[Node]) -> Evaluator:
        """Compile ``a AND b``; what stands side by side and is ``name = literal`` as one."""
        parts: list[Evaluator] = []
        for _, group in groupby(map(self.compiled, operands), _is_equality):
            found = list(group)
            equalities = [part for part in found if isinstance(part, Equal)]
            parts += [AllEqual(equalities)] if len(equalities) > 1 else found
        return parts[0] if len(parts) == 1 else AllOf(parts)

    def comparison(self, node: Compare) -> Evaluator:
        left, right, sign = _with_literal_last(node)
        if _is_plain(right):
            if sign == "=" and isinstance(left, Identifier) and left.key is not None:
                return Equal(left.key, right.value, self.octets)
            return WithLiteral(sign, self.compiled(left), right.value, self.octets)
        return Comparison(sign, self.compiled(left), self.compiled(right), self.octets)

    def between(self, node: Between) -> Evaluator:
        """As JMS defines it: ``a >= low AND a <= high``, negated ``a < low OR a > high``."""
        signs = ("<", ">") if node.negated else (">=", "<=")
        sides = [
            self.comparison(Compare(node.start, node.end, sign, node.operand, bound))
            for sign, bound in zip(signs, (node.low, node.high), strict=True)
        ]
        return AnyOf(sides) if node.negated else AllOf(sides)

    def in_list(self, node: In) -> Evaluator:
        items = [(item, self.compiled(item)) for item in node.items]
        literals = [item.value for item in node.items if isinstance(item, Literal)]
        return InList(
            self.compiled(node.operand),
            [one for _, one in items],
            [item.value for item in node.items if _is_plain(item)],
            [one for item, one in items if not _is_plain(item)],
            set() if self.octets else {kind_of(literal) for literal in literals},
            node.negated,
            self.octets,
        )

    def like(self, node: Like) -> Evaluator:
        operand = Bounded(self.compiled(node.operand), self.longest)
        errors = "surrogateescape" if self.broker else "strict"
        return LikeText(operand, node.match, node.negated, self.octets, errors)


def _is_equality(part: Evaluator) -> bool:
    return isinstance(part, Equal)


def _with_literal_last(node: Compare) -> tuple[Node, Node, str]:
    left, right, sign = node.left, node.right, node.operator
    if isinstance(left, Literal) and not isinstance(right, Literal):
        return right, left, _MIRRORED[sign]
    return left, right, sign


def _is_plain(node: Node) -> TypeGuard[Literal]:
    return isinstance(node, Literal) and kind_of(node.value) in (NUMBER, TEXT)


# The functions of SQL filter expressions.


def _milliseconds(text: str) -> int | None:
    """Parse an ISO 8601 date, by default in UTC, to ms since the Unix epoch."""
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return int(Timestamp.from_datetime(moment))


def _substring(text: str, start: int, count: int) -> str:
    """Return a substring as SQL-92 defines it: the first character is number 1."""
    return text[max(start - 1, 0) : max(start - 1 + count, 0)]


_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "LOWER": str.lower,
    "UPPER": str.upper,
    "DATE": _milliseconds,
    "LEFT": lambda text, count: text[:count],
    "RIGHT": lambda text, count: text[-count:] if count else "",
    "SUBSTRING": _substring,
}
