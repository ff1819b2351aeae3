"""What RabbitMQ 4 makes of a 1.0 message for a consumer of 0-9-1."""

from __future__ import annotations

import struct
import urllib.parse
import uuid
from typing import Any

from amqp10msg._core import skip_value
from amqp10msg.basic import BasicMessage, BasicProperties, FieldArray, FieldTable
from amqp10msg.errors import DecodeError
from amqp10msg.primitives import Float
from amqp10msg.translate.circumstances import Circumstances
from amqp10msg.translate.rabbitmq.fields import (
    checked_expiration,
    utf8_without_nul,
    written,
)
from amqp10msg.translate.rabbitmq.sections import (
    MARKER,
    check_stored,
    check_user,
    decoded,
    shown,
)
from amqp10msg.translate.rabbitmq.terms import (
    CODEC_43,
    CrashedError,
    RefusedError,
    Term,
    section_name,
)
from amqp10msg.translate.rabbitmq.version import BrokerVersion
from amqp10msg.translate.report import Notes

_NAMES = (
    "message-id",
    "user-id",
    "to",
    "subject",
    "reply-to",
    "correlation-id",
    "content-type",
    "content-encoding",
    "absolute-expiry-time",
    "creation-time",
    "group-id",
    "group-sequence",
    "reply-to-group-id",
)
_INTERNAL = (b"x-routing-key", b"x-exchange", b"x-death")
_F32 = struct.Struct(">f")
_F64 = struct.Struct(">d")
_LETTERS = {
    "long": "l",
    "byte": "b",
    "ubyte": "B",
    "short": "s",
    "ushort": "u",
    "uint": "i",
    "int": "I",
    "utf8": "S",
    "symbol": "S",
    "binary": "S",
}


def to_basic(
    broker: BrokerVersion, data: bytes, notes: Notes, given: Circumstances
) -> BasicMessage:
    """Return what a 0-9-1 consumer receives."""
    found, start = _received(broker, data)
    fields: list[Term] = found.get("properties") or [None] * 13
    annotations: list[Any] = found.get("message-annotations", [])
    application: list[Any] = found.get("application-properties", [])
    header: list[Term] = found.get("header") or [None] * 5
    _check_user(fields[1], given.user)
    if broker.stream:
        check_stored(annotations, "message-annotations")
        if "header" not in found:
            # What is stored has a header section, which says what the broker takes it for.
            header[0] = _durable(broker, None, annotations)
    marker, payload, footer = _payload(broker, data, start, notes)
    made = BasicProperties()
    _transport(broker, made, header, annotations)
    extra: list[tuple[bytes, str, Any]] = []
    if broker.stream and given.stream_offset is not None:
        extra.append((b"x-stream-offset", "l", given.stream_offset))
    extra += _annotation_headers(broker, annotations, notes)
    message_id = _id(fields[0], b"x-message-id", notes)
    correlation = _id(fields[5], b"x-correlation-id", notes)
    extra += correlation[1] + message_id[1]
    extra += _property_headers(broker, application, notes)
    made.headers = _sorted(extra, notes)
    made.message_id = written("message_id", message_id[0])
    made.correlation_id = written("correlation_id", correlation[0])
    user_id = fields[1][1] if fields[1] else None
    if user_id is not None and not (len(user_id) < 256 and utf8_without_nul(user_id)):
        notes.dropped("properties.user-id", user_id, "no short string")
        user_id = None
    made.user_id = written("user_id", user_id)
    made.reply_to = written("reply_to", _queue_of(broker, fields[4], notes))
    made.app_id = written("app_id", _shortstr(fields[10], "group-id", notes))
    if made.app_id is not None:
        notes.add(
            "properties.group-id",
            "renamed",
            made.app_id,
            made.app_id,
            "it becomes the app-id",
            recoverable=True,
        )
    kind = _get(annotations, b"x-basic-type") if marker is None else marker
    made.type = written("type", _plain(kind) if marker is None else kind)
    made.content_type = written("content_type", _plain(fields[6]))
    made.content_encoding = written("content_encoding", _plain(fields[7]))
    made.timestamp = _timestamp(fields[9], notes)
    for index in (2, 3, 8, 11, 12):
        if fields[index] is not None:
            notes.dropped(
                f"properties.{_NAMES[index]}", shown(fields[index]), "0-9-1 has no such property"
            )
    if footer:
        notes.dropped("footer", footer, "0-9-1 has no footer")
    if found.get("delivery-annotations"):
        notes.dropped(
            "delivery-annotations", len(found["delivery-annotations"]), "they are for one hop"
        )
    return BasicMessage(made, payload)


