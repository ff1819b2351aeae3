"""The rules of Part 3, 3.2: their checks, a generator for one or a few, and their table."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, cast

import attrs

from amqp10msg.composite import Error, composite_of, decode_composite, rows
from amqp10msg.sections import KINDS
from amqp10msg.sections.parts import Child, MessageMap
from amqp10msg.validation.prefilter import CODINGS, is_free_key, is_mime_type
from amqp10msg.validation.rules import Found, Obligation, Rule, Severity, obligations_of, rows_of
from amqp10msg.wire import kernel
from amqp10msg.wire.errors import RESOURCE_LIMIT_EXCEEDED, DecodeError
from amqp10msg.wire.kernel.codes import FIRST_CODE, order_rule
from amqp10msg.wire.kernel.walk import end_of, text_at, type_at
from amqp10msg.wire.limits import Limits
from amqp10msg.wire.primitives import AmqpMap, Array, Described, Symbol, ULong

# The sections of the type annotations (3.2.10).
_ANNOTATIONS = ("delivery-annotations", "message-annotations", "footer")
_BEFORE_BODY = ("delivery-annotations", "message-annotations", "application-properties")
_MESSAGE = ("message-annotations",)
_BODY = next(kind.order for kind in KINDS if kind.attribute == "body")
_FOOTER = KINDS[-1].order

_ARCHETYPES = {
    "message-id": ({"ulong", "uuid", "binary", "string"}, "Part 3, 3.2.11 to 3.2.14"),
    "address": ({"string"}, "Part 3, 3.2.15"),
}
_ARCHETYPE_NAMES = {
    "message-id": "a message-id (ulong, uuid, binary or string)",
    "address": "an address (string)",
}
_WANTED = {"list": "a list", "map": "a map", "binary": "a binary"}

# Constructors of array elements that RabbitMQ 4's parser does not have.
_RABBITMQ_LACKS = frozenset((0x52, 0x53, 0x54, 0x55, 0x74, 0x84, 0x94, 0xC0, 0xC1, 0xE0))


def _symbols(field: str, wrong: Callable[[str], str], view: MessageMap) -> Iterator[Found]:
    for child in _set(view, field, "symbol"):
        text = text_at(view.data, child.value, child.end)
        # What is not ASCII is not a symbol, which another rule reports.
        if text.isascii() and (says := wrong(text)):
            yield Found(child.value, child.path, says)


def _codings(wrong: Callable[[str], str], view: MessageMap) -> Iterator[Found]:
    return _symbols("content-encoding", wrong, view)


def _values(
    sections: tuple[str, ...], wrong: Callable[[MessageMap, int, int, int], str], view: MessageMap
) -> Iterator[Found]:
    for section in view.of(*sections):
        for place in section.entries():
            if text := wrong(view, *place):
                child = section.entry(place)
                yield Found(child.value, child.path, text)


def _set(view: MessageMap, field: str, kind: str = "") -> Iterator[Child]:
    """Yield a field of the properties if it is set, and of this type."""
    for section in view.of("properties"):
        child = section.field(field)
        if child and kind in ("", type_at(view.data, child.value)):
            yield child


# The sections.


def strangers(view: MessageMap, *, described: bool) -> Iterator[Found]:
    """Find values that are in the place of a section."""
    text = (
        "the descriptor is not that of a section of Part 3, 3.2"
        if described
        else "a message is a sequence of sections, and this value is not described"
    )
    for offset, has_descriptor in view.strangers:
        if has_descriptor is described:
            yield Found(offset, "", text)


def misplaced(view: MessageMap, *, rule: str) -> Iterator[Found]:
    """Find sections in a place where they must not be, by one of the three rules on that."""
    if view.in_order:
        return
    seen = 0
    last = -1
    for section in view.sections:
        name, index = section.kind.name, section.kind.code - FIRST_CODE
        broken = order_rule(index, last, seen)
        if broken == rule:
            before = KINDS[last].name
            text = {
                "duplicate-section": f"{name} occurs twice",
                "mixed-body-sections": f"{name} follows {before}: a body has sections of one kind",
                "section-out-of-order": f"{name} must precede {before}",
            }
            yield Found(section.offset, name, text[broken])
        seen |= 1 << index
        if last < 0 or section.kind.order > KINDS[last].order:
            last = index


def body_missing(view: MessageMap) -> Iterator[Found]:
    """Find a missing body, unless the end of the message is cut off."""
    if view.complete and not any(section.kind.order == _BODY for section in view.sections):
        footers = (s.offset for s in view.sections if s.kind.order == _FOOTER)
        yield Found(
            next(footers, len(view.data)),
            "body",
            "the message has no body: add a data, amqp-sequence or amqp-value section",
        )


def section_value_type(view: MessageMap) -> Iterator[Found]:
    """Find sections whose value does not have the type of their descriptor."""
    for section in view.sections:
        kind, have = section.kind, section.type
        if have and kind.source not in (have, "*"):
            text = f"{kind.name} holds {_WANTED[kind.source]}, not {have}"
            yield Found(section.content, kind.name, text, kind.clause)


# Header and properties.


def too_many_fields(view: MessageMap) -> Iterator[Found]:
    """Find lists with more fields than are declared."""
    for section in view.of("header", "properties"):
        known = len(rows(section.kind.cls))
        if section.count > known:
            name = section.kind.name
            text = f"{name} has {known} fields, not {section.count}"
            yield Found(section.content, name, text, section.kind.clause)


def field_type(view: MessageMap) -> Iterator[Found]:
    """Find fields that are not of the type they are declared to be."""
    for section in view.of("header", "properties"):
        for row, place, _ in section.fields.values():
            have = type_at(view.data, place)
            if have == row.type or not have:
                continue
            wanted, clause = _ARCHETYPES.get(row.requires, ({row.type}, section.kind.clause))
            if have not in wanted:
                says = _ARCHETYPE_NAMES.get(row.requires, row.type)
                text = f"{row.wire_name} is {says}, not {have}"
                yield Found(place, section.path(row), text, clause)


def rejected_type(view: MessageMap, key: int, value: int, end: int) -> str:
    """Report a delivery annotation ``rejected`` whose value is not an error."""
    if type_at(view.data, key) != "symbol" or text_at(view.data, key, value) != "rejected":
        return ""
    # Nothing is spent here on arrays that no byte pays for.
    wrong = _wrong_error(view.data[value:end], attrs.evolve(view.limits, zero_width=0))
    return wrong and f"the value of the key rejected must be an error (0x1D): {wrong}"


def _wrong_error(octets: bytes, limits: Limits) -> str:
    """Return why a value is not an error; empty if it is one, or is too large to read."""
    try:
        made = kernel.decode_value(octets, limits=limits)
        if not isinstance(made, Described) or made.descriptor not in _ERROR:
            return f"it is {type_at(octets, 0)}" if octets[0] else "its descriptor is another one"
        decode_composite(octets, limits=limits)
    except DecodeError as error:
        return "" if error.condition == RESOURCE_LIMIT_EXCEEDED else error.reason
    return ""


# Both forms of its descriptor. The import registers it.
_ERROR = (ULong(composite_of(Error).code), Symbol(composite_of(Error).symbol))


def without_data(view: MessageMap, *, field: str) -> Iterator[Found]:
    """Find this field in messages whose body is something else than data."""
    others = [s.kind.name for s in view.sections if s.kind.order == _BODY and s.kind.name != "data"]
    for child in _set(view, field) if others else ():
        text = f"{field} is set, and the body is {others[0]}: omit it, or send data"
        yield Found(child.value, child.path, text)


def content_type_not_mime(text: str) -> str:
    if is_mime_type(text):
        return ""
    return f"{_short(text)} is not a MIME type: write type/subtype, or omit it"


def _split(text: str) -> list[str]:
    # RFC 2616, 3.5 and 14.11: a list with commas, and case does not matter.
    return [coding.strip(" \t").lower() for coding in text.split(",")]


def content_encoding_identity(text: str) -> str:
    return "identity must not be used: omit it" if "identity" in _split(text) else ""


def content_encoding_compress(text: str) -> str:
    """Report the coding compress, which RFC 2616, 3.5 also calls x-compress."""
    if {"compress", "x-compress"}.isdisjoint(_split(text)):
        return ""
    return "compress should not be used: use gzip"


def content_encoding_multiple(text: str) -> str:
    count = len(_split(text))
    return f"there are {count} content-encodings: apply one" if count > 1 else ""


def content_encoding_unregistered(text: str) -> str:
    unknown = next((coding for coding in _split(text) if coding not in CODINGS), None)
    if unknown is None:
        return ""
    return f"{_short(unknown)} is not registered at IANA: gzip, deflate and zstd are"


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:40] + "…")


# The maps.


def key_type(view: MessageMap, *, section: str) -> Iterator[Found]:
    """Find keys of wrong types in the sections of this name."""
    wanted, says = ({"string"}, "a string")
    if section in _ANNOTATIONS:
        wanted, says = ({"symbol", "ulong"}, "a symbol or a ulong")
    for found in view.of(section):
        for key, end in found.key_places():
            have = type_at(view.data, key)
            if have and have not in wanted:
                child = found.entry((key, end, end))
                yield Found(key, child.path, f"a key of {section} is {says}, not {have}")


def value_not_simple(view: MessageMap, _: int, value: int, end: int) -> str:
    """Report an application property that is a list, map or array, described or not."""
    have = type_at(view.data, _undescribed(view.data, value, end))
    if have not in ("list", "map", "array"):
        return ""
    return f"an application property is of a simple type, not {have}"


def _undescribed(data: bytes, pos: int, end: int) -> int:
    """Return the place after the descriptors of a value whose size is intact."""
    while data[pos] == 0:
        pos = end_of(data, pos + 1, end)
    return pos


def key_reserved(view: MessageMap) -> Iterator[Found]:
    """Find annotation keys that only a specification may define."""
    for section in view.of(*_ANNOTATIONS):
        known = view.known_keys.get(section.kind.name, ())
        for place in section.entries():
            key, value, _ = place
            have = type_at(view.data, key)
            if have == "symbol":
                text = text_at(view.data, key, value)
                if is_free_key(text, known):
                    continue
            elif have != "ulong":
                continue
            child = section.entry(place)
            yield Found(
                child.key,
                child.path,
                "the key is reserved: use a symbol that begins with x-opt-, or with x- if "
                "receivers that do not know it are to refuse the message",
            )


# RabbitMQ 4.


def rabbitmq_described_value(view: MessageMap, _: int, value: int, end: int) -> str:
    """Report a described value, which the broker takes for a composite of its own."""
    if view.data[value] != 0 or _is_error(view.data[value:end]):
        return ""
    return "RabbitMQ ends the session on a described value: send the bare value"


def _is_error(octets: bytes) -> bool:
    return octets.startswith((b"\x00\x53\x1d", b"\x00\xa3\x0famqp:error:list"))


def rabbitmq_array_constructor(view: MessageMap) -> Iterator[Found]:
    """Find arrays that the broker's parser has no elements for, at any depth."""
    reader = kernel.Reader(view.data, 0, view.limits)
    entries = (
        (section, place) for section in view.of(*_BEFORE_BODY) for place in section.entries()
    )
    for section, place in entries:
        value = place[1]
        if type_at(view.data, value) not in ("list", "map", "array", "described"):
            continue
        reader.pos = value
        try:
            codes = set(_constructors(reader.value()))
        except kernel.READ_FAULTS:
            return  # the message is damaged, and that is noted
        lacking = sorted(codes & _RABBITMQ_LACKS)
        if lacking:
            child = section.entry(place)
            text = f"RabbitMQ has no array of constructor 0x{lacking[0]:02X}: send a list"
            yield Found(child.value, child.path, text)


