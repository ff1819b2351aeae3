"""What Apache Qpid Broker-J makes of a message between 0-9-1 and 1.0.

Rules of its converters MessageConverter_0_8_to_1_0 and MessageConverter_1_0_to_v0_8, without a
broker's state: addresses stay as they are written where the broker would look a queue or exchange
up.
"""

from __future__ import annotations

import re
import uuid
from typing import Any
from urllib.parse import parse_qs, urlsplit

from amqp10msg.basic.message import BasicMessage
from amqp10msg.basic.properties import BasicProperties
from amqp10msg.basic.tables import FieldTable, ScaledDecimal, as_table
from amqp10msg.message import Message
from amqp10msg.sections import Header, Properties
from amqp10msg.translate._qpid_bodies import TYPE_HINT, body_to_amqp10, body_to_basic
from amqp10msg.translate.circumstances import Circumstances
from amqp10msg.translate.report import Notes
from amqp10msg.wire.errors import DecodeError, TranslationError
from amqp10msg.wire.limits import UNLIMITED
from amqp10msg.wire.primitives import (
    Byte,
    Char,
    Decimal128,
    Float,
    Int,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
)

_DIGITS = re.compile(r"[+-]?[0-9]{1,19}")
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def to_amqp10(basic: BasicMessage, notes: Notes, given: Circumstances) -> Message:
    """Translate as its 0-8 to 1.0 converter does."""
    own = basic.properties
    table = as_table(own.headers)
    headers = {name: (letter, value) for name, letter, value in table.entries}
    body, hint, content_type, encoding = body_to_amqp10(basic)
    properties = Properties(
        message_id=_id(own.message_id, "message-id"),
        correlation_id=_id(own.correlation_id, "correlation-id"),
        reply_to=_reply_to(own.reply_to),
        user_id=None if own.user_id is None else _octets(own.user_id),
        content_type=_symbol(content_type, "content-type"),
        content_encoding=_symbol(encoding, "content-encoding"),
        creation_time=_moment(own.timestamp, given.arrival_time),
        subject=_string(own.type, "type"),
    )
    exchange = _string(basic.exchange, "exchange")
    key = _string(basic.routing_key, "routing-key")
    properties.to = f"{exchange}/{key}" if exchange and key else exchange or key or None
    if "qpid.subject" in headers and headers["qpid.subject"][0] == "S":
        properties.subject = _string(headers.pop("qpid.subject")[1], "headers")
    if headers.get("JMSXGroupID", ("", 0))[0] == "S":
        properties.group_id = _string(headers.pop("JMSXGroupID")[1], "headers")
    if headers.get("JMSXGroupSeq", ("", 0))[0] == "I":
        properties.group_sequence = headers.pop("JMSXGroupSeq")[1] % 2**32
    for name in ("app_id", "cluster_id"):
        if getattr(own, name) is not None:
            notes.dropped(
                f"properties.{name.replace('_', '-')}", getattr(own, name), "it is not converted"
            )
    application = {
        _string(name, "headers") or "": _value(letter, value, name, notes)
        for name, (letter, value) in headers.items()
    }
    return Message(
        body,
        header=Header(
            durable=own.delivery_mode == 2,
            priority=own.priority or 0,
            ttl=_ttl(own.expiration, given.arrival_time, notes),
        ),
        message_annotations=None if hint is None else {TYPE_HINT: Byte(hint)},
        properties=properties,
        application_properties=application or None,
    )


