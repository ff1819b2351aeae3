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
from amqp10msg.net.serve.services import CBS_ADDRESS, MANAGEMENT_ADDRESS, Management, answer_token
from amqp10msg.net.server_options import ServerOptions
from amqp10msg.wire.errors import CONNECTION_FORCED

if TYPE_CHECKING:
    from amqp10msg.delivery.node.sqlite import SqliteStore

T = TypeVar("T")

#: Backlog of the listening socket; the system may have a lower limit (net.core.somaxconn).
_BACKLOG = 5_000
#: Maximum number of open connections, if the process may open that many file descriptors.
_MAX_CONNECTIONS = 100_000
#: Maximum number of connections that asyncio accepts in one iteration of the event loop.
_ACCEPT_BATCH = 32
#: Number of file descriptors reserved for a batch of accepted sockets, the store and the caller.
_RESERVED_DESCRIPTORS = 96
#: While a caller waits for the server's thread, interval of checks that it is alive, in seconds.
_ALIVE_CHECK_INTERVAL = 1.0


def _connection_limit() -> int:
    """Return how many connections the process's free file descriptors allow."""
    try:
        import resource  # noqa: PLC0415  (not on Windows)
    except ImportError:
        return _MAX_CONNECTIONS
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed == resource.RLIM_INFINITY:
        return _MAX_CONNECTIONS
    try:
        used = len(os.listdir("/dev/fd"))  # noqa: PTH208  (names alone)
    except OSError:
        used = 0
    return max(min(allowed - used - _RESERVED_DESCRIPTORS, _MAX_CONNECTIONS), 1)