def _constructors(value: Any) -> Iterator[int]:
    """Yield the element constructors of all arrays in a value."""
    pending = [value]
    while pending:
        one = pending.pop()
        if isinstance(one, Array):
            if one.code is not None:
                yield one.code
            pending += one.values
        elif isinstance(one, Described):
            pending += (one.descriptor, one.value)
        elif isinstance(one, (dict, AmqpMap)):
            for pair in one.items():
                pending += pair
        elif isinstance(one, list):
            pending += one


def rabbitmq_annotation_null(view: MessageMap, _: int, value: int, __: int) -> str:
    """Report a null annotation, which the broker stores and cannot send."""
    if view.data[value] != 0x40:
        return ""
    return "RabbitMQ cannot deliver a null annotation: omit it"


def rabbitmq_annotation_number(view: MessageMap, _: int, value: int, end: int) -> str:
    """Report an annotation that is a number which RabbitMQ 4.0 stores and cannot send."""
    have = type_at(view.data, value)
    if have in ("float", "double"):
        form = ">f" if have == "float" else ">d"
        if math.isfinite(struct.unpack(form, view.data[value + 1 : end])[0]):
            return ""
    elif not have.startswith("decimal"):
        return ""
    return f"RabbitMQ 4.0 cannot deliver this {have}: send a string"


