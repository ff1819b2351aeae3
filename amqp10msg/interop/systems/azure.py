"""Messages of Azure Service Bus and Event Hubs: annotations, and the objects of their clients.

The names are those of Azure's AMQP protocol guide and of its clients; the batch envelope of both
services is `amqp10msg.message.batch`. Needs ``amqp10msg[azure]`` for the objects of the
clients alone.
"""

from __future__ import annotations

import datetime
import importlib
import json
import struct
import uuid
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias

import attrs

from amqp10msg.message import Message, expect_message
from amqp10msg.notation import to_typed
from amqp10msg.notation.type_names import TYPES
from amqp10msg.sections import AmqpSequence, AmqpValue, Data, Header, MessageAnnotations, Properties
from amqp10msg.sections.parts import check_fields, entry_of, merged
from amqp10msg.wire.errors import as_bytes
from amqp10msg.wire.later import of_extra
from amqp10msg.wire.primitives import (
    INTEGERS,
    AmqpMap,
    Char,
    Described,
    Float,
    Int,
    Symbol,
    Timestamp,
    ULong,
)

__all__ = [
    "BrokerFields",
    "Service",
    "broker_fields",
    "from_client",
    "lost_in_client",
    "scheduled",
    "to_annotated",
    "to_event_data",
    "to_received",
    "with_partition_key",
]

#: The service whose client an object is of.
Service: TypeAlias = Literal["servicebus", "eventhub"]

#: The hint of the TypeError for callers who pass an encoded message.
_STATES = ("active", "deferred", "scheduled")


@attrs.frozen(kw_only=True)
class BrokerFields:
    """What Azure says of a message; None for what it does not say.

    Moments are in milliseconds since the Unix epoch.

    Attributes:
        sequence_number: ``x-opt-sequence-number``, unique in the queue or partition.
        enqueued_sequence_number: ``x-opt-enqueue-sequence-number``, before forwarding.
        enqueued_time: ``x-opt-enqueued-time``.
        offset: ``x-opt-offset``, the place in the partition of an event hub.
        locked_until: ``x-opt-locked-until``.
        lock_token: ``x-opt-lock-token``, in the delivery-annotations.
        scheduled_enqueue_time: ``x-opt-scheduled-enqueue-time``.
        partition_key: ``x-opt-partition-key``.
        via_partition_key: ``x-opt-via-partition-key``.
        partition_id: ``x-opt-partition-id``.
        publisher: ``x-opt-publisher``.
        state: ``x-opt-message-state``: active, deferred or scheduled.
        dead_letter_source: ``x-opt-deadletter-source``.
        dead_letter_reason: the application property DeadLetterReason.
        dead_letter_error_description: the application property DeadLetterErrorDescription.
        session_id: the group-id of the properties.
        delivery_count: of the header, from 0 on.
        expires_at: the enqueued time and the ttl of the header.
    """

    sequence_number: int | None = None
    enqueued_sequence_number: int | None = None
    enqueued_time: int | None = None
    offset: str | None = None
    locked_until: int | None = None
    lock_token: uuid.UUID | None = None
    scheduled_enqueue_time: int | None = None
    partition_key: str | None = None
    via_partition_key: str | None = None
    partition_id: int | None = None
    publisher: str | None = None
    state: str | None = None
    dead_letter_source: str | None = None
    dead_letter_reason: str | None = None
    dead_letter_error_description: str | None = None
    session_id: str | None = None
    delivery_count: int = 0
    expires_at: int | None = None


# The fields that are annotations or application properties: the key, and the type of the value.
_ANNOTATIONS: tuple[tuple[str, str, type], ...] = (
    ("sequence_number", "x-opt-sequence-number", int),
    ("enqueued_sequence_number", "x-opt-enqueue-sequence-number", int),
    ("enqueued_time", "x-opt-enqueued-time", int),
    ("offset", "x-opt-offset", str),
    ("locked_until", "x-opt-locked-until", int),
    ("scheduled_enqueue_time", "x-opt-scheduled-enqueue-time", int),
    ("partition_key", "x-opt-partition-key", str),
    ("via_partition_key", "x-opt-via-partition-key", str),
    ("partition_id", "x-opt-partition-id", int),
    ("publisher", "x-opt-publisher", str),
    ("dead_letter_source", "x-opt-deadletter-source", str),
)
_PROPERTIES: tuple[tuple[str, str, type], ...] = (
    ("dead_letter_reason", "DeadLetterReason", str),
    ("dead_letter_error_description", "DeadLetterErrorDescription", str),
)


