"""Resuming deliveries: the specification's example, and what must hold whatever is lost."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg import (
    DecodeError,
    Described,
    EncodeError,
    Message,
    Properties,
    ULong,
    decode_value,
    delivery,
    encode_value,
    scan,
)
from amqp10msg.delivery import (
    Accepted,
    DeliveryState,
    Modified,
    Received,
    Rejected,
    Released,
    ResumeAction,
    Step,
    TransactionalState,
    bytes_from,
    octets_before,
    position,
    resume,
)
from amqp10msg.testing import messages

NEW, RESUME, SETTLE, RESTATE, ABORT, REPORT, NOTHING = ResumeAction

# The example of Part 3, 3.4.6: both maps as its figure has them.
SENDER: dict[int, DeliveryState | None] = {
    **dict.fromkeys((1, 2, 3, 4)),
    5: Received(0, 200),
    6: Received(1, 150),
    7: Received(0, 500),
    8: Received(3, 5),
    9: Received(2, 0),
    **dict.fromkeys((10, 11, 12, 13, 14), Accepted()),
}
RECEIVER: dict[int, DeliveryState | None] = {
    2: Received(3, 0),
    3: Accepted(),
    4: None,
    6: Received(2, 0),
    7: Received(0, 100),
    8: Accepted(),
    9: None,
    11: Received(1, 2000),
    12: Accepted(),
    13: Released(),
    14: None,
}
# Tag: action, then the fields of the transfer that the specification shows (state, settled,
# resume, aborted, more; more is None where the payload decides), and where the payload starts.
ACCEPTED = Accepted()
EXAMPLE: dict[int, tuple[ResumeAction, tuple[Any, ...] | None, Received | None]] = {
    1: (NEW, (None, False, False, False, None), Received(0, 0)),
    2: (RESUME, (Received(3, 0), False, True, False, None), Received(3, 0)),
    3: (SETTLE, (ACCEPTED, True, True, False, False), None),
    4: (RESUME, (None, False, True, False, None), Received(0, 0)),
    5: (REPORT, None, None),
    6: (RESUME, (Received(2, 0), False, True, False, None), Received(2, 0)),
    7: (ABORT, (None, False, True, True, False), None),
    8: (SETTLE, (ACCEPTED, True, True, False, False), None),
    9: (ABORT, (None, False, True, True, False), None),
    10: (NOTHING, None, None),
    11: (ABORT, (None, False, True, True, False), None),
    12: (SETTLE, (None, True, True, False, False), None),
    13: (RESTATE, (ACCEPTED, False, True, False, False), None),
    14: (ABORT, (None, False, True, True, False), None),
}
# What is left to do for the message: after an abort, or instead of sending.
AFTER = {5: NEW, 7: NEW, 9: NEW}
LOST = {7: REPORT, 9: REPORT}


def tagged(states: dict[int, Any]) -> dict[bytes, Any]:
    return {bytes([tag]): state for tag, state in states.items()}


def transfer(step: Step) -> tuple[Any, ...] | None:
    if not step.sends:
        assert (None, False, False, False) == (step.state, step.settled, step.resume, step.aborted)
        return None
    return (step.state, step.settled, step.resume, step.aborted, step.more)


@pytest.mark.parametrize("tag", EXAMPLE)
def test_example_of_the_specification(tag: int) -> None:
    plan = resume(tagged(SENDER), tagged(RECEIVER))
    step = plan[bytes([tag])]

    assert EXAMPLE[tag] == (step.action, transfer(step), step.start)
    assert LOST.get(tag, NOTHING) == step.then
    assert (ACCEPTED if tag in (3, 8) else None) == step.outcome
    assert (tag in (1, 2, 4, 6, 13)) == step.keeps
    assert not step.waits
    assert step.text
    assert bytes([tag]) == step.delivery_tag


def test_example_as_a_whole() -> None:
    plan = resume(tagged(SENDER), tagged(RECEIVER))

    assert list(tagged(SENDER)) == list(plan)
    assert (14, True, ()) == (len(plan), plan.may_send_new, plan.settled_by_sender)
    assert tuple(bytes([tag]) for tag in (7, 9, 11, 14)) == plan.held_at_receiver
    # One by one it is the same: deliveries do not depend on one another.
    for tag, state in SENDER.items():
        theirs = {tag: RECEIVER[tag]} if tag in RECEIVER else {}
        alone = resume(tagged({tag: state}), tagged(theirs))
        assert plan[bytes([tag])] == alone[bytes([tag])]


@pytest.mark.parametrize("tag", EXAMPLE)
def test_a_sender_that_has_the_messages_still_sends_them_anew(tag: int) -> None:
    tags = frozenset(bytes([tag]) for tag in SENDER)

    step = resume(tagged(SENDER), tagged(RECEIVER), messages=tags)[bytes([tag])]

    if tag == 5:
        assert (NEW, (None, False, False, False, None)) == (step.action, transfer(step))
        assert Received(0, 0) == step.start
    else:
        assert EXAMPLE[tag] == (step.action, transfer(step), step.start)
        assert AFTER.get(tag, NOTHING) == step.then


def test_a_source_that_cannot_apply_the_outcome_restates_its_own() -> None:
    step = resume(tagged(SENDER), tagged(RECEIVER))[b"\x03"]

    instead = step.not_applied(Released())

    assert (RESTATE, (Released(), False, True, False, False)) == (instead.action, transfer(instead))
    assert instead.keeps
    for wrong in (Received(0, 0), TransactionalState(b"t")):
        with pytest.raises(ValueError, match="takes an outcome, not"):
            step.not_applied(wrong)
    with pytest.raises(ValueError, match="no outcome that not_applied"):
        instead.not_applied(Accepted())


def test_states_as_an_attach_frame_holds_them() -> None:
    def described(states: dict[int, Any]) -> dict[bytes, Any]:
        # What decoding the encoded map gives.
        found: dict[bytes, Any] = decode_value(encode_value(tagged(states)))
        return found

    sender, receiver = described(SENDER), described(RECEIVER)

    assert isinstance(receiver[b"\x02"], Described)
    assert resume(tagged(SENDER), tagged(RECEIVER)) == resume(sender, receiver)


def test_no_deliveries() -> None:
    for plan in (resume(None, None), resume({}, {})):
        assert (0, True, ()) == (len(plan), plan.may_send_new, plan.settled_by_sender)


def test_a_delivery_that_only_the_receiver_has_is_settled() -> None:
    plan = resume({}, {b"a": Received(1, 0), b"b": None, b"c": Accepted()})

    assert (b"a", b"b", b"c") == plan.settled_by_sender
    assert {(NOTHING, None, False)} == {
        (step.action, transfer(step), step.waits) for step in plan.values()
    }


# What the sender cannot settle on a transfer.


@pytest.mark.parametrize("tag", [3, 8, 12])
def test_a_link_whose_sender_must_not_settle_transfers(tag: int) -> None:
    step = resume(tagged(SENDER), tagged(RECEIVER), may_settle=False)[bytes([tag])]

    assert (SETTLE, False) == (step.action, step.settled)
    assert not step.keeps


# Transactions.


def test_a_posting_in_a_transaction_goes_on_in_it() -> None:
    posted = TransactionalState(b"t")

    started = resume({b"a": posted}, {b"a": Received(1, 4)})[b"a"]
    unknown = resume({b"a": posted}, {})[b"a"]

    assert (RESUME, posted, Received(0, 0)) == (started.action, started.state, started.start)
    assert (NEW, posted, Received(0, 0)) == (unknown.action, unknown.state, unknown.start)


def test_a_provisional_outcome_needs_no_payload_and_is_not_applied() -> None:
    provisional = TransactionalState(b"t", Accepted())
    for ours in (TransactionalState(b"t"), provisional, None, Received(1, 0)):
        step = resume({b"a": ours}, {b"a": provisional})[b"a"]

        assert (RESUME, None, None, False) == (step.action, step.outcome, step.start, step.more)
        assert step.keeps
        transactional = isinstance(ours, TransactionalState)
        assert (TransactionalState(b"t") if transactional else None) == step.state
    # The source committed, and the receiver has not heard.
    step = resume({b"a": Accepted()}, {b"a": provisional})[b"a"]
    assert (RESTATE, Accepted(), False) == (step.action, step.state, step.settled)


# Incomplete maps.


def test_with_an_incomplete_map_of_the_receiver_absence_says_nothing() -> None:
    plan = resume(tagged(SENDER), tagged(RECEIVER), receiver_incomplete=True)

    assert not plan.may_send_new
    for tag in SENDER:
        step = plan[bytes([tag])]
        if tag in RECEIVER:
            assert EXAMPLE[tag] == (step.action, transfer(step), step.start)
        else:
            assert (NOTHING, None) == (step.action, transfer(step))
            assert (True, True) == (step.keeps, step.waits)


def test_with_an_incomplete_map_of_the_sender_nothing_new_is_sent_and_nothing_forgotten() -> None:
    receiver = tagged(RECEIVER) | {b"other": None}

    plan = resume(tagged(SENDER), receiver, sender_incomplete=True)

    assert (False, ()) == (plan.may_send_new, plan.settled_by_sender)
    for tag in SENDER:
        step = plan[bytes([tag])]
        if tag == 1:
            assert (NOTHING, True, True) == (step.action, step.keeps, step.waits)
        else:
            assert EXAMPLE[tag] == (step.action, transfer(step), step.start)
    assert (NOTHING, True) == (plan[b"other"].action, plan[b"other"].waits)
    assert b"other" in plan.held_at_receiver


# What is in the maps.


@pytest.mark.parametrize(
    "unsettled, reason",
    [
        ({b"a": "accepted"}, "the state of delivery 61 must be a delivery state"),
        ({b"a": delivery.Source()}, "the state of delivery 61 must be a delivery state"),
        ({None: None}, "a delivery-tag must be binary of up to 32 bytes"),
        ({5: None}, "a delivery-tag must be binary of up to 32 bytes"),
        ({bytes(33): None}, "a delivery-tag must be binary of up to 32 bytes"),
    ],
)
def test_invalid_unsettled_map_is_refused(unsettled: Any, reason: str) -> None:
    with pytest.raises(EncodeError) as local:
        resume(unsettled, {})
    with pytest.raises(DecodeError) as remote:
        resume({}, unsettled)

    assert reason in local.value.reason
    assert reason in remote.value.reason
    assert "amqp:invalid-field" == remote.value.condition


def test_an_unknown_state_is_refused() -> None:
    with pytest.raises(DecodeError) as caught:
        resume({b"a": None}, {b"a": Described(ULong(0x99), [])})

    assert "amqp:not-implemented" == caught.value.condition


# Any maps.

places = st.builds(Received, st.integers(0, 3), st.integers(0, 3))
done = st.sampled_from([Accepted(), Released(), Rejected(), Modified(True)])
states: st.SearchStrategy[Any] = st.none() | places | done
tags = st.sampled_from([bytes([tag]) for tag in range(6)])
unsettled = st.dictionaries(tags, states)


def place(state: DeliveryState | None) -> tuple[int, int]:
    return (state.section_number, state.section_offset) if isinstance(state, Received) else (0, 0)


@pytest.mark.once
@given(unsettled, unsettled, st.frozensets(tags), st.booleans(), st.booleans())
def test_guarantees(
    ours: dict[bytes, Any],
    theirs: dict[bytes, Any],
    kept: frozenset[bytes],
    sender_incomplete: bool,
    receiver_incomplete: bool,
) -> None:
    plan = resume(
        ours,
        theirs,
        messages=kept,
        sender_incomplete=sender_incomplete,
        receiver_incomplete=receiver_incomplete,
    )

    assert ours.keys() | theirs.keys() == plan.keys()
    for tag, step in plan.items():
        mine, peers = ours.get(tag), theirs.get(tag)
        if tag in ours and tag in theirs:
            # "Deliveries in this category MUST be resumed by the sender."
            assert step.sends
            assert step.resume
        # "The sender MUST NOT send resumed transfers for deliveries not in its unsettled map", and
        # the receiver ignores those that are not in its own.
        assert not step.resume or (tag in ours and tag in theirs)
        # "The sender MUST NOT send the received state [...] except on the first transfer
        # performative on a resumed delivery."
        assert not isinstance(step.state, Received) or step.action is RESUME
        # Nothing is sent again of which either end has the outcome.
        if any(state is not None and state.is_outcome for state in (mine, peers)):
            assert step.start is None
            assert NEW not in (step.action, step.then)
        # Nothing is resumed before the sender's place, and nothing behind what the receiver has.
        if step.action is RESUME:
            assert step.start is not None
            assert place(mine) <= place(step.start) <= place(peers)
        # Nothing is given up that could go on.
        if step.action is ABORT:
            assert (mine is not None and mine.is_outcome) or place(peers) < place(mine)
        # An outcome at the sender is definitive: no other one is stated or applied.
        if mine is not None and mine.is_outcome:
            assert step.outcome is None
            assert step.state in (None, mine)
        if step.outcome is not None:
            assert step.outcome == peers == step.state
        # Settled where both have the same outcome, aborted where the payload cannot be had.
        assert not (step.settled and step.aborted)
        if step.action is NEW:
            assert plan.may_send_new
            assert tag not in theirs
        # What may be lost is said, and only where the sender has it no longer.
        lost = REPORT in (step.action, step.then)
        assert not (lost and (tag in kept or place(mine) == (0, 0)))
        if lost:
            assert tag not in theirs or place(peers) < place(mine)
        # Whoever keeps nothing and sends nothing has the outcome, or says that it is lost.
        if tag in ours and not step.keeps and not step.sends:
            assert lost or (mine is not None and mine.is_outcome)
    # Deliveries are held only without an outcome, and always if the sender may forget them.
    for tag in plan.held_at_receiver:
        assert theirs[tag] is None or not theirs[tag].is_outcome
    for tag, state in theirs.items():
        if plan[tag].action is ABORT and not (state is not None and state.is_outcome):
            assert tag in plan.held_at_receiver
    assert (sender_incomplete or receiver_incomplete) != plan.may_send_new
    gone = () if sender_incomplete else tuple(tag for tag in theirs if tag not in ours)
    assert gone == plan.settled_by_sender


# Places.

few = messages(delivery_annotations=None, application_properties=None, footer=None)


@given(few, st.data())
def test_every_place_is_found_again(message: Message, data: st.DataObject) -> None:
    payload = message.encode()
    count = data.draw(st.integers(0, len(payload)))

    found = position(message, count)

    assert found == position(payload, count) == position(payload[:count])
    assert found == position(memoryview(payload), count)
    assert count == octets_before(message, found) == octets_before(payload, found)
    assert payload[count:] == bytes_from(message, found) == bytes_from(payload, found)
    parts = list(scan(payload))
    assert found.section_number == sum(part.end <= count for part in parts)


@given(few)
def test_the_end_of_a_section_is_the_beginning_of_the_next(message: Message) -> None:
    payload = message.encode()
    for number, part in enumerate(scan(payload)):
        end, next_one = Received(number, part.length), Received(number + 1, 0)

        assert next_one == position(payload, part.end)
        assert payload[part.end :] == bytes_from(payload, end) == bytes_from(payload, next_one)
        for beyond in (Received(number, part.length + 1), Received(number, 2**64 - 1)):
            with pytest.raises(DecodeError):
                bytes_from(payload, beyond)


@pytest.mark.parametrize(
    "place, reason",
    [
        (Received(0, 5), "section 0 has 4 bytes"),
        (Received(1, 8), "section 1 has 7 bytes"),
        (Received(2, 1), "the payload has 2 sections"),
        (Received(3, 0), "the payload has 2 sections"),
        (Received(2**32 - 1, 2**64 - 1), "the payload has 2 sections"),
    ],
)
def test_position_outside_the_payload(place: Received, reason: str) -> None:
    payload = bytes.fromhex("00537045" + "005377a1026869")

    with pytest.raises(DecodeError) as caught:
        bytes_from(payload, place)

    assert caught.value.reason.startswith(reason)
    assert ("no-such-place", "amqp:invalid-field") == (caught.value.rule, caught.value.condition)


def test_byte_count_outside_the_payload() -> None:
    for count in (-1, 12):
        with pytest.raises(ValueError, match="byte_count must be 0 to"):
            position(bytes.fromhex("00537045" + "005377a1026869"), count)


def test_no_payload_has_one_place() -> None:
    assert Received(0, 0) == position(b"")
    assert b"" == bytes_from(b"", Received(0, 0))
    with pytest.raises(DecodeError, match="has 0 sections"):
        bytes_from(b"", Received(0, 1))


def test_octets_that_are_no_sections_have_no_places() -> None:
    with pytest.raises(DecodeError) as caught:
        position(bytes.fromhex("005370451f00"))

    assert "unknown-constructor" == caught.value.rule


def test_both_forms_of_a_section_end_are_the_same_position() -> None:
    payload = Message("hello", properties=Properties(message_id="m-1")).encode()
    first = next(iter(scan(payload)))
    sender, receiver = {b"a": Received(1, 0)}, {b"a": Received(0, first.length)}

    assert RESUME is resume(receiver, sender)[b"a"].action
    # Without the payload nobody can tell; with it they are the same.
    assert ABORT is resume(sender, receiver)[b"a"].action
    assert ABORT is resume(sender, receiver, messages=[b"a"])[b"a"].action
    step = resume(sender, receiver, messages={b"a": payload})[b"a"]
    assert (RESUME, Received(0, first.length)) == (step.action, step.start)
    short = {b"a": Received(0, first.length - 1)}
    assert ABORT is resume(sender, short, messages={b"a": payload})[b"a"].action
