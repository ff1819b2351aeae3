"""Sessions, links and the deliveries of links (Part 2, 2.5 and 2.6)."""

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

#: A property in the flows that this library's server sends for a link. Its value, a ulong, is the
#: number of the source's messages that other links have acquired.
ACQUIRED_BY_OTHERS = Symbol("amqp10msg:acquired-by-others")

#: Mask of sequence numbers, which wrap at 32 bits (Part 2, 2.8.10).
_SEQUENCE_NUMBER_MASK = 0xFFFFFFFF
#: Maximum size, in bytes, of a transfer performative that continues a message.
_MAX_CONTINUATION_SIZE = 80
#: The incoming-window and outgoing-window of a session, in transfer frames.
_SESSION_WINDOW = 2_048
#: The highest handle, so that a session has at most 1,024 links.
_HANDLE_MAX = 1_023
_ACCEPTED = Accepted()
_ACCEPTED_CODE = composite_of(Accepted).code


class FaultError(Exception):
    """The peer violated the protocol, so that the connection, session or link ends with `error`."""

    def __init__(self, condition: str, description: str) -> None:
        super().__init__(description)
        self.error = Error(condition, description)


class LinkFaultError(FaultError):
    """The peer violated the protocol, so that the link ends."""


class SessionFaultError(FaultError):
    """The peer violated the protocol, so that the session ends."""


class FrameWriter(Protocol):
    """The methods of a `Connection` that its sessions call.

    Attributes:
        room: the maximum size of the body of a frame to send, in bytes.
        flush_by_channel: functions that write delayed dispositions, by channel. The connection
            calls them before its bytes are taken.
    """

    room: int
    flush_by_channel: dict[int, Callable[[], None]]

    def write(self, channel: int, performative: Any) -> None:
        """Write a frame with a performative."""

    def write_body(self, channel: int, body: bytes) -> None:
        """Write a frame whose body is already encoded."""


class Handler:
    """Methods that a connection calls while it processes frames. Override as needed.

    The end of a connection, session or link is reported once, whether the peer ended it or violated
    the protocol. The connection sends the answer itself. The end of a session is not reported for
    its links, and the end of a connection is not reported for its sessions.
    """

    def on_authenticated(self, user: str | None) -> None:
        """Called when SASL has succeeded; at a server, `user` is the name of the user."""

    def on_refused(self, error: SaslError) -> None:
        """Called when SASL failed: send the bytes of `Connection.take`, then close the socket."""

    def on_open(self) -> None:
        """Called when the peer's open frame was received; see `Connection.remote`."""

    def on_close(self, error: Error | None, *, fault: bool) -> None:
        """Called when the connection ends.

        Args:
            error: the error in the peer's close frame, or the protocol violation of the peer.
            fault: whether the peer violated the protocol.
        """

    def on_begin(self, session: Session) -> None:
        """Called when the peer began a session, or answered `Connection.begin`."""

    def on_end(self, session: Session, error: Error | None) -> None:
        """Called when a session ends."""

    def on_attach(self, link: Link) -> None:
        """Called when the peer attached a link, or answered `Link.attach`.

        If the peer began the link, answer it with `Link.attach` or `Link.refuse`.
        """

    def on_detach(self, link: Link, error: Error | None, *, closed: bool) -> None:
        """Called when a link is detached, or closed.

        Args:
            link: the link.
            error: the error in the peer's detach, or the protocol violation of the peer.
            closed: whether the link was closed, which also ends its terminus.
        """

    def on_link_gone(self, link: Link) -> None:
        """Called when a link is detached at both ends, or its session has ended."""

    def on_flow(self, link: Link) -> None:
        """Called when a flow of the peer has updated a link: a sender may have new credit."""

    def on_writable(self, session: Session) -> None:
        """Called when a session can send again: `Session.blocked` has become False."""

    def on_transfer(self, delivery: LinkDelivery) -> None:
        """Called when a delivery from the peer is complete or aborted."""

    def on_transfers(self, link: Link, deliveries: list[LinkDelivery]) -> None:
        """Called with complete deliveries that arrived together.

        The argument `run` of `Connection` limits their number.
        """
        for delivery in deliveries:
            if link.is_open:
                self.on_transfer(delivery)

    def on_part(self, link: Link, size: int) -> None:
        """Called with the size of a received part of an incomplete message, in bytes."""

    def on_disposition(self, delivery: LinkDelivery) -> None:
        """Called when a disposition has updated the state of a delivery, or settled it."""


