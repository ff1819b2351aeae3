"""How RabbitMQ 4 converts a message that was published over 1.0 for a 0-9-1 consumer."""

from __future__ import annotations

import re
import urllib.parse
import uuid
from operator import itemgetter
from typing import Any

import attrs

from amqp10msg.basic import BasicMessage, BasicProperties, FieldArray, FieldTable
from amqp10msg.translate.circumstances import Circumstances
from amqp10msg.translate.losses import TO_BASIC_LOSSES as LOSSES
from amqp10msg.translate.rabbitmq import history
from amqp10msg.translate.rabbitmq.fields import (
    HEADER_NAMES,
    PROPERTY_NAMES,
    delivered_property,
    signed,
    text,
    utf8_without_nul,
    whole_seconds,
)
from amqp10msg.translate.rabbitmq.history import (
    DEATH_ANNOTATIONS,
    added_terms,
    check_typed,
    redelivery,
    typed_fields,
)
from amqp10msg.translate.rabbitmq.sections import (
    BODY_SECTION_HEADS,
    Received,
    annotation,
    check_filter,
    check_user,
    decode_received,
    decode_section,
    expiration,
    reportable,
)
from amqp10msg.translate.rabbitmq.terms import (
    BODY_CODES,
    UNDEFINED_TERM,
    CrashedError,
    RefusedError,
    Term,
    check_level,
    check_sections,
    generate,
    kind_of,
    section,
    untyped,
)
from amqp10msg.translate.rabbitmq.version import BrokerVersion
from amqp10msg.translate.report import Notes
from amqp10msg.translate.table import ENCODED_SECTIONS_TYPE_PROPERTY, INTEGER_TYPE_BY_LETTER
from amqp10msg.wire.primitives import Float

#: The fields of the properties section without a counterpart in class basic.
LOST_PROPERTY_FIELDS = (
    "to",
    "subject",
    "absolute-expiry-time",
    "group-sequence",
    "reply-to-group-id",
)
_DATA_SECTION_HEADS = BODY_SECTION_HEADS[:4]
_UNDELIVERED_ANNOTATIONS = (b"x-routing-key", b"x-exchange", b"x-death")
_header_name = itemgetter(0)
_INVALID_PERCENT_ESCAPE = re.compile(rb"%(?![0-9a-fA-F]{2})")


