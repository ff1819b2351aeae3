"""Why an expression does not hold: the conditions that it fails on, and what they saw."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import attrs

from amqp10msg.delivery.filters._base import Reason
from amqp10msg.delivery.filters._compile import Evaluate
from amqp10msg.delivery.filters._syntax import Identifier, Logical, Node

__all__ = ["reasons_of"]


def reasons_of(
    tree: Node, compiled: Callable[[Node], Evaluate], text: str, message: Any, now: int | None
) -> tuple[Reason, ...]:
    """List the smallest conditions whose results keep a tree from being true.

    Args:
        tree: an expression that is not true of the message.
        compiled: gives the closure of a part of it.
        text: what it was parsed from.
        message: the message.
        now: the time in ms, or None.
    """
    return tuple(_reasons(tree, compiled, text, message, now))


def _reasons(
    node: Node, compiled: Callable[[Node], Evaluate], text: str, message: Any, now: int | None
) -> Iterator[Reason]:
    result = compiled(node)(message, now)
    if result is True:
        return
    if isinstance(node, Logical):
        # Of AND what is not true fails it; of OR nothing is true, or it would be.
        for operand in node.operands:
            yield from _reasons(operand, compiled, text, message, now)
        return
    seen = {identifier.name: identifier.get(message) for identifier in _identifiers(node)}
    yield Reason(
        text[node.start : node.end],
        False if result is False else None,
        tuple(seen.items()),
    )


def _identifiers(part: Any) -> Iterator[Identifier]:
    """Find the names in a part of a tree, in the order in which they stand there."""
    if isinstance(part, Identifier):
        yield part
    elif isinstance(part, tuple):
        for item in part:
            yield from _identifiers(item)
    elif isinstance(part, Node):
        for field in attrs.fields(type(part)):
            yield from _identifiers(getattr(part, field.name))
