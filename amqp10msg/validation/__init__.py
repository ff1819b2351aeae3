"""Validate encoded messages against the rules of Part 3, 3.2, and of brokers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from operator import attrgetter
from types import MappingProxyType
from typing import Literal, Protocol, TypeAlias, get_args

import attrs

from amqp10msg.brokers import ByName, SeriesName, rule_sets
from amqp10msg.sections import KINDS
from amqp10msg.sections.parts import MAX_LISTED_VIOLATIONS, map_message, map_valid_message
from amqp10msg.validation._follow_ups import mark_follow_ups
from amqp10msg.validation._table import COMPOUND_CLAUSES, NOT_VISIBLE, RULES
from amqp10msg.validation.prefilter import RULES_NOT_CHECKED_BY_DECODING, Screen, narrow, suspected
from amqp10msg.validation.rules import (
    Obligation,
    Occurrence,
    Rule,
    Severity,
    ValidationError,
    Violation,
    violation_of,
    violations_of,
)
from amqp10msg.wire import kernel
from amqp10msg.wire.errors import (
    DECODE_ERROR,
    INVALID_FIELD,
    NOT_IMPLEMENTED,
    RESOURCE_LIMIT_EXCEEDED,
    DecodeError,
    EncodeError,
    expect,
)
from amqp10msg.wire.kernel.walk import ROLE_CONSTRUCTOR, end_of, walk
from amqp10msg.wire.limits import DEFAULT_LIMITS, Limits
from amqp10msg.wire.primitives import FORMAT_CODES
from amqp10msg.wire.reprs import html_table

__all__ = [
    "MAX_LISTED_VIOLATIONS",
    "NOT_VISIBLE",
    "PROFILES",
    "RULES",
    "Obligation",
    "Profile",
    "ProfileName",
    "Rule",
    "Severity",
    "ValidationError",
    "Violation",
    "first_fault",
    "has_unscreened_rules",
    "profile_of",
    "rule_of",
    "validate",
]

#: The rules that have a check, in the order of `RULES`.
_CHECKED_RULES = tuple(rule for rule in RULES.values() if rule.check is not None)


#: The names of the built-in profiles, for type checkers. For a name in a variable, pass
#: ``PROFILES[name]``.
ProfileName: TypeAlias = Literal["azure", "oasis", SeriesName]


def _check_severities(profile: Profile, _: object, severities: Mapping[str, Severity]) -> None:
    """Raise ValueError if a profile has an unknown rule or severity; an attrs validator."""
    own = {rule.id for rule in profile.rules}
    for name, severity in severities.items():
        if name not in RULES and name not in own:
            raise ValueError(f"there is no rule {name!r}: see RULES")
        if severity not in get_args(Severity):
            raise ValueError(f"{name}: a severity is 'error' or 'warning', not {severity!r}")


def _expect_rule(rule: object) -> None:
    """Raise TypeError if `rule` is not a `Rule`, such as a function without the decorator."""
    expect(rule, Rule, "a rule of a profile", "a Rule: decorate the function with rule(...)")


def _check_rules(_: object, __: object, rules: tuple[Rule, ...]) -> None:
    """Raise ValueError if two rules of a profile have the same id; an attrs validator."""
    names: set[str] = set()
    for rule in rules:
        _expect_rule(rule)
        if rule.check is None:
            raise ValueError(f"the rule {rule.id!r} has no check")
        if rule.id in RULES:
            raise ValueError(f"there is a rule {rule.id!r} already: choose another id")
        if rule.id in names:
            raise ValueError(f"two rules have the id {rule.id!r}")
        names.add(rule.id)


def _read_only_severities(severities: Mapping[str, Severity]) -> Mapping[str, Severity]:
    """Return a read-only copy of severities by rule id."""
    return MappingProxyType(dict(severities))


def _read_only_keys(keys: Mapping[str, tuple[str, ...]]) -> Mapping[str, tuple[str, ...]]:
    """Return a read-only copy of annotation keys by section."""
    return MappingProxyType(dict(keys))


@attrs.frozen
class Profile:
    """A set of rules with their severities.

    Attributes:
        name: the profile's name, such as ``oasis``.
        description: the specification or the product whose requirements the profile has.
        severities: ``error`` or ``warning`` for the id of each rule in the profile.
        known_keys: reserved annotation keys that the rule ``annotation-key-reserved`` allows, by
            the name of the section; a key that ends with ``*`` is a prefix.
        rules: rules that are not in `RULES`, such as those of `amqp10msg.rule`.
    """

    name: str
    description: str
    severities: Mapping[str, Severity] = attrs.field(
        converter=_read_only_severities, validator=_check_severities, repr=False, hash=False
    )
    known_keys: Mapping[str, tuple[str, ...]] = attrs.field(
        factory=lambda: MappingProxyType({}), converter=_read_only_keys, repr=False, hash=False
    )
    rules: tuple[Rule, ...] = attrs.field(
        default=(), converter=tuple[Rule, ...], validator=_check_rules, repr=False
    )

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle and copy the profile with dicts: a MappingProxyType supports neither."""
        mappings = dict(self.severities), dict(self.known_keys)
        return type(self), (self.name, self.description, *mappings, self.rules)

    def __contains__(self, rule: object) -> bool:
        return rule in self.severities

    def __iter__(self) -> Iterator[str]:
        return iter(self.severities)

    def __len__(self) -> int:
        return len(self.severities)

    @cached_property
    def _screen(self) -> Screen:
        """The suspicions of the rules in this profile."""
        return Screen(self, self.known_keys)

    def derive(
        self,
        name: str,
        description: str,
        *,
        severities: Mapping[str, Severity] | None = None,
        without: tuple[str, ...] = (),
        known_keys: Mapping[str, tuple[str, ...]] | None = None,
        rules: Iterable[Rule] = (),
    ) -> Profile:
        """Return a new profile that is based on this one.

        Args:
            name: the new profile's name.
            description: the specification or product whose requirements it has.
            severities: severities of rules to add or to change, by rule id.
            without: ids of the rules to remove.
            known_keys: the new profile's `known_keys`; None to keep those of this profile.
            rules: rules to add that are not in `RULES`, as `amqp10msg.rule` and
                `amqp10msg.load_rules` return them.

        Raises:
            TypeError: an item of `rules` is not a `Rule`.
            ValueError: a rule in `severities` does not exist, this profile lacks a rule of
                `without`, a severity is neither ``error`` nor ``warning``, or a rule of `rules` has
                the id of another rule.
        """
        new = tuple(rules)
        for rule in new:
            _expect_rule(rule)
        own_severities = {rule.id: rule.severity for rule in new}
        derived = {**self.severities, **own_severities, **(severities or {})}
        for removed in without:
            if removed not in derived:
                raise ValueError(f"{self.name} has no rule {removed!r} to leave out")
            del derived[removed]
        keys = self.known_keys if known_keys is None else known_keys
        return Profile(name, description, derived, keys, (*self.rules, *new))


