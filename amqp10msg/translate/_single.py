"""Single messages by the engine that translates batches, bytes in and bytes out."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

from amqp10msg.basic.message import BasicMessage
from amqp10msg.basic.properties import PROPERTIES
from amqp10msg.message import Message
from amqp10msg.translate.batches import kernel
from amqp10msg.translate.circumstances import USUAL, Circumstances
from amqp10msg.translate.losses import TO_AMQP10_LOSSES
from amqp10msg.translate.report import Loss, Notes, Translation, unread
from amqp10msg.translate.to_amqp10_rules import AFTER
from amqp10msg.wire.errors import EncodeError

_PATHS = [f"properties.{row.wire_name}" for row in PROPERTIES]
# What a loss is about, besides the properties by their numbers.
_REDELIVERED = len(PROPERTIES)
_FIRST_HEADER = _REDELIVERED + 1
_LOSSES = list(TO_AMQP10_LOSSES.values())


# One thread at a time uses an engine. With the GIL they take turns; without it, each thread has
# engines of its own. An engine takes some 50 KB.
_HAS_GIL: bool = getattr(sys, "_is_gil_enabled", lambda: True)()
_thread: Callable[[], int] = int if _HAS_GIL else threading.get_ident


@functools.lru_cache(maxsize=32 if _HAS_GIL else 256)
def _engine(to: str, profile: str, user: str | None, _: int) -> Any:
    return kernel(to, profile, circumstances=Circumstances(user=user))


def _engine_for(to: str, profile: str, given: Circumstances) -> Any:
    """Return the engine for a message under these circumstances, None where there is none."""
    if profile == "lossless":
        return _engine(to, profile, None, _thread())
    if given is not USUAL and not given.is_first_delivery:
        return None
    return _engine(to, profile, given.user, _thread())


def translated(
    basic: BasicMessage, profile: str, notes: Notes, given: Circumstances = USUAL
) -> bytes | None:
    """Translate a message to an encoded one of 1.0; None where the engine does not know it.

    Args:
        basic: the message.
        profile: a name of `PROFILES`.
        notes: takes the losses.
        given: what a broker's result depends on besides the message.
    """
    engine = _engine_for("1.0", profile, given)
    if engine is None or type(basic.redelivered) is not bool:
        return None
    try:
        made = engine.one(basic)
    except (AttributeError, TypeError, UnicodeEncodeError, EncodeError):
        return None  # the plain rules say what is wrong
    if made is None:
        return None
    octets: bytes
    (octets, losses), told = made
    if losses and notes.enabled:
        notes.unread = partial(_losses, losses, *told)
    return octets


def encoded_translation(
    content: tuple[bytes, bytes, str, str, bool], profile: str, given: Circumstances
) -> tuple[bytes, list[Any]] | None:
    """Translate the content of a message to an encoded one of 1.0; None where it is an odd one.

    Args:
        content: content header, body, exchange, routing key, and whether it was redelivered.
        profile: a name of `PROFILES`.
        given: what a broker's result depends on besides the message.

    Returns:
        The encoded message; and the losses, as the engine tells of them, by numbers.
    """
    engine = _engine_for("1.0", profile, given)
    *_, redelivered = content
    if engine is None or type(redelivered) is not bool:
        return None
    try:
        return engine.encoded(*content)  # type: ignore[no-any-return]  # a compiled function
    except (AttributeError, TypeError, UnicodeEncodeError):
        return None  # as above


#: Finds the losses of an encoded message by the plain rules, given profile and circumstances.
Losses: TypeAlias = Callable[[str, Circumstances, bytes], tuple[Loss, ...]]


def basic_translation(
    message: Message, profile: str, given: Circumstances, losses: Losses
) -> tuple[Translation[BasicMessage], bool] | None:
    """Translate a message of 1.0 to one of class basic; None where the engine does not know it.

    Args:
        message: the message.
        profile: a name of `PROFILES`.
        given: what a broker's result depends on besides the message.
        losses: finds the losses when they are asked for.

    Returns:
        The translation, and whether all losses are recoverable.
    """
    if type(message) is not Message or message._lenient or message.message_format:
        return None
    return encoded_basic_translation(message.encode(), profile, given, losses, False)


def encoded_basic_translation(
    wire: bytes, profile: str, given: Circumstances, losses: Losses, is_encoded: bool = True
) -> tuple[Translation[Any], bool] | None:
    """Translate an encoded message as `basic_translation` does.

    Args:
        wire: the message.
        profile: a name of `PROFILES`.
        given: what a broker's result depends on besides the message.
        losses: finds the losses when they are asked for.
        is_encoded: whether the translated message is content header, body, exchange, routing key
            and redelivered, and not a `BasicMessage`.
    """
    engine = _engine_for("0-9-1", profile, given)
    made = None if engine is None else engine.one(wire, is_encoded)
    if made is None:
        return None
    message, count, is_recoverable = made
    if count:
        return unread(message, partial(losses, profile, given, wire)), is_recoverable
    return Translation(message), True


def _losses(losses: list[Any], values: Any, entries: Any) -> tuple[Loss, ...]:
    """Return the losses that the engine told of by numbers."""
    return tuple([_loss(values, entries, *one) for one in losses])


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
