"""The values of headers that RabbitMQ 4 makes of those of a 1.0 message."""

from __future__ import annotations

from typing import Any

from amqp10msg.basic import FieldArray, FieldTable
from amqp10msg.translate.rabbitmq.fields import cut, signed, text
from amqp10msg.translate.rabbitmq.sections import (
    shown,
)
from amqp10msg.translate.rabbitmq.terms import (
    UNDEFINED,
    CrashedError,
    Term,
    check_level,
    kind_of,
    untyped,
)
from amqp10msg.translate.rabbitmq.version import BrokerVersion
from amqp10msg.translate.report import Notes
from amqp10msg.wire.primitives import Float

_LETTERS = {
    "long": "l",
    "byte": "b",
    "ubyte": "B",
    "short": "s",
    "ushort": "u",
    "uint": "i",
    "int": "I",
}


def seconds_of(value: Term, notes: Notes) -> int | None:
    """Return the timestamp of class basic that the creation-time becomes."""
    plain(value)
    if not is_kind(value, "timestamp"):
        return None
    seconds = cut(value[1])
    if seconds * 1000 != value[1] or seconds < 0:
        notes.add(
            "properties.creation-time",
            "wrapped" if seconds < 0 else "truncated",
            value[1],
            seconds % 2**64,
            "0-9-1 has whole seconds since 1970",
        )
    return seconds % 2**64


def usual_field(value: Term) -> tuple[str, Any] | None:
    """Return letter and value of a header of a usual type, None for any other."""
    if not isinstance(value, tuple):
        return ("t", value) if isinstance(value, bool) else None
    kind = value[0]
    if kind == "utf8":
        return "S", text(value[1])
    letter = _LETTERS.get(kind)
    if letter is not None:
        return letter, value[1]
    if kind == "double":
        return "d", untyped(value)
    return ("f", Float(untyped(value))) if kind == "float" else None


def field_of(
    broker: BrokerVersion, value: Term, path: str, notes: Notes, level: int = 0
) -> tuple[str, Any]:
    """Return letter and value of a header, or of a field in so many others."""
    if is_kind(value, "map"):
        return "F", _table(broker, value[1], path, notes, True, level)
    if is_kind(value, "list") or is_kind(value, "array"):
        items = [item for item in value[-1] if not (broker.drops_unread and is_kind(item, "as_is"))]
        if len(items) != len(value[-1]):
            notes.add(path, "dropped", len(value[-1]), len(items), "elements left out")
        return "A", _array(broker, items, path, notes, level)
    if is_kind(value, "ulong"):
        if value[1] >= 2**63:
            notes.add(path, "wrapped", value[1], value[1] - 2**64, "no unsigned 64-bit number")
        return "l", signed(value[1])
    return _scalar(value, path, notes)


def _table(
    broker: BrokerVersion, pairs: list[Any], path: str, notes: Notes, top: bool, level: int
) -> FieldTable:
    check_level(level)
    entries = []
    for key, value in pairs:
        if top and broker.drops_unread and (is_kind(key, "as_is") or is_kind(value, "as_is")):
            notes.dropped(path, shown(value), "the broker cannot read the value")
            continue
        # An empty list or map is no text, but it has no characters either.
        name = b"" if (is_kind(key, "list") or is_kind(key, "map")) and not key[1] else plain(key)
        if not isinstance(name, bytes) or len(name) > 255:
            raise CrashedError("the consumer's connection dies (541): no name of a field", path)
        inner = f"{path}[{shown(key)}]"
        letter, made = field_of(broker, value, inner, notes, level + 1)
        entries.append((text(name), letter, made))
    return FieldTable.of(entries)


def _array(
    broker: BrokerVersion, items: list[Any], path: str, notes: Notes, level: int
) -> FieldArray:
    check_level(level)
    return FieldArray.of([_element(broker, item, path, notes, level + 1) for item in items])


def _element(
    broker: BrokerVersion, value: Term, path: str, notes: Notes, level: int
) -> tuple[str, Any]:
    if is_kind(value, "list"):
        return "A", _array(broker, value[1], path, notes, level)
    if is_kind(value, "map"):
        return "F", _table(broker, value[1], path, notes, False, level)
    return _scalar(value, path, notes)


def _scalar(value: Term, path: str, notes: Notes) -> tuple[str, Any]:
    if value is None or value is UNDEFINED:
        return "V", None
    if isinstance(value, bool):
        return "t", value
    kind = value[0]
    if kind in {"utf8", "symbol", "binary"}:
        if kind != "utf8":
            notes.add(path, "retyped", kind, "S", f"a {kind} becomes a long string")
        return "S", text(value[1])
    if kind in _LETTERS:
        return _LETTERS[kind], value[1]
    if kind == "float":
        return "f", Float(untyped(value))
    if kind == "double":
        return "d", untyped(value)
    if kind == "timestamp":
        seconds = cut(value[1])
        if seconds * 1000 != value[1] or seconds < 0:
            notes.add(path, "truncated", value[1], seconds, "0-9-1 has whole seconds")
        return "T", seconds % 2**64
    raise CrashedError(f"the consumer's connection dies (541): no header holds {kind}", path)


def is_kind(value: Term, kind: str) -> bool:
    """Whether a value is of a type."""
    return kind_of(value) == kind


def plain(value: Term) -> Any:
    """Return a value without its type, as the broker does without looking at the type."""
    if value is None:
        return None
    if not isinstance(value, tuple) or len(value) != 2:
        raise CrashedError("the broker cannot take the value out of its type")
    return cut(value[1]) if value[0] == "timestamp" else untyped(value)


def short_string(value: Term, name: str, notes: Notes) -> bytes | None:
    """Return a property of class basic from a string of 255 bytes at most, None from any other."""
    if value is None:
        return None
    if is_kind(value, "utf8") and len(value[1]) < 256:
        return bytes(value[1])
    notes.dropped(f"properties.{name}", shown(value), "no short string")
    return None
