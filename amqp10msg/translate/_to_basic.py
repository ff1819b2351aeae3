"""The lossless translation from 1.0 to 0-9-1 in Python (the plain rules), for every message."""

from __future__ import annotations

from typing import Any

from amqp10msg.basic.message import BasicMessage
from amqp10msg.basic.properties import BasicProperties
from amqp10msg.basic.tables import FieldTable
from amqp10msg.message import Message
from amqp10msg.sections import BODY_CODES, KIND_BY_CODE, SPEC_BY_CODE, Data, Header, Properties
from amqp10msg.sections.parts import octets_of_sections
from amqp10msg.translate import residual
from amqp10msg.translate._delivery import ADDED_HEADER_LETTERS, becomes_text, encode_full_header
from amqp10msg.translate._headers import (
    ROW_BY_ANNOTATION,
    header_field,
    header_of,
    property_name,
)
from amqp10msg.translate._to_amqp10 import is_delivered
from amqp10msg.translate.losses import TO_BASIC_LOSSES as LOSSES
from amqp10msg.translate.rabbitmq.terms import reencode_body
from amqp10msg.translate.report import Notes, path_of_key
from amqp10msg.translate.residual import (
    DATA_HEADS_KEY,
    ENCODED_NULL,
    MESSAGE_FORMAT_KEY,
    SPARSE_APPLICATION_KEY,
    SPARSE_KEY_OFFSET,
    SPARSE_PROPERTIES_KEY,
    UNMARKED_SECTIONS_KEY,
    count_padded_fields,
    is_of_basic,
    section_octets,
)
from amqp10msg.translate.table import (
    DEFAULT_PRIORITY,
    ENCODED_SECTIONS_TYPE_PROPERTY,
    KNOWN_SYMBOL_FORM,
    PROPERTY_FIELDS,
    ROWS,
    Row,
    shortstr,
)
from amqp10msg.wire import kernel
from amqp10msg.wire.kernel.codes import (
    APPLICATION_PROPERTIES_CODE,
    DATA_CODE,
    DELIVERY_ANNOTATIONS_CODE,
    FOOTER_CODE,
    HEADER_CODE,
    MESSAGE_ANNOTATIONS_CODE,
    PROPERTIES_CODE,
)
from amqp10msg.wire.limits import UNLIMITED
from amqp10msg.wire.primitives import HEAD_SIZES

_EXCHANGE_ANNOTATION = "x-exchange"
_ROUTING_KEY_ANNOTATION = "x-routing-key"
_ROWS_BY_FIELD = {row.field: row for row in ROWS if row.section == "properties"}
_DELIVERY_MODE_ROW = next(row for row in ROWS if row.name == "delivery_mode")
_PRIORITY_ROW = next(row for row in ROWS if row.field == "priority")


class BasicDraft:
    """The parts of the 0-9-1 message that a 1.0 message is translated to.

    Attributes:
        message: the 1.0 message.
        wire: the encoded 1.0 message.
        property_values: the 0-9-1 properties by name, except the headers.
        payload: the body of the 0-9-1 message.
        exchange: the exchange, from an annotation that RabbitMQ 4 adds; "" without it.
        routing_key: the routing key, from an annotation that RabbitMQ 4 adds; "" without it.
        redelivered: the redelivered flag.
        route_position: the position of the two annotations with exchange and routing key, as
            `_read_route` returns it; "" if the residual carries the annotations.
        entries: the entries of the table of headers.
        application_count: the number of headers from application properties. They precede the
            headers from annotations.
        carried: the content of the residual that the 0-9-1 message gets.
        saved: the content of the residual that the 1.0 message has from an earlier translation, or
            None.
        restored: the paths of values that were restored from `saved`.
        is_certain: whether the reverse translation surely restores the message, because every field
            and entry is either exact or carried. Otherwise it must be tried.
        basic: the 0-9-1 message, after `build`.
    """

    def __init__(self, message: Message, wire: bytes) -> None:
        self.message = message
        self.wire = wire
        self.property_values: dict[str, Any] = {}
        self.payload = b""
        self.exchange = ""
        self.routing_key = ""
        self.redelivered = False
        self.route_position = ""
        self.entries: list[Any] = []
        self.application_count = 0
        self.carried: dict[int, Any] = {}
        self.saved: dict[int, Any] | None = None
        self.restored: set[str] = set()
        self.is_certain = len(wire) <= residual.MAX_UNTRIED_MESSAGE_SIZE
        self.basic: BasicMessage = None  # type: ignore[assignment]  # set before it is read

    @property
    def is_data(self) -> bool:
        """Whether the body is data."""
        body = self.message.body
        return isinstance(body[0] if isinstance(body, list) else body, Data)

    def build(self) -> None:
        """Set `basic` to the 0-9-1 message that consists of the parts."""
        headers = FieldTable.of(self.entries) if self.entries else None
        properties = BasicProperties(headers=headers, **self.property_values)
        self.basic = BasicMessage(
            properties, self.payload, self.exchange, self.routing_key, self.redelivered
        )


