"""The first bytes by which messages and files are recognised."""

from __future__ import annotations

import re

from amqp10msg.wire.errors import DecodeError

#: The start of a message: the numeric or symbolic descriptor of a section.
SECTION_START = re.compile(
    rb"\x00(?:\x53[\x70-\x78]|\x80\x00{7}[\x70-\x78]|\xa3.amqp:|\xb3....amqp:)", re.DOTALL
)
#: The start of an AMQP 0-9-1 message: a content header of class 60 and weight 0.
CONTENT_HEADER_START = b"\x00\x3c\x00\x00"
#: The start of a file that is one message. The two highest bytes of the body size of a 0-9-1
#: message are zero; in a file of the form prefixed, a message would begin there.
RAW_FILE_START = re.compile(
    rb"%b|%b\0\0" % (SECTION_START.pattern, re.escape(CONTENT_HEADER_START)), re.DOTALL
)
# Bytes of a content header before its properties: class, weight, body size and property flags.
_MIN_CONTENT_HEADER_BYTES = 14
#: The start of a file of the form prefixed: a size and a message. Up to six empty messages may
#: come first.
PREFIXED_FILE_START = re.compile(
    rb"(?:\0{4}){0,6}.{4}(?:%b|%b)" % (SECTION_START.pattern, re.escape(CONTENT_HEADER_START)),
    re.DOTALL,
)
#: The start of a CBOR sequence of messages: the head of a byte string, and a section.
CBORSEQ_FILE_START = re.compile(
    rb"(?:[\x40-\x57]|\x58.|\x59..|\x5a....|\x5b.{8})(?:%b)" % SECTION_START.pattern, re.DOTALL
)
#: The start of a JSON object or list, which may follow a byte order mark.
JSON_START = re.compile(rb"(?:\xef\xbb\xbf)?\s*[{\[]")
#: The byte order and the clock ticks per microsecond of pcap files, by magic number.
PCAP_MAGIC = {
    b"\xd4\xc3\xb2\xa1": ("<", 1),
    b"\xa1\xb2\xc3\xd4": (">", 1),
    b"\x4d\x3c\xb2\xa1": ("<", 1000),
    b"\xa1\xb2\x3c\x4d": (">", 1000),
}
#: Magic number of pcapng files and their sections.
PCAPNG_MAGIC = b"\x0a\x0d\x0d\x0a"
#: Magic number of Parquet files, at their start and end.
PARQUET_MAGIC = b"PAR1"
#: Magic number of Avro files.
AVRO_MAGIC = b"Obj\x01"


def split_content_header(octets: bytes) -> tuple[bytes, bytes]:
    """Split a 0-9-1 message into the payload of its content header frame, and its body.

    Raises:
        DecodeError: the header is cut off before its properties, or the bytes are fewer than it
            declares.
    """
    if len(octets) < _MIN_CONTENT_HEADER_BYTES:
        from amqp10msg.basic import decode_content_header  # noqa: PLC0415  (rarely needed)

        decode_content_header(octets)  # raises the error that names the incomplete part
    # Bytes 4 to 11 are the size of the body: all bytes before the body are the header.
    size = int.from_bytes(octets[4:12], "big")
    if size > len(octets) - _MIN_CONTENT_HEADER_BYTES:
        raise DecodeError(
            f"the header declares a body of {size:,} bytes, but header and body have "
            f"{len(octets):,}",
            4,
            rule="truncated",
        )
    return octets[: len(octets) - size], octets[len(octets) - size :]
