"""`Record`, a message of a file; `Range`, a part of a file; errors and limits."""

from __future__ import annotations

import attrs

#: The default maximum size of a message in bytes, which limits memory.
MAX_SIZE = 256 << 20


class UnusableFileError(ValueError):
    """A file is empty, damaged at its start, or not of the expected form."""

    __module__ = "amqp10msg.files"  # the public location, for tracebacks


@attrs.frozen
class Record:
    """One message of a file, or the reason why it cannot be read.

    Attributes:
        offset: where the record begins in the file, in bytes: the offset of its size, line or item;
            in a capture, the offset of the packet that contains the message's last byte. In Parquet
            and Avro, the index of the row.
        wire: the encoded AMQP 1.0 message; with a fault, the bytes that could be read.
        fault: why the message cannot be read; empty for a valid record.
        protocol: ``1.0`` or ``0-9-1``.
        time: when the packet was captured or the event was enqueued, in microseconds since the Unix
            epoch.
        connection: sender and receiver of the packet: ``address:port > address:port``.
        address: the address of the link's target, or of its source if the target has no address.
        delivery_tag: the delivery-tag of the transfer.
        message_format: the message-format of the transfer, 0 to 2^32 - 1.
        content_header: the payload of the content header frame (AMQP 0-9-1).
        payload: the body of the message (AMQP 0-9-1).
        exchange: the exchange that the message was published to (AMQP 0-9-1).
        routing_key: the routing key that the message was published with (AMQP 0-9-1).
        redelivered: whether the broker marked the message as redelivered; None if a client sent it.
        origin: for a Parquet file that a job has written: the input that the job read the message
            from, as ``FILE@OFFSET``.
        ends: whether the file is damaged here, and the rest of it cannot be read.
        skips: whether the file is damaged here, and reading continues after the damage. An unknown
            number of messages is missing.
    """

    offset: int
    wire: bytes | None = None
    fault: str = ""
    protocol: str = "1.0"
    time: int | None = None
    connection: str | None = None
    address: str | None = None
    delivery_tag: bytes | None = None
    message_format: int | None = None
    content_header: bytes | None = None
    payload: bytes | None = None
    exchange: str | None = None
    routing_key: str | None = None
    redelivered: bool | None = None
    origin: str | None = None
    ends: bool = False
    skips: bool = False


@attrs.frozen
class Range:
    """A part of a file that can be read independently.

    Attributes:
        path: the file.
        form: the name of the format, a key of `FORMATS`.
        start: offset of the first record, in bytes.
        stop: records that begin at this offset or later are not in the range.
        identity: distinguishes the file from earlier and later files with the same name; empty if
            not determined.
        size: size of the file when it was divided into ranges, in bytes; 0 if not determined.
        changed: modification time of the file, in ns since the Unix epoch; 0 if the file may grow.
    """

    path: str
    form: str
    start: int
    stop: int
    identity: str = ""
    size: int = 0
    changed: int = 0
