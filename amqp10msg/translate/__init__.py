"""Translates messages between AMQP 0-9-1 and 1.0: reversibly, or as a version of RabbitMQ does.

    from amqp10msg.basic import BasicMessage, BasicProperties
    from amqp10msg.translate import to_amqp10, to_basic

    translation = to_amqp10(BasicMessage(BasicProperties(message_id="m-1"), b"hello"))
    translation.message                      # an amqp10msg.Message
    to_basic(translation.message).message    # the original BasicMessage
    to_amqp10(basic, "rabbitmq-4.3")         # the message that this broker would deliver

`encoded_to_amqp10` and `encoded_to_basic` translate encoded messages, usually without creating
message objects. The results depend only on the arguments, never on the clock or the network.
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
from amqp10msg.brokers import unknown_name
from amqp10msg.message import Message
from amqp10msg.translate._published import as_published
from amqp10msg.translate._single import (
    basic_translation,
    encoded_basic_translation,
    encoded_translation,
)
from amqp10msg.translate.account import describe_translation
from amqp10msg.translate.circumstances import DEFAULT_CIRCUMSTANCES, Circumstances, Death
from amqp10msg.translate.profiles import LOSSLESS, PROFILES, ProfileName, TranslationProfile
from amqp10msg.translate.report import Action, Loss, Notes, Owner, Translation, lazy_translation
from amqp10msg.wire.errors import (
    AmqpError,
    DecodeError,
    ForeignUserError,
    TranslationError,
    as_bytes,
    expect,
)
from amqp10msg.wire.limits import UNLIMITED

__all__ = [
    "LOSSLESS",
    "PROFILES",
    "Action",
    "Circumstances",
    "Death",
    "EncodedBasic",
    "ForeignUserError",
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
    """Translate a 0-9-1 message to AMQP 1.0.

    Args:
        basic: the message, with the exchange and routing key that it was published with.
        profile: a profile of `PROFILES`, or its name.
        strict: raise TranslationError if the translation loses data of the sender permanently.
        circumstances: further inputs of a broker's translation, such as the user; by default, the
            first delivery of a message that the user guest published.

    Returns:
        The 1.0 message and the losses.

    Raises:
        TranslationError: the profile's broker rejects the message or crashes on it; or `strict` is
            True, and a loss is permanent (`Loss.is_permanent`). Without `strict`, the profile
            lossless never raises it.
        EncodeError: the message has a value that AMQP 0-9-1 cannot express; see the error's path.
        ValueError: the profile does not exist.
        TypeError: `basic` is not a `BasicMessage`.
    """
    notes = Notes()
    translator = _translator_of(profile)
    try:
        message = translator.to_amqp10(basic, notes, circumstances or DEFAULT_CIRCUMSTANCES)
    except RecursionError:
        raise TranslationError("", "values are nested too deeply") from None
    except AmqpError:
        raise
    except (ArithmeticError, AttributeError, TypeError, ValueError):
        hints = {Message: "to_basic translates the other way", object: conversion_hint(basic)}
        expect(basic, BasicMessage, "to_amqp10", "a BasicMessage", hints)
        encode_properties(basic.properties)  # raises EncodeError for an invalid property
        raise
    return notes.translation(message, strict)


def to_basic(
    message: Message,
    profile: ProfileName | TranslationProfile = "lossless",
    *,
    strict: bool = False,
    circumstances: Circumstances | None = None,
) -> Translation[BasicMessage]:
    """Translate a 1.0 message to a 0-9-1 message.

    Args:
        message: the message.
        profile: a profile of `PROFILES`, or its name.
        strict: raise TranslationError if the translation loses data of the sender permanently.
        circumstances: further inputs of a broker's translation, such as the user; by default, the
            first delivery of a message that the user guest published.

    Returns:
        The 0-9-1 message and the losses.

    Raises:
        TranslationError: the profile's broker rejects the message or crashes on it; or `strict` is
            True, and a loss is permanent (`Loss.is_permanent`). Without `strict`, the profile
            lossless never raises it.
        EncodeError: the message has values that cannot be encoded.
        ValueError: the profile does not exist.
        TypeError: `message` is not a `Message`.
    """
    circumstances = circumstances or DEFAULT_CIRCUMSTANCES
    engine = _engine_of(profile)
    try:
        fast = basic_translation(message, engine, circumstances, _find_losses)
        if fast is not None:
            translation, is_recoverable = fast
            if is_recoverable or not strict:
                return translation
        notes = Notes()
        translated = _translator_of(profile).to_basic(message, notes, circumstances)
    except RecursionError:
        raise TranslationError("", "values are nested too deeply") from None
    except (AttributeError, TypeError):
        hints = {
            BasicMessage: "to_amqp10 translates the other way",
            bytes: "decode it, Message.decode",
        }
        expect(message, Message, "to_basic", "a Message", hints)
        message.encode()  # raises EncodeError for a field of the wrong type
        raise
    return notes.translation(translated, strict)


def explain(
    message: BasicMessage | Message,
    profile: ProfileName | TranslationProfile = "lossless",
    *,
    circumstances: Circumstances | None = None,
) -> str:
    """Describe the translation of a message to the other protocol, and its losses, as lines.

    Args:
        message: a message of 0-9-1 or 1.0.
        profile: a profile of `PROFILES`, or its name.
        circumstances: further inputs of a broker's translation.

    Raises:
        ValueError: the profile does not exist.
    """
    try:
        translation: Translation[Any] = (
            to_amqp10(message, profile, circumstances=circumstances)
            if isinstance(message, BasicMessage)
            else to_basic(message, profile, circumstances=circumstances)
        )
    except TranslationError as error:
        target = "AMQP 1.0" if isinstance(message, BasicMessage) else "AMQP 0-9-1"
        return f"{_name_of(profile)}: no translation to {target}\n  {error}\n"
    return describe_translation(_name_of(profile), translation)


def _name_of(profile: ProfileName | TranslationProfile) -> str:
    """Return the name of an existing profile; an alias becomes the name that it stands for."""
    return profile.name if isinstance(profile, TranslationProfile) else PROFILES[profile].name


class EncodedBasic(NamedTuple):
    """An encoded 0-9-1 message: its content (0-9-1, 4.2.6) and the arguments of basic.deliver.

    Attributes:
        content_header: the payload of the content header frame.
        body: the joined payloads of the body frames.
        exchange: the exchange that the message was published to; "" if unknown.
        routing_key: the routing key that the message was published with; "" if unknown.
        redelivered: whether the message may have been delivered before.
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
            EncodeError: a value cannot be encoded; see the error's path.
        """
        expect(basic, BasicMessage, "EncodedBasic.of", "a BasicMessage")
        basic = as_encoded(basic)
        header = encode_content_header(basic.properties, len(basic.body))
        return cls(header, basic.body, basic.exchange, basic.routing_key, basic.redelivered)

    def decode(self) -> BasicMessage:
        """Decode the content header.

        Raises:
            DecodeError: the content header is invalid, or its body size differs from the body's.
            TypeError: the body is not bytes.
        """
        expect(self.body, (bytes, bytearray, memoryview), "the body of an EncodedBasic", "bytes")
        header = decode_content_header(self.content_header)
        if header.weight:
            text = f"the weight must be 0, and is {header.weight}"
            rule = "content-weight"
            raise DecodeError(text, 2, rule=rule)
        size = len(self.body)
        if header.body_size != size:
            raise DecodeError(
                f"the content header announces a body of {header.body_size:,} bytes, but the body "
                f"has {size:,}",
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
    """Translate an encoded 0-9-1 message to an encoded 1.0 message.

    The result is the encoded result of `to_amqp10`, usually without creating message objects.

    Args:
        content: the message, with the exchange and routing key that it was published with.
        profile: a profile of `PROFILES`, or its name.
        strict: raise TranslationError if the translation loses data of the sender permanently.
        circumstances: further inputs of a broker's translation, such as the user; by default, the
            first delivery of a message that the user guest published.

    Returns:
        The encoded message and the losses.

    Raises:
        DecodeError: the content header is invalid, or its body size differs from the body's.
        TranslationError: as for `to_amqp10`.
        EncodeError: exchange, routing key or redelivered have the wrong type or are too long.
        ValueError: the profile does not exist.
        TypeError: the body is not bytes.
    """
    circumstances = circumstances or DEFAULT_CIRCUMSTANCES
    engine = _engine_of(profile)
    fast = None if strict else encoded_translation(content, engine, circumstances)
    if fast is not None:
        octets, losses = fast
        if losses:
            return lazy_translation(octets, (_find_encoded_losses, content, profile, circumstances))
        return Translation(octets)
    translation: Any = to_amqp10(
        content.decode(), profile, strict=strict, circumstances=circumstances
    )
    translation.message = translation.message.encode()
    return translation  # type: ignore[no-any-return]  # its message is bytes now


def encoded_to_basic(
    data: bytes | bytearray | memoryview,
    profile: ProfileName | TranslationProfile = "lossless",
    *,
    strict: bool = False,
    circumstances: Circumstances | None = None,
) -> Translation[EncodedBasic]:
    """Translate an encoded 1.0 message to an encoded 0-9-1 message.

    The result is the encoded result of `to_basic`, usually without creating message objects.

    Args:
        data: the encoded message.
        profile: a profile of `PROFILES`, or its name.
        strict: raise TranslationError if the translation loses data of the sender permanently.
        circumstances: further inputs of a broker's translation, such as the user; by default, the
            first delivery of a message that the user guest published.

    Returns:
        The content and the losses.

    Raises:
        DecodeError: the bytes are not a valid message.
        TranslationError: as for `to_basic`.
        ValueError: the profile does not exist.
        TypeError: `data` is not bytes.
    """
    circumstances = circumstances or DEFAULT_CIRCUMSTANCES
    engine = _engine_of(profile)
    octets = as_bytes(data, "encoded_to_basic")
    translation: Any
    fast = encoded_basic_translation(octets, engine, circumstances, _find_losses, EncodedBasic)
    if fast is not None:
        translation, is_recoverable = fast
        if is_recoverable or not strict:
            return translation  # type: ignore[no-any-return]  # the engine returns Any
    message = Message.decode(octets)
    translation = to_basic(message, profile, strict=strict, circumstances=circumstances)
    translation.message = EncodedBasic.of(translation.message)
    return translation  # type: ignore[no-any-return]  # its message is an EncodedBasic now


def _find_losses(profile: Any, circumstances: Circumstances, wire: bytes) -> tuple[Loss, ...]:
    """Translate an encoded 1.0 message without the compiled engine, and return the losses."""
    notes = Notes()
    _translator_of(profile).to_basic(Message.decode(wire, limits=UNLIMITED), notes, circumstances)
    return tuple(notes.losses)


def _find_encoded_losses(
    content: EncodedBasic,
    profile: ProfileName | TranslationProfile,
    circumstances: Circumstances,
) -> tuple[Loss, ...]:
    """Return the losses of an encoded 0-9-1 message."""
    return to_amqp10(content.decode(), profile, circumstances=circumstances).losses


def _engine_of(profile: ProfileName | TranslationProfile) -> str:
    """Return the name under which the compiled engine has rules for a profile.

    For a profile without such rules, the result is empty or a name that the engine does not know.

    Raises:
        TypeError: `profile` is neither a name nor a profile.
    """
    if isinstance(profile, str):
        return profile
    expect(profile, TranslationProfile, "the profile", "a name or a TranslationProfile")
    return profile.engine


def _translator_of(profile: ProfileName | TranslationProfile) -> Any:
    """Return the translations of a profile in both directions: `TranslationProfile.bridge`.

    Raises:
        TypeError: `profile` is neither a name nor a profile.
        ValueError: the profile does not exist.
    """
    if isinstance(profile, str):
        return _translator_by_name(profile)
    _engine_of(profile)
    return profile.bridge


@functools.cache
def _translator_by_name(name: str) -> Any:
    profile = PROFILES.get(name)
    if profile is None:
        raise ValueError(unknown_name("profile", name, PROFILES.names))
    return profile.bridge
