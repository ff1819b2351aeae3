"""Marks violations that may be consequences of an earlier one: one fault is one violation.

After a wrong constructor, size or count, the following bytes are read as values that they are not.
Their violations are true, but disappear when the first one is corrected.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

import attrs

from amqp10msg.validation._table import RULES
from amqp10msg.validation.rules import Violation

#: The signs of damage, by rule; see `Rule.damage`. Rules that are not signs are left out.
_DAMAGE_BY_RULE = {rule.id: rule.damage for rule in RULES.values() if rule.damage}
#: The rule about the type of a whole section, after whose violation any content may be misread.
_SECTION_TYPE_RULE = "section-value-type"
#: Rules about values at the level of sections that are not sections. One of them may be the body.
_UNKNOWN_RULES = ("not-a-section", "unknown-section")


def mark_follow_ups(violations: list[Violation], section_offsets: Iterable[int]) -> None:
    """Set `Violation.follows` of violations that may follow from an earlier one, and say so.

    The earlier violation means that the bytes after it may be misread. At the next section,
    reading is in step again.

    Args:
        violations: the violations in the order of their offsets, which are replaced in place.
        section_offsets: the offsets of the sections, in ascending order.
    """
    offsets: Sequence[int] = sorted(section_offsets)
    unknown: Violation | None = None  # the first value that is not a section
    cause: Violation | None = None  # the latest violation after which bytes may be misread
    for index, violation in enumerate(violations):
        if cause is not None and _may_follow(violation, cause, offsets):
            violation = violations[index] = _marked(violation, cause)  # noqa: PLW2901
        if _DAMAGE_BY_RULE.get(violation.rule) in {"type", "structure"}:
            cause = violation
        if violation.rule in _UNKNOWN_RULES:
            unknown = unknown or violation
    if unknown is not None:
        for index, violation in enumerate(violations):
            if violation.rule == "body-missing":
                violations[index] = _marked(violation, unknown)


def _may_follow(violation: Violation, cause: Violation, section_offsets: Sequence[int]) -> bool:
    """Whether `violation` may disappear when `cause`, which precedes it, is corrected."""
    damage = _DAMAGE_BY_RULE.get(violation.rule)
    if damage == "type":
        # The value at this offset was misread, such as a map that must be a list.
        return cause.offset == violation.offset
    if damage == "content":
        # Of the rules about types, only that of a whole section makes contents unreadable.
        is_consequence = (
            _DAMAGE_BY_RULE[cause.rule] == "structure" or cause.rule == _SECTION_TYPE_RULE
        )
    else:
        # Two unknown sections are two faults: each of them was read to its end.
        are_unknown = violation.rule == cause.rule == "unknown-section"
        is_consequence = damage == "structure" and not are_unknown
    # Equal if no section begins after the cause, up to the violation.
    return is_consequence and bisect_right(section_offsets, cause.offset) == bisect_right(
        section_offsets, violation.offset
    )


def _marked(violation: Violation, cause: Violation) -> Violation:
    """Return a violation that may follow from `cause`, or from what `cause` follows from."""
    root = cause.offset if cause.follows is None else cause.follows
    text = f"{violation.text} (may follow from the violation at byte {root})"
    return attrs.evolve(violation, text=text, follows=root)
