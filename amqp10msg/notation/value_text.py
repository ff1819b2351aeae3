"""Values as a line of text for people: AMQP's words, and nothing that only Python would write."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from amqp10msg.notation._rows import scalar
from amqp10msg.notation.type_names import TYPES
from amqp10msg.sections import AmqpSequence, AmqpValue, Data
from amqp10msg.wire.primitives import Array, Described

__all__ = ["value_text"]

# Types whose values are told from others without the name.
_PLAIN = {"null", "boolean", "long", "double", "binary", "string", "list", "map", "timestamp"}
# Deeper values are left out, and all of a list or map that cannot be in the text anyway.
_DEPTH = 32


def value_text(value: Any, width: int) -> str:
    """Write a value, however large, as one printable line.

    Args:
        value: of AMQP 1.0 or 0-9-1, or a body of a message.
        width: characters at most; what is cut off is ``…``.
    """
    text = _text(value, width, _DEPTH)
    return text if len(text) <= width else f"{text[: width - 1]}…"


def _text(value: Any, width: int, depth: int) -> str:
    if value is None:
        return "null"
    if isinstance(value, Data):
        return f"data, {scalar(bytes(value.data[: 4 * width]), width, size=len(value.data))}"
    if isinstance(value, AmqpValue):
        return f"amqp-value, {_text(value.value, width, depth)}"
    if isinstance(value, AmqpSequence):
        return f"amqp-sequence, {_listed(value.values, width, depth)}"
    if isinstance(value, Described):
        descriptor = _text(value.descriptor, width, depth)
        return f"described by {descriptor}, {_text(value.value, width, depth)}"
    if isinstance(value, Array):
        return f"array of {value.type}, {_listed(value.values, width, depth)}"
    if isinstance(value, (list, tuple)):
        return _listed(value, width, depth)
    if isinstance(value, Mapping):
        return _mapped(value, width, depth)
    text = scalar(value, width)
    name = TYPES.get(type(value), "")
    return f"{name} {text}" if name and name not in _PLAIN else text or str(value)


def _listed(values: Iterable[Any], width: int, depth: int) -> str:
    if not depth:
        return "[…]"
    return f"[{', '.join(_text(one, width, depth - 1) for one in islice(values, width))}]"


def _mapped(pairs: Mapping[Any, Any], width: int, depth: int) -> str:
    if not depth:
        return "{…}"
    entries = getattr(pairs, "entries", None)  # a table of 0-9-1 may have a name several times
    found = (
        ((name, item) for name, _, item in entries)
        if isinstance(entries, list)
        else iter(pairs.items())
    )
    shown = (
        f"{_text(key, width, depth - 1)}: {_text(item, width, depth - 1)}"
        for key, item in islice(found, width)
    )
    return f"{{{', '.join(shown)}}}"
