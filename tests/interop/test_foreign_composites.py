"""Outcomes, termini and what stands in them: the vectors that another project wrote."""

from __future__ import annotations

import json
from types import ModuleType
from typing import Any

import pytest

import amqp10msg
import amqp10msg.delivery  # registers the composites
from amqp10msg import DecodeError, Described
from amqp10msg.composite import composite_of, decode_composite, rows
from amqp10msg.delivery.filters import parse
from tests.interop.foreign_cases import (
    CASES,
    Case,
    compact_of,
    each_of,
    located,
    observed,
    observed_as,
    stated,
)


def composite_stated(case: Case) -> dict[str, Any]:
    expect = case["expect"].get("lenient", case["expect"])
    node: dict[str, Any] = expect.get("outcome") or expect["terminus"]
    return node


@each_of("outcome", "terminus", must="accept")
def test_composite_that_must_be_accepted(case: Case, wire: ModuleType) -> None:
    data = bytes.fromhex(case["hex"])
    node = composite_stated(case)
    value = wire.decode_value(data)
    assert isinstance(value, Described)
    assert stated(node["descriptor"]) == observed(value.descriptor)
    assert node["wire_fields"] == len(value.value)
    # The fields stand in the order of the wire, without the null ones.
    expected = [stated(field) for field in node["fields"].values()]
    assert expected == [observed(item) for item in value.value if item is not None]
    if "compact" in case:
        assert compact_of(case) == wire.encode_value(value)


@each_of("outcome", "terminus", must="accept")
def test_composite_as_its_class(case: Case) -> None:
    data = bytes.fromhex(case["hex"])
    node = composite_stated(case)
    made = decode_composite(data)
    assert node["composite"] == composite_of(type(made)).name
    encoded = amqp10msg.encode_value(made)
    assert made == decode_composite(encoded)
    again = amqp10msg.decode_value(encoded).value
    written = dict(zip((row.wire_name for row in rows(type(made))), again, strict=False))
    table = {row.wire_name: row for row in rows(type(made))}
    assert set(node["fields"]) <= set(table)
    for name, row in table.items():
        expected = stated(node["fields"][name]) if name in node["fields"] else ("null",)
        found = observed(written.get(name))
        if row.multiple:
            assert several(expected) == several(found)
        elif found == ("null",) and row.default is not None:
            default = row.default.value if hasattr(row.default, "value") else row.default
            assert expected in {("null",), observed_as(row.type, default)}
        else:
            assert expected == found, name


def several(value: tuple[Any, ...]) -> list[Any]:
    """The values of a field that is declared multiple, however they are written."""
    if value == ("null",):
        return []
    return list(value[4]) if value[0] == "array" else [value]


@each_of("outcome", "terminus")
def test_composite_as_what_a_frame_carries(case: Case) -> None:
    data = bytes.fromhex(case["hex"])
    if case["must"] == "reject":
        with pytest.raises(DecodeError) as caught:
            amqp10msg.delivery.decode(data)
        located(caught.value, data)
        return
    try:
        made = amqp10msg.delivery.decode(data)
    except DecodeError as error:
        located(error, data)
        assert case["must"] == "either"
        return
    assert made == decode_composite(data)
    encoded = amqp10msg.delivery.encode(made)
    assert made == amqp10msg.delivery.decode(encoded)
    if "compact" in case:
        # The smallest encoding of these very fields; a default that is said need not be.
        assert len(encoded) <= len(compact_of(case))
    if isinstance(made, amqp10msg.delivery.DeliveryState):
        assert ("outcome" in composite_of(type(made)).provides) == made.is_outcome
    for role in ("sender", "receiver"):
        if isinstance(made, amqp10msg.delivery.Source):
            found = amqp10msg.delivery.check_source(data, role=role)
        elif isinstance(made, amqp10msg.delivery.Target):
            found = amqp10msg.delivery.check_target(data, role=role)
        else:
            continue
        assert all(0 <= violation.offset < len(data) for violation in found)


@each_of("outcome", "terminus", must="reject")
def test_composite_that_must_be_rejected(case: Case, wire: ModuleType) -> None:
    data = bytes.fromhex(case["hex"])
    with pytest.raises(DecodeError) as caught:
        wire.decode_value(data)
    located(caught.value, data)
    with pytest.raises(DecodeError) as caught:
        decode_composite(data)
    located(caught.value, data)


@each_of("outcome", "terminus", must="either")
def test_composite_that_may_be_accepted(case: Case, wire: ModuleType) -> None:
    data = bytes.fromhex(case["hex"])
    try:
        value = wire.decode_value(data)
    except DecodeError as error:
        located(error, data)
        return
    node = composite_stated(case)
    expected = [stated(field) for field in node["fields"].values()]
    assert expected == [observed(item) for item in value.value if item is not None]
    try:
        made = decode_composite(data)
    except DecodeError as error:
        located(error, data)
    else:
        assert node["composite"] == composite_of(type(made)).name


def test_filters_of_termini_are_understood_and_come_back() -> None:
    tried = 0
    for case in CASES:
        if case["kind"] != "terminus" or '"filter"' not in json.dumps(case["expect"]):
            continue
        described = amqp10msg.decode_value(bytes.fromhex(case["hex"]))
        wanted = described.value[7]
        if case["must"] == "accept":
            filters = parse(wanted)
            assert filters.to_map() == wanted
            assert amqp10msg.encode_value(wanted) == filters.encode()
            assert filters.supported == filters
        else:
            with pytest.raises(DecodeError, match="is a symbol"):
                parse(amqp10msg.encode_value(wanted))
        tried += 1
    assert tried > 0
