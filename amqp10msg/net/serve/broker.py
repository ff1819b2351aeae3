"""What the connections of a server share, all of it used by the server's thread alone.

A `Broker` has the nodes and what is remembered beyond a connection. Its `Turns` are how all work is
done: work, commit, confirm, send.
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
#: Nested values in a message; real ones have about ten levels.
_MAX_DEPTH = 32
#: Seconds after which a turn lets other connections have theirs.
_TURN = 0.02
#: Seconds of it in which filters are held against messages that do not pass them.
_SCAN = 0.005
#: Seconds: the first wait after a refusal, which doubles with each, the longest, and after how long
#: without one all is forgotten.
_FIRST_WAIT, _LONGEST_WAIT, _FORGOTTEN = 0.05, 2.0, 60.0
_MOST_HOSTS = 10_000
#: The longest wait, in seconds, for a turn of `Guesses`; a connection with a longer one is closed.
LONGEST_TURN = 30.0
#: What starts the timer of each policy: the end of the scope, or of one that contains it.
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
    """What the connections of a server share.

    A service is called with a request and the origin of the connection that it came from,
    `on_ended` with that of each connection that ends. `links` are by container, link name and role;
    `service_bus` is None where the server is not a double of Service Bus, and `scram` where the
    extra is missing. `clock` returns milliseconds since the Unix epoch.
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
        self.guesses = Guesses()
        self.turns = Turns(self)
        self.termini = Termini(self)

    def log(self, event: str, level: int = logging.INFO, **fields: Any) -> None:
        """Log an event."""
        if self.logger.isEnabledFor(level):
            text = " ".join(f"{key}={value!r}" for key, value in fields.items())
            self.logger.log(level, "%s %s", event, text, extra={"event": event, "fields": fields})

    def service(self, address: object) -> Callable[[Message, object], Message] | None:
        """Return the service that answers requests to an address; None if it is a node's."""
        if not isinstance(address, str):
            return None
        bus = self.service_bus
        if bus is not None and address.endswith(MANAGEMENT_SUFFIX):
            return lambda request, _: bus.answer(address, request)
        return self.services.get(address)

    def delete(self, address: str) -> int:
        """Delete a node, and detach its links; return the number of its messages."""
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
        """End a link at its node; a delivery whose outcome cannot be applied is released."""
        try:
            link.detach()
        except Exception:
            self.logger.exception("fault at the end of the link %r", link.name)
            for delivery in list(link.unsettled.values()):
                with suppress(Exception):  # logged below if it is still unsettled then
                    delivery.settle(Released())
            try:
                link.detach()
            except Exception:
                self.logger.exception("the link %r cannot be ended", link.name)
        self.nodes.unused(link.node)