def basic_draft_of(message: Message, wire: bytes, notes: Notes) -> BasicDraft:
    """Translate a 1.0 message to the parts of a 0-9-1 message, including its residual.

    Args:
        message: the 1.0 message, decoded from `wire`.
        wire: the encoded message.
        notes: receives the losses.
    """
    draft = BasicDraft(message, wire)
    _translate_body(draft, notes)
    route_position = _read_route(draft)
    draft.is_certain = draft.is_certain and not route_position
    if message.header is not None:
        _translate_header(draft, message.header, route_position, notes)
    elif route_position:
        draft.carried[HEADER_CODE] = b""
    if message.properties is not None:
        set_properties(draft, message.properties, notes)
    if message.application_properties is not None:
        _translate_application_properties(draft, message.application_properties, notes)
    draft.application_count = len(draft.entries)
    if message.message_annotations is not None:
        _translate_annotations(draft, dict(message.message_annotations), route_position, notes)
    if message.delivery_annotations is not None:
        carry(draft, DELIVERY_ANNOTATIONS_CODE, message.delivery_annotations)
        rule = LOSSES["carried-delivery-annotations"]
        notes.add_defined(rule, "delivery-annotations", dict(message.delivery_annotations))
    if message.footer is not None:
        carry(draft, FOOTER_CODE, message.footer)
        notes.add_defined(LOSSES["carried-footer"], "footer", dict(message.footer))
    if message.message_format:
        draft.carried[MESSAGE_FORMAT_KEY] = message.message_format
    draft.build()
    return draft


def _translate_body(draft: BasicDraft, notes: Notes) -> None:
    """Set the payload, and the residual's entry for the body sections."""
    body = draft.message.body
    if body is None:
        draft.is_certain = False
        draft.carried[DATA_HEADS_KEY] = []
        notes.add_defined(LOSSES["no-payload"], "body", None, b"")
    elif isinstance(body, Data):
        draft.payload = bytes(body.data)
    elif isinstance(body, list) and isinstance(body[0], Data):
        draft.is_certain = False
        draft.payload = b"".join([bytes(part.data) for part in body])
        draft.carried[
            DATA_HEADS_KEY
        ] = []  # `carry_encodings` adds the bytes before each section's content
        notes.add_defined(LOSSES["joined"], "body", len(body), 1)
    else:
        draft.is_certain = draft.is_certain and not isinstance(body, list)
        _use_sections_as_payload(draft, notes)


def _use_sections_as_payload(draft: BasicDraft, notes: Notes) -> None:
    """Set the payload to the encoded sections of a body that is not data."""
    draft.payload = octets_of_sections(draft.wire, BODY_CODES)
    reencoded = reencode_body(draft.payload)
    if reencoded is None:
        draft.is_certain = False
        draft.carried[UNMARKED_SECTIONS_KEY] = 1
        reason = "RabbitMQ could not deliver it as sections: the payload is the encoded sections"
        notes.add("body", "retyped", "sections", "bytes", reason, recoverable=True)
    else:
        draft.property_values["type"] = ENCODED_SECTIONS_TYPE_PROPERTY
        if reencoded != draft.payload:
            notes.add_defined(LOSSES["encoded-anew"], "body", "sections", "sections")


def _read_route(draft: BasicDraft) -> str:
    """Set exchange and routing key from the two annotations that RabbitMQ 4 adds at delivery.

    Returns:
        The position of the two annotations: ``last`` (exchange first, as in 4.0), ``first``
        (routing key first, as in 4.3), ``elsewhere``, or "" if RabbitMQ did not add them.
    """
    annotations = draft.message.message_annotations
    if annotations is None or _EXCHANGE_ANNOTATION not in annotations:
        return ""
    keys = list(annotations)
    exchange, key = annotations.get(_EXCHANGE_ANNOTATION), annotations.get(_ROUTING_KEY_ANNOTATION)
    if not (type(exchange) is str and type(key) is str and shortstr(exchange) and shortstr(key)):
        return ""
    if not exchange and not key:
        return ""
    draft.exchange, draft.routing_key = exchange, key
    if keys[:2] == [_ROUTING_KEY_ANNOTATION, _EXCHANGE_ANNOTATION]:
        return "first"
    return "last" if keys[-2:] == [_EXCHANGE_ANNOTATION, _ROUTING_KEY_ANNOTATION] else "elsewhere"


