"""The profiles: what a specification or a broker makes of the rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Literal, TypeAlias, get_args

import attrs

from amqp10msg.validation._rules import RULES, Severity

#: The names of the profiles that `validate` knows. One that is known when the program runs only is
#: taken from `PROFILES`, as ``PROFILES[name]``.
ProfileName: TypeAlias = Literal["oasis", "rabbitmq-4", "azure"]


def _severities(value: Mapping[str, Severity]) -> Mapping[str, Severity]:
    for name, severity in value.items():
        if name not in RULES:
            raise ValueError(f"there is no rule {name!r}: see RULES")
        if severity not in get_args(Severity):
            raise ValueError(f"{name}: a severity is 'error' or 'warning', not {severity!r}")
    return MappingProxyType(dict(value))


def _frozen(keys: Mapping[str, tuple[str, ...]]) -> Mapping[str, tuple[str, ...]]:
    return MappingProxyType(dict(keys))


@attrs.frozen
class Profile:
    """A set of rules, and how much each one matters.

    Attributes:
        name: its name, such as ``oasis``.
        description: whose requirements it has.
        severities: ``error`` or ``warning`` by the name of each rule that it has.
        known_keys: reserved annotation keys that `annotation-key-reserved` lets pass, by the name
            of the section; a key that ends in ``*`` means all that begin like it.
    """

    name: str
    description: str
    severities: Mapping[str, Severity] = attrs.field(converter=_severities, repr=False)
    known_keys: Mapping[str, tuple[str, ...]] = attrs.field(
        factory=lambda: MappingProxyType({}), converter=_frozen, repr=False
    )

    def __contains__(self, rule: object) -> bool:
        return rule in self.severities

    def __iter__(self) -> Iterator[str]:
        return iter(self.severities)

    def __len__(self) -> int:
        return len(self.severities)

    def derive(
        self,
        name: str,
        description: str,
        *,
        severities: Mapping[str, Severity] | None = None,
        without: tuple[str, ...] = (),
        known_keys: Mapping[str, tuple[str, ...]] | None = None,
    ) -> Profile:
        """Make a profile that differs from this one.

        Args:
            name: the new profile's name.
            description: whose requirements it has.
            severities: rules to add, or to give another severity.
            without: rules to leave out.
            known_keys: instead of this profile's.

        Raises:
            ValueError: a rule does not exist, or a severity.
        """
        mine = {**self.severities, **(severities or {})}
        for rule in without:
            if rule not in mine:
                raise ValueError(f"{self.name} has no rule {rule!r} to leave out")
            del mine[rule]
        keys = self.known_keys if known_keys is None else known_keys
        return Profile(name, description, mine, keys)


_RABBITMQ = {rule.id: rule.severity for rule in RULES.values() if rule.clause == "RabbitMQ 4"}
# Names that W3C's draft of trace context for AMQP gives to message-annotations.
_TRACE = ("traceparent", "tracestate")
_OASIS = Profile(
    "oasis",
    "OASIS AMQP 1.0, Part 3, section 3.2, to the letter.",
    {rule.id: rule.severity for rule in RULES.values() if rule.id not in _RABBITMQ},
    {"delivery-annotations": ("rejected",), "message-annotations": _TRACE},
)
_RABBITMQ_4 = _OASIS.derive(
    "rabbitmq-4",
    "What RabbitMQ 4 refuses or cannot deliver: a body is required, annotation keys must be "
    "symbols that begin with x-, and some encodings are not understood.",
    severities={"annotation-key-reserved": "error", **_RABBITMQ},
    known_keys={},
)
_AZURE = _OASIS.derive(
    "azure",
    "Azure Service Bus, Event Hubs and IoT Hub: iothub-* annotations, messages without a body, and "
    "the message-format of batches are usual there.",
    without=("body-missing", "message-format"),
    known_keys={
        "delivery-annotations": ("rejected", "iothub-*"),
        "message-annotations": (*_TRACE, "iothub-*"),
    },
)
#: The profiles that `validate` knows, by name.
PROFILES: Mapping[str, Profile] = MappingProxyType(
    {profile.name: profile for profile in (_OASIS, _RABBITMQ_4, _AZURE)}
)
