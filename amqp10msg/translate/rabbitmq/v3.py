"""What RabbitMQ 3.10 with its AMQP 1.0 plugin makes of a message between the two protocols.

Rules of the plugin's message module and, for streams, of the record that streams store. It carries
whole sections as headers and believes such headers on the way back. Octets are pasted unread, so
what it delivers may be no message at all.
"""

from __future__ import annotations

from typing import Any

from amqp10msg.basic import BasicMessage, BasicProperties, FieldTable
from amqp10msg.translate.circumstances import Circumstances
from amqp10msg.translate.rabbitmq.fields import (
    checked_expiration,
    header_routes,
    octets,
    readable,
    written,
)
from amqp10msg.translate.rabbitmq.sections import MARKER, check_user
from amqp10msg.translate.rabbitmq.terms import (
    CODEC_3,
    CrashedError,
    RefusedError,
    Term,
    generate,
    section_name,
)
from amqp10msg.translate.rabbitmq.version import BrokerVersion
from amqp10msg.translate.report import Notes

__all__ = ["to_amqp10", "to_basic"]

_SAVED = {
    "message-annotations": "x-amqp-1.0-message-annotations",
    "properties": "x-amqp-1.0-properties",
    "application-properties": "x-amqp-1.0-app-properties",
    "footer": "x-amqp-1.0-footer",
}
_BODY = ("data", "amqp-sequence", "amqp-value")
_ORDER = ("header", "message-annotations", "properties", "application-properties")
_PROPERTIES = ("message_id", "user_id", "correlation_id", "content_type", "content_encoding")


def to_amqp10(
    broker: BrokerVersion, basic: BasicMessage, notes: Notes, circumstances: Circumstances
) -> bytes:
    """Return the octets that a 1.0 consumer receives."""
    given = basic.properties
    if given.user_id is not None:
        check_user(octets(given.user_id), circumstances.user)
    table = given.headers if given.headers is not None else FieldTable()
    table = table if isinstance(table, FieldTable) else FieldTable(table)
    readable(table)
    header_routes(table)
    if given.delivery_mode not in (None, 1, 2):
        raise RefusedError(
            f"publishing fails (406): delivery mode {given.delivery_mode} is not known",
            "properties.delivery-mode",
        )
    header: list[Term] = [given.delivery_mode == 2, None, None, not basic.redelivered, None]
    if given.priority is not None:
        header[1] = ("ubyte", given.priority)
    if given.expiration is not None:
        ttl = checked_expiration(given.expiration)
        header[2] = ("uint", ttl)
        if ttl >= 2**32:
            notes.add(
                "properties.expiration",
                "wrapped",
                given.expiration,
                ttl % 2**32,
                "ttl wrapped modulo 2^32",
            )
    if broker.stream:
        _check_stream(table)
    saved = {name: _saved(table, name) for name in _SAVED}
    for name, _, value in table.entries:
        if name not in _SAVED.values():
            notes.dropped(f"headers[{name!r}]", value, "headers are not converted")
    for name in ("type", "app_id", "cluster_id"):
        value = getattr(given, name)
        if value is not None and not (name == "type" and value == MARKER):
            notes.dropped(f"properties.{name.replace('_', '-')}", value, "it is left out")
    if given.timestamp is not None:
        notes.add(
            "properties.timestamp",
            "retyped",
            given.timestamp,
            given.timestamp,
            "the number of seconds becomes a number of milliseconds",
        )
    annotations = _annotations(broker, saved["message-annotations"], circumstances.stream_offset)
    body = basic.body
    if given.type != MARKER:
        body = b"\x00\x53\x75" + generate(("binary", basic.body))
    properties = saved["properties"]
    if properties is None:
        fields = _fields(given, basic, notes)
        if broker.stream and fields[9] is not None:
            fields[9] = ("timestamp", _stored_seconds(fields[9][1]))
        properties = b"\x00\x53\x73" + _old(("list", fields))
    return b"".join(
        (
            b"\x00\x53\x70" + _old(("list", header)),
            annotations,
            properties,
            saved["application-properties"] or b"",
            body,
            saved["footer"] or b"",
        )
    )


def _annotations(broker: BrokerVersion, saved: bytes | None, stream_offset: int | None) -> bytes:
    if not broker.stream:
        return saved or b""
    pairs: list[Any] = []
    if saved is not None:
        # To add the offset the plugin reads what it else only pastes.
        for term in CODEC_3.parse_all(saved):
            pairs = list(_map_of(term))
    if stream_offset is None:
        return saved or b""
    # A string, where a symbol belongs.
    offset = (("utf8", b"x-stream-offset"), ("ulong", stream_offset))
    return b"\x00\x53\x72" + _old(("map", [offset, *pairs]))


# From 1.0 to 0-9-1.


