"""Convert messages of rhea, the AMQP 1.0 client for Node, from and to JSON.

``JSON.stringify`` writes a message of rhea as one object: the fields of header and properties, the
sections with maps, and the body. The JSON has no AMQP types, so each value gets the type with which
rhea sends it: a positive integer becomes a uint, for example. Bytes are objects such as
``{"type": "Buffer", "data": [104, 105]}``.
"""

from __future__ import annotations

import datetime
import math
import uuid
from collections.abc import Mapping
from typing import Any

import attrs

from amqp10msg.message import Message, expect_message
from amqp10msg.sections import (
    AmqpSequence,
    AmqpValue,
    ApplicationProperties,
    Data,
    DeliveryAnnotations,
    Footer,
    Header,
    MessageAnnotations,
    Properties,
)
from amqp10msg.wire.errors import DecodeError, EncodeError, expect
from amqp10msg.wire.primitives import (
    AmqpMap,
    Array,
    Described,
    Int,
    Symbol,
    Timestamp,
    UInt,
    ULong,
)

__all__ = ["from_rhea", "is_rhea", "to_rhea"]

_HEADER_FIELDS = tuple(field.name for field in attrs.fields(Header))
_PROPERTIES_FIELDS = tuple(field.name for field in attrs.fields(Properties))
_TIME_FIELDS = frozenset({"absolute_expiry_time", "creation_time"})
_ID_FIELDS = frozenset({"message_id", "correlation_id"})
# {name of a map section: (its class, the class of its keys)}.
_MAP_SECTIONS: dict[str, tuple[Any, type]] = {
    "delivery_annotations": (DeliveryAnnotations, Symbol),
    "message_annotations": (MessageAnnotations, Symbol),
    "application_properties": (ApplicationProperties, str),
    "footer": (Footer, Symbol),
}
_KNOWN_KEYS = frozenset({*_HEADER_FIELDS, *_PROPERTIES_FIELDS, *_MAP_SECTIONS, "body"})
# The descriptors of data and amqp-sequence (Part 3, 3.2.6 and 3.2.7), as rhea marks such bodies.
_DATA_CODE, _SEQUENCE_CODE = 0x75, 0x76
_MAX_DATE = 8_640_000_000_000_000  # the last and the first Date of JavaScript, in ms since 1970
_SECTION_KEYS = {"typecode", "content", "multiple"}
# rhea reads wider integers as their 8 bytes, because a number of JavaScript cannot hold them.
_MAX_EXACT_INTEGER = 2**53


def is_rhea(value: object) -> bool:
    """Whether a value is a dict whose keys all belong to messages of rhea."""
    return isinstance(value, Mapping) and bool(value) and _KNOWN_KEYS.issuperset(value)


# From rhea.


def from_rhea(document: Mapping[str, Any]) -> Message:
    """Convert a message that rhea wrote as JSON.

    A uuid and 16 bytes look alike in the JSON: as message-id and correlation-id they become a uuid,
    elsewhere bytes. A timestamp in annotations, application properties or the body stays text.

    Args:
        document: the message, as ``json.loads`` returns it.

    Raises:
        TypeError: `document` is not a dict, or contains a value that is not of JSON.
        ValueError: a key is not part of a message of rhea, or a value is invalid.
        EncodeError: a field of header or properties has a wrong type.
    """
    expect(document, Mapping, "from_rhea", "a dict", {str: "parse it first, json.loads"})
    unknown = [key for key in document if key not in _KNOWN_KEYS]
    if unknown:
        raise ValueError(f"a message of rhea has no {unknown[0]!r:.80}")
    fields = {name: value for name, value in document.items() if value is not None}
    try:
        arguments = {
            name: section_class(_read_map(fields[name], name, key_class))
            for name, (section_class, key_class) in _MAP_SECTIONS.items()
            if name in fields
        }
        header = {name: fields[name] for name in _HEADER_FIELDS if name in fields}
        properties = {
            name: _read_property(name, fields[name])
            for name in _PROPERTIES_FIELDS
            if name in fields
        }
        return Message(
            _read_body(document["body"]) if "body" in document else None,
            header=Header(**header) if header else None,
            properties=Properties(**properties) if properties else None,
            **arguments,
        )
    except RecursionError:
        raise ValueError("the message of rhea is nested too deeply") from None