_DATETIME_OFFSET = Symbol("com.microsoft:datetime-offset")


def _value_of(value: Any, kind: type) -> Any:
    """Return an annotation as `kind`, in each form that the services and clients write.

    None if the value is of another type: text of a `kind` int, for example.
    """
    if kind is int:
        if isinstance(value, Described) and value.descriptor == _DATETIME_OFFSET:
            return int(Timestamp.from_ticks(value.value)) if _is_number(value.value) else None
        if isinstance(value, datetime.datetime) and value.tzinfo is not None:
            return int(Timestamp.from_datetime(value))
    elif kind is str:
        if _is_number(value):  # an offset or a partition key as a number
            return str(int(value))
        if isinstance(value, (bytes, bytearray, memoryview)):  # text of the older Python clients
            try:
                return bytes(value).decode()
            except UnicodeDecodeError:
                return None
    if not isinstance(value, kind) or isinstance(value, bool):
        return None
    return value if kind is uuid.UUID else kind(value)


def broker_fields(message: Message) -> BrokerFields:
    """Return the fields that Azure sets.

    Moments may be timestamps or ``com.microsoft:datetime-offset``; numbers in the place of text,
    such as an offset or a partition key, are read as text. A value of another type is None here:
    the annotations have it. The sequence number of a geo-replicated event hub is text, and None.
    """
    expect_message(message, "broker_fields")
    found: dict[str, Any] = {}
    for section, rows in (
        (message.message_annotations, _ANNOTATIONS),
        (message.application_properties, _PROPERTIES),
        (message.delivery_annotations, (("lock_token", "x-opt-lock-token", uuid.UUID),)),
    ):
        for name, key, kind in rows:
            value = _value_of(entry_of(section, key), kind)
            if value is not None:
                found[name] = value
    state = message.message_annotation("x-opt-message-state")
    if _is_number(state) and 0 <= state < len(_STATES):
        found["state"] = _STATES[state]
    if message.properties is not None and isinstance(message.properties.group_id, str):
        found["session_id"] = message.properties.group_id
    if message.header is not None:
        count, ttl = message.header.delivery_count, message.header.ttl
        if _is_number(count):
            found["delivery_count"] = int(count)
        if ttl is not None and _is_number(ttl) and "enqueued_time" in found:
            found["expires_at"] = found["enqueued_time"] + int(ttl)
    return BrokerFields(**found)


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def scheduled(message: Message, moment: int | datetime.datetime) -> Message:
    """Return a copy that Service Bus delivers from a moment on.

    Args:
        message: the message.
        moment: in milliseconds since the Unix epoch, or an aware datetime.

    Raises:
        ValueError: the datetime has no time zone.
    """
    expect_message(message, "scheduled")
    if isinstance(moment, datetime.datetime):
        moment = Timestamp.from_datetime(moment)
    return _annotated(message, {"x-opt-scheduled-enqueue-time": Timestamp(moment)})


def with_partition_key(message: Message, key: str, *, via: str | None = None) -> Message:
    """Return a copy with the key that chooses the partition.

    Args:
        message: the message.
        key: at most 128 characters.
        via: the key of the queue that it is sent by, in a transaction of Service Bus.

    Raises:
        ValueError: a key is too long.
    """
    expect_message(message, "with_partition_key")
    keys = {"x-opt-partition-key": key, "x-opt-via-partition-key": via}
    given = {name: value for name, value in keys.items() if value is not None}
    for name, value in given.items():
        if len(value) > 128:
            raise ValueError(f"{name}: at most 128 characters, not {len(value)}")
    return _annotated(message, given)


def _annotated(message: Message, new: Mapping[str, Any]) -> Message:
    copy = message.evolve()
    made = merged(message.message_annotations, {Symbol(key): value for key, value in new.items()})
    copy.message_annotations = made if isinstance(made, AmqpMap) else MessageAnnotations(made)  # type: ignore[assignment]  # lenient messages hold one
    return copy


