# cython: language_level=3, boundscheck=True, wraparound=True, annotation_typing=False
"""A 1.0 message from the 0-9-1 message that it became: original, what it became, what stands now.

Runs as it is, and compiled with the C types of `_merge_message.pxd`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from amqp10msg.basic.message import BasicMessage
from amqp10msg.basic.tables import FieldTable
from amqp10msg.message import Message
from amqp10msg.sections import BODY_CODES
from amqp10msg.translate._contents import (
    FORMAT,
    PAYLOAD,
    PLACES,
    SHAPE,
    WHOLE,
)
from amqp10msg.translate._delivery import (
    HEADERS,
    in_name_order,
    is_in_name_order,
    without_facts,
)
from amqp10msg.translate._headers import (
    header_field,
    header_of,
)
from amqp10msg.translate._merge_sections import (
    annotations_octets,
    application_octets,
    body_octets,
    header_octets,
    properties_octets,
)
from amqp10msg.translate._natural import Natural
from amqp10msg.translate._reading import with_headers
from amqp10msg.translate._to_amqp10 import body_of, natural
from amqp10msg.translate.report import Notes
from amqp10msg.translate.table import MARKER, ROWS
from amqp10msg.wire import kernel
from amqp10msg.wire.errors import DecodeError
from amqp10msg.wire.kernel.codes import (
    DATA_CODE,
    DELIVERY_ANNOTATIONS_CODE,
    FOOTER_CODE,
    HEADER_CODE,
    MESSAGE_ANNOTATIONS_CODE,
    PROPERTIES_CODE,
)
from amqp10msg.wire.limits import UNLIMITED
from amqp10msg.wire.primitives import HEAD_SIZES, identical

_UNHEEDED = Notes(heeded=False)


def restored_message(
    basic: BasicMessage,
    entries: list[Any],
    content: dict[int, Any],
    notes: Notes,
    to_basic: Callable[[Message, Notes], BasicMessage],
) -> Message:
    """Make the 1.0 message that a 0-9-1 message was, with the edits made to it since.

    Args:
        basic: the message.
        entries: of its headers, without the residual.
        content: the residual.
        notes: takes the losses.
        to_basic: the other direction, to see what was edited.

    Raises:
        AmqpError, ValueError: the residual is not what this library wrote.
    """
    if WHOLE in content or PAYLOAD in content:
        return _restored_whole(basic, entries, content, notes, to_basic)
    original = _original(content)
    known = _names_of(original)
    plain, made = _plain(basic, entries, known, notes, content)
    return _assembled(plain, made, content, original, known, notes)


def _plain(
    basic: BasicMessage,
    entries: list[Any],
    known: set[str],
    notes: Notes,
    content: dict[int, Any],
) -> tuple[BasicMessage, Natural]:
    """Return the message without residual and RabbitMQ's additions, and what it becomes."""
    if basic.exchange or basic.routing_key:
        basic, kept = without_facts(basic, entries, notes, known)
        entries = kept or []
    places = content.get(PLACES, [])
    if places and is_in_name_order(entries):
        entries = _in_places(places, entries, known)
    table = FieldTable.of(entries) if entries else None
    plain = with_headers(basic, table)
    return plain, natural(plain, entries or None, _UNHEEDED)


def _in_places(places: list[int], entries: list[Any], known: set[str]) -> list[Any]:
    """Return headers in their order before they were sorted, and a dead letter's history behind."""
    own: list[Any] = []
    history: list[Any] = []
    for entry in entries:
        added = HEADERS.get(entry[0]) == entry[1] and entry[0] not in known
        (history if added else own).append(entry)
    if len(own) != len(places):
        return entries
    return [entry for _, entry in sorted(zip(places, own, strict=True))] + history


def _original(content: dict[int, Any]) -> Any:
    """Return the message annotations in a residual."""
    raw = content.get(MESSAGE_ANNOTATIONS_CODE)
    return {} if raw is None else Message.decode(raw).message_annotations or {}


def _names_of(annotations: Any) -> set[str]:
    """Return the names of the headers that annotations become."""
    return {
        found[0]
        for key, value in annotations.items()
        if (found := header_of(key)) is not None and header_field(found[0], value)[0]
    }


