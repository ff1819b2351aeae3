"""Comparing messages by proton's own accessors."""

from __future__ import annotations

import struct
import uuid
from typing import Any

import attrs
import pytest

from amqp10msg import (
    AmqpSequence,
    AmqpValue,
    Array,
    Byte,
    Char,
    Data,
    Decimal32,
    Decimal64,
    Decimal128,
    Described,
    Float,
    Header,
    Int,
    Message,
    Properties,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
)
from amqp10msg.wire.primitives import identical

proton = pytest.importorskip("proton", reason="needs python-qpid-proton")


TYPES: dict[type, type] = {
    type(None): type(None),
    bool: bool,
    UByte: proton.ubyte,
    UShort: proton.ushort,
    UInt: proton.uint,
    ULong: proton.ulong,
    Byte: proton.byte,
    Short: proton.short,
    Int: proton.int32,
    int: int,
    Float: proton.float32,
    float: float,
    Decimal32: proton.decimal32,
    Decimal64: proton.decimal64,
    Decimal128: proton.decimal128,
    Char: proton.char,
    Timestamp: proton.timestamp,
    uuid.UUID: uuid.UUID,
    str: str,
    Symbol: proton.symbol,
    Described: proton.Described,
    Array: proton.Array,
}
ARRAY_TYPES = {"bool": "boolean"}


def same(ours: Any, theirs: Any) -> bool:
    """Tell whether proton's Python value has our value's AMQP type and says the same."""
    if isinstance(ours, bytes):
        return isinstance(theirs, (bytes, memoryview)) and ours == bytes(theirs)
    if isinstance(ours, list):
        return type(theirs) is list and same_all(ours, theirs)
    if isinstance(ours, dict):
        return (
            isinstance(theirs, dict)
            and same_all(list(ours), list(theirs))
            and same_all(list(ours.values()), list(theirs.values()))
        )
    if not same_type(ours, theirs):
        return False
    if isinstance(ours, Described):
        return same(ours.descriptor, theirs.descriptor) and same(ours.value, theirs.value)
    if isinstance(ours, Array):
        name = proton.Data.type_names[theirs.type]
        described = theirs.descriptor is not proton.UNDESCRIBED
        return (
            ours.type == ARRAY_TYPES.get(name, name)
            and same_all(list(ours.descriptors), [theirs.descriptor] if described else [])
            and same_all(ours.values, list(theirs.elements))
        )
    if isinstance(ours, Float):
        return struct.pack(">I", ours.bits) == struct.pack(">f", theirs)
    if isinstance(ours, float):
        return struct.pack(">d", ours) == struct.pack(">d", theirs)
    if isinstance(ours, (Decimal32, Decimal64)):
        return ours.bits == int(theirs)
    if isinstance(ours, Decimal128):
        return ours.bits.to_bytes(16, "big") == bytes(theirs)
    if isinstance(ours, int):
        return int(ours) == int(theirs)
    return bool(ours == theirs)


def same_type(ours: Any, theirs: Any) -> bool:
    return TYPES.get(type(ours)) is type(theirs)


def same_all(ours: list[Any], theirs: list[Any]) -> bool:
    return len(ours) == len(theirs) and all(map(same, ours, theirs))


def same_id(ours: Any, theirs: Any) -> bool:
    # Proton shows the ulong of an id as a plain int.
    return same(ours, proton.ulong(theirs) if type(theirs) is int else theirs)


def disagreements(message: Message, theirs: Any) -> list[str]:
    """Name the fields that proton's accessors show otherwise."""
    header = message.header or Header()
    properties = message.properties or Properties()
    body = message.body
    content: Any = None
    if isinstance(body, Data):
        content = body.data
    elif isinstance(body, AmqpSequence):
        content = body.values
    elif isinstance(body, AmqpValue):
        content = body.value
    agreed = {
        "durable": header.durable is theirs.durable,
        "priority": header.priority == theirs.priority,
        "ttl": float(header.ttl or 0) / 1000 == theirs.ttl,
        "first-acquirer": header.first_acquirer is theirs.first_acquirer,
        "delivery-count": header.delivery_count == theirs.delivery_count,
        "delivery-annotations": same(message.delivery_annotations, theirs.instructions),
        "message-annotations": same(message.message_annotations, theirs.annotations),
        "message-id": same_id(properties.message_id, theirs.id),
        "user-id": (properties.user_id or b"") == theirs.user_id,
        "to": properties.to == theirs.address,
        "subject": properties.subject == theirs.subject,
        "reply-to": properties.reply_to == theirs.reply_to,
        "correlation-id": same_id(properties.correlation_id, theirs.correlation_id),
        # An absent symbol is the symbol "None" to proton.
        "content-type": str(properties.content_type) == theirs.content_type,
        "content-encoding": str(properties.content_encoding) == theirs.content_encoding,
        "absolute-expiry-time": (properties.absolute_expiry_time or 0) / 1000 == theirs.expiry_time,
        "creation-time": (properties.creation_time or 0) / 1000 == theirs.creation_time,
        "group-id": properties.group_id == theirs.group_id,
        "group-sequence": (properties.group_sequence or 0) == theirs.group_sequence,
        "reply-to-group-id": properties.reply_to_group_id == theirs.reply_to_group_id,
        "application-properties": same(message.application_properties, theirs.properties),
        "inferred": isinstance(body, (Data, AmqpSequence)) is theirs.inferred,
        "body": same(content, theirs.body),
    }
    return [name for name, agrees in agreed.items() if not agrees]


def said(message: Message) -> dict[str, Any]:
    """List what a message says, with absent and empty header and properties taken for the same."""
    found = {name: getattr(message, name) for name in ("header", "properties", "footer", "body")}
    if found["header"] == Header():
        found["header"] = None
    if found["properties"] == Properties():
        found["properties"] = None
    for name in ("delivery_annotations", "message_annotations", "application_properties"):
        found[name] = getattr(message, name)
    return found


def same_message(one: Message, other: Message) -> bool:
    """Compare by value and AMQP type; encodings, also of arrays, are free."""
    return all(identical(as_values(a), as_values(said(other)[n])) for n, a in said(one).items())


def as_values(section: Any) -> Any:
    if isinstance(section, list):
        return [as_values(part) for part in section]
    if isinstance(section, (Data, AmqpSequence, AmqpValue, Header, Properties)):
        fields = attrs.fields(type(section))
        return [type(section).__name__, *(getattr(section, field.name) for field in fields)]
    return section


def decoded_by_proton(octets: bytes) -> Any:
    theirs = proton.Message()
    theirs.decode(octets)
    return theirs
