"""Writes the messages of a queue to Parquet files, and acknowledges them when they are on disk.

A crash loses no message: the broker redelivers unacknowledged messages. A message that was on disk
and not acknowledged is then stored twice; `Spooled.identity` is equal for both rows.
"""

from __future__ import annotations

import ast
import asyncio
import os
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Literal, NoReturn
from urllib.parse import parse_qs, unquote

import attrs

from amqp10msg.net.ends.links import open_source
from amqp10msg.net.ends.terms import LinkError, Settle, SourceDelivery, SourceLink, SourceRequest
from amqp10msg.net.ends.urls import (
    Endpoint,
    parameter_number,
    parse_url,
    secret,
    split_url,
    with_files,
)
from amqp10msg.net.landing import Landing, Spooled
from amqp10msg.wire.reprs import readable

#: The maximum message size, in bytes. Practically no limit, since rows are kept in memory anyway.
_MAX_MESSAGE_SIZE = 1 << 62
#: The maximum of a timeout or delay in a URL, in seconds.
_DAY = 86_400
#: Parameters of pika's URLs (AMQP 0-9-1) that are accepted and ignored.
_IGNORED_PARAMETERS = {
    *("blocked_connection_timeout", "channel_max", "client_properties", "frame_max", "locale"),
    "tcp_options",
}
#: For each key of pika's ``ssl_options``, the field of `Endpoint` with the same meaning.
_TLS_FIELDS = {
    "ca_certs": "cacertfile",
    "cafile": "cacertfile",
    "certfile": "certfile",
    "keyfile": "keyfile",
    "server_hostname": "server_name",
}


@attrs.frozen
class Batches:
    """When to write the received messages to a file: at the first limit that they reach.

    Attributes:
        rows: maximum number of messages in a file.
        octets: size of the messages, in bytes, at which a file is written.
        seconds: maximum time from the receipt of a file's first message to the write, in seconds.
        idle: end after this many seconds without a message; None to run until stopped.
    """

    rows: int = 10_000
    octets: int = 64 << 20
    seconds: float = 1.0
    idle: float | None = None


@attrs.frozen
class _SourceUrl:
    """A parsed source URL.

    Attributes:
        endpoint: the source.
        attempts: maximum number of attempts to connect.
        delay: seconds between two attempts.
    """

    endpoint: Endpoint
    attempts: int = 1
    delay: float = 2.0

    @classmethod
    def of(cls, url: str, node: str, protocol: str) -> _SourceUrl:
        """Parse the URL of a broker; `node` is the address or queue, which the URL does not name.

        Raises:
            ValueError: the URL is invalid. The error text does not quote the URL, which may contain
                a password.
        """
        url = with_files(url)
        parts = split_url(url if "://" in url else f"amqp://{url}")
        if parts.scheme not in {"amqp", "amqps"}:
            raise ValueError(
                "a URL must begin with amqp:// or amqps:// (for AMQP 0-9-1 likewise: give the "
                f"protocol separately), not {parts.scheme[:20]!r}"
            )
        if protocol == "1.0":
            if parts.path not in {"", "/"}:
                raise ValueError(
                    "a URL of AMQP 1.0 must not have a path here: give the address separately"
                )
            return cls(attrs.evolve(parse_url(parts.geturl()), address=node))
        tls = parts.scheme == "amqps"
        fields: dict[str, Any] = {
            "host": parts.hostname or "localhost",
            "port": parts.port or (5671 if tls else 5672),
            "user": secret(parts.username, os.environ),
            "password": secret(parts.password, os.environ),
        }
        if fields["user"] is None:
            fields["user"], fields["password"] = "guest", "guest"
        host = unquote(parts.path.split("/")[1]) if len(parts.path) > 1 else "/"
        options, attempts = _parse_parameters(parts.query)
        fields |= options
        endpoint = Endpoint("0-9-1", tls=tls, queue=node, virtual_host=host, **fields)
        return cls(endpoint, **attempts)


