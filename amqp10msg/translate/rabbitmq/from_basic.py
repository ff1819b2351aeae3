"""What RabbitMQ 4 makes of a message that is published over 0-9-1 for a consumer of 1.0.

Rules of its message containers (modules mc, mc_amqp and mc_amqpl of the broker), its codecs' limits
included.
"""

from __future__ import annotations

import struct
import urllib.parse
from typing import Any

from amqp10msg.basic import BasicMessage, BasicProperties, FieldArray, FieldTable
from amqp10msg.primitives import Float
from amqp10msg.translate.circumstances import Circumstances
from amqp10msg.translate.rabbitmq.fields import (
    checked_expiration,
    header_routes,
    octets,
    readable,
    utf8_without_nul,
)
from amqp10msg.translate.rabbitmq.sections import MARKER, check_stored, check_user, decoded
from amqp10msg.translate.rabbitmq.terms import CrashedError, Term, generate
from amqp10msg.translate.rabbitmq.version import BrokerVersion
from amqp10msg.translate.report import Notes

_F64 = struct.Struct(">d")
_LONGSTR_TEXT = 4096
_FORGED = {
    "properties": "x-amqp-1.0-properties",
    "application-properties": "x-amqp-1.0-app-properties",
    "message-annotations": "x-amqp-1.0-message-annotations",
    "footer": "x-amqp-1.0-footer",
}
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


def to_amqp10(
    broker: BrokerVersion, basic: BasicMessage, notes: Notes, given: Circumstances
) -> bytes:
    """Return the octets that a 1.0 consumer receives."""
    if basic.properties.user_id is not None:
        check_user(octets(basic.properties.user_id), given.user)
    sections = _from_basic(broker, basic, notes)
    header = sections.pop("header")
    header[3] = not basic.redelivered
    header[4] = ("uint", 0)
    annotations = sections.get("message-annotations", [])
    if broker.stream:
        check_stored(annotations, "headers")
        if header[2] is not None:
            header[2] = ("uint", header[2][1] % 2**32)
    annotations = _with_metadata(broker, annotations, basic, given.stream_offset)
    out = [_section(0x70, ("list", header)), _section(0x72, ("map", annotations))]
    fields = sections.get("properties")
    if fields is not None and any(field is not None for field in fields):
        out.append(_encoded_properties(broker, fields))
    if sections.get("application-properties"):
        out.append(_section(0x74, ("map", sections["application-properties"])))
    out += [_section(*part) for part in sections["body"]]
    if sections.get("footer"):
        out.append(_section(0x78, ("map", sections["footer"])))
    return b"".join(out)


def _encoded_properties(broker: BrokerVersion, fields: list[Term]) -> bytes:
    fields = list(fields)
    while broker.trims and fields[-1] is None:
        fields.pop()
    return _section(0x73, ("list", fields))


def _with_metadata(
    broker: BrokerVersion, annotations: list[Any], basic: BasicMessage, stream_offset: int | None
) -> list[Any]:
    own: list[tuple[bytes, Term]] = [
        (b"x-exchange", ("utf8", octets(basic.exchange))),
        (b"x-routing-key", ("utf8", octets(basic.routing_key))),
    ]
    if broker.stream and stream_offset is not None:
        own.append((b"x-stream-offset", ("long", stream_offset)))
    result = list(annotations)
    for name, value in own:
        key = ("symbol", name)
        place = next((i for i, pair in enumerate(result) if pair[0] == key), None)
        if place is not None and not broker.metadata_first:
            result[place] = (key, value)
            continue
        if broker.metadata_first:
            result = [pair for pair in result if pair[0] != key]
            result.insert(0, (key, value))
        else:
            result.append((key, value))
    return result


