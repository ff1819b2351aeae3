"""Translates single messages with the compiled engine of `batches`, without building batches."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from typing import Any, TypeAlias

from amqp10msg.basic.message import BasicMessage
from amqp10msg.basic.properties import PROPERTIES
from amqp10msg.message import Message
from amqp10msg.translate.batches import kernel
from amqp10msg.translate.circumstances import DEFAULT_CIRCUMSTANCES, Circumstances
from amqp10msg.translate.losses import TO_AMQP10_LOSSES
from amqp10msg.translate.report import Loss, Notes, Translation, lazy_translation
from amqp10msg.translate.to_amqp10_rules import AFTER_NUMBERS
from amqp10msg.wire.errors import EncodeError

_PROPERTY_PATHS = [f"properties.{row.wire_name}" for row in PROPERTIES]
# The engine's number for what a loss is about: the index of a property, `_REDELIVERED_SUBJECT`, or
# `_FIRST_HEADER_SUBJECT` plus the index of a header.
_REDELIVERED_SUBJECT = len(PROPERTIES)
_FIRST_HEADER_SUBJECT = _REDELIVERED_SUBJECT + 1
_TO_AMQP10_LOSS_RULES = list(TO_AMQP10_LOSSES.values())


# An engine must be used by one thread at a time. The GIL ensures this, so all threads share the
# engines. Without the GIL, each thread has its own engines. An engine uses about 50 KB.
_HAS_GIL: bool = getattr(sys, "_is_gil_enabled", lambda: True)()


@functools.lru_cache(maxsize=32 if _HAS_GIL else 256)
def _engine(to: str, profile: str, user: str | None, _: int) -> Any:
    """Return a cached engine, or None like `kernel`; `_` is the id of its thread, 0 for all."""
    return kernel(to, profile, circumstances=Circumstances(user=user))


@functools.cache
def _shared_lossless_engine(to: str) -> Any:
    """Return the engine of the profile lossless for all threads: quicker than `_engine`."""
    return _engine(to, "lossless", None, 0)


def _engine_for(to: str, profile: str, circumstances: Circumstances) -> Any:
    """Return this thread's engine, or None if no engine supports these circumstances."""
    if profile == "lossless" and _HAS_GIL:
        return _shared_lossless_engine(to)
    if profile == "lossless":
        return _engine(to, profile, None, threading.get_ident())
    if circumstances is not DEFAULT_CIRCUMSTANCES and not circumstances.is_first_delivery:
        return None
    return _engine(to, profile, circumstances.user, 0 if _HAS_GIL else threading.get_ident())


def translate_by_engine(
    basic: BasicMessage,
    profile: str,
    notes: Notes,
    circumstances: Circumstances = DEFAULT_CIRCUMSTANCES,
) -> bytes | None:
    """Translate a 0-9-1 message to an encoded 1.0 message; None if the engine does not support it.

    Args:
        basic: the message.
        profile: a name of `PROFILES`.
        notes: receives the losses.
        circumstances: further inputs of a broker's translation.
    """
    engine = _engine_for("1.0", profile, circumstances)
    if engine is None or type(basic.redelivered) is not bool:
        return None
    try:
        result = engine.translate_one(basic)
    except (AttributeError, TypeError, UnicodeEncodeError, EncodeError):
        return None  # the plain rules raise a better error
    if result is None:
        return None
    octets: bytes
    (octets, losses), originals = result
    if losses and notes.enabled:
        notes.find_losses = _make_losses, losses, *originals
    return octets


def encoded_translation(
    content: tuple[bytes, bytes, str, str, bool], profile: str, circumstances: Circumstances
) -> tuple[bytes, list[Any]] | None:
    """Translate an encoded 0-9-1 message to 1.0; None if the engine does not support it.

    Args:
        content: the content header, body, exchange, routing key and redelivered flag.
        profile: a name of `PROFILES`.
        circumstances: further inputs of a broker's translation.

    Returns:
        The encoded 1.0 message, and its losses as the engine's numbers.
    """
    engine = _engine_for("1.0", profile, circumstances)
    *_, redelivered = content
    if engine is None or type(redelivered) is not bool:
        return None
    try:
        return engine.encoded(*content)  # type: ignore[no-any-return]  # a compiled function
    except (AttributeError, TypeError, UnicodeEncodeError):
        return None  # the plain rules raise a better error


