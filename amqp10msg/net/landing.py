"""Writes messages durably to numbered Parquet files in a folder."""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path
from typing import Self

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
from amqp10msg.private_files import PRIVATE
from amqp10msg.sections.parts import scan
from amqp10msg.wire.errors import AmqpError

#: The columns of the Parquet files. ``identity`` and ``redelivered`` help to remove duplicates; the
#: other columns are those of the Spark data source ``amqp10`` that are known on receipt.
LANDED = pa.schema(
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
        received: when it was received, in microseconds since the Unix epoch.
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
_LOCK = ".lock"


def numbers_in(folder: Path) -> list[int]:
    """Return the numbers of the Parquet files in `folder`, sorted."""
    return sorted(int(path.stem) for path in folder.glob("*.parquet") if path.stem.isdecimal())


def next_of(folder: Path) -> int:
    """Return the number of the next Parquet file in `folder`. Numbers are not reused."""
    stored = ""
    with contextlib.suppress(FileNotFoundError):
        stored = (folder / _LOCK).read_text(encoding="ascii")
    return max(int(stored) if stored.isdecimal() else 0, *(n + 1 for n in numbers_in(folder)), 0)


class Landing:
    """A folder of numbered Parquet files. Readers see only complete files.

    A file is written under a temporary name that readers ignore, synced to disk, and renamed.
    Numbers increase and are not reused, even if a reader removes files: a stream reader would
    mistake a new file with an old number for the removed file. Only one process can write to a
    folder.

    Args:
        folder: the folder; created if it does not exist.

    Raises:
        BlockingIOError: another process writes to the folder.
        OSError: the folder cannot be written to.
    """

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._lock = os.fdopen(os.open(self._folder / _LOCK, os.O_RDWR | os.O_CREAT, PRIVATE), "r+")
        try:
            lock(self._lock.fileno(), wait=False)
        except OSError:
            self._lock.close()
            raise BlockingIOError(f"{folder}: another process writes to this folder") from None
        for unfinished in self._folder.glob(".*.tmp"):
            unfinished.unlink()  # left by a killed process; its rows were not acknowledged
        self._next = next_of(self._folder)
        self._rows: list[Spooled] = []
        self.octets = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.close()

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def next(self) -> int:
        """The number of the next file, from 0."""
        return self._next

    def add(self, row: Spooled) -> None:
        """Add a delivery, which the next `flush` writes."""
        self._rows.append(row)
        self.octets += len(row.wire or b"") + len(row.payload or b"")

    def forget(self) -> None:
        """Discard the rows that were added since the last `flush`."""
        self._rows.clear()
        self.octets = 0

    def flush(self) -> Path | None:
        """Write the added rows to a new file, and sync the file to disk.

        The caller may acknowledge the deliveries after `flush` returns.

        Returns:
            The path of the file; None if no row was added.

        Raises:
            OSError: the file could not be written. The rows are kept for the next `flush`.
        """
        if not self._rows:
            return None
        columns = {
            field.name: pa.array([getattr(row, field.name) for row in self._rows], field.type)
            for field in LANDED
        }
        path = self._folder / file_name(self._next)
        with replacing(path, private=True) as file:
            pq.write_table(pa.table(columns, schema=LANDED), file, compression="zstd")
        self._lock.seek(0)
        self._lock.write(f"{self._next + 1:012d}")
        self._lock.flush()
        os.fsync(self._lock.fileno())
        self._next += 1
        self.forget()
        return path