def _read_map(entries: Any, path: str, key_class: type = str) -> dict[Any, Any]:
    expect(entries, Mapping, path, "an object")
    for key in entries:
        expect(key, str, f"a key of {path}", "a str")
    return {key_class(key): _read_value(value) for key, value in entries.items()}


def _read_property(name: str, value: Any) -> Any:
    """Convert a field of the properties; `Properties` checks its type."""
    if name in _TIME_FIELDS:
        return _read_time(name, value)
    if isinstance(value, int) and not isinstance(value, bool):
        return ULong(value) if name in _ID_FIELDS and 0 <= value < 2**64 else value
    if name == "user_id" and isinstance(value, str):
        return value.encode()  # rhea encodes it with this type
    value = _read_value(value)
    if name in _ID_FIELDS and isinstance(value, bytes) and len(value) == 16:
        return uuid.UUID(bytes=value)
    return value


def _read_time(name: str, value: Any) -> Timestamp:
    """Convert a number of milliseconds, or the text in which JavaScript writes a Date."""
    try:
        if isinstance(value, str):
            return Timestamp.from_datetime(datetime.datetime.fromisoformat(value))
        if isinstance(value, bool):
            raise TypeError("it is a boolean")
        return Timestamp(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{name} is not a time: {value!r:.80} ({error})") from None


def _read_body(body: Any) -> Any:
    """Convert the body; None is the value null."""
    if not isinstance(body, Mapping) or body.keys() | {"multiple"} != _SECTION_KEYS:
        return AmqpValue(_read_value(body))
    if body["typecode"] not in (_DATA_CODE, _SEQUENCE_CODE):
        return AmqpValue(_read_value(body))
    section_class, content_type = (
        (Data, bytes) if body["typecode"] == _DATA_CODE else (AmqpSequence, list)
    )
    contents = _read_value(body["content"] if body.get("multiple") else [body["content"]])
    is_valid = isinstance(contents, list) and bool(contents)
    # rhea sends text in a data section as a string, which is not a valid data section.
    if not is_valid or not all(isinstance(content, content_type) for content in contents):
        raise ValueError(f"body: the section is invalid: {body!r:.80}")
    return [section_class(content) for content in contents]


def _read_value(value: Any) -> Any:
    """Convert a value of JSON to the type with which rhea sends it."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, (int, float)):
        return _read_number(value)
    if isinstance(value, list):
        return [_read_value(item) for item in value]
    if isinstance(value, Mapping):
        octets = _read_buffer(value)
        return _read_map(value, "a map") if octets is None else octets
    raise TypeError(f"JSON of rhea has no {type(value).__name__}: {value!r:.80}")


def _read_number(number: Any) -> Any:
    """Convert a number as rhea does: JavaScript does not distinguish 5 from 5.0."""
    if isinstance(number, float) and not number.is_integer():
        return number
    integer = int(number)
    if integer > 0:
        if integer < 2**32:
            return UInt(integer)
        kind: Any = ULong if integer < 2**64 else float
        return kind(integer)
    if integer > -(2**31) + 1:
        return Int(integer)
    return integer if integer >= -(2**63) else float(integer)


def _read_buffer(value: Mapping[Any, Any]) -> bytes | None:
    """Return the bytes of a Buffer of Node; None for another object."""
    if value.keys() == {"type", "data"} and value["type"] == "Buffer":
        data = value["data"]
        if isinstance(data, list) and all(type(item) is int and 0 <= item < 256 for item in data):
            return bytes(data)
    return None


# To rhea.


def to_rhea(message: Message) -> dict[str, Any]:
    """Convert a message to the dict whose JSON is a message of rhea.

    The types of most values are lost: `from_rhea` returns the message as rhea would send it. Times
    become numbers of milliseconds. In Node, convert the objects of bytes back to ``Buffer``, and a
    body with a typecode with ``rhea.message.data_section`` or ``sequence_section``.

    Args:
        message: the message; it is not modified.

    Raises:
        EncodeError: the message cannot be encoded, or contains a decimal, an infinite float, an
            integral float of 2^64 or more, a time that JavaScript cannot represent, or a map key
            that is neither text nor a number.
    """
    expect_message(message, "to_rhea")
    try:
        message = Message.decode(message.encode())
    except DecodeError as error:
        raise EncodeError(error.reason, error.path) from error
    document: dict[str, Any] = {}
    for section_name, section in (("header", message.header), ("properties", message.properties)):
        if section is not None:
            for name, value in attrs.asdict(section, recurse=False).items():
                path = f"{section_name}.{name.replace('_', '-')}"
                if name in _TIME_FIELDS and abs(value or 0) > _MAX_DATE:
                    raise EncodeError(f"{value} ms exceeds the times of rhea", path)
                if value is not None:
                    document[name] = _write_value(value, path)
    for name in _MAP_SECTIONS:
        entries = getattr(message, name)
        if entries is not None:
            document[name] = _write_map(entries.items(), name.replace("_", "-"))
    document["body"] = _write_body(message.body)
    return document


def _write_body(body: Any) -> Any:
    sections = body if isinstance(body, list) else [body]
    if isinstance(sections[0], (Data, AmqpSequence)):
        is_data = isinstance(sections[0], Data)
        contents = [
            _write_value(part.data if is_data else part.values, "body") for part in sections
        ]
        section = {"typecode": _DATA_CODE if is_data else _SEQUENCE_CODE, "content": contents[0]}
        return section if len(contents) == 1 else {**section, "content": contents, "multiple": True}
    return _write_value(body.value, "body") if isinstance(body, AmqpValue) else None


def _write_map(pairs: Any, path: str) -> dict[str, Any]:
    document = {}
    for key, value in pairs:
        if not isinstance(key, (str, int)) or isinstance(key, bool):
            raise EncodeError(f"rhea cannot represent the map key {key!r:.80}", path)
        document[str(key)] = _write_value(value, f"{path}[{key!r}]")
    return document


def _write_value(value: Any, path: str) -> Any:
    """Convert a value to JSON, as ``JSON.stringify`` writes it for rhea."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int):
        number = int(value)
        if abs(number) <= _MAX_EXACT_INTEGER:
            return number
        return _write_buffer(number.to_bytes(8, "big", signed=not isinstance(value, ULong)))
    if isinstance(value, float):
        return _write_float(float(value), path)
    if isinstance(value, bytes):
        return _write_buffer(value)
    if isinstance(value, uuid.UUID):
        return _write_buffer(value.bytes)
    if isinstance(value, list):
        return [_write_value(item, path) for item in value]
    if isinstance(value, Array):
        return [_write_value(item, path) for item in value.values]
    if isinstance(value, dict):
        return _write_map(value.items(), path)
    if isinstance(value, AmqpMap):
        return _write_map(value.pairs, path)
    if isinstance(value, Described):
        return _write_value(value.value, path)
    raise EncodeError(f"rhea has no type for {value!r:.80}", path)


def _write_float(number: float, path: str) -> float | None:
    if math.isnan(number):
        return None  # as JavaScript writes NaN in JSON
    if math.isinf(number) or (number.is_integer() and abs(number) >= 2.0**64):
        raise EncodeError(f"rhea cannot send {number!r}", path)
    return number


def _write_buffer(octets: bytes) -> dict[str, Any]:
    return {"type": "Buffer", "data": list(octets)}
