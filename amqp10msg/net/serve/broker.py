"""The state that the connections of a server share. Only the server's thread uses it.

A `Broker` has the nodes, and the state that outlives connections. Its `DeferredWork` divides the
thread's time into turns. In each turn, it runs some work, commits the changes to the store, sends
confirmations to the peers, and sends messages.
"""

from __future__ import annotations

import asyncio
import logging
import platform
import ssl
import time
import uuid
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import attrs

from amqp10msg import __version__
from amqp10msg.delivery import DistributionNode, Error, Released, Source, TerminusExpiryPolicy
from amqp10msg.delivery.filters import EvaluationError
from amqp10msg.delivery.node import Delivery, MemoryStore, OutgoingLink, StoreError
from amqp10msg.net import transport
from amqp10msg.net.serve.extension import ServerExtension, Service
from amqp10msg.net.serve.memory import ServerMemory
from amqp10msg.net.serve.nodes import Exchanges, Nodes
from amqp10msg.net.serve.scram import Scram, is_installed
from amqp10msg.net.server_options import BROKERS, ServerOptions
from amqp10msg.wire.errors import (
    INTERNAL_ERROR,
    RESOURCE_DELETED,
    RESOURCE_LIMIT_EXCEEDED,
    AmqpError,
)
from amqp10msg.wire.limits import Limits

if TYPE_CHECKING:
    from amqp10msg.delivery.node.sqlite import SqliteStore  # it needs the module sqlite3

_T = TypeVar("_T")
#: Default limit on the nesting depth of a message; real messages have about ten levels.
_DEFAULT_DEPTH_LIMIT = 32
#: Maximum duration of a turn in seconds, after which other connections get a turn.
_MAX_TURN_SECONDS = 0.02
#: Maximum time per turn for evaluating filters, in seconds.
_MAX_FILTER_SECONDS = 0.005
#: Delay after the first wrong password of a host, which doubles with each wrong password; its
#: maximum; and the time without a wrong password after which the host is forgotten. In seconds.
_FIRST_WAIT, _MAX_WAIT, _FORGET_AFTER = 0.05, 2.0, 60.0
#: Maximum number of hosts whose wrong passwords are counted.
_MAX_HOSTS = 10_000
#: Maximum delay before a password is checked, in seconds. A connection that would have to wait
#: longer is closed.
MAX_PASSWORD_WAIT = 30.0
#: For each expiry policy, the scopes whose end starts the expiry timer of a source.
_EXPIRY_SCOPES = {
    TerminusExpiryPolicy.LINK_DETACH: ("link", "session", "connection"),
    TerminusExpiryPolicy.SESSION_END: ("session", "connection"),
    TerminusExpiryPolicy.CONNECTION_CLOSE: ("connection",),
    TerminusExpiryPolicy.NEVER: (),
}


def now() -> int:
    """Return the time in milliseconds since the Unix epoch."""
    return time.time_ns() // 1_000_000


class PeerConnection(Protocol):
    """The part of a connection that the broker uses. A connection may use the whole broker."""

    def keep(self) -> None:
        """Mark the pending bytes as committed, so that `close` does not discard them."""

    def flush(self) -> Iterable[PeerSender]:
        """Write the pending bytes to the socket. Return the links that can send now."""

    def fail(self, error: Exception, where: str = "") -> None:
        """Log an internal error, and close the connection.

        `where` names what the server was doing; empty if that is unknown.
        """

    def close(self, error: Error, *, discard: bool = False) -> None:
        """Close the connection with an error. `discard` drops the bytes after the last `keep`."""

    def abort(self) -> None:
        """Close the socket immediately."""

    def end_link(self, link: transport.Link, error: Error | None) -> None:
        """Close a link with an error; its source does not outlive it."""

    def steal(self, link: transport.Link) -> None:
        """Detach a link, because the peer attached it again, maybe on another connection."""


class PeerLink(Protocol):
    """The part of an attached link that the broker uses."""

    @property
    def connection(self) -> PeerConnection:
        """The connection of the link."""

    @property
    def link(self) -> transport.Link:
        """The link in the transport."""


class PeerSender(PeerLink, Protocol):
    """The part of a link to a peer, which sends the messages of a node, that the broker uses."""

    @property
    def node(self) -> DistributionNode:
        """The source node."""

    def pump(self) -> bool:
        """Send one message if one is available and credit allows; return whether one was sent."""


class Handshake(Protocol):
    """The part of a TLS handshake that the broker uses."""

    def abort(self) -> None:
        """Close the socket without finishing the handshake."""


