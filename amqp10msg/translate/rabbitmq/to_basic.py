"""What RabbitMQ 4 makes of a 1.0 message for a consumer of 0-9-1."""

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
    cut,
    signed,
    text,
    utf8_without_nul,
    written,
)
from amqp10msg.translate.rabbitmq.history import (
    DEATH_NAMES,
    added_terms,
    check_typed,
    redelivery,
    typed_fields,
)
from amqp10msg.translate.rabbitmq.sections import (
    BODY_HEADS,
    Received,
    annotation,
    check_filter,
    check_user,
    decoded,
    expiration,
    received,
    shown,
)
from amqp10msg.translate.rabbitmq.terms import (
    BODY_CODES,
    UNDEFINED,
    CrashedError,
    RefusedError,
    Term,
    check,
    check_level,
    generate,
    kind_of,
    section,
    untyped,
)
from amqp10msg.translate.rabbitmq.version import BrokerVersion
from amqp10msg.translate.report import Notes
from amqp10msg.translate.table import INTEGERS, MARKER
from amqp10msg.wire.primitives import Float

#: The fields that become no property.
LEFT_OUT = ("to", "subject", "absolute-expiry-time", "group-sequence", "reply-to-group-id")
_DATA_HEADS = BODY_HEADS[:4]
_INTERNAL = (b"x-routing-key", b"x-exchange", b"x-death")
_name = itemgetter(0)
_WRONG_ESCAPE = re.compile(rb"%(?![0-9a-fA-F]{2})")


def to_basic(
    broker: BrokerVersion, data: bytes, notes: Notes, given: Circumstances
) -> BasicMessage:
    """Return the message that a 0-9-1 consumer receives."""
    if broker.validates:
        check(data)
    found = received(broker, data)
    annotations = found.annotations
    check_routes(broker, annotations)
    _check_user(found.properties, given.user)
    arrived = _Arrived(
        _durable(broker, found.header, annotations),
        _priority(found.header, annotations),
        expiration(found.header, annotations),
    )
    said = added_terms(broker, given)
    if broker.stream:
        check_typed(said)
        kept = [pair for pair in annotations if pair[0][1] not in said]
        annotations = found.annotations = [
            *((("symbol", name), _read_again(term)) for name, term in said.items()),
            *kept,
        ]
        check_filter(annotations, "message-annotations")
        # What is stored has a header section, which says what the broker takes it for.
        mode = annotation(annotations, b"x-basic-delivery-mode")
        is_durable = broker.durable_by_default or mode == ("ubyte", 2)
        found.header = found.header or {**dict.fromkeys(HEADER_NAMES), "durable": is_durable}
        if given.deaths and not found.is_header_last:
            # The queue that it left wrote down what it took it for.
            _check_written(arrived.priority)
            found.header = dict.fromkeys(HEADER_NAMES)
            found.header |= {"durable": arrived.durable, "priority": arrived.priority}
            annotations = found.annotations = _without_deaths(annotations, notes)
            # The time to live is gone, but a header that it hid is read again.
            arrived.expiration = expiration(found.header, annotations)
        found.is_header_last = True
        for part in (("list", [*found.header.values()][:3]), ("map", _stored(annotations))):
            generate(part)  # or the publisher's session dies
        arrived.durable = _durable(broker, found.header, annotations)
    before_body = found.annotations
    moment = found.properties["creation-time"] if found.properties else None
    marker, payload, footer = _payload(broker, data, found, notes)
    # Annotations in or after the bare message hide those of the stream, deaths among them.
    is_hidden = broker.stream and (
        found.are_annotations_last or found.annotations is not before_body
    )
    annotations = found.annotations
    fields: dict[str, Term] = found.properties or dict.fromkeys(PROPERTY_NAMES)
    made = BasicProperties()
    # A queue sets no time to live for a dead letter, so that it does not expire again.
    _transport(made, found, arrived, expires=broker.stream or not given.deaths)
    extra = [] if broker.stream else typed_fields(said)
    if broker.stream and given.stream_offset is not None:
        extra.append((b"x-stream-offset", "l", given.stream_offset))
    before = redelivery(broker, given)
    extra += [(name, "l", count) for name, count in before.counts]
    if not is_hidden:
        extra += history.added_headers(given)
    extra += annotation_headers(broker, annotations, notes)
    message_id = _id(fields["message-id"], b"x-message-id", notes)
    correlation = _id(fields["correlation-id"], b"x-correlation-id", notes)
    extra += correlation[1] + message_id[1]
    extra += property_headers(broker, found.application, notes)
    made.headers = _sorted(extra, notes)
    made.message_id = written("message_id", message_id[0])
    made.correlation_id = written("correlation_id", correlation[0])
    # Properties after the body may have one of any type, which nobody has checked.
    user_id = plain(fields["user-id"])
    if user_id is not None and not (
        isinstance(user_id, bytes) and len(user_id) < 256 and utf8_without_nul(user_id)
    ):
        notes.dropped("properties.user-id", shown(fields["user-id"]), "no short string")
        user_id = None
    made.user_id = written("user_id", user_id)
    made.reply_to = written("reply_to", _queue_of(broker, fields["reply-to"], notes))
    made.app_id = written("app_id", short_string(fields["group-id"], "group-id", notes))
    if made.app_id is not None:
        notes.tell(LOSSES["group-id"], "properties.group-id", made.app_id, made.app_id)
    kind = plain(annotation(annotations, b"x-basic-type")) if marker is None else marker
    made.type = written("type", kind)
    made.content_type = written("content_type", plain(fields["content-type"]))
    made.content_encoding = written("content_encoding", plain(fields["content-encoding"]))
    # Remembered when the message came in, whatever properties stand after the body, but it is
    # taken out of its type there, too.
    plain(fields["creation-time"])
    made.timestamp = seconds_of(moment, notes)
    for name in LEFT_OUT:
        if fields[name] is not None:
            notes.tell(LOSSES["field"], f"properties.{name}", shown(fields[name]))
    report_delivery_count(found.header, notes)
    if footer:
        notes.tell(LOSSES["footer"], "footer", footer)
    if found.delivery_annotations:
        rule = LOSSES["delivery-annotations"]
        notes.tell(rule, "delivery-annotations", found.delivery_annotations)
    return BasicMessage(made, payload, "", "", before.again)


