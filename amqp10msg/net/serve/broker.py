"""The state that the connections of a server share. Only the server's thread uses it.

A `Broker` has the nodes, and the state that outlives connections. Its `DeferredWork` runs all work
in turns: work, commit to the store, confirm to the peers, send.
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
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from amqp10msg import __version__
from amqp10msg.delivery import DistributionNode, Error, Released, Source, TerminusExpiryPolicy
from amqp10msg.delivery.filters import EvaluationError
from amqp10msg.delivery.node import Delivery, MemoryStore, OutgoingLink, StoreError
from amqp10msg.message import Message
from amqp10msg.net.serve.memory import ServerMemory
from amqp10msg.net.serve.nodes import Exchanges, Nodes
from amqp10msg.net.serve.scram import Scram, is_installed
from amqp10msg.net.serve.service_bus import MANAGEMENT_SUFFIX, ServiceBus
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
    from amqp10msg.net.serve.connection import Connection, Incoming, Outgoing
    from amqp10msg.net.serve.handshakes import TlsHandshake

_T = TypeVar("_T")
#: Default limit of nesting in a message; real messages have about ten levels.
_MAX_DEPTH = 32
#: Maximum duration of a turn in seconds, before other connections have theirs.
_MAX_TURN = 0.02
#: Maximum time in seconds per turn for evaluating filters.
_MAX_FILTER_TIME = 0.005
#: Seconds to wait after the first wrong password of a host, which doubles with each wrong password;
#: the maximum wait; and the time without a wrong password after which the host is forgotten.
_FIRST_WAIT, _MAX_WAIT, _FORGET_AFTER = 0.05, 2.0, 60.0
#: Maximum number of hosts with wrong passwords that are remembered.
_MAX_HOSTS = 10_000
#: Maximum wait in seconds before a password is checked. A connection that would have to wait longer
#: is closed.
MAX_PASSWORD_WAIT = 30.0
#: The scopes whose end starts the expiry timer of each policy.
_SCOPES = {
    TerminusExpiryPolicy.LINK_DETACH: ("link", "session", "connection"),
    TerminusExpiryPolicy.SESSION_END: ("session", "connection"),
    TerminusExpiryPolicy.CONNECTION_CLOSE: ("connection",),
    TerminusExpiryPolicy.NEVER: (),
}


def now() -> int:
    """Return the time in milliseconds since the Unix epoch."""
    return time.time_ns() // 1_000_000


class Broker:
    """The state that the connections of a server share.

    Attributes:
        options: the options of the server.
        container_id: the container-id of the open frame.
        users: passwords by user.
        anonymous: whether clients may connect without credentials.
        memory: the memory that messages and structures use.
        limits: the limits of decoding messages.
        properties: the properties of the open frame.
        clock: returns milliseconds since the Unix epoch.
        logger: receives events.
        scram: the SCRAM mechanisms; None without users or without the extra.
        store: keeps durable messages.
        services: functions that answer requests, by address. They are called with the request and
            the origin of its connection.
        service_bus: the emulator of Service Bus; None without the option `service_bus`.
        on_ended: called with the origin of each connection that ends.
        connections: the open connections.
        links: the attached links by container-id, link name and role.
        password_throttle: slows down password guessing.
        turns: runs all work.
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
        self.limits = options.limits or Limits(depth=_MAX_DEPTH)
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
        self.services: dict[str, Callable[[Message, object], Message]] = {}
        self.service_bus: ServiceBus | None = None
        self.on_ended: Callable[[object], None] = lambda _: None
        self.connections: set[Connection] = set()
        #: Accepted sockets whose TLS handshake has not ended; they count like connections.
        self.handshakes: set[TlsHandshake] = set()
        self.links: dict[tuple[str, str, bool], Incoming | Outgoing] = {}
        self.password_throttle = PasswordThrottle()
        self.turns = DeferredWork(self)
        self.termini = Termini(self)

    def log(self, event: str, level: int = logging.INFO, **fields: Any) -> None:
        """Log an event."""
        if self.logger.isEnabledFor(level):
            text = " ".join(f"{key}={value!r}" for key, value in fields.items())
            self.logger.log(level, "%s %s", event, text, extra={"event": event, "fields": fields})

    def service(self, address: object) -> Callable[[Message, object], Message] | None:
        """Return the service that answers requests to an address, or None."""
        if not isinstance(address, str):
            return None
        bus = self.service_bus
        if bus is not None and address.endswith(MANAGEMENT_SUFFIX):
            return lambda request, _: bus.answer(address, request)
        return self.services.get(address)

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
        """End a link at its node. If a default outcome fails, release the deliveries instead."""
        try:
            link.detach()
        except Exception:
            self.logger.exception("fault at the end of the link %r", link.name)
            for delivery in list(link.unsettled.values()):
                with suppress(Exception):  # `detach` tries again below, and its error is logged
                    delivery.settle(Released())
            try:
                link.detach()
            except Exception:
                self.logger.exception("the link %r cannot be ended", link.name)
        self.nodes.unused(link.node)


