"""Single messages by the engine that translates batches, bytes in and bytes out."""

from __future__ import annotations

import functools
from collections.abc import Callable
from functools import partial
from typing import Any

from amqp10msg.basic.message import BasicMessage
from amqp10msg.basic.properties import PROPERTIES
from amqp10msg.message import Message
from amqp10msg.translate.batches import kernel
from amqp10msg.translate.circumstances import Circumstances
from amqp10msg.translate.report import Loss, Notes, Translation, unread
from amqp10msg.translate.to_amqp10_rules import AFTER, TO_AMQP10_LOSSES
from amqp10msg.wire.errors import EncodeError

_PATHS = [f"properties.{row.wire_name}" for row in PROPERTIES]
# What a loss is about, besides the properties by their numbers.
_REDELIVERED = len(PROPERTIES)
_FIRST_HEADER = _REDELIVERED + 1
_LOSSES = list(TO_AMQP10_LOSSES.values())
_USUAL = Circumstances()


# An engine takes some 50 KB, so all of them 1.6 MB.
@functools.lru_cache(maxsize=32)
def _engine(to: str, profile: str, user: str | None) -> Any:
    return kernel(to, profile, circumstances=Circumstances(user=user))


def _engine_for(to: str, profile: str, given: Circumstances) -> Any:
    """Return the engine for a message under these circumstances, None where there is none."""
    if given is _USUAL or profile == "lossless":
        return _engine(to, profile, None)
    if not given.is_first_delivery:
        return None
    return _engine(to, profile, given.user)


def translated(
    basic: BasicMessage, profile: str, notes: Notes, given: Circumstances = _USUAL
) -> bytes | None:
    """Translate a message to an encoded one of 1.0; None where the engine does not know it.

    Args:
        basic: the message.
        profile: a name of `PROFILES`.
        notes: takes the losses.
        given: what a broker's result depends on besides the message.
    """
    engine = _engine_for("1.0", profile, given)
    if engine is None:
        return None
    try:
        made = engine.one(basic)
    except (AttributeError, TypeError, UnicodeEncodeError, EncodeError):
        return None  # the plain rules say what is wrong
    if made is None:
        return None
    octets: bytes = made[0]
    if made[1] is not None and notes.enabled:
        told, values, entries = made[1]
        notes.losses += [_loss(values, entries, *one) for one in told]
    return octets


def basic_translation(
    message: Message,
    profile: str,
    given: Circumstances,
    losses: Callable[[bytes], tuple[Loss, ...]],
) -> tuple[Translation[BasicMessage], bool] | None:
    """Translate a message of 1.0 to one of class basic; None where the engine does not know it.

    Args:
        message: the message.
        profile: a name of `PROFILES`.
        given: what a broker's result depends on besides the message.
        losses: finds the losses of an encoded message by the plain rules, when they are asked for.

    Returns:
        The translation, and whether all losses are recoverable.
    """
    if type(message) is not Message or message._lenient or message.message_format:
        return None
    engine = _engine_for("0-9-1", profile, given)
    if engine is None:
        return None
    wire = message.encode()
    made = engine.one(wire)
    if made is None:
        return None
    basic, count, is_recoverable = made
    if count:
        return unread(basic, partial(losses, wire)), is_recoverable
    return Translation(basic), True


def _loss(values: Any, entries: Any, about: int, number: int, after: int) -> Loss:
    """Return a loss that the engine told of by numbers."""
    action, reason, recoverable = _LOSSES[number]
    if about < _REDELIVERED:
        path, before = _PATHS[about], values[about]
    elif about == _REDELIVERED:
        path, before = "redelivered", True
    else:
        name, _, before = entries[about - _FIRST_HEADER]
        path = f"headers[{name!r}]"
        if after == AFTER["binary"]:
            before = "S"
    stands = {AFTER["same"]: before, AFTER["one"]: 1, AFTER["binary"]: "binary"}.get(after)
    return Loss(path, action, before, stands, reason, recoverable)
