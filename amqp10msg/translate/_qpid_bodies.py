"""Bodies as Apache Qpid Broker-J converts them, by content-type and the type hint of JMS.

Rules of its MessageConverter_to_1_0, MessageConverter_from_1_0 and MimeContentConverterRegistry.
"""

from __future__ import annotations

import math
import uuid
import zlib
from typing import Any

from amqp10msg.basic.message import BasicMessage
from amqp10msg.interop.jms import coded, typed
from amqp10msg.message import Message
from amqp10msg.sections import AmqpSequence, AmqpValue, Data
from amqp10msg.translate.report import Notes
from amqp10msg.wire.errors import ContentError, TranslationError
from amqp10msg.wire.primitives import (
    Byte,
    Char,
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

TYPE_HINT = Symbol("x-opt-jms-msg-type")
# The numbers of the hint.
_MESSAGE, _OBJECT, _A_MAP, _BYTES, _STREAM, _A_TEXT = range(6)
_JMS_MAP, _JMS_STREAM = "jms/map-message", "jms/stream-message"
_CODED_MAP, _CODED_LIST = "amqp/map", "amqp/list"
_TEXT, _OCTETS = "text/plain", "application/octet-stream"
_JAVA = "application/java-object-stream"
_JAVA_10 = "application/x-java-serialized-object"
_HINT_OF = {
    **dict.fromkeys((_JMS_MAP, _CODED_MAP), _A_MAP),
    **dict.fromkeys((_JMS_STREAM, _CODED_LIST), _STREAM),
    **dict.fromkeys((_JAVA, _JAVA_10), _OBJECT),
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


def body_to_amqp10(basic: BasicMessage) -> tuple[Any, int | None, str | None, str | None]:
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
        return Data(octets or _SERIALIZED_NULL), hint, _JAVA_10, encoding
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


def body_to_basic(message: Message, notes: Notes) -> tuple[bytes, str | None]:
    """Return the bytes of the body, and their content-type.

    Raises:
        TranslationError: the broker cannot convert it, or makes a serialized object of Java of it.
    """
    body = message.body
    hint, given = _hinted(message)
    first = body[0] if isinstance(body, list) else body
    if isinstance(first, Data):
        return _octets(message.body_bytes(), hint, given)
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
        return _octets(value, hint, given)
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
    marked = None if annotations is None else annotations.get(TYPE_HINT)
    hint = int(marked) if isinstance(marked, Byte) and 0 <= marked <= _A_TEXT else None
    given = message.properties.content_type if message.properties else None
    if given is None:
        return hint, None
    by_type = _hint_of(given)
    return (by_type, str(given)) if hint in (None, by_type) else (hint, None)


def _octets(octets: bytes, hint: int | None, given: str | None) -> tuple[bytes, str]:
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
