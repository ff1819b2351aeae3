"""A link that is cut at any moment, resumed by the library, and cut again.

Two ends of a link in one process: frames wait in a queue for each direction, a cut loses all that
wait. Both ends survive it with what they had, attach again with their unsettled maps, in bytes,
and the sender does what `amqp10msg.delivery.resume` says. The settlement is that of exactly-once
(Part 2, 2.6.12): the receiver asks for an outcome, the sender applies it and settles, the receiver
settles.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from random import Random
from typing import Any

import attrs

from amqp10msg import Data, Message, Properties, decode_value, encode_value
from amqp10msg.delivery import (
    Accepted,
    DeliveryState,
    MessageState,
    Plan,
    Received,
    Rejected,
    Released,
    ResumeAction,
    Step,
    apply,
    bytes_from,
    octets_before,
    position,
    resume,
)

OUTCOMES: list[DeliveryState] = [Accepted(), Accepted(), Accepted(), Rejected(), Released()]
FINAL = (Accepted, Rejected)
CUTS = 6
MESSAGES = 4


@attrs.define
class Transfer:
    """A transfer frame; ``state`` stands for one sent right before it, as Part 2, 2.7.5 has it."""

    tag: bytes
    payload: bytes = b""
    state: DeliveryState | None = None
    settled: bool = False
    resume: bool = False
    aborted: bool = False
    more: bool = False


@attrs.define
class Disposition:
    tag: bytes
    state: DeliveryState | None
    settled: bool


@attrs.define
class Outgoing:
    """A delivery that the sender considers unsettled."""

    name: str
    state: DeliveryState | None = None
    #: All is sent, on this link or before.
    sent: bool = False


@attrs.define
class Incoming:
    """A delivery that the receiver considers unsettled."""

    octets: bytearray = attrs.Factory(bytearray)
    complete: bool = False
    outcome: DeliveryState | None = None
    #: Bytes that it said it need not have again.
    confirmed: int = 0
    #: Where the payload of the next frame belongs.
    at: int = 0
    #: No outcome is asked for until the sender's transfer has come.
    held: bool = False


def payload_of(number: int, random: Random) -> bytes:
    body = [Data(bytes([number]) * random.randrange(8)) for _ in range(1 + random.randrange(3))]
    return Message(body, properties=Properties(message_id=number)).encode()


class Link:
    """One link with its two ends.

    Attributes:
        payloads: what is to be sent, by name.
        archived: the outcome that took effect at the source, by name.
        effects: the outcome that took effect at the target, by name.
        lost: what the sender reported as possibly lost.
        seen: the actions of the plans that were carried out.
    """

    def __init__(
        self,
        random: Random,
        *,
        discards: bool = False,
        retains: bool = True,
        forgets: bool = False,
        incomplete: bool = False,
        spontaneous: bool = False,
    ) -> None:
        self.random = random
        self.discards = discards
        self.retains = retains
        self.forgets = forgets
        self.incomplete = incomplete
        self.spontaneous = spontaneous
        self.payloads = {str(n): payload_of(n, random) for n in range(MESSAGES)}
        self.available = deque(self.payloads)
        self.archived: dict[str, DeliveryState] = {}
        self.effects: dict[str, DeliveryState] = {}
        self.lost: list[str] = []
        self.seen: set[ResumeAction] = set()
        self.outgoing: dict[bytes, Outgoing] = {}
        self.incoming: dict[bytes, Incoming] = {}
        self.tags = 0
        self.cuts = 0
        self.attach()

    # Attaching.

    def attach(self) -> None:
        self.to_receiver: deque[Transfer | Disposition] = deque()
        self.to_sender: deque[Disposition] = deque()
        self.sending: deque[Transfer] = deque()
        self.current: bytes | None = None
        for entry in self.incoming.values():
            # What an end does not promise to keep, it may have lost with the connection.
            if entry.outcome is None and self.random.randrange(2):
                kept = self.random.randrange(entry.confirmed, len(entry.octets) + 1)
                del entry.octets[kept:]
                entry.complete = False
        if self.forgets:
            for tag in [t for t, entry in self.incoming.items() if entry.outcome is None]:
                if self.random.randrange(2):
                    del self.incoming[tag]
        ours = {tag: entry.state for tag, entry in self.outgoing.items()}
        theirs = {tag: self.wanted(entry) for tag, entry in self.incoming.items()}
        listed, sender_incomplete = self.listing(ours)
        shown, receiver_incomplete = self.listing(theirs)
        decide = partial(
            resume, sender_incomplete=sender_incomplete, receiver_incomplete=receiver_incomplete
        )
        messages: dict[bytes, bytes] = {}
        if self.retains:
            messages = {tag: self.payloads[e.name] for tag, e in self.outgoing.items()}
        plan = decide(ours, shown, messages=messages)
        self.may_send_new = plan.may_send_new
        # The receiver decides by itself, from what came over the wire.
        known = decide(listed, theirs)
        for tag in known.settled_by_sender:
            self.settle_incoming(tag)
        for tag, entry in self.incoming.items():
            entry.held = tag in known.held_at_receiver
        self.carry_out(plan)

    def wanted(self, entry: Incoming) -> DeliveryState | None:
        if entry.outcome is not None:
            return entry.outcome
        if not entry.octets and self.random.randrange(2):
            return None
        # Either form of the same place.
        place = position(bytes(entry.octets))
        if place.section_offset == 0 and place.section_number and self.random.randrange(2):
            number = place.section_number - 1
            before = octets_before(bytes(entry.octets), Received(number, 0))
            return Received(number, len(entry.octets) - before)
        return place

    def listing(self, states: dict[bytes, Any]) -> tuple[dict[bytes, Any], bool]:
        """Give the map as it arrives, and whether it is incomplete."""
        some = list(states.items())
        if self.incomplete and self.cuts < CUTS and self.random.randrange(2):
            some = [item for item in some if self.random.randrange(2)]
        found: dict[bytes, Any] = decode_value(encode_value(dict(some)))
        return found, len(some) < len(states)

    def carry_out(self, plan: Plan) -> None:
        for tag, step in plan.items():
            self.seen |= {step.action, step.then}
            entry = self.outgoing.get(tag)
            if entry is None:
                assert not step.sends
                continue
            if step.outcome is not None:
                entry.state = step.outcome
                self.take_effect(entry)
            name = entry.name
            if not step.keeps:
                del self.outgoing[tag]
            for action in (step.action, step.then):
                if action is ResumeAction.REPORT_LOSS:
                    self.lost.append(name)
            if step.then is ResumeAction.NEW_DELIVERY:
                self.available.append(name)
            if step.action is ResumeAction.NEW_DELIVERY:
                entry.state = None
            if step.sends:
                self.sending.extend(self.frames(step, entry))

    def frames(self, step: Step, entry: Outgoing) -> list[Transfer]:
        payload = b""
        if step.start is not None:
            payload = bytes_from(self.payloads[entry.name], step.start)
            mine = entry.state if isinstance(entry.state, Received) else Received(0, 0)
            whole = self.payloads[entry.name]
            assert octets_before(whole, mine) <= octets_before(whole, step.start)
            entry.sent = False
        first = Transfer(
            step.delivery_tag, b"", step.state, step.settled, step.resume, step.aborted
        )
        return self.cut_up(first, payload)

    def cut_up(self, first: Transfer, payload: bytes) -> list[Transfer]:
        """Spread a payload over frames."""
        frames = [first]
        while payload:
            size = 1 + self.random.randrange(12)
            if frames[-1].payload:
                frames[-1].more = True
                frames.append(Transfer(first.tag))
            frames[-1].payload, payload = payload[:size], payload[size:]
        return frames

    # The sender.

    def send(self) -> bool:
        if not self.sending:
            if not self.may_send_new or not self.available:
                return False
            name = self.available.popleft()
            self.tags += 1
            tag = self.tags.to_bytes(2, "big")
            self.outgoing[tag] = Outgoing(name)
            self.sending.extend(self.cut_up(Transfer(tag), self.payloads[name]))
        frame = self.sending.popleft()
        entry = self.outgoing.get(frame.tag)
        self.current = frame.tag if frame.more else None
        if entry is not None:
            if frame.more and entry.state is not None and entry.state.is_outcome:
                # It reached an outcome by itself: there is no sense in going on.
                frame = Transfer(frame.tag, aborted=True)
                self.drop_frames(frame.tag)
                del self.outgoing[frame.tag]
                self.current = None
            elif not frame.more:
                entry.sent = True
        self.to_receiver.append(frame)
        return True

    def drop_frames(self, tag: bytes) -> None:
        self.sending = deque(frame for frame in self.sending if frame.tag != tag)

    def release(self) -> bool:
        """Let a delivery reach an outcome by itself, such as after a time-bound lock."""
        if not self.spontaneous or self.cuts >= CUTS:
            return False
        tags = [tag for tag, entry in self.outgoing.items() if entry.state is None]
        if not tags:
            return False
        tag = self.random.choice(tags)
        entry = self.outgoing[tag]
        if not entry.sent and tag != self.current:
            return False
        entry.state = Released()
        self.take_effect(entry)
        if entry.sent:
            self.to_receiver.append(Disposition(tag, entry.state, settled=False))
        return True

    def hear(self) -> bool:
        """Let the sender take a disposition."""
        if not self.to_sender:
            return False
        frame = self.to_sender.popleft()
        entry = self.outgoing.get(frame.tag)
        if entry is None:
            return True
        ours = entry.state
        decided = ours is not None and ours.is_outcome
        if frame.settled:
            del self.outgoing[frame.tag]
        elif isinstance(frame.state, Received) and not decided:
            if self.discards:
                whole = self.payloads[entry.name]
                held = ours if isinstance(ours, Received) else Received(0, 0)
                if octets_before(whole, held) < octets_before(whole, frame.state):
                    entry.state = frame.state
        elif frame.state is not None and frame.state.is_outcome and not decided:
            entry.state = frame.state
            self.take_effect(entry)
            del self.outgoing[frame.tag]
            self.to_receiver.append(Disposition(frame.tag, frame.state, settled=True))
        return True

    def take_effect(self, entry: Outgoing) -> None:
        assert entry.state is not None
        state, _ = apply(entry.state, Message.decode(self.payloads[entry.name]))
        if state is MessageState.AVAILABLE:
            self.available.append(entry.name)
        else:
            assert entry.name not in self.archived, "two outcomes at the source"
            self.archived[entry.name] = entry.state

    # The receiver.

    def receive(self) -> bool:
        if not self.to_receiver:
            return False
        frame = self.to_receiver.popleft()
        if isinstance(frame, Disposition):
            self.told(frame.tag, frame.state, frame.settled)
        elif frame.resume and frame.tag not in self.incoming:
            pass  # "The receiver MUST ignore resumed deliveries that are not in its map."
        elif frame.aborted:
            self.incoming.pop(frame.tag, None)
        else:
            self.take(frame)
        return True

    def take(self, frame: Transfer) -> None:
        entry = self.incoming.get(frame.tag)
        if entry is None:
            entry = self.incoming[frame.tag] = Incoming()
        elif frame.resume:
            place = frame.state if isinstance(frame.state, Received) else Received(0, 0)
            entry.at = octets_before(bytes(entry.octets), place)
        assert entry.outcome is None or not frame.payload, "what was processed is sent again"
        assert entry.at <= len(entry.octets), "octets are missing"
        # "The receiver MUST ignore all data up to the first position not previously received."
        known = len(entry.octets) - entry.at
        overlap = frame.payload[:known]
        assert overlap == bytes(entry.octets[entry.at : entry.at + len(overlap)])
        entry.octets += frame.payload[known:]
        entry.at += len(frame.payload)
        entry.held = False
        if entry.outcome is None:
            entry.complete = not frame.more
        self.told(frame.tag, frame.state, frame.settled)

    def told(self, tag: bytes, state: DeliveryState | None, settled: bool) -> None:
        """Take what the sender says of the state."""
        entry = self.incoming.get(tag)
        if entry is None:
            return
        if state is not None and state.is_outcome:
            echo = not settled
            entry.outcome = state
            self.settle_incoming(tag)
            if echo:
                self.to_sender.append(Disposition(tag, state, settled=True))
        elif settled:
            self.settle_incoming(tag)

    def settle_incoming(self, tag: bytes) -> None:
        """Forget a delivery; the outcome that it has is the one that took effect."""
        entry = self.incoming.pop(tag)
        if isinstance(entry.outcome, FINAL):
            name = str(Message.decode(bytes(entry.octets)).properties.message_id)  # type: ignore[union-attr]
            assert bytes(entry.octets) == self.payloads[name]
            assert name not in self.effects, "it takes effect twice"
            self.effects[name] = entry.outcome

    def process(self) -> bool:
        """Let the application at the receiver ask for an outcome, or confirm what arrived."""
        for tag, entry in self.incoming.items():
            if entry.held:
                continue
            if entry.outcome is None and entry.complete:
                entry.outcome = self.random.choice(OUTCOMES)
                self.to_sender.append(Disposition(tag, entry.outcome, settled=False))
                return True
            if entry.outcome is None and entry.confirmed < len(entry.octets):
                entry.confirmed = len(entry.octets)
                place = position(bytes(entry.octets))
                self.to_sender.append(Disposition(tag, place, settled=False))
                return True
        return False

    # Both.

    def run(self) -> None:
        """Run, cut now and then, until nothing is left to do on a link with complete maps."""
        for _ in range(3_000):
            if self.cuts < CUTS and not self.random.randrange(12):
                self.cuts += 1
                self.attach()
                continue
            ends = [self.send, self.receive, self.hear, self.process, self.release]
            start = self.random.randrange(len(ends))
            if not any(end() for end in ends[start:] + ends[:start]):
                if not (self.available or self.outgoing or self.incoming):
                    return
                assert self.cuts < CUTS or not self.may_send_new, "it is stuck"
                self.cuts += 1
                self.attach()
        raise AssertionError("it never ends")