def _is_transient(draft: BasicDraft) -> bool:
    """Whether an annotation says that the delivery mode is 1.

    In a delivered message, this annotation has precedence over the header, because RabbitMQ 4.0 and
    4.1 set durable to true if the header does not have the field.
    """
    annotations: Any = draft.message.message_annotations or {}
    return bool(annotations.get(_DELIVERY_MODE_ROW.annotation) == 1)


def _translate_header(draft: BasicDraft, header: Header, route_position: str, notes: Notes) -> None:
    exact = True
    priority, count = header.priority, header.delivery_count
    if header.durable and not (route_position and _is_transient(draft)):
        draft.property_values["delivery_mode"] = 2
    if priority != DEFAULT_PRIORITY:
        value, exact = _PRIORITY_ROW.backward(int(priority))
        draft.property_values["priority"] = value
        if not exact:
            notes.add_defined(LOSSES["low-priority"], "header.priority", priority, value)
    if header.ttl is not None:
        draft.property_values["expiration"] = str(int(header.ttl))
    if route_position:
        draft.redelivered = not header.first_acquirer
        if count or not draft.wire.startswith(encode_full_header(header)):
            exact = False
    else:
        draft.redelivered = bool(count)
        if count == 1 and not header.first_acquirer:
            # These are the values for a redelivered 0-9-1 message, so they need no residual.
            notes.add_defined(LOSSES["redelivered"], "header.delivery-count", count, True)
        elif header.first_acquirer or count:
            exact = False
            notes.add_defined(LOSSES["delivered-before"], "header", header, draft.redelivered)
        exact = exact and bool(
            header.durable or priority != DEFAULT_PRIORITY or header.ttl is not None or count
        )
    if not exact:
        draft.carried[HEADER_CODE] = kernel.encode_value(header)


def set_properties(draft: BasicDraft, properties: Properties, notes: Notes) -> None:
    """Translate the fields of the properties section to 0-9-1 properties."""
    sparse: dict[int, bytes] = {}
    empty = True
    for index, name in enumerate(PROPERTY_FIELDS):
        value = getattr(properties, name)
        if value is None:
            continue
        empty = False
        row = _ROWS_BY_FIELD.get(name)
        mapped, exact = (None, False) if row is None else row.backward(value)
        if exact and row is not None and row.form == KNOWN_SYMBOL_FORM:
            # The reverse translation sets content-type and -encoding only if the body is data.
            exact = draft.is_data and row.forward(mapped, True).target == "field"
        path = f"properties.{name.replace('_', '-')}"
        if row is not None and mapped is not None:
            draft.property_values[row.name] = mapped
            if name == "reply_to":
                _report_stream_loss(row, mapped, path, notes)
        if not exact:
            sparse[index] = _field_octets(index, value)
            rule = LOSSES["carried-field" if row is None else "inexact"]
            if row is not None and mapped is None:
                rule = rule._replace(action="carried")
            notes.add_defined(rule, path, value, mapped)
    if empty:
        draft.carried[PROPERTIES_CODE] = kernel.encode_value(properties)
    elif sparse:
        draft.carried[SPARSE_PROPERTIES_KEY] = sparse


def _field_octets(index: int, value: Any) -> bytes:
    """Encode a field's value as its declared type: decoding then does not need the declaration."""
    writer = kernel.Writer(False)
    writer.typed(SPEC_BY_CODE[PROPERTIES_CODE].kinds[index], value)
    octets: bytes = writer.finish()
    return octets


def _report_stream_loss(row: Row, value: Any, path: str, notes: Notes) -> None:
    """Report that a stream of RabbitMQ loses a property, although its translation is exact."""
    rule = row.stream_loss(value)
    if rule is not None:
        notes.add_defined(rule, path, value, value)


