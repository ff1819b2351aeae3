"""Values as one printable line of limited width, in terms of AMQP."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg.basic import FieldTable
from amqp10msg.notation.value_text import value_text
from amqp10msg.sections import AmqpSequence, AmqpValue, Data
from amqp10msg.testing import values
from amqp10msg.wire.primitives import Array, Char, Described, Int, Symbol, Timestamp, ULong

pytestmark = pytest.mark.once


@given(values(), st.integers(1, 200))
def test_any_value_is_one_printable_line_within_the_width(value: Any, width: int) -> None:
    text = value_text(value, width)

    assert 0 < len(text) <= width
    assert text.isprintable()


@given(values())
def test_body_shows_section_and_value(value: Any) -> None:
    assert (
        f"amqp-value, {value_text(value, 10_000)}"[:9_000]
        == value_text(AmqpValue(value), 10_012)[:9_000]
    )


@pytest.mark.parametrize(
    "value, expected",
    [
        (None, "null"),
        (True, "true"),
        (7, "7"),
        (Int(7), "int 7"),
        (ULong(7), "ulong 7"),
        (1.5, "1.5"),
        ("a\nb", '"a\\nb"'),
        ("", '""'),
        (Symbol("x-opt"), 'symbol "x-opt"'),
        (Char("a"), 'char "a" U+0061'),
        (b'{"id": 0}', '9 bytes: "{\\"id\\": 0}"'),
        (b"\xff\xfe\x00\x80", "4 bytes: ff fe 00 80"),
        (b"", "0 bytes"),
        (Timestamp(1_767_225_600_000), "2026-01-01 00:00:00.000 UTC (1767225600000)"),
        (Timestamp(-(2**63)), "-9223372036854775808 ms"),
        (uuid.UUID(int=1), "uuid 00000000-0000-0000-0000-000000000001"),
        ([1, "a", None], '[1, "a", null]'),
        ({"a": [b"x"]}, '{"a": [1 byte: "x"]}'),
        (FieldTable.of([("a", "I", 1), ("a", "S", "x")]), '{"a": 1, "a": "x"}'),
        (Array("int", [1, 2]), "array of int, [1, 2]"),
        (Described(ULong(1), "x"), 'described by ulong 1, "x"'),
        (Data(b"hello"), 'data, 5 bytes: "hello"'),
        (AmqpValue(Symbol("x")), 'amqp-value, symbol "x"'),
        (AmqpSequence([1, False]), "amqp-sequence, [1, false]"),
    ],
)
def test_values_in_amqp_terms(value: Any, expected: str) -> None:
    assert expected == value_text(value, 100)


def test_large_or_deep_values_are_cut() -> None:
    deep: Any = 1
    for _ in range(40):
        deep = [deep]

    assert f"{'[' * 32}[…]{']' * 32}" == value_text(deep, 100)
    assert '200,000 bytes: "xxxxx…"'[:16] == value_text(Data(b"x" * 200_000), 40)[6:22]
    assert "…" == value_text([1] * 10**6, 20)[-1]
