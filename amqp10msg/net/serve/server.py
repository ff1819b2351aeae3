"""The server: its nodes, its connections, and the thread that runs them."""

from __future__ import annotations

import asyncio
import datetime
import json
import logging
import os
import socket
import ssl
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import ExitStack, suppress
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, Self, TypeVar

import attrs

from amqp10msg.delivery import DistributionNode, Error
from amqp10msg.delivery.node import Counts, Quarantined, StoreError
from amqp10msg.message import Message
from amqp10msg.net.serve.broker import Broker
from amqp10msg.net.serve.connection import Connection
from amqp10msg.net.serve.handshakes import TlsHandshake
from amqp10msg.net.serve.nodes import Exchanges, Nodes, publish_to
from amqp10msg.net.serve.service_bus import ServiceBus
from amqp10msg.net.serve.services import CBS, MANAGEMENT, Management, answer_token
from amqp10msg.net.server_options import ServerOptions
from amqp10msg.wire.errors import CONNECTION_FORCED

if TYPE_CHECKING:
    from amqp10msg.delivery.node.sqlite import SqliteStore

T = TypeVar("T")

#: Connections that wait to be accepted; the system may allow fewer (net.core.somaxconn).
_BACKLOG = 5_000
#: Connections at once, where the system allows more.
_MOST_CONNECTIONS = 100_000
#: Connections that are accepted in one turn of the loop, before any of them can be closed.
_AT_ONCE = 32
#: Descriptors that are left to those, to the store and to what else the process does.
_SPARE = 96
#: Seconds after which a waiting caller checks whether the server still runs.
_PATIENCE = 1.0


def _most_connections() -> int:
    """How many connections the descriptors of this process are enough for."""
    try:
        import resource  # noqa: PLC0415  (not on Windows)
    except ImportError:
        return _MOST_CONNECTIONS
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed == resource.RLIM_INFINITY:
        return _MOST_CONNECTIONS
    try:
        used = len(os.listdir("/dev/fd"))  # noqa: PTH208  (names alone)
    except OSError:
        used = 0
    return max(min(allowed - used - _SPARE, _MOST_CONNECTIONS), 1)


def tls_context(
    cert: str | PathLike[str],
    key: str | PathLike[str] | None,
    client_ca: str | PathLike[str] | None = None,
) -> ssl.SSLContext:
    """Return a server-side TLS context, for `Server`.

    Args:
        cert: a PEM file with the certificate and its chain.
        key: a PEM file with the private key; None if it is in the same file.
        client_ca: a PEM file with the authorities whose certificates clients may show, for SASL
            EXTERNAL; None to ask for none. One of another authority ends the connection.

    Raises:
        OSError: a file cannot be used.
    """
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(cert, key)
    if client_ca is not None:
        context.load_verify_locations(client_ca)
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


