"""Consumers that write a queue to files: on disk first, then acknowledged.

A crash at any moment loses nothing: what was not acknowledged is delivered again. What was on disk
and not yet acknowledged comes twice; `Spooled.identity` says what is the same.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Literal

import attrs

from amqp10msg.net.landing import Landing, Spooled


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


@attrs.define
class _Pending:
    """The landing, and the deliveries in it that are to be acknowledged."""

    landing: Landing
    batches: Batches
    now: Callable[[], float]
    monotonic: Callable[[], float]
    warn: Callable[[str], object]
    deliveries: list[Any] = attrs.Factory(list)
    total: int = 0
    first: float = 0.0
    last: float = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.last = self.monotonic()

    def connected(self, properties: Mapping[Any, Any]) -> None:
        """Warn of what a peer with these properties may drop."""
        text = _redelivery_warning(properties)
        if text:
            self.warn(text)

    def add(self, row: Spooled, delivery: Any) -> bool:
        """Add a delivery; return whether the file is full."""
        self.last = self.monotonic()
        if not self.deliveries:
            self.first = self.last
        self.landing.add(row)
        self.deliveries.append(delivery)
        return (
            len(self.deliveries) >= self.batches.rows
            or self.landing.octets >= self.batches.octets
            or self.due
        )

    @property
    def due(self) -> bool:
        """Whether what is here has waited long enough."""
        waited = self.monotonic() - self.first
        return bool(self.deliveries) and waited >= self.batches.seconds

    @property
    def wait(self) -> float:
        """Seconds until `due` and `is_idle` are to be looked at again."""
        return min(self.batches.seconds, self.batches.idle or self.batches.seconds)

    @property
    def is_idle(self) -> bool:
        idle = self.batches.idle
        return idle is not None and self.monotonic() - self.last >= idle

    def take(self) -> list[Any]:
        """Write everything to disk; return the deliveries to acknowledge."""
        self.landing.flush()
        taken, self.deliveries = self.deliveries, []
        self.total += len(taken)
        return taken

    @property
    def time(self) -> int:
        """Microseconds since the Unix epoch."""
        return int(self.now() * 1_000_000)


def _redelivery_warning(properties: Mapping[Any, Any]) -> str:
    """Return what is to be known of RabbitMQ from 4.0 on; empty for other peers.

    Neither protocol says which kind of queue it is.
    """
    version = str(properties.get("version"))
    major = version.partition(".")[0]
    if properties.get("product") != "RabbitMQ" or not major.isdecimal() or int(major) < 4:
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
        protocol: of AMQP: ``1.0`` by way of proton, ``0-9-1`` by way of pika.
        now: the time, in seconds since the Unix epoch.
        monotonic: a clock that never goes back, in seconds.
        warn: called at the start with what this peer may drop: quorum queues of RabbitMQ 4 keep
            their default delivery-limit of 20.

    Returns:
        How many messages were spooled and accepted.

    Raises:
        ConnectionError: the connection, link or channel broke; what was accepted is on disk.
    """
    pending = _Pending(landing, batches or Batches(), now, monotonic, warn)
    if protocol == "1.0":
        from amqp10msg.net._receiver import consume  # noqa: PLC0415  (an extra)
    else:
        from amqp10msg.net._basic import consume  # noqa: PLC0415  (an extra)
    consume(url, node, pending)
    return pending.total
