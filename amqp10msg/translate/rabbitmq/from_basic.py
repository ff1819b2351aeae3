"""How RabbitMQ 4 converts a message that was published over 0-9-1 for a 1.0 consumer.

The rules follow the broker's message containers (modules mc, mc_amqp and mc_amqpl), including the
limits of its codecs.
"""

from __future__ import annotations

import re
import struct
import urllib.parse
from collections.abc import Callable
from typing import Any

from amqp10msg.basic import BasicMessage, BasicProperties, FieldTable
from amqp10msg.basic.tables import as_array, as_table, seconds_of
from amqp10msg.translate.circumstances import Circumstances
from amqp10msg.translate.losses import TO_AMQP10_LOSSES as LOSSES
from amqp10msg.translate.rabbitmq import history
from amqp10msg.translate.rabbitmq.fields import (
    PROPERTY_NAMES,
    checked_headers,
    header_fields,
    invalid_sections_reason,
    octets,
    text,
    utf8_without_nul,
)
from amqp10msg.translate.rabbitmq.history import added_terms, check_typed, redelivery
from amqp10msg.translate.rabbitmq.sections import (
    HEADER_BY_SAVED_SECTION,
    check_filter,
    check_user,
    decode_received,
    decode_section,
    expiration,
    reportable,
    with_metadata,
)
from amqp10msg.translate.rabbitmq.terms import (
    BODY_CODES,
    TYPE_AND_WIDTH_BY_CODE,
    BrokerError,
    CrashedError,
    Term,
    TermReader,
    check_level,
    kind_of,
    section,
    section_name,
)
from amqp10msg.translate.rabbitmq.version import BrokerVersion
from amqp10msg.translate.report import Notes
from amqp10msg.translate.table import ENCODED_SECTIONS_TYPE_PROPERTY
from amqp10msg.translate.to_amqp10_rules import Form, PropertyRule, rules_of
from amqp10msg.wire.kernel.codes import (
    APPLICATION_PROPERTIES_CODE,
    FOOTER_CODE,
    HEADER_CODE,
    MESSAGE_ANNOTATIONS_CODE,
    PROPERTIES_CODE,
)
from amqp10msg.wire.primitives import Float

_DOUBLE_STRUCT = struct.Struct(">d")
_TEXT_TERM_TYPES = ("utf8", "symbol")
_MAX_TEXT_BYTES = 4096  # bytes; the broker treats a longer long string as a binary
# The canonical form of a UUID, and the form that 4.0 accepts, of hexadecimal bytes and dashes.
_CANONICAL_UUID_PATTERN = re.compile(rb"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_LENIENT_UUID_PATTERN = re.compile(rb"(?:[0-9a-fA-F]{2})*(?:-(?:[0-9a-fA-F]{2})*)*")
#: Prefix of the headers that the broker interprets as whole encoded sections.
_SECTION_HEADER_PREFIX = "x-amqp-1.0-"
# The 1.0 type for each 0-9-1 type letter of integers.
_INTEGER_TYPE_BY_LETTER = {
    "b": "byte",
    "B": "ubyte",
    "s": "short",
    "u": "ushort",
    "I": "int",
    "i": "uint",
    "l": "long",
    "L": "long",
}
# The 1.0 type, and the conversion of the value, for other type letters.
_CONVERSION_BY_LETTER: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "t": ("boolean", bool),
    "x": ("binary", bytes),
    "f": ("float", lambda value: Float(value).bits.to_bytes(4, "big")),
    "d": ("double", _DOUBLE_STRUCT.pack),
}


