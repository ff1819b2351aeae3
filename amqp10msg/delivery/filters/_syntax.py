"""Tokens and the syntax tree of an expression."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from amqp10msg.delivery.filters._evaluators import Evaluator


@attrs.frozen
class Token:
    """A lexical token.

    Attributes:
        kind: ``identifier``, ``number``, ``string``, ``binary`` or ``end``; for a keyword or a sign
            the keyword in upper case or the sign itself.
        value: an identifier's name, a literal's value.
        start: index of its first character.
        end: index after its last character.
        quoted: whether an identifier was in brackets.
    """

    kind: str
    value: Any
    start: int
    end: int
    quoted: bool = False


@attrs.frozen
class Node:
    """A part of the tree, which spans ``text[start:end]``."""

    start: int
    end: int


@attrs.frozen
class Literal(Node):
    """A number, string, boolean or binary."""

    value: Any


@attrs.frozen
class Identifier(Node):
    """A name; `key` is the application property that it stands for, None for other names."""

    name: str
    key: str | None
    read: Evaluator = attrs.field(eq=False, repr=False)


@attrs.frozen
class Logical(Node):
    """Two or more operands joined by ``AND`` or ``OR``."""

    operator: str
    operands: tuple[Node, ...]


@attrs.frozen
class Not(Node):
    """``NOT operand``; `negated` is False for an even number of ``NOT``."""

    operand: Node
    negated: bool


@attrs.frozen
class Compare(Node):
    """``=``, ``<>``, ``<``, ``<=``, ``>`` or ``>=`` between two operands."""

    operator: str
    left: Node
    right: Node


@attrs.frozen
class Between(Node):
    """``operand [NOT] BETWEEN low AND high``, bounds included."""

    operand: Node
    low: Node
    high: Node
    negated: bool


@attrs.frozen
class In(Node):
    """``operand [NOT] IN (items)``."""

    operand: Node
    items: tuple[Node, ...]
    negated: bool


@attrs.frozen
class Like(Node):
    """``operand [NOT] LIKE pattern``."""

    operand: Node
    match: Callable[[str], bool | None] = attrs.field(eq=False, repr=False)
    negated: bool


@attrs.frozen
class IsNull(Node):
    """``operand IS [NOT] NULL``."""

    operand: Node
    negated: bool


@attrs.frozen
class Sign(Node):
    """A sign before an operand."""

    operator: str
    operand: Node


@attrs.frozen
class Arithmetic(Node):
    """Operands joined by operators of one precedence, evaluated from left to right."""

    first: Node
    rest: tuple[tuple[str, Node], ...]


@attrs.frozen
class Call(Node):
    """A function call."""

    function: str
    arguments: tuple[Node, ...]
