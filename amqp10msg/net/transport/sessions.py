"""Sessions, their links, and the deliveries on these (Part 2, 2.5 and 2.6)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, NoReturn, Protocol

import attrs

from amqp10msg.composite import Error, composite_of, from_described
from amqp10msg.delivery import Accepted, DeliveryState, Rejected
from amqp10msg.net.transport.frames import (
    Attach,
    Begin,
    Detach,
    Disposition,
    End,
    Flow,
    ReceiverSettleMode,
    SenderSettleMode,
    Transfer,
)
from amqp10msg.net.transport.sasl import SaslError
from amqp10msg.wire.errors import (
    ERRANT_LINK,
    HANDLE_IN_USE,
    INVALID_FIELD,
    MESSAGE_SIZE_EXCEEDED,
    NOT_ALLOWED,
    RESOURCE_LIMIT_EXCEEDED,
    TRANSFER_LIMIT_EXCEEDED,
    UNATTACHED_HANDLE,
    WINDOW_VIOLATION,
    DecodeError,
    EncodeError,
)
from amqp10msg.wire.kernel import encode_value
from amqp10msg.wire.primitives import Described, Symbol

#: A property of a link's state: how many messages of its source other links hold unsettled, a
#: ulong. This library's server tells it beside what is available.
ACQUIRED_BY_OTHERS = Symbol("amqp10msg:acquired-by-others")

#: Sequence numbers are of 32 bits (Part 2, 2.8.10).
_MASK = 0xFFFFFFFF
#: Bytes of a transfer's performative at most, but for its state.
_TRANSFER = 80
#: Frames with transfers that the peer may send before it learns that they arrived.
_WINDOW = 2_048
_HANDLE_MAX = 1_023
_ACCEPTED = Accepted()
_ACCEPTED_CODE = composite_of(Accepted).code


class FaultError(Exception):
    """The peer broke a rule, and what it broke it on is ended with the error."""

    def __init__(self, condition: str, description: str) -> None:
        super().__init__(description)
        self.error = Error(condition, description)


class LinkFaultError(FaultError):
    """The peer broke a rule of a link."""


class SessionFaultError(FaultError):
    """The peer broke a rule of a session."""


class FrameWriter(Protocol):
    """What a session needs of its connection, which is a `Connection`.

    Attributes:
        room: the maximum size of the body of a frame, in bytes.
        flushes: functions, by channel, that the connection calls before its bytes are taken.
    """

    room: int
    flushes: dict[int, Callable[[], None]]

    def write(self, channel: int, performative: Any) -> None:
        """Write a frame with a performative."""

    def write_body(self, channel: int, body: bytes) -> None:
        """Write a frame whose body is already encoded."""


class Handler:
    """Methods that a connection calls while it reads; override those of interest.

    An end is told once, whether the peer ended or broke a rule: the answer is sent already or will
    be by the connection itself. When a session ends, its links end without a call of their own, and
    when the connection ends, its sessions do.
    """

    def on_authenticated(self, user: str | None) -> None:
        """Called when SASL is over: with the peer's name, if it gave one to this server."""

    def on_refused(self, error: SaslError) -> None:
        """Called when SASL failed: the connection is to be closed once `take` is empty."""

    def on_open(self) -> None:
        """Called when the peer opened; `Connection.remote` says how."""

    def on_close(self, error: Error | None, *, fault: bool) -> None:
        """Called when the connection ends.

        Args:
            error: what the peer said, or what it did wrong.
            fault: whether the peer broke a rule, rather than closed.
        """

    def on_begin(self, session: Session) -> None:
        """Called when the peer began a session, or answered `Connection.begin`."""

    def on_end(self, session: Session, error: Error | None) -> None:
        """Called when a session ends."""

    def on_attach(self, link: Link) -> None:
        """Called when the peer attached a link, or answered `Session.attach`.

        One that the peer began is answered with `Link.attach` or `Link.refuse`.
        """

    def on_detach(self, link: Link, error: Error | None, *, closed: bool) -> None:
        """Called when a link is detached, or closed.

        Args:
            link: the link.
            error: why.
            closed: whether its terminus ends, too.
        """

    def on_link_gone(self, link: Link) -> None:
        """Called when a link is detached at both ends, or its session has ended."""

    def on_flow(self, link: Link) -> None:
        """Called when the peer told the state of a link: a sender may have credit."""

    def on_writable(self, session: Session) -> None:
        """Called when a session can send again after `Session.blocked`."""

    def on_transfer(self, delivery: LinkDelivery) -> None:
        """Called with a delivery that is complete, or was aborted."""

    def on_transfers(self, link: Link, deliveries: list[LinkDelivery]) -> None:
        """Called with deliveries that came together, where the connection has a run of more."""
        for delivery in deliveries:
            if link.is_open:
                self.on_transfer(delivery)

    def on_part(self, link: Link, size: int) -> None:
        """Learn that so many bytes of a message came, and that more follow."""

    def on_disposition(self, delivery: LinkDelivery) -> None:
        """Called when the peer told the state of a delivery, or settled it."""