def to_basic(
    broker: BrokerVersion, data: bytes, notes: Notes, circumstances: Circumstances
) -> BasicMessage:
    """Return the 0-9-1 message that a consumer receives."""
    if broker.checks_sections:
        check_sections(data)
    message = decode_received(broker, data)
    annotations = message.annotations
    check_routes(broker, annotations)
    _check_user(message.properties, circumstances.user)
    metadata = _Metadata(
        _is_durable(broker, message.header, annotations),
        _priority(message.header, annotations),
        expiration(message.header, annotations),
    )
    added = added_terms(broker, circumstances)
    if broker.stream:
        check_typed(added)
        sender_annotations = [pair for pair in annotations if pair[0][1] not in added]
        annotations = message.annotations = [
            *((("symbol", name), _reread_from_stream(term)) for name, term in added.items()),
            *sender_annotations,
        ]
        check_filter(annotations, "message-annotations")
        # A stored message always has a header, with the durability that the broker assumed.
        mode = annotation(annotations, b"x-basic-delivery-mode")
        is_durable = broker.durable_by_default or mode == ("ubyte", 2)
        message.header = message.header or {**dict.fromkeys(HEADER_NAMES), "durable": is_durable}
        if circumstances.deaths and not message.is_header_last:
            # The queue that dead-lettered the message wrote its metadata to the header.
            _check_priority_of_dead_letter(metadata.priority)
            message.header = dict.fromkeys(HEADER_NAMES)
            message.header |= {"durable": metadata.durable, "priority": metadata.priority}
            annotations = message.annotations = _without_deaths(annotations, notes)
            # Without the header's ttl, the broker reads the annotation x-basic-expiration instead.
            metadata.expiration = expiration(message.header, annotations)
        message.is_header_last = True
        for part in (
            ("list", [*message.header.values()][:3]),
            ("map", _stored_annotations(annotations)),
        ):
            generate(part)  # raises if the broker cannot write it: the session crashes
        metadata.durable = _is_durable(broker, message.header, annotations)
    annotations_before_body = message.annotations
    creation_time = message.properties["creation-time"] if message.properties else None
    marker, payload, footer = _read_payload(broker, data, message, notes)
    # Annotations that follow the start of the bare message replace the annotations that the stream
    # stores, including the deaths.
    is_hidden = broker.stream and (
        message.are_annotations_last or message.annotations is not annotations_before_body
    )
    annotations = message.annotations
    fields: dict[str, Term] = message.properties or dict.fromkeys(PROPERTY_NAMES)
    properties = BasicProperties()
    # A queue removes the time to live of a dead letter, so that it does not expire again.
    _set_transport(properties, message, metadata, expires=broker.stream or not circumstances.deaths)
    headers = [] if broker.stream else typed_fields(added)
    if broker.stream and circumstances.stream_offset is not None:
        headers.append((b"x-stream-offset", "l", circumstances.stream_offset))
    earlier = redelivery(broker, circumstances)
    headers += [(name, "l", count) for name, count in earlier.counts]
    if not is_hidden:
        headers += history.added_headers(circumstances)
    headers += annotation_headers(broker, annotations, notes)
    message_id = _id_property(fields["message-id"], b"x-message-id", notes)
    correlation = _id_property(fields["correlation-id"], b"x-correlation-id", notes)
    headers += correlation[1] + message_id[1]
    headers += property_headers(broker, message.application, notes)
    properties.headers = _sorted_headers(headers, notes)
    properties.message_id = delivered_property("message_id", message_id[0])
    properties.correlation_id = delivered_property("correlation_id", correlation[0])
    # The broker does not check the types of properties that follow the body.
    user_id = plain(fields["user-id"])
    if user_id is not None and not (
        isinstance(user_id, bytes) and len(user_id) < 256 and utf8_without_nul(user_id)
    ):
        reason = "the value is not a short string"
        notes.add_dropped("properties.user-id", reportable(fields["user-id"]), reason)
        user_id = None
    properties.user_id = delivered_property("user_id", user_id)
    properties.reply_to = delivered_property(
        "reply_to", _queue_of_reply_to(broker, fields["reply-to"], notes)
    )
    group_id = short_string(fields["group-id"], "group-id", notes)
    properties.app_id = app_id = delivered_property("app_id", group_id)
    if app_id is not None:
        notes.add_defined(LOSSES["group-id"], "properties.group-id", app_id, app_id)
    kind = plain(annotation(annotations, b"x-basic-type")) if marker is None else marker
    properties.type = delivered_property("type", kind)
    properties.content_type = delivered_property("content_type", plain(fields["content-type"]))
    properties.content_encoding = delivered_property(
        "content_encoding", plain(fields["content-encoding"])
    )
    # The broker uses the creation-time that preceded the body. If properties follow the body, the
    # broker also unwraps their creation-time, and crashes on a value that it cannot unwrap.
    plain(fields["creation-time"])
    properties.timestamp = seconds_of(creation_time, notes)
    for name in LOST_PROPERTY_FIELDS:
        if fields[name] is not None:
            notes.add_defined(LOSSES["field"], f"properties.{name}", reportable(fields[name]))
    report_delivery_count(message.header, notes)
    if footer:
        notes.add_defined(LOSSES["footer"], "footer", footer)
    if message.delivery_annotation_count:
        rule = LOSSES["delivery-annotations"]
        notes.add_defined(rule, "delivery-annotations", message.delivery_annotation_count)
    return BasicMessage(properties, payload, "", "", earlier.is_redelivered)


def report_delivery_count(header: dict[str, Term] | None, notes: Notes) -> None:
    """Report a delivery-count above 0 as lost: 0-9-1 has no delivery-count."""
    count = untyped(header["delivery-count"]) if header else None
    if count:
        notes.add_defined(LOSSES["fact"], "header.delivery-count", count)


def _without_deaths(annotations: list[Any], notes: Notes) -> list[Any]:
    """Remove the sender's annotations about deaths, and report their loss."""
    for key, value in annotations:
        if key[1] in DEATH_ANNOTATIONS:
            path = f"message-annotations[{text(key[1])!r}]"
            notes.add_defined(LOSSES["broker's-own"], path, reportable(value))
    return [pair for pair in annotations if pair[0][1] not in DEATH_ANNOTATIONS]


