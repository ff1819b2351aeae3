"""Convert AMQP messages to JMS messages and back.

Implements the AMQP JMS Mapping 1.0 (working draft 10 of OASIS), which describes the annotations of
Apache Qpid JMS: ``x-opt-jms-msg-type``, ``x-opt-jms-dest`` and ``x-opt-jms-reply-to``. Message and
correlation ids become JMS text such as ``ID:AMQP_ULONG:5``, from which the AMQP type can be read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias, get_args

import attrs

from amqp10msg.delivery.jms_ids import from_jms_id, to_jms_correlation_id, to_jms_message_id
from amqp10msg.interop.jms.typed import JMS_TYPES, TEXT_CONTENT_TYPE_PATTERN
from amqp10msg.message import Message, expect_message
from amqp10msg.sections import (
    AmqpSequence,
    AmqpValue,
    Data,
    Header,
    MessageAnnotations,
    Properties,
    to_milliseconds,
)
from amqp10msg.sections.parts import check_fields
from amqp10msg.wire.errors import ContentError, EncodeError, expect
from amqp10msg.wire.primitives import AmqpMap, Byte, Char, Symbol
from amqp10msg.wire.reprs import with_bounded_repr

#: The types of JMS messages. The index is the type's number in ``x-opt-jms-msg-type``.
MessageType: TypeAlias = Literal["message", "object", "map", "bytes", "stream", "text"]
#: The kinds of destinations. The index is the kind's number in ``x-opt-jms-dest``.
DestinationKind: TypeAlias = Literal["queue", "topic", "temporary-queue", "temporary-topic"]

_MESSAGE_TYPES = get_args(MessageType)
_DESTINATION_KINDS = get_args(DestinationKind)
#: The key of the annotation with the number of the message type.
MESSAGE_TYPE_ANNOTATION = Symbol("x-opt-jms-msg-type")
# Keys of the annotations for the kind of a destination. The value of the first key is the kind's
# number. The second key is for old clients; its value is text such as "topic,temporary".
_DESTINATION_KEYS = (Symbol("x-opt-jms-dest"), Symbol("x-opt-to-type"))
_REPLY_TO_KEYS = (Symbol("x-opt-jms-reply-to"), Symbol("x-opt-reply-type"))
#: The content-type of a serialized Java object.
JAVA_OBJECT_CONTENT_TYPE = "application/x-java-serialized-object"
# The content-type of a BytesMessage.
_BYTES_CONTENT_TYPE = "application/octet-stream"


@attrs.frozen
class Destination:
    """The destination of a JMS message, or of the replies to it.

    Attributes:
        name: the address of the node.
        kind: a queue or a topic, and whether it is temporary.
    """

    name: str
    kind: DestinationKind = "queue"


@with_bounded_repr
@attrs.define(kw_only=True, repr=False)
class JmsMessage:
    """A message with the fields of JMS.

    Attributes:
        type: the type of JMS message.
        body: a str for ``text``, bytes for ``bytes``, a dict for ``map``, a list for ``stream``,
            None for ``message``. For ``object``, an AMQP value or a serialized Java object as
            bytes, which are never deserialized. Values have AMQP types: an `Int` is Java's int.
        message_id: JMSMessageID, which begins with ``ID:``.
        correlation_id: JMSCorrelationID.
        destination: JMSDestination.
        reply_to: JMSReplyTo.
        persistent: whether JMSDeliveryMode is PERSISTENT.
        priority: JMSPriority, 0 to 9.
        expiration: JMSExpiration in milliseconds since the Unix epoch; 0 for never.
        timestamp: JMSTimestamp in milliseconds since the Unix epoch; 0 if absent.
        jms_type: JMSType.
        delivery_count: JMSXDeliveryCount, 1 or more; JMSRedelivered is true if it exceeds 1.
        user_id: JMSXUserID.
        group_id: JMSXGroupID.
        group_sequence: JMSXGroupSeq, Java's int.
        reply_to_group_id: JMS_AMQP_REPLY_TO_GROUP_ID.
        content_type: the content-type of ``text`` or ``bytes`` if it is not the default.
        properties: the application's properties, by name.
    """

    type: MessageType = "message"
    body: Any = None
    message_id: str | None = None
    correlation_id: str | None = None
    destination: Destination | None = None
    reply_to: Destination | None = None
    persistent: bool = True
    priority: int = 4
    expiration: int = 0
    timestamp: int = 0
    jms_type: str | None = None
    delivery_count: int = 1
    user_id: str | None = None
    group_id: str | None = None
    group_sequence: int | None = None
    reply_to_group_id: str | None = None
    content_type: str | None = None
    properties: dict[str, Any] = attrs.Factory(dict)


def message_type(message: Message) -> MessageType:
    """Return the JMS type of a message, by the rules of Apache Qpid JMS.

    1. The annotation ``x-opt-jms-msg-type`` decides if it is set.
    2. If only the kinds of destinations are annotated, the body decides. ActiveMQ sends such
       messages when it converts from its native protocol.
    3. For other senders, the body and its content-type decide. A message with neither is a
       BytesMessage.

    Raises:
        ContentError: the annotation is not a number from 0 to 5, or the body does not match it.
    """
    expect_message(message, "message_type")
    # If the caller assigned a plain value to `message.body`, convert it to a section.
    parts = Message(message.body).body
    body = parts[0] if isinstance(parts, list) else parts
    annotations: Mapping[Any, Any] = message.message_annotations or {}
    number = annotations.get(MESSAGE_TYPE_ANNOTATION)
    if number is not None:
        return _annotated_type(number, body)
    value = body.value if isinstance(body, AmqpValue) else None
    properties = message.properties
    content_type: Any = properties.content_type if properties is not None else None
    if any(key in annotations for key in (_DESTINATION_KEYS[0], _REPLY_TO_KEYS[0])):
        if body is None:
            return "message"
        if isinstance(value, (dict, AmqpMap)):
            return "map"
        if isinstance(body, AmqpSequence) or isinstance(value, list):
            return "stream"
        if isinstance(body, Data):
            return "object" if content_type == JAVA_OBJECT_CONTENT_TYPE else "bytes"
    if isinstance(body, AmqpValue):
        if value is None or (isinstance(value, str) and not isinstance(value, (Symbol, Char))):
            return "text"
        return "bytes" if isinstance(value, bytes) else "object"
    if isinstance(body, AmqpSequence):
        return "object"
    if content_type == JAVA_OBJECT_CONTENT_TYPE:
        return "object"
    if content_type in (None, _BYTES_CONTENT_TYPE):
        return "bytes"
    if isinstance(content_type, str) and TEXT_CONTENT_TYPE_PATTERN.fullmatch(content_type):
        return "text"
    return "message" if body is None else "bytes"


def _annotated_type(number: object, body: Any) -> MessageType:
    """Return the JMS type for the number in the annotation ``x-opt-jms-msg-type``.

    Raises:
        ContentError: the number is invalid, or the body does not match the type.
    """
    if (
        not isinstance(number, int)
        or isinstance(number, bool)
        or not 0 <= number < len(_MESSAGE_TYPES)
    ):
        raise ContentError(
            f"message-annotations['{MESSAGE_TYPE_ANNOTATION}'] must be a byte from 0 to "
            f"{len(_MESSAGE_TYPES) - 1} ({', '.join(_MESSAGE_TYPES)}), not {number!r:.80}"
        )
    marked: MessageType = _MESSAGE_TYPES[number]
    value = body.value if isinstance(body, AmqpValue) else None
    fits = {
        "message": body is None or value is None,
        "object": True,
        "map": body is None or isinstance(value, (dict, AmqpMap)),
        "bytes": body is None or isinstance(body, Data) or isinstance(value, bytes),
        "stream": body is None or isinstance(body, AmqpSequence) or isinstance(value, list),
        "text": body is None or isinstance(body, Data) or isinstance(value, (str, type(None))),
    }
    if not fits[marked]:
        actual = type(body).__name__ + (f" of {type(value).__name__}" if value is not None else "")
        raise ContentError(
            f"message-annotations['{MESSAGE_TYPE_ANNOTATION}'] is {int(number)}, a {marked} "
            f"message, but the body is {actual}"
        )
    return marked


def to_jms(message: Message, *, arrival: int | None = None) -> JmsMessage:
    """Convert an AMQP message to a JMS message.

    Args:
        message: the message, from any sender.
        arrival: the time of arrival in milliseconds since the Unix epoch. If a message has a ttl
            and no absolute-expiry-time, its expiration is `arrival` plus the ttl, or 0 if `arrival`
            is None.

    Raises:
        ContentError: the annotation ``x-opt-jms-msg-type`` is invalid or does not match the body;
            the body of a text message is not valid text or its content-encoding cannot be decoded;
            or the body is a map with keys that are not text.
        EncodeError: a field of header or properties, or a key of the application properties, has a
            wrong type, as possible after lenient decoding.
    """
    expect_message(message, "to_jms")
    check_fields(message)
    header = message.header or Header()
    properties = message.properties or Properties()
    annotations: Mapping[Any, Any] = message.message_annotations or MessageAnnotations()
    kind = message_type(message)
    expiration = to_milliseconds(properties.absolute_expiry_time) or 0
    if not expiration and header.ttl is not None and arrival is not None:
        expiration = arrival + int(header.ttl)
    sequence = properties.group_sequence
    return JmsMessage(
        type=kind,
        body=_jms_body(message, kind),
        message_id=_id_to_text(properties.message_id, to_jms_message_id, "message-id"),
        correlation_id=_id_to_text(
            properties.correlation_id, to_jms_correlation_id, "correlation-id"
        ),
        destination=_destination(properties.to, annotations, _DESTINATION_KEYS),
        reply_to=_destination(properties.reply_to, annotations, _REPLY_TO_KEYS),
        persistent=bool(header.durable),
        priority=min(int(header.priority), 9),
        expiration=int(expiration),
        timestamp=int(to_milliseconds(properties.creation_time) or 0),
        jms_type=properties.subject,
        delivery_count=int(header.delivery_count) + 1,
        user_id=None
        if properties.user_id is None
        else bytes(properties.user_id).decode("utf-8", "replace"),
        group_id=properties.group_id,
        group_sequence=None if sequence is None else (int(sequence) + 2**31) % 2**32 - 2**31,
        reply_to_group_id=properties.reply_to_group_id,
        content_type=None
        if properties.content_type in (None, JAVA_OBJECT_CONTENT_TYPE, _BYTES_CONTENT_TYPE)
        else str(properties.content_type),
        properties=dict(message.application_properties or {}),
    )


def _id_to_text(value: Any, to_text: Callable[[Any], str], name: str) -> str | None:
    """Convert an id to JMS text with `to_text`. Errors contain `name`, the id's field."""
    try:
        return None if value is None else to_text(value)
    except (TypeError, ValueError) as error:
        raise EncodeError(str(error), f"properties.{name}") from None


