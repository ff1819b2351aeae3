"""Delivery states: what they are, from and to bytes, and what they do to a message."""

from __future__ import annotations

import contextlib
import copy
import pickle
from typing import Any

import attrs
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from amqp10msg import (
    AmqpMap,
    AmqpValue,
    Array,
    Data,
    DecodeError,
    Described,
    EncodeError,
    Header,
    Message,
    Properties,
    Symbol,
    ULong,
    composite,
    delivery,
    encode_value,
    scan,
)
from amqp10msg.composite import COMPOSITES, composite_of, encode_composite
from amqp10msg.delivery import (
    Accepted,
    Declare,
    Declared,
    DeleteOnClose,
    DeleteOnNoLinks,
    DeleteOnNoLinksOrMessages,
    DeleteOnNoMessages,
    DeliveryState,
    Discharge,
    Error,
    MessageState,
    Modified,
    Received,
    Rejected,
    Released,
    Source,
    Target,
    TransactionalState,
    TxnCapability,
    apply,
    bytes_from,
    check_source,
    check_target,
)
from amqp10msg.testing import (
    composites,
    delivery_states,
    encodings,
    messages,
    mutated,
    outcomes,
    values,
)
from amqp10msg.wire.kernel import Writer
from amqp10msg.wire.primitives import identical, ulong

OUTCOMES = (Accepted, Rejected, Released, Modified, Declared)
EMPTY = (
    Accepted,
    Released,
    DeleteOnClose,
    DeleteOnNoLinks,
    DeleteOnNoLinksOrMessages,
    DeleteOnNoMessages,
)
CLASSES = (
    *OUTCOMES,
    *EMPTY,
    Received,
    TransactionalState,
    Source,
    Target,
    delivery.Coordinator,
    Declare,
    Discharge,
)

# What they are.


@given(delivery_states())
def test_a_state_is_terminal_exactly_if_it_is_an_outcome(state: DeliveryState) -> None:
    assert isinstance(state, OUTCOMES) == state.is_outcome == state.is_terminal


def test_every_class_that_provides_a_delivery_state_is_one() -> None:
    found = {entry.cls for entry in COMPOSITES.values() if "delivery-state" in entry.provides}

    assert {*OUTCOMES, Received, TransactionalState} == found
    assert all(issubclass(cls, DeliveryState) for cls in found)


@pytest.mark.parametrize("cls", EMPTY)
def test_states_without_fields_are_frozen_singletons(cls: Any) -> None:
    one = cls()

    assert one is cls()
    assert one is delivery.decode(delivery.encode(one))
    assert one is copy.copy(one) is copy.deepcopy(one) is attrs.evolve(one)
    assert one is pickle.loads(pickle.dumps(one))
    assert {one: 1}[cls()] == 1
    assert [one] == [other() for other in EMPTY if other() == one]
    for name in ("anything", "_instance"):
        with pytest.raises(AttributeError):
            setattr(one, name, 1)


def test_a_state_of_ones_own_says_what_it_is_in_its_declaration() -> None:
    @composite.composite("test:held:list", 0x4242_0010, provides=("delivery-state",))
    @attrs.define
    class Held(DeliveryState):
        until: ulong

    try:
        held = Held(5)

        assert (False, False) == (held.is_outcome, held.is_terminal)
        assert held == delivery.decode(delivery.encode(held))
        with pytest.raises(ValueError, match="unknown effect of the state"):
            apply(held, Message("x"))
    finally:
        entry = composite_of(Held)
        del COMPOSITES[entry.code], COMPOSITES[entry.symbol]


# Bytes.


def same(expected: Any, actual: Any) -> bool:
    """Compare composites field by field: ``==`` says of a NaN that it is not itself."""
    if type(expected) is not type(actual):
        return False
    if not attrs.has(type(expected)) or isinstance(expected, (Array, Described)):
        return identical(expected, actual)
    return all(
        same(getattr(expected, field.name), getattr(actual, field.name))
        for field in attrs.fields(type(expected))
    )


@given(st.one_of([composites(cls) for cls in CLASSES]))
def test_what_is_encoded_decodes_to_the_same(value: Any) -> None:
    octets = delivery.encode(value)

    again = delivery.decode(octets)

    assert same(value, again)
    assert octets == delivery.encode(again) == encode_value(value) == encode_composite(value)


@given(st.one_of([composites(cls) for cls in CLASSES]), st.data())
def test_every_spelling_decodes_to_the_same(value: Any, data: st.DataObject) -> None:
    octets = data.draw(encodings(value))

    assert same(value, delivery.decode(octets))


