"""Filters exactly as RabbitMQ 4.3 evaluates them on a stream."""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Sequence
from typing import Any

from amqp10msg.delivery.filters._evaluators import Changed, Evaluator
from amqp10msg.delivery.filters._glob import MANY, ONE, Element, compile_like
from amqp10msg.delivery.filters._names import rabbitmq_name
from amqp10msg.wire.primitives import Char


def rabbitmq_43_name(name: str | tuple[str, str]) -> tuple[Evaluator, str | None]:
    """Return what reads a name, with the values that RabbitMQ sees.

    Raises:
        UnknownNameError: RabbitMQ does not have the name.
    """
    get, _ = rabbitmq_name(name)
    return Changed(get, seen), None


def seen(value: Any) -> Any:
    """Return a value as RabbitMQ sees it; None for what it does not decode."""
    if isinstance(value, Char):
        return ord(value)
    if isinstance(value, (bool, str, bytes, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, uuid.UUID):
        return value.bytes
    return bytes(value) if isinstance(value, (bytearray, memoryview)) else None


def rabbitmq_43_like(pattern: Sequence[Element]) -> Callable[[str], bool | None]:
    """Return a function that matches text, or binary decoded with surrogates for wrong bytes.

    RabbitMQ compares bytes if the pattern has no ``_`` and at most one ``%``. Any other pattern is
    a regular expression of ``.`` and ``.*?`` between ``^`` and ``$``: neither wildcard matches a
    line feed, one line feed at the end is ignored, and binary that is not UTF-8 is unknown.
    """
    matches = compile_like(pattern)
    if ONE not in pattern and pattern.count(MANY) <= 1:
        return matches

    def match(text: str) -> bool | None:
        try:
            text.encode()
        except UnicodeEncodeError:
            return None
        line = text.removesuffix("\n")
        return "\n" not in line and matches(line)

    return match


def rabbitmq_43_test(
    reference: Any, prefix: str | None, suffix: str | None
) -> Callable[[Any], bool]:
    """Return a function that tests a value against the reference of a property filter.

    Strings, symbols, binary and UUIDs are their bytes, timestamps are numbers.

    Args:
        reference: the reference value.
        prefix: the prefix that the reference asks for instead of a value, or None.
        suffix: likewise, the suffix.
    """

    def octets(value: Any) -> Any:
        found = seen(value)
        return found.encode() if isinstance(found, str) else found

    if prefix is not None or suffix is not None:
        first, last = (prefix or "").encode(), (suffix or "").encode()

        def test_affix(value: Any) -> bool:
            found = octets(value)
            return isinstance(found, bytes) and found.startswith(first) and found.endswith(last)

        return test_affix
    wanted = octets(reference)

    def test(value: Any) -> bool:
        found = octets(value)
        if found is None:
            return False
        if reference is None:
            return True
        is_same_kind = isinstance(found, bool) is isinstance(wanted, bool)
        return is_same_kind and bool(found == wanted)

    return test