class Sink(Protocol):
    """An object that stores the bytes of a message, like a `bytearray`."""

    def __len__(self) -> int:
        """Return the number of bytes."""

    def extend(self, octets: bytes | bytearray, /) -> None:
        """Append bytes."""


@attrs.define(eq=False, weakref_slot=False)
class LinkDelivery:
    """The transfer of one message over a link (Part 2, 2.6.12).

    Attributes:
        link: the link.
        number: the delivery-id.
        tag: the delivery-tag.
        resumed: whether the sender resumes a delivery of a lost link (Part 2, 2.7.5).
        message_format: the message-format, 0 to 2^32 - 1.
        settled: whether the peer has settled the delivery.
        state: the delivery state that the peer sent: an object of `amqp10msg.delivery`, a
            `Described` value if its type is unknown, or None.
        payload: the received message; None until it is complete, and empty if `large` is set.
        large: the sink with the bytes of a message that is too large for `payload`, see
            `Link.overflow`; else None.
        aborted: whether the sender aborted the delivery.
        done: whether this end has settled the delivery.
        context: an object that the user of this class may set; not used by the transport.
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
    # The received bytes of an incomplete message. A list of many small parts would need much more
    # memory than a bytearray.
    _parts: bytearray | Sink | None = attrs.field(default=None, repr=False)

    def update(self, state: Any, *, settled: bool = True) -> None:
        """Send the delivery state of this end to the peer; with `settled`, settle the delivery.

        Nothing is sent if either end has already settled the delivery, or the link is detached.
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
        session: the session.
        name: the name of the link.
        handle: the handle of this end.
        sends: whether this end is the sender.
        attached: whether this end has written its attach.
        detached: whether this end has written its detach.
        remote: the peer's attach; None until it is received.
        remote_handle: the peer's handle; None if the peer is not attached.
        credit: how many messages the sender may send now.
        drain: whether the receiver has requested that the sender uses up the credit.
        available: number of messages that wait for credit at the sender; None if unknown. A sender
            sets this attribute for its next flow.
        properties: the properties in the flows of the sender (Part 2, 2.7.4).
        snd_settle_mode: the sender-settle-mode for the attach of this end. The peer's attach, if it
            is first, sets it to the requested mode.
        rcv_settle_mode: the receiver-settle-mode, in the same way.
        max_message_size: maximum size of received messages, in bytes; 0 for no limit. A larger
            message ends the link, unless `overflow` is set.
        overflow: returns a sink for a message larger than `max_message_size`; see
            `LinkDelivery.large`.
        excess: accept deliveries beyond the credit while fewer than this many are unsettled; 0 to
            end the link instead. RabbitMQ 3 adds the credit of each flow to messages in flight.
        context: an object that the user of this class may set; not used by the transport.
    """

    __slots__ = (
        "_delivery_count",
        "_partial",
        "_revoked_credit",
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
        self._delivery_count = 0
        self._partial: LinkDelivery | None = None  # the incomplete delivery
        self._revoked_credit = 0  # revoked credit that the peer may still use

    def __repr__(self) -> str:
        return f"<{'sending' if self.sends else 'receiving'} link {self.name!r}>"

    @property
    def is_open(self) -> bool:
        """Whether this end is attached."""
        return self.attached and not self.detached and not self.session.ended

    @property
    def is_partial(self) -> bool:
        """Whether a delivery is incomplete: the peer has sent a part of it."""
        return self._partial is not None

    # Actions of the local end.

    def divert(self, sink: Sink) -> None:
        """Append the further bytes of the incomplete delivery to `sink`.

        The bytes received so far are discarded, and the payload will be empty.
        """
        if self._partial is not None:
            self._partial.large = self._partial._parts = sink

    def attach(self, *, source: Any, target: Any, **fields: Any) -> bool:
        """Write the attach of this end.

        Args:
            source: a `Source`, or None.
            target: a `Target`, a `Coordinator`, or None.
            fields: other fields of `Attach`, such as ``properties``. Entries of ``unsettled``, a
                dict, that do not fit into the frame are omitted.

        Returns:
            Whether all of ``unsettled`` was sent. If not, this link must send no new deliveries
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
            initial_delivery_count=self._delivery_count if self.sends else None,
            max_message_size=self.max_message_size or None,
            **fields,
        )
        is_complete = _cut_unsettled(attach, self.session.connection.room)
        self.session.write(attach)
        return is_complete

    def refuse(self, error: Error) -> None:
        """Refuse the peer's attach: answer without source and target, then detach with an error.

        See Part 2, 2.6.3.
        """
        self.attach(source=None, target=None)
        self.detach(error)

    def detach(self, error: Error | None = None, *, closed: bool = True) -> None:
        """Detach or close this end; a no-op after the first call."""
        if self.is_open:
            self.session.write(Detach(handle=self.handle, closed=closed, error=error))
            self.detached = True
            self.session.drop(self)

    def grant(self, credit: int) -> None:
        """Grant the peer credit for `credit` more messages."""
        if self.is_open and credit > 0:
            self.drain = False
            self.credit += credit
            self.session.write_flow(self)

    def revoke(self) -> None:
        """Set the peer's credit to 0. Messages in flight may still arrive (Part 2, 2.6.7)."""
        if self.is_open and self.credit > 0:
            self._revoked_credit += self.credit
            self.credit = 0
            self.session.write_flow(self)

    def request_flow(self) -> None:
        """Request a flow from the peer, which `Handler.on_flow` reports (Part 2, 2.7.4, echo)."""
        if self.is_open:
            self.session.write_flow(self, echo=True)

    def request_drain(self) -> None:
        """Request a drain: the sender sends its messages, then drops its credit (Part 2, 2.6.7).

        The sender reports that by a flow. The credit is then 0, until more is granted.
        """
        if self.is_open:
            self.drain = True
            self.session.write_flow(self, echo=True)

    def drained(self) -> None:
        """Complete a drain when no messages are left: drop the credit, and write a flow."""
        if self.is_open and self.drain:
            self._delivery_count = (self._delivery_count + self.credit) & _SEQUENCE_NUMBER_MASK
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
        """Send a message in one or more frames, which uses one credit.

        Frames that exceed the session's window are queued; see `Session.blocked`.

        Args:
            tag: the delivery-tag, at most 32 bytes.
            message: the encoded message.
            settled: whether the delivery is sent settled.
            message_format: the message-format, 0 to 2^32 - 1.
            state: the state of the delivery, such as a `TransactionalState`.
            resume: whether to resume a delivery of a lost link (Part 2, 2.6.13).
        """
        session = self.session
        delivery = LinkDelivery(self, session.next_delivery(), tag, message_format, done=settled)
        self.credit -= 1
        self._delivery_count = (self._delivery_count + 1) & _SEQUENCE_NUMBER_MASK
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
            end = position + room - _MAX_CONTINUATION_SIZE
            head = encode_value(Transfer(self.handle, more=end < len(message)))
            session.write_transfer(self, head + message[position:end])
            position = end
        return delivery

    # Frames of the peer.

    def on_attach(self, attach: Attach) -> None:
        """Apply the peer's attach."""
        self.remote = attach
        self.remote_handle = attach.handle
        self.snd_settle_mode = attach.snd_settle_mode
        self.rcv_settle_mode = attach.rcv_settle_mode
        if not self.sends:
            self._delivery_count = attach.initial_delivery_count or 0

    def on_flow(self, count: int | None, credit: int | None, drain: bool) -> None:
        """Apply the link state of a flow (Part 2, 2.6.7)."""
        if self.sends:
            if credit is not None:
                in_flight = (self._delivery_count - (count or 0)) & _SEQUENCE_NUMBER_MASK
                self.credit = (
                    max(credit - in_flight, 0)
                    if in_flight <= _SEQUENCE_NUMBER_MASK >> 1
                    else credit
                )
            self.drain = drain
        elif count is not None:
            # The sender's delivery-count has increased without messages: it has dropped credit.
            used = (count - self._delivery_count) & _SEQUENCE_NUMBER_MASK
            self.credit = max(self.credit - used, min(self.credit, 0))
            self._delivery_count = count

    def on_transfer(self, transfer: Transfer, payload: bytes) -> LinkDelivery | None:
        """Apply a transfer frame; return the delivery if it is now complete or aborted."""
        delivery = self._partial
        if delivery is None:
            delivery = self._begin_delivery(transfer)
        elif transfer.delivery_id not in {None, delivery.number}:
            self._fault(NOT_ALLOWED, "a delivery began before the last delivery was complete")
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
                    f"the message exceeds the max-message-size of {self.max_message_size} bytes",
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

    def on_run(self, transfers: list[tuple[int, bytes, bytes]]) -> list[LinkDelivery]:
        """Apply a run of transfers, see `Session.on_run`; return the deliveries."""
        self.credit -= len(transfers)
        self._delivery_count = (self._delivery_count + len(transfers)) & _SEQUENCE_NUMBER_MASK
        return [
            LinkDelivery(self, number, tag, payload=payload) for number, tag, payload in transfers
        ]

    def _begin_delivery(self, transfer: Transfer) -> LinkDelivery:
        """Return the delivery that a transfer begins, and use one credit."""
        number, tag = transfer.delivery_id, transfer.delivery_tag
        if number is None or tag is None:
            self._fault(
                INVALID_FIELD, "a delivery must begin with a delivery-id and a delivery-tag"
            )
        if number in self.session.incoming:
            self._fault(NOT_ALLOWED, f"delivery-id {number} is in use by an unsettled delivery")
        if self.credit > 0:
            self.credit -= 1
        elif self._revoked_credit > 0:
            self._revoked_credit -= 1
        elif len(self.session.incoming) < self.excess:
            self.credit -= 1  # becomes negative, so that later credit compensates for the excess
        else:
            self._fault(TRANSFER_LIMIT_EXCEEDED, "the link has no credit")
        self._delivery_count = (self._delivery_count + 1) & _SEQUENCE_NUMBER_MASK
        delivery = LinkDelivery(
            self, number, tag, transfer.message_format or 0, resumed=bool(transfer.resume)
        )
        if not transfer.settled:
            self.session.incoming[number] = delivery
        return delivery

    def _fault(self, condition: str, description: str) -> NoReturn:
        """Raise LinkFaultError."""
        raise LinkFaultError(condition, description)


