"""What the two ways through RabbitMQ 4 share: how it takes described values for sections."""

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
    UNDEFINED,
    CrashedError,
    RefusedError,
    Term,
    TermReader,
    kind_of,
    section_name,
)
from amqp10msg.translate.rabbitmq.version import BrokerVersion

#: The sections that RabbitMQ 3.10 makes headers of, in their order, and these.
SAVED_SECTIONS = {
    "message-annotations": "x-amqp-1.0-message-annotations",
    "properties": "x-amqp-1.0-properties",
    "application-properties": "x-amqp-1.0-app-properties",
    "footer": "x-amqp-1.0-footer",
}
#: How the names of annotations begin that may be RabbitMQ 4's own.
OWN_ANNOTATIONS = (
    *("x-cc", "x-basic-", "x-opt-deaths", "x-opt-rabbitmq-received-time"),
    *("x-routing-key", "x-exchange", "x-death"),
)
_FIELDS = {"header": HEADER_NAMES, "properties": PROPERTY_NAMES}
#: Of the others, what they must be.
_KINDS = {"data": "binary", "amqp-sequence": "list"}


#: Codes of the described lists of AMQP 1.0: transport, delivery states, termini, transactions, SASL
#: and sections.
_COMPOSITES = {
    *range(0x10, 0x19),
    *(0x1D, *range(0x23, 0x2A), *range(0x2B, 0x2F), *range(0x30, 0x35)),
    *(*range(0x40, 0x45), *range(0x70, 0x79)),
}


def _is_composite(descriptor: Term) -> bool:
    """Whether the broker knows the type of a described value."""
    if not isinstance(descriptor, tuple):
        return False
    if descriptor[0] == "symbol":
        return bool(descriptor[1].startswith(b"amqp:"))
    return descriptor[0] == "ulong" and descriptor[1] in _COMPOSITES


def decoded(term: Term) -> tuple[str, Any]:
    """Return the name and the content of the section that a described value is."""
    name = section_name(term[1]) if isinstance(term, tuple) and term[0] == "described" else None
    if name is None:
        raise CrashedError("the session dies: no section")
    value = term[2]
    kind = value[0] if isinstance(value, tuple) else ""
    if name in _FIELDS:
        return name, fields_of(name, value)
    if name == "amqp-value":
        return name, value
    if kind == "list" and len(value[1]) < 2 and name in ("delivery-annotations", "footer"):
        return name, []  # nobody looks into it
    wanted = _KINDS.get(name, "map")
    if name == "data" and kind == "list" and len(value[1]) < 2:
        return name, None  # nobody looks into it if a value follows
    if kind != wanted:
        raise CrashedError(f"the session dies: {name} is not a {wanted}", name)
    if name == "amqp-sequence":
        for item in value[1]:
            if isinstance(item, tuple) and item[0] == "described" and not _is_composite(item[1]):
                raise CrashedError("the session dies: a described value in amqp-sequence", name)
    if wanted == "map":
        return name, _decoded_map(name, value[1], name != "application-properties")
    return name, value


def fields_of(section: str, value: Term) -> dict[str, Term]:
    """Return the fields of header or properties, which are a list, or a map by their names."""
    fields: dict[str, Term] = dict.fromkeys(_FIELDS[section])
    kind = value[0] if isinstance(value, tuple) else ""
    if kind == "map":
        found: dict[Any, Term] = {
            key[1]: item for key, item in reversed(value[1]) if kind_of(key) == "symbol"
        }
        fields = {name: found.get(name.encode()) for name in fields}
    elif kind == "list" and len(value[1]) <= len(fields):
        fields.update(zip(fields, value[1], strict=False))
    else:
        raise CrashedError(f"the session dies: {section} of the wrong shape", section)
    if any(kind_of(one) == "described" for one in fields.values()):
        raise CrashedError(f"the session dies: a described value in {section}", section)
    return fields


def _decoded_map(name: str, given: list[Any], reserved: bool) -> list[Any]:
    pairs = []
    for pair in given:
        key, item = pair
        if reserved and not (
            isinstance(key, tuple) and key[0] == "symbol" and key[1].startswith(b"x-")
        ):
            raise RefusedError(
                f"refused: the key {shown(key)} is reserved, only symbols that begin with x- "
                "are not",
                name,
            )
        if isinstance(item, tuple) and item[0] == "described":
            raise RefusedError(f"refused: a described value under {shown(key)}", name)
        pairs.append((key, UNDEFINED) if item is None else pair)
    return pairs


