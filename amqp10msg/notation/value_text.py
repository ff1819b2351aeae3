"""Shows values as one line of text, in terms of AMQP instead of Python."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from amqp10msg.notation._rows import scalar
from amqp10msg.notation.type_names import TYPE_NAME_BY_CLASS
from amqp10msg.sections import AmqpSequence, AmqpValue, Data
from amqp10msg.wire.primitives import Array, Described

__all__ = ["value_text"]

# Types whose values are recognisable without the name of the type.
_TYPES_SHOWN_WITHOUT_NAME = {
    "null",
    "boolean",
    "long",
    "double",
    "binary",
    "string",
    "list",
    "map",
    "timestamp",
}
# The maximum nesting depth; deeper values are shown as ….
_MAX_DEPTH = 32


def value_text(value: Any, width: int) -> str:
    """Return a value as one printable line; the cost is bounded even for large values.

    Args:
        value: a value of AMQP 1.0 or 0-9-1, or the body of a message.
        width: the maximum number of characters; a longer text is cut, and ends with ``…``.
    """
    text = _text(value, width, _MAX_DEPTH)
    return text if len(text) <= width else f"{text[: width - 1]}…"


def _text(value: Any, width: int, depth: int) -> str:
    """Return a value as text; `depth` is the number of levels that may be shown inside it."""
    if value is None:
        return "null"
    if isinstance(value, Data):
        return f"data, {scalar(bytes(value.data[: 4 * width]), width, size=len(value.data))}"
    if isinstance(value, AmqpValue):
        return f"amqp-value, {_text(value.value, width, depth)}"
    if isinstance(value, AmqpSequence):
        return f"amqp-sequence, {_list_text(value.values, width, depth)}"
    if isinstance(value, Described):
        descriptor = _text(value.descriptor, width, depth)
        return f"described by {descriptor}, {_text(value.value, width, depth)}"
    if isinstance(value, Array):
        return f"array of {value.type}, {_list_text(value.values, width, depth)}"
    if isinstance(value, (list, tuple)):
        return _list_text(value, width, depth)
    if isinstance(value, Mapping):
        return _map_text(value, width, depth)
    text = scalar(value, width)
    name = TYPE_NAME_BY_CLASS.get(type(value), "")
    return (
        f"{name} {text}" if name and name not in _TYPES_SHOWN_WITHOUT_NAME else text or str(value)
    )


def _list_text(values: Iterable[Any], width: int, depth: int) -> str:
    if not depth:
        return "[…]"
    return f"[{', '.join(_text(item, width, depth - 1) for item in islice(values, width))}]"


def _map_text(pairs: Mapping[Any, Any], width: int, depth: int) -> str:
    if not depth:
        return "{…}"
    entries = getattr(pairs, "entries", None)  # a 0-9-1 table may repeat a name
    items = (
        ((name, item) for name, _, item in entries)
        if isinstance(entries, list)
        else iter(pairs.items())
    )
    texts = (
        f"{_text(key, width, depth - 1)}: {_text(item, width, depth - 1)}"
        for key, item in islice(items, width)
    )
    return f"{{{', '.join(texts)}}}"