@given(delivery_states().map(delivery.encode).flatmap(mutated))
def test_what_went_wrong_on_the_way_is_refused_or_read(octets: bytes) -> None:
    refused: DecodeError | None = None
    try:
        state = delivery.decode(octets)
    except DecodeError as error:
        refused = error
    if refused is None:
        encoded = delivery.encode(state)
        assert encoded == delivery.encode(delivery.decode(encoded))
    else:
        assert octets == refused.data
        assert 0 <= refused.offset <= len(octets)


@pytest.mark.parametrize("value", [Header(), Properties(message_id=1)])
def test_a_section_is_no_delivery_state(value: Any) -> None:
    octets = encode_composite(value)

    with pytest.raises(DecodeError) as caught:
        delivery.decode(octets)
    with pytest.raises(TypeError, match="expected a delivery state"):
        delivery.encode(value)

    assert ("not-a-delivery-state", 0) == (caught.value.rule, caught.value.offset)
    assert octets == caught.value.data


def test_errors_and_lifetime_policies_stand_in_them_and_decode_too() -> None:
    error = Error("amqp:not-found", description="no queue")

    assert error == delivery.decode(delivery.encode(error))
    assert DeleteOnNoLinks() is delivery.decode(delivery.encode(DeleteOnNoLinks()))


def test_what_is_unknown_in_a_field_is_kept() -> None:
    extension = Described(Symbol("com.example:postponed:list"), [5])
    state = TransactionalState(b"t", extension)

    assert state == delivery.decode(delivery.encode(state))


def assigned(value: Any, **fields: Any) -> Any:
    """Assign the fields of an object, which does not check them."""
    for name, content in fields.items():
        setattr(value, name, content)
    return value


# Values that a field cannot have, by the class of an object and the values of its fields.
WRONG_FIELDS: list[tuple[Any, dict[str, Any], str]] = [
    (TransactionalState, {"outcome": Received(0, 0)}, "transactional-state.outcome"),
    (TransactionalState, {"outcome": TransactionalState(b"u")}, "transactional-state.outcome"),
    (
        *(TransactionalState, {"outcome": Described(ULong(0x23), [0, 0])}),
        "transactional-state.outcome",
    ),
    (TransactionalState, {"outcome": "accepted"}, "transactional-state.outcome"),
    (TransactionalState, {"txn_id": b"t" * 33}, "transactional-state.txn-id"),
    (
        *(TransactionalState, {"outcome": assigned(Declared(b"u"), txn_id=b"u" * 33)}),
        "declared.txn-id",
    ),
    (Declared, {"txn_id": b"t" * 33}, "declared.txn-id"),
    (Discharge, {"txn_id": b"t" * 33}, "discharge.txn-id"),
    (Declare, {"global_id": b"global"}, "declare.global-id"),
    (Rejected, {"error": "no"}, "rejected.error"),
    (Rejected, {"error": Accepted()}, "rejected.error"),
]
# Values of types that the kernel does not write either.
WRONG_TYPES: list[tuple[Any, dict[str, Any], str]] = [
    (Error, {"condition": 5}, "error.condition"),
    (Error, {"condition": b"amqp:x"}, "error.condition"),
    (Error, {"condition": None}, "error.condition"),
    (Error, {"description": 5}, "error.description"),
    (Error, {"info": "text"}, "error.info"),
    (Error, {"info": [("k", 1)]}, "error.info"),
    (Received, {"section_number": "1"}, "received.section-number"),
    (Received, {"section_number": True}, "received.section-number"),
    (Received, {"section_offset": None}, "received.section-offset"),
    (Modified, {"delivery_failed": 1}, "modified.delivery-failed"),
    (Modified, {"undeliverable_here": "yes"}, "modified.undeliverable-here"),
    (Modified, {"message_annotations": "x"}, "modified.message-annotations"),
    (delivery.Coordinator, {"capabilities": 5}, "coordinator.capabilities"),
    (delivery.Coordinator, {"capabilities": ("a", 5)}, "coordinator.capabilities"),
    (Declared, {"txn_id": "text"}, "declared.txn-id"),
    (Discharge, {"fail": 0}, "discharge.fail"),
]
MANDATORY: dict[Any, dict[str, Any]] = {
    Error: {"condition": "amqp:not-found"},
    Received: {"section_number": 0, "section_offset": 0},
    **{cls: {"txn_id": b"t"} for cls in (TransactionalState, Declared, Discharge)},
}


@pytest.mark.parametrize("cls, fields, path", [*WRONG_FIELDS, *WRONG_TYPES])
def test_constructor_refuses_wrong_types(cls: Any, fields: dict[str, Any], path: str) -> None:
    with pytest.raises(EncodeError) as caught:
        cls(**{**MANDATORY.get(cls, {}), **fields})

    assert path == caught.value.path


