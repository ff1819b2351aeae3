"""Read and write Azure's annotations, and convert message objects of Azure's Python clients.

This is for Azure Service Bus and Event Hubs. The names follow Azure's AMQP protocol guide and
clients. `amqp10msg.message.batch` reads and writes batches of both services. Only conversions of
client objects need ``amqp10msg[azure]``.
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
from amqp10msg.notation.type_names import TYPE_NAME_BY_CLASS
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

#: An Azure service. Its client library is ``azure-servicebus`` or ``azure-eventhub``.
Service: TypeAlias = Literal["servicebus", "eventhub"]

#: Names of message states. The index of a name is its number in ``x-opt-message-state``.
_MESSAGE_STATE_NAMES = ("active", "deferred", "scheduled")


@attrs.frozen(kw_only=True)
class BrokerFields:
    """The fields that Azure sets in a message; None if absent.

    Times are in milliseconds since the Unix epoch.

    Attributes:
        sequence_number: ``x-opt-sequence-number``, unique in the queue or partition.
        enqueued_sequence_number: ``x-opt-enqueue-sequence-number``, the sequence number in the
            first queue or topic if the message was forwarded.
        enqueued_time: ``x-opt-enqueued-time``.
        offset: ``x-opt-offset``, the position in the partition of an event hub.
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
        session_id: the properties' group-id.
        delivery_count: the header's delivery-count; 0 at the first delivery.
        expires_at: the enqueued time plus the header's ttl.
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


