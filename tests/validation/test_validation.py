"""`validate`: it agrees with the decoder on any bytes, survives hostile ones, and takes messages.

What the single rules and the profiles are about is in test_validation_rules.py.
"""

from __future__ import annotations

import copy
import pickle
import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg import (
    AmqpSequence,
    AmqpValue,
    Data,
    DecodeError,
    Footer,
    Header,
    Limits,
    Malformed,
    Message,
    Properties,
    Symbol,
    ULong,
    Violation,
    encode_value,
    validate,
)
from amqp10msg.sections import SPECS
from amqp10msg.validation import PROFILES, RULES, Profile, ProfileName
from amqp10msg.wire.kernel import path_of
from tests.samples import corpus_cases, some, vectors
from tests.thorough import judged_thoroughly
from tests.validation.damaged import LIMITS, OCTETS, SCALARS, VALUES, hexed, messages, rules_of

NAMES = {key: (spec.name, spec.names) for spec in SPECS for key in (spec.code, spec.symbol)}
DATA = hexed("00 53 75 a0 01 78")


# Properties.


@given(OCTETS, st.sampled_from([*PROFILES.values()]))
def test_any_bytes_give_violations_without_an_exception(data: bytes, profile: Profile) -> None:
    found = validate(data, profile)
    for violation in found:
        assert violation.rule in profile, violation
        assert profile.severities[violation.rule] == violation.severity
        assert 0 <= violation.offset <= len(data), violation
        assert violation.text, violation
        clause = RULES[violation.rule].clause
        assert clause.partition(",")[0] == violation.clause.partition(",")[0], violation
    assert sorted(found, key=lambda violation: violation.offset) == found
    assert len({(v.rule, v.offset, v.path) for v in found}) == len(found)
    assert found == validate(bytearray(data), profile) == validate(memoryview(data), profile)


def refusal(data: bytes, limits: Limits | None) -> DecodeError | None:
    try:
        Message.decode(data, limits=limits)
    except DecodeError as error:
        return error
    return None


def assert_agreement(data: bytes, limits: Limits | None) -> None:
    """The decoder refuses exactly what a rule marked so finds, in the same place."""
    found = [v for v in judged_thoroughly(data, limits=limits) if RULES[v.rule].refused]
    error = refusal(data, limits)
    assert bool(found) == (error is not None), (error, found)
    if error is not None:
        rule = error.rule
        same = [v for v in found if (v.rule, v.offset) == (rule, error.offset)]
        assert same, (error.rule, str(error), found)
        # The decoder names no section as a whole.
        assert error.path in ("", same[0].path)
        assert not RULES[rule].about_encoding or error.reason == same[0].text


@given(OCTETS)
def test_strict_decoding_refuses_violations_of_refused_rules(data: bytes) -> None:
    assert_agreement(data, None)


@given(OCTETS, LIMITS)
def test_strict_decoding_and_validation_have_the_same_limits(data: bytes, limits: Limits) -> None:
    assert_agreement(data, limits)


#: Every rule, none of whose keys is known.
EVERYTHING = PROFILES["oasis"].derive(
    "everything", "All rules.", severities=dict.fromkeys(RULES, "error"), known_keys={}
)


@pytest.mark.parametrize("profile", [*PROFILES.values(), EVERYTHING], ids=lambda one: one.name)
@pytest.mark.parametrize(
    "way", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))]
)
def test_profile_can_be_copied_and_pickled(way: Any, profile: Profile) -> None:
    made = way(profile)

    assert profile == made
    assert hash(profile) == hash(made)
    assert validate(b"\0\x53\x70\x40", profile) == validate(b"\0\x53\x70\x40", made)


@given(OCTETS, st.sampled_from([*PROFILES.values(), EVERYTHING]), st.none() | LIMITS)
def test_prefiltered_and_full_validation_agree(
    data: bytes, profile: Profile, limits: Limits | None
) -> None:
    expected = judged_thoroughly(data, profile, limits)

    assert expected == validate(data, profile, limits=limits)


@pytest.mark.parametrize("profile", [*PROFILES.values(), EVERYTHING], ids=lambda one: one.name)
def test_prefiltered_and_full_validation_agree_on_the_corpus(profile: Profile) -> None:
    octets = [*dict.fromkeys(case.data for case in corpus_cases())]

    assert len(octets) > 500
    for data in some(octets):
        assert judged_thoroughly(data, profile) == validate(data, profile)


@given(OCTETS)
def test_lenient_decoding_keeps_or_refuses_structural_violations(data: bytes) -> None:
    structural = [rule for rule in rules_of(validate(data)) if RULES[rule].about_encoding]
    try:
        message = Message.decode(data, strict=False)
    except DecodeError:
        assert structural
    else:
        malformed = [part for _, part in message.sections() if type(part) is Malformed]
        assert bool(malformed) == bool(structural)
        assert {part.error.rule for part in malformed} <= set(structural)
        assert validate(data) == list(message.violations)