class JsonFormatter(logging.Formatter):
    """Formats a record as one JSON object: time, level, event, and the fields of the event."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        moment = datetime.datetime.fromtimestamp(record.created, datetime.UTC)
        line = {
            "time": moment.isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": getattr(record, "event", record.getMessage()),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        # JSON may hold DEL as it is, and a terminal acts on it.
        return json.dumps(line, default=str).replace("\x7f", "\\u007f")


@attrs.define(kw_only=True, eq=False, repr=False, slots=False)
class Server(ServerOptions):
    """A server of distribution nodes that speaks AMQP 1.0, for test suites and small jobs.

        with Server() as server:
            client = connect(server.url)

    It runs in a thread of its own between `start` and `stop`; the context manager calls both. An
    address names a node, which is created when the address is first used. Methods may be called
    from any thread.

    Its arguments are the fields of `amqp10msg.net.server_options.ServerOptions`.
    """

    def __attrs_post_init__(self) -> None:
        # What an iterator gives is had once, and the server may start more than once.
        self.nodes, self.topics = list(self.nodes), list(self.topics)
        #: What the server's thread works on; used by that thread alone. A new one at each start.
        self.broker = self._new_broker()
        self._is_new = True
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._most = _MOST_CONNECTIONS
        self._is_full = False
        self._fault: StoreError | None = None  # at its end

    def _new_broker(self) -> Broker:
        broker = Broker(self)
        management = self._management = Management(broker)
        broker.services[MANAGEMENT] = management.answer
        broker.on_ended = management.end_of
        on_token = self.on_token
        if self.service_bus:
            broker.service_bus = ServiceBus(broker.clock, broker.limits, broker.memory)
            on_token = on_token or (lambda _: True)
        if on_token is not None:
            broker.services[CBS] = lambda request, _: answer_token(request, on_token)
        return broker

    # For other threads.

    @property
    def url(self) -> str:
        """The URL for clients, such as ``amqp://127.0.0.1:12345``."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'amqps' if self.tls is not None else 'amqp'}://{host}:{self.port}"

    def start(self) -> Self:
        """Listen, and serve in a thread.

        Raises:
            OSError: the server cannot listen on the address.
            StoreError: the file cannot be used.
            RuntimeError: it runs already.
        """
        if self._thread is not None:
            raise RuntimeError("the server runs already")
        if not self._is_new:
            self.broker = self._new_broker()
        self._is_new = False
        started: Future[None] = Future()
        self._thread = threading.Thread(
            target=self._run, args=(started,), name="amqp10msg-serve", daemon=True
        )
        self._thread.start()
        try:
            started.result()
        except BaseException:
            self._thread.join()
            self._thread = None
            raise
        return self

    def stop(self) -> None:
        """Close the connections and stop. Stopping twice does nothing.

        Raises:
            StoreError: the file could not be written at the end: what was accepted or removed since
                the last commit is not in it. The server has stopped all the same.
        """
        thread, loop, stopping = self._thread, self._loop, self._stopping
        if thread is None:
            return
        if loop is not None and stopping is not None:
            with suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(stopping.set)
        thread.join()
        self._thread = None
        fault, self._fault = self._fault, None
        if fault is not None:
            raise fault

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def call(self, function: Callable[[Nodes], T]) -> T:
        """Call a function with the nodes in the server's thread, and return its result.

        Its exceptions are raised here. Do not use it in the server's thread, such as in a filter.

        Raises:
            StoreError: the file could not be written: what it did may not be in it, and is tried
                again with the next change. All connections were closed.
            RuntimeError: the server does not run.
        """
        loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            raise RuntimeError("the server does not run")
        result: Future[T] = Future()

        def run() -> None:
            tell: Callable[[], None] = partial(result.set_exception, RuntimeError("it failed"))

            def work() -> None:
                nonlocal tell
                try:
                    tell = partial(result.set_result, function(self.broker.nodes))
                except BaseException as error:  # noqa: BLE001  (raised in the other thread)
                    tell = partial(result.set_exception, error)

            try:
                fault = self.broker.turns.run(work, lasting=True)
                if fault is not None:
                    tell = partial(result.set_exception, fault)
            finally:
                tell()  # after the commit

        loop.call_soon_threadsafe(run)
        while not result.done():
            wait([result], timeout=_PATIENCE)
            if not thread.is_alive() and not result.done():
                raise RuntimeError("the server stopped meanwhile")
        return result.result()

    def publish(self, address: str, message: Message | bytes) -> int:
        """Publish to a node, as `DistributionNode.publish`; it is created if there is none.

        At a topic, every subscription gets the message, and the result is how many there are.
        """

        def publish(nodes: Nodes) -> int:
            bus = self.broker.service_bus
            if bus is not None and not nodes.is_topic(address):
                nodes.make(address)
                octets = message.encode() if isinstance(message, Message) else message
                return max((number for _, number in bus.publish(address, octets)), default=0)
            if nodes.is_topic(address):
                return len(publish_to(nodes.subscriptions(address), message))
            return nodes.make(address).publish(message)

        return self.call(publish)

    def messages(self, address: str) -> list[Message]:
        """Return the messages of a node that are AVAILABLE or ACQUIRED, oldest first."""
        return self.call(
            lambda nodes: [Message.decode(one.octets) for one in nodes.make(address).messages()]
        )

    def counts(self, address: str) -> Counts:
        """Return the number of messages of a node, by state."""
        return self.call(lambda nodes: nodes.make(address).counts)

    def quarantined(self, address: str) -> list[Quarantined]:
        """Return the stored messages of a node that could not be read, see `DistributionNode`."""
        return self.call(lambda nodes: nodes.make(address).quarantined)

    def _accept(self) -> asyncio.Protocol:
        """Return the protocol of a socket that was accepted."""
        if self.tls is None:
            return Connection(self.broker, self._admits)
        return TlsHandshake(self.broker, self._admits, self.tls)

    def _admits(self) -> bool:
        """Whether there is room for one more connection; log once when there is none."""
        is_full = len(self.broker.connections) + len(self.broker.handshakes) >= self._most
        if is_full and not self._is_full:
            why = f"{self._most} are open: more are closed at once (see ulimit -n)"
            self.broker.log("full", logging.WARNING, why=why)
        self._is_full = is_full
        return not is_full

    def _on_fault(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Say once that there are no descriptors: asyncio waits for a second, and tries again."""
        if "socket.accept()" not in str(context.get("message")):
            loop.default_exception_handler(context)
        elif not self._is_full:
            self._is_full = True
            self.broker.log(
                "full", logging.WARNING, why=f"{context.get('exception')} (see ulimit -n)"
            )

    # The thread.

    def _run(self, started: Future[None]) -> None:
        try:
            asyncio.run(self._serve(started))
        except BaseException as error:
            if started.done():
                raise
            started.set_exception(error)

    async def _serve(self, started: Future[None]) -> None:
        with ExitStack() as stack:
            self._open(stack)
            self._loop = loop = asyncio.get_running_loop()
            self._stopping = asyncio.Event()
            listener = await loop.create_server(
                self._accept, self.host, self.port, backlog=_AT_ONCE
            )
            for listening in listener.sockets:
                # asyncio accepts as many at once as may wait, whether it has descriptors or not.
                with socket.socket(fileno=os.dup(listening.fileno())) as same:
                    same.listen(_BACKLOG)
            loop.set_exception_handler(self._on_fault)
            self._most = _most_connections()
            self.port = listener.sockets[0].getsockname()[1]
            self.broker.log("listening", url=self.url)
            started.set_result(None)
            try:
                while not self._stopping.is_set():
                    self.broker.turns.run(self._tick)
                    try:
                        await asyncio.wait_for(self._stopping.wait(), self.waits.expiry)
                    except TimeoutError:
                        continue
            finally:
                listener.close()
                await self._close_connections()
                self._loop = None
                self.broker.log("stopped")

    def _tick(self) -> None:
        self.broker.nodes.expire()
        if self.broker.service_bus is not None:
            self.broker.service_bus.tick()

    def _open(self, stack: ExitStack) -> None:
        store: SqliteStore | None = None
        if self.file is not None:
            from amqp10msg.delivery.node.sqlite import SqliteStore  # noqa: PLC0415  (where a file is asked for)

            self.broker.store = store = SqliteStore(self.file)
            stack.callback(self._close_store, store)
        self.broker.nodes = Nodes(
            store=self.broker.store,
            create=True,
            dead_letter=self.dead_letter,
            on_available=self.broker.turns.available,
            on_quarantined=self._log_quarantined,
            on_fault=self._log_fault,
            options={
                "clock": self.broker.clock,
                "priorities": self.priorities,
                "capacity": self.capacity,
                "memory": self.broker.memory,
                "accept_durable": self.accept_durable,
                "limits": self.broker.limits,
            },
        )
        if self.broker.service_bus is not None:
            self.broker.service_bus.nodes = self.broker.nodes
            self.broker.nodes.on_dead_letter = self.broker.service_bus.on_expired
            self.broker.nodes.may_delete = self.broker.service_bus.forget
        self.broker.exchanges = Exchanges(self.broker.nodes)
        self._management.restore()
        self.broker.store.commit()  # what belonged to exclusive queues is deleted
        names = [] if store is None else store.names()
        for name in (*names, *self.nodes):
            self.broker.nodes.make(name)
        for name in self.topics:
            self.broker.nodes.make_topic(name)
        self.broker.nodes.create = self.create

    def _close_store(self, store: SqliteStore) -> None:
        """Close the file; what it did not take is for `stop` to say."""
        try:
            store.close()
        except StoreError as error:
            self._fault = error
            store.abandon()

    def _log_quarantined(self, quarantined: Quarantined) -> None:
        self.broker.log(
            "quarantined",
            logging.ERROR,
            node=quarantined.node,
            sequence=quarantined.stored.sequence,
            octets=len(quarantined.stored.octets),
            why=quarantined.reason,
        )

    def _log_fault(self, node: DistributionNode, fault: Exception) -> None:
        self.broker.logger.error("fault at the node %r", node.name, exc_info=fault)

    async def _close_connections(self) -> None:
        """Close all connections, and abort those whose peers do not answer in time."""
        stopping = Error(CONNECTION_FORCED, "the server stops")

        def close() -> None:
            for connection in list(self.broker.connections):
                connection.close(stopping)

        self.broker.turns.run(close)
        for handshake in list(self.broker.handshakes):
            handshake.abort()
        loop = asyncio.get_running_loop()
        end = loop.time() + self.waits.stopping
        while self.broker.connections and loop.time() < end:
            await asyncio.sleep(0.005)
        for connection in list(self.broker.connections):
            connection.abort()
        while self.broker.connections or self.broker.handshakes:
            await asyncio.sleep(0)
        self.broker.turns.run(self.broker.termini.clear)
