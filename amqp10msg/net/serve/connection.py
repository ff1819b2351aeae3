"""One connection: moves octets to and from proton's engine and applies its events to the nodes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

import proton

from amqp10msg import DecodeError, Message
from amqp10msg._core import encode_value
from amqp10msg.delivery import Coordinator, Error, Released, StdDistMode, TxnCapability
from amqp10msg.delivery.filters import parse
from amqp10msg.delivery.node import Capacity, DistributionNode, NodeError, OutgoingLink
from amqp10msg.net.serve.attaches import Attach, AttachReader
from amqp10msg.net.serve.exchanges import exchange_of
from amqp10msg.net.serve.links import Incoming, Outgoing, PassingFilter, refuse
from amqp10msg.net.serve.nodes import LIFETIME, NOT_FOUND
from amqp10msg.net.serve.sasl import SaslServer
from amqp10msg.net.serve.transactions import Published, Transactions
from amqp10msg.primitives import Symbol

if TYPE_CHECKING:
    from amqp10msg.net.serve.server import Server

__all__ = ["Connection"]

_MODES = {
    StdDistMode.MOVE: proton.Terminus.DIST_MODE_MOVE,
    StdDistMode.COPY: proton.Terminus.DIST_MODE_COPY,
}
# Of sources and targets. A node is a queue: a subscriber does not get what another one got.
_CAPABILITIES = {"queue", "temporary-queue"}
_TXN_CAPABILITIES = (TxnCapability.LOCAL_TRANSACTIONS, TxnCapability.MULTI_TXNS_PER_SSN)
_MAX_FRAME = 1 << 16
_SESSION_WINDOW = 1 << 22
_MAX_READ = 1 << 14
_MAX_WRITE = 1 << 16
# Responses of a service that a peer has not taken yet.
_MAX_RESPONSES = 1_000
#: Seconds that a peer has to answer a close before the socket is closed.
_LINGER = 5.0


def _put_symbols(data: Any, names: Iterable[str]) -> None:
    undescribed: Any = proton.UNDESCRIBED
    symbols: list[Any] = [proton.symbol(name) for name in names]
    data.put_object(proton.Array(undescribed, proton.Data.SYMBOL, *symbols))


class Connection(asyncio.Protocol):
    """A connection of a server. The methods ``on_*`` are named after proton's events."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.paused = False
        self.waiting: set[Outgoing] = set()
        self.user: str | None = None
        # Identifies this connection in its messages, which may outlive it.
        self.origin = object()
        self._sasl: SaslServer | None = SaslServer(anonymous=server.anonymous, users=server.users)
        self._attaches = AttachReader()
        self._stream: Any = None
        self._peer = ""
        self._timer: asyncio.TimerHandle | None = None
        self._linger: asyncio.TimerHandle | None = None
        self._collector = proton.Collector()
        self._connection: Any = proton.Connection()
        self._connection.container = server.container_id
        self._connection.properties = {
            proton.symbol(key): value for key, value in server.properties.items()
        }
        self._connection.collect(self._collector)
        self._engine: Any = proton.Transport(proton.Transport.SERVER)
        self._engine.max_frame_size = _MAX_FRAME
        self._engine.channel_max = 255
        self._engine.bind(self._connection)
        self._links: dict[Any, Outgoing | Incoming] = {}
        self._services: dict[str, DistributionNode] = {}
        self.transactions = Transactions(server.limits)

    def log(self, event: str, level: int = logging.INFO, **fields: Any) -> None:
        """Log an event of this connection."""
        self.server.log(event, level, peer=self._peer, **fields)

    # Called by asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Register the connection."""
        self._stream = transport
        name = transport.get_extra_info("peername")
        self._peer = f"{name[0]}:{name[1]}" if isinstance(name, tuple) else str(name)
        self.server.connections.add(self)
        self.log("connected", tls=transport.get_extra_info("cipher") is not None)

    def data_received(self, data: bytes) -> None:
        """Process octets of the peer."""
        if self._sasl is not None:
            reply, data = self._sasl.receive(data)
            self._stream.write(reply)
            if self._sasl.failed:
                self.log("refused", logging.WARNING, why=self._sasl.failed)
                self._stream.close()
                return
            if not self._sasl.done:
                return
            self.user = self._sasl.user
            self._sasl = None
        octets = self._attaches.feed(data)
        self._turn(lambda: self._push(octets))

    def eof_received(self) -> None:
        """Close our side after the peer closed its side."""
        self._turn(self._engine.close_tail)

    def connection_lost(self, exc: Exception | None) -> None:
        """End the links: unsettled deliveries get their outcome, unless the terminus remains."""
        for timer in (self._timer, self._linger):
            if timer is not None:
                timer.cancel()
        self.server.connections.discard(self)
        try:
            self.server.turn(self._end_all)
        finally:
            self.server.touched.discard(self)
            self.log("disconnected", why=str(exc or ""))

    def pause_writing(self) -> None:
        """Stop sending until the peer reads again."""
        self.paused = True

    def resume_writing(self) -> None:
        """Resume sending."""
        self.paused = False
        self.server.turn(self.touch)

    # Proton's engine.

    def _turn(self, work: Callable[[], object]) -> None:
        """Do some work of this connection; if it fails, only this connection is closed."""

        def guarded() -> None:
            try:
                work()
            except Exception as error:  # noqa: BLE001  (logged)
                self.fail(error)

        self.server.turn(guarded)

    def fail(self, error: Exception, where: str = "") -> None:
        """Close after an error of the server itself, and release all that the connection held.

        It is released at once, since the peer may never answer the close.
        """
        self.server.logger.error("fault %s", where, exc_info=error)
        try:
            self.close(Error("amqp:internal-error", str(error)))
        finally:
            self._end_all()

    def _push(self, data: bytes) -> None:
        self.touch()
        position = 0
        while position < len(data):
            if position and self.server.is_over:
                self._wait_with(data[position:])
                return
            capacity = min(self._engine.capacity(), _MAX_READ)
            if capacity <= 0:
                break
            self._engine.push(data[position : position + capacity])
            position += capacity
            self._handle_events()
        while self._attaches.duplicates:
            self._end_session_of(self._attaches.duplicates.popleft())

    def _wait_with(self, data: bytes) -> None:
        """Read on in another turn, after those of other connections."""
        self._stream.pause_reading()

        def read_on() -> None:
            if self not in self.server.connections:
                return  # lost meanwhile, and its links have ended
            self._stream.resume_reading()
            self._turn(lambda: self._push(data))

        asyncio.get_running_loop().call_soon(read_on)

    def _end_session_of(self, attach: Attach) -> None:
        """End the session on which a link is attached a second time."""
        link = self._connection.link_head(proton.Endpoint.LOCAL_ACTIVE)
        while link is not None:
            if link.name == attach.name and link.is_sender == attach.receives:
                self._end_links(link.session)
                error = Error("amqp:not-allowed", f"the link {link.name!r} is attached already")
                refuse(link.session, error)
                return
            link = link.next(proton.Endpoint.LOCAL_ACTIVE)

    def _handle_events(self) -> None:
        while (event := self._collector.peek()) is not None:
            handle = getattr(self, event.type.method, None)
            if handle is not None:
                try:
                    handle(event)
                except UnicodeDecodeError as error:
                    # Proton passes on names as the peer sent them.
                    self.log("refused", logging.WARNING, why=str(error))
                    refuse(self._connection, Error("amqp:decode-error", "a name is not UTF-8"))
                except Exception as error:  # noqa: BLE001  (logged)
                    self.fail(error, f"in {event.type.name}")
            self._collector.pop()

    def touch(self) -> None:
        """Schedule a flush at the end of this turn."""
        self.server.touched.add(self)

    def confirm(self, send: Callable[[], None]) -> None:
        """Schedule a call after the next commit of the store, to send a confirmation."""
        self.touch()
        self.server.confirmations.append((self, send))

    def flush(self) -> bool:
        """Write pending octets to the socket; return whether waiting links may send again."""
        if self._stream is None or self._sasl is not None:
            return False
        self._handle_events()
        while not self._stalled and (pending := self._engine.pending()) > 0:
            self._stream.write(self._engine.peek(min(pending, _MAX_WRITE)))
            self._engine.pop(min(pending, _MAX_WRITE))
            self._handle_events()
        if not self._stalled and self._engine.pending() < 0:
            self._stream.close()
        self._schedule()
        return bool(self.waiting) and not self.paused

    @property
    def _stalled(self) -> bool:
        return self.paused or self._stream.is_closing()

    def _schedule(self) -> None:
        """Set the timer for proton's idle timeout: to send an empty frame, or to miss one."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        loop = asyncio.get_running_loop()
        deadline = self._engine.tick(loop.time())
        if deadline and not self._stream.is_closing():
            self._timer = loop.call_at(deadline, self.server.turn, self.touch)

    # Proton's events.

    def on_connection_remote_open(self, _: Any) -> None:
        """Open our end of the connection."""
        self._connection.offered_capabilities = [Symbol("ANONYMOUS-RELAY")]
        self._connection.open()
        self.log("opened", container=self._connection.remote_container, user=self.user)

    def on_connection_remote_close(self, _: Any) -> None:
        """Close our end of the connection."""
        self._end_all()
        self._connection.close()

    def on_session_remote_open(self, event: Any) -> None:
        """Open our end of the session."""
        event.session.incoming_capacity = _SESSION_WINDOW
        event.session.open()

    def on_session_remote_close(self, event: Any) -> None:
        """Close our end of the session, and its links."""
        self._end_links(event.session)
        event.session.close()
        event.session.free()

    def _end_links(self, session: Any) -> None:
        for link in [link for link in self._links if link.session == session]:
            self._end(link, "session")
        self.server.termini.end_of(session, "session")

    def on_transport_error(self, event: Any) -> None:
        """Log why proton gave up the connection."""
        self.log("transport-error", logging.WARNING, why=str(event.transport.condition))

    def on_link_flow(self, event: Any) -> None:
        """Send as many messages as the credit allows."""
        end = self._links.get(event.link)
        if isinstance(end, Outgoing):
            self.server.ready[end] = None

    def on_delivery(self, event: Any) -> None:
        """Process a transfer or a disposition."""
        end = self._links.get(event.link)
        if end is not None:
            end.on_delivery(event.delivery)

    def on_link_remote_close(self, event: Any) -> None:
        """Close our end of the link, and end its terminus."""
        self._end(event.link, None)
        event.link.close()
        event.link.free()

    def on_link_remote_detach(self, event: Any) -> None:
        """Detach our end of the link, whose terminus may remain."""
        self._end(event.link, "link")
        event.link.detach()
        event.link.free()

    def on_link_remote_open(self, event: Any) -> None:
        """Join the link with a node, or refuse it."""
        link = event.link
        if self._connection.state & proton.Endpoint.LOCAL_CLOSED:
            return
        attach = self._attaches.take(link.name)
        link.snd_settle_mode = link.remote_snd_settle_mode
        if link.is_sender or self.server.receiver_settles_second:
            link.rcv_settle_mode = link.remote_rcv_settle_mode
        try:
            if attach is None:
                raise NodeError("the attach frame does not decode", "amqp:decode-error")
            if attach.fault is not None:
                raise attach.fault
            self._steal(link)
            end = (
                self._open_outgoing(link, attach)
                if link.is_sender
                else self._open_incoming(link, attach)
            )
        except DecodeError as error:
            self._refuse_link(link, Error(error.condition, str(error)))
            return
        except NodeError as error:
            self._refuse_link(link, error.error)
            return
        self._links[link] = end
        self.server.links[self._identity(link)] = (self, link)
        link.open()
        if isinstance(end, Incoming):
            end.grant()
            node = end.target.node.name if end.target else link.remote_target.address
        else:
            node = end.node.name
            self.server.add(end)
        self.log("attached", link=link.name, node=node, receiver=link.is_sender)

    def _identity(self, link: Any) -> tuple[str, str, bool]:
        """Return what identifies a link (Part 2, 2.6.1)."""
        return (*self._key(link), link.is_sender)

    def _steal(self, link: Any) -> None:
        """Detach the link that a new attach takes over (Part 2, 2.6.1)."""
        known = self.server.links.get(self._identity(link))
        if known is not None and self._connection.remote_container:
            connection, stolen = known
            connection.log("stolen", link=stolen.name)
            connection._end(stolen, "link")
            refuse(stolen, Error("amqp:link:stolen", "the link was attached again"))
            connection.touch()

    def _refuse_link(self, link: Any, error: Error) -> None:
        # Part 2, 2.6.3: an attach without a terminus, and a detach with the error.
        self.log("link-refused", link=link.name, condition=error.condition, why=error.description)
        link.open()
        refuse(link, error)

    # Links.

    def _node_of(self, link: Any, terminus: Any) -> DistributionNode:
        """Return the node of a terminus; a dynamic one is created."""
        nodes = self.server.nodes
        if terminus.address in self.server.services:
            return self._responses(terminus.address)
        if terminus.dynamic:
            return nodes.make_dynamic(
                self._connection.remote_container or "",
                link.name,
                terminus.dynamic_node_properties,
            )
        node = nodes.find(terminus.address) if terminus.address else None
        if node is None:
            raise NodeError(f"there is no node {terminus.address!r}", NOT_FOUND)
        return node

    def _answer(self, ours: Any, theirs: Any, terminus: Any, node: DistributionNode | None) -> None:
        """Fill in our terminus: as the peer asked for it, with the address of a dynamic node."""
        ours.copy(theirs)
        ours.capabilities.clear()
        supported = [name for name in terminus.capabilities if name in _CAPABILITIES]
        if supported:
            _put_symbols(ours.capabilities, supported)
        if terminus.dynamic and node is not None:
            ours.dynamic = True
            ours.address = node.name
            properties = {Symbol(LIFETIME): node.lifetime}
            ours.properties.clear()
            ours.properties.decode(encode_value(properties))

    def _open_incoming(self, link: Any, attach: Attach) -> Incoming:
        target = attach.target
        if target is None:
            raise NodeError("the attach has no target", "amqp:invalid-field")
        outcomes = attach.source.outcomes if attach.source is not None else ()
        rejects = not outcomes or "amqp:rejected:list" in outcomes
        link.source.copy(link.remote_source)
        link.max_message_size = self.server.max_message_size
        if isinstance(target, Coordinator):
            link.target.type = proton.Terminus.COORDINATOR
            _put_symbols(link.target.capabilities, _TXN_CAPABILITIES)
            return Incoming(self, link, None, None, rejects, self.server.credit)
        address = target.address
        end = None
        node = None
        publish: Callable[[bytes], Published]
        exchange = exchange_of(address) if isinstance(address, str) else None
        if address is None and not target.dynamic:
            publish = self._publish_by_address
        elif address in self.server.services:
            publish = partial(self._ask, address)
        elif exchange is not None and (exchange[0] or not exchange[1]):
            name, key = exchange
            self.server.exchanges.get(name)  # raises if there is none
            publish = partial(self.server.exchanges.publish, name, key, origin=self.origin)
        else:
            node = self._node_of(link, target)
            end = node.attach_incoming(link.name, creates=target.dynamic)
            if exchange is not None:
                publish = partial(self.server.exchanges.publish, *exchange, origin=self.origin)
            else:
                publish = partial(self._publish_to, node)
        self._answer(link.target, link.remote_target, target, node)
        return Incoming(self, link, publish, end, rejects, self.server.credit)

    def _publish_to(self, node: DistributionNode, octets: bytes) -> Published:
        return [(node, node.publish(octets, origin=self.origin))]

    def _publish_by_address(self, octets: bytes) -> Published:
        """Publish a message of the anonymous terminus to the address in its ``to``."""
        properties = Message.decode(octets, limits=self.server.limits).properties
        to = properties.to if properties is not None else None
        exchange = exchange_of(to) if to else None
        if exchange is not None:
            return self.server.exchanges.publish(*exchange, octets, origin=self.origin)
        node = self.server.nodes.find(to) if to else None
        if node is None:
            raise NodeError(f"there is no node {to!r} to send this message to", NOT_FOUND)
        return self._publish_to(node, octets)

    def _ask(self, address: str, octets: bytes) -> Published:
        """Pass a request to a service, and publish its response to this connection."""
        # Proton writes a body of null before the properties.
        request = Message.decode(octets, strict=False, limits=self.server.limits)
        response = self.server.services[address](request, self)
        self._responses(address).publish(response)
        return ()

    def _responses(self, address: str) -> DistributionNode:
        """Return the node with the responses of a service to this connection."""
        node = self._services.get(address)
        if node is None:
            made = self._services[address] = node = DistributionNode(
                address,
                clock=self.server.clock,
                capacity=Capacity(messages=_MAX_RESPONSES),
                on_available=lambda: self.server.available(made),
            )
        return node

    def _open_outgoing(self, link: Any, attach: Attach) -> Outgoing:
        source = attach.source
        if source is None:
            raise NodeError("the attach has no source", "amqp:invalid-field")
        try:
            mode = StdDistMode(source.distribution_mode or StdDistMode.MOVE)
        except ValueError:
            raise NodeError(
                f"there is no distribution-mode {source.distribution_mode!r} here",
                "amqp:not-implemented",
            ) from None
        filters = parse(source.filter).supported
        node = self._node_of(link, source)
        out = self.server.termini.resume(self._key(link), node, source)
        if out is None:
            out = node.attach(
                link.name,
                mode=mode,
                filter=PassingFilter(filters, self.server) if filters else None,
                origin=self.origin,
                default_outcome=source.default_outcome,
                creates=source.dynamic,
            )
        else:
            self._recover(out, attach)
        end = Outgoing(self, link, out, attach)
        out.on_ended = end.ended
        self._answer(link.source, link.remote_source, source, node)
        link.target.copy(link.remote_target)
        link.source.distribution_mode = _MODES[mode]
        link.source.filter.clear()
        if filters:
            link.source.filter.decode(filters.encode())
        return end

    def _key(self, link: Any) -> tuple[str, str]:
        return self._connection.remote_container or "", link.name

    def _recover(self, out: OutgoingLink, attach: Attach) -> None:
        """Settle the deliveries that were unsettled when the link was lost (Part 3, 3.4.6).

        With the receiver's outcome, if its unsettled map has one. Proton cannot resume a delivery,
        so the others are released, and delivered again as new ones.
        """
        for delivery in list(out.unsettled.values()):
            state = attach.unsettled.get(delivery.tag)
            outcome = state if getattr(state, "is_outcome", False) else Released()
            delivery.settle(outcome)

    def _end(self, link: Any, ends: str | None) -> None:
        """End a link, or keep its terminus as its expiry policy says.

        Args:
            link: the link of proton.
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
                self.server.remove(end)
                self.server.termini.retire(self._key(link), end, ends)
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
            refuse(self._connection, error)
            self.touch()
            if self._linger is None:
                self._linger = asyncio.get_running_loop().call_later(_LINGER, self.abort)

    def abort(self) -> None:
        """Close the socket at once."""
        self._stream.abort()