def _severities_of_broker_rules(broker: str) -> dict[str, Severity]:
    """Return the severities of the rules that only the profile of one broker has, by rule id."""
    return {rule.id: rule.severity for rule in RULES.values() if rule.clause == broker}


# The severities of the rules that only one profile has, by rule id.
_SEVERITIES_OF_RABBITMQ_RULES = _severities_of_broker_rules("RabbitMQ 4")
_SEVERITIES_OF_AZURE_RULES = _severities_of_broker_rules("Azure")
# Message annotations of W3C's draft "Trace Context: AMQP protocol".
_W3C_TRACE_ANNOTATION_KEYS = ("traceparent", "tracestate")
#: The built-in profiles.
_OASIS_PROFILE = Profile(
    "oasis",
    "OASIS AMQP 1.0, Part 3, section 3.2, exactly.",
    {
        rule.id: rule.severity
        for rule in RULES.values()
        if rule.in_messages
        and rule.id not in _SEVERITIES_OF_RABBITMQ_RULES
        and rule.id not in _SEVERITIES_OF_AZURE_RULES
    },
    {"delivery-annotations": ("rejected",), "message-annotations": _W3C_TRACE_ANNOTATION_KEYS},
)
_RABBITMQ_4_PROFILE = _OASIS_PROFILE.derive(
    "rabbitmq-4",
    "What RabbitMQ 4 refuses or cannot deliver: a body is required, annotation keys must be "
    "symbols that begin with x-, and some encodings are not understood.",
    severities={"annotation-key-reserved": "error", **_SEVERITIES_OF_RABBITMQ_RULES},
    known_keys={},
)
_AZURE_PROFILE = _OASIS_PROFILE.derive(
    "azure",
    "Azure Service Bus, Event Hubs and IoT Hub: iothub-* annotations, messages without a body, and "
    "the message-format of batches are usual there; scheduled times are timestamps, and partition "
    "keys strings.",
    severities=_SEVERITIES_OF_AZURE_RULES,
    without=("body-missing", "message-format"),
    known_keys={
        "delivery-annotations": ("rejected", "iothub-*"),
        "message-annotations": (*_W3C_TRACE_ANNOTATION_KEYS, "iothub-*"),
    },
)
# The format codes of lists, maps and arrays.
_COMPOUND_CODES = {
    code for code, row in FORMAT_CODES.items() if row.category in ("compound", "array")
}
# The clause of the rules about the sequence of sections.
_SECTION_ORDER_CLAUSE = "Part 3, 3.2"
# The rules of messages whose violations strict decoding refuses, for `first_fault`.
_STRICT_DECODING_PROFILE = Profile(
    "decoding",
    "The rules of Part 1 and Part 3 whose violations strict decoding refuses.",
    {rule.id: "error" for rule in RULES.values() if rule.refused and rule.in_messages},
)
#: The built-in profiles by name. The names of RabbitMQ's series 4.x mean ``rabbitmq-4``; the names
#: of series 3.x mean ``oasis``, since these brokers accept sections without decoding them.
PROFILES: ByName[Profile] = ByName(
    {profile.name: profile for profile in (_OASIS_PROFILE, _RABBITMQ_4_PROFILE, _AZURE_PROFILE)},
    rule_sets(),
)


