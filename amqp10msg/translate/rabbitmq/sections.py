"""How RabbitMQ 4 decodes and checks the sections of an incoming 1.0 message."""

from __future__ import annotations

from typing import Any

from amqp10msg.sections import BODY_KINDS
from amqp10msg.translate.rabbitmq.fields import (
    HEADER_NAMES,
    PROPERTY_NAMES,
    checked_expiration,
    octets,
    utf8_without_nul,
)
from amqp10msg.translate.rabbitmq.terms import (
    UNDEFINED_TERM,
    CrashedError,
    RefusedError,
    Term,
    TermReader,
    kind_of,
    section_name,
)
from amqp10msg.translate.rabbitmq.version import BrokerVersion
from amqp10msg.wire.errors import ForeignUserError

#: The 0-9-1 header in which RabbitMQ 3.10 stores each section, in the order of the sections.
HEADER_BY_SAVED_SECTION = {
    "message-annotations": "x-amqp-1.0-message-annotations",
    "properties": "x-amqp-1.0-properties",
    "application-properties": "x-amqp-1.0-app-properties",
    "footer": "x-amqp-1.0-footer",
}
#: Prefixes of the annotations that RabbitMQ 4 sets or interprets itself.
BROKER_ANNOTATION_PREFIXES = (
    *("x-cc", "x-basic-", "x-opt-deaths", "x-opt-rabbitmq-received-time"),
    *("x-routing-key", "x-exchange", "x-death"),
)
_FIELD_NAMES_BY_SECTION = {"header": HEADER_NAMES, "properties": PROPERTY_NAMES}
#: The required types of sections that are neither maps nor in `_FIELD_NAMES_BY_SECTION`.
_REQUIRED_SECTION_TYPES = {"data": "binary", "amqp-sequence": "list"}


#: Descriptor codes of the composite types of AMQP 1.0, in the transport, delivery states, termini,
#: transactions, SASL and sections.
_COMPOSITE_DESCRIPTOR_CODES = {
    *range(0x10, 0x19),
    *(0x1D, *range(0x23, 0x2A), *range(0x2B, 0x2F), *range(0x30, 0x35)),
    *(*range(0x40, 0x45), *range(0x70, 0x79)),
}


def _is_composite(descriptor: Term) -> bool:
    """Whether the broker can decode described values with this descriptor."""
    if not isinstance(descriptor, tuple):
        return False
    if descriptor[0] == "symbol":
        return bool(descriptor[1].startswith(b"amqp:"))
    return descriptor[0] == "ulong" and descriptor[1] in _COMPOSITE_DESCRIPTOR_CODES


def decode_section(term: Term) -> tuple[str, Any]:
    """Interpret a described value as a section. Return the section's name and content."""
    name = section_name(term[1]) if isinstance(term, tuple) and term[0] == "described" else None
    if name is None:
        raise CrashedError("the session dies: a value is not a section of a message")
    value = term[2]
    kind = value[0] if isinstance(value, tuple) else ""
    if name in _FIELD_NAMES_BY_SECTION:
        return name, fields_of(name, value)
    if name == "amqp-value":
        return name, value
    if kind == "list" and len(value[1]) < 2 and name in ("delivery-annotations", "footer"):
        return name, []  # the broker ignores the content
    expected = _REQUIRED_SECTION_TYPES.get(name, "map")
    if name == "data" and kind == "list" and len(value[1]) < 2:
        return name, None  # becomes an error, unless an amqp-value section follows
    if kind != expected:
        raise CrashedError(f"the session dies: {name} is not a {expected}", name)
    if name == "amqp-sequence":
        for item in value[1]:
            if isinstance(item, tuple) and item[0] == "described" and not _is_composite(item[1]):
                raise CrashedError("the session dies: a described value in amqp-sequence", name)
    if expected == "map":
        return name, _decode_map(name, value[1], name != "application-properties")
    return name, value


def fields_of(section: str, value: Term) -> dict[str, Term]:
    """Return the fields of the header or properties section by name, from a list or a map."""
    fields: dict[str, Term] = dict.fromkeys(_FIELD_NAMES_BY_SECTION[section])
    kind = value[0] if isinstance(value, tuple) else ""
    if kind == "map":
        by_name: dict[Any, Term] = {
            key[1]: item for key, item in reversed(value[1]) if kind_of(key) == "symbol"
        }
        fields = {name: by_name.get(name.encode()) for name in fields}
    elif kind == "list" and len(value[1]) <= len(fields):
        fields.update(zip(fields, value[1], strict=False))
    else:
        raise CrashedError(
            f"the session dies: {section} is not a list or map of its fields", section
        )
    if any(kind_of(field) == "described" for field in fields.values()):
        raise CrashedError(f"the session dies: a described value in {section}", section)
    return fields


def _decode_map(name: str, entries: list[Any], reserved: bool) -> list[Any]:
    """Check the entries of a map section; with `reserved`, the keys must be symbols ``x-…``."""
    pairs = []
    for pair in entries:
        key, item = pair
        if reserved and not (
            isinstance(key, tuple) and key[0] == "symbol" and key[1].startswith(b"x-")
        ):
            raise RefusedError(
                f"refused: the key {reportable(key)} is reserved: use a symbol that begins with x-",
                name,
            )
        if isinstance(item, tuple) and item[0] == "described":
            raise RefusedError(f"refused: a described value under {reportable(key)}", name)
        pairs.append((key, UNDEFINED_TERM) if item is None else pair)
    return pairs