def _cut_unsettled(attach: Attach, room: int) -> bool:
    """Remove as many entries of ``unsettled`` as necessary, so that the attach fits into a frame.

    The attach is modified, and marked as incomplete-unsettled.

    Args:
        attach: the attach.
        room: the maximum size of the encoded attach, in bytes.

    Returns:
        Whether all entries fit.
    """
    excess = len(encode_value(attach)) - room
    if excess <= 0 or not attach.unsettled:
        return True
    attach.unsettled, attach.incomplete_unsettled = dict(attach.unsettled), True
    excess += 1  # room for incomplete-unsettled, which may have been absent
    while excess > 0 and attach.unsettled:
        tag, state = attach.unsettled.popitem()
        excess -= len(encode_value(tag)) + len(encode_value(state))
    return False


def decode_state(value: Any) -> Any:
    """Decode the delivery state in a field; return `value` itself if its type is unknown.

    Raises:
        SessionFaultError: the value is malformed, or not a delivery state.
    """
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
            state = _decode_rejected(value)
            if state is None:
                raise SessionFaultError(error.condition, str(error)) from None
        if isinstance(state, DeliveryState):
            return state
    raise SessionFaultError(INVALID_FIELD, f"expected a delivery-state, got {value!r:.80}")


def _decode_rejected(value: Described) -> Rejected | None:
    """Decode a rejected outcome whose error is malformed; return None for other malformed states.

    Such an outcome is accepted because its error is only displayed. For example, go-amqp writes the
    keys of an error's info as strings.
    """
    try:
        state = from_described(value, strict=False)
    except DecodeError:
        return None
    if not isinstance(state, Rejected) or not isinstance(state.error, Error):
        return None
    condition: Any = state.error.condition  # may be of any type, after lenient decoding
    if not isinstance(condition, str):
        return None
    try:
        encode_value(state)  # it may have to be sent back to a receiver that settles second
    except EncodeError:
        text = str(state.error.description or "")
        return Rejected(Error(Symbol(condition), text) if condition.isascii() else None)
    return state


