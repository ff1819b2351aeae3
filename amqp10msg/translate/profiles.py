"""The profiles: what a message becomes on the other side of which bridge."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Protocol

import attrs

from amqp10msg.basic.message import BasicMessage
from amqp10msg.errors import DecodeError, TranslationError
from amqp10msg.limits import UNLIMITED
from amqp10msg.message import Message
from amqp10msg.translate import _lossless
from amqp10msg.translate._qpid import Qpid
from amqp10msg.translate._rabbitmq3 import RabbitMQ3
from amqp10msg.translate._rabbitmq4 import RabbitMQ4
from amqp10msg.translate._terms import CODEC_40, CODEC_43, Crash
from amqp10msg.translate.report import Notes

__all__ = ["PROFILES", "Circumstances", "TranslationProfile"]


@attrs.frozen
class Circumstances:
    """What a bridge's result depends on besides the message.

    Attributes:
        user: whom the broker knows the publisher as, for its check of the user-id; None to leave
            out the check.
        stream_offset: of the message in the stream; None to leave out what states it.
        arrival_time: when the message arrived at the broker, in ms since the Unix epoch.
    """

    user: str | None = "guest"
    stream_offset: int | None = None
    arrival_time: int | None = None


class _Bridge(Protocol):
    def to_amqp10(self, basic: BasicMessage, notes: Notes, given: Circumstances) -> Message: ...

    def to_basic(self, message: Message, notes: Notes, given: Circumstances) -> BasicMessage: ...


@attrs.frozen
class _RabbitMQ:
    broker: Any

    def to_amqp10(self, basic: BasicMessage, notes: Notes, given: Circumstances) -> Message:
        try:
            octets = self.broker.to_amqp10(basic, notes, given.stream_offset, given.user)
        except Crash as crash:
            raise TranslationError(crash.path, crash.reason) from None
        try:
            return Message.decode(octets, limits=UNLIMITED)
        except DecodeError:
            pass  # what breaks Part 3 alone can still be read
        try:
            return Message.decode(octets, limits=UNLIMITED, strict=False)
        except DecodeError as error:
            raise TranslationError(
                error.path,
                f"the broker delivers what no receiver can read: {error}",
                delivered=octets,
            ) from None

    def to_basic(self, message: Message, notes: Notes, given: Circumstances) -> BasicMessage:
        octets = message.encode()
        try:
            made: BasicMessage = self.broker.to_basic(
                octets, notes, given.stream_offset, given.user
            )
        except Crash as crash:
            raise TranslationError(crash.path, crash.reason) from None
        return made


@attrs.frozen
class TranslationProfile:
    """One way to translate.

    Attributes:
        name: such as ``rabbitmq-4.3``.
        description: what it promises.
        reversible: the way back gives the same octets.
    """

    name: str
    description: str
    bridge: _Bridge = attrs.field(repr=False)
    reversible: bool = False


_BROKERS: tuple[tuple[str, str, Any, Any], ...] = (
    (
        "rabbitmq-3.10",
        "RabbitMQ 3.10 with its AMQP 1.0 plugin",
        RabbitMQ3(),
        RabbitMQ3(stream=True),
    ),
    (
        "rabbitmq-4.0",
        "RabbitMQ 4.0",
        RabbitMQ4(CODEC_40, durable_by_default=True),
        RabbitMQ4(CODEC_40, durable_by_default=True, stream=True),
    ),
    (
        "rabbitmq-4.3",
        "RabbitMQ 4.3",
        RabbitMQ4(
            CODEC_43,
            **(
                _LATEST := dict.fromkeys(
                    ("queue_addresses", "metadata_first", "trims", "validates", "drops_unread"),
                    True,
                )
            ),
        ),
        RabbitMQ4(CODEC_43, **_LATEST, stream=True),
    ),
)


def _profiles() -> dict[str, TranslationProfile]:
    made = [
        TranslationProfile(
            "lossless",
            "A message that follows the specification and can be translated back octet for octet.",
            _lossless,
            reversible=True,
        )
    ]
    for name, broker, classic, stream in _BROKERS:
        made.append(
            TranslationProfile(
                name,
                f"What {broker} delivers from a classic or quorum queue.",
                _RabbitMQ(classic),
            )
        )
        made.append(
            TranslationProfile(
                f"{name}-stream", f"What {broker} delivers from a stream.", _RabbitMQ(stream)
            )
        )
    made.append(
        TranslationProfile(
            "qpid-broker-j",
            "What the converter of Apache Qpid Broker-J gives.",
            Qpid(),
        )
    )
    return {profile.name: profile for profile in made}


#: The profiles by name.
PROFILES: Mapping[str, TranslationProfile] = MappingProxyType(_profiles())