# The objects of the clients.


def to_received(message: Message) -> Any:
    """Return a ``ServiceBusReceivedMessage`` of these bytes, as if it had been received.

    Raises:
        ValueError: the client cannot read it, such as symbols as descriptors of sections.
        ImportError: azure-servicebus 7.15 or later is not installed.
    """
    expect_message(message, "to_received")
    return _read_by(_client("servicebus").ServiceBusReceivedMessage, message)


def to_event_data(message: Message) -> Any:
    """Return an ``EventData`` of these bytes, as if it had been received.

    Raises:
        ValueError: the client cannot read it, such as symbols as descriptors of sections.
        ImportError: azure-eventhub is not installed.
    """
    expect_message(message, "to_event_data")
    return _read_by(_client("eventhub").EventData, message)


# Annotations that the clients take for timestamps in milliseconds.
_MOMENTS = ("x-opt-enqueued-time", "x-opt-locked-until", "x-opt-scheduled-enqueue-time")


def _read_by(kind: Any, message: Message) -> Any:
    forms: dict[str, Any] = {}  # of annotations, as the client reads them
    for key in _MOMENTS:
        value = entry_of(message.message_annotations, key)
        moment = _value_of(value, int) if isinstance(value, Described) else None
        if moment is not None:
            forms[key] = Timestamp(moment)
    offset = entry_of(message.message_annotations, "x-opt-offset")
    if _is_number(offset):  # EventData reads text alone
        forms["x-opt-offset"] = str(int(offset))
    octets = (_annotated(message, forms) if forms else message).encode()
    try:
        return kind.from_bytes(octets)
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
        raise ValueError(f"the client of Azure cannot read this message: {said:.200}") from error


# AMQP types whose values the clients would write as another one; see `to_annotated`.
_TYPES: dict[type, str] = {
    kind: TYPES[kind].upper() for kind in (*INTEGERS.values(), int, Float, Symbol, bytes)
}


def to_annotated(message: Message, service: Service = "servicebus") -> Any:
    """Return an ``AmqpAnnotatedMessage`` to send: what its client writes is the same message.

    Values carry their AMQP types, since the client would write every int as one of 32 bits. The
    clients write no delivery-annotations, fill in the fields of header and properties, and set
    creation-time and absolute-expiry-time themselves where there is a ttl. Bodies of data are the
    safest: of a body that is one value, the clients write few types as they are.

    Args:
        message: the message.
        service: whose client sends it.

    Raises:
        ValueError: it holds a value that the clients cannot write, such as a char or an array, or
            as a lenient decoding leaves it.
        ImportError: the client is not installed.
    """
    expect_message(message, "to_annotated")
    module = importlib.import_module(f"{_client(service).__name__}.amqp")
    check_fields(message)
    body = Message(message.body).body
    parts: list[Any] = body if isinstance(body, list) else [] if body is None else [body]
    given: dict[str, Any] = {}
    if len({type(part) for part in parts}) > 1 or (
        len(parts) > 1 and isinstance(parts[0], AmqpValue)
    ):
        raise ValueError("the clients of Azure cannot write a body of several kinds, or values")
    if not parts or isinstance(parts[0], AmqpValue):
        given["value_body"] = _value_body(parts[0].value) if parts else None
    elif isinstance(parts[0], Data):
        given["data_body"] = [as_bytes(part.data, "Data") for part in parts]
    else:
        given["sequence_body"] = [[_typed(item) for item in part.values] for part in parts]
    if message.header is not None:
        header = attrs.asdict(message.header, recurse=False)
        given["header"] = module.AmqpMessageHeader(time_to_live=header.pop("ttl"), **header)
    if message.properties is not None:
        properties = attrs.asdict(message.properties, recurse=False)
        given["properties"] = module.AmqpMessageProperties(**properties)
    for name, section in (
        ("application_properties", message.application_properties),
        ("annotations", message.message_annotations),
        ("footer", message.footer),
    ):
        if section is not None:
            given[name] = {_plain_key(key): _typed(value) for key, value in section.items()}
    return module.AmqpAnnotatedMessage(**given)


def _plain_key(key: Any) -> Any:
    return int(key) if isinstance(key, int) else str(key)


