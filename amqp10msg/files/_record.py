"""Records of files of messages, and what a file that has none raises."""

from __future__ import annotations

import attrs


class UnusableFileError(ValueError):
    """A file is empty, damaged at its beginning, or not of the form that it should have."""

    __module__ = "amqp10msg.files"  # where users import it from: tracebacks show it


@attrs.frozen
class Record:
    """One message of a file, or what kept it from being read.

    Attributes:
        offset: where in the file it begins, in bytes: the size, the line, the item, or the packet
            that its last byte came in. In Parquet and Avro it is the number of the row, from 0.
        wire: the encoded message of AMQP 1.0; where there is a fault, what there is of it.
        fault: what is wrong; empty where all is well.
        protocol: ``1.0`` or ``0-9-1``.
        time: when the packet was captured, or the event enqueued, in microseconds since the Unix
            epoch.
        connection: who sent it to whom: ``address:port > address:port``.
        address: the address of the link's target, or of its source where the target has none.
        delivery_tag: of the transfer.
        message_format: of the transfer, 0 to 2^32 - 1.
        content_header: the payload of the content header frame of AMQP 0-9-1.
        payload: the body of a message of AMQP 0-9-1.
        exchange: the exchange that it was published to.
        routing_key: the key that it was published with.
        redelivered: the broker says that it may have been delivered before; None where no broker
            sent it.
        origin: where a job had read it from, ``FILE@OFFSET``, where a column of Parquet says so.
        ends: the file is damaged here, and nothing after this place could be read.
        skips: the file is damaged here, and reading went on after the damage: an unknown number of
            messages is missing.
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
    """A part of a file that can be read on its own.

    Attributes:
        path: the file.
        form: one of `FORMS`.
        start: where it begins, in bytes.
        stop: where the last record begins before.
        identity: tells the file from others that had its name, or get it; empty where nobody asked.
        size: of the file, in bytes, when it was divided; 0 where nobody asked.
        changed: when it had been written, in ns since the Unix epoch; 0 where it may grow.
    """

    path: str
    form: str
    start: int
    stop: int
    identity: str = ""
    size: int = 0
    changed: int = 0
