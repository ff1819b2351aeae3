"""Properties and headers of 0-9-1 as RabbitMQ holds them, and what it refuses to read."""

from __future__ import annotations

import math
from typing import Any

import attrs

from amqp10msg.basic.properties import PROPERTIES, BasicProperties
from amqp10msg.basic.tables import FieldTable, as_array, as_table
from amqp10msg.sections import Header, Properties
from amqp10msg.translate.rabbitmq.terms import CrashedError, RefusedError, Term, check_level
from amqp10msg.translate.report import Notes
from amqp10msg.translate.table import MARKER

#: The specification's names of the fields, in the order of their declarations.
HEADER_NAMES, PROPERTY_NAMES = (
    tuple(field.name.replace("_", "-") for field in attrs.fields(cls))
    for cls in (Header, Properties)
)

_MAX_EXPIRATION = 315_360_000_000  # ten years in milliseconds


def text(data: bytes) -> str:
    """Decode bytes, invalid UTF-8 as lone surrogates."""
    return data.decode("utf-8", "surrogateescape")


def cut(milliseconds: int) -> int:
    """Divide by 1,000 towards zero."""
    return milliseconds // 1000 if milliseconds >= 0 else -(-milliseconds // 1000)


def signed(number: int) -> int:
    """Return the signed number of the same 64 bits."""
    return number - 2**64 if number >= 2**63 else number


def octets(text: Any) -> bytes:
    """Encode text, lone surrogates as the bytes that they stand for."""
    return text.encode("utf-8", "surrogateescape") if isinstance(text, str) else bytes(text)


def checked_headers(given: BasicProperties) -> FieldTable:
    """Return the headers of a message that is published, which the broker looks at first.

    Raises:
        RefusedError: publishing fails, or the publisher's connection is closed.
    """
    table = as_table(given.headers)
    _check_readable(table)
    _check_routes(table)
    if given.reply_to is not None:
        check_reply_to(octets(given.reply_to))
    return table


def check_reply_to(queue: bytes) -> None:
    """Raise for the name of the pseudo-queue of direct replies, as the channel does.

    Raises:
        RefusedError: publishing fails, as the channel does not consume direct replies.
    """
    if queue == b"amq.rabbitmq.reply-to":
        raise RefusedError(
            "publishing fails (406) unless the publisher's channel consumes replies",
            "properties.reply-to",
        )


def header_fields(given: BasicProperties, notes: Notes) -> dict[str, Term]:
    """Return the fields of the header that properties say: durable, priority and ttl.

    Raises:
        RefusedError: publishing fails, as the expiration is not a number.
    """
    header: dict[str, Term] = dict.fromkeys(HEADER_NAMES)
    header["durable"] = given.delivery_mode == 2
    if given.priority is not None:
        header["priority"] = ("ubyte", given.priority)
    if given.expiration is not None:
        ttl = checked_expiration(given.expiration)
        header["ttl"] = ("uint", ttl)
        if ttl >= 2**32:
            notes.add(
                "properties.expiration",
                "wrapped",
                given.expiration,
                ttl % 2**32,
                "ttl wrapped modulo 2^32",
            )
    return header


def _check_readable(table: FieldTable) -> None:
    """Raise for fields that RabbitMQ's parser of field tables cannot read.

    Raises:
        RefusedError: the publisher's connection is closed (541).
    """
    for name, letter, value in table.entries:
        # Of the other letters every value can be read.
        if letter in "UfdFA":
            _readable(letter, value, f"headers[{name!r}]", 0)


def _readable(letter: str, value: Any, path: str, level: int) -> None:
    check_level(level)
    if letter == "U":
        raise RefusedError(
            "the parser knows no field type 'U': the connection is closed (541)", path
        )
    if letter in "fd" and not math.isfinite(value):
        raise RefusedError(
            "the parser reads no NaN or infinity: the connection is closed (541)", path
        )
    if letter == "F":
        for name, inner, item in as_table(value).entries:
            _readable(inner, item, f"{path}[{name!r}]", level + 1)
    elif letter == "A":
        for index, (inner, item) in enumerate(as_array(value).entries):
            _readable(inner, item, f"{path}[{index}]", level + 1)


def _check_routes(table: FieldTable) -> None:
    """Raise for CC and BCC that are not arrays, as the channel does at publishing."""
    for name in ("CC", "BCC"):
        if name in table and table.letter(name) != "A":
            raise RefusedError(
                f"{name} is not an array: publishing fails (406, unacceptable type)",
                f"headers[{name!r}]",
            )


def checked_expiration(text: str) -> int:
    """Read an expiration as the channel does at publishing.

    Raises:
        RefusedError: publishing fails with 406.
    """
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not digits or not digits.isascii() or not digits.isdigit():
        raise RefusedError(
            f"publishing fails (406): invalid expiration {text!r}", "properties.expiration"
        )
    number = int(text)
    if number < 0 or number > _MAX_EXPIRATION:
        raise RefusedError(
            f"publishing fails (406): expiration {text!r} is not within 0 and {_MAX_EXPIRATION}",
            "properties.expiration",
        )
    return number


def no_sections(offset: int | None, reason: str) -> str:
    """Return why a broker fails on a body that its type promises to be sections of AMQP 1.0.

    Args:
        offset: where the section begins on which the broker fails, in bytes of the body; None if it
            fails on all of them together.
        reason: what is wrong with it.
    """
    where = "" if offset is None else f" at byte {offset} of the body"
    return (
        f"the type {MARKER!r} makes RabbitMQ read the body as encoded sections of AMQP 1.0, which "
        f"fails{where}: {reason}. Use another type for this body"
    )


def utf8_without_nul(data: bytes) -> bool:
    """Whether bytes are UTF-8 without a NUL."""
    if 0 in data:
        return False
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


#: The values that RabbitMQ's generator of property lists can write, by the property's domain.
DOMAINS = {row.name: row.domain for row in PROPERTIES}


def _unwritten(name: str, reason: str) -> CrashedError:
    return CrashedError(
        f"the consumer's connection dies (541): {reason}", f"properties.{name.replace('_', '-')}"
    )


def written(name: str, value: Any) -> Any:
    """Return a property as the broker writes it in 0-9-1.

    Raises:
        CrashedError: the generator fails on it, and with it the consumer's connection.
    """
    if value is None:
        return None
    domain = DOMAINS[name]
    if domain == "shortstr":
        if not isinstance(value, bytes):
            raise _unwritten(name, "no text for a short string")
        if len(value) > 255:
            raise _unwritten(name, "longer than a short string")
        return text(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise _unwritten(name, "no number")
    return value & 0xFF if domain == "octet" else value & (2**64 - 1)
