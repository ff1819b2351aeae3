"""Every error of decoding AMQP 1.0 names a rule of `RULES`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import amqp10msg
from amqp10msg import DecodeError, Limits, Message, Picker, decode_value, delivery, scan
from amqp10msg.composite import decode_composite
from amqp10msg.testing import delivery_states, malformed, mutated, termini
from amqp10msg.validation import RULES, rule_of
from amqp10msg.validation._table import COMPOUND_CLAUSES
from tests.validation.damaged import LIMITS, OCTETS

_PICKED = ("header.ttl", "properties.message_id", "application_properties.k")


def _read_sections(data: bytes, limits: Limits | None) -> None:
    list(scan(data, limits=limits))


def _read_leniently(data: bytes, limits: Limits | None) -> None:
    Message.decode(data, limits=limits, strict=False)


def _decode_values(data: bytes, limits: Limits | None) -> None:
    list(amqp10msg.decode_values(data, limits=limits))


DECODERS: dict[str, Callable[[bytes, Limits | None], Any]] = {
    "Message.decode": lambda data, limits: Message.decode(data, limits=limits),
    "Message.decode, lenient": _read_leniently,
    "scan": _read_sections,
    "Picker": lambda data, limits: Picker(*_PICKED, limits=limits)(data),
    "decode_value": lambda data, limits: decode_value(data, limits=limits),
    "decode_values": _decode_values,
    "decode_composite": lambda data, limits: decode_composite(data, limits=limits),
    "delivery.decode": lambda data, limits: delivery.decode(data, limits=limits),
}
_STATES = st.one_of(delivery_states(), termini()).map(delivery.encode)
DAMAGED = st.one_of(
    OCTETS,
    malformed(),
    malformed(of="value"),
    _STATES.flatmap(mutated),
    st.binary(max_size=12).map(lambda data: b"\0\x53\x1d" + data),
)


def _error_of(decoder: str, data: bytes, limits: Limits | None) -> DecodeError | None:
    try:
        DECODERS[decoder](data, limits)
    except DecodeError as error:
        return error
    return None


@pytest.mark.parametrize("decoder", DECODERS)
@given(DAMAGED, st.none() | LIMITS)
def test_error_names_a_refused_rule(decoder: str, data: bytes, limits: Limits | None) -> None:
    error = _error_of(decoder, data, limits)
    if error is not None:
        assert RULES[error.rule].refused
        rule, clause = rule_of(error)
        assert error.rule == rule
        clauses = RULES[rule].clause
        if clauses == COMPOUND_CLAUSES and not error.clause:
            assert clause in {clauses, "Part 1, 1.2.3", "Part 1, 1.2.4"}
        else:
            assert clause == (error.clause or clauses)


@pytest.mark.parametrize("decoder", sorted(set(DECODERS) - {"scan", "Picker"}))
def test_every_unknown_format_code_is_one_rule(decoder: str) -> None:
    unknown = [code for code in range(1, 256) if code not in amqp10msg.wire.primitives.FORMAT_CODES]
    for code in unknown:
        error = _error_of(decoder, b"\0\x53\x77" + bytes([code]), None)
        if decoder == "Message.decode, lenient":
            assert error is None or error.rule == "unknown-constructor"
            continue
        assert error is not None
        assert error.rule in ("unknown-constructor", "unknown-composite")
    assert len(unknown) == 216


# A value or a composite that breaks each of the rules which no message can break.
ALONE = {
    "trailing-bytes": ("decode_value", "40 40"),
    "not-a-composite": ("decode_composite", "40"),
    "unknown-composite": ("decode_composite", "00 53 ff 45"),
    "mandatory-field-missing": ("decode_composite", "00 53 1d 45"),
    "field-key-type": ("delivery.decode", "00 53 1d c0 0a 03 a3 01 78 40 c1 03 02 41 40"),
    "not-a-delivery-state": ("delivery.decode", "00 53 70 45"),
}


@pytest.mark.parametrize("rule", [rule.id for rule in RULES.values() if not rule.in_messages])
def test_rule_that_only_other_decoders_break(rule: str) -> None:
    decoder, data = ALONE[rule]
    error = _error_of(decoder, bytes.fromhex(data), None)
    assert error is not None
    assert rule == error.rule
