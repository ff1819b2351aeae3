"""The lossless way from 1.0 to 0-9-1."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

import attrs

from amqp10msg import _wire
from amqp10msg.basic._codec import Reader
from amqp10msg.basic.message import BasicMessage
from amqp10msg.basic.properties import BasicProperties, decode_table, finished
from amqp10msg.basic.tables import FieldTable
from amqp10msg.errors import DecodeError
from amqp10msg.limits import DEFAULT_LIMITS, UNLIMITED
from amqp10msg.message import Message
from amqp10msg.sections import KINDS, SPECS, Data, Header, Properties
from amqp10msg.translate import residual
from amqp10msg.translate._headers import BY_ANNOTATION, header_of, property_name
from amqp10msg.translate._to_amqp10 import (
    BODY,
    EMPTY,
    EXCHANGE,
    FIELDS,
    MARKER,
    ORDER,
    ROUTING_KEY,
    TABLE,
    body_of,
    decorated,
    is_delivered,
)
from amqp10msg.translate._values import LETTERS as _LETTERS
from amqp10msg.translate._values import to_field
from amqp10msg.translate.report import Notes
from amqp10msg.translate.table import ROWS, shortstr

__all__ = ["SHAPE", "SPARSE", "WHOLE", "Reading", "exact_octets", "field_of", "read"]

# Keys of the residual on the 0-9-1 side, besides the codes of sections, 0x70 to 0x78.
WHOLE = 0  # the encoded message, where it is not of the usual form
SPARSE = 0x100  # added to a section's code: number or name -> encoded value
SHAPE = 0x75  # of the body: the octets in front of each data section's content
_FIELDS = [field.name for field in attrs.fields(Properties)]
_MAPPED = {row.field: row for row in ROWS if row.section == "properties"}
_fields_of = attrgetter(*_FIELDS)
# By position: the field, its row, and the property where plain text is taken as it is.
_READ = tuple(
    (
        name,
        _MAPPED.get(name),
        _MAPPED[name].name if name in ("message_id", "correlation_id", "reply_to") else "",
    )
    for name in _FIELDS
)
_FORMED = ("urn", "ID:")
_WIRE_NAMES = {name: name.replace("_", "-") for name in _FIELDS}
_EXCHANGE = "x-exchange"
_ROUTING_KEY = "x-routing-key"


class Reading:
    """What a 1.0 message becomes by the rules alone, and what these cannot say."""

    __slots__ = ("basic", "carried", "entries", "message", "raw", "restored", "saved", "split")

    def __init__(self, message: Message, wire: bytes) -> None:
        self.message = message
        self.raw = wire
        self.basic = BasicMessage(BasicProperties())
        self.entries: list[Any] = []
        self.carried: dict[int, Any] = {}
        self.saved: Any = None
        self.restored: set[str] = set()
        self.split = 0


def _encoded(section: Any) -> bytes:
    octets: bytes = _wire.encode_value(section)
    return octets


def read(message: Message, wire: bytes, notes: Notes) -> Reading:
    """Translate by the rules, and collect what needs the residual.

    Args:
        message: decoded from `wire`.
        wire: its octets.
        notes: takes the losses.
    """
    made = Reading(message, wire)
    basic = made.basic
    _body(made, notes)
    header = message.header
    delivered = _delivery(made)
    if header is not None:
        _header(made, header, delivered, notes)
    elif delivered:
        made.carried[0x70] = b""
    properties = message.properties
    if properties is not None:
        _properties(made, properties, notes)
    application = message.application_properties
    if application is not None:
        _application(made, application, notes)
    made.split = len(made.entries)
    annotations = message.message_annotations
    if annotations is not None:
        _annotations(made, annotations, delivered, notes)
    if message.delivery_annotations is not None or message.footer is not None:
        for name, section in (
            ("delivery-annotations", message.delivery_annotations),
            ("footer", message.footer),
        ):
            if section is None:
                continue
            code = 0x71 if name[0] == "d" else 0x78
            made.carried[code] = _encoded(section)
            notes.add(
                name, "carried", dict(section), None, f"0-9-1 has no {name}", recoverable=True
            )
    if message.message_format:
        made.carried[1] = message.message_format
    if made.entries:
        basic.properties.headers = FieldTable.of(made.entries)
    return made


def _delivery(made: Reading) -> str:
    """Look for the two annotations that RabbitMQ 4 adds at delivery; tell in which order."""
    annotations = made.message.message_annotations
    if annotations is None or _EXCHANGE not in annotations:
        return ""
    keys = list(annotations)
    exchange, key = annotations.get(_EXCHANGE), annotations.get(_ROUTING_KEY)
    if not (type(exchange) is str and type(key) is str and shortstr(exchange) and shortstr(key)):
        return ""
    if not exchange and not key:
        return ""
    made.basic.exchange, made.basic.routing_key = exchange, key
    return "exact" if keys[-2:] == [_EXCHANGE, _ROUTING_KEY] else "other"


def _is_transient(made: Reading) -> bool:
    """Tell whether a delivered message says in the annotation that its delivery mode was 1.

    RabbitMQ 4.0 and 4.1 make a message durable that does not say whether it is, so behind them the
    annotation is to be believed and not the header.
    """
    annotations: Any = made.message.message_annotations or {}
    return bool(annotations.get(_MODE.annotation) == 1)


def _header(made: Reading, header: Header, delivered: str, notes: Notes) -> None:
    given = made.basic.properties
    exact = True
    if header.durable and not (delivered and _is_transient(made)):
        given.delivery_mode = 2
    if header.priority != 4:
        value, same = _PRIORITY.backward(int(header.priority))
        given.priority = value
        if not same:
            exact = False
            notes.add(
                *("header.priority", "clamped", header.priority, value),
                "a priority of 0-9-1 is 0 to 9",
                recoverable=True,
            )
    if header.ttl is not None:
        given.expiration = str(int(header.ttl))
    if delivered:
        made.basic.redelivered = not header.first_acquirer
        if (
            header.delivery_count
            or delivered == "other"
            or not made.raw.startswith(decorated(header))
        ):
            exact = False
    else:
        if header.delivery_count:
            made.basic.redelivered = True
        if header.first_acquirer or header.delivery_count > 1:
            exact = False
            notes.add(
                *("header", "carried", header, made.basic.redelivered),
                "0-9-1 says only whether it may have been delivered before",
                recoverable=True,
            )
        if not (
            header.durable
            or header.priority != 4
            or header.ttl is not None
            or header.delivery_count
        ):
            exact = False
    if not exact:
        made.carried[0x70] = _encoded(header)


def _properties(made: Reading, properties: Properties, notes: Notes) -> None:
    given = made.basic.properties
    sparse: dict[int, bytes] = {}
    empty = True
    index = -1
    for value in _fields_of(properties):
        index += 1
        if value is None:
            continue
        empty = False
        name, row, target = _READ[index]
        if (
            target
            and type(value) is str
            and len(value) <= 255
            and value.isascii()
            and "\0" not in value
            and value[:3] not in _FORMED
        ):
            setattr(given, target, value)  # an id or address of the usual form
            continue
        mapped, exact = row.backward(value) if row is not None else (None, False)
        if row is not None and mapped is not None:
            setattr(given, row.name, mapped)
            if exact and row.name.startswith("content_"):
                exact = row.forward(mapped, _is_data(made)).where == "field"
        if not exact:
            sparse[index] = _field_octets(name, value)
            notes.add(
                f"properties.{_WIRE_NAMES[name]}",
                "carried" if mapped is None else "retyped",
                value,
                mapped,
                "0-9-1 has no such property" if row is None else "0-9-1 cannot say it exactly",
                recoverable=True,
            )
    if empty:
        made.carried[0x73] = _encoded(properties)
    elif sparse:
        made.carried[SPARSE + 0x73] = sparse


def _field_octets(name: str, value: Any) -> bytes:
    """Encode a field as its declaration says, so that it can be read without it."""
    one = Properties()
    setattr(one, name, value)
    whole = _encoded(one)
    index = _FIELDS.index(name)
    pos = 6 if whole[3] == 0xC0 else 12
    for _ in range(index):
        pos = _wire.skip_value(whole, pos)
    return whole[pos:]


def _is_data(made: Reading) -> bool:
    body = made.message.body
    return isinstance(body[0] if isinstance(body, list) else body, Data)


def _application(made: Reading, application: dict[Any, Any], notes: Notes) -> None:
    sparse: dict[str, bytes] = {}
    whole = not application
    entries = made.entries
    annotations: Any = made.message.message_annotations or {}
    for key, value in application.items():
        letter = _LETTERS.get(type(value), "")
        if (
            letter
            and type(key) is str
            and len(key) <= 255
            and key[:2] != "x-"
            and key.isascii()
            and "\0" not in key
        ):
            entries.append((key, letter, int(value) if letter in "bBsuIi" else value))
            continue
        named = property_name(key)
        letter, item, exact = to_field(value) if named is not None else ("", None, False)
        if named is None or not letter or (not named[1] and _header_exists(named[0], annotations)):
            whole = True
            notes.add(
                f"application-properties[{key!r}]",
                *("carried", value, None, "no header can say it"),
                recoverable=True,
            )
            continue
        entries.append((named[0], letter, item))
        whole = whole or not named[1]
        if not exact or letter in "AF":
            sparse[key] = _encoded(value)
            notes.add(
                f"application-properties[{key!r}]",
                *("retyped", value, item, "0-9-1 has no such type"),
                recoverable=True,
            )
    if whole:
        made.carried[0x74] = _encoded(application)
    elif sparse:
        made.carried[SPARSE + 0x74] = sparse


def _header_exists(name: str, annotations: Any) -> bool:
    """Tell whether an annotation becomes a header of this name."""
    return any(found is not None and found[0] == name for found in map(header_of, annotations))


def _annotations(made: Reading, annotations: dict[Any, Any], delivered: str, notes: Notes) -> None:
    given = made.basic.properties
    header = made.message.header
    exact = True
    produced = False
    last = 0
    names: set[str] = set()
    saved = residual.NAME in annotations
    for key, value in annotations.items():
        if key == residual.NAME:
            made.saved = _read_saved(value, notes)
            if made.saved is None:
                exact = False
            else:
                produced = True
            continue
        if delivered and key in (_EXCHANGE, _ROUTING_KEY):
            produced = True
            continue
        row = BY_ANNOTATION.get(key) if isinstance(key, str) else None
        if row is not None:
            held = _annotated(made, row, value, header)
            if held is not None:
                setattr(given, row.name, held)
                produced = True
                exact = exact and row.number > last and not names
                last = row.number
                continue
        found = header_of(key)
        letter = _LETTERS.get(type(value), "")
        item, same = value, True
        if letter and letter in "bBsuIi":
            item = int(value)
        elif found is not None and not letter:
            letter, item, same = to_field(value)
        if found is None or not letter or found[0] in names:
            exact = False
            notes.add(
                f"message-annotations[{key!r}]",
                *("carried", value, None, "no header can say it"),
                recoverable=True,
            )
            continue
        produced = True
        names.add(found[0])
        made.entries.append((found[0], letter, item))
        if not (found[1] and same):
            exact = False
            notes.add(
                f"message-annotations[{key!r}]",
                *("retyped", value, item, "0-9-1 has no such type, or the name is another"),
                recoverable=True,
            )
    if saved and list(annotations)[-3 if delivered else -1] != residual.NAME:
        exact = False
    if not exact or not produced or delivered == "other":
        made.carried[0x72] = _encoded(annotations)


def _read_saved(value: Any, notes: Notes) -> dict[int, Any] | None:
    found = residual.unpack(value) if isinstance(value, bytes) else None
    if found is not None and not _is_of_basic(found):
        found = None
    if found is None:
        notes.add(
            f"message-annotations[{residual.NAME!r}]",
            *("carried", value, None, "it is no residual, or damaged: it is not believed"),
            recoverable=True,
        )
    return found


_NUMBERS = {"delivery_mode": 255, "priority": 255, "timestamp": 2**64 - 1}
_BY_NUMBER = {row.number: row for row in ROWS}


def _is_of_basic(content: dict[Any, Any]) -> bool:
    """Tell whether a residual has the form of one from a 0-9-1 message."""
    try:
        return bool(content) and all(_is_original(key, value) for key, value in content.items())
    except (DecodeError, IndexError):
        return False


def _is_original(key: Any, value: Any) -> bool:
    row = _BY_NUMBER.get(key)
    if row is not None:
        most = _NUMBERS.get(row.name)
        if most is not None:
            return isinstance(value, int) and value <= most
        return isinstance(value, bytes) and len(value) <= 255
    if key in (EXCHANGE, ROUTING_KEY):
        return isinstance(value, bytes)
    if key in (BODY, EMPTY):
        return bool(value == 1)
    if key == ORDER:
        return isinstance(value, list) and all(isinstance(place, int) for place in value)
    if key == TABLE:
        return isinstance(value, bytes) and bool(decode_table(value).entries)
    return (
        key == FIELDS
        and isinstance(value, dict)
        and all(
            isinstance(name, str)
            and len(name.encode("utf-8")) <= 255
            and isinstance(octets, bytes)
            and field_of(octets) is not None
            for name, octets in value.items()
        )
    )


def field_of(octets: bytes) -> tuple[str, Any]:
    """Read letter and value of a header; DecodeError or IndexError where they are none."""
    reader = Reader(octets, "rabbitmq", DEFAULT_LIMITS)
    reader.pos = 1
    value = reader.value(octets[0], len(octets), 0)
    finished(reader)
    return chr(octets[0]), value


def _annotated(made: Reading, row: Any, value: Any, header: Header | None) -> Any:
    """Give the property that an annotation holds, None where it is not to be believed."""
    if getattr(made.basic.properties, row.name) is not None:
        return None  # the field says it
    if (
        row.section == "header"
        and header is not None
        and getattr(header, row.field) != row.default
        and not (row is _MODE and (made.basic.exchange or made.basic.routing_key))
    ):
        return None
    held = row.annotated(value, _is_data(made))
    # With such a payload the marker would say something else.
    if (
        row.name == "type"
        and held == MARKER
        and (not isinstance(made.message.body, Data) or body_of(made.basic.body) is not None)
    ):
        return None
    return held


def _body(made: Reading, notes: Notes) -> None:
    message, basic = made.message, made.basic
    body = message.body
    if type(body) is Data:
        basic.body = bytes(body.data)
        return
    if body is None:
        made.carried[SHAPE] = []
        notes.add("body", "carried", None, b"", "0-9-1 has always a payload", recoverable=True)
        return
    if isinstance(body, list) and isinstance(body[0], Data):
        basic.body = b"".join(bytes(part.data) for part in body)
        made.carried[SHAPE] = []  # filled with what stands on the wire
        notes.add(
            *("body", "retyped", len(body), 1, "the data sections are joined"), recoverable=True
        )
        return
    parts = [
        part for part in _wire.Reader(made.raw, 0, UNLIMITED).scan() if 0x75 <= part[0] <= 0x77
    ]
    basic.body = made.raw[parts[0][1] : parts[-1][3]]
    basic.properties.type = MARKER


def exact_octets(made: Reading) -> None:
    """Carry the octets of sections that are not encoded as this library would, and the heads."""
    for code, start, content, end in _wire.Reader(made.raw, 0, UNLIMITED).scan():
        octets = made.raw[start:end]
        kind = KINDS[code - 0x70]
        if kind.attribute == "body":
            _heads(made, code, start, content, end)
            continue
        if code == 0x70 and 0x70 not in made.carried and octets == decorated_of(made):
            continue
        section = getattr(made.message, kind.attribute)
        if code in made.carried:
            made.carried[code] = octets
        elif section is None or _section_octets(code, section) != octets:
            made.carried[code] = octets
            made.carried.pop(SPARSE + code, None)


def decorated_of(made: Reading) -> bytes | None:
    """Give the header section as RabbitMQ 4 writes it, where it is taken for a delivery."""
    header = made.message.header
    delivered = is_delivered(made.basic)
    return decorated(header) if delivered and header is not None else None


def _section_octets(code: int, section: Any) -> bytes:
    writer = _wire.Writer(False)
    writer.section(SPECS[code - 0x70], section)
    return writer.finish()


def _heads(made: Reading, code: int, start: int, content: int, end: int) -> None:
    """Note what stands in front of a data section's content, where it must be kept."""
    if code != 0x75:
        return
    width = 2 if made.raw[content] == 0xA0 else 5
    several = isinstance(made.message.body, list)
    head = made.raw[start : content + width]
    usual = b"\x00\x53\x75" + (b"\xa0" if end - content - width < 256 else b"\xb0")
    if several or not head.startswith(usual):
        made.carried.setdefault(SHAPE, []).append(head)


_MODE = next(row for row in ROWS if row.name == "delivery_mode")
_PRIORITY = next(row for row in ROWS if row.field == "priority")