def _restored_whole(
    basic: BasicMessage,
    entries: list[Any],
    content: dict[int, Any],
    notes: Notes,
    to_basic: Callable[[Message, Notes], BasicMessage],
) -> Message:
    wire = basic.body if PAYLOAD in content else content[WHOLE]
    try:
        original = Message.decode(wire, limits=UNLIMITED)
    except DecodeError:
        original = Message.decode(wire, limits=UNLIMITED, strict=False)
    original.message_format = content.get(FORMAT, 0)
    before = to_basic(original, Notes())
    held = before.properties.headers
    rest = held.entries[:-1] if isinstance(held, FieldTable) else []
    basic, made = _plain(basic, entries, {entry[0] for entry in rest}, notes, {})
    if original._lenient and basic.properties.expiration is None:
        # A dead letter lost it, and keeps it in the history: no edit, as that could not be merged.
        properties = attrs.evolve(basic.properties, expiration=former_expiration(entries))
        basic = attrs.evolve(basic, properties=properties)
    table = basic.properties.headers
    now = table.entries if isinstance(table, FieldTable) else []
    # RabbitMQ sorts the headers when it adds one.
    if (in_name_order(rest), attrs.evolve(before.properties, headers=None)) == (
        in_name_order(now),
        attrs.evolve(basic.properties, headers=None),
    ) and _is_same_body(before, basic):
        return original
    if original._lenient:
        notes.dropped(
            "", len(wire), "the message was edited, and its original cannot be merged with that"
        )
        return natural(basic, now or None, notes).message(basic)
    sections: dict[int, Any] = {}
    heads = []
    for code, start, place, end in kernel.Reader(wire, 0, UNLIMITED).scan():
        if code == DATA_CODE:
            heads.append(wire[start : place + HEAD_SIZES[wire[place]]])
        elif code not in BODY_CODES:
            sections[code] = wire[start:end]
    if PAYLOAD in content:
        return _merged_payload(original, basic, made, sections, notes)
    if heads:
        sections[SHAPE] = heads
    annotations = _original(sections)
    return _assembled(basic, made, sections, annotations, _names_of(annotations), notes)


def _merged_payload(
    original: Message, basic: BasicMessage, made: Natural, content: dict[int, Any], notes: Notes
) -> Message:
    """Return the message that the payload is, with the edits of properties and added headers."""
    own = {code: content[code] for code in (HEADER_CODE, PROPERTIES_CODE) if code in content}
    for name in ("content_type", "content_encoding"):  # of the body: the payload has another
        value = getattr(original.properties, name, None)
        if value is not None and getattr(basic.properties, name) is None:
            setattr(basic.properties, name, str(value))
    edited = _assembled(basic, made, own, {}, set(), notes)
    changes: dict[str, Any] = {"header": edited.header, "properties": edited.properties}
    for name in ("message_annotations", "application_properties"):
        added = getattr(edited, name)
        if added:
            changes[name] = {**(getattr(original, name) or {}), **added}
    return original.evolve(**changes)


def former_expiration(entries: list[Any]) -> str | None:
    """Return the expiration that a message had before RabbitMQ made it a dead letter."""
    for name, letter, value in entries:
        if name == "x-death" and letter == "A":
            for kind, death in value.entries:
                if kind == "F" and "original-expiration" in death:
                    return str(death["original-expiration"])
    return None


def _is_same_body(before: BasicMessage, basic: BasicMessage) -> bool:
    """Whether a body is the same: a stream encodes anew what the type says are sections."""
    if before.body == basic.body:
        return True
    if basic.properties.type != MARKER:
        return False
    was, now = body_of(before.body), body_of(basic.body)
    return was is not None and now is not None and identical(was.body, now.body)


def _assembled(
    basic: BasicMessage,
    made: Natural,
    content: dict[int, Any],
    original: Any,
    known: set[str],
    notes: Notes,
) -> Message:
    """Put the sections together, each as it was where nothing of it was edited.

    Args:
        basic: the message without the residual.
        made: what it becomes by the rules.
        content: the residual.
        original: the annotations in it.
        known: the names of the headers that they became.
        notes: takes the losses.
    """
    header = header_octets(basic, made, content)
    properties, kept = properties_octets(basic, made, content, notes)
    for row in ROWS if kept else ():
        if row.field in kept:
            made.annotations.pop(row.annotation, None)
            made.carried.pop(row.number, None)
    headers = _by_name(basic)
    application, claimed = application_octets(headers, made, content, known)
    annotations = annotations_octets(basic, headers, made, content, original, claimed, known, notes)
    octets = (
        header,
        content.get(DELIVERY_ANNOTATIONS_CODE, b""),
        annotations,
        properties,
        application,
        body_octets(basic, made, content),
        content.get(FOOTER_CODE, b""),
    )
    return Message.decode(b"".join(octets), message_format=content.get(FORMAT, 0))


def _by_name(basic: BasicMessage) -> dict[str, tuple[str, Any]]:
    table = basic.properties.headers
    found: dict[str, tuple[str, Any]] = {}
    for name, letter, value in table.entries if isinstance(table, FieldTable) else ():
        found.setdefault(name, (letter, value))
    return found
