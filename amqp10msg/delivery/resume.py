"""What a sender does with each unsettled delivery when a link is resumed.

Part 2, 2.6.13 has the scheme, Part 3, 3.4.6 the cases: both ends state in their attach frames which
deliveries they consider unsettled and in which state, and the sender acts on both. Places in the
payload of a delivery are bytes, or section number and offset (3.4.1).
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


def _octets(message: Message | bytes | bytearray | memoryview) -> bytes:
    if isinstance(message, Message):
        return message.encode()
    octets: bytes = kernel.octets_of(message, UNLIMITED)
    return octets


def position(
    message: Message | bytes | bytearray | memoryview, byte_count: int | None = None
) -> Received:
    """Return the place in the payload after a number of bytes (Part 3, 3.4.1).

    With it a receiver that has the first bytes of a payload states what need not be sent again,
    and a sender from where on it can send again. Sections count from 0 in their order, and bytes
    of a section from 0 at its descriptor. The end of a section is the beginning of the next one,
    also after the last.

    Args:
        message: the payload, or the first bytes of one: at least byte_count of them. A `Message`
            is encoded; if it was decoded and not changed, those are the bytes it came from.
        byte_count: the number of bytes before the place, 0 to the length; all of them if None.

    Raises:
        ValueError: byte_count is negative, or more than there are.
        DecodeError: what is before the place is not a sequence of encoded values.
    """
    octets = _octets(message)
    count = len(octets) if byte_count is None else byte_count
    if not 0 <= count <= len(octets):
        raise ValueError(f"byte_count is {count}, and there are {len(octets)} bytes: 0 to that")
    number = start = 0
    while start < count:
        end = _end(octets, start)
        if end is None or end > count:
            return Received(number, count - start)
        number, start = number + 1, end
    return Received(number, 0)


def octets_before(message: Message | bytes | bytearray | memoryview, received: Received) -> int:
    """Return the number of bytes of the payload before a place: the inverse of `position`.

    ``Received(1, 0)`` and ``Received(0, n)``, where section 0 has n bytes, are the same place.

    Args:
        message: the payload, or the first bytes of one, up to the place at least; a `Message` is
            encoded.
        received: the place, as either end states it.

    Raises:
        DecodeError: there is no such place: the section has fewer bytes or there are fewer
            sections (condition ``amqp:invalid-field``), or the payload does not parse.
    """
    expect(received, Received, "the place of octets_before", "a Received")
    octets = _octets(message)
    number = start = 0
    if not _is_place(received):
        # As a lenient decoding leaves it.
        raise _no_such_place("a place is two numbers", received, 0, octets)
    while number < received.section_number and start < len(octets):
        end = _end(octets, start)
        if end is None:
            break
        number, start = number + 1, end
    if number == received.section_number:
        end = (_end(octets, start) or len(octets)) if start < len(octets) else start
        if received.section_offset <= end - start:
            return start + received.section_offset
        reason = f"section {number} has {_octets_of(end - start)}"
        if end == start:
            reason = _sections_of(number)
    else:
        reason = _sections_of(number)
    raise _no_such_place(reason, received, start, octets)


def _is_place(received: Received) -> bool:
    return _is_count(received.section_number) and _is_count(received.section_offset)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _no_such_place(reason: str, received: Received, start: int, octets: bytes) -> DecodeError:
    return DecodeError(
        f"{reason}, so that {received!r} is not a place in the payload",
        start,
        rule="no-such-place",
        condition=INVALID_FIELD,
        path="received",
        data=octets,
    )


def bytes_from(message: Message | bytes | bytearray | memoryview, received: Received) -> bytes:
    """Return the bytes of the payload from a place on: what a resumed delivery sends.

    Args:
        message: the whole payload, or a `Message`, which is encoded.
        received: where to begin, in either form at the end of a section.

    Raises:
        DecodeError: there is no such place, or the payload does not parse.
    """
    expect(received, Received, "the place of bytes_from", "a Received")
    octets = _octets(message)
    return octets[octets_before(octets, received) :]


def _octets_of(count: int) -> str:
    return "1 byte" if count == 1 else f"{count} bytes"


def _sections_of(count: int) -> str:
    return "there is 1 section" if count == 1 else f"there are {count} sections"


def _end(octets: bytes, start: int) -> int | None:
    """Return the end of a section; None if the bytes at hand end before it."""
    try:
        end: int = kernel.skip_value(octets, start)
    except DecodeError as error:
        if error.rule == "truncated":
            return None
        raise
    return end


_START = Received(0, 0)
_MAX_TAG = 32  # Part 2, 2.8.7


class ResumeAction(StrEnum):
    """What the sender does with one delivery (Part 3, 3.4.6)."""

    #: Send the message again, as a delivery of its own.
    NEW_DELIVERY = "new-delivery"
    #: Go on with the delivery from a place in the payload.
    RESUME = "resume"
    #: Apply the receiver's outcome if the sender has none yet, and settle.
    SETTLE = "settle"
    #: State the outcome that took effect, which is not the one the receiver asked for.
    RESTATE = "restate"
    #: Give the delivery up.
    ABORT = "abort"
    #: Report to the application that the message may be lost.
    REPORT_LOSS = "report-loss"
    #: Send nothing.
    NOTHING = "nothing"


@attrs.frozen
class Step:
    """What the sender does with one delivery, and the transfer that it sends.

    Attributes:
        delivery_tag: which delivery.
        action: what to do.
        outcome: the outcome to apply at the source before the transfer is sent, or None.
        sends: whether a transfer is sent. The next five are its fields, of its first frame if the
            payload needs several.
        state: its state, None for null.
        settled: its field settled.
        resume: its field resume.
        aborted: its field aborted.
        more: whether more frames follow: False without a payload, None if its size decides.
        start: where the payload begins, as `bytes_from` takes it; None if there is none.
        then: what to do next: after an abort ``NEW_DELIVERY``, as soon as `Plan.may_send_new`, or
            ``REPORT_LOSS`` if the message cannot be sent again; else ``NOTHING``.
        keeps: whether the sender still considers the delivery unsettled. If not, it forgets the
            tag: once the transfer is sent, or at once if there is none.
        waits: whether incomplete maps leave the decision open: ask again after the next attach.
        text: why.
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

        The sender states the outcome that it applied instead, and the receiver echoes that and
        settles.

        Args:
            outcome: the outcome that took effect.

        Raises:
            ValueError: the step applies no outcome, or `outcome` is a state that is not an outcome.
            TypeError: `outcome` is not a delivery state.
        """
        expect(outcome, DeliveryState, "not_applied", "an outcome")
        if self.outcome is None or not outcome.is_outcome:
            raise ValueError(
                f"takes an outcome instead of another one, not {outcome!r} instead of "
                f"{self.outcome!r}"
            )
        return _restated(self.delivery_tag, outcome)


@attrs.frozen
class Plan(Mapping[bytes, Step]):
    """The steps for all deliveries that either end considers unsettled, by delivery-tag.

    A mapping in the order to send in: that of the sender's map, then that of the receiver's.

    Attributes:
        steps: the steps by delivery-tag.
        may_send_new: whether both maps were complete, so that the sender may send new deliveries.
            If not, the two ends detach and attach again until they are (Part 2, 2.6.13).
        settled_by_sender: deliveries that the receiver must now consider settled, since only its
            own map has them (Part 2, 2.6.13). Empty if the sender's map is not complete.
        held_at_receiver: deliveries for which the receiver must ask no outcome until the sender's
            transfer has come, because the sender may abort and forget them. If the connection is
            lost before that, keep them until the next resume, which decides again: an outcome in
            between would come too late, and the message could take effect twice.
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
    """Decide what to do with every unsettled delivery (Part 2, 2.6.13; Part 3, 3.4.6).

    Both ends use the same call: the sender carries out the steps, the receiver obeys
    `Plan.settled_by_sender` and `Plan.held_at_receiver`.

    Args:
        sender_unsettled: the sender's unsettled map: delivery-tags, and the state of each at the
            sender: null (None), from where on it can send (`Received`), or the outcome that it
            reached. Described values, as an attach frame holds them, are decoded. None for an
            empty map.
        receiver_unsettled: the receiver's, likewise: null, from where on it wants the payload
            (`Received`), or the outcome that it asks for. Each end passes its own map whole, also
            if it sent an incomplete one.
        messages: those that the sender can still send from the beginning, by delivery-tag. A
            delivery that can be resumed from the beginning need not be here. Pass a mapping if
            you can: then places are compared in the payload, where the end of a section is the
            beginning of the next. Messages are looked up only if needed.
        sender_incomplete: the sender's attach says incomplete-unsettled.
        receiver_incomplete: the receiver's does.
        may_settle: False where the link's snd-settle-mode is unsettled: its transfers must not be
            settled (Part 2, 2.7.5), so the sender settles by a disposition right after.

    Raises:
        EncodeError: the sender's map has a key that is not a delivery-tag (binary, up to 32 bytes),
            or a value that is not a delivery state.
        DecodeError: the receiver's map has such a key or value; a described value in either map is
            not a known delivery state; or a place was looked up in the payload, and is not in it.
    """
    for unsettled in (sender_unsettled, receiver_unsettled):
        expect(unsettled, (Mapping, NoneType), "an unsettled map of resume", "a mapping or None")
    ours = _states(sender_unsettled, "sender")
    theirs = _states(receiver_unsettled, "receiver")
    may_send_new = not (sender_incomplete or receiver_incomplete)
    decide = _Decision(messages, may_send_new, receiver_incomplete, may_settle)
    steps = {
        tag: decide.both(tag, state, theirs[tag]) if tag in theirs else decide.alone(tag, state)
        for tag, state in ours.items()
    }
    only_theirs = tuple(tag for tag in theirs if tag not in ours)
    for tag in only_theirs:
        steps[tag] = _nothing(tag, "the sender settled it, and the receiver now does")
        if sender_incomplete:
            steps[tag] = _nothing(tag, "not among the deliveries the sender listed", waits=True)
    held = tuple(
        tag
        for tag, state in theirs.items()
        if (state is None or not state.is_outcome)
        and (steps[tag].action is ResumeAction.ABORT or steps[tag].waits)
    )
    return Plan(steps, may_send_new, () if sender_incomplete else only_theirs, held)


