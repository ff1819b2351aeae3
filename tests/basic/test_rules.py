"""The rules of 0-9-1 that decoding does not enforce: `check_properties` reports violations."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from amqp10msg.basic import (
    BasicProperties,
    ContentHeader,
    FieldArray,
    FieldTable,
    check_content_header,
    check_properties,
)
from amqp10msg.basic.properties import PROPERTIES
from amqp10msg.basic.tables import OddTrue

SHORT_STRINGS = [row.name for row in PROPERTIES if row.domain == "shortstr"]


def reported(properties: BasicProperties) -> list[tuple[str, str, str]]:
    """Return the rule, severity and path of each finding."""
    return [(each.rule, each.severity, each.path) for each in check_properties(properties)]


@given(
    st.sampled_from([name for name in SHORT_STRINGS if name != "cluster_id"]),
    st.sampled_from(["a", "é", "☀", "\udcff", "\0"]),
    st.integers(0, 260),
)
@example("type", "a", 255)
@example("type", "a", 256)
@example("type", "é", 128)
def test_short_string_has_at_most_255_bytes_of_utf8_without_nul(
    name: str, character: str, count: int
) -> None:
    fields: dict[str, Any] = {name: character * count}
    octets = fields[name].encode("utf-8", "surrogateescape")
    expected = {
        "shortstr-length": len(octets) > 255,
        "shortstr-nul": b"\0" in octets,
        "shortstr-utf8": b"\xff" in octets,
    }
    path = name.replace("_", "-")

    assert [(rule, "error", path) for rule, is_broken in expected.items() if is_broken] == reported(
        BasicProperties(**fields)
    )


@given(st.integers(0, 255), st.integers(0, 255))
@example(1, 9)
@example(2, 10)
@example(3, 0)
def test_ranges_of_delivery_mode_and_priority(mode: int, priority: int) -> None:
    expected = []
    if mode not in (1, 2):
        expected.append(("delivery-mode-value", "error", "delivery-mode"))
    if priority > 9:
        expected.append(("priority-range", "error", "priority"))

    assert expected == reported(BasicProperties(delivery_mode=mode, priority=priority))


@pytest.mark.parametrize(
    "entries, findings",
    [
        ([("k", "S", "v"), ("$a#_1", "I", 1), ("n" * 128, "t", True)], []),
        ([("k", "I", 1), ("k", "I", 2)], [("field-name-twice", "error", "['k']")]),
        ([("n" * 129, "I", 1)], [("field-name-form", "warning", f"['{'n' * 129}']")]),
        ([("x-a", "I", 1)], [("field-name-form", "warning", "['x-a']")]),
        ([("_a", "I", 1)], [("field-name-form", "warning", "['_a']")]),
        ([("k", "t", OddTrue(2))], [("boolean-octet", "warning", "['k']")]),
        ([("k", "x", b"v")], [("field-letter-x", "warning", "['k']")]),
        (
            [("k", "A", FieldArray.of([("I", 1), ("x", b"v")]))],
            [("field-letter-x", "warning", "['k'][1]")],
        ),
        (
            [("k", "F", FieldTable.of([("a", "x", b"v"), ("a", "I", 1)]))],
            [
                ("field-name-twice", "error", "['k']['a']"),
                ("field-letter-x", "warning", "['k']['a']"),
            ],
        ),
    ],
)
def test_rules_of_field_tables(
    entries: list[tuple[str, str, Any]], findings: list[tuple[str, str, str]]
) -> None:
    headers = FieldTable.of(entries)
    expected = [(rule, severity, f"headers{path}") for rule, severity, path in findings]

    assert expected == reported(BasicProperties(headers=headers))


def test_reserved_property_is_empty() -> None:
    assert [] == reported(BasicProperties(cluster_id=""))
    assert [("reserved-not-empty", "error", "cluster-id")] == reported(
        BasicProperties(cluster_id="c")
    )


@pytest.mark.parametrize(
    "class_id, weight, rules",
    [
        (60, 0, []),
        (61, 0, ["content-class"]),
        (60, 1, ["content-weight"]),
        (50, 2, ["content-class", "content-weight"]),
    ],
)
def test_class_and_weight_of_a_content_header(class_id: int, weight: int, rules: list[str]) -> None:
    header = ContentHeader(BasicProperties(priority=10), class_id=class_id, weight=weight)

    assert [*rules, "priority-range"] == [each.rule for each in check_content_header(header)]
