"""Sessions: the numbers of transfers, the handles of links, and dispositions (Part 2, 2.5)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from amqp10msg.composite import Error, composite_of, from_described
from amqp10msg.delivery import Accepted, DeliveryState, Rejected
from amqp10msg.net.transport.links import MASK, Delivery, Link, LinkFaultError
from amqp10msg.net.transport.performatives import (
    Attach,
    Begin,
    Detach,
    Disposition,
    End,
    Flow,
    Transfer,
)
from amqp10msg.wire.errors import DecodeError
from amqp10msg.wire.primitives import Described

if TYPE_CHECKING:
    from amqp10msg.net.transport.connection import Connection

#: Frames with transfers that the peer may send before it hears that they arrived.
_WINDOW = 2_048
_HANDLE_MAX = 1_023
_ACCEPTED = Accepted()
_ACCEPTED_CODE = composite_of(Accepted).code
_ERRANT = "amqp:session:errant-link"


class SessionFaultError(Exception):
    """The peer broke a rule of a session, which is ended with the error."""

    def __init__(self, condition: str, description: str) -> None:
        super().__init__(description)
        self.error = Error(condition, description)


def state_of(value: Any) -> Any:
    """Return the delivery state in a field: an object, or a `Described` if it is unknown.

    Raises:
        SessionFaultError: it is none, or breaks its declaration.
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
            state = _rejected(value)
            if state is None:
                raise SessionFaultError(error.condition, str(error)) from None
        if isinstance(state, DeliveryState):
            return state
    raise SessionFaultError("amqp:invalid-field", f"{value!r:.80} is not a delivery-state")


def _rejected(value: Described) -> Rejected | None:
    """Return what is a rejection but for its reason, which is shown and not acted on.

    go-amqp writes the keys of an error's info as strings.
    """
    try:
        state = from_described(value, strict=False)
    except DecodeError:
        return None
    if not isinstance(state, Rejected) or not isinstance(state.error, Error):
        return None
    condition: Any = state.error.condition  # whatever came, where it is lenient
    return state if isinstance(condition, str) else None


