"""A queue written to files by the ends of a bridge: on disk first, then acknowledged.

A crash at any moment loses nothing: what was not acknowledged is delivered again. What was on disk
and not yet acknowledged comes twice; `Spooled.identity` says what is the same.
"""

from __future__ import annotations

import ast
import asyncio
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Literal, NoReturn
from urllib.parse import parse_qs, unquote

import attrs

from amqp10msg.net.bridge.links import open_source
from amqp10msg.net.bridge.terms import LinkError, Settle, SourceDelivery, SourceLink, SourceRequest
from amqp10msg.net.bridge.urls import Endpoint, parameter_number, split_url
from amqp10msg.net.landing import Landing, Spooled
from amqp10msg.wire.reprs import readable

#: A message of any size is kept in memory, as its file is.
_UNLIMITED = 1 << 62
#: Seconds of the longest timeout and delay that a URL may set.
_DAY = 86_400
#: Parameters of pika's URLs, of AMQP 0-9-1, that change nothing of what is spooled.
_WITHOUT_EFFECT = {
    *("blocked_connection_timeout", "channel_max", "client_properties", "frame_max", "locale"),
    "tcp_options",
}
#: What its ``ssl_options`` are of an `Endpoint`.
_OF_TLS = {
    "ca_certs": "cacertfile",
    "cafile": "cacertfile",
    "certfile": "certfile",
    "keyfile": "keyfile",
    "server_hostname": "server_name",
}


@attrs.frozen
class Batches:
    """When a file is finished, with the first of these.

    Attributes:
        rows: messages.
        octets: of messages.
        seconds: since the first message of the file came; also how often it is looked at.
        idle: end after this many seconds without a message; None to run until stopped.
    """

    rows: int = 10_000
    octets: int = 64 << 20
    seconds: float = 1.0
    idle: float | None = None


@attrs.frozen
class _Place:
    """Where messages come from.

    Connecting is tried so many times, with a delay in seconds.
    """

    endpoint: Endpoint
    attempts: int = 1
    delay: float = 2.0

    @classmethod
    def of(cls, url: str, node: str, protocol: str) -> _Place:
        """Read the URL of a peer.

        Raises:
            ValueError: it is not such a URL; the message does not repeat it.
        """
        parts = split_url(url if "://" in url else f"amqp://{url}")
        if parts.scheme not in {"amqp", "amqps"}:
            raise ValueError(f"a URL begins with amqp:// or amqps://, not {parts.scheme[:20]!r}")
        tls = parts.scheme == "amqps"
        made: dict[str, Any] = {
            "host": parts.hostname or "localhost",
            "port": parts.port or (5671 if tls else 5672),
            "user": None if parts.username is None else unquote(parts.username),
            "password": None if parts.password is None else unquote(parts.password),
        }
        if protocol == "1.0":
            return cls(Endpoint("1.0", tls=tls, address=node, **made))
        if made["user"] is None:
            made["user"], made["password"] = "guest", "guest"
        host = unquote(parts.path.split("/")[1]) if len(parts.path) > 1 else "/"
        options, attempts = _parameters(parts.query)
        made |= options
        return cls(Endpoint("0-9-1", tls=tls, queue=node, virtual_host=host, **made), **attempts)