class Broker:
    """The state that the connections of a server share.

    Attributes:
        options: the options of the server.
        container_id: the container-id of the open frame.
        users: passwords by user name.
        anonymous: whether clients may connect without credentials.
        memory: counts the memory of messages and structures.
        limits: the limits on decoding messages.
        properties: the properties of the open frame.
        clock: returns the time in ms since the Unix epoch.
        logger: receives a record for each event.
        scram: the SCRAM keys of the users; None without users or without the extra ``net``.
        store: the store of durable messages.
        services: functions that answer requests, by address. Their arguments are the request and
            the `origin` of its connection.
        extension: what an emulated broker adds.
        on_ended: called with the `origin` of each connection that ends.
        connections: the open connections.
        links: the attached links, by container-id, link name and whether the server sends.
        password_throttle: slows down password guessing.
        turns: runs all work of the server's thread.
        termini: the sources that outlive their links.
    """

    nodes: Nodes
    exchanges: Exchanges

    def __init__(self, options: ServerOptions) -> None:
        self.options = options
        self.container_id = options.container_id or f"amqp10msg-{uuid.uuid4()}"
        self.users = dict(options.users or {})
        by_certificate = options.tls is not None and options.tls.verify_mode is ssl.CERT_OPTIONAL
        nameless = not (self.users or by_certificate)
        self.anonymous = nameless if options.anonymous is None else options.anonymous
        self.memory = ServerMemory(options.memory or None)
        self.limits = options.limits or Limits(depth=_DEFAULT_DEPTH_LIMIT)
        self.properties: dict[str, Any] = {
            "product": "amqp10msg",
            "version": __version__,
            "platform": f"Python {platform.python_version()}",
            **BROKERS.get(options.like or "", {}),
            **(options.properties or {}),
        }
        self.clock = options.clock or now
        self.logger = options.logger or logging.getLogger("amqp10msg.serve")
        self.scram = Scram(self.users) if self.users and is_installed() else None
        self.store: MemoryStore | SqliteStore = MemoryStore()
        self.services: dict[str, Service] = {}
        self.extension = ServerExtension()
        self.on_ended: Callable[[object], None] = lambda _: None
        self.connections: set[PeerConnection] = set()
        #: Accepted sockets whose TLS handshake has not ended; they count as connections.
        self.handshakes: set[Handshake] = set()
        self.links: dict[tuple[str, str, bool], PeerLink] = {}
        self.password_throttle = PasswordThrottle()
        self.turns = DeferredWork(self)
        self.termini = Termini(self)

    def log(self, event: str, level: int = logging.INFO, **fields: Any) -> None:
        """Log an event with its fields."""
        if self.logger.isEnabledFor(level):
            text = " ".join(f"{key}={value!r}" for key, value in fields.items())
            self.logger.log(level, "%s %s", event, text, extra={"event": event, "fields": fields})

    def service(self, address: object) -> Service | None:
        """Return the function that answers requests to a service's address; None for a node."""
        if not isinstance(address, str):
            return None
        return self.extension.service(address) or self.services.get(address)

    def delete(self, address: str) -> int:
        """Delete a node, and detach its links. Return the number of messages that it had."""
        node = self.nodes.find(address) if address in self.nodes else None
        if node is None:
            return 0
        count = len(node)
        self.nodes.delete(address)
        self.exchanges.unbind_all(node.name, to_queue=True)
        for sender in self.turns.forget(node):
            gone = Error(RESOURCE_DELETED, f"the node {node.name!r} was deleted")
            sender.connection.end_link(sender.link, gone)
        self.log("deleted", node=node.name)
        return count

    def release(self, link: OutgoingLink) -> None:
        """End a link at its node: its unsettled deliveries get their default outcome.

        If that fails, they are released.
        """
        try:
            link.detach()
        except Exception:
            self.logger.exception("fault at the end of the link %r", link.name)
            for delivery in list(link.unsettled.values()):
                with suppress(Exception):  # `detach` below tries again, and its error is logged
                    delivery.settle(Released())
            try:
                link.detach()
            except Exception:
                self.logger.exception("the link %r cannot be ended", link.name)
        self.nodes.unused(link.node)