def report_delivery_count(header: dict[str, Term] | None, notes: Notes) -> None:
    """Report a count of earlier deliveries, for which 0-9-1 has no place."""
    count = untyped(header["delivery-count"]) if header else None
    if count:
        notes.tell(LOSSES["fact"], "header.delivery-count", count)


def _without_deaths(annotations: list[Any], notes: Notes) -> list[Any]:
    """Leave out what the broker says itself of the deaths, in the place of the sender's."""
    for key, value in annotations:
        if key[1] in DEATH_NAMES:
            path = f"message-annotations[{text(key[1])!r}]"
            notes.tell(LOSSES["broker's-own"], path, shown(value))
    return [pair for pair in annotations if pair[0][1] not in DEATH_NAMES]


def _read_again(term: Term) -> Term:
    """Return a boolean or a number as it is read out of a stream."""
    if is_kind(term, "long"):
        return "long", signed(term[1] % 2**64)
    return term[1] if is_kind(term, "boolean") else term


def check_routes(broker: BrokerVersion, annotations: list[Any]) -> None:
    """Raise for routes that are not a list of strings, where the broker looks at them."""
    routes = annotation(annotations, b"x-cc") if broker.validates else None
    if routes is not None and not (
        is_kind(routes, "list") and all(is_kind(one, "utf8") for one in routes[1])
    ):
        raise RefusedError("refused: bad value for 'x-cc'", "message-annotations['x-cc']")


@attrs.define
class _Arrived:
    """What the broker remembers of a message that came in, beside it.

    Attributes:
        durable: it is taken for durable.
        priority: a term, or None.
        expiration: in ms, or None.
    """

    durable: bool
    priority: Term
    expiration: int | None


def _stored(annotations: list[Any]) -> list[Any]:
    """Return the annotations that a stream stores as they are."""
    return [pair for pair in annotations if pair[0][1] not in (b"x-exchange", b"x-routing-key")]