def _states(unsettled: Mapping[bytes, Any] | None, end: str) -> dict[bytes, DeliveryState | None]:
    states: dict[bytes, DeliveryState | None] = {}
    given: Mapping[Any, Any] = unsettled or {}
    for tag, held in given.items():
        if not isinstance(tag, bytes) or len(tag) > _MAX_TAG:
            raise _fault(
                f"a delivery-tag must be binary of up to {_MAX_TAG} bytes, not {tag!r:.80}", end
            )
        state = from_described(held) if isinstance(held, Described) else held
        if isinstance(state, Received) and not _is_place(state):
            raise _fault(
                f"delivery {tag.hex()} has a place that is not two numbers: {state!r}", end
            )
        if state is not None and not isinstance(state, DeliveryState):
            raise _fault(
                f"the state of delivery {tag.hex()} must be a delivery state, not {held!r:.80}", end
            )
        states[tag] = state
    return states


def _fault(reason: str, end: str) -> EncodeError | DecodeError:
    path = f"unsettled of the {end}"
    if end == "sender":
        return EncodeError(reason, path)
    return DecodeError(reason, 0, rule="not-unsettled", condition=INVALID_FIELD, path=path)


def _nothing(tag: bytes, text: str, *, keeps: bool = False, waits: bool = False) -> Step:
    return Step(
        tag, ResumeAction.NOTHING, sends=False, resume=False, keeps=keeps, waits=waits, text=text
    )