class DeferredWork:
    """Runs all work of the server's thread in turns; see the module's docstring.

    Attributes:
        touched: connections that may have bytes to write to their socket.
        confirmations: functions that send confirmations to peers, to call after the commit.
        ready: links that may be able to send a message, in the order in which they are tried.
        sent_settled: messages that were sent settled, and whose removal is not committed or whose
            bytes are not written to the socket.
    """

    def __init__(self, broker: Broker) -> None:
        self.touched: set[PeerConnection] = set()
        self.confirmations: list[tuple[PeerConnection, Callable[[], None]]] = []
        self.ready: dict[PeerSender, None] = {}
        self._broker = broker
        # Links that continue in the next turn, so that turns stay short.
        self._postponed_links: dict[PeerSender, None] = {}
        self._turn_deadline = 0.0
        self._filter_deadline = 0.0
        self._turn_scheduled = False
        self._commit_timer: asyncio.TimerHandle | None = None
        # The links that send the messages of each node; the next link to get a message is first.
        self._senders: dict[DistributionNode, dict[PeerSender, None]] = {}
        # Nodes with messages that became available since the last `_send_messages`.
        self._available_nodes: dict[DistributionNode, None] = {}
        self.sent_settled: list[Delivery] = []

    def run(self, work: Callable[[], object], *, lasting: bool = False) -> StoreError | None:
        """Run a turn: call `work`, commit its changes, send confirmations and messages.

        Sending that is not finished in time continues in another turn. If `work` only removed
        messages, and no peer waits for a confirmation, the commit may be delayed by up to
        `ServerWaits.commit`.

        Args:
            work: the function to call.
            lasting: commit without delay.

        Returns:
            The error if the commit failed, in which case all connections were closed; else None.
        """
        broker = self._broker
        self.sent_settled.clear()
        self._turn_deadline = time.monotonic() + _MAX_TURN_SECONDS
        try:
            with broker.store.batch(
                lambda: lasting or bool(self.confirmations) or bool(self._available_nodes)
            ):
                work()
                for node in broker.nodes.sweep():
                    self._senders.pop(node, None)
                    broker.exchanges.unbind_all(node.name, to_queue=True)
                    broker.log("deleted", node=node.name)
            self._confirm()
            for connection in list(self.touched):
                self._send_or_drop(connection, connection.keep)
            self._filter_deadline = time.monotonic() + _MAX_FILTER_SECONDS
            while self.touched or self.ready or self._available_nodes:
                pending = broker.store.pending
                # Commit the removal of messages that are sent settled before they are sent.
                with broker.store.batch(lambda: broker.store.pending != pending):  # noqa: B023  (it is called before the name changes)
                    self._send_messages()
                self.sent_settled.clear()
                self._flush()
                if self.is_turn_over:
                    break
            self._postponed_links.update(self.ready)
            self.ready.clear()
            if self._postponed_links or self._available_nodes:
                self._schedule_turn()
            if broker.store.pending and self._commit_timer is None:
                loop = asyncio.get_running_loop()
                self._commit_timer = loop.call_later(broker.options.waits.commit, self._commit_now)
        except StoreError as error:
            self.confirmations.clear()
            broker.log("store-failed", logging.CRITICAL, why=error.reason)
            for connection in list(broker.connections):
                connection.close(error.error, discard=True)
            unsent, self.sent_settled = self.sent_settled, []
            with broker.store.batch(lambda: False):
                # The bytes of these messages were discarded: put them back into their nodes.
                for delivery in unsent:
                    with suppress(AmqpError):
                        delivery.link.node.publish(
                            delivery.octets, message_format=delivery.message_format, always=True
                        )
            self._flush()
            return error
        return None

    def _commit_now(self) -> None:
        """Run the delayed commit."""
        self._commit_timer = None
        self.run(lambda: None, lasting=True)

    @property
    def is_turn_over(self) -> bool:
        """Whether the time limit of the turn is reached."""
        return time.monotonic() >= self._turn_deadline

    @property
    def is_filter_time_over(self) -> bool:
        """Whether the turn's time limit for evaluating filters is reached."""
        return time.monotonic() >= self._filter_deadline

    def _schedule_turn(self) -> None:
        """Schedule another turn for the postponed links."""

        def run_remaining() -> None:
            self._turn_scheduled = False
            self.ready.update(self._postponed_links)
            self._postponed_links.clear()
            self.run(lambda: None)

        if not self._turn_scheduled:
            self._turn_scheduled = True
            asyncio.get_running_loop().call_soon(run_remaining)

    def _confirm(self) -> None:
        """Call the functions in `confirmations`, after a commit."""
        confirmations = self.confirmations
        self.confirmations = []
        for connection, send in confirmations:
            try:
                send()
            except Exception as error:  # noqa: BLE001  (logged; other connections go on)
                connection.fail(error, "confirming")

    def _send_messages(self) -> None:
        """Send messages on the ready links, one message per link in rotation, until none is left.

        Stops when the turn is over.
        """
        for node in self._available_nodes:
            for sender in self._senders.get(node, {}):
                # Move the link to the end, even if a flow made it ready before. Otherwise a client
                # that sends a flow per message would get all messages.
                self.ready.pop(sender, None)
                self.ready[sender] = None
        self._available_nodes.clear()
        for sender in self._postponed_links:
            self.ready.pop(sender, None)
        while self.ready:
            for sender in list(self.ready):
                if sender not in self.ready:
                    continue  # the link has ended: its connection failed
                if self.is_turn_over:
                    return
                # Move the link to the end, so that the other links are tried next.
                self.ready[sender] = self.ready.pop(sender)
                try:
                    has_more = sender.pump()
                except TurnOverError:
                    self.ready.pop(sender, None)
                    self._postponed_links[sender] = None
                    continue
                except AmqpError as error:
                    has_more = False
                    self._broker.log(
                        "link-failed", logging.WARNING, link=sender.link.name, why=str(error)
                    )
                    # An EvaluationError means that the filter exceeded its limit of steps.
                    costly = isinstance(error, EvaluationError)
                    own_condition = getattr(error, "condition", INTERNAL_ERROR)
                    condition = RESOURCE_LIMIT_EXCEEDED if costly else own_condition
                    sender.connection.end_link(sender.link, Error(condition, str(error)))
                except Exception as error:  # noqa: BLE001  (logged; the others go on)
                    has_more = False
                    sender.connection.fail(error, f"sending on the link {sender.link.name!r}")
                if not has_more:
                    self.ready.pop(sender, None)
                    continue
                # Move the link to the end of the links that share the node's messages.
                senders = self._senders.get(sender.node)
                if senders is not None and sender in senders:
                    senders[sender] = senders.pop(sender)

    def _flush(self) -> None:
        """Write the bytes of touched connections; links that waited for room become ready."""
        while self.touched:
            connection = self.touched.pop()
            self.ready.update(dict.fromkeys(self._send_or_drop(connection, connection.flush) or ()))

    def _send_or_drop(self, connection: PeerConnection, send: Callable[[], _T]) -> _T | None:
        """Return the result of `send`, a method of `connection`; if it raises, abort the latter."""
        try:
            return send()
        except Exception as error:  # noqa: BLE001  (logged; the others go on)
            connection.fail(error, "sending")
            connection.abort()
            self.touched.discard(connection)
            return None

    def available(self, node: DistributionNode) -> None:
        """Note that a node has available messages, which are sent at the end of the turn."""
        self._available_nodes[node] = None

    def add(self, sender: PeerSender) -> None:
        """Start sending the messages of a node on a link to a peer."""
        self._senders.setdefault(sender.node, {})[sender] = None

    def remove(self, sender: PeerSender) -> None:
        """Stop sending messages on a link."""
        self.ready.pop(sender, None)
        self._postponed_links.pop(sender, None)
        senders = self._senders.get(sender.node, {})
        senders.pop(sender, None)
        if not senders:
            self._senders.pop(sender.node, None)

    def forget(self, node: DistributionNode) -> Iterable[PeerSender]:
        """Stop sending the messages of a node; return the links that sent them."""
        senders = self._senders.pop(node, {})
        for sender in senders:
            self.ready.pop(sender, None)
            self._postponed_links.pop(sender, None)
        return senders