def profile_of(profile: str | Profile) -> Profile:
    """Return the profile with this name; return a `Profile` itself.

    Raises:
        TypeError: `profile` is neither a str nor a Profile.
        ValueError: there is no profile with this name.
    """
    if not isinstance(profile, str):
        if isinstance(profile, Profile):
            return profile
        raise TypeError(f"profile must be a name or a Profile, not {type(profile).__name__}")
    try:
        return PROFILES[profile]
    except KeyError as error:
        raise ValueError(error.args[0]) from None


def rule_of(error: DecodeError) -> tuple[str, str]:
    """Return the id and the clause of the rule that `error` violates.

    The clause is that of the error. If the error has no clause, it is that of the rule in `RULES`.
    Of the two clauses of a rule about lists, maps and arrays, it is the violated one if the error
    has its `data`. For other rules, as in errors of the AMQP 0-9-1 decoder, it is ``Part 1, 1.2``.
    """
    expect(error, DecodeError, "rule_of", "a DecodeError")
    if error.clause:
        return error.rule, error.clause
    rule = RULES.get(error.rule)
    if rule is None:
        return error.rule, "Part 1, 1.2"
    clause = "" if error.data is None else _compound_clause(rule, bytes(error.data), error.offset)
    return error.rule, clause or rule.clause


def _compound_clause(rule: Rule, data: bytes, offset: int) -> str:
    """Return the clause of the list, map or array that violates `rule` at `offset` of a message.

    Empty if the rule does not have two clauses, one for lists and maps and one for arrays, or if no
    list, map or array violates it at `offset`.
    """
    if rule.clause != COMPOUND_CLAUSES:
        return ""
    section = 0
    while 0 <= (end := end_of(data, section, len(data))) <= offset and end < len(data):
        section = end
    clause = ""
    for value in walk(data, section):
        if value.offset > offset:
            break
        if value.code not in _COMPOUND_CODES or value.role == ROLE_CONSTRUCTOR:
            continue
        if rule.id == "compound-size-too-small":
            # The size follows the format code, which the elements of an array do not have.
            is_violated = offset - value.offset in (0, 1)
        else:
            is_violated = not value.fault and value.content <= offset <= value.stop
        if is_violated:
            clause = "Part 1, 1.2.4" if value.is_array else "Part 1, 1.2.3"
    return clause