def _parse_parameters(query: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Parse the query parameters of an AMQP 0-9-1 URL, which are those of pika.

    Returns:
        The fields of `Endpoint` and the fields of `_SourceUrl` that the parameters set.

    Raises:
        ValueError: a parameter is unknown, or its value is invalid.
    """
    fields: dict[str, Any] = {}
    attempts: dict[str, Any] = {}
    for name, values in parse_qs(query).items():
        text = values[-1]
        if name == "heartbeat":
            # 0 disables heartbeats: use the longest interval.
            fields[name] = parameter_number(name, text, 0, 65_535) or 65_535
        elif name in {"socket_timeout", "stack_timeout"}:
            fields["timeout"] = _seconds(name, text)
        elif name == "connection_attempts":
            attempts["attempts"] = parameter_number(name, text, 1, 1_000_000)
        elif name == "retry_delay":
            attempts["delay"] = _seconds(name, text)
        elif name == "ssl_options":
            fields |= _tls_options(text)
        elif name not in _IGNORED_PARAMETERS:
            raise ValueError(f"unknown parameter {name[:40]!r} in a URL of AMQP 0-9-1")
    return fields, attempts


def _seconds(name: str, text: str) -> float:
    """Parse the URL parameter `name`, a number of seconds from 0 to `_DAY`."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= _DAY:
        raise ValueError(f"{name} must be 0 to {_DAY:,} seconds, got {text[:20]!r}")
    return seconds


def _tls_options(text: str) -> dict[str, Any]:
    """Convert pika's ``ssl_options`` to fields of `Endpoint`.

    Raises:
        ValueError: an option is unknown or invalid. The error text does not quote values, which
            may be passwords.
    """
    try:
        options = dict(ast.literal_eval(text) or {})
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        raise ValueError("ssl_options must be a Python dict literal") from None
    for name, value in options.items():
        if not isinstance(name, str) or name not in _TLS_FIELDS:
            allowed = ", ".join(_TLS_FIELDS)
            raise ValueError(f"ssl_options: unknown option {name!r:.40}; the options are {allowed}")
        if not isinstance(value, str | None):
            raise ValueError(f"ssl_options: {name} must be a string")  # noqa: TRY004  (in a URL)
    return {_TLS_FIELDS[name]: value for name, value in options.items()}


@attrs.define(eq=False, repr=False, slots=False)
class _Spooler:
    """Writes received deliveries to a `Landing`, and accepts them when they are on disk."""

    _node: str
    _landing: Landing
    _batches: Batches
    _now: Callable[[], float]
    _monotonic: Callable[[], float]
    _stopping: threading.Event | None = None

    def __attrs_post_init__(self) -> None:
        self.total = 0
        self._deliveries: list[SourceDelivery] = []
        self._first_received_at = 0.0  # the first message of the next file
        self._last_received_at = self._monotonic()

    async def run(self, source: _SourceUrl, warn: Callable[[str], object]) -> int:
        """Consume a queue until it is idle or `_stopping` is set; return the number of messages.

        `warn` is called with the warning of `_redelivery_warning`, if there is one.
        """
        self._fault: asyncio.Future[NoReturn] = asyncio.get_running_loop().create_future()
        batches = self._batches
        link = await self._open(source)
        try:
            text = _redelivery_warning(link.peer_product)
            if text:
                warn(text)
            interval = min(batches.seconds, batches.idle or batches.seconds)
            must_end = False
            while not must_end:
                await asyncio.wait({self._fault}, timeout=interval)
                if self._fault.done():
                    await self._fault
                idle = batches.idle
                must_end = idle is not None and self._monotonic() - self._last_received_at >= idle
                must_end = must_end or (self._stopping is not None and self._stopping.is_set())
                if self._is_due or must_end:
                    self._write_and_accept()
            await link.close(5.0)
        finally:
            link.abort()
        return self.total

    async def _open(self, source: _SourceUrl) -> SourceLink:
        """Open the link to the source, with retries as the URL requests."""
        request = SourceRequest(
            endpoint=source.endpoint,
            receive=self._receive,
            on_lost=self._fail,
            # Enough for two files: the next file fills while the current file is written.
            window=min(2 * self._batches.rows, 100_000),
            max_message=_MAX_MESSAGE_SIZE,
            overflow=_raise_overflow,
        )
        for _ in range(source.attempts - 1):
            try:
                return await open_source(request)
            except LinkError as error:
                if error.permanent:
                    raise
                await asyncio.sleep(source.delay)
        return await open_source(request)

    def _receive(self, deliveries: Sequence[SourceDelivery]) -> None:
        for delivery in deliveries:
            self._receive_one(delivery)

    def _receive_one(self, delivery: SourceDelivery) -> None:
        """Add a delivery to the next file, and write the file if a limit is reached."""
        if self._fault.done():
            return
        self._last_received_at = self._monotonic()
        if not self._deliveries:
            self._first_received_at = self._last_received_at
        self._landing.add(self._row(delivery))
        self._deliveries.append(delivery)
        batches = self._batches
        full = len(self._deliveries) >= batches.rows or self._landing.octets >= batches.octets
        if full or self._is_due:
            try:
                self._write_and_accept()
            except Exception as error:  # noqa: BLE001  (raised in `run`)
                self._fail(error)

    def _row(self, delivery: SourceDelivery) -> Spooled:
        """Convert a delivery to a row of a file."""
        received = int(self._now() * 1_000_000)
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
        """Whether the oldest unwritten message was received at least `Batches.seconds` ago."""
        waited = self._monotonic() - self._first_received_at
        return bool(self._deliveries) and waited >= self._batches.seconds

    def _write_and_accept(self) -> None:
        """Write the received messages to disk, then accept them."""
        self._landing.flush()
        deliveries, self._deliveries = self._deliveries, []
        if deliveries:
            deliveries[0].link.settle(deliveries, Settle.ACCEPT)
        self.total += len(deliveries)

    def _fail(self, error: Exception) -> None:
        """End `run` with an error."""
        if not self._fault.done():
            self._fault.set_exception(error)
            # Mark the exception as retrieved, to prevent a log entry: `run` may raise another
            # error, from opening the link, and never await `_fault`.
            self._fault.exception()


def _raise_overflow() -> NoReturn:
    raise OSError("the message exceeds the maximum size")


def _redelivery_warning(peer_product: str) -> str:
    """Return a warning about lost messages for RabbitMQ 4.0 and later; empty for other brokers.

    The warning is needed for quorum queues only, but no protocol reports the type of a queue.
    """
    name, _, version = peer_product.partition(" ")
    major = version.partition(".")[0]
    if name != "RabbitMQ" or not major.isdecimal() or int(major) < 4:
        return ""
    return (
        f"RabbitMQ {version}: a quorum queue drops or dead-letters a message after 20 redeliveries "
        "by default; if the spooler is killed often, raise the delivery-limit of the queue "
        "(-1 for no limit)"
    )


def endpoint_of(url: str, node: str, protocol: Literal["1.0", "0-9-1"] = "1.0") -> Endpoint:
    """Return the source that `spool` reads with these arguments.

    Raises:
        ValueError: the URL is invalid, or names a variable or file that does not exist.
    """
    return _SourceUrl.of(url, node, protocol).endpoint


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
    """Write the messages of an address or a queue to Parquet files, and accept them.

    Returns when no message has arrived for `Batches.idle` seconds.

    Every message is consumed, including malformed messages: the received bytes are stored, and for
    AMQP 0-9-1 also the content header.

    Args:
        url: the URL of the broker, such as ``amqp://user:password@host:5672``; for AMQP 0-9-1,
            followed by the virtual host. User and password may be ``${NAME}``, an environment
            variable, or ``${file:PATH}``, the content of a file.
        node: the address of the source; for AMQP 0-9-1, the name of the queue.
        landing: the folder to write to.
        batches: when to write a file.
        protocol: ``1.0``, or ``0-9-1``, which needs pika.
        now: returns the time in seconds since the Unix epoch.
        monotonic: a monotonic clock in seconds.
        warn: called at the start with a warning if the broker may drop redelivered messages: quorum
            queues of RabbitMQ 4 have a default delivery-limit of 20.

    Returns:
        The number of messages that were written and accepted.

    Raises:
        ConnectionError: the connection, link or channel failed; accepted messages are on disk.
        ValueError: the URL is invalid, or names a variable or file that does not exist.
    """
    source = _SourceUrl.of(url, node, protocol)
    spooler = _Spooler(node, landing, batches or Batches(), now, monotonic)
    try:
        return asyncio.run(spooler.run(source, warn))
    except LinkError as error:
        endpoint = source.endpoint
        raise ConnectionError(f"{node} at {endpoint.host}:{endpoint.port}: {error}") from None


def spool_from(
    endpoint: Endpoint,
    landing: Landing,
    batches: Batches,
    *,
    stopping: threading.Event | None = None,
    warn: Callable[[str], object] = warnings.warn,
) -> int:
    """Write the messages of a bridge's source to Parquet files, and accept them, like `spool`.

    Args:
        endpoint: the source, from `parse_url`.
        landing: the folder to write to.
        batches: when to write a file.
        stopping: set this event to end; received messages are written and accepted first.
        warn: see `spool`.

    Returns:
        The number of messages that were written and accepted.

    Raises:
        LinkError: the connection, link or channel cannot be opened or failed; accepted messages
            are on disk.
        OSError: a file could not be written.
    """
    spooler = _Spooler(endpoint.name, landing, batches, time.time, time.monotonic, stopping)
    try:
        return asyncio.run(spooler.run(_SourceUrl(endpoint), warn))
    finally:
        landing.forget()  # the broker redelivers unaccepted messages