class Turns:
    """What is done in the server's thread, a piece of work at a time.

    `touched` connections have something to send, `confirmations` are sent when the store has
    committed, and `ready` links may send, in this order.
    """

    def __init__(self, broker: Broker) -> None:
        self.touched: set[Connection] = set()
        self.confirmations: list[tuple[Connection, Callable[[], None]]] = []
        self.ready: dict[Outgoing, None] = {}
        self._broker = broker
        # The links that go on in a turn of their own, so that those of others are short.
        self._later: dict[Outgoing, None] = {}
        self._deadline = 0.0
        self._scan_until = 0.0
        self._continues = False
        self._commit: asyncio.TimerHandle | None = None
        self._senders: dict[DistributionNode, dict[Outgoing, None]] = {}
        self._available: dict[DistributionNode, None] = {}
        #: Sent settled, but neither committed nor on its way.
        self.gone: list[Delivery] = []

    def run(self, work: Callable[[], object], *, lasting: bool = False) -> StoreError | None:
        """Run some work, commit it, confirm it to the peers, and send what can be sent.

        What is left when the time is over waits for a turn of its own, after those of others. Where
        messages were only removed, and no peer waits to hear of it, the commit waits for the next
        one, for `ServerWaits.commit` at most: a receiver that has settled cannot be told anything.

        With `lasting`, it is committed at once, whatever it is. Return why it was not: all
        connections were closed then.
        """
        broker = self._broker
        self.gone.clear()
        self._deadline = time.monotonic() + _TURN
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
                self._sending(connection, connection.keep)
            self._scan_until = time.monotonic() + _SCAN
            while self.touched or self.ready or self._available:
                pending = broker.store.pending
                # What is sent settled is committed before.
                with broker.store.batch(lambda: broker.store.pending != pending):  # noqa: B023  (it is called before the name changes)
                    self._pump()
                self.gone.clear()
                self._flush()
                if self.is_over:
                    break
            self._later.update(self.ready)
            self.ready.clear()
            if self._later or self._available:
                self._continue()
            if broker.store.pending and self._commit is None:
                loop = asyncio.get_running_loop()
                self._commit = loop.call_later(broker.options.waits.commit, self._commit_now)
        except StoreError as error:
            self.confirmations.clear()
            broker.log("store-failed", logging.CRITICAL, why=error.reason)
            for connection in list(broker.connections):
                connection.close(error.error, discard=True)
            gone, self.gone = self.gone, []
            with broker.store.batch(lambda: False):
                for delivery in gone:  # what is discarded has been sent to nobody
                    with suppress(AmqpError):
                        delivery.link.node.publish(
                            delivery.octets, message_format=delivery.message_format, always=True
                        )
            self._flush()
            return error
        return None

    def _commit_now(self) -> None:
        """Commit what was kept back."""
        self._commit = None
        self.run(lambda: None, lasting=True)

    @property
    def is_over(self) -> bool:
        """Whether the time of this turn is over."""
        return time.monotonic() >= self._deadline

    @property
    def is_scanned(self) -> bool:
        """Whether the filters have had their share of this turn."""
        return time.monotonic() >= self._scan_until

    def _continue(self) -> None:
        """Schedule a turn for what is left."""

        def go_on() -> None:
            self._continues = False
            self.ready.update(self._later)
            self._later.clear()
            self.run(lambda: None)

        if not self._continues:
            self._continues = True
            asyncio.get_running_loop().call_soon(go_on)

    def _confirm(self) -> None:
        """Send the confirmations of what was committed."""
        confirmations = self.confirmations
        self.confirmations = []
        for connection, send in confirmations:
            try:
                send()
            except Exception as error:  # noqa: BLE001  (logged; the others go on)
                connection.fail(error, "confirming")

    def _pump(self) -> None:
        """Let the links that may send take messages in turn."""
        for node in self._available:
            for sender in self._senders.get(node, {}):
                # In its place, also where a flow of its own made it ready before the others: a
                # client that sends one with each message would have all of them.
                self.ready.pop(sender, None)
                self.ready[sender] = None
        self._available.clear()
        for sender in self._later:
            self.ready.pop(sender, None)
        while self.ready:
            for sender in list(self.ready):
                if sender not in self.ready:
                    continue  # its connection failed meanwhile
                if self.is_over:
                    return
                # A link that was served comes last in the next turn.
                self.ready[sender] = self.ready.pop(sender)
                try:
                    more = sender.pump()
                except TurnOverError:
                    self.ready.pop(sender, None)
                    self._later[sender] = None
                    continue
                except AmqpError as error:
                    more = False
                    self._broker.log(
                        "link-failed", logging.WARNING, link=sender.link.name, why=str(error)
                    )
                    # A filter that cannot be evaluated exceeds what a message may cost.
                    costly = isinstance(error, EvaluationError)
                    known = getattr(error, "condition", INTERNAL_ERROR)
                    condition = RESOURCE_LIMIT_EXCEEDED if costly else known
                    sender.connection.end_link(sender.link, Error(condition, str(error)))
                except Exception as error:  # noqa: BLE001  (logged; the others go on)
                    more = False
                    sender.connection.fail(error, f"sending on the link {sender.link.name!r}")
                if not more:
                    self.ready.pop(sender, None)
                    continue
                # A link that got a message is the last one to get the next.
                senders = self._senders.get(sender.node)
                if senders is not None and sender in senders:
                    senders[sender] = senders.pop(sender)

    def _flush(self) -> None:
        while self.touched:
            connection = self.touched.pop()
            self.ready.update(dict.fromkeys(self._sending(connection, connection.flush) or ()))

    def _sending(self, connection: Connection, send: Callable[[], _T]) -> _T | None:
        """Return the result of a call of a connection, which is dropped where that fails."""
        try:
            return send()
        except Exception as error:  # noqa: BLE001  (logged; the others go on)
            connection.fail(error, "sending")
            connection.abort()
            self.touched.discard(connection)
            return None

    def available(self, node: DistributionNode) -> None:
        """Schedule messages of a node to be sent at the end of this turn."""
        self._available[node] = None

    def add(self, sender: Outgoing) -> None:
        """Send the messages of its node to a link from now on."""
        self._senders.setdefault(sender.node, {})[sender] = None

    def remove(self, sender: Outgoing) -> None:
        """Send nothing more to a link."""
        self.ready.pop(sender, None)
        self._later.pop(sender, None)
        senders = self._senders.get(sender.node, {})
        senders.pop(sender, None)
        if not senders:
            self._senders.pop(sender.node, None)

    def forget(self, node: DistributionNode) -> Iterable[Outgoing]:
        """Send nothing more from a node, and return the links that it was sent to."""
        senders = self._senders.pop(node, {})
        for sender in senders:
            self.ready.pop(sender, None)
            self._later.pop(sender, None)
        return senders


