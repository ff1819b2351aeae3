"""Read files of messages: containers of encoded messages, and network captures.

    from amqp10msg import Message, files

    for record in files.read("queue.pcap"):
        if record.fault:
            print(record.offset, record.fault)
        elif record.protocol == "1.0":
            print(record.address, Message.decode(record.wire))
        else:  # AMQP 0-9-1
            print(record.exchange, record.routing_key, record.payload)

=============== =================================================================================
``raw``         the bytes of one message
``prefixed``    each message after its size: four bytes in network byte order
``jsonl``       one JSON object per line with the message under raw, hex, base64 or data_base64
``cborseq``     a CBOR sequence (RFC 8742) of byte strings, each a message
``pcap``        pcap and pcapng: the transfers of AMQP 1.0 and the content of AMQP 0-9-1,
                reassembled from segments and frames; TLS must be decrypted first
``parquet``     tables with a column ``wire`` or ``raw``, and the output of jobs, including their
                quarantine (extra ``arrow``)
``avro``        files of Event Hubs Capture; see `amqp10msg.files.event_hubs` (extra ``avro``)
=============== =================================================================================

A message that cannot be read is a record with a fault, not an exception. A file that is empty or of
another form raises `UnusableFileError`. Files are read as streams: the memory depends on the
largest message, not on the size of the file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp10msg.files._forms import FORMS, MAX_SIZE
from amqp10msg.wire.later import later

if TYPE_CHECKING:
    from amqp10msg.files._record import Range, Record, UnusableFileError
    from amqp10msg.files.reading import form_of, form_of_name, ranges, read, read_stream

__all__ = [
    "FORMS",
    "MAX_SIZE",
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
            "reading": ["form_of", "form_of_name", "ranges", "read", "read_stream"],
        },
    )
