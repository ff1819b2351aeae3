"""The rules of Part 3, 3.2 that can be seen in an encoded message, one rule a clause."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import attrs

from amqp10msg.sections import KINDS
from amqp10msg.validation._checks import LOOKED_INTO, Found
from amqp10msg.validation._obligations import NOT_VISIBLE, Obligation
from amqp10msg.validation._profiles import PROFILES, Profile, ProfileName
from amqp10msg.validation._rules import RULES, Rule, Severity
from amqp10msg.validation._view import LISTED, read, sound
from amqp10msg.validation.prefilter import PREFILTERED, narrow, suspected
from amqp10msg.wire import kernel
from amqp10msg.wire.errors import DecodeError, EncodeError
from amqp10msg.wire.limits import DEFAULT_LIMITS, Limits
from amqp10msg.wire.reprs import shown

if TYPE_CHECKING:
    from amqp10msg.message import Message

__all__ = [
    "LISTED",
    "NOT_VISIBLE",
    "PROFILES",
    "RULES",
    "Obligation",
    "Profile",
    "ProfileName",
    "Rule",
    "Severity",
    "Violation",
    "rule_of",
    "validate",
]

# Rules that look at a message, and those that may be broken where it decodes; as in the table.
_CHECKED = tuple(rule for rule in RULES.values() if rule.check is not None)
_ORDER = tuple(name for name in RULES if name in PREFILTERED)


@shown
@attrs.frozen(repr=False)
class Violation:
    """One rule that a message breaks, in one place.

    Attributes:
        rule: the rule's short stable name, a key of `RULES`.
        clause: the clause of the specification, such as ``Part 3, 3.2.5``.
        severity: ``error`` for MUST and MUST NOT, ``warning`` for SHOULD and SHOULD NOT; a profile
            may see a rule otherwise.
        path: where in the message, such as ``properties.content-encoding``,
            ``application-properties['k']`` or the name of a section; empty where there is no name.
        offset: where in the encoded message, in bytes: the constructor of the key or value that
            is wrong, or of the descriptor where a whole section is. What is missing is reported
            where it should be, and what does not parse where reading ended.
        text: what is wrong, and what would be right.
    """

    rule: str
    clause: str
    severity: Severity
    path: str
    offset: int
    text: str


@attrs.frozen
class _Report:
    """Collects what a profile cares about."""

    profile: Profile
    violations: list[Violation] = attrs.Factory(list)

    def add(self, rule: str, found: Found) -> None:
        severity = self.profile.severities.get(rule)
        if severity is not None:
            clause = found.clause or RULES[rule].clause
            self.violations.append(
                Violation(rule, clause, severity, found.path, found.offset, found.text)
            )


def rule_of(error: DecodeError) -> tuple[str, str]:
    """Return the rule that an error of a decoder is about, a key of `RULES`, and its clause.

    A rule that is about values alone is not a key of `RULES`; its clause is ``Part 1, 1.2``.
    """
    # The kernel's name of this one ends in the byte.
    unknown = error.rule.startswith("unknown-constructor-")
    name = "unknown-constructor" if unknown else error.rule
    return name, RULES[name].clause if name in RULES else "Part 1, 1.2"


def validate(
    message: Message | bytes | bytearray | memoryview,
    profile: ProfileName | Profile = "oasis",
    *,
    limits: Limits | None = None,
) -> list[Violation]:
    """Check a message against the rules of the specification, or of a broker.

    Whatever the bytes are, this returns: what does not parse is a violation, and the sections
    after it are checked too where the size of the damaged one is intact. Of each rule the first
    100 violations are listed.

    Args:
        message: an encoded message, or a `Message`, which is encoded first: offsets are then those
            in ``message.encode()``; one that cannot be encoded violates ``not-encodable``.
        profile: ``oasis``, ``rabbitmq-4``, ``azure``, or a `Profile` of your own.
        limits: what reading may cost; the defaults of `Limits` where None.

    Returns:
        The violations by their offset; an empty list where the message breaks nothing.

    Raises:
        TypeError: the message is neither a Message nor bytes.
        ValueError: there is no such profile.
    """
    if not isinstance(profile, Profile):
        if profile not in PROFILES:
            raise ValueError(f"unknown profile {profile!r}: use {', '.join(PROFILES)}")
        profile = PROFILES[profile]
    limits = limits or DEFAULT_LIMITS
    report = _Report(profile)
    if not isinstance(message, (bytes, bytearray, memoryview)):
        # This module works on bytes and may not know the class.
        if not (hasattr(message, "encode") and hasattr(message, "message_format")):
            raise TypeError(
                f"expected a Message, bytes, bytearray or memoryview, not {type(message).__name__}"
            )
        if message.message_format != 0:
            given: object = message.message_format
            shown = f"0x{given:08X}" if isinstance(given, int) else repr(given)
            text = f"the message-format is {shown}, and that of Part 3 is 0"
            report.add("message-format", Found(0, "message-format", text))
        try:
            message = message.encode()
        except EncodeError as error:
            name = error.path.partition(".")[0].partition("[")[0]
            clause = next((kind.clause for kind in KINDS if kind.name == name), "")
            report.add("not-encodable", Found(0, error.path, error.reason, clause))
            return report.violations
    try:
        data = kernel.octets_of(message, limits)
    except DecodeError as error:
        report.add(error.rule, Found(error.offset, error.path, error.reason))
        return report.violations
    suspects = suspected(data, limits, profile.known_keys)
    if suspects is None:
        view = read(data, limits)
        for fault in view.faults:
            name, _ = rule_of(fault)
            report.add(RULES[name].id, Found(fault.offset, fault.path, fault.reason))
        rules = _CHECKED
        narrow(view, profile.known_keys)
        if view.doubtful is not None:
            names = {section.kind.name for section in view.doubtful}
            rules = tuple(
                rule
                for rule in _CHECKED
                if rule.id not in LOOKED_INTO or not names.isdisjoint(LOOKED_INTO[rule.id])
            )
    else:
        # Nearly all messages decode, and break no rule that decoding leaves.
        rules = tuple(RULES[name] for name in _ORDER if name in suspects) if suspects else ()
        if not rules:
            return report.violations
        view = sound(data, limits)
    view.known_keys = dict(profile.known_keys)
    for rule in rules:
        if rule.check is not None and rule.id in profile.severities:
            for found in islice(rule.check(view), LISTED):
                report.add(rule.id, found)
    # Stable, so that violations at one offset come in the order of the table.
    report.violations.sort(key=lambda violation: violation.offset)
    return report.violations
