"""Decoding a refused message names the first fault that the validator names."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg import DecodeError, Limits, Message
from amqp10msg.files.recognition import decode_whole
from amqp10msg.testing import encodings, malformed, messages
from amqp10msg.validation import RULES, Violation, first_fault, rule_of, validate
from tests.validation.damaged import LIMITS, OCTETS

DAMAGED = st.one_of(OCTETS, malformed(), malformed(of="value"), st.binary(max_size=40))
# Name and bytes of messages in which a consequence is where decoding stops or is more general.
CONSEQUENCES = {
    "a map in place of the header's list": ("00 53 70 c1 02 01 41", "map-odd-count", 3),
    "a map as a property, which overruns": (
        "00 53 74 c1 07 02 a1 01 62 c1 01 78",
        "application-properties-value-not-simple",
        9,
    ),
    "a field's type, then an unreadable section": (
        "00 53 70 c0 03 01 53 41 00 53 77 a1 09",
        "field-type",
        6,
    ),
}


def refused_violations(octets: bytes, limits: Limits | None = None) -> list[Violation]:
    """Return the violations for which strict decoding refuses a message."""
    return [item for item in validate(octets, limits=limits) if RULES[item.rule].refused]


def error_of(octets: bytes, limits: Limits | None = None) -> DecodeError | None:
    try:
        Message.decode(octets, limits=limits)
    except DecodeError as error:
        return error
    return None


def as_violation(error: DecodeError) -> Violation:
    rule, clause = rule_of(error)
    return Violation(rule, clause, "error", error.path, error.offset, error.reason)


@given(DAMAGED)
def test_decoding_names_the_first_violation(octets: bytes) -> None:
    error = error_of(octets)

    assert refused_violations(octets)[:1] == ([] if error is None else [as_violation(error)])


@given(DAMAGED, LIMITS)
def test_decoding_within_limits_names_a_violation(octets: bytes, limits: Limits) -> None:
    error = error_of(octets, limits)

    if error is not None:
        expected = [(item.rule, item.offset) for item in refused_violations(octets, limits)]
        assert (error.rule, error.offset) in expected


@given(DAMAGED)
def test_lenient_decoding_of_a_whole_message_names_the_first_violation(octets: bytes) -> None:
    error = None
    try:
        decode_whole(octets)
    except DecodeError as refusal:
        error = refusal
    assert error is None or refused_violations(octets)[0] == as_violation(error)


@given(messages().flatmap(encodings), st.binary(min_size=1, max_size=8))
def test_bytes_after_the_faulty_section_do_not_matter(octets: bytes, rest: bytes) -> None:
    # A field of the header has a wrong type, and the size of the section is right.
    faulty = bytes.fromhex("00 53 70 c0 03 01 53 41")

    errors = [error_of(faulty + octets), error_of(faulty + rest), error_of(faulty)]

    assert {("field-type", "Part 3, 3.2.1", 6)} == {
        (*rule_of(error), error.offset) for error in errors if error is not None
    }
    assert None not in errors


@pytest.mark.parametrize("name", CONSEQUENCES)
def test_a_consequence_is_not_named(name: str) -> None:
    octets, rule, offset = CONSEQUENCES[name]
    error = error_of(bytes.fromhex(octets))

    assert error is not None
    assert (rule, offset) == (error.rule, error.offset)
    assert validate(bytes.fromhex(octets))[0] == as_violation(error)


def test_violation_that_decoding_accepts_is_not_named() -> None:
    # A footer with a string as key, in a message without a body.
    octets = bytes.fromhex("00 53 78 c1 05 02 a1 01 62 40")

    error = error_of(octets)

    assert [item.rule for item in validate(octets)][:1] == ["body-missing"]
    assert error is not None
    assert error.rule == "footer-key-type"


def test_error_without_its_message_is_returned_unchanged() -> None:
    error = DecodeError("reason", 3, rule="field-type")

    assert error is first_fault(error)
    assert ("field-type", RULES["field-type"].clause) == rule_of(error)


def test_clause_is_pickled() -> None:
    error = error_of(bytes.fromhex("00 53 73 c0 02 01 52"))

    assert error is not None
    assert "Part 3, 3.2.11 to 3.2.14" == pickle.loads(pickle.dumps(error)).clause == error.clause


# The condition with which each kind of rule is refused, also if another fault stopped decoding.
@given(DAMAGED)
def test_condition_depends_on_the_rule(octets: bytes) -> None:
    error = error_of(octets)
    if error is not None:
        stop = DecodeError("stopped", len(octets), rule="other", data=octets)
        again = first_fault(stop)
        assert (error.rule, error.condition) == (again.rule, again.condition)
