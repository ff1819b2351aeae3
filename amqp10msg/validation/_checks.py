"""The checks of the rules of Part 3, 3.2. Each yields the violations of one rule in a message."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator
from typing import Any

import attrs

from amqp10msg.composite import Error, composite_of, decode_composite, rows
from amqp10msg.sections import KINDS
from amqp10msg.sections.parts import Child, MessageMap
from amqp10msg.validation.rules import Occurrence
from amqp10msg.validation.suspicion import REGISTERED_CODINGS, is_free_key, is_mime_type
from amqp10msg.wire import kernel
from amqp10msg.wire.errors import RESOURCE_LIMIT_EXCEEDED, DecodeError
from amqp10msg.wire.kernel.codes import FIRST_SECTION_CODE, order_rule
from amqp10msg.wire.kernel.walk import end_of, text_at, type_at
from amqp10msg.wire.limits import Limits
from amqp10msg.wire.primitives import AmqpMap, Array, Described, Symbol, ULong

# The sections whose value has the AMQP type "annotations" (Part 3, 3.2.10).
ANNOTATION_SECTIONS = ("delivery-annotations", "message-annotations", "footer")
#: Map sections before the body.
MAPS_BEFORE_BODY = ("delivery-annotations", "message-annotations", "application-properties")
ONLY_MESSAGE_ANNOTATIONS = ("message-annotations",)
# Positions in a message, see `SectionKind.order`.
_BODY_POSITION = next(kind.order for kind in KINDS if kind.attribute == "body")
_FOOTER_POSITION = KINDS[-1].order

#: For each archetype, the AMQP types that provide it, and the clause that defines it.
_TYPES_AND_CLAUSE_BY_ARCHETYPE = {
    "message-id": ({"ulong", "uuid", "binary", "string"}, "Part 3, 3.2.11 to 3.2.14"),
    "address": ({"string"}, "Part 3, 3.2.15"),
}
#: The text of a violation names an archetype by these words.
_ARCHETYPES_IN_WORDS = {
    "message-id": "a message-id (ulong, uuid, binary or string)",
    "address": "an address (string)",
}
#: The text of a violation names an AMQP type by these words. The keys are the types of the values
#: of sections.
_AMQP_TYPES_IN_WORDS = {"list": "a list", "map": "a map", "binary": "a binary"}

# Constructors of array elements that RabbitMQ 4's parser does not support.
_RABBITMQ_UNSUPPORTED_ELEMENT_CODES = frozenset(
    (0x52, 0x53, 0x54, 0x55, 0x74, 0x84, 0x94, 0xC0, 0xC1, 0xE0)
)


def check_symbol(
    field: str, problem_of: Callable[[str], str], view: MessageMap
) -> Iterator[Occurrence]:
    """Report a field of the properties that is a symbol, if `problem_of` returns a text for it.

    Args:
        field: the wire name of the field.
        problem_of: returns the violation in a symbol as a text; empty if it is valid.
        view: the map of the message.
    """
    for child in _field_values(view, field, "symbol"):
        symbol = text_at(view.data, child.value, child.end)
        # Another rule reports a symbol that is not ASCII.
        if symbol.isascii() and (problem := problem_of(symbol)):
            yield Occurrence(child.value, child.path, problem)


def check_entries(
    sections: tuple[str, ...],
    problem_of: Callable[[MessageMap, int, int, int], str],
    view: MessageMap,
) -> Iterator[Occurrence]:
    """Report the map entries for which `problem_of` returns a text.

    Args:
        sections: the names of the map sections to check.
        problem_of: returns the violation in an entry as a text; empty if it is valid. Its arguments
            are the map of the message, and the offsets of the key, the value and the value's end.
        view: the map of the message.
    """
    for section in view.of(*sections):
        for offsets in section.entries():
            if problem := problem_of(view, *offsets):
                child = section.entry(offsets)
                yield Occurrence(child.value, child.path, problem)


def _field_values(view: MessageMap, field: str, amqp_type: str = "") -> Iterator[Child]:
    """Yield a field of the properties, if it is not null and has the type `amqp_type`.

    An empty `amqp_type` accepts all types.
    """
    for section in view.of("properties"):
        child = section.field(field)
        if child and amqp_type in ("", type_at(view.data, child.value)):
            yield child


# Checks of the sections.


def unknown_values(view: MessageMap, *, described: bool) -> Iterator[Occurrence]:
    """Find values that are not sections of Part 3.

    If `described`, find only described values; otherwise, only values without a descriptor.
    """
    text = (
        "the descriptor is not that of a section of Part 3, 3.2"
        if described
        else "a message is a sequence of sections, and this value is not described"
    )
    for offset, has_descriptor in view.unknown:
        if has_descriptor is described:
            yield Occurrence(offset, "", text)


def misplaced_sections(view: MessageMap, *, rule: str) -> Iterator[Occurrence]:
    """Find sections that violate `rule`, one of the rules that `order_rule` returns."""
    if view.in_order:
        return
    earlier_sections = 0
    last = -1
    for section in view.sections:
        name, index = section.kind.name, section.kind.code - FIRST_SECTION_CODE
        if order_rule(index, last, earlier_sections) == rule:
            previous = KINDS[last].name
            texts = {
                "duplicate-section": f"{name} occurs twice",
                "mixed-body-sections": (
                    f"{name} follows {previous}: a body has sections of one kind"
                ),
                "section-out-of-order": f"{name} must precede {previous}",
            }
            yield Occurrence(section.offset, name, texts[rule])
        earlier_sections |= 1 << index
        if last < 0 or section.kind.order > KINDS[last].order:
            last = index


def body_missing(view: MessageMap) -> Iterator[Occurrence]:
    """Find a missing body, unless the message is truncated."""
    if view.complete and not any(section.kind.order == _BODY_POSITION for section in view.sections):
        footers = (s.offset for s in view.sections if s.kind.order == _FOOTER_POSITION)
        yield Occurrence(
            next(footers, len(view.data)),
            "body",
            "the message has no body: add a data, amqp-sequence or amqp-value section",
        )


def section_value_type(view: MessageMap) -> Iterator[Occurrence]:
    """Find sections whose value does not have the type of their descriptor."""
    for section in view.sections:
        kind, actual = section.kind, section.type
        if actual and kind.source not in (actual, "*"):
            text = f"{kind.name} must be {_AMQP_TYPES_IN_WORDS[kind.source]}, not {actual}"
            yield Occurrence(section.content, kind.name, text, kind.clause)


# Checks of the header and properties.


def too_many_fields(view: MessageMap) -> Iterator[Occurrence]:
    """Find a header or properties with more fields than the specification defines."""
    for section in view.of("header", "properties"):
        defined = len(rows(section.kind.cls))
        if section.count > defined:
            name = section.kind.name
            text = f"{name} has {defined} fields, not {section.count}"
            yield Occurrence(section.content, name, text, section.kind.clause)


def field_type(view: MessageMap) -> Iterator[Occurrence]:
    """Find fields of a wrong type."""
    for section in view.of("header", "properties"):
        for row, offset, _ in section.fields:
            actual = type_at(view.data, offset)
            if actual == row.type or not actual:
                continue
            allowed, clause = _TYPES_AND_CLAUSE_BY_ARCHETYPE.get(
                row.requires, ({row.type}, section.kind.clause)
            )
            if actual not in allowed:
                expected = _ARCHETYPES_IN_WORDS.get(row.requires, row.type)
                text = f"{row.wire_name} must be {expected}, not {actual}"
                yield Occurrence(offset, section.path(row), text, clause)


def rejected_type(view: MessageMap, key: int, value: int, end: int) -> str:
    """Report a delivery annotation ``rejected`` whose value is not an error."""
    if type_at(view.data, key) != "symbol" or text_at(view.data, key, value) != "rejected":
        return ""
    # Do not allow zero-width array elements when this value is decoded again: reading the message
    # has already counted them towards its limit.
    problem = _why_not_an_error(view.data[value:end], attrs.evolve(view.limits, zero_width=0))
    return problem and f"the value of the key rejected must be an error (0x1D): {problem}"


def _why_not_an_error(octets: bytes, limits: Limits) -> str:
    """Return why a value is not an AMQP error (Part 2, 2.8.14); an empty string if it is.

    The result is also empty for a value that exceeds `limits`, because it cannot be checked.
    """
    try:
        value = kernel.decode_value(octets, limits=limits)
        if not isinstance(value, Described) or value.descriptor not in _AMQP_ERROR_DESCRIPTORS:
            return f"it is {type_at(octets, 0)}" if octets[0] else "its descriptor is another one"
        decode_composite(octets, limits=limits)
    except DecodeError as error:
        return "" if error.condition == RESOURCE_LIMIT_EXCEEDED else error.reason
    return ""


# The numeric and the symbolic descriptor of an error. Importing `Error` has registered it.
_AMQP_ERROR_DESCRIPTORS = (ULong(composite_of(Error).code), Symbol(composite_of(Error).symbol))


def field_without_data(view: MessageMap, *, field: str) -> Iterator[Occurrence]:
    """Find a field of the properties that is set although the body is not data."""
    for section in view.sections:
        kind = section.kind
        if kind.order == _BODY_POSITION and kind.name != "data":
            for child in _field_values(view, field):
                text = f"{field} is set, and the body is {kind.name}: omit it, or send data"
                yield Occurrence(child.value, child.path, text)
            return


def content_type_not_mime(text: str) -> str:
    """Report a content-type that is not a MIME type."""
    if is_mime_type(text):
        return ""
    return f"{_short_repr(text)} is not a MIME type: write type/subtype, or omit it"


def _codings_in(text: str) -> list[str]:
    """Return the codings in lower case (RFC 2616, 3.5 and 14.11: a comma-separated list)."""
    return [coding.strip(" \t").lower() for coding in text.split(",")]


def content_encoding_identity(text: str) -> str:
    """Report the coding identity."""
    return "identity must not be used: omit it" if "identity" in _codings_in(text) else ""


def content_encoding_compress(text: str) -> str:
    """Report the coding compress, which RFC 2616, 3.5 also calls x-compress."""
    if {"compress", "x-compress"}.isdisjoint(_codings_in(text)):
        return ""
    return "compress should not be used: use gzip"


def content_encoding_multiple(text: str) -> str:
    """Report several codings."""
    count = len(_codings_in(text))
    return f"there are {count} content-encodings: apply one" if count > 1 else ""


def content_encoding_unregistered(text: str) -> str:
    """Report a coding that is not in the registry of IANA."""
    unknown = next(
        (coding for coding in _codings_in(text) if coding not in REGISTERED_CODINGS), None
    )
    if unknown is None:
        return ""
    return f"{_short_repr(unknown)} is not registered at IANA: gzip, deflate and zstd are"


def _short_repr(text: str) -> str:
    """Return the repr of the first 40 characters of a text."""
    return repr(text if len(text) <= 40 else text[:40] + "…")


# The maps.


def key_type(view: MessageMap, *, section: str) -> Iterator[Occurrence]:
    """Find keys of a wrong type in the map section with this name."""
    allowed, expected = ({"string"}, "a string")
    if section in ANNOTATION_SECTIONS:
        allowed, expected = ({"symbol", "ulong"}, "a symbol or a ulong")
    for matching in view.of(section):
        for key, end in matching.key_ranges():
            actual = type_at(view.data, key)
            if actual and actual not in allowed:
                child = matching.entry((key, end, end))
                text = f"a key of {section} must be {expected}, not {actual}"
                yield Occurrence(key, child.path, text)


def value_not_simple(view: MessageMap, _: int, value: int, end: int) -> str:
    """Report an application property that is a list, map or array, even in a described value."""
    actual = type_at(view.data, _skip_descriptors(view.data, value, end))
    if actual not in ("list", "map", "array"):
        return ""
    return f"an application property must have a simple type, not {actual}"


def _skip_descriptors(data: bytes, pos: int, end: int) -> int:
    """Return the offset of the value at `pos` without its descriptors."""
    while data[pos] == 0:
        pos = end_of(data, pos + 1, end)
    return pos


def key_reserved(view: MessageMap) -> Iterator[Occurrence]:
    """Find reserved annotation keys that the profile does not define."""
    for section in view.of(*ANNOTATION_SECTIONS):
        reserved_keys = view.known_annotation_keys.get(section.kind.name, ())
        for offsets in section.entries():
            key, value, _ = offsets
            actual = type_at(view.data, key)
            if actual == "symbol":
                symbol = text_at(view.data, key, value)
                # Another rule reports a symbol that is not ASCII.
                if not symbol.isascii() or is_free_key(symbol, reserved_keys):
                    continue
            elif actual != "ulong":
                continue
            child = section.entry(offsets)
            yield Occurrence(
                child.key,
                child.path,
                "the key is reserved: use a symbol that begins with x-opt-, or with x- if "
                "receivers that do not understand it must refuse the message",
            )


# Azure.


def annotation_type(
    view: MessageMap, *, keys: tuple[str, ...], usual: str, effect: str
) -> Iterator[Occurrence]:
    """Find values of the message annotations `keys` whose type is neither null nor `usual`.

    `effect` is the broker's reaction to such a message.
    """
    for section in view.of(*ONLY_MESSAGE_ANNOTATIONS):
        for offsets in section.entries():
            key, value, _ = offsets
            if type_at(view.data, key) != "symbol" or text_at(view.data, key, value) not in keys:
                continue
            actual = type_at(view.data, value)
            if actual and actual not in (usual, "null"):
                child = section.entry(offsets)
                text = f"Azure expects a {usual} here, not {actual}: {effect}"
                yield Occurrence(child.value, child.path, text)


# RabbitMQ 4.


def rabbitmq_described_value(view: MessageMap, _: int, value: int, end: int) -> str:
    """Report a described value, which RabbitMQ 4 mistakes for one of its own composites."""
    if view.data[value] != 0 or _is_amqp_error(view.data[value:end]):
        return ""
    return "RabbitMQ ends the session on a described value: send the bare value"


def _is_amqp_error(octets: bytes) -> bool:
    """Return whether a value begins with the descriptor of an AMQP error."""
    return octets.startswith((b"\x00\x53\x1d", b"\x00\xa3\x0famqp:error:list"))


def rabbitmq_array_constructor(view: MessageMap) -> Iterator[Occurrence]:
    """Find arrays, at any depth, whose element constructor RabbitMQ 4's parser does not support."""
    reader = kernel.Reader(view.data, 0, view.limits)
    entries = (
        (section, entry) for section in view.of(*MAPS_BEFORE_BODY) for entry in section.entries()
    )
    for section, offsets in entries:
        value = offsets[1]
        if type_at(view.data, value) not in ("list", "map", "array", "described"):
            continue
        reader.pos = value
        try:
            codes = set(_element_constructors(reader.value()))
        except kernel.READ_FAULTS:
            return  # another rule reports the malformed value
        unsupported = sorted(codes & _RABBITMQ_UNSUPPORTED_ELEMENT_CODES)
        if unsupported:
            child = section.entry(offsets)
            text = (
                "RabbitMQ does not support arrays of constructor "
                f"0x{unsupported[0]:02X}: send a list"
            )
            yield Occurrence(child.value, child.path, text)


