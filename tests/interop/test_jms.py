"""JMS forms of message ids."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg import ULong
from amqp10msg.interop.jms import from_jms_id, to_jms_correlation_id, to_jms_message_id

UUID = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")
FORMS = [
    (UUID, f"ID:AMQP_UUID:{UUID}"),
    (ULong(5), "ID:AMQP_ULONG:5"),
    (b"\x00\xff", "ID:AMQP_BINARY:00FF"),
    ("ID:plain", "ID:plain"),
    ("ID:AMQP_UUID:x", "ID:AMQP_STRING:ID:AMQP_UUID:x"),
    ("ID:AMQP_STRING:x", "ID:AMQP_STRING:ID:AMQP_STRING:x"),
    ("ID:AMQP_NO_PREFIX:x", "ID:AMQP_STRING:ID:AMQP_NO_PREFIX:x"),
]


@pytest.mark.parametrize("value, text", FORMS)
def test_forms(value: Any, text: str) -> None:
    assert text == to_jms_message_id(value)
    assert text == to_jms_correlation_id(value)
    assert value == from_jms_id(text)
    assert type(value) is type(from_jms_id(text))


def test_plain_text() -> None:
    assert to_jms_message_id("m-1") == "ID:AMQP_NO_PREFIX:m-1"
    assert from_jms_id("ID:AMQP_NO_PREFIX:m-1") == "m-1"
    assert to_jms_correlation_id("m-1") == "m-1"
    assert from_jms_id("m-1") == "m-1"


ids = st.one_of(
    st.text(),
    st.sampled_from(["ID:", "ID:AMQP_ULONG:", "ID:AMQP_BINARY:"]).flatmap(
        lambda prefix: st.text().map(prefix.__add__)
    ),
    st.binary(),
    st.uuids(),
    st.integers(0, 2**64 - 1),
)


@given(ids)
def test_reversible(value: Any) -> None:
    assert value == from_jms_id(to_jms_message_id(value))
    assert value == from_jms_id(to_jms_correlation_id(value))
    assert to_jms_message_id(value).startswith("ID:")


@pytest.mark.parametrize("text", ["ID:AMQP_ULONG:x", "ID:AMQP_UUID:1", "ID:AMQP_BINARY:0"])
def test_not_keeping_to_the_encoding(text: str) -> None:
    with pytest.raises(ValueError, match="is not a JMS id"):
        from_jms_id(text)


def test_no_id() -> None:
    with pytest.raises(TypeError, match="got bool"):
        to_jms_message_id(True)
    with pytest.raises(ValueError, match="ULong holds"):
        to_jms_message_id(-1)