def to_basic(
    broker: BrokerVersion, data: bytes, notes: Notes, circumstances: Circumstances
) -> BasicMessage:
    """Return what a 0-9-1 consumer receives."""
    if not data:
        raise RefusedError("refused: a transfer without octets")
    found, body, payload = _assembled(data)
    made = BasicProperties()
    if "header" in found:
        _transport(made, found["header"][0])
    headers: list[tuple[bytes, str, Any]] = []
    for name, header in _SAVED.items():
        if name in found:
            headers.append((header.encode(), "S", found[name][1]))
            notes.add(
                name,
                "carried",
                name,
                header,
                "the encoded section becomes a header",
                recoverable=True,
            )
    if "properties" in found:
        _properties(made, found["properties"][0], circumstances.user)
    if body:
        made.type = "binary" if body == ["data"] else MARKER
    if len(body) > 1:
        notes.add("body", "retyped", len(body), 1, "the sections stand in reverse order")
    if broker.stream:
        headers = _through_stream(made, headers)
        if circumstances.stream_offset is not None:
            headers.append((b"x-stream-offset", "l", circumstances.stream_offset))
    if headers:
        made.headers = FieldTable.of(
            [
                (name.decode(), letter, _text(value))
                for name, letter, value in sorted(headers, key=lambda one: one[0])
            ]
        )
    for name in (*_PROPERTIES, "reply_to", "expiration", "timestamp"):
        setattr(made, name, written(name, getattr(made, name)))
    return BasicMessage(made, payload)


def _properties(made: Any, fields: list[Term], user: str | None) -> None:
    user_id = _plain(fields[1])
    if user_id is not None:
        if not isinstance(user_id, bytes):
            raise RefusedError("refused: the user-id is no text", "properties.user-id")
        check_user(user_id, user)
    made.user_id = user_id
    made.message_id = _plain(fields[0])
    made.correlation_id = _plain(fields[5])
    reply_to = _plain(fields[4])
    if isinstance(reply_to, bytes):
        reply_to = reply_to.removeprefix(b"/queue/")
    made.reply_to = reply_to
    made.content_type = _plain(fields[6])
    made.content_encoding = _plain(fields[7])
    made.timestamp = _plain(fields[9])


def _through_stream(
    made: Any, headers: list[tuple[bytes, str, Any]]
) -> list[tuple[bytes, str, Any]]:
    """Change the properties as storing them in a stream does."""
    for name in ("message_id", "correlation_id"):
        value = getattr(made, name)
        if isinstance(value, bytes) and len(value) > 256:
            headers = [*headers, (f"x-{name.replace('_', '-')}".encode(), "S", value)]
            setattr(made, name, None)
    if isinstance(made.timestamp, int):
        made.timestamp = _stored_seconds(made.timestamp)
    return headers


def _stored_seconds(seconds: int) -> int:
    """Return seconds after they were stored as milliseconds in 64 bits."""
    moment = (seconds * 1000 + 2**63) % 2**64 - 2**63
    return moment // 1000 if moment >= 0 else -(-moment // 1000)


def _old(term: Term) -> bytes:
    """Write a term as RabbitMQ 3.10 does: the short forms end one octet earlier."""
    return _narrow(term)


def _narrow(term: Term) -> bytes:
    if isinstance(term, tuple):
        if term[0] in ("utf8", "binary"):
            short = 0xA1 if term[0] == "utf8" else 0xA0
            if len(term[1]) < 255:
                return bytes([short, len(term[1])]) + bytes(term[1])
            return bytes([short + 0x10]) + len(term[1]).to_bytes(4, "big") + bytes(term[1])
        if term[0] == "symbol":
            # The size is cut to one octet: longer symbols come out damaged.
            return bytes([0xA3, len(term[1]) % 256]) + bytes(term[1])
        if term[0] in ("list", "map"):
            items = term[1] if term[0] == "list" else [one for pair in term[1] for one in pair]
            if not items and term[0] == "list":
                return b"\x45"
            content = b"".join(map(_narrow, items))
            short = 0xC0 if term[0] == "list" else 0xC1
            if len(items) >= 255 or len(content) + 1 >= 256:
                head = bytes([short + 0x10]) + (len(content) + 4).to_bytes(4, "big")
                return head + len(items).to_bytes(4, "big") + content
            return bytes([short, len(content) + 1, len(items)]) + content
    return generate(term)


def _saved(table: FieldTable, section: str) -> bytes | None:
    """Return the octets of a header that stands for a section, which are pasted as they are."""
    for name, letter, value in table.entries:
        if name == _SAVED[section]:
            if letter not in "Sx":
                raise CrashedError(
                    "the 1.0 consumer dies: the header holds no octets", f"headers[{name!r}]"
                )
            return octets(value)
    return None


def _check_stream(table: FieldTable) -> None:
    for name, letter, _ in table.entries:
        if letter == "D" and name not in _SAVED.values():
            raise RefusedError(
                "the publisher's connection is closed: a stream stores no decimal",
                f"headers[{name!r}]",
            )