class Received:
    """A message as the broker reads it when it comes in, up to the body.

    Attributes:
        header: its fields, None where there is no header.
        annotations: of the message, pairs.
        properties: the fields, None where there are none.
        application: the application properties, pairs.
        delivery_annotations: how many there are.
        are_annotations_last: those of the message stand after properties or application
            properties.
        is_header_last: the header stands after properties or application properties.
        bare: where the properties begin, or what follows them where there are none.
        body: where the body begins.
    """

    def __init__(self) -> None:
        self.header: dict[str, Term] | None = None
        self.annotations: list[Any] = []
        self.properties: dict[str, Term] | None = None
        self.application: list[Any] = []
        self.delivery_annotations = 0
        self.are_annotations_last = False
        self.is_header_last = False
        self.bare = -1
        self.body = 0

    def take(self, name: str, content: Any) -> None:
        """Set a section, in the place of an earlier one."""
        if name == "header":
            self.header, self.is_header_last = content, self.bare >= 0
        elif name == "message-annotations":
            self.annotations, self.are_annotations_last = content, self.bare >= 0
        elif name == "delivery-annotations":
            self.delivery_annotations = len(content)
        elif name == "properties":
            self.properties = content
        else:
            self.application = content


def received(broker: BrokerVersion, data: bytes) -> Received:
    """Read a message up to its body.

    Raises:
        BrokerError: the broker refuses it, or the session dies.
    """
    made = Received()
    reader = TermReader(broker.codec, data, 0)
    while reader.pos < reader.end and not data.startswith(BODY_HEADS, reader.pos):
        start = reader.pos
        name, content = decoded(reader.term())
        if name == "footer" or (name == "properties" and made.bare >= 0):
            raise RefusedError("refused: sections in another order", name)
        if made.bare < 0 and name in ("properties", "application-properties"):
            made.bare = start
        made.take(name, content)
    made.body = reader.pos
    if made.body >= reader.end:
        raise RefusedError("refused: the message has no body")
    if made.bare < 0:
        made.bare = made.body
    return made


#: How body sections begin, four heads for each of data, amqp-sequence and amqp-value.
BODY_HEADS = tuple(
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
    """Return the value of the first annotation of a name; None where it is null, or not there."""
    for key, value in pairs:
        if key[1] == name:
            return None if value is UNDEFINED else value
    return None


def with_metadata(
    broker: BrokerVersion, annotations: list[Any], own: list[tuple[bytes, Term]]
) -> list[Any]:
    """Return annotations with those of the broker, in the place of any of the same name."""
    if broker.metadata_first:  # its own twice, where it has a name twice
        made = [(("symbol", name), value) for name, value in reversed(own)]
        keys = {key for key, _ in made}
        return made + [pair for pair in annotations if pair[0] not in keys]
    result = list(annotations)
    for name, value in own:
        key = ("symbol", name)
        for place, pair in enumerate(result):
            if pair[0] == key:
                result[place] = (key, value)
                break
        else:
            result.append((key, value))
    return result


def check_filter(annotations: list[Any], path: str) -> None:
    """Raise where the annotation by which a stream filters is not text."""
    found = annotation(annotations, b"x-stream-filter-value")
    if found is not None and not (isinstance(found, tuple) and found[0] == "utf8"):
        raise CrashedError(
            "the publisher's session or connection dies (541): x-stream-filter-value is not text",
            path,
        )


def expiration(header: dict[str, Term] | None, annotations: list[Any]) -> int | None:
    """Return the time to live that the broker finds when a message comes in.

    Raises:
        CrashedError: the annotation in the place of the header is not an expiration.
    """
    ttl = header["ttl"] if header else None
    if isinstance(ttl, tuple) and ttl[0] == "uint":
        return int(ttl[1])
    found = annotation(annotations, b"x-basic-expiration")
    if not (isinstance(found, tuple) and found[0] == "utf8"):
        return None
    try:
        return checked_expiration(found[1].decode("latin-1"))
    except RefusedError:
        raise CrashedError(
            "the session dies: the annotation is not an expiration",
            "message-annotations['x-basic-expiration']",
        ) from None


def shown(value: Term) -> Any:
    """Return a term as a report shows it."""
    if not isinstance(value, tuple):
        return value
    if value is UNDEFINED:
        return None
    if value[0] in ("utf8", "symbol"):
        return value[1].decode("utf-8", "replace")
    if value[0] in ("as_is", "unread"):
        return bytes(value[2])
    return value[1] if len(value) == 2 else value


def check_user(name: bytes, user: str | None) -> None:
    """Raise for a user-id that is not the user's name; without a user, that no user can have."""
    if user is not None:
        if name != octets(user):
            raise RefusedError(
                "refused: the user-id is not the connection's user", "properties.user-id"
            )
    elif not name or not utf8_without_nul(name):
        # Names are not empty, are UTF-8 (tools and the HTTP interface take no other), and SASL
        # PLAIN ends them with a NUL.
        raise RefusedError("refused: no user can have this name", "properties.user-id")