def _payload(
    broker: BrokerVersion, data: bytes, found: Received, notes: Notes
) -> tuple[bytes | None, bytes, Any]:
    """Return the marker, the payload and the footer that is left out."""
    start = found.body
    if not data.startswith(_DATA_HEADS, start):
        notes.tell(LOSSES["sections"], "body", "sections", "bytes")
        return MARKER.encode(), data[start:], None
    body: list[tuple[str, Term]] = []
    footer = None
    for term in broker.codec.parse_all(data[start:]):
        kind, value = decoded(term)
        if kind in BODY_CODES:
            body.append((kind, value))
        elif kind == "footer":
            footer = value
        else:
            found.take(kind, value)
    if body[-1][0] != "data":
        # The kind of the last one is believed.
        written_ = b"".join([section(BODY_CODES[kind], value) for kind, value in body])
        return MARKER.encode(), written_, footer
    content = []
    for kind, value in body:
        if kind != "data":
            raise CrashedError(
                "the consumer's connection dies (541): body sections are mixed", "body"
            )
        if value is None:
            raise CrashedError("the session dies: data is not a binary", "data")
        content.append(bytes(value[1]))
    if len(content) > 1:
        notes.tell(LOSSES["joined-for-good"], "body", len(content), 1)
    return None, b"".join(content), footer


def _transport(made: BasicProperties, found: Received, arrived: _Arrived, *, expires: bool) -> None:
    """Set what comes from the header section, from annotations in its place, or is remembered.

    Of a header before the bare message a queue keeps only what the broker remembers of it.
    """
    annotations = found.annotations
    header = (found.header if found.is_header_last else None) or dict.fromkeys(HEADER_NAMES)
    durable, priority, ttl = header["durable"], header["priority"], header["ttl"]
    mode: Any = 2 if durable else 1
    if not isinstance(durable, bool):
        mode = plain(annotation(annotations, b"x-basic-delivery-mode"))
    if mode is None and arrived.durable:
        mode = 2
    made.delivery_mode = written("delivery_mode", mode)
    rank = untyped(priority)
    if rank is None:
        rank = plain(annotation(annotations, b"x-basic-priority"))
    made.priority = written("priority", untyped(arrived.priority) if rank is None else rank)
    lifetime = untyped(ttl)
    if lifetime is not None and not isinstance(lifetime, int):
        raise CrashedError("the consumer's connection dies (541): no number", "header.ttl")
    # What is remembered is believed, but the broker takes the annotation out of its type before.
    given = None if lifetime is not None else plain(annotation(annotations, b"x-basic-expiration"))
    if not expires:
        return
    if arrived.expiration is not None:
        made.expiration = str(arrived.expiration)
    elif lifetime is not None:
        made.expiration = str(lifetime)
    else:
        made.expiration = written("expiration", given)


def _check_written(priority: Term) -> None:
    """Raise for a number that does not fit into the header of a dead letter for a stream."""
    number = untyped(priority)
    if type(number) is int and not 0 <= number <= 255:
        raise RefusedError(
            f"refused: the stream takes no dead letter of priority {number}",
            "message-annotations['x-basic-priority']",
        )


def _durable(broker: BrokerVersion, header: dict[str, Term] | None, annotations: list[Any]) -> bool:
    """Whether the broker takes the message for durable."""
    durable = header["durable"] if header else None
    if isinstance(durable, bool):
        return durable
    mode = annotation(annotations, b"x-basic-delivery-mode")
    return bool(mode != ("ubyte", 1) if broker.durable_by_default else mode == ("ubyte", 2))


def _priority(header: dict[str, Term] | None, annotations: list[Any]) -> Term:
    """Return the priority that the broker remembers."""
    if header and is_kind(header["priority"], "ubyte"):
        return header["priority"]
    return annotation(annotations, b"x-basic-priority")


def annotation_headers(
    broker: BrokerVersion, annotations: list[Any], notes: Notes
) -> list[tuple[bytes, str, Any]]:
    """Make headers of message annotations, pairs of terms: name, letter and value of each."""
    out: list[tuple[bytes, str, Any]] = []
    for key, value in annotations:
        name: bytes = key[1]
        path = f"message-annotations[{name.decode('utf-8', 'replace')!r}]"
        if name == b"x-cc":
            out.append((b"CC", *field_of(broker, value, path, notes)))
        elif name == b"x-opt-rabbitmq-received-time" and is_kind(value, "timestamp"):
            out.append((b"timestamp_in_ms", "l", value[1]))
        elif name == b"x-opt-deaths":
            deaths = history.to_header(value)
            if deaths is not None:
                out.append((b"x-death", "A", deaths))
            else:
                notes.dropped(path, shown(value), "no list of deaths")
        elif broker.drops_unread and is_kind(value, "as_is"):
            notes.dropped(path, shown(value), "the broker cannot read the value")
        elif name.startswith(b"x-basic-") or name in _INTERNAL:
            if name != b"x-basic-type":
                notes.tell(LOSSES["broker's-own"], path, shown(value))
        elif len(name) < 256:
            out.append((name, *field_of(broker, value, path, notes)))
        else:
            notes.dropped(path, shown(value), "the name is too long")
    return out


