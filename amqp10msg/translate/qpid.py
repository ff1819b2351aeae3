"""What Apache Qpid Broker-J makes of a message between 0-9-1 and 1.0.

Rules of its converters MessageConverter_0_8_to_1_0 and MessageConverter_1_0_to_v0_8, without a
broker's state: addresses stay as they are written where the broker would look a queue or exchange
up. For bodies, those of its MessageConverter_to_1_0, MessageConverter_from_1_0 and
MimeContentConverterRegistry.
"""

from __future__ import annotations

import math
import re
import uuid
import zlib
from contextlib import suppress
from datetime import datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

from amqp10msg.basic.message import BasicMessage, as_encoded
from amqp10msg.basic.properties import BasicProperties
from amqp10msg.basic.tables import FieldTable, ScaledDecimal, as_table, seconds_of
from amqp10msg.brokers import EXCHANGE_TYPES
from amqp10msg.interop.jms import coded, typed
from amqp10msg.interop.jms.messages import JAVA_OBJECT, MESSAGE_TYPE
from amqp10msg.message import Message
from amqp10msg.sections import AmqpSequence, AmqpValue, Data, Header, Properties
from amqp10msg.translate.circumstances import Circumstances
from amqp10msg.translate.report import ADDED_AT_DELIVERY, Notes
from amqp10msg.wire.errors import ContentError, DecodeError, EncodeError, TranslationError
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
    plain,
)

_DIGITS = re.compile(r"[+-]?[0-9]{1,19}")
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def to_amqp10(basic: BasicMessage, notes: Notes, given: Circumstances) -> Message:
    """Translate as its 0-8 to 1.0 converter does."""
    basic = _as_encoded(basic)
    own = basic.properties
    table = as_table(own.headers)
    _report_silent_changes(basic, table, notes)
    headers = {name: (letter, value) for name, letter, value in table.entries}
    body, hint, content_type, encoding = _body_to_amqp10(basic)
    properties = Properties(
        message_id=_id(own.message_id, "message-id"),
        correlation_id=_id(own.correlation_id, "correlation-id"),
        reply_to=_reply_to(own.reply_to),
        user_id=None if own.user_id is None else _octets(own.user_id),
        content_type=_symbol(content_type, "content-type"),
        content_encoding=_symbol(encoding, "content-encoding"),
        creation_time=_moment(seconds_of(own.timestamp), given.arrival_time),
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
        message_annotations=None if hint is None else {MESSAGE_TYPE: Byte(hint)},
        properties=properties,
        application_properties=application or None,
    )


def _report_silent_changes(basic: BasicMessage, table: FieldTable, notes: Notes) -> None:
    """Report what the converter does not carry over, and says nothing of."""
    mode = basic.properties.delivery_mode
    if mode not in (None, 1, 2):
        notes.add("properties.delivery-mode", "retyped", mode, False, "only 2 is durable")
    texts = {
        "exchange": basic.exchange,
        "routing-key": basic.routing_key,
        **{
            f"properties.{name.replace('_', '-')}": getattr(basic.properties, name)
            for name in ("message_id", "reply_to", "type")
        },
    }
    last = {name: place for place, (name, _, _) in enumerate(table.entries)}
    for place, (name, letter, value) in enumerate(table.entries):
        path = f"headers[{name!r}]"
        if place != last[name]:
            notes.dropped(path, value, "of several headers of one name, only the last is converted")
        else:
            texts[f"{path} (the name)"] = name
            texts[path] = value if letter == "S" else None
    for path, text in texts.items():
        if isinstance(text, str) and text != _string(text, path):
            reason = "bytes that are not UTF-8 become the character U+FFFD"
            notes.add(path.removesuffix(" (the name)"), "retyped", text, None, reason)
    subject = table.entries[last["qpid.subject"]] if "qpid.subject" in last else None
    if basic.properties.type is not None and subject is not None and subject[1] == "S":
        reason = "the header qpid.subject becomes the subject in its place"
        notes.dropped("properties.type", basic.properties.type, reason)


def _as_encoded(basic: BasicMessage) -> BasicMessage:
    """Return the message with the types that decoding returns, in the dialect of its letters.

    Raises:
        EncodeError: a value does not fit, in any dialect.
    """
    try:
        return as_encoded(basic)
    except EncodeError as error:
        with suppress(EncodeError):
            return as_encoded(basic, "qpid")  # only this dialect has the letters c, C and k
        raise error from None


def to_basic(message: Message, notes: Notes, given: Circumstances) -> BasicMessage:
    """Translate as its 1.0 to 0-8 converter does."""
    if message._lenient:
        message = _strictly(message)
    header = message.header or Header()
    own = message.properties or Properties()
    body, content_type = _body_to_basic(message, notes)
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
    if own.content_type is not None and content_type != own.content_type:
        reason = "the kind of the body says it"
        notes.add("properties.content-type", "retyped", own.content_type, content_type, reason)
    for name, mark in (
        ("header.first-acquirer", header.first_acquirer),
        ("header.delivery-count", int(header.delivery_count)),
    ):
        if mark:
            notes.dropped(name, mark, ADDED_AT_DELIVERY)
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
    if parts.scheme not in EXCHANGE_TYPES or text.count("/") < 2:
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
    number = int(Timestamp.from_datetime(value)) if isinstance(value, datetime) else value
    return (number + 2**63) % 2**64 - 2**63