def to_basic(message: Message, notes: Notes, given: Circumstances) -> BasicMessage:
    """Translate as its 1.0 to 0-8 converter does."""
    if message._lenient:
        message = _strictly(message)
    header = message.header or Header()
    own = message.properties or Properties()
    body, content_type = body_to_basic(message, notes)
    headers: list[tuple[str, str, Any]] = []
    if own.subject is not None:
        headers.append(("qpid.subject", "S", _short(own.subject, "subject")))
    if own.group_id is not None:
        headers.append(("JMSXGroupID", "S", own.group_id))
    if own.group_sequence is not None:
        number = int(own.group_sequence)
        headers.append(("JMSXGroupSeq", "I", number - 2**32 if number >= 2**31 else number))
    for name, value in (message.application_properties or {}).items():
        _short(name, "application-properties")
        headers.append((name, *_field(value, name, notes)))
    made = BasicProperties(
        content_type=content_type,
        content_encoding=_short(own.content_encoding, "content-encoding"),
        delivery_mode=2 if header.durable else 1,
        priority=int(header.priority),
        reply_to=_short(own.reply_to, "reply-to"),
        correlation_id=_short(_id_text(own.correlation_id), "correlation-id"),
        message_id=_fitting(_id_text(own.message_id), "message-id", notes),
        user_id=_fitting(_id_text(own.user_id), "user-id", notes),
        type=own.subject,
        expiration=_expiration(header, own, given, notes),
        timestamp=_unsigned(_moment(own.creation_time, given.arrival_time)),
        headers=FieldTable.of(headers) if headers else None,
    )
    for name, section in (
        ("message-annotations", message.message_annotations),
        ("delivery-annotations", message.delivery_annotations),
        ("footer", message.footer),
        ("properties.reply-to-group-id", own.reply_to_group_id),
    ):
        if section:
            notes.dropped(name, section, "it is not converted")
    exchange, _, key = (_short(own.to, "to") or "").rpartition("/")
    if own.to is None:
        key = own.subject or ""
    return BasicMessage(made, body, exchange, key)


# From 0-9-1.


