"""The ends of a bridge that speak AMQP 1.0: proton's engine on asyncio, payloads untouched."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import proton

from amqp10msg.delivery.filters import StreamOffset
from amqp10msg.net.bridge.oversized import Oversized
from amqp10msg.net.bridge.terms import (
    ACCEPTED,
    Delivery,
    LinkError,
    OnLost,
    OnOutcome,
    OnRoom,
    Outcome,
    Outgoing,
    Overflow,
    Receive,
    Settle,
)
from amqp10msg.net.bridge.urls import Endpoint
from amqp10msg.parts import scan

__all__ = ["Amqp10Source", "Amqp10Target", "open_amqp10_source", "open_amqp10_target"]

_MAX_FRAME = 1 << 16
_SESSION_WINDOW = 1 << 24
_MAX_WRITE = 1 << 18
#: Conditions that no other attempt makes good.
_PERMANENT = {"amqp:not-found", "amqp:unauthorized-access", "amqp:not-allowed"}
#: Conditions of a peer that goes or fails, whatever was sent to it.
_AMBIGUOUS = {
    *{"amqp:connection:forced", "amqp:internal-error", "amqp:resource-deleted"},
    *{"amqp:link:detach-forced", "amqp:link:stolen"},
}
_STATES = {
    Settle.ACCEPT: proton.Delivery.ACCEPTED,
    Settle.RELEASE: proton.Delivery.RELEASED,
    Settle.REJECT: proton.Delivery.REJECTED,
}
#: What proton raises for what it cannot read.
_UNREADABLE = (UnicodeDecodeError, TypeError, ValueError, proton.ProtonException)


class _Connection(asyncio.Protocol):
    """A connection with one session and one link; methods ``on_*`` are proton's events."""

    def __init__(self, endpoint: Endpoint, on_lost: OnLost) -> None:
        self.endpoint = endpoint
        self.product = ""
        self._on_lost: OnLost | None = on_lost
        self._loop = asyncio.get_running_loop()
        self._stream: Any = None
        self._flushing = False
        self._timer: asyncio.TimerHandle | None = None
        self._closing = False
        self._failed = False
        self.paused = False
        self.opened: asyncio.Future[None] = self._loop.create_future()
        self.closed: asyncio.Future[None] = self._loop.create_future()
        self._collector = proton.Collector()
        connection: Any = proton.Connection()
        self._connection = connection
        self._engine: Any = proton.Transport()
        self._engine.max_frame_size = _MAX_FRAME
        self._engine.idle_timeout = endpoint.heartbeat
        sasl = self._engine.sasl()
        sasl.allow_insecure_mechs = True  # a warning says so, where it is another machine
        sasl.allowed_mechs(
            endpoint.mechanism or ("ANONYMOUS" if endpoint.user is None else "PLAIN")
        )
        if endpoint.user is not None:
            connection.user, connection.password = endpoint.user, endpoint.password or ""
        connection.container = f"amqp10msg-bridge-{id(self):x}"
        host = endpoint.server_name or endpoint.host
        connection.hostname = (
            host if endpoint.virtual_host is None else f"vhost:{endpoint.virtual_host}"
        )
        connection.collect(self._collector)
        connection.open()
        session = connection.session()
        session.incoming_capacity = _SESSION_WINDOW
        session.open()
        self._link: Any = self.make_link(session)
        self._link.open()
        self._engine.bind(connection)

    def make_link(self, session: Any) -> Any:
        """Make the one link of this connection."""
        raise NotImplementedError

    # Called by asyncio.

    def connection_made(self, transport: Any) -> None:
        """Begin to speak."""
        self._stream = transport
        self.flush()

    def data_received(self, data: bytes) -> None:
        """Process bytes of the peer."""
        at = 0
        while at < len(data) and not self._failed:
            capacity = self._engine.capacity()
            if capacity <= 0:
                break
            try:
                self._engine.push(data[at : at + capacity])
            except proton.ProtonException:
                break  # the events tell
            at += capacity
            self._handle_events()
        self._handle_events()
        self.touch()

    def eof_received(self) -> None:
        """Take the end of what the peer sends."""
        with contextlib.suppress(proton.ProtonException):
            self._engine.close_tail()
        self._handle_events()
        self.touch()

    def connection_lost(self, exc: Exception | None) -> None:
        """End: the peer is gone."""
        self.fail(LinkError(f"the connection was cut{f' ({exc})' if exc else ''}"))
        if not self.closed.done():
            self.closed.set_result(None)

    def pause_writing(self) -> None:
        """Stop sending until the peer reads again."""
        self.paused = True

    def resume_writing(self) -> None:
        """Resume sending."""
        self.paused = False
        self.flush()
        self.ready()

    def ready(self) -> None:
        """Called where there may be room again."""

    # Proton's engine.

    def touch(self) -> None:
        """Send what is pending at the end of this turn of the loop."""
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Write what is pending to the socket."""
        self._flushing = False
        stream, engine = self._stream, self._engine
        if stream is None or self._failed:
            return
        pieces: list[bytes] = []
        while not self.paused and not stream.is_closing():
            pending = engine.pending()
            if pending <= 0:
                break
            octets = engine.peek(min(pending, _MAX_WRITE))
            engine.pop(len(octets))
            pieces.append(octets)
            if len(pieces) >= 8:
                stream.write(b"".join(pieces))
                pieces.clear()
        if pieces:
            stream.write(b"".join(pieces))
        self._handle_events()
        if not stream.is_closing() and engine.pending() < 0:
            stream.close()
        self._schedule()

    def _schedule(self) -> None:
        now = self._loop.time()
        deadline = self._engine.tick(now)
        if self._timer is not None and (not deadline or self._timer.when() > deadline):
            self._timer.cancel()
            self._timer = None
        if deadline and self._timer is None and not self._stream.is_closing():
            self._timer = self._loop.call_at(deadline, self._on_time)

    def _on_time(self) -> None:
        self._timer = None
        self._handle_events()
        self.flush()

    def _handle_events(self) -> None:
        collector = self._collector
        while not self._failed and (event := collector.peek()) is not None:
            handle = getattr(self, event.type.method, None)
            if handle is not None:
                try:
                    handle(event)
                except _UNREADABLE as error:
                    self.fail(LinkError(f"the peer sent what cannot be read: {error}", said=True))
            collector.pop()

    # Proton's events.

    def on_connection_remote_open(self, event: Any) -> None:
        """Learn what the peer is."""
        with contextlib.suppress(*_UNREADABLE):
            properties = event.connection.remote_properties or {}
            self.product = f"{properties.get('product', '')} {properties.get('version', '')}"

    def on_link_remote_open(self, event: Any) -> None:
        """See that the link is what was asked for."""
        link = event.link
        end = link.remote_target if link.is_sender else link.remote_source
        if end.address is None and self.endpoint.address is not None:
            return  # refused: a detach follows (Part 2, 2.6.3)
        self.attached(link)
        if not self.opened.done():
            self.opened.set_result(None)

    def attached(self, link: Any) -> None:
        """Called when the peer attached."""

    def on_link_remote_close(self, event: Any) -> None:
        """End: the peer closed the link."""
        self._ended("link", event.link)

    def on_link_remote_detach(self, event: Any) -> None:
        """End: the peer detached the link."""
        self._ended("link", event.link)

    def on_session_remote_close(self, event: Any) -> None:
        """End: the peer closed the session."""
        self._ended("session", event.session)

    def on_connection_remote_close(self, event: Any) -> None:
        """End: the peer closed the connection."""
        self._ended("connection", event.connection)

    def on_transport_error(self, event: Any) -> None:
        """End: refused, no frames, or silent."""
        condition = event.transport.condition
        name = condition.name if condition else ""
        text = f"{name}: {condition.description}" if condition else "the transport failed"
        self.fail(LinkError(text, said=False, permanent=name == "amqp:unauthorized-access"))

    def on_transport_closed(self, _: Any) -> None:
        """End: both sides closed."""
        self.fail(LinkError("the peer closed the connection"))

    def _ended(self, what: str, end: Any) -> None:
        name = text = ""
        try:
            condition = end.remote_condition
            if condition:
                name, text = condition.name, f"{condition.name}: {condition.description}"
        except _UNREADABLE as error:
            text = f"closed with an error that cannot be read: {error}"
        # What ends a session or connection may be the fault of a message; what refuses a link is
        # not.
        permanent = name in _PERMANENT and not self.opened.done()
        reason = text or f"the peer closed the {what}"
        self.fail(
            LinkError(reason, said=bool(text) and name not in _AMBIGUOUS, permanent=permanent)
        )

    # The end.

    def fail(self, lost: LinkError) -> None:
        """End the connection, and say so once."""
        if self._failed:
            return
        self._failed = True
        if not self.opened.done():
            self.opened.set_exception(lost)
            self.opened.exception()  # whoever waits for it sees it; nobody has to
        tell, self._on_lost = self._on_lost, None
        self.abort()
        if tell is not None and not self._closing:
            tell(lost)

    @property
    def alive(self) -> bool:
        """Whether it is not lost yet."""
        return not self._failed

    def abort(self) -> None:
        """Drop the connection at once; nothing is called any more."""
        self._failed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._stream is not None and not self._stream.is_closing():
            self._stream.close()
            self._loop.call_later(1.0, self._stream.abort)

    async def close(self, wait: float) -> None:
        """Send what is pending, and close; give up after so many seconds."""
        self._closing = True
        if self._failed:
            return
        self._connection.close()
        self.flush()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait):
                await asyncio.shield(self.closed)
        self.abort()


class Amqp10Source(_Connection):
    """A receiver of an address; deliveries come by `receive`."""

    def __init__(
        self,
        endpoint: Endpoint,
        receive: Receive,
        on_lost: OnLost,
        window: int,
        max_message: int,
        overflow: Overflow,
    ) -> None:
        self._receive = receive
        self._window = window
        self._max_message = max_message
        self._overflow = overflow
        self._owed = 0
        self._stopped = False
        self._partial: dict[Any, bytearray | Oversized] = {}
        super().__init__(endpoint, on_lost)

    def make_link(self, session: Any) -> Any:
        """Make the receiver."""
        link = session.receiver(f"bridge-{id(self):x}")
        link.source.address = self.endpoint.address
        link.snd_settle_mode = proton.Link.SND_UNSETTLED
        offset = self.endpoint.offset
        if offset is not None:
            start: Any = int(offset) if offset.isascii() and offset.isdecimal() else offset
            described = StreamOffset(start).to_described()
            name = proton.symbol(str(StreamOffset.SYMBOL))
            link.source.filter.put_object({name: proton.Described(name, described.value)})
        return link

    def attached(self, link: Any) -> None:
        """Grant credit, unless the peer would settle before we do."""
        if link.remote_snd_settle_mode == proton.Link.SND_SETTLED:
            text = "this source sends settled: what is lost on the way would be lost for good"
            self.fail(LinkError(text, said=True, permanent=True))
            return
        link.flow(self._window)

    def on_delivery(self, event: Any) -> None:
        """Hand over a delivery once all its bytes are here."""
        delivery = event.delivery
        link = self._link
        if delivery.aborted:
            _discard(self._partial.pop(tag_of(delivery), None))
            delivery.settle()
            return
        if not delivery.readable:
            return
        octets = link.recv(delivery.pending) or b""
        partial = delivery.partial
        large: Oversized | None = None
        if partial or self._partial or len(octets) > self._max_message:
            try:
                taken = self._add(tag_of(delivery), octets)
            except OSError as error:
                self.fail(LinkError(f"a message that is too large cannot be put aside: {error}"))
                return
            if partial:
                return
            del self._partial[tag_of(delivery)]
            if isinstance(taken, Oversized):
                octets, large = b"", taken
            else:
                octets = bytes(taken)
        link.advance()
        again = _again(octets)
        self._receive(Delivery(octets, redelivered=again, tag=delivery, link=self, large=large))

    def _add(self, tag: Any, octets: bytes) -> bytearray | Oversized:
        """Add bytes to those of a delivery, which go to a file once they are too many."""
        taken = self._partial.setdefault(tag, bytearray())
        if isinstance(taken, bytearray) and len(taken) + len(octets) > self._max_message:
            large = self._overflow()
            self._partial[tag] = large
            large.extend(taken)
            taken = large
        taken.extend(octets)
        return taken

    def abort(self) -> None:
        """Drop the connection at once; nothing is called any more."""
        super().abort()
        for taken in self._partial.values():
            _discard(taken)
        self._partial.clear()

    def settle(self, delivery: Delivery, how: Settle) -> None:
        """Settle a delivery of this link; of another one, do nothing."""
        if delivery.link is not self:
            return
        delivery.link = None
        if self._failed:
            return
        tag, delivery.tag = delivery.tag, None
        tag.update(_STATES[how])
        tag.settle()
        self._owed += 1
        if self._owed * 4 >= self._window and not self._stopped:
            self._link.flow(self._owed)
            self._owed = 0
        self.touch()

    def stop(self) -> None:
        """Ask for no more deliveries."""
        if not self._failed:
            self._stopped = True
            self._link.drain(0)
            self.touch()

    def hold(self, held: bool) -> None:
        """Stop reading from the connection, or read on."""
        if self._stream is not None and not self._stream.is_closing():
            (self._stream.pause_reading if held else self._stream.resume_reading)()


class Amqp10Target(_Connection):
    """A sender to an address; outcomes come by `on_outcome`."""

    def __init__(
        self,
        endpoint: Endpoint,
        on_outcome: OnOutcome,
        on_room: OnRoom,
        on_lost: OnLost,
        window: int,
    ) -> None:
        self._outcome = on_outcome
        self._on_room = on_room
        self._window = window
        self._sent = 0
        self._longest = 0
        self._unsettled: dict[str, Delivery] = {}
        super().__init__(endpoint, on_lost)

    def make_link(self, session: Any) -> Any:
        """Make the sender."""
        link = session.sender(f"bridge-{id(self):x}")
        if self.endpoint.address is None:
            link.target.type = proton.Terminus.TARGET
        else:
            link.target.address = self.endpoint.address
        link.snd_settle_mode = proton.Link.SND_UNSETTLED
        return link

    def attached(self, link: Any) -> None:
        """Note how long a message may be."""
        self._longest = link.remote_max_message_size or 0

    @property
    def room(self) -> int:
        """How many messages may be sent now."""
        if self.paused or self._failed:
            return 0
        credit: int = self._link.credit
        return min(credit, self._window - len(self._unsettled))

    @property
    def waits(self) -> bool:
        """Whether the peer takes nothing for now: 1.0 says so by its credit alone."""
        return False

    def ready(self) -> None:
        """Go on sending."""
        self._on_room()

    def on_link_flow(self, _: Any) -> None:
        """Go on sending: there may be credit."""
        if self._link.drain_mode:
            self._link.drained()
        self._on_room()

    def send(self, outgoing: Outgoing, delivery: Delivery) -> None:
        """Send a message; what is too long for the peer has its outcome at once."""
        octets = outgoing.octets
        if self._longest and len(octets) > self._longest:
            text = f"{len(octets)} bytes, and the target takes {self._longest} at most"
            self._outcome(delivery, Outcome("too-large", "", text, final=True))
            return
        self._sent += 1
        tag = str(self._sent)
        link = self._link
        link.delivery(tag)
        link.stream(octets)
        link.advance()
        self._unsettled[tag] = delivery
        self.touch()

    def on_delivery(self, event: Any) -> None:
        """Report an outcome."""
        delivery = event.delivery
        if not delivery.updated:
            return
        state = delivery.remote_state
        settled = delivery.settled
        if not settled and state == proton.Delivery.RECEIVED:
            return  # not terminal
        tag = delivery.tag
        if state == proton.Delivery.ACCEPTED:
            outcome = ACCEPTED
        else:
            outcome = _outcome_of(delivery, state)
            if outcome.kind == "rejected" and not outcome.final and "RabbitMQ" in self.product:
                outcome = Outcome("full", "", "a queue of RabbitMQ rejected it, as full ones do")
        delivery.settle()
        sent = self._unsettled.pop(tag, None)
        if sent is not None:
            self._outcome(sent, outcome)
            if not self._flushing:
                self.touch()
        if len(self._unsettled) * 2 <= self._window:
            self._on_room()


def _outcome_of(delivery: Any, state: Any) -> Outcome:
    if state == proton.Delivery.REJECTED:
        name = text = ""
        try:
            condition = delivery.remote.condition
            if condition:
                name, text = str(condition.name), str(condition.description or "")
        except _UNREADABLE as error:
            text = f"with an error that cannot be read: {error}"
        return Outcome("rejected", name, text, final=bool(name))
    if state == proton.Delivery.MODIFIED:
        return Outcome("modified", final=bool(delivery.remote.undeliverable))
    if state == proton.Delivery.RELEASED:
        return Outcome("released")
    return Outcome("released", "", "settled without an outcome")


def _discard(taken: Any) -> None:
    if isinstance(taken, Oversized):
        taken.discard()


def tag_of(delivery: Any) -> Any:
    """Return what tells a delivery from others: its tag, or its bytes where they are no text."""
    try:
        return delivery.tag
    except UnicodeDecodeError as error:
        return error.object


def _again(octets: bytes) -> bool:
    """Return whether the header says that it may have been delivered before."""
    if octets[:3] != b"\x00\x53\x70":
        return False
    try:
        header = scan(octets).section("header")
    except ValueError:
        return False
    return header is not None and bool(header.delivery_count or header.first_acquirer is False)


async def _connect(make: Callable[[], Any], at: Endpoint) -> Any:
    loop = asyncio.get_running_loop()
    made = make()
    try:
        async with asyncio.timeout(at.timeout):
            name = (at.server_name or at.host) if at.tls else None
            await loop.create_connection(
                lambda: made, at.host, at.port, ssl=at.tls_context(), server_hostname=name
            )
            await made.opened
    except TimeoutError:
        made.abort()
        raise LinkError(f"no answer within {at.timeout:g} s") from None
    except LinkError:
        made.abort()
        raise
    except OSError as error:
        made.abort()
        raise LinkError(str(error)) from None
    return made


async def open_amqp10_source(
    endpoint: Endpoint,
    receive: Receive,
    on_lost: OnLost,
    *,
    window: int,
    max_message: int,
    overflow: Overflow,
) -> Amqp10Source:
    """Attach to a source.

    Raises:
        LinkError: it did not succeed.
    """

    def make() -> Amqp10Source:
        return Amqp10Source(endpoint, receive, on_lost, window, max_message, overflow)

    source: Amqp10Source = await _connect(make, endpoint)
    return source


async def open_amqp10_target(
    endpoint: Endpoint, on_outcome: OnOutcome, on_room: OnRoom, on_lost: OnLost, *, window: int
) -> Amqp10Target:
    """Attach to a target.

    Raises:
        LinkError: it did not succeed.
    """
    make = lambda: Amqp10Target(endpoint, on_outcome, on_room, on_lost, window)  # noqa: E731
    target: Amqp10Target = await _connect(make, endpoint)
    return target