class DeferredWork:
    """Runs all work of the server's thread in turns.

    Attributes:
        touched: connections that have bytes to send.
        confirmations: functions that confirm work to peers, called after the commit of the store.
        ready: links that may be able to send, in the order of their turns.
        sent_settled: messages sent settled that are not committed or not sent yet.
    """

    def __init__(self, broker: Broker) -> None:
        self.touched: set[Connection] = set()
        self.confirmations: list[tuple[Connection, Callable[[], None]]] = []
        self.ready: dict[Outgoing, None] = {}
        self._broker = broker
        # Links that continue in another turn, so that turns stay short.
        self._postponed: dict[Outgoing, None] = {}
        self._deadline = 0.0
        self._scan_until = 0.0
        self._turn_scheduled = False
        self._commit: asyncio.TimerHandle | None = None
        self._senders: dict[DistributionNode, dict[Outgoing, None]] = {}
        self._available: dict[DistributionNode, None] = {}
        self.sent_settled: list[Delivery] = []

    def run(self, work: Callable[[], object], *, lasting: bool = False) -> StoreError | None:
        """Run work, commit it, confirm it to the peers, and send messages.

        Sending that is not finished in time continues in another turn. If messages were only
        removed, and no peer waits for a confirmation, the commit waits for the next commit, but
        at most `ServerWaits.commit`.

        Args:
            work: the function to run.
            lasting: commit immediately in any case.

        Returns:
            The error if the commit failed. All connections were closed then.
        """
        broker = self._broker
        self.sent_settled.clear()
        self._deadline = time.monotonic() + _MAX_TURN
        try:
            with broker.store.batch(
                lambda: lasting or bool(self.confirmations) or bool(self._available)
            ):
                work()
                for node in broker.nodes.sweep():
                    self._senders.pop(node, None)
                    broker.exchanges.unbind_all(node.name, to_queue=True)
                    broker.log("deleted", node=node.name)
            self._confirm()
            for connection in list(self.touched):
                self._send_or_drop(connection, connection.keep)
            self._scan_until = time.monotonic() + _MAX_FILTER_TIME
            while self.touched or self.ready or self._available:
                pending = broker.store.pending
                # Messages that are sent settled are committed before they are sent.
                with broker.store.batch(lambda: broker.store.pending != pending):  # noqa: B023  (it is called before the name changes)
                    self._pump()
                self.sent_settled.clear()
                self._flush()
                if self.is_turn_over:
                    break
            self._postponed.update(self.ready)
            self.ready.clear()
            if self._postponed or self._available:
                self._schedule_turn()
            if broker.store.pending and self._commit is None:
                loop = asyncio.get_running_loop()
                self._commit = loop.call_later(broker.options.waits.commit, self._commit_now)
        except StoreError as error:
            self.confirmations.clear()
            broker.log("store-failed", logging.CRITICAL, why=error.reason)
            for connection in list(broker.connections):
                connection.close(error.error, discard=True)
            unsent, self.sent_settled = self.sent_settled, []
            with broker.store.batch(lambda: False):
                # These messages were in the discarded output: put them back into their nodes.
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
        self._commit = None
        self.run(lambda: None, lasting=True)

    @property
    def is_turn_over(self) -> bool:
        """Whether the time limit of the turn is reached."""
        return time.monotonic() >= self._deadline

    @property
    def is_filter_time_over(self) -> bool:
        """Whether the time limit for evaluating filters in the turn is reached."""
        return time.monotonic() >= self._scan_until

    def _schedule_turn(self) -> None:
        """Schedule another turn for the remaining links."""

        def run_remaining() -> None:
            self._turn_scheduled = False
            self.ready.update(self._postponed)
            self._postponed.clear()
            self.run(lambda: None)

        if not self._turn_scheduled:
            self._turn_scheduled = True
            asyncio.get_running_loop().call_soon(run_remaining)

    def _confirm(self) -> None:
        """Confirm committed work to the peers."""
        confirmations = self.confirmations
        self.confirmations = []
        for connection, send in confirmations:
            try:
                send()
            except Exception as error:  # noqa: BLE001  (logged; other connections go on)
                connection.fail(error, "confirming")

    def _pump(self) -> None:
        """Send messages of the nodes to the ready links, one message per link in turn."""
        for node in self._available:
            for sender in self._senders.get(node, {}):
                # At the end of the order, even if a flow made it ready before: otherwise a client
                # that sends a flow per message would get all messages.
                self.ready.pop(sender, None)
                self.ready[sender] = None
        self._available.clear()
        for sender in self._postponed:
            self.ready.pop(sender, None)
        while self.ready:
            for sender in list(self.ready):
                if sender not in self.ready:
                    continue  # the link has ended: its connection failed
                if self.is_turn_over:
                    return
                # A link that was served is the last one in the next turn.
                self.ready[sender] = self.ready.pop(sender)
                try:
                    has_more = sender.pump()
                except TurnOverError:
                    self.ready.pop(sender, None)
                    self._postponed[sender] = None
                    continue
                except AmqpError as error:
                    has_more = False
                    self._broker.log(
                        "link-failed", logging.WARNING, link=sender.link.name, why=str(error)
                    )
                    # A filter that cannot be evaluated has exceeded its cost limit.
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
                # A link that got a message is the last to get another message.
                senders = self._senders.get(sender.node)
                if senders is not None and sender in senders:
                    senders[sender] = senders.pop(sender)

    def _flush(self) -> None:
        while self.touched:
            connection = self.touched.pop()
            self.ready.update(dict.fromkeys(self._send_or_drop(connection, connection.flush) or ()))

    def _send_or_drop(self, connection: Connection, send: Callable[[], _T]) -> _T | None:
        """Call a function of a connection, and drop the connection if it raises."""
        try:
            return send()
        except Exception as error:  # noqa: BLE001  (logged; the others go on)
            connection.fail(error, "sending")
            connection.abort()
            self.touched.discard(connection)
            return None

    def available(self, node: DistributionNode) -> None:
        """Send the messages of a node at the end of the turn."""
        self._available[node] = None

    def add(self, sender: Outgoing) -> None:
        """Start to send messages of its node to a link."""
        self._senders.setdefault(sender.node, {})[sender] = None

    def remove(self, sender: Outgoing) -> None:
        """Stop sending messages to a link."""
        self.ready.pop(sender, None)
        self._postponed.pop(sender, None)
        senders = self._senders.get(sender.node, {})
        senders.pop(sender, None)
        if not senders:
            self._senders.pop(sender.node, None)

    def forget(self, node: DistributionNode) -> Iterable[Outgoing]:
        """Stop sending messages of a node. Return the links that received them."""
        senders = self._senders.pop(node, {})
        for sender in senders:
            self.ready.pop(sender, None)
            self._postponed.pop(sender, None)
        return senders