class Sink(Protocol):
    """Takes the bytes of a message, as a `bytearray` does."""

    def __len__(self) -> int:
        """Return how many there are."""

    def extend(self, octets: bytes | bytearray, /) -> None:
        """Add bytes at the end."""


@attrs.define(eq=False, weakref_slot=False)
class LinkDelivery:
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
            link.session.write_disposition(link.sends, self.number, settled, state)
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
        excess: deliveries beyond the credit are taken while fewer than this many are unsettled; 0
            to end the link. RabbitMQ 3 takes each flow for new credit, whatever is on its way.
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
        self._partial: LinkDelivery | None = None
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

    def divert(self, sink: Sink) -> None:
        """Have a sink take the bytes of the delivery that is coming, from now on.

        Those that came are dropped, and its payload is empty.
        """
        if self._partial is not None:
            self._partial.large = self._partial._parts = sink

    def attach(self, *, source: Any, target: Any, **fields: Any) -> bool:
        """Attach this end.

        Args:
            source: a `Source`, or None.
            target: a `Target`, a `Coordinator`, or None.
            fields: other fields of `Attach`, such as ``properties``. Of ``unsettled``, a dict, no
                more is told than a frame has room for.

        Returns:
            Whether all of ``unsettled`` was told. If not, nothing new is to be sent on this link
            (Part 2, 2.7.3).
        """
        self.attached = True
        attach = Attach(
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
        told = _fit(attach, self.session.connection.room)
        self.session.write(attach)
        return told

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
            self._count = (self._count + self.credit) & _MASK
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
    ) -> LinkDelivery:
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
        delivery = LinkDelivery(self, session.next_delivery(), tag, message_format, done=settled)
        self.credit -= 1
        self._count = (self._count + 1) & _MASK
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
                sent = (self._count - (count or 0)) & _MASK
                self.credit = max(credit - sent, 0) if sent <= _MASK >> 1 else credit
            self.drain = drain
        elif count is not None:
            # The sender used credit up without sending.
            used = (count - self._count) & _MASK
            self.credit = max(self.credit - used, min(self.credit, 0))
            self._count = count

    def on_transfer(self, transfer: Transfer, payload: bytes) -> LinkDelivery | None:
        """Take a frame of a delivery, and return the delivery if it is complete or aborted."""
        delivery = self._partial
        if delivery is None:
            delivery = self._begin(transfer)
        elif transfer.delivery_id not in {None, delivery.number}:
            self._fault(NOT_ALLOWED, "a delivery began before the last one was complete")
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
                    MESSAGE_SIZE_EXCEEDED,
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

    def take(self, found: list[tuple[int, bytes, bytes]]) -> list[LinkDelivery]:
        """Take whole messages, for which there is credit: delivery-id, delivery-tag and bytes."""
        self.credit -= len(found)
        self._count = (self._count + len(found)) & _MASK
        return [LinkDelivery(self, number, tag, payload=payload) for number, tag, payload in found]

    def _begin(self, transfer: Transfer) -> LinkDelivery:
        number, tag = transfer.delivery_id, transfer.delivery_tag
        if number is None or tag is None:
            self._fault(INVALID_FIELD, "a delivery begins with a delivery-id and a tag")
        if number in self.session.incoming:
            self._fault(NOT_ALLOWED, f"the delivery {number} is not settled yet")
        if self.credit > 0:
            self.credit -= 1
        elif self._revoked > 0:
            self._revoked -= 1
        elif len(self.session.incoming) < self.excess:
            self.credit -= 1  # below zero, so that it is not granted again
        else:
            self._fault(TRANSFER_LIMIT_EXCEEDED, "the link has no credit")
        self._count = (self._count + 1) & _MASK
        delivery = LinkDelivery(
            self, number, tag, transfer.message_format or 0, resumed=bool(transfer.resume)
        )
        if not transfer.settled:
            self.session.incoming[number] = delivery
        return delivery

    def _fault(self, condition: str, description: str) -> NoReturn:
        raise LinkFaultError(condition, description)


