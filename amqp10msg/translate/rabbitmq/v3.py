"""How RabbitMQ 3.10 with its AMQP 1.0 plugin converts messages between 0-9-1 and 1.0.

The rules follow the plugin's message module and, for streams, the record that streams store. The
plugin stores whole sections in headers, and restores sections from such headers. It copies the
bytes without decoding them, so it may deliver bytes that are not a valid message.
"""

from __future__ import annotations

from typing import Any

from amqp10msg.basic import BasicMessage, BasicProperties, FieldTable
from amqp10msg.basic.tables import as_array, seconds_of
from amqp10msg.brokers import STREAM_OFFSET
from amqp10msg.translate.circumstances import Circumstances
from amqp10msg.translate.losses import TO_AMQP10_LOSSES as LOSSES
from amqp10msg.translate.losses import TO_BASIC_LOSSES
from amqp10msg.translate.rabbitmq import history
from amqp10msg.translate.rabbitmq.fields import (
    check_reply_to,
    checked_headers,
    delivered_property,
    header_fields,
    octets,
    signed,
    text,
    whole_seconds,
)
from amqp10msg.translate.rabbitmq.from_basic import property_fields
from amqp10msg.translate.rabbitmq.history import redelivery
from amqp10msg.translate.rabbitmq.sections import HEADER_BY_SAVED_SECTION as _SAVED
from amqp10msg.translate.rabbitmq.sections import check_user, fields_of
from amqp10msg.translate.rabbitmq.terms import (
    CODEC_3_10,
    CrashedError,
    RefusedError,
    Term,
    TermReader,
    generate,
    section_name,
    untyped,
)
from amqp10msg.translate.rabbitmq.to_basic import report_delivery_count
from amqp10msg.translate.rabbitmq.version import BrokerVersion
from amqp10msg.translate.report import Notes
from amqp10msg.translate.table import ENCODED_SECTIONS_TYPE_PROPERTY

_BODY_SECTIONS = ("data", "amqp-sequence", "amqp-value")
_MAP_SECTIONS = ("delivery-annotations", "message-annotations", "application-properties", "footer")
_SECTION_ORDER = ("header", "message-annotations", "properties", "application-properties")
_NUMBER_LETTERS = "bBsuIilLT"  # type letters of numbers in 0-9-1
_COPIED_PROPERTIES = ("message_id", "user_id", "correlation_id", "content_type", "content_encoding")


def to_amqp10(
    broker: BrokerVersion, basic: BasicMessage, notes: Notes, circumstances: Circumstances
) -> bytes:
    """Return the encoded message that a 1.0 consumer receives."""
    properties = basic.properties
    if properties.user_id is not None:
        check_user(octets(properties.user_id), circumstances.user)
    table = checked_headers(properties)
    if properties.delivery_mode not in (None, 1, 2):
        raise RefusedError(
            f"publishing fails (406): unknown delivery mode {properties.delivery_mode}",
            "properties.delivery-mode",
        )
    is_redelivered = redelivery(broker, circumstances).is_redelivered
    header = header_fields(properties, notes)
    header["first-acquirer"] = not (basic.redelivered or is_redelivered)
    if broker.stream:
        _check_storable(table)
        _check_deaths(circumstances)
    elif circumstances.deaths:
        header["ttl"] = None  # a dead letter must not expire again
        _check_sender_deaths(table)
    stored = table
    if broker.stream:  # a stream does not store arrays and tables
        stored = FieldTable.of([entry for entry in table.entries if entry[1] not in "AF"])
    saved = {name: _section_of_header(stored, name) for name in _SAVED}
    for name, letter, value in table.entries:
        if name not in _SAVED.values() or (broker.stream and letter in "AF"):
            notes.add_defined(LOSSES["header"], f"headers[{name!r}]", value)
    for name in ("type", "app_id", "cluster_id"):
        value = getattr(properties, name)
        if value is not None and not (name == "type" and value == ENCODED_SECTIONS_TYPE_PROPERTY):
            notes.add_defined(LOSSES["left-out"], f"properties.{name.replace('_', '-')}", value)
    timestamp = properties.timestamp
    if timestamp is not None:
        notes.add_defined(LOSSES["moment"], "properties.timestamp", timestamp, timestamp)
    offset = circumstances.stream_offset if broker.stream else _sender_offset(table)
    annotations = saved["message-annotations"] or b""
    if broker.stream or offset is not None:
        annotations = _add_offset(annotations, offset)
    body = basic.body
    if properties.type != ENCODED_SECTIONS_TYPE_PROPERTY:
        body = b"\x00\x53\x75" + _encode_as_3_10(("binary", basic.body))
    properties_section = saved["properties"]
    if properties_section is None:
        fields = property_fields(broker, properties)
        fields["subject"] = ("utf8", octets(basic.routing_key))
        user_id = properties.user_id
        if user_id is not None:
            notes.add_defined(LOSSES["user"], "properties.user-id", user_id, user_id)
        if broker.stream and fields["creation-time"] is not None:
            fields["creation-time"] = ("timestamp", _stored_seconds(fields["creation-time"][1]))
        properties_section = b"\x00\x53\x73" + _encode_as_3_10(("list", [*fields.values()]))
    return b"".join(
        (
            b"\x00\x53\x70" + _encode_as_3_10(("list", [*header.values()])),
            annotations,
            properties_section,
            saved["application-properties"] or b"",
            body,
            saved["footer"] or b"",
        )
    )