class Session:
    """One end of a session.

    Attributes:
        connection: its connection.
        channel: this end's channel.
        remote_channel: the peer's; None before it began.
        outgoing: deliveries to the peer that are not settled at both ends, by number.
        incoming: deliveries from the peer, likewise.
        ended: whether this end has ended.
        context: whatever its user keeps with it.
    """

    def __init__(self, connection: Connection, channel: int) -> None:
        self.connection = connection
        self.channel = channel
        self.remote_channel: int | None = None
        self.begun = False
        self.ended = False
        self.context: Any = None
        self.outgoing: dict[int, Delivery] = {}
        self.incoming: dict[int, Delivery] = {}
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
        self._told: Disposition | None = None  # not written yet: the next one may extend it

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
        """Return a new link, to be attached with `Link.attach`.

        Raises:
            ValueError: there is one of that name and role, or there are too many.
        """
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
        told = self._told
        if told is not None:
            self._told = None
            self.connection.write(self.channel, told)

    def next_delivery(self) -> int:
        """Return the number of the next delivery."""
        number = self._next_delivery
        self._next_delivery = (number + 1) & MASK
        return number

    def tell(self, sends: bool, number: int, settled: bool, state: Any) -> None:
        """Write a disposition, in one frame with those before where it can be."""
        told = self._told
        if (
            told is not None
            and told.last is not None
            and told.role != sends
            and told.last + 1 == number
            and told.settled is settled
            and (told.state is state or told.state == state)
        ):
            told.last = number
            return
        self.flush()
        self._told = Disposition(not sends, number, number, settled, state)
        self.connection.touched.add(self)

    def forget(self, delivery: Delivery) -> None:
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
        self._next_outgoing = (self._next_outgoing + 1) & MASK
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

    def clear(self) -> None:
        """Drop everything, as the session has ended."""
        for held in (self.outgoing, self.incoming, self.links, self._handles, self._own):
            held.clear()
        self._waiting.clear()
        self._told = None

    # What the peer does.

    def on_begin(self, channel: int, begin: Begin) -> None:
        """Take the peer's begin."""
        self.remote_channel = channel
        self._room = begin.incoming_window
        self._next_incoming = begin.next_outgoing_id
        self._handle_max = min(begin.handle_max, _HANDLE_MAX)

    def on_frame(self, performative: Any, payload: bytes) -> None:
        """Take a frame of the session other than begin and end.

        Raises:
            SessionFaultError: it breaks a rule of sessions.
            DecodeError: it is malformed.
        """
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
            raise SessionFaultError(
                "amqp:session:unattached-handle", f"the handle {handle} has no link"
            )
        return link

    def _on_transfer(self, transfer: Transfer, payload: bytes) -> None:
        self._next_incoming = (self._next_incoming + 1) & MASK
        self._window -= 1
        if self._window < 0:
            raise SessionFaultError("amqp:session:window-violation", "transfers exceed the window")
        if self._window * 2 < _WINDOW:
            self.write_flow()
        link = self._link_of(transfer.handle)
        if not link.is_open:
            return
        if link.sends:
            raise SessionFaultError(_ERRANT, f"the peer is the receiver of the link {link.name!r}")
        try:
            if transfer.state is not None:
                transfer.state = state_of(transfer.state)
            delivery = link.on_transfer(transfer, payload)
        except LinkFaultError as fault:
            self.connection.handler.on_detach(link, fault.error, closed=True)
            link.detach(fault.error)
            return
        if delivery is not None:
            self.connection.handler.on_transfer(delivery)

    def _on_disposition(self, disposition: Disposition) -> None:
        held = self.outgoing if disposition.role else self.incoming
        first = disposition.first
        last = first if disposition.last is None else disposition.last
        state = state_of(disposition.state)
        count = ((last - first) & MASK) + 1
        numbers: Iterable[int]
        if count == 1:
            numbers = (first,)
        elif count <= len(held):
            numbers = [(first + n) & MASK for n in range(count)]
        else:  # a range costs no more than what is there
            numbers = sorted((n for n in held if (n - first) & MASK < count), key=_from(first))
        on_disposition = self.connection.handler.on_disposition
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
        behind = (self._next_outgoing - (flow.next_incoming_id or 0)) & MASK
        self._room = flow.incoming_window - (behind if behind <= MASK >> 1 else 0)
        if self._waiting:
            while self._waiting and self._room > 0:
                self._room -= 1
                self._next_outgoing = (self._next_outgoing + 1) & MASK
                self.connection.write_body(self.channel, self._waiting.popleft()[1])
            if not self._waiting:
                self.connection.handler.on_writable(self)
        if flow.handle is None:
            if flow.echo:
                self.write_flow()
            return
        link = self._link_of(flow.handle)
        if not link.is_open:
            return
        if not link.sends and flow.available is not None:
            link.available, link.properties = flow.available, flow.properties
        link.on_flow(flow.delivery_count, flow.link_credit, flow.drain)
        self.connection.handler.on_flow(link)
        if flow.echo and link.is_open:
            self.write_flow(link)

    def _on_attach(self, attach: Attach) -> None:
        if attach.handle in self._handles:
            raise SessionFaultError(
                "amqp:session:handle-in-use", f"the handle {attach.handle} is used"
            )
        if attach.handle > _HANDLE_MAX:
            raise SessionFaultError("amqp:not-allowed", f"handles are {_HANDLE_MAX} at most here")
        link = self.links.get((attach.name, attach.role))
        if link is None:
            try:
                link = self.link(attach.name, sends=attach.role)
            except ValueError as error:
                raise SessionFaultError("amqp:resource-limit-exceeded", str(error)) from None
        elif link.remote_handle is not None:
            raise SessionFaultError(
                "amqp:not-allowed", f"the link {attach.name!r} is attached already"
            )
        self._handles[attach.handle] = link
        link.on_attach(attach)
        self.connection.handler.on_attach(link)

    def _on_detach(self, detach: Detach) -> None:
        link = self._link_of(detach.handle)
        del self._handles[detach.handle]
        link.remote_handle = None
        if link.detached:
            self.drop(link)
            return
        self.connection.handler.on_detach(link, detach.error, closed=detach.closed)
        if not self.ended:
            link.detach(closed=detach.closed)


def _from(first: int) -> Any:
    """Return the key by which numbers are in order from the first one on."""
    return lambda number: (number - first) & MASK