def rabbitmq_user_id_empty(view: MessageMap) -> Iterator[Found]:
    """Find user-ids that no user of the broker can have."""
    for child in _set(view, "user-id", "binary"):
        if not text_at(view.data, child.value, child.end):
            text = "RabbitMQ compares the user-id with the connection's user: omit it"
            yield Found(child.value, child.path, text)


#: What finds the places where a rule is broken, by the rule's name, for each set of sections that
#: it looks into; those of no section look at the whole message.
_CHECKS: dict[tuple[str, ...], dict[str, Callable[[MessageMap], Iterator[Found]]]] = {
    (): {
        "not-a-section": partial(strangers, described=False),
        "unknown-section": partial(strangers, described=True),
        "section-out-of-order": partial(misplaced, rule="section-out-of-order"),
        "duplicate-section": partial(misplaced, rule="duplicate-section"),
        "mixed-body-sections": partial(misplaced, rule="mixed-body-sections"),
        "body-missing": body_missing,
        "section-value-type": section_value_type,
    },
    ("header", "properties"): {"too-many-fields": too_many_fields, "field-type": field_type},
    ("properties",): {
        "content-type-without-data": partial(without_data, field="content-type"),
        "content-encoding-without-data": partial(without_data, field="content-encoding"),
        "content-type-not-mime": partial(_symbols, "content-type", content_type_not_mime),
        "content-encoding-identity": partial(_codings, content_encoding_identity),
        "content-encoding-compress": partial(_codings, content_encoding_compress),
        "content-encoding-multiple": partial(_codings, content_encoding_multiple),
        "content-encoding-unregistered": partial(_codings, content_encoding_unregistered),
        "rabbitmq-user-id-empty": rabbitmq_user_id_empty,
    },
    ("application-properties",): {
        "application-properties-key-type": partial(key_type, section="application-properties"),
        "application-properties-value-not-simple": partial(
            _values, ("application-properties",), value_not_simple
        ),
    },
    ("delivery-annotations",): {
        "delivery-annotations-key-type": partial(key_type, section="delivery-annotations"),
        "delivery-annotations-rejected-type": partial(
            _values, ("delivery-annotations",), rejected_type
        ),
    },
    _MESSAGE: {
        "message-annotations-key-type": partial(key_type, section="message-annotations"),
        "rabbitmq-annotation-null": partial(_values, _MESSAGE, rabbitmq_annotation_null),
        "rabbitmq-annotation-number": partial(_values, _MESSAGE, rabbitmq_annotation_number),
    },
    ("footer",): {"footer-key-type": partial(key_type, section="footer")},
    _ANNOTATIONS: {"annotation-key-reserved": key_reserved},
    _BEFORE_BODY: {
        "rabbitmq-described-value": partial(_values, _BEFORE_BODY, rabbitmq_described_value),
        "rabbitmq-array-constructor": rabbitmq_array_constructor,
    },
}
#: Of the checks that look into sections alone, into which ones.
LOOKED_INTO: dict[str, frozenset[str]] = {
    name: frozenset(sections) for sections, checks in _CHECKS.items() if sections for name in checks
}
# The name, the clause, the severity and which decoding refuses it; then what must be, and after
# ``>`` the words of the specification.
_TABLE = """
# The encodings of Part 1: what the kernel refuses, under the kernel's names.
truncated | Part 1, 1.2 | error | structural
    A value has as many bytes as its size or type requires.
unknown-constructor | Part 1, 1.2 | error | structural
    A value begins with a format code of Part 1, 1.6.
compound-size-too-small | Part 1, 1.2.3, 1.2.4 | error | structural
    The size of a list, map or array covers its count, and an array's its constructor.
count-exceeds-size | Part 1, 1.2.3, 1.2.4 | error | structural
    The values that a list, map or array counts fit into its size.
element-overruns-compound | Part 1, 1.2.3, 1.2.4 | error | structural
    A value ends before the list, map or array that it is in.
compound-trailing-bytes | Part 1, 1.2.3, 1.2.4 | error | structural
    Nothing follows the last value that a list, map or array counts.
boolean-octet-not-0-or-1 | Part 1, 1.6.2 | error | structural
    The byte of a boolean is 0x00 or 0x01.
char-not-a-unicode-scalar | Part 1, 1.6.16 | error | structural
    A char is a Unicode code point that is not a surrogate.
invalid-utf8 | Part 1, 1.6.20 | error | structural
    A string is UTF-8.
symbol-not-ascii | Part 1, 1.6.21 | error | structural
    A symbol is ASCII.
map-odd-count | Part 1, 1.6.23 | error | structural
    A map has a value for every key.
map-duplicate-key | Part 1, 1.6.23 | error | refused
    A map has every key once.
array-without-constructor | Part 1, 1.6.24 | error | refused
    An array has the constructor of its elements, also where it is empty.
depth-limit | Part 2, 2.8.15 | error | structural
    Values are nested no deeper than Limits.depth.
items-limit | Part 2, 2.8.15 | error | structural
    The message holds no more values than Limits.items.
zero-width-limit | Part 2, 2.8.15 | error | structural
    Arrays hold no more elements without bytes than Limits.zero_width.
keys-limit | Part 2, 2.8.15 | error | refused
    A section of annotations has no more ulong keys than a dict takes from strangers: 4,096.
size-limit | Part 2, 2.8.15 | error | structural
    The message has no more bytes than Limits.size.
# The sections.
not-a-section | Part 3, 3.2 | error | refused
    A message is a sequence of sections, which are described values.
    > Altogether a message consists of the following sections
unknown-section | Part 3, 3.2 | error | refused
    A section has one of the nine descriptors, 0x70 to 0x78.
    > Altogether a message consists of the following sections
section-out-of-order | Part 3, 3.2 | error | refused
    Sections are in order, from the header to the footer.
    > Altogether a message consists of the following sections
duplicate-section | Part 3, 3.2 | error | refused
    A message has one section of a kind, except several data or amqp-sequence.
    > Altogether a message consists of the following sections
mixed-body-sections | Part 3, 3.2 | error | refused
    The body is data, amqp-sequence or amqp-value, and not two of them.
    > Altogether a message consists of the following sections
body-missing | Part 3, 3.2 | error
    A message has a body: data, amqp-sequence or amqp-value.
    > The bare message consists of three sections: standard properties, application-properties, and
    > application-data (the body).
section-value-type | Part 3, 3.2.1 to 3.2.9 | error | refused
    A section's value is of the type that its descriptor names.
# Header and properties.
too-many-fields | Part 3, 3.2.1, 3.2.4 | error | refused
    Header and properties have no more fields than are defined: 5 and 13.
field-type | Part 3, 3.2.1, 3.2.4, 3.2.11 to 3.2.15 | error | refused
    A field is null or of its type; a message-id is ulong, uuid, binary or string, an address is a
    string.
delivery-annotations-rejected-type | Part 3, 3.2.2 | error
    The value of the delivery annotation rejected is an error (Part 2, 2.8.14).
    > Any values associated with the "rejected" key MUST be of type error.
content-type-not-mime | Part 3, 3.2.4 | warning
    The content-type is a MIME type, such as text/plain; one that is not known is left out.
    > For clarity, as per section 7.2.1 of RFC-2616 [RFC2616], where the content type is unknown
    > the content-type SHOULD NOT be set.
content-type-without-data | Part 3, 3.2.4 | warning
    The content-type is set only if the body is data.
    > When using an application-data section with a section code other than data, content-type
    > SHOULD NOT be set.
content-encoding-without-data | Part 3, 3.2.4 | error
    The content-encoding is set only if the body is data.
    > The content-encoding MUST NOT be set when the application-data section is other than data.
content-encoding-identity | Part 3, 3.2.4 | error
    The content-encoding is not identity: leave it out.
    > Implementations MUST NOT use the identity encoding.
content-encoding-compress | Part 3, 3.2.4 | warning
    The content-encoding is not compress.
    > Implementations SHOULD NOT use the compress encoding, except as to remain compatible with
    > messages originally sent with other protocols, e.g. HTTP or SMTP.
content-encoding-multiple | Part 3, 3.2.4 | warning
    There is one content-encoding.
    > Implementations SHOULD NOT specify multiple content-encoding values except as to be
    > compatible with messages originally sent with other protocols, e.g. HTTP or SMTP.
content-encoding-unregistered | Part 3, 3.2.4 | warning
    The content-encoding is registered at IANA, such as gzip.
    > Valid content-encodings are registered at IANA [IANAHTTPPARAMS].
# Application properties and annotations.
application-properties-key-type | Part 3, 3.2.5 | error | refused
    The key of an application property is a string.
    > The keys of this map are restricted to be of type string (which excludes the possibility of a
    > null key) and the values are restricted to be of simple types only, that is, excluding map,
    > list, and array types.
application-properties-value-not-simple | Part 3, 3.2.5 | error | refused
    The value of an application property is of a simple type, also where it is described.
    > The keys of this map are restricted to be of type string (which excludes the possibility of a
    > null key) and the values are restricted to be of simple types only, that is, excluding map,
    > list, and array types.
delivery-annotations-key-type | Part 3, 3.2.10 | error | refused
    A key of the delivery-annotations is a symbol or a ulong.
    > The annotations type is a map where the keys are restricted to be of type symbol or of type
    > ulong.
message-annotations-key-type | Part 3, 3.2.10 | error | refused
    A key of the message-annotations is a symbol or a ulong.
    > The annotations type is a map where the keys are restricted to be of type symbol or of type
    > ulong.
footer-key-type | Part 3, 3.2.10 | error | refused
    A key of the footer is a symbol or a ulong.
    > The annotations type is a map where the keys are restricted to be of type symbol or of type
    > ulong.
annotation-key-reserved | Part 3, 3.2.10 | warning
    An annotation's key is a symbol that begins with x-, unless a specification defines it.
    > All ulong keys, and all symbolic keys except those beginning with "x-" are reserved.
# What a Message has and its bytes do not.
message-format | Part 3, 3.2.16 | warning
    The message-format of a message that follows Part 3 is 0.
    > This value goes into the message-format field of the transfer frame when transferring
    > messages of the format defined herein.
not-encodable | Part 3, 3.2 | error
    Every value of a message can be encoded as what it is declared to be.
# What RabbitMQ 4 makes of messages that the specification allows, seen with 4.0.5 and 4.3.6.
rabbitmq-described-value | RabbitMQ 4 | error
    No annotation or application property is a described value, except an error.
rabbitmq-array-constructor | RabbitMQ 4 | error
    The elements of an array before the body are not in a short form of an integer, list, map or
    array, and no decimals.
rabbitmq-annotation-null | RabbitMQ 4 | error
    No message annotation is null: streams refuse the message, queues cannot deliver it.
rabbitmq-annotation-number | RabbitMQ 4 | warning
    No message annotation is a decimal, infinite or NaN: streams of 4.0 refuse the message, queues
    cannot deliver it.
rabbitmq-user-id-empty | RabbitMQ 4 | error
    The user-id is the name of the user of the connection, or left out.
"""
# On annotation-key-reserved: a reserved key is the specification's to assign. Whether it has been
# assigned since cannot be told from the message, and the clause says MUST only to receivers that do
# not know the key: so an encoded message is suspect, not wrong. On keys-limit: lenient decoding
# reads such a map as an AmqpMap, and so does a body.