def _reread_from_stream(term: Term) -> Term:
    """Return the term that the broker reads back after writing a term to a stream."""
    if is_kind(term, "long"):
        return "long", signed(term[1] % 2**64)
    return term[1] if is_kind(term, "boolean") else term


def check_routes(broker: BrokerVersion, annotations: list[Any]) -> None:
    """Raise RefusedError if x-cc is not a list of strings, and the broker checks that."""
    routes = annotation(annotations, b"x-cc") if broker.checks_sections else None
    if routes is not None and not (
        is_kind(routes, "list") and all(is_kind(route, "utf8") for route in routes[1])
    ):
        raise RefusedError("refused: bad value for 'x-cc'", "message-annotations['x-cc']")


@attrs.define
class _Metadata:
    """The metadata that the broker extracts from an incoming message and keeps separately.

    Attributes:
        durable: whether the broker treats the message as durable.
        priority: the priority as a term, or None.
        expiration: the time to live in ms, or None.
    """

    durable: bool
    priority: Term
    expiration: int | None


def _stored_annotations(annotations: list[Any]) -> list[Any]:
    """Return the annotations that a stream stores unchanged: not exchange and routing key."""
    return [pair for pair in annotations if pair[0][1] not in (b"x-exchange", b"x-routing-key")]


def _read_payload(
    broker: BrokerVersion, data: bytes, message: Received, notes: Notes
) -> tuple[bytes | None, bytes, Any]:
    """Read the payload of a message. Return the property type, the payload and the footer.

    The type is `ENCODED_SECTIONS_TYPE_PROPERTY` if the payload consists of encoded sections,
    otherwise None. The footer is lost. Other sections that follow the body are set in `message`.
    """
    start = message.body_offset
    if not data.startswith(_DATA_SECTION_HEADS, start):
        notes.add_defined(LOSSES["sections"], "body", "sections", "bytes")
        return ENCODED_SECTIONS_TYPE_PROPERTY.encode(), data[start:], None
    body: list[tuple[str, Term]] = []
    footer = None
    for term in broker.codec.parse_all(data[start:]):
        kind, value = decode_section(term)
        if kind in BODY_CODES:
            body.append((kind, value))
        elif kind == "footer":
            footer = value
        else:
            message.set_section(kind, value)
    if body[-1][0] != "data":
        # The kind of the last body section determines how the whole body is delivered.
        encoded = b"".join([section(BODY_CODES[kind], value) for kind, value in body])
        return ENCODED_SECTIONS_TYPE_PROPERTY.encode(), encoded, footer
    content = []
    for kind, value in body:
        if kind != "data":
            raise CrashedError(
                "the consumer's connection dies (541): the body mixes kinds of sections", "body"
            )
        if value is None:
            raise CrashedError("the session dies: data is not a binary", "data")
        content.append(bytes(value[1]))
    if len(content) > 1:
        notes.add_defined(LOSSES["joined-for-good"], "body", len(content), 1)
    return None, b"".join(content), footer


def _set_transport(
    properties: BasicProperties, message: Received, metadata: _Metadata, *, expires: bool
) -> None:
    """Set delivery-mode, priority and expiration.

    A queue does not store a header in its usual place, before the bare message; it keeps only the
    metadata. The sources are therefore, in this order: a header that a sender has misplaced after
    the bare message, the annotations ``x-basic-*``, and the metadata; for the expiration, the
    metadata comes first.
    """
    annotations = message.annotations
    header = (message.header if message.is_header_last else None) or dict.fromkeys(HEADER_NAMES)
    durable, priority, ttl = header["durable"], header["priority"], header["ttl"]
    mode: Any = 2 if durable else 1
    if not isinstance(durable, bool):
        mode = plain(annotation(annotations, b"x-basic-delivery-mode"))
    if mode is None and metadata.durable:
        mode = 2
    properties.delivery_mode = delivered_property("delivery_mode", mode)
    rank = untyped(priority)
    if rank is None:
        rank = plain(annotation(annotations, b"x-basic-priority"))
    properties.priority = delivered_property(
        "priority", untyped(metadata.priority) if rank is None else rank
    )
    lifetime = untyped(ttl)
    if lifetime is not None and not isinstance(lifetime, int):
        raise CrashedError(
            "the consumer's connection dies (541): the ttl is not a number", "header.ttl"
        )
    # The metadata has precedence, but the broker unwraps the annotation first, which may crash.
    fallback = None
    if lifetime is None:
        fallback = plain(annotation(annotations, b"x-basic-expiration"))
    if not expires:
        return
    if metadata.expiration is not None:
        properties.expiration = str(metadata.expiration)
    elif lifetime is not None:
        properties.expiration = str(lifetime)
    else:
        properties.expiration = delivered_property("expiration", fallback)