def _check_deaths(circumstances: Circumstances) -> None:
    """Raise CrashedError for a dead letter: RabbitMQ 3.10 loses it instead of storing it."""
    if circumstances.deaths:
        raise CrashedError("the message is lost: streams do not accept dead letters")


def _check_sender_deaths(table: FieldTable) -> None:
    """Raise CrashedError if the sender set an x-death header that the broker cannot extend."""
    is_array = "x-death" in table and table.letter("x-death") == "A"
    if is_array and any(entry[0] != "F" for entry in as_array(table["x-death"]).entries):
        raise CrashedError(
            "the message is lost when it is dead-lettered: an entry of x-death is not a table",
            "headers['x-death']",
        )


def _sender_offset(table: FieldTable) -> int | None:
    """Return the stream offset that the sender set as a header, or None; the plugin delivers it."""
    if STREAM_OFFSET not in table:
        return None
    if table.letter(STREAM_OFFSET) not in _NUMBER_LETTERS:
        raise CrashedError(
            "the 1.0 consumer dies: the offset is not a number", f"headers[{STREAM_OFFSET!r}]"
        )
    return int(seconds_of(table[STREAM_OFFSET]))


def _add_offset(saved: bytes, offset: int | None) -> bytes:
    """Check the encoded annotations in a header, and add the stream offset unless it is None.

    The plugin decodes these annotations only if it adds an offset.
    """
    terms = CODEC_3_10.parse_all(saved)
    if len(terms) > 1:
        raise CrashedError("the 1.0 consumer dies: the header has bytes after the annotations")
    pairs: list[Any] = _annotation_pairs(terms[0]) if terms else []
    if any(value is None for pair in pairs for value in pair):
        raise CrashedError("the 1.0 consumer dies: a null in the annotations")
    if offset is None:
        return saved
    # The plugin writes the key as a string instead of a symbol. It truncates a negative offset to
    # its last byte, with the constructor smallulong even if that byte is 0.
    number = ("ulong", offset) if offset >= 0 else ("as_is", 0x53, bytes([offset % 256]))
    return b"\x00\x53\x72" + _encode_as_3_10(
        ("map", [(("utf8", STREAM_OFFSET.encode()), number), *pairs])
    )


# Conversion from 1.0 to 0-9-1.


