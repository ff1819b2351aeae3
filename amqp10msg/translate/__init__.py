"""AMQP 0-9-1 messages as 1.0 messages and back: exactly reversible, or as a broker does it.

    from amqp10msg.basic import BasicMessage, BasicProperties
    from amqp10msg.translate import to_amqp10, to_basic

    made = to_amqp10(BasicMessage(BasicProperties(message_id="m-1"), b"hello"))
    made.message                      # an amqp10msg.Message
    to_basic(made.message).message    # the BasicMessage again
    to_amqp10(basic, "rabbitmq-4.3")  # what that broker would deliver, and what it loses

Functions of their arguments alone: no clock, no network.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from amqp10msg.basic.message import BasicMessage, how_to_make_of
from amqp10msg.basic.properties import encode_properties
from amqp10msg.message import Message
from amqp10msg.translate._published import as_published
from amqp10msg.translate._single import basic_translation
from amqp10msg.translate.account import explain
from amqp10msg.translate.circumstances import Circumstances, Death
from amqp10msg.translate.profiles import PROFILES, ProfileName, TranslationProfile
from amqp10msg.translate.report import Action, Loss, Notes, Translation
from amqp10msg.wire.errors import TranslationError, expect
from amqp10msg.wire.limits import UNLIMITED

__all__ = [
    "PROFILES",
    "Action",
    "Circumstances",
    "Death",
    "Loss",
    "ProfileName",
    "Translation",
    "TranslationError",
    "TranslationProfile",
    "as_published",
    "explain",
    "to_amqp10",
    "to_basic",
]

_USUAL = Circumstances()


def to_amqp10(
    basic: BasicMessage,
    profile: ProfileName | TranslationProfile = "lossless",
    *,
    strict: bool = False,
    circumstances: Circumstances | None = None,
) -> Translation[Message]:
    """Translate a message of class basic to AMQP 1.0.

    Args:
        basic: the message; exchange and routing key are those it was published with.
        profile: one of `PROFILES`, or its name.
        strict: refuse a message of which something would be lost for good.
        circumstances: what a broker's result depends on besides the message.

    Returns:
        The 1.0 message and the losses.

    Raises:
        TranslationError: the profile's broker refuses the message or fails on it; in strict mode
            also a loss that translating back does not make good. Never in the profile lossless
            without `strict`.
        EncodeError: the message was built with values that AMQP 0-9-1 cannot hold.
        ValueError: there is no profile of that name.
        TypeError: that is another kind of message.
    """
    notes = Notes()
    bridge = _bridge(profile)
    try:
        made = bridge.to_amqp10(basic, notes, circumstances or _USUAL)
    except RecursionError:
        raise TranslationError("", "values are nested too deeply") from None
    except (AttributeError, TypeError):
        how = {Message: "to_basic translates the other way", object: how_to_make_of(basic)}
        expect(basic, BasicMessage, "to_amqp10", "a BasicMessage", how)
        encode_properties(basic.properties)  # raises where a property is of a wrong type
        raise
    return notes.translation(made, strict)


def to_basic(
    message: Message,
    profile: ProfileName | TranslationProfile = "lossless",
    *,
    strict: bool = False,
    circumstances: Circumstances | None = None,
) -> Translation[BasicMessage]:
    """Translate a 1.0 message to a message of class basic.

    Args:
        message: the message.
        profile: one of `PROFILES`, or its name.
        strict: refuse a message of which something would be lost for good.
        circumstances: what a broker's result depends on besides the message.

    Returns:
        The 0-9-1 message and the losses.

    Raises:
        TranslationError: the profile's broker refuses the message or fails on it; in strict mode
            also a loss that translating back does not make good. Never in the profile lossless
            without `strict`.
        EncodeError: the message was built with values that cannot be encoded.
        ValueError: there is no profile of that name.
        TypeError: that is another kind of message.
    """
    notes = Notes()
    given = circumstances or _USUAL
    bridge = _bridge(profile)
    name = profile if isinstance(profile, str) else profile.name
    try:
        found = basic_translation(message, name, given, partial(_losses, bridge, given))
        if found is not None and (found[1] or not strict):
            return found[0]
        made = bridge.to_basic(message, notes, given)
    except RecursionError:
        raise TranslationError("", "values are nested too deeply") from None
    except (AttributeError, TypeError):
        how = {
            BasicMessage: "to_amqp10 translates the other way",
            bytes: "decode it, Message.decode",
        }
        expect(message, Message, "to_basic", "a Message", how)
        message.encode()  # raises where a field is of a wrong type
        raise
    return notes.translation(made, strict)


def _losses(bridge: Any, given: Circumstances, wire: bytes) -> tuple[Loss, ...]:
    """Find what an encoded message loses, by the plain rules."""
    notes = Notes()
    bridge.to_basic(Message.decode(wire, limits=UNLIMITED), notes, given)
    return tuple(notes.losses)


def _bridge(profile: ProfileName | TranslationProfile) -> Any:
    if isinstance(profile, TranslationProfile):
        return profile.bridge
    found = PROFILES.get(profile)
    if found is None:
        names = ", ".join(PROFILES.names)
        raise ValueError(f"there is no profile {profile!r}: use one of {names}")
    return found.bridge