def _rules() -> Iterator[Rule]:
    checks = {name: check for found in _CHECKS.values() for name, check in found.items()}
    for (name, clause, severity, *refused), text, quote in rows_of(_TABLE):
        yield Rule(
            name,
            clause,
            cast("Severity", severity),
            text,
            quote,
            bool(refused),
            refused == ["structural"],
            checks.get(name),
        )


#: Every rule by its name, in the order of the clauses.
RULES: Mapping[str, Rule] = MappingProxyType({rule.id: rule for rule in _rules()})


_REASONS = {
    "two messages": "It shows only in the messages before and after the intermediary.",
    "receiver": "It is up to the receiver.",
    "intermediary": "It is up to the intermediary.",
    "target": "It is up to the target.",
    "sender": "What the sender knew of the data is not in the message.",
}
# The clause and the reason, then the words of the specification.
_LEFT_OUT = """
Part 3, 3.2 | two messages
    If a section of the bare message is omitted, one MUST NOT be inserted by an intermediary.
Part 3, 3.2 | two messages
    The exact encoding of sections of the bare message MUST NOT be modified.
Part 3, 3.2.1 | receiver
    If the header section is omitted the receiver MUST assume the appropriate default values (or
    the meaning implied by no value being set) for the fields within the header unless other target
    or node specific defaults have otherwise been set.
Part 3, 3.2.1 | intermediary
    Durable messages MUST NOT be lost even if an intermediary is unexpectedly terminated and
    restarted.
Part 3, 3.2.1 | target
    A target which is not capable of fulfilling this guarantee MUST NOT accept messages where the
    durable header is set to true
Part 3, 3.2.1 | intermediary
    An AMQP intermediary implementing distinct priority levels MUST do so in the following manner
Part 3, 3.2.1 | intermediary
    priorities 0 to (5 - ceiling(n/2)) MUST be treated equivalently and MUST be the lowest
    effective priority.
Part 3, 3.2.1 | intermediary
    The priorities (4 + floor(n/2)) and above MUST be treated equivalently and MUST be the highest
    effective priority.
Part 3, 3.2.1 | intermediary
    The priorities (5 - ceiling(n/2)) to (4 + floor(n/2)) inclusive MUST be treated as distinct
    priorities.
Part 3, 3.2.1 | intermediary
    priorities 0 to (n - 1) MUST be distinct, and priorities n and above MUST be equivalent to
    priority (n - 1).
Part 3, 3.2.3 | two messages
    Intermediaries MUST propagate the annotations unless the annotations are explicitly augmented
    or modified (e.g., by the use of the modified outcome).
Part 3, 3.2.4 | two messages
    The properties section is part of the bare message; therefore, if retransmitted by an
    intermediary, it MUST remain unaltered.
Part 3, 3.2.4 | sender
    Where the section is known to be truly opaque binary data, the content-type SHOULD be set to
    application/octet-stream.
Part 3, 3.2.10 | receiver
    Keys beginning with "x-opt-" MUST be ignored if not understood.
Part 3, 3.2.10 | receiver
    On receiving an annotation key which is not understood, and which does not begin with "x-opt",
    the receiving AMQP container MUST detach the link with a not-implemented error.
"""
#: Every MUST, MUST NOT, SHOULD and SHOULD NOT of Part 3, 3.2 that has no rule.
NOT_VISIBLE: tuple[Obligation, ...] = obligations_of(_LEFT_OUT, _REASONS)