def _from_basic(broker: BrokerVersion, basic: BasicMessage, notes: Notes) -> dict[str, Any]:
    given = basic.properties
    table = given.headers if given.headers is not None else FieldTable()
    table = table if isinstance(table, FieldTable) else FieldTable(table)
    readable(table)
    header_routes(table)
    if any(name == "BCC" for name, _, _ in table.entries):
        place = next(i for i, entry in enumerate(table.entries) if entry[0] == "BCC")
        notes.dropped("headers['BCC']", table.entries[place][2], "BCC is for routing alone")
        table = FieldTable.of([*table.entries[:place], *table.entries[place + 1 :]])
    header: list[Term] = [given.delivery_mode == 2, None, None, None, None]
    if given.delivery_mode not in (None, 1, 2):
        notes.add(
            "properties.delivery-mode", "retyped", given.delivery_mode, False, "only 2 is durable"
        )
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
        elif given.expiration != str(ttl):
            notes.add(
                "properties.expiration",
                "retyped",
                given.expiration,
                ttl,
                "the number is kept, its digits are not",
            )
    sections: dict[str, Any] = {"header": header}
    forged = _forged(broker, table)
    sections["properties"] = forged.pop("properties", None) or _properties(broker, given, notes)
    if "application-properties" in forged:
        sections["application-properties"] = forged.pop("application-properties")
    else:
        sections["application-properties"] = _application_properties(table, notes)
    if "message-annotations" in forged:
        sections["message-annotations"] = forged.pop("message-annotations")
    else:
        sections["message-annotations"] = _annotations(table, given, notes)
    _body(broker, basic, sections)
    if "footer" in forged:
        sections["footer"] = forged.pop("footer")
    return sections


def _forged(broker: BrokerVersion, table: FieldTable) -> dict[str, Any]:
    """Read the headers that stand for whole sections, which the broker believes."""
    found: dict[str, Any] = {}
    for section, header in _FORGED.items():
        for name, letter, value in table.entries:
            if name == header:
                if letter in "Sx":
                    parsed = broker.codec.parse_all(octets(value))
                    if len(parsed) != 1:
                        raise CrashedError(
                            "the 1.0 consumer's session dies: the header holds not one section",
                            f"headers[{name!r}]",
                        )
                    kind, content = decoded(parsed[0])
                    if kind != section:
                        raise CrashedError(
                            "the 1.0 consumer's session dies: the header holds another section",
                            f"headers[{name!r}]",
                        )
                    found[section] = content
                break
    return found


def _properties(broker: BrokerVersion, given: BasicProperties, notes: Notes) -> list[Term]:
    fields: list[Term] = [None] * 13
    fields[0] = _id_term(given.message_id, "message-id")
    fields[5] = _id_term(given.correlation_id, "correlation-id")
    if given.user_id is not None:
        fields[1] = ("binary", octets(given.user_id))
    if given.reply_to is not None:
        fields[4] = ("utf8", _reply_address(broker, octets(given.reply_to)))
    if given.content_type is not None:
        fields[6] = ("symbol", octets(given.content_type))
    if given.content_encoding is not None:
        fields[7] = ("symbol", octets(given.content_encoding))
    if given.timestamp is not None:
        moment = _seconds(given.timestamp) * 1000
        fields[9] = ("timestamp", moment)
        if moment >= 2**63:
            notes.add(
                "properties.timestamp",
                "wrapped",
                given.timestamp,
                (moment + 2**63) % 2**64 - 2**63,
                "the milliseconds wrapped modulo 2^64",
            )
    if given.app_id is not None:
        fields[10] = ("utf8", octets(given.app_id))
        notes.add(
            "properties.app-id",
            "renamed",
            given.app_id,
            given.app_id,
            "it becomes the group-id",
            recoverable=True,
        )
    if given.cluster_id is not None:
        notes.dropped("properties.cluster-id", given.cluster_id, "1.0 has no such field")
    return fields


def _reply_address(broker: BrokerVersion, queue: bytes) -> bytes:
    if not broker.queue_addresses:
        return queue
    try:
        return b"/queues/" + urllib.parse.quote(queue.decode("utf-8"), safe="-._~").encode()
    except UnicodeDecodeError:
        raise CrashedError(
            "the 1.0 consumer's session dies: the queue's name is no UTF-8", "properties.reply-to"
        ) from None


def _application_properties(table: FieldTable, notes: Notes) -> list[Any]:
    pairs = []
    for name, letter, value in table.entries:
        if name.startswith("x-"):
            continue
        path = f"headers[{name!r}]"
        if letter in "AF":
            if name != "CC":
                notes.dropped(path, value, "no array or table in these properties")
            continue
        pairs.append((("utf8", octets(name)), _from_field(letter, value, path, notes)))
    return pairs