def to_basic(
    broker: BrokerVersion, data: bytes, notes: Notes, circumstances: Circumstances
) -> BasicMessage:
    """Return the 0-9-1 message that a consumer receives."""
    if not data:
        raise RefusedError("refused: the message is empty")
    sections, body, payload = split_message(data)
    properties = BasicProperties()
    if "header" in sections:
        _set_transport(properties, sections["header"][0])
        report_delivery_count(sections["header"][0], notes)
    earlier = redelivery(broker, circumstances)
    headers: list[tuple[bytes, str, Any]] = []
    for name, header in _SAVED.items():
        if name in sections:
            headers.append((header.encode(), "S", sections[name][1]))
            notes.add_defined(TO_BASIC_LOSSES["saved-section"], name, name, header)
    if "properties" in sections:
        _set_properties(properties, sections["properties"][0], circumstances.user)
    if body:
        properties.type = "binary" if body == ["data"] else ENCODED_SECTIONS_TYPE_PROPERTY
    if len(body) > 1:
        notes.add("body", "retyped", len(body), 1, "the sections are in reverse order")
    if broker.stream:
        _check_deaths(circumstances)
        headers = _store_in_stream(properties, headers)
        if circumstances.stream_offset is not None:
            headers.append((STREAM_OFFSET.encode(), "l", circumstances.stream_offset))
    else:
        headers += [(name, "l", count) for name, count in earlier.counts]
        headers += history.added_headers(circumstances, is_old=True)
        if circumstances.deaths:
            properties.expiration = None
    if headers:
        properties.headers = FieldTable.of(
            [
                (name.decode(), letter, text(value) if isinstance(value, bytes) else value)
                for name, letter, value in sorted(headers, key=lambda header: header[0])
            ]
        )
    for name in (*_COPIED_PROPERTIES, "reply_to", "expiration", "timestamp"):
        setattr(properties, name, delivered_property(name, getattr(properties, name)))
    return BasicMessage(properties, payload, redelivered=earlier.is_redelivered)


def _set_properties(properties: Any, fields: dict[str, Term], user: str | None) -> None:
    """Set properties from the fields of the properties section."""
    user_id = _unwrap(fields["user-id"])
    if user_id is not None:
        if not isinstance(user_id, bytes):
            raise RefusedError("refused: the user-id is not text", "properties.user-id")
        check_user(user_id, user)
    properties.user_id = user_id
    _unwrap(fields["subject"])  # the plugin unwraps the subject, and may crash
    for name in ("message-id", "correlation-id", "reply-to", "content-type", "content-encoding"):
        setattr(properties, name.replace("-", "_"), _unwrap(fields[name]))
    if isinstance(properties.reply_to, bytes):
        properties.reply_to = properties.reply_to.removeprefix(b"/queue/")
        check_reply_to(properties.reply_to)
    properties.timestamp = _unwrap(fields["creation-time"])


def _store_in_stream(
    properties: Any, headers: list[tuple[bytes, str, Any]]
) -> list[tuple[bytes, str, Any]]:
    """Change properties as a stream does when it stores them; return the headers.

    A stream moves a message-id or correlation-id of more than 256 bytes to a header.
    """
    for name in ("message_id", "correlation_id"):
        value = getattr(properties, name)
        if isinstance(value, bytes) and len(value) > 256:
            headers = [*headers, (f"x-{name.replace('_', '-')}".encode(), "S", value)]
            setattr(properties, name, None)
    if type(properties.timestamp) is int:
        properties.timestamp = _stored_seconds(properties.timestamp)
    return headers


def _stored_seconds(seconds: int) -> int:
    """Return seconds as a stream reads them back, which stores milliseconds in 64 bits."""
    return whole_seconds(signed(seconds * 1000 % 2**64))


def _encode_as_3_10(term: Term) -> bytes:
    """Encode a term as RabbitMQ 3.10 does."""
    return generate(term, is_old=True)


def _section_of_header(table: FieldTable, section: str) -> bytes | None:
    """Return the bytes of the header that contains a section; the plugin does not check them."""
    name = _SAVED[section]
    if name not in table:
        return None
    letter, value = table.letter(name), table[name]
    if letter in "Sx":
        return octets(value)
    # In Erlang iodata, a number below 256 is a byte, and an empty list has no bytes.
    if isinstance(value, int) and letter in _NUMBER_LETTERS and 0 <= value < 256:
        return bytes([value])
    if letter in "AF" and not len(value):
        return b""
    raise CrashedError(
        "the 1.0 consumer dies: the header cannot be converted to bytes", f"headers[{name!r}]"
    )


def _check_storable(table: FieldTable) -> None:
    """Raise BrokerError for headers that a stream cannot store or deliver."""
    for name, letter, _ in table.entries:
        if letter == "D" and name not in _SAVED.values():
            raise RefusedError(
                "the publisher's connection is closed: a stream cannot store a decimal",
                f"headers[{name!r}]",
            )
        if name in ("CC", "BCC") and letter not in "AF":
            raise CrashedError(
                f"the 1.0 consumer's session dies: {name} is neither an array nor a table",
                f"headers[{name!r}]",
            )


