"""Validate bare delivery states and termini: octets that are not a message."""

from __future__ import annotations

import attrs

from amqp10msg import delivery
from amqp10msg.composite import composite_of
from amqp10msg.errors import DecodeError
from amqp10msg.validation import Violation

# What a composite is, by the first of these archetypes that it provides.
_KINDS = {
    "outcome": "an outcome",
    "delivery-state": "a delivery state",
    "lifetime-policy": "a lifetime policy",
}
# Errors of octets that are something else, which is not judged here.
_OTHERS = frozenset(("not-a-composite", "unknown-composite", "not-a-delivery-state"))


@attrs.frozen
class Judged:
    """A delivery state, terminus or part of one.

    Attributes:
        what: its name, and what kind of thing it is.
        violations: the rules that it breaks.
    """

    what: str
    violations: list[Violation]


def judge_state(data: bytes, role: str | None) -> Judged | None:
    """Judge one encoded value; return None where it is not a delivery state, terminus or the like.

    Args:
        data: the octets, which parse.
        role: the end of the link that sends a source or target, or None where that is not known.
    """
    try:
        state = delivery.decode(data)
    except DecodeError as error:
        if error.rule in _OTHERS:
            return None
        # The declaration of a composite is what Part 1, 1.4 is about.
        fault = Violation(
            error.rule, "Part 1, 1.4", "error", error.path, error.offset, error.reason
        )
        return Judged(error.path.partition(".")[0] or "a composite", [fault])
    entry = composite_of(type(state))
    kind = next((kind for name, kind in _KINDS.items() if name in entry.provides), "")
    violations: list[Violation] = []
    if isinstance(state, delivery.Source):
        violations = delivery.check_source(data, role=role)
    elif isinstance(state, (delivery.Target, delivery.Coordinator)):
        violations = delivery.check_target(data, role=role)
    return Judged(f"{entry.name}, {kind}" if kind else entry.name, violations)
