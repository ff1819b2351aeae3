"""The checks of the rules of Part 3, 3.2: each yields the places where a message breaks a rule."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator
from typing import Any

import attrs

from amqp10msg.composite import Error, composite_of, decode_composite, rows
from amqp10msg.sections import KINDS
from amqp10msg.sections.parts import Child, MessageMap
from amqp10msg.validation.rules import Found
from amqp10msg.validation.suspicion import CODINGS, is_free_key, is_mime_type
from amqp10msg.wire import kernel
from amqp10msg.wire.errors import RESOURCE_LIMIT_EXCEEDED, DecodeError
from amqp10msg.wire.kernel.codes import FIRST_CODE, order_rule
from amqp10msg.wire.kernel.walk import end_of, text_at, type_at
from amqp10msg.wire.limits import Limits
from amqp10msg.wire.primitives import AmqpMap, Array, Described, Symbol, ULong

# The sections of the type annotations (3.2.10).
ANNOTATIONS = ("delivery-annotations", "message-annotations", "footer")
BEFORE_BODY = ("delivery-annotations", "message-annotations", "application-properties")
MESSAGE_ANNOTATIONS = ("message-annotations",)
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


def symbols(field: str, wrong: Callable[[str], str], view: MessageMap) -> Iterator[Found]:
    for child in _set(view, field, "symbol"):
        text = text_at(view.data, child.value, child.end)
        # What is not ASCII is not a symbol, which another rule reports.
        if text.isascii() and (says := wrong(text)):
            yield Found(child.value, child.path, says)


def codings(wrong: Callable[[str], str], view: MessageMap) -> Iterator[Found]:
    return symbols("content-encoding", wrong, view)


def values(
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
    for offset, has_descriptor in view.unknown:
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
    if section in ANNOTATIONS:
        wanted, says = ({"symbol", "ulong"}, "a symbol or a ulong")
    for found in view.of(section):
        for key, end in found.key_ranges():
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
    for section in view.of(*ANNOTATIONS):
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


# Azure.


def annotation_type(
    view: MessageMap, *, keys: tuple[str, ...], usual: str, effect: str
) -> Iterator[Found]:
    """Find message annotations of these keys whose value is neither null nor of the usual type."""
    for section in view.of(*MESSAGE_ANNOTATIONS):
        for place in section.entries():
            key, value, _ = place
            if type_at(view.data, key) != "symbol" or text_at(view.data, key, value) not in keys:
                continue
            have = type_at(view.data, value)
            if have and have not in (usual, "null"):
                child = section.entry(place)
                text = f"Azure expects a {usual} here, not {have}: {effect}"
                yield Found(child.value, child.path, text)


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
    entries = ((section, place) for section in view.of(*BEFORE_BODY) for place in section.entries())
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
