"""Resumption of links: the sender's action for each unsettled delivery.

Part 2, 2.6.13 defines the scheme, Part 3, 3.4.6 the cases. Both ends list in their attach frames
the deliveries that they consider unsettled, with their states, and the sender acts on both lists. A
position in the payload of a delivery is a section number and an offset (Part 3, 3.4.1).
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from enum import StrEnum
from types import NoneType
from typing import Any

import attrs

from amqp10msg.composite import encode_composite, from_described
from amqp10msg.delivery.states import DeliveryState, Received, TransactionalState
from amqp10msg.message import Message
from amqp10msg.wire import kernel
from amqp10msg.wire.errors import INVALID_FIELD, DecodeError, EncodeError, expect
from amqp10msg.wire.limits import UNLIMITED
from amqp10msg.wire.primitives import Described


def _encoded_payload(message: Message | bytes | bytearray | memoryview) -> bytes:
    """Return the encoded message, or the bytes of a payload."""
    if isinstance(message, Message):
        return message.encode()
    octets: bytes = kernel.octets_of(message, UNLIMITED)
    return octets


def position(
    message: Message | bytes | bytearray | memoryview, byte_count: int | None = None
) -> Received:
    """Return the position in the payload after `byte_count` bytes (Part 3, 3.4.1).

    A receiver reports the bytes that it has as such a position; a sender reports the first position
    from which it can send. Sections are numbered from 0, and the offset in a section counts from
    its descriptor. The end of a section is the same position as the start of the next section, also
    after the last section.

    Args:
        message: the payload, or its first bytes, at least `byte_count`. A `Message` is encoded; an
            unchanged decoded Message has its original bytes.
        byte_count: the number of bytes before the position, 0 to the length; None for all bytes.

    Raises:
        ValueError: `byte_count` is negative or exceeds the length.
        DecodeError: the bytes before the position are not a sequence of encoded values.
    """
    octets = _encoded_payload(message)
    count = len(octets) if byte_count is None else byte_count
    if not 0 <= count <= len(octets):
        raise ValueError(f"byte_count must be 0 to {len(octets)}, got {count}")
    number = start = 0
    while start < count:
        end = _section_end(octets, start)
        if end is None or end > count:
            return Received(number, count - start)
        number, start = number + 1, end
    return Received(number, 0)


def octets_before(message: Message | bytes | bytearray | memoryview, received: Received) -> int:
    """Return the number of bytes of the payload before a position: the inverse of `position`.

    If section 0 has n bytes, ``Received(1, 0)`` and ``Received(0, n)`` are the same position.

    Args:
        message: the payload, or its first bytes, at least up to the position; a `Message` is
            encoded.
        received: the position.

    Raises:
        DecodeError: the payload has fewer sections, or the section fewer bytes (condition
            ``amqp:invalid-field``); or the payload is malformed.
    """
    expect(received, Received, "the position of octets_before", "a Received")
    octets = _encoded_payload(message)
    number = start = 0
    if not _is_position(received):
        # Lenient decoding may leave values of other types than numbers.
        raise _position_error("a position must be two numbers", received, 0, octets)
    while number < received.section_number and start < len(octets):
        end = _section_end(octets, start)
        if end is None:
            break
        number, start = number + 1, end
    if number == received.section_number:
        end = (_section_end(octets, start) or len(octets)) if start < len(octets) else start
        if received.section_offset <= end - start:
            return start + received.section_offset
        reason = f"section {number} has {_byte_count_text(end - start)}"
        if end == start:
            reason = _section_count_text(number)
    else:
        reason = _section_count_text(number)
    raise _position_error(reason, received, start, octets)


def _is_position(received: Received) -> bool:
    """Whether both fields are integers from 0, which lenient decoding does not ensure."""
    return _is_count(received.section_number) and _is_count(received.section_offset)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _position_error(reason: str, received: Received, start: int, octets: bytes) -> DecodeError:
    """Return the error for a position that is not in the payload."""
    return DecodeError(
        f"{reason}: {received!r} is not a position in the payload",
        start,
        rule="no-such-place",
        condition=INVALID_FIELD,
        path="received",
        data=octets,
    )


def bytes_from(message: Message | bytes | bytearray | memoryview, received: Received) -> bytes:
    """Return the bytes of the payload from a position on, to send in a resumed delivery.

    Args:
        message: the whole payload, or a `Message`, which is encoded.
        received: the position.

    Raises:
        DecodeError: the position is not in the payload, or the payload is malformed.
    """
    expect(received, Received, "the position of bytes_from", "a Received")
    octets = _encoded_payload(message)
    return octets[octets_before(octets, received) :]


def _byte_count_text(count: int) -> str:
    return "1 byte" if count == 1 else f"{count} bytes"


def _section_count_text(count: int) -> str:
    return "the payload has 1 section" if count == 1 else f"the payload has {count} sections"


def _section_end(octets: bytes, start: int) -> int | None:
    """Return the end of the section at `start`; None if `octets` ends before it."""
    try:
        end: int = kernel.skip_value(octets, start)
    except DecodeError as error:
        if error.rule == "truncated":
            return None
        raise
    return end


_PAYLOAD_START = Received(0, 0)
_MAX_DELIVERY_TAG_SIZE = 32  # bytes of a delivery-tag (Part 2, 2.8.7)


class ResumeAction(StrEnum):
    """The action of the sender for a delivery (Part 3, 3.4.6)."""

    #: Send the message again, as a new delivery.
    NEW_DELIVERY = "new-delivery"
    #: Continue the delivery from a position in the payload.
    RESUME = "resume"
    #: Apply the receiver's outcome (unless the sender already has an outcome), and settle.
    SETTLE = "settle"
    #: State the outcome that took effect, because the receiver requested another outcome.
    RESTATE = "restate"
    #: Abort the delivery.
    ABORT = "abort"
    #: Report to the application that the message may be lost.
    REPORT_LOSS = "report-loss"
    #: Do not send a transfer.
    NOTHING = "nothing"


@attrs.frozen
class Step:
    """The action of the sender for a delivery, and the transfer that it sends.

    Attributes:
        delivery_tag: the tag of the delivery.
        action: the action.
        outcome: the outcome to apply at the source before the transfer is sent, or None.
        sends: whether to send a transfer. The next five attributes are fields of its first frame.
        state: the field state of the transfer; None for null.
        settled: the field settled of the transfer.
        resume: the field resume of the transfer.
        aborted: the field aborted of the transfer.
        more: the field more of the transfer: False without a payload, None if it depends on the
            size of the payload.
        start: the position at which the payload begins, for `bytes_from`; None without a payload.
        then: the action after an abort: ``NEW_DELIVERY``, as soon as `Plan.may_send_new` is True,
            or ``REPORT_LOSS`` if the message cannot be sent again. ``NOTHING`` without an abort.
        keeps: whether the sender still considers the delivery unsettled. If not, the sender forgets
            the tag after the transfer, or immediately without a transfer.
        waits: whether no action could be chosen because a map is incomplete: call `resume` again
            after the next attach.
        text: the reason for the action.
    """

    delivery_tag: bytes
    action: ResumeAction
    outcome: DeliveryState | None = None
    sends: bool = True
    state: DeliveryState | None = None
    settled: bool = False
    resume: bool = True
    aborted: bool = False
    more: bool | None = False
    start: Received | None = None
    then: ResumeAction = ResumeAction.NOTHING
    keeps: bool = False
    waits: bool = False
    text: str = ""

    def not_applied(self, outcome: DeliveryState) -> Step:
        """Return the step for a source that cannot apply the receiver's outcome (Part 3, 3.4.6).

        The sender states the outcome that took effect. The receiver repeats it and settles.

        Args:
            outcome: the outcome that took effect.

        Raises:
            ValueError: the step has no outcome to apply, or `outcome` is not an outcome.
            TypeError: `outcome` is not a delivery state.
        """
        expect(outcome, DeliveryState, "not_applied", "an outcome")
        if self.outcome is None:
            raise ValueError("this step has no outcome that not_applied could replace")
        if not outcome.is_outcome:
            raise ValueError(f"not_applied takes an outcome, not {outcome!r}")
        return _restating_step(self.delivery_tag, outcome)


@attrs.frozen
class Plan(Mapping[bytes, Step]):
    """The steps for all deliveries that either end considers unsettled, by delivery-tag.

    A mapping in sending order: first the deliveries of the sender's map, in its order, then the
    deliveries that only the receiver's map has.

    Attributes:
        steps: the steps by delivery-tag.
        may_send_new: whether both maps were complete, so that the sender may send new deliveries.
            Otherwise both ends must detach and attach again until they are (Part 2, 2.6.13).
        settled_by_sender: deliveries that the receiver must now consider settled, because only its
            own map has them (Part 2, 2.6.13). Empty if the sender's map is incomplete.
        held_at_receiver: deliveries for which the receiver must not request an outcome before it
            receives the sender's transfer, because the sender may abort and forget them. If the
            connection is lost before that, keep them for the next resumption. An outcome that is
            requested earlier would arrive too late, and the message could be processed twice.
    """

    steps: Mapping[bytes, Step]
    may_send_new: bool
    settled_by_sender: tuple[bytes, ...] = ()
    held_at_receiver: tuple[bytes, ...] = ()

    def __getitem__(self, delivery_tag: bytes) -> Step:
        return self.steps[delivery_tag]

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.steps)

    def __len__(self) -> int:
        return len(self.steps)


def resume(
    sender_unsettled: Mapping[bytes, Any] | None,
    receiver_unsettled: Mapping[bytes, Any] | None,
    *,
    messages: Mapping[bytes, Message | bytes] | Container[bytes] = (),
    sender_incomplete: bool = False,
    receiver_incomplete: bool = False,
    may_settle: bool = True,
) -> Plan:
    """Return the plan for every unsettled delivery (Part 2, 2.6.13; Part 3, 3.4.6).

    Both ends make the same call. The sender carries out the steps; the receiver follows
    `Plan.settled_by_sender` and `Plan.held_at_receiver`.

    Args:
        sender_unsettled: the unsettled map of the sender: its state of each delivery by
            delivery-tag. A state is None for null, the position from which the sender can send
            (`Received`), or the outcome that it has reached. Described values of an attach frame
            are decoded. None means an empty map.
        receiver_unsettled: the unsettled map of the receiver. A state is None for null, the
            position from which the receiver needs the payload (`Received`), or the outcome that it
            requests. Each end passes its own complete map, even if it sent an incomplete one.
        messages: the messages that the sender can still send from the beginning, by delivery-tag.
            Messages whose delivery can be resumed from the beginning may be left out. With a
            mapping, positions are compared in the payload, so that the end of a section equals the
            start of the next section; with a set, they are compared as numbers. Messages are looked
            up only if needed.
        sender_incomplete: whether the sender's attach has incomplete-unsettled.
        receiver_incomplete: whether the receiver's attach has incomplete-unsettled.
        may_settle: False if the snd-settle-mode of the link is unsettled. Its transfers must not be
            settled (Part 2, 2.7.5): the sender settles with a disposition after the transfer.

    Raises:
        EncodeError: the sender's map has a key that is not a delivery-tag (binary, up to 32 bytes),
            or a value that is not a delivery state.
        DecodeError: the receiver's map has such a key or value; a described value in either map is
            not a registered delivery state; or a position is not in its payload.
    """
    for unsettled in (sender_unsettled, receiver_unsettled):
        expect(unsettled, (Mapping, NoneType), "an unsettled map of resume", "a mapping or None")
    sender_states = _check_unsettled_map(sender_unsettled, "sender")
    receiver_states = _check_unsettled_map(receiver_unsettled, "receiver")
    may_send_new = not (sender_incomplete or receiver_incomplete)
    decide = _StepChooser(messages, may_send_new, receiver_incomplete, may_settle)
    steps = {
        tag: decide.step_at_both(tag, state, receiver_states[tag])
        if tag in receiver_states
        else decide.step_only_at_sender(tag, state)
        for tag, state in sender_states.items()
    }
    only_receiver = tuple(tag for tag in receiver_states if tag not in sender_states)
    for tag in only_receiver:
        steps[tag] = _no_transfer_step(
            tag, "the sender has settled it: the receiver settles it now"
        )
        if sender_incomplete:
            steps[tag] = _no_transfer_step(
                tag, "the sender's incomplete map does not list it", waits=True
            )
    held_tags = tuple(
        tag
        for tag, state in receiver_states.items()
        if (state is None or not state.is_outcome)
        and (steps[tag].action is ResumeAction.ABORT or steps[tag].waits)
    )
    return Plan(steps, may_send_new, () if sender_incomplete else only_receiver, held_tags)


def _check_unsettled_map(
    unsettled: Mapping[bytes, Any] | None, end: str
) -> dict[bytes, DeliveryState | None]:
    """Check the unsettled map of the sender or receiver (`end`); return it with decoded states."""
    states: dict[bytes, DeliveryState | None] = {}
    untyped: Mapping[Any, Any] = unsettled or {}
    for tag, value in untyped.items():
        if not isinstance(tag, bytes) or len(tag) > _MAX_DELIVERY_TAG_SIZE:
            raise _unsettled_map_error(
                f"a delivery-tag must be binary of up to {_MAX_DELIVERY_TAG_SIZE} bytes, got "
                f"{tag!r:.80}",
                end,
            )
        state = from_described(value) if isinstance(value, Described) else value
        if isinstance(state, Received) and not _is_position(state):
            raise _unsettled_map_error(
                f"the position of delivery {tag.hex()} must be two numbers, got {state!r}", end
            )
        if state is not None and not isinstance(state, DeliveryState):
            raise _unsettled_map_error(
                f"the state of delivery {tag.hex()} must be a delivery state, got {value!r:.80}",
                end,
            )
        states[tag] = state
    return states


def _unsettled_map_error(reason: str, end: str) -> EncodeError | DecodeError:
    """Return the error for an invalid unsettled map of the sender or the receiver (`end`)."""
    path = f"unsettled of the {end}"
    if end == "sender":
        return EncodeError(reason, path)
    return DecodeError(reason, 0, rule="not-unsettled", condition=INVALID_FIELD, path=path)


def _no_transfer_step(tag: bytes, text: str, *, keeps: bool = False, waits: bool = False) -> Step:
    """Return the step for a sender that does not send a transfer."""
    return Step(
        tag, ResumeAction.NOTHING, sends=False, resume=False, keeps=keeps, waits=waits, text=text
    )


def _restating_step(tag: bytes, outcome: DeliveryState) -> Step:
    """Return the step for a sender that states the outcome that took effect."""
    text = "the outcome at the sender took effect: the receiver echoes it"
    return Step(tag, ResumeAction.RESTATE, state=outcome, keeps=True, text=text)


def _position_in_state(state: DeliveryState | None) -> Received:
    """Return the position in a state; for other states, the start of the payload."""
    return state if isinstance(state, Received) else _PAYLOAD_START


@attrs.frozen
class _StepChooser:
    """Chooses the step for each delivery in `resume`."""

    messages: Any
    may_send_new: bool
    receiver_incomplete: bool
    may_settle: bool

    def step_only_at_sender(self, tag: bytes, sender_state: DeliveryState | None) -> Step:
        """Return the step for a delivery that only the sender considers unsettled."""
        if self.receiver_incomplete:
            text = "the receiver listed only some of its deliveries, perhaps not this one"
            return _no_transfer_step(tag, text, keeps=True, waits=True)
        if sender_state is not None and sender_state.is_outcome:
            return _no_transfer_step(
                tag, "the sender has its outcome, and the receiver has settled"
            )
        action = self.resend_action(tag, sender_state)
        if action is ResumeAction.REPORT_LOSS:
            text = "the receiver does not list it, and the sender cannot send it from the beginning"
            return Step(tag, action, sends=False, resume=False, text=text)
        if not self.may_send_new:
            text = "the receiver does not list it; new deliveries wait for complete maps"
            return _no_transfer_step(tag, text, keeps=True, waits=True)
        return Step(
            tag,
            action,
            state=_transfer_state_of(sender_state),
            resume=False,
            more=None,
            start=_PAYLOAD_START,
            keeps=True,
            text="the receiver does not list it",
        )

    def resend_action(self, tag: bytes, sender_state: DeliveryState | None) -> ResumeAction:
        """Return NEW_DELIVERY if the message can be sent from the beginning, else REPORT_LOSS."""
        if _is_start(_position_in_state(sender_state)) or tag in self.messages:
            return ResumeAction.NEW_DELIVERY
        return ResumeAction.REPORT_LOSS

    def step_at_both(
        self, tag: bytes, sender_state: DeliveryState | None, receiver_state: DeliveryState | None
    ) -> Step:
        """Return the step for a delivery that both ends consider unsettled."""
        if sender_state is not None and sender_state.is_outcome:
            return self.step_with_outcome(tag, sender_state, receiver_state)
        if receiver_state is not None and receiver_state.is_outcome:
            return Step(
                tag,
                ResumeAction.SETTLE,
                outcome=receiver_state,
                state=receiver_state,
                settled=self.may_settle,
                text="the receiver requests this outcome: the sender applies it and settles",
            )
        if isinstance(receiver_state, TransactionalState) and receiver_state.outcome is not None:
            text = "the receiver has the whole message; its outcome depends on a transaction"
            return Step(
                tag,
                ResumeAction.RESUME,
                state=_transfer_state_of(sender_state),
                keeps=True,
                text=text,
            )
        start = _position_in_state(receiver_state)
        if not self.can_send_from(tag, _position_in_state(sender_state), start):
            return Step(
                tag,
                ResumeAction.ABORT,
                aborted=True,
                then=self.resend_action(tag, sender_state),
                text="the receiver lacks bytes that the sender can no longer send",
            )
        transaction = _transfer_state_of(sender_state)
        if transaction is not None:
            start = _PAYLOAD_START  # a transactional state cannot contain a position
        return Step(
            tag,
            ResumeAction.RESUME,
            state=transaction or (receiver_state if isinstance(receiver_state, Received) else None),
            more=None,
            start=start,
            keeps=True,
            text="the sender can send the payload from the position that the receiver needs",
        )

    def step_with_outcome(
        self, tag: bytes, sender_state: DeliveryState, receiver_state: DeliveryState | None
    ) -> Step:
        """Return the step for a delivery that both ends list, if the sender has an outcome."""
        if receiver_state is not None and _is_same_state(receiver_state, sender_state):
            text = "both ends have the same outcome"
            return Step(tag, ResumeAction.SETTLE, settled=self.may_settle, text=text)
        if receiver_state is not None and receiver_state.is_outcome:
            return _restating_step(tag, sender_state)
        if isinstance(receiver_state, TransactionalState) and receiver_state.outcome is not None:
            return _restating_step(tag, sender_state)
        text = "the sender has an outcome, and the receiver does not have the whole message"
        return Step(tag, ResumeAction.ABORT, aborted=True, text=text)

    def can_send_from(
        self, tag: bytes, sender_position: Received, receiver_position: Received
    ) -> bool:
        """Whether the sender can send from the position that the receiver needs."""
        if _position_key(sender_position) <= _position_key(receiver_position):
            return True
        # The end of a section is the same position as the start of the next section.
        if (
            _position_key(sender_position) != (receiver_position.section_number + 1, 0)
            or not isinstance(self.messages, Mapping)
            or tag not in self.messages
        ):
            return False
        message = self.messages[tag]
        return octets_before(message, sender_position) <= octets_before(message, receiver_position)


def _is_same_state(a: DeliveryState, b: DeliveryState) -> bool:
    """Whether two delivery states have the same encoding."""
    # Compare encodings: with ==, a uint may equal a boolean, and NaN does not equal NaN.
    return a is b or (type(a) is type(b) and encode_composite(a) == encode_composite(b))


def _position_key(received: Received) -> tuple[int, int]:
    """Return a position as a tuple, for comparisons."""
    return received.section_number, received.section_offset


def _is_start(received: Received) -> bool:
    """Whether a position is the start of the payload."""
    return _position_key(received) == (0, 0)


def _transfer_state_of(state: DeliveryState | None) -> TransactionalState | None:
    """Return the state for a transfer in the transaction of `state` (Part 4, 4.4.1), or None.

    None means that `state` is not transactional.
    """
    return TransactionalState(state.txn_id) if isinstance(state, TransactionalState) else None
