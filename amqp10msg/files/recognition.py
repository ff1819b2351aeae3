"""Recognise the format of files and of pasted bytes by their first bytes."""

from __future__ import annotations

import codecs
import re

from amqp10msg.files.formats import FORMATS
from amqp10msg.files.signatures import CONTENT_HEADER
from amqp10msg.message import Message
from amqp10msg.sections.parts import scan
from amqp10msg.validation import first_fault
from amqp10msg.wire.errors import DecodeError

#: Matches text that consists of hex digits.
_HEX = rb"\s*(?:0x)?(?:[0-9a-fA-F]{2}[\s:]*){3,}[0-9a-fA-F]?\s*"
#: Number of bytes at the start of a file that are examined.
HEAD = 64
# Magic numbers of compressed files that this library does not decompress.
_COMPRESSED = {
    b"\x28\xb5\x2f\xfd": "zstd",
    b"BZh": "bzip2",
    b"\xfd7zXZ\x00": "xz",
    b"\x04\x22\x4d\x18": "lz4",
    b"PK\x03\x04": "zip",
}

# Minimum number of bytes to recognise as text: fewer bytes may look like text by chance.
_MIN_TEXT = 4
# Maximum number of characters of a text that a hint quotes.
_MAX_QUOTED = 20


# The formats in the order in which signatures are tested: magic numbers first, because a capture's
# header could look like the size of a message.
_BY_SIGNATURE = sorted(FORMATS.values(), key=lambda item: not item.is_always_signed)


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
    """Return the name of the format of a file with these first `HEAD` bytes; None if unknown."""
    return next((item.name for item in _BY_SIGNATURE if _matches(item.signature, head)), None)


def fallback_form(head: bytes) -> str | None:
    """Return the name of the format to try for a file that nothing else identifies, or None."""
    items = FORMATS.values()
    return next((item.name for item in items if _matches(item.fallback_signature, head)), None)


def _matches(pattern: re.Pattern[bytes] | None, head: bytes) -> bool:
    """Return whether the first bytes of a file match a pattern; False without a pattern."""
    return pattern is not None and pattern.match(head) is not None


def advice(head: bytes, form: str = "") -> str:
    """Return a hint if the first bytes of a file do not have the form `form`, else ""."""
    head = head[:HEAD]
    items = FORMATS.values()
    similar = (item.name for item in items if _matches(item.resembles, head))
    actual = form_of_head(head) or next(similar, None)
    if actual is not None:
        return "" if actual == form else FORMATS[actual].hint
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
    """Return the beginning of a text file; empty if the bytes are too few or not text."""
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