@pytest.mark.parametrize(
    "fields",
    [
        {"condition": Symbol("amqp:x"), "description": "d", "info": {"k": 1}},
        {"condition": "amqp:x", "info": {}},
        {"condition": delivery.TransactionError.UNKNOWN_ID},
    ],
)
def test_constructor_accepts_every_type_of_the_field(fields: dict[str, Any]) -> None:
    error = Error(**fields)

    assert error.condition == delivery.decode(delivery.encode(error)).condition


@pytest.mark.parametrize(
    "value, path",
    [
        *(
            (assigned(cls(**MANDATORY.get(cls, {})), **fields), path)
            for cls, fields, path in WRONG_FIELDS
        ),
        (Source(default_outcome=Received(1, 1)), "source.default-outcome"),
        (Source(durable=3), "source.durable"),  # type: ignore[arg-type]
        (Target(expiry_policy="later"), "target.expiry-policy"),  # type: ignore[arg-type]
    ],
)
def test_what_a_declaration_rules_out_is_not_encoded(value: Any, path: str) -> None:
    with pytest.raises(EncodeError) as caught:
        delivery.encode(value)

    assert path == caught.value.path
    # The kernel writes it, for it knows less; whoever reads it refuses it.
    with pytest.raises(DecodeError) as refused:
        delivery.decode(encode_value(value))
    assert ("field-type", "amqp:invalid-field") == (refused.value.rule, refused.value.condition)


def test_a_transaction_id_has_up_to_32_octets() -> None:
    for size in (0, 1, 32):
        state = Declared(bytes(size))

        assert state == delivery.decode(delivery.encode(state))


def test_a_transaction_id_that_is_too_long_is_placed() -> None:
    octets = bytes.fromhex("005334c02502a021") + bytes(33) + b"\x40"

    with pytest.raises(DecodeError) as caught:
        delivery.decode(octets)

    assert "at byte 6 (transactional-state.txn-id): " in str(caught.value)
    assert "at most 32 bytes, not 33" in caught.value.reason


def test_capabilities_of_a_coordinator() -> None:
    coordinator = delivery.Coordinator(
        (TxnCapability.LOCAL_TRANSACTIONS, TxnCapability.MULTI_TXNS_PER_SSN, "com.example:other")
    )

    again = delivery.decode(delivery.encode(coordinator))

    assert coordinator == again
    assert TxnCapability.MULTI_TXNS_PER_SSN in again.capabilities


# What they do to a message.

annotated = messages(
    header=st.none() | composites(Header),
    body=st.sampled_from([Data(b"x"), AmqpValue("x"), [Data(b""), Data(b"y")]]),
    application_properties=None,
)


def count(message: Message) -> int:
    return message.header.delivery_count if message.header else 0


@given(outcomes(), annotated)
def test_an_outcome_moves_the_message_and_changes_what_it_must(
    outcome: DeliveryState, message: Message
) -> None:
    assume(not isinstance(outcome, Declared))
    message = Message.decode(message.encode())
    before = message.encode()

    state, after = apply(outcome, message)

    assert before == message.encode()
    assert message.bare == after.bare
    assert Message.decode(after.encode()) == after
    available = isinstance(outcome, (Released, Modified))
    assert (MessageState.AVAILABLE if available else MessageState.ARCHIVED) == state
    failed = isinstance(outcome, Rejected) or (
        isinstance(outcome, Modified) and outcome.delivery_failed
    )
    assert min(count(message) + failed, 2**32 - 1) == count(after)
    # All else in the header is as it was.
    header = attrs.evolve(after.header or Header(), delivery_count=count(message))
    assert (message.header or Header()) == header
    added = (isinstance(outcome, Modified) and outcome.message_annotations) or {}
    merged = {**(message.message_annotations or {}), **added}
    assert identical(list(merged.values()), list((after.message_annotations or {}).values()))
    assert list(merged) == list(after.message_annotations or {})
    assert identical(message.delivery_annotations, after.delivery_annotations)
    assert identical(message.footer, after.footer)
    if not failed and not added:
        assert message is after


@given(outcomes(), annotated)
def test_octets_fare_as_the_message_does(outcome: DeliveryState, message: Message) -> None:
    assume(not isinstance(outcome, Declared))
    octets = message.encode()

    state, after = apply(outcome, octets)

    expected_state, expected = apply(outcome, Message.decode(octets))
    assert expected_state == state
    assert expected == Message.decode(after)
    assert scan(octets).bare == scan(after).bare


@given(composites(Received) | composites(TransactionalState), annotated)
def test_states_that_are_not_outcomes_leave_the_message_acquired(
    state: DeliveryState, message: Message
) -> None:
    assert (MessageState.ACQUIRED, message) == apply(state, message)
    assert message is apply(state, message)[1]