def _check_priority_of_dead_letter(priority: Term) -> None:
    """Raise RefusedError for a priority that does not fit into the header of a dead letter."""
    number = untyped(priority)
    if type(number) is int and not 0 <= number <= 255:
        raise RefusedError(
            f"refused: the stream rejects a dead letter of priority {number}",
            "message-annotations['x-basic-priority']",
        )


def _is_durable(
    broker: BrokerVersion, header: dict[str, Term] | None, annotations: list[Any]
) -> bool:
    """Whether the broker treats the message as durable."""
    durable = header["durable"] if header else None
    if isinstance(durable, bool):
        return durable
    mode = annotation(annotations, b"x-basic-delivery-mode")
    return bool(mode != ("ubyte", 1) if broker.durable_by_default else mode == ("ubyte", 2))


def _priority(header: dict[str, Term] | None, annotations: list[Any]) -> Term:
    """Return the priority that the broker extracts from a message, as a term, or None."""
    if header and is_kind(header["priority"], "ubyte"):
        return header["priority"]
    return annotation(annotations, b"x-basic-priority")


def annotation_headers(
    broker: BrokerVersion, annotations: list[Any], notes: Notes
) -> list[tuple[bytes, str, Any]]:
    """Convert message annotations, as pairs of terms, to headers (name, type letter, value)."""
    headers: list[tuple[bytes, str, Any]] = []
    for key, value in annotations:
        name: bytes = key[1]
        path = f"message-annotations[{name.decode('utf-8', 'replace')!r}]"
        if name == b"x-cc":
            headers.append((b"CC", *field_of(broker, value, path, notes)))
        elif name == b"x-opt-rabbitmq-received-time" and is_kind(value, "timestamp"):
            headers.append((b"timestamp_in_ms", "l", value[1]))
        elif name == b"x-opt-deaths":
            deaths = history.to_header(value)
            if deaths is not None:
                headers.append((b"x-death", "A", deaths))
            else:
                notes.add_dropped(path, reportable(value), "the value is not a list of deaths")
        elif broker.drops_undecoded and is_kind(value, "as_is"):
            notes.add_dropped(path, reportable(value), "the broker cannot read the value")
        elif name.startswith(b"x-basic-") or name in _UNDELIVERED_ANNOTATIONS:
            if name != b"x-basic-type":
                notes.add_defined(LOSSES["broker's-own"], path, reportable(value))
        elif len(name) < 256:
            headers.append((name, *field_of(broker, value, path, notes)))
        else:
            notes.add_dropped(path, reportable(value), "the name is too long")
    return headers


def property_headers(
    broker: BrokerVersion, pairs: list[Any], notes: Notes
) -> list[tuple[bytes, str, Any]]:
    """Convert application properties, as pairs of terms, to headers (name, type letter, value)."""
    headers: list[tuple[bytes, str, Any]] = []
    for key, value in pairs:
        path = f"application-properties[{reportable(key)}]"
        if broker.drops_undecoded and is_kind(value, "as_is"):
            notes.add_dropped(path, reportable(value), "the broker cannot read the value")
        elif not is_kind(key, "utf8") or len(key[1]) > 255:
            notes.add_dropped(path, reportable(value), "the key cannot be the name of a header")
        else:
            headers.append((key[1], *field_of(broker, value, path, notes)))
    return headers


