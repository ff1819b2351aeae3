"""The tree of an expression, and what tells the two languages apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import attrs

__all__ = [
    "Arithmetic",
    "Between",
    "Call",
    "Compare",
    "Exists",
    "Getter",
    "Identifier",
    "In",
    "IsNull",
    "Like",
    "Literal",
    "Logical",
    "Node",
    "Not",
    "Sign",
    "Token",
]

#: Reads an identifier's value from a message; None where it is not set.
Getter: TypeAlias = Callable[[Any], Any]


@attrs.frozen
class Token:
    """A piece of an expression.

    Attributes:
        kind: ``identifier``, ``number``, ``string``, ``binary`` or ``end``; of a keyword or a sign
            it is the keyword in upper case or the sign itself.
        value: an identifier's name, a literal's value.
        start: index of its first character.
        end: index after its last one.
        quoted: an identifier that stood in brackets.
    """

    kind: str
    value: Any
    start: int
    end: int
    quoted: bool = False


@attrs.frozen
class Node:
    """A part of the tree; `start` and `end` say where it stands in the text."""

    start: int
    end: int


@attrs.frozen
class Literal(Node):
    """A number, text, truth value or octets."""

    value: Any


@attrs.frozen
class Identifier(Node):
    """A name; `key` is the application property that it reads, None for anything else."""

    name: str
    key: str | None
    get: Getter = attrs.field(eq=False, repr=False)


@attrs.frozen
class Logical(Node):
    """Two or more operands joined by ``AND`` or by ``OR``."""

    operator: str
    operands: tuple[Node, ...]


@attrs.frozen
class Not(Node):
    """``NOT`` an operand."""

    operand: Node


@attrs.frozen
class Compare(Node):
    """``=``, ``<>``, ``<``, ``<=``, ``>`` or ``>=`` between two operands."""

    operator: str
    left: Node
    right: Node


@attrs.frozen
class Between(Node):
    """An operand ``[NOT] BETWEEN`` two bounds, which are included."""

    operand: Node
    low: Node
    high: Node
    negated: bool


@attrs.frozen
class In(Node):
    """An operand ``[NOT] IN`` a list."""

    operand: Node
    items: tuple[Node, ...]
    negated: bool


@attrs.frozen
class Like(Node):
    """An operand ``[NOT] LIKE`` a pattern."""

    operand: Node
    match: Callable[[str], bool] = attrs.field(eq=False, repr=False)
    negated: bool


@attrs.frozen
class IsNull(Node):
    """An identifier ``IS [NOT] NULL``."""

    operand: Node
    negated: bool


@attrs.frozen
class Exists(Node):
    """``EXISTS(identifier)``."""

    operand: Node


@attrs.frozen
class Sign(Node):
    """A plus or minus in front of an operand."""

    operator: str
    operand: Node


@attrs.frozen
class Arithmetic(Node):
    """Operands joined by operators of one precedence, from left to right."""

    first: Node
    rest: tuple[tuple[str, Node], ...]


@attrs.frozen
class Call(Node):
    """A function of some arguments."""

    function: str
    arguments: tuple[Node, ...]