def _octets(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _string(text: Any, path: str) -> str | None:
    if text is None:
        return None
    return _octets(text).decode("utf-8", "replace") if path else str(text)


def _symbol(text: str | None, name: str) -> Symbol | None:
    if text is None:
        return None
    if not text.isascii():
        raise TranslationError(f"properties.{name}", "a symbol holds ASCII alone")
    return Symbol(text)


def _id(text: str | None, name: str) -> Any:
    if text is None:
        return None
    data = _octets(text)
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return data if name == "correlation-id" else data.decode("utf-8", "replace")
    bare = text.removeprefix("ID:")
    return uuid.UUID(bare) if _UUID.fullmatch(bare) else text


def _reply_to(text: str | None) -> str | None:
    if text is None:
        return None
    text = _string(text, "reply-to") or ""
    try:
        parts = urlsplit(text)
        path = parts.path
    except ValueError:
        return text
    if parts.scheme not in ("direct", "topic", "fanout", "headers") or text.count("/") < 2:
        return text
    exchange = parts.netloc
    destination, _, queue = path.lstrip("/").partition("/") if path.count("/") > 1 else ("", "", "")
    if path.startswith("//"):
        destination, queue = "", path.lstrip("/")
    key = parse_qs(parts.query).get("routingkey", [""])[0].strip("'")
    last = key or queue or destination
    if exchange:
        return f"{exchange}/{last}" if last else exchange
    return queue or key or destination or text


def _moment(value: Any, arrival: int | None) -> int | None:
    if value is None:
        return arrival
    number = value if isinstance(value, int) else int(value.timestamp() * 1000)
    return (number + 2**63) % 2**64 - 2**63


def _unsigned(moment: int | None) -> int | None:
    return None if moment is None else moment % 2**64


def _ttl(text: str | None, arrival: int | None, notes: Notes) -> int | None:
    if text is None or not _DIGITS.fullmatch(text) or int(text) <= 0:
        return None
    if arrival is None:
        notes.dropped(
            "properties.expiration",
            text,
            "it is a moment: the time of arrival would have to be given",
        )
        return None
    return min(max(0, int(text) - arrival), 2**32 - 1)


def _value(letter: str, value: Any, name: str, notes: Notes) -> Any:
    path = f"headers[{name!r}]"
    if letter in "AF":
        raise TranslationError(path, "the whole conversion fails: no table or array is a property")
    if letter in "UL":
        raise TranslationError(path, f"the field type {letter!r} is not known")
    wider = {"B": (Short, "short"), "u": (Int, "int"), "i": (int, "long"), "T": (int, "long")}
    if letter in wider:
        cls, kind = wider[letter]
        notes.add(path, "retyped", value, value, f"{letter!r} becomes a {kind}")
        number = value if isinstance(value, int) else int(value.timestamp())
        return cls(number if number < 2**63 else number - 2**64)
    if letter == "S":
        return _string(value, path)
    if letter == "D":
        scaled = value if isinstance(value, ScaledDecimal) else ScaledDecimal.from_decimal(value)
        if scaled.scale > 33 - len(str(abs(scaled.unscaled))):
            raise TranslationError(path, "the number does not fit a decimal128")
        notes.add(path, "wrapped", value, scaled.unscaled, "the point is put after the number")
        return Decimal128.from_decimal(
            f"{scaled.unscaled}{'.' + '0' * scaled.scale if scaled.scale else ''}"
        )
    simple = {"b": Byte, "s": Short, "I": Int, "l": int, "f": Float, "d": float, "x": bytes}
    if letter == "t":
        return value is True
    if letter == "k":
        return Char(chr(value))
    return None if letter == "V" else simple[letter](value)


# From 1.0.


def _short(text: Any, name: str) -> str | None:
    if text is None:
        return None
    if not isinstance(text, str):
        raise TranslationError(name, "the conversion fails: no text")
    if len(text.encode("utf-8", "surrogateescape")) > 255:
        raise TranslationError(name, "the conversion fails: longer than a short string")
    return str(text)


def _fitting(text: str | None, name: str, notes: Notes) -> str | None:
    if text is not None and len(text.encode("utf-8", "surrogateescape")) > 255:
        notes.dropped(f"properties.{name}", text, "longer than a short string")
        return None
    return text


def _id_text(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).decode("utf-8", "surrogateescape")
    return str(int(value)) if isinstance(value, int) else str(value)


def _expiration(header: Header, own: Properties, given: Circumstances, notes: Notes) -> str | None:
    if own.absolute_expiry_time is not None:
        return str(int(own.absolute_expiry_time))
    if header.ttl is None:
        return None
    if given.arrival_time is None:
        notes.dropped(
            "header.ttl",
            header.ttl,
            "the expiration is a moment: the time of arrival would have to be given",
        )
        return None
    return str(given.arrival_time + int(header.ttl))


def _field(value: Any, name: str, notes: Notes) -> tuple[str, Any]:
    path = f"application-properties[{name!r}]"
    wider = {UByte: "s", UShort: "I", UInt: "l", ULong: "l"}
    kind = type(value)
    if kind in wider:
        number = int(value)
        notes.add(path, "retyped", value, number, f"it becomes {wider[kind]!r}")
        return wider[kind], number - 2**64 if number >= 2**63 else number
    if kind is uuid.UUID:
        notes.add(path, "retyped", value, str(value), "it becomes text")
        return "S", str(value)
    if kind is Timestamp:
        return "T", int(value) % 2**64
    if kind is Char:
        if ord(value) > 255:
            raise TranslationError(path, "the conversion fails: no byte")
        return "k", ord(value)
    if kind is Symbol:
        return "S", str(value)
    letters: dict[type, str] = {
        Byte: "b",
        Short: "s",
        Int: "I",
        int: "l",
        bool: "t",
        Float: "f",
        float: "d",
        str: "S",
        bytes: "x",
        type(None): "V",
    }
    if kind not in letters:
        raise TranslationError(path, f"the conversion fails: no field holds {kind.__name__}")
    return letters[kind], value if kind in (
        bool,
        Float,
        float,
        str,
        bytes,
    ) or value is None else int(value)


def _strictly(message: Message) -> Message:
    """Read a message again as the broker reads it, which takes no section of another form."""
    try:
        return Message.decode(
            message.encode(), limits=UNLIMITED, message_format=message.message_format
        )
    except DecodeError as error:
        raise TranslationError(error.path, f"the broker cannot read it: {error.reason}") from None
