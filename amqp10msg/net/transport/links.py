"""Links and their deliveries (Part 2, 2.6)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import attrs

from amqp10msg.composite import Error
from amqp10msg.net.transport.performatives import (
    Attach,
    Detach,
    ReceiverSettleMode,
    SenderSettleMode,
    Transfer,
)
from amqp10msg.wire.kernel import encode_value
from amqp10msg.wire.primitives import Symbol

#: A property of a link's state: how many messages of its source other links hold unsettled, a
#: ulong. This library's server tells it beside what is available.
ACQUIRED_BY_OTHERS = Symbol("amqp10msg:acquired-by-others")

if TYPE_CHECKING:
    from amqp10msg.net.transport.sessions import Session

#: Sequence numbers are of 32 bits (Part 2, 2.8.10).
MASK = 0xFFFFFFFF
#: Bytes of a transfer's performative at most, but for its state.
_TRANSFER = 80


class LinkFaultError(Exception):
    """The peer broke a rule of a link, which is closed with the error."""

    def __init__(self, condition: str, description: str) -> None:
        super().__init__(description)
        self.error = Error(condition, description)


class Sink(Protocol):
    """Takes the bytes of a message, as a `bytearray` does."""

    def __len__(self) -> int:
        """Return how many there are."""

    def extend(self, octets: bytes | bytearray, /) -> None:
        """Add bytes at the end."""


@attrs.define(eq=False, weakref_slot=False)
class Delivery:
    """The transfer of one message over a link (Part 2, 2.6.12).

    Attributes:
        link: the link.
        number: the delivery-id.
        tag: the delivery-tag.
        resumed: whether the sender goes on with one of a link that was lost (Part 2, 2.7.5).
        message_format: of the message, 0 to 2^32 - 1.
        settled: whether the peer has settled it.
        state: the state at the peer, an object of `amqp10msg.delivery` or a `Described` of an
            unknown one; None if there is none.
        payload: the message that was received; None until it is complete.
        large: what `Link.overflow` gave for its bytes, where they were too many.
        aborted: whether the sender gave it up.
        done: whether this end has settled it.
        context: whatever its user keeps with it.
    """

    link: Link
    number: int
    tag: bytes
    message_format: int = 0
    settled: bool = False
    resumed: bool = False
    state: Any = None
    payload: bytes | None = None
    large: Sink | None = None
    aborted: bool = False
    done: bool = False
    context: Any = None
    # Not a list of parts: small ones would cost memory that no size accounts for.
    _parts: bytearray | Sink | None = attrs.field(default=None, repr=False)

    def update(self, state: Any, *, settled: bool = True) -> None:
        """Tell the peer the state at this end, and whether it is settled here.

        Nothing is sent where this end has settled it before, where the peer has settled it, or
        where the link is detached.
        """
        if self.done:
            return
        self.done = settled
        link = self.link
        if not self.settled and link.is_open:
            link.session.tell(link.sends, self.number, settled, state)
        if settled:
            link.session.forget(self)


class Link:
    """One end of a link.

    Attributes:
        session: its session.
        name: its name.
        sends: whether this end is the sender.
        remote: the peer's attach; None before it came.
        credit: how many messages may be sent now; as a receiver, how many the peer may send.
        drain: whether the credit is to be used up; the receiver wants that.
        available: messages that wait for credit at the sender, None where nobody said; a sender
            sets it to tell its peer, whose `ask` it answers.
        properties: the properties of the link's state that a sender tells with each flow, and that
            a receiver was told last (Part 2, 2.7.4).
        snd_settle_mode: as attached; what the peer asked for before.
        rcv_settle_mode: likewise.
        max_message_size: of what is received, in bytes; 0 for no bound. A message of more ends the
            link, unless there is an `overflow`.
        overflow: is called for what takes the bytes of a message of more than `max_message_size`,
            whose payload is empty then.
        excess: deliveries beyond the credit are taken while fewer than so many are unsettled; 0 to
            end the link. RabbitMQ 3 takes each flow for new credit, whatever is on its way.
        context: whatever its user keeps with it.
    """

    __slots__ = (
        "_count",
        "_partial",
        "_revoked",
        "attached",
        "available",
        "context",
        "credit",
        "detached",
        "drain",
        "excess",
        "handle",
        "max_message_size",
        "name",
        "overflow",
        "properties",
        "rcv_settle_mode",
        "remote",
        "remote_handle",
        "sends",
        "session",
        "snd_settle_mode",
    )

    def __init__(self, session: Session, name: str, handle: int, *, sends: bool) -> None:
        self.session = session
        self.name = name
        self.handle = handle
        self.sends = sends
        self.remote: Attach | None = None
        self.remote_handle: int | None = None
        self.credit = 0
        self.drain = False
        self.available: int | None = None
        self.properties: dict[str, Any] | None = None
        self.snd_settle_mode = SenderSettleMode.MIXED
        self.rcv_settle_mode = ReceiverSettleMode.FIRST
        self.max_message_size = 0
        self.excess = 0
        self.overflow: Callable[[], Sink] | None = None
        self.attached = False
        self.detached = False
        self.context: Any = None
        self._count = 0  # delivery-count
        self._partial: Delivery | None = None
        self._revoked = 0  # credit that was taken back, which the peer may not know yet

    def __repr__(self) -> str:
        return f"<{'sending' if self.sends else 'receiving'} link {self.name!r}>"

    @property
    def is_open(self) -> bool:
        """Whether this end is attached."""
        return self.attached and not self.detached and not self.session.ended

    @property
    def is_partial(self) -> bool:
        """Whether a delivery has begun to come that is not complete yet."""
        return self._partial is not None

    # What this end does.

    def attach(self, *, source: Any, target: Any, **fields: Any) -> None:
        """Attach this end.

        Args:
            source: a `Source`, or None.
            target: a `Target`, a `Coordinator`, or None.
            fields: other fields of `Attach`, such as ``properties``.
        """
        self.attached = True
        self.session.write(
            Attach(
                name=self.name,
                handle=self.handle,
                role=not self.sends,
                snd_settle_mode=self.snd_settle_mode,
                rcv_settle_mode=self.rcv_settle_mode,
                source=source,
                target=target,
                initial_delivery_count=self._count if self.sends else None,
                max_message_size=self.max_message_size or None,
                **fields,
            )
        )

    def refuse(self, error: Error) -> None:
        """Answer an attach with one that has no terminus, and an error (Part 2, 2.6.3)."""
        self.attach(source=None, target=None)
        self.detach(error)

    def detach(self, error: Error | None = None, *, closed: bool = True) -> None:
        """Detach this end, or close it; twice does nothing."""
        if self.is_open:
            self.session.write(Detach(handle=self.handle, closed=closed, error=error))
            self.detached = True
            self.session.drop(self)

    def grant(self, credit: int) -> None:
        """Let the peer send this many more messages."""
        if self.is_open and credit > 0:
            self.drain = False
            self.credit += credit
            self.session.write_flow(self)

    def revoke(self) -> None:
        """Take the credit back: what comes still was on its way (Part 2, 2.6.7)."""
        if self.is_open and self.credit > 0:
            self._revoked += self.credit
            self.credit = 0
            self.session.write_flow(self)

    def ask(self) -> None:
        """Ask the peer for the state of its end: `Handler.on_flow` tells (Part 2, 2.7.4, echo)."""
        if self.is_open:
            self.session.write_flow(self, echo=True)

    def exhaust(self) -> None:
        """Ask the peer to use the credit up, with what it has, and to say so (Part 2, 2.6.7).

        The credit is then 0, and stays so until some is granted. A peer that had messages has sent
        them before it says so.
        """
        if self.is_open:
            self.drain = True
            self.session.write_flow(self, echo=True)

    def drained(self) -> None:
        """Use up the credit, because the peer asked for that and there are no messages."""
        if self.is_open and self.drain:
            self._count = (self._count + self.credit) & MASK
            self.credit = 0
            self.session.write_flow(self)

    def send(
        self,
        tag: bytes,
        message: bytes,
        *,
        settled: bool = False,
        message_format: int = 0,
        state: Any = None,
        resume: bool = False,
    ) -> Delivery:
        """Send a message, in as many frames as it needs; it uses up one credit.

        Frames that exceed the session's window wait: see `Session.blocked`.

        Args:
            tag: the delivery-tag, at most 32 bytes.
            message: its bytes.
            settled: whether it is settled at this end.
            message_format: 0 to 2^32 - 1.
            state: of the delivery, such as a `TransactionalState`.
            resume: go on with a delivery of a link that was lost (Part 2, 2.6.13).
        """
        session = self.session
        delivery = Delivery(self, session.next_delivery(), tag, message_format, done=settled)
        self.credit -= 1
        self._count = (self._count + 1) & MASK
        if not settled:
            session.outgoing[delivery.number] = delivery
        transfer = Transfer(
            self.handle, delivery.number, tag, message_format, settled, False, None, state, resume
        )
        head = encode_value(transfer)
        room = session.connection.room
        if len(head) + len(message) <= room:
            session.write_transfer(self, head + message)
            return delivery
        transfer.more = True
        head = encode_value(transfer)
        position = room - len(head)
        session.write_transfer(self, head + message[:position])
        while position < len(message):
            end = position + room - _TRANSFER
            head = encode_value(Transfer(self.handle, more=end < len(message)))
            session.write_transfer(self, head + message[position:end])
            position = end
        return delivery

    # What the peer does.

    def on_attach(self, attach: Attach) -> None:
        """Take the peer's attach."""
        self.remote = attach
        self.remote_handle = attach.handle
        self.snd_settle_mode = attach.snd_settle_mode
        self.rcv_settle_mode = attach.rcv_settle_mode
        if not self.sends:
            self._count = attach.initial_delivery_count or 0

    def on_flow(self, count: int | None, credit: int | None, drain: bool) -> None:
        """Take the state of the peer's end (Part 2, 2.6.7)."""
        if self.sends:
            if credit is not None:
                sent = (self._count - (count or 0)) & MASK
                self.credit = max(credit - sent, 0) if sent <= MASK >> 1 else credit
            self.drain = drain
        elif count is not None:
            # The sender used credit up without sending.
            used = (count - self._count) & MASK
            self.credit = max(self.credit - used, min(self.credit, 0))
            self._count = count

    def on_transfer(self, transfer: Transfer, payload: bytes) -> Delivery | None:
        """Take a frame of a delivery, and return the delivery if it is complete or aborted.

        Raises:
            LinkFaultError: the frame breaks a rule.
        """
        delivery = self._partial
        if delivery is None:
            delivery = self._begin(transfer)
        elif transfer.delivery_id not in {None, delivery.number}:
            self._fault("amqp:not-allowed", "a delivery began before the last one was complete")
        if transfer.settled:
            delivery.settled = True
        if transfer.state is not None:
            delivery.state = transfer.state
        if transfer.aborted:
            self._partial = delivery._parts = None
            delivery.aborted = delivery.settled = True
            self.session.forget(delivery)
            return delivery
        parts = delivery._parts
        size = len(payload) + (0 if parts is None else len(parts))
        if self.max_message_size and size > self.max_message_size and delivery.large is None:
            if self.overflow is None:
                self._fault(
                    "amqp:link:message-size-exceeded",
                    f"messages have {self.max_message_size} bytes at most here",
                )
            delivery.large = large = self.overflow()
            if isinstance(parts, bytearray):
                large.extend(parts)
            delivery._parts = parts = large
        if parts is not None:
            parts.extend(payload)
        if transfer.more:
            if parts is None:
                delivery._parts = bytearray(payload)
            self._partial = delivery
            return None
        self._partial = delivery._parts = None
        if isinstance(parts, bytearray):
            payload = bytes(parts)
        delivery.payload = payload if delivery.large is None else b""
        return delivery

    def _begin(self, transfer: Transfer) -> Delivery:
        number, tag = transfer.delivery_id, transfer.delivery_tag
        if number is None or tag is None:
            self._fault("amqp:invalid-field", "a delivery begins with a delivery-id and a tag")
        if number in self.session.incoming:
            self._fault("amqp:not-allowed", f"the delivery {number} is not settled yet")
        if self.credit > 0:
            self.credit -= 1
        elif self._revoked > 0:
            self._revoked -= 1
        elif len(self.session.incoming) < self.excess:
            self.credit -= 1  # below zero, so that it is not granted again
        else:
            self._fault("amqp:link:transfer-limit-exceeded", "the link has no credit")
        self._count = (self._count + 1) & MASK
        delivery = Delivery(
            self, number, tag, transfer.message_format or 0, resumed=bool(transfer.resume)
        )
        if not transfer.settled:
            self.session.incoming[number] = delivery
        return delivery

    def _fault(self, condition: str, description: str) -> NoReturn:
        raise LinkFaultError(condition, description)