def _annotations(table: FieldTable, given: BasicProperties, notes: Notes) -> list[Any]:
    pairs = []
    for name, letter, value in table.entries:
        path = f"headers[{name!r}]"
        if name.startswith("x-"):
            pairs.append((("symbol", octets(name)), _from_field(letter, value, path, notes)))
        elif name == "CC":
            pairs.append((("symbol", b"x-cc"), _from_field(letter, value, path, notes)))
            notes.add(
                path, "renamed", value, value, "it becomes the annotation x-cc", recoverable=True
            )
    if given.type is not None:
        pairs.insert(0, (("symbol", b"x-basic-type"), ("utf8", octets(given.type))))
        notes.add(
            "properties.type",
            "renamed",
            given.type,
            given.type,
            "it becomes the annotation x-basic-type",
            recoverable=True,
        )
    return pairs


def _body(broker: BrokerVersion, basic: BasicMessage, sections: dict[str, Any]) -> None:
    if basic.properties.type != MARKER:
        sections["body"] = [(0x75, ("binary", basic.body))]
        return
    body: list[tuple[int, Term]] = []
    codes = {"data": 0x75, "amqp-sequence": 0x76, "amqp-value": 0x77}
    for term in broker.codec.parse_all(basic.body):
        name, content = decoded(term)
        if name in codes:
            if name == "amqp-value":
                body = []
            elif body and body[-1][0] == 0x77:
                raise CrashedError(
                    "the 1.0 consumer's session dies: a section behind a value", "body"
                )
            body.append((codes[name], content))
        elif name != "delivery-annotations":
            sections[name] = content
    sections["body"] = body


def _section(code: int, value: Term) -> bytes:
    return b"\x00\x53" + bytes([code]) + generate(value)


def _seconds(moment: Any) -> int:
    return moment if isinstance(moment, int) else int(moment.timestamp())


def _id_term(text: Any, name: str) -> Term:
    if text is None:
        return None
    data = octets(text)
    if not (data.startswith(b"urn:uuid:") and len(data) == 45):
        return ("utf8", data)
    parts = data[9:].split(b"-")
    if any(
        len(part) % 2 or not all(o in b"0123456789abcdefABCDEF" for o in part) for part in parts
    ):
        raise CrashedError(
            "the 1.0 consumer's session dies: no hexadecimal uuid", f"properties.{name}"
        )
    found = bytes.fromhex(b"".join(parts).decode())
    if len(found) < 16:
        raise CrashedError(
            "the 1.0 consumer's session dies: the uuid is too short", f"properties.{name}"
        )
    return ("uuid", found)


def _from_field(letter: str, value: Any, path: str, notes: Notes) -> Term:
    """Return the 1.0 value of a 0-9-1 field."""
    if letter == "S":
        data = octets(value)
        if len(data) <= _LONGSTR_TEXT and utf8_without_nul(data):
            return ("utf8", data)
        notes.add(path, "retyped", "S", "binary", "no UTF-8 without NUL of 4,096 octets at most")
        return ("binary", data)
    if letter in _NUMBERS:
        return (_NUMBERS[letter], value)
    if letter == "t":
        return ("boolean", bool(value))
    if letter == "x":
        return ("binary", bytes(value))
    if letter == "f":
        return ("float", Float(value).bits.to_bytes(4, "big"))
    if letter == "d":
        return ("double", _F64.pack(value))
    if letter == "T":
        moment = _seconds(value) * 1000
        if moment >= 2**63:
            notes.add(path, "wrapped", value, None, "the milliseconds wrapped modulo 2^64")
        return ("timestamp", moment)
    if letter == "V":
        return None
    if letter == "A":
        array = value if isinstance(value, FieldArray) else FieldArray(value)
        return ("list", [_from_field(one, item, path, notes) for one, item in array.entries])
    if letter == "F":
        table = value if isinstance(value, FieldTable) else FieldTable(value)
        return (
            "map",
            [
                (("symbol", octets(name)), _from_field(one, item, path, notes))
                for name, one, item in table.entries
            ],
        )
    raise CrashedError(
        f"the 1.0 consumer's session dies: no clause for the field type {letter!r}", path
    )