def _id_property(
    value: Term, header: bytes, notes: Notes
) -> tuple[Any, list[tuple[bytes, str, Any]]]:
    """Convert an id to a property, or to the header `header` if it is too long or a binary."""
    path = f"properties.{header[2:].decode()}"
    if value is None:
        return None, []
    kind = kind_of(value)
    if kind == "uuid":
        return f"urn:uuid:{uuid.UUID(bytes=value[1])}".encode(), []
    if kind == "ulong":
        notes.add_defined(LOSSES["number"], path, value[1], str(value[1]))
        return str(value[1]).encode(), []
    if kind not in ("binary", "utf8"):
        raise CrashedError(f"the consumer's connection dies (541): an id of type {kind}", path)
    if kind == "utf8" and len(value[1]) < 256:
        return value[1], []
    notes.add(path, "renamed", reportable(value), None, f"it becomes the header {header.decode()}")
    field = ("x", value[1]) if kind == "binary" else ("S", text(value[1]))
    return None, [(header, *field)]


def _queue_of_reply_to(broker: BrokerVersion, value: Term, notes: Notes) -> bytes | None:
    """Convert a reply-to to the name of a queue, if it is the address of a queue."""
    address = short_string(value, "reply-to", notes)
    if address is None or not broker.queue_addresses or not address.startswith(b"/queues/"):
        return address
    quoted: bytes = address[len(b"/queues/") :]
    if _INVALID_PERCENT_ESCAPE.search(quoted):
        notes.add_dropped("properties.reply-to", text(address), "invalid percent-encoding")
        return None
    name = urllib.parse.unquote_to_bytes(quoted)
    notes.add_defined(LOSSES["queue"], "properties.reply-to", text(address), text(name))
    return name


def _check_user(properties: dict[str, Term] | None, user: str | None) -> None:
    """Raise RefusedError if the user-id is no binary, or `check_user` refuses it."""
    value = properties["user-id"] if properties else None
    if value is None:
        return
    if not is_kind(value, "binary"):
        raise RefusedError("refused: the user-id is not a binary", "properties.user-id")
    check_user(value[1], user)


def _sorted_headers(fields: list[tuple[bytes, str, Any]], notes: Notes) -> FieldTable | None:
    """Sort headers by name, and keep the first header of each name, as the broker does.

    Raises:
        CrashedError: the broker cannot write the value of a header that it keeps.
    """
    if not fields:
        return None
    entries: list[tuple[str, str, Any]] = []
    last: Any = None
    for name, letter, value in sorted(fields, key=_header_name):
        if name == last:
            dropped = None if letter == UNWRITABLE_LETTER else value
            notes.add_dropped(f"headers[{text(name)!r}]", dropped, "a duplicate name")
        elif letter == UNWRITABLE_LETTER:
            raise value
        else:
            entries.append((text(name), letter, value))
        last = name
    return FieldTable.of(entries)


# Converting terms to values of headers.

#: Stands in for the type letter of a header whose value the broker cannot write. This is an error
#: only if the header is delivered.
UNWRITABLE_LETTER = ""

# The type letter of the header for each integer type of a term.
_LETTER_BY_TERM_TYPE = {
    "long": "l",
    **{cls.__name__.lower(): letter for letter, cls in INTEGER_TYPE_BY_LETTER.items()},
}


def seconds_of(value: Term, notes: Notes) -> int | None:
    """Convert a creation-time, in ms, to a timestamp of class basic, in seconds."""
    plain(value)
    if not is_kind(value, "timestamp"):
        return None
    seconds = whole_seconds(value[1])
    if seconds * 1000 != value[1] or seconds < 0:
        rule = LOSSES["since-1970"]
        if seconds < 0:
            rule = rule._replace(action="wrapped")
        notes.add_defined(rule, "properties.creation-time", value[1], seconds % 2**64)
    return seconds % 2**64


def field_of(
    broker: BrokerVersion, value: Term, path: str, notes: Notes, level: int = 0
) -> tuple[str, Any]:
    """Convert a term to a field, and return the field's type letter and value.

    If the broker can convert the value, but not write it, return `UNWRITABLE_LETTER` and the error.
    """
    if is_kind(value, "map"):
        return _table(broker, value[1], path, notes, True, level)
    if is_kind(value, "list") or is_kind(value, "array"):
        items = [
            item for item in value[-1] if not (broker.drops_undecoded and is_kind(item, "as_is"))
        ]
        if len(items) != len(value[-1]):
            notes.add(path, "dropped", len(value[-1]), len(items), "some elements are omitted")
        return _array(broker, items, path, notes, level)
    if is_kind(value, "ulong"):
        if value[1] >= 2**63:
            notes.add_defined(LOSSES["unsigned"], path, value[1], value[1] - 2**64)
        return "l", signed(value[1])
    return _scalar(value, path, notes)


