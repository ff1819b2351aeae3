"""The translation profiles: lossless, and the versions of RabbitMQ."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

import attrs

from amqp10msg.basic.message import BasicMessage, as_encoded
from amqp10msg.basic.tables import as_table
from amqp10msg.brokers import RABBITMQ, ByName, SeriesName, by_attribute, translations
from amqp10msg.message import Message
from amqp10msg.sections.parts import Malformed
from amqp10msg.translate import _lossless
from amqp10msg.translate._single import basic_translation, translate_by_engine
from amqp10msg.translate.circumstances import Circumstances
from amqp10msg.translate.rabbitmq import from_basic, to_basic, v3
from amqp10msg.translate.rabbitmq.fields import invalid_sections_reason
from amqp10msg.translate.rabbitmq.terms import BrokerError
from amqp10msg.translate.rabbitmq.version import VERSIONS, BrokerVersion
from amqp10msg.translate.report import Loss, Notes
from amqp10msg.translate.table import ENCODED_SECTIONS_TYPE_PROPERTY
from amqp10msg.validation import RULES
from amqp10msg.wire.errors import DecodeError, TranslationError, expect, wrong_type
from amqp10msg.wire.limits import UNLIMITED

__all__ = ["LOSSLESS", "PROFILES", "Circumstances", "ProfileName", "TranslationProfile"]

#: The names of the profiles, including RabbitMQ series that behave like an earlier series.
ProfileName: TypeAlias = Literal["lossless", SeriesName]
_LOSSLESS_NAME = "lossless"


class _Translator(Protocol):
    """The translations of a profile, in both directions."""

    def to_amqp10(
        self, basic: BasicMessage, notes: Notes, circumstances: Circumstances
    ) -> Message: ...

    def to_basic(
        self, message: Message, notes: Notes, circumstances: Circumstances
    ) -> BasicMessage: ...


@attrs.frozen
class _RabbitMQ:
    """The `_Translator` of a version of RabbitMQ."""

    version: BrokerVersion
    from_basic: Callable[[BrokerVersion, BasicMessage, Notes, Circumstances], bytes]
    to_basic_message: Callable[[BrokerVersion, bytes, Notes, Circumstances], BasicMessage]

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
            pass  # the message may only violate Part 3: decode it leniently
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
            # RabbitMQ 3.10 inserts a body of `ENCODED_SECTIONS_TYPE_PROPERTY` as sections, without
            # checking it.
            if (
                self.version.is_plugin
                and basic.properties.type == ENCODED_SECTIONS_TYPE_PROPERTY
                and basic.body
            ):
                offset = error.offset - octets.rindex(basic.body)
                if 0 <= offset <= len(basic.body):
                    path, reason = path or "body", invalid_sections_reason(offset, reason)
            raise TranslationError(path, reason, delivered=octets) from None

    def to_basic(
        self, message: Message, notes: Notes, circumstances: Circumstances
    ) -> BasicMessage:
        try:
            return self.to_basic_message(self.version, message.encode(), notes, circumstances)
        except BrokerError as error:
            raise TranslationError(error.path, error.reason) from None


def _report_violations(
    version: BrokerVersion, message: Message, basic: BasicMessage, notes: Notes
) -> None:
    """Report as losses the violations for which receivers refuse the message from the broker."""
    table = as_table(basic.properties.headers)
    # RabbitMQ 3.10: the losses of user-id and stream offset are already in `notes`.
    reported = {loss.path for loss in notes.losses} if version.is_plugin else set()
    for violation in message.violations:
        path, original = violation.path, None
        for section in ("message-annotations", "application-properties"):
            for name, _, value in table.entries if path.startswith(section) else ():
                if path.startswith(f"{section}[{name!r}]"):
                    path, original = path.replace(section, "headers", 1), value
        if RULES[violation.rule].refused and path not in reported:
            notes.add_dropped(
                path, original, f"RabbitMQ delivers what 1.0 receivers refuse: {violation.text}"
            )


#: The class of a message of either protocol: a step of a derived profile does not change it.
M = TypeVar("M", BasicMessage, Message)


class Step(Protocol):
    """A function that changes messages of both protocols, such as a generic function."""

    def __call__(self, message: Any, /) -> Any:
        """Return the message to continue with: the same object, or another of the same class."""


def _unchanged(message: M) -> M:
    return message


@attrs.frozen
class TranslationProfile:
    """A way to translate messages: reversibly, or like a version of RabbitMQ.

    Attributes:
        name: the name, such as ``rabbitmq-4.3``.
        description: the purpose, in a sentence.
        bridge: the translations in both directions.
        reversible: whether the opposite translation restores the original bytes.
        engine: the name of the compiled engine's rules for this profile; empty if `bridge` has to
            be called for each message.
    """

    name: str
    description: str
    bridge: _Translator = attrs.field(repr=False)
    reversible: bool = False
    engine: str = attrs.field(default="", repr=False)

    def derive(
        self,
        name: str,
        description: str = "",
        *,
        before: Step = _unchanged,
        after: Step = _unchanged,
    ) -> TranslationProfile:
        """Return a profile that changes messages before or after this profile translates them.

        Both functions are called in both directions: `before` with a `BasicMessage` on the way to
        AMQP 1.0 and with a `Message` on the way to 0-9-1, and `after` with the translated message,
        of the other class. They return the message to continue with, and may raise
        `TranslationError` to refuse it. Their changes are not among the losses.

        Args:
            name: the new profile's name.
            description: its purpose, in a sentence; by default, the name of the base.
            before: changes the message to translate.
            after: changes the translated message.

        Raises:
            ValueError: a profile of this library has the name already.
            TypeError: an argument has the wrong type.
        """
        expect(name, str, "the name of a profile", "a str")
        for function in (before, after):
            if not callable(function):
                raise wrong_type("a step of a profile", "a function", function)
        if name in _RESERVED_NAMES:
            raise ValueError(f"a derived profile needs a name of its own, not {name!r}")
        description = description or f"Derived from {self.name}."
        return TranslationProfile(
            name, description, _DerivedTranslations(name, self, before, after)
        )


@attrs.frozen
class _DerivedTranslations:
    """The translations of a derived profile: those of `base`, with a step before and after."""

    profile_name: str
    base: TranslationProfile
    before: Step
    after: Step

    def to_amqp10(self, basic: BasicMessage, notes: Notes, circumstances: Circumstances) -> Message:
        basic = self._run_step("before", basic, BasicMessage)
        message = self.base.bridge.to_amqp10(basic, notes, circumstances)
        return self._run_step("after", message, Message)

    def to_basic(
        self, message: Message, notes: Notes, circumstances: Circumstances
    ) -> BasicMessage:
        message = self._run_step("before", message, Message)
        translated = basic_translation(message, self.base.engine, circumstances, self._find_losses)
        if translated is None:
            basic = self.base.bridge.to_basic(message, notes, circumstances)
        else:
            translation, _ = translated
            notes.find_losses = getattr, translation, "losses"
            basic = translation.message
        return self._run_step("after", basic, BasicMessage)

    def _run_step(self, step: Literal["before", "after"], message: M, expected: type[M]) -> M:
        changed = getattr(self, step)(message)
        if not isinstance(changed, expected):
            raise TypeError(
                f"the function {step!r} of the profile {self.profile_name!r} must return a "
                f"{expected.__name__}, not {type(changed).__name__}"
            )
        return changed

    def _find_losses(
        self, _engine: str, circumstances: Circumstances, wire: bytes
    ) -> tuple[Loss, ...]:
        notes = Notes()
        self.base.bridge.to_basic(Message.decode(wire, limits=UNLIMITED), notes, circumstances)
        return tuple(notes.losses)


def _rabbitmq(version: BrokerVersion) -> TranslationProfile:
    """Return the profile of a version of RabbitMQ."""
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
        engine=version.profile,
    )


#: The profile that loses nothing.
LOSSLESS = TranslationProfile(
    _LOSSLESS_NAME,
    "A message that follows the specification and can be translated back byte for byte.",
    _lossless,
    reversible=True,
    engine=_LOSSLESS_NAME,
)
#: The names that `TranslationProfile.derive` refuses. The profiles below are added to them.
_RESERVED_NAMES = {""}
_PROFILES = (
    LOSSLESS,
    *map(_rabbitmq, VERSIONS.values()),
)
#: The profiles by name. ``PROFILES["rabbitmq-4.1"]`` is ``rabbitmq-4.0``, which behaves alike.
PROFILES: ByName[TranslationProfile] = ByName(
    by_attribute(_PROFILES, "name", "profile"), translations()
)
_RESERVED_NAMES.update(PROFILES.names)