def to_amqp10(
    broker: BrokerVersion, basic: BasicMessage, notes: Notes, circumstances: Circumstances
) -> bytes:
    """Return the encoded message that a 1.0 consumer receives."""
    if basic.properties.user_id is not None:
        check_user(octets(basic.properties.user_id), circumstances.user)
    message = _convert_basic(broker, basic, notes)
    header = message["header"]
    earlier = redelivery(broker, circumstances)
    is_dead_letter = bool(circumstances.deaths) and not broker.stream
    header["first-acquirer"] = not (basic.redelivered or earlier.is_redelivered or is_dead_letter)
    header["delivery-count"] = ("uint", earlier.failed_count)
    annotations = message.get("message-annotations", [])
    if broker.stream:
        check_filter(annotations, "headers")
    route = [(b"x-exchange", basic.exchange), (b"x-routing-key", basic.routing_key)]
    added: list[tuple[bytes, Term]] = [(name, ("utf8", octets(text))) for name, text in route]
    deaths = history.added_annotations(circumstances)
    counts: list[tuple[bytes, Term]] = [(name, ("long", count)) for name, count in earlier.counts]
    modified = added_terms(broker, circumstances)
    check_typed(modified)
    # x-opt-deaths precedes the other annotations, which are sorted by name.
    recorded = [*deaths[:1], *sorted({**dict(counts + deaths[1:]), **modified}.items())]
    if broker.stream and broker.broker_annotations_first:
        names = [name for name, _ in route]
        added = [*(pair for pair in recorded if pair[0] not in names), *added]
    else:
        added += recorded
    _report_replaced(annotations, {name for name, _ in added}, notes)
    sections = [
        section(HEADER_CODE, ("list", [*header.values()])),
        section(MESSAGE_ANNOTATIONS_CODE, ("map", with_metadata(broker, annotations, added))),
    ]
    fields = [*message.get("properties", {}).values()]
    if fields.count(None) < len(fields):
        sections.append(section(PROPERTIES_CODE, ("list", _trim_nulls(broker, fields))))
    if message.get("application-properties"):
        application = ("map", message["application-properties"])
        sections.append(section(APPLICATION_PROPERTIES_CODE, application))
    sections += [section(code, content) for code, content in message["body"]]
    if message.get("footer"):
        sections.append(section(FOOTER_CODE, ("map", message["footer"])))
    encoded = b"".join(sections)
    return _from_stream(broker, encoded, circumstances) if broker.stream else encoded


def _report_replaced(annotations: list[Any], names: set[bytes], notes: Notes) -> None:
    """Report as lost the headers whose annotations the broker replaces with its own annotations."""
    for key, value in annotations:
        if key[1] in names:
            notes.add_dropped(
                f"headers[{text(key[1])!r}]",
                reportable(value),
                "RabbitMQ writes its own annotation of this name",
            )


def _from_stream(broker: BrokerVersion, stored: bytes, circumstances: Circumstances) -> bytes:
    """Return the message that a stream delivers, with a new header and message annotations."""
    message = decode_received(broker, stored)
    header: Any = message.header
    expiration(header, message.annotations)
    annotations = list(message.annotations)
    for name in (b"x-exchange", b"x-routing-key"):
        texts = [value for key, value in annotations if key[1] == name and kind_of(value) == "utf8"]
        if texts:  # if the name is repeated, the last value replaces the first
            annotations = with_metadata(broker, annotations, [(name, texts[-1])])
    if circumstances.stream_offset is not None:
        offset = (b"x-stream-offset", ("long", circumstances.stream_offset))
        annotations = with_metadata(broker, annotations, [offset])
    front = section(HEADER_CODE, ("list", [*header.values()]))
    return (
        front
        + section(MESSAGE_ANNOTATIONS_CODE, ("map", annotations))
        + stored[message.bare_offset :]
    )


def _trim_nulls(broker: BrokerVersion, fields: list[Term]) -> list[Term]:
    """Remove trailing nulls, if this version of the broker does."""
    fields = list(fields)
    while broker.trims_nulls and fields[-1] is None:
        fields.pop()
    return fields


