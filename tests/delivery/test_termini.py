"""Sources and targets: the rules by role, node properties, and what a source supports."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg import (
    Array,
    DecodeError,
    Described,
    EncodeError,
    Symbol,
    ULong,
    delivery,
    encode_value,
)
from amqp10msg.composite import COMPOSITES, composite_of
from amqp10msg.delivery import (
    TERMINUS_NOT_VISIBLE,
    TERMINUS_RULES,
    Accepted,
    Coordinator,
    Declare,
    DeleteOnClose,
    DeleteOnNoLinks,
    DeliveryState,
    Modified,
    NodeProperties,
    Received,
    Rejected,
    Released,
    Source,
    StdDistMode,
    Target,
    TerminusDurability,
    TerminusExpiryPolicy,
    TransactionalState,
    TxnCapability,
    check_declare,
    check_source,
    check_target,
)
from amqp10msg.testing import composites, outcomes, termini

ROLES = ("sender", "receiver")
KNOWN = {"role", "link_name", "container_id", "modes"}


def check(terminus: Any, **known: Any) -> list[Any]:
    return (check_source if isinstance(terminus, Source) else check_target)(terminus, **known)


def node(name: str, value: Any) -> dict[str, Any]:
    return {"dynamic": True, "dynamic_node_properties": {name: value}}


PROPERTIES = NodeProperties(DeleteOnClose(), StdDistMode.MOVE).to_fields()
EXTENSION = Described(Symbol("com.example:thing:list"), [])
REQUEST, ANSWER = {"dynamic": True, "role": "request"}, {"dynamic": True, "role": "answer"}
SENDER = {"role": "sender", "modes": ["move", "copy"]}
POLICY, MODES = "lifetime-policy", "supported-dist-modes"
BOTH = (Source, Target)
# Rule and path; classes, fields that break the rule, and fields that do not. The arguments of the
# check stand with the fields. The role is an end, or whether it requests or answers.
CASES: dict[tuple[str, str], list[tuple[tuple[Any, ...], dict[str, Any], dict[str, Any]]]] = {
    ("address-in-request", "address"): [
        (BOTH, {**REQUEST, "address": "q"}, REQUEST),
        (BOTH, {**REQUEST, "address": ""}, {**ANSWER, "address": ""}),
    ],
    ("address-missing", "address"): [
        (BOTH, ANSWER, {**ANSWER, "address": "q"}),
        (BOTH, ANSWER, {"role": "answer"}),
    ],
    ("properties-without-dynamic", "dynamic-node-properties"): [
        (BOTH, {"dynamic_node_properties": fields}, {**REQUEST, "dynamic_node_properties": fields})
        for fields in (PROPERTIES, {})
    ],
    ("lifetime-policy", f"dynamic-node-properties[{POLICY!r}]"): [
        (BOTH, node(POLICY, "delete-on-close"), node(POLICY, DeleteOnNoLinks())),
        (BOTH, node(POLICY, Accepted()), node(POLICY, Described(ULong(0x2C), []))),
        (BOTH, node(POLICY, Described(ULong(0x24), [])), node(POLICY, EXTENSION)),
        (BOTH, node(POLICY, []), node(POLICY, None)),
    ],
    ("supported-dist-modes", f"dynamic-node-properties[{MODES!r}]"): [
        (BOTH, node(MODES, "move"), node(MODES, Symbol("move"))),
        (BOTH, node(MODES, [Symbol("move")]), node(MODES, Array("symbol", [Symbol("move")]))),
        (BOTH, node(MODES, Array("symbol", [])), node(MODES, None)),
        (
            *(BOTH, node(MODES, Array("string", ["move"]))),
            node(MODES, Array("symbol", [Symbol("x"), Symbol("y")])),
        ),
    ],
    ("address-not-traceable", "address"): [
        (BOTH, {**ANSWER, **known, "address": "x"}, {**ANSWER, **known, "address": address})
        for known, address in (({"link_name": "l"}, "x.l"), ({"container_id": "c"}, "c/x"))
    ],
    ("distribution-mode-unset", "distribution-mode"): [
        ((Source,), {**SENDER, "address": "q"}, {**SENDER, "address": "q", **other})
        for other in ({"role": "receiver"}, {"modes": ["move"] * 2}, {"distribution_mode": "copy"})
    ],
    ("filter-not-described", "filter['f']"): [
        ((Source,), {"filter": {"f": wrong}}, {"filter": right})
        for wrong, right in (
            ("color = 'red'", {"f": Described(Symbol("x:y:string"), "color")}),
            (Described(ULong(0x24), []), {"f": None}),
            ([], {}),
        )
    ],
    ("default-outcome", "default-outcome"): [
        ((Source,), {"default_outcome": wrong}, {"default_outcome": right})
        for wrong, right in (
            (Received(0, 0), Released()),
            (TransactionalState(b"t", Accepted()), Modified(True)),
            (Described(ULong(0x23), [0, 0]), Described(ULong(0x26), [])),
            ("released", EXTENSION),
        )
    ],
    ("outcomes", "outcomes[1]"): [
        ((Source,), {"outcomes": ("amqp:accepted:list", wrong)}, {"outcomes": right})
        for wrong, right in (
            ("amqp:received:list", ("amqp:modified:list",)),
            ("accepted", ("amqp:rejected:list", "amqp:released:list")),
            ("amqp:accept:list", ("com.example:accept:list",)),
        )
    ],
    ("txn-capability", "capabilities[0]"): [
        (
            *((Coordinator,), {"capabilities": ("amqp:nested-transactions",)}),
            {"capabilities": (*TxnCapability, "com.example:nested")},
        )
    ],
    ("not-encodable", "durable"): [(BOTH, {"durable": 3}, {"durable": TerminusDurability(2)})],
    ("not-encodable", "expiry-policy"): [
        (BOTH, {"expiry_policy": "later"}, {"expiry_policy": TerminusExpiryPolicy.NEVER})
    ],
    ("not-encodable", "timeout"): [(BOTH, {"timeout": -1}, {"timeout": 2**32 - 1})],
    ("not-encodable", "address"): [(BOTH, {"address": b"q"}, {"address": "q"})],
}


def found_in(cls: Any, fields: dict[str, Any]) -> list[Any]:
    ends = ROLES if cls is Target else ROLES[::-1]
    known = {name: fields[name] for name in fields.keys() & KNOWN}
    if known.get("role") in {"request", "answer"}:
        known["role"] = ends[known["role"] == "answer"]
    return check(cls(**{name: fields[name] for name in fields.keys() - known}), **known)


@pytest.mark.parametrize(
    "rule, path, cls, wrong, right",
    [
        (rule, path, cls, wrong, right)
        for (rule, path), rows in CASES.items()
        for classes, wrong, right in rows
        for cls in classes
    ],
)
def test_rule(rule: str, path: str, cls: Any, wrong: dict[str, Any], right: dict[str, Any]) -> None:
    assert rule not in [violation.rule for violation in found_in(cls, right)]
    (violation,) = [found for found in found_in(cls, wrong) if found.rule == rule]
    assert f"{composite_of(cls).name}.{path}" == violation.path
    row = TERMINUS_RULES[rule]
    assert row.severity == violation.severity
    clause = f"Part 3, 3.5.{3 if cls is Source else 4}"
    assert (clause if row.clause == "Part 3, 3.5.3, 3.5.4" else row.clause) == violation.clause


def test_every_rule_has_a_case() -> None:
    assert TERMINUS_RULES.keys() - {"global-id"} == {rule for rule, _ in CASES}
    assert len(set(TERMINUS_NOT_VISIBLE)) == len(TERMINUS_NOT_VISIBLE)


def test_a_global_transaction_needs_a_coordinator_for_distributed_ones() -> None:
    declare = Declare(EXTENSION)

    for coordinator, expected in (
        (Coordinator(), ["global-id"]),
        (Coordinator((TxnCapability.LOCAL_TRANSACTIONS,)), ["global-id"]),
        (Coordinator((TxnCapability.DISTRIBUTED_TRANSACTIONS,)), []),
        (None, []),
    ):
        for given_as in (declare, delivery.encode(declare)):
            found = check_declare(given_as, coordinator)
            assert expected == [violation.rule for violation in found]
    assert [] == check_declare(Declare(), Coordinator())


def test_default_outcome_that_cannot_be_encoded_is_reported_once() -> None:
    violations = check(Source(default_outcome="released"))

    assert ["default-outcome"] == [violation.rule for violation in violations]


@pytest.mark.parametrize("role", [None, *ROLES])
@pytest.mark.parametrize("cls", [Source, Target])
def test_a_minimal_terminus_breaks_no_rule(cls: Any, role: str | None) -> None:
    assert cls().is_minimal
    assert [] == check(cls(), role=role)


@given(composites(Source) | composites(Target))
def test_minimal_is_what_has_no_field_on_the_wire(terminus: Any) -> None:
    assert (encode_value(terminus)[3:] == b"\x45") == terminus.is_minimal


@pytest.mark.parametrize("role", [None, *ROLES])
def test_what_the_strategy_draws_breaks_no_rule(role: str | None) -> None:
    @given(termini(role))
    def holds(terminus: Any) -> None:
        octets = delivery.encode(terminus)

        assert [] == check(terminus, role=role)
        assert [] == check(delivery.decode(octets), role=role)

    holds()


@given(composites(Source) | composites(Target), st.sampled_from([None, *ROLES]))
def test_octets_are_judged_as_what_they_say(terminus: Any, role: str | None) -> None:
    octets = delivery.encode(terminus)
    name = composite_of(type(terminus)).name
    checked = check_source if name == "source" else check_target

    found = checked(octets, role=role)

    assert found == check(terminus, role=role)
    assert found == sorted(found, key=lambda violation: violation.offset)
    for violation in found:
        assert violation.path.startswith(f"{name}.")
        assert 0 <= violation.offset < len(octets)
        assert violation.rule in TERMINUS_RULES


def test_the_offset_is_that_of_the_field() -> None:
    octets = delivery.encode(Source(dynamic=True, address="q", outcomes=("accepted",)))

    address, accepted = check_source(octets, role="receiver")

    assert b"\xa1\x01q" == octets[address.offset : address.offset + 3]
    assert octets[accepted.offset :].startswith(b"\xa3\x08accepted") or octets[
        accepted.offset :
    ].startswith(b"\xe0")


@pytest.mark.parametrize("data", [delivery.encode(Target()), delivery.encode(Accepted())])
def test_check_source_refuses_other_types(data: bytes) -> None:
    with pytest.raises(TypeError, match="expected a Source"):
        check_source(data)
    with pytest.raises(TypeError, match="expected a Source"):
        check_source(delivery.decode(data))
    with pytest.raises(DecodeError):
        check_source(data[:-1])
    with pytest.raises(ValueError, match="sender or receiver"):
        check_source(Source(), role="client")


def test_of_a_rule_that_is_broken_often_the_first_are_listed() -> None:
    found = check_source(Source(outcomes=("accepted",) * 5_000), role="sender")

    assert 100 == len(found)
    assert "source.outcomes[99]" == found[-1].path


# What a source supports.


@given(outcomes())
def test_outcomes_that_can_be_chosen(outcome: DeliveryState) -> None:
    symbol = composite_of(type(outcome)).symbol
    others = tuple(
        entry.symbol
        for key, entry in COMPOSITES.items()
        if isinstance(key, int) and "outcome" in entry.provides and entry.symbol != symbol
    )

    assert Source(outcomes=(symbol,)).supports(outcome)
    assert not Source(outcomes=others).supports(outcome)
    assert Source(default_outcome=outcome).supports(outcome)
    # "If the default-outcome is not set, and no outcomes are provided, then the accepted outcome
    # must be supported by the source."
    assert isinstance(outcome, Accepted) == Source().supports(outcome)
    other = Released() if not isinstance(outcome, Released) else Rejected()
    assert not Source(default_outcome=other).supports(outcome)
    assert not Source(default_outcome=EXTENSION).supports(outcome)


# Node properties.

node_properties = st.builds(
    NodeProperties,
    st.sampled_from([None, DeleteOnClose(), DeleteOnNoLinks(), EXTENSION]),
    st.lists(st.sampled_from(["move", "copy", "com.example:mode"]), max_size=3).map(tuple),
    st.dictionaries(st.sampled_from(["a", "b"]), st.integers(0, 5)),
)


@given(node_properties)
def test_node_properties_survive_a_terminus(properties: NodeProperties) -> None:
    fields = properties.to_fields()
    for cls in (Source, Target):
        terminus = cls(dynamic=True, dynamic_node_properties=fields or None)

        again = delivery.decode(delivery.encode(terminus))

        assert properties == NodeProperties.from_fields(fields)
        assert properties == NodeProperties.from_fields(again.dynamic_node_properties)
        assert [] == check(terminus)


def test_node_properties_as_they_are_written() -> None:
    assert NodeProperties() == NodeProperties.from_fields(None) == NodeProperties.from_fields({})
    assert ("move",) == NodeProperties(supported_dist_modes=StdDistMode.MOVE).supported_dist_modes
    several = NodeProperties(supported_dist_modes=tuple(StdDistMode)).to_fields()
    assert {"supported-dist-modes": Array("symbol", [Symbol("move"), Symbol("copy")])} == several


@pytest.mark.parametrize(
    "fields, path",
    [
        ({"lifetime-policy": "forever"}, "lifetime-policy"),
        ({"lifetime-policy": Described(ULong(0x26), [])}, "lifetime-policy"),
        ({"lifetime-policy": Described(ULong(0x2B), [1])}, ""),
        ({"supported-dist-modes": "move"}, "supported-dist-modes"),
        ({"supported-dist-modes": [Symbol("move")]}, "supported-dist-modes"),
        ({"supported-dist-modes": Array("string", ["move"])}, "supported-dist-modes"),
    ],
)
def test_node_properties_of_a_wrong_type_are_refused(fields: Any, path: str) -> None:
    with pytest.raises(DecodeError) as caught:
        NodeProperties.from_fields(fields)

    assert path in caught.value.path
    assert "amqp:invalid-field" == caught.value.condition


def test_fields_stay_as_they_are() -> None:
    fields = {"lifetime-policy": DeleteOnClose(), "x": 1}

    NodeProperties.from_fields(fields)

    assert {"lifetime-policy": DeleteOnClose(), "x": 1} == fields
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        NodeProperties().others = {}  # type: ignore[misc]


def test_multiple_field_of_a_wrong_type_is_refused_by_encoding() -> None:
    with pytest.raises(EncodeError, match="capabilities"):
        delivery.encode(Target(capabilities=7))  # type: ignore[arg-type]