class Session:
    """One end of a session.

    Attributes:
        connection: writes the frames.
        handler: its methods are called with the events of the session.
        channel: the channel of this end.
        remote_channel: the channel of the peer; None until the peer's begin is received.
        outgoing: sent deliveries that are not settled at both ends, by delivery-id.
        incoming: received deliveries that are not settled at both ends, by delivery-id.
        links: the links, by name and whether this end is the sender.
        begun: whether this end has written its begin.
        ended: whether this end has written its end, or the connection has closed.
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
        self._links_by_remote_handle: dict[int, Link] = {}
        self._links_by_handle: dict[int, Link] = {}
        self._handle_max = _HANDLE_MAX
        self._next_delivery_id = 0
        self._next_outgoing_id = 0
        self._remote_window = 0  # number of transfers that the peer's incoming window still allows
        self._next_incoming_id = 0
        self._window = _SESSION_WINDOW  # number of transfers that the incoming window still allows
        # Transfers that wait for the peer's window, with their link.
        self._waiting_transfers: deque[tuple[Link, bytes]] = deque()
        # A disposition that is written later, since the next disposition may extend its range.
        self._disposition: Disposition | None = None

    def __repr__(self) -> str:
        return f"<session {self.channel}>"

    # Actions of the local end.

    def begin(self) -> None:
        """Write the begin frame."""
        self.begun = True
        self.write(
            Begin(
                remote_channel=self.remote_channel,
                next_outgoing_id=self._next_outgoing_id,
                incoming_window=self._window,
                outgoing_window=_SESSION_WINDOW,
                handle_max=_HANDLE_MAX,
            )
        )

    def end(self, error: Error | None = None) -> None:
        """Write the end frame; a no-op after the first call."""
        if self.begun and not self.ended:
            self.write(End(error))
            self.ended = True
            self.clear()

    def link(self, name: str, *, sends: bool) -> Link:
        """Return a new link; attach it with `Link.attach`.

        Raises:
            ValueError: the name is in use in this role, or the peer allows no further links.
        """
        if (name, sends) in self.links:
            role = "sender" if sends else "receiver"
            raise ValueError(f"the session already has a link {name!r} with the role {role}")
        handle = len(self._links_by_handle)
        while handle in self._links_by_handle:
            handle -= 1
        if handle > self._handle_max:
            raise ValueError(f"the session has {handle} links, which is the limit of the peer")
        link = self.links[name, sends] = self._links_by_handle[handle] = Link(
            self, name, handle, sends=sends
        )
        return link

    @property
    def blocked(self) -> bool:
        """Whether transfers wait for the peer's window; when it ends, see `Handler.on_writable`."""
        return bool(self._waiting_transfers)

    # Called by links.

    def write(self, performative: Any) -> None:
        """Write a frame, after the delayed disposition."""
        self.flush()
        self.connection.write(self.channel, performative)

    def flush(self) -> None:
        """Write the delayed disposition, if any."""
        disposition = self._disposition
        if disposition is not None:
            self._disposition = None
            self.connection.write(self.channel, disposition)

    def next_delivery(self) -> int:
        """Reserve the next delivery-id, and return it."""
        number = self._next_delivery_id
        self._next_delivery_id = (number + 1) & _SEQUENCE_NUMBER_MASK
        return number

    def write_disposition(self, sends: bool, number: int, settled: bool, state: Any) -> None:
        """Write a disposition later, or extend the delayed disposition by this delivery-id.

        Args:
            sends: whether this end is the sender.
            number: the delivery-id.
            settled: whether this end settles the delivery.
            state: the delivery state.
        """
        delayed = self._disposition
        if (
            delayed is not None
            and delayed.last is not None
            and delayed.role != sends
            and delayed.last + 1 == number
            and delayed.settled is settled
            and (delayed.state is state or delayed.state == state)
        ):
            delayed.last = number
            return
        self.flush()
        self._disposition = Disposition(not sends, number, number, settled, state)
        self.connection.flush_by_channel[self.channel] = self.flush

    def forget(self, delivery: LinkDelivery) -> None:
        """Remove a delivery that is settled."""
        unsettled = self.outgoing if delivery.link.sends else self.incoming
        if unsettled.get(delivery.number) is delivery:
            del unsettled[delivery.number]

    def write_transfer(self, link: Link, body: bytes) -> None:
        """Write a transfer frame, or queue it until the peer's window allows it."""
        if self._remote_window <= 0 or self._waiting_transfers:
            self._waiting_transfers.append((link, body))
            return
        self._remote_window -= 1
        self._next_outgoing_id = (self._next_outgoing_id + 1) & _SEQUENCE_NUMBER_MASK
        self.connection.write_body(self.channel, body)

    def write_flow(self, link: Link | None = None, *, echo: bool = False) -> None:
        """Write a flow of a link or of the session; `echo` requests a flow from the peer."""
        self._window = _SESSION_WINDOW
        flow = Flow(
            next_incoming_id=self._next_incoming_id if self.remote_channel is not None else None,
            incoming_window=self._window,
            next_outgoing_id=self._next_outgoing_id,
            outgoing_window=_SESSION_WINDOW,
        )
        if link is not None:
            flow.handle = link.handle
            flow.delivery_count = link._delivery_count
            flow.link_credit = max(link.credit, 0)
            flow.drain = link.drain
            if link.sends:
                flow.available, flow.properties = link.available, link.properties
            flow.echo = echo
        self.write(flow)

    def drop(self, link: Link) -> None:
        """Remove the deliveries of a detached link, and the link if both ends are detached."""
        for unsettled in (self.outgoing, self.incoming):
            numbers = [number for number, delivery in unsettled.items() if delivery.link is link]
            for number in numbers:
                del unsettled[number]
        if self._waiting_transfers:
            self._waiting_transfers = deque(
                item for item in self._waiting_transfers if item[0] is not link
            )
        link._partial = None
        if link.remote_handle is None and link.detached:
            self.links.pop((link.name, link.sends), None)
            self._links_by_handle.pop(link.handle, None)
            self.handler.on_link_gone(link)

    def clear(self) -> None:
        """Remove all links and deliveries, at the end of the session."""
        for link in self.links.values():
            self.handler.on_link_gone(link)
        for table in (
            self.outgoing,
            self.incoming,
            self.links,
            self._links_by_remote_handle,
            self._links_by_handle,
        ):
            table.clear()
        self._waiting_transfers.clear()
        self._disposition = None

    # Frames of the peer.

    def on_begin(self, channel: int, begin: Begin) -> None:
        """Apply the peer's begin."""
        self.remote_channel = channel
        self._remote_window = begin.incoming_window
        self._next_incoming_id = begin.next_outgoing_id
        self._handle_max = min(begin.handle_max, _HANDLE_MAX)

    def on_frame(self, performative: Any, payload: bytes) -> None:
        """Apply a frame of the session, except a begin or end."""
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

    def _find_link(self, handle: int) -> Link:
        """Return the link with this handle of the peer."""
        link = self._links_by_remote_handle.get(handle)
        if link is None:
            raise SessionFaultError(UNATTACHED_HANDLE, f"no link is attached to handle {handle}")
        return link

    def _on_transfer(self, transfer: Transfer, payload: bytes) -> None:
        self._use_window(1)
        link = self._find_link(transfer.handle)
        if not link.is_open:
            return
        if link.sends:
            raise SessionFaultError(
                ERRANT_LINK, f"the peer is the receiver of the link {link.name!r}"
            )
        try:
            if transfer.state is not None:
                transfer.state = decode_state(transfer.state)
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
        """Count received transfers; write a flow when half of the incoming window is used up."""
        self._next_incoming_id = (self._next_incoming_id + count) & _SEQUENCE_NUMBER_MASK
        self._window -= count
        if self._window < 0:
            raise SessionFaultError(WINDOW_VIOLATION, "transfers exceed the incoming-window")
        if self._window * 2 < _SESSION_WINDOW:
            self.write_flow()

    def link_for_run(self, handle: int, transfers: list[tuple[int, bytes, bytes]]) -> Link | None:
        """Return the link that can receive a run of transfers; None to process them one by one.

        Args:
            handle: the peer's handle of the link.
            transfers: delivery-id, delivery-tag and message of each transfer.
        """
        link, count = self._links_by_remote_handle.get(handle), len(transfers)
        if link is None or link.sends or not link.is_open or link.is_partial:
            return None
        if link.credit < count or self._window < count:
            return None
        numbers = {number for number, _, _ in transfers}
        if len(numbers) < count or not numbers.isdisjoint(self.incoming):
            return None
        max_size = link.max_message_size
        if max_size and max(len(payload) for _, _, payload in transfers) > max_size:
            return None
        return link

    def on_run(self, link: Link, transfers: list[tuple[int, bytes, bytes]]) -> None:
        """Apply a run of transfers to the link that `link_for_run` returned."""
        self._use_window(len(transfers))
        deliveries = link.on_run(transfers)
        self.incoming.update({delivery.number: delivery for delivery in deliveries})
        self.handler.on_transfers(link, deliveries)

    def _on_disposition(self, disposition: Disposition) -> None:
        unsettled = self.outgoing if disposition.role else self.incoming
        first = disposition.first
        last = first if disposition.last is None else disposition.last
        state = decode_state(disposition.state)
        count = ((last - first) & _SEQUENCE_NUMBER_MASK) + 1
        numbers: Iterable[int]
        if count == 1:
            numbers = (first,)
        elif count <= len(unsettled):
            numbers = [(first + n) & _SEQUENCE_NUMBER_MASK for n in range(count)]
        else:  # search the unsettled deliveries, because the range may have billions of numbers
            offsets = sorted(
                offset for n in unsettled if (offset := (n - first) & _SEQUENCE_NUMBER_MASK) < count
            )
            numbers = [(first + offset) & _SEQUENCE_NUMBER_MASK for offset in offsets]
        on_disposition = self.handler.on_disposition
        for number in numbers:
            delivery = unsettled.get(number)
            if delivery is None:
                continue
            if disposition.settled:
                delivery.settled = True
                del unsettled[number]
            if state is not None:
                delivery.state = state
            on_disposition(delivery)
            if self.ended:
                return

    def _on_flow(self, flow: Flow) -> None:
        in_flight = (self._next_outgoing_id - (flow.next_incoming_id or 0)) & _SEQUENCE_NUMBER_MASK
        self._remote_window = flow.incoming_window - (
            in_flight if in_flight <= _SEQUENCE_NUMBER_MASK >> 1 else 0
        )
        if self._waiting_transfers:
            while self._waiting_transfers and self._remote_window > 0:
                self._remote_window -= 1
                self._next_outgoing_id = (self._next_outgoing_id + 1) & _SEQUENCE_NUMBER_MASK
                self.connection.write_body(self.channel, self._waiting_transfers.popleft()[1])
            if not self._waiting_transfers:
                self.handler.on_writable(self)
        if flow.handle is None:
            if flow.echo:
                self.write_flow()
            return
        link = self._find_link(flow.handle)
        if not link.is_open:
            if flow.echo and not self.ended:
                self.write_flow()
            return
        if not link.sends and flow.available is not None:
            link.available, link.properties = flow.available, flow.properties
        link.on_flow(flow.delivery_count, flow.link_credit, flow.drain)
        self.handler.on_flow(link)
        # Without credit, a drain is complete: report that to the receiver (Part 2, 2.6.7).
        is_drained = link.sends and link.drain and not link.credit
        if (flow.echo or is_drained) and link.is_open:
            self.write_flow(link)

    def _on_attach(self, attach: Attach) -> None:
        if attach.handle in self._links_by_remote_handle:
            raise SessionFaultError(HANDLE_IN_USE, f"handle {attach.handle} is in use")
        if attach.handle > _HANDLE_MAX:
            text = f"handle {attach.handle} exceeds the handle-max of {_HANDLE_MAX}"
            raise SessionFaultError(NOT_ALLOWED, text)
        link = self.links.get((attach.name, attach.role))
        if link is None:
            try:
                link = self.link(attach.name, sends=attach.role)
            except ValueError as error:
                raise SessionFaultError(RESOURCE_LIMIT_EXCEEDED, str(error)) from None
        elif link.remote_handle is not None:
            raise SessionFaultError(NOT_ALLOWED, f"link {attach.name!r} is already attached")
        self._links_by_remote_handle[attach.handle] = link
        link.on_attach(attach)
        self.handler.on_attach(link)

    def _on_detach(self, detach: Detach) -> None:
        link = self._find_link(detach.handle)
        del self._links_by_remote_handle[detach.handle]
        link.remote_handle = None
        if link.detached:
            self.drop(link)
            return
        self.handler.on_detach(link, detach.error, closed=detach.closed)
        if not self.ended:
            link.detach(closed=detach.closed)