class Received:
    """An incoming 1.0 message as the broker decodes it, up to the body.

    Attributes:
        header: the fields of the header section; None without a header section.
        annotations: the message annotations, as (key, value) pairs.
        properties: the fields of the properties section; None without a properties section.
        application: the application properties, as (key, value) pairs.
        delivery_annotation_count: the number of delivery annotations.
        are_annotations_last: whether the message annotations follow the properties or application
            properties, which is the wrong order.
        is_header_last: whether the header follows the properties or application properties, which
            is the wrong order.
        bare_offset: the offset of the bare message, which begins with the properties, application
            properties or body.
        body_offset: the offset of the body.
    """

    def __init__(self) -> None:
        self.header: dict[str, Term] | None = None
        self.annotations: list[Any] = []
        self.properties: dict[str, Term] | None = None
        self.application: list[Any] = []
        self.delivery_annotation_count = 0
        self.are_annotations_last = False
        self.is_header_last = False
        self.bare_offset = -1
        self.body_offset = 0

    def set_section(self, name: str, content: Any) -> None:
        """Set a section, or replace an earlier section of the same name."""
        if name == "header":
            self.header, self.is_header_last = content, self.bare_offset >= 0
        elif name == "message-annotations":
            self.annotations, self.are_annotations_last = content, self.bare_offset >= 0
        elif name == "delivery-annotations":
            self.delivery_annotation_count = len(content)
        elif name == "properties":
            self.properties = content
        else:
            self.application = content


def decode_received(broker: BrokerVersion, data: bytes) -> Received:
    """Decode a message up to its body.

    Raises:
        BrokerError: the broker rejects the message, or the session crashes.
    """
    message = Received()
    reader = TermReader(broker.codec, data, 0)
    while reader.pos < reader.end and not data.startswith(BODY_SECTION_HEADS, reader.pos):
        start = reader.pos
        name, content = decode_section(reader.term())
        if name == "footer" or (name == "properties" and message.bare_offset >= 0):
            raise RefusedError("refused: the sections are in the wrong order", name)
        if message.bare_offset < 0 and name in ("properties", "application-properties"):
            message.bare_offset = start
        message.set_section(name, content)
    message.body_offset = reader.pos
    if message.body_offset >= reader.end:
        raise RefusedError("refused: the message has no body")
    if message.bare_offset < 0:
        message.bare_offset = message.body_offset
    return message


#: The bytes that can begin a body section. A kind of section has four, one for each encoding of its
#: descriptor.
BODY_SECTION_HEADS = tuple(
    head
    for code, symbol in ((kind.code, kind.symbol.encode()) for kind in BODY_KINDS)
    for head in (
        b"\x00\x53" + bytes([code]),
        b"\x00\x80" + code.to_bytes(8, "big"),
        b"\x00\xa3" + bytes([len(symbol)]) + symbol,
        b"\x00\xb3" + len(symbol).to_bytes(4, "big") + symbol,
    )
)


def annotation(pairs: list[Any], name: bytes) -> Term:
    """Return the value of the first annotation with this name; None if it is null or missing."""
    for key, value in pairs:
        if key[1] == name:
            return None if value is UNDEFINED_TERM else value
    return None


def with_metadata(
    broker: BrokerVersion, annotations: list[Any], metadata: list[tuple[bytes, Term]]
) -> list[Any]:
    """Add annotations of the broker, which replace the sender's annotations of the same name."""
    if broker.broker_annotations_first:  # the broker keeps duplicates among its own annotations
        added = [(("symbol", name), value) for name, value in reversed(metadata)]
        keys = {key for key, _ in added}
        return added + [pair for pair in annotations if pair[0] not in keys]
    result = list(annotations)
    for name, value in metadata:
        key = ("symbol", name)
        for index, pair in enumerate(result):
            if pair[0] == key:
                result[index] = (key, value)
                break
        else:
            result.append((key, value))
    return result


def check_filter(annotations: list[Any], path: str) -> None:
    """Raise CrashedError if the annotation with a stream's filter value is not a string."""
    value = annotation(annotations, b"x-stream-filter-value")
    if value is not None and not (isinstance(value, tuple) and value[0] == "utf8"):
        raise CrashedError(
            "the publisher's session or connection dies (541): x-stream-filter-value is not text",
            path,
        )


def expiration(header: dict[str, Term] | None, annotations: list[Any]) -> int | None:
    """Return the time to live of an incoming message in ms, as the broker reads it, or None.

    Raises:
        CrashedError: there is no ttl, and the annotation x-basic-expiration is not an expiration.
    """
    ttl = header["ttl"] if header else None
    if isinstance(ttl, tuple) and ttl[0] == "uint":
        return int(ttl[1])
    value = annotation(annotations, b"x-basic-expiration")
    if not (isinstance(value, tuple) and value[0] == "utf8"):
        return None
    try:
        return checked_expiration(value[1].decode("latin-1"))
    except RefusedError:
        raise CrashedError(
            "the session dies: the annotation is not an expiration",
            "message-annotations['x-basic-expiration']",
        ) from None


def reportable(value: Term) -> Any:
    """Convert a term to a Python value for losses and error texts."""
    if not isinstance(value, tuple):
        return value
    if value is UNDEFINED_TERM:
        return None
    if value[0] in ("utf8", "symbol"):
        return value[1].decode("utf-8", "replace")
    if value[0] in ("as_is", "unread"):
        return bytes(value[2])
    return value[1] if len(value) == 2 else value


def check_user(name: bytes, user: str | None) -> None:
    """Check a user-id as the broker does.

    Raises:
        ForeignUserError: the user-id is not `user`.
        RefusedError: `user` is None, and no user can have this name.
    """
    if user is not None:
        if name != octets(user):
            raise ForeignUserError
    elif not name or not utf8_without_nul(name):
        # A user's name is not empty, is UTF-8 (the tools and the HTTP API reject other bytes), and
        # does not contain NUL, the delimiter of SASL PLAIN.
        raise RefusedError("refused: no user can have this name", "properties.user-id")
