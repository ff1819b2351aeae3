"""A violation that may be a consequence of an earlier one says so."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg import Message
from amqp10msg.testing import messages
from amqp10msg.validation import PROFILES, RULES, Violation, validate

BODY = "005375a00178"


@given(messages(), st.data())
def test_follow_up_names_an_earlier_violation_that_is_none(
    message: Message, data: st.DataObject
) -> None:
    octets = bytearray(message.encode())
    for _ in range(data.draw(st.integers(1, 3))):
        octets[data.draw(st.integers(0, len(octets) - 1))] = data.draw(st.integers(0, 255))

    violations = validate(octets)

    causes = {violation.offset for violation in violations if violation.follows is None}
    assert not violations or causes
    for violation in violations:
        suffix = f" (may follow from the violation at byte {violation.follows})"
        is_marked = violation.follows is not None
        assert is_marked == violation.text.endswith(suffix)
        assert not is_marked or violation.follows in causes
        assert (
            not is_marked
            or violation.rule == "body-missing"
            or (
                violation.follows <= violation.offset  # type: ignore[operator]
            )
        )


#: Sections that can be read to their end, each with one fault, in the order of a message.
FAULTY_SECTIONS = [
    ["005371c103024040", "005371c103023f40"],
    ["005372c103024040", "005372c103023f40"],
    ["005373c0020141", "005373c002013f"],
    ["005374c103024040", "005374c103023f40"],
]


@given(st.tuples(*(st.sampled_from(["", *faulty]) for faulty in FAULTY_SECTIONS)))
def test_faults_of_two_sections_do_not_follow_from_each_other(sections: tuple[str, ...]) -> None:
    violations = validate(bytes.fromhex("".join(sections) + BODY))

    assert [None] * sum(map(bool, sections)) == [violation.follows for violation in violations]


def found(octets: str) -> list[tuple[str, int, int | None]]:
    violations: list[Violation] = validate(bytes.fromhex(octets))
    return [(violation.rule, violation.offset, violation.follows) for violation in violations]


@pytest.mark.parametrize(
    "octets, expected",
    [
        # A wrong constructor: the bytes after it are no value.
        ("0053764003024545", [("section-value-type", 3, None), ("unknown-constructor", 4, 3)]),
        (
            "005372c10b024007782d6f70742d6b43" + BODY,
            [("message-annotations-key-type", 6, None), ("unknown-constructor", 7, 6)],
        ),
        (
            "005373c10301530000" + BODY[2:],
            [("map-odd-count", 3, None), ("section-value-type", 3, 3)],
        ),
        # A wrong size: the bytes after the section are no sections.
        (
            "005370c0020000" + BODY[2:],
            [
                ("compound-trailing-bytes", 6, None),
                ("not-a-section", 7, 6),
                ("not-a-section", 9, 6),
                ("body-missing", 12, 6),
            ],
        ),
        ("005377e0000340", [("compound-size-too-small", 4, None), ("unknown-constructor", 5, 4)]),
        # A value that is no section may be the body.
        ("005277c10100", [("unknown-section", 0, None), ("body-missing", 6, 0)]),
        # The second unknown section does not follow from the first.
        (
            "00521040" + "00521140" + BODY,
            [("unknown-section", 0, None), ("unknown-section", 4, None)],
        ),
        # The fields of a section that can be read are separate faults.
        (
            "005373c006034140a101ff" + BODY,
            [("field-type", 6, None), ("invalid-utf8", 10, None)],
        ),
        # A reserved key cannot be told of a symbol that is not ASCII: that is one fault.
        ("005372c10502a301a240" + BODY, [("symbol-not-ascii", 8, None)]),
    ],
)
def test_follow_ups_of_one_damaged_byte(
    octets: str, expected: list[tuple[str, int, int | None]]
) -> None:
    assert expected == found(octets)


#: Rules whose violations are no sign of a damaged byte: limits, missing and misplaced values, and
#: rules about composites that are decoded alone.
NO_SIGNS_OF_DAMAGE = {
    *("depth-limit", "items-limit", "zero-width-limit", "keys-limit", "size-limit"),
    *("section-out-of-order", "duplicate-section", "mixed-body-sections", "trailing-bytes"),
    *("not-a-composite", "unknown-composite", "not-a-delivery-state"),
    *("mandatory-field-missing", "field-key-type"),
}


def test_refused_rule_says_whether_it_is_a_sign_of_damage() -> None:
    without = {rule.id for rule in RULES.values() if rule.refused and not rule.damage}

    assert without == NO_SIGNS_OF_DAMAGE, "set Rule.damage, or add the rule to this list"


def test_follow_up_without_its_cause_in_the_profile_is_not_marked() -> None:
    profile = PROFILES["oasis"].derive("own", "own", without=("section-value-type",))

    (violation,) = validate(bytes.fromhex("0053764003024545"), profile)

    assert ("unknown-constructor", None) == (violation.rule, violation.follows)
    assert attrs.evolve(violation, follows=3) != violation
