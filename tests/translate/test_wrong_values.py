"""0-9-1 messages that were built with wrong values: an EncodeError in every profile."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from typing import Any

import attrs
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from amqp10msg import EncodeError
from amqp10msg.basic import (
    BasicMessage,
    BasicProperties,
    FieldArray,
    FieldTable,
    ScaledDecimal,
    decode_properties,
    encode_properties,
)
from amqp10msg.translate import (
    PROFILES,
    Circumstances,
    EncodedBasic,
    TranslationError,
    encoded_to_amqp10,
    to_amqp10,
    to_basic,
)
from tests.lossless import octets_of

GIVEN = Circumstances(user=None)
NAMES = [field.name for field in attrs.fields(BasicProperties)]
SHORT_STRINGS = [
    name for name in NAMES if name not in {"headers", "delivery_mode", "priority", "timestamp"}
]
#: Values of each Python type that a caller might pass, right and wrong ones.
ANY_VALUE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**65), 2**65),
    st.sampled_from([-5, -1, 0, 4, 5, 255, 256, 300, 2**31, 2**63, 2**64 - 1, 2**64]),
    st.floats(),
    st.text(max_size=5),
    st.sampled_from(["\ud800", "\udcff", "x" * 255, "x" * 256, "5", "urn:uuid:" + "-" * 36]),
    st.binary(max_size=5).map(bytes),
    st.binary(max_size=5).map(bytearray),
    st.binary(max_size=5).map(lambda octets: memoryview(octets)),  # noqa: PLW0108
    st.sampled_from(
        [
            *((), [], {}, set(), object(), ..., 1j, {1: 2}, {"k": 1}, {"k": object()}, [1, "a"]),
            decimal.Decimal("3.14"),
            ScaledDecimal(2, 314),
            datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC),
            datetime.datetime(1960, 1, 2, tzinfo=datetime.UTC),
            datetime.datetime(2026, 1, 2),  # noqa: DTZ001  (a wrong value)
            FieldTable({"k": 1}),
            FieldArray([1]),
        ]
    ),
)
LETTERS = st.sampled_from([*"tbBsuIilLUfdDSATFVxkcC", "", "SS", "?", 5, None, [], b"S"])
ENTRIES = st.one_of(
    st.tuples(st.sampled_from(["k", "x-k", "CC", "x-death"]) | ANY_VALUE, LETTERS, ANY_VALUE),
    st.tuples(LETTERS, ANY_VALUE).map(
        lambda entry: ("x-a", "A", FieldArray.of([entry]))  # one level further in
    ),
    ANY_VALUE,
)
HEADERS = st.lists(ENTRIES, max_size=3).map(FieldTable.of) | ANY_VALUE


def with_value(name: str, value: Any) -> BasicMessage:
    """Return a message of which one attribute has a value, without the checks of building it."""
    basic = BasicMessage(BasicProperties(), b"x")
    setattr(basic.properties if name in NAMES else basic, name, value)
    return basic


PLACES = [*NAMES, "exchange", "routing_key", "redelivered", "body"]
MESSAGES = st.one_of(
    st.builds(with_value, st.sampled_from(PLACES), ANY_VALUE),
    st.builds(with_value, st.just("headers"), HEADERS),
)


def outcome(translate: Callable[[], Any]) -> tuple[str, Any]:
    """Return what a translation did: the name of its error and its path, or the bytes."""
    try:
        return "bytes", translate().message
    except (EncodeError, TranslationError) as error:
        return type(error).__name__, error.path


def fault_of(basic: BasicMessage) -> EncodeError | None:
    """Return the error of a message that 0-9-1 cannot hold."""
    try:
        to_amqp10(basic)
    except EncodeError as error:
        return error
    return None


@given(MESSAGES)
def test_wrong_values_are_encode_errors_in_every_profile(basic: BasicMessage) -> None:
    fault = fault_of(basic)
    if fault is not None:
        assert fault.path
        for profile in PROFILES.values():
            assert ("EncodeError", fault.path) == outcome(
                lambda to=profile: to_amqp10(basic, to, circumstances=GIVEN)  # type: ignore[misc]
            )
        return
    # What can be encoded is translated as what it is on the wire.
    decoded = decode_properties(encode_properties(basic.properties))
    wire = attrs.evolve(basic, properties=decoded, body=bytes(basic.body))
    for profile in PROFILES.values():
        actual, expected = (
            outcome(lambda of=of, to=profile: to_amqp10(of, to, circumstances=GIVEN))  # type: ignore[misc]
            for of in (basic, wire)
        )
        if actual[0] == expected[0] == "bytes":
            assert actual[1].encode() == expected[1].encode()
        else:
            assert actual == expected


@given(MESSAGES)
def test_what_encoding_accepts_is_what_was_given(basic: BasicMessage) -> None:
    assume(fault_of(basic) is None)

    assert octets_of(basic) == octets_of(to_basic(to_amqp10(basic).message).message)


WRONG = [
    *((name, 5, name.replace("_", "-")) for name in SHORT_STRINGS),
    *((name, "x" * 256, name.replace("_", "-")) for name in SHORT_STRINGS),
    *(
        (name, value, name.replace("_", "-"))
        for name in ("delivery_mode", "priority")
        for value in (-1, 256, 300, "5", 4.0, b"5")
    ),
    *(("timestamp", value, "timestamp") for value in (-5, 2**64, "5", 1.5)),
    *(("exchange", value, "exchange") for value in (5, b"e", None, "x" * 256, "\ud800")),
    *(("routing_key", value, "routing-key") for value in (5, b"e", None, "x" * 256)),
    *(("redelivered", value, "redelivered") for value in (1, "no", None)),
    *(("body", value, "body") for value in (5, "text", None, [1])),
    ("headers", [("k", 1)], "headers"),
    ("headers", FieldTable.of([("k", "t", "no")]), "headers['k']"),
    ("headers", FieldTable.of([("k", "A", "text")]), "headers['k']"),
    ("headers", FieldTable.of([("k", "f", "1.5")]), "headers['k']"),
    ("headers", FieldTable.of([("k", "b", 128)]), "headers['k']"),
    ("headers", FieldTable.of([(5, "b", 1)]), "headers[5]"),  # type: ignore[list-item]  # the mistake
    ("headers", FieldTable.of([("k", 1)]), "headers"),  # type: ignore[list-item]  # the mistake
    ("headers", FieldTable.of([("x-k", "F", {"n": object()})]), "headers['x-k']['n']"),
]


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("name, value, path", WRONG)
def test_wrong_value_is_an_encode_error_with_its_path(
    profile: Any, name: str, value: Any, path: str
) -> None:
    with pytest.raises(EncodeError) as raised:
        to_amqp10(with_value(name, value), profile, circumstances=GIVEN)
    assert path == raised.value.path


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("name, value", [("redelivered", "no"), ("exchange", 5), ("body", 5)])
def test_encoded_content_with_a_wrong_value(profile: Any, name: str, value: Any) -> None:
    with pytest.raises(EncodeError, match=name):
        EncodedBasic.of(with_value(name, value))
    content = EncodedBasic.of(BasicMessage(BasicProperties(), b""))._replace(**{name: value})
    with pytest.raises((EncodeError, TypeError), match=name):
        encoded_to_amqp10(content, profile)


def test_bytes_and_datetimes_are_translated() -> None:
    moment = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)
    given: Any = {"reply_to": b"q", "message_id": bytearray(b"m"), "timestamp": moment}
    plain: Any = {"reply_to": "q", "message_id": "m", "timestamp": int(moment.timestamp())}
    for profile in PROFILES.values():
        assert (
            to_amqp10(BasicMessage(BasicProperties(**plain)), profile).message.encode()
            == to_amqp10(BasicMessage(BasicProperties(**given)), profile).message.encode()
        )