def _typed(value: Any) -> Any:
    """Return a value as the clients write it with its type: a dict of TYPE and VALUE."""
    kind = type(value)
    if kind in _TYPES:
        plain = {str: str, bytes: bytes, float: float}
        as_is: Any = next((to for base, to in plain.items() if isinstance(value, base)), int)
        return {"TYPE": _TYPES[kind], "VALUE": as_is(value)}
    if isinstance(value, list):
        return [_typed(item) for item in value]
    if isinstance(value, dict):
        return {"TYPE": "MAP", "VALUE": [(_typed(k), _typed(v)) for k, v in value.items()]}
    is_plain = isinstance(value, (bool, float, str, bytes, uuid.UUID)) and kind is not Char
    if value is None or is_plain:
        return value
    raise ValueError(f"the clients of Azure cannot write {value!r:.80}")


def _value_body(value: Any) -> Any:
    """Return a value as the clients write it where it is a whole body: they take no types there."""
    if value and type(value) in {str, bytes, bool, float, uuid.UUID}:
        return value
    if value and isinstance(value, list):
        return _typed(value)
    if value and type(value) is Int:
        return int(value)
    if value and isinstance(value, dict) and all(type(key) is str for key in value):
        return {key: _typed(item) for key, item in value.items()}
    raise ValueError(
        f"the clients of Azure cannot write a body that is {value!r:.80}: make it Data"
    )


def from_client(given: Any) -> Message:
    """Return the message that an object of Azure's clients stands for.

    Args:
        given: an ``AmqpAnnotatedMessage``, or what holds one: a ``ServiceBusMessage``, received or
            not, or an ``EventData``. Of what was received, the clients keep neither the types of
            numbers nor the difference of string, symbol and binary: bytes that are UTF-8 become
            text; `lost_in_client` lists what that costs a message.

    Raises:
        TypeError: it is none of these.
        ValueError: annotations, application properties or a footer are not a mapping.
    """
    annotated = getattr(given, "raw_amqp_message", given)
    if not hasattr(annotated, "body_type") or not hasattr(annotated, "annotations"):
        raise TypeError(f"not a message of Azure's clients: {type(given).__name__}")
    header, properties = annotated.header, annotated.properties
    for name in ("delivery_annotations", "annotations", "application_properties", "footer"):
        held = getattr(annotated, name)
        if held and not isinstance(held, Mapping):
            raise ValueError(f"{name} is {type(held).__name__}, and must be a mapping")
    keys = {*(annotated.annotations or ()), *(annotated.application_properties or ())}
    is_received = any(isinstance(key, bytes) for key in keys)
    message = Message(
        _body(annotated.body_type.value, annotated.body, is_received),
        delivery_annotations=_section(annotated.delivery_annotations, Symbol),
        message_annotations=_section(annotated.annotations, Symbol),
        application_properties=_section(annotated.application_properties, str),
        footer=_section(annotated.footer, Symbol),
    )
    if header is not None:
        held = {**dict(header.items()), "ttl": header.time_to_live}
        held = {name: held[name] for name in attrs.fields_dict(Header) if held[name] is not None}
        message.header = Header(**held) if held else None
    if properties is not None:
        fields = {name: value for name, value in properties.items() if value is not None}
        for name, value in fields.items():
            if isinstance(value, bytes) and name != "user_id":
                fields[name] = _text(value)
        if isinstance(fields.get("user_id"), str):
            fields["user_id"] = fields["user_id"].encode()
        message.properties = Properties(**fields) if fields else None
    return message


def lost_in_client(message: Message, service: Service = "servicebus") -> list[str]:
    """List what a client's object of this message does not give back; empty where it gives all.

    The client reads the message, `from_client` makes a message of its object, and both are
    compared, value by value with their types.

    Args:
        message: the message, as the service would deliver it.
        service: whose client receives it.

    Raises:
        ValueError: the client cannot read it.
        ImportError: the client is not installed.
    """
    expect_message(message, "lost_in_client")
    read = to_received if service == "servicebus" else to_event_data
    before, after = _contents(message), _contents(from_client(read(message)))
    return [
        f"{path}: {_shown(before.get(path))} becomes {_shown(after.get(path))}"
        for path in dict.fromkeys((*before, *after))
        if before.get(path) != after.get(path)
    ]