WHOLE_SECTION = {
    *("section-out-of-order", "duplicate-section", "mixed-body-sections", "body-missing"),
    *("unknown-section", "not-a-section"),
}


@given(messages())
def test_paths_are_those_of_decode_errors(data: bytes) -> None:
    for violation in validate(data):
        if violation.rule not in WHOLE_SECTION:
            assert path_of(data, violation.offset, NAMES) == violation.path, violation


SENSIBLE = st.builds(
    Message,
    st.one_of(
        st.binary(max_size=3).map(Data),
        st.lists(st.binary(max_size=3).map(Data), min_size=1, max_size=3),
        st.lists(st.lists(SCALARS).map(AmqpSequence), min_size=1, max_size=3),
        VALUES.map(AmqpValue),
    ),
    header=st.none()
    | st.builds(
        Header,
        durable=st.booleans(),
        priority=st.integers(0, 255),
        ttl=st.none() | st.integers(0, 2**32 - 1),
    ),
    message_annotations=st.none()
    | st.dictionaries(st.sampled_from(["x-opt-a", "x-b"]), VALUES, max_size=2),
    properties=st.none()
    | st.builds(
        Properties,
        message_id=st.none() | st.integers(0, 2**64 - 1) | st.uuids() | st.binary() | st.text(),
        user_id=st.none() | st.binary(max_size=3),
        to=st.none() | st.text(max_size=3),
        group_sequence=st.none() | st.integers(0, 2**32 - 1),
    ),
    application_properties=st.none() | st.dictionaries(st.text(max_size=3), SCALARS, max_size=2),
    footer=st.none() | st.dictionaries(st.just("x-opt-hash"), SCALARS, max_size=1),
)


@given(SENSIBLE)
def test_typical_message_has_no_violations(message: Message) -> None:
    assert [] == validate(message)
    assert [] == validate(message.encode(), "azure")


def places(data: bytes, shift: int = 0) -> set[tuple[str, int, str]]:
    return {(v.rule, v.offset + shift, v.path) for v in validate(data)}


@given(messages(), st.sampled_from(["0053 71 c1 02 01 40", "0053 7f a1 01 ff", "0053 75 56 02"]))
def test_damage_in_one_section_hides_no_violation_elsewhere(data: bytes, damage: str) -> None:
    section = hexed(damage)
    known = {place for place in places(data) if place[0] != "body-missing"}
    assert known <= places(data + section)
    inside = {place for place in places(data, len(section)) if place[0] not in WHOLE_SECTION}
    assert inside <= places(section + data)


def test_damage_is_contained_in_its_section() -> None:
    header = "00 53 70 c0 05 02 56 02 50 01"  # durable is no boolean
    properties = "00 53 73 c0 07 03 40 40 a1 02 41 ff"  # to is no UTF-8
    application = "00 53 74 c1 05 02 a3 01 6b 40"  # the key is a symbol
    found = validate(hexed(header + properties + application + "00 53 77 40") + DATA)
    assert [
        ("boolean-octet-not-0-or-1", "header.durable", 7),
        ("invalid-utf8", "properties.to", 21),
        ("application-properties-key-type", "application-properties['k']", 28),
        ("mixed-body-sections", "data", 36),
    ] == [(v.rule, v.path, v.offset) for v in found]


def test_wrong_types_are_found_next_to_damage() -> None:
    # The subject is no UTF-8; the correlation-id behind it is a uint.
    found = validate(hexed("00 53 73 c0 0a 06 40 40 40 a1 01 ff 40 52 05") + DATA)
    assert [("invalid-utf8", 11), ("field-type", 13)] == [
        (violation.rule, violation.offset) for violation in found if violation.offset < 14
    ]


def test_duplicate_key_does_not_hide_a_later_decode_error() -> None:
    # The key k twice, then the key x with a value that is no UTF-8.
    data = hexed("00 53 74 c1 0f 06 a1 01 6b 40 a1 01 6b 40 a1 01 78 a1 01 ff") + DATA
    assert_agreement(data, None)
    assert ["map-duplicate-key", "invalid-utf8"] == rules_of(validate(data))


def test_sections_after_an_unknown_size_are_skipped() -> None:
    assert ["truncated"] == rules_of(validate(hexed("00 53 75 a0 ff") + DATA))


# Hostile messages.


def faults(data: bytes, profile: ProfileName | Profile = "oasis") -> list[str]:
    return rules_of(validate(data, profile))


def test_violations_of_a_rule_are_limited_to_100() -> None:
    assert ["not-a-section"] * 100 == faults(b"\x40" * 10_000)[:-1]
    many = b"".join(encode_value(Symbol(f"k{n}")) + b"\x40" for n in range(300))
    section = b"\x00\x53\x72\xd1" + (len(many) + 4).to_bytes(4) + (600).to_bytes(4) + many
    assert ["annotation-key-reserved"] * 100 == faults(section + DATA)
    assert ["boolean-octet-not-0-or-1"] * 100 == [
        rule for rule in faults(hexed("00 53 77 56 02") * 200) if rule.startswith("boolean")
    ]