def _convert_basic(broker: BrokerVersion, basic: BasicMessage, notes: Notes) -> dict[str, Any]:
    """Return the sections for a 0-9-1 message, as `_group_sections` does."""
    properties = basic.properties
    table = checked_headers(properties)
    for index, entry in enumerate(table.entries):
        if entry[0] == "BCC":
            notes.add_defined(LOSSES["hidden-routes"], "headers['BCC']", entry[2])
            table = FieldTable.of([*table.entries[:index], *table.entries[index + 1 :]])
            break
    has_sections = any(entry[0].startswith(_SECTION_HEADER_PREFIX) for entry in table.entries)
    mode = properties.delivery_mode
    if mode not in (None, 1, 2):
        notes.add("properties.delivery-mode", "retyped", mode, False, "only 2 is durable")
    header = header_fields(properties, notes)
    ttl = None if header["ttl"] is None else header["ttl"][1]
    if ttl is not None and ttl < 2**32 and properties.expiration != str(ttl):
        notes.add(
            "properties.expiration",
            "retyped",
            properties.expiration,
            ttl,
            "the number is kept, its digits are not",
        )
    parts: list[tuple[str, Any]] = [("header", header)]
    for name in ("message-annotations", "properties", "application-properties"):
        part = _section_of_header(broker, table, name) if has_sections else None
        if part is not None and name == "properties":
            # The broker converts the properties, which may crash, although it ignores the result.
            _properties_section(broker, properties, Notes(enabled=False))
        if part is None and name == "message-annotations":
            part = name, _annotations_section(table, properties, notes)
        elif part is None and name == "properties":
            part = name, _properties_section(broker, properties, notes)
        elif part is None:
            part = name, _application_properties_section(table, notes)
        parts.append(part)
    if properties.type == ENCODED_SECTIONS_TYPE_PROPERTY:
        parts += _decode_marked_body(broker, basic.body)
    else:
        parts.append(("data", ("binary", basic.body)))
    footer = _section_of_header(broker, table, "footer") if has_sections else None
    if footer is not None:
        if footer[0] != "footer":
            raise CrashedError("the 1.0 consumer's session dies: the header is not a footer")
        parts.append(footer)
    try:
        return _group_sections(parts)
    except BrokerError as error:
        if properties.type != ENCODED_SECTIONS_TYPE_PROPERTY:
            raise
        raise type(error)(invalid_sections_reason(None, error.reason), "body") from None


def _decode_marked_body(broker: BrokerVersion, body: bytes) -> list[tuple[str, Any]]:
    """Decode a body that consists of encoded 1.0 sections, according to the property type.

    Raises:
        BrokerError: the broker cannot decode it.
    """
    reader = TermReader(broker.codec, body, 0)
    terms: list[tuple[int, Term]] = []
    start = 0
    try:
        while reader.pos < reader.end:
            start = reader.pos
            terms.append((start, reader.term()))
        parts = []
        for offset, term in terms:
            start = offset
            parts.append(_interpret_section(term))
    except BrokerError as error:
        raise type(error)(invalid_sections_reason(start, error.reason), "body") from None
    return parts


