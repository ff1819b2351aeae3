"""Encoded messages translated as decoded ones are, and the losses that are found when asked for."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg import Header, Message, Properties
from amqp10msg.basic import BasicMessage, BasicProperties, FieldTable
from amqp10msg.testing import basic_messages, encodings, messages
from amqp10msg.translate import (
    PROFILES,
    Circumstances,
    EncodedBasic,
    ProfileName,
    TranslationError,
    encoded_to_amqp10,
    encoded_to_basic,
    to_amqp10,
    to_basic,
)
from amqp10msg.wire.errors import AmqpError, DecodeError, EncodeError

pytestmark = pytest.mark.once

profiles = st.sampled_from(sorted(PROFILES))


def outcome(call: Any, *given: Any, **how: Any) -> Any:
    """What a translation gives, the losses as text, since NaN is not equal to NaN; or the error."""
    try:
        made = call(*given, **how)
    except AmqpError as error:
        return type(error), str(error)
    return made.message, list(map(repr, made.losses))


@given(message=messages(), profile=profiles, strict=st.booleans(), data=st.data())
def test_an_encoded_message_becomes_what_the_decoded_one_becomes(
    message: Message, profile: Any, strict: bool, data: st.DataObject
) -> None:
    wire = data.draw(encodings(message))
    expected = outcome(to_basic, Message.decode(wire), profile, strict=strict)
    if type(expected[0]) is BasicMessage:
        try:
            expected = EncodedBasic.of(expected[0]), expected[1]
        except EncodeError as error:  # a letter of Qpid alone
            expected = EncodeError, str(error)

    assert expected == outcome(encoded_to_basic, wire, profile, strict=strict)


@given(basic=basic_messages(), profile=profiles, strict=st.booleans())
def test_encoded_content_becomes_what_the_decoded_one_becomes(
    basic: BasicMessage, profile: Any, strict: bool
) -> None:
    content = EncodedBasic.of(basic)
    found = outcome(to_amqp10, content.decode(), profile, strict=strict)
    expected = (found[0].encode(), found[1]) if isinstance(found[0], Message) else found

    assert expected == outcome(encoded_to_amqp10, content, profile, strict=strict)


@given(basic=basic_messages())
def test_content_comes_back_decoded_as_it_was_encoded(basic: BasicMessage) -> None:
    assert EncodedBasic.of(basic) == EncodedBasic.of(EncodedBasic.of(basic).decode())


@given(message=messages())
def test_there_and_back_without_loss_gives_the_same_bytes(message: Message) -> None:
    wire = message.encode()

    assert wire == encoded_to_amqp10(encoded_to_basic(wire).message).message


def test_bytearray_and_memoryview_are_accepted() -> None:
    wire = Message(b"x").encode()

    for kind in (bytearray, memoryview):
        assert encoded_to_basic(wire) == encoded_to_basic(kind(wire))


def test_decode_error_contains_the_offset() -> None:
    with pytest.raises(DecodeError, match="at byte 0"):
        encoded_to_basic(b"\x01")
    with pytest.raises(DecodeError, match="at least 14 bytes"):
        encoded_to_amqp10(EncodedBasic(b"", b""))


def test_body_size_must_match_the_content_header() -> None:
    content = EncodedBasic.of(BasicMessage(BasicProperties(), b"hello"))

    for body, rule in ((b"hell", "truncated"), (b"hello!", "trailing-octets")):
        with pytest.raises(DecodeError, match="announces a body of 5 bytes") as raised:
            encoded_to_amqp10(content._replace(body=body))
        assert rule == raised.value.rule


@pytest.mark.parametrize("profile", ["lossless", "rabbitmq-3.10", "rabbitmq-4.0"])
def test_a_weight_would_be_lost(profile: ProfileName) -> None:
    content = EncodedBasic.of(BasicMessage(BasicProperties(), b"hello"))
    header = content.content_header
    weighty = content._replace(content_header=header[:3] + b"\1" + header[4:])

    with pytest.raises(DecodeError, match="weight must be 0, and is 1") as raised:
        encoded_to_amqp10(weighty, profile)
    assert ("content-weight", 2) == (raised.value.rule, raised.value.offset)


def test_an_unknown_profile() -> None:
    with pytest.raises(ValueError, match="unknown profile 'rabbitmq-9'"):
        encoded_to_basic(Message(b"x").encode(), "rabbitmq-9")  # type: ignore[arg-type]  # wrong
    with pytest.raises(ValueError, match="unknown profile 'rabbitmq-9'"):
        encoded_to_amqp10(
            EncodedBasic.of(BasicMessage()),
            "rabbitmq-9",  # type: ignore[arg-type]  # wrong on purpose
        )


def test_strict_refuses_what_is_lost_for_good() -> None:
    wire = Message(b"x", properties=Properties(subject="s")).encode()

    assert ["properties.subject"] == [
        loss.path for loss in encoded_to_basic(wire, "rabbitmq-4.3").losses
    ]
    with pytest.raises(TranslationError, match="would be lost"):
        encoded_to_basic(wire, "rabbitmq-4.3", strict=True)


def test_circumstances_matter() -> None:
    wire = Message(b"x", properties=Properties(user_id=b"someone")).encode()

    with pytest.raises(TranslationError, match="user-id"):
        encoded_to_basic(wire, "rabbitmq-4.3")
    made = encoded_to_basic(wire, "rabbitmq-4.3", circumstances=Circumstances(user="someone"))

    assert "someone" == made.message.decode().properties.user_id


def test_losses_read_late_describe_the_original_message() -> None:
    table = FieldTable.of([("x-big", "F", FieldTable.of([])), ("n", "I", 1)])
    basic = BasicMessage(BasicProperties(headers=table, cluster_id="c", app_id="a"), b"x")
    expected = to_amqp10(attrs.evolve(basic), "rabbitmq-4.3").losses
    assert expected

    made = to_amqp10(basic, "rabbitmq-4.3")
    basic.properties.cluster_id = "other"
    table.entries.clear()

    assert expected == made.losses


def test_a_user_of_the_broker_is_guest_unless_something_else_is_said() -> None:
    message = Message(b"x", header=Header(durable=True), properties=Properties(user_id=b"guest"))
    named = Circumstances(user="guest")

    for profile in ("rabbitmq-3.10", "rabbitmq-4.0", "rabbitmq-4.3"):
        assert to_basic(message, profile, circumstances=named) == to_basic(message, profile)