def property_headers(
    broker: BrokerVersion, pairs: list[Any], notes: Notes
) -> list[tuple[bytes, str, Any]]:
    """Make headers of application properties, likewise."""
    out: list[tuple[bytes, str, Any]] = []
    for key, value in pairs:
        path = f"application-properties[{shown(key)}]"
        if broker.drops_unread and is_kind(value, "as_is"):
            notes.dropped(path, shown(value), "the broker cannot read the value")
        elif not is_kind(key, "utf8") or len(key[1]) > 255:
            notes.dropped(path, shown(value), "no name of a header")
        else:
            out.append((key[1], *field_of(broker, value, path, notes)))
    return out


def _id(value: Term, header: bytes, notes: Notes) -> tuple[Any, list[tuple[bytes, str, Any]]]:
    path = f"properties.{header[2:].decode()}"
    if value is None:
        return None, []
    kind = kind_of(value)
    if kind == "uuid":
        return f"urn:uuid:{uuid.UUID(bytes=value[1])}".encode(), []
    if kind == "ulong":
        notes.tell(LOSSES["number"], path, value[1], str(value[1]))
        return str(value[1]).encode(), []
    if kind not in ("binary", "utf8"):
        raise CrashedError(f"the consumer's connection dies (541): an id of type {kind}", path)
    if kind == "utf8" and len(value[1]) < 256:
        return value[1], []
    notes.add(path, "renamed", shown(value), None, f"it becomes the header {header.decode()}")
    field = ("x", value[1]) if kind == "binary" else ("S", text(value[1]))
    return None, [(header, *field)]


def _queue_of(broker: BrokerVersion, value: Term, notes: Notes) -> bytes | None:
    address = short_string(value, "reply-to", notes)
    if address is None or not broker.queue_addresses or not address.startswith(b"/queues/"):
        return address
    quoted: bytes = address[len(b"/queues/") :]
    if _WRONG_ESCAPE.search(quoted):
        notes.dropped("properties.reply-to", text(address), "a wrong escape")
        return None
    name = urllib.parse.unquote_to_bytes(quoted)
    notes.tell(LOSSES["queue"], "properties.reply-to", text(address), text(name))
    return name


def _check_user(properties: dict[str, Term] | None, user: str | None) -> None:
    """Raise for a user-id that cannot be the connection's user."""
    value = properties["user-id"] if properties else None
    if value is None:
        return
    if not is_kind(value, "binary"):
        raise RefusedError("refused: the user-id is not a binary", "properties.user-id")
    check_user(value[1], user)


def _sorted(fields: list[tuple[bytes, str, Any]], notes: Notes) -> FieldTable | None:
    """Sort by name and keep the first of a name, as the broker does before it delivers.

    It has converted all of them before, and writes those that it keeps.

    Raises:
        CrashedError: one of these cannot be written.
    """
    if not fields:
        return None
    entries: list[tuple[str, str, Any]] = []
    last: Any = None
    for name, letter, value in sorted(fields, key=_name):
        if name == last:
            before = None if letter == UNWRITTEN else value
            notes.dropped(f"headers[{text(name)!r}]", before, "a name twice")
        elif letter == UNWRITTEN:
            raise value
        else:
            entries.append((text(name), letter, value))
        last = name
    return FieldTable.of(entries)


# Values of headers.

#: Where the letter of a field stands: the value cannot be written, which matters where a consumer
#: would get it.
UNWRITTEN = ""

_LETTERS = {"long": "l", **{cls.__name__.lower(): letter for letter, cls in INTEGERS.items()}}


def seconds_of(value: Term, notes: Notes) -> int | None:
    """Return the timestamp of class basic that the creation-time becomes."""
    plain(value)
    if not is_kind(value, "timestamp"):
        return None
    seconds = cut(value[1])
    if seconds * 1000 != value[1] or seconds < 0:
        rule = LOSSES["since-1970"]
        if seconds < 0:
            rule = rule._replace(action="wrapped")
        notes.tell(rule, "properties.creation-time", value[1], seconds % 2**64)
    return seconds % 2**64