def test_annotations_replace_those_of_the_same_key_alone() -> None:
    message = Message("x", message_annotations={"x-opt-a": 1, ULong(7): "kept", "x-opt-b": 2})
    outcome = Modified(message_annotations={"x-opt-b": None, "x-opt-c": [3]})

    _, after = apply(outcome, message)

    expected = {"x-opt-a": 1, 7: "kept", "x-opt-b": None, "x-opt-c": [3]}
    assert expected == after.message_annotations
    assert {"x-opt-a": 1, 7: "kept", "x-opt-b": 2} == message.message_annotations
    assert {"x-opt-b": None, "x-opt-c": [3]} == outcome.message_annotations


def test_a_message_without_header_gets_one() -> None:
    message = Message("x")

    assert Header(delivery_count=1) == apply(Rejected(), message)[1].header
    assert message.header is None


def test_a_delivery_count_at_its_end_stays_there() -> None:
    message = Message("x", header=Header(delivery_count=2**32 - 1))

    assert message == apply(Rejected(), message)[1]


def test_the_bare_message_keeps_encodings_that_are_not_the_smallest() -> None:
    wide = b"\0\x80" + (0x77).to_bytes(8, "big") + b"\xb1\0\0\0\x02hi"

    for encoded in (
        apply(Modified(True), wide)[1],
        apply(Modified(True), Message.decode(wide))[1].encode(),
    ):
        assert Message("hi", header=Header(delivery_count=1)) == Message.decode(encoded)
        assert encoded.endswith(wide)


def test_an_outcome_about_a_transaction_does_nothing_to_a_message() -> None:
    with pytest.raises(ValueError, match="unknown effect of the state Declared"):
        apply(Declared(b"t"), Message("x"))
    with pytest.raises(TypeError, match="the state of apply takes a delivery state, not NoneType"):
        apply(None, Message("x"))  # type: ignore[arg-type]


def test_a_delivery_count_that_is_no_number_cannot_be_counted_on() -> None:
    octets = bytes.fromhex("005370c00a0540404040a103") + b"ten" + Message("x").encode()
    message = Message.decode(octets, strict=False)

    with pytest.raises(EncodeError) as caught:
        apply(Rejected(), message)
    assert "header.delivery-count" == caught.value.path
    assert (MessageState.ARCHIVED, message) == apply(Accepted(), message)


@given(values(max_leaves=3), st.booleans())
def test_annotations_are_added_beside_a_key_that_stands_twice(key: Any, failed: bool) -> None:
    """As a lenient decoding leaves it; also beside keys that no dict holds."""
    pairs = [(Symbol("x"), 1), (key, 2), (Symbol("x"), 3), (ULong(7), 4), ([], 5)]
    writer = Writer(True)
    writer.value(Described(ULong(0x72), AmqpMap(pairs)))
    message = Message.decode(writer.finish() + Message("x").encode(), strict=False)
    new: dict[Any, Any] = {"x-new": 6, ULong(7): 8}

    _, changed = apply(Modified(delivery_failed=failed, message_annotations=new), message)
    received = Message.decode(changed.encode(), strict=False)
    kept = [pair for pair in pairs if not (type(pair[0]) is ULong and pair[0] == 7)]
    expected = AmqpMap([*kept, (Symbol("x-new"), 6), (ULong(7), 8)])
    if not (isinstance(key, (int, str)) and key in {"x-new", 7}):
        assert expected == received.message_annotations
    assert message.bare == received.bare


@given(st.sampled_from([0x23, 0x25, 0x27, 0x28, 0x29]), st.lists(values(max_leaves=3), max_size=11))
def test_what_reads_lenient_states_and_termini_says_what_is_wrong(
    code: int, fields: list[Any]
) -> None:
    state = delivery.decode(encode_value(Described(ULong(code), fields)), strict=False)
    message = Message("x")

    if isinstance(state, (Source, Target)):
        check: Any = check_source if isinstance(state, Source) else check_target
        assert all(violation.text for violation in check(state))
        return
    with contextlib.suppress(EncodeError):
        apply(state, message)
    if isinstance(state, Received):
        with contextlib.suppress(DecodeError):
            assert message.encode().endswith(bytes_from(message, state))


def test_lenient_states_that_are_of_no_use() -> None:
    place = delivery.decode(encode_value(Described(ULong(0x23), [None, True])), strict=False)
    with pytest.raises(DecodeError, match="a position must be two numbers"):
        bytes_from(Message("x"), place)
    odd = delivery.decode(encode_value(Described(ULong(0x27), [None, None, ["x"]])), strict=False)
    with pytest.raises(EncodeError, match="must be a map"):
        apply(odd, Message("x"))
    outcomes = [*(None,) * 9, Array("map", [{}])]
    source = delivery.decode(encode_value(Described(ULong(0x28), outcomes)), strict=False)
    assert any("is not a symbolic descriptor" in one.text for one in check_source(source))