#: A function that returns the losses of an encoded 1.0 message by the plain rules. Its arguments
#: are the name of the profile, the circumstances and the message.
FindLosses: TypeAlias = Callable[[str, Circumstances, bytes], tuple[Loss, ...]]


def basic_translation(
    message: Message, profile: str, circumstances: Circumstances, find_losses: FindLosses
) -> tuple[Translation[BasicMessage], bool] | None:
    """Translate a 1.0 message to a 0-9-1 message; None if the engine does not support it.

    Args:
        message: the message.
        profile: a name of `PROFILES`.
        circumstances: further inputs of a broker's translation.
        find_losses: computes the losses when they are first read.

    Returns:
        The translation, and whether all losses are recoverable.
    """
    if type(message) is not Message or message._lenient or message.message_format:
        return None
    return encoded_basic_translation(message.encode(), profile, circumstances, find_losses)


def encoded_basic_translation(
    wire: bytes,
    profile: str,
    circumstances: Circumstances,
    find_losses: FindLosses,
    encoded_class: type[tuple[Any, ...]] | None = None,
) -> tuple[Translation[Any], bool] | None:
    """Translate an encoded 1.0 message; None if the engine does not support it.

    Args:
        wire: the message.
        profile: a name of `PROFILES`.
        circumstances: further inputs of a broker's translation.
        find_losses: computes the losses when they are first read.
        encoded_class: the class of an encoded 0-9-1 message: a tuple of content header, body,
            exchange, routing key and redelivered flag. None to return a `BasicMessage`.

    Returns:
        The translation, and whether all losses are recoverable.
    """
    engine = _engine_for("0-9-1", profile, circumstances)
    result = None if engine is None else engine.translate_one(wire, encoded_class)
    if result is None:
        return None
    message, count, is_recoverable = result
    if count:
        losses = find_losses, profile, circumstances, wire
        return lazy_translation(message, losses), is_recoverable
    return Translation(message), True


def _make_losses(losses: list[Any], values: Any, entries: Any) -> tuple[Loss, ...]:
    """Convert losses from the engine's numbers to `Loss` objects.

    `values` are the properties of the 0-9-1 message, `entries` its headers.
    """
    return tuple([_make_loss(values, entries, *loss) for loss in losses])


def _make_loss(values: Any, entries: Any, subject: int, number: int, after: int) -> Loss:
    """Convert a loss from the engine's numbers to a `Loss`.

    Args:
        values: the properties of the 0-9-1 message.
        entries: the entries of its headers.
        subject: the index of a property, `_REDELIVERED_SUBJECT`, or `_FIRST_HEADER_SUBJECT` plus
            the index of a header.
        number: the index of the kind of loss in `TO_AMQP10_LOSSES`.
        after: the kind of the translated value, a number of `AFTER_NUMBERS`.
    """
    action, reason, recoverable = _TO_AMQP10_LOSS_RULES[number]
    if subject < _REDELIVERED_SUBJECT:
        path, original = _PROPERTY_PATHS[subject], values[subject]
    elif subject == _REDELIVERED_SUBJECT:
        path, original = "redelivered", True
    else:
        name, _, original = entries[subject - _FIRST_HEADER_SUBJECT]
        path = f"headers[{name!r}]"
        if after == AFTER_NUMBERS["binary"]:
            original = "S"
    translated_value = {
        AFTER_NUMBERS["same"]: original,
        AFTER_NUMBERS["one"]: 1,
        AFTER_NUMBERS["binary"]: "binary",
    }.get(after)
    return Loss(path, action, original, translated_value, reason, recoverable)