def field_of(
    broker: BrokerVersion, value: Term, path: str, notes: Notes, level: int = 0
) -> tuple[str, Any]:
    """Return letter and value of a header, or of a field at a level of nesting.

    What can be converted, but not written, has the letter `UNWRITTEN` and an error as its value.
    """
    if is_kind(value, "map"):
        return _table(broker, value[1], path, notes, True, level)
    if is_kind(value, "list") or is_kind(value, "array"):
        items = [item for item in value[-1] if not (broker.drops_unread and is_kind(item, "as_is"))]
        if len(items) != len(value[-1]):
            notes.add(path, "dropped", len(value[-1]), len(items), "elements left out")
        return _array(broker, items, path, notes, level)
    if is_kind(value, "ulong"):
        if value[1] >= 2**63:
            notes.tell(LOSSES["unsigned"], path, value[1], value[1] - 2**64)
        return "l", signed(value[1])
    return _scalar(value, path, notes)


def _table(
    broker: BrokerVersion, pairs: list[Any], path: str, notes: Notes, top: bool, level: int
) -> tuple[str, Any]:
    check_level(level)
    entries = []
    error: CrashedError | None = None
    for key, value in pairs:
        if top and broker.drops_unread and (is_kind(key, "as_is") or is_kind(value, "as_is")):
            notes.dropped(path, shown(value), "the broker cannot read the value")
            continue
        if key is None:
            raise CrashedError("the consumer's connection dies (541): a null as a name", path)
        # An empty list or map is not text, but it has no characters either.
        name = b"" if (is_kind(key, "list") or is_kind(key, "map")) and not key[1] else plain(key)
        inner = f"{path}[{shown(key)}]"
        letter, made = field_of(broker, value, inner, notes, level + 1)
        if letter == UNWRITTEN:
            error = made
        elif isinstance(name, bytes) and len(name) < 256:
            entries.append((text(name), letter, made))
        else:
            error = CrashedError("the consumer's connection dies (541): no name of a field", path)
    return ("F", FieldTable.of(entries)) if error is None else (UNWRITTEN, error)


def _array(
    broker: BrokerVersion, items: list[Any], path: str, notes: Notes, level: int
) -> tuple[str, Any]:
    check_level(level)
    made = [_element(broker, item, path, notes, level + 1) for item in items]
    for letter, value in made:
        if letter == UNWRITTEN:
            return UNWRITTEN, value
    return "A", FieldArray.of(made)


def _element(
    broker: BrokerVersion, value: Term, path: str, notes: Notes, level: int
) -> tuple[str, Any]:
    if is_kind(value, "list"):
        return _array(broker, value[1], path, notes, level)
    if is_kind(value, "map"):
        return _table(broker, value[1], path, notes, False, level)
    return _scalar(value, path, notes)


def _scalar(value: Term, path: str, notes: Notes) -> tuple[str, Any]:
    if value is None or value is UNDEFINED:
        return "V", None
    if isinstance(value, bool):
        return "t", value
    kind = value[0]
    if kind in {"utf8", "symbol", "binary"}:
        if kind != "utf8":
            notes.tell(LOSSES[kind], path, kind, "S")
        return "S", text(value[1])
    if kind in _LETTERS:
        return _LETTERS[kind], value[1]
    if kind == "float":
        return "f", Float(untyped(value))
    if kind == "double":
        return "d", untyped(value)
    if kind == "timestamp":
        seconds = cut(value[1])
        if seconds * 1000 != value[1] or seconds < 0:
            notes.tell(LOSSES["whole-seconds"], path, value[1], seconds)
        return "T", seconds % 2**64
    raise CrashedError(f"the consumer's connection dies (541): no header holds {kind}", path)


def is_kind(value: Term, kind: str) -> bool:
    """Whether a value is of a type."""
    return kind_of(value) == kind


def plain(value: Term) -> Any:
    """Return a value without its type, as the broker does without looking at the type."""
    if value is None:
        return None
    if not isinstance(value, tuple) or len(value) != 2:
        raise CrashedError("the broker cannot take the value out of its type")
    return cut(value[1]) if value[0] == "timestamp" else untyped(value)


def short_string(value: Term, name: str, notes: Notes) -> bytes | None:
    """Return a property of class basic from a string of 255 bytes at most, None from any other."""
    if value is None:
        return None
    if is_kind(value, "utf8") and len(value[1]) < 256:
        return bytes(value[1])
    notes.dropped(f"properties.{name}", shown(value), "no short string")
    return None
