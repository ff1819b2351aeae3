"""What a profile does to a message, in words."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import attrs

from amqp10msg.basic.message import BasicMessage
from amqp10msg.basic.properties import PROPERTIES
from amqp10msg.message import Message
from amqp10msg.translate.profiles import PROFILES, Circumstances, ProfileName
from amqp10msg.translate.report import Loss
from amqp10msg.wire.errors import TranslationError

_WIDTH = 100


def explain(
    message: BasicMessage | Message,
    profile: ProfileName = "lossless",
    *,
    circumstances: Circumstances | None = None,
) -> str:
    """Describe in lines of text what a message becomes on the other side, and what is lost.

    Args:
        message: of either protocol; the profile takes it to the other one.
        profile: a name of `PROFILES`.
        circumstances: what a broker's result depends on besides the message.

    Raises:
        ValueError: there is no profile of that name.
    """
    from amqp10msg.translate import to_amqp10, to_basic  # noqa: PLC0415  (they stand above)

    is_basic = isinstance(message, BasicMessage)
    target = "AMQP 1.0" if is_basic else "AMQP 0-9-1"
    try:
        made: Any = (
            to_amqp10(message, profile, circumstances=circumstances)
            if isinstance(message, BasicMessage)
            else to_basic(message, profile, circumstances=circumstances)
        )
    except TranslationError as error:
        return f"{PROFILES[profile].name}: no translation to {target}\n  {error}\n"
    lines = [f"{PROFILES[profile].name}: to {target}"]
    lines += [f"  {path}: {shown(value)}" for path, value in parts_of(made.message)]
    if not made.losses:
        lines.append("Nothing is lost.")
    else:
        is_lossy = any(loss.is_permanent for loss in made.losses)
        lines.append("Losses:" if is_lossy else "Nothing is lost for good:")
        lines += [f"  {_told(loss)}" for loss in made.losses]
    return "\n".join(lines) + "\n"


def _told(loss: Loss) -> str:
    after = "" if loss.after is None else f" -> {shown(loss.after)}"
    again = " (comes back)" if loss.recoverable else ""
    again = again or (" (the broker's)" if loss.owner == "broker" else "")
    path = loss.path or "message"
    return f"{path}: {loss.action}{again}: {shown(loss.before)}{after}: {loss.reason}"


def shown(value: Any, width: int = _WIDTH) -> str:
    """Write a value as a line, cut at a width; text that is not valid UTF-8 as its bytes."""
    from amqp10msg.notation.value_text import value_text  # noqa: PLC0415  (for people alone)

    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            with suppress(UnicodeEncodeError):  # what 0-9-1 never gives
                value = value.encode("utf-8", "surrogateescape")
    return value_text(value, width)


def parts_of(message: BasicMessage | Message) -> list[tuple[str, Any]]:
    """List what a message says: path and value, in the order of the wire."""
    found: list[tuple[str, Any]] = []
    if isinstance(message, BasicMessage):
        if message.exchange or message.routing_key:
            found += [("exchange", message.exchange), ("routing-key", message.routing_key)]
        for row in PROPERTIES:
            value = getattr(message.properties, row.name)
            if value is None:
                continue
            if row.domain == "table":
                entries = getattr(value, "entries", None)
                if entries is None:
                    entries = [(name, "", item) for name, item in value.items()]
                found += [(f"headers[{name!r}]", item) for name, _, item in entries]
            else:
                found.append((row.wire_name, value))
        found.append(("body", message.body))
        return found
    for name in ("header", "properties"):
        section = getattr(message, name)
        if section is not None:
            found += [
                (f"{name}.{field.name.replace('_', '-')}", value)
                for field in attrs.fields(type(section))
                if (value := getattr(section, field.name)) not in (None, field.default)
            ]
    for name in ("delivery_annotations", "message_annotations", "application_properties", "footer"):
        for key, value in (getattr(message, name) or {}).items():
            found.append((f"{name.replace('_', '-')}[{str(key)!r}]", value))
    found.append(("body", message.body))
    return found
