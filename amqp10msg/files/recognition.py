"""Recognise the format of files and of pasted bytes by their first bytes."""

from __future__ import annotations

import codecs
import re

from amqp10msg.files.formats import FORMATS
from amqp10msg.files.signatures import CONTENT_HEADER_START
from amqp10msg.message import Message
from amqp10msg.sections.parts import scan
from amqp10msg.validation import first_fault
from amqp10msg.wire.errors import DecodeError

#: Regular expression for bytes that are hex digits as text.
_HEX_PATTERN = rb"\s*(?:0x)?(?:[0-9a-fA-F]{2}[\s:]*){3,}[0-9a-fA-F]?\s*"
#: Number of bytes at the start of a file that are examined to recognise the format.
HEAD_SIZE = 64
# The names of compression formats that this library does not decompress, by their magic numbers.
_UNSUPPORTED_COMPRESSION_MAGIC = {
    b"\x28\xb5\x2f\xfd": "zstd",
    b"BZh": "bzip2",
    b"\xfd7zXZ\x00": "xz",
    b"\x04\x22\x4d\x18": "lz4",
    b"PK\x03\x04": "zip",
}

# Minimum number of bytes to recognise as text: fewer bytes may look like text by chance.
_MIN_TEXT_BYTES = 4
# Maximum number of characters of a text that a hint quotes.
_MAX_QUOTED_CHARACTERS = 20


# The formats in the order in which their signatures are tested. Formats with a magic number come
# first, because the header of a capture could look like the size of a message.
_FORMATS_IN_SIGNATURE_ORDER = sorted(FORMATS.values(), key=lambda item: not item.is_always_signed)


def decode_whole(octets: bytes) -> Message:
    """Decode a message leniently, but raise DecodeError if it is truncated.

    The error names the first fault of the message, as `Message.decode` does.
    """
    try:
        scan(octets)
        return Message.decode(octets, strict=False)
    except DecodeError as error:
        raise first_fault(error) from None


def form_of_head(head: bytes) -> str | None:
    """Return the name of the format of a file, given its first bytes; None if unknown."""
    return next(
        (item.name for item in _FORMATS_IN_SIGNATURE_ORDER if _matches(item.signature, head)), None
    )


def fallback_form(head: bytes) -> str | None:
    """Return the name of the format to try for a file that nothing else identifies, or None."""
    items = FORMATS.values()
    return next((item.name for item in items if _matches(item.fallback_signature, head)), None)


def _matches(pattern: re.Pattern[bytes] | None, head: bytes) -> bool:
    """Return whether the first bytes of a file match a pattern; False without a pattern."""
    return pattern is not None and pattern.match(head) is not None


def advice(head: bytes, form: str = "") -> str:
    """Return a hint about the actual format of a file, given the first bytes of the file.

    The hint is empty if the bytes have the form `form`, or if their format is unknown.
    """
    head = head[:HEAD_SIZE]
    if form in {"", "raw"} and head.startswith(CONTENT_HEADER_START):
        return "this is a message of AMQP 0-9-1: amqp10msg translate --to 1.0 reads it"
    items = FORMATS.values()
    similar = (item.name for item in items if _matches(item.resembles, head))
    actual = form_of_head(head) or next(similar, None)
    if actual is not None:
        return "" if actual == form else FORMATS[actual].hint
    for magic, name in _UNSUPPORTED_COMPRESSION_MAGIC.items():
        if head.startswith(magic):
            return f"this is compressed with {name}: decompress it first, or use gzip"
    if re.fullmatch(_HEX_PATTERN, head):
        return "these are hex digits: convert them with amqp10msg convert --out jsonl"
    if text := _start_of_text(head):
        return f"this is text, not an AMQP message: {text!r}"
    return ""


def _start_of_text(head: bytes) -> str:
    """Return the beginning of a text file; empty if the bytes are too few or not text."""
    even = head[: len(head) // 2 * 2]
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return _printable(even, "utf-16")
    if len(head) < _MIN_TEXT_BYTES:
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
    return text[:_MAX_QUOTED_CHARACTERS] if is_text else ""