_BODIES = {"data", "amqp-sequence", "amqp-value"}
# Of the maps of a message.
_KEYS = {"symbol", "string", "ulong"}


def _add(found: dict[str, Any], path: str, value: Any) -> None:
    """Add a value under its path, or under another one where that stands twice."""
    while path in found:
        path += ", again"
    found[path] = value


def _contents(message: Message) -> dict[str, Any]:
    """Return the values of a message in typed JSON, each under its path."""
    found: dict[str, Any] = {}
    names = {"header": attrs.fields(Header), "properties": attrs.fields(Properties)}
    for section, content in to_typed(message):
        # Where a section is not what it should be, it is one value, or bytes.
        is_odd = isinstance(content, str) or (content and isinstance(content[0], str))
        if section in _BODIES:
            found.setdefault("body", []).append([section, content])
        elif is_odd or not content:
            _add(found, section, content or "an empty section")
        elif section in names:
            held = zip(names[section], content, strict=False)
            given = {f.name.replace("_", "-"): value for f, value in held if value != ["null"]}
            for name, value in given.items():
                _add(found, f"{section}.{name}", value)
            if not given:
                _add(found, section, "an empty section")
        else:
            for key, value in content:
                name = repr(key[1]) if key[0] in _KEYS else _shown(key)
                _add(found, f"{section}[{name}]", value)
    if message.message_format:
        found["message-format"] = ["uint", message.message_format]
    return found


def _shown(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or "nothing"
    if value[0] in ("float", "double"):
        (number,) = struct.unpack(">f" if value[0] == "float" else ">d", bytes.fromhex(value[1]))
        return f"{value[0]} {number!r}"
    if len(value) == 2 and isinstance(value[1], (str, int, bool)):
        return f"{value[0]} {value[1]!r:.40}"
    return f"{json.dumps(value, ensure_ascii=False):.60}"


def _section(given: Mapping[Any, Any] | None, key_type: Any) -> dict[Any, Any] | None:
    if not given:
        return None
    made: dict[Any, Any] = {}
    for key, value in given.items():
        is_received = isinstance(key, bytes)
        name = _text(key) if is_received else key
        if isinstance(name, str):
            name = key_type(name)
        elif _is_number(name):
            name = ULong(name)
        made[name] = _untyped(value, is_received)
    return made


def _untyped(value: Any, is_received: bool) -> Any:
    if isinstance(value, bytes):
        return _text(value) if is_received else value
    if type(value) is int and not is_received and -(2**31) <= value < 2**31:
        return Int(value)  # as the clients write it
    if isinstance(value, datetime.datetime):
        return Timestamp.from_datetime(value)
    if isinstance(value, dict):
        if value.keys() == {"TYPE", "VALUE"}:
            return _from_typed(value["TYPE"], value["VALUE"])
        return {_untyped(k, is_received): _untyped(v, is_received) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_untyped(item, is_received) for item in value]
    return value


_CLASSES = {str(name): kind for kind, name in _TYPES.items()}


def _from_typed(name: Any, value: Any) -> Any:
    name = getattr(name, "value", name)
    if name == "MAP":
        pairs = value.items() if isinstance(value, dict) else value
        return {_untyped(k, False): _untyped(v, False) for k, v in pairs}
    kind = _CLASSES.get(str(name))
    return _untyped(value, False) if kind is None else kind(value)


def _text(octets: bytes) -> Any:
    try:
        return octets.decode("utf-8")
    except UnicodeDecodeError:
        return octets


def _body(kind: str, body: Any, is_received: bool) -> Any:
    if kind == "data":
        return [Data(_octets(part)) for part in body]
    if kind == "sequence":
        sections: Iterable[Any] = body
        return [AmqpSequence(_untyped(part, is_received)) for part in sections]
    return AmqpValue(_untyped(body, is_received))


def _octets(part: Any) -> Any:
    # Of another type, as the clients read what is not a message of 1.0, it cannot be encoded.
    if isinstance(part, str):
        return part.encode()
    return bytes(part) if isinstance(part, (bytearray, memoryview)) else part


def _client(service: Service) -> Any:
    return of_extra(f"azure.{service}", "azure", f"this needs azure-{service}")
