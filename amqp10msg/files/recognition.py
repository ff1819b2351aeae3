"""Recognise the format of files and of pasted bytes by their first bytes."""

from __future__ import annotations

import codecs
import re

from amqp10msg.message import Message
from amqp10msg.sections.parts import scan

#: The start of a message: the numeric or symbolic descriptor of a section.
SECTION = re.compile(
    rb"\x00(?:\x53[\x70-\x78]|\x80\x00{7}[\x70-\x78]|\xa3.amqp:|\xb3....amqp:)", re.DOTALL
)
#: The start of an AMQP 0-9-1 message: a content header of class 60 and weight 0.
CONTENT_HEADER = b"\x00\x3c\x00\x00"
# Up to six empty messages may precede the first message.
_PREFIXED = rb"(?s)(?:\0{4}){0,6}.{4}(?:%b|%b)" % (SECTION.pattern, re.escape(CONTENT_HEADER))
_CBORSEQ = rb"(?s)(?:[\x40-\x57]|\x58.|\x59..|\x5a....|\x5b.{8})(?:%b)" % SECTION.pattern
_HEX = rb"\s*(?:0x)?(?:[0-9a-fA-F]{2}[\s:]*){3,}[0-9a-fA-F]?\s*"
_JSON = rb"(?:\xef\xbb\xbf)?\s*[{\[]"
#: Magic numbers of pcap files, with the byte order and the clock ticks per microsecond.
PCAP = {
    b"\xd4\xc3\xb2\xa1": ("<", 1),
    b"\xa1\xb2\xc3\xd4": (">", 1),
    b"\x4d\x3c\xb2\xa1": ("<", 1000),
    b"\xa1\xb2\x3c\x4d": (">", 1000),
}
#: Magic number of pcapng files and their sections.
PCAPNG = b"\x0a\x0d\x0d\x0a"
#: Number of bytes at the start of a file that are examined.
HEAD = 64
#: Magic number of Parquet files, at their start and end.
PARQUET = b"PAR1"
#: Magic number of Avro files.
AVRO = b"Obj\x01"
# Magic numbers of compressed files that this library does not decompress.
_COMPRESSED = {
    b"\x28\xb5\x2f\xfd": "zstd",
    b"BZh": "bzip2",
    b"\xfd7zXZ\x00": "xz",
    b"\x04\x22\x4d\x18": "lz4",
    b"PK\x03\x04": "zip",
}

# Minimum number of bytes to call text: fewer may look like text by chance.
_MIN_TEXT = 4
# Maximum number of characters of a text that a hint quotes.
_MAX_QUOTED = 20

# Hints for files that were read as another form.
_HINTS = {
    "raw": "this is one message without a size before it: read it as raw",
    "prefixed": "these are messages with their sizes before them: read them as prefixed",
    "cborseq": "this is a CBOR sequence: read it as cborseq",
    "pcap": "this is a network capture: read it as pcap",
    "parquet": "this is Parquet: read it as parquet",
    "avro": "this is Avro: read it as avro",
    "jsonl": "this is JSON: read it as jsonl",
}


def decode_whole(octets: bytes) -> Message:
    """Decode a message leniently, but raise DecodeError if it is truncated."""
    scan(octets)
    return Message.decode(octets, strict=False)


def form_of_head(head: bytes) -> str | None:
    """Return the form of a file with these first `HEAD` bytes; None if unknown."""
    if head[:4] in {*PCAP, PCAPNG}:
        return "pcap"
    if head[:4] == PARQUET:
        return "parquet"
    if head[:4] == AVRO:
        return "avro"
    if SECTION.match(head):
        return "raw"
    patterns = {"prefixed": _PREFIXED, "cborseq": _CBORSEQ}
    return next((form for form, pattern in patterns.items() if re.match(pattern, head)), None)


def advice(head: bytes, form: str = "") -> str:
    """Return a hint if the first bytes of a file do not have the form `form`, else ""."""
    head = head[:HEAD]
    actual = form_of_head(head) or ("jsonl" if re.match(_JSON, head) else None)
    if actual is not None:
        return "" if actual == form else _HINTS[actual]
    for magic, name in _COMPRESSED.items():
        if head.startswith(magic):
            return f"this is compressed with {name}: decompress it first, or use gzip"
    if head.startswith(CONTENT_HEADER):
        return "this is a message of AMQP 0-9-1: amqp10msg translate --to 1.0 reads it"
    if re.fullmatch(_HEX, head):
        return "these are hex digits: convert them with amqp10msg convert --out jsonl"
    if text := _text_of(head):
        return f"this is text, not an AMQP message: {text!r}"
    return ""


def _text_of(head: bytes) -> str:
    """Return the text at the start of some bytes; empty if they are too short or not text."""
    even = head[: len(head) // 2 * 2]
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return _printable(even, "utf-16")
    if len(head) < _MIN_TEXT:
        return ""
    # Every other byte of ASCII characters in UTF-16 is zero.
    for coding, zeros, letters in (("utf-16-be", 0, 1), ("utf-16-le", 1, 0)):
        if not any(even[zeros::2]) and all(even[letters::2]):
            return _printable(even, coding)
    return _printable(head, "utf-8")


def _printable(octets: bytes, coding: str) -> str:
    """Return the first characters of a text; empty if it has control characters."""
    try:
        text = codecs.getincrementaldecoder(coding)().decode(octets)
    except UnicodeDecodeError:
        return ""
    is_text = all(character.isprintable() or character in "\t\r\n" for character in text)
    return text[:_MAX_QUOTED] if is_text else ""
