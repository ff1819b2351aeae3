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


def check(terminus: Any, **known: Any) -> list[Any]:
    return (check_source if isinstance(terminus, Source) else check_target)(terminus, **known)


def broken(terminus: Any, **known: Any) -> list[tuple[str, str]]:
    return [(found.rule, found.path) for found in check(terminus, **known)]


# Every rule has a case that breaks it, and one beside it that does not.
PROPERTIES = NodeProperties(DeleteOnClose(), StdDistMode.MOVE).to_fields()
EXTENSION = Described(Symbol("com.example:thing:list"), [])
CASES: list[tuple[str, str, Any, dict[str, Any], Any, dict[str, Any]]] = [
    # rule, place, what breaks it at which end, and what does not.
    *(
        (rule, place, wrong, {"role": wrong_end}, right, {"role": right_end})
        for source_end, cls in (("receiver", Source), ("sender", Target))
        for other_end in ROLES
        if other_end != source_end
        for rule, place, wrong, wrong_end, right, right_end in (
            (
                "address-in-request",
                "address",
                cls(dynamic=True, address="q"),
                source_end,
                cls(dynamic=True),
                source_end,
            ),
            (
                "address-in-request",
                "address",
                cls(dynamic=True, address=""),
                source_end,
                cls(dynamic=True, address=""),
                other_end,
            ),
            (
                "address-missing",
                "address",
                cls(dynamic=True),
                other_end,
                cls(dynamic=True, address="q"),
                other_end,
            ),
            (
                "address-missing",
                "address",
                cls(dynamic=True),
                other_end,
                cls(),
                other_end,
            ),
        )
    ),
    *(
        (rule, place, wrong, {}, right, {})
        for cls in (Source, Target)
        for rule, place, wrong, right in (
            (
                "properties-without-dynamic",
                "dynamic-node-properties",
                cls(dynamic_node_properties=PROPERTIES),
                cls(dynamic=True, dynamic_node_properties=PROPERTIES),
            ),
            (
                "properties-without-dynamic",
                "dynamic-node-properties",
                cls(dynamic_node_properties={}),
                cls(dynamic=True, dynamic_node_properties={}),
            ),
            *(
                (
                    "lifetime-policy",
                    "dynamic-node-properties['lifetime-policy']",
                    cls(dynamic=True, dynamic_node_properties={"lifetime-policy": policy}),
                    cls(dynamic=True, dynamic_node_properties={"lifetime-policy": right}),
                )
                for policy, right in (
                    ("delete-on-close", DeleteOnNoLinks()),
                    (Accepted(), Described(ULong(0x2C), [])),
                    (Described(ULong(0x24), []), EXTENSION),
                    ([], None),
                )
            ),
            *(
                (
                    "supported-dist-modes",
                    "dynamic-node-properties['supported-dist-modes']",
                    cls(dynamic=True, dynamic_node_properties={"supported-dist-modes": modes}),
                    cls(dynamic=True, dynamic_node_properties={"supported-dist-modes": right}),
                )
                for modes, right in (
                    ("move", Symbol("move")),
                    ([Symbol("move")], Array("symbol", [Symbol("move")])),
                    (Array("symbol", []), None),
                    (Array("string", ["move"]), Array("symbol", [Symbol("x"), Symbol("y")])),
                )
            ),
        )
    ),
    (
        "address-not-traceable",
        "address",
        Source(dynamic=True, address="x"),
        {"role": "sender", "link_name": "l"},
        Source(dynamic=True, address="x.l"),
        {"role": "sender", "link_name": "l"},
    ),
    (
        "address-not-traceable",
        "address",
        Target(dynamic=True, address="x"),
        {"role": "receiver", "container_id": "c"},
        Target(dynamic=True, address="c/x"),
        {"role": "receiver", "container_id": "c"},
    ),
    (
        "distribution-mode-unset",
        "distribution-mode",
        Source(address="q"),
        {"role": "sender", "modes": ["move", "copy"]},
        Source(address="q"),
        {"role": "receiver", "modes": ["move", "copy"]},
    ),
    (
        "distribution-mode-unset",
        "distribution-mode",
        Source(address="q"),
        {"role": "sender", "modes": ["move", "copy"]},
        Source(distribution_mode="copy"),
        {"role": "sender", "modes": ["move", "copy"]},
    ),
    *(
        ("filter-not-described", "filter['f']", Source(filter={"f": wrong}), {}, right, {})
        for wrong, right in (
            ("color = 'red'", Source(filter={"f": Described(Symbol("x:y:string"), "color")})),
            (Described(ULong(0x24), []), Source(filter={"f": None})),
            ([], Source(filter={})),
        )
    ),
    *(
        ("default-outcome", "default-outcome", Source(default_outcome=wrong), {}, right, {})
        for wrong, right in (
            (Received(0, 0), Source(default_outcome=Released())),
            (TransactionalState(b"t", Accepted()), Source(default_outcome=Modified(True))),
            (Described(ULong(0x23), [0, 0]), Source(default_outcome=Described(ULong(0x26), []))),
            ("released", Source(default_outcome=EXTENSION)),
        )
    ),
    *(
        ("outcomes", "outcomes[1]", Source(outcomes=("amqp:accepted:list", wrong)), {}, right, {})
        for wrong, right in (
            ("amqp:received:list", Source(outcomes=("amqp:modified:list",))),
            ("accepted", Source(outcomes=("amqp:rejected:list", "amqp:released:list"))),
            ("amqp:accept:list", Source(outcomes=("com.example:accept:list",))),
        )
    ),
    (
        "txn-capability",
        "capabilities[0]",
        Coordinator(("amqp:nested-transactions",)),
        {},
        Coordinator((*TxnCapability, "com.example:nested")),
        {},
    ),
    ("not-encodable", "durable", Source(durable=3), {}, Source(durable=TerminusDurability(2)), {}),  # type: ignore[arg-type]
    (
        "not-encodable",
        "expiry-policy",
        Target(expiry_policy="later"),  # type: ignore[arg-type]
        {},
        Target(expiry_policy=TerminusExpiryPolicy.NEVER),
        {},
    ),
    ("not-encodable", "timeout", Target(timeout=-1), {}, Target(timeout=2**32 - 1), {}),
    ("not-encodable", "address", Target(address=b"q"), {}, Target(address="q"), {}),
]


@pytest.mark.parametrize("rule, place, wrong, known, right, known_there", CASES)
def test_rule(
    rule: str,
    place: str,
    wrong: Any,
    known: dict[str, Any],
    right: Any,
    known_there: dict[str, Any],
) -> None:
    path = f"{composite_of(type(wrong)).name}.{place}"

    assert (rule, path) in broken(wrong, **known)
    assert rule not in [found for found, _ in broken(right, **known_there)]
    found = next(found for found in check(wrong, **known) if found.rule == rule)
    row = TERMINUS_RULES[rule]
    assert found.severity == row.severity
    if row.clause == "Part 3, 3.5.3, 3.5.4":
        assert ("Part 3, 3.5.3" if isinstance(wrong, Source) else "Part 3, 3.5.4") == found.clause
    else:
        assert row.clause == found.clause


def test_every_rule_has_a_case() -> None:
    assert TERMINUS_RULES.keys() - {"global-id"} == {case[0] for case in CASES}
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
