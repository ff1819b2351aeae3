"""The checks behind the rules: one generator for each rule, or for a few that differ in a word."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

import attrs

from amqp10msg import _core
from amqp10msg._core.walk import end_of, text_at, type_at
from amqp10msg.composite import Error, composite_of, decode_composite, rows
from amqp10msg.errors import RESOURCE_LIMIT_EXCEEDED, DecodeError
from amqp10msg.limits import Limits
from amqp10msg.primitives import AmqpMap, Array, Described, Symbol, ULong
from amqp10msg.sections import KINDS
from amqp10msg.validation._view import Child, Section, View
from amqp10msg.validation.texts import CODINGS, is_free_key, is_mime_type

#: The sections of the type annotations (3.2.10).
ANNOTATIONS = ("delivery-annotations", "message-annotations", "footer")
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


class Found(NamedTuple):
    """A place where a rule is broken.

    Attributes:
        offset: where, in octets.
        path: where, in words.
        text: what is wrong.
        clause: the clause that was broken, where the rule has several.
    """

    offset: int
    path: str
    text: str
    clause: str = ""


# The sections.


def strangers(view: View, *, described: bool) -> Iterator[Found]:
    """Find values that are in the place of a section."""
    text = (
        "the descriptor is not that of a section of Part 3, 3.2"
        if described
        else "a message is a sequence of sections, and this value is not described"
    )
    for offset, has_descriptor in view.strangers:
        if has_descriptor is described:
            yield Found(offset, "", text)


def misplaced(view: View, *, rule: str) -> Iterator[Found]:
    """Find sections in a place where they must not be, by one of the three rules on that."""
    seen: set[str] = set()
    last: Section | None = None
    body: Section | None = None
    for section in view.sections:
        name, order = section.kind.name, section.kind.order
        broken = ""
        if order == _BODY:
            if last is not None and last.kind.order > order:
                broken, text = "section-out-of-order", f"{name} must precede {last.kind.name}"
            elif body is not None and body.kind is not section.kind:
                broken = "mixed-body-sections"
                text = f"{name} follows {body.kind.name}: a body has sections of one kind"
            elif body is not None and not section.kind.repeatable:
                broken, text = "duplicate-section", f"{name} occurs twice"
            body = body or section
        elif name in seen:
            broken, text = "duplicate-section", f"{name} occurs twice"
        elif last is not None and last.kind.order > order:
            broken, text = "section-out-of-order", f"{name} must precede {last.kind.name}"
        seen.add(name)
        if last is None or order >= last.kind.order:
            last = section
        if broken == rule:
            yield Found(section.offset, name, text)


def body_missing(view: View) -> Iterator[Found]:
    """Find a missing body, unless the end of the message is cut off."""
    if view.complete and not any(section.kind.order == _BODY for section in view.sections):
        footers = (s.offset for s in view.sections if s.kind.order == _FOOTER)
        yield Found(
            next(footers, len(view.data)),
            "body",
            "the message has no body: add a data, amqp-sequence or amqp-value section",
        )


def section_value_type(view: View) -> Iterator[Found]:
    """Find sections whose value does not have the type of their descriptor."""
    for section in view.sections:
        kind, have = section.kind, section.type
        if have and kind.source not in (have, "*"):
            text = f"{kind.name} holds {_WANTED[kind.source]}, not {have}"
            yield Found(section.content, kind.name, text, kind.clause)


# Header and properties.


def too_many_fields(view: View) -> Iterator[Found]:
    """Find lists with more fields than are declared."""
    for section in view.of("header", "properties"):
        known = len(rows(section.kind.cls))
        if section.count > known:
            name = section.kind.name
            text = f"{name} has {known} fields, not {section.count}"
            yield Found(section.content, name, text, section.kind.clause)


def field_type(view: View) -> Iterator[Found]:
    """Find fields that are not of the type they are declared to be."""
    for section in view.of("header", "properties"):
        for row, child in section.fields():
            wanted, clause = _ARCHETYPES.get(row.requires, ({row.type}, section.kind.clause))
            have = type_at(view.data, child.value)
            if have and have not in wanted:
                says = _ARCHETYPE_NAMES.get(row.requires, row.type)
                text = f"{row.wire_name} is {says}, not {have}"
                yield Found(child.value, child.path, text, clause)


def rejected_type(view: View) -> Iterator[Found]:
    """Find values of the delivery annotation ``rejected`` that are not errors."""
    # Nothing is spent here on arrays that no octet pays for.
    limits = attrs.evolve(view.limits, zero_width=0)
    for section in view.of("delivery-annotations"):
        for place in section.entries():
            key, value, end = place
            if not _is_symbol(view, key, value, "rejected"):
                continue
            wrong = _wrong_error(view.data[value:end], limits)
            if wrong:
                text = f"the value of the key rejected must be an error (0x1D): {wrong}"
                yield Found(value, section.entry(place).path, text)


def _wrong_error(octets: bytes, limits: Limits) -> str:
    """Return why a value is not an error; empty if it is one, or is too large to read."""
    try:
        made = _core.decode_value(octets, limits=limits)
        if not isinstance(made, Described) or made.descriptor not in _ERROR:
            return f"it is {type_at(octets, 0)}" if octets[0] else "its descriptor is another one"
        decode_composite(octets, limits=limits)
    except DecodeError as error:
        return "" if error.condition == RESOURCE_LIMIT_EXCEEDED else error.reason
    return ""


# Both forms of its descriptor. The import registers it.
_ERROR = (ULong(composite_of(Error).code), Symbol(composite_of(Error).symbol))


def _is_symbol(view: View, start: int, end: int, text: str) -> bool:
    return type_at(view.data, start) == "symbol" and text_at(view.data, start, end) == text


def without_data(view: View, *, field: str) -> Iterator[Found]:
    """Find this field in messages whose body is something else than data."""
    others = [s.kind.name for s in view.sections if s.kind.order == _BODY and s.kind.name != "data"]
    if others:
        for section in view.of("properties"):
            child = section.field(field)
            if child:
                text = f"{field} is set, and the body is {others[0]}: omit it, or send data"
                yield Found(child.value, child.path, text)


def _symbols(view: View, field: str) -> Iterator[tuple[Child, str]]:
    for section in view.of("properties"):
        child = section.field(field)
        if child and type_at(view.data, child.value) == "symbol":
            text = text_at(view.data, child.value, child.end)
            if text.isascii():  # else it is not a symbol, which another rule reports
                yield child, text


def content_type_not_mime(view: View) -> Iterator[Found]:
    """Find content-types that do not have the form of a MIME type."""
    for child, text in _symbols(view, "content-type"):
        if not is_mime_type(text):
            says = f"{_short(text)} is not a MIME type: write type/subtype, or omit it"
            yield Found(child.value, child.path, says)


def _codings(view: View) -> Iterator[tuple[Child, list[str]]]:
    # RFC 2616, 3.5 and 14.11: a list with commas, and case does not matter.
    for child, text in _symbols(view, "content-encoding"):
        yield child, [coding.strip(" \t").lower() for coding in text.split(",")]


def content_encoding_identity(view: View) -> Iterator[Found]:
    """Find the coding identity."""
    for child, codings in _codings(view):
        if "identity" in codings:
            yield Found(child.value, child.path, "identity must not be used: omit it")


def content_encoding_compress(view: View) -> Iterator[Found]:
    """Find the coding compress, which RFC 2616, 3.5 also calls x-compress."""
    for child, codings in _codings(view):
        if "compress" in codings or "x-compress" in codings:
            yield Found(child.value, child.path, "compress should not be used: use gzip")


def content_encoding_multiple(view: View) -> Iterator[Found]:
    """Find lists of codings."""
    for child, codings in _codings(view):
        if len(codings) > 1:
            text = f"there are {len(codings)} content-encodings: apply one"
            yield Found(child.value, child.path, text)


def content_encoding_unregistered(view: View) -> Iterator[Found]:
    """Find codings that are not registered at IANA."""
    for child, codings in _codings(view):
        unknown = [coding for coding in codings if coding not in CODINGS]
        if unknown:
            text = f"{_short(unknown[0])} is not registered at IANA: gzip, deflate and zstd are"
            yield Found(child.value, child.path, text)


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:40] + "…")


# The maps.


def key_type(view: View, *, section: str) -> Iterator[Found]:
    """Find keys of wrong types in the sections of this name."""
    wanted, says = ({"string"}, "a string")
    if section in ANNOTATIONS:
        wanted, says = ({"symbol", "ulong"}, "a symbol or a ulong")
    for found in view.of(section):
        for key, end in found.key_places():
            have = type_at(view.data, key)
            if have and have not in wanted:
                child = found.entry((key, end, end))
                yield Found(key, child.path, f"a key of {section} is {says}, not {have}")


def value_not_simple(view: View) -> Iterator[Found]:
    """Find application properties that are lists, maps or arrays, described or not."""
    for section in view.of("application-properties"):
        for place in section.entries():
            have = type_at(view.data, _undescribed(view.data, place[1], place[2]))
            if have in ("list", "map", "array"):
                child = section.entry(place)
                text = f"an application property is of a simple type, not {have}"
                yield Found(child.value, child.path, text)


def _undescribed(data: bytes, pos: int, end: int) -> int:
    """Return the place behind the descriptors of a value whose size is intact."""
    while data[pos] == 0:
        pos = end_of(data, pos + 1, end)
    return pos


def key_reserved(view: View) -> Iterator[Found]:
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


# RabbitMQ 4.


def rabbitmq_described_value(view: View) -> Iterator[Found]:
    """Find described values, which the broker takes for composites of its own."""
    for section, place in _before_body(view):
        _, value, end = place
        if view.data[value] == 0 and not _is_error(view.data[value:end]):
            child = section.entry(place)
            text = "RabbitMQ ends the session on a described value: send the bare value"
            yield Found(child.value, child.path, text)


def _before_body(view: View) -> Iterator[tuple[Section, tuple[int, int, int]]]:
    names = ("delivery-annotations", "message-annotations", "application-properties")
    for section in view.of(*names):
        for place in section.entries():
            yield section, place


def _is_error(octets: bytes) -> bool:
    return octets.startswith((b"\x00\x53\x1d", b"\x00\xa3\x0famqp:error:list"))


def rabbitmq_array_constructor(view: View) -> Iterator[Found]:
    """Find arrays that the broker's parser has no elements for, at any depth."""
    reader = _core.Reader(view.data, 0, view.limits)
    for section, place in _before_body(view):
        _, value, _ = place
        if type_at(view.data, value) not in ("list", "map", "array", "described"):
            continue
        reader.pos = value
        try:
            codes = set(_constructors(reader.value()))
        except _core.READ_FAULTS:
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