class TurnOverError(Exception):
    """The time of a turn is over; the link continues in another turn."""


@attrs.define(eq=False)
class _DetachedSource:
    """A source that outlives its link."""

    out: OutgoingLink
    source: Source
    # The session and the connection of its last link.
    scopes: dict[str, Any]
    cost: int  # bytes, see `ServerMemory.structures`
    timer: asyncio.TimerHandle | None = None


class Termini:
    """Sources that outlive their links, by container and link name (Part 3, 3.5.6)."""

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
            out: the link of the node.
            source: the source that the peer requested.
            scopes: the session and the connection that the link was attached in.
            ended_scope: the scope that has ended: "link", "session" or "connection"; None if the
                link was closed, and its source with it.
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
        """Start the timer of a kept source, if its expiry policy names the ended scope."""
        if detached.timer is not None or ended_scope not in _SCOPES[detached.source.expiry_policy]:
            return
        if not detached.source.timeout:
            self.forget(key)
            return
        loop = asyncio.get_running_loop()
        detached.timer = loop.call_later(
            detached.source.timeout, self._broker.turns.run, lambda: self.forget(key)
        )

    def end_of(self, scope: Any, ended_scope: str) -> None:
        """Start the timers of the kept sources that were attached in the ended scope.

        Args:
            scope: the session or the connection.
            ended_scope: "session" or "connection".
        """
        for key, detached in list(self._detached.items()):
            if detached.scopes[ended_scope] == scope:
                self._start_expiry(key, detached, ended_scope)

    def forget(self, key: tuple[str, str]) -> None:
        """End a source: unsettled deliveries get their default-outcome."""
        detached = self._detached.pop(key, None)
        if detached is not None:
            if detached.timer is not None:
                detached.timer.cancel()
            self._broker.memory.structures -= detached.cost
            self._broker.release(detached.out)

    def source_of(self, key: tuple[str, str]) -> Source | None:
        """Return the source that is kept for a link, as the peer requested it, or None."""
        detached = self._detached.get(key)
        return detached.source if detached is not None and detached.out.attached else None

    def resume(self, key: tuple[str, str], source: Source) -> OutgoingLink | None:
        """Return the link that was kept, if the new attach requests the same source; else None."""
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
    """Slows down password guessing: after wrong passwords, connections of a host must wait.

    Connections with right and wrong passwords wait in sequence, so that parallel connections guess
    no faster.
    """

    def __init__(self) -> None:
        # By host: number of wrong passwords, time of the latest, end of the last assigned wait.
        self._hosts: dict[str, tuple[int, float, float]] = {}

    def refused(self, host: str, now: float) -> None:
        """Record a wrong password. `now` is the time of a monotonic clock in seconds."""
        wrong_count, _, last_wait_end = self._hosts.pop(host, (0, now, now))
        self._hosts[host] = (wrong_count + 1, now, last_wait_end)
        if len(self._hosts) > _MAX_HOSTS:
            del self._hosts[next(iter(self._hosts))]

    def wait(self, host: str, now: float) -> float:
        """Assign the next wait to a connection of a host. Return it in seconds.

        A wait above `MAX_PASSWORD_WAIT` is returned, but not assigned: the caller closes the
        connection.
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
