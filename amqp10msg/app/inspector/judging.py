"""Decode one message or a sequence of values, and check it against the rules."""

from __future__ import annotations

from typing import Any

import attrs

from amqp10msg import notation
from amqp10msg.app.inspector.reading import Item
from amqp10msg.composite import composite_of
from amqp10msg.files.recognition import decode_whole
from amqp10msg.files.signatures import SECTION_START
from amqp10msg.sections import CODE_BY_DESCRIPTOR
from amqp10msg.validation import Profile, Violation, profile_of, validate
from amqp10msg.wire.errors import AmqpError, DecodeError
from amqp10msg.wire.kernel import decode_value, decode_values, skip_value
from amqp10msg.wire.limits import DEFAULT_LIMITS
from amqp10msg.wire.primitives import Symbol, ULong

#: The rule id of the violation that represents an unreadable input.
UNREADABLE = "unreadable-input"
#: The rule id of the violation that represents a damaged place in a file, where messages may be
#: missing. The error codes of jobs have the same names.
DAMAGED = "damaged-file"
# Descriptions of the archetypes that a composite may provide. The first one that matches is used.
_ARCHETYPE_DESCRIPTIONS = {
    "outcome": "an outcome",
    "delivery-state": "a delivery state",
    "lifetime-policy": "a lifetime policy",
}
# The rules (`DecodeError.rule`) with which `delivery.decode` refuses a value that is not a delivery
# state or terminus. This is not a violation.
_NOT_A_DELIVERY_STATE_RULES = frozenset(
    ("not-a-composite", "unknown-composite", "not-a-delivery-state")
)


class Judged:
    """One message or a sequence of values, decoded and checked against the rules.

    Args:
        item: the bytes and their source.
        profile: the validation profile, or its name.
        as_values: decode a sequence of values even if the bytes begin like a message.
        max_fields: the approximate maximum number of fields in the result of `tree`.
        role: for a source or target, the end of the link that sends it: ``sender`` or ``receiver``.

    Attributes:
        is_message: whether the bytes were decoded as a message.
        violations: the violated rules.
        decoded: a list of the message, or of the values.
        fault: why the bytes cannot be decoded; empty if they can.
        summary: a description of a single delivery state or terminus; empty for anything else.
    """

    def __init__(
        self,
        item: Item,
        profile: str | Profile = "oasis",
        *,
        as_values: bool = False,
        max_fields: int = 10_000,
        role: str | None = None,
    ) -> None:
        self.item = item
        self.max_fields = max_fields
        self.is_message = not as_values and is_message(item.data)
        self.violations = validate(item.data, profile_of(profile)) if self.is_message else []
        self.decoded: list[Any] = []
        self.fault = ""
        try:
            self.decoded = read(item.data, as_values=not self.is_message)
        except AmqpError as error:
            self.fault = item.explained(str(error))
        self.summary = ""
        if len(self.decoded) == 1 and not self.is_message and not as_values and not self.fault:
            self.summary, self.violations = _judge_state(item.data, role)

    @property
    def is_broken(self) -> bool:
        """Whether the bytes cannot be decoded, or have a violation of severity ``error``."""
        return bool(self.fault) or any(v.severity == "error" for v in self.violations)

    def tree(self) -> notation.Tree:
        """Return the tree of fields that explains every byte."""
        return notation.parse_tree(
            self.item.data, violations=self.violations, limit=self.max_fields
        )


def judge(item: Item, profile: str | Profile) -> list[Violation]:
    """Return the violations of an item.

    For an item with a fault, this is one violation of `UNREADABLE`, or `DAMAGED` for damage. A
    message of another protocol violates no rule.
    """
    if item.is_other_protocol:
        return []
    if item.fault:
        rule = DAMAGED if item.is_damage else UNREADABLE
        return [Violation(rule, "", "error", "", 0, item.fault)]
    violations = validate(item.data, profile_of(profile))
    if violations and not SECTION_START.match(item.data):
        violations[0] = attrs.evolve(violations[0], text=item.explained(violations[0].text))
    return violations


def is_message(data: bytes) -> bool:
    """Return whether bytes are a message: they are empty, or begin with a section's descriptor.

    The descriptor must be a ulong or a symbol. Bytes with an unreadable descriptor count as a
    message, too.
    """
    if data[:1] not in (b"", b"\0"):
        return False
    try:
        descriptor = decode_value(data[1 : skip_value(data, 1)])
    except DecodeError:
        return True
    return isinstance(descriptor, (ULong, Symbol)) and descriptor in CODE_BY_DESCRIPTOR


def read(data: bytes, *, as_values: bool = False) -> list[Any]:
    """Return a list of the decoded message, or of the decoded values.

    A message is decoded leniently, so it may violate rules. `as_values`: see `Judged`.

    Raises:
        DecodeError: the bytes cannot be decoded.
    """
    if not as_values and is_message(data):
        return [decode_whole(data)]
    return list(decode_values(data, limits=DEFAULT_LIMITS))


def _judge_state(data: bytes, role: str | None) -> tuple[str, list[Violation]]:
    """Return (description, violations) of a delivery state, terminus or lifetime policy.

    For other values, return ("", []). `role`: see `Judged`.
    """
    from amqp10msg import delivery  # noqa: PLC0415  (rarely needed: most inputs are messages)

    try:
        state = delivery.decode(data)
    except DecodeError as error:
        if error.rule in _NOT_A_DELIVERY_STATE_RULES:
            return "", []
        # Part 1, 1.4 specifies the encoding of composites.
        fault = Violation(
            error.rule, "Part 1, 1.4", "error", error.path, error.offset, error.reason
        )
        return error.path.partition(".")[0] or "a composite", [fault]
    violations: list[Violation] = []
    if isinstance(state, delivery.Source):
        violations = delivery.check_source(data, role=role)
    elif isinstance(state, (delivery.Target, delivery.Coordinator)):
        violations = delivery.check_target(data, role=role)
    entry = composite_of(type(state))
    kinds = [kind for name, kind in _ARCHETYPE_DESCRIPTIONS.items() if name in entry.provides]
    return ", ".join([entry.name, *kinds[:1]]), violations
