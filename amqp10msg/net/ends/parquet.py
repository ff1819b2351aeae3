"""Targets that write messages durably to numbered Parquet files in a folder.

Messages are not translated. Each row has the received bytes, even of a malformed message.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import time
from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path
from typing import NoReturn, Self

import attrs

try:
    import pyarrow as pa
    import pyarrow.parquet as pq
except ModuleNotFoundError as _error:
    raise ModuleNotFoundError(
        'writing Parquet files needs pyarrow: pip install "amqp10msg[arrow]"',
        name="pyarrow",
    ) from _error

from amqp10msg.atomic_files import lock, replacing
from amqp10msg.basic import FieldTable, decode_content_header, encode_properties
from amqp10msg.brokers import ACQUIRED_COUNT, DELIVERY_COUNT
from amqp10msg.message import Message
from amqp10msg.net.ends.contents import id_of_message, id_of_properties
from amqp10msg.net.ends.terms import (
    ACCEPTED,
    LinkError,
    Outcome,
    Outgoing,
    Sent,
    SourceDelivery,
    SourceRequest,
    TargetRequest,
)
from amqp10msg.net.ends.urls import Endpoint, FileLimits, parquet_source_error
from amqp10msg.net.ends.wire import ConnectionPool
from amqp10msg.private_files import PRIVATE
from amqp10msg.sections.parts import scan
from amqp10msg.wire.errors import AmqpError
from amqp10msg.wire.reprs import readable

#: Maximum size in bytes of a value in a column of Arrow's type binary.
_MAX_VALUE_SIZE = (1 << 31) - 1

#: The columns of the Parquet files. ``identity`` and ``redelivered`` help to remove duplicates; the
#: other columns are those of the Spark data source ``amqp10`` that are known on receipt.
LANDED_SCHEMA = pa.schema(
    [
        ("identity", pa.string()),
        ("redelivered", pa.bool_()),
        ("received", pa.timestamp("us", "UTC")),
        ("protocol", pa.string()),
        ("address", pa.string()),
        ("delivery_tag", pa.binary()),
        ("message_format", pa.int64()),
        ("wire", pa.binary()),
        ("content_header", pa.binary()),
        ("payload", pa.binary()),
        ("exchange", pa.string()),
        ("routing_key", pa.string()),
    ]
)


@attrs.frozen
class Spooled:
    """A received delivery: one row of a Parquet file.

    Attributes:
        address: the address of the source (1.0) or the name of the queue (0-9-1).
        received: the time of receipt, in microseconds since the Unix epoch.
        delivery_tag: the delivery-tag.
        redelivered: whether the broker marked the message as possibly delivered before.
        wire: the encoded message; None for 0-9-1.
        content_header: the payload of the content header frame (0-9-1); None for 1.0.
        payload: the body (0-9-1); None for 1.0.
        exchange: the exchange to which the message was published (0-9-1); None for 1.0.
        routing_key: the routing key with which it was published (0-9-1); None for 1.0.
        message_format: the message-format of the transfer, 0 to 2^32 - 1 (1.0); None for 0-9-1.
            Readers need the message-format to unpack Azure's batches.
    """

    address: str
    received: int
    delivery_tag: bytes
    redelivered: bool
    wire: bytes | None = None
    content_header: bytes | None = None
    payload: bytes | None = None
    exchange: str | None = None
    routing_key: str | None = None
    message_format: int | None = None

    @property
    def protocol(self) -> str:
        """The protocol of the delivery, ``1.0`` or ``0-9-1``."""
        return "0-9-1" if self.wire is None else "1.0"

    @property
    def identity(self) -> str:
        """A string that is equal for all deliveries of one message.

        It is the message-id with its type; for a message without a message-id, a hash of the bare
        message (of all bytes if the message is malformed). Two messages with equal bytes have equal
        hashes.
        """
        if self.wire is None:
            return self._basic_identity
        try:
            identity = id_of_message(scan(self.wire))
            return identity or _hash(Message.decode(self.wire, strict=False).bare)
        except AmqpError:
            return _hash(self.wire)

    @property
    def _basic_identity(self) -> str:
        """The `identity` of a 0-9-1 delivery."""
        octets = self.content_header or b""
        with contextlib.suppress(AmqpError):
            properties = decode_content_header(octets).properties
            identity = id_of_properties(properties)
            if identity is not None:
                return identity
            headers = FieldTable(properties.headers or {})
            entries = [entry for entry in headers.entries if entry[0] not in _DELIVERY_HEADERS]
            properties.headers = FieldTable.of(entries) if entries else None
            octets = encode_properties(properties)
        return _hash(octets + (self.payload or b""))


#: Headers that RabbitMQ's quorum queues add to redelivered messages.
_DELIVERY_HEADERS = {DELIVERY_COUNT, ACQUIRED_COUNT}


def _hash(octets: bytes) -> str:
    return f"sha256:{hashlib.sha256(octets).hexdigest()}"


def file_name(number: int) -> str:
    """Return the name of the Parquet file with this number."""
    return f"{number:012d}.parquet"


#: The name of the lock file of a folder, which also stores the number of the next file.
_LOCK_FILE_NAME = ".lock"


def numbers_in(folder: Path) -> list[int]:
    """Return the numbers of the Parquet files in `folder`, sorted."""
    return sorted(int(path.stem) for path in folder.glob("*.parquet") if path.stem.isdecimal())


def next_of(folder: Path) -> int:
    """Return the number of the next Parquet file in `folder`. Numbers are not reused."""
    stored = ""
    with contextlib.suppress(FileNotFoundError):
        stored = (folder / _LOCK_FILE_NAME).read_text(encoding="ascii")
    return max(int(stored) if stored.isdecimal() else 0, *(n + 1 for n in numbers_in(folder)), 0)


class Landing:
    """A folder of numbered Parquet files. Readers see only complete files.

    A file is written under a temporary name that readers ignore, synced to disk, and renamed.
    Numbers increase and are not reused, even if a reader removes files: a stream reader would
    mistake a new file with an old number for the removed file. Only one process can write to a
    folder.

    Args:
        folder: the folder; created if it does not exist.
        closes_unused: whether to close the landing when its last target is removed.

    Attributes:
        folder: as above.
        links: the targets that write to the folder; `ConnectionPool` lets them share a landing.

    Raises:
        BlockingIOError: another process writes to the folder.
        OSError: the folder cannot be written to.
    """

    def __init__(self, folder: str | Path, *, closes_unused: bool = False) -> None:
        self.folder = Path(folder)
        self.links: set[ParquetTarget] = set()
        self._closes_unused = closes_unused
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = os.fdopen(
            os.open(self.folder / _LOCK_FILE_NAME, os.O_RDWR | os.O_CREAT, PRIVATE), "r+"
        )
        try:
            lock(self._lock.fileno(), wait=False)
        except OSError:
            self._lock.close()
            raise BlockingIOError(f"{folder}: another process writes to this folder") from None
        for unfinished in self.folder.glob(".*.tmp"):
            unfinished.unlink()  # left by a killed process; its rows were not acknowledged
        self._next = next_of(self.folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def next(self) -> int:
        """The number of the next file, from 0."""
        return self._next

    @property
    def alive(self) -> bool:
        """Whether the landing is open."""
        return not self._lock.closed

    joinable = alive

    def close(self) -> None:
        """Let other processes write to the folder."""
        self._lock.close()

    #: A `Wire` has `abort` to close without waiting for the peer. A landing has no peer.
    abort = close

    def remove_link(self, target: ParquetTarget) -> None:
        """Remove a target that was closed."""
        self.links.discard(target)
        if self._closes_unused and not self.links:
            self.close()

    def write(self, rows: Sequence[Spooled]) -> Path:
        """Write deliveries to a new file, and sync the file to disk.

        The caller may acknowledge the deliveries after `write` returns.

        Args:
            rows: the deliveries, at least one.

        Returns:
            The path of the file.

        Raises:
            OSError: the file could not be written.
            ValueError: there are no rows.
        """
        if not rows:
            raise ValueError("a file needs at least one row")
        columns = {
            field.name: pa.array(list(map(attrgetter(field.name), rows)), field.type)
            for field in LANDED_SCHEMA
        }
        path = self.folder / file_name(self._next)
        with replacing(path, private=True) as file:
            pq.write_table(pa.table(columns, schema=LANDED_SCHEMA), file, compression="zstd")
        self._lock.seek(0)
        self._lock.write(f"{self._next + 1:012d}")
        self._lock.flush()
        os.fsync(self._lock.fileno())
        self._next += 1
        return path


class ParquetTarget:
    """Collects messages in memory, and writes them to a file at the first limit that they reach.

    The outcomes of the messages are reported after the file is on disk.
    """

    peer_product = "parquet"
    waits = False

    def __init__(self, request: TargetRequest, landing: Landing) -> None:
        self.endpoint = request.endpoint
        self.alive = True
        self._limits = request.endpoint.parquet or FileLimits()
        # A source delivers no more than `window` messages before some are settled.
        self._max_rows = min(self._limits.rows, request.window)
        self._on_outcomes, self._on_room = request.on_outcomes, request.on_room
        self._on_lost = request.on_lost
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None  # writes the file after `seconds`
        self._rows: list[Spooled] = []
        self._deliveries: list[SourceDelivery] = []
        self._octets = 0
        self._landing = landing
        landing.links.add(self)

    @property
    def room(self) -> int:
        """The number of messages that can be sent now: the rows that are free in the next file."""
        return self._max_rows - len(self._rows)

    def send(self, messages: Sequence[Sent]) -> None:
        """Add messages to the next file, and write the file if it reaches a limit."""
        clock_offset = time.time() - self._loop.time()
        for outgoing, delivery in messages:
            size = max(len(outgoing.octets), len(outgoing.content_header or b""))
            if size > _MAX_VALUE_SIZE:
                text = f"{size} bytes exceed the maximum in a Parquet file, {_MAX_VALUE_SIZE}"
                self._on_outcomes([(delivery, Outcome("too-large", "", text, final=True))])
                continue
            received = int((clock_offset + delivery.received_at) * 1_000_000)
            self._rows.append(_row_of(outgoing, delivery, received))
            self._deliveries.append(delivery)
            self._octets += delivery.size
            if self.room <= 0 or self._octets >= self._limits.octets:
                self.flush()
                if not self.alive:
                    return
        if self._rows and self._timer is None:
            self._timer = self._loop.call_later(self._limits.seconds, self.flush)

    def flush(self) -> None:
        """Write the collected messages to a file, and report their outcomes."""
        self._cancel_timer()
        rows, deliveries = self._rows, self._deliveries
        self._rows, self._deliveries, self._octets = [], [], 0
        if not rows or not self.alive:
            return
        try:
            self._landing.write(rows)
        except Exception as error:  # noqa: BLE001  (in a callback of the loop, it would be lost)
            self.abort()
            text = (
                f"cannot write to {self._landing.folder}: {error}; messages that are not in a file "
                "yet stay at the source: make room for the files, and start again"
            )
            self._on_lost(LinkError(text, local=True))
            return
        self._on_outcomes([(delivery, ACCEPTED) for delivery in deliveries])
        self._on_room()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def close(self, wait: float) -> None:  # noqa: ARG002  (of the protocol)
        """Drop the messages that are not in a file, and close: the source delivers them again."""
        self.abort()

    def abort(self) -> None:
        """Drop the messages that are not in a file, and close."""
        self.alive = False
        self._cancel_timer()
        self._landing.remove_link(self)


def _row_of(outgoing: Outgoing, delivery: SourceDelivery, received: int) -> Spooled:
    """Return the row of a message; `received` is in microseconds since the Unix epoch."""
    address, tag = readable(delivery.link.endpoint.name), delivery.delivery_tag
    header, octets = outgoing.content_header, outgoing.octets
    if header is None:
        return Spooled(
            address,
            received,
            tag,
            delivery.redelivered,
            octets,
            message_format=outgoing.message_format,
        )
    names = readable(outgoing.exchange), readable(outgoing.routing_key)
    return Spooled(address, received, tag, delivery.redelivered, None, header, octets, *names)


async def _open_landing(endpoint: Endpoint) -> Landing:
    """Open the folder of an endpoint, until its last target is closed."""
    return Landing(endpoint.file or "", closes_unused=True)


async def open_target(request: TargetRequest) -> ParquetTarget:
    """Open a folder as a target. The targets of a pool that have the same folder share it.

    Raises:
        LinkError: another process writes to the folder, or it cannot be written to.
    """
    folder = os.path.realpath(request.endpoint.file or "")
    shared = Endpoint("1.0", "", 0, file=folder)  # without what may differ between the targets
    pool = request.pool or ConnectionPool()
    try:
        return await pool.join(
            shared, _open_landing, lambda landing: ParquetTarget(request, landing)
        )
    except OSError as error:
        raise LinkError(str(error), permanent=True) from None


async def open_source(request: SourceRequest) -> NoReturn:
    """Raise LinkError: Parquet files can be a target only."""
    raise LinkError(parquet_source_error(request.endpoint), permanent=True)