def _element_constructors(value: Any) -> Iterator[int]:
    """Yield the element constructors of all arrays in a decoded value, at any depth."""
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, Array):
            if item.code is not None:
                yield item.code
            pending += (*item.descriptors, *item.values)
        elif isinstance(item, Described):
            pending += (item.descriptor, item.value)
        elif isinstance(item, (dict, AmqpMap)):
            for pair in item.items():
                pending += pair
        elif isinstance(item, list):
            pending += item


def rabbitmq_annotation_null(view: MessageMap, _: int, value: int, __: int) -> str:
    """Report a null annotation, which RabbitMQ 4 stores but cannot deliver."""
    if view.data[value] != 0x40:
        return ""
    return "RabbitMQ cannot deliver a null annotation: omit it"


def rabbitmq_annotation_number(view: MessageMap, _: int, value: int, end: int) -> str:
    """Report a decimal, an infinity or a NaN, which RabbitMQ 4.0 stores but cannot deliver."""
    actual = type_at(view.data, value)
    if actual in ("float", "double"):
        layout = ">f" if actual == "float" else ">d"
        if math.isfinite(struct.unpack(layout, view.data[value + 1 : end])[0]):
            return ""
    elif not actual.startswith("decimal"):
        return ""
    return f"RabbitMQ 4.0 cannot deliver this {actual}: send a string"


def rabbitmq_user_id_empty(view: MessageMap) -> Iterator[Occurrence]:
    """Find an empty user-id, which never equals the name of the connection's user."""
    for child in _field_values(view, "user-id", "binary"):
        if not text_at(view.data, child.value, child.end):
            text = "RabbitMQ compares the user-id with the connection's user: omit it"
            yield Occurrence(child.value, child.path, text)