def _unsigned(moment: int | None) -> int | None:
    return None if moment is None else moment % 2**64


def _ttl(text: str | None, arrival: int | None, notes: Notes) -> int | None:
    if text is None:
        return None
    if not _DIGITS.fullmatch(text) or int(text) <= 0:
        notes.dropped("properties.expiration", text, "it is not a positive number")
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
        number = seconds_of(value)
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


# Bodies, by content-type and the type hint of JMS.

# The numbers of the hint.
_MESSAGE, _OBJECT, _A_MAP, _BYTES, _STREAM, _A_TEXT = range(6)
_JMS_MAP, _JMS_STREAM = "jms/map-message", "jms/stream-message"
_CODED_MAP, _CODED_LIST = "amqp/map", "amqp/list"
_TEXT, _OCTETS = "text/plain", "application/octet-stream"
_JAVA = "application/java-object-stream"
_HINT_OF = {
    **dict.fromkeys((_JMS_MAP, _CODED_MAP), _A_MAP),
    **dict.fromkeys((_JMS_STREAM, _CODED_LIST), _STREAM),
    **dict.fromkeys((_JAVA, JAVA_OBJECT), _OBJECT),
    _OCTETS: _BYTES,
}
#: Java's serialization of null: its magic number, version 5, and the code of null.
_SERIALIZED_NULL = bytes.fromhex("aced000570")
_READERS = {
    _JMS_MAP: typed.read_map,
    _JMS_STREAM: typed.read_stream,
    _CODED_MAP: coded.read_map,
    _CODED_LIST: coded.read_list,
}
_MAX_BODY = 64 * 1024 * 1024
#: What a body of no value becomes, by its hint.
_EMPTY: dict[int | None, tuple[bytes, str | None]] = {
    None: (b"", None),
    _MESSAGE: (b"", None),
    _OBJECT: (_SERIALIZED_NULL, _JAVA),
    _A_MAP: (typed.write_map({}), _JMS_MAP),
    _BYTES: (b"", _OCTETS),
    _STREAM: (b"", _JMS_STREAM),
    _A_TEXT: (b"", _TEXT),
}


def _hint_of(content_type: str) -> int | None:
    return _A_TEXT if typed.TEXT_TYPES.fullmatch(content_type) else _HINT_OF.get(content_type)


# From 0-9-1.


def _body_to_amqp10(basic: BasicMessage) -> tuple[Any, int | None, str | None, str | None]:
    """Return body, type hint, content-type and content-encoding of the message of 1.0.

    Raises:
        TranslationError: the body is not what its content-type or content-encoding says.
    """
    kind, encoding, octets = (
        basic.properties.content_type,
        basic.properties.content_encoding,
        basic.body,
    )
    if encoding == "gzip":
        octets, encoding = _inflated(octets), None
    if kind is None:
        return (Data(octets), None, None, encoding) if octets else (AmqpValue(None), 0, None, None)
    hint = _hint_of(kind)
    if hint == _A_TEXT:
        try:
            return AmqpValue(octets.decode("utf-8")), hint, kind, None
        except UnicodeDecodeError:
            raise TranslationError("body", "the text is not valid UTF-8") from None
    if hint == _OBJECT:
        return Data(octets or _SERIALIZED_NULL), hint, JAVA_OBJECT, encoding
    if hint not in (_A_MAP, _STREAM):
        return Data(octets), hint, kind, encoding
    try:
        empty: Any = {} if hint == _A_MAP else []
        found: Any = _READERS[kind](octets) if octets else empty
    except ContentError as error:
        raise TranslationError("body", f"the conversion fails: {error}") from None
    if found is None:  # a map or list of 0-10 that says it is none
        return Data(octets), None, None, encoding
    values = found.values() if hint == _A_MAP else found
    fits = all(value is None or type(value) in typed.JMS_TYPES for value in values)
    body = AmqpValue(found) if hint == _A_MAP else AmqpSequence(found)
    return body, hint if fits else None, None, None


def _inflated(octets: bytes) -> bytes:
    reader = zlib.decompressobj(wbits=31)
    try:
        found = reader.decompress(octets, _MAX_BODY)
    except zlib.error as error:
        raise TranslationError(
            "body", f"the content-encoding is gzip, and the body: {error}"
        ) from None
    if not reader.eof:
        raise TranslationError("body", f"the gzip body is cut off, or exceeds {_MAX_BODY} bytes")
    return found


# From 1.0.