def from_jms(jms: JmsMessage) -> Message:
    """Convert a JMS message to an AMQP message, as Apache Qpid JMS does.

    Raises:
        EncodeError: the body does not match the type, or a map or stream contains a value of a type
            that JMS lacks.
        ValueError: the id in `message_id` or `correlation_id` is invalid for the AMQP type in its
            prefix, as in ``ID:AMQP_UUID:5``.
    """
    expect(jms, JmsMessage, "from_jms", "a JmsMessage")
    body, content_type = _body_section(jms)
    annotations: dict[Any, Any] = {}
    for destination, (key, _) in (
        (jms.reply_to, _REPLY_TO_KEYS),
        (jms.destination, _DESTINATION_KEYS),
    ):
        if destination is not None:
            annotations[key] = Byte(_DESTINATION_KINDS.index(destination.kind))
    annotations[MESSAGE_TYPE_ANNOTATION] = Byte(_MESSAGE_TYPES.index(jms.type))
    return Message(
        body,
        header=Header(
            durable=jms.persistent, priority=jms.priority, delivery_count=jms.delivery_count - 1
        ),
        message_annotations=annotations,
        properties=Properties(
            message_id=None if jms.message_id is None else from_jms_id(jms.message_id),
            user_id=None if jms.user_id is None else jms.user_id.encode("utf-8"),
            to=None if jms.destination is None else jms.destination.name,
            subject=jms.jms_type,
            reply_to=None if jms.reply_to is None else jms.reply_to.name,
            correlation_id=None if jms.correlation_id is None else from_jms_id(jms.correlation_id),
            content_type=content_type,
            absolute_expiry_time=jms.expiration or None,
            creation_time=jms.timestamp or None,
            group_id=jms.group_id,
            group_sequence=None if jms.group_sequence is None else jms.group_sequence % 2**32,
            reply_to_group_id=jms.reply_to_group_id,
        ),
        application_properties=jms.properties or None,
    )


