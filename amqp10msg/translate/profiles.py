"""The translation profiles: lossless, and the versions of RabbitMQ."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, Protocol, TypeAlias

import attrs

from amqp10msg.basic.message import BasicMessage, as_encoded
from amqp10msg.basic.tables import as_table
from amqp10msg.brokers import RABBITMQ, ByName, SeriesName, translations
from amqp10msg.message import Message
from amqp10msg.sections.parts import Malformed
from amqp10msg.translate import _lossless
from amqp10msg.translate._single import translate_by_engine
from amqp10msg.translate.circumstances import Circumstances
from amqp10msg.translate.rabbitmq import from_basic, to_basic, v3
from amqp10msg.translate.rabbitmq.fields import no_sections
from amqp10msg.translate.rabbitmq.terms import BrokerError
from amqp10msg.translate.rabbitmq.version import VERSIONS, BrokerVersion
from amqp10msg.translate.report import Notes
from amqp10msg.translate.table import MARKER
from amqp10msg.wire.errors import DecodeError, TranslationError
from amqp10msg.wire.limits import UNLIMITED

__all__ = ["PROFILES", "Circumstances", "ProfileName", "TranslationProfile"]

#: The names of the profiles, including series of RabbitMQ that behave like an earlier one.
ProfileName: TypeAlias = Literal["lossless", SeriesName]


class _Bridge(Protocol):
    def to_amqp10(
        self, basic: BasicMessage, notes: Notes, circumstances: Circumstances
    ) -> Message: ...

    def to_basic(
        self, message: Message, notes: Notes, circumstances: Circumstances
    ) -> BasicMessage: ...


@attrs.frozen
class _RabbitMQ:
    """The translations of a version of RabbitMQ, in both directions."""

    version: BrokerVersion
    from_basic: Callable[[BrokerVersion, BasicMessage, Notes, Circumstances], bytes]
    to_its_basic: Callable[[BrokerVersion, bytes, Notes, Circumstances], BasicMessage]

    def to_amqp10(self, basic: BasicMessage, notes: Notes, circumstances: Circumstances) -> Message:
        octets = translate_by_engine(basic, self.version.profile, notes, circumstances)
        if octets is None:
            basic = as_encoded(basic)
            try:
                octets = self.from_basic(self.version, basic, notes, circumstances)
            except BrokerError as error:
                raise TranslationError(error.path, error.reason) from None
        try:
            return Message.decode(octets, limits=UNLIMITED)
        except DecodeError:
            pass  # a lenient decoding can read a message that only violates Part 3
        try:
            message = Message.decode(octets, limits=UNLIMITED, strict=False)
            for _, section in message.sections():
                if isinstance(section, Malformed):
                    raise section.error
            _report_violations(self.version, message, basic, notes)
            return message
        except DecodeError as error:
            reason = f"the broker delivers a message that no receiver can decode: {error}"
            path = error.path
            # RabbitMQ 3.10 inserts a body of the type `MARKER` as encoded sections, unchecked.
            if self.version.is_plugin and basic.properties.type == MARKER and basic.body:
                offset = error.offset - octets.rindex(basic.body)
                if 0 <= offset <= len(basic.body):
                    path, reason = path or "body", no_sections(offset, reason)
            raise TranslationError(path, reason, delivered=octets) from None

    def to_basic(
        self, message: Message, notes: Notes, circumstances: Circumstances
    ) -> BasicMessage:
        try:
            return self.to_its_basic(self.version, message.encode(), notes, circumstances)
        except BrokerError as error:
            raise TranslationError(error.path, error.reason) from None


def _report_violations(
    version: BrokerVersion, message: Message, basic: BasicMessage, notes: Notes
) -> None:
    """Report the rules of AMQP 1.0 that a broker's message violates: receivers refuse it."""
    table = as_table(basic.properties.headers)
    # For RabbitMQ 3.10, user-id and stream offset have their own losses already.
    reported = {loss.path for loss in notes.losses} if version.is_plugin else set()
    for violation in message.violations:
        path, original = violation.path, None
        for section in ("message-annotations", "application-properties"):
            for name, _, value in table.entries if path.startswith(section) else ():
                if path.startswith(f"{section}[{name!r}]"):
                    path, original = path.replace(section, "headers", 1), value
        if violation.severity == "error" and path not in reported:
            notes.add_dropped(
                path, original, f"RabbitMQ delivers what receivers of 1.0 refuse: {violation.text}"
            )


@attrs.frozen
class TranslationProfile:
    """A translation profile.

    Attributes:
        name: such as ``rabbitmq-4.3``.
        description: its purpose, in a sentence.
        bridge: the translations in both directions.
        reversible: whether the reverse translation restores the same bytes.
    """

    name: str
    description: str
    bridge: _Bridge = attrs.field(repr=False)
    reversible: bool = False


def _rabbitmq(version: BrokerVersion) -> TranslationProfile:
    translations_of_version = (
        (v3.to_amqp10, v3.to_basic)
        if version.is_plugin
        else (from_basic.to_amqp10, to_basic.to_basic)
    )
    plugin = " with its AMQP 1.0 plugin" if version.is_plugin else ""
    queue = "a stream" if version.stream else "a classic or quorum queue"
    source = "" if RABBITMQ[version.name].is_recorded else " It was not recorded."
    return TranslationProfile(
        version.profile,
        f"What RabbitMQ {version.name}{plugin} delivers from {queue}.{source}",
        _RabbitMQ(version, *translations_of_version),
    )


def _profiles() -> Iterator[TranslationProfile]:
    yield TranslationProfile(
        "lossless",
        "A message that follows the specification and can be translated back byte for byte.",
        _lossless,
        reversible=True,
    )
    yield from map(_rabbitmq, VERSIONS.values())


#: The profiles by name. ``PROFILES["rabbitmq-4.1"]`` is the profile of 4.0: both behave alike.
PROFILES: ByName[TranslationProfile] = ByName(
    {profile.name: profile for profile in _profiles()}, translations()
)
