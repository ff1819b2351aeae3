"""Properties and headers of 0-9-1 in RabbitMQ: conversions, and checks when they are published."""

from __future__ import annotations

import math
from typing import Any

import attrs

from amqp10msg.basic.properties import PROPERTIES, BasicProperties
from amqp10msg.basic.tables import FieldTable, as_array, as_table
from amqp10msg.sections import Header, Properties
from amqp10msg.translate.rabbitmq.terms import CrashedError, RefusedError, Term, check_level
from amqp10msg.translate.report import Notes
from amqp10msg.translate.table import ENCODED_SECTIONS_TYPE_PROPERTY

#: The names of the fields in the specification, in the order of their declarations.
HEADER_NAMES, PROPERTY_NAMES = (
    tuple(field.name.replace("_", "-") for field in attrs.fields(cls))
    for cls in (Header, Properties)
)

_MAX_EXPIRATION_MS = 315_360_000_000  # ten years in milliseconds


def text(data: bytes) -> str:
    """Decode bytes; invalid UTF-8 becomes lone surrogates."""
    return data.decode("utf-8", "surrogateescape")


def whole_seconds(milliseconds: int) -> int:
    """Convert milliseconds to seconds, rounding towards zero."""
    return milliseconds // 1000 if milliseconds >= 0 else -(-milliseconds // 1000)


def signed(number: int) -> int:
    """Reinterpret an unsigned 64-bit number as signed."""
    return number - 2**64 if number >= 2**63 else number


def octets(text: Any) -> bytes:
    """Encode text; lone surrogates become the bytes that `text` decoded them from."""
    return text.encode("utf-8", "surrogateescape") if isinstance(text, str) else bytes(text)


def checked_headers(properties: BasicProperties) -> FieldTable:
    """Check headers and reply-to of a published message, as the broker does; return the headers.

    Raises:
        RefusedError: publishing fails, or the publisher's connection is closed.
    """
    table = as_table(properties.headers)
    _check_readable(table)
    _check_routes(table)
    if properties.reply_to is not None:
        check_reply_to(octets(properties.reply_to))
    return table


def check_reply_to(queue: bytes) -> None:
    """Check that a reply-to is not the pseudo-queue of direct replies, as the broker does.

    Raises:
        RefusedError: `queue` is that pseudo-queue. Publishing fails because the publisher's channel
            does not consume replies.
    """
    if queue == b"amq.rabbitmq.reply-to":
        raise RefusedError(
            "publishing fails (406) unless the publisher's channel consumes replies",
            "properties.reply-to",
        )


def header_fields(properties: BasicProperties, notes: Notes) -> dict[str, Term]:
    """Convert delivery-mode, priority and expiration to the header fields durable, priority, ttl.

    Raises:
        RefusedError: publishing fails, because the expiration is not a number.
    """
    header: dict[str, Term] = dict.fromkeys(HEADER_NAMES)
    header["durable"] = properties.delivery_mode == 2
    if properties.priority is not None:
        header["priority"] = ("ubyte", properties.priority)
    if properties.expiration is not None:
        ttl = checked_expiration(properties.expiration)
        header["ttl"] = ("uint", ttl)
        if ttl >= 2**32:
            notes.add(
                "properties.expiration",
                "wrapped",
                properties.expiration,
                ttl % 2**32,
                "ttl wrapped modulo 2^32",
            )
    return header


def _check_readable(table: FieldTable) -> None:
    """Check that RabbitMQ's parser of field tables can read every field of the headers.

    Raises:
        RefusedError: a field is unreadable: the broker closes the publisher's connection (541).
    """
    for name, letter, value in table.entries:
        # The parser can read every value of the other field types.
        if letter in "UfdFA":
            _check_field(letter, value, f"headers[{name!r}]", 0)


def _check_field(letter: str, value: Any, path: str, level: int) -> None:
    """Check a field, including nested fields, like `_check_readable`."""
    check_level(level)
    if letter == "U":
        raise RefusedError(
            "the parser does not support field type 'U': the connection is closed (541)", path
        )
    if letter in "fd" and not math.isfinite(value):
        raise RefusedError(
            "the parser cannot read NaN or infinity: the connection is closed (541)", path
        )
    if letter == "F":
        for name, inner, item in as_table(value).entries:
            _check_field(inner, item, f"{path}[{name!r}]", level + 1)
    elif letter == "A":
        for index, (inner, item) in enumerate(as_array(value).entries):
            _check_field(inner, item, f"{path}[{index}]", level + 1)


def _check_routes(table: FieldTable) -> None:
    """Raise RefusedError if CC or BCC is not an array, as the broker does when publishing."""
    for name in ("CC", "BCC"):
        if name in table and table.letter(name) != "A":
            raise RefusedError(
                f"{name} is not an array: publishing fails (406, unacceptable type)",
                f"headers[{name!r}]",
            )


def checked_expiration(text: str) -> int:
    """Parse an expiration as the broker does when publishing; return it in ms.

    Raises:
        RefusedError: the text is not a number from 0 to ten years, so publishing fails with 406.
    """
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not digits or not digits.isascii() or not digits.isdigit():
        raise RefusedError(
            f"publishing fails (406): invalid expiration {text!r}", "properties.expiration"
        )
    number = int(text)
    if number < 0 or number > _MAX_EXPIRATION_MS:
        raise RefusedError(
            f"publishing fails (406): expiration {text!r} is not within 0 and {_MAX_EXPIRATION_MS}",
            "properties.expiration",
        )
    return number


def invalid_sections_reason(offset: int | None, reason: str) -> str:
    """Return the error text for a body of `ENCODED_SECTIONS_TYPE_PROPERTY` that cannot be decoded.

    Args:
        offset: the offset of the invalid section in the body; None if the sections are valid, but
            not their combination.
        reason: what is wrong.
    """
    where = "" if offset is None else f" at byte {offset} of the body"
    return (
        f"the type {ENCODED_SECTIONS_TYPE_PROPERTY!r} makes RabbitMQ read the body as encoded "
        f"sections of AMQP 1.0, which fails{where}: {reason}. Use another type for this body"
    )


def utf8_without_nul(data: bytes) -> bool:
    """Whether bytes are UTF-8 without NUL."""
    if 0 in data:
        return False
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


#: The domain (the type) of each property of class basic, by name.
PROPERTY_DOMAINS = {row.name: row.domain for row in PROPERTIES}


def _cannot_write(name: str, reason: str) -> CrashedError:
    """Return the error for a property that the broker cannot write."""
    return CrashedError(
        f"the consumer's connection dies (541): {reason}", f"properties.{name.replace('_', '-')}"
    )


def delivered_property(name: str, value: Any) -> Any:
    """Return a property as the broker delivers it over 0-9-1.

    Raises:
        CrashedError: the broker crashes when it writes the value: the consumer's connection closes.
    """
    if value is None:
        return None
    domain = PROPERTY_DOMAINS[name]
    if domain == "shortstr":
        if not isinstance(value, bytes):
            raise _cannot_write(name, "the value is not a string")
        if len(value) > 255:
            raise _cannot_write(name, "longer than a short string")
        return text(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise _cannot_write(name, "the value is not a number")
    return value & 0xFF if domain == "octet" else value & (2**64 - 1)
