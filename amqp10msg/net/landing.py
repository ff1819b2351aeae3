"""Parquet files of messages that are on disk when their writer says so."""

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
        'a landing writes Parquet, and needs pyarrow: pip install "amqp10msg[arrow]"',
        name="pyarrow",
    ) from _error

from amqp10msg.atomic_files import lock, replacing
from amqp10msg.basic import FieldTable, decode_content_header, encode_properties
from amqp10msg.brokers import ACQUIRED_COUNT, DELIVERY_COUNT
from amqp10msg.message import Message
from amqp10msg.net.bridge.records import id_of_message, id_of_properties
from amqp10msg.private_files import PRIVATE
from amqp10msg.sections.parts import scan
from amqp10msg.wire.errors import AmqpError

#: The columns of the files: those of the data source ``amqp10`` that a consumer knows, and what
#: tells duplicates.
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
    """One delivery.

    Attributes:
        address: of the link's source, or the queue.
        received: when it came, in microseconds since the Unix epoch.
        delivery_tag: as the peer gave it.
        redelivered: the peer says that it may have been delivered before.
        wire: the bytes of a message of AMQP 1.0.
        content_header: of a message of AMQP 0-9-1, the payload of its content header frame.
        payload: the body of a message of AMQP 0-9-1.
        exchange: the exchange that it was published to.
        routing_key: the key that it was published with.
        message_format: of the transfer of AMQP 1.0, 0 to 2^32 - 1; as format 0, a batch of Azure
            would be read as one message.
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
        """Which AMQP it came by."""
        return "0-9-1" if self.wire is None else "1.0"

    @property
    def identity(self) -> str:
        """The same text for two deliveries of one message, however far apart.

        The message-id, with its type, where there is one; else a hash of the bare message (of all
        bytes where they cannot be read): it does not tell a message that was sent twice from one
        that was delivered twice.
        """
        if self.wire is None:
            return self._basic_identity
        try:
            found = id_of_message(scan(self.wire))
            return found or _hash(Message.decode(self.wire, strict=False).bare)
        except AmqpError:
            return _hash(self.wire)

    @property
    def _basic_identity(self) -> str:
        octets = self.content_header or b""
        with contextlib.suppress(AmqpError):
            properties = decode_content_header(octets).properties
            found = id_of_properties(properties)
            if found is not None:
                return found
            headers = FieldTable(properties.headers or {})
            kept = [entry for entry in headers.entries if entry[0] not in _OF_DELIVERIES]
            properties.headers = FieldTable.of(kept) if kept else None
            octets = encode_properties(properties)
        return _hash(octets + (self.payload or b""))


# Headers that quorum queues of RabbitMQ add to what they deliver again.
_OF_DELIVERIES = {DELIVERY_COUNT, ACQUIRED_COUNT}


def _hash(octets: bytes) -> str:
    return f"sha256:{hashlib.sha256(octets).hexdigest()}"


def file_name(number: int) -> str:
    """Return the name of a file of a landing."""
    return f"{number:012d}.parquet"


_LOCK = ".lock"


def numbers_in(folder: Path) -> list[int]:
    """Return the numbers of the files of a landing that are there, in order."""
    return sorted(int(one.stem) for one in folder.glob("*.parquet") if one.stem.isdecimal())


def next_of(folder: Path) -> int:
    """Return the number of the next file of a landing, also where its files were removed."""
    known = ""
    with contextlib.suppress(FileNotFoundError):
        known = (folder / _LOCK).read_text(encoding="ascii")
    return max(int(known) if known.isdecimal() else 0, *(n + 1 for n in numbers_in(folder)), 0)


class Landing:
    """A folder that Parquet files land in, whole and one after the other.

    A file is written under a name that readers pass over, brought to disk, and renamed. Names rise,
    so that readers of streams can go by them, and none comes again, also where a reader removes
    files: it would take the new one for the one that it knows. One process writes to a folder at a
    time.

    Args:
        folder: made if it is not there.

    Raises:
        BlockingIOError: another process writes to the folder.
        OSError: it cannot be written to.
    """

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)
        self._folder.mkdir(parents=True, exist_ok=True)
        # It has the number of the next file in it, too.
        self._lock = os.fdopen(os.open(self._folder / _LOCK, os.O_RDWR | os.O_CREAT, PRIVATE), "r+")
        try:
            lock(self._lock.fileno(), wait=False)
        except OSError:
            self._lock.close()
            raise BlockingIOError(f"{folder}: another process writes to this folder") from None
        for unfinished in self._folder.glob(".*.tmp"):
            unfinished.unlink()  # of a process that was killed: nothing in it was acknowledged
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
        """The number of the next file, and so its name; 0 where none has landed."""
        return self._next

    def add(self, row: Spooled) -> None:
        """Keep a delivery until the next `flush`."""
        self._rows.append(row)
        self.octets += len(row.wire or b"") + len(row.payload or b"")

    def forget(self) -> None:
        """Drop what was added since the last `flush`: nothing of it was acknowledged."""
        self._rows.clear()
        self.octets = 0

    def flush(self) -> Path | None:
        """Write what was added to disk; once this returns, it may be acknowledged.

        Returns:
            The file, or None where nothing was added.

        Raises:
            OSError: it could not be written; what was added is still kept.
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