def _parameters(query: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read the parameters of a URL of AMQP 0-9-1, which have the names of pika's.

    Returns:
        The fields of an `Endpoint`, and those of a `_Place`.

    Raises:
        ValueError: a parameter is unknown, or its value is wrong.
    """
    made: dict[str, Any] = {}
    attempts: dict[str, Any] = {}
    for name, values in parse_qs(query).items():
        text = values[-1]
        if name == "heartbeat":
            made[name] = parameter_number(name, text, 0, 65_535) or 65_535  # 0 for none
        elif name in {"socket_timeout", "stack_timeout"}:
            made["timeout"] = _seconds(name, text)
        elif name == "connection_attempts":
            attempts["attempts"] = parameter_number(name, text, 1, 1_000_000)
        elif name == "retry_delay":
            attempts["delay"] = _seconds(name, text)
        elif name == "ssl_options":
            made |= _tls_options(text)
        elif name not in _WITHOUT_EFFECT:
            raise ValueError(f"{name[:40]!r} is not a parameter of a URL of AMQP 0-9-1")
    return made, attempts


def _seconds(name: str, text: str) -> float:
    """Return a parameter in seconds, from 0 to a day."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= _DAY:
        raise ValueError(f"{name} is a number of seconds from 0 to {_DAY:,}, not {text[:20]!r}")
    return seconds


def _tls_options(text: str) -> dict[str, Any]:
    """Return the fields of an `Endpoint` that pika's ``ssl_options`` set.

    The errors repeat names of options, and none of their values: one of them may be a password.
    """
    try:
        options = dict(ast.literal_eval(text) or {})
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        raise ValueError("ssl_options is not a dict as Python writes it") from None
    for name, value in options.items():
        if not isinstance(name, str) or name not in _OF_TLS:
            known = ", ".join(_OF_TLS)
            raise ValueError(f"ssl_options: {name!r:.40} is not one of {known}")
        if not isinstance(value, str | None):
            raise ValueError(f"ssl_options: {name} is a string")  # noqa: TRY004  (of a URL)
    return {_OF_TLS[name]: value for name, value in options.items()}


@attrs.define(eq=False, repr=False, slots=False)
class _Spooler:
    """Takes deliveries into a landing, and accepts them when they are on disk."""

    _node: str
    _landing: Landing
    _batches: Batches
    _now: Callable[[], float]
    _monotonic: Callable[[], float]
    _stopping: threading.Event | None = None

    def __attrs_post_init__(self) -> None:
        self.total = 0
        self._deliveries: list[SourceDelivery] = []
        self._first = 0.0
        self._last = self._monotonic()

    async def run(self, place: _Place, warn: Callable[[str], object]) -> int:
        """Consume a queue until it is idle, or it is told to stop; return how much was taken."""
        self._fault: asyncio.Future[NoReturn] = asyncio.get_running_loop().create_future()
        batches = self._batches
        link = await self._open(place)
        try:
            text = _redelivery_warning(link.product)
            if text:
                warn(text)
            wait = min(batches.seconds, batches.idle or batches.seconds)
            ends = False
            while not ends:
                await asyncio.wait({self._fault}, timeout=wait)
                if self._fault.done():
                    await self._fault
                idle = batches.idle
                ends = idle is not None and self._monotonic() - self._last >= idle
                ends = ends or (self._stopping is not None and self._stopping.is_set())
                if self._is_due or ends:
                    self._land()
            await link.close(5.0)
        finally:
            link.abort()
        return self.total

    async def _open(self, place: _Place) -> SourceLink:
        request = SourceRequest(
            endpoint=place.endpoint,
            receive=self._receive,
            on_lost=self._fail,
            # Twice as much as a file holds, so that the next one fills while this one is written.
            window=min(2 * self._batches.rows, 100_000),
            max_message=_UNLIMITED,
            overflow=_no_overflow,
        )
        for _ in range(place.attempts - 1):
            try:
                return await open_source(request)
            except LinkError as error:
                if error.permanent:
                    raise
                await asyncio.sleep(place.delay)
        return await open_source(request)

    def _receive(self, deliveries: Sequence[SourceDelivery]) -> None:
        for delivery in deliveries:
            self._receive_one(delivery)

    def _receive_one(self, delivery: SourceDelivery) -> None:
        if self._fault.done():
            return
        self._last = self._monotonic()
        if not self._deliveries:
            self._first = self._last
        self._landing.add(self._row(delivery))
        self._deliveries.append(delivery)
        batches = self._batches
        full = len(self._deliveries) >= batches.rows or self._landing.octets >= batches.octets
        if full or self._is_due:
            try:
                self._land()
            except Exception as error:  # noqa: BLE001  (raised in `run`)
                self._fail(error)

    def _row(self, delivery: SourceDelivery) -> Spooled:
        received = int(self._now() * 1_000_000)  # in microseconds
        header = delivery.content_header
        if header is None:
            tag = bytes(delivery.tag.tag)
            return Spooled(
                self._node,
                received,
                tag,
                delivery.redelivered,
                delivery.octets,
                message_format=delivery.message_format,
            )
        return Spooled(
            self._node,
            received,
            str(delivery.tag).encode(),
            delivery.redelivered,
            None,
            header,
            delivery.octets,
            readable(delivery.exchange),
            readable(delivery.routing_key),
        )

    @property
    def _is_due(self) -> bool:
        """Whether what is here has waited long enough."""
        waited = self._monotonic() - self._first
        return bool(self._deliveries) and waited >= self._batches.seconds

    def _land(self) -> None:
        """Write everything to disk, and accept it."""
        self._landing.flush()
        taken, self._deliveries = self._deliveries, []
        if taken:
            taken[0].link.settle(taken, Settle.ACCEPT)
        self.total += len(taken)

    def _fail(self, error: Exception) -> None:
        if not self._fault.done():
            self._fault.set_exception(error)
            self._fault.exception()  # `run` raises it, or what opening failed with


def _no_overflow() -> NoReturn:
    raise OSError("a message is larger than memory can be")


def _redelivery_warning(product: str) -> str:
    """Return the warning for RabbitMQ from 4.0 on; empty for other peers.

    Neither protocol says which kind of queue it is.
    """
    name, _, version = product.partition(" ")
    major = version.partition(".")[0]
    if name != "RabbitMQ" or not major.isdecimal() or int(major) < 4:
        return ""
    return (
        f"RabbitMQ {version}: a quorum queue drops or dead-letters what it delivered again 20 "
        "times, unless its delivery-limit says otherwise; where the spooler is killed often, "
        "raise it (-1 for no limit)"
    )


def spool(
    url: str,
    node: str,
    landing: Landing,
    batches: Batches | None = None,
    *,
    protocol: Literal["1.0", "0-9-1"] = "1.0",
    now: Callable[[], float] = time.time,
    monotonic: Callable[[], float] = time.monotonic,
    warn: Callable[[str], object] = warnings.warn,
) -> int:
    """Consume an address or a queue until it is idle or the process is ended.

    Every message is taken, also one that breaks rules: its bytes go to disk as they came, of AMQP
    0-9-1 also its content header.

    Args:
        url: of the peer, such as ``amqp://user:password@host:5672``; of AMQP 0-9-1 with the virtual
            host after that.
        node: the address of the source; of AMQP 0-9-1, the name of the queue.
        landing: where to.
        batches: when a file is finished.
        protocol: of AMQP: ``1.0``, or ``0-9-1``, which takes pika.
        now: the time, in seconds since the Unix epoch.
        monotonic: a clock that never goes back, in seconds.
        warn: called at the start with what this peer may drop: quorum queues of RabbitMQ 4 keep
            their default delivery-limit of 20.

    Returns:
        How many messages were spooled and accepted.

    Raises:
        ConnectionError: the connection, link or channel broke; what was accepted is on disk.
    """
    place = _Place.of(url, node, protocol)
    spooler = _Spooler(node, landing, batches or Batches(), now, monotonic)
    try:
        return asyncio.run(spooler.run(place, warn))
    except LinkError as error:
        at = f" at {place.endpoint.host}:{place.endpoint.port}" if protocol == "0-9-1" else ""
        raise ConnectionError(f"{node}{at}: {error}") from None


def spool_from(
    endpoint: Endpoint,
    landing: Landing,
    batches: Batches,
    *,
    stopping: threading.Event | None = None,
    warn: Callable[[str], object] = warnings.warn,
) -> int:
    """Consume what a URL of a bridge names, as `spool` does.

    Args:
        endpoint: the source, of `parse_url`.
        landing: where to.
        batches: when a file is finished.
        stopping: once it is set, this ends, with what is here on disk and accepted.
        warn: as for `spool`.

    Returns:
        How many messages were spooled and accepted.

    Raises:
        LinkError: the connection, link or channel broke, or cannot be opened; what was accepted is
            on disk.
        OSError: a file could not be written.
    """
    spooler = _Spooler(endpoint.name, landing, batches, time.time, time.monotonic, stopping)
    try:
        return asyncio.run(spooler.run(_Place(endpoint), warn))
    finally:
        landing.forget()  # the next connection is given it again
