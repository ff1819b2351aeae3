"""Why an expression is not true: the conditions that fail, and the values they see."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import attrs

from amqp10msg.delivery.filters._base import Reason
from amqp10msg.delivery.filters._evaluators import Evaluator, value_of
from amqp10msg.delivery.filters._syntax import Identifier, Logical, Node


def reasons_of(
    node: Node, compiled: Callable[[Node], Evaluator], text: str, message: Any, now: int | None
) -> Iterator[Reason]:
    """Find the smallest conditions that keep an expression from being true.

    Args:
        node: the syntax tree of the expression, or a part of it.
        compiled: returns what evaluates a part.
        text: the text that was parsed.
        message: the message.
        now: the time in ms since the Unix epoch, or None.
    """
    result = value_of(compiled(node), message, now)
    if result is True:
        return
    if isinstance(node, Logical):
        # In a failed AND the operands that are not true are at fault, in a failed OR all are.
        for operand in node.operands:
            yield from reasons_of(operand, compiled, text, message, now)
        return
    seen = {
        identifier.name: value_of(identifier.read, message, now)
        for identifier in _identifiers(node)
    }
    yield Reason(
        text[node.start : node.end], False if result is False else None, tuple(seen.items())
    )


def _identifiers(part: Any) -> Iterator[Identifier]:
    """Find the identifiers in a part of a tree, in the order of the text."""
    if isinstance(part, Identifier):
        yield part
    elif isinstance(part, tuple):
        for item in part:
            yield from _identifiers(item)
    elif isinstance(part, Node):
        for field in attrs.fields(type(part)):
            yield from _identifiers(getattr(part, field.name))