class TurnOverError(Exception):
    """The time of a turn is over: a link goes on in another one."""


@attrs.define(eq=False)
class _Kept:
    out: OutgoingLink
    source: Source
    # The session and the connection that it was attached in.
    scopes: dict[str, Any]
    cost: int  # bytes, see `ServerMemory.structures`
    timer: asyncio.TimerHandle | None = None


class Termini:
    """Sources that outlive their links, by container and link name (Part 3, 3.5.6)."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._kept: dict[tuple[str, str], _Kept] = {}

    def retire(
        self,
        key: tuple[str, str],
        out: OutgoingLink,
        source: Source | None,
        *,
        scopes: dict[str, Any],
        ends: str | None,
        cost: int,
    ) -> None:
        """Detach a link: keep its source until the expiry policy says otherwise, or delete it now.

        Args:
            key: the container-id and the name of the link.
            out: the link of the node.
            source: the source that the peer asked for.
            scopes: the session and the connection that the link was attached in.
            ends: the scope that has ended: "link", "session" or "connection"; None if the link was
                closed, and its source with it.
            cost: how many bytes of memory a kept source takes.
        """
        if ends is None or source is None or not out.attached:
            self._broker.release(out)
            return
        out.on_ended = None
        self.forget(key)
        kept = self._kept[key] = _Kept(out, source, scopes, cost)
        self._broker.memory.structures += cost
        self._start(key, kept, ends)

    def _start(self, key: tuple[str, str], kept: _Kept, ends: str) -> None:
        if kept.timer is not None or ends not in _SCOPES[kept.source.expiry_policy]:
            return
        if not kept.source.timeout:
            self.forget(key)
            return
        loop = asyncio.get_running_loop()
        kept.timer = loop.call_later(
            kept.source.timeout, self._broker.turns.run, lambda: self.forget(key)
        )

    def end_of(self, scope: Any, ends: str) -> None:
        """Start the timers of the sources that were attached in a session or connection."""
        for key, kept in list(self._kept.items()):
            if kept.scopes[ends] == scope:
                self._start(key, kept, ends)

    def forget(self, key: tuple[str, str]) -> None:
        """End a source: unsettled deliveries get their default-outcome."""
        kept = self._kept.pop(key, None)
        if kept is not None:
            if kept.timer is not None:
                kept.timer.cancel()
            self._broker.memory.structures -= kept.cost
            self._broker.release(kept.out)

    def known(self, key: tuple[str, str]) -> Source | None:
        """What was asked of the source that is kept for a link; None if none is."""
        kept = self._kept.get(key)
        return kept.source if kept is not None and kept.out.attached else None

    def resume(self, key: tuple[str, str], source: Source) -> OutgoingLink | None:
        """Return the source that was kept for a link, if the new attach asks for the same one."""
        kept = self._kept.get(key)
        if kept is None:
            return None
        same = (
            kept.out.attached
            and kept.source.address == source.address
            and kept.source.dynamic == source.dynamic
            and kept.source.distribution_mode == source.distribution_mode
            and kept.source.filter == source.filter
        )
        if not same:
            self.forget(key)
            return None
        del self._kept[key]
        self._broker.memory.structures -= kept.cost
        if kept.timer is not None:
            kept.timer.cancel()
        return kept.out

    def clear(self) -> None:
        """End all sources."""
        for key in list(self._kept):
            self.forget(key)


class Guesses:
    """Slows down who guesses passwords: connections of a host that was refused wait their turn.

    Right and wrong passwords wait alike, one connection after the other: more of them at once guess
    no faster.
    """

    def __init__(self) -> None:
        # By host: how often it was refused, when last, and until when its turns are taken.
        self._hosts: dict[str, tuple[int, float, float]] = {}

    def refused(self, host: str, now: float) -> None:
        """Note that a host gave a wrong password.

        The time is in seconds of a clock that does not go back.
        """
        times, _, until = self._hosts.pop(host, (0, now, now))
        self._hosts[host] = (times + 1, now, until)
        if len(self._hosts) > _MOST_HOSTS:
            del self._hosts[next(iter(self._hosts))]

    def wait(self, host: str, now: float) -> float:
        """Take the next turn of a host; return in how many seconds it comes.

        It is not taken where it comes after `LONGEST_TURN`: others would wait for nobody.
        """
        times, last, until = self._hosts.get(host, (0, now, now))
        if not times:
            return 0.0
        if now - last > _FORGOTTEN:
            del self._hosts[host]
            return 0.0
        turn = max(now, until) + min(_FIRST_WAIT * 2.0 ** min(times - 1, 10), _LONGEST_WAIT)
        if turn - now <= LONGEST_TURN:
            self._hosts[host] = (times, last, turn)
        return turn - now