def split_message(data: bytes) -> tuple[dict[str, Any], list[str], bytes]:
    """Split a message as the plugin does.

    Returns:
        The content and bytes of each section before and after the body, by name; the names of the
        body sections; and the payload.
    """
    sections: dict[str, Any] = {}
    kinds: list[str] = []
    bodies: list[bytes] = []
    content = b""
    reader = TermReader(CODEC_3_10, data, 0)
    has_footer = False
    last = -1
    while reader.pos < reader.end:
        start = reader.pos
        name, value = _decode_section(reader.term())
        pos = reader.pos
        if has_footer:
            raise CrashedError("the connection dies: a section after the footer", name)
        if name in _BODY_SECTIONS:
            kinds.append(name)
            bodies.append(data[start:pos])
            content = value
        elif name == "footer":
            sections[name] = (value, data[start:pos])
            has_footer = True
        elif name in _SECTION_ORDER and not kinds and _SECTION_ORDER.index(name) > last:
            last = _SECTION_ORDER.index(name)
            sections[name] = (value, data[start:pos])
        else:
            raise CrashedError(f"the connection dies: {name} is in the wrong place", name)
    if kinds == ["data"]:
        if not isinstance(content, bytes):
            raise CrashedError("the connection dies: data is not a binary", "body")
        return sections, kinds, content
    return sections, kinds, b"".join(reversed(bodies))


def _decode_section(term: Term) -> tuple[str, Any]:
    """Return the name and content of a section, after the checks that the plugin makes."""
    name = section_name(term[1]) if isinstance(term, tuple) and term[0] == "described" else None
    if name is None:
        raise CrashedError("the connection dies: a value is not a section of a message")
    value = term[2]
    kind = value[0] if isinstance(value, tuple) else ""
    if name in ("header", "properties"):
        return name, fields_of(name, value)
    if kind == "list" and name != "amqp-sequence":
        # The plugin treats the list as the fields of a record that has a single field.
        if len(value[1]) > 1:
            raise CrashedError(f"the connection dies: {name} is a list of several items", name)
        _check_described(value[1], name)
        return name, [] if name in _MAP_SECTIONS else value
    if name in _MAP_SECTIONS:
        if kind != "map":
            raise CrashedError(f"the connection dies: {name} is not a map", name)
        _check_described([item for pair in value[1] for item in pair], name)
        return name, value[1]
    if name == "data":
        return name, value[1] if kind == "binary" else value
    if name == "amqp-sequence":
        if kind not in ("list", "map"):
            raise CrashedError("the connection dies: an amqp-sequence is not a list", name)
        if kind == "list":
            _check_described(value[1], name)
    return name, value


def _check_described(values: list[Term], name: str) -> None:
    """Raise CrashedError if a value in a section is described."""
    if any(isinstance(value, tuple) and value[0] == "described" for value in values):
        raise CrashedError(f"the connection dies: a described value in {name}", name)


def _annotation_pairs(term: Term) -> list[Any]:
    """Return the annotations in a term that must be a message-annotations section."""
    name, pairs = _decode_section(term)
    if name != "message-annotations":
        raise CrashedError("the 1.0 consumer dies: the header does not contain message-annotations")
    return list(pairs)


def _set_transport(properties: Any, header: dict[str, Term]) -> None:
    """Set delivery-mode, priority and expiration from the fields of the header section."""
    properties.delivery_mode = 2 if header["durable"] is True else 1
    priority = _unwrap(header["priority"])
    properties.priority = delivered_property("priority", priority)
    ttl = header["ttl"]
    if ttl is not None:
        if not (isinstance(ttl, tuple) and ttl[0] == "uint"):
            raise CrashedError("the connection dies: the ttl is not a uint", "header.ttl")
        properties.expiration = str(ttl[1]).encode()


def _unwrap(value: Term) -> Any:
    """Return the value that a term wraps, as the plugin does for any type."""
    if value is None:
        return None
    if isinstance(value, bool) or len(value) != 2:
        raise CrashedError("the connection dies: a value cannot be unwrapped")
    return value[1].to_bytes(4, "big") if value[0] == "char" else untyped(value)