def _condition_of(rule: Rule) -> str:
    """Return the error condition for a message that decoding refuses because of `rule`."""
    if rule.id.endswith("-limit"):
        return RESOURCE_LIMIT_EXCEEDED
    if rule.id == "unknown-section":
        return NOT_IMPLEMENTED
    is_about_encoding = rule.clause.startswith("Part 1") or rule.clause == _SECTION_ORDER_CLAUSE
    return DECODE_ERROR if is_about_encoding else INVALID_FIELD


def _end_of_section(data: bytes, offset: int) -> int:
    """Return the end of the section that contains `offset`; if unknown, the end of the message."""
    end = 0
    while 0 <= end <= offset:
        end = end_of(data, end, len(data))
    return end if end >= 0 else len(data)


def first_fault(error: DecodeError, limits: Limits | None = None) -> DecodeError:
    """Return the error for the first violation in a message that decoding refused with `error`.

    Decoding stops where it can read no further, which may be a consequence of an earlier fault.
    `validate` finds the earlier fault and its exact clause. Violations that strict decoding
    accepts, such as of ``body-missing``, are ignored.

    The message is read again, up to the end of the section in which decoding stopped, which
    contains the first fault or follows it. Call this function only for refused messages.

    Args:
        error: the error, whose `data` is the whole message.
        limits: the limits of decoding; None for the defaults of `Limits`.

    Returns:
        An error with the rule, clause, path, offset and text of `validate`; `error` itself if it
        has no `data` or `validate` finds no such violation.

    Raises:
        TypeError: `error` is not a DecodeError.
    """
    expect(error, DecodeError, "first_fault", "a DecodeError")
    if error.data is None:
        return error
    data = bytes(error.data)
    end = _end_of_section(data, error.offset)
    limits = limits or DEFAULT_LIMITS
    if end < len(data):
        # Allow the part as many zero-width array elements as the whole message.
        zero_width = limits.zero_width_of(len(data))
        limits = attrs.evolve(limits, zero_width=zero_width, zero_width_per_byte=1 << 20)
    # Include one byte after the section: without it, a value that overruns its section would be
    # reported as a truncated message.
    violations = validate(data[: end + 1], _STRICT_DECODING_PROFILE, limits=limits)
    if not violations:
        return error
    first = violations[0]
    is_same_rule = first.rule == error.rule
    return DecodeError(
        first.text,
        first.offset,
        rule=first.rule,
        condition=error.condition if is_same_rule else _condition_of(RULES[first.rule]),
        path=first.path,
        clause=first.clause,
        data=error.data,
    )


def has_unscreened_rules(profile: Profile) -> bool:
    """Return whether a profile has rules that must be checked on every message.

    For these rules, neither decoding nor a suspicion shows that a message cannot violate them.
    """
    expect(profile, Profile, "has_unscreened_rules", "a Profile")
    return bool(profile.rules) or profile._screen.is_partial