def rabbitmq_annotation_null(view: View) -> Iterator[Found]:
    """Find null annotations, which the broker stores and cannot send."""
    for section in view.of("message-annotations"):
        for place in section.entries():
            if view.data[place[1]] == 0x40:
                child = section.entry(place)
                text = "RabbitMQ cannot deliver a null annotation: omit it"
                yield Found(child.value, child.path, text)


def rabbitmq_annotation_number(view: View) -> Iterator[Found]:
    """Find numbers that RabbitMQ 4.0 stores and cannot send."""
    for section in view.of("message-annotations"):
        for place in section.entries():
            _, value, end = place
            have = type_at(view.data, value)
            if have in ("float", "double"):
                form = ">f" if have == "float" else ">d"
                if math.isfinite(struct.unpack(form, view.data[value + 1 : end])[0]):
                    continue
            elif not have.startswith("decimal"):
                continue
            child = section.entry(place)
            text = f"RabbitMQ 4.0 cannot deliver this {have}: send a string"
            yield Found(child.value, child.path, text)


def rabbitmq_user_id_empty(view: View) -> Iterator[Found]:
    """Find user-ids that no user of the broker can have."""
    for section in view.of("properties"):
        child = section.field("user-id")
        if (
            child
            and type_at(view.data, child.value) == "binary"
            and not text_at(view.data, child.value, child.end)
        ):
            text = "RabbitMQ compares the user-id with the connection's user: omit it"
            yield Found(child.value, child.path, text)