def _destination(
    name: str | None, annotations: Mapping[Any, Any], keys: tuple[Symbol, Symbol]
) -> Destination | None:
    """Return the destination with the address `name`, and the kind in the annotations `keys`."""
    if name is None:
        return None
    number, legacy = (annotations.get(key) for key in keys)
    if (
        isinstance(number, int)
        and not isinstance(number, bool)
        and 0 <= number < len(_DESTINATION_KINDS)
    ):
        return Destination(name, _DESTINATION_KINDS[number])
    words = {word.strip() for word in legacy.split(",")} if isinstance(legacy, str) else set()
    kind = "topic" if "topic" in words and "queue" not in words else "queue"
    return Destination(
        name, _DESTINATION_KINDS[_DESTINATION_KINDS.index(kind) + 2 * ("temporary" in words)]
    )


def _jms_body(message: Message, kind: MessageType) -> Any:
    """Return the body of the JMS message, which has the type `kind`."""
    body = Message(message.body).body
    if kind == "message":
        return None
    if kind == "text":
        is_null = body is None or (isinstance(body, AmqpValue) and body.value is None)
        return None if is_null else message.text()
    if kind == "stream" and isinstance(body, (AmqpSequence, list)):
        parts: list[Any] = body if isinstance(body, list) else [body]
        return [item for part in parts for item in part.values]
    if isinstance(body, AmqpValue):
        if kind != "map":
            return body.value
        for key in body.value:
            if not isinstance(key, str):
                raise ContentError(f"the keys of a JMS map must be text, not {key!r:.80}")
        return dict(body.value)
    if kind in ("map", "stream"):
        return {} if kind == "map" else []
    if isinstance(body, AmqpSequence) or (isinstance(body, list) and type(body[0]) is not Data):
        return body
    return message.content()


