"""AMQP 0-9-1 messages as 1.0 messages and back: exactly reversible, or as a broker does it.

    from amqp10msg.basic import BasicMessage, BasicProperties
    from amqp10msg.translate import to_amqp10, to_basic

    made = to_amqp10(BasicMessage(BasicProperties(message_id="m-1"), b"hello"))
    made.message                      # an amqp10msg.Message
    to_basic(made.message).message    # the BasicMessage again
    to_amqp10(basic, "rabbitmq-4.3")  # what that broker would deliver, and what it loses

`encoded_to_amqp10` and `encoded_to_basic` do the same with encoded messages, and make no objects of
the usual ones on the way.

Functions of their arguments alone: no clock, no network.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from amqp10msg.basic.message import (
    BasicMessage,
    as_encoded,
    conversion_hint,
    decode_content_header,
    encode_content_header,
)
from amqp10msg.basic.properties import encode_properties
from amqp10msg.message import Message
from amqp10msg.translate._published import as_published
from amqp10msg.translate._single import (
    basic_translation,
    encoded_basic_translation,
    encoded_translation,
)
from amqp10msg.translate.account import explain
from amqp10msg.translate.circumstances import USUAL, Circumstances, Death
from amqp10msg.translate.profiles import PROFILES, ProfileName, TranslationProfile
from amqp10msg.translate.report import Action, Loss, Notes, Owner, Translation, unread
from amqp10msg.wire.errors import AmqpError, DecodeError, TranslationError, as_bytes, expect
from amqp10msg.wire.limits import UNLIMITED

__all__ = [
    "PROFILES",
    "Action",
    "Circumstances",
    "Death",
    "EncodedBasic",
    "Loss",
    "Owner",
    "ProfileName",
    "Translation",
    "TranslationError",
    "TranslationProfile",
    "as_published",
    "encoded_to_amqp10",
    "encoded_to_basic",
    "explain",
    "to_amqp10",
    "to_basic",
]


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
        strict: refuse a message of which data of the sender would be lost for good.
        circumstances: what a broker's result depends on besides the message.

    Returns:
        The 1.0 message and the losses.

    Raises:
        TranslationError: the profile's broker refuses the message or fails on it; in strict mode
            also a permanent loss (`Loss.is_permanent`). Never in the profile lossless
            without `strict`.
        EncodeError: the message was built with a value that AMQP 0-9-1 cannot hold; the error's
            path says which.
        ValueError: there is no profile of that name.
        TypeError: that is another kind of message.
    """
    notes = Notes()
    bridge = _bridge(profile)
    try:
        made = bridge.to_amqp10(basic, notes, circumstances or USUAL)
    except RecursionError:
        raise TranslationError("", "values are nested too deeply") from None
    except AmqpError:
        raise
    except (ArithmeticError, AttributeError, TypeError, ValueError):
        how = {Message: "to_basic translates the other way", object: conversion_hint(basic)}
        expect(basic, BasicMessage, "to_amqp10", "a BasicMessage", how)
        encode_properties(basic.properties)  # raises where 0-9-1 cannot hold a property
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
        strict: refuse a message of which data of the sender would be lost for good.
        circumstances: what a broker's result depends on besides the message.

    Returns:
        The 0-9-1 message and the losses.

    Raises:
        TranslationError: the profile's broker refuses the message or fails on it; in strict mode
            also a permanent loss (`Loss.is_permanent`). Never in the profile lossless
            without `strict`.
        EncodeError: the message was built with values that cannot be encoded.
        ValueError: there is no profile of that name.
        TypeError: that is another kind of message.
    """
    given = circumstances or USUAL
    name = _name_of(profile)
    notes = Notes()
    try:
        found = basic_translation(message, name, given, _losses)
        if found is not None and (found[1] or not strict):
            return found[0]
        made = _bridge(profile).to_basic(message, notes, given)
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


class EncodedBasic(NamedTuple):
    """The content of a message of class basic, and what a method says of it (0-9-1, 4.2.6).

    Attributes:
        content_header: the payload of the content header frame.
        body: the payloads of the body frames, joined.
        exchange: the exchange that it was published to, "" where nothing says it.
        routing_key: the key that it was published with, "" where nothing says it.
        redelivered: it may have been delivered before.
    """

    content_header: bytes
    body: bytes
    exchange: str = ""
    routing_key: str = ""
    redelivered: bool = False

    @classmethod
    def of(cls, basic: BasicMessage) -> EncodedBasic:
        """Encode a message.

        Raises:
            EncodeError: a value does not fit; the error's path says which.
        """
        expect(basic, BasicMessage, "EncodedBasic.of", "a BasicMessage")
        basic = as_encoded(basic)
        header = encode_content_header(basic.properties, len(basic.body))
        return cls(header, basic.body, basic.exchange, basic.routing_key, basic.redelivered)

    def decode(self) -> BasicMessage:
        """Decode the content header.

        Raises:
            DecodeError: it cannot be read, or is that of a body of another size.
            TypeError: the body is not bytes.
        """
        expect(self.body, (bytes, bytearray, memoryview), "the body of an EncodedBasic", "bytes")
        header = decode_content_header(self.content_header)
        if header.weight:
            text = f"the weight must be 0, and is {header.weight}"
            raise DecodeError(text, 2, rule="content-weight")
        size = len(self.body)
        if header.body_size != size:
            raise DecodeError(
                f"the content header says a body of {header.body_size:,} bytes, and there are "
                f"{size:,}",
                4,
                rule="truncated" if header.body_size > size else "trailing-octets",
            )
        return BasicMessage(header.properties, *self[1:])


def encoded_to_amqp10(
    content: EncodedBasic,
    profile: ProfileName | TranslationProfile = "lossless",
    *,
    strict: bool = False,
    circumstances: Circumstances | None = None,
) -> Translation[bytes]:
    """Translate the content of a message of class basic to an encoded message of AMQP 1.0.

    What `to_amqp10` makes of the decoded one, without making objects of most messages.

    Args:
        content: content header and body; exchange and routing key are those it was published with.
        profile: one of `PROFILES`, or its name.
        strict: refuse a message of which data of the sender would be lost for good.
        circumstances: what a broker's result depends on besides the message.

    Returns:
        The encoded message and the losses.

    Raises:
        DecodeError: the content header cannot be read, or is that of a body of another size.
        TranslationError: as `to_amqp10`.
        EncodeError: exchange, routing key or redelivered have the wrong type or do not fit.
        ValueError: there is no profile of that name.
        TypeError: the body is not bytes.
    """
    given = circumstances or USUAL
    name = _name_of(profile)
    found = None if strict else encoded_translation(content, name, given)
    if found is not None:
        octets, losses = found
        if losses:
            return unread(
                octets, lambda: to_amqp10(content.decode(), profile, circumstances=given).losses
            )
        return Translation(octets)
    made: Any = to_amqp10(content.decode(), profile, strict=strict, circumstances=given)
    made.message = made.message.encode()
    return made  # type: ignore[no-any-return]  # of bytes now


def encoded_to_basic(
    data: bytes | bytearray | memoryview,
    profile: ProfileName | TranslationProfile = "lossless",
    *,
    strict: bool = False,
    circumstances: Circumstances | None = None,
) -> Translation[EncodedBasic]:
    """Translate an encoded 1.0 message to the content of a message of class basic.

    What `to_basic` makes of the decoded one, without making objects of most messages.

    Args:
        data: the encoded message.
        profile: one of `PROFILES`, or its name.
        strict: refuse a message of which data of the sender would be lost for good.
        circumstances: what a broker's result depends on besides the message.

    Returns:
        The content and the losses.

    Raises:
        DecodeError: `Message.decode` refuses the bytes.
        TranslationError: as `to_basic`.
        ValueError: there is no profile of that name.
        TypeError: `data` is not bytes.
    """
    given = circumstances or USUAL
    name = _name_of(profile)
    octets = as_bytes(data, "encoded_to_basic")
    found = encoded_basic_translation(octets, name, given, _losses)
    made: Any
    if found is not None and (found[1] or not strict):
        made = found[0]
        made.message = EncodedBasic._make(made.message)
        return made  # type: ignore[no-any-return]  # what the engine makes is Any
    made = to_basic(Message.decode(octets), profile, strict=strict, circumstances=given)
    made.message = EncodedBasic.of(made.message)
    return made  # type: ignore[no-any-return]  # of a tuple now


def _losses(profile: Any, given: Circumstances, wire: bytes) -> tuple[Loss, ...]:
    """Find what an encoded message loses, by the plain rules."""
    notes = Notes()
    _bridge(profile).to_basic(Message.decode(wire, limits=UNLIMITED), notes, given)
    return tuple(notes.losses)


def _name_of(profile: ProfileName | TranslationProfile) -> str:
    """Return the name of a profile; TypeError for a value of another type."""
    if isinstance(profile, str):
        return profile
    expect(profile, TranslationProfile, "the profile", "a name or a TranslationProfile")
    return profile.name


def _bridge(profile: ProfileName | TranslationProfile) -> Any:
    _name_of(profile)
    return profile.bridge if isinstance(profile, TranslationProfile) else _bridge_of(profile)


@functools.cache
def _bridge_of(name: str) -> Any:
    found = PROFILES.get(name)
    if found is None:
        names = ", ".join(PROFILES.names)
        raise ValueError(f"there is no profile {name!r}: use one of {names}")
    return found.bridge
