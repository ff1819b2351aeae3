"""What bytes are, by how they begin; messages that may break rules, but are whole."""

from __future__ import annotations

import codecs
import re

from amqp10msg.message import Message
from amqp10msg.sections.parts import scan

#: How a message begins: the descriptor of a section, as a number or as a symbol.
SECTION = re.compile(
    rb"\x00(?:\x53[\x70-\x78]|\x80\x00{7}[\x70-\x78]|\xa3.amqp:|\xb3....amqp:)", re.DOTALL
)
#: The same of AMQP 0-9-1: the payload of a content header frame, of class 60 and weight 0.
CONTENT_HEADER = b"\x00\x3c\x00\x00"
# Empty messages have a size, too: the first that is not empty says what this is.
_PREFIXED = rb"(?s)(?:\0{4}){0,6}.{4}(?:%b|%b)" % (SECTION.pattern, re.escape(CONTENT_HEADER))
_CBORSEQ = rb"(?s)(?:[\x40-\x57]|\x58.|\x59..|\x5a....|\x5b.{8})(?:%b)" % SECTION.pattern
_HEX = rb"\s*(?:0x)?(?:[0-9a-fA-F]{2}[\s:]*){3,}[0-9a-fA-F]?\s*"
_JSON = rb"(?:\xef\xbb\xbf)?\s*[{\[]"
#: What pcap files begin with: their byte order, and the ticks of their clock in a microsecond.
PCAP = {
    b"\xd4\xc3\xb2\xa1": ("<", 1),
    b"\xa1\xb2\xc3\xd4": (">", 1),
    b"\x4d\x3c\xb2\xa1": ("<", 1000),
    b"\xa1\xb2\x3c\x4d": (">", 1000),
}
#: What pcapng files, and their sections, begin with.
PCAPNG = b"\x0a\x0d\x0d\x0a"
#: Bytes from the beginning of a file that tell what it is.
HEAD = 64
#: What Parquet files begin, and end, with.
PARQUET = b"PAR1"
#: How files of Avro begin.
AVRO = b"Obj\x01"
# How compressed files begin that are not uncompressed while they are read.
_COMPRESSED = {
    b"\x28\xb5\x2f\xfd": "zstd",
    b"BZh": "bzip2",
    b"\xfd7zXZ\x00": "xz",
    b"\x04\x22\x4d\x18": "lz4",
    b"PK\x03\x04": "zip",
}

# Fewer bytes may look like text by chance.
_MIN_TEXT = 4
# Characters of a text that a hint quotes.
_SHOWN = 20

_WORDS = {
    "raw": "this is one message, not preceded by its size: read it as raw",
    "prefixed": "these are messages after their sizes: read them as prefixed",
    "cborseq": "this is a CBOR sequence: read it as cborseq",
    "pcap": "this is a capture of a network: read it as pcap",
    "parquet": "this is Parquet: read it as parquet",
    "avro": "this is Avro: read it as avro",
    "jsonl": "this is JSON: read it as jsonl",
}


def decode_whole(octets: bytes) -> Message:
    """Decode a message that may break rules, but is not cut off."""
    scan(octets)
    return Message.decode(octets, strict=False)


def form_of_head(head: bytes) -> str | None:
    """Return the form of a file by its first `HEAD` bytes; None where they do not show it."""
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
    """Name the form of bytes that were read as another one; empty where they do not show it."""
    head = head[:HEAD]
    found = form_of_head(head) or ("jsonl" if re.match(_JSON, head) else None)
    if found is not None:
        return "" if found == form else _WORDS[found]
    for magic, name in _COMPRESSED.items():
        if head.startswith(magic):
            return f"this is compressed with {name}: uncompress it first, or compress with gzip"
    if head.startswith(CONTENT_HEADER):
        return "this is a message of AMQP 0-9-1: amqp10msg translate --to 1.0 reads it"
    if re.fullmatch(_HEX, head):
        return "these are hex digits, not the bytes: amqp10msg convert --out jsonl makes records"
    if text := _text_of(head):
        return f"this is text and not an AMQP message: {text!r}"
    return ""


def _text_of(head: bytes) -> str:
    """Return the text that bytes begin with; empty if they are something else, or too short."""
    even = head[: len(head) // 2 * 2]
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return _printable(even, "utf-16")
    if len(head) < _MIN_TEXT:
        return ""
    # ASCII characters in UTF-16: every other byte is zero.
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
    return text[:_SHOWN] if is_text else ""