def _translate_application_properties(draft: BasicDraft, application: Any, notes: Notes) -> None:
    sparse: dict[str, bytes] = {}
    whole = not application
    annotation_headers: set[str] | None = (
        None  # computed when the first property needs it, which is rare
    )
    for key, value in application.items():
        header = property_name(key)
        is_taken = False
        if header is not None and not header[1]:
            if annotation_headers is None:
                annotation_headers = names_of_annotations(draft)
            is_taken = header[0] in annotation_headers
        name, letter, item, exact = property_header(None if is_taken else header, key, value, notes)
        whole = whole or header is None or not letter or not header[1]
        if letter:
            draft.entries.append((name, letter, item))
        if letter and not exact:
            sparse[key] = kernel.encode_value(value)
    if whole:
        draft.is_certain = False
        carry(draft, APPLICATION_PROPERTIES_CODE, application)
    elif sparse:
        draft.carried[SPARSE_APPLICATION_KEY] = sparse


def property_header(
    header: tuple[str, bool] | None, key: Any, value: Any, notes: Notes
) -> tuple[str, str, Any, bool]:
    """Translate an application property to a header, and report its loss.

    Args:
        header: the result of `property_name`; None if the property cannot be a header.
        key: the key of the property.
        value: the value of the property.
        notes: receives the losses.

    Returns:
        The same values as `annotation_header` returns.
    """
    path = f"application-properties[{key!r}]"
    letter, item, exact = header_field(header[0], value) if header else ("", None, False)
    if header is None or not letter:
        notes.add_carried(path, value, "no header can express it")
        return "", "", None, False
    if not exact or letter in "AF":
        notes.add_defined(LOSSES["type"], path, value, item)
        return header[0], letter, item, False
    _report_header_stream_loss(path, letter, value, item, notes)
    return header[0], letter, item, True


def _report_header_stream_loss(path: str, letter: str, value: Any, item: Any, notes: Notes) -> None:
    """Report that a stream of RabbitMQ changes a header, although its translation is exact."""
    if letter in "xAF" and becomes_text(letter, item):
        notes.add_defined(LOSSES["in-stream"], path, value, item)
    elif letter in "AF" and path.startswith("message-annotations"):
        reason = "unchanged, but a stream of RabbitMQ 3.10 drops arrays and tables"
        notes.add(path, "dropped", value, item, reason, recoverable=True)


def names_of_annotations(draft: BasicDraft) -> set[str]:
    """Return the names of the headers that the annotations are translated to."""
    names = map(header_of, draft.message.message_annotations or ())
    return {name[0] for name in names if name is not None}


def _translate_annotations(
    draft: BasicDraft, annotations: dict[Any, Any], route_position: str, notes: Notes
) -> None:
    exact = True
    produced = False
    last = 0
    names: set[str] = set()
    saved = residual.RESIDUAL_NAME in annotations
    if saved:
        draft.is_certain = False
    for key, value in annotations.items():
        if key == residual.RESIDUAL_NAME:
            draft.saved = _read_saved(value, notes)
            produced = produced or draft.saved is not None
            exact = exact and draft.saved is not None
            continue
        if route_position and key in (_EXCHANGE_ANNOTATION, _ROUTING_KEY_ANNOTATION):
            produced = True
            continue
        row = ROW_BY_ANNOTATION.get(key) if isinstance(key, str) else None
        annotated = None if row is None else _property_in_annotation(draft, row, value)
        if row is not None:
            draft.is_certain = False
        if row is not None and annotated is not None:
            draft.property_values[row.name] = annotated
            produced = True
            if not saved:
                _report_stream_loss(row, annotated, path_of_key("message-annotations", key), notes)
            exact = exact and row.number > last and not names
            last = row.number
            continue
        name, letter, item, same = annotation_header(key, value, notes, saved, names)
        exact = exact and same
        if letter:
            produced = True
            names.add(name)
            draft.entries.append((name, letter, item))
    if saved:
        sender_keys = [
            key
            for key in annotations
            if not (route_position and key in (_EXCHANGE_ANNOTATION, _ROUTING_KEY_ANNOTATION))
        ]
        exact = exact and sender_keys[-1] == residual.RESIDUAL_NAME
    if not exact or not produced:
        carry(draft, MESSAGE_ANNOTATIONS_CODE, draft.message.message_annotations)
    else:
        draft.route_position = route_position