def _body_section(jms: JmsMessage) -> tuple[Any, str | None]:
    """Return the body of the AMQP message, and its content-type."""
    body = jms.body
    if jms.type == "message":
        return _require(
            AmqpValue(None), body is None, "the body of a message of the type message must be None"
        ), None
    if jms.type == "text":
        _require(None, body is None or type(body) is str, "the body of a text must be a str")
        if jms.content_type is None or body is None:
            return AmqpValue(body), None
        # Part 3, 3.2.4 allows a content-type for data only. Drop the charset: the text is in UTF-8.
        return Data(body.encode("utf-8")), jms.content_type.partition(";")[0]
    if jms.type == "bytes":
        _require(None, isinstance(body, bytes), "the body of a bytes message must be bytes")
        return Data(body), jms.content_type or _BYTES_CONTENT_TYPE
    if jms.type == "object":
        if isinstance(body, bytes):
            return Data(body), JAVA_OBJECT_CONTENT_TYPE
        sections = (AmqpSequence, list) if isinstance(body, list) else (AmqpSequence,)
        is_sections = isinstance(body, sections) and (
            not isinstance(body, list) or (body and isinstance(body[0], AmqpSequence))
        )
        return body if is_sections else AmqpValue(body), None
    if jms.type == "map":
        _require(None, isinstance(body, dict), "the body of a map must be a dict")
        for key, value in body.items():
            _require(
                None, isinstance(key, str) and key != "", "the keys of a map must be non-empty str"
            )
            _check_value(value, f"body[{key!r:.80}]")
        return AmqpValue(dict(body)), None
    _require(None, isinstance(body, list), "the body of a stream must be a list")
    for index, value in enumerate(body):
        _check_value(value, f"body[{index}]")
    return AmqpSequence(list(body)), None


def _require(value: Any, is_valid: bool, reason: str) -> Any:
    """Return `value`. Raises EncodeError with `reason` unless `is_valid`."""
    if not is_valid:
        raise EncodeError(reason, "body")
    return value


def _check_value(value: Any, path: str) -> None:
    """Raise EncodeError if JMS has no type for a value of a map or stream."""
    if value is not None and type(value) not in JMS_TYPES:
        names = ", ".join(kind.__name__ for kind in JMS_TYPES)
        raise EncodeError(f"JMS has no type for {type(value).__name__}: use one of {names}", path)
    if type(value) is Char and ord(value) > 0xFFFF:
        raise EncodeError("a JMS char must fit in 16 bits", path)