class _Violations(list[Violation]):
    """A list of violations that notebooks show as a table."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        rows = [(v.severity, f"{v.offset:,}", v.path, v.text, v.clause) for v in self]
        title = "No rule is broken." if not self else f"Broken rules: {len(self):,}"
        return html_table(title, ("severity", "byte", "where", "what", "clause"), rows)


class EncodableMessage(Protocol):
    """The part of a `Message` that `validate` uses: its message-format and its encoding."""

    message_format: int

    def encode(self) -> bytes:
        """Return the encoded message."""


def validate(
    message: EncodableMessage | bytes | bytearray | memoryview,
    profile: ProfileName | Profile = "oasis",
    *,
    limits: Limits | None = None,
) -> list[Violation]:
    """Return the rules of a specification or a broker that a message violates.

    Malformed bytes are reported as violations, too. If the size of a damaged section is valid, the
    sections after it are also checked. At most 100 violations of each rule are listed.

    Args:
        message: an encoded message or a `Message`. A `Message` is encoded first, so offsets refer
            to ``message.encode()``; if it cannot be encoded, it violates ``not-encodable``.
        profile: ``oasis``, ``rabbitmq-4``, ``azure``, the name of a RabbitMQ series, or a
            `Profile`.
        limits: the limits of decoding; None for the defaults of `Limits`.

    Returns:
        The violations in the order of their offsets; an empty list if the message is valid. One
        damaged byte may cause several: `Violation.follows` marks the later ones. Notebooks show the
        list as a table.

    Raises:
        TypeError: `message` is neither a Message nor bytes-like, or `profile` has a wrong type.
        ValueError: there is no profile with this name.
    """
    profile = profile_of(profile)
    limits = limits or DEFAULT_LIMITS
    violations = _Violations()
    octets: bytes | bytearray | memoryview | None
    if type(message) is bytes or isinstance(message, (bytes, bytearray, memoryview)):
        octets = message
    else:
        octets = _encode_or_add_violation(message, profile, violations)
        if octets is None:
            return violations
    try:
        data = kernel.octets_of(octets, limits)
    except DecodeError as error:
        _add_violation(
            violations, profile, error.rule, Occurrence(error.offset, error.path, error.reason)
        )
        return violations
    screen = profile._screen
    suspects = suspected(data, limits, screen)
    always_checked = bool(profile.rules) or screen.is_partial
    # The usual case: the message decodes, and cannot violate any rule.
    if suspects is not None and not suspects and not always_checked:
        return violations
    if suspects is None:
        view = map_message(data, limits)
        for fault in view.faults:
            name, clause = rule_of(fault)
            clause = _compound_clause(RULES[name], data, fault.offset) or clause
            _add_violation(
                violations,
                profile,
                name,
                Occurrence(fault.offset, fault.path, fault.reason, clause),
            )
        rules: Iterable[Rule] = _CHECKED_RULES
        if not always_checked:
            narrow(view, screen)
        if view.doubtful is not None:
            names = {section.kind.name for section in view.doubtful}
            rules = [
                rule
                for rule in _CHECKED_RULES
                if not rule.sections or not names.isdisjoint(rule.sections)
            ]
    else:
        rules = [
            rule
            for rule in RULES_NOT_CHECKED_BY_DECODING
            if rule.id in suspects or rule.suspicion is None
        ]
        view = map_valid_message(data, limits)
    view.known_annotation_keys = profile.known_keys
    violations += violations_of((*rules, *profile.rules), view, profile.severities)
    # The sort is stable: violations at the same offset stay in the order of the rules.
    violations.sort(key=_offset_of)
    if len(violations) > 1:
        mark_follow_ups(violations, (section.offset for section in view.sections))
    return violations


_offset_of = attrgetter("offset")


def _encode_or_add_violation(
    message: EncodableMessage, profile: Profile, violations: list[Violation]
) -> bytes | None:
    """Return the encoded message; None if it cannot be encoded.

    Violations of the rules ``message-format`` and ``not-encodable`` are added to `violations`.
    """
    # This module must not import `message`, which imports it.
    if not (hasattr(message, "encode") and hasattr(message, "message_format")):
        raise TypeError(
            f"expected a Message, bytes, bytearray or memoryview, not {type(message).__name__}"
        )
    if message.message_format != 0:
        code: object = message.message_format
        format_text = f"0x{code:08X}" if isinstance(code, int) else repr(code)
        text = f"the message-format is {format_text}, and that of Part 3 is 0"
        _add_violation(violations, profile, "message-format", Occurrence(0, "message-format", text))
    try:
        return message.encode()
    except EncodeError as error:
        name = error.path.partition(".")[0].partition("[")[0]
        clause = next((kind.clause for kind in KINDS if kind.name == name), "")
        occurrence = Occurrence(0, error.path, error.reason, clause)
        _add_violation(violations, profile, "not-encodable", occurrence)
        return None


def _add_violation(
    violations: list[Violation], profile: Profile, rule: str, occurrence: Occurrence
) -> None:
    """Add a violation of the rule with this id, if the profile has the rule."""
    if rule in profile:
        violations.append(violation_of(RULES[rule], occurrence, profile.severities[rule]))
