"""What RabbitMQ 4 makes of a message that is published over 0-9-1 for a consumer of 1.0.

Rules of its message containers (modules mc, mc_amqp and mc_amqpl of the broker), its codecs' limits
included.
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
    no_sections,
    octets,
    text,
    utf8_without_nul,
)
from amqp10msg.translate.rabbitmq.history import added_terms, check_typed, redelivery
from amqp10msg.translate.rabbitmq.sections import (
    SAVED_SECTIONS,
    check_filter,
    check_user,
    decoded,
    expiration,
    received,
    shown,
    with_metadata,
)
from amqp10msg.translate.rabbitmq.terms import (
    BODY_CODES,
    CODES,
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
from amqp10msg.translate.table import MARKER
from amqp10msg.translate.to_amqp10_rules import Form, PropertyRule, rules_of
from amqp10msg.wire.kernel.codes import (
    APPLICATION_PROPERTIES_CODE,
    FOOTER_CODE,
    HEADER_CODE,
    MESSAGE_ANNOTATIONS_CODE,
    PROPERTIES_CODE,
)
from amqp10msg.wire.primitives import Float

_F64 = struct.Struct(">d")
_TEXTS = ("utf8", "symbol")
_LONGSTR_TEXT = 4096
# A uuid in its usual form, and what version 4.0 reads as one: parts of whole bytes.
_CANONICAL = re.compile(rb"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_PAIRS = re.compile(rb"(?:[0-9a-fA-F]{2})*(?:-(?:[0-9a-fA-F]{2})*)*")
#: What stands for whole sections, by its beginning.
_FORGING = "x-amqp-1.0-"
_NUMBERS = {
    "b": "byte",
    "B": "ubyte",
    "s": "short",
    "u": "ushort",
    "I": "int",
    "i": "uint",
    "l": "long",
    "L": "long",
}
_PLAIN: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "t": ("boolean", bool),
    "x": ("binary", bytes),
    "f": ("float", lambda value: Float(value).bits.to_bytes(4, "big")),
    "d": ("double", _F64.pack),
}


def to_amqp10(
    broker: BrokerVersion, basic: BasicMessage, notes: Notes, given: Circumstances
) -> bytes:
    """Return the bytes that a 1.0 consumer receives."""
    if basic.properties.user_id is not None:
        check_user(octets(basic.properties.user_id), given.user)
    found = _from_basic(broker, basic, notes)
    header = found["header"]
    before = redelivery(broker, given)
    died = bool(given.deaths) and not broker.stream
    header["first-acquirer"] = not (basic.redelivered or before.again or died)
    header["delivery-count"] = ("uint", before.failed)
    annotations = found.get("message-annotations", [])
    if broker.stream:
        check_filter(annotations, "headers")
    own = [(b"x-exchange", basic.exchange), (b"x-routing-key", basic.routing_key)]
    added: list[tuple[bytes, Term]] = [(name, ("utf8", octets(text))) for name, text in own]
    told = history.added_annotations(given)
    counts: list[tuple[bytes, Term]] = [(name, ("long", count)) for name, count in before.counts]
    said = added_terms(broker, given)
    check_typed(said)
    # After x-opt-deaths they stand in the order of their names.
    told = [*told[:1], *sorted({**dict(counts + told[1:]), **said}.items())]
    if broker.stream and broker.metadata_first:
        names = [name for name, _ in own]
        added = [*(one for one in told if one[0] not in names), *added]
    else:
        added += told
    _report_replaced(annotations, {name for name, _ in added}, notes)
    sections = [
        section(HEADER_CODE, ("list", [*header.values()])),
        section(MESSAGE_ANNOTATIONS_CODE, ("map", with_metadata(broker, annotations, added))),
    ]
    fields = [*found.get("properties", {}).values()]
    if fields.count(None) < len(fields):
        sections.append(section(PROPERTIES_CODE, ("list", _trimmed(broker, fields))))
    if found.get("application-properties"):
        application = ("map", found["application-properties"])
        sections.append(section(APPLICATION_PROPERTIES_CODE, application))
    sections += [section(code, content) for code, content in found["body"]]
    if found.get("footer"):
        sections.append(section(FOOTER_CODE, ("map", found["footer"])))
    delivered = b"".join(sections)
    return _from_stream(broker, delivered, given) if broker.stream else delivered


def _report_replaced(annotations: list[Any], names: set[bytes], notes: Notes) -> None:
    """Report headers whose annotations the broker replaces with its own of the same names."""
    for key, value in annotations:
        if key[1] in names:
            notes.dropped(
                f"headers[{text(key[1])!r}]",
                shown(value),
                "RabbitMQ writes its own annotation of this name",
            )


def _from_stream(broker: BrokerVersion, stored: bytes, given: Circumstances) -> bytes:
    """Read a message out of a stream, and write again what stands before the bare message."""
    found = received(broker, stored)
    header: Any = found.header
    expiration(header, found.annotations)
    added = list(found.annotations)
    for name in (b"x-exchange", b"x-routing-key"):
        said = [value for key, value in added if key[1] == name and kind_of(value) == "utf8"]
        if said:  # the last text is read, and written in the place of the first of the name
            added = with_metadata(broker, added, [(name, said[-1])])
    if given.stream_offset is not None:
        added = with_metadata(broker, added, [(b"x-stream-offset", ("long", given.stream_offset))])
    front = section(HEADER_CODE, ("list", [*header.values()]))
    return front + section(MESSAGE_ANNOTATIONS_CODE, ("map", added)) + stored[found.bare :]


def _trimmed(broker: BrokerVersion, fields: list[Term]) -> list[Term]:
    fields = list(fields)
    while broker.trims and fields[-1] is None:
        fields.pop()
    return fields


def _from_basic(broker: BrokerVersion, basic: BasicMessage, notes: Notes) -> dict[str, Any]:
    given = basic.properties
    table = checked_headers(given)
    for place, entry in enumerate(table.entries):
        if entry[0] == "BCC":
            notes.tell(LOSSES["hidden-routes"], "headers['BCC']", entry[2])
            table = FieldTable.of([*table.entries[:place], *table.entries[place + 1 :]])
            break
    forged = any(entry[0].startswith(_FORGING) for entry in table.entries)
    if given.delivery_mode not in (None, 1, 2):
        notes.add(
            "properties.delivery-mode", "retyped", given.delivery_mode, False, "only 2 is durable"
        )
    header = header_fields(given, notes)
    ttl = None if header["ttl"] is None else header["ttl"][1]
    if ttl is not None and ttl < 2**32 and given.expiration != str(ttl):
        notes.add(
            "properties.expiration",
            "retyped",
            given.expiration,
            ttl,
            "the number is kept, its digits are not",
        )
    parts: list[tuple[str, Any]] = [("header", header)]
    for name in ("message-annotations", "properties", "application-properties"):
        part = _forged(broker, table, name) if forged else None
        if part is not None and name == "properties":
            _properties(broker, given, Notes(enabled=False))  # which it fails on all the same
        if part is None and name == "message-annotations":
            part = name, _annotations(table, given, notes)
        elif part is None and name == "properties":
            part = name, _properties(broker, given, notes)
        elif part is None:
            part = name, _application_properties(table, notes)
        parts.append(part)
    if given.type == MARKER:
        parts += _marked_body(broker, basic.body)
    else:
        parts.append(("data", ("binary", basic.body)))
    footer = _forged(broker, table, "footer") if forged else None
    if footer is not None:
        if footer[0] != "footer":
            raise CrashedError("the 1.0 consumer's session dies: the header holds no footer")
        parts.append(footer)
    try:
        return _folded(parts)
    except BrokerError as error:
        if given.type != MARKER:
            raise
        raise type(error)(no_sections(None, error.reason), "body") from None


def _marked_body(broker: BrokerVersion, body: bytes) -> list[tuple[str, Any]]:
    """Read a body whose type says that it is encoded sections of AMQP 1.0.

    Raises:
        BrokerError: it is something else, on which the broker fails.
    """
    reader = TermReader(broker.codec, body, 0)
    terms: list[tuple[int, Term]] = []
    start = 0
    try:
        while reader.pos < reader.end:
            start = reader.pos
            terms.append((start, reader.term()))
        parts = []
        for place, term in terms:
            start = place
            parts.append(_section(term))
    except BrokerError as error:
        raise type(error)(no_sections(start, error.reason), "body") from None
    return parts


def _folded(parts: list[tuple[str, Any]]) -> dict[str, Any]:
    """Put sections together: the last of each name, but of data and amqp-sequence all."""
    found: dict[str, Any] = {}
    body: list[tuple[int, Term]] = []
    for name, content in parts:
        code = BODY_CODES.get(name)
        if code is None:
            found[name] = content
            continue
        if code == BODY_CODES["amqp-value"]:
            body = []
        elif body and body[-1][0] == BODY_CODES["amqp-value"]:
            raise CrashedError("the 1.0 consumer's session dies: a section after a value", "body")
        body.append((code, content))
    for code, content in body:
        if content is None and code == BODY_CODES["data"]:
            raise CrashedError("the session dies: data is not a binary", "data")
        if content is None and code == BODY_CODES["amqp-sequence"]:
            raise CrashedError("the session dies: amqp-sequence is not a list", "amqp-sequence")
    return {**found, "body": body}


def _forged(broker: BrokerVersion, table: FieldTable, section: str) -> tuple[str, Any] | None:
    """Read the header that stands for a whole section, which the broker believes."""
    name = SAVED_SECTIONS[section]
    if name not in table or table.letter(name) not in "Sx":
        return None
    try:
        parsed = broker.codec.parse_all(octets(table[name]))
    except BrokerError as error:
        text = f"RabbitMQ reads this header as an encoded section: {error.reason}"
        raise type(error)(text, f"headers[{name!r}]") from None
    if len(parsed) != 1:
        raise CrashedError(
            "the 1.0 consumer's session dies: the header holds not one section",
            f"headers[{name!r}]",
        )
    return _section(parsed[0])


def _section(term: Term) -> tuple[str, Any]:
    is_described = kind_of(term) == "described"
    if is_described and section_name(term[1]) == "amqp-sequence" and kind_of(term[2]) == "map":
        return "amqp-sequence", None  # nobody looks into it if a value follows
    if is_described and section_name(term[1]) == "data" and kind_of(term[2]) in _TEXTS:
        return "data", None  # likewise
    made = decoded(term)
    if made[0] == "footer" and kind_of(term[2]) == "list":
        raise CrashedError("the 1.0 consumer's session dies: footer is not a map", "footer")
    return made


def property_fields(broker: BrokerVersion, given: BasicProperties) -> dict[str, Term]:
    """Return the fields of the properties section, as the rules of the version say."""
    fields: dict[str, Term] = dict.fromkeys(PROPERTY_NAMES)
    rules = [rule for rule in rules_of(broker).properties if rule.section == PROPERTIES_CODE]
    # The broker reads the ids first.
    for rule in sorted(rules, key=lambda rule: (rule.form != Form.BROKER_ID, rule.place)):
        value = getattr(given, rule.name)
        if value is not None:
            fields[PROPERTY_NAMES[rule.place]] = _field(broker, rule, value)
    return fields


def _field(broker: BrokerVersion, rule: PropertyRule, value: Any) -> Term:
    if rule.form == Form.SECONDS:
        return ("timestamp", seconds_of(value) * 1000)
    if rule.form == Form.MOMENT:
        return ("timestamp", seconds_of(value))
    if rule.form == Form.BROKER_ID:
        return _id_term(broker, value, rule.wire_name)
    if rule.form == Form.ADDRESS:
        return ("utf8", _reply_address(broker, octets(value)))
    return (CODES[rule.code][0], octets(value))


def _properties(broker: BrokerVersion, given: BasicProperties, notes: Notes) -> dict[str, Term]:
    fields = property_fields(broker, given)
    if given.timestamp is not None:
        moment = fields["creation-time"][1]
        if moment >= 2**63:
            notes.add(
                "properties.timestamp",
                "wrapped",
                given.timestamp,
                (moment + 2**63) % 2**64 - 2**63,
                "the milliseconds wrapped modulo 2^64",
            )
    if given.app_id is not None:
        notes.tell(LOSSES["app-id"], "properties.app-id", given.app_id, given.app_id)
    if given.cluster_id is not None:
        notes.tell(LOSSES["cluster-id"], "properties.cluster-id", given.cluster_id)
    return fields


def _reply_address(broker: BrokerVersion, queue: bytes) -> bytes:
    prefix = rules_of(broker).address.encode()
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


def _application_properties(table: FieldTable, notes: Notes) -> list[Any]:
    pairs = []
    for name, letter, value in table.entries:
        if name.startswith("x-") or (name, letter) == ("CC", "A"):
            continue
        path = f"headers[{name!r}]"
        if letter in "AF":
            notes.tell(LOSSES["nested"], path, value)
        else:
            pairs.append((("utf8", octets(name)), _from_field(letter, value, path, notes, 0)))
    return pairs


def _annotations(table: FieldTable, given: BasicProperties, notes: Notes) -> list[Any]:
    pairs = []
    for name, letter, value in table.entries:
        path = f"headers[{name!r}]"
        if name.startswith("x-"):
            key = octets(name)
        elif (name, letter) == ("CC", "A"):
            key = b"x-cc"
        else:
            continue
        pairs.append((("symbol", key), _from_field(letter, value, path, notes, 0)))
        if name == "CC":
            notes.tell(LOSSES["routes"], path, value, value)
    if given.type is not None:
        pairs.insert(0, (("symbol", b"x-basic-type"), ("utf8", octets(given.type))))
        notes.tell(LOSSES["type"], "properties.type", given.type, given.type)
    return pairs


def _id_term(broker: BrokerVersion, text: Any, name: str) -> Term:
    data = octets(text)
    digits = data[9:]
    if not (data.startswith(b"urn:uuid:") and len(data) == 45) or (
        broker.canonical_uuids and not _CANONICAL.fullmatch(digits)
    ):
        return ("utf8", data)
    if not _PAIRS.fullmatch(digits):
        raise CrashedError(
            "the 1.0 consumer's session dies: no hexadecimal uuid", f"properties.{name}"
        )
    found = bytes.fromhex(digits.replace(b"-", b"").decode())
    if len(found) < 16:
        raise CrashedError(
            "the 1.0 consumer's session dies: the uuid is too short", f"properties.{name}"
        )
    return ("uuid", found)


def _from_field(letter: str, value: Any, path: str, notes: Notes, level: int) -> Term:
    """Return the 1.0 value of a 0-9-1 field at a level of nesting."""
    if letter == "S":
        data = octets(value)
        if len(data) <= _LONGSTR_TEXT and utf8_without_nul(data):
            return ("utf8", data)
        notes.tell(LOSSES["no-text"], path, "S", "binary")
        return ("binary", data)
    if letter in _NUMBERS:
        return (_NUMBERS[letter], value)
    if letter in _PLAIN:
        kind, converted = _PLAIN[letter]
        return (kind, converted(value))
    if letter == "T":
        moment = seconds_of(value) * 1000
        if moment >= 2**63:
            notes.add(path, "wrapped", value, None, "the milliseconds wrapped modulo 2^64")
        return ("timestamp", moment)
    if letter == "V":
        return None
    if letter in "AF":
        check_level(level)
    if letter == "A":
        items = as_array(value).entries
        return "list", [_from_field(one, item, path, notes, level + 1) for one, item in items]
    if letter == "F":
        return (
            "map",
            [
                (("symbol", octets(name)), _from_field(one, item, path, notes, level + 1))
                for name, one, item in as_table(value).entries
            ],
        )
    raise CrashedError(
        f"the 1.0 consumer's session dies: RabbitMQ cannot convert the field type {letter!r}", path
    )
