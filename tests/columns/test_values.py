"""Columns of single values: plain, encoded, mixed, and batches of envelopes."""

from __future__ import annotations

from typing import Any

import pytest

from amqp10msg import Message, encode_value
from amqp10msg.message.batch import BATCH_FORMAT, wrap
from tests.columns.column_rows import BAD, VALUES

columns = pytest.importorskip("amqp10msg.columns")


def test_single_values() -> None:
    values = [value for value, *_ in VALUES]
    found = columns.decode_values([encode_value(value) for value in values]).to_pylist()

    assert [{"type": name, **member} for _, name, member in VALUES] == [
        {k: v for k, v in cell.items() if v is not None} for cell in found
    ]


def test_mixed_plain_and_encoded_values() -> None:
    mixed = [b"\xa1\x01a", b"true", b"A", None, b"\xff", b"a\x00", b"\x55\x05"]

    def cells(policy: str) -> list[Any]:
        found = columns.decode_values(mixed, policy).to_pylist()
        names = ("type", "s", "l", "b", "error_code")
        return [c and tuple(c[n] for n in names if c[n] is not None) for c in found]

    assert [
        ("string", "a"),
        ("truncated",),
        ("boolean", 1),
        None,
        ("unknown-constructor",),
        ("truncated",),
        ("long", 5),
    ] == cells("error")
    assert [
        ("string", "a"),
        ("true",),
        ("boolean", 1),
        None,
        (b"\xff",),
        ("a\x00",),
        ("long", 5),
    ] == cells("encoded")
    assert [
        ("string", "a"),
        ("true",),
        ("A",),
        None,
        (b"\xff",),
        ("a\x00",),
        ("long", 5),
    ] == cells("text")
    with pytest.raises(ValueError, match="plain must be one of"):
        columns.decode_values([], "nothing")


def test_batch_envelopes_are_split() -> None:
    inner = [Message(f"m{i}").encode() for i in range(3)]
    envelope = wrap([Message.decode(octets) for octets in inner]).encode()
    single = Message("x").encode()
    found = columns.explode_batches([envelope, None, single, BAD]).to_pylist()
    kept = columns.explode_batches([envelope, single], message_format=[BATCH_FORMAT, 0])

    assert [(0, 0), (0, 1), (0, 2), (1, 0), (2, 0), (3, 0)] == [
        (row["row"], row["position"]) for row in found
    ]
    assert [*inner, None, single, BAD] == [row["wire"] for row in found]
    assert [None] * 4 + ["not-a-batch", "truncated"] == [row["error_code"] for row in found]
    assert [*inner, single] == kept["wire"].to_pylist()
    assert [None] * 4 == kept["error_code"].to_pylist()