def _restated(tag: bytes, outcome: DeliveryState) -> Step:
    text = "the outcome at the sender is the one that took effect: the receiver echoes it"
    return Step(tag, ResumeAction.RESTATE, state=outcome, keeps=True, text=text)


def _place(state: DeliveryState | None) -> Received:
    """Return the place that a state other than an outcome stands for."""
    return state if isinstance(state, Received) else _START


@attrs.frozen
class _Decision:
    messages: Any
    may_send_new: bool
    receiver_incomplete: bool
    may_settle: bool

    def alone(self, tag: bytes, ours: DeliveryState | None) -> Step:
        """Decide on a delivery that only the sender considers unsettled."""
        if self.receiver_incomplete:
            text = "the receiver listed only some of its deliveries, perhaps not this one"
            return _nothing(tag, text, keeps=True, waits=True)
        if ours is not None and ours.is_outcome:
            return _nothing(tag, "the sender has its outcome, and the receiver has settled")
        again = self.again(tag, ours)
        if again is ResumeAction.REPORT_LOSS:
            text = "the receiver does not know it, and the sender cannot send it from the beginning"
            return Step(tag, again, sends=False, resume=False, text=text)
        if not self.may_send_new:
            text = "the receiver does not know it; new deliveries wait for complete maps"
            return _nothing(tag, text, keeps=True, waits=True)
        return Step(
            tag,
            again,
            state=_transaction_of(ours),
            resume=False,
            more=None,
            start=_START,
            keeps=True,
            text="the receiver does not know it",
        )

    def again(self, tag: bytes, ours: DeliveryState | None) -> ResumeAction:
        """Return the action if the sender must send the message from the beginning."""
        if _is_start(_place(ours)) or tag in self.messages:
            return ResumeAction.NEW_DELIVERY
        return ResumeAction.REPORT_LOSS

    def both(self, tag: bytes, ours: DeliveryState | None, theirs: DeliveryState | None) -> Step:
        """Decide on a delivery that both ends consider unsettled."""
        if ours is not None and ours.is_outcome:
            return self.decided(tag, ours, theirs)
        if theirs is not None and theirs.is_outcome:
            return Step(
                tag,
                ResumeAction.SETTLE,
                outcome=theirs,
                state=theirs,
                settled=self.may_settle,
                text="the receiver asks for this outcome: the sender applies it and settles",
            )
        if isinstance(theirs, TransactionalState) and theirs.outcome is not None:
            text = "the receiver has all of it, and its outcome depends on a transaction"
            return Step(
                tag, ResumeAction.RESUME, state=_transaction_of(ours), keeps=True, text=text
            )
        start = _place(theirs)
        if not self.reaches(tag, _place(ours), start):
            return Step(
                tag,
                ResumeAction.ABORT,
                aborted=True,
                then=self.again(tag, ours),
                text="the receiver lacks bytes that the sender cannot send any more",
            )
        transaction = _transaction_of(ours)
        if transaction is not None:
            start = _START  # the state has no room for another place
        return Step(
            tag,
            ResumeAction.RESUME,
            state=transaction or (theirs if isinstance(theirs, Received) else None),
            more=None,
            start=start,
            keeps=True,
            text="the receiver has not all of it, and the sender can send what is missing",
        )

    def decided(self, tag: bytes, ours: DeliveryState, theirs: DeliveryState | None) -> Step:
        """Decide on a delivery whose outcome the sender has."""
        if theirs is not None and _is_same(theirs, ours):
            text = "both ends have the same outcome"
            return Step(tag, ResumeAction.SETTLE, settled=self.may_settle, text=text)
        if theirs is not None and theirs.is_outcome:
            return _restated(tag, ours)
        if isinstance(theirs, TransactionalState) and theirs.outcome is not None:
            return _restated(tag, ours)
        text = "the sender reached its outcome by itself, and the receiver has not all of it"
        return Step(tag, ResumeAction.ABORT, aborted=True, text=text)

    def reaches(self, tag: bytes, ours: Received, theirs: Received) -> bool:
        """Whether the sender can send from the place on that the receiver wants."""
        if _pair(ours) <= _pair(theirs):
            return True
        # Only the end of a section has two names: the other one is the start of the next section.
        if (
            _pair(ours) != (theirs.section_number + 1, 0)
            or not isinstance(self.messages, Mapping)
            or tag not in self.messages
        ):
            return False
        message = self.messages[tag]
        return octets_before(message, ours) <= octets_before(message, theirs)


def _is_same(a: DeliveryState, b: DeliveryState) -> bool:
    # By their bytes: with == a uint may equal a boolean, and a NaN does not equal itself.
    return a is b or (type(a) is type(b) and encode_composite(a) == encode_composite(b))


def _pair(place: Received) -> tuple[int, int]:
    return place.section_number, place.section_offset


def _is_start(place: Received) -> bool:
    return _pair(place) == (0, 0)


def _transaction_of(state: DeliveryState | None) -> TransactionalState | None:
    """Return the state that names the transaction of a transfer (Part 4, 4.4.1)."""
    return TransactionalState(state.txn_id) if isinstance(state, TransactionalState) else None
