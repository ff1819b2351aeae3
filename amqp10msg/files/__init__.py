"""Read files of messages: containers of encoded messages, and network captures.

    from amqp10msg import Message, files

    for record in files.read("queue.pcap"):
        if record.fault:
            print(record.offset, record.fault)
        elif record.protocol == "1.0":
            print(record.address, Message.decode(record.wire))
        else:  # AMQP 0-9-1
            print(record.exchange, record.routing_key, record.payload)

`FORMATS` lists the formats. A file may be compressed with gzip. Parquet needs the extra ``arrow``,
and Avro the extra ``avro``. Network captures contain AMQP 1.0 and 0-9-1; decrypt TLS first.

For a message that cannot be read, `read` returns a record with a fault instead of raising. A file
that is empty or has another form raises `UnusableFileError`. Files are read as streams: the memory
depends on the largest message, not on the size of the file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp10msg.files._record import MAX_SIZE
from amqp10msg.wire.later import later

if TYPE_CHECKING:
    from amqp10msg.files._record import Range, Record, UnusableFileError
    from amqp10msg.files.formats import FORMATS, FORMS, FileFormat
    from amqp10msg.files.reading import form_of, form_of_name, ranges, read, read_stream

__all__ = [
    "FORMATS",
    "FORMS",
    "MAX_SIZE",
    "FileFormat",
    "Range",
    "Record",
    "UnusableFileError",
    "form_of",
    "form_of_name",
    "ranges",
    "read",
    "read_stream",
]

if not TYPE_CHECKING:  # with `__getattr__`, type checkers would accept any name
    __getattr__ = later(
        __name__,
        {
            "_record": ["Range", "Record", "UnusableFileError"],
            "formats": ["FORMATS", "FORMS", "FileFormat"],
            "reading": ["form_of", "form_of_name", "ranges", "read", "read_stream"],
        },
    )
