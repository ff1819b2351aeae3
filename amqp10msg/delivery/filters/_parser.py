"""A Pratt parser of selectors and SQL filter expressions.

Both are languages of conditions; a `Language` holds the differences: tokens, names and the
restrictions of JMS.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import attrs

from amqp10msg.delivery.filters._base import ExpressionError, FilterLimits
from amqp10msg.delivery.filters._evaluators import Evaluator
from amqp10msg.delivery.filters._glob import MANY, ONE, Element, compile_like, weight_of
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
    Token,
)

_OR, _AND, _NOT, _COMPARISON, _SUM, _PRODUCT = 10, 20, 30, 40, 50, 60
_BINARY: Final = {
    "OR": _OR,
    "AND": _AND,
    **dict.fromkeys(("=", "<>", "<", "<=", ">", ">="), _COMPARISON),
    **dict.fromkeys(("BETWEEN", "IN", "LIKE", "IS", "NOT"), _COMPARISON),
    **dict.fromkeys(("+", "-"), _SUM),
    **dict.fromkeys(("*", "/", "%"), _PRODUCT),
}
#: As many as the 200 tokens of RabbitMQ allow.
_MOST_NOT: Final = 200
#: Steps that a function takes per character: of most texts, LOWER takes fewer.
_CALL_WEIGHT: Final = 10
_NUMBERS: Final = {"INF": math.inf, "NAN": math.nan}
#: Functions of SQL filter expressions and their numbers of arguments.
_ARITY: Final = {
    "UTC": 0,
    "LOWER": 1,
    "UPPER": 1,
    "DATE": 1,
    "LEFT": 2,
    "RIGHT": 2,
    "SUBSTRING": 3,
}


class UnknownNameError(Exception):
    """A name that the language does not have; the text suggests others."""


@attrs.frozen
class Language:
    """The differences between the languages.

    Attributes:
        tokens: splits the text into tokens.
        resolve: returns what reads a name and, of an application property, its key; takes the
            token's value and raises `UnknownNameError`.
        functions: names of its functions and of numbers such as ``INF``.
        jms: apply the restrictions of JMS: a list holds literals, operands have the type that their
            operator needs. As in qpidd and ActiveMQ, any operand may precede ``IS NULL``.
        plain_patterns: refuse control characters in patterns.
        bracketed_fields: names such as ``m.[x-opt-hop]``.
        like: compiles a pattern.
    """

    tokens: Callable[[str, FilterLimits], list[Token]]
    resolve: Callable[[Any], tuple[Evaluator, str | None]]
    functions: frozenset[str]
    jms: bool
    plain_patterns: bool
    bracketed_fields: bool = False
    like: Callable[[Sequence[Element]], Callable[[str], bool | None]] = compile_like


def parse_expression(text: str, language: Language, limits: FilterLimits) -> tuple[Node, int]:
    """Parse a whole expression; return its tree and the steps it takes per character of a text.

    Raises:
        ExpressionError: it breaks the grammar or exceeds a limit.
    """
    parser = _Parser(text, language, limits)
    node = parser.expression(0)
    token = parser.token
    if token.kind != "end":
        raise parser.error(f"expected an operator or the end, not {parser.shown(token)}")
    parser.condition(node)
    return node, parser.weight


class _Parser:
    def __init__(self, text: str, language: Language, limits: FilterLimits) -> None:
        self.text = text
        self.language = language
        self.limits = limits
        self.tokens = language.tokens(text, limits)
        self.at = 0
        self.depth = 0
        self.weight = 1

    # Tokens.

    @property
    def token(self) -> Token:
        return self.tokens[self.at]

    def take(self) -> Token:
        token = self.tokens[self.at]
        self.at += 1
        return token

    def expect(self, kind: str, what: str) -> Token:
        if self.token.kind != kind:
            raise self.error(f"expected {what}, not {self.shown(self.token)}")
        return self.take()

    def shown(self, token: Token) -> str:
        if token.kind == "end":
            return "the end"
        written = self.text[token.start : token.end]
        return written if len(written) <= 30 else f"{written[:30]}…"

    def error(self, problem: str, token: Token | Node | None = None) -> ExpressionError:
        return ExpressionError(problem, self.text, (token or self.token).start)

    # Expressions.

    def expression(self, binding: int) -> Node:
        """Parse what binds more tightly than `binding`."""
        self.depth += 1
        if self.depth > self.limits.depth:
            raise self.error(f"nested more than {self.limits.depth} deep")
        left = self.prefix(binding)
        compared = False
        while (power := _BINARY.get(self.token.kind, 0)) > binding:
            if power == _COMPARISON:
                if compared:
                    raise self.error("comparisons cannot be chained: use AND or parentheses")
                left, compared = self.comparison(left), True
            elif power in (_OR, _AND):
                left, compared = self.logical(left, power), False
            else:
                left = self.arithmetic(left, power)
        self.depth -= 1
        return left

    def prefix(self, binding: int) -> Node:
        token = self.take()
        match token.kind:
            case "NOT":
                if binding >= _COMPARISON:
                    raise self.error("NOT needs parentheses around it here", token)
                count = 1  # a chain of them is not nesting
                while self.token.kind == "NOT":
                    self.take()
                    count += 1
                if count > _MOST_NOT:
                    raise self.error(f"NOT is repeated more than {_MOST_NOT} times", token)
                operand = self.expression(_NOT)
                self.condition(operand)
                return Not(token.start, operand.end, operand, negated=count % 2 == 1)
            case "+" | "-":
                return self.sign(token)
            case "(":
                node = self.expression(0)
                closing = self.expect(")", "an operator or )")
                return attrs.evolve(node, start=token.start, end=closing.end)
            case "number" | "string" | "binary" | "boolean":
                return Literal(token.start, token.end, token.value)
            case "identifier" | "qualified":
                return self.identifier(token)
            case "function":
                return self.call(token)
        raise self.error(f"expected a value, a name or (, not {self.shown(token)}", token)

    def sign(self, token: Token) -> Node:
        if not self.language.jms and self.token.kind in ("+", "-"):
            raise self.error("a second sign needs parentheses")
        operand = self.expression(_PRODUCT)
        self.number(operand)
        if type(operand) is Literal and type(operand.value) in (int, float):
            value = -operand.value if token.kind == "-" else operand.value
            return Literal(token.start, operand.end, value)
        return Sign(token.start, operand.end, token.kind, operand)

    def identifier(self, token: Token) -> Identifier:
        name = self.text[token.start : token.end]
        if token.kind == "qualified" and token.quoted and not self.language.bracketed_fields:
            raise self.error(
                "RabbitMQ has no names in brackets after a section: write [name] for an "
                "application property, or use the dialect oasis",
                token,
            )
        try:
            read, key = self.language.resolve(token.value)
        except UnknownNameError as error:
            raise self.error(str(error), token) from None
        return Identifier(token.start, token.end, name, key, read)

    def logical(self, left: Node, power: int) -> Node:
        """Parse a chain of one operator; it does not count as nesting."""
        self.condition(left)
        operator = self.token.kind
        operands = [left]
        while self.token.kind == operator:
            self.take()
            operand = self.expression(power)
            self.condition(operand)
            operands.append(operand)
        return Logical(left.start, operands[-1].end, operator, tuple(operands))

    def arithmetic(self, left: Node, power: int) -> Node:
        rest = []
        self.number(left)
        while _BINARY.get(self.token.kind) == power:
            operator = self.take().kind
            operand = self.expression(power)
            self.number(operand)
            rest.append((operator, operand))
        return Arithmetic(left.start, rest[-1][1].end, left, tuple(rest))

    def comparison(self, left: Node) -> Node:
        token = self.take()
        if token.kind == "IS":
            return self.is_null(left)
        if token.kind in _BINARY and token.kind not in ("NOT", "BETWEEN", "IN", "LIKE"):
            right = self.expression(_COMPARISON)
            if token.kind not in ("=", "<>"):
                self.ordered(left)
                self.ordered(right)
            return Compare(left.start, right.end, token.kind, left, right)
        negated = token.kind == "NOT"
        if negated:
            token = self.take()
        match token.kind:
            case "BETWEEN":
                return self.between(left, negated)
            case "IN":
                return self.in_list(left, negated)
            case "LIKE":
                return self.like(left, negated)
        wanted = "BETWEEN, IN or LIKE" if self.language.jms else "IN or LIKE"
        raise self.error(f"expected {wanted} after NOT, not {self.shown(token)}", token)

    def is_null(self, left: Node) -> Node:
        is_name = type(left) is Identifier and self.text[left.start] != "("
        if not is_name and not self.language.jms:
            raise self.error("IS NULL takes a name", left)
        negated = self.token.kind == "NOT"
        if negated:
            self.take()
        last = self.expect("NULL", "NULL" if negated else "NULL or NOT NULL")
        return IsNull(left.start, last.end, left, negated)

    def between(self, left: Node, negated: bool) -> Node:
        self.number(left)
        low = self.expression(_COMPARISON)
        self.number(low)
        self.expect("AND", "AND and the upper bound of BETWEEN")
        high = self.expression(_COMPARISON)
        self.number(high)
        return Between(left.start, high.end, left, low, high, negated)

    def in_list(self, left: Node, negated: bool) -> Node:
        self.expect("(", "( and a list of values")
        items = []
        while True:
            item = self.expression(_COMPARISON)
            if self.language.jms and type(item) is not Literal:
                raise self.error("the list of IN takes literals", item)
            items.append(item)
            if self.token.kind != ",":
                break
            self.take()
        last = self.expect(")", "a comma or )")
        return In(left.start, last.end, left, tuple(items), negated)

    def like(self, left: Node, negated: bool) -> Node:
        token = self.expect("string", "a pattern in quotes")
        last, escape = token, None
        if self.token.kind == "ESCAPE":
            self.take()
            last = self.expect("string", "one character in quotes")
            escape = last.value
            if len(escape) != 1:
                raise self.error("ESCAPE takes one character in quotes", last)
        return Like(left.start, last.end, left, self.pattern(token, escape), negated)

    def pattern(self, token: Token, escape: str | None) -> Callable[[str], bool | None]:
        elements: list[Any] = []
        chars = iter(token.value)
        for char in chars:
            if char == escape:
                following = next(chars, None)
                if following is None:
                    raise self.error("the pattern ends with its escape character", token)
                elements.append(following)
            else:
                elements.append(MANY if char == "%" else ONE if char == "_" else char)
        if self.language.plain_patterns and any(
            type(element) is str and (element < " " or element == "\x7f") for element in elements
        ):
            raise self.error("control characters are not allowed in a pattern", token)
        self.weight += weight_of(elements)
        return self.language.like(elements)

    def call(self, token: Token) -> Node:
        name = token.value
        if name not in self.language.functions:
            raise self.error(
                f"{name} is a reserved word that this dialect does not support: use the dialect "
                f"oasis, or [{self.text[token.start : token.end]}] for a property of that name",
                token,
            )
        if name in _NUMBERS:
            return Literal(token.start, token.end, _NUMBERS[name])
        self.expect("(", f"( after {name}")
        self.weight += _CALL_WEIGHT
        if name == "EXISTS":
            what = self.take()
            if what.kind not in ("identifier", "qualified"):
                raise self.error("EXISTS takes a name", what)
            operand = self.identifier(what)
            return IsNull(token.start, self.expect(")", ")").end, operand, negated=True)
        arguments: list[Node] = []
        wanted = _ARITY[name]
        while len(arguments) < wanted:
            if arguments:
                self.expect(",", f"a comma: {name} takes {wanted} values")
            arguments.append(self.expression(_COMPARISON))
        last = self.expect(")", f"): {name} takes {wanted or 'no'} value{'s' * (wanted != 1)}")
        return Call(token.start, last.end, name, tuple(arguments))

    # Restrictions of JMS; some brokers evaluate what breaks them as unknown.

    def condition(self, node: Node) -> None:
        """Refuse a number or text as a condition."""
        if self.language.jms and (
            isinstance(node, (Arithmetic, Sign))
            or (isinstance(node, Literal) and type(node.value) is not bool)
        ):
            raise self.error("expected a condition, not a value", node)

    def number(self, node: Node) -> None:
        """Refuse a text, boolean or condition as a number."""
        if self.language.jms and (
            isinstance(node, (Logical, Not, Compare, Between, In, Like, IsNull))
            or (isinstance(node, Literal) and type(node.value) in (bool, str))
        ):
            raise self.error("expected a number", node)

    def ordered(self, node: Node) -> None:
        """Refuse a condition or boolean as an operand of ``<``, ``<=``, ``>`` or ``>=``."""
        if self.language.jms and (
            isinstance(node, (Logical, Not, Compare, Between, In, Like, IsNull))
            or (isinstance(node, Literal) and type(node.value) is bool)
        ):
            raise self.error("booleans are compared with = and <> only", node)
