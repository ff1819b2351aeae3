"""Properties of other libraries where this one's belong."""

from __future__ import annotations

from typing import Any

import pytest

from amqp10msg.basic import BasicMessage
from amqp10msg.translate import to_amqp10

pika = pytest.importorskip("pika")
commands = pytest.importorskip("pamqp.commands")


@pytest.mark.parametrize(
    "properties, expected",
    [
        (
            pika.BasicProperties(),
            r"not pika\.spec\.BasicProperties: write BasicMessage\.from_pika\(",
        ),
        (commands.Basic.Properties(), r"write BasicMessage\.from_pamqp\("),
        ({"message_id": "m"}, "takes BasicProperties, not dict$"),
    ],
)
def test_properties_of_other_libraries_are_refused_with_what_takes_them(
    properties: Any, expected: str
) -> None:
    with pytest.raises(TypeError, match=expected):
        BasicMessage(properties, b"x")


def test_properties_of_other_libraries_are_no_message_to_translate() -> None:
    wanted = r"a BasicMessage, not pika\.spec\.BasicProperties: write BasicMessage\.from_pika\("
    with pytest.raises(TypeError, match=wanted):
        to_amqp10(pika.BasicProperties())
