"""Cases of other projects: their bytes, the values their sources state, and what must be refused.

They are other people's data and not part of this repository. AMQP10MSG_VECTORS names the folder
that holds ``cases.jsonl.gz``; without it there is nothing to test here.

A case says `must`: ``accept`` (and the value is the one stated), ``reject``, or ``either``, where
implementations disagree or limits decide (nothing but a DecodeError may be raised, and what is
accepted has the stated value). Values are compared in a notation of
`tests.interop.foreign_cases` alone, so that the comparison does not rest on what it checks.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from amqp10msg import DecodeError
from tests.interop.foreign_cases import (
    CASES,
    Case,
    before_error,
    compact_of,
    each_of,
    located,
    observed,
    stated,
    values_of,
)

# Values, one or several in a row, on both builds of the kernel.


@each_of("value", must="accept")
def test_value_that_must_be_accepted(case: Case, wire: ModuleType) -> None:
    data = bytes.fromhex(case["hex"])
    values = list(wire.decode_values(data))
    assert [stated(node) for node in case["expect"]["values"]] == [observed(v) for v in values]
    again = b"".join(wire.encode_value(value) for value in values)
    assert [observed(value) for value in values] == [observed(v) for v in wire.decode_values(again)]
    assert len(again) <= len(data)
    if "compact" in case:
        assert compact_of(case) == again
    if len(values) == 1:
        assert observed(values[0]) == observed(wire.decode_value(data))
    offset = 0
    for _ in values:
        offset = wire.skip_value(data, offset)
    assert len(data) == offset


@each_of("value", must="reject")
def test_value_that_must_be_rejected(case: Case, wire: ModuleType) -> None:
    data = bytes.fromhex(case["hex"])
    read: list[Any] = []
    with pytest.raises(DecodeError) as caught:
        read.extend(wire.decode_values(data))
    located(caught.value, data)
    # The sources report text that is no UTF-8 or ASCII only where nothing worse follows.
    if caught.value.rule == case["expect"]["error"]:
        assert case["expect"].get("values_before", 0) == len(list(before_error(wire, data)))


@each_of("value", must="either")
def test_value_that_may_be_accepted(case: Case, wire: ModuleType) -> None:
    data = bytes.fromhex(case["hex"])
    try:
        values = list(wire.decode_values(data))
    except DecodeError as error:
        located(error, data)
        return
    expected = values_of(case)
    if expected is not None:
        assert [stated(node) for node in expected] == [observed(value) for value in values]


def test_every_case_of_these_kinds_is_tested() -> None:
    tested = {"value", "message", "outcome", "terminus"}
    kinds = {case.get("decode_as", case["kind"]) for case in CASES}
    assert tested <= kinds
    assert {"accept", "reject", "either"} == {
        case["must"] for case in CASES if case.get("decode_as", case["kind"]) in tested
    }
