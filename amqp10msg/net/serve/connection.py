"""One connection: moves bytes between a socket and the transport, and its events to the nodes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from amqp10msg import DecodeError
from amqp10msg.delivery import Error
from amqp10msg.delivery.node import NodeError
from amqp10msg.net import transport
from amqp10msg.net.serve.attaches import Attach
from amqp10msg.net.serve.links import Incoming, Outgoing
from amqp10msg.net.serve.opening import Opener
from amqp10msg.net.serve.transactions import Transactions
from amqp10msg.net.transport import SaslServer

if TYPE_CHECKING:
    from amqp10msg.net.serve.server import Server

_MAX_FRAME = 1 << 16
_CHANNEL_MAX = 255
#: Seconds that a peer has to answer a close before the socket is closed.
_LINGER = 5.0
#: Seconds that a peer has to open the connection, and to say who it is.
_OPENING = 10.0
#: Seconds that one may wait for its turn to give a password; beyond, the socket is closed.
_LONGEST_TURN = 30.0


class Connection(asyncio.Protocol, transport.Handler):
    """A connection of a server."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.paused = False
        self.waiting: set[Outgoing] = set()
        self.user: str | None = None
        # Identifies this connection in its messages, which may outlive it.
        self.origin = object()
        self.engine = transport.Connection(
            self,
            transport.Open(
                container_id=server.container_id,
                max_frame_size=_MAX_FRAME,
                channel_max=_CHANNEL_MAX,
                offered_capabilities=("ANONYMOUS-RELAY",),
                properties=server.properties,
            ),
        )
        self.transactions = Transactions(server.limits)
        self._sasl: SaslServer | None = SaslServer(anonymous=server.anonymous, users=server.users)
        self._opener = Opener(self)
        self._stream: Any = None
        self._peer = ""
        self._timer: asyncio.TimerHandle | None = None
        self._linger: asyncio.TimerHandle | None = None
        self._opening: asyncio.TimerHandle | None = None
        self._host = ""
        # What came while the peer waits for its turn to say who it is; None before and after.
        self._early: bytearray | None = None
        self._took_turn = False
        self._links: dict[transport.Link, Outgoing | Incoming] = {}

    def log(self, event: str, level: int = logging.INFO, **fields: Any) -> None:
        """Log an event of this connection."""
        self.server.log(event, level, peer=self._peer, **fields)

    # Called by asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Register the connection."""
        self._stream = transport
        name = transport.get_extra_info("peername")
        self._peer = f"{name[0]}:{name[1]}" if isinstance(name, tuple) else str(name)
        self._host = str(name[0]) if isinstance(name, tuple) else ""
        if not self.server.admits():
            self._stream.abort()
            return
        self.server.connections.add(self)
        self._opening = asyncio.get_running_loop().call_later(_OPENING, self._too_late)
        self.log("connected", tls=transport.get_extra_info("cipher") is not None)

    def data_received(self, data: bytes) -> None:
        """Process bytes of the peer."""
        if self._sasl is not None:
            if self._early is not None:
                self._early += data
                return
            if self._waits(data):
                return
            reply, data = self._sasl.receive(data)
            self._stream.write(reply)
            if self._sasl.failed:
                self.log("refused", logging.WARNING, why=self._sasl.failed)
                if self.server.users:
                    self.server.guesses.refused(self._host, asyncio.get_running_loop().time())
                self._stream.close()
                return
            if not self._sasl.done:
                return
            self.user = self._sasl.user
            self._sasl = None
        self.engine.feed(data)
        self._turn(self._read)

    def _waits(self, data: bytes) -> bool:
        """Wait for the turn of the peer's host, where it was refused before; once a connection."""
        if self._took_turn or not self.server.users:
            return False
        self._took_turn = True
        loop = asyncio.get_running_loop()
        wait = self.server.guesses.wait(self._host, loop.time())
        if wait > _LONGEST_TURN:
            self.log("refused", logging.WARNING, why="too many wrong passwords from this host")
            self._stream.abort()
            return True
        if not wait:
            return False
        self._early = bytearray(data)
        self._stream.pause_reading()
        if self._opening is not None:
            self._opening.cancel()
        self._opening = loop.call_later(wait + _OPENING, self._too_late)
        loop.call_later(wait, self._on_turn)
        return True

    def _on_turn(self) -> None:
        early, self._early = self._early, None
        if early is not None and not self._stream.is_closing():
            self._stream.resume_reading()
            self.data_received(bytes(early))

    def _too_late(self) -> None:
        self.log("refused", logging.WARNING, why="the peer did not open the connection in time")
        self._stream.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the links: unsettled deliveries get their outcome, unless the terminus remains."""
        for timer in (self._timer, self._linger, self._opening):
            if timer is not None:
                timer.cancel()
        self.server.connections.discard(self)
        try:
            self.server.turns.run(self._end_all)
        finally:
            self.server.turns.touched.discard(self)
            self.log("disconnected", why=str(exc or ""))

    def pause_writing(self) -> None:
        """Stop sending until the peer reads again."""
        self.paused = True

    def resume_writing(self) -> None:
        """Resume sending."""
        self.paused = False
        self.server.turns.run(self.touch)

    # Turns.

    def _turn(self, work: Callable[[], object]) -> None:
        """Run some work of this connection; if it fails, only this connection is closed."""

        def guarded() -> None:
            try:
                work()
            except Exception as error:  # noqa: BLE001  (logged)
                self.fail(error)

        self.server.turns.run(guarded)

    def fail(self, error: Exception, where: str = "") -> None:
        """Close after an error of the server itself, and release all that the connection held.

        It is released at once, since the peer may never answer the close.
        """
        self.server.logger.error("fault %s", where, exc_info=error)
        try:
            self.close(Error("amqp:internal-error", str(error)))
        finally:
            self._end_all()

    def _read(self) -> None:
        """Process what the peer sent, one frame at least, and the rest as the turn allows."""
        self.touch()
        step = self.engine.step
        while step():
            if self.server.turns.is_over:
                self._read_on()
                return

    def _read_on(self) -> None:
        """Read on in another turn, after those of other connections."""
        self._stream.pause_reading()

        def read_on() -> None:
            if self in self.server.connections:  # otherwise lost meanwhile, and its links ended
                self._stream.resume_reading()
                self._turn(self._read)

        asyncio.get_running_loop().call_soon(read_on)

    def touch(self) -> None:
        """Schedule a flush at the end of this turn."""
        self.server.turns.touched.add(self)

    def confirm(self, send: Callable[[], None]) -> None:
        """Schedule a call after the next commit of the store, to send a confirmation."""
        self.touch()
        self.server.turns.confirmations.append((self, send))

    def flush(self) -> bool:
        """Write pending bytes to the socket; return whether waiting links may send again."""
        if self._stream is None or self._sasl is not None:
            return False
        self._schedule()
        if not self._stalled:
            data = self.engine.take()
            if data:
                self._stream.write(data)
            if self.engine.over and not self._stalled:
                self._stream.close()
        return bool(self.waiting) and not self.paused

    @property
    def _stalled(self) -> bool:
        return self.paused or bool(self._stream.is_closing())

    def _schedule(self) -> None:
        """Set the timer for the frames that keep an idle connection alive."""
        loop = asyncio.get_running_loop()
        deadline = self.engine.tick(loop.time())
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if deadline is not None and not self._stream.is_closing():
            self._timer = loop.call_at(deadline, self.server.turns.run, self.touch)

    # Called by the transport.

    def on_open(self) -> None:
        """Open our end of the connection."""
        if self._opening is not None:
            self._opening.cancel()
        self.engine.open()
        self.log("opened", container=self.container, user=self.user)

    def on_close(self, error: Error | None, *, fault: bool) -> None:
        """End all links."""
        if fault and error is not None:
            why = f"{error.condition}: {error.description}"
            self.log("transport-error", logging.WARNING, why=why)
        self._end_all()

    def on_begin(self, session: transport.Session) -> None:
        """Begin our end of the session."""
        session.begin()

    def on_end(self, session: transport.Session, error: Error | None) -> None:
        """End the links of a session."""
        if error is not None:
            self.log("session-error", condition=error.condition, why=error.description)
        for link in [link for link in self._links if link.session is session]:
            self._end(link, "session")
        self.server.termini.end_of(session, "session")

    def on_attach(self, link: transport.Link) -> None:
        """Join the link with a node, or refuse it."""
        if link.remote is None:
            return
        if not link.sends and not self.server.receiver_settles_second:
            link.rcv_settle_mode = transport.ReceiverSettleMode.FIRST
        attach = Attach.of(link.remote)
        try:
            if attach.fault is not None:
                raise attach.fault
            self._steal(link)
            end = self._opener.open(link, attach)
        except DecodeError as error:
            self._refuse(link, Error(error.condition, str(error)))
            return
        except NodeError as error:
            self._refuse(link, error.error)
            return
        self._links[link] = end
        self.server.links[self._identity(link)] = (self, link)
        if isinstance(end, Incoming):
            end.grant()
            node = end.target.node.name if end.target else getattr(attach.target, "address", None)
        else:
            node = end.node.name
            self.server.turns.add(end)
        self.log("attached", link=link.name, node=node, receiver=link.sends)

    def on_detach(self, link: transport.Link, error: Error | None, *, closed: bool) -> None:
        """End the link; the terminus of one that is detached may remain."""
        if error is not None:
            self.log("link-error", link=link.name, condition=error.condition, why=error.description)
        self._end(link, None if closed else "link")

    def on_flow(self, link: transport.Link) -> None:
        """Send as many messages as the credit allows."""
        end = self._links.get(link)
        if isinstance(end, Outgoing):
            end.tell_counts()
            self.server.turns.ready[end] = None

    def on_transfer(self, delivery: transport.Delivery) -> None:
        """Publish a message."""
        end = self._links.get(delivery.link)
        if isinstance(end, Incoming):
            end.on_transfer(delivery)

    def on_disposition(self, delivery: transport.Delivery) -> None:
        """Apply an outcome; what a sender settles was answered before."""
        end = self._links.get(delivery.link)
        if isinstance(end, Outgoing):
            end.on_disposition(delivery)

    # Links.

    @property
    def container(self) -> str:
        """The peer's container-id."""
        remote = self.engine.remote
        return remote.container_id if remote is not None else ""

    def key(self, link: transport.Link) -> tuple[str, str]:
        """Return what a terminus of the peer is kept by."""
        return self.container, link.name

    def _identity(self, link: transport.Link) -> tuple[str, str, bool]:
        """Return what identifies a link (Part 2, 2.6.1)."""
        return (*self.key(link), link.sends)

    def _steal(self, link: transport.Link) -> None:
        """Detach the link that a new attach takes over (Part 2, 2.6.1)."""
        known = self.server.links.get(self._identity(link))
        if known is not None and self.container:
            connection, stolen = known
            connection.log("stolen", link=stolen.name)
            connection._end(stolen, "link")
            connection.end_link(stolen, Error("amqp:link:stolen", "the link was attached again"))

    def _refuse(self, link: transport.Link, error: Error) -> None:
        self.log("link-refused", link=link.name, condition=error.condition, why=error.description)
        link.refuse(error)

    def end_link(self, link: transport.Link, error: Error | None) -> None:
        """Close a link with an error, and end its terminus."""
        link.detach(error)
        self._end(link, None)
        self.touch()

    def _end(self, link: transport.Link, ends: str | None) -> None:
        """End a link, or keep its terminus as its expiry policy says.

        Args:
            link: the link of the transport.
            ends: what ends: "link", "session" or "connection"; None if the link is closed.
        """
        end = self._links.pop(link, None)
        if end is None:
            return
        if self.server.links.get(self._identity(link)) == (self, link):
            del self.server.links[self._identity(link)]
        try:
            if isinstance(end, Incoming):
                self.transactions.end_of(link)
                if end.target is not None:
                    end.target.detach()
            else:
                self.server.turns.remove(end)
                self.server.termini.retire(self.key(link), end, ends)
        except Exception:  # other links end after this one
            self.server.logger.exception("fault at the end of a link")
            if isinstance(end, Outgoing):
                self.server.release(end.out)
        self.log("detached", link=link.name)

    def _end_all(self) -> None:
        for link in list(self._links):
            self._end(link, "connection")
        self.server.termini.end_of(self, "connection")
        self.server.management.end_of(self)

    def close(self, error: Error) -> None:
        """Close with an error, which the peer gets if it can."""
        if self._sasl is not None or self._stream.is_closing():
            self._stream.abort()
        else:
            self.engine.close(error)
            self.touch()
            if self._linger is None:
                self._linger = asyncio.get_running_loop().call_later(_LINGER, self.abort)

    def abort(self) -> None:
        """Close the socket at once."""
        self._stream.abort()
