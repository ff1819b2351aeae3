"""Strategies of bytes gone wrong: every rule is broken, and mutations are near."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given

from amqp10msg import DecodeError, Header, Message, decode_value
from amqp10msg.testing import malformed, mutated
from tests.testing.drawing import can_draw, missing


@given(malformed("value"))
def test_malformed_values(octets: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_value(octets)


@given(malformed())
def test_malformed_messages(octets: bytes) -> None:
    with pytest.raises(DecodeError):
        Message.decode(octets)


RULES = [
    *("truncated", "element-overruns-compound", "trailing-bytes", "unknown-constructor"),
    *("boolean-octet-not-0-or-1", "char-not-a-unicode-scalar", "invalid-utf8", "symbol-not-ascii"),
    *("compound-size-too-small", "count-exceeds-size", "compound-trailing-bytes", "map-odd-count"),
    *("map-duplicate-key", "zero-width-limit", "depth-limit"),
]
MESSAGE_RULES = [
    *("section-out-of-order", "duplicate-section", "mixed-body-sections", "unknown-section"),
    *("not-a-section", "section-value-type", "too-many-fields", "field-type", "truncated"),
    *("message-annotations-key-type", "application-properties-key-type"),
    "application-properties-value-not-simple",
]


@pytest.mark.parametrize(
    "of, read, rules", [("value", decode_value, RULES), ("message", Message.decode, MESSAGE_RULES)]
)
def test_malformed_bytes_violate_each_rule(
    of: str, read: Callable[[bytes], Any], rules: list[str]
) -> None:
    def broken_by(octets: bytes) -> list[str]:
        try:
            read(octets)
        except DecodeError as error:
            return [error.rule]
        return []

    assert [] == missing(malformed(of), rules, broken_by)


@given(mutated(b""))
def test_empty_bytes_can_be_mutated(octets: bytes) -> None:
    assert len(octets) < 60


ENCODED = Message({"a": [1, "text"]}, header=Header(ttl=5)).encode()


@pytest.mark.parametrize(
    "wanted",
    [
        lambda octets: len(octets) < len(ENCODED),
        lambda octets: len(octets) > len(ENCODED),
        lambda octets: len(octets) == len(ENCODED) and octets != ENCODED,
        lambda octets: b"\xff\xff\xff\xff" in octets,
    ],
    ids=["shorter", "longer", "replaced", "forged size"],
)
def test_mutations(wanted: Callable[[bytes], bool]) -> None:
    assert can_draw(mutated(ENCODED), wanted)