def tls_context(
    cert: str | PathLike[str],
    key: str | PathLike[str] | None,
    client_ca: str | PathLike[str] | None = None,
) -> ssl.SSLContext:
    """Return a server-side TLS context, for `Server`.

    Args:
        cert: a PEM file with the certificate and its chain.
        key: a PEM file with the private key; None if it is in the same file.
        client_ca: a PEM file with the authorities that sign client certificates, for SASL
            EXTERNAL; None to request no client certificates. A client certificate signed by
            another authority fails the handshake.

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
    """Formats a log record as one JSON object: time, level, event, and the event's fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a log record as JSON in one line, without a line break."""
        created = datetime.datetime.fromtimestamp(record.created, datetime.UTC)
        line = {
            "time": created.isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": getattr(record, "event", record.getMessage()),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        # Escape DEL, which JSON allows unescaped, since a terminal interprets it.
        return json.dumps(line, default=str).replace("\x7f", "\\u007f")


@attrs.define(kw_only=True, eq=False, repr=False, slots=False)
class Server(ServerOptions):
    """An AMQP 1.0 server of distribution nodes, for test suites and small jobs.

        with Server() as server:
            client = connect(server.url)

    The server runs in its own thread from `start` to `stop`; the context manager calls both. An
    address names a node, which is created when the address is first used. Methods are thread-safe.

    Its arguments are the fields of `amqp10msg.net.server_options.ServerOptions`.
    """

    def __attrs_post_init__(self) -> None:
        # Copy the iterables: the server may start several times, and reads them at each start.
        self.nodes, self.topics = list(self.nodes), list(self.topics)
        #: The state of the running server. Only the server's thread may use it. Replaced at each
        #: start.
        self.broker = self._new_broker()
        self._is_new = True
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._connection_limit = _MAX_CONNECTIONS
        self._is_full = False
        self._close_error: StoreError | None = None  # of closing the store, for `stop` to raise

    def _new_broker(self) -> Broker:
        broker = Broker(self)
        management = self._management = Management(broker)
        broker.services[MANAGEMENT_ADDRESS] = management.answer
        broker.on_ended = management.end_of
        on_token = self.on_token
        if self.service_bus:
            broker.extension = ServiceBus(broker.clock, broker.limits, broker.memory)
            on_token = on_token or (lambda _: True)
        if on_token is not None:
            broker.services[CBS_ADDRESS] = lambda request, _: answer_token(request, on_token)
        return broker

    # Called by other threads.

    @property
    def url(self) -> str:
        """The URL for clients, such as ``amqp://127.0.0.1:12345``."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'amqps' if self.tls is not None else 'amqp'}://{host}:{self.port}"

    def start(self) -> Self:
        """Start the server's thread, and return when the server listens.

        Raises:
            OSError: the server cannot listen on the address.
            StoreError: the file cannot be opened, read or written.
            RuntimeError: the server is running already.
        """
        if self._thread is not None:
            raise RuntimeError("the server is running already")
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
        """Close the connections and stop the server; a no-op for a stopped server.

        Raises:
            StoreError: the last write to the file failed, so that the file lacks the changes since
                the last commit. The server has stopped nevertheless.
        """
        thread, loop, stopping = self._thread, self._loop, self._stopping
        if thread is None:
            return
        if loop is not None and stopping is not None:
            with suppress(RuntimeError):  # the event loop has already ended
                loop.call_soon_threadsafe(stopping.set)
        thread.join()
        self._thread = None
        fault, self._close_error = self._close_error, None
        if fault is not None:
            raise fault

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def call(self, function: Callable[[Nodes], T]) -> T:
        """Call `function(nodes)` in the server's thread, and return its result.

        Exceptions of `function` are raised here. A call from the server's own thread, for example
        in a filter, would wait forever.

        Raises:
            StoreError: the changes that `function` made could not be written to the file. The
                server writes them with the next change. All connections were closed.
            RuntimeError: the server is not running.
        """
        loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            raise RuntimeError("the server is not running")
        result: Future[T] = Future()

        def run() -> None:
            failure = RuntimeError("the server failed before it called the function")
            complete: Callable[[], None] = partial(result.set_exception, failure)

            def work() -> None:
                nonlocal complete
                try:
                    complete = partial(result.set_result, function(self.broker.nodes))
                except BaseException as error:  # noqa: BLE001  (raised in the other thread)
                    complete = partial(result.set_exception, error)

            try:
                fault = self.broker.turns.run(work, lasting=True)
                if fault is not None:
                    complete = partial(result.set_exception, fault)
            finally:
                complete()  # after the commit, so that the caller does not return earlier

        loop.call_soon_threadsafe(run)
        while not result.done():
            wait([result], timeout=_ALIVE_CHECK_INTERVAL)
            if not thread.is_alive() and not result.done():
                raise RuntimeError("the server stopped before it called the function")
        return result.result()

    def publish(self, address: str, message: Message | bytes) -> int:
        """Publish a message to a node, which is created if it does not exist and `create` is true.

        Returns:
            The result of `DistributionNode.publish`; for a topic, the number of subscriptions that
            got the message.

        Raises:
            ValueError: there is no such node, and `create` is false.
        """

        def publish(nodes: Nodes) -> int:
            if nodes.is_topic(address):
                return len(publish_to(nodes.subscriptions(address), message))
            node = self._node(nodes, address)
            if isinstance(message, Message):
                octets, message_format = message.encode(), message.message_format
            else:
                octets, message_format = message, 0
            published = self.broker.extension.publish(address, octets, message_format)
            if published is not None:
                return max((number for _, number in published), default=0)
            return node.publish(octets, message_format=message_format)

        return self.call(publish)

    def _node(self, nodes: Nodes, address: str) -> DistributionNode:
        """Return the node with this address; ValueError if it must not be created."""
        is_known = address in nodes or nodes.is_topic(address) or address == self.dead_letter
        if not is_known and not nodes.create and not self.broker.extension.creates_nodes:
            names = ", ".join(sorted(node.name for node in nodes))
            raise ValueError(f"there is no node {address!r}: the nodes are {names or 'none'}")
        return nodes.make(address)

    def messages(self, address: str) -> list[Message]:
        """Return the messages of a node that are AVAILABLE or ACQUIRED, oldest first.

        Raises:
            ValueError: there is no such node, and `create` is false.
        """
        return self.call(
            lambda nodes: [
                Message.decode(message.octets) for message in self._node(nodes, address).messages()
            ]
        )

    def counts(self, address: str) -> Counts:
        """Return the number of messages of a node, by state.

        Raises:
            ValueError: there is no such node, and `create` is false.
        """
        return self.call(lambda nodes: self._node(nodes, address).counts)

    def quarantined(self, address: str) -> list[Quarantined]:
        """Return the stored messages that a node could not read; see `DistributionNode`.

        Raises:
            ValueError: there is no such node, and `create` is false.
        """
        return self.call(lambda nodes: self._node(nodes, address).quarantined)

    def _accept(self) -> asyncio.Protocol:
        """Return the asyncio protocol for an accepted socket."""
        if self.tls is None:
            return Connection(self.broker, self._admits)
        return TlsHandshake(self.broker, self._admits, self.tls)

    def _admits(self) -> bool:
        """Whether the server accepts one more connection; log when the limit is reached."""
        limit = self._connection_limit
        is_full = len(self.broker.connections) + len(self.broker.handshakes) >= limit
        if is_full and not self._is_full:
            reason = f"{limit} are open: more are closed immediately (see ulimit -n)"
            self.broker.log("full", logging.WARNING, why=reason)
        self._is_full = is_full
        return not is_full

    def _on_loop_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Handle an error of the event loop.

        If a socket cannot be accepted for lack of file descriptors, log that once: asyncio retries
        after a second.
        """
        if "socket.accept()" not in str(context.get("message")):
            loop.default_exception_handler(context)
        elif not self._is_full:
            self._is_full = True
            self.broker.log(
                "full", logging.WARNING, why=f"{context.get('exception')} (see ulimit -n)"
            )

    # Called in the server's thread.

    def _run(self, started: Future[None]) -> None:
        """Run the event loop of the server's thread; set an error of the start in `started`."""
        try:
            asyncio.run(self._serve(started))
        except BaseException as error:
            if started.done():
                raise
            started.set_exception(error)

    async def _serve(self, started: Future[None]) -> None:
        """Listen and serve until `stop` is called. Sets the result of `started` when listening."""
        with ExitStack() as stack:
            self._open_nodes(stack)
            self._loop = loop = asyncio.get_running_loop()
            self._stopping = asyncio.Event()
            listener = await loop.create_server(
                self._accept, self.host, self.port, backlog=_ACCEPT_BATCH
            )
            for listening in listener.sockets:
                # asyncio also uses its `backlog` as the number of sockets to accept in a batch,
                # for which the process may lack descriptors. Set only the real backlog higher.
                with socket.socket(fileno=os.dup(listening.fileno())) as duplicate:
                    duplicate.listen(_BACKLOG)
            loop.set_exception_handler(self._on_loop_error)
            self._connection_limit = _connection_limit()
            self.port = listener.sockets[0].getsockname()[1]
            self.broker.log("listening", url=self.url)
            started.set_result(None)
            try:
                while not self._stopping.is_set():
                    self.broker.turns.run(self._expire)
                    try:
                        await asyncio.wait_for(self._stopping.wait(), self.waits.expiry)
                    except TimeoutError:
                        continue
            finally:
                listener.close()
                await self._close_connections()
                self._loop = None
                self.broker.log("stopped")

    def _expire(self) -> None:
        """Remove expired messages and locks."""
        self.broker.nodes.expire()
        self.broker.extension.tick()

    def _open_nodes(self, stack: ExitStack) -> None:
        """Open the store, and create or restore the nodes. `stack` will close the store."""
        store: SqliteStore | None = None
        if self.file is not None:
            from amqp10msg.delivery.node.sqlite import SqliteStore  # noqa: PLC0415  (only for a file)

            self.broker.store = store = SqliteStore(self.file)
            stack.callback(self._close_store, store)
        extension = self.broker.extension
        self.broker.nodes = extension.nodes = Nodes(
            store=self.broker.store,
            create=True,
            dead_letter=self.dead_letter,
            on_available=self.broker.turns.available,
            on_quarantined=self._log_quarantined,
            on_fault=self._log_fault,
            may_delete=extension.may_delete,
            expires=extension.expires,
            on_dead_letter=extension.dead_letter_handler(),
            options={
                "clock": self.broker.clock,
                "priorities": self.priorities,
                "capacity": self.capacity,
                "memory": self.broker.memory,
                "accept_durable": self.accept_durable,
                "limits": self.broker.limits,
            },
        )
        self.broker.exchanges = Exchanges(self.broker.nodes)
        self._management.restore()
        self.broker.store.commit()  # writes the deletion of exclusive queues
        names = [] if store is None else store.names()
        for name in (*names, *self.nodes):
            self.broker.nodes.make(name)
        for name in self.topics:
            self.broker.nodes.make_topic(name)
        self.broker.nodes.create = self.create

    def _close_store(self, store: SqliteStore) -> None:
        """Close the store's file; keep an error for `stop` to raise."""
        try:
            store.close()
        except StoreError as error:
            self._close_error = error
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
        """Close all connections; abort those whose peers do not answer in time."""
        stopping = Error(CONNECTION_FORCED, "the server is stopping")

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