def _fit(attach: Attach, room: int) -> bool:
    """Leave out the last unsettled deliveries, where a frame has no room for all; return if not."""
    excess = len(encode_value(attach)) - room
    if excess <= 0 or not attach.unsettled:
        return True
    attach.unsettled, attach.incomplete_unsettled = dict(attach.unsettled), True
    excess += 1  # the field may not have been there
    while excess > 0 and attach.unsettled:
        tag, state = attach.unsettled.popitem()
        excess -= len(encode_value(tag)) + len(encode_value(state))
    return False


def state_of(value: Any) -> Any:
    """Return the delivery state in a field: an object, or a `Described` if it is unknown."""
    if value is None:
        return None
    if isinstance(value, Described):
        if value.descriptor == _ACCEPTED_CODE and not value.value:
            return _ACCEPTED
        try:
            state = from_described(value)
        except DecodeError as error:
            if error.rule == "unknown-composite":
                return value
            state = _rejected(value)
            if state is None:
                raise SessionFaultError(error.condition, str(error)) from None
        if isinstance(state, DeliveryState):
            return state
    raise SessionFaultError(INVALID_FIELD, f"{value!r:.80} is not a delivery-state")


def _rejected(value: Described) -> Rejected | None:
    """Decode a rejection whose reason is malformed, as that is shown and not acted on.

    go-amqp writes the keys of an error's info as strings.
    """
    try:
        state = from_described(value, strict=False)
    except DecodeError:
        return None
    if not isinstance(state, Rejected) or not isinstance(state.error, Error):
        return None
    condition: Any = state.error.condition  # whatever came, where it is lenient
    if not isinstance(condition, str):
        return None
    try:
        encode_value(state)  # a receiver that settles second is told its own outcome
    except EncodeError:
        text = str(state.error.description or "")
        return Rejected(Error(Symbol(condition), text) if condition.isascii() else None)
    return state