def _body_to_basic(message: Message, notes: Notes) -> tuple[bytes, str | None]:
    """Return the bytes of the body, and their content-type.

    Raises:
        TranslationError: the broker cannot convert it, or makes a serialized object of Java of it.
    """
    body = message.body
    hint, given = _hinted(message)
    first = body[0] if isinstance(body, list) else body
    if isinstance(first, Data):
        return _octet_body(message.body_bytes(), hint, given)
    if isinstance(first, AmqpSequence):
        parts: list[Any] = body if isinstance(body, list) else [body]
        return _compound([item for part in parts for item in part.values], notes)
    value = None if first is None else first.value
    if value is None:
        return _EMPTY[hint]
    if isinstance(value, Symbol):
        notes.add("body", "retyped", value, str(value), "a symbol becomes text")
    if isinstance(value, str) and not isinstance(value, Char):
        return value.encode("utf-8"), _TEXT
    if isinstance(value, bytes):
        return _octet_body(value, hint, given)
    if isinstance(value, (list, dict)):
        return _compound(value, notes)
    name = type(plain(value)).__name__
    if hint == _OBJECT or isinstance(value, (bool, Char, uuid.UUID, Timestamp)):
        reason = f"a value of {name} becomes a serialized object of Java, which is not reproduced"
        raise TranslationError("body", reason)
    raise TranslationError("body", f"the conversion fails: a value of {name}")


def _hinted(message: Message) -> tuple[int | None, str | None]:
    """Return the hint, and the content-type where that is the reason, as the broker writes it."""
    annotations = message.message_annotations
    marked = None if annotations is None else annotations.get(MESSAGE_TYPE)
    hint = int(marked) if isinstance(marked, Byte) and 0 <= marked <= _A_TEXT else None
    given = message.properties.content_type if message.properties else None
    if given is None:
        return hint, None
    by_type = _hint_of(given)
    return (by_type, str(given)) if hint in (None, by_type) else (hint, None)


def _octet_body(octets: bytes, hint: int | None, given: str | None) -> tuple[bytes, str]:
    if hint in (_OBJECT, _A_TEXT):
        return octets, _JAVA if hint == _OBJECT else _TEXT
    return octets, given if given is not None and hint in (_A_MAP, _STREAM) else _OCTETS


def _compound(value: Any, notes: Notes) -> tuple[bytes, str]:
    """Encode a map or list as a message of JMS where its types allow it, else as one of 0-10."""
    made = _as_java(value, "body", notes)
    is_map = isinstance(made, dict)
    values = made.values() if is_map else made
    try:
        if all(one is None or type(one) in typed.JMS_TYPES for one in values):
            return (
                (typed.write_map(made), _JMS_MAP)
                if is_map
                else (typed.write_stream(made), _JMS_STREAM)
            )
        _note_what_is_cut_off(made, "body", notes)
        if is_map:
            return coded.write_map(made), _CODED_MAP
        return coded.write_list(made), _CODED_LIST
    except ContentError as error:
        raise TranslationError("body", f"the conversion fails: {error}") from None


_WIDER: dict[type, Any] = {UByte: Short, UShort: Int, UInt: int, Symbol: str}
_KEPT = {type(None), bool, Byte, Short, Int, int, Float, float, Char, str, bytes, uuid.UUID}


def _as_java(value: Any, path: str, notes: Notes) -> Any:
    """Return a value in the types that Java has."""
    kind = type(value)
    if kind in _KEPT:
        return value
    if isinstance(value, dict):
        made = {}
        for key, item in value.items():
            if type(key) not in (str, Symbol):
                reason = f"the conversion fails: a key of {type(plain(key)).__name__}"
                raise TranslationError(path, reason)
            name = str(key)
            if type(key) is Symbol:
                notes.add(f"{path}[{name!r}]", "retyped", key, name, "a key becomes text")
            made[name] = _as_java(item, f"{path}[{name!r}]", notes)
        return made
    if isinstance(value, list):
        return [_as_java(item, f"{path}[{index}]", notes) for index, item in enumerate(value)]
    if kind is ULong:
        signed = int(value) - 2**64 if value >= 2**63 else int(value)
        notes.add(path, "retyped" if signed >= 0 else "wrapped", value, signed, "it becomes a long")
        return signed
    if kind in _WIDER:
        wider = _WIDER[kind](value)
        notes.add(path, "retyped", value, wider, f"it becomes a {type(wider).__name__.lower()}")
        return wider
    raise TranslationError(path, f"the conversion fails: a value of {kind.__name__}")


def _note_what_is_cut_off(value: Any, path: str, notes: Notes) -> None:
    """Note the chars and numbers that a message of 0-10 does not hold as they are."""
    if isinstance(value, dict):
        for key, item in value.items():
            _note_what_is_cut_off(item, f"{path}[{key!r}]", notes)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _note_what_is_cut_off(item, f"{path}[{index}]", notes)
    elif isinstance(value, Char) and ord(value) > 0x7F:
        kept = Char(chr(ord(value) & 0xFF))
        notes.add(path, "truncated", value, kept, "a char of 0-10 has 8 bits")
    elif isinstance(value, float) and math.isnan(value):
        notes.add(path, "truncated", value, math.nan, "of a NaN nothing else is kept")
