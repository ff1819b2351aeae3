"""What differs between messages that went through brokers, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import attrs

from amqp10msg import AmqpError, Header, Message, Properties, scan
from amqp10msg.basic import (
    BasicMessage,
    BasicProperties,
    FieldTable,
    decode_properties,
    encode_field,
)
from amqp10msg.basic import encode_properties as encoded
from amqp10msg.translate.report import path_of_key

__all__ = [
    "Content",
    "bare",
    "changed_inside",
    "changed_parts",
    "compared",
    "content_of",
    "differences",
    "in_order",
    "key_of",
    "shown",
]

#: Of a 0-9-1 message properties and body, of a 1.0 message its bytes.
Content: TypeAlias = tuple[bytes, bytes] | bytes
#: What RabbitMQ adds to each 1.0 message that it gives out.
_ADDED = {"x-exchange", "x-routing-key", "x-stream-offset"}


def content_of(one: Any) -> Content:
    """Return the bytes of a message, or of a delivery."""
    if isinstance(one, BasicMessage):
        return encoded(one.properties), one.body
    if isinstance(one, Message):
        return one.encode()
    header: bytes | None = one.content_header
    return one.octets if header is None else (header[12:], one.octets)


def key_of(one: Any) -> Content:
    """Return what is to be the same at both ends: content header and body, or the bare message."""
    return compared(content_of(one))


def compared(one: Content) -> Content:
    """Return of a message's bytes what is compared: of a 1.0 message the bare one."""
    return one if isinstance(one, tuple) else bare(one)


def in_order(one: Content) -> Content:
    """Return a message with the headers in the order of their names, as RabbitMQ 4 has them."""
    if not isinstance(one, tuple):
        return one
    properties = decode_properties(one[0])
    if properties.headers is not None:
        entries = FieldTable(properties.headers).entries
        name: Callable[[Any], bytes] = lambda entry: entry[0].encode("utf-8", "surrogateescape")  # noqa: E731
        properties.headers = FieldTable.of(sorted(entries, key=name))
    return encoded(properties), one[1]


def bare(message: bytes) -> bytes:
    """Return the bare message."""
    return scan(message).bare


def differences(one: Content, other: Content) -> list[str]:
    """Name what differs between two messages."""
    if isinstance(one, tuple) and isinstance(other, tuple):
        names = ["body"] if one[1] != other[1] else []
        left, right = decode_properties(one[0]), decode_properties(other[0])
        for field in attrs.fields(BasicProperties):
            values = getattr(left, field.name), getattr(right, field.name)
            if field.name == "headers":
                names += [f"headers: {name}" for name in _headers(*values)]
            elif values[0] != values[1]:
                names.append(field.name)
        return names
    assert isinstance(one, bytes)
    assert isinstance(other, bytes)
    names = []
    for name in ("properties", "application_properties", "body"):
        found = []
        for octets_ in (one, other):
            try:
                found.append(repr(getattr(Message.decode(octets_, strict=False), name)))
            except AmqpError:
                found.append("unreadable")
        if found[0] != found[1]:
            names.append(name)
    return names


def _headers(one: Any, other: Any) -> Iterator[str]:
    if one is None or other is None:
        if one is not other:
            yield "there or not"
        return
    left = {name: (kind, repr(value)) for name, kind, value in FieldTable(one).entries}
    right = {name: (kind, repr(value)) for name, kind, value in FieldTable(other).entries}
    for name in sorted(left.keys() | right.keys()):
        if left.get(name) != right.get(name):
            kinds = [side[name][0] if name in side else "-" for side in (left, right)]
            yield f"{name[:30]} {kinds[0]}>{kinds[1]}"
    if left == right and list(left) != list(right):
        yield "order"


def shown(one: Content) -> str:
    """Return a message for people to read."""
    if isinstance(one, tuple):
        return f"{decode_properties(one[0])!r:.400} {one[1][:60]!r}"
    return one[:200].hex()


def changed_inside(sent: Content | None, given: Content | None) -> list[str]:
    """Name what the broker in the middle changed in a message, beyond what it adds to all."""
    if sent is None or given is None:
        return []
    if isinstance(sent, tuple) or isinstance(given, tuple):
        return differences(sent, given)
    try:
        before, after = (Message.decode(one, strict=False) for one in (sent, given))
        annotations = [
            {str(name): repr(value) for name, value in (one.message_annotations or {}).items()}
            for one in (before, after)
        ]
    except AmqpError:
        return differences(sent, given)
    names = [
        f"message-annotations.{name[:30]}"
        for name in sorted(annotations[0].keys() | annotations[1].keys())
        if annotations[0].get(name) != annotations[1].get(name) and name not in _ADDED
    ]
    return names + differences(sent, given)


def changed_parts(one: Any, other: Any) -> list[str]:
    """Name the parts in which two messages differ, as the paths of losses do.

    Where the values are the same, and only their order or encoding differs, it is the section.
    """
    if isinstance(one, BasicMessage):
        left, right = _basic_parts(one), _basic_parts(other)
    else:
        if one.encode() == other.encode() and one.message_format == other.message_format:
            return []
        left, right = _message_parts(one), _message_parts(other)
    names = list(dict.fromkeys([*left, *right]))
    found = [name for name in names if left.get(name) != right.get(name)]
    # A section differs where a part of it does: that is said already.
    return [
        name
        for name in found
        if not any(part != name and part.startswith((name + ".", name + "[")) for part in found)
    ]


def _basic_parts(basic: BasicMessage) -> dict[str, Any]:
    parts: dict[str, Any] = {"body": basic.body}
    for field in attrs.fields(BasicProperties):
        alone = BasicProperties(**{field.name: getattr(basic.properties, field.name)})
        path = (
            "headers" if field.name == "headers" else f"properties.{field.name.replace('_', '-')}"
        )
        parts[path] = encoded(alone)
    table = basic.properties.headers
    for name, letter, value in FieldTable(table).entries if table is not None else ():
        parts.setdefault(f"headers[{name!r}]", encode_field(letter, value))
    return parts


def _message_parts(message: Message) -> dict[str, Any]:
    octets = message.encode()
    message = Message.decode(octets, strict=False, message_format=message.message_format)
    parts: dict[str, Any] = {"message-format": message.message_format}
    for part in scan(octets):
        # Of a message that breaks rules one section may stand there twice.
        attribute = "unknown" if part.kind is None else part.kind.attribute
        name = attribute.replace("_", "-")
        parts[name] = parts.get(name, b"") + octets[part.offset : part.end]
        value = getattr(message, attribute, None)
        if isinstance(value, (Header, Properties)):
            for field in attrs.fields(type(value)):
                path = f"{name}.{field.name.replace('_', '-')}"
                if getattr(value, field.name) != field.default:
                    parts[path] = repr(getattr(value, field.name))
        elif isinstance(value, dict):
            for key, item in value.items():
                parts[path_of_key(name, key)] = repr(item)
    return parts
