"""Describes the translation of a message and its losses as text."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import attrs

from amqp10msg.basic.message import BasicMessage
from amqp10msg.basic.properties import PROPERTIES
from amqp10msg.message import Message
from amqp10msg.translate.report import Loss, Translation

#: Maximum length of a formatted value, in characters.
_MAX_VALUE_LENGTH = 100


def describe_translation(profile: str, translation: Translation[Any]) -> str:
    """Describe the result of a translation with the profile of this name, as lines."""
    is_basic = isinstance(translation.message, BasicMessage)
    lines = [f"{profile}: to {'AMQP 0-9-1' if is_basic else 'AMQP 1.0'}"]
    lines += [f"  {path}: {format_value(value)}" for path, value in parts_of(translation.message)]
    if not translation.losses:
        lines.append("Nothing is lost.")
    else:
        is_lossy = any(loss.is_permanent for loss in translation.losses)
        lines.append("Losses:" if is_lossy else "Nothing is lost for good:")
        lines += [f"  {_describe(loss)}" for loss in translation.losses]
    return "\n".join(lines) + "\n"


def _describe(loss: Loss) -> str:
    """Describe a loss as a line: path, action, value, translated value and reason."""
    after = "" if loss.after is None else f" -> {format_value(loss.after)}"
    note = " (comes back)" if loss.recoverable else ""
    note = note or (" (the broker's)" if loss.owner == "broker" else "")
    path = loss.path or "message"
    return f"{path}: {loss.action}{note}: {format_value(loss.before)}{after}: {loss.reason}"


def format_value(value: Any, width: int = _MAX_VALUE_LENGTH) -> str:
    """Format a value as a line of at most `width` characters; text that is not UTF-8 as bytes."""
    from amqp10msg.notation.value_text import value_text  # noqa: PLC0415  (only for display)

    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            with suppress(UnicodeEncodeError):  # fails for surrogates that do not stand for bytes
                value = value.encode("utf-8", "surrogateescape")
    return value_text(value, width)


def parts_of(message: BasicMessage | Message) -> list[tuple[str, Any]]:
    """Return the path and value of each part of a message, in wire order, except unset fields."""
    parts: list[tuple[str, Any]] = []
    if isinstance(message, BasicMessage):
        if message.exchange or message.routing_key:
            parts += [("exchange", message.exchange), ("routing-key", message.routing_key)]
        for row in PROPERTIES:
            value = getattr(message.properties, row.name)
            if value is None:
                continue
            if row.domain == "table":
                entries = getattr(value, "entries", None)
                if entries is None:
                    entries = [(name, "", item) for name, item in value.items()]
                parts += [(f"headers[{name!r}]", item) for name, _, item in entries]
            else:
                parts.append((row.wire_name, value))
        parts.append(("body", message.body))
        return parts
    for name in ("header", "properties"):
        section = getattr(message, name)
        if section is not None:
            parts += [
                (f"{name}.{field.name.replace('_', '-')}", value)
                for field in attrs.fields(type(section))
                if (value := getattr(section, field.name)) not in (None, field.default)
            ]
    for name in ("delivery_annotations", "message_annotations", "application_properties", "footer"):
        for key, value in (getattr(message, name) or {}).items():
            parts.append((f"{name.replace('_', '-')}[{str(key)!r}]", value))
    parts.append(("body", message.body))
    return parts