def _received(broker: BrokerVersion, data: bytes) -> tuple[dict[str, Any], int]:
    """Read a message up to its body, as the broker does when it comes in."""
    if broker.validates:
        _validate(data)
    parsed: list[tuple[str, Term]] = []
    pos = 0
    while pos < len(data) and not _begins(data, pos, _BODY_HEADS):
        term, pos = broker.codec.parse(data, pos, len(data))
        described = isinstance(term, tuple) and term[0] == "described"
        name = section_name(term[1]) if described else None
        if name is None:
            raise RefusedError("refused: no section of a message")
        parsed.append((name, term))
    if pos >= len(data):
        raise RefusedError("refused: the message has no body")
    return _before_body(parsed), pos


def _before_body(parsed: list[tuple[str, Term]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, term in parsed:
        # From the properties on only application-properties may follow, once.
        bare = "properties" in found or "application-properties" in found
        if name == "footer" or (bare and (name != "application-properties" or name in found)):
            raise RefusedError("refused: sections in another order", name)
        kind, content = decoded(term)
        found[kind] = content
    return found


def _payload(
    broker: BrokerVersion, data: bytes, start: int, notes: Notes
) -> tuple[bytes | None, bytes, Any]:
    """Return the marker, the payload and the footer that is left out."""
    if not _begins(data, start, _BODY_HEADS[:4]):
        notes.add("body", "retyped", "sections", "octets", "the encoded sections are the payload")
        return MARKER.encode(), data[start:], None
    content: list[bytes] = []
    footer = None
    for term in broker.codec.parse_all(data[start:]):
        kind, value = decoded(term)
        if kind == "data":
            content.append(value[1])
        elif kind == "footer":
            footer = value
        else:
            raise CrashedError(
                "the consumer's connection dies (541): body sections are mixed", "body"
            )
    if len(content) > 1:
        notes.add("body", "retyped", len(content), 1, "the data sections are joined")
    return None, b"".join(content), footer


def _transport(
    broker: BrokerVersion, made: BasicProperties, header: list[Term], annotations: list[Any]
) -> None:
    """Set what comes from the header section, or from annotations in its place."""
    mode = _plain(_get(annotations, b"x-basic-delivery-mode"))
    basic_priority = _plain(_get(annotations, b"x-basic-priority"))
    durable = header[0] if isinstance(header[0], bool) else None
    if broker.stream and durable is not None:
        mode = 2 if durable else 1
    if mode is None and _durable(broker, durable, annotations):
        mode = 2
    made.delivery_mode = written("delivery_mode", mode)
    priority = header[1][1] if isinstance(header[1], tuple) and header[1][0] == "ubyte" else None
    if broker.stream and isinstance(header[1], tuple):
        basic_priority = header[1][1]
    if basic_priority is None:
        basic_priority = priority
    made.priority = written("priority", basic_priority)
    expiration = _get(annotations, b"x-basic-expiration")
    if isinstance(header[2], tuple) and header[2][0] == "uint":
        made.expiration = str(header[2][1])
    elif isinstance(expiration, tuple) and expiration[0] == "utf8":
        made.expiration = str(checked_expiration(expiration[1].decode("latin-1")))
    else:
        made.expiration = written("expiration", _plain(expiration))


def _durable(broker: BrokerVersion, said: bool | None, annotations: list[Any]) -> bool:
    """Whether the broker takes the message for durable."""
    if said is not None:
        return said
    mode = _get(annotations, b"x-basic-delivery-mode")
    return broker.durable_by_default if mode is None else mode != ("ubyte", 1)


def _annotation_headers(
    broker: BrokerVersion, annotations: list[Any], notes: Notes
) -> list[tuple[bytes, str, Any]]:
    out: list[tuple[bytes, str, Any]] = []
    for key, value in annotations:
        name: bytes = key[1]
        path = f"message-annotations[{name.decode('utf-8', 'replace')!r}]"
        if name == b"x-cc":
            out.append((b"CC", *_field(broker, value, path, notes)))
        elif name == b"x-opt-rabbitmq-received-time" and _is(value, "timestamp"):
            out.append((b"timestamp_in_ms", "l", value[1]))
        elif name == b"x-opt-deaths":
            deaths = _deaths(value)
            if deaths is not None:
                out.append((b"x-death", "A", deaths))
            else:
                notes.dropped(path, shown(value), "no list of deaths")
        elif broker.drops_unread and _is(value, "as_is"):
            notes.dropped(path, shown(value), "the broker cannot read the value")
        elif name.startswith(b"x-basic-") or name in _INTERNAL:
            if name != b"x-basic-type":
                notes.dropped(path, shown(value), "the broker's own annotation")
        elif len(name) < 256:
            out.append((name, *_field(broker, value, path, notes)))
        else:
            notes.dropped(path, shown(value), "the name is too long")
    return out


def _property_headers(
    broker: BrokerVersion, pairs: list[Any], notes: Notes
) -> list[tuple[bytes, str, Any]]:
    out: list[tuple[bytes, str, Any]] = []
    for key, value in pairs:
        path = f"application-properties[{shown(key)}]"
        if broker.drops_unread and _is(value, "as_is"):
            notes.dropped(path, shown(value), "the broker cannot read the value")
        elif not _is(key, "utf8") or len(key[1]) > 255:
            notes.dropped(path, shown(value), "no name of a header")
        else:
            out.append((key[1], *_field(broker, value, path, notes)))
    return out


def _id(value: Term, header: bytes, notes: Notes) -> tuple[Any, list[tuple[bytes, str, Any]]]:
    path = f"properties.{header[2:].decode()}"
    if value is None:
        return None, []
    kind = value[0] if isinstance(value, tuple) else ""
    if kind == "uuid":
        return f"urn:uuid:{uuid.UUID(bytes=value[1])}".encode(), []
    if kind == "ulong":
        notes.add(path, "retyped", value[1], str(value[1]), "the number becomes text")
        return str(value[1]).encode(), []
    if kind == "binary" or (kind == "utf8" and len(value[1]) > 255):
        notes.add(path, "renamed", shown(value), None, f"it becomes the header {header.decode()}")
        if kind == "binary":
            return None, [(header, "x", value[1])]
        return None, [(header, "S", _text(value[1]))]
    if kind == "utf8":
        return value[1], []
    raise CrashedError(f"the consumer's connection dies (541): an id of type {kind}", path)


def _queue_of(broker: BrokerVersion, value: Term, notes: Notes) -> bytes | None:
    address = _shortstr(value, "reply-to", notes)
    if address is None or not broker.queue_addresses or not address.startswith(b"/queues/"):
        return address
    quoted = address[len(b"/queues/") :]
    for place, octet in enumerate(quoted):
        if octet == 0x25 and not _is_hex(quoted[place + 1 : place + 3]):
            notes.dropped("properties.reply-to", _text(address), "a wrong escape")
            return None
    name = urllib.parse.unquote_to_bytes(quoted)
    notes.add(
        "properties.reply-to",
        "renamed",
        _text(address),
        _text(name),
        "an address of a queue becomes its name",
        recoverable=True,
    )
    return name


def _timestamp(value: Term, notes: Notes) -> int | None:
    _plain(value)
    if not _is(value, "timestamp"):
        return None
    seconds = _cut(value[1])
    if seconds * 1000 != value[1] or seconds < 0:
        notes.add(
            "properties.creation-time",
            "wrapped" if seconds < 0 else "truncated",
            value[1],
            seconds % 2**64,
            "0-9-1 has whole seconds since 1970",
        )
    return seconds % 2**64


def _field(broker: BrokerVersion, value: Term, path: str, notes: Notes) -> tuple[str, Any]:
    """Return letter and value of a header."""
    if _is(value, "map"):
        return "F", _table(broker, value[1], path, notes, top=True)
    if _is(value, "list") or _is(value, "array"):
        items = [item for item in value[-1] if not (broker.drops_unread and _is(item, "as_is"))]
        if len(items) != len(value[-1]):
            notes.add(path, "dropped", len(value[-1]), len(items), "elements left out")
        return "A", FieldArray.of([_element(broker, item, path, notes) for item in items])
    if _is(value, "ulong"):
        if value[1] >= 2**63:
            notes.add(path, "wrapped", value[1], value[1] - 2**64, "no unsigned 64-bit number")
        return "l", _signed(value[1])
    return _scalar(value, path, notes)


def _table(
    broker: BrokerVersion, pairs: list[Any], path: str, notes: Notes, *, top: bool
) -> FieldTable:
    entries = []
    for key, value in pairs:
        if top and broker.drops_unread and (_is(key, "as_is") or _is(value, "as_is")):
            notes.dropped(path, shown(value), "the broker cannot read the value")
            continue
        name = _plain(key)
        if not isinstance(name, bytes) or len(name) > 255:
            raise CrashedError("the consumer's connection dies (541): no name of a field", path)
        inner = f"{path}[{shown(key)}]"
        entries.append((_text(name), *_field(broker, value, inner, notes)))
    return FieldTable.of(entries)


def _element(broker: BrokerVersion, value: Term, path: str, notes: Notes) -> tuple[str, Any]:
    if _is(value, "list"):
        return "A", FieldArray.of([_element(broker, item, path, notes) for item in value[1]])
    if _is(value, "map"):
        return "F", _table(broker, value[1], path, notes, top=False)
    return _scalar(value, path, notes)


def _scalar(value: Term, path: str, notes: Notes) -> tuple[str, Any]:
    if value is None:
        return "V", None
    if isinstance(value, bool):
        return "t", value
    kind = value[0]
    if kind in ("utf8", "symbol", "binary"):
        if kind != "utf8":
            notes.add(path, "retyped", kind, "S", f"a {kind} becomes a long string")
        return "S", _text(value[1])
    if kind in _LETTERS:
        return _LETTERS[kind], value[1]
    if kind == "float":
        return "f", Float(_F32.unpack(value[1])[0])
    if kind == "double":
        return "d", _F64.unpack(value[1])[0]
    if kind == "timestamp":
        seconds = _cut(value[1])
        if seconds * 1000 != value[1] or seconds < 0:
            notes.add(path, "truncated", value[1], seconds, "0-9-1 has whole seconds")
        return "T", seconds % 2**64
    raise CrashedError(f"the consumer's connection dies (541): no header holds {kind}", path)


def _is(value: Term, kind: str) -> bool:
    return isinstance(value, tuple) and value[0] == kind


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _plain(value: Term) -> Any:
    """Return a value without its type, as the broker does without looking at the type."""
    if value is None:
        return None
    if isinstance(value, bool) or len(value) != 2:
        raise CrashedError("the broker cannot take the value out of its type")
    return _cut(value[1]) if value[0] == "timestamp" else value[1]


def _get(annotations: list[Any], name: bytes) -> Term:
    return next((value for key, value in annotations if key == ("symbol", name)), None)


def _shortstr(value: Term, name: str, notes: Notes) -> bytes | None:
    if value is None:
        return None
    if _is(value, "utf8") and len(value[1]) < 256:
        return bytes(value[1])
    notes.dropped(f"properties.{name}", shown(value), "no short string")
    return None


def _cut(milliseconds: int) -> int:
    """Divide by 1,000 towards zero."""
    return milliseconds // 1000 if milliseconds >= 0 else -(-milliseconds // 1000)


def _signed(number: int) -> int:
    return number - 2**64 if number >= 2**63 else number


def _is_hex(data: bytes) -> bool:
    return len(data) == 2 and all(octet in b"0123456789abcdefABCDEF" for octet in data)


def _check_user(value: Term, user: str | None) -> None:
    """Raise for a user-id that cannot be the connection's user."""
    if value is None:
        return
    if not _is(value, "binary"):
        raise RefusedError("refused: the user-id is no binary", "properties.user-id")
    check_user(value[1], user)


def _sorted(fields: list[tuple[bytes, str, Any]], notes: Notes) -> FieldTable | None:
    """Sort by name and keep the first of a name, as the broker does before it delivers."""
    if not fields:
        return None
    fields = [(name, letter, value) for name, letter, value in fields]
    kept: dict[bytes, tuple[bytes, str, Any]] = {}
    for field in sorted(fields, key=lambda one: one[0]):
        if field[0] in kept:
            notes.dropped(f"headers[{_text(field[0])!r}]", field[2], "a name twice")
        else:
            kept[field[0]] = field
    return FieldTable.of([(_text(name), letter, value) for name, letter, value in kept.values()])


def _begins(data: bytes, start: int, heads: tuple[bytes, ...]) -> bool:
    return any(data.startswith(head, start) for head in heads)


_BODY_HEADS = tuple(
    head
    for code, symbol in (
        (0x75, b"amqp:data:binary"),
        (0x76, b"amqp:amqp-sequence:list"),
        (0x77, b"amqp:amqp-value:*"),
    )
    for head in (
        b"\x00\x53" + bytes([code]),
        b"\x00\x80" + code.to_bytes(8, "big"),
        b"\x00\xa3" + bytes([len(symbol)]) + symbol,
        b"\x00\xb3" + len(symbol).to_bytes(4, "big") + symbol,
    )
)


_SHAPES = {
    "header": b"\x45\xc0\xd0",
    "delivery-annotations": b"\xc1\xd1",
    "message-annotations": b"\xc1\xd1",
    "properties": b"\x45\xc0\xd0",
    "application-properties": b"\xc1\xd1",
    "data": b"\xa0\xb0",
    "amqp-sequence": b"\x45\xc0\xd0",
    "amqp-value": b"",
    "footer": b"\xc1\xd1",
}


_RANKS = {name: rank for rank, name in enumerate(_SHAPES)}


def _validate(data: bytes) -> None:
    """Check order, number and shape of the sections without reading them, as later versions do."""
    last = -1
    pos = 0
    count = 0
    while pos < len(data):
        count += 1
        if count > 10_000:
            raise RefusedError("refused: more than 10,000 sections")
        if data[pos] != 0 or data[pos + 1 : pos + 2] not in (b"\x53", b"\x80", b"\xa3", b"\xb3"):
            raise RefusedError("refused: no section of a message")
        descriptor, pos = CODEC_43.parse(data, pos + 1, len(data))
        name = section_name(descriptor)
        if name is None:
            raise RefusedError("refused: an unexpected section")
        rank = _RANKS[name]
        again = name in ("data", "amqp-sequence") and rank == last
        # Behind one kind of body only the footer may follow, and that only behind a body.
        if (
            (rank <= last and not again)
            or (last >= 5 and rank < 8 and not again)
            or (name == "footer" and last < 5)
        ):
            raise RefusedError("refused: an unexpected section", name)
        last = rank
        shape = _SHAPES[name]
        if pos >= len(data) or (shape and data[pos] not in shape):
            raise RefusedError(f"refused: {name} of the wrong type", name)
        try:
            pos = skip_value(data, pos)
        except DecodeError as error:
            raise RefusedError(f"refused: {name} cannot be read: {error.reason}", name) from None


_DEATH = (
    (b"queue", "utf8"),
    (b"reason", "symbol"),
    (b"count", "ulong"),
    (b"first-time", "timestamp"),
    (b"last-time", "timestamp"),
    (b"exchange", "utf8"),
    (b"routing-keys", "array"),
)


def _deaths(value: Term) -> FieldArray | None:
    """Turn the annotation x-opt-deaths into the header x-death."""
    if not _is(value, "array") or value[1] != "map":
        return None
    made = []
    for _, pairs in value[2]:
        rest = list(pairs)
        entries: list[tuple[str, str, Any]] = []
        if rest and rest[0][0] == ("symbol", b"ttl") and _is(rest[0][1], "uint"):
            entries.append(("original-expiration", "S", str(rest[0][1][1])))
            rest = rest[1:]
        if [(key, _kind(item)) for key, item in rest] != [
            (("symbol", name), kind) for name, kind in _DEATH
        ]:
            raise CrashedError(
                "the consumer's connection dies (541): deaths of another shape",
                "message-annotations['x-opt-deaths']",
            )
        death = {key[1]: item for key, item in rest}
        keys = death[b"routing-keys"]
        if keys[1] != "utf8":
            raise CrashedError("the consumer's connection dies (541): routing keys of another type")
        entries += [
            ("count", "l", _signed(death[b"count"][1])),
            ("reason", "S", _text(death[b"reason"][1])),
            ("queue", "S", _text(death[b"queue"][1])),
            ("time", "T", _cut(death[b"first-time"][1]) % 2**64),
            ("exchange", "S", _text(death[b"exchange"][1])),
            ("routing-keys", "A", FieldArray.of([("S", _text(key[1])) for key in keys[2]])),
        ]
        made.append(("F", FieldTable.of(entries)))
    return FieldArray.of(made)


def _kind(value: Term) -> str:
    return value[0] if isinstance(value, tuple) else ""