# (attribute of `BrokerFields`, key of the message annotation, Python type).
_MESSAGE_ANNOTATIONS: tuple[tuple[str, str, type], ...] = (
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
# (attribute of `BrokerFields`, key of the application property, Python type).
_APPLICATION_PROPERTIES: tuple[tuple[str, str, type], ...] = (
    ("dead_letter_reason", "DeadLetterReason", str),
    ("dead_letter_error_description", "DeadLetterErrorDescription", str),
)


_DATETIME_OFFSET = Symbol("com.microsoft:datetime-offset")


def _convert_annotation(value: Any, kind: type) -> Any:
    """Convert an annotation to `kind` from any form in which services and clients write it.

    Return None if it has none of these forms, for example for text if `kind` is int.
    """
    if kind is int:
        if isinstance(value, Described) and value.descriptor == _DATETIME_OFFSET:
            return int(Timestamp.from_ticks(value.value)) if _is_integer(value.value) else None
        if isinstance(value, datetime.datetime) and value.tzinfo is not None:
            return int(Timestamp.from_datetime(value))
    elif kind is str:
        if _is_integer(value):  # some senders write an offset or a partition key as a number
            return str(int(value))
        if isinstance(
            value, (bytes, bytearray, memoryview)
        ):  # older Python clients write text as binary
            try:
                return bytes(value).decode()
            except UnicodeDecodeError:
                return None
    if not isinstance(value, kind) or isinstance(value, bool):
        return None
    return value if kind is uuid.UUID else kind(value)


def broker_fields(message: Message) -> BrokerFields:
    """Return the fields that Azure sets in a message.

    Times may be timestamps or ``com.microsoft:datetime-offset``. An offset or a partition key that
    is a number is converted to text. A value of any other type becomes None, and can be read only
    from the annotations: for example, the sequence number of a geo-replicated event hub is text.
    """
    expect_message(message, "broker_fields")
    values: dict[str, Any] = {}
    for section, rows in (
        (message.message_annotations, _MESSAGE_ANNOTATIONS),
        (message.application_properties, _APPLICATION_PROPERTIES),
        (message.delivery_annotations, (("lock_token", "x-opt-lock-token", uuid.UUID),)),
    ):
        for name, key, kind in rows:
            value = _convert_annotation(entry_of(section, key), kind)
            if value is not None:
                values[name] = value
    state = message.message_annotation("x-opt-message-state")
    if _is_integer(state) and 0 <= state < len(_MESSAGE_STATE_NAMES):
        values["state"] = _MESSAGE_STATE_NAMES[state]
    if message.properties is not None and isinstance(message.properties.group_id, str):
        values["session_id"] = message.properties.group_id
    if message.header is not None:
        count, ttl = message.header.delivery_count, message.header.ttl
        if _is_integer(count):
            values["delivery_count"] = int(count)
        if ttl is not None and _is_integer(ttl) and "enqueued_time" in values:
            values["expires_at"] = values["enqueued_time"] + int(ttl)
    return BrokerFields(**values)


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def scheduled(message: Message, moment: int | datetime.datetime) -> Message:
    """Return a copy of a message, scheduled so that Service Bus delivers it at `moment` or later.

    Args:
        message: the message.
        moment: a time in milliseconds since the Unix epoch, or a datetime with a time zone.

    Raises:
        ValueError: the datetime has no time zone.
    """
    expect_message(message, "scheduled")
    if isinstance(moment, datetime.datetime):
        moment = Timestamp.from_datetime(moment)
    return _with_annotations(message, {"x-opt-scheduled-enqueue-time": Timestamp(moment)})


def with_partition_key(message: Message, key: str, *, via: str | None = None) -> Message:
    """Return a copy of a message with a partition key.

    Args:
        message: the message.
        key: the partition key, at most 128 characters.
        via: the partition key for the transfer queue (send-via), in a Service Bus transaction.

    Raises:
        ValueError: a key is too long.
    """
    expect_message(message, "with_partition_key")
    keys = {"x-opt-partition-key": key, "x-opt-via-partition-key": via}
    annotations = {name: value for name, value in keys.items() if value is not None}
    for name, value in annotations.items():
        if len(value) > 128:
            raise ValueError(f"{name}: at most 128 characters, not {len(value)}")
    return _with_annotations(message, annotations)


def _with_annotations(message: Message, added: Mapping[str, Any]) -> Message:
    """Return a copy of a message with added or replaced message-annotations."""
    copy = message.evolve()
    entries = {Symbol(key): value for key, value in added.items()}
    annotations: Any = merged(message.message_annotations, entries)
    if not isinstance(annotations, AmqpMap):  # a section may be an AmqpMap after lenient decoding
        annotations = MessageAnnotations(annotations)
    copy.message_annotations = annotations
    return copy


# Client objects.


def to_received(message: Message) -> Any:
    """Convert to the ``ServiceBusReceivedMessage`` that the client creates for a received message.

    Raises:
        ValueError: the client cannot read the message, for example because its sections have
            symbolic descriptors.
        ImportError: azure-servicebus 7.15 or later is not installed.
    """
    expect_message(message, "to_received")
    return _to_client_object(_import_client("servicebus").ServiceBusReceivedMessage, message)


def to_event_data(message: Message) -> Any:
    """Convert to the ``EventData`` that the client creates for a received message.

    Raises:
        ValueError: the client cannot read the message, for example because its sections have
            symbolic descriptors.
        ImportError: azure-eventhub is not installed.
    """
    expect_message(message, "to_event_data")
    return _to_client_object(_import_client("eventhub").EventData, message)


# Annotations that the clients read as timestamps in milliseconds.
_TIMESTAMP_ANNOTATIONS = (
    "x-opt-enqueued-time",
    "x-opt-locked-until",
    "x-opt-scheduled-enqueue-time",
)


def _to_client_object(kind: Any, message: Message) -> Any:
    """Encode a message, and decode it with `kind`, a class of the client.

    Annotations with types that the client cannot read are converted first.
    """
    converted: dict[str, Any] = {}
    for key in _TIMESTAMP_ANNOTATIONS:
        value = entry_of(message.message_annotations, key)
        time = _convert_annotation(value, int) if isinstance(value, Described) else None
        if time is not None:
            converted[key] = Timestamp(time)
    offset = entry_of(message.message_annotations, "x-opt-offset")
    if _is_integer(offset):  # EventData requires text
        converted["x-opt-offset"] = str(int(offset))
    octets = (_with_annotations(message, converted) if converted else message).encode()
    try:
        return kind.from_bytes(octets)
    except Exception as error:
        cause = f"{type(error).__name__}: {error}"
        raise ValueError(f"the client of Azure cannot read this message: {cause:.200}") from error


# {class: the clients' name of its AMQP type}. The clients would write values of these classes with
# a wrong AMQP type; they accept {"TYPE": name, "VALUE": value} for the right type.
_TYPE_NAMES: dict[type, str] = {
    kind: TYPE_NAME_BY_CLASS[kind].upper()
    for kind in (*INTEGERS.values(), int, Float, Symbol, bytes)
}


def to_annotated(message: Message, service: Service = "servicebus") -> Any:
    """Convert to an ``AmqpAnnotatedMessage``, with which an Azure client sends the same message.

    Values are passed with their AMQP types, because the clients would write every int with 32 bits.
    The clients drop delivery-annotations, fill in fields of header and properties, and, if the
    message has a ttl, set creation-time and absolute-expiry-time. Prefer `Data` bodies: the clients
    preserve few types in an `AmqpValue` body.

    Args:
        message: the message.
        service: the service whose client sends the message.

    Raises:
        ValueError: the message contains a value that the clients cannot write, such as a char, an
            array, an invalid value after lenient decoding, or a body of several kinds of sections.
        ImportError: the client is not installed.
    """
    expect_message(message, "to_annotated")
    module = importlib.import_module(f"{_import_client(service).__name__}.amqp")
    check_fields(message)
    body = Message(message.body).body
    parts: list[Any] = body if isinstance(body, list) else [] if body is None else [body]
    arguments: dict[str, Any] = {}
    if len({type(part) for part in parts}) > 1 or (
        len(parts) > 1 and isinstance(parts[0], AmqpValue)
    ):
        raise ValueError(
            "the clients of Azure cannot write a body with several kinds of sections or several "
            "amqp-value sections"
        )
    if not parts or isinstance(parts[0], AmqpValue):
        arguments["value_body"] = _value_body(parts[0].value) if parts else None
    elif isinstance(parts[0], Data):
        arguments["data_body"] = [as_bytes(part.data, "Data") for part in parts]
    else:
        arguments["sequence_body"] = [
            [_to_typed_form(item) for item in part.values] for part in parts
        ]
    if message.header is not None:
        header = attrs.asdict(message.header, recurse=False)
        arguments["header"] = module.AmqpMessageHeader(time_to_live=header.pop("ttl"), **header)
    if message.properties is not None:
        properties = attrs.asdict(message.properties, recurse=False)
        arguments["properties"] = module.AmqpMessageProperties(**properties)
    for name, section in (
        ("application_properties", message.application_properties),
        ("annotations", message.message_annotations),
        ("footer", message.footer),
    ):
        if section is not None:
            arguments[name] = {
                _to_client_key(key): _to_typed_form(value) for key, value in section.items()
            }
    return module.AmqpAnnotatedMessage(**arguments)


def _to_client_key(key: Any) -> Any:
    return int(key) if isinstance(key, int) else str(key)


def _to_typed_form(value: Any) -> Any:
    """Convert a value to the form in which the clients write its type: {"TYPE": …, "VALUE": …}."""
    kind = type(value)
    if kind in _TYPE_NAMES:
        plain = {str: str, bytes: bytes, float: float}
        to_plain: Any = next(
            (convert for base, convert in plain.items() if isinstance(value, base)), int
        )
        return {"TYPE": _TYPE_NAMES[kind], "VALUE": to_plain(value)}
    if isinstance(value, list):
        return [_to_typed_form(item) for item in value]
    if isinstance(value, dict):
        return {
            "TYPE": "MAP",
            "VALUE": [(_to_typed_form(k), _to_typed_form(v)) for k, v in value.items()],
        }
    is_plain = isinstance(value, (bool, float, str, bytes, uuid.UUID)) and kind is not Char
    if value is None or is_plain:
        return value
    raise ValueError(f"the clients of Azure cannot write {value!r:.80}")


def _value_body(value: Any) -> Any:
    """Convert the value of an amqp-value body. The clients accept types for its items only."""
    if value and type(value) in {str, bytes, bool, float, uuid.UUID}:
        return value
    if value and isinstance(value, list):
        return _to_typed_form(value)
    if value and type(value) is Int:
        return int(value)
    if value and isinstance(value, dict) and all(type(key) is str for key in value):
        return {key: _to_typed_form(item) for key, item in value.items()}
    raise ValueError(f"the clients of Azure cannot write the body {value!r:.80}: use Data instead")


def from_client(given: Any) -> Message:
    """Convert a message object of Azure's clients to a `Message`.

    When the clients receive a message, they lose the types of numbers and do not distinguish
    string, symbol and binary: bytes that are valid UTF-8 become text here. `lost_in_client` lists
    the values of a message that change.

    Args:
        given: an ``AmqpAnnotatedMessage``, or an object that contains it: a ``ServiceBusMessage``,
            a ``ServiceBusReceivedMessage`` or an ``EventData``.

    Raises:
        TypeError: `given` is not a message object of Azure's clients.
        ValueError: annotations, application properties or a footer are not a mapping.
    """
    annotated = getattr(given, "raw_amqp_message", given)
    if not hasattr(annotated, "body_type") or not hasattr(annotated, "annotations"):
        raise TypeError(f"not a message of Azure's clients: {type(given).__name__}")
    header, properties = annotated.header, annotated.properties
    for name in ("delivery_annotations", "annotations", "application_properties", "footer"):
        section = getattr(annotated, name)
        if section and not isinstance(section, Mapping):
            raise ValueError(f"{name} must be a mapping, not {type(section).__name__}")
    keys = {*(annotated.annotations or ()), *(annotated.application_properties or ())}
    is_received = any(isinstance(key, bytes) for key in keys)
    message = Message(
        _from_client_body(annotated.body_type.value, annotated.body, is_received),
        delivery_annotations=_from_client_section(annotated.delivery_annotations, Symbol),
        message_annotations=_from_client_section(annotated.annotations, Symbol),
        application_properties=_from_client_section(annotated.application_properties, str),
        footer=_from_client_section(annotated.footer, Symbol),
    )
    if header is not None:
        values = {**dict(header.items()), "ttl": header.time_to_live}
        values = {
            name: values[name] for name in attrs.fields_dict(Header) if values[name] is not None
        }
        message.header = Header(**values) if values else None
    if properties is not None:
        fields = {name: value for name, value in properties.items() if value is not None}
        for name, value in fields.items():
            if isinstance(value, bytes) and name != "user_id":
                fields[name] = _decode_utf8(value)
        if isinstance(fields.get("user_id"), str):
            fields["user_id"] = fields["user_id"].encode()
        message.properties = Properties(**fields) if fields else None
    return message


def lost_in_client(message: Message, service: Service = "servicebus") -> list[str]:
    """List the values of a message that are lost or changed when Azure's client receives it.

    The client decodes the message, `from_client` converts the client's object back, and the two
    messages are compared value by value, including types. An empty list means that nothing is lost.

    Args:
        message: the message, as the service would deliver it.
        service: the service whose client receives the message.

    Raises:
        ValueError: the client cannot read the message.
        ImportError: the client is not installed.
    """
    expect_message(message, "lost_in_client")
    to_client = to_received if service == "servicebus" else to_event_data
    original, received = _values_by_path(message), _values_by_path(from_client(to_client(message)))
    return [
        f"{path}: {_format_value(original.get(path))} becomes {_format_value(received.get(path))}"
        for path in dict.fromkeys((*original, *received))
        if original.get(path) != received.get(path)
    ]


_BODY_SECTIONS = {"data", "amqp-sequence", "amqp-value"}
# Types of map keys that `lost_in_client` shows without their type.
_PLAIN_KEY_TYPES = {"symbol", "string", "ulong"}


def _add_value(values: dict[str, Any], path: str, value: Any) -> None:
    """Add a value under its path. If the path exists, append ", again" to make it unique."""
    while path in values:
        path += ", again"
    values[path] = value


def _values_by_path(message: Message) -> dict[str, Any]:
    """Return {path: value in typed JSON} for the values of a message."""
    values: dict[str, Any] = {}
    names = {"header": attrs.fields(Header), "properties": attrs.fields(Properties)}
    for section, content in to_typed(message):
        # The content of an invalid section is bytes in hex or one value, which begins with a type.
        is_invalid_content = isinstance(content, str) or (content and isinstance(content[0], str))
        if section in _BODY_SECTIONS:
            values.setdefault("body", []).append([section, content])
        elif is_invalid_content or not content:
            _add_value(values, section, content or "an empty section")
        elif section in names:
            pairs = zip(names[section], content, strict=False)
            fields_present = {
                f.name.replace("_", "-"): value for f, value in pairs if value != ["null"]
            }
            for name, value in fields_present.items():
                _add_value(values, f"{section}.{name}", value)
            if not fields_present:
                _add_value(values, section, "an empty section")
        else:
            for key, value in content:
                name = repr(key[1]) if key[0] in _PLAIN_KEY_TYPES else _format_value(key)
                _add_value(values, f"{section}[{name}]", value)
    if message.message_format:
        values["message-format"] = ["uint", message.message_format]
    return values


def _format_value(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or "nothing"
    if value[0] in ("float", "double"):
        (number,) = struct.unpack(">f" if value[0] == "float" else ">d", bytes.fromhex(value[1]))
        return f"{value[0]} {number!r}"
    if len(value) == 2 and isinstance(value[1], (str, int, bool)):
        return f"{value[0]} {value[1]!r:.40}"
    return f"{json.dumps(value, ensure_ascii=False):.60}"


def _from_client_section(entries: Mapping[Any, Any] | None, key_type: Any) -> dict[Any, Any] | None:
    """Convert a map section of a client object. Keys in bytes mean that it was received."""
    if not entries:
        return None
    section: dict[Any, Any] = {}
    for key, value in entries.items():
        is_received = isinstance(key, bytes)
        name = _decode_utf8(key) if is_received else key
        if isinstance(name, str):
            name = key_type(name)
        elif _is_integer(name):
            name = ULong(name)
        section[name] = _from_client_value(value, is_received)
    return section


def _from_client_value(value: Any, is_received: bool) -> Any:
    """Convert a value of a client object, of a received message or of one to be sent."""
    if isinstance(value, bytes):
        return _decode_utf8(value) if is_received else value
    if type(value) is int and not is_received and -(2**31) <= value < 2**31:
        return Int(value)  # the clients write int as AMQP int
    if isinstance(value, datetime.datetime):
        return Timestamp.from_datetime(value)
    if isinstance(value, dict):
        if value.keys() == {"TYPE", "VALUE"}:
            return _from_typed_form(value["TYPE"], value["VALUE"])
        return {
            _from_client_value(k, is_received): _from_client_value(v, is_received)
            for k, v in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [_from_client_value(item, is_received) for item in value]
    return value


_CLASSES_BY_TYPE = {str(name): kind for kind, name in _TYPE_NAMES.items()}


def _from_typed_form(name: Any, value: Any) -> Any:
    """Convert TYPE and VALUE of a value with a type; see `_to_typed_form`."""
    name = getattr(name, "value", name)
    if name == "MAP":
        pairs = value.items() if isinstance(value, dict) else value
        return {_from_client_value(k, False): _from_client_value(v, False) for k, v in pairs}
    kind = _CLASSES_BY_TYPE.get(str(name))
    return _from_client_value(value, False) if kind is None else kind(value)


def _decode_utf8(octets: bytes) -> Any:
    """Decode bytes to text; return bytes that are not UTF-8 unchanged."""
    try:
        return octets.decode("utf-8")
    except UnicodeDecodeError:
        return octets


def _from_client_body(kind: str, body: Any, is_received: bool) -> Any:
    if kind == "data":
        return [Data(_bytes_or_invalid(part)) for part in body]
    if kind == "sequence":
        sections: Iterable[Any] = body
        return [AmqpSequence(_from_client_value(part, is_received)) for part in sections]
    return AmqpValue(_from_client_value(body, is_received))


def _bytes_or_invalid(part: Any) -> Any:
    """Return the content of a data section as bytes; an invalid content is unchanged."""
    # Return other types unchanged, for which the message then raises an error when it is encoded.
    # The clients produce them for invalid messages.
    if isinstance(part, str):
        return part.encode()
    return bytes(part) if isinstance(part, (bytearray, memoryview)) else part


def _import_client(service: Service) -> Any:
    return of_extra(f"azure.{service}", "azure", f"Azure client objects need azure-{service}")