def _table(
    broker: BrokerVersion, pairs: list[Any], path: str, notes: Notes, top: bool, level: int
) -> tuple[str, Any]:
    """Convert a map to a table, like `field_of`. `top` is False in an array."""
    check_level(level)
    entries = []
    error: CrashedError | None = None
    for key, value in pairs:
        if top and broker.drops_undecoded and (is_kind(key, "as_is") or is_kind(value, "as_is")):
            notes.add_dropped(path, reportable(value), "the broker cannot read the value")
            continue
        if key is None:
            raise CrashedError("the consumer's connection dies (541): a map key is null", path)
        # In Erlang, an empty list or map is an empty string.
        name = b"" if (is_kind(key, "list") or is_kind(key, "map")) and not key[1] else plain(key)
        inner = f"{path}[{reportable(key)}]"
        letter, field = field_of(broker, value, inner, notes, level + 1)
        if letter == UNWRITABLE_LETTER:
            error = field
        elif isinstance(name, bytes) and len(name) < 256:
            entries.append((text(name), letter, field))
        else:
            reason = "the consumer's connection dies (541): a map key cannot be the name of a field"
            error = CrashedError(reason, path)
    return ("F", FieldTable.of(entries)) if error is None else (UNWRITABLE_LETTER, error)


def _array(
    broker: BrokerVersion, items: list[Any], path: str, notes: Notes, level: int
) -> tuple[str, Any]:
    """Convert a list or array to a 0-9-1 array, like `field_of`."""
    check_level(level)
    elements = [_element(broker, item, path, notes, level + 1) for item in items]
    for letter, value in elements:
        if letter == UNWRITABLE_LETTER:
            return UNWRITABLE_LETTER, value
    return "A", FieldArray.of(elements)


def _element(
    broker: BrokerVersion, value: Term, path: str, notes: Notes, level: int
) -> tuple[str, Any]:
    """Convert an item of a list or array to an element of a 0-9-1 array, like `field_of`."""
    if is_kind(value, "list"):
        return _array(broker, value[1], path, notes, level)
    if is_kind(value, "map"):
        return _table(broker, value[1], path, notes, False, level)
    return _scalar(value, path, notes)


def _scalar(value: Term, path: str, notes: Notes) -> tuple[str, Any]:
    """Convert a value that is no list, map or array to a field, like `field_of`."""
    if value is None or value is UNDEFINED_TERM:
        return "V", None
    if isinstance(value, bool):
        return "t", value
    kind = value[0]
    if kind in {"utf8", "symbol", "binary"}:
        if kind != "utf8":
            notes.add_defined(LOSSES[kind], path, kind, "S")
        return "S", text(value[1])
    if kind in _LETTER_BY_TERM_TYPE:
        return _LETTER_BY_TERM_TYPE[kind], value[1]
    if kind == "float":
        return "f", Float(untyped(value))
    if kind == "double":
        return "d", untyped(value)
    if kind == "timestamp":
        seconds = whole_seconds(value[1])
        if seconds * 1000 != value[1] or seconds < 0:
            notes.add_defined(LOSSES["whole-seconds"], path, value[1], seconds)
        return "T", seconds % 2**64
    raise CrashedError(f"the consumer's connection dies (541): no header holds {kind}", path)


def is_kind(value: Term, kind: str) -> bool:
    """Whether a term has this type."""
    return kind_of(value) == kind


def plain(value: Term) -> Any:
    """Return the value that a term wraps. Raises CrashedError if the broker cannot unwrap it."""
    if value is None:
        return None
    if not isinstance(value, tuple) or len(value) != 2:
        raise CrashedError("the broker cannot unwrap the value")
    return whole_seconds(value[1]) if value[0] == "timestamp" else untyped(value)


def short_string(value: Term, name: str, notes: Notes) -> bytes | None:
    """Return the bytes of a string of at most 255 bytes; report any other value as dropped."""
    if value is None:
        return None
    if is_kind(value, "utf8") and len(value[1]) < 256:
        return bytes(value[1])
    notes.add_dropped(f"properties.{name}", reportable(value), "the value is not a short string")
    return None