def test_refused_rule_is_reported_after_many_warnings() -> None:
    """However much else is wrong, a rule that decoding refuses shows."""
    many = b"".join(encode_value(Symbol(f"k{n}")) + b"\x40" for n in range(200)) + b"\xa1\x00\x40"
    section = b"\x00\x53\x72\xd1" + (len(many) + 4).to_bytes(4) + (402).to_bytes(4) + many
    assert Counter({"annotation-key-reserved": 100, "message-annotations-key-type": 1}) == Counter(
        faults(section + DATA)
    )


def test_damage_does_not_buy_more_zero_width_elements() -> None:
    """Each of these sections asks for 65,536 elements and then turns out damaged."""
    array = "f0 00000005 00010000 40"
    damage = f"00 53 76 d0 00000010 00000002 {array} 56 02"
    found = faults(hexed(damage) * 20_000)
    assert Counter({"boolean-octet-not-0-or-1": 1}) == Counter(found)


def test_bomb_in_an_annotation_is_not_decoded() -> None:
    bomb = "f0 00000005 ffffffff 40"
    data = hexed("00 53 71 c1 15 02 a3 08 72656a6563746564" + bomb) + DATA
    for profile in PROFILES.values():
        assert "zero-width-limit" in faults(data, profile)


def test_too_many_ulong_keys() -> None:
    entries = b"".join(encode_value(ULong(n)) + b"\x40" for n in range(5_000))
    head = b"\xd1" + (len(entries) + 4).to_bytes(4) + (10_000).to_bytes(4)
    data = b"\x00\x53\x72" + head + entries + DATA
    assert_agreement(data, None)
    assert "keys-limit" in faults(data)
    assert [] == faults(b"\x00\x53\x77" + head + entries)


def test_deep_nesting_is_a_violation() -> None:
    nested = b"\x00\x53\x77" + b"\x00\x40" * 100_000 + b"\x40"
    assert ["depth-limit"] == faults(nested)


# Messages.


def test_message_is_validated_in_its_encoded_form() -> None:
    message = Message("text", properties=Properties(content_type="text/plain"))
    (violation,) = validate(message)
    assert (
        Violation(
            rule="content-type-without-data",
            clause="Part 3, 3.2.4",
            severity="warning",
            path="properties.content-type",
            offset=12,
            text="content-type is set, and the body is amqp-value: omit it, or send data",
        )
        == violation
    )
    assert b"\xa3\x0atext/plain" == message.encode()[12:24]


def test_lenient_message_is_validated_in_its_original_form() -> None:
    data = DATA + hexed("00 53 70 45")
    message = Message.decode(data, strict=False)
    assert validate(data) == validate(message) == list(message.violations)
    assert ["section-out-of-order"] == rules_of(list(message.violations))


@pytest.mark.parametrize(
    "message, path, clause",
    [
        (
            Message("x", header=Header(priority=256)),
            "header.priority",
            "Part 3, 3.2.1",
        ),
        (
            Message("x", application_properties={"k": [1]}),
            "application-properties",
            "Part 3, 3.2.5",
        ),
        (Message(AmqpValue(object())), "amqp-value", "Part 3, 3.2.8"),
        (Message("x", footer=Footer({"x-opt-é": 1})), "footer", "Part 3, 3.2.9"),
    ],
    ids=["header", "application-properties", "body", "footer"],
)
def test_unencodable_message_violates_not_encodable(
    message: Message, path: str, clause: str
) -> None:
    (violation,) = validate(message)
    assert ("not-encodable", "error", 0) == (
        violation.rule,
        violation.severity,
        violation.offset,
    )
    assert violation.path.startswith(path)
    assert clause == violation.clause
    assert violation.text


def test_a_mixed_body_cannot_be_encoded() -> None:
    (violation,) = validate(Message([Data(b""), AmqpValue(1)]))
    assert ("not-encodable", "body", "Part 3, 3.2") == (
        violation.rule,
        violation.path,
        violation.clause,
    )


def test_other_message_format_is_a_violation() -> None:
    batch = Message(Data(b""), message_format=0x80013700)
    assert ["message-format"] == rules_of(validate(batch))
    assert "0x80013700" in validate(batch)[0].text
    assert [] == validate(batch, "azure")
    assert [] == validate(batch.encode())


@pytest.mark.parametrize("wrong", ["text", 5, None, ["00"]])
def test_argument_other_than_a_message_is_a_type_error(wrong: Any) -> None:
    with pytest.raises(TypeError, match="expected a Message, bytes, bytearray or memoryview"):
        validate(wrong)


# Other projects' vectors.


def test_vectors_agree_with_the_decoder() -> None:
    for case in vectors():
        assert_agreement(hexed(case["hex"]), None)


def test_damaged_vectors_agree_with_the_decoder() -> None:
    draw = random.Random(1)
    for case in vectors():
        data = bytearray.fromhex(case["hex"])
        for _ in range(5):
            if data:
                data[draw.randrange(len(data))] = draw.randrange(256)
            assert_agreement(bytes(data), None)