def _group_sections(parts: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the decoded sections by name, and all body sections as a list under ``body``.

    A repeated section replaces the earlier one, and an amqp-value section replaces the whole body.
    """
    sections: dict[str, Any] = {}
    body: list[tuple[int, Term]] = []
    for name, content in parts:
        code = BODY_CODES.get(name)
        if code is None:
            sections[name] = content
            continue
        if code == BODY_CODES["amqp-value"]:
            body = []
        elif body and body[-1][0] == BODY_CODES["amqp-value"]:
            raise CrashedError(
                "the 1.0 consumer's session dies: a body section follows an amqp-value section",
                "body",
            )
        body.append((code, content))
    for code, content in body:
        if content is None and code == BODY_CODES["data"]:
            raise CrashedError("the session dies: data is not a binary", "data")
        if content is None and code == BODY_CODES["amqp-sequence"]:
            raise CrashedError("the session dies: amqp-sequence is not a list", "amqp-sequence")
    return {**sections, "body": body}


def _section_of_header(
    broker: BrokerVersion, table: FieldTable, section: str
) -> tuple[str, Any] | None:
    """Decode the header that replaces a whole section; None if there is no such header."""
    name = HEADER_BY_SAVED_SECTION[section]
    if name not in table or table.letter(name) not in "Sx":
        return None
    path = f"headers[{name!r}]"
    try:
        parsed = broker.codec.parse_all(octets(table[name]))
    except BrokerError as error:
        text = f"RabbitMQ reads this header as an encoded section: {error.reason}"
        raise type(error)(text, path) from None
    if len(parsed) != 1:
        raise CrashedError(
            "the 1.0 consumer's session dies: the header does not contain exactly one section", path
        )
    return _interpret_section(parsed[0])


def _interpret_section(term: Term) -> tuple[str, Any]:
    """Return the name and content of a section in a header or in the payload."""
    is_described = kind_of(term) == "described"
    if is_described and section_name(term[1]) == "amqp-sequence" and kind_of(term[2]) == "map":
        return "amqp-sequence", None  # becomes an error, unless an amqp-value section follows
    if is_described and section_name(term[1]) == "data" and kind_of(term[2]) in _TEXT_TERM_TYPES:
        return "data", None  # becomes an error, unless an amqp-value section follows
    name, content = decode_section(term)
    if name == "footer" and kind_of(term[2]) == "list":
        raise CrashedError("the 1.0 consumer's session dies: footer is not a map", "footer")
    return name, content


def property_fields(broker: BrokerVersion, properties: BasicProperties) -> dict[str, Term]:
    """Convert properties of class basic to fields of the properties section."""
    fields: dict[str, Term] = dict.fromkeys(PROPERTY_NAMES)
    rules = [rule for rule in rules_of(broker).properties if rule.section == PROPERTIES_CODE]
    # The broker converts ids first, so their errors have precedence.
    for rule in sorted(rules, key=lambda rule: (rule.form != Form.BROKER_ID, rule.field_index)):
        value = getattr(properties, rule.name)
        if value is not None:
            fields[PROPERTY_NAMES[rule.field_index]] = _property_term(broker, rule, value)
    return fields


def _property_term(broker: BrokerVersion, rule: PropertyRule, value: Any) -> Term:
    """Convert a property to the term for its field."""
    if rule.form == Form.SECONDS:
        return ("timestamp", seconds_of(value) * 1000)
    if rule.form == Form.SAME_NUMBER_OF_MS:
        return ("timestamp", seconds_of(value))
    if rule.form == Form.BROKER_ID:
        return _id_term(broker, value, rule.wire_name)
    if rule.form == Form.ADDRESS:
        return ("utf8", _reply_address(broker, octets(value)))
    return (TYPE_AND_WIDTH_BY_CODE[rule.text_constructor][0], octets(value))


def _properties_section(
    broker: BrokerVersion, properties: BasicProperties, notes: Notes
) -> dict[str, Term]:
    """Return the fields of the properties section, and report the losses of properties."""
    fields = property_fields(broker, properties)
    if properties.timestamp is not None:
        milliseconds = fields["creation-time"][1]
        if milliseconds >= 2**63:
            notes.add(
                "properties.timestamp",
                "wrapped",
                properties.timestamp,
                (milliseconds + 2**63) % 2**64 - 2**63,
                "the milliseconds wrapped modulo 2^64",
            )
    app_id, cluster_id = properties.app_id, properties.cluster_id
    if app_id is not None:
        notes.add_defined(LOSSES["app-id"], "properties.app-id", app_id, app_id)
    if cluster_id is not None:
        notes.add_defined(LOSSES["cluster-id"], "properties.cluster-id", cluster_id)
    return fields


def _reply_address(broker: BrokerVersion, queue: bytes) -> bytes:
    """Return the address for a reply-to that names a queue."""
    prefix = rules_of(broker).address_prefix.encode()
    if broker.is_plugin or not prefix:
        return prefix + queue
    if queue.isalnum():
        return prefix + queue
    try:
        return prefix + urllib.parse.quote(queue.decode("utf-8"), safe="-._~").encode()
    except UnicodeDecodeError:
        raise CrashedError(
            "the 1.0 consumer's session dies: the queue's name is not valid UTF-8",
            "properties.reply-to",
        ) from None


def _application_properties_section(table: FieldTable, notes: Notes) -> list[Any]:
    pairs = []
    for name, letter, value in table.entries:
        if name.startswith("x-") or (name, letter) == ("CC", "A"):
            continue
        path = f"headers[{name!r}]"
        if letter in "AF":
            notes.add_defined(LOSSES["nested"], path, value)
        else:
            pairs.append((("utf8", octets(name)), _field_term(letter, value, path, notes, 0)))
    return pairs


def _annotations_section(table: FieldTable, properties: BasicProperties, notes: Notes) -> list[Any]:
    pairs = []
    for name, letter, value in table.entries:
        path = f"headers[{name!r}]"
        if name.startswith("x-"):
            key = octets(name)
        elif (name, letter) == ("CC", "A"):
            key = b"x-cc"
        else:
            continue
        pairs.append((("symbol", key), _field_term(letter, value, path, notes, 0)))
        if name == "CC":
            notes.add_defined(LOSSES["routes"], path, value, value)
    kind = properties.type
    if kind is not None:
        pairs.insert(0, (("symbol", b"x-basic-type"), ("utf8", octets(kind))))
        notes.add_defined(LOSSES["type"], "properties.type", kind, kind)
    return pairs


def _id_term(broker: BrokerVersion, text: Any, name: str) -> Term:
    """Convert a message-id or correlation-id to a term: a uuid or a string."""
    data = octets(text)
    digits = data[9:]
    if not (data.startswith(b"urn:uuid:") and len(data) == 45) or (
        broker.requires_canonical_uuids and not _CANONICAL_UUID_PATTERN.fullmatch(digits)
    ):
        return ("utf8", data)
    if not _LENIENT_UUID_PATTERN.fullmatch(digits):
        raise CrashedError(
            "the 1.0 consumer's session dies: the uuid is not hexadecimal", f"properties.{name}"
        )
    value = bytes.fromhex(digits.replace(b"-", b"").decode())
    if len(value) < 16:
        raise CrashedError(
            "the 1.0 consumer's session dies: the uuid is too short", f"properties.{name}"
        )
    return ("uuid", value)


def _field_term(letter: str, value: Any, path: str, notes: Notes, level: int) -> Term:
    """Convert a 0-9-1 field to a term; `level` is the field's depth of nesting."""
    if letter == "S":
        data = octets(value)
        if len(data) <= _MAX_TEXT_BYTES and utf8_without_nul(data):
            return ("utf8", data)
        notes.add_defined(LOSSES["no-text"], path, "S", "binary")
        return ("binary", data)
    if letter in _INTEGER_TYPE_BY_LETTER:
        return (_INTEGER_TYPE_BY_LETTER[letter], value)
    if letter in _CONVERSION_BY_LETTER:
        kind, convert = _CONVERSION_BY_LETTER[letter]
        return (kind, convert(value))
    if letter == "T":
        milliseconds = seconds_of(value) * 1000
        if milliseconds >= 2**63:
            notes.add(path, "wrapped", value, None, "the milliseconds wrapped modulo 2^64")
        return ("timestamp", milliseconds)
    if letter == "V":
        return None
    if letter in "AF":
        check_level(level)
    if letter == "A":
        items = as_array(value).entries
        return "list", [_field_term(kind, item, path, notes, level + 1) for kind, item in items]
    if letter == "F":
        return (
            "map",
            [
                (("symbol", octets(name)), _field_term(kind, item, path, notes, level + 1))
                for name, kind, item in as_table(value).entries
            ],
        )
    raise CrashedError(
        f"the 1.0 consumer's session dies: RabbitMQ cannot convert the field type {letter!r}", path
    )