def annotation_header(
    key: Any, value: Any, notes: Notes, saved: bool = False, names: Any = ()
) -> tuple[str, str, Any, bool]:
    """Translate an annotation to a header, and report its loss.

    Args:
        key: the key of the annotation.
        value: its value.
        notes: receives the losses.
        saved: whether the message has a residual, which restores headers that a stream changes.
        names: the names of the headers from preceding annotations.

    Returns:
        The name, type letter and value of the header, and whether the reverse translation restores
        the annotation. The letter is "" if the annotation cannot be a header.
    """
    path = path_of_key("message-annotations", key)
    header = header_of(key)
    letter, item, same = header_field(header[0], value) if header else ("", None, False)
    if header is None or not letter or header[0] in names:
        notes.add_carried(path, value, "no header can express it")
        return "", "", None, False
    is_exact = header[1] and same
    if header[0] in ADDED_HEADER_LETTERS:
        reason = "unchanged, but a broker that dead-letters the message replaces it with its own"
        notes.add(path, "dropped", value, item, reason, recoverable=True)
    elif not is_exact:
        notes.add_defined(LOSSES["type-or-name"], path, value, item)
    elif not saved:
        _report_header_stream_loss(path, letter, value, item, notes)
    return header[0], letter, item, is_exact


def _read_saved(value: Any, notes: Notes) -> dict[int, Any] | None:
    """Decode an annotation's value as the residual of a 0-9-1 message; None if it is invalid."""
    content = residual.unpack(value) if isinstance(value, bytes) else None
    if content is not None and not is_of_basic(content):
        content = None
    if content is None:
        notes.add_carried(
            f"message-annotations[{residual.RESIDUAL_NAME!r}]",
            value,
            "it is not a residual, or damaged, and is ignored",
        )
    return content


def _property_in_annotation(draft: BasicDraft, row: Row, value: Any) -> Any:
    """Return the 0-9-1 value from an annotation for a property; None if a field has precedence."""
    if draft.property_values.get(row.name) is not None:
        return None
    header = draft.message.header
    if (
        row.section == "header"
        and header is not None
        and getattr(header, row.field) != row.default
        and not (row is _DELIVERY_MODE_ROW and (draft.exchange or draft.routing_key))
    ):
        return None
    return row.value_of_annotation(value, draft.is_data)


# Putting sections into the residual, such as sections with unusual encodings.


def carry(draft: BasicDraft, code: int, section: Any) -> None:
    """Put a section into the residual."""
    draft.carried[code] = section_octets(code, section)


def carry_encodings(draft: BasicDraft) -> bool:
    """Put sections, and heads of data sections, with unusual encodings into the residual.

    Returns:
        Whether this library would encode a section differently.
    """
    differs = False
    for code, start, content, end in kernel.Reader(draft.wire, 0, UNLIMITED).scan():
        octets = draft.wire[start:end]
        kind = KIND_BY_CODE[code]
        if kind.attribute == "body":
            differs = _carry_head(draft, code, start, content, end) or differs
            continue
        if (
            code == HEADER_CODE
            and HEADER_CODE not in draft.carried
            and octets == _full_header(draft)
        ):
            continue
        section = getattr(draft.message, kind.attribute)
        canonical = b"" if section is None else section_octets(code, section)
        differs = differs or canonical != octets
        if code in draft.carried:
            draft.carried[code] = octets
            continue
        if canonical == octets:
            continue
        if (
            code == PROPERTIES_CODE
            and canonical
            and (fields := count_padded_fields(octets, canonical))
        ):
            draft.carried.setdefault(SPARSE_KEY_OFFSET + code, {})[fields - 1] = ENCODED_NULL
            continue
        draft.carried[code] = octets
        draft.carried.pop(SPARSE_KEY_OFFSET + code, None)
    return differs


def _full_header(draft: BasicDraft) -> bytes | None:
    """Return the header as RabbitMQ 4 encodes it; None if RabbitMQ 4 did not deliver it."""
    header = draft.message.header
    return encode_full_header(header) if is_delivered(draft.basic) and header is not None else None


def _carry_head(draft: BasicDraft, code: int, start: int, content: int, end: int) -> bool:
    """Put the head of a data section into the residual if it is unusual; return whether it is."""
    if code != DATA_CODE:
        return False
    width = HEAD_SIZES[draft.wire[content]]
    head = draft.wire[start : content + width]
    usual = b"\x00\x53\x75" + (b"\xa0" if end - content - width < 256 else b"\xb0")
    if isinstance(draft.message.body, list) or not head.startswith(usual):
        draft.carried.setdefault(DATA_HEADS_KEY, []).append(head)
        return True
    return False
