"""Payloads marked as body sections, by the type ``amqp-1.0``: engine and plain rules agree."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from amqp10msg import AmqpValue, Data, Message
from amqp10msg.basic import BasicMessage, BasicProperties, FieldTable
from amqp10msg.testing import messages
from amqp10msg.translate import TranslationError, to_amqp10

PROFILES = ["lossless", "rabbitmq-3.10", "rabbitmq-3.10-stream", "rabbitmq-4.0", "rabbitmq-4.3"]
BODIES = messages().map(lambda message: Message(message.body).encode()) | st.binary(max_size=20)
SHORT_TEXT = st.none() | st.sampled_from(["", "gzip", "text/plain", "é", "x" * 300])


def outcome(basic: BasicMessage, profile: Any) -> Any:
    try:
        translation = to_amqp10(basic, profile)
    except (TranslationError, ValueError) as error:
        return type(error), str(error)
    return translation.message.encode(), [*map(str, translation.losses)]


@pytest.mark.parametrize("profile", PROFILES)
@given(
    payload=BODIES,
    content_type=SHORT_TEXT,
    content_encoding=SHORT_TEXT,
    has_offset=st.booleans(),
)
@example(
    payload=Message(AmqpValue(5)).encode(),
    content_type="text/plain",
    content_encoding="gzip",
    has_offset=False,
)
@example(
    payload=Message(AmqpValue(5)).encode(), content_type=None, content_encoding="", has_offset=True
)
@example(
    payload=Message(Data(b"a")).encode(),
    content_type=None,
    content_encoding="gzip",
    has_offset=True,
)
def test_engine_and_plain_rules_agree_on_marked_payloads(
    profile: Any,
    payload: bytes,
    content_type: str | None,
    content_encoding: str | None,
    has_offset: bool,
) -> None:
    properties = BasicProperties(
        type="amqp-1.0",
        content_type=content_type,
        content_encoding=content_encoding,
        headers=FieldTable.of([("x-stream-offset", "l", 3)]) if has_offset else None,
    )
    basic = BasicMessage(properties, payload)
    expected = outcome(basic, profile)
    with (
        mock.patch("amqp10msg.translate.profiles.translate_by_engine", return_value=None),
        mock.patch("amqp10msg.translate._lossless.translate_by_engine", return_value=None),
    ):
        assert outcome(basic, profile) == expected
