"""Writes the messages of a queue to Parquet files, and acknowledges them when they are on disk.

A crash loses no message: the broker redelivers unacknowledged messages. A message that was on disk
and not acknowledged is then stored twice; `Spooled.identity` is equal for both rows.

A spooler is a route of the bridge to a `ParquetTarget` that ends with its first lost connection.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import warnings
from collections.abc import Awaitable, Callable
from typing import Any, Literal, TypeVar
from urllib.parse import parse_qs

import attrs

from amqp10msg.net.bridge.options import RouteOptions
from amqp10msg.net.bridge.route import Route
from amqp10msg.net.bridge.routes import RouteSpec
from amqp10msg.net.ends.parquet import Landing
from amqp10msg.net.ends.terms import LinkError
from amqp10msg.net.ends.urls import Endpoint, FileLimits, parse_url, split_url, with_files
from amqp10msg.net.ends.wire import ConnectionPools
from amqp10msg.options import declared
from amqp10msg.wire.text import plural

_T = TypeVar("_T")

#: Receives the events of the route; silent unless the application configures logging.
_LOGGER = logging.getLogger("amqp10msg.spool")
_LOGGER.addHandler(logging.NullHandler())
#: The maximum of `RouteOptions.max_message` and `RouteOptions.max_bytes`. Practically no limit.
_MAX_SIZE = 1 << 60
#: The maximum of `RouteOptions.window`.
_MAX_WINDOW = 65_535
#: Seconds between two checks whether to end.
_CHECK_INTERVAL = 0.1
#: For parameters of pika's URLs, the parameters of `parse_url` with the same purpose.
_RENAMED_PARAMETERS = {
    "socket_timeout": "connection_timeout, in milliseconds",
    "stack_timeout": "connection_timeout, in milliseconds",
    "ssl_options": "cacertfile, certfile, keyfile and server_name_indication",
}


@attrs.frozen
class Batches(FileLimits):
    """When to write the received messages to a file, and when to end.

    Attributes:
        rows: maximum number of messages in a file; no file has more than 65,535.
        octets: total size of the messages, in bytes, at which a file is written.
        seconds: maximum time from a file's first message to the write, in seconds.
        idle: end after this many seconds without a message; None to run until stopped.

    Raises:
        TypeError: a limit is not a number.
        ValueError: a limit is out of range.
    """

    idle: float | None = declared(None, float, low=0.01)


def endpoint_of(url: str, node: str, protocol: Literal["1.0", "0-9-1"] = "1.0") -> Endpoint:
    """Return the source that `spool` reads with these arguments.

    Raises:
        ValueError: the URL is invalid, or names a variable or file that does not exist. The error
            text does not quote the URL, which may contain a password.
    """
    url = with_files(url if "://" in url else f"amqp://{url}")
    parts = split_url(url)
    if parts.scheme not in {"amqp", "amqps"}:
        raise ValueError(
            "a URL must begin with amqp:// or amqps:// (for AMQP 0-9-1 likewise: give the "
            f"protocol separately), not {parts.scheme[:20]!r}"
        )
    if protocol == "1.0":
        endpoint = parse_url(url)
        if endpoint.address is not None:
            raise ValueError(
                "a URL of AMQP 1.0 must not have a path here: give the address separately"
            )
        return attrs.evolve(endpoint, address=node)
    for name in parse_qs(parts.query, keep_blank_values=True):
        if name in _RENAMED_PARAMETERS:
            raise ValueError(
                f"{name!r} is not a parameter of a URL: use {_RENAMED_PARAMETERS[name]}"
            )
    endpoint = parse_url(url.strip().replace("amqp", "amqp091", 1))
    if endpoint.queue is not None:
        raise ValueError("a URL of AMQP 0-9-1 must not have queue= here: give the queue separately")
    return attrs.evolve(endpoint, queue=node)


@attrs.frozen
class _OpenLanding:
    """A pool whose only connection is an open landing, which stays open."""

    _landing: Landing

    async def join(
        self,
        endpoint: Endpoint,  # noqa: ARG002  (of the protocol)
        open_connection: Callable[[Endpoint], Awaitable[Any]],  # noqa: ARG002
        make_link: Callable[[Any], _T],
        *,
        alone: bool = False,  # noqa: ARG002
    ) -> _T:
        """Return a new target that writes to the landing."""
        return make_link(self._landing)


def _route_to(landing: Landing, source: Endpoint, batches: Batches) -> Route:
    """Return the route from a source to a landing."""
    target = Endpoint(source.protocol, "", 0, file=str(landing.folder), parquet=batches)
    options = RouteOptions(
        # Enough for two files: the next file fills while the current file is written.
        window=min(2 * batches.rows, _MAX_WINDOW),
        max_bytes=min(2 * batches.octets, _MAX_SIZE),
        max_message=_MAX_SIZE,
        outcome_timeout=batches.seconds + 30.0,
        reconnect=False,
        quarantine=landing.folder / ".too-large.jsonl",
    )
    spec = RouteSpec(source, target, options)
    pools = ConnectionPools(targets=_OpenLanding(landing))
    return Route(spec.name, spec.source, spec.target, spec.options, _LOGGER, pools)


async def _run(
    route: Route,
    idle: float | None,
    stopping: threading.Event | None,
    warn: Callable[[str], object],
) -> int:
    """Run a route until its source is idle or `stopping` is set; return the number of messages.

    Raises:
        LinkError: the source cannot be opened or was lost.
        OSError: a file could not be written.
    """
    counts, clock = route.statistics, asyncio.get_running_loop().time
    running = asyncio.ensure_future(route.run())
    received, idle_since, warned = 0, clock(), False
    while not running.done():
        await asyncio.wait({running}, timeout=min(_CHECK_INTERVAL, idle or _CHECK_INTERVAL))
        if not warned and (product := route.source_product):
            warned = True
            if text := _redelivery_warning(product):
                warn(text)
        if counts.received != received or not counts.connected.get("source"):
            received, idle_since = counts.received, clock()
        is_idle = idle is not None and clock() - idle_since >= idle
        if is_idle or (stopping is not None and stopping.is_set()):
            route.stop()
    try:
        await running
    except LinkError as error:
        if error.local:
            raise OSError(str(error)) from None
        raise
    if counts.quarantined:
        count = plural(counts.quarantined.total(), "message")
        warn(f"{count} too large for Parquet files: see {route.options.quarantine}")
    return counts.accepted


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


def spool(
    url: str,
    node: str,
    landing: Landing,
    batches: Batches | None = None,
    *,
    protocol: Literal["1.0", "0-9-1"] = "1.0",
    warn: Callable[[str], object] = warnings.warn,
) -> int:
    """Write the messages of an address or a queue to Parquet files, and accept them.

    Returns when no message has arrived for `Batches.idle` seconds.

    Every message is consumed, including malformed messages: the received bytes are stored, and for
    AMQP 0-9-1 also the content header.

    Args:
        url: the URL of the broker, such as ``amqp://user:password@host:5672``; for AMQP 0-9-1,
            followed by the virtual host. Its parameters are those of `parse_url`. User and password
            may be ``${NAME}``, an environment variable, or ``${file:PATH}``, the content of a file.
        node: the address of the source; for AMQP 0-9-1, the name of the queue.
        landing: the folder to write to.
        batches: when to write a file.
        protocol: ``1.0``, or ``0-9-1``, which needs pika.
        warn: called at the start with a warning if the broker may drop redelivered messages: quorum
            queues of RabbitMQ 4 have a default delivery-limit of 20. Also called for messages of
            more than 2 GiB, which are in the file ``.too-large.jsonl`` of the folder.

    Returns:
        The number of messages that were written and accepted.

    Raises:
        ConnectionError: the connection, link or channel failed; accepted messages are on disk.
        OSError: a file could not be written.
        ValueError: the URL is invalid, or names a variable or file that does not exist.
    """
    source = endpoint_of(url, node, protocol)
    try:
        return spool_from(source, landing, batches or Batches(), warn=warn)
    except LinkError as error:
        reason = str(error).removeprefix(f"{source}: ")
        raise ConnectionError(f"{node} at {source.host}:{source.port}: {reason}") from None


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
        stopping: set this event to end; the messages for the next file are written and accepted
            first.
        warn: see `spool`.

    Returns:
        The number of messages that were written and accepted.

    Raises:
        LinkError: the connection, link or channel cannot be opened or failed; accepted messages
            are on disk.
        OSError: a file could not be written.
        ValueError: the endpoint is not a queue or address of a broker.
    """
    if endpoint.file is not None:
        raise ValueError(f"{endpoint}: a spooler reads a queue or address of a broker")
    return asyncio.run(_run(_route_to(landing, endpoint, batches), batches.idle, stopping, warn))