class Session:
    """One end of a session.

    Attributes:
        connection: takes its frames.
        handler: is called with what happens.
        channel: this end's channel.
        remote_channel: the peer's; None before it began.
        outgoing: deliveries to the peer that are not settled at both ends, by number.
        incoming: deliveries from the peer, likewise.
        ended: whether this end has ended.
    """

    def __init__(self, connection: FrameWriter, handler: Handler, channel: int) -> None:
        self.connection = connection
        self.handler = handler
        self.channel = channel
        self.remote_channel: int | None = None
        self.begun = False
        self.ended = False
        self.outgoing: dict[int, LinkDelivery] = {}
        self.incoming: dict[int, LinkDelivery] = {}
        self.links: dict[tuple[str, bool], Link] = {}
        self._handles: dict[int, Link] = {}  # of the peer
        self._own: dict[int, Link] = {}
        self._handle_max = _HANDLE_MAX
        self._next_delivery = 0
        self._next_outgoing = 0
        self._room = 0  # of the peer's incoming window
        self._next_incoming = 0
        self._window = _WINDOW
        self._waiting: deque[tuple[Link, bytes]] = deque()
        self._disposition: Disposition | None = None  # not written yet: the next may extend it

    def __repr__(self) -> str:
        return f"<session {self.channel}>"

    # What this end does.

    def begin(self) -> None:
        """Begin this end."""
        self.begun = True
        self.write(
            Begin(
                remote_channel=self.remote_channel,
                next_outgoing_id=self._next_outgoing,
                incoming_window=self._window,
                outgoing_window=_WINDOW,
                handle_max=_HANDLE_MAX,
            )
        )

    def end(self, error: Error | None = None) -> None:
        """End this end; twice does nothing."""
        if self.begun and not self.ended:
            self.write(End(error))
            self.ended = True
            self.clear()

    def link(self, name: str, *, sends: bool) -> Link:
        """Return a new link, to be attached with `Link.attach`."""
        if (name, sends) in self.links:
            raise ValueError(f"the session has a link {name!r} in this role already")
        handle = len(self._own)
        while handle in self._own:
            handle -= 1
        if handle > self._handle_max:
            raise ValueError(f"the session has {handle} links, and the peer takes no more")
        link = self.links[name, sends] = self._own[handle] = Link(self, name, handle, sends=sends)
        return link

    @property
    def blocked(self) -> bool:
        """Whether transfers wait for the peer's window; `Handler.on_writable` tells its end."""
        return bool(self._waiting)

    # For links.

    def write(self, performative: Any) -> None:
        """Write a frame, after the dispositions that wait."""
        self.flush()
        self.connection.write(self.channel, performative)

    def flush(self) -> None:
        """Write the disposition that waits for others to extend it."""
        waiting = self._disposition
        if waiting is not None:
            self._disposition = None
            self.connection.write(self.channel, waiting)

    def next_delivery(self) -> int:
        """Return the number of the next delivery."""
        number = self._next_delivery
        self._next_delivery = (number + 1) & _MASK
        return number

    def write_disposition(self, sends: bool, number: int, settled: bool, state: Any) -> None:
        """Write a disposition, in one frame with those before where it can be."""
        waiting = self._disposition
        if (
            waiting is not None
            and waiting.last is not None
            and waiting.role != sends
            and waiting.last + 1 == number
            and waiting.settled is settled
            and (waiting.state is state or waiting.state == state)
        ):
            waiting.last = number
            return
        self.flush()
        self._disposition = Disposition(not sends, number, number, settled, state)
        self.connection.flushes[self.channel] = self.flush

    def forget(self, delivery: LinkDelivery) -> None:
        """Drop a delivery that is settled."""
        held = self.outgoing if delivery.link.sends else self.incoming
        if held.get(delivery.number) is delivery:
            del held[delivery.number]

    def write_transfer(self, link: Link, body: bytes) -> None:
        """Write a frame with a transfer, or have it wait for the peer's window."""
        if self._room <= 0 or self._waiting:
            self._waiting.append((link, body))
            return
        self._room -= 1
        self._next_outgoing = (self._next_outgoing + 1) & _MASK
        self.connection.write_body(self.channel, body)

    def write_flow(self, link: Link | None = None, *, echo: bool = False) -> None:
        """Write a flow, of a link or of the session alone; `echo` asks for one of the peer."""
        self._window = _WINDOW
        flow = Flow(
            next_incoming_id=self._next_incoming if self.remote_channel is not None else None,
            incoming_window=self._window,
            next_outgoing_id=self._next_outgoing,
            outgoing_window=_WINDOW,
        )
        if link is not None:
            flow.handle = link.handle
            flow.delivery_count = link._count
            flow.link_credit = max(link.credit, 0)
            flow.drain = link.drain
            if link.sends:
                flow.available, flow.properties = link.available, link.properties
            flow.echo = echo
        self.write(flow)

    def drop(self, link: Link) -> None:
        """Drop the deliveries of a link that is detached, and the link if it is at both ends."""
        for held in (self.outgoing, self.incoming):
            for number in [n for n, one in held.items() if one.link is link]:
                del held[number]
        if self._waiting:
            self._waiting = deque(one for one in self._waiting if one[0] is not link)
        link._partial = None
        if link.remote_handle is None and link.detached:
            self.links.pop((link.name, link.sends), None)
            self._own.pop(link.handle, None)
            self.handler.on_link_gone(link)

    def clear(self) -> None:
        """Drop everything, as the session has ended."""
        for link in self.links.values():
            self.handler.on_link_gone(link)
        for held in (self.outgoing, self.incoming, self.links, self._handles, self._own):
            held.clear()
        self._waiting.clear()
        self._disposition = None

    # What the peer does.

    def on_begin(self, channel: int, begin: Begin) -> None:
        """Take the peer's begin."""
        self.remote_channel = channel
        self._room = begin.incoming_window
        self._next_incoming = begin.next_outgoing_id
        self._handle_max = min(begin.handle_max, _HANDLE_MAX)

    def on_frame(self, performative: Any, payload: bytes) -> None:
        """Take a frame of the session other than begin and end."""
        if isinstance(performative, Transfer):
            self._on_transfer(performative, payload)
        elif isinstance(performative, Disposition):
            self._on_disposition(performative)
        elif isinstance(performative, Flow):
            self._on_flow(performative)
        elif isinstance(performative, Attach):
            self._on_attach(performative)
        elif isinstance(performative, Detach):
            self._on_detach(performative)

    def _link_of(self, handle: int) -> Link:
        link = self._handles.get(handle)
        if link is None:
            raise SessionFaultError(UNATTACHED_HANDLE, f"the handle {handle} has no link")
        return link

    def _on_transfer(self, transfer: Transfer, payload: bytes) -> None:
        self._use_window(1)
        link = self._link_of(transfer.handle)
        if not link.is_open:
            return
        if link.sends:
            raise SessionFaultError(
                ERRANT_LINK, f"the peer is the receiver of the link {link.name!r}"
            )
        try:
            if transfer.state is not None:
                transfer.state = state_of(transfer.state)
            delivery = link.on_transfer(transfer, payload)
        except LinkFaultError as fault:
            self.handler.on_detach(link, fault.error, closed=True)
            link.detach(fault.error)
            return
        if delivery is not None:
            self.handler.on_transfer(delivery)
        else:
            self.handler.on_part(link, len(payload))

    def _use_window(self, count: int) -> None:
        """Take note of so many transfers, and open the window again where half of it is used."""
        self._next_incoming = (self._next_incoming + count) & _MASK
        self._window -= count
        if self._window < 0:
            raise SessionFaultError(WINDOW_VIOLATION, "transfers exceed the window")
        if self._window * 2 < _WINDOW:
            self.write_flow()

    def taker_of(self, handle: int, found: list[tuple[int, bytes, bytes]]) -> Link | None:
        """Return the link that can take whole messages at once, None where one may break a rule.

        Args:
            handle: the peer's.
            found: delivery-id, delivery-tag and bytes of each.
        """
        link, count = self._handles.get(handle), len(found)
        if link is None or link.sends or not link.is_open or link.is_partial:
            return None
        if link.credit < count or self._window < count:
            return None
        numbers = {number for number, _, _ in found}
        if len(numbers) < count or not numbers.isdisjoint(self.incoming):
            return None
        most = link.max_message_size
        if most and max(len(payload) for _, _, payload in found) > most:
            return None
        return link

    def take(self, link: Link, found: list[tuple[int, bytes, bytes]]) -> None:
        """Take the messages of which `taker_of` says that they can be."""
        self._use_window(len(found))
        deliveries = link.take(found)
        self.incoming.update({one.number: one for one in deliveries})
        self.handler.on_transfers(link, deliveries)

    def _on_disposition(self, disposition: Disposition) -> None:
        held = self.outgoing if disposition.role else self.incoming
        first = disposition.first
        last = first if disposition.last is None else disposition.last
        state = state_of(disposition.state)
        count = ((last - first) & _MASK) + 1
        numbers: Iterable[int]
        if count == 1:
            numbers = (first,)
        elif count <= len(held):
            numbers = [(first + n) & _MASK for n in range(count)]
        else:  # a range costs no more than what is there
            places = sorted(place for n in held if (place := (n - first) & _MASK) < count)
            numbers = [(first + place) & _MASK for place in places]
        on_disposition = self.handler.on_disposition
        for number in numbers:
            delivery = held.get(number)
            if delivery is None:
                continue
            if disposition.settled:
                delivery.settled = True
                del held[number]
            if state is not None:
                delivery.state = state
            on_disposition(delivery)
            if self.ended:
                return

    def _on_flow(self, flow: Flow) -> None:
        in_flight = (self._next_outgoing - (flow.next_incoming_id or 0)) & _MASK
        self._room = flow.incoming_window - (in_flight if in_flight <= _MASK >> 1 else 0)
        if self._waiting:
            while self._waiting and self._room > 0:
                self._room -= 1
                self._next_outgoing = (self._next_outgoing + 1) & _MASK
                self.connection.write_body(self.channel, self._waiting.popleft()[1])
            if not self._waiting:
                self.handler.on_writable(self)
        if flow.handle is None:
            if flow.echo:
                self.write_flow()
            return
        link = self._link_of(flow.handle)
        if not link.is_open:
            if flow.echo and not self.ended:
                self.write_flow()
            return
        if not link.sends and flow.available is not None:
            link.available, link.properties = flow.available, flow.properties
        link.on_flow(flow.delivery_count, flow.link_credit, flow.drain)
        self.handler.on_flow(link)
        # Without credit, a drain is complete already; the receiver waits to be told (2.6.7).
        is_drained = link.sends and link.drain and not link.credit
        if (flow.echo or is_drained) and link.is_open:
            self.write_flow(link)

    def _on_attach(self, attach: Attach) -> None:
        if attach.handle in self._handles:
            raise SessionFaultError(HANDLE_IN_USE, f"the handle {attach.handle} is used")
        if attach.handle > _HANDLE_MAX:
            raise SessionFaultError(NOT_ALLOWED, f"handles are {_HANDLE_MAX} at most here")
        link = self.links.get((attach.name, attach.role))
        if link is None:
            try:
                link = self.link(attach.name, sends=attach.role)
            except ValueError as error:
                raise SessionFaultError(RESOURCE_LIMIT_EXCEEDED, str(error)) from None
        elif link.remote_handle is not None:
            raise SessionFaultError(NOT_ALLOWED, f"the link {attach.name!r} is attached already")
        self._handles[attach.handle] = link
        link.on_attach(attach)
        self.handler.on_attach(link)

    def _on_detach(self, detach: Detach) -> None:
        link = self._link_of(detach.handle)
        del self._handles[detach.handle]
        link.remote_handle = None
        if link.detached:
            self.drop(link)
            return
        self.handler.on_detach(link, detach.error, closed=detach.closed)
        if not self.ended:
            link.detach(closed=detach.closed)