class TurnOverError(Exception):
    """The turn's time for evaluating filters is over; the link continues in the next turn."""


@attrs.define(eq=False)
class _DetachedSource:
    """A source that outlives its link."""

    out: OutgoingLink
    source: Source
    # The last link's session, for the key "session", and its connection, for "connection".
    scopes: dict[str, Any]
    cost: int  # bytes, see `ServerMemory.structures`
    timer: asyncio.TimerHandle | None = None


class Termini:
    """Sources that outlive their links, by container-id and link name (Part 3, 3.5.6)."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._detached: dict[tuple[str, str], _DetachedSource] = {}

    def retire(
        self,
        key: tuple[str, str],
        out: OutgoingLink,
        source: Source | None,
        *,
        scopes: dict[str, Any],
        ended_scope: str | None,
        cost: int,
    ) -> None:
        """Detach a link: keep its source until its expiry policy ends it, or delete it now.

        Args:
            key: the container-id and the name of the link.
            out: the link at the node.
            source: the source that the peer requested.
            scopes: the session and the connection of the link, for the keys "session" and
                "connection".
            ended_scope: the scope that has ended: "link", "session" or "connection"; None if the
                peer closed the link, which deletes the source.
            cost: the memory of a kept source, in bytes.
        """
        if ended_scope is None or source is None or not out.attached:
            self._broker.release(out)
            return
        out.on_ended = None
        self.forget(key)
        detached = self._detached[key] = _DetachedSource(out, source, scopes, cost)
        self._broker.memory.structures += cost
        self._start_expiry(key, detached, ended_scope)

    def _start_expiry(
        self, key: tuple[str, str], detached: _DetachedSource, ended_scope: str
    ) -> None:
        """Start the expiry timer of a kept source, if its policy says so for the ended scope."""
        scopes = _EXPIRY_SCOPES[detached.source.expiry_policy]
        if detached.timer is not None or ended_scope not in scopes:
            return
        if not detached.source.timeout:
            self.forget(key)
            return
        loop = asyncio.get_running_loop()
        detached.timer = loop.call_later(
            detached.source.timeout, self._broker.turns.run, lambda: self.forget(key)
        )

    def end_of(self, scope: Any, ended_scope: str) -> None:
        """Start the expiry timers of kept sources, because a session or connection has ended.

        Args:
            scope: the session or the connection.
            ended_scope: "session" or "connection".
        """
        for key, detached in list(self._detached.items()):
            if detached.scopes[ended_scope] == scope:
                self._start_expiry(key, detached, ended_scope)

    def forget(self, key: tuple[str, str]) -> None:
        """End a kept source: its unsettled deliveries get their default-outcome."""
        detached = self._detached.pop(key, None)
        if detached is not None:
            if detached.timer is not None:
                detached.timer.cancel()
            self._broker.memory.structures -= detached.cost
            self._broker.release(detached.out)

    def source_of(self, key: tuple[str, str]) -> Source | None:
        """Return the kept source of a link, as the peer requested it; None if there is none."""
        detached = self._detached.get(key)
        return detached.source if detached is not None and detached.out.attached else None

    def resume(self, key: tuple[str, str], source: Source) -> OutgoingLink | None:
        """Return the kept link at the node, if a new attach requests the same source; else None.

        If the new attach requests another source, the kept source is ended.
        """
        detached = self._detached.get(key)
        if detached is None:
            return None
        same = (
            detached.out.attached
            and detached.source.address == source.address
            and detached.source.dynamic == source.dynamic
            and detached.source.distribution_mode == source.distribution_mode
            and detached.source.filter == source.filter
        )
        if not same:
            self.forget(key)
            return None
        del self._detached[key]
        self._broker.memory.structures -= detached.cost
        if detached.timer is not None:
            detached.timer.cancel()
        return detached.out

    def clear(self) -> None:
        """End all kept sources."""
        for key in list(self._detached):
            self.forget(key)


class PasswordThrottle:
    """Slows down password guessing: after a wrong password, all connections of the host must wait.

    The connections of a host wait one after the other, so that parallel connections cannot guess
    faster.
    """

    def __init__(self) -> None:
        # For each host, the number of wrong passwords, the time of the latest wrong password, and
        # the end of the last assigned wait. Times are those of a monotonic clock, in seconds.
        self._hosts: dict[str, tuple[int, float, float]] = {}

    def refused(self, host: str, now: float) -> None:
        """Record a wrong password. `now` is the time of a monotonic clock in seconds."""
        wrong_count, _, last_wait_end = self._hosts.pop(host, (0, now, now))
        self._hosts[host] = (wrong_count + 1, now, last_wait_end)
        if len(self._hosts) > _MAX_HOSTS:
            del self._hosts[next(iter(self._hosts))]

    def wait(self, host: str, now: float) -> float:
        """Return how long a new connection of a host must wait, in seconds.

        The next connection of the host must wait longer. If the result is above
        `MAX_PASSWORD_WAIT`, it has no such effect, and the caller closes the connection.
        """
        wrong_count, last, last_wait_end = self._hosts.get(host, (0, now, now))
        if not wrong_count:
            return 0.0
        if now - last > _FORGET_AFTER:
            del self._hosts[host]
            return 0.0
        wait_end = max(now, last_wait_end) + min(
            _FIRST_WAIT * 2.0 ** min(wrong_count - 1, 10), _MAX_WAIT
        )
        if wait_end - now <= MAX_PASSWORD_WAIT:
            self._hosts[host] = (wrong_count, last, wait_end)
        return wait_end - now