def _fields(given: BasicProperties, basic: BasicMessage, notes: Notes) -> list[Term]:
    fields: list[Term] = [None] * 13

    def text(value: str | None, kind: str) -> Term:
        return None if value is None else (kind, octets(value))

    fields[0] = text(given.message_id, "utf8")
    fields[1] = text(given.user_id, "utf8")
    if given.user_id is not None:
        notes.add(
            "properties.user-id", "retyped", given.user_id, given.user_id, "it becomes a string"
        )
    fields[3] = ("utf8", octets(basic.routing_key))
    if given.reply_to is not None:
        fields[4] = ("utf8", b"/queue/" + octets(given.reply_to))
    fields[5] = text(given.correlation_id, "utf8")
    fields[6] = text(given.content_type, "symbol")
    fields[7] = text(given.content_encoding, "symbol")
    if given.timestamp is not None:
        seconds = given.timestamp
        number = seconds if isinstance(seconds, int) else int(seconds.timestamp())
        fields[9] = ("timestamp", number)
    return fields


def _assembled(data: bytes) -> tuple[dict[str, Any], list[str], bytes]:
    """Split a message as the plugin does: name -> (content, bytes), body kinds, payload."""
    found: dict[str, Any] = {}
    kinds: list[str] = []
    bodies: list[bytes] = []
    content = b""
    pos = 0
    ended = False
    last = -1
    while pos < len(data):
        start = pos
        term, pos = CODEC_3.parse(data, pos, len(data))
        name, value = _decoded(term)
        if ended:
            raise CrashedError("the connection dies: a section behind the footer", name)
        if name in _BODY:
            kinds.append(name)
            bodies.append(data[start:pos])
            content = value
        elif name == "footer":
            found[name] = (value, data[start:pos])
            ended = True
        elif name in _ORDER and not kinds and _ORDER.index(name) > last:
            last = _ORDER.index(name)
            found[name] = (value, data[start:pos])
        else:
            raise CrashedError(f"the connection dies: it expects no {name} there", name)
    if kinds == ["data"]:
        return found, kinds, content
    return found, kinds, b"".join(reversed(bodies))


def _decoded(term: Term) -> tuple[str, Any]:
    name = section_name(term[1]) if isinstance(term, tuple) and term[0] == "described" else None
    if name is None:
        raise CrashedError("the connection dies: no section of a message")
    value = term[2]
    kind = value[0] if isinstance(value, tuple) else ""
    if name in ("header", "properties"):
        width = 5 if name == "header" else 13
        if kind != "list" or len(value[1]) > width:
            raise CrashedError(f"the connection dies: {name} of the wrong shape", name)
        _check_described(value[1], name)
        return name, [*value[1], *[None] * (width - len(value[1]))]
    if name in ("delivery-annotations", "message-annotations", "application-properties", "footer"):
        if kind != "map":
            raise CrashedError(f"the connection dies: {name} is no map", name)
        _check_described([one for pair in value[1] for one in pair], name)
        return name, value[1]
    if name == "data":
        if kind != "binary":
            raise CrashedError("the connection dies: data is no binary", name)
        return name, value[1]
    if name == "amqp-sequence":
        if kind != "list":
            raise CrashedError("the connection dies: an amqp-sequence is no list", name)
        _check_described(value[1], name)
    elif kind == "list":
        # The list is taken for the fields of a record that has one.
        if len(value[1]) > 1:
            raise CrashedError("the connection dies: a list of several items as amqp-value", name)
        _check_described(value[1], name)
    return name, value


def _check_described(values: list[Term], name: str) -> None:
    if any(isinstance(one, tuple) and one[0] == "described" for one in values):
        raise CrashedError(f"the connection dies: a described value in {name}", name)


def _map_of(term: Term) -> list[Any]:
    if isinstance(term, tuple) and term[0] == "described":
        term = term[2]
    if not (isinstance(term, tuple) and term[0] == "map"):
        raise CrashedError("the connection dies: the header holds no annotations")
    pairs: list[Any] = term[1]
    return pairs


def _transport(made: Any, header: list[Term]) -> None:
    made.delivery_mode = 2 if header[0] is True else 1
    priority = _plain(header[1])
    made.priority = written("priority", priority)
    ttl = header[2]
    if ttl is not None:
        if not (isinstance(ttl, tuple) and ttl[0] == "uint"):
            raise CrashedError("the connection dies: the ttl is no uint", "header.ttl")
        made.expiration = str(ttl[1]).encode()


def _plain(value: Term) -> Any:
    if value is None:
        return None
    if isinstance(value, bool) or len(value) != 2:
        raise CrashedError("the connection dies: a value that cannot be taken out of its type")
    return value[1]


def _text(value: Any) -> Any:
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value
